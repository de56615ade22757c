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
CONTESTS = 8  # decisions of which the last issuer goes on in `later`, once it is not `greedy` any more
BOARDS = 6  # scoreboards of a warp in machine code
NO_MORE = 1 << 61  # ends the part of a state that varies in length
ASLEEP = 10_000  # cycles without an issue after which the state is compared at another warp's ends of loops

Integers = int  # the address of 64-bit integers
Bytes = int  # of bytes
Records = int  # of records, or of their addresses

Record = TypeVar("Record", bound=type[ctypes.Structure])
Kind = TypeVar("Kind", bound=ctypes.Structure)


def _record(kind: Record) -> Record:
    """Gives a class of records its fields: 64-bit integers and addresses, as they are annotated."""
    pointers = ("Integers", "Bytes", "Records")
    names = inspect.get_annotations(kind).items()
    kind._fields_ = [(name, ctypes.c_void_p if sort in pointers else ctypes.c_int64) for name, sort in names]
    return kind


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
        setattr(record, f"{name}_array", values.buffer_info()[0])


@_record
class CostRecord(ctypes.Structure):
    """The wavefronts of the executions of one operation by one warp: `simulator.timing.model.Periodic`."""

    entries_array: Integers
    length: int
    prefix: int


@_record
class SendingRecord(ctypes.Structure):
    """An access to shared memory that waits for the port of its sub-core, or that the port sends.

    Attributes:
        begin, until: from which cycle the port sends its registers, and until when; of a store that is interrupted,
            `begin` moves with what is left.
        values: registers that a store sends behind its addresses; 0 for a load. Where registers have banks, whether it
            is `slow`.
        warp, pc: the place of its warp in the sub-core, and that of its operation in the code.
        soonest: when its first wavefront could come, as far as the port tells; first, last: when its first and its last
            wavefront come.
        ready: when its value is there.
        read: when its registers have been read.
        arrives, next, left, banks: where registers have banks (`simulator.timing.banked_port`): when it comes to the
            port, when it reads next, and how many registers are left; bit j of `banks`, if the jth of them is odd.
        unwritten, due, written, step: how many of its registers are still to be written; when the first of them would
            be if nothing was in the way, and when it will be; cycles from one to the next.
    """

    begin: int
    until: int
    values: int
    arrives: int
    next: int
    left: int
    banks: int
    unwritten: int
    due: int
    written: int
    step: int
    warp: int
    pc: int
    soonest: int
    first: int
    last: int
    ready: int
    read: int


@_record
class ItemRecord(ctypes.Structure):
    """One item of a program: an operation (`simulator.timing.model.TimedOperation`), or the end of a loop.

    Attributes:
        loop: the number of the loop that ends here; -1 for an operation.
        looped: whether it is in a loop.
        python: whether Python must issue it: what works on after issue, or waits for others.
        queued: whether it goes to the queue of the tcgen05 unit.
        unit .. yields, upkeep, reads, writes, awaits: of an operation; `*_count` is the length of the array.
        loop_start, loop_count, unread, coded, branch: of the end of a loop: `simulator.timing.model.TimedLoop`; it has
            `awaits`, too.
    """

    loop: int
    looped: int
    python: int
    queued: int
    unit: int
    latency: int
    interval: int
    sent: int
    banks: int
    slow: int
    matrices: int
    vector: int
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


@_record
class WarpRecord(ctypes.Structure):
    """How far a warp is in its program, and until when each thing makes it wait.

    Attributes:
        place: its number among the warps that have a program.
        base: the index in `Counters.stalls` at which its cycles are counted.
        cta: its CTA.
        pc: the place of its next operation in its code.
        done: whether its program is over.
        blocked: what it waits for until it is released, a `StallReason`: BARRIER, MBARRIER or GLOBAL; 0 for nothing.
        last: the cycle of its last issue.
        acted: the cycle of its last instruction, upkeep included; `gives_way`: whether that one had the yield hint.
        issue_not_before: it issues nothing before this cycle, because of a barrier, the end of a loop or a wait that
            the compiler wrote; `issue_not_before_reason` says which.
        operands_not_before: the same because of a compiled wait for operands.
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
        boards: for each scoreboard of machine code, when the registers of the accesses that have it have been read.
        counts: for each loop, how many runs are done.
        starts: for each loop, when the current run could begin.
        ended: the place of the loop's end that it has come to, counted from 1, if the reads of accesses that it waits
            for there may yet come later; else 0.
        turns: for each item, the position of its next execution in what differs between executions.
        costs: for each item, its wavefronts.
        upkeep: `upkeep` of its last operation, in cycles of the run; of `upkeep_count`, the first `upkeep_seen` are
            over; `counter`, `runs`: of it, too.
    """

    place: int
    base: int
    cta: int
    pc: int
    done: int
    blocked: int
    last: int
    acted: int
    gives_way: int
    issue_not_before: int
    issue_not_before_reason: int
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
    upkeep_seen: int
    upkeep_count: int
    counter: int
    runs: int
    upkeep_array: Integers


