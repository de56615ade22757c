"""Fault campaigns: models against faults made by hand, outcomes, policies, detectors, lists that repeat and runs that
go on."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isa
import simulator
from simulator.arithmetic.check_bits import hsiao, parity, secded, syndromes
from simulator.errors import ConfigError, TraceError, ViewError
from simulator.faults import (
    MASKED,
    SDC,
    Group,
    MmaTarget,
    every_fault,
    read_results,
    sample_size,
    single_bits,
    wilson,
)
from simulator.faults.campaign import Campaign, read_campaign
from simulator.faults.element_kinds import ELEMENT_KINDS
from simulator.faults.kinds import KINDS
from simulator.faults.outcomes import DETECTED, DETECTORS, DUE, OUTCOMES, REASONS, flag, numbers, to_frame
from simulator.faults.run import run_list, subject_of
from simulator.faults.table import BLOCK, SITES, as_dict, read_blocks, read_head, read_pieces, seeds, texts, write_head
from simulator.faults.table import to_frame as table_frame
from simulator.faults.targets.policies import saturated
from simulator.layout import Choice
from simulator.studies.faults.summary import summarise
from tests.support.cases import alike, examples, exhaustive, over
from tests.support.forms import by_metadata
from tests.support.paths import ROOT

Tcsim = Callable[..., tuple[int, str, str]]
F16 = "mma.sp::ordered_metadata.m16n8k32.f32.f16.f16.f32"
TF32 = "mma.sp.m16n8k16.f32.tf32.tf32.f32"
S4 = "mma.sp.m16n8k128.s32.s4.s4.s32"
SCALED = "mma.sp::ordered_metadata.m16n8k128.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3"


def _every(subject: MmaTarget, **how: Any) -> Any:
    """All faults of a group."""
    group = Group("g", how.pop("site", "e"), how.pop("kind"), **how)
    return every_fault(group, subject.sites[group.site], subject.layout, subject.cases, subject.seed)


# Statistics


@pytest.mark.parametrize(
    ("population", "sizes"),
    [
        (512, (220, 347, 290, 497)),
        (2048, (324, 702, 502, 1824)),
        (10**6, (384, 1066, 664, 16317)),
        (10**15, (385, 1068, 664, 16588)),
    ],
)
def test_sample_sizes_of_leveugle(population: int, sizes: tuple[int, ...]) -> None:
    wanted = [(0.05, 0.95), (0.03, 0.95), (0.05, 0.99), (0.01, 0.99)]
    assert tuple(sample_size(population, margin, confidence) for margin, confidence in wanted) == sizes


def test_wilson_intervals() -> None:
    """Of 1,000 faults none: up to 0.38 %, where Wald says none at all. 95 % of intervals hold the truth."""
    assert wilson(0, 1000) == pytest.approx((0.0, 0.003827), abs=1e-6)
    assert wilson(3, 1000)[0] > 0
    low, high = wilson(10, 20)
    assert (low, high) == pytest.approx((0.2993, 0.7007), abs=1e-4)
    rng = np.random.default_rng(0)
    hits = rng.binomial(200, 0.1, 2000)
    inside = sum(low <= 0.1 <= high for low, high in (wilson(int(hit), 200) for hit in hits))
    assert 0.93 < inside / 2000 < 0.97
    for wrong in ((1, 0), (-1, 5), (6, 5)):
        with pytest.raises(ViewError):
            wilson(*wrong)
    with pytest.raises(ViewError, match="between 0 and 1"):
        wilson(1, 5, 1.0)
    with pytest.raises(ViewError, match="margin"):
        sample_size(10, 0.0)


# What every single bit does


def test_every_metadata_bit_of_m16n8k32() -> None:
    """512 bits are read, and corrupt; the other 512 do nothing."""
    subject = MmaTarget(F16, cases=3)
    live, dead = subject.run(single_bits(subject, "e")), subject.run(single_bits(subject, "e", "dead"))
    assert len(live) == len(dead) == 3 * 512
    assert (live["outcome"] == SDC).all()
    assert (dead["outcome"] == MASKED).all()
    assert (dead["reason"] == REASONS.index("unread")).all()
    assert (dead["detectors"] == 0).all()
    assert (live["rows"] == 1).all(), "a code concerns one row of D"
    assert (live["elements"] <= 8).all()


@over(
    "form",
    [form for form in isa.mma_forms().values() if form.sparse][::9],
    ids=lambda form: form.opcode,
    distinct=by_metadata,
)
def test_dead_metadata_bits_are_masked_in_other_forms(form: isa.MmaForm) -> None:
    target = next(name for name in ("sm_90a", "sm_89", "sm_80", "sm_120a") if form.supports(isa.parse_target(name)))
    for selector in range(form.metadata.selectors):
        subject = MmaTarget(form.opcode, target, Choice(selector=selector))
        live, dead = single_bits(subject, "e"), single_bits(subject, "e", "dead")
        rows, chunks = form.metadata.shape
        assert len(live) == 4 * rows * chunks
        assert len(live) + len(dead) == 1024
        if len(dead):
            assert (subject.run(dead)["outcome"] == MASKED).all()
        assert (subject.run(live)["outcome"] == SDC).mean() > 0.6


def test_the_low_bits_of_tf32_are_dead() -> None:
    subject = MmaTarget(TF32)
    assert len(single_bits(subject, "a", "dead")) == 4 * 32 * 13
    assert (subject.run(single_bits(subject, "b", "dead"))["reason"] == REASONS.index("unread")).all()
    assert (subject.run(single_bits(subject, "a"))["outcome"] == SDC).mean() > 0.9


# Models against hand-made faults


def _by_hand(subject: MmaTarget, fault: dict[str, Any]) -> np.ndarray:
    """D with one fault, made with plain integers from what its row says."""
    case, site = fault["case"], fault["site"]
    registers = {name: array[case : case + 1].copy() for name, array in subject.golden.items() if name != "d"}
    selector = subject.choice.selector
    word, lane, mask, value = fault["word"], fault["lane"], fault["mask"], fault["value"]
    if fault["model"] == "selector":
        selector = value
    else:
        array = registers[site][0]
        old = int(array[word, lane])
        if fault["model"] == "swap":
            other = int(array[fault["word2"], fault["lane2"]])
            low, low2 = (mask & -mask).bit_length() - 1, (fault["mask2"] & -fault["mask2"]).bit_length() - 1
            one, two = old >> low & 15, other >> low2 & 15
            array[word, lane] = old & ~mask | two << low
            array[fault["word2"], fault["lane2"]] = (
                int(array[fault["word2"], fault["lane2"]]) & ~fault["mask2"] & 0xFFFFFFFF | one << low2
            )
        else:
            array[word, lane] = {
                "flip": old ^ mask,
                "stuck0": old & ~mask,
                "stuck1": old | mask,
                "set": old & ~mask | value & mask,
                "word": value,
                "lane": int(array[word, fault["lane2"]]),
            }[fault["model"]] & 0xFFFFFFFF
    scales: dict[str, Any] = {}
    if "scale_a" in registers:
        scales = {"scale_a": registers["scale_a"][:, 0], "scale_b": registers["scale_b"][:, 0]}
    operands = registers["a"], registers["b"], registers["c"]
    if not subject.form.sparse:
        return simulator.mma(subject.form.opcode, *operands, target=subject.target, **scales)[0]  # type: ignore[arg-type]
    return simulator.mma_sp(subject.form.opcode, *operands, registers["e"][:, 0], selector, subject.target, **scales)[0]  # type: ignore[arg-type]


GROUPS: list[dict[str, Any]] = [
    {"kind": "flip"},
    {"kind": "flip", "site": "a"},
    {"kind": "flip", "site": "b"},
    {"kind": "flip", "site": "c"},
    {"kind": "flip", "where": "dead"},
    {"kind": "stuck0"},
    {"kind": "stuck1", "site": "a"},
    {"kind": "flips", "bits": 2},
    {"kind": "flips", "bits": 3, "adjacent": True},
    {"kind": "byte"},
    {"kind": "nibble", "site": "b"},
    {"kind": "code", "codes": "all"},
    {"kind": "lane"},
    {"kind": "swap"},
    {"kind": "word", "count": 300},
    {"kind": "selector", "site": "selector"},
]


@over("how", GROUPS, ids=lambda how: "-".join(map(str, how.values())))
@over("opcode", [F16, TF32, S4, "mma.sp.m16n8k16.f16.f16.f16.f16"], distinct=alike)
def test_models_do_what_their_rows_say(opcode: str, how: dict[str, Any]) -> None:
    subject = MmaTarget(opcode, "sm_90a", cases=2, seed=3)
    if how["kind"] == "selector" and subject.form.metadata.selectors == 1:
        return
    if how.get("where") == "dead" and subject.form.metadata.selectors == 1:
        return
    every = _every(subject, **how)
    chosen = every[np.random.default_rng(1).permutation(len(every))[: examples(25, 10)]]
    results = subject.run(chosen)
    registers, _ = subject.faulty(chosen)
    for i, (fault, result) in enumerate(zip(chosen, results, strict=True)):
        row = as_dict(fault)
        if result["outcome"] == DUE:
            assert row["value"] >= subject.form.metadata.selectors
            continue
        d, golden = _by_hand(subject, row), subject.golden["d"][row["case"]]
        assert (result["outcome"] == SDC) == (d != golden).any(), row
        assert result["elements"] == (subject.form.d.gather(d[None]) != subject.form.d.gather(golden[None])).sum()
        assert registers["e"].shape == (len(chosen), 1, 32), i


def test_faults_in_d_and_scales() -> None:
    subject = MmaTarget(SCALED, "sm_120a")
    for site in ("scale_a", "scale_b"):
        every = single_bits(subject, site)
        results = subject.run(every)
        for index in range(0, len(every), max(1, len(every) // 10)):
            d = _by_hand(subject, as_dict(every[index]))
            assert (results[index]["outcome"] == SDC) == (d != subject.golden["d"][0]).any()
    every = single_bits(subject, "d")
    results = subject.run(every)
    assert (results["elements"] == 1).all()
    assert set(results["max_ulp"][:32].tolist()) >= {1 << bit for bit in range(20)}


def test_dense_instructions_too() -> None:
    subject = MmaTarget("mma.m16n8k16.f32.f16.f16.f32", "sm_80")
    results = subject.run(single_bits(subject, "b"))
    assert (results["outcome"] == SDC).mean() > 0.5
    assert "e" not in subject.sites
    with pytest.raises(ConfigError, match="cannot be a subject"):
        _ = MmaTarget("mma.m8n8k4.f64.f64.f64.f64").form


def test_sizes_of_corruption() -> None:
    """An exponent bit of C: by how many ulp, how much of the value, infinities."""
    subject = MmaTarget(F16)
    every = single_bits(subject, "d")
    top = every[every["mask"] == 1 << 30]
    results = subject.run(top)
    assert ((results["max_ulp"] == 1 << 30) | (results["nonfinite"] == 1)).all()
    assert (results["nonfinite"] == 1).any(), "the exponent of numbers from 1 to 2 becomes that of infinity"
    sign = subject.run(every[every["mask"] == 1 << 31])
    assert (sign["max_rel"] == 2.0).all()
    assert (results["first_row"] >= 0).all()


# Policies


def test_raise_stops_what_is_not_defined() -> None:
    subject = MmaTarget(F16, policy="raise")
    results = subject.run(single_bits(subject, "e"))
    undefined = (results["detectors"] & flag("legality")) > 0
    assert undefined.any()
    assert not undefined.all()
    assert (results["outcome"][undefined] == DETECTED).all()
    assert (results["outcome"][~undefined] == SDC).all()
    assert (results["elements"][undefined] == 0).all()


@over("opcode", [F16, TF32, S4])
def test_zero_forms_no_product_of_a_broken_chunk(opcode: str) -> None:
    """Against an A that never had the elements, B finite or not."""
    subject = MmaTarget(opcode, policy="zero", cases=2)
    form = subject.form
    b = subject.golden["b"].copy()
    if form.b_type.name == "f16":
        b[1, 0, 5] = 0x7C007E00  # infinity, NaN
    subject = MmaTarget(opcode, policy="zero", cases=2, given=(("b", b),))
    if form.b_type.name == "f16":
        assert not np.isfinite(simulator_values(subject)).all(), "the row of B is used by others"
    faults = _every(subject, kind="code", codes="undefined")
    faults = faults[:: max(1, len(faults) // 60)]
    registers, _ = subject.faulty(faults)
    d = subject.execute(registers, faults)
    sparsity = form.metadata.sparsity
    for i, fault in enumerate(faults):
        case = int(fault["case"])
        codes = form.metadata.gather(registers["e"][i : i + 1, 0], 0)[0]
        row, chunk = map(int, np.argwhere(~form.metadata.legal(codes))[0])
        stored, matrix = form.a.gather(registers["a"][i : i + 1]), form.b.gather(b[case : case + 1]).copy()
        stored[0, row, chunk * sparsity.stored : (chunk + 1) * sparsity.stored] = 0
        matrix[0, chunk * sparsity.chunk : (chunk + 1) * sparsity.chunk] = 0
        codes[row, chunk] = form.metadata.codes[0]
        e = form.metadata.scatter(codes[None], 0)
        expected = simulator.mma_sp(
            form.opcode, form.a.scatter(stored), form.b.scatter(matrix), registers["c"][i : i + 1], e
        )
        assert (form.d.gather(expected)[0, row] == form.d.gather(d[i : i + 1])[0, row]).all()


def simulator_values(subject: MmaTarget) -> np.ndarray:
    return numbers(subject.golden_matrix, subject.form.d.type)


@pytest.mark.parametrize("opcode", [F16, TF32])
def test_saturation_gives_defined_codes_and_keeps_those_that_are(opcode: str) -> None:
    sparsity = MmaTarget(opcode).form.metadata.sparsity
    table = saturated(sparsity)
    assert set(table.tolist()) <= set(sparsity.ordered)
    assert all(table[code] == code for code in sparsity.ordered)
    subject = MmaTarget(opcode, policy="saturate")
    faults = _every(subject, kind="code", codes="all")[:400]
    registers, _ = subject.faulty(faults)
    d = subject.execute(registers, faults)
    codes = subject.form.metadata.gather(registers["e"][:, 0], 0)
    e = subject.form.metadata.scatter(
        np.where(np.isin(codes, sparsity.ordered), codes, table[codes]), 0, registers["e"][:, 0]
    )
    expected = simulator.mma_sp(subject.form.opcode, registers["a"], registers["b"], registers["c"], e)
    assert (d == expected).all()


# Detectors


def test_secded_corrects_one_and_sees_two() -> None:
    assert len(set(hsiao().tolist())) == 32
    assert all(int(column).bit_count() == 3 for column in hsiao())
    one = np.array([[1 << bit] for bit in range(32)], np.uint32)
    two = np.array([[1 << i | 1 << j] for i, j in combinations(range(32), 2)], np.uint32)
    assert secded(one).all()
    assert secded(two).all()
    assert not secded(np.zeros((1, 3), np.uint32)).any()
    three = np.array([[1 << i | 1 << j | 1 << k] for i, j, k in combinations(range(32), 3)], np.uint32)
    assert 0 < secded(three).mean() < 1, "three flips may look like one"
    assert parity(one).all()
    assert not parity(two).any()
    assert (syndromes(one)[:, 0] == hsiao()).all()


def test_checksums_see_what_they_should() -> None:
    subject = MmaTarget(F16, cases=4)
    results = subject.run(single_bits(subject, "d"))
    caught = (results["detectors"] & flag("abft")) > 0
    assert caught[results["max_rel"] > 1e-3].all()
    assert not caught[results["max_ulp"] == 1].all(), "a checksum that is rounded misses the last bits"


F16_RESULTS = "mma.sp.m16n8k32.f16.f16.f16.f16"


def _dense(subject: MmaTarget) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A with its zeros, B and C of every case in float64, element by element from the codes."""
    form, words = subject.form, subject.golden
    a, b = (numbers(getattr(form, name).gather(words[name]), getattr(form, f"{name}_type")) for name in "ab")
    codes, whole = form.metadata.gather(words["e"][:, 0], 0), np.zeros((subject.cases, form.m, form.k))
    for case, row, chunk in np.ndindex(codes.shape):
        code = int(codes[case, row, chunk])
        for place, column in enumerate((code & 3, code >> 2)):
            whole[case, row, 4 * chunk + column] = a[case, row, 2 * chunk + place]
    return whole, b, numbers(form.c.gather(words["c"]), form.c.type)


