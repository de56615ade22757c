"""Many faults of a launch at once: which of them nothing can see, which CTAs the others need, and what came of
these."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from simulator.faults.targets.injection import FaultInjection
from simulator.faults.targets.launches.caches import CacheUses
from simulator.faults.targets.launches.casualties import ALONE, STOPPED
from simulator.faults.targets.launches.copies import Outcomes, Unit, run_parted
from simulator.faults.targets.launches.golden import Golden
from simulator.faults.targets.launches.memory import NEVER, NOBODY
from simulator.faults.targets.launches.sparing import spared
from simulator.faults.targets.launches.strikes import Codes
from simulator.faults.targets.launches.watched_sums import LaunchSums
from simulator.faults.targets.register_sites import REGISTER_SITES, cell, number_of
from simulator.simulation.launch.batches import ROWS, Setup
from simulator.simulation.launch.run import Code
from simulator.state.registers import WARP_SIZE
from simulator.state.typed_views import LONGEST

REGISTER_BYTES = 1 << 28  # the most that the registers of copies which run together may take
WRITTEN_BYTES = 1 << 23  # and what they write to global memory

Changed = tuple[NDArray[np.int64], NDArray[np.uint8]]  # places of bytes that differ at the end, and the bytes


@dataclass(frozen=True)
class Found:
    """What came of a fault without a launch of its own.

    Attributes:
        fault: its number in the list.
        changed: whether it changed anything.
        places, values: of bytes of global memory that differ at the end: where they lie (`memory.AddressMap`), and what
            they hold.
        reason: why it stopped the launch, a number of `outcomes.REASONS`; 0 if it did not.
        refused, illegal, unordered, summed: as in `copies.Outcomes`.
    """

    fault: int
    changed: bool
    places: NDArray[np.int64]
    values: NDArray[np.uint8]
    reason: int = 0
    refused: bool = False
    illegal: bool = False
    unordered: bool = False
    summed: bool = False


_NOTHING: Changed = np.zeros(0, np.int64), np.zeros(0, np.uint8)


class Together:
    """Faults of one launch that are looked at together.

    Args:
        golden: the launch without faults.
        code, codes: what runs, and what checks the codes that it reads.
        setup: the launch, whose buffers stay as they are.
        caches: gives what L1 and L2 hold, where that is asked for.
    """

    def __init__(
        self, golden: Golden, code: Code, codes: dict[int, Codes], setup: Setup, caches: Callable[[], CacheUses]
    ) -> None:
        self.golden, self.code, self.codes, self.setup = golden, spared(code), codes, setup
        self.warps, self._caches = setup.geometry.warps, caches
        row_bytes = 4 * WARP_SIZE * max(setup.kernel.numbering.words_each, 1)
        written = LONGEST * int(np.diff(golden.footprint.begins).max()) + 1
        self.most = max(min(min(ROWS, REGISTER_BYTES // row_bytes) // self.warps, WRITTEN_BYTES // written), 1)
        self._start = golden.portions[0].moments[0].data

    def run(
        self, injections: Sequence[tuple[int, FaultInjection, int]], sums: LaunchSums | None = None
    ) -> Iterator[Found | int]:
        """What comes of faults; the number of one that is to have a launch of its own.

        Args:
            injections: numbers of faults, the faults, and where the words lie of those in buffers (-1 for others).
            sums: what checksums of metadata should be; None for no checksums.
        """
        units: list[Unit] = []
        for fault, injection, word in injections:
            needed = self._needed(fault, injection, word)
            if isinstance(needed, list):
                units += needed
            else:
                yield needed
        several = {unit.fault for unit, other in pairwise(units) if unit.fault == other.fault}
        parts: dict[int, list[tuple[Unit, Outcomes, int]]] = {}
        for batch, moment in self._batches(units):
            for some, outcomes in run_parted(self.golden, self.code, self.setup, self.codes, batch, moment, sums):
                for copy, unit in enumerate(some):
                    if unit.fault in several:
                        parts.setdefault(unit.fault, []).append((unit, outcomes, copy))
                    else:
                        yield _joined([(unit, outcomes, copy)])
        for each in parts.values():
            yield _joined(each)

    # Which CTAs a fault needs

    def _needed(self, fault: int, injection: FaultInjection, word: int) -> list[Unit] | Found | int:
        """The copies that a fault needs; or what comes of it, or its number, if that is known."""
        if injection.site == "global":
            return self._needed_of_buffer(fault, injection, word)
        if injection.site == "l1":
            caches = self._caches()
            struck = caches.struck(injection.cta, injection.local, injection.first)
            if not caches.seen(injection.cta, word // 4, struck) and injection.model == "flip":
                return Found(fault, injection.mask != 0, *_NOTHING)
            return [Unit(fault, injection.cta, injection, word, max(self._struck(injection) - 1, 0))]
        if injection.site in REGISTER_SITES:
            changed = self._of_unread(injection)
            if changed is not None:
                return Found(fault, changed, *_NOTHING)
        until = self._until(injection)
        if until == NEVER:
            return Found(fault, injection.mask != 0, *_NOTHING)
        return [Unit(fault, injection.cta, injection, word, until)]

    def _row(self, injection: FaultInjection) -> int:
        return int(self.golden.index_of[injection.cta]) * self.warps + injection.local

    def _struck(self, injection: FaultInjection) -> int:
        """How many events there are before a fault strikes."""
        noted = self.golden.noted[int(self.golden.portion_of[injection.cta])]
        return noted.event(self._row(injection), injection.first)

    def _until(self, injection: FaultInjection) -> int:
        """The last event before which a copy can start: that at which a fault strikes; of one that strikes once, that
        which first accesses what it changes. `NEVER` for a flip in shared memory that nothing sees."""
        golden, struck = self.golden, self._struck(injection)
        if injection.lasting:
            return max(struck - 1, 0)
        portion = int(golden.portion_of[injection.cta])
        if injection.site in REGISTER_SITES:
            number = number_of(self.setup.kernel.numbering, injection.site, injection.word)
            touched = golden.uses.touched(injection.warp, number, injection.first)
            return max(golden.noted[portion].event(self._row(injection), touched + 1) - 1, struck)
        uses = golden.shared[portion]
        if not uses.known:
            return max(struck - 1, 0)
        event, overwrites = uses.next(int(golden.index_of[injection.cta]), injection.word, struck)
        unseen = injection.model == "flip" and (event == NEVER or overwrites)
        return NEVER if unseen else event if event != NEVER else max(struck - 1, 0)

    def _of_unread(self, injection: FaultInjection) -> bool | None:
        """Whether a fault in a register that nothing reads changes anything; None if something may read it, or if that
        is not known."""
        golden, numbering = self.golden, self.setup.kernel.numbering
        at = cell(numbering, injection.site, injection.word)
        number = number_of(numbering, injection.site, injection.word)
        if golden.uses.read(injection.warp, number, injection.lane, injection.first, injection.last):
            return None
        if injection.model == "flip":
            return injection.mask != 0
        noted = golden.noted[int(golden.portion_of[injection.cta])]
        if not noted.has_values:
            return None
        row = self._row(injection)
        for value in noted.values(row, at, injection.lane, injection.first, injection.last):
            injection.applied(value)
        return injection.changed

    def _needed_of_buffer(self, fault: int, injection: FaultInjection, word: int) -> list[Unit] | Found | int:
        use = self.golden.footprint
        readers = np.flatnonzero(use.readers[:, word // 4]).tolist()
        writer = use.writer[word : word + 4]
        if int(injection.row["at"]) >= 0:
            writers = np.unique(writer[writer != NOBODY]).tolist()
            if len(writers) > 1:
                return fault
            ctas = writers or readers
            if ctas:
                each = [(cta, self._seen_by(injection, cta)) for cta in ctas]
                return [Unit(fault, cta, one, word, max(self._struck(one) - 1, 0)) for cta, one in each]
        elif readers:
            firsts = [0 if use.touched is None else int(use.touched[cta, word // 4]) for cta in readers]
            each = [(cta, _of_warp(injection, cta * self.warps, 0, self.warps)) for cta in readers]
            return [Unit(fault, cta, one, word, first) for (cta, one), first in zip(each, firsts, strict=True)]
        before = int(self._start[word : word + 4].view("<u4")[0])
        now = np.array([injection.applied(before)], "<u4").view(np.uint8)
        kept = np.flatnonzero((writer == NOBODY) & (now != self.golden.final[word : word + 4]))
        return Found(fault, injection.changed, word + kept, now[kept])

    def _seen_by(self, injection: FaultInjection, cta: int) -> FaultInjection:
        """A fault in a buffer, that strikes when its warp is at an instruction, as another CTA sees it: before the
        instruction that a warp of this one is at then."""
        golden = self.golden
        if cta == injection.cta or injection.first == 0:
            first = injection.first if cta == injection.cta else 0
            return injection if first else _of_warp(injection, cta * self.warps, 0, self.warps)
        portion, other = (int(golden.portion_of[each]) for each in (injection.cta, cta))
        if portion != other:
            begun = other < portion  # it has ended by then
            warp = cta * self.warps
            first = len(golden.sequences[warp][0]) if begun else 0
            return _of_warp(injection, warp, first, self.warps)
        warp, first = golden.noted[portion].abreast(
            int(golden.index_of[injection.cta]) * self.warps + injection.local, injection.first,
            int(golden.index_of[cta]) * self.warps, self.warps,
        )  # fmt: skip
        return _of_warp(injection, cta * self.warps + warp, first, self.warps)

    # Which of them run together

    def _batches(self, units: list[Unit]) -> Iterator[tuple[list[Unit], int]]:
        """Copies that run together, and the moment from which they do."""
        keys = [(int(self.golden.portion_of[unit.cta]), self._moment(unit)) for unit in units]
        order = sorted(range(len(units)), key=lambda number: (*keys[number], number))
        first = 0
        while first < len(order):
            portion, moment = keys[order[first]]
            last = first
            while last < len(order) and last < first + self.most and keys[order[last]][0] == portion:
                last += 1
            yield [units[number] for number in order[first:last]], moment
            first = last

    def _moment(self, unit: Unit) -> int:
        """The last moment from which a copy can start."""
        moments = self.golden.portions[int(self.golden.portion_of[unit.cta])].moments
        return max(sum(moment.event <= unit.until for moment in moments) - 1, 0)


def _of_warp(injection: FaultInjection, warp: int, first: int, warps: int) -> FaultInjection:
    """A fault in a buffer that strikes before dynamic instruction `first` of another warp."""
    cta, local = divmod(warp, warps)
    return replace(injection, warp=warp, cta=cta, local=local, first=first, last=first + 1)


def _joined(parts: list[tuple[Unit, Outcomes, int]]) -> Found | int:
    """What came of a fault from what came of the CTAs that it strikes; its number if that is not certain."""
    fault = parts[0][0].fault
    states = [int(outcomes.state[copy]) for _, outcomes, copy in parts]
    if ALONE in states or (STOPPED in states and len(parts) > 1):
        return fault
    changed = any(unit.injection.changed for unit, _, _ in parts)
    _, outcomes, copy = parts[0]
    names = "illegal", "unordered", "summed"
    illegal, unordered, summed = (any(bool(getattr(o, name)[c]) for _, o, c in parts) for name in names)
    if STOPPED in states:
        why, refused = int(outcomes.reason[copy]), bool(outcomes.refused[copy])
        return Found(fault, changed, *_NOTHING, why, refused, illegal or refused, unordered, summed)
    places, values = zip(*(_of_copy(outcomes, copy) for _, outcomes, copy in parts), strict=True)
    return Found(fault, changed, np.concatenate(places), np.concatenate(values), 0, False, illegal, unordered, summed)


def _of_copy(outcomes: Outcomes, copy: int) -> Changed:
    copies, places, values = outcomes.changes
    mine = copies == copy
    return places[mine], values[mine]
