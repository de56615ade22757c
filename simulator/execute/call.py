"""The functions `simulator.mma_sp` and `simulator.mma`: they execute one instruction, given by its opcode.

Every argument is checked; the arithmetic is that of `simulator.execute.mma`.
"""

from __future__ import annotations

from typing import get_args

import numpy as np

from isa.arguments import unmasked
from isa.errors import POLICIES, IsaError, Policy
from isa.forms.mma import MmaForm
from isa.ptx.opcodes import mma_form
from isa.targets import Target
from isa.types import Bits
from simulator.errors import check_option
from simulator.execute.mma import (
    WARP_SIZE,
    Arithmetic,
    Ids,
    Scales,
    execute_mma,
    first_undefined,
    selectors,
    undefined_cases,
)
from simulator.floating_point import guarded


@guarded
def mma_sp(
    opcode: str,
    a: Bits,
    b: Bits,
    c: Bits,
    e: Bits,
    selector: int = 0,
    target: str | Target = "sm_90a",
    undefined: Policy = "hardware",
    arithmetic: Arithmetic = "chip",
    *,
    scale_a: Bits | None = None,
    scale_b: Bits | None = None,
    scale_a_ids: Ids = (0, 0),
    scale_b_ids: Ids = (0, 0),
) -> Bits:
    """D = A * B + C with 2:4, 4:8 or 1:2 sparse A, for any number of warps.

    Args:
        opcode: e.g. "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", without operands.
        a, b, c: uint32 [case, register, lane].
        e: metadata registers, uint32 [case, lane].
        selector: sparsity selector, which says whose lanes' metadata is used.
        target: what the instruction is compiled for, e.g. "sm_80", "sm_90a".
        undefined: "hardware" gives what an H100 does with undefined metadata; "raise" raises UndefinedBehavior for the
            first undefined code.
        arithmetic: "chip" for the target's own sums, "exact" for the exact sum, rounded once.
        scale_a, scale_b: registers of block scale factors, uint32 [case, lane], for opcodes with .block_scale.
        scale_a_ids, scale_b_ids: byte-id and thread-id of each.

    Returns:
        D, uint32 [case, register, lane].

    Raises:
        IsaError: no such instruction or target, operands of another type or shape, no such selector, id or option.
        UndefinedBehavior: see `undefined`; always for a selector that is out of range but assembles, since an H100 does
            not survive it.
    """
    form = _form(opcode, target, sparse=True)
    check_option("undefined", undefined, POLICIES)
    check_option("arithmetic", arithmetic, get_args(Arithmetic))
    scales = _scales(form, scale_a, scale_b, scale_a_ids, scale_b_ids)
    _check_operands(form, {"a": a, "b": b, "c": c, "e": e}, scales)
    _check_selector(form, selector)
    met = undefined_cases(form, e, selector)
    if "selector-out-of-range" in met or (met and undefined == "raise"):
        raise first_undefined(form, e, selector)
    return execute_mma(form, a, b, c, e, selector, target=target, arithmetic=arithmetic, scales=scales)


@guarded
def mma(
    opcode: str,
    a: Bits,
    b: Bits,
    c: Bits,
    target: str | Target = "sm_80",
    arithmetic: Arithmetic = "chip",
    *,
    scale_a: Bits | None = None,
    scale_b: Bits | None = None,
    scale_a_ids: Ids = (0, 0),
    scale_b_ids: Ids = (0, 0),
) -> Bits:
    """D = A * B + C, dense, for any number of warps. Arguments, result and errors as for `mma_sp`; f64 forms take and
    give uint64."""
    form = _form(opcode, target, sparse=False)
    check_option("arithmetic", arithmetic, get_args(Arithmetic))
    scales = _scales(form, scale_a, scale_b, scale_a_ids, scale_b_ids)
    _check_operands(form, {"a": a, "b": b, "c": c}, scales)
    return execute_mma(form, a, b, c, target=target, arithmetic=arithmetic, scales=scales)


def _scales(form: MmaForm, a: Bits | None, b: Bits | None, a_ids: Ids, b_ids: Ids) -> Scales | None:
    """The block scales, if the form has them and all are there."""
    if form.row.scale:
        if a is None or b is None:
            raise IsaError(
                form.opcode,
                -1,
                "an instruction with .block_scale needs scale factors",
                "scale_a and scale_b, uint32 [case, 32]",
            )
        form.scale_a.mapping(*a_ids)  # IsaError for illegal ids
        form.scale_b.mapping(*b_ids)
        return Scales(a, b, a_ids, b_ids)
    if a is not None or b is not None:
        raise IsaError(
            form.opcode, -1, "an instruction without .block_scale takes no scale factors", "an opcode with .block_scale"
        )
    return None


def _form(opcode: str, target: str | Target, *, sparse: bool) -> MmaForm:
    form = mma_form(opcode, target)
    if form.sparse != sparse:
        this, other = ("mma_sp", "mma") if sparse else ("mma", "mma_sp")
        raise IsaError(
            opcode, 0, f"{this}() takes a {'sparse' if sparse else 'dense'} instruction", f"{other}() for this one"
        )
    return form


def _check_operands(form: MmaForm, given: dict[str, Bits], scales: Scales | None) -> None:
    """IsaError unless every operand has the type and shape that the form asks for, and as many cases as the others."""
    tails: dict[str, tuple[int, ...]] = dict.fromkeys(("e", "scale_a", "scale_b"), (WARP_SIZE,))
    tails |= {name: (getattr(form, name).registers, WARP_SIZE) for name in "abc"}
    cases = len(given["a"]) if isinstance(given["a"], np.ndarray) and given["a"].ndim else 0
    everything = given if scales is None else {**given, "scale_a": scales.a, "scale_b": scales.b}
    for name, array in everything.items():
        tail, word = tails[name], f"uint{getattr(form, name).type.register_bits if name in 'abc' else 32}"
        legal = f"a numpy array of {word} [case, {', '.join(map(str, tail))}]"
        if not isinstance(array, np.ndarray):
            raise IsaError(form.opcode, -1, f"operand {name} is a {type(array).__name__}", legal)
        unmasked(array, f"operand {name}")
        if array.dtype != word or array.shape[1:] != tail or array.ndim != len(tail) + 1:
            raise IsaError(form.opcode, -1, f"operand {name} has type {array.dtype} and shape {array.shape}", legal)
        if len(array) != cases:
            raise IsaError(
                form.opcode,
                -1,
                f"operand {name} has {len(array)} cases, operand a has {cases}",
                "as many cases in every operand",
            )


def _check_selector(form: MmaForm, selector: int) -> None:
    """Raises IsaError for a selector that no assembler takes; one beyond the legal range that ptxas lets through is
    undefined behavior instead."""
    whole = isinstance(selector, (int, np.integer)) and not isinstance(selector, bool)
    if not whole or not 0 <= selector < form.metadata.selectors + form.lax_selectors:
        raise IsaError(
            str(selector),
            -1,
            f"sparsity selector {selector} is out of range for {form.opcode}",
            selectors(form),
            rule="selector-out-of-range",
        )
