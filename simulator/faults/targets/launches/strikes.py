"""Where a fault of a launch strikes: a 32-bit word of a register, of a CTA's shared memory, or of a buffer; and the
counter that applies it when its time comes.

`simulator.faults.targets.register_sites` says which words registers are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from isa.forms.mma import MmaForm, is_mma
from isa.ptx.instruction import Guard
from simulator.execute.cta_state import Outcome
from simulator.execute.dispatch import guarded_lanes
from simulator.execute.launch_state import LaunchState
from simulator.execute.operands import reader
from simulator.faults.aim.executed import Static
from simulator.faults.targets.injection import FaultInjection
from simulator.faults.targets.launches.l1 import CachedWords
from simulator.faults.targets.register_sites import REGISTER_SITES, cell
from simulator.faults.targets.single_run import metadata_checks
from simulator.program.kernel import Branch, Exit, Item, Kernel, Operation, Switch
from simulator.state.registers import Lanes, Warps

Mask = NDArray[np.bool_]


def read_registers(kernel: Kernel) -> Iterator[str]:
    """The names of the registers that some item reads, guards of branches and exits included."""
    for item in kernel.items:
        yield from needed_by(item)


def statics_of(kernel: Kernel) -> dict[int, Static]:
    """The instructions of a kernel by number of item; of branches and exits those with a guard."""
    found = {}
    for item in kernel.items:
        if isinstance(item, Operation):
            found[item.index] = Static(item.instruction, item.line, item.source)
        elif isinstance(item, Branch | Exit) and item.guard is not None:
            found[item.index] = Static(None, item.line, item.source, item.opcode, item.guard)
    return found


def needed_by(item: Item) -> tuple[str, ...]:
    """The names of the registers whose values an item needs."""
    if isinstance(item, Operation):
        return item.needs
    guard = (item.guard.predicate.name,) if item.guard is not None else ()
    return (*guard, item.register.name) if isinstance(item, Switch) else guard


def strike_register(registers: Any, injection: FaultInjection, row: int) -> None:
    """Applies a fault to the registers of a row that it names."""
    rows = np.array([row], np.intp)
    for place, (word, lane, _) in enumerate(injection.places):
        sort, number, low = cell(registers.numbering, injection.site, word)
        values = registers.read(rows, [number], sort).copy()
        held = int(values[0, 0, lane])
        new = injection.applied(held >> low & 0xFFFFFFFF, place)
        values[0, 0, lane] = held & ~(0xFFFFFFFF << low) | new << low
        registers.write(rows, [number], values, sort=sort)


def shared_words(state: LaunchState) -> tuple[NDArray[np.uint32], int]:
    """The shared memories of the CTAs of a batch as words, uint32 [word], and how many words each takes."""
    shared = cast(Any, state.shared)
    return shared.data.view(np.uint32), shared.stride // 4


def strike_word(words: NDArray[np.uint32], index: int, injection: FaultInjection, place: int = 0) -> None:
    """Applies a fault to a word of a memory, one of its places."""
    words[index] = injection.applied(int(words[index]), place)


@dataclass(frozen=True)
class Codes:
    """The codes that an `mma.sp` reads.

    Attributes:
        form: the instruction's.
        selector: which of the codes in a register it reads.
        guard: the predicate that lets it execute; None: it always does.
        words: gives the words of metadata of some rows, uint32 [row, 1, lane].
    """

    form: MmaForm
    selector: int
    guard: Guard | None
    words: Callable[[LaunchState, Warps], NDArray[Any]]

    def check(self, state: LaunchState, rows: Warps) -> tuple[Mask, Mask]:
        """Whether one of the codes is undefined, where the instruction is executed, and whether the indices of one do
        not ascend: bool [row] each."""
        illegal, unordered = metadata_checks(self.form, self.words(state, rows)[:, 0], self.selector)
        if self.guard is None:
            return illegal, unordered
        return illegal & guarded_lanes(self.guard, state, rows).any(axis=1), unordered


def codes_read(kernel: Kernel) -> dict[int, Codes]:
    """By place, the codes that an instruction reads."""
    found = {}
    for item in kernel.items:
        if isinstance(item, Operation) and is_mma(form := item.instruction.form) and form.sparse:
            instruction = item.instruction
            found[item.index] = Codes(form, instruction.selector, instruction.guard, reader(instruction["e"]))
    return found


class SumWatch(Protocol):
    """Compares checksums of metadata, see `simulator.faults.detectors.metadata_sums.Watch`."""

    def differ(self, place: int, state: Any, rows: Warps) -> Mask:
        """Whether those that rows have read are others than without a fault: bool [row]."""


class Strikes:
    """Counts the dynamic instructions of the warps of a batch, applies a fault where its time comes, and checks the
    order of the codes that are read.

    Attributes:
        counts: int64 [row].
        unordered: whether the indices of a code that an instruction read do not ascend.
        summed: whether a checksum of metadata was another.
    """

    def __init__(
        self,
        state: LaunchState,
        codes: dict[int, Codes],
        injection: FaultInjection | None,
        row: int,
        buffers: Sequence[NDArray[np.uint32]],
        watch: SumWatch | None = None,
        cached: CachedWords | None = None,
    ) -> None:
        """
        Args:
            injection: the fault; None where it strikes another batch, or there is none.
            row: the row of its warp.
            buffers: the words of buffers that it strikes, each uint32 [1].
            watch: what compares checksums of metadata; None for nothing.
            cached: those in L1.
        """
        self.counts = np.zeros(state.batch.rows, np.int64)
        self.state, self.codes, self.buffers, self.cached = state, codes, buffers, cached
        self.injection, self.row, self.unordered = injection, row, False
        self.watch, self.summed = watch, False
        if injection is not None and injection.first == 0:
            self._apply(injection)

    def __call__(self, place: int, rows: Warps, lanes: Lanes | None, outcome: Outcome) -> None:
        self.counts[rows] += 1
        injection, check = self.injection, self.codes.get(place)
        self.unordered |= check is not None and bool(check.check(self.state, rows)[1].any())
        self.summed |= self.watch is not None and bool(self.watch.differ(place, self.state, rows).any())
        if injection is None:
            return
        now, own = int(self.counts[self.row]), bool((rows == self.row).any())
        if injection.site in ("global", "l1") and injection.model != "lost":
            if own and now == injection.first:
                self._apply(injection)
        elif injection.there(now) and (own or (injection.site == "shared" and injection.lasting)):
            self._apply(injection)

    def _apply(self, injection: FaultInjection) -> None:
        if injection.site in REGISTER_SITES:
            strike_register(self.state.registers, injection, self.row)
        elif injection.site == "shared":
            words, each = shared_words(self.state)
            for number, place in enumerate(injection.places):
                strike_word(words, self.row // self.state.warps * each + place.word, injection, number)
        elif self.cached is not None:
            for number in range(len(injection.places)):
                self.cached.strike(number, injection, number)
        else:
            for number, buffer in enumerate(self.buffers):
                strike_word(buffer, 0, injection, number)
