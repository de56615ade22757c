"""Executes matrix instructions without rounding between them: an accumulator goes from one to the next exactly.

The exact sums lie beside the registers and the Tensor Memory that hold D (`simulator.state.carried`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from isa.forms.mma import MmaForm
from isa.fragments.registers import Fragment
from isa.ptx.instruction import Operand, Register
from isa.types import Bits
from simulator.arithmetic.accumulate import accumulate, accumulate_f64, values_of
from simulator.arithmetic.chain import Words
from simulator.arithmetic.formats import Integers, Reals
from simulator.arithmetic.superaccumulator import Rows
from simulator.execute.cta_state import CtaState
from simulator.execute.mma import Scales, matrices, sum_of
from simulator.execute.operands import place_of, scalars
from simulator.state.carried import CarryingRegisters, Result, Sums
from simulator.state.registers import Warps


class Places(NamedTuple):
    """Where the elements of a matrix of accumulators are kept, both int64 of one shape.

    Attributes:
        cells: their cells.
        rows: their sums among the superaccumulators; -1 for elements that stay as they are.
    """

    cells: Rows
    rows: Rows


def start(
    sums: Sums,
    c: Places | None,
    d: Places,
    types: tuple[Result, Result],
    values: Callable[[], Reals | Integers],
) -> None:
    """Sets the sums of D to C: to its exact sums where they are kept, else to what can be read there.

    Args:
        sums: of the memory that both are in.
        c, d: places of the elements; C is None if it is no register that could hold a sum.
        types: what C is read as, and what D will hold.
        values: reads the values of C, rounded; called only if it is needed.
    """
    accumulators = sums.of(types[1].type)
    held = np.zeros(d.rows.shape, np.bool_) if c is None else sums.held(c.cells, types[0].type)
    if c is not None and held.all():
        if c.rows is not d.rows and not np.array_equal(c.rows, d.rows):
            accumulators.put(d.rows, accumulators.taken(c.rows))
        return
    given = values()
    kept = None if c is None or not held.any() else accumulators.taken(c.rows[held])
    accumulators.set(d.rows, np.where(held, 0, given))
    if kept is not None:
        accumulators.put(d.rows[held], kept)


class RegisterPlaces:
    """The places of a fragment's elements in the registers that an instruction names."""

    def __init__(self, fragment: Fragment, operand: Operand) -> None:
        self.registers = [place_of(part.name) for part in scalars(operand) if isinstance(part, Register)]
        self.lane, self.register, self.element = fragment.mapping.grid

    def numbers(self, registers: CarryingRegisters) -> NDArray[np.intp]:
        """The numbers of the registers."""
        return np.array([registers.numbering.first(place.sort) + place.number for place in self.registers], np.intp)

    def of(self, registers: CarryingRegisters, warps: Warps) -> Places:
        """Of each warp, [warp, row, column]."""
        numbers = self.numbers(registers)[self.register]
        cells = registers.cell(warps[:, None, None], numbers, self.lane)
        return Places(cells, cells * registers.sums.parts + self.element)


def places_of(fragment: Fragment, operand: Operand) -> RegisterPlaces | None:
    """Where an operand's elements are; None for one that is not made of registers alone."""
    return RegisterPlaces(fragment, operand) if all(isinstance(x, Register) for x in scalars(operand)) else None


Reading = Callable[[CtaState, Warps], NDArray[Any]]


class CarriedMma:
    """`mma` or `mma.sp` whose D keeps its exact value.

    Args:
        form: the instruction's form.
        c, d: places of its accumulators; C is None if it is not made of registers.
        read_c: reads the registers of C.
    """

    def __init__(self, form: MmaForm, c: RegisterPlaces | None, d: RegisterPlaces, read_c: Reading) -> None:
        self.form, self.c, self.d, self.read_c = form, c, d, read_c

    def start(self, machine: CtaState, warps: Warps) -> Rows:
        """Sets the sums of D to C; returns their rows, [warp, row, column]."""
        form, registers = self.form, carrying(machine)
        d = self.d.of(registers, warps)
        c = None if self.c is None else self.c.of(registers, warps)
        types = Result(form.c_type), Result(form.d_type, form.saturate)
        start(registers.sums, c, d, types, lambda: values_of(form.c.gather(self.read_c(machine, warps)), form.c_type))
        return d.rows

    def add(
        self,
        machine: CtaState,
        operands: tuple[Bits, Bits, Bits | None],
        selector: int,
        scales: Scales | None,
        rows: Rows,
    ) -> None:
        """Adds the products of some warps to the sums of D: registers of A, B and metadata, as `execute_mma` takes
        them."""
        form, (a, b, e) = self.form, operands
        sums = carrying(machine).sums.of(form.d_type)
        if form.d_type.bits == 64:
            accumulate_f64(cast(Words, form.a.gather(a)), cast(Words, form.b.gather(b)), sums, rows)
            return
        given = matrices(form, a, b, np.zeros(rows.shape, np.uint32), e, selector, scales)
        accumulate(sum_of(form, machine.target, "exact"), given, sums, rows.reshape(-1, form.m, form.n))

    def finish(self, machine: CtaState, warps: Warps) -> None:
        """Notes that D is what the sums say."""
        registers = carrying(machine)
        registers.keep(warps, self.d.numbers(registers), Result(self.form.d_type, self.form.saturate))


def carrying(machine: CtaState) -> CarryingRegisters:
    """The registers of a machine that carries."""
    registers = machine.registers
    assert isinstance(registers, CarryingRegisters)
    return registers