def test_checksums_are_honest() -> None:
    """Against sums that are computed here from unrounded products: the tolerance is the rounding of D to f16, of other
    products than the tested ones, so that coverage and false alarms are those of a real checksum."""
    subject = MmaTarget(F16_RESULTS, cases=64, seed=1)
    a, b, c = _dense(subject)
    exact, got = a @ b + c, simulator_values(subject)
    assert np.allclose(subject.predicted.rows, exact.sum(axis=2), rtol=0, atol=1e-12)
    assert np.allclose(subject.predicted.columns, exact.sum(axis=1), rtol=0, atol=1e-12)
    apart = [np.abs(got.sum(axis=axis) - exact.sum(axis=axis)).max() for axis in (2, 1)]
    checks = subject.checksums
    assert 0.5 < checks.row_tolerance / apart[0] < 2
    assert 0.5 < checks.column_tolerance / apart[1] < 2
    one = MmaTarget(F16_RESULTS, seed=1)
    for site, low, high in (("a", 0.7, 0.85), ("c", 0.65, 0.8), ("d", 0.7, 0.85), ("e", 1, 1)):
        results = one.run(single_bits(one, site))
        corrupt = results["outcome"] == SDC
        assert low <= ((results["detectors"][corrupt] & flag("abft")) > 0).mean() <= high, site


