"""Multiply-adds one after the other: f64 in four roundings and m8n8k4 of f16, against fractions, by hand, and through
fragments."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import isa
import simulator
from isa.forms.mma import MmaForm
from isa.types import F64, Bits
from simulator.arithmetic import add_f64, product
from simulator.arithmetic.accumulate import exact_f64
from simulator.arithmetic.chain import ROUNDINGS, multiply_add
from tests.golden import reference
from tests.simulator.arithmetic.test_compiled import draw_f64
from tests.simulator.arithmetic.test_exact import KINDS, draw
from tests.support.cases import examples, over

Words = NDArray[np.uint64]
QUADS = [form for form in isa.mma_forms().values() if form.blocks > 1]
DOUBLES = [form for form in isa.mma_forms().values() if form.a_type is F64]
QUIET, INVALID, INF, MINUS_ZERO = 1 << 51, 0xFFF8 << 48, 0x7FF << 52, 1 << 63


def bits(value: float) -> int:
    """f64 pattern."""
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def f64(*values: float | int) -> Words:
    """Patterns; integers are taken for patterns themselves."""
    return np.array([value if isinstance(value, int) else bits(value) for value in values], np.uint64)


def same(found: Words, expected: Sequence[int], *operands: Words) -> None:
    wrong = [i for i, (x, y) in enumerate(zip(found.tolist(), expected, strict=True)) if x != y]
    shown = [hex(int(v[wrong[0]])) for v in (*operands, found)] + [hex(expected[wrong[0]])] if wrong else []
    assert not wrong, f"{len(wrong)} of {len(expected)}, first: {shown}"


# One f64 multiply-add


@over("rounding", ROUNDINGS)
@over("kind", ["bits", "finite", "near one", "special", "large", "subnormal", "cancel", "ties", "zeros", "edges"])
def test_multiply_add(kind: str, rounding: str) -> None:
    """NaN, infinities, subnormal and huge values, cancellation, halfway cases and signs of zeros among them."""
    rng = np.random.default_rng([ROUNDINGS.index(rounding), len(kind), ord(kind[0])])
    count = 700
    if kind == "cancel":  # C is minus the rounded product, give or take a few units
        a, b = draw_f64(rng, "near one", (count,)), draw_f64(rng, "near one", (count,))
        rounded = -(a.view(np.float64) * b.view(np.float64))
        c = rounded.view(np.uint64) + rng.integers(-1, 2, count).astype(np.uint64)
    elif kind == "ties":  # a half, a quarter or a little of the last place of C beside C
        c = draw_f64(rng, "near one", (count,))
        a = f64(*np.ldexp(rng.choice([1.0, -1.0, 1.5, 1 + 2.0**-52], count), -27).tolist())
        places = np.frexp(c.view(np.float64))[1] - 53
        b = np.ldexp(1.0, places + 27 - rng.integers(0, 3, count)).view(np.uint64)
    elif kind == "zeros":
        pool = f64(0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324)
        a, b, c = (rng.choice(pool, count) for _ in range(3))
    elif kind == "edges":
        largest = 1.7976931348623157e308
        pool = f64(
            2.0**-1022,
            2.0**-1074,
            largest,
            -largest,
            2.0**1023,
            2.0**-537,
            -(2.0**-538),
            1 - 2.0**-53,
            1 + 2.0**-52,
            0.5,
        )
        a, b, c = (rng.choice(pool, count) for _ in range(3))
    else:
        a, b, c = (draw_f64(rng, kind, (count,)) for _ in range(3))
    expected = [
        reference.multiply_add_f64(*case, rounding) for case in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)
    ]
    same(multiply_add(a, b, c, rounding), expected, a, b, c)
    same(add_f64(a[:, None, None], b[:, None, None], c[:, None, None], rounding).ravel(), expected, a, b, c)


PATTERNS = st.one_of(
    st.integers(0, 2**64 - 1),
    st.builds(bits, st.floats(-4, 4)),
    st.sampled_from([0, MINUS_ZERO, INF, INF | MINUS_ZERO, 1, INF - 1, INF | 1, INVALID, 1 << 52, bits(1.0)]),
)


@settings(max_examples=examples(300), deadline=None)
@given(PATTERNS, PATTERNS, PATTERNS, st.sampled_from(ROUNDINGS))
def test_any_patterns(a: int, b: int, c: int, rounding: str) -> None:
    expected = reference.multiply_add_f64(a, b, c, rounding)
    x, y, z = f64(a), f64(b), f64(c)
    same(multiply_add(x, y, z, rounding), [expected], x, y, z)
    same(add_f64(x.reshape(1, 1, 1), y.reshape(1, 1, 1), z.reshape(1, 1, 1), rounding).ravel(), [expected], x, y, z)


BY_HAND = [
    # what it shows, a, b, c, results in ROUNDINGS
    ("a tie", 1.0, 2.0**-53, 1.0, (1.0, 1.0, 1.0, 1 + 2.0**-52)),
    ("a negative tie", -1.0, 2.0**-53, -1.0, (-1.0, -1.0, -1 - 2.0**-52, -1.0)),
    ("the product is not rounded", 1 + 2.0**-30, 1 + 2.0**-30, -1 - 2.0**-29, (2.0**-60,) * 4),
    ("a sum that cancels", 1.0, 1.0, -1.0, (0.0, 0.0, -0.0, 0.0)),
    ("zeros of both signs", 0.0, 1.0, -0.0, (0.0, 0.0, -0.0, 0.0)),
    ("zeros of one sign", 0.0, -1.0, -0.0, (-0.0,) * 4),
    ("positive zeros", 0.0, 1.0, 0.0, (0.0,) * 4),
    ("below every number", 5e-324, 0.25, 0.0, (0.0, 0.0, 0.0, 5e-324)),
    ("and its negative", 5e-324, -0.25, 0.0, (-0.0, -0.0, -5e-324, -0.0)),
    ("half of the smallest", 5e-324, 0.5, 0.0, (0.0, 0.0, 0.0, 5e-324)),
    ("overflow", 2.0**1023, 2.0, 0.0, (INF, INF - 1, INF - 1, INF)),
    (
        "negative overflow",
        2.0**1023,
        -2.0,
        0.0,
        (INF | MINUS_ZERO, INF - 1 | MINUS_ZERO, INF | MINUS_ZERO, INF - 1 | MINUS_ZERO),
    ),
    ("a product beyond the range, taken back", 2.0**1023, 2.0, -(2.0**1023), (2.0**1023,) * 4),
    ("infinity", INF, -1.0, 1.0, (INF | MINUS_ZERO,) * 4),
    ("infinity in C beside an overflow", 2.0**1023, 4.0, INF | MINUS_ZERO, (INF | MINUS_ZERO,) * 4),
    ("infinity times zero", INF, 0.0, 1.0, (INVALID,) * 4),
    ("infinities of both signs", INF, 1.0, INF | MINUS_ZERO, (INVALID,) * 4),
    ("NaN of A, signalling, negative", 0xFFF0 << 48 | 7, 1.0, 1.0, (0xFFF8 << 48 | 7,) * 4),
    ("NaN of C over A", 0xFFF8 << 48 | 7, 1.0, 0x7FF0 << 48 | 9, (0x7FF8 << 48 | 9,) * 4),
    ("NaN of B over C and A", 0xFFF8 << 48 | 7, 0x7FF4 << 48 | 3, 0x7FF0 << 48 | 9, (0x7FFC << 48 | 3,) * 4),
    ("NaN over invalid", INF, 0.0, 0x7FF8 << 48 | 5, (0x7FF8 << 48 | 5,) * 4),
]


@over("case", BY_HAND, ids=[case[0] for case in BY_HAND])
def test_by_hand(case: tuple[str, float, float, float, tuple[float, ...]]) -> None:
    _, a, b, c, results = case
    for rounding, wanted in zip(ROUNDINGS, results, strict=True):
        same(multiply_add(f64(a), f64(b), f64(c), rounding), f64(wanted).tolist())
        x, y, z = (v.reshape(1, 1, 1) for v in (f64(a), f64(b), f64(c)))
        same(add_f64(x, y, z, rounding).ravel(), f64(wanted).tolist())


# Whole f64 instructions


def doubles(form: MmaForm, kind: str, cases: int = 2) -> list[Words]:
    rng = np.random.default_rng([form.k, len(kind)])
    return [draw_f64(rng, kind, (cases, *fragment.shape)) for fragment in (form.a, form.b, form.c)]


def test_which_f64_forms_there_are() -> None:
    assert {(form.m, form.k) for form in DOUBLES} == {(8, 4), (16, 4), (16, 8), (16, 16)}
    assert {form.rounding for form in DOUBLES} == set(ROUNDINGS)
    assert len(DOUBLES) == 16


@over("kind", ["near one", "special", "bits"])
@over("form", DOUBLES, ids=lambda form: form.opcode)
def test_f64_instructions(form: MmaForm, kind: str) -> None:
    """64-bit registers in and out; every output is a chain over ascending k that starts with C."""
    a, b, c = doubles(form, kind)
    registers = [fragment.scatter(x) for fragment, x in zip((form.a, form.b, form.c), (a, b, c), strict=True)]
    assert all(x.dtype == np.uint64 for x in registers)
    found = simulator.mma(form.opcode, *registers, "sm_90")
    assert (found.dtype, found.shape) == (np.uint64, (2, form.d.registers, 32))
    d = form.d.gather(found)
    rng = np.random.default_rng(0)
    for case, i, j in [
        *zip(rng.integers(0, 2, 30), rng.integers(0, form.m, 30), rng.integers(0, form.n, 30), strict=True)
    ]:
        total = int(c[case, i, j])
        for k in range(form.k):
            total = reference.multiply_add_f64(int(a[case, i, k]), int(b[case, k, j]), total, form.rounding)
        assert hex(d[case, i, j]) == hex(total), (case, i, j)
    if form.rounding == "rn":
        by_matrices = product(a, b, c, family="mma", target="sm_90", a_type="f64", b_type="f64", d_type="f64")
        assert np.array_equal(by_matrices, d)


def test_the_rounding_matters() -> None:
    form = isa.mma_form("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64")
    registers = [
        fragment.scatter(x) for fragment, x in zip((form.a, form.b, form.c), doubles(form, "near one"), strict=True)
    ]
    down, zero, near, up = (
        simulator.mma(
            form.opcode.replace(".f64", f".{way}.f64", 1) if way != "rn" else form.opcode, *registers, "sm_80"
        ).view(np.float64)
        for way in ("rm", "rz", "rn", "rp")
    )
    assert (down <= near).all()
    assert (near <= up).all()
    assert (down <= zero).all()
    assert (zero <= up).all()
    assert not np.array_equal(zero, down)
    assert not np.array_equal(zero, up)
    assert (down < up).mean() > 0.9
    assert np.array_equal(
        simulator.mma(form.opcode.replace(".f64", ".rn.f64", 1), *registers, "sm_80").view(np.float64), near
    )


@pytest.mark.parametrize("kind", ["near one", "special", "bits", "subnormal", "large"])
def test_exact_f64(kind: str) -> None:
    """Rounded once; +0 for an exact zero, the usual NaN. By opcode the same."""
    form = isa.mma_form("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64")
    a, b, c = doubles(form, kind, 1)
    if kind == "near one":
        a[:, :, 4:], b[:, 4:] = a[:, :, :4] ^ np.uint64(MINUS_ZERO), b[:, :4]  # everything cancels but C
        c[:, ::2] = 0
    registers = [fragment.scatter(x) for fragment, x in zip((form.a, form.b, form.c), (a, b, c), strict=True)]
    d = form.d.gather(simulator.mma(form.opcode, *registers, "sm_90", arithmetic="exact"))
    assert np.array_equal(exact_f64(a, b, c), d)
    types = reference.Types(F64, F64, F64, F64)
    for i, j in np.ndindex(16, 8):
        wanted = reference.exact(a[0, i].tolist(), b[0, :, j].tolist(), int(c[0, i, j]), types)
        wanted = 0x7FF8 << 48 if wanted == F64.mask >> 1 else wanted  # a NaN of IEEE's, not a tensor core's
        assert hex(d[0, i, j]) == hex(wanted), (i, j)


def test_f64_errors() -> None:
    form = isa.mma_form("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64")
    a, b, c = (np.zeros((1, fragment.registers, 32), np.uint64) for fragment in (form.a, form.b, form.c))
    for wrong in (a.astype(np.uint32), a.view(np.float64), a.view(np.uint32).reshape(1, -1, 32)):
        with pytest.raises(
            isa.IsaError, match=r"operand a has type .*; legal: a numpy array of uint64 \[case, 1, 32\]"
        ):
            simulator.mma(form.opcode, wrong, b, c)
    with pytest.raises(isa.IsaError, match="sm_75"):
        simulator.mma(form.opcode, a, b, c, "sm_75")
    with pytest.raises(isa.IsaError, match="arithmetic='fast' is not known"):
        simulator.mma(form.opcode, a, b, c, arithmetic="fast")
    with pytest.raises(isa.IsaError):
        simulator.mma("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64", a, b, c, "sm_80")


def test_f64_in_a_trace(tmp_path: Path) -> None:
    """Values without a config; a config without a class for it says which one it lacks."""
    form = isa.mma_form("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64")
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal((fragment.registers, 32)).view(np.uint64) for fragment in (form.a, form.b, form.c))
    np.savez(tmp_path / "x.npz", a=a, b=b, c=c)
    loads = "".join(f'.load %rd{number}, "x.npz", "{name}";\n' for name, number in (("c", 0), ("a", 2), ("b", 3)))
    program = f".warp 0 {{\n{form.opcode} {{%rd0, %rd1}}, {{%rd2}}, {{%rd3}}, {{%rd0, %rd1}};\n}}\n"
    path = tmp_path / "x.trace"
    path.write_text(f'.trace 1\n.target sm_90a\n.warps 1\n{loads}{program}.store "d", %rd0, 2;\n')
    found = simulator.run(path, config=None).arrays["d"]
    assert np.array_equal(found.reshape(2, 32), simulator.mma(form.opcode, a[None], b[None], c[None], "sm_90a")[0])
    with pytest.raises(
        simulator.ConfigError, match=r"no \[\[tensor\]\] class matches 'mma.sync.aligned.m8n8k4.row.col.f64"
    ):
        simulator.run(path)


# m8n8k4 of f16


def halves(kind: str, form: MmaForm, cases: int = 2) -> tuple[Bits, Bits, Bits]:
    rng = np.random.default_rng([KINDS.index(kind), len(form.opcode)])
    a, b, c = (draw(rng, kind, fragment.type, (cases, *fragment.shape)) for fragment in (form.a, form.b, form.c))
    if kind == "cancel":
        a[..., 2:], b[:, 2:] = a[..., :2] ^ np.uint32(0x8000), b[:, :2]
    return a, b, c


@over("target", ["sm_70", "sm_75", "sm_80", "sm_90a", "sm_120a"])
@over("form", QUADS, ids=lambda form: form.opcode)
def test_m8n8k4(form: MmaForm, target: str) -> None:
    """Four independent blocks, against fractions: a fused step up to sm_75, multiply-adds later."""
    types = reference.Types(form.a_type, form.b_type, form.c_type, form.d_type)
    rule = simulator.arithmetic.sum_row(form, isa.parse_target(target)).rule
    assert rule.chained == (target not in ("sm_70", "sm_75"))
    rng = np.random.default_rng(1)
    for kind in KINDS:
        a, b, c = halves(kind, form)
        d = form.d.gather(simulator.mma(form.opcode, form.a.scatter(a), form.b.scatter(b), form.c.scatter(c), target))
        for case, row, column in zip(rng.integers(0, 2, 6), rng.integers(0, 32, 6), rng.integers(0, 8, 6), strict=True):
            of_b = b[case, :, 8 * (row // 8) + column].tolist()
            wanted = reference.chip((a[case, row].tolist(), of_b), int(c[case, row, column]), types, rule)
            assert hex(d[case, row, column]) == hex(wanted), (kind, row, column)


def quad(target: str, d_type: str, a: Sequence[int], b: Sequence[int], c: int, c_type: str = "") -> int:
    """One output of the third block; what the others hold must not matter."""
    form = isa.mma_form(f"mma.sync.aligned.m8n8k4.row.col.{d_type}.f16.f16.{c_type or d_type}")
    left, right, addend = (np.full((1, *fragment.shape), 0x7C01, np.uint32) for fragment in (form.a, form.b, form.c))
    left[0, 19], right[0, :, 21], addend[0, 19, 5] = list(a), list(b), c
    return int(
        form.d.gather(
            simulator.mma(form.opcode, form.a.scatter(left), form.b.scatter(right), form.c.scatter(addend), target)
        )[0, 19, 5]
    )


def h(value: float) -> int:
    return int(np.float16(value).view(np.uint16))


def s(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


ONES, Z, MZ = [h(1)] * 4, 0x0000, 0x8000
ROUTINE = [
    # what it shows (measured on an H100, November 2026), type of D, A, B, C, result
    ("f32: products first, C last", "f32", [h(2.0**-12), h(2.0**-12), 0, 0], [h(2.0**-12)] * 4, s(1), s(1 + 2.0**-23)),
    ("f32: not one by one to C", "f32", [h(2.0**-12)] * 4, [h(2.0**-12)] * 4, s(1), s(1 + 2.0**-22)),
    (
        "f32: ascending, each rounded",
        "f32",
        [h(2.0**12), h(2.0**-12), h(2.0**12), 0],
        [h(2.0**12), h(2.0**-12), h(-(2.0**12)), 0],
        0,
        0,
    ),
    (
        "f32: what comes last stays",
        "f32",
        [h(2.0**12), h(2.0**12), h(2.0**-12), 0],
        [h(2.0**12), h(-(2.0**12)), h(2.0**-12), 0],
        0,
        s(2.0**-24),
    ),
    ("f32: to nearest even", "f32", [h(1), 0, 0, 0], ONES, s(2.0**24 + 2), s(2.0**24 + 4)),
    ("f32: never minus zero", "f32", [MZ] * 4, ONES, 0x80000000, 0),
    ("f32: subnormal C", "f32", [Z] * 4, ONES, 3, 3),
    ("f16: a tie of the pair's sum goes to even", "f16", [h(2.0**-12), h(2.0**-12), 0, 0], ONES, h(1), h(1)),
    ("f16: two pairs in turn", "f16", [h(1), h(2), h(3), h(4)], ONES, h(0.5), h(10.5)),
    ("f16: overflow on the way is none", "f16", [h(65504), h(65504), h(-65504), h(-65504)], ONES, h(1), h(1)),
    ("f16: overflow at the end", "f16", [h(65504), h(65504), 0, 0], ONES, 0, 0x7C00),
    ("f16: minus zero", "f16", [MZ] * 4, ONES, MZ, MZ),
    ("f16: a positive zero in it", "f16", [MZ, MZ, Z, MZ], ONES, MZ, Z),
    ("f16: negative, below every number", "f16", [h(-(2.0**-24)), 0, 0, 0], [h(2.0**-24), h(1), h(1), h(1)], MZ, MZ),
    (
        "f16: the pair, and not C, takes in the small product",
        "f16",
        [h(1), h(2.0**-12), 0, 0],
        [h(1), h(2.0**-12), 0, 0],
        h(-1),
        Z,
    ),
    (
        "f16: C meets the first pair before the second",
        "f16",
        [h(1), 0, h(2.0**-12), 0],
        [h(1), 0, h(2.0**-12), 0],
        h(-1),
        h(2.0**-24),
    ),
    ("f16: NaN is canonical", "f16", [0xFE00, 0, 0, 0], ONES, 0, 0x7FFF),
    ("f32: NaN is canonical", "f32", [h(1), 0, 0, 0], ONES, 0xFFC00001, 0x7FFFFFFF),
    ("f32: infinities of both signs", "f32", [0x7C00, 0xFC00, 0, 0], ONES, 0, 0x7FFFFFFF),
    ("f16: infinity", "f16", [0xFC00, h(1), 0, 0], ONES, h(3), 0xFC00),
]


@over("case", ROUTINE, ids=[case[0] for case in ROUTINE])
def test_the_routine_by_hand(case: tuple[str, str, list[int], list[int], int, int]) -> None:
    _, d_type, a, b, c, wanted = case
    for target in ("sm_80", "sm_90a"):
        assert hex(quad(target, d_type, a, b, c)) == hex(wanted)


def test_volta_and_turing_by_hand() -> None:
    """A fused step of four with 23 fraction bits, toward zero; f16 to nearest even, never minus zero."""
    tiny = [h(2.0**-12)] * 4
    for target in ("sm_70", "sm_75"):
        assert quad(target, "f32", tiny, tiny, s(1)) == s(1)  # four times 2^-24, each cut off
        assert quad(target, "f32", [h(2.0**-11), *tiny[:3]], tiny, s(1)) == s(1 + 2.0**-23)
        assert quad(target, "f32", [h(1), 0, 0, 0], ONES, s(2.0**24 + 2)) == s(2.0**24 + 2)  # 2^24 + 3
        assert quad(target, "f16", [MZ] * 4, ONES, MZ) == 0
        assert quad(target, "f32", [h(1), h(2.0**-11), 0, 0], ONES, h(2.0**-10), "f16") == s(1 + 2.0**-11 + 2.0**-10)
        assert (
            quad(
                target, "f32", [h(2.0**12), h(2.0**-10), h(2.0**12), 0], [h(2.0**12), h(2.0**-10), h(-(2.0**12)), 0], 0
            )
            == 0
        )
