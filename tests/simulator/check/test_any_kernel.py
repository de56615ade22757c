"""Kernels that nobody has captured: a PTX file and its arguments, checked against any reference, and kept as a capture;
and the findings as SARIF."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import isa
import simulator
from simulator.check.launch_finding import LaunchCheck, LaunchFinding, Side
from simulator.check.reference import with_reference
from simulator.check.sarif import launch_sarif
from simulator.numpy_expression import ExpectationError, evaluate
from tests.support.paths import GOLDEN

Tcsim = Callable[..., tuple[int, str, str]]
HEAD = ".version 8.6\n.target sm_80\n.address_size 64\n"
SCALE = f"""{HEAD}.visible .entry scale(.param .u64 x, .param .u64 y, .param .f32 by, .param .b32 n) {{
  .reg .pred %p<2>; .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .b64 %rd<8>;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mad.lo.u32 %r1, %r2, 32, %r1;
  ld.param.u32 %r3, [n];
  setp.ge.u32 %p1, %r1, %r3;
  @%p1 ret;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd3, [y];
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd1, %rd1, %rd2;
  add.u64 %rd3, %rd3, %rd2;
  ld.param.f32 %f1, [by];
  ld.global.f32 %f2, [%rd1];
  mul.f32 %f3, %f2, %f1;
  st.global.f32 [%rd3], %f3;
  ret;
}}
"""
LAUNCH = "--grid 2 --block 32 --arg x=x.npy --arg y=out:float32:8x8 --arg by=2 --arg n=64"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the kernel, one that adds in place of it, and arrays; it is where commands run."""
    monkeypatch.chdir(tmp_path)
    Path("scale.ptx").write_text(SCALE)
    Path("add.ptx").write_text(SCALE.replace("mul.f32 %f3", "add.f32 %f3"))
    x = np.linspace(-4, 4, 64, dtype=np.float32)
    np.save("x.npy", x)
    np.savez("all.npz", x=x, y=(2 * x).reshape(8, 8))
    return tmp_path


# A reference from anywhere


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("", 0),
        ("--expect y=all.npz:y", 0),
        ("--expect y=x.npy", 1),
        ("--expect y=x*by", 0),
        ("--expect y=(x*by).reshape(8,8)", 0),
        ("--expect y=x.astype(float64)*2.0001", 1),
        ("--expect y=x.astype(float64)*2.0001 --rtol 1e-3", 0),
        ("--expect y=x*2+1e-3 --atol 1e-4", 1),
        ("--expect y=x*2+1e-3 --atol 2e-3", 0),
        ("--expect-from scale.ptx", 0),
        ("--expect-from add.ptx", 1),
        ("--expect-from add.ptx --atol 100", 0),
    ],
)
def test_a_kernel_is_compared_with_any_reference(tcsim: Tcsim, folder: Path, options: str, code: int) -> None:
    answer, out, err = tcsim("check", "scale.ptx", *LAUNCH.split(), *options.split(), "--format", "json")
    assert (answer, err) == (code, ""), out + err
    report = json.loads(out)
    assert report["compared"] == bool(options)
    assert [each["rule"] for each in report["findings"]] == ["wrong-result"] * code


def test_a_reference_takes_the_place_of_captured_results(tcsim: Tcsim, folder: Path) -> None:
    assert tcsim("launch", "scale.ptx", *LAUNCH.split(), "--save-capture", "kept")[0] == 0
    assert tcsim("check", "kept/scale.json")[0] == 0
    code, out, _ = tcsim("check", "kept/scale.json", "--expect", "y=x+by")
    assert code == 1
    assert "results of all are wrong" in out
    assert "as expected" in tcsim("check", "kept/scale.json", "--expect", "y=x*by")[1]


