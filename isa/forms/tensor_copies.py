"""The table of the instructions of tensor maps: copies, reductions and prefetches of boxes, and changes of a map.

Numbers of sections are those of PTX ISA 9.0. Where ptxas 13.0 takes more than the text says (or less), the rows follow
ptxas: it takes the qualifiers behind the name in any order, but for the two spaces.
"""

from __future__ import annotations

from dataclasses import replace

from isa.descriptors.tensor_map_fields import ATOMS, BYTES, HOPPER_TYPES, SWIZZLES, TYPES
from isa.descriptors.tensor_map_replace import ORDINALS
from isa.forms.record import Access, Role, Shape, Space, Time
from isa.forms.rows import Qualifiers, Roles, Row, instruction, policy, shared_address, typed_role
from isa.targets import Availability

_COPY, _REDUCE, _PREFETCH, _REPLACE = "9.7.9.27.1.2", "9.7.9.27.1.3", "9.7.9.27.1.4", "9.7.9.28"
_DIMENSIONS = "{1d,2d,3d,4d,5d}"
_VOLUMES = "{3d,4d,5d}"
_FAMILY = "100a 100f 103a 103f 110a 110f"
REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


def dimensions(qualifiers: Qualifiers) -> int:
    """The number of dimensions that an opcode names."""
    return next(int(q[0]) for q in qualifiers if q in ("1d", "2d", "3d", "4d", "5d"))


def _tensor(qualifiers: Qualifiers) -> Role:
    """`[map, {c0, c1}]`: the address of the map, and a coordinate for each dimension; of rows that are gathered or
    scattered the column and four rows."""
    rows = {"tile::gather4", "tile::scatter4"} & set(qualifiers)
    count = 5 if rows else dimensions(qualifiers)
    constants = ("integer", "bits", "low word") if count > 1 else ("integer",)
    return Role("tensor", Shape.TENSOR, count, width=64, constants=constants, special=True, vector_type="s32")


def _offsets(qualifiers: Qualifiers) -> tuple[Role, ...]:
    """What im2col loads take besides: offsets in W, H, D; of `.im2col::w` the halo and the offset."""
    if "im2col" in qualifiers:
        count = dimensions(qualifiers) - 2
    elif {"im2col::w", "im2col::w::128"} & set(qualifiers):
        count = 2
    else:
        return ()
    return (Role("offsets", Shape.VECTOR, count, constants=("integer",), width=16),)


def _shared(name: str, qualifiers: Qualifiers) -> Role:
    """An address in shared memory. ptxas 13.0 takes %laneid in it, and a register of any type without brackets; from
    sm_120 on, in that of a cluster, neither %laneid nor 16 bits."""
    wide_from = 120 if "shared::cluster" in qualifiers else 0
    return replace(shared_address(name), special=True, bare=True, wide_from=wide_from)


def _load(qualifiers: Qualifiers) -> tuple[Role, ...]:
    mask = Role("mask", Shape.VALUE, constants=("integer",), width=16, widths=(16,))
    return (
        _shared("to", qualifiers),
        _tensor(qualifiers),
        _shared("mbarrier", qualifiers),
        *_offsets(qualifiers),
        *((mask,) if "multicast::cluster" in qualifiers else ()),
        *policy(qualifiers),
    )


def _store(qualifiers: Qualifiers) -> tuple[Role, ...]:
    return _tensor(qualifiers), _shared("from", qualifiers), *policy(qualifiers)


def _prefetch(qualifiers: Qualifiers) -> tuple[Role, ...]:
    return _tensor(qualifiers), *_offsets(qualifiers), *policy(qualifiers)


def _from_global(_: Qualifiers) -> Access:
    return Access(Space.GLOBAL, 0)


def _to_global(_: Qualifiers) -> Access:
    return Access(Space.GLOBAL, 0, write=True)


def _row(syntax: str, roles: Roles, name: str, since: str, targets: str, section: str, *, writes: bool = False) -> Row:
    row = instruction(
        syntax, roles, since=since, targets=targets, section=section, time=Time.COPY, name=name,
        access=_to_global if writes else _from_global,
    )  # fmt: skip
    spaces = tuple(
        place for place, slot in enumerate(row.slots) if slot[0] in ("shared::cluster", "shared::cta", "global")
    )
    return replace(row, sequence=spaces, always=("shared::cta", "shared::cluster", "cluster", "L2::cache_hint"))


_LOAD, _STORE, _FETCH = "cp.async.bulk.tensor", "cp.async.bulk.tensor", "cp.async.bulk.prefetch.tensor"
_HINT = "{.L2::cache_hint}"
_DONE = ".mbarrier::complete_tx::bytes"
_LOADS = (  # dimensions, mode, since and targets of .shared::cluster; those of .shared::cta came later
    (_DIMENSIONS, "{.tile}", "8.0", "90+"),
    (_VOLUMES, ".im2col", "8.0", "90+"),
    ("2d", ".tile::gather4", "8.6", _FAMILY),
    (_VOLUMES, ".im2col::w", "8.6", _FAMILY),
    (_VOLUMES, ".im2col::w::128", "8.6", _FAMILY),
)
_INTO_OWN = {"90+": "90+", _FAMILY: "100+"}  # targets of .shared::cta, by those of .shared::cluster
_STORES = ((_DIMENSIONS, "{.tile}", "8.0", "90+"), (_VOLUMES, ".im2col_no_offs", "8.0", "90+"))

