"""The few instructions of traces of `mma.sp` kernels, read from the text of a trace and executed (docs/traces.md)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.golden.again import sums
from tests.golden.again.fragments import codes, form_of, gather, places
from tests.golden.again.instruction import columns_of
from tests.golden.again.numerals import FORMATS, parts
from tests.golden.again.rows import FULL, Rows

FOREVER = 1 << 40


class Line(NamedTuple):
    """An instruction: its opcode, the registers that it writes and reads (in the order of its operands), its number,
    and what stands in its address or selector."""

    opcode: str
    writes: tuple[int, ...]
    reads: tuple[int, ...]
    number: int = 0
    special: str = ""


@dataclass
class Program:
    """A trace of one block for all warps, as its text says."""

    text: str
    folder: Path

    @cached_property
    def warps(self) -> int:
        """How many warps it has."""
        return int(re.search(r"\.warps (\d+)", self.text)[1])  # type: ignore[index] # every trace has it

    @cached_property
    def shared(self) -> Any:
        """Shared memory before the first instruction, uint32 words."""
        data = np.zeros(int(re.search(r"\.shared (\d+)", self.text)[1]), np.uint8)  # type: ignore[index]
        for place, file, key in re.findall(r'\.load shared\[(\d+)\], "(.*?)", "(.*?)";', self.text):
            values = np.load(self.folder / file)[key]
            part = np.frombuffer(values.tobytes(), np.uint8)
            data[int(place) : int(place) + len(part)] = part
        return data.view("<u4")

    @cached_property
    def lines(self) -> list[Line]:
        """The dynamic instructions, the same of each warp."""
        body = re.sub(r"//.*", "", self.text)
        body = re.search(r"\.warp [\d-]+ \{(.*)\}", body, re.S)[1]  # type: ignore[index]
        found: list[Line] = []
        for piece in re.split(r"(\.repeat \d+ \{.*?\n    \})", body, flags=re.S):
            match = re.match(r"\.repeat (\d+) \{(.*)\}", piece, re.S)
            times, text = (int(match[1]), match[2]) if match else (1, piece)
            found += times * [_line(" ".join(each.split())) for each in text.split(";") if each.strip()]
        return found

    @cached_property
    def stored(self) -> list[tuple[str, str, int, int]]:
        """What is stored, by name: "shared" or "registers", the first, and how many bytes or registers."""
        found = []
        for name, place, first, count in re.findall(r'\.store "(.*?)", (shared\[|%r)(\d+)\]?, (\d+);', self.text):
            found.append((name, "shared" if place == "shared[" else "registers", int(first), int(count)))
        return sorted(found)


def _line(text: str) -> Line:
    opcode, _, rest = text.partition(" ")
    registers = [int(number) for number in re.findall(r"%r(\d+)", rest)]
    numbers = re.findall(r"(?<![%\w])(?:0x)?\d+(?!\w)", re.sub(r"%r\d+", "", rest))
    number = int(numbers[-1], 0) if numbers else 0
    if opcode.startswith(("bar", "st.")):
        return Line(opcode, (), tuple(registers), number)
    count = {"ldmatrix": 4, "mma": 4, "ld": 2 if ".v2." in opcode else 1}.get(opcode.partition(".")[0], 1)
    special = "tid" if "%tid.x" in rest else "three" if opcode.startswith("mad") and len(registers) == 4 else ""
    return Line(opcode, tuple(registers[:count]), tuple(registers[count:]), number, special)


def integer(line: Line, values: Any) -> Any:
    """The result of an integer instruction, of the values of its registers [register, ..., lane] (int64)."""
    name, last = line.opcode.partition(".")[0], values[1] if len(values) > 1 else line.number
    if name == "mad":  # a register, a number or a register, and a register
        return values[0] * line.number + values[1] if line.special != "three" else values[0] * values[1] + values[2]
    return {
        "mov": lambda: values[0], "and": lambda: values[0] & last, "xor": lambda: values[0] ^ last,
        "add": lambda: values[0] + last, "sub": lambda: values[0] - last,
        "shl": lambda: np.where(last > 31, 0, values[0] << np.minimum(last, 31)),
        "shr": lambda: np.where(last > 31, 0, values[0] >> np.minimum(last, 31)),
    }[name]() & FULL  # fmt: skip


def spots_of(line: Line, address: Any) -> tuple[Any, int]:
    """The first word of each access [..., lane] and how many words it has, of the addresses of lanes."""
    size = 4 if line.opcode.startswith("ldmatrix") else 2 if ".v2." in line.opcode else 1
    return (address + line.number) & FULL, size


class Stops(NamedTuple):
    """Which of some accesses stop, and why."""

    illegal: Any
    misaligned: Any


def stops(where: Any, size: int, limit: int) -> Stops:
    """Which accesses [..., lane] of so many words leave a memory of `limit` bytes, or are misaligned."""
    return Stops((where + 4 * size > limit).any(axis=-1), (where % (4 * size) != 0).any(axis=-1))


def loaded(line: Line, memory: Any, where: Any, size: int) -> Any:
    """What an access reads, [..., register, lane], of words of memory [..., word]; `where` are byte addresses."""
    spots = where[..., None] // 4 + np.arange(size)
    if memory.ndim == 1:
        found = memory[spots]
    else:
        found = memory[np.arange(len(memory))[:, None, None], spots]
    if size == 4:  # of matrix m row r lies at the address of lane 8 m + r; lane l gets word l % 4 of row l / 4
        return found.reshape(*found.shape[:-2], 4, 32)
    return np.moveaxis(found, -1, -2)


RESULTS = places(form_of("mma.m16n8k16.f32.f16.f16.f32"), "d")


def multiplied(line: Line, values: Any, selector: Any) -> Any:
    """D of an `mma.sp` [pair, register, lane], of the registers that it reads [register, pair, lane]; `selector`
    [pair]."""
    form = form_of(line.opcode)
    words = np.moveaxis(values, 0, 1)
    a, b, c, e = words[:, :4], words[:, 4:8], words[:, 8:12], words[:, 12:13]
    read = np.zeros((len(words), 16, form.k // 4), np.int64)
    for number in set(selector.tolist()):
        mine = selector == number
        read[mine] = gather(e[mine], codes(form, number), 4)
    a_, b_ = gather(a, places(form, "a"), 16), gather(b, places(form, "b"), 16).transpose(0, 2, 1)
    pair, column = np.arange(len(b_))[:, None, None, None], np.arange(8)[None, None, :, None]
    chosen = b_[pair, column, columns_of(read, form)[:, :, None]]
    left, right = parts(a_[:, :, None], FORMATS["f16"]), parts(chosen, FORMATS["f16"])
    rule = sums.RULES["Hopper"]
    d = sums.fused(left, right, gather(c, RESULTS, 32), ("f32", "f32"), rule, 2)
    found = np.zeros((len(words), 4, 32), np.uint32)
    found[:, RESULTS[..., 0], RESULTS[..., 1]] = d
    return found


class Golden:
    """The run without faults: the words that are read and written, and when."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.registers = np.zeros((program.warps, 256, 32), np.uint32)
        self.memory = program.shared.copy()

    def values(self, line: Line) -> Any:
        """The values of the registers that an instruction reads, [register, warp, lane]."""
        return np.stack([self.registers[:, register] for register in line.reads]) if line.reads else None

    def step(self, line: Line) -> tuple[Any, Any]:
        """Executes an instruction in all warps: what it writes [register, warp, lane], and the addresses of an access
        [warp, lane]."""
        warps, where, found = self.program.warps, None, None
        name = line.opcode.partition(".")[0]
        if name == "mma":
            found = np.moveaxis(multiplied(line, self.values(line), np.full(warps, line.number)), 1, 0)
        elif name in ("ld", "ldmatrix"):
            where, size = spots_of(line, self.values(line)[0].astype(np.int64))
            found = np.moveaxis(loaded(line, self.memory, where, size), 1, 0)
        elif name == "st":
            where, size = spots_of(line, self.values(line)[0].astype(np.int64))
            spots = where[..., None] // 4 + np.arange(size)
            self.memory[spots] = np.moveaxis(self.values(line)[1:], 0, -1)
        elif line.special == "tid":
            found = np.arange(32 * warps).reshape(1, warps, 32)
        elif name != "bar":
            found = integer(line, self.values(line).astype(np.int64))[None]
        if found is not None:
            self.registers[:, list(line.writes)] = np.moveaxis(found.astype(np.uint32), 0, 1)
        return found, where


def on_duty(found: Rows, since: Any) -> Any:
    """Whether each row is there, so many instructions after its first one: an intermittent fault is in the first `duty`
    of each `period`."""
    if "period" not in found:
        return np.ones(len(since), np.bool_)
    return (found["period"] == 0) | (since % np.maximum(found["period"], 1) < found["duty"])


def times(found: Rows) -> tuple[Any, Any]:
    """From which instruction on, and to before which, each row strikes."""
    first = np.maximum(found["at"], 0)
    stuck = np.isin(found["model"], ["stuck0", "stuck1"]) | (found["model"] == "selector") & (found["at"] < 0)
    last = np.where(found["until"] >= 0, np.maximum(found["until"], first + 1), np.where(stuck, FOREVER, first + 1))
    return first, last
