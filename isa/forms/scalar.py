"""The table of the instructions that compute in registers, each lane for itself or together with the others of its
warp: moves, arithmetic, logic, comparisons, conversions, shuffles, elect, mapa and getctarank."""

from __future__ import annotations

from dataclasses import replace

from isa.forms.record import Role, Time
from isa.forms.rows import Qualifiers, Row, instruction, typed_role

_WIDE = "b64,u64,s64"


def _move(qualifiers: Qualifiers) -> tuple[Role, ...]:
    kind = qualifiers[-1]
    special = kind[0] in "us" or kind == "pred"
    return typed_role("d", kind), replace(typed_role("a", kind), special=special)


def _rank_of(qualifiers: Qualifiers) -> tuple[Role, ...]:
    """The operands of getctarank: a rank of 32 bits, and an address as wide as the type."""
    return typed_role("d", "u32"), typed_role("a", qualifiers[-1])


def _scalar(
    syntax: str, roles: str, section: str, time: Time = Time.INTEGER, since: str = "1.0", leading: int = 0
) -> Row:
    """The row of an instruction that each thread executes for itself and that every target has."""
    row = instruction(syntax, roles, since=since, targets="70+", section=section, time=time, any_order=True)
    return replace(row, leading=leading)


SCALAR_ROWS: tuple[Row, ...] = (
    instruction(
        "mov.{u32,s32,f32,u64,s64,u16,s16,pred}", _move, any_order=True,
        since="1.0", targets="70+", section="9.7.9.3", time=Time.EITHER,
    ),
    _scalar("add.{s32,u32,s64,u64}", "d, a, b", "9.7.1.1", Time.EITHER),
    _scalar("sub.{s32,u32,s64,u64}", "d, a, b", "9.7.1.2", Time.EITHER),
    _scalar("mul.lo.{s32,u32}", "d, a, b", "9.7.1.3", Time.MULTIPLY, leading=1),
    _scalar("mul.wide.{s32,u32}", "d:64, a, b", "9.7.1.3", Time.MULTIPLY, leading=1),
    _scalar("mad.lo.{s32,u32}", "d, a, b, c", "9.7.1.4", Time.MULTIPLY, leading=1),
    _scalar("shl.{b32,b64}", "d, a, b:32", "9.7.8.7"),
    _scalar(f"shr.{{b32,u32,s32,{_WIDE}}}", "d, a, b:32", "9.7.8.8"),
    _scalar("and.{b32,b64,pred}", "d, a, b", "9.7.8.1"),
    _scalar("or.{b32,b64,pred}", "d, a, b", "9.7.8.2"),
    _scalar("xor.{b32,b64,pred}", "d, a, b", "9.7.8.3"),
    _scalar("not.{b32,b64,pred}", "d, a", "9.7.8.4"),
    _scalar("lop3.b32", "d:discarded bits, a:bits, b:bits, c:bits, table:imm", "9.7.8.6", since="4.3"),
    _scalar("bfi.b32", "d:bits, a:bits, b:bits, position:u8, length:u8", "9.7.1.20", since="2.0"),
    _scalar(f"selp.{{b32,u32,s32,{_WIDE}}}", "d, a, b, c:pred", "9.7.6.3"),
    instruction(
        "shfl.sync.bfly.b32", "d:register or pair, a:bits, b:bits, c:bits, membermask:u32", any_order=True,
        since="6.0", targets="70+", section="9.7.9.6", time=Time.SHUFFLE,
    ),
    instruction(
        "elect.sync", "d:pair, membermask:u32", since="8.0", targets="90+", section="9.7.13.10", time=Time.INTEGER
    ),
    instruction(
        "mapa{.shared::cluster}.{u32,u64}", "d, a, b:32", any_order=True,
        since="7.8", targets="90+", section="9.7.9.23", time=Time.INTEGER,
    ),
    instruction(
        "getctarank{.shared::cluster}.{u32,u64}", _rank_of, any_order=True,
        since="7.8", targets="90+", section="9.7.9.24", time=Time.INTEGER,
    ),
)  # fmt: skip
