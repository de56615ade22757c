"""The control flow of a kernel: basic blocks, and the order in which threads that have parted go on.

The order is a topological one of the blocks in which every loop is contiguous: the strongly connected parts of the
graph are sorted, and within each part, without the edges back to its head, the same again. So where the sides of a
branch meet comes after both sides, and what follows a loop comes after the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from simulator.program.kernel.items import Branch, Exit, Item, Switch, Trap, Unsupported


@dataclass(frozen=True)
class Block:
    """Items that are executed one after the other.

    Attributes:
        first, last: places of its first and last item.
        successors: numbers of the blocks that may follow.
    """

    first: int
    last: int
    successors: tuple[int, ...]


def follows(item: Item) -> tuple[int, ...]:
    """The places at which threads may go on behind an item."""
    match item:
        case Branch():
            return (item.target,) if item.guard is None else (item.index + 1, item.target)
        case Switch():
            return (*((item.index + 1,) if item.guard else ()), *item.targets)
        case Exit() | Trap() | Unsupported():
            return (item.index + 1,) if item.guard else ()
        case _:
            return (item.index + 1,)


def blocks_of(items: Sequence[Item]) -> list[Block]:
    """The basic blocks of a kernel, in the order of places."""
    leaders = {0}
    for item in items:
        if isinstance(item, Branch | Switch | Exit | Trap | Unsupported):
            leaders.update(place for place in follows(item))
            leaders.add(item.index + 1)
    starts = sorted(place for place in leaders if place < len(items))
    number = {place: index for index, place in enumerate(starts)}
    blocks = []
    for index, first in enumerate(starts):
        last = (starts[index + 1] if index + 1 < len(starts) else len(items)) - 1
        after = [number[place] for place in follows(items[last]) if place < len(items)]
        blocks.append(Block(first, last, tuple(dict.fromkeys(after))))
    return blocks


def ranks(items: Sequence[Item], blocks: Sequence[Block]) -> tuple[int, ...]:
    """For each place its rank."""
    order = _ordered(range(len(blocks)), lambda block: blocks[block].successors, 0)
    rank = [0] * len(items)
    count = 0
    for block in order:
        for place in range(blocks[block].first, blocks[block].last + 1):
            rank[place] = count
            count += 1
    return tuple(rank)


def order_of(blocks: Sequence[Block]) -> list[int]:
    """The blocks in the order of their ranks."""
    return _ordered(range(len(blocks)), lambda block: blocks[block].successors, 0)


def _ordered(nodes: Iterable[int], successors: Callable[[int], Iterable[int]], entry: int) -> list[int]:
    """Nodes in a topological order in which every loop is contiguous; `entry` comes first."""
    work: list[tuple[list[int], int]] = [(sorted(nodes), entry)]
    result: list[int] = []
    removed: set[tuple[int, int]] = set()
    while work:
        chosen, head = work.pop()
        if len(chosen) == 1:
            result += chosen
            continue
        inside = set(chosen)

        def within(node: int, inside: set[int] = inside) -> list[int]:
            return [to for to in successors(node) if to in inside and (node, to) not in removed]

        parts = components(chosen, within, head)
        if len(parts) == 1:
            removed.update((node, head) for node in chosen)
            work.append((chosen, head))
            continue
        part_of = {node: number for number, part in enumerate(parts) for node in part}
        entered = {to for node in chosen for to in within(node) if part_of[node] != part_of[to]}
        for part in reversed(parts):
            heads = sorted(node for node in part if node == head or node in entered)
            work.append((sorted(part), heads[0] if heads else min(part)))
    return result


_Parts = list[list[int]]


def components(nodes: Sequence[int], successors: Callable[[int], Iterable[int]], head: int) -> _Parts:
    """The strongly connected parts of a graph in topological order, that of `head` as early as possible (Tarjan)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    on_stack: set[int] = set()
    stack: list[int] = []
    parts: _Parts = []
    for root in (*(node for node in reversed(nodes) if node != head), head):
        if root in index:
            continue
        work = [(root, iter(_latest_first(successors(root))))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            to = next(rest, None)
            if to is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    cut = stack.index(node)
                    parts.append(stack[cut:])
                    on_stack.difference_update(stack[cut:])
                    del stack[cut:]
            elif to not in index:
                index[to] = low[to] = len(index)
                stack.append(to)
                on_stack.add(to)
                work.append((to, iter(_latest_first(successors(to)))))
            elif to in on_stack:
                low[node] = min(low[node], index[to])
    return parts[::-1]


def _latest_first(nodes: Iterable[int]) -> list[int]:
    """So that of two sides the one that stands first in the text comes first in the reversed order."""
    return sorted(nodes, reverse=True)
