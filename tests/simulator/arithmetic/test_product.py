"""`product`: matrices in, matrices out, as `execute_mma` gives them through fragments; families that differ; and what
no instruction does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import isa
from isa.errors import IsaError
from isa.forms.mma import MmaForm
from isa.types import F64, PACKED_E2M1, Bits
from simulator.arithmetic import find_row, product
from simulator.arithmetic.rows import HOPPER, HOPPER_FP8, LOWERED_FP8, PACKED, SUM_ROWS
from simulator.execute.mma import Scales, apart, execute_mma
from tests.golden import reference
from tests.simulator.arithmetic.test_compiled import draw_f64, scale_words, targets_of
from tests.simulator.arithmetic.test_exact import KINDS, cases, draw
from tests.support.cases import examples, over
from tests.support.forms import by_arithmetic

FORMS = list(isa.mma_forms().values())
PACKED_TYPES: dict[str, Any] = {"a_type": PACKED_E2M1, "b_type": PACKED_E2M1}


def operands(form: MmaForm, seed: int = 2) -> list[Any]:
    """One case of each kind of values, as matrices."""
    rng = np.random.default_rng([seed, len(form.opcode)])
    found = []
    for fragment in (form.a, form.b, form.c):
        if fragment.type is F64:
            found.append(np.stack([draw_f64(rng, kind, fragment.shape) for kind in ("bits", "special", "near one")]))
        elif fragment.type.is_float:
            found.append(np.stack([draw(rng, kind, fragment.type, fragment.shape) for kind in KINDS]))
        else:
            found.append(rng.integers(0, 1 << fragment.type.bits, (5, *fragment.shape)).astype(np.uint32))
    return found


@over(
    "form",
    [f for f in FORMS if not f.row.operation and f.rounding in ("", "rn")],
    ids=lambda form: form.opcode,
    distinct=by_arithmetic,
)
def test_agrees_with_fragments(form: MmaForm) -> None:
    """Every dense and sparse form, on a target for each rule: the same bits as through registers. (Bits, b1, are no
    product.)"""
    a, b, c = operands(form)
    rng = np.random.default_rng(3)
    codes = rng.integers(0, 16, (len(a), *form.metadata.shape)).astype(np.uint32) if form.sparse else None
    registers = [fragment.scatter(x) for fragment, x in zip((form.a, form.b, form.c), (a, b, c), strict=True)]
    scales = Scales(scale_words(rng, len(a)), scale_words(rng, len(a))) if form.row.scale else None
    more: dict[str, Any] = {"saturate": form.saturate, "codes": codes}
    if scales:
        more["scale_a"] = form.scale_a.gather(scales.a, 0, 0)
        more["scale_b"] = form.scale_b.gather(scales.b, 0, 0).transpose(0, 2, 1)
        more["scale_type"] = form.scale_a.type.name
    for target in targets_of(form):
        e = form.metadata.scatter(codes, 0) if codes is not None else None
        wanted = form.d.gather(execute_mma(form, *registers, e, target=target, scales=scales))
        types = {"a_type": form.a_type, "b_type": form.b_type, "c_type": form.c_type, "d_type": form.d_type}
        given_matrices = apart(form, a, b, c)
        found = product(
            *given_matrices, family="mma", target=target, shape="m8n8k4" if form.blocks > 1 else "", **types, **more
        )
        assert found.dtype == (np.uint64 if form.a_type is F64 else np.uint32)
        assert np.array_equal(found.reshape(wanted.shape), wanted), target


@pytest.mark.parametrize("family", ["wgmma", "tcgen05"])
@pytest.mark.parametrize("sparse", [False, True])
def test_other_families_against_fractions(family: str, sparse: bool) -> None:
    """Every row of theirs but the scaled ones, with any codes where A is sparse."""
    rng = np.random.default_rng(sparse)
    rows = [row for row in SUM_ROWS if row.family == family and row.sparse == sparse and not row.kind]
    assert rows
    for row in rows:
        for name in row.inputs.split():
            element = isa.element_type(name)
            for result in ("f32", "f16") if name not in ("bf16", "tf32") else ("f32",):
                d_type, k, stored = isa.element_type(result), 256 // element.bits, 256 // element.bits
                k = 2 * k if sparse else k
                types = (element, element, d_type)
                a, b, c = (
                    [cases(rng, kind, types, 8, size)[i] for kind in KINDS] for i, size in ((0, stored), (1, k), (2, 1))
                )
                left, right = np.stack(a), np.stack(b).transpose(0, 2, 1)
                addend = np.repeat(np.stack(c)[:, :, None], 8, axis=2)
                pattern = isa.sparsity_of(element)
                codes = rng.integers(0, 16, (len(KINDS), 8, k // pattern.chunk)).astype(np.uint32) if sparse else None
                if codes is not None and element.bits == 32:
                    codes = rng.choice(np.array(pattern.ordered, np.uint32), codes.shape)
                target = isa.parse_target(f"sm_{row.targets[-1]}a")
                d = product(
                    left,
                    right,
                    addend,
                    family=family,
                    target=target,
                    a_type=name,
                    b_type=name,
                    d_type=result,
                    codes=codes,
                )
                for case, i, j in zip(
                    range(len(KINDS)), rng.integers(0, 8, len(KINDS)), rng.integers(0, 8, len(KINDS)), strict=True
                ):
                    column = right[case, :, j].tolist()
                    places = range(k) if codes is None else places_of(codes[case, i].tolist(), element.bits)
                    both = left[case, i].tolist(), [column[place] for place in places]
                    wanted = reference.chip(
                        both, int(addend[case, i, j]), reference.Types(element, element, d_type, d_type), row.rule
                    )
                    assert hex(d[case, i, j]) == hex(wanted), (row, name, result, KINDS[case])


def places_of(codes: list[int], bits: int) -> list[int]:
    """The columns that codes pick: PTX ISA 9.0, 9.7.14.6.1; whatever the code says."""
    if bits == 32:
        return [2 * chunk + {0b0100: 0, 0b1110: 1}[code] for chunk, code in enumerate(codes)]
    return [4 * chunk + half for chunk, code in enumerate(codes) for half in (code & 3, code >> 2)]


# Families


def run(
    family: str,
    target: str,
    a: list[int],
    b: list[int],
    c: int = 0,
    name: str = "e4m3",
    result: str = "f32",
    columns: int = 8,
) -> int:
    """One output; all rows and columns are alike."""
    left, right = np.tile(np.array(a, np.uint32), (1, 4, 1)), np.tile(np.array(b, np.uint32)[:, None], (1, 1, columns))
    d = product(
        left,
        right,
        np.full((1, 4, columns), c, np.uint32),
        family=family,
        target=target,
        a_type=name,
        b_type=name,
        d_type=result,
    )
    assert len(set(d.ravel().tolist())) == 1
    return int(d[0, 0, 0])


def test_fp8_by_family() -> None:
    """One sum, 1 + 2^-14, and one that C takes in: 13 bits in wgmma on sm_90, f16 instructions behind mma there, 25
    bits in tcgen05 and on sm_120."""
    one, tiny = 0x38, 0x04  # 1 and 2^-7 as e4m3
    a, b = [one, tiny, *[0] * 30], [one, tiny, *[0] * 30]
    kept, cut = 0x3F800000 | 1 << 9, 0x3F800000
    assert run("wgmma", "sm_90a", a, b) == cut
    assert run("mma", "sm_90a", a, b) == run("tcgen05", "sm_100a", a, b) == run("mma", "sm_120a", a, b) == kept
    assert run("mma", "sm_89", a, b) == cut
    c = 0x3FFFFFFF
    assert run("wgmma", "sm_90a", [0] * 32, [0] * 32, c) == 0x3FFFFC00
    assert run("tcgen05", "sm_100a", [0] * 32, [0] * 32, c) == c
    # 1 + 2^-13 (a C of f32) + 2^-13: 13 bits hold it
    assert run("wgmma", "sm_90a", [tiny, tiny, *[0] * 30], [tiny, tiny, *[0] * 30], 0x3F800000) == 0x3F800000
    assert run("wgmma", "sm_90a", [0x08, *[0] * 31], [tiny, *[0] * 31], 0x3F800000) == 0x3F800000 | 1 << 10
    for columns in (8, 5):
        assert run("wgmma", "sm_90a", a, b, columns=columns) == cut
    rules = [find_row(family, isa.parse_target(target), isa.element_type("e4m3")).rule for family, target in
             (("wgmma", "sm_90a"), ("mma", "sm_90a"), ("tcgen05", "sm_100a"), ("mma", "sm_120a"))]  # fmt: skip
    assert rules == [HOPPER_FP8, LOWERED_FP8, HOPPER, HOPPER]


def test_f16_is_alike_in_all_families() -> None:
    rng = np.random.default_rng(9)
    a, b = (draw(rng, "finite", isa.element_type("f16"), shape) for shape in ((20, 16, 16), (20, 16, 8)))
    c = draw(rng, "near one", isa.element_type("f32"), (20, 16, 8))
    common: dict[str, Any] = {"a_type": "f16", "b_type": "f16", "d_type": "f32"}
    found = [product(a, b, c, family=family, target=target, **common) for family, target in
             (("mma", "sm_90a"), ("wgmma", "sm_90a"), ("tcgen05", "sm_103a"), ("mma", "sm_121a"))]  # fmt: skip
    assert all(np.array_equal(found[0], other) for other in found)
    assert not np.array_equal(found[0], product(a, b, c, family="mma", target="sm_80", **common))


def test_tcgen05_has_scaled_kinds_on_sm_100() -> None:
    """As mma has them on sm_120."""
    rng = np.random.default_rng(4)
    a, b = (draw(rng, "bits", PACKED_E2M1, shape) for shape in ((9, 16, 64), (9, 64, 8)))
    c = draw(rng, "near one", isa.element_type("f32"), (9, 16, 8))
    scale_a, scale_b = (rng.integers(0x30, 0x40, shape).astype(np.uint32) for shape in ((9, 16, 4), (9, 4, 8)))
    more: dict[str, Any] = {
        "scale_a": scale_a,
        "scale_b": scale_b,
        "scale_type": "ue4m3",
        "d_type": "f32",
        **PACKED_TYPES,
    }
    found = product(a, b, c, family="tcgen05", target="sm_100a", **more)
    assert np.array_equal(found, product(a, b, c, family="mma", target="sm_120a", **more))
    exact = product(a, b, c, family="tcgen05", target="sm_100a", arithmetic="exact", **more)
    types = reference.Types(PACKED_E2M1, PACKED_E2M1, isa.element_type("f32"), isa.element_type("f32"))
    for case in range(9):
        factors = reference.Factors(
            scale_a[case, 3].tolist(), scale_b[case, :, 5].tolist(), isa.types.SCALE_TYPES["ue4m3"]
        )
        both = a[case, 3].tolist(), b[case, :, 5].tolist()
        assert int(found[case, 3, 5]) == reference.chip(both, int(c[case, 3, 5]), types, PACKED, factors)
        assert int(exact[case, 3, 5]) == reference.exact(*both, int(c[case, 3, 5]), types, factors)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.integers(0, 4),
    st.integers(1, 20),
    st.integers(1, 20),
    st.integers(1, 40),
    st.integers(0, 1 << 30),
    st.sampled_from(["chip", "exact"]),
)
def test_any_shape_of_f16(count: int, m: int, n: int, k: int, seed: int, arithmetic: str) -> None:
    """One output against fractions, whatever the shape; rows and columns do not know of one another."""
    rng = np.random.default_rng(seed)
    half, single = isa.element_type("f16"), isa.element_type("f32")
    kind = str(rng.choice(KINDS))
    a, b, c = (
        draw(rng, kind, half, (count, m, k)),
        draw(rng, kind, half, (count, k, n)),
        draw(rng, kind, single, (count, m, n)),
    )
    d = product(a, b, c, family="mma", target="sm_80", a_type="f16", b_type="f16", d_type="f32", arithmetic=arithmetic)
    assert d.shape == (count, m, n)
    types, rule = reference.Types(half, half, single, single), find_row("mma", isa.parse_target("sm_80"), half).rule
    for case in range(count):
        i, j = int(rng.integers(m)), int(rng.integers(n))
        both = a[case, i].tolist(), b[case, :, j].tolist()
        wanted = (
            reference.chip(both, int(c[case, i, j]), types, rule)
            if arithmetic == "chip"
            else reference.exact(*both, int(c[case, i, j]), types)
        )
        assert hex(d[case, i, j]) == hex(wanted)


# What is wrong to ask for


def z(*shape: int) -> Bits:
    return np.zeros(shape, np.uint32)


def ask(**changes: Any) -> Any:
    """A product that is right but for the changes."""
    common: dict[str, Any] = {"family": "mma", "target": "sm_120a", "a_type": "e4m3", "b_type": "e4m3", "d_type": "f32"}
    matrices = [
        changes.pop(name, default) for name, default in (("a", z(1, 16, 32)), ("b", z(1, 32, 8)), ("c", z(1, 16, 8)))
    ]
    return product(*matrices, **(common | changes))


SCALES: dict[str, Any] = {"scale_a": z(1, 16, 1), "scale_b": z(1, 1, 8), "scale_type": "ue8m0"}
INTEGERS: dict[str, Any] = {"a_type": "s8", "b_type": "s8", "d_type": "s32"}
ERRORS: list[tuple[str, dict[str, Any], str]] = [
    ("family", {"family": "wmma"}, "family='wmma' is not known; legal: 'mma', 'wgmma', 'tcgen05'"),
    ("arithmetic", {"arithmetic": "fast"}, "arithmetic='fast' is not known; legal: 'chip', 'exact'"),
    ("target", {"target": "sm_99"}, "unknown target 'sm_99'"),
    ("type", {"a_type": "f8"}, "unknown element type 'f8'"),
    ("no such product", {"a_type": "f32", "b_type": "f32"}, "no product of f32 elements"),
    ("bits", {"a_type": isa.types.B1, "b_type": isa.types.B1, "d_type": "s32"}, "no product of b1 elements"),
    ("mixed", {"a_type": "f16", "b_type": "s8"}, "mma does not multiply f16 by s8"),
    ("mixed with f64", {"a_type": "f16", "b_type": "f64"}, "mma does not multiply f16 by f64"),
    ("result", {"d_type": "s32"}, "mma does not multiply e4m3 by e4m3 into s32"),
    (
        "result of bf16",
        {"a_type": "bf16", "b_type": "bf16", "d_type": "f16"},
        "does not multiply bf16 by bf16 into f16",
    ),
    ("result of integers", {"a_type": "s8", "b_type": "u8"}, "does not multiply s8 by u8 into f32"),
    ("c", {"c_type": "s32"}, r"\(C: s32\)"),
    ("C wider than D", {"d_type": "f16", "c_type": "f32"}, "f16"),
    (
        "4 bits in wgmma",
        {"family": "wgmma", "target": "sm_90a", "a_type": "s4", "b_type": "s4", "d_type": "s32"},
        "wgmma does not multiply s4",
    ),
    (
        "wgmma elsewhere",
        {"family": "wgmma", "target": "sm_100a"},
        "no arithmetic is known for wgmma with e4m3 inputs on sm_100a; legal: sm_90",
    ),
    (
        "integer wgmma elsewhere",
        {**INTEGERS, "family": "wgmma", "target": "sm_100a"},
        "sm_100a has no wgmma of integers",
    ),
    ("integer tcgen05 elsewhere", {**INTEGERS, "family": "tcgen05", "target": "sm_103a"}, "sm_103a has no tcgen05"),
    (
        "floats of a target",
        {"target": "sm_80"},
        "no arithmetic is known for mma with e4m3 inputs on sm_80; legal: sm_89, sm_90",
    ),
    (
        "scales of a target",
        {"target": "sm_100a", **SCALES},
        "known for mma mxf8f6f4 with e4m3 inputs on sm_100a; legal: sm_120, sm_121",
    ),
    ("shape", {"a_type": "f16", "b_type": "f16", "shape": "m8n8k4", "target": "sm_90"}, "k is 32; legal: 4"),
    (
        "uint16",
        {"a": np.zeros((1, 16, 32), np.uint16)},
        r"operand a is uint16 of shape \(1, 16, 32\); legal: uint32 \[case, m, k\]",
    ),
    ("two dimensions", {"c": z(16, 8)}, r"operand c is uint32 of shape \(16, 8\)"),
    ("a list", {"b": [[[0] * 8] * 32]}, "operand b is list"),
    ("k", {"b": z(1, 31, 8)}, r"shapes \(1, 16, 32\), \(1, 31, 8\) and \(1, 16, 8\) do not go together"),
    ("cases", {"b": z(2, 32, 8)}, "do not go together"),
    ("no products", {"a": z(1, 16, 0), "b": z(1, 0, 8)}, "k is 0"),
    (
        "a wide pattern",
        {"a": z(1, 16, 32) + np.uint32(0x100)},
        r"operand a holds 0x100 at \(0, 0, 0\); legal: patterns of e4m3, at most 0xff",
    ),
    ("a wide pattern of C", {"d_type": "f16", "c": z(1, 16, 8) + np.uint32(1 << 16)}, "operand c holds 0x10000"),
    ("codes", {"codes": z(1, 16, 8)}, "do not go together"),
    ("codes of another shape", {"a": z(1, 16, 16), "codes": z(1, 16, 7)}, r"codes of shape \(1, 16, 7\) for k = 32"),
    ("codes of 5 bits", {"a": z(1, 16, 16), "codes": z(1, 16, 8) + np.uint32(16)}, "a metadata code of 16"),
    (
        "one scale",
        {"scale_a": z(1, 16, 1), "scale_type": "ue8m0"},
        "block scales need all of scale_a, scale_b and scale_type",
    ),
    ("no scale", {"scale_type": "ue8m0"}, "block scales need all of"),
    ("no type of scales", {"scale_a": z(1, 16, 1), "scale_b": z(1, 1, 8)}, "block scales need all of"),
    ("type of scales", {**SCALES, "scale_type": "e4m3"}, "unknown type of scale factors 'e4m3'; legal: ue8m0, ue4m3"),
    (
        "shape of scales",
        {**SCALES, "scale_b": z(1, 2, 8)},
        r"scale_a of shape \(1, 16, 1\) and scale_b of shape \(1, 2, 8\)",
    ),
    ("scales without cases", {**SCALES, "scale_a": z(16, 1)}, r"scale_a of shape \(16, 1\)"),
    ("a scale of 9 bits", {**SCALES, "scale_b": z(1, 1, 8) + np.uint32(256)}, "operand scale_b holds 0x100"),
    ("scales of float", {**SCALES, "scale_a": np.ones((1, 16, 1))}, "scale_a"),
    ("scales of signed integers", {**SCALES, "scale_a": np.full((1, 16, 1), -1)}, "scale_a"),
    ("a list of scales", {**SCALES, "scale_a": [[[1]] * 16]}, "scale_a"),
    (
        "scales that do not divide k",
        {**SCALES, "scale_a": z(1, 16, 3), "scale_b": z(1, 3, 8)},
        "3 factors for 32 products",
    ),
    (
        "scales within a group",
        {**PACKED_TYPES, **SCALES, "scale_a": z(1, 16, 4), "scale_b": z(1, 4, 8)},
        "each for a multiple of 16 products",
    ),
    (
        "groups that are not full",
        {**PACKED_TYPES, **SCALES, "a": z(1, 16, 24), "b": z(1, 24, 8)},
        "each for a multiple of 16 products",
    ),
    (
        "scales within a chunk",
        {**SCALES, "a": z(1, 16, 16), "codes": z(1, 16, 8), "scale_a": z(1, 16, 16), "scale_b": z(1, 16, 8)},
        "chunk|factor",
    ),
    ("packed without scales", PACKED_TYPES, "e2m1"),
    ("packed by unpacked", {**SCALES, "a_type": PACKED_E2M1, "b_type": "e2m1"}, "e2m1"),
    ("scales of integers", {**SCALES, **INTEGERS}, "scale"),
    ("scales of f16", {**SCALES, "a_type": "f16", "b_type": "f16", "arithmetic": "exact"}, "f16"),
    ("scales into f16", {**SCALES, "d_type": "f16"}, "f16"),
    ("saturated floats", {"saturate": True}, "saturate"),
]


@over(("changes", "words"), [case[1:] for case in ERRORS], ids=[case[0] for case in ERRORS])
def test_errors(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(IsaError, match=words):
        ask(**changes)


def test_what_is_right() -> None:
    """What the errors differ from, and edges that are none."""
    assert ask().shape == (1, 16, 8)
    assert ask(**SCALES).shape == (1, 16, 8)
    assert ask(a=z(0, 16, 32), b=z(0, 32, 8), c=z(0, 16, 8)).shape == (0, 16, 8)
    assert ask(b=z(1, 32, 3), c=z(1, 16, 3)).shape == (1, 16, 3)
    ones = {"a": z(1, 16, 2048) + np.uint32(2), "b": z(1, 2048, 8) + np.uint32(2)}
    scales = {
        "scale_a": z(1, 16, 128) + np.uint32(127),
        "scale_b": z(1, 128, 8) + np.uint32(127),
        "scale_type": "ue8m0",
    }
    assert (
        ask(**PACKED_TYPES, **ones, **scales).view(np.float32) == 2048
    ).all()  # more groups than the kernel has room for
    words = [np.zeros(shape, np.uint64) for shape in ((1, 8, 4), (1, 4, 8), (1, 8, 8))]
    f64 = {"family": "mma", "target": "sm_80", "a_type": "f64", "b_type": "f64", "d_type": "f64"}
    assert product(*words, **f64).dtype == np.uint64
    for wrong in ({"arithmetic": "exact"}, {"codes": z(1, 8, 2)}):
        with pytest.raises(IsaError):
            product(*words, **(f64 | wrong))
    with pytest.raises(IsaError, match="mma does not multiply f64 by f64 into f32"):
        product(*words, **(f64 | {"d_type": "f32"}))
    with pytest.raises(IsaError, match="operand a is uint32"):
        product(z(1, 8, 4), *words[1:], **f64)
