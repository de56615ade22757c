"""Computes tcgen05.mma, `.mma.sp`, `.mma.ws` and `.mma.ws.sp`: D = A * B + D of one CTA or of a pair.

Operands are read when `multiply` is called, and D is written before it returns; when an asynchronous instruction really
reads and writes is for others to say. Sums are those of `simulator.arithmetic` (dense: published, sparse: inferred).
Metadata work as a plain multiplexer whatever the codes (assumed: so measured on an H100 for mma.sp). PTX ISA 9.0,
9.7.16.10; what is published, inferred or assumed is said where it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from isa.descriptors.instruction import InstructionDescriptor
from isa.descriptors.zero_column_mask import ZeroColumnMask
from isa.errors import IsaError
from isa.forms.tcgen05 import Tcgen05MmaForm
from isa.fragments.sparsity import is_zero
from isa.shared_memory.packing import operand_element
from isa.targets import Target, parse_target
from isa.tensor_memory.address import TMEM_LANES, TmemAddress
from isa.tensor_memory.datapath import DatapathLayout, check_addresses, datapath
from isa.tensor_memory.metadata import TmemMetadata, tmem_metadata
from isa.tensor_memory.scales import TmemScales, tmem_scales
from isa.types import ELEMENT_TYPES, SCALE_TYPES, Bits, ElementType
from isa.undefined import undefined_behavior
from simulator.arithmetic import Operands, Sum, SumRow, add, find_row, ulp_distance
from simulator.arithmetic.convert import from_float64, to_float64
from simulator.errors import check_option
from simulator.execute.dynamic_info import MmaFacts
from simulator.execute.mma import Arithmetic
from simulator.execute.tcgen05.fetch import (
    Cta,
    accumulators,
    codes,
    factors,
    instruction_descriptor,
    smem_matrix,
    tmem_a,
)

Meet = Callable[[str, int, str], None]


@dataclass(frozen=True)
class Call:
    """One instruction with the values of its operands.

    Attributes:
        form: the instruction.
        d: address of D in Tensor Memory.
        a: shared memory descriptor, or an address in Tensor Memory, as the form says.
        b: shared memory descriptor.
        idesc: instruction descriptor.
        sp_meta: address of the metadata (sparse forms).
        scale_a, scale_b: addresses of the scale factors (block-scaled forms).
        enable: enable-input-d.
        lanes: words of the lane mask, 4 or 8: bit i keeps lane i of D from being written; empty: all are written.
        scale_d: D is taken times 2 to the minus this.
        zero_mask: zero-column mask descriptor (`.ws`).
    """

    form: Tcgen05MmaForm
    d: int
    a: int
    b: int
    idesc: int
    sp_meta: int = 0
    scale_a: int = 0
    scale_b: int = 0
    enable: bool = True
    lanes: tuple[int, ...] = ()
    scale_d: int = 0
    zero_mask: int = 0


@dataclass(frozen=True)
class _Plan:
    """The decoded and checked descriptors and addresses of a call."""

    call: Call
    idesc: InstructionDescriptor
    layout: DatapathLayout
    d: TmemAddress
    a: TmemAddress | None
    metadata: TmemMetadata | None
    sp_meta: TmemAddress | None
    scales: tuple[TmemScales, TmemScales] | None
    mask: ZeroColumnMask
    target: Target

    @property
    def group(self) -> int:
        """The cta_group: how many CTAs take part."""
        return self.layout.cta_group

    @property
    def types(self) -> tuple[ElementType, ElementType, ElementType]:
        """The element types of A, B and D."""
        kind = self.idesc.kind
        result = ELEMENT_TYPES[self.idesc.result_type]
        return operand_element(str(self.idesc.a_type), kind), operand_element(str(self.idesc.b_type), kind), result


def multiply(
    call: Call,
    ctas: Sequence[Cta],
    *,
    target: str | Target,
    arithmetic: str = "chip",
    compare: bool = False,
    meet: Meet | None = None,
) -> int:
    """Executes one instruction; returns how far D is from the exact result, in units in the last place, or -1 if that
    is not asked for.

    Args:
        call: the instruction.
        ctas: the CTA that issues it, or both of a pair, the even rank first, for cta_group::2.
        target: whose arithmetic.
        arithmetic: "chip" or "exact".
        compare: whether to compare with the exact result of the same operands.
        meet: called with the name, the number and the place of what is undefined but has a result here; default: raises
            UndefinedBehavior.

    Raises:
        IsaError: descriptors or addresses that no such instruction can have.
        UndefinedBehavior: Tensor Memory that is not allocated; what `meet` makes of the rest.
    """
    check_option("arithmetic", arithmetic, get_args(Arithmetic))
    plan = _plan(call, parse_target(target), ctas)
    meet = meet or _refuse
    for cta in ctas:
        _look_into_collector(call, cta, meet)
    b = _b(plan, ctas)
    operands = [_operands(plan, cta, b, meet) for cta in ctas]
    results = [add(_sum(plan, arithmetic), matrices) for matrices in operands]
    for rank, (cta, patterns) in enumerate(
        zip(ctas, results, strict=True)
    ):  # nothing is written before everything is known to be right
        accumulators(plan.d, plan.idesc, plan.layout, plan.types[2]).write(
            cta, patterns, _written_lanes(call.lanes, rank)
        )
        _collect(call, cta)
    if not compare:
        return -1
    if not plan.types[2].is_float:  # sums of integers are exact
        return 0
    exact = [add(_sum(plan, "exact"), matrices) for matrices in operands]
    return max(
        int(ulp_distance(patterns, right, plan.types[2]).max()) for patterns, right in zip(results, exact, strict=True)
    )


def facts_of(call: Call) -> MmaFacts:
    """The facts of an instruction on which its time depends."""
    form, idesc = call.form, instruction_descriptor(call.idesc, call.form.kind)
    a_type, b_type = (operand_element(str(name), form.kind) for name in (idesc.a_type, idesc.b_type))
    bits = a_type.bits, b_type.bits
    return MmaFacts(
        form.kind, idesc.m, idesc.n, idesc.k, form.cta_group, form.ws, form.sparse, bool(form.a_in_tmem), *bits
    )


def row_of(kind: str, sparse: bool, target: Target) -> SumRow | None:
    """The arithmetic of a kind on a target; None for integers. All types of a kind have one row."""
    if kind == "i8":
        return None
    packed = kind.startswith("mxf4")
    element = "f16" if kind == "f16" else "tf32" if kind == "tf32" else "e2m1" if packed else "e4m3"
    scaled = "mxf4" if packed else kind if kind == "mxf8f6f4" else ""
    return find_row("tcgen05", target, ELEMENT_TYPES[element], sparse=sparse, kind=scaled)


def _refuse(name: str, count: int, where: str) -> None:
    raise undefined_behavior(name, where)


def _plan(call: Call, target: Target, ctas: Sequence[Cta]) -> _Plan:
    form = call.form
    idesc = instruction_descriptor(call.idesc, form.kind)
    group = form.cta_group
    _check_operands(call)
    if len(ctas) != group:
        raise IsaError(
            form.opcode, -1, f"cta_group::{group} with CTAs: {len(ctas)}", "a pair of CTAs for cta_group::2, else one"
        )
    vector = form.vector.removeprefix("scale_vec::")
    idesc.check(
        cta_group=group,
        sparse=form.sparse,
        ws=form.ws,
        target=target,
        ashift=form.ashift,
        scale_vec=vector,
        a_in_tmem=bool(form.a_in_tmem),
    )
    if idesc.k96:
        raise IsaError(hex(call.idesc), -1, "K = 96 is not executed", "K = 64, or 128 with .sp", rule="idesc")
    layout = datapath(idesc.m, group, idesc.sparse, form.ws)
    d = TmemAddress.from_word(call.d)
    a = TmemAddress.from_word(call.a) if form.a_in_tmem else None
    sp_meta = TmemAddress.from_word(call.sp_meta) if form.sparse else None
    check_addresses(layout, d, a=a, sp_meta=sp_meta)
    mask = ZeroColumnMask.decode(call.zero_mask)
    if call.zero_mask:
        mask.check(m=idesc.m, n=idesc.n, max_shift=idesc.max_shift)
    metadata = tmem_metadata(form.kind, idesc.m, group, form.ws) if form.sparse else None
    scales = None
    if form.block_scale:
        scales = (
            tmem_scales(form.kind, "a", m=idesc.m, n=idesc.n, vector=vector, cta_group=group, sparse=form.sparse),
            tmem_scales(form.kind, "b", m=idesc.m, n=idesc.n, vector=vector, cta_group=group, sparse=form.sparse),
        )
    return _Plan(call, idesc, layout, d, a, metadata, sp_meta, scales, mask, target)


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


def _check_operands(call: Call) -> None:
    """IsaError for operands that the form has not, or with values that it does not take. PTX ISA 9.0, 9.7.16.10.9."""
    form = call.form
    words = 4 * form.cta_group if form.has_lane_vector else 0
    given = (
        ("a lane mask", len(call.lanes), (0, words), f"of {len(call.lanes)} words"),
        ("scale-input-d", call.scale_d, range(16) if form.has_scale_d else (0,), f"of {call.scale_d}"),
        ("a zero-column mask", call.zero_mask, (call.zero_mask,) if form.has_zero_mask else (0,), hex(call.zero_mask)),
    )
    for what, value, legal, shown in given:
        if value not in legal:
            right = "none" if set(legal) == {0} else f"{words} words" if what == "a lane mask" else "0 to 15"
            rule = "zero-column-mask" if what == "a zero-column mask" else ""
            raise IsaError(form.opcode, -1, f"{what} {shown}", right, rule=rule)
    for name, address in (("scale_a", call.scale_a), ("scale_b", call.scale_b)):
        if form.block_scale and TmemAddress.from_word(address).lane:
            raise IsaError(
                hex(address),
                -1,
                f"{name} at lane {TmemAddress.from_word(address).lane}",
                "lane 0: factors are in all quarters (inferred)",
            )


def _negated(patterns: Bits, element: ElementType, negate: bool) -> Bits:
    return patterns ^ np.uint32(1 << element.sign_bit) if negate else patterns


def _b(plan: _Plan, ctas: Sequence[Cta]) -> Bits:
    """B of the whole instruction, uint32 [k, n]: each CTA of a pair brings half of the columns; masked columns are
    zero."""
    idesc = plan.idesc
    shift = plan.mask.column_shift
    parts = [smem_matrix(cta, plan.call.b, idesc, "b", plan.group, str(plan.target), extra=shift) for cta in ctas]
    columns = np.concatenate([part[shift:] for part in parts])
    if plan.call.zero_mask:
        columns = np.where(plan.mask.mask(idesc.n, m=idesc.m)[:, None], np.uint32(0), columns)
    return _negated(columns, plan.types[1], idesc.negate_b).T


def _a(plan: _Plan, cta: Cta, meet: Meet) -> Bits:
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


def _codes(plan: _Plan, cta: Cta, a: Bits, meet: Meet) -> Bits | None:
    """The metadata of one CTA, uint32 [part, row, chunk]; undefined codes are told to `meet`, and used all the same."""
    if plan.metadata is None or plan.sp_meta is None:
        return None
    words = codes(cta, plan.sp_meta, plan.idesc, plan.metadata)
    if len(words) != plan.layout.parts:
        words = np.broadcast_to(words, (plan.layout.parts, *words.shape[1:]))
    differing = int((words != words[:1]).any(axis=0).sum())
    if differing:
        meet("tmem-copies-differ", differing, f"metadata of {plan.call.form.opcode}")
    empty = np.asarray(is_zero(a, plan.types[0]).reshape(*words.shape, -1).all(axis=-1), np.bool_)
    undefined = plan.metadata.findings(words, empty)["undefined-metadata"]
    if undefined.any():
        _, row, chunk = (int(i) for i in np.argwhere(undefined)[0])
        code = int(words[undefined][0])
        meet(
            "undefined-metadata",
            int(undefined.any(axis=0).sum()),
            f"{plan.call.form.opcode}: row {row}, chunk {chunk}: code 0b{code:04b}",
        )
    return words


def _scales(plan: _Plan, cta: Cta, meet: Meet) -> tuple[Bits, Bits] | tuple[None, None]:
    """Scale factors of one CTA: uint32 [part, row, factor] and [part, n of the part, factor]."""
    if plan.scales is None:
        return None, None
    addresses = TmemAddress.from_word(plan.call.scale_a), TmemAddress.from_word(plan.call.scale_b)
    ids = plan.idesc.a_scale_id, plan.idesc.b_scale_id
    a, b = (factors(cta, address, scales, id) for address, scales, id in zip(addresses, plan.scales, ids, strict=True))
    for gathered, what in ((a, "A"), (b, "B")):
        if gathered.differs.any():
            meet(
                "tmem-copies-differ", int(gathered.differs.sum()), f"scale factors of {what} of {plan.call.form.opcode}"
            )
    parts = plan.layout.parts
    return np.broadcast_to(a.patterns, (parts, *a.patterns.shape)), b.patterns.reshape(parts, -1, b.patterns.shape[1])


def _operands(plan: _Plan, cta: Cta, b: Bits, meet: Meet) -> Operands:
    """The matrices of one CTA, a case for each part of N."""
    call, idesc, layout = plan.call, plan.idesc, plan.layout
    _, _, d_type = plan.types
    cells = accumulators(plan.d, idesc, layout, d_type)
    shape = layout.parts, layout.rows, idesc.n // layout.parts
    c = _scaled(cells.read(cta), d_type, call.scale_d) if call.enable else np.zeros(shape, np.uint32)
    a = _a(plan, cta, meet)
    metadata = _codes(plan, cta, a, meet)
    scale_a, scale_b = _scales(plan, cta, meet)
    by_part = b.reshape(idesc.k, layout.parts, -1).transpose(1, 0, 2)
    cta.tmem.check(cells.lane, cells.column, "D: ")
    return Operands(np.ascontiguousarray(a), np.ascontiguousarray(by_part), c, metadata, scale_a, scale_b)


def _sum(plan: _Plan, arithmetic: str) -> Sum:
    idesc, layout = plan.idesc, plan.layout
    a_type, b_type, d_type = plan.types
    row = row_of(idesc.kind, idesc.sparse, plan.target) if arithmetic == "chip" else None
    sparsity = plan.metadata.sparsity if plan.metadata else None
    scale, count = (SCALE_TYPES[str(idesc.scale_type)], plan.scales[0].factors) if plan.scales else (None, 0)
    types = a_type, b_type, d_type, d_type
    return Sum(
        layout.rows,
        idesc.n // layout.parts,
        idesc.k,
        *types,
        row.rule if row else None,
        sparsity,
        idesc.saturate,
        scale,
        count,
    )


def _scaled(patterns: Bits, element: ElementType, scale_d: int) -> Bits:
    """D times 2 to the minus scale_d, rounded to D's type where it becomes subnormal (that it is rounded there, to
    nearest even: assumed)."""
    if not scale_d:
        return patterns
    return from_float64(to_float64(patterns, element) * 2.0**-scale_d, element)


def _written_lanes(words: tuple[int, ...], rank: int) -> NDArray[np.bool_]:
    """Bool [128]: which lanes of D a CTA writes; of 8 words the second half is for the odd CTA (assumed)."""
    if not words:
        return np.ones(TMEM_LANES, np.bool_)
    mine = words[:4] if len(words) == 4 else words[4 * rank : 4 * rank + 4]
    bits = np.array(mine, np.uint32)[:, None] >> np.arange(32, dtype=np.uint32)
    return np.asarray((bits & 1 == 0).reshape(TMEM_LANES), np.bool_)
