"""Executes instructions by which the threads of a warp exchange data: elect and shuffles; also mapa, of a cluster."""

from __future__ import annotations

import numpy as np

from isa.forms.record import Form
from isa.ptx.instruction import Instruction, Pair
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.operands import reader, writer
from simulator.execute.registry import Array, executes, prepares
from simulator.state.registers import WARP_SIZE, Warps
from simulator.state.shared import AddressError


@executes("elect.sync")
def elect(a: Array) -> tuple[Array, Array]:
    """elect.sync: the lane of one thread of the mask, and a predicate that is true in that thread alone. PTX ISA 9.0,
    9.7.13.10; that it is the lowest lane is assumed."""
    mask = a[:, 0]
    if (mask != mask[:, :1]).any() or not mask.all():
        reason = "elect.sync with an empty mask, or one that differs among the threads of a warp"
        raise AddressError(reason, "the same lanes in all, e.g. 0xffffffff")
    lane = (mask[:, 0] & -mask[:, 0].astype(np.int64)).astype(np.float64)
    lowest = np.log2(lane).astype(np.uint32)[:, None, None]
    chosen = lowest == np.arange(WARP_SIZE, dtype=np.uint32)
    return np.broadcast_to(lowest, (len(mask), 1, WARP_SIZE)), chosen


@prepares("shfl.sync.bfly")
def shuffle_butterfly(instruction: Instruction, form: Form) -> Executor:
    """shfl.sync.bfly: lane i gets the value of lane i XOR b, if that is not above the last lane of its segment, else
    its own; the predicate says which. c: the last lane of a segment in bits 0 to 4, which bits of a lane's number name
    its segment in bits 8 to 12. PTX ISA 9.0, 9.7.9.6.

    Undefined (AddressError): a thread that executes it is not in its own mask, or reads from one that is not in the
    mask or does not execute it.
    """
    value, lane_mask, clamp, mask = (reader(instruction[name]) for name in ("a", "b", "c", "membermask"))
    d = instruction["d"]
    register, predicate = d.elements if isinstance(d, Pair) else (d, None)
    write, write_predicate = writer(register), writer(predicate, 1) if predicate is not None else None

    def run(machine: CtaState, warps: Warps) -> Outcome:
        values, masks, active = value(machine, warps)[:, 0], mask(machine, warps)[:, 0], machine.threads(warps)
        source, inside = butterfly(lane_mask(machine, warps)[:, 0], clamp(machine, warps)[:, 0])
        _check_members(masks, source, active)
        write(machine, warps, np.take_along_axis(values, source, axis=1)[:, None])
        if write_predicate is not None:
            write_predicate(machine, warps, inside[:, None])
        return NOTHING

    return run


def butterfly(lane_mask: Array, clamp: Array) -> tuple[Array, Array]:
    """The lane that each lane reads, and whether that is within its segment: [warp, lane]."""
    lane = np.arange(WARP_SIZE)
    segment = (clamp >> 8 & 31).astype(np.int64)
    last = (lane & segment) | (clamp & 31 & ~segment)
    source = lane ^ (lane_mask & 31).astype(np.int64)
    inside = source <= last
    return np.where(inside, source, lane), inside


def _check_members(masks: Array, source: Array, active: Array) -> None:
    """AddressError where PTX leaves undefined what a shuffle gives."""
    lane = np.arange(WARP_SIZE)
    named = active & (masks >> lane.astype(np.uint32) & 1 != 0)
    read = np.take_along_axis(named, source, axis=1)
    for wrong, what in ((active & ~named, "is not in its membermask"), (active & ~read, "reads from a thread outside")):
        if wrong.any():
            row, thread = (int(place[0]) for place in np.nonzero(wrong))
            reason = f"shfl.sync: thread {thread} {what} ({int(masks[row, thread]):#x})"
            raise AddressError(reason, "a mask of all the threads that take part, e.g. 0xffffffff")


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
