"""A second opinion on `tcgen05.mma`: where its operands lie and what it computes, typed by hand from the documents,
without the code under test.

Nothing of `isa` or `simulator` is used. Shared memory and Tensor Memory are plain arrays; a matrix is an array of
patterns, rows of A (or columns of B) first. Formulas: PTX ISA 9.0, 9.7.16 (canonical layouts, data path layouts, sparse
matrices, block scaling, descriptors); CUTLASS's mma_traits_sm100_frag.hpp for metadata and scale factors. What no
source states is marked assumed, as in the code under test.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]
Reals = NDArray[np.float64]
LANES, COLUMNS = 128, 512

# Number formats: bits in a register or cell, exponent bits, fraction bits, unused low bits, bits in shared memory,
# elements in 16 bytes of it
FORMATS = {
    "f16": (16, 5, 10, 0, 16, 8),
    "bf16": (16, 8, 7, 0, 16, 8),
    "tf32": (32, 8, 10, 13, 32, 4),
    "f32": (32, 8, 23, 0, 32, 4),
    "e4m3": (8, 4, 3, 0, 8, 16),
    "e5m2": (8, 5, 2, 0, 8, 16),
    "e3m2": (8, 3, 2, 0, 6, 16),
    "e2m3": (8, 2, 3, 0, 6, 16),
    "e2m1": (8, 2, 1, 2, 4, 16),
    "packed": (4, 2, 1, 0, 4, 32),
    "s8": (8, 0, 0, 0, 8, 16),
    "u8": (8, 0, 0, 0, 8, 16),
}
NARROW = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")
TYPE_CODES = {
    "f16": 0,
    "bf16": 1,
    "tf32": 2,
    "e4m3": 0,
    "e5m2": 1,
    "e2m3": 3,
    "e3m2": 4,
    "e2m1": 5,
    "packed": 1,
    "u8": 0,
    "s8": 1,
}
D_CODES = {"f16": 0, "f32": 1, "s32": 2}
DENSE_K = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}
CHUNK = {"tf32": 2, "f16": 4, "f8f6f4": 4, "i8": 4, "mxf8f6f4": 4, "mxf4": 8, "mxf4nvf4": 8}
FACTORS = {"": 2, "1X": 1, "2X": 2, "4X": 4, "block32": 2, "block16": 4}  # of mxf4 and mxf4nvf4; mxf8f6f4 has one
SEVEN = (0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b0110, 0b1110)
TF32_CODES = (0b0100, 0b1110)


def legal_m(kind: str, group: int, sparse: bool, ws: bool) -> tuple[int, ...]:
    """PTX ISA 9.0, 9.7.16.2.1, typed again."""
    if kind.startswith("mx"):
        return () if ws else (128,) if group == 1 else (256,) if sparse else (128, 256)
    if ws:
        return (32, 64, 128) if group == 1 else ()
    return (64, 128) if group == 1 else (128, 256)


def some_n(kind: str, group: int, sparse: bool, ws: bool) -> tuple[int, ...]:
    """The smallest and the largest legal N, and some between, odd multiples of the granularity among them."""
    if ws:
        return (64, 128) if sparse else (64, 128, 256)
    if kind == "i8":
        return (8, 24, 112, 256) if group == 1 else (32, 96, 160, 256)
    return (8, 40, 112, 256) if group == 1 else (16, 80, 144, 256)


def layout_of(m: int, group: int, sparse: bool, ws: bool) -> str:
    """Letter of the data path layout. PTX ISA 9.0, 9.7.16.10.5."""
    if group == 2:
        return "A" if m == 256 else "C" if sparse else "B"
    if m == 128:
        return "D"
    return {64: "E", 32: "G"}[m] if ws else "F"


PARTS = {"A": 1, "B": 2, "C": 1, "D": 1, "E": 2, "F": 1, "G": 4}
HALVES = "CF"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One instruction. Swizzle codes as in the descriptor: 0 none, 1 128B of 32-byte atoms, 2 128B, 4 64B, 6 32B;
    `base`: lane of D, A, metadata."""

    kind: str
    m: int
    n: int
    a: str = "f16"
    b: str = "f16"
    d: str = "f32"
    group: int = 1
    sparse: bool = False
    ws: bool = False
    tmem: bool = False
    base: int = 0
    vector: str = ""
    scale: str = "ue8m0"
    ids: tuple[int, int] = (0, 0)
    majors: str = "KK"
    swizzles: tuple[int, int] = (2, 2)
    selector: int = 0
    negate: tuple[bool, bool] = (False, False)
    saturate: bool = False
    enable: bool = True
    scale_d: int = 0
    lanes: tuple[int, ...] = ()
    zero_mask: int = 0
    max_shift: int = 0
    ashift: bool = False
    collector: str = ""

    def __str__(self) -> str:
        words = [
            self.kind,
            self.vector,
            self.a,
            self.b,
            self.d,
            f"m{self.m}n{self.n}",
            f"cta{self.group}",
            "sp" * self.sparse,
            "ws" * self.ws,
        ]
        words += [
            "tmem" * self.tmem + str(self.base),
            self.majors,
            "".join(map(str, self.swizzles)),
            f"sel{self.selector}" * self.sparse,
        ]
        return "-".join(w for w in words if w)

    @property
    def layout(self) -> str:
        return layout_of(self.m, self.group, self.sparse, self.ws)

    @property
    def rows(self) -> int:
        """Of A in one CTA."""
        return self.m // self.group

    @property
    def k(self) -> int:
        return DENSE_K[self.kind] * (2 if self.sparse else 1)

    @property
    def stored(self) -> int:
        return DENSE_K[self.kind]

    @property
    def chunks(self) -> int:
        return self.k // CHUNK[self.kind]

    @property
    def mx(self) -> bool:
        return self.kind.startswith("mx")

    @property
    def factors(self) -> int:
        return 0 if not self.mx else 1 if self.kind == "mxf8f6f4" else FACTORS[self.vector]

    @property
    def shift(self) -> int:
        """First column of B that is used."""
        return self.zero_mask >> 56 & 63

    @property
    def idesc(self) -> int:
        """The instruction descriptor: tables 42, 43, 44."""
        word = self.sparse << 2 | TYPE_CODES[self.a] << 7 | TYPE_CODES[self.b] << 10
        word |= (
            self.negate[0] << 13
            | self.negate[1] << 14
            | (self.majors[0] == "M") << 15
            | (self.majors[1] == "M") << 16
            | self.n >> 3 << 17
        )
        if self.mx:
            return word | self.ids[1] << 4 | (self.scale == "ue8m0") << 23 | self.m >> 7 << 27 | self.ids[0] << 29
        return (
            word
            | self.selector
            | self.saturate << 3
            | D_CODES[self.d] << 4
            | self.m >> 4 << 24
            | {0: 0, 8: 1, 16: 2, 32: 3}[self.max_shift] << 30
        )

    @property
    def ptx(self) -> str:
        """The instruction, in registers."""
        name = "tcgen05.mma" + ".ws" * self.ws + ".sp" * self.sparse + f".cta_group::{self.group}.kind::{self.kind}"
        if self.mx:
            name += ".block_scale" + (
                f".{'scale_vec::' * self.vector.endswith('X')}{self.vector}" if self.vector else ""
            )
        name += ".ashift" * self.ashift + (f".collector::{self.collector}" if self.collector else "")
        operands = [
            "[%r0]",
            "[%r1]" if self.tmem else "%rd1",
            "%rd2",
            *["[%r3]"] * self.sparse,
            "%r4",
            *["[%r5]", "[%r6]"] * self.mx,
        ]
        if self.lanes:
            operands.append("{" + ", ".join(f"%r{10 + i}" for i in range(len(self.lanes))) + "}")
        operands += ["%p1", *[str(self.scale_d)] * bool(self.scale_d), *["%rd3"] * bool(self.zero_mask)]
        return f"{name} {', '.join(operands)};"


