"""The compiled kernel against numpy, bit for bit: every form with every rule, any metadata, any scales, any layout; and
how it is built and found."""

from __future__ import annotations

import ctypes
import ctypes.util
import logging
import os
import platform
import shlex
import shutil
import subprocess
import sys
import warnings
from itertools import cycle, islice, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isa.forms.mma import MmaForm, mma_forms
from isa.fragments.metadata import sparsity_of
from isa.targets import KNOWN, Target, parse_target
from isa.types import ELEMENT_TYPES, F64, PACKED_E2M1, SCALE_TYPES, Bits, ElementType
from simulator.arithmetic import Operands, Sum, SumRule, add, compiled, kernel_name, sum_row
from simulator.arithmetic.batch import chain_f64
from simulator.arithmetic.chain import ROUNDINGS, multiply_add
from simulator.arithmetic.compiled import WIDTH, Kernel, build, matrix_layout, supports
from simulator.arithmetic.product import product as matrix_product
from simulator.arithmetic.rows import SUM_ROWS
from simulator.arithmetic.sums import add_in_numpy
from simulator.execute.mma import Ids, Scales, apart, execute_mma
from tests.simulator.arithmetic.test_exact import KINDS, draw
from tests.support.cases import examples, over
from tests.support.forms import by_arithmetic

FORMS = list(mma_forms().values())
load = compiled.library.__wrapped__  # looks again each time
COMPILER = shlex.split(os.environ.get("CC", "cc"))[0]
needs_kernel = pytest.mark.skipif(kernel_name() == "numpy", reason="no compiled kernel to compare with")
needs_compiler = pytest.mark.skipif(shutil.which(COMPILER) is None, reason=f"no {COMPILER} on PATH")


def targets_of(form: MmaForm) -> list[Target]:
    """One target for each rule that the form follows on some target; one for integers."""
    found: dict[SumRule | None, Target] = {}
    for number, suffix in product(KNOWN, ("", "a")):
        if suffix and number < 90:
            continue
        target = parse_target(f"sm_{number}{suffix}")
        if form.supports(target):
            found.setdefault(sum_row(form, target).rule if form.a_type.is_float else None, target)
    return list(found.values())


def sum_of(form: MmaForm, target: Target) -> Sum:
    """How one product of the form adds."""
    return Sum(
        form.m, form.n, form.k, form.a_type, form.b_type, form.c_type, form.d_type,
        rule=sum_row(form, target).rule if form.a_type.is_float else None,
        sparsity=form.metadata.sparsity if form.sparse else None,
        saturate=form.saturate,
        scale_type=form.scale_a.type if form.row.scale else None,
        factors=form.scale_a.factors if form.row.scale else 0,
        operation=form.row.operation,
    )  # fmt: skip


def words(rng: np.random.Generator, *shape: int) -> Bits:
    return rng.integers(0, 1 << 32, shape, np.uint64).astype(np.uint32)


def matrix(rng: np.random.Generator, element: ElementType, shape: tuple[int, ...]) -> Bits:
    """One matrix of each kind of values, any bits among them."""
    if not element.is_float:
        found = words(rng, len(KINDS), *shape) & np.uint32(element.mask)
        if element.bits > 1:
            found[:2] = rng.choice(
                np.array([0, 1, element.mask, element.mask >> 1, (element.mask >> 1) + 1], np.uint32), (2, *shape)
            )
        return found
    return np.stack([draw(rng, kind, element, shape) for kind in KINDS])


def scale_words(rng: np.random.Generator, cases: int) -> Bits:
    """Registers of scales: near 1, any bits (NaN every now and then), extremes."""
    near = rng.integers(0x34, 0x3D, (cases, 32, 4)) + rng.choice(np.array([0, 0x48]), (cases, 1, 1))
    any_bits, extreme = (
        rng.integers(0, 255, (cases, 32, 4)),
        rng.choice(np.array([0, 1, 7, 8, 0x7E, 0x7F, 0x80, 0xFE, 0xFF]), (cases, 32, 4)),
    )
    kind = np.arange(cases)[:, None, None] % 3
    return np.select([kind == 0, kind == 1], [near, any_bits], extreme).astype(np.uint8).view(np.uint32)[..., 0]