REFUSED = {
    "check scale.ptx --block 32": "without --grid",
    "check scale.ptx": "without --grid",
    "check scale.ptx --grid 2 --block 32 --arg x=x.npy": "1 arguments for the 4 parameters",
    "check nothing.ptx --grid 1 --block 1": "nothing.ptx is not there",
    "check x.npy --grid 1 --block 1": "x.npy",
    "check digits/s8 --expect y=x": "--expect with a trace",
    f"check scale.ptx {LAUNCH} --expect y": "--expect D=d.npy",
    f"check scale.ptx {LAUNCH} --expect z=x": "no buffer 'z'; legal: x, y",
    f"check scale.ptx {LAUNCH} --expect y=x[:5]": "has shape 5",
    f"check scale.ptx {LAUNCH} --expect y=nothing.npy": "nothing.npy",
    f"check scale.ptx {LAUNCH} --expect y=all.npz:w": "has no array 'w'",
    f"check scale.ptx {LAUNCH} --expect y=x@": "is no expression",
    f"check scale.ptx {LAUNCH} --expect-from x.npy": "x.npy",
    f"check scale.ptx {LAUNCH} --rtol -1": "is no tolerance",
    f"check scale.ptx {LAUNCH.replace('y=out:float32:8x8', 'y=out:float32:8x8:9,9,9')}": "81 elements, of 64",
    f"check scale.ptx {LAUNCH.replace('n=64', 'n=map:type=f32,size=64,box=32:')}": "names no array",
    "stalls scale.ptx": "without --grid",
    "stalls digits/s8 --machine-code k.sass": "with a trace",
    f"launch scale.ptx {LAUNCH} --save-capture nowhere/at/all": "no such folder",
    f"verify scale.ptx nothing.ptx {LAUNCH}": "nothing.ptx is not there",
    f"verify scale.ptx kept.json {LAUNCH}": "as B",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_cannot_be_is_one_line(tcsim: Tcsim, folder: Path, line: str) -> None:
    before = sorted(folder.rglob("*"))
    code, out, err = tcsim(*line.split())
    assert (code, out, err.count("\n")) == (2, "", 1), out + err
    assert REFUSED[line] in err
    assert sorted(folder.rglob("*")) == before


# Expressions


def test_expressions_are_those_of_numpy() -> None:
    rng = np.random.default_rng(61)
    a, b = rng.standard_normal((2, 6, 6), dtype=np.float32)
    values = {"A": a, "B": b, "alpha": 0.5, "n": 6}
    for text, right in {
        "A.astype(float32) @ B": a @ b,
        "maximum(alpha * (A @ B.T) - 1, 0)": np.maximum(0.5 * (a @ b.T) - 1, 0),
        "np.einsum('ij,jk->ik', A, B)[1:, ::2]": (a @ b)[1:, ::2],
        "where(A > 0, A, -A).sum(axis=1, keepdims=True) / n": np.abs(a).sum(axis=1, keepdims=True) / 6,
        "concatenate([A, zeros((2, n))])[..., None]": np.concatenate([a, np.zeros((2, 6))])[..., None],
        "A.view(uint32) & 0xFFFF": a.view(np.uint32) & 0xFFFF,
    }.items():
        assert np.allclose(evaluate(text, values), right, 1e-5), text


@pytest.mark.parametrize(
    "text",
    [
        "A.__class__", "A.tofile('x')", "A.dump('x')", "open('x')", "__import__('os')", "np.load('x')",
        "np.save('x', A)",
        "(lambda: 1)()", "[a for a in A]", "A.ctypes", "A.astype.__self__", "exec('1')", "9**9**9", "1 << 99999",
        "'%d' % 3", "maximum(A, A, out=A)", "add(A, A, A)", "f'{A}'", "A if A else A", "(A := 3)", "f(*A)",
        "float('x')", "A @ A[:, :2].T", "A[99]", "_", "", "(" * 400, "A\0",
    ],
)  # fmt: skip
def test_everything_else_is_refused(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    a = np.ones((3, 3), np.float32)
    with pytest.raises(ExpectationError):
        evaluate(text, {"A": a})
    assert (a == 1).all()
    assert not list(tmp_path.iterdir())


def test_a_reference_must_be_of_the_buffers_shape_and_type(folder: Path) -> None:
    capture = (
        simulator.Module("scale.ptx")
        .get_function()
        .capture(2, 32, (np.zeros(64, np.float32), np.zeros((8, 8), np.int32), 2, 64))
    )
    assert with_reference(capture, {"y": np.arange(64.0)}).after["y"].dtype == np.int32
    for wrong in (np.zeros((4, 16)), np.full(64, 0.5), np.zeros(8), np.array("x"), [[1], [1, 2]]):
        with pytest.raises(ExpectationError, match="reference of 'y'"):
            with_reference(capture, {"y": wrong})


# Captures


def test_a_call_becomes_a_capture_and_comes_back(folder: Path) -> None:
    kernel = simulator.Module("scale.ptx", fmad=False).get_function()
    x, y = np.load("x.npy"), np.zeros((8, 8), np.float32)
    capture = kernel.capture(
        (2,), 32, (x, y, 2.0, -1), names=("x", "y", "by", "n"), outputs=["y"], declared={"y": (7, 6, 8)}
    )
    results = simulator.launch(capture).arrays
    whole = replace(capture, after=results)
    back = simulator.read_capture(simulator.write_capture(whole, folder / "kept"))
    for name in ("entry", "target", "grid", "block", "cluster", "dynamic_shared", "params", "fmad", "names"):
        assert getattr(back, name) == getattr(capture, name), name
    assert dict(back.buffers) == dict(capture.buffers)
    assert back.buffers["y"].declared == (7, 6, 8)
    assert back.buffers["y"].zero
    assert list(back.before) == ["x"]
    assert np.array_equal(back.before["x"], x)
    assert np.array_equal(back.after["y"], results["y"])
    assert back.text == SCALE
    assert not y.any()  # nothing has run on the caller's arrays
    assert not simulator.launch(back).differences


def test_a_capture_with_tensor_maps_and_fixed_addresses_comes_back(tmp_path: Path) -> None:
    """Its maps, which the file described by their fields, are bytes then."""
    first = simulator.read_capture(GOLDEN / "launches" / "triton_matmul_mma.json")
    again = simulator.read_capture(simulator.write_capture(first, tmp_path / "again.json"))
    assert (again.buffers, again.params) == (first.buffers, first.params)
    assert not simulator.launch(again).differences


def test_tensor_maps_of_a_call(tmp_path: Path) -> None:
    """One array, two maps: the array is one buffer, and each map has its address."""
    text = f"""{HEAD.replace("sm_80", "sm_90a")}.visible .entry k(.param .align 64 .b8 a[128],
      .param .align 64 .b8 b[128], .param .u64 d) {{
      .reg .b64 %rd<4>; ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [d]; st.global.u64 [%rd2], %rd1; ret; }}"""
    kernel = simulator.Module(text).get_function()
    array, d = np.zeros((64, 64), np.float16), np.zeros(1, np.uint64)
    tensor = isa.TensorMap("f16", size=(64, 64), stride_bytes=(128,), box=(64, 8))
    capture = kernel.capture(1, 1, ((tensor, array), (tensor, array), d))
    assert list(capture.buffers) == ["a", "d"]
    back = simulator.read_capture(simulator.write_capture(capture, tmp_path))
    addresses = {isa.TensorMap.decode(value).address for kind, value in back.params if kind == "bytes"}
    assert addresses == {back.buffers["a"].address}
    assert simulator.launch(back).arrays["d"][0] == next(iter(addresses))


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("declared", [8, 9, 8], "9 columns at a leading dimension of 8"),
        ("declared", [9, 8, 8], "72 elements, of 64"),
        ("declared", [8, 8], "rows, columns, leading dimension"),
        ("names", ["x"], "a list of 4 names"),
        ("fmad", 1, "true or false"),
    ],
)
def test_what_a_capture_cannot_say(folder: Path, key: str, value: object, said: str) -> None:
    capture = simulator.Module("scale.ptx").get_function().capture(2, 32, (np.ones(64), np.ones(64), 2, 64))
    path = simulator.write_capture(capture, folder / "c.json")
    content = json.loads(path.read_text())
    (content["buffers"]["x"] if key == "declared" else content)[key] = value
    path.write_text(json.dumps(content))
    with pytest.raises(simulator.CaptureError, match=said):
        simulator.read_capture(path)