@dataclass
class Operands:
    """Matrices of patterns of a whole instruction: stored A [m, stored], codes [m, chunk], B [n + shift, k], C [m, n],
    factors [m or n, factor]."""

    a: Words
    b: Words
    c: Words
    codes: Words | None
    scale_a: Words | None
    scale_b: Words | None


# Values


def values(patterns: Words, name: str) -> Reals:
    """What patterns mean."""
    if name in ("u8", "s8", "s32"):
        return patterns.astype({"u8": np.uint8, "s8": np.int8, "s32": np.int32}[name]).astype(np.float64)
    if name == "ue8m0":
        return np.where(patterns == 255, np.nan, 2.0 ** (patterns.astype(np.float64) - 127))
    if name == "ue4m3":
        return values(patterns & np.uint32(0x7F), "e4m3")
    _, exponent, fraction, unused, *_ = FORMATS[name]
    p = patterns.astype(np.int64) >> unused
    field, low, bias = p >> fraction & ((1 << exponent) - 1), p & ((1 << fraction) - 1), (1 << exponent - 1) - 1
    size = np.where(
        field == 0, low * 2.0 ** (1 - bias - fraction), (low + 2.0**fraction) * 2.0 ** (field - bias - fraction)
    )
    if name in ("f16", "bf16", "tf32", "f32", "e5m2"):
        size = np.where(field == (1 << exponent) - 1, np.where(low == 0, np.inf, np.nan), size)
    if name == "e4m3":
        size = np.where((field == 15) & (low == 7), np.nan, size)
    return np.where(p >> (fraction + exponent) & 1, -size, size)


