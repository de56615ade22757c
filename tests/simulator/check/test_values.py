"""Values that nothing has written are followed to what they reach; accesses that go astray are named, all of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simulator.check.launch_finding import LaunchFinding
from simulator.check.launches import check_launch
from simulator.program.capture import BufferSpec, read_capture
from tests.simulator.check.test_verdicts import captured

SHARED = "mov.u32 %r5, s;\n"


def findings(folder: Path, body: str, ctas: int = 1, threads: int = 32) -> list[LaunchFinding]:
    """The serious findings of a kernel."""
    found = check_launch(captured(folder, body, {}, ctas, threads)).findings
    return [each for each in found if each.serious]


def named(folder: Path, body: str, **options: int) -> list[tuple[str, str]]:
    """Rule and instruction of each serious finding."""
    return [(each.rule, each.instruction.split()[0].rstrip(";")) for each in findings(folder, body, **options)]


STORE = "st.global.u32 [%rd1], %r7;"
THROUGH = f"""{SHARED}mad.lo.u32 %r5, %r1, 4, %r5;
ld.shared.u32 %r6, [%r5+1024];
st.shared.u32 [%r5], %r6;
ld.shared.u32 %r7, [%r5];
"""
LEFT = "setp.lt.u32 %p1, %r1, 16;\n@%p1 mov.u32 %r6, 1;\n"  # %r6 of the upper half of the warp is undefined


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (f"{LEFT}mov.u32 %r7, %r6;\n{STORE}", [("read-before-write", "mov.u32")]),
        (f"{LEFT}selp.u32 %r7, %r6, 0, %p1;\n{STORE}", []),
        (f"{LEFT}shfl.sync.idx.b32 %r7, %r6, 3, 31, -1;\n{STORE}", []),
        (f"{LEFT}shfl.sync.idx.b32 %r7, %r6, 20, 31, -1;\n{STORE}", [("read-before-write", "shfl.sync.idx.b32")]),
        (f"{LEFT}mov.u32 %r7, %r6;\n@%p1 {STORE}", []),
        (f"{LEFT}setp.eq.u32 %p2, %r6, 1;\n@%p2 bra E;\nE:", [("read-before-write", "setp.eq.u32")]),
        (f"{SHARED}ld.shared.u32 %r6, [%r5];\nadd.u32 %r7, %r6, 1;\n{STORE}", [("read-before-write", "ld.shared.u32")]),
        (f"{SHARED}ld.shared.u32 %r6, [%r5];\nadd.u32 %r7, %r6, 1;", []),
        (f"{THROUGH}{STORE}", [("read-before-write", "ld.shared.u32")]),
    ],
    ids=[
        "a move", "a choice", "a lane that has it", "a lane that has not", "nobody stores it", "a branch",
        "shared memory", "nobody sees it", "through shared memory",
    ],
)  # fmt: skip
def test_undefined_values_count_where_they_are_seen(tmp_path: Path, body: str, expected: list[tuple[str, str]]) -> None:
    assert named(tmp_path, body) == expected


PRODUCT = """\
mov.u32 %r5, s;
shl.b32 %r6, %r1, 4;
add.u32 %r5, %r5, %r6;
setp.lt.u32 %p1, %r1, {lanes};
@%p1 st.shared.v4.u32 [%r5], {{%r1, %r1, %r1, %r1}};
bar.warp.sync -1;
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r8, %r9, %r10, %r11}}, [%r5];
mov.u32 %r12, 0;
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {{%f0, %f1, %f2, %f3}}, {{%r8, %r9, %r10, %r11}},
  {{%r12, %r12}}, {{%f4, %f4, %f4, %f4}};
