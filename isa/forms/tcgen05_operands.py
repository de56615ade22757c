"""Reading `tcgen05`, `mbarrier` and `fence`: the parts of an opcode, and operands by the width of their registers, as
ptxas checks them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NoReturn

from isa.errors import IsaError
from isa.forms.record import Role, Shape
from isa.ptx.instruction import Address, Immediate, Operand, Predicate, Register, Sink, Vector, nvcc_name


class OpcodeText:
    """An opcode split at its dots: its name, its qualifiers, the place of each; errors that point there."""

    def __init__(self, opcode: str, start: int, text: str, known: Iterable[str]) -> None:
        self.opcode, self.start, self.text = opcode, start, text
        parts = opcode.split(".")
        names = [name for name in known if parts[: name.count(".") + 1] == name.split(".")]
        self.name = max(names, key=len, default="")
        first = self.name.count(".") + 1 if self.name else 1
        self.problems: list[IsaError] = []
        self.qualifiers = parts[first:]
        self.places = [start + sum(len(part) + 1 for part in parts[:i]) for i in range(first, len(parts))]

    def note(self, qualifier: str | None, reason: str, legal: str | Iterable[str] = "") -> None:
        """Something is wrong at the last place of that qualifier (None: at the start)."""
        found = [place for place, q in zip(self.places, self.qualifiers, strict=True) if q == qualifier]
        self.problems.append(
            IsaError(
                self.text,
                found[-1] if found else self.start,
                reason,
                legal if isinstance(legal, str) else ", ".join(legal),
            )
        )

    def settle(self) -> None:
        """IsaError with everything that was noted, if anything was."""
        if self.problems:
            raise IsaError.together(self.problems)

    def fail(self, qualifier: str | None, reason: str, legal: str | Iterable[str] = "") -> NoReturn:
        """IsaError with this and what was noted before."""
        self.note(qualifier, reason, legal)
        raise IsaError.together(self.problems)


@dataclass(frozen=True)
class SizedRole(Role):
    """An operand of a form whose registers have a width.

    Attributes:
        bits: widths that a register may have; 1 is a predicate. Names that nvcc gives (%p, %rs, %r, %f, %rd, %fd) are
            held to it.
        floats: whether %f registers serve.
        sink: whether `_` may ("may") or must ("must") stand here.
        values: the constants that are legal (empty: any).
        positive: whether a constant must be greater than 0.
        variables: whether an address may name a variable, and not only a register.
    """

    bits: tuple[int, ...] = (32,)
    floats: bool = False
    sink: str = ""
    values: tuple[int, ...] = ()
    positive: bool = False
    variables: bool = False


def tmem(name: str, output: bool = False) -> SizedRole:
    """An address in Tensor Memory: `[%r0+4]`."""
    return SizedRole(name, Shape.ADDRESS, output=output)


def word(
    name: str, *, bits: int = 32, optional: bool = False, limit: int = 0, multiple: int = 1, positive: bool = False
) -> SizedRole:
    """A register or an integer constant."""
    return SizedRole(
        name,
        Shape.VALUE,
        optional=optional,
        limit=limit,
        constants=("integer",),
        multiple=multiple,
        bits=(bits,),
        positive=positive,
    )


_NAMES_OF_WIDTH = {
    1: "predicate, %p0",
    16: "16-bit register, %rs0",
    32: "32-bit register, %r0",
    64: "64-bit register, %rd0",
}
_SPECIAL = re.compile(
    r"%(?:laneid|n?warpid|n?smid|gridid|clock(?:_hi|64)?|lanemask_\w+|pm\d+|envreg\d+|globaltimer\w*|\w*_smem_\w+|(?:n?tid|n?(?:cluster_?)?ctaid)"
    r"(?:\.[xyz])?|n?clusterid\.[xyz]|cluster_n?ctarank|is_explicit_cluster)"
)
_SPECIAL_WIDE = ("%clock64", "%globaltimer", "%gridid")


def check_operand(role: Role, operand: Operand, text: str, start: int) -> None:
    """IsaError if a register is not as wide as the operand, or a constant not among its values. `start`: place of the
    operand in `text`."""
    if not isinstance(role, SizedRole):
        return
    match operand:
        case Register(name):
            _check_register(role, name, text, start)
            if role.sink == "must":
                raise IsaError(text, start, f"the barrier of another CTA returns no {role.name}", "_")
        case Predicate(register, _):
            _check_register(role, register.name, text, start)
        case Address(base, _):
            if base is not None and base.name.startswith("%"):
                _check_register(
                    replace(role, bits=(32,)) if role.shape is Shape.MATRIX else role, base.name, text, start
                )
        case Vector(elements):
            for element in elements:
                if isinstance(element, Register):
                    _check_register(role, element.name, text, start)
                elif isinstance(element, Sink):
                    raise IsaError(text, start, f"operand {role.name} keeps every register", "no '_'")
            _check_mixture(role, operand, text, start)
        case Immediate(value, _):
            if role.values and value not in role.values:
                raise IsaError(text, start, f"operand {role.name} is {value}", ", ".join(map(str, role.values)))
            if role.positive and value <= 0:
                raise IsaError(text, start, f"operand {role.name} is {value}", "1 or more")


def _check_register(role: SizedRole, name: str, text: str, start: int) -> None:
    place = max(text.find(name, start), start)
    legal = " or ".join(_NAMES_OF_WIDTH[bits] for bits in role.bits)
    said = nvcc_name(name)
    if said is not None and said.width not in role.bits:
        raise IsaError(text, place, f"operand {role.name} cannot be {name}, {said}", legal)
    if said is not None and said.prefix in ("f", "fd") and not role.floats:
        raise IsaError(text, place, f"operand {role.name} cannot be {name}, a register of type f{said.width}", legal)
    if _SPECIAL.fullmatch(name) and (not role.special or name in _SPECIAL_WIDE):
        raise IsaError(
            text,
            place,
            f"operand {role.name} cannot be the special register {name}",
            f"{legal}; mov copies special registers",
        )


def _check_mixture(role: SizedRole, vector: Vector, text: str, start: int) -> None:
    """A vector holds integers or floats; constants take their type from the registers beside them. ptxas 13.0, stated
    nowhere."""
    constants = [e for e in vector.elements if isinstance(e, Immediate)]
    if not constants:
        return
    floats = sum(constant.style == "float" for constant in constants)
    if floats not in (0, len(constants)) or (not floats and len(constants) == len(vector.elements)):
        reason = f"the constants in operand {role.name} leave its type open"
        raise IsaError(text, start, reason, "a register among integers, and no 0f00000000 beside an integer")
    for before, after in zip(vector.elements, vector.elements[1:], strict=False):
        if (
            isinstance(before, Register)
            and re.fullmatch(r"%f\d+", before.name)
            and isinstance(after, Immediate)
            and not floats
        ):
            reason = f"operand {role.name} has the integer {after} behind {before}, which is f32"
            raise IsaError(text, start, reason, "0f00000000, or an integer register")