def in_numpy(
    form: MmaForm, how: Sum, registers: dict[str, Bits], e: Bits | None, selector: int, scales: Scales | None
) -> Bits:
    """D registers by the numpy functions."""
    return form.d.scatter(add_in_numpy(how, gathered(form, registers, e, selector, scales)).reshape(-1, *form.d.shape))


def gathered(
    form: MmaForm, registers: dict[str, Bits], e: Bits | None, selector: int, scales: Scales | None
) -> Operands:
    matrices = apart(form, *(getattr(form, name).gather(registers[name]) for name in "abc"))
    codes = form.metadata.gather(e, selector) if e is not None else None
    factors = (
        (form.scale_a.gather(scales.a, *scales.a_ids), form.scale_b.gather(scales.b, *scales.b_ids))
        if scales
        else (None, None)
    )
    return Operands(*matrices, codes, *factors)


def ids_of(form: MmaForm) -> list[tuple[Ids, Ids]]:
    """Every pair of byte-id and thread-id of either side, beside some of the other."""
    a, b = (list(product(operand.byte_ids, operand.thread_ids)) for operand in (form.scale_a, form.scale_b))
    count = max(len(a), len(b))
    return list(zip(islice(cycle(a), count), islice(cycle(b), count), strict=True))


@needs_kernel
@over(
    "form",
    [form for form in FORMS if form.a_type is not F64],
    ids=lambda form: form.opcode,
    distinct=by_arithmetic,
)
def test_every_form(form: MmaForm) -> None:
    """Registers to registers, and matrices to matrices, as numpy: all kinds of values, every selector, all 16 codes,
    every id."""
    rng = np.random.default_rng(len(form.opcode))
    matrices = {name: matrix(rng, getattr(form, name).type, getattr(form, name).shape) for name in "abc"}
    if form.row.scale:
        matrices["a"][:3, :, rng.permutation(form.k_stored)[2:]] = (
            0  # groups of products that are empty, beside some that are not
        )
    registers = {name: getattr(form, name).scatter(values) for name, values in matrices.items()}
    if not form.a_type.is_float or form.blocks > 1:  # the lanes of these have nothing that the mapping leaves out
        registers["a"][-1], registers["b"][-1] = (words(rng, *registers[name].shape[1:]) for name in "ab")
    cases = len(KINDS)
    e = words(rng, cases, 32) if form.sparse else None
    scales = (
        [Scales(scale_words(rng, cases), scale_words(rng, cases), *ids) for ids in ids_of(form)]
        if form.row.scale
        else [None]
    )
    selectors = range(form.metadata.selectors) if form.sparse else [0]
    if e is not None:
        assert len(np.unique(form.metadata.gather(e, 0))) == 16
    for target in targets_of(form):
        how = sum_of(form, target)
        assert supports(how)
        for i, (selector, scale) in enumerate(product(selectors, scales)):
            found = execute_mma(form, *registers.values(), e, selector, target=target, scales=scale)
            wanted = in_numpy(form, how, registers, e, selector, scale)
            wrong = np.argwhere(form.d.gather(found) != form.d.gather(wanted))
            assert not len(wrong), (
                f"{target}, selector {selector}, {scale and scale[2:]}: {len(wrong)}, first {wrong[0]} "
                f"({KINDS[wrong[0][0]]})"
            )
            if not i:
                operands = gathered(form, registers, e, selector, scale)
                assert np.array_equal(add(how, operands), add_in_numpy(how, operands))


def power(exponent: int, element: ElementType) -> int:
    """The pattern of 2^exponent, subnormal or not."""
    lowest = 1 - element.bias
    magnitude = (
        (exponent + element.bias) << element.fraction
        if exponent >= lowest
        else 1 << (element.fraction + exponent - lowest)
    )
    return magnitude << element.padding


