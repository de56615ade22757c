"""Executes the tcgen05 instructions that allocate Tensor Memory, and those that order others: commits, waits, fences.
PTX ISA 9.0, 9.7.16.7, 9.7.16.11, 9.7.16.12."""

from __future__ import annotations

import numpy as np

from isa.forms.record import Form
from isa.ptx.instruction import Instruction
from simulator.execute.cta_state import CtaState, Executor, Outcome
from simulator.execute.dynamic_info import AllocateFacts, CommitFacts, Fact, FreeFacts, Idle, MoveWaitFacts
from simulator.execute.operands import addresses, reader
from simulator.execute.pending import PendingWait
from simulator.execute.registry import prepares
from simulator.execute.tcgen05 import later, regions
from simulator.execute.tcgen05.threads import first, note, single, together
from simulator.state.registers import Warps
from simulator.state.tensor_memory import Allocation


@prepares("tcgen05.alloc")
def _allocate(instruction: Instruction, form: Form) -> Executor:
    read_addresses, columns = addresses(instruction["dst"]), first(reader(instruction["columns"]))

    def run(machine: CtaState, warps: Warps) -> Outcome:
        where, counts = read_addresses(machine, warps), columns(machine, warps)
        machine.note(instruction, warps)
        waiting = [(warp, *values) for _, warp, values in together(machine, warps, form, where, counts)]
        line = machine.line

        def ready() -> bool:
            for request in list(waiting):
                warp, address, count = request
                base = machine.resident(warp).tmem.allocate(count, f"warp {machine.warp_in_cta(warp)}: ")
                if base is None:
                    continue
                for listener in machine.listeners:
                    listener.columns_allocated(machine.resident(warp).number, line, Allocation(base, count))
                cells = np.frombuffer(np.uint32(base).tobytes(), np.uint8)
                place = np.array([[machine.shared_offset(address)]])
                machine.shared.write(place, cells[None, None], machine.actors(np.array([warp])))
                if machine.order is not None:
                    machine.order.defined(place, cells.size, np.array([warp], np.intp))
                waiting.remove(request)
            return not waiting

        def describe() -> str:
            return f"{waiting[0][2]} columns of Tensor Memory, all of which are allocated"

        facts = tuple(AllocateFacts(count) for _, _, count in waiting)
        if ready():
            return Outcome(facts=facts)
        still = lambda: [warp for warp, _, _ in waiting]  # noqa: E731
        return Outcome(block=PendingWait(ready, lambda: None, describe, still), facts=facts)

    return run


@prepares("tcgen05.dealloc")
def _deallocate(instruction: Instruction, form: Form) -> Executor:
    read_addresses, columns = first(reader(instruction["taddr"])), first(reader(instruction["columns"]))

    def run(machine: CtaState, warps: Warps) -> Outcome:
        given = together(machine, warps, form, read_addresses(machine, warps), columns(machine, warps))
        facts: list[Fact] = []
        for _, warp, (base, count) in given:
            cta = machine.resident(warp)
            completion = later.completion_of(machine)
            if completion is not None:
                completion.tensor.free(cta.number)
            cta.tmem.deallocate(base, count, f"warp {machine.warp_in_cta(warp)}: ")
            for listener in machine.listeners:
                listener.columns_freed(cta.number, machine.line, Allocation(base, count))
            facts.append(FreeFacts(count))
        machine.note(instruction, warps)
        return Outcome(facts=tuple(facts))

    return run


@prepares("tcgen05.relinquish_alloc_permit")
def _relinquish(instruction: Instruction, form: Form) -> Executor:
    def run(machine: CtaState, warps: Warps) -> Outcome:
        for _, warp, _ in together(machine, warps, form):
            machine.resident(warp).tmem.relinquish()
        machine.note(instruction, warps)
        return Outcome(facts=(Idle(),) * len(warps))

    return run


# Order


@prepares("tcgen05.commit")
def _commit(instruction: Instruction, form: Form) -> Executor:
    read_addresses = addresses(instruction["mbar"])
    mask = first(reader(instruction["cta_mask"], 16)) if "multicast::cluster" in form.qualifiers else None

    def run(machine: CtaState, warps: Warps) -> Outcome:
        facts: list[Fact] = [Idle()] * len(warps)
        where, masks = read_addresses(machine, warps), mask(machine, warps) if mask else None
        for row, warp, lane in single(machine, warps, form):
            address = int(where[row, lane])
            targets = [address] if masks is None else machine.multicast(address, warp, int(masks[row, lane]))
            places = [machine.holder(target, warp) for target in targets]
            for target in targets:
                machine.uses(target, warp, np.array([lane]), changes=False)
            if later.completion_of(machine) is not None:
                later.commit(machine, form, warp, lane, targets)
            else:
                for target in targets:
                    machine.arrive(target, warp)
            note(machine, instruction, warps, row, writes=regions.of_barriers(places))
            facts[row] = CommitFacts(tuple((cta.number, offset) for cta, offset in places), form.cta_group)
        return Outcome(facts=tuple(facts))

    return run


@prepares("tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync")
def _fence(instruction: Instruction, form: Form) -> Executor:
    def run(machine: CtaState, warps: Warps) -> Outcome:
        machine.note(instruction, warps)
        return Outcome(facts=(Idle(),) * len(warps))

    return run


@prepares("tcgen05.wait::ld", "tcgen05.wait::st")
def _wait(instruction: Instruction, form: Form) -> Executor:
    stores = form.name.endswith("::st")

    def run(machine: CtaState, warps: Warps) -> Outcome:
        rows = list(together(machine, warps, form))
        completion = later.completion_of(machine)
        if completion is not None:
            later.wait(completion, warps, stores=stores)
        machine.note(instruction, warps)
        return Outcome(facts=(MoveWaitFacts(stores),) * len(rows))

    return run
