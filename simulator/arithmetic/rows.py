"""How each chip adds: the table of the rules by which tensor cores sum products, with one row for each family of
instructions on some targets.

One algorithm (`simulator.arithmetic.fused`) serves every float type but f64; what differs between chips is in the
rules. Rules of the dense rows: MMA-Sim 2.1.1 and the feature tests of Khattak and Mikaitis (arXiv 2512.07004), whose
vectors of real GPUs the rows reproduce. sm_90: recorded results of an NVIDIA H100 80GB, driver 580, November 2026.
Lowered forms: code that ptxas 13.0 emits.
"""

from __future__ import annotations

from dataclasses import dataclass

from isa.errors import IsaError
from isa.forms.mma import MmaForm
from isa.targets import Target
from isa.types import ELEMENT_TYPES, ElementType

MEASURED_HERE = "measured here"
MEASURED_BY_OTHERS = "measured by others"
INFERRED = "inferred"

# By how much the floor of an f16 result lies above that of an f32 result: the difference of their smallest exponents
_F16_FLOOR = 112


@dataclass(frozen=True)
class SumRule:
    """One rule for how products and C are added.

    Attributes:
        name: to tell rules apart.
        step_bytes: bytes of (stored, converted) A in one fused step; longer sums chain steps over ascending columns.
        fraction: fraction bits to which every term is truncated, relative to the alignment exponent.
        lowest: smallest alignment exponent for an f32 result; see `floor`.
        kept: fraction bits of an f32 result, rounded toward zero (f16 results always have 10 and are rounded to nearest
            even).
        group: products that are added exactly before anything is aligned; with block scales of packed e2m1 (0: none).
        through: type that both operands are converted to first, where ptxas lowers the form to another instruction (""
            if not).
        split: columns of stored A that have this bit go into a later step than those that have not (0: not split).
        add_last: C is not part of the sum; an ordinary addition, to nearest even, adds it at the end.
        chained: not fused at all: ordinary multiply-adds over ascending columns, one after the other; see
            `simulator.arithmetic.chain`.
    """

    name: str
    step_bytes: int = 0
    fraction: int = 0
    lowest: int = 0
    kept: int = 23
    group: int = 0
    through: str = ""
    split: int = 0
    add_last: bool = False
    chained: bool = False

    @property
    def converted(self) -> ElementType | None:
        """The type that operands are converted to first, if any."""
        return ELEMENT_TYPES[self.through] if self.through else None

    def floor(self, result: ElementType) -> int:
        """The smallest exponent to which terms are aligned."""
        return self.lowest + _F16_FLOOR if result.bits == 16 else self.lowest

    def steps(self, columns: int, element: ElementType) -> tuple[tuple[int, ...], ...]:
        """The stored columns of each fused step, in the order in which the steps run."""
        length = columns if self.chained else self.step_bytes * 8 // (self.converted or element).bits
        groups = [[c for c in range(columns) if not c & self.split], [c for c in range(columns) if c & self.split]]
        return tuple(tuple(group[i : i + length]) for group in groups for i in range(0, len(group), length))


VOLTA = SumRule("Volta", 8, 23, -131)
TURING = SumRule("Turing to Ada", 16, 24, -132)
ADA_FP8 = SumRule("FP8 on Ada", 16, 13, -132, kept=13)
HOPPER = SumRule("Hopper and later", 32, 25, -133)
HOPPER_FP8 = SumRule("FP8 wgmma", 32, 13, -133, kept=13)
LOWERED_FP8 = SumRule("FP8 as f16", 32, 25, -133, through="f16", split=2, add_last=True)
PACKED = SumRule("packed e2m1 with block scales", 32, 35, -139, group=16)
MULTIPLY_ADD_F32 = SumRule("f16 as f32 multiply-adds", chained=True)
MULTIPLY_ADD = SumRule("f64 multiply-adds", chained=True)


@dataclass(frozen=True)
class SumRow:
    """The rule that some instructions follow on some targets.

    Attributes:
        family: "mma", "wgmma" or "tcgen05".
        targets: sm numbers.
        inputs: types of A and B, separated by blanks.
        sparse: for the `.sp` instructions or for the dense ones.
        rule: how they add.
        evidence: "measured here", "measured by others" or "inferred".
        source: whence.
        kind: "mxf8f6f4" or "mxf4" (which stands for mxf4nvf4, too) with block scales, else empty.
        shape: the one shape that the row is for ("": every other shape).
    """

    family: str
    targets: tuple[int, ...]
    inputs: str
    sparse: bool
    rule: SumRule
    evidence: str
    source: str
    kind: str = ""
    shape: str = ""

    def covers(self, family: str, sparse: bool, a: str, kind: str, shape: str) -> bool:
        """Whether the row is for these instructions, on any target."""
        alike = (self.family, self.sparse, self.kind) == (family, sparse, kind) and a in self.inputs.split()
        return alike and (self.shape == shape or (not self.shape and shape not in _OWN_SHAPES.get(a, ())))


