"""Runs a trace for its values: what the registers and shared memory hold at the end, and how long each access keeps shared memory busy.

Warps of a block run in lock step, all of their lanes at once; blocks take turns at barriers. In a program without races (which are counted)
no other order gives another result, so time is left to `simulator.timing`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from isa import IsaError, Target, UndefinedBehavior
from isa.forms import MmaForm
from simulator.errors import DeadlockError, TraceError
from simulator.execute.barrier import Barriers
from simulator.execute.machine import Machine
from simulator.execute.steps import executor
from simulator.state import AddressError, RegisterFile, SharedMemory
from simulator.trace.data import load_all, store_all
from simulator.trace.linear import Code, LoopEnd, Operation
from simulator.trace.program import Trace

COMPARED = 20_000  # matrix instructions compared with the exact result, unless told otherwise


@dataclass
class Group:
    """Warps that run the same code in lock step, and what was seen of them.

    Attributes:
        wavefronts: for each operation that uses shared memory, [execution, warp] cycles.
        unwritten: (register, line) of the first read of each register that nothing had written, with its warps.
    """

    code: Code
    warps: NDArray[np.intp]
    wavefronts: dict[int, list[NDArray[np.int64]]] = field(default_factory=dict)
    unwritten: dict[tuple[int, int], set[int]] = field(default_factory=dict)


@dataclass
class Executed:
    """What running a trace for its values gave.

    Attributes:
        arrays: what `.store` asked for.
        groups: the groups with their wavefronts.
        machine: the final state.
    """

    arrays: dict[str, NDArray[np.generic]]
    groups: list[Group]
    machine: Machine

    @property
    def warnings(self) -> list[str]:
        """What a user should know about the trace."""
        found: dict[tuple[int, int], set[int]] = {}
        for group in self.groups:
            for key, warps in group.unwritten.items():
                found.setdefault(key, set()).update(warps)
        return [
            f"line {line}: %r{register} is read before anything wrote it, in {len(warps)} warp{'s' if len(warps) > 1 else ''} (it reads as 0)"
            for (register, line), warps in sorted(found.items(), key=lambda item: (item[0][1], item[0][0]))
        ]

    @property
    def undefined(self) -> Counter[str]:
        """Undefined cases met, by name (`isa.undefined.RULES`)."""
        met = Counter(self.machine.met)
        reads = sum(len(warps) for group in self.groups for warps in group.unwritten.values())
        return met + Counter({"read-before-write": reads}) if reads else met


def execute(
    trace: Trace,
    codes: list[Code],
    target: Target,
    *,
    arithmetic: str = "chip",
    undefined: str = "hardware",
    compare: int = COMPARED,
    slots: int = 64,
) -> Executed:
    """Runs the programs of a trace for their values.

    Args:
        target: the chip whose arithmetic is used.
        arithmetic: "chip", "exact" or "none".
        undefined: "hardware" or "raise".
        compare: how many matrix instructions to compare with the exact result.
        slots: warps that the SM has room for (%nwarpid).

    Raises:
        TraceError: data that cannot be loaded, an access outside of shared memory.
        UndefinedBehavior: under the policy "raise", and for what stops a chip.
        DeadlockError: a barrier that not all warps reach.
    """
    registers, shared = RegisterFile(trace.warps, max(trace.registers, 1)), SharedMemory(trace.shared_bytes, trace.warps)
    machine = Machine(registers, shared, trace.warps, target, arithmetic, undefined, compare, slots)
    load_all(trace, machine)
    groups = _grouped(codes)
    _run_all(trace, groups, machine)
    return Executed(store_all(trace, machine), groups, machine)


def _grouped(codes: list[Code]) -> list[Group]:
    """One group a block; one a warp where a barrier waits for a part of the warps, since they may then part."""
    partial = any(op.barrier and op.barrier[1] is not None for code in codes for op in code.operations)
    return [Group(code, np.array(warps, np.intp)) for code in codes for warps in ([[w] for w in code.warps] if partial else [list(code.warps)])]


def _run_all(trace: Trace, groups: list[Group], machine: Machine) -> None:
    barriers = Barriers(trace.warps)
    running = {id(group): (group, _walk(trace, group, machine)) for group in groups}
    ready = list(running)
    blocked: dict[int, set[int]] = {}
    while ready:
        key = ready.pop(0)
        group, walk = running[key]
        waits = next(walk, None)
        if waits is None:
            del running[key]
            continue
        blocked[key] = {int(w) for w in group.warps}
        mismatches = barriers.mismatches
        for released in barriers.arrive(*waits, [int(w) for w in group.warps]):
            machine.shared.synchronise(np.array(released, np.intp))
            for other, waiting in list(blocked.items()):
                waiting -= set(released)
                if not waiting:
                    del blocked[other]
                    ready.append(other)
        if barriers.mismatches > mismatches:
            machine.meet("barrier-mismatch", barriers.mismatches - mismatches, f"{trace.path}: barrier {waits[0]}")
    if running:
        finished = trace.warps - sum(len(group.warps) for group, _ in running.values())
        raise DeadlockError((*barriers.describe(), f"{finished} of {trace.warps} warps are finished or have no program"))


def _walk(trace: Trace, group: Group, machine: Machine) -> Generator[tuple[int, int | None]]:
    """Executes a group's code; yields at each barrier and goes on when it is released."""
    items, warps = group.code.items, group.warps
    counts = [0] * group.code.loops
    seen = np.zeros(len(items), np.bool_)
    idle = _idle_loops(group.code) if machine.arithmetic == "none" else set()
    at = 0
    while at < len(items):
        item = items[at]
        at += 1
        if isinstance(item, LoopEnd):
            counts[item.loop] += 1
            if counts[item.loop] < item.count and item.loop not in idle:
                at = item.start
            else:
                counts[item.loop] = 0
            continue
        if not seen[item.index]:
            seen[item.index] = True
            _note_unwritten(group, item, machine)
        if item.barrier is not None:
            yield item.barrier
        else:
            _execute(trace, group, item, machine, warps)


def _execute(trace: Trace, group: Group, item: Operation, machine: Machine, warps: NDArray[np.intp]) -> None:
    try:
        outcome = executor(item.instruction)(machine, warps)
    except AddressError as error:
        raise TraceError(str(trace.path), item.line, 0, error.reason, error.legal) from None
    except IsaError as error:
        raise TraceError(str(trace.path), item.line, 0, error.reason, error.legal) from None
    except UndefinedBehavior as error:
        raise UndefinedBehavior(error.name, f"{trace.path}:{item.line}: {error.where}", error.rule, error.section) from None
    if outcome.wavefronts is not None:
        group.wavefronts.setdefault(item.index, []).append(outcome.wavefronts)


def _note_unwritten(group: Group, item: Operation, machine: Machine) -> None:
    for warp, register in machine.registers.unwritten(group.warps, item.reads) if item.reads else ():
        if not any(register == known and warp in warps for (known, _), warps in group.unwritten.items()):
            group.unwritten.setdefault((register, item.line), set()).add(warp)


def _idle_loops(code: Code) -> set[int]:
    """Loops that change nothing when matrix results are not computed: matrix instructions alone."""
    idle = set()
    for end in (item for item in code.items if isinstance(item, LoopEnd)):
        body = code.items[end.start : end.index]
        if all(isinstance(item, LoopEnd) or isinstance(item.instruction.form, MmaForm) for item in body):
            idle.add(end.loop)
    return idle
