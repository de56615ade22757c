"""The code of a warp as the front of an SM reads it: one object an instruction or loop end, with typed fields.

Cycles are counted from the beginning of the run. Units and stall reasons are the numbers of `isa.forms.record.Unit` and
`simulator.compiler.timed_code.StallReason`.
"""

from __future__ import annotations

from array import array
from typing import Any

import cython

from isa.forms.record import Unit
from simulator.compiler import operation_parts
from simulator.compiler.timed_code import StallReason
from simulator.machine import outcomes

NEVER = cython.declare(cython.longlong, outcomes.NEVER)
ONE = cython.declare(cython.longlong, 1)  # to be moved up by more than the bits of a C integer
BOARDS = cython.declare(cython.int, operation_parts.BOARDS)
MOST_KINDS = cython.declare(cython.int, 62)  # instructions of loop overhead whose kind `Instruction.counter` can hold
KEPT = cython.declare(cython.longlong, 8)  # bit of an operand that the next instruction need not read again
AGAIN = cython.declare(cython.longlong, 16)  # bit of an operand whose register an earlier operand reads, too
TENSOR = cython.declare(cython.int, Unit.TENSOR)
ALU = cython.declare(cython.int, Unit.ALU)
SHARED = cython.declare(cython.int, Unit.SHARED)
BARRIER = cython.declare(cython.int, Unit.BARRIER)
TCGEN05 = cython.declare(cython.int, Unit.TCGEN05)
TMEM = cython.declare(cython.int, Unit.TMEM)
SYNC = cython.declare(cython.int, Unit.SYNC)
GLOBAL = cython.declare(cython.int, Unit.GLOBAL)
FMA = cython.declare(cython.int, Unit.FMA)
CONTROL = cython.declare(cython.int, Unit.CONTROL)
UNITS = cython.declare(cython.int, len(Unit))
ISSUED = cython.declare(cython.int, StallReason.ISSUED)
DEPENDENCY = cython.declare(cython.int, StallReason.DEPENDENCY)
AT_BARRIER = cython.declare(cython.int, StallReason.BARRIER)
NOT_CHOSEN = cython.declare(cython.int, StallReason.ISSUE)
BRANCH = cython.declare(cython.int, StallReason.BRANCH)
AT_MBARRIER = cython.declare(cython.int, StallReason.MBARRIER)
AT_GLOBAL = cython.declare(cython.int, StallReason.GLOBAL)
SEQUENCE = cython.declare(cython.int, StallReason.SEQUENCE)
REASONS = cython.declare(cython.int, len(StallReason))


def numbers(values: Any) -> Any:
    """These integers as an array that compiled code reads without Python."""
    return array("q", values)


@cython.final
@cython.cclass
class Repeated:
    """What each execution of an instruction takes: all entries once, and from `prefix` on again and again."""

    entries: cython.longlong[::1]
    count: cython.longlong
    prefix: cython.longlong

    def __init__(self, entries: Any, prefix: cython.longlong) -> None:
        self.entries, self.count, self.prefix = numbers(entries), len(entries), prefix


def operand_word(operand: Any) -> int:
    """An `Operand` as the collector has it: its register, the flags `KEPT` and `AGAIN`, slot and bank."""
    flags = KEPT * operand.kept | AGAIN * operand.again
    return int(operand.register << 5 | flags | operand.slot << 1 | operand.register & 1)


