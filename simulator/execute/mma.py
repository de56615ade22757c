"""Computes `mma` and `mma.sp` from register fragments to register fragments, in the chip's or in exact arithmetic.

A case is one warp's execution of one instruction; all cases of a call run the same form. Metadata works as measured on
an H100 (November 2026): a plain multiplexer in front of the multipliers, whatever the code says, so undefined metadata
has a computable result, and elements of B that no code picks have no effect, NaN and infinity included.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import NDArray

from isa.errors import UndefinedBehavior
from isa.forms.mma import MmaForm
from isa.ptx.opcodes import mma_form
from isa.targets import Target, parse_target
from isa.types import F64, Bits
from isa.undefined import first_metadata_finding, metadata_findings, undefined_behavior
from simulator.arithmetic import Operands, Sum, add, add_f64, sum_row
from simulator.arithmetic.accumulate import exact_f64
from simulator.arithmetic.chain import ROUNDINGS, Words
from simulator.arithmetic.compiled import Chain, Kernel, library, supports
from simulator.arithmetic.threads import spread
from simulator.errors import check_option
from simulator.execute.words import column_order, fragment_layout

Arithmetic = Literal["chip", "exact"]

WARP_SIZE = 32
Ids = tuple[int, int]


class Scales(NamedTuple):
    """The block scale factors of an instruction.

    Attributes:
        a, b: registers uint32 [case, lane].
        a_ids, b_ids: byte-id and thread-id of each.
    """

    a: Bits
    b: Bits
    a_ids: Ids = (0, 0)
    b_ids: Ids = (0, 0)


class _Ready(NamedTuple):
    """What stays the same between calls of a form: how one of the form's products adds, and the kernel from registers
    to registers where there is one."""

    how: Sum
    kernel: Kernel | None


_ready: dict[
    tuple[str, int, str, int, Ids, Ids], _Ready
] = {}  # by opcode, which says all about a form and is hashed at once


def _prepare(form: MmaForm, target: Target, arithmetic: str, selector: int, a_ids: Ids, b_ids: Ids) -> _Ready:
    key = form.opcode, target.number, arithmetic, selector, a_ids, b_ids
    ready = _ready.get(key)
    if ready is None:
        how = sum_of(form, target, arithmetic)
        layout = fragment_layout(form, selector, a_ids, b_ids) if library() is not None and supports(how) else None
        ready = _ready[key] = _Ready(how, Kernel(how, layout) if layout is not None else None)
    return ready


def sum_of(form: MmaForm, target: Target, arithmetic: str) -> Sum:
    """How one of the form's products adds on a target, or exactly; not for f64."""
    check_option("arithmetic", arithmetic, get_args(Arithmetic))
    rule = sum_row(form, target).rule if form.a_type.is_float and arithmetic == "chip" else None
    types = form.a_type, form.b_type, form.c_type, form.d_type
    sparsity = form.metadata.sparsity if form.sparse else None
    scale_type, factors = (form.scale_a.type, form.scale_a.factors) if form.row.scale else (None, 0)
    return Sum(form.m, form.n, form.k, *types, rule, sparsity, form.saturate, scale_type, factors, form.row.operation)


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
    scales: Scales | None = None,
) -> Bits:
    """D of any number of cases of one form, as an H100 selects and as `target` adds.

    Args:
        form: dense or sparse.
        a, b, c: uint32 [case, register, lane]; uint64 for f64.
        e: uint32 [case, lane], for sparse forms.
        selector: sparsity selector within the legal range; IsaError otherwise.
        target: whose arithmetic.
        arithmetic: "chip", or "exact" for the correctly rounded exact sum. Integers are exact either way.
        scales: for forms with block scales.

    Returns:
        uint32 (uint64 for f64) [case, register, lane].
    """
    target = parse_target(target)
    if form.a_type is F64:
        return _multiply_add(form, a, b, c, target, arithmetic)
    ids = (scales.a_ids, scales.b_ids) if scales else ((0, 0), (0, 0))
    how, kernel = _prepare(form, target, arithmetic, selector, *ids)
    if kernel is not None:
        d = np.empty((len(a), form.d.registers, WARP_SIZE), np.uint32)
        extra = e, *((scales.a, scales.b) if scales else (None, None))

        def part(cases: slice) -> None:
            kernel(d[cases], a[cases], b[cases], c[cases], *(x if x is None else x[cases] for x in extra))

        spread(len(d), how.m * how.n * how.stored, part)
        return d
    operands = matrices(form, a, b, form.c.gather(c), e, selector, scales)
    return form.d.scatter(add(how, operands).reshape(-1, *form.d.shape))


def matrices(
    form: MmaForm, a: Bits, b: Bits, c: Bits, e: Bits | None = None, selector: int = 0, scales: Scales | None = None
) -> Operands:
    """The operands of a form as matrices of patterns, one product in each case: registers as for `execute_mma`, but C
    as a matrix already."""
    codes = form.metadata.gather(e, selector) if form.sparse and e is not None else None
    factors = (
        (form.scale_a.gather(scales.a, *scales.a_ids), form.scale_b.gather(scales.b, *scales.b_ids))
        if scales
        else (None, None)
    )
    return Operands(*apart(form, form.a.gather(a), form.b.gather(b), c), codes, *factors)