TENSOR_ROWS: tuple[Row, ...] = (
    *(
        row
        for dims, mode, since, targets in _LOADS
        for row in (
            _row(
                f"{_LOAD}.{dims}.shared::cluster.global{mode}{_DONE}{{.multicast::cluster}}{_HINT}", _load, _LOAD,
                since, targets, _COPY,
            ),
            _row(
                f"{_LOAD}.{dims}.shared::cluster.global{mode}{_DONE}{{.multicast::cluster}}.{{cta_group::1,cta_group::2}}"
                f"{_HINT}", _load, _LOAD, "8.6", _FAMILY, _COPY,
            ),
            _row(
                f"{_LOAD}.{dims}.shared::cta.global{mode}{_DONE}{_HINT}", _load, _LOAD,
                "8.6", targets if mode == ".im2col::w::128" else _INTO_OWN[targets], _COPY,
            ),
            _row(
                f"{_LOAD}.{dims}.shared::cta.global{mode}{_DONE}.{{cta_group::1,cta_group::2}}{_HINT}", _load, _LOAD,
                "8.6", _FAMILY, _COPY,
            ),
            _row(f"{_FETCH}.{dims}.L2.global{mode}{_HINT}", _prefetch, _FETCH, since, targets, _PREFETCH),
        )
    ),
    *(
        row
        for dims, mode, since, targets in (*_STORES, ("2d", ".tile::scatter4", "8.6", _FAMILY))
        for row in (
            _row(
                f"{_STORE}.{dims}.global.shared::cta{mode}.bulk_group{_HINT}", _store, _STORE,
                since, targets, _COPY, writes=True,
            ),
        )
    ),
    *(
        _row(
            f"cp.reduce.async.bulk.tensor.{dims}.global.shared::cta.{{{','.join(REDUCTIONS)}}}{mode}.bulk_group{_HINT}",
            _store, "cp.reduce.async.bulk.tensor", since, targets, _REDUCE, writes=True,
        )
        for dims, mode, since, targets in _STORES
    ),
)  # fmt: skip


def _map() -> Role:
    """The address of a map."""
    return Role("address", Shape.ADDRESS, widths=(32, 64), variables=True, special=True)


def _new_value(qualifiers: Qualifiers) -> tuple[Role, ...]:
    """The address of the map, for fields of a dimension which one, and the new value: of codes a constant."""
    field = qualifiers[1]
    address = _map()
    codes = {
        "elemtype": len(TYPES), "interleave_layout": 3, "swizzle_mode": len(SWIZZLES), "fill_mode": 2,
        "swizzle_atomicity": len(ATOMS),
    }  # fmt: skip
    if field in codes:
        newer = _NEWER_CODES.get(field, ())
        return address, Role("value", Shape.IMMEDIATE, constants=("integer",), limit=codes[field], newer=newer)
    if field not in ORDINALS:
        return address, typed_role("value", qualifiers[-1])
    value = typed_role("value", "b64" if field == "global_stride" else "u32")
    return address, Role("ordinal", Shape.IMMEDIATE, constants=("integer",), limit=ORDINALS[field]), value


_BLACKWELLS = "100a 100f 101a 101f 103a 103f 110a 110f 120a 120f 121a 121f"
_NEWER_CODES = {
    "elemtype": ((HOPPER_TYPES, Availability(_BLACKWELLS)),),
    "swizzle_mode": ((len(SWIZZLES) - 1, Availability("103a")),),
}
_TARGETS_OF_REPLACE = f"90a {_BLACKWELLS}"


def _replacement(fields: str, bits: int, since: str = "8.3", targets: str = _TARGETS_OF_REPLACE) -> Row:
    syntax = f"tensormap.replace.tile.{fields}{{.global,.shared::cta}}.b1024.b{bits}"
    row = instruction(
        syntax, _new_value, since=since, targets=targets, section=_REPLACE, time=Time.STORE_GLOBAL,
        name="tensormap.replace", any_order=True,
    )  # fmt: skip
    return replace(row, always=("shared::cta",))


def _copied_map(_: Qualifiers) -> tuple[Role, ...]:
    """Where a changed map goes to, where it lies, and its bytes."""
    size = Role("size", Shape.IMMEDIATE, constants=("integer",), choices=((BYTES,),))
    return replace(_map(), name="to"), replace(_map(), name="from"), size


MAP_ROWS: tuple[Row, ...] = (
    replace(
    instruction(
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.{cta,cluster,gpu,sys}.sync.aligned",
        _copied_map, since="8.3", targets="90+", section="9.7.13.16", time=Time.STORE_GLOBAL,
        name="tensormap.cp_fenceproxy", any_order=True,
    ), sequence=(0, 1)),
    _replacement("{global_address,global_stride}", 64),
    _replacement(
        "{rank,box_dim,global_dim,element_stride,elemtype,interleave_layout,swizzle_mode,fill_mode}", 32
    ),
    _replacement("swizzle_atomicity", 32, "8.6", _BLACKWELLS),
    instruction(
        "prefetch{.const,.param}.tensormap", lambda _: (_map(),), since="8.0", targets="90+", section="9.7.9.16",
        time=Time.STORE_GLOBAL, name="prefetch", any_order=True,
    ),
)  # fmt: skip
