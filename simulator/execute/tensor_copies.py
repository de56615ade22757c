"""Executes what moves boxes of tensors: cp.async.bulk.tensor, its reductions and prefetches, and tensormap.replace.

`isa.shared_memory.tensor_box` says where each element lies, 16 bytes are moved at a time where they lie within the
tensor, and single elements at its edges. A copy happens whole, at issue unless `simulator.execute.completion` says
otherwise. What an H200 does with each type,
with NaN outside the tensor and with coordinates that it refuses is measured (`measurements/tensor_maps`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.descriptors.tensor_map import BYTES, TensorMap, replaced
from isa.errors import IsaError
from isa.forms.record import Form
from isa.forms.tensor_copies import REDUCTIONS
from isa.ptx.instruction import Address, Immediate, Instruction, TensorPlace
from isa.shared_memory.tensor_box import NAN, RULE, UNIT, Box, box, broken_rules, swizzled
from simulator.execute.atomics import update_of
from simulator.execute.cta_state import CtaState, Executor, Outcome
from simulator.execute.dynamic_info import Fact, Idle
from simulator.execute.launch_state import LaunchState
from simulator.execute.operands import addresses, reader
from simulator.execute.registry import prepares
from simulator.execute.single_thread import Arrival, Move, Reader, Thread, hand_over, in_window, threads_of
from simulator.execute.spaces import WINDOWS, launched, space_of
from simulator.state.registers import Warps
from simulator.state.shared import AddressError, Addresses

Bytes = NDArray[np.uint8]
Array = NDArray[Any]
_PATTERN = 1024  # bytes after which every swizzle repeats
_NOT_MODELLED = ("tile::gather4", "tile::scatter4", "im2col::w", "im2col::w::128", "im2col_no_offs")


def _place(instruction: Instruction) -> tuple[Reader, Reader]:
    """Functions that read the address of a tensor map, and the coordinates, signed, [warp, dimension, lane]."""
    place = instruction["tensor"]
    assert isinstance(place, TensorPlace)
    read = reader(place.coordinates)
    return addresses(place.map), lambda machine, warps: read(machine, warps).view(np.int32)


def _signed_offsets(instruction: Instruction) -> list[Reader]:
    """The reader of im2col offsets, 16 bits without a sign; none where there are none. PTX ISA 9.0, 5.5.4."""
    operand = instruction.by_role.get("offsets")
    return [] if operand is None else [reader(operand, 16)]


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


class Pieces(NamedTuple):
    """The part of a box that is moved in pieces of equal size.

    Attributes:
        shared, memory: int64 [piece]: addresses.
        bytes: of a piece.
    """

    shared: NDArray[np.int64]
    memory: NDArray[np.int64]
    bytes: int


class Moved(NamedTuple):
    """A box: pieces that lie in the tensor, and elements that do not (their addresses in shared memory)."""

    inside: Pieces
    outside: NDArray[np.int64]


@lru_cache(maxsize=256)
def _from_origin(tensor: TensorMap) -> tuple[Box, NDArray[np.int64]]:
    """A tiled box at the origin of a tensor at address 0, before the swizzle, one row of `Box` for each 16 bytes; and
    the largest coordinate in each dimension."""
    whole = box(replace(tensor, swizzle=0), (0,) * tensor.rank)
    if tensor.swizzle > tensor.inner_bytes:  # a row takes the whole width of the swizzle
        rows, byte = np.divmod(whole.shared, tensor.inner_bytes)
        whole = replace(whole, shared=rows * tensor.swizzle + byte)
    step = UNIT // whole.bytes
    units = Box(
        whole.shared[::step], whole.memory[::step], whole.inside[::step], whole.index[:, ::step], UNIT
    )  # fmt: skip
    return units, whole.index.max(axis=1)


def move(
    tensor: TensorMap, start: tuple[int, ...], offsets: tuple[int, ...], shared: int, *, writes: bool = False
) -> Moved:
    """Where the bytes of a copy lie. Boxes within the tensor take a short way, with the same result."""
    if not tensor.im2col and not tensor.interleave and shared % UNIT == 0:
        units, last = _from_origin(replace(tensor, address=0))
        first, size = np.array(start, np.int64), np.array(tensor.size, np.int64)
        if (first >= 0).all() and (first + last < size).all():
            strides = np.array((tensor.element.bytes, *tensor.stride_bytes), np.int64)
            where = tensor.address + int(strides @ first)
            pieces = Pieces(swizzled(units.shared + shared, tensor.swizzle), units.memory + where, UNIT)
            return Moved(pieces, np.zeros(0, np.int64))
    whole = box(tensor, start, offsets, shared, writes=writes)
    inside = Pieces(whole.shared[whole.inside], whole.memory[whole.inside], whole.bytes)
    return Moved(inside, whole.shared[~whole.inside])


def _checked(tensor: TensorMap, form: Form, start: tuple[int, ...], *, writes: bool) -> None:
    """Raises AddressError for what the chip answers with an illegal instruction, and for what is not modelled."""
    mode = next((q for q in form.qualifiers if q in _NOT_MODELLED), "")
    if mode:
        raise AddressError(f"a copy with .{mode}, which is not modelled", ".tile, or .im2col of a load", rule=RULE)
    if len(start) != tensor.rank or ("im2col" in form.qualifiers) != tensor.im2col:
        said = f"{len(start)}d{' .im2col' * ('im2col' in form.qualifiers)}"
        has = f"{tensor.rank} dimensions{', im2col' * tensor.im2col}"
        raise AddressError(f"a {said} copy of a tensor map of {has}", "a copy like its map", rule=RULE)
    for reason in broken_rules(tensor, start, writes=writes):
        raise AddressError(f"{reason}: the chip stops with an illegal instruction", "PTX ISA 9.0, 5.5", rule=RULE)
    if tensor.interleave:
        reason = f"a tensor whose slices of {tensor.interleave} bytes interleave, which is not modelled"
        raise AddressError(reason, "interleave 0", rule=RULE)


def rounded_to_tf32(data: Bytes) -> Bytes:
    """f32 rounded to the nearest TF32, ties to even; NaN becomes 0x7FFFE000. Measured: loads of both TF32 types."""
    words = np.ascontiguousarray(data).view("<u4")
    rounded = words.astype(np.uint64) + 0xFFF + (words >> 13 & 1) & 0xFFFFE000
    nan = words & 0x7FFFFFFF > 0x7F800000
    found: Bytes = np.where(nan, np.uint64(0x7FFFE000), rounded).astype("<u4").view(np.uint8)
    return found


def filler(tensor: TensorMap) -> Bytes:
    """uint8 [byte]: an element outside of the tensor."""
    pattern = NAN if tensor.fill == "nan" else 0
    return np.frombuffer(pattern.to_bytes(2, "little") * 4, np.uint8)[: tensor.element.bytes]


# Loads


@prepares("cp.async.bulk.tensor")
def copy_box(instruction: Instruction, form: Form) -> Executor:
    """cp.async.bulk.tensor: PTX ISA 9.0, 9.7.9.27.1.2."""
    return _store(instruction, form, None) if "bulk_group" in form.qualifiers else _load(instruction, form)


def _load(instruction: Instruction, form: Form) -> Executor:
    where, coordinates = _place(instruction)
    mask = instruction.by_role.get("mask")
    readers = [where, coordinates, *_signed_offsets(instruction)]
    readers += [addresses(instruction["to"]), addresses(instruction["mbarrier"])]
    if mask is not None:
        readers.append(reader(mask, 16))
    place = instruction["tensor"]
    assert isinstance(place, TensorPlace)
    rank = len(place.coordinates.elements)

    def run(machine: CtaState, warps: Warps) -> Outcome:
        state = launched(machine, form)
        facts: list[Fact] = [Idle()] * len(warps)
        rows = {int(row): index for index, row in enumerate(warps.tolist())}
        for thread in threads_of(machine, warps, form.name, readers):
            address, *rest = thread.values
            start, rest = tuple(rest[:rank]), rest[rank:]
            offsets = tuple(rest[: rank - 2]) if "im2col" in form.qualifiers else ()
            to, barrier, *masks = rest[len(offsets) :]
            tensor = tensor_at(state, address)
            _checked(tensor, form, start, writes=False)
            places = [(in_window(to), barrier)]
            if masks:
                many = [state.multicast(each, thread.row, masks[0]) for each in (to, barrier)]
                places = list(zip(*many, strict=True))
            for each, at in places:
                moved = move(tensor, start, offsets, each)
                bringing, arrival = _bringing(state, thread, tensor, moved), Arrival(at, tensor.box_bytes)
                facts[rows[thread.row]] = hand_over(state, form, thread, bringing, arrival)
        machine.note(instruction, warps)
        return Outcome(facts=tuple(facts))

    return run


def _bringing(machine: LaunchState, thread: Thread, tensor: TensorMap, moved: Moved) -> Move:
    """Writes a box to shared memory, of a warp's own CTA or another of its cluster."""
    inside, outside = moved
    actor = machine.actors(np.array([thread.row], np.intp))

    def fetch() -> Bytes:
        data = machine.memory.read(inside.memory[None], inside.bytes)
        if tensor.type.startswith("tf32"):
            data = rounded_to_tf32(data.reshape(-1)).reshape(data.shape)
        return data

    def store(data: Bytes) -> None:
        if inside.shared.size:
            machine.shared.write(inside.shared[None], data, actor)
        if outside.size:
            data = filler(tensor)
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
        for thread in threads_of(machine, warps, form.name, readers):
            address, *start, source = thread.values
            tensor = tensor_at(state, address)
            _checked(tensor, form, tuple(start), writes=True)
            if operation is not None and operation not in REDUCED[tensor.type]:
                reason = f"a reduction by .{operation} of a tensor of {tensor.type}: the chip stops with an illegal "
                legal = ", ".join(REDUCED[tensor.type]) or "none for this type"
                raise AddressError(f"{reason}instruction", legal, rule=RULE)
            box_of = move(tensor, tuple(start), (), in_window(source), writes=True)
            hand_over(state, form, thread, _sending(state, thread, tensor, box_of, operation))
        machine.note(instruction, warps)
        return Outcome(facts=(Idle(),) * len(warps))

    return run


