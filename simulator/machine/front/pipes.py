"""The pipes of a sub-core. Each says whether it can take an instruction now, takes it, and says when it is free.

A pipe is a class of these methods, so that one more, or another kind, is a class here and its numbers in a config
(docs/extending.md). When the result of an instruction is there follows from its latency.
"""

from __future__ import annotations

from typing import Any

import cython

from simulator.machine.front.port import Port
from simulator.machine.front.program import ALU, FMA, NEVER, SHARED, TENSOR, UNITS, Instruction, Words, numbers
from simulator.machine.front.rules import Rules


@cython.cclass
class Pipe:
    """A pipe that takes an instruction every `interval` cycles of that instruction.

    Attributes:
        free: the cycle from which it takes its next instruction.
        busy: cycles for which it has been taken.
        follows_stages: whether its wait lasts longer where the read stages stand still, as compiled waits do.
    """

    free: cython.longlong
    busy: cython.longlong
    follows_stages: cython.bint

    def __init__(self, follows_stages: Any) -> None:
        self.free, self.busy, self.follows_stages = 0, 0, follows_stages

    @cython.cfunc
    def free_from(self, instruction: Instruction) -> cython.longlong:
        """The cycle from which it can take this instruction."""
        return self.free

    @cython.cfunc
    def take(self, instruction: Instruction, now: cython.longlong) -> cython.void:
        """Takes an instruction that issues now."""
        self.free = now + instruction.interval
        self.busy += instruction.interval

    @cython.cfunc
    def stand_still(self, cycle: cython.longlong) -> cython.void:
        """Lets a wait that is not over by this cycle last a cycle longer."""
        if self.follows_stages and self.free >= cycle:
            self.free += 1

    @cython.cfunc
    def state(self, words: Words, now: cython.longlong, oldest: cython.longlong) -> cython.void:
        """All that decides when it is free, relative to `now`. What was over by `oldest`, the earliest last issue of a
        warp, is no matter."""
        words.add(self.free - now if self.free > oldest else -NEVER)


@cython.final
@cython.cclass
class HalvedPipe(Pipe):
    """The pipe of products and float instructions, in two halves: some instructions can use either, and take the half
    that only they can use first.

    Attributes:
        half_free: the cycle from which that half takes its next instruction.
    """

    half_free: cython.longlong

    def __init__(self, follows_stages: Any) -> None:
        self.free, self.busy, self.follows_stages, self.half_free = 0, 0, follows_stages, 0

    @cython.cfunc
    def free_from(self, instruction: Instruction) -> cython.longlong:
        return min(self.free, self.half_free) if instruction.halves else self.free

    @cython.cfunc
    def take(self, instruction: Instruction, now: cython.longlong) -> cython.void:
        self.busy += instruction.interval
        if instruction.halves and self.half_free <= now:
            self.half_free = now + instruction.interval
        else:
            self.free = now + instruction.interval

    @cython.cfunc
    def stand_still(self, cycle: cython.longlong) -> cython.void:
        if self.free >= cycle:
            self.free += 1
        if self.half_free >= cycle:
            self.half_free += 1

    @cython.cfunc
    def state(self, words: Words, now: cython.longlong, oldest: cython.longlong) -> cython.void:
        words.add(self.free - now if self.free > oldest else -NEVER)
        words.add(max(self.half_free - now, 0))


@cython.final
@cython.cclass
class TensorPipes(Pipe):
    """The tensor pipes of a sub-core, as one pipe: an instruction goes to the one that is free first. Results leave a
    pipe in order, so that an instruction which would overtake the last one waits. The pipes may share ports to the
    register file, and always share the path of metadata.

    Attributes:
        count: how many there are; the first `count` of:
        frees, results: when each takes its next instruction, and `result_until` of its last one.
        ports_until, metadata_until: until which cycle the shared ports, and the path of metadata, are taken.
    """

    rules: Rules
    count: cython.int
    frees: cython.longlong[::1]
    results: cython.longlong[::1]
    ports_until: cython.longlong
    metadata_until: cython.longlong

    def __init__(self, rules: Rules) -> None:
        self.rules, self.count = rules, rules.tensor_pipes
        self.frees, self.results = numbers([0] * rules.tensor_pipes), numbers([0] * rules.tensor_pipes)
        self.free, self.busy, self.follows_stages = 0, 0, True
        self.ports_until = self.metadata_until = 0

    @cython.cfunc
    def first(self) -> cython.int:
        """The pipe that is free first; of equals that whose last result is there first."""
        found: cython.int = 0
        k: cython.int
        for k in range(1, self.count):
            if self.frees[k] < self.frees[found] or (
                self.frees[k] == self.frees[found] and self.results[k] < self.results[found]
            ):
                found = k
        return found

    @cython.cfunc
    def free_from(self, instruction: Instruction) -> cython.longlong:
        pipe: cython.int = self.first() if self.count > 1 else 0
        cycle: cython.longlong = self.frees[pipe] + max(self.results[pipe] - instruction.result_from, 0)
        cycle = max(cycle, self.ports_until)
        return max(cycle, self.metadata_until) if instruction.sparse else cycle

    @cython.cfunc
    def take(self, instruction: Instruction, now: cython.longlong) -> cython.void:
        pipe: cython.int = self.first() if self.count > 1 else 0
        self.frees[pipe], self.results[pipe] = now + instruction.interval, instruction.result_until
        self.ports_until = now + instruction.reading
        if instruction.sparse:
            self.metadata_until = now + self.rules.metadata_cycles
        self.busy += instruction.interval

    @cython.cfunc
    def stand_still(self, cycle: cython.longlong) -> cython.void:
        k: cython.int
        for k in range(self.count):
            if self.frees[k] + self.results[k] >= cycle:
                self.frees[k] += 1

    @cython.cfunc
    def state(self, words: Words, now: cython.longlong, oldest: cython.longlong) -> cython.void:
        k: cython.int
        for k in range(self.count):
            if self.frees[k] + self.results[k] > oldest:
                words.add(self.frees[k] - now)
                words.add(self.results[k])
            else:
                words.add(-NEVER)
        words.add(max(self.ports_until - now, 0))
        words.add(max(self.metadata_until - now, 0))


@cython.final
@cython.cclass
class PortPipe(Pipe):
    """The way of a sub-core to shared memory: free when its port has room for another access."""

    port: Port

    def __init__(self, port: Port) -> None:
        self.port, self.free, self.busy, self.follows_stages = port, 0, 0, False

    @cython.cfunc
    def free_from(self, instruction: Instruction) -> cython.longlong:
        return self.port.room_from

    @cython.cfunc
    def state(self, words: Words, now: cython.longlong, oldest: cython.longlong) -> cython.void:
        room: cython.longlong = self.port.room_from
        words.add(-1 if room >= NEVER else (room - now if room > oldest else -NEVER))


@cython.cfunc
def pipes_of(rules: Rules, port: Port) -> list:
    """The pipes of a sub-core, by unit."""
    pipes: list = [Pipe(False) for _ in range(UNITS)]
    pipes[TENSOR], pipes[ALU], pipes[FMA] = TensorPipes(rules), Pipe(True), HalvedPipe(True)
    pipes[SHARED] = PortPipe(port)
    return pipes