_OWN_SHAPES = {"f16": ("m8n8k4",)}  # shapes that follow rules of their own

_WIDE, _FP8, _NARROW = "f16 bf16 tf32", "e4m3 e5m2", "e4m3 e5m2 e3m2 e2m3 e2m1"
_BLACKWELL, _CONSUMER = (100, 103, 110), (120, 121)

_SIM = "MMA-Sim 2.1.1"
_B200 = "the rule of github.com/sf-tensor/tcgen05 @8fce64d, which compares it with a B200"
_OTHERS = f"{_SIM}; vectors of real GPUs by Khattak and Mikaitis, arXiv 2512.07004"
_H100 = "NVIDIA H100 80GB, driver 580, November 2026: every recorded result, tests/golden"
_AS_DENSE = "the dense rule over the stored columns, as it holds on sm_90; no hardware evidence"
_LOWERING = "the same code from ptxas 13.0 as for sm_90"
_ALIKE = "as the other targets of its generation"

SUM_ROWS: tuple[SumRow, ...] = (
    # family, targets, inputs, sparse, rule, evidence, source
    SumRow("mma", (70,), "f16", False, VOLTA, MEASURED_BY_OTHERS, _OTHERS, shape="m8n8k4"),
    SumRow("mma", (72,), "f16", False, VOLTA, INFERRED, _ALIKE, shape="m8n8k4"),
    SumRow("mma", (75,), "f16", False, VOLTA, MEASURED_BY_OTHERS, _SIM, shape="m8n8k4"),
    SumRow("mma", (90,), "f16", False, MULTIPLY_ADD_F32, MEASURED_HERE, _H100, shape="m8n8k4"),
    SumRow(
        "mma",
        (80, 86, 87, 88, 89, *_BLACKWELL, *_CONSUMER),
        "f16",
        False,
        MULTIPLY_ADD_F32,
        INFERRED,
        _LOWERING,
        shape="m8n8k4",
    ),
    SumRow("mma", (75,), "f16", False, TURING, MEASURED_BY_OTHERS, _OTHERS),
    SumRow("mma", (80, 86, 89), _WIDE, False, TURING, MEASURED_BY_OTHERS, _OTHERS),
    SumRow("mma", (87, 88), _WIDE, False, TURING, INFERRED, _ALIKE),
    SumRow("mma", (80, 86, 87, 88, 89), _WIDE, True, TURING, INFERRED, _AS_DENSE),
    SumRow("mma", (89,), _FP8, False, ADA_FP8, MEASURED_BY_OTHERS, _OTHERS),
    SumRow("mma", (89,), _FP8, True, ADA_FP8, INFERRED, _AS_DENSE),
    SumRow("mma", (90,), _WIDE, False, HOPPER, MEASURED_HERE, _H100),
    SumRow("mma", (90,), _WIDE, True, HOPPER, MEASURED_HERE, _H100),
    SumRow("mma", (90,), _FP8, False, LOWERED_FP8, MEASURED_HERE, _H100),
    SumRow("mma", (90,), _FP8, True, LOWERED_FP8, MEASURED_HERE, _H100),
    SumRow("mma", (100, 103, 120), _WIDE, False, HOPPER, MEASURED_BY_OTHERS, _OTHERS),
    SumRow("mma", (110, 121), _WIDE, False, HOPPER, INFERRED, _ALIKE),
    SumRow("mma", _BLACKWELL + _CONSUMER, _WIDE, True, HOPPER, INFERRED, _AS_DENSE),
    SumRow(
        "mma",
        (100, 103),
        _FP8,
        False,
        LOWERED_FP8,
        MEASURED_BY_OTHERS,
        f"{_LOWERING}; reproduces the B200 vectors of arXiv 2512.07004",
    ),
    SumRow("mma", (110,), _FP8, False, LOWERED_FP8, INFERRED, _LOWERING),
    SumRow("mma", _BLACKWELL, _FP8, True, LOWERED_FP8, INFERRED, _LOWERING),
    SumRow("mma", (120,), _NARROW, False, HOPPER, MEASURED_BY_OTHERS, _SIM),
    SumRow("mma", (121,), _NARROW, False, HOPPER, INFERRED, _ALIKE),
    SumRow("mma", _CONSUMER, _NARROW, True, HOPPER, INFERRED, _AS_DENSE),
    SumRow("mma", (120,), _NARROW, False, HOPPER, MEASURED_BY_OTHERS, _SIM, kind="mxf8f6f4"),
    SumRow("mma", (121,), _NARROW, False, HOPPER, INFERRED, _ALIKE, kind="mxf8f6f4"),
    SumRow("mma", _CONSUMER, _NARROW, True, HOPPER, INFERRED, _AS_DENSE, kind="mxf8f6f4"),
    SumRow("mma", (120,), "e2m1", False, PACKED, MEASURED_BY_OTHERS, _SIM, kind="mxf4"),
    SumRow("mma", (121,), "e2m1", False, PACKED, INFERRED, _ALIKE, kind="mxf4"),
    SumRow("mma", _CONSUMER, "e2m1", True, PACKED, INFERRED, f"{_AS_DENSE}; groups of 16 stored products", kind="mxf4"),
    SumRow("mma", (90,), "f64", False, MULTIPLY_ADD, MEASURED_HERE, _H100),
    SumRow("mma", (80,), "f64", False, MULTIPLY_ADD, MEASURED_BY_OTHERS, _SIM),
    SumRow(
        "mma", (86, 87, 88, 89, *_BLACKWELL, *_CONSUMER), "f64", False, MULTIPLY_ADD, INFERRED, "as sm_80 and sm_90"
    ),
    SumRow("wgmma", (90,), _WIDE, False, HOPPER, MEASURED_HERE, _H100),
    SumRow("wgmma", (90,), _WIDE, True, HOPPER, MEASURED_HERE, _H100),
    SumRow("wgmma", (90,), _FP8, False, HOPPER_FP8, MEASURED_HERE, _H100),
    SumRow("wgmma", (90,), _FP8, True, HOPPER_FP8, MEASURED_HERE, _H100),
    SumRow("tcgen05", (100, 103), f"{_WIDE} {_NARROW}", False, HOPPER, MEASURED_BY_OTHERS, f"{_SIM}; {_B200}"),
    SumRow("tcgen05", (110,), f"{_WIDE} {_NARROW}", False, HOPPER, INFERRED, _ALIKE),
    SumRow("tcgen05", (100, 103), _NARROW, False, HOPPER, MEASURED_BY_OTHERS, f"{_SIM}; {_B200}", kind="mxf8f6f4"),
    SumRow("tcgen05", (100, 103), "e2m1", False, PACKED, MEASURED_BY_OTHERS, f"{_SIM}; {_B200}", kind="mxf4"),
    SumRow("tcgen05", (110,), _NARROW, False, HOPPER, INFERRED, _ALIKE, kind="mxf8f6f4"),
    SumRow("tcgen05", (110,), "e2m1", False, PACKED, INFERRED, _ALIKE, kind="mxf4"),
    SumRow("tcgen05", (100,), f"{_WIDE} {_NARROW}", True, HOPPER, MEASURED_BY_OTHERS, _B200),
    SumRow("tcgen05", (103, 110), f"{_WIDE} {_NARROW}", True, HOPPER, INFERRED, _ALIKE),
    SumRow("tcgen05", (100,), _NARROW, True, HOPPER, MEASURED_BY_OTHERS, _B200, kind="mxf8f6f4"),
    SumRow("tcgen05", (103, 110), _NARROW, True, HOPPER, INFERRED, _ALIKE, kind="mxf8f6f4"),
    SumRow("tcgen05", (100,), "e2m1", True, PACKED, MEASURED_BY_OTHERS, _B200, kind="mxf4"),
    SumRow("tcgen05", (103, 110), "e2m1", True, PACKED, INFERRED, _ALIKE, kind="mxf4"),
)


