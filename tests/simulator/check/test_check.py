"""`tcsim check`: a trace for every group of undefined cases with its fixed twin, the two rule sets of order, and random
programs."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isa import IsaError, decode
from isa.undefined import RULES
from simulator.check import check
from simulator.check.accesses import Partition, touches
from simulator.check.order import check_order
from simulator.check.order_result import Result
from simulator.check.rules import CHECK_RULES, ORDER_RULES, UNDEFINED_FIXES, markdown
from simulator.errors import TraceError
from simulator.execute.events import Event, Region
from tests.support.cases import examples, over
from tests.support.paths import TESTS

Tcsim = Callable[..., tuple[int, str, str]]
FOLDER = TESTS / "check_traces"
TRACES = sorted(FOLDER.glob("[0-9]*.trace"))
READABLE = [path for path in TRACES if "expect: refused" not in path.read_text()]


def expected(path: Path) -> list[str]:
    found = re.search(r"^// expect: (.+)$", path.read_text(), re.MULTILINE)
    assert found
    return sorted(found[1].split(", "))


def twin(path: Path, folder: Path) -> Path:
    """The trace with its fix: lines that begin with //+ come in, those that end with //- go."""
    lines = [re.sub(r"^//\+", "   ", line) for line in path.read_text().splitlines() if not line.endswith("//-")]
    fixed = folder / path.name
    fixed.write_text("\n".join(lines) + "\n")
    return fixed


# One trace for each case, and its twin


@over("path", READABLE, ids=lambda path: path.stem)
def test_each_trace_is_found(path: Path) -> None:
    report = check(path)
    assert sorted(finding.rule for finding in report.findings) == expected(path)
    lines = path.read_text().splitlines()
    for finding in report.findings:
        assert finding.fix
        assert finding.states in (
            CHECK_RULES[finding.rule].rule if finding.rule in CHECK_RULES else RULES[finding.rule].rule
        )
        assert re.match(r" {4}(@%p\d )?[a-z]", lines[finding.line - 1]), "a finding names the line of an instruction"
        if finding.other:
            later, earlier = (lines[at - 1].split("//")[0] for at in (finding.line, finding.other))
            assert finding.what.split()[0] in later
            assert any(word in earlier for word in finding.what.split()[3:])
            assert f"line {finding.other}" in finding.what or f"line {finding.other}" in finding.fix


@over("path", TRACES, ids=lambda path: path.stem)
@over("ptx", ["9.0", "9.4"])
def test_each_twin_is_clean(path: Path, ptx: str, tmp_path: Path) -> None:
    report = check(twin(path, tmp_path), ptx)
    assert not report.findings
    assert report.events > 0


@over("path", [path for path in READABLE if set(expected(path)) <= set(ORDER_RULES)], ids=lambda path: path.stem)
def test_the_advice_is_what_the_twin_inserts(path: Path) -> None:
    inserted = " ".join(line for line in path.read_text().splitlines() if line.startswith("//+"))
    for finding in check(path).findings:
        if finding.rule in ORDER_RULES:
            names = {".".join(quoted.split()[0].split(".")[:2]) for quoted in re.findall(r"'([^']+)'", finding.fix)}
            assert any(name in inserted for name in names), finding.fix


MESSAGES = {
    1: ("01_metadata", "undefined-metadata", "code 0b0000"),
    2: ("02_selector", "idesc", "selector"),
    3: ("03_odd_column", "tmem-alignment", "column 17 is not the first of a pair"),
    4: ("04_lanes", "tmem-alignment", "d is at lane 16"),
    5: ("05_idesc", "idesc", "sparse"),
    6: ("06_smem_descriptor", "smem-descriptor", "version"),
    7: ("07_scale_ids", "scale-ids", "scale factor id 1 with 2 factors"),
    8: (
        "08_overwritten",
        "missing-commit",
        "of shared memory, which tcgen05.mma.cta_group::1.kind::f16 of line 22 reads as B",
    ),
    9: ("09_lane_vector", "", "09_lane_vector.trace:23:69: operand lanes has 5 registers"),
    10: ("10_peer_exited", "peer-exited", "CTA 1 ends without having waited for tcgen05.mma"),
    11: ("11_leak", "tmem-leak", "32 columns from column 0 on of CTA 0 are never given back"),
    12: ("12_quarter", "warp-quarter", "of warp 0 at lane 32"),
    13: ("13_fence_after", "missing-fence-after", "no tcgen05.fence::after_thread_sync stands between"),
    14: ("14_zero_mask", "zero-column-mask", "a shift of 24 with M = 32"),
    15: ("15_overlap", "tmem-overlap", "metadata and D of tcgen05.mma.sp"),
}


