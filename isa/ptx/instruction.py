"""A decoded instruction: its form and its operands. `str()` prints it as canonical PTX."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from isa.errors import IsaError
from isa.forms.record import Form


@dataclass(frozen=True, slots=True)
class Register:
    """A register by its name, e.g. `%r12`, or a special register such as `%laneid`."""

    name: str

    def __str__(self) -> str:
        return self.name


_PREFIXES = {"p": "pred", "rs": "b16", "h": "b16", "r": "b32", "f": "f32", "rd": "b64", "fd": "f64", "rq": "b128"}
_NVCC = re.compile(r"%(p|rs|h|r|f|rd|fd|rq)\d+")
_WIDTHS = {"pred": 1, "f16x2": 32, "bf16x2": 32, "f32x2": 64, "bf16": 16, "tf32": 32}


class Declared(NamedTuple):
    """What is known of a register: the type that it is declared with, such as "b32", "f32" or "pred"."""

    type: str

    @property
    def width(self) -> int:
        """Bits of the register; 1 for a predicate."""
        return _WIDTHS.get(self.type) or int(self.type[1:])

    def __str__(self) -> str:
        return "a predicate" if self.type == "pred" else f"a {self.width}-bit register"


Types = Mapping[str, str]
"""By name of a register, the type that a function declares it with."""


def declared(name: str, types: Types | None = None) -> Declared | None:
    """The sort of a register: as the function declares it, or else by the habits of nvcc, which calls registers %p0,
    %rs0, %h0, %r0, %f0, %rd0, %fd0 and %rq0; None for other names."""
    if types is not None and name in types:
        return Declared(types[name])
    match = _NVCC.fullmatch(name)
    return Declared(_PREFIXES[match[1]]) if match else None


@dataclass(frozen=True, slots=True)
class Sink:
    """The operand `_`: a destination whose value is thrown away."""

    def __str__(self) -> str:
        return "_"


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant.

    Attributes:
        value: an integer; of a float the 32 bits of its f32 pattern, or the 64 of its f64 pattern.
        style: how it is printed: "decimal", "hexadecimal", "float" (0f3F800000) or "double" (0d3FF0000000000000).
    """

    value: int
    style: str = "decimal"

    def __str__(self) -> str:
        if self.style == "float":
            return f"0f{self.value:08X}"
        if self.style == "double":
            return f"0d{self.value:016X}"
        return hex(self.value) if self.style == "hexadecimal" else str(self.value)


Scalar = Register | Sink | Immediate


@dataclass(frozen=True, slots=True)
class Vector:
    """`{%r0, %r1}`; a single scalar where the form has one register."""

    elements: tuple[Scalar, ...]

    def __str__(self) -> str:
        return "{" + ", ".join(map(str, self.elements)) + "}"


@dataclass(frozen=True, slots=True)
class Pair(Vector):
    """`%r0|%p0`: two destinations of one instruction."""

    def __str__(self) -> str:
        return "|".join(map(str, self.elements))


@dataclass(frozen=True, slots=True)
class Address:
    """`[base + offset]`, or `[offset]` without a base; offset in bytes."""

    base: Register | None
    offset: int = 0

    def __str__(self) -> str:
        if self.base is None:
            return f"[{self.offset}]"
        return f"[{self.base}]" if self.offset == 0 else f"[{self.base}+{self.offset}]"


@dataclass(frozen=True, slots=True)
class OwnAddress(Address):
    """The address of a variable in shared memory, linked: an offset in that of the thread's own CTA."""


@dataclass(frozen=True, slots=True)
class OwnOffset(Immediate):
    """The same as a value: what `mov.u32 %r0, variable` gives."""


@dataclass(frozen=True, slots=True)
class TensorPlace:
    """`[base + offset, {%r0, %r1}]`: the address of a tensor map, and a place in its tensor, dimension 0 first."""

    map: Address
    coordinates: Vector

    def __str__(self) -> str:
        return f"{str(self.map)[:-1]}, {self.coordinates}]"


