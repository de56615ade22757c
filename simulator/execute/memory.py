"""Executes loads from shared memory and stores to it; accesses to global memory and copies are in `copies`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.forms.record import Form
from isa.fragments.registers import Fragment
from isa.ptx.instruction import Immediate, Instruction, Operand, Register, Sink, Vector
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.events import Region
from simulator.execute.operands import addresses, reader, scalars, writer
from simulator.execute.registry import prepares
from simulator.state.registers import SORT_OF_BITS, WARP_SIZE, Warps, register_place
from simulator.state.shared import Addresses, as_words, wavefronts
from simulator.state.windows import SHARED, WINDOW_BYTES


@prepares("ldmatrix")
def load_matrices(instruction: Instruction, form: Form) -> Executor:
    """ldmatrix: PTX ISA 9.0, 9.7.14.5.15."""
    read_addresses, write, fragment = _rows_of(instruction, form), writer(instruction["d"]), form.fragment
    assert fragment is not None
    rows, order = fragment.shape[0], _order(fragment)

    def run(machine: CtaState, warps: Warps) -> Outcome:
        where = read_addresses(machine, warps)[:, :rows]
        if machine.order is not None:
            machine.order.reads("shared", where, 16, warps, machine.threads(warps)[:, :rows], whole=True)
        data, races = machine.shared.read(where, 16, machine.actors(warps))
        raced(machine, races + _under_way(machine, where, 16, warps))
        words = as_words(data).reshape(len(where), -1)
        if order is None:
            write(machine, warps, fragment.scatter(data.view("<u2").astype(np.uint32)))
        else:
            write(machine, warps, (words if order.size == 0 else words[:, order]).reshape(len(where), -1, WARP_SIZE))
        machine.note(instruction, warps, reads=region(machine, where, 16))
        return Outcome(wavefronts(where, 16)) if machine.timed else NOTHING

    return run


@prepares("stmatrix")
def store_matrices(instruction: Instruction, form: Form) -> Executor:
    """stmatrix: PTX ISA 9.0, 9.7.14.5.16."""
    read_addresses, read, fragment = _rows_of(instruction, form), reader(instruction["a"]), form.fragment
    assert fragment is not None
    rows = fragment.shape[0]

    def run(machine: CtaState, warps: Warps) -> Outcome:
        where = read_addresses(machine, warps)[:, :rows]
        data = np.ascontiguousarray(fragment.gather(read(machine, warps)).astype("<u2")).view(np.uint8)
        if machine.order is not None:
            machine.order.writes("shared", where, data, warps, machine.threads(warps)[:, :rows])
        races = machine.shared.write(where, data, machine.actors(warps))
        raced(machine, races + _under_way(machine, where, 16, warps))
        machine.note(instruction, warps, writes=region(machine, where, 16))
        return Outcome(wavefronts(where, 16)) if machine.timed else NOTHING

    return run


def _rows_of(instruction: Instruction, form: Form) -> Callable[[CtaState, Warps], Addresses]:
    """A function that reads the addresses of the rows of matrices, as offsets in shared memory: those of an instruction
    without `.shared` are generic."""
    read = addresses(instruction["address"])
    if form.space:
        return read

    def run(machine: CtaState, warps: Warps) -> Addresses:
        where = read(machine, warps)
        return np.where((where >= SHARED) & (where < SHARED + WINDOW_BYTES), where - SHARED, where)

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
    read_addresses, write = addresses(instruction["address"]), loader(instruction["d"], form)
    size = form.width // 8 * form.elements

    def run(machine: CtaState, warps: Warps) -> Outcome:
        where = read_addresses(machine, warps)
        machine.check_own(form, where, warps)
        if machine.order is not None:
            machine.order.reads("shared", where, size, warps, machine.threads(warps))
        if machine.active is None or not machine.checked:
            where = filled(machine, where)
            data, races = machine.shared.read(where, size, machine.actors(warps))
        else:
            data, races = _read_some(machine, where, size, warps)
            where = filled(machine, where)
        raced(machine, races + _under_way(machine, where, size, warps))
        write(machine, warps, data)
        machine.note(instruction, warps, reads=region(machine, where, size))
        return Outcome(wavefronts(where, size)) if machine.timed else NOTHING

    return run


@prepares("st.shared", "st.shared::cta")
def store(instruction: Instruction, form: Form) -> Executor:
    """st.shared: PTX ISA 9.0, 9.7.9.11."""
    read_addresses, read = addresses(instruction["address"]), storer(instruction["a"], form)
    size = form.width // 8 * form.elements

    def run(machine: CtaState, warps: Warps) -> Outcome:
        where, data = read_addresses(machine, warps), read(machine, warps)
        machine.check_own(form, where, warps)
        if machine.order is not None:
            machine.order.writes("shared", where, data, warps, machine.threads(warps))
        if machine.active is None:
            races = machine.shared.write(where, data, machine.actors(warps))
        else:
            races = write_some(machine, where, data, warps)
            where = filled(machine, where)
        raced(machine, races + _under_way(machine, where, size, warps))
        machine.note(instruction, warps, writes=region(machine, where, size))
        return Outcome(wavefronts(where, size)) if machine.timed else NOTHING

    return run


Load = Callable[[CtaState, Warps, NDArray[np.uint8]], None]
Store = Callable[[CtaState, Warps], NDArray[np.uint8]]


def loader(operand: Operand, form: Form) -> Load:
    """A function that writes the bytes uint8 [warp, lane, byte] of a load to its registers. Registers that are wider
    than the type get the value extended, narrower ones (of 16 bits, for bytes) its low bits. PTX ISA 9.0, 9.4.1."""
    bits = register_bits(operand, form)
    write, dtype = writer(operand, bits), SORT_OF_BITS[bits].dtype

    def run(machine: CtaState, warps: Warps, data: NDArray[np.uint8]) -> None:
        values = np.swapaxes(extended(data, form, bits), 1, 2)
        write(machine, warps, values if values.dtype == dtype else values.astype(dtype))

    return run


def storer(operand: Operand, form: Form) -> Store:
    """A function that reads the registers of a store as bytes uint8 [warp, lane, byte], of each its low bits. Above the
    64 bits of a constant of b128 lie zeros, as ptxas 13.0 has it."""
    read, size = reader(operand, register_bits(operand, form)), min(form.width // 8, 8)
    above = form.width // 8 - size if isinstance(operand, Immediate) else 0

    def run(machine: CtaState, warps: Warps) -> NDArray[np.uint8]:
        values = np.ascontiguousarray(np.swapaxes(read(machine, warps), 1, 2).astype(f"<u{size}", copy=False))
        data = values.view(np.uint8).reshape(*values.shape[:2], -1)
        return np.pad(data, ((0, 0), (0, 0), (0, above))) if above else data

    return run


def storer_of_pieces(operand: Operand, form: Form) -> tuple[Store, tuple[tuple[int, slice], ...]]:
    """As `storer`, and the pieces of those bytes that are written: (offset in memory, which of them). Elements that are
    `_` are neither read nor written. PTX ISA 9.0, 9.7.9.11."""
    elements = scalars(operand)
    kept = [number for number, element in enumerate(elements) if not isinstance(element, Sink)]
    if len(kept) == len(elements):
        return storer(operand, form), ((0, slice(None)),)
    size = form.width // 8
    pieces = tuple((number * size, slice(place * size, (place + 1) * size)) for place, number in enumerate(kept))
    return storer(Vector(tuple(elements[number] for number in kept)), form), pieces


def register_bits(operand: Operand, form: Form) -> int:
    """The width of the registers of an operand, which may be more than that of the type."""
    for part in scalars(operand):
        if isinstance(part, Register) and (place := register_place(part.name)) is not None:
            return place.sort.bits
    return min(max(form.width, 32), 64)


def raced(machine: CtaState, races: int) -> None:
    """Notes bytes that race as undefined, if there are any."""
    if races:
        machine.note_undefined("shared-memory-race", races, f"{races} bytes")


def _under_way(machine: CtaState, where: Addresses, size: int, warps: Warps) -> int:
    """How many bytes of an access an asynchronous copy is about to write."""
    if "copies" not in vars(machine):
        return 0
    places = machine.places(warps, where)[..., None] + np.arange(size)
    return int((machine.copies.under_way[places] > 0).sum())


def extended(data: NDArray[np.uint8], form: Form, bits: int = 32) -> NDArray[Any]:
    """Bytes [warp, lane, size] -> uint32 (types or registers of 64 bits: uint64) [warp, lane, element], signed types
    sign-extended. PTX ISA 9.0, 9.4.1."""
    size = min(form.width // 8, 8)  # one of 128 bits is two of 64
    values = np.ascontiguousarray(data).view(f"<u{size}")
    if size == 8 or (size == 4 and bits < 64):
        return values.astype(f"u{size}", copy=False)
    wide = 8 if bits == 64 else 4
    if form.type_name[0] == "s":
        return values.view(f"<i{size}").astype(f"i{wide}").view(f"u{wide}")
    return values.astype(f"u{wide}")


# Where only some threads of a warp take part


def _read_some(machine: CtaState, where: Addresses, size: int, warps: Warps) -> tuple[NDArray[np.uint8], int]:
    """As `SharedMemory.read`; zero in the lanes that read nothing."""
    data, races = np.zeros((*where.shape, size), np.uint8), 0
    for row, lanes in enumerate(machine.threads(warps)):
        bytes_read, raced = machine.shared.read(where[row : row + 1, lanes], size, machine.actors(warps[row : row + 1]))
        data[row, lanes], races = bytes_read[0], races + raced
    return data, races


def write_some(machine: CtaState, where: Addresses, data: NDArray[np.uint8], warps: Warps) -> int:
    """As `SharedMemory.write`, in the active threads alone."""
    assert machine.active is not None
    if not machine.checked:
        row, lane = np.nonzero(machine.active)
        return machine.shared.write(where[row, lane][:, None], data[row, lane][:, None], machine.actors(warps[row]))
    return sum(
        machine.shared.write(
            where[row : row + 1, lanes], data[row : row + 1, lanes], machine.actors(warps[row : row + 1])
        )
        for row, lanes in enumerate(machine.active)
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
    if not machine.wants_accesses or machine.batched:
        return ()
    return (Region("shared", machine.rank, where[..., None] + np.arange(size), "bytes"),)
