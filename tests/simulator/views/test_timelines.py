"""Timelines and stalls: both formats hold to their descriptions, nothing is lost or counted twice, and recording
changes no cycle."""

from __future__ import annotations

import csv
import doctest
import gzip
import io
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import simulator
import simulator.studies.roofline
import simulator.views.timeline
from isa.forms.record import Unit
from simulator.compiler.compile import compile_code
from simulator.compiler.timed_code import StallReason, by_warp
from simulator.errors import DeadlockError, ViewError
from simulator.program import load
from simulator.simulation.listing import listing_of_program
from simulator.timing.recorder import Recorder
from simulator.timing.result import Timing
from simulator.timing.run import simulate
from simulator.views.timeline import Timeline, chrome, kanata
from simulator.views.timeline.stalls import CAUSES, VIEWS
from tests.simulator.timing import test_engine as engine
from tests.simulator.timing import test_tcgen05 as tcgen05
from tests.support.cases import examples, exhaustive, over
from tests.support.timeline_formats import check_chrome, check_kanata

Tcsim = Callable[..., tuple[int, str, str]]
TRACES = [
    ("digits/f16", "h100_sxm"),
    ("digits/s8", "a100"),
    ("digits/f16_tcgen05", "b200"),
    ("digits/f16_tcgen05_pair", "b200"),
]
STALL, ISSUE = "stall", "issue"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


def written(timeline: Timeline) -> tuple[dict[tuple[str, str], list[dict[str, Any]]], dict[int, dict[str, Any]]]:
    """Both files, checked."""
    document = {"displayTimeUnit": "ns", "traceEvents": list(chrome.events(timeline))}
    return check_chrome(json.loads(json.dumps(document))), check_kanata("\n".join(kanata.lines(timeline)) + "\n")


