"""Decoding, rounding, the fused sum, integers, distances, and the public functions on top: `mma`, `mma_sp` and their
undefined cases."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isa.errors import IsaError, UndefinedBehavior
from isa.forms.mma import MmaForm, mma_forms
from isa.targets import KNOWN, Target, parse_target
from isa.types import ELEMENT_TYPES, F64, Bits, ElementType
from isa.undefined import RULES, metadata_findings
from simulator import mma, mma_sp
from simulator.arithmetic import SUM_ROWS, SumRow, decode, encode, encode_integer, find_row, sum_row, ulp_distance
from simulator.arithmetic.rows import INFERRED, MEASURED_BY_OTHERS, MEASURED_HERE, MULTIPLY_ADD_F32, TURING, VOLTA
from simulator.execute.mma import execute_mma, undefined_cases
from tests.golden import reference
from tests.simulator.arithmetic.test_exact import KINDS, cases
from tests.support.cases import examples, over
from tests.support.dyadic import Dyadic

F16, F32, BF16, TF32 = (ELEMENT_TYPES[name] for name in ("f16", "f32", "bf16", "tf32"))
ORDERED = "mma.sp::ordered_metadata.sync.aligned."
E4M3_K64 = "m16n8k64.row.col.f32.e4m3.e5m2.f32"
SP_K32 = ORDERED + "m16n8k32.row.col.f32.f16.f16.f32"


# Patterns and numbers


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("f16", np.float16),
        ("bf16", ml_dtypes.bfloat16),
        ("e4m3", ml_dtypes.float8_e4m3fn),
        ("e5m2", ml_dtypes.float8_e5m2),
    ],
)
def test_every_pattern_of_small_floats(name: str, theirs: type) -> None:
    element = ELEMENT_TYPES[name]
    patterns = np.arange(1 << element.bits, dtype=np.uint32)
    storage = np.uint16 if element.bits == 16 else np.uint8
    with np.errstate(invalid="ignore"):
        expected = patterns.astype(storage).view(theirs).astype(np.float64)
    found = decode(patterns, element)
    assert np.array_equal(found.value, expected, equal_nan=True)
    assert np.array_equal(np.signbit(found.value[~np.isnan(expected)]), np.signbit(expected[~np.isnan(expected)]))
    ordinary = np.isfinite(expected) & (expected != 0)
    assert np.array_equal(found.exponent[ordinary], np.maximum(np.frexp(expected[ordinary])[1] - 1, 1 - element.bias))
    assert (found.exponent[~ordinary] < -2000).all()


def test_f32_and_tf32() -> None:
    patterns = np.concatenate(
        [np.random.default_rng(1).integers(0, 1 << 32, 20000, np.uint64).astype(np.uint32), draw_edges()]
    )
    for element, kept in ((F32, patterns), (TF32, patterns & np.uint32(0xFFFFE000))):
        with np.errstate(invalid="ignore"):
            expected = kept.view(np.float32).astype(np.float64)
        assert np.array_equal(decode(patterns, element).value, expected, equal_nan=True)
    infinite, nan = np.array([0x7F800001, 0x7F801FFF], np.uint32), np.array([0x7F802000], np.uint32)
    assert np.isposinf(decode(infinite, TF32).value).all()  # measured on H100
    assert np.isnan(decode(nan, TF32).value).all()


def draw_edges() -> Bits:
    edges = np.array([0, 1, 0x7FFFFF, 0x800000, 0x3F800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FFFFFFF], np.uint32)
    return np.concatenate([edges, edges | np.uint32(0x80000000)])


def test_e4m3_subnormals_get_normal_exponents_on_the_way_through_f16() -> None:
    smallest = np.array([1], np.uint32)  # 2^-9
    assert decode(smallest, ELEMENT_TYPES["e4m3"]).exponent[0] == -6
    assert decode(smallest, ELEMENT_TYPES["e4m3"], through=F16).exponent[0] == -9
    assert decode(smallest, ELEMENT_TYPES["e5m2"], through=F16).exponent[0] == -14  # 2^-16: subnormal in f16, too


@pytest.mark.parametrize(
    ("element", "nearest", "kept"), [(F32, True, 23), (F32, False, 23), (F32, False, 13), (F16, True, 10)]
)
def test_rounding_against_fractions(element: ElementType, nearest: bool, kept: int) -> None:
    rng = np.random.default_rng(4)
    values = np.ldexp(
        rng.integers(-(1 << 30), 1 << 30, 3000),
        rng.integers(-185, 105, 3000) if element is F32 else rng.integers(-60, -5, 3000),
    )
    ties = np.ldexp(
        2 * rng.integers(1 << kept, 2 << kept, 500) + 1,
        rng.integers(-150, 90, 500) if element is F32 else rng.integers(-26, 3, 500),
    )
    values = np.concatenate([values, ties, -ties])
    found = encode(values, element, nearest=nearest, fraction=kept)
    for value, pattern in zip(values.tolist(), found.tolist(), strict=True):
        magnitude = reference.write(Dyadic.of(value), element, nearest, kept)
        assert pattern == magnitude | (1 << (element.bits - 1) if value < 0 and magnitude else 0), value


def test_integer_rounding_drops_any_number_of_bits() -> None:
    one = np.array([1], np.uint64)
    big = np.array([(1 << 62) + 1], np.uint64)
    no = np.array([False])
    assert encode_integer(no, one, np.array([-149]), F32)[0] == 1
    assert encode_integer(no, one, np.array([-150]), F32)[0] == 0
    assert encode_integer(no, big, np.array([-212]), F32)[0] == 1  # 63 bits dropped, a little more than half remains
    assert encode_integer(no, np.array([1 << 62], np.uint64), np.array([-212]), F32)[0] == 0
    assert encode_integer(no, big, np.array([-4000]), F32)[0] == 0
    assert encode_integer(~no, big, np.array([-4000]), F32)[0] == 0x80000000
    assert encode_integer(~no, big, np.array([4000]), F16)[0] == 0xFC00


def test_ulp_distance() -> None:
    def distance(x: int, y: int, name: str) -> int:
        return int(ulp_distance(np.array([x], np.uint32), np.array([y], np.uint32), ELEMENT_TYPES[name])[0])

    assert distance(0x3F800000, 0x3F800001, "f32") == 1
    assert distance(0x00000000, 0x80000000, "f32") == 0
    assert distance(0x00000001, 0x80000001, "f32") == 2
    assert distance(0x7F7FFFFF, 0x7F800000, "f32") == 1
    assert distance(0x7F800000, 0xFF800000, "f32") == 2 * 0x7F800000
    assert distance(0x7FFFFFFF, 0xFFC00000, "f32") == 0
    assert distance(0x7FFFFFFF, 0x3F800000, "f32") == 0xFFFFFFFF
    assert distance(0x3F800000, 0x7FC00000, "f32") == 0xFFFFFFFF
    assert distance(0x3C00, 0x4000, "f16") == 1024
    assert distance(0x7E00, 0x0000, "f16") == 0xFFFF
    assert distance(0x80000000, 0x7FFFFFFF, "s32") == 0xFFFFFFFF
    assert distance(0xFF, 0x01, "s8") == 2
    assert distance(0xFF, 0x01, "u8") == 254


# The fused sum


def dense(name: str) -> str:
    return f"mma.sync.aligned.{name}"


def dot(opcode: str, a: dict[int, int], b: dict[int, int], c: int, target: str) -> int:
    """One element of D: A and B hold patterns at some k of row 0 and column 0, all else is zero."""
    form = mma_forms()[opcode]
    left, right, addend = (np.zeros((1, *fragment.shape), np.uint32) for fragment in (form.a, form.b, form.c))
    for k, pattern in a.items():
        left[0, 0, k] = pattern
    for k, pattern in b.items():
        right[0, k, 0] = pattern
    addend[0, 0, 0] = c
    d = mma(opcode, form.a.scatter(left), form.b.scatter(right), form.c.scatter(addend), target)
    return int(form.d.gather(d)[0, 0, 0])


def power(exponent: int, element: ElementType) -> int:
    """The pattern of 2^exponent, subnormal or not."""
    lowest = 1 - element.bias
    magnitude = (
        (exponent + element.bias) << element.fraction
        if exponent >= lowest
        else 1 << (element.fraction + exponent - lowest)
    )
    return magnitude << element.padding


def h(exponent: int) -> int:
    """2^exponent as f16."""
    return power(exponent, F16)


def bf(exponent: int) -> int:
    """2^exponent as bf16."""
    return power(exponent, BF16)


F32_K16, F16_K16 = dense("m16n8k16.row.col.f32.f16.f16.f32"), dense("m16n8k16.row.col.f16.f16.f16.f16")
BF16_K16, TF32_K8 = dense("m16n8k16.row.col.f32.bf16.bf16.f32"), dense("m16n8k8.row.col.f32.tf32.tf32.f32")
HALF = 0x3E00  # 1.5
VECTORS = [
    # what it shows, opcode, A, B, C, result on sm_80, on sm_90
    (
        "2^-24 stays beside 2.25 - 2.25",
        F32_K16,
        {0: HALF, 1: HALF | 0x8000},
        {0: HALF, 1: HALF},
        0x33800000,
        0x33800000,
        0x33800000,
    ),
    (
        "fraction bits, unnormalised products",
        F32_K16,
        {0: HALF, 1: HALF | 0x8000},
        {0: HALF, 1: HALF},
        0x33000000,
        0,
        0x33000000,
    ),
    ("2^-26 is gone", F32_K16, {0: HALF, 1: HALF | 0x8000}, {0: HALF, 1: HALF}, 0x32800000, 0, 0),
    (
        "length of a step",
        F32_K16,
        {0: h(0), 1: h(-12), 8: h(0) | 0x8000},
        {0: h(0), 1: h(-12), 8: h(0)},
        0,
        0,
        0x33800000,
    ),
    ("f16: tie broken by 2^-44", F16_K16, {0: h(-11), 1: h(-20)}, {0: h(-14), 1: h(-24)}, 0, 1, 1),
    ("f16: 2^-45", F16_K16, {0: h(-11), 1: h(-21)}, {0: h(-14), 1: h(-24)}, 0, 0, 1),
    ("f16: 2^-46, the floor", F16_K16, {0: h(-11), 1: h(-22)}, {0: h(-14), 1: h(-24)}, 0, 0, 1),
    ("f16: 2^-47, below the floor", F16_K16, {0: h(-11), 1: h(-23)}, {0: h(-14), 1: h(-24)}, 0, 0, 0),
    *(
        (
            f"f32: 2^-149 - 2^-{126 + x}, the floor",
            BF16_K16,
            {0: bf(-126), 1: bf(-126) | 0x8000},
            {0: bf(-23), 1: bf(-x)},
            0,
            ampere,
            hopper,
        )
        for x, ampere, hopper in ((30, 0, 0), (31, 1, 0), (32, 1, 0), (33, 1, 1))
    ),
    ("overflow", BF16_K16, {0: bf(127), 1: bf(127)}, {0: bf(0), 1: bf(0)}, 0, 0x7F800000, 0x7F800000),
    ("no overflow in between", BF16_K16, {0: bf(127), 1: bf(127) | 0x8000}, {0: bf(127), 1: bf(127)}, 0x3F800000, 0, 0),
    ("infinity times zero", F32_K16, {0: 0x7C00}, {}, 0, 0x7FFFFFFF, 0x7FFFFFFF),
    ("infinity minus infinity", F32_K16, {0: 0x7C00, 1: 0xFC00}, {0: h(0), 1: h(0)}, 0, 0x7FFFFFFF, 0x7FFFFFFF),
    ("NaN in C", F32_K16, {}, {}, 0xFFC12345, 0x7FFFFFFF, 0x7FFFFFFF),
    ("infinity times zero, f16", F16_K16, {0: 0x7C00}, {}, 0, 0x7FFF, 0x7FFF),
    ("minus zeros", F32_K16, dict.fromkeys(range(16), 0x8000), dict.fromkeys(range(16), h(0)), 0x80000000, 0, 0),
    ("f16: tie to even, down", F16_K16, {0: h(0), 1: h(-11)}, {0: h(0), 1: h(0)}, 0, 0x3C00, 0x3C00),
    (
        "f16: tie to even, up",
        F16_K16,
        {0: h(0), 1: 3 * 1024 // 2 + h(-10) - 1024},
        {0: h(0), 1: h(0)},
        0,
        0x3C02,
        0x3C02,
    ),
    ("f16: negative sum that rounds to zero", F16_K16, {0: h(-24) | 0x8000}, {0: h(-2)}, 0, 0, 0),
]


@over("vector", VECTORS, ids=[v[0] for v in VECTORS])
def test_published_vectors(vector: tuple[str, str, dict[int, int], dict[int, int], int, int, int]) -> None:
    _, opcode, a, b, c, ampere, hopper = vector
    assert hex(dot(opcode, a, b, c, "sm_80")) == hex(ampere)
    assert hex(dot(opcode, a, b, c, "sm_90")) == hex(hopper)


def test_fp8_accumulator_of_sm_89_has_13_bits() -> None:
    opcode = dense("m16n8k32.row.col.f32.e4m3.e4m3.f32")
    assert hex(dot(opcode, {}, {}, 0x3FFFFFFF, "sm_89")) == hex(0x3FFFFC00)
    assert hex(dot(opcode, {}, {}, 0x3FFFFFFF, "sm_90")) == hex(0x3FFFFFFF)


ONE, ONE_AND_A_HALF = (
    {"f16": 0x3C00, "bf16": 0x3F80, "tf32": 0x3F800000, "e5m2": 0x3C},
    {"f16": 0x3E00, "bf16": 0x3FC0, "tf32": 0x3FC00000, "e5m2": 0x3E},
)


def probe(target: str, opcode: str, back: int, tiny: int) -> bool:
    """Whether 2^-tiny survives beside 2.25 - 2.25, where -2.25 stands in stored column `back`."""
    form = mma_forms()[opcode]
    a, b, c = (np.zeros((1, *fragment.shape), np.uint32) for fragment in (form.a, form.b, form.c))
    half, name = -(-tiny // 2), form.a_type.name
    a[0, 0, [0, back]] = ONE_AND_A_HALF[name], ONE_AND_A_HALF[name] | 1 << (form.a_type.bits - 1)
    a[0, 0, 1] = power(-half, form.a_type)
    columns = [0, 1, back]
    if form.sparse:
        code = form.metadata.codes[0]
        columns = [logical_columns([code] * form.metadata.shape[1], form.a_type)[column] for column in columns]
    b[0, columns, 0] = ONE_AND_A_HALF[name], power(half - tiny, form.b_type), ONE_AND_A_HALF[name]
    e = (
        form.metadata.scatter(np.full((1, *form.metadata.shape), form.metadata.codes[0], np.uint32), 0)
        if form.sparse
        else None
    )
    d = form.d.gather(execute_mma(form, form.a.scatter(a), form.b.scatter(b), form.c.scatter(c), e, target=target))
    return bool(d[0, 0, 0])


WIDTHS = [
    # target, form, fraction bits, products a step: the published table, and what is inferred from it
    ("sm_75", dense("m16n8k8.row.col.f32.f16.f16.f32"), 24, 8),
    *((f"sm_{n}", dense("m16n8k16.row.col.f32.f16.f16.f32"), 24, 8) for n in (80, 86, 87, 88, 89)),
    *((f"sm_{n}", ORDERED + "m16n8k32.row.col.f32.bf16.bf16.f32", 24, 8) for n in (80, 86, 87, 88, 89)),
    ("sm_80", dense("m16n8k8.row.col.f32.tf32.tf32.f32"), 24, 4),
    ("sm_80", ORDERED + "m16n8k16.row.col.f32.tf32.tf32.f32", 24, 4),
    ("sm_89", dense("m16n8k32.row.col.f32.e5m2.e5m2.f32"), 13, 16),
    ("sm_89", ORDERED + "m16n8k64.row.col.f32.e5m2.e5m2.f32", 13, 16),
    *((f"sm_{n}", dense("m16n8k16.row.col.f32.f16.f16.f32"), 25, 16) for n in (90, 100, 103, 110, 120, 121)),
    *((f"sm_{n}", ORDERED + "m16n8k32.row.col.f32.f16.f16.f32", 25, 16) for n in (90, 100, 103, 110, 120, 121)),
    ("sm_90", dense("m16n8k8.row.col.f32.tf32.tf32.f32"), 25, 8),
    ("sm_90", ORDERED + "m16n8k16.row.col.f32.tf32.tf32.f32", 25, 8),
    *((f"sm_{n}", dense("m16n8k32.row.col.f32.e5m2.e5m2.f32"), 25, 32) for n in (120, 121)),
    *((f"sm_{n}", ORDERED + "m16n8k64.row.col.f32.e5m2.e5m2.f32", 25, 32) for n in (120, 121)),
]


@over(("target", "opcode", "fraction", "products"), WIDTHS, ids=lambda v: str(v).removeprefix("mma."))
def test_width_and_length_of_a_step(target: str, opcode: str, fraction: int, products: int) -> None:
    assert [probe(target, opcode, 2, tiny) for tiny in (fraction - 1, fraction, fraction + 1)] == [True, True, False]
    backs = range(2, mma_forms()[opcode].k_stored)
    assert [back for back in backs if probe(target, opcode, back, fraction)] == list(range(2, products))


def on(number: int) -> Target:
    """The target of that number that has most."""
    return parse_target(f"sm_{number}{'a' if number >= 90 else ''}")


def one_form_of_each_sum() -> list[tuple[str, MmaForm, SumRow]]:
    """For every row of `mma`, on its first target: one form of each shape, type of A and types of C and D, and the
    types of B in turn."""
    chosen = []
    for row in SUM_ROWS:
        target = on(row.targets[0])
        groups: dict[tuple[object, ...], list[MmaForm]] = {}
        for form in mma_forms().values():
            plain = (
                form.a_type.is_float
                and form.a_type is not F64
                and form.ordered == form.sparse
                and not form.row.kind.startswith("mx")
            )
            if row.family == "mma" and plain and form.supports(target) and sum_row(form, target) is row:
                layouts = form.a_layout, form.b_layout
                groups.setdefault(
                    (form.k, form.blocks, form.a_type, form.c_type, form.d_type, layouts, form.row.kind), []
                ).append(form)
        chosen += [(str(target), forms[i % len(forms)], row) for i, forms in enumerate(groups.values())]
    return chosen


def test_the_forms_of_each_sum_cover_the_rows() -> None:
    covered = [row for _, _, row in one_form_of_each_sum()]
    assert all(row in covered for row in SUM_ROWS if row.family == "mma" and not row.kind and row.inputs != "f64")


@over(("target", "form", "row"), one_form_of_each_sum(), ids=lambda value: getattr(value, "opcode", str(value)[:6]))
def test_fused_sum_against_fractions(target: str, form: MmaForm, row: SumRow) -> None:
    """Whole instructions: one case for each kind of values, four outputs of each recomputed in fractions."""
    rng = np.random.default_rng(len(form.opcode))
    registers: dict[str, list[Bits]] = {name: [] for name in "abc"}
    for kind in KINDS:
        types = form.a_type, form.b_type, form.c_type
        a, _, _ = cases(rng, kind, types, form.a.shape[0], form.k_stored)
        _, b, _ = cases(rng, kind, types, form.b.shape[1], form.k)
        _, _, c = cases(rng, kind, types, form.c.shape[0] * form.n, 1)
        registers["a"].append(a)
        registers["b"].append(b.T)
        registers["c"].append(c.reshape(form.c.shape))
    a, b, c = (np.stack(registers[name]) for name in "abc")
    codes = (
        rng.choice(np.array(form.metadata.codes, np.uint32), (len(KINDS), *form.metadata.shape))
        if form.sparse
        else None
    )
    e = form.metadata.scatter(codes, 0) if codes is not None else None
    d = form.d.gather(execute_mma(form, form.a.scatter(a), form.b.scatter(b), form.c.scatter(c), e, target=target))
    for case in range(len(KINDS)):
        for i, j in rng.integers(0, form.c.shape, (examples(4, 2), 2)).tolist():
            column = b[case, :, form.n * (i // form.m) + j].tolist()  # of the block that row i belongs to
            picked = (
                column if codes is None else [column[k] for k in logical_columns(codes[case, i].tolist(), form.a_type)]
            )
            expected = reference.chip((a[case, i].tolist(), picked), int(c[case, i, j]), types_of(form), row.rule)
            assert hex(d[case, i, j]) == hex(expected), (KINDS[case], i, j)


def types_of(form: MmaForm) -> reference.Types:
    return reference.Types(form.a_type, form.b_type, form.c_type, form.d_type)


@settings(max_examples=examples(120), deadline=None)
@given(data=st.data(), target=st.sampled_from(["sm_80", "sm_89", "sm_90", "sm_120"]))
def test_any_patterns_through_the_fused_sum(data: st.DataObject, target: str) -> None:
    opcodes = [F32_K16, F16_K16, BF16_K16, TF32_K8]
    if target != "sm_80":
        opcodes += [dense("m16n8k32.row.col.f32.e4m3.e5m2.f32"), dense("m16n8k32.row.col.f16.e5m2.e4m3.f16")]
    form = mma_forms()[data.draw(st.sampled_from(opcodes))]
    a, b = (
        data.draw(st.lists(st.integers(0, t.mask), min_size=form.k, max_size=form.k))
        for t in (form.a_type, form.b_type)
    )
    c = data.draw(st.integers(0, form.c_type.mask))
    expected = reference.chip((a, b), c, types_of(form), sum_row(form, parse_target(target)).rule)
    assert hex(dot(form.opcode, dict(enumerate(a)), dict(enumerate(b)), c, target)) == hex(expected)


@over("number", KNOWN)
def test_every_float_form_has_exactly_one_row_on_every_target_that_supports_it(number: int) -> None:
    """Block-scaled, f64 and m8n8k4 ones, too; and what a row says is enough to add with."""
    targets = [
        parse_target(f"sm_{number}{suffix}")
        for suffix in (("", "a", "f") if number >= 100 else ("", "a") if number == 90 else ("",))
    ]
    for target in targets:
        for form in (f for f in mma_forms().values() if f.a_type.is_float and f.supports(target)):
            shape, kind = (
                f"m{form.m}n{form.n}k{form.k}",
                {"": "", "mxf8f6f4": "mxf8f6f4"}.get(form.row.kind, "mxf4") if form.row.scale else "",
            )
            alike = [
                r
                for r in SUM_ROWS
                if r.family == "mma" and number in r.targets and r.sparse == form.sparse and r.kind == kind
            ]
            rows = [
                r
                for r in alike
                if form.a_type.name in r.inputs.split() and r.shape == (shape if form.blocks > 1 else "")
            ]
            assert len(rows) == 1, (form.opcode, str(target))
            assert sum_row(form, target) is rows[0]
            rule = rows[0].rule
            steps = rule.steps(form.k_stored, form.a_type)
            assert sorted(k for step in steps for k in step) == list(range(form.k_stored))
            assert rule.chained or rule.fraction >= rule.kept
            assert bool(rule.group) == (kind == "mxf4")


def test_which_targets_no_row_is_for() -> None:
    with pytest.raises(
        IsaError,
        match=r"no arithmetic is known for sparse mma m16n8k32 with f16 inputs on sm_75; legal: sm_80, .*sm_121",
    ):
        sum_row(mma_forms()[SP_K32], parse_target("sm_75"))
    f64 = mma_forms()["mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64"]
    with pytest.raises(IsaError, match="mma m8n8k4 with f64 inputs on sm_75"):
        sum_row(f64, parse_target("sm_75"))
    assert find_row("mma", parse_target("sm_75"), F16, shape="m8n8k4").rule is VOLTA
    assert find_row("mma", parse_target("sm_75"), F16, shape="m16n8k8").rule is TURING
    assert find_row("mma", parse_target("sm_75"), F16).rule is TURING
    assert find_row("mma", parse_target("sm_90"), F16, shape="m8n8k4").rule is MULTIPLY_ADD_F32
    with pytest.raises(IsaError, match=r"on sm_70; legal: sm_75"):
        find_row("mma", parse_target("sm_70"), F16)
    for family, number in (("wgmma", 100), ("tcgen05", 90), ("tcgen05", 120), ("wmma", 70)):
        with pytest.raises(IsaError, match=f"no arithmetic is known for {family} with f16 inputs"):
            find_row(family, on(number), F16)


def test_rows_do_not_overlap() -> None:
    """No instruction has two rows, of any family."""
    seen = [
        (r.family, n, r.sparse, name, r.kind, r.shape) for r in SUM_ROWS for n in r.targets for name in r.inputs.split()
    ]
    assert len(seen) == len(set(seen))
    assert {r.evidence for r in SUM_ROWS} == {MEASURED_HERE, MEASURED_BY_OTHERS, INFERRED}
    assert all(r.source for r in SUM_ROWS)
    assert all(n in KNOWN for r in SUM_ROWS for n in r.targets)


def test_steps_of_lowered_fp8() -> None:
    form = mma_forms()[ORDERED + "m16n8k64.row.col.f32.e4m3.e4m3.f32"]
    low, high = sum_row(form, parse_target("sm_90")).rule.steps(form.k_stored, form.a_type)
    assert low[:4] == (0, 1, 4, 5)
    assert high[:4] == (2, 3, 6, 7)
    assert [len(s) for s in sum_row(form, parse_target("sm_89")).rule.steps(form.k_stored, form.a_type)] == [16, 16]


# Sparse against dense


def logical_columns(codes: list[int], element: ElementType) -> list[int]:
    """The logical column of every stored element of a row, straight from PTX ISA 9.7.14.6.1."""
    columns = []
    for chunk, code in enumerate(codes):
        low, high = code & 3, code >> 2
        if element.bits == 32:
            columns.append(2 * chunk + {0b0100: 0, 0b1110: 1}[code])
        elif element.bits == 4:
            columns += [8 * chunk + 2 * low, 8 * chunk + 2 * low + 1, 8 * chunk + 2 * high, 8 * chunk + 2 * high + 1]
        else:
            columns += [4 * chunk + low, 4 * chunk + high]
    return columns


def signed(patterns: Bits, element: ElementType) -> list[list[int]]:
    top = 1 << (element.bits - 1) if element.kind.value == "signed integer" else 1 << 62
    return [[int(p) - (1 << element.bits) if int(p) >= top else int(p) for p in row] for row in patterns]


INTEGER_FORMS = [f for f in mma_forms().values() if not f.a_type.is_float and not f.row.operation]
BIT_FORMS = [f for f in mma_forms().values() if f.row.operation]


@over("form", INTEGER_FORMS, ids=lambda form: form.opcode)
def test_integers_against_python(form: MmaForm) -> None:
    """Expanding A to K columns and multiplying Python integers gives the same, wrapped or clamped once."""
    rng = np.random.default_rng(len(form.opcode))
    extremes = {
        t: np.array([1 << (t.bits - 1), (1 << (t.bits - 1)) - 1, t.mask, 0], np.uint32)
        for t in (form.a_type, form.b_type)
    }
    a = rng.integers(0, 1 << form.a_type.bits, (3, *form.a.shape)).astype(np.uint32)
    b = rng.integers(0, 1 << form.b_type.bits, (3, *form.b.shape)).astype(np.uint32)
    a[1], b[1] = rng.choice(extremes[form.a_type], a.shape[1:]), rng.choice(extremes[form.b_type], b.shape[1:])
    a[2], b[2] = extremes[form.a_type][1], extremes[form.b_type][1]
    c = rng.choice(np.array([0x7FFFFFFF, 0x7FFFFF00, 0x80000000, 0x80000100, 0, 5], np.uint32), (3, *form.c.shape))
    c[2, :, :4], c[2, :, 4:] = 0x7FFFFFFF, 0x80000000
    codes = rng.choice(np.array(form.metadata.codes, np.uint32), (3, *form.metadata.shape)) if form.sparse else None
    given = form.a.scatter(a), form.b.scatter(b), form.c.scatter(c)
    d = mma(form.opcode, *given) if codes is None else mma_sp(form.opcode, *given, form.metadata.scatter(codes, 0))
    found = form.d.gather(d)
    for case in range(3):
        left, right, addend = (
            signed(a[case], form.a_type),
            signed(b[case], form.b_type),
            signed(c[case], ELEMENT_TYPES["s32"]),
        )
        for i in range(form.m):
            row = [0] * form.k
            columns = range(form.k) if codes is None else logical_columns(codes[case, i].tolist(), form.a_type)
            for column, value in zip(columns, left[i], strict=True):
                row[column] = value
            for j in range(form.n):
                total = addend[i][j] + sum(x * right[k][j] for k, x in enumerate(row) if x)
                total = min(max(total, -(1 << 31)), (1 << 31) - 1) if form.saturate else total
                assert int(found[case, i, j]) == total & 0xFFFFFFFF, (case, i, j)


@pytest.mark.parametrize("form", BIT_FORMS, ids=lambda form: form.opcode)
def test_bits_against_python(form: MmaForm) -> None:
    """b1: the ones of rows joined with columns by exclusive or, or by and, are counted and added to C, modulo 2^32. PTX
    ISA 9.0, 9.7.14.5.14."""
    rng = np.random.default_rng(len(form.opcode))
    a, b = (rng.integers(0, 2, (3, *fragment.shape)).astype(np.uint32) for fragment in (form.a, form.b))
    a[2], b[2] = 1, np.arange(form.n) % 2
    c = rng.choice(np.array([0x7FFFFFFF, 0xFFFFFFF0, 0x80000000, 0, 5], np.uint32), (3, *form.c.shape))
    d = form.d.gather(mma(form.opcode, form.a.scatter(a), form.b.scatter(b), form.c.scatter(c), "sm_80"))
    for case, i, j in np.ndindex(d.shape):
        row, column = (int("".join(map(str, bits.tolist())), 2) for bits in (a[case, i], b[case, :, j]))
        joined = row ^ column if "xor" in form.opcode else row & column
        assert int(d[case, i, j]) == (int(c[case, i, j]) + joined.bit_count()) % (1 << 32)


@pytest.mark.parametrize(
    "name",
    [
        "m16n8k32.row.col.f32.f16.f16.f32",
        "m16n8k16.row.col.f16.f16.f16.f16",
        "m16n8k16.row.col.f32.tf32.tf32.f32",
        E4M3_K64,
    ],
)
def test_exact_sparse_is_the_exact_dense_product_of_the_expanded_matrix(name: str) -> None:
    form = mma_forms()[ORDERED + name]
    rng = np.random.default_rng(5)
    a, _, _ = cases(rng, "near one", (form.a_type, form.b_type, form.d_type), form.m, form.k_stored)
    _, b, _ = cases(rng, "finite", (form.a_type, form.b_type, form.d_type), form.n, form.k)
    b &= np.uint32(
        form.b_type.mask ^ 1 << (form.b_type.bits - 2)
    )  # no infinities or NaN: an expanded zero would meet them
    _, _, c = cases(rng, "near one", (form.a_type, form.b_type, form.d_type), form.m * form.n, 1)
    codes = rng.choice(np.array(form.metadata.codes, np.uint32), (1, *form.metadata.shape))
    given = form.a.scatter(a[None]), form.b.scatter(b.T[None]), form.c.scatter(c.reshape(1, form.m, form.n))
    d = mma_sp(form.opcode, *given, form.metadata.scatter(codes, 0), arithmetic="exact")
    found = form.d.gather(d)[0]
    for i in range(form.m):
        row = [0] * form.k
        for column, pattern in zip(logical_columns(codes[0, i].tolist(), form.a_type), a[i].tolist(), strict=True):
            row[column] = pattern
        for j in range(form.n):
            assert hex(found[i, j]) == hex(reference.exact(row, b[j].tolist(), int(c[i * form.n + j]), types_of(form)))


def operands(form: MmaForm, count: int = 1) -> tuple[Bits, Bits, Bits, Bits]:
    """A of ones (f16), B of ones, C zero, all codes 0b0100."""
    a = np.full((count, form.a.registers, 32), 0x3C003C00, np.uint32)
    b = np.full((count, form.b.registers, 32), 0x3C003C00, np.uint32)
    return a, b, np.zeros((count, form.c.registers, 32), np.uint32), np.full((count, 32), 0x44444444, np.uint32)


@pytest.mark.parametrize("arithmetic", ["chip", "exact"])
def test_nan_in_elements_of_b_that_no_code_picks_has_no_effect(arithmetic: str) -> None:
    form = mma_forms()[SP_K32]
    a, _, c, e = operands(form)
    b = np.full((1, *form.b.shape), 0x3C00, np.uint32)
    b[0, 2::4], b[0, 3::4] = 0x7E00, 0x7C00
    d = mma_sp(SP_K32, a, form.b.scatter(b), c, e, arithmetic=arithmetic)
    assert (d.view(np.float32) == 16).all()
    b[0, 1] = 0x7E00
    assert (mma_sp(SP_K32, a, form.b.scatter(b), c, e, arithmetic=arithmetic) == 0x7FFFFFFF).all()


def test_blocks_do_not_show() -> None:
    """Cases are worked on in blocks; a batch across block limits equals its cases one at a time."""
    form = mma_forms()[SP_K32]
    rng = np.random.default_rng(8)
    a, b, c = (
        rng.integers(0, 1 << 32, (150, f.registers, 32), np.uint64).astype(np.uint32) for f in (form.a, form.b, form.c)
    )
    e = rng.integers(0, 1 << 32, (150, 32), np.uint64).astype(np.uint32)
    whole = mma_sp(SP_K32, a, b, c, e, 1)
    for i in range(0, 150, 7):
        assert np.array_equal(
            whole[i : i + 1], mma_sp(SP_K32, a[i : i + 1], b[i : i + 1], c[i : i + 1], e[i : i + 1], 1)
        )
    assert mma_sp(SP_K32, a[:0], b[:0], c[:0], e[:0]).shape == (0, 4, 32)


# Undefined behavior and errors


def test_findings_name_every_code_that_a_form_does_not_define() -> None:
    codes = np.arange(16, dtype=np.uint32).reshape(1, 16)
    for form in (f for f in mma_forms().values() if f.sparse):
        findings = metadata_findings(form, codes)
        assert set(findings) <= set(RULES)
        undefined = np.stack(list(findings.values()))
        assert undefined.sum(axis=0).max() == 1
        assert np.flatnonzero(~undefined.any(axis=0)).tolist() == list(form.metadata.codes)


@pytest.mark.parametrize(
    ("opcode", "code", "name"),
    [
        (SP_K32, 0b0101, "invalid-metadata"),
        (SP_K32, 0b0001, "unordered-metadata"),
        ("mma.sp.sync.aligned.m16n8k64.row.col.f32.e4m3.e4m3.f32", 0b0001, "unordered-metadata"),
        (ORDERED + "m16n8k16.row.col.f32.tf32.tf32.f32", 0b0000, "invalid-metadata-tf32"),
    ],
)
def test_undefined_metadata_is_named_counted_and_computed(opcode: str, code: int, name: str) -> None:
    form = mma_forms()[opcode]
    a, b, c, e = operands(form, 3)
    codes = np.full((3, *form.metadata.shape), 0b0100, np.uint32)
    codes[1:, 9, 5] = code
    e = form.metadata.scatter(codes, 0)
    assert undefined_cases(form, e, 0) == {name: 2}
    assert undefined_cases(form, e[:1], 0) == {}
    assert mma_sp(opcode, a, b, c, e).shape == (3, form.d.registers, 32)
    lane, position = (int(p) for p in form.metadata.mapping.positions(row=9, chunk=5, selector=0))
    place = rf"lane {lane}, bits {4 * position}\.\.{4 * position + 3}"
    with pytest.raises(UndefinedBehavior, match=rf"case 1, row 9, chunk 5: code 0b{code:04b} in {place}") as caught:
        mma_sp(opcode, a, b, c, e, undefined="raise")
    assert caught.value.rule == name
    assert np.array_equal(
        mma_sp(opcode, a[:1], b[:1], c[:1], e[:1], undefined="raise"), mma_sp(opcode, a[:1], b[:1], c[:1], e[:1])
    )


def test_descending_codes_are_defined_for_plain_sp() -> None:
    form = mma_forms()[SP_K32.replace("::ordered_metadata", "")]
    a, b, c, _ = operands(form)
    e = np.full((1, 32), 0x11111111, np.uint32)
    assert undefined_cases(form, e, 0) == {}
    assert (mma_sp(form.opcode, a, b, c, e, undefined="raise").view(np.float32) == 16).all()


def test_selector_beyond_the_range_that_assembles() -> None:
    a, b, c, e = operands(mma_forms()[SP_K32])
    for policy in ("hardware", "raise"):
        with pytest.raises(UndefinedBehavior, match="illegal-instruction") as caught:
            mma_sp(SP_K32, a, b, c, e, 2, undefined=policy)
        assert caught.value.rule == "selector-out-of-range"
    for selector in (4, -1):
        with pytest.raises(IsaError, match="0 to 1"):
            mma_sp(SP_K32, a, b, c, e, selector)
    bf16 = SP_K32.replace("f16.f16.", "bf16.bf16.")
    with pytest.raises(IsaError, match=r"selector 2 .* 0 to 1"):
        mma_sp(bf16, a, b, c, e, 2)


def test_errors_say_what_where_and_what_would_be_right() -> None:
    a, b, c, e = operands(mma_forms()[SP_K32])
    with pytest.raises(IsaError, match=r"operand b has type int64 .* uint32 \[case, 4, 32\]"):
        mma_sp(SP_K32, a, b.astype(np.int64), c, e)
    with pytest.raises(IsaError, match=r"operand a has type uint32 and shape \(1, 2, 32\)"):
        mma_sp(SP_K32, a[:, :2], b, c, e)
    with pytest.raises(
        IsaError, match=r"operand e has type uint32 and shape \(1, 1, 32\); legal: a numpy array of uint32 \[case, 32\]"
    ):
        mma_sp(SP_K32, a, b, c, e[:, None])
    with pytest.raises(IsaError, match="operand c has 2 cases, operand a has 1"):
        mma_sp(SP_K32, a, b, np.repeat(c, 2, axis=0), e)
    with pytest.raises(IsaError, match="operand a is a list"):
        mma_sp(SP_K32, a.tolist(), b, c, e)
    with pytest.raises(IsaError, match="undefined='ignore' is not known; legal: 'hardware', 'raise'"):
        mma_sp(SP_K32, a, b, c, e, undefined="ignore")
    with pytest.raises(IsaError, match="arithmetic='fast' is not known; legal: 'chip', 'exact'"):
        mma_sp(SP_K32, a, b, c, e, arithmetic="fast")
    with pytest.raises(IsaError, match="arithmetic='fast' is not known; legal: 'chip', 'exact'"):
        execute_mma(mma_forms()[SP_K32], a, b, c, e, target="sm_90", arithmetic="fast")
    with pytest.raises(IsaError, match=r"mma_sp\(\) takes a sparse instruction"):
        mma_sp(F32_K16, a, b, c, e)
    with pytest.raises(IsaError, match=r"mma\(\) takes a dense instruction"):
        mma(SP_K32, a, b, c, "sm_90")
    with pytest.raises(IsaError):
        mma_sp(SP_K32, a, b, c, e, target="sm_75")
    with pytest.raises(IsaError):
        mma_sp(SP_K32.replace("k32", "k33"), a, b, c, e)
