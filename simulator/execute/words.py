"""Where a form's operands are among the registers of a warp, as the compiled kernel wants to know it: tables read off
the mappings of `isa`."""

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
    """Registers [register, lane] of each operand as a case's words; None if some operand's elements do not lie in a row
    within a register.

    Args:
        form: of `mma` or `mma.sp`.
        selector: which lanes' metadata is meant.
        a_ids, b_ids: byte-id and thread-id of the block scales, for forms that have them.
    """
    columns = column_order(form)
    words = _words(form.a, 1), _words(form.b, 0, columns), _words(form.c, 1, columns), _words(form.d, 1, columns)
    if form.blocks > 1 or None in words:
        return None
    a, b, c, d = (found for found in words if found is not None)
    return Layout(a, b, c, d, _codes(form, selector) if form.sparse else None, *_scales(form, columns, a_ids, b_ids))


def column_order(form: MmaForm) -> Integers:
    """Columns of D sorted by register, so that neighbours in it come from neighbouring lanes; as they are where a
    register holds several."""
    _, register, _ = form.d.mapping.grid
    return np.argsort(register[0] if form.d.type.bits == form.c.type.bits >= 32 else np.zeros(form.n), kind="stable")


def _words(fragment: Fragment, axis: int, columns: Integers | None = None) -> Words | None:
    """The words of a fragment, columns in this order, if the elements of a register follow one another along an axis of
    the matrix."""
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
