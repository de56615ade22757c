"""Barriers that are not used as they must be, as findings; and what waits that do not wait explain."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from simulator.check.launch_finding import LaunchFinding, Side
from simulator.check.race_findings import Names, split_one
from simulator.check.rules import launch_rule
from simulator.simulation.launch.barrier_use import Actor, BarrierUse, Knowledge, Misuse, Misuses
from simulator.simulation.launch.blame import source_of
from simulator.simulation.launch.mbarrier_use import MbarrierUse, Uses, Waits
from simulator.simulation.launch.run import Run

_EXPLAINED = ("async-pending", "async-unexpected", "shared-memory-race", "read-before-write")
_COPY = re.compile(r"of line (\d+)")  # how a finding names the copy whose bytes are touched


@dataclass
class Barriers:
    """What was found of the barriers of a launch."""

    misuses: Misuses = field(default_factory=Misuses)
    waits: Waits = field(default_factory=Waits)

    def follow(self, run: Run, knowledge: Knowledge) -> None:
        """Follows the barriers of a run from now on."""
        state, kernel = run.state, run.code.kernel
        barriers = BarrierUse(kernel, state.batch.ctas.tolist(), state.warps, run.threads, self.misuses)
        barriers.knowledge = knowledge
        run.uses = Uses(barriers, MbarrierUse(kernel, state, self.misuses, self.waits))

    def findings(self, names: Names) -> list[LaunchFinding]:
        """What was found; what unrolled loops do at the same lines of the source is one."""
        groups: dict[object, list[LaunchFinding]] = {}
        for misuse in self.misuses.found.values():
            finding = _finding(misuse, names)
            other = finding.other.source if finding.other is not None else ""
            alike = (finding.rule, finding.source, other) if finding.source else id(finding)
            groups.setdefault(alike, []).append(finding)
        return [_together(group) for group in groups.values()]

    def explained(self, findings: Sequence[LaunchFinding], names: Names) -> list[LaunchFinding]:
        """Findings, those of bytes that a copy brings with the wait that did not wait for them."""
        return [self._explained(each, names) for each in findings]

    def _explained(self, finding: LaunchFinding, names: Names) -> LaunchFinding:
        if finding.rule not in _EXPLAINED or not self.waits.idle:
            return finding
        lines = {finding.line, *finding.also, *map(int, _COPY.findall(finding.what))}
        lines |= {finding.other.line} if finding.other is not None else set()
        for place, idle in self.waits.idle.items():
            if names.kernel.items[place].line in lines:
                line = names.kernel.items[idle.actor.place].line
                what = f"{finding.what}; {idle.words(names.kernel)}"
                return replace(finding, what=what, also=(*finding.also, *({line} - {finding.line, *finding.also})))
        return finding


def _together(group: list[LaunchFinding]) -> LaunchFinding:
    """Findings of the same lines of the source as one."""
    first, *others = group
    named = {first.line} | ({first.other.line} if first.other is not None else set())
    lines = [*first.also]
    for each in others:
        lines += [each.line, *([each.other.line] if each.other is not None else []), *each.also]
    also = tuple(line for line in dict.fromkeys(lines) if line not in named)
    return replace(first, count=sum(each.count for each in group), also=also)


def _finding(misuse: Misuse, names: Names) -> LaunchFinding:
    known, items = launch_rule(misuse.rule), names.kernel.items
    item = items[misuse.who.place]
    other = None
    if misuse.other is not None:
        theirs = items[misuse.other.place]
        thread = _thread(misuse.other, names)
        other = Side(theirs.line, source_of(theirs), theirs.text, thread, misuse.access, misuse.where)
    also = tuple(dict.fromkeys(items[place].line for place in misuse.also))
    return LaunchFinding(
        misuse.rule, item.line, source_of(item), item.text, _thread(misuse.who, names), misuse.what, known.fix,
        misuse.count, known.counts, other, known.rule, known.section,
        tuple(line for line in also if line not in (item.line, other.line if other else 0)),
    )  # fmt: skip


def _thread(actor: Actor, names: Names) -> str:
    """Who does something, in words."""
    return f"CTA {split_one(actor.cta, names.grid)}, warp {actor.warp}" + f", {actor.lanes}" * bool(actor.lanes)
