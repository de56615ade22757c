"""The code that the timing model runs: operations with their times, ends of loops, and the reasons why warps wait."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from isa.forms.record import Unit
from simulator.compiler.operation_parts import (
    Access,
    Arithmetic,
    Emulated,
    Matrix,
    Operand,
    Overhead,
    Part,
    ReadCycles,
    Scoreboards,
)
from simulator.compiler.tcgen05 import Cost
from simulator.execute.dynamic_info import BulkFacts, BulkStoreFacts, Fact

Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class Periodic(Generic[Entry]):
    """What each execution of an operation does or costs, in order.

    The first executions have the entries in order; later ones repeat the entries from `prefix` on: execution i has
    entries[i] if i < len(entries), else entries[prefix + (i - prefix) % (len(entries) - prefix)]. Where no period is
    known, there is an entry for every execution.

    Raises:
        ValueError: nothing repeats.
    """

    entries: Sequence[Entry]
    prefix: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.prefix < len(self.entries):
            raise ValueError(f"a prefix of {self.prefix} of {len(self.entries)} entries leaves nothing that repeats")

    def after(self, position: int) -> int:
        """The position in `entries` of the execution behind the one at `position`."""
        return position + 1 if position + 1 < len(self.entries) else self.prefix

    def position(self, execution: int) -> int:
        """The position in `entries` of an execution, counted from 0."""
        ahead = execution - self.prefix
        return execution if ahead < 0 else self.prefix + ahead % (len(self.entries) - self.prefix)


def by_warp(warps: Sequence[int], table: NDArray[np.int64]) -> dict[int, Periodic[int]]:
    """The wavefronts of each warp's executions, from a table [execution, warp]; one entry if they never change."""
    rows = table[:1] if (table == table[:1]).all() else table
    return {warp: Periodic(column) for warp, column in zip(warps, rows.T.tolist(), strict=True)}


class StallReason(IntEnum):
    """What a warp spends a cycle on. The cycles of all reasons sum to the cycles of the run.

    Attributes:
        description: what the warp does, or waits for.
    """

    description: str

    ISSUED = 0, "an instruction issued"
    DEPENDENCY = 1, "operand of an unfinished matrix or integer instruction"
    TENSOR = 2, "tensor pipe of the sub-core taken"
    SHARED = 3, "operand on its way from shared memory, or the port to it taken"
    BARRIER = 4, "at a barrier"
    ISSUE = 5, "ready, but another warp of the sub-core issued"
    ALU = 6, "integer pipe taken"
    BRANCH = 7, "end of a loop"
    FINISHED = 8, "program over"
    TCGEN05 = 9, "queue of the tcgen05 unit full"
    TMEM = 10, "tcgen05.ld or st not complete, the path to Tensor Memory taken, or no columns free"
    MBARRIER = 11, "phase of an mbarrier not complete"
    GLOBAL = 12, "group of copies not complete, or operand on its way from global memory"
    SEQUENCE = 13, "a further machine instruction of the sequence that stands for an instruction issued"

    def __new__(cls, value: int, description: str) -> Self:
        reason = int.__new__(cls, value)
        reason._value_, reason.description = value, description
        return reason


class Job(NamedTuple):
    """One execution of an asynchronous or waiting operation, and the cycles that it costs (None: it takes no unit)."""

    fact: Fact
    cost: Cost | None


@dataclass(slots=True)
class TimedOperation:
    """One operation with its times. What only operations of some units have is in objects of their own, which
    operations share.

    Attributes:
        unit: the unit that executes it.
        latency: cycles until a dependent instruction can issue (shared memory: from the last wavefront).
        interval: cycles for which the unit takes no other instruction (shared memory: no other of the same warp).
        reads, writes: numbers of its registers.
        line: its line in the trace or the PTX.
        blocking: whether the warp issues nothing else for `latency` cycles.
        forwarding_penalty: cycles that integer results come later to this operation than to others of its unit: from
            another pipe, or to the address of a load that writes the same register.
        operands: what it reads, where the banks are known: of an integer or float instruction all, of a matrix
            instruction A and B.
        matrix, read_cycles: of a matrix instruction; without `read_cycles` it meets no other at the register file.
        arithmetic: of an integer or float instruction.
        access: of an access to shared memory.
        barrier: the number of a barrier, and how many warps it waits for (None: all of the CTA).
        barrier_waits: whether a warp waits at it; bar.arrive does not.
        costs: of an access to shared memory, for each warp the wavefronts of its executions.
        jobs: for each warp, what its executions do (units TCGEN05, TMEM and SYNC; loads, stores and copies of global
            memory); no entry for a warp that takes nothing but an issue slot.
        boards: its scoreboards in machine code; None where it waits for registers.
        emulated: of an instruction that the chip does not have.
        part: of a machine instruction of a sequence.
        place: the index of its instruction in the code.
        stall: what the compiler writes: cycles from issue until the warp can issue again. The warp spends the first
            `operand_stall` of them on operands of the next instruction, and the rest on `stall_reason`.
        yields: the same: whether it has the yield hint, so that the scheduler turns to the next warp.
        overhead: the same: the instructions of loop overhead behind it.
    """

    unit: Unit
    latency: int
    interval: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    line: int
    blocking: bool = False
    forwarding_penalty: int = 0
    operands: tuple[Operand, ...] = ()
    matrix: Matrix | None = None
    read_cycles: ReadCycles | None = None
    arithmetic: Arithmetic | None = None
    access: Access | None = None
    barrier: tuple[int, int | None] | None = None
    barrier_waits: bool = True
    costs: dict[int, Periodic[int]] | None = None
    jobs: dict[int, Periodic[Job]] | None = None
    boards: Scoreboards | None = None
    emulated: Emulated | None = None
    part: Part | None = None
    place: int = 0
    stall: int = 1
    operand_stall: int = 1
    stall_reason: StallReason = StallReason.ISSUED
    yields: bool = False
    overhead: tuple[Overhead, ...] = ()

    @property
    def sparse(self) -> bool:
        """Whether it is a sparse matrix instruction."""
        return self.matrix is not None and self.matrix.sparse

    @property
    def shortest_stall(self) -> int:
        """Cycles until the warp can issue anything else, whatever that is."""
        return 1 if self.matrix is None else self.matrix.shortest_stall

    @property
    def copies_in_bulk(self) -> bool:
        """Whether any of its executions starts a bulk copy."""
        return any(
            isinstance(job.fact, (BulkFacts, BulkStoreFacts))
            for runs in (self.jobs or {}).values()
            for job in runs.entries
        )

    @property
    def jumps(self) -> bool:
        """Whether it is a call or a return, into which ptxas writes no yield hint."""
        return self.blocking and self.unit is Unit.CONTROL

    def changed(self, **values: Any) -> TimedOperation:
        """A copy with other values; much faster than `dataclasses.replace`."""
        other = copy(self)
        for name, value in values.items():
            setattr(other, name, value)
        return other