def rounded(sums: Reals, name: str) -> Words:
    """Exact sums to the nearest number of a type, ties to even; an exact zero is +0."""
    with np.errstate(over="ignore"):
        if name == "f16":
            return (sums + 0.0).astype(np.float16).view(np.uint16).astype(np.uint32)
        return (sums + 0.0).astype(np.float32).view(np.uint32)


def nearest(sum_: Fraction, name: str) -> int:
    """The same for one fraction, in integers."""
    exponent, fraction = (5, 10) if name == "f16" else (8, 23)
    bias, sign, size = (1 << exponent - 1) - 1, sum_ < 0, abs(sum_)
    if not size:
        return 0
    top = size.numerator.bit_length() - size.denominator.bit_length()
    top -= size < Fraction(2) ** top
    quantum = Fraction(2) ** (max(top, 1 - bias) - fraction)
    whole = round(size / quantum)  # to even
    # the pattern counts quanta: a carry into the next exponent comes out right by itself
    pattern = whole if top < 1 - bias else whole + (top + bias - 1 << fraction)
    return int(sign) << (exponent + fraction) | min(pattern, (1 << exponent) - 1 << fraction)


_WINDOWS = {
    "f16": (11, 19),
    "bf16": (122, 132),
    "tf32": (122, 132),
    "f32": (127, 142),
    "e5m2": (10, 19),
}  # biased exponents


def patterns(rng: np.random.Generator, name: str, shape: tuple[int, ...], zeros: float = 0.1) -> Words:
    """Random numbers of a type whose products float64 adds without error; some are zeros, of both signs."""
    bits, exponent, fraction, unused, *_ = FORMATS.get(name, (32, 0, 0, 0, 0, 0))
    if not exponent:
        return rng.integers(0, 1 << bits, shape, dtype=np.uint32)
    low, high = _WINDOWS.get(name, (0, (1 << exponent) - 1))
    field = rng.integers(low, high, shape, endpoint=True, dtype=np.uint32)
    p = rng.integers(0, 2, shape, dtype=np.uint32) << np.uint32(exponent + fraction) | rng.integers(
        0, 1 << fraction, shape, dtype=np.uint32
    )
    p |= field << np.uint32(fraction)
    if name == "e4m3":
        p = np.where(p & 0x7F == 0x7F, np.uint32(0x38), p)
    p = np.where(rng.random(shape) < zeros, p & np.uint32(1 << (exponent + fraction)), p) << np.uint32(unused)
    if name == "tf32":
        p |= rng.integers(0, 1 << unused, shape, dtype=np.uint32)  # hardware drops them
    return p


def factors(rng: np.random.Generator, name: str, shape: tuple[int, ...]) -> Words:
    """Random scale factors; ue4m3 without NaN, its sign bit at random (it is ignored)."""
    if name == "ue8m0":
        return rng.integers(125, 130, shape, dtype=np.uint32)
    return rng.integers(0, 0x7F, shape, dtype=np.uint32) | rng.integers(0, 2, shape, dtype=np.uint32) << np.uint32(7)


