"""Which chip takes which types: the support tables of two versions of cuSPARSELt, as NVIDIA publishes them.

Source of `ROWS`: the table "Mixed-precision computation support" in the README of the wheels `nvidia-cusparselt-cu12`
0.8.1 and `nvidia-cusparselt-cu13` 0.8.1 (one text) and 0.10.0. The table has no row for SM 8.9, which the same README
lists among the supported architectures; the release notes of 0.8.0 name E4M3 and E5M2 kernels for it. It is taken
here to have what SM 8.6 has, and both. SM 11.0 was called 10.1 before CUDA 13.

What is said of sm_90 beside this was measured with 0.8 on an H100 (`vocabulary`): statuses are known from there alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from isa.errors import IsaError
from isa.targets import Target
from simulator.errors import did_you_mean

LIBRARIES = ("0.8.1", "0.10.0")
"""Versions whose tables are known, the oldest first."""
DEFAULT_LIBRARY = LIBRARIES[-1]

Types = tuple[str, str, str, str]
"""Of A and B, of C, of D, and the compute type."""


@dataclass(frozen=True)
class SupportRow:
    """Types, and the chips that take them.

    Attributes:
        type: of A and B.
        results: types of C and D.
        compute: the compute type.
        scales: the type of block scales; "" without.
        chips: for each of `LIBRARIES` the targets' numbers.
    """

    type: str
    results: tuple[tuple[str, str], ...]
    compute: str
    scales: str
    chips: tuple[tuple[int, ...], ...]

    def has(self, types: Types, block_scaled: bool) -> bool:
        """Whether it is about these types."""
        a, c, d, compute = types
        return (self.type, self.compute, bool(self.scales)) == (a, compute, block_scaled) and (c, d) in self.results


def _like(type: str) -> tuple[tuple[str, str], ...]:
    """Results of a type of 4 or 8 bits: of wider types, or its own with C of 16 bits."""
    return ("f16", type), ("bf16", type), ("f16", "f16"), ("bf16", "bf16"), ("f32", "f32")


_AMPERE = (80, 86, 87, 89)
_WIDE = ((*_AMPERE, 90, 100, 110, 120, 121), (*_AMPERE, 90, 100, 103, 110, 120, 121))
_NARROW = ((89, 90, 100, 110, 120, 121), (89, 90, 100, 103, 110, 120, 121))
_SCALED = ((100, 110, 120, 121), (100, 103, 110, 120, 121))
_INTEGERS = ((*_AMPERE, 90, 100, 110, 120, 121), (*_AMPERE, 90, 100, 110, 120, 121))

ROWS: tuple[SupportRow, ...] = (
    *(SupportRow(name, ((name, name),), "32f", "", _WIDE) for name in ("f32", "bf16", "f16")),
    SupportRow("f16", (("f16", "f16"),), "16f", "", ((90,), (90,))),
    SupportRow("s8", tuple((name, name) for name in ("s8", "s32", "f16", "bf16")), "32i", "", _INTEGERS),
    *(SupportRow(name, _like(name), "32f", "", _NARROW) for name in ("e4m3", "e5m2")),
    SupportRow("e4m3", _like("e4m3"), "32f", "VEC64_UE8M0", _SCALED),
    SupportRow("e2m1", _like("e2m1"), "32f", "VEC32_UE4M3", _SCALED),
)
"""Published; e2m1 has block scales always."""


def check_library(library: str) -> str:
    """The version, if its table is known; else IsaError."""
    if library not in LIBRARIES:
        near = did_you_mean(str(library), LIBRARIES)
        raise IsaError(str(library), -1, f"no table of cuSPARSELt '{library}' is known{near}", ", ".join(LIBRARIES))
    return library


def chips_of(types: Types, block_scaled: bool, library: str) -> tuple[int, ...]:
    """Numbers of the targets that a version lists for these types."""
    version = LIBRARIES.index(check_library(library))
    return tuple(chip for row in ROWS if row.has(types, block_scaled) for chip in row.chips[version])


def check_chip(types: Types, target: Target, library: str, block_scaled: bool = False) -> None:
    """IsaError where the version's table does not have the chip for these types; none for types that no row has."""
    scaled = block_scaled or types[0] == "e2m1"
    chips = chips_of(types, scaled, library)
    if target.number in chips:
        return
    what = f"{types[0]} with c_type={types[1]}, d_type={types[2]}, compute={types[3]}"
    if scaled:
        what += " and block scales"
    others = [version for version in LIBRARIES if target.number in chips_of(types, scaled, version)]
    legal = f"on {', '.join(f'sm_{chip}' for chip in chips)}" if chips else "block scales of e4m3 and e2m1"
    legal += f"; library {', '.join(others)} lists {target}" if others else ""
    raise IsaError(
        types[0], -1, f"cuSPARSELt {library} lists no product of {what} for {target} (published: its README)", legal
    )


def differences(types: Types, target: Target, library: str, block_scaled: bool = False) -> tuple[str, ...]:
    """A line for each other version that does not list the chip for the types, which `library` does."""
    scaled = block_scaled or types[0] == "e2m1"
    return tuple(
        f"cuSPARSELt {library} lists this product for {target}, {version} does not (published: their READMEs)"
        for version in LIBRARIES
        if version != library and target.number not in chips_of(types, scaled, version)
    )