@over("group", range(1, 16))
def test_the_message_of_each_group(group: int, tcsim: Tcsim) -> None:
    name, rule, words = MESSAGES[group]
    code, out, err = tcsim("check", FOLDER / f"{name}.trace")
    assert code == (1 if rule else 2)
    assert words in (out if rule else err)
    assert f": {rule}: " in out if rule else not out


def test_what_the_decoder_refuses_names_its_line(tcsim: Tcsim) -> None:
    code, out, err = tcsim("check", FOLDER / "10_groups.trace")
    assert (code, out) == (2, "")
    assert ".cta_group::2 beside .cta_group::1 of line 20" in err
    assert "10_groups.trace:23" in err


# Two rule sets


def test_single_buffered_metadata() -> None:
    """A copy into the buffer that the mma before it reads: only PTX 9.4 orders it."""
    assert not check(FOLDER / "order_single_buffer.trace", "9.4").findings
    found = check(FOLDER / "order_single_buffer.trace", "9.0").findings
    assert {finding.rule for finding in found} == {"missing-commit"}
    assert any(
        "as metadata" in finding.what and "PTX 9.4 orders this pair within a warp" in finding.what for finding in found
    )


def test_copy_and_product_of_two_warps() -> None:
    """Fences and a barrier between cp and mma: enough for PTX 9.0, not for 9.4."""
    assert not check(FOLDER / "order_two_warps.trace", "9.0").findings
    (found,) = check(FOLDER / "order_two_warps.trace", "9.4").findings
    assert found.rule == "missing-commit"
    assert "PTX 9.4 pipelines instructions of one warp alone" in found.what


@pytest.mark.parametrize("link", ["tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync"])
def test_the_fences_between_two_warps_are_needed(link: str, tmp_path: Path) -> None:
    text = (FOLDER / "order_two_warps.trace").read_text()
    before, mark, program = text.rpartition(".warp 1 {") if "before" in link else text.partition(".warp 1 {")
    changed = (
        before + mark + program.replace(link + ";", "")
        if "before" in link
        else before.replace(link + ";", "", 1) + mark + program
    )
    (tmp_path / "x.trace").write_text(changed)
    rules = {finding.rule for finding in check(tmp_path / "x.trace").findings}
    assert rules == {"missing-fence-before" if "before" in link else "missing-fence-after"}


def test_another_version_is_refused(tcsim: Tcsim) -> None:
    with pytest.raises(IsaError, match=r"no rules of order for PTX '8\.0'"):
        check_order([], ptx="8.0")
    assert tcsim("check", FOLDER / "13_commit.trace", "--ptx", "8.0")[0] == 2


# The command line


def test_formats(tcsim: Tcsim) -> None:
    path = FOLDER / "13_commit.trace"
    findings = check(path).findings
    code, table, _ = tcsim("check", path)
    assert code == 1
    assert f"{path}:{findings[0].line}: missing-commit" in table
    assert f"{path}:{findings[0].other}" in table
    loaded = json.loads(tcsim("check", path, "--format", "json")[1])
    assert [row["line"] for row in loaded["findings"]] == [finding.line for finding in findings]
    rows = list(csv.DictReader(io.StringIO(tcsim("check", path, "--format", "csv")[1])))
    assert [(row["rule"], int(row["line"]), int(row["other"]), row["fix"]) for row in rows] == [
        (f.rule, f.line, f.other, f.fix) for f in findings
    ]


