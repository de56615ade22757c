"""What the engine knows about an SM, as records of 64-bit integers with names.

Python reads and writes their fields as attributes, and the compiled engine (`simulator/timing/compiled/engine.c`) works
on the same records: the build of the kernel writes them down as C structures, so that each field stands here alone. It
runs this module before anything is installed, so that nothing but the standard library is there.

Cycles are those of the run. A field whose name ends with `_array` is the address of an array of integers.
"""

from __future__ import annotations

import ctypes
import inspect
from array import array
from functools import cache
from typing import Any, TypeVar

NEVER = 1 << 62  # a cycle that does not come
MORE_ACCESSES = 8  # that a sub-core's ring has room for, beyond those that can wait
HELD = 64  # cycles for which a sub-core knows the banks to which nothing could be written
BOARDS = 6  # scoreboards of a warp in machine code; each counts for registers that are read, and for values
LINES = 8  # of the instruction cache that a warp can have, at most
ROOMS = 8  # for instructions that a warp has read from its lines, at most
BYTES_AT, CACHED_AT = 16, 32  # bits of `simulator.timing.l2_path.fetched_word`
NO_MORE = 1 << 61  # ends the part of a state that varies in length
ASLEEP = 10_000  # cycles without an issue after which the state is compared at another warp's ends of loops

Integers = int  # the address of 64-bit integers
Bytes = int  # of bytes
Records = int  # of records, or of their addresses

Record = TypeVar("Record", bound=type[ctypes.Structure])
Kind = TypeVar("Kind", bound=ctypes.Structure)


def record_of(kind: Record) -> Record:
    """Gives a class of records its fields: 64-bit integers and addresses, as they are annotated."""
    pointers = ("Integers", "Bytes", "Records")
    names = inspect.get_annotations(kind).items()
    kind._fields_ = [(name, ctypes.c_void_p if sort in pointers else ctypes.c_int64) for name, sort in names]
    return kind


def left(cycle: int, now: int) -> int:
    """How far ahead a cycle is; of one that is not known, that."""
    return cycle - now if cycle < NEVER else -NEVER


def relative(cycle: int, now: int, accesses: int) -> int:
    """How far ahead a cycle is; of one that waits for an access of which it is not known when it is served, which
    access that is, counted from the last one that its sub-core has made."""
    return cycle - now if cycle < NEVER else cycle - NEVER - accesses - NEVER


def fields(kind: type[ctypes.Structure]) -> list[tuple[str, type]]:
    """Names and types of a record's fields."""
    return [(field[0], field[1]) for field in kind._fields_]


@cache
def plain(kind: type[Kind]) -> type[Kind]:
    """The same class with its fields as plain attributes, which Python reaches in half the time and C not at all."""
    names = tuple(name for base in kind.__mro__ if "_fields_" in base.__dict__ for name, _ in fields(base))

    def begin(self: Kind, *args: Any, **values: Any) -> None:
        for name in names:
            setattr(self, name, 0)
        kind.__init__(self, *args, **values)

    return type(kind.__name__, (kind,), {"__slots__": names, "__init__": begin, "__doc__": kind.__doc__})


def link(record: ctypes.Structure, **arrays: array[int]) -> None:
    """Lets the fields `NAME_array` of a record point to the arrays with these names."""
    for name, values in arrays.items():
        setattr(record, name + "_array", values.buffer_info()[0])


@record_of
class CostRecord(ctypes.Structure):
    """The wavefronts of the executions of one operation by one warp, or what its copies fetch (`fetched_word` of
    `simulator.timing.l2_path`): `simulator.compiler.timed_code.Periodic`."""

    entries_array: Integers
    length: int
    prefix: int


