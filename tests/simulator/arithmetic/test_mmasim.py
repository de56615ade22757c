"""Dense arithmetic against MMA-Sim 2.1.1, instruction by instruction, and against published results of GPUs.

`tests/golden/mmasim.npz` holds what MMA-Sim computed (`make_mmasim.py`), chosen so that wrong parameters show; the last
tests make sure of that.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from isa.errors import IsaError
from isa.forms.mma import mma_forms
from isa.targets import Target, parse_target
from simulator.arithmetic import kernel_name
from simulator.arithmetic.compiled import library
from simulator.arithmetic.rows import SUM_ROWS, SumRow, SumRule, find_row
from tests.benchmarks import mmasim as benchmark
from tests.golden import compare_external, compare_mmasim
from tests.golden.mmasim_cases import Instruction
from tests.golden.probes import PROBES, Probe, probes, record
from tests.support.cases import over

RECORDED = dict(compare_mmasim.recorded())
INSTRUCTIONS = list(RECORDED)
COLUMNS = 8  # the compiled kernel takes results in rows of so many
KERNELS = ("numpy", "compiled")


@pytest.fixture(params=KERNELS)
def columns(request: pytest.FixtureRequest) -> Iterator[int]:
    """How many columns of results to ask for, so that the kernel named in the test does it."""
    if request.param == "compiled":
        if kernel_name() != "compiled":
            pytest.skip("the compiled kernel is not built")
        yield COLUMNS
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TCSIM_KERNEL", "numpy")
        library.cache_clear()
        assert kernel_name() == "numpy"
        yield 1
    library.cache_clear()


@cache
def mutations() -> dict[str, dict[str, int]]:
    """By instruction: how many of its recorded dot products MMA-Sim itself gets wrong with one parameter changed."""
    with np.load(compare_mmasim.RECORDED) as data:
        found: dict[str, dict[str, int]] = json.loads(data[compare_mmasim.MUTATIONS].tobytes())
    return found


def row_of(instruction: Instruction, target: Target) -> SumRow:
    kind = "" if not instruction.block else "mxf4" if instruction.packed else instruction.kind
    shape = instruction.shape if instruction.family == "mma" else ""
    return find_row(instruction.family, target, instruction.a_type, kind=kind, shape=shape)


@over("instruction", INSTRUCTIONS, ids=str)
def test_every_recorded_result(instruction: Instruction, columns: int) -> None:
    cases = compare_mmasim.repeated(instruction, RECORDED[instruction], columns)
    for target in instruction.targets:
        wrong = np.flatnonzero(compare_mmasim.differing(instruction, cases, target).any(axis=(1, 2)))
        assert not len(wrong), f"{target}: {len(wrong)} of {len(cases)} differ, first {cases[wrong[0]]}"


def test_every_instruction_of_mmasim_is_there() -> None:
    counts = {family: sum(i.family == family for i in INSTRUCTIONS) for family in ("mma", "wgmma", "tcgen05")}
    assert counts == {"mma": 138 + 29, "wgmma": 12, "tcgen05": 54 + 29}
    assert all(len(cases) > 60 for cases in RECORDED.values())


def test_every_row_that_rests_on_mmasim_is_compared() -> None:
    compared = set()
    for instruction in INSTRUCTIONS:
        for name in instruction.targets:
            target = parse_target(name)
            compared.add((row_of(instruction, target), target.number, instruction.a_type.name))
    resting = [row for row in SUM_ROWS if "MMA-Sim" in row.source and not row.sparse]
    wanted = {(row, number, name) for row in resting for number in row.targets for name in row.inputs.split()}
    assert resting
    assert wanted <= compared


# Known sums


FOR_PROBES = [
    (instruction, probe) for instruction in INSTRUCTIONS for probe in PROBES if probe.expected(instruction) is not None
]


@over(("instruction", "probe"), FOR_PROBES, ids=[f"{i}|{p.shows}" for i, p in FOR_PROBES])
def test_probes(instruction: Instruction, probe: Probe, columns: int) -> None:
    case = record(probe, instruction)
    for target in instruction.targets:
        found = compare_mmasim.simulate(instruction, compare_mmasim.repeated(instruction, case, columns), target)
        assert set(found.ravel().tolist()) == {probe.expected(instruction)}, f"{target}: {int(found[0, 0, 0]):#010x}"


def test_probes_are_for_every_generation() -> None:
    assert {p.shows for _, p in FOR_PROBES} == {p.shows for p in PROBES}
    assert {(i.family, i.architecture) for i, _ in FOR_PROBES} == {
        (i.family, i.architecture) for i in INSTRUCTIONS if i.architecture != "Volta"
    }


@over("instruction", [i for i in INSTRUCTIONS if len(probes(i))], ids=str)
def test_mmasim_gave_what_the_probes_expect(instruction: Instruction) -> None:
    expected = [probe.expected(instruction) for probe in PROBES if probe.expected(instruction) is not None]
    assert RECORDED[instruction]["d"][: len(expected), 0, 0].tolist() == expected


# The recorded results tell right parameters from wrong ones


def mutant(rule: SumRule, change: str, instruction: Instruction) -> SumRule | None:
    """The rule with the parameter changed as MMA-Sim's was; None if it is no parameter of ours."""
    name, _, value = change.partition(" ")
    length = min(rule.step_bytes * 8 // instruction.a_type.bits, instruction.mnk[2]) * instruction.a_type.bits // 8
    if name in ("fraction", "lowest"):
        return replace(rule, **{name: getattr(rule, name) + int(value)})
    if name == "step":
        return replace(rule, step_bytes={"halved": length // 2, "doubled": length * 2}[value])
    if name == "group":
        return replace(rule, group=int(value))
    return replace(rule, kept=23) if name == "rounding" and rule.kept == 13 and instruction.d_type.bits == 32 else None


@over("instruction", [i for i in INSTRUCTIONS if i.a_type.bits < 64], ids=str)
def test_a_wrong_parameter_shows_as_often_as_in_mmasim(instruction: Instruction, columns: int) -> None:
    cases = compare_mmasim.repeated(instruction, RECORDED[instruction][len(probes(instruction)) :], columns)
    told = mutations()[str(instruction)]
    assert "step halved" in told or "fraction -1" in told
    for change, count in told.items():
        with pytest.MonkeyPatch.context() as patch:
            if mutated(patch, change, instruction):
                different = compare_mmasim.differing(instruction, cases, instruction.targets[0])
                assert different.any(axis=(1, 2)).sum() == count, change


def mutated(patch: pytest.MonkeyPatch, change: str, instruction: Instruction) -> bool:
    """Have `product` use a mutant of the instruction's rule; False if there is none."""
    row = row_of(instruction, parse_target(instruction.targets[0]))
    wrong = mutant(row.rule, change, instruction)
    if wrong is not None:
        patch.setattr(
            import_module("simulator.arithmetic.product"), "find_row", lambda *_, **__: replace(row, rule=wrong)
        )
    return wrong is not None


def test_every_rule_is_told_from_its_neighbours() -> None:
    """Width, step and rounding of every rule, its floor and groups too, in at least one instruction that follows it."""
    told: dict[str, set[str]] = {}
    for instruction in INSTRUCTIONS:
        rule = row_of(instruction, parse_target(instruction.targets[0])).rule
        if not rule.chained:
            told.setdefault(rule.name, set()).update(mutations()[str(instruction)])
    everything = {"fraction -1", "fraction +1", "lowest -1", "lowest +1", "rounding"}
    for name, changes in told.items():
        # FP8 never comes near the floor with 13 bits: neither the exponents of its products nor, with f16 results, 13
        # bits below the floor.
        wanted = everything - {"lowest -1", "lowest +1"} if name in ("FP8 on Ada", "FP8 wgmma") else everything
        wanted = wanted | ({"group 8", "group 32"} if "packed" in name else {"step halved"})
        assert wanted <= changes, name


def test_f64_is_fused_and_ascending() -> None:
    for instruction in (i for i in INSTRUCTIONS if i.a_type.bits == 64):
        cases = RECORDED[instruction][len(probes(instruction)) :].copy()
        cases["a"], cases["b"] = cases["a"][:, :, ::-1].copy(), cases["b"][:, ::-1].copy()
        descending = compare_mmasim.differing(instruction, cases, instruction.targets[0])
        assert descending.sum() == mutations()[str(instruction)]["descending"]


# The programs


def test_comparison_prints_a_table_and_fails_on_a_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compare_mmasim.main(["--only", "wgmma|"]) == 0
    assert "all 12 instructions" in capsys.readouterr().out
    instruction = INSTRUCTIONS[0]
    cases = RECORDED[instruction].copy()
    cases["d"][7] ^= 1
    np.savez(tmp_path / "wrong.npz", **{str(instruction): cases})
    monkeypatch.setattr(compare_mmasim, "RECORDED", tmp_path / "wrong.npz")
    assert compare_mmasim.main([]) == 1
    assert capsys.readouterr().out.split()[-1] == "1"
    assert compare_mmasim.main(["--only", "nothing"]) == 2
    assert compare_mmasim.main(["--mmasim", str(tmp_path / "no python")]) == 2


@over("row", benchmark.ROWS, ids=str)
def test_the_benchmark_compares_equal_work(row: benchmark.Row, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "CASES", 2)
    form = mma_forms()[row.opcode]
    d = benchmark.ours(form, row.target)()
    assert d.shape == (2, form.d.registers, 32)
    assert len(np.unique(d)) > 100
    if row.architecture == "numpy":
        assert all(call().shape == (2, form.m, form.n) for call in benchmark.numpy_calls(form))
        return
    other = Instruction("mma", row.architecture, row.spec)
    assert other in RECORDED
    assert any(parse_target(name).number == parse_target(row.target).number for name in other.targets)
    assert (form.m, form.n, form.k_stored) == other.mnk
    assert (form.d_type, form.a_type, form.b_type, form.c_type) == (
        other.d_type,
        other.a_type,
        other.b_type,
        other.c_type,
    )


def test_the_benchmark_prints_a_line_each(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(benchmark, "CASES", 2)
    monkeypatch.setattr(benchmark, "ROUNDS", 1)
    monkeypatch.setenv("TCSIM_THREADS", "1")
    assert benchmark.main(["--only", "s8", "--seconds", "0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"kernel: {kernel_name()}")
    assert [line.split()[1] for line in lines[2:]] == ["mma.m16n8k32.s32.s8.s8.s32", "mma.sp.m16n8k64.s32.s8.s8.s32"]
    assert benchmark.main(["--mmasim", "no such python"]) == 2


def external(tmp_path: Path, d: float, kind: str = "fp16", gpu: str = "V100") -> Path:
    """One dot product in the form of the published vectors: 1 * 1 + 2^-11 * 2^-11 + C, cut to 23 bits where C is 1."""
    arrays = {"a": [[1.0, 2.0**-6, 0.0, 0.0]], "b": [[1.0, 2.0**-6, 0.0, 0.0]], "c": [1.0], "d_fp32": [d]}
    path = tmp_path / "dense_vectors.npz"
    np.savez(
        path,
        **{f"{gpu}|{kind}|{name}": np.array(values, np.float32).view(np.uint32) for name, values in arrays.items()},
    )
    return path


def test_external_vectors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare_external.main([str(external(tmp_path, 2 + 2.0**-12))]) == 0
    assert compare_external.main([str(tmp_path)]) == 0
    assert "V100   sm_70" in capsys.readouterr().out
    assert compare_external.main([str(external(tmp_path, 2.0))]) == 1
    assert capsys.readouterr().out.split()[-1] == "1"
    assert compare_external.main([str(external(tmp_path, 1 + 2.0**-12, "E5M2", "H100"))]) == 0  # wgmma, without C
    assert "wgmma" in capsys.readouterr().out
    assert compare_external.main([str(external(tmp_path, 2.0, "fp16", "K40"))]) == 2
    assert compare_external.main([str(tmp_path / "nowhere")]) == 2
    assert compare_external.main([]) == 2
    with pytest.raises(ValueError, match="not representable"):
        compare_external.patterns(
            np.array([0x3F800001], np.uint32), Instruction("mma", "Ada Lovelace", "m16n8k32.f32.e4m3.e4m3.f32").a_type
        )


def test_errors_of_instructions_without_arithmetic() -> None:
    instruction = Instruction("mma", "Volta", "m16n8k16.f32.f16.f16.f32")
    with pytest.raises(IsaError, match="no arithmetic is known"):
        compare_mmasim.simulate(instruction, np.zeros(1, instruction.record(16, 8)), "sm_70")
