"""The simulator against what an H100 did, bit for bit; `tests/golden/README.md` says how it was recorded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from isa.forms.mma import mma_forms
from isa.targets import parse_target
from isa.undefined import metadata_findings
from tests.golden import compare
from tests.support.cases import over
from tests.support.paths import TESTS

GOLDEN = TESTS / "golden"
RECORDINGS = [recording for name in compare.H100_FILES for recording in compare.recordings(GOLDEN / name)]
OPCODES = sorted({recording.form.opcode for recording in RECORDINGS})


@over("opcode", OPCODES)
def test_every_recorded_bit(opcode: str) -> None:
    for recording in (r for r in RECORDINGS if r.form.opcode == opcode):
        wrong = np.argwhere(recording.simulate() != recording.outputs)
        which = f"selector {recording.selector}, {recording.metadata} metadata"
        assert not len(wrong), f"{which}: {len(wrong)} words differ, first [case, register, lane] {wrong[0]}"


def test_recordings_cover_every_sparse_form_and_selector_with_defined_and_undefined_metadata() -> None:
    recorded = {(r.form.opcode, r.selector, r.metadata) for r in RECORDINGS if r.form.sparse}
    sm_90 = parse_target("sm_90a")
    forms = [f for f in mma_forms().values() if f.sparse and f.supports(sm_90)]
    assert recorded == {
        (f.opcode, s, m) for f in forms for s in range(f.metadata.selectors) for m in ("valid", "random")
    }
    for recording in (r for r in RECORDINGS if r.form.sparse):
        codes = recording.form.metadata.gather(recording.inputs[:, -1], recording.selector)
        undefined = np.logical_or.reduce(list(metadata_findings(recording.form, codes).values()))
        descending = (
            recording.form.a_type.bits == 8 and recording.form.a_type.is_float and not recording.form.ordered
        )  # "valid" here means lo != hi
        assert undefined.any() == (recording.metadata == "random" or descending), recording.form.opcode


def test_recordings_cover_dense_forms_of_every_input_type_of_the_tensor_cores() -> None:
    dense = {r.form.a_type.name for r in RECORDINGS if not r.form.sparse}
    assert dense == {"f16", "bf16", "tf32", "s8", "u8", "e4m3", "e5m2"}


def test_one_flipped_bit_is_found() -> None:
    recording = RECORDINGS[0]
    outputs = recording.outputs.copy()
    outputs[-1, -1, -1] ^= np.uint32(1 << 7)
    assert recording.differing_bits() == 0
    assert replace(recording, outputs=outputs).differing_bits() == 1


def test_comparison_prints_a_table_and_fails_on_a_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "mma_dense.npz"
    with np.load(GOLDEN / name) as data:
        arrays = {key: data[key] for key in data.files if "m16n8k8.row.col.f16" in key}
    np.savez(tmp_path / name, **arrays)
    assert compare.main([str(tmp_path)]) == 0
    assert "all 1 forms" in capsys.readouterr().out
    arrays["mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16|out"][3, 1, 5] ^= np.uint32(0x10001)
    np.savez(tmp_path / name, **arrays)
    assert compare.main([str(tmp_path)]) == 1
    assert capsys.readouterr().out.endswith("words: 2 bits differ\n")
    assert compare.main([str(tmp_path / "nowhere")]) == 2
    assert compare.main([]) == 2
