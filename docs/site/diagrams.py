"""Draws the flowcharts of the pages without a script: Mermaid's, which repositories show, as boxes in rows.

Only what the pages use is read: `name["words"]` for a box, and `one & two --> three & four` for arrows, written from
the top down, each line's right side being the next row.
"""

from __future__ import annotations

import re
from html import escape

_DIAGRAM = re.compile(r"^```mermaid\nflowchart TD\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_BOX = re.compile(r'^\s*(\w+)\["(.*)"\]$', re.MULTILINE)
_ARROW = re.compile(r"^\s*(\w+(?: & \w+)*) --> (\w+(?: & \w+)*)$", re.MULTILINE)


def drawn(text: str) -> str:
    """The text of a page with its flowcharts as HTML."""
    return _DIAGRAM.sub(lambda diagram: _html(diagram[1]), text)


def _html(diagram: str) -> str:
    boxes = dict(_BOX.findall(diagram))
    arrows = _ARROW.findall(diagram)
    rows = [arrows[0][0], *(below for _, below in arrows)]
    written = []
    for row in rows:
        cells = []
        for name in row.split(" & "):
            head, _, words = boxes[name].partition("<br>")
            cells.append(f"<div><b>{escape(head)}</b> {escape(words.replace('<br>', ' '))}</div>")
        written.append(f'<div class="layer">{"".join(cells)}</div>')
    return '<div class="layers">\n' + '\n<div class="arrow">&darr;</div>\n'.join(written) + "\n</div>\n"
