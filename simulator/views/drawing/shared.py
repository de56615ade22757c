"""Pictures of matrices in shared memory: which 16 bytes lie in which line of 128 bytes and which banks, and what an
instruction reads of them, 8 units at a time."""

from __future__ import annotations

from dataclasses import replace

from simulator.layout.shared import Phase, SharedLayout
from simulator.state.shared import BANK_BYTES, LINE_BYTES
from simulator.views.drawing.elements import data
from simulator.views.drawing.marks import GLYPH, SIZE
from simulator.views.drawing.palettes import DEFAULT, colours
from simulator.views.drawing.sizes import NATURAL, Size, laid_out, size_of, too_small
from simulator.views.drawing.svg import HATCH, PAGE, Cell, Panel, Picture, figure, flow

UNIT = 16
_BANKS = UNIT // BANK_BYTES


def draw_shared(layout: SharedLayout, palette: str = DEFAULT, size: str = NATURAL) -> Picture:
    """The picture of a matrix in shared memory; units that are read have a strong border, and say by whom.

    IsaError for an unknown palette or size, or a picture that cannot be read at that size.
    """
    panels = _panels(layout, palette)
    captions = [line for line in layout.notes if not line.startswith(" ")]
    if size == NATURAL:
        return figure(layout.title, flow(panels, PAGE), layout.notes, captions)
    picture = laid_out(layout.title, panels, size_of(size), notes=layout.notes, captions=captions)
    if picture is None:
        raise too_small(size_of(size), _advice(layout, captions, size_of(size)))
    return picture


def _panels(layout: SharedLayout, palette: str) -> list[Panel]:
    shades = colours(palette)
    reads = [_phases(layout, shades)] if layout.read is not None else []
    return [_memory(layout, shades), _matrix(layout, shades), *reads]


def _advice(layout: SharedLayout, captions: list[str], size: Size) -> str:
    """How many rows can be read at a size at which the picture cannot."""
    count = layout.tile.rows
    while layout.tile.major == "K" and count > 8:
        count //= 2
        part = replace(layout, rows=range(count), read=None)
        if laid_out(layout.title, _panels(part, DEFAULT), size, captions=captions) is not None:
            return f"--rows {count}, or a larger --size"
    return "a smaller matrix, or a larger --size"


def _memory(layout: SharedLayout, shades: tuple[str, ...]) -> Panel:
    """Memory as it lies: lines of 128 bytes, each of 8 units in 4 banks."""
    cells: list[list[Cell | None]] = []
    for start, units in layout.lines:
        line: list[Cell | None] = []
        for i, place in enumerate(units):
            line.append(
                Cell(HATCH, (), data(address=start + UNIT * i)) if place is None else _unit(layout, shades, *place)
            )
        cells.append(line)
    heads = [f"{_BANKS * i}-{_BANKS * i + 3}" for i in range(LINE_BYTES // UNIT)]
    return Panel(
        "lines of 128 bytes: what each 16 bytes, four banks, hold",
        cells,
        [f"0x{start:04x}" for start, _ in layout.lines],
        heads,
        cell_width(cells),
        cell_height(cells),
        corner="byte\\banks",
        ticks=(8, 0),
        attributes=data(panel="memory"),
    )


def _unit(layout: SharedLayout, shades: tuple[str, ...], line: int, unit: int) -> Cell:
    address, mark = int(layout.units[line, unit]), layout.mark(line, unit)
    words = [*layout.unit_name(line, unit), *([mark.removeprefix(" <")] if mark else [])]
    about = data(line=line, unit=unit, address=address, bank=address % LINE_BYTES // BANK_BYTES)
    return Cell(shades[line % len(shades)], tuple(words), about, bold=bool(mark))


def _matrix(layout: SharedLayout, shades: tuple[str, ...]) -> Panel:
    """The matrix: where each of its 16-byte units lies."""
    k_major, (lines, units) = layout.tile.major == "K", layout.units.shape
    cells: list[list[Cell | None]] = []
    labels = []
    for line in range(lines):
        row: list[Cell | None] = []
        for unit in range(units):
            if not layout.shown[line, unit]:
                continue
            address = int(layout.units[line, unit])
            bank = address % LINE_BYTES // BANK_BYTES
            about = data(matrix=f"{line},{unit}", place=address)
            words = (f"0x{address:04x}", f"b{bank}-{bank + 3}")
            row.append(Cell(shades[line % len(shades)], words, about, bool(layout.mark(line, unit))))
        if row:
            cells.append(row)
            labels.append(str(line))
    heads = [layout.unit_name(0, unit)[1][1:] for unit in range(units) if layout.shown[:, unit].any()]
    names = ("row", "k") if k_major else ("k", "row")
    return Panel(
        f"the matrix: byte address and banks of each 16 bytes; {names[0]} down, {names[1]} across",
        cells,
        labels,
        heads,
        cell_width(cells),
        cell_height(cells),
        corner="\\".join(names),
        ticks=(8, 0),
        attributes=data(panel="matrix"),
    )


def _phases(layout: SharedLayout, shades: tuple[str, ...]) -> Panel:
    """What is read at once: for each 8 units which banks they want; two in one bank are a conflict."""
    assert layout.read is not None
    by_lanes = layout.read.descriptor is None
    cells = [_phase(layout, phase, shades) for phase in layout.read.phases]
    labels = [
        phase.name + (f": {phase.wavefronts} wavefront{'s' * (phase.wavefronts > 1)}" if phase.lanes else f" (m{i})")
        for i, phase in enumerate(layout.read.phases)
    ]
    what = (
        "lanes' addresses by bank; two in one bank take a wavefront each" if by_lanes else "blocks of 128 bytes by bank"
    )
    return Panel(
        f"{layout.read.name}: {what}",
        cells,
        labels,
        [f"{_BANKS * i}-{_BANKS * i + 3}" for i in range(LINE_BYTES // UNIT)],
        max(40.0, cell_width(cells)),
        cell_height(cells),
        corner="read\\banks",
        attributes=data(panel="reads"),
    )


def _phase(layout: SharedLayout, phase: Phase, shades: tuple[str, ...]) -> list[Cell | None]:
    row: list[Cell | None] = []
    for i in range(LINE_BYTES // UNIT):
        wanted = [j for j, bank in enumerate(phase.banks) if bank == i * _BANKS]
        if not wanted:
            row.append(Cell(HATCH, (), data(phase=phase.name, bank=i * _BANKS, wanted="")))
            continue
        names = [f"T{phase.lanes[j]}" if phase.lanes else layout.unit_name(*phase.units[j])[0] for j in wanted]
        lines = [" ".join(names[j : j + 4]) for j in range(0, len(names), 4)]
        about = data(phase=phase.name, bank=i * _BANKS, wanted=",".join(str(phase.addresses[j]) for j in wanted))
        row.append(Cell(shades[phase.units[wanted[0]][0] % len(shades)], tuple(lines), about, bold=len(wanted) > 1))
    return row


def cell_width(cells: list[list[Cell | None]]) -> float:
    longest = max((len(words) for line in cells for cell in line if cell for words in cell.lines), default=1)
    return max(30.0, longest * SIZE * GLYPH + 6)


def cell_height(cells: list[list[Cell | None]]) -> float:
    return 11.0 * max((len(cell.lines) for line in cells for cell in line if cell), default=1) + 3
