"""Executes the conversions `cvt` that have a floating-point type on one side. PTX ISA 9.0, 9.7.9.21.

Rounding is that of `simulator.arithmetic.convert`, and of `simulator.arithmetic.formats.encode_integer` where f64 or
integers of 64 bits are involved, which float64 does not hold exactly.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from isa.forms.conversions import CONVERSION_ROWS, CONVERTED_BITS, INTEGER_TYPES
from isa.forms.record import Form
from isa.ptx.instruction import Instruction, Operand, Register
from isa.types import ELEMENT_TYPES, F64, PACKED_E2M1, SCALE_TYPES, ElementType
from simulator.arithmetic.convert import convert, from_float64
from simulator.arithmetic.formats import Reals, encode_integer
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.floating import F32, NAN, element_of, flushed, nans, saturated
from simulator.execute.operands import Reader, Writer, place_of, reader, writer
from simulator.execute.registry import Array, prepares_operands
from simulator.state.registers import Warps

_ELEMENTS: dict[str, ElementType] = {**ELEMENT_TYPES, **SCALE_TYPES, "f64": F64, "e2m1": PACKED_E2M1}
_QUIET = np.uint64(1 << 51)


@prepares_operands(
    *dict.fromkeys(f"cvt*.{'.'.join(f.qualifiers[-2:])}" for row in CONVERSION_ROWS for f in row.forms())
)
def convert_registers(instruction: Instruction, form: Form) -> Executor:
    """cvt: registers may be wider than the types, of which the low bits count; integers are extended by their sign."""
    target, source = form.qualifiers[-2:]
    operation = _operation(form, target, source)
    reads = [_reader(operand, source) for operand in instruction.operands[1:]]
    write = _writer(instruction["d"], target)

    def run(machine: CtaState, warps: Warps) -> Outcome:
        with np.errstate(all="ignore"):
            result = operation(*[read(machine, warps) for read in reads])
        write(machine, warps, result)
        return NOTHING

    return run


def _bits(operand: Operand, kind: str) -> int:
    """The width of an operand: that of its register, which may be more than that of the type."""
    return place_of(operand.name).sort.bits if isinstance(operand, Register) else max(CONVERTED_BITS[kind], 16)


def _reader(operand: Operand, kind: str) -> Reader:
    """A reader of the low bits of a register: unsigned integers as wide as the type."""
    read, dtype = reader(operand, _bits(operand, kind)), np.dtype(f"u{CONVERTED_BITS[kind] // 8}")
    return lambda machine, warps: read(machine, warps).astype(dtype)


def _writer(operand: Operand, kind: str) -> Writer:
    """A writer of unsigned integers as wide as the type into a register that may be wider."""
    bits, width = _bits(operand, kind), CONVERTED_BITS[kind]
    write = writer(operand, bits)
    if bits == width:
        return write
    narrow = np.dtype(f"{'i' if kind.startswith('s') else 'u'}{width // 8}")
    wide = np.dtype(f"{narrow.kind}{bits // 8}")
    return lambda machine, warps, values: write(machine, warps, values.view(narrow).astype(wide).view(f"u{bits // 8}"))


def _operation(form: Form, target: str, source: str) -> Callable[..., Array]:
    if target.endswith("x2"):
        return _to_pair(form, target, source)
    if target in INTEGER_TYPES:
        return _to_integer(form, target, source)
    if source in INTEGER_TYPES:
        return _from_integer(form, target, source)
    return _between(form, target, source)


def _rounding(form: Form) -> str:
    """The rounding as `simulator.arithmetic.convert` names it; "" where the form has none."""
    named = next((q for q in form.qualifiers if q in ("rn", "rna", "rz", "rm", "rp", "rni", "rzi", "rmi", "rpi")), "")
    return named.removesuffix("i")


def _flush_source(form: Form, patterns: Array, kind: str) -> Array:
    """`.ftz` of a source of f32, which makes NaN canonical too. A conversion to f16 does not flush: measured on an
    H100, November 2026."""
    if "ftz" not in form.qualifiers or kind != "f32" or form.qualifiers[-2] == "f16":
        return patterns
    return np.where(nans(patterns, F32), np.uint32(NAN), flushed(patterns, F32))


def _flush_result(form: Form, patterns: Array, source: str) -> Array:
    """`.ftz` of a destination of f32."""
    if "ftz" not in form.qualifiers or form.qualifiers[-2] != "f32":
        return patterns
    if source == "bf16":
        patterns = np.where(nans(patterns, F32), np.uint32(NAN), patterns)
    return flushed(patterns, F32)


# Pairs in one register


def _element(kind: str) -> ElementType:
    return _ELEMENTS[kind.removesuffix("x2")]


def _to_pair(form: Form, target: str, source: str) -> Callable[..., Array]:
    """Two numbers beside each other: of two f32 the first becomes the upper."""
    to, of, rounding = _element(target), _element(source), _rounding(form)
    satfinite, relu = "satfinite" in form.qualifiers, "relu" in form.qualifiers
    width = np.dtype(f"u{CONVERTED_BITS[target] // 8}")
    step, mask = np.uint32(CONVERTED_BITS[target] // 2), np.uint32((1 << (CONVERTED_BITS[source] // 2)) - 1)

    def joined(upper: Array, lower: Array) -> Array:
        high, low = (convert(part, of, to, rounding, satfinite=satfinite, relu=relu) for part in (upper, lower))
        return ((high << step) | low).astype(width)

    if source == "f32":
        return joined
    half = np.uint32(CONVERTED_BITS[source] // 2)
    return lambda a: joined(a.astype(np.uint32) >> half, a.astype(np.uint32) & mask)


# Integers


def _values(patterns: Array, kind: str) -> Reals:
    """Patterns of a floating-point type as float64, exact."""
    if kind == "f64":
        return patterns.view(np.float64)
    if kind == "f32":
        return patterns.view(np.float32).astype(np.float64)
    return convert_values(patterns, element_of(kind))


def convert_values(patterns: Array, element: ElementType) -> Reals:
    """Patterns of f16 or bf16 as float64."""
    if element.name == "f16":
        return patterns.view(np.float16).astype(np.float64)
    return (patterns.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


_WHOLE: dict[str, Callable[[Reals], Reals]] = {"rn": np.rint, "rz": np.trunc, "rm": np.floor, "rp": np.ceil}


def _to_integer(form: Form, target: str, source: str) -> Callable[..., Array]:
    """To integers, clamped to their range; NaN gives 0, of 64 bits and from f64 the pattern 100...0."""
    bits, signed, rounding = CONVERTED_BITS[target], target.startswith("s"), _rounding(form)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    nan = 1 << (bits - 1) if source == "f64" or bits == 64 else 0
    unsigned = np.dtype(f"u{bits // 8}")

    def compute(a: Array) -> Array:
        whole = _WHOLE[rounding](_values(_flush_source(form, a, source), source))
        inside = (whole >= low) & (whole < float(high + 1))
        integer = np.where(inside, whole, 0.0).astype(np.int64 if signed else np.uint64)
        clamped = np.where(
            inside, integer.astype(unsigned), np.where(whole < 0, unsigned.type(low % (1 << bits)), unsigned.type(high))
        )
        return np.where(np.isnan(whole), unsigned.type(nan), clamped)

    return compute


def _from_integer(form: Form, target: str, source: str) -> Callable[..., Array]:
    to, rounding = element_of(target), _rounding(form)
    signed = np.dtype(f"i{CONVERTED_BITS[source] // 8}")

    def compute(a: Array) -> Array:
        if signed.itemsize == 8:
            negative = (a.view(signed) < 0) if source == "s64" else np.zeros(a.shape, np.bool_)
            magnitude = np.where(negative, np.uint64(0) - a, a)
            # encode_integer takes 63 bits, whose last may stand for what is below it
            halved = (magnitude >> np.uint64(1)) | (magnitude & np.uint64(1))
            large = magnitude >= np.uint64(1 << 62)
            place = np.where(large, 1, 0)
            result = encode_integer(negative, np.where(large, halved, magnitude), place, to, rounding)
        else:
            values = (a.view(signed) if source.startswith("s") else a).astype(np.float64)
            result = _encoded(values, target, rounding)
        result = result.astype(f"u{to.bits // 8}")
        return saturated(result, to) if "sat" in form.qualifiers else result

    return compute


# Between floating-point types


def _encoded(values: Reals, target: str, rounding: str, *, satfinite: bool = False, relu: bool = False) -> Array:
    if target == "f64":  # NaN keeps its sign and payload, and becomes quiet: measured on an H100, November 2026
        return np.where(np.isnan(values), values.view(np.uint64) | _QUIET, values.view(np.uint64))
    return from_float64(values, element_of(target), rounding or "rn", satfinite=satfinite, relu=relu)


def _between(form: Form, target: str, source: str) -> Callable[..., Array]:
    to, rounding, qualifiers = element_of(target), _rounding(form), form.qualifiers
    whole = _WHOLE[rounding] if any(q in ("rni", "rzi", "rmi", "rpi") for q in qualifiers) else None
    satfinite, relu = "satfinite" in qualifiers, "relu" in qualifiers
    kind = np.dtype(f"u{to.bits // 8}")
    if qualifiers in (("f32", "f32"), ("f64", "f64")):
        return np.copy  # a move: NaN as it is

    def compute(a: Array) -> Array:
        patterns = _flush_source(form, a, source)
        if target == "f64" or whole is not None:
            values = _values(patterns, source)
            values = values if whole is None else np.copysign(whole(values), values)
            result = _encoded(values, target, "rn")
        else:
            result = convert(patterns, source, to, rounding or "rn", satfinite=satfinite, relu=relu)
        result = _flush_result(form, result.astype(kind), source)
        return saturated(result, to) if "sat" in qualifiers else result

    return compute
