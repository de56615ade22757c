"""Blame for a wrong result: kernels with one mistake each, whose line and fix are named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from simulator.check import wrong_result as module
from simulator.check.blame.pattern import likely
from simulator.check.expected import wrong, wrong_elements
from simulator.check.launch_finding import LaunchFinding
from simulator.check.launches import check_launch
from simulator.program.capture import write_capture
from tests.support.cases import exhaustive, over
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


# Products among one another

TWO, THREE = LAUNCHES / "direct_one_warp.json", LAUNCHES / "e4m3_one_cta.json"


@exhaustive
@over("capture, line, change, named, words", [
    (TWO, 176, ("mma.sp", "// mma.sp"), {243}, "a product is missing here"),
    (THREE, 797, ("mma.sp", "// mma.sp"), {794, 797, 800}, "added to the sums of line 864"),
    (TWO, 176, ("%r136, 0x0", "%r86, 0x0"), {176}, "%r136, which nothing reads"),
    (THREE, 825, ("[%rd20+8]", "[%rd20+40]"), {825}, "32 bytes too high"),
])  # fmt: skip
def test_products_that_differ_from_their_neighbours(
    tmp_path: Path, capture: Path, line: int, change: tuple[str, str], named: set[int], words: str
) -> None:
    finding = blamed(mutated(tmp_path, capture, {line: change}))
    assert finding.line in named, finding
    assert words in finding.what.lower(), finding.what


def test_a_product_that_is_added_twice(tmp_path: Path) -> None:
    text = (LAUNCHES / "direct_one_warp.ptx").read_text().split("\n")[242].strip()
    finding = blamed(mutated(tmp_path, TWO, {243: (text, f"{text} {text}")}))
    assert (finding.line, finding.also) == (243, ())
    assert "this product is added twice" in finding.what.lower()
    assert "leave it out" in finding.fix


@exhaustive
def test_operands_of_two_products_exchanged(tmp_path: Path) -> None:
    one, two = "{%r383,%r384,%r385,%r386}", "{%r396,%r397,%r398,%r399}"
    finding = blamed(mutated(tmp_path, THREE, {791: (one, two), 806: (two, one)}))
    assert (finding.line, finding.also) == (791, (806,))
    assert "operand a of the products in lines 791 and 806 is exchanged" in finding.what.lower()


@exhaustive
def test_a_product_of_a_pair_of_ctas(tmp_path: Path) -> None:
    """tcgen05 of two CTAs: no trial of it came to its end."""
    capture = GOLDEN / "tcgen05" / "c2_f16_sp_m128_l0.json"
    finding = blamed(mutated(tmp_path, capture, {1044: ("%r588, p", "%r588, !p")}))
    assert finding.line in (1043, 1044)
    assert "enable-input-d" in finding.what.lower()


def test_a_guard_that_a_neighbour_has(tmp_path: Path) -> None:
    """The CTA writes elements of others without it: what these write there stays as it is."""
    capture = LAUNCHES / "triton_matmul_mma.json"
    finding = blamed(mutated(tmp_path, capture, {364: ("@%p19 st", "st")}))
    assert (finding.line, finding.also) == (364, ())
    assert "the guard @%p19 is missing" in finding.what.lower()


PROGRESSION = [("r", 4), ("r", 8), ("r", 12), ("r", 13), ("r", 20), ("r", 24)]


def test_a_broken_progression_is_restored() -> None:
    expected = likely(PROGRESSION)
    assert max(expected[3], key=lambda value: expected[3][value]) == ("r", 16)
    assert expected[3].get(("r", 13), 0.0) < expected[3]["r", 16]


@exhaustive
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


def test_what_no_single_change_mends_names_no_line_where_most_elements_are_wrong(tmp_path: Path) -> None:
    changes = {40: (", 1;", ", 3;"), 51: ("add", "sub"), 81: ("max", "min"), 80: ("max", "min")}
    capture = LAUNCHES / "triton_add_relu.json"
    lines = (LAUNCHES / "triton_add_relu.ptx").read_text().split("\n")
    finding = blamed(mutated(tmp_path, capture, {n: c for n, c in changes.items() if c[0] in lines[n - 1]}))
    assert "No single instruction explains it" in finding.what
    assert (finding.line, finding.also) == (0, ())


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
