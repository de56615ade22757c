"""Descriptors of matrices and of a product, as cuSPARSELt has them: what lies where in memory, and what is refused.

Refusals with a status are those of cuSPARSELt 0.8 on an NVIDIA H100 (measured, November 2026); the library gives no
words. Those without one follow from what the words mean: nobody asked the library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isa.errors import IsaError
from isa.targets import Target, parse_target
from isa.types import ELEMENT_TYPES
from simulator.studies.sparselt.given import Given, taken, type_name
from simulator.studies.sparselt.matrices import OPERATIONS, ORDERS, Patterns, as_patterns
from simulator.studies.sparselt.support import DEFAULT_LIBRARY
from simulator.studies.sparselt.vocabulary import check_types, measured_status

_DENSE_BYTES, _STRUCTURED_BYTES, _ALIGNMENT = 16, 32, 16  # what rows and columns, and addresses, are multiples of
BITS = {"e2m1": 4, **{name: ELEMENT_TYPES[name].bits for name in ("f32", "f16", "bf16", "s8", "s32", "e4m3", "e5m2")}}
"""Width of each type that a matrix of the library may have."""


def refused(reason: str, measured: str, legal: str) -> IsaError:
    """The error for what the library was seen to answer with a status, which `measured_status` words."""
    return IsaError("", -1, f"{reason} ({measured})", legal)


def unfit(reason: str, legal: str) -> IsaError:
    """The error for what cannot be meant, and was never put to the library."""
    return IsaError("", -1, reason, legal)


def patterns_of(array: ArrayLike | Given, type: str) -> tuple[Patterns, int]:
    """An array of any shape as unsigned patterns of the type's width, and how many numbers were rounded."""
    all_given = taken(array)
    given = all_given.array
    if type == "s32":
        if given.dtype.kind not in "iu" or given.dtype.itemsize != 4:
            raise IsaError("", -1, f"a matrix of type {given.dtype} for s32", "int32, or uint32 patterns")
        return given.view(np.uint32), 0
    found, rounded = as_patterns(all_given.reshape(1, -1), type)
    return found.reshape(given.shape), rounded


@dataclass(frozen=True)
class MatrixDescriptor:
    """A matrix in memory.

    Attributes:
        rows, cols: of the matrix.
        type: of its elements.
        order: "row" or "col" major.
        ld: elements from one row (column) to the next; None: no gap.
        structured: 50 % sparse: 2:4, of f32 1:2.
        batches: matrices, one after the other.
        batch_stride: elements from one matrix to the next; 0: all are the first one (broadcast); None: no gap.
        alignment: of the address, in bytes.
    """

    rows: int
    cols: int
    type: str
    order: str = "row"
    ld: int | None = None
    structured: bool = False
    batches: int = 1
    batch_stride: int | None = None
    alignment: int = 16

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", type_name(self.type))
        if self.type not in BITS:
            raise IsaError(str(self.type), -1, f"type '{self.type}' of a matrix", ", ".join(BITS))
        if self.order not in ORDERS:
            raise IsaError(str(self.order), -1, f"order '{self.order}'", " or ".join(ORDERS))
        what = f"a {'structured' if self.structured else 'dense'} matrix of {self.rows} x {self.cols} {self.type}"
        if self.rows < 1 or self.cols < 1:
            raise refused(what, self._status(3), "1 row and column or more")
        multiple = self.multiple
        if self.rows % multiple or self.cols % multiple:
            raise refused(what, self._status(10), f"rows and columns in multiples of {multiple}")
        step = _DENSE_BYTES * 8 // BITS[self.type]
        if self.stride < self._inner:
            raise refused(f"{what} with a leading dimension of {self.ld}", self._status(3), f"{self._inner} or more")
        if self.stride % step:
            raise refused(f"{what} with a leading dimension of {self.ld}", self._status(10), f"a multiple of {step}")
        if self.alignment % _ALIGNMENT or self.alignment < 1:
            raise refused(f"an alignment of {self.alignment} bytes", self._status(10), "a multiple of 16")
        if self.batches < 1:
            raise unfit(f"{self.batches} matrices", "1 or more")
        if self.step and self.step < self._size:
            raise unfit(f"a batch stride of {self.step}", f"0, or {self._size} or more")

    def _status(self, status: int) -> str:
        return measured_status(status, "matrix", self.type)

    @property
    def multiple(self) -> int:
        """What rows and columns are multiples of."""
        return (_STRUCTURED_BYTES if self.structured else _DENSE_BYTES) * 8 // BITS[self.type]

    @property
    def _inner(self) -> int:
        return self.cols if self.order == "row" else self.rows

    @property
    def _outer(self) -> int:
        return self.rows if self.order == "row" else self.cols

    @property
    def stride(self) -> int:
        """The leading dimension."""
        return self._inner if self.ld is None else self.ld

    @property
    def _size(self) -> int:
        """Elements of one matrix in memory, gaps included but for the last."""
        return (self._outer - 1) * self.stride + self._inner

    @property
    def step(self) -> int:
        """The batch stride."""
        return self._outer * self.stride if self.batch_stride is None else self.batch_stride

    @property
    def size(self) -> int:
        """Elements that the matrices take in memory."""
        return (self.batches - 1) * self.step + self._size

    def _view(self, memory: NDArray[Any]) -> NDArray[Any]:
        size = memory.itemsize
        strides = (self.step * size, self.stride * size, size)
        lying = np.lib.stride_tricks.as_strided(memory, (self.batches, self._outer, self._inner), strides)
        return lying if self.order == "row" else lying.transpose(0, 2, 1)

    def read(self, memory: ArrayLike) -> Patterns:
        """The matrices [batch, row, column] of a piece of memory (an array of any shape), as patterns."""
        found, _ = patterns_of(taken(memory).reshape(-1), self.type)
        if found.size < self.size:
            raise IsaError("", -1, f"{found.size} elements in memory", f"{self.size}, as the descriptor says")
        return self._view(np.ascontiguousarray(found))

    def write(self, matrices: Patterns) -> Patterns:
        """Memory that holds the matrices [batch, row, column]; gaps are zero."""
        memory = np.zeros(self.size, matrices.dtype)
        self._view(memory)[:] = matrices
        return memory


