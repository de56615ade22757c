"""Computes the matrix product of one instruction from matrices of bit patterns. It is for callers who have whole
matrices, and not the register fragments of a warp.

The family, the target and the types choose the row of `simulator.arithmetic.rows`; see there for what is known of which
chip.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.errors import IsaError
from isa.fragments.metadata import Sparsity, sparsity_of
from isa.targets import Target, parse_target
from isa.types import F64, SCALE_TYPES, Bits, ElementType, element_type
from simulator.arithmetic.batch import add, add_f64
from simulator.arithmetic.rows import find_row
from simulator.arithmetic.sums import Operands, Sum
from simulator.errors import check_option

FAMILIES = ("mma", "wgmma", "tcgen05")
_NARROW = "e4m3 e5m2 e3m2 e2m3 e2m1"
_TYPES = (  # A and B, each any of them; D and C; families: PTX ISA 9.0, 9.7.14.1, 9.7.15.2 and 9.7.16.10.1
    ("f16", "f16 f32", FAMILIES),
    ("bf16", "f32", FAMILIES),
    ("tf32", "f32", FAMILIES),
    (_NARROW, "f16 f32", FAMILIES),
    ("s8 u8", "s32", FAMILIES),
    ("s4 u4", "s32", ("mma",)),
    ("f64", "f64", ("mma",)),
)
_INTEGER_TARGETS = {
    "wgmma": (90,),
    "tcgen05": (100, 110),
}  # PTX ISA 9.0, 9.7.15 and 9.7.16.10.1; `mma` has integers everywhere


def product(
    a: NDArray[np.unsignedinteger[Any]],
    b: NDArray[np.unsignedinteger[Any]],
    c: NDArray[np.unsignedinteger[Any]],
    *,
    family: str,
    target: str | Target,
    a_type: str | ElementType,
    b_type: str | ElementType,
    d_type: str | ElementType,
    c_type: str | ElementType | None = None,
    shape: str = "",
    codes: Bits | None = None,
    scale_a: Bits | None = None,
    scale_b: Bits | None = None,
    scale_type: str | ElementType | None = None,
    saturate: bool = False,
    arithmetic: str = "chip",
) -> NDArray[np.unsignedinteger[Any]]:
    """D = A * B + C as one instruction of the tensor core of a target computes it.

    Args:
        a, b, c: patterns uint32 [case, m, k], [case, k, n], [case, m, n]; uint64 for f64. k is the instruction's; A of
            a sparse one is [case, m, stored].
        family: "mma", "wgmma" or "tcgen05".
        target: e.g. "sm_90a".
        a_type, b_type, d_type, c_type: element types or their names; C is like D unless given; "f64" for all of them
            together. Types of less than a byte are as registers hold them: e2m1 in bits 5..2 of a byte, or
            `isa.types.PACKED_E2M1`, which means the mxf4 kinds.
        shape: where an instruction's shape decides how it adds: "m8n8k4" (f16).
        codes: metadata of a sparse instruction, uint32 [case, m, chunk]; any 4-bit codes, as
            `simulator.arithmetic.sums` selects.
        scale_a, scale_b: block scale factors, patterns uint32 [case, m, k / block] and [case, k / block, n].
        scale_type: "ue8m0" or "ue4m3".
        saturate: of integers.
        arithmetic: "chip", or "exact" for the exact sum, rounded once to nearest even (not for f64).

    Returns:
        D, patterns like C's.

    Raises:
        IsaError: unknown family, type or target, no arithmetic known for them, shapes that do not fit.
    """
    a_type, b_type, d_type = _type(a_type), _type(b_type), _type(d_type)
    c_type = _type(c_type) if c_type is not None else d_type
    target = parse_target(target)
    check_option("family", family, FAMILIES)
    check_option("arithmetic", arithmetic, ("chip", "exact"))
    _check_types(family, target, (a_type, b_type, c_type, d_type))
    _check_scaled(scale_type is not None or scale_a is not None or scale_b is not None, a_type, b_type, d_type)
    if saturate and a_type.is_float:
        raise IsaError(a_type.name, -1, "saturate with floats", "saturate=False, or integers")
    sparsity = None if codes is None or a_type.bits == 64 else sparsity_of(a_type)
    _check_shapes(a, b, c, np.uint64 if a_type.bits == 64 else np.uint32, codes, sparsity)
    if a_type.bits == 64:
        find_row(family, target, a_type, shape=shape)
        if arithmetic == "exact" or scale_type is not None or codes is not None:
            raise IsaError("f64", -1, "f64 has no exact sum here, no block scales and no sparse form", "plain f64")
        return add_f64(a, b, c)
    for name, array, element in (("a", a, a_type), ("b", b, b_type), ("c", c, c_type)):
        _check_patterns(name, array, element.mask, str(element))
    scales = _scales(scale_a, scale_b, scale_type, a, b)
    chip = a_type.is_float and arithmetic == "chip"
    kind = "" if scales is None else "mxf4" if a_type.bits == 4 else "mxf8f6f4"
    rule = find_row(family, target, a_type, sparse=sparsity is not None, kind=kind, shape=shape).rule if chip else None
    factors = 0 if scales is None else scales[0].shape[2]
    _check_k(
        a.shape[2], b.shape[1], factors, max(16 if kind == "mxf4" else 1, sparsity.stored if sparsity else 1), shape
    )
    m, k, n = a.shape[1], b.shape[1], b.shape[2]
    how = Sum(
        m,
        n,
        k,
        a_type,
        b_type,
        c_type,
        d_type,
        rule,
        sparsity,
        saturate,
        _scale_type(scale_type) if scales else None,
        factors,
    )
    return add(how, Operands(a, b, c, codes, *(scales or (None, None))))


def _type(given: str | ElementType) -> ElementType:
    return F64 if given == F64.name else element_type(given)


def _scale_type(given: str | ElementType | None) -> ElementType:
    if isinstance(given, ElementType):
        return given
    if given not in SCALE_TYPES:
        raise IsaError(str(given), -1, f"unknown type of scale factors {given!r}", ", ".join(SCALE_TYPES))
    return SCALE_TYPES[given]


def _scales(
    scale_a: Bits | None, scale_b: Bits | None, scale_type: object, a: NDArray[Any], b: NDArray[Any]
) -> tuple[Bits, Bits] | None:
    """Both factors as [case, row or column, factor]."""
    if scale_a is None and scale_b is None and scale_type is None:
        return None
    if scale_a is None or scale_b is None or scale_type is None:
        raise IsaError("", -1, "block scales need all of scale_a, scale_b and scale_type", "all three, or none")
    for name, scale in (("scale_a", scale_a), ("scale_b", scale_b)):
        if not isinstance(scale, np.ndarray) or scale.dtype != np.uint32 or scale.ndim != 3:
            given = (
                f"of shape {scale.shape} and type {scale.dtype}"
                if isinstance(scale, np.ndarray)
                else f"is a {type(scale).__name__}"
            )
            raise IsaError(
                "", -1, f"{name} {given}", "uint32: scale_a [case, m, k / block], scale_b [case, k / block, n]"
            )
    factors = scale_a.shape[-1]
    legal = (a.shape[0], a.shape[1], factors), (b.shape[0], factors, b.shape[2])
    if (scale_a.shape, scale_b.shape) != legal or not factors:
        raise IsaError(
            "",
            -1,
            f"scale_a of shape {scale_a.shape} and scale_b of shape {scale_b.shape}",
            "[case, m, k / block] and [case, k / block, n]",
        )
    for name, scale in (("scale_a", scale_a), ("scale_b", scale_b)):
        _check_patterns(name, scale, 255, "a byte")
    return scale_a, scale_b.transpose(0, 2, 1)


def _check_types(family: str, target: Target, types: tuple[ElementType, ...]) -> None:
    """Raises IsaError unless some instruction of the family multiplies these types (A, B, C, D) and, for integers, the
    target has it; floats have rows."""
    names = [element.name for element in types]
    for inputs, results, families in _TYPES:
        if names[0] in inputs.split():
            right = set(names[2:]) <= set(results.split()) and types[2].bits <= types[3].bits
            if family not in families or names[1] not in inputs.split() or not right:
                legal = (
                    f"A and B of {inputs.replace(' ', ', ')}; C and D of {results.replace(' ', ', ')}; "
                    f"{', '.join(families)}"
                )
                raise IsaError(
                    " ".join(names),
                    -1,
                    f"{family} does not multiply {names[0]} by {names[1]} into {names[3]} (C: {names[2]})",
                    legal,
                )
            break
    else:
        raise IsaError(
            names[0],
            -1,
            f"no product of {names[0]} elements",
            ", ".join(inputs.replace(" ", ", ") for inputs, *_ in _TYPES),
        )
    legal_targets = _INTEGER_TARGETS.get(family)
    if not types[0].is_float and legal_targets and target.number not in legal_targets:
        raise IsaError(
            str(target),
            -1,
            f"{target} has no {family} of integers",
            ", ".join(f"sm_{number}" for number in legal_targets),
        )


def _check_scaled(scaled: bool, a: ElementType, b: ElementType, d: ElementType) -> None:
    """Block scales go with floats of at most 8 bits and f32 results, and packed e2m1 goes with block scales. PTX ISA
    9.0, 9.7.14.3, 9.7.16.10.7."""
    if scaled and not (a.is_float and a.bits <= 8 and d.bits == 32):
        raise IsaError(
            a.name, -1, f"block scales of {a} elements with results of {d}", f"{_NARROW.replace(' ', ', ')} into f32"
        )
    if a.is_float and 4 in (a.bits, b.bits) and not (scaled and a.bits == b.bits):
        raise IsaError(
            a.name,
            -1,
            "packed e2m1 without block scales, or with a type of 8 bits",
            "both operands packed, with scales; or e2m1 in bytes",
        )


def _check_patterns(name: str, array: NDArray[Any], most: int, what: str) -> None:
    if array.size and int(array.max()) > most:
        place = tuple(int(i) for i in np.argwhere(array > most)[0])
        raise IsaError(
            hex(int(array[place])),
            -1,
            f"operand {name} holds {int(array[place]):#x} at {place}",
            f"patterns of {what}, at most {most:#x}",
        )


def _check_k(stored: int, k: int, factors: int, group: int, shape: str) -> None:
    """An instruction has products; a factor covers whole groups of them."""
    if not k:
        raise IsaError("", -1, "k is 0", "1 or more")
    if shape == "m8n8k4" and k != 4:
        raise IsaError(shape, -1, f"k is {k}", "4")
    if factors and (stored % factors or stored // factors % group):
        raise IsaError(
            "", -1, f"{factors} factors for {stored} products of a row", f"each for a multiple of {group} products"
        )


def _check_shapes(
    a: NDArray[Any],
    b: NDArray[Any],
    c: NDArray[Any],
    kind: type[np.generic],
    codes: NDArray[Any] | None,
    sparsity: Sparsity | None,
) -> None:
    given = [("a", a, "[case, m, k]"), ("b", b, "[case, k, n]"), ("c", c, "[case, m, n]")]
    for name, array, legal in given if codes is None else [*given, ("codes", codes, "[case, m, chunk]")]:
        if not isinstance(array, np.ndarray) or array.dtype != kind or array.ndim != 3:
            actual = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
            raise IsaError("", -1, f"operand {name} is {actual}", f"{kind.__name__} {legal}")
    columns = b.shape[1] * sparsity.stored // sparsity.chunk if sparsity else b.shape[1]
    if a.shape[0] != b.shape[0] or a.shape[2] != columns or c.shape != (a.shape[0], a.shape[1], b.shape[2]):
        legal = f"[case, m, {'stored' if sparsity else 'k'}], [case, k, n] and [case, m, n]"
        raise IsaError("", -1, f"shapes {a.shape}, {b.shape} and {c.shape} do not go together", legal)
    if codes is not None and (
        sparsity is None or b.shape[1] % sparsity.chunk or codes.shape != (*a.shape[:2], b.shape[1] // sparsity.chunk)
    ):
        raise IsaError("", -1, f"codes of shape {codes.shape} for k = {b.shape[1]}", "[case, m, k / chunk], and no f64")
    if codes is not None and len(codes) and codes.max() > 15:
        raise IsaError("", -1, f"a metadata code of {codes.max()}", "4 bits")
