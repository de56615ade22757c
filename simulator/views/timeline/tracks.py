"""The rows and bars of a timeline, whatever draws them: `chrome` and `gantt` both write from these.

An SM's rows are, from top to bottom: units of the SM; mbarriers and barriers; then for each sub-core its units and its
warps. A warp has one row that its time fills (issues and stalls, by cause), and below it rows of instructions from
issue until the result is there, as many as it takes for slices not to overlap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from isa.forms.record import Unit
from simulator.compiler.timed_code import StallReason
from simulator.machine.observer import Issue, Stall
from simulator.timing.recorder import Busy
from simulator.views.timeline.recorded import RecordedRun

UNITS = {
    "tensor": "tensor pipe",
    "alu": "integer pipe",
    "shared": "port to shared memory",
    "tmem": "path to Tensor Memory",
    "tcgen05": "tcgen05 issue",
}
_CAUSES = {StallReason.ISSUE: "another warp"}


class Slice(NamedTuple):
    """A bar in a row.

    Attributes:
        name: the text to write on it.
        category: "unit" (it is busy), "issue", "stall", "instruction" (from issue until the result is there),
            "mbarrier" (a phase), "barrier".
        begin, end: cycles, from `begin` to before `end`.
        details: further facts, by name.
        issue: the instruction that it belongs to: for a stall the one that was to issue. None for barriers, for what
            comes after a program's last instruction, and for further instructions of a sequence.
    """

    name: str
    category: str
    begin: int
    end: int
    details: dict[str, Any]
    issue: Issue | None = None


@dataclass
class Track:
    """A row of the timeline.

    Attributes:
        sm: the SM whose row it is.
        name: the name of the row, which no other row of the SM has.
        core: the sub-core, counted over all SMs; None for what belongs to an SM.
        warp: the warp, numbered over all CTAs; None for units and barriers.
        slices: the bars in order of time.
    """

    sm: int
    name: str
    core: int | None = None
    warp: int | None = None
    slices: list[Slice] = field(default_factory=list)


class Arrow(NamedTuple):
    """An arrow from a result to an instruction that waited for it: the two rows, the last cycle of the one and the
    first of the other."""

    source: Track
    begin: int
    target: Track
    end: int


def tracks(timeline: RecordedRun) -> list[Track]:
    """The rows from top to bottom, those of an SM together; none is empty."""
    rows: list[Track] = []
    issues: dict[int, list[Issue]] = {warp: [] for warp in timeline.warps}
    for issue in timeline.recorder.issues:
        issues[issue.warp].append(issue)
    cores = timeline.config.sm.sub_cores
    for sm in range(len(timeline.ctas)):
        mine = [busy for busy in timeline.recorder.taken if busy.sm == sm]
        rows += _units(timeline, sm, None, [busy for busy in mine if busy.core is None])
        rows += _mbarriers(timeline, sm) + _barriers(timeline, sm)
        for core in range(sm * cores, (sm + 1) * cores):
            rows += _units(timeline, sm, core, [busy for busy in mine if busy.core == core])
            for warp in timeline.warps:
                if timeline.core(warp) == core:
                    rows += _warp(timeline, warp, issues[warp])
    return [track for track in rows if track.slices]


def arrows(timeline: RecordedRun, found: list[Track]) -> Iterator[Arrow]:
    """The arrows from each result that was waited for to the instruction that waited, in the order of issue."""
    lanes = {id(part.issue): track for track in found for part in track.slices if part.category == "instruction"}
    for issue in timeline.recorder.issues:
        producer = issue.producer
        if (
            producer is not None
            and id(issue) in lanes
            and id(producer) in lanes
            and producer.cycle < producer.done <= issue.cycle
        ):
            yield Arrow(lanes[id(producer)], producer.done - 1, lanes[id(issue)], issue.cycle)


def _units(timeline: RecordedRun, sm: int, core: int | None, taken: list[Busy]) -> list[Track]:
    """A row for each unit, in the order of `Unit`, followed by others by name."""
    order = [unit.name.lower() for unit in Unit]
    names = sorted(
        {busy.name for busy in taken}, key=lambda name: (order.index(name) if name in order else len(order), name)
    )
    rows = []
    for name in names:
        shown = name if core is None else f"sub-core {core % timeline.config.sm.sub_cores} {UNITS.get(name, name)}"
        pipes = _pipes([b for b in taken if b.name == name], timeline.config.sm.tensor_pipes if name == "tensor" else 1)
        for number, mine in enumerate(pipes):
            track = Track(sm, f"{shown} {number + 1}" if len(pipes) > 1 else shown, core)
            for busy in _disjoint(mine):
                about = timeline.about(busy.issue)
                details = {"warp": busy.issue.warp, "line": about.line, "issued": busy.issue.cycle}
                track.slices.append(Slice(about.short, "unit", busy.begin, busy.end, details, busy.issue))
            rows.append(track)
    return rows


def _pipes(taken: list[Busy], count: int) -> list[list[Busy]]:
    """The uses by the pipe that they take: the one that is free first."""
    pipes: list[list[Busy]] = [[] for _ in range(count)]
    for busy in sorted(taken, key=lambda b: b.begin) if count > 1 else taken:
        min(pipes, key=lambda pipe: pipe[-1].end if pipe and count > 1 else 0).append(busy)
    return pipes


def _disjoint(taken: list[Busy]) -> Iterator[Busy]:
    """The uses in order of time, without overlap: one that begins before the last one ends begins when that ends."""
    free = 0
    for busy in sorted(taken, key=lambda b: (b.begin, b.end)):
        if busy.end > free:
            yield busy._replace(begin=max(busy.begin, free))
            free = busy.end


def _warp(timeline: RecordedRun, warp: int, issues: list[Issue]) -> list[Track]:
    """The bars that fill the warp's time, and those of its results in flight."""
    shown = [issue for issue in issues if issue.cycle < timeline.last]
    state = Track(timeline.sm(warp), f"warp {warp % timeline.sm_warps}", timeline.core(warp), warp)
    stalls = [(stall, issue) for issue in issues for stall in issue.stalls] + [
        (stall, None) for stall in timeline.recorder.steps.get(warp, [])
    ]
    parts = [_stall(timeline, stall, issue) for stall, issue in stalls]
    for issue in shown:
        about = timeline.about(issue)
        parts.append(Slice(about.short, "issue", issue.cycle, issue.cycle + 1, {"line": about.line}, issue))
    state.slices = sorted(
        (part for part in (*parts, *_end(timeline, warp)) if part is not None), key=lambda part: part.begin
    )
    return [state, *_results(timeline, warp, shown)]


