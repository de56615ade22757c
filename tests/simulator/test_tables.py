"""Tables: one writer for text, CSV, JSON and Markdown, and DataFrames of every result with units in their names."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import isa
import simulator
from simulator.compiler.timed_code import StallReason
from simulator.layout import form_layout
from simulator.layout.tables import to_frame
from simulator.simulation.report import REASONS
from simulator.studies.validation import report as validation_report
from simulator.tables import FORMATS, Table, aligned, read_rows, render

SEQUENCE = """\
.trace 1
.target sm_90a
.warps 1
.warp 0 {
  mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32
    {%r0, %r1, %r2, %r3}, {%r4, %r5, %r6, %r7}, {%r8, %r9}, {%r0, %r1, %r2, %r3};
}
"""

cells = st.one_of(st.integers(), st.none(), st.text(st.characters(codec="ascii", categories=("L", "N", "P"))))


@given(st.lists(st.tuples(cells, cells), min_size=1))
def test_one_table_in_every_format(rows: list[tuple[object, object]]) -> None:
    """CSV and JSON give the values back, and text has a line for each row."""
    table = Table(("a", "b_us"), rows)
    read = list(csv.reader(io.StringIO(table.csv())))
    assert read == [["a", "b_us"], *[["" if cell is None else str(cell) for cell in row] for row in rows]]
    assert json.loads(table.json()) == [dict(zip(("a", "b_us"), row, strict=True)) for row in rows]
    assert len(table.text().splitlines()) == len(table.markdown().splitlines()) - 1 == len(rows) + 1
    assert list(table.frame().columns) == ["a", "b_us"]


def test_a_frame_is_rendered_as_its_table() -> None:
    table = Table(("unit", "share"), [("tensor", 0.5), ("alu", 0.25)])
    for format in FORMATS:
        assert render(table.frame(), format) == render(table, format)


def test_alignment() -> None:
    assert aligned([("a", 1), ("bcd", 100)], "<>", widths=(0, 5), indent="  ") == ["  a        1", "  bcd    100"]
    assert aligned([("x",), ("y", "z")]) == ["x", "y  z"]
    assert aligned([]) == []


def test_stored_rows(tmp_path: Path) -> None:
    """Lines of comment are left out, wherever they stand; .gz is unpacked."""
    text = "# measured\na,b\n1,2\n# more\n3,\n"
    (tmp_path / "x.csv").write_text(text)
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(text.encode()))
    for name in ("x.csv", "x.csv.gz"):
        assert read_rows(tmp_path / name) == [{"a": "1", "b": "2"}, {"a": "3", "b": ""}]


# DataFrames


def test_reports_make_a_study() -> None:
    """A report is one row; rows of several chips are one frame."""
    reports = [simulator.run("digits/f16", config, arithmetic="none") for config in ("h100_sxm", "a100")]
    frame = pd.concat([report.to_frame() for report in reports], ignore_index=True)
    assert frame.cycles.tolist() == [report.cycles for report in reports]
    assert frame.config.tolist() == ["h100_sxm", "a100"]
    shares = frame.filter(regex="^stall_").sum(axis=1)
    assert shares.tolist() == pytest.approx([1, 1])
    for report in reports:
        assert report.instructions_frame()["count"].sum() == sum(report.instructions.values())
        stalls = report.stalls_frame()
        assert (stalls.groupby("warp").cycles.sum() == report.cycles).all()
        assert set(stalls.cause) == set(REASONS)
        assert report.units_frame().share.between(0, 1).all()


def test_every_reason_is_shown_and_rows_sum_to_the_total() -> None:
    """`tcsim run` shows each cause that took a cycle, also those of sequences, and a row sums to the cycles."""
    report = simulator.run(SEQUENCE, "h100_sxm", arithmetic="none")
    assert sum(report.waits[0].values()) == report.cycles
    lines = report.table().splitlines()
    at = lines.index("Where the warps' cycles went")
    causes, row = lines[at + 1].split(), lines[at + 2].split()
    shown = dict(zip(causes[1:], (int(cell.replace(",", "")) for cell in row[1:]), strict=True))
    assert "sequence" in shown
    assert sum(shown.values()) == report.cycles
    assert [reason.description for reason in StallReason if not reason.description] == []
    assert tuple(REASONS) == tuple(reason.name.lower() for reason in StallReason)


def test_other_results_as_frames() -> None:
    timeline = simulator.Timeline(0, 0)
    report = simulator.run("digits/f16", arithmetic="none", timeline=timeline)
    stalls = timeline.stalls
    for view in ("line", "warp", "sub-core", "sm"):
        frame = stalls.to_frame(view)
        assert frame.cycles.sum() == frame.filter(regex="_cycles$").to_numpy().sum() == stalls.total
    roof = simulator.roofline.roofline([report]).to_frame()
    assert (roof.achieved_fma_per_clk <= roof.limit_fma_per_clk).all()
    accuracy = simulator.accuracy.accuracy("f16", 64, targets="sm_90", count=50)
    assert accuracy.to_frame().name.tolist() == [line.name for line in accuracy.lines]
    tile = simulator.gemm.parse_tile("128x128x64", "f16")
    estimate = simulator.gemm.estimate(tile, 1024, 1024, 256)
    assert estimate.to_frame().cycles.item() == estimate.cycles
    elements = to_frame(form_layout("mma.sp.m16n8k32.f32.f16.f16.f32").operands)
    assert elements.groupby("operand").size().to_dict() == {"d": 128, "a": 256, "b": 256, "c": 128, "e": 128}
    forms = simulator.forms(sparse=True, target="sm_90a")
    assert set(forms.metadata) <= {"2:4", "1:2", "4:8 in pairs"}


def test_validation_as_frames() -> None:
    results = list(simulator.validation.validate("rtx4090", ["peak"], short=True))
    frame, summary = validation_report.to_frame(results), validation_report.summary_frame(results)
    assert len(frame) == sum(len(result.rows) for result in results)
    assert frame.error.abs().max() == pytest.approx(summary.worst.max())


# Names


@pytest.mark.parametrize("package", [isa, simulator], ids=lambda package: package.__name__)
def test_everything_that_dir_shows_is_there(package: object) -> None:
    names = dir(package)
    assert names == sorted(names)
    assert all(getattr(package, name) is not None for name in names)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = package.nothing  # type: ignore[attr-defined]


def test_the_old_name_warns() -> None:
    with pytest.deprecated_call():
        assert simulator.exact_matmul is simulator.exact_gemm


def test_pandas_is_loaded_for_frames_alone() -> None:
    code = (
        "import isa, simulator; dir(simulator)",
        "from simulator.cli.main import main; main(['decode', 'mov.u32 %r0, %r1;'])",
        "main('where mma.m16n8k8.f32.f16.f16.f32 --operand a --row 1'.split())",
        "simulator.run('digits/f16', arithmetic='none').table()",
    )
    check = "\nimport sys\nassert 'pandas' not in sys.modules and 'matplotlib' not in sys.modules\n"
    subprocess.run([sys.executable, "-c", check.join((*code, ""))], check=True, env=os.environ, capture_output=True)