def test_nothing_is_written_where_a_part_cannot_be(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    capture = simulator.Module("scale.ptx").get_function().capture(2, 32, (np.zeros(64), np.zeros(64), 2, 64))

    def full(*_: object) -> None:
        raise OSError("no room")

    monkeypatch.setattr("simulator.program.capture_writer.write_arrays", full)
    with pytest.raises(OSError, match="no room"):
        simulator.write_capture(capture, folder / "half.json")
    assert not list(folder.glob("*half*"))


def test_declared_shapes_and_archives_on_the_command_line(tcsim: Tcsim, folder: Path) -> None:
    launch = LAUNCH.replace("x=x.npy", "x=all.npz:x:8,6,8").replace("8x8", "8x8:8,6,8")
    line = ("launch", "scale.ptx", *launch.split(), "--save-capture", "kept.json")
    assert tcsim(*line)[0] == 0
    capture = simulator.read_capture("kept.json")
    assert capture.buffers["x"].declared == capture.buffers["y"].declared == (8, 6, 8)
    assert capture.buffers["x"].data(capture.before["x"]).shape == (8, 6)
    filled = with_reference(capture, {"y": "x * by"})
    assert np.array_equal(filled.after["y"][:, :6], 2 * capture.before["x"].reshape(8, 8)[:, :6])
    assert not filled.after["y"][:, 6:].any()


def test_stalls_of_a_kernel_are_those_of_its_capture(tcsim: Tcsim, folder: Path) -> None:
    assert tcsim("launch", "scale.ptx", *LAUNCH.split(), "--save-capture", ".")[0] == 0
    code, out, _ = tcsim("stalls", "scale.ptx", *LAUNCH.split())
    assert code == 0
    assert out == tcsim("stalls", "scale.json")[1]
    assert Path("scale.ptx").read_text() == SCALE


# Python


def test_a_kernel_checks_a_call(folder: Path) -> None:
    kernel = simulator.Module("scale.ptx").get_function()
    x, y = np.load("x.npy"), np.zeros(64, np.float32)
    assert kernel.check(2, 32, (x, y, 2.0, 64), expect={"y": 2 * x}).clean
    wrong = kernel.check(2, 32, (x, y, 2.0, 64), expect={"y": 2.001 * x})
    assert [each.rule for each in wrong.findings] == ["wrong-result"]
    assert kernel.check(2, 32, (x, y, 2.0, 64), expect={"y": 2.001 * x}, rtol=0.01).clean
    assert [each.rule for each in kernel.check(2, 32, (x, y[:32], 2.0, 64)).findings] == ["out-of-bounds"]
    assert not y.any()


def test_the_package_checks_traces_and_launches() -> None:
    check: Any = simulator.check
    assert check("digits/s8").findings == ()
    assert check(GOLDEN / "planted" / "bug0.json").clean


# Verdicts


def finding(rule: str, *, serious: bool) -> LaunchFinding:
    return LaunchFinding(
        rule, 7, "k.cu:3", "st.shared.u32 [%r1], %r2;", "CTA (0, 0, 0)", "what", "fix", serious=serious
    )


@pytest.mark.parametrize(
    ("rules", "ctas", "text"),
    [
        ("", (3, 3), "c: clean (3 CTAs of k watched; results of all as in the capture)\n"),
        ("note", (3, 3), "clean, 1 note (3 CTAs of k watched; results of all as in the capture)\n"),
        ("note", (3, 9), "no findings in c, 1 note (3 of 9 CTAs of k watched; results of all as in the capture)\n"),
        ("error", (3, 3), "1 finding (3 CTAs of k watched; results of all as in the capture)\n"),
        ("error note", (3, 3), "1 finding and 1 note (3 CTAs of k watched; results of all as in the capture)\n"),
    ],
)
def test_a_launch_with_notes_alone_is_clean(rules: str, ctas: tuple[int, int], text: str) -> None:
    findings = tuple(finding("bank-conflict", serious=word == "error") for word in rules.split())
    check = LaunchCheck("c", "k", ctas, findings)
    assert check.table().splitlines(keepends=True)[-1] == text
    assert check.clean == ("error" not in rules)


def test_benign_races_are_shown_on_request() -> None:
    check = LaunchCheck("c", "k", (1, 1), (finding("benign-race", serious=False),))
    assert check.table() == "c: clean, 1 note (1 CTA of k watched; results of all as in the capture)\n"
    assert "note: benign-race" in check.table(notes=True)
    assert [len(json.loads(check.json(notes=notes))["findings"]) for notes in (False, True)] == [0, 1]


# SARIF 2.1.0, OASIS Standard: what it requires of the objects that are written


def check_sarif(log: dict[str, Any]) -> list[dict[str, Any]]:
    """The results of a log whose objects have what the standard requires."""
    assert log["version"] == "2.1.0"  # 3.13.2
    assert log["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = log["runs"]  # 3.13.4
    driver = run["tool"]["driver"]  # 3.14.6, 3.18.2
    assert driver["name"]  # 3.19.8
    identifiers = [rule["id"] for rule in driver["rules"]]  # 3.49.3
    assert len(set(identifiers)) == len(identifiers)  # 3.19.23
    for rule in driver["rules"]:
        for key in ("shortDescription", "fullDescription", "help"):
            assert rule[key]["text"]  # 3.12.3: a multiformatMessageString has a text
        assert rule["defaultConfiguration"]["level"] in ("none", "note", "warning", "error")  # 3.50.3
    assert all(type(each["executionSuccessful"]) is bool for each in run["invocations"])  # 3.20.14
    for result in run["results"]:
        assert result["message"]["text"]  # 3.27.11, 3.11.8
        assert result["ruleId"] == identifiers[result["ruleIndex"]]  # 3.27.5, 3.27.6
        assert result["level"] in ("none", "note", "warning", "error")  # 3.27.10
        assert result["occurrenceCount"] >= 1  # 3.27.16
        places = [*result["locations"], *result.get("relatedLocations", [])]
        for place in places:
            assert place["physicalLocation"]["region"]["startLine"] >= 1  # 3.30.5
            uri = place["physicalLocation"]["artifactLocation"]["uri"]  # 3.4.3: RFC 3986
            assert uri
            assert all(c.isalnum() or c in "-._~:/?#[]@!$&'()*+,;=%" for c in uri)
        numbers = [each["id"] for each in result.get("relatedLocations", [])]
        assert len(set(numbers)) == len(numbers)  # 3.28.2
    return list(run["results"])


def sarif_of(tcsim: Tcsim, *arguments: str) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    code, out, _ = tcsim("check", *arguments, "--format", "sarif")
    yield code, check_sarif(json.loads(out))


def test_sarif_of_a_launch_a_trace_and_of_nothing(tcsim: Tcsim, folder: Path) -> None:
    ((code, results),) = sarif_of(tcsim, str(GOLDEN / "planted" / "bug5.json"))
    assert code == 1
    assert results[0]["ruleId"] == "out-of-bounds"
    place = results[0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "spmm.cu"
    assert place["region"]["startLine"] > 1
    ((code, results),) = sarif_of(tcsim, "scale.ptx", *LAUNCH.split())
    assert (code, results) == (0, [])
    Path("race.trace").write_text(
        ".trace 1\n.target sm_90a\n.warps 2\n.shared 64\n.warp 0 {\nst.shared.u32 [%r0], %r1;\n}\n"
        ".warp 1 {\nld.shared.u32 %r2, [%r0];\n}\n"
    )
    ((code, results),) = sarif_of(tcsim, "race.trace")
    assert code == 1
    assert {each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in results} == {"race.trace"}


def test_sarif_shows_both_sides_of_a_race() -> None:
    other = Side(12, "my file.cu:9", "ld.shared", "CTA (0, 0, 0), warp 1", "reads", "bytes 0 to 3 of 's'")
    race = replace(finding("shared-memory-race", serious=True), other=other, also=(21,), count=5)
    (result,) = check_sarif(json.loads(launch_sarif(LaunchCheck("c", "k", (1, 1), (race,)), "a/k.ptx")))
    assert result["occurrenceCount"] == 5
    related = [
        (each["physicalLocation"]["artifactLocation"]["uri"], each["physicalLocation"]["region"]["startLine"])
        for each in result["relatedLocations"]
    ]
    assert related == [("a/k.ptx", 7), ("my%20file.cu", 9), ("a/k.ptx", 21)]
    assert "fix: fix" in result["message"]["text"]
