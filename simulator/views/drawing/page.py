"""Makes one self-contained HTML page around a picture. Pointing at a cell highlights its lane, a click keeps it, and
another palette can be chosen; nothing is loaded from a network."""

from __future__ import annotations

import json
from html import escape

from simulator.views.drawing.palettes import PALETTES, colours
from simulator.views.drawing.svg import Picture

_CSS = """
body { font: 14px/1.5 system-ui, sans-serif; margin: 1.5rem; color: #111; background: #fff; }
svg { max-width: 100%; height: auto; }
.lit rect, rect.lit { stroke: #000; stroke-width: 2.2; }
.dim [data-lane]:not(.lit) { opacity: .35; }
pre { background: #f4f4f4; padding: .8rem; overflow-x: auto; }
#said { min-height: 1.5em; font-family: monospace; }
"""
_SCRIPT = """
"use strict";
const svg = document.querySelector("svg"), said = document.getElementById("said");
const cells = [...svg.querySelectorAll("[data-lane][data-bits]")], byLane = new Map();
for (const cell of cells) {
  const lane = cell.dataset.lane;
  if (!byLane.has(lane)) byLane.set(lane, []);
  byLane.get(lane).push(cell);
}
let kept = null, lit = [];
function show(lane) {
  for (const cell of lit) cell.classList.remove("lit");
  lit = lane === null ? [] : byLane.get(lane);
  for (const cell of lit) cell.classList.add("lit");
  svg.classList.toggle("dim", lane !== null);
}
function describe(d) {
  const copy = d.copy ? `, copy ${d.copy}` : "";
  return `${d.operand}[${d.row}][${d.column}]${copy}: lane ${d.lane}, ${UNIT} ${d.reg}, bits ${d.bits}`;
}
svg.addEventListener("pointerover", event => {
  const cell = event.target.closest("[data-lane][data-bits]");
  if (kept === null) show(cell ? cell.dataset.lane : null);
  said.textContent = cell ? describe(cell.dataset) : "";
});
svg.addEventListener("click", event => {
  const cell = event.target.closest("[data-lane][data-bits]");
  kept = cell && kept !== cell.dataset.lane ? cell.dataset.lane : null;
  show(kept);
});
const first = PALETTES[START];
document.getElementById("palette").addEventListener("change", event => {
  const now = PALETTES[event.target.value];
  for (const rect of svg.querySelectorAll("rect[data-fill]")) rect.setAttribute("fill", now[rect.dataset.fill]);
});
for (const rect of svg.querySelectorAll("rect")) {
  const at = first.indexOf(rect.getAttribute("fill"));
  if (at >= 0) rect.dataset.fill = at;
}
"""


def html(picture: Picture, palette: str, unit: str = "register") -> str:
    """The page: the picture, the formulas, and a description of what the pointer is over. `unit` is what the words of a
    lane are called, "register" or "column"."""
    same = {name: values for name, values in PALETTES.items() if len(values) == len(colours(palette))}
    options = "".join(f"<option{' selected' if name == palette else ''}>{name}</option>" for name in same)
    unit = "column" if "<text" in picture.svg and "Tensor Memory" in picture.svg else "register"
    script = f"const PALETTES = {json.dumps(same)}, START = {json.dumps(palette)}, UNIT = {json.dumps(unit)};{_SCRIPT}"
    formulas = (
        f"<h2>Formulas</h2><p>/ divides integers.</p><pre>{escape(chr(10).join(picture.notes))}</pre>"
        if picture.notes
        else ""
    )
    return (
        f'<!doctype html>\n<html lang="en"><head><meta '
        f'charset="utf-8"><title>{escape(picture.title)}</title><style>{_CSS}</style></head><body>\n'
        f"<p>Hover over a cell to see all that its lane holds; click to keep it. Palette: <select "
        f"id=palette>{options}</select></p>"
        f"<p id=said></p>\n<figure "
        f'style="margin:0">{picture.svg}</figure>\n{formulas}\n<script>{script}</script>\n</body></html>\n'
    )