AT_THE_FLOOR = [
    form
    for form in FORMS
    if form.a_type.name in ("bf16", "tf32") or (form.a_type.bits, form.d_type.bits, form.blocks) == (16, 16, 1)
]


@over("form", AT_THE_FLOOR, ids=lambda form: form.opcode)
def test_the_floor(form: MmaForm) -> None:
    """A term at the last place that the smallest alignment exponent keeps, and a place below and above, where it
    decides the result."""
    for target in targets_of(form):
        how = sum_of(form, target)
        assert how.rule is not None
        last = how.rule.floor(form.d_type) - how.rule.fraction
        large = (
            -25 if form.d_type.bits == 16 else -149
        )  # half of the smallest f16, which a little more rounds up; the smallest f32
        first, second = (-14, -24) if form.d_type.bits == 16 else (-75, -75)  # exponents of what they meet in B
        sign = 0 if form.d_type.bits == 16 else 1 << (form.a_type.bits - 1)
        a, c = np.zeros((3, *form.a.shape), np.uint32), np.zeros((3, *form.c.shape), np.uint32)
        a[:, :, 2], a[:, :, 3] = (
            power(large - first, form.a_type),
            [[power(last + i - 1 - second, form.a_type) | sign] for i in range(3)],
        )
        b = np.full((3, *form.b.shape), power(second, form.b_type), np.uint32)
        b[:, 4 if form.sparse else 2] = power(first, form.b_type)
        registers = {"a": form.a.scatter(a), "b": form.b.scatter(b), "c": form.c.scatter(c)}
        e = form.metadata.scatter(np.full((3, *form.metadata.shape), 4, np.uint32), 0) if form.sparse else None
        wanted = [0, 1, 1] if form.d_type.bits == 16 else [1, 0, 0]
        for d in (execute_mma(form, *registers.values(), e, target=target), in_numpy(form, how, registers, e, 0, None)):
            assert [set(case.ravel().tolist()) for case in form.d.gather(d)] == [{value} for value in wanted], target


def test_every_rule_is_met() -> None:
    """What `test_every_form` goes through: all rules of `mma`, all types, both sorts of fragments."""
    met = {sum_row(form, target).rule for form in FORMS if form.a_type.is_float for target in targets_of(form)}
    assert met == {row.rule for row in SUM_ROWS if row.family == "mma"}
    assert all(targets_of(form) for form in FORMS)


@needs_kernel
@pytest.mark.parametrize("scale", ["2X ue8m0", "4X ue4m3"])
@pytest.mark.exhaustive
def test_all_pairs_of_ids(scale: str) -> None:
    rng = np.random.default_rng(4)
    for form in (form for form in FORMS if form.row.scale == scale):
        registers = {
            name: getattr(form, name).scatter(matrix(rng, getattr(form, name).type, getattr(form, name).shape))
            for name in "abc"
        }
        e = words(rng, len(KINDS), 32) if form.sparse else None
        (target,) = targets_of(form)
        sides = (product(operand.byte_ids, operand.thread_ids) for operand in (form.scale_a, form.scale_b))
        for ids in product(*sides):
            given_scales = Scales(scale_words(rng, len(KINDS)), scale_words(rng, len(KINDS)), *ids)
            found = execute_mma(form, *registers.values(), e, 0, target=target, scales=given_scales)
            assert np.array_equal(found, in_numpy(form, sum_of(form, target), registers, e, 0, given_scales)), ids


