"""One instruction's product of matrices of patterns, for whoever has matrices and no fragments.

The family, the target and the types choose the row of `simulator.arithmetic.rows`; see there for what is known of which chip.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.errors import IsaError
from isa.metadata import Sparsity, sparsity_of
from isa.targets import Target, parse_target
from isa.types import F64, SCALE_TYPES, Bits, ElementType, element_type
from simulator.arithmetic.chain import Words, chain_f64
from simulator.arithmetic.compiled import Kernel, library, matrix_layout, supports
from simulator.arithmetic.rows import find_row
from simulator.arithmetic.sums import Operands, Sum, add_in_numpy
from simulator.arithmetic.threads import spread

FAMILIES = ("mma", "wgmma", "tcgen05")
_RESULTS = ("f16", "f32", "s32")


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
        a, b, c: patterns uint32 [case, m, k], [case, k, n], [case, m, n]; uint64 for f64. k is the instruction's; A of a sparse one is
            [case, m, stored].
        family: "mma", "wgmma" or "tcgen05".
        target: e.g. "sm_90a".
        a_type, b_type, d_type, c_type: element types or their names; C is like D unless given; "f64" for all of them together. Types of less
            than a byte are as registers hold them: e2m1 in bits 5..2 of a byte, or `isa.types.PACKED_E2M1`, which means the mxf4 kinds.
        shape: where an instruction's shape decides how it adds: "m8n8k4" (f16).
        codes: metadata of a sparse instruction, uint32 [case, m, chunk]; any 4-bit codes, as `simulator.arithmetic.sums` selects.
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
    _check(family, arithmetic, d_type)
    sparsity = None if codes is None or a_type.bits == 64 else sparsity_of(a_type)
    _check_shapes(a, b, c, np.uint64 if a_type.bits == 64 else np.uint32, codes, sparsity)
    if a_type.bits == 64:
        find_row(family, parse_target(target), a_type, shape=shape)
        return add_f64(a, b, c)
    scales = _scales(scale_a, scale_b, scale_type, a, b)
    chip = a_type.is_float and arithmetic == "chip"
    kind = "" if scales is None else "mxf4" if a_type.bits == 4 else "mxf8f6f4"
    rule = find_row(family, parse_target(target), a_type, sparse=sparsity is not None, kind=kind, shape=shape).rule if chip else None
    factors = 0 if scales is None else scales[0].shape[2]
    m, k, n = a.shape[1], b.shape[1], b.shape[2]
    how = Sum(m, n, k, a_type, b_type, c_type, d_type, rule, sparsity, saturate, _scale_type(scale_type) if scales else None, factors)
    return add(how, Operands(a, b, c, codes, *(scales or (None, None))))


def add(how: Sum, operands: Operands) -> Bits:
    """D patterns [case, m, n] of any number of cases, by the compiled kernel where it can, on several threads where it is worth it."""
    d = np.empty(operands.c.shape, np.uint32)
    compute = _compiled if library() is not None and supports(how) and not how.operation else _in_numpy  # bits: the kernel takes words of 32
    spread(len(d), how.m * how.n * how.stored, lambda cases: compute(how, operands[cases], d[cases]))
    return d


def _in_numpy(how: Sum, operands: Operands, d: Bits) -> None:
    d[:] = add_in_numpy(how, operands)


def add_f64(a: Words, b: Words, c: Words, rounding: str = "rn") -> Words:
    """The same for f64 patterns a [case, m, k], b [case, k, n], c [case, m, n]; `rounding` as in `simulator.arithmetic.chain`."""
    d = np.empty_like(c)

    def part(cases: slice) -> None:
        d[cases] = chain_f64(a[cases], b[cases], c[cases], rounding)

    spread(len(d), a.shape[1] * a.shape[2] * b.shape[2], part)
    return d


@lru_cache(maxsize=256)
def _kernel(how: Sum) -> Kernel:
    return Kernel(how, matrix_layout(how))


def _compiled(how: Sum, operands: Operands, d: Bits) -> None:
    x = operands
    _kernel(how)(d, x.a, x.b, x.c, x.codes, x.scale_a, x.scale_b)


def _type(given: str | ElementType) -> ElementType:
    return F64 if given == F64.name else element_type(given)


def _scale_type(given: str | ElementType | None) -> ElementType:
    if isinstance(given, ElementType):
        return given
    if given not in SCALE_TYPES:
        raise IsaError(str(given), -1, f"unknown type of scale factors {given!r}", ", ".join(SCALE_TYPES))
    return SCALE_TYPES[given]


def _scales(scale_a: Bits | None, scale_b: Bits | None, scale_type: object, a: NDArray[Any], b: NDArray[Any]) -> tuple[Bits, Bits] | None:
    """Both factors as [case, row or column, factor]."""
    if scale_a is None and scale_b is None and scale_type is None:
        return None
    if scale_a is None or scale_b is None or scale_type is None:
        raise IsaError("", -1, "block scales need all of scale_a, scale_b and scale_type", "all three, or none")
    factors = scale_a.shape[-1]
    legal = (a.shape[0], a.shape[1], factors), (b.shape[0], factors, b.shape[2])
    if (scale_a.shape, scale_b.shape) != legal or not factors or a.shape[2] % factors:
        raise IsaError(
            "", -1, f"scale_a of shape {scale_a.shape} and scale_b of shape {scale_b.shape}", "[case, m, k / block] and [case, k / block, n]"
        )
    return scale_a, scale_b.transpose(0, 2, 1)


def _check(family: str, arithmetic: str, result: ElementType) -> None:
    if family not in FAMILIES:
        raise IsaError(family, -1, f"unknown family of instructions '{family}'", ", ".join(FAMILIES))
    if arithmetic not in ("chip", "exact"):
        raise IsaError(arithmetic, -1, f"arithmetic={arithmetic!r} is not known", "'chip', 'exact'")
    if result.name not in (*_RESULTS, "f64"):
        raise IsaError(result.name, -1, f"no tensor core gives results of type {result}", ", ".join((*_RESULTS, "f64")))


def _check_shapes(
    a: NDArray[Any], b: NDArray[Any], c: NDArray[Any], kind: type[np.generic], codes: NDArray[Any] | None, sparsity: Sparsity | None
) -> None:
    given = [("a", a, "[case, m, k]"), ("b", b, "[case, k, n]"), ("c", c, "[case, m, n]")]
    for name, array, legal in given if codes is None else [*given, ("codes", codes, "[case, m, chunk]")]:
        if not isinstance(array, np.ndarray) or array.dtype != kind or array.ndim != 3:
            found = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
            raise IsaError("", -1, f"operand {name} is {found}", f"{kind.__name__} {legal}")
    columns = b.shape[1] * sparsity.stored // sparsity.chunk if sparsity else b.shape[1]
    if a.shape[0] != b.shape[0] or a.shape[2] != columns or c.shape != (a.shape[0], a.shape[1], b.shape[2]):
        legal = f"[case, m, {'stored' if sparsity else 'k'}], [case, k, n] and [case, m, n]"
        raise IsaError("", -1, f"shapes {a.shape}, {b.shape} and {c.shape} do not go together", legal)
    if codes is not None and (sparsity is None or b.shape[1] % sparsity.chunk or codes.shape != (*a.shape[:2], b.shape[1] // sparsity.chunk)):
        raise IsaError("", -1, f"codes of shape {codes.shape} for k = {b.shape[1]}", "[case, m, k / chunk], and no f64")
    if codes is not None and len(codes) and codes.max() > 15:
        raise IsaError("", -1, f"a metadata code of {codes.max()}", "4 bits")
