"""Patterns of several wrong elements, as gate-level simulations and beam experiments find them: a CSV file with a row
for each wrong element.

    pattern,probability,row,column,mask
    pair,0.25,0,0,0x8000
    pair,0.25,0,1,0x8000
    line,0.75,0,0,0x1
    ...

`row` and `column` count from the element that is struck (of words that belong to no operand: words and lanes); `mask`
has the bits of the element that flip. Probabilities are those of the patterns, and are divided by their sum.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from simulator.errors import ConfigError
from simulator.inputs import InputError, read_text

HEADER = ("pattern", "probability", "row", "column", "mask")
_MOST = 1 << 16  # elements of all patterns
_FARTHEST = 1 << 16


@dataclass(frozen=True)
class Pattern:
    """Wrong elements that come together.

    Attributes:
        name: what the file calls it.
        probability: its share among all patterns.
        offsets: of each wrong element its row and column from the struck one, and the bits that flip.
    """

    name: str
    probability: float
    offsets: tuple[tuple[int, int, int], ...]

    @cached_property
    def columns(self) -> tuple[Any, Any, Any]:
        """Rows int64, columns int64 and masks uint32, an entry for each wrong element."""
        rows, columns, masks = zip(*self.offsets, strict=True)
        return np.array(rows, np.int64), np.array(columns, np.int64), np.array(masks, np.uint32)

    def plain(self) -> list[Any]:
        """The pattern as plain values, for the head of a list; `listed` reads them."""
        return [self.name, self.probability, [list(offset) for offset in self.offsets]]


def listed(values: Sequence[Any]) -> tuple[Pattern, ...]:
    """Patterns from the head of a list. ValueError or TypeError for values that are none."""
    found = []
    for name, probability, offsets in values:
        places = tuple((int(row), int(column), int(mask)) for row, column, mask in offsets)
        if not places or not all(0 < mask < 1 << 32 for _, _, mask in places):
            raise ValueError("a pattern without bits")
        found.append(Pattern(str(name), float(probability), places))
    return tuple(found)


def read_patterns(given: str, beside: str) -> tuple[Pattern, ...]:
    """The patterns of a file.

    Args:
        given: its path, from the folder of `beside` on or from here.
        beside: the campaign file, which errors name.

    Raises:
        ConfigError: a file that cannot be read, or a row that is none; says which line and what would be right.
    """
    near = Path(beside).parent / given
    try:
        text = read_text(str(near) if near.is_file() else given, "a CSV file of patterns")
    except InputError as error:
        raise ConfigError(beside, "faults.patterns", f"{given}: {error.reason}", error.legal) from None
    rows = list(csv.reader(text.splitlines()))
    if not rows or tuple(rows[0]) != HEADER:
        raise ConfigError(beside, "faults.patterns", f"{given} has other columns", ",".join(HEADER))
    found: dict[str, list[tuple[int, int, int]]] = {}
    shares: dict[str, float] = {}
    for line, row in enumerate(rows[1:], 2):
        try:
            if len(row) != len(HEADER):
                raise ValueError(f"{len(row)} columns in place of {len(HEADER)}")
            name, share, *place = row
            probability, offset = float(share), _offset(*place)
            if not 0 < probability < float("inf") or shares.setdefault(name, probability) != probability:
                raise ValueError("a pattern has one probability above 0")
            if any(offset[:2] == other[:2] for other in found.setdefault(name, [])):
                raise ValueError("an element stands in it twice")
        except (ValueError, TypeError) as error:
            legal = f"{','.join(HEADER)}, such as pair,0.25,0,1,0x8000"
            raise ConfigError(beside, "faults.patterns", f"{given}, line {line}: {error}", legal) from None
        found[name].append(offset)
    if not found or sum(map(len, found.values())) > _MOST:
        raise ConfigError(beside, "faults.patterns", f"{given} has {len(found)} patterns", f"1 to {_MOST:,} elements")
    total = sum(shares.values())
    if total == float("inf"):
        raise ConfigError(beside, "faults.patterns", f"{given}: probabilities without a sum", "numbers from 0 to 1")
    return tuple(Pattern(name, shares[name] / total, tuple(places)) for name, places in found.items())


def _offset(row: str, column: str, mask: str) -> tuple[int, int, int]:
    place = int(row), int(column), int(mask, 0)
    if max(map(abs, place[:2])) > _FARTHEST or not 0 < place[2] < 1 << 32:
        raise ValueError("row and column within 65,536, mask of 1 to 32 bits")
    return place
