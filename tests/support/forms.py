"""What makes forms of `mma` alike, for tests that need one of each kind (see tests/support/cases.py)."""

from __future__ import annotations

from collections.abc import Hashable

import isa
from isa.mapping import Mapping


def fragments_of(form: isa.MmaForm) -> dict[str, Mapping]:
    """The mapping of every operand of a form, its metadata among them."""
    mappings: dict[str, Mapping] = {name: getattr(form, name).mapping for name in "abcd"}
    return {**mappings, "e": form.metadata.mapping} if form.sparse else mappings


def by_layout(form: isa.MmaForm) -> Hashable:
    """Forms alike in all that decides where an element lives: 404 forms, 44 kinds, 42 mappings."""
    bits = tuple(kind.bits for kind in (form.a_type, form.b_type, form.c_type, form.d_type))
    return (form.m, form.n, form.k, form.blocks, form.sparse, form.a_layout, form.b_layout, *bits)


def by_arithmetic(form: isa.MmaForm) -> Hashable:
    """Forms alike in all that decides a result; they differ in `::ordered_metadata`, or in how they are spelt."""
    names = tuple(kind.name for kind in (form.a_type, form.b_type, form.c_type, form.d_type))
    return (by_layout(form), names, form.saturate, form.rounding, form.row.operation, form.row.scale)


def by_metadata(form: isa.MmaForm) -> Hashable:
    """Sparse forms alike in all that their metadata depends on."""
    return (form.metadata.mapping, form.metadata.sparsity, form.a_type.bits, form.k)