def test_exit_codes(tcsim: Tcsim, tmp_path: Path) -> None:
    assert tcsim("check", twin(FOLDER / "13_commit.trace", tmp_path))[0] == 0
    assert tcsim("check", FOLDER / "13_commit.trace")[0] == 1
    assert tcsim("check", tmp_path / "none.trace")[0] == 2
    (tmp_path / "bad.trace").write_text(
        '.trace 1\n.target sm_100a\n.warps 1\n.load %r0, "none.npz", "a";\n.warp 0 { }\n'
    )
    code, out, err = tcsim("check", tmp_path / "bad.trace")
    assert (code, out) == (2, "")
    assert "bad.trace:4" in err
    with pytest.raises(TraceError):
        check(tmp_path / "bad.trace")


def test_ordinary_races_have_both_lines(tmp_path: Path) -> None:
    """A race of two warps that use no asynchronous instruction, which a run only counts."""
    text = (
        ".trace 1\n.target sm_90a\n.warps 2\n.shared 64\n.warp 0 {\nst.shared.b32 [%r0], %r1;\n}\n.warp 1 "
        "{\nld.shared.b32 %r1, [%r0];\n}\n"
    )
    (tmp_path / "x.trace").write_text(text)
    races = [finding for finding in check(tmp_path / "x.trace").findings if finding.rule == "shared-memory-race"]
    assert [(finding.line, finding.other) for finding in races] == [(9, 6)]
    (tmp_path / "x.trace").write_text(
        text.replace("%r1;\n}", "%r1;\nbar.sync 0;\n}").replace("ld.", "bar.sync 0;\nld.")
    )
    assert not [finding for finding in check(tmp_path / "x.trace").findings if finding.rule == "shared-memory-race"]


def test_the_digits_layer_has_no_findings() -> None:
    assert not check("digits/f16").findings


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("mbarrier.arrive.shared::cta.b64 _, [%r0];", "barrier-use"),
        ("mbarrier.init.shared::cta.b64 [%r0], 1;", "aligned-threads"),
        ("ld.shared.b32 %r1, [%r0+1];", "misaligned-address"),
        ("ld.shared.b32 %r1, [%r0+4096];", "shared-memory-bounds"),
        ("barrier.cluster.wait.aligned;", "barrier-use"),
        ("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r0+600];", "tmem-bounds"),
        ("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r1}, [%r0];", "tmem-not-allocated"),
    ],
)
def test_what_stops_a_run_has_a_rule(line: str, rule: str, tmp_path: Path) -> None:
    (tmp_path / "x.trace").write_text(
        f".trace 1\n.target sm_100a\n.warps 1\n.shared 64\n.warp 0 {{\nmov.u32 %r0, 0;\n{line}\n}}\n"
    )
    assert [(finding.rule, finding.line) for finding in check(tmp_path / "x.trace").findings] == [(rule, 7)]


def test_every_rule_is_stated() -> None:
    assert not set(CHECK_RULES) & set(RULES)
    assert set(UNDEFINED_FIXES) <= set(RULES)
    assert all(rule.rule and rule.section and (rule.fix or name in ORDER_RULES) for name, rule in CHECK_RULES.items())


# Random programs, as logs


TEXTS = {
    "mma": "tcgen05.mma.cta_group::1.kind::f16 [%r0], %rd0, %rd1, %r1, 0;",
    "cp": "tcgen05.cp.cta_group::1.128x128b [%r0], %rd0;",
    "ld": "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r0}, [%r1];",
    "st": "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r1], {%r0};",
    "store": "st.shared.b32 [%r0], %r1;",
    "wait::ld": "tcgen05.wait::ld.sync.aligned;",
    "wait::st": "tcgen05.wait::st.sync.aligned;",
    "before": "tcgen05.fence::before_thread_sync;",
    "after": "tcgen05.fence::after_thread_sync;",
    "proxy": "fence.proxy.async.shared::cta;",
    "bar": "bar.sync 0;",
    "init": "mbarrier.init.shared::cta.b64 [%r0], 1;",
    "commit": "tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%r0];",
    "try": "mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r0], 0;",
}
DECODED = {name: decode(text, "sm_100a") for name, text in TEXTS.items()}
WARPS = 3
SINGLE = ("mma", "cp", "store", "init", "commit")