@pytest.mark.parametrize("opcode", [F16_RESULTS, TF32, S4, "mma.sp.m16n8k32.f32.bf16.bf16.f32"])
def test_false_alarms_of_checksums_are_measured(opcode: str) -> None:
    """The largest of 64 and 64 sums is exceeded by about 2 of 65 fresh products; sums of integers are exact."""
    failed, products = MmaTarget(opcode, seed=3).false_alarms()
    assert products == 256
    assert failed == 0 if opcode == S4 else 0 < failed < 40
    same = MmaTarget(opcode, seed=3, cases=3)
    assert same.checksums.row_tolerance == MmaTarget(opcode, seed=3).checksums.row_tolerance, "not of the tested ones"


def test_a_report_says_the_false_alarms(tcsim: Tcsim, tmp_path: Path) -> None:
    listed, results = tmp_path / "l.csv", tmp_path / "r.csv"
    (tmp_path / "c.toml").write_text(f'[subject]\nopcode = "{F16_RESULTS}"\n[[faults]]\nsite = "e"\nkind = "flip"\n')
    assert tcsim("faults", "list", tmp_path / "c.toml", "--output", listed)[0] == 0
    assert tcsim("faults", "run", listed, "--output", results)[0] == 0
    failed, products = MmaTarget(F16_RESULTS).false_alarms()
    assert f"\nabft fails {failed} of {products} products that have no fault" in tcsim("faults", "report", results)[1]


