"""Execution of `mma` and `mma.sp`: fragments in, the chip's (or the exact) arithmetic, fragments out.

A case is one warp's execution of one instruction; all cases of a call run the same form. Metadata works as measured on an H100 (November
2026): a plain multiplexer in front of the multipliers, whatever the code says, so undefined metadata has a computable result, and elements of
B that no code picks have no effect, NaN and infinity included.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, get_args

import numpy as np

from isa.errors import IsaError, UndefinedBehavior
from isa.forms import MmaForm, mma_form
from isa.targets import Target, parse_target
from isa.types import Bits
from isa.undefined import first_metadata_finding, metadata_findings, undefined_behavior
from simulator.arithmetic import Operands, Sum, add, sum_row
from simulator.arithmetic.compiled import Kernel, library, supports
from simulator.arithmetic.threads import spread
from simulator.execute.words import fragment_layout

Arithmetic = Literal["chip", "exact"]
Policy = Literal["hardware", "raise"]

LANES = 32
Ids = tuple[int, int]


@lru_cache(maxsize=1024)
def _sum(form: MmaForm, target: Target, arithmetic: str) -> Sum:
    """How a form adds on a target."""
    _check_option("arithmetic", arithmetic, get_args(Arithmetic))
    rule = sum_row(form, target).rule if form.a_type.is_float and arithmetic == "chip" else None
    types = form.a_type, form.b_type, form.c_type, form.d_type
    sparsity = form.metadata.sparsity if form.sparse else None
    scale = (form.scale_a.type, form.scale_a.factors) if form.row.scale else (None, 0)
    return Sum(form.m, form.n, form.k, *types, rule, sparsity, form.saturate, *scale)


@lru_cache(maxsize=1024)
def _kernel(form: MmaForm, target: Target, arithmetic: str, selector: int, a_ids: Ids, b_ids: Ids) -> Kernel | None:
    """The compiled kernel from registers to registers; None where there is none for this."""
    how = _sum(form, target, arithmetic)
    layout = fragment_layout(form, selector, a_ids, b_ids) if library() is not None and supports(how) else None
    return Kernel(how, layout) if layout is not None else None


def execute_mma(
    form: MmaForm,
    a: Bits,
    b: Bits,
    c: Bits,
    e: Bits | None = None,
    selector: int = 0,
    *,
    target: str | Target,
    arithmetic: str = "chip",
    scale_a: Bits | None = None,
    scale_b: Bits | None = None,
    scale_a_ids: Ids = (0, 0),
    scale_b_ids: Ids = (0, 0),
) -> Bits:
    """D of any number of cases of one form, as an H100 selects and as `target` adds.

    Args:
        form: dense or sparse.
        a, b, c: uint32 [case, register, lane].
        e: uint32 [case, lane], for sparse forms.
        selector: sparsity selector within the legal range; IsaError otherwise.
        target: whose arithmetic.
        arithmetic: "chip", or "exact" for the correctly rounded exact sum. Integers are exact either way.
        scale_a, scale_b: registers of block scale factors, uint32 [case, lane], for forms that have them.
        scale_a_ids, scale_b_ids: byte-id and thread-id of each.

    Returns:
        uint32 [case, register, lane].
    """
    target = parse_target(target)
    how = _sum(form, target, arithmetic)
    kernel = _kernel(form, target, arithmetic, selector, tuple(scale_a_ids), tuple(scale_b_ids))
    d = np.empty((len(a), form.d.registers, LANES), np.uint32)

    if kernel is not None:
        given = a, b, c, e, scale_a, scale_b
        spread(len(d), how.m * how.n * how.stored, lambda cases: kernel(d[cases], *(x if x is None else x[cases] for x in given)))
        return d
    codes = form.metadata.gather(e, selector) if form.sparse and e is not None else None
    scales = (
        (form.scale_a.gather(scale_a, *scale_a_ids), form.scale_b.gather(scale_b, *scale_b_ids))
        if scale_a is not None and scale_b is not None
        else (None, None)
    )
    matrices = Operands(form.a.gather(a), form.b.gather(b), form.c.gather(c), codes, *scales)
    return form.d.scatter(add(how, matrices))


def undefined_cases(form: MmaForm, e: Bits, selector: int) -> dict[str, int]:
    """How many cases of uint32 [case, lane] break a rule, by the rule's name; rules that none breaks are left out.

    A case counts once for each rule, however many codes break it. A selector that is out of range counts every case and nothing else.
    """
    if not 0 <= selector < form.metadata.selectors:
        return {"selector-out-of-range": len(e)}
    codes = form.metadata.gather(e, selector)
    if bool(form.metadata.legal(codes).all()):
        return {}
    counts = {name: int(found.any(axis=(-2, -1)).sum()) for name, found in metadata_findings(form, codes).items()}
    return {name: count for name, count in counts.items() if count}


def first_undefined(form: MmaForm, e: Bits, selector: int) -> UndefinedBehavior:
    """The error for the first thing that `undefined_cases` counts: case, row, chunk, code, lane and bits. There must be one."""
    if not 0 <= selector < form.metadata.selectors:
        return undefined_behavior(
            "selector-out-of-range",
            f"{form.opcode}, selector {selector} (legal: {_selectors(form)}): assemblers let it through, but an H100 stops the kernel with an "
            "illegal-instruction error (measured November 2026)",
        )
    found = first_metadata_finding(form, form.metadata.gather(e, selector), selector)
    assert found is not None, "nothing is undefined here"
    return found


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
) -> Bits:
    """D = A * B + C with 2:4, 4:8 or 1:2 sparse A, for any number of warps.

    Args:
        opcode: e.g. "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", without operands.
        a, b, c: uint32 [case, register, lane].
        e: metadata registers, uint32 [case, lane].
        selector: which lanes' metadata is meant.
        target: what the instruction is compiled for, e.g. "sm_80", "sm_90a".
        undefined: "hardware" gives what an H100 does with undefined metadata; "raise" raises UndefinedBehavior for the first undefined code.
        arithmetic: "chip" for the target's own sums, "exact" for the exact sum, rounded once.

    Returns:
        D, uint32 [case, register, lane].

    Raises:
        IsaError: no such instruction or target, operands of another type or shape, no such selector or option.
        UndefinedBehavior: see `undefined`; always for a selector that is out of range but assembles, since an H100 does not survive it.
    """
    form = _form(opcode, target, sparse=True)
    _check_option("undefined", undefined, get_args(Policy))
    _check_option("arithmetic", arithmetic, get_args(Arithmetic))
    _check_operands(form, a, b, c, e)
    _check_selector(form, selector)
    met = undefined_cases(form, e, selector)
    if "selector-out-of-range" in met or (met and undefined == "raise"):
        raise first_undefined(form, e, selector)
    return execute_mma(form, a, b, c, e, selector, target=target, arithmetic=arithmetic)


def mma(opcode: str, a: Bits, b: Bits, c: Bits, target: str | Target = "sm_80", arithmetic: Arithmetic = "chip") -> Bits:
    """D = A * B + C, dense, for any number of warps. Arguments, result and errors as for `mma_sp`."""
    form = _form(opcode, target, sparse=False)
    _check_option("arithmetic", arithmetic, get_args(Arithmetic))
    _check_operands(form, a, b, c, None)
    return execute_mma(form, a, b, c, target=target, arithmetic=arithmetic)


def _form(opcode: str, target: str | Target, *, sparse: bool) -> MmaForm:
    form = mma_form(opcode, target)
    if form.sparse != sparse:
        this, other = ("mma_sp", "mma") if sparse else ("mma", "mma_sp")
        raise IsaError(opcode, 0, f"{this}() takes a {'sparse' if sparse else 'dense'} instruction", f"{other}() for this one")
    return form


def _check_option(name: str, given: str, legal: tuple[str, ...]) -> None:
    if given not in legal:
        raise IsaError(str(given), -1, f"{name}={given!r} is not known", ", ".join(map(repr, legal)))


def _check_operands(form: MmaForm, a: Bits, b: Bits, c: Bits, e: Bits | None) -> None:
    shapes: dict[str, tuple[int, ...]] = {"a": (form.a.registers, LANES), "b": (form.b.registers, LANES), "c": (form.c.registers, LANES)}
    given = {"a": a, "b": b, "c": c}
    if e is not None:
        shapes["e"], given["e"] = (LANES,), e
    cases: int | None = None
    for name, array in given.items():
        tail = shapes[name]
        legal = f"a numpy array of uint32 [case, {', '.join(map(str, tail))}]"
        if not isinstance(array, np.ndarray):
            raise IsaError(form.opcode, -1, f"operand {name} is a {type(array).__name__}", legal)
        if array.dtype != np.uint32 or array.shape[1:] != tail or array.ndim != len(tail) + 1:
            raise IsaError(form.opcode, -1, f"operand {name} has type {array.dtype} and shape {array.shape}", legal)
        if cases is not None and len(array) != cases:
            raise IsaError(form.opcode, -1, f"operand {name} has {len(array)} cases, operand a has {cases}", "as many cases in every operand")
        cases = len(array)


def _check_selector(form: MmaForm, selector: int) -> None:
    """IsaError for what no assembler takes; what ptxas lets through beyond the legal range is undefined behavior instead."""
    if not isinstance(selector, (int, np.integer)) or not 0 <= selector < form.metadata.selectors + form.lax_selectors:
        raise IsaError(str(selector), -1, f"sparsity selector {selector} is out of range for {form.opcode}", _selectors(form))


def _selectors(form: MmaForm) -> str:
    return "0" if form.metadata.selectors == 1 else f"0 to {form.metadata.selectors - 1}"
