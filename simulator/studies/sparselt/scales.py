"""Scale factors of whole matrices: the library's A, B and D scales of mode SCALAR_32F.

cuSPARSELt 0.8 on an H100 takes them for every type and applies none (measured, November 2026: 16 sets of types, A, B, D
and D-out scale; no bit of D changes and no D-out scale is written). On Blackwell they are applied as the text says
(published, not measured): A's and B's factors multiply alpha, D's multiplies the result before it is converted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isa.errors import IsaError
from isa.targets import Target

_NARROW = ("e4m3", "e5m2", "e2m1")


@dataclass(frozen=True)
class Scales:
    """Factors of mode CUSPARSELT_MATMUL_MATRIX_SCALE_SCALAR_32F; 1: CUSPARSELT_MATMUL_SCALE_NONE.

    Attributes:
        a, b: of A and B.
    """

    a: float = 1.0
    b: float = 1.0

    @property
    def given(self) -> bool:
        """Whether there is any."""
        return (self.a, self.b) != (1.0, 1.0)

    def check(self, type: str, chip: Target) -> None:
        """IsaError for a scale of a type that has none."""
        if self.given and chip.number != 90 and type not in _NARROW:
            raise IsaError(type, -1, f"a scale of {type}, which is no narrow type", ", ".join(_NARROW))

    def factor(self, chip: Target) -> np.float32:
        """What alpha is multiplied with."""
        return np.float32(1) if chip.number == 90 else np.float32(self.a) * np.float32(self.b)

    def notes(self, chip: Target) -> tuple[str, ...]:
        """What to tell the reader."""
        if not self.given:
            return ()
        if chip.number == 90:
            return ("scales: taken and not applied, as cuSPARSELt 0.8 does on an H100",)
        return ("scales: multiplied into alpha (published, not measured)",)
