"""What one tcgen05.mma is told: its descriptors and addresses, decoded and checked, and how it adds. PTX ISA 9.0,
9.7.16.10."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isa.descriptors.instruction import InstructionDescriptor
from isa.descriptors.zero_column_mask import ZeroColumnMask
from isa.errors import IsaError
from isa.forms.tcgen05 import Tcgen05MmaForm
from isa.shared_memory.packing import operand_element
from isa.targets import Target
from isa.tensor_memory.address import TMEM_LANES, TmemAddress
from isa.tensor_memory.datapath import DatapathLayout, check_addresses, datapath
from isa.tensor_memory.metadata import TmemMetadata, tmem_metadata
from isa.tensor_memory.scales import TmemScales, tmem_scales
from isa.types import ELEMENT_TYPES, SCALE_TYPES, ElementType
from simulator.arithmetic import Sum, SumRow, find_row
from simulator.execute.dynamic_info import MmaFacts
from simulator.execute.tcgen05.fetch import instruction_descriptor


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
class Plan:
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


def plan_of(call: Call, target: Target, ctas: Sized) -> Plan:
    """The plan of a call that these CTAs execute; IsaError for descriptors or addresses that no such instruction can
    have."""
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
    return Plan(call, idesc, layout, d, a, metadata, sp_meta, scales, mask, target)


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
        if form.block_scale and TmemAddress.of_scales(address).lane:
            raise IsaError(
                hex(address),
                -1,
                f"{name} at lane {TmemAddress.of_scales(address).lane}",
                "lane 0: factors are in all quarters (inferred)",
            )


def sum_of(plan: Plan, arithmetic: str) -> Sum:
    """How the instruction adds in one part of N: as the chip, or exactly."""
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


def written_lanes(words: tuple[int, ...], rank: int) -> NDArray[np.bool_]:
    """Bool [128]: which lanes of D a CTA writes; of 8 words the second half is for the odd CTA (assumed)."""
    if not words:
        return np.ones(TMEM_LANES, np.bool_)
    mine = words[:4] if len(words) == 4 else words[4 * rank : 4 * rank + 4]
    bits = np.array(mine, np.uint32)[:, None] >> np.arange(32, dtype=np.uint32)
    return np.asarray((bits & 1 == 0).reshape(TMEM_LANES), np.bool_)
