"""An asynchronous operation that has been issued: what it does, what it signals, and how far it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from simulator.state.mbarrier import Mbarrier
from simulator.state.registers import Lanes, Warps
from simulator.state.watched import Places

Mask = NDArray[np.bool_]
Key = tuple[int, int]  # an mbarrier: its CTA, and its offset there
COPY, BULK, PRODUCT, SIGNAL = "cp.async", "bulk group", "wgmma", "mbarrier"
TENSOR, LOAD, STORE = "tcgen05", "tcgen05.ld", "tcgen05.st"
KINDS = (COPY, BULK, PRODUCT, SIGNAL, TENSOR, LOAD, STORE)
WAITS = {
    COPY: "cp.async.commit_group and cp.async.wait_group, or cp.async.mbarrier.arrive and a wait for its mbarrier",
    BULK: "cp.async.bulk.commit_group and cp.async.bulk.wait_group.read",
    PRODUCT: "wgmma.commit_group and wgmma.wait_group",
    SIGNAL: "a wait for its mbarrier (mbarrier.try_wait)",
    TENSOR: "tcgen05.commit and a wait for its mbarrier",
    LOAD: "tcgen05.wait::ld",
    STORE: "tcgen05.wait::st",
}


class TensorCells(NamedTuple):
    """Cells of Tensor Memory, lane * 512 + column, that an operation reads or writes in a CTA of this number."""

    cta: int
    cells: NDArray[np.int64]
    writes: bool


class Effect(NamedTuple):
    """What an operation does, for those of its elements that are chosen, bool [element].

    Attributes:
        fetch: reads its sources.
        store: writes its results, and signals.
        reads, writes: places in the shared memory of the batch [element, byte]; None: none.
    """

    fetch: Callable[[Mask], Any]
    store: Callable[[Mask, Any], None]
    reads: Places | None = None
    writes: Places | None = None


class Signal(NamedTuple):
    """What an operation does to an mbarrier when it is complete: bytes, or arrivals."""

    key: Key
    barrier: Mbarrier
    bytes: int
    arrivals: int = 0


@dataclass(eq=False)
class Pending:
    """An operation that nobody has waited for: of one thread, of many, or of warpgroups.

    Attributes:
        number: of the operation, from 1.
        place: of its instruction.
        kind: which wait it needs.
        rows, lanes: [element, warp], [element]: its threads; any of the warps may wait for it.
        groups: [element]: the group of its thread that it belongs to.
        due: when it completes by itself.
        done, waited, fetched: [element]: whether its values are there, somebody has waited for it, and its sources were
            read.
        ended: the phase of its mbarrier when it completed.
        cells: what it touches in Tensor Memory.
        covers: the operations that are complete when this arrival is; None: the copies of its threads.
        after: those that come before it by themselves, as pipelined pairs do.
        generic: whether it is an access of its threads and not one of the asynchronous proxy.
    """

    number: int
    place: int
    kind: str
    name: str
    effect: Effect
    rows: NDArray[np.intp]
    lanes: NDArray[np.intp]
    groups: NDArray[np.int64]
    signal: Signal | None
    due: float
    done: Mask
    waited: Mask
    fetched: Mask
    data: Any = None
    ended: int = 0
    cells: Sequence[TensorCells] = ()
    covers: Sequence[Pending] | None = None
    after: list[Pending] = field(default_factory=list)
    generic: bool = False


class Machine(Protocol):
    """What completions need of the state of a launch (`simulator.execute.launch_state`)."""

    line: int
    active: Lanes | None
    order: Any  # simulator.execute.memory_order.MemoryOrder, or None

    def note_undefined(self, name: str, count: int, where: str) -> None:
        """Notes an undefined case."""


class Log(Protocol):
    """Who follows what is written to shared memory."""

    def stored(self, places: Places, warps: Warps, place: int) -> None:
        """Called when warps store to places [warp, access, byte] by the instruction at a place."""

    def copied(self, places: Places, rows: Warps, place: int) -> None:
        """Called when copies of warps [element] begin, which write places [element, byte]."""


def replaced(old: NDArray[Any], new: NDArray[Any], rows: Warps) -> NDArray[Any]:
    """A column whose `rows` are new."""
    if old is new or len(rows) == len(new):
        return new
    mixed = old.copy()
    mixed[rows] = new[rows]
    return mixed