def event(name: str, warp: int, line: int, reads: Sequence[Region] = (), writes: Sequence[Region] = ()) -> Event:
    """One event of a warp; what one thread does is done by lane 0."""
    instruction = DECODED[name]
    mask = 1 if name in SINGLE else (1 << 32) - 1
    return Event(instruction.form.opcode, instruction, 0, ((warp, mask),), line, tuple(reads), tuple(writes))


def cells(space: str, first: int, count: int, role: str) -> Region:
    return Region(space, 0, np.arange(first, first + count), role)


def operation(name: str, warp: int, line: int, first: int, count: int) -> Event:
    """An instruction on cells `first` on of Tensor Memory, and on the bytes of the same numbers where it uses shared
    memory."""
    tmem, shared = cells("tmem", first, count, "cells"), cells("shared", first, count, "bytes")
    if name == "mma":
        operands = (shared._replace(role="B"), shared._replace(role="A"))
        return event(name, warp, line, operands, (tmem._replace(role="D"),))
    if name == "cp":
        return event(name, warp, line, (shared,), (tmem,))
    if name == "store":
        return event(name, warp, line, (), (shared,))
    return event(name, warp, line, (tmem,) if name == "ld" else (), (tmem,) if name == "st" else ())


def links(name: str, warp: int, line: int) -> list[tuple[str, Event]]:
    """Everything that orders one instruction before whatever comes later, named; the mbarrier is one of its own."""
    own = Region("mbarrier", 0, np.array([8 * line]))
    steps: list[tuple[str, Event]] = []
    if name in ("mma", "cp"):
        steps += [
            ("commit", event("commit", warp, line + 1, (), (own,))),
            ("try", event("try", warp, line + 2, (own,))),
        ]
        steps += [("after", event("after", warp, line + 3))]
    elif name in ("ld", "st"):
        steps += [(f"wait::{name}", event(f"wait::{name}", warp, line + 1))]
    else:
        steps += [("proxy", event("proxy", warp, line + 1))]
    steps += [("before", event("before", each, line + 4)) for each in range(WARPS)]
    steps += [("bar", event("bar", each, line + 5)) for each in range(WARPS)]
    return [*steps, *(("after", event("after", each, line + 6)) for each in range(WARPS))]


def initialised(lines: Sequence[int]) -> list[Event]:
    """mbarriers for all of them, made by warp 0, and a barrier."""
    made = [event("init", 0, 1, (), (Region("mbarrier", 0, np.array([8 * line])),)) for line in lines]
    return [*made, *(event("bar", warp, 2) for warp in range(WARPS))]


KINDS = ("mma", "cp", "ld", "st", "store")
STEP = st.tuples(st.sampled_from(KINDS), st.integers(0, WARPS - 1), st.integers(0, 40), st.integers(1, 24))
EVERYTHING = {0: np.arange(128)}


def run(events: list[Event], ptx: str) -> Result:
    return check_order(events, ptx=ptx, warps=WARPS, written=EVERYTHING)


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(STEP, max_size=12), st.sampled_from(["9.0", "9.4"]))
def test_full_synchronisation_is_clean(steps: list[tuple[str, int, int, int]], ptx: str) -> None:
    events = initialised([10 * (at + 1) for at in range(len(steps))])
    for at, (name, warp, first, count) in enumerate(steps):
        line = 10 * (at + 1)
        events += [operation(name, warp, line, first, count), *(step for _, step in links(name, warp, line))]
    result = run(events, ptx)
    assert [result.missing, result.unwritten, result.strays, result.unfinished] == [{}, {}, {}, []]


EXPECTED = {
    "commit": "missing-commit",
    "try": "missing-mbarrier-wait",
    "wait::ld": "missing-wait-ld",
    "wait::st": "missing-wait-st",
    "proxy": "missing-proxy-fence",
    "bar": "missing-thread-sync",
    "before": "missing-fence-before",
    "after": "missing-fence-after",
}


