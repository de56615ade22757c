"""Answers where a whole row of an operand is: every element of it, in one answer."""

from __future__ import annotations

from typing import Any

from simulator.layout.answers import Answer, Fact, in_second, second_half
from simulator.layout.form import FormLayout
from simulator.layout.metadata import Selection
from simulator.layout.operand import Operand
from simulator.layout.queries import element_name, source


def where_row(layout: FormLayout, name: str, row: int, selection: Selection | None = None) -> Answer:
    """Answers which bits of which lanes' registers (or cells) hold the elements of a row: of metadata its codes, of a
    sparse A its stored elements.

    Args:
        layout: the form and its operands.
        name: the operand.
        row: the row; IsaError if there is none.
        selection: concrete metadata: codes, and the logical columns of stored elements of A.
    """
    operand = layout.operand(name)
    if (first := second_half(layout, operand, row)) is not None:
        return in_second(where_row(layout, name, row - first, selection), row, first)
    operand.places(row, 0)  # IsaError for a row that does not exist
    facts = [fact for column in range(operand.shape[1]) for fact in _held(layout, operand, row, column, selection)]
    lines = tuple(f"{place} = {formula}" for place, formula in operand.formulas().items())
    return Answer(f"{element_name(operand)}[{row}]", operand.form, tuple(facts), lines, source(operand))


def _held(layout: FormLayout, operand: Operand, row: int, column: int, selection: Selection | None) -> list[Fact]:
    data: dict[str, Any] = {"row": row, "column": column}
    words = f"{operand.axes[1]} {column}"
    if operand.name == "e" and layout.sparsity is not None:
        first, size = column * layout.sparsity.chunk, layout.sparsity.chunk
        words = f"chunk {column} (columns {first} to {first + size - 1})"
        if selection is not None:
            data["code"] = int(selection.codes[row, column])
            problem = selection.problem(row, column)
            words += f" = 0b{data['code']:0{selection.sparsity.code_bits}b}" + f", not defined ({problem})" * bool(
                problem
            )
    elif operand.logical:
        words = f"stored column {column}"
        if selection is not None and not selection.joined[row, column // selection.sparsity.stored]:
            data["logical_column"] = int(selection.columns[row, column])
            words += f", column {data['logical_column']}"
    facts = []
    for copy, place in enumerate(operand.places(row, column)):
        text = f"{operand.name_of(place):<15} {words}" + (f", copy {copy}" if copy else "")
        facts.append(Fact("held by", text, {"place": operand.name_of(place), **place._asdict(), "copy": copy, **data}))
    return facts
