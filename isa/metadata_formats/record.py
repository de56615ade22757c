"""What a format of metadata is: one bijection between (row, chunk) and a position in storage, and how words are shaped.

A matrix of codes has a row for each row of the sparse operand and a chunk for each 2 (32-bit types), 4 (16- and 8-bit)
or 8 (4-bit) of its logical columns; `isa.fragments.metadata` says what a code means. A format stores these codes, 4
bits each, in some order. Positions count codes: position p is bits 4 * (p % n) and up of word p / n, where n codes fill
a word and words are little-endian; so the bytes of a file do not depend on how wide its words are called.

An *atom* is the smallest piece that a format repeats. It is written as the digits of the position, lowest first:
"c1 c2 r8 c4" means that a position's bit 0 is bit 0 of the chunk, bit 1 its bit 1, bit 2 is bit 3 of the row (worth 8),
and bit 3 is bit 2 of the chunk.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from isa.errors import IsaError
from isa.fragments.metadata import CODE_BITS, Sparsity
from isa.mapping import Digit, Integers, Mapping
from isa.types import Bits, ElementType

Words = NDArray[np.unsignedinteger]
EMPTY = 0b1110
"""The code of a chunk that stores nothing, and of padding, as it is written here: the last two elements, as cuSPARSELt
and PyTorch write it (measured). CUTLASS's compressor writes 0b0000, see `MetadataFormat.empty`."""