@needs_kernel
def test_every_code_of_tf32_joins_halves() -> None:
    """1:2 with code c: bits 0..15 from half c & 3, bits 16..31 from half c >> 2 of the chunk's four, in both
    kernels."""
    form = mma_forms()["mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32"]
    a = np.zeros((16, *form.a.shape), np.uint32)
    a[:, :, 3] = 0x3F800000
    halves = np.array([[0x4000, 0x4100], [0x4200, 0x4300]], np.uint32)  # [element, low or high]
    b = np.zeros((16, *form.b.shape), np.uint32)
    b[:, 6:8] = (halves[:, 0] | halves[:, 1] << 16)[:, None]
    codes = np.repeat(np.arange(16, dtype=np.uint32), 16 * 8).reshape(16, 16, 8)
    registers = {"a": form.a.scatter(a), "b": form.b.scatter(b), "c": np.zeros((16, 4, 32), np.uint32)}
    e, target = form.metadata.scatter(codes, 0), parse_target("sm_90a")
    found = form.d.gather(execute_mma(form, *registers.values(), e, target=target))
    wanted = [int(halves.ravel()[code & 3]) | int(halves.ravel()[code >> 2]) << 16 for code in range(16)]
    for code in range(16):
        assert set(found[code].ravel().tolist()) == {wanted[code] & 0xFFFFE000}, code
    assert np.array_equal(in_numpy(form, sum_of(form, target), registers, e, 0, None), form.d.scatter(found))


# Any shape


FLOAT_RULES = sorted(
    {(row.rule.name, name) for row in SUM_ROWS for name in row.inputs.split() if name != "f64" and not row.rule.group}
)
RULES = {row.rule.name: row.rule for row in SUM_ROWS}