def test_checksums_of_cases_with_infinities() -> None:
    """Their sums are only expected not to be finite; the others keep their tolerance."""
    subject = MmaTarget(F16, cases=2)
    b = subject.golden["b"].copy()
    b[1, 0, 0] = 0x7C007C00
    special = MmaTarget(F16, cases=2, given=(("b", b),))
    clean = simulator_values(special)
    assert not np.isfinite(clean[1]).all()
    assert 0 < special.checksums.row_tolerance < 1e-3
    assert not special.checksums.sees(clean, np.arange(2)).any()
    dead = special.run(single_bits(special, "e", "dead"))
    assert not (dead["detectors"] & flag("abft")).any()


def test_dead_flips_of_several_bits_touch_nothing_that_is_read() -> None:
    subject = MmaTarget(TF32)
    faults = _every(subject, kind="flips", site="a", where="dead")
    assert len(faults) == 4 * 32 * 78
    assert (subject.run(faults[::7])["outcome"] == MASKED).all()
    mixed = (
        len(_every(subject, kind="flips", site="a", where="all"))
        - len(faults)
        - len(_every(subject, kind="flips", site="a"))
    )
    assert mixed == 4 * 32 * 13 * 19


def test_ordered_is_stricter_than_legality_under_plain_sp() -> None:
    subject = MmaTarget("mma.sp.m16n8k32.f32.f16.f16.f32")
    results = subject.run(_every(subject, kind="code", codes="descending"))
    assert not (results["detectors"] & flag("legality")).any()
    assert ((results["detectors"] & flag("ordered")) > 0).all()


# Lists


