"""Metadata codes of a `tcgen05.mma.sp` that are not defined: seen before the instruction reads them, and treated as a
policy says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from isa.descriptors.instruction import InstructionDescriptor
from isa.shared_memory.layout import read_operand, smem_operand
from isa.tensor_memory.address import COLUMNS, TmemAddress
from isa.tensor_memory.datapath import datapath
from simulator.execute.tcgen05.fetch import Cta
from simulator.execute.tcgen05.multiply import Call
from simulator.faults.detectors import ordered
from simulator.faults.policies import saturated
from simulator.faults.tcgen05_scene import COLUMN, Shape, put_shared, put_tmem_a


class Codes(NamedTuple):
    """Whether any code is not defined, and whether any does not ascend."""

    undefined: bool
    unordered: bool


def mend(shape: Shape, scene: Sequence[Cta], call: Call, idesc: InstructionDescriptor, policy: str) -> Codes:
    """Looks at the codes that will be read; under "zero" and "saturate" changes those that are not defined, or the
    elements of A with them.

    Nothing of a dense instruction, or where the selector, M or the address is not one: execution refuses these, or says
    what it met.
    """
    undefined = unordered = False
    metadata = shape.metadata if shape.form.sparse else None
    address = TmemAddress.from_word(call.sp_meta)
    if metadata is None or idesc.selector not in metadata.selectors or idesc.m != shape.idesc.m:
        return Codes(False, False)
    if address.lane not in metadata.layout.base_lanes or address.column > COLUMNS - 2:
        return Codes(False, False)
    at = slice(address.column, address.column + 2)
    for cta in scene:
        cells = cta.tmem.words[:, at]
        codes = metadata.gather(cells, idesc.selector, address.lane)
        broken = ~metadata.legal(codes)
        unordered |= bool(ordered(codes[None], metadata.sparsity)[0])
        undefined |= bool(broken.any())
        if not broken.any() or policy not in ("zero", "saturate"):
            continue
        right = saturated(metadata.sparsity)[codes] if policy == "saturate" else np.uint32(metadata.codes[0])
        cta.tmem.words[:, at] = metadata.scatter(
            np.where(broken, right, codes).astype(np.uint32), idesc.selector, address.lane, cells
        )
        if policy == "zero":
            _zero(shape, cta, np.repeat(broken, metadata.sparsity.stored, axis=-1))
    return Codes(undefined, unordered)


def _zero(shape: Shape, cta: Cta, where: Any) -> None:
    """Stored elements of A [row, k] become zero, so that nothing is added for them."""
    form = shape.form
    if form.a_in_tmem:
        bits = shape.element("a").bits
        layout = datapath(shape.idesc.m, form.cta_group, form.sparse, form.ws)
        lane, column, place = (grid[..., 0] for grid in layout.a(bits, shape.base_lane).grid)
        stored = cta.tmem.words[lane, column + COLUMN["a"]] >> (place * bits).astype(np.uint32) & np.uint32(
            (1 << bits) - 1
        )
        put_tmem_a(shape, cta, np.where(where, np.uint32(0), stored).astype(np.uint32))
        return
    spec = smem_operand(shape.idesc, "a", cta_group=form.cta_group)
    stored = read_operand(
        cta.shared, shape.descriptor("a"), major=spec.major, rows=spec.rows, columns=spec.columns, element=spec.element
    )
    put_shared(shape, cta, "a", np.where(where, np.uint32(0), stored).astype(np.uint32))
