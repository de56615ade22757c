"""What an execution of a tcgen05 instruction reads and writes, for the log of a checked run: bytes of shared memory and cells of Tensor Memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.datapath import A_COLUMNS, DatapathLayout, datapath
from isa.descriptors import InstructionDescriptor
from isa.smem_descriptor import SharedMemoryDescriptor
from isa.smem_layout import smem_operand, touched
from isa.smem_tile import copy_addresses
from isa.tensor_memory import COLUMNS, QUARTER, TmemAddress
from isa.tmem_metadata import tmem_metadata
from isa.tmem_moves import SHIFT_COLUMNS, Copy, Move
from isa.tmem_scales import tmem_scales
from simulator.execute.machine import Machine, Region
from simulator.execute.tcgen05.multiply import Call

Cells = NDArray[np.int64]


class Touched(NamedTuple):
    """Regions that are read, and that are written, in the order of `Machine.note`."""

    reads: tuple[Region, ...]
    writes: tuple[Region, ...]


def _cells(lanes: Cells, columns: Cells) -> Cells:
    """Numbers of cells: lane * 512 + column, of arrays that broadcast."""
    return np.unique(lanes * COLUMNS + columns)


def of_mma(call: Call, ctas: Sequence[Machine]) -> Touched:
    """A, B, metadata, scale factors and D of every CTA."""
    form, idesc = call.form, InstructionDescriptor.decode(call.idesc, call.form.kind)
    layout = datapath(idesc.m, form.cta_group, idesc.sparse, form.ws)
    d = _accumulators(call, idesc, layout)
    tmem = [*_operands(call, idesc, layout), *([d] if call.enable else [])]
    reads = []
    for cta in ctas:
        reads += [Region("shared", cta.rank, _shared(call, idesc, operand)) for operand in ("b", *(() if form.a_in_tmem else ("a",)))]
        reads += [Region("tmem", cta.rank, cells) for cells in tmem]
    return Touched(tuple(reads), tuple(Region("tmem", cta.rank, d) for cta in ctas))


def _accumulators(call: Call, idesc: InstructionDescriptor, layout: DatapathLayout) -> Cells:
    address = TmemAddress.from_word(call.d)
    lane, column = layout.d(idesc.n, address.lane).grid
    return _cells(lane, column + address.column)


def _operands(call: Call, idesc: InstructionDescriptor, layout: DatapathLayout) -> list[Cells]:
    """Cells of A, metadata and scale factors, where they are in Tensor Memory."""
    form, found = call.form, []
    if form.a_in_tmem:
        address = TmemAddress.from_word(call.a)
        lane, column, _ = layout.a(32, address.lane).grid
        found.append(_cells(lane, column + address.column))
        assert column.max() < A_COLUMNS
    if form.sparse:
        address = TmemAddress.from_word(call.sp_meta)
        lane, column, _ = tmem_metadata(form.kind, idesc.m, form.cta_group, form.ws).mapping(idesc.selector, address.lane).grid
        found.append(_cells(lane, column + address.column))
    if form.block_scale:
        for operand, word, id in (("a", call.scale_a, idesc.a_scale_id), ("b", call.scale_b, idesc.b_scale_id)):
            how = {"vector": form.vector.removeprefix("scale_vec::"), "cta_group": form.cta_group, "sparse": form.sparse}
            scales = tmem_scales(form.kind, operand, m=idesc.m, n=idesc.n, **how)  # type: ignore[arg-type]
            lane, column, _ = (grid[: scales.vectors] for grid in scales.mapping(id).grid)
            found.append(_cells(lane, column + TmemAddress.from_word(word).column))
    return found


def _shared(call: Call, idesc: InstructionDescriptor, operand: str) -> Cells:
    descriptor = SharedMemoryDescriptor.decode(call.a if operand == "a" else call.b)
    spec = smem_operand(idesc, operand, cta_group=call.form.cta_group)
    ranges = touched(descriptor, major=spec.major, rows=spec.rows, columns=spec.columns, element=spec.element)
    return np.concatenate([np.arange(first, stop) for first, stop in ranges])


def of_move(cta: Machine, address: int, how: Move) -> tuple[Region, ...]:
    """Cells of a tcgen05.ld or st."""
    base = TmemAddress.from_word(address)
    lane, column = how.cells
    return (Region("tmem", cta.rank, _cells(lane + base.lane, column + base.column)),)


def of_copy(ctas: Sequence[Machine], address: int, word: int, how: Copy) -> Touched:
    """Bytes and cells of a tcgen05.cp."""
    base, start = TmemAddress.from_word(address), copy_addresses(SharedMemoryDescriptor.decode(word), how.shape)
    lane, column, _ = how.mapping.grid
    source, cells = np.unique(start[..., None] + np.arange(16)), _cells(lane + base.lane, column + base.column)
    return Touched(tuple(Region("shared", cta.rank, source) for cta in ctas), tuple(Region("tmem", cta.rank, cells) for cta in ctas))


def of_shift(ctas: Sequence[Machine], address: int) -> Touched:
    """Cells of a tcgen05.shift: a quarter of the lanes, 8 columns."""
    base = TmemAddress.from_word(address)
    cells = _cells(base.lane + np.arange(QUARTER)[:, None], base.column + np.arange(SHIFT_COLUMNS))
    both = tuple(Region("tmem", cta.rank, cells) for cta in ctas)
    return Touched(both, both)


def of_barriers(machine: Machine, targets: Sequence[int]) -> tuple[Region, ...]:
    """mbarriers that a commit arrives on."""
    located = [machine.located(target) for target in targets]
    return tuple(Region("mbarrier", cta.rank, np.array([offset], np.int64)) for cta, offset in located)
