"""What the check of a launch finds: the findings, each with its line, both sides and the rule, and the verdict."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields

from simulator.tables import Table


@dataclass(frozen=True)
class Side:
    """The earlier one of two accesses that nothing orders.

    Attributes:
        line: of the PTX.
        source: "file:line" of the source, or "".
        instruction: as it stands in the module.
        thread: CTA, warp and lane, in words.
        access: "reads", "writes", "updates" (an atomic operation), in words.
        where: the bytes that both access, by their variable or buffer, in words.
    """

    line: int
    source: str
    instruction: str
    thread: str
    access: str
    where: str


@dataclass(frozen=True)
class LaunchFinding:
    """Something that a launch may not rely on.

    Attributes:
        rule: its name, as in `simulator.check.rules.LAUNCH_RULES`, or that of an error.
        line: of the PTX; 0 for none.
        source: "file:line" of the source, or "".
        instruction: as it stands in the module.
        thread: which thread met it first, in words.
        what: what happens.
        fix: what to change.
        count: how often it happened.
        serious: whether it counts: the result depends on it. Else it is a note: a bank conflict only costs time.
        other: of a race, the other side: the access that came first.
        states: the rule in words.
        section: where the rule is stated.
        also: further lines of the PTX with the same cause.
    """

    rule: str
    line: int
    source: str
    instruction: str
    thread: str
    what: str
    fix: str
    count: int = 1
    serious: bool = True
    other: Side | None = None
    states: str = ""
    section: str = ""
    also: tuple[int, ...] = ()


# Rules of notes that are shown on request alone
SHOWN_LINES = 8  # of those with the same cause that the text names
HIDDEN = ("benign-race", "unused-unwritten", "barrier-paired", "mbarrier-phase-reused")


def _alike(findings: Sequence[LaunchFinding]) -> list[list[LaunchFinding]]:
    """The findings, those together that break the same rule on the same line of the source."""
    groups: dict[object, list[LaunchFinding]] = {}
    for finding in findings:
        alike = (finding.rule, finding.source, finding.fix) if finding.source else id(finding)
        groups.setdefault(alike, []).append(finding)
    return list(groups.values())


def _lines(numbers: Iterable[int]) -> str:
    """Lines in words, not too many of them: "lines 12, 14 and 9 more"."""
    every = list(dict.fromkeys(numbers))
    shown, more = ", ".join(map(str, every[:SHOWN_LINES])), len(every) - SHOWN_LINES
    return f"line{'s' if len(every) > 1 else ''} {shown}{f' and {more} more' if more > 0 else ''}"


def _times(count: int, word: str) -> str:
    return f"{count} {word}{'s' if count > 1 else ''}"


def _side(other: Side) -> str:
    """The other side of a race: its instruction, and where and by whom it was executed."""
    place = ", ".join(filter(None, (f"line {other.line}", other.source, other.thread)))
    return f"{other.instruction}  ({place})"


@dataclass(frozen=True)
class LaunchCheck:
    """The findings of a launch.

    Attributes:
        name: of the capture.
        kernel: that ran.
        ctas: how many CTAs were watched, of how many.
        findings: the serious ones first, by line.
        compared: whether the results of all CTAs were compared with those of the capture.
        reference: what they were compared with, in words, as in "results as ...".
    """

    name: str
    kernel: str
    ctas: tuple[int, int]
    findings: tuple[LaunchFinding, ...]
    compared: bool = True
    reference: str = "in the capture"

    @property
    def clean(self) -> bool:
        """Whether nothing was found that counts, in the CTAs that were watched and in the results of all."""
        return not any(finding.serious for finding in self.findings)

    @property
    def verdict(self) -> str:
        """What was found, and in how much."""
        watched, whole = self.ctas
        count = sum(finding.serious for finding in self.findings)
        found = [
            _times(number, word)
            for number, word in ((count, "finding"), (len(self.findings) - count, "note"))
            if number
        ]
        if count:
            head = " and ".join(found)
        else:
            head = ", ".join(["clean" if watched == whole else f"no findings in {self.name}", *found])
        scope = _times(whole, "CTA") if watched == whole else f"{watched} of {whole} CTAs"
        wrong = any(finding.rule == "wrong-result" for finding in self.findings)
        results = f"results of all {'are wrong' if wrong else f'as {self.reference}'}"
        return f"{head} ({scope} of {self.kernel} watched; {results if self.compared else 'no results compared'})"

    def shown(self, notes: bool = False) -> tuple[LaunchFinding, ...]:
        """The findings that are shown; with `notes` also those that are no mistake, such as races of equal values."""
        return tuple(each for each in self.findings if notes or each.rule not in HIDDEN)

    def table(self, notes: bool = False) -> str:
        """The findings as text."""
        shown = self.shown(notes)
        if not shown:
            watched, whole = self.ctas
            return f"{self.name}: {self.verdict}\n" if watched == whole else f"{self.verdict}\n"
        lines = []
        for first, *others in _alike(shown):
            place = f"line {first.line}" + (f" ({first.source})" if first.source else "") if first.line else "result"
            times = f", {first.count} times" if first.count > 1 and first.rule != "wrong-result" else ""
            note = "" if first.serious else "note: "
            lines.append(f"{self.name}: {place}: {note}{first.rule}: {first.what}{times}")
            if first.instruction:
                lines.append(f"  at    {first.instruction}")
            if others:
                lines.append(f"  also  {_lines(each.line for each in others)}, from the same line of the source")
            if first.also:
                lines.append(f"  also  {_lines(first.also)}, for the same reason")
            if first.thread:
                lines.append(f"  by    {first.thread}")
            if first.other is not None:
                lines.append(f"  and   {_side(first.other)}")
            if first.states:
                lines.append(f"  rule  {first.states}" + (f" [{first.section}]" if first.section else ""))
            lines += [f"  fix   {first.fix}", ""] if first.fix else [""]
        return "\n".join([*lines, self.verdict, ""])

    def json(self, notes: bool = False) -> str:
        """One object; `findings` has one row each."""
        head = {"launch": self.name, "kernel": self.kernel, "ctas": self.ctas, "compared": self.compared}
        rows = [asdict(finding) for finding in self.shown(notes)]
        return json.dumps(head | {"clean": self.clean, "findings": rows}, indent=1) + "\n"

    def csv(self, notes: bool = False) -> str:
        """One row for each finding."""
        columns = ("launch", *(field.name for field in fields(LaunchFinding)))
        return Table(columns, [(self.name, *asdict(finding).values()) for finding in self.shown(notes)]).csv()
