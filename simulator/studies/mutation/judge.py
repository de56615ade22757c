"""Runs the check on a mutant and compares what it finds with the mutation."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from types import FrameType

from isa.errors import Error
from simulator.check.launch_finding import LaunchFinding
from simulator.check.launches import check_launch
from simulator.program.capture import Capture
from simulator.studies.mutation.mutant import Mutant

RIGHT, LATER, WRONG = "right", "later", "wrong blame"
UNPLACED, MISSED, SLOW = "no line", "missed", "no answer"
SECONDS = 60.0  # of the processor that a check may take
MANY = 4  # lines; a finding that names more of them is judged by its first line (and its other side) alone
_LINES = re.compile(r"\blines?\s+(\d+(?:(?:\s*,\s*|\s+and\s+|\s+to\s+|\s*-\s*)\d+)*)", re.IGNORECASE)


class OutOfTimeError(Exception):
    """A check has taken too long."""


@dataclass(frozen=True)
class Verdict:
    """What the check makes of a mutant.

    Attributes:
        line: "right" (the first finding that names lines names one that may be blamed), "later" (a later one does),
            "wrong blame", "no line" (findings without one), "missed", or "no answer" (out of time, or the check fails).
        fixed: whether a finding at a right line names the repair.
        seconds: of the processor that the check took.
        findings: those that the right kernel does not have, a line of text each.
    """

    line: str
    fixed: bool
    seconds: float
    findings: tuple[str, ...]


def named(finding: LaunchFinding) -> set[int]:
    """The lines that a finding names; its first line and its other side alone where it names many."""
    first = {finding.line, finding.other.line if finding.other else 0} - {0}
    words = f"{finding.what} {finding.fix}"
    more = {int(number) for run in _LINES.findall(words) for number in re.findall(r"\d+", run)}
    every = first | set(finding.also) | more
    return every if len(every) <= MANY else first


def key(finding: LaunchFinding) -> tuple[str, int]:
    """What makes a finding of a mutant the same as one of the right kernel; lines keep their numbers."""
    return finding.rule, finding.line


def checked(capture: Capture, budget: int, seconds: float = SECONDS) -> tuple[tuple[LaunchFinding, ...], float]:
    """The serious findings of a check, and the seconds of processor time that it took.

    Args:
        budget: warp instructions after which a launch is given up.

    Raises:
        OutOfTimeError: it took longer than `seconds`.
    """
    began = time.process_time()
    with _Alarm(seconds):
        found = check_launch(capture, budget=budget)
    return tuple(each for each in found.findings if each.serious), time.process_time() - began


class _Alarm:
    """Raises OutOfTimeError in this process, in its main thread, after some seconds of processor time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __enter__(self) -> None:
        def ring(_number: int, _frame: FrameType | None) -> None:
            raise OutOfTimeError

        self.before = signal.signal(signal.SIGPROF, ring)
        signal.setitimer(signal.ITIMER_PROF, self.seconds)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, self.before)


def judged(
    mutant: Mutant,
    accepted: Iterable[int],
    capture: Capture,
    budget: int,
    known: set[tuple[str, int]],
    seconds: float = SECONDS,
) -> Verdict:
    """What the check makes of a mutant.

    Args:
        accepted: the lines that may be blamed.
        capture: with the mutant's module.
        budget: warp instructions after which it does not end.
        known: the findings of the right kernel.
        seconds: that it may take.
    """
    try:
        found, took = checked(capture, budget, seconds)
    except OutOfTimeError:
        return Verdict(SLOW, False, seconds, ())
    except Error as error:
        return Verdict(UNPLACED, False, 0.0, (f"error: {error}",))
    except Exception as error:
        return Verdict(SLOW, False, 0.0, (f"the check fails: {type(error).__name__}: {error}",))
    new = [each for each in found if key(each) not in known]
    lines = set(accepted)
    hits = [bool(named(each) & lines) for each in new]
    fixed = any(mutant.fixed_by(_repair(each)) for each, hit in zip(new, hits, strict=True) if hit)
    placed = [hit for each, hit in zip(new, hits, strict=True) if named(each)]
    return Verdict(_line(bool(new), placed), fixed, took, tuple(map(_shown, new)))


def _repair(finding: LaunchFinding) -> str:
    """What a finding says of the repair: its fix, what it calls missing, and of a wrong result what the mistake is."""
    if finding.rule == "wrong-result":
        return f"{finding.what} {finding.fix}"
    return f"{finding.fix} {finding.what.partition('missing')[2]}"


def _line(found: bool, placed: list[bool]) -> str:
    """The verdict, from whether each finding that names lines names a right one."""
    if not placed:
        return UNPLACED if found else MISSED
    return RIGHT if placed[0] else LATER if any(placed) else WRONG


def _shown(finding: LaunchFinding) -> str:
    also = f" (also {', '.join(map(str, sorted(named(finding) - {finding.line})))})" if len(named(finding)) > 1 else ""
    return f"line {finding.line}{also}: {finding.rule}: {finding.what} | fix: {finding.fix}"
