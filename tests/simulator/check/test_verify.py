"""`tcsim verify` and `simulator.verify`: two kernels on one launch are equal, or what differs is told."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import simulator
from simulator.check.launch_finding import LaunchFinding, Side
from simulator.check.verify import kind_of
from tests.support.paths import GOLDEN, ROOT

Tcsim = Callable[..., tuple[int, str, str]]
PLANTED = GOLDEN / "planted"
SUM = """.version 8.6
.target sm_80
.address_size 64
.visible .entry {name}(.param .u64 x, .param .u64 y) {{
  .shared .align 4 .b8 {variable}[256];
  .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .b64 %rd<8>;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  add.u64 %rd1, %rd1, %rd3;
  add.u64 %rd2, %rd2, %rd3;
  ld.global.f32 %f1, [%rd1];
  mov.u32 %r2, {variable};
  shl.b32 %r3, %r1, 2;
  add.u32 %r4, %r2, %r3;
  st.shared.f32 [%r4], %f1;
{barrier}
  xor.b32 %r3, %r3, 128;
  add.u32 %r4, %r2, %r3;
  ld.shared.f32 %f2, [%r4];
{more}
  st.global.f32 [%rd2], %f2;
  ret;
}}
"""


def kernel(name: str = "sum", variable: str = "s", barrier: str = "bar.sync 0;", more: str = "") -> str:
    """A kernel of two warps that exchange their values through shared memory."""
    return SUM.format(name=name, variable=variable, barrier=barrier, more=more)


def verified(a: str, b: str, **options: float) -> simulator.Verification:
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    result = simulator.verify(a, b, 1, 64, (x, y), **options)  # type: ignore[arg-type] # tolerances alone
    assert not y.any()
    return result


def test_a_kernel_is_equal_to_itself_and_to_one_of_other_names() -> None:
    assert verified(kernel(), kernel()).equal
    other = verified(kernel(), kernel(name="other", variable="buffer", more="  mov.b32 %r5, %r4;"))
    assert other.equal, other.table()
    assert other.verdict == "equal: A and B give the same results"


def test_a_difference_of_results_is_told_with_its_place() -> None:
    result = verified(kernel(), kernel(more="  mul.f32 %f2, %f2, 0f3F800054;"))  # 1.00001
    assert not result.equal
    (difference,) = result.differences
    assert (difference.buffer, difference.expected) == ("y", 32.0 if difference.place == (0,) else difference.expected)
    assert difference.elements > 50
    assert not result.findings
    assert "results: buffer 'y'" in result.table()
    assert verified(kernel(), kernel(more="  mul.f32 %f2, %f2, 0f3F800054;"), rtol=1e-4).equal


def test_a_race_that_only_one_has_is_told() -> None:
    result = verified(kernel(), kernel(barrier=""))
    assert not result.equal
    assert {each.kernel for each in result.findings} == {"B"}
    assert "shared-memory-race" in {each.rule for each in result.findings}
    assert re.search(r"findings: in B alone: shared-memory-race .*line \d+", result.table())
    back = verified(kernel(barrier=""), kernel())
    assert {each.kernel for each in back.findings} == {"A"}


def test_the_same_race_at_another_line_is_equal() -> None:
    other = kernel(barrier="\n\n", variable="other")
    result = verified(kernel(barrier=""), other)
    assert result.equal, result.table()
    assert re.search(r"and the same \d+ finding", result.verdict)


def test_a_kernel_that_does_not_end_is_not_equal() -> None:
    result = verified(kernel(), kernel(more="  add.u64 %rd2, %rd2, 65536;"))
    assert list(result.stopped) == ["B"]
    assert not result.equal
    assert "B stopped: line" in result.table()
    assert result.verdict.endswith("B did not end")


def test_kinds_leave_lines_and_names_of_variables_out() -> None:
    def race(what: str, where: str, access: str) -> LaunchFinding:
        side = Side(1, "", "", "", access, where)
        return LaunchFinding("global-race", 2, "", "", "", what, "", other=side)

    one = race("writes bytes 0 to 3 of 'D'", "bytes 0 to 3 of 'D'", "reads")
    other = race("reads bytes 8 to 11 of 'D'", "bytes 8 to 11 of 'D'", "writes")
    assert kind_of(one, ["A", "D"]) == kind_of(other, ["A", "D"]) == ("global-race", "reads and writes D")
    assert kind_of(race("writes 'A'", "", "writes"), ["A", "D"]) != kind_of(
        race("writes 'D'", "", "writes"), ["A", "D"]
    )


@pytest.mark.parametrize(("bug", "words"), [(0, "equal: bug0.ptx"), (2, "results: buffer 'D'"), (3, "in B alone: ")])
def test_on_the_command_line(tcsim: Tcsim, tmp_path: Path, bug: int, words: str) -> None:
    b = tmp_path / "b.ptx"
    b.write_text((PLANTED / f"bug{bug}.ptx").read_text())
    code, out, err = tcsim("verify", str(PLANTED / "bug0.json"), str(b))
    assert (code, err) == (int(bug > 0), "")
    assert words in out
    if bug != 2:  # which takes long: it is explained
        data = json.loads(tcsim("verify", str(PLANTED / "bug0.json"), str(b), "--format", "json")[1])
        assert data["equal"] == (bug == 0)


@pytest.mark.parametrize(
    ("b", "options", "said"),
    [
        (".version 8.6\n.target sm_80\n.address_size 64\n", "", "has 0 kernels"),
        (kernel().replace(", .param .u64 y", "").replace("[y]", "[x]"), "", "B: 2 arguments for the 1 parameters"),
        (kernel(), "--entry-b other", "no kernels with 'other'"),
        (kernel(), "--rtol nan", "is no tolerance"),
    ],
)
def test_what_does_not_fit_is_one_line(tcsim: Tcsim, tmp_path: Path, b: str, options: str, said: str) -> None:
    (tmp_path / "a.ptx").write_text(kernel())
    (tmp_path / "b.ptx").write_text(b)
    launch = "--grid 1 --block 64 --arg out:float32:64 --arg out:float32:64"
    code, out, err = tcsim("verify", f"{tmp_path}/a.ptx", f"{tmp_path}/b.ptx", *launch.split(), *options.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_the_example_of_the_docs_is_a_test(tmp_path: Path) -> None:
    """The block of docs/kernels.md that pytest would collect runs, and fails for a kernel that is not equal."""
    page = (ROOT / "docs" / "kernels.md").read_text()
    (block,) = (text for text in re.findall(r"```py\n(.*?)```", page, re.DOTALL) if "def test_" in text)
    names: dict[str, object] = {}
    exec(compile(block, "docs/kernels.md", "exec"), names)
    (test,) = (value for name, value in names.items() if name.startswith("test_"))
    assert callable(test)
    names["BEFORE"] = names["AFTER"] = tmp_path / "k.ptx"
    (tmp_path / "k.ptx").write_text(kernel())
    test()
    names["AFTER"] = tmp_path / "other.ptx"
    (tmp_path / "other.ptx").write_text(kernel(barrier=""))
    with pytest.raises(AssertionError, match="in B alone"):
        test()