@dataclass(slots=True)
class TimedLoop:
    """The end of a loop: back to `start` until `count` runs are done.

    Attributes:
        depth: how many loops are around it.
        loop: its number.
        unread: registers that the body loads from shared memory and overwrites before it reads them.
        coded: whether the scoreboards for which the branch waits are known; else the branch waits until the registers
            of all accesses have been read.
        awaits: these (`Scoreboards`).
        branch: cycles that the branch takes after the wait.
    """

    start: int
    count: int
    depth: int
    loop: int
    unread: tuple[int, ...] = ()
    coded: bool = False
    awaits: tuple[int, ...] = ()
    branch: int = 0


@dataclass(slots=True)
class TimedCode:
    """The program of some warps.

    Attributes:
        warps: the numbers of the warps.
        items: operations and ends of loops.
        inside: for each item, the numbers of the loops around it, outermost first.
        ends: for the number of each loop, its end.
        places: how many items the code had before sequences took the place of some.
        scheduled: whether its operations have the waits that a compiler writes.
        counted: how many instructions the scheduler counts for each warp before its first one.
        run_count: the register from which the comparison of a loop's counter reads the number of runs; the counter
            itself is in a uniform register.
    """

    warps: tuple[int, ...]
    items: list[TimedOperation | TimedLoop]
    inside: list[tuple[int, ...]]
    ends: dict[int, TimedLoop]
    places: int = 0
    scheduled: bool = False
    counted: int = 0
    run_count: int = 0

    def __post_init__(self) -> None:
        if not self.places:
            self.places = len(self.items)
            for place, item in enumerate(self.items):
                if isinstance(item, TimedOperation):
                    item.place = place


def unread(body: Sequence[TimedOperation | TimedLoop]) -> tuple[int, ...]:
    """Registers that one run of the body loads from shared memory and that the next run overwrites, without a read in
    between."""
    loaded: dict[int, bool] = {}  # by the last that touched it, a load from shared memory
    first: dict[int, bool] = {}  # whether the first that touched it wrote it
    for item in body:
        if isinstance(item, TimedOperation):
            for register in item.reads:
                loaded[register] = False
                first.setdefault(register, False)
            for register in item.writes:
                loaded[register] = item.unit is Unit.SHARED
                first.setdefault(register, True)
    return tuple(register for register, last in loaded.items() if last and first[register])


def nesting(items: list[TimedOperation | TimedLoop]) -> list[tuple[int, ...]]:
    """For each item, the numbers of the loops around it, outermost first."""
    inside: list[list[int]] = [[] for _ in items]
    loops = [(place, item) for place, item in enumerate(items) if isinstance(item, TimedLoop)]
    for end, loop in sorted(loops, key=lambda pair: pair[1].depth):
        for place in range(loop.start, end + 1):
            inside[place].append(loop.loop)
    return [tuple(chain) for chain in inside]


def operations_of(code: TimedCode) -> list[TimedOperation]:
    """The operations of a code, without the ends of loops."""
    return [item for item in code.items if isinstance(item, TimedOperation)]


def registers_of(codes: list[TimedCode]) -> int:
    """How many registers a warp has: those that the programs and their sequences name."""
    named = (
        1 + max((*op.reads, *op.writes, *(one.source for one in op.operands)), default=0)
        for code in codes
        for op in operations_of(code)
    )
    return max(named, default=1)


def has_jobs(codes: list[TimedCode], units: tuple[Unit, ...]) -> bool:
    """Whether the programs have operations of these units that do something after issue."""
    return any(op.unit in units and op.jobs for code in codes for op in operations_of(code))


def has_facts(codes: list[TimedCode], kind: type) -> bool:
    """Whether any execution of the programs is known to do such a thing."""
    runs = (runs for code in codes for op in operations_of(code) for runs in (op.jobs or {}).values())
    return any(isinstance(job.fact, kind) for each in runs for job in each.entries)