def needed(first: str, second: str, same: bool, link: str) -> bool:
    """Whether, of two instructions on the same cells, the second may not rely on the first without this link; written
    down case by case."""
    tmem, shared = {"mma": "w", "cp": "w", "ld": "r", "st": "w"}, {"mma": "r", "cp": "r", "store": "w"}
    in_tmem = "w" in (tmem.get(first, "") + tmem.get(second, "")) and first in tmem and second in tmem
    in_shared = "w" in (shared.get(first, "") + shared.get(second, "")) and first in shared and second in shared
    if link == "proxy":
        return first == "store" and second in ("mma", "cp")
    if link == "bar":
        return not same and (in_tmem or in_shared)
    if link in ("commit", "try", "wait::ld", "wait::st"):
        return in_tmem or in_shared
    if link == "before":  # a commit stands for it
        return in_tmem and not same and first in ("ld", "st")
    return in_tmem and (not same or first in ("mma", "cp"))  # after


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(STEP, max_size=4), STEP, STEP, st.sampled_from(sorted(EXPECTED)), st.sampled_from(["9.0", "9.4"]))
def test_a_link_that_is_gone_is_reported(
    prefix: list[tuple[str, int, int, int]],
    one: tuple[str, int, int, int],
    two: tuple[str, int, int, int],
    link: str,
    ptx: str,
) -> None:
    """Two instructions at the end with cells in common: without one link a finding of its name exactly where the link
    is needed."""
    count = len(prefix)
    events = initialised([10 * (at + 1) for at in range(count + 2)])
    for at, (name, warp, first, size) in enumerate(prefix):
        events += [
            operation(name, warp, 10 * (at + 1), first, size),
            *(step for _, step in links(name, warp, 10 * (at + 1))),
        ]
    line, later = 10 * (count + 1), 10 * (count + 2)
    (name, warp, first, size), (second, other, _, width) = one, two
    pipelined = (name, second) in (("mma", "mma"), ("cp", "mma")) or (
        ptx == "9.4" and {name, second} <= {"ld", "st"} and warp == other
    )
    events += [operation(name, warp, line, first, size)]
    events += [step for which, step in links(name, warp, line) if which != link]
    events += [operation(second, other, later, first, width), *(step for _, step in links(second, other, later))]
    result = run(events, ptx)
    rules = {missing.link.value for missing in result.missing.values() if missing.ends.before.line == line}
    if not pipelined:
        present = link in dict(links(name, warp, line))
        name_of_it = "shared-memory-race" if name == second == "store" else EXPECTED[link]
        assert rules == ({name_of_it} if present and needed(name, second, warp == other, link) else set())
    assert all(
        missing.ends.before.line == line and missing.ends.after.line == later for missing in result.missing.values()
    )


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 90), st.integers(1, 40)), min_size=1, max_size=12))
def test_atoms_are_exactly_the_regions(regions: list[tuple[bool, int, int]]) -> None:
    """The partition, against sets of numbers."""
    log = [operation("st" if writes else "ld", 0, 1, first, count) for writes, first, count in regions]
    partition = Partition([touches(item) for item in log], {})
    for at, (_, first, count) in enumerate(regions):
        (touch,) = partition.of(at, 0)
        assert set(partition.cells(touch, sorted(touch.atoms)).tolist()) == set(range(first, first + count))
        for atom in touch.atoms:
            inside = set(partition.cells(touch, [atom]).tolist())
            assert inside
            for _, other, size in regions:
                assert inside <= set(range(other, other + size)) or not inside & set(range(other, other + size))


# mbarriers: phases and counts


def arrive(
    warp: int, line: int, offset: int, text: str = "mbarrier.arrive.shared::cta.b64 _, [%r0];", mask: int = 1
) -> Event:
    instruction = decode(text, "sm_100a")
    return Event(
        instruction.form.opcode, instruction, 0, ((warp, mask),), line, (), (Region("mbarrier", 0, np.array([offset])),)
    )


def two_arrivals(count: str, arrivals: Sequence[Event]) -> Result:
    """Warp 0 stores, some arrive, warp 1 waits for phase 0 and stores to the same bytes."""
    instruction = decode(f"mbarrier.init.shared::cta.b64 [%r0], {count};", "sm_100a")
    init = Event(instruction.form.opcode, instruction, 0, ((2, 1),), 1, (), (Region("mbarrier", 0, np.array([0])),))
    log = [init, *(event("bar", warp, 2) for warp in range(WARPS)), operation("store", 0, 3, 0, 4), *arrivals]
    return run(
        [*log, event("try", 1, 8, (Region("mbarrier", 0, np.array([0])),)), operation("store", 1, 9, 0, 4)], "9.0"
    )


