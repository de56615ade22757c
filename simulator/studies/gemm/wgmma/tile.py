"""A tile of a GEMM by `wgmma`: the part of D that a CTA computes at a time, as libraries' kernels for Hopper divide it.

D[m][n] = sum over k of A[m][k] * B[n][k]. One warpgroup loads tiles of A and B by tensor maps (and the metadata of a
sparse A by bulk copies) into one of `stages` places in shared memory; two warpgroups multiply. `cooperative`: each of
the two has half of the tile's rows. `pingpong`: each computes a tile of its own, and one multiplies while the other
stores. An iteration takes 128 bytes of a row of A as it is stored. Accumulators are in registers, and D goes to global
memory through shared memory by a tensor map. The names of both schedules are CUTLASS's.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

from isa import IsaError, Target, decode
from isa.fragments.metadata import Metadata, metadata_operand
from isa.fragments.warpgroup import ROWS, WARPS, metadata_of_warpgroup
from isa.types import MATRIX_TYPES, ElementType
from simulator.studies.gemm.tile import tile_sizes

OUTPUTS = {
    "f16": ("f16", "f32"), "bf16": ("bf16", "f32"), "tf32": ("f32",), "e4m3": ("f16", "bf16", "f32"),
    "e5m2": ("f16", "bf16", "f32"), "s8": ("s32",), "u8": ("s32",),
}  # fmt: skip
"""Types of D for each type of A and B; the first is the default."""

SCHEDULES = ("cooperative", "pingpong")
STAGES = tuple(range(2, 13))
CONSUMERS = 2  # warpgroups that multiply
ROW = 128  # bytes of a row of A as it is stored, in an iteration: the widest swizzle
STEP_BYTES = 32  # of them that an instruction takes
STEPS = ROW // STEP_BYTES
BOX_ROWS = 64  # of D that leave shared memory together: those of an instruction
BOX_BYTES = BOX_ROWS * ROW
BOXES = 2  # places for them in shared memory, of each warpgroup
CONTROL = 1024  # bytes of shared memory for mbarriers
MOST_ACCUMULATORS = 192  # of a thread
_PATTERN = 1024  # bytes of a swizzle pattern, to which stages are aligned


@dataclass(frozen=True)
class WgmmaTile:
    """The work of a CTA.

    Attributes:
        type: of A and B, one of `OUTPUTS`.
        bm, bn, bk: rows of A, rows of B, columns of K in an iteration. By `pingpong` each warpgroup has such a tile.
        stages: tiles of A and B in shared memory at a time.
        sparse: whether A is sparse: 2:4, or 1:2 of tf32.
        schedule: "cooperative" or "pingpong".
        output: type of D; "": the first of `OUTPUTS`.
        accumulator: "f32" or "s32"; it follows from the type.
        cluster_m, cluster_n: CTAs of a cluster along M and N, which share rows of B and of A by multicast.
    """

    type: str
    bm: int
    bn: int
    bk: int
    stages: int
    sparse: bool = True
    schedule: str = "cooperative"
    output: str = ""
    accumulator: str = ""
    cluster_m: int = 1
    cluster_n: int = 1

    def __post_init__(self) -> None:
        if self.type not in OUTPUTS:
            raise IsaError(self.type, -1, f"no kernel multiplies {self.type} by wgmma", ", ".join(OUTPUTS))
        own = "s32" if OUTPUTS[self.type] == ("s32",) else "f32"
        if self.accumulator not in ("", own):
            reason = f"the kernels of wgmma accumulate {self.type} in {own}, not {self.accumulator}"
            raise IsaError(self.accumulator, -1, reason, own)
        object.__setattr__(self, "accumulator", own)
        object.__setattr__(self, "output", self.output or OUTPUTS[self.type][0])
        problem = self.problem()
        if problem:
            raise IsaError(f"{self.type} {self.bm}x{self.bn}x{self.bk}", -1, *problem)

    def __str__(self) -> str:
        shape = f"{'sparse' if self.sparse else 'dense'} {self.type} to {self.output} {self.bm}x{self.bn}x{self.bk}"
        return f"{shape}, wgmma {self.schedule}, {self.stages} stages, clusters of {self.cluster_m}x{self.cluster_n}"

    def problem(self) -> tuple[str, str] | None:
        """What is wrong with the tile, and what would be right; None if nothing is wrong."""
        if self.stages not in STAGES:
            return f"{self.stages} stages", f"{STAGES[0]} to {STAGES[-1]}"
        if self.schedule not in SCHEDULES:
            return f"schedule '{self.schedule}'", ", ".join(SCHEDULES)
        if self.output not in OUTPUTS[self.type]:
            return f"D of {self.output} from {self.type}", ", ".join(OUTPUTS[self.type])
        rows = (64, 128, 192) if self.schedule == "pingpong" else (128, 256)
        if self.bm not in rows:
            return f"{self.bm} rows", f"{', '.join(map(str, rows))} ({self.schedule}: wgmma has 64)"
        step = ROW // self.bytes_d
        if not step <= self.bn <= 256 or self.bn % step:
            return (
                f"{self.bn} columns",
                f"multiples of {step} to 256, N of wgmma: D of {self.output} leaves by 128 bytes",
            )
        if self.bk != self.columns_a * (2 if self.sparse else 1):
            legal = f"{self.columns_a * (2 if self.sparse else 1)} for {self.type}: 128 bytes of A as it is stored"
            return f"bk = {self.bk}", legal
        if self.accumulators > MOST_ACCUMULATORS:
            return f"{self.accumulators} accumulators a thread", f"at most {MOST_ACCUMULATORS}: a smaller tile"
        cluster = self.cluster_m, self.cluster_n
        if any(size not in (1, 2, 4, 8) for size in cluster) or prod(cluster) > 8:
            return f"a cluster of {cluster[0]}x{cluster[1]} CTAs", "1x1 to 8 CTAs, powers of two"
        if self.bm % (8 * self.cluster_n) or self.bn % (8 * self.cluster_m):
            return f"a cluster of {cluster[0]}x{cluster[1]} CTAs for {self.bm}x{self.bn}", "parts of whole 8 rows"
        return None

    # The instruction

    @property
    def element(self) -> ElementType:
        """The element type of A and B."""
        return MATRIX_TYPES[self.type]

    @property
    def k(self) -> int:
        """Logical K of an instruction."""
        return self.bk // STEPS

    @property
    def opcode(self) -> str:
        """The opcode of the matrix instruction."""
        sparse = ".sp" if self.sparse else ""
        types = f"{self.accumulator}.{self.type}.{self.type}"
        return f"wgmma.mma_async{sparse}.sync.aligned.m64n{self.bn}k{self.k}.{types}"

    def check_target(self, target: str | Target) -> None:
        """IsaError, the decoder's, where the target has no such instruction."""
        d = ", ".join(f"%r{i}" for i in range(self.bn // 2))
        decode(f"{self.opcode} {{{d}}}, %rd1, %rd2, {self.operands('%r200', 0, '1')};", target)

    def operands(self, metadata: str, step: int, scale_d: str) -> str:
        """What follows A and B: metadata and selector, scale-d, signs and major-ness."""
        words = [metadata, str(step % self.selectors)] if self.sparse else []
        words.append(scale_d)
        if self.element.is_float:
            words += ["1", "1"]
        if self.element.bits == 16:
            words += ["0", "0"]
        return ", ".join(words)

    @cached_property
    def metadata(self) -> Metadata:
        """Which thread of a warpgroup holds the codes of an instruction."""
        return metadata_of_warpgroup(metadata_operand(ROWS, self.k, self.element, True))

    @property
    def selectors(self) -> int:
        """Steps that share a register of metadata."""
        return self.metadata.selectors if self.sparse else 1

    @property
    def words_e(self) -> int:
        """Registers of metadata that a thread has for 64 rows of A in an iteration."""
        return STEPS // self.selectors if self.sparse else 0

    # Who does what

    @property
    def blocks_m(self) -> int:
        """Instructions along M that a warpgroup has in a step."""
        return self.bm // BOX_ROWS // (CONSUMERS if self.schedule == "cooperative" else 1)

    @property
    def accumulators(self) -> int:
        """Registers of a thread for D."""
        return self.blocks_m * self.bn // 2

    @property
    def warps(self) -> int:
        """Warps of a CTA: a warpgroup that loads, and those that multiply."""
        return WARPS * (1 + CONSUMERS)

    @property
    def registers(self) -> int:
        """Registers of a thread at launch: all that three warpgroups can have (setmaxnreg moves them)."""
        return 65536 // (32 * self.warps) // 8 * 8

    # Shared memory

    @property
    def columns_a(self) -> int:
        """Columns of A as it is stored, in an iteration."""
        return ROW * 8 // self.element.bits

    @property
    def bytes_a(self) -> int:
        """Bytes of A of a stage."""
        return self.bm * ROW

    @property
    def bytes_b(self) -> int:
        """Bytes of B of a stage; 128 bytes of each row, and of a sparse product 128 more, behind all of the first."""
        return self.bn * self.row_b

    @property
    def bytes_e(self) -> int:
        """Bytes of metadata of a stage: registers of each thread, 64 rows after 64 rows."""
        return self.bm // BOX_ROWS * 32 * WARPS * 4 * self.words_e

    @property
    def stage_bytes(self) -> int:
        """Bytes of a stage, a whole number of swizzle patterns."""
        return -(-(self.bytes_a + self.bytes_b + self.bytes_e) // _PATTERN) * _PATTERN

    @property
    def store_at(self) -> int:
        """Where D waits in shared memory until it has left."""
        return CONTROL + self.stages * self.stage_bytes

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory of a CTA."""
        return self.store_at + CONSUMERS * BOXES * BOX_BYTES

    # What an estimate asks

    @property
    def group(self) -> int:
        """CTAs that compute a tile together."""
        return 1

    @property
    def cluster(self) -> int:
        """CTAs of a cluster."""
        return self.cluster_m * self.cluster_n

    @property
    def tiles_m(self) -> int:
        """Tiles of a cluster along M, which share columns of B."""
        return self.cluster_m

    @property
    def tiles_n(self) -> int:
        """Tiles of a cluster along N, which share rows of A."""
        return self.cluster_n

    @property
    def rows_a(self) -> int:
        """Rows of A, and of D, in a CTA."""
        return self.bm

    @property
    def bytes_d(self) -> int:
        """Bytes of an element of D."""
        return 2 if self.output in ("f16", "bf16") else 4

    @property
    def row_a(self) -> int:
        """Bytes of a row of A, as it is stored, in an iteration."""
        return ROW

    @property
    def row_b(self) -> int:
        """Bytes of a row of B in an iteration."""
        return ROW * (2 if self.sparse else 1)

    @property
    def bytes_extra(self) -> int:
        """Bytes of a stage beside A and B: metadata."""
        return self.bytes_e


def parse_wgmma_tile(
    text: str,
    type: str,
    *,
    stages: int | None = None,
    sparse: bool = True,
    schedule: str = "",
    output: str = "",
    accumulator: str = "",
    shared_bytes: int = 232448,
    cluster: tuple[int, int] = (1, 1),
) -> WgmmaTile:
    """A tile from text such as "128x256", with 128 bytes of A as it is stored in an iteration.

    Args:
        stages: as many as `shared_bytes` hold, if not given.
        schedule: "": cooperative, or pingpong for 64 and 192 rows.
        cluster: CTAs of a cluster along M and N.

    Raises:
        IsaError: no such tile.
    """
    bm, bn, given = tile_sizes(text, "128x256x64")
    if type not in OUTPUTS:
        raise IsaError(type, -1, f"no kernel multiplies {type} by wgmma", ", ".join(OUTPUTS))
    bk = ROW * 8 // MATRIX_TYPES[type].bits * (2 if sparse else 1) if given is None else given
    schedule = schedule or ("pingpong" if bm in (64, 192) else "cooperative")

    def tile(stages: int) -> WgmmaTile:
        return WgmmaTile(type, bm, bn, bk, stages, sparse, schedule, output, accumulator, *cluster)

    if stages is not None:
        return tile(stages)
    fitting = [count for count in STAGES if tile(count).shared_bytes <= shared_bytes]
    return tile(max(fitting, default=STAGES[0]))
