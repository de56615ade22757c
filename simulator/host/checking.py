"""The launches of a host program, checked one by one before they run; what repeats is told once."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from isa.errors import Error
from simulator.check.launch_finding import LaunchCheck, LaunchFinding
from simulator.check.launches import check_launch
from simulator.program.capture_record import Capture

Key = tuple[str, str, int, str, int]
_SHOWN = 8  # numbers of launches that a line names


@dataclass
class Repeated:
    """A finding, and where it was met.

    Attributes:
        kernel: which kernel has it.
        finding: of the first launch.
        launches: numbers of the launches, in the order of the program, from 0.
    """

    kernel: str
    finding: LaunchFinding
    launches: list[int] = field(default_factory=list)


class ProgramCheck:
    """Checks the launches of a program.

    Attributes:
        launches: how many were checked.
        refused: by number, why a launch could not be checked.
    """

    def __init__(self) -> None:
        self.launches = 0
        self.refused: dict[int, str] = {}
        self._met: dict[Key, Repeated] = {}

    def add(self, number: int, capture: Capture) -> LaunchCheck | None:
        """Checks a launch on a copy of its memory. None for one that cannot even begin, which the program is told when
        it runs."""
        self.launches += 1
        try:
            check = check_launch(capture)
        except Error as error:
            self.refused[number] = str(error)
            return None
        for each in check.shown():
            key = check.kernel, each.rule, each.line, each.instruction, each.other.line if each.other else 0
            self._met.setdefault(key, Repeated(check.kernel, each)).launches.append(number)
        return check

    @property
    def findings(self) -> tuple[Repeated, ...]:
        """What was found, the serious ones first, by launch and line."""
        order = sorted(
            self._met.values(), key=lambda each: (not each.finding.serious, each.launches[0], each.finding.line)
        )
        return tuple(order)

    @property
    def clean(self) -> bool:
        """Whether nothing was found that counts."""
        return not any(each.finding.serious for each in self._met.values())

    @property
    def verdict(self) -> str:
        """What was found, and in how much."""
        count = sum(each.finding.serious for each in self._met.values())
        notes = len(self._met) - count
        parts = [f"{count} finding{'s' * (count > 1)}"] if count else ["clean"]
        parts += [f"{notes} note{'s' * (notes > 1)}"] if notes else []
        parts += [f"{len(self.refused)} not checked"] if self.refused else []
        return f"{', '.join(parts)} ({self.launches} launch{'es' * (self.launches != 1)} checked)"

    def table(self) -> str:
        """The findings as text, each with the launches that have it."""
        lines = []
        for each in self.findings:
            whole = LaunchCheck(f"launch {each.launches[0]}", each.kernel, (0, 0), (each.finding,), compared=False)
            body = whole.table().rsplit("\n\n", 1)[0].rstrip("\n")
            lines.append(f"{body}\n  in    {_launches(each)}\n")
        lines += [f"launch {number} was not checked: {reason}" for number, reason in self.refused.items()]
        return "\n".join([*lines, self.verdict, ""])

    def json(self) -> str:
        """One object; `findings` has one row each."""
        rows = [{"kernel": each.kernel, "launches": each.launches} | asdict(each.finding) for each in self.findings]
        whole = {"launches": self.launches, "clean": self.clean, "refused": self.refused, "findings": rows}
        return json.dumps(whole, indent=1) + "\n"


def _launches(each: Repeated) -> str:
    """The launches that have a finding, in words."""
    numbers = each.launches
    shown = ", ".join(map(str, numbers[:_SHOWN])) + (
        f" and {len(numbers) - _SHOWN} more" if len(numbers) > _SHOWN else ""
    )
    return f"{len(numbers)} launch{'es' * (len(numbers) > 1)} of {each.kernel[:100]}: {shown}"
