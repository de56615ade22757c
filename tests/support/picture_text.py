"""Reads the text of pictures back, from the SVG alone: where each line of it is, and what is wrong with that. A line is
wrong if it leaves the page or its panel, lies over another line, or says of cells what is not in them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice

_SVG = "{http://www.w3.org/2000/svg}"
_LETTER, _HIGH = 0.602, 0.8  # width and height of a letter, of its size
_TOUCH = 1.5  # pixels by which boxes of letters may meet: they are higher than most letters
_BAND = 12.0  # pixels: about the height of a line


@dataclass(frozen=True)
class Line:
    """A line of text and its box on the page."""

    words: str
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Line) -> bool:
        """Whether one lies over the other."""
        across = min(self.right, other.right) - max(self.left, other.left)
        return across > _TOUCH and min(self.bottom, other.bottom) - max(self.top, other.top) > _TOUCH


@dataclass
class PanelText:
    """The text of one panel: around its grid, in its cells, and over them; the box of its grid, and the cells."""

    name: str
    around: list[Line] = field(default_factory=list)
    within: list[Line] = field(default_factory=list)
    over: list[Line] = field(default_factory=list)
    left: float = 0.0
    top: float = 0.0
    right: float = 0.0
    bottom: float = 0.0
    cells: list[tuple[dict[str, str], float, float]] = field(default_factory=list)  # attributes, top, height


def _moved(element: ET.Element, x: float, y: float) -> tuple[float, float]:
    found = re.match(r"translate\(([-\d.]+)[ ,]+([-\d.]+)\)", element.get("transform", ""))
    return (x + float(found[1]), y + float(found[2])) if found else (x, y)


def _line(element: ET.Element, x: float, y: float, letters: float) -> Line:
    words, size = "".join(element.itertext()), float(element.get("font-size", letters))
    wide = len(words) * size * _LETTER
    left = x + float(element.get("x", 0)) - {"start": 0.0, "end": wide}.get(element.get("text-anchor", ""), wide / 2)
    base = y + float(element.get("y", 0))
    return Line(words, left, base - size * _HIGH, left + wide, base)


def _panel(group: ET.Element) -> PanelText:
    x, y = _moved(group, 0, 0)
    panel = PanelText(group.get("data-panel", ""))
    for child in group:
        if child.tag == f"{_SVG}text":
            panel.around.append(_line(child, x, y, 9))
            continue
        left, top = _moved(child, x, y)
        panel.left, panel.top, panel.right, panel.bottom = left, top, left, top
        for part in child:
            cell = part.find(f"{_SVG}rect") if part.tag == f"{_SVG}g" else part
            if part.tag == f"{_SVG}path" and (across := re.fullmatch(r"M0 ([\d.]+)H([\d.]+)", part.get("d", ""))):
                panel.right = max(panel.right, left + float(across[2]))
                panel.bottom = max(panel.bottom, top + float(across[1]))
            elif part.tag == f"{_SVG}text":
                panel.over.append(_line(part, left, top, 9))
            elif part.tag in (f"{_SVG}g", f"{_SVG}rect") and cell is not None:
                letters = float(part.get("font-size", 9))
                panel.within += [_line(each, left, top, letters) for each in part.iter(f"{_SVG}text")]
                up, tall = top + float(cell.get("y", 0)), float(cell.get("height", 0))
                panel.right = max(panel.right, left + float(cell.get("x", 0)) + float(cell.get("width", 0)))
                panel.bottom = max(panel.bottom, up + tall)
                panel.cells.append((part.attrib, up, tall))
    return panel


def faults(svg: str) -> list[str]:
    """What is wrong with the text of a picture, a sentence each; empty if nothing is."""
    root = ET.fromstring(svg)
    wide, tall = map(float, root.get("viewBox", "").split()[2:])
    panels = [_panel(group) for group in root.iter(f"{_SVG}g") if group.get("class") == "panel"]
    free = [_line(element, 0, 0, 9) for element in root.findall(f"{_SVG}text")]
    lines = [*free, *chain.from_iterable((*panel.around, *panel.within, *panel.over) for panel in panels)]
    said = [
        f"'{line.words}' leaves the page"
        for line in lines
        if line.left < -0.5 or line.top < -0.5 or line.right > wide + 0.5 or line.bottom > tall + 0.5
    ]
    said += [f"'{one.words}' lies over '{other.words}'" for one, other in _meeting(lines)]
    for panel in panels:
        said += _surplus(panel)
    return said


def _meeting(lines: list[Line]) -> Iterator[tuple[Line, Line]]:
    """Pairs of lines that lie over each other."""
    bands = defaultdict(list)  # of the height of a line or so: those of a band are compared, from left to right
    for line in sorted((line for line in lines if line.words.strip()), key=lambda line: line.left):
        for band in range(int(line.top // _BAND), int(line.bottom // _BAND) + 1):
            bands[band].append(line)
    for band, ordered in bands.items():
        for i, one in enumerate(ordered):
            for other in islice(ordered, i + 1, None):
                if other.left >= one.right:
                    break
                if one.meets(other) and band == max(one.top, other.top) // _BAND:  # in the first that both are in
                    yield one, other


def _surplus(panel: PanelText) -> Iterator[str]:
    """Text inside of a panel's grid that is not there, or says of the cells under it what they do not say; text around
    the grid that is in it."""
    below = 26.0 if panel.name == "ruler" else 0.0  # whose words stand under its bits
    for line in (*panel.within, *panel.over):
        if line.left < panel.left - 1 or line.right > panel.right + 1:
            yield f"'{line.words}' leaves its panel sideways"
        if line.top < panel.top - 0.5 or line.bottom > panel.bottom + below + 0.5:
            yield f"'{line.words}' leaves its panel upwards or downwards"
    for line in panel.around if panel.cells else ():
        if line.right > panel.left + 1 and line.top < panel.bottom - 0.5 and line.bottom > panel.top + 0.5:
            yield f"'{line.words}' is in the cells"
    if panel.name != "ruler" and panel.over:
        yield from _bands(panel)


def _bands(panel: PanelText) -> Iterator[str]:
    """The words over each 16 lanes against the cells under them: rows, columns and copies, each once."""
    tall = min(height for _, _, height in panel.cells)
    held: dict[int, list[dict[str, str]]] = {}
    for about, up, _ in panel.cells:
        if "data-row" in about:
            held.setdefault(round((up - panel.top) / tall) // 16, []).append(about)
    words: dict[int, str] = {}
    for line in sorted(panel.over, key=lambda line: line.top):
        block = int(((line.top + line.bottom) / 2 - panel.top) / tall / 16)
        words[block] = f"{words[block]} {line.words}" if block in words else line.words
    if words.keys() != held.keys():
        yield f"words over the blocks {sorted(words)} of lanes, and cells in {sorted(held)}"
    for block in words.keys() & held.keys():
        cells = held[block]
        said = _axes(words[block])
        found = [{int(cell[f"data-{name}"]) for cell in cells} for name in ("row", "column")]
        if said[:2] != found:
            yield f"'{words[block]}' stands over other cells"
        if len(said) > 2 and min(int(cell.get("data-copy", "0")) for cell in cells) not in said[2]:
            yield f"'{words[block]}' stands over another copy"


def _axes(words: str) -> list[set[int]]:
    """The numbers that the words of a band say, axis by axis: `rows 0 to 15, 32 to 47; k 0 to 63`."""
    return [_numbers(part) for part in re.split(r"[a-z]+ (?=\d)", re.sub(r" to ", "-", words)) if part.strip()]


def _numbers(words: str) -> set[int]:
    """The numbers of `0-15, 32-47`."""
    ends = [list(map(int, run.split("-"))) for run in re.findall(r"\d+(?:-\d+)?", words)]
    return {number for run in ends for number in range(run[0], run[-1] + 1)}
