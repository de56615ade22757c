"""Executes loads from shared memory and stores to it; accesses to global memory and copies are in `copies`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.forms.record import Form
from isa.fragments.registers import Fragment
from isa.ptx.instruction import Instruction
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.events import Region
from simulator.execute.operands import addresses, reader, writer
from simulator.execute.registry import prepares
from simulator.state.registers import WARP_SIZE, Warps
from simulator.state.shared import Addresses, as_bytes, as_words, wavefronts


@prepares("ldmatrix")
def load_matrices(instruction: Instruction, form: Form) -> Executor:
    """ldmatrix: PTX ISA 9.0, 9.7.14.5.15."""
    read_addresses, write, fragment = addresses(instruction["address"]), writer(instruction["d"]), form.fragment
    assert fragment is not None
    rows, order = fragment.shape[0], _order(fragment)

    def run(machine: CtaState, warps: Warps) -> Outcome:
        where = read_addresses(machine, warps)[:, :rows]
        data, races = machine.shared.read(where, 16, machine.actors(warps))
        raced(machine, races + _under_way(machine, where, 16))
        words = as_words(data).reshape(len(where), -1)
        if order is None:
            write(machine, warps, fragment.scatter(data.view("<u2").astype(np.uint32)))
        else:
            write(machine, warps, (words if order.size == 0 else words[:, order]).reshape(len(where), -1, WARP_SIZE))
        machine.note(instruction, warps, reads=region(machine, where, 16))
        return Outcome(wavefronts(where, 16)) if machine.timed else NOTHING

    return run


def _order(fragment: Fragment) -> NDArray[np.int64] | None:
    """From which word of a matrix's rows, in order, each register of each lane comes: int64 [register * 32 + lane];
    empty if the words are in that order already; None if a register's halves come from different words."""
    row, column = fragment.mapping.inverse_grid
    half = row * fragment.shape[1] + column  # [lane, register, element]
    half = np.swapaxes(half, 0, 1).reshape(-1, 2)
    if (half[:, 0] % 2).any() or (half[:, 1] != half[:, 0] + 1).any():
        return None
    words: NDArray[np.int64] = half[:, 0] // 2
    return words[:0] if (words == np.arange(len(words))).all() else words


@prepares("ld.shared", "ld.shared::cta")
def load(instruction: Instruction, form: Form) -> Executor:
    """ld.shared: PTX ISA 9.0, 9.7.9.8."""
    read_addresses, write = addresses(instruction["address"]), writer(instruction["d"], form.role("d").width)
    size = form.width // 8 * form.elements

    def run(machine: CtaState, warps: Warps) -> Outcome:
        where = read_addresses(machine, warps)
        if machine.active is None:
            data, races = machine.shared.read(where, size, machine.actors(warps))
        else:
            data, races = _read_some(machine, where, size, warps)
            where = filled(machine, where)
        raced(machine, races + _under_way(machine, where, size))
        write(machine, warps, np.swapaxes(extended(data, form), 1, 2))
        machine.note(instruction, warps, reads=region(machine, where, size))
        return Outcome(wavefronts(where, size)) if machine.timed else NOTHING

    return run


@prepares("st.shared", "st.shared::cta")
def store(instruction: Instruction, form: Form) -> Executor:
    """st.shared: PTX ISA 9.0, 9.7.9.11."""
    read_addresses, read = addresses(instruction["address"]), reader(instruction["a"], form.role("a").width)
    size = form.width // 8 * form.elements

    def run(machine: CtaState, warps: Warps) -> Outcome:
        where = read_addresses(machine, warps)
        words = np.swapaxes(read(machine, warps), 1, 2)
        data = as_bytes_of(words, form)
        if machine.active is None:
            races = machine.shared.write(where, data, machine.actors(warps))
        else:
            races = _write_some(machine, where, data, warps)
            where = filled(machine, where)
        raced(machine, races + _under_way(machine, where, size))
        machine.note(instruction, warps, writes=region(machine, where, size))
        return Outcome(wavefronts(where, size)) if machine.timed else NOTHING

    return run


def raced(machine: CtaState, races: int) -> None:
    """Notes bytes that race as undefined, if there are any."""
    if races:
        machine.note_undefined("shared-memory-race", races, f"{races} bytes")


def _under_way(machine: CtaState, where: Addresses, size: int) -> int:
    """How many bytes of an access an asynchronous copy is about to write."""
    if "copies" not in vars(machine):
        return 0
    return int((machine.copies.under_way[where[..., None] + np.arange(size)] > 0).sum())


def extended(data: NDArray[np.uint8], form: Form) -> NDArray[Any]:
    """Bytes [warp, lane, size] -> uint32 (64 bits: uint64) [warp, lane, element], signed types sign-extended. PTX ISA
    9.0, 9.4.1."""
    if form.width == 32:
        return as_words(data)
    if form.width == 64:
        return np.ascontiguousarray(data).view("<u8").astype(np.uint64, copy=False)
    kind = "i" if form.type_name[0] == "s" else "u"
    return data.view(f"<{kind}{form.width // 8}").astype(np.int32).view(np.uint32)


def as_bytes_of(words: NDArray[Any], form: Form) -> NDArray[np.uint8]:
    """Registers [warp, lane, element] as the bytes [warp, lane, byte] that a store of this form writes."""
    warps, lanes, elements = words.shape
    whole = _as_bytes(words).reshape(warps, lanes, elements, max(form.width // 8, 4))
    return whole[..., : form.width // 8].reshape(warps, lanes, elements * form.width // 8)


def _as_bytes(values: NDArray[Any]) -> NDArray[np.uint8]:
    """uint32 or uint64 [..., n] -> bytes, little endian."""
    return (
        as_bytes(values)
        if values.dtype == np.uint32
        else np.ascontiguousarray(values.astype("<u8", copy=False)).view(np.uint8)
    )


# Where only some threads of a warp take part


def _read_some(machine: CtaState, where: Addresses, size: int, warps: Warps) -> tuple[NDArray[np.uint8], int]:
    """As `SharedMemory.read`; zero in the lanes that read nothing."""
    data, races = np.zeros((*where.shape, size), np.uint8), 0
    for row, lanes in enumerate(machine.threads(warps)):
        bytes_read, raced = machine.shared.read(where[row : row + 1, lanes], size, machine.actors(warps[row : row + 1]))
        data[row, lanes], races = bytes_read[0], races + raced
    return data, races


def _write_some(machine: CtaState, where: Addresses, data: NDArray[np.uint8], warps: Warps) -> int:
    """As `SharedMemory.write`."""
    return sum(
        machine.shared.write(
            where[row : row + 1, lanes], data[row : row + 1, lanes], machine.actors(warps[row : row + 1])
        )
        for row, lanes in enumerate(machine.threads(warps))
    )


def filled(machine: CtaState, where: Addresses) -> Addresses:
    """Addresses in which each idle lane has that of an active one of its warp, so that it costs nothing: [warp,
    lane]."""
    if machine.active is None:
        return where
    some = np.take_along_axis(where, machine.active.argmax(axis=1)[:, None], axis=1)
    return np.where(machine.active, where, some)


def region(machine: CtaState, where: Addresses, size: int) -> tuple[Region, ...]:
    """The bytes of an access, for listeners; nothing where none wants them."""
    if not machine.wants_accesses:
        return ()
    return (Region("shared", machine.rank, where[..., None] + np.arange(size), "bytes"),)
