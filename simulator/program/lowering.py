"""A program as a flat list of operations and loop ends, the form that both the interpreter and the timing engine
run."""

from __future__ import annotations

from collections.abc import Collection, Iterator
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
        barrier: (number, warps waited for or None for all) of a barrier.
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
        warps: who runs it.
        items: operations and loop ends.
        loops: number of loops in it.
        cta: whose warps they are.
    """

    warps: tuple[int, ...]
    items: tuple[Item, ...]
    loops: int = field(default=0)
    cta: int = 0

    @property
    def operations(self) -> list[Operation]:
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
    """The end of a loop in a flat list: of `LoopEnd`, and of what the timing engine makes of it."""

    @property
    def start(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def loop(self) -> int: ...


def after_loop_end(end: Loop, place: int, counts: list[int]) -> int:
    """Where a warp goes that has come to the end of a loop.

    Args:
        place: of the loop's end in the flat list.
        counts: runs of each loop that the warp has done since it entered it, which are brought up to date.
    """
    counts[end.loop] += 1
    if counts[end.loop] < end.count:
        return end.start
    counts[end.loop] = 0
    return place + 1


def in_order(code: Code, once: Collection[int] = ()) -> Iterator[Operation]:
    """The operations of a code as each of its warps executes them; the bodies of the loops `once` a single time."""
    counts, place, items = [0] * code.loops, 0, code.items
    while place < len(items):
        item = items[place]
        if isinstance(item, Operation):
            yield item
            place += 1
        elif item.loop in once:
            place += 1
        else:
            place = after_loop_end(item, place, counts)
