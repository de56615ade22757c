"""Rows of a list of faults, read from their text, and what they make of words: docs/faults_rows.md in numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

WORDS = ("model", "site", "along")
HEXADECIMAL = ("seed", "mask", "value", "mask2")
FULL = 0xFFFFFFFF
Rows = Mapping[str, Any]
Reader = Callable[..., Any]


class Place(NamedTuple):
    """Where a site's elements lie, for bursts along rows and columns.

    Attributes:
        shape: words and lanes.
        grid: the place of each element, [row, column, 3]; None for words that belong to no operand.
        live: the bits that are read, uint32 [word, lane].
        bits: of an element's place.
    """

    shape: tuple[int, int]
    grid: Any
    live: Any
    bits: int = 32


class Changes(NamedTuple):
    """What rows change: an entry for each word that a row strikes, as arrays."""

    row: Any
    word: Any
    lane: Any
    before: Any
    after: Any


def read_rows(lines: Sequence[str], columns: Sequence[str]) -> Rows:
    """Rows of a list as arrays, from their text."""
    fields = list(zip(*(line.split(",") for line in lines), strict=True))
    found: dict[str, Any] = {"along": np.full(len(lines), "", object), "span": np.ones(len(lines), np.int64)}
    for name, column in zip(columns, fields, strict=True):
        if name in WORDS:
            found[name] = np.array(column, object)
        elif name == "weight":
            found[name] = np.array(column, np.float64)
        elif name == "seed":
            found[name] = np.array([int(text, 16) for text in column], np.uint64)
        elif name != "check":
            found[name] = np.array([int(text, 16 if name in HEXADECIMAL else 10) for text in column], np.int64)
    return found


def some(rows: Rows, index: Any) -> Rows:
    """Some of the rows."""
    return {name: column[index] for name, column in rows.items()}


def struck_bits(rows: Rows) -> Any:
    """The bits that each row concerns: those of its mask, but of models that are about whole words."""
    fixed = {"word": FULL, "lane": FULL, "lost": FULL, "doubled": FULL, "selector": 3, "align": 0xFFFF0000}
    return np.array([fixed.get(model, mask) for model, mask in zip(rows["model"], rows["mask"], strict=True)], np.int64)


def lowest(masks: Any) -> Any:
    """The position of the lowest bit of each mask."""
    return np.bitwise_count((masks & -masks) - 1).astype(np.int64) * (masks != 0)


def _shift(values: Any, by: Any) -> Any:
    return np.where(by >= 0, values << np.maximum(by, 0), values >> np.maximum(-by, 0))


def changes(rows: Rows, read: Reader, place: Place, models: Mapping[int, str], patterns: Sequence[Any]) -> Changes:
    """What rows of one site change; `read` gives the words of rows (by number) at words and lanes, with `former` what
    those held before they were written."""
    first, doubled = struck_bits(rows), rows["model"] == "doubled"
    written = rows["word"], rows["lane"]
    rows = dict(rows) | {name: np.where(doubled, rows[f"{name}2"], rows[name]) for name in ("word", "lane")}
    row, word, lane, mask, shift = _places(rows, first, place, patterns)
    before = read(row, word, lane).astype(np.int64)
    model, value = rows["model"][row], _shift(rows["value"][row], shift)
    becomes = np.zeros(len(row), np.int64)
    for name in set(model.tolist()):
        mine = model == name
        some_rows = row[mine]
        becomes[mine] = {
            "flip": lambda mine, _: ~before[mine],
            "stuck0": lambda mine, _: 0,
            "stuck1": lambda mine, _: FULL,
            "set": lambda mine, _: value[mine],
            "word": lambda mine, _: value[mine],
            "selector": lambda mine, _: value[mine],
            "align": lambda mine, _: value[mine] << 16,
            "lane": lambda mine, rows_: read(rows_, word[mine], rows["lane2"][rows_]),
            "lost": lambda mine, rows_: read(rows_, word[mine], lane[mine], True),
            "doubled": lambda mine, rows_: read(rows_, written[0][rows_], written[1][rows_]),
            "swap": lambda mine, rows_: _moved(
                read(rows_, rows["word2"][rows_], rows["lane2"][rows_]), rows["mask2"][rows_], mask[mine]
            ),
            "own": lambda mine, rows_: _own(some(rows, rows_), before[mine], mask[mine], models),
        }[name](mine, some_rows)
    after = before & ~mask | becomes & mask
    swap = np.flatnonzero(rows["model"] == "swap")
    if len(swap):  # the other place gets what was here
        word2, lane2, mask2 = (rows[name][swap] for name in ("word2", "lane2", "mask2"))
        there = read(swap, word2, lane2).astype(np.int64)
        here = _moved(read(swap, rows["word"][swap], rows["lane"][swap]), first[swap], mask2)
        columns = swap, word2, lane2, there, there & ~mask2 | here & mask2
        row, word, lane, before, after = (
            np.concatenate(pair) for pair in zip((row, word, lane, before, after), columns, strict=True)
        )
    return _together(row, word, lane, before, after)


def _moved(words: Any, source: Any, to: Any) -> Any:
    return _shift(words.astype(np.int64) & source, lowest(to) - lowest(source))


def _own(rows: Rows, before: Any, mask: Any, models: Mapping[int, str]) -> Any:
    """What models of one's own make of the elements under masks."""
    width, low = np.bitwise_count(mask).astype(np.int64), lowest(mask)
    top = (np.int64(1) << width) - 1
    found = np.zeros(len(before), np.int64)
    scope = {"bits": (before & mask) >> low, "bit": rows["value"], "width": width,
             "random": (rows["seed"] >> np.uint64(32)).astype(np.int64) & top}  # fmt: skip
    for group in set(rows["group"].tolist()):
        mine = rows["group"] == group
        here = {name: values[mine] for name, values in scope.items()}
        found[mine] = eval(models[group], {"__builtins__": {}, "where": np.where}, here)
    return (found & top) << low


