"""The matrices of a product: read, rounded and pruned, with what each of that does to them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from isa.errors import IsaError
from simulator.studies.sparselt.descriptors import patterns_of
from simulator.studies.sparselt.given import Given, taken
from simulator.studies.sparselt.matrices import Patterns, sparsity
from simulator.studies.sparselt.product import values_of
from simulator.studies.sparselt.pruning import is_zero
from simulator.studies.sparselt.pruning import prune as prune_patterns
from simulator.studies.sparselt.rounding import Rounding, rounding_of, rounding_to_tf32


@dataclass(frozen=True)
class Operands:
    """Patterns of all matrices, [batch, ...] with a batch of 1 where one serves all, and what there is to say."""

    a: Patterns
    b: Patterns
    c: Patterns | None
    batched: bool
    notes: tuple[str, ...]
    given: tuple[Given, Given, Given | None]
    rounding: dict[str, Rounding]
    rounded: tuple[Patterns, Patterns]
    is_turned: bool = False

    @property
    def batches(self) -> int:
        return max(len(x) for x in (self.a, self.b, self.c) if x is not None)

    @property
    def shape(self) -> tuple[int, int, int]:
        """m, n, k."""
        return self.a.shape[1], self.b.shape[1], self.a.shape[2]

    def pair(self, batch: int) -> tuple[Patterns, Patterns]:
        """A and B of one product."""
        return self.a[min(batch, len(self.a) - 1)], self.b[min(batch, len(self.b) - 1)]

    def turned(self) -> Operands:
        """The product of B and A, which is the transposed one."""
        a, b, c = self.given
        return replace(
            self,
            a=self.b,
            b=self.a,
            c=None if self.c is None else self.c.transpose(0, 2, 1),
            given=(b, a, None if c is None else Given(c.array.swapaxes(-1, -2), c.own)),
            rounded=self.rounded[::-1],
            is_turned=True,
        )

    def pruned(self, type: str, algorithm: str, operand: str) -> Operands:
        """With A or B pruned, matrix by matrix."""
        found = np.stack([prune_patterns(matrix, type, algorithm) for matrix in getattr(self, operand)])
        return replace(self, a=found) if operand == "a" else replace(self, b=found)


def read_operands(a: ArrayLike, b: ArrayLike, c: ArrayLike | None, type: str, c_type: str) -> Operands:
    """The matrices as patterns, and what there is to say of them."""
    notes: list[str] = []
    found: list[Patterns | None] = []
    given = [None if x is None else taken(x) for x in (a, b, c)]
    roundings: dict[str, Rounding] = {}
    for name, array, kind in zip("ABC", given, (type, type, c_type), strict=True):
        if array is None:
            found.append(None)
            continue
        shape = array.array.shape
        if len(shape) not in (2, 3) or not array.array.size:
            raise IsaError("", -1, f"{name} has shape {shape}", "[rows, columns] or [batch, rows, columns]")
        patterns, rounded = patterns_of(array, kind)
        if kind != "s32":
            roundings[name.lower()] = of = rounding_of(array, patterns, kind, rounded)
            notes.extend(of.notes(f"{name}: "))
        if kind == "f32" and name != "C":
            notes.extend(rounding_to_tf32(patterns).notes(f"{name}: "))
        strange = int((~np.isfinite(values_of(patterns, kind))).sum())
        if strange:
            notes.append(f"{name}: {strange:,} of {patterns.size:,} elements are NaN or infinite")
        found.append(patterns if patterns.ndim == 3 else patterns[None])
    left, right, addend = found
    first, second, third = given
    assert left is not None
    assert right is not None
    assert first is not None
    assert second is not None
    batched = any(x.array.ndim == 3 for x in given if x is not None)
    return Operands(left, right, addend, batched, tuple(notes), (first, second, third), roundings, (left, right))


def emptiness(operands: Operands, type: str, sparse: str | None) -> tuple[str, ...]:
    """A warning where pruning cannot be why the sparse operand is nearly empty: rounding may have made it so, before it
    came here. (A sparse B is A by now.)"""
    if sparse is None or any(note.startswith(f"warning: {sparse.upper()}: ") for note in operands.notes):
        return ()
    pattern, count = sparsity(type), int((~is_zero(operands.a, type)).sum())
    if 2 * count * pattern.chunk >= operands.a.size * pattern.stored:
        return ()
    are = "is" if count == 1 else "are"
    what = f"warning: {sparse.upper()}: {count:,} of {operands.a.size:,} elements {are} not 0"
    return (f"{what}, less than half of what {pattern.name} keeps: was it rounded to {type} without a scale?",)
