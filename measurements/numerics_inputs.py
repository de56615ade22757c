"""Register contents to measure arithmetic with: random values of eleven kinds, and probes of one question each.

The random numbers are raw words of numpy's PCG64, whose stream never changes, worked on with integer operations: every
version of numpy makes the same contents, so outputs recorded elsewhere belong to inputs made here (`numerics.py`
compares digests all the same).
"""

from __future__ import annotations

import zlib
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from measurements.numerics_forms import BITS, Form

Words = NDArray[np.uint64]
LANES = 32
FLOATS = {
    "f16": (5, 10),
    "bf16": (8, 7),
    "tf32": (8, 10),
    "e4m3": (4, 3),
    "e5m2": (5, 2),
    "f32": (8, 23),
    "f64": (11, 52),
}
"""Bits of the exponent, bits of the fraction."""

KINDS = ("bits", "near", "cancel", "wide", "subnormal", "special", "huge", "halfway", "zeros", "minus", "late")
"""Kinds of contents; case i is of kind i mod 11.

bits: any bits. near: exponents around 0. cancel: few different values, C included. wide: exponents far apart.
    subnormal: factors or products
are subnormal. special: a few infinities, NaN of all payloads, largest and smallest numbers. huge: products or sums
overflow. halfway: fractions of few bits, so that sums tie. zeros: mostly zeros of both signs. minus: nothing but zeros,
mostly minus, a few smallest numbers.
late: C far above or below the products.
"""


class Stream:
    """Integers from raw words."""

    def __init__(self, *key: int) -> None:
        self.generator = np.random.PCG64(list(key))

    def words(self, count: int) -> Words:
        raw: Words = self.generator.random_raw(count)
        return raw

    def below(self, limit: int, count: int) -> NDArray[np.int64]:
        return ((self.words(count) >> np.uint64(32)) * np.uint64(limit) >> np.uint64(32)).astype(np.int64)

    def choice(self, values: list[int], count: int) -> NDArray[np.int64]:
        return np.array([value & (1 << 64) - 1 for value in values], np.uint64).view(np.int64)[
            self.below(len(values), count)
        ]


def _compose(element: str, sign: NDArray[np.int64], field: NDArray[np.int64], fraction: Words) -> Words:
    e, p = FLOATS[element]
    top = (1 << e) - 1 if element == "e4m3" else (1 << e) - 2
    field = np.clip(field, 0, top)
    if element == "e4m3":
        fraction = np.where((field == 15) & (fraction == 7), np.uint64(6), fraction)
    pattern: Words = sign.astype(np.uint64) << np.uint64(e + p) | field.astype(np.uint64) << np.uint64(p) | fraction
    return pattern


def _specials(element: str) -> list[int]:
    e, p = FLOATS[element]
    minus, top, one = 1 << (e + p), ((1 << e) - 1) << p, ((1 << (e - 1)) - 1) << p
    pool = [0, minus, 1, minus | 1, 1 << p, one, minus | one]
    if element == "e4m3":
        return [*pool, 0x7E, 0xFE, 0x7F, 0xFF, 0x78]
    quiet = 1 << (p - 1)
    largest = top - 1
    nans = [
        top | 1,
        minus | top | 1,
        top | quiet,
        minus | top | quiet,
        top | quiet | 1,
        minus | top | quiet >> 1 | 1,
        minus | top | (quiet << 1) - 1,
    ]
    return [*pool, top, minus | top, top, minus | top, largest, minus | largest, *nans]


