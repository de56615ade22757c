"""Tables for the compiled kernel: in which registers and lanes of a warp each element of a form's operands lies.

They are made from the mappings of `isa`.
"""

from __future__ import annotations

import numpy as np

from isa.forms.mma import MmaForm
from isa.fragments.metadata import CODE_BITS
from isa.fragments.registers import WARP_SIZE, Fragment
from isa.mapping import Integers
from simulator.arithmetic.compiled import Fields, Layout, Words


def fragment_layout(
    form: MmaForm, selector: int = 0, a_ids: tuple[int, int] = (0, 0), b_ids: tuple[int, int] = (0, 0)
) -> Layout | None:
    """The layout of all operands in a case's words, registers [register, lane]; None if the elements of some operand do
    not follow one another within a register.

    Args:
        form: of `mma` or `mma.sp`.
        selector: sparsity selector, which says whose lanes' metadata is used.
        a_ids, b_ids: byte-id and thread-id of the block scales, for forms that have them.
    """
    columns = column_order(form)
    words = _words(form.a, 1), _words(form.b, 0, columns), _words(form.c, 1, columns), _words(form.d, 1, columns)
    if form.blocks > 1 or None in words:
        return None
    a, b, c, d = (operand for operand in words if operand is not None)
    return Layout(a, b, c, d, _codes(form, selector) if form.sparse else None, *_scales(form, columns, a_ids, b_ids))


def column_order(form: MmaForm) -> Integers:
    """The columns of D sorted by register, so that neighbouring columns come from neighbouring lanes; unsorted where a
    register holds several elements."""
    _, register, _ = form.d.mapping.grid
    return np.argsort(register[0] if form.d.type.bits == form.c.type.bits >= 32 else np.zeros(form.n), kind="stable")


def _words(fragment: Fragment, axis: int, columns: Integers | None = None) -> Words | None:
    """The words of a fragment, with its columns in this order; None unless the elements of a register follow one
    another along this axis of the matrix."""
    lane, register, element = (
        fragment.mapping.grid if columns is None else (grid[:, columns] for grid in fragment.mapping.grid)
    )
    word, per = register * WARP_SIZE + lane, fragment.type.per_register
    first = np.take(word, np.arange(0, word.shape[axis], per), axis)
    index = np.arange(word.shape[axis]) % per
    if (
        not np.array_equal(np.repeat(first, per, axis), word)
        or not (element == (index if axis else index[:, None])).all()
    ):
        return None
    return Words(fragment.registers * WARP_SIZE, first.astype(np.int32), per, fragment.type.bits)


def _codes(form: MmaForm, selector: int) -> Fields:
    lane, code = form.metadata.places(selector)
    return Fields(WARP_SIZE, lane.astype(np.int32), (CODE_BITS * code).astype(np.int32))


def _scales(
    form: MmaForm, columns: Integers, a_ids: tuple[int, int], b_ids: tuple[int, int]
) -> tuple[Fields | None, Fields | None]:
    if not form.row.scale:
        return None, None
    grids = form.scale_a.mapping(*a_ids).grid, tuple(grid[columns] for grid in form.scale_b.mapping(*b_ids).grid)
    a, b = (Fields(WARP_SIZE, lane.astype(np.int32), (8 * byte).astype(np.int32)) for lane, byte in grids)
    return a, b