def _results(timeline: RecordedRun, warp: int, issues: list[Issue]) -> list[Track]:
    """Each instruction from issue until its result is there, in the first row that has room for it."""
    rows: list[Track] = []
    free: list[int] = []
    for issue in issues:
        place = next((i for i, end in enumerate(free) if end <= issue.cycle), len(free))
        if place == len(free):
            free.append(0)
            name = f"warp {warp % timeline.sm_warps} results{f' {place + 1}' if place else ''}"
            rows.append(Track(timeline.sm(warp), name, timeline.core(warp), warp))
        free[place] = issue.done
        about = _about(timeline, issue)
        rows[place].slices.append(
            Slice(timeline.about(issue).short, "instruction", issue.cycle, issue.done, about, issue)
        )
    return rows


def _about(timeline: RecordedRun, issue: Issue) -> dict[str, Any]:
    about = timeline.about(issue)
    details: dict[str, Any] = {
        "line": about.line,
        "ptx": about.text,
        "reads": about.reads,
        "writes": about.writes,
        "issued": issue.cycle,
        "result": issue.done,
    } | ({"source": about.source} if about.source else {})
    if issue.started > issue.cycle:
        details["started"] = issue.started
    if issue.stalls:
        details["waited"] = {stall.cause.name.lower(): stall.end - stall.begin for stall in issue.stalls}
    if issue.producer is not None:
        details["waited for"] = f"line {timeline.about(issue.producer).line}, issued in cycle {issue.producer.cycle}"
    return details


def _stall(timeline: RecordedRun, stall: Stall, issue: Issue | None) -> Slice | None:
    part = timeline.clipped(stall)
    if part is None:
        return None
    details = {"cause": stall.cause.name.lower(), "cycles": stall.end - stall.begin}
    name = (
        "finished"
        if stall.cause is StallReason.FINISHED
        else f"wait: {_CAUSES.get(stall.cause, stall.cause.name.lower())}"
    )
    return Slice(name, "stall", part.begin, part.end, details, issue)


def _end(timeline: RecordedRun, warp: int) -> Iterator[Slice | None]:
    """The wait with which a program ended, and the time after it; unknown behind a timeline that was cut off."""
    tail, recorder = timeline.recorder.tails.get(warp), timeline.recorder
    cycle = recorder.last.get(warp, -1) + 1
    if tail is not None:
        yield _stall(timeline, tail, None)
        cycle = tail.end
    if not timeline.cut:
        yield _stall(timeline, Stall(StallReason.FINISHED, cycle, timeline.timing.cycles), None)


def _mbarriers(timeline: RecordedRun, sm: int) -> list[Track]:
    """A row for each mbarrier that completed a phase: its phases."""
    rows: dict[str, Track] = {}
    began: dict[str, int] = {}
    for flip in timeline.recorder.flips:
        if flip.sm == sm:
            track = rows.setdefault(flip.name, Track(sm, flip.name.removeprefix("the ")))
            begin = began.get(flip.name, timeline.first)
            if flip.cycle > begin:
                track.slices.append(
                    Slice(f"phase of parity {flip.parity}", "mbarrier", begin, flip.cycle, {"complete": flip.cycle})
                )
            began[flip.name] = flip.cycle
    return [rows[name] for name in sorted(rows)]


def _barriers(timeline: RecordedRun, sm: int) -> list[Track]:
    """A row for each barrier (bar.sync): from the first arrival until the warps go on."""
    arrived: dict[int, Issue] = {}  # by warp: its last issue, if that was an arrival
    phases: dict[tuple[int, int], list[int]] = {}  # by barrier and end: cycles of arrivals
    for issue in timeline.recorder.issues:
        if timeline.sm(issue.warp) != sm:
            continue
        arrival = arrived.pop(issue.warp, None)
        ends = [stall.end for stall in issue.stalls if stall.cause is StallReason.BARRIER]
        barrier = timeline.about(arrival).barrier if arrival is not None else None
        if arrival is not None and barrier is not None and ends:
            phases.setdefault((barrier, ends[0]), []).append(arrival.cycle)
        if issue.unit is Unit.BARRIER:
            arrived[issue.warp] = issue
    rows = {number: Track(sm, f"barrier {number}") for number, _ in sorted(phases)}
    free = dict.fromkeys(rows, 0)
    for (number, end), cycles in sorted(phases.items(), key=lambda phase: phase[0][1]):
        begin = max(min(cycles), free[number])
        details = {"first": min(cycles), "last": max(cycles), "released": end}
        rows[number].slices.append(Slice(f"{len(cycles)} warps", "barrier", begin, end, details))
        free[number] = end
    return list(rows.values())
