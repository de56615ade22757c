"""Block-scaled products against fractions: mxf8f6f4, mxf4 and mxf4nvf4, dense and sparse, by opcode and in traces; and
what is wrong to ask for."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import isa
import simulator
from isa.forms.mma import MmaForm
from isa.types import Bits
from simulator.arithmetic import sum_row
from simulator.chip.config import load_config
from simulator.chip.tables import TensorClass, kind_of
from simulator.execute.mma import Ids, Scales, execute_mma
from tests.golden import reference
from tests.simulator.arithmetic.test_exact import draw
from tests.simulator.arithmetic.test_sums import logical_columns, types_of
from tests.support.cases import over

TARGET = "sm_120a"
SCALED = [form for form in isa.mma_forms().values() if form.row.scale]
PACKED = [form for form in SCALED if form.row.kind.startswith("mxf4")]
WIDE = [form for form in SCALED if form.row.kind == "mxf8f6f4"]
SPARSE, DENSE = "mma.sp::ordered_metadata.sync.aligned.m16n8k", "mma.sync.aligned.m16n8k"
MXF8 = DENSE + "32.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.{}.{}.f32.ue8m0"
MXF4 = DENSE + "64.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0"
NVF4 = DENSE + "64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3"
SCALES = ("near one", "bits", "special", "small", "large")  # kinds of scale factors
KINDS = ("bits", "cancel", "near one", "few", "subnormal")  # kinds of elements


def draw_scales(rng: np.random.Generator, kind: str, name: str, shape: tuple[int, ...]) -> Bits:
    one = {"ue8m0": 127, "ue4m3": 0x38}[name]
    if kind == "special":
        pool = np.array([0, 1, one, 0x7F, 0xFF, 0x80, 0xFE, 0x7E])
        return np.where(rng.random(shape) < 0.06, rng.choice(pool, shape), one).astype(np.uint32)
    top = {"ue8m0": 255, "ue4m3": 0x7F}[name]
    low, high = {"near one": (one - 10, one + 10), "bits": (0, 255), "small": (0, 10), "large": (top - 12, top)}[kind]
    return rng.integers(low, high, shape).astype(np.uint32)


def elements(rng: np.random.Generator, kind: str, form: MmaForm) -> tuple[Bits, Bits, Bits]:
    """A, B and C of one case. "cancel": each group's second half takes back its first; "few": mostly zeros."""
    a, b = draw(rng, "bits", form.a_type, form.a.shape), draw(rng, "bits", form.b_type, form.b.shape)
    c = draw(rng, "near one" if kind != "subnormal" else "subnormal", form.c_type, form.c.shape)
    if kind in ("near one", "subnormal"):
        a, b = draw(rng, kind, form.a_type, form.a.shape), draw(rng, kind, form.b_type, form.b.shape)
    if kind == "few":
        a = np.where(rng.random(a.shape) < 0.03, a, 0).astype(np.uint32)
    if kind == "cancel":
        sign = np.uint32(1 << form.a_type.sign_bit)
        rows = a.reshape(form.m, -1, 2, 8)
        rows[:, :, 1] = rows[:, :, 0] ^ sign
        b.reshape(-1, 2, 8, form.n)[:, 1] = b.reshape(-1, 2, 8, form.n)[:, 0]
        c = np.where(rng.random(c.shape) < 0.5, draw(rng, "subnormal", form.c_type, c.shape), c)
    return a, b, c.astype(np.uint32)


