"""Runs the CTAs of a launch that are watched, and says what they may not rely on.

A launch whose threads order each other by more than barriers of the whole CTA is run twice: in lock step, and warp by
warp, so that what one order of execution hides the other shows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from isa.forms.record import Time
from isa.forms.synchronisation import sees_other_threads
from isa.undefined import RULES
from simulator.check.barrier_findings import Barriers
from simulator.check.findings import Finding
from simulator.check.launch_finding import LaunchFinding, Side
from simulator.check.launch_order import OrderFindings, has_order
from simulator.check.memory_model.follow import follow, memories_of
from simulator.check.memory_model.memories import Memories
from simulator.check.memory_model.races import Party
from simulator.check.memory_model.shadow import READER_BYTES, WRITER_BYTES
from simulator.check.race_findings import findings_of, names_of
from simulator.check.rules import LaunchRule, launch_rule
from simulator.program.kernel import Item, Kernel, Operation
from simulator.simulation.launch.batches import ROWS, Setup, batches, waits_for_others
from simulator.simulation.launch.blame import source_of
from simulator.simulation.launch.completion import worded
from simulator.simulation.launch.errors import LaunchError
from simulator.simulation.launch.interpreter import prepared
from simulator.simulation.launch.order_log import OrderLog
from simulator.simulation.launch.run import Run
from simulator.simulation.launch.watch import Met, Watch

WATCHED = 200_000  # warp instructions up to which more CTAs are watched than must be
HISTORY_BYTES = 1 << 28  # that the histories of shared memory of a batch may take
CONFLICTS = 1.25  # wavefronts above the least number from which on a line is told
CONSEQUENCES = ("barrier-use", "deadlock", "endless-wait", "instruction-budget")  # of what else is found, in that run
BY_WARP = 8_000  # warp instructions of a launch that is run once more, warp by warp


Shapes = dict[str, tuple[int, int, int, int]]


@dataclass
class Watched:
    """What was found in the CTAs that were watched.

    Attributes:
        findings: of them.
        ctas: how many there were.
        ran: warp instructions that they took.
        error: that ended the run.
    """

    findings: list[LaunchFinding]
    ctas: int
    ran: int
    error: LaunchError | None

    @property
    def stopped(self) -> bool:
        """Whether an error ended the run."""
        return self.error is not None


@dataclass
class _Notes:
    """What was met so far."""

    memories: Memories
    order: OrderFindings | None
    met: dict[tuple[str, int], tuple[Met, str]] = field(default_factory=dict)
    wavefronts: Counter[int] = field(default_factory=Counter)
    least: Counter[int] = field(default_factory=Counter)
    gone: list[tuple[int, Party]] = field(default_factory=list)
    barriers: Barriers = field(default_factory=Barriers)


def watched(setup: Setup, least: int, fresh: Callable[[], Setup], shapes: Shapes, unwritten: set[str]) -> Watched:
    """Watches CTAs of a launch.

    Args:
        least: how many at least.
        fresh: makes the launch anew, with its memory as it was.
        shapes: of buffers with declared shapes: rows, columns, elements from row to row, bytes of an element.
        unwritten: names of buffers that hold nothing before the launch.
    """
    result = watch_once(setup, least, shapes, unwritten, by_warp=False)
    if result.ran <= BY_WARP and result.ctas == setup.geometry.ctas and _may_hide(setup.kernel):
        again = watch_once(fresh(), least, shapes, unwritten, by_warp=True)
        known = {(each.rule, line) for each in result.findings for line in _lines(each)}
        result.findings += [each for each in again.findings if _is_new(each, known)]
    return result


def _lines(finding: LaunchFinding) -> tuple[int, ...]:
    """The lines that a finding names."""
    other = () if finding.other is None else (finding.other.line,)
    return finding.line, *other, *finding.also


def _is_new(finding: LaunchFinding, known: set[tuple[str, int]]) -> bool:
    """Whether a finding of a run warp by warp says something new, and is about the order of threads or values."""
    counts = finding.serious and finding.rule not in CONSEQUENCES
    return counts and not any((finding.rule, line) in known for line in _lines(finding))


def _may_hide(kernel: Kernel) -> bool:
    """Whether the order in which warps run may hide what a kernel may not rely on."""
    for item in kernel.items:
        if isinstance(item, Operation):
            form = item.instruction.form
            if form.opcode.startswith(("atom", "red")) or sees_other_threads(form):
                return True
            if form.time is Time.BARRIER and ("b" in item.instruction.by_role or "arrive" in form.opcode):
                return True
    return False


def _portions(setup: Setup, least: int) -> Iterator[tuple[NDArray[np.int64], bool]]:
    """All CTAs in the portions that run together, and whether a portion is among those that are watched in any case:
    the first ones are spread over the grid. CTAs that may wait for one another come in the order of the grid."""
    count = setup.geometry.ctas
    if waits_for_others(setup.kernel) or int(np.prod(setup.geometry.cluster)) > 1:
        done = 0
        for portion in batches(setup):
            yield portion, done < least
            done += len(portion)
        return
    spread = np.unique(np.linspace(0, count - 1, min(least, count)).astype(np.int64))
    others = np.setdiff1d(np.arange(count), spread) if count <= len(spread) + WATCHED else spread[:0]
    together = _together(setup)
    for chosen, needed in ((spread, True), (others, False)):
        for first in range(0, len(chosen), together):
            yield chosen[first : first + together], needed


def _together(setup: Setup) -> int:
    """How many CTAs run in lock step: as many warps as in a launch, if the histories of their shared memory have
    room."""
    warps = setup.geometry.warps
    history = setup.shared_bytes // 4 * (READER_BYTES * warps + WRITER_BYTES)  # of accesses of 4 bytes
    return max(min(ROWS // warps, HISTORY_BYTES // max(history, 1)), 1)


def watch_once(setup: Setup, least: int, shapes: Shapes, unwritten: set[str], *, by_warp: bool) -> Watched:
    """Watches CTAs of a launch in one order: in lock step, or warp by warp; the rest is as of `watched`."""
    code, budget, count = prepared(setup.kernel), setup.budget, 0
    ended: LaunchError | None = None
    notes = _Notes(memories_of(setup), OrderFindings(setup.kernel) if has_order(setup.kernel) else None)
    notes.memories.strays.shapes |= shapes
    notes.memories.fresh |= {buffer.address for buffer in setup.memory.buffers if buffer.name in unwritten}
    for ctas, needed in _portions(setup, least):
        if ended or (not needed and setup.budget - budget >= WATCHED):
            break
        state = setup.state(ctas, timed=True)
        follower = follow(state, notes.memories)
        watch = Watch(state, follower.values)
        log = OrderLog(state, setup.kernel) if notes.order is not None else None
        run = Run(code, state, budget, watch=watch)
        run.threads.by_warp = by_warp
        notes.barriers.follow(run, follower)
        try:
            run.run()
        except LaunchError as error:
            ended = error
        else:
            notes.gone += follower.end()
        if notes.order is not None and log is not None:
            notes.order.add(log.logs(), state.cluster_size, ended=ended is None)
        budget, count = run.budget, count + len(ctas)
        _add(notes, watch)
    stopped = [error_finding(ended, setup.kernel)] if ended is not None else []
    return Watched(stopped + _findings(notes, setup), count, setup.budget - budget, ended)


def _add(notes: _Notes, watch: Watch) -> None:
    """Adds what a batch has met."""
    state = watch.state
    for key, each in watch.met.items():
        thread = "" if each.row < 0 else _thread(state.batch.cta_of(each.row), each.row % state.warps, each.lane)
        if key in notes.met:
            notes.met[key][0].count += each.count
        else:
            notes.met[key] = each, thread
    notes.wavefronts.update(watch.wavefronts)
    notes.least.update(watch.least)


def _findings(notes: _Notes, setup: Setup) -> list[LaunchFinding]:
    kernel = setup.kernel
    met = [_finding(kernel, rule, place, each, thread) for (rule, place), (each, thread) in notes.met.items()]
    findings = _of_one_operation(met, kernel)
    findings += _conflicts(kernel, notes.wavefronts, notes.least)
    findings += findings_of(notes.memories, names_of(setup), notes.gone)
    if notes.order is not None:
        findings += [_ordered(kernel, found, note) for found, note in notes.order.findings()]
    names = names_of(setup)
    return notes.barriers.findings(names) + notes.barriers.explained(findings, names)


_OPERATION = re.compile(r" of line (\d+)")


def _of_one_operation(findings: list[LaunchFinding], kernel: Kernel) -> list[LaunchFinding]:
    """Findings about the same asynchronous operation as one; those from one line of the source are the same."""
    sources = {item.line: source_of(item) or str(item.line) for item in kernel.items}
    groups: dict[object, list[LaunchFinding]] = {}
    for each in sorted(findings, key=lambda finding: finding.line):
        found = _OPERATION.search(each.what) if each.rule.startswith("async-") else None
        key = (each.rule, sources.get(int(found[1]), found[1])) if found else id(each)
        groups.setdefault(key, []).append(each)
    return [_with_operation(group, kernel) for group in groups.values()]


def _with_operation(group: list[LaunchFinding], kernel: Kernel) -> LaunchFinding:
    """Findings about the same asynchronous operation as one, the other side of which the operation is."""
    first, *more = group
    count, also = first.count + sum(each.count for each in more), tuple(each.line for each in more)
    found = _OPERATION.search(first.what) if more else None
    item = next((item for item in kernel.items if found is not None and item.line == int(found[1])), None)
    side = None if item is None else Side(item.line, source_of(item), item.text, "", "is under way", "")
    return replace(first, count=count, also=also, other=first.other or side)


def _ordered(kernel: Kernel, found: Finding, note: bool) -> LaunchFinding:
    """A finding of the order of instructions."""
    items = [item for item in kernel.items if item.line == found.line and isinstance(item, Operation)]
    item = next((item for item in items if found.what.startswith(item.instruction.form.opcode)), items[0])
    return LaunchFinding(
        found.rule, item.line, source_of(item), item.text, "", found.what, found.fix, found.count, serious=not note,
        states=found.states, section=found.section,
    )  # fmt: skip


def _thread(cta: tuple[int, int, int], warp: int, lane: int) -> str:
    return f"CTA {cta}, warp {warp}, lane {lane}"


def _finding(kernel: Kernel, rule: str, place: int, met: Met, thread: str) -> LaunchFinding:
    item, known = kernel.items[place], launch_rule(rule)
    what = RULES[rule].rule if rule in RULES else known.rule
    if rule == "read-before-write":
        role, _, register = met.what.partition(" ")
        name = kernel.names.get(register, (register,))[0]
        what = f"nothing has written {name}, operand {role}"
        if not register.startswith("%"):
            what = f"{met.what} that nothing has written are read"
    elif met.what:
        what = f"{what}: {worded(kernel, met.what)}"
    return LaunchFinding(
        rule, item.line, source_of(item), item.text, thread, what, known.fix, met.count, known.counts,
        states=known.rule, section=known.section,
    )  # fmt: skip


def _conflicts(kernel: Kernel, wavefronts: Counter[int], least: Counter[int]) -> Iterable[LaunchFinding]:
    """The accesses that take more wavefronts than they need."""
    for index, count in wavefronts.items():
        if least[index] and count > CONFLICTS * least[index]:
            item = kernel.items[index]
            what = (
                f"{count} wavefronts of shared memory where {least[index]} would do ({count / least[index]:.1f} times)"
            )
            yield _finding_of("bank-conflict", item, what)


def _finding_of(rule: str, item: Item, what: str) -> LaunchFinding:
    known = launch_rule(rule)
    return LaunchFinding(
        rule, item.line, source_of(item), item.text, "", what, known.fix, serious=known.counts, states=known.rule,
        section=known.section,
    )  # fmt: skip


def error_finding(error: LaunchError, kernel: Kernel) -> LaunchFinding:
    text = next((item.text for item in kernel.items if item.line == error.line), "")
    reason = error.reason.removeprefix(f"{error.rule}: ")
    known = launch_rule(error.rule) if error.rule else LaunchRule("")
    return LaunchFinding(
        error.rule or "error", error.line, error.source, text, error.thread, reason,
        f"legal: {error.legal}" if error.legal else known.fix, states=known.rule, section=known.section,
        also=error.also,
    )  # fmt: skip
