"""Execution of `mma` and `mma.sp`: fragments in, the chip's (or the exact) arithmetic, fragments out.

A case is one warp's execution of one instruction; all cases of a call run the same form. Metadata works as measured on an H100 (November
2026): a plain multiplexer in front of the multipliers, whatever the code says, so undefined metadata has a computable result, and elements of
B that no code picks have no effect, NaN and infinity included.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from isa.errors import IsaError, UndefinedBehavior
from isa.forms import MmaForm, mma_form
from isa.metadata import spliced, stored_columns
from isa.targets import Target, parse_target
from isa.types import Bits
from isa.undefined import first_metadata_finding, metadata_findings, undefined_behavior
from simulator.arithmetic import Decoded, SumRow, decode, exact_sum, fused_sum, integer_sum, integers, sum_row

Arithmetic = Literal["chip", "exact"]
Policy = Literal["hardware", "raise"]

LANES = 32
_BLOCK_PRODUCTS = 1 << 17  # products worked on at once: 1 MiB of float64, so that the arrays of a block stay in a core's own cache

Columns = NDArray[np.int64]
Number = TypeVar("Number", np.float64, np.int16, np.int32)


@dataclass(frozen=True)
class _Plan:
    """What does not change between calls of one form on one target.

    Attributes:
        form: the form.
        row: parameters of the fused sum; None for integers and for exact arithmetic.
        order: stored columns in the order in which they are summed.
        steps: how many of them each fused step takes.
        block: cases worked on at once.
    """

    form: MmaForm
    row: SumRow | None
    order: Columns
    steps: tuple[int, ...]
    block: int


_plans: dict[tuple[str, int, str], _Plan] = {}


def _plan(form: MmaForm, target: Target, arithmetic: str) -> _Plan:
    key = (form.opcode, target.number, arithmetic)
    plan = _plans.get(key)
    if plan is None:
        _check_option("arithmetic", arithmetic, get_args(Arithmetic))
        if form.row.scale:
            raise IsaError(form.opcode, -1, "block-scaled forms are decoded, but not executed", "a form without .block_scale")
        columns = form.k_stored
        row = sum_row(form, target) if form.a_type.is_float and arithmetic == "chip" else None
        steps = row.steps(columns, form.a_type) if row is not None else (tuple(range(columns)),)
        order = np.array([column for step in steps for column in step], np.int64)
        block = max(1, _BLOCK_PRODUCTS // (form.m * form.n * columns))
        plan = _plans[key] = _Plan(form, row, order, tuple(map(len, steps)), block)
    return plan


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
) -> Bits:
    """D of any number of cases of one form, as an H100 selects and as `target` adds.

    Args:
        form: dense or sparse.
        a, b, c: uint32 [case, register, lane].
        e: uint32 [case, lane], for sparse forms.
        selector: sparsity selector within the legal range; IsaError otherwise.
        target: whose arithmetic.
        arithmetic: "chip", or "exact" for the correctly rounded exact sum. Integers are exact either way.

    Returns:
        uint32 [case, register, lane].
    """
    plan = _plan(form, parse_target(target), arithmetic)
    cases = len(a)
    d = np.empty((cases, form.d.registers, LANES), np.uint32)
    for part in _blocks(cases, plan.block):
        codes = form.metadata.gather(e[part], selector) if form.sparse and e is not None else None
        d[part] = form.d.scatter(_block(plan, form.a.gather(a[part]), form.b.gather(b[part]), form.c.gather(c[part]), codes))
    return d


def _blocks(cases: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, cases)) for start in range(0, cases, size))


def _block(plan: _Plan, a: Bits, b: Bits, c: Bits, codes: Bits | None) -> Bits:
    """Matrices of patterns of a few cases: stored A [case, row, column], B [case, k, n], C [case, row, n] -> D [case, row, n].

    Inside, arrays are [n, stored column, case * row]: long runs of outputs that share nothing.
    """
    form = plan.form
    cases, rows = a.shape[0], form.m
    a = a[..., plan.order].transpose(2, 0, 1).reshape(len(plan.order), cases * rows)
    c = c.transpose(2, 0, 1).reshape(form.n, cases * rows)
    d = _sum(plan, a, b, c, codes)
    return d.reshape(form.n, cases, rows).transpose(1, 2, 0)


def _sum(plan: _Plan, a: Bits, b: Bits, c: Bits, codes: Bits | None) -> Bits:
    """A [stored column, case * row], B [case, k, n], C [n, case * row] -> D [n, case * row]."""
    form = plan.form
    if not form.a_type.is_float:
        chosen = _select(integers(b, form.b_type).astype(np.int32), _places(plan, codes, len(b)))
        return integer_sum(chosen * integers(a, form.a_type).astype(np.int32), c, saturate=form.saturate)
    through = plan.row.converted if plan.row is not None else None
    left = decode(a, form.a_type, through)
    if codes is not None and spliced(codes, form.metadata.sparsity).any():
        right = decode(_select_halves(b, plan, codes), form.b_type, through)
    else:
        whole, places = decode(b, form.b_type, through), _places(plan, codes, len(b))
        right = Decoded(_select(whole.value, places), _select(whole.exponent, places))
    # From here on `right` holds the products: it is ours, never a table.
    with np.errstate(invalid="ignore"):  # infinity times zero: NaN, as it should be
        np.multiply(right.value, left.value, out=right.value)
        np.add(right.exponent, left.exponent, out=right.exponent)
    if plan.row is None:
        return exact_sum(right, form.a_type.fraction + form.b_type.fraction, decode(c, form.c_type), form.d_type)
    return fused_sum(right, c, plan.row, form.d_type, plan.steps)


def _places(plan: _Plan, codes: Bits | None, cases: int) -> Columns:
    """Where in B [n, case * k] each element of stored A finds its partner: [stored column, case * row]."""
    form = plan.form
    if codes is None:
        columns = np.broadcast_to(plan.order, (cases, form.m, len(plan.order)))
    else:
        columns = stored_columns(codes, form.metadata.sparsity)[..., plan.order]
    return (columns + form.k * np.arange(cases)[:, None, None]).transpose(2, 0, 1).reshape(len(plan.order), cases * form.m)


def _select(b: NDArray[Number], places: Columns) -> NDArray[Number]:
    """B [case, k, n] -> the elements that stored A meets [n, stored column, case * row]."""
    chosen: NDArray[Number] = b.transpose(2, 0, 1).reshape(b.shape[2], -1).take(places, axis=1, mode="clip")
    return chosen


def _select_halves(b: Bits, plan: _Plan, codes: Bits) -> Bits:
    """The same for 1:2 with any code: the operand joins 16-bit half `code & 3` (low) and half `code >> 2` (high) of the chunk's four."""
    cases, k, n = b.shape
    halves = np.stack([b & np.uint32(0xFFFF), b >> np.uint32(16)], axis=2).reshape(cases, 2 * k, n).transpose(2, 0, 1).reshape(n, 2 * k * cases)
    base = 4 * np.arange(codes.shape[-1]) + 2 * k * np.arange(cases)[:, None, None]
    picked: list[Bits] = []
    for part in (codes & np.uint32(3), codes >> np.uint32(2)):
        index = (base + part.astype(np.int64))[..., plan.order].transpose(2, 0, 1).reshape(len(plan.order), -1)
        picked.append(halves.take(index, axis=1, mode="clip"))
    return picked[0] | picked[1] << np.uint32(16)


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
