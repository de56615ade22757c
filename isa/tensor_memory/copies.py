"""Where `tcgen05.cp` puts the bytes of a matrix in shared memory: which cells of Tensor Memory receive them, the copies
by multicast included.

Shapes: published (PTX ISA 9.0, 9.7.16.9.1; CUTLASS); the lanes of .4x256b: inferred (CUTLASS alone). Decompression:
that 16 elements and their padding become 16 bytes is published (9.7.16.9.1.1 and 9.7.16.9.1.2); which bits of the byte
they take is inferred (see `decompress`).
"""

from __future__ import annotations

from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from isa.errors import IsaError
from isa.mapping import Digit, Fixed, Mapping
from isa.shared_memory.packing import DECOMPRESSIONS, UNIT, Bytes, packing
from isa.shared_memory.tile import COPY_SHAPES
from isa.tensor_memory.address import COLUMNS, QUARTER, TMEM_LANES
from isa.types import Bits, typed

COPY = "PTX ISA 9.0, 9.7.16.9.1 (tcgen05.cp)"


@dataclass(frozen=True)
class Copy:
    """One shape of `tcgen05.cp`: where the bytes of a matrix in shared memory go.

    Attributes:
        shape: "128x256b", "128x128b", "64x128b", "32x128b" or "4x256b".
        multicast: "", "warpx2::02_13", "warpx2::01_23" or "warpx4".
        mapping: places (lane, column, byte), from the base, <-> coordinates (row, source, copy): byte `source` of a row
            of the matrix.
        evidence: "published" or "inferred".
    """

    shape: str
    multicast: str
    mapping: Mapping
    evidence: str

    @property
    def source(self) -> tuple[int, int]:
        """Rows of the matrix, and bytes in each."""
        rows, width, _ = self.mapping.shape
        return rows, width

    @property
    def copies(self) -> int:
        """The number of times that each byte is written."""
        return self.mapping.shape[2]

    @property
    def columns(self) -> int:
        """Columns that are written."""
        return dict(self.mapping.places)["column"]

    def check_base(self, lane: int, column: int) -> None:
        """Raises IsaError if a copy to that base leaves Tensor Memory (inferred from its extent: every shape but
        .4x256b spans all lanes)."""
        lanes = range(QUARTER if self.mapping.fixed else 1)
        if lane not in lanes:
            legal = "0" if len(lanes) == 1 else f"0 to {lanes[-1]}"
            raise IsaError(
                str(lane),
                -1,
                f"tcgen05.cp.{self.shape} at lane {lane}",
                f"lane {legal}",
                section=COPY,
                rule="warp-quarter",
            )
        if not 0 <= column <= COLUMNS - self.columns:
            reason = f"tcgen05.cp.{self.shape} at column {column} writes {self.columns} columns"
            raise IsaError(str(column), -1, reason, f"column 0 to {COLUMNS - self.columns}", section=COPY)

    def scatter(self, matrix: Bytes, rest: Bits | None = None) -> Bits:
        """Matrix uint8 [..., row, byte] -> cells uint32 [..., 128 lanes, column]; what is not written keeps `rest`
        (default 0)."""
        matrix = typed(matrix, np.uint8, self.source, f"tcgen05.cp.{self.shape}: matrix")
        cells = np.zeros((*matrix.shape[:-2], TMEM_LANES, self.columns, 4), np.uint8)
        if rest is not None:
            rest = typed(rest, np.uint32, (TMEM_LANES, self.columns), f"tcgen05.cp.{self.shape}: cells")
            cells[...] = np.ascontiguousarray(rest, "<u4")[..., None].view(np.uint8)
        lane, column, byte = self.mapping.grid
        cells[..., lane, column, byte] = matrix[..., None]
        return np.ascontiguousarray(cells.view("<u4")[..., 0], np.uint32)

    def gather(self, words: Bits, copy: int = 0) -> Bytes:
        """Cells uint32 [..., 128 lanes, column] -> the matrix uint8 [..., row, byte] of which they hold this copy."""
        words = typed(words, np.uint32, (TMEM_LANES, self.columns), f"tcgen05.cp.{self.shape}: cells")
        if not 0 <= copy < self.copies:
            raise IsaError(
                str(copy), -1, f"copy {copy} of tcgen05.cp.{self.shape}", f"0 to {self.copies - 1}", section=COPY
            )
        cells = np.ascontiguousarray(words, "<u4")[..., None].view(np.uint8)
        lane, column, byte = (grid[..., copy] for grid in self.mapping.grid)
        matrix: Bytes = cells[..., lane, column, byte]
        return matrix


