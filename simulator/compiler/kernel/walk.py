"""The path of a warp through machine code that was read from a file, from what the warp executed in the PTX.

A branch of machine code has the line of a branch of the PTX, and goes where that one went. The lines that only one of
its two sides can reach tell the sides apart. Where lanes diverge, the warp takes both sides, in the order of the PTX,
up to the point where they meet (BSYNC).

ptxas turns some branches of the PTX into predicates. A machine instruction under such a predicate has the execution of
its PTX instruction in this turn, or none where the branch skipped the PTX instruction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np

from simulator.compiler.kernel.machine import MachineCode, machine_code
from simulator.compiler.kernel.regions import Executed, Segment
from simulator.compiler.kernel.sass import Sass, sass_code
from simulator.program.kernel import Branch, Kernel
from simulator.program.kernel.flow import Block, blocks_of
from simulator.program.sass import Function

LONGEST = 64  # blocks of machine code for each executed item of the PTX, after which the search for a path ends


class LostError(Exception):
    """The path of a warp cannot be found."""


class Walker:
    """Finds the paths of warps.

    Args:
        sass: the machine code.
        kernel: the PTX.
    """

    def __init__(self, sass: Sass, kernel: Kernel) -> None:
        self.sass, self.items, self.rank = sass, kernel.items, kernel.rank
        items = kernel.items
        self.blocks = blocks_of(items)
        self.block_of = [number for number, block in enumerate(self.blocks) for _ in range(block.first, block.last + 1)]
        self.names = [each.name for each in sass.function.instructions]
        self.taken_with = [self._taken_with(number) for number in range(len(sass.blocks))]
        decided = {block.place for block in sass.blocks if block.place >= 0}
        self.decided = {items[place].line for place in decided}
        self.anchors: dict[int, int] = {}

    def _after(self, number: int) -> tuple[int, ...]:
        """The blocks of machine code that may follow one."""
        block = self.sass.blocks[number]
        name = self.names[block.last]
        ahead = (number + 1,) if number + 1 < len(self.sass.blocks) else ()
        if name in ("EXIT", "RET"):
            return ahead if block.conditional else ()
        if name == "CALL" or block.target < 0:
            return ahead
        return (*(ahead if block.conditional else ()), block.target)

    def _taken_with(self, number: int) -> bool:
        """Whether a branch of machine code jumps when the branch of the PTX jumps, by the lines that only one side of
        each can reach."""
        block = self.sass.blocks[number]
        place = block.place
        if place < 0 or not isinstance(branch := self.items[place], Branch):
            return True
        mine, target = self.block_of[place], branch.target
        sides = [_reach(start, lambda n: self.blocks[n].successors, mine) for start in (
            self.block_of[target], mine + 1)]  # fmt: skip
        there, here = (self._lines(side) for side in sides)
        if self.names[block.last] == "EXIT":
            jump: set[int] = set()
        else:
            jump = _reach(block.target, self._after, number) if block.target >= 0 else set()
        ahead = _reach(number + 1, self._after, number) if number + 1 < len(self.sass.blocks) else set()
        jumped, fallen = self._sass_lines(jump - ahead), self._sass_lines(ahead - jump)
        score = 0
        for line in jumped:
            score += (line in there and line not in here) - (line in here and line not in there)
        for line in fallen:
            score += (line in here and line not in there) - (line in there and line not in here)
        return score >= 0

    def _lines(self, blocks: set[int]) -> set[int]:
        """The lines of basic blocks of the PTX."""
        return {
            self.items[place].line
            for number in blocks
            for place in range(self.blocks[number].first, self.blocks[number].last + 1)
        }

    def _sass_lines(self, blocks: set[int]) -> list[int]:
        """For each instruction of blocks of machine code, the line of the PTX that it comes from."""
        code = self.sass.function.instructions
        return [
            code[index].line
            for number in blocks
            for index in range(self.sass.blocks[number].first, self.sass.blocks[number].last + 1)
        ]

    def way(self, steps: Sequence[Executed]) -> list[Segment]:
        """The blocks that a warp ran through.

        Raises:
            LostError: the path cannot be found.
        """
        return _Path(self, steps).segments()

    def executions(self, line: int, positions: Mapping[int, list[int]]) -> list[int | None]:
        """For each time that machine code comes to a line, the execution of that line's instruction; None where a
        branch that machine code does not have skipped it.

        Args:
            line: the line of the PTX.
            positions: for each place of the PTX, the indices of its executions.
        """
        turns_of_line: list[tuple[int, int | None]] = []
        for place in self.sass.places_of[line]:
            mine = positions.get(place, [])
            anchor = self.blocks[self._anchor(self.block_of[place])]
            turns = positions.get(anchor.first, []) if anchor.first != place else mine
            after = np.searchsorted(mine, turns)
            for index, first in enumerate(after.tolist()):
                end = turns[index + 1] if index + 1 < len(turns) else 1 << 62
                executed = first < len(mine) and mine[first] < end
                turns_of_line.append((turns[index], mine[first] if executed else None))
        turns_of_line.sort(key=lambda pair: pair[0])
        return [execution for _, execution in turns_of_line]

    def _anchor(self, number: int) -> int:
        """The block whose executions count how often machine code comes to a block: the block itself, or a dominator if
        machine code has predicates in place of the branches between the two."""
        if number not in self.anchors:
            self.anchors[number] = number if self._is_anchor(number) else self._anchor(self.dominators[number])
        return self.anchors[number]

    def _is_anchor(self, number: int) -> bool:
        """Whether machine code comes to a block as often as the PTX does."""
        up = self.dominators[number]
        if number == 0 or up < 0 or self._meets(up, number):
            return True
        branch = self.items[self.blocks[up].last]
        return len(self.blocks[up].successors) > 1 and branch.line in self.decided

    def _meets(self, up: int, number: int) -> bool:
        """Whether all paths from the block `up` reach the block `number`."""
        before = _reach(up, lambda block: self.blocks[block].successors, number)
        return all(block == up or self.blocks[block].successors for block in before)

    @cached_property
    def dominators(self) -> list[int]:
        """For each block, the nearest other one that every path to it goes through; -1 for none."""
        return immediate_dominators(self.blocks)


class GivenCode:
    """Machine code from a file, and for lost warps machine code that is made from the PTX.

    Attributes:
        regions: the basic blocks of the file's machine code, then the regions of the other.
        registers: how many registers are numbered.
        spare: the machine code for lost warps.
        walker: finds the path of a warp through the file's machine code.
    """

    def __init__(self, kernel: Kernel, function: Function) -> None:
        sass = sass_code(kernel, function)
        self.spare: MachineCode = machine_code(kernel)
        self.walker = Walker(sass, kernel)
        self.regions = (*sass.regions, *self.spare.regions)
        self.registers = max(sass.registers, self.spare.registers)
        self._count = len(sass.regions)
        self._ways: dict[tuple[tuple[int, int], ...], tuple[list[Segment], bool]] = {}

    def way(self, steps: Sequence[Executed]) -> list[Segment]:
        """The regions that a warp ran through."""
        return self._way(steps)[0]

    def lost(self, steps: Sequence[Executed]) -> bool:
        """Whether the path of a warp through the file's machine code was not found."""
        return self._way(steps)[1]

    def _way(self, steps: Sequence[Executed]) -> tuple[list[Segment], bool]:
        """Both of it, found once for warps that executed the same."""
        key = tuple((step.place, step.lanes) for step in steps)
        if key not in self._ways:
            try:
                self._ways[key] = self.walker.way(steps), False
            except LostError:
                spare = [each._replace(region=each.region + self._count) for each in self.spare.way(steps)]
                self._ways[key] = spare, True
        return self._ways[key]