@record_of
class SendingRecord(ctypes.Structure):
    """An access to shared memory that waits for the port of its sub-core, or that the port sends.

    Attributes:
        begin, until: from which cycle the port sends its registers, and until when; of a store that is interrupted,
            `begin` moves with what is left.
        values: registers that a store sends behind its addresses; 0 for a load. Where registers have banks, whether it
            is `slow`.
        arrives, next, left, banks: where registers have banks (`simulator.timing.banked_port`): when it comes to the
            port, when it reads next, and how many of its `sent` registers are left; bit j of `banks`, if the jth of
            them is odd.
        warp, pc: the place of its warp in the sub-core, and that of its operation in the code.
        soonest: when its first wavefront could come, as far as the port tells.
        ready: what stands for the cycle in which its values are there, as that is not known.
        read: when its registers have been read.
        count: its wavefronts.
        behind: when it may begin because of an access to global memory before it.
    """

    begin: int
    until: int
    values: int
    arrives: int
    next: int
    left: int
    sent: int
    banks: int
    warp: int
    pc: int
    soonest: int
    ready: int
    read: int
    count: int
    behind: int


@record_of
class WaitingRecord(ctypes.Structure):
    """An access in an SM's queue: its sub-core, of its `SendingRecord` what is needed there, and how many accesses have
    begun before it while there was no room for its registers."""

    core: int
    warp: int
    pc: int
    count: int
    ready: int
    behind: int
    passed: int


@record_of
class RegisterRecord(ctypes.Structure):
    """A register of a load that is on its way (`simulator.timing.return_path`).

    Attributes:
        core, warp, pc: its sub-core, the place of its warp there, and that of its operation in the code.
        ready: what stands for the cycle in which the load's values are there.
        bank: that of the register, as a bit.
        place: whether it takes a place of those for loads that have begun; final: whether it is the load's last.
        soonest, slot: in which slot it can leave the pipe, and in which it does.
    """

    core: int
    warp: int
    pc: int
    ready: int
    bank: int
    place: int
    final: int
    soonest: int
    slot: int


@record_of
class ItemRecord(ctypes.Structure):
    """One item of a program: an operation (`simulator.compiler.timed_code.TimedOperation`), or the end of a loop.

    Attributes:
        loop: the number of the loop that ends here; -1 for an operation.
        looped: whether it is in a loop.
        python: whether Python must issue it: what works on after issue, or waits for others.
        copies: whether it is a cp.async, which the compiled engine issues where it may.
        queued: whether it goes to the queue of the tcgen05 unit.
        unit .. yields, upkeep, reads, writes, awaits: of an operation; `*_count` is the length of the array.
        loop_start, loop_count, unread, coded, branch: of the end of a loop (`compiler.timed_code.TimedLoop`); it has
            `awaits`, too.
    """

    loop: int
    looped: int
    python: int
    copies: int
    queued: int
    unit: int
    latency: int
    interval: int
    sent: int
    banks: int
    slow: int
    together: int
    forwarding_penalty: int
    sparse: int
    result_from: int
    result_until: int
    ports: int
    reading: int
    port: int
    spare: int
    a: int
    b: int
    even: int
    odd: int
    late: int
    metadata: int
    halves: int
    writer: int
    operands_count: int
    operands_array: Integers
    sources_count: int
    sources_array: Integers
    stall: int
    operand_stall: int
    stall_reason: int
    compare: int
    part: int
    yields: int
    counter: int
    runs: int
    frees: int
    fills: int
    returning: int
    cache_line: int
    line_place: int
    awaits_count: int
    awaits_array: Integers
    upkeep_count: int
    upkeep_array: Integers
    reads_count: int
    reads_array: Integers
    writes_count: int
    writes_array: Integers
    loop_start: int
    loop_count: int
    unread_count: int
    unread_array: Integers
    coded: int
    branch: int


