"""What instructions of one thread, or of a warp, compute in registers: against formulas of their own, on every lane."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

import isa
from isa.targets import parse_target
from simulator.execute.cta_state import CtaState
from simulator.execute.dispatch import executor
from simulator.execute.floating import NAN
from simulator.state import RegisterFile, SharedMemory
from simulator.state.shared import AddressError
from tests.support.cases import over
from tests.support.paths import TESTS

Words = NDArray[np.uint32]
VERDICTS = TESTS / "golden" / "ptxas_scalar.csv"
WARPS = np.arange(1, dtype=np.intp)


def machine() -> CtaState:
    """A CTA of one warp without memory."""
    return CtaState(RegisterFile(1, 16, 16, 8, 8), SharedMemory(0, 1), 1, parse_target("sm_90"))


def execute(text: str, *sources: Words) -> Words:
    """%r0 after the instruction, [lane]; %r1, %r2, ... hold the sources before it."""
    state = machine()
    for number, source in enumerate(sources, 1):
        state.registers.values[0, number] = source
    executor(isa.decode(text, "sm_90"))(state, WARPS)
    return np.array(state.registers.values[0, 0])


def verdicts() -> list[tuple[str, bool]]:
    """Texts, and whether ptxas 13.0 takes them for sm_90."""
    with open(VERDICTS, newline="") as file:
        return [(row["ptx"], row["accepted"] == "1") for row in csv.DictReader(file)]


@over(("text", "accepted"), verdicts())
def test_as_ptxas_has_it(text: str, accepted: bool) -> None:
    try:
        decoded = isa.decode(text, "sm_90")
    except isa.IsaError:
        assert not accepted
    else:
        assert accepted
        assert isa.decode(str(decoded), "sm_90") == decoded


def test_lop3_every_table() -> None:
    """All 256 tables on all eight combinations of bits, in places that differ between lanes."""
    generator = np.random.default_rng(3)
    a, b, c = generator.integers(0, 1 << 32, (3, 32), np.uint32)
    bits = [(word[:, None] >> np.arange(32, dtype=np.uint32)) & 1 for word in (a, b, c)]
    for table in range(256):
        looked_up = table >> (4 * bits[0] + 2 * bits[1] + bits[2]) & 1
        expected = (looked_up.astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(axis=1).astype(np.uint32)
        assert np.array_equal(execute(f"lop3.b32 %r0, %r1, %r2, %r3, {table};", a, b, c), expected)


def test_lop3_constants() -> None:
    """PTX ISA 9.0, 9.7.8.6: the table of a function is that function of 0xF0, 0xCC and 0xAA."""
    a = np.arange(32, dtype=np.uint32)
    assert np.array_equal(execute(f"lop3.b32 %r0, %r1, 0xff, 12, {0xF0 & 0xCC ^ 0xAA};", a), a & 0xFF ^ 12)


def test_bfi_every_position_and_length() -> None:
    """Positions and lengths up to 255 and above, whose low 8 bits count; bit by bit."""
    generator = np.random.default_rng(4)
    edges = (0, 1, 2, 5, 8, 30, 31, 32, 33, 64, 254, 255, 256, 257, 1 << 16, (1 << 32) - 1)
    a, b = generator.integers(0, 1 << 32, (2, 32), np.uint32)
    for position in edges:
        for length in edges:
            expected = []
            for field, base in zip(a.tolist(), b.tolist(), strict=True):
                bits = [(base >> i) & 1 for i in range(32)]
                for i in range(length % 256):
                    if position % 256 + i < 32:
                        bits[position % 256 + i] = (field >> i) & 1
                expected.append(sum(bit << i for i, bit in enumerate(bits)))
            sources = a, b, np.full(32, position, np.uint32), np.full(32, length, np.uint32)
            assert execute("bfi.b32 %r0, %r1, %r2, %r3, %r4;", *sources).tolist() == expected, (position, length)
            if position < 256 and length < 256:
                assert execute(f"bfi.b32 %r0, %r1, %r2, {position}, {length};", a, b).tolist() == expected


# fma.rn.f32


def exact_fma(a: int, b: int, c: int) -> int:
    """a * b + c of f32 patterns in fractions, rounded once to nearest even; NaN is 0x7fffffff."""
    x, y, z = (float(np.uint32(word).view(np.float32)) for word in (a, b, c))
    if math.isnan(x) or math.isnan(y) or math.isnan(z):
        return NAN
    if math.isinf(x) or math.isinf(y):
        negative = (math.copysign(1, x) * math.copysign(1, y)) < 0
        if x == 0 or y == 0 or (math.isinf(z) and (z < 0) != negative):
            return NAN
        return 0xFF800000 if negative else 0x7F800000
    if math.isinf(z):
        return c
    total = Fraction(x) * Fraction(y) + Fraction(z)
    if total == 0:
        return (a ^ b) & c & 0x80000000 if z == 0 else 0  # -0 of two -0 alone
    return rounded(total)


def rounded(value: Fraction) -> int:
    """The f32 pattern nearest to a number that is not 0."""
    sign, size = (0x80000000, -value) if value < 0 else (0, value)
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length(), -127)
    while Fraction(2) ** (exponent + 1) <= size:
        exponent += 1
    while exponent > -126 and Fraction(2) ** exponent > size:
        exponent -= 1
    exponent = max(exponent, -126)
    units = round(size / Fraction(2) ** (exponent - 23))  # Python rounds fractions to even
    if units == 1 << 24:
        exponent, units = exponent + 1, units >> 1
    if exponent > 127:
        return sign | 0x7F800000
    return sign | (units if units < 1 << 23 else (exponent + 127 << 23) + units - (1 << 23))


SPECIAL = (
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x80800000, 0x3F800000, 0xBF800000,
    0x3F800001, 0x3F7FFFFF, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFFFFFFF,
    0x33800000, 0x34000000, 0x1F800000, 0x5F800000,
)  # fmt: skip


def test_fma_special_numbers() -> None:
    """All triples of zeros, subnormal and extreme numbers, infinities and NaN."""
    check_fma(np.array([*product(SPECIAL, repeat=3)], np.uint32))


def test_fma_random_numbers() -> None:
    """Wide exponents, and sums that cancel or lie near the middle of two f32."""
    generator = np.random.default_rng(5)
    words = generator.integers(0, 1 << 32, (4096, 3), np.uint32)
    close = generator.integers(0x3F000000, 0x40800000, (8192, 3), np.uint32)
    product_ = close[:, 0].view(np.float32).astype(np.float64) * close[:, 1].view(np.float32)
    shift = generator.choice([1.0, 2.0**-24, 2.0**-25, 2.0**-48, 2.0**24], len(close))
    close[:, 2] = (-product_ * shift).astype(np.float32).view(np.uint32) + generator.integers(0, 3, len(close))
    small = words.copy()
    small[:, :2] = small[:, :2] & 0x9FFFFFFF  # products that are subnormal
    small[:, 2] &= 0x80FFFFFF
    check_fma(np.concatenate([words, close, small]))


def check_fma(triples: Words) -> None:
    padded = np.concatenate([triples, np.zeros((-len(triples) % 32, 3), np.uint32)])
    for part in padded.reshape(-1, 32, 3):
        found = execute("fma.rn.f32 %r0, %r1, %r2, %r3;", *part.T)
        expected = [exact_fma(*map(int, triple)) for triple in part]
        wrong = [(list(map(hex, t)), hex(f), hex(e)) for t, f, e in zip(part, found, expected, strict=True) if f != e]
        assert not wrong, wrong[:3]


def test_fma_constants() -> None:
    two = np.full(32, 0x40000000, np.uint32)
    assert set(execute("fma.rn.f32 %r0, %r1, 1.5, 0f3F800000;", two).tolist()) == {0x40800000}


# shfl.sync.bfly.b32


def shuffled(values: list[int], lane_mask: int, clamp: int) -> tuple[list[int], list[bool]]:
    """As PTX ISA 9.0, 9.7.9.6 words it, lane by lane."""
    results, inside = [], []
    for lane in range(32):
        bound, segment = clamp & 0x1F, clamp >> 8 & 0x1F
        max_lane = (lane & segment) | (bound & ~segment)
        source = lane ^ (lane_mask & 0x1F)
        inside.append(source <= max_lane)
        results.append(values[source if source <= max_lane else lane])
    return results, inside


@pytest.mark.parametrize("clamp", [0x1F, 0x0F, 0x00, 0x1C1F, 0x181F, 0x100F, 0x1F1F, 0x1E03, 0xFFFFFFFF])
def test_shuffle_every_lane_mask(clamp: int) -> None:
    values = np.random.default_rng(6).integers(0, 1 << 32, 32, np.uint32)
    for lane_mask in (*range(32), 33, 64, 255):
        expected, inside = shuffled(values.tolist(), lane_mask, clamp)
        state = machine()
        state.registers.values[0, 1] = values
        text = f"shfl.sync.bfly.b32 %r0|%p2, %r1, {lane_mask}, {clamp}, 0xffffffff;"
        executor(isa.decode(text, "sm_90"))(state, WARPS)
        assert state.registers.values[0, 0].tolist() == expected
        assert state.registers.banks[2][0, 2].tolist() == inside
        assert execute(text.replace("|%p2", ""), values).tolist() == expected


def test_shuffle_with_masks_of_its_own() -> None:
    """The lane operand may differ between lanes; %r0|_ drops the predicate."""
    values, masks = np.arange(32, dtype=np.uint32) * 3, np.arange(32, dtype=np.uint32) % 4
    expected = values[np.arange(32) ^ masks]
    text = "shfl.sync.bfly.b32 %r0|_, %r1, %r2, 31, -1;"
    assert np.array_equal(execute(text, values, masks), expected)


WITH_MASKS = (
    "shfl.sync.bfly.b32 %r0, %r1, 16, 31, {}", "vote.sync.ballot.b32 %r0, %p0, {}", "match.any.sync.b32 %r0, %r1, {}",
    "redux.sync.add.s32 %r0, %r1, {}", "elect.sync %r0|%p1, {}", "bar.warp.sync {}",
)  # fmt: skip


def test_threads_outside_their_own_mask() -> None:
    """PTX leaves it undefined; what a chip does is not known, so it ends the run under either policy, by its name."""
    for text in WITH_MASKS:
        for members, thread in (("0xfffffffe", 0), ("0x0000ffff", 16), ("0", 0)):
            with pytest.raises(isa.UndefinedBehavior, match=f"warp-mask: thread {thread} is not in its membermask"):
                execute(f"{text.format(members)};", np.zeros(32, np.uint32))
        execute(f"{text.format('-1')};", np.zeros(32, np.uint32))


def test_half_a_warp_shuffles() -> None:
    """The threads that a guard lets through, if the mask names no others; the rest keeps its registers."""
    state = machine()
    state.registers.banks[2][0, 0, :16] = True
    state.registers.values[0, 1] = np.arange(32)
    executor(isa.decode("@%p0 shfl.sync.bfly.b32 %r0, %r1, 1, 31, 0x0000ffff;"))(state, WARPS)
    assert state.registers.values[0, 0].tolist() == [lane ^ 1 if lane < 16 else 0 for lane in range(32)]
    with pytest.raises(AddressError, match="thread 0 reads from a thread outside"):
        executor(isa.decode("@%p0 shfl.sync.bfly.b32 %r0, %r1, 16, 31, 0x0000ffff;"))(state, WARPS)


def test_as_an_h100_computes() -> None:
    """Every result of tests/golden/scalar_ops_h100.npz, recorded by measurements/scalar_ops.py: the same bits."""
    golden = np.load(TESTS / "golden" / "scalar_ops_h100.npz")
    for table in range(256):
        text = f"lop3.b32 %r0, %r1, %r2, %r3, {table};"
        assert np.array_equal(execute(text, *golden["lop3"].T), golden["lop3_out"][table])
    for name, text in (("bfi", "bfi.b32 %r0, %r1, %r2, %r3, %r4;"), ("fma", "fma.rn.f32 %r0, %r1, %r2, %r3;")):
        sources, results = golden[name], golden[f"{name}_out"]
        for first in range(0, len(sources), 32):
            assert np.array_equal(execute(text, *sources[first : first + 32].T), results[first : first + 32])
    shuffles = zip(*(golden[n] for n in ("values", "lane_masks", "clamps", "shuffled", "predicates")), strict=True)
    for values, lane_masks, clamps, shuffled_, predicates in shuffles:
        state = machine()
        state.registers.values[0, 1:4] = values, lane_masks, clamps
        executor(isa.decode("shfl.sync.bfly.b32 %r0|%p1, %r1, %r2, %r3, -1;"))(state, WARPS)
        assert np.array_equal(state.registers.values[0, 0], shuffled_)
        assert np.array_equal(state.registers.banks[2][0, 1], predicates != 0)


@over("name", ["vadd4", "vsub4", "vabsdiff4", "vmin4", "vmax4", "vavrg4", "vadd2", "vabsdiff2"])
def test_video_accumulates(name: str) -> None:
    """`.add`: the results of all bytes or halves, not cut, are added to the third operand. PTX ISA 9.0, 9.7.18."""
    generator = np.random.default_rng(7)
    a, b, c = generator.integers(0, 1 << 32, (3, 32), np.uint32)
    operations: dict[str, Callable[[int, int], int]] = {
        "vadd": int.__add__, "vsub": int.__sub__, "vabsdiff": lambda x, y: abs(x - y), "vmin": min, "vmax": max,
        "vavrg": lambda x, y: (x + y + 1) >> 1,
    }  # fmt: skip
    bits, operation = 32 // int(name[-1]), operations[name[:-1]]
    parts = [[int(word) >> i & (1 << bits) - 1 for i in range(0, 32, bits)] for word in (*a, *b)]
    expected = [(int(c[n]) + sum(map(operation, parts[n], parts[32 + n]))) % (1 << 32) for n in range(32)]
    assert execute(f"{name}.u32.u32.u32.add %r0, %r1, %r2, %r3;", a, b, c).tolist() == expected
