"""Scale factors of narrow types: of whole matrices (SCALAR_32F), of blocks (VEC32_UE4M3, VEC64_UE8M0), and D's own.

cuSPARSELt 0.8 on an H100 takes scalar factors for every type and applies none (measured, November 2026: 16 sets of
types; A, B, D and D-out scale; no bit of D changes and no D-out scale is written). On Blackwell they are applied as
NVIDIA's text says (published, not measured; the sums inferred, as docs/arithmetic.md says):

* SCALAR_32F: A's and B's factors multiply alpha, D's multiplies the result before it is converted.
* VEC64_UE8M0 (e4m3) and VEC32_UE4M3 (e2m1): a factor for 64 or 32 neighbours along K, in the tensor core's own sum.
  Here they are matrices [m, K / block] and [n, K / block] of patterns, not in the library's order of tiles.
* D-out (D of e4m3 or e2m1): a factor for so many neighbours in a row of D, the smallest that brings the largest of them
  into the type's range; D is divided by it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isa.errors import IsaError
from isa.targets import Target
from isa.types import SCALE_TYPES, Bits, ElementType
from simulator.arithmetic.convert import from_float64, to_float64
from simulator.studies.sparselt.vocabulary import MEASURED

_NARROW = ("e4m3", "e5m2", "e2m1")
_BLOCKS = {"e4m3": (64, "ue8m0", 448.0), "e2m1": (32, "ue4m3", 6.0)}  # neighbours, type of a factor, largest number
_BLACKWELL = 100  # targets from here have block scales
_ONE = {"ue8m0": 127, "ue4m3": 0x38}

Factors = float | NDArray[np.unsignedinteger]


@dataclass(frozen=True)
class BlockScales:
    """Factors of A [m, K / block] and B [n, K / block], patterns of `type`."""

    a: Bits
    b: Bits
    type: ElementType
    block: int


@dataclass(frozen=True, eq=False)
class Scales:
    """Factors of A, B and D; 1 is CUSPARSELT_MATMUL_SCALE_NONE.

    Attributes:
        a, b: numbers (SCALAR_32F), or patterns [m, K / 64] and [n, K / 64] of ue8m0 (e4m3), K / 32 of ue4m3 (e2m1).
        d: a number that multiplies the result before it is converted.
        d_out: D gets factors of its own, see above.
    """

    a: Factors = 1.0
    b: Factors = 1.0
    d: float = 1.0
    d_out: bool = False

    @property
    def given(self) -> bool:
        """Whether there is any."""
        return bool(np.ndim(self.a) or np.ndim(self.b) or self.d_out or (self.a, self.b, self.d) != (1.0, 1.0, 1.0))

    @property
    def vectors(self) -> bool:
        """Whether there are factors of blocks."""
        return bool(np.ndim(self.a) or np.ndim(self.b))

    @property
    def blocked(self) -> bool:
        """Whether A, B or D have factors of blocks: a row of its own in the library's table."""
        return self.vectors or self.d_out

    def applied(self, chip: Target) -> bool:
        """Whether the chip's library applies what it is given: 0.8 on an H100 does not (measured)."""
        return chip.number != MEASURED

    def turned(self) -> Scales:
        """Of the transposed product."""
        return Scales(self.b, self.a, self.d, self.d_out)

    def check(self, type: str, d_type: str, chip: Target) -> None:
        """IsaError for scales that the type or the chip has not."""
        vectors = self.vectors
        measured = chip.number == MEASURED  # takes a D-out scale for any type, and writes none
        if chip.number < _BLACKWELL and (vectors or (self.d_out and not measured)):
            raise IsaError(str(chip), -1, f"block scales on {chip}", "Blackwell: sm_100a and later")
        if measured:
            return
        if self.given and type not in _NARROW:
            raise IsaError(type, -1, f"a scale of {type}, which is no narrow type", ", ".join(_NARROW))
        if vectors and type not in _BLOCKS:
            raise IsaError(type, -1, f"block scales of {type}", ", ".join(_BLOCKS))
        if self.d_out and d_type not in _BLOCKS:
            raise IsaError(d_type, -1, f"D-out scales of {d_type}", ", ".join(_BLOCKS))

    def factor(self, chip: Target) -> np.float32:
        """What alpha is multiplied with."""
        if chip.number == MEASURED:
            return np.float32(1)
        return np.float32(1 if np.ndim(self.a) else self.a) * np.float32(1 if np.ndim(self.b) else self.b)

    def blocks(self, type: str, m: int, n: int, k: int, chip: Target) -> BlockScales | None:
        """Block scales, if the product has them; e2m1 always has (ones unless given)."""
        if chip.number < _BLACKWELL or not (np.ndim(self.a) or np.ndim(self.b) or type == "e2m1"):
            return None
        block, name, _ = _BLOCKS[type]
        if k % block:
            raise IsaError("", -1, f"K = {k} in blocks of {block}", f"a multiple of {block}")
        found = []
        for letter, given, rows in (("a", self.a, m), ("b", self.b, n)):
            patterns = np.asarray(given) if np.ndim(given) else np.full((rows, k // block), _ONE[name], np.uint8)
            if patterns.dtype.kind != "u" or patterns.shape != (rows, k // block):
                what = f"scales {letter} of {patterns.dtype} {list(patterns.shape)}"
                raise IsaError("", -1, what, f"patterns of {name} [{rows}, {k // block}]")
            found.append(patterns.astype(np.uint32))
        return BlockScales(found[0], found[1], SCALE_TYPES[name], block)

    def notes(self, chip: Target) -> tuple[str, ...]:
        """What to tell the reader."""
        if not self.given:
            return ()
        if chip.number == MEASURED:
            return ("scales: taken and not applied, as cuSPARSELt 0.8 does on an H100",)
        return ("scales: applied as NVIDIA's text says (published, not measured)",)


def own_scales(x: NDArray[np.float32], d_type: str) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """D-out factors of results [batch, m, n]: as numbers [batch, m, n], and as patterns [batch, m, n / block].

    A factor is the largest magnitude of a block over the largest number of the type: rounded up to ue8m0, or to the
    nearest of ue4m3 (at least its smallest number).
    """
    block, name, largest = _BLOCKS[d_type]
    n = x.shape[-1]
    padded = np.zeros((*x.shape[:-1], -(-n // block) * block))
    padded[..., :n] = np.where(np.isfinite(x), np.abs(x), 0.0)
    wanted = padded.reshape(*x.shape[:-1], -1, block).max(axis=-1) / largest
    rounding = "rp" if name == "ue8m0" else "rn"
    found = from_float64(wanted, SCALE_TYPES[name], rounding, satfinite=True)
    patterns = found if name == "ue8m0" else np.maximum(found, 1)
    numbers = np.repeat(to_float64(patterns, SCALE_TYPES[name]), block, axis=-1)[..., :n]
    return numbers, patterns.astype(np.uint8)
