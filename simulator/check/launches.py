"""`check_launch`: runs a captured launch and reports what it may not rely on, with the lines of PTX and of the source.

What compute-sanitizer finds on a GPU (accesses outside of buffers, races, bytes that nothing has written, threads that
a barrier waits for in vain), and what it does not: metadata that PTX leaves undefined, registers that nothing has
written, bank conflicts, and which instructions a wrong result comes from.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from isa.forms.record import Access, Space
from isa.undefined import RULES
from simulator.check.suspects import suspects
from simulator.program.capture import Capture, read_capture
from simulator.program.kernel import Item, Kernel, Operation, link
from simulator.simulation.launch.arguments import parameter_bytes
from simulator.simulation.launch.batches import Setup
from simulator.simulation.launch.captured import differences, place
from simulator.simulation.launch.errors import LaunchError
from simulator.simulation.launch.interpreter import prepared
from simulator.simulation.launch.launching import Options, prepare
from simulator.simulation.launch.module import Module
from simulator.simulation.launch.run import Run
from simulator.simulation.launch.watch import Met, Watch
from simulator.tables import Table

CTAS = 64  # CTAs that are checked unless told otherwise
TOGETHER = 16  # CTAs in lock step: histories take room
CONFLICTS = 1.25  # wavefronts above the least number from which on a line is told
FIXES = {
    "read-before-write": "write it first",
    "shared-memory-race": "a barrier (or a wait for the copies) between the accesses",
    "bank-conflict": "another stride or a swizzle, so that 8 rows of 16 bytes lie in 32 different banks",
    "wrong-result": "look at the operands of these instructions",
}


@dataclass(frozen=True)
class LaunchFinding:
    """Something that a launch may not rely on.

    Attributes:
        rule: its name, as in `isa.undefined.RULES`, or "bank-conflict", "wrong-result" or that of an error.
        line: of the PTX; 0 for none.
        source: "file:line" of the source, or "".
        instruction: as it stands in the module.
        thread: which thread met it first, in words.
        what: what happens.
        fix: what to change.
        count: how often it happened.
        serious: whether the result depends on it; a bank conflict only costs time.
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


@dataclass(frozen=True)
class LaunchCheck:
    """The findings of a launch.

    Attributes:
        name: of the capture.
        kernel: that ran.
        ctas: how many CTAs were checked, of how many.
        findings: the serious ones first, by line.
    """

    name: str
    kernel: str
    ctas: tuple[int, int]
    findings: tuple[LaunchFinding, ...]

    @property
    def clean(self) -> bool:
        """Whether nothing was found that the result depends on."""
        return not any(finding.serious for finding in self.findings)

    def table(self) -> str:
        """The findings as text."""
        checked = f"{self.ctas[0]} of {self.ctas[1]} CTAs" if self.ctas[0] < self.ctas[1] else f"{self.ctas[1]} CTAs"
        if not self.findings:
            return f"{self.name}: clean ({checked} of {self.kernel})\n"
        lines = []
        for first, *others in self._alike():
            place = f"line {first.line}" + (f" ({first.source})" if first.source else "") if first.line else "result"
            times = f", {first.count} times" if first.count > 1 and first.rule != "wrong-result" else ""
            lines.append(f"{self.name}: {place}: {first.rule}: {first.what}{times}")
            if first.instruction:
                lines.append(f"  at    {first.instruction}")
            if others:
                more = ", ".join(str(each.line) for each in others)
                lines.append(f"  also  line{'s' if len(others) > 1 else ''} {more}, from the same line of the source")
            if first.thread:
                lines.append(f"  by    {first.thread}")
            lines += [f"  fix   {first.fix}", ""] if first.fix else [""]
        count = len(self.findings)
        return "\n".join([*lines, f"{count} finding{'s' if count > 1 else ''} in {checked} of {self.kernel}", ""])

    def _alike(self) -> list[list[LaunchFinding]]:
        """The findings, those together that break the same rule on the same line of the source."""
        groups: dict[object, list[LaunchFinding]] = {}
        for finding in self.findings:
            alike = (finding.rule, finding.source, finding.fix) if finding.source else id(finding)
            groups.setdefault(alike, []).append(finding)
        return list(groups.values())

    def json(self) -> str:
        """One object; `findings` has one row each."""
        rows = [asdict(finding) for finding in self.findings]
        return (
            json.dumps({"launch": self.name, "kernel": self.kernel, "ctas": self.ctas, "findings": rows}, indent=1)
            + "\n"
        )

    def csv(self) -> str:
        """One row for each finding."""
        columns = ("launch", *(field.name for field in fields(LaunchFinding)))
        return Table(columns, [(self.name, *asdict(finding).values()) for finding in self.findings]).csv()


