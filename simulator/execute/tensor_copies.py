"""Executes what moves boxes of tensors: cp.async.bulk.tensor, its reductions and prefetches.

`isa.shared_memory.tensor_box` says where each element lies, 16 bytes are moved at a time where they lie within the
tensor, and single elements at its edges. A copy happens whole, at issue unless `simulator.execute.completion` says
otherwise. What an H200 does with each type,
with NaN outside the tensor and with coordinates that it refuses is measured (`measurements/tensor_maps`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.descriptors.tensor_map import TensorMap
from isa.descriptors.tensor_map_fields import BYTES
from isa.errors import IsaError
from isa.forms.record import Form
from isa.forms.tensor_copies import REDUCTIONS, dimensions
from isa.ptx.instruction import Instruction, TensorPlace, Vector
from isa.shared_memory.tensor_box import ROWS, RULE, UNIT, WIDE, broken_rules
from simulator.execute.cta_state import CtaState, Executor, Outcome
from simulator.execute.dynamic_info import BulkStoreFacts, Fact, Idle
from simulator.execute.launch_state import LaunchState
from simulator.execute.operands import addresses, reader
from simulator.execute.registry import prepares
from simulator.execute.single_thread import (
    Arrival,
    Move,
    Reader,
    Thread,
    by_warp,
    hand_over,
    in_window,
    threads_of,
    together,
)
from simulator.execute.spaces import WINDOWS, launched
from simulator.execute.tensor_pieces import Moved, filler, move, packed_to_6_bits, rounded_to_tf32
from simulator.execute.tensor_reductions import REDUCED, reduced, turns
from simulator.state.global_memory import LINE_BYTES
from simulator.state.registers import Warps
from simulator.state.shared import AddressError
from simulator.state.windows import RANK_BIT

Array = NDArray[Any]
Bytes = NDArray[np.uint8]
_IM2COL = ("im2col", "im2col_no_offs", *WIDE)


def _place(instruction: Instruction) -> tuple[Reader, Reader]:
    """Functions that read the address of a tensor map, and the coordinates, signed, [warp, dimension, lane]."""
    place = instruction["tensor"]
    assert isinstance(place, TensorPlace)
    read = reader(place.coordinates)
    return addresses(place.map), lambda machine, warps: read(machine, warps).view(np.int32)


def _offsets(instruction: Instruction) -> list[Reader]:
    """The reader of im2col offsets, 16 bits without a sign; none where there are none. PTX ISA 9.0, 5.5.4."""
    operand = instruction.by_role.get("offsets")
    return [] if operand is None else [reader(operand, 16)]


def _offset_count(instruction: Instruction) -> int:
    """How many numbers the offsets are."""
    operand = instruction.by_role.get("offsets")
    return 0 if operand is None else len(operand.elements) if isinstance(operand, Vector) else 1


def tensor_at(machine: LaunchState, address: int) -> TensorMap:
    """Reads the tensor map at a generic address, in global memory, constants or the kernel's parameters.

    Raises:
        AddressError: there is none: no such memory, not a multiple of 64, or bytes without a meaning.
    """
    if address % 64:
        raise AddressError(f"a tensor map at {address:#x}", "a multiple of 64", rule="misaligned-address")
    base = WINDOWS["param"]
    if base <= address < base + len(machine.params):
        data = machine.params[address - base : address - base + BYTES].tobytes()
    else:
        data = machine.memory.read(np.array([address], np.int64) + np.arange(0, BYTES, UNIT), UNIT).tobytes()
    try:
        return _decoded(data)
    except IsaError as error:
        raise AddressError(f"the tensor map at {address:#x}: {error.reason}", error.legal, rule=error.rule) from None


@lru_cache(maxsize=1024)
def _decoded(data: bytes) -> TensorMap:
    return TensorMap.decode(data, checked=False)


def _checked(tensor: TensorMap, form: Form, start: tuple[int, ...], shared: int, *, writes: bool) -> None:
    """Raises AddressError for what the chip answers with an illegal instruction.

    Args:
        tensor: the map.
        form: the instruction.
        start: its coordinates.
        shared: address of the box in shared memory.
        writes: whether it writes to the tensor.
    """
    mode, im2col = _mode(form), bool(set(_IM2COL) & set(form.qualifiers))
    if dimensions(form.qualifiers) != tensor.rank or im2col != tensor.im2col:
        said = f"{dimensions(form.qualifiers)}d{' .im2col' * im2col}"
        has = f"{tensor.rank} dimensions{', im2col' * tensor.im2col}"
        raise AddressError(f"a {said} copy of a tensor map of {has}", "a copy like its map", rule=RULE)
    for reason in broken_rules(tensor, start, writes=writes, mode=mode):
        raise AddressError(f"{reason}: the chip stops with an illegal instruction", "PTX ISA 9.0, 5.5", rule=RULE)
    if tensor.atom > UNIT and shared % tensor.atom:  # PTX ISA 9.0, 5.5.7
        reason = f"a box at shared[{shared}] of a map whose swizzle has atoms of {tensor.atom} bytes"
        raise AddressError(reason, f"a multiple of {tensor.atom}", rule=RULE)


def _mode(form: Form) -> str:
    """The mode of a copy that the map does not say: one of `ROWS` or `WIDE`; "" if there is none."""
    return next((q for q in form.qualifiers if q in (*ROWS, *WIDE)), "")


# Loads


@prepares("cp.async.bulk.tensor")
def copy_box(instruction: Instruction, form: Form) -> Executor:
    """cp.async.bulk.tensor: PTX ISA 9.0, 9.7.9.27.1.2."""
    return _store(instruction, form, None) if "bulk_group" in form.qualifiers else _load(instruction, form)


def _load(instruction: Instruction, form: Form) -> Executor:
    where, coordinates = _place(instruction)
    mask = instruction.by_role.get("mask")
    readers = [where, coordinates, *_offsets(instruction)]
    readers += [addresses(instruction["to"]), addresses(instruction["mbarrier"])]
    if mask is not None:
        readers.append(reader(mask, 16))
    place = instruction["tensor"]
    assert isinstance(place, TensorPlace)
    rank, offset_count = len(place.coordinates.elements), _offset_count(instruction)

    def run(machine: CtaState, warps: Warps) -> Outcome:
        state = launched(machine, form)
        facts: dict[int, Fact] = {}
        for thread in threads_of(machine, warps, form.name, readers):
            address, *rest = thread.values
            start, rest = tuple(rest[:rank]), rest[rank:]
            offsets = tuple(rest[:offset_count])
            to, barrier, *masks = rest[offset_count:]
            to, barrier, tensor = in_window(to), in_window(barrier), tensor_at(state, address)
            _checked(tensor, form, start, to, writes=False)
            _check_offsets(form, offsets)
            brought: list[Fact] = []
            for each, at in _destinations(state, form, thread.row, to, barrier, masks):
                moved = move(tensor, start, offsets, each, mode=_mode(form))
                lines = _lines(moved) if state.timed else 0
                bringing, arrival = _bringing(state, thread, tensor, moved), Arrival(at, moved.bytes, 0, lines)
                brought.append(hand_over(state, form, thread, bringing, arrival))
            facts[thread.row] = together(brought)
        machine.note(instruction, warps)
        return Outcome(facts=by_warp(warps, facts))

    return run


def _lines(moved: Moved) -> int:
    """How many lines of 128 bytes the rows of a box touch in the tensor, one by one; at least one."""
    lines = moved.inside.memory // LINE_BYTES
    return 1 + int(np.count_nonzero(lines[1:] != lines[:-1]))


def _destinations(
    state: LaunchState, form: Form, row: int, to: int, barrier: int, masks: list[int]
) -> list[tuple[int, int]]:
    """The addresses of each box in shared memory and of its mbarrier.

    The mbarrier lies in the CTA of its box; with .cta_group::2 there or in the other CTA of the pair, and with a
    multicast in the even or in the odd CTA of each pair, as the given one does. PTX ISA 9.0, 9.7.9.27.1.2.
    """
    pair = "cta_group::2" in form.qualifiers
    if not masks:
        apart = (to ^ barrier) >> RANK_BIT
        if apart > pair:
            ranks = f"an mbarrier in CTA {barrier >> RANK_BIT} of the cluster for a box in CTA {to >> RANK_BIT}"
            legal = "the same CTA, or the other of the pair" if pair else "the same CTA, or .cta_group::2 within a pair"
            raise AddressError(ranks, legal, rule=RULE)
        return [(to, barrier)]
    boxes, barriers = (state.multicast(each, row, masks[0]) for each in (to, barrier))
    if pair:
        parity = barrier & 1 << RANK_BIT
        barriers = [each & ~(1 << RANK_BIT) | parity for each in barriers]
    return list(zip(boxes, barriers, strict=True))


def _check_offsets(form: Form, offsets: tuple[int, ...]) -> None:
    """Raises AddressError for a halo or an offset that wide im2col copies do not have. PTX ISA 9.0, 9.7.9.27.1.2."""
    mode = _mode(form)
    if mode not in WIDE:
        return
    for name, value, limit in zip(("wHalo", "wOffset"), offsets, (512 if mode == WIDE[0] else 32, 32), strict=True):
        if value >= limit:
            raise AddressError(f"{name} {value} of .{mode}", f"0 to {limit - 1}", rule=RULE)


def _bringing(machine: LaunchState, thread: Thread, tensor: TensorMap, moved: Moved) -> Move:
    """Writes a box to shared memory, of a warp's own CTA or another of its cluster."""
    inside, outside = moved.inside, moved.outside
    actor = machine.actors(np.array([thread.row], np.intp))

    def fetch() -> Bytes:
        if machine.order is not None:
            machine.order.moves("global", inside.memory, inside.bytes, thread.row, thread.lane)
        data = machine.memory.read(inside.memory[None], inside.bytes)
        if tensor.type.startswith("tf32"):
            data = rounded_to_tf32(data.reshape(-1)).reshape(data.shape)
        return data

    def store(data: Bytes) -> None:
        if inside.shared.size:
            machine.shared.write(inside.shared[None], data, actor)
        if outside.size:
            data = filler(tensor, moved.unit)
            machine.shared.write(outside[None], np.broadcast_to(data, (1, len(outside), len(data))).copy(), actor)

    return Move(fetch, store, writes=(inside.shared, inside.bytes))


