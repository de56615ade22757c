"""The table of bulk copies and reductions: bytes in a row that the copy engine moves between shared and global memory,
and the groups in which a thread waits for them; stores and reductions of single values that complete on an mbarrier;
and `st.bulk`.

Numbers of sections are those of PTX ISA 9.0. Where ptxas 13.0 takes more than the text says (or less), the rows follow
ptxas: it takes the qualifiers behind the name in any order, but for the two spaces.
"""

from __future__ import annotations

from dataclasses import replace

from isa.forms.memory import groups
from isa.forms.record import Access, Role, Shape, Space, Time
from isa.forms.rows import Qualifiers, Roles, Row, instruction, policy, shared_address, stored_constants, type_bits
from isa.forms.tensor_copies import REDUCTIONS

_COPY, _REDUCE, _PREFETCH = "9.7.9.25.4.1", "9.7.9.25.4.2", "9.7.9.25.4.3"
_GROUPS, _ST_ASYNC, _RED_ASYNC, _ST_BULK = "9.7.9.25.3.4", "9.7.9.12", "9.7.13.8", "9.7.9.13"
_FROM_100 = "100+"
_HINT = "{.L2::cache_hint}"
_SCOPE = "{.cta,.cluster,.gpu,.sys}"  # ptxas 13.0 passes over it
_DONE = ".mbarrier::complete_tx::bytes"
_SIZE = Role("size", Shape.VALUE, constants=("integer",), multiple=16, widths=(32,))
_MASK = Role("mask", Shape.VALUE, constants=("integer",), width=16, widths=(16,))


def _shared(name: str, wide_from: int = 0) -> Role:
    return replace(shared_address(name), special=True, wide_from=wide_from)


def _global(name: str, wide_from: int = 0) -> Role:
    return Role(
        name, Shape.ADDRESS, width=64, widths=(16, 32, 64), variables=True, special=True, wide_from=wide_from
    )  # fmt: skip


def _copy(qualifiers: Qualifiers) -> tuple[Role, ...]:
    """The operands of a copy or a reduction; the last of its two spaces is where it reads. Which registers ptxas 13.0
    takes in addresses depends on qualifiers and target, as it has them."""
    to, source = (q for q in qualifiers if q.startswith("shared") or q == "global")
    done = "mbarrier::complete_tx::bytes" in qualifiers
    wide = 120 if (to, source) == ("shared::cluster", "global") else 0
    plain = not {"multicast::cluster", "L2::cache_hint", *REDUCTIONS} & set(qualifiers)
    mbarrier = _shared("mbarrier", wide)
    return (
        (_global if to == "global" else _shared)("to", wide),
        (_global if source == "global" else _shared)("from", wide),
        _SIZE,
        *((replace(mbarrier, widths=(32, 64)) if plain else mbarrier,) if done else ()),
        *((_MASK,) if "multicast::cluster" in qualifiers else ()),
        *policy(qualifiers),
        *((replace(_MASK, name="bytes", first=True),) if "cp_mask" in qualifiers else ()),
    )


def _fetch(qualifiers: Qualifiers) -> tuple[Role, ...]:
    return _global("from"), _SIZE, *policy(qualifiers)


def _sized_by_operand(qualifiers: Qualifiers) -> Access:
    return Access(Space.GLOBAL, 0, write="bulk_group" in qualifiers)


def _row(syntax: str, roles: Roles, name: str, since: str, section: str, targets: str = "90+") -> Row:
    row = instruction(
        syntax, roles, since=since, targets=targets, section=section, time=Time.COPY, name=name,
        access=_sized_by_operand,
    )  # fmt: skip
    spaces = tuple(
        place for place, slot in enumerate(row.slots) if slot[0] in ("shared::cluster", "shared::cta", "global")
    )
    return replace(row, sequence=spaces, always=("shared::cta", "shared::cluster", "cluster", "L2::cache_hint"))


_NAME = "cp.async.bulk"


BULK_ROWS: tuple[Row, ...] = (
    _row(f"{_NAME}.shared::cluster.global{_DONE}{{.multicast::cluster}}{_HINT}{_SCOPE}", _copy, _NAME, "8.0", _COPY),
    _row(f"{_NAME}.shared::cta.global{_DONE}{_HINT}{_SCOPE}", _copy, _NAME, "8.6", _COPY),
    _row(f"{_NAME}.shared::cluster.shared::cta{_DONE}{_SCOPE}", _copy, _NAME, "8.0", _COPY),
    _row(f"{_NAME}.global.shared::cta.bulk_group{_HINT}{_SCOPE}", _copy, _NAME, "8.0", _COPY),
    _row(f"{_NAME}.global.shared::cta.bulk_group{_HINT}.cp_mask{_SCOPE}", _copy, _NAME, "8.6", _COPY, _FROM_100),
    _row(f"{_NAME}.prefetch.L2.global{_HINT}", _fetch, f"{_NAME}.prefetch", "8.0", _PREFETCH),
    instruction(
        f"{_NAME}.commit_group", "", since="8.0", targets="90+", section=_GROUPS, time=Time.COPY_GROUP, name=_NAME
    ),
    instruction(
        f"{_NAME}.wait_group{{.read}}", groups, since="8.0", targets="90+", section=_GROUPS, time=Time.COPY_GROUP,
        name=_NAME,
    ),
)  # fmt: skip


