"""The table of the conversions that the instruction `cvt` can do: from which type to which, with which roundings and
modifiers, on which targets.

PTX ISA 9.0, 9.7.9.21; what ptxas 13.0 takes. What they compute is in `simulator.arithmetic.convert`.
"""

from __future__ import annotations

from dataclasses import dataclass

from isa.targets import Availability, Target, parse_target
from isa.types import ELEMENT_TYPES, SCALE_TYPES

_TYPES = ELEMENT_TYPES | SCALE_TYPES
_MADE_FOR = "100a 100f 103a 103f 110a 110f 120a 120f 121a 121f"


@dataclass(frozen=True)
class Conversion:
    """The `cvt` instructions between two types, which differ only in rounding and modifiers.

    Attributes:
        source: name of the type converted from; "f64" too.
        target: name of the type converted to ("e2m1": packed, four bits).
        roundings: names of `ROUNDINGS`, or "" where the instruction names none (nothing is to be rounded, or low bits
            are taken).
        modifiers: each a choice of ".satfinite" and ".relu"; ".sat" for integers, which saturate from floats anyway.
        elements: converted together: 1, or 2 (f32 operands for two elements are two registers, the first for the upper
            one).
        ptx: the first PTX version that has it; where it has been there longer than any target that ptxas 13.0 knows,
            6.3.
        targets: the targets that have it.
    """

    source: str
    target: str
    roundings: tuple[str, ...]
    modifiers: tuple[str, ...]
    elements: int
    ptx: tuple[int, int]
    targets: Availability

    @property
    def satfinite(self) -> str:
        """Whether the modifier must or may be written: "required", "optional" or "no"."""
        allowed = {"satfinite" in modifier for modifier in self.modifiers}
        return "optional" if len(allowed) == 2 else "required" if True in allowed else "no"

    @property
    def relu(self) -> bool:
        """Whether `.relu` may be written."""
        return any("relu" in modifier for modifier in self.modifiers)

    @property
    def opcodes(self) -> tuple[str, ...]:
        """Every instruction of the row, as ptxas takes it."""
        whole = self.target in _TYPES and not _TYPES[self.target].is_float
        rounds = ["" if r == "" else f".{r}i" if whole else f".{r}" for r in self.roundings]
        to, of = (name + ("x2" if self.elements == 2 and name != "f32" else "") for name in (self.target, self.source))
        return tuple(f"cvt{r}{modifier}.{to}.{of}" for r in rounds for modifier in self.modifiers)


def _row(
    source: str, target: str, roundings: str, modifiers: str, ptx: str, targets: str, elements: int = 1
) -> Conversion:
    """Makes a row of the table. `roundings` and `modifiers` are separated by blanks; "-" means none."""
    major, minor = ptx.split(".")
    rounds, choices = (tuple("" if word == "-" else word for word in words.split()) for words in (roundings, modifiers))
    return Conversion(source, target, rounds, choices, elements, (int(major), int(minor)), Availability(targets))


