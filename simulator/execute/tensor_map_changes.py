"""Executes tensormap.replace: changes of the tensor maps that lie in global or shared memory."""

from __future__ import annotations

import numpy as np

from isa.descriptors.tensor_map_fields import BYTES
from isa.descriptors.tensor_map_replace import replaced
from isa.forms.record import Form
from isa.ptx.instruction import Address, Immediate, Instruction
from isa.shared_memory.tensor_box import UNIT
from simulator.execute.cta_state import CtaState, Executor, Outcome
from simulator.execute.dynamic_info import Idle
from simulator.execute.operands import addresses, reader
from simulator.execute.registry import prepares
from simulator.execute.spaces import WINDOWS, launched, space_of
from simulator.execute.tensor_copies import in_window, threads_of
from simulator.state.registers import Warps
from simulator.state.shared import Addresses


@prepares("tensormap.replace")
def replace_field(instruction: Instruction, form: Form) -> Executor:
    """tensormap.replace: changes a field of a map in global or shared memory. PTX ISA 9.0, 9.7.9.28."""
    field, space = form.qualifiers[1], space_of(form)
    ordinal, value = instruction.by_role.get("ordinal", Immediate(0)), instruction["value"]
    assert isinstance(instruction["address"], Address)
    assert isinstance(ordinal, Immediate)
    readers = [addresses(instruction["address"]), reader(value, form.width)]

    def run(machine: CtaState, warps: Warps) -> Outcome:
        state = launched(machine, form)
        for thread in threads_of(machine, warps, form.name, readers):
            address, given = thread.values
            shared = space == "shared" or WINDOWS["shared"] <= address < WINDOWS["shared"] + (1 << 32)
            places: Addresses = np.arange(0, BYTES, UNIT, dtype=np.int64)[None]
            actor = machine.actors(np.array([thread.row], np.intp))
            places = places + (in_window(address) if shared else address)
            before = state.shared.read(places, UNIT, actor)[0] if shared else state.memory.read(places, UNIT)
            after = np.frombuffer(replaced(before.tobytes(), field, given, ordinal.value), np.uint8).reshape(
                before.shape
            )
            if shared:
                state.shared.write(places, after, actor)
            else:
                state.memory.write(places, after)
        machine.note(instruction, warps)
        return Outcome(facts=(Idle(),) * len(warps))

    return run
