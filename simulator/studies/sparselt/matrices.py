"""Matrices of element patterns: the types that cuSPARSELt prunes and compresses, and arrays taken as patterns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isa.errors import IsaError
from isa.fragments.metadata import Sparsity, sparsity_of
from isa.fragments.sparsity import weights
from isa.types import ELEMENT_TYPES, PACKED_E2M1, ElementType
from simulator.arithmetic.convert import from_float64, to_float64
from simulator.studies.sparselt.given import Given, taken, type_name

Patterns = NDArray[np.unsignedinteger]
Mask = NDArray[np.bool_]

TYPES = ("f16", "bf16", "f32", "s8", "e4m3", "e5m2", "e2m1")
"""As cuSPARSELt takes them; f32 is multiplied as tf32, and "tf32" is another name of it. e2m1: a pattern a byte."""
ORDERS, OPERATIONS, OPERANDS = ("row", "col"), ("n", "t"), ("a", "b")


@dataclass(frozen=True)
class Arrangement:
    """How the library is told to look at a matrix: what decides which way K runs.

    Attributes:
        order: of the matrix in memory, "row" or "col" major.
        op: "n" or "t", the operation that the product applies to it.
        operand: which operand of the product is sparse: "a" (m x k) or "b" (k x n).
    """

    order: str = "row"
    op: str = "n"
    operand: str = "a"

    def __post_init__(self) -> None:
        for name, value, legal in (
            ("order", self.order, ORDERS),
            ("op", self.op, OPERATIONS),
            ("operand", self.operand, OPERANDS),
        ):
            if value not in legal:
                raise IsaError(str(value), -1, f"{name} '{value}'", " or ".join(legal))

    @property
    def along_columns(self) -> bool:
        """Whether K runs along the columns of the matrix as it is given."""
        return (self.op == "n") == (self.operand == "a")

    @property
    def contiguous(self) -> bool:
        """Whether neighbours along K are neighbours in memory."""
        return (self.order == "row") == self.along_columns

    def by_k(self, matrix: NDArray[np.generic]) -> NDArray[np.generic]:
        """The matrix turned so that K runs along the columns; the same turn brings it back."""
        return matrix if self.along_columns else matrix.T


def matrix_type(name: str) -> ElementType:
    """The element type of a name of `TYPES`, or tf32; IsaError for any other."""
    name = type_name(name)
    if name in ("f32", "tf32"):
        return ELEMENT_TYPES["f32"]
    if name not in TYPES:
        raise IsaError(str(name), -1, f"no sparse matrix has type '{name}'", ", ".join(TYPES))
    return PACKED_E2M1 if name == "e2m1" else ELEMENT_TYPES[name]


def sparsity(name: str) -> Sparsity:
    """The pattern of structured sparsity that goes with a type."""
    return sparsity_of(matrix_type(name))


def as_patterns(matrix: ArrayLike | Given, type: str) -> tuple[Patterns, int]:
    """A matrix as unsigned patterns of the type's width, and how many of its numbers had to be rounded.

    Args:
        matrix: [row, column]: unsigned integers of the type's width (patterns), signed ones (the same bits), or floats
            (converted to the nearest, ties to even, as `cvt.rn` does; not rounded where the type is the array's own);
            also arrays of ml_dtypes, and PyTorch's tensors.
        type: a name of `TYPES`.

    Raises:
        IsaError: another type or number of axes, or patterns that the type has not (e2m1 above 15).
    """
    given = taken(matrix)
    element, array, type = matrix_type(type), given.array, type_name(type)
    width = np.dtype(f"u{max(element.bits, 8) // 8}")
    if array.ndim != 2 or not array.size:
        raise IsaError("", -1, f"a matrix of shape {list(array.shape)}", "[row, column], with at least one element")
    if given.own and given.own != type:
        array = to_values(array, given.own)
    if array.dtype.kind in "iu" and array.dtype.itemsize == width.itemsize:
        patterns: Patterns = array.view(width)
        if element.bits < 8 and int(patterns.max()) > element.mask:
            raise IsaError("", -1, f"a pattern of {int(patterns.max())} in {type}", f"0 to {element.mask}")
        return patterns, 0
    if array.dtype.kind != "f" or array.dtype.itemsize not in (2, 4, 8):
        legal = f"{width.name} patterns, or floats, which are rounded to {type}"
        raise IsaError("", -1, f"a matrix of type {array.dtype} for {type}", legal)
    if (type, array.dtype.itemsize) in (("f16", 2), ("f32", 4), ("tf32", 4)):
        return array.view(width), 0
    values = array.astype(np.float64)
    nearest = from_float64(values, ELEMENT_TYPES[element.name]) if element.bits >= 8 else _to_e2m1(values)
    back = to_values(nearest.astype(width), type)
    rounded = int(((back != values) & ~(np.isnan(back) & np.isnan(values))).sum())
    return nearest.astype(width), rounded


def numbers_of(matrix: ArrayLike | Given, type: str) -> NDArray[np.float64]:
    """The numbers of a matrix as it is given, before anything is rounded: floats as they are, patterns as they are
    read. Arguments as those of `as_patterns`, of any shape."""
    given = taken(matrix)
    if not given.own and given.array.dtype.kind == "f":
        return given.array.astype(np.float64)
    if given.own:
        return to_values(given.array, given.own)
    return to_values(given.array.view(f"u{given.array.dtype.itemsize}"), type)


def to_values(patterns: Patterns, type: str) -> NDArray[np.float64]:
    """The numbers that patterns stand for, float64."""
    element = matrix_type(type)
    if element.bits < 8:
        return to_float64(patterns.astype(np.uint32) << np.uint32(2), ELEMENT_TYPES["e2m1"])
    return to_float64(patterns.astype(np.uint32), element)


def _to_e2m1(values: NDArray[np.float64]) -> NDArray[np.uint32]:
    return from_float64(values, ELEMENT_TYPES["e2m1"]) >> np.uint32(2)


def magnitudes(patterns: Patterns, type: str) -> NDArray[np.float32]:
    """What the library adds up to weigh elements: `isa`'s rule for the type. Float32 of the same shape."""
    with np.errstate(invalid="ignore"):
        return weights(to_values(patterns, type), matrix_type(type))