@cython.final
@cython.cclass
class Instruction:
    """One instruction with its times: the fields of `simulator.compiler.timed_code.TimedOperation` and of its parts.

    Attributes:
        timed: that operation.
        outside: whether something besides the front takes part in it: global memory, barriers, tcgen05, mbarriers.
        looped: whether it is in a loop.
        synced: whether it starts something that works on its own clock: a bulk copy, an mbarrier, the tcgen05 unit.
        reading, port: of a matrix instruction, `file_ports` and `shared_port`.
        metadata: bit b is set if it reads metadata from bank b.
        writer: of arithmetic that writes a register, the sum of the bits of the banks.
        part: whether it is a further instruction of a sequence.
        operands: each by `operand_word`; `sources`: the register that each waits for.
        upkeep: loop overhead: twice the cycles behind issue, plus 1 with the yield hint.
        counter: bit p is set if the instruction at p of `upkeep` is a comparison, which reads the operand `runs`.
    """

    timed: object
    outside: cython.bint
    looped: cython.bint
    synced: cython.bint
    unit: cython.int
    latency: cython.longlong
    interval: cython.longlong
    sent: cython.int
    banks: cython.longlong
    slow: cython.bint
    together: cython.bint
    forwarding_penalty: cython.longlong
    sparse: cython.bint
    result_from: cython.longlong
    result_until: cython.longlong
    reading: cython.longlong
    port: cython.longlong
    a: cython.longlong
    b: cython.longlong
    even: cython.longlong
    odd: cython.longlong
    late: cython.longlong
    metadata: cython.longlong
    halves: cython.bint
    writer: cython.longlong
    stall: cython.longlong
    operand_stall: cython.longlong
    stall_reason: cython.int
    part: cython.bint
    yields: cython.bint
    counter: cython.longlong
    runs: cython.longlong
    frees: cython.int
    fills: cython.int
    operands: cython.longlong[::1]
    operand_count: cython.int
    sources: cython.longlong[::1]
    upkeep: cython.longlong[::1]
    upkeep_count: cython.int
    reads: cython.longlong[::1]
    read_count: cython.int
    writes: cython.longlong[::1]
    write_count: cython.int
    awaits: cython.longlong[::1]
    await_count: cython.int

    def __init__(self, timed: Any, looped: cython.bint, runs: cython.longlong) -> None:
        self.timed, self.looped, self.runs, self.unit = timed, looped, runs, timed.unit
        self.outside = timed.jobs is not None or timed.unit in (BARRIER, TCGEN05, TMEM, SYNC)
        self.synced = timed.unit in (TCGEN05, TMEM, SYNC) or timed.copies_in_bulk
        self.latency, self.interval, self.forwarding_penalty = timed.latency, timed.interval, timed.forwarding_penalty
        self.stall, self.operand_stall, self.stall_reason = timed.stall, timed.operand_stall, timed.stall_reason
        self.yields, self.part = timed.yields, timed.part is not None and timed.part.further
        self._read_matrix(timed.matrix, timed.read_cycles)
        arithmetic, access = timed.arithmetic or operation_parts.Arithmetic(), timed.access or operation_parts.Access()
        self.halves = arithmetic.halves
        banks = {1 << register % 2 for register in timed.writes} or {NO_BANK}
        self.writer = sum(banks) if arithmetic.writes else 0
        self.sent, self.banks, self.slow, self.together = access.sent, access.banks, access.slow, access.together
        boards = timed.boards or operation_parts.Scoreboards()
        self.frees, self.fills = boards.frees, boards.fills
        self.awaits, self.await_count = numbers(boards.awaits), len(boards.awaits)
        self.operands, self.operand_count = numbers(map(operand_word, timed.operands)), len(timed.operands)
        self.sources = numbers([operand.source for operand in timed.operands])
        self.upkeep = numbers([2 * each.after + each.yields for each in timed.overhead])
        self.upkeep_count = len(timed.overhead)
        self.counter = sum([1 << at for at, each in enumerate(timed.overhead[:MOST_KINDS]) if each.compares])
        self.reads, self.read_count = numbers(timed.reads), len(timed.reads)
        self.writes, self.write_count = numbers(timed.writes), len(timed.writes)

    def _read_matrix(self, matrix: Any, cycles: Any) -> None:
        """Takes what a matrix instruction has beyond others."""
        self.sparse, self.result_from, self.result_until, self.reading, self.port = False, 0, 0, 0, 0
        self.a, self.b, self.even, self.odd, self.late, self.metadata = 0, 0, 0, 0, 0, 0
        if matrix is not None:
            self.sparse, self.reading, self.port = matrix.sparse, matrix.file_ports, matrix.shared_port
            self.result_from, self.result_until = matrix.result_from, matrix.result_until
        if cycles is not None:
            self.a, self.b, self.even, self.odd, self.late = cycles.a, cycles.b, cycles.even, cycles.odd, cycles.late
            self.metadata = 0 if cycles.metadata is None else 1 << cycles.metadata


