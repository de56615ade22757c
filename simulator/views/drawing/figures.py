"""Composes the whole picture of a form: the usual arrangement of a matrix product (A bottom left, B top right, C and D
bottom right), followed by what sparsity adds."""

from __future__ import annotations

import textwrap
from itertools import zip_longest

from isa import IsaError
from simulator.layout import FormLayout, Operand, Selection
from simulator.views.drawing.codes import code_panels, ruler_panel, selector_panel
from simulator.views.drawing.palettes import DEFAULT, colours
from simulator.views.drawing.registers import (
    LEGEND,
    compressed_panels,
    lane_panels,
    logical_panels,
    logical_text,
    matrix_panels,
)
from simulator.views.drawing.svg import Panel, Picture, figure, flow
from simulator.views.drawing.tmem import tmem_panels

VIEWS = ("matrix", "lanes")
PAGE = 920.0  # width of a figure that stays legible on a page, pixels
_LETTERS = 160  # that fit on a line of it


def draw(
    layout: FormLayout,
    operand: str = "all",
    *,
    selection: Selection | None = None,
    palette: str = DEFAULT,
    view: str = "",
    lane: int | None = None,
) -> Picture:
    """A form's layout as a picture.

    Args:
        layout: the layout of the form.
        operand: one operand, or "all" for the whole arrangement.
        selection: concrete metadata: logical and compressed A, and codes in their cells.
        palette: a name of `simulator.views.drawing.palettes.PALETTES`.
        view: "matrix" (by element) or "lanes" (by lane and register, or column); "" for what suits the form.
        lane: whose metadata register the ruler shows; by default the first that is read.

    Raises:
        IsaError: no such operand, palette, view or lane.
    """
    colours(palette)
    if view not in ("", *VIEWS):
        raise IsaError(view, -1, f"no view '{view}'", ", ".join(VIEWS))
    operands = list(layout.operands.values()) if operand == "all" else [layout.operand(operand)]
    view = view or ("lanes" if operands[0].tmem else "matrix")
    if lane is not None and layout.sparsity is not None:
        layout.operands["e"].elements(lane)  # IsaError for a lane that there is not
    title = operands[0].form if operand == "all" else operands[0].title
    if view == "lanes":
        rows = [[panel] for each in operands for panel in _by_lanes(layout, each, palette, selection)]
        if operands[0].tmem:
            rows = flow([panel for row in rows for panel in row], PAGE)
    elif operand == "all" and {"a", "b", "c"} <= layout.operands.keys():
        rows = _arranged(layout, palette, selection)
    else:
        rows = flow([panel for each in operands for panel in _by_elements(layout, each, palette, selection)], PAGE)
    if layout.sparsity is not None and operand in ("all", "e"):
        rows += _sparse(layout, palette, selection, lane)
    captions = [line for caption in _captions(layout, operands, selection) for line in textwrap.wrap(caption, _LETTERS)]
    return figure(title, rows, formula_lines(operands), captions)


def _by_lanes(layout: FormLayout, operand: Operand, palette: str, selection: Selection | None) -> list[Panel]:
    if operand.tmem:
        return tmem_panels(layout, operand.name, palette, selection)
    return lane_panels(operand, palette, selection)


def _by_elements(layout: FormLayout, operand: Operand, palette: str, selection: Selection | None) -> list[Panel]:
    if operand.name == "e":
        return code_panels(layout, selection, palette)
    if operand.name == "a" and selection is not None:
        return matrix_panels(operand, palette, extra=lambda row, column: f"k{logical_text(selection, row, column)}")
    return matrix_panels(operand, palette)


def _arranged(layout: FormLayout, palette: str, selection: Selection | None) -> list[list[Panel]]:
    """B above D, and A to the left of D; a wide A continues below. The corner that stays empty takes the codes and the
    formulas."""
    a, b = (_by_elements(layout, layout.operands[name], palette, selection) for name in "ab")
    c, d = layout.operands["c"], layout.operands["d"]
    same = c.mapping == d.mapping and c.bits == d.bits
    results = matrix_panels(d, palette, title=d.what.replace("matrix D", "matrices C and D") if same else "")
    formulas = Panel(
        "",
        [[None]],
        height=0,
        below=formula_lines([each for each in layout.operands.values() if not (same and each is c)]),
    )
    codes = code_panels(layout, selection, palette) if "e" in layout.operands else []
    if len(b) == 1:
        corner = formulas
        if len(codes) == 1:
            corner = codes.pop()
            corner.below = formulas.below
        a[0].least = corner.least = max(corner.extent[0], a[0].extent[0])
        top = [[corner, b[0]]]
    else:
        top = flow(b, PAGE)
        codes.append(formulas)
    rows = [*top, [a[0], results[0]], *([strip] for strip in (*a[1:], *results[1:]))]
    if not same:
        rows += flow(matrix_panels(c, palette))
    scales = [
        panel
        for name in ("scale_a", "scale_b")
        if name in layout.operands
        for panel in matrix_panels(layout.operands[name], palette)
    ]
    return rows + flow(scales, PAGE) + flow(codes, PAGE)


def formula_lines(operands: list[Operand]) -> list[str]:
    """The formulas of every operand, such as `a: lane = ...`; `/` divides integers."""
    lines = []
    for each in operands:
        trivial = {name for name, size in each.mapping.places if size == 1}
        lines += [
            f"{each.name + ':':<9}{name} = {formula}"
            for name, formula in each.formulas().items()
            if name not in trivial
        ]
    return lines


def _sparse(layout: FormLayout, palette: str, selection: Selection | None, lane: int | None) -> list[list[Panel]]:
    """What sparsity adds: logical A beside compressed A, the codes and their owners, the bits of one register, and the
    selectors."""
    panels: list[Panel] = []
    if selection is not None and "a" in layout.operands:
        for pair in zip_longest(
            logical_panels(layout, selection, palette), compressed_panels(layout, selection, palette)
        ):  # of a hypothetical pattern there are fewer of the second
            panels += [panel for panel in pair if panel is not None]
    rows = flow(panels)
    metadata = layout.operands["e"]
    shown = int(metadata.table["lane"].min()) if lane is None else lane
    words = sorted(set(metadata.table["word"][metadata.table["lane"] == shown].tolist()))
    rows += [[panel] for word in words[:2] if (panel := ruler_panel(layout, selection, palette, shown, word))]
    selectors = selector_panel(layout, palette)
    return rows + ([[selectors]] if selectors else [])


def _captions(layout: FormLayout, operands: list[Operand], selection: Selection | None) -> list[str]:
    lines = (
        [LEGEND] if not operands[0].tmem else ["L#: lane of Tensor Memory; columns count from the operand's address on"]
    )
    if layout.unknown:
        lines += list(layout.unknown.values())
    if selection is not None and selection.report:
        lines.append(selection.report)
    sources = {f"{each.section}; {each.evidence}": each.name for each in operands}
    lines += [f"Source: {source}" for source in sources]
    return lines