class _Path:
    """The path of one warp.

    Attributes:
        positions: for each place of the PTX, the indices of its executions.
        turn: for each place of a branch, how many of its executions are over.
        queues: for each line, the executions of its instruction (`Walker.executions`).
        used: for each machine instruction, how many executions it has had.
        pending: blocks at which lanes wait that have diverged from the others.
        calls: blocks to which routines return.
    """

    def __init__(self, walker: Walker, steps: Sequence[Executed]) -> None:
        self.walker, self.steps = walker, steps
        self.positions: dict[int, list[int]] = {}
        for position, step in enumerate(steps):
            self.positions.setdefault(step.place, []).append(position)
        self.turn: dict[int, int] = {}
        self.queues: dict[int, list[int | None]] = {}
        self.used: dict[int, int] = {}
        self.pending: list[int] = []
        self.calls: list[int] = []

    def segments(self) -> list[Segment]:
        """The blocks that the warp ran through, each with the executions of its instructions.

        Raises:
            LostError: the path cannot be found.
        """
        sass, walker = self.walker.sass, self.walker
        segments: list[Segment] = []
        number, most = 0, LONGEST + LONGEST * len(self.steps)
        while number >= 0:
            following = self._next(number)
            steps = self._steps(number)
            meets = walker.names[sass.blocks[number].last] == "BSYNC"  # as long as a branch: 9 to 12 cycles on an H200
            segments.append(Segment(number, steps, following >= 0 and (meets or following != number + 1)))
            if len(segments) > most or number >= len(sass.blocks):
                raise LostError
            number = following
        if any(self.turn.get(place, 0) < len(self.positions.get(place, ())) for place in self._checked):
            raise LostError
        return segments

    @property
    def _checked(self) -> set[int]:
        """The places of the branches of the PTX that decide branches of machine code."""
        return {block.place for block in self.walker.sass.blocks if block.place >= 0}

    def _steps(self, number: int) -> dict[int, int]:
        """For each machine instruction of a block, the index of its execution, if it has one."""
        steps: dict[int, int] = {}
        for micro in self.walker.sass.regions[number].micros:
            if not micro.own or micro.number is None:
                continue
            line = micro.item.line
            if line not in self.queues:
                self.queues[line] = self.walker.executions(line, self.positions)
            queue, turn = self.queues[line], self.used.get(micro.number, 0)
            self.used[micro.number] = turn + 1
            execution = queue[turn] if turn < len(queue) else None
            if execution is not None:
                steps[micro.number] = execution
        return steps

    def _next(self, number: int) -> int:
        """The number of the block that follows a block; -1 at the end of the program."""
        walker = self.walker
        block, name = walker.sass.blocks[number], walker.names[walker.sass.blocks[number].last]
        if name == "BSYNC" and self.pending:
            return self.pending.pop()
        if name == "EXIT" and not block.conditional:
            return self.pending.pop() if self.pending else -1
        if name == "RET":
            return self.calls.pop() if self.calls else -1
        if name == "CALL":
            self.calls.append(number + 1)
            return block.target if block.target >= 0 else number + 1
        if block.target < 0 and name != "EXIT":
            return number + 1 if number + 1 < len(walker.sass.blocks) else -1
        if not block.conditional:
            return block.target
        return self._decided(number, name)

    def _decided(self, number: int, name: str) -> int:
        """The block that follows a conditional branch or exit, as a branch of the PTX decides; -1 at the end."""
        walker, block = self.walker, self.walker.sass.blocks[number]
        if block.place < 0:  # a branch that ptxas has added, to a rare case
            return number + 1
        positions, turn = self.positions.get(block.place, []), self.turn.get(block.place, 0)
        if turn >= len(positions):
            raise LostError
        self.turn[block.place] = turn + 1
        step, item = self.steps[positions[turn]], walker.items[block.place]
        taken, diverged = step.wavefronts > 0, 0 < step.wavefronts < step.lanes
        if diverged:  # the side that comes first in the PTX
            taken = isinstance(item, Branch) and walker.rank[item.target] < walker.rank[item.index + 1]
        jumps = taken == walker.taken_with[number]
        jump = -1 if name == "EXIT" else block.target
        one, other = (jump, number + 1) if jumps else (number + 1, jump)
        if diverged and other >= 0 and one >= 0:
            self.pending.append(other)
        elif diverged:  # some lanes exit, the others go on
            return number + 1
        if one < 0:
            return self.pending.pop() if self.pending else -1
        return one


def _reach(start: int, successors: Callable[[int], Sequence[int]], without: int) -> set[int]:
    """The blocks that can be reached from a block by paths that avoid the block `without`."""
    reached, work = {start} - {without}, [start] if start != without else []
    while work:
        for to in successors(work.pop()):
            if to != without and to not in reached:
                reached.add(to)
                work.append(to)
    return reached


def immediate_dominators(blocks: Sequence[Block]) -> list[int]:
    """For each block, the nearest other one that every path to it goes through; -1 for the first block and for those
    that nothing reaches."""
    successors = [block.successors for block in blocks]
    reached = _reach(0, successors.__getitem__, -1)
    above: dict[int, list[int]] = {number: [] for number in reached}  # its dominators
    for number in reached:
        for other in reached - _reach(0, successors.__getitem__, number) - {number}:
            above[other].append(number)
    nearest = {number: max(every, key=lambda one: len(above[one]), default=-1) for number, every in above.items()}
    return [nearest.get(number, -1) for number in range(len(blocks))]