NO_BANK = cython.declare(cython.longlong, 4)  # of a written register that is not named: neither bank


@cython.final
@cython.cclass
class LoopEnd:
    """The end of a loop: see `simulator.compiler.timed_code.TimedLoop`, which has the same fields.

    Attributes:
        timed: that loop, whose `count` may change from one run to the next.
    """

    timed: object
    loop: cython.int
    start: cython.int
    count: cython.longlong
    coded: cython.bint
    branch: cython.longlong
    unread: cython.longlong[::1]
    unread_count: cython.int
    awaits: cython.longlong[::1]
    await_count: cython.int

    def __init__(self, timed: Any) -> None:
        self.timed, self.loop, self.start, self.count = timed, timed.loop, timed.start, timed.count
        self.coded, self.branch = timed.coded, timed.branch
        self.unread, self.unread_count = numbers(timed.unread), len(timed.unread)
        self.awaits, self.await_count = numbers(timed.awaits), len(timed.awaits)

    def timed_loop(self) -> Any:
        """The `TimedLoop` that it was made from."""
        return self.timed


@cython.final
@cython.cclass
class Program:
    """The code of some warps.

    Attributes:
        timed: the `TimedCode` that it was made from.
        items: its instructions and loop ends; `ends`: whether each item is the end of a loop.
        costs: by place and warp, `Repeated` wavefronts of accesses to shared memory.
    """

    timed: object
    items: list
    ends: cython.longlong[::1]
    count: cython.int
    loops: cython.int
    longest_upkeep: cython.int
    costs: dict

    def __init__(self, timed: Any) -> None:
        self.timed, self.count, self.loops = timed, len(timed.items), len(timed.ends)
        runs = operand_word(operation_parts.Operand(0, timed.run_count))
        self.ends = numbers([hasattr(item, "loop") for item in timed.items])
        self.items = [
            LoopEnd(item) if hasattr(item, "loop") else Instruction(item, bool(inside), runs)
            for item, inside in zip(timed.items, timed.inside, strict=True)
        ]
        self.longest_upkeep = max([len(item.overhead) for item in timed.items if not hasattr(item, "loop")], default=0)
        self.costs = {}
        for place, item in enumerate(timed.items):
            if not hasattr(item, "loop") and item.costs:
                made: dict[int, Repeated] = {}
                for runs in item.costs.values():
                    if id(runs) not in made:
                        made[id(runs)] = Repeated(runs.entries, runs.prefix)
                self.costs[place] = {warp: made[id(runs)] for warp, runs in item.costs.items()}

    def refresh(self, timed: Any) -> None:
        """Takes the counts that the loops have now, and how many instructions its warps have issued before."""
        self.timed = timed
        for item in self.items:
            if isinstance(item, LoopEnd):
                end: LoopEnd = item
                end.count = end.timed.count


@cython.final
@cython.cclass
class Words:
    """A list of integers that grows: the state of a machine, for comparison."""

    words: cython.longlong[::1]
    count: cython.longlong
    room: cython.longlong

    def __init__(self) -> None:
        self.count, self.room = 0, 4096
        self.words = numbers([0]) * 4096

    @cython.cfunc
    def add(self, word: cython.longlong) -> cython.void:
        if self.count == self.room:
            self.grow()
        self.words[self.count] = word
        self.count += 1

    @cython.cfunc
    def grow(self) -> cython.void:
        longer = numbers(self.words) + numbers([0]) * self.room
        self.words, self.room = longer, 2 * self.room

    def bytes(self) -> bytes:
        """All words so far, as bytes."""
        return bytes(memoryview(self.words)[: self.count])

    def clear(self) -> None:
        """Forgets all words."""
        self.count = 0