def _reductions(spaces: str, hint: str, kinds: tuple[str, ...]) -> tuple[Row, ...]:
    name = "cp.reduce.async.bulk"
    return tuple(_row(f"{name}{spaces}{hint}{kind}", _copy, name, "8.0", _REDUCE) for kind in kinds)


_TYPES = (".add.{u32,s32,u64}", ".{inc,dec}.u32")
REDUCE_ROWS: tuple[Row, ...] = (
    *_reductions(
        ".global.shared::cta.bulk_group", _HINT,
        (*_TYPES, ".add.{f32,f64}", ".add.noftz.{f16,bf16}", ".{min,max}.{u32,s32,u64,s64,f16,bf16}",
         ".{and,or,xor}.{b32,b64}"),
    ),
    *_reductions(
        f".shared::cluster.shared::cta{_DONE}", "", (*_TYPES, ".{min,max}.{u32,s32}", ".{and,or,xor}.b32")
    ),
)  # fmt: skip


# Single values


def _values(qualifiers: Qualifiers, reduces: bool) -> Role:
    """The values of st.async, or the one of red.async, in registers just as wide as the type."""
    count = next((int(q[1:]) for q in qualifiers if q in ("v2", "v4")), 1)
    mapped = "release" in qualifiers
    kind = "u32" if mapped and reduces and qualifiers[-1] == "b32" else qualifiers[-1]
    constants = ("integer",) if reduces and mapped else stored_constants(qualifiers)
    bits = type_bits(kind)
    shape = Shape.VECTOR if count > 1 else Shape.VALUE if mapped or reduces else Shape.SCALAR
    role = Role("b" if reduces else "a", shape, count, constants=constants, width=bits, widths=(bits,), type=kind)
    return replace(role, first=shape is Shape.SCALAR and kind[0] != "b")  # ptxas 13.0 takes a vector


def _one_value(reduces: bool) -> Roles:
    """The operands of st.async and red.async: where, what, and the mbarrier of those to shared memory."""

    def roles(qualifiers: Qualifiers) -> tuple[Role, ...]:
        done = "mbarrier::complete_tx::bytes" in qualifiers
        peer = not reduces and any(q.startswith("shared") for q in qualifiers)
        mbarrier = replace(_shared("mbarrier"), widths=(16, 32, 64) if peer else (32, 64))
        where = Role("address", Shape.ADDRESS, widths=(32, 64), variables=True, special=True)
        return where, _values(qualifiers, reduces), *((mbarrier,) if done else ())

    return roles


def _stored(qualifiers: Qualifiers) -> Access:
    value = _values(qualifiers, False)
    shared = any(q.startswith("shared") for q in qualifiers)
    size = value.count * value.width // 8
    return Access(Space.SHARED if shared else Space.GLOBAL, size, write=True, row_bytes=size)


def _async(name: str, rest: str, since: str, targets: str, section: str, time: Time) -> Row:
    row = instruction(
        f"{name}{rest}", _one_value(name == "red.async"), since=since, targets=targets, section=section,
        time=time, name=name, any_order=True, access=_stored,
    )  # fmt: skip
    return replace(row, always=("shared::cta", "shared::cluster", "cluster"))


_OPERATIONS = (".{inc,dec}.u32", ".{min,max}.{u32,s32}", ".add.{u32,s32,u64,s64}", ".{and,or,xor}.b32")
_PEER = "{.shared::cluster,.shared::cta}"
_TO_SHARED = f".relaxed.cluster{{.shared::cluster}}{_DONE}"
_MMIO = "{.mmio}.release.{sys,gpu}{.global}"

ASYNC_ROWS: tuple[Row, ...] = (
    *(
        _async("st.async", f"{{.weak}}{_PEER}{_DONE}{data}", "8.1", "90+", _ST_ASYNC, Time.STORE)
        for data in ("{.v2,.v4}.{b32,u32,s32,f32}", "{.v2}.{b64,u64,s64,f64}")
    ),
    _async(
        "st.async", f"{_MMIO}.{{b16,u16,s16,b32,u32,s32,f32,b64,u64,s64,f64}}", "8.7", _FROM_100, _ST_ASYNC,
        Time.STORE_GLOBAL,
    ),
    *(
        row
        for operation in _OPERATIONS
        for row in (
            _async("red.async", f"{_TO_SHARED}{operation}", "8.1", "90+", _RED_ASYNC, Time.STORE),
            _async("red.async", f"{_MMIO}{operation}", "8.7", _FROM_100, _RED_ASYNC, Time.STORE_GLOBAL),
        )
    ),
)  # fmt: skip


def _filled(_: Qualifiers) -> tuple[Role, ...]:
    """The address, how many bytes, and what they become, which is 0."""
    return (
        Role("address", Shape.ADDRESS, widths=(32, 64), variables=True, special=True),
        Role("size", Shape.VALUE, constants=("integer",), multiple=8, width=64, widths=(64,)),
        Role("value", Shape.IMMEDIATE, constants=("integer",), choices=((0,),)),
    )


FILL_ROWS: tuple[Row, ...] = (
    replace(
        instruction(
            "st.bulk{.weak}{.shared::cta}", _filled, since="8.6", targets=_FROM_100, section=_ST_BULK,
            time=Time.STORE, name="st.bulk", any_order=True, access=lambda _: Access(Space.SHARED, 0, write=True),
        ),
        always=("shared::cta",),
    ),
)  # fmt: skip
