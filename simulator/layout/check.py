"""Checks that the printed formulas say the same as the mappings. Each formula of every operand of every form is read as
text, evaluated and compared.

tcsim layout --check
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from isa import IsaError, mma_forms, stored_columns
from isa.descriptors.instruction import legal_m, legal_n
from isa.forms.table import family_opcodes, plain_forms
from isa.forms.tcgen05 import Tcgen05MmaForm, is_tcgen05_mma
from isa.forms.wgmma import WGMMA_ROWS, is_wgmma
from isa.mapping import Integers
from isa.ptx.opcodes import find_form
from simulator.layout.catalog import SWEPT, form_layout
from simulator.layout.form import Choice, FormLayout
from simulator.layout.operand import Operand

_OPERATORS: dict[type, Callable[[Integers, Integers], Integers]] = {
    ast.Add: operator.add,
    ast.Mult: operator.mul,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
    ast.RShift: operator.rshift,
}


def evaluate(formula: str, **values: int | Integers) -> Integers:
    """Evaluates a printed formula; `/` divides integers.

    Raises:
        IsaError: it is not one: anything but + * / % >>, whole numbers and the names of `values`.
    """
    try:
        return np.asarray(_evaluated(ast.parse(formula.strip(), mode="eval").body, values))
    except (SyntaxError, KeyError, TypeError) as error:
        raise IsaError(
            formula, -1, f"'{formula}' is no formula ({error})", f"+ * / % >>, whole numbers, {', '.join(values)}"
        ) from None


def _evaluated(node: ast.expr, values: dict[str, int | Integers]) -> Integers:
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_evaluated(node.left, values), _evaluated(node.right, values))
    if isinstance(node, ast.Name):
        return np.asarray(values[node.id])
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return np.asarray(node.value)
    raise TypeError(ast.unparse(node))


@dataclass(frozen=True)
class Checked:
    """The result of `check_formulas`.

    Attributes:
        forms, operands, formulas, cells: how many; of cells each formula's.
        wrong: `opcode: operand: formula` of each that differs.
    """

    forms: int
    operands: int
    formulas: int
    cells: int
    wrong: tuple[str, ...]

    def text(self) -> str:
        """The result in words."""
        lines = [
            (
                f"{self.forms:,} forms, {self.operands:,} operands with every selector, id, base lane, M and N "
                f"(of N: {', '.join(map(str, SWEPT))})"
            )
        ]
        count = f"{len(self.wrong)} differ from the mapping"
        lines.append(f"{self.formulas:,} printed formulas, evaluated at {self.cells:,} places and coordinates: {count}")
        return "\n".join([*lines, *self.wrong, ""])


def every_layout() -> Iterator[FormLayout]:
    """Yields every form with every choice: selectors, ids, base lanes, M, and those N of `SWEPT` that are legal."""
    for opcode in (*mma_forms(), *(name for name, form in plain_forms().items() if form.fragment is not None)):
        yield from _with_choices(form_layout(opcode))
    for form in (form for row in WGMMA_ROWS for form in row.forms() if is_wgmma(form) and form.n in SWEPT):
        yield from _with_choices(form_layout(form.opcode))
    for opcode in family_opcodes():
        if opcode.startswith(("tcgen05.ld.sync", "tcgen05.st", "tcgen05.cp")):
            yield form_layout(opcode)
        elif opcode.startswith("tcgen05.mma") and "collector" not in opcode and "ashift" not in opcode:
            tcgen05 = find_form(opcode)
            assert is_tcgen05_mma(tcgen05)
            for m, n in product(*_sizes(tcgen05)):
                yield from _with_choices(form_layout(opcode, Choice(m=m, n=n)))


def _sizes(form: Tcgen05MmaForm) -> tuple[tuple[int, ...], tuple[int, ...]]:
    legal = legal_n(form.kind, cta_group=form.cta_group, sparse=form.sparse, ws=form.ws)
    return legal_m(form.kind, cta_group=form.cta_group, sparse=form.sparse, ws=form.ws), tuple(
        n for n in SWEPT if n in legal
    )


def _with_choices(first: FormLayout) -> Iterator[FormLayout]:
    """The form with each selector, base lane and pair of ids; scale factors of both sides at once."""
    base_lanes = (0, 16) if first.layout in ("C", "F") else (0,)
    ids: list[tuple[tuple[int, int], tuple[int, int]]] = [((0, 0), (0, 0))]
    if first.factors:
        threads = (1, 1) if first.layout else (2, 4)
        bytes_ = range(0, 4, first.factors)
        ids = [((byte, thread % threads[0]), (byte, thread)) for byte in bytes_ for thread in range(threads[1])]
    for selector, base_lane, (scale_a, scale_b) in product(first.selectors or (0,), base_lanes, ids):
        choice = replace(first.choice, selector=selector, base_lane=base_lane, scale_a=scale_a, scale_b=scale_b)
        yield first if choice == first.choice else form_layout(first.opcode, choice)


def check_formulas() -> Checked:
    """Evaluates every printed formula of every operand of every form at every place, or at all coordinates.

    Operands with the same mapping are looked at once and counted each time.
    """
    forms: set[str] = set()
    operands = formulas = cells = 0
    wrong: list[str] = []
    results: dict[object, tuple[int, int, list[str]]] = {}
    for layout in every_layout():
        forms.add(layout.opcode)
        for operand in layout.operands.values():
            key = operand.mapping, operand.used, operand.logical
            if key not in results:
                results[key] = _check(operand, layout)
            count, looked_at, bad = results[key]
            operands, formulas, cells = operands + 1, formulas + count, cells + looked_at
            wrong += [f"{layout.opcode}: {operand.name}: {formula}" for formula in bad]
    return Checked(len(forms), operands, formulas, cells, tuple(wrong))


def _check(operand: Operand, layout: FormLayout) -> tuple[int, int, list[str]]:
    """Checks the formulas of one operand: the numbers of formulas and cells, and the formulas that are wrong."""
    mapping, printed = operand.general or operand.mapping, operand.formulas()
    coordinates = dict(zip((name for name, _ in mapping.axes), np.indices(mapping.shape), strict=True))
    grid = dict(zip((name for name, _ in mapping.places), mapping.grid, strict=True))
    cells, wrong = 0, []
    for name in printed:
        # Places as functions of coordinates, and coordinates as functions of the places where those elements are.
        inputs, expected = (
            (grid, coordinates.get(name)) if name in coordinates and name not in grid else (coordinates, grid.get(name))
        )
        if name == "logical column":
            count, good = _check_logical(operand, layout)
        else:
            assert expected is not None
            got = np.broadcast_to(evaluate(printed[name], **inputs), expected.shape)
            count, good = got.size, bool((got == expected).all())
        cells += count
        if not good:
            wrong.append(f"{name} = {printed[name]}")
    return len(printed), cells, wrong


def _check_logical(operand: Operand, layout: FormLayout) -> tuple[int, bool]:
    """Checks the formula of the logical column, for every defined code at every stored column."""
    sparsity = layout.sparsity
    assert sparsity is not None
    codes = np.array(layout.codes, np.uint32)[:, None] * np.ones(layout.k_stored // sparsity.stored, np.uint32)
    expected = stored_columns(codes, sparsity)
    stored = np.arange(layout.k_stored)
    values = {operand.axes[1]: stored, "code": codes.astype(np.int64)[:, stored // sparsity.stored]}
    return expected.size, bool((evaluate(operand.logical, **values) == expected).all())
