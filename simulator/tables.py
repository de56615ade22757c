"""Tables of results, and the one place that writes them: as aligned text, CSV, JSON, Markdown, or pandas DataFrames.

    >>> table = Table(("unit", "share"), [("tensor", 0.5), ("alu", 0.25)])
    >>> print(table.text(), end="")
    unit    share
    tensor    0.5
    alu      0.25
    >>> table.frame().columns.tolist()
    ['unit', 'share']

Results are kept as rows of plain values; only `frame` loads pandas. `render` takes such a table or a DataFrame.
`read_rows` reads CSV files with comments.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.folding import fold_rows, line_width
from simulator.inputs import read_text

if TYPE_CHECKING:
    from pandas import DataFrame

FORMATS = ("table", "csv", "json", "markdown")


@dataclass(frozen=True)
class Table:
    """Rows of plain values under named columns; a name ends with its unit where it has one: `time_us`, `size_bytes`."""

    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]], columns: Sequence[str] = ()) -> Table:
        """The table of some records. Its columns are those that are named, or else all, in the order in which they
        first appear."""
        rows = list(records)
        names = tuple(columns) or tuple(dict.fromkeys(name for record in rows for name in record))
        return cls(names, [tuple(record.get(name) for name in names) for record in rows])

    @classmethod
    def from_frame(cls, frame: DataFrame) -> Table:
        """The table of a DataFrame, without its index."""
        return cls(tuple(map(str, frame.columns)), frame.astype(object).to_numpy().tolist())

    def records(self) -> list[dict[str, Any]]:
        """A dictionary for each row."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def text(self, align: str = "") -> str:
        """The table as text with aligned columns; `align` as in `aligned`, by default numbers to the right."""
        if not align:
            numbers = [all(isinstance(row[i], int | float) for row in self.rows) for i in range(len(self.columns))]
            align = "".join(">" if right and self.rows else "<" for right in numbers)
        return "".join(f"{line}\n" for line in aligned([self.columns, *self.rows], align))

    def shown(self) -> Table:
        """The table for a person: numbers that are no whole ones to four digits. All other forms have them as they are,
        so that factors multiply to their whole."""
        return Table(self.columns, [[to_four_digits(cell) for cell in row] for row in self.rows])

    def csv(self) -> str:
        """The table as CSV: a line of names, then one for each row; None is an empty cell."""
        out = io.StringIO()
        csv.writer(out, lineterminator="\n").writerows(chain([self.columns], self.rows))
        return out.getvalue()

    def markdown(self, align: str = "<") -> str:
        """The table as Markdown; `align` as in `aligned`."""
        marks = ["---:" if way == ">" else "---" for way in _repeated(align, len(self.columns))]
        lines = chain([self.columns, marks], self.rows)
        return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)

    def json(self) -> str:
        """The table as JSON: a list of objects."""
        return json.dumps(self.records(), indent=1) + "\n"

    def frame(self) -> DataFrame:
        """The table as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(list(self.rows), columns=list(self.columns))


def render(table: Table | DataFrame, format: str) -> str:
    """A table or a DataFrame as text in one of `FORMATS`."""
    rows = table if isinstance(table, Table) else Table.from_frame(table)
    return {"table": rows.text, "csv": rows.csv, "json": rows.json, "markdown": rows.markdown}[format]()


def to_four_digits(value: Any) -> Any:
    """A cell for a person: a number that is no whole one to four digits, what sums leave of a zero as 0."""
    return float(f"{round(value, 12):.4g}") if isinstance(value, float) and isfinite(value) else value


def aligned(
    rows: Iterable[Sequence[Any]], align: str = "<", *, widths: Sequence[int] = (), gap: str = "  ", indent: str = ""
) -> list[str]:
    """Rows of cells as lines of text, with columns aligned; folded where lines must not be as wide (`lines_within`).

    Args:
        rows: the cells, which are shown as `str` does; None as nothing.
        align: for each column "<" (left) or ">" (right); the last one holds for all that follow.
        widths: the least width of each column; the last one holds for all that follow.
        gap, indent: the text between columns, and before the first.
    """
    texts = [[_cell(cell) for cell in row] for row in rows]
    count = max(map(len, texts), default=0)
    least = _repeated(widths, count) if widths else [0] * count
    wide = [max(least[i], *(len(row[i]) for row in texts if i < len(row))) for i in range(count)]
    ways = _repeated(align or "<", count)
    if count and 0 < line_width() < len(indent) + sum(wide) + len(gap) * (count - 1):
        needed = [max(len(row[i]) for row in texts if i < len(row)) for i in range(count)]
        return fold_rows(texts, needed, ways, gap, indent, line_width())
    return [
        (indent + gap.join(f"{text:{way}{width}}" for text, way, width in zip(row, ways, wide, strict=False))).rstrip()
        for row in texts
    ]


def read_rows(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, as dictionaries by the names in its first line. Lines of comment begin with #; .gz is
    unpacked."""
    text = read_text(path, "a CSV file")
    return list(csv.DictReader(line for line in io.StringIO(text, newline="") if not line.startswith("#")))


def runs_in_words(numbers: Iterable[int]) -> str:
    """Whole numbers that ascend, as runs.

    >>> runs_in_words([0, 1, 2, 8, 32, 33])
    '0 to 2, 8, 32 to 33'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(f"{first} to {last}" if last > first else str(first) for first, last in runs)


def _repeated(values: Sequence[Any], count: int) -> list[Any]:
    """The first `count` of the values; the last one holds for all that follow."""
    return [value for value, _ in zip(chain(values, repeat(values[-1])), range(count), strict=False)]


def _cell(value: Any) -> str:
    return "" if value is None else str(value)