_COPIES: AbstractMapping[tuple[str, str], tuple[tuple[Digit, ...], tuple[Fixed, ...], int, str]] = {
    ("128x256b", ""): ((Digit("lane", 1, 128, "row", 1),), (), 1, "published"),
    ("128x128b", ""): ((Digit("lane", 1, 128, "row", 1),), (), 1, "published"),
    ("64x128b", "warpx2::02_13"): (
        (Digit("lane", 1, 64, "row", 1), Digit("lane", 64, 2, "copy", 1)),
        (),
        2,
        "published",
    ),
    ("64x128b", "warpx2::01_23"): (
        (Digit("lane", 1, 32, "row", 1), Digit("lane", 64, 2, "row", 32), Digit("lane", 32, 2, "copy", 1)),
        (),
        2,
        "published",
    ),
    ("32x128b", "warpx4"): ((Digit("lane", 1, 32, "row", 1), Digit("lane", 32, 4, "copy", 1)), (), 4, "published"),
    ("4x256b", ""): ((Digit("lane", 32, 4, "row", 1),), (Fixed("lane", 1, 32, 0),), 1, "inferred"),
}


@lru_cache(maxsize=16)
def copy(shape: str, multicast: str = "") -> Copy:
    """The map of `tcgen05.cp.shape.multicast`; raises IsaError if there is none. PTX ISA 9.0, 9.7.16.9.1.

    The lanes count from the base address. Only .4x256b starts elsewhere than at lane 0 (CUTLASS: it renews one lane of
    each 32).
    """
    if (shape, multicast) not in _COPIES:
        legal = ", ".join(".".join(name for name in key if name) for key in _COPIES)
        raise IsaError(shape, 0, f"tcgen05.cp has no .{shape}{'.' * bool(multicast)}{multicast}", legal, section=COPY)
    lanes, fixed, copies, evidence = _COPIES[shape, multicast]
    rows, width = COPY_SHAPES[shape]
    digits = (*lanes, Digit("byte", 1, 4, "source", 1), Digit("column", 1, width // 4, "source", 4))
    places = (("lane", TMEM_LANES), ("column", width // 4), ("byte", 4))
    return Copy(
        shape, multicast, Mapping(places, (("row", rows), ("source", width), ("copy", copies)), digits, fixed), evidence
    )


def decompress(packed: Bytes, source: str) -> Bytes:
    """What `.b8x16.source` expands bytes to, before they are laid out like any others: uint8 [..., 16 * n] -> the same
    shape.

    Args:
        packed: groups of 16 bytes: 16 elements of 4 bits and 8 bytes of padding, or of 6 bits and 4 bytes; lowest bits
            first.
        source: "b4x16_p64" or "b6x16_p32".

    4 bits come to lie in bits 5-2 of their byte, where kinds f8f6f4 and mxf8f6f4 look for an e2m1; 6 bits in bits 5-0;
    the rest is 0. Inferred from one reading of PTX's figures, as is the order of the packed elements. `ldmatrix` with
    .b8x16.b4x16_p64 differs: 4 bits in bits 3-0, which CUTLASS shifts by 2.
    """
    if source not in DECOMPRESSIONS:
        raise IsaError(source, 0, f"unknown source format '{source}'", ", ".join(DECOMPRESSIONS), section=COPY)
    packed = np.asarray(packed)
    if packed.dtype != np.uint8 or packed.ndim == 0 or packed.shape[-1] % UNIT:
        raise IsaError(
            source,
            -1,
            f"bytes of type {packed.dtype} and shape {packed.shape}",
            f"uint8 [..., a multiple of {UNIT}]",
            section=COPY,
        )
    units = packed.reshape(*packed.shape[:-1], -1, UNIT)
    return packing(DECOMPRESSIONS[source]).unpack(units).astype(np.uint8).reshape(packed.shape)
