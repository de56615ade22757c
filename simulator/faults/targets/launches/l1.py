"""Faults in words of L1: only loads of their CTA that go through L1 see them, and what the CTA stores ends them.

While such a load is executed, memory holds the faulty word; before and behind it memory is as it is without the fault.
A load writes no global memory, so nothing else can see the word in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from isa.forms.synchronisation import writes_memory
from simulator.execute.copies import through_l1
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.dispatch import executor, guarded_lanes
from simulator.execute.operands import addresses
from simulator.faults.targets.injection import FaultInjection
from simulator.program.kernel import Operation
from simulator.simulation.launch.interpreter import step_of
from simulator.simulation.launch.run import Code
from simulator.state.registers import Lanes, Warps

_BYTES = np.arange(4)
Bits = NDArray[np.uint32]
Numbers = NDArray[np.int64]


class CachedWords:
    """Words in L1 that faults have changed, at most one for each copy of a CTA.

    Args:
        warps: warps of a copy.
        places: int64 [word]: where the words lie, and of which copy each is (`owners`, int64 [word], ascending).
        place: gives the places of addresses.
        get, put: read words by their numbers, and write them.
        apart: whether each copy has a memory of its own; else a load is executed for its CTA alone.
    """

    def __init__(
        self,
        warps: int,
        owners: Numbers,
        places: Numbers,
        place: Callable[[Numbers], Numbers],
        get: Callable[[Numbers], Bits],
        put: Callable[[Numbers, Bits], None],
        *,
        apart: bool,
    ) -> None:
        self.warps, self.owners, self.places, self.apart = warps, owners, places, apart
        self._place, self._get, self._put = place, get, put
        self.mask, self.target = (np.zeros(len(owners), np.uint32) for _ in range(2))

    def strike(self, word: int, injection: FaultInjection, number: int = 0) -> None:
        """Applies one place of a fault to a word."""
        self.target[word] = injection.applied(int(self._get(np.array([word]))[0]), number)
        self.mask[word] = injection.places[number].mask

    def code(self, code: Code) -> Code:
        """The kernel whose loads through L1 see these words, and whose stores end them."""
        steps = list(code.steps)
        for place, item in enumerate(code.kernel.items):
            if not isinstance(item, Operation):
                continue
            form, execute = item.instruction.form, None
            if through_l1(form):
                execute = self._loading(executor(item.instruction))
            elif writes_memory(form) and "address" in item.instruction.by_role:
                execute = self._storing(item)
            if execute is not None:
                steps[place] = step_of(item, execute)
        return code._replace(steps=steps)

    @contextmanager
    def _exchanged(self) -> Iterator[None]:
        """While a load is executed, the faulty words in place of the right ones."""
        there = np.flatnonzero(self.mask)
        before = self._get(there)
        self._put(there, before & ~self.mask[there] | self.target[there] & self.mask[there])
        try:
            yield
        finally:
            self._put(there, before)

    def _loading(self, execute: Executor) -> Executor:
        def run(machine: CtaState, warps: Warps) -> Outcome:
            if not self.mask.any():
                return execute(machine, warps)
            mine = np.isin(warps // self.warps, self.owners[self.mask != 0])
            if self.apart or mine.all() or not mine.any():
                if not mine.any():
                    return execute(machine, warps)
                with self._exchanged():
                    return execute(machine, warps)
            active, outcome = machine.active, NOTHING
            try:
                machine.active = None if active is None else active[~mine]
                outcome = execute(machine, warps[~mine])
                machine.active = None if active is None else active[mine]
                with self._exchanged():
                    execute(machine, warps[mine])
            finally:
                machine.active = active
            return outcome

        return run

    def _storing(self, item: Operation) -> Executor:
        instruction = item.instruction
        execute, where = executor(instruction), addresses(instruction["address"])
        size = instruction.form.width // 8 * instruction.form.elements

        def run(machine: CtaState, warps: Warps) -> Outcome:
            struck = np.flatnonzero(self.mask)
            mine = np.flatnonzero(np.isin(warps // self.warps, self.owners[struck])) if len(struck) else struck
            if len(mine):
                lanes: Lanes = machine.threads(warps)[mine]
                if instruction.guard is not None:
                    lanes = lanes & guarded_lanes(instruction.guard, machine, warps[mine])
                self._overwrite(warps[mine] // self.warps, self._place(where(machine, warps[mine])), lanes, size)
            return execute(machine, warps)

        return run

    def _overwrite(self, owners: Numbers, first: Numbers, lanes: Lanes, size: int) -> None:
        """Ends the faults in bytes that copies store `size` bytes to from `first` [row, lane] on."""
        for word in np.flatnonzero(self.mask).tolist():
            rows = owners == self.owners[word]
            begins = first[rows][lanes[rows]]
            stored = ((begins[:, None] <= self.places[word] + _BYTES)
                      & (self.places[word] + _BYTES < begins[:, None] + size)).any(axis=0)  # fmt: skip
            bits = sum(0xFF << 8 * byte for byte in np.flatnonzero(stored).tolist())
            self.mask[word] &= np.uint32(~bits & 0xFFFFFFFF)


def of_launch(warps: int, owner: int, starts: list[int], buffers: list[Bits]) -> CachedWords:
    """The words in L1 that a fault of a launch of its own strikes.

    Args:
        owner: the number of the CTA in its batch.
        starts: their addresses.
        buffers: the words, each uint32 [1].
    """

    def get(some: Numbers) -> Bits:
        return np.array([buffers[number][0] for number in some.tolist()], np.uint32)

    def put(some: Numbers, values: Bits) -> None:
        for number, value in zip(some.tolist(), values.tolist(), strict=True):
            buffers[number][0] = value

    owners = np.full(len(starts), owner, np.int64)
    return CachedWords(warps, owners, np.array(starts, np.int64), lambda given: given, get, put, apart=False)
