"""Writes a timeline in Chrome's trace event format (JSON), for Perfetto or chrome://tracing. One cycle is shown as one
nanosecond, so that rulers read as cycles (Perfetto's finest zoom shows ten).

There is a process for each SM, and a thread for each row of `tracks`. Arrows lead from an instruction to the one that
waited for its result. Counters show the instructions issued in a cycle, and the share of cycles for which each unit was
busy, over windows of equal length.

The format: docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (Trace Event Format): X slices with
ts and dur in microseconds, nested if they overlap on a thread; s and f flows bound to the slices around them; C
counters; M names and order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from gzip import GzipFile
from pathlib import Path
from typing import Any, BinaryIO

from simulator.files import complete_or_gzip
from simulator.version import __version__
from simulator.views.timeline.recorded import RecordedRun
from simulator.views.timeline.tracks import UNITS, Track, arrows, tracks

Event = dict[str, Any]
POINTS = 512  # of a counter, at most


def time(cycles: int) -> float:
    """Cycles in microseconds, such that 1000 times the number is right whether a reader rounds or, as Perfetto does,
    cuts off."""
    exact = cycles / 1000
    return exact if int(exact * 1000.0) == cycles else math.nextafter(exact, math.inf)


def write(timeline: RecordedRun, path: str | Path) -> None:
    """Writes the file, gzip if its name ends in .gz; OSError if it cannot be written."""
    with complete_or_gzip(path) as stream:
        _write(timeline, stream)


def _write(timeline: RecordedRun, stream: BinaryIO | GzipFile) -> None:
    about = {
        "tcsim": __version__,
        "trace": timeline.trace,
        "config": timeline.config.name,
        "config_path": timeline.config.own_path,
        "config_overrides": timeline.config.overridden,
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


def events(timeline: RecordedRun) -> Iterator[Event]:
    """All events: names, then track by track in order of time."""
    for sm, ctas in enumerate(timeline.ctas):
        pid = sm + 1
        name = f"SM {sm} ({timeline.config.label}, {ctas})"
        yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
        yield {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}}
        yield from _counters(timeline, sm)
    threads = tracks(timeline)
    flows: dict[int, list[tuple[int, int, Event]]] = {id(track): [] for track in threads}
    for number, arrow in enumerate(arrows(timeline, threads), 1):
        flows[id(arrow.source)].append(_flow("s", arrow.begin, number))
        flows[id(arrow.target)].append(_flow("f", arrow.end, number))
    for number, track in enumerate(threads):
        pid, tid = track.sm + 1, 100 + number  # a tid unlike any pid, and unique over all processes
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": track.name}}
        yield {"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": tid, "args": {"sort_index": tid}}
        for _, _, event in sorted([*_thread(track), *flows[id(track)]], key=lambda entry: entry[:2]):
            yield {**event, "pid": pid, "tid": tid}


def _thread(track: Track) -> Iterator[tuple[int, int, Event]]:
    """The slices of a thread: cycle, order within the cycle, event."""
    for part in track.slices:
        begin, cycles = part.begin, part.end - part.begin
        event = {
            "name": part.name,
            "cat": part.category,
            "ph": "X",
            "ts": time(begin),
            "dur": time(cycles),
            "args": part.details,
        }
        yield begin, -cycles, event  # of slices that begin together the longer is outside


def _flow(phase: str, cycle: int, number: int) -> tuple[int, int, Event]:
    """The event at one end of an arrow: its cycle, its order within the cycle, and the event."""
    end = {"bp": "e"} if phase == "f" else {}
    return cycle, 1, {"name": "operand", "cat": "operand", "ph": phase, "ts": time(cycle), "id": number, **end}


def _counters(timeline: RecordedRun, sm: int) -> Iterator[Event]:
    """The counters of each window: instructions issued per cycle, and for each unit the share of cycles for which it
    was busy."""
    last = min(timeline.last, timeline.timing.cycles)
    width = max(16, 1 << (max(last - timeline.first - 1, 1) // POINTS).bit_length())
    cores = timeline.config.sm.sub_cores
    issues = [(issue.cycle, issue.cycle + 1) for issue in timeline.recorder.issues if timeline.sm(issue.warp) == sm]
    yield from _counter("instructions per cycle", sm, timeline.first, last, width, issues, 1.0)
    names = dict.fromkeys((busy.core is None, busy.name) for busy in timeline.recorder.taken if busy.sm == sm)
    for whole, name in sorted(names, reverse=True):
        spans = [
            (b.begin, b.end) for b in timeline.recorder.taken if (b.sm, b.core is None, b.name) == (sm, whole, name)
        ]
        title = f"{name if whole else UNITS.get(name, name)} taken, %"
        pipes = timeline.config.sm.tensor_pipes if name == "tensor" else 1
        scale = 100.0 if whole else 100.0 / (cores * pipes)
        yield from _counter(title, sm, timeline.first, last, width, spans, scale)


def _counter(
    name: str, sm: int, first: int, last: int, width: int, spans: Iterable[tuple[int, int]], scale: float
) -> Iterator[Event]:
    """The cycles of the spans in each window, as a share of the window times `scale`; 0 at the end."""
    sums = [0] * max(-(-(last - first) // width), 0)
    for begin, end in spans:
        cycle = max(begin, first)
        while cycle < min(end, last):
            window = (cycle - first) // width
            until = min(end, last, first + (window + 1) * width)
            sums[window] += until - cycle
            cycle = until
    for window, total in enumerate(sums):
        begin = first + window * width
        share = round(scale * total / (min(begin + width, last) - begin), 3)
        yield {"ph": "C", "name": name, "pid": sm + 1, "ts": time(begin), "args": {"value": share}}
    yield {"ph": "C", "name": name, "pid": sm + 1, "ts": time(last), "args": {"value": 0}}
