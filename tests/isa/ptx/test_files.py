"""Whole PTX files: two from nvcc, and the ways in which files surprise."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import isa
from isa.ptx.files import read_ptx
from tests.support.paths import TESTS

Tcsim = Callable[..., tuple[int, str, str]]
K32 = ".sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
FOLDER = TESTS / "ptx"


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("sparse_tile.ptx", {f"mma.sp::ordered_metadata{K32}", "ldmatrix.sync.aligned.m8n8.x4.shared.b16", "bar.sync"}),
        ("tensor_memory.ptx", {"tcgen05.mma.sp.cta_group::1.kind::f16", "tcgen05.cp.cta_group::1.128x128b",
        "tcgen05.ld.sync.aligned.32x32b.x4.b32"}),
    ],
)  # fmt: skip
def test_what_nvcc_writes(name: str, wanted: set[str]) -> None:
    """Everything is legal; each judged instruction stands where it is said to; what is passed over is of other
    families."""
    text = (FOLDER / name).read_text()
    found = list(read_ptx(text))
    assert not [statement for statement in found if statement.error]
    assert wanted <= {s.instruction.form.opcode for s in found if s.instruction}
    lines = text.splitlines()
    for statement in found:
        assert statement.text.split()[0] in lines[statement.line - 1]
        if statement.passed_over:
            word = statement.text.split()[statement.text[0] == "@"]
            assert not word.startswith(("mma", "ldmatrix", "tcgen05"))
    written = sum(line.strip().endswith(";") and not line.strip().startswith(".") for line in lines)
    assert len(found) == written


def test_targets_and_versions_of_the_file() -> None:
    mma = "mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r0, %r1}, {%r2, %r3}, {%r4, %r5}, {%r0, %r1}, %r6, 0;"
    heads = (
        (".version 9.0\n.target sm_80\n", True),
        (".version 7.0\n.target sm_80\n", False),
        (".version 9.0\n.target sm_75, debug\n", False),
    )
    for head, legal in heads:
        (statement,) = read_ptx(head + mma)
        assert (statement.error is None) == legal
        assert statement.line == 3
    (statement,) = read_ptx(".target sm_75\n" + mma, "sm_90a")
    assert statement.instruction is not None
    (statement,) = read_ptx(mma, "sm_120a")
    assert "plain .sp is slow" in statement.notes[0]
    with pytest.raises(isa.IsaError, match="sm_99"):
        list(read_ptx(".target sm_99\n" + mma))


def test_scopes_labels_comments_and_data() -> None:
    text = """// a file; with ; semicolons in comments
.global .align 4 .b8 table[4] = {1, 2, 3, 4};
.visible .entry k(
    .param .u64 p
)
{
    .reg .b32 %r<9>; /* registers;
    more */
    { .reg .pred p; mov.u32 %r1, %laneid; }
$L__BB0_1: add.s32 %r1, %r1,
        1;
    .loc 1 2 3
    @%p1 bra $L__BB0_1;
    ld.param.u64 %rd1, [p];
    ldmatrix.sync.aligned.m8n8.x3.shared.b16 {%r1, %r2, %r3}, [%r4];
    ret;
}
"""
    found = list(read_ptx(text))
    assert [(s.line, s.text.split()[0], s.passed_over, s.error is not None) for s in found] == [
        (9, "mov.u32", False, False),
        (10, "add.s32", False, False),
        (13, "@%p1", True, False),
        (14, "ld.param.u64", False, False),
        (15, "ldmatrix.sync.aligned.m8n8.x3.shared.b16", False, True),
        (16, "ret;", True, False),
    ]


def test_the_command(tcsim: Tcsim, tmp_path: Path) -> None:
    code, out, err = tcsim("decode", FOLDER / "sparse_tile.ptx")
    assert (code, err) == (0, "")
    assert "0 wrong" in out
    code, out, _ = tcsim("decode", FOLDER / "sparse_tile.ptx", "--format", "json")
    facts = json.loads(out)
    assert facts["wrong"] == 0
    assert facts["judged"] == len(facts["instructions"])
    wrong = tmp_path / "wrong.ptx"
    wrong.write_text((FOLDER / "sparse_tile.ptx").read_text().replace("m16n8k32", "m16n8k31"))
    code, out, err = tcsim("decode", wrong)
    assert code == 1
    assert "m16n8k31" in err
    assert f"{wrong}:" in err
    assert tcsim("decode", tmp_path / "none.ptx")[0] == 2
    (tmp_path / "binary.ptx").write_bytes(b"\xff\xfe\x00")
    assert tcsim("decode", tmp_path / "binary.ptx")[0] == 2


def test_everything_wrong_is_reported() -> None:
    """One error for each qualifier and operand that is wrong, in the order of their places."""
    text = (
        "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%r0, %r1, %r2}, {%r4, %r5, %r6, %r7}, {%r8}, "
        "{%r0, %r1, %r2, %r3}, 7, 9;"
    )
    with pytest.raises(isa.IsaError) as caught:
        isa.decode(text)
    error = caught.value
    assert error.section == "PTX ISA 9.0, 9.7.14.6.3 (mma.sp)"
    places = [error.position, *(other.position for other in error.more)]
    assert places == sorted(places)
    assert len(places) == 4
    for words in (
        "operand d has 3",
        "operand b has 1",
        "operand e is a register",
        "selector 9 is out of range",
        "0 to 1",
    ):
        assert words in str(error)
    with pytest.raises(isa.IsaError) as caught:
        isa.decode("mma.sp.sync.m16n8k32.row.row.f32.f16.f16.f33 x;")
    assert len(caught.value.more) >= 2


ON_HOPPER = 297  # of the tcgen05 family: mbarrier, fence and bulk copies


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ((), 404), (("--sparse", "--target", "sm_90a"), 88), (("--type", "e4m3", "--target", "sm_80"), 0),
        (("--family", "tcgen05", "--target", "sm_90a"), ON_HOPPER),
    ],
)  # fmt: skip
def test_forms(tcsim: Tcsim, arguments: tuple[str, ...], count: int) -> None:
    code, out, err = tcsim("forms", *arguments, "--format", "json")
    assert code == (0 if count else 1)
    assert (len(json.loads(out)) if out else 0) == count
    assert bool(err) == (count == 0)


@pytest.mark.parametrize("kind", ["table", "csv", "markdown"])
def test_forms_formats(tcsim: Tcsim, kind: str) -> None:
    code, out, _ = tcsim("forms", "--target", "sm_120a", "--type", "e2m1", "--format", kind)
    assert code == 0
    assert out.count("kind::mxf4nvf4") == 6
    assert tcsim("forms", "--type", "f99")[0] == 2
    assert tcsim("forms", "--target", "sm_1")[0] == 2