@dataclass(frozen=True)
class MetadataFormat:
    """One way to store the codes of a whole matrix, for one element type.

    Attributes:
        name: as `metadata_format` takes it, for example "cutlass.sm80".
        title: what it is, in a few words.
        element: the type of the sparse operand's elements.
        sparsity: the pattern that goes with it.
        atom: digits of the position inside an atom, lowest first (see above).
        order: which atoms follow each other: "rows" (down a column of atoms first) or "chunks" (along a row first).
        word_bits: width of the words of the stored array.
        codes_per_word: codes in a word, from the lowest bits up.
        inner: names and sizes of the places of one atom beside the code in its word, the outermost first; with them the
            array has the shape [row tile, chunk tile, *inner]. Empty: the array is flat, or a matrix (see `matrix`).
        matrix: whether the array has as many rows as the matrix of codes.
        padded: whether matrices that do not fill whole atoms are padded with `EMPTY`; otherwise they are refused.
        group_rows: 0, or rows after which the order of atoms starts anew (the last group may be shorter): inside a
            group of two atoms along K, atoms go down the rows first.
        empty: codes that are not defined, and that software leaves in this format for a chunk without an element, or
            in padding. They are read as `EMPTY`, and never written.
        source: where the mapping comes from.
        evidence: "measured", "published" (a public source states it) or "by PTX".
    """

    name: str
    title: str
    element: ElementType
    sparsity: Sparsity
    atom: str
    order: str
    word_bits: int
    codes_per_word: int
    source: str
    evidence: str
    inner: tuple[tuple[str, int], ...] = ()
    matrix: bool = False
    padded: bool = False
    group_rows: int = 0
    empty: tuple[int, ...] = ()

    @cached_property
    def digits(self) -> tuple[tuple[str, int], ...]:
        """The atom's digits as (axis, stride), lowest first; each has size 2."""
        axes = {"r": "row", "c": "chunk"}
        return tuple((axes[digit[0]], int(digit[1:])) for digit in self.atom.split())

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and chunks of one atom."""
        rows = 1 << sum(axis == "row" for axis, _ in self.digits)
        return rows, (1 << len(self.digits)) // rows

    @property
    def step(self) -> tuple[int, int]:
        """The numbers of rows and chunks that a matrix must be a multiple of, or is padded to."""
        rows, chunks = self.tile
        return rows, 2 * chunks if self.group_rows else max(chunks, self.codes_per_word)

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        """The type of the stored array: unsigned words."""
        return np.dtype(f"u{self.word_bits // 8}")

    def extent(self, rows: int, chunks: int) -> tuple[int, int]:
        """The numbers of rows and chunks with padding. Raises IsaError if the format has no padding and the matrix does
        not fill whole atoms."""
        if rows < 1 or chunks < 1:
            raise IsaError(
                "", -1, f"{self.name}: a matrix of {rows} x {chunks} codes", "at least one row and one chunk"
            )
        step_rows, step_chunks = self.step
        full = -(-rows // step_rows) * step_rows, -(-chunks // step_chunks) * step_chunks
        if full != (rows, chunks) and not self.padded:
            reason = f"{self.name}: {rows} rows of {chunks} codes do not fill whole atoms"
            columns = step_chunks * self.sparsity.chunk
            raise IsaError("", -1, reason, f"rows in a multiple of {step_rows}, columns in a multiple of {columns}")
        return full

    def shape(self, rows: int, chunks: int) -> tuple[int, ...]:
        """The shape of the stored array for a matrix of this many rows and chunks."""
        full_rows, full_chunks = self.extent(rows, chunks)
        words = full_rows * full_chunks // self.codes_per_word
        if self.inner:
            tile_rows, tile_chunks = self.tile
            return full_rows // tile_rows, full_chunks // tile_chunks, *(size for _, size in self.inner)
        return (rows, words // rows) if self.matrix else (words,)

    def mappings(self, rows: int, chunks: int) -> tuple[tuple[int, int, Mapping], ...]:
        """For each group of rows its first row, its first word, and the mapping of its rows. There is one group, except
        in formats with `group_rows`.

        A mapping's places are ("word", "code"), or those of `inner` with "row_tile", "chunk_tile" before and "code"
        after; its axes are "row" and "chunk".
        """
        return _mappings(self, *self.extent(rows, chunks))

    def positions(self, rows: int, chunks: int) -> Integers:
        """Where each code lies, int64 [rows with padding, chunks with padding], counted in codes from the start."""
        return _positions(self, *self.extent(rows, chunks))

    def store(self, codes: Bits) -> Words:
        """Codes uint32 [row, chunk] -> the stored array (see `shape`).

        Raises:
            IsaError: codes above 15, not two axes, or a shape that the format does not take.
        """
        codes = np.asarray(codes)
        if codes.ndim != 2 or codes.dtype.kind != "u" or (codes.size and int(codes.max()) > 15):
            reason = f"{self.name}: codes of type {codes.dtype} and shape {codes.shape}"
            raise IsaError("", -1, reason, "unsigned [row, chunk], each 0 to 15")
        rows, chunks = codes.shape
        full_rows, full_chunks = self.extent(rows, chunks)
        padded = np.full((full_rows, full_chunks), EMPTY, np.uint8)
        padded[:rows, :chunks] = codes
        flat = np.empty(padded.size, np.uint8)
        flat[self.positions(rows, chunks).ravel()] = padded.ravel()
        shifts = (CODE_BITS * np.arange(self.codes_per_word)).astype(self.dtype)
        words = flat.reshape(-1, self.codes_per_word).astype(self.dtype) << shifts
        stored: Words = np.bitwise_or.reduce(words, axis=-1).astype(self.dtype)
        return stored.reshape(self.shape(rows, chunks))

    def load(self, stored: NDArray[np.integer], rows: int | None = None, chunks: int | None = None) -> Bits:
        """The inverse of `store`; padding is dropped.

        Args:
            stored: the array; signed words of the same width are taken as they are.
            rows, chunks: of the matrix of codes. They may be left out where the array's shape tells them: for formats
                whose array is a matrix or is cut into tiles.

        Raises:
            IsaError: another type or shape.
        """
        stored = np.asarray(stored)
        if stored.dtype.kind == "i":
            stored = stored.view(f"u{stored.dtype.itemsize}")
        if self.codes_per_word == 1 and stored.dtype.kind == "u" and stored.size and int(stored.max()) < 256:
            stored = stored.astype(self.dtype)  # codes, in words of any width
        if rows is None or chunks is None:
            rows, chunks = self._guess(stored, rows, chunks)
        shape = self.shape(rows, chunks)
        if stored.dtype != self.dtype or (stored.shape != shape and stored.shape != (int(np.prod(shape)),)):
            reason = f"{self.name}: metadata of type {stored.dtype} and shape {list(stored.shape)}"
            raise IsaError("", -1, reason, f"{self.dtype.name} {list(shape)} for {rows} rows of {chunks} codes")
        shifts = (CODE_BITS * np.arange(self.codes_per_word)).astype(self.dtype)
        flat = (stored.reshape(-1, 1) >> shifts).reshape(-1).astype(np.uint32)
        if self.codes_per_word * CODE_BITS == self.word_bits:
            flat &= np.uint32(15)
        codes: Bits = flat[self.positions(rows, chunks)][:rows, :chunks]
        if codes.size and int(codes.max()) > 15:
            raise IsaError("", -1, f"{self.name}: a code of {int(codes.max())}", "codes of 0 to 15")
        return codes

    def formulas(self) -> dict[str, str]:
        """Lines of integer arithmetic for one atom: where a row and chunk lie, and what a place holds."""
        mapping = _mappings(self, *self.extent(*self.step))[0][2]
        lines = mapping.formulas()
        return {name: line for name, line in lines.items() if line != "0"}

    def _guess(self, stored: NDArray[np.integer], rows: int | None, chunks: int | None) -> tuple[int, int]:
        """The numbers of rows and chunks; where they are not given, they are derived from the shape of the array."""
        count = stored.size * self.codes_per_word
        if rows is None and self.inner and stored.ndim == 2 + len(self.inner):
            return stored.shape[0] * self.tile[0], stored.shape[1] * self.tile[1]
        if rows is None and self.matrix and stored.ndim == 2:
            rows = stored.shape[0]
        if rows is None or (self.padded and chunks is None) or (chunks is None and count % rows):
            reason = f"{self.name}: an array of shape {list(stored.shape)} does not tell how many rows it has"
            raise IsaError("", -1, reason, "the number of rows, and of codes in a row, given beside it")
        return rows, chunks if chunks is not None else count // rows


@lru_cache(maxsize=4)  # arrays as large as a matrix of codes
def _positions(format: MetadataFormat, rows: int, chunks: int) -> Integers:
    positions = np.empty((rows, chunks), np.int64)
    for first_row, first_word, mapping in _mappings(format, rows, chunks):
        place: Integers = np.zeros(mapping.shape, np.int64)
        for (_, size), index in zip(mapping.places, mapping.grid, strict=True):
            place = place * size + index
        positions[first_row : first_row + mapping.shape[0]] = place + first_word * format.codes_per_word
    positions.setflags(write=False)
    return positions


@lru_cache(maxsize=4)  # arrays as large as a matrix of codes
def _mappings(format: MetadataFormat, rows: int, chunks: int) -> tuple[tuple[int, int, Mapping], ...]:
    tile_rows, tile_chunks = format.tile
    digits = [(1 << bit, 2, axis, stride) for bit, (axis, stride) in enumerate(format.digits)]
    size = tile_rows * tile_chunks
    if format.group_rows:
        return _grouped(format, digits, rows, chunks)
    down, along = rows // tile_rows, chunks // tile_chunks
    if format.order == "rows":
        digits += [(size, down, "row", tile_rows), (size * down, along, "chunk", tile_chunks)]
    else:
        digits += [(size, along, "chunk", tile_chunks), (size * along, down, "row", tile_rows)]
    places: tuple[tuple[str, int], ...] = (("word", rows * chunks // format.codes_per_word),)
    if format.inner:
        places = (("row_tile", down), ("chunk_tile", along), *format.inner)
    return ((0, 0, _mapping((*places, ("code", format.codes_per_word)), digits, rows, chunks)),)


def _grouped(
    format: MetadataFormat, digits: list[tuple[int, int, str, int]], rows: int, chunks: int
) -> tuple[tuple[int, int, Mapping], ...]:
    """Groups of `group_rows` rows by two atoms along K; the full groups share one mapping, a shorter last one has its
    own."""
    tile_rows, tile_chunks = format.tile
    size, pair = tile_rows * tile_chunks, 2 * tile_chunks
    full = rows // format.group_rows
    places = (("word", rows * chunks // format.codes_per_word), ("code", format.codes_per_word))
    parts = []
    for first, groups, height in (
        (0, full, format.group_rows),
        (full * format.group_rows, 1, rows % format.group_rows),
    ):
        if groups and height:
            down = height // tile_rows
            here = [
                *digits,
                (size, down, "row", tile_rows),
                (size * down, 2, "chunk", tile_chunks),
                (height * pair, groups, "row", height),
                (rows * pair, chunks // pair, "chunk", pair),
            ]
            first_word = first * pair // format.codes_per_word
            parts.append((first, first_word, _mapping(places, here, groups * height, chunks)))
    return tuple(parts)


def _mapping(
    places: tuple[tuple[str, int], ...], digits: list[tuple[int, int, str, int]], rows: int, chunks: int
) -> Mapping:
    """Digits of the flat position (step, size, axis, stride) cut at the borders of the places."""
    pieces: list[Digit] = []
    for step, size, axis, stride in digits:
        start = 1
        for name, extent in reversed(places):
            top = start * extent
            low, high = max(step, start), min(step * size, top)
            if size > 1 and low < high:
                pieces.append(Digit(name, low // start, high // low, axis, stride * (low // step)))
            start = top
    return Mapping(places, (("row", rows), ("chunk", chunks)), tuple(pieces))
