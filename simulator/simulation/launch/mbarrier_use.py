"""How the threads of a launch use mbarriers: waits that do not wait, bytes that are announced and copied.

PTX ISA 9.0, 9.7.13.15 (mbarrier). A phase that is complete stays so for who waits for it again: such a wait, or one for
the phase before the first, goes on at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from isa.forms.record import Form
from simulator.execute.cta_state import Outcome
from simulator.execute.dynamic_info import (
    ArriveFacts,
    Barrier,
    CopyArriveFacts,
    ExpectFacts,
    Fact,
    InitFacts,
    WaitFacts,
)
from simulator.execute.launch_state import LaunchState
from simulator.program.kernel import Kernel, Operation
from simulator.simulation.launch import byte_names
from simulator.simulation.launch.barrier_use import Actor, BarrierUse, Misuse, Misuses
from simulator.state.mbarrier import Mbarrier
from simulator.state.registers import WARP_SIZE, Lanes, Warps

REUSED, BYTES = "mbarrier-phase-reused", "expect-tx-mismatch"
NEVER = -2  # in place of the last phase that a thread has seen


def is_followed(form: Form) -> bool:
    """Whether an instruction has to do with mbarriers, or with copies that complete on them."""
    return form.opcode.startswith(("mbarrier.", "cp.", "st.async", "red.async"))


@dataclass
class _Phase:
    """The bytes of a phase, by place: announced, and of the copies that complete on it; and who was there first."""

    expected: Counter[int] = field(default_factory=Counter)
    copied: Counter[int] = field(default_factory=Counter)
    actors: dict[int, Actor] = field(default_factory=dict)


@dataclass
class _Record:
    """An mbarrier in one life: its phases that are not judged yet, and the last phase that threads have seen, int64
    [lane] by row."""

    barrier: Mbarrier
    phases: dict[int, _Phase] = field(default_factory=dict)
    seen: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    unsure: bool = False


@dataclass(frozen=True)
class Idle:
    """A wait that went on at once: its place, who, for which phase, whether this thread had seen it."""

    actor: Actor
    phase: int
    again: bool

    def words(self, kernel: Kernel) -> str:
        """What it did, in words."""
        asks = f"the wait at line {kernel.items[self.actor.place].line} does not wait: it asks for"
        if self.again:
            return f"{asks} phase {self.phase}, which its thread has seen before"
        return f"{asks} the phase before the first, which counts as complete"


@dataclass
class Waits:
    """What outlives a batch: by the place of a copy, the waits for its mbarriers that went on at once."""

    idle: dict[int, Idle] = field(default_factory=dict)


class MbarrierUse:
    """Follows the mbarriers of the CTAs of a batch."""

    def __init__(self, kernel: Kernel, state: LaunchState, misuses: Misuses, waits: Waits) -> None:
        self.kernel, self.state, self.misuses, self.waits = kernel, state, misuses, waits
        self._records: dict[Barrier, _Record] = {}
        self._copies: dict[Barrier, set[int]] = {}  # places of the copies that complete on an mbarrier
        self._idle: dict[Barrier, Idle] = {}
        self._pending: dict[int, set[int]] = {}  # by row, places of cp.async since the last arrival for them
        self._heard = 0  # the number of the last copy that was counted
        self._holders = {holder.number: holder for holder in state.holders}

    def executed(self, item: Operation, rows: Warps, lanes: Lanes, outcome: Outcome) -> None:
        """Threads, bool [one of `rows`, lane], have executed an instruction of those that `is_followed` names."""
        opcode = item.instruction.form.opcode
        if not opcode.startswith("mbarrier."):
            self._handed_over(item)
        if opcode.startswith(("cp.async.ca", "cp.async.cg")):
            for row in rows[lanes.any(axis=1)].tolist():
                self._pending.setdefault(row, set()).add(item.index)
        for index, (row, fact) in enumerate(zip(rows.tolist(), outcome.facts or (), strict=False)):
            if lanes[index].any():
                self._one(item, row, lanes[index], fact)

    def _one(self, item: Operation, row: int, lanes: NDArray[np.bool_], fact: Fact | None) -> None:
        match fact:
            case InitFacts(barrier=key):
                self._records.pop(key, None)
                self._record(key)
            case ArriveFacts(barrier=key, expect=expect) if expect:
                self._counted(key, self._actor(item.index, row, lanes), expect, announced=True)
            case ExpectFacts(barrier=key, count=count):
                self._counted(key, self._actor(item.index, row, lanes), abs(count), announced=count > 0)
            case CopyArriveFacts(barrier=key):
                self._copied(key, self._pending.pop(row, set()))
            case WaitFacts(barrier=key, parity=parity):
                self._waited(key, item, row, lanes, parity)
            case None if "init" not in item.instruction.form.opcode:  # they do different things, expect_tx among them
                for record in self._records.values():
                    record.unsure = True
            case _:
                pass

    def _handed_over(self, item: Operation) -> None:
        """Counts the bytes of the copies that an instruction has begun, for their mbarriers."""
        signals = self.state.completion.signals if self.state.completion is not None else {}
        begun = [(key, op) for key, ops in signals.items() for op in ops if op.number > self._heard]
        for key, op in begun:
            self._heard = max(self._heard, op.number)
            if op.signal is not None and op.signal.bytes and op.place == item.index:
                lane = np.arange(WARP_SIZE) == op.lanes[0]
                phase = op.ended if op.done.all() else None
                actor = self._actor(op.place, int(op.rows[0, 0]), lane)
                self._counted(key, actor, op.signal.bytes, announced=False, number=phase)

    def _record(self, key: Barrier) -> _Record | None:
        """What is known of an mbarrier; None if there is none now."""
        barrier = self._holders[key[0]].mbarriers.live.get(key[1]) if key[0] in self._holders else None
        if barrier is None:
            return None
        if key not in self._records or self._records[key].barrier is not barrier:
            self._records[key] = _Record(barrier)
        return self._records[key]

    # Bytes

    def _counted(self, key: Barrier, actor: Actor, size: int, *, announced: bool, number: int | None = None) -> None:
        """Counts bytes that a thread announces, or copies, in a phase (None: the present one)."""
        record = self._record(key)
        if record is None:
            return
        barrier = record.barrier
        if announced and barrier.pending == barrier.expected and not barrier.transactions and barrier.phase:
            record.unsure = True  # the phase that it belongs to may be over
        phase = record.phases.setdefault(barrier.phase if number is None else number, _Phase())
        (phase.expected if announced else phase.copied)[actor.place] += size
        phase.actors.setdefault(actor.place, actor)
        if not announced:
            self._copied(key, {actor.place})
        self._judge(key, record, barrier.phase)

    def _copied(self, key: Barrier, places: set[int]) -> None:
        self._copies.setdefault(key, set()).update(places)
        if key in self._idle:
            for place in places:
                self.waits.idle.setdefault(place, self._idle[key])

    def ends(self, *, stuck: bool) -> None:
        """The run ends; `stuck`: with threads that wait for ever."""
        for key, record in self._records.items():
            barrier = record.barrier
            self._judge(key, record, barrier.phase)
            phase = record.phases.get(barrier.phase)
            if stuck and phase is not None and phase.copied and barrier.transactions and not barrier.pending:
                self._tell(key, phase, f"phase {barrier.phase} of {self._name(key)} does not end")

    def _judge(self, key: Barrier, record: _Record, now: int) -> None:
        """Judges the phases of an mbarrier that are over."""
        for number in [each for each in record.phases if each < now]:
            phase = record.phases.pop(number)
            expected, copied = phase.expected.total(), phase.copied.total()
            if record.unsure or copied <= expected:
                continue
            self._tell(key, phase, f"phase {number} of {self._name(key)} ends before all bytes have come")

    def _tell(self, key: Barrier, phase: _Phase, what: str) -> None:
        """Tells of bytes announced that are not those of the copies."""
        copies = list(phase.copied)
        who = phase.actors[next(iter(phase.expected), copies[0])]
        other = phase.actors[copies[-1]] if phase.expected else None
        where, also = self._name(key), (*list(phase.expected)[1:], *copies)
        self.misuses.add(Misuse(BYTES, who, f"{what}: {self._words(phase)}", other, "copies", where, also))

    def _name(self, key: Barrier) -> str:
        return byte_names.mbarrier(self.kernel, key[1])

    def _words(self, phase: _Phase) -> str:
        told = [f"line {self.kernel.items[at].line} announces {size} bytes" for at, size in phase.expected.items()]
        told += [f"the copies of line {self.kernel.items[at].line} bring {size}" for at, size in phase.copied.items()]
        if not phase.expected:
            told.insert(0, "nobody announces bytes")
        if not phase.copied:
            told.append("no copy brings any")
        return ", ".join(told)

    def bytes_of(self, key: Barrier) -> tuple[str, tuple[int, ...]]:
        """What was announced and copied in the present phase of an mbarrier, in words, and the places; "" for
        nothing."""
        record = self._records.get(key)
        phase = record.phases.get(record.barrier.phase) if record is not None else None
        if phase is None or phase.expected.total() == phase.copied.total():
            return "", ()
        return self._words(phase), (*phase.expected, *phase.copied)

    # Waits

    def _waited(self, key: Barrier, item: Operation, row: int, lanes: NDArray[np.bool_], parity: int) -> None:
        record = self._record(key)
        if record is None:
            return
        phase = record.barrier.awaited(parity)
        seen = record.seen.setdefault(row, np.full(WARP_SIZE, NEVER, np.int64))
        again = int(seen[lanes].max()) >= phase
        if again or phase < 0:
            actor = self._actor(item.index, row, lanes)
            idle = Idle(actor, phase, again and phase >= 0)
            if key not in self._idle or idle.again:
                self._idle[key] = idle
            for place in self._copies.get(key, ()):
                self.waits.idle.setdefault(place, idle)
            if idle.again:
                what = f"waits for phase {phase} of {self._name(key)}, which its thread has seen before"
                self.misuses.add(Misuse(REUSED, actor, what, None, "", self._name(key)))
        seen[lanes] = np.maximum(seen[lanes], phase)

    def unseen(self, key: Barrier, rows: Warps) -> int:
        """The last phase of an mbarrier that is complete, and that no thread of some warps has waited for; -1: none."""
        record = self._records.get(key)
        if record is None or not record.barrier.phase:
            return -1
        last = record.barrier.phase - 1
        seen = [int(record.seen[row].max()) for row in rows.tolist() if row in record.seen]
        return last if max(seen, default=NEVER) < last else -1

    def idle_of(self, keys: Iterator[Barrier]) -> list[Idle]:
        """The waits that went on at once, of those mbarriers on which copies complete."""
        return [self._idle[key] for key in keys if key in self._idle and self._copies.get(key)]

    def _actor(self, place: int, row: int, lanes: NDArray[np.bool_]) -> Actor:
        cta, warp = divmod(row, self.state.warps)
        lane = "" if lanes.all() else f"lane {int(lanes.argmax())}"
        return Actor(int(self.state.batch.ctas[cta]), warp, lane, place)


@dataclass(frozen=True)
class Uses:
    """Who follows the barriers of a batch: `Run` tells them what threads do.

    Attributes:
        barriers: those of CTAs.
        mbarriers: those in shared memory.
        last_write: gives the place of the last write of bytes, of their space, their address as a warp names it, and
            its row; None: there was none. None where nobody knows.
    """

    barriers: BarrierUse
    mbarriers: MbarrierUse
    last_write: Callable[[str, int, int], int | None] | None = None

    def ends(self, *, stuck: bool) -> None:
        """The run ends; `stuck`: with threads that wait for ever."""
        self.barriers.ends()
        self.mbarriers.ends(stuck=stuck)
