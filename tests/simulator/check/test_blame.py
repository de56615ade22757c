"""Blame for a wrong result: kernels with one mistake each, whose line and fix are named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from simulator.check import wrong_result as module
from simulator.check.expected import wrong, wrong_elements
from simulator.check.launch_finding import LaunchFinding
from simulator.check.launches import check_launch
from simulator.program.capture import write_capture
from tests.support.cases import over
from tests.support.paths import GOLDEN

LAUNCHES, PLANTED = GOLDEN / "launches", GOLDEN / "planted"
# capture, line, what stands there, the mistake in its place, what the finding says
MISTAKES: dict[str, tuple[Path, int, str, str, str]] = {
    "comparison": (LAUNCHES / "prune_compress.json", 62, "setp.gt", "setp.le", "'greater than' is meant"),
    "constant": (LAUNCHES / "prune_compress.json", 65, "-1, 0", "-1, 1", "1 where 0 is meant"),
    "operation": (LAUNCHES / "triton_add_relu.json", 81, "max", "min", "min where .max is meant"),
    "shift": (LAUNCHES / "triton_add_relu.json", 40, ", 1;", ", 2;", "2 where 1 is meant"),
    "parameter": (PLANTED / "bug0.json", 576, "%r75", "%r74", "(parameter 6) where %r75 (parameter 7) is meant"),
    "fragment": (
        LAUNCHES / "direct_one_warp.json", 243, "{%r214,%r215,%r216,%r217}", "{%r214,%r216,%r215,%r217}",
        "registers 1 and 2 of operand b are swapped",
    ),
}  # fmt: skip


def mutated(folder: Path, capture: Path, changes: dict[int, tuple[str, str]]) -> Path:
    """A capture with other text in some lines of its kernel."""
    data = json.loads(capture.read_text())
    lines = (capture.parent / data["ptx"]).read_text().split("\n")
    for line, (old, new) in changes.items():
        assert old in lines[line - 1]
        lines[line - 1] = lines[line - 1].replace(old, new)
    (folder / "kernel.ptx").write_text("\n".join(lines))
    shutil.copy(capture.parent / data["data"], folder / "data.npz")
    data |= {"ptx": "kernel.ptx", "data": "data.npz"}
    path = folder / "mutant.json"
    path.write_text(json.dumps(data))
    return path


def blamed(capture: Path) -> LaunchFinding:
    """The one finding about the result."""
    (finding,) = [each for each in check_launch(capture).findings if each.rule == "wrong-result"]
    return finding


@over("name", sorted(MISTAKES))
def test_a_mistake_is_named_with_its_line_and_its_fix(tmp_path: Path, name: str) -> None:
    capture, line, right, mistake, words = MISTAKES[name]
    finding = blamed(mutated(tmp_path, capture, {line: (right, mistake)}))
    assert finding.line == line, finding
    assert words in finding.what.replace("Min", "min").replace("Regis", "regis"), finding.what
    assert "elements are wrong; the first is" in finding.what
    assert right.replace(" ", "") in finding.fix.replace(" ", ""), finding.fix


def test_one_of_many_alike_is_named_and_no_other(tmp_path: Path) -> None:
    """All eight mma.sp were named for one whose registers are swapped."""
    change = ("{%r435,%r436,%r437,%r438}", "{%r435,%r437,%r436,%r438}")
    finding = blamed(mutated(tmp_path, PLANTED / "bug0.json", {1040: change}))
    assert (finding.line, finding.also) == (1040, ())
    assert "registers 1 and 2 of operand b" in finding.what.lower()


@over("bug, lines", [(1, (1052, 1071, 1090, 1109)), (7, (1041, 1053, 1062, 1072, 1081, 1091, 1100, 1110))])
def test_a_mistake_of_an_unrolled_loop_is_one_finding(bug: int, lines: tuple[int, ...]) -> None:
    finding = blamed(PLANTED / f"bug{bug}.json")
    named = (finding.line, *finding.also)
    assert named[: len(lines)] == lines
    assert len(named) <= len(lines) + 2  # where the operand is computed may mend it as well
    assert len(finding.fix) < 600


SUM = """\
.version 8.6
.target sm_80
.address_size 64
.visible .entry total(.param .u64 D)
{
.reg .b32 %r<20>; .reg .b64 %rd<4>;
ld.param.u64 %rd1, [D];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd2, %r1, 4;
add.s64 %rd3, %rd1, %rd2;
ld.global.u32 %r2, [%rd3];
STEPS
st.global.u32 [%rd3], %rLAST;
ret;
}
"""


@over("missing, place", [(16, "before it"), (2, "behind line"), (1, "behind line")])
def test_a_step_of_a_reduction_that_is_missing(tmp_path: Path, missing: int, place: str) -> None:
    steps, last = [], 2
    for delta in (16, 8, 4, 2, 1):
        if delta != missing:
            steps.append(f"shfl.sync.bfly.b32 %r{last + 1}, %r{last}, {delta}, 31, -1;")
            steps.append(f"add.u32 %r{last + 2}, %r{last}, %r{last + 1};")
            last += 2
    text = SUM.replace("STEPS", "\n".join(steps)).replace("LAST", str(last))
    before = np.arange(32, dtype=np.uint32) ** 2
    after = np.full(32, before.sum(), np.uint32)
    path = tmp_path / "c.json"
    write_capture(path, text, "total", (1,), (32,), [{"buffer": "D"}], {"D": before}, {"D": after}, target="sm_80")
    finding = blamed(path)
    assert f"step with delta {missing} of this reduction is missing" in finding.what
    assert f", {missing}, 31, -1;'" in finding.fix
    assert place in finding.fix
    assert "shfl" in finding.instruction or "add" in finding.instruction


def test_what_no_single_change_mends_comes_through_four_lines_at_most(tmp_path: Path) -> None:
    changes = {40: (", 1;", ", 3;"), 51: ("add", "sub"), 81: ("max", "min"), 80: ("max", "min")}
    capture = LAUNCHES / "triton_add_relu.json"
    lines = (LAUNCHES / "triton_add_relu.ptx").read_text().split("\n")
    finding = blamed(mutated(tmp_path, capture, {n: c for n, c in changes.items() if c[0] in lines[n - 1]}))
    assert "No single change mends it" in finding.what
    assert 0 < len({finding.line, *finding.also}) <= 4


def test_a_long_launch_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_INSTRUCTIONS", 0)
    finding = blamed(PLANTED / "bug2.json")
    assert (finding.line, finding.instruction) == (0, "")
    assert "5000 of 5000 elements are wrong" in finding.what


# Which elements are wrong


def test_elements_are_compared_bit_for_bit_or_within_tolerances() -> None:
    expected = np.array([0.0, 1.0, np.nan, np.inf, -np.inf, 100.0], np.float32)
    array = np.array([-0.0, 1.001, np.nan, np.inf, np.inf, 101.0], np.float32)
    assert wrong(array, expected).tolist() == [True, True, False, False, True, True]
    assert wrong(array, expected, rtol=0.0, atol=0.01).tolist() == [False, False, False, False, True, True]
    assert wrong(array, expected, rtol=0.02).tolist() == [False, False, False, False, True, False]
    other = np.array([np.uint32(0x7FC00001)]).view(np.float32)  # another NaN
    assert wrong(other, np.array([np.nan], np.float32)).tolist() == [True]
    assert wrong(other, np.array([np.nan], np.float32), atol=1e-9).tolist() == [False]
    integers = {"D": np.array([3, 5], np.int32)}
    assert wrong_elements(integers, {"D": np.array([3, 4], np.int32)}, atol=1.0)["D"].tolist() == [False, False]
    wide = np.array([1 + 2j, 3j], np.complex128)
    assert wrong(wide, np.array([1 + 2j, 4j], np.complex128)).tolist() == [False, True]
