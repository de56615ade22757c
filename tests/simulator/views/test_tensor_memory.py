"""Maps of Tensor Memory: intervals of a small kernel by hand, of a pair and of a launch, and the picture of them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from isa.descriptors.instruction import InstructionDescriptor
from simulator.errors import ViewError
from simulator.views.tensor_memory import MemoryMap, memory_map
from simulator.views.tensor_memory.picture import draw
from tests.support.paths import GOLDEN, ROOT
from tests.support.picture_text import faults

Tcsim = Callable[..., tuple[int, str, str]]
WORD = InstructionDescriptor(
    "mxf8f6f4", m=128, n=16, a_type="e4m3", b_type="e4m3", sparse=True, scale_type="ue8m0"
).encode()
MMA = "@%p0 tcgen05.mma.sp.cta_group::1.kind::mxf8f6f4.block_scale [%r1], %rd0, %rd1, [%r2], %r5, [%r3], [%r4], {};"
KERNEL = f"""\
.trace 1
.target sm_100a
.warps 1
.shared 16384
.warp 0 {{
    mov.u32 %r0, %laneid;
    setp.eq.u32 %p0, %r0, 0;
    mov.b64 %rd0, 0x400800800000;
    mov.b64 %rd1, 0x400800100100;
    mov.b64 %rd2, 0x400800000200;
    mov.u32 %r1, 0;
    mov.u32 %r2, 16;
    mov.u32 %r3, 20;
    mov.u32 %r4, 24;
    mov.u32 %r5, {WORD};
    mov.u32 %r6, 12304;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r6], 64;
    @%p0 tcgen05.cp.cta_group::1.128x128b [%r2], %rd2;
    @%p0 tcgen05.cp.cta_group::1.32x128b.warpx4 [%r3], %rd2;
    @%p0 tcgen05.cp.cta_group::1.32x128b.warpx4 [%r4], %rd2;
    {MMA.format(0)}
    {MMA.format("%p0")}
    tcgen05.ld.sync.aligned.32x32b.x4.b32 {{%r16, %r17, %r18, %r19}}, [%r1];
    {MMA.format(0)}
    tcgen05.st.sync.aligned.32x32b.x2.b32 [%r1+32], {{%r16, %r17}};
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 0, 64;
}}
"""
EVERY, HALVES, OTHERS = "0 to 127", "0 to 15, 32 to 47, 64 to 79, 96 to 111", "16 to 31, 48 to 63, 80 to 95, 112 to 127"
WARP = "0 to 31"
# Role, lanes, columns, first and last moment, first and last line. By hand: D has N = 16 columns and 128 rows, is begun
# anew by the third mma, and lives until its first 4 columns are loaded; K = 64 are 16 chunks of 4 bits, 2 columns of
# metadata, of the 4 that are copied; 128 scale factors of A are 4 columns of 32 lanes and three copies, 16 of B are
# half the lanes of one.
INTERVALS = {
    ("allocation", EVERY, "0 to 63", 1, 10, 17, 26),
    ("metadata", EVERY, "16 to 17", 2, 8, 18, 24),
    ("copied bytes", EVERY, "18 to 19", 2, 2, 18, 18),
    ("scale factors of A", EVERY, "20 to 23", 3, 8, 19, 24),
    ("scale factors of B", HALVES, "24", 4, 8, 20, 24),
    ("copied bytes", OTHERS, "24", 4, 4, 20, 20),
    ("copied bytes", EVERY, "25 to 27", 4, 4, 20, 20),
    ("D", EVERY, "0 to 15", 5, 7, 21, 23),
    ("D", EVERY, "0 to 15", 8, 8, 24, 24),
    ("stored registers", WARP, "32 to 33", 9, 9, 25, 25),
}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.trace"
    path.write_text(KERNEL)
    return path


def rows(memory: MemoryMap, moment: int | None = None) -> list[tuple[object, ...]]:
    return [tuple(row[1:8]) for row in memory.table(moment).rows]


def test_intervals_by_hand(small: Path) -> None:
    memory = memory_map(small)
    assert len(rows(memory)) == len(INTERVALS)
    assert set(rows(memory)) == INTERVALS
    held = {row for row in INTERVALS if int(str(row[3])) <= 7 <= int(str(row[4]))}
    assert set(rows(memory, 7)) == held
    assert {str(row[0]) for row in held} == {
        "allocation", "D", "metadata", "scale factors of A", "scale factors of B",
    }  # fmt: skip
    with pytest.raises(ViewError, match=r"no moment 11 .*legal: 0 to 10"):
        memory.at(11)


def test_columns_that_are_allocated_again_hold_something_else(tmp_path: Path) -> None:
    """A second life of the same cells begins after the first has ended, and an allocation that waits begins when it has
    its columns."""
    allocate = "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r6{}], 512;"
    store, free = (
        "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r0], {%r0};",
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r0, 512;",
    )
    path = tmp_path / "again.trace"
    head = ".trace 1\n.target sm_100a\n.warps 2\n.shared 64\n"
    first = f".warp 0 {{\n{allocate.format('')}\n{store}\n{store}\nbar.sync 0;\n{free}\n}}\n"
    second = f".warp 1 {{\nbar.sync 0;\n{allocate.format('+8')}\n{free}\n}}\n"
    path.write_text(head + first + second)
    times = [(row[0], *row[3:]) for row in rows(memory_map(path))]
    assert times == [
        ("allocation", 1, 4, 6, 10),
        ("stored registers", 2, 2, 7, 7),
        ("stored registers", 3, 3, 8, 8),
        ("allocation", 5, 6, 14, 15),
    ]


def test_a_launch_has_the_lines_of_its_ptx_and_both_ctas_of_a_pair() -> None:
    """The lines and columns are those that the source names: D at 0, metadata at 320, of M = 256 half in each CTA."""
    path = GOLDEN / "tcgen05" / "c2_i8_sp_m256.json"
    lines = path.with_suffix(".ptx").read_text().splitlines()
    memory = memory_map(path, 1)
    assert memory.ctas == [0, 1]
    for cta in memory.ctas:
        (d,) = [each for each in memory.intervals if (each.cta, each.role) == (cta, "D")]
        (metadata,) = [each for each in memory.intervals if (each.cta, each.role) == (cta, "metadata")]
        assert (d.columns, metadata.columns, len(d.lanes)) == (range(64), range(320, 324), 128)
        for moment in (d.first, d.last, metadata.first, metadata.last):
            assert moment.opcode in lines[moment.line - 1]
    with pytest.raises(ViewError, match=r"no CTA 2 .*legal: 0 to 1"):
        memory_map(path, 2)


def test_the_picture_is_the_table(small: Path) -> None:
    memory = memory_map(small)
    picture = draw(memory)
    wrong = [each for each in faults(picture.svg) if "cells in []" not in each]  # boxes are no cells of operands
    assert wrong == []
    boxes = re.findall(
        r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" [^>]* data-cta="0" data-role="([^"]+)" '
        r'data-lanes="([^"]+)" data-columns="([^"]+)" data-first="(\d+)" data-last="(\d+)"',
        picture.svg,
    )
    over_time = boxes[: len(memory.intervals)]
    assert sorted(box[3:] for box in over_time) == sorted(tuple(map(str, row[:5])) for row in rows(memory))
    for x, _, width, _, _, columns, _, _ in over_time:
        first, last = int(columns.split(" to ")[0]), int(columns.split(" to ")[-1])
        assert (float(x), float(width)) == (1.5 * first, 1.5 * (last + 1 - first))
    alone = draw(memory, 8).svg
    assert "moment 8: after tcgen05.mma.sp, line 24" in alone
    assert "tcgen05.cp, line" not in alone


def test_the_verb(small: Path, tmp_path: Path, tcsim: Tcsim) -> None:
    code, out, err = tcsim("tmem", small)
    assert (code, err) == (0, "")
    assert "     5    21  tcgen05.mma.sp   |DDab....  " in out
    assert "D = D, " in out
    code, out, _ = tcsim("tmem", small, "--at", 7, "--format", "csv")
    assert {row["role"] for row in csv.DictReader(io.StringIO(out))} == {
        str(row[0]) for row in rows(memory_map(small), 7)
    }
    assert tcsim("tmem", small, "--output", tmp_path / "map.png") == (0, "", "")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    for arguments, legal in (
        ((small, "--at", 99), "legal: 0 to 10"),
        ((small, "--format", "png"), "--output NAME.png"),
        ((small, "--cta", 1), "legal: a captured launch"),
        (("digits/f16",), "a program with tcgen05.alloc"),
    ):
        code, out, err = tcsim("tmem", *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert legal in err


def test_the_picture_of_the_documentation_is_made_by_its_command(tmp_path: Path, tcsim: Tcsim) -> None:
    command = "tcsim tmem digits/mxf4nvf4_tcgen05 --output docs/tensor_memory_map.svg"
    assert command in (ROOT / "docs" / "tensor_memory.md").read_text()
    assert tcsim("tmem", "digits/mxf4nvf4_tcgen05", "--output", tmp_path / "map.svg")[0] == 0
    assert (tmp_path / "map.svg").read_text() == (ROOT / "docs" / "tensor_memory_map.svg").read_text()
