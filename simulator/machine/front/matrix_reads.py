"""Matrix instructions that read their registers, in cycles of their own behind issue.

A matrix instruction reads in the cycles of its class (`even`, `odd` of docs/configs.md), before all other instructions.
It waits in no read stage. Its metadata is read in the first cycle, behind all others; if the bank is taken then, in the
next and before all others. It begins a cycle later if an access to shared memory reads in the cycle in which it would.
"""

from __future__ import annotations

import cython

from simulator.machine.front.program import Words

FIRST_TWO = cython.declare(cython.longlong, 0b110)  # cycles of a matrix instruction in which no access reads
THIRD = cython.declare(cython.longlong, 0b1000)


@cython.no_gc
@cython.final
@cython.cclass
class MatrixRead:
    """A matrix instruction that reads its registers.

    Attributes:
        since: cycles since it entered the first stage; -1 in that cycle.
        even, odd: bit c, if it reads a register of that bank c cycles behind issue.
        late: bit c, if an instruction that writes a register is held up c cycles behind issue.
        cycles: bit c, if one of these is so.
        metadata: bit of the bank from which its metadata is still to be read.
        closed: bit c, if no access to shared memory can read c cycles behind issue.
        following: the one behind it.
    """

    since: cython.longlong
    even: cython.longlong
    odd: cython.longlong
    late: cython.longlong
    cycles: cython.longlong
    metadata: cython.longlong
    closed: cython.longlong
    following: MatrixRead

    def __init__(self) -> None:
        self.since, self.even, self.odd, self.late, self.metadata, self.closed = -1, 0, 0, 0, 0, 0
        self.cycles, self.following = 0, None

    @cython.cfunc
    @cython.inline
    def is_over(self) -> cython.bint:
        """Whether it has nothing left to read."""
        return self.since >= 0 and (self.since > 62 or self.cycles >> self.since <= 1)


@cython.final
@cython.cclass
class MatrixReads:
    """The matrix instructions of a sub-core that read, the oldest first.

    Attributes:
        first, last: of a chain of these; `spare`: of those that are over, to be used again.
    """

    first: MatrixRead
    last: MatrixRead
    spare: MatrixRead

    def __init__(self) -> None:
        self.first = self.last = self.spare = None

    @cython.cfunc
    def begin(
        self,
        even: cython.longlong,
        odd: cython.longlong,
        late: cython.longlong,
        metadata: cython.longlong,
        closed: cython.longlong,
    ) -> cython.void:
        """Lets another one read."""
        read: MatrixRead = self.spare
        if read is None:
            read = MatrixRead()
        self.spare, read.following = read.following, None
        read.since, read.even, read.odd, read.late, read.metadata, read.closed = -1, even, odd, late, metadata, closed
        read.cycles = even | odd | late
        if self.first is None:
            self.first = read
        else:
            self.last.following = read
        self.last = read

    @cython.cfunc
    def closed(self, begun: cython.longlong) -> cython.longlong:
        """Bit k, if no access may read in the kth cycle from now, for one that has read for `begun` cycles or will."""
        mask: cython.longlong = 0
        read: MatrixRead = self.first
        while read is not None:
            if read.since >= begun and not read.metadata:
                mask |= read.closed >> min(read.since + 1, 63)
            read = read.following
        return mask

    @cython.cfunc
    def metadata_waits(self) -> cython.bint:
        """Whether one has not got its metadata in its first stage."""
        read: MatrixRead = self.first
        while read is not None:
            if read.since >= 0 and read.metadata:
                return True
            read = read.following
        return False

    @cython.cfunc
    def move(self) -> cython.void:
        """Lets those that have just entered go on to the next stage."""
        read: MatrixRead = self.first
        while read is not None:
            read.since = max(read.since, 0)
            read = read.following

    @cython.cfunc
    def pass_time(self, cycles: cython.longlong) -> cython.void:
        """Lets so many cycles pass in which nothing gets into their way."""
        over: cython.bint = False
        read: MatrixRead = self.first
        while read is not None:
            read.since += cycles
            if read.is_over():
                over = True
            read = read.following
        if over:
            self.retire()

    @cython.cfunc
    def retire(self) -> cython.void:
        """Forgets those that have nothing left to read."""
        kept: MatrixRead = None
        read: MatrixRead = self.first
        following: MatrixRead
        while read is not None:
            following = read.following
            if not read.is_over():
                kept = read
            else:
                if kept is None:
                    self.first = following
                else:
                    kept.following = following
                if following is None:
                    self.last = kept
                read.following, self.spare = self.spare, read
            read = following

    @cython.cfunc
    def state(self, words: Words) -> cython.void:
        """All that decides what they read next."""
        read: MatrixRead = self.first
        while read is not None:
            words.add(read.since)
            words.add(read.even)
            words.add(read.odd)
            words.add(read.late)
            words.add(read.metadata)
            words.add(read.closed)
            read = read.following
        words.add(-2)
