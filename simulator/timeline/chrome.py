"""A timeline in Chrome's trace event format (JSON), for Perfetto or chrome://tracing. One cycle is shown as one nanosecond, so that
rulers read as cycles (Perfetto's finest zoom shows ten).

A process for each SM. Its threads, from top to bottom: units of the SM; mbarriers and barriers; then for each sub-core its units and its warps. A
warp has one thread that its time fills (issues and stalls, by cause) and below it threads of instructions from issue until the result is there, as
many as it takes for slices not to overlap. Arrows lead from an instruction to the one that waited for its result. Counters: instructions issued
in a cycle, and the share of cycles for which each unit was taken, over windows of equal length.

The format: docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (Trace Event Format): X slices with ts and dur in microseconds,
nested if they overlap on a thread; s and f flows bound to the slices around them; C counters; M names and order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from gzip import GzipFile
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from simulator.files import complete_or_gzip
from simulator.timing.model import Unit, Wait
from simulator.timing.recorder import Busy, Issue, Stall
from simulator.version import __version__

if TYPE_CHECKING:
    from simulator.timeline import Timeline

Event = dict[str, Any]
POINTS = 512  # of a counter, at most
_UNITS = {
    "tensor": "tensor pipe", "alu": "integer pipe", "shared": "port to shared memory", "tmem": "path to Tensor Memory", "tcgen05": "tcgen05 issue",
}  # fmt: skip
_CAUSES = {Wait.ISSUE: "another warp"}


def time(cycles: int) -> float:
    """Microseconds, such that 1000 times the number is right whether a reader rounds or, as Perfetto does, cuts off."""
    exact = cycles / 1000
    return exact if int(exact * 1000.0) == cycles else math.nextafter(exact, math.inf)


@dataclass
class Track:
    """A thread: its events, in order of time once `Layout` has put them in order."""

    pid: int
    name: str
    events: list[tuple[int, int, Event]] = field(default_factory=list)  # cycle, order within the cycle, event

    def slice(self, name: str, category: str, begin: int, end: int, **arguments: Any) -> None:
        event = {"name": name, "cat": category, "ph": "X", "ts": time(begin), "dur": time(end - begin), "args": arguments}
        self.events.append((begin, begin - end, event))  # of slices that begin together the longer is outside

    def flow(self, phase: str, at: int, number: int) -> None:
        end = {"bp": "e"} if phase == "f" else {}
        self.events.append((at, 1, {"name": "operand", "cat": "operand", "ph": phase, "ts": time(at), "id": number, **end}))


def write(timeline: Timeline, path: str | Path) -> None:
    """Writes the file, gzip if its name ends in .gz; OSError if it cannot be written."""
    with complete_or_gzip(path) as stream:
        _write(timeline, stream)


def _write(timeline: Timeline, stream: BinaryIO | GzipFile) -> None:
    about = {
        "tcsim": __version__,
        "trace": timeline.trace,
        "config": timeline.config.name,
        "unit of time": "1 ns is 1 cycle",
        "cycles of the run": timeline.timing.cycles,
        "cycles shown": f"{timeline.first} to {min(timeline.last, timeline.timing.cycles)}",
    }
    head = json.dumps({"displayTimeUnit": "ns", "otherData": about})
    stream.write(head[:-1].encode() + b', "traceEvents": [\n')
    encode = json.JSONEncoder(separators=(",", ":")).encode
    for number, event in enumerate(events(timeline)):
        stream.write(((",\n" if number else "") + encode(event)).encode())
    stream.write(b"\n]}\n")


def events(timeline: Timeline) -> Iterator[Event]:
    """All events: names, then track by track in order of time."""
    for sm in range(timeline.ctas):
        pid = sm + 1
        name = f"SM {sm} ({timeline.config.name}, CTA {sm})"
        yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
        yield {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}}
        yield from _counters(timeline, sm)
    for number, track in enumerate(tracks(timeline)):
        tid = 100 + number  # unlike any pid, and unique over all processes
        yield {"ph": "M", "name": "thread_name", "pid": track.pid, "tid": tid, "args": {"name": track.name}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": track.pid, "tid": tid, "args": {"sort_index": tid}}
        for _, _, event in sorted(track.events, key=lambda entry: entry[:2]):
            yield {**event, "pid": track.pid, "tid": tid}


def tracks(timeline: Timeline) -> list[Track]:
    """The threads, from top to bottom, those of an SM together."""
    found: list[Track] = []
    issues: dict[int, list[Issue]] = {warp: [] for warp in timeline.warps}
    for issue in timeline.recorder.issues:
        issues[issue.warp].append(issue)
    lanes: dict[int, Track] = {}  # of results, by the identity of the issue
    cores = timeline.config.sm.sub_cores
    for sm in range(timeline.ctas):
        mine = [busy for busy in timeline.recorder.taken if busy.sm == sm]
        found += _units(timeline, sm, [busy for busy in mine if busy.core is None], "")
        found += _mbarriers(timeline, sm) + _barriers(timeline, sm)
        for core in range(sm * cores, (sm + 1) * cores):
            found += _units(timeline, sm, [busy for busy in mine if busy.core == core], f"sub-core {core % cores} ")
            for warp in timeline.warps:
                if timeline.core(warp) == core:
                    found += _warp(timeline, warp, issues[warp], lanes)
    _arrows(timeline, lanes)
    return [track for track in found if track.events]


def _units(timeline: Timeline, sm: int, taken: list[Busy], prefix: str) -> list[Track]:
    """A track for each unit, in the order of `Unit`, then others by name."""
    order = [unit.name.lower() for unit in Unit]
    names = sorted({busy.name for busy in taken}, key=lambda name: (order.index(name) if name in order else len(order), name))
    found = []
    for name in names:
        shown = f"{prefix}{_UNITS.get(name, name)}" if prefix else name
        track = Track(sm + 1, shown)
        for busy in _disjoint([b for b in taken if b.name == name]):
            about = timeline.about(busy.issue)
            track.slice(about.short, "unit", busy.begin, busy.end, warp=busy.issue.warp, line=about.line, issued=busy.issue.cycle)
        found.append(track)
    return found


def _disjoint(taken: list[Busy]) -> Iterator[Busy]:
    """In order of time; a use that begins before the last one ends begins when that ends."""
    free = 0
    for busy in sorted(taken, key=lambda b: (b.begin, b.end)):
        if busy.end > free:
            yield busy._replace(begin=max(busy.begin, free))
            free = busy.end


def _warp(timeline: Timeline, warp: int, issues: list[Issue], lanes: dict[int, Track]) -> list[Track]:
    """What fills the warp's time, and its results on their way."""
    name, pid = f"warp {warp % timeline.cta_warps}", timeline.sm(warp) + 1
    state = Track(pid, name)
    stalls = [stall for issue in issues for stall in issue.stalls] + timeline.recorder.steps.get(warp, [])
    for _, what in sorted([(stall.begin, stall) for stall in stalls] + [(issue.cycle, issue) for issue in issues], key=lambda entry: entry[0]):
        if isinstance(what, Stall):
            _stall(timeline, state, what)
            continue
        issue = what
        if issue.cycle < timeline.last:
            about = timeline.about(issue)
            state.slice(about.short, "issue", issue.cycle, issue.cycle + 1, line=about.line)
    _end(timeline, warp, state)
    results: list[Track] = []
    free: list[int] = []
    for issue in (issue for issue in issues if issue.cycle < timeline.last):
        place = next((i for i, at in enumerate(free) if at <= issue.cycle), len(free))
        if place == len(free):
            free.append(0)
            results.append(Track(pid, f"{name} results{f' {place + 1}' if place else ''}"))
        free[place] = issue.done
        lanes[id(issue)] = results[place]
        results[place].slice(timeline.about(issue).short, "instruction", issue.cycle, issue.done, **_about(timeline, issue))
    return [state, *results]


