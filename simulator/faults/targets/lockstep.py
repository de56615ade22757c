"""Runs many faulty copies of a program at once, in lock step beside the run without faults; it builds on
`simulator.simulation.lockstep`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.forms.mma import is_mma
from isa.types import Bits
from simulator.execute.cta_state import CtaState, Executor, Outcome
from simulator.execute.dispatch import executor
from simulator.execute.operands import reader
from simulator.faults.detectors.asked import asked
from simulator.faults.detectors.metadata_sums import word_sums
from simulator.faults.table import SITES
from simulator.faults.targets.injection import Injections
from simulator.faults.targets.single_run import metadata_checks
from simulator.faults.unit.instruction import with_selector
from simulator.simulation.footprints import Footprints
from simulator.simulation.group import Group
from simulator.simulation.liveness import Uses
from simulator.simulation.lockstep import Copies, Lockstep
from simulator.simulation.rows import Prepared
from simulator.simulation.session import Session
from simulator.state.registers import Warps

COPIES = 2048  # that run together: what they hold stays below 300 MB
_REGISTERS, _SHARED, _SELECTOR = (SITES.index(name) for name in ("registers", "shared", "selector"))
_NONE = np.zeros(0, np.intp)


class LockstepRuns(Lockstep):
    """Runs of one program, one copy for each injection.

    Attributes:
        illegal, unordered: bool [copy]: whether metadata that a matrix instruction read held a code that is undefined,
            or one whose indices do not ascend.
        summed: bool [copy]: whether a checksum of such metadata was another, where that is asked for.
        changed: bool [copy]: whether the fault has changed anything.
    """

    def __init__(self, session: Session, footprints: Footprints, uses: dict[int, Uses], injections: Injections) -> None:
        count = len(injections.site)
        super().__init__(session, footprints, uses, count)
        self.injections = injections
        self.illegal, self.unordered, self.changed, self.summed = (np.zeros(count, np.bool_) for _ in range(4))
        self._bits = asked().metadata_bits
        self._target = np.zeros(count, np.uint32)
        self._starting = self._starts()
        self._held, self._held_shared, self._seen_writes = _NONE, _NONE, -1
        self._selecting = np.flatnonzero(injections.site == _SELECTOR)
        self._selectors: tuple[Warps, NDArray[np.int64]] = _NONE, np.zeros(0, np.int64)
        self._checked: dict[tuple[Any, ...], tuple[NDArray[np.bool_], NDArray[np.bool_]]] = {}

    def _starts(self) -> dict[tuple[int, int], Copies]:
        """By warp and dynamic instruction, the copies whose fault strikes registers or shared memory there."""
        local, first = self.injections.local, self.injections.first
        order = np.lexsort((first, local))
        order = order[self.injections.site[order] != _SELECTOR]
        fresh = np.flatnonzero((np.diff(local[order], prepend=-1) != 0) | (np.diff(first[order], prepend=-1) != 0))
        parts = np.split(order, fresh[1:]) if len(order) else []
        return {(int(local[part[0]]), int(first[part[0]])): part for part in parts}

    # Disturbances

    def disturb(self, warps: Warps, index: int) -> None:
        """Applies the faults that strike, or last, before dynamic instruction `index` of these warps."""
        if len(self._held):
            self._held = self._lasting(self._held)
            here = np.zeros_like(self.rewritten)
            here[warps] = self.rewritten[warps]
            self._strike_registers(
                self._held[here[self.injections.local[self._held], self.injections.word[self._held]]]
            )
        self.rewritten[warps] = False
        if len(self._held_shared):
            self._held_shared = self._lasting(self._held_shared)
            if self._seen_writes != self.shared.writes:
                self._strike_shared(self._held_shared)
        struck = [part for warp in warps.tolist() if (part := self._starting.get((warp, index))) is not None]
        if struck:
            copies = np.concatenate(struck)
            site = self.injections.site[copies]
            self._begin_registers(copies[site == _REGISTERS])
            self._begin_shared(copies[site == _SHARED])
        self._seen_writes = self.shared.writes

    def _lasting(self, copies: Copies) -> Copies:
        """Those of the copies that take part, and whose fault is not over."""
        local, last = self.injections.local[copies], self.injections.last[copies]
        return copies[self.live[copies] & (self.index[local] < last)]

    def _begin_registers(self, copies: Copies) -> None:
        if not len(copies):
            return
        all_ = self.injections
        now = self.rows.registers.values[all_.local[copies], all_.word[copies], all_.lane[copies]]
        self._target[copies] = all_.becomes(copies, now)
        self._strike_registers(copies)
        self._held = np.concatenate([self._held, copies[all_.last[copies] > all_.first[copies] + 1]])

    def _strike_registers(self, copies: Copies) -> None:
        """Applies faults to registers, as far as they change anything."""
        if not len(copies):
            return
        local, mask = self.injections.local[copies], self.injections.mask[copies]
        word, lane = self.injections.word[copies], self.injections.lane[copies]
        now = self.rows.get(self.rows.known(copies, local), local, word, lane)
        new = now & ~mask | self._target[copies] & mask
        some = np.flatnonzero(now != new)
        self.changed[copies[some]] = True
        rows = self.row(copies[some], local[some])
        there = rows >= 0
        some = some[there]
        self.rows.set(rows[there], word[some], lane[some], new[some])

    def _begin_shared(self, copies: Copies) -> None:
        if not len(copies):
            return
        now = self.shared.words[self.injections.word[copies]].astype(np.uint32)
        self._target[copies] = self.injections.becomes(copies, now)
        self._strike_shared(copies)
        self._held_shared = np.concatenate([self._held_shared, copies])

    def _strike_shared(self, copies: Copies) -> None:
        """Applies faults to shared memory, as far as they change anything."""
        word, mask = self.injections.word[copies], self.injections.mask[copies]
        right = self.shared.words[word].astype(np.uint32)
        now = self.shared.entries.get(word, copies.astype(np.int64), right)
        new = now & ~mask | self._target[copies] & mask
        some = np.flatnonzero(now != new)
        self.changed[copies[some]] = True
        self.shared.entries.put(word[some], copies[some].astype(np.int64), new[some], right[some])

    # Selectors

    def wanted(self, prepared: Prepared, group: Group, index: int) -> Copies | None:
        """The rows of copies whose selector is faulty now."""
        self._selectors = _NONE, np.zeros(0, np.int64)
        instruction, some = prepared.operation.instruction, self._selecting
        if not len(some) or not is_mma(instruction.form) or not instruction.form.sparse:
            return None
        all_ = self.injections
        local, value = all_.local[some], all_.faults["value"][some].astype(np.int64)
        struck = self.live[some] & np.isin(local, group.warps) & (value != instruction.selector)
        struck &= (all_.first[some] <= index) & (index < all_.last[some])
        self.changed[some[struck]] = True
        rows = self.row(some[struck], local[struck])
        there = rows >= 0
        rows, value = rows[there], value[struck][there]
        order = np.argsort(rows)
        self._selectors = rows[order], value[order]
        return rows

    def _selectors_of(self, selector: int, rows: Warps) -> NDArray[np.int64]:
        """The selector with which each row executes an instruction."""
        struck, values = self._selectors
        found = np.full(len(rows), selector, np.int64)
        if len(struck):
            place = np.minimum(np.searchsorted(struck, rows), len(struck) - 1)
            found = np.where(struck[place] == rows, values[place], found)
        return found

    def executes(self, prepared: Prepared, rows: Warps, index: int) -> Executor:
        """The executor of an operation, by which a copy with a faulty selector uses its own."""
        instruction = prepared.operation.instruction
        if not len(self._selectors[0]):
            return executor(instruction)
        selectors = self._selectors_of(instruction.selector, rows)

        def run(machine: CtaState, _warps: Warps) -> Outcome:
            outcome = Outcome()
            for value in np.unique(selectors).tolist():
                one = instruction if value == instruction.selector else with_selector(instruction, value)
                outcome = executor(one)(machine, rows[selectors == value])
            return outcome

        return run

    # Detectors

    def look(self, prepared: Prepared, group: Group, rows: Warps) -> None:
        """Runs the detectors of the metadata that a matrix instruction is about to read."""
        instruction = prepared.operation.instruction
        form = instruction.form
        if not is_mma(form) or not form.sparse:
            return
        read = reader(instruction["e"])
        right: Bits = read(self.machine, group.warps)[:, 0]
        own: Bits = read(self.machine, rows)[:, 0]
        selectors = self._selectors_of(instruction.selector, rows)
        place = np.searchsorted(group.warps, self.rows.warp[rows])
        if self._bits is not None:
            others = word_sums(own, self._bits) != word_sums(right, self._bits)[place]
            self.summed[self.rows.copy[rows[others]]] = True
        differ = (own != right[place]).any(axis=1) | (selectors != instruction.selector)
        self._look_at_golden(prepared, group, right, rows[differ])
        for value in np.unique(selectors[differ]).tolist():
            some = np.flatnonzero(differ & (selectors == value))
            copies = self.rows.copy[rows[some]]
            illegal, unordered = metadata_checks(form, own[some], value)
            self.illegal[copies[illegal]] = True
            self.unordered[copies[unordered]] = True

    def _look_at_golden(self, prepared: Prepared, group: Group, words: Bits, differing: Warps) -> None:
        """Notes what the detectors see of the codes without faults, in those copies that read these codes, too."""
        instruction = prepared.operation.instruction
        assert is_mma(instruction.form)
        key = instruction.form.opcode, instruction.selector, words.tobytes()
        if key not in self._checked:
            self._checked[key] = metadata_checks(instruction.form, words, instruction.selector)
        for seen, found in zip((self.illegal, self.unordered), self._checked[key], strict=True):
            for warp in group.warps[found].tolist():
                others = self.live.copy()
                others[self.rows.copy[differing[self.rows.warp[differing] == warp]]] = False
                seen[others] = True
