"""Executes bulk copies and reductions, and the groups in which threads wait for them; stores and reductions of single
values that complete on an mbarrier; and `st.bulk`.

A copy is executed whole when it is issued, unless `simulator.execute.completion` says when. One to shared memory
completes its bytes on an mbarrier at once; a warp that waits for the phase sees them. One from shared memory has been
read and written when its thread commits the group, so that a wait for the group changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.forms.record import Form
from isa.forms.tensor_copies import REDUCTIONS
from isa.ptx.instruction import Immediate, Instruction, register_names
from simulator.execute.asynchronous import BULK, SIGNAL, Effect, Signal
from simulator.execute.atomics import atomic
from simulator.execute.completion import Completion
from simulator.execute.copies import BULK_UNIT
from simulator.execute.cta_state import CtaState, Executor, Outcome
from simulator.execute.dynamic_info import BulkFacts, BulkGroupFacts, BulkStoreFacts, Fact, Idle
from simulator.execute.launch_state import LaunchState
from simulator.execute.memory import filled, raced
from simulator.execute.operands import addresses, place_of, reader
from simulator.execute.peers import counted
from simulator.execute.registry import prepares
from simulator.execute.single_thread import (
    Arrival,
    Move,
    Thread,
    arrived,
    by_warp,
    hand_over,
    in_window,
    threads_of,
    together,
)
from simulator.execute.spaces import launched, store_anywhere
from simulator.execute.tensor_reductions import reduced
from simulator.state.columns import Columns
from simulator.state.registers import Lanes, Warps
from simulator.state.shared import AddressError, SharedMemory, wavefronts

Array = NDArray[np.int64]
Bytes = NDArray[np.uint8]
_FILL_UNIT = 8  # bytes that address and size of st.bulk are multiples of; PTX ISA 9.0, 9.7.9.13


class _Place(NamedTuple):
    """Bytes in a row that a copy reads or writes, in units of 16.

    Attributes:
        shared: whose they are; None: global memory.
        units: int64 [1, unit]: their addresses there.
    """

    shared: SharedMemory | None
    units: NDArray[np.int64]


def _place(machine: CtaState, space: str, address: int, size: int, warp: int) -> _Place:
    units = np.arange(0, size, BULK_UNIT, dtype=np.int64)[None]
    if space == "global":
        return _Place(None, address + units)
    if isinstance(machine, LaunchState):
        return _Place(machine.shared, in_window(address) + units)
    cta, offset = machine.located(address)
    return _Place(cta.shared, offset + units)


def _read(machine: CtaState, place: _Place, warp: int, lane: int) -> Bytes:
    if place.shared is None:
        if machine.order is not None:
            machine.order.moves("global", place.units[0], BULK_UNIT, warp, lane)
        return machine.memory.read(place.units, BULK_UNIT)
    data, races = place.shared.read(place.units, BULK_UNIT, machine.actors(np.array([warp], np.intp)))
    raced(machine, races)
    return data


def _write(machine: CtaState, place: _Place, data: Bytes, warp: int, lane: int) -> None:
    if place.shared is None:
        if machine.order is not None:
            machine.order.moves("global", place.units[0], BULK_UNIT, warp, lane, data=data[0])
        machine.memory.write(place.units, data)
    else:
        raced(machine, place.shared.write(place.units, data, machine.actors(np.array([warp], np.intp))))


def _spaces(form: Form) -> list[str]:
    """Where a copy writes, and where it reads."""
    return [q for q in form.qualifiers if q == "global" or q.startswith("shared::")]


@prepares("cp.async.bulk")
def bulk_copy(instruction: Instruction, form: Form) -> Executor:
    """cp.async.bulk: PTX ISA 9.0, 9.7.9.25.4.1."""
    return _bulk(instruction, form, "", "")


@prepares("cp.reduce.async.bulk")
def bulk_reduction(instruction: Instruction, form: Form) -> Executor:
    """cp.reduce.async.bulk: PTX ISA 9.0, 9.7.9.25.4.2."""
    kind = form.type_name.replace("b", "u") if form.type_name[0] == "b" and form.type_name != "bf16" else form.type_name
    return _bulk(instruction, form, next(q for q in form.qualifiers if q in REDUCTIONS), kind)


def _bulk(instruction: Instruction, form: Form, operation: str, kind: str) -> Executor:
    """A copy, or the reduction of elements of this kind by an operation."""
    target, source = _spaces(form)
    names = [name for name in ("mbarrier", "mask", "bytes") if name in instruction.by_role]
    readers = [addresses(instruction["to"]), addresses(instruction["from"]), reader(instruction["size"])]
    readers += [addresses(instruction[name]) if name == "mbarrier" else reader(instruction[name], 16) for name in names]
    alone = source == "global"

    def copied(machine: CtaState, thread: Thread) -> Fact:
        to, origin, size, *rest = thread.values
        given = dict(zip(names, rest, strict=True))
        if size % BULK_UNIT:
            raise AddressError(f"{form.name} of {size} bytes", f"a multiple of {BULK_UNIT}")
        read = _place(machine, source, origin, size, thread.row)
        targets = [(to, given.get("mbarrier", 0))]
        if "mask" in given:
            state = launched(machine, form)
            many = [state.multicast(each, thread.row, given["mask"]) for each in (to, given["mbarrier"])]
            targets = list(zip(*many, strict=True))
        facts: list[Fact] = []
        for where, barrier in targets:
            written, arrival = _place(machine, target, where, size, thread.row), None
            if "mbarrier" in given:
                _same_cta(machine, form, thread.row, where, barrier)
                arrival = Arrival(barrier, size, origin if source == "global" else 0)
            combine = None
            if "bytes" in given:
                combine = partial(_masked, given["bytes"])
            elif operation:
                combine = partial(_combined, kind, operation)
            moving = _moving(machine, thread, read, written, combine)
            facts.append(hand_over(machine, form, thread, moving, arrival))
        fact = together(facts)
        return replace(fact, peer=True) if source != "global" and isinstance(fact, BulkFacts) else fact

    def run(machine: CtaState, warps: Warps) -> Outcome:
        if not alone:
            launched(machine, form)
        facts: dict[int, Fact] = {}
        for thread in threads_of(machine, warps, form.name, readers):
            fact = copied(machine, thread)
            if target == "global" and machine.timed:
                fact = BulkStoreFacts(thread.values[2])
            facts[thread.row] = fact
        machine.note(instruction, warps)
        return Outcome(facts=by_warp(warps, facts))

    return run


def _moving(
    machine: CtaState, thread: Thread, read: _Place, written: _Place, combine: Callable[[Bytes, Bytes], Bytes] | None
) -> Move:
    """Copies bytes, or writes what `combine` makes of the old and the new ones."""
    if not written.units.size:
        return Move(lambda: None, lambda _: None)

    who = thread.row, thread.lane

    def store(data: Bytes) -> None:
        if combine is not None:
            data = combine(_read(machine, written, *who), data)
        _write(machine, written, data, *who)

    reads, writes = (None if each.shared is None else (each.units, BULK_UNIT) for each in (read, written))
    return Move(lambda: _read(machine, read, *who), store, reads, writes, commutes=combine is not None)


def _masked(mask: int, old: Bytes, new: Bytes) -> Bytes:
    """Of each 16 bytes the new ones that have a bit of the mask, and the old ones otherwise."""
    chosen = np.array([mask >> byte & 1 for byte in range(BULK_UNIT)], np.bool_)
    found: Bytes = np.where(chosen, new, old)
    return found


def _combined(kind: str, operation: str, old: Bytes, new: Bytes) -> Bytes:
    size = int(kind.lstrip("bfsu")) // 8
    return reduced(kind, operation, old.reshape(-1, size), new.reshape(-1, size)).reshape(old.shape)


def _same_cta(machine: CtaState, form: Form, warp: int, address: int, barrier: int) -> None:
    """Raises AddressError for bytes that would come to another CTA than that of their mbarrier."""
    if not isinstance(machine, LaunchState) or not machine.clustered:
        return
    homes = [machine.holder(each, warp)[0] for each in (address, barrier)]
    if homes[0].number != homes[1].number:
        reason = f"{form.name} to shared memory{homes[0].shared_name} with an mbarrier in that{homes[1].shared_name}"
        raise AddressError(reason, "both in one CTA", rule="barrier-use")


@prepares("cp.async.bulk.commit_group", "cp.async.bulk.wait_group", "cp.async.bulk.prefetch")
def bulk_group(instruction: Instruction, form: Form) -> Executor:
    """cp.async.bulk.commit_group and wait_group, and cp.async.bulk.prefetch.L2: PTX ISA 9.0, 9.7.9.25.3.4, .4.3."""
    left = instruction.by_role.get("groups", Immediate(0))
    assert isinstance(left, Immediate)
    reads = "read" in form.qualifiers
    waits, commits = "wait_group" in form.qualifiers, "commit_group" in form.qualifiers
    fact: Fact = BulkGroupFacts(left.value if waits else -1, reads) if waits or commits else Idle()

    def run(machine: CtaState, warps: Warps) -> Outcome:
        if machine.completion is not None and commits:
            machine.completion.commit(BULK, warps, machine.threads(warps))
        elif machine.completion is not None and waits:
            machine.completion.wait(BULK, warps, machine.threads(warps), left.value, reads=reads)
        machine.note(instruction, warps)
        return Outcome(facts=(fact,) * len(warps))

    return run


# Single values


@prepares("st.async", "red.async")
def store_asynchronously(instruction: Instruction, form: Form) -> Executor:
    """st.async and red.async: every thread stores or reduces, and the bytes complete on its mbarrier. PTX ISA 9.0,
    9.7.9.12 and 9.7.13.8."""
    act = (atomic if form.name == "red.async" else store_anywhere)(instruction, form)
    if "mbarrier" not in instruction.by_role:
        return act
    read, barriers = addresses(instruction["address"]), addresses(instruction["mbarrier"])
    size = form.width // 8 * form.elements
    registers = [place_of(name) for operand in instruction.operands for name in register_names(operand)]

    def store(state: LaunchState, completion: Completion, warp: int, lanes: Lanes, where: Array, barrier: int) -> None:
        """Lets the threads of a warp that name this mbarrier store later, what their registers hold now."""
        row, own = np.array([warp], np.intp), np.flatnonzero(lanes)
        assert isinstance(state.registers, Columns)
        columns, held = state.registers.columns, [state.registers.columns[p.sort][p.number] for p in registers]
        holder, offset = state.holder(barrier, warp)
        addresses_of = np.array([[in_window(int(address)) for address in where[own]]], np.int64)
        places = (state.places(row, addresses_of)[..., None] + np.arange(size)).reshape(1, -1)

        def happen(_: NDArray[np.bool_], __: object) -> None:
            now = [columns[p.sort][p.number] for p in registers]
            for place, column in zip(registers, held, strict=True):
                columns[place.sort][place.number] = column
            state.active = lanes[None]
            act(state, row)
            for place, column in zip(registers, now, strict=True):
                columns[place.sort][place.number] = column
            state.signal(barrier, warp, own.tolist())
            arrived(state, warp, barrier, size * len(own))

        signal = Signal((holder.number, offset), holder.mbarriers.at(offset), size * len(own))
        effect = Effect(lambda _: None, happen, None, places)
        commutes = form.opcode.startswith("red")
        completion.begin(
            SIGNAL, form.name, effect, row[:, None], own[:1], signal, commutes=commutes, generic=True
        )  # fmt: skip

    def run(machine: CtaState, warps: Warps) -> Outcome:
        state, lanes = launched(machine, form), machine.threads(warps)
        where, on = read(machine, warps), barriers(machine, warps)
        if machine.completion is not None:
            for row, warp in enumerate(warps.tolist()):
                for barrier in np.unique(on[row][lanes[row]]).tolist():
                    mine = lanes[row] & (on[row] == barrier)
                    for address in np.unique(where[row][mine]).tolist():
                        _same_cta(state, form, warp, address, barrier)
                    store(state, machine.completion, warp, mine, where[row], barrier)
            return Outcome(wavefronts(filled(machine, where), size))
        act(machine, warps)
        facts: dict[int, Fact] = {}
        for row in np.flatnonzero(lanes.any(axis=1)).tolist():
            bulk: list[Fact] = []
            pairs, counts = np.unique(np.stack([where[row], on[row]])[:, lanes[row]], axis=1, return_counts=True)
            for (address, barrier), count in zip(pairs.T.tolist(), counts.tolist(), strict=True):
                _same_cta(state, form, int(warps[row]), address, barrier)
                bulk.append(arrived(state, int(warps[row]), barrier, size * count))
            facts[int(warps[row])] = counted(bulk)
        return Outcome(wavefronts(filled(machine, where), size), facts=by_warp(warps, facts) if machine.timed else ())

    return run


@prepares("st.bulk")
def fill(instruction: Instruction, form: Form) -> Executor:
    """st.bulk: zeros in shared memory. PTX ISA 9.0, 9.7.9.13."""
    readers = [addresses(instruction["address"]), reader(instruction["size"], 64)]

    def run(machine: CtaState, warps: Warps) -> Outcome:
        state, lanes = launched(machine, form), machine.threads(warps)
        where, sizes = readers[0](machine, warps), readers[1](machine, warps)[:, 0]
        for row, lane in np.argwhere(lanes).tolist():
            address, size = in_window(int(where[row, lane])), int(sizes[row, lane])
            if size % _FILL_UNIT:
                raise AddressError(f"{form.name} of {size} bytes", f"a multiple of {_FILL_UNIT}")
            units = address + np.arange(0, size, _FILL_UNIT, dtype=np.int64)[None]
            zeros, actor = np.zeros((*units.shape, _FILL_UNIT), np.uint8), machine.actors(warps[row : row + 1])
            if size and machine.order is not None:
                machine.order.moves("shared", units[0], _FILL_UNIT, int(warps[row]), lane, data=zeros[0])
            if size:
                raced(machine, state.shared.write(units, zeros, actor))
        machine.note(instruction, warps)
        return Outcome(wavefronts(filled(machine, where), _FILL_UNIT))

    return run
