"""Executes loads and stores of kernels in any space, generic addresses, and hints for caches. PTX ISA 9.0, 9.7.9."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa import IsaError
from isa.forms.loads import SPACES
from isa.forms.record import Form
from isa.ptx.instruction import Instruction
from simulator.execute.copies import fetched, kept_in_l1
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.dynamic_info import FetchKind
from simulator.execute.launch_state import LaunchState
from simulator.execute.memory import filled, load, loader, store, storer_of_pieces, write_some
from simulator.execute.operands import addresses, reader, writer
from simulator.execute.peers import with_peers
from simulator.execute.registry import Array, computes, prepares
from simulator.state.registers import WARP_SIZE, Lanes, Warps
from simulator.state.shared import AddressError, Addresses
from simulator.state.windows import LOCAL, PARAM, RANK_BIT, SHARED, WINDOW_BYTES

Bytes = NDArray[np.uint8]
Read = Callable[[LaunchState, Addresses, int, Warps], Bytes]
Write = Callable[[LaunchState, Addresses, Bytes, Warps], None]
WINDOWS = {"shared": SHARED, "local": LOCAL, "param": PARAM}


class Part(NamedTuple):
    """The threads of a generic access whose addresses lie in one space.

    Attributes:
        space: "shared", "local", "param" or "global".
        lanes: bool [warp, lane].
        base: what is taken off their addresses.
    """

    space: str
    lanes: Lanes
    base: int


def space_of(form: Form) -> str:
    """The space that an opcode names: "global", "shared", "local", "const", "param"; "" for generic addresses."""
    named = next((q for q in form.qualifiers if q.split("::")[0] in SPACES), "")
    return named.split("::")[0]


def parts(where: Addresses, lanes: Lanes) -> list[Part]:
    """The threads by the space in which their generic addresses lie."""
    left, found = lanes, []
    for space, base in WINDOWS.items():
        inside = left & (where >= base) & (where < base + WINDOW_BYTES)
        if inside.any():
            found.append(Part(space, inside, base))
            left = left & ~inside
    if left.any():
        found.append(Part("global", left, 0))
    return found


def launched(machine: CtaState, form: Form) -> LaunchState:
    """The state as that of a launch, which local memory, parameters and generic addresses belong to."""
    if not isinstance(machine, LaunchState):
        raise IsaError(
            form.opcode, 0, f"'{form.opcode}' in a trace", "ld and st of .shared or .global; kernels have all"
        )
    return machine


def _read_global(machine: LaunchState, where: Addresses, size: int, warps: Warps) -> Bytes:
    if machine.order is not None:
        machine.order.reads("global", where, size, warps, machine.threads(warps))
    return machine.memory.read(machine.memory.placed(filled(machine, where), warps), size)


def _read_shared(machine: LaunchState, where: Addresses, size: int, warps: Warps) -> Bytes:
    if machine.order is not None:
        machine.order.reads("shared", where, size, warps, machine.threads(warps))
    return machine.shared.read(filled(machine, where), size, machine.actors(warps))[0]


def _read_local(machine: LaunchState, where: Addresses, size: int, warps: Warps) -> Bytes:
    if machine.order is not None:
        machine.order.reads("local", where, size, warps, machine.threads(warps))
    return machine.local.read(where, size, warps, machine.active)


def _read_param(machine: LaunchState, where: Addresses, size: int, warps: Warps) -> Bytes:
    where = filled(machine, where)
    low, high = int(where.min()), int(where.max())
    if low < 0 or high + size > len(machine.params):
        reason = f"access to {size} bytes at param[{high if low >= 0 else low}]"
        raise AddressError(reason, f"0 to {len(machine.params) - size}", rule="out-of-bounds")
    if low == high:  # all threads read the same
        return np.broadcast_to(machine.params[low : low + size], (*where.shape, size))
    read: Bytes = machine.params[where[..., None] + np.arange(size)]
    return read


def _write_global(machine: LaunchState, where: Addresses, data: Bytes, warps: Warps) -> None:
    lanes = machine.active
    if machine.order is not None:
        machine.order.writes("global", where, data, warps, machine.threads(warps))
    where = machine.memory.placed(where, warps)
    machine.memory.write(where if lanes is None else where[lanes], data if lanes is None else data[lanes])


def _write_shared(machine: LaunchState, where: Addresses, data: Bytes, warps: Warps) -> None:
    if machine.order is not None:
        machine.order.writes("shared", where, data, warps, machine.threads(warps))
    if machine.active is None:
        machine.shared.write(where, data, machine.actors(warps))
    else:
        write_some(machine, where, data, warps)


def _write_local(machine: LaunchState, where: Addresses, data: Bytes, warps: Warps) -> None:
    if machine.order is not None:
        machine.order.writes("local", where, data, warps, machine.threads(warps))
    machine.local.write(where, data, warps, machine.active)


READ: dict[str, Read] = {
    "global": _read_global, "const": _read_global, "shared": _read_shared, "local": _read_local, "param": _read_param,
}  # fmt: skip
WRITE: dict[str, Write] = {"global": _write_global, "shared": _write_shared, "local": _write_local}


def _spread(space: str, where: Addresses, warps: Warps) -> Addresses:
    """Where bytes lie that an instruction accesses. The same word of the local memories of a warp's threads lies
    together, so that they make one line."""
    if space != "local":
        return where
    lanes = np.arange(WARP_SIZE, dtype=np.int64)
    return LOCAL + (warps[:, None].astype(np.int64) << 24) + where // 4 * 4 * WARP_SIZE + lanes * 4 + where % 4


@prepares("ld", "ldu")
def load_anywhere(instruction: Instruction, form: Form) -> Executor:
    """ld of any space, ldu. PTX ISA 9.0, 9.7.9.8 to 9.7.9.10."""
    space = space_of(form)
    if space == "shared":
        return with_peers(load(instruction, form), instruction, form, store=False)
    read_addresses, write = addresses(instruction["address"]), loader(instruction["d"], form)
    size, kept = form.width // 8 * form.elements, kept_in_l1(form)
    read = READ[space] if space else _read_generic

    def run(machine: CtaState, warps: Warps) -> Outcome:
        state = launched(machine, form)
        where = read_addresses(machine, warps)
        write(machine, warps, read(state, where, size, warps))
        if not machine.timed:
            return NOTHING
        return Outcome(facts=fetched(machine, FetchKind.LOAD, _spread(space, where, warps), size, kept=kept))

    return run


def _read_generic(machine: LaunchState, where: Addresses, size: int, warps: Warps) -> Bytes:
    chosen = parts(where, machine.threads(warps))
    if len(chosen) == 1 and chosen[0].lanes.all():
        return READ[chosen[0].space](machine, where - chosen[0].base, size, warps)
    data, before = np.zeros((*where.shape, size), np.uint8), machine.active
    try:
        for space, lanes, base in chosen:
            rows = np.flatnonzero(lanes.any(axis=1))
            machine.active = lanes[rows]
            piece = READ[space](machine, where[rows] - base, size, warps[rows])
            data[lanes] = piece[lanes[rows]]
    finally:
        machine.active = before
    return data


@prepares("st")
def store_anywhere(instruction: Instruction, form: Form) -> Executor:
    """st of any space. PTX ISA 9.0, 9.7.9.11."""
    space = space_of(form)
    if space == "shared":
        return with_peers(store(instruction, form), instruction, form, store=True)
    read_addresses, (read, pieces) = addresses(instruction["address"]), storer_of_pieces(instruction["a"], form)
    size = form.width // 8 * form.elements
    writing = WRITE.get(space) if space else _write_generic
    if writing is None:
        raise IsaError(form.opcode, 0, f"a store to .{space}", "memory that a kernel may write")

    def run(machine: CtaState, warps: Warps) -> Outcome:
        state = launched(machine, form)
        where, data = read_addresses(machine, warps), read(machine, warps)
        for offset, piece in pieces:
            writing(state, where + offset, data[..., piece], warps)
        if not machine.timed:
            return NOTHING
        return Outcome(facts=fetched(machine, FetchKind.STORE, _spread(space, where, warps), size))

    return run


def _write_generic(machine: LaunchState, where: Addresses, data: Bytes, warps: Warps) -> None:
    before = machine.active
    try:
        for space, lanes, base in parts(where, machine.threads(warps)):
            rows = np.flatnonzero(lanes.any(axis=1))
            machine.active = None if lanes[rows].all() else lanes[rows]
            if space not in WRITE:
                raise AddressError("a store to the kernel's parameters", "memory that a kernel may write")
            WRITE[space](machine, where[rows] - base, data[rows], warps[rows])
    finally:
        machine.active = before


@computes("cvta")
def convert_address(form: Form) -> Callable[[Array], Array]:
    """cvta: an address of a space as a generic one; cvta.to: the other way. PTX ISA 9.0, 9.7.9.20."""
    window = WINDOWS.get(space_of(form), 0)
    if form.width == 32:
        return lambda a: a

    def convert(a: Array) -> Array:
        if not window:
            return a
        return a - np.uint64(window) if "to" in form.qualifiers else a + np.uint64(window)

    return convert


@computes("isspacep")
def is_in_space(form: Form) -> Callable[[Array], Array]:
    """isspacep: whether a generic address lies in the window of a space. PTX ISA 9.0, 9.7.9.19."""
    space = space_of(form)

    def inquire(a: Array) -> Array:
        a = a.astype(np.uint64)
        inside = {name: a - np.uint64(base) < np.uint64(WINDOW_BYTES) for name, base in WINDOWS.items()}
        if space in inside:
            return inside[space]
        constant = a >= np.uint64(1 << 63)  # no window: constant memory lies among global addresses here
        return constant if space == "const" else ~np.logical_or.reduce(list(inside.values()))

    return inquire


@prepares("isspacep.shared", "isspacep.shared::cta")
def is_own(instruction: Instruction, form: Form) -> Executor:
    """isspacep.shared: whether a generic address lies in the shared memory of the thread's own CTA, which is one of a
    cluster. PTX ISA 9.0, 9.7.9.19; measured on an H200."""
    read, write = reader(instruction["a"], form.role("a").width), writer(instruction["d"], 1)

    def run(machine: CtaState, warps: Warps) -> Outcome:
        where = read(machine, warps)[:, 0].astype(np.uint64) - np.uint64(SHARED)
        inside = where < np.uint64(WINDOW_BYTES)
        if machine.cluster_size > 1:
            own = (machine.own_window(warps) >> RANK_BIT).astype(np.uint64)
            inside &= where >> np.uint64(RANK_BIT) == own
        write(machine, warps, inside[:, None])
        return NOTHING

    return run


@prepares(
    "prefetch", "prefetchu", "applypriority", "discard", "membar", "membar.proxy", "nanosleep", "griddepcontrol",
    "pmevent", "setmaxnreg.inc", "setmaxnreg.dec",
)  # fmt: skip
def nothing(instruction: Instruction, form: Form) -> Executor:
    """Instructions that change no values here: hints for caches, waits, how many registers a thread has, and fences, as
    the order of accesses is that of execution."""
    fences = form.name == "membar"

    def run(machine: CtaState, warps: Warps) -> Outcome:
        if fences and machine.order is not None:
            machine.order.fenced(warps, machine.threads(warps))
        machine.note(instruction, warps)
        return NOTHING

    return run


@prepares("createpolicy")
def create_policy(instruction: Instruction, form: Form) -> Executor:
    """createpolicy: a cache policy, which changes no values; its bits are opaque. PTX ISA 9.0, 9.7.9.18."""
    write = writer(instruction["d"], 64)

    def run(machine: CtaState, warps: Warps) -> Outcome:
        write(machine, warps, np.zeros((len(warps), 1, WARP_SIZE), np.uint64))
        return NOTHING

    return run