def _about(timeline: Timeline, issue: Issue) -> dict[str, Any]:
    about = timeline.about(issue)
    found: dict[str, Any] = {
        "line": about.line,
        "ptx": about.ptx,
        "reads": about.reads,
        "writes": about.writes,
        "issued": issue.cycle,
        "result": issue.done,
    }
    if issue.started > issue.cycle:
        found["started"] = issue.started
    if issue.stalls:
        found["waited"] = {stall.cause.name.lower(): stall.end - stall.begin for stall in issue.stalls}
    if issue.producer is not None:
        found["waited for"] = f"line {timeline.about(issue.producer).line}, issued in cycle {issue.producer.cycle}"
    return found


def _stall(timeline: Timeline, track: Track, stall: Stall) -> None:
    part = timeline.clipped(stall)
    if part is not None:
        name = _CAUSES.get(stall.cause, stall.cause.name.lower())
        track.slice(f"wait: {name}", "stall", part.begin, part.end, cause=stall.cause.name.lower(), cycles=stall.end - stall.begin)


def _end(timeline: Timeline, warp: int, track: Track) -> None:
    """The wait with which a program ended, and the time after it; unknown behind a timeline that was cut."""
    tail, recorder = timeline.recorder.tails.get(warp), timeline.recorder
    at = recorder.last.get(warp, -1) + 1
    if tail is not None:
        _stall(timeline, track, tail)
        at = tail.end
    finished = None if timeline.cut else timeline.clipped(Stall(Wait.FINISHED, at, timeline.timing.cycles))
    if finished is not None:
        track.slice("finished", "stall", finished.begin, finished.end, cause="finished", cycles=finished.end - finished.begin)