st.global.f32 [%rd1], %f{element};"""


@pytest.mark.parametrize(("element", "guilty"), [(0, False), (2, True)])
def test_marks_go_through_ldmatrix_and_mma_row_by_row(tmp_path: Path, element: int, guilty: bool) -> None:
    """Matrices 0 and 2 (rows 0 to 7) are written, 1 and 3 are not; elements 2 and 3 of D are of rows 8 to 15."""
    text = PRODUCT.format(lanes=32, element=element).replace(
        "setp.lt.u32 %p1, %r1, 32", "and.b32 %r7, %r1, 8;\nsetp.eq.u32 %p1, %r7, 0"
    )
    text = f".reg .f32 %f<5>;\nmov.f32 %f4, 0f00000000;\n{text}"
    found = named(tmp_path, text)
    assert found == ([("read-before-write", "ldmatrix.sync.aligned.m8n8.x4.shared.b16")] if guilty else [])


def test_a_buffer_that_holds_nothing(tmp_path: Path) -> None:
    """A kernel adds to what cudaMalloc gave it; with zeros there it is right."""
    body = "ld.global.u32 %r6, [%rd1];\nadd.u32 %r7, %r6, 1;\nst.global.u32 [%rd1], %r7;"
    path = captured(tmp_path, body, {}, 1)
    capture = read_capture(path)
    assert not [each for each in check_launch(capture).findings if each.serious]
    buffers = {"D": replace(capture.buffers["D"], zero=False), "x": BufferSpec("x", 4, "uint32", (1,))}
    before = {"x": np.ones(1, np.uint32)}
    found = check_launch(replace(capture, buffers=buffers, before=before)).findings
    assert [(each.rule, each.serious) for each in found] == [("read-before-write", True)]
    assert "bytes 0 to 3 of buffer 'D', which nothing has written; it reaches global memory" in found[0].what


def test_all_accesses_that_go_astray_are_named(tmp_path: Path) -> None:
    body = "ld.global.u32 %r6, [%rd1+4];\nst.global.u32 [%rd1+128], %r4;\nld.global.u32 %r7, [%rd1+1];\n"
    found = findings(tmp_path, f"{SHARED}{body}st.shared.u32 [%r5+4096], %r4;")
    assert [(each.rule, each.count) for each in found] == [
        ("out-of-bounds", 1), ("out-of-bounds", 32), ("misaligned-address", 32), ("shared-memory-bounds", 32),
    ]  # fmt: skip
    assert "lane 31" in found[0].thread
    assert "right behind the end of buffer 'D' (128 bytes)" in found[0].what


@pytest.mark.parametrize(("offset", "count"), [(0, 2), (4, 4)])
def test_reads_beyond_declared_columns(tmp_path: Path, offset: int, count: int) -> None:
    """Of 4 rows of 8 words the last one of each is padding: threads 7, 15, ... read it, or those before them."""
    body = f"setp.lt.u32 %p1, %r1, {24 if offset else 16};\n@%p1 ld.global.u32 %r6, [%rd1+{offset}];"
    capture = read_capture(captured(tmp_path, body, {}, 1))
    spec = replace(capture.buffers["D"], declared=(4, 7, 8))
    found = [each for each in check_launch(replace(capture, buffers={"D": spec})).findings if each.serious]
    expected = count if not offset else 3
    assert [(each.rule, each.count) for each in found] == [("declared-bounds", expected)]
    assert "D[0][7] of an array that was declared with 4 rows of 7 elements" in found[0].what


@pytest.mark.parametrize(
    ("value", "rule"), [("%r1", "shared-memory-race"), ("7", None)], ids=["other values", "the same value"]
)
def test_lanes_of_one_store_that_write_one_word(tmp_path: Path, value: str, rule: str | None) -> None:
    found = findings(tmp_path, f"{SHARED}st.shared.u32 [%r5], {value};")
    assert [each.rule for each in found] == ([rule] if rule else [])
    if found:
        assert "in the same instruction, with another value" in found[0].what


def test_both_sides_of_a_race_have_lines_and_threads(tmp_path: Path) -> None:
    store = "mad.lo.u32 %r6, %r1, 4, %r5;\nst.shared.u32 [%r6], %r4;\n"
    body = f"{SHARED}{store}xor.b32 %r7, %r6, 128;\nld.shared.u32 %r8, [%r7];"
    (found,) = findings(tmp_path, body, threads=64)
    assert found.rule == "shared-memory-race"
    assert found.other is not None
    assert (found.instruction, found.other.instruction) == (
        "ld.shared.u32 %r8, [%r7];", "st.shared.u32 [%r6], %r4;",
    )  # fmt: skip
    assert (found.thread, found.other.thread) == ("CTA (0, 0, 0), warp 0, lane 0", "CTA (0, 0, 0), warp 1, lane 0")
    assert found.other.where == "bytes 128 to 131 of 's' in shared memory"
    assert "bar.sync" in found.fix
