"""What an operation of timed code has beside its unit, latency and registers, by kind of instruction. Operations of a
kind share these objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from isa.forms.record import Time
from simulator.chip.sequences import Sequence

BOARDS = 6  # scoreboards of a warp

CycleSet = int
"""A set of cycles: bit c stands for the cycle that is c cycles behind issue."""


class Operand(NamedTuple):
    """A register that an instruction reads from the register file.

    Attributes:
        slot: 0, 1 or 2 for the first, second or third operand of the instruction; of a matrix instruction A or B.
        register: its number, of A and B the first one's. Even and odd registers are in two banks.
        source: its number in `reads`, if the instruction must wait until it is written; else -1.
        kept: whether it is kept for the next instruction: the flag `.reuse` of machine code.
        again: whether an earlier operand of the instruction is the same register.
    """

    slot: int
    register: int
    source: int = -1
    kept: bool = False
    again: bool = False


@dataclass(frozen=True, slots=True)
class Matrix:
    """What matrix instructions of a form have in common beside latency and interval.

    Attributes:
        sparse: whether they are sparse.
        integer: whether they multiply integers.
        large: whether they have the larger K of their type.
        result_from, result_until: as in `TensorClass`.
        file_ports: cycles for which one takes ports of the register file that tensor pipes share.
        shared_port: cycles for which one takes the port to shared memory.
        shortest_stall: cycles until the warp can issue anything else, whatever that is: `stall` of `TensorClass`.
        keeps: how many registers A and B have; 0 for a B that the compiler does not keep for the next instruction.
    """

    sparse: bool
    integer: bool
    large: bool
    result_from: int
    result_until: int
    file_ports: int
    shared_port: int
    shortest_stall: int
    keeps: tuple[int, int]


@dataclass(frozen=True, slots=True)
class ReadCycles:
    """When a matrix instruction uses the register file, which depends on the banks of its registers.

    Attributes:
        a, b: the cycles in which it reads A and B.
        even, odd: those in which it reads a register of that bank.
        late: those in which an instruction that writes a register may not be in its last stage of reading.
        metadata: the bank from which it reads metadata: 0 even, 1 odd; None without metadata.
    """

    a: CycleSet
    b: CycleSet
    even: CycleSet
    odd: CycleSet
    late: CycleSet
    metadata: int | None


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """An integer or float instruction.

    Attributes:
        time: its timing class, which says to what pipe it goes; EITHER: the compiler may use both.
        halves: whether it can use either half of the pipe FMA.
        writes: whether it writes a register, and not a predicate alone.
    """

    time: Time = Time.INTEGER
    halves: bool = False
    writes: bool = False


@dataclass(frozen=True, slots=True)
class Access:
    """What an access to shared memory, or a shuffle, sends through the port of its sub-core.

    Attributes:
        sent: how many registers: its addresses, and the values of a store.
        banks: bit j is set if the jth of these registers is in the bank of odd registers, in the order in which they
            are read: the values of a store, then the address.
        slow: whether the port takes longer to begin with it: a store, or a shuffle.
        together: whether the registers of a load come together, and not each with its own wavefront (ldmatrix).
    """

    sent: int = 1
    banks: int = 0
    slow: bool = False
    together: bool = False


@dataclass(frozen=True, slots=True)
class Scoreboards:
    """The scoreboards of an instruction of machine code. There are `BOARDS` for registers that have been read, and as
    many for values that are there, from the number `BOARDS` on.

    Attributes:
        frees: the one that tells when its registers have been read; -1 for none.
        fills: the one that tells when its values are there; -1 for none.
        awaits: those that it waits for.
    """

    frees: int = -1
    fills: int = -1
    awaits: tuple[int, ...] = ()


class Overhead(NamedTuple):
    """An instruction of a loop's overhead, which issues in an empty slot behind an operation of the same warp: the
    addition or the comparison of the loop's counter, a NOP, the branch.

    Attributes:
        after: cycles from the operation's issue.
        yields: whether it has the compiler's yield hint.
        compares: whether it is the comparison, which reads `TimedCode.run_count`.
    """

    after: int
    yields: bool = False
    compares: bool = False


class Emulated(NamedTuple):
    """An instruction that the chip does not have: the sequence in its place, and the registers of its operands."""

    sequence: Sequence
    operands: dict[int | str, int]


class Part(NamedTuple):
    """A machine instruction of a sequence.

    Attributes:
        further: whether it is not the first of its instruction, which has issued already.
        early: whether it is such a further part, and in front of the loop of its instruction.
        overlap: how many sequences the compiler lets overlap; 0 if it does not mix this one with other instructions.
    """

    further: bool
    early: bool
    overlap: int
