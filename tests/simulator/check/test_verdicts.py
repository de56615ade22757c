"""What `tcsim check` of a launch concludes: of how many CTAs, what counts as a finding, and with which exit code."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isa.undefined import RULES
from simulator.check import launches, watching
from simulator.check.launch_finding import LaunchCheck, LaunchFinding
from simulator.check.launches import check_launch
from simulator.check.rules import CHECK_RULES, LAUNCH_RULES, launch_markdown, launch_rule
from simulator.cli import check as verb
from simulator.program.capture import write_capture
from tests.support.cases import exhaustive
from tests.support.paths import GOLDEN, ROOT

Tcsim = Callable[..., tuple[int, str, str]]
LAUNCHES = GOLDEN / "launches"
HEAD = ".version 8.6\n.target sm_80\n.address_size 64\n"
REGISTERS = ".reg .pred %p<8>; .reg .b16 %rs<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>;\n"
INDEX = """\
ld.param.u64 %rd1, [D];
mov.u32 %r1, %tid.x;
mov.u32 %r2, %ctaid.x;
mov.u32 %r3, %ntid.x;
mad.lo.u32 %r4, %r2, %r3, %r1;
mul.wide.u32 %rd2, %r4, 4;
add.s64 %rd1, %rd1, %rd2;
"""


def captured(
    folder: Path,
    body: str,
    after: Mapping[str, np.ndarray[Any, Any]],
    ctas: int,
    threads: int = 32,
    target: str = "sm_80",
) -> Path:
    """A capture of a kernel whose thread has its place in D in %rd1 and its number in %r4."""
    declared = f"{REGISTERS}.shared .align 4 .b8 s[4096];\n"
    text = f"{HEAD.replace('sm_80', target)}.visible .entry k(.param .u64 D) {{\n{declared}{INDEX}{body}\nret;\n}}\n"
    before = {"D": np.zeros(ctas * threads, np.uint32)}
    params = [{"buffer": "D"}]
    return write_capture(folder / "c.json", text, "k", (ctas,), (threads,), params, before, after, target=target).path


NUMBERS = "st.global.u32 [%rd1], %r4;"


def numbers(ctas: int) -> np.ndarray[Any, Any]:
    return np.arange(32 * ctas, dtype=np.uint32)


def told(tcsim: Tcsim, path: Path) -> tuple[int, str, dict[str, Any]]:
    """Exit code, text and JSON."""
    code, out, _ = tcsim("check", str(path))
    again, data, _ = tcsim("check", str(path), "--format", "json")
    assert again == code
    return code, out, json.loads(data)


@pytest.mark.parametrize("least", [True, False])
@pytest.mark.parametrize("wrong", [None, 0, 77, 299])
def test_results_of_all_ctas_are_compared(
    tcsim: Tcsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: int | None, least: bool
) -> None:
    """Of 300 CTAs 64 were looked at, and the verdict was "clean", whatever the results."""
    if least:
        monkeypatch.setattr(watching, "WATCHED", 0)
    after = numbers(300)
    if wrong is not None:
        after[32 * wrong + 5] ^= 1
    code, out, data = told(tcsim, captured(tmp_path, NUMBERS, {"D": after}, 300))
    assert code == (0 if wrong is None else 1)
    assert data["ctas"] == ([64, 300] if least else [300, 300])
    assert (data["compared"], data["clean"]) == (True, wrong is None)
    assert ("64 of 300 CTAs of k watched" in out) == least
    assert ("clean" in out) == (wrong is None and not least)
    if wrong is None:
        assert "results of all as in the capture" in out
    else:
        assert data["findings"][0]["rule"] == "wrong-result"
        assert f"the first is [{32 * wrong + 5}]" in out


def test_errors_of_ctas_that_are_not_watched(tcsim: Tcsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "WATCHED", 0)
    body = f"setp.eq.u32 %p1, %r2, 298;\n@%p1 add.s64 %rd1, %rd1, 1048576;\n{NUMBERS}"
    code, out, data = told(tcsim, captured(tmp_path, body, {"D": numbers(300)}, 300))
    assert code == 1
    assert [finding["rule"] for finding in data["findings"]] == ["out-of-bounds"]
    assert "CTA (298, 0, 0), warp 0, lane 0" in out
    assert not data["compared"]
    assert "no results compared" in out


def test_a_capture_without_results(tcsim: Tcsim, tmp_path: Path) -> None:
    code, out, data = told(tcsim, captured(tmp_path, NUMBERS, {}, 3))
    assert (code, data["compared"]) == (0, False)
    assert out == "c: clean (3 CTAs of k watched; no results compared)\n"


def test_ctas_that_wait_for_others_come_with_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """CTAs of a chain that were spread over it waited for those that were left out."""
    monkeypatch.setattr(watching, "WATCHED", 0)
    monkeypatch.setattr("simulator.simulation.launch.batches.ROWS", 8)
    report = check_launch(LAUNCHES / "chain.json", ctas=3)
    assert report.ctas == (4, 8)
    assert report.findings == ()
    assert report.compared


# What counts

KINDS: dict[str, tuple[str, str, int]] = {  # body, rule, exit code
    "unwritten shared memory": (
        "mov.u32 %r5, s;\nld.shared.u32 %r6, [%r5];\nst.global.u32 [%rd1], %r6;", "read-before-write", 1,
    ),
    "a mask": ("setp.eq.u32 %p1, %r1, 0;\nvote.sync.ballot.b32 %r5, %p1, 15;", "warp-mask", 1),
    "an unwritten register": ("add.u32 %r4, %r7, %r4;\nst.global.u32 [%rd1], %r4;", "read-before-write", 1),
    "a race": (
        "mov.u32 %r5, s;\nst.shared.u32 [%r5], %r4;\nst.global.u32 [%rd1], %r4;", "shared-memory-race", 1,
    ),
    "an address": ("st.global.u32 [%rd1+1048576], %r4;", "out-of-bounds", 1),
    "an address of shared memory": ("mov.u32 %r5, s;\nst.shared.u32 [%r5+4096], %r4;", "shared-memory-bounds", 1),
    "an alignment": ("st.global.u32 [%rd1+1], %r4;", "misaligned-address", 1),
    "a deadlock": ("setp.lt.u32 %p1, %r1, 32;\n@%p1 bar.sync 0;\n@!%p1 bar.sync 1, 128;", "deadlock", 1),
    "a trap": ("trap;", "trap", 1),
    "a loop": ("L: add.u32 %r4, %r4, 1;\nbra L;", "instruction-budget", 1),
    "a shuffle": (
        "setp.lt.u32 %p1, %r1, 4;\n@!%p1 bra E;\nshfl.sync.idx.b32 %r5, %r4, 9, 31, 15;\nE: st.global.u32 [%rd1], 1;",
        "shuffle-from-inactive-thread", 1,
    ),
    "bank conflicts": (
        "shl.b32 %r6, %r1, 6;\nmov.u32 %r5, s;\nadd.u32 %r5, %r5, %r6;\nst.shared.u32 [%r5], %r4;\n" + NUMBERS,
        "bank-conflict", 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", list(KINDS))
def test_each_kind_has_the_exit_code_of_the_table(
    tcsim: Tcsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Reads of shared memory that nothing has written were printed, and ended with exit code 0."""
    body, rule, exit_code = KINDS[kind]
    check = check_launch
    monkeypatch.setattr(launches, "check_launch", lambda path, **options: check(path, budget=20_000, **options))
    threads = 32 if kind == "bank conflicts" else 64
    after = {"D": np.arange(2 * threads, dtype=np.uint32)} if exit_code == 0 else {}
    code, out, data = told(tcsim, captured(tmp_path, body, after, 2, threads))
    assert rule in {finding["rule"] for finding in data["findings"]}, out
    assert code == exit_code == LAUNCH_RULES[rule].exit
    assert data["clean"] == (code == 0)
    (finding,) = (each for each in data["findings"] if each["rule"] == rule)
    assert finding["serious"] == (code == 1)
    assert ("note: " in out) == (code == 0)
    assert ("1 note (" in out) == (code == 0)


