"""Calls the compiled kernel: a C library that computes the sums of `simulator.arithmetic.sums` directly on register or
matrix words, in whatever layout they have.

It is C (kernel.c), built when the package is installed where there is a C compiler; without it everything works in
numpy, more slowly and with the same results. `TCSIM_KERNEL=numpy` in the environment keeps it out. Calls release the
interpreter, so threads can share a large batch.
"""

from __future__ import annotations

import ctypes
import logging
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from isa.fragments.metadata import Sparsity, stored_columns
from isa.types import Bits, ElementType
from simulator.arithmetic.formats import decode
from simulator.arithmetic.sums import Sum

_LOG = logging.getLogger("tcsim")
WIDTH = 8  # columns of D that the kernel works on together; as in kernel.h
MOST_GROUPS = 64  # likewise, of block-scaled products

Table = NDArray[np.int32]
Words64 = NDArray[np.uint64]


@cache
def library() -> ctypes.CDLL | None:
    """The compiled kernel; None if there is none, or if the environment excludes it."""
    from simulator.arithmetic.compiled.build import LIBRARY, digest  # here: at the top, `python -m` of it would warn

    if os.environ.get("TCSIM_KERNEL", "") == "numpy" or not LIBRARY.is_file():
        return None
    try:
        if not _whole(LIBRARY):
            raise OSError("the file is cut short")
        loaded = ctypes.CDLL(str(LIBRARY))
        loaded.tcsim_digest.restype = ctypes.c_int64
        if loaded.tcsim_digest() == digest():
            return loaded
        reason = "it was built from other sources"
    except (OSError, AttributeError) as error:
        reason = str(error)
    again = "python -m simulator.arithmetic.compiled.build"
    _LOG.warning("tcsim: %s is not used: %s; `%s` builds it again", LIBRARY.name, reason, again)
    return None


def _whole(path: Path) -> bool:
    """Whether a library is as long as its head says, where it is ELF: what is cut short ends a process that loads it.
    Its table of sections, which the head places, is what linkers write last."""
    with path.open("rb") as file:
        head = file.read(64)
    if len(head) < 64:
        return False
    if head[:5] != b"\x7fELF\x02":
        return True
    order: Literal["little", "big"] = "little" if head[5] == 1 else "big"
    place, size, count = (int.from_bytes(head[i:j], order) for i, j in ((40, 48), (58, 60), (60, 62)))
    return path.stat().st_size >= place + size * count


def kernel_name() -> str:
    """The name of what computes: "compiled" or "numpy"."""
    return "numpy" if library() is None else "compiled"


@dataclass(frozen=True)
class Words:
    """Where the elements of an operand are among the 32-bit words of a case.

    Attributes:
        stride: words of a case.
        table: offsets of words, in the order (row, column / per) for A, C and D, (row / per, column) for B; any shape.
            The columns of B, C, D and the scales of B may be in any order, if they all have the same.
        per: elements of a word; they follow one another along K (A, B) or N (C, D).
        bits: of an element.
    """

    stride: int
    table: Table
    per: int
    bits: int


@dataclass(frozen=True)
class Fields:
    """Where small fields (metadata codes, scale factors) are among the words of a case: offsets of words and shifts,
    [row or column, chunk or factor]."""

    stride: int
    table: Table
    shifts: Table


@dataclass(frozen=True)
class Layout:
    """Where all operands of an instruction are; operands that the instruction lacks are None."""

    a: Words
    b: Words
    c: Words
    d: Words
    e: Fields | None = None
    scale_a: Fields | None = None
    scale_b: Fields | None = None


