"""Faults of a trace, computed again by an interpreter of the few instructions that it has (digits/f16)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tests.golden.again import judged, rows
from tests.golden.again.batch import Batch
from tests.golden.again.program import RESULTS, Golden, Program, spots_of, times
from tests.golden.again.rows import Rows

TOGETHER = 200  # faults that are run together


@dataclass
class Trace:
    """A trace, to compute faults of it again.

    Attributes:
        program: the trace.
    """

    program: Program

    @cached_property
    def uses(self) -> dict[str, Any]:
        """When a register and a word of shared memory is read and written, [register, time] and [time, word]; and when
        which warp accesses which word in which phase between barriers: [phase, warp, word], the first time."""
        lines, golden = self.program.lines, Golden(self.program)
        count, words = len(lines), len(golden.memory)
        phases = 1 + sum(line.opcode.startswith("bar") for line in lines)
        never = np.iinfo(np.int16).max
        first = {name: np.full((phases, self.program.warps, words), never, np.int16) for name in ("ld", "st")}
        registers = {name: np.zeros((256, count + 1), np.bool_) for name in ("ld", "st")}
        shared = {name: np.zeros((count + 1, words), np.bool_) for name in ("ld", "st")}
        phase = 0
        for time, line in enumerate(lines):
            registers["ld"][list(line.reads), time] = True
            registers["st"][list(line.writes), time] = True
            _, where = golden.step(line)
            if where is not None:
                kind = line.opcode[:2]
                spots = where[..., None] // 4 + np.arange(spots_of(line, where)[1])
                shared[kind][time, spots] = True
                for warp in range(self.program.warps):
                    here = first[kind][phase, warp]
                    here[spots[warp]] = np.minimum(here[spots[warp]], time)
            phase += line.opcode.startswith("bar")
        for _, place, start, size in self.program.stored:
            if place == "shared":
                shared["ld"][count, start // 4 : (start + size) // 4] = True
            else:
                registers["ld"][start : start + size, count] = True
        return {"registers": registers, "shared": shared, "first": first, "golden": golden}

    @cached_property
    def golden(self) -> Any:
        """What is stored without faults, as a matrix."""
        golden = self.uses["golden"]
        return self.matrix(golden.registers[None], golden.memory[None])[0]

    def matrix(self, registers: Any, memory: Any) -> Any:
        """What is stored, [fault, row, 32], of registers [fault, warp, register, lane] and memory [fault, word]."""
        found = []
        for _, place, first, count in self.program.stored:
            part = (
                memory[:, first // 4 : (first + count) // 4]
                if place == "shared"
                else registers[:, :, first : first + count]
            )
            found.append(part.reshape(len(memory), -1, 32))
        return np.concatenate(found, axis=1)

    def unread(self, found: Rows) -> Any:
        """Whether the run without faults reads nothing of the words that are struck, before they are written."""
        count = len(self.program.lines)
        answer = np.zeros(len(found["id"]), np.bool_)
        for row, (site, word, first, last) in enumerate(zip(found["site"], found["word"], *times(found), strict=True)):
            if "period" in found and found["period"][row]:
                answer[row] = first > count  # an intermittent fault is run, whatever is read
                continue
            if site == "selector":
                struck = self.program.lines[first : min(last, count)]
                answer[row] = not any(line.opcode.startswith("mma.sp") for line in struck)
                continue
            reads, writes = self.uses[site]["ld"], self.uses[site]["st"]
            read, written = (reads[word], writes[word]) if site == "registers" else (reads[:, word], writes[:, word])
            if last <= count:
                gone = np.flatnonzero(written[last - 1 :])
                end = last - 1 + int(gone[0]) + 1 if len(gone) else count + 1
                answer[row] = not read[first : max(end, last)].any()
            else:
                answer[row] = not read[first:].any()
        return answer

    def run(self, found: Rows) -> dict[str, Any]:
        """What becomes of every row."""
        unread = self.unread(found)
        seen = np.flatnonzero(~unread)
        order = seen[np.argsort(found["at"][seen], kind="stable")]
        count = len(unread)
        result: dict[str, Any] = {
            "outcome": np.full(count, "masked", object),
            "reason": np.full(count, "unread", object),
        }
        result |= {name: np.full(count, -1 if name.startswith("first") else 0.0) for name in judged.MEASURES}
        result |= {name: np.zeros(count, np.bool_) for name in ("legality", "ordered", "race")}
        result["class_changed"] = np.zeros(count, np.int64)
        for first in range(0, len(order), TOGETHER):
            some = order[first : first + TOGETHER]
            for name, values in Batch(self, rows.some(found, some)).run().items():
                result[name][some] = values
        return result

    @cached_property
    def classes(self) -> Any:
        """The digits that are read without faults, [image]."""
        golden = self.uses["golden"]
        return self.digits(golden.registers[None], golden.memory[None])[0]

    def digits(self, registers: Any, memory: Any) -> Any:
        """The digits that are read, [fault, image]: 64 images in registers 120 to 151, 8 of them in four; the others in
        shared memory, 8 of them after one another for each output."""
        head = registers[:, :, 120:152].reshape(len(registers), 8, 8, 4, 32)  # warp, 8 images, register
        outputs = np.zeros((len(registers), 128, 384), np.uint32)
        for warp in range(8):
            for eight in range(8):
                part = head[:, warp, eight][:, RESULTS[..., 0], RESULTS[..., 1]]
                outputs[:, 16 * warp : 16 * warp + 16, 8 * eight : 8 * eight + 8] = part
        outputs[:, :, 64:] = (
            memory.reshape(len(memory), 40, 128, 8).transpose(0, 2, 1, 3).reshape(len(memory), 128, 320)
        )
        data, weights = (np.load(self.program.folder / f"{name}.npz") for name in ("f16", "weights"))
        with np.errstate(invalid="ignore", over="ignore"):
            layer = outputs.view(np.float32)
            layer = np.where(np.isnan(layer), np.copysign(np.float32(np.inf), layer), layer)  # NaN counts as infinity
            layer = np.maximum(layer * (data["w_scale"][:, None] * data["x_scale"]), 0)
            last, bias = weights["w3_2of4"].astype(np.float32), weights["b3_2of4"].astype(np.float32)
            return np.stack([(one.T @ last.T + bias).argmax(axis=1) for one in layer])
