"""The events that execution tells to listeners, such as race detectors, order checkers and fault campaigns.

An executor tells each listener that wants it which memory an instruction touched, cell by cell and in which role, and
every undefined case that it meets. `simulator.simulation.observer` adds what the interpreter tells. Without
listeners, events take no time.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.ptx.instruction import Instruction
from simulator.state.tensor_memory import Allocation


class Region(NamedTuple):
    """Cells of a memory that an instruction read or wrote.

    Attributes:
        space: "shared" (bytes), "tmem" (lane * 512 + column) or "mbarrier" (offset of the object).
        cta: the CTA whose memory it is.
        cells: int64, any shape; the first axis is that of the event's threads where each warp has cells of its own.
        role: which operand they are: "A", "B", "D", "metadata", "scale factors of A", "scale factors of B"; "bytes" or
            "cells" of an instruction that only moves them; empty for an mbarrier.
        warp: in a launch, the warp of the batch whose region it is, of an instruction that several execute; -1: of all.
    """

    space: str
    cta: int
    cells: NDArray[np.int64]
    role: str = ""
    warp: int = -1


class Event(NamedTuple):
    """One execution of an instruction that accesses memory or orders accesses.

    Attributes:
        kind: the opcode.
        instruction: the instruction that was executed.
        cta: the CTA of the threads.
        threads: (warp, mask of its lanes) that executed it.
        line: its line in the trace.
        reads, writes: memory touched; registers are in `instruction`.
    """

    kind: str
    instruction: Instruction
    cta: int
    threads: tuple[tuple[int, int], ...]
    line: int
    reads: tuple[Region, ...] = ()
    writes: tuple[Region, ...] = ()


def mask_of(lanes: NDArray[np.bool_]) -> int:
    """The threads of a warp, bool [lane], as a mask: bit i for lane i."""
    return int.from_bytes(np.packbits(lanes, bitorder="little").tobytes(), "little")


class Listener:
    """Is told what executors do. Every method does nothing; a subclass overrides those that it needs.

    Attributes:
        wants_accesses: whether `accessed` is to be called. Regions take long to work out, so they are worked out only
            if some listener wants them.
    """

    wants_accesses: ClassVar[bool] = False

    def accessed(self, event: Event) -> None:
        """Called for each executed instruction that accesses memory or orders accesses, in the order of execution; for
        a barrier of a CTA when its warps leave it."""

    def at_barrier(self, line: int, warp: int, phase: Hashable, *, leaves: bool) -> None:
        """Called when a warp of a launch arrives at a barrier of its CTA or cluster, and when it leaves (of a launch
        alone, where `accessed` tells of neither).

        Args:
            warp: among those of the batch.
            phase: which use of which barrier it is, the same for all of its warps.
        """

    def columns_allocated(self, cta: int, line: int, allocation: Allocation) -> None:
        """Called when a tcgen05.alloc has got its columns, which may be long after it began to wait for them."""

    def columns_freed(self, cta: int, line: int, allocation: Allocation) -> None:
        """Called when a tcgen05.dealloc has given columns back."""

    def undefined(self, cta: int, line: int, name: str, count: int, where: str, *, rule: str) -> None:
        """Called when an undefined case has occurred.

        Args:
            cta, line: where it occurred.
            name: the name of the case, see `isa.undefined.RULES`.
            count: how often it occurred.
            where: the circumstances in words, possibly empty.
            rule: by which a check names it: the name of the case, or what is narrower and weighs less.
        """
