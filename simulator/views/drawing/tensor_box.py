"""Pictures of the boxes that tensor copies bring to shared memory: lines of 128 bytes, coloured by row of the box."""

from __future__ import annotations

from simulator.layout.tensor_box import BoxLayout, Unit, name_of
from simulator.state.shared import BANK_BYTES, LINE_BYTES
from simulator.views.drawing.elements import data
from simulator.views.drawing.palettes import DEFAULT, colours
from simulator.views.drawing.shared import UNIT, cell_height, cell_width
from simulator.views.drawing.sizes import NATURAL, laid_out, size_of, too_small
from simulator.views.drawing.svg import HATCH, PAGE, Cell, Panel, Picture, figure, flow


def draw_box(layout: BoxLayout, palette: str = DEFAULT, size: str = NATURAL) -> Picture:
    """The picture of a box; hatched bytes stay as they are, and bold names are of elements outside of the tensor.

    IsaError for an unknown palette or size, or a picture that cannot be read at that size.
    """
    panels, captions = [_memory(layout, colours(palette))], list(layout.notes)
    if size == NATURAL:
        return figure(layout.title, flow(panels, PAGE), layout.notes, captions)
    picture = laid_out(layout.title, panels, size_of(size), notes=layout.notes, captions=captions)
    if picture is None:
        raise too_small(size_of(size), "a smaller box, or a larger --size")
    return picture


def _memory(layout: BoxLayout, shades: tuple[str, ...]) -> Panel:
    rows = {unit.coordinates[1:] for unit in layout.units.values()}
    number = {place: index for index, place in enumerate(sorted(rows, key=lambda place: place[::-1]))}

    def cell(unit: Unit | None, address: int) -> Cell:
        if unit is None:
            return Cell(HATCH, (), data(address=address))
        about = data(address=address, bank=address % LINE_BYTES // BANK_BYTES, memory=unit.memory)
        shade = shades[number[unit.coordinates[1:]] % len(shades)]
        return Cell(shade, (name_of(unit),), about, bold=not unit.inside)

    starts = [layout.shared + LINE_BYTES * line for line in layout.lines]
    cells: list[list[Cell | None]] = [
        [cell(unit, start + UNIT * place) for place, unit in enumerate(layout.line(line))]
        for line, start in enumerate(starts)
    ]
    banks = UNIT // BANK_BYTES
    return Panel(
        "lines of 128 bytes of shared memory: coordinates of the first element of each 16 bytes",
        cells,
        [f"0x{start:04x}" for start in starts],
        [f"{banks * place}-{banks * place + banks - 1}" for place in range(LINE_BYTES // UNIT)],
        cell_width(cells),
        cell_height(cells),
        corner="byte\\banks",
        ticks=(8, 0),
        attributes=data(panel="memory"),
    )
