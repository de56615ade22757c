"""What executors tell whoever follows the memory order of a launch: which thread accesses which bytes, and what orders
threads. `simulator.check.memory_model` follows it; in other runs nobody does, and nothing is told."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from simulator.execute.asynchronous import Key, Mask, Pending
from simulator.state.registers import Lanes, Warps
from simulator.state.shared import Addresses


class MemoryOrder(Protocol):
    """Who follows accesses and their order. Warps are numbered among those of the batch; `lanes` are bool [warp, lane].
    The instruction is the one at the state's `line`."""

    def reads(
        self, space: str, where: Addresses, size: int, warps: Warps, lanes: Lanes, *, whole: bool = False
    ) -> None:
        """Called before threads read `size` bytes at addresses [warp, lane] of a space: "shared", "global", or
        "local", whose threads nobody else reaches.

        Args:
            whole: whether the warp reads together what the lanes name (ldmatrix).
        """

    def writes(self, space: str, where: Addresses, data: NDArray[np.uint8], warps: Warps, lanes: Lanes) -> None:
        """Called before threads write bytes uint8 [warp, lane, byte]."""

    def updates(self, space: str, where: Addresses, size: int, warps: Warps, lanes: Lanes) -> None:
        """Called before threads execute an atomic operation."""

    def defined(self, where: Addresses, size: int, warps: Warps) -> None:
        """Called when the hardware itself has written bytes of shared memory, at addresses [warp, access]."""

    def lands(self, where: Addresses, size: int, warps: Warps, lanes: Lanes) -> Lanes:
        """Which of the threads write within shared memory, of those that begin a copy to it; notes the others."""

    def moves(
        self, space: str, where: Addresses, size: int, warp: int, lane: int, *, data: NDArray[np.uint8] | None = None
    ) -> None:
        """Called before one thread reads pieces of `size` bytes at addresses [access] of global memory, or writes
        `data` uint8 [access, byte] to global or shared memory, in one instruction."""

    def warps_met(self, warps: Warps, lanes: Lanes, masks: NDArray[np.uint32] | None) -> None:
        """Called when threads of each warp have executed an instruction together: those with the same mask, uint32
        [warp, lane]; None: all of `lanes`."""

    def fenced(self, warps: Warps, lanes: Lanes) -> None:
        """Called when threads execute a fence."""

    def arrives(self, key: object, warps: Warps, lanes: Lanes, *, orders: bool = True) -> None:
        """Called when threads of one cluster arrive at a barrier; `orders`: not with .relaxed."""

    def leaves(self, key: object, warps: Warps, lanes: Lanes, *, last: bool = True) -> None:
        """Called when threads of one cluster leave a barrier at which all of its threads have arrived.

        Args:
            last: whether no others will leave it.
        """

    def signals(self, key: Key, phase: int, warp: int, lanes: Iterable[int], *, orders: bool) -> None:
        """Called when threads of a warp arrive at an mbarrier in a phase; `orders`: not with .relaxed."""

    def sees(self, key: Key, phase: int, warp: int, lanes: Iterable[int], *, orders: bool) -> None:
        """Called when threads of a warp have seen that a phase of an mbarrier is complete."""

    def uses_mbarrier(self, key: Key, warp: int, lanes: Iterable[int], *, begins: bool) -> None:
        """Called when threads of a warp use an mbarrier, or begin its life."""

    def begins(self, op: Pending) -> None:
        """Called when threads begin an asynchronous operation."""

    def waited(self, op: Pending, chosen: Mask) -> None:
        """Called when threads have waited for elements of an asynchronous operation, by their group."""

    def completed(self, op: Pending, chosen: Mask, key: Key, phase: int) -> None:
        """Called when a thread has seen elements of an asynchronous operation complete, by a phase of an mbarrier."""

    def products_committed(self, rows: Warps) -> None:
        """Called when warps close their group of products (wgmma)."""

    def products_waited(self, rows: Warps, left: int) -> None:
        """Called when warps wait for their products but those of the last `left` groups."""
