"""Machine instructions, the regions of basic blocks that ptxas joins by predicates, and what warps executed of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from isa.forms.mma import MmaForm
from isa.forms.record import Time
from simulator.execute.dynamic_info import Fact
from simulator.program.kernel import Item
from simulator.program.kernel.flow import Block

PREDICATED = 7  # machine instructions that ptxas puts behind a predicate rather than behind a branch
_WHOLE = (Time.BARRIER, Time.CLUSTER_BARRIER, Time.FENCE, Time.SHUFFLE, Time.TENSOR)  # for all threads of a warp


@dataclass(frozen=True, slots=True)
class Micro:
    """A machine instruction.

    Attributes:
        item: the item of the PTX that it comes from.
        time: its timing class.
        reads, writes: numbers of its registers.
        own: whether it does the access, the product or the wait of its item. The other machine instructions of an item
            take an integer pipe.
        slow: whether its result comes from a unit beside the pipes.
        tests: whether it writes a predicate.
        behind: whether a predicate guards it that has taken the place of a branch.
        number: its index in machine code that was read from a file; None for machine code that was made from the PTX.
        matrix: the matrix instruction of the chip that it is, where the chip does not have that of the item.
        words: registers of a thread that it moves, if it accesses local memory and the PTX does not; else 0.
    """

    item: Item
    time: Time
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    own: bool = False
    slow: bool = False
    tests: bool = False
    behind: bool = False
    number: int | None = None
    matrix: MmaForm | None = None
    words: int = 0

    @property
    def key(self) -> int:
        """The key of its execution in `Segment.steps`: its own index, or the place of its item."""
        return self.item.index if self.number is None else self.number


@dataclass(frozen=True)
class Region:
    """Basic blocks that ptxas joins: a block, the short blocks that it guards by a predicate instead of a branch, and
    the block behind them.

    Attributes:
        blocks: numbers of the basic blocks, in the order of places.
        micros: the machine instructions, in the order of the PTX; the branch at the end of the region is the last.
        first: the index of the first instruction in machine code that was read from a file, whose order `micros` has;
            else -1.
    """

    blocks: tuple[int, ...]
    micros: tuple[Micro, ...]
    first: int = -1


class Executed(NamedTuple):
    """One execution of an instruction, or of a branch or exit under a predicate, by a warp.

    Attributes:
        place: the place of the item in the kernel.
        lanes: how many threads of the warp were there, whether or not their guard let them act.
        wavefronts: cycles for which it kept shared memory busy; for a branch, how many threads took it.
        fact: what else its time depends on; None for nothing.
    """

    place: int
    lanes: int
    wavefronts: int
    fact: Fact | None


class Segment(NamedTuple):
    """A region that a warp ran through.

    Attributes:
        region: the number of the region.
        steps: for each machine instruction (`Micro.key`), the index of its execution among those of the warp.
        taken: whether the warp jumped from the end of the region.
    """

    region: int
    steps: Mapping[int, int]
    taken: bool


def chains(blocks: Sequence[Block], micros: Sequence[Sequence[Micro]]) -> Iterator[list[int]]:
    """The basic blocks of each region, by their numbers, region by region."""
    before: list[set[int]] = [set() for _ in blocks]
    for number, block in enumerate(blocks):
        for to in block.successors:
            before[to].add(number)

    def short(number: int, head: int) -> bool:
        alone = before[number] == {head} and len(blocks[number].successors) == 1
        return alone and len(micros[number]) <= PREDICATED and not any(m.time in _WHOLE for m in micros[number])

    done: set[int] = set()
    for first in range(len(blocks)):
        if first in done:
            continue
        chain = [first]
        while added := _further(chain[-1], blocks, before, short):
            if done.intersection(added) or first in added:
                break
            chain += added
        done.update(chain)
        yield chain


def _further(
    head: int, blocks: Sequence[Block], before: Sequence[set[int]], short: Callable[[int, int], bool]
) -> list[int]:
    """The blocks that join a region behind its block `head`: those that a predicate guards, and the one where all
    meet."""
    after = blocks[head].successors
    if len(after) == 1:
        return [after[0]] if after[0] == head + 1 and before[after[0]] == {head} else []
    if len(after) != 2:
        return []
    one, other = after
    if short(one, head) and blocks[one].successors == (other,) and before[other] == {head, one}:
        return [one, other]
    if short(one, head) and short(other, head) and blocks[one].successors == blocks[other].successors:
        (meeting,) = blocks[one].successors
        if before[meeting] == {one, other}:
            return [one, other, meeting]
    return []
