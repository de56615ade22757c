"""Pictures of Tensor Memory: operands in 128 lanes x columns, and the data path layouts A to G side by side."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from isa.mapping import Integers, Mapping
from isa.tensor_memory.address import TMEM_LANES
from isa.tensor_memory.datapath import HALF, LAYOUTS, DatapathLayout
from simulator.layout import Operand, Selection
from simulator.tables import runs_in_words
from simulator.views.drawing.elements import data
from simulator.views.drawing.marks import GLYPH, Mark
from simulator.views.drawing.palettes import colours, number
from simulator.views.drawing.registers import attributes, filler, lane_panels, records
from simulator.views.drawing.sizes import NATURAL, fitted, size_of
from simulator.views.drawing.svg import HATCH, PAGE, Cell, Panel, Picture, figure, flow

WIDE = 620.0  # pixels for the columns of a panel without text
_FULL = 16  # slots up to which each cell has text


def tmem_panels(
    operand: Operand, palette: str, selection: Selection | None = None, *, brief: bool = False
) -> list[Panel]:
    """Panels of one operand. A narrow one has text in each cell unless it is to be `brief`; a wide one has small cells,
    with the rows and columns of each block of 16 lanes written over them."""
    slots = operand.words * operand.parts
    if slots <= _FULL and not brief:
        panels = lane_panels(operand, palette, selection, strip=_FULL)
        for panel in panels:
            panel.ticks = (0, operand.parts)
        return panels
    return [wide_panel(operand, palette, height=2.0 if brief else 6.0)]


def wide_panel(operand: Operand, palette: str, height: float = 6.0) -> Panel:
    """Lanes x columns in small cells, coloured by groups of 16 rows; the content of each block of 16 lanes is written
    over it, and blocks that hold nothing are hatched; what is not to be shown stays empty. `height` is that of a lane,
    pixels."""
    slots = operand.words * operand.parts
    blocks = _blocks(operand)
    letters = max(len(words) for words in blocks.values())
    table = operand.table
    slot = _slots(operand, table)
    used = range(int(slot.min()), int(slot.max()) + 1)
    width = max(min(12.0, max(1.2, WIDE / slots)), (letters + 2) * 10 * GLYPH / len(used))
    fill = filler(palette, operand)
    grid: list[list[Cell | None]] = [[None] * slots for _ in range(operand.lanes)]
    for values, place in zip(records(operand), slot.tolist(), strict=True):
        row, _, _, lane, _, _, _ = values
        grid[lane][place] = Cell(fill(row, lane), (), attributes(operand, values))
    for first in range(0, operand.lanes, HALF):
        held = sorted(set(_slots(operand, operand.whole)[operand.whole["lane"] // HALF == first // HALF].tolist()))
        for before, after in pairwise([-1, *held, slots]):
            if after - before > 1:
                grid[first][before + 1] = Cell(HATCH, span=(HALF, after - before - 1))
    step = max(1, slots // operand.parts // 16) * operand.parts
    columns = [str(slot // operand.parts) if slot % step == 0 else "" for slot in range(slots)]
    lanes = [f"L{lane}" if lane % HALF == 0 else "" for lane in range(operand.lanes)]
    marks = [
        Mark((used.start + used.stop) * width / 2, _middle(table, first, height) + 3, words, 10, HALF * height)
        for first, words in blocks.items()
    ]
    return Panel(
        f"{operand.what}; the words over each block of 16 lanes say what it holds",
        grid,
        lanes,
        columns,
        width,
        height,
        corner="lane\\column",
        marks=marks,
        outline=False,
        ticks=(HALF, 0),
        elastic=True,
        row_names=[f"L{lane}" for lane in range(operand.lanes)],
    )


def _middle(table: dict[str, Integers], first: int, height: float) -> float:
    """The middle of the lanes that are shown of a block of 16, or of all of the block where those are too few for a
    line of text; pixels, if a lane has this height."""
    lanes = table["lane"][table["lane"] // HALF == first // HALF]
    low, high = int(lanes.min()), int(lanes.max()) + 1
    return (low + high) / 2 * height if (high - low) * height >= 12 else (first + HALF / 2) * height


def _slots(operand: Operand, table: dict[str, Integers]) -> Integers:
    """The slot of each element: which part of which column."""
    return table["word"] * operand.parts + table["low"] // operand.bits


def _blocks(operand: Operand) -> dict[int, str]:
    """For each block of 16 lanes that holds anything: its rows and columns, in words."""
    table = operand.table
    words_of_block = {}
    for first in range(0, operand.lanes, HALF):
        here = (table["lane"] >= first) & (table["lane"] < first + HALF)
        if here.any():
            words = [_range(operand.axes[0], table["row"][here]), _range(operand.axes[1], table["column"][here])]
            words += [f"copy {int(table['copy'][here].min())}"] if operand.shape[2:] and operand.shape[2] > 1 else []
            words_of_block[first] = "; ".join(words) if any("," in word for word in words) else ", ".join(words)
    return words_of_block


def _range(name: str, values: Integers) -> str:
    """`rows 0 to 15, 32 to 47`, `k 0 to 63`."""
    numbers = np.unique(values)
    return f"{name}{'s' * (name == 'row' and numbers.size > 1)} {runs_in_words(numbers.tolist())}"


# Data path layouts


def datapath_figure(palette: str, n: int = 64, size: str = "") -> Picture:
    """Layouts A to G, with C and F at both base lanes: which 16 lanes hold which rows of D, and which part of N. They
    come from the mappings of `isa.tensor_memory.datapath`."""
    panels = [_datapath(layout, base, n, palette) for layout in LAYOUTS.values() for base in layout.base_lanes]
    captions = [
        (
            "Each block is 16 lanes of Tensor Memory x the columns that D takes; hatched: not used. Rows are those "
            "of one CTA; with cta_group::2"
        ),
        (
            f"the even rank has the first half of M. N = {n}. Layouts C and F work on one half of every 32 lanes: "
            "D, A, metadata must be in the same."
        ),
        (
            "Source: PTX ISA 9.0, 9.7.16.10.5; D of layout C: inferred, the others published. PTX 9.0's table prints "
            "2x3 for layout E, PTX 9.4's 2x2, as CUTLASS and TVM have it."
        ),
    ]
    title = "Data path layouts of tcgen05.mma"
    if size not in ("", NATURAL):
        return fitted(title, panels, size_of(size), captions=captions, advice="another --size")
    return figure(title, flow(panels, PAGE), captions=captions)


def _datapath(layout: DatapathLayout, base: int, n: int, palette: str) -> Panel:
    shades = colours(palette)
    blocks = _by_block(layout.d(n, base))
    cells: list[list[Cell | None]] = []
    for first in range(0, TMEM_LANES, HALF):
        if first not in blocks:
            cells.append([Cell(HATCH, (), data(first=first))])
            continue
        rows, columns = blocks[first]
        words = (f"rows {rows[0]} to {rows[1]}", f"n {columns[0]} to {columns[1]}")
        fill = shades[number(rows[0], len(shades), tmem=True)]
        cells.append(
            [
                Cell(
                    fill,
                    words,
                    data(
                        layout=layout.name,
                        base=base,
                        first=first,
                        rows="{}:{}".format(*rows),
                        n="{}:{}".format(*columns),
                    ),
                )
            ]
        )
    name = f"{layout.name} at L{base}" if layout.half else layout.name
    title = f"{name}: M = {layout.m}, cta_group::{layout.cta_group}{layout.which}"
    lanes = [f"L{first}" for first in range(0, TMEM_LANES, HALF)]
    about = data(panel=f"layout-{layout.name}-{base}")
    return Panel(
        title,
        cells,
        lanes,
        (),
        150.0,
        26.0,
        ticks=(2, 0),
        below=[f"path {layout.path}" + f", base lane {base}" * layout.half],
        attributes=about,
    )


def _by_block(mapping: Mapping) -> dict[int, tuple[tuple[int, int], tuple[int, int]]]:
    """For the first lane of each 16: (lowest and highest row, lowest and highest n)."""
    lane, _ = mapping.grid
    row, n = np.indices(mapping.shape)
    ranges = {}
    for first in range(0, TMEM_LANES, HALF):
        here = lane // HALF == first // HALF
        if here.any():
            ranges[first] = (int(row[here].min()), int(row[here].max())), (int(n[here].min()), int(n[here].max()))
    return ranges
