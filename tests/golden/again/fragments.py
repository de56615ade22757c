"""Where the elements of `mma` and `mma.sp` lie in registers, from the formulas of the PTX ISA (9.7.14.5, 9.7.14.6):
each place is a word (register of a lane), a lane, and the lowest bit."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tests.golden.again.numerals import FORMATS, Format

NAMES = {"f16", "bf16", "tf32", "f32", "e4m3", "e5m2", "e3m2", "e2m3", "e2m1", "s8", "u8", "s4", "u4", "s32", "ue8m0",
         "ue4m3"}  # fmt: skip


class Form(NamedTuple):
    """What an opcode says."""

    k: int
    sparse: bool
    ordered: bool
    kind: str
    vector: int
    saturate: bool
    d: str
    a: str
    b: str
    c: str
    scale: str

    @property
    def packed(self) -> bool:
        """Whether two e2m1 lie in a byte."""
        return self.kind in ("mxf4", "mxf4nvf4")

    def format(self, operand: str) -> Format:
        """The format of an operand's elements."""
        name = {"a": self.a, "b": self.b, "c": self.c, "d": self.d}.get(operand, self.scale)
        return FORMATS["e2m1 packed" if self.packed and operand in "ab" else name]

    @property
    def chunk(self) -> int:
        """Logical columns that a code of metadata is about."""
        return {32: 2, 16: 4, 8: 4, 4: 8}[self.format("a").bits]

    @property
    def stored(self) -> int:
        """How many columns of A are stored."""
        return self.k // 2 if self.sparse else self.k

    @property
    def selectors(self) -> int:
        """How many selectors the form has."""
        return {4: 4, 8: 2, 16: 1}[self.k // self.chunk]

    @property
    def defined(self) -> Any:
        """Which of the 16 codes are defined: bool [16]."""
        low, high = np.arange(16) & 3, np.arange(16) >> 2
        if self.chunk == 2:
            return np.isin(np.arange(16), [0b0100, 0b1110])
        strict = self.ordered or (self.format("a").is_float and self.format("a").bits <= 8)
        return low < high if strict else low != high

    @property
    def ascending(self) -> Any:
        """Which codes have ascending indices; of 1:2 the two that are defined."""
        return self.defined if self.chunk == 2 else (np.arange(16) & 3) < (np.arange(16) >> 2)


def form_of(opcode: str) -> Form:
    """Reads an opcode, such as mma.sp.m16n8k32.f32.f16.f16.f32."""
    words = opcode.split(".")
    types = [word for word in words if word in NAMES]
    (shape,) = (word for word in words if word.startswith("m16n8k"))
    kind = next((word[6:] for word in words if word.startswith("kind::")), "") if "block_scale" in words else ""
    vector = next((int(word[11:-1]) for word in words if word.startswith("scale_vec::")), 0)
    vector = vector or {"mxf8f6f4": 1, "mxf4": 2}.get(kind, 0)
    sparse = "sp" in words or "sp::ordered_metadata" in words
    return Form(int(shape[6:]), sparse, "sp::ordered_metadata" in words, kind, vector, "satfinite" in words, *types[:4],
                types[4] if len(types) > 4 else "")  # fmt: skip


def places(form: Form, operand: str) -> Any:
    """The place of every element of a, b, c or d: int64 [row, column, 3] of word, lane, lowest bit."""
    bits = form.format(operand).bits
    per = 32 // bits
    if operand == "a":
        row, column = np.ogrid[:16, : form.stored]
        register = (row >= 8) + 2 * (column // (4 * per))
        group, thread, low = row % 8, column // per % 4, column % per * bits
    elif operand == "b":
        row, column = np.ogrid[: form.k, :8]
        register, group, thread, low = row // (4 * per), column, row // per % 4, row % per * bits
    else:
        row, column = np.ogrid[:16, :8]
        register = (row >= 8) * (2 // per) + column % 2 // per
        group, thread, low = row % 8, column // 2, column % per * bits
    return np.stack(np.broadcast_arrays(register, 4 * group + thread, low), axis=-1).astype(np.int64)


def codes(form: Form, selector: int) -> Any:
    """The place of every code of the metadata: int64 [row, chunk, 3]."""
    count = form.k // form.chunk
    row, chunk = np.ogrid[:16, :count]
    group, half = row % 8, row // 8
    if form.format("a").bits >= 16:
        lane = 4 * group + (selector if count == 4 else 2 * selector + chunk // 4)
        low = 16 * half + 4 * (chunk % 4)
    else:
        lane = 4 * group + half + (2 * selector if count == 8 else 2 * (chunk // 8))
        low = 4 * (chunk % 8)
    return np.stack(np.broadcast_arrays(0 * row, lane, low), axis=-1).astype(np.int64)


def scales(form: Form, operand: str, ids: tuple[int, int]) -> Any:
    """The place of every scale factor, of A [row, factor, 3], of B [factor, column, 3]; ids are byte and thread."""
    byte, thread = ids
    if operand == "scale_a":
        row, factor = np.ogrid[:16, : form.vector]
        lane = 4 * (row % 8) + 2 * thread + row // 8
    else:
        factor, row = np.ogrid[: form.vector, :8]
        lane = 4 * row + thread
    return np.stack(np.broadcast_arrays(0 * row, lane, 8 * (byte + factor)), axis=-1).astype(np.int64)


def gather(words: Any, grid: Any, bits: int) -> Any:
    """The elements at places, out of words uint32 [..., word, lane]."""
    found = words[..., grid[..., 0], grid[..., 1]] >> grid[..., 2].astype(np.uint32)
    return found & np.uint32((1 << bits) - 1)


def live(grid: Any, used: int, shape: tuple[int, int]) -> Any:
    """The bits of words that elements at places use: uint32 [word, lane]."""
    found = np.zeros(shape, np.uint32)
    masks = np.uint64(used) << grid[..., 2].astype(np.uint64)
    np.bitwise_or.at(found, (grid[..., 0], grid[..., 1]), masks.astype(np.uint32))
    return found