def compute(
    form: MmaForm,
    a: Bits,
    b: Bits,
    c: Bits,
    factors: tuple[Bits, Bits],
    codes: Bits | None = None,
    ids: tuple[Ids, Ids] = ((0, 0), (0, 0)),
    noise: np.random.Generator | None = None,
    **options: str,
) -> Bits:
    """D matrices by the public functions; bytes of the scale registers that the ids do not name are noise."""
    registers = [form.a.scatter(a), form.b.scatter(b), form.c.scatter(c)]
    scales = []
    for operand, patterns, (byte_id, thread_id) in zip((form.scale_a, form.scale_b), factors, ids, strict=True):
        words = operand.scatter(patterns, byte_id, thread_id)
        if noise is not None:
            held = operand.scatter(np.full_like(patterns, 0xFF), byte_id, thread_id)
            words = words | (noise.integers(0, 1 << 32, words.shape, np.uint64).astype(np.uint32) & ~held)
        scales.append(words)
    if form.since_ptx == "9.1":  # mma() and mma_sp() know PTX 9.0
        e = form.metadata.scatter(codes, 0) if codes is not None else None
        return form.d.gather(
            execute_mma(form, *registers, e, target=TARGET, scales=Scales(scales[0], scales[1], *ids), **options)
        )
    given = {"scale_a": scales[0], "scale_b": scales[1], "scale_a_ids": ids[0], "scale_b_ids": ids[1]}
    if codes is None:
        return form.d.gather(simulator.mma(form.opcode, *registers, TARGET, **options, **given))
    return form.d.gather(
        simulator.mma_sp(form.opcode, *registers, form.metadata.scatter(codes, 0), target=TARGET, **options, **given)
    )


# Whole instructions against fractions


def chosen() -> list[MmaForm]:
    """All packed forms, and of the others those with equal types and some mixed ones."""
    mixed = [("e4m3", "e5m2"), ("e5m2", "e3m2"), ("e3m2", "e2m1"), ("e2m3", "e4m3"), ("e2m1", "e2m3")]
    return PACKED + [
        form for form in WIDE if form.a_type is form.b_type or (form.a_type.name, form.b_type.name) in mixed
    ]


@over("arithmetic", ["chip", "exact"])
@over(
    "form",
    chosen(),
    ids=lambda form: form.opcode,
    distinct=lambda form: (form.sparse, form.a_type.name, form.row.scale),
)
def test_against_fractions(form: MmaForm, arithmetic: str) -> None:
    """Every kind of elements with every kind of scales, two outputs of each; ids differ from case to case."""
    rng = np.random.default_rng(len(form.opcode))
    cases = list(product(KINDS, SCALES))
    a, b, c = (np.stack(x) for x in zip(*(elements(rng, kind, form) for kind, _ in cases), strict=True))
    sides = form.scale_a, form.scale_b
    factors = [np.stack([draw_scales(rng, kind, side.type.name, side.shape) for _, kind in cases]) for side in sides]
    codes = (
        rng.choice(np.array(form.metadata.codes, np.uint32), (len(cases), *form.metadata.shape))
        if form.sparse
        else None
    )
    rule, types = sum_row(form, isa.parse_target(TARGET)).rule, types_of(form)
    for case, what in enumerate(cases):
        ids = tuple((int(rng.choice(side.byte_ids)), int(rng.choice(side.thread_ids))) for side in sides)
        one = slice(case, case + 1)
        metadata = None if codes is None else codes[one]
        d = compute(
            form, a[one], b[one], c[one], (factors[0][one], factors[1][one]), metadata, ids, rng, arithmetic=arithmetic
        )[0]
        for i, j in rng.integers(0, d.shape, (2, 2)).tolist():
            column = b[case, :, j].tolist()
            picked = (
                column if codes is None else [column[k] for k in logical_columns(codes[case, i].tolist(), form.a_type)]
            )
            both = reference.Factors(factors[0][case, i].tolist(), factors[1][case, j].tolist(), form.scale_a.type)
            if arithmetic == "chip":
                wanted = reference.chip((a[case, i].tolist(), picked), int(c[case, i, j]), types, rule, both)
            else:
                wanted = reference.exact(a[case, i].tolist(), picked, int(c[case, i, j]), types, both)
            assert hex(d[i, j]) == hex(wanted), (what, i, j)


# By hand


