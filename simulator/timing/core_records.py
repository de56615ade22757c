"""What the engine knows about sub-cores and SMs, as records of 64-bit integers with names: see
`simulator.timing.records`, which has those of warps, instructions and accesses.

The build of the kernel runs this module, too, before anything is installed.
"""

from __future__ import annotations

import ctypes

from simulator.timing.records import Bytes, Integers, Records, record_of


@record_of
class CoreRecord(ctypes.Structure):
    """One sub-core.

    Attributes:
        number: counted over all SMs; `greedy`, `most_counted`, `counted_behind`: of the config's `[issue]`; `warps`:
            its warps.
        tick: the cycle in which it looks at its warps next; NEVER if nothing makes it look.
        favourite: the place among its warps of the one that the issue policy remembers, since cycle `turned`.
        counting: whether its policy counts what each warp issues; recent: a ring of the last instructions, upkeep
            included, with room for `room`: cycle, and place of the warp; of `issues_made`, the first `issues_seen` are
            in the counts.
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
        stored: cycles from the one in which an instruction in its last stage is given a result of another one of its
            pipe until others can read it from the register file.
        stores: stores, up to a number, that have been issued since the last matrix instruction and that one would
            leave a gap in.
        accesses: a ring of its last accesses to shared memory (`simulator.timing.port`); so many have been made, and so
            many taken by the SM, the last one in cycle `taken_at`; `granted_at`: when it has read the last address of a
            load.
        writes_held: by cycle modulo `HELD`, the banks to which nothing could be written in it, below the cycle itself.
        half_free: from which cycle on the half of the FMA pipe that only floats use is free.
        depth: stages in which instructions read their registers (`simulator.timing.operands`); 0: there are none.
        read_cycle: the cycle that these have come to; `frozen`: whether they stand still in it, as `Reads.give` says.
        stages: for each stage, the first first: the operands that are still to be read, those that its instruction has
            (bit 2 * slot + bank), the banks that it writes, by slot from when on each can be read, and in the last
            stage, and the places of its operation in the code, counted from 1, and of its warp.
        readers: for each of `reading` matrix instructions that read: cycles since its first stage, its `even`, `odd`
            and `late`, and the bank of metadata that is still to be read.
        kept: by slot and bank, warp and register of an operand that the next instruction need not read again, and
            behind these of A and B of a matrix instruction; -1 for none.
        fetch_free: from which cycle on the unit is free that fetches instructions; `fetcher`: the place of the warp
            that it has fetched for last; `fetch_cycle`: the cycle that it and the reads of instructions have come to;
            `addressed`: whether addresses of any are known.
        return_taken: the cycle in which its last return was taken (`simulator.timing.returns`); `return_until`: the
            last in which a return may read a register.
        due_from, lines_from, reading_from: no upkeep issues, no line is fetched and no warp reads before these cycles;
            only the compiled engine keeps them, so as not to look each time.
    """

    number: int
    tick: int
    favourite: int
    turned: int
    greedy: int
    counting: int
    most_counted: int
    counted_behind: int
    room: int
    issues_made: int
    issues_seen: int
    recent_array: Integers
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
    ports_until: int
    metadata_until: int
    others_array: Integers
    accesses_made: int
    accesses_taken: int
    taken_at: int
    granted_at: int
    writes_held_array: Integers
    accesses_array: Records
    accesses_read: int
    last_read: int
    deferred: int
    port_step: int
    result_stage: int
    stored: int
    free_array: Integers
    half_free: int
    depth: int
    read_cycle: int
    frozen: int
    stages_array: Integers
    reading: int
    readers_array: Integers
    kept_array: Integers
    fetch_free: int
    fetcher: int
    fetch_cycle: int
    addressed: int
    return_taken: int
    return_until: int
    due_from: int
    lines_from: int
    reading_from: int
    warps: int
    warps_array: Records


@record_of
class SmRecord(ctypes.Structure):
    """One SM, or the two that run a pair of CTAs.

    Attributes:
        now: the cycle that the engine has come to.
        end: the last cycle so far in which a result is there.
        skip: whether to stop where a repetition may be found; there `boundary_warp` is at the end of the loop in
            `boundary_item`. The first is also the warp whose program is over.
        started: the sub-core, and `started_warp` the place among its warps, of an operation that Python has started and
            whose step is to be ended; -1 for none.
        unlike_margin, margin: see `simulator.timing.sm`.
        policy: the number of the issue policy.
        others: tensor pipes of a sub-core beside one; `width` and `metadata_cycles` as in the config.
        sparse_after_dense .. loop_minimum: numbers of the config with these names; `fetch` is -1 where there is none.
        copies: whether the compiled engine may issue copies; copy_latency .. pipe_cycles, of `[memory]`, `path_free`,
            `outside_turn`, `l2_free`, `path_busy`, and of L2, in bytes, `l2_rate` (0: it has no limit) .. `l2_sms`: see
            `simulator.timing.l2_path`; `warp_interval`: of `[shared]`.
        return_request .. return_reads, returns_look: see `simulator.timing.returns`.
        lines, line_interval .. line_places, line_read, line_room: of `[fetch]`; `lines` is 0 where there is none.
        units, tensor .. control: how many units there are, and the numbers of some.
        reasons, issued .. reason_shared: how many reasons for stalls there are, and the numbers of some.
        extra: by consumer and producer, cycles beyond the producer's latency.
        pipe_taken, produced_by: by unit, the reason for a stall.
        stalls .. shared_busy: counters (`simulator.timing.counters`).
        queue_full, room_since: for each SM, whether the queue of its tcgen05 unit is full, and since when it has room.
        window, taken, first, taken_until: see `simulator.timing.slots`; turn .. begun: see
            `simulator.timing.shared_memory`; returns, loads .. last_written: see `simulator.timing.return_path`;
            `longest`: the most wavefronts of an access.
        room, ring: accesses in `waiting` of an SM, and in the ring of a sub-core, at most.
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
    return_request: int
    return_interval: int
    return_again: int
    return_reads: int
    lines: int
    line_interval: int
    line_request: int
    line_latency: int
    line_places: int
    line_read: int
    line_room: int
    cycles: int
    wavefronts: int
    wavefront_interval: int
    port_cycles: int
    queue: int
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
    behind_array: Integers
    between_array: Integers
    room: int
    ring: int
    lag: int
    longest: int
    waiting: int
    queue_latency: int
    waiting_array: Records
    waits_array: Integers
    served_array: Integers
    serve_tick_array: Integers
    returns: int
    reach: int
    begun_array: Integers
    senders: int
    senders_array: Integers
    loads: int
    freed: int
    passes: int
    ahead: int
    written: int
    wait: int
    on_way_most: int
    on_way_array: Records
    on_way_count_array: Integers
    left_array: Integers
    decided_array: Integers
    last_written_array: Integers
    returns_look: int
    copies: int
    copy_latency: int
    line_cycles: int
    cached_cycles: int
    copy_port: int
    pipe_cycles: int
    warp_interval: int
    l2_rate: int
    l2_burst: int
    l2_request: int
    l2_sms: int
    path_free_array: Integers
    path_busy_array: Integers
    outside_turn_array: Integers
    l2_free_array: Integers


RECORDS = (CoreRecord, SmRecord)  # of the compiled engine, behind those of `simulator.timing.records`
