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
from simulator.check.findings import Finding, as_finding, of_order
from simulator.check.links import Link
from simulator.check.order import check_order
from simulator.check.record import Recording, record
from simulator.check.rules import NOT_EXECUTABLE
from simulator.check.unwaited import unwaited_results
from simulator.errors import DeadlockError, TraceError
from simulator.floating_point import guarded
from simulator.program import load
from simulator.program.program import Program
from simulator.tables import Table

if TYPE_CHECKING:
    from pandas import DataFrame


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
    findings = [*_executed(recording), *of_order(result, program.ctas), *_static(program)]
    raced = any(finding.rule == Link.RACE.value and finding.other for finding in findings)
    kept = [finding for finding in findings if not (raced and finding.rule == Link.RACE.value and not finding.other)]
    return Report(
        program.name or str(program.path),
        ptx,
        tuple(sorted(kept, key=lambda finding: (finding.line, finding.other, finding.rule))),
        len(recording.events),
    )


# Findings of the run itself


def _executed(recording: Recording) -> Iterator[Finding]:
    for met in recording.met:
        yield as_finding(met.name, met.line, 0, met.where or "met by execution", count=met.times)
    stop = recording.stop
    if isinstance(stop, UndefinedBehavior):
        match = re.match(r"(?s).*?:(\d+): (.*)", stop.where)
        line, where = (int(match[1]), match[2]) if match else (0, stop.where)
        yield as_finding(stop.rule, line, 0, f"{where}; the run stops here")
    elif isinstance(stop, TraceError):
        yield as_finding(stop.rule or NOT_EXECUTABLE, stop.line, 0, f"{stop.reason}; the run stops here", stop.legal)
    elif isinstance(stop, DeadlockError):
        match = re.search(r"in line (\d+)", str(stop))
        yield as_finding("deadlock", int(match[1]) if match else 0, 0, "; ".join(stop.waiting))
    if stop is None:
        for cta, allocation, line in recording.leaks:
            what = f"{allocation.columns} columns from column {allocation.base} on of CTA {cta} are never given back"
            yield as_finding("tmem-leak", line, 0, what)


# Findings of the text alone


def _static(trace: Program) -> Iterator[Finding]:
    for use in unwaited_results(trace):
        what = (
            f"{use.opcode} reads {', '.join(use.registers)}, which tcgen05.ld "
            f"of line {use.load} fills: no tcgen05.wait::ld stands between"
        )
        fix = f"insert 'tcgen05.wait::ld.sync.aligned' between line {use.load} and line {use.line}"
        yield as_finding("missing-wait-ld", use.line, use.load, what, fix)