def check_whole(timeline: Timeline) -> None:
    """A timeline of a whole run: what it shows adds up to what the run counted."""
    slices, rows = written(timeline)
    timing, cores = timeline.timing, timeline.config.sm.sub_cores
    taken: Counter[tuple[int, int | None, str]] = Counter()
    for busy in timeline.recorder.taken:
        taken[busy.sm, busy.core, busy.name] += busy.end - busy.begin
    for warp, waits in timing.waits.items():
        process = f"SM {timeline.sm(warp)} ({timeline.config.name}, CTA {timeline.sm(warp)})"
        filled = slices[process, f"warp {warp % timeline.sm_warps}"]
        assert [a["end"] for a in filled] == [*(b["begin"] for b in filled[1:]), timing.cycles]
        assert filled[0]["begin"] == 0
        counts = dict.fromkeys(CAUSES, 0)
        for entry in filled:
            counts[entry["args"]["cause"] if entry["cat"] == STALL else "issued"] += entry["end"] - entry["begin"]
        assert counts == dict(zip(CAUSES, waits, strict=True))
        results = [
            entry
            for (where, name), found in slices.items()
            if where == process
            for entry in found
            if name.split(" results")[0] == f"warp {warp % timeline.sm_warps}" and "results" in name
        ]
        assert len(results) == waits[StallReason.ISSUED]
        assert len([row for row in rows.values() if row["thread"] == warp]) == waits[StallReason.ISSUED]
    for core, (tensor, alu) in enumerate(timing.busy):
        assert taken[core // cores, core, "tensor"] == tensor
        assert taken[core // cores, core, "alu"] == alu
    assert max(taken[sm, None, "shared memory"] for sm in range(len(timeline.ctas))) == timing.shared_busy
    for sm, (unit, _) in enumerate(timing.tcgen05_busy):
        assert taken[sm, None, "tcgen05"] == unit
    for core, path in enumerate(timing.tmem_busy):
        assert taken[core // cores, core, "tmem"] == path
    check_rows(timeline, rows)


def check_rows(timeline: Timeline, rows: dict[int, dict[str, Any]]) -> None:
    """Each row of the Kanata log is one issue: its stages follow one another, and its producer was done when it
    issued."""
    issues = sorted((issue.warp, issue.cycle) for issue in timeline.recorder.issues if issue.cycle < timeline.last)
    assert (
        sorted((row["thread"], next(b for name, b, _ in row["stages"] if name in "XQ")) for row in rows.values())
        == issues
    )
    for row in rows.values():
        assert all(before[2] == after[1] for before, after in pairwise(row["stages"]))
        assert row["stages"][0][1] == row["begin"]
        assert row["stages"][-1][0] == "X"
        assert row["stages"][-1][2] == row["retired"]
        for producer in row["producers"]:
            assert rows[producer]["thread"] == row["thread"]
            assert rows[producer]["begin"] <= row["begin"]


def check_stalls(timeline: Timeline) -> None:
    """Every view sums to cycles x warps, cause by cause."""
    stalls, waits = timeline.stalls, timeline.timing.waits
    wanted = (
        dict(zip(CAUSES, map(sum, zip(*waits.values(), strict=True)), strict=True))
        if waits
        else dict.fromkeys(CAUSES, 0)
    )
    assert stalls.total == timeline.timing.cycles * len(waits)
    for view in VIEWS:
        rows = stalls.views[view]
        assert {cause: sum(row.cycles[cause] for row in rows) for cause in CAUSES} == wanted
        assert sum(row.total for row in rows) == stalls.total
        assert sum(row.issues for row in rows) == wanted["issued"]
        assert all(cycles >= 0 for row in rows for cycles in row.cycles.values())


@over(("trace", "config"), TRACES, distinct=lambda trace, config: "tcgen05" in trace)
def test_shipped_traces(trace: str, config: str) -> None:
    timeline = Timeline()
    report = simulator.run(trace, config, arithmetic="none", timeline=timeline)
    assert replace(report, arrays={}) == replace(
        simulator.run(trace, config, arithmetic="none"), skipped_cycles=0, arrays={}
    )
    check_whole(timeline)
    check_stalls(timeline)
    skipped = Timeline(0, 0)
    simulator.run(trace, config, arithmetic="none", timeline=skipped)
    assert skipped.stalls == timeline.stalls
    assert not skipped.recorder.issues


def recorded(
    folder: Path, text: str, variant: engine.Variant, seed: int, vary: bool, timeline: Timeline, skip: bool
) -> Timing | None:
    codes, warps, costs, total = engine.prepared(folder, text, seed, vary)
    if total > 20_000:
        return None
    config, timed = variant.config, []
    for code in codes:
        tables = {
            op.index: by_warp(code.warps, engine.np.array(costs[id(code), op.index]))  # type: ignore[attr-defined]
            for op in code.operations
            if engine.unit_of(op) == "shared"
        }
        timed.append(compile_code(code, config, tables))
    timing = simulate(config, timed, warps, skip=skip, observer=timeline.recorder)
    assert replace(timing, skipped=0) == replace(engine.simulated(config, codes, warps, costs, skip=skip), skipped=0)
    timeline.close(listing_of_program("case", load(folder / "case.trace"), codes), config, timing)
    return timing


@exhaustive
@given(engine.programs(60), engine.VARIANTS, st.integers(0, 2**32 - 1), st.booleans())
@settings(engine.QUIET, max_examples=examples(15, 2))
def test_stalls_of_random_programs(folder: Path, text: str, variant: engine.Variant, seed: int, vary: bool) -> None:
    """They sum, whatever runs, and repetitions that are skipped count as those that are simulated."""
    found = []
    for skip in (True, False):
        timeline = Timeline(0, 0)
        if recorded(folder, text, variant, seed, vary, timeline, skip) is None:
            return
        check_stalls(timeline)
        found.append(timeline.stalls)
    assert found[0] == found[1]


@exhaustive
@given(engine.programs(6), engine.VARIANTS, st.integers(0, 2**32 - 1), st.booleans())
@settings(engine.QUIET, max_examples=examples(40, 3))
def test_timelines_of_random_programs(folder: Path, text: str, variant: engine.Variant, seed: int, vary: bool) -> None:
    timeline = Timeline(0, 1_000_000)  # more than any of these takes
    timing = recorded(folder, text, variant, seed, vary, timeline, True)
    if timing is not None:
        assert timing.skipped == 0
        check_whole(timeline)
        check_stalls(timeline)


@exhaustive
@given(engine.programs(10), engine.VARIANTS, st.integers(0, 2**32 - 1), st.integers(0, 300), st.integers(1, 300))
@settings(engine.QUIET, max_examples=examples(20, 2))
def test_windows_of_random_programs(
    folder: Path, text: str, variant: engine.Variant, seed: int, first: int, length: int
) -> None:
    """A window shows what the whole shows there, and the run after it may skip."""
    whole, part = Timeline(), Timeline(first, first + length)
    if recorded(folder, text, variant, seed, False, whole, False) is None:
        return
    recorded(folder, text, variant, seed, False, part, True)
    assert part.stalls == whole.stalls
    slices, rows = written(part)
    check_rows(part, rows)
    cut = {(*place, entry["name"], max(entry["begin"], first), min(entry["end"], first + length))
           for place, found in written(whole)[0].items() for entry in found
           if entry["cat"] in (STALL, ISSUE) and entry["begin"] < first + length and entry["end"] > first}  # fmt: skip
    shown = {(*place, entry["name"], entry["begin"], entry["end"]) for place, found in slices.items() for entry in found
             if entry["cat"] in (STALL, ISSUE)}  # fmt: skip
    assert shown <= cut
    missing = {entry for entry in cut - shown if entry[2] != "finished"}
    assert all(entry[4] == first + length for entry in missing)  # a stall that no issue has ended yet
    issued = {(issue.warp, issue.cycle) for issue in whole.recorder.issues if first <= issue.cycle < first + length}
    assert {(issue.warp, issue.cycle) for issue in part.recorder.issues if issue.cycle < first + length} == issued


@exhaustive
@given(tcgen05.programs(80), tcgen05.VARIANTS)
@settings(tcgen05.QUIET, max_examples=examples(50))
def test_stalls_of_random_tcgen05_programs(made: tcgen05.Programs, variant: tcgen05.Variant) -> None:
    """Waits that others end, commits, full queues: the ledger sums to the warps' waits, skipped or not."""
    config, ledgers = variant.config, []
    for skip, window in ((True, (0, 0)), (False, (0, 0)), (True, (100, 700))):
        recorder = Recorder(window)
        codes = tcgen05.codes_of(tcgen05.fresh(made), config)
        try:
            timing = simulate(config, codes, made.warps, ctas=made.ctas, skip=skip, observer=recorder)
        except DeadlockError:
            return
        ledger = recorder.ledgers()
        sums = [
            sum(row[cause] for rows in ledger for row in rows)
            for cause in StallReason
            if cause is not StallReason.FINISHED
        ]
        assert sums == [
            sum(row[cause] for row in timing.waits.values())
            for cause in StallReason
            if cause is not StallReason.FINISHED
        ]
        ledgers.append(ledger)
    assert ledgers[0] == ledgers[1] == ledgers[2]


# By hand


def run(folder: Path, body: str, warps: int = 1, first: int = 0, last: int = 1000) -> Timeline:
    timeline = Timeline(first, last)
    path = engine.write(folder, f"{engine.HEAD}.warps {warps}\n.shared 1024\n.warp 0-{warps - 1} {{\n{body}\n}}\n")
    simulator.run(path, engine.H100, arithmetic="none", timeline=timeline)
    return timeline


def test_a_chain_by_hand(folder: Path) -> None:
    """Two matrix instructions, the second needs the first's result: one stall, one arrow."""
    timeline = run(folder, f"{engine.s(0)}\n{engine.s(4, c=0)}")
    latency = engine.L
    slices, rows = written(timeline)
    process = "SM 0 (h100_sxm, CTA 0)"
    warp = [(entry["name"], entry["begin"], entry["end"]) for entry in slices[process, "warp 0"]]
    name = "mma.sp m16n8k32 f16"
    assert warp == [
        (name, 0, 1),
        ("wait: dependency", 1, latency),
        (name, latency, latency + 1),
        ("finished", latency + 1, 2 * latency),
    ]
    first, second = slices[process, "warp 0 results"]
    assert (first["begin"], first["end"], second["begin"], second["end"]) == (0, latency, latency, 2 * latency)
    assert first["args"]["ptx"] == timeline.entry(0, 0).text
    assert second["args"]["waited"] == {"dependency": latency - 1}
    assert second["args"]["waited for"] == "line 6, issued in cycle 0"
    assert "%r0" in second["args"]["reads"].split()
    assert second["args"]["writes"].split() == ["%r4", "%r5", "%r6", "%r7"]
    busy = [(entry["begin"], entry["end"]) for entry in slices[process, "sub-core 0 tensor pipe"]]
    assert busy == [(0, engine.SLOW.interval), (latency, latency + engine.SLOW.interval)]
    arrows = [event for event in chrome.events(timeline) if event["ph"] in "sf"]
    assert [(event["ph"], round(event["ts"] * 1000)) for event in arrows] == [("s", latency - 1), ("f", latency)]
    assert rows[1]["stages"] == [("dependency", 1, latency), ("X", latency, 2 * latency)]
    assert rows[1]["producers"] == [0]
    assert rows[0]["label"].startswith("w0 line 6: mma.sp.sync")
    by_line = {row.name: row.cycles for row in timeline.stalls.rows("line")}
    assert by_line[7]["dependency"] == latency - 1
    assert by_line[6]["dependency"] == 0
    assert by_line[0]["finished"] == latency - 1


def test_a_barrier_counts_for_its_line(folder: Path) -> None:
    timeline = run(folder, "mov.u32 %r0, 1;\nbar.sync 0;\nmov.u32 %r1, 1;", warps=8)
    rows = {row.name: row for row in timeline.stalls.rows("line")}
    assert rows[7].cycles["barrier"] == sum(row[StallReason.BARRIER] for row in timeline.timing.waits.values()) > 0
    assert rows[6].cycles["barrier"] == rows[8].cycles["barrier"] == 0
    (phase,) = written(timeline)[0]["SM 0 (h100_sxm, CTA 0)", "barrier 0"]
    arrivals = [issue.cycle for issue in timeline.recorder.issues if issue.unit is Unit.BARRIER]
    assert phase["name"] == "8 warps"
    assert (phase["begin"], phase["args"]["last"]) == (min(arrivals), max(arrivals))


@pytest.mark.parametrize("count", [100, 3000])
def test_a_barrier_before_a_loop_and_one_in_it(folder: Path, count: int) -> None:
    """They look alike to the engine, which may skip from one to the other; the lines that wait are two."""
    loop = f".warp 0 {{ .repeat {count} {{ mov.u32 %r0, 1; }} }}\n"
    text = f"{engine.HEAD}.warps 3\n{loop}.warp 1-2 {{\nbar.sync 1, 64;\n.repeat 50 {{\nbar.sync 1, 64;\n}}\n}}\n"
    found = []
    for skip in (True, False):
        timeline = Timeline(0, 0)
        simulator.run(engine.write(folder, text), engine.FREE_LOOPS, arithmetic="none", skip=skip, timeline=timeline)
        found.append(timeline)
    assert found[0].timing.skipped > 0
    assert found[0].stalls == found[1].stalls


def test_a_loop_end_counts_for_the_last_instruction_of_the_body(folder: Path) -> None:
    timeline = run(folder, f".repeat 30000 {{\nmov.u32 %r0, 1;\n{engine.d(4)}\n}}", last=500)
    rows = {row.name: row for row in timeline.stalls.rows("line")}
    assert rows[8].cycles["branch"] > 30_000
    assert rows[7].cycles["branch"] == 0
    assert rows[8].issues == 30_000
    assert timeline.cut
    assert timeline.timing.skipped > 0.9 * timeline.timing.cycles
    assert all(issue.cycle < 500 or issue.stalls[0].begin < 500 for issue in timeline.recorder.issues)
    check_stalls(timeline)


def test_counters_are_shares(folder: Path) -> None:
    """A pipe that is always taken reads 100 %, for the sub-core of one warp in four."""
    timeline = run(
        folder, f".repeat 100 {{ {engine.s(0)} {engine.s(4)} {engine.s(8)} {engine.s(12)} }}", warps=4, last=10_000
    )
    counters = [event for event in chrome.events(timeline) if event["ph"] == "C"]
    assert {event["name"] for event in counters} == {"instructions per cycle", "tensor pipe taken, %"}
    shares = [event["args"]["value"] for event in counters if event["name"].startswith("tensor")]
    interval = engine.SLOW.interval
    assert max(shares) == pytest.approx(100, abs=5)
    width = round(counters[1]["ts"] * 1000)
    assert sum(shares) * width / 100 == pytest.approx(400 * interval, rel=0.01)


def test_equal_runs_give_equal_files(tmp_path: Path) -> None:
    suffixes = ("json", "json.gz", "log", "log.gz")
    for place in ("a", "b"):
        timeline = Timeline(50, 250)
        simulator.run("digits/tf32", arithmetic="none", timeline=timeline)
        for suffix in suffixes:
            path = tmp_path / f"{place}.{suffix}"
            (timeline.write_chrome if "json" in suffix else timeline.write_kanata)(path)
    for suffix in suffixes:
        first, second = ((tmp_path / f"{place}.{suffix}").read_bytes() for place in "ab")
        assert first == second
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()) == (tmp_path / "a.json").read_bytes()
    document = json.loads((tmp_path / "a.json").read_text())
    check_chrome(document)
    assert document["otherData"]["unit of time"] == "1 ns is 1 cycle"
    assert document["otherData"]["cycles shown"] == "50 to 250"
    check_kanata(gzip.decompress((tmp_path / "a.log.gz").read_bytes()).decode())


@pytest.mark.parametrize("window", [(-1, 5), (5, 5), (6, 5)])
def test_no_such_window(window: tuple[int, int]) -> None:
    with pytest.raises(ViewError, match="legal"):
        Timeline(*window)


def test_a_timeline_is_of_one_run() -> None:
    timeline = Timeline(0, 100)
    simulator.run("digits/s8", arithmetic="none", timeline=timeline)
    with pytest.raises(ViewError, match="another run"):
        simulator.run("digits/s8", arithmetic="none", timeline=timeline)
    with pytest.raises(ViewError, match="without a config"):
        simulator.run("digits/s8", config=None, timeline=Timeline())


# Command line


def test_run_writes_both(tcsim: Tcsim, tmp_path: Path) -> None:
    files = tmp_path / "x.json", tmp_path / "x.log.gz"
    code, out, err = tcsim(
        "run",
        "digits/f16",
        "--arithmetic",
        "none",
        "--timeline",
        files[0],
        "--kanata",
        files[1],
        "--timeline-cycles",
        "0:3000",
    )
    assert code == 0
    assert out.startswith("digits/f16")
    assert "cycles 0 to before 3,000 of " in err
    slices = check_chrome(json.loads(files[0].read_text()))
    assert {process for process, _ in slices} == {"SM 0 (h100_sxm, CTA 0)"}
    assert check_kanata(gzip.decompress(files[1].read_bytes()).decode())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.json", "x.log.gz"]


@over(
    ("arguments", "words"),
    [
        (
            ("run", "digits/f16", "--timeline", "/nowhere/at/all/x.json"),
            ("/nowhere/at/all/x.json", "cannot be written"),
        ),
        (("run", "digits/f16", "--kanata", "/nowhere/at/all/x.log"), ("/nowhere/at/all/x.log", "cannot be written")),
        (("run", "digits/f16", "--timeline-cycles", "5:5", "--timeline", "x.json"), ("5:5", "FIRST:LAST")),
        (("run", "digits/f16", "--timeline-cycles", "5", "--timeline", "x.json"), ("'5'", "FIRST:LAST")),
        (("run", "digits/f16", "--timeline-cycles", "5:9"), ("--timeline-cycles without a timeline",)),
        (("run", "digits/f16", "--config", "none", "--timeline", "x.json"), ("without a config",)),
        (("stalls",), ("TRACE",)),
        (("stalls", "nothing.trace"), ("nothing.trace",)),
        (("stalls", "digits/f16", "--config", "none"), ("without a config",)),
        (("stalls", "digits/f16", "--by", "thread"), ("thread", "sub-core")),
        (("stalls", "digits/f16", "--worst", "0"), ("'0'", "1 or more")),
    ],
)
def test_bad_use(
    tcsim: Tcsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = tcsim(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert all(word in err for word in words)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("by", VIEWS)
def test_stalls_on_the_command_line(tcsim: Tcsim, by: str) -> None:
    """Table, JSON and CSV say the same."""
    arguments = ("stalls", "digits/f16_tcgen05", "--config", "b200", "--by", by, "--format")
    document = json.loads(tcsim(*arguments, "json")[1])
    rows = list(csv.DictReader(io.StringIO(tcsim(*arguments, "csv")[1])))
    assert [int(row[by]) for row in rows] == [row[by] for row in document["rows"]]
    assert sum(int(row["cycles"]) for row in rows) == document["cycles"] * document["warps"]
    for row, record in zip(rows, document["rows"], strict=True):
        assert {cause: int(row[cause]) for cause in CAUSES} == record["cycles"]
        assert sum(record["cycles"].values()) == record["total"] == int(row["cycles"])
    assert {cause: sum(record["cycles"][cause] for record in document["rows"]) for cause in CAUSES} == document["all"]
    table = tcsim(*arguments, "table")[1].splitlines()
    assert len(table) == len(rows) + 5
    assert [line.split()[2] for line in table[3:-2]] == [f"{int(row['cycles']):,}" for row in rows]


def test_the_worst_lines_come_first(tcsim: Tcsim) -> None:
    everything = json.loads(tcsim("stalls", "digits/f16", "--format", "json")[1])["rows"]
    worst = json.loads(tcsim("stalls", "digits/f16", "--format", "json", "--worst", "3")[1])["rows"]
    assert [row["total"] for row in worst] == sorted((row["total"] for row in everything), reverse=True)[:3]


@pytest.mark.parametrize("module", [simulator.views.timeline, simulator.studies.roofline])
def test_examples_of_the_modules(module: Any) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
