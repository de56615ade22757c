"""Follows one period of a loop and finds out for how many more it will happen again in just the same way.

At the beginning of the period every register that matters is known to have moved on by a step since the period before.
The steps are followed through all operations of the period (`simulator.execute.affine`). If they are the same at its
end, all that follows happens alike, but for values that move on: by induction, for as many turns as each address stays
in memory and each comparison keeps its result.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

import numpy as np
from numpy.typing import NDArray

from isa.ptx.instruction import Address
from simulator.execute.affine import Foresight, NotForetoldError, Steps, Term, steps_of
from simulator.execute.cta_state import CtaState
from simulator.execute.dispatch import guarded_lanes
from simulator.execute.operands import addresses, reader
from simulator.execute.registry import of_operands_alone
from simulator.execute.traffic import Site
from simulator.simulation.group import Group
from simulator.simulation.relevance import Use
from simulator.state.global_memory import LINE_BYTES
from simulator.state.registers import WARP_SIZE, Lanes, Numbering

_WORD = 4  # bytes by which wavefronts stay the same if all addresses of a warp move on by a multiple of them


class Follower:
    """The steps of the registers of all groups while a period is executed.

    Args:
        steps: by the number of each group, by register the steps int64 [warp, lane] of those that move.
        lean: whether only time is asked for: then shared memory may be swept, since nobody counts races.
        shared, outside: whether what shared memory, or global memory, holds decides something.
    """

    def __init__(
        self,
        numbering: Numbering,
        steps: Mapping[int, Mapping[int, Steps]],
        *,
        lean: bool,
        shared: bool,
        outside: bool,
    ) -> None:
        self.numbering, self.lean, self.shared, self.outside = numbering, lean, shared, outside
        self.foresight = Foresight()
        self.steps = {number: dict(moving) for number, moving in steps.items()}
        self.moving = {number: _mask(moving) for number, moving in self.steps.items()}
        self.zeros: list[tuple[NDArray[np.int64], Steps, int]] = []  # loads that must read zeros in every turn

    def follow(self, number: int, group: Group, use: Use, machine: CtaState) -> None:
        """Follows the steps through an operation that is about to be executed; NotForetoldError where that fails."""
        if self.outside and use.traffic is not None and any(s.writes and not s.shared for s in use.traffic.sites):
            raise NotForetoldError  # what it writes may be read
        moving = self.moving[number]
        if not (use.reads | use.writes) & moving:
            return
        guard = use.operation.instruction.guard
        active = None if guard is None else guarded_lanes(guard, machine, group.warps)
        result: Steps | None = None
        if use.reads & moving and (active is None or active.any()):
            if use.traffic is not None:
                self.access(number, group, use, machine, active)
            elif not of_operands_alone(use.operation.instruction.form):
                raise NotForetoldError
            elif use.needed:
                result = self.compute(number, group, use, machine, active)
        if use.writes:
            self.write(number, use, result, active)

    def write(self, number: int, use: Use, result: Steps | None, active: Lanes | None) -> None:
        """Notes the steps of what an operation writes; None: it does not move."""
        known = self.steps[number]
        for register in use.operation.writes:
            before = known.get(register)
            after = result
            if active is not None and (before is not None or result is not None):
                after = np.where(active, 0 if result is None else result, 0 if before is None else before)
            if after is not None and after.any():
                known[register] = after
                self.moving[number] |= 1 << register
            else:
                known.pop(register, None)
                self.moving[number] &= ~(1 << register)

    def compute(self, number: int, group: Group, use: Use, machine: CtaState, active: Lanes | None) -> Steps:
        """The steps of the result of an operation between registers."""
        instruction = use.operation.instruction
        form, terms = instruction.form, dict[str, Term]()
        for role in form.roles:
            if role.output:
                continue
            operand = instruction[role.name]
            values = reader(operand, role.width)(machine, group.warps)[:, 0]
            name = str(operand).removeprefix("!")
            terms[role.name] = Term(values, self.steps_of(number, group, name, active), role.width)
        return steps_of(form, self.foresight, terms, form.role("d").width)

    def steps_of(self, number: int, group: Group, name: str, active: Lanes | None) -> Steps:
        """The steps of the register of this name; zeros for what does not move, and in threads that take no part."""
        known = self.steps[number]
        steps = next((known[register] for register in self.numbering.numbers((name,)) if register in known), None)
        if steps is None:
            return np.zeros((len(group.warps), WARP_SIZE), np.int64)
        return steps if active is None else np.where(active, steps, 0)

    # Memory

    def access(self, number: int, group: Group, use: Use, machine: CtaState, active: Lanes | None) -> None:
        """Follows the addresses of an access: they must stay in memory, and move so that its time stays the same."""
        assert use.traffic is not None
        instruction, addressing = use.operation.instruction, 0
        for site in use.traffic.sites:
            operand = instruction[site.role]
            assert isinstance(operand, Address)
            base = "" if operand.base is None else operand.base.name
            steps = self.steps_of(number, group, base, active)[:, : site.lanes]
            addressing |= _mask(self.numbering.numbers((base,)))
            if steps.any():
                where = addresses(operand)(machine, group.warps)[:, : site.lanes]
                width = np.full(where.shape, site.width, np.int64)
                if use.traffic.size:
                    width = reader(instruction[use.traffic.size])(machine, group.warps)[:, 0].astype(np.int64)
                self.site(site, machine, (where, steps, width), active)
                if site.writes:
                    if self.shared if site.shared else self.outside:
                        raise NotForetoldError
                elif use.needed or (self.shared and len(use.traffic.sites) > 1):
                    if site.shared:
                        raise NotForetoldError
                    taking = np.ones(where.shape, np.bool_) if active is None else active
                    self.zeros.append((where[taking], steps[taking], int(width[taking].max())))
        filled = instruction.by_role.get("filled")
        if filled is not None and _mask(self.numbering.numbers((str(filled),))) & self.moving[number]:
            raise NotForetoldError
        if use.reads & self.moving[number] & ~addressing:
            raise NotForetoldError

    def site(
        self,
        site: Site,
        machine: CtaState,
        moving: tuple[NDArray[np.int64], Steps, NDArray[np.int64]],
        active: Lanes | None,
    ) -> None:
        """Checks the addresses of one place of an access, their steps, and how many bytes each accesses."""
        where, steps, width = moving
        if site.shared and not self.lean:
            raise NotForetoldError
        taking = np.ones(where.shape, np.bool_) if active is None else active[:, : site.lanes]
        unit = max(_WORD, site.width) if site.shared else LINE_BYTES
        for row, threads in zip(steps, taking, strict=True):
            some = row[threads]
            if some.size and (some != some[0]).any():
                raise NotForetoldError
            if some.size and int(some[0]) % unit:
                raise NotForetoldError(unit // gcd(int(some[0]), unit))
        size = (machine.shared if site.shared else machine.memory).data.size
        self.foresight.within(where[taking], steps[taking], 0, size - width[taking])

    def zeros_until(self, machine: CtaState, turns: int) -> bool:
        """Whether all that was loaded from addresses that move is zero, and stays so for this many turns."""
        for where, steps, width in self.zeros:
            low = int(np.minimum(where, where + steps * turns).min())
            high = int(np.maximum(where, where + steps * turns).max()) + width
            if machine.memory.data[max(low, 0) : high].any():
                return False
        return True


def _mask(registers: Mapping[int, Steps] | tuple[int, ...]) -> int:
    bits = 0
    for register in registers:
        bits |= 1 << register
    return bits