def test_the_table_has_every_rule_that_launches_name() -> None:
    named: set[str] = set()
    for folder in ("simulation/launch", "state", "execute"):
        for path in (ROOT / "simulator" / folder).glob("*.py"):
            named.update(re.findall(r'(?:rule=|note_undefined\(|self\.note\()"([a-z0-9-]+)"', path.read_text()))
    before_it_runs = {
        "launch-geometry",
        "launch-cluster",
        "cooperative-launch",
        "launch-arguments",
        "overlapping-buffers",
        "unknown-kernel",
        "idesc",
    }
    assert named - before_it_runs <= set(LAUNCH_RULES)
    of_launches = {"branch-index", "assertion", "instruction-budget", "trap"}
    assert named - before_it_runs - of_launches <= {*CHECK_RULES, *RULES}
    assert {name for name in RULES if "metadata" in name} - {"undefined-metadata"} <= set(LAUNCH_RULES)
    assert {name for name, rule in LAUNCH_RULES.items() if not rule.counts} == {
        "bank-conflict",
        "barrier-paired",
        "benign-race",
        "mbarrier-parity",
        "mbarrier-phase-reused",
        "mbarrier-reinitialised",
        "undefined-metadata-of-zeros",
        "unused-unwritten",
    }
    assert all(launch_rule(name).counts for name in ("no-such-rule", "", "tmem-leak"))


def test_documentation_and_help_say_what_the_table_says() -> None:
    assert launch_markdown() in (ROOT / "docs" / "kernels.md").read_text()
    assert "1 findings" in verb.DESCRIPTION
    notes = verb.DESCRIPTION.partition("A bank conflict")[2]
    assert "a note and no finding" in " ".join(notes.split())
    for name, rule in LAUNCH_RULES.items():
        finding = LaunchFinding(name, 1, "", "", "", "what", "", serious=rule.counts)
        assert LaunchCheck("a", "k", (1, 1), (finding,)).clean == (rule.exit == 0)


