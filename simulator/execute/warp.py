"""Executes instructions by which the threads of a warp exchange data: elect and shuffles; also mapa and getctarank."""

from __future__ import annotations

from typing import Any

import numpy as np

from isa.forms.record import Form
from isa.fragments.registers import matrix_rows_fragment
from isa.ptx.instruction import Instruction, Pair, Predicate
from isa.types import ELEMENT_TYPES
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.exchange import Exchange, Values, check_members
from simulator.execute.operands import predicate, reader, writer
from simulator.execute.registry import Array, prepares
from simulator.state.registers import LANE, WARP_SIZE, Lanes, Warps
from simulator.state.shared import AddressError
from simulator.state.windows import RANK_BIT


@prepares("elect.sync")
def elect(instruction: Instruction, form: Form) -> Executor:
    """elect.sync: the lane of one thread of the mask, and a predicate that is true in that thread alone. PTX ISA 9.0,
    9.7.13.10; that it is the lowest lane is assumed."""
    d = instruction["d"]
    register, second = d.elements if isinstance(d, Pair) else (d, None)
    writers = writer(register), writer(second, 1) if second is not None else None

    def compute(machine: CtaState, _: Values, masks: Array, active: Lanes) -> Values:
        lowest = ((masks[:, :, None] >> LANE & 1) != 0).argmax(axis=2)
        return lowest.astype(np.uint32), lowest == LANE

    return Exchange((), reader(instruction["membermask"]), compute, writers)


@prepares("shfl.sync")
def shuffle(instruction: Instruction, form: Form) -> Executor:
    """shfl.sync: lane i gets the value of lane i - b (up), i + b (down), i XOR b (bfly) or b (idx), if that is within
    its segment, else its own; the predicate says which. c: the last lane of a segment in bits 0 to 4 (of up: the
    first), which bits of a lane's number name its segment in bits 8 to 12. PTX ISA 9.0, 9.7.9.6.

    Undefined (AddressError; launches count it): a thread reads from one that is not in the mask or does not execute
    it.
    """
    value, lane_mask, clamp, mask = (reader(instruction[name]) for name in ("a", "b", "c", "membermask"))
    d = instruction["d"]
    register, second = d.elements if isinstance(d, Pair) else (d, None)
    write, write_predicate = writer(register), writer(second, 1) if second is not None else None
    mode = next(q for q in form.qualifiers if q in SHUFFLES)

    def compute(machine: CtaState, given: Values, masks: Array, active: Lanes) -> Values:
        values, distance, last = given
        source, inside = shuffled(mode, distance, last)
        outside = _check_members(machine, masks, source, active)
        taken = np.take_along_axis(values, source, axis=1)
        return (taken if outside is None else np.where(outside, np.uint32(0), taken)), inside

    return Exchange((value, lane_mask, clamp), mask, compute, (write, write_predicate))


SHUFFLES = ("up", "down", "bfly", "idx")


def shuffled(mode: str, b: Array, clamp: Array) -> tuple[Array, Array]:
    """The lane that each lane reads, and whether that is within its segment: [warp, lane]. PTX ISA 9.0, 9.7.9.6."""
    lane = np.arange(WARP_SIZE)
    segment = (clamp >> 8 & 31).astype(np.int64)
    low, step = (clamp & 31).astype(np.int64), (b & 31).astype(np.int64)
    last = (lane & segment) | (low & ~segment)
    match mode:
        case "up":
            source = lane - step
            inside = source >= last
        case "down":
            source = lane + step
            inside = source <= last
        case "bfly":
            source = lane ^ step
            inside = source <= last
        case _:
            source = (lane & segment) | (step & ~segment)
            inside = source <= last
    return np.where(inside, source, lane), inside


