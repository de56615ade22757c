"""Executes bulk copies: cp.async.bulk and the groups in which threads wait for it.

A copy is executed whole when it is issued. One to shared memory completes its bytes on an mbarrier at once; a warp that
waits for the phase sees them. One from shared memory has been read and written when its thread commits the group, so
that a wait for the group changes nothing.
"""

from __future__ import annotations

import numpy as np

from isa.forms.record import Form
from isa.ptx.instruction import Instruction
from simulator.execute.copies import BULK_UNIT
from simulator.execute.cta_state import CtaState, Executor, Outcome
from simulator.execute.dynamic_info import BulkFacts, Fact, Idle
from simulator.execute.memory import raced
from simulator.execute.operands import addresses, reader
from simulator.execute.registry import prepares
from simulator.state.global_memory import LINE_BYTES
from simulator.state.mbarrier import joined
from simulator.state.registers import Warps
from simulator.state.shared import AddressError


@prepares("cp.async.bulk")
def bulk_copy(instruction: Instruction, form: Form) -> Executor:
    """cp.async.bulk to shared memory, complete_tx on an mbarrier: PTX ISA 9.0, 9.7.9.25.4.1."""
    places, size = [addresses(instruction[name]) for name in ("to", "from", "mbarrier")], reader(instruction["size"])

    def run(machine: CtaState, warps: Warps) -> Outcome:
        given = [*(place(machine, warps) for place in places), size(machine, warps)[:, 0]]
        facts: list[Fact] = [Idle()] * len(warps)
        for row, active in enumerate(machine.threads(warps)):
            lanes = np.flatnonzero(active)
            if len(lanes) > 1:
                reason = f"cp.async.bulk by {len(lanes)} threads of warp {int(warps[row])}: each would copy"
                raise AddressError(
                    reason, "one thread: @%p0 cp.async.bulk, as elect.sync chooses it", rule="aligned-threads"
                )
            for lane in lanes.tolist():
                where, origin, barrier, count = (int(values[row, lane]) for values in given)
                facts[row] = _bulk_copy(machine, int(warps[row]), where, origin, barrier, count)
        machine.note(instruction, warps)
        return Outcome(facts=tuple(facts))

    return run


def _bulk_copy(machine: CtaState, warp: int, where: int, origin: int, barrier: int, size: int) -> Fact:
    """Executes one bulk copy of a thread; returns its fact."""
    if size % BULK_UNIT:
        raise AddressError(f"cp.async.bulk of {size} bytes", f"a multiple of {BULK_UNIT}")
    target, offset = machine.located(where)
    holder, barrier_offset = machine.located(barrier)
    pieces = np.arange(0, size, BULK_UNIT, dtype=np.int64)
    machine.memory.check(origin + pieces, BULK_UNIT, BULK_UNIT)
    data = machine.memory.data[origin : origin + size].reshape(1, -1, BULK_UNIT)
    if size:
        raced(machine, target.shared.write((offset + pieces)[None], data, machine.actors(np.array([warp], np.intp))))
    phase = holder.mbarriers.at(barrier_offset)
    phase.released = joined(
        phase.released, machine.release(warp)
    )  # the bytes are seen by whoever sees the phase complete
    holder.mbarriers.complete(barrier_offset, size)
    lines = -(-(origin % LINE_BYTES + size) // LINE_BYTES) if size else 0
    return BulkFacts((holder.rank, barrier_offset), size, lines)


@prepares("cp.async.bulk.commit_group", "cp.async.bulk.wait_group")
def bulk_group(instruction: Instruction, form: Form) -> Executor:
    """cp.async.bulk.commit_group and wait_group: PTX ISA 9.0, 9.7.9.25.3.4."""

    def run(machine: CtaState, warps: Warps) -> Outcome:
        machine.note(instruction, warps)
        return Outcome(facts=(Idle(),) * len(warps))

    return run