def _sending(machine: LaunchState, thread: Thread, tensor: TensorMap, moved: Moved, operation: str | None) -> Move:
    """Writes a box from the shared memory of a warp's CTA to its tensor, or what a reduction makes of both."""
    pieces = moved.inside
    actor = machine.actors(np.array([thread.row], np.intp))

    def fetch() -> Bytes:
        if not pieces.shared.size:
            return np.zeros((1, 0, pieces.bytes), np.uint8)
        return machine.shared.read(pieces.shared[None], pieces.bytes, actor)[0]

    def store(data: Bytes) -> None:
        if operation is None:
            machine.memory.write(pieces.memory[None], data)
            return
        size = tensor.element.bytes
        for turn in turns(pieces) if pieces.shared.size else ():
            old = machine.memory.read(pieces.memory[None, turn], pieces.bytes)
            new = reduced(tensor.type, operation, old.reshape(-1, size), data[:, turn].reshape(-1, size))
            machine.memory.write(pieces.memory[None, turn], new.reshape(old.shape))

    return Move(fetch, store, reads=(pieces.shared, pieces.bytes))


def turns(pieces: Pieces) -> list[NDArray[np.intp]]:
    """The pieces in groups, one after the other, of which none has two at one address: where dimensions of a tensor
    overlap, a reduction reads and writes an element more than once."""
    order = np.argsort(pieces.memory, kind="stable")
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = np.diff(pieces.memory[order]) != 0
    if fresh.all():
        return [np.arange(len(order))]
    places = np.arange(len(order))
    turn = places - np.maximum.accumulate(np.where(fresh, places, 0))
    return [order[turn == number] for number in range(int(turn.max()) + 1)]