def _together(row: Any, word: Any, lane: Any, before: Any, after: Any) -> Changes:
    """Each word once for each row: changes of several places in one word come together."""
    key = (row * (1 << 20) + word) * (1 << 10) + lane
    unique, index, inverse = np.unique(key, return_index=True, return_inverse=True)
    turned = np.zeros(len(unique), np.int64)
    np.bitwise_xor.at(turned, inverse, before ^ after)
    return Changes(row[index], word[index], lane[index], before[index], before[index] ^ turned)


def _places(rows: Rows, mask: Any, place: Place, patterns: Sequence[Any]) -> tuple[Any, ...]:
    """Every place of every row: row, word, lane, mask, and by how many bits the element lies higher than the first."""
    along, span = rows["along"], rows["span"]
    parts = []
    for axis in set(along.tolist()):
        mine = np.flatnonzero(along == axis)
        if axis == "pattern":
            for number in set(span[mine].tolist()):
                which = mine[span[mine] == number]
                for down, right, bits in patterns[number]:
                    parts.append(_element(rows, which, mask, place, down, right, bits))
            continue
        for step in range(int(span[mine].max()) if axis else 1):
            which = mine[span[mine] > step] if axis else mine
            if axis in ("rows", "columns"):
                parts.append(
                    _element(rows, which, mask, place, step * (axis == "rows"), step * (axis == "columns"), None)
                )
                continue
            word = rows["word"][which] + step * (axis == "words")
            lane = rows["lane"][which] + step * (axis == "lanes")
            parts.append((which, word, lane, mask[which], np.zeros(len(which), np.int64)))
    row, word, lane, bits, shift = (np.concatenate(column) for column in zip(*parts, strict=True))
    inside = (word >= 0) & (word < place.shape[0]) & (lane >= 0) & (lane < place.shape[1])
    return row[inside], word[inside], lane[inside], bits[inside], shift[inside]


def _element(rows: Rows, which: Any, mask: Any, place: Place, down: int, right: int, bits: int | None) -> Any:
    """The place of the element so many rows down and columns to the right of the one that is struck; with `bits`, those
    of it, and otherwise the same ones as of the first."""
    word, lane, low = rows["word"][which], rows["lane"][which], lowest(mask[which])
    if place.grid is None:
        return which, word + down, lane + right, (bits or 0) << low, np.zeros(len(which), np.int64)
    number = np.full((*place.shape, 32), -1, np.int64)
    rows_, columns = place.grid.shape[:2]
    for bit in range(place.bits):
        spot = place.grid
        number[spot[..., 0], spot[..., 1], spot[..., 2] + bit] = np.arange(rows_ * columns).reshape(rows_, columns)
    struck = number[word, lane, low]
    row, column = struck // columns + down, struck % columns + right
    inside = (struck >= 0) & (row >= 0) & (row < rows_) & (column >= 0) & (column < columns)
    new = place.grid[np.where(inside, row, 0), np.where(inside, column, 0)]
    old = place.grid.reshape(-1, 3)[struck, 2]
    shift = new[:, 2] - old
    masks = _shift(mask[which], shift) if bits is None else bits << new[:, 2]
    return which, np.where(inside, new[:, 0], -1), new[:, 1], masks, shift
