"""Lists of faults: numpy rows in memory, CSV on disk. Each row is one fault, and says everything that is needed to
inject it again.

The columns are: id; group (which of the campaign's groups of faults); seed (for what the fault itself draws); case
(which operands, or which warp); model; site; word, lane, mask (the bits that it concerns); value (what is written, by
models that write); word2, lane2, mask2 (the other place, of models that move); at, until (dynamic instructions of the
warp, or cycles; -1: the whole run). Lists have these columns alone, and of the following ones those that they need:

    along, span   a fault of `span` places, which follow each other along words, lanes, rows or columns of the operand;
                  "pattern": the places of the campaign's pattern `span`
    period, duty  an intermittent fault: of each `period` instructions it holds in the first `duty`; 0: always
    weight        what the fault stands for, such as the cycles for which its word holds this value
    check         the CRC-32 of the row before it, in hexadecimal digits

Files of results have the same shape and more columns.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.errors import TraceError
from simulator.faults.head import check_head
from simulator.inputs import InputError, input_path

MODELS = (
    "flip", "stuck0", "stuck1", "set", "word", "lane", "swap", "selector", "align", "own", "lost", "doubled",
)  # fmt: skip
SITES = (
    "a", "b", "c", "d", "e", "scale_a", "scale_b", "selector", "idesc", "a_desc", "b_desc", "shared",
    "base_d", "base_a", "base_e", "registers", "tmem", "global",
    "multiplier", "term", "adder", "mux", "selector_input", "output",
    "registers16", "predicates", "l1", "l2",
)  # fmt: skip
FIELDS: tuple[tuple[str, str], ...] = (
    ("id", "i8"), ("group", "u2"), ("seed", "u8"), ("case", "u4"), ("model", "u1"), ("site", "u1"), ("word", "u4"),
    ("lane", "u4"), ("mask", "u4"), ("value", "u4"), ("word2", "u4"), ("lane2", "i4"), ("mask2", "u4"), ("at", "i8"),
    ("until", "i8"),
)  # fmt: skip
MORE: tuple[tuple[str, str], ...] = (
    ("along", "u1"), ("span", "u4"), ("period", "i8"), ("duty", "i8"), ("weight", "f8"),
)  # fmt: skip
"""Fields that a list has columns for where a fault of it is not what `DEFAULTS` says."""
DEFAULTS: Mapping[str, float] = {"along": 0, "span": 1, "period": 0, "duty": 0, "weight": 1.0}
ALONG = ("", "words", "lanes", "rows", "columns", "pattern")
DTYPE = np.dtype([*FIELDS, *MORE])
COLUMNS = tuple(name for name, _ in FIELDS)
CHECK = "check"
Faults = NDArray[Any]
NAMED: Mapping[str, tuple[str, ...]] = {"model": MODELS, "site": SITES, "along": ALONG}
HEXADECIMAL = ("seed", "mask", "value", "mask2")
BLOCK = 1 << 15  # rows of a list that are read together


class Kind(NamedTuple):
    """A kind of file: its first line, its columns, what it is called, which command writes it, and which of the columns
    a file may lack."""

    head: str
    columns: tuple[str, ...]
    what: str
    writer: str
    optional: Collection[str] = ()

    def has(self, columns: Sequence[str]) -> bool:
        """Whether a file can have just these columns."""
        given = iter(self.columns)
        return all(name in given for name in columns) and set(self.columns) - set(columns) <= set(self.optional)


LIST = Kind("# tcsim faults 1", (*COLUMNS, *DEFAULTS, CHECK), "list of faults", "tcsim faults list", (*DEFAULTS, CHECK))


class FaultList(NamedTuple):
    """A list of faults, or a file of results, on disk.

    Attributes:
        path: the file.
        about: what its head says: campaign, seed, opcode, digest, ...
        rows: how many rows it has.
        columns: the columns that it has.
    """

    path: Path
    about: dict[str, str]
    rows: int
    columns: tuple[str, ...] = COLUMNS


def empty(count: int) -> Faults:
    """Rows of zeros, that stand for the whole run and have no second place."""
    faults = np.zeros(count, DTYPE)
    faults["lane2"] = faults["at"] = faults["until"] = -1
    for name, value in DEFAULTS.items():
        faults[name] = value
    return faults


def seeds(campaign: int, ids: NDArray[np.integer]) -> NDArray[np.uint64]:
    """A seed for each fault, from the campaign's seed and the fault's id: SplitMix64 (Steele, Lea, Flood 2014). So
    neither the order nor the number of workers matters."""
    with np.errstate(over="ignore"):
        z = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(campaign) * np.uint64(0xD1342543DE82EF95)
        z += np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def texts(faults: Faults, names: Sequence[str] = COLUMNS) -> list[str]:
    """The rows of a list as lines of CSV, with these columns."""
    columns = []
    for name in (name for name in names if name != CHECK):
        values = faults[name].tolist()
        if name in NAMED:
            columns.append([NAMED[name][value] for value in values])
        else:
            columns.append([f"{value:#x}" for value in values] if name in HEXADECIMAL else list(map(repr, values)))
    rows = [",".join(row) for row in zip(*columns, strict=True)]
    return [f"{row},{checksum(row)}" for row in rows] if CHECK in names else rows


def checksum(row: str) -> str:
    """The CRC-32 of a row's text, eight hexadecimal digits."""
    return f"{zlib.crc32(row.encode()):08x}"


