"""Selections: texts such as `op=mma.sp role=e lanes=0..1 line=40..60`, which say where the faults of a group strike.

A selection is a list of terms with spaces between them, all of which hold: `key=values` or `key!=values`. Values are
separated by commas, one of which must match; numbers may be ranges, `first..last`, both included. `KEYS` says what the
keys are. The words live, dead and all may stand there too: bits that are read, the others, or both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import ConfigError, did_you_mean
from simulator.faults.group import WHERE

KEYS: Mapping[str, str] = {
    "op": "an opcode or its beginning (mma.sp, ld.global), or a group of instructions (`tcsim faults list --count`)",
    "role": "an operand by its name in PTX (a, b, c, d, e), or selector, scale, descriptor, address, source, "
    "destination",
    "line": "lines of the trace or of the PTX",
    "source": "lines of the source that the PTX names: FILE:LINE or FILE:FIRST..LAST",
    "register": "registers by name: %r5",
    "buffer": "buffers of a launch by name",
    "words": "words of the site: registers of a lane, 32-bit words of memory, columns",
    "lanes": "lanes",
    "bits": "bits of a word",
    "warps": "warps, over all CTAs",
    "ctas": "CTAs",
    "time": "dynamic instructions of the warp, or cycles",
}
_LINES = re.compile(r"[0-9]+(\.\.[0-9]+)?")
_NAMES = ("op", "role", "register", "buffer", "source")  # whose values are words and no numbers
OF_INSTRUCTIONS = ("op", "role", "line", "source", "register")
"""Keys that select instructions."""
OF_PROGRAMS = ("line", "source", "register", "warps", "ctas", "time")
"""Keys that mean nothing for a single instruction."""


@dataclass(frozen=True)
class Term:
    """One term of a selection.

    Attributes:
        key: one of `KEYS`.
        values: words, or ranges (first, last) of numbers.
        unequal: whether the term excludes them.
    """

    key: str
    values: tuple[Any, ...]
    unequal: bool = False

    def numbers(self, given: Any) -> NDArray[np.bool_]:
        """Whether each of these numbers is selected."""
        array = np.asarray(given)
        found = np.zeros(array.shape, np.bool_)
        for first, last in self.values:
            found |= (array >= first) & (array <= last)
        return found ^ self.unequal

    def matches(self, holds: Callable[[Any], bool]) -> bool:
        """Whether one of the values holds; of a term that excludes, none."""
        return any(map(holds, self.values)) != self.unequal


@dataclass(frozen=True)
class Selection:
    """A selection that was read: its text, and its terms."""

    text: str
    terms: tuple[Term, ...]

    def of(self, key: str) -> list[Term]:
        """The terms of a key."""
        return [term for term in self.terms if term.key == key]

    def numbers(self, key: str, given: Any) -> NDArray[np.bool_]:
        """Whether each of these numbers is selected by all terms of a key."""
        found = np.ones(np.shape(given), np.bool_)
        for term in self.of(key):
            found &= term.numbers(given)
        return found

    def matches(self, key: str, holds: Callable[[Any], bool]) -> bool:
        """Whether something is selected by all terms of a key; `holds` says it of one value."""
        return all(term.matches(holds) for term in self.of(key))

    def uses(self, keys: Iterable[str]) -> list[str]:
        """Those of the keys that the selection has."""
        given = {term.key for term in self.terms}
        return [key for key in keys if key in given]


def read_selection(text: str, place: str = "where", path: str = "campaign") -> Selection:
    """A selection from its text.

    Raises:
        ConfigError: a key or a value that is none; `path` and `place` say whose.
    """
    terms = []
    for word in text.split():
        if word in WHERE:
            continue
        key, equals, values = word.partition("=")
        unequal = key.endswith("!")
        key = key.removesuffix("!")
        if not equals or key not in KEYS:
            reason = f"'{word}' is no term{did_you_mean(key, (*KEYS, *WHERE))}"
            legal = f"KEY=VALUES with one of {', '.join(KEYS)}; or {', '.join(WHERE)}"
            raise ConfigError(path, place, reason, legal)
        terms.append(Term(key, tuple(_value(path, place, key, value) for value in values.split(",")), unequal))
    return Selection(text, tuple(terms))


def _value(path: str, place: str, key: str, text: str) -> Any:
    if key in _NAMES:
        if not text:
            raise ConfigError(path, place, f"{key} without a value", f"{key}: {KEYS[key]}")
        return text
    return _range(path, place, key, text)


def _range(path: str, place: str, key: str, text: str) -> tuple[int, int]:
    first, dots, last = text.partition("..")
    try:
        span = int(first, 0), int(last if dots else first, 0)
    except ValueError:
        span = -1, -1
    if not 0 <= span[0] <= span[1]:
        raise ConfigError(path, place, f"{key} is '{text}'", f"{KEYS[key]}: numbers such as 3, 0..1 or 0,4..7")
    return span


def begins(opcode: str, part: str) -> bool:
    """Whether an opcode begins with these parts: "mma.sp" is one of "mma.sp.sync", "mma.s" is not."""
    return opcode == part or opcode.startswith((f"{part}.", f"{part}::"))


def source_holds(source: tuple[str, int] | None, value: str) -> bool:
    """Whether a source line (file, line) is one of FILE:LINE, FILE:FIRST..LAST or FILE; of the file its last parts
    count."""
    if source is None:
        return False
    file, colon, lines = value.rpartition(":")
    if not colon or not _LINES.fullmatch(lines):
        file, lines = value, ""
    named = not file or source[0] == file or source[0].endswith(f"/{file}")
    first, dots, last = lines.partition("..")
    return named and (not lines or int(first) <= source[1] <= int(last if dots else first))