def _check_members(machine: CtaState, masks: Array, source: Array, active: Array) -> Array | None:
    """Threads that read from one that does not take part, bool [warp, lane], or None; they get 0, which is what an H200
    gave for threads that had exited (November 2026). AddressError where that is not a launch."""
    lane = np.arange(WARP_SIZE)
    named = active & (masks >> lane.astype(np.uint32) & 1 != 0)
    outside: Array = active & ~np.take_along_axis(named, source, axis=1)
    if not outside.any():
        return None
    rule, (row, thread) = "shuffle-from-inactive-thread", (int(place[0]) for place in np.nonzero(outside))
    reason = f"shfl.sync: thread {thread} reads from a thread outside ({int(masks[row, thread]):#x})"
    if not machine.reads_inactive:
        raise AddressError(reason, "a mask of all the threads that take part, e.g. 0xffffffff", rule)
    machine.note_undefined(rule, int(outside.sum()), reason)
    return outside


@prepares("mapa")
def map_address(instruction: Instruction, form: Form) -> Executor:
    """mapa: the address of the same place in another CTA, as an offset or (without .shared::cluster) a generic one. PTX
    ISA 9.0, 9.7.9.23."""
    bits = form.width
    address, rank, write = reader(instruction["a"], bits), reader(instruction["b"]), writer(instruction["d"], bits)

    def run(machine: CtaState, warps: Warps) -> Outcome:
        addresses, every_rank = address(machine, warps), rank(machine, warps)
        ranks = every_rank[:, 0][machine.threads(warps)]
        if ranks.size and int(ranks.max()) >= machine.cluster_size:
            raise AddressError(f"mapa to CTA {int(ranks.max())}", f"0 to {machine.cluster_size - 1}")
        write(machine, warps, machine.mapped(addresses, every_rank))
        return NOTHING

    return run


@prepares("getctarank")
def rank_of_address(instruction: Instruction, form: Form) -> Executor:
    """getctarank: the rank of the CTA in whose shared memory an address lies. PTX ISA 9.0, 9.7.9.24."""
    address, write = reader(instruction["a"], form.width), writer(instruction["d"])

    def run(machine: CtaState, warps: Warps) -> Outcome:
        where = address(machine, warps).astype(np.uint64) & np.uint64(0xFFFFFFFF)
        write(machine, warps, (where >> np.uint64(RANK_BIT)).astype(np.uint32))
        return NOTHING

    return run


# Votes, matches, reductions


def _members(masks: Array, active: Array) -> Array:
    """bool [warp, lane]: the active threads of a warp, all of which have the same mask, that are in it."""
    first = np.take_along_axis(masks, active.argmax(axis=1)[:, None], axis=1)
    answer: Array = active & (first >> LANE & 1 != 0)
    return answer


def _bits(lanes: Array) -> Array:
    """bool [..., lane] -> uint32 [...]: lane i as bit i."""
    return np.packbits(lanes, axis=-1, bitorder="little").view("<u4")[..., 0].astype(np.uint32)


def _everywhere(values: Array) -> Array:
    """[warp] -> [warp, lane]: the same for all lanes."""
    return np.repeat(values[:, None], WARP_SIZE, axis=1)


@prepares("vote.sync")
def vote(instruction: Instruction, form: Form) -> Executor:
    """vote.sync: whether a predicate holds in all, any, or all or none (uni) of the threads of the mask, or in which
    (ballot). PTX ISA 9.0, 9.7.13.9."""
    read, mask, mode = predicate(instruction["a"]), reader(instruction["membermask"]), form.qualifiers[1]
    write = writer(instruction["d"], 32 if mode == "ballot" else 1)

    def compute(machine: CtaState, given: Values, masks: Array, active: Lanes) -> Values:
        (values,) = given
        members = _members(masks, active)
        true, false = (np.asarray((part & members).any(axis=1)) for part in (values, ~values))
        match mode:
            case "all":
                result = ~false
            case "any":
                result = true
            case "uni":
                result = ~(true & false)
            case _:
                result = _bits(values & members)
        return (_everywhere(result),)

    return Exchange((read,), mask, compute, (write,))


