"""What a run of a launch with another completion than that at issue finds: waits and fences that are missing, and the
bytes that come out otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from isa.forms.record import Time
from isa.ptx.instruction import register_names
from isa.undefined import RULES
from simulator.execute.cta_state import Outcome
from simulator.execute.launch_state import LaunchState
from simulator.program.kernel import Kernel, Operation
from simulator.simulation.launch.watch import Met, Watch
from simulator.state.device_memory import DeviceMemory
from simulator.state.registers import Lanes, Sort, Warps, register_place

ASYNCHRONOUS = ("async-pending", "async-unexpected", "async-unfenced", "wgmma-pending", "wgmma-unfenced")
"""The rules whose findings are told."""


@dataclass(frozen=True)
class Missing:
    """A wait or a fence that an instruction lacks.

    Attributes:
        rule: its name, of `ASYNCHRONOUS`.
        line: of the PTX.
        source: "file:line" of the source, or "".
        instruction: as it stands in the module.
        what: what it touches, and what is missing.
        count: how many bytes, or how often.
    """

    rule: str
    line: int
    source: str
    instruction: str
    what: str
    count: int

    def __str__(self) -> str:
        place = f"line {self.line}" + (f" ({self.source})" if self.source else "")
        return f"{place}: {self.rule}: {self.what}, at '{self.instruction}'"


@dataclass(frozen=True)
class Changed:
    """A buffer that is not as after completion at issue.

    Attributes:
        buffer: its name.
        bytes: how many differ.
        first: the offset of the first of them.
    """

    buffer: str
    bytes: int
    first: int

    def __str__(self) -> str:
        where = f"{self.bytes} bytes are not as with completion at issue; the first is {self.first}"
        return f"buffer '{self.buffer}': {where}"


@dataclass(frozen=True)
class CompletionResult:
    """What a completion did to a launch.

    Attributes:
        policy: the completion.
        missing: waits and fences that are missing.
        changed: buffers that differ; None if nobody compared.
    """

    policy: str
    missing: tuple[Missing, ...] = ()
    changed: tuple[Changed, ...] | None = None

    @property
    def clean(self) -> bool:
        """Whether nothing is missing, and nothing differs."""
        return not self.missing and not self.changed

    def lines(self) -> list[str]:
        """The result in words."""
        count = len(self.missing)
        lacking = f"{count} line{'s lack' if count > 1 else ' lacks'} a wait or a fence"
        head = lacking if count else "nothing is missing"
        same = "" if self.changed is None or self.changed else ", every byte as with completion at issue"
        lines = [f"completion          {self.policy}: {head}{same}"]
        lines += [f"  {each}" for each in self.missing]
        return lines + [f"  {each}" for each in self.changed or ()]


@dataclass
class AsynchronousWatch(Watch):
    """Watches a run for what asynchronous operations may not rely on, and for nothing else."""

    def before(self, item: Operation, rows: Warps, lanes: Lanes) -> None:
        """As in `Watch`."""
        self._accumulators.executed(item, rows)
        completion = self.state.completion
        if completion is not None and completion.late:
            completion.tensor.use(item.reads, item.writes, rows, item.index)

    def after(self, item: Operation, rows: Warps, lanes: Lanes, outcome: Outcome) -> None:
        """Nothing."""


@dataclass
class Found:
    """What was met so far, by rule and place."""

    met: dict[tuple[str, int], Met] = field(default_factory=dict)

    def add(self, met: dict[tuple[str, int], Met]) -> None:
        """Adds what a batch has met."""
        for key, each in met.items():
            if key in self.met:
                self.met[key].count += each.count
            else:
                self.met[key] = each

    def missing(self, kernel: Kernel) -> tuple[Missing, ...]:
        """What is missing in a kernel, by line."""
        found = []
        for (rule, place), each in self.met.items():
            if rule in ASYNCHRONOUS:
                item = kernel.items[place]
                source = f"{item.source[0]}:{item.source[1]}" if item.source else ""
                what = f"{RULES[rule].rule}: {worded(kernel, each.what)}"
                found.append(Missing(rule, item.line, source, item.text, what, each.count))
        return tuple(sorted(found, key=lambda each: each.line))


def worded(kernel: Kernel, what: str) -> str:
    """What was met, in words that begin with a register as the module calls it."""
    name, space, rest = what.partition(" ")
    return kernel.names.get(name, (name,))[0] + space + rest


def is_asynchronous(kernel: Kernel) -> bool:
    """Whether a kernel has instructions that complete some time after their issue."""
    opcodes = {item.instruction.form.opcode for item in kernel.items if isinstance(item, Operation)}
    families = ("cp.async", "cp.reduce.async", "wgmma.mma", "tcgen05.", "st.async", "red.async")
    return any(opcode.startswith(families) for opcode in opcodes)


def watched(state: LaunchState) -> AsynchronousWatch:
    """The watch of a batch."""
    return AsynchronousWatch(state)


def accumulators(kernel: Kernel) -> list[int]:
    """Numbers of the registers of 32 bits that the kernel's products read after their issue: accumulators and A. PTX
    ISA 9.0, 9.7.15.7.1 asks for a wgmma.fence for these alone; metadata are read at issue, as CUTLASS relies on."""
    numbers = set()
    for item in kernel.items:
        if isinstance(item, Operation) and item.instruction.form.time is Time.WGMMA:
            for role in ("d", "a"):
                operand = item.instruction.by_role.get(role)
                places = [register_place(name) for name in register_names(operand)] if operand is not None else []
                numbers |= {place.number for place in places if place is not None and place.sort is Sort.WORD}
    return sorted(numbers)


def changed(memory: DeviceMemory, at_issue: DeviceMemory) -> tuple[Changed, ...]:
    """Where buffers differ from those after completion at issue."""
    found: list[Changed] = []
    for mine in memory.buffers:
        wrong: Sequence[int] = np.flatnonzero(mine.data != at_issue[mine.name].data).tolist()
        if wrong:
            found.append(Changed(mine.name, len(wrong), wrong[0]))
    return tuple(found)
