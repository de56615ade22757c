"""The table of floating-point arithmetic of single threads: additions, products, quotients, roots, minima, signs, and
the approximate functions, for f16, bf16, f32 and f64, and for pairs of them in one register.

PTX ISA 9.0, 9.7.3 (f32, f64), 9.7.4 (f16, bf16) and 9.7.5 (f32 with f16 or bf16). Which qualifiers go together, on
which targets and since when is as ptxas 13.0 has it, which takes more than PTX says (`add.bf16` without a rounding).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from isa.forms.record import Role, Shape, Time
from isa.forms.rows import Qualifiers, Row, first_of_vectors, instruction
from isa.targets import Availability

FLOAT_BITS = {"f16": 16, "bf16": 16, "f16x2": 32, "bf16x2": 32, "f32": 32, "f32x2": 64, "f64": 64}
_CONSTANTS = {"f32": ("bits", "float"), "f64": ("double", "float")}  # other types take registers alone

_ROUNDING = ".{rn,rz,rm,rp}"
_MAY_ROUND = "{.rn,.rz,.rm,.rp}"


def float_role(name: str, kind: str, *, output: bool = False, optional: bool = False) -> Role:
    """The role of an operand of a floating-point type: a register as wide as the type, or a constant where it is read
    and the type has some."""
    bits = FLOAT_BITS[kind]
    constants = () if output else _CONSTANTS.get(kind, ())
    shape = Shape.VALUE if constants else Shape.REGISTER
    return Role(
        name, shape, output=output, optional=optional, constants=constants, width=bits, widths=(bits,),
        type=kind,
    )  # fmt: skip


def _roles(names: str, qualifiers: Qualifiers) -> tuple[Role, ...]:
    """The roles of these letters, all of the type that stands last; `c?` may be left out."""
    kind = qualifiers[-1]
    roles = (float_role(name[0], kind, output=name == "d", optional=name.endswith("?")) for name in names.split(", "))
    return tuple(roles) if "approx" in qualifiers else first_of_vectors(roles)


def _mixed(names: str, qualifiers: Qualifiers) -> tuple[Role, ...]:
    """The roles of an instruction of f32 some of whose sources, those in brackets, have the narrower type that stands
    last."""
    roles = first_of_vectors(
        float_role(name.strip("()"), qualifiers[-1] if name.startswith("(") else "f32", output=name == "d")
        for name in names.split(", ")
    )
    return tuple(replace(role, type="u16") if role.type == "bf16" else role for role in roles)  # ptxas 13.0


def _test(qualifiers: Qualifiers) -> tuple[Role, ...]:
    return Role("d", Shape.REGISTER, output=True, width=1, widths=(1,)), float_role("a", qualifiers[-1])


def _row(syntax: str, names: str, section: str, since: str = "1.0", targets: str = "70+") -> Row:
    return instruction(
        syntax, partial(_roles, names), since=since, targets=targets, section=section, time=Time.FLOAT, any_order=True
    )  # fmt: skip


def _mixed_row(syntax: str, names: str, section: str) -> Row:
    row = instruction(
        syntax, partial(_mixed, names), since="8.6", targets="100+", section=section, time=Time.FLOAT, any_order=True
    )  # fmt: skip
    return replace(row, sequence=(len(row.slots) - 2, len(row.slots) - 1))  # f32 stands before the narrower type


def _sum_rows(name: str, single: str, half: str) -> tuple[Row, ...]:
    """The rows of add, sub or mul; `single` and `half` are the sections of f32 and of f16."""
    return (
        _row(f"{name}{_MAY_ROUND}{{.ftz}}{{.sat}}.f32", "d, a, b", single),
        _row(f"{name}{_MAY_ROUND}.f64", "d, a, b", single),
        _row(f"{name}{_MAY_ROUND}{{.ftz}}.f32x2", "d, a, b", single, "8.6", "100+"),
        _row(f"{name}{{.rn}}{{.ftz}}{{.sat}}.{{f16,f16x2}}", "d, a, b", half, "4.2"),
        _row(f"{name}{{.rn}}.{{bf16,bf16x2}}", "d, a, b", half, "7.8", "90+"),
    )


def _extreme_rows(name: str, single: str, half: str) -> tuple[Row, ...]:
    """The rows of min or max. Of f32 there are also three sources, since PTX 8.8 on sm_100 and later; `.abs` without
    `.xorsign` is for these alone."""
    third = (("c", Availability("100+")),)
    return (
        replace(_row(f"{name}{{.ftz}}.f32", "d, a, b, c?", single), narrowed=third),
        replace(_row(f"{name}{{.ftz}}.NaN.f32", "d, a, b, c?", single, "7.0", "80+"), narrowed=third),
        _row(f"{name}{{.ftz}}{{.NaN}}.abs.f32", "d, a, b, c", single, "8.8", "100+"),
        _row(f"{name}{{.ftz}}{{.NaN}}.xorsign.abs.f32", "d, a, b", single, "7.2", "86+"),
        _row(f"{name}.f64", "d, a, b", single),
        _row(f"{name}{{.ftz}}{{.NaN}}.{{f16,f16x2}}", "d, a, b", half, "7.0", "80+"),
        _row(f"{name}{{.ftz}}{{.NaN}}.xorsign.abs.{{f16,f16x2}}", "d, a, b", half, "7.2", "86+"),
        _row(f"{name}{{.NaN}}.{{bf16,bf16x2}}", "d, a, b", half, "7.0", "80+"),
        _row(f"{name}{{.NaN}}.xorsign.abs.{{bf16,bf16x2}}", "d, a, b", half, "7.2", "86+"),
    )


_FMA = "d, a, b, c"
FLOAT_ROWS: tuple[Row, ...] = (
    instruction(
        "testp.{finite,infinite,number,notanumber,normal,subnormal}.{f32,f64}", _test,
        since="2.0", targets="70+", section="9.7.3.1", time=Time.FLOAT, any_order=True,
    ),
    _row("copysign.{f32,f64}", "d, a, b", "9.7.3.2", "2.0"),
    *_sum_rows("add", "9.7.3.3", "9.7.4.1"),
    *_sum_rows("sub", "9.7.3.4", "9.7.4.2"),
    *_sum_rows("mul", "9.7.3.5", "9.7.4.3"),
    _row(f"fma{_ROUNDING}{{.ftz}}{{.sat}}.f32", _FMA, "9.7.3.6", "2.0"),
    _row(f"fma{_ROUNDING}.f64", _FMA, "9.7.3.6"),
    _row(f"fma{_ROUNDING}{{.ftz}}.f32x2", _FMA, "9.7.3.6", "8.6", "100+"),
    _row("fma.rn{.ftz}{.sat}.{f16,f16x2}", _FMA, "9.7.4.4", "4.2"),
    _row("fma.rn{.ftz}.relu.{f16,f16x2}", _FMA, "9.7.4.4", "7.0", "80+"),
    _row("fma.rn.oob{.relu,.sat}.{f16,f16x2}", _FMA, "9.7.4.4", "8.1", "90+"),
    _row(f"fma{_ROUNDING}{{.relu}}.{{bf16,bf16x2}}", _FMA, "9.7.4.4", "7.0", "80+"),
    _row(f"fma{_ROUNDING}.oob{{.relu}}.{{bf16,bf16x2}}", _FMA, "9.7.4.4", "8.1", "90+"),
    _row(f"mad{_ROUNDING}{{.ftz}}{{.sat}}.f32", _FMA, "9.7.3.7"),
    _row(f"mad{_ROUNDING}.f64", _FMA, "9.7.3.7"),
    _row("div.{approx,rn,rz,rm,rp}{.ftz}.f32", "d, a, b", "9.7.3.8"),
    replace(_row("div.full{.ftz}.f32", "d, a, b", "9.7.3.8"), leading=1),
    _row(f"div{_ROUNDING}.f64", "d, a, b", "9.7.3.8"),
    _row("abs{.ftz}.f32", "d, a", "9.7.3.9"),
    _row("abs.f64", "d, a", "9.7.3.9"),
    _row("abs{.ftz}.{f16,f16x2}", "d, a", "9.7.4.6", "6.5"),
    _row("abs.{bf16,bf16x2}", "d, a", "9.7.4.6", "7.0", "80+"),
    _row("neg{.ftz}.f32", "d, a", "9.7.3.10"),
    _row("neg.f64", "d, a", "9.7.3.10"),
    _row("neg{.ftz}.{f16,f16x2}", "d, a", "9.7.4.5", "6.0"),
    _row("neg.{bf16,bf16x2}", "d, a", "9.7.4.5", "7.0", "80+"),
    *_extreme_rows("min", "9.7.3.11", "9.7.4.7"),
    *_extreme_rows("max", "9.7.3.12", "9.7.4.8"),
    _row("rcp.{approx,rn,rz,rm,rp}{.ftz}.f32", "d, a", "9.7.3.13"),
    _row(f"rcp{_ROUNDING}{{.ftz}}.f64", "d, a", "9.7.3.13"),
    _row("rcp.approx.ftz.f64", "d, a", "9.7.3.14"),
    _row("sqrt.{approx,rn,rz,rm,rp}{.ftz}.f32", "d, a", "9.7.3.15"),
    _row(f"sqrt{_ROUNDING}.f64", "d, a", "9.7.3.15"),
    _row("rsqrt.approx{.ftz}.{f32,f64}", "d, a", "9.7.3.16"),
    _row("sin.approx{.ftz}.f32", "d, a", "9.7.3.18"),
    _row("cos.approx{.ftz}.f32", "d, a", "9.7.3.19"),
    _row("lg2.approx{.ftz}.f32", "d, a", "9.7.3.20"),
    _row("ex2.approx{.ftz}.f32", "d, a", "9.7.3.21"),
    _row("ex2.approx.{f16,f16x2}", "d, a", "9.7.4.10", "7.0", "75+"),
    _row("ex2.approx.ftz.{bf16,bf16x2}", "d, a", "9.7.4.10", "7.8", "90+"),
    _row("tanh.approx.{f32,f16,f16x2}", "d, a", "9.7.3.22", "7.0", "75+"),
    _row("tanh.approx.{bf16,bf16x2}", "d, a", "9.7.4.9", "7.8", "90+"),
    _mixed_row(f"add{_MAY_ROUND}{{.sat}}.f32.{{f16,bf16}}", "d, (a), b", "9.7.5.1"),
    _mixed_row(f"sub{_MAY_ROUND}{{.sat}}.f32.{{f16,bf16}}", "d, (a), b", "9.7.5.2"),
    _mixed_row(f"fma{_ROUNDING}{{.sat}}.f32.{{f16,bf16}}", "d, (a), (b), c", "9.7.5.3"),
)  # fmt: skip
