"""Barriers that are not used as they must be, as findings; and what waits that do not wait explain."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from simulator.check.launch_finding import LaunchFinding, Side
from simulator.check.memory_model.order import Follower
from simulator.check.memory_model.shadow import NOBODY
from simulator.check.race_findings import Names
from simulator.check.rules import launch_rule
from simulator.simulation.launch.barrier_use import Actor, BarrierUse, Misuse, Misuses
from simulator.simulation.launch.blame import source_of
from simulator.simulation.launch.mbarrier_use import MbarrierUse, Uses, Waits
from simulator.simulation.launch.run import Run
from simulator.state.columns import LaunchShared
from simulator.state.device_memory import DeviceMemory

_EXPLAINED = ("async-pending", "async-unexpected", "shared-memory-race", "read-before-write")
_COPY = re.compile(r"of line (\d+)")  # how a finding names the copy whose bytes are touched


@dataclass
class Barriers:
    """What was found of the barriers of a launch."""

    misuses: Misuses = field(default_factory=Misuses)
    waits: Waits = field(default_factory=Waits)

    def follow(self, run: Run, follower: Follower) -> None:
        """Follows the barriers of a run from now on, whose memory `follower` follows."""
        state, kernel = run.state, run.code.kernel
        barriers = BarrierUse(kernel, state.batch.ctas.tolist(), state.warps, run.threads, self.misuses)
        barriers.knowledge = follower.clocks
        mbarriers = MbarrierUse(kernel, state, self.misuses, self.waits)
        run.uses = Uses(barriers, mbarriers, partial(_last_write, follower))

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


def _last_write(follower: Follower, space: str, at: int, row: int) -> int | None:
    """The place of the last write of bytes at an address as a warp of a row names it; None: nobody has written."""
    if space == "shared":
        holder, offset = follower.state.holder(at, row)
        own = [each.number for each in follower.state.holders].index(holder.number)
        assert isinstance(follower.state.shared, LaunchShared)
        shadow, offset = follower.shared, own * follower.state.shared.stride + offset
    else:
        assert isinstance(follower.state.memory, DeviceMemory)
        buffer = next(each for each in follower.state.memory.buffers if each.address <= at < each.end)
        shadow, offset = follower.memories.shadow(buffer), at - buffer.address
    last = shadow.writers(np.array([offset >> shadow.shift]))
    return int(last.place[0]) if last.thread[0] != NOBODY else None


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
    return f"CTA {names.geometry.place(actor.cta)}, warp {actor.warp}" + f", {actor.lanes}" * bool(actor.lanes)
