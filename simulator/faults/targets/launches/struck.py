"""What counts the instructions of copies and strikes each with its own fault: `strikes.Strikes` for many at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from simulator.execute.cta_state import Outcome
from simulator.execute.launch_state import LaunchState
from simulator.faults.detectors.codes import METADATA_RULES
from simulator.faults.targets.injection import FOREVER, FaultInjection
from simulator.faults.targets.launches.casualties import Casualties
from simulator.faults.targets.launches.l1 import CachedWords
from simulator.faults.targets.launches.memory import CopiedMemory
from simulator.faults.targets.launches.sparing import distinct
from simulator.faults.targets.launches.strikes import Codes, SumWatch, shared_words, strike_register, strike_word
from simulator.faults.targets.register_sites import REGISTER_SITES, cell
from simulator.state.registers import Lanes, Warps


class Struck:
    """Counts the dynamic instructions of copies, and strikes where it is time.

    Attributes:
        counts: int64 [row].
        illegal, unordered: bool [copy]: whether codes that were read are not defined, or do not ascend.
        summed: bool [copy]: whether a checksum of metadata was another.
    """

    def __init__(
        self,
        state: LaunchState,
        codes: dict[int, Codes],
        injections: Sequence[FaultInjection],
        words: NDArray[np.int64],
        casualties: Casualties,
        *,
        stops: bool,
        cached: tuple[CachedWords, dict[int, int]] | None = None,
    ) -> None:
        """
        Args:
            injections: the fault of each copy.
            words: int64 [copy]: where in the array of all buffers the word of a fault lies that strikes one.
            cached: the words in L1 that are struck, and by copy the number of its word.
            stops: whether a code that is not defined stops a copy.
        """
        copies = len(injections)
        self.state, self.codes, self.injections, self.words = state, codes, injections, words
        self.casualties, self.stops, self.cached = casualties, stops, cached
        self.counts = np.zeros(copies * state.warps, np.int64)
        self.illegal, self.unordered, self.summed = (np.zeros(copies, np.bool_) for _ in range(3))
        self.watch: SumWatch | None = None
        self.row = np.array([copy * state.warps + each.local for copy, each in enumerate(injections)], np.intp)
        self.last = np.array([each.last for each in injections], np.int64)
        self._next = np.full(copies * state.warps, FOREVER, np.int64)
        self._next[self.row] = [each.first for each in injections]
        self._held: dict[str, list[int]] = {name: [] for name in (*REGISTER_SITES, "shared")}

    def begin(self, counts: NDArray[np.int64]) -> None:
        """Begins where the warps have executed `counts` [row] instructions: no fault has struck yet, but one that
        strikes before the next, or did before them: nothing has accessed then what it changes."""
        self.counts[:] = counts
        for copy, injection in enumerate(self.injections):
            if injection.site == "global" and int(injection.row["at"]) < 0:
                self._next[self.row[copy]] = FOREVER
                self._strike(copy)
            elif injection.first <= self.counts[self.row[copy]]:
                self._first(copy)

    def __call__(self, place: int, rows: Warps, lanes: Lanes | None, outcome: Outcome) -> None:
        if len(rows) == len(self.counts):
            self.counts += 1
            due = np.flatnonzero(self.counts >= self._next)
        else:
            self.counts[rows] += 1
            due = rows[self.counts[rows] >= self._next[rows]]
        if place in self.codes:
            self._look(place, rows)
        for kind, copies in self._held.items():
            if copies:
                self._hold(kind, copies)
        for row in due.tolist():
            self._first(row // self.state.warps)

    def _look(self, place: int, rows: Warps) -> None:
        """Checks the codes that rows have read."""
        codes = self.codes[place]
        copies = rows // self.state.warps
        first, same = distinct(codes.words(self.state, rows)[:, 0])
        illegal, unordered = (found[same] for found in codes.check(self.state, rows[first]))
        if self.watch is not None:
            others = self.watch.differ(place, self.state, rows) & ~(illegal & self.stops)
            np.logical_or.at(self.summed, copies, others)
        if self.stops and illegal.any():
            self.illegal[copies[illegal]] = True
            self.casualties.stop(copies[illegal], METADATA_RULES[0], refused=True)
            unordered &= ~np.isin(copies, copies[illegal])
        np.logical_or.at(self.illegal, copies, illegal)
        np.logical_or.at(self.unordered, copies, unordered)

    def _first(self, copy: int) -> None:
        """Applies the fault of a copy for the first time."""
        self._next[self.row[copy]] = FOREVER
        self._strike(copy)
        injection = self.injections[copy]
        if injection.lasting and injection.site in self._held:
            self._held[injection.site].append(copy)

    def _strike(self, copy: int) -> None:
        injection = self.injections[copy]
        if injection.site in REGISTER_SITES:
            strike_register(self.state.registers, injection, int(self.row[copy]))
        elif injection.site == "l1" and self.cached is not None:
            self.cached[0].strike(self.cached[1][copy], injection)
        elif injection.site == "shared":
            words, each = shared_words(self.state)
            strike_word(words, copy * each + injection.word, injection)
        else:
            memory = cast(CopiedMemory, self.state.memory)
            strike_word(memory.word(copy, int(self.words[copy])), 0, injection)

    def _hold(self, kind: str, copies: list[int]) -> None:
        """Applies faults again that last."""
        running = self.casualties.state[copies] == 0
        running &= self.counts[self.row[copies]] < self.last[copies]
        copies[:] = [copy for copy, on in zip(copies, running.tolist(), strict=True) if on]
        if kind in REGISTER_SITES:
            self._hold_registers(copies)
            return
        words, each = shared_words(self.state)
        for copy in copies:
            injection = self.injections[copy]
            now, target = int(words[copy * each + injection.word]), injection.target or 0
            if (now ^ target) & injection.mask:
                strike_word(words, copy * each + injection.word, injection)

    def _hold_registers(self, copies: list[int]) -> None:
        registers: Any = self.state.registers
        for copy in copies:
            injection = self.injections[copy]
            sort, number, low = cell(registers.numbering, injection.site, injection.word)
            now = int(registers.columns[sort][number][self.row[copy], injection.lane]) >> low
            if (now ^ (injection.target or 0)) & injection.mask:
                strike_register(registers, injection, int(self.row[copy]))
