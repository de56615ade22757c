"""Copies of CTAs of a launch, each with a fault of its own, that run beside each other as the rows of one batch."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from isa.errors import Error
from simulator.execute.dispatch import executor
from simulator.execute.launch_state import LaunchState
from simulator.faults.targets.injection import FaultInjection
from simulator.faults.targets.launches.casualties import ALONE, Casualties
from simulator.faults.targets.launches.golden import Golden
from simulator.faults.targets.launches.l1 import CachedWords
from simulator.faults.targets.launches.memory import CopiedMemory
from simulator.faults.targets.launches.ordered import OrderedRun
from simulator.faults.targets.launches.strikes import Codes
from simulator.faults.targets.launches.struck import Struck
from simulator.faults.targets.launches.watched_sums import LaunchSums
from simulator.program.kernel import Item, Operation
from simulator.simulation.launch.barriers import EVERY
from simulator.simulation.launch.batches import Setup, rows_of
from simulator.simulation.launch.run import Code
from simulator.simulation.launch.threads import Group, all_lanes
from simulator.state.columns import LaunchShared
from simulator.state.registers import WARP_SIZE, Warps
from simulator.state.shared import Addresses
from simulator.state.typed_views import gather, scatter

LONG = 1.5  # times as many items of a warp as any of its CTA executes without a fault: no copy is waited for longer
FEW = 500  # items more


class Unit(NamedTuple):
    """A CTA to run with a fault.

    Attributes:
        fault: the number of the fault in the list.
        cta: the CTA.
        injection: the fault. A fault in a buffer that several CTAs read has one for each.
        word: where the word of a fault in a buffer lies, see `memory.AddressMap`; -1 for others.
        until: the last event of the launch without faults before which the copy can start from it.
    """

    fault: int
    cta: int
    injection: FaultInjection
    word: int
    until: int


@dataclass(frozen=True)
class Outcomes:
    """What has become of copies, an entry for each.

    Attributes:
        state, reason, refused: as in `Casualties`; `RUNNING` for those that have come to their end.
        illegal, unordered, summed: as in `Struck`.
        changes: the copy, the place and the new byte of what differs at the end.
    """

    state: NDArray[np.uint8]
    reason: NDArray[np.uint8]
    refused: NDArray[np.bool_]
    illegal: NDArray[np.bool_]
    unordered: NDArray[np.bool_]
    summed: NDArray[np.bool_]
    changes: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]


class CopiedShared(LaunchShared):
    """The shared memories of copies: an access outside of one stops its copy, and the others go on."""

    def __init__(self, size: int, copies: int, warps_each: int, casualties: Casualties) -> None:
        super().__init__(size, copies, warps_each)
        self.lenient, self.casualties = True, casualties

    def read(self, addresses: Addresses, width: int, warps: Warps) -> tuple[NDArray[np.uint8], int]:
        """As in `LaunchShared`."""
        if self._all_inside(addresses, width):
            return gather(self.data, self.places(addresses, warps), width), 0
        self.check(addresses, width, warps)
        return super().read(addresses, width, warps)

    def write(self, addresses: Addresses, values: NDArray[np.uint8], warps: Warps) -> int:
        """As in `LaunchShared`."""
        if self._all_inside(addresses, values.shape[-1]):
            scatter(self.data, self.places(addresses, warps), values)
            return 0
        self.check(addresses, values.shape[-1], warps)
        return super().write(addresses, values, warps)

    def _all_inside(self, addresses: Addresses, width: int) -> bool:
        """Whether all accesses are legal."""
        if not addresses.size or int(addresses.min()) < 0 or int(addresses.max()) + width > self.size:
            return not addresses.size
        return not int(np.bitwise_or.reduce(addresses, axis=None)) & (width - 1)

    def check(self, addresses: Addresses, width: int, warps: Warps) -> None:
        """Stops the copies of illegal accesses."""
        inside = self.inside(addresses, width)
        if inside.all():
            return
        copies = np.broadcast_to((warps // self.warps_each).reshape(-1, *[1] * (addresses.ndim - 1)), addresses.shape)
        outside = (addresses < 0) | (addresses + width > self.size)
        self.casualties.stop(copies[outside], "shared-memory-bounds")
        self.casualties.stop(copies[~inside & ~outside], "misaligned-address")


class _StuckError(Exception):
    """All copies that are left wait for ever."""


class _CulpritsError(Error):
    """An error, and the copies that meet it."""

    def __init__(self, reason: str, legal: str, rule: str, copies: tuple[int, ...]) -> None:
        super().__init__(reason, legal, rule, copies)
        self.reason, self.legal, self.rule, self.copies = reason, legal, rule, copies


class _CopyRun(OrderedRun):
    """A run of copies, of which some end before the others."""

    def __init__(self, code: Code, state: LaunchState, struck: Struck, most: NDArray[np.int64]) -> None:
        super().__init__(code, state, struck)
        self.casualties, self.most = struck.casualties, most
        self.paused = lambda: bool(self.casualties.fresh) or self.steps >= self._count_at
        self._count_at = 0

    def _failed(self, error: Error, item: Item, group: Group) -> Error:
        """The copies whose warps meet an error alone, if there are any: as `_CulpritsError`."""
        if not isinstance(item, Operation):
            return error
        execute, rows = executor(item.instruction), []
        lanes = all_lanes(len(group.rows)) if group.lanes is None else group.lanes
        for index, row in enumerate(group.rows.tolist()):
            own = lanes[index : index + 1]
            self.state.active = None if own.all() else own
            try:
                execute(self.state, group.rows[index : index + 1])
            except Error:
                rows.append(row)
        if not rows:
            return error
        copies = np.unique(np.array(rows, np.intp) // self.state.warps).tolist()
        return _CulpritsError(error.reason, error.legal, error.rule, tuple(copies))

    def stuck(self) -> NoReturn:
        """Ends the run: what a launch says of the copies whose threads wait for ever, one of its own is to say."""
        left = self.threads.live.reshape(-1, self.state.warps * WARP_SIZE).any(axis=1)
        self.casualties.end(np.flatnonzero(left), ALONE)
        raise _StuckError

    def after_turn(self) -> None:
        """Takes the copies out that have ended, or that go on for too long."""
        if self.steps >= self._count_at:
            self._count_at = self.steps + 256
            items = self.items.reshape(-1, self.state.warps).max(axis=1)
            self.casualties.end(np.flatnonzero(items > self.most), ALONE)
        if not self.casualties.fresh:
            return
        copies = np.array(self.casualties.fresh, np.intp)
        self.casualties.fresh.clear()
        rows = (copies[:, None] * self.state.warps + np.arange(self.state.warps)).ravel()
        gone = np.zeros_like(self.threads.exists)
        gone[rows] = True
        self.threads.exit(gone)
        self.threads.parked[rows] = False
        self.barriers.waiting[rows] = 0
        self.barriers.arrived[copies], self.barriers.wanted[copies], self.barriers.votes[copies] = 0, EVERY, 0
        for pending in list(self.pending):
            pending.members &= ~gone
            if not pending.members.any():
                self.pending.remove(pending)


def run_together(
    golden: Golden, code: Code, setup: Setup, codes: dict[int, Codes], units: Sequence[Unit], moment: int,
    sums: LaunchSums | None = None,
) -> Outcomes:  # fmt: skip
    """Runs copies from a moment of the launch without faults (its number) that is before each of their faults.

    Args:
        setup: the launch.
        codes: as `strikes.codes_read` gives them.
        units: of one portion.
        sums: what checksums of metadata should be; None for no checksums.
    """
    ctas = np.array([unit.cta for unit in units], np.int64)
    portion = golden.portions[int(golden.portion_of[ctas[0]])]
    kept, warps, copies = portion.moments[moment], setup.geometry.warps, len(units)
    casualties = Casualties(copies)
    memory = CopiedMemory(golden.places, warps, kept.data, ctas, golden.footprint, casualties)
    state = replace(setup, memory=memory, undefined="hardware").state(ctas)
    state.shared = CopiedShared(setup.shared_bytes, copies, warps, casualties)
    injections, words = [unit.injection for unit in units], np.array([unit.word for unit in units], np.int64)
    cached = None
    if any(injection.site == "l1" for injection in injections):
        cached = _cached(memory, injections, words)
        code = cached[0].code(code)
    stops = setup.undefined == "raise"
    struck = Struck(state, codes, injections, words, casualties, stops=stops, cached=cached)
    items = np.array([int(golden.items[golden.cta_rows(cta)].max()) for cta in ctas.tolist()])
    run = _CopyRun(code, state, struck, (LONG * items + FEW).astype(np.int64))
    own = golden.index_of[ctas]
    run.resume(kept, own)
    counts = kept.counts[rows_of(own, warps)]
    struck.watch = None if sums is None else sums.watch(rows_of(ctas, warps), codes, counts)
    struck.begin(counts)
    try:
        with suppress(_StuckError):
            run.run()
        changes = memory.changes(golden.final)
    finally:
        _release(state)
    return Outcomes(
        casualties.state, casualties.reason, casualties.refused, struck.illegal, struck.unordered, struck.summed,
        changes,
    )  # fmt: skip


def _cached(
    memory: CopiedMemory, injections: Sequence[FaultInjection], words: NDArray[np.int64]
) -> tuple[CachedWords, dict[int, int]]:
    """The words in L1 of copies whose faults strike one there, and by copy the number of its word."""
    copies = [copy for copy, injection in enumerate(injections) if injection.site == "l1"]
    at = np.array([memory.word_at(copy, int(words[copy])) for copy in copies], np.int64)

    def put(some: NDArray[np.int64], values: NDArray[np.uint32]) -> None:
        memory.own.view(np.uint32)[at[some]] = values

    cached = CachedWords(
        memory.warps, np.array(copies, np.int64), words[copies], memory.places.place,
        lambda some: memory.own.view(np.uint32)[at[some]], put, apart=True,
    )  # fmt: skip
    return cached, {copy: number for number, copy in enumerate(copies)}


def _release(state: LaunchState) -> None:
    """Gives back what copies held: a run is a ring of objects, which would be there for long."""
    registers: Any = state.registers
    for columns in registers.columns:
        columns.clear()
    memory, shared = cast(CopiedMemory, state.memory), state.shared
    memory.own = shared.data = np.zeros(0, np.uint8)


def run_parted(
    golden: Golden,
    code: Code,
    setup: Setup,
    codes: dict[int, Codes],
    units: Sequence[Unit],
    moment: int,
    sums: LaunchSums | None = None,
) -> list[tuple[list[Unit], Outcomes]]:
    """As `run_together`. Copies that end all of them, as by an error that no memory tells, are to have launches of
    their own, and the others run again; where it is not known which these are, halves run by themselves."""
    fresh = [unit._replace(injection=renewed(unit.injection)) for unit in units]
    try:
        return [(fresh, run_together(golden, code, setup, codes, fresh, moment, sums))]
    except _CulpritsError as error:
        guilty = [fresh[copy] for copy in error.copies]
        parts = [[unit for unit in fresh if unit not in guilty]]
        ended = [(guilty, _left_alone(len(guilty)))]
    except Error:
        if len(units) == 1:
            return [(fresh, _left_alone(1))]
        parts, ended = [fresh[: len(units) // 2], fresh[len(units) // 2 :]], []
    for some in parts:
        ended += run_parted(golden, code, setup, codes, some, moment, sums) if some else []
    return ended


def _left_alone(copies: int) -> Outcomes:
    """The outcomes of copies that are all to have launches of their own."""
    no, none = np.zeros(copies, np.bool_), np.zeros(0, np.int64)
    number = np.zeros(copies, np.uint8)
    return Outcomes(number + np.uint8(ALONE), number, no, no, no, no, (none, none, np.zeros(0, np.uint8)))


def renewed(injection: FaultInjection) -> FaultInjection:
    """The same fault before it has struck."""
    return replace(injection, target=None, changed=False, was=0)