@dataclass(frozen=True, slots=True)
class Predicate:
    """`%p0` or `!%p0`, read as an operand."""

    register: Register
    negated: bool = False

    def __str__(self) -> str:
        return f"{'!' if self.negated else ''}{self.register}"


Operand = Register | Sink | Immediate | Vector | Address | TensorPlace | Predicate


@dataclass(frozen=True, slots=True)
class Guard:
    """`@%p0` or `@!%p0`: the predicate that guards an instruction."""

    predicate: Register
    negated: bool = False

    def __str__(self) -> str:
        return f"@{'!' if self.negated else ''}{self.predicate}"


@dataclass(frozen=True)
class Instruction:
    """One legal instruction.

    Attributes:
        form: the row of the table that it matches.
        operands: as written, one for each role of the form (fewer where the last roles are optional).
        guard: its predicate, if any.
        remarks: what ptxas took although PTX does not say so, and what was dropped.
    """

    form: Form
    operands: tuple[Operand, ...]
    guard: Guard | None = None
    remarks: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        guard = f"{self.guard} " if self.guard else ""
        return f"{guard}{' '.join((self.form.opcode, ', '.join(map(str, self.operands)))).rstrip()};"

    def __getitem__(self, role: str) -> Operand:
        """The operand of that role, e.g. `ins["a"]`; KeyError if the form has none or it was left out."""
        return self.by_role[role]

    @cached_property
    def by_role(self) -> dict[str, Operand]:
        """Each operand by the name of its role; without those that were left out."""
        return {role.name: operand for role, operand in zip(self.form.roles, self.operands, strict=False)}

    @cached_property
    def reads(self) -> tuple[str, ...]:
        """Names of the registers that are read, in order, address bases included."""
        names: list[str] = []
        for role, operand in zip(self.form.roles, self.operands, strict=False):
            if not role.output or isinstance(operand, Address):
                names += register_names(operand)
        return tuple(names)

    @cached_property
    def writes(self) -> tuple[str, ...]:
        """Names of the registers that are written, in order."""
        names: list[str] = []
        for role, operand in zip(self.form.roles, self.operands, strict=False):
            if role.output:
                names += register_names(operand)
        return tuple(names)

    @cached_property
    def added(self) -> tuple[str, ...]:
        """Names of the registers that are read because the result is added to them: D of wgmma, unless scale-d is 0."""
        scale = self.by_role.get("scale_d")
        if isinstance(scale, Immediate) and not scale.value:
            return ()
        pairs = zip(self.form.roles, self.operands, strict=False)
        return tuple(name for role, operand in pairs if role.added for name in register_names(operand))

    @property
    def selector(self) -> int:
        """The sparsity selector of an `mma.sp`; IsaError for an instruction that has none as an operand."""
        operand = self.by_role.get("f")
        if not isinstance(operand, Immediate):
            legal = "mma.sp (tcgen05.mma.sp has it in its instruction descriptor)"
            raise IsaError(str(self), 0, f"{self.form.name} has no selector as an operand", legal)
        return operand.value

    @property
    def undefined(self) -> tuple[str, ...]:
        """Names of the undefined cases (`isa.undefined.RULES`) that the text alone shows."""
        for role, operand in zip(self.form.roles, self.operands, strict=False):
            if role.lax and isinstance(operand, Immediate) and operand.value >= role.limit - role.lax:
                return ("selector-out-of-range",)
        return ()


def register_names(operand: Operand) -> list[str]:
    """Names of the registers in an operand, in order."""
    match operand:
        case Register(name):
            return [name]
        case Vector(elements):
            return [element.name for element in elements if isinstance(element, Register)]
        case Address(base, _):
            return [base.name] if base else []
        case TensorPlace(tensor, coordinates):
            return register_names(tensor) + register_names(coordinates)
        case Predicate(register, _):
            return [register.name]
        case _:
            return []
