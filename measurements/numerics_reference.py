"""What the recorded instructions should give, computed once more: integers and IEEE arithmetic, no code of the
simulator.

Fused sums of the tensor core in 64-bit integers, f64 in Python integers (slow), m8n8k4 f16 in IEEE single precision,
the sequence that ptxas 13.0 writes for sparse 8-bit floats on sm_90 with the shuffles that it takes from %tid.x. Every
function says where its rule was read or measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from measurements.numerics_forms import BITS, Form
from measurements.numerics_inputs import FLOATS
from measurements.numerics_layout import (
    LANE,
    LANES,
    Integers,
    Registers,
    elements,
    matrix_a,
    matrix_b,
    matrix_c,
    partners,
    words_d,
)

# -------------------------------------------------------------------------------------------------------------- fused
# sums


@dataclass(frozen=True)
class Numbers:
    """Decoded patterns: (-1)^sign * significand * 2^(exponent - fraction)."""

    sign: Integers
    significand: Integers
    exponent: Integers
    fraction: int
    nan: NDArray[np.bool_]
    infinite: NDArray[np.bool_]


def read(patterns: Integers, element: str) -> Numbers:
    if element == "tf32":
        patterns = patterns >> 13
    e, p = FLOATS[element]
    field, digits, sign = patterns >> p & (1 << e) - 1, patterns & (1 << p) - 1, patterns >> (e + p) & 1
    last = field == (1 << e) - 1
    if element == "e4m3":
        nan, infinite = last & (digits == 7), np.zeros_like(last)
    else:
        nan, infinite = last & (digits != 0), last & (digits == 0)
    finite = ~(nan | infinite)
    significand = np.where(finite, digits + ((field > 0).astype(np.int64) << p), 0)
    return Numbers(sign, significand, np.maximum(field, 1) - ((1 << (e - 1)) - 1), p, nan, infinite)


def to_f16(patterns: Integers, element: str) -> Integers:
    """8-bit floats as f16, which is exact."""
    table = read(np.arange(256), element)
    value = np.ldexp(table.significand.astype(np.float64), table.exponent - table.fraction) * np.where(
        table.sign, -1, 1
    )
    converted = value.astype(np.float16).view(np.uint16).astype(np.int64)
    converted = np.where(table.infinite, 0x7C00 | table.sign << 15, np.where(table.nan, 0x7FFF, converted))
    return converted[patterns]


def _shift(x: Integers, places: Integers) -> Integers:
    return np.where(places >= 0, x << np.clip(places, 0, 62), x >> np.clip(-places, 0, 62))


def fused_step(a: Numbers, b: Numbers, c: Integers, result: str, fraction: int, floor: int, kept: int = 23) -> Integers:
    """Products of a and b [..., k] and C patterns [...]: aligned to the largest exponent, cut to `fraction` bits,
    added, rounded once.

    The rule of `docs/arithmetic.md`; MMA-Sim 2.1.1 has it for dense forms.
    """
    third = read(c, result)
    a_zero, b_zero = (a.significand == 0) & ~a.infinite & ~a.nan, (b.significand == 0) & ~b.infinite & ~b.nan
    sign = a.sign ^ b.sign
    endless = a.infinite | b.infinite
    nan = (a.nan | b.nan | (endless & (a_zero | b_zero))).any(-1) | third.nan
    positive = (endless & (sign == 0)).any(-1) | (third.infinite & (third.sign == 0))
    negative = (endless & (sign == 1)).any(-1) | (third.infinite & (third.sign == 1))
    product, exponent = a.significand * b.significand, a.exponent + b.exponent
    top = np.maximum(
        np.where(product != 0, exponent, -(1 << 20)).max(-1),
        np.where(third.significand != 0, third.exponent, -(1 << 20)),
    )
    top = np.maximum(top, floor)
    magnitude = _shift(product, exponent - a.fraction - b.fraction - (top - fraction)[..., None])
    total = np.where(sign == 1, -magnitude, magnitude).sum(-1)
    magnitude = _shift(third.significand, third.exponent - third.fraction - (top - fraction))
    total += np.where(third.sign == 1, -magnitude, magnitude)
    rounded = _round_f16(total, top - fraction) if result == "f16" else _round_f32(total, top - fraction, kept)
    bits = BITS[result]
    e, p = FLOATS[result]
    endless_pattern = ((1 << e) - 1) << p
    rounded = np.where(positive, endless_pattern, np.where(negative, endless_pattern | 1 << (bits - 1), rounded))
    return np.where(nan | (positive & negative), (1 << (bits - 1)) - 1, rounded)


def _leading(x: Integers) -> Integers:
    """floor(log2 x), x below 2^53; -1 for 0."""
    return np.frexp(x.astype(np.float64))[1].astype(np.int64) - 1


def _round_f32(total: Integers, unit: Integers, kept: int) -> Integers:
    """total * 2^unit toward zero; a zero is plus zero, too large is infinity."""
    sign, size = (total < 0).astype(np.int64), np.abs(total)
    place = _leading(size) + unit
    exponent = np.maximum(place, -126)
    digits = _shift(size, unit - (exponent - kept)) << (23 - kept)
    pattern = np.where(digits >> 23, exponent + 127 << 23 | digits & 0x7FFFFF, digits)
    pattern = np.where((place > 127) & (size > 0), 0x7F800000, pattern)
    return np.where(pattern == 0, 0, pattern | sign << 31)


def _round_f16(total: Integers, unit: Integers) -> Integers:
    """total * 2^unit to nearest even; a zero is plus zero."""
    sign, size = (total < 0).astype(np.int64), np.abs(total)
    last = np.maximum(_leading(size) + unit, -14) - 10
    drop = np.clip(last - unit, 0, 62)
    digits = np.where(last >= unit, size >> drop, size << np.clip(unit - last, 0, 62))
    rest, half = size & (1 << drop) - 1, (1 << drop) >> 1
    digits += (rest > half) | ((rest == half) & (drop > 0) & (digits & 1 == 1))
    carried = digits >> 11 == 1
    digits, last = np.where(carried, digits >> 1, digits), last + carried
    pattern = np.where(digits >> 10, (last + 25 << 10) | digits & 0x3FF, digits)
    pattern = np.where(last + 10 > 15, 0x7C00, pattern)
    return np.where(digits == 0, 0, pattern | sign << 15)


def add(x: Integers, y: Integers, element: str) -> Integers:
    """IEEE addition, to nearest even, of f32 or f16 patterns; NaN 0x7FFFFFFF or 0x7FFF."""
    real, raw = (np.float32, np.uint32) if element == "f32" else (np.float16, np.uint16)
    with np.errstate(all="ignore"):
        total = x.astype(raw).view(real) + y.astype(raw).view(
            real
        )  # f16: numpy adds in single precision, exactly, and rounds once
    return np.where(np.isnan(total), (1 << (BITS[element] - 1)) - 1, total.view(raw).astype(np.int64))


def floats_dense(form: Form, words: Registers) -> Registers:
    """f16, bf16, tf32 in one step, 8-bit floats as f16 in two steps (columns 0, 1 of every four, then 2, 3) and C added
    last: `mma` on sm_90."""
    na, nb, _, _ = form.words
    a, b = (
        matrix_a(form, words[:, :na])[:, :, None, :],
        matrix_b(form, words[:, na : na + nb]).transpose(0, 2, 1)[:, None],
    )
    return words_d(form, _lowered_or_native(form, a, b, matrix_c(form, words[:, na + nb : form.inputs])))


def floats_sparse(form: Form, words: Registers) -> Registers:
    """`mma.sp` on sm_90 with defined metadata."""
    na, nb, nc, _ = form.words
    b = partners(form, matrix_b(form, words[:, na : na + nb]), words[:, -1])
    a = matrix_a(form, words[:, :na])[:, :, None, :]
    return words_d(form, _lowered_or_native(form, a, b, matrix_c(form, words[:, na + nb : na + nb + nc])))


SEPARATE_STEPS = False
"""Code of ptxas before 12.8 (12.4 and 12.6 seen): both steps from zero, an f32 addition of the two, then of C. Since
12.8 the second continues."""


def _lowered_or_native(form: Form, a: Integers, b: Integers, c: Integers) -> Integers:
    floor = -21 if form.d == "f16" else -133
    if BITS[form.a] > 8:
        return fused_step(read(a, form.a), read(b, form.b), c, form.d, 25, floor)
    a, b = to_f16(a, form.a), to_f16(b, form.b)
    total = zero = np.zeros_like(c)
    for late in (0, 1):
        chosen = np.flatnonzero((np.arange(a.shape[-1]) >> 1 & 1) == late)
        products = read(a[..., chosen], "f16"), read(b[..., chosen], "f16")
        if SEPARATE_STEPS:
            total = add(total, fused_step(*products, zero, form.d, 25, floor), form.d)
        else:
            total = fused_step(*products, total, form.d, 25, floor)
    return add(c, total, form.d)


def wgmma(form: Form, words: Registers) -> Registers:
    """`wgmma` with A in registers: every product and C in one step; 8-bit floats cut to 13 bits, an f32 result of
    theirs too."""
    na, nb, nc, _ = form.words
    a, b, c = (
        matrix_a(form, words[:, :na])[:, :, None, :],
        matrix_b(form, words[:, na : na + nb]),
        matrix_c(form, words[:, na + nb : na + nb + nc]),
    )
    b = partners(form, b, words[:, -1]) if form.sparse else b.transpose(0, 2, 1)[:, None]
    if form.a in ("s8", "u8"):
        return words_d(form, _integer_sum(form, a, b, c))
    bits = 13 if BITS[form.a] == 8 else 25
    return words_d(
        form,
        fused_step(
            read(a, form.a),
            read(b, form.b),
            c,
            form.d,
            bits,
            -21 if form.d == "f16" else -133,
            13 if bits == 13 else 23,
        ),
    )


# ----------------------------------------------------------------------------------------------------------------
# integers


def _signed(x: Integers, element: str) -> Integers:
    bits = BITS[element]
    return np.where(x >> (bits - 1) & 1, x - (1 << bits), x) if element[0] == "s" else x


def _integer_sum(form: Form, a: Integers, b: Integers, c: Integers) -> Integers:
    products = (
        a ^ b if ".xor." in form.opcode else _signed(a, form.a) * _signed(b, form.b)
    )  # b1: what is counted; "and" is a product
    total = products.sum(-1) + _signed(c, "s32")
    if "satfinite" in form.opcode:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    return total & 0xFFFFFFFF


def integers(form: Form, words: Registers) -> Registers:
    """The exact sum, wrapped or clamped once."""
    na, nb, nc, _ = form.words
    a, b, c = (
        matrix_a(form, words[:, :na])[:, :, None, :],
        matrix_b(form, words[:, na : na + nb]),
        matrix_c(form, words[:, na + nb : na + nb + nc]),
    )
    return words_d(
        form,
        _integer_sum(form, a, partners(form, b, words[:, -1]) if form.sparse else b.transpose(0, 2, 1)[:, None], c),
    )


# ---------------------------------------------------------------------------------------------------------------------
# f64

QUIET, DEFAULT_NAN, ENDLESS, MINUS = 1 << 51, 0xFFF8 << 48, 0x7FF << 52, 1 << 63


def fma64(a: int, b: int, c: int, rounding: str) -> int:
    """One IEEE fused multiply-add on patterns, as DMMA of sm_90 does it (measured on an H100, November 2026).

    A NaN keeps sign and payload and becomes quiet: B's if B is one, else C's, else A's. An invalid operation gives
    0xFFF8000000000000.
    """
    for x in (b, c, a):
        if x & MINUS - 1 > ENDLESS:
            return x | QUIET
    sign = (a ^ b) >> 63
    if ENDLESS in (a & MINUS - 1, b & MINUS - 1):
        if 0 in (a & MINUS - 1, b & MINUS - 1) or (c & MINUS - 1 == ENDLESS and c >> 63 != sign):
            return DEFAULT_NAN
        return sign << 63 | ENDLESS
    if c & MINUS - 1 == ENDLESS:
        return c
    (ma, ea), (mb, eb), (mc, ec) = _significand64(a), _significand64(b), _significand64(c)
    product, place = ma * mb, ea + eb
    low = min(place, ec)
    total = (-product if sign else product) << (place - low)
    total += (-mc if c >> 63 else mc) << (ec - low)
    if total == 0:
        if product == 0 and mc == 0 and sign == c >> 63:
            return c
        return MINUS if rounding == "rm" else 0
    return _round64(total, low, rounding)


def _significand64(x: int) -> tuple[int, int]:
    field = x >> 52 & 0x7FF
    return (x & (1 << 52) - 1) | (bool(field) << 52), max(field, 1) - 1075


def _round64(total: int, unit: int, rounding: str) -> int:
    sign, size = int(total < 0), abs(total)
    last = max(size.bit_length() - 1 + unit, -1022) - 52
    drop = last - unit
    digits = size >> drop if drop >= 0 else size << -drop
    rest = size & (1 << drop) - 1 if drop > 0 else 0
    if rest:
        half = 1 << (drop - 1)
        digits += {"rn": rest > half or (rest == half and digits & 1), "rz": 0, "rm": sign, "rp": 1 - sign}[rounding]
    if digits >> 53:
        digits, last = digits >> 1, last + 1
    if last + 52 > 1023:
        away = rounding == "rn" or (rounding == "rm" and sign) or (rounding == "rp" and not sign)
        return sign << 63 | (ENDLESS if away else ENDLESS - 1)
    return sign << 63 | ((last + 1075 << 52 | digits & (1 << 52) - 1) if digits >> 52 else digits)


def _chain64(row: tuple[int, ...], column: tuple[int, ...], total: int, rounding: str) -> int:
    for x, y in zip(row, column, strict=True):
        total = fma64(x, y, total, rounding)
    return total


def f64(form: Form, words: Registers) -> Registers:
    """A chain of fused multiply-adds from C, k ascending."""
    na, nb, _, _ = form.words
    a, b, c = matrix_a(form, words[:, :na]), matrix_b(form, words[:, na : na + nb]), matrix_c(form, words[:, na + nb :])
    rounding = next((r for r in ("rn", "rz", "rm", "rp") if f".{r}." in form.opcode), "rn")
    d = c.view(np.uint64).copy()
    for case in range(len(words)):
        rows, columns = ([tuple(line) for line in x.view(np.uint64).tolist()] for x in (a[case], b[case].T))
        known: dict[tuple[tuple[int, ...], tuple[int, ...], int], int] = {}  # probes ask the same everywhere
        for i, n in np.ndindex(d.shape[1:]):
            key = rows[i], columns[n], int(d[case, i, n])
            if key not in known:
                known[key] = _chain64(*key, rounding)
            d[case, i, n] = known[key]
    return words_d(form, d.view(np.int64))


# ------------------------------------------------------------------------------------------------------------------
# m8n8k4


def _quad_places(form: Form, letter: str) -> tuple[Integers, Integers, Integers]:
    """(matrix, row, column) of the element [register-and-j in order, lane], as PTX ISA 9.0, 9.7.14.5.1, has them."""
    matrix = LANE // 4 % 4
    upper = 4 * (LANE >= 16)
    i = np.arange({"a": 4, "b": 4}.get(letter, 8))[:, None]
    element = {"c": form.c, "d": form.d}.get(letter, "")
    if letter == "a":
        row, column = (
            (LANE % 4 + upper + 0 * i, i + 0 * LANE) if form.layouts[0] == "row" else (i + upper, LANE % 4 + 0 * i)
        )
    elif letter == "b":
        row, column = (
            (LANE % 4 + 0 * i, i + upper) if form.layouts[1] == "row" else (i + 0 * LANE, LANE % 4 + upper + 0 * i)
        )
    elif element == "f16":
        row, column = LANE % 4 + upper + 0 * i, i + 0 * LANE
    else:
        row, column = (LANE & 1) + (i & 2) + upper, (i & 4) + (LANE & 2) + (i & 1)
    return matrix + 0 * row, row, column


def m8n8k4(form: Form, words: Registers) -> Registers:
    """f16 m8n8k4 of sm_80 and later: a routine in IEEE single precision (SASS of ptxas 13.0; measured on an H100,
    November 2026).

    f32 result: C + chain of fused multiply-adds from +0. f16 result: C + pair (k = 0, 1) + pair (k = 2, 3), where a
    pair is fma(a1, b1, a0 * b0), rounded to f16 at the end.
    """
    na, nb = form.words[:2]

    def gather(letter: str, part: Registers, element: str, shape: tuple[int, int]) -> NDArray[np.float32]:
        found = elements(part, element)
        found = found.transpose(0, 1, 3, 2).reshape(len(part), -1, LANES)
        result = np.zeros((len(part), 4, *shape), np.int64)
        result[(slice(None), *_quad_places(form, letter))] = found
        if element == "f16":
            return result.astype(np.uint16).view(np.float16).astype(np.float32)
        return result.astype(np.uint32).view(np.float32)

    with np.errstate(all="ignore"):
        a, b = gather("a", words[:, :na], "f16", (8, 4)), gather("b", words[:, na : na + nb], "f16", (4, 8))
        c = gather("c", words[:, na + nb :], form.c, (8, 8))
        # a product of two f16 is an f32 number; its sum with another, in f64 and then rounded to f32, is the fused
        # result (53 >= 2 * 24 + 2)
        product = (a.astype(np.float64)[..., :, :, None] * b.astype(np.float64)[..., None, :, :]).transpose(
            3, 0, 1, 2, 4
        )
        if form.d == "f32":
            total = np.zeros_like(c)
            for k in range(4):
                total = (product[k] + total.astype(np.float64)).astype(np.float32)
            d = c + total
        else:
            pairs = [(product[k + 1] + product[k]).astype(np.float32) for k in (0, 2)]
            d = ((c + pairs[0]) + pairs[1]).astype(np.float16)
    raw, nan = (np.uint32, 0x7FFFFFFF) if form.d == "f32" else (np.uint16, 0x7FFF)
    patterns = np.where(np.isnan(d), raw(nan), d.view(raw))
    found = patterns[(slice(None), *_quad_places(form, "d"))].astype(np.uint32)
    return found if form.d == "f32" else found[:, 0::2] | found[:, 1::2] << np.uint32(16)


# --------------------------------------------------------------------------------------------- sparse 8-bit floats and
# %tid.x


def _up(x: Registers, by: int) -> Registers:
    """shfl.up over the warp: lanes that have none keep their own."""
    return np.concatenate([x[..., :by], x[..., :-by]], axis=-1)


def _down(x: Registers, by: int) -> Registers:
    return np.concatenate([x[..., by:], x[..., -by:]], axis=-1)


def sparse_fp8_sequence(form: Form, words: Registers, tid_x: Integers) -> Registers:
    """`mma.sp` m16n8k64 of 8-bit floats as ptxas 13.0 writes it for sm_90 (read from its code), for any %tid.x of the
    lanes [case or 1, lane].

    B and metadata move between the lanes of a quad; who keeps what is decided by %tid.x mod 4, where the lane's number
    is meant.
    """
    na, nb, nc, _ = form.words
    e = words[:, -1]
    even, t = tid_x % 2 == 0, tid_x % 4

    def halves(part: Registers, element: str) -> tuple[Registers, Registers]:
        wide = to_f16(elements(part, element), element).astype(np.uint32)
        return wide[..., 0] | wide[..., 1] << np.uint32(16), wide[..., 2] | wide[..., 3] << np.uint32(16)

    a_low, a_high = halves(words[:, :na], form.a)
    low, high = halves(words[:, na : na + nb], form.b)
    first = np.where(even[:, None], low, _up(high, 1))
    second = np.where(even[:, None], _down(low, 1), high)
    packed = [
        sum((e >> np.uint32(8 * i + 4 * odd) & np.uint32(15)) << np.uint32(4 * i) for i in range(4)).astype(np.uint32)  # type: ignore[union-attr]
        for odd in (0, 1)
    ]  # type: ignore[union-attr]
    neighbour = _down(packed[0] | packed[1] << np.uint32(16), 1)
    upper = np.where(even, packed[1] | neighbour & np.uint32(0xFFFF0000), packed[1])
    upper = np.where(t == 3, _up(upper, 1), upper)
    upper = np.where(t == 2, _up(upper, 2), upper)
    lower = np.where(even, packed[0] | neighbour << np.uint32(16), packed[0])
    lower = np.where(t == 1, _down(lower, 1), lower)
    codes = np.where(t >= 2, upper, lower).astype(np.uint32)
    step = Form("", "", (16, 8, 32), "f16", "f16", form.c, form.d, sparse=True)
    c = matrix_c(form, words[:, na + nb : na + nb + nc])
    total = np.zeros_like(c)
    for selector, (left, right) in enumerate(((a_low, first), (a_high, second))):
        b = partners(step, matrix_b(step, right), codes, selector)
        total = fused_step(read(matrix_a(step, left)[:, :, None, :], "f16"), read(b, "f16"), total, "f32", 25, -133)
    return words_d(form, add(c, total, "f32"))


def tid_x(block: tuple[int, int, int], cases: list[int]) -> Integers:
    """%tid.x of every lane of the warps that run these of all cases, in blocks of this shape: [case, lane]."""
    warps = block[0] * block[1] * block[2] // LANES
    linear = (np.array(cases) % warps)[:, None] * LANES + LANE
    return linear % block[0]


# --------------------------------------------------------------------------------------------------------------
# comparison


BLOCK = (128, 1, 1)


def expected(
    form: Form, words: Registers, block: tuple[int, int, int] = BLOCK, cases: list[int] | None = None
) -> Registers:
    """What these models say: [case, word, lane]. `cases`: their numbers among those that ran together, if not 0, 1, 2,
    ..."""
    if form.wgmma:
        return wgmma(form, words)
    if form.group == "sparse_fp8":
        return sparse_fp8_sequence(form, words, tid_x(block, list(range(len(words))) if cases is None else cases))
    if form.group == "f64":
        return f64(form, words)
    if form.quads:
        return m8n8k4(form, words)
    if form.d == "s32":
        return integers(form, words)
    return floats_sparse(form, words) if form.sparse else floats_dense(form, words)


def simulated(form: Form, words: Registers) -> Registers:
    """What the simulator says; for `wgmma` the product of matrices, of a sparse one that of each row with what its
    metadata selects."""
    from simulator import mma, mma_sp
    from simulator.arithmetic import product

    na, nb, nc, nd = form.words
    operands = [words[:, :na], words[:, na : na + nb], words[:, na + nb : na + nb + nc]]
    if form.wgmma:
        a, b, c = matrix_a(form, operands[0]), matrix_b(form, operands[1]), matrix_c(form, operands[2])
        if form.sparse:
            b = partners(form, b, words[:, -1]).transpose(0, 1, 3, 2).reshape(16 * len(words), -1, 8)
            a, c = a.reshape(16 * len(words), 1, -1), c.reshape(16 * len(words), 1, 8)
        types = {"a_type": form.a, "b_type": form.b, "d_type": form.d}
        d = product(
            *(x.astype(np.uint32) for x in (a, b, c)),
            family="wgmma",
            target="sm_90a",
            saturate="satfinite" in form.opcode,
            **types,
        )
        return words_d(form, d.astype(np.int64).reshape(-1, 16, 8))
    if form.a == "f64":
        d = mma(form.opcode, *(elements(x, "f64")[..., 0].view(np.uint64) for x in operands), target="sm_90a")
        return (
            np.stack([d & np.uint64(0xFFFFFFFF), d >> np.uint64(32)], axis=2)
            .astype(np.uint32)
            .reshape(len(d), nd, LANES)
        )
    if form.sparse:
        return mma_sp(form.opcode, *operands, words[:, -1], target="sm_90a")
    return mma(form.opcode, *operands, target="sm_90a")


def predictions(form: Form, words: Registers, name: str) -> Iterator[tuple[str, Registers]]:
    """(who, what) of the models and, in ordinary blocks, of the simulator."""
    ordinary = name in ("random", "probes")
    yield "reference", expected(form, words, BLOCK if ordinary else block_of(name))
    if ordinary:
        yield "simulator", simulated(form, words)


def block_of(name: str) -> tuple[int, int, int]:
    """ "2x16x1" -> (2, 16, 1)."""
    x, y, z = map(int, name.split("x"))
    return x, y, z
