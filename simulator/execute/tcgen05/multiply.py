"""Computes tcgen05.mma, `.mma.sp`, `.mma.ws` and `.mma.ws.sp`: D = A * B + D of one CTA or of a pair.

Operands are read when `multiply` is called, and D is written before it returns; when an asynchronous instruction really
reads and writes is for others to say. Sums are those of `simulator.arithmetic` (dense: published, sparse: inferred).
Metadata work as a plain multiplexer whatever the codes (assumed: so measured on an H100 for mma.sp). PTX ISA 9.0,
9.7.16.10; what is published, inferred or assumed is said where it is done.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Protocol, get_args

import numpy as np

from isa.targets import Target, parse_target
from isa.tensor_memory.address import TmemAddress
from isa.types import Bits, ElementType
from isa.undefined import undefined_behavior
from simulator.arithmetic import Operands, Sum, add
from simulator.arithmetic.convert import from_float64, to_float64
from simulator.arithmetic.deviation import Apart, apart
from simulator.errors import check_option
from simulator.execute.mma import Arithmetic
from simulator.execute.tcgen05.carried import multiply_carried
from simulator.execute.tcgen05.fetch import (
    Cta,
    accumulators,
    codes,
    factors,
    smem_matrix,
    tmem_a,
)
from simulator.execute.tcgen05.plan import Call, Plan, plan_of, sum_of, written_lanes
from simulator.state.carried import CarryingTensorMemory

OF_ZEROS = "undefined-metadata-of-zeros"
"""The rule of undefined codes that only choose among zeros, so that no finite result depends on them."""


class Meet(Protocol):
    """What is told of undefined cases."""

    def __call__(self, name: str, count: int, where: str, rule: str = "", /) -> None:
        """Notes a case; `rule` as that of `Listener.undefined`, the name if it is empty."""


def multiply(
    call: Call,
    ctas: Sequence[Cta],
    *,
    target: str | Target,
    arithmetic: str = "chip",
    compare: bool = False,
    meet: Meet | None = None,
) -> Apart:
    """Executes one instruction; returns how far D is from the exact result, if that is asked for.

    Args:
        call: the instruction.
        ctas: the CTA that issues it, or both of a pair, the even rank first, for cta_group::2.
        target: whose arithmetic.
        arithmetic: "chip" or "exact".
        compare: whether to compare with the exact result of the same operands; not where Tensor Memory carries exact
            values.
        meet: called with the name, the number and the place of what is undefined but has a result here; default: raises
            UndefinedBehavior.

    Raises:
        IsaError: descriptors or addresses that no such instruction can have.
        UndefinedBehavior: Tensor Memory that is not allocated; what `meet` makes of the rest.
    """
    check_option("arithmetic", arithmetic, get_args(Arithmetic))
    plan = plan_of(call, parse_target(target), ctas)
    meet = meet or _refuse
    for cta in ctas:
        _look_into_collector(call, cta, meet)
    b = _b(plan, ctas)
    operands = [_operands(plan, cta, b, meet) for cta in ctas]
    if all(isinstance(cta.tmem, CarryingTensorMemory) for cta in ctas):
        for rank, (cta, matrices) in enumerate(zip(ctas, operands, strict=True)):
            multiply_carried(plan, cta, matrices, written_lanes(call.lanes, rank))
            _collect(call, cta)
        return Apart()
    results = [add(sum_of(plan, arithmetic), matrices) for matrices in operands]
    for rank, (cta, patterns) in enumerate(
        zip(ctas, results, strict=True)
    ):  # nothing is written before everything is known to be right
        accumulators(plan.d, plan.idesc, plan.layout, plan.types[2]).write(
            cta, patterns, written_lanes(call.lanes, rank)
        )
        _collect(call, cta)
    if not compare:
        return Apart()
    exact = results
    if plan.types[2].is_float:  # sums of integers are exact
        exact = [add(sum_of(plan, "exact"), matrices) for matrices in operands]
    pairs = zip(results, exact, strict=True)
    return reduce(Apart.__add__, (apart(patterns, right, plan.types[2]) for patterns, right in pairs))


def _refuse(name: str, count: int, where: str, rule: str = "") -> None:
    raise undefined_behavior(name, where)


def _look_into_collector(call: Call, cta: Cta, meet: Meet) -> None:
    """A use needs a live fill by the same operand (published); the buffer never changes a result here."""
    buffer, operation = call.form.collector
    if operation in ("use", "lastuse") and cta.filled.get(buffer) != _collected(call):
        meet("collector-use-without-fill", 1, f"{call.form.opcode}: collector {buffer}::{operation}")


def _collect(call: Call, cta: Cta) -> None:
    """Notes what the collector buffer holds after the instruction."""
    buffer, operation = call.form.collector
    if operation in ("fill", "use"):
        cta.filled[buffer] = _collected(call)
    else:
        cta.filled.pop(buffer, None)


def _collected(call: Call) -> tuple[int, ...]:
    return call.a if call.form.collector[0] == "a" else call.b, call.idesc


def _negated(patterns: Bits, element: ElementType, negate: bool) -> Bits:
    return patterns ^ np.uint32(1 << element.sign_bit) if negate else patterns


def _b(plan: Plan, ctas: Sequence[Cta]) -> Bits:
    """B of the whole instruction, uint32 [k, n]: each CTA of a pair brings half of the columns; masked columns are
    zero."""
    idesc = plan.idesc
    shift = plan.mask.column_shift
    parts = [smem_matrix(cta, plan.call.b, idesc, "b", plan.group, str(plan.target), extra=shift) for cta in ctas]
    columns = np.concatenate([part[shift:] for part in parts])
    if plan.call.zero_mask:
        columns = np.where(plan.mask.mask(idesc.n, m=idesc.m)[:, None], np.uint32(0), columns)
    return _negated(columns, plan.types[1], idesc.negate_b).T


def _a(plan: Plan, cta: Cta, meet: Meet) -> Bits:
    """A of one CTA, uint32 [part, row, k]."""
    idesc, parts = plan.idesc, plan.layout.parts
    if plan.a is None:
        patterns = smem_matrix(cta, plan.call.a, idesc, "a", plan.group, str(plan.target))
        patterns = np.broadcast_to(patterns, (parts, *patterns.shape))
    else:
        patterns = tmem_a(cta, plan.a, idesc, plan.layout)
        differing = int((patterns != patterns[:1]).any(axis=0).sum())
        if differing:
            meet("tmem-copies-differ", differing, f"A of {plan.call.form.opcode}")
        if plan.call.form.ashift:
            patterns = np.concatenate(
                [patterns[:, 1:], patterns[:, -1:]], axis=1
            )  # row r takes r + 1, the last stays (direction and extent: assumed)
    return _negated(patterns, plan.types[0], idesc.negate_a)


def _codes(plan: Plan, cta: Cta, a: Bits, meet: Meet) -> Bits | None:
    """The metadata of one CTA, uint32 [part, row, chunk]; undefined codes are told to `meet`, and used all the same.
    Where all of them are of chunks of A [part, row, k] that are 0, that is said: CUTLASS writes 0b0000 there."""
    if plan.metadata is None or plan.sp_meta is None:
        return None
    words = codes(cta, plan.sp_meta, plan.idesc, plan.metadata)
    if len(words) != plan.layout.parts:
        words = np.broadcast_to(words, (plan.layout.parts, *words.shape[1:]))
    differing = int((words != words[:1]).any(axis=0).sum())
    if differing:
        meet("tmem-copies-differ", differing, f"metadata of {plan.call.form.opcode}")
    undefined = ~plan.metadata.legal(words)
    if undefined.any():
        sign = np.uint32(1 << plan.types[0].sign_bit if plan.types[0].is_float else 0)
        stored = (a & ~sign).reshape(*words.shape, -1).any(axis=-1)
        _, row, chunk = (int(i) for i in np.argwhere(undefined)[0])
        where = f"{plan.call.form.opcode}: row {row}, chunk {chunk}: code 0b{int(words[undefined][0]):04b}"
        harmless = not (undefined & stored).any()
        where += ", whose stored elements are 0" if harmless else ""
        meet("undefined-metadata", int(undefined.any(axis=0).sum()), where, OF_ZEROS if harmless else "")
    return words


def _scales(plan: Plan, cta: Cta, meet: Meet) -> tuple[Bits, Bits] | tuple[None, None]:
    """Scale factors of one CTA: uint32 [part, row, factor] and [part, n of the part, factor]."""
    if plan.scales is None:
        return None, None
    addresses = TmemAddress.of_scales(plan.call.scale_a), TmemAddress.of_scales(plan.call.scale_b)
    ids = plan.idesc.a_scale_id, plan.idesc.b_scale_id
    a, b = (factors(cta, address, scales, id) for address, scales, id in zip(addresses, plan.scales, ids, strict=True))
    for gathered, what in ((a, "A"), (b, "B")):
        if gathered.differs.any():
            meet(
                "tmem-copies-differ", int(gathered.differs.sum()), f"scale factors of {what} of {plan.call.form.opcode}"
            )
    parts = plan.layout.parts
    return np.broadcast_to(a.patterns, (parts, *a.patterns.shape)), b.patterns.reshape(parts, -1, b.patterns.shape[1])


def matrices(call: Call, ctas: Sequence[Cta], target: str | Target) -> list[tuple[Sum, Operands]]:
    """The operands of an instruction as matrices of patterns, for each CTA, with how they are added exactly. Memory
    stays as it is; errors as those of `multiply`."""
    plan = plan_of(call, parse_target(target), ctas)
    b, how = _b(plan, ctas), sum_of(plan, "exact")
    return [(how, _operands(plan, cta, b, _refuse)) for cta in ctas]


def _operands(plan: Plan, cta: Cta, b: Bits, meet: Meet) -> Operands:
    """The matrices of one CTA, a case for each part of N; C is zero where Tensor Memory carries exact values."""
    call, idesc, layout = plan.call, plan.idesc, plan.layout
    _, _, d_type = plan.types
    cells = accumulators(plan.d, idesc, layout, d_type)
    shape = layout.parts, layout.rows, idesc.n // layout.parts
    reads_c = call.enable and not isinstance(cta.tmem, CarryingTensorMemory)
    c = _scaled(cells.read(cta), d_type, call.scale_d) if reads_c else np.zeros(shape, np.uint32)
    a = _a(plan, cta, meet)
    metadata = _codes(plan, cta, a, meet)
    scale_a, scale_b = _scales(plan, cta, meet)
    by_part = b.reshape(idesc.k, layout.parts, -1).transpose(1, 0, 2)
    cta.tmem.check(cells.lane, cells.column, "D: ")
    return Operands(np.ascontiguousarray(a), np.ascontiguousarray(by_part), c, metadata, scale_a, scale_b)


def _scaled(patterns: Bits, element: ElementType, scale_d: int) -> Bits:
    """D times 2 to the minus scale_d, rounded to D's type where it becomes subnormal (that it is rounded there, to
    nearest even: assumed)."""
    if not scale_d:
        return patterns
    return from_float64(to_float64(patterns, element) * 2.0**-scale_d, element)
