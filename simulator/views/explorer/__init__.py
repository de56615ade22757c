"""The explorer: one HTML file that shows where every element and its metadata live. Nothing has to be installed or
loaded from elsewhere.

`page(FORM)` is the file's text. Its data is made by `simulator.views.explorer.data` from the mappings of `isa`; its
scripts hold one evaluator of a mapping's digits, and no layout.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files

from simulator.version import __version__

FIRST = "mma.sp::ordered_metadata.m16n8k32.f32.f16.f16.f32"  # the form that is shown unless another is asked for
SCRIPTS = (
    "mapping",
    "model",
    "tied",
    "state",
    "session",
    "panels",
    "canvas",
    "grid",
    "info",
    "verdicts",
    "steps",
    "compare",
    "memory",
    "quiz",
    "tour",
    "tools",
    "picture",
    "app",
)


def page(form: str = FIRST, palette: str = "", programs: Sequence[str] = ()) -> str:
    """The explorer as one HTML file.

    Args:
        form: the opcode of the form to show first; .sync.aligned and .row.col may be left out.
        palette: the palette to begin with; empty for the default.
        programs: traces and captured launches whose Tensor Memory the page can show; none: an example.

    Raises:
        IsaError: no such form or palette, or one that the explorer does not show.
        ViewError, TraceError, CaptureError, LaunchError: a program that cannot be run, or has nothing in Tensor Memory.
    """
    from simulator.views.drawing.palettes import DEFAULT, colours
    from simulator.views.explorer.data import page_data, shown_form
    from simulator.views.explorer.memory import roles, run_records

    colours(palette or DEFAULT)
    data = {
        **page_data(shown_form(form)), "palette": palette or DEFAULT, "roles": roles(), "runs": run_records(programs)
    }  # fmt: skip
    data_text = json.dumps(data, separators=(",", ":"), ensure_ascii=True).replace("<", "\\u003c")
    sources = [
        '"use strict";\nconst DATA = JSON.parse(document.getElementById("data").textContent);\n',
        *(_part(f"{name}.js") for name in SCRIPTS),
    ]
    scripts = "\n".join(f"<script>\n{source}</script>" for source in sources)
    parts = {
        "/*{{style}}*/": _part("explorer.css"),
        "{{version}}": __version__,
        "{{scripts}}": scripts,
        "{{data}}": data_text,
    }
    text = _part("page.html")
    for mark, part in parts.items():
        text = text.replace(mark, part, 1)
    return text


def _part(name: str) -> str:
    return (files("simulator.views.explorer") / name).read_text(encoding="utf-8")
