"""Where the results of a launch are not those that were expected, and which instructions they come from."""

from __future__ import annotations

from collections.abc import Sequence

from isa.forms.record import Access, Space
from simulator.check.launch_finding import LaunchFinding
from simulator.check.rules import launch_rule
from simulator.check.suspects import suspects
from simulator.program.capture import Capture
from simulator.program.kernel import Kernel, Operation
from simulator.simulation.launch.batches import Setup
from simulator.simulation.launch.blame import source_of
from simulator.simulation.launch.captured import differences
from simulator.simulation.launch.launching import Options


def wrong_result(capture: Capture, setup: Setup, options: Options, ran: int) -> list[LaunchFinding]:
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
    line, source, text = (first.line, source_of(first), first.text) if first else (0, "", "")
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
