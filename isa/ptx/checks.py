"""Checks that the registers and constants of an operand have the width and the type that the operand needs, by the
rules of ptxas."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

from isa.errors import IsaError
from isa.forms.record import Role, Shape
from isa.forms.rows import type_bits
from isa.ptx.instruction import (
    Address,
    Declared,
    Immediate,
    Operand,
    Pair,
    Predicate,
    Register,
    Scalar,
    Sink,
    TensorPlace,
    Types,
    Vector,
    declared,
)
from isa.targets import Target

_REGISTERS_OF_WIDTH = {
    1: "predicate, %p0",
    8: "register declared with .b8",
    16: "16-bit register, %rs0",
    32: "32-bit register, %r0",
    64: "64-bit register, %rd0",
    128: "register declared with .b128",
}
_SPECIAL = re.compile(
    r"%(?:laneid|n?warpid|n?smid|gridid|clock(?:_hi|64)?|lanemask_\w+|pm[0-7]|envreg(?:[12]?\d|3[01])|globaltimer(?:_lo|_hi)?|(?:aggr|total|dynamic)_smem_size|reserved_smem_offset_(?:begin|end|cap|[01])|(?:n?tid|(?:cluster_)?n?ctaid)"
    r"(?:\.[xyz])?|n?clusterid\.[xyz]|cluster_n?ctarank|is_explicit_cluster)"
)
_BYTES = ("b8", "u8", "s8")
_F32 = Declared("f32")
_SPECIAL_WIDTHS = {"%clock64": (64,), "%globaltimer": (64,), "%gridid": (16, 32, 64), "%is_explicit_cluster": (1,)}
_OF_VECTORS = re.compile(r"%n?(?:tid|ctaid)\.[xyz]")
_VECTORS = re.compile(r"%(?:n?tid|(?:cluster_)?n?ctaid)(?:\.[xyz])?|%n?clusterid\.[xyz]")


_OF_CLUSTERS = re.compile(r"%(?:cluster_\w+(?:\.[xyz])?|n?clusterid\.[xyz]|is_explicit_cluster|aggr_smem_size)")
_FIRST_WITH_CLUSTERS = 90


def check_on_target(
    role: Role, operand: Operand, target: Target | None, text: str, start: int, types: Types | None
) -> None:
    """Raises IsaError if a target lacks a special register (PTX ISA 9.0, section 10), or an address of 16 bits."""
    if target is None:
        return
    late = role.wide_from and target.number >= role.wide_from
    if late and role.bare and isinstance(operand, Address) and operand.base is None:
        raise IsaError(text, start, f"a float for the address in operand {role.name} on {target}", "[%rd0]")
    if late and isinstance(operand, Address) and operand.base is not None:
        base = declared(operand.base.name, types)
        narrow = base is not None and base.width <= (32 if role.width == 64 else 16)
        if narrow or is_special(operand.base.name):
            raise IsaError(text, start, f"an address of 16 bits in operand {role.name} on {target}", "[%rd0]")
    if not isinstance(operand, Register) or target.number >= _FIRST_WITH_CLUSTERS:
        return
    if _OF_CLUSTERS.fullmatch(operand.name):
        reason = f"the special register {operand.name} is not available on {target}"
        raise IsaError(text, start, reason, f"sm_{_FIRST_WITH_CLUSTERS} or higher")


def special_widths(name: str) -> tuple[int, ...]:
    """The widths of the operands that take a special register: its own, and 16 for %tid and its like, which had 16 bits
    before PTX 2.0. PTX ISA 9.0, section 10; ptxas 13.0."""
    return _SPECIAL_WIDTHS.get(name, (16, 32) if _OF_VECTORS.fullmatch(name) else (32,))


def is_special(name: str) -> bool:
    """Whether this is the name of a special register. PTX ISA 9.0, section 10."""
    return _SPECIAL.fullmatch(name) is not None


def _is_whole(name: str) -> bool:
    """Whether a special register is one number, which ptxas 13.0 takes as an address in some instructions: no vector
    such as %tid, no part of one, no predicate."""
    return not _VECTORS.fullmatch(name) and 1 not in special_widths(name)


def serves(kind: str, register: str) -> bool:
    """Whether a register declared with a type may hold an operand of type `kind` ("": an integer), where their widths
    fit. PTX ISA 9.0, 9.4; ptxas 13.0."""
    if register[0] == "b" or register in ("pred", kind):
        return True
    if kind[:1] == "b" and kind[1:].isdigit():
        return True
    if register == "f16x2":
        return kind[:1] in ("u", "s")
    return register[0] in "us" and (not kind or (kind[0] in "us" and kind[1:].isdigit()))


def _untyped(
    role: Role, elements: tuple[Scalar, ...], widths: tuple[int, ...], types: Types | None
) -> tuple[Role, tuple[int, ...]]:
    """The role of the registers of a vector and their widths. A vector with a register of type b32 or its like has no
    type, and one that begins with an integer constant has no width. ptxas 13.0, stated nowhere."""
    if not role.widths or len(elements) < 2:
        return role, widths
    first, *others = elements
    registers = [declared(element.name, types) for element in others if isinstance(element, Register)]
    if isinstance(first, Immediate) and first.style not in _FLOATS and registers and role.type[:1] in ("b", "u", "s"):
        role, widths = replace(role, widths=_ANY_WIDTH), _ANY_WIDTH
    elif isinstance(first, Register):
        registers.append(declared(first.name, types))
    bits = f"b{type_bits(role.type)}" if role.type else "b32"
    return (replace(role, type=bits) if any(map(_typeless, registers)) else role), widths


def _typeless(said: Declared | None) -> bool:
    """Whether a register has a type of bits, which serves for any type of its width."""
    return said is None or (said.type[0] == "b" and said.type[1:].isdigit())


_FLOATS = ("float", "double")
_ANY_WIDTH = (8, 16, 32, 64, 128)


def _of_vector(role: Role, element: Scalar, types: Types | None) -> Role:
    """The role of one register of a vector: for one of floats ptxas 13.0 takes an integer as wide, too."""
    said = declared(element.name, types) if isinstance(element, Register) else None
    floats = ("f32", "f64", "f16", "bf16", "f16x2", "bf16x2")
    if said is not None and said.type[0] in "us" and role.type in floats and said.width == type_bits(role.type):
        return replace(role, type="")
    return role


def check_operand(role: Role, operand: Operand, text: str, start: int, types: Types | None = None) -> None:
    """Raises IsaError if a register is not as wide as the operand or of another type, judged by its declaration in
    `types`, or by the names that nvcc gives. `start` is the position of the operand in `text`."""
    widths = role.widths or ((role.width,) if role.width != 32 else ())
    match operand:
        case Pair((register, predicate)):
            _check_scalar(role, register, (role.width if role.width == 1 else 32,), text, start, types)
            _check_scalar(role, predicate, (1,), text, start, types)
        case Vector((first, *others)) if role.first:
            loose = any(isinstance(element, Immediate) for element in others)  # makes the vector one of no type
            _check_scalar(replace(role, type="b32") if loose else role, first, widths, text, start, types)
        case Vector(elements) if role.vector_type:
            kind = "u32" if role.shape is Shape.TENSOR and len(elements) == 1 else "b32"
            for element in elements:
                if isinstance(element, Sink):
                    raise IsaError(text, start, f"operand {role.name} keeps every register", "no '_'")
                _check_scalar(replace(role, type=kind, widths=(32,)), element, (32,), text, start, types)
            if role.shape is not Shape.TENSOR or len(elements) > 1:
                _check_vector_type(role, operand, text, start, types)
        case Vector(elements):
            role, widths = _untyped(role, elements, widths, types)
            for element in elements:
                if role.widths and isinstance(element, Sink) and not role.sink:
                    raise IsaError(text, start, f"operand {role.name} keeps every register", "no '_'")
                packed = (max(role.width // len(elements), 16),) if role.packs and widths != _ANY_WIDTH else widths
                _check_scalar(_of_vector(role, element, types), element, packed, text, start, types)
            if role.widths and widths != _ANY_WIDTH:
                _check_widths(role, operand, text, start, types)
            if role.widths:
                _check_mixture(role, operand, text, start, types)
            elif "integer" in role.constants and not role.choices:
                _check_fragment(role, operand, text, start, types)
        case Register():
            widths = (1, *widths) if role.predicates and role.output else widths
            _check_scalar(role, operand, widths, text, start, types)
            if role.sink == "must":
                raise IsaError(text, start, f"the barrier of another CTA returns no {role.name}", "_")
        case Predicate(register, _):
            _check_scalar(role, register, (1,) if role.predicates else widths, text, start, types)
        case TensorPlace(_, coordinates):
            check_operand(replace(role, widths=(32,), type="b32"), coordinates, text, start, types)
        case Address(base, _) if base is not None and role.special and is_special(base.name):
            if not _is_whole(base.name):
                raise IsaError(text, start, f"operand {role.name} cannot be [{base}]", "a register, or %laneid")
        case Address(base, _) if base is not None and (role.widths or role.width != 32) and base.name.startswith("%"):
            _check_scalar(role, base, (32,) if role.shape is Shape.MATRIX else widths, text, start, types)


def _check_scalar(
    role: Role, scalar: Scalar, widths: tuple[int, ...], text: str, start: int, types: Types | None
) -> None:
    """Checks that a register has one of these widths; an empty list allows any width."""
    if not widths or not isinstance(scalar, Register):
        return
    name = scalar.name
    place = max(text.find(name, start), start)
    legal = " or ".join(_REGISTERS_OF_WIDTH[bits] for bits in widths)
    if 64 in widths and not role.widths:
        legal += " or %fd0"
    said = declared(name, types)
    byte = (
        said is not None and said.width == 8 and 16 in widths and (role.type in _BYTES or role.shape is Shape.ADDRESS)
    )
    if said is not None and said.width not in widths and not byte:
        raise IsaError(text, place, f"operand {role.name} cannot be {name}, {said}", legal)
    if not role.widths:
        return
    if said is not None and not serves(role.type, said.type):
        raise IsaError(text, place, f"operand {role.name} cannot be {name}, a register of type {said.type}", legal)
    if is_special(name) and not (role.special and set(widths) & set(special_widths(name))):
        reason = f"operand {role.name} cannot be the special register {name}"
        raise IsaError(text, place, reason, f"{legal}; mov copies special registers")


def _check_widths(role: Role, vector: Vector, text: str, start: int, types: Types | None) -> None:
    """All registers of a vector are equally wide, also where they may be wider than the type. ptxas 13.0."""
    said = [declared(element.name, types) for element in vector.elements if isinstance(element, Register)]
    widths = dict.fromkeys(name.width for name in said if name is not None)
    if len(widths) > 1:
        given = " and ".join(f"{width} bits" for width in widths)
        raise IsaError(text, start, f"operand {role.name} has registers of {given}", "registers of one width")


def _check_mixture(role: Role, vector: Vector, text: str, start: int, types: Types | None) -> None:
    """Elements of a vector that stand next to each other are both integers or both floats of one type; registers of
    type b32 and its like go with all. Constants alone are integers that leave the type open, unless the operand says
    it, as that of a load or store does. ptxas 13.0, stated nowhere."""
    constants = [e for e in vector.elements if isinstance(e, Immediate)]
    integers = not any(constant.style in _FLOATS for constant in constants)
    if len(constants) == len(vector.elements) and len(role.widths) == 1 and integers and not role.packs:
        reason = f"the constants in operand {role.name} leave its type open"
        raise IsaError(text, start, reason, "a register among integers")
    for before, after in pairwise(vector.elements):
        if not _together(_sort(before, types), _sort(after, types)):
            reason = f"operand {role.name} has {after} behind {before}: an integer beside a float, or unlike floats"
            raise IsaError(text, start, reason, "elements of one sort, or a register of type b32 between")


def _sort(element: Scalar, types: Types | None) -> str:
    """What an element of a vector is: "" (bits, which go with all), "integer", "float" (a constant) or a type."""
    if isinstance(element, Immediate):
        return "float" if element.style in _FLOATS else "integer"
    said = declared(element.name, types) if isinstance(element, Register) else None
    if said is None or _typeless(said):
        return ""
    return "integer" if said.type[0] in "us" else said.type


def _together(one: str, other: str) -> bool:
    """Whether two sorts of elements may stand next to each other in a vector."""
    return not one or not other or one == other or ("float" in (one, other) and "integer" not in (one, other))


def _check_alone(role: Role, vector: Vector, text: str, start: int) -> None:
    """Constants alone, which are not all written as 0f3F800000, leave the type of a fragment open."""
    constants = [element for element in vector.elements if isinstance(element, Immediate)]
    hexadecimal = len(re.findall(r"\b0[fF]", text[start : text.find("}", start)]))
    if len(constants) == len(vector.elements) and hexadecimal < len(constants):
        raise IsaError(
            text, start, f"the constants in operand {role.name} leave its type open", "a register among them"
        )


def _check_fragment(role: Role, vector: Vector, text: str, start: int, types: Types | None) -> None:
    """A fragment of a matrix takes its type from a register in it: constants alone must all be written as 0f3F800000,
    where the operand takes these, and beside a register of type f32 stands no integer. ptxas 13.0, stated nowhere."""
    constants = [element for element in vector.elements if isinstance(element, Immediate)]
    if not constants:
        return
    _check_alone(role, vector, text, start)
    integers = [constant for constant in constants if constant.style != "float"]
    floats = [e for e in vector.elements if isinstance(e, Register) and declared(e.name, types) == _F32]
    if integers and (floats or len(integers) < len(constants)):
        other = floats[0] if floats else "a floating-point constant"
        raise IsaError(
            text, start, f"operand {role.name} has the integer {integers[0]} beside {other}",
            "0f00000000, or an integer register",
        )  # fmt: skip


def _check_vector_type(role: Role, vector: Vector, text: str, start: int, types: Types | None) -> None:
    """A vector with a register of type b32, or with an integer constant, has no type and serves everywhere; any other
    has the type of its registers, which must be the operand's. Integer constants stand neither next to floats nor
    behind a float constant that comes first. ptxas 13.0, stated nowhere."""
    if role.shape is not Shape.TENSOR:
        _check_alone(role, vector, text, start)
    kinds = [_kind(element, types) for element in vector.elements]
    beside = any({before, after} == {"f32", "integer"} for before, after in pairwise(kinds))
    begins = kinds[0] == "f32" and isinstance(vector.elements[0], Immediate)
    if role.shape is Shape.TENSOR:  # of coordinates alone where it is written as 0f3F800000
        begins = begins and re.match(r"[^{]*\{\s*0[fF]", text[start:]) is not None
    if beside or (begins and "integer" in kinds):
        reason = f"operand {role.name} has an integer constant beside a float"
        raise IsaError(text, start, reason, "0f00000000, or a register of type b32 between")
    legal = {"u32", "s32"} if role.vector_type == "s32" else {role.vector_type}
    if not {"b32", "integer"} & set(kinds) and "b32" not in legal and not set(kinds) <= legal:
        given = " and ".join(sorted(set(kinds)))
        raise IsaError(text, start, f"operand {role.name} has registers of type {given}", f"%r0, or type {min(legal)}")


def _kind(element: Scalar, types: Types | None) -> str:
    """The type of an element of a vector: of a register the declared one (b32 where nobody knows), of constants f32 or
    integer."""
    if isinstance(element, Immediate):
        return "f32" if element.style == "float" else "integer"
    said = declared(element.name, types) if isinstance(element, Register) else None
    return "b32" if said is None else said.type
