"""Prints the data path layouts A to G of `tcgen05.mma` as a table. `isa.tensor_memory.datapath` defines them and names
the source of each."""

from __future__ import annotations

from isa.tensor_memory.address import TMEM_LANES
from isa.tensor_memory.datapath import LAYOUTS
from simulator.tables import Table

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


def table() -> Table:
    """The table of the layouts."""
    return Table(HEAD, rows())


def rows() -> list[tuple[str, ...]]:
    """The rows of the table, one for each layout and base lane, with formulas from the mapping."""
    lines: list[tuple[str, ...]] = []
    for layout in LAYOUTS.values():
        for base in layout.base_lanes:
            formulas = layout.d(_N, base).formulas()
            size = (layout.name, str(layout.m), str(layout.cta_group), layout.path, str(layout.rows), str(base))
            lines.append((*size, formulas["lane"], formulas["column"], layout.evidence, layout.a_evidence))
    return lines


def as_text(*, markdown: bool = False) -> str:
    """The table as text; `/` divides integers."""
    if markdown:
        return table().markdown()
    about = "rows are those of one CTA; C and F use 16 lanes of each 32, D, A and metadata the same ones"
    return f"{table().text('<')}\n{TMEM_LANES} lanes of Tensor Memory; {about}\n"


def as_csv() -> str:
    """The table as CSV."""
    return table().csv()


def as_json() -> str:
    """The table as a list of objects."""
    return table().json()