# Stores and reductions


@prepares("cp.reduce.async.bulk.tensor")
def reduce_box(instruction: Instruction, form: Form) -> Executor:
    """cp.reduce.async.bulk.tensor: PTX ISA 9.0, 9.7.9.27.1.3."""
    return _store(instruction, form, next(q for q in form.qualifiers if q in REDUCTIONS))


def _store(instruction: Instruction, form: Form, operation: str | None) -> Executor:
    where, coordinates = _place(instruction)
    readers = [where, coordinates, addresses(instruction["from"])]

    def run(machine: CtaState, warps: Warps) -> Outcome:
        state = launched(machine, form)
        facts: dict[int, Fact] = {}
        for thread in threads_of(machine, warps, form.name, readers, repeats=operation is None):
            address, *start, source = thread.values
            tensor = tensor_at(state, address)
            source = in_window(source)
            _checked(tensor, form, tuple(start), source, writes=True)
            if operation is not None and operation not in REDUCED[tensor.type]:
                reason = f"a reduction by .{operation} of a tensor of {tensor.type}: the chip stops with an illegal "
                legal = ", ".join(REDUCED[tensor.type]) or "none for this type"
                raise AddressError(f"{reason}instruction", legal, rule=RULE)
            box_of = move(tensor, tuple(start), (), source, writes=True, mode=_mode(form))
            hand_over(state, form, thread, _sending(state, thread, tensor, box_of, operation))
            facts[thread.row] = BulkStoreFacts(box_of.bytes)
        machine.note(instruction, warps)
        return Outcome(facts=by_warp(warps, facts))

    return run


