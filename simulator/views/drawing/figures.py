"""Composes the whole picture of a form: the usual arrangement of a matrix product (A bottom left, B top right, C and D
bottom right), followed by what sparsity adds."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace
from itertools import zip_longest

from isa import IsaError
from simulator.layout import FormLayout, Operand, Selection
from simulator.layout.tables import PTX_LANES, selectors
from simulator.views.drawing.codes import code_panels, ruler_panel, selector_panel
from simulator.views.drawing.palettes import DEFAULT, colours
from simulator.views.drawing.registers import (
    LEGEND,
    lane_panels,
    logical_panels,
    logical_text,
    matrix_panels,
    stored_panels,
)
from simulator.views.drawing.sizes import NATURAL, Size, laid_out, size_of, too_small
from simulator.views.drawing.svg import PAGE, Panel, Picture, figure, flow
from simulator.views.drawing.tmem import tmem_panels

VIEWS = ("matrix", "lanes")
_LETTERS = 160  # that fit on a line of it


def draw(
    layout: FormLayout,
    operand: str = "all",
    *,
    selection: Selection | None = None,
    palette: str = DEFAULT,
    view: str = "",
    lane: int | None = None,
    size: str = NATURAL,
) -> Picture:
    """A form's layout as a picture.

    Args:
        layout: the layout of the form.
        operand: one operand, or "all" for the whole arrangement.
        selection: concrete metadata: logical and stored A, and codes in their cells.
        palette: a name of `simulator.views.drawing.palettes.PALETTES`.
        view: "matrix" (by element) or "lanes" (by lane and register, or column); "" for what suits the form.
        lane: whose metadata register the ruler shows; by default the first that is read.
        size: "natural", or a name of `simulator.views.drawing.sizes.SIZES`.

    Raises:
        IsaError: no such operand, palette, view, lane or size, or a picture that cannot be read at that size.
    """
    colours(palette)
    if view not in ("", *VIEWS):
        raise IsaError(view, -1, f"no view '{view}'", ", ".join(VIEWS))
    operands = list(layout.operands.values()) if operand == "all" else [layout.operand(operand)]
    view = view or ("lanes" if operands[0].tmem else "matrix")
    if lane is not None and layout.sparsity is not None:
        layout.operands["e"].elements(lane)  # IsaError for a lane that there is not
    asked = _Asked(layout, operand, operands, selection, palette, view, lane)
    title = operands[0].form if operand == "all" else operands[0].title
    captions = _captions(layout, operands, selection)
    if size == NATURAL:
        lines = [line for caption in captions for line in textwrap.wrap(caption, _LETTERS)]
        return figure(title, _rows(asked), formula_lines(operands), lines)
    picture = _sized(asked, title, captions, size_of(size))
    if picture is None:
        raise too_small(size_of(size), _advice(asked, title, captions, size_of(size)))
    return picture


_BRIEF = "Left out at this size: formulas, the logical columns of stored elements, the lanes of each selector."
_BRIEF_TMEM = "At this size the cells of Tensor Memory have no text of their own."


@dataclass(frozen=True)
class _Asked:
    """What `draw` was asked for; its arguments, checked."""

    layout: FormLayout
    operand: str
    operands: list[Operand]
    selection: Selection | None
    palette: str
    view: str
    lane: int | None


def _rows(asked: _Asked, *, brief: bool = False) -> list[list[Panel]]:
    """All panels in rows; in `brief` without text in the cells of Tensor Memory, and without what is said twice."""
    layout, palette, selection = asked.layout, asked.palette, asked.selection
    if asked.view == "lanes":
        rows = [[panel] for each in asked.operands for panel in _by_lanes(layout, each, palette, selection, brief)]
        if asked.operands[0].tmem:
            rows = flow([panel for row in rows for panel in row], PAGE)
    elif asked.operand == "all" and {"a", "b", "c"} <= layout.operands.keys():
        rows = _arranged(layout, palette, selection, brief)
    else:
        panels = (panel for each in asked.operands for panel in _by_elements(layout, each, palette, selection))
        rows = flow(panels, PAGE)
    if layout.sparsity is not None and asked.operand in ("all", "e"):
        rows += _sparse(layout, palette, selection, asked.lane, brief)
    return rows


def _sized(asked: _Asked, title: str, captions: list[str], size: Size) -> Picture | None:
    """The picture in a format, in brief if not all of it can be read there; None if that cannot, either."""
    notes = formula_lines(asked.operands)
    for brief in (False, True):
        panels = [panel for row in _rows(asked, brief=brief) for panel in row]
        left_out = [] if not brief else [_BRIEF_TMEM if asked.operands[0].tmem else _BRIEF]
        picture = laid_out(title, panels, size, notes=notes, captions=captions + left_out)
        if picture is not None:
            return picture
    return None


def _advice(asked: _Asked, title: str, captions: list[str], size: Size) -> str:
    """What can be read at a size at which the picture cannot."""
    if len(asked.operands) > 1:
        alone = [replace(asked, operand=each.name, operands=[each]) for each in asked.operands]
        legible = [each.operand for each in alone if _sized(each, title, captions, size) is not None]
        return f"--operand {' or '.join(legible)}, or a larger --size" if legible else "a larger --size"
    (operand,) = asked.operands
    first, count = operand.rows_shown.start, len(operand.rows_shown)
    while count > 1:
        count = count // 2
        part = operand.narrowed(range(first, first + count))
        if _sized(replace(asked, operands=[part]), title, captions, size) is not None:
            return f"--rows {first}:{first + count}, or a larger --size"
    return "a larger --size"


def _by_lanes(
    layout: FormLayout, operand: Operand, palette: str, selection: Selection | None, brief: bool
) -> list[Panel]:
    if operand.tmem:
        return tmem_panels(operand, palette, selection, brief=brief)
    return lane_panels(operand, palette, selection)


def _by_elements(layout: FormLayout, operand: Operand, palette: str, selection: Selection | None) -> list[Panel]:
    if operand.name == "e":
        return code_panels(layout, selection, palette, operand)
    if operand.name == "a" and selection is not None:
        return matrix_panels(operand, palette, extra=lambda row, column: f"k{logical_text(selection, row, column)}")
    return matrix_panels(operand, palette)


def _arranged(layout: FormLayout, palette: str, selection: Selection | None, brief: bool) -> list[list[Panel]]:
    """B above D, and A to the left of D; a wide A continues below. The corner that stays empty takes the codes and the
    formulas."""
    concrete = None if brief else selection
    a, b = (_by_elements(layout, layout.operands[name], palette, concrete) for name in "ab")
    c, d = layout.operands["c"], layout.operands["d"]
    same = c.mapping == d.mapping and c.bits == d.bits
    results = matrix_panels(d, palette, title=d.what.replace("matrix D", "matrices C and D") if same else "")
    formulas = Panel(
        "",
        [[None]],
        height=0,
        below=[] if brief else formula_lines([each for each in layout.operands.values() if not (same and each is c)]),
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


def _sparse(
    layout: FormLayout, palette: str, selection: Selection | None, lane: int | None, brief: bool
) -> list[list[Panel]]:
    """What sparsity adds: logical A beside stored A, the codes and their owners, the bits of one register, and the
    selectors."""
    panels: list[Panel] = []
    if selection is not None and "a" in layout.operands:
        for pair in zip_longest(
            logical_panels(layout, selection, palette), [] if brief else stored_panels(layout, selection, palette)
        ):  # of a hypothetical pattern there are fewer of the second
            panels += [panel for panel in pair if panel is not None]
    rows = flow(panels)
    metadata = layout.operands["e"]
    shown = int(metadata.table["lane"].min()) if lane is None else lane
    words = sorted(set(metadata.table["word"][metadata.table["lane"] == shown].tolist()))
    rows += [[panel] for word in words[:2] if (panel := ruler_panel(layout, selection, palette, shown, word))]
    selectors = None if brief else selector_panel(layout, palette)
    return rows + ([[selectors]] if selectors else [])


def _captions(layout: FormLayout, operands: list[Operand], selection: Selection | None) -> list[str]:
    lines = (
        [LEGEND] if not operands[0].tmem else ["L#: lane of Tensor Memory; columns count from the operand's address on"]
    )
    if any(selectors(each) > 1 for each in operands):
        lines.append(PTX_LANES)
    if part := ", ".join(_shown(operands[0])) if len(operands) == 1 else "":
        lines.append(f"Shown: {part}; the places of the others are left empty, or left out")
    if layout.unknown:
        lines += list(layout.unknown.values())
    if selection is not None and selection.report:
        lines.append(selection.report)
    sources = {f"{each.section}; {each.evidence}": each.name for each in operands}
    lines += [f"Source: {source}" for source in sources]
    return lines


def _shown(operand: Operand) -> list[str]:
    """Words that say which rows and columns of an operand are shown, where they are not all: `rows 0 to 7`."""
    parts = zip(operand.axes, (operand.rows_shown, operand.columns_shown), operand.shape, strict=False)
    return [
        f"{name}s {part.start} to {part.stop - 1}" if len(part) > 1 else f"{name} {part.start}"
        for name, part, size in parts
        if len(part) < size
    ]