@record_of
class WarpRecord(ctypes.Structure):
    """How far a warp is in its program, and until when each thing makes it wait.

    Attributes:
        place: its number among the warps that have a program.
        base: the index in `Counters.stalls` at which its cycles are counted.
        cta: its CTA; core: its sub-core, counted over all SMs.
        pc: the place of its next operation in its code.
        done: whether its program is over.
        blocked: what it waits for until it is released, a `StallReason`: BARRIER, MBARRIER or GLOBAL; 0 for nothing.
        last: the cycle of its last issue.
        acted: the cycle of its last instruction, upkeep included; `gives_way`: whether that one had the yield hint,
            or the next waits as `simulator.timing.yielding` says.
        scheduled: whether its code says what its instructions wait for, as machine code does.
        busy: bit k, if scoreboard k of `boards` was busy when its last operation issued; `untried`: whether the next
            waits for one that the last has taken, and it is not known yet whether it is tried in vain.
        counted: its instructions, as the issue policy counts them.
        issue_not_before: it issues nothing before this cycle, because of a barrier, the end of a loop or a wait that
            the compiler wrote; `issue_not_before_reason` says which.
        operands_not_before: the same because of a compiled wait for operands.
        gone: the last cycle in which a jump that it has issued is in the stages, and is delayed if they stand still;
            NEVER if its last instruction was none.
        operands_ready: when the operands of the next operation are ready, and what the last of them comes from.
        access: when its next access to shared memory can issue.
        sent: when all pinned registers have been read.
        comparison: the cycle in which the counter of its loop is compared next, or was compared last.
        items: of its program.
        ready: for each register, when it can be read.
        producers: for each register, the unit that wrote it last.
        readable: for each register that an integer or float instruction wrote last, from when on another of its pipe
            can read it.
        pinned: for each register that an access to memory reads, when it can be overwritten.
        boards: for each scoreboard of machine code, when the registers of the accesses that have it have been read;
            then for each, when their values are there.
        counts: for each loop, how many runs are done.
        starts: for each loop, when the current run could begin.
        ended: the place of the loop's end that it has come to, counted from 1, if the reads of accesses that it waits
            for there may yet come later; else 0.
        turns: for each item, the position of its next execution in what differs between executions.
        costs: for each item, its wavefronts, or what it fetches.
        copied: when the last of its copies is written that no group covers yet, where arrivals are kept in groups.
        upkeep: `upkeep` of its last operation, in cycles of the run; of `upkeep_count`, the first `upkeep_seen` are
            over; `counter`, `runs`: of it, too.
        line: that of the instruction cache that it is in, -1 if that is not known; up to before `lines_end` they are
            there or on their way; `lines`: from when on, by line modulo `LINES`.
        requests: from which cycle on the next can be fetched; `asked`: what for (`simulator.timing.fetching`).
        redirected: when the target of its jump comes to the fetch unit, which is in line `target`; `returned`: whether
            that jump was a return, and its warp has not left a line since.
        stands: the address of the instruction that issues next, in instructions, -1 if that is not known; `reads`: of
            that which it reads next; `landed`: of the target of its last jump. By address modulo `[fetch]
            room`: `freed`, when an instruction has left its room, with two flags (`Reading.make_room`), and `there`,
            from when on the one that is in it can issue. `reads_at`: what `Reading.reads_from` says; only the compiled
            engine keeps it, so as not to work it out each time.
        return_issued .. return_served: when its return issued that is under way (NEVER: none is), when it is taken and
            has its second step, and when it is served (`simulator.timing.returns`).
        return_left, return_late: until when its last return is in the stages, and for how many cycles they have stood
            still meanwhile; `return_put_off`: whether a matrix instruction has waited for its first read.
    """

    place: int
    base: int
    cta: int
    core: int
    pc: int
    done: int
    blocked: int
    last: int
    acted: int
    gives_way: int
    scheduled: int
    busy: int
    untried: int
    counted: int
    issue_not_before: int
    issue_not_before_reason: int
    gone: int
    operands_not_before: int
    operands_ready: int
    operands_reason: int
    access: int
    sent: int
    comparison: int
    items: int
    items_array: Records
    registers: int
    ready_array: Integers
    producers_array: Integers
    readable_array: Integers
    pinned_array: Integers
    boards_array: Integers
    loops: int
    counts_array: Integers
    starts_array: Integers
    ended: int
    turns_array: Integers
    costs_array: Records
    copied: int
    upkeep_seen: int
    upkeep_count: int
    counter: int
    runs: int
    upkeep_array: Integers
    line: int
    lines_end: int
    requests: int
    asked: int
    redirected: int
    target: int
    returned: int
    lines_array: Integers
    stands: int
    reads: int
    landed: int
    reads_at: int
    freed_array: Integers
    there_array: Integers
    return_issued: int
    return_taken: int
    return_sent: int
    return_served: int
    return_left: int
    return_late: int
    return_put_off: int


RECORDS = (
    CostRecord,
    SendingRecord,
    WaitingRecord,
    RegisterRecord,
    ItemRecord,
    WarpRecord,
)  # of the compiled engine, in order