def floats(stream: Stream, element: str, kind: str, count: int, inputs: str = "") -> Words:
    """Patterns of a float type. `inputs`: the type of A, where these are elements of C."""
    e, p = FLOATS[element]
    bias = (1 << (e - 1)) - 1
    sign, fraction = stream.below(2, count), stream.words(count) >> np.uint64(64 - p)
    few = stream.choice([0, 0, 1, (1 << p) - 1, 1 << (p - 1)], count).astype(np.uint64)
    source = FLOATS[inputs or element]
    low = 2 - (1 << (source[0] - 1))  # smallest normal exponent of the inputs
    match kind:
        case "bits":
            return stream.words(count) >> np.uint64(64 - 1 - e - p)
        case "near":
            centre = stream.choice([0, 0, 0, 4, -12, -24] if inputs else [0], count)
            return _compose(element, sign, bias + centre + stream.below(7, count) - 3, fraction)
        case "cancel":
            return _compose(element, sign, bias + stream.choice([0, 0, 0, 1, -5], count), few)
        case "wide":
            span = min(bias, 14 if source[0] < 8 or not inputs else 40)
            return _compose(element, sign, bias + stream.below(2 * span + 1, count) - span, fraction)
        case "subnormal":
            if element == "f64":
                centre = stream.choice([-1022, -1022, -1040] if inputs else [-511, -511, -500, -540, -1022, 0], count)
                return _compose(element, sign, bias + centre + stream.below(24, count) - 12, fraction)
            if inputs:
                return _compose(
                    element,
                    sign,
                    bias + stream.choice([2 * low, 2 * low + 4, 2 * low - 8, 1 - bias, -bias], count),
                    fraction,
                )
            return _compose(element, sign, stream.choice([0, 0, 1, 2, bias], count), fraction)
        case "special":
            pool, ordinary = _specials(element), _compose(element, sign, bias + stream.below(7, count) - 3, fraction)
            return np.where(stream.below(24, count) == 0, stream.choice(pool, count).astype(np.uint64), ordinary)
        case "huge":
            if element == "f64":
                centre = stream.choice([1022, 1023, 1000] if inputs else [511, 511, 510, 505, 512], count)
                return _compose(element, sign & stream.below(2, count), bias + centre, fraction)
            high = stream.choice(
                [bias, bias, bias - 1, 2 * (1 - low)] if inputs else [bias + (element == "e4m3"), bias, bias - 1], count
            )
            return _compose(element, sign & stream.below(2, count), bias + high, fraction)
        case "halfway":
            span = 30 if inputs else 4
            return _compose(element, sign, bias + stream.below(2 * span + 1, count) - span, few)
        case "zeros":
            ordinary = _compose(element, sign, bias + stream.below(5, count) - 2, few)
            return np.where(stream.below(5, count) > 0, sign.astype(np.uint64) << np.uint64(e + p), ordinary)
        case "minus":
            smallest = stream.below(12, count) == 0
            if inputs:
                return np.where(stream.below(3, count) > 0, np.uint64(1 << (e + p)), np.uint64(0)) | (
                    smallest & (stream.below(4, count) == 0)
                ).astype(np.uint64)
            return np.where(stream.below(8, count) > 0, np.uint64(1 << (e + p)), np.uint64(0)) | smallest.astype(
                np.uint64
            )
        case _:
            far = (
                stream.choice([p + 1, p + 2, p - 1, -p, -p - 2, -25, 25, 24], count)
                if inputs
                else np.zeros(count, np.int64)
            )
            return _compose(element, sign, bias + far + stream.below(3, count) - 1, few if inputs else fraction)