def test_lists_read_back_and_repeat(tmp_path: Path) -> None:
    campaign = read_campaign(ROOT / "campaigns" / "metadata.toml")
    blocks = list(campaign.faults())
    assert sum(map(len, blocks)) == sum(wanted for wanted, _ in campaign.counts())
    path = tmp_path / "list.csv"
    path.write_text(
        write_head(campaign.about()) + "\n".join([line for block in blocks for line in texts(block)] + [""])
    )
    found = read_head(path)
    again = np.concatenate(list(read_blocks(found)))
    assert (again == np.concatenate(blocks)).all()
    assert all((rows == again[first : first + 5]).all() for first, rows in read_pieces(found, [(100, 105), (200, 205)]))
    assert (again["id"] == np.arange(len(again))).all()
    assert (seeds(1, again["id"]) == again["seed"]).all()
    assert len(set(again["seed"].tolist())) == len(again)
    assert (np.concatenate(list(read_campaign(ROOT / "campaigns" / "metadata.toml").faults())) == again).all()
    assert subject_of(found).digest == campaign.subject.digest


def test_samples_have_no_fault_twice_and_depend_on_the_seed() -> None:
    values = {
        "campaign": {"seed": 5},
        "subject": {"opcode": F16},
        "faults": [{"site": "a", "kind": "flips", "bits": 3, "count": 5000}],
    }
    one, same, other = (np.concatenate(list(_campaign(values | {"campaign": {"seed": s}}).faults())) for s in (5, 5, 6))
    assert (one == same).all()
    assert len(np.unique(one[["word", "lane", "mask"]])) == 5000
    assert set(map(tuple, one[["word", "lane", "mask"]].tolist())) != set(
        map(tuple, other[["word", "lane", "mask"]].tolist())
    )
    assert (np.bitwise_count(one["mask"]) == 3).all()


def _campaign(values: dict[str, Any]) -> Campaign:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c.toml"
        path.write_text(_toml(values))
        return read_campaign(path)


def _toml(values: dict[str, Any]) -> str:
    lines = []
    for name, table in values.items():
        for one in table if isinstance(table, list) else [table]:
            lines.append(f"[[{name}]]" if isinstance(table, list) else f"[{name}]")
            lines += [f"{key} = {json.dumps(value)}" for key, value in one.items()]
    return "\n".join(lines) + "\n"


@over(
    ("change", "words"),
    [
        ({"subject": {}}, "subject.opcode: is missing"),
        ({"subject": {"opcode": "mma.sp.m16n8k33.f32.f16.f16.f32"}}, "m16n8k33"),
        ({"subject": {"opcode": F16, "target": "sm_75"}}, "subject.target: sm_75 has no"),
        ({"subject": {"opcode": F16, "cases": 0}}, "from 1 to 65,536 (sets of operands)"),
        ({"subject": {"opcode": F16, "selector": 2}}, "selector 2"),
        ({"subject": {"opcode": F16, "oopcode": 1}}, "did you mean 'opcode'"),
        ({"subject": {"trace": "digits/nothing"}}, "digits/nothing"),
        ({"subject": {"trace": "digits/f16", "cases": 2}}, "unknown key"),
        (
            {"subject": {"trace": "digits/f16"}, "faults": [{"site": "registers", "kind": "flip", "at": "some"}]},
            "'some'; legal: an integer from -1",
        ),
        (
            {"subject": {"trace": "digits/f16"}, "faults": [{"site": "registers", "kind": "flip", "warps": [9]}]},
            "warps with a program: 0, 1",
        ),
        (
            {"subject": {"trace": "digits/f16"}, "faults": [{"site": "registers", "kind": "flip", "at": [-4]}]},
            "[-4]; legal: an integer from -1",
        ),
        ({"subject": {"opcode": "tcgen05.mma.sp.cta_group::1.kind::f16", "m": 100}}, "M = 100"),
        ({"faults": [{"site": "e", "kind": "flip", "at": 3}]}, "of traces and launches alone"),
        ({"faults": [{"site": "e", "kind": "align"}]}, "base_d, base_a, base_e"),
        ({"subject": {"opcode": F16, "scale_a": [1]}}, "a list of 2, each an integer"),
        ({"campaign": {"policy": "maybe"}}, "hardware, raise, zero, saturate"),
        ({"campaign": {"seed": -1}}, "campaign.seed: -1"),
        ({"campaign": {"seed": "x"}}, "campaign.seed: 'x'; legal: an integer"),
        ({"faults": []}, "at least one"),
        ({"faults": [{"site": "q", "kind": "flip"}]}, "'q' is not a site"),
        ({"faults": [{"site": "e", "kind": "flop"}]}, "flip, stuck0"),
        ({"faults": [{"site": "e", "kind": "flips", "bits": 9}]}, "2 to 4"),
        ({"faults": [{"site": "a", "kind": "code"}]}, "codes in site a"),
        ({"faults": [{"site": "a", "kind": "swap"}]}, "chunks in site a"),
        ({"faults": [{"site": "e", "kind": "code", "codes": "odd"}]}, "undefined, descending"),
        ({"faults": [{"site": "e", "kind": "word"}]}, "have no end"),
        ({"faults": [{"site": "e", "kind": "flip", "count": 10**9}]}, "at most 512"),
        ({"faults": [{"site": "e", "kind": "selector"}]}, "legal: selector"),
        ({"faults": [{"site": "e", "kind": "flip", "count": 5, "margin": 0.1}]}, "a count, or margin"),
        ({"faults": [{"site": "b", "kind": "flip", "where": "dead"}]}, "no such fault"),
    ],
)
def test_campaigns_that_are_none(change: dict[str, Any], words: str) -> None:
    good = {"campaign": {"seed": 1}, "subject": {"opcode": F16}, "faults": [{"site": "e", "kind": "flip"}]}
    with pytest.raises((ConfigError, TraceError), match=re.escape(words)):
        _campaign(good | change).counts()


