"""Loops of real machine code that were measured, and are simulated here as they were measured: with two loop counts,
whose difference gives the cycles of each iteration.

A file of loops is JSON, packed with xz (measurements/memory_loops.py writes one). It has `shared_bytes`, `images`
(what shared memory holds: `fill`, and `words` that differ) and `loops`: `name`, `group`, `kind`, `sub_cores` that take
part, `counts` (the two loop counts), `image`, `cycles` of an iteration by warps of the CTA, `begins` by warps of the
CTA, and `parts`.

`begins` are the cycles by which each warp ends a run of one iteration later than the first warp to end. On the chip the
first iteration waits for its instructions, so warps come to the second one apart; in the simulation they begin so.

A part has `warps` (first, last or null for all that follow), `registers` by name as [value of lane 0, step from lane to
lane], `body` as [times, instruction]; and `stalls`: for how many cycles the warp issues nothing after each instruction,
and after the branch; and `hints`: for each instruction 1 if it has the yield hint, and the instructions behind it that
no trace has (`TimedOperation.overhead`), each as twice the cycles from its issue, plus 1 with the hint; and `counter`:
which of these are integer instructions, with pipe and registers; and `operands`: the same of each instruction; and
`boards`: for each instruction the scoreboard that tells when its registers have been read and the one that tells when
its values are there, or -1, and the scoreboards that it waits for; as the last the same for the branch. A trace cannot
say that: here it is a part of the program that was measured.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import isa
from isa.forms.record import Unit
from simulator.chip.config import Config
from simulator.compiler.compile import compile_code
from simulator.compiler.operation_parts import Arithmetic, Overhead
from simulator.compiler.timed_code import (
    Periodic,
    StallReason,
    TimedCode,
    TimedLoop,
    TimedOperation,
    nesting,
    operations_of,
)
from simulator.execute.cta_state import CtaState
from simulator.machine.engine import Programs
from simulator.program.blocks import Block, Repeat, Step
from simulator.program.lowering import linearise
from simulator.program.program import Program
from simulator.simulation.session import Session
from simulator.state.registers import WARP_SIZE, Numbering, Sort
from simulator.studies.validation.slots import Slots, both, read_from, wait_for
from simulator.studies.validation.streams import repeated
from simulator.timing.run import simulate

Words = NDArray[np.uint32]
_RUNS = 2  # of the loop, to see that every iteration takes the same wavefronts


@dataclass(frozen=True)
class Part:
    """The part of a loop that some of the warps run.

    Attributes:
        first, last: the first and last of these warps in the CTA; `last` is None for all that follow.
        registers: start values by number; all other registers are 0.
        stalls: for each step, cycles from its issue until the warp may issue the next as the machine code has them, and
            as the last those after the branch; none where the machine code is not known.
        hints: for each step whether it has the yield hint, and its upkeep.
        counter: for each step which of its upkeep are integer instructions, which meet ports and pipes: the entry, the
            pipe ("alu" or "fma", or "compare" for one of the first that writes no register), and the registers.
        operands: for each step the same, but for the entry; nothing for accesses and barriers.
        boards: for each step, and for the branch, the scoreboards that tell when its registers have been read and when
            its values are there, or -1, and those that it waits for.
    """

    first: int
    last: int | None
    steps: tuple[Step, ...]
    registers: Mapping[int, Words]
    stalls: tuple[int, ...] = ()
    hints: tuple[tuple[int, ...], ...] = ()
    counter: tuple[tuple[tuple[int, str, Slots], ...], ...] = ()
    operands: tuple[tuple[str, Slots] | tuple[()], ...] = ()
    boards: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class Loop:
    """One measured loop.

    Attributes:
        image: what shared memory holds.
        counts: the two loop counts.
        cycles: cycles of one iteration, by warps of the CTA.
        begins: by warps of the CTA, the cycles by which each warp begins later than the first.
    """

    name: str
    group: str
    kind: str
    sub_cores: tuple[int, ...]
    counts: tuple[int, int]
    image: Words
    parts: tuple[Part, ...]
    cycles: Mapping[int, float]
    begins: Mapping[int, tuple[int, ...]]

    @cached_property
    def registers(self) -> int:
        """How many 32-bit registers a warp needs."""
        names = [
            name
            for part in self.parts
            for step in part.steps
            for name in (*step.instruction.reads, *step.instruction.writes)
        ]
        return 1 + max(int(name[2:]) for name in names)

    @cached_property
    def wavefronts(self) -> list[dict[int, NDArray[np.int64]]]:
        """For each part, the wavefronts [1, 1] of each operation that uses shared memory, by its index in the code."""
        warps = tuple(range(len(self.parts)))
        blocks = tuple(Block((warp,), (Repeat(_RUNS, self.parts[warp].steps, 0),), 0) for warp in warps)
        target = isa.parse_target("sm_90a")
        program = Program(Path(self.name), target, len(warps), self.image.nbytes, (), blocks, (), self.registers)
        session = Session(program, arithmetic="none")
        machines = session.fresh()
        self.begin(machines[0])
        executed = session.run(machines=machines)
        tables_by_part = []
        for code in program.codes:
            group = next(group for group in executed.groups if group.code is code)
            tables = {index: np.array(list(rows)) for index, rows in group.wavefronts.items()}
            assert all((table == table[0]).all() for table in tables.values())
            tables_by_part.append({index: table[:1] for index, table in tables.items()})
        return tables_by_part

    def begin(self, machine: CtaState) -> None:
        """Sets the state before the loop."""
        machine.shared.data[:] = self.image.view(np.uint8)
        for warp, part in enumerate(self.parts):
            for register, value in part.registers.items():
                machine.registers.write(np.array([warp]), [register], value[None, None, :], sort=Sort.WORD)

    def on(self, config: Config) -> TimedParts:
        """The loop as a chip runs it, compiled once for any number of warps; ConfigError for an instruction that the
        config has no time for."""
        numbering = Numbering(self.registers, 0, 0, 0)
        every = tuple(range(config.sm.warps))
        codes = []
        for part, wavefronts in zip(self.parts, self.wavefronts, strict=True):
            code = linearise(Block(every, (Repeat(1, part.steps, 0),), 0), numbering)
            costs = {index: dict.fromkeys(every, Periodic(table[:, 0].tolist())) for index, table in wavefronts.items()}
            timed = compile_code(code, config, costs)
            for end in timed.ends.values():
                end.unread = ()  # a loop whose machine code is not known waits for what it reads
            codes.append(_as_compiled(timed, part, config) if part.stalls else timed)
        return TimedParts(config, self, tuple(codes))


@dataclass(frozen=True)
class TimedParts:
    """A measured loop on a chip.

    Attributes:
        codes: the code of each part of the loop.
        programs: what its runs share.
    """

    config: Config
    loop: Loop
    codes: tuple[TimedCode, ...]
    programs: Programs = field(default_factory=Programs)

    def simulated(self, warps: int) -> float:
        """Cycles of an iteration with this many warps in the CTA."""
        low, high = (self.run(warps, count) for count in self.loop.counts)
        return (high - low) / (self.loop.counts[1] - self.loop.counts[0])

    def run(self, warps: int, count: int) -> int:
        """Cycles of `count` iterations."""
        codes = []
        for part, code in zip(self.loop.parts, self.codes, strict=True):
            last = warps - 1 if part.last is None else min(part.last, warps - 1)
            ours = [w for w in range(part.first, last + 1) if w % self.config.sm.sub_cores in self.loop.sub_cores]
            if ours:
                codes.append(repeated(code, ours, count))
        starts = self.loop.begins.get(warps, ())
        return simulate(self.config, codes, warps, starts=starts, programs=self.programs).cycles


def _as_compiled(code: TimedCode, part: Part, config: Config) -> TimedCode:
    """The code of a loop with the stalls, yield hints and scoreboards of its machine code, and with its counter: the
    addition and the comparison, which no trace has, issue where ptxas put them. A branch takes what any branch takes,
    at least."""
    items: list[TimedOperation | TimedLoop] = []
    compiled = zip(part.stalls[:-1], part.hints, part.counter, part.operands, strict=True)
    for operation, (stall, (yields, *behind), integers, operands), boards in zip(
        operations_of(code), compiled, part.boards[:-1], strict=True
    ):
        wait_for(operation, boards)
        if operation.unit is Unit.SHARED:
            operation.interval = 1
        if operands:
            pipe, slots = operands
            operation.unit = {"fma": Unit.FMA, "alu": Unit.ALU}.get(pipe, operation.unit)
            read_from(operation, slots)
        counter = {entry: (pipe, slots) for entry, pipe, slots in integers}
        codes = (int(yields), *counter)
        ends = (*(entry // 2 for entry in counter), stall)
        others = [entry for entry in behind if entry not in counter]
        for entry, end in zip(codes, ends, strict=True):
            item = _counter(config, *counter[entry]) if entry in counter else operation
            begin, last = entry // 2, end == stall
            item.stall, item.yields = end - begin, bool(entry % 2)
            item.overhead = tuple(
                Overhead(x // 2 - begin, bool(x % 2)) for x in others if begin <= x // 2 and (last or x // 2 < end)
            )
            items.append(item)
    item.stall += max(part.stalls[-1], config.loop.cycles)
    item.stall_reason = StallReason.BRANCH
    (end_of_loop,) = code.ends.values()
    end_of_loop.coded, end_of_loop.branch = True, part.stalls[-1]
    end_of_loop.awaits = both(part.boards[-1][2:])
    items.append(end_of_loop)
    return TimedCode(code.warps, items, nesting(items), code.ends, scheduled=True)


def _counter(config: Config, pipe: str, slots: Slots) -> TimedOperation:
    """An instruction of the loop's counter: the addition to its first register, or the comparison."""
    unit, writes = Unit.FMA if pipe == "fma" else Unit.ALU, () if pipe == "compare" else (slots[0][1],)
    operation = TimedOperation(unit, config.alu.latency, config.alu.interval, (), writes, 0)
    operation.arithmetic = Arithmetic(writes=bool(writes))
    read_from(operation, slots)
    return operation


