"""Lowers a program from a tree to a flat list of operations and ends of loops.

Both the interpreter and the timing engine run this list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, MutableSequence
from dataclasses import dataclass, field
from typing import Protocol

from isa import Instruction
from simulator.execute.barrier import barrier_of
from simulator.program.blocks import Block, Node, Step
from simulator.state.registers import Numbering


@dataclass(frozen=True, slots=True)
class Operation:
    """One static instruction of a block.

    Attributes:
        index: its place in the flat list.
        reads, writes: register numbers, see `Numbering`, without duplicates; the guard is read too.
        barrier: (number, how many warps it waits for or None for all) of a barrier; None for any other instruction.
        executions: how often each warp executes it.
    """

    index: int
    instruction: Instruction
    line: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    barrier: tuple[int, int | None] | None
    executions: int


@dataclass(frozen=True, slots=True)
class LoopEnd:
    """The end of `.repeat count`: go on at `start` until the body has run `count` times.

    Attributes:
        depth: loops around this one.
        loop: number of the loop in its block.
    """

    index: int
    start: int
    count: int
    depth: int
    loop: int
    line: int


Item = Operation | LoopEnd


@dataclass(frozen=True)
class Code:
    """The flat program of one block.

    Attributes:
        warps: the warps that run it.
        items: operations and loop ends.
        loops: number of loops in it.
        cta: the CTA of these warps.
    """

    warps: tuple[int, ...]
    items: tuple[Item, ...]
    loops: int = field(default=0)
    cta: int = 0

    @property
    def operations(self) -> list[Operation]:
        """The items without the ends of loops."""
        return [item for item in self.items if isinstance(item, Operation)]


def linearise(block: Block, numbering: Numbering = Numbering()) -> Code:  # noqa: B008 - a constant
    """Flattens a block; `numbering` numbers the registers (by default for 255 of each sort)."""
    items: list[Item] = []
    loops = _flatten(block.body, items, 0, 1, 0, numbering)
    return Code(block.warps, tuple(items), loops, block.cta)


def _flatten(
    body: tuple[Node, ...], items: list[Item], depth: int, executions: int, loops: int, numbering: Numbering
) -> int:
    for node in body:
        if isinstance(node, Step):
            instruction = node.instruction
            guard = (instruction.guard.predicate.name,) if instruction.guard else ()
            reads, writes = numbering.numbers((*guard, *instruction.reads)), numbering.numbers(instruction.writes)
            items.append(
                Operation(len(items), instruction, node.line, reads, writes, barrier_of(instruction), executions)
            )
        else:
            start, loop = len(items), loops
            loops = _flatten(node.body, items, depth + 1, executions * node.count, loops + 1, numbering)
            items.append(LoopEnd(len(items), start, node.count, depth, loop, node.line))
    return loops


class Loop(Protocol):
    """What `LoopEnd` and the timing engine's own ends of loops have in common."""

    @property
    def start(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def loop(self) -> int: ...


def after_loop_end(end: Loop, place: int, counts: MutableSequence[int]) -> int:
    """The place in the flat list where a warp goes on that has come to the end of a loop.

    Args:
        place: that of the loop's end in the flat list.
        counts: for each loop, the runs that the warp has done since it entered it; brought up to date.
    """
    counts[end.loop] += 1
    if counts[end.loop] < end.count:
        return end.start
    counts[end.loop] = 0
    return place + 1


class Cursor:
    """Where a warp, or a group of warps in lock step, is in its code.

    Attributes:
        place: the place in the flat list of what comes next.
        counts: for each loop, the runs that are done since it was entered.
    """

    __slots__ = ("code", "counts", "place")

    def __init__(self, code: Code) -> None:
        self.code, self.place, self.counts = code, 0, [0] * code.loops

    def pass_ends(self, once: Collection[int] = ()) -> LoopEnd | None:
        """Moves on from the end of a loop, if one is next; returns it if its body is run again. The loops `once` are
        run a single time."""
        items = self.code.items
        while self.place < len(items) and isinstance(end := items[self.place], LoopEnd):
            if end.loop in once:
                self.place += 1
                continue
            self.place = after_loop_end(end, self.place, self.counts)
            if self.place == end.start:
                return end
        return None

    @property
    def operation(self) -> Operation | None:
        """The operation that is next; None at the end of the code."""
        item = self.code.items[self.place] if self.place < len(self.code.items) else None
        assert not isinstance(item, LoopEnd)
        return item


def in_order(code: Code) -> Iterator[Operation]:
    """The operations of a code in the order in which each of its warps executes them."""
    cursor = Cursor(code)
    while True:
        cursor.pass_ends()
        operation = cursor.operation
        if operation is None:
            return
        yield operation
        cursor.place += 1
