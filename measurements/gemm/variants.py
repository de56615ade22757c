"""The variants of gemm.cu: every one a cubin of its own, `build/NAME.cubin`."""

from __future__ import annotations

from dataclasses import dataclass

TYPES = ("f16", "bf16", "s8")
BYTES = {"f16": 2, "bf16": 2, "s8": 1}
MODES = ("full", "no copies", "no copies, no barriers", "copies alone")


@dataclass(frozen=True)
class Variant:
    """One compilation of gemm.cu; `row` is ROWB, bytes of K in an iteration, `k` the K of the problem that PITCH is
    made for."""

    type: str
    bm: int
    bn: int
    row: int
    warps_m: int
    warps_n: int
    stages: int
    mode: int = 0
    sparse: bool = True
    k: int = 4096

    @property
    def name(self) -> str:
        mode = f"_mode{self.mode}" if self.mode else ""
        kind = "" if self.sparse else "dense_"
        return f"{kind}{self.type}_{self.bm}x{self.bn}x{self.bk}_w{self.warps_m}x{self.warps_n}_s{self.stages}{mode}"

    @property
    def bk(self) -> int:
        """Logical columns of an iteration."""
        return self.row // BYTES[self.type]

    @property
    def pitch(self) -> int:
        return self.k * BYTES[self.type]

    @property
    def threads(self) -> int:
        return 32 * self.warps_m * self.warps_n

    @property
    def steps(self) -> int:
        """Matrix instructions along K in an iteration."""
        return self.row // (64 if self.sparse else 32)

    @property
    def meta(self) -> int:
        """Metadata registers of an m16 tile in an iteration."""
        return 0 if not self.sparse else self.steps if self.type == "s8" else self.steps // 2

    @property
    def shared_bytes(self) -> int:
        return self.stages * (
            self.bm * self.row // (2 if self.sparse else 1) + self.bn * self.row + self.meta * self.bm * 8
        )

    @property
    def defines(self) -> list[str]:
        values = {
            "TYPE": TYPES.index(self.type),
            "SPARSE": int(self.sparse),
            "BM": self.bm,
            "BN": self.bn,
            "ROWB": self.row,
            "WARPS_M": self.warps_m,
            "WARPS_N": self.warps_n,
            "STAGES": self.stages,
            "PITCH": self.pitch,
            "MODE": self.mode,
        }
        return [f"-D{key}={value}" for key, value in values.items()]


TILES = (
    (64, 64, 128, 2, 2),
    (128, 64, 128, 2, 2),
    (128, 128, 128, 2, 2),
    (128, 128, 128, 2, 4),
    (128, 128, 256, 2, 4),
    (128, 256, 128, 2, 4),
    (256, 128, 128, 4, 2),
)
"""BM, BN, ROWB, WARPS_M, WARPS_N."""


def variants() -> list[Variant]:
    found = [Variant(kind, *tile, stages) for kind in ("f16", "s8") for tile in TILES for stages in (2, 3, 4)]
    found += [Variant(kind, *tile, 3, mode) for kind in ("f16", "s8") for tile in TILES for mode in (1, 2, 3)]
    found += [Variant("bf16", *tile, 3) for tile in (TILES[0], TILES[2], TILES[3])]
    found += [
        Variant("f16", *tile, stages, mode, sparse=False)
        for tile in (TILES[0], TILES[2], TILES[3])
        for stages, mode in ((2, 0), (3, 0), (4, 0), (3, 1), (3, 2))
    ]
    return [v for v in found if v.shared_bytes <= 232448]
