"""Executes accesses to global memory, and the asynchronous copies from there to shared memory.

A copy is executed whole when it is issued. Until its group is waited for (cp.async.wait_group, wait_all) its bytes in
shared memory count as under way: a warp that reads or writes them races, which is counted like the other races. A bulk
copy completes its bytes on an mbarrier at once; a warp that waits for the phase sees them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa import IsaError
from isa.forms.record import Form
from isa.ptx.instruction import Immediate, Instruction
from simulator.execute.cta_state import CtaState, Executor, Outcome
from simulator.execute.dynamic_info import BulkFacts, CommitGroupFacts, Fact, FetchFacts, Idle, WaitGroupFacts
from simulator.execute.memory import as_bytes_of, extended, filled, raced, region
from simulator.execute.operands import addresses, reader, writer
from simulator.execute.registry import prepares
from simulator.state.global_memory import LINE_BYTES, SECTOR_BYTES, touched
from simulator.state.mbarrier import joined
from simulator.state.registers import Warps
from simulator.state.shared import AddressError, Addresses, wavefronts

BULK_UNIT = 16  # bytes that address and size are multiples of; PTX ISA 9.0, 9.7.9.25.4.1


@prepares("ld.global")
def load_global(instruction: Instruction, form: Form) -> Executor:
    """ld.global: PTX ISA 9.0, 9.7.9.8."""
    read_addresses, write = addresses(instruction["address"]), writer(instruction["d"], form.role("d").width)
    size = form.width // 8 * form.elements

    def run(machine: CtaState, warps: Warps) -> Outcome:
        where = filled(machine, read_addresses(machine, warps))
        write(machine, warps, np.swapaxes(extended(machine.memory.read(where, size), form), 1, 2))
        machine.note(instruction, warps)
        return Outcome(facts=fetched(machine, "load", where, size))

    return run


@prepares("st.global")
def store_global(instruction: Instruction, form: Form) -> Executor:
    """st.global: PTX ISA 9.0, 9.7.9.11."""
    read_addresses, read = addresses(instruction["address"]), reader(instruction["a"], form.role("a").width)
    size = form.width // 8 * form.elements

    def run(machine: CtaState, warps: Warps) -> Outcome:
        where, data = read_addresses(machine, warps), as_bytes_of(np.swapaxes(read(machine, warps), 1, 2), form)
        lanes = machine.threads(warps)
        machine.memory.write(where[lanes], data[lanes])
        machine.note(instruction, warps)
        return Outcome(facts=fetched(machine, "store", where, size))

    return run


def fetched(
    machine: CtaState, kind: str, where: Addresses, size: int, written: NDArray[np.int64] | None = None
) -> tuple[Fact, ...]:
    """For each warp, the fact of its access to global memory: how many lines and sectors it touches, and of a copy how
    many wavefronts of shared memory it takes (`written`)."""
    lines, sectors = (touched(where, size, unit, machine.active).tolist() for unit in (LINE_BYTES, SECTOR_BYTES))
    taken = [0] * len(where) if written is None else written.tolist()
    return tuple(FetchFacts(kind, *counts) for counts in zip(lines, sectors, taken, strict=True))


@prepares("cp.async.ca", "cp.async.cg")
def copy(instruction: Instruction, form: Form) -> Executor:
    """cp.async: PTX ISA 9.0, 9.7.9.25.3.1."""
    to, source, size = addresses(instruction["to"]), addresses(instruction["from"]), instruction["size"]
    assert isinstance(size, Immediate)
    width, kind = size.value, "cached copy" if "ca" in form.qualifiers else "copy"
    partial = instruction.by_role.get("filled")
    count = reader(partial) if partial is not None else None

    def run(machine: CtaState, warps: Warps) -> Outcome:
        where, origin, lanes = to(machine, warps), source(machine, warps), machine.threads(warps)
        data = np.zeros((*where.shape, width), np.uint8)
        data[lanes] = machine.memory.read(origin[lanes], width)
        if count is not None:
            data *= np.arange(width) < _counts(count(machine, warps)[:, 0], lanes, width)[..., None]
        places = where[..., None] + np.arange(width)
        for row, (warp, active) in enumerate(zip(warps.tolist(), lanes, strict=True)):
            some = slice(row, row + 1)
            races = machine.shared.write(where[some, active], data[some, active], machine.actors(warps[some]))
            mine = places[row, active].ravel()
            raced(machine, races + int((machine.copies.under_way[mine] > 0).sum()))
            machine.copies.begin(warp, mine)
        machine.note(instruction, warps, writes=region(machine, filled(machine, where), width))
        return Outcome(facts=fetched(machine, kind, origin, width, wavefronts(filled(machine, where), width)))

    return run


def _counts(given: NDArray[Any], lanes: NDArray[np.bool_], width: int) -> NDArray[np.int64]:
    """How many bytes each lane copies, int64 [warp, lane]; the rest is filled with zeros."""
    counts = given.astype(np.int64)
    if (counts > width)[lanes].any():
        raise AddressError(
            f"cp.async of {width} bytes with a source size of {int(counts[lanes].max())}", f"0 to {width}"
        )
    return counts


def _whole(machine: CtaState, instruction: Instruction) -> None:
    """Checks that all threads of each warp take part: groups are counted by warp here."""
    if machine.active is not None:
        reason = f"'{instruction.form.opcode}' in some of the threads of a warp: groups are counted by warp"
        raise IsaError(str(instruction), 0, reason, "all threads of a warp, or none")


@prepares("cp.async.commit_group")
def commit_group(instruction: Instruction, form: Form) -> Executor:
    """cp.async.commit_group: closes the open group of each warp. PTX ISA 9.0, 9.7.9.25.3.2."""

    def run(machine: CtaState, warps: Warps) -> Outcome:
        _whole(machine, instruction)
        for warp in warps.tolist():
            machine.copies.commit(warp)
        machine.note(instruction, warps)
        return Outcome(facts=(CommitGroupFacts(),) * len(warps))

    return run


@prepares("cp.async.wait_group", "cp.async.wait_all")
def wait_groups(instruction: Instruction, form: Form) -> Executor:
    """cp.async.wait_group, and wait_all, which commits first and waits for every group. PTX ISA 9.0, 9.7.9.25.3.3."""
    count = instruction.by_role.get("groups", Immediate(0))
    every = "wait_all" in form.qualifiers
    assert isinstance(count, Immediate)

    def run(machine: CtaState, warps: Warps) -> Outcome:
        _whole(machine, instruction)
        for warp in warps.tolist():
            if every:
                machine.copies.commit(warp)
            machine.copies.wait(warp, count.value)
        machine.note(instruction, warps)
        return Outcome(facts=(WaitGroupFacts(count.value, every),) * len(warps))

    return run


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
