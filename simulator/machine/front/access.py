"""An access to shared memory that has issued, and what the parts of a sub-core ask of it."""

from __future__ import annotations

import cython

from simulator.machine.front.program import Instruction
from simulator.machine.front.warp import Warp


@cython.freelist(64)
@cython.no_gc
@cython.final
@cython.cclass
class Access:
    """An access to shared memory that has issued.

    Attributes:
        warp, pc, instruction: whose, and which.
        arrives: when it comes to the port; `next`: when that reads its next register; `left`: how many of `sent` are
            to be read; `banks`: bit j, if the jth of these is odd.
        begin, until: when its first register is read, and when the port is free behind its last.
        soonest: when its first wavefront can come.
        read: when its registers can be overwritten.
        ready: what stands for the cycle in which its values are there, as that is not known.
        values: how many values it sends, if it is a store.
        count: its wavefronts.
        behind: when it may begin because of an access to global memory before it.
        passed: accesses that have begun before it while there was no room for its registers.
        issue: what an observer is told of it.
        following: the one behind it in the queue of the SM.
    """

    warp: Warp
    pc: cython.int
    instruction: Instruction
    arrives: cython.longlong
    next: cython.longlong
    left: cython.int
    sent: cython.int
    banks: cython.longlong
    begin: cython.longlong
    until: cython.longlong
    soonest: cython.longlong
    read: cython.longlong
    ready: cython.longlong
    values: cython.longlong
    count: cython.longlong
    behind: cython.longlong
    passed: cython.longlong
    issue: object
    following: Access

    @cython.cfunc
    def read_later(self, cycles: cython.longlong) -> cython.void:
        """Lets its warp know that its registers are read so many cycles later."""
        self.warp.read_later(self.instruction, self.read, cycles)
        self.read += cycles


@cython.final
@cython.cclass
class AccessQueue:
    """Accesses that the SM has taken and that have not begun.

    Attributes:
        first, last: of a chain of them; `count`: how many.
        token: of the question which of them are their warps' first.
    """

    first: Access
    last: Access
    count: cython.int
    token: cython.longlong

    def __init__(self) -> None:
        self.first, self.last, self.count, self.token = None, None, 0, 0

    @cython.cfunc
    def append(self, access: Access) -> cython.void:
        """Puts an access behind all others."""
        if self.first is None:
            self.first = access
        else:
            self.last.following = access
        self.last = access
        self.count += 1

    @cython.cfunc
    def remove(self, access: Access, before: Access | None) -> cython.void:
        """Takes an access out that stands behind this one, or first."""
        if before is None:
            self.first = access.following
        else:
            before.following = access.following
        if access.following is None:
            self.last = before
        access.following = None
        self.count -= 1

    @cython.cfunc
    def ask(self) -> cython.void:
        """Begins to ask of each access, the first first, whether it is a head."""
        self.token += 1

    @cython.cfunc
    def is_head(self, access: Access, place: cython.int, reach: cython.int) -> cython.bint:
        """Whether an access waits for nothing but wavefronts: it is its warp's first in the queue (as asked from the
        first place on), and a store or at the first `reach` places."""
        if access.warp.seen == self.token:
            return False
        access.warp.seen = self.token
        return place < reach or access.instruction.slow

    @cython.cfunc
    def wavefronts(self) -> cython.longlong:
        """Those of all accesses in it."""
        found: cython.longlong = 0
        access: Access = self.first
        while access is not None:
            found += access.count
            access = access.following
        return found


@cython.final
@cython.cclass
class Clock:
    """The cycle that an SM has come to, and the last in which a result is there."""

    now = cython.declare(cython.longlong, visibility="readonly")
    end = cython.declare(cython.longlong, visibility="readonly")

    def __init__(self) -> None:
        self.now = self.end = 0

    @cython.ccall
    def lasts(self, cycle: cython.longlong) -> cython.void:
        """Notes that a result is there in this cycle."""
        self.end = max(self.end, cycle)


@cython.cclass
class Clocked:
    """What the parts of a sub-core ask of it: when it looks at its warps next, and to come to a cycle."""

    clock: Clock
    tick: cython.longlong
    last_issue: cython.longlong
    issues: cython.longlong
    width: cython.longlong

    @cython.cfunc
    def settle(self, cycle: cython.longlong) -> cython.void:
        """Lets overhead instructions issue that come before this cycle, and registers be read."""

    @cython.cfunc
    def open_from(self) -> cython.longlong:
        """The first cycle in which an issue slot is empty."""
        return self.last_issue + (self.issues >= self.width or self.last_issue > self.clock.now)

    @cython.ccall
    def wake(self, cycle: cython.longlong) -> cython.void:
        """Plans to look at the warps in `cycle`, unless that is planned for an earlier cycle already."""
        cycle = max(cycle, self.clock.now, self.open_from())
        self.tick = min(self.tick, cycle)
