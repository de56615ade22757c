"""Sparsity metadata of `tcgen05.mma.sp` in Tensor Memory: which bits of which cell hold the code of a chunk, and which
codes mean something.

A code has 4 bits and covers one chunk of logical columns: 2 (tf32), 4 (f16, f8f6f4, i8, mxf8f6f4) or 8 (mxf4,
mxf4nvf4). The operand addresses an even-aligned pair of columns. For row r of this CTA, with L(g) the first lane of
rows 16g to 16g + 15 (16g, or a + 32g in layouts C and F):

    f16, tf32    lane L(r/16) + r%8 + 8*(chunk/4)    column selector    bits 16*(r/8%2) + 4*(chunk%4) to + 3
    the others   lane L(r/16) + r%16                 column chunk/8     bits 4*(chunk%8) to + 3

f16 and tf32 use one column of the pair, which the sparsity selector picks; the others use both. `.ws` with M = 64 or 32
needs 2 or 4 copies, in lanes +64, or +32, +64 and +96.

Evidence. Cells of layouts A and D: published (CUTLASS tmem_e_frg and its shared-memory atoms, JAX). Layout F, f16 and
8-bit kinds: published (a public kernel is bit-exact on sm_110); tf32: inferred. Layout C: inferred, like F. Copies of E
and G: inferred (CUTLASS has the layout, but no kernel uses it). Selector: published (CUTLASS, JAX). Codes: published
(PTX ISA 9.0, 9.7.16.10.8.1 to .3).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from isa.arguments import bit_patterns
from isa.descriptors.instruction import KINDS, legal_m
from isa.errors import IsaError
from isa.fragments.metadata import (
    CODE_BITS,
    CODES_PER_REGISTER,
    FOUR_OF_EIGHT,
    ONE_OF_TWO,
    TWO_OF_FOUR,
    Sparsity,
)
from isa.mapping import Digit, Fixed, Mapping
from isa.shared_memory.packing import Bytes
from isa.tensor_memory.address import TMEM_LANES
from isa.tensor_memory.copies import copy
from isa.tensor_memory.datapath import HALF, DatapathLayout, datapath
from isa.types import Bits, pack, typed, unpack

CODES_SECTION = "PTX ISA 9.0, 9.7.16.10.8.1 to 9.7.16.10.8.3 (sparse matrices)"
SELECTOR_SECTION = "PTX ISA 9.0, 9.7.16.10.8.4 (sparsity selector)"
PAIR = 2  # columns that the operand names
TILE_COLUMNS = 4  # columns that one tcgen05.cp.128x128b brings
TILE_CHUNKS = TILE_COLUMNS * CODES_PER_REGISTER  # of a row
UNORDERED = 0b0110  # documented, with its indices descending
_SAME = (0b0000, 0b0101, 0b1010, 0b1111)  # both indices the same: what is written for a chunk without a nonzero element
_SELECTED = ("f16", "tf32")


@dataclass(frozen=True)
class TmemMetadata:
    """The metadata of one sparse instruction, as one CTA holds it.

    Attributes:
        kind: of the instruction.
        layout: its data path layout.
        sparsity: what a code means.
        codes: the codes that are defined, ascending.
        evidence: "published" or "inferred": where the cells come from.
    """

    kind: str
    layout: DatapathLayout
    sparsity: Sparsity
    codes: tuple[int, ...]
    evidence: str

    @property
    def shape(self) -> tuple[int, int]:
        """Rows in this CTA, and chunks of a row."""
        return self.layout.rows, 8 if self.kind in _SELECTED else 16

    @property
    def k(self) -> int:
        """Logical columns of one instruction."""
        return self.shape[1] * self.sparsity.chunk

    @property
    def copies(self) -> int:
        """The number of times that the metadata must be stored."""
        return self.layout.parts

    @property
    def selectors(self) -> tuple[int, ...]:
        """Legal sparsity selectors. f8f6f4 and i8: must be 0; mx kinds: taken as 0 (published); that 2 and 3 mean
        nothing: inferred."""
        return (0, 1) if self.kind in _SELECTED else (0,)

    @property
    def selector_read(self) -> bool:
        """Whether the selector of the instruction descriptor is read; of the mx kinds it is taken as 0, whatever it is
        (published)."""
        return not self.kind.startswith("mx")

    @property
    def columns(self) -> int:
        """Columns of 32 bits that one instruction reads."""
        return 1 if self.kind in _SELECTED else PAIR

    @property
    def instructions_per_tile(self) -> int:
        """Instructions along K whose metadata one `tcgen05.cp.128x128b` brings."""
        return TILE_COLUMNS // self.columns

    def mapping(self, selector: int = 0, base_lane: int = 0) -> Mapping:
        """Places (lane, column of the pair, code) <-> coordinates (row, chunk, copy); code q is bits 4q to 4q + 3 of
        the cell.

        Raises:
            IsaError: another selector, or a base lane that the layout has not.
        """
        if selector not in self.selectors:
            legal = " or ".join(map(str, self.selectors))
            legal += "" if self.selector_read else ", which is taken whatever the instruction descriptor says"
            raise IsaError(
                str(selector),
                -1,
                f"sparsity selector {selector} with .kind::{self.kind}",
                legal,
                section=SELECTOR_SECTION,
                rule="idesc",
            )
        return _mapping(self.layout, self.kind in _SELECTED, int(selector), self.layout.checked(base_lane))

    def gather(self, words: Bits, selector: int = 0, base_lane: int = 0, copy: int = 0) -> Bits:
        """Cells uint32 [..., 128 lanes, 2 columns] -> codes uint32 [..., row, chunk] of one copy; raises IsaError for a
        wrong argument."""
        if not 0 <= copy < self.copies:
            legal = f"0 to {self.copies - 1}"
            raise IsaError(
                str(copy),
                -1,
                f"copy {copy} of the metadata in layout {self.layout.name}",
                legal,
                section=SELECTOR_SECTION,
            )
        return self._every(words, selector, base_lane)[..., copy]

    def scatter(self, codes: Bits, selector: int = 0, base_lane: int = 0, rest: Bits | None = None) -> Bits:
        """Codes uint32 [..., row, chunk] -> cells uint32 [..., 128 lanes, 2 columns], all copies; all other bits keep
        `rest` (default 0)."""
        codes = self._checked(codes, self.shape)
        bit_patterns(codes, CODE_BITS, "metadata codes")
        lane, column, code = self.mapping(selector, base_lane).grid
        fields = np.zeros((*codes.shape[:-2], TMEM_LANES, PAIR, CODES_PER_REGISTER), np.uint32)
        if rest is not None:
            old = typed(rest, np.uint32, (TMEM_LANES, PAIR), "metadata cells")
            fields[...] = unpack(old[..., None], CODE_BITS)
        fields[..., lane, column, code] = codes[..., None]
        return pack(fields, CODE_BITS)[..., 0]

    def legal(self, codes: Bits) -> NDArray[np.bool_]:
        """Whether each code is defined; the result has the shape of `codes`."""
        return np.isin(codes, self.codes)

    def findings(self, codes: Bits, stored_is_zero: NDArray[np.bool_] | None = None) -> dict[str, NDArray[np.bool_]]:
        """What there is to say of each code, name -> same shape as `codes`.

        Args:
            codes: uint32 [..., row, chunk].
            stored_is_zero: whether all stored elements of the chunk are zero, same shape; left out: none is known to
                be.

        `undefined-metadata`: a code that PTX does not list (undefined behavior for tf32, mxf4 and mxf4nvf4, "not
        meaningful" for the others: published), whatever is stored. `zero-chunk` says of some of these that they have
        two equal indices and nothing but zeros stored: CUTLASS writes them for empty chunks and for padding
        (published; that hardware ignores them: inferred). `unordered-metadata`: 0b0110, listed but the only one whose
        indices descend: what it does is inferred.
        """
        codes = np.asarray(codes)
        zero = (
            np.zeros(codes.shape, np.bool_) if stored_is_zero is None else np.broadcast_to(stored_is_zero, codes.shape)
        )
        harmless = ~self.legal(codes) & np.isin(codes, _SAME) & zero
        return {
            "undefined-metadata": ~self.legal(codes),
            "zero-chunk": harmless,
            "unordered-metadata": (codes == UNORDERED) & self.legal(codes),
        }

    def tile_image(self, codes: Bits, base_lane: int = 0) -> Bytes:
        """Codes uint32 [..., row, 32 chunks] -> bytes uint8 [..., 128, 16] in shared memory, for one
        `tcgen05.cp.128x128b`.

        32 chunks are the metadata of `instructions_per_tile` instructions, which lie in 4 columns, the first at a
        multiple of 4. Lanes that the layout does not use are 0. CUTLASS and JAX do the same with 128 rows (published);
        for others it is inferred.
        """
        codes = self._checked(codes, (self.layout.rows, TILE_CHUNKS))
        words = np.zeros((*codes.shape[:-2], TMEM_LANES, TILE_COLUMNS), np.uint32)
        for start, pair, selector in self._steps():
            part = words[..., pair : pair + PAIR]
            words[..., pair : pair + PAIR] = self.scatter(
                codes[..., start : start + self.shape[1]], selector, base_lane, part
            )
        return copy("128x128b").gather(words)

    def tile_codes(self, words: Bits, base_lane: int = 0) -> Bits:
        """Cells uint32 [..., 128 lanes, 4 columns] -> codes uint32 [..., row, 32 chunks] of all instructions of the
        tile, from the first copy."""
        words = typed(words, np.uint32, (TMEM_LANES, TILE_COLUMNS), "metadata cells")
        return np.concatenate(
            [self.gather(words[..., pair : pair + PAIR], selector, base_lane) for _, pair, selector in self._steps()],
            axis=-1,
        )

    def from_image(self, image: Bytes, base_lane: int = 0) -> Bits:
        """The inverse of `tile_image`: bytes uint8 [..., 128, 16] -> codes uint32 [..., row, 32 chunks]."""
        return self.tile_codes(copy("128x128b").scatter(image), base_lane)

    def _steps(self) -> list[tuple[int, int, int]]:
        """First chunk, first column of the pair, and selector of each instruction of a tile."""
        count = len(self.selectors)
        return [(i * self.shape[1], PAIR * (i // count), i % count) for i in range(self.instructions_per_tile)]

    def _every(self, words: Bits, selector: int, base_lane: int) -> Bits:
        """Codes [..., row, chunk, copy]."""
        lane, column, code = self.mapping(selector, base_lane).grid
        words = typed(words, np.uint32, (TMEM_LANES, PAIR), "metadata cells")
        return (words[..., lane, column] >> (CODE_BITS * code).astype(np.uint32)) & np.uint32(15)

    def _checked(self, codes: Bits, shape: tuple[int, int]) -> Bits:
        codes = typed(codes, np.uint32, shape, f"metadata codes of .kind::{self.kind}, M = {self.layout.m}")
        if codes.size and int(codes.max()) > 15:
            raise IsaError(
                str(int(codes.max())), -1, f"a metadata code of {int(codes.max())}", "0 to 15", section=CODES_SECTION
            )
        return codes


def figure_metadata(kind: str) -> TmemMetadata | None:
    """The metadata of M = 64 of the mx kinds, whose figure PTX prints although no instruction has that M; None for
    other kinds. PTX ISA 9.0, 9.7.16.10.8.4.5: the figure is one with that of f8f6f4 and i8."""
    if not kind.startswith("mx"):
        return None
    return _metadata(kind, datapath(64, sparse=True))


@lru_cache(maxsize=128)
def tmem_metadata(kind: str, m: int, cta_group: int = 1, ws: bool = False) -> TmemMetadata:
    """The metadata of a sparse instruction; raises IsaError where there is none with this kind and M. PTX ISA 9.0,
    9.7.16.10.8.

    >>> tmem_metadata("f16", 128).mapping(selector=1).formulas()["lane"]
    'row % 8 + 8 * (chunk / 4) + 16 * (row / 16)'
    """
    if kind not in KINDS:
        raise IsaError(str(kind), 0, f"unknown kind '{kind}'", ", ".join(KINDS))
    legal = legal_m(kind, cta_group=cta_group, sparse=True, ws=ws) if cta_group in (1, 2) else ()
    if m not in legal:
        form = f".kind::{kind}, cta_group::{cta_group}, .sp" + ", .ws" * bool(ws)
        raise IsaError(
            str(m),
            -1,
            f"M = {m} with {form}",
            " or ".join(map(str, legal)) or "no such form",
            section="PTX ISA 9.0, 9.7.16.2.1",
            rule="idesc",
        )
    return _metadata(kind, datapath(m, cta_group, sparse=True, ws=ws))


def _metadata(kind: str, layout: DatapathLayout) -> TmemMetadata:
    sparsity = ONE_OF_TWO if kind == "tf32" else FOUR_OF_EIGHT if kind in ("mxf4", "mxf4nvf4") else TWO_OF_FOUR
    codes = sparsity.ordered if kind == "tf32" else tuple(sorted((*sparsity.ordered, UNORDERED)))
    published = layout.name in "AD" or (layout.name == "F" and kind != "tf32")
    return TmemMetadata(kind, layout, sparsity, codes, "published" if published else "inferred")


@lru_cache(maxsize=128)
def _mapping(layout: DatapathLayout, selected: bool, selector: int, base_lane: int) -> Mapping:
    """Rows 16g to 16g + 15 lie in 16 lanes: one each, or two (r and r + 8) in a cell and the halves of K in lanes 8
    apart."""
    stride = 32 if layout.half else HALF
    rows = [
        Digit("lane", stride, layout.rows // HALF, "row", HALF),
        Digit("lane", layout.rows, layout.parts, "copy", 1),
    ]
    fixed = [Fixed("lane", HALF, 2, base_lane // HALF)] if layout.half else []
    if selected:
        rows += [
            Digit("lane", 1, 8, "row", 1),
            Digit("code", 4, 2, "row", 8),
            Digit("code", 1, 4, "chunk", 1),
            Digit("lane", 8, 2, "chunk", 4),
        ]
        fixed += [Fixed("column", 1, PAIR, selector)]
    else:
        rows += [
            Digit("lane", 1, HALF, "row", 1),
            Digit("code", 1, 8, "chunk", 1),
            Digit("column", 1, PAIR, "chunk", 8),
        ]
    places = (("lane", TMEM_LANES), ("column", PAIR), ("code", CODES_PER_REGISTER))
    axes = (("row", layout.rows), ("chunk", 8 if selected else 16), ("copy", layout.parts))
    return Mapping(places, axes, tuple(d for d in rows if d.size > 1), tuple(fixed))
