"""Reads and writes the operands of an instruction as arrays [warp, register, lane]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.ptx.instruction import (
    Address,
    Immediate,
    Operand,
    OwnAddress,
    OwnOffset,
    Predicate,
    Register,
    Scalar,
    Sink,
    Vector,
)
from simulator.execute.cta_state import CtaState
from simulator.state.registers import SORT_OF_BITS, WARP_SIZE, Lanes, Place, Sort, Warps, register_place
from simulator.state.shared import Addresses

Reader = Callable[[CtaState, Warps], NDArray[Any]]
Writer = Callable[[CtaState, Warps, NDArray[Any]], None]
_FAR = np.uint64(1 << 62)  # stands for every address that is too large for int64


def scalars(operand: Operand) -> tuple[Scalar, ...]:
    """The registers and constants of an operand."""
    if isinstance(operand, Vector):
        return operand.elements
    assert isinstance(operand, Register | Sink | Immediate)
    return (operand,)


def place_of(name: str) -> Place:
    """The register of this name; the names of a trace have been checked."""
    place = register_place(name)
    assert place is not None, name
    return place


def reader(operand: Operand, bits: int = 32) -> Reader:
    """A function that reads a scalar or vector operand: [warp, register, lane], uint32 (or what `bits` says: uint64 for
    64, bool for 1, uint16 for 16)."""
    if isinstance(operand, Predicate):
        read = predicate(operand)
        return lambda machine, warps: read(machine, warps)[:, None]
    parts, sort = scalars(operand), SORT_OF_BITS[bits]
    places = [register_place(part.name) if isinstance(part, Register) else None for part in parts]
    numbers = [place.number for place in places if place is not None and place.sort is sort]
    if len(numbers) == len(parts):
        if sort is Sort.WORD:
            return lambda machine, warps: machine.registers.read(warps, numbers)
        return lambda machine, warps: machine.registers.read(warps, numbers, sort)
    return lambda machine, warps: np.stack([scalar(part, machine, warps, sort) for part in parts], axis=1)


def scalar(part: Scalar, machine: CtaState, warps: Warps, sort: Sort = Sort.WORD) -> NDArray[Any]:
    """[warp, lane] of one register, special register or constant, as a value of this sort.

    A register is read from the file of its own width, whatever the width of the operand: narrower ones are extended
    by zeros, of wider ones the low bits are taken.
    """
    if isinstance(part, Immediate):
        value = part.value != 0 if sort is Sort.PREDICATE else part.value & ((1 << sort.bits) - 1)
        found = np.full((len(warps), WARP_SIZE), value, sort.dtype)
        return found + machine.own_window(warps).astype(sort.dtype) if isinstance(part, OwnOffset) else found
    assert isinstance(part, Register)
    place = register_place(part.name)
    values = machine.special(part.name, warps) if place is None else _own(place, machine, warps)
    return values if values.dtype == sort.dtype else values.astype(sort.dtype)


def _own(place: Place, machine: CtaState, warps: Warps) -> NDArray[Any]:
    """[warp, lane] of a register, of the type of its own file."""
    return machine.registers.read(warps, [place.number], place.sort)[:, 0]


def writer(operand: Operand, bits: int = 32) -> Writer:
    """A function that writes [warp, register, lane], leaving out `_` and threads that are not active. Each register is
    written in the file of its own width."""
    parts, sort = scalars(operand), SORT_OF_BITS[bits]
    kept = [i for i, part in enumerate(parts) if not isinstance(part, Sink)]
    places = [place_of(part.name) for part in parts if isinstance(part, Register)]
    numbers = [place.number for place in places]
    if not kept:
        return lambda machine, warps, values: None
    if any(place.sort is not sort for place in places):
        return _writer_of_sorts(list(zip(kept, places, strict=True)))
    if len(kept) == len(parts):
        return lambda machine, warps, values: machine.registers.write(warps, numbers, values, machine.active, sort)
    return lambda machine, warps, values: machine.registers.write(warps, numbers, values[:, kept], machine.active, sort)


def _writer_of_sorts(kept: list[tuple[int, Place]]) -> Writer:
    """A function that writes registers of several widths: (which of the values, its register)."""

    def write(machine: CtaState, warps: Warps, values: NDArray[Any]) -> None:
        for index, place in kept:
            own = values[:, index : index + 1].astype(place.sort.dtype)
            machine.registers.write(warps, [place.number], own, machine.active, place.sort)

    return write


def predicate(operand: Operand) -> Callable[[CtaState, Warps], Lanes]:
    """A function that reads a predicate operand, `%p0`, `!%p0` or a constant (0 is false): bool [warp, lane]."""
    if isinstance(operand, Immediate):
        return lambda machine, warps: np.full((len(warps), WARP_SIZE), operand.value != 0, np.bool_)
    assert isinstance(operand, Predicate | Register)
    register, negated = (operand.register, operand.negated) if isinstance(operand, Predicate) else (operand, False)
    number = place_of(register.name).number

    def read(machine: CtaState, warps: Warps) -> Lanes:
        values: Lanes = machine.registers.read(warps, [number], Sort.PREDICATE)[:, 0]
        return ~values if negated else values

    return read


def addresses(operand: Operand) -> Callable[[CtaState, Warps], Addresses]:
    """A function that reads the byte addresses int64 [warp, lane] of an address operand: modulo 2^32, or modulo 2^64
    where its register has 64 bits."""
    assert isinstance(operand, Address)
    base, offset, own = operand.base, operand.offset, isinstance(operand, OwnAddress)
    sort = Sort.WORD
    if base is not None and (place := register_place(base.name)) is not None:
        sort = place.sort

    def read(machine: CtaState, warps: Warps) -> Addresses:
        if base is None:
            where = np.full((len(warps), WARP_SIZE), offset, np.int64)
            return where + machine.own_window(warps) if own else where
        return (scalar(base, machine, warps, sort).astype(np.int64) + offset) & 0xFFFFFFFF

    def read_wide(machine: CtaState, warps: Warps) -> Addresses:
        assert base is not None
        address = scalar(base, machine, warps, sort) + np.uint64(offset % (1 << 64))
        return np.minimum(address, _FAR).astype(np.int64)

    return read_wide if sort is Sort.WIDE else read
