"""The table of loads and stores as kernels have them: every space, every width, and what a program may say about caches
and the order of memory.

Which of these go together, on which targets, is as ptxas 13.0 has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from isa.forms.record import Access, Role, Shape, Space, Time
from isa.forms.rows import (
    Qualifiers,
    Row,
    address_widths,
    instruction,
    policy,
    stored_constants,
    type_bits,
)  # fmt: skip

SPACES = ("global", "shared", "shared::cta", "shared::cluster", "local", "const", "param")
_LOAD, _STORE = "9.7.9.8", "9.7.9.11"

# Vectors and types that go together; the last two are of 256 bits and in global memory alone
_TYPES_32, _TYPES_64 = "b32,u32,s32,f32", "b64,u64,s64,f64"
_NARROW = f"{_TYPES_32},b16,u16,s16,b8,u8,s8"
_DATA = (f"{{.v2,.v4}}.{{{_NARROW}}}", f"{{.v2}}.{{{_TYPES_64}}}", ".b128")
_SINGLE = (f".{{{_NARROW},{_TYPES_64},b128}}",)
_256_BITS = (f".v8.{{{_TYPES_32}}}", f".v4.{{{_TYPES_64}}}")

_SHARED = ".{shared,shared::cta,shared::cluster}"
_SCOPE = ".{cta,cluster,gpu,sys}"
_L1 = ".{L1::evict_normal,L1::evict_unchanged,L1::evict_first,L1::evict_last,L1::no_allocate}"
_L2 = "{.L2::evict_normal,.L2::evict_first,.L2::evict_last}"
_HINT = "{.L2::cache_hint}"
_PREFETCH = "{.L2::64B,.L2::128B,.L2::256B}"


def _words(name: str, qualifiers: Qualifiers, constants: tuple[str, ...] = ()) -> Role:
    """The registers of a load or store in a kernel, which may be wider than the type. PTX ISA 9.0, 9.4.1."""
    count = next((int(q[1:]) for q in qualifiers if q in ("v2", "v4", "v8")), 1)
    bits = type_bits(qualifiers[-1])
    widths = tuple(width for width in (16, 32, 64, 128) if width >= bits and (width < 128 or count < 8))
    shape = Shape.SCALAR if count == 1 else Shape.VECTOR
    sink = "part" if count > 1 and (name == "d" or count * bits == 256) else ""
    return Role(
        name, shape, count, output=name == "d", constants=constants, width=max(bits, 16), widths=widths,
        type=qualifiers[-1], sink=sink,
    )  # fmt: skip


def _anywhere(qualifiers: Qualifiers) -> Role:
    """The address of a kernel's load or store: a variable, or a register with an offset."""
    count = next((int(q[1:]) for q in qualifiers if q in ("v4", "v8")), 1)
    special = count * type_bits(qualifiers[-1]) == 256 and "global" not in qualifiers  # ptxas 13.0 crashes elsewhere
    return Role("address", Shape.ADDRESS, widths=address_widths(qualifiers), variables=True, special=special)


def _load(qualifiers: Qualifiers) -> tuple[Role, ...]:
    return _words("d", qualifiers), _anywhere(qualifiers), *policy(qualifiers)


def _store(qualifiers: Qualifiers) -> tuple[Role, ...]:
    return _anywhere(qualifiers), _words("a", qualifiers, stored_constants(qualifiers)), *policy(qualifiers)


def _access(write: bool) -> Callable[[Qualifiers], Access]:
    """What a load or store does to memory: `space` is that whose port it takes, shared memory or the way to the
    caches."""

    def access(qualifiers: Qualifiers) -> Access:
        size = type_bits(qualifiers[-1]) // 8 * _words("d", qualifiers).count
        space = Space.SHARED if any(q.startswith("shared") for q in qualifiers) else Space.GLOBAL
        return Access(space, size, write=write, row_bytes=size)

    return access


def _rows(syntax: str, data: tuple[str, ...] = _DATA, since: str = "1.0", targets: str = "70+") -> Iterator[Row]:
    """The rows of a load or store with each of these vectors and types."""
    load, shared = syntax.startswith("ld"), _SHARED in syntax
    times = (Time.LOAD, Time.LOAD_GLOBAL) if load else (Time.STORE, Time.STORE_GLOBAL)
    for words in data:
        yield instruction(
            f"{syntax}{words}", _load if load else _store, since=since, targets=targets,
            section=_LOAD if load else _STORE, any_order=True, access=_access(not load),
            time=times[0] if shared else times[1],
        )  # fmt: skip


def _family(name: str, caches: str, others: str, order: str, prefetch: str) -> Iterator[Row]:
    """The rows of `ld` or `st`: their cache operations, the spaces besides global and shared memory, the memory order
    that they may name, and whether they may prefetch into L2."""
    yield from _rows(f"{name}{{.weak}}{{.global}}{caches}{_HINT}{prefetch}")
    yield from _rows(f"{name}{{.weak}}.{{{others}}}{caches}")
    yield from _rows(f"{name}{{.weak}}{_SHARED}{caches}")
    yield from _rows(f"{name}{{.weak}}{{.global}}{_L1}{_HINT}{prefetch}", since="7.4")
    yield from _rows(f"{name}.volatile{{.global}}{prefetch}", since="1.1")
    yield from _rows(f"{name}.volatile{_SHARED}", since="1.1")
    yield from _rows(f"{name}{order}{_SCOPE}{{.global}}{_HINT}{prefetch}", since="6.0")
    yield from _rows(f"{name}{order}{_SCOPE}{{.global}}{_L1}{_HINT}{prefetch}", since="7.4")
    yield from _rows(f"{name}{order}{_SCOPE}{_SHARED}", since="6.0")
    yield from _rows(f"{name}.mmio.relaxed.sys{{.global}}", _SINGLE, "8.2")
    ordered = f"{order}{_SCOPE}{{.global}}"
    for syntax in (f"{{.weak}}{{.global}}{caches}", f"{{.weak}}{{.global}}{_L1}", ordered, f"{ordered}{_L1}"):
        yield from _rows(f"{name}{syntax}{_L2}{_HINT}{prefetch}", _256_BITS, "8.8", "100+")
    yield from _rows(f"{name}.volatile{{.global}}", _256_BITS, "8.8", "100+")


THREAD_ROWS: tuple[Row, ...] = (
    *_family(
        "ld", "{.ca,.cg,.cs,.lu,.cv}", "local,const,param,param::entry,param::func", ".{relaxed,acquire}", _PREFETCH
    ),
    *_rows(f"ld.global{{.ca,.cg,.cs}}.nc{_HINT}{_PREFETCH}", since="3.1"),
    *_rows(f"ld.global.nc{_L1}{_HINT}{_PREFETCH}", since="7.4"),
    *_rows(f"ld.global{{.ca,.cg,.cs}}.nc{_L2}{_HINT}{_PREFETCH}", _256_BITS, "8.8", "100+"),
    *_rows(f"ld.global.nc{_L1}{_L2}{_HINT}{_PREFETCH}", _256_BITS, "8.8", "100+"),
    *_rows("ldu{.global}", since="2.0"),
    *_family("st", "{.wb,.cg,.cs,.wt}", "local,param,param::func", ".{relaxed,release}", ""),
)
