"""Lets registers share numbers whose values do not live at the same time, so that a kernel of thousands of registers
needs as much memory as it has live values.

Liveness is that of a single thread. A guarded write keeps the old value of other threads alive, so it does not end the
life of what was there before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush

from isa.ptx.instruction import (
    Address,
    Guard,
    Immediate,
    Operand,
    Pair,
    Predicate,
    Register,
    Scalar,
    Sink,
    TensorPlace,
    Vector,
)
from simulator.program.kernel.flow import Block, blocks_of
from simulator.program.kernel.items import Item, Kernel, Operation, Switch
from simulator.state.registers import Numbering, Sort, register_place


def allocated(kernel: Kernel, *, rewrite: bool = True) -> Kernel:
    """The kernel with shared registers, and with `live_words`.

    Args:
        rewrite: whether registers get new numbers; otherwise only `live_words` is found.
    """
    blocks = blocks_of(kernel.items)
    lives = _lives(kernel, blocks)
    words = _peak(lives)
    if not rewrite:
        return replace(kernel, live_words=words)
    new, numbering = _assigned(lives)
    names: dict[str, list[str]] = defaultdict(list)
    for old, name in new.items():
        if (original := kernel.names.get(old)) and original[0] not in names[name]:
            names[name].append(original[0])
    return replace(
        kernel,
        items=tuple(_renamed(item, new) for item in kernel.items),
        numbering=numbering,
        live_words=words,
        names={name: tuple(originals) for name, originals in names.items()},
    )


def touched(item: Item) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The registers whose values an item needs, and those that it writes."""
    guard = (item.guard.predicate.name,) if item.guard else ()
    match item:
        case Operation():
            return item.needs, item.writes
        case Switch():
            return (*guard, item.register.name), ()
        case _:
            return guard, ()


def _lives(kernel: Kernel, blocks: Sequence[Block]) -> dict[str, tuple[int, int]]:
    """For each register the first and the last rank between which it may hold something that is needed."""
    number: dict[str, int] = {}
    access = [touched(item) for item in kernel.items]
    for reads, writes in access:
        for name in (*reads, *writes):
            number.setdefault(name, len(number))
    needed, killed = _needed(kernel, blocks, access, number)
    live_in = _live_in(blocks, needed, killed)
    lives: dict[str, tuple[int, int]] = {}
    by_number = list(number)
    for index, block in enumerate(blocks):
        first, last = kernel.rank[block.first], kernel.rank[block.last]
        after = 0
        for to in block.successors:
            after |= live_in[to]
        for mask, rank in ((live_in[index], first), (after, last)):
            for name in _names(mask, by_number):
                _extend(lives, name, rank)
        for place in range(block.first, block.last + 1):
            for name in (*access[place][0], *access[place][1]):
                _extend(lives, name, kernel.rank[place])
    return lives


def _needed(
    kernel: Kernel,
    blocks: Sequence[Block],
    access: Sequence[tuple[tuple[str, ...], tuple[str, ...]]],
    number: Mapping[str, int],
) -> tuple[list[int], list[int]]:
    """For each block, as sets of bits: the registers that it reads before it writes them, and those that it writes for
    every thread."""
    needed, killed = [0] * len(blocks), [0] * len(blocks)
    for index, block in enumerate(blocks):
        for place in range(block.first, block.last + 1):
            reads, writes = access[place]
            for name in reads:
                needed[index] |= 1 << number[name] & ~killed[index]
            for name in writes:
                bit = 1 << number[name]
                if kernel.items[place].guard is None:
                    killed[index] |= bit
                else:
                    needed[index] |= bit & ~killed[index]
    return needed, killed


def _live_in(blocks: Sequence[Block], needed: Sequence[int], killed: Sequence[int]) -> list[int]:
    """For each block the registers that are needed from its beginning on."""
    live = list(needed)
    before: list[list[int]] = [[] for _ in blocks]
    for index, block in enumerate(blocks):
        for to in block.successors:
            before[to].append(index)
    work = list(range(len(blocks)))
    while work:
        index = work.pop()
        after = 0
        for to in blocks[index].successors:
            after |= live[to]
        now = needed[index] | after & ~killed[index]
        if now != live[index]:
            live[index] = now
            work += before[index]
    return live


def _names(mask: int, by_number: Sequence[str]) -> list[str]:
    names = []
    while mask:
        low = mask & -mask
        names.append(by_number[low.bit_length() - 1])
        mask ^= low
    return names


def _extend(lives: dict[str, tuple[int, int]], name: str, rank: int) -> None:
    first, last = lives.get(name, (rank, rank))
    lives[name] = min(first, rank), max(last, rank)


def _peak(lives: Mapping[str, tuple[int, int]]) -> int:
    """The most 32-bit words that live at one rank; predicates have a file of their own."""
    change: dict[int, int] = defaultdict(int)
    for name, (first, last) in lives.items():
        place = register_place(name)
        assert place is not None
        words = {Sort.WIDE: 2, Sort.PREDICATE: 0}.get(place.sort, 1)
        change[first] += words
        change[last] -= words
    peak = now = 0
    for rank in sorted(change):
        now += change[rank]
        peak = max(peak, now)
    return peak


def _assigned(lives: Mapping[str, tuple[int, int]]) -> tuple[dict[str, str], Numbering]:
    """New names by a scan over the ranks: the lowest number that is free."""
    new: dict[str, str] = {}
    counts = [0, 0, 0, 0]
    free: list[list[int]] = [[], [], [], []]
    ends: list[list[tuple[int, int]]] = [[], [], [], []]
    for name, (first, last) in sorted(lives.items(), key=lambda entry: entry[1]):
        place = register_place(name)
        assert place is not None
        sort = place.sort
        while ends[sort] and ends[sort][0][0] < first:
            heappush(free[sort], heappop(ends[sort])[1])
        if free[sort]:
            number = heappop(free[sort])
        else:
            number, counts[sort] = counts[sort], counts[sort] + 1
        heappush(ends[sort], (last, number))
        new[name] = f"{sort.prefix}{number}"
    return new, Numbering(*counts)


# Renaming


def _renamed(item: Item, new: Mapping[str, str]) -> Item:
    guard = None if item.guard is None else Guard(_register(item.guard.predicate, new), item.guard.negated)
    match item:
        case Operation():
            instruction = item.instruction
            operands = tuple(_operand(operand, new) for operand in instruction.operands)
            return replace(item, guard=guard, instruction=replace(instruction, operands=operands, guard=guard))
        case Switch():
            return replace(item, guard=guard, register=_register(item.register, new))
        case _:
            return replace(item, guard=guard)


def _register(register: Register, new: Mapping[str, str]) -> Register:
    return Register(new.get(register.name, register.name))


def _scalar(scalar: Scalar, new: Mapping[str, str]) -> Scalar:
    return _register(scalar, new) if isinstance(scalar, Register) else scalar


def _operand(operand: Operand, new: Mapping[str, str]) -> Operand:
    match operand:
        case Register():
            return _register(operand, new)
        case Pair():
            return Pair(tuple(_scalar(element, new) for element in operand.elements))
        case Vector():
            return Vector(tuple(_scalar(element, new) for element in operand.elements))
        case Address():
            return operand if operand.base is None else Address(_register(operand.base, new), operand.offset)
        case TensorPlace():
            tensor, coordinates = _operand(operand.map, new), _operand(operand.coordinates, new)
            assert isinstance(tensor, Address)
            assert isinstance(coordinates, Vector)
            return TensorPlace(tensor, coordinates)
        case Predicate():
            return Predicate(_register(operand.register, new), operand.negated)
        case Immediate() | Sink():
            return operand
