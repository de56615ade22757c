"""Faults of a captured launch, computed again: each is a copy of the CTA that it strikes, or of each CTA that reads the
struck word (docs/faults_launches.md)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tests.golden.again import judged, rows
from tests.golden.again.kernel import Kernel
from tests.golden.again.machine import Machine
from tests.golden.again.numerals import FORMATS
from tests.golden.again.program import on_duty, times
from tests.golden.again.rows import FULL, Rows

TOGETHER = 96  # copies that are executed together
SPARE = 100_000  # instructions of a launch beyond four times those without a fault


@dataclass
class Launch:
    """A captured launch, to compute faults of it again.

    Attributes:
        kernel: the kernel and its launch.
    """

    kernel: Kernel

    @cached_property
    def ctas(self) -> int:
        """How many CTAs there are."""
        return int(np.prod(self.kernel.capture["grid"]))

    @cached_property
    def golden(self) -> Machine:
        """The launch without faults, all its CTAs."""
        memory = np.repeat(self.kernel.memory[None], self.ctas, axis=0)
        machine = Machine(self.kernel, np.arange(self.ctas), memory)
        machine.run(lambda *_: None)
        assert not machine.stopped.any()
        return machine

    def _joined(self, start: Any, machines: Any) -> Any:
        """The buffers after a launch, of what each CTA wrote (words and places, [cta, word]): the last place wins, of
        several CTAs at the same the last."""
        values, places = machines
        last = len(places) - 1 - places[::-1].argmax(axis=0)
        found = np.take_along_axis(values, last[None], axis=0)[0]
        return np.where(places.max(axis=0) >= 0, found, start)

    @cached_property
    def stored(self) -> Any:
        """The output without faults, as a matrix [row, column]."""
        return self._matrix(self._joined(self.kernel.memory, (self.golden.memory, self.golden.written))[None])[0]

    @cached_property
    def form(self) -> Any:
        """The format of the output."""
        (spec,) = (spec for spec in self.kernel.capture["buffers"].values() if spec.get("output"))
        return FORMATS[{"float32": "f32", "float16": "f16"}[spec["type"]]]

    def _matrix(self, memory: Any) -> Any:
        first, length = 0, 0
        for name, words in self.kernel.buffers.items():
            if self.kernel.capture["buffers"][name].get("output"):
                length = len(words)
                break
            first += len(words)
        part = np.ascontiguousarray(memory[:, first : first + length])
        part = np.pad(part, ((0, 0), (0, -length % 32)))
        if self.form.bits == 16:
            part = part.view("<u2").astype(np.uint32)
        return part.reshape(len(memory), -1, 128 * 8 // self.form.bits)

    def run(self, found: Rows) -> dict[str, Any]:
        """What becomes of every row."""
        count, golden = len(found["id"]), self.golden
        warps = golden.warps
        cta = found["case"] // warps
        first, _ = times(found)
        total = golden.counts[cta, found["case"] % warps]
        late = (found["site"] != "global") & (first > total)
        pairs = []  # a fault and a CTA that has to be run
        for number in np.flatnonzero(~late).tolist():
            if found["site"][number] == "global":
                pairs += [(number, one) for one in np.flatnonzero(golden.seen[:, found["word"][number]]).tolist()]
            else:
                pairs.append((number, int(cta[number])))
        result: dict[str, Any] = {name: np.zeros(count, np.bool_) for name in ("legality", "ordered", "changed")}
        stopped = np.full(count, "", object)
        written: dict[int, list[tuple[int, Any, Any]]] = {}
        for start in range(0, len(pairs), TOGETHER):
            batch = np.array(pairs[start : start + TOGETHER])
            machine, changed = self._execute(rows.some(found, batch[:, 0]), batch[:, 1])
            for copy, (number, one) in enumerate(batch.tolist()):
                stopped[number] = stopped[number] or machine.stopped[copy]
                for name, values in (
                    ("legality", machine.legality),
                    ("ordered", machine.ordered),
                    ("changed", changed),
                ):
                    result[name][number] |= values[copy]
                written.setdefault(number, []).append((one, machine.memory[copy].copy(), machine.written[copy].copy()))
        got = np.stack([self._after(found, number, written.get(number, [])) for number in range(count)])
        got[late | (stopped != "")] = self.stored
        return self._judged(found, got, late, stopped, result)

    def _after(self, found: Rows, number: int, runs: list[tuple[int, Any, Any]]) -> Any:
        """The output of the launch with a fault."""
        start = self.kernel.memory
        if found["site"][number] == "global":
            start = self._struck(rows.some(found, np.array([number])), start[None].copy())[0][0]
        elif not runs:
            return self.stored
        values, places = self.golden.memory.copy(), self.golden.written.copy()
        for cta, memory, written in runs:
            values[cta], places[cta] = memory, written
        return self._matrix(self._joined(start, (values, places))[None])[0]

    def _struck(self, found: Rows, memory: Any) -> tuple[Any, Any]:
        """Buffers [fault, word] with the faults of rows in them, and whether these change anything."""
        index, word = np.arange(len(memory)), found["word"]
        now, mask = memory[index, word].astype(np.int64), rows.struck_bits(found)
        new = now & ~mask | _becomes(found, now) & mask
        memory[index, word] = new
        return memory, new != now

    def _execute(self, found: Rows, ctas: Any) -> tuple[Machine, Any]:
        memory = np.repeat(self.kernel.memory[None], len(ctas), axis=0)
        changed = np.zeros(len(ctas), np.bool_)
        mine = np.flatnonzero(found["site"] == "global")
        memory[mine], changed[mine] = self._struck(rows.some(found, mine), memory[mine])
        machine = Machine(self.kernel, ctas, memory)
        every = self.golden.counts.sum(axis=1)
        machine.limit = 4 * every.sum() + SPARE - (every.sum() - every[ctas])
        strikes = _Strikes(found, self.kernel, changed)
        machine.run(strikes)
        return machine, changed

    def _judged(self, found: Rows, got: Any, late: Any, stopped: Any, result: dict[str, Any]) -> dict[str, Any]:
        glob = np.flatnonzero(found["site"] == "global")
        memory = np.repeat(self.kernel.memory[None], len(glob), axis=0)
        result["changed"][glob] = self._struck(rows.some(found, glob), memory)[1]
        wrong = (got != self.stored).any(axis=(1, 2))
        measures = judged.measured(got, self.stored, self.form)
        outcome, reason = judged.outcomes(wrong, result.pop("changed") | late, ~late, stopped, np.zeros_like(late))
        for name in judged.MEASURES:
            measures[name] = np.where(stopped != "", -1 if name.startswith("first") else 0, measures[name])
        return measures | result | {"outcome": outcome, "reason": reason}


def _becomes(found: Rows, now: Any) -> Any:
    """What the struck bits become."""
    model = found["model"]
    return np.select([model == "flip", model == "stuck0", model == "stuck1"], [~now & FULL, 0, FULL], found["value"])


class _Strikes:
    """Applies faults in registers and in shared memory when their time comes."""

    def __init__(self, found: Rows, kernel: Kernel, changed: Any) -> None:
        self.found, self.kernel, self.changed = found, kernel, changed
        self.first, self.last = times(found)
        self.target = np.full(len(changed), -1, np.int64)
        self.registers = np.flatnonzero(found["site"] == "registers")
        self.shared = np.flatnonzero(found["site"] == "shared")

    def __call__(self, machine: Machine, copies: Any, warps: Any) -> None:
        local = self.found["case"] % machine.warps
        counts = machine.counts[np.arange(len(local)), local]
        due = (self.first <= counts) & (counts < self.last) & (machine.stopped == "")
        due &= on_duty(self.found, counts - self.first)
        went = np.zeros((len(local), machine.warps), np.bool_)
        went[copies] = warps
        for number in self.registers[(due & went[np.arange(len(local)), local])[self.registers]].tolist():
            name, low = self.kernel.words[self.found["word"][number]]
            register, thread = machine.register(name), 32 * local[number] + self.found["lane"][number]
            now = int(register[number, thread]) >> low & FULL
            new = self._new(number, now)
            register[number, thread] ^= np.uint64((new ^ now) << low).astype(np.int64)
        for number in self.shared[(due & went.any(axis=1))[self.shared]].tolist():
            word = self.found["word"][number]
            machine.shared[number, word] = self._new(number, int(machine.shared[number, word]))

    def _new(self, number: int, now: int) -> int:
        row = rows.some(self.found, np.array([number]))
        mask = int(rows.struck_bits(row)[0])
        if self.target[number] < 0:
            self.target[number] = int(_becomes(row, np.array([now]))[0])
        new = now & ~mask | int(self.target[number]) & mask
        self.changed[number] |= new != now
        return new