@_record
class CoreRecord(ctypes.Structure):
    """One sub-core.

    Attributes:
        number: counted over all SMs; `greedy`, `later`: of the config's `[issue]`; `warps`: its warps.
        contests: decisions so far, up to a number, in which the last issuer could go on that was not `greedy` any more;
            `contest`: whether the last decision was one.
        tick: the cycle in which it looks at its warps next; NEVER if nothing makes it look.
        favourite: the place among its warps of the one that the issue policy remembers, since cycle `turned`.
        last_issue: the cycle of its last issue, in which it has issued `issues` instructions.
        free: by unit, the cycle from which each can take its next instruction.
        result_until, dense: of the last instruction of the tensor pipe that took the last: its `result_until`, and
            whether it was dense.
        others: three numbers for each of the other tensor pipes: from which cycle it is free, and these two.
        ports_until, metadata_until: until which cycle ports that tensor pipes share, and the path of metadata, are
            taken.
        reads_until: the cycle until which the last matrix instruction reads registers through ports that integer
            instructions use; `reader`: the place of its warp; `accessed`: whether an access to shared memory has come
            since.
        spare: how many integer and float instructions can still issue, before that one's interval is over, without
            delaying the tensor pipe.
        port_until: until which cycle the port to shared memory sends what has been issued; port_stores, port_loads:
            from which cycle on it sends a store, and a load, behind the last matrix instruction.
        accesses_read, last_read: how many accesses have read their registers, and when the last of them was read;
            `deferred`: the bank of a register that the port reads in the next cycle, instead of in this one;
            `port_step`: cycles from one register to the next; `result_stage`: `written` of the config's `[registers]`.
        stores: stores, up to a number, that have been issued since the last matrix instruction and that one would
            leave a gap in.
        matrices: ldmatrix.x4, up to a number, since the last load of four registers that come together.
        accesses: a ring of its last accesses to shared memory (`simulator.timing.port`); so many have been made.
        half_free: from which cycle on the half of the FMA pipe that only floats use is free.
        depth: stages in which instructions read their registers (`simulator.timing.operands`); 0: there are none.
        read_cycle: the cycle that these have come to; `frozen`: whether they stand still in it, as `Reads.give` says.
        stages: for each stage, the first first: the operands that are still to be read, those that its instruction has
            (bit 2 * slot + bank), whether it writes a register, by slot from when on each can be read, and the places
            of its operation in the code, counted from 1, and of its warp.
        readers: for each of `reading` matrix instructions that read: cycles since its first stage, its `even`, `odd`
            and `late`, and the bank of metadata that is still to be read.
        kept: by slot and bank, warp and register of an operand that the next instruction need not read again, and
            behind these of A and B of a matrix instruction; -1 for none.
    """

    number: int
    tick: int
    favourite: int
    turned: int
    contests: int
    contest: int
    greedy: int
    later: int
    last_issue: int
    issues: int
    result_until: int
    dense: int
    reads_until: int
    reader: int
    accessed: int
    spare: int
    port_until: int
    port_stores: int
    port_loads: int
    stores: int
    matrices: int
    ports_until: int
    metadata_until: int
    others_array: Integers
    accesses_made: int
    accesses_array: Records
    accesses_read: int
    last_read: int
    deferred: int
    port_step: int
    result_stage: int
    free_array: Integers
    half_free: int
    depth: int
    read_cycle: int
    frozen: int
    stages_array: Integers
    reading: int
    readers_array: Integers
    kept_array: Integers
    warps: int
    warps_array: Records


@_record
class SmRecord(ctypes.Structure):
    """One SM, or the two that run a pair of CTAs.

    Attributes:
        now: the cycle that the engine has come to.
        end: the last cycle so far in which a result is there.
        skip: whether to stop where a repetition may be found; there `boundary_warp` is at the end of the loop in
            `boundary_item`.
        started: the sub-core, and `started_warp` the place among its warps, of an operation that Python has started and
            whose step is to be ended; -1 for none.
        unlike_margin, margin: see `simulator.timing.sm`.
        policy: the number of the issue policy.
        others: tensor pipes of a sub-core beside one; `width` and `metadata_cycles` as in the config.
        sparse_after_dense .. loop_minimum: numbers of the config with these names; `fetch` is -1 where there is none.
        units, tensor .. control: how many units there are, and the numbers of some.
        reasons, issued .. reason_shared: how many reasons for stalls there are, and the numbers of some.
        extra: by consumer and producer, cycles beyond the producer's latency.
        pipe_taken, produced_by: by unit, the reason for a stall.
        stalls .. shared_busy: counters (`simulator.timing.counters`).
        queue_full, room_since: for each SM, whether the queue of its tcgen05 unit is full, and since when it has room.
        window, taken, first, taken_until, turn: see `simulator.timing.shared_memory`.
    """

    now: int
    end: int
    skip: int
    boundary_warp: int
    boundary_item: int
    started: int
    started_warp: int
    sms: int
    cores: int
    cores_array: Records
    warps: int
    warps_array: Records
    unlike_margin: int
    margin: int
    policy: int
    width: int
    others: int
    metadata_cycles: int
    sparse_after_dense: int
    integer: int
    access: int
    port_delay: int
    turnaround: int
    gap: int
    stores: int
    fetch: int
    cycles: int
    wavefronts: int
    wavefront_interval: int
    port_cycles: int
    queue: int
    vector_gap: int
    vector_after: int
    store_latency: int
    operand_latency: int
    loop_minimum: int
    units: int
    tensor: int
    alu: int
    fma: int
    shared: int
    control: int
    global_: int
    reasons: int
    issued: int
    dependency: int
    reason_issue: int
    branch: int
    sequence: int
    reason_shared: int
    extra_array: Integers
    pipe_taken_array: Integers
    produced_by_array: Integers
    stalls_array: Integers
    issued_array: Integers
    tensor_busy_array: Integers
    alu_busy_array: Integers
    shared_busy_array: Integers
    queue_full_array: Integers
    room_since_array: Integers
    window: int
    taken_array: Bytes
    first_array: Integers
    taken_until_array: Integers
    turn_array: Integers


RECORDS = (CostRecord, SendingRecord, ItemRecord, WarpRecord, CoreRecord, SmRecord)  # of the compiled engine, in order
