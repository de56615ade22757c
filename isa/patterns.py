"""The table of sparsity patterns: those of `mma.sp`, and those that no chip has.

A row says which elements of a matrix may stay, how the hardware is told which of them did, and how many bits that
takes. Rows of three kinds, each written as its users write it:

    N:M        of every M neighbours along K, N stay: 2:4, 1:4, 4:8, ...; `Np:M` or "4:8 in pairs" keeps whole pairs
    V:N:M      in every block of V rows and M columns the same 2 * N columns stay, and of these N in each row (VENOM)
    N:M/N:M    of every M groups N stay, and in each of these an N:M (HighLight's ranks, the outer one first)
    uD         anything, with a density D: u0.05; a bitmap says what stayed

2:4, 1:2 of tf32 and 4:8 in pairs are the rows that `mma.sp` has; the rest of `isa` reads them from here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations

import numpy as np
from numpy.typing import NDArray

from isa.arguments import text_of
from isa.errors import IsaError

_WIDEST = 32  # bits of the code of one chunk


@dataclass(frozen=True)
class Sparsity:
    """N of M: of every chunk of neighbours along K as many stay as the pattern stores.

    A code says which: one index for each stored unit, the first in the lowest bits.

    Attributes:
        name: as PTX's users say it.
        chunk: logical columns that one code covers.
        stored: stored elements of a chunk.
        unit: neighbouring elements that one index picks together.
        splices: whether an index picks 16-bit halves of elements, two of them for each stored element (1:2 of tf32), so
            that an undefined code joins the halves of two elements instead of picking one.
        source: who says so.
    """

    name: str
    chunk: int
    stored: int
    unit: int = 1
    splices: bool = False
    source: str = "hypothetical"

    @property
    def units(self) -> int:
        """Units of a chunk, of which `kept` are stored."""
        return self.chunk // self.unit

    @property
    def kept(self) -> int:
        """Units of a chunk that are stored."""
        return self.stored // self.unit

    @property
    def index_bits(self) -> int:
        """Width of the selector that one index sets: a multiplexer of `units` inputs (of halves where it splices)."""
        return max((self.units * (2 if self.splices else 1) - 1).bit_length(), 1)

    @property
    def code_bits(self) -> int:
        """Bits of the metadata of a chunk."""
        return self.index_bits * self.kept * (2 if self.splices else 1)

    @property
    def field_bits(self) -> int:
        """Bits that a code takes in a register: the next power of two."""
        return 1 << (self.code_bits - 1).bit_length()

    @property
    def density(self) -> float:
        """The part of the elements that is stored."""
        return self.stored / self.chunk

    @cached_property
    def ordered(self) -> tuple[int, ...]:
        """Codes with ascending indices, which are legal under `.sp::ordered_metadata`."""
        return self._listed(list(combinations(range(self.units), self.kept)))

    @cached_property
    def unordered(self) -> tuple[int, ...]:
        """Codes with different indices, legal under `.sp` (8-bit floats: only the ordered ones, see
        `metadata_operand`)."""
        return self._listed(list(permutations(range(self.units), self.kept)))

    def _listed(self, choices: list[tuple[int, ...]]) -> tuple[int, ...]:
        return tuple(sorted(int(code) for code in self.codes(np.array(choices, np.int64))))

    def codes(self, indices: NDArray[np.int64]) -> NDArray[np.uint32]:
        """Indices of units [..., kept] -> codes uint32 [...]."""
        if self.splices:  # both halves of the element, low one first
            indices = np.stack([2 * indices, 2 * indices + 1], axis=-1).reshape(*indices.shape[:-1], -1)
        shifts = self.index_bits * np.arange(indices.shape[-1])
        return np.asarray(np.bitwise_or.reduce(indices << shifts, axis=-1), np.uint32)

    def indices(self, codes: NDArray[np.unsignedinteger]) -> NDArray[np.int64]:
        """Codes [...] -> indices of units [..., kept], as a multiplexer reads them; the inverse of `codes`."""
        step, skipped = (2 * self.index_bits, 1) if self.splices else (self.index_bits, 0)
        shifts = step * np.arange(self.kept) + skipped
        words = np.asarray(codes).astype(np.int64)[..., None]
        return (words >> shifts) & ((1 << (self.index_bits - skipped)) - 1)

    def distinct(self, codes: NDArray[np.unsignedinteger]) -> NDArray[np.bool_]:
        """Whether each code places its elements in different columns, bool like `codes`."""
        index = self.indices(codes)
        ordered = np.sort(index, axis=-1)
        apart = (ordered[..., 1:] != ordered[..., :-1]).all(axis=-1) & (index < self.units).all(axis=-1)
        return np.asarray(apart & (self.codes(index) == codes))

    @property
    def legal_text(self) -> str:
        """The codes that `distinct` accepts, for error messages."""
        if self.code_bits > 8:
            return f"{self.kept} different indices below {self.units}, of {self.index_bits} bits each"
        return ", ".join(f"{code:#0{self.code_bits + 2}b}" for code in self.unordered)

    def columns(self, k: int) -> int:
        """How many columns of A are stored for k logical columns."""
        return k * self.stored // self.chunk

    def metadata_bits(self, rows: int, k: int) -> int:
        """Bits of metadata of a matrix of this many rows and logical columns."""
        return rows * (k // self.chunk) * self.code_bits

    @property
    def formula(self) -> str:
        """The logical column of a stored one, from `code`, the metadata of its chunk; evaluated by `stored_columns`."""
        bits, units = self.index_bits, 1 << self.index_bits
        if self.splices:
            return f"{self.chunk} * column + code / 8"
        if self.stored == 1:
            return f"{self.chunk} * column + code"
        chunk = f"{self.chunk} * (column / {self.stored})"
        if self.unit == 1:
            return f"{chunk} + (code >> {bits} * (column % {self.stored})) % {units}"
        which = f"(code >> {bits} * (column / {self.unit} % {self.kept})) % {units}"
        return f"{chunk} + {self.unit} * ({which}) + column % {self.unit}"


@dataclass(frozen=True)
class VectorSparsity:
    """V:N:M as VENOM's: in every block of `rows` rows and `columns` columns the same 2 * N columns stay, and of every
    such 2 * N neighbours N in each row, for which the inner pattern has codes (N = 2 is the 2:4 of `mma.sp`).

    Attributes:
        rows: V.
        columns: M.
        inner: N:2N, of the columns that stayed.
    """

    rows: int
    columns: int
    inner: Sparsity
    source: str = "published: Castro et al., VENOM, SC 2023, arXiv 2310.02065"

    @property
    def name(self) -> str:
        return f"{self.rows}:{self.inner.stored}:{self.columns}"

    @property
    def density(self) -> float:
        """The part of the elements that is stored."""
        return self.inner.stored / self.columns

    @property
    def column_bits(self) -> int:
        """Bits of the index of one of the columns that a block keeps."""
        return max((self.columns - 1).bit_length(), 1)

    def metadata_bits(self, rows: int, k: int) -> int:
        """Bits of metadata of a matrix: the columns of each block, and a code for each row of it."""
        blocks = k // self.columns
        return blocks * (-(-rows // self.rows) * self.inner.chunk * self.column_bits + rows * self.inner.code_bits)


@dataclass(frozen=True)
class NestedSparsity:
    """Ranks of N:M in one another, as HighLight's: of every M groups (each as long as a chunk of the inner pattern) N
    stay, and in each of these the inner pattern.

    Attributes:
        outer: of groups.
        inner: of elements.
    """

    outer: Sparsity
    inner: Sparsity
    source: str = "published: Wu et al., HighLight, MICRO 2023, arXiv 2305.12718"

    @property
    def name(self) -> str:
        return f"{self.outer.name}/{self.inner.name}"

    @property
    def density(self) -> float:
        """The part of the elements that is stored."""
        return self.outer.density * self.inner.density

    @property
    def chunk(self) -> int:
        """Logical columns of a chunk of the outer rank."""
        return self.outer.chunk * self.inner.chunk

    def metadata_bits(self, rows: int, k: int) -> int:
        """Bits of metadata of a matrix: indices of groups, and codes of the groups that stay."""
        groups = k // self.inner.chunk
        return self.outer.metadata_bits(rows, groups) + self.inner.metadata_bits(
            rows, self.outer.columns(groups) * self.inner.chunk
        )


@dataclass(frozen=True)
class Unstructured:
    """Any elements, a part `density` of them; a bitmap of one bit an element says which, as in DSTC and SparTen.

    Attributes:
        density: the part of the elements that stays, above 0 and up to 1.
    """

    density: float
    source: str = "published: bitmap encoding, Wang et al., Dual-side Sparse Tensor Core, ISCA 2021, arXiv 2105.09564"

    @property
    def name(self) -> str:
        return f"u{self.density:g}"

    def metadata_bits(self, rows: int, k: int) -> int:
        """Bits of metadata of a matrix."""
        return rows * k


Pattern = Sparsity | VectorSparsity | NestedSparsity | Unstructured

_PTX = "PTX ISA 9.0, 9.7.14.6.1; measured: NVIDIA H100 80GB, November 2026"
TWO_OF_FOUR = Sparsity("2:4", 4, 2, source=_PTX)
FOUR_OF_EIGHT = Sparsity("4:8 in pairs", 8, 4, unit=2, source=_PTX)
ONE_OF_TWO = Sparsity("1:2", 2, 1, splices=True, source=_PTX)

PATTERNS: dict[str, Pattern] = {
    pattern.name: pattern
    for pattern in (
        TWO_OF_FOUR,
        FOUR_OF_EIGHT,
        ONE_OF_TWO,
        Sparsity("1:4", 4, 1, source="published: Jeong et al., VEGETA, HPCA 2023, arXiv 2302.08687"),
        Sparsity("4:8", 8, 4),
        Sparsity("2:8", 8, 2, source="published: Wu et al., Sparseloop, MICRO 2022, section 7.1 (flexible STC)"),
        Sparsity("1:8", 8, 1),
        VectorSparsity(64, 8, TWO_OF_FOUR),
        VectorSparsity(128, 16, TWO_OF_FOUR),
        NestedSparsity(Sparsity("4:8", 8, 4), TWO_OF_FOUR),
        Unstructured(0.05),
    )
}
"""The patterns that this project names; `parse_pattern` makes others in the same way."""

FORMS = "N:M such as 1:4, 4p:8 (pairs), V:N:M such as 64:2:8, N:M/N:M such as 4:8/2:4, or uDENSITY such as u0.05"


def parse_pattern(text: str) -> Pattern:
    """The pattern that a text names (see the module).

    Raises:
        IsaError: no such pattern, or one whose numbers do not fit together.
    """
    known = PATTERNS.get(text_of(text, "a sparsity pattern", "2:4"))
    if known is not None:
        return known
    if "/" in text:
        outer, _, inner = text.partition("/")
        return NestedSparsity(_rank(text, outer), _rank(text, inner))
    if match := re.fullmatch(r"u(\d*\.?\d+)", text):
        density = float(match[1])
        if not 0 < density <= 1:
            raise IsaError(text, 1, f"a density of {density:g}", "above 0 and up to 1")
        return Unstructured(density)
    if match := re.fullmatch(r"(\d{1,4}):(\d{1,4}):(\d{1,4})", text):
        return _vector(text, *map(int, match.groups()))
    if match := re.fullmatch(r"(\d{1,3})(p?):(\d{1,3})", text):
        return _n_of_m(text, int(match[1]), int(match[3]), 2 if match[2] else 1)
    raise IsaError(text, 0, f"no sparsity pattern '{text}'", FORMS)


def chunk_pattern(given: str | Sparsity) -> Sparsity:
    """A pattern N:M, or the one that a text names.

    Raises:
        IsaError: no such pattern, or one of another kind.
    """
    found = given if isinstance(given, Sparsity) else parse_pattern(given)
    if not isinstance(found, Sparsity):
        raise IsaError(found.name, -1, f"pattern {found.name} has no codes of chunks", "N:M, such as 2:4")
    return found


def _rank(text: str, rank: str) -> Sparsity:
    """A rank of nested patterns, whose 1:2 is that of whole elements."""
    pattern = Sparsity("1:2", 2, 1) if rank == "1:2" else parse_pattern(rank)
    if not isinstance(pattern, Sparsity) or pattern.unit > 1:
        raise IsaError(text, 0, f"'{rank}' as a rank", "patterns N:M of elements, the outer one first")
    return pattern


def _n_of_m(text: str, stored: int, chunk: int, unit: int) -> Sparsity:
    if (stored, chunk, unit) == (FOUR_OF_EIGHT.stored, FOUR_OF_EIGHT.chunk, FOUR_OF_EIGHT.unit):
        return FOUR_OF_EIGHT
    if not 0 < stored < chunk or stored % unit or chunk % unit:
        raise IsaError(text, 0, f"{stored} of {chunk} in units of {unit}", "0 < N < M, both whole numbers of units")
    pattern = Sparsity(f"{stored}:{chunk}" if unit == 1 else f"{stored}:{chunk} in pairs", chunk, stored, unit)
    if pattern.code_bits > _WIDEST:
        legal = f"N * log2(M) of at most {_WIDEST} bits"
        raise IsaError(text, 0, f"{text} has codes of {pattern.code_bits} bits for each chunk", legal)
    return pattern


def _vector(text: str, rows: int, stored: int, columns: int) -> VectorSparsity:
    if rows < 1 or stored < 1 or columns < 2 * stored:
        raise IsaError(text, 0, f"V:N:M = {text}", "V of 1 or more, N of 1 or more, M of 2 * N or more")
    inner = parse_pattern(f"{stored}:{2 * stored}") if stored > 1 else Sparsity("1:2 of elements", 2, 1)
    assert isinstance(inner, Sparsity)
    return VectorSparsity(rows, columns, inner)
