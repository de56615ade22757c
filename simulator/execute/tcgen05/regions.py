"""Tells which bytes of shared memory and cells of Tensor Memory an execution of a tcgen05 instruction touches.

This is worked out only where listeners want to know it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.descriptors.instruction import InstructionDescriptor
from isa.forms.tcgen05 import Tcgen05MmaForm
from isa.shared_memory.descriptor import SharedMemoryDescriptor
from isa.shared_memory.layout import smem_operand, touched
from isa.shared_memory.tile import copy_addresses
from isa.tensor_memory.address import COLUMNS, QUARTER, TmemAddress
from isa.tensor_memory.copies import Copy
from isa.tensor_memory.datapath import DatapathLayout, datapath
from isa.tensor_memory.metadata import tmem_metadata
from isa.tensor_memory.moves import SHIFT_COLUMNS, Move
from isa.tensor_memory.scales import tmem_scales
from simulator.execute.events import Region
from simulator.execute.holder import Holder
from simulator.execute.tcgen05.fetch import instruction_descriptor
from simulator.execute.tcgen05.plan import Call

Cells = NDArray[np.int64]


class Touched(NamedTuple):
    """Regions that are read, and that are written, in the order of `CtaState.note`."""

    reads: tuple[Region, ...]
    writes: tuple[Region, ...]


def _cells(lanes: Cells, columns: Cells) -> Cells:
    """Numbers of cells: lane * 512 + column, of arrays that broadcast."""
    return np.unique(lanes * COLUMNS + columns)


def of_mma(call: Call, ctas: Sequence[Holder]) -> Touched:
    """The regions of A, B, metadata, scale factors and D of every CTA."""
    form = call.form
    shared = [("B", _shared(form.kind, call.idesc, "b", call.b, form.cta_group))]
    shared += [] if form.a_in_tmem else [("A", _shared(form.kind, call.idesc, "a", call.a, form.cta_group))]
    d, operands = _accumulators(form, call.idesc, call.d), _operands(call)
    tmem = [*operands, ("D", d)] if call.enable else operands
    reads = [
        Region(space, cta.number, cells, role)
        for cta in ctas
        for space, every in (("shared", shared), ("tmem", tmem))
        for role, cells in every
    ]
    return Touched(tuple(reads), tuple(Region("tmem", cta.number, d, "D") for cta in ctas))


_cache: dict[tuple[object, ...], Cells] = {}  # the same operands come again in every loop; never written to


def _kept(key: tuple[object, ...], make: Callable[[], Cells]) -> Cells:
    cells = _cache.get(key)
    if cells is None:
        if len(_cache) > 4096:
            _cache.clear()
        cells = _cache[key] = make()
    return cells


def _layout(form: Tcgen05MmaForm, word: int) -> tuple[InstructionDescriptor, DatapathLayout]:
    idesc = instruction_descriptor(word, form.kind)
    return idesc, datapath(idesc.m, form.cta_group, idesc.sparse, form.ws)


def _accumulators(form: Tcgen05MmaForm, word: int, d: int) -> Cells:
    def make() -> Cells:
        idesc, layout = _layout(form, word)
        address = TmemAddress.from_word(d)
        lane, column = layout.d(idesc.n, address.lane).grid
        return _cells(lane, column + address.column)

    return _kept(("d", form.opcode, word, d), make)


def _operands(call: Call) -> list[tuple[str, Cells]]:
    """Roles and cells of A, metadata and scale factors, where they are in Tensor Memory."""
    form, word, cells = call.form, call.idesc, list[tuple[str, Cells]]()
    if form.a_in_tmem:
        cells.append(("A", _kept(("a", form.opcode, word, call.a), lambda: _tmem_a(form, word, call.a))))
    if form.sparse:
        metadata = _kept(("e", form.opcode, word, call.sp_meta), lambda: _metadata(form, word, call.sp_meta))
        cells.append(("metadata", metadata))
    if form.block_scale:
        for operand, address in (("a", call.scale_a), ("b", call.scale_b)):
            key = operand, "scale", form.opcode, word, address
            factors = _kept(key, partial(_scales, form, word, operand, address))
            cells.append((f"scale factors of {operand.upper()}", factors))
    return cells


def _tmem_a(form: Tcgen05MmaForm, word: int, a: int) -> Cells:
    _, layout = _layout(form, word)
    address = TmemAddress.from_word(a)
    lane, column, _ = layout.a(32, address.lane).grid
    return _cells(lane, column + address.column)


def _metadata(form: Tcgen05MmaForm, word: int, sp_meta: int) -> Cells:
    idesc, _ = _layout(form, word)
    address = TmemAddress.from_word(sp_meta)
    lane, column, _ = (
        tmem_metadata(form.kind, idesc.m, form.cta_group, form.ws).mapping(idesc.selector, address.lane).grid
    )
    return _cells(lane, column + address.column)


def _scales(form: Tcgen05MmaForm, word: int, operand: str, address: int) -> Cells:
    idesc, _ = _layout(form, word)
    vector = form.vector.removeprefix("scale_vec::")
    scales = tmem_scales(
        form.kind, operand, m=idesc.m, n=idesc.n, vector=vector, cta_group=form.cta_group, sparse=form.sparse
    )
    lane, column, _ = (
        grid[: scales.vectors] for grid in scales.mapping(idesc.a_scale_id if operand == "a" else idesc.b_scale_id).grid
    )
    return _cells(lane, column + TmemAddress.of_scales(address).column)


def _shared(kind: str, word: int, operand: str, descriptor: int, cta_group: int) -> Cells:
    def make() -> Cells:
        spec = smem_operand(instruction_descriptor(word, kind), operand, cta_group=cta_group)
        matrix = SharedMemoryDescriptor.decode(descriptor)
        ranges = touched(matrix, major=spec.major, rows=spec.rows, columns=spec.columns, element=spec.element)
        return np.concatenate([np.arange(first, stop) for first, stop in ranges])

    return _kept(("shared", kind, word, operand, descriptor, cta_group), make)


def of_move(cta: Holder, address: int, how: Move) -> tuple[Region, ...]:
    """The cells of a tcgen05.ld or st."""
    base = TmemAddress.from_word(address)
    lane, column = how.cells
    return (Region("tmem", cta.number, _cells(lane + base.lane, column + base.column), "cells"),)


def of_copy(ctas: Sequence[Holder], address: int, word: int, how: Copy) -> Touched:
    """The bytes and cells of a tcgen05.cp."""
    base, start = TmemAddress.from_word(address), copy_addresses(SharedMemoryDescriptor.decode(word), how.shape)
    lane, column, _ = how.mapping.grid
    source, cells = np.unique(start[..., None] + np.arange(16)), _cells(lane + base.lane, column + base.column)
    return Touched(
        tuple(Region("shared", cta.number, source, "bytes") for cta in ctas),
        tuple(Region("tmem", cta.number, cells, "cells") for cta in ctas),
    )


def of_shift(ctas: Sequence[Holder], address: int) -> Touched:
    """The cells of a tcgen05.shift: a quarter of the lanes, 8 columns."""
    base = TmemAddress.from_word(address)
    cells = _cells(base.lane + np.arange(QUARTER)[:, None], base.column + np.arange(SHIFT_COLUMNS))
    both = tuple(Region("tmem", cta.number, cells, "cells") for cta in ctas)
    return Touched(both, both)


def of_barriers(places: Sequence[tuple[Holder, int]]) -> tuple[Region, ...]:
    """The mbarriers that a commit arrives on: CTAs, and offsets in their shared memory."""
    return tuple(Region("mbarrier", cta.number, np.array([offset], np.int64)) for cta, offset in places)