def integers(stream: Stream, element: str, kind: int, count: int) -> Words:
    """Patterns of an integer type: any, or the ends of the range."""
    bits = BITS[element]
    if kind % 3 == 0:
        return stream.words(count) >> np.uint64(64 - bits)
    ends = (
        [0, 1, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1]
        if kind % 3 == 1
        else [(1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1]
    )
    return stream.choice(ends, count).astype(np.uint64)


def accumulators(stream: Stream, form: Form, count: int) -> Words:
    """s32: any, small, and near both limits within the size of the sum of products."""
    reach = form.shape[2] << max(BITS[form.a] + BITS[form.b] - 3, 0)
    limit = stream.choice([0, 0x7FFFFFFF, -0x80000000, 0x7FFFFFFF, -0x80000000], count)
    near = (
        limit - np.sign(limit) * stream.below(reach, count) + np.where(limit == 0, stream.below(2001, count) - 1000, 0)
    )
    return np.where(stream.below(6, count) == 0, stream.words(count).astype(np.int64), near).astype(
        np.uint64
    ) & np.uint64(0xFFFFFFFF)


def pack(patterns: Words, element: str) -> NDArray[np.uint32]:
    """Patterns [..., word of a narrow type or element, j] -> words; f64 gives two words, the low one first."""
    bits = BITS[element]
    if bits == 64:
        return np.stack([patterns & np.uint64(0xFFFFFFFF), patterns >> np.uint64(32)], axis=-1).astype(np.uint32)
    shifts = (np.arange(32 // bits) * bits).astype(np.uint64)
    return (patterns << shifts).sum(axis=-1, dtype=np.uint64).astype(np.uint32)


def _operand(stream: Stream, form: Form, letter: str, words: int, kind: int) -> NDArray[np.uint32]:
    """One operand of one case: [word, lane]."""
    element = {"a": form.a, "b": form.b, "c": form.c}[letter]
    bits = BITS[element]
    elements = words * 32 // bits if bits < 64 else words // 2
    count = elements * LANES
    if element not in FLOATS:
        patterns = accumulators(stream, form, count) if letter == "c" else integers(stream, element, kind, count)
    else:
        patterns = floats(stream, element, KINDS[kind % len(KINDS)], count, form.a if letter == "c" else "")
        if element == "tf32":
            patterns = patterns << np.uint64(13) | stream.words(count) >> np.uint64(51)
    if bits == 64:
        return pack(patterns.reshape(elements, LANES), element).transpose(0, 2, 1).reshape(words, LANES)
    return pack(patterns.reshape(words, LANES, 32 // bits), element)


def metadata(stream: Stream, form: Form) -> NDArray[np.uint32]:
    """Codes that the ordered spelling defines: [1, lane]."""
    codes = [0b0100, 0b1110] if form.a == "tf32" else [0b0100, 0b1000, 0b1001, 0b1100, 0b1101, 0b1110]
    patterns = stream.choice(codes, LANES * 8).astype(np.uint64).reshape(LANES, 8)
    return pack(patterns, "s4")[None]


def random_cases(form: Form, cases: int, seed: int = 1) -> NDArray[np.uint32]:
    """[case, word, lane]. The four cases of a `wgmma` are of one kind and share B."""
    na, nb, nc, _ = form.words
    found = []
    for case in range(cases):
        stream = Stream(seed, zlib.crc32(form.opcode.encode()), case)
        kind = case // 4 if form.wgmma else case
        parts = [_operand(stream, form, letter, words, kind) for letter, words in (("a", na), ("b", nb), ("c", nc))]
        if form.sparse:
            parts.append(metadata(stream, form))
        found.append(np.concatenate(parts))
        if form.wgmma and case % 4:
            found[-1][na : na + nb] = found[case - case % 4][na : na + nb]
    return np.stack(found)


# ------------------------------------------------------------------------------------------------------------------
# probes


def encode(value: Fraction | float | str, element: str) -> int | None:
    """The pattern of a number, or None if the type does not have it; "-0", "inf", "-inf", or "0x..." for a pattern
    itself."""
    e, p = FLOATS[element]
    if isinstance(value, str):
        if value.startswith("0x"):
            return int(value, 16)
        if value == "-0":
            return 1 << (e + p)
        return None if element == "e4m3" else ((1 << e) - 1) << p | (1 << (e + p) if value[0] == "-" else 0)
    x = Fraction(value)
    sign, x = (1 << (e + p) if x < 0 else 0), abs(x)
    if not x:
        return 0
    bias = (1 << (e - 1)) - 1
    place = x.numerator.bit_length() - x.denominator.bit_length()
    place -= Fraction(2) ** place > x
    place = max(place, 1 - bias)
    digits = x / Fraction(2) ** (place - p)
    pattern = ((place + bias - 1) << p) + int(digits)
    largest = 0x7E if element == "e4m3" else (((1 << e) - 1) << p) - 1
    return sign | pattern if digits.denominator == 1 and pattern <= largest else None


def k_of(form: Form, letter: str, word: int, lane: int, j: int) -> int:
    """Column of A, or row of B, that an element holds (stored column of a sparse A, logical row of B)."""
    element = form.a if letter == "a" else form.b
    if form.quads:
        layout = form.layouts[0] if letter == "a" else form.layouts[1]
        return 2 * word + j if (letter == "a") == (layout == "row") else lane % 4
    if BITS[element] == 64:
        return lane % 4 + 4 * (word // 2 >> (letter == "a" and form.shape[0] == 16))
    per = 32 // BITS[element]
    register = word >> (letter == "a" and form.shape[0] == 16)
    return per * (lane % 4) + j + 4 * per * register


def uniform(form: Form, a: list[int], b: list[int], c: int) -> NDArray[np.uint32]:
    """One case whose rows of A are all a[k], columns of B all b[k], and C all c: [word, lane]. Patterns as in `encode`;
    k is a stored column."""
    parts = []
    if form.sparse:  # the first two of every four columns (first of two) are stored
        spread = [b[-1]] * form.shape[2]
        for k, x in enumerate(b[: form.shape[2] // 2]):
            spread[2 * k if form.a == "tf32" else 4 * (k // 2) + k % 2] = x
        b = spread
    for letter, values, words in (("a", a, form.words[0]), ("b", b, form.words[1])):
        element = form.a if letter == "a" else form.b
        per = max(32 // BITS[element], 1)
        shift = 13 if element == "tf32" else 0
        k = np.array(  # type: ignore[assignment]
            [[[k_of(form, letter, w, lane, j) for j in range(per)] for lane in range(LANES)] for w in range(words)]
        )
        patterns = np.array(values, np.uint64)[k] << np.uint64(shift)
        parts.append(
            np.where(np.arange(words)[:, None] % 2, patterns[..., 0] >> np.uint64(32), patterns[..., 0]).astype(
                np.uint32
            )
            if BITS[element] == 64
            else pack(patterns, element)
        )
    words = form.words[2]
    if form.c == "f64":
        parts.append(
            np.where(np.arange(words)[:, None] % 2, c >> 32, c & 0xFFFFFFFF).repeat(LANES, axis=1).astype(np.uint32)
        )
    else:
        parts.append(np.full((words, LANES), c | c << 16 if form.c == "f16" else c, np.uint32))
    if form.sparse:
        parts.append(np.full((1, LANES), 0x44444444, np.uint32))
    return np.concatenate(parts)


Term = tuple[int, "Fraction | float | str", "Fraction | float | str"]


def probes(form: Form) -> list[tuple[str, NDArray[np.uint32]]]:
    """Named cases of one question each, for forms of floats; four of the same for a `wgmma`."""
    if form.a not in FLOATS:
        return []
    found = []
    for name, others, terms, c in _questions(form):
        a, b = [encode(others[0], form.a)] * form.shape[2], [encode(others[1], form.b)] * form.shape[2]
        for k, x, y in terms:
            if k < form.shape[2] // (2 if form.sparse else 1):
                a[k], b[k] = encode(x, form.a), encode(y, form.b)
        pattern = encode(c, form.c)
        if None not in a and None not in b and pattern is not None:
            found += [(name, uniform(form, a, b, pattern))] * (4 if form.wgmma else 1)  # type: ignore[arg-type]
    return found


def _questions(form: Form) -> list[tuple[str, tuple[float | str, float | str], list[Term], Fraction | float | str]]:
    """Name, what A and B hold elsewhere, terms (k, a, b), C."""
    two = Fraction(2)
    (e, p), (ec, pc) = FLOATS[form.a], FLOATS[form.c]
    low, high = 2 - (1 << (e - 1)), (1 << (e - 1)) - 1
    tiny = two ** (low - p)  # smallest number of the inputs
    found: list[tuple[str, tuple[float | str, float | str], list[Term], Fraction | float | str]] = []

    def ask(
        name: str, terms: list[Term], c: Fraction | float | str = 0, others: tuple[float | str, float | str] = (0, 0)
    ) -> None:
        found.append((name, others, terms, c))

    for a, b, c in (
        ("-0", 1, "-0"),
        (0, 1, "-0"),
        ("-0", 1, 0),
        ("-0", -1, "-0"),
        (0, -1, "-0"),
        ("-0", "-0", "-0"),
        (0, 0, "-0"),
        (0, 0, 0),
    ):
        ask(f"zeros: all products {a} * {b}, C {c}", [], c, (a, b))
    ask("zeros: 1 - 1, C -0", [(0, 1, 1), (1, 1, -1)], "-0")
    ask("zeros: -1 + 1, C -0", [(0, 1, -1), (1, 1, 1)], "-0", ("-0", 1))
    ask("zeros: 1 - C", [(0, 1, 1)], -1)
    ask("zeros: -1 + C", [(2, 1, -1)], 1)
    for name, terms, c in (
        ("nan C", [(0, 1, 1)], f"{((1 << ec) - 1) << pc | 1:#x}"),
        ("nan minus C", [(0, 1, 1)], f"{((1 << (ec + 1)) - 1) << pc | 0x155:#x}"),
        ("quiet nan C", [], f"{((1 << ec) - 1) << pc | 1 << (pc - 1) | 2:#x}"),
        ("inf C", [(0, -1, 1)], "inf"),
        ("-inf C", [(0, 1, 1)], "-inf"),
        ("inf * 0", [(0, "inf", 0)], 1),
        ("0 * -inf", [(1, 0, "-inf")], 1),
        ("-0 * inf, C nan", [(1, "-0", "inf")], f"{((1 << ec) - 1) << pc | 7:#x}"),
        ("inf - inf", [(0, "inf", 1), (3, "-inf", 1)], 1),
        ("inf - C inf", [(0, "inf", 1)], "-inf"),
        ("-inf + C inf", [(2, 1, "-inf")], "inf"),
        ("inf", [(1, "inf", 1), (2, 2, "inf")], -1),
        ("-inf", [(1, "inf", -1)], 1),
    ):
        ask(f"special: {name}", terms, c)  # type: ignore[arg-type]
    if form.a == "e4m3":
        nans = ["0x7f", "0xff"]
    else:
        top = ((1 << e) - 1) << p
        nans = [
            f"{x:#x}"
            for x in (
                top | 1,
                top | 1 << (e + p) | 1,
                top | 1 << (p - 1),
                top | 1 << (e + p) | 1 << (p - 1),
                top | (1 << p) - 1,
            )
        ]
    if form.b == form.a:
        for x in nans:
            ask(f"special: A {x}", [(1, x, 1)], 1)
            ask(f"special: B {x}, A 0", [(2, 0, x)], 1)
    if form.a == form.b == "f64":
        ask("special: two nans in A", [(0, "0x7ff8000000000123", 1), (1, "0xfff8000000000456", 1)], 1)
        ask("special: two nans, A and B", [(0, "0x7ff8000000000123", "0xfff8000000000456")], 1)
        ask("special: nans in A and C", [(0, "0x7ff8000000000123", 1)], "0xfff8000000000789")
        ask("special: nans in B and C", [(3, 1, "0xfff8000000000123")], "0x7ff8000000000789")
        ask("special: three nans", [(0, "0x7ff8000000000123", "0xfff8000000000456")], "0x7ff8000000000789")
        ask("special: three nans, signalling", [(1, "0xfff0000000000123", "0x7ff0000000000456")], "0xfff0000000000789")
        ask("special: signalling in A, quiet in B", [(1, "0xfff0000000000123", "0x7ff8000000000456")], 1)
        ask("special: inf * 0, later nan in A", [(0, "inf", 0), (2, "0x7ff8000000000123", 1)], 1)
        ask("special: inf * 0, later nan in B", [(0, "inf", 0), (2, 1, "0x7ff8000000000123")], 1)
        ask("special: nan in A * inf, C inf", [(1, "0x7ff8000000000123", "inf")], "inf")
        ask("special: signalling in A, quiet in C", [(1, "0x7ff0000000000123", 1)], "0xfff8000000000789")
    # overflow
    big = two**high
    ask("overflow: big + big", [(0, big, 1), (1, big, 1)])
    ask("overflow: -big - big", [(0, big, -1), (3, big, -1)])
    ask("overflow: big * big - big * big + 1", [(0, big, big), (1, big, -big)], 1)
    ask("overflow: big * big - big * big + 1, 0 and 2", [(0, big, big), (2, big, -big)], 1)
    ask("overflow: big * big - big * big + 1, 2 and 0", [(2, big, big), (0, big, -big)], 1)
    ask("overflow: big * big + C -inf", [(0, big, big)], "-inf")
    largest = (2 - two**-pc) * two ** ((1 << (ec - 1)) - 1)
    half = two ** ((1 << (ec - 1)) - 2 - pc)
    for name, extra in (
        ("half", half),
        ("three quarters", half * 3 / 2),
        ("all but", half * 31 / 16),
        ("one unit", half * 2),
        ("half less", half * 15 / 16),
    ):
        for s in (1, -1):
            ask(
                f"overflow: largest + {name} of its unit, {s}",
                [(0, s * extra, 1)] if encode(extra, form.a) is not None else [(0, s * extra / two**8, two**8)],
                s * largest,
            )
    ask("overflow: largest + smallest", [(0, tiny, 1)], largest)
    ask("overflow: -largest - largest product", [(0, big, -1)], -largest)
    # rounding of the result, ties
    for step, name in ((two**-pc, "1"), (two ** -(pc + 1), "half"), (two ** -(pc + 2), "quarter")):
        ask(
            f"round: 1 + {name} unit",
            [(0, 1, 1), (1, step, 1)] if encode(step, form.a) is not None else [(0, 1, 1), (1, step * 2**8, two**-8)],
        )
        ask(
            f"round: C 1 + {name} unit",
            [(0, step, 1)] if encode(step, form.a) is not None else [(0, step * 2**8, two**-8)],
            1,
        )
        ask(
            f"round: C 1 + 1 unit + {name} unit",
            [(2, step, 1)] if encode(step, form.a) is not None else [(2, step * 2**8, two**-8)],
            1 + two**-pc,
        )
        ask(
            f"round: C -1 - {name} unit",
            [(0, -step, 1)] if encode(step, form.a) is not None else [(0, -step * 2**8, two**-8)],
            -1,
        )
    # alignment: what of a small term is left beside 1 - 1, 1.5 * 1.5 - 1.5 * 1.5
    for shift in (22, 23, 24, 25, 26, 27):
        small: list[Term] = [(2, two ** -(shift // 2), two ** -(shift - shift // 2))]
        ask(f"align: 1 - 1 + 2^-{shift}", [(0, 1, 1), (1, -1, 1), *small])
        ask(f"align: 1.5 * 1.5 - 1.5 * 1.5 + 2^-{shift}", [(0, 1.5, 1.5), (1, -1.5, 1.5), *small])
        ask(f"align: C 1 - 1 + 2^-{shift}", [(1, -1, 1), *small], 1)
        ask(f"align: 1 - C - 2^-{shift}", [(1, 1, 1), (2, -(two ** -(shift // 2)), two ** -(shift - shift // 2))], -1)
    # floors
    if form.d == "f16":
        for e2 in range(18, 26):
            ask(f"floor: 2^-25 + 2^-{e2 + 24}", [(0, two**-11, two**-14), (1, two**-e2, two**-24)])
            ask(f"floor: 2^-25 + 2^-{e2 + 14}", [(0, two**-11, two**-14), (1, two**-e2, two**-14)])
            ask(f"floor: -2^-25 - 2^-{e2 + 14}", [(0, -(two**-11), two**-14), (2, -(two**-e2), two**-14)])
        ask("floor: C smallest - 2^-25 product", [(0, -(two**-11), two**-14)], two**-24)
        ask("floor: -2^-26", [(0, -(two**-12), two**-14)])
        ask("floor: -2^-25", [(0, -(two**-11), two**-14)], "-0")
    if form.d == "f32":
        for x in range(28, 36):  # type: ignore[assignment]
            ask(f"floor: C 2^-149 - 2^-{126 + x}", [(0, two**-126, -(two**-x))], two**-149)  # type: ignore[operator]
            ask(f"floor: 2^-149 - 2^-{126 + x}", [(0, two**-126, two**-23), (1, two**-126, -(two**-x))])  # type: ignore[operator]
        ask("floor: smallest * smallest", [(0, tiny, tiny)])
        ask("floor: -smallest * smallest", [(0, tiny, -tiny)], "-0")
        ask("floor: smallest * smallest * 3", [(0, tiny, tiny), (1, tiny, tiny), (2, tiny, tiny)])
        ask("floor: C 2^-126 - 2^-149", [(0, two**-126, -(two**-23))], two**-126)
    if form.d == "f64":
        ask("subnormal: smallest / 2", [(0, two**-1000, two**-75)])
        ask("subnormal: smallest * 3 / 4", [(0, 3 * two**-1000, two**-76)])
        ask("subnormal: -smallest / 4", [(0, -(two**-1000), two**-76)])
        ask("subnormal: C smallest - smallest / 2", [(0, -(two**-1000), two**-75)], two**-1074)
        ask("subnormal: smallest normal - smallest", [(0, two**-1000, -(two**-74))], two**-1022)
        ask("fused: (1 + u)(1 - u) - 1", [(0, 1 + two**-52, 1 - two**-52)], -1)
        ask("order: 1, 2^-53, 2^-53", [(0, 1, 1), (1, two**-53, 1), (2, two**-53, 1)])
        ask("order: 2^-53, 2^-53, 1", [(0, two**-53, 1), (1, two**-53, 1), (2, 1, 1)])
        ask("order: C 1, 2^-53 in all", [], 1, (float(two**-53), 1))
        ask("order: big, 1, -big", [(0, two**60, 1), (1, 1, 1), (2, -(two**60), 1)])
        ask("order: C big, 1, -big", [(1, 1, 1), (2, -(two**60), 1)], two**60)
    return found