def read_loops(path: Path) -> Iterator[Loop]:
    """The loops of a file."""
    content = json.loads(lzma.decompress(path.read_bytes()))
    images = {name: _image(entry, content["shared_bytes"]) for name, entry in content["images"].items()}
    for entry in content["loops"]:
        parts = tuple(_part(part) for part in entry["parts"])
        cycles = {int(warps): cycles for warps, cycles in entry["cycles"].items()}
        low, high = entry["counts"]
        yield Loop(
            entry["name"],
            entry["group"],
            entry["kind"],
            tuple(entry["sub_cores"]),
            (low, high),
            images[entry["image"]],
            parts,
            cycles,
            {int(warps): tuple(begins) for warps, begins in entry["begins"].items()},
        )


def _image(entry: Mapping[str, Any], size: int) -> Words:
    words = np.full(size // 4, entry["fill"], np.uint32)
    for place, word in entry["words"].items():
        words[int(place)] = word
    return words


def _part(entry: Mapping[str, Any]) -> Part:
    first, last = entry["warps"]
    steps = tuple(_step(line) for times, line in entry["body"] for _ in range(times))
    lanes = np.arange(WARP_SIZE, dtype=np.uint32)
    registers = {
        int(name[2:]): np.uint32(base) + lanes * np.uint32(step) for name, (base, step) in entry["registers"].items()
    }
    hints = tuple(map(tuple, entry["hints"]))
    counter = tuple(tuple(map(tuple, integers)) for integers in entry["counter"])
    operands = tuple(map(tuple, entry["operands"]))
    boards = tuple(map(tuple, entry["boards"]))
    return Part(first, last, steps, registers, tuple(entry["stalls"]), hints, counter, operands, boards)


@cache
def _step(line: str) -> Step:
    return Step(isa.decode(line, target="sm_90a"), 0)
