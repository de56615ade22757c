"""Answers two questions: where is an element, and what is in a register? Answers come with names, metadata codes and
formulas, all from the operands' mappings.

Without metadata an answer about a sparse A lists the codes that decide it; with metadata it names one place, or says
"pruned".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from isa import IsaError, Sparsity, stored_columns
from isa.fragments.metadata import CODE_BITS
from simulator.layout.answers import Answer, Fact, in_second, second_half
from simulator.layout.catalog import form_layout
from simulator.layout.form import FormLayout
from simulator.layout.metadata import Selection, halves
from simulator.layout.operand import Operand, Place

# Where


def where(
    layout: FormLayout, name: str, row: int, column: int, selection: Selection | None = None, *, stored: bool = False
) -> Answer:
    """Answers which bits of which lane's register (or cell) hold an element.

    Args:
        layout: the form and its operands.
        name: the operand.
        row, column: coordinates under the operand's own names; for A of a sparse form the column is the logical one
            unless `stored`.
        selection: concrete metadata.

    Raises:
        IsaError: no such operand or element.
    """
    operand = layout.operand(name)
    if (first := second_half(layout, operand, row)) is not None:
        return in_second(where(layout, name, row - first, column, selection, stored=stored), row, first)
    if layout.sparsity is not None and operand.name == "a" and not stored:
        return _where_logical(layout, operand, row, column, selection)
    subject = f"{element_name(operand)}[{row}][{column}]"
    facts = [_held(operand, place, number) for number, place in enumerate(operand.places(row, column))]
    if layout.sparsity is not None and operand.name == "a":
        facts += [
            *_stored_facts(layout, row, column, selection),
            _metadata_fact(layout, row, column // layout.sparsity.stored, selection),
        ]
    elif operand.name == "e" and selection is not None:
        facts.append(_metadata_fact(layout, row, column, selection))
    return Answer(subject, operand.form, tuple(facts), tuple(substituted(operand, row, column)), source(operand))


def source(operand: Operand) -> str:
    """The source of the operand's layout, and how well it is known."""
    return f"{operand.section}; {operand.evidence}"


def element_name(operand: Operand) -> str:
    """The name of the operand's elements, without indices."""
    if operand.name == "a" and operand.logical:
        return "stored A"
    return {"e": "code", "address": "matrix", "scale_a": "scale_a", "scale_b": "scale_b"}.get(
        operand.name, operand.name.upper()
    )


def _held(operand: Operand, place: Place, copy: int = 0, more: str = "", **data: Any) -> Fact:
    name = f"{operand.name_of(place)}"
    which = f"copy {copy}" if copy else ""
    text = f"{name:<15} {more or which}".rstrip()
    return Fact("held by", text, {"place": name, **place._asdict(), "copy": copy, **data})


def _where_logical(layout: FormLayout, operand: Operand, row: int, column: int, selection: Selection | None) -> Answer:
    assert layout.sparsity is not None
    if not 0 <= column < layout.k:
        raise IsaError(str(column), -1, f"A has no column {column}", f"0 to {layout.k - 1}")
    operand.places(row, 0)  # IsaError for a row that does not exist
    chunk = column // layout.sparsity.chunk
    facts = []
    if selection is None:
        held, pruned = deciding_codes(layout.sparsity, layout.codes, column)
        for stored_column, codes in held.items():
            more = f"stored column {stored_column}, if the code is {listed(codes, layout.sparsity.code_bits)}"
            facts += [
                _held(operand, place, i, more, stored_column=stored_column, codes=codes)
                for i, place in enumerate(operand.places(row, stored_column))
            ]
        facts.append(Fact("pruned", f"if the code is {listed(pruned, layout.sparsity.code_bits)}", {"codes": pruned}))
        stored = list(held)
    else:
        stored = selection.stored[row][column]
        for stored_column in stored:
            facts += [
                _held(operand, place, i, f"stored column {stored_column}", stored_column=stored_column)
                for i, place in enumerate(operand.places(row, stored_column))
            ]
        facts += _unheld(layout, row, column, selection, stored)
    facts.append(_metadata_fact(layout, row, chunk, selection))
    lines = [line for stored_column in stored for line in substituted(operand, row, stored_column)]
    return Answer(
        f"A[{row}][{column}]",
        operand.form,
        tuple(facts),
        tuple(lines + _metadata_lines(layout, row, chunk)),
        source(operand),
    )


def _unheld(layout: FormLayout, row: int, column: int, selection: Selection, stored: list[int]) -> list[Fact]:
    """What to say of a logical column that no stored element holds, or that two hold."""
    chunk = column // selection.sparsity.chunk
    if selection.joined[row, chunk]:
        return [Fact("note", joined_text(layout, selection, row, chunk))]
    if len(stored) > 1:
        return [Fact("note", "the code has equal indices: both stored elements multiply the same row of B")]
    if stored:
        return []
    kept = sorted({int(k) for k in selection.columns[row].reshape(-1, selection.sparsity.stored)[chunk]})
    return [Fact("pruned", f"the code keeps column{'s' * (len(kept) > 1)} {', '.join(map(str, kept))}", {"kept": kept})]


