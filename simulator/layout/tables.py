"""Prints the layouts of operands as text, Markdown, CSV and JSON, and returns them as data frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.layout.metadata import Selection
from simulator.layout.operand import Operand, Place
from simulator.tables import Table, aligned

if TYPE_CHECKING:
    from pandas import DataFrame

PTX_LANES = (
    "PTX's figures of metadata write T_i for lane i of every four, where i is the selector; T_2i and T_2i+1 where two "
    "lanes of four hold the metadata."
)
"""What T_i means in the figures of PTX ISA 9.7.14.6.2, where only some lanes of four hold metadata."""
_PLACE = ("lane", "word", "low", "high")


def cells(operand: Operand, selection: Selection | None = None) -> Iterator[dict[str, int | str]]:
    """One record for each element, under the names of the operand's own mapping: coordinates, lane, register or column,
    low and high bit.

    Coordinates that a place has, too (`tcgen05.ld`: lane, column), are called to_lane, to_column. With metadata: the
    code of a chunk, and the logical column of a stored element of A ("" where a 1:2 code joins halves of two).
    """
    names = header(operand, selection)
    columns = [operand.table[name].tolist() for name in ("row", "column", "copy")[: len(operand.axes)]]
    columns += [operand.table[name].tolist() for name in _PLACE]
    extra = _concrete(operand, selection)
    if extra is not None:
        columns.append(extra)
    for values in zip([operand.name] * len(columns[0]), *columns, strict=True):
        yield dict(zip(names, values, strict=True))


def header(operand: Operand, selection: Selection | None = None) -> list[str]:
    """The names of the fields of `cells`."""
    axes = [f"to_{axis}" if axis in ("lane", "column") and operand.lane == "thread" else axis for axis in operand.axes]
    word = "tmem_column" if operand.tmem else "register"
    more = {"e": ["code"], "a": ["logical_column"]}.get(operand.name, []) if selection is not None else []
    return ["operand", *axes, operand.lane, word, "low_bit", "high_bit", *more]


def _concrete(operand: Operand, selection: Selection | None) -> list[Any] | None:
    """What metadata says of each element of A or of the metadata."""
    if selection is None or operand.name not in ("a", "e"):
        return None
    row, column = operand.table["row"], operand.table["column"]
    if operand.name == "e":
        return [f"0b{code:0{selection.sparsity.code_bits}b}" for code in selection.codes[row, column].tolist()]
    joined = selection.joined[row, column // selection.sparsity.stored]
    logical = selection.columns[row, column]
    return ["" if halves else int(value) for halves, value in zip(joined.tolist(), logical.tolist(), strict=True)]


def as_csv(operands: Sequence[Operand], selection: Selection | None = None) -> str:
    """All elements as CSV, one in each line; see `table`."""
    return table(operands, selection).csv()


def to_frame(operands: Sequence[Operand] | Mapping[str, Operand], selection: Selection | None = None) -> DataFrame:
    """All elements as a pandas DataFrame, one row for each: `to_frame(form_layout(OPCODE).operands)`."""
    return table(list(operands.values()) if isinstance(operands, Mapping) else operands, selection).frame()


def table(operands: Sequence[Operand], selection: Selection | None = None) -> Table:
    """A table with one row for each element. The second coordinate is always in the column `column`, whatever its own
    name; there is a column for copies only if an operand has any."""
    tmem, copies = operands[0].tmem, any(len(operand.axes) > 2 for operand in operands)
    more = ["code_or_logical_column"] if selection is not None else []
    places = ["lane", "tmem_column" if tmem else "register", "low_bit", "high_bit"]
    rows: list[tuple[Any, ...]] = []
    for operand in operands:
        names = ("row", "column", *["copy"] * copies, *_PLACE)
        columns = [operand.table[name].tolist() for name in names]
        if more:
            columns.append(_concrete(operand, selection) or [""] * len(columns[0]))
        rows += zip([operand.name] * len(columns[0]), *columns, strict=True)
    return Table(("operand", "row", "column", *["copy"] * copies, *places, *more), rows)


def as_json(operand: Operand, selection: Selection | None = None) -> dict[str, Any]:
    """One operand as an object of plain values."""
    record: dict[str, Any] = {
        "title": operand.title,
        "operand": operand.name,
        "bits": operand.bits,
        "source": operand.section,
        "evidence": operand.evidence,
        "formulas": operand.formulas(),
        "cells": list(cells(operand, selection)),
    }
    if selection is not None and operand.name == "e":
        record["defined"] = selection.legal.all().item()
    return record


def as_text(
    operand: Operand, view: str = "matrix", *, selection: Selection | None = None, markdown: bool = False
) -> str:
    """The layout of one operand as a table with a heading and the formulas.

    Args:
        view: "matrix" (by element) or "lanes" (by lane and register).
        selection: concrete metadata: codes stand in the cells of `e`, logical columns in those of `a`.
    """
    head, body = _by_element(operand, selection) if view == "matrix" else _by_lane(operand, selection)
    formulas = [f"  {name} = {text}" for name, text in operand.formulas().items()]
    if selectors(operand) > 1:
        formulas.append(f"  {PTX_LANES}")
    if markdown:
        lines = Table(tuple(head), body).markdown().splitlines()
        return "\n".join([f"### {operand.title}", "", *lines, "", *(f"-{line[1:]}" for line in formulas), ""]) + "\n"
    return "\n".join([operand.title, *formulas, "", *aligned([head, *body], ">"), ""])


def selectors(operand: Operand) -> int:
    """How many selectors choose among the lanes of metadata in registers; 0 for other operands."""
    return 0 if operand.general is None or operand.tmem else dict(operand.general.axes).get("selector", 0)


def places_text(operand: Operand) -> list[str]:
    """Where each element is, by coordinates in order, copies last."""
    columns = (operand.table[name].tolist() for name in _PLACE)
    return [operand.name_of(Place(*place)) for place in zip(*columns, strict=True)]


def _by_element(operand: Operand, selection: Selection | None) -> tuple[list[str], list[list[str]]]:
    """The table by element, with one row for each row of the matrix. Of copies it shows the first place, and how many
    lanes on the others are."""
    copies = operand.shape[2] if len(operand.shape) > 2 else 1
    rows, columns = len(operand.rows_shown), len(operand.columns_shown)
    texts = np.array(places_text(operand), object).reshape(rows, columns, copies)[..., 0]
    extra = _concrete(operand, selection)
    if extra is not None:
        marks = np.array(
            [f" {'k' if operand.name == 'a' else ''}{'?' if mark == '' else mark}" for mark in extra], object
        )
        texts = texts + marks.reshape(rows, columns, copies)[..., 0]
    lines = [[str(row), *line] for row, line in zip(operand.rows_shown, texts.tolist(), strict=True)]
    if copies > 1 and operand.axes[2] == "copy":
        lanes = operand.grid["lane"][0, 0]
        lines.append(
            [
                (
                    f"and {copies - 1} cop{'ies' if copies > 2 else 'y'}, lanes "
                    f"+{', +'.join(map(str, lanes[1:] - lanes[0]))}"
                ),
                *[""] * columns,
            ]
        )
    return [f"{operand.axes[0]}\\{operand.axes[1]}", *map(str, operand.columns_shown)], lines


def _by_lane(operand: Operand, selection: Selection | None) -> tuple[list[str], list[list[str]]]:
    table = operand.table
    slots, slot = np.unique(np.stack([table["word"], table["low"]]), axis=1, return_inverse=True)
    held = np.full((operand.lanes, slots.shape[1]), "-", object)
    names = [table["row"].tolist(), table["column"].tolist()]
    extra = _concrete(operand, selection) or [""] * len(names[0])
    texts = [
        f"({row},{column}){f'={mark}' if mark != '' else ''}" for row, column, mark in zip(*names, extra, strict=True)
    ]
    held[table["lane"], slot.ravel()] = texts
    head = [
        operand.lane,
        *(operand.word_name(word) + operand.bits_name(low, low + operand.bits - 1) for word, low in slots.T.tolist()),
    ]
    letter = "L" if operand.tmem else "T"
    return head, [[f"{letter}{lane}", *held[lane].tolist()] for lane in range(operand.lanes)]