@pytest.fixture
def listed(tmp_path: Path, tcsim: Tcsim) -> Path:
    """A list of several blocks."""
    return _listed(tmp_path, tcsim, 3 * BLOCK + 100)


def _listed(tmp_path: Path, tcsim: Tcsim, count: int) -> Path:
    faults = [{"site": "a", "kind": "flips", "bits": 2, "count": count}]
    values = {"campaign": {"seed": 2}, "subject": {"opcode": F16, "cases": 2}, "faults": faults}
    (tmp_path / "c.toml").write_text(_toml(values))
    assert tcsim("faults", "list", tmp_path / "c.toml", "--output", tmp_path / "list.csv") == (0, "", "")
    return tmp_path / "list.csv"


def test_lists_that_are_none(tmp_path: Path, tcsim: Tcsim) -> None:
    text = _listed(tmp_path, tcsim, 500).read_text()
    cases = {
        "cut": (text[: len(text) // 2], "cut short"),
        "head": (text.replace("# tcsim faults 1", "# something"), "not a list of faults"),
        "columns": (text.replace("id,group", "id,grp"), "other columns"),
        "row": (text.replace(",flip,a,", ",flop,a,", 1), "model is 'flop'"),
        "operands": (re.sub("# operands: .*", "# operands: 0123", text), "the list was made for 0123"),
        "subject": (text.replace("# subject:", "# sub:"), "has no subject"),
        "number": (re.sub(r"^(7),0,", "x,0,", text, flags=re.MULTILINE), "id is 'x'"),
        "large": (re.sub(r"^7,0,", "7,70000,", text, flags=re.MULTILINE), "group is 70000"),
    }
    for name, (changed, words) in cases.items():
        assert changed != text, name
        path = tmp_path / f"{name}.csv"
        path.write_text(changed)
        code, out, err = tcsim("faults", "run", path, "--output", tmp_path / "r.csv")
        assert (code, out) == (2, ""), name
        assert words in err, (name, err)
        assert err.count("\n") == 1
        assert not (tmp_path / "r.csv").exists()
    line = 1 + next(i for i, row in enumerate(text.splitlines()) if row.startswith("7,0,"))
    assert f"number.csv:{line}:" in tcsim("faults", "run", tmp_path / "number.csv", "--output", tmp_path / "r.csv")[2]


# Runs


@pytest.mark.exhaustive  # two workers: test_campaigns_on_traces, too
@pytest.mark.parametrize("how", [{"workers": 2}, {"cluster": "local"}], ids=["two", "dask"])
def test_workers_and_dask_change_nothing(how: dict[str, Any], listed: Path, tmp_path: Path) -> None:
    found = read_head(listed)
    run_list(found, tmp_path / "one.csv")
    run_list(found, tmp_path / "others.csv", **how)
    assert (tmp_path / "one.csv").read_bytes() == (tmp_path / "others.csv").read_bytes()


@pytest.mark.exhaustive
def test_interruption_changes_nothing(listed: Path, tmp_path: Path) -> None:
    found = read_head(listed)
    run_list(found, tmp_path / "one.csv")
    command = [
        sys.executable,
        "-m",
        "simulator",
        "faults",
        "run",
        str(listed),
        "--output",
        str(tmp_path / "killed.csv"),
    ]
    process = subprocess.Popen(command, cwd=ROOT)
    parts = tmp_path / "killed.csv.parts"
    while process.poll() is None and not (parts / "000000.csv").exists():
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "killed.csv").exists(), "killed before the end"
    before = sorted(os.listdir(parts))
    assert "000000.csv" in before
    run_list(found, tmp_path / "killed.csv", workers=2)
    assert (tmp_path / "killed.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()
    assert not parts.exists()


def test_parts_of_another_run_are_not_taken(tmp_path: Path, tcsim: Tcsim) -> None:
    listed = _listed(tmp_path, tcsim, 500)
    parts = tmp_path / "r.csv.parts"
    parts.mkdir()
    (parts / "run").write_text("something else")
    with pytest.raises(TraceError, match="another run"):
        run_list(read_head(listed), tmp_path / "r.csv")
    assert not (tmp_path / "r.csv").exists()


def test_results_as_tables_pages_and_parquet(tmp_path: Path, tcsim: Tcsim) -> None:
    import pandas

    parquet = pytest.importorskip("pyarrow.parquet")

    listed, results, small = tmp_path / "list.csv", tmp_path / "r.csv", tmp_path / "small.toml"
    text = (ROOT / "campaigns" / "metadata.toml").read_text()
    head, *groups = text.split("[[faults]]")
    small.write_text("[[faults]]".join([head, *groups[:2], *(each for each in groups if "another byte" in each)]))
    assert tcsim("faults", "list", small, "--output", listed)[0] == 0
    assert tcsim("faults", "run", listed, "--output", results, "--parquet", tmp_path / "r.parquet")[0] == 0
    summary = summarise(results)
    assert summary.total.faults == int(summary.about["faults"])
    first = summary.groups[0]
    assert (first.faults, first["sdc"], first.exhaustive) == (2048, 2048, True)
    assert first.heat[:, :, 0].sum() == 2048
    frame = read_results(results)
    assert frame.attrs["campaign"] == summary.about["campaign"]
    assert {name: str(frame[name].dtype) for name in ("seed", "mask", "mask2")} == {
        "seed": "uint64",
        "mask": "uint32",
        "mask2": "uint32",
    }
    plain = pandas.read_csv(results, comment="#")
    assert plain["mask"].map(lambda text: int(text, 16)).tolist() == frame["mask"].tolist()
    for name in ("outcome", "elements", "class_changed"):
        assert plain[name].tolist() == frame[name].tolist()
    injected = np.concatenate(list(read_blocks(read_head(listed))))
    again = subject_of(read_head(listed)).run(injected)
    whole = table_frame(injected).join(to_frame(again).drop(columns="id"))
    assert whole.drop(columns=["max_abs", "max_rel"]).equals(frame.drop(columns=["max_abs", "max_rel"]))
    shares = summary.to_frame()
    assert shares.loc["one bit that is read", "sdc_share"] == 1.0
    assert shares["sdc"].sum() == (frame["outcome"] == "sdc").sum()
    table = parquet.read_table(tmp_path / "r.parquet")
    assert table.column("mask").to_pylist() == frame["mask"].tolist()
    assert table.num_rows == summary.total.faults
    assert table.schema.metadata[b"tcsim policy"] == b"hardware"
    assert table.column("outcome").to_pylist().count("sdc") == summary.total["sdc"]
    code, out, _ = tcsim("faults", "report", results)
    assert code == 0
    assert re.search(r"one bit that is read +2,048 +2,048 +0\.00% +100\.00%", out)
    assert re.search(r"another byte .*\(0\.00% to 0\.04%\)", out)
    assert json.loads(tcsim("faults", "report", results, "--format", "json")[1])["groups"][0]["sdc_share"] == 1.0
    assert "| one bit of other lanes | 2,048 |" in tcsim("faults", "report", results, "--format", "markdown")[1]
    assert tcsim("faults", "report", results, "--output", tmp_path / "r.html")[0] == 0
    page = (tmp_path / "r.html").read_text()
    assert page.count("<svg") == 1 + sum(len(counts.heat) > 1 for counts in summary.groups)
    assert not re.search(r"(src|href)=|https?://(?!www\.w3\.org/2000/svg)", page)
    shares = re.findall(r'data-lane="(\d+)" data-bit="(\d+)" data-faults="(\d+)" data-harmful="(\d+)"', page)
    assert sum(int(faults) for *_, faults, _ in shares[: 16 * 32]) == 2048
    results.write_text(results.read_text()[:-5000])
    assert tcsim("faults", "report", results)[0] == 2


def test_replay_in_words(tmp_path: Path, tcsim: Tcsim) -> None:
    listed = tmp_path / "list.csv"
    tcsim("faults", "list", "metadata", "--output", listed)
    code, out, _ = tcsim("faults", "replay", listed, "--id", 37)
    assert code == 0
    assert "T0 e: " in out
    assert re.search(r"code of row 0, chunk 2 \(A\[0\]\[8\] to A\[0\]\[11\]\): [01]{4} -> [01]{4}", out)
    assert "8 elements of D differ" in out
    assert len(re.findall(r"D\[0\]\[\d\] ", out)) == 8
    as_json = json.loads(tcsim("faults", "replay", listed, "--id", 37, "--format", "json")[1])
    assert as_json["outcome"]["outcome"] == "sdc"
    assert (
        int(as_json["changes"][0]["before"], 16) ^ int(as_json["changes"][0]["after"], 16) == as_json["fault"]["mask"]
    )
    assert "no bit that the instruction reads" in tcsim("faults", "replay", listed, "--id", 2050)[1]
    assert "detected (invalid-code)" in tcsim("faults", "replay", listed, "--id", 1, "--policy", "raise")[1]
    last = read_head(listed).rows - 1
    assert "selector" in tcsim("faults", "replay", listed, "--id", last)[1]
    code, _, err = tcsim("faults", "replay", listed, "--id", last + 1)
    assert (code, err.count("\n")) == (2, 1)
    assert f"0 to {last}" in err


# Other subjects


@exhaustive
def test_campaigns_on_traces(tmp_path: Path, tcsim: Tcsim) -> None:
    """A trace through the same files: two workers give the same bytes, classes of the digits are counted, one fault in
    words."""
    path = tmp_path / "c.toml"
    faults = [
        {"site": "registers", "kind": "flip", "at": "any", "count": 6},
        {"site": "registers", "kind": "stuck1", "at": "any", "clock": "cycle", "count": 3, "warps": [1, 5]},
        {"site": "shared", "kind": "flip", "count": 2},
        {"site": "registers", "kind": "flip", "at": [3, 400], "until": 410, "count": 3},
    ]
    bare = tmp_path / "bare.toml"  # without a config: the chip of the trace's own target, and no cycles
    bare.write_text(
        _toml({"subject": {"trace": "digits/f16"}, "faults": [{"site": "shared", "kind": "flip", "count": 3}]})
    )
    assert tcsim("faults", "list", bare, "--output", tmp_path / "bare.csv")[0] == 0
    assert tcsim("faults", "run", tmp_path / "bare.csv", "--output", tmp_path / "bare.r.csv")[0] == 0
    assert "trace digits/f16, seed 0" in tcsim("faults", "report", tmp_path / "bare.r.csv")[1]
    path.write_text(
        _toml({"campaign": {"seed": 4}, "subject": {"trace": "digits/f16", "config": "h100_sxm"}, "faults": faults})
    )
    listed, one, two = (tmp_path / f"{name}.csv" for name in ("list", "one", "two"))
    assert tcsim("faults", "list", path, "--output", listed) == (0, "", "")
    rows = np.concatenate(list(read_blocks(read_head(listed))))
    assert set(rows["case"][rows["group"] == 1].tolist()) <= {1, 5}
    assert (rows["at"][rows["group"] == 0] < 580).all()
    assert set(rows["at"][rows["group"] == 3].tolist()) <= {3, 400}
    assert (
        tcsim("faults", "run", listed, "--output", one)[0]
        == tcsim("faults", "run", listed, "--output", two, "--workers", 2)[0]
        == 0
    )
    assert one.read_bytes() == two.read_bytes()
    assert "class changed" in tcsim("faults", "report", one)[1]
    assert summarise(one).total["classified"] > 5
    text = tcsim("faults", "replay", listed, "--id", 2)[1]
    assert "before dynamic instruction" in text
    assert "outcome: " in text


@pytest.mark.exhaustive
def test_campaigns_on_tcgen05(tmp_path: Path, tcsim: Tcsim) -> None:
    listed, results = tmp_path / "list.csv", tmp_path / "r.csv"
    assert tcsim("faults", "list", "alignment", "--output", listed)[0] == 0
    assert tcsim("faults", "run", listed, "--output", results)[0] == 0
    groups = {counts.name: counts for counts in summarise(results).groups}
    for name in (
        "D in the other half",
        "A in the other half",
        "metadata in the other half",
        "metadata at any wrong lane",
    ):
        assert groups[name]["due"] == groups[name].faults == groups[name]["seen_alignment"]
    assert groups["metadata of the other selector, one bit"]["masked"] == 500
    assert groups["metadata that is read, one bit"]["sdc"] == 2048
    assert "misaligned-address" in tcsim("faults", "replay", listed, "--id", 3)[1]


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "campaigns").glob("*.toml")))
def test_campaigns_that_come_with_tcsim_are_in_the_docs(tcsim: Tcsim, name: str) -> None:
    code, out, _ = tcsim("faults", "list", name, "--count")
    assert code == 0
    assert " in all" in out
    assert f"../campaigns/{name}.toml" in (ROOT / "docs" / "faults.md").read_text()


