"""The element types of matrices (f16, e4m3, s8, ...): how many bits an element has, and how they are to be read.

Registers, shared memory and files hold unsigned integers; an `ElementType` says what they mean. A pattern of a type is
always held in a uint32, lowest bits first, whatever the width of the type; of f64 alone in a uint64, like the 64-bit
registers that hold it.

Source: PTX ISA 9.0, section 5.2.3 (alternate floating-point formats) and 9.7.14.1 (matrix data
types).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from isa.arguments import text_of
from isa.errors import IsaError

if sys.byteorder != "little":
    raise ImportError("tcsim needs a processor that is little-endian, as GPUs are: words and bytes share arrays")

Bits = NDArray[np.uint32]
T = TypeVar("T", bound=np.generic)


class Kind(Enum):
    """What family of numbers a type holds."""

    FLOAT = "float"
    SIGNED = "signed integer"
    UNSIGNED = "unsigned integer"


@dataclass(frozen=True, slots=True)
class ElementType:
    """One type of matrix elements: its name, its width, and how its bits are to be read.

    Attributes:
        name: PTX's name without the dot.
        bits: width of the element in a register, padding included (tf32: 32).
        kind: float, signed or unsigned.
        exponent: exponent bits (floats).
        fraction: stored fraction bits (floats).
        padding: lowest bits of the element that hardware ignores (tf32: 13).
        infinity: whether the all-ones exponent with a zero fraction is infinity.
        finite_top: whether the all-ones exponent also holds finite values (e4m3: only S.1111.111 is NaN).
        nan: whether the type has NaN at all (6- and 4-bit floats have none).
        signed: whether a float has a sign bit (scale types have none).
    """

    name: str
    bits: int
    kind: Kind = Kind.FLOAT
    exponent: int = 0
    fraction: int = 0
    padding: int = 0
    infinity: bool = True
    finite_top: bool = False
    nan: bool = True
    signed: bool = True

    @property
    def sign_bit(self) -> int:
        """Place of a float's sign; above it there may be padding (6-bit floats in bytes)."""
        return self.padding + self.fraction + self.exponent

    @property
    def read(self) -> int:
        """The bits of a float that its value depends on: not its padding, and of a type without a sign not what would
        be that (ue4m3: bit 7 is ignored)."""
        return (1 << self.sign_bit + self.signed) - (1 << self.padding)

    @property
    def is_float(self) -> bool:
        """Whether the type is a floating-point type."""
        return self.kind is Kind.FLOAT

    @property
    def bias(self) -> int:
        """Exponent bias; 15 for f16 and e5m2, 127 for bf16, tf32 and f32, 7 for e4m3."""
        return (1 << (self.exponent - 1)) - 1

    @property
    def per_register(self) -> int:
        """Elements in one register."""
        return self.register_bits // self.bits

    @property
    def register_bits(self) -> int:
        """Bits of the registers that hold elements of the type: 64 for f64, 32 for all others."""
        return 64 if self.bits == 64 else 32

    @property
    def mask(self) -> int:
        """The bits of one element."""
        return (1 << self.bits) - 1

    def __str__(self) -> str:
        return self.name


ELEMENT_TYPES: dict[str, ElementType] = {
    t.name: t
    for t in (
        ElementType("f16", 16, exponent=5, fraction=10),
        ElementType("bf16", 16, exponent=8, fraction=7),
        ElementType("tf32", 32, exponent=8, fraction=10, padding=13),
        ElementType("f32", 32, exponent=8, fraction=23),
        ElementType("e4m3", 8, exponent=4, fraction=3, infinity=False, finite_top=True),
        ElementType("e5m2", 8, exponent=5, fraction=2),
        ElementType("e3m2", 8, exponent=3, fraction=2, infinity=False, nan=False),
        ElementType("e2m3", 8, exponent=2, fraction=3, infinity=False, nan=False),
        ElementType("e2m1", 8, exponent=2, fraction=1, padding=2, infinity=False, nan=False),
        ElementType("s8", 8, Kind.SIGNED),
        ElementType("u8", 8, Kind.UNSIGNED),
        ElementType("s4", 4, Kind.SIGNED),
        ElementType("u4", 4, Kind.UNSIGNED),
        ElementType("s32", 32, Kind.SIGNED),
    )
}


F64 = ElementType(
    "f64", 64, exponent=11, fraction=52
)  # beside the others, whose patterns and registers are uint32: these are uint64
B1 = ElementType(
    "b1", 1, Kind.UNSIGNED
)  # beside the others too: a form says what it does with bits in place of multiplying them
MATRIX_TYPES: dict[str, ElementType] = {
    **ELEMENT_TYPES,
    F64.name: F64,
    B1.name: B1,
}  # every type that an operand of mma may have
PACKED_E2M1 = ElementType(
    "e2m1", 4, exponent=2, fraction=1, infinity=False, nan=False
)  # of kinds mxf4 and mxf4nvf4: two a byte
SCALE_TYPES: dict[str, ElementType] = {
    "ue8m0": ElementType("ue8m0", 8, exponent=8, infinity=False, signed=False),
    "ue4m3": ElementType("ue4m3", 8, exponent=4, fraction=3, infinity=False, finite_top=True, signed=False),
}


def element_type(name: str | ElementType) -> ElementType:
    """The type of that name; raises IsaError with the known names if there is none."""
    if isinstance(name, ElementType):
        return name
    found = ELEMENT_TYPES.get(text_of(name, "an element type", "f16"))
    if found is None:
        raise IsaError(name, 0, no_such_type(str(name)), ", ".join(ELEMENT_TYPES))
    return found


def no_such_type(name: str) -> str:
    """What is wrong with a name that no element type has, in words."""
    kind = f": '{name}' is a kind of instruction, which says how types are scaled" if name[:2] == "mx" else ""
    return f"unknown element type '{name}'{kind}"


def pack(patterns: NDArray[np.unsignedinteger], bits: int) -> Bits:
    """Patterns [..., n] of `bits` each into uint32 words [..., n * bits / 32], lowest bits first."""
    per = 32 // bits
    if patterns.shape[-1] % per:
        raise IsaError(
            "", -1, f"{patterns.shape[-1]} elements of {bits} bits do not fill 32-bit words", f"a multiple of {per}"
        )
    fields = patterns.reshape(*patterns.shape[:-1], -1, per).astype(np.uint32) & np.uint32((1 << bits) - 1)
    words: Bits = np.bitwise_or.reduce(fields << _shifts(bits), axis=-1)
    return words


def unpack(words: Bits, bits: int) -> Bits:
    """The inverse of `pack`: uint32 words [..., n] into patterns [..., n * 32 / bits], each in a uint32."""
    fields = (words[..., None] >> _shifts(bits)) & np.uint32((1 << bits) - 1)
    return fields.reshape(*words.shape[:-1], -1)


def _shifts(bits: int) -> Bits:
    return np.arange(0, 32, bits, dtype=np.uint32)


def typed(array: NDArray[T], kind: type[T], tail: tuple[int, ...], what: str) -> NDArray[T]:
    """Returns the array after checking its type and the sizes of its last axes; raises IsaError if they are others."""
    array = np.asarray(array)
    if array.dtype != kind or array.shape[-len(tail) :] != tail:
        legal = f"{kind.__name__} [..., {', '.join(map(str, tail))}]"
        raise IsaError("", -1, f"{what} of type {array.dtype} and shape {array.shape}", legal)
    return array
