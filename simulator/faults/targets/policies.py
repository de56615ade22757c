"""Policies: what is done about metadata codes that are not defined. They exist so that detection schemes can be
compared.

    hardware   what an H100 does: a plain multiplexer, whatever the code (measured November 2026)
    raise      a checker in front of the core: the instruction is not executed, the fault is detected
    zero       the chunk contributes nothing: none of its products is formed
    saturate   indices are made to ascend by saturation: the second is at least the first plus one (a 1:2 code picks the
    element of its upper bits)

`saturate` is a design of this project (assumed): no chip is known to decode like this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from isa.descriptors.instruction import InstructionDescriptor
from isa.forms.mma import MmaForm
from isa.fragments.metadata import Sparsity
from isa.tensor_memory.address import COLUMNS, TmemAddress
from isa.types import Bits
from simulator.arithmetic.formats import decode
from simulator.execute.mma import Scales, execute_mma
from simulator.execute.tcgen05.example import Shape, put_a, stored_a
from simulator.execute.tcgen05.fetch import Cta
from simulator.execute.tcgen05.plan import Call
from simulator.faults.detectors.codes import Mask, code_checks


def saturated(sparsity: Sparsity) -> Bits:
    """For each of the 16 codes the defined code that replaces it: uint32 [16]."""
    codes = np.arange(16, dtype=np.uint32)
    low, high = codes & 3, codes >> 2
    if sparsity.splices:
        return np.where(high >= 2, 0b1110, 0b0100).astype(np.uint32)
    low = np.minimum(low, 2)
    ascending: Bits = (low | np.maximum(high, low + 1) << 2).astype(np.uint32)
    return ascending


def multiply(
    form: MmaForm, a: Bits, b: Bits, c: Bits, e: Bits, selector: int, policy: str, *, scales: Scales | None, **how: Any
) -> Bits:
    """D of each case under a policy. The policy `raise` and a selector that is out of range compute nothing and are
    handled by the caller. Arguments are those of `execute_mma`, which gets `how`."""
    codes = form.metadata.gather(e, selector)
    broken = ~form.metadata.legal(codes)
    if policy == "zero" and broken.any():
        return _without(form, a, b, c, e, selector, broken, scales=scales, **how)
    if policy == "saturate":
        e = form.metadata.scatter(np.where(broken, saturated(form.metadata.sparsity)[codes], codes), selector, e)
    return execute_mma(form, a, b, c, e, selector, scales=scales, **how)


def _without(
    form: MmaForm, a: Bits, b: Bits, c: Bits, e: Bits, selector: int, broken: Mask, *, scales: Scales | None, **how: Any
) -> Bits:
    """D without the products of the chunks in `broken` [case, row, chunk], whose stored elements are set to zero.

    Zero times infinity or NaN would be NaN; rows whose broken chunks meet such elements of B are computed again with
    those elements zero.
    """
    sparsity = form.metadata.sparsity
    stored = np.repeat(broken, sparsity.stored, axis=-1)
    codes = np.where(broken, form.metadata.codes[0], form.metadata.gather(e, selector))
    a = form.a.scatter(np.where(stored, np.uint32(0), form.a.gather(a)))
    e = form.metadata.scatter(codes, selector, e)
    d = execute_mma(form, a, b, c, e, selector, scales=scales, **how)
    if not form.b_type.is_float:
        return d
    matrix = form.b.gather(b)
    bad = np.logical_not(np.isfinite(decode(matrix, form.b_type).value))
    chunk_bad: Mask = np.logical_or.reduce(bad.reshape(len(b), -1, sparsity.chunk * form.n), axis=-1)
    meets: Mask = np.logical_or.reduce(broken & chunk_bad[:, None, :], axis=-1)
    case, row = np.nonzero(meets)
    if len(case):
        gone = np.repeat(broken[case, row], sparsity.chunk, axis=-1)[:, :, None] & bad[case]
        mended = form.b.scatter(np.where(gone, np.uint32(0), matrix[case]))
        taken = None if scales is None else Scales(scales.a[case], scales.b[case], scales.a_ids, scales.b_ids)
        again = execute_mma(form, a[case], mended, c[case], e[case], selector, scales=taken, **how)
        whole = form.d.gather(d)
        whole[case, row] = form.d.gather(again)[np.arange(len(case)), row]
        d = form.d.scatter(whole)
    return d


def mend(shape: Shape, ctas: Sequence[Cta], call: Call, idesc: InstructionDescriptor, policy: str) -> tuple[bool, bool]:
    """Checks the metadata that will be read: returns whether a code is not defined, and whether one does not ascend.
    Under "zero" and "saturate" it also changes the undefined codes, or the elements of A that belong to them.

    Does nothing for a dense instruction, or where the selector, M or the address is invalid: execution refuses these,
    or reports the undefined behaviour.
    """
    undefined = unordered = False
    metadata = shape.metadata if shape.form.sparse else None
    address = TmemAddress.from_word(call.sp_meta)
    if metadata is None or idesc.selector not in metadata.selectors or idesc.m != shape.idesc.m:
        return False, False
    if address.lane not in metadata.layout.base_lanes or address.column > COLUMNS - 2:
        return False, False
    columns, sparsity = slice(address.column, address.column + 2), metadata.sparsity
    for cta in ctas:
        cells = cta.tmem.words[:, columns]
        codes = metadata.gather(cells, idesc.selector, address.lane)
        legal = metadata.legal(codes)
        illegal, descending = code_checks(codes[None], legal[None], sparsity)
        undefined, unordered = undefined or bool(illegal[0]), unordered or bool(descending[0])
        if not illegal[0] or policy not in ("zero", "saturate"):
            continue
        right = saturated(sparsity)[codes] if policy == "saturate" else np.uint32(metadata.codes[0])
        mended = np.where(legal, codes, right).astype(np.uint32)
        cta.tmem.words[:, columns] = metadata.scatter(mended, idesc.selector, address.lane, cells)
        if policy == "zero":  # so that nothing is added for them
            kept = np.repeat(legal, sparsity.stored, axis=-1)
            put_a(shape, cta, np.where(kept, stored_a(shape, cta), np.uint32(0)).astype(np.uint32))
    return undefined, unordered