def dot(
    opcode: str,
    a: dict[int, int],
    b: dict[int, int],
    c: int = 0,
    scale_a: tuple[int, ...] = (),
    scale_b: tuple[int, ...] = (),
    *,
    arithmetic: str = "chip",
) -> int:
    """One element of D: row 5 of A and column 3 of B hold patterns at some k, all other elements are zero; other rows'
    scales are NaN."""
    form = isa.mma_form(opcode)
    left, right, addend = (np.zeros((1, *fragment.shape), np.uint32) for fragment in (form.a, form.b, form.c))
    for k, pattern in a.items():
        left[0, 5, k] = pattern
    for k, pattern in b.items():
        right[0, k, 3] = pattern
    addend[0, 5, 3] = c
    one = {"ue8m0": 127, "ue4m3": 0x38}[form.scale_a.type.name]
    factors = []
    for side, vector, given in ((form.scale_a, 5, scale_a), (form.scale_b, 3, scale_b)):
        patterns = np.full((1, *side.shape), 0xFF, np.uint32)
        patterns[0, vector] = given or (one,) * side.factors
        factors.append(patterns)
    return int(compute(form, left, right, addend, (factors[0], factors[1]), arithmetic=arithmetic)[0, 5, 3])


def f32(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


E4M3, E5M2 = MXF8.format("e4m3", "e4m3"), MXF8.format("e5m2", "e5m2")
ONE, MINUS = 0x38, 0xB8  # e4m3
HALF5, INF5 = 0x38, 0x7C  # e5m2: 0.5, infinity
P1, M1, P05 = 2, 10, 1  # packed e2m1: 1, -1, 0.5
NAN = 0x7FFFFFFF
TWO = 128  # ue8m0

VECTORS = [
    # what it shows, opcode, A, B, C, scales of A, of B, result
    ("scales multiply", E4M3, {0: ONE}, {0: ONE}, f32(0.5), (130,), (125,), f32(2.5)),
    ("a scale of NaN, nothing else", E4M3, {}, {}, f32(1), (255,), (127,), NAN),
    ("a scale of NaN of B", MXF4, {}, {}, f32(1), (127, 127), (127, 255), NAN),
    ("a ue4m3 scale of NaN", NVF4, {}, {}, 0, (0x38, 0x38, 0x7F, 0x38), (), NAN),
    ("the sign of a ue4m3 scale is not looked at", NVF4, {0: P1}, {0: P1}, 0, (0xB8, 0, 0, 0), (), f32(1)),
    ("the smallest scales", E4M3, {0: ONE}, {0: ONE}, 1, (0,), (0,), 1),
    ("2^127 * 2^127 overflows", E4M3, {0: ONE}, {0: ONE}, 0, (254,), (254,), 0x7F800000),
    ("and takes itself back", E4M3, {0: ONE, 1: MINUS}, {0: ONE, 1: ONE}, 0, (254,), (254,), 0),
    ("infinity, scaled", E5M2, {0: INF5}, {0: HALF5}, 0, (0,), (0,), 0x7F800000),
    ("infinity times zero", E5M2, {0: INF5}, {}, 0, (127,), (127,), NAN),
    # mxf8f6f4: 25 fraction bits below the largest exponent, scales included; 2^-6 * 2^-6 * 2^-13 = 2^-25 beside 1 of C
    ("2^-25 below C", E4M3, {0: 0x08, 1: 0x08}, {0: 0x08, 1: 0x08}, f32(1), (114,), (127,), f32(1)),
    ("2^-24 twice is 2^-23", E4M3, {0: 0x08, 1: 0x08}, {0: 0x08, 1: 0x08}, f32(1), (115,), (127,), 0x3F800001),
    (
        "four 2^-25",
        E4M3,
        dict.fromkeys(range(4), 0x08),
        dict.fromkeys(range(4), 0x08),
        f32(1),
        (114,),
        (127,),
        0x3F800001,
    ),
    (
        "four 2^-26 are gone",
        E4M3,
        dict.fromkeys(range(8), 0x08),
        dict.fromkeys(range(8), 0x08),
        f32(1),
        (113,),
        (127,),
        f32(1),
    ),
    ("the floor, -133: 2^-149 - 2^-158", E5M2, {0: 0x3C, 1: 0x98}, {0: 0x3C, 1: 0x3C}, 0, (0,), (105,), 0),
    ("the floor, -133: 2^-149 - 2^-159", E5M2, {0: 0x3C, 1: 0x94}, {0: 0x3C, 1: 0x3C}, 0, (0,), (105,), 1),
    ("2^-150 twice", E4M3, {0: ONE, 1: ONE}, {0: ONE, 1: ONE}, 0, (0,), (104,), 1),
    # packed: groups of 16 are exact, whatever they hold; 35 bits below the largest exponent of the scales
    ("group: 36 * 16", MXF4, dict.fromkeys(range(16), 7), dict.fromkeys(range(16), 7), 0, (), (), f32(576)),
    ("group: 0.25 beside 36 - 36", MXF4, {0: 7, 1: 15, 2: 1}, {0: 7, 1: 7, 2: 1}, 0, (), (), f32(0.25)),
    (
        "35 bits: 2^-35 beside a group that cancels",
        NVF4,
        {0: P1, 1: M1},
        {0: P1, 1: P1},
        f32(2.0**-35),
        (),
        (),
        f32(2.0**-35),
    ),
    ("2^-36 is gone, though the group is zero", NVF4, {0: P1, 1: M1}, {0: P1, 1: P1}, f32(2.0**-36), (), (), 0),
    ("zero products do not count", NVF4, {0: P1, 1: M1}, {}, f32(2.0**-36), (), (), f32(2.0**-36)),
    (
        "a scale of zero leaves its group out",
        NVF4,
        {0: P1, 1: M1},
        {0: P1, 1: P1},
        f32(2.0**-36),
        (0, 0x38, 0x38, 0x38),
        (),
        f32(2.0**-36),
    ),
    ("aligned by the scales, not by the sum", MXF4, {0: P1, 16: P1}, {0: P1, 16: P1}, f32(2.0**-36), (), (), f32(2)),
    (
        "exponent of scales: 2^-35 beside 576 with scale 1",
        MXF4,
        {**dict.fromkeys(range(16), 7), **dict.fromkeys(range(16, 32), 15)},
        dict.fromkeys(range(32), 7),
        f32(2.0**-35),
        (),
        (),
        f32(2.0**-35),
    ),
    (
        "and gone with scale 2",
        MXF4,
        {**dict.fromkeys(range(16), 7), **dict.fromkeys(range(16, 32), 15)},
        dict.fromkeys(range(32), 7),
        f32(2.0**-35),
        (TWO, TWO),
        (),
        0,
    ),
    ("the floor of packed, -139: 2^-149 - 2^-174", MXF4, {0: P1, 32: M1}, {0: P1, 32: P05}, 0, (0, 0), (105, 81), 0),
    (
        "the floor of packed, -139: 2^-149 - 2^-175",
        MXF4,
        {0: P1, 32: 8 | P05},
        {0: P1, 32: P05},
        0,
        (0, 0),
        (105, 81),
        1,
    ),
    ("the smallest C beside the smallest scales", MXF4, {0: P1, 1: M1}, {0: P1, 1: P1}, 1, (0, 0), (0, 0), 1),
    ("2^-149 by scales", MXF4, {0: P1}, {0: P1}, 0, (0, 0), (105, 0), 1),
    ("2^-150 rounds toward zero", MXF4, {0: P1}, {0: P1}, 0, (0, 0), (104, 0), 0),
    ("halves of 2^-150", MXF4, {0: P1, 1: P1}, {0: P1, 1: P1}, 0, (0, 0), (104, 0), 1),
    (
        "16 products of one factor, then the next",
        NVF4,
        {0: P1, 15: P1, 16: P1, 63: P1},
        dict.fromkeys(range(64), P1),
        0,
        (0x38, 0x40, 0x48, 0x50),
        (),
        f32(12),
    ),
    ("32 of ue8m0", MXF4, {0: P1, 31: P1, 32: P1}, dict.fromkeys(range(64), P1), 0, (127, 131), (), f32(18)),
    ("ue4m3 subnormal: 2^-9", NVF4, {0: P1}, {0: P1}, 0, (1, 0, 0, 0), (0x38,) * 4, f32(2.0**-9)),
    (
        "ue4m3 subnormal: its exponent is -6",
        NVF4,
        {0: P1, 1: M1},
        {0: P1, 1: P1},
        f32(2.0**-42),
        (1, 0, 0, 0),
        (0x38,) * 4,
        0,
    ),
    (
        "2^-41 stays beside it",
        NVF4,
        {0: P1, 1: M1},
        {0: P1, 1: P1},
        f32(2.0**-41),
        (1, 0, 0, 0),
        (0x38,) * 4,
        f32(2.0**-41),
    ),
    ("ue4m3: 448 * 448", NVF4, {0: P1}, {0: P1}, 0, (0x7E, 0, 0, 0), (0x7E, 0, 0, 0), f32(448 * 448)),
    ("infinite C", MXF4, {0: P1}, {0: P1}, 0xFF800000, (254, 254), (254, 254), 0xFF800000),
    ("minus zero", MXF4, {0: M1}, {}, 0x80000000, (), (), 0),
    ("toward zero", MXF4, {0: P05}, {0: P1}, f32(2.0**24 - 1), (), (), f32(2.0**24 - 1)),
]


@over("vector", VECTORS, ids=[vector[0] for vector in VECTORS])
def test_by_hand(
    vector: tuple[str, str, dict[int, int], dict[int, int], int, tuple[int, ...], tuple[int, ...], int],
) -> None:
    _, opcode, a, b, c, scale_a, scale_b, wanted = vector
    assert hex(dot(opcode, a, b, c, scale_a, scale_b)) == hex(wanted)


def test_exact_sums_keep_what_the_chip_drops() -> None:
    """The exact result rounds once, to nearest even, and nothing is aligned."""
    cancelled = {0: P1, 1: M1}, {0: P1, 1: P1}
    assert dot(NVF4, *cancelled, f32(2.0**-36), arithmetic="exact") == f32(2.0**-36)
    assert dot(MXF4, {0: P05}, {0: P1}, f32(2.0**24 - 1), arithmetic="exact") == f32(2.0**24)
    assert dot(E4M3, {0: ONE}, {0: ONE}, 0, (254,), (254,), arithmetic="exact") == 0x7F800000
    assert dot(E4M3, {0: ONE}, {0: MINUS}, 0, (0,), (0,), arithmetic="exact") == 0x80000000  # -2^-254
    assert dot(E4M3, {0: ONE, 1: MINUS}, {0: ONE, 1: ONE}, 1, (254,), (254,), arithmetic="exact") == 1
    assert dot(MXF4, {}, {}, 0, (255, 127), arithmetic="exact") == NAN


@over("form", WIDE, ids=lambda form: form.opcode)
def test_unit_scales_change_nothing(form: MmaForm) -> None:
    """With scales of 1, mxf8f6f4 is f8f6f4."""
    rng = np.random.default_rng(6)
    plain = isa.mma_form(
        form.opcode.replace("mxf8f6f4.block_scale.scale_vec::1X", "f8f6f4").removesuffix(".ue8m0"), TARGET
    )
    a, b, c = (draw(rng, "bits", fragment.type, (6, *fragment.shape)) for fragment in (form.a, form.b, form.c))
    registers = form.a.scatter(a), form.b.scatter(b), form.c.scatter(c)
    ones = np.full((6, 32), 0x7F7F7F7F, np.uint32)
    if form.sparse:
        e = rng.integers(0, 1 << 32, (6, 32), np.uint64).astype(np.uint32)
        found = simulator.mma_sp(form.opcode, *registers, e, target=TARGET, scale_a=ones, scale_b=ones)
        assert np.array_equal(found, simulator.mma_sp(plain.opcode, *registers, e, target=TARGET))
    else:
        found = simulator.mma(form.opcode, *registers, TARGET, scale_a=ones, scale_b=ones)
        assert np.array_equal(found, simulator.mma(plain.opcode, *registers, TARGET))


# What is wrong to ask for


def zeros(form: MmaForm, cases: int = 1) -> list[Bits]:
    return [np.zeros((cases, fragment.registers, 32), np.uint32) for fragment in (form.a, form.b, form.c)]


def test_errors() -> None:
    form = isa.mma_form(MXF4)
    registers, scale = zeros(form), np.zeros((1, 32), np.uint32)
    for given in ({}, {"scale_a": scale}, {"scale_b": scale}):
        for arithmetic in ("chip", "exact"):
            with pytest.raises(
                isa.IsaError, match=r"with \.block_scale needs scale factors; legal: scale_a and scale_b"
            ):
                simulator.mma(MXF4, *registers, TARGET, arithmetic, **given)
    plain = isa.mma_form(DENSE + "32.row.col.kind::f8f6f4.f32.e4m3.e4m3.f32")
    for given in ({"scale_a": scale}, {"scale_b": scale}, {"scale_a": scale, "scale_b": scale}):
        with pytest.raises(isa.IsaError, match=r"without \.block_scale takes no scale factors"):
            simulator.mma(plain.opcode, *zeros(plain), TARGET, **given)
    both = {"scale_a": scale, "scale_b": scale}
    with pytest.raises(isa.IsaError, match=r"byte-id 1 of scale_a with 2 factors; legal: 0, 2"):
        simulator.mma(MXF4, *registers, TARGET, **both, scale_a_ids=(1, 0))
    with pytest.raises(isa.IsaError, match=r"thread-id 2 of scale_a .*legal: 0, 1"):
        simulator.mma(MXF4, *registers, TARGET, **both, scale_a_ids=(0, 2))
    with pytest.raises(isa.IsaError, match=r"thread-id 4 of scale_b .*legal: 0, 1, 2, 3"):
        simulator.mma(MXF4, *registers, TARGET, **both, scale_b_ids=(0, 4))
    with pytest.raises(isa.IsaError, match=r"byte-id 2 of scale_b with 4 factors"):
        simulator.mma(NVF4, *registers, TARGET, **both, scale_b_ids=(2, 0))
    with pytest.raises(
        isa.IsaError,
        match=r"operand scale_a has type uint8 and shape \(1, 32\); legal: a numpy array of uint32 \[case, 32\]",
    ):
        simulator.mma(MXF4, *registers, TARGET, scale_a=scale.astype(np.uint8), scale_b=scale)
    with pytest.raises(isa.IsaError, match=r"operand scale_b has type uint32 and shape \(1, 1, 32\)"):
        simulator.mma(MXF4, *registers, TARGET, scale_a=scale, scale_b=scale[:, None])
    with pytest.raises(isa.IsaError, match="operand scale_b has 2 cases, operand a has 1"):
        simulator.mma(MXF4, *registers, TARGET, scale_a=scale, scale_b=np.zeros((2, 32), np.uint32))
    with pytest.raises(isa.IsaError, match="operand scale_a is a list"):
        simulator.mma(MXF4, *registers, TARGET, scale_a=scale.tolist(), scale_b=scale)
    for target in ("sm_90a", "sm_120"):
        with pytest.raises(isa.IsaError, match=target):
            simulator.mma(MXF4, *registers, target, **both)
    sparse = isa.mma_form(SPARSE + "128.row.col.kind::mxf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0")
    with pytest.raises(isa.IsaError, match=r"needs scale factors"):
        simulator.mma_sp(sparse.opcode, *zeros(sparse), np.zeros((1, 32), np.uint32), target=TARGET)
    with pytest.raises(isa.UndefinedBehavior, match="case 0, row 0, chunk 0"):
        simulator.mma_sp(
            sparse.opcode, *zeros(sparse), np.zeros((1, 32), np.uint32), target=TARGET, undefined="raise", **both
        )


# In traces


# How long anything takes is nothing to these tests: the H100's numbers, with the target of the forms and a class for
# them.
INPUTS = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
KINDS = tuple(dict.fromkeys(kind_of(form) for form in SCALED))  # type: ignore[assignment]
CLASSES = tuple(
    TensorClass(f"scaled {sparse}", sparse, 16, 32, INPUTS, ("f32",), 33, 8, kinds=KINDS) for sparse in (False, True)
)
H100 = load_config("h100_sxm")
SOURCES = {**H100.sources, **{f"tensor {found.name}": "assumed: a test" for found in CLASSES}}
CONFIG = replace(H100, target=isa.parse_target(TARGET), tensor=CLASSES, sources=SOURCES)


def text_of(form: MmaForm, a_ids: str, b_ids: str) -> str:
    """D in %r40 to %r43; A, B, C from %r0, %r8, %r20; metadata and scales in %r30, %r31, %r32; their ids in %r33 to
    %r36 or constants."""
    operands = [(40, form.d), (0, form.a), (8, form.b), (20, form.c)]
    vectors = [
        "{" + ", ".join(f"%r{first + i}" for i in range(fragment.registers)) + "}" for first, fragment in operands
    ]
    sparse = ["%r30", "0"] if form.sparse else []
    return f"{form.opcode} {', '.join([*vectors, *sparse])}, %r31, {{{a_ids}}}, %r32, {{{b_ids}}};"


def run(path: Path, body: str, warps: int, **operands: Bits) -> simulator.Report:
    np.savez(path / "data.npz", **operands)
    places = {"a": 0, "b": 8, "c": 20, "e": 30, "sa": 31, "sb": 32, "ids": 33}
    loads = "".join(f'.load %r{places[name]}, "data.npz", "{name}";\n' for name in operands)
    text = (
        f'.trace 1\n.target {TARGET}\n.warps {warps}\n{loads}.warp 0-{warps - 1} {{\n{body}\n}}\n.store "d", %r40, 4;\n'
    )
    (path / "x.trace").write_text(text)
    return simulator.run(path / "x.trace", CONFIG)


def some_operands(form: MmaForm, warps: int, seed: int = 1) -> dict[str, Bits]:
    rng = np.random.default_rng(seed)
    found = {}
    for name in "abc":
        fragment = getattr(form, name)
        found[name] = fragment.scatter(
            draw(rng, "near one" if fragment.type.nan else "bits", fragment.type, (warps, *fragment.shape))
        )
    if form.sparse:
        found["e"] = form.metadata.scatter(
            rng.choice(np.array(form.metadata.codes, np.uint32), (warps, *form.metadata.shape)), 0
        )[:, None]
    one = {"ue8m0": 127, "ue4m3": 0x38}[form.scale_a.type.name]
    for name in ("sa", "sb"):
        found[name] = rng.integers(one - 4, one + 5, (warps, 1, 32, 4)).astype(np.uint8).view(np.uint32)[..., 0]
    return found


def expected(
    form: MmaForm, given: dict[str, Bits], warp: int, a_ids: Ids, b_ids: Ids, arithmetic: str = "chip"
) -> Bits:
    one = {name: array[warp : warp + 1] for name, array in given.items()}
    scales = {
        "scale_a": one["sa"][:, 0],
        "scale_b": one["sb"][:, 0],
        "scale_a_ids": a_ids,
        "scale_b_ids": b_ids,
        "arithmetic": arithmetic,
    }
    if form.sparse:
        return simulator.mma_sp(form.opcode, one["a"], one["b"], one["c"], one["e"][:, 0], target=TARGET, **scales)[0]
    return simulator.mma(form.opcode, one["a"], one["b"], one["c"], TARGET, **scales)[0]


TRACED = [E4M3, MXF4, NVF4, SPARSE + "64.row.col.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e5m2.e3m2.f32.ue8m0",
          SPARSE + "128.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0"]  # fmt: skip


@pytest.mark.parametrize("opcode", TRACED)
def test_constant_ids_in_a_trace(opcode: str, tmp_path: Path) -> None:
    form = isa.mma_form(opcode)
    a_ids, b_ids = (max(form.scale_a.byte_ids), 1), (max(form.scale_b.byte_ids), 3)
    given = some_operands(form, 3)
    report = run(tmp_path, text_of(form, f"{a_ids[0]}, {a_ids[1]}", f"{b_ids[0]}, {b_ids[1]}"), 3, **given)
    for warp in range(3):
        assert np.array_equal(report.arrays["d"][warp], expected(form, given, warp, a_ids, b_ids))
        assert not np.array_equal(report.arrays["d"][warp], expected(form, given, warp, (0, 0), (0, 0)))
    assert not report.undefined
    assert report.cycles > 0


@pytest.mark.parametrize("opcode", TRACED)
def test_ids_in_registers_differ_from_warp_to_warp(opcode: str, tmp_path: Path) -> None:
    """Each warp's own; of what the registers hold only the bits of legal ids count. Where lanes disagree the first
    decides, and it is a finding."""
    form = isa.mma_form(opcode)
    warps = 6
    given = some_operands(form, warps)
    rng = np.random.default_rng(3)
    legal = form.scale_a.byte_ids, form.scale_a.thread_ids, form.scale_b.byte_ids, form.scale_b.thread_ids
    ids = np.stack([rng.choice(values, warps) for values in legal], axis=1).astype(np.uint32)
    registers = np.repeat(ids[:, :, None], 32, axis=2)
    registers[2] |= 0xFFF0  # far above
    registers[4, 3, 1:] ^= 1
    report = run(tmp_path, text_of(form, "%r33, %r34", "%r35, %r36"), warps, **given, ids=registers)
    for warp in range(warps):
        a_byte, a_thread, b_byte, b_thread = ids[warp].tolist()
        assert np.array_equal(
            report.arrays["d"][warp], expected(form, given, warp, (a_byte, a_thread), (b_byte, b_thread))
        ), warp
    assert report.undefined == {"uneven-scale-ids": 1}


def test_uneven_ids_raise_where_the_policy_says_so(tmp_path: Path) -> None:
    form = isa.mma_form(E4M3)
    given = some_operands(form, 1)
    body = "mov.u32 %r34, %laneid; " + text_of(form, "0, %r34", "0, 0")
    assert run(tmp_path, body, 1, **given).undefined == {"uneven-scale-ids": 1}
    with pytest.raises(isa.UndefinedBehavior) as caught:
        simulator.run(tmp_path / "x.trace", CONFIG, undefined="raise")
    assert caught.value.rule == "uneven-scale-ids"


def test_exact_and_the_distance_in_a_trace(tmp_path: Path) -> None:
    """The exact arithmetic takes the scales, too, and the report compares with it."""
    form = isa.mma_form(MXF8.format("e4m3", "e5m2"))
    given = some_operands(form, 2, seed=5)
    report = run(tmp_path, text_of(form, "0, 0", "0, 0"), 2, **given)
    exact = simulator.run(tmp_path / "x.trace", CONFIG, arithmetic="exact")
    assert all(
        np.array_equal(exact.arrays["d"][w], expected(form, given, w, (0, 0), (0, 0), "exact")) for w in range(2)
    )
    apart = simulator.arithmetic.ulp_distance(report.arrays["d"], exact.arrays["d"], form.d_type)
    assert report.largest_ulp == int(apart.max()) > 0
    x, y = (r.arrays["d"].view(np.float32).astype(np.float64) for r in (report, exact))
    error = report.instruction_error
    assert error is not None
    assert error.relative is not None
    assert (error.elements, error.largest) == (x.size, np.abs(x - y).max())
    assert error.relative == pytest.approx(np.linalg.norm(x - y) / np.linalg.norm(y))
    assert error.sqnr_db == pytest.approx(-20 * np.log10(error.relative))
    found, row = report.as_dict(), report.to_frame().iloc[0]
    for name, wanted in (
        ("relative_error", error.relative),
        ("sqnr_db", error.sqnr_db),
        ("largest_error", error.largest),
    ):
        assert found[f"instruction_{name}"] == row[f"instruction_{name}"] == wanted
    assert f"ulp at most (relative {error.relative:.2g}, SQNR {error.sqnr_db:.1f} dB" in report.table()
    assert exact.as_dict()["instruction_largest_error"] is None


@pytest.mark.parametrize(("ids", "wrong"), [("1, 0", "1"), ("0, 2", "2"), ("4, 0", "4")])
def test_illegal_constants_are_errors_of_the_trace(ids: str, wrong: str, tmp_path: Path) -> None:
    form = isa.mma_form(MXF4)
    with pytest.raises(simulator.TraceError, match=rf"{wrong}.*legal: "):
        run(tmp_path, text_of(form, ids, "0, 0"), 1, **some_operands(form, 1))