def columns_of(faults: Faults) -> tuple[str, ...]:
    """The columns that rows need: those of every list, and the others in which one differs from its default."""
    return (*COLUMNS, *(name for name, value in DEFAULTS.items() if (faults[name] != value).any()))


def as_dict(fault: Any) -> dict[str, Any]:
    """One row of a list as a dictionary of words and numbers."""
    row: dict[str, Any] = {name: fault[name].item() for name in columns_of(fault)}
    return row | {name: names[row[name]] for name, names in NAMED.items() if name in row}


def to_frame(rows: Faults, named: Mapping[str, tuple[str, ...]] = NAMED) -> Any:
    """Rows as a pandas DataFrame: models and sites (or what `named` names) as words, all else as numbers."""
    import pandas as pd

    frame = pd.DataFrame({name: rows[name] for name in rows.dtype.names or ()})
    for name, words in named.items():
        frame[name] = np.array(words)[rows[name]]
    return frame


# Files


def write_head(about: Mapping[str, object], kind: Kind = LIST, columns: Sequence[str] = COLUMNS) -> str:
    """The lines at the beginning of a file: what it is, then the names of the columns."""
    lines = [kind.head, *(f"# {name}: {str(value).replace(chr(10), ' ')}" for name, value in about.items())]
    return "\n".join([*lines, ",".join(columns), ""])


def read_head(given: str | Path, kind: Kind = LIST) -> FaultList:
    """Reads the head of a file: what the file says of itself.

    Raises:
        TraceError: the file is of another kind, cut short, or cannot be read; a value of its head is not legal.
    """
    about: dict[str, str] = {}
    try:
        path = input_path(given, f"a {kind.what}")
        with path.open(encoding="utf-8", newline="") as stream:
            if stream.readline(len(kind.head) + 3).rstrip() != kind.head:
                legal = f"a file that begins with '{kind.head}', as '{kind.writer}' writes it"
                raise TraceError(str(path), 1, 1, f"not a {kind.what}", legal)
            number, line = 1, ""
            for line in stream:
                number += 1
                if not line.startswith("# "):
                    break
                name, _, value = line[2:].rstrip("\r\n").partition(": ")
                if name in about:
                    raise TraceError(str(path), number, 1, f"'{name}' stands in the head twice", "once")
                about[name] = value
            columns = tuple(line.rstrip().split(","))
            if not kind.has(columns):
                legal = ",".join(kind.columns)
                raise TraceError(str(path), number, 1, f"other columns than those of a {kind.what}", legal)
            count = sum(1 for _ in stream)
    except InputError as error:
        shown = str(given) if isinstance(given, (str, Path)) else ""
        raise TraceError(shown, 0, 0, error.reason, f"a {kind.what} that '{kind.writer}' wrote") from None
    except (OSError, UnicodeDecodeError) as error:
        legal = f"a {kind.what} that '{kind.writer}' wrote"
        raise TraceError(str(path), 0, 0, f"cannot be read ({error})", legal) from None
    check_head(path, about)
    stated = about.get("faults", "")
    if not stated.isdecimal() or int(stated) != count:
        reason = f"{count} rows, but its head says {stated or 'nothing'}: cut short?"
        raise TraceError(str(path), 0, 0, reason, "the whole file")
    return FaultList(path, about, count, columns)