_WORDS = ("add", "min", "max", "and", "or", "xor")
REDUCED: dict[str, tuple[str, ...]] = {
    "u8": (), "u16": (), "u32": REDUCTIONS, "s32": _WORDS, "u64": _WORDS, "s64": ("min", "max"),
    **dict.fromkeys(("f16", "bf16"), ("add", "min", "max")),
    **dict.fromkeys(("f32", "f32.ftz", "tf32", "tf32.ftz", "f64"), ("add",)),
}  # fmt: skip
"""The reductions of each type of tensor; measured on an H200: all others are illegal instructions."""


def reduced(kind: str, operation: str, old: Bytes, new: Bytes) -> Bytes:
    """What a reduction writes, uint8 [element, byte]. Measured on an H200: types with .ftz flush subnormal operands and
    results; a minimum or maximum of a number and NaN is the number."""
    update, element = update_of(
        kind.split(".", maxsplit=1)[0].replace("tf32", "f32"), operation, flushes=kind.endswith("ftz")
    )
    a, b = (np.ascontiguousarray(data).view(element)[:, 0] for data in (old, new))
    with np.errstate(all="ignore"):
        found = np.ascontiguousarray(update(a, b).astype(element, copy=False))
    data: Bytes = found[:, None].view(np.uint8)
    return data


# Maps


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


@prepares("cp.async.bulk.prefetch.tensor")
def prefetch_box(instruction: Instruction, form: Form) -> Executor:
    """cp.async.bulk.prefetch.tensor: a hint for L2, which changes no values. PTX ISA 9.0, 9.7.9.27.1.4."""

    def run(machine: CtaState, warps: Warps) -> Outcome:
        machine.note(instruction, warps)
        return Outcome(facts=(Idle(),) * len(warps))

    return run
