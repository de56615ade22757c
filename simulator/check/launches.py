"""`check_launch`: runs a captured launch and reports what it may not rely on, with the lines of PTX and of the source.

What compute-sanitizer finds on a GPU (accesses outside of buffers, races, bytes that nothing has written, threads that
a barrier waits for in vain), and what it does not: metadata that PTX leaves undefined, registers that nothing has
written, bank conflicts, and which instructions a wrong result comes from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isa.undefined import RULES
from simulator.check.findings import Finding
from simulator.check.launch_finding import LaunchCheck, LaunchFinding
from simulator.check.launch_order import OrderFindings, has_order
from simulator.check.memory_model.follow import follow, memories_of
from simulator.check.race_findings import findings_of, names_of
from simulator.check.rules import launch_rule
from simulator.check.wrong_result import wrong_result
from simulator.execute.policy import Policy
from simulator.parallel import cores
from simulator.program.capture import Capture, read_capture
from simulator.program.kernel import Item, Kernel, Operation, link
from simulator.simulation.launch.arguments import parameter_bytes
from simulator.simulation.launch.batches import Setup, batches, execute, may_part, waits_for_others
from simulator.simulation.launch.blame import source_of
from simulator.simulation.launch.captured import place
from simulator.simulation.launch.completion import worded
from simulator.simulation.launch.errors import LaunchError
from simulator.simulation.launch.interpreter import prepared
from simulator.simulation.launch.launching import Options, prepare
from simulator.simulation.launch.module import Module
from simulator.simulation.launch.order_log import OrderLog
from simulator.simulation.launch.run import Run
from simulator.simulation.launch.watch import Met, Watch

CTAS = 64  # CTAs that are watched at least, spread over the grid, unless told otherwise
WATCHED = 200_000  # warp instructions up to which more are
TOGETHER = 16  # CTAs in lock step: histories take room
CONFLICTS = 1.25  # wavefronts above the least number from which on a line is told


def check_launch(
    capture: str | Path | Capture,
    ctas: int = CTAS,
    budget: int = 200_000_000,
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
) -> LaunchCheck:
    """Checks a captured launch: watches CTAs, and compares the results of all.

    Args:
        capture: path of its JSON file, or one that has been read.
        ctas: how many CTAs to watch at least, spread over the grid; more, up to all, in a launch that is short.
        budget: warp instructions after which it is given up.
        rtol, atol: how far results may be from those of the capture, as of `numpy.allclose`; 0: bit for bit.

    Raises:
        CaptureError, IsaError: a capture or module that cannot be read.
    """
    if not isinstance(capture, Capture):
        capture = read_capture(capture)
    module = Module(capture.ptx)
    kernel = link(module.parsed, module.find(capture.entry), allocate=False, fmad=capture.fmad)
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
        findings += wrong_result(capture, setup, options, ran, rtol=rtol, atol=atol)
    elif compared:
        again = prepare(kernel, capture.grid, capture.block, place(capture).memory, params, options)
        try:
            ran = int(execute(again, cores()).counts.sum())
            findings += wrong_result(capture, again, options, ran, rtol=rtol, atol=atol)
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
    memories = memories_of(setup)
    for ctas, needed in _portions(setup, least):
        if ended or (not needed and setup.budget - budget >= WATCHED):
            break
        state = setup.state(ctas, timed=True)
        watch = Watch(state, follow(state, memories).values)
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
    findings += findings_of(memories, names_of(setup))
    if order is not None:
        findings += [_ordered(setup.kernel, found, note) for found, note in order.findings()]
    return ended + findings, watched, setup.budget - budget, bool(ended)


def _ordered(kernel: Kernel, found: Finding, note: bool) -> LaunchFinding:
    """A finding of the order of instructions."""
    items = [item for item in kernel.items if item.line == found.line and isinstance(item, Operation)]
    item = next((item for item in items if found.what.startswith(item.instruction.form.opcode)), items[0])
    return LaunchFinding(
        found.rule, item.line, source_of(item), item.text, "", found.what, found.fix, found.count, serious=not note
    )


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
    return LaunchFinding(rule, item.line, source_of(item), item.text, thread, what, known.fix, met.count, known.counts)


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
    return LaunchFinding(rule, item.line, source_of(item), item.text, "", what, known.fix, serious=known.counts)


def _error(error: LaunchError, kernel: Kernel) -> LaunchFinding:
    text = next((item.text for item in kernel.items if item.line == error.line), "")
    reason = error.reason.removeprefix(f"{error.rule}: ")
    return LaunchFinding(
        error.rule or "error", error.line, error.source, text, error.thread, reason,
        f"legal: {error.legal}" if error.legal else "",
    )  # fmt: skip
