"""The table of `multimem`: loads, stores and reductions by an address that stands for the same place in the memories of
several GPUs.

They are decoded and judged, and not executed: a simulated device is alone. Numbers of sections are those of PTX ISA
9.0. Where ptxas 13.0 takes more than the text says (or less), the rows follow ptxas.
"""

from __future__ import annotations

from collections.abc import Iterator

from isa.forms.record import Access, Role, Shape, Space, Time
from isa.forms.rows import Qualifiers, Row, instruction, stored_constants, type_bits

_SECTIONS = {"multimem.ld_reduce": "9.7.9.14.1", "multimem.st": "9.7.9.14.2", "multimem.red": "9.7.9.14.3"}
_SCOPE = ".{cta,cluster,gpu,sys}"
_FP8_TARGETS = "100a 100f 101a 101f 103a 103f 110a 110f 120a 121a"


def _count(qualifiers: Qualifiers) -> int:
    return next((int(q[1:]) for q in qualifiers if q in ("v2", "v4", "v8")), 1)


def _words(name: str, qualifiers: Qualifiers, reduces: bool = False) -> Role:
    """The registers, one or a vector, just as wide as the type. A reduction takes no constant for one pair of bf16, a
    store an integer: as ptxas 13.0 has it."""
    count, output, bits = _count(qualifiers), name == "d", type_bits(qualifiers[-1])
    kind = qualifiers[-1] if qualifiers[-1][0] in "bsuf" and "bf16" not in qualifiers[-1] else f"b{bits}"
    refused = output or (reduces and count == 1 and kind != qualifiers[-1])
    return Role(
        name, Shape.SCALAR if count == 1 else Shape.VECTOR, count, output=output,
        constants=() if refused else stored_constants((*qualifiers[:-1], kind)), width=max(bits, 16), widths=(bits,),
        type=kind,
        sink="part" if output and count > 1 else "",
    )  # fmt: skip


def _address(widths: tuple[int, ...] = (16, 64), special: bool = False) -> Role:
    return Role("address", Shape.ADDRESS, widths=widths, variables=True, special=special)


def _load(qualifiers: Qualifiers) -> tuple[Role, ...]:
    return _words("d", qualifiers), _address(special=True)


def _store(qualifiers: Qualifiers) -> tuple[Role, ...]:
    return _address(), _words("a", qualifiers)


def _reduce(qualifiers: Qualifiers) -> tuple[Role, ...]:
    return _address((64,)), _words("a", qualifiers, reduces=True)


def _access(qualifiers: Qualifiers) -> Access:
    size = type_bits(qualifiers[-1]) // 8 * _count(qualifiers)
    return Access(Space.GLOBAL, size, write=True, row_bytes=size)


_OPERATIONS = (
    ".add.{u32,s32,u64,f64}", ".add{.v2,.v4}.f32", ".{min,max}.{u32,s32,u64,s64}", ".{and,or,xor}.{b32,b64}"
)  # fmt: skip
_HALVES, _PAIRS = "{f16,bf16}", "{f16x2,bf16x2}"
_FP8 = (".{v4,v8}.{e5m2,e4m3}", ".{v2,v4,v8}.{e5m2x2,e4m3x2}", "{.v2,.v4}.{e5m2x4,e4m3x4}")
_LOADED = (
    *_OPERATIONS, f".{{min,max}}.{{v2,v4,v8}}.{_HALVES}", f".{{min,max}}{{.v2,.v4}}.{_PAIRS}",
    f".add{{.acc::f32}}.{{v2,v4,v8}}.{_HALVES}", f".add{{.acc::f32}}{{.v2,.v4}}.{_PAIRS}",
)  # fmt: skip
_REDUCED = (
    *_OPERATIONS, f".{{add,min,max}}.{{v2,v4,v8}}.{_HALVES}", f".add{{.v2,.v4}}.{_PAIRS}",
    f".{{min,max}}.{{v2,v4}}.{_PAIRS}",
)  # fmt: skip
_STORED = (".{b32,b64,u32,s32,u64,s64,f64}", "{.v2,.v4}.f32", f".{{v2,v4,v8}}.{_HALVES}", f"{{.v2,.v4}}.{_PAIRS}")


def _rows(name: str, orders: tuple[str, ...], data: tuple[str, ...], fp8: tuple[str, ...]) -> Iterator[Row]:
    """The rows of one of the three, with each memory order that it takes."""
    loads = name == "multimem.ld_reduce"
    roles = {"multimem.ld_reduce": _load, "multimem.st": _store, "multimem.red": _reduce}[name]
    kinds = [(each, "8.1", "90+") for each in data] + [(each, "8.6", _FP8_TARGETS) for each in fp8]
    for order in orders:
        for each, since, targets in kinds:
            yield instruction(
                f"{name}{order}{{.global}}{each}", roles, since=since, targets=targets,
                section=_SECTIONS[name], name=name, any_order=True, access=_access,
                time=Time.LOAD_GLOBAL if loads else Time.STORE_GLOBAL,
            )  # fmt: skip


MULTIMEM_ROWS: tuple[Row, ...] = (
    *_rows(
        "multimem.ld_reduce", ("{.weak}", f".{{relaxed,acquire}}{_SCOPE}"), _LOADED,
        (*(f".{{min,max}}{kinds}" for kinds in _FP8), *(f".add{{.acc::f16}}{kinds}" for kinds in _FP8)),
    ),
    *_rows("multimem.st", ("{.weak}", f".{{relaxed,release}}{_SCOPE}"), _STORED, _FP8),
    *_rows("multimem.red", ("", f".{{relaxed,release}}{_SCOPE}"), _REDUCED, ()),
)  # fmt: skip
