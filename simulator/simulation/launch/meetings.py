"""Instructions at which threads wait for others: those of whole warps, those that name the threads of their warp, and
the barriers of a CTA."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.errors import Error
from isa.forms.synchronisation import is_aligned, is_arrival, is_reduction, meets_order
from isa.ptx.instruction import Immediate, Operand
from simulator.execute.cta_state import Executor, Outcome
from simulator.execute.dynamic_info import ArriveFacts, Barrier, BarrierFacts, Fact, Idle, WaitFacts, meeting
from simulator.execute.exchange import Exchange, check_members, exchange
from simulator.execute.operands import predicate, reader, writer
from simulator.execute.pending import PendingWait
from simulator.program.kernel import Operation
from simulator.simulation.launch.blame import blamed
from simulator.simulation.launch.mbarrier_use import is_followed
from simulator.simulation.launch.run import PARTED, Reduction, Run, Step, taken, whole
from simulator.simulation.launch.threads import ALL, AWAY, Group
from simulator.simulation.launch.watch import Watch
from simulator.state.registers import LANE, WARP_SIZE, Lanes, Warps

FRUITLESS = 1 << 16  # looks of threads at mbarriers, while nobody arrives, after which these are taken to wait for ever


def together(item: Operation, execute: Executor) -> Step:
    """An instruction of whole warps, which waits until all threads that have not exited are here."""

    def step(run: Run, group: Group, place: int) -> int:
        if group.lanes is None:
            return _done_or_blocked(run, group, item, execute)
        lanes, threads = group.lanes, run.threads
        if item.guard is not None and not taken(run, group, item.guard).any():
            return executed(run, group, item, execute)
        late: Any = (threads.live[group.rows] & ~lanes).any(axis=1)
        if not late.any():
            run.state.active = None
            try:
                return _done_or_blocked(run, group, item, execute)
            finally:
                run.state.active = lanes
        return _arrive(run, group, place, lanes, place, None)

    return step


def _done_or_blocked(run: Run, group: Group, item: Operation, execute: Executor) -> int:
    """Executes an instruction of whole warps; those that it makes wait (tcgen05.alloc) let the others go on."""
    block = outcome_of(run, group, item, execute).block
    if block is None:
        return item.index + 1
    rank = run.code.rank[item.index + 1]
    run.threads.move(group.members, rank)
    run.block(block, group.rows, rank)
    return PARTED


def named(item: Operation, execute: Executor) -> Step:
    """An instruction of the threads that its mask names: each waits until all of them that have not exited execute one
    with the same opcode and mask, wherever in the kernel that is. A thread that its guard holds back goes on."""
    instruction = item.instruction
    mask = mask_of(item)
    assert mask is not None
    read, constant = reader(mask), isinstance(mask, Immediate)

    def step(run: Run, group: Group, place: int) -> int:
        if group.lanes is None and item.guard is None and constant:
            return executed(run, group, item, execute)
        lanes, masks = taken(run, group, instruction.guard), read(run.state, group.rows)[:, 0]
        first = np.take_along_axis(masks, lanes.argmax(axis=1)[:, None], axis=1)
        alike = not (lanes & (masks != first)).any()
        if alike and ((group.lanes is None and item.guard is None) or not _late(run, group, lanes, first).any()):
            return executed(run, group, item, execute)
        return _arrive(run, group, place, lanes, instruction.form.opcode, masks)

    return step


def _late(run: Run, group: Group, lanes: Lanes, mask: NDArray[np.uint32]) -> Lanes:
    """bool [row of the group, lane]: threads that have not exited and that the mask uint32 [row, 1] of some of `lanes`
    names, but that are not among these."""
    some: Any = lanes.any(axis=1)
    late: Lanes = run.threads.live[group.rows] & ~lanes & (mask >> LANE & 1 != 0) & some[:, None]
    return late


def mask_of(item: Operation) -> Operand | None:
    """The operand of an instruction that names the threads of its warp that execute it together; None if it has none:
    it is one of a whole warp, or of each thread alone."""
    return item.instruction.by_role.get("membermask")


def _arrive(run: Run, group: Group, place: int, lanes: Lanes, kind: str | int, masks: NDArray[np.uint32] | None) -> int:
    """Lets threads, bool [row of the group, lane], wait at an instruction for others of their warp, and go on if these
    are here. Others of the group go on behind it.

    Args:
        kind: what the others must wait at: the opcode, or this place.
        masks: uint32 [row of the group, lane]: the threads that each waits for; None for all.
    """
    threads, rank, rows = run.threads, run.code.rank, len(run.threads.exists)
    if masks is not None:
        check_members(masks, lanes)
    run.counts[place] -= len(group.rows)
    arriving = whole(group, lanes, rows)
    threads.move(group.members & ~arriving, rank[place + 1])
    named = np.full(threads.exists.shape, ALL, np.uint32)
    if masks is not None:
        named[group.rows] = masks
    threads.park(arriving, rank[place], run.code.kinds.setdefault(kind, len(run.code.kinds)), named)
    settle(run, group.rows)
    return PARTED


def settle(run: Run, rows: Warps) -> None:
    """Lets the threads of some warps go on that wait for others of their warp and have met them all."""
    threads, code = run.threads, run.code
    met = threads.met(rows)
    if not met.any():
        return
    chosen = np.flatnonzero(met.any(axis=1))
    rows, met = rows[chosen], met[chosen]
    kinds, back = threads.kind[rows], threads.back[rows]
    before, blocked = run.state.active, list[tuple[PendingWait, Warps, int]]()
    for kind in np.unique(kinds[met]).tolist():
        here = met & (kinds == kind)
        some = np.flatnonzero(here.any(axis=1))
        places = [code.place_of[rank] for rank in np.unique(back[here]).tolist()]
        block = _meet(run, rows[some], [(place, (here & (back == code.rank[place]))[some]) for place in places])
        if block is not None:
            blocked.append((block, rows[some], code.rank[places[0] + 1]))
    run.state.active = before
    for rank in np.unique(back[met]).tolist():
        threads.unpark(rows, met & (back == rank), code.rank[code.place_of[rank] + 1])
    for block, some_rows, rank in blocked:
        run.block(block, some_rows, rank)


def _meet(run: Run, rows: Warps, parts: list[tuple[int, Lanes]]) -> PendingWait | None:
    """Executes an instruction for threads that have met, bool [row, lane], by place: at one or several. Returns what
    they wait for then."""
    meeting = [(run.code.kernel.items[place], lanes) for place, lanes in parts]
    for item, lanes in meeting:
        assert isinstance(item, Operation)
        run.counts[item.index] += int(lanes.any(axis=1).sum())
        if run.watch is not None:
            run.watch.before(item, rows, lanes)
    exchanges = [(run.code.meets[place], lanes) for place, lanes in parts]
    outcome = Outcome()
    try:
        if isinstance(exchanges[0][0], Exchange):
            exchange(run.state, rows, [(each, lanes) for each, lanes in exchanges if isinstance(each, Exchange)])
        else:
            for (item, lanes), (execute, _) in zip(meeting, exchanges, strict=True):
                assert isinstance(item, Operation)
                here = np.flatnonzero(lanes.any(axis=1))
                run.state.active = None if mask_of(item) is None else lanes[here]
                outcome = execute(run.state, rows[here])
    except Error as error:
        run.state.active = None
        item, lanes = meeting[0]
        raise blamed(error, run.code.kernel, item, run.state, Group(0, 0, rows, lanes, lanes, 0)) from error
    first = meeting[0][0]
    if run.state.order is not None and isinstance(first, Operation) and meets_order(first.instruction.form):
        whole = mask_of(first) is None
        masks = None if whole else run.threads.named[rows]
        run.state.order.warps_met(rows, np.logical_or.reduce([lanes for _, lanes in meeting]), masks)
    for item, lanes in meeting:
        here = np.flatnonzero(lanes.any(axis=1))
        if run.watch is not None and isinstance(item, Operation):
            run.watch.after(item, rows, lanes, outcome)
        elif run.note is not None:
            run.note(item.index, rows[here], lanes[here], outcome)
    return outcome.block


def awaiting(item: Operation, execute: Executor) -> Step:
    """mbarrier.test_wait and try_wait: threads whose phase is not complete let others go on at once, as they will look
    again. If all threads do nothing but look, they wait for ever."""

    def step(run: Run, group: Group, place: int) -> int:
        outcome, following = outcome_of(run, group, item, execute), item.index + 1
        if outcome.block is None:
            return following
        if run.state.arrivals != run.arrivals:
            run.arrivals, run.idle = run.state.arrivals, 0
            run.watching[:] = False
            run.spinning.changed()
        run.watching |= group.members
        run.spinning.looked(place, group.rows, group.lanes)
        run.idle += 1
        others = run.threads.live & ~run.watching & (run.threads.at < AWAY)
        completion = run.state.completion
        if run.idle > FRUITLESS and not others.any() and not (completion is not None and completion.finish()):
            run.stuck()
        run.threads.move(group.members, run.code.rank[following])
        run.threads.give_way(group.rank)
        return PARTED

    return step


def executed(run: Run, group: Group, item: Operation, execute: Executor) -> int:
    outcome_of(run, group, item, execute)
    return item.index + 1


def outcome_of(run: Run, group: Group, item: Operation, execute: Executor) -> Outcome:
    """Executes an instruction for a group, and tells those who look on."""
    if run.watch is not None:
        return _watched(run, group, item, execute, run.watch)
    outcome = execute(run.state, group.rows)
    if run.note is not None:
        run.note(item.index, group.rows, group.lanes, outcome)
    return outcome


def _watched(run: Run, group: Group, item: Operation, execute: Executor, watch: Watch) -> Outcome:
    lanes = taken(run, group, item.instruction.guard)
    watch.before(item, group.rows, lanes)
    outcome = execute(run.state, group.rows)
    watch.after(item, group.rows, lanes, outcome)
    if run.uses is not None and is_followed(item.instruction.form):
        run.uses.mbarriers.executed(item, group.rows, lanes, outcome)
    order, mask = run.state.order, mask_of(item)
    if order is not None and meets_order(item.instruction.form):
        masks = None if mask is None else reader(mask)(run.state, group.rows)[:, 0]
        order.warps_met(group.rows, lanes, masks)
    return outcome


def barrier(item: Operation) -> Step:
    """bar and barrier: the threads wait, or (arrive) do not; a reduction counts the predicates that they give."""
    instruction, form = item.instruction, item.instruction.form
    reduces = is_reduction(form)
    operation = next((q for q in form.qualifiers if q in ("popc", "and", "or")), "")
    vote = predicate(instruction["c"]) if reduces else None
    write = writer(instruction["d"], 32 if operation == "popc" else 1) if reduces else None
    number, *rest = (reader(instruction[name]) for name in "ab" if name in instruction.by_role)
    aligned, waits = is_aligned(form), not is_arrival(form)

    def step(run: Run, group: Group, place: int) -> int:
        state, rows = run.state, len(run.threads.exists)
        lanes = taken(run, group, instruction.guard)
        if not lanes.any():
            return place + 1
        if aligned and group.lanes is not None and _ahead(run, group, place):
            run.counts[place] -= len(group.rows)
            run.threads.move(group.members, run.code.rank[place])
            return PARTED
        which, wanted = np.zeros(rows, np.int64), None
        first = lanes.argmax(axis=1)
        which[group.rows] = number(state, group.rows)[:, 0][np.arange(len(first)), first]
        if rest:
            wanted = np.zeros(rows, np.int64)
            wanted[group.rows] = rest[0](state, group.rows)[:, 0][np.arange(len(first)), first]
        members = whole(group, lanes, rows)
        if run.note is not None:
            counts = None if wanted is None else wanted[group.rows]
            run.note(place, group.rows, group.lanes, Outcome(facts=_named_arrivals(which[group.rows], counts, waits)))
        if run.watch is not None:  # what it writes is there before a thread goes on
            run.watch.before(item, group.rows, lanes)
            run.watch.after(item, group.rows, lanes, Outcome())
        if vote is not None and write is not None:
            values = np.zeros_like(members)
            values[group.rows] = vote(state, group.rows)
            run.barriers.vote(members, which, values)
            run.pending.append(Reduction(members.copy(), operation, write))
        if run.uses is not None:
            run.uses.barriers.arrives(place, members, which, wanted, aligned, group.members & ~members)
        run.tell_arrival(members, which)
        if not waits:
            run.arrive_only(members, which)
        run.barriers.arrive(members, which, wanted, aligned=aligned, waits=waits)
        run.threads.move(group.members, run.code.rank[place + 1])
        if waits:
            run.threads.wait(members, run.code.rank[place + 1])
        run.release()
        return PARTED

    return step


def _ahead(run: Run, group: Group, place: int) -> bool:
    """Whether other threads of the warps of a group are on their way to a place and not held up, or there: turns out of
    order bring a warp here in parts. An aligned barrier is one of whole warps, which arrive together."""
    own: NDArray[np.int32] = run.threads.at[group.rows]
    return bool((own[~np.asarray(group.lanes)] <= run.code.rank[place]).any())


def _named_arrivals(numbers: NDArray[Any], threads: NDArray[Any] | None, waits: bool) -> tuple[BarrierFacts, ...]:
    """What the time of arrivals depends on: the barriers [row], and for how many threads [row] they wait."""
    counts = [None] * len(numbers) if threads is None else [max(int(each) // WARP_SIZE, 1) for each in threads]
    return tuple(BarrierFacts(number, count, waits) for number, count in zip(numbers.tolist(), counts, strict=True))


def cluster_barrier(item: Operation) -> Step:
    """barrier.cluster.arrive, and wait, at which threads wait for all of their cluster. PTX ISA 9.0, 9.7.13.3."""
    instruction = item.instruction
    waits, orders = "wait" in instruction.form.qualifiers, "relaxed" not in instruction.form.qualifiers

    def step(run: Run, group: Group, place: int) -> int:
        lanes = taken(run, group, instruction.guard)
        if not lanes.any():
            return place + 1
        members, cluster = whole(group, lanes, len(run.threads.exists)), run.cluster
        if run.note is not None and cluster.passed is None:
            cluster.passed = partial(_passed, run)
        if waits:
            cluster.place[group.rows] = place
        wrong = members & (cluster.since < 0) if waits else run.arrive_at_clusters(members, orders=orders)
        if run.note is not None and not waits:
            run.note(place, group.rows, group.lanes, Outcome(facts=_arrivals(run, group.rows, members)))
        if wrong.any():
            row = int(wrong.any(axis=1).argmax())
            reason, legal = (
                ("barrier.cluster.wait by threads that have not arrived", "barrier.cluster.arrive before it")
                if waits
                else (
                    "barrier.cluster.arrive by threads that have arrived already",
                    "barrier.cluster.wait between them",
                )
            )
            raise run.error(item, reason, legal, row=row, rule="barrier-use")
        cluster.complete(run.threads.live)
        run.threads.move(group.members, run.code.rank[place + 1])
        if waits:
            waiting = members & ~run.pass_clusters(members)
            cluster.waiting |= waiting
            run.threads.wait(waiting, run.code.rank[place + 1])
        run.release()
        return PARTED

    return step


def _arrivals(run: Run, rows: Warps, members: Lanes) -> tuple[Fact, ...]:
    """What warps do of which some threads, bool [row, lane], arrive at the barriers of their clusters."""
    found: list[Fact] = []
    for row in rows.tolist():
        since = run.cluster.since[row][members[row]]
        found.append(ArriveFacts(_barrier(run, row, int(since.max())), 1) if since.size else Idle())
    return tuple(found)


def _passed(run: Run, row: int, lanes: Lanes, phase: int) -> None:
    """Notes the wait of threads of a row, bool [lane], at the barrier of their cluster, when it is over: others of the
    row may have gone on meanwhile."""
    assert run.note is not None
    facts = (WaitFacts(_barrier(run, row, phase), 0),)
    run.note(int(run.cluster.place[row]), np.array([row], np.intp), lanes[None], Outcome(facts=facts))


def _barrier(run: Run, row: int, phase: int) -> Barrier:
    """The barrier of a row's cluster in a phase."""
    first = row // run.cluster.each * run.cluster.each // run.state.warps
    return meeting(int(run.state.batch.ctas[first]), phase)
