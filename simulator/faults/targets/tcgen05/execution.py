"""One execution of a `tcgen05.mma` with whatever is in its operands, descriptors and addresses.

Every fault can be executed like this. `simulator.faults.targets.tcgen05.together` computes the faults in operands many
at a time, and is tested to give the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from isa.descriptors.bitfields import Severity
from isa.descriptors.instruction import InstructionDescriptor
from isa.errors import IsaError, UndefinedBehavior
from isa.tensor_memory.address import TmemAddress
from isa.tensor_memory.datapath import Violation, datapath, violations
from isa.types import Bits
from simulator.execute.tcgen05.example import Shape, legality
from simulator.execute.tcgen05.fetch import Cta
from simulator.execute.tcgen05.multiply import multiply
from simulator.execute.tcgen05.plan import Call
from simulator.faults.targets.executed import Executed
from simulator.faults.targets.policies import mend

FOLLOWED: Mapping[str, str] = MappingProxyType({"d": "d", "a": "a", "e": "sp_meta"})
"""Operands in Tensor Memory, and their addresses in a call."""


@dataclass(frozen=True)
class Execution:
    """How the instruction of a target is executed.

    Attributes:
        shape: its form, descriptors and addresses without faults.
        columns: how many columns of Tensor Memory each operand of `FOLLOWED` that is there takes.
        target, policy, arithmetic, misaligned: as those of the fault target.
    """

    shape: Shape
    columns: Mapping[str, int]
    target: str
    policy: str
    arithmetic: str
    misaligned: str

    def run(self, ctas: list[Cta], call: Call) -> Executed:
        """Executes the instruction with these operands; afterwards memory is as it was before."""
        kept = [cta.tmem.words.copy() for cta in ctas]
        shared = [cta.shared.copy() for cta in ctas] if self.policy == "zero" else []
        try:
            return self._multiplied(ctas, call)
        finally:
            for cta, words in zip(ctas, kept, strict=True):
                cta.tmem.words[:] = words
            for cta, data in zip(ctas, shared, strict=False):
                cta.shared[:] = data

    def read(self, ctas: list[Cta]) -> Bits:
        """D, read from where it should be: uint32 [row, n]."""
        rows, accumulators = self.shape.rows, self.shape.accumulators
        return np.concatenate([accumulators.read(cta).transpose(1, 0, 2).reshape(rows, -1) for cta in ctas])

    def _multiplied(self, ctas: list[Cta], call: Call) -> Executed:
        """Checks addresses and descriptor, then executes the instruction; memory keeps what it changed."""
        idesc = InstructionDescriptor.decode(call.idesc, self.shape.form.kind)
        try:
            broken = self._broken(call, idesc)
        except IsaError as error:
            return Executed(None, reason="illegal", said=str(error))
        if broken and self.misaligned == "fault":
            return Executed(None, broken, reason="misaligned-address", said="; ".join(map(str, broken)))
        offsets, call = self._straightened(call) if broken else ({}, call)
        for name, lanes in offsets.items():
            self._turn(ctas, call, name, -lanes)
        met: list[str] = []
        undefined, unordered = mend(self.shape, ctas, call, idesc, self.policy)
        how: dict[str, Any] = {"target": self.target, "arithmetic": self.arithmetic}
        try:
            multiply(call, ctas, **how, meet=lambda name, _count, _where, _rule="": met.append(name))
        except (IsaError, UndefinedBehavior) as error:
            return Executed(None, broken, self._refused(idesc), reason="illegal", said=str(error))
        if "d" in offsets:
            self._turn(ctas, call, "d", offsets["d"])
        return Executed(self.read(ctas), broken, "undefined-metadata" in met or undefined, unordered)

    def _refused(self, idesc: InstructionDescriptor) -> bool:
        """Whether the instruction descriptor is the reason for the error."""
        problems = idesc.validate(target=self.target, **legality(self.shape.form))
        return any(problem.severity is not Severity.WARNING for problem in problems)

    def _broken(self, call: Call, idesc: InstructionDescriptor) -> tuple[Violation, ...]:
        """The alignment rules that the addresses break; none where the descriptor has no layout that could be asked."""
        form = self.shape.form
        d, a = TmemAddress.from_word(call.d), TmemAddress.from_word(call.a) if form.a_in_tmem else None
        meta = TmemAddress.from_word(call.sp_meta) if form.sparse else None
        try:
            layout = datapath(idesc.m, form.cta_group, form.sparse, form.ws)
        except IsaError:
            return ()
        return tuple(violations(layout, d, a=a, sp_meta=meta))

    def _straightened(self, call: Call) -> tuple[dict[str, int], Call]:
        """What follows from a misalignment: by how many lanes each operand is displaced, and the instruction with the
        right addresses."""
        offsets: dict[str, int] = {}
        for site, name in FOLLOWED.items():
            word, legal = getattr(call, name), getattr(self.shape.call, name)
            if site in self.columns and word >> 16 != legal >> 16:
                offsets[site] = (word >> 16) - (legal >> 16)
                call = replace(call, **{name: legal & 0xFFFF0000 | word & 0xFFFF})
        return offsets, call

    def _turn(self, ctas: list[Cta], call: Call, site: str, lanes: int) -> None:
        """Moves an operand by this many lanes."""
        first = getattr(call, FOLLOWED[site]) & 0xFFFF
        columns = slice(first, first + self.columns[site])
        for cta in ctas:
            cta.tmem.words[:, columns] = np.roll(cta.tmem.words[:, columns], lanes, axis=0)