def matrix_layout(how: Sum) -> Layout:
    """The layout of matrices that have one pattern in each word, as `sums.Operands` holds them."""

    def words(rows: int, columns: int, element: ElementType) -> Words:
        return Words(rows * columns, np.arange(rows * columns, dtype=np.int32), 1, element.bits)

    def fields(rows: int, columns: int) -> Fields:
        return Fields(rows * columns, np.arange(rows * columns, dtype=np.int32), np.zeros(rows * columns, np.int32))

    chunks = how.k // how.sparsity.chunk if how.sparsity else 0
    return Layout(
        words(how.m, how.stored, how.a_type),
        words(how.k, how.n, how.b_type),
        words(how.m, how.n, how.c_type),
        words(how.m, how.n, how.d_type),
        fields(how.m, chunks) if chunks else None,
        *((fields(how.m, how.factors), fields(how.n, how.factors)) if how.factors else ()),
    )


class _Format(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_int32) for name in ("bits", "exponent", "fraction", "padding", "bias", "nan")),
        *((name, ctypes.c_void_p) for name in ("value", "power")),
    )


class _Operand(ctypes.Structure):
    _fields_ = (
        ("stride", ctypes.c_int64),
        ("words", ctypes.c_void_p),
        *((name, ctypes.c_int32) for name in ("per", "bits", "run")),
    )


class _Scale(ctypes.Structure):
    _fields_ = (
        ("stride", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("words", "shifts", "value", "power")),
    )


class _Plan(ctypes.Structure):
    """The C structure of the same name in kernel.h."""

    _fields_ = (
        *((name, ctypes.c_int32) for name in ("m", "n", "k", "stored")),
        *((name, _Operand) for name in "abcd"),
        *((f"{name}_format", _Format) for name in "abcd"),
        *((name, ctypes.c_int32) for name in ("chunks", "in_chunk", "halves")),
        ("e_stride", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("e_words", "e_shifts", "place")),
        *((name, ctypes.c_int32) for name in ("run", "unit")),
        *(
            (name, ctypes.c_void_p)
            for name in ("run_words", "run_shifts", "index_shifts", "a_index", "b_start", "steps")
        ),
        *(
            (name, ctypes.c_int32)
            for name in (
                "step_count",
                "fraction",
                "floor",
                "kept",
                "add_last",
                "chained",
                "group",
                "saturate",
                "exclusive",
            )
        ),
        *((name, ctypes.c_int32) for name in ("is_signed_a", "is_signed_b", "factors")),
        ("scale_a", _Scale),
        ("scale_b", _Scale),
    )


