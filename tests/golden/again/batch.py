"""Faults of a trace that are run together. All warps go on together, one instruction after the other; of each fault
only what differs from the run without faults is kept: the registers of a warp that differ, and its shared memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.golden.again import judged, rows
from tests.golden.again.fragments import codes, form_of, gather
from tests.golden.again.numerals import FORMATS
from tests.golden.again.program import (
    FOREVER,
    Golden,
    Line,
    integer,
    loaded,
    multiplied,
    on_duty,
    spots_of,
    stops,
    times,
)
from tests.golden.again.rows import FULL, Rows


class Batch:
    """Some faults that are run together."""

    def __init__(self, trace: Any, found: Rows) -> None:
        program, count = trace.program, len(found["id"])
        self.trace, self.found, self.count = trace, found, count
        self.golden = Golden(program)
        self.differs = np.zeros((count, program.warps, 256), np.bool_)
        self.values = np.zeros((count, program.warps, 256, 32), np.uint32)
        self.memory = np.repeat(program.shared[None], count, axis=0)
        self.dirty = np.zeros(count, np.bool_)
        self.first, self.last = times(found)
        self.changed, self.target = np.zeros(count, np.bool_), np.full(count, -1, np.int64)
        self.stopped, self.stop_time = np.full(count, "", object), np.full(count, FOREVER)
        self.legality, self.ordered = np.zeros((2, count), np.bool_)
        self.race_time = np.full(count, FOREVER)
        self.phase = 0

    def run(self) -> Mapping[str, Any]:
        """Runs them, and gives what became of them."""
        for time, line in enumerate(self.trace.program.lines):
            self._strike(time)
            self._step(line, time)
            self.phase += line.opcode.startswith("bar")
        self._strike(len(self.trace.program.lines))
        return self._judged()

    def _strike(self, time: int) -> None:
        """Applies the faults that are due."""
        found = self.found
        due = (self.first <= time) & (time < self.last) & (self.stopped == "") & on_duty(found, time - self.first)
        for site in ("registers", "shared"):
            mine = np.flatnonzero(due & (found["site"] == site))
            if not len(mine):
                continue
            word, lane, warp = found["word"][mine], found["lane"][mine], found["case"][mine]
            if site == "registers":
                now = self._register(mine, warp, word)[np.arange(len(mine)), lane].astype(np.int64)
            else:
                now = self.memory[mine, word].astype(np.int64)
            mask = rows.struck_bits(rows.some(found, mine))
            fresh = self.target[mine] < 0
            models = found["model"][mine]
            becomes = np.select(
                [models == "flip", models == "stuck0", models == "stuck1"], [~now & FULL, 0, FULL], found["value"][mine]
            )
            self.target[mine] = np.where(fresh, becomes, self.target[mine])
            new = now & ~mask | self.target[mine] & mask
            self.changed[mine] |= new != now
            if site == "shared":
                self.memory[mine, word] = new
                self.dirty[mine] |= new != now
                continue
            row = self._register(mine, warp, word)
            row[np.arange(len(mine)), lane] = new
            self._keep(mine, warp, word, row)

    def _register(self, fault: Any, warp: Any, word: Any) -> Any:
        """Registers [pair, lane]."""
        differs = self.differs[fault, warp, word][:, None]
        return np.where(differs, self.values[fault, warp, word], self.golden.registers[warp, word])

    def _keep(self, fault: Any, warp: Any, word: Any, row: Any) -> None:
        """Sets registers."""
        self.values[fault, warp, word] = row
        self.differs[fault, warp, word] = (row != self.golden.registers[warp, word]).any(axis=1)

    def _step(self, line: Line, time: int) -> None:
        """Executes an instruction for the warps of which what it reads differs."""
        name = line.opcode.partition(".")[0]
        if name == "bar":
            return
        affected: Any = (
            self.differs[:, :, list(line.reads)].any(axis=2) if line.reads else self.differs[:, :, 0] & False
        )
        if name == "mma":
            selector = self._selectors(line, time)
            affected |= selector != line.number
        before = self.golden.registers[:, list(line.reads)].copy()
        _, where = self.golden.step(line)
        if name in ("ld", "ldmatrix"):
            dirty = np.flatnonzero(self.dirty)
            spots = where[..., None] // 4 + np.arange(spots_of(line, where)[1])
            affected[dirty] |= (self.memory[dirty][:, spots] != self.golden.memory[spots]).any(axis=(2, 3))
        affected &= (self.stopped == "")[:, None]
        fault, warp = np.nonzero(affected)
        reads = [
            np.where(self.differs[fault, warp, word][:, None], self.values[fault, warp, word], before[warp, number])
            for number, word in enumerate(line.reads)
        ]
        values: Any = np.stack(reads) if reads else None
        if name == "st":
            self._store(line, time, fault, warp, values, where, before)
            return
        self.differs[:, :, list(line.writes)] = False
        if not len(fault):
            return
        if name == "mma":
            found = self._mma(line, time, fault, warp, values, selector[fault, warp])
        elif name in ("ld", "ldmatrix"):
            found = self._load(line, time, fault, warp, values, where)
        else:
            found = integer(line, values.astype(np.int64)).astype(np.uint32)[:, None]
        for number, word in enumerate(line.writes):
            self._keep(fault, warp, np.full(len(fault), word), found[:, number])

    def _selectors(self, line: Line, time: int) -> Any:
        """The selector of each warp of each fault."""
        selector = np.full(self.differs.shape[:2], line.number)
        struck = (self.found["site"] == "selector") & (self.first <= time) & (time < self.last)
        index = np.flatnonzero(struck)
        selector[index, self.found["case"][index]] = self.found["value"][index]
        self.changed[index] |= self.found["value"][index] != line.number
        return selector

    def _mma(self, line: Line, time: int, fault: Any, warp: Any, values: Any, selector: Any) -> Any:
        form = form_of(line.opcode)
        beyond = selector >= form.selectors
        self._stop(fault[beyond], "illegal-instruction", time)
        self.legality[fault[beyond]] = True
        for number in set(selector[~beyond].tolist()):
            mine = selector == number
            read = gather(values[12][mine][:, None], codes(form, number), 4)
            self.legality[fault[mine][(~form.defined[read]).any(axis=(1, 2))]] = True
            self.ordered[fault[mine][(~form.ascending[read]).any(axis=(1, 2))]] = True
        return np.concatenate(
            [np.zeros((0, 4, 32), np.uint32)]
            + [multiplied(line, values[:, part], np.minimum(selector[part], form.selectors - 1))
               for part in (slice(first, first + 64) for first in range(0, len(fault), 64))]
        )  # fmt: skip

    def _access(self, line: Line, time: int, fault: Any, warp: Any, address: Any, where: Any) -> Any:
        """The byte addresses of accesses [pair, lane]; stops those that are none, and looks for races."""
        mine, size = spots_of(line, address.astype(np.int64))
        found = stops(mine, size, 4 * self.memory.shape[1])
        self._stop(fault[found.illegal], "illegal", time)
        self._stop(fault[found.misaligned], "misaligned-address", time)
        good = ~(found.misaligned | found.illegal)
        moved = np.flatnonzero(good & (mine != where[warp]).any(axis=1))
        first = self.trace.uses["first"]
        for row in moved.tolist():
            spots = (mine[row][:, None] // 4 + np.arange(size)).ravel()
            others = np.arange(len(where)) != warp[row]
            met = first["st"][self.phase][others][:, spots].min()
            if line.opcode.startswith("st"):
                met = min(met, first["ld"][self.phase][others][:, spots].min())
            if met < np.iinfo(np.int16).max:
                self.race_time[fault[row]] = min(self.race_time[fault[row]], max(int(met), time))
        return np.where(good[:, None], mine, 0), good

    def _load(self, line: Line, time: int, fault: Any, warp: Any, values: Any, where: Any) -> Any:
        mine, _ = self._access(line, time, fault, warp, values[0], where)
        size = spots_of(line, mine)[1]
        found = [loaded(line, self.memory[fault[part]], mine[part], size)
                 for part in (slice(first, first + 64) for first in range(0, len(fault), 64))]  # fmt: skip
        return np.concatenate(found)

    def _store(self, line: Line, time: int, fault: Any, warp: Any, values: Any, where: Any, before: Any) -> None:
        size = spots_of(line, where)[1]
        spots = (where[..., None] // 4 + np.arange(size)).ravel()
        right = np.moveaxis(before[:, 1:], 1, 2)  # warp, lane, word
        touched = np.unique(fault)
        same = np.setdiff1d(np.arange(self.count), touched)
        self.memory[np.ix_(same, spots)] = right.ravel()
        mine, good = self._access(line, time, fault, warp, values[0], where)
        for number in touched.tolist():
            self.dirty[number] = True
            for one in range(len(where)):
                hit = np.flatnonzero((fault == number) & (warp == one))
                place, data = where[one], right[one]
                if len(hit):
                    if not good[hit[0]]:
                        continue
                    place, data = mine[hit[0]], values[1:, hit[0]].T
                self.memory[number, (place[:, None] // 4 + np.arange(size)).ravel()] = data.ravel()

    def _stop(self, fault: Any, why: str, time: int) -> None:
        for number in fault.tolist():
            if not self.stopped[number]:
                self.stopped[number], self.stop_time[number] = why, time

    def _judged(self) -> Mapping[str, Any]:
        registers = np.where(self.differs[..., None], self.values, self.golden.registers)
        right = self.trace.golden
        got = self.trace.matrix(registers, self.memory)
        ended = self.stopped != ""
        got[ended] = right
        wrong = (got != right).any(axis=(1, 2))
        rows_ = np.flatnonzero((got != right).any(axis=(0, 2)))
        rows_ = rows_ if len(rows_) else np.array([0])
        measures = judged.measured(got[:, rows_], right[rows_], FORMATS["f32"])
        measures["first_row"] = np.where(wrong, rows_[measures["first_row"]], -1)
        read = np.ones(self.count, np.bool_)
        outcome, reason = judged.outcomes(wrong, self.changed, read, self.stopped, ~read)
        for name in judged.MEASURES:
            measures[name] = np.where(ended, -1 if name.startswith("first") else 0, measures[name])
        classes = np.where(ended, -1, 0)
        index = np.flatnonzero(wrong)
        if len(index):
            digits = self.trace.digits(registers[index], self.memory[index])
            classes[index] = (digits != self.trace.classes).sum(axis=1)
        return measures | {"outcome": outcome, "reason": reason, "class_changed": classes, "legality": self.legality,
                           "ordered": self.ordered, "race": self.race_time < self.stop_time}  # fmt: skip