@dataclass(frozen=True)
class MatmulDescriptor:
    """D = op(A) * op(B) and an epilogue with C: what `cusparseLtMatmulDescriptorInit` takes.

    Attributes:
        a, b, c, d: the matrices; exactly one of A and B is structured.
        op_a, op_b: "n" or "t". The library's B is k x n: with op "t" it lies as [n, k], as everywhere here.
        compute: "32i", "32f" or "16f".
        target: the chip.
        library: version of cuSPARSELt whose table says what the chip takes, one of `support.LIBRARIES`.
    """

    a: MatrixDescriptor
    b: MatrixDescriptor
    c: MatrixDescriptor
    d: MatrixDescriptor
    op_a: str = "n"
    op_b: str = "t"
    compute: str = "32f"
    target: str | Target = "sm_90a"
    library: str = DEFAULT_LIBRARY

    def __post_init__(self) -> None:
        for name, op in (("op_a", self.op_a), ("op_b", self.op_b)):
            if op not in OPERATIONS:
                raise IsaError(str(op), -1, f"{name} '{op}'", " or ".join(OPERATIONS))
        if self.a.type != self.b.type:
            reason, legal = f"A of {self.a.type} with B of {self.b.type}", "the same type"
            if {self.a.type, self.b.type} != {"e4m3", "e5m2"}:  # the only mixture that the library was asked
                raise unfit(reason, legal)
            raise refused(reason, measured_status(10, "types", self.a.type, parse_target(self.target)), legal)
        if self.a.structured == self.b.structured:
            raise unfit("A and B both structured, or neither", "exactly one structured")
        check_types(self.a.type, self.c.type, self.d.type, self.compute, parse_target(self.target), self.library)
        rows, inner, columns = self.shape
        deep = self.b.cols if self.op_b == "t" else self.b.rows
        if deep != inner:
            raise unfit(f"op(A) of {rows} x {inner} with op(B) of {deep} x {columns}", f"{inner} x n")
        for name, matrix in (("C", self.c), ("D", self.d)):
            if (matrix.rows, matrix.cols) != (rows, columns):
                raise unfit(f"{name} of {matrix.rows} x {matrix.cols}", f"{rows} x {columns}")
        if BITS[self.a.type] == 8:
            self._check_narrow()

    def _check_narrow(self) -> None:
        """8-bit operands have K contiguous in memory."""
        for name, matrix, op, with_k in (("A", self.a, self.op_a, "n"), ("B", self.b, self.op_b, "t")):
            if (matrix.order == "row") != (op == with_k):
                reason = f"{name} of {matrix.type} in {matrix.order}-major order with operation '{op}'"
                measured = measured_status(10, "matrix", matrix.type, parse_target(self.target))
                raise refused(reason, measured, "K contiguous in memory")

    @property
    def shape(self) -> tuple[int, int, int]:
        """m, k, n."""
        rows, inner = (self.a.rows, self.a.cols) if self.op_a == "n" else (self.a.cols, self.a.rows)
        return rows, inner, self.b.rows if self.op_b == "t" else self.b.cols

    @property
    def sparse(self) -> str:
        """Which operand is structured."""
        return "a" if self.a.structured else "b"
