"""The table of bulk copies: bytes in a row that the copy engine moves between shared and global memory, and the groups
in which a thread waits for them.

Numbers of sections are those of PTX ISA 9.0. Where ptxas 13.0 takes more than the text says (or less), the rows follow
ptxas.
"""

from __future__ import annotations

from isa.forms.memory import groups
from isa.forms.record import Access, Role, Shape, Space, Time
from isa.forms.rows import Qualifiers, Roles, Row, instruction

_COPY, _GROUPS = "9.7.9.25.4.1", "9.7.9.25.3.4"


def _load(_: Qualifiers) -> tuple[Role, ...]:
    return (
        Role("to", Shape.ADDRESS),
        Role("from", Shape.ADDRESS, width=64),
        Role("size", Shape.VALUE, constants=("integer",), multiple=16),
        Role("mbarrier", Shape.ADDRESS),
    )


def _from_global(_: Qualifiers) -> Access:
    return Access(Space.GLOBAL, 0)


def _row(syntax: str, roles: Roles, since: str, targets: str = "90+") -> Row:
    return instruction(
        syntax, roles, since=since, targets=targets, section=_COPY, time=Time.COPY, name="cp.async.bulk",
        access=_from_global,
    )  # fmt: skip


BULK_ROWS: tuple[Row, ...] = (
    _row("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes", _load, "8.0"),
    _row("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes", _load, "8.6"),
    instruction(
        "cp.async.bulk.commit_group", "", since="8.0", targets="90+", section=_GROUPS, time=Time.COPY_GROUP,
        name="cp.async.bulk",
    ),
    instruction(
        "cp.async.bulk.wait_group{.read}", groups, since="8.0", targets="90+", section=_GROUPS, time=Time.COPY_GROUP,
        name="cp.async.bulk",
    ),
)  # fmt: skip
