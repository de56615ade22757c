"""What is done about metadata codes that are not defined, so that detection schemes can be compared.

    hardware   what an H100 does: a plain multiplexer, whatever the code (measured November 2026)
    raise      a checker in front of the core: the instruction is not executed, the fault is detected
    zero       the chunk contributes nothing: none of its products is formed
    saturate   indices are made to ascend by saturation: the second is at least the first plus one (a 1:2 code picks the
    element of its upper bits)

`saturate` is a design of this project (assumed): no chip is known to decode like this.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from isa.forms.mma import MmaForm
from isa.fragments.metadata import Sparsity
from isa.types import Bits
from simulator.arithmetic.formats import decode
from simulator.execute.mma import Scales, execute_mma

POLICIES = ("hardware", "raise", "zero", "saturate")


def saturated(sparsity: Sparsity) -> Bits:
    """Each of the 16 codes as a defined one: uint32 [16]."""
    codes = np.arange(16, dtype=np.uint32)
    low, high = codes & 3, codes >> 2
    if sparsity.splices:
        return np.where(high >= 2, 0b1110, 0b0100).astype(np.uint32)
    low = np.minimum(low, 2)
    found: Bits = (low | np.maximum(high, low + 1) << 2).astype(np.uint32)
    return found


def multiply(
    form: MmaForm,
    a: Bits,
    b: Bits,
    c: Bits,
    e: Bits,
    selector: int,
    policy: str,
    *,
    target: str,
    arithmetic: str,
    scales: Scales | None,
) -> Bits:
    """D of each case under a policy, but for `raise` and selectors that are out of range, which compute nothing: as
    `execute_mma`."""
    codes = form.metadata.gather(e, selector)
    broken = ~form.metadata.legal(codes)
    if policy in ("hardware", "raise") or not broken.any():
        return execute_mma(form, a, b, c, e, selector, target=target, arithmetic=arithmetic, scales=scales)
    if policy == "saturate":
        mended = np.where(broken, saturated(form.metadata.sparsity)[codes], codes)
        e = form.metadata.scatter(mended, selector, e)
        return execute_mma(form, a, b, c, e, selector, target=target, arithmetic=arithmetic, scales=scales)
    return _without(form, a, b, c, e, selector, broken, target=target, arithmetic=arithmetic, scales=scales)


def _without(
    form: MmaForm,
    a: Bits,
    b: Bits,
    c: Bits,
    e: Bits,
    selector: int,
    broken: NDArray[np.bool_],
    *,
    target: str,
    arithmetic: str,
    scales: Scales | None,
) -> Bits:
    """Chunks that are broken [case, row, chunk] form no product: their stored elements are zero.

    Zero times infinity or NaN would be NaN; rows whose broken chunks meet such elements of B are computed again with
    those elements zero.
    """
    sparsity = form.metadata.sparsity
    stored = np.repeat(broken, sparsity.stored, axis=-1)
    codes = np.where(broken, form.metadata.codes[0], form.metadata.gather(e, selector))
    a = form.a.scatter(np.where(stored, np.uint32(0), form.a.gather(a)))
    e = form.metadata.scatter(codes, selector, e)
    d = execute_mma(form, a, b, c, e, selector, target=target, arithmetic=arithmetic, scales=scales)
    if not form.b_type.is_float:
        return d
    matrix = form.b.gather(b)
    bad = np.logical_not(np.isfinite(decode(matrix, form.b_type).value))
    chunk_bad: NDArray[np.bool_] = np.logical_or.reduce(bad.reshape(len(b), -1, sparsity.chunk * form.n), axis=-1)
    meets: NDArray[np.bool_] = np.logical_or.reduce(broken & chunk_bad[:, None, :], axis=-1)
    case, row = np.nonzero(meets)
    if len(case):
        gone = np.repeat(broken[case, row], sparsity.chunk, axis=-1)[:, :, None] & bad[case]
        mended = form.b.scatter(np.where(gone, np.uint32(0), matrix[case]))
        taken = None if scales is None else Scales(scales.a[case], scales.b[case], scales.a_ids, scales.b_ids)
        again = form.d.gather(
            execute_mma(
                form, a[case], mended, c[case], e[case], selector, target=target, arithmetic=arithmetic, scales=taken
            )
        )
        whole = form.d.gather(d)
        whole[case, row] = again[np.arange(len(case)), row]
        d = form.d.scatter(whole)
    return d
