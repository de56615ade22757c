"""The order of tcgen05 instructions in launches, by the checker of traces.

PTX's versions differ in which pairs they order; a launch is accused of what none of them orders. These are notes:

* Fences between threads (tcgen05.fence) around arrivals that release and waits that acquire, where the first
  instruction is complete, if the kernel has no such fence anywhere, as NVIDIA's library (CUTLASS 4.2), or if the second
  only writes what the first has only read. PTX ISA 9.0, 9.7.16.6.4 shows the fences with relaxed arrivals and waits
  alone.
* tcgen05.ld of cells that nothing has written: lanes that a layout leaves out come along, and nobody looks at them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from simulator.check.findings import Finding, of_fences_alone, of_order
from simulator.check.links import EITHER, Link
from simulator.check.order import check_order
from simulator.check.order_result import Result
from simulator.check.synchronisation import Counted
from simulator.program.kernel import Kernel, Operation
from simulator.simulation.launch.order_log import ClusterLog

_FENCE = "tcgen05.fence"
_NAMED = 3  # pairs of lines of a group that a finding names
_LEFT_OUT = " (arrivals that release and waits that acquire order the two, as in NVIDIA's library)"


@dataclass
class OrderFindings:
    """What the clusters of a launch may not rely on, the same pair of lines once.

    Attributes:
        found: by (rule, line, other line).
        serious: those of them that are no notes in some cluster.
    """

    kernel: Kernel
    found: dict[tuple[str, int, int], Finding] = field(default_factory=dict)
    serious: set[tuple[str, int, int]] = field(default_factory=set)

    def add(self, logs: Iterable[ClusterLog], ctas: int, *, ended: bool) -> None:
        """Checks what clusters of so many CTAs did.

        Args:
            ended: whether they came to their end.
        """
        for log in logs:
            counted = Counted(log.phases, log.meetings)
            result = check_order(log.events, ptx=EITHER, counted=counted, ended=ended)
            notes = of_fences_alone(result, reads=not self._has_fences)
            notes |= {("tmem-read-before-write", line, 0) for line in _loads_of_nothing(result)}
            for finding in of_order(result, ctas):
                key = finding.rule, finding.line, finding.other
                known = self.found.get(key)
                if finding.rule == Link.RACE.value:  # `simulator.state.columns.LaunchShared` tells of these
                    continue
                ending = _LEFT_OUT if key in notes and finding.other and known is None else ""
                first, count = known or finding, finding.count + (known.count if known is not None else 0)
                self.found[key] = replace(first, what=first.what + ending, count=count)
                self.serious |= {key} - notes

    def findings(self) -> Iterator[tuple[Finding, bool]]:
        """What was found, and whether it is a note. Instructions with the same opcode (of an unrolled loop) that break
        a rule beside the same other line are one finding."""
        items = [item for item in self.kernel.items if isinstance(item, Operation)]
        opcodes = {item.line: item.instruction.form.opcode for item in items}
        found = sorted(self.found.values(), key=lambda f: (f.line, -f.other))
        ones = _grouped([[f] for f in found], lambda f: (f.rule, f.line, opcodes.get(f.other), self._is_note(f)))
        ones = _grouped(ones, lambda f: (f.rule, f.other, opcodes.get(f.line), self._is_note(f)))
        for first, *others in ones:
            lines = sorted({(each.other, each.line) for each in others})
            named = ", ".join(f"{other} and {line}" if other else str(line) for other, line in lines[:_NAMED])
            dots = ", ..." if len(lines) > _NAMED else ""
            what = "pairs of lines" if first.other else "lines"
            more = f" (and {len(lines)} more {what} like it: {named}{dots})" if lines else ""
            count = sum(each.count for each in (first, *others))
            yield replace(first, what=first.what + more, count=count), self._is_note(first)

    def _is_note(self, finding: Finding) -> bool:
        return (finding.rule, finding.line, finding.other) not in self.serious

    @property
    def _has_fences(self) -> bool:
        names = (item.instruction.form.name for item in self.kernel.items if isinstance(item, Operation))
        return any(name.startswith(_FENCE) for name in names)


def _grouped(ones: list[list[Finding]], key: Callable[[Finding], object]) -> list[list[Finding]]:
    """Joins lists whose first finding has the same key."""
    groups: dict[object, list[Finding]] = {}
    for each in ones:
        groups.setdefault(key(each[0]), []).extend(each)
    return list(groups.values())


def _loads_of_nothing(result: Result) -> set[int]:
    """The lines of tcgen05.ld that read cells that nothing has written."""
    return {each.access.line for each in result.unwritten.values() if each.access.operation.kind == "ld"}


def has_order(kernel: Kernel) -> bool:
    """Whether a kernel has tcgen05 instructions, whose order can be looked at."""
    return any(isinstance(i, Operation) and i.instruction.form.opcode.startswith("tcgen05.") for i in kernel.items)