def apart(form: MmaForm, a: Bits, b: Bits, c: Bits) -> tuple[Bits, Bits, Bits]:
    """Matrices of a form with several independent products, one below the other in A, C and side by side in B, as cases
    of their own."""
    if form.blocks == 1:
        return a, b, c
    split_b = b.reshape(-1, form.k, form.blocks, form.n).transpose(0, 2, 1, 3)
    return a.reshape(-1, form.m, form.k), split_b.reshape(-1, form.k, form.n), c.reshape(-1, form.m, form.n)


def _multiply_add(form: MmaForm, a: Bits, b: Bits, c: Bits, target: Target, arithmetic: str) -> Bits:
    """The f64 forms; their registers are uint64."""
    check_option("arithmetic", arithmetic, get_args(Arithmetic))
    sum_row(form, target)
    if arithmetic == "chip" and library() is not None:
        d, rounding = np.empty((len(a), form.d.registers, WARP_SIZE), np.uint64), ROUNDINGS.index(form.rounding)
        left, right, addend = (cast(Words, x) for x in (a, b, c))
        spread(len(d), form.fma, lambda part: _chain(form)(d[part], left[part], right[part], addend[part], rounding))
        return cast(Bits, d)
    left, right, addend = (cast(Words, fragment.gather(x)) for fragment, x in ((form.a, a), (form.b, b), (form.c, c)))
    result = exact_f64(left, right, addend) if arithmetic == "exact" else add_f64(left, right, addend, form.rounding)
    return form.d.scatter(cast(Bits, result))


_chains: dict[str, Chain] = {}


def _chain(form: MmaForm) -> Chain:
    chain = _chains.get(form.opcode)
    if chain is None:
        order = column_order(form)
        a, b, d = (
            register * WARP_SIZE + lane
            for lane, register, _ in (fragment.mapping.grid for fragment in (form.a, form.b, form.d))
        )
        chain = _chains[form.opcode] = Chain(form.m, form.n, form.k, (a, b[:, order], d[:, order]))
    return chain


def undefined_cases(form: MmaForm, e: Bits, selector: int) -> dict[str, int]:
    """How many cases of uint32 [case, lane] break a rule, by the rule's name; rules that none breaks are left out.

    A case counts once for each rule, however many codes break it. A selector that is out of range counts every case and
    nothing else.
    """
    if not 0 <= selector < form.metadata.selectors:
        return {"selector-out-of-range": len(e)}
    if _all_legal(form, e, selector):
        return {}
    codes = form.metadata.gather(e, selector)
    counts = {name: int(broken.any(axis=(-2, -1)).sum()) for name, broken in metadata_findings(form, codes).items()}
    return {name: count for name, count in counts.items() if count}


def _all_legal(form: MmaForm, e: Bits, selector: int) -> bool:
    """Whether every code that a selector picks is defined; halves of registers are looked up whole, where that is the
    same as looking at their codes."""
    legal, halves = _legal_halves(form.opcode, selector)
    if halves is None:
        return bool(form.metadata.legal(form.metadata.gather(e, selector)).all())
    return bool(legal[np.ascontiguousarray(e, "<u4").view("<u2")[:, halves]].all())


@lru_cache(maxsize=512)
def _legal_halves(opcode: str, selector: int) -> tuple[NDArray[np.bool_], NDArray[np.intp] | None]:
    """Whether all codes of a half register are defined, bool [65536]; and the halves (2 * lane, 2 * lane + 1) that the
    selector picks. None if it picks a part of some half."""
    metadata = mma_form(opcode, ptx="99.0").metadata
    lane, code = metadata.places(selector)
    each = 16 // metadata.bits
    half, picked = np.unique(2 * lane + code // each, return_counts=True)
    codes = np.arange(1 << 16)[:, None] >> metadata.bits * np.arange(each) & (1 << metadata.bits) - 1
    legal: NDArray[np.bool_] = np.asarray(metadata.legal(codes.astype(np.uint32)).all(axis=1))
    return legal, half if (picked == each).all() and 16 % metadata.bits == 0 else None


def first_undefined(form: MmaForm, e: Bits, selector: int) -> UndefinedBehavior:
    """The error for the first thing that `undefined_cases` counts: case, row, chunk, code, lane and bits. There must be
    one."""
    if not 0 <= selector < form.metadata.selectors:
        return undefined_behavior(
            "selector-out-of-range",
            f"{form.opcode}, selector {selector} (legal: {selectors(form)}): assemblers let it through, but an "
            f"H100 stops the kernel with an "
            "illegal-instruction error (measured November 2026)",
        )
    finding = first_metadata_finding(form, form.metadata.gather(e, selector), selector)
    assert finding is not None, "nothing is undefined here"
    return finding


def selectors(form: MmaForm) -> str:
    """The legal sparsity selectors, for a person."""
    return "0" if form.metadata.selectors == 1 else f"0 to {form.metadata.selectors - 1}"
