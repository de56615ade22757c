"""The parameters of the fused sum, one row for each generation of tensor cores and family of input types.

All floating-point tensor cores from sm_75 on run one algorithm (`simulator.arithmetic.fused`); what differs is in these rows. Fraction bits and
floors of the dense rows: MMA-Sim 2.1.1 and the feature tests of Khattak and Mikaitis (arXiv 2512.07004), whose vectors of real GPUs the
rows reproduce. sm_90: recorded results of an NVIDIA H100 80GB, driver 580, November 2026. Lowering of 8-bit floats: code that ptxas 13.0 emits.
"""

from __future__ import annotations

from dataclasses import dataclass

from isa.errors import IsaError
from isa.forms import MmaForm
from isa.targets import Target
from isa.types import ELEMENT_TYPES, ElementType

MEASURED_HERE = "measured here"
MEASURED_BY_OTHERS = "measured by others"
INFERRED = "inferred"


@dataclass(frozen=True)
class SumRow:
    """How one family of forms is summed on some targets.

    Attributes:
        targets: sm numbers.
        inputs: types of A and B, separated by blanks.
        sparse: for `mma.sp` or for `mma`.
        step_bytes: bytes of (stored, converted) A in one fused step; longer sums chain steps over ascending columns.
        fraction: fraction bits to which every term is truncated, relative to the alignment exponent.
        floor_f32, floor_f16: smallest alignment exponent, for an f32 and an f16 result.
        kept: fraction bits of an f32 result, rounded toward zero (f16 results always have 10 and are rounded to nearest even).
        through: type that both operands are converted to first, where ptxas lowers the form to another instruction ("" if not).
        split: columns of stored A that have this bit go into a later step than those that have not (0: not split).
        add_last: C is not part of the fused sum; an ordinary addition, to nearest even, adds it at the end.
        evidence: "measured here", "measured by others" or "inferred".
        source: whence.
    """

    targets: tuple[int, ...]
    inputs: str
    sparse: bool
    step_bytes: int
    fraction: int
    floor_f32: int
    floor_f16: int
    kept: int
    through: str
    split: int
    add_last: bool
    evidence: str
    source: str

    @property
    def converted(self) -> ElementType | None:
        """The type that operands are converted to first, if any."""
        return ELEMENT_TYPES[self.through] if self.through else None

    def floor(self, result: ElementType) -> int:
        return self.floor_f16 if result.bits == 16 else self.floor_f32

    def steps(self, columns: int, element: ElementType) -> tuple[tuple[int, ...], ...]:
        """The stored columns of each fused step, in the order in which the steps run."""
        length = self.step_bytes * 8 // (self.converted or element).bits
        groups = [[c for c in range(columns) if not c & self.split], [c for c in range(columns) if c & self.split]]
        return tuple(tuple(group[i : i + length]) for group in groups for i in range(0, len(group), length))


_WIDE, _FP8, _NARROW = "f16 bf16 tf32", "e4m3 e5m2", "e4m3 e5m2 e3m2 e2m3 e2m1"


def _native(
    targets: tuple[int, ...], inputs: str, sparse: bool, step_bytes: int, fraction: int, evidence: str, source: str, *, floor: int, kept: int = 23
) -> SumRow:
    return SumRow(targets, inputs, sparse, step_bytes, fraction, floor, floor + 112, kept, "", 0, False, evidence, source)


def _lowered(targets: tuple[int, ...], sparse: bool, evidence: str, source: str) -> SumRow:
    """8-bit floats as f16: columns 0, 1 of every four, then 2, 3, each a native f16 step without C, then C."""
    return SumRow(targets, _FP8, sparse, 32, 25, -133, -21, 23, "f16", 2, True, evidence, source)


_OTHERS = "MMA-Sim 2.1.1; vectors of real GPUs by Khattak and Mikaitis, arXiv 2512.07004"
_H100 = "NVIDIA H100 80GB, driver 580, November 2026: every recorded result, tests/golden"
_AS_DENSE = "the dense rule over the stored columns, as it holds on sm_90; no hardware evidence"
_LOWERING = "the same code from ptxas 13.0 as for sm_90"

SUM_ROWS: tuple[SumRow, ...] = (
    # targets, inputs, sparse, bytes a step, fraction bits, evidence, source
    _native((75,), "f16", False, 16, 24, MEASURED_BY_OTHERS, _OTHERS, floor=-132),
    _native((80, 86, 89), _WIDE, False, 16, 24, MEASURED_BY_OTHERS, _OTHERS, floor=-132),
    _native((87, 88), _WIDE, False, 16, 24, INFERRED, "as sm_80 and sm_86, the same generation", floor=-132),
    _native((80, 86, 87, 88, 89), _WIDE, True, 16, 24, INFERRED, _AS_DENSE, floor=-132),
    _native((89,), _FP8, False, 16, 13, MEASURED_BY_OTHERS, _OTHERS, floor=-132, kept=13),
    _native((89,), _FP8, True, 16, 13, INFERRED, _AS_DENSE, floor=-132, kept=13),
    _native((90,), _WIDE, False, 32, 25, MEASURED_HERE, _H100, floor=-133),
    _native((90,), _WIDE, True, 32, 25, MEASURED_HERE, _H100, floor=-133),
    _lowered((90,), False, MEASURED_HERE, _H100),
    _lowered((90,), True, MEASURED_HERE, _H100),
    _native((100, 103, 120), _WIDE, False, 32, 25, MEASURED_BY_OTHERS, _OTHERS, floor=-133),
    _native((110, 121), _WIDE, False, 32, 25, INFERRED, "as sm_100 and sm_120", floor=-133),
    _native((100, 103, 110, 120, 121), _WIDE, True, 32, 25, INFERRED, _AS_DENSE, floor=-133),
    _lowered((100, 103), False, MEASURED_BY_OTHERS, f"{_LOWERING}; reproduces the B200 vectors of arXiv 2512.07004"),
    _lowered((110,), False, INFERRED, _LOWERING),
    _lowered((100, 103, 110), True, INFERRED, _LOWERING),
    _native((120,), _NARROW, False, 32, 25, MEASURED_BY_OTHERS, _OTHERS, floor=-133),
    _native((121,), _NARROW, False, 32, 25, INFERRED, "as sm_120", floor=-133),
    _native((120, 121), _NARROW, True, 32, 25, INFERRED, _AS_DENSE, floor=-133),
)


def sum_row(form: MmaForm, target: Target) -> SumRow:
    """The row of a floating-point form on a target; IsaError if the target has none."""
    for row in SUM_ROWS:
        if target.number in row.targets and row.sparse == form.sparse and form.a_type.name in row.inputs.split():
            return row
    known = sorted({t for row in SUM_ROWS if row.sparse == form.sparse and form.a_type.name in row.inputs.split() for t in row.targets})
    raise IsaError(form.opcode, -1, f"no arithmetic is known for {form.a_type} inputs on {target}", ", ".join(f"sm_{number}" for number in known))
