"""What each execution of an operation gave, in order, in memory that does not grow with the turns of a loop.

A row is kept once, however often it occurs, and so is a block of rows that follows itself again and again: when the
interpreter says that a block repeats, or when it is seen among the last executions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from itertools import chain, repeat
from typing import Generic, TypeVar

Row = TypeVar("Row", bound=Hashable)
_LOOSE = 512  # executions that are kept one by one before a block that repeats is looked for

Block = tuple[int, ...]


class Executions(Generic[Row]):
    """The rows of an operation's executions, by their order.

    Attributes:
        rows: the different rows.
        count: how many executions there have been.
    """

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.count = 0
        self._numbers: dict[Row, int] = {}
        self._pieces: list[tuple[Block, int]] = []  # blocks of row numbers, and how often each is executed in a row
        self._loose: list[int] = []  # what follows them

    def append(self, row: Row) -> None:
        """Adds an execution."""
        number = self._numbers.get(row)
        if number is None:
            number = self._numbers[row] = len(self.rows)
            self.rows.append(row)
        self.count += 1
        loose = self._loose
        loose.append(number)
        if self._pieces and len(loose) == len(self._pieces[-1][0]):
            block, times = self._pieces[-1]
            if tuple(loose) == block:
                self._pieces[-1] = block, times + 1
                loose.clear()
        if len(loose) >= _LOOSE:
            self._pack()

    def repeat(self, block: Block, times: int) -> None:
        """Adds a block of executions, given as `last` gives it, several times."""
        if not block or not times:
            return
        if self._loose:
            self._pieces.append((tuple(self._loose), 1))
            self._loose = []
        self._pieces.append((block, times))
        self.count += len(block) * times

    def last(self, count: int) -> Block:
        """The last executions, as numbers of `rows`."""
        found = self._loose[-count:] if count else []
        for block, times in reversed(self._pieces):
            missing = count - len(found)
            if missing <= 0:
                break
            turns = min(times, -(-missing // len(block)))
            found = (list(block) * turns)[-missing:] + found
        return tuple(found)

    def totals(self) -> Counter[Row]:
        """How many executions gave each row."""
        counts = Counter[int](self._loose)
        for block, times in self._pieces:
            for number, count in Counter(block).items():
                counts[number] += count * times
        return Counter({self.rows[number]: count for number, count in counts.items()})

    def __iter__(self) -> Iterator[Row]:
        """The rows of all executions."""
        blocks = chain.from_iterable(chain.from_iterable(repeat(block, times)) for block, times in self._pieces)
        return map(self.rows.__getitem__, chain(blocks, self._loose))

    def periodic(self) -> tuple[list[Row], int]:
        """The rows of as few executions as tell the others, and the first of them that is repeated: behind them all
        comes entry `prefix` again, then the next."""
        before, block = self._repeating()
        entries, prefix = before + block, len(before)
        while prefix and entries[prefix - 1] == entries[-1]:
            prefix -= 1
            entries.pop()
        return [self.rows[number] for number in entries], prefix

    def _repeating(self) -> tuple[list[int], list[int]]:
        """What comes first, and what is repeated from then on; the last repetition may be incomplete."""
        if len(self.rows) == 1:
            return [], [0]
        behind = list(self._loose)
        for place in range(len(self._pieces) - 1, -1, -1):
            block, times = self._pieces[place]
            if times > 1:
                if all(number == block[i % len(block)] for i, number in enumerate(behind)):
                    before = chain.from_iterable(piece * turns for piece, turns in self._pieces[:place])
                    return list(before), list(block[: _period(block)])
                break
            behind = list(block) + behind
        whole = [*chain.from_iterable(piece * turns for piece, turns in self._pieces), *self._loose]
        first, period = _suffix(whole)
        return whole[:first], whole[first : first + period]

    def _pack(self) -> None:
        """Puts a block that repeats at the end of the loose executions away, or all of them."""
        first, period = _suffix(self._loose)
        if first:
            self._pieces.append((tuple(self._loose[:first]), 1))
        rest = self._loose[first:]
        turns = len(rest) // period
        self._pieces.append((tuple(rest[:period]), turns))
        self._loose = rest[turns * period :]


def _period(block: Sequence[int]) -> int:
    """The length of the shortest block of which this is a whole number."""
    first, period = _suffix([*block, *block])
    return period if not first and len(block) % period == 0 else len(block)


def _suffix(numbers: Sequence[int]) -> tuple[int, int]:
    """(first, period): from `first` on the numbers repeat themselves after `period`, so that as few as possible tell
    all of them."""
    # Prefix function of Knuth, Morris and Pratt, from the end: the longest border of a part gives its shortest period.
    turned = list(reversed(numbers))
    size = len(turned)
    border = [0] * size
    best, period = 1 if size else 0, 1
    shortest = size
    for place in range(1, size):
        length = border[place - 1]
        while length and turned[place] != turned[length]:
            length = border[length - 1]
        border[place] = length + (turned[place] == turned[length])
        here = place + 1 - border[place]
        if size - place - 1 + here < shortest:
            shortest, best, period = size - place - 1 + here, place + 1, here
    return size - best, period