def _run(table: NDArray[np.integer[Any]]) -> int:
    """The length of runs in a table of offsets: 4 if every four offsets from the first on are consecutive, else 1."""
    four = table.ravel()[: table.size // 4 * 4].reshape(-1, 4)
    return 4 if table.size % 4 == 0 and (four == four[:, :1] + np.arange(4)).all() else 1


def supports(how: Sum) -> bool:
    """Whether the kernel can compute this sum. It can compute all but the exact sum, f64, odd widths and very many
    groups."""
    few = how.rule is None or not how.rule.group or how.stored // how.rule.group <= MOST_GROUPS
    return few and (how.rule is not None or not how.a_type.is_float) and how.n % WIDTH == 0 and how.a_type.bits <= 32


class Kernel:
    """A sum between given layouts, prepared so that it can be run on any number of cases."""

    def __init__(self, how: Sum, layout: Layout) -> None:
        """`supports(how)` must hold; works only where there is a `library`."""
        self._kept: list[NDArray[np.generic]] = []  # what the plan points to
        plan = _Plan(m=how.m, n=how.n, k=how.k, stored=how.stored)
        for name in "abcd":
            words: Words = getattr(layout, name)
            setattr(
                plan,
                name,
                _Operand(words.stride, self._pointer(words.table, np.int32), words.per, words.bits, _run(words.table)),
            )
            element: ElementType = getattr(how, f"{name}_type")
            if element.is_float:
                setattr(plan, f"{name}_format", self._format(element, how.through if name in "ab" else None))
        plan.is_signed_a, plan.is_signed_b = how.a_type.name.startswith("s"), how.b_type.name.startswith("s")
        plan.saturate, plan.exclusive = how.saturate, how.operation == "xor.popc"
        plan.a_index, plan.b_start = self._pointer(how.order, np.int32), self._pointer(how.n * how.order, np.int32)
        steps = [len(step) for step in how.steps]
        plan.steps, plan.step_count = self._pointer(np.array(steps), np.int32), len(steps)
        if how.sparsity and layout.e:
            self._sparse(plan, how, how.sparsity, layout.e)
        if how.rule is not None:
            rule, result = how.rule, how.d_type
            plan.fraction, plan.floor, plan.group = rule.fraction, rule.floor(result), rule.group
            plan.add_last, plan.chained = rule.add_last, rule.chained
            plan.kept = rule.kept if result.bits == 32 else result.fraction
        if how.scale_type and layout.scale_a and layout.scale_b:
            plan.factors = how.factors
            plan.scale_a, plan.scale_b = (
                self._scale(layout.scale_a, how.scale_type),
                self._scale(layout.scale_b, how.scale_type),
            )
        self._plan = plan
        present = (layout.a, layout.b, layout.c, layout.e, layout.scale_a, layout.scale_b)
        self._strides = [0 if part is None else part.stride for part in present]

    def _pointer(self, array: NDArray[np.generic], kind: type[np.generic]) -> int:
        self._kept.append(np.ascontiguousarray(array, kind))
        return self._kept[-1].ctypes.data

    def _table(self, element: ElementType, through: ElementType | None) -> tuple[int, int]:
        table = decode(np.arange(1 << element.bits, dtype=np.uint32), element, through)
        return self._pointer(table.value, np.float64), self._pointer(table.exponent, np.int32)

    def _format(self, element: ElementType, through: ElementType | None) -> _Format:
        value, power = self._table(element, through) if element.bits <= 8 else (0, 0)
        return _Format(
            element.bits,
            element.exponent,
            element.fraction,
            element.padding,
            element.bias,
            element.infinity,
            value,
            power,
        )

    def _sparse(self, plan: _Plan, how: Sum, sparsity: Sparsity, e: Fields) -> None:
        chunk = (
            how.order[:: sparsity.stored] // sparsity.stored
        )  # in the order of summation, which keeps chunks together
        assert np.array_equal(how.order, (chunk[:, None] * sparsity.stored + np.arange(sparsity.stored)).ravel())
        plan.chunks, plan.in_chunk, plan.halves = len(chunk), sparsity.stored, sparsity.splices
        table, shifts = (x.reshape(how.m, len(chunk))[:, chunk] for x in (e.table, e.shifts))
        plan.e_stride, plan.e_words, plan.e_shifts = (
            e.stride,
            self._pointer(table, np.int32),
            self._pointer(shifts, np.int32),
        )
        plan.place = self._pointer(how.n * stored_columns(np.arange(16, dtype=np.uint32)[:, None], sparsity), np.int32)
        plan.b_start = self._pointer(how.n * sparsity.chunk * np.repeat(chunk, sparsity.stored), np.int32)
        if not sparsity.splices:
            self._runs(plan, how, sparsity, chunk, table, shifts)

    def _runs(
        self, plan: _Plan, how: Sum, sparsity: Sparsity, chunk: NDArray[np.int64], table: Table, shifts: Table
    ) -> None:
        """Element t of a row has its index in word `table[row, t]` at bit `bit[row, t]`: finds runs that share a word
        and look alike in all rows."""
        unit, element = sparsity.unit, np.arange(how.stored) % sparsity.stored
        word = np.repeat(table, sparsity.stored, axis=1)
        bit = np.repeat(shifts, sparsity.stored, axis=1) + 2 * (element // unit)
        for length in (32, 16, 8):
            if how.stored % length:
                continue
            words, bits = (x.reshape(how.m, -1, length) for x in (word, bit))
            offsets = bits - bits[..., :1]
            if (words == words[..., :1]).all() and (offsets == offsets[0, 0]).all() and (offsets >= 0).all():
                plan.run, plan.unit = length, how.n * unit
                plan.run_words, plan.run_shifts = (
                    self._pointer(words[..., 0], np.int32),
                    self._pointer(bits[..., 0], np.int32),
                )
                plan.index_shifts = self._pointer(offsets[0, 0], np.int32)
                plan.b_start = self._pointer(
                    how.n * (sparsity.chunk * np.repeat(chunk, sparsity.stored) + element % unit), np.int32
                )
                return

    def _scale(self, fields: Fields, element: ElementType) -> _Scale:
        return _Scale(
            fields.stride,
            self._pointer(fields.table, np.int32),
            self._pointer(fields.shifts, np.int32),
            *self._table(element, None),
        )

    def __call__(
        self,
        d: Bits,
        a: Bits,
        b: Bits,
        c: Bits,
        e: Bits | None = None,
        scale_a: Bits | None = None,
        scale_b: Bits | None = None,
    ) -> None:
        """Words [case, stride of the operand] -> D words [case, stride of D], which must be contiguous; any shapes of
        so many words a case."""
        compiled = library()
        assert compiled is not None
        assert d.flags.c_contiguous
        assert d.dtype == np.uint32
        addresses, kept = [], []
        for operand, stride in zip((a, b, c, e, scale_a, scale_b), self._strides, strict=True):
            words = None if operand is None or not stride else np.ascontiguousarray(operand, np.uint32)
            assert (0 if words is None else words.size) == len(d) * stride  # the kernel looks at nothing else
            kept.append(words)
            addresses.append(None if words is None else ctypes.c_void_p(words.ctypes.data))
        if compiled.tcsim_run(
            ctypes.byref(self._plan), ctypes.c_int64(len(d)), *addresses, ctypes.c_void_p(d.ctypes.data)
        ):
            raise MemoryError("the kernel found no memory to work in")


class Chain:
    """f64 multiply-adds (see `simulator.arithmetic.chain`) between given layouts, ready to run. Works only where there
    is a `library`."""

    def __init__(self, m: int, n: int, k: int, tables: tuple[NDArray[np.integer[Any]], ...] | None = None) -> None:
        """`tables`: where the elements of A [m, k], B [k, n] and of C and D [m, n] are among a case's words; default as
        they are. n is a multiple of `WIDTH`. Columns of B, C and D may be in any order, if it is the same."""
        assert n % WIDTH == 0
        sizes = m * k, k * n, m * n
        self._shape = m, n, k
        self._tables = [np.ascontiguousarray(table, np.int32) for table in tables or map(np.arange, sizes)]
        assert [
            np.sort(table, axis=None).tolist() == list(range(size))
            for table, size in zip(self._tables, sizes, strict=True)
        ] == [True] * 3

    def __call__(self, d: Words64, a: Words64, b: Words64, c: Words64, rounding: int) -> None:
        """Words of a case each [case, ...] -> D, which must be contiguous; `rounding` is an index into
        `chain.ROUNDINGS`."""
        compiled = library()
        assert compiled is not None
        assert d.flags.c_contiguous
        operands = [np.ascontiguousarray(x, np.uint64) for x in (a, b, c)]
        assert [x.size for x in (*operands, d)] == [len(d) * self._tables[i].size for i in (0, 1, 2, 2)]
        sizes = [ctypes.c_int32(size) for size in (*self._shape, *map(_run, self._tables), rounding)]
        arrays: list[NDArray[Any]] = [*self._tables, *operands, d]
        addresses = [ctypes.c_void_p(x.ctypes.data) for x in arrays]
        if compiled.tcsim_chain_f64(ctypes.c_int64(len(d)), *sizes, *addresses):
            raise MemoryError("the kernel found no memory to work in")
