"""Which banks of the register file instructions read: registers of even number are in one bank, odd ones in the other.

Traces name registers, but not in which bank ptxas would put them; the functions here say what is assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from simulator.chip.config import Config
from simulator.compiler.operation_parts import Operand
from simulator.compiler.timed_code import TimedOperation


def bits(numbers: Iterable[int]) -> int:
    """The integer that has these bits set."""
    return sum(1 << number for number in numbers)


def odd_banks(registers: Iterable[int]) -> int:
    """An integer with bit j set if the jth of these registers is in the bank of odd registers."""
    return bits(place for place, register in enumerate(registers) if register % 2)


def access_banks(registers: tuple[int, ...]) -> int:
    """`Access.banks` of an access to shared memory.

    Several values to store are in both banks in turn, as in machine code, where the first of them is even. A load from
    a constant address reads no register.

    Args:
        registers: the address, then the values that are stored.
    """
    if not registers:
        return 0
    address, *values = registers
    return odd_banks((*(values if len(values) == 1 else range(len(values))), address))


def operands(registers: Sequence[int], config: Config) -> tuple[Operand, ...]:
    """The operands of an integer or float instruction of a trace.

    They are in both banks in turn, as ptxas would choose registers; the bank of the first depends on the first
    register. Empty for a chip of which that is not known (`Config.reading_stages`).
    """
    if not config.reading_stages:
        return ()
    first = registers[0] if registers else 0
    return tuple(
        Operand(slot, 2 * register + (first + slot) % 2, register) for slot, register in enumerate(registers[:3])
    )


def set_banks(operation: TimedOperation, a: int, b: int, metadata: int = 0) -> None:
    """Lets a matrix instruction read its operands from the banks of its registers.

    A and B keep their cycles where they are more than one register each, since both banks are read then.

    Args:
        operation: the matrix instruction, which is changed.
        a, b: the first registers of A and B.
        metadata: the register of the metadata.
    """
    cycles = operation.read_cycles
    if cycles is None:
        return
    even, odd = cycles.even, cycles.odd
    for reading, register in ((cycles.a, a), (cycles.b, b)):
        single = reading & (cycles.even ^ cycles.odd)
        even, odd = (even & ~single, odd | single) if register % 2 else (even | single, odd & ~single)
    bank = None if cycles.metadata is None else metadata % 2
    operation.read_cycles = replace(cycles, even=even, odd=odd, metadata=bank)


def remove_c(operation: TimedOperation) -> None:
    """Lets a matrix instruction read no C: machine code has the register RZ in its place."""
    if (cycles := operation.read_cycles) is not None:
        read = cycles.a | cycles.b
        operation.read_cycles = replace(cycles, even=cycles.even & read, odd=cycles.odd & read)
