"""Faults of the tensor core unit: against sums in pure Python, against other operands that give the same, and in whole
programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytest

from isa.forms.mma import MmaForm, mma_forms
from isa.fragments.metadata import stored_columns
from isa.ptx.opcodes import mma_form
from isa.targets import parse_target
from isa.types import Bits
from simulator.arithmetic import Operands, Sum, add
from simulator.arithmetic.anatomy import Anatomy, sums_on_unit
from simulator.arithmetic.disturbance import PARTS, Disturbance, disturbed
from simulator.arithmetic.random_operands import draw
from simulator.errors import ConfigError, Error
from simulator.execute.mma import sum_of
from simulator.faults import Group, MmaTarget
from simulator.faults.models import BY_NAME, bits_of
from simulator.faults.outcomes import OUTCOMES, REASONS
from simulator.faults.population import drawn, population
from simulator.faults.table import ALONG, MODELS, SITES, Faults, empty
from simulator.faults.unit.mapping import position
from simulator.faults.unit.sites import UNIT_SITES
from simulator.layout import Choice
from tests.simulator.faults import unit_reference
from tests.support.cases import exhaustive

F16 = "mma.sp::ordered_metadata.m16n8k32.f32.f16.f16.f32"
SCALED = "mma.sp::ordered_metadata.m16n8k64.kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e4m3.e2m3.f32.ue8m0"
PACKED = "mma.sp::ordered_metadata.m16n8k128.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3"
KINDS_OF_SUM = (
    (F16, "sm_90a"),
    ("mma.m16n8k16.f16.f16.f16.f16", "sm_90a"),
    ("mma.m16n8k16.f32.bf16.bf16.f32", "sm_80"),
    ("mma.sp.m16n8k16.f32.tf32.tf32.f32", "sm_90a"),
    ("mma.m16n8k8.f32.f16.f16.f32", "sm_90a"),  # half of the unit's inputs
    ("mma.sp.m16n8k64.f32.e4m3.e5m2.f32", "sm_90a"),  # as f16, C added last
    ("mma.m16n8k32.f32.e5m2.e4m3.f32", "sm_89"),  # 13 bits
    ("mma.m16n8k32.kind::f8f6f4.f32.e3m2.e2m1.f32", "sm_120a"),
    (SCALED, "sm_120a"),
    (PACKED, "sm_120a"),
    ("mma.sp.m16n8k64.s32.s8.u8.s32.satfinite", "sm_90a"),
    ("mma.m16n8k32.s32.u4.u4.s32", "sm_90a"),
    ("mma.sp.m16n8k128.s32.s4.s4.s32", "sm_90a"),
    ("mma.m16n8k256.s32.b1.b1.s32.and.popc", "sm_90a"),
    ("mma.m8n8k128.s32.b1.b1.s32.xor.popc", "sm_80"),
)
SPARSE = tuple((opcode, target) for opcode, target in KINDS_OF_SUM if ".sp" in opcode)
CASES = 4


@cache
def target_of(opcode: str, target: str) -> MmaTarget:
    """Half of the cases are normal numbers, half any finite bits, zeros among them."""
    normal = MmaTarget(opcode, target, cases=CASES)
    form, rng = normal.form, np.random.default_rng(7)
    given = {name: array.copy() for name, array in normal.golden.items() if name not in ("d", "selector")}
    if form.a_type.is_float:
        shapes = {"a": (form.m, form.k_stored), "b": (form.k, form.n), "c": (form.m, form.n)}
        for name, shape in shapes.items():
            for case in range(CASES // 2, CASES):
                bits = draw(rng, shape, getattr(form, f"{name}_type"), "bits", 1.0)
                bits = np.where(rng.random(shape) < 0.1, np.uint32(0), bits).astype(np.uint32)
                given[name][case] = getattr(form, name).scatter(bits)
    return MmaTarget(opcode, target, cases=CASES, given=tuple(given.items()))


def some_faults(target: MmaTarget, site: str, count: int, seed: int = 0, kinds: tuple[str, ...] = ()) -> Faults:
    """Faults of a site, of all models; a part of those of sums of several steps strike one of them."""
    rng, parts = np.random.default_rng([seed, SITES.index(site)]), []
    for kind in kinds or ("flip", "stuck0", "stuck1", "flips", "nibble"):
        one = population(Group("g", site, kind), target.sites[site], target.layout, target.cases)
        if one.size:
            parts.append(one.make(rng.choice(one.size, min(count, one.size), replace=False)))
    rows = drawn(np.concatenate(parts), 1)
    steps = len(target.sum.steps)
    rows["lane2"] = np.where(rng.random(len(rows)) < 0.4, rng.integers(0, steps, len(rows)), -1)
    rows["id"] = np.arange(len(rows))
    return rows


def at_position(target: MmaTarget, rows: Faults, d: Bits) -> Bits:
    """Of each fault, the element of D at its position; no other one may differ from D without a fault."""
    matrix, golden = target.form.d.gather(d), target.golden_matrix[rows["case"]].copy()
    row, column = position(rows["lane"].astype(np.intp), target.form.n)
    every = np.arange(len(rows))
    golden[every, row, column] = matrix[every, row, column]
    assert (matrix == golden).all()
    return np.asarray(matrix[every, row, column])


def simulated(target: MmaTarget, rows: Faults) -> Bits:
    return at_position(target, rows, target.execute(target.faulty(rows)[0], rows))


# Against pure Python


def change_of(row: Any, halved: bool) -> Callable[[int], int]:
    """What a fault makes of a word."""
    shift = 32 * (int(row["word"]) & 1) if halved else 0
    mask = int(bits_of(np.array([row]))[0]) << shift
    model, value = BY_NAME[MODELS[int(row["model"])]], int(row["value"])
    return lambda word: word & ~mask | (int(model.becomes(word >> shift, value, 0)) << shift & mask)


def in_python(target: Any, row: Any) -> int:
    """The element of D of a fault."""
    how, site, word = target.sum, SITES[int(row["site"])], int(row["word"])
    halved = site in ("term", "adder")
    if site == "output":
        site, word = ("output", "accumulator")[word], 0
    place = word // 2 if halved else word
    unit = unit_reference.Unit(how, site, place, int(row["lane2"]), change_of(row, halved))
    case, matrices = int(row["case"]), target.matrices
    r, n = divmod(int(row["lane"]), how.n)
    columns = np.arange(how.stored)
    if matrices.codes is not None and how.sparsity is not None:
        columns = stored_columns(matrices.codes[case, r], how.sparsity)
    a, b = matrices.a[case, r].tolist(), matrices.b[case, columns, n].tolist()
    c = int(matrices.c[case, r, n])
    if not how.a_type.is_float:
        return unit.integers(a, b, c)
    scales, exponents = [], []
    if how.scale_type is not None and matrices.scale_a is not None and matrices.scale_b is not None:
        many = how.stored // how.rule.group if how.rule is not None and how.rule.group else how.stored
        for i in range(many):
            pair = [int(x[case, j, i * how.factors // many]) for x, j in ((matrices.scale_a, r), (matrices.scale_b, n))]
            numbers = [unit_reference.read(x, how.scale_type) for x in pair]
            scales.append(Fraction(1))
            for number in numbers:
                scales[-1] *= unit_reference.value(number, how.scale_type.fraction)
            exponents.append(sum(number[2] for number in numbers))
    return unit.floats(a, b, c, scales, exponents)


@exhaustive
@pytest.mark.parametrize(("opcode", "chip"), KINDS_OF_SUM)
def test_products_terms_sums_and_results_as_in_python(opcode: str, chip: str) -> None:
    target = target_of(opcode, chip)
    for site in ("multiplier", "term", "adder", "output"):
        rows = some_faults(target, site, 9)
        found = simulated(target, rows)
        right = np.array([in_python(target, row) for row in rows], np.uint32)
        assert found.tolist() == right.tolist(), (site, rows[found != right])
        row, column = position(rows["lane"].astype(np.intp), target.form.n)
        assert (found != target.golden_matrix[rows["case"], row, column]).any(), site


@pytest.mark.exhaustive
@pytest.mark.parametrize(("opcode", "chip"), KINDS_OF_SUM)
def test_many_more_as_in_python(opcode: str, chip: str) -> None:
    target = target_of(opcode, chip)
    for site in ("multiplier", "term", "adder", "output"):
        rows = some_faults(target, site, 250, seed=1)
        assert simulated(target, rows).tolist() == [in_python(target, row) for row in rows], site


# A disturbance that changes nothing


def sums() -> list[tuple[str, str, Sum]]:
    """An opcode and a chip for every sum that a tensor core of some chip computes for mma."""
    found: dict[Sum, tuple[str, str]] = {}
    for opcode, form in mma_forms().items():
        for chip in ("sm_75", "sm_80", "sm_89", "sm_90a", "sm_120a"):
            if form.a_type.bits < 64 and form.blocks == 1 and form.supports(parse_target(chip)):
                try:
                    how = sum_of(form, parse_target(chip), "chip")
                except Error:  # no arithmetic is known
                    continue
                if sums_on_unit(how):
                    found.setdefault(how, (opcode, chip))
    return [(*names, how) for how, names in found.items()]


def neutral(how: Sum, part: int, cases: int) -> Disturbance:
    """An entry for each element of D, with a mask that leaves every word as it is."""
    case, row, column = np.unravel_index(np.arange(cases * how.m * how.n), (cases, how.m, how.n))
    whole = np.full(len(case), (1 << 64) - 1, np.uint64)
    zero = np.zeros(len(case), np.int64)
    return Disturbance(case, row, column, zero + part, zero, zero - 1, whole, np.zeros_like(whole))


def unchanged(every: list[tuple[str, str, Sum]]) -> int:
    for opcode, chip, how in every:
        target = MmaTarget(opcode, chip, cases=1)
        for part in range(len(PARTS)):
            what = neutral(how, part, 1)
            found, changed = disturbed(how, target.matrices, what)
            assert (found == target.golden_matrix[what.case, what.row, what.column]).all(), opcode
            assert not changed.any()
    return len(every)


def test_a_disturbance_that_changes_nothing_gives_the_rule() -> None:
    """One opcode of each rule, pair of input types, kind of result and sparsity."""
    alike = {(how.rule, how.a_type, how.b_type, how.d_type, how.sparsity): one for one in sums() for how in [one[2]]}
    assert unchanged(list(alike.values())[::4]) >= 30


@pytest.mark.exhaustive
def test_a_disturbance_that_changes_nothing_gives_the_rule_of_every_form() -> None:
    assert unchanged(sums()) > 300


# Against other operands


def emulated(target: MmaTarget, rows: Faults, change: Callable[[Operands, int, int, Any], None]) -> Bits:
    """D at the positions of faults, from operands that `change(operands, index, row of D, fault)` changed."""
    given = target.matrices
    copies = Operands(*(None if x is None else x[rows["case"]].copy() for x in vars(given).values()))  # type: ignore[arg-type]
    row, column = position(rows["lane"].astype(np.intp), target.form.n)
    for index, fault in enumerate(rows):
        change(copies, index, int(row[index]), fault)
    return np.asarray(add(target.sum, copies)[np.arange(len(rows)), row, column])


def struck_columns(how: Sum, fault: Any) -> list[int]:
    """The stored columns whose product a multiplier computes."""
    steps = [step for step in range(len(how.steps)) if int(fault["lane2"]) in (-1, step)]
    place = int(fault["word"])
    return [how.steps[step][place] for step in steps if place < len(how.steps[step])]


@pytest.mark.parametrize(("opcode", "chip"), [one for one in KINDS_OF_SUM if "xor" not in one[0]])
def test_a_product_stuck_at_zero_is_a_zero_in_a(opcode: str, chip: str) -> None:
    """All bits of the significand; b1: and.popc alone, for 0 xor b is b."""
    target = target_of(opcode, chip)
    how = target.sum
    rows = some_faults(target, "multiplier", 150, kinds=("stuck0",))
    rows["mask"] = (1 << Anatomy(how).product_bits) - 1

    def zero(copies: Operands, index: int, row: int, fault: Any) -> None:
        copies.a[index, row, struck_columns(how, fault)] = 0

    assert (simulated(target, rows) == emulated(target, rows, zero)).all()


@pytest.mark.parametrize(("opcode", "chip"), [one for one in KINDS_OF_SUM if "s32" not in one[0]])
def test_a_wrong_sign_of_a_product_is_that_of_a(opcode: str, chip: str) -> None:
    target = target_of(opcode, chip)
    rows = some_faults(target, "multiplier", 100, kinds=("flip",))
    rows["mask"] = 1 << 31

    def negate(copies: Operands, index: int, row: int, fault: Any) -> None:
        copies.a[index, row, struck_columns(target.sum, fault)] ^= np.uint32(1 << target.form.a_type.sign_bit)

    assert (simulated(target, rows) == emulated(target, rows, negate)).all()


@pytest.mark.parametrize(("opcode", "chip"), SPARSE)
def test_select_lines_are_codes(opcode: str, chip: str) -> None:
    """Whatever codes come of it: equal, descending, or halves of two elements of tf32."""
    target = target_of(opcode, chip)
    how = target.sum
    rows = some_faults(target, "mux", 60)
    several = some_faults(target, "mux", 200, kinds=("stuck1",))
    several["model"], several["mask"] = MODELS.index("set"), 15
    several["value"] = np.arange(len(several)) % 16
    rows = np.concatenate([rows, several])
    assert how.sparsity is not None
    stored = how.sparsity.stored

    def choose(copies: Operands, index: int, row: int, fault: Any) -> None:
        assert copies.codes is not None
        change = change_of(fault, False)
        for step, columns in enumerate(how.steps):
            if int(fault["lane2"]) in (-1, step):
                chunk = columns[stored * int(fault["word"])] // stored
                copies.codes[index, row, chunk] = change(int(copies.codes[index, row, chunk])) & 15

    found = simulated(target, rows)
    assert (found == emulated(target, rows, choose)).all()
    row, column = position(rows["lane"].astype(np.intp), target.form.n)
    assert (found != target.golden_matrix[rows["case"], row, column]).mean() > 0.3


def test_a_stuck_input_of_the_selector_is_another_selector() -> None:
    target = MmaTarget("mma.sp.m16n8k16.f32.f16.f16.f32", cases=3, choice=Choice(selector=1))
    rows = some_faults(target, "selector_input", 9, kinds=("flip", "stuck0", "stuck1"))
    words = target.golden
    given = tuple((name, words[name]) for name in "abce")
    assert target.sites["selector_input"].live.tolist() == [[3]]
    found = target.execute(target.faulty(rows)[0], rows)
    seen = set()
    for row, d in zip(rows, found, strict=True):
        selector = change_of(row, False)(1)
        other = MmaTarget(target.opcode, cases=3, choice=Choice(selector=selector), given=given)
        assert (d == other.golden["d"][row["case"]]).all()
        seen.add(selector)
    assert seen == {0, 1, 3}
    assert "selector_input" not in target_of("mma.sp.m16n8k64.f32.e4m3.e5m2.f32", "sm_90a").sites


def test_the_result_of_a_step_is_c_of_the_next() -> None:
    """sm_80 adds eight products at once: m16n8k16 is m16n8k8 twice."""
    target = MmaTarget("mma.m16n8k16.f32.f16.f16.f32", "sm_80", cases=2)
    rows = some_faults(target, "output", 200, kinds=("flip", "stuck1"))
    rows["word"] = 1
    half, given = replace(target.sum, k=8), target.matrices
    row, column = position(rows["lane"].astype(np.intp), 8)
    c = given.c[rows["case"]]
    for step, part in enumerate((slice(0, 8), slice(8, 16))):
        c = add(half, Operands(given.a[rows["case"]][:, :, part], given.b[rows["case"]][:, part], c))
        for index, fault in enumerate(rows):
            if int(fault["lane2"]) in (-1, step):
                place = index, row[index], column[index]
                c[place] = change_of(fault, False)(int(c[place])) & 0xFFFFFFFF
    assert (simulated(target, rows) == c[np.arange(len(rows)), row, column]).all()


def test_infinities_and_nan_stay_but_for_the_sign() -> None:
    plain = MmaTarget(F16, cases=1)
    a, b = plain.golden["a"].copy(), plain.golden["b"].copy()
    form: MmaForm = plain.form
    left = form.a.gather(a)
    left[0, 0, 0], left[0, 1, 0] = 0x7C00, 0x7E01
    right = form.b.gather(b)
    right[right == 0] = 0x3C00
    given = (
        ("a", form.a.scatter(left)),
        ("b", form.b.scatter(right)),
        ("c", plain.golden["c"]),
        ("e", plain.golden["e"]),
    )
    target = MmaTarget(F16, cases=1, given=given)
    for site, mask, row, becomes in (
        ("multiplier", 0x7FFFFFFF, 0, None),
        ("multiplier", 1 << 31, 0, 0x80000000),
        ("multiplier", 0xFFFFFFFF, 1, None),
        ("term", 0xFFFFFFFF, 0, None),
        ("adder", 0xFFFFFFFF, 1, None),
    ):
        rows = empty(8)
        rows["site"], rows["model"], rows["mask"] = SITES.index(site), MODELS.index("flip"), mask
        rows["lane"] = row * 8 + np.arange(8)
        before = target.golden_matrix[0, row]
        assert (simulated(target, rows) == (before if becomes is None else before ^ np.uint32(becomes))).all(), site


# Lists


def test_sites_have_the_bits_that_there_are() -> None:
    sites = target_of(F16, "sm_90a").sites
    bits = {name: int(np.bitwise_count(sites[name].live[:, 0]).sum()) for name in UNIT_SITES}
    # 16 products of 22 + 6 + 1 bits; 17 terms of 28; 8 * 29 + 4 * 30 + 2 * 31 + 32 and 33; 8 codes
    assert bits == {
        "multiplier": 464, "term": 476, "adder": 479, "mux": 32, "selector_input": 1, "output": 64,
    }  # fmt: skip
    small = target_of("mma.m16n8k8.f32.f16.f16.f32", "sm_90a").sites
    assert small["adder"].live[2 * 4, 0] == 0  # terms 8 and 9, which k8 does not have
    assert not {*UNIT_SITES} & MmaTarget(F16, arithmetic="exact").sites.keys()
    assert "multiplier" in MmaTarget("mma.m16n8k32.s32.s8.s8.s32", arithmetic="exact").sites


def test_dead_bits_and_words_that_hold_the_value_are_masked() -> None:
    target = target_of(F16, "sm_90a")
    dead = population(Group("g", "term", "flip", where="dead"), target.sites["term"], target.layout, CASES)
    rows = drawn(dead.make(np.arange(0, dead.size, 5003)), 0)
    assert {(OUTCOMES[r["outcome"]], REASONS[r["reason"]]) for r in target.run(rows)} == {("masked", "same")}
    rows = some_faults(target, "mux", 300, kinds=("stuck0",))
    results, codes = target.run(rows), target.matrices.codes
    assert codes is not None
    row, _ = position(rows["lane"].astype(np.intp), 8)
    held = codes[rows["case"], row, rows["word"]] & rows["mask"] == 0
    one_step = (rows["lane2"] < 1) | (rows["lane2"] == -1)
    assert ((results["reason"] == REASONS.index("same")) == (held | ~one_step)).all()


def test_bursts_and_models_that_look_elsewhere_are_refused() -> None:
    """A unit's word is known only while the sum is computed."""
    target = target_of(F16, "sm_90a")
    for change, words in (
        ({"along": ALONG.index("lanes"), "span": 2}, "along lanes of site mux"),
        ({"model": MODELS.index("swap")}, "model swap of site mux"),
        ({"model": MODELS.index("own")}, "model own of site mux"),
        ({"lane": 128}, "lane 128 of site mux"),
        ({"word": 8}, "word 8 of site mux"),
    ):
        rows = some_faults(target, "mux", 1, kinds=("flip",))
        for name, value in change.items():
            rows[name] = value
        with pytest.raises(ConfigError, match=words):
            target.run(rows)


def test_mixed_lists_give_what_each_part_gives() -> None:
    target = target_of(F16, "sm_90a")
    unit = np.concatenate([some_faults(target, site, 20) for site in UNIT_SITES])
    words = np.concatenate([some_faults(target, site, 20) for site in ("a", "d", "e")])
    both = np.concatenate([unit, words])
    order = np.random.default_rng(0).permutation(len(both))
    mixed, apart = target.run(both[order]), np.concatenate([target.run(unit), target.run(words)])[order]
    assert mixed.tolist() == apart.tolist()
    assert mma_form(target.form.opcode) is target.form
