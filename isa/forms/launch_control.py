"""The table of `clusterlaunchcontrol`, by which a running cluster takes over the work of one that has not started.

Numbers of sections are those of PTX ISA 9.0. Where ptxas 13.0 takes more than the text says (or less), the rows follow
ptxas.
"""

from __future__ import annotations

from dataclasses import replace

from isa.forms.record import Access, Role, Shape, Space, Time
from isa.forms.rows import Qualifiers, Row, instruction

_NAME = "clusterlaunchcontrol"
_TRY, _QUERY = "9.7.13.17", "9.7.13.18"
_MULTICAST_TARGETS = "100a 100f 101a 101f 103a 103f 110a 110f 120a 120f 121a 121f"
RESPONSE_BYTES = 16


def _places(qualifiers: Qualifiers) -> tuple[Role, ...]:
    """Where the response goes, and the mbarrier on which its bytes complete."""
    address = Role("address", Shape.ADDRESS, widths=(32, 64), variables=True)
    return address, replace(address, name="mbarrier")


def _response(qualifiers: Qualifiers) -> Role:
    return Role("response", Shape.REGISTER, width=128, widths=(128,), type="b128")


def _cancelled(qualifiers: Qualifiers) -> tuple[Role, ...]:
    return Role("d", Shape.REGISTER, output=True, width=1, widths=(1,)), _response(qualifiers)


def _first(qualifiers: Qualifiers) -> tuple[Role, ...]:
    count = 4 if "v4" in qualifiers else 1
    shape = Shape.VECTOR if count > 1 else Shape.SCALAR
    d = Role("d", shape, count, output=True, widths=(32,), type="b32", sink="part" if count > 1 else "")
    return d, _response(qualifiers)


def _written(_: Qualifiers) -> Access:
    return Access(Space.SHARED, RESPONSE_BYTES, write=True, row_bytes=RESPONSE_BYTES, addresses=1)


def _try(multicast: str, targets: str) -> Row:
    row = instruction(
        f"{_NAME}.try_cancel.async{{.shared::cta}}.mbarrier::complete_tx::bytes{multicast}.b128", _places,
        since="8.6", targets=targets, section=_TRY, time=Time.STORE, name=f"{_NAME}.try_cancel", any_order=True,
        access=_written,
    )  # fmt: skip
    return replace(row, leading=1)


LAUNCH_ROWS: tuple[Row, ...] = (
    _try("", "100+"),
    _try(".multicast::cluster::all", _MULTICAST_TARGETS),
    *(
        replace(
            instruction(
                f"{_NAME}.query_cancel{rest}.b128", roles, since="8.6", targets="100+", section=_QUERY,
                time=Time.INTEGER, name=f"{_NAME}.query_cancel", any_order=True,
            ),
            sequence=(rest.count("."), rest.count(".") - 1)[::-1],
        )
        for rest, roles in (
            (".is_canceled.pred", _cancelled),
            (".get_first_ctaid.v4.b32", _first),
            (".{get_first_ctaid::x,get_first_ctaid::y,get_first_ctaid::z}.b32", _first),
        )
    ),
)  # fmt: skip