def check_launch(capture: str | Path | Capture, ctas: int = CTAS, budget: int = 200_000_000) -> LaunchCheck:
    """Checks a captured launch.

    Args:
        capture: path of its JSON file, or one that has been read.
        ctas: how many CTAs to check, spread over the grid; the others are not run, and if some are left out, results
            are compared only where the checked ones wrote.
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
        dynamic_shared=capture.dynamic_shared, cluster=capture.cluster, budget=budget, target=capture.target
    )
    params = parameter_bytes(kernel, placed.values)
    setup = prepare(kernel, capture.grid, capture.block, placed.memory, params, options)
    chosen = np.unique(np.linspace(0, setup.geometry.ctas - 1, min(ctas, setup.geometry.ctas)).astype(np.int64))
    findings, stopped, ran = _run(setup, chosen)
    if not stopped and len(chosen) == setup.geometry.ctas:
        findings += _wrong(capture, setup, options, ran)
    ordered = tuple(sorted(findings, key=lambda finding: (not finding.serious, finding.line)))
    return LaunchCheck(capture.path.stem, kernel.name, (len(chosen), setup.geometry.ctas), ordered)


def _run(setup: Setup, chosen: np.ndarray[tuple[int], np.dtype[np.int64]]) -> tuple[list[LaunchFinding], bool, int]:
    """The findings of these CTAs, whether an error ended the run, and how many warp instructions ran."""
    code, budget = prepared(setup.kernel), setup.budget
    met: dict[tuple[str, int], tuple[Met, str]] = {}
    wavefronts: Counter[int] = Counter()
    least: Counter[int] = Counter()
    ended: list[LaunchFinding] = []
    for first in range(0, len(chosen), TOGETHER):
        state = setup.state(chosen[first : first + TOGETHER], checked=True, timed=True)
        watch = Watch(state)
        run = Run(code, state, budget, watch=watch)
        try:
            run.run()
        except LaunchError as error:
            ended = [_error(error, setup.kernel)]
        budget = run.budget
        for key, each in watch.met.items():
            thread = "" if each.row < 0 else _thread(state.batch.cta_of(each.row), each.row % state.warps, each.lane)
            if key in met:
                met[key][0].count += each.count
            else:
                met[key] = each, thread
        wavefronts.update(watch.wavefronts)
        least.update(watch.least)
        if ended:
            break
    findings = [_finding(setup.kernel, rule, place, each, thread) for (rule, place), (each, thread) in met.items()]
    findings += _conflicts(setup.kernel, wavefronts, least)
    return ended + findings, bool(ended), setup.budget - budget


def _thread(cta: tuple[int, int, int], warp: int, lane: int) -> str:
    return f"CTA {cta}, warp {warp}, lane {lane}"


def _source(item: Item) -> str:
    return f"{item.source[0]}:{item.source[1]}" if item.source else ""


def _finding(kernel: Kernel, rule: str, place: int, met: Met, thread: str) -> LaunchFinding:
    item = kernel.items[place]
    what = RULES[rule].rule if rule in RULES else rule
    if rule == "read-before-write":
        role, _, register = met.what.partition(" ")
        name = kernel.names.get(register, (register,))[0]
        if not register.startswith("%"):  # what is read ahead may be thrown away
            what = f"{met.what} that nothing has written are read"
            return LaunchFinding(rule, item.line, _source(item), item.text, thread, what, FIXES[rule], met.count, False)
        what = f"nothing has written {name}, operand {role}"
    elif met.what:
        what = f"{what}: {met.what}"
    fix = FIXES.get(rule, "metadata whose codes PTX defines, read from the right place" if "metadata" in rule else "")
    return LaunchFinding(rule, item.line, _source(item), item.text, thread, what, fix, met.count)


def _conflicts(kernel: Kernel, wavefronts: Counter[int], least: Counter[int]) -> Iterable[LaunchFinding]:
    """The accesses that take more wavefronts than they need."""
    for index, count in wavefronts.items():
        if least[index] and count > CONFLICTS * least[index]:
            item = kernel.items[index]
            what = (
                f"{count} wavefronts of shared memory where {least[index]} would do ({count / least[index]:.1f} times)"
            )
            fix = FIXES["bank-conflict"]
            yield LaunchFinding("bank-conflict", item.line, _source(item), item.text, "", what, fix, serious=False)


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
        return [_result(items, f"{what}; it comes from lines {_lines(items)}", FIXES["wrong-result"], count)]
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
