"""The mutation study: what mutants are, that each is wrong, and how the check's findings are judged."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from isa import IsaError
from simulator.check.launch_finding import LaunchCheck, LaunchFinding, Side
from simulator.program.capture import Capture, read_capture, write_capture
from simulator.studies.mutation import Subject, keep, mutants, study
from simulator.studies.mutation import judge as judging
from simulator.studies.mutation.__main__ import main
from simulator.studies.mutation.evaluate import known
from simulator.studies.mutation.mutant import OPERATORS, Mutant
from simulator.studies.mutation.outcome import with_junk
from simulator.studies.mutation.proof import behaviour, changed, proven
from simulator.studies.mutation.text import ModuleText
from simulator.studies.mutation.trace import trace
from tests.support.cases import exhaustive

GOLDEN = Path(__file__).parents[2] / "golden"
SPMM = GOLDEN / "planted" / "bug0.json"
ONE_WARP = GOLDEN / "launches" / "direct_one_warp.json"
RIGHT = [
    SPMM, ONE_WARP, GOLDEN / "launches" / "triton_matmul_mma.json", GOLDEN / "launches" / "pipeline_sum_sm90.json",
    GOLDEN / "tcgen05" / "f8_sp_m128.json",
]  # fmt: skip

EXCHANGE = """.version 9.0
.target sm_80
.address_size 64
.visible .entry exchange(.param .u64 out)
{
  .reg .b32 %r<8>; .reg .b64 %rd<4>;
  .shared .align 4 .b8 held[256];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, held;
  shl.b32 %r3, %r1, 2;
  add.s32 %r4, %r2, %r3;
  st.shared.u32 [%r4], %r1;
  bar.sync 0;
  bar.sync 0;
  xor.b32 %r5, %r3, 128;
  add.s32 %r5, %r2, %r5;
  ld.shared.u32 %r6, [%r5];
  ld.param.u64 %rd1, [out];
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd1, %rd1, %rd2;
  st.global.u32 [%rd1], %r6;
  ret;
}
"""


@pytest.fixture
def exchange(tmp_path: Path) -> Capture:
    """Two warps that exchange words through shared memory, with one barrier more than they need."""
    result = np.arange(64, dtype=np.uint32) ^ 32
    return write_capture(
        tmp_path / "exchange.json", EXCHANGE, "exchange", (1,), (64,), [{"buffer": "out"}], {}, {"out": result},
        target="sm_80",
    )  # fmt: skip


def written(subject: Subject, text: str, folder: Path) -> Capture:
    """The capture of a kernel with another module."""
    ptx = folder / f"changed_{subject.name}.ptx"
    ptx.write_text(text)
    return changed(subject.capture, ptx, behaviour(subject.capture))


def test_edits_keep_all_other_lines() -> None:
    subject = Subject(read_capture(SPMM))
    lines = subject.text.text.split("\n")
    for _, mutant in mutants(subject)[::41]:
        after = subject.text.edited(mutant.edits).split("\n")
        differ = {number for number, (one, two) in enumerate(zip(lines, after, strict=True), 1) if one != two}
        assert differ == set(mutant.lines), mutant


def test_instructions_are_found_where_several_stand_in_a_line() -> None:
    text = ModuleText("L: { .reg .pred p;\nsetp.eq.u32 p, %r1, 0; @p add.u32\n  %r1, {%r2,%r3}, [%r4+4]; }\n")
    statement = text.statement(2, "@p add.u32 %r1, {%r2,%r3}, [%r4+4];")
    assert statement is not None
    assert [each.text for each in statement.operands] == ["%r1", "{%r2,%r3}", "[%r4+4]"]
    assert [each.text for each in statement.elements(statement.operands[1])] == ["%r2", "%r3"]
    assert text.edited([statement.dropped()]).split("\n")[1:3] == ["setp.eq.u32 p, %r1, 0; ", " }"]
    assert text.statement(1, "setp.eq.u32 p, %r1, 0;") is None


def test_every_operator_makes_mutants_of_some_kernel() -> None:
    more = (
        "launches/triton_grouped_gemm launches/wgmma_f16 launches/chain launches/barriers launches/f16_one_cta "
        "launches/prune_compress tcgen05/mxf8_sp_m128_cp tcgen05/c2_f16_sp_m128_l0"
    )
    paths = [*RIGHT, *(GOLDEN / f"{name}.json" for name in more.split())]
    subjects = [Subject(read_capture(path)) for path in paths]
    made = {mutant.operator for subject in subjects for _, mutant in mutants(subject)}
    assert made == set(OPERATORS)


@pytest.mark.parametrize("path", RIGHT, ids=lambda path: path.stem)
def test_right_kernels_are_in_order_and_need_no_junk(path: Path) -> None:
    right = behaviour(read_capture(path))
    assert not right.traced.pairs
    assert not right.latest.error


def test_a_barrier_is_missed_only_where_no_other_does_its_work(exchange: Capture, tmp_path: Path) -> None:
    subject = Subject(exchange)
    right = behaviour(exchange)
    one = EXCHANGE.replace("bar.sync 0;", "", 1)
    assert proven("order", written(subject, one, tmp_path), right) is None
    none = EXCHANGE.replace("  bar.sync 0;\n", "\n")
    assert proven("value", written(subject, none, tmp_path), right) is None  # the bits are right by chance
    proof = proven("order", written(subject, none, tmp_path), right)
    assert proof is not None
    assert proof.lines == {12, 17}


def test_a_copy_that_nobody_waits_for_is_out_of_order(tmp_path: Path) -> None:
    subject = Subject(read_capture(SPMM))
    mutant = next(each for _, each in mutants(subject, ["copy-wait"]) if "dropped" in each.what)
    found = trace(written(subject, subject.text.edited(mutant.edits), tmp_path), 1_000_000).pairs
    readers = {site.line for site in subject.sites if site.name == "ldmatrix"}
    assert readers <= {second for what, _, second in found if what == "copy not waited for"}


@exhaustive
def test_what_nothing_has_written_shows_in_a_run_with_junk(tmp_path: Path) -> None:
    subject = Subject(read_capture(SPMM))
    right = behaviour(subject.capture)
    changes = [subject.text.edited(each.edits) for _, each in mutants(subject, ["not-cleared"])]
    outcomes = [with_junk(written(subject, text, tmp_path), 5, right.budget) for text in changes[:16]]
    assert any(not outcome.error and not outcome.same(right.outcome) for outcome in outcomes)


def verdict(monkeypatch: pytest.MonkeyPatch, *findings: LaunchFinding) -> judging.Verdict:
    """What is said of a mutant of line 10, repaired by a barrier, of which the check finds this."""

    def check(_: Capture, **__: object) -> LaunchCheck:
        return LaunchCheck("k", "k", (1, 1), findings)

    monkeypatch.setattr(judging, "check_launch", check)
    mutant = Mutant("barrier-dropped", "", (), (10,), frozenset({12}), (("bar\\.sync",),))
    return judging.judged(mutant, {10, 12}, read_capture(ONE_WARP), 1000, {("known", 3)})


def finding(line: int, rule: str = "race", fix: str = "bar.sync", **more: object) -> LaunchFinding:
    return LaunchFinding(rule, line, "", "", "", "what", fix, **more)  # type: ignore[arg-type]


def test_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    side = Side(12, "", "", "", "", "")
    cases: list[tuple[str, bool, tuple[LaunchFinding, ...]]] = [
        ("missed", False, ()),
        ("missed", False, (finding(3, "known"),)),
        ("missed", False, (finding(10, serious=False),)),
        ("right", True, (finding(10),)),
        ("right", True, (finding(99, other=side),)),
        ("right", False, (finding(12, fix="look"), finding(50))),
        ("later", True, (finding(50), finding(10))),
        ("wrong blame", False, (finding(50),)),
        ("no line", False, (finding(0, "wrong-result", fix="it comes from somewhere"),)),
        ("wrong blame", False, (finding(50, also=(10, 11, 12, 13, 14)),)),  # so many lines are no place
    ]
    for line, fixed, findings in cases:
        found = verdict(monkeypatch, *findings)
        assert (found.line, found.fixed) == (line, fixed), findings


def test_who_writes_the_right_instruction_down_has_the_repair() -> None:
    mutant = Mutant("offset", "", (), (10,), fix=(("16 bytes",),), right=("ld.global.u32 \t%r1, [%rd1+16]",))
    assert mutant.fixed_by("write 'ld.global.u32 %r1, [%rd1+16];'")
    assert mutant.fixed_by("it is 16 bytes off")
    assert not mutant.fixed_by("write 'ld.global.u32 %r1, [%rd1+32];'")


def test_a_check_that_does_not_end_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(_: Capture, **__: object) -> LaunchCheck:
        while True:
            pass

    monkeypatch.setattr(judging, "check_launch", check)
    mutant = Mutant("trans", "", (), (1,))
    assert judging.judged(mutant, {1}, read_capture(ONE_WARP), 1000, set(), 0.2).line == "no answer"


@exhaustive
def test_a_study_is_the_same_for_the_same_seed(tmp_path: Path) -> None:
    first, second = (study([ONE_WARP], 4, seed=7, workers=workers) for workers in (1, 2))
    rows = [{**asdict(row), "seconds": 0} for row in first.rows]
    assert rows == [{**asdict(row), "seconds": 0} for row in second.rows]
    assert len(rows) == 4
    assert first.summary("kernel").rows[-1][1] == 4
    number = first.rows[0].number
    (path,) = keep(ONE_WARP, tmp_path, [number])
    assert with_junk(read_capture(path), 1).same(known(str(ONE_WARP)).right.outcome) is False


def test_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(ONE_WARP), "--list", "--only", "selector"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert len(listed) == 4
    assert all("selector: line" in line for line in listed)
    assert main([str(ONE_WARP), "--only", "typo"]) == 2
    assert "no operator 'typo'" in capsys.readouterr().err
    assert main([str(ONE_WARP), str(SPMM), "--number", "3"]) == 2
    assert main([str(ONE_WARP), "--number", "100000"]) == 2
    assert "has no mutant 100000; legal: 0 to" in capsys.readouterr().err
    with pytest.raises(IsaError):
        mutants(Subject(read_capture(ONE_WARP)), ["typo"])