def read_blocks(found: FaultList) -> Iterator[Faults]:
    """All rows in blocks of `BLOCK`; errors as `read_pieces`."""
    pieces = [(start, min(start + BLOCK, found.rows)) for start in range(0, found.rows, BLOCK)]
    yield from (rows for _, rows in read_pieces(found, pieces))


def read_pieces(found: FaultList, pieces: Iterable[tuple[int, int]]) -> Iterator[tuple[int, Faults]]:
    """Pieces of a list, from a row to before another, ascending; each with its first row. The file is read once, what
    lies between skipped. TraceError with the line of a row that is none."""
    with found.path.open(encoding="utf-8", newline="") as stream:
        line = len(found.about) + 2
        lines = islice(stream, line, None)
        row = 0
        for first, last in pieces:
            part = islice(lines, first - row, last - row)
            yield first, _parsed(found, [text.rstrip("\r\n") for text in part], line + first + 1)
            row = last


def _parsed(found: FaultList, lines: list[str], line: int) -> Faults:
    """The rows of a list from lines of text; TraceError names the line of the first row that is wrong."""
    rows, faults = [text.split(",") for text in lines], empty(len(lines))
    try:
        for name, column in zip(found.columns, zip(*rows, strict=True), strict=True):
            if name != CHECK:
                faults[name] = _numbers(name, column)
        wrong = CHECK in found.columns and any(checksum(text[:-9]) != text[-8:] for text in lines)
        wrong = wrong or not np.isfinite(faults["weight"]).all() or bool((faults["weight"] < 0).any())
        wrong = wrong or bool((faults["group"] >= _groups(found)).any())
        problem = "a value that is none" if wrong else ""
    except (ValueError, KeyError, OverflowError) as error:
        problem = str(error)
    if problem:
        problems = ((number, said) for number, text in enumerate(lines) if (said := _problem(found, text)))
        number, said = next(problems, (0, f"rows that are none ({problem})"))
        raise TraceError(str(found.path), line + number, 1, said, "a row as 'tcsim faults list' writes it")
    return faults


def _numbers(name: str, column: Iterable[str]) -> Sequence[float]:
    if name in NAMED:
        known = {text: number for number, text in enumerate(NAMED[name])}
        return [known[text] for text in column]
    if DTYPE[name].kind == "f":
        return list(map(float, column))
    base = 16 if name in HEXADECIMAL else 10
    return [int(text, base) for text in column]


def _groups(found: FaultList) -> int:
    """How many groups the head of a file names; as many as a row can say where it names none."""
    return len(json.loads(found.about["groups"])) if "groups" in found.about else 1 << 16


def _problem(found: FaultList, line: str) -> str:
    """What is wrong with a row; empty for nothing."""
    row = line.split(",")
    if len(row) != len(found.columns):
        return f"{len(row)} columns in place of {len(found.columns)}"
    for name, text in zip(found.columns, row, strict=True):
        if name == CHECK:
            right = checksum(line[: -len(text) - 1])
            return "" if text == right else f"the check of the row is {text!r}, of what stands there it is {right}"
        try:
            (value,) = _numbers(name, [text])
        except (ValueError, KeyError):
            return f"{name} is {text!r}"
        low, high = _limits(name)
        if not low <= value <= high:
            return f"{name} is {text}, beyond {low} to {high}"
        if name == "group" and value >= _groups(found):
            return f"group is {text}, of {_groups(found)} that the head names (from 0)"
    return ""


def _limits(name: str) -> tuple[float, float]:
    """The least and the largest value that a column can have."""
    kind = DTYPE[name]
    if kind.kind == "f":
        return 0.0, float(np.finfo(kind).max)
    limits = np.iinfo(kind)
    return int(limits.min), int(limits.max)
