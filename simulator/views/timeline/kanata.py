"""Writes a timeline as a Kanata log (version 0004), for the viewer Konata: one row for each issued instruction.

A row begins when the warp could go on after its last issue. It has a stage for each stall, named by its cause; `Q`
while queued work has not started; `X` from issue (or start) until the result is there, when the instruction retires.
Arrows lead from the instruction that was waited for. The thread is the warp. The format: github.com/shioyadan/Konata,
docs/kanata-log-format.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from simulator.files import complete_or_gzip
from simulator.machine.observer import Issue
from simulator.views.timeline.recorded import RecordedRun

_EXECUTE, _QUEUE = "X", "Q"  # Konata draws arrows from and to stages with an X


def write(timeline: RecordedRun, path: str | Path) -> None:
    """Writes the file, gzip if its name ends in .gz; OSError if it cannot be written."""
    with complete_or_gzip(path) as stream:
        for line in lines(timeline):
            stream.write(f"{line}\n".encode())


def lines(timeline: RecordedRun) -> Iterator[str]:
    """The lines of the log."""
    shown = [issue for issue in timeline.recorder.issues if issue.cycle < timeline.last]
    rows = sorted(shown, key=lambda issue: (_birth(timeline, issue), issue.warp))
    numbers = {id(issue): number for number, issue in enumerate(rows)}
    retired = {
        id(issue): number
        for number, issue in enumerate(sorted(rows, key=lambda issue: (_end(issue), numbers[id(issue)])))
    }
    commands: list[tuple[int, int, int, str]] = []  # cycle, row, order, command
    for number, issue in enumerate(rows):
        for order, (cycle, command) in enumerate(_commands(timeline, issue, number, numbers, retired[id(issue)])):
            commands.append((cycle, number, order, command))
    commands.sort()
    yield "Kanata\t0004"
    now = timeline.first
    yield f"C=\t{now}"
    for cycle, _, _, command in commands:
        if cycle > now:
            yield f"C\t{cycle - now}"
            now = cycle
        yield command


def _birth(timeline: RecordedRun, issue: Issue) -> int:
    """The cycle at which the row of an issue begins."""
    return max(min((stall.begin for stall in issue.stalls), default=issue.cycle), timeline.first)


def _end(issue: Issue) -> int:
    return max(issue.done, issue.started + 1)


def _commands(
    timeline: RecordedRun, issue: Issue, number: int, numbers: dict[int, int], retired: int
) -> Iterator[tuple[int, str]]:
    about = timeline.about(issue)
    birth = _birth(timeline, issue)
    yield birth, f"I\t{number}\t{issue.place}\t{issue.warp}"
    yield birth, f"L\t{number}\t0\tw{issue.warp} line {about.line}: {_plain(about.text)}"
    yield birth, f"L\t{number}\t1\tissued in cycle {issue.cycle}, result in {issue.done}{_waits(issue)}"
    for stall in filter(None, map(timeline.clipped, issue.stalls)):
        yield from _stage(number, stall.cause.name.lower(), stall.begin, stall.end)
    if issue.started > issue.cycle:
        yield from _stage(number, _QUEUE, issue.cycle, issue.started)
    if issue.producer is not None and id(issue.producer) in numbers:
        yield issue.cycle, f"W\t{number}\t{numbers[id(issue.producer)]}\t0"
    yield from _stage(number, _EXECUTE, issue.started, _end(issue))
    yield _end(issue), f"R\t{number}\t{retired}\t0"


def _stage(number: int, name: str, begin: int, end: int) -> Iterator[tuple[int, str]]:
    yield begin, f"S\t{number}\t0\t{name}"
    yield end, f"E\t{number}\t0\t{name}"


def _waits(issue: Issue) -> str:
    return "".join(f"; {stall.cause.name.lower()} {stall.end - stall.begin}" for stall in issue.stalls)


def _plain(text: str) -> str:
    """A text without the characters that would end a column or a line."""
    return " ".join(text.split())
