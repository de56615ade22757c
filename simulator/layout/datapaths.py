"""The data path layouts A to G of `tcgen05.mma` as a table. See `isa.tensor_memory.datapath` for the rows, and for who
says so."""

from __future__ import annotations

import csv
import io
import json

from isa.tensor_memory.address import TMEM_LANES
from isa.tensor_memory.datapath import LAYOUTS

HEAD = (
    "layout",
    "M",
    "cta_group",
    "path",
    "rows in a CTA",
    "base lane",
    "lane of D's (row, n), N = 64",
    "column",
    "D",
    "A",
)
_N = 64


def rows() -> list[tuple[str, ...]]:
    """One row for each layout and base lane, formulas from the mapping."""
    found: list[tuple[str, ...]] = []
    for layout in LAYOUTS.values():
        for base in layout.base_lanes:
            formulas = layout.d(_N, base).formulas()
            size = (layout.name, str(layout.m), str(layout.cta_group), layout.path, str(layout.rows), str(base))
            found.append((*size, formulas["lane"], formulas["column"], layout.evidence, layout.a_evidence))
    return found


def as_text(*, markdown: bool = False) -> str:
    """A table; `/` divides integers."""
    lines = [HEAD, *rows()]
    if markdown:
        table = [HEAD, tuple("---" for _ in HEAD), *rows()]
        return "\n".join("| " + " | ".join(line) + " |" for line in table) + "\n"
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table_lines = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
    about = f"{TMEM_LANES} lanes of Tensor Memory; rows are those of one CTA; C and F use 16 lanes of each 32, D, A and metadata the same ones"
    return "\n".join([*table_lines, "", about, ""])


def as_csv() -> str:
    """The same as CSV."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([HEAD, *rows()])
    return out.getvalue()


def as_json() -> str:
    """The same as a list of objects."""
    return json.dumps([dict(zip(HEAD, line, strict=True)) for line in rows()], indent=1) + "\n"
