"""The registers that an instruction of measured machine code reads, as the timing model takes them."""

from __future__ import annotations

from isa.forms.record import Unit
from simulator.timing.compile import in_banks
from simulator.timing.model import TimedOperation, operand

Slots = list[list[int]]  # registers: slot, number, and whether the next instruction need not read it again


def as_operands(slots: Slots) -> tuple[int, ...]:
    """These registers as `TimedOperation.operands`."""
    before = [register for _, register, _ in slots]
    return tuple(
        operand(slot, register, bool(reuse), register in before[:place])
        for place, (slot, register, reuse) in enumerate(slots)
    )


def read_from(operation: TimedOperation, slots: Slots) -> None:
    """Lets a matrix, integer or float instruction read these registers: of a matrix instruction the first of A and of
    B, and that of metadata."""
    if operation.unit is Unit.TENSOR:
        in_banks(operation, *(register for _, register, _ in slots))
        slots = slots[:2]
    else:
        operation.sources = tuple(register for _, register, _ in slots)
    operation.operands = as_operands(slots)
