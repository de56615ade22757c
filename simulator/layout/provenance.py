"""Traces one element of D back to its inputs: every product in it, which registers hold the factors, and which metadata
bits chose them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from isa import IsaError, stored_columns
from simulator.layout.answers import second_half, second_words
from simulator.layout.catalog import operation_of
from simulator.layout.form import FormLayout
from simulator.layout.metadata import Selection, halves
from simulator.layout.operand import Operand
from simulator.tables import aligned

INDEX_BITS = 2  # of a code choose one stored element, or pair


@dataclass(frozen=True)
class Term:
    """One product that is part of an element of D.

    Attributes:
        stored: column of A as stored.
        a: where the element of A is: `T12 a0[15:0]`.
        rows: rows of B that it may multiply: one if the form is dense or the metadata given; of an undefined 1:2 code
            both, joined.
        b: where those elements of B are; empty if B is in shared memory.
        chunk, code, index: chunk of the metadata, where its code is, and where the bits of it are that choose; -1 and
            empty in a dense form.
        value: the code, or -1 if it is not known.
        joined: "" or, of an undefined 1:2 code, which halves of B make the operand.
        scales: where the scale factors of A and of B are, or nothing.
    """

    stored: int
    a: str
    rows: tuple[int, ...]
    b: tuple[str, ...]
    chunk: int = -1
    code: str = ""
    index: str = ""
    value: int = -1
    joined: str = ""
    scales: tuple[str, ...] = ()


@dataclass(frozen=True)
class Provenance:
    """Everything that contributes to one element of D.

    Attributes:
        form: of which form.
        row, column: of D.
        d, c: where D and C are; C is D itself in Tensor Memory.
        terms: the products, by stored column.
        operation: of b1: what is done with the bits in place of products; "" else.
        b_column: the column of B.
        note: that the row is one of a pair's second CTA, whose cells are named; "" else.
    """

    form: str
    row: int
    column: int
    d: str
    c: str
    terms: tuple[Term, ...]
    operation: str
    b_column: int
    note: str = ""

    def text(self) -> str:
        """A heading and one line for each product."""
        what = (
            f"the ones of {len(self.terms)} bits joined by {self.operation}"
            if self.operation
            else f"{len(self.terms)} products"
        )
        lines = [f"D[{self.row}][{self.column}] of {self.form}", *[f"  {self.note}"] * bool(self.note)]
        lines += [f"  {self.d} = {self.c} + {what}:", ""]
        sign = self.operation.split(".")[0] if self.operation else "*"
        head = ["stored" if self.terms[0].code else "k", "A", "", "B", "is at", "chosen by"]
        body = [self._row(term, sign) for term in self.terms]
        head += ["scale factors"] if self.terms[0].scales else []
        lines += aligned([head, *body], indent="  ")
        return "\n".join(lines) + "\n"

    def _row(self, term: Term, sign: str) -> list[str]:
        value = f" = 0b{term.value:04b}" if term.value >= 0 else ""
        chosen = f"{term.index} in code {term.chunk}, {term.code}{value}" if term.code else "-"
        rows = " or ".join(filter(None, [", ".join(map(str, term.rows[:-1])), str(term.rows[-1])]))
        name = f"B[{term.rows[0]}][{self.b_column}]" if len(term.rows) == 1 else f"B[{rows}][{self.b_column}]"
        row = [str(term.stored), term.a, sign, term.joined or name, ", ".join(term.b) or "shared memory", chosen]
        return row + (["  ".join(term.scales)] if term.scales else [])

    def json(self) -> dict[str, Any]:
        """The same as an object of plain values."""
        terms = [
            {
                "stored_column": t.stored,
                "a": t.a,
                "b_rows": list(t.rows),
                "b": list(t.b),
                "chunk": t.chunk,
                "metadata": t.code,
                "index": t.index,
                "code": t.value,
                "joined": t.joined,
                "scales": list(t.scales),
            }
            for t in self.terms
        ]
        about = {
            "form": self.form,
            "row": self.row,
            "column": self.column,
            "d": self.d,
            "c": self.c,
            "operation": self.operation or "product",
        }
        return {**about, "b_column": self.b_column, "terms": terms} | ({"note": self.note} if self.note else {})


def explain(layout: FormLayout, row: int, column: int, selection: Selection | None = None) -> Provenance:
    """The provenance of D[row][column].

    Raises:
        IsaError: the form multiplies nothing, or has no such element.
    """
    if not layout.multiplies:
        raise IsaError(
            layout.opcode, -1, f"'{layout.opcode}' multiplies nothing", "mma, wgmma.mma_async or tcgen05.mma"
        )
    d = layout.operands["d"]
    if (first := second_half(layout, d, row)) is not None:
        return replace(explain(layout, row - first, column, selection), row=row, note=second_words(row, first))
    place = d.places(row, column)[0]
    c = (
        layout.operands["c"].name_of(layout.operands["c"].places(row, column)[0])
        if "c" in layout.operands
        else d.name_of(place)
    )
    operation = operation_of(layout.form)
    terms = tuple(_term(layout, row, column, stored, selection) for stored in range(layout.k_stored))
    return Provenance(d.form, row, column, d.name_of(place), c, terms, operation, layout.b_column(row, column))


def _term(layout: FormLayout, row: int, column: int, stored: int, selection: Selection | None) -> Term:
    a = _names(layout.operands["a"], row, stored)[0]
    rows, about = _chosen(layout, row, stored, selection)
    b = layout.operands.get("b")
    names = tuple(_names(b, k, layout.b_column(row, column))[0] for k in rows) if b is not None else ()
    return Term(stored, a, rows, names, scales=_scale_names(layout, row, column, rows[0]), **about)


def _chosen(
    layout: FormLayout, row: int, stored: int, selection: Selection | None
) -> tuple[tuple[int, ...], dict[str, Any]]:
    """The rows of B that a stored element multiplies, and how its metadata chooses them."""
    sparsity = layout.sparsity
    if sparsity is None:
        return (stored,), {}
    chunk, inside = divmod(stored, sparsity.stored)
    place = layout.operands["e"].places(row, chunk)[0]
    low = place.low + (0 if sparsity.splices else INDEX_BITS * (inside // sparsity.unit))
    high = place.high if sparsity.splices else low + INDEX_BITS - 1
    name = layout.operands["e"].name_of
    about: dict[str, Any] = {"chunk": chunk, "code": name(place), "index": name(place._replace(low=low, high=high))}
    if selection is None:
        columns = {int(stored_columns(np.array([code], np.uint32), sparsity)[inside]) for code in layout.codes}
        return tuple(sorted(sparsity.chunk * chunk + column for column in columns)), about
    about["value"] = int(selection.codes[row, chunk])
    if selection.joined[row, chunk]:
        of = [(2 * chunk + half // 2, "high" if half % 2 else "low") for half in halves(about["value"])]
        about["joined"] = f"{of[1][1]} half of B[{of[1][0]}] : {of[0][1]} half of B[{of[0][0]}]"
        return (of[1][0], of[0][0]), about
    return (int(selection.columns[row, stored]),), about


def _scale_names(layout: FormLayout, row: int, column: int, k: int) -> tuple[str, ...]:
    """The registers or cells that hold the scale factors of this slice of K."""
    if not layout.factors:
        return ()
    factor = k // (layout.k // layout.factors)
    return tuple(
        _names(layout.operands[name], index, factor)[0] for name, index in (("scale_a", row), ("scale_b", column))
    )


def _names(operand: Operand, *coordinates: int) -> list[str]:
    return [operand.name_of(place) for place in operand.places(*coordinates)]