def joined_text(layout: FormLayout, selection: Selection, row: int, chunk: int) -> str:
    """Says what an undefined 1:2 code multiplies."""
    low, high = (
        f"the {'high' if half % 2 else 'low'} half of B[{2 * chunk + half // 2}]"
        for half in halves(int(selection.codes[row, chunk]))
    )
    return f"the stored element multiplies an operand joined of {low} (its low 16 bits) and {high} (its high ones)"


def deciding_codes(sparsity: Sparsity, codes: Iterable[int], column: int) -> tuple[dict[int, list[int]], list[int]]:
    """Which codes keep a logical column, as stored column -> defined codes, and the list of the codes that prune it."""
    chunk, inside = divmod(column, sparsity.chunk)
    held: dict[int, list[int]] = {}
    pruned = []
    for code in codes:
        columns = stored_columns(np.array([code], np.uint32), sparsity)
        hits = np.flatnonzero(columns == inside).tolist()
        for offset in hits:
            held.setdefault(chunk * sparsity.stored + offset, []).append(code)
        if not hits:
            pruned.append(code)
    return dict(sorted(held.items())), pruned


def columns_by_code(sparsity: Sparsity, codes: Iterable[int], stored: int) -> dict[int, list[int]]:
    """Which logical column a stored column can be: logical column -> the defined codes that make it so."""
    chunk, inside = divmod(stored, sparsity.stored)
    codes_of: dict[int, list[int]] = {}
    for code in codes:
        column = int(stored_columns(np.array([code], np.uint32), sparsity)[inside]) + chunk * sparsity.chunk
        codes_of.setdefault(column, []).append(code)
    return dict(sorted(codes_of.items()))


_LISTED = 16  # codes that are written out, at most


def listed(codes: Iterable[int], bits: int = CODE_BITS) -> str:
    """Codes in binary, with commas and an `or`."""
    texts = [f"0b{code:0{bits}b}" for code in codes]
    if len(texts) > _LISTED:
        return f"one of {len(texts)}, such as {texts[0]} or {texts[-1]}"
    return " or ".join(filter(None, [", ".join(texts[:-1]), texts[-1]])) if texts else "none"


def _stored_facts(layout: FormLayout, row: int, column: int, selection: Selection | None) -> list[Fact]:
    """Facts on which logical column a stored element is."""
    assert layout.sparsity is not None
    if selection is None:
        every = columns_by_code(layout.sparsity, layout.codes, column)
        return [
            Fact(
                "element",
                f"A[{row}][{k}], if the code is {listed(codes, layout.sparsity.code_bits)}",
                {"row": row, "column": k, "codes": codes},
            )
            for k, codes in every.items()
        ]
    chunk = column // layout.sparsity.stored
    if selection.joined[row, chunk]:
        return [Fact("note", joined_text(layout, selection, row, chunk))]
    k = int(selection.columns[row, column])
    return [Fact("element", f"A[{row}][{k}]", {"row": row, "column": k})]


def _metadata_fact(layout: FormLayout, row: int, chunk: int, selection: Selection | None) -> Fact:
    """The fact on which register holds the code of a chunk, and what the code is."""
    assert layout.sparsity is not None
    metadata = layout.operands["e"]
    places = metadata.places(row, chunk)
    first, size = chunk * layout.sparsity.chunk, layout.sparsity.chunk
    more = f"code of row {row}, chunk {chunk} (columns {first} to {first + size - 1})"
    data: dict[str, Any] = {"place": metadata.name_of(places[0]), **places[0]._asdict(), "row": row, "chunk": chunk}
    if len(layout.selectors) > 1:
        more += f", selector {layout.choice.selector}"
    if len(places) > 1:
        more += (
            f", and {len(places) - 1} cop{'ies' if len(places) > 2 else 'y'}: "
            f"{', '.join(metadata.name_of(place) for place in places[1:])}"
        )
    if selection is not None:
        code = int(selection.codes[row, chunk])
        problem = selection.problem(row, chunk)
        more += f" = 0b{code:0{selection.sparsity.code_bits}b}" + f", not defined ({problem})" * bool(problem)
        data |= {"code": code, "defined": not problem}
    return Fact("metadata", f"{data['place']:<15} {more}", data)


# What