@prepares("match")
def match_values(instruction: Instruction, form: Form) -> Executor:
    """match.any.sync: the threads of the mask that have the same value; match.all.sync: all of them if all have the
    same, else none, and the predicate says which. PTX ISA 9.0, 9.7.13.10."""
    read, mask = reader(instruction["a"], form.width), reader(instruction["membermask"])
    d, every = instruction["d"], "all" in form.qualifiers
    register, same = d.elements if isinstance(d, Pair) else (d, None)
    write, write_predicate = writer(register), writer(same, 1) if same is not None else None

    def compute(machine: CtaState, given: Values, masks: Array, active: Lanes) -> Values:
        (values,) = given
        members = _members(masks, active)
        equal = (values[:, :, None] == values[:, None, :]) & members[:, None, :]
        if not every:
            return (_bits(equal),)
        alike = (equal == members[:, None, :]).all(axis=2)
        found = np.where(alike, _bits(members)[:, None], 0).astype(np.uint32)
        return (found, alike) if same is not None else (found,)

    writers = (write, write_predicate) if same is not None else (write,)
    return Exchange((read,), mask, compute, writers)


_REDUCTIONS: dict[str, Any] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip


@prepares("redux.sync")
def reduce(instruction: Instruction, form: Form) -> Executor:
    """redux.sync: the sum, extreme or bitwise combination of the values of the threads of the mask. PTX ISA 9.0,
    9.7.13.12."""
    read, mask, write = reader(instruction["a"]), reader(instruction["membermask"]), writer(instruction["d"])
    combine = _REDUCTIONS[form.qualifiers[1]]
    kind = np.int32 if form.type_name == "s32" else np.uint32
    neutral = {"min": np.iinfo(kind).max, "max": np.iinfo(kind).min, "and": -1}.get(form.qualifiers[1], 0)

    def compute(machine: CtaState, given: Values, masks: Array, active: Lanes) -> Values:
        values = given[0].view(kind)
        filler = np.array(neutral, np.int64).astype(kind)
        result = combine.reduce(np.where(_members(masks, active), values, filler), axis=1).astype(kind)
        return (_everywhere(result.view(np.uint32)),)

    return Exchange((read,), mask, compute, (write,))


@prepares("activemask")
def active_mask(instruction: Instruction, form: Form) -> Executor:
    """activemask: the threads that execute it together. PTX ISA 9.0, 9.7.13.11."""
    write = writer(instruction["d"])

    def run(machine: CtaState, warps: Warps) -> Outcome:
        write(machine, warps, _everywhere(_bits(machine.threads(warps)))[:, None])
        return NOTHING

    return run


@prepares("bar.warp")
def synchronise_warp(instruction: Instruction, form: Form) -> Executor:
    """bar.warp.sync: the threads of the mask have met when it is executed. PTX ISA 9.0, 9.7.13.2."""
    mask = reader(instruction["membermask"])

    def run(machine: CtaState, warps: Warps) -> Outcome:
        check_members(mask(machine, warps)[:, 0], machine.threads(warps))
        machine.note(instruction, warps)
        return NOTHING

    return run


@prepares("movmatrix")
def move_matrix(instruction: Instruction, form: Form) -> Executor:
    """movmatrix: the transposed matrix of 8 x 8 16-bit elements. PTX ISA 9.0, 9.7.14.5.17."""
    read, write, whole = reader(instruction["a"]), writer(instruction["d"]), isinstance(instruction["a"], Predicate)
    fragment = matrix_rows_fragment(1, False, ELEMENT_TYPES["f16"])

    def run(machine: CtaState, warps: Warps) -> Outcome:
        values = read(machine, warps)
        if whole:  # ptxas 13.0 makes 32 equal bits of a predicate
            values = np.where(values, np.uint32(0xFFFFFFFF), np.uint32(0))
        matrix = fragment.gather(values)
        write(machine, warps, fragment.scatter(np.ascontiguousarray(np.swapaxes(matrix, 1, 2))))
        return NOTHING

    return run