def test_every_kind_of_fault_is_in_some_test() -> None:
    here = {str(how["kind"]) for how in GROUPS}
    assert here | set(ELEMENT_KINDS) | {"align"} == set(KINDS), "test_models.py has those of elements"
    assert set("abcde") < set(SITES)
    assert OUTCOMES[MASKED] == "masked"
    assert len(DETECTORS) <= 32, "they are bits of a word"


def test_the_table_of_forms(tcsim: Tcsim) -> None:
    from simulator.studies.faults.forms import as_csv, as_markdown, as_text, one_form

    form = isa.mma_form(MmaTarget(F16).form.opcode)
    row = one_form(form, "sm_90a", 2, 0, "hardware")
    assert (row.live, row.dead, row.dead_masked) == (512, 512, 512)
    assert row.sdc == 1.0
    assert form.opcode in as_text([row])
    assert as_markdown([row]).count("|") > 20
    assert as_csv([row]).startswith("form,target")
    assert tcsim("faults", "forms", "--target", "sm_75")[0] == 2


@pytest.mark.parametrize("step", [36, pytest.param(12, marks=pytest.mark.exhaustive)])
def test_the_table_of_every_form_in_the_docs(step: int) -> None:
    """A row for each sparse form; every twelfth is made again, by default every 36th."""
    from simulator.studies.faults.forms import as_markdown, one_form

    rows = re.findall(r"^\| `(mma\.sp\S+)` \| (\S+) \|.*$", (ROOT / "docs" / "faults.md").read_text(), re.MULTILINE)
    sparse = [form for form in isa.mma_forms().values() if form.sparse]
    assert [opcode for opcode, _ in rows] == [form.opcode for form in sparse]
    made = [
        one_form(form, target, 2, 0, "hardware") for form, (_, target) in list(zip(sparse, rows, strict=True))[::step]
    ]
    text = (ROOT / "docs" / "faults.md").read_text()
    assert all(line in text for line in as_markdown(made).splitlines())