def _sending(machine: LaunchState, thread: Thread, tensor: TensorMap, moved: Moved, operation: str | None) -> Move:
    """Writes a box from the shared memory of a warp's CTA to its tensor, or what a reduction makes of both."""
    pieces = moved.inside
    actor = machine.actors(np.array([thread.row], np.intp))
    padded = tensor.element.padded  # sixteen elements take 16 bytes, and three pieces in the tensor
    places = pieces.shared[:: tensor.element.bytes // pieces.bytes] if padded else pieces.shared
    width = UNIT if padded else pieces.bytes

    def fetch() -> Bytes:
        if not places.size:
            return np.zeros((1, 0, width), np.uint8)
        return machine.shared.read(places[None], width, actor)[0]

    def store(data: Bytes) -> None:
        if not places.size:
            return
        if padded:
            data = packed_to_6_bits(data).reshape(1, -1, pieces.bytes)
        if machine.order is not None:
            machine.order.moves("global", pieces.memory, pieces.bytes, thread.row, thread.lane, data=data[0])
        if operation is None:
            machine.memory.write(pieces.memory[None], data)
            return
        size = tensor.element.bytes
        for turn in turns(pieces.memory):
            old = machine.memory.read(pieces.memory[None, turn], pieces.bytes)
            new = reduced(tensor.type, operation, old.reshape(-1, size), data[:, turn].reshape(-1, size))
            machine.memory.write(pieces.memory[None, turn], new.reshape(old.shape))

    return Move(fetch, store, reads=(places, width))


@prepares("cp.async.bulk.prefetch.tensor")
def prefetch_box(instruction: Instruction, form: Form) -> Executor:
    """cp.async.bulk.prefetch.tensor: a hint for L2, which changes no values. PTX ISA 9.0, 9.7.9.27.1.4."""

    def run(machine: CtaState, warps: Warps) -> Outcome:
        machine.note(instruction, warps)
        return Outcome(facts=(Idle(),) * len(warps))

    return run
