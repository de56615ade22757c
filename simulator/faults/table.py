"""A list of faults: numpy rows in memory, CSV on disk, one row a fault that says all it takes to inject it again.

Columns: id; group (which of the campaign's groups of faults); seed (of what the fault itself draws); case (which
    operands); model; site; word, lane,
mask (the bits that it concerns); value (what is written, by models that write); word2, lane2, mask2 (the other place,
of models that move); at, until (dynamic instructions of the warp, or cycles; -1: the whole run).
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.errors import TraceError

MODELS = ("flip", "stuck0", "stuck1", "set", "word", "lane", "swap", "selector", "align")
SITES = (
    "a",
    "b",
    "c",
    "d",
    "e",
    "scale_a",
    "scale_b",
    "selector",
    "idesc",
    "a_desc",
    "b_desc",
    "shared",
    "base_d",
    "base_a",
    "base_e",
    "registers",
    "tmem",
)
FIELDS: tuple[tuple[str, str], ...] = (
    ("id", "i8"),
    ("group", "u2"),
    ("seed", "u8"),
    ("case", "u4"),
    ("model", "u1"),
    ("site", "u1"),
    ("word", "u4"),
    ("lane", "u4"),
    ("mask", "u4"),
    ("value", "u4"),
    ("word2", "u4"),
    ("lane2", "i4"),
    ("mask2", "u4"),
    ("at", "i8"),
    ("until", "i8"),
)
DTYPE = np.dtype(list(FIELDS))
HEAD = "# tcsim faults 1"
Faults = NDArray[Any]
_NAMES = {"model": MODELS, "site": SITES}
_HEX = ("seed", "mask", "value", "mask2")
BLOCK = 1 << 15  # rows of a list that are read together


class FaultList(NamedTuple):
    """A list on disk.

    Attributes:
        path: the file.
        about: what its head says: campaign, seed, opcode, digest, ...
        rows: how many.
    """

    path: Path
    about: dict[str, str]
    rows: int


def empty(count: int) -> Faults:
    """Rows of zeros, for the whole run and with no other place."""
    faults = np.zeros(count, DTYPE)
    faults["lane2"] = faults["at"] = faults["until"] = -1
    return faults


def seeds(campaign: int, ids: NDArray[np.integer]) -> NDArray[np.uint64]:
    """A seed for each fault from the campaign's and its id: SplitMix64 (Steele, Lea, Flood 2014), so that no order or
    number of workers matters."""
    with np.errstate(over="ignore"):
        z = (
            ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            + np.uint64(campaign) * np.uint64(0xD1342543DE82EF95)
            + np.uint64(0x9E3779B97F4A7C15)
        )
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def texts(faults: Faults) -> list[str]:
    """The rows as lines of CSV."""
    columns = []
    for name, _ in FIELDS:
        values = faults[name].tolist()
        if name in _NAMES:
            columns.append([_NAMES[name][value] for value in values])
        else:
            columns.append([f"{value:#x}" for value in values] if name in _HEX else list(map(str, values)))
    return [",".join(row) for row in zip(*columns, strict=True)]


def write_head(about: dict[str, object]) -> str:
    """Lines that begin a list: what it is, then the names of the columns."""
    lines = [HEAD, *(f"# {name}: {str(value).replace(chr(10), ' ')}" for name, value in about.items())]
    return "\n".join([*lines, ",".join(name for name, _ in FIELDS), ""])


def read_head(path: Path) -> FaultList:
    """What a list says of itself.

    Raises:
        TraceError: the file is no list of faults, or cannot be read.
    """
    about: dict[str, str] = {}
    count = 0
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            if stream.readline().rstrip() != HEAD:
                raise TraceError(
                    str(path),
                    1,
                    1,
                    "not a list of faults",
                    f"a file that begins with '{HEAD}', as 'tcsim faults list' writes it",
                )
            number, line = 1, ""
            for line in stream:
                number += 1
                if not line.startswith("# "):
                    break
                name, _, value = line[2:].rstrip("\n").partition(": ")
                about[name] = value
            if line.rstrip() != ",".join(name for name, _ in FIELDS):
                raise TraceError(
                    str(path),
                    number,
                    1,
                    "other columns than those of a list of faults",
                    ",".join(name for name, _ in FIELDS),
                )
            count = sum(1 for _ in stream)
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(
            str(path), 0, 0, f"cannot be read ({error})", "a list that 'tcsim faults list' wrote"
        ) from None
    stated = about.get("faults", "")
    if not stated.isdecimal() or int(stated) != count:
        raise TraceError(
            str(path), 0, 0, f"{count} rows, but its head says {stated or 'nothing'}: cut short?", "the whole file"
        )
    return FaultList(path, about, count)


def read_blocks(found: FaultList, first: int = 0, last: int | None = None) -> Iterator[Faults]:
    """Rows `first` .. `last` - 1 in blocks of `BLOCK`; TraceError with the line of a row that is none."""
    last = found.rows if last is None else last
    pieces = [(start, min(start + BLOCK, last)) for start in range(first, last, BLOCK)]
    yield from (rows for _, rows in read_pieces(found, pieces))


def read_pieces(found: FaultList, pieces: Iterable[tuple[int, int]]) -> Iterator[tuple[int, Faults]]:
    """Pieces of a list, from a row to before another, ascending; each with its first row. The file is read once, what
    lies between skipped."""
    with found.path.open(encoding="utf-8", newline="") as stream:
        head = len(found.about) + 2
        for _ in range(head):
            next(stream)
        at = 0
        for first, last in pieces:
            for _ in range(first - at):
                next(stream)
            at = last
            yield (
                first,
                _parsed(
                    found.path,
                    [line.rstrip("\r\n").split(",") for line in islice(stream, last - first)],
                    head + first + 1,
                ),
            )


def _parsed(path: Path, rows: list[list[str]], line: int) -> Faults:
    faults = np.zeros(len(rows), DTYPE)
    try:
        columns = list(zip(*rows, strict=True))
        if len(columns) != len(FIELDS):
            raise ValueError(f"{len(columns)} columns")
        for (name, _), column in zip(FIELDS, columns, strict=True):
            faults[name] = _numbers(name, column)
    except (ValueError, KeyError, OverflowError) as error:
        for offset, row in enumerate(rows):
            if (problem := _problem(row)) is not None:
                raise TraceError(
                    str(path), line + offset, 1, problem, "a row as 'tcsim faults list' writes it"
                ) from None
        raise TraceError(
            str(path), line, 1, f"rows that are none ({error})", "rows as 'tcsim faults list' writes them"
        ) from None
    return faults


def _numbers(name: str, column: Iterable[str]) -> list[int]:
    if name in _NAMES:
        known = {text: number for number, text in enumerate(_NAMES[name])}
        return [known[text] for text in column]
    base = 16 if name in _HEX else 10
    return [int(text, base) for text in column]


def _problem(row: list[str]) -> str | None:
    """What is wrong with a row."""
    if len(row) != len(FIELDS):
        return f"{len(row)} columns in place of {len(FIELDS)}"
    for (name, kind), text in zip(FIELDS, row, strict=True):
        limits = np.iinfo(kind)
        try:
            (value,) = _numbers(name, [text])
        except (ValueError, KeyError):
            return f"{name} is {text!r}"
        if not limits.min <= value <= limits.max:
            return f"{name} is {text}, beyond {limits.min} to {limits.max}"
    return None


def as_dict(fault: Any) -> dict[str, Any]:
    """One row in words and numbers."""
    found: dict[str, Any] = {name: fault[name].item() for name, _ in FIELDS}
    return found | {name: known[found[name]] for name, known in _NAMES.items()}


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Rows as CSV."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()