def operands(case: Case, rng: np.random.Generator) -> Operands:
    codes = None
    if case.sparse:
        codes = rng.choice(np.array(TF32_CODES if case.kind == "tf32" else SEVEN, np.uint32), (case.m, case.chunks))
    scales = [factors(rng, case.scale, (size, case.factors)) if case.mx else None for size in (case.m, case.n)]
    return Operands(
        patterns(rng, case.a, (case.m, case.stored)),
        patterns(rng, case.b, (case.n + case.shift, case.k)),
        patterns(rng, case.d, (case.m, case.n)),
        codes,
        *scales,
    )


# What is computed


def expand(stored: NDArray, codes: Words, kind: str) -> NDArray:  # type: ignore[type-arg]
    """Stored A [row, stored] to A [row, k], zero where nothing is stored; loops over the chunks, descending codes
    included."""
    chunk = CHUNK[kind]
    full = np.zeros((stored.shape[0], codes.shape[1] * chunk), stored.dtype)
    row = np.arange(stored.shape[0])
    for q in range(codes.shape[1]):
        if kind == "tf32":
            full[row, 2 * q + (codes[:, q] == 0b1110)] = stored[:, q]
        elif chunk == 4:
            full[row, 4 * q + (codes[:, q] & 3)] = stored[:, 2 * q]
            full[row, 4 * q + (codes[:, q] >> 2)] = stored[:, 2 * q + 1]
        else:
            for i in (0, 1):
                full[row, 8 * q + 2 * (codes[:, q] & 3) + i] = stored[:, 4 * q + i]
                full[row, 8 * q + 2 * (codes[:, q] >> 2) + i] = stored[:, 4 * q + 2 + i]
    return full