@st.composite
def sums(draw: st.DrawFn) -> Sum:
    """Any shape that the kernel takes: with every rule, dense and sparse, scaled or not."""
    rule, name = draw(st.sampled_from([*FLOAT_RULES, ("packed e2m1 with block scales", "e2m1")]))
    packed, chained = bool(RULES[rule].group), RULES[rule].chained
    element = PACKED_E2M1 if packed else ELEMENT_TYPES[name]
    sparsity = sparsity_of(element) if not chained and draw(st.booleans()) else None
    m, n = draw(st.integers(1, 33)), WIDTH * draw(st.integers(1, 4))
    k = 4 if chained else draw(st.integers(1, 5)) * (32 if packed else 8)
    result = ELEMENT_TYPES["f32" if packed or RULES[rule].kept < 23 else draw(st.sampled_from(["f16", "f32"]))]
    other = ELEMENT_TYPES["f16"] if result.bits == 16 or draw(st.booleans()) else result
    scaled = packed or (element.bits == 8 and draw(st.booleans()))
    scale = SCALE_TYPES[draw(st.sampled_from(["ue8m0", "ue4m3"]))] if scaled else None
    stored = k * sparsity.stored // sparsity.chunk if sparsity else k
    chunk = sparsity.chunk if sparsity else 1  # a scale never covers a part of a chunk, nor of a group
    blocks = [f for f in (1, 2, 4) if k % (f * chunk) == 0 and (not packed or stored // f % 16 == 0)]
    factors = draw(st.sampled_from(blocks)) if scaled else 0
    c = result if packed or RULES[rule].add_last else other
    return Sum(m, n, k, element, element, c, result, RULES[rule], sparsity, scale_type=scale, factors=factors)


def operands_of(how: Sum, cases: int, seed: int) -> Operands:
    rng = np.random.default_rng(seed)
    kind = str(rng.choice(KINDS))
    a, b = draw(rng, kind, how.a_type, (cases, how.m, how.stored)), draw(rng, kind, how.b_type, (cases, how.k, how.n))
    c = draw(rng, kind, how.c_type, (cases, how.m, how.n))
    codes = rng.integers(0, 16, (cases, how.m, how.k // how.sparsity.chunk)).astype(np.uint32) if how.sparsity else None
    if not how.factors:
        return Operands(a, b, c, codes)
    limit = rng.choice(np.array([256, 0x7F]))
    return Operands(
        a,
        b,
        c,
        codes,
        *(rng.integers(0, limit, (cases, side, how.factors)).astype(np.uint32) for side in (how.m, how.n)),
    )


@needs_kernel
@settings(max_examples=examples(150), deadline=None)
@given(sums(), st.integers(1, 3), st.integers(0, 1 << 30))
def test_any_shape(how: Sum, cases: int, seed: int) -> None:
    operands = operands_of(how, cases, seed)
    assert supports(how)
    d = np.empty(operands.c.shape, np.uint32)
    Kernel(how, matrix_layout(how))(
        d, operands.a, operands.b, operands.c, operands.codes, operands.scale_a, operands.scale_b
    )
    assert np.array_equal(d, add_in_numpy(how, operands))
    assert np.array_equal(d, add(how, operands))


@settings(max_examples=examples(40), deadline=None)
@given(sums(), st.integers(1, 9), st.integers(0, 1 << 30))
def test_columns_are_independent(how: Sum, columns: int, seed: int) -> None:
    """Without a multiple of 8 columns numpy computes, and gives what the same columns give beside others."""
    operands = operands_of(how, 2, seed)
    first = slice(0, min(columns, how.n))
    scale_b = None if operands.scale_b is None else operands.scale_b[:, first]
    fewer = Operands(
        operands.a, operands.b[..., first], operands.c[..., first], operands.codes, operands.scale_a, scale_b
    )
    narrow = Sum(**{**{name: getattr(how, name) for name in how.__dataclass_fields__}, "n": first.stop})
    assert np.array_equal(add(narrow, fewer), add(how, operands)[..., first])


def test_no_cases_and_strided_operands() -> None:
    how = sum_of(mma_forms()["mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"], parse_target("sm_90"))
    operands = operands_of(how, 9, 1)
    assert add(how, operands[:0]).shape == (0, 16, 8)
    every = Operands(operands.a[::2], operands.b[::2], operands.c[::2])
    assert np.array_equal(add(how, every), add(how, operands)[::2])
    turned = Operands(*(np.asfortranarray(x) for x in (operands.a, operands.b, operands.c)))
    assert np.array_equal(add(how, turned), add(how, operands))


# f64


@needs_kernel
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_f64(rounding: str) -> None:
    """Chains of multiply-adds in the kernel and in numpy; odd widths as well."""
    rng = np.random.default_rng(ROUNDINGS.index(rounding))
    for m, n, k in ((3, 5, 7), (1, 9, 1), (8, 8, 4), (16, 8, 16))[: examples(4, 2)]:
        for kind in ("bits", "finite", "near one", "special", "large", "subnormal"):
            a, b, c = (draw_f64(rng, kind, shape) for shape in ((4, m, k), (4, k, n), (4, m, n)))
            wanted = c
            for j in range(k):
                wanted = multiply_add(*np.broadcast_arrays(a[:, :, j, None], b[:, None, j, :]), wanted, rounding)
            assert np.array_equal(chain_f64(a, b, c, rounding), wanted), (m, n, k, kind)


@needs_kernel
@over("form", [form for form in FORMS if form.a_type is F64], ids=lambda form: form.opcode)
def test_f64_forms(form: MmaForm) -> None:
    """From registers to registers, as the numpy functions on matrices."""
    rng = np.random.default_rng(form.k)
    fragments = form.a, form.b, form.c
    a, b, c = (
        np.concatenate([draw_f64(rng, kind, (2, *x.shape)) for kind in ("bits", "special", "near one", "subnormal")])
        for x in fragments
    )
    wanted = c
    for k in range(form.k):
        wanted = multiply_add(*np.broadcast_arrays(a[:, :, k, None], b[:, None, k, :]), wanted, form.rounding)
    registers = [fragment.scatter(x) for fragment, x in zip(fragments, (a, b, c), strict=True)]
    (target, *_) = targets_of(form)
    assert np.array_equal(form.d.gather(execute_mma(form, *registers, target=target)), wanted)


def draw_f64(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:  # type: ignore[type-arg]
    """f64 patterns of one kind, as `draw` has them for others."""
    bits = rng.integers(0, 1 << 64, shape, np.uint64)
    digits = bits & np.uint64(0x800F_FFFF_FFFF_FFFF)
    if kind == "bits":
        return bits
    if kind == "special":
        pool = np.array([0, 1 << 63, 0x7FF << 52, 0xFFF << 52, 0x7FF1 << 48, 0xFFF8_0000_0000_0123], np.uint64)
        return np.where(rng.random(shape) < 0.08, rng.choice(pool, shape), draw_f64(rng, "near one", shape))
    low, high = {"finite": (0, 2047), "near one": (1021, 1026), "large": (1500, 2047), "subnormal": (0, 2)}[kind]
    if kind == "subnormal" and len(shape) and rng.random() < 0.5:
        low, high = 480, 560  # products of these are subnormal
    return digits | rng.integers(low, high, shape).astype(np.uint64) << np.uint64(52)


# Building and finding it


def test_the_environment_keeps_the_kernel_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that may not use it computes in numpy, and gives the same bits."""
    monkeypatch.setenv("TCSIM_KERNEL", "numpy")
    assert load() is None
    code = (
        "import hashlib, numpy as np; from simulator.arithmetic import kernel_name, product; rng = "
        "np.random.default_rng(1)\n"
        "a, b, c = (rng.integers(0, 1 << 16, shape).astype(np.uint32) for shape in ((5, 16, 16), (5, 16, 8), (5, "
        "16, 8)))\n"
        "d = product(a, b, c, family='mma', target='sm_80', a_type='f16', b_type='f16', d_type='f16')\n"
        "print(kernel_name(), hashlib.sha256(d.tobytes()).hexdigest())"
    )
    runs = {"numpy": "numpy", kernel_name(): "numpy" if kernel_name() == "numpy" else ""}
    found = {}
    for name, setting in runs.items():
        environment = os.environ | {"TCSIM_KERNEL": setting}
        said = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
        ).stdout.split()
        assert said[0] == name
        found[name] = said[1]
    assert len(set(found.values())) == 1


def test_building_warns_of_nothing() -> None:
    """`python -m` warns if the package has imported the module that it runs."""
    command = [sys.executable, "-W", "error", "-c", "import sys, simulator.arithmetic.compiled; print(*sys.modules)"]
    modules = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "simulator.arithmetic.compiled" in modules
    assert "simulator.arithmetic.compiled.build" not in modules


def test_without_a_library_numpy_computes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No file, no warning: that is how a machine without a compiler looks."""
    monkeypatch.delenv("TCSIM_KERNEL", raising=False)
    monkeypatch.setattr(build, "LIBRARY", tmp_path / "none.so")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load() is None


def test_continuous_integration_has_the_kernel() -> None:
    """Where every test must run, nothing that needs a compiler may be skipped."""
    if os.environ.get("CI") and os.environ.get("TCSIM_KERNEL") != "numpy":
        assert shutil.which(COMPILER)
        assert kernel_name() == "compiled"
    assert kernel_name() in ("compiled", "numpy")


@pytest.fixture
def copy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The sources in a folder of their own, where they are built."""
    for name in build.SOURCES:
        shutil.copy(build.FOLDER / name, tmp_path / name)
    monkeypatch.delenv("TCSIM_KERNEL", raising=False)
    monkeypatch.setattr(build, "FOLDER", tmp_path)
    monkeypatch.setattr(build, "LIBRARY", tmp_path / build.LIBRARY.name)
    return tmp_path


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@needs_compiler
def test_building(copy: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """It builds and computes; once its sources have changed it is refused, and says so."""
    monkeypatch.setattr(
        build, "FLAGS", ("-O0", *build.FLAGS[1:])
    )  # soon done, and another compilation must give the same bits
    assert build.build() == copy / build.LIBRARY.name
    assert files(copy) == sorted([*build.SOURCES, build.LIBRARY.name])
    built = load()
    assert built is not None
    assert built.tcsim_digest() == build.digest()
    monkeypatch.setattr(compiled, "library", lambda: built)
    how = sum_of(mma_forms()["mma.sp.sync.aligned.m16n8k64.row.col.f32.e4m3.e5m2.f32"], parse_target("sm_90"))
    operands = operands_of(how, 20, 5)
    d = np.empty(operands.c.shape, np.uint32)
    Kernel(how, matrix_layout(how))(d, operands.a, operands.b, operands.c, operands.codes)
    assert np.array_equal(d, add_in_numpy(how, operands))
    with (copy / "floats.h").open("a") as stream:
        stream.write("/* changed */\n")
    caplog.set_level(logging.WARNING, logger="tcsim")
    assert load() is None
    (said,) = [record.getMessage() for record in caplog.records]
    assert f"{build.LIBRARY.name} is not used: it was built from other sources; `python -m " in said


@needs_compiler
def test_a_build_that_fails_leaves_things_as_they_were(
    copy: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(build, "FLAGS", ("-O0", *build.FLAGS[1:]))
    (copy / "kernel.c").write_text("this is no C;\n")
    (copy / build.LIBRARY.name).write_bytes(b"before")
    assert build.main() == 1
    assert "the kernel cannot be built" in capsys.readouterr().err
    assert (copy / build.LIBRARY.name).read_bytes() == b"before"
    assert files(copy) == sorted([*build.SOURCES, build.LIBRARY.name])
    monkeypatch.setenv("CC", "no-such-compiler-here")
    assert build.main() == 1
    assert "no-such-compiler-here" in capsys.readouterr().err
    caplog.set_level(logging.WARNING, logger="tcsim")
    assert load() is None
    assert "is not used" in caplog.text


MODES = (0x400, 0x800, 0xC00)  # FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO of x86


@pytest.mark.skipif(platform.machine() != "x86_64", reason="other numbers for rounding modes")
@needs_kernel
def test_what_the_process_has_set_does_not_matter() -> None:
    """Rounding modes and flushing of subnormals of the process (PTX has its own), and integers of many columns."""
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    generator = np.random.default_rng(5)
    how: Any = {"family": "mma", "target": "sm_90a", "a_type": "f16", "b_type": "f16", "d_type": "f32"}
    a, b = (generator.integers(0, 1 << 16, shape, np.uint32) for shape in ((64, 8, 16), (64, 16, 8)))
    c = generator.integers(0, 1 << 32, (64, 8, 8), np.uint32)
    expected = matrix_product(a, b, c, **how)
    for mode in MODES:
        libm.fesetround(mode)
        try:
            found = matrix_product(a, b, c, **how)
            assert libm.fegetround() == mode
        finally:
            libm.fesetround(0)
        assert (found == expected).all()


@pytest.mark.parametrize(
    ("kind", "lowest", "most"), [("u8", 200, 255), ("s8", -128, -100), ("u4", 0, 15), ("s4", -8, 7)]
)
@pytest.mark.parametrize("k", [256, 264, 4096])
def test_integers_of_many_columns(kind: str, lowest: int, most: int, k: int) -> None:
    generator = np.random.default_rng(k)
    a, b = (generator.integers(lowest, most + 1, shape) for shape in ((2, 9, k), (2, k, 8)))
    mask = 255 if kind[1] == "8" else 15
    patterns = [(x & mask).astype(np.uint32) for x in (a, b)]
    c = np.zeros((2, 9, 8), np.uint32)
    d = matrix_product(*patterns, c, family="mma", target="sm_90a", a_type=kind, b_type=kind, d_type="s32")
    assert (d.view(np.int32) == a @ b).all()


@needs_kernel
def test_a_library_that_is_cut_short_is_not_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """To load it would end the process."""
    short = tmp_path / build.LIBRARY.name
    short.write_bytes(build.LIBRARY.read_bytes()[:-4096])
    monkeypatch.setattr(build, "LIBRARY", short)
    compiled.library.cache_clear()
    try:
        caplog.set_level(logging.WARNING, logger="tcsim")
        assert compiled.library() is None
        assert "cut short" in caplog.text
    finally:
        compiled.library.cache_clear()
