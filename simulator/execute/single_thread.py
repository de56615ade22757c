"""What single threads ask the copy engine for: bulk copies and copies of boxes of tensors.

A copy is done at once, or handed over to `simulator.execute.completion`, which says when it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.forms.record import Form
from simulator.execute.asynchronous import BULK, SIGNAL, Effect, Signal
from simulator.execute.cta_state import CtaState
from simulator.execute.dynamic_info import BulkFacts, Fact, Idle
from simulator.state.columns import LaunchShared
from simulator.state.global_memory import LINE_BYTES
from simulator.state.mbarrier import joined
from simulator.state.registers import WARP_SIZE, Lanes, Warps
from simulator.state.shared import AddressError
from simulator.state.windows import SHARED, WINDOW_BYTES

Array = NDArray[Any]


class Thread(NamedTuple):
    """One thread that executes an instruction.

    Attributes:
        row: its warp among those of the batch.
        lane: its place in the warp.
        values: what each operand gives it.
    """

    row: int
    lane: int
    values: tuple[int, ...]


Reader = Callable[[CtaState, Warps], Array]  # [warp, lane] or [warp, register, lane]


def threads_of(
    machine: CtaState, warps: Warps, what: str, readers: list[Reader], *, repeats: bool = False
) -> Iterator[Thread]:
    """The threads that execute an instruction, at most one of a warp, each with the values of all operands. If doing it
    again changes nothing (`repeats`), threads with the same operands count as one, as CUTLASS's epilogues rely on."""
    lanes = machine.threads(warps)
    given = [read(machine, warps) for read in readers]
    several = lanes.sum(axis=1) > 1
    if repeats:
        several &= ~_alike(lanes, given)
    if several.any():
        row = int(several.argmax())
        reason = f"{what} by {int(lanes[row].sum())} threads of warp {int(warps[row])}: each would copy"
        raise AddressError(reason, f"one thread: @%p0 {what}, as elect.sync chooses it", rule="aligned-threads")
    for row in np.flatnonzero(lanes.any(axis=1)).tolist():
        lane = int(lanes[row].argmax())
        values = [np.atleast_1d(value[row, ..., lane]).tolist() for value in given]
        yield Thread(int(warps[row]), lane, tuple(number for numbers in values for number in numbers))


def by_warp(warps: Warps, facts: Mapping[int, Fact]) -> tuple[Fact, ...]:
    """The fact of each warp, given by its row; those without one are idle."""
    return tuple(facts.get(row, Idle()) for row in warps.tolist())


def _alike(lanes: Lanes, given: list[Array]) -> NDArray[np.bool_]:
    """bool [warp]: whether those threads of a warp, `lanes` [warp, lane], have the same operands [warp, ..., lane]."""
    values = np.concatenate([value.reshape(len(lanes), -1, WARP_SIZE).astype(np.int64) for value in given], axis=1)
    first = np.take_along_axis(values, lanes.argmax(axis=1)[:, None, None], axis=2)
    alike: NDArray[np.bool_] = ((values == first) | ~lanes[:, None]).all(axis=(1, 2))
    return alike


def together(facts: Sequence[Fact]) -> Fact:
    """What a copy to several CTAs does, of the facts of its copies to each."""
    bulk = [fact for fact in facts if isinstance(fact, BulkFacts)]
    if len(bulk) < 2:
        return facts[-1] if facts else Idle()
    return replace(bulk[0], others=tuple(fact.barrier for fact in bulk[1:]))


def in_window(address: int) -> int:
    """An address in shared memory, of a generic one or of one in its window."""
    return address - SHARED if SHARED <= address < SHARED + WINDOW_BYTES else address


class Arrival(NamedTuple):
    """Bytes that complete on an mbarrier, at an address as the thread names it.

    Attributes:
        first: where they begin in global memory.
        lines: of a box of a tensor, the lines that its rows touch; 0: they are in one piece.
    """

    barrier: int
    bytes: int
    first: int = 0
    lines: int = 0


class Move(NamedTuple):
    """What a copy of one thread does: it reads its bytes, and writes them.

    Attributes:
        reads, writes: int64 [access]: addresses in shared memory, and how many bytes each access has.
        commutes: whether others may write the same bytes meanwhile.
    """

    fetch: Callable[[], Any]
    store: Callable[[Any], None]
    reads: tuple[NDArray[np.int64], int] | None = None
    writes: tuple[NDArray[np.int64], int] | None = None
    commutes: bool = False


def hand_over(machine: CtaState, form: Form, thread: Thread, what: Move, arrival: Arrival | None = None) -> Fact:
    """Does a copy, at once or when the state's completion says so; returns the fact of its mbarrier."""
    completion = machine.completion
    if completion is None:
        what.store(what.fetch())
        return Idle() if arrival is None else arrived(machine, thread.row, *arrival)

    def store(_: NDArray[np.bool_], data: Any) -> None:
        what.store(data)
        if arrival is not None:
            arrived(machine, thread.row, *arrival)

    def places(accesses: tuple[NDArray[np.int64], int] | None) -> NDArray[np.int64] | None:
        if accesses is None or not accesses[0].size:
            return None
        if isinstance(machine.shared, LaunchShared):
            machine.shared.check(accesses[0].reshape(1, -1), accesses[1], row)
        found = machine.places(row, accesses[0].reshape(1, -1))[..., None] + np.arange(accesses[1])
        return found.reshape(1, -1)

    row, signal = np.array([thread.row], np.intp), None
    if arrival is not None:
        holder, offset = machine.holder(arrival.barrier, thread.row)
        signal = Signal((holder.number, offset), holder.mbarriers.at(offset), arrival.bytes)
    effect = Effect(lambda _: what.fetch(), store, places(what.reads), places(what.writes))
    kind, lane = BULK if signal is None else SIGNAL, np.array([thread.lane], np.intp)
    completion.begin(kind, form.name, effect, row[:, None], lane, signal, commutes=what.commutes)
    return Idle()


def arrived(machine: CtaState, row: int, barrier: int, size: int, first: int = 0, box_lines: int = 0) -> Fact:
    """Counts the bytes that a warp has asked for, from this address on, on an mbarrier; returns the fact."""
    holder, offset = machine.holder(barrier, row)
    phase = holder.mbarriers.at(offset)
    phase.released = joined(phase.released, machine.release(row))  # seen by whoever sees the phase complete
    holder.mbarriers.complete(offset, size)
    if box_lines:
        return BulkFacts((holder.number, offset), size, box_lines, True)
    lines = -(-(first % LINE_BYTES + size) // LINE_BYTES) if size else 0
    return BulkFacts((holder.number, offset), size, lines)
