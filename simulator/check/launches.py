"""`check_launch`: runs a captured launch and reports what it may not rely on, with the lines of PTX and of the source.

What compute-sanitizer finds on a GPU (accesses outside of buffers, races, bytes that nothing has written, threads that
a barrier waits for in vain), and what it does not: metadata that PTX leaves undefined, registers that nothing has
written, bank conflicts, and which instructions a wrong result comes from.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isa.forms.record import Access, Space
from isa.undefined import RULES
from simulator.check.findings import Finding
from simulator.check.launch_order import OrderFindings, has_order
from simulator.check.rules import launch_rule
from simulator.check.suspects import suspects
from simulator.execute.policy import Policy
from simulator.parallel import cores
from simulator.program.capture import Capture, read_capture
from simulator.program.kernel import Item, Kernel, Operation, link
from simulator.simulation.launch.arguments import parameter_bytes
from simulator.simulation.launch.batches import Setup, batches, execute, may_part, waits_for_others
from simulator.simulation.launch.captured import differences, place
from simulator.simulation.launch.completion import worded
from simulator.simulation.launch.errors import LaunchError
from simulator.simulation.launch.interpreter import prepared
from simulator.simulation.launch.launching import Options, prepare
from simulator.simulation.launch.module import Module
from simulator.simulation.launch.order_log import OrderLog
from simulator.simulation.launch.run import Run
from simulator.simulation.launch.watch import Met, Watch
from simulator.tables import Table

CTAS = 64  # CTAs that are watched at least, spread over the grid, unless told otherwise
WATCHED = 200_000  # warp instructions up to which more are
TOGETHER = 16  # CTAs in lock step: histories take room
CONFLICTS = 1.25  # wavefronts above the least number from which on a line is told


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


def _times(count: int, word: str) -> str:
    return f"{count} {word}{'s' if count > 1 else ''}"


@dataclass(frozen=True)
class LaunchCheck:
    """The findings of a launch.

    Attributes:
        name: of the capture.
        kernel: that ran.
        ctas: how many CTAs were watched, of how many.
        findings: the serious ones first, by line.
        compared: whether the results of all CTAs were compared with those of the capture.
    """

    name: str
    kernel: str
    ctas: tuple[int, int]
    findings: tuple[LaunchFinding, ...]
    compared: bool = True

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
        head = " and ".join(found) or ("clean" if watched == whole else "nothing found")
        scope = _times(whole, "CTA") if watched == whole else f"{watched} of {whole} CTAs"
        wrong = any(finding.rule == "wrong-result" for finding in self.findings)
        results = f"results of all {'are wrong' if wrong else 'as in the capture'}"
        return f"{head} ({scope} of {self.kernel} watched; {results if self.compared else 'no results compared'})"

    def table(self) -> str:
        """The findings as text."""
        if not self.findings:
            return f"{self.name}: {self.verdict}\n"
        lines = []
        for first, *others in self._alike():
            place = f"line {first.line}" + (f" ({first.source})" if first.source else "") if first.line else "result"
            times = f", {first.count} times" if first.count > 1 and first.rule != "wrong-result" else ""
            note = "" if first.serious else "note: "
            lines.append(f"{self.name}: {place}: {note}{first.rule}: {first.what}{times}")
            if first.instruction:
                lines.append(f"  at    {first.instruction}")
            if others:
                more = ", ".join(str(each.line) for each in others)
                lines.append(f"  also  line{'s' if len(others) > 1 else ''} {more}, from the same line of the source")
            if first.thread:
                lines.append(f"  by    {first.thread}")
            lines += [f"  fix   {first.fix}", ""] if first.fix else [""]
        return "\n".join([*lines, self.verdict, ""])

    def _alike(self) -> list[list[LaunchFinding]]:
        """The findings, those together that break the same rule on the same line of the source."""
        groups: dict[object, list[LaunchFinding]] = {}
        for finding in self.findings:
            alike = (finding.rule, finding.source, finding.fix) if finding.source else id(finding)
            groups.setdefault(alike, []).append(finding)
        return list(groups.values())

    def json(self) -> str:
        """One object; `findings` has one row each."""
        head = {"launch": self.name, "kernel": self.kernel, "ctas": self.ctas, "compared": self.compared}
        rows = [asdict(finding) for finding in self.findings]
        return json.dumps(head | {"clean": self.clean, "findings": rows}, indent=1) + "\n"

    def csv(self) -> str:
        """One row for each finding."""
        columns = ("launch", *(field.name for field in fields(LaunchFinding)))
        return Table(columns, [(self.name, *asdict(finding).values()) for finding in self.findings]).csv()


def check_launch(capture: str | Path | Capture, ctas: int = CTAS, budget: int = 200_000_000) -> LaunchCheck:
    """Checks a captured launch: watches CTAs, and compares the results of all.

    Args:
        capture: path of its JSON file, or one that has been read.
        ctas: how many CTAs to watch at least, spread over the grid; more, up to all, in a launch that is short.
        budget: warp instructions after which it is given up.

    Raises:
        CaptureError, IsaError: a capture or module that cannot be read.
    """
    if not isinstance(capture, Capture):
        capture = read_capture(capture)
    module = Module(capture.ptx)
    kernel = link(module.parsed, module.find(capture.entry), allocate=False)
    placed = place(capture)
    options = Options(
        dynamic_shared=capture.dynamic_shared,
        cluster=capture.cluster,
        budget=budget,
        target=capture.target,
        cooperative=capture.cooperative,
    )
    params = parameter_bytes(kernel, placed.values)
    setup = prepare(kernel, capture.grid, capture.block, placed.memory, params, options)
    setup = replace(setup, completion=Policy())
    findings, watched, ran, stopped = _watched(setup, ctas)
    compared = not stopped and bool(capture.after)
    if compared and watched == setup.geometry.ctas and may_part(kernel):  # as they would run by themselves
        findings += _wrong(capture, setup, options, ran)
    elif compared:
        again = prepare(kernel, capture.grid, capture.block, place(capture).memory, params, options)
        try:
            ran = int(execute(again, cores()).counts.sum())
            findings += _wrong(capture, again, options, ran)
        except LaunchError as error:  # of a CTA that was not watched
            findings, compared = [_error(error, kernel), *findings], False
    ordered = tuple(sorted(findings, key=lambda finding: (not finding.serious, finding.line)))
    return LaunchCheck(capture.path.stem, kernel.name, (watched, setup.geometry.ctas), ordered, compared)


def _portions(setup: Setup, least: int) -> Iterator[tuple[NDArray[np.int64], bool]]:
    """All CTAs in the portions that run together, and whether a portion is among those that are watched in any case:
    the first ones are spread over the grid. CTAs that may wait for one another come in the order of the grid."""
    count = setup.geometry.ctas
    if waits_for_others(setup.kernel):
        done = 0
        for portion in batches(setup):
            yield portion, done < least
            done += len(portion)
        return
    spread = np.unique(np.linspace(0, count - 1, min(least, count)).astype(np.int64))
    others = np.setdiff1d(np.arange(count), spread) if count <= len(spread) + WATCHED else spread[:0]
    for chosen, needed in ((spread, True), (others, False)):
        for first in range(0, len(chosen), TOGETHER):
            yield chosen[first : first + TOGETHER], needed


def _watched(setup: Setup, least: int) -> tuple[list[LaunchFinding], int, int, bool]:
    """What is found in CTAs that are watched, how many these are, how many warp instructions they took, and whether an
    error ended the run."""
    code, budget, watched = prepared(setup.kernel), setup.budget, 0
    met: dict[tuple[str, int], tuple[Met, str]] = {}
    wavefronts: Counter[int] = Counter()
    least_needed: Counter[int] = Counter()
    ended: list[LaunchFinding] = []
    order = OrderFindings(setup.kernel) if has_order(setup.kernel) else None
    for ctas, needed in _portions(setup, least):
        if ended or (not needed and setup.budget - budget >= WATCHED):
            break
        state = setup.state(ctas, checked=True, timed=True)
        watch = Watch(state)
        log = OrderLog(state, setup.kernel) if order is not None else None
        run = Run(code, state, budget, watch=watch)
        try:
            run.run()
        except LaunchError as error:
            ended = [_error(error, setup.kernel)]
        if order is not None and log is not None:
            order.add(log.logs(), state.cluster_size, ended=not ended)
        budget, watched = run.budget, watched + len(ctas)
        for key, each in watch.met.items():
            thread = "" if each.row < 0 else _thread(state.batch.cta_of(each.row), each.row % state.warps, each.lane)
            if key in met:
                met[key][0].count += each.count
            else:
                met[key] = each, thread
        wavefronts.update(watch.wavefronts)
        least_needed.update(watch.least)
    findings = [_finding(setup.kernel, rule, place, each, thread) for (rule, place), (each, thread) in met.items()]
    findings += _conflicts(setup.kernel, wavefronts, least_needed)
    if order is not None:
        findings += [_ordered(setup.kernel, found, note) for found, note in order.findings()]
    return ended + findings, watched, setup.budget - budget, bool(ended)


def _ordered(kernel: Kernel, found: Finding, note: bool) -> LaunchFinding:
    """A finding of the order of instructions."""
    items = [item for item in kernel.items if item.line == found.line and isinstance(item, Operation)]
    item = next((item for item in items if found.what.startswith(item.instruction.form.opcode)), items[0])
    return LaunchFinding(
        found.rule, item.line, _source(item), item.text, "", found.what, found.fix, found.count, serious=not note
    )


def _thread(cta: tuple[int, int, int], warp: int, lane: int) -> str:
    return f"CTA {cta}, warp {warp}, lane {lane}"


def _source(item: Item) -> str:
    return f"{item.source[0]}:{item.source[1]}" if item.source else ""


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
    return LaunchFinding(rule, item.line, _source(item), item.text, thread, what, known.fix, met.count, known.counts)


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
    return LaunchFinding(rule, item.line, _source(item), item.text, "", what, known.fix, serious=known.counts)


def _error(error: LaunchError, kernel: Kernel) -> LaunchFinding:
    text = next((item.text for item in kernel.items if item.line == error.line), "")
    reason = error.reason.removeprefix(f"{error.rule}: ")
    return LaunchFinding(
        error.rule or "error", error.line, error.source, text, error.thread, reason,
        f"legal: {error.legal}" if error.legal else "",
    )  # fmt: skip


def _wrong(capture: Capture, setup: Setup, options: Options, ran: int) -> list[LaunchFinding]:
    """Where results differ from what the capture says, with the mistake if one is found, or else with the instructions
    that they come from."""
    arrays = {
        name: setup.memory[name].data.view(capture.buffers[name].type).reshape(capture.buffers[name].shape)
        for name in capture.after
    }
    found = differences(capture, arrays)
    if not found:
        return []
    what = "; ".join(map(str, found))
    count = sum(each.elements for each in found)
    guilty = suspects(capture, setup.kernel, options, setup.params, count, ran)
    if guilty:
        best = guilty[0]
        after = "the result is that of the capture" if not best.left else f"{best.left} elements are wrong"
        what = f"{best.what}: with the fix {after}, without it: {what}"
        return [_result(best.items, what, f"{best.fix} (lines {_lines(best.items)})", count)]
    items = origins(setup.kernel)
    if items:
        return [_result(items, f"{what}; it comes from lines {_lines(items)}", launch_rule("wrong-result").fix, count)]
    return [_result((), f"{what}; no single instruction explains it", "what is found besides", count)]


def _result(items: Sequence[Operation], what: str, fix: str, count: int) -> LaunchFinding:
    first = items[0] if items else None
    line, source, text = (first.line, _source(first), first.text) if first else (0, "", "")
    return LaunchFinding("wrong-result", line, source, text, "", what, fix, count)


def _lines(items: Sequence[Operation]) -> str:
    """The lines of instructions, in words."""
    return ", ".join(dict.fromkeys(f"{item.line}" for item in items))


def _stores_to_global(access: Access | None) -> bool:
    return access is not None and access.write and access.space is Space.GLOBAL


def origins(kernel: Kernel) -> list[Operation]:
    """The matrix instructions from which what the kernel stores to global memory is computed."""
    writers: dict[str, list[Operation]] = {}
    for item in kernel.items:
        if isinstance(item, Operation):
            for name in item.writes:
                writers.setdefault(name, []).append(item)
    work = [
        name
        for item in kernel.items
        if isinstance(item, Operation) and _stores_to_global(item.instruction.form.access)
        for name in item.reads
    ]
    seen, found = set(work), []
    while work:
        for item in writers.get(work.pop(), ()):
            if item.instruction.form.is_matrix and item not in found:
                found.append(item)
            for name in item.reads:
                if name not in seen:
                    seen.add(name)
                    work.append(name)
    return sorted(found, key=lambda item: item.index)