def zeroed_columns(word: int, m: int, n: int) -> list[bool]:
    """Which columns a zero-column mask zeroes, bit by bit. PTX ISA 9.0, 9.7.16.4.3, by its examples."""
    if not word >> 39 & 1:
        return [False] * n
    skip, use, parts = (word >> 40 & 255) + 1, (word >> 48 & 255) + 1, {128: 1, 64: 2, 32: 4}[m]
    mask = []
    for part in range(parts):
        ones, zeros = [True] * skip, [False] * use
        period = ones + zeros if word >> 32 + part & 1 else zeros + ones
        endless = period * (1 + (n + 256) // len(period))
        mask += endless[word >> 8 * part & 255 :][: n // parts]
    return mask


def flipped(matrix: Words, name: str) -> Words:
    """The same numbers with the other sign."""
    _, exponent, fraction, unused, *_ = FORMATS[name]
    return matrix ^ np.uint32(1 << unused + fraction + exponent)


def effective(case: Case, given: Operands) -> Operands:
    """What goes into the sum: shifts, masks, signs and the scale of D applied; B is [n, k]."""
    a, b, c = given.a.copy(), given.b[case.shift :].copy(), given.c.copy()
    if case.ashift:  # row r takes what is in row r + 1, the last of a CTA stays (assumed)
        for rank in range(case.group):
            for row in range(case.rows - 1):
                a[rank * case.rows + row] = given.a[rank * case.rows + row + 1]
    a, b = (flipped(x, t) if negate else x for x, t, negate in zip((a, b), (case.a, case.b), case.negate, strict=True))
    for column, zero in enumerate(zeroed_columns(case.zero_mask, case.m, case.n)):
        if zero:
            b[column] = 0
    if not case.enable:
        c = np.zeros_like(c)
    if case.scale_d:
        c = rounded(values(c, case.d) / 2**case.scale_d, case.d)
    return Operands(a, b, c, given.codes, given.scale_a, given.scale_b)


def exact(case: Case, given: Operands) -> Words:
    """D [m, n]: the exact sum rounded once; integers wrap or saturate."""
    has = effective(case, given)
    a, b = values(has.a, case.a), values(has.b, case.b)
    if has.codes is not None:
        a = expand(a, has.codes, case.kind)
    if case.mx:
        assert has.scale_a is not None
        assert has.scale_b is not None
        each = case.k // case.factors
        a = a * np.repeat(values(has.scale_a, case.scale), each, axis=1)
        b = b * np.repeat(values(has.scale_b, case.scale), each, axis=1)
    if case.d == "s32":
        sums = a.astype(np.int64) @ b.astype(np.int64).T + has.c.astype(np.int32)
        return (np.clip(sums, -(2**31), 2**31 - 1) if case.saturate else sums).astype(np.int32).view(np.uint32)
    c = values(has.c, case.d)
    quantum = min(_lowest_bit(a) + _lowest_bit(b), _lowest_bit(c))
    largest = np.abs(a).sum(axis=1).max() * np.abs(b).max() + np.abs(c).max()
    if largest >= 2.0 ** (52 + quantum):  # that was too simple
        largest = (np.abs(a) @ np.abs(b).T + np.abs(c)).max()
    assert largest < 2.0 ** (52 + quantum), f"float64 would round: {largest} in units of 2^{quantum}"
    return rounded(a @ b.T + c, case.d)


def _lowest_bit(x: Reals) -> int:
    """Exponent of the lowest bit that is set in any of the numbers."""
    fraction, exponent = np.frexp(x[x != 0])
    if not fraction.size:
        return 0
    whole = np.abs(fraction * 2.0**53).astype(np.int64)
    return int((np.log2((whole & -whole).astype(np.float64)) + exponent - 53).min())


def exact_chain(case: Case, given: Operands, times: int) -> Words:
    """D [m, n] of so many executions one after the other, rounded once: in Python's integers and one fraction."""
    has, unit = effective(replace(case, scale_d=0), given), 160  # no number has a bit below 2^-160

    def whole(patterns: Words, name: str) -> NDArray[Any]:
        return np.vectorize(lambda x: int(Fraction(x) * 2**unit), otypes=[object])(values(patterns, name))

    a, b, c = whole(has.a, case.a), whole(has.b, case.b), whole(has.c, case.d)
    if has.codes is not None:
        a = expand(a, has.codes, case.kind)
    units = 2
    if case.mx and has.scale_a is not None and has.scale_b is not None:
        a = a * np.repeat(whole(has.scale_a, case.scale), case.k // case.factors, axis=1)
        b = b * np.repeat(whole(has.scale_b, case.scale), case.k // case.factors, axis=1)
        units = 4
    products, c, half = a @ b.T, c * 2 ** (unit * (units - 1)), Fraction(1, 2**case.scale_d)
    if not case.enable:
        times = 1
    often, last, one = sum(half**i for i in range(times)), half**times, Fraction(1, 2 ** (unit * units))
    totals = [(p * often + x * last) * one for p, x in zip(products.ravel(), c.ravel(), strict=True)]
    if case.d == "s32":
        wrapped = [min(max(int(x), -(2**31)), 2**31 - 1) if case.saturate else int(x) for x in totals]
        return np.array([x & 0xFFFFFFFF for x in wrapped], np.uint32).reshape(c.shape)
    return np.array([nearest(x, case.d) for x in totals], np.uint32).reshape(c.shape)


def exact_fractions(case: Case, given: Operands, row: int, column: int) -> int:
    """One element of D in fractions: patterns of any size."""
    has = effective(case, given)
    stored = [Fraction(x) for x in values(has.a[row], case.a).tolist()]
    b = [Fraction(x) for x in values(has.b[column], case.b).tolist()]
    a = stored
    if has.codes is not None:
        a, chunk, codes = [Fraction(0)] * case.k, CHUNK[case.kind], has.codes[row].tolist()
        for i, x in enumerate(stored):
            if case.kind == "tf32":
                place = 2 * i + (codes[i] >> 3)
            elif chunk == 4:
                place = 4 * (i // 2) + (codes[i // 2] >> 2 * (i % 2) & 3)
            else:
                place = 8 * (i // 4) + 2 * (codes[i // 4] >> 2 * (i // 2 % 2) & 3) + i % 2
            a[place] = x
    total = Fraction(float(values(has.c[row, column], case.d)))
    for k in range(case.k):
        term = a[k] * b[k]
        if case.mx and has.scale_a is not None and has.scale_b is not None:
            block = k // (case.k // case.factors)
            term *= Fraction(float(values(has.scale_a[row, block], case.scale))) * Fraction(
                float(values(has.scale_b[column, block], case.scale))
            )
        total += term
    return nearest(total, case.d)


# Shared memory


@dataclass(frozen=True)
class Place:
    """A matrix in shared memory: major-ness "K" or "M", swizzle code, first byte, byte offsets."""

    major: str
    swizzle: int
    start: int
    leading: int
    stride: int

    @property
    def word(self) -> int:
        """The shared memory descriptor. PTX ISA 9.0, 9.7.16.4.1, table 40."""
        return self.start >> 4 | self.leading >> 4 << 16 | self.stride >> 4 << 32 | 1 << 46 | self.swizzle << 61


WIDTH = {1: 128, 2: 128, 4: 64, 6: 32}  # bytes of a row of the swizzle


def place(major: str, swizzle: int, start: int, rows: int, columns: int, name: str) -> Place:
    """A place for a matrix, with gaps between its core matrices or atoms where the layout allows them."""
    per = FORMATS[name][5]
    if major == "K":
        if swizzle == 0:
            return Place(major, 0, start, 128, 128 * -(-columns // per) + 32)
        return Place(major, swizzle, start, 0x30, 8 * WIDTH[swizzle])  # the leading offset is ignored
    units = -(-rows // per)
    if swizzle == 0:
        return Place(major, 0, start, 128 * units + 16, 128)
    atom = WIDTH[swizzle] * (4 if swizzle == 1 else 8)
    return Place(major, swizzle, start, atom, atom * -(-units * 16 // WIDTH[swizzle]) + 1024)


@lru_cache(maxsize=256)
def bit_addresses(at: Place, rows: int, columns: int, name: str) -> NDArray[np.int64]:
    """Bit addresses [row, k] of the elements: the canonical layouts, and the exclusive or on the address."""
    *_, bits, per = FORMATS[name]
    row, k = np.indices((rows, columns))
    if at.major == "K" and at.swizzle == 0:  # ((8,m),(T,2k)):((1T,SBO),(1,LBO))
        byte = row % 8 * 16 + row // 8 * at.stride + k // per * at.leading
    elif at.major == "K":  # ((8,m),(T,2k)):((2T|4T|8T,SBO),(1,T))
        byte = row % 8 * WIDTH[at.swizzle] + row // 8 * at.stride + k // per * 16
    elif at.swizzle == 0:  # ((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))
        byte = row // per * at.stride + k % 8 * 16 + k // 8 * at.leading
    else:  # ((T,2|4|8,m),(8,k)):((1,T,LBO),(2T|4T|8T,SBO)); 32-byte atoms ((T,8,m),(4,k)):((1,T,LBO),(8T,SBO))
        units, lines = WIDTH[at.swizzle] // 16, 4 if at.swizzle == 1 else 8
        byte = (
            row // per % units * 16
            + row // per // units * at.leading
            + k % lines * WIDTH[at.swizzle]
            + k // lines * at.stride
        )
    byte = byte + at.start
    if at.swizzle == 1:
        byte ^= (byte >> 7 & 3) << 5
    elif at.swizzle:
        byte ^= (byte >> 7 & {2: 7, 4: 3, 6: 1}[at.swizzle]) << 4
    found = byte * 8 + (k if at.major == "K" else row) % per * bits
    assert len(np.unique(found)) == found.size, "elements overlap"
    return found


def store(memory: NDArray[np.uint8], at: Place, matrix: Words, name: str) -> None:
    """Writes a matrix [row, k]; padding keeps its bytes. 6 and 4 bits follow one another, lowest bits first, then comes
    padding up to 16 bytes."""
    bits = FORMATS[name][4]
    address = bit_addresses(at, *matrix.shape, name)
    whole = np.unpackbits(memory, bitorder="little")
    shift = 2 if name == "e2m1" else 0
    for i in range(bits):
        whole[address + i] = matrix >> np.uint32(i + shift) & 1
    memory[:] = np.packbits(whole, bitorder="little")


# Tensor Memory


def lanes_of(layout: str, row: NDArray[np.int64], base: int) -> NDArray[np.int64]:
    """Lane of a row in the first part of the data path."""
    return base + 32 * (row // 16) + row % 16 if layout in HALVES else row


def copies_of(layout: str) -> tuple[int, ...]:
    """By how many lanes the copies of A and of metadata lie higher (metadata of B: never, it is dense; E and G:
    inferred)."""
    return {"B": (0, 64), "E": (0, 64), "G": (0, 32, 64, 96)}.get(layout, (0,))


def d_cells(case: Case, column: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Lane and column of D [row in the CTA, n]."""
    row, n = np.indices((case.rows, case.n))
    layout = case.layout
    if layout in "AD":
        return row, column + n
    if layout in "BE":
        return row + 64 * (n // (case.n // 2)), column + n % (case.n // 2)
    if layout in "CF":
        return case.base + 32 * (row // 16) + row % 16, column + n
    return row + 32 * (n // (case.n // 4)), column + n % (case.n // 4)


def put(words: Words, lane: NDArray, column: NDArray | int, bit: NDArray | int, width: int, fields: Words) -> None:  # type: ignore[type-arg]
    """Writes fields of `width` bits into cells, and leaves the other bits alone; a field at a time in each cell."""
    lane, column, bit = np.broadcast_arrays(lane, column, bit)
    for b in np.unique(bit):
        here = bit == b
        mask = np.uint32(((1 << width) - 1) << int(b))
        words[lane[here], column[here]] = words[lane[here], column[here]] & ~mask | fields[here] << np.uint32(b)


def put_a(words: Words, case: Case, a: Words, column: int) -> None:
    """A of one CTA [row, stored], 32 bytes a row in 8 columns, low bits first."""
    width = FORMATS[case.a][0]
    row, k = np.indices(a.shape)
    for higher in copies_of(case.layout):
        put(words, lanes_of(case.layout, row, case.base) + higher, column + k * width // 32, k * width % 32, width, a)


def put_codes(words: Words, case: Case, codes: Words, column: int, selector: int | None = None) -> None:
    """Metadata of one CTA [row, chunk]. PTX ISA 9.0, 9.7.16.10.8; CUTLASS tmem_e_frg."""
    selector = case.selector if selector is None else selector
    row, chunk = np.indices(codes.shape)
    group = case.base + 32 * (row // 16) if case.layout in HALVES else 16 * (row // 16)
    for higher in copies_of(case.layout):
        if case.kind in ("f16", "tf32"):
            unit, nibble = chunk // 4, chunk % 4
            put(
                words,
                higher + group + row % 8 + 8 * (unit % 2),
                column + selector,
                16 * (row // 8 % 2) + 4 * nibble,
                4,
                codes,
            )
        else:
            put(words, higher + group + row % 16, column + chunk // 8, 4 * (chunk % 8), 4, codes)


def put_scales(words: Words, case: Case, scales: Words, column: int, operand: str) -> None:
    """Scale factors [row in the CTA or column of the instruction, factor] in all four quarters; of B in layout B, half
    of N in each two."""
    index, factor = np.indices(scales.shape)
    byte = case.ids[operand == "b"] + factor
    if operand == "b" and case.layout == "B":
        half, index = index // (case.n // 2), index % (case.n // 2)
        for higher in (0, 32):
            put(words, 64 * half + higher + index % 32, column + index // 32, 8 * byte, 8, scales)
        return
    for quarter in range(4):
        put(words, 32 * quarter + index % 32, column + index // 32, 8 * byte, 8, scales)


def put_d(words: Words, case: Case, matrix: Words, column: int, written: NDArray[np.bool_] | None = None) -> None:
    """D of one CTA, a cell each; lanes that are masked stay as they are."""
    lane, at = d_cells(case, column)
    kept = np.ones(lane.shape, np.bool_) if written is None else written[lane]
    words[lane[kept], at[kept]] = matrix[kept]


def written_lanes(words: tuple[int, ...], rank: int) -> NDArray[np.bool_]:
    """Which lanes a CTA writes: a bit keeps its lane; words 4 to 7 are the odd CTA's (assumed)."""
    mine = words[4 * rank : 4 * rank + 4] if len(words) == 8 else words
    return np.array([not (mine[lane // 32] >> lane % 32 & 1) if mine else True for lane in range(LANES)])
