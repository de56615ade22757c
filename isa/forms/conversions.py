"""The table of the conversions `cvt` that have a floating-point type on one side at least.

PTX ISA 9.0, 9.7.9.21; which roundings and modifiers go with which types, on which targets and since when is as ptxas
13.0 has it. Stochastic rounding (`.rs`) is not among them.
"""

from __future__ import annotations

from dataclasses import replace

from isa.forms.record import Role, Shape, Time
from isa.forms.rows import Qualifiers, Row, first_of_vectors, instruction
from isa.targets import Availability

INTEGER_TYPES = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64")
NARROW_PAIRS = ("e4m3x2", "e5m2x2", "e3m2x2", "e2m3x2", "e2m1x2", "ue8m0x2")
CONVERTED_BITS = {
    **{name: int(name[1:]) for name in INTEGER_TYPES},
    "f16": 16,
    "bf16": 16,
    "f32": 32,
    "tf32": 32,
    "f64": 64,
    "f16x2": 32,
    "bf16x2": 32,
    **dict.fromkeys(NARROW_PAIRS, 16),
    "e2m1x2": 8,
}
_LAX = (*INTEGER_TYPES, "f16", "f32", "f64")  # of these alone, registers may be wider than the type
_CONSTANTS = {
    **dict.fromkeys(INTEGER_TYPES, ("integer",)), "f32": ("bits", "float"), "f64": ("double", "float"),
}  # fmt: skip

_ALL = ",".join(INTEGER_TYPES)
_SPECIFIC = "100a 100f 103a 103f 110a 110f 120a 120f 121a 121f"
_ADA = ((Availability("89"), "8.1"),)  # sm_89 got the conversions of 8-bit floats later than sm_90; ptxas 13.0
_ROUND, _MAY_ROUND = ".{rn,rz,rm,rp}", "{.rn,.rz,.rm,.rp}"
_WHOLE, _MAY_WHOLE = ".{rni,rzi,rmi,rpi}", "{.rni,.rzi,.rmi,.rpi}"


def _roles(qualifiers: Qualifiers) -> tuple[Role, ...]:
    """Destination and source; two sources where a pair is made of f32, the first of which becomes the upper half."""
    target, source = qualifiers[-2:]
    lax = source in _LAX and (target in _LAX or (target, source) == ("f16x2", "f32"))
    names = "ab" if source == "f32" and target.endswith("x2") else "a"
    constants = ("bits",) if target == "tf32" else _CONSTANTS.get(source, ())
    shape = Shape.VALUE if constants else Shape.REGISTER
    exact = (target, source) == ("f32", "f64") and "ftz" in qualifiers and "rn" not in qualifiers  # ptxas 13.0
    d = _role(Role("d", Shape.REGISTER, output=True), target, lax and not exact)
    roles = first_of_vectors((d, *(_role(Role(name, shape, constants=constants), source, lax) for name in names)))
    if {"ue8m0x2", "bf16x2"} <= {target, source}:  # ptxas 13.0 takes registers of any type for the bf16x2
        roles = tuple(replace(role, type="b32") if role.type == "bf16x2" else role for role in roles)
    return roles


def _role(role: Role, kind: str, lax: bool) -> Role:
    """The role with the registers that this type may lie in. Where they must be as wide as the type, ptxas 13.0 takes
    for 8 bits none but those declared with .b8; elsewhere they are held in registers of 16 bits."""
    bits = CONVERTED_BITS[kind]
    widths = tuple(width for width in (16, 32, 64) if width >= bits) if lax else (bits,)
    return replace(role, width=max(bits, 16), widths=widths, type=kind)


def _row(syntax: str, since: str = "1.0", targets: str = "70+") -> Row:
    row = instruction(
        f"cvt{syntax}", _roles, since=since, targets=targets, section="9.7.9.21", time=Time.INTEGER, any_order=True
    )
    return replace(row, sequence=(len(row.slots) - 2, len(row.slots) - 1))  # ptxas keeps the order of the types alone


