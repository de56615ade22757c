"""The registers that an instruction of measured machine code reads, and its scoreboards, as the timing model takes
them."""

from __future__ import annotations

from collections.abc import Container, Sequence

from isa.forms.record import Unit
from simulator.compiler.operation_parts import BOARDS, Operand, Scoreboards
from simulator.compiler.register_banks import remove_c, set_banks
from simulator.compiler.timed_code import TimedOperation

NO_C = 3

Slots = list[list[int]]  # registers: slot, number, and whether the next instruction need not read it again


def as_operands(slots: Slots, awaited: Container[int] = ()) -> tuple[Operand, ...]:
    """These registers as `TimedOperation.operands`; the instruction waits until those of `awaited` are written."""
    before = [register for _, register, _ in slots]
    return tuple(
        Operand(slot, register, register if register in awaited else -1, bool(reuse), register in before[:place])
        for place, (slot, register, reuse) in enumerate(slots)
    )


def read_from(operation: TimedOperation, slots: Slots) -> None:
    """Lets a matrix, integer or float instruction read these registers: of a matrix instruction the first of A and of
    B, and that of metadata, and no C if there is one with slot `NO_C`."""
    if operation.unit is Unit.TENSOR:
        if any(slot == NO_C for slot, *_ in slots):
            slots = slots[:-1]
            remove_c(operation)
        set_banks(operation, *(register for _, register, _ in slots))
        operation.operands = as_operands(slots[:2])
    else:
        operation.operands = as_operands(slots, {register for _, register, _ in slots})


def wait_for(operation: TimedOperation, boards: Sequence[int]) -> None:
    """Lets an instruction wait as its machine code does, for no register, but for scoreboards: the first of these tells
    when its own registers have been read, the second when its values are there (-1: none), the others it waits for."""
    frees, fills, *awaited = boards
    operation.reads = ()
    operation.boards = Scoreboards(frees, fills if fills < 0 else BOARDS + fills, both(awaited))


def both(boards: Sequence[int]) -> tuple[int, ...]:
    """Scoreboards that are waited for, as those of registers and of values."""
    return (*boards, *(BOARDS + board for board in boards))