def find_row(
    family: str, target: Target, a: ElementType, *, sparse: bool = False, kind: str = "", shape: str = ""
) -> SumRow:
    """The row of floating-point instructions on a target; raises IsaError if the target has none."""
    like = [row for row in SUM_ROWS if row.covers(family, sparse, a.name, kind, shape)]
    for row in like:
        if target.number in row.targets:
            return row
    numbers = sorted({number for row in like for number in row.targets})
    what = " ".join(
        part for part in (f"{'sparse ' if sparse else ''}{family}", shape, kind, f"with {a} inputs") if part
    )
    raise IsaError(
        what,
        -1,
        f"no arithmetic is known for {what} on {target}",
        ", ".join(f"sm_{number}" for number in numbers) or "no target",
    )


def kind_of(form: MmaForm) -> str:
    """The `kind` of the row of a form: its own kind where it has block scales; mxf4 stands for mxf4nvf4, too."""
    if not form.row.scale:
        return ""
    return "mxf4" if form.row.kind.startswith("mxf4") else form.row.kind


def sum_row(form: MmaForm, target: Target) -> SumRow:
    """The row of a floating-point form of `mma` or `mma.sp` on a target; raises IsaError if the target has none."""
    return find_row(
        "mma", target, form.a_type, sparse=form.sparse, kind=kind_of(form), shape=f"m{form.m}n{form.n}k{form.k}"
    )