def _mbarriers(timeline: Timeline, sm: int) -> list[Track]:
    """A track for each mbarrier that completed a phase: its phases."""
    found: dict[str, Track] = {}
    began: dict[str, int] = {}
    for flip in timeline.recorder.flips:
        if flip.sm == sm:
            track = found.setdefault(flip.name, Track(sm + 1, flip.name.removeprefix("the ")))
            begin = began.get(flip.name, timeline.first)
            if flip.cycle > begin:
                track.slice(f"phase of parity {flip.parity}", "mbarrier", begin, flip.cycle, complete=flip.cycle)
            began[flip.name] = flip.cycle
    return [found[name] for name in sorted(found)]


def _barriers(timeline: Timeline, sm: int) -> list[Track]:
    """A track for each barrier (bar.sync): from the first arrival until the warps go on."""
    arrived: dict[int, Issue] = {}  # by warp: its last issue, if that was an arrival
    phases: dict[tuple[int, int], list[int]] = {}  # by barrier and end: cycles of arrivals
    for issue in timeline.recorder.issues:
        if timeline.sm(issue.warp) != sm:
            continue
        arrival = arrived.pop(issue.warp, None)
        ends = [stall.end for stall in issue.stalls if stall.cause is Wait.BARRIER]
        barrier = timeline.operation(arrival).barrier if arrival is not None else None
        if arrival is not None and barrier is not None and ends:
            phases.setdefault((barrier[0], ends[0]), []).append(arrival.cycle)
        if issue.unit is Unit.BARRIER:
            arrived[issue.warp] = issue
    found = {number: Track(sm + 1, f"barrier {number}") for number, _ in sorted(phases)}
    free = dict.fromkeys(found, 0)
    for (number, end), cycles in sorted(phases.items(), key=lambda phase: phase[0][1]):
        begin = max(min(cycles), free[number])
        found[number].slice(f"{len(cycles)} warps", "barrier", begin, end, first=min(cycles), last=max(cycles), released=end)
        free[number] = end
    return list(found.values())


def _arrows(timeline: Timeline, lanes: dict[int, Track]) -> None:
    """From each result that was waited for to the instruction that did."""
    number = 0
    for issue in timeline.recorder.issues:
        producer = issue.producer
        if producer is None or id(issue) not in lanes or id(producer) not in lanes or not producer.cycle < producer.done <= issue.cycle:
            continue
        number += 1
        lanes[id(producer)].flow("s", producer.done - 1, number)
        lanes[id(issue)].flow("f", issue.cycle, number)


def _counters(timeline: Timeline, sm: int) -> Iterator[Event]:
    """Shares of windows: instructions a cycle, and of each unit the share of cycles for which it was taken."""
    last = min(timeline.last, timeline.timing.cycles)
    width = max(16, 1 << (max(last - timeline.first - 1, 1) // POINTS).bit_length())
    cores = timeline.config.sm.sub_cores
    issues = [(issue.cycle, issue.cycle + 1) for issue in timeline.recorder.issues if timeline.sm(issue.warp) == sm]
    yield from _counter("instructions per cycle", sm, timeline.first, last, width, issues, 1.0)
    names = dict.fromkeys((busy.core is None, busy.name) for busy in timeline.recorder.taken if busy.sm == sm)
    for whole, name in sorted(names, reverse=True):
        spans = [(b.begin, b.end) for b in timeline.recorder.taken if (b.sm, b.core is None, b.name) == (sm, whole, name)]
        title = f"{name if whole else _UNITS.get(name, name)} taken, %"
        yield from _counter(title, sm, timeline.first, last, width, spans, 100.0 if whole else 100.0 / cores)


def _counter(name: str, sm: int, first: int, last: int, width: int, spans: Iterable[tuple[int, int]], scale: float) -> Iterator[Event]:
    """The cycles of the spans in each window, as a share of the window times `scale`; 0 at the end."""
    sums = [0] * max(-(-(last - first) // width), 0)
    for begin, end in spans:
        at = max(begin, first)
        while at < min(end, last):
            window = (at - first) // width
            until = min(end, last, first + (window + 1) * width)
            sums[window] += until - at
            at = until
    for window, total in enumerate(sums):
        begin = first + window * width
        share = round(scale * total / (min(begin + width, last) - begin), 3)
        yield {"ph": "C", "name": name, "pid": sm + 1, "ts": time(begin), "args": {"value": share}}
    yield {"ph": "C", "name": name, "pid": sm + 1, "ts": time(last), "args": {"value": 0}}
