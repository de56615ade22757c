"""Executes what the threads of a warp, or of a cluster, do together in registers."""

from __future__ import annotations

import numpy as np

from isa.forms.record import Form
from isa.ptx.instruction import Instruction
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.operands import reader, writer
from simulator.execute.registry import Array, executes, prepares
from simulator.state.registers import WARP_SIZE, Warps
from simulator.state.shared import AddressError


@executes("elect.sync")
def elect(a: Array) -> tuple[Array, Array]:
    """The lane and a predicate of one thread of the mask. PTX ISA 9.0, 9.7.13.10; that it is the lowest lane is
    assumed."""
    mask = a[:, 0]
    if (mask != mask[:, :1]).any() or not mask.all():
        reason = "elect.sync with an empty mask, or one that differs among the threads of a warp"
        raise AddressError(reason, "the same lanes in all, e.g. 0xffffffff")
    lane = (mask[:, 0] & -mask[:, 0].astype(np.int64)).astype(np.float64)
    lowest = np.log2(lane).astype(np.uint32)[:, None, None]
    chosen = lowest == np.arange(WARP_SIZE, dtype=np.uint32)
    return np.broadcast_to(lowest, (len(mask), 1, WARP_SIZE)), chosen


@prepares("mapa")
def map_address(instruction: Instruction, form: Form) -> Executor:
    """mapa: the address of the same place in another CTA. PTX ISA 9.0, 9.7.9.23."""
    address, rank, write = reader(instruction["a"]), reader(instruction["b"]), writer(instruction["d"])

    def run(machine: CtaState, warps: Warps) -> Outcome:
        addresses, every_rank = address(machine, warps), rank(machine, warps)
        ranks = every_rank[:, 0][machine.threads(warps)]
        if ranks.size and int(ranks.max()) >= len(machine.ctas):
            raise AddressError(f"mapa to CTA {int(ranks.max())}", f"0 to {len(machine.ctas) - 1}")
        write(machine, warps, machine.mapped(addresses, every_rank))
        return NOTHING

    return run
