"""A tile of a GEMM: the part of D that one CTA computes, and how its threads share the work.

D[m][n] = sum over k of A[m][k] * B[n][k]: both operands have K contiguous. A is stored compressed where it is sparse,
with metadata beside it, laid out as the lanes read it: word [64 bytes of A's row][rows of a warp][lane][m16 tile]. An
iteration copies A (bm x bk), B (bn x bk) and the metadata to one of `stages` places in shared memory, whose 16-byte
columns are permuted depending on the row so that ldmatrix has no bank conflicts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from math import gcd

from isa import IsaError, MmaForm, Target, mma_form
from isa.arguments import integer, text_of
from isa.forms.mma import mma_forms
from simulator.state.global_memory import LINE_BYTES

STEP_BYTES = 32  # of a row of A, as it is stored, that one matrix instruction takes
ROWS = (64, 128, 256)  # bytes of a tile's row that the turning of columns is made for
STAGES = (2, 3, 4, 5, 6)
LARGEST = 1 << 24  # rows and columns of a matrix: its pitches and offsets stay below 32 bits
REGISTERS = 255
_ADDRESSES = 24  # registers for addresses and indices, at least
_SPARE = 36  # what ptxas 13.0 takes for them where there is room


def touched_in_blocks(down: int, across: int, slots: int, of_row: int, of_column: int) -> int:
    """Bytes of operands that device memory brings where tiles are taken in blocks of `slots`, one block after the
    other, in the form of a block with which that is least.

    Args:
        down, across: tiles of the problem along M and N.
        of_row, of_column: bytes of A of a row of tiles, and of B of a column.
    """
    forms = ((high, min(-(-slots // high), across)) for high in range(1, min(down, slots) + 1))
    return min(-(-down // high) * -(-across // wide) * (high * of_row + wide * of_column) for high, wide in forms)


def check_sizes(**sizes: int) -> None:
    """IsaError for a size of a matrix, given by its name, that is not positive, or too large for the kernel's 32-bit
    addresses."""
    for name, size in sizes.items():
        integer(size, 1, LARGEST, f"{name} =")


def tile_sizes(text: str, example: str) -> tuple[int, int, int | None]:
    """BM, BN and BK from text such as `example`; None for a BK that is not given.

    Raises:
        IsaError: no text of this form.
    """
    match = re.fullmatch(r"(\d{1,4})x(\d{1,4})(?:x(\d{1,4}))?", text_of(text, "a tile", example))
    if match is None:
        raise IsaError(text, 0, f"'{text}' is not a tile", f"BMxBN or BMxBNxBK, e.g. {example}")
    return int(match[1]), int(match[2]), int(match[3]) if match[3] else None


SCALES = {"mxf8f6f4": "1X ue8m0", "mxf4": "2X ue8m0", "mxf4nvf4": "4X ue4m3"}
"""Kinds with block scales: the vector size that is used, and the type of the factors."""


@cache
def kinds_of(type: str, sparse: bool) -> dict[str, MmaForm]:
    """The instructions of a type that have a `.kind`, with f32 accumulators, by it; those of kinds with block scales
    with factors as of `SCALES`."""
    found: dict[str, MmaForm] = {}
    for form in mma_forms().values():
        right = form.row.kind and form.row.scale == SCALES.get(form.row.kind, "") and form.ordered is form.sparse
        same = form.a_type is form.b_type and form.a_type.name == type and form.c_type is form.d_type
        wide = form.m == 16 and form.k_stored * form.a_type.bits == 8 * STEP_BYTES
        if right and same and wide and form.sparse is sparse and form.d_type.name == "f32" and not form.saturate:
            found.setdefault(form.row.kind, form)
    return found


@cache
def instructions() -> dict[tuple[str, bool], dict[str, MmaForm]]:
    """The matrix instructions of the kernels: for each type and whether A is sparse, by the type of the accumulators,
    the one with the largest K of its type, whose row of A takes 32 bytes of ldmatrix's 16-byte columns. Without block
    scales, and of 32-bit registers (f64 has others)."""
    found: dict[tuple[str, bool], dict[str, MmaForm]] = {}
    for form in mma_forms().values():
        plain = not form.row.scale and not form.saturate and form.row.kind in ("", "f8f6f4")
        rule = form.row.operation in ("", "and.popc") and form.ordered is form.sparse
        wide = form.m == 16 and form.k_stored * form.a_type.bits == 8 * STEP_BYTES and form.a_type.bits <= 32
        same = form.a_type is form.b_type and form.c_type is form.d_type
        if plain and rule and wide and same:
            kinds = found.setdefault((form.a_type.name, form.sparse), {})
            kinds.setdefault(form.d_type.name, form)
    return {key: dict(sorted(kinds.items(), reverse=True)) for key, kinds in found.items()}


def types(sparse: bool) -> tuple[str, ...]:
    """The types that the kernels multiply."""
    return tuple(name for name, compressed in instructions() if compressed is sparse)


def instruction(type: str, accumulator: str = "", *, sparse: bool, kind: str = "") -> MmaForm:
    """The matrix instruction for a type; the accumulators are of 32 bits unless others are asked for.

    Args:
        kind: its `.kind`; "": the one without block scales.

    Raises:
        IsaError: no `mma.sp` (`mma`) of this type, or none of the kind, or with such accumulators.
    """
    name = "mma.sp" if sparse else "mma"
    if kind:
        known = kinds_of(text_of(type, "a type", "f16"), sparse)
        own = instructions().get((type, sparse), {}).get(accumulator)
        if own is not None and own.row.kind == kind:
            return own
        if kind not in known:
            raise IsaError(kind, -1, f"no {name} of {type} has .kind::{kind}", ", ".join(known) or "no kind")
        if accumulator not in ("", "f32"):
            raise IsaError(accumulator, -1, f".kind::{kind} with accumulators of {accumulator}", "f32")
        return known[kind]
    kinds = instructions().get((text_of(type, "a type", "f16"), sparse))
    if kinds is None:
        raise IsaError(type, -1, f"type '{type}' is not one of the generator's for {name}", ", ".join(types(sparse)))
    if accumulator and accumulator not in kinds:
        raise IsaError(accumulator, -1, f"no {name} of {type} has accumulators of {accumulator}", ", ".join(kinds))
    return kinds[accumulator or next(iter(kinds))]


@dataclass(frozen=True)
class Tile:
    """The work of a CTA.

    Attributes:
        type: the type of A and B, one of `types(sparse)`.
        bm, bn, bk: rows of A, rows of B, and columns of K in an iteration.
        warps_m, warps_n: warps along M and N.
        stages: how many tiles are in shared memory at a time.
        sparse: whether A is sparse: 2:4, 1:2 of tf32, 4:8 in pairs of 4-bit types.
        accumulator: the type of D: "f32" or "s32" unless "f16" is asked for.
        kind: of the instruction, if it has one; with block scales only where it is asked for.
    """

    type: str
    bm: int
    bn: int
    bk: int
    warps_m: int
    warps_n: int
    stages: int
    sparse: bool = True
    accumulator: str = ""
    kind: str = ""

    def __post_init__(self) -> None:
        form = instruction(self.type, self.accumulator, sparse=self.sparse, kind=self.kind)
        object.__setattr__(self, "accumulator", form.d_type.name)
        object.__setattr__(self, "kind", form.row.kind)
        problem = self.problem()
        if problem:
            raise IsaError(str(self), -1, *problem)

    def __str__(self) -> str:
        result = " to f16" if self.accumulator == "f16" else ""
        kind = f" (kind {self.kind}{'' if self.factors else ', no scales'})" if self.kind else ""
        shape = f"{'sparse' if self.sparse else 'dense'} {self.type}{kind}{result} {self.bm}x{self.bn}x{self.bk}"
        return f"{shape}, {self.warps_m}x{self.warps_n} warps, {self.stages} stages"

    def problem(self) -> tuple[str, str] | None:
        """What is wrong with the tile, and what would be right; None if nothing is wrong."""
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
        rows = tuple(row * 8 // self.bits for row in ROWS[1:])
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
        if self.bytes_s % (4 * self.threads):
            return f"{self.bytes_s} bytes of scale factors for {self.threads} threads", "fewer warps, or a larger tile"
        least = self.tiles_m * self.tiles_n * self.words_d + self._fragments + _ADDRESSES
        if least > REGISTERS:
            return f"a thread needs at least {least} registers", f"at most {REGISTERS}: more warps, or a smaller tile"
        return None

    @property
    def form(self) -> MmaForm:
        """The form of the matrix instruction."""
        return instruction(self.type, self.accumulator, sparse=self.sparse, kind=self.kind)

    def check_target(self, target: str | Target) -> None:
        """IsaError, the decoder's, where the target has no such instruction."""
        mma_form(self.form.opcode, target)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader may not expect of the instruction, in words."""
        if self.kind != "f8f6f4" or "mxf4" not in kinds_of(self.type, self.sparse):
            return ()
        more = "--kind mxf4nvf4 or mxf4 packs it, with block scales"
        return (f"{self.type} without scales is kind::f8f6f4, a byte each at the rate of FP8; {more}",)

    @property
    def bits(self) -> int:
        """Bits of an element of A or B, as registers and memory hold it."""
        return self.form.a_type.bits

    @property
    def words_b(self) -> int:
        """Registers of B's fragment of one instruction."""
        return self.form.b.registers

    @property
    def words_d(self) -> int:
        """Registers of D's fragment of one instruction: 4, or 2 of f16."""
        return self.form.d.registers

    @property
    def bytes_d(self) -> int:
        """Bytes of an element of D."""
        return self.form.d_type.bits // 8

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
        return self.bk * self.bits // 8

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
        return self.row_a // STEP_BYTES

    @property
    def metadata(self) -> int:
        """Metadata registers of an m16 tile in an iteration."""
        return self.steps // self.selectors if self.sparse else 0

    @property
    def selectors(self) -> int:
        """Steps that share a metadata register: one of 8-bit types, two of 16-bit types."""
        return self.form.metadata.selectors

    @property
    def bytes_e(self) -> int:
        """Bytes of metadata in an iteration."""
        return self.metadata * self.bm * 8

    @property
    def size_e(self) -> int:
        """Bytes of metadata that each thread copies in an iteration."""
        return self.bytes_e // self.threads

    @property
    def factors(self) -> int:
        """Scale factors that an instruction takes of each row of A and column of B; 0 without block scales."""
        return self.form.scale_a.factors if self.form.row.scale else 0

    @property
    def scale_words(self) -> int:
        """32-bit words of factors that a row of A, or a column of B, has in an iteration."""
        return -(-self.steps * self.factors // 4)

    @property
    def bytes_s(self) -> int:
        """Bytes of scale factors in an iteration."""
        return 4 * self.scale_words * (self.bm + self.bn)

    @property
    def size_s(self) -> int:
        """Bytes of scale factors that each thread copies in an iteration."""
        return self.bytes_s // self.threads

    @property
    def chunk_s(self) -> int:
        """Bytes of each of these copies: 4, 8 or 16; 0 without block scales."""
        return gcd(self.size_s, 16) if self.factors else 0

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
        return self.bm * self.row_a + self.bn * self.row_b + self.bytes_e + self.bytes_s

    @property
    def stage_lines(self) -> int:
        """Lines of global memory from which one stage comes."""
        rows = self.bm * -(-self.row_a // LINE_BYTES) + self.bn * -(-self.row_b // LINE_BYTES)
        return rows + -(-self.bytes_e // LINE_BYTES) + -(-self.bytes_s // LINE_BYTES)

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of the CTA."""
        return self.stages * self.stage_bytes

    @property
    def registers(self) -> int:
        """Registers of a thread: accumulators, fragments and metadata of two steps where there is room, and addresses;
        about as many as ptxas 13.0 takes."""
        return min(self.tiles_m * self.tiles_n * self.words_d + 2 * self._fragments + _SPARE, REGISTERS)

    @property
    def _fragments(self) -> int:
        """Registers of a thread for A, B and metadata of one step."""
        scales = self.tiles_m + self.tiles_n if self.factors else 0
        return self.tiles_m * 4 + self.tiles_n * self.words_b + self.metadata * self.tiles_m + scales

    @property
    def instructions(self) -> int:
        """Matrix instructions of the CTA in an iteration."""
        return self.warps * self.tiles_m * self.tiles_n * self.steps


def parse_tile(
    text: str,
    type_name: str,
    *,
    warps: tuple[int, int] | None = None,
    stages: int = 4,
    sparse: bool = True,
    accumulator: str = "",
    kind: str = "",
) -> Tile:
    """A tile from text such as "128x128x64", or "128x128" with as many columns of K as 128 bytes hold. Without `warps`
    it has as many warps as give each 64 x 64 of D (or what there is), and at least 4.

    Raises:
        IsaError: no such tile.
    """
    bm, bn, bk = tile_sizes(text, "128x128x64")
    bits = instruction(type_name, accumulator, sparse=sparse, kind=kind).a_type.bits
    bk = ROWS[1] * 8 // bits if bk is None else bk
    if warps is None:
        warps_m, warps_n = max(bm // 64, 1), max(bn // 64, 1)
        while warps_m * warps_n < 4:
            warps_m, warps_n = (
                (2 * warps_m, warps_n)
                if bm // warps_m > bn // warps_n or warps_m <= warps_n
                else (warps_m, 2 * warps_n)
            )
        warps = warps_m, warps_n
    return Tile(type_name, bm, bn, bk, warps[0], warps[1], stages, sparse, accumulator, kind)