_EVERY, _ANY = "rn rz rm rp", "- rn rz rm rp"
_BOUNDED = ".satfinite .satfinite.relu"
CONVERSIONS: tuple[Conversion, ...] = (
    # Between the wide floats.
    _row("f32", "f16", _EVERY, "-", "6.3", "75+"),
    _row("f32", "f16", "rn rz", ".relu", "7.0", "80+"),
    _row("f32", "f16", "rn rz", ".satfinite", "8.1", "75+"),
    _row("f32", "f16", "rn rz", ".satfinite.relu", "8.1", "80+"),
    _row("f32", "f16", "rn rz", "- .relu", "7.0", "80+", 2),
    _row("f32", "f16", "rn rz", _BOUNDED, "8.1", "80+", 2),
    _row("f32", "bf16", "rn rz", "- .relu", "7.0", "80+"),
    _row("f32", "bf16", "rm rp", "-", "7.0", "80+"),
    _row("f32", "bf16", "rn rz", _BOUNDED, "8.1", "80+"),
    _row("f32", "bf16", "rn rz", "- .relu", "7.0", "80+", 2),
    _row("f32", "bf16", "rn rz", _BOUNDED, "8.1", "80+", 2),
    _row("f32", "tf32", "rna", "-", "7.0", "80+"),
    _row("f32", "tf32", "rna", ".satfinite", "8.1", "80+"),
    _row("f32", "tf32", "rn rz", "- .relu", "7.8", "90+"),
    _row("f32", "tf32", "rn rz", _BOUNDED, "8.6", "100+"),
    _row("f16", "f32", "-", "-", "6.3", "75+"),
    _row("f16", "bf16", _ANY, "-", "7.8", "90+"),
    _row("bf16", "f16", _ANY, "-", "7.8", "90+"),
    _row("bf16", "f32", _ANY, "-", "7.1", "80+"),
    _row("f64", "f16", _EVERY, "-", "6.3", "75+"),
    _row("f64", "bf16", _EVERY, "-", "7.8", "90+"),
    _row("f64", "f32", _EVERY, "-", "6.3", "75+"),
    _row("f32", "f64", "-", "-", "6.3", "75+"),
    _row("f16", "f64", "-", "-", "6.3", "75+"),
    _row("bf16", "f64", _ANY, "-", "7.8", "90+"),
    # To and from the narrow ones.
    *(
        _row(source, target, "rn", _BOUNDED, "7.8", "89+", 2)
        for source in ("f32", "f16")
        for target in ("e4m3", "e5m2")
    ),
    *(_row("f32", target, "rn", _BOUNDED, "8.6", _MADE_FOR, 2) for target in ("e3m2", "e2m3", "e2m1")),
    _row("f16", "e2m1", "rn", _BOUNDED, "8.6", _MADE_FOR, 2),  # ptxas takes it; PTX ISA 9.0 does not list it
    *(_row(source, "f16", "rn", "- .relu", "7.8", "89+", 2) for source in ("e4m3", "e5m2")),
    *(_row(source, "f16", "rn", "- .relu", "8.6", _MADE_FOR, 2) for source in ("e3m2", "e2m3", "e2m1")),
    *(_row(source, "ue8m0", "rz rp", "- .satfinite", "8.6", _MADE_FOR, 2) for source in ("f32", "bf16")),
    _row("ue8m0", "bf16", "rn", "-", "8.6", _MADE_FOR, 2),
    # To and from integers.
    *(
        _row(source, target, _EVERY, "- .sat", "6.3", "75+")
        for source in ("f16", "f32", "f64")
        for target in ("s8", "u8", "s32")
    ),
    *(_row("bf16", target, _EVERY, "-", "7.8", "90+") for target in ("s8", "u8", "s32")),
    *(
        _row(source, target, _EVERY, "-", "6.3", "75+")
        for source in ("s8", "u8", "s32")
        for target in ("f16", "f32", "f64")
    ),
    *(_row(source, "bf16", _EVERY, "-", "7.8", "90+") for source in ("s8", "u8", "s32")),
    *(
        _row(source, target, "-", "- .sat", "6.3", "75+")
        for source, target in (("s32", "s8"), ("s32", "u8"), ("s8", "u8"), ("u8", "s8"))
    ),
    *(_row(source, "s32", "-", "-", "6.3", "75+") for source in ("s8", "u8")),
)
"""Every `cvt` between these types that ptxas 13.0 takes (stochastic rounding, .ftz and .sat of floats left out), as it
judges them."""


def legal_conversions(on: str | Target | None = None) -> tuple[Conversion, ...]:
    """The conversions that exist, on one target if `on` names it ("sm_90a"); raises IsaError for an unknown target."""
    if on is None:
        return CONVERSIONS
    chip = parse_target(on)
    return tuple(row for row in CONVERSIONS if chip in row.targets)