def what(
    layout: FormLayout,
    name: str,
    lane: int,
    word: int = 0,
    bits: tuple[int, int] | None = None,
    selection: Selection | None = None,
) -> Answer:
    """Answers what the bits of a register (or cell) hold.

    Args:
        layout: the form and its operands.
        name: the operand.
        lane: of the warp, or of Tensor Memory.
        word: register, or column from the operand's base address on.
        bits: (high, low); the whole register unless given.
        selection: concrete metadata.

    Raises:
        IsaError: no such operand, lane, register or bits.
    """
    operand = layout.operand(name)
    high, low = bits or (operand.word_bits - 1, 0)
    elements = operand.elements(lane, word, low, high)
    place = Place(lane, word, low, high)
    facts: list[Fact] = []
    lines: list[str] = []
    for element in elements:
        facts += _contents(layout, operand, element, selection)
        lines += _placed(operand, lane, word, element)
    if not elements:
        facts = [Fact("nothing", _reason(layout, operand, lane, word, low, high))]
    return Answer(operand.name_of(place), operand.form, tuple(facts), tuple(lines), source(operand))


def _contents(
    layout: FormLayout, operand: Operand, element: tuple[int, ...], selection: Selection | None
) -> list[Fact]:
    row, column = element[:2]
    first_place = next(iter(operand.places(*element)))
    data: dict[str, Any] = {"place": operand.name_of(first_place), **first_place._asdict()}
    if operand.name == "e" and layout.sparsity is not None:
        first, size = column * layout.sparsity.chunk, layout.sparsity.chunk
        text = (
            f"{data['place']:<15} code of row {row}, chunk {column}: A[{row}][{first}] to A[{row}][{first + size - 1}]"
        )
        if selection is not None:
            code, problem = int(selection.codes[row, column]), selection.problem(row, column)
            text += f" = 0b{code:0{selection.sparsity.code_bits}b}" + f", not defined ({problem})" * bool(problem)
            data["code"] = code
        return [Fact("element", text, {**data, "row": row, "chunk": column})]
    text = f"{data['place']:<15} {element_name(operand)}[{row}][{column}]"
    if len(element) > 2 and operand.shape[2] > 1:
        text += f", {operand.axes[2]} {element[2]}"
    facts = [Fact("element", text, {**data, "row": row, "column": column})]
    if operand.name == "a" and layout.sparsity is not None:
        for fact in _stored_facts(layout, row, column, selection):
            facts.append(replace(fact, text=f"{'':<16}{fact.text}"))
        facts.append(_metadata_fact(layout, row, column // layout.sparsity.stored, selection))
    return facts


def _reason(layout: FormLayout, operand: Operand, lane: int, word: int, low: int, high: int) -> str:
    """Why these bits hold nothing: no element has them, or they are read with another selector."""
    others = []
    for selector in layout.selectors if operand.name == "e" else ():
        if selector != layout.choice.selector:
            other = (
                form_layout(layout.opcode, replace(layout.choice, selector=selector))
                .operand("e")
                .elements(lane, word, low, high)
            )
            rows = {row: [e[1] for e in other if e[0] == row] for row in dict.fromkeys(e[0] for e in other)}
            held = " and ".join(f"row {row}, {_run('chunk', chunks)}" for row, chunks in rows.items())
            others += [f"with selector {selector} the codes of {held}"] if other else []
    if others:
        return f"not read with selector {layout.choice.selector}; {'; '.join(others)}"
    return "no element of the operand is held there" + (
        "" if operand.name not in ("scale_a", "scale_b") else " with these ids"
    )


def _run(what: str, numbers: list[int]) -> str:
    """`chunk 3`, or `chunks 0 to 3`."""
    return f"{what} {numbers[0]}" if len(numbers) == 1 else f"{what}s {numbers[0]} to {numbers[-1]}"


# Formulas


def substituted(operand: Operand, *coordinates: int) -> list[str]:
    """For each place its formula, the formula with the numbers of an element, and the value: `lane = column / 2 % 4 +
    ... = 6 / 2 % 4 + ... = 23`."""
    numbers = dict(zip(operand.axes, coordinates, strict=False)) | dict.fromkeys(operand.axes[len(coordinates) :], 0)
    values = operand.mapping.positions(**numbers)
    names = [name for name, _ in operand.mapping.places]
    plain, filled = operand.formulas(), operand.formulas(**numbers)
    return [_line(name, plain[name], filled[name], int(value)) for name, value in zip(names, values, strict=True)]


def _placed(operand: Operand, lane: int, word: int, element: tuple[int, ...]) -> list[str]:
    """For each coordinate its formula with the numbers of a place; the reverse of `substituted`."""
    place = operand.mapping.positions(**dict(zip(operand.axes, element, strict=True)))
    numbers = {name: int(value) for (name, _), value in zip(operand.mapping.places, place, strict=True)}
    plain, filled = operand.formulas(), operand.formulas(**numbers)
    return [_line(axis, plain[axis], filled[axis], value) for axis, value in zip(operand.axes, element, strict=True)]


def _metadata_lines(layout: FormLayout, row: int, chunk: int) -> list[str]:
    return [f"metadata {line}" for line in substituted(layout.operands["e"], row, chunk)]


def _line(name: str, plain: str, filled: str, value: int) -> str:
    parts = [name, plain, *([filled] if filled != plain else []), *([str(value)] if filled != str(value) else [])]
    return " = ".join(parts)
