"""`check` itself: it runs all checks of a trace and gathers their findings into a report, as text, JSON, CSV or
table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from isa.errors import UndefinedBehavior
from simulator.check.accesses import DEALLOC, Access, describe
from simulator.check.links import Link, Missing
from simulator.check.order import check_order
from simulator.check.order_result import Overlap, Result
from simulator.check.record import Recording, record
from simulator.check.rules import CHECK_RULES, NOT_EXECUTABLE, UNDEFINED_FIXES, stated
from simulator.check.unwaited import unwaited_results
from simulator.errors import DeadlockError, TraceError
from simulator.floating_point import guarded
from simulator.program import load
from simulator.program.program import Program
from simulator.tables import Table

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Finding:
    """Something that a trace may not rely on.

    Attributes:
        rule: the name of the broken rule, in `simulator.check.rules` or `isa.undefined`.
        line: of the instruction that breaks the rule; of a pair the later one. 0: none.
        other: line of the earlier instruction of a pair; 0: none.
        what: what happens there, and why it is not defined.
        fix: what to insert or change where.
        states: the rule in words.
        section: where the rule is stated.
        count: how often it happened.
    """

    rule: str
    line: int
    other: int
    what: str
    fix: str
    states: str
    section: str
    count: int = 1


@dataclass(frozen=True)
class Report:
    """The findings of a trace, by line.

    Attributes:
        trace: its name or path.
        ptx: the PTX version whose rules of order were applied.
        findings: sorted by line.
        events: how many events the run had.
    """

    trace: str
    ptx: str
    findings: tuple[Finding, ...]
    events: int

    def table(self) -> str:
        """The report as text: each finding with both places, the rule and the fix."""
        if not self.findings:
            return f"{self.trace}: clean by the rules of PTX {self.ptx} ({self.events} events)\n"
        lines = []
        for finding in self.findings:
            times = f" ({finding.count} times)" if finding.count > 1 else ""
            lines.append(f"{self.trace}:{finding.line}: {finding.rule}: {finding.what}{times}")
            if finding.other:
                lines.append(f"  with  {self.trace}:{finding.other}")
            lines += [f"  rule  {finding.states} [{finding.section}]", f"  fix   {finding.fix}", ""]
        count = len(self.findings)
        return "\n".join([*lines, f"{count} finding{'s' if count > 1 else ''} by the rules of PTX {self.ptx}", ""])

    def json(self) -> str:
        """One object; `findings` has one row each."""
        report = {
            "trace": self.trace,
            "ptx": self.ptx,
            "events": self.events,
            "findings": [asdict(finding) for finding in self.findings],
        }
        return json.dumps(report, indent=1) + "\n"

    def csv(self) -> str:
        """One row for each finding."""
        return self._rows().csv()

    def to_frame(self) -> DataFrame:
        """The findings as a pandas DataFrame: trace, and the attributes of `Finding`."""
        return self._rows().frame()

    def _rows(self) -> Table:
        columns = ("trace", *(field.name for field in fields(Finding)))
        return Table(columns, [(self.trace, *asdict(finding).values()) for finding in self.findings])


@guarded
def check(trace: str | Path | Program, ptx: str = "9.0") -> Report:
    """Checks a trace.

    Args:
        trace: path of a trace, the name of one that comes with tcsim, the text of one, or a program.
        ptx: "9.0" or "9.4": the PTX version whose rules of order apply.

    Raises:
        TraceError: a trace or data that cannot be read, an instruction that is not legal.
        IsaError: another PTX version.
    """
    program = load(trace)
    recording = record(program)
    result = check_order(
        recording.events,
        ptx=ptx,
        warps=program.warps,
        values=recording.values,
        written=recording.written,
        ended=recording.stop is None,
    )
    findings = [*_executed(recording), *_ordered(result, program), *_static(program)]
    raced = any(finding.rule == Link.RACE.value and finding.other for finding in findings)
    kept = [finding for finding in findings if not (raced and finding.rule == Link.RACE.value and not finding.other)]
    return Report(
        program.name or str(program.path),
        ptx,
        tuple(sorted(kept, key=lambda finding: (finding.line, finding.other, finding.rule))),
        len(recording.events),
    )


def _finding(name: str, line: int, other: int, what: str, fix: str = "", count: int = 1) -> Finding:
    rule, section = stated(name)
    default_fix = CHECK_RULES[name].fix if name in CHECK_RULES else UNDEFINED_FIXES.get(name, "see the rule")
    return Finding(name, line, other, what, fix or default_fix, rule, section, count)


# Findings of the run itself


def _executed(recording: Recording) -> Iterator[Finding]:
    for met in recording.met:
        yield _finding(met.name, met.line, 0, met.where or "met by execution", count=met.times)
    stop = recording.stop
    if isinstance(stop, UndefinedBehavior):
        match = re.match(r"(?s).*?:(\d+): (.*)", stop.where)
        line, where = (int(match[1]), match[2]) if match else (0, stop.where)
        yield _finding(stop.rule, line, 0, f"{where}; the run stops here")
    elif isinstance(stop, TraceError):
        yield _finding(stop.rule or NOT_EXECUTABLE, stop.line, 0, f"{stop.reason}; the run stops here", stop.legal)
    elif isinstance(stop, DeadlockError):
        match = re.search(r"in line (\d+)", str(stop))
        yield _finding("deadlock", int(match[1]) if match else 0, 0, "; ".join(stop.waiting))
    if stop is None:
        for cta, allocation, line in recording.leaks:
            what = f"{allocation.columns} columns from column {allocation.base} on of CTA {cta} are never given back"
            yield _finding("tmem-leak", line, 0, what)


# Findings of the order of events


def _ordered(result: Result, trace: Program) -> Iterator[Finding]:
    used = {
        missing.ends.before.line for missing in result.missing.values() if missing.ends.after.operation.kind != DEALLOC
    }
    for key, missing in result.missing.items():
        if missing.ends.after.operation.kind != DEALLOC or missing.ends.before.line not in used:  # said once
            yield _of_missing(missing, trace, result.counts[key])
    for unwritten in result.unwritten.values():
        access = unwritten.access
        where = describe(access.space, access.cta, unwritten.cells, trace.ctas)
        yield _finding(
            "tmem-read-before-write",
            access.line,
            0,
            f"{_name(access)} reads {where}{_role(access)}, which nothing wrote",
        )
    for overlap in result.overlaps.values():
        yield _of_overlap(overlap, trace)
    for early in result.early.values():
        line = early.allocation.line
        what = (
            f"{_name(early.access)} uses columns that tcgen05.alloc of line "
            f"{line} gives to another warp, and nothing orders the two"
        )
        yield _finding("tmem-alloc-unordered", early.access.line, line, what)
    for stray in result.strays.values():
        what = (
            f"{stray.event.kind} uses the mbarrier at shared[{stray.place[1]}], "
            f"which line {stray.init_line} of another warp initialises"
        )
        yield _finding("mbarrier-init-unordered", stray.event.line, stray.init_line, what)
    raced = {missing.ends.before.line for missing in result.missing.values()}
    for operation, peer in result.unfinished:
        name, cta = operation.event.kind, operation.event.cta
        if peer:
            yield _finding(
                "peer-exited", operation.line, 0, f"CTA {1 - cta} ends without having waited for {name} of CTA {cta}"
            )
        elif operation.line not in raced:
            yield _finding("unfinished-at-exit", operation.line, 0, f"CTA {cta} ends without having waited for {name}")


def _of_missing(missing: Missing, trace: Program, count: int) -> Finding:
    before, after, cells, _ = missing.ends
    where = describe(after.space, after.cta, cells, trace.ctas)
    does, did = ("writes" if after.write else "reads"), ("writes" if before.write else "reads")
    if after.operation.kind == DEALLOC:
        does = "gives back"
    what = (
        f"{_name(after)} {does} {where}{_role(after)}, which {_name(before)} "
        f"of line {before.line} {did}{_role(before)}: {missing.reason}"
    )
    return _finding(missing.link.value, after.line, before.line, what, missing.fix, count)


def _of_overlap(overlap: Overlap, trace: Program) -> Finding:
    first, second = overlap.first, overlap.second
    where = describe("tmem", first.cta, overlap.cells, trace.ctas)
    return _finding("tmem-overlap", first.line, 0, f"{first.role} and {second.role} of {_name(first)} share {where}")


def _name(access: Access) -> str:
    return access.operation.event.kind


def _role(access: Access) -> str:
    return "" if access.role in ("cells", "bytes") else f" as {access.role}"


# Findings of the text alone


def _static(trace: Program) -> Iterator[Finding]:
    for use in unwaited_results(trace):
        what = (
            f"{use.opcode} reads {', '.join(use.registers)}, which tcgen05.ld "
            f"of line {use.load} fills: no tcgen05.wait::ld stands between"
        )
        fix = f"insert 'tcgen05.wait::ld.sync.aligned' between line {use.load} and line {use.line}"
        yield _finding("missing-wait-ld", use.line, use.load, what, fix)
