"""Executes tensormap.cp_fenceproxy, which puts a tensor map that was changed in shared memory where copies read it."""

from __future__ import annotations

import numpy as np

from isa.descriptors.tensor_map_fields import BYTES
from isa.forms.record import Form
from isa.ptx.instruction import Address, Instruction
from isa.shared_memory.tensor_box import UNIT
from simulator.execute.cta_state import CtaState, Executor, Outcome
from simulator.execute.dynamic_info import Idle
from simulator.execute.operands import addresses
from simulator.execute.registry import prepares
from simulator.execute.single_thread import in_window
from simulator.execute.spaces import launched
from simulator.state.registers import Warps
from simulator.state.shared import AddressError, Addresses


@prepares("tensormap.cp_fenceproxy")
def copy_map(instruction: Instruction, form: Form) -> Executor:
    """tensormap.cp_fenceproxy: copies 128 bytes from shared to global memory, once for each warp, in order with what
    later reads the map through the tensormap proxy. PTX ISA 9.0, 9.7.13.16."""
    to, source = instruction["to"], instruction["from"]
    assert isinstance(to, Address)
    assert isinstance(source, Address)
    read_to, read_from = addresses(to), addresses(source)

    def run(machine: CtaState, warps: Warps) -> Outcome:
        state = launched(machine, form)
        targets, sources = read_to(machine, warps), read_from(machine, warps)
        uneven = int((targets != targets[:, :1]).any(axis=1).sum() + (sources != sources[:, :1]).any(axis=1).sum())
        if uneven:
            machine.note_undefined("uneven-operand", uneven, form.opcode)
        units: Addresses = np.arange(0, BYTES, UNIT, dtype=np.int64)[None]
        for row, target, place in zip(warps.tolist(), targets[:, 0], sources[:, 0], strict=True):
            if int(target) % BYTES or in_window(int(place)) % BYTES:
                raise AddressError(f"{form.name} from {int(place):#x} to {int(target):#x}", f"multiples of {BYTES}")
            actor = machine.actors(np.array([row], np.intp))
            state.memory.write(units + int(target), state.shared.read(units + in_window(int(place)), UNIT, actor)[0])
        machine.note(instruction, warps)
        return Outcome(facts=(Idle(),) * len(warps))

    return run
