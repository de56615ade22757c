"""A tile of a GEMM: the part of D that one CTA computes, and how its threads share the work.

D[m][n] = sum over k of A[m][k] * B[n][k]: both operands have K contiguous. A is stored compressed where it is sparse,
with metadata beside it, laid out as the lanes read it: word [64 bytes of A's row][rows of a warp][lane][m16 tile]. An
iteration copies A (bm x bk), B (bn x bk) and the metadata to one of `stages` places in shared memory, whose 16-byte
columns are permuted depending on the row so that ldmatrix has no bank conflicts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from isa import IsaError, MmaForm, mma_form

TYPES = {"f16": ("f32", 16), "bf16": ("f32", 16), "s8": ("s32", 8)}  # input -> accumulator, bits of an element
_SHAPES = {(16, True): "m16n8k32", (16, False): "m16n8k16", (8, True): "m16n8k64", (8, False): "m16n8k32"}
ROWS = (64, 128, 256)  # bytes of a tile's row that the turning of columns is made for
STAGES = (2, 3, 4, 5, 6)
REGISTERS = 255
_ADDRESSES = 24  # registers for addresses and indices, at least
_SPARE = 36  # what ptxas 13.0 takes for them where there is room


@dataclass(frozen=True)
class Tile:
    """The work of a CTA.

    Attributes:
        type: the type of A and B: "f16", "bf16" or "s8".
        bm, bn, bk: rows of A, rows of B, and columns of K in an iteration.
        warps_m, warps_n: warps along M and N.
        stages: how many tiles are in shared memory at a time.
        sparse: whether A is 2:4 sparse.
    """

    type: str
    bm: int
    bn: int
    bk: int
    warps_m: int
    warps_n: int
    stages: int
    sparse: bool = True

    def __post_init__(self) -> None:
        problem = self.problem()
        if problem:
            raise IsaError(str(self), -1, *problem)

    def __str__(self) -> str:
        shape = f"{'sparse' if self.sparse else 'dense'} {self.type} {self.bm}x{self.bn}x{self.bk}"
        return f"{shape}, {self.warps_m}x{self.warps_n} warps, {self.stages} stages"

    def problem(self) -> tuple[str, str] | None:
        """What is wrong with the tile, and what would be right; None if nothing is wrong."""
        if self.type not in TYPES:
            return f"type '{self.type}' is not one of the generator's", ", ".join(TYPES)
        if self.stages not in STAGES:
            return f"{self.stages} stages", ", ".join(map(str, STAGES))
        if self.warps_m < 1 or self.warps_n < 1 or self.warps > 32:
            return f"{self.warps_m} x {self.warps_n} warps", "1 to 32 warps"
        if self.warps_m & (self.warps_m - 1):
            return f"{self.warps_m} warps along M", "1, 2, 4, 8 or 16"
        if self.bm < 1 or self.bm % (16 * self.warps_m) or self.bm // self.warps_m // 16 not in (1, 2, 4):
            return f"{self.bm} rows for {self.warps_m} warps", "16, 32 or 64 rows for each warp along M"
        step = 8 if self.sparse else 16
        if self.bn < 1 or self.bn % (step * self.warps_n):
            return f"{self.bn} columns for {self.warps_n} warps", f"a multiple of {step} for each warp along N"
        rows = tuple(row * 8 // TYPES[self.type][1] for row in ROWS[1:])
        if self.bk not in rows:
            return f"bk = {self.bk}", f"{' or '.join(map(str, rows))} for {self.type}: rows of 128 or 256 bytes"
        if (
            self.row_a not in ROWS
            or not self.copies_a
            or self.bm * self.row_a % (16 * self.threads)
            or self.bn * self.row_b % (16 * self.threads)
        ):
            return (
                f"{self.threads} threads cannot share the copies of a {self.bm} x {self.bn} x {self.bk} tile evenly",
                "fewer warps, or a larger tile",
            )
        if self.threads * 16 // self.row_b % 8 or self.threads * 16 // self.row_a % 8:
            return f"{self.warps} warps copy fewer than 8 rows at once", "more warps, or a smaller bk"
        if self.sparse and self.size_e not in (4, 8, 16):
            return f"{self.bytes_e} bytes of metadata for {self.threads} threads", "4, 8 or 16 bytes for each thread"
        least = self.tiles_m * self.tiles_n * 4 + self._fragments + _ADDRESSES
        if least > REGISTERS:
            return f"a thread needs at least {least} registers", f"at most {REGISTERS}: more warps, or a smaller tile"
        return None

    @property
    def accumulator(self) -> str:
        """The type of D."""
        return TYPES[self.type][0]

    @property
    def form(self) -> MmaForm:
        """The form of the matrix instruction."""
        name = "mma.sp::ordered_metadata" if self.sparse else "mma"
        accumulator, bits = TYPES[self.type]
        return mma_form(
            f"{name}.sync.aligned.{_SHAPES[bits, self.sparse]}.row.col."
            f"{accumulator}.{self.type}.{self.type}.{accumulator}",
            "sm_90a",
        )

    @property
    def warps(self) -> int:
        """How many warps the CTA has."""
        return self.warps_m * self.warps_n

    @property
    def threads(self) -> int:
        """How many threads the CTA has."""
        return 32 * self.warps

    @property
    def row_b(self) -> int:
        """Bytes of a row of B in an iteration."""
        return self.bk * TYPES[self.type][1] // 8

    @property
    def row_a(self) -> int:
        """Bytes of a row of A, as it is stored, in an iteration."""
        return self.row_b // (2 if self.sparse else 1)

    @property
    def tiles_m(self) -> int:
        """How many m16 tiles a warp has."""
        return self.bm // self.warps_m // 16

    @property
    def tiles_n(self) -> int:
        """How many n8 tiles a warp has."""
        return self.bn // self.warps_n // 8

    @property
    def steps(self) -> int:
        """How many matrix instructions there are along K in an iteration."""
        return self.row_a // 32

    @property
    def metadata(self) -> int:
        """Metadata registers of an m16 tile in an iteration: 8-bit types need one for each step, 16-bit types one for
        two steps."""
        return 0 if not self.sparse else self.steps if self.type == "s8" else self.steps // 2

    @property
    def bytes_e(self) -> int:
        """Bytes of metadata in an iteration."""
        return self.metadata * self.bm * 8

    @property
    def size_e(self) -> int:
        """Bytes of metadata that each thread copies in an iteration."""
        return self.bytes_e // self.threads

    @property
    def copies_a(self) -> int:
        """How many copies of 16 bytes each thread makes for A in an iteration."""
        return self.bm * self.row_a // 16 // self.threads

    @property
    def copies_b(self) -> int:
        """How many copies of 16 bytes each thread makes for B in an iteration."""
        return self.bn * self.row_b // 16 // self.threads

    @property
    def stage_bytes(self) -> int:
        """Bytes of one stage in shared memory."""
        return self.bm * self.row_a + self.bn * self.row_b + self.bytes_e

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of the CTA."""
        return self.stages * self.stage_bytes

    @property
    def registers(self) -> int:
        """Registers of a thread: accumulators, fragments and metadata of two steps where there is room, and addresses;
        about as many as ptxas 13.0 takes."""
        return min(self.tiles_m * self.tiles_n * 4 + 2 * self._fragments + _SPARE, REGISTERS)

    @property
    def _fragments(self) -> int:
        """Registers of a thread for A, B and metadata of one step."""
        return self.tiles_m * 4 + self.tiles_n * (4 if self.sparse else 2) + self.metadata * self.tiles_m

    @property
    def instructions(self) -> int:
        """Matrix instructions of the CTA in an iteration."""
        return self.warps * self.tiles_m * self.tiles_n * self.steps


def parse_tile(
    text: str, type_name: str, *, warps: tuple[int, int] | None = None, stages: int = 3, sparse: bool = True
) -> Tile:
    """A tile from text such as "128x128x64". Without `warps` it has as many warps as give each 64 x 64 of D (or what
    there is), and at least 4.

    Raises:
        IsaError: no such tile.
    """
    match = re.fullmatch(r"(\d{1,4})x(\d{1,4})x(\d{1,4})", text)
    if match is None:
        raise IsaError(text, 0, f"'{text}' is not a tile", "BMxBNxBK, e.g. 128x128x64")
    bm, bn, bk = (int(part) for part in match.groups())
    if warps is None:
        warps_m, warps_n = max(bm // 64, 1), max(bn // 64, 1)
        while warps_m * warps_n < 4:
            warps_m, warps_n = (
                (2 * warps_m, warps_n)
                if bm // warps_m > bn // warps_n or warps_m <= warps_n
                else (warps_m, 2 * warps_n)
            )
        warps = warps_m, warps_n
    return Tile(type_name, bm, bn, bk, warps[0], warps[1], stages, sparse)
