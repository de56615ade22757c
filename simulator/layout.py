"""Operand layouts as tables: views of the one mapping that each operand has in `isa`."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from isa import IsaError, MmaForm
from isa.mapping import Mapping
from isa.metadata import CODE_BITS
from isa.opcodes import read_opcode
from isa.plain_forms import PlainForm


@dataclass(frozen=True)
class Layout:
    """One operand of one form.

    Attributes:
        title: what it is, for a heading.
        operand: "a", "b", "c", "d" or "e".
        bits: width of an element.
        mapping: (lane, register, element) or (lane, code) <-> (row, column) or (row, chunk, selector).
        selector: which metadata is shown; None for a matrix.
        column: what a column is called.
        logical: formula of the logical column of a stored one, for A of a sparse form.
    """

    title: str
    operand: str
    bits: int
    mapping: Mapping
    selector: int | None = None
    column: str = "column"
    logical: str = ""

    @property
    def shape(self) -> tuple[int, int]:
        return self.mapping.shape[0], self.mapping.shape[1]

    def place(self, row: int, column: int) -> tuple[int, int, int]:
        """(lane, register, lowest bit) of an element; register 0 for metadata."""
        if self.selector is None:
            lane, register, element = (int(p[row, column]) for p in self.mapping.grid)
            return lane, register, element * self.bits
        lane, code = (int(p[row, column, self.selector]) for p in self.mapping.grid)
        return lane, 0, code * self.bits


def layouts(form: str, operand: str = "all", selector: int = 0) -> list[Layout]:
    """The layouts of a form's operands.

    Args:
        form: an opcode; .sync.aligned and .row.col may be left out.
        operand: "a", "b", "c", "d", "e" or "all".
        selector: sparsity selector of the metadata.

    Raises:
        IsaError: no such form, operand or selector.
    """
    found = read_opcode(complete_opcode(form))
    if isinstance(found, PlainForm):
        if found.name != "ldmatrix":
            raise IsaError(form, -1, f"'{found.name}' has no matrix operand", "mma, mma.sp or ldmatrix")
        if operand not in ("d", "all"):
            raise IsaError(form, -1, f"ldmatrix has no operand {operand}", "d, all")
        return [Layout(f"{found.opcode}: destination, rows as addressed by lanes 0, 1, ...", "d", 16, found.matrix.mapping)]
    assert isinstance(found, MmaForm)
    every = {name: _fragment(found, name) for name in "abcd"}
    if found.sparse:
        metadata = found.metadata
        if not 0 <= selector < metadata.selectors:
            raise IsaError(
                form, -1, f"sparsity selector {selector} is out of range", f"0 to {metadata.selectors - 1}" if metadata.selectors > 1 else "0"
            )
        title = f"{found.opcode}: metadata e, {metadata.sparsity.name}, selector {selector}, codes of chunks of {metadata.sparsity.chunk} columns"
        every["e"] = Layout(title, "e", CODE_BITS, metadata.mapping, selector, "chunk")
    if operand != "all" and operand not in every:
        raise IsaError(form, -1, f"a dense form has no operand {operand}", ", ".join(every))
    return list(every.values()) if operand == "all" else [every[operand]]


def complete_opcode(form: str) -> str:
    """Fills in the qualifiers that every form of the instruction has."""
    parts = form.strip().split(".")
    name, given = parts[0], parts[1:]
    fixed = {"mma": ("sync", "aligned", "row", "col"), "ldmatrix": ("sync", "aligned")}.get(name, ())
    layouts_given = any(part in ("row", "col") for part in given)
    missing = [q for q in fixed if q not in given and not (layouts_given and q in ("row", "col"))]
    return ".".join((name, *missing, *given))


def _fragment(form: MmaForm, name: str) -> Layout:
    fragment = getattr(form, name)
    what = "stored matrix A" if name == "a" and form.sparse else f"matrix {name.upper()}"
    rows, columns = fragment.shape
    logical = form.metadata.sparsity.formula if name == "a" and form.sparse else ""
    title = f"{form.opcode}: {what}, {fragment.type}, {rows} x {columns}, {fragment.registers} registers a lane"
    return Layout(title, name, fragment.type.bits, fragment.mapping, logical=logical)


def cells(layout: Layout) -> Iterator[dict[str, int | str]]:
    """One record for each element: operand, row, column, lane, register, low and high bit."""
    rows, columns = layout.shape
    for row in range(rows):
        for column in range(columns):
            lane, register, low = layout.place(row, column)
            yield {
                "operand": layout.operand,
                "row": row,
                layout.column: column,
                "lane": lane,
                "register": register,
                "low_bit": low,
                "high_bit": low + layout.bits - 1,
            }


def as_csv(found: list[Layout]) -> str:
    """All elements of the layouts, one a line; chunks of metadata stand in the column `column`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("operand", "row", "column", "lane", "register", "low_bit", "high_bit"))
    for layout in found:
        writer.writerows(record.values() for record in cells(layout))
    return out.getvalue()


def as_json(layout: Layout) -> dict[str, Any]:
    return {
        "title": layout.title,
        "operand": layout.operand,
        "bits": layout.bits,
        "selector": layout.selector,
        "formulas": _formulas(layout),
        "cells": list(cells(layout)),
    }


def _formulas(layout: Layout) -> dict[str, str]:
    """The mapping in both directions; for A of a sparse form also the logical column. `/` divides integers."""
    return layout.mapping.formulas() | ({"logical column": layout.logical} if layout.logical else {})


def as_text(layout: Layout, view: str = "matrix", *, markdown: bool = False) -> str:
    """A table with a heading and the formulas."""
    head, body = _by_element(layout) if view == "matrix" else _by_lane(layout)
    formulas = [f"  {name} = {text}" for name, text in _formulas(layout).items()]
    if markdown:
        table = ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *body)]
        return "\n".join([f"### {layout.title}", "", *table, "", *(f"-{line[1:]}" for line in formulas), ""]) + "\n"
    widths = [max(len(row[i]) for row in (head, *body)) for i in range(len(head))]
    table = ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in (head, *body)]
    return "\n".join([layout.title, *formulas, "", *table, ""])


def _by_element(layout: Layout) -> tuple[list[str], list[list[str]]]:
    rows, columns = layout.shape
    head = [f"row\\{layout.column}", *map(str, range(columns))]
    return head, [[str(row), *(_place(layout, row, column) for column in range(columns))] for row in range(rows)]


def _place(layout: Layout, row: int, column: int) -> str:
    lane, register, low = layout.place(row, column)
    name = "e" if layout.selector is not None else f"r{register}"
    return f"T{lane} {name}" if layout.bits == 32 else f"T{lane} {name}[{low + layout.bits - 1}:{low}]"


def _by_lane(layout: Layout) -> tuple[list[str], list[list[str]]]:
    held: dict[tuple[int, int, int], str] = {}
    rows, columns = layout.shape
    for row in range(rows):
        for column in range(columns):
            held[layout.place(row, column)] = f"({row},{column})"
    slots = sorted({(register, low) for _, register, low in held})
    name = "e" if layout.selector is not None else "r{}"
    head = ["lane", *(f"{name.format(register)}[{low + layout.bits - 1}:{low}]" for register, low in slots)]
    return head, [[f"T{lane}", *(held.get((lane, register, low), "-") for register, low in slots)] for lane in range(32)]
