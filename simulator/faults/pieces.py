"""Parts of a run whose faults are not equally fast: what is run together is one task, what is run fault by fault is cut
into pieces of a few. A piece that is done is kept beside the parts, so that a run that is killed loses seconds even
where each fault takes one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator.faults.table import Faults
from simulator.parts import Parts

FEW = 4  # faults of a piece, each of which is a run of its own


@dataclass
class _Part:
    """A part that is not done: the places of the rows of each of its pieces, and the lines of those that are done."""

    places: list[NDArray[np.intp]]
    lines: dict[int, bytes]

    def joined(self) -> bytes:
        """The lines of all pieces, in the order of the rows."""
        if len(self.places) == 1:
            return self.lines[0]
        order = np.argsort(np.concatenate(self.places))
        lines = b"".join(self.lines[piece] for piece in range(len(self.places))).splitlines(keepends=True)
        return b"".join(lines[place] for place in order.tolist())


@dataclass
class Pieces:
    """The pieces of the parts of a run.

    Attributes:
        parts: the parts on disk.
        by_itself: which faults are run one by one, bool [fault].
        done: how many faults have been done.
    """

    parts: Parts
    by_itself: Callable[[Faults], NDArray[np.bool_]]
    done: int = 0
    _open: dict[int, _Part] = field(default_factory=dict)
    _tasks: list[tuple[int, int]] = field(default_factory=list)

    def tasks(self, number: int, faults: Faults) -> Iterator[tuple[int, Faults]]:
        """What is left to do of a part, as tasks that are numbered over all parts; pieces that a killed run has kept
        are taken from the disk."""
        part = _Part(self._cut(faults), {})
        if len(part.places) > 1:
            kept = {piece: self.parts.read(number, piece) for piece in range(len(part.places))}
            part.lines |= {piece: lines for piece, lines in kept.items() if lines is not None}
            if len(part.lines) == len(part.places):
                part.lines.popitem()  # of a part that was spoilt: one piece is done again, and the part with it
        self._open[number] = part
        self.done += sum(len(part.places[piece]) for piece in part.lines)
        for piece in set(range(len(part.places))) - set(part.lines):
            self._tasks.append((number, piece))
            yield len(self._tasks) - 1, faults[part.places[piece]]

    def take(self, task: int, lines: bytes) -> None:
        """Keeps what a task gave: as a piece, or as the part of which nothing is missing any more."""
        number, piece = self._tasks[task]
        part = self._open[number]
        part.lines[piece] = lines
        self.done += len(part.places[piece])
        if len(part.lines) < len(part.places):
            self.parts.keep(number, lines, piece)
            return
        self.parts.keep(number, part.joined())
        self.parts.drop_pieces(number)
        del self._open[number]

    def _cut(self, faults: Faults) -> list[NDArray[np.intp]]:
        """The places of the rows of each piece: first of those that are run together."""
        alone = self.by_itself(faults)
        together, apart = np.flatnonzero(~alone), np.flatnonzero(alone)
        pieces = [apart[first : first + FEW] for first in range(0, len(apart), FEW)]
        return [*([together] if len(together) else []), *pieces]