@pytest.mark.parametrize("spelling", ["", ".release", ".relaxed"])
@pytest.mark.parametrize("late", [True, False])
def test_barriers_of_clusters_order_what_warps_do(tmp_path: Path, spelling: str, late: bool) -> None:
    """What was written before barrier.cluster raced with reads behind it, where the last thread to come waited for
    nobody. A read before the wait does race."""
    reads = "@!%p1 ld.shared.u32 %r6, [%r5];"
    between, behind = ("", reads) if late else (reads, "")
    body = f"""\
mov.u32 %r5, s;
setp.lt.u32 %p1, %r1, 32;
@%p1 st.shared.u32 [%r5], 7;
barrier.cluster.arrive{spelling}.aligned;
{between}
barrier.cluster.wait.aligned;
{behind}
st.global.u32 [%rd1], %r4;"""
    report = check_launch(captured(tmp_path, body, {"D": np.arange(64, dtype=np.uint32)}, 1, 64, "sm_90"))
    ordered = late and spelling != ".relaxed"  # which orders nothing without a fence
    assert [each.rule for each in report.findings if each.serious] == ([] if ordered else ["shared-memory-race"])


# Recorded launches, which are right


def test_what_reductions_at_barriers_write_is_written() -> None:
    """The launch `barriers` had four findings: the results of bar.red were taken for unwritten."""
    assert check_launch(LAUNCHES / "barriers.json").findings == ()


@pytest.mark.parametrize("spelling", ["bar.red", "barrier.red", "barrier.cta.red"])
@pytest.mark.parametrize("late", [True, False])
def test_every_form_of_a_reduction_at_a_barrier(tmp_path: Path, spelling: str, late: bool) -> None:
    """And a register that is read and has not been written is found there, too."""
    aligned = "" if spelling == "bar.red" else ".aligned"
    body = f"""\
setp.eq.u32 %p1, %r1, 3;
{"" if late else "setp.eq.u32 %p7, %r1, 3;"}
{spelling}.popc{aligned}.u32 %r5, 0, %p1;
{spelling}.and{aligned}.pred %p2, 1, 64, %p1;
{spelling}.or{aligned}.pred %p3, 0, !%p7;
selp.u32 %r6, 2, 0, %p2;
selp.u32 %r7, 1, 0, %p3;
add.u32 %r5, %r5, %r6;
add.u32 %r5, %r5, %r7;
st.global.u32 [%rd1], %r5;"""
    after = {"D": np.full(128, 2, np.uint32)}
    report = check_launch(captured(tmp_path, body, after, 2, 64))
    found = [(each.rule, each.what) for each in report.findings]
    what = "nothing has written %p7, operand c; it reaches global memory in line 23"
    assert found == ([("read-before-write", what)] if late else [])


SHORT = ("barriers", "barrier_rounds_sm80", "calls", "direct_one_warp", "divergence", "ops_int64", "prune_compress")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(path.stem, marks=() if path.stem in SHORT else exhaustive)
        for path in sorted(LAUNCHES.glob("*.json"))
        if path.stem != "f16_chip"  # for its time alone: its buffers are zeros, which are no metadata
    ],
)
def test_recorded_launches_have_no_findings(name: str) -> None:
    """Every finding would be a false one, but that half of the products of wgmma were given metadata at random, and
    that Triton initialises mbarriers twice and waits for a parity of -1: undefined by PTX, and a GPU does not mind."""
    report = check_launch(LAUNCHES / f"{name}.json", ctas=launches.CTAS)
    found = {finding.rule for finding in report.shown()}
    expected: set[str] = {rule for rule in LAUNCH_RULES if "metadata" in rule} if name.startswith("wgmma_") else set()
    if name == "triton_attention":
        expected = {"mbarrier-reinitialised", "mbarrier-parity"}
    assert found <= expected, report.table()
    assert report.compared


@pytest.mark.parametrize("early", [True, False])
def test_bar_arrive_orders_what_came_before_it(tmp_path: Path, early: bool) -> None:
    """Warp 1 stores and arrives, or arrives and stores; warp 0 waits at the barrier and reads."""
    store, arrive = "@%p1 st.shared.u32 [s], 7;", "@%p1 bar.arrive 1, 64;"
    first, second = (store, arrive) if early else (arrive, store)
    body = f"""setp.eq.u32 %p2, %r1, 32; setp.ge.u32 %p1, %r1, 32; @!%p1 bra READ;
    {first.replace("%p1 st", "%p2 st")} {second.replace("%p1 st", "%p2 st")} bra END;
    READ: bar.sync 1, 64; ld.shared.u32 %r5, [s]; st.global.u32 [%rd1], %r5; END:"""
    after = {"D": np.array([7] * 32 + [0] * 32, np.uint32)} if early else {}
    check = check_launch(captured(tmp_path, body, after, 1, 64))
    assert ("shared-memory-race" in {finding.rule for finding in check.findings}) == (not early), check.table()
