"""Executes the mbarriers, on which threads and copies wait for each other. PTX ISA 9.0, 9.7.13.15."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.forms.record import Form
from isa.ptx.instruction import Immediate, Instruction, Sink
from simulator.execute.asynchronous import SIGNAL, Effect, Signal
from simulator.execute.completion import Completion
from simulator.execute.cta_state import CtaState, Executor, Outcome
from simulator.execute.dynamic_info import (
    ArriveFacts,
    CopyArriveFacts,
    ExpectFacts,
    Fact,
    Idle,
    InitFacts,
    WaitFacts,
)
from simulator.execute.events import Region
from simulator.execute.holder import Holder
from simulator.execute.operands import addresses, reader, writer
from simulator.execute.pending import PendingWait
from simulator.execute.registry import prepares
from simulator.state.mbarrier import COUNT_BITS, Mbarrier, Mbarriers, joined, parity_of, pending_of
from simulator.state.registers import WARP_SIZE, Warps
from simulator.state.shared import AddressError

Threads = NDArray[np.int64]


class _Party(NamedTuple):
    """Threads of a warp that name the same mbarrier with the same numbers.

    Attributes:
        row: the place of the warp among those that execute.
        warp: its number.
        address: the address that the threads give.
        numbers: the values of their other operands.
        lanes: their lanes, ascending.
    """

    row: int
    warp: int
    address: int
    numbers: tuple[int, ...]
    lanes: Threads


def _parties(machine: CtaState, warps: Warps, where: NDArray[np.int64], *numbers: NDArray[Any]) -> Iterator[_Party]:
    """The active threads of each warp in groups with equal operands, in order of their first lane."""
    active = machine.threads(warps)
    given = np.stack([where, *(np.broadcast_to(n, where.shape).astype(np.int64) for n in numbers)])
    first = given[:, np.arange(len(given[0])), active.argmax(axis=1)]
    alike = ((given == first[..., None]) | ~active).all(axis=(0, 2)).tolist()
    for row in np.flatnonzero(active.any(axis=1)).tolist():
        lanes, warp = np.flatnonzero(active[row]), int(warps[row])
        if alike[row]:
            address, *said = first[:, row].tolist()
            yield _Party(row, warp, address, tuple(said), lanes)
            continue
        kinds, starts, which = np.unique(given[:, row, lanes], axis=1, return_index=True, return_inverse=True)
        for kind in np.argsort(starts):
            address, *said = kinds[:, kind].tolist()
            yield _Party(row, warp, address, tuple(said), lanes[np.ravel(which) == kind])


def _facts(parties: list[tuple[_Party, Fact]], warps: Warps) -> tuple[Fact | None, ...]:
    """The fact of each warp; None where its threads do several things at once that one fact cannot say."""
    facts: list[Fact | None] = [Idle()] * len(warps)
    seen: set[int] = set()
    for party, fact in parties:
        facts[party.row] = _together(facts[party.row], fact) if party.row in seen else fact
        seen.add(party.row)
    return tuple(facts)


def _together(one: Fact | None, other: Fact) -> Fact | None:
    """The fact of arrivals at several mbarriers that announce no bytes; None for anything else."""
    match one, other:
        case ArriveFacts(expect=0, drops=False), ArriveFacts(barrier=barrier, count=count, expect=0, drops=False):
            return replace(one, others=(*one.others, *((barrier,) * count)))
    return None


def _region(machine: CtaState, parties: list[_Party]) -> tuple[Region, ...]:
    """The mbarriers that are named, for listeners."""
    if not machine.wants_accesses:
        return ()
    if machine.batched:
        places = [(party.warp, *machine.holder(party.address, party.warp)) for party in parties]
        return tuple(Region("mbarrier", cta.number, np.array([at], np.int64), "", warp) for warp, cta, at in places)
    offsets_of: dict[int, list[int]] = {}
    for party in parties:
        cta, offset = machine.holder(party.address, party.warp)
        offsets_of.setdefault(cta.number, []).append(offset)
    return tuple(Region("mbarrier", rank, np.array(offsets, np.int64)) for rank, offsets in sorted(offsets_of.items()))


# mbarrier: PTX ISA 9.0, 9.7.13.15


@prepares("mbarrier.init")
def initialise(instruction: Instruction, form: Form) -> Executor:
    """mbarrier.init, by one thread: sets the number of arrivals that completes a phase."""
    read_addresses, count = addresses(instruction["address"]), reader(instruction["count"])

    def run(machine: CtaState, warps: Warps) -> Outcome:
        parties = list(_parties(machine, warps, read_addresses(machine, warps), count(machine, warps)[:, 0]))
        facts: list[tuple[_Party, Fact]] = []
        for party in parties:
            cta, offset = machine.holder(party.address, party.warp)
            if len(party.lanes) > 1:
                raise AddressError(
                    f"mbarrier.init at shared[{offset}] by {len(party.lanes)} threads",
                    "one thread: @%p0 mbarrier.init",
                    rule="aligned-threads",
                )
            machine.uses(party.address, party.warp, party.lanes, changes=True)
            if offset in cta.mbarriers.live:
                machine.note_undefined("mbarrier-reinitialised", 1, f"shared[{offset}]")
            cta.mbarriers.init(offset, party.numbers[0])
            facts.append((party, InitFacts((cta.number, offset), party.numbers[0])))
        machine.note(instruction, warps, writes=_region(machine, parties))
        return Outcome(facts=_facts(facts, warps))

    return run


@prepares("mbarrier.inval")
def invalidate(instruction: Instruction, form: Form) -> Executor:
    """mbarrier.inval, by one thread: makes the object plain memory again."""
    read_addresses = addresses(instruction["address"])

    def run(machine: CtaState, warps: Warps) -> Outcome:
        parties = list(_parties(machine, warps, read_addresses(machine, warps)))
        for party in parties:
            cta, offset = machine.holder(party.address, party.warp)
            if len(party.lanes) > 1:
                raise AddressError(
                    f"mbarrier.inval at shared[{offset}] by {len(party.lanes)} threads",
                    "one thread: @%p0 mbarrier.inval",
                    rule="aligned-threads",
                )
            machine.uses(party.address, party.warp, party.lanes, changes=False)
            cta.mbarriers.inval(offset)
        machine.note(instruction, warps, writes=_region(machine, parties))
        return Outcome(facts=(Idle(),) * len(warps))

    return run


@prepares("mbarrier.expect_tx", "mbarrier.complete_tx")
def count_transactions(instruction: Instruction, form: Form) -> Executor:
    """mbarrier.expect_tx and complete_tx: every thread changes the transaction count."""
    read_addresses, count = addresses(instruction["address"]), reader(instruction["tx_count"])
    expects = "expect_tx" in form.opcode.split(".")
    change = Mbarriers.expect if expects else Mbarriers.complete

    def run(machine: CtaState, warps: Warps) -> Outcome:
        parties = list(_parties(machine, warps, read_addresses(machine, warps), count(machine, warps)[:, 0]))
        facts: list[tuple[_Party, Fact]] = []
        for party in parties:
            cta, offset = machine.holder(party.address, party.warp)
            many = party.numbers[0] * len(party.lanes)
            machine.uses(party.address, party.warp, party.lanes, changes=False)
            change(cta.mbarriers, offset, many)
            facts.append((party, ExpectFacts((cta.number, offset), many if expects else -many)))
        machine.note(instruction, warps, writes=_region(machine, parties))
        return Outcome(facts=_facts(facts, warps))

    return run


@prepares("mbarrier.arrive", "mbarrier.arrive.expect_tx", "mbarrier.arrive_drop", "mbarrier.arrive_drop.expect_tx")
def arrive(instruction: Instruction, form: Form) -> Executor:
    """mbarrier.arrive and arrive_drop, with and without expect_tx and noComplete."""
    read_addresses = addresses(instruction["address"])
    count, bytes_each = (
        reader(instruction.by_role.get(name, Immediate(default))) for name, default in (("count", 1), ("tx_count", 0))
    )
    drop, complete = "arrive_drop" in form.name, "noComplete" not in form.qualifiers
    orders, own_cta = "relaxed" not in form.qualifiers, "cta" in form.qualifiers
    state = instruction.by_role.get("state", Sink())
    write = None if isinstance(state, Sink) else writer(state, 64)

    def run(machine: CtaState, warps: Warps) -> Outcome:
        parties = list(
            _parties(
                machine,
                warps,
                read_addresses(machine, warps),
                count(machine, warps)[:, 0],
                bytes_each(machine, warps)[:, 0],
            )
        )
        states = np.zeros((len(warps), 1, WARP_SIZE), np.uint64)
        facts: list[tuple[_Party, Fact]] = []
        for party in parties:
            cta, offset = machine.holder(party.address, party.warp)
            number, expected = party.numbers
            machine.uses(party.address, party.warp, party.lanes, changes=False)
            reaches = orders and not (own_cta and cta.number != machine.resident(party.warp).number)
            machine.signal(party.address, party.warp, party.lanes.tolist(), orders=reaches)
            many, steps = len(party.lanes), [(party.lanes[i : i + 1], 1) for i in range(len(party.lanes))]
            plain = complete and not expected and number * many <= cta.mbarriers.at(offset).pending
            if (
                plain
            ):  # the phase ends with the last of them at the earliest, and each finds the counts of those before it
                steps = [(party.lanes, many)]
            for lanes, times in steps:
                before = machine.arrive(
                    party.address, party.warp, number * times, expect=expected * times, drop=drop, complete=complete
                )
                states[party.row, 0, lanes] = before
                if plain:
                    counted = number * np.arange(many, dtype=np.uint64)
                    states[party.row, 0, lanes] -= counted + (
                        counted << np.uint64(COUNT_BITS) if drop else np.uint64(0)
                    )
            facts.append((party, ArriveFacts((cta.number, offset), number * many, expected * many, drop)))
        if write is not None:
            write(machine, warps, states)
        machine.note(instruction, warps, writes=_region(machine, parties))
        return Outcome(facts=_facts(facts, warps))

    return run


@prepares("cp.async.mbarrier.arrive")
def arrive_after_copies(instruction: Instruction, form: Form) -> Executor:
    """cp.async.mbarrier.arrive: each thread arrives when its copies so far have come, which is at once here; without
    .noinc the phase expects that arrival besides the others. PTX ISA 9.0, 9.7.13.15.15."""
    read_addresses, counted = addresses(instruction["address"]), "noinc" in form.qualifiers

    def run(machine: CtaState, warps: Warps) -> Outcome:
        parties = list(_parties(machine, warps, read_addresses(machine, warps)))
        facts: list[tuple[_Party, Fact]] = []
        for party in parties:
            cta, offset = machine.holder(party.address, party.warp)
            machine.uses(party.address, party.warp, party.lanes, changes=False)
            barrier = cta.mbarriers.at(offset)
            if machine.checked:
                barrier.carried += [(barrier.phase, places) for places in machine.copies.take(party.warp)]
            if machine.completion is not None and not machine.checked:
                _arrive_later(machine, machine.completion, form, party, counted=counted)
            elif counted:
                machine.arrive(party.address, party.warp, len(party.lanes))
            else:
                barrier.released = joined(barrier.released, machine.release(party.warp))
            facts.append((party, CopyArriveFacts((cta.number, offset), len(party.lanes), counted)))
        machine.note(instruction, warps, writes=_region(machine, parties))
        return Outcome(facts=_facts(facts, warps))

    return run


def _arrive_later(machine: CtaState, completion: Completion, form: Form, party: _Party, *, counted: bool) -> None:
    """Lets threads arrive when their copies so far have come and `completion` says so."""
    cta, offset = machine.holder(party.address, party.warp)
    barrier, many = cta.mbarriers.at(offset), len(party.lanes)
    if not counted:
        cta.mbarriers.grow(offset, many)
    effect = Effect(lambda _: None, lambda _, __: _arrived(machine, party))
    rows = np.full((many, 1), party.warp, np.intp)
    signal = Signal((cta.number, offset), barrier, 0, many)
    completion.begin(SIGNAL, form.name, effect, rows, party.lanes.astype(np.intp), signal)


def _arrived(machine: CtaState, party: _Party) -> None:
    machine.signal(party.address, party.warp, party.lanes.tolist())
    machine.arrive(party.address, party.warp, len(party.lanes))


@prepares("mbarrier.pending_count")
def pending_count(instruction: Instruction, form: Form) -> Executor:
    """mbarrier.pending_count: how many arrivals the phase lacked when this state was given."""
    read, write = reader(instruction["state"], 64), writer(instruction["count"])

    def run(machine: CtaState, warps: Warps) -> Outcome:
        write(machine, warps, pending_of(read(machine, warps)))
        return Outcome(facts=(Idle(),) * len(warps))

    return run


class _Awaited(NamedTuple):
    """A phase that threads wait for."""

    party: _Party
    cta: Holder
    offset: int
    barrier: Mbarrier
    phase: int

    @property
    def done(self) -> bool:
        """Whether the phase is complete."""
        return self.barrier.phase > self.phase

    def __str__(self) -> str:
        place = f"shared[{self.offset}]{self.cta.shared_name}"
        phase = self.phase + self.barrier.left_out
        return f"phase {phase} of the mbarrier at {place}, which lacks {self.barrier.lacks() or 'nothing'}"


def _lacking(phases: list[_Awaited]) -> str:
    """What phases wait for, in words: the first two, and how many more there are."""
    first, *others = dict.fromkeys(map(str, phases))
    more = f" and {len(others)} more" if len(others) > 1 else "".join(f" and {other}" for other in others)
    return first + more


@prepares("mbarrier.test_wait", "mbarrier.test_wait.parity", "mbarrier.try_wait", "mbarrier.try_wait.parity")
def wait(instruction: Instruction, form: Form) -> Executor:
    """mbarrier.test_wait, which tells whether a phase is complete, and try_wait, which in traces waits for it
    (`CtaState.blocks`)."""
    parity = "parity" in instruction.by_role
    read_addresses, want = (
        addresses(instruction["address"]),
        reader(instruction["parity" if parity else "state"], 32 if parity else 64),
    )
    write, tries, acquires = writer(instruction["done"], 1), "try_wait" in form.name, "relaxed" not in form.qualifiers

    def run(machine: CtaState, warps: Warps) -> Outcome:
        phase_parity = want(machine, warps)[:, 0]
        if not parity:
            phase_parity = parity_of(phase_parity)
        elif odd := int((phase_parity > 1)[machine.threads(warps)].sum()):
            machine.note_undefined("mbarrier-parity", odd, f"{int(phase_parity[machine.threads(warps)].max()):#x}")
            phase_parity = phase_parity & 1  # measured
        phases = []
        for party in _parties(machine, warps, read_addresses(machine, warps), phase_parity):
            cta, offset = machine.holder(party.address, party.warp)
            machine.uses(party.address, party.warp, party.lanes, changes=False, looks=True)
            barrier, phase = cta.mbarriers.at(offset), cta.mbarriers.awaited(offset, party.numbers[0])
            if machine.completion is not None:
                machine.completion.looked_at((cta.number, offset), barrier, phase)
            phases.append(_Awaited(party, cta, offset, barrier, phase))
        active = machine.active
        waits = tries and machine.blocks
        waited = [
            (phase.party, WaitFacts((phase.cta.number, phase.offset), phase.party.numbers[0]))
            for phase in phases
            if waits or (phase.done and not machine.blocks)
        ]

        def finish() -> None:
            done = np.zeros((len(warps), 1, WARP_SIZE), np.bool_)
            for phase in phases:
                done[phase.party.row, 0, phase.party.lanes] = phase.done
                if phase.done and acquires:
                    machine.sees(phase.party.warp, phase.barrier, phase.phase)
                if phase.done and machine.order is not None:
                    key, party = (phase.cta.number, phase.offset), phase.party
                    machine.order.sees(key, phase.phase, party.warp, party.lanes.tolist(), orders=acquires)
                if phase.done and machine.completion is not None:
                    machine.completion.seen((phase.cta.number, phase.offset), phase.phase)
            before, machine.active = machine.active, active
            write(machine, warps, done)
            machine.note(instruction, warps, reads=_region(machine, [phase.party for phase in phases if phase.done]))
            machine.active = before

        facts = _facts(list(waited), warps)
        done = all(phase.done for phase in phases)
        if done or not waits:
            finish()
        if done or (machine.blocks and not tries):
            return Outcome(facts=facts)
        block = PendingWait(
            lambda: all(phase.done for phase in phases),
            finish,
            lambda: _lacking([phase for phase in phases if not phase.done]),
        )
        return Outcome(block=block, facts=facts)

    return run
