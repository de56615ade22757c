"""Faults in the metadata of `mma.sp`: the injector against what an H100 did, bit for bit; `tests/golden/README.md` says
how it was recorded."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from isa.forms.mma import mma_forms
from isa.fragments.metadata import ONE_OF_TWO
from isa.targets import parse_target
from simulator.arithmetic.convert import to_float64
from simulator.faults import outcomes, table
from tests.golden import compare_faults
from tests.golden.compare_faults import Recording
from tests.support.cases import over

RECORDINGS, FACTS = compare_faults.load()
OPCODES = sorted({recording.opcode for recording in RECORDINGS})
MODELS = {
    "flip",
    "stuck0",
    "stuck1",
    "set",
    "word",
    "lane",
    "swap",
    "selector",
}  # of `table.MODELS`, those that metadata and selector can have


def of_form(opcode: str) -> list[Recording]:
    return [recording for recording in RECORDINGS if recording.opcode == opcode]


@over("opcode", OPCODES)
def test_every_recorded_fault(opcode: str) -> None:
    for recording in of_form(opcode):
        assert recording.clean is not None
        assert recording.outputs is not None
        assert np.array_equal(recording.instruction.golden["d"], recording.clean), (
            f"selector {recording.selector}, without a fault"
        )
        wrong = np.flatnonzero((recording.simulate() != recording.outputs).any(axis=(1, 2)))
        assert not len(wrong), (
            f"selector {recording.selector}: {len(wrong)} faults, first {table.as_dict(recording.faults[wrong[0]])}"
        )


@over("opcode", OPCODES, distinct=lambda opcode: re.sub("[su]4", "4", re.sub("[su]8", "8", opcode)))
def test_every_single_flip_and_every_code_in_every_chunk(opcode: str) -> None:
    for recording in of_form(opcode):
        bits, codes = (compare_faults.every(recording.instruction, group) for group in compare_faults.EVERY)
        rows, chunks = recording.form.metadata.shape
        assert [len(bits), len(codes)] == [32 * 32, 16 * rows * chunks]
        found = [
            [len(faults), compare_faults.digest(compare_faults.simulate(recording.instruction, faults))]
            for faults in (bits, codes)
        ]
        assert found == FACTS["digests"][f"{opcode}|{recording.selector}"], f"selector {recording.selector}"


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # checksums of infinities
@pytest.mark.parametrize("step", [21, pytest.param(7, marks=pytest.mark.exhaustive)])
def test_outcomes_are_those_of_the_h100(step: int) -> None:
    """What a campaign says of a fault: masked where the H100's D is the same, silent data corruption where it
    differs."""
    for recording in RECORDINGS[::step]:
        assert recording.clean is not None
        assert recording.outputs is not None
        changed = (recording.outputs != recording.clean[recording.faults["case"]]).any(axis=(1, 2))
        results = recording.instruction.run(recording.faults)
        assert np.array_equal(results["outcome"] == outcomes.SDC, changed)
        assert np.array_equal(results["outcome"] == outcomes.MASKED, ~changed)


def test_faults_cover_every_form_selector_model_and_group() -> None:
    sm_90 = parse_target("sm_90a")
    forms = [form for form in mma_forms().values() if form.sparse and form.supports(sm_90)]
    assert len(forms) == 88
    assert {(r.opcode, r.selector) for r in RECORDINGS} == {
        (f.opcode, s) for f in forms for s in range(f.metadata.selectors)
    }
    assert sum(len(r.faults) for r in RECORDINGS) >= 20_000
    for recording in RECORDINGS:
        several = recording.form.metadata.selectors > 1
        models = {table.MODELS[model] for model in recording.faults["model"]}
        assert models == (MODELS if several else MODELS - {"selector"}), recording.opcode
        groups = {FACTS["groups"][group] for group in recording.faults["group"]}
        assert groups == {group for group in FACTS["groups"] if several or not ("dead" in group or group == "selector")}
        assert set(recording.faults["case"].tolist()) == set(range(len(FACTS["cases"])))
        values = recording.faults[recording.faults["model"] == table.MODELS.index("set")]
        written = {int(v) >> (int(m).bit_length() - 4) for v, m in zip(values["value"], values["mask"], strict=True)}
        assert written >= set(range(16)) - set(recording.form.metadata.codes)
        assert written >= {code for code in range(16) if code & 3 > code >> 2}


def test_faults_are_live_and_dead_defined_and_undefined() -> None:
    for recording in RECORDINGS:
        count, undefined, read = len(recording.faults), recording.undefined(), recording.read()
        least = 0.1 if not recording.form.ordered and recording.form.metadata.sparsity is not ONE_OF_TWO else 0.4
        assert least * count < undefined.sum() < 0.9 * count, recording.opcode
        assert read.sum() > 0.6 * count
        if recording.form.metadata.selectors > 1:
            assert (~read).sum() >= 10
        assert recording.clean is not None
        assert recording.outputs is not None
        changed = (recording.outputs != recording.clean[recording.faults["case"]]).any(axis=(1, 2))
        assert not changed[~read].any()
        assert changed.sum() > 0.5 * count


def test_faults_choose_special_elements_and_leave_them_out() -> None:
    for recording in (r for r in RECORDINGS if r.form.d_type.is_float):
        form = recording.form
        assert recording.clean is not None
        assert recording.outputs is not None
        now = np.isfinite(to_float64(form.d.gather(recording.outputs), form.d_type))
        was = np.isfinite(to_float64(form.d.gather(recording.clean[recording.faults["case"]]), form.d_type))
        assert (now & ~was).any(), recording.opcode
        assert (was & ~now).any(), recording.opcode


@pytest.mark.parametrize("policy", ["zero", "saturate"])
def test_other_policies_are_not_the_h100s(policy: str) -> None:
    """They differ from the H100 where a code is undefined, and nowhere else."""
    for recording in RECORDINGS[::11]:
        wrong = (compare_faults.simulate(recording.under(policy), recording.faults) != recording.outputs).any(
            axis=(1, 2)
        )
        undefined = recording.undefined()
        assert not wrong[~undefined].any(), recording.opcode
        assert wrong[undefined].mean() > 0.3, recording.opcode


def test_selectors_out_of_range_stop_the_kernel() -> None:
    stops = {(stop["opcode"], stop["selector"]) for stop in FACTS["out_of_range"]}
    forms = [form for form in mma_forms().values() if form.sparse and form.lax_selectors]
    assert stops == {(form.opcode, selector) for form in forms for selector in (2, 3)}
    assert {stop["error"] for stop in FACTS["out_of_range"]} == {"cudaErrorIllegalInstruction"}
    for opcode, selector in stops:
        fault = table.empty(1)
        fault["model"], fault["site"], fault["mask"], fault["value"] = (
            table.MODELS.index("selector"),
            table.SITES.index("selector"),
            3,
            selector,
        )
        (result,) = of_form(opcode)[0].instruction.run(fault)
        assert outcomes.OUTCOMES[result["outcome"]] == "due"
        assert outcomes.REASONS[result["reason"]] == "illegal-instruction"


def test_one_flipped_bit_is_found() -> None:
    recording = RECORDINGS[-1]
    assert recording.clean is not None
    assert recording.outputs is not None
    outputs, clean = recording.outputs.copy(), recording.clean.copy()
    outputs[-1, -1, -1] ^= np.uint32(1 << 7)
    clean[0, 0, 0] ^= np.uint32(1)
    assert recording.differing_bits() == 0
    assert replace(recording, outputs=outputs).differing_bits() == 1
    assert replace(recording, clean=clean).differing_bits() == 1


def test_table_says_what_differs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    some = of_form(OPCODES[0])
    monkeypatch.setattr(compare_faults, "load", lambda: (some, FACTS))
    assert compare_faults.main([]) == 0
    last = capsys.readouterr().out.splitlines()[-1].replace(",", "").split()
    assert last[:4] == ["all", "1", "forms", str(sum(len(r.faults) for r in some))]
    assert last[-1] == "0"
    assert some[0].outputs is not None
    wrong = some[0].outputs.copy()
    wrong[0, 0, 0] ^= np.uint32(0x30)
    monkeypatch.setattr(compare_faults, "load", lambda: ([replace(some[0], outputs=wrong)], FACTS))
    assert compare_faults.main(["--every"]) == 1
    assert capsys.readouterr().out.replace(",", "").split()[-3] == "2"
    assert compare_faults.main(["--nothing"]) == 2
    assert "usage" in capsys.readouterr().err


def test_files_are_small_and_written_as_they_are_read() -> None:
    files = [compare_faults.HERE / f"faults_h100{suffix}" for suffix in (".npz", ".json")]
    assert sum(file.stat().st_size for file in files) <= 2 << 20
    arrays = compare_faults.packed(RECORDINGS)
    with np.load(files[0]) as data:
        assert set(data.files) == set(arrays)
        assert all(np.array_equal(data[name], arrays[name]) for name in arrays)