CONVERSION_ROWS: tuple[Row, ...] = (
    # Between f16, bf16, tf32, f32 and f64.
    _row(f"{_ROUND}{{.ftz}}{{.sat}}.f16.f32"),
    _row(".{rn,rz}.relu.f16.f32", "7.0", "80+"),
    _row(".{rn,rz}.satfinite.f16.f32", "8.1", "75+"),
    _row(".{rn,rz}.satfinite.relu.f16.f32", "8.1", "80+"),
    _row(f"{_ROUND}{{.ftz}}.bf16.f32", "7.0", "80+"),
    _row(".{rn,rz}.relu.bf16.f32", "7.0", "80+"),
    _row(".{rn,rz}.satfinite{.relu}.bf16.f32", "8.1", "80+"),
    _row(".{rn,rz}{.relu}.{f16x2,bf16x2}.f32", "7.0", "80+"),
    _row(".{rn,rz}.satfinite{.relu}.{f16x2,bf16x2}.f32", "8.1", "80+"),
    _row(".rna.tf32.f32", "7.0", "80+"),
    _row(".rna.satfinite.tf32.f32", "8.1", "80+"),
    _row(".{rn,rz}{.relu}.tf32.f32", "7.8", "90+"),
    _row(".{rn,rz}.satfinite{.relu}.tf32.f32", "8.6", "100+"),
    _row("{.ftz}{.sat}.f32.f16"),
    _row(f"{_MAY_ROUND}.f32.bf16", "7.1", "80+"),
    _row(f"{_MAY_ROUND}.ftz.f32.bf16", "7.8", "90+"),
    _row(f"{_MAY_ROUND}.f16.bf16", "7.8", "90+"),
    _row(f"{_MAY_ROUND}.bf16.f16", "7.8", "90+"),
    _row(f"{_MAY_ROUND}.f64.bf16", "7.8", "90+"),
    _row(f"{_ROUND}{{.ftz}}{{.sat}}.f32.f64"),
    _row(f"{_ROUND}{{.sat}}.f16.f64"),
    _row(f"{_ROUND}.bf16.f64", "7.8", "90+"),
    _row("{.ftz}{.sat}.f64.f32"),
    _row("{.sat}.f64.f16"),
    # To whole numbers, or not at all, within a type.
    _row(f"{_MAY_WHOLE}{{.ftz}}{{.sat}}.f32.f32"),
    _row(f"{_MAY_WHOLE}{{.sat}}.f16.f16"),
    _row(f"{_MAY_WHOLE}{{.sat}}.f64.f64"),
    _row(f"{_MAY_WHOLE}.bf16.bf16", "7.8", "90+"),
    # Pairs of narrow types.
    replace(_row(".rn.satfinite{.relu}.{e4m3x2,e5m2x2}.{f32,f16x2}", "7.8", "89+"), later=_ADA),
    replace(_row(".rn{.relu}.f16x2.{e4m3x2,e5m2x2}", "7.8", "89+"), later=_ADA),
    _row(".rn.satfinite{.relu}.{e3m2x2,e2m3x2,e2m1x2}.f32", "8.6", _SPECIFIC),
    _row(".rn.satfinite{.relu}.e2m1x2.f16x2", "8.6", _SPECIFIC),
    _row(".rn{.relu}.f16x2.{e3m2x2,e2m3x2,e2m1x2}", "8.6", _SPECIFIC),
    _row(".{rz,rp}{.satfinite}.ue8m0x2.{f32,bf16x2}", "8.6", _SPECIFIC),
    _row(".rn.bf16x2.ue8m0x2", "8.6", _SPECIFIC),
    # From and to integers.
    _row(f"{_ROUND}{{.ftz}}{{.sat}}.f32.{{{_ALL}}}"),
    _row(f"{_ROUND}{{.sat}}.{{f16,f64}}.{{{_ALL}}}"),
    _row(f"{_ROUND}.bf16.{{{_ALL}}}", "7.8", "90+"),
    _row(f"{_WHOLE}{{.ftz}}{{.sat}}.{{{_ALL}}}.f32"),
    _row(f"{_WHOLE}{{.sat}}.{{{_ALL}}}.{{f16,f64}}"),
    _row(f"{_WHOLE}.{{{_ALL}}}.bf16", "7.8", "90+"),
)
