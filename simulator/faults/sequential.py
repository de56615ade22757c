"""Runs that stop when they know enough: when in each group the confidence interval of every outcome is narrow.

The faults are injected in a random order that the campaign's seed decides: all groups in turn, each of them shuffled.
So wherever a run stops, the faults of a group that it has injected are a random sample of those of the list, drawn
without repetition. It looks after each part, in the order of the parts whatever the order in which workers end them,
and stops at the first part that suffices: the same faults with any number of workers, and after a kill.

A rule that looks at the data makes intervals cover a little less than they say (Anscombe, "Large-sample theory of
sequential estimation", 1952: nothing in the limit of small margins); the tests measure how much.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.errors import TraceError, ViewError
from simulator.faults import table
from simulator.faults.outcomes import COLUMNS, JUDGED, OUTCOMES
from simulator.faults.table import CHECK, FaultList, Faults
from simulator.parts import Parts
from simulator.statistics.designs import Sums, estimated

_SPARSE = 16  # rows of a list from one whose place in the file is kept to the next
_CHUNK = 1 << 20  # rows that are ordered together
_BUCKET = 1 << 17  # rows of results that are sorted together
_SEEN = (*OUTCOMES, JUDGED[-1])  # whose shares must be known


class Until(NamedTuple):
    """When to stop: half the width of every interval, as a share, and how sure it is."""

    margin: float
    confidence: float = 0.95

    @property
    def words(self) -> str:
        """What the head of a file of results says."""
        return f"a margin of {self.margin:g} at {self.confidence:g}"


class _Tally:
    """Counts of one group: how many faults, sums of weights and of their squares, and the same of each outcome."""

    def __init__(self) -> None:
        self.count = 0
        self.weights = np.zeros(2)
        self.hits = np.zeros((len(_SEEN), 2))

    def narrow(self, population: int, until: Until) -> bool:
        """Whether the intervals of all outcomes are narrow enough."""
        for hit, hit2 in self.hits.tolist():
            sums = Sums(self.count, float(self.weights[0]), float(self.weights[1]), hit, hit2)
            found = estimated(sums, population, until.confidence)
            if found.high - found.low > 2 * until.margin:
                return False
        return True


@dataclass
class Order:
    """The random order in which the faults of a list are injected, and what became of them so far.

    Attributes:
        found, until: the list, and when to stop.
        places: uint32 [rows]: the row of the list that is injected first, second, ...
        offsets: where every 16th row of the list begins in its file, in bytes.
        sizes: how many faults each group has in the list.
        done: how many parts have been counted.
    """

    found: FaultList
    until: Until
    places: NDArray[np.uint32]
    offsets: NDArray[np.int64]
    sizes: Counter[int]
    done: int = 0
    tallies: dict[int, _Tally] = field(default_factory=dict)

    @classmethod
    def of(cls, found: FaultList, until: Until) -> Order:
        """The order of a list.

        Raises:
            TraceError: a row that names no group.
            ViewError: a margin or a confidence that is none.
        """
        if not 0 < until.margin < 1 or not 0 < until.confidence < 1:
            legal = "both between 0 and 1, such as 0.01 and 0.95"
            raise ViewError(f"a margin of {until.margin:g} at a confidence of {until.confidence:g}", legal)
        offsets, groups = _scanned(found)
        names, sizes = np.unique(groups, return_counts=True)
        places = _in_turn(groups, names, sizes, int(found.about.get("seed", "0")))
        return cls(found, until, places, offsets, Counter(dict(zip(names.tolist(), sizes.tolist(), strict=True))))

    def read(self, rows: range) -> Faults:
        """The faults at these places of the order, in the order of the list. TraceError with the line of a row that is
        none."""
        first = len(self.found.about) + 3  # the line of the first fault
        chosen = np.sort(self.places[rows.start : rows.stop]).tolist()
        lines = []
        with self.found.path.open("rb") as stream:
            here = -1  # the row that the stream is before
            for row in chosen:
                if not 0 <= row - here < 4 * _SPARSE or here < 0:
                    stream.seek(int(self.offsets[row // _SPARSE]))
                    here = row - row % _SPARSE
                for _ in range(row - here):
                    stream.readline()
                lines.append(stream.readline().decode(errors="replace").rstrip("\r\n"))
                here = row + 1
        try:
            return table._parsed(self.found, lines, 0)
        except TraceError:
            for row, line in zip(chosen, lines, strict=True):
                table._parsed(self.found, [line], first + row)
            raise

    def count(self, text: bytes) -> None:
        """Counts the results of the next part."""
        columns = [*(name for name in self.found.columns if name != CHECK), *COLUMNS]
        group, outcome, judged = map(columns.index, ("group", "outcome", "judged"))
        weight = columns.index("weight") if "weight" in columns else -1
        for line in text.decode().splitlines():
            cells = line.split(",")
            tally = self.tallies.setdefault(int(cells[group]), _Tally())
            w = float(cells[weight]) if weight >= 0 else 1.0
            powers = np.array([w, w * w])
            tally.count += 1
            tally.weights += powers
            tally.hits[OUTCOMES.index(cells[outcome])] += powers
            if cells[judged] == JUDGED[-1]:
                tally.hits[-1] += powers
        self.done += 1

    def suffices(self) -> bool:
        """Whether what was counted is enough: of each group all of the list, or narrow intervals."""
        about = json.loads(self.found.about["groups"])
        for group, size in self.sizes.items():
            tally = self.tallies.get(group)
            if tally is None:
                return False
            if tally.count < size and not tally.narrow(about[group]["population"], self.until):
                return False
        return True


def _scanned(found: FaultList) -> tuple[NDArray[np.int64], NDArray[np.uint16]]:
    """Where every 16th row of a list begins in its file, in bytes, and the group of each row."""
    offsets = np.zeros(-(-found.rows // _SPARSE), np.int64)
    groups = np.zeros(found.rows, np.uint16)
    known = len(json.loads(found.about["groups"]))
    with found.path.open("rb") as stream:
        place = sum(len(stream.readline()) for _ in range(len(found.about) + 2))
        for row, line in enumerate(stream):
            if row % _SPARSE == 0:
                offsets[row // _SPARSE] = place
            place += len(line)
            cell = line.split(b",", 2)[1:2]
            if not cell or not cell[0].isdigit() or int(cell[0]) >= known:
                shown = cell[0].decode(errors="replace") if cell else "missing"
                legal = f"a group from 0 to {known - 1}, as the head names them"
                raise TraceError(str(found.path), len(found.about) + 3 + row, 1, f"group is {shown}", legal)
            groups[row] = int(cell[0])
    return offsets, groups


def _in_turn(groups: NDArray[np.uint16], names: NDArray[Any], sizes: NDArray[Any], seed: int) -> NDArray[np.uint32]:
    """The rows in a random order: all groups in turn, each of them shuffled, for as long as they last."""
    order = np.empty(len(groups), np.uint32)
    for number, name in enumerate(names.tolist()):
        mine = np.concatenate(
            [
                (np.flatnonzero(groups[first : first + _CHUNK] == name) + first).astype(np.uint32)
                for first in range(0, len(groups), _CHUNK)
            ]
        )
        rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, name])))
        rng.shuffle(mine)
        for first in range(0, len(mine), _CHUNK):
            turn = np.arange(first, min(first + _CHUNK, len(mine)))
            before = np.zeros(len(turn), np.int64)  # faults that come before: of earlier turns, then of this one
            for other, size in enumerate(sizes.tolist()):
                before += np.minimum(turn, size) + ((other < number) & (size > turn))
            order[before] = mine[turn]
    return order


def stopped_at(order: Order, parts: Parts) -> int | None:
    """After how many parts the run stops, if these parts are there and it does."""
    while order.done < parts.count:
        text = parts.read(order.done)
        if text is None:
            return None
        order.count(text)
        if order.suffices():
            return order.done
    return None


def merged(order: Order, parts: Parts, count: int, size: int) -> Iterator[tuple[int, bytes]]:
    """The lines of the first `count` parts in the order of the list, with how many rows they are the end of; in
    buckets on disk, so that memory holds a few of the rows."""
    rows = order.found.rows
    buckets = max(1, min(count * size, rows) // _BUCKET)
    with TemporaryDirectory(prefix=".", dir=parts.folder) as name:
        files = [Path(name) / str(number) for number in range(buckets)]
        with ExitStack() as stack:
            streams = [stack.enter_context(file.open("wb")) for file in files]
            for number in range(count):
                places = np.sort(order.places[number * size : (number + 1) * size]).tolist()
                for place, line in zip(places, parts.whole(number).splitlines(keepends=True), strict=True):
                    streams[place * buckets // rows].write(b"%d,%b" % (place, line))
        done = 0
        for file in files:
            pairs = [line.split(b",", 1) for line in file.read_bytes().splitlines(keepends=True)]
            pairs.sort(key=lambda pair: int(pair[0]))
            done += len(pairs)
            yield done, b"".join(line for _, line in pairs)