# What other lanes hold


@pytest.mark.parametrize("opcode", [F16, TF32, "mma.sp.m16n8k16.f16.f16.f16.f16"])
def test_metadata_of_other_selectors_are_valid(opcode: str) -> None:
    """As in every kernel: so the codes that a wrong selector, or the word of another lane, brings are defined, too."""
    subject = MmaTarget(opcode, cases=8, seed=1)
    metadata = subject.form.metadata
    for selector in range(metadata.selectors):
        assert metadata.legal(metadata.gather(subject.golden["e"][:, 0], selector)).all()
    for how in ({"kind": "selector", "site": "selector"}, {"kind": "lane"}):
        results = subject.run(_every(subject, **how))
        corrupt = results["outcome"] == SDC
        assert corrupt.sum() >= 8
        assert not (results["detectors"][corrupt] & (flag("legality") | flag("ordered"))).any()
    random = MmaTarget(opcode, cases=8, seed=1, others="random")
    results = random.run(_every(random, kind="selector", site="selector"))
    assert (results["detectors"][results["outcome"] == SDC] & flag("legality") > 0).all(), "as older lists have them"
    for name in "abc":
        assert (random.golden[name] == subject.golden[name]).all()
    with pytest.raises(ConfigError, match="others 'some'"):
        MmaTarget(opcode, others="some")