def test_an_arrival_of_the_next_phase_orders_nothing() -> None:
    assert not two_arrivals("1", [arrive(0, 4, 0)]).missing
    late = two_arrivals("1", [arrive(2, 4, 0), arrive(0, 5, 0)])
    # the phase of one arrival is over with that of warp 2; warp 0's belongs to phase 1, which is over as well, and the
    # wait is for phase 0
    assert {missing.link.value for missing in late.missing.values()} == {"shared-memory-race"}


def test_arrivals_are_counted_by_thread() -> None:
    every = (1 << 32) - 1
    assert not two_arrivals("33", [arrive(0, 4, 0, mask=every), arrive(2, 5, 0)]).missing
    assert two_arrivals("33", [arrive(2, 4, 0, mask=every)]).missing, "a phase that is not over releases nothing"


def test_a_relaxed_arrival_releases_what_a_fence_covers() -> None:
    relaxed = "mbarrier.arrive.relaxed.cta.shared::cta.b64 _, [%r0];"
    assert two_arrivals("1", [arrive(0, 4, 0, relaxed)]).missing
    fence = decode("fence.acq_rel.cta;", "sm_100a")
    fenced = Event(fence.form.opcode, fence, 0, ((0, 1),), 4)
    assert not two_arrivals("1", [fenced, arrive(0, 5, 0, relaxed)]).missing


def test_a_commit_speaks_for_its_own_thread() -> None:
    """The mma of lane 0 and the tcgen05.commit of lane 1."""
    own = Region("mbarrier", 0, np.array([80]))
    mma, commit = operation("mma", 0, 10, 0, 4), event("commit", 0, 11, (), (own,))
    after = [event("try", 0, 12, (own,)), event("after", 0, 13), operation("ld", 0, 14, 0, 4), event("wait::ld", 0, 15)]
    assert not run([*initialised([10]), mma, commit, *after], "9.0").missing
    late = run([*initialised([10]), mma, commit._replace(threads=((0, 2),)), *after], "9.0")
    assert {missing.link.value for missing in late.missing.values()} == {"missing-commit"}


def test_a_relaxed_wait_acquires_at_the_next_fence() -> None:
    wait = decode("mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 %p0, [%r0], 0;", "sm_100a")
    fence = decode("fence.acq_rel.cta;", "sm_100a")
    place = Region("mbarrier", 0, np.array([80]))
    log = [*initialised([10]), operation("store", 0, 3, 0, 4), arrive(0, 4, 80)]
    log += [Event(wait.form.opcode, wait, 0, ((1, 1),), 5, (place,))]
    store = operation("store", 1, 7, 0, 4)
    assert run([*log, store], "9.0").missing
    assert not run([*log, Event(fence.form.opcode, fence, 0, ((1, 1),), 6), store], "9.0").missing


def test_the_table_of_rules_is_in_the_docs() -> None:
    assert markdown() in (FOLDER.parent.parent / "docs" / "check.md").read_text()


@pytest.mark.parametrize("part", [slice(0, None, 3), pytest.param(slice(None), marks=pytest.mark.exhaustive)])
def test_no_wait_of_the_digits_layer_is_idle(tmp_path: Path, part: slice) -> None:
    """The shipped tcgen05 trace is clean, and without any one of its waits, commits and barriers it is not."""
    folder = FOLDER.parent.parent / "traces" / "digits"
    lines = (folder / "f16_tcgen05.trace").read_text().splitlines()
    (tmp_path / "f16_tcgen05.npz").symlink_to(folder / "f16_tcgen05.npz")
    assert not check(folder / "f16_tcgen05.trace").findings
    needed_lines = [
        at
        for at, line in enumerate(lines)
        if re.match(r" *(@%p\d )?(tcgen05\.(wait::|commit)|mbarrier\.try_wait|bar\.sync)", line)
    ]
    assert len(needed_lines) > 8
    for at in needed_lines[part]:
        (tmp_path / "x.trace").write_text("\n".join([*lines[:at], "", *lines[at + 1 :]]))
        assert check(tmp_path / "x.trace").findings, f"line {at + 1}: {lines[at]}"
