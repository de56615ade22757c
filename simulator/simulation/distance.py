"""How far the chip's results of a program are from the exact ones.

Both are arrays of words, as `.store` takes them. What the words stand for is known where a matrix instruction left them
in registers or in Tensor Memory, and else where all matrix results of the program have one type.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.types import ElementType, unpack
from simulator.arithmetic import canonical_nan, ulp_distance
from simulator.arithmetic.deviation import Deviation, deviation, numbers
from simulator.arithmetic.formats import is_nan
from simulator.execute.cta_state import CtaState
from simulator.program.program import Program, Store
from simulator.simulation.interpreter import Executed
from simulator.state.carried import CarryingRegisters, CarryingTensorMemory

Array = NDArray[Any]
_EXACT_NAN_F64 = 0x7FF8 << 48


@dataclass(frozen=True)
class Distance:
    """How far one array of the chip's results is from the exact one.

    Attributes:
        elements: of the array; words where nothing says what they stand for.
        differing: those whose bits differ.
        nan: those that are NaN in either; they count as neither near nor far.
        largest_ulp: largest distance of two elements, in units in the last place of their type, where neither is NaN;
            None where elements differ and nothing says what they stand for.
        types: names of the types that the elements were read as.
        error: how far the numbers are apart all together; None where nothing says what they stand for.
    """

    elements: int
    differing: int
    nan: int
    largest_ulp: int | None
    types: tuple[str, ...]
    error: Deviation | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, ready for JSON."""
        found = {key: value for key, value in vars(self).items() if key != "error"}
        return found | (self.error.to_dict() if self.error is not None else {})

    def __str__(self) -> str:
        nan = f", {self.nan:,} NaN" if self.nan else ""
        if not self.differing:
            numbers = f"{self.elements - self.nan:,} of {self.elements:,}" if self.nan else f"all {self.elements:,}"
            return f"the same in {numbers} elements{nan}"
        far = "" if self.largest_ulp is None else f", {self.largest_ulp:,} ulp at most"
        if far and self.error is not None:
            far += f" ({self.error})"
        return f"{self.differing:,} of {self.elements:,} elements differ{far}{nan}"


def distances(program: Program, chip: Executed, exact: Executed) -> dict[str, Distance]:
    """By name, the distance of each array that the program stores."""
    every = {result.type for machine in exact.machines for result in _results(machine)}
    only = every.pop() if len(every) == 1 else None
    return {store.name: _of_store(store, chip, exact, only) for store in program.stores}


def _results(machine: CtaState) -> list[Any]:
    memories = machine.registers, vars(machine).get("tmem")
    return [
        result
        for memory in memories
        if isinstance(memory, CarryingRegisters | CarryingTensorMemory)
        for result in memory.sums.results
    ]


def _of_store(store: Store, chip: Executed, exact: Executed, only: ElementType | None) -> Distance:
    """Cells of one kind after the other; `only` stands for cells that hold no matrix result."""
    x, y = chip.arrays[store.name], exact.arrays[store.name]
    if store.register is None and store.tmem is None:
        first = store.memory if store.memory is not None else store.shared
        assert first is not None
        size = only.bits // 8 if only is not None else 1
        if first % size or store.count % size:
            only, size = None, 1
        return joined([_apart(x.view(f"u{size}"), y.view(f"u{size}"), only)])
    machines = exact.machines if store.cta is None else exact.machines[store.cta : store.cta + 1]
    several = store.cta is None and len(exact.machines) > 1
    parts = []
    for rank, machine in enumerate(machines):
        left, right = (x[rank], y[rank]) if several else (x, y)
        kinds, types = _kinds(store, machine)
        for kind in np.unique(kinds):
            some = kinds == kind
            parts.append(_apart(left[some], right[some], types[kind] if kind else only))
    return joined(parts)


def _kinds(store: Store, machine: CtaState) -> tuple[NDArray[np.uint8], list[ElementType | None]]:
    """What each cell of a store holds: an index into a list of types, of which the first is None."""
    if store.register is not None:
        registers = machine.registers
        assert isinstance(registers, CarryingRegisters)
        first = registers.numbering.first(store.sort) + store.register
        sums, kinds = registers.sums, registers.kind[:, first : first + store.count]
    else:
        assert store.tmem is not None
        tmem = machine.tmem
        assert isinstance(tmem, CarryingTensorMemory)
        sums, kinds = tmem.sums, tmem.sums.kind.reshape(tmem.words.shape)[:, store.tmem : store.tmem + store.count]
    return kinds, [None, *(result.type for result in sums.results)]


def _apart(x: Array, y: Array, element: ElementType | None) -> Distance:
    """The distance of two arrays of words; of elements that nothing names where no word holds the type."""
    x, y = x.ravel(), y.ravel()
    width = 8 * x.dtype.itemsize
    if element is None or x.dtype.kind != "u" or width % element.bits:
        differing = int((x != y).sum())
        return Distance(x.size, differing, 0, None if differing else 0, (), None if differing else Deviation())
    if width == 32 and element.bits < 32:
        x, y = unpack(x, element.bits), unpack(y, element.bits)
    differs = x != y
    nan = np.zeros(x.shape, np.bool_)
    if element.is_float:
        nan = y == y.dtype.type(_EXACT_NAN_F64 if element.bits == 64 else canonical_nan(element))
        nan[differs] |= is_nan(x[differs], element) | is_nan(y[differs], element)
    far = differs & ~nan
    largest = int(ulp_distance(x[far], y[far], element).max()) if far.any() else 0
    error = deviation(numbers(x, element), numbers(y, element))
    return Distance(x.size, int(differs.sum()), int(nan.sum()), largest, (element.name,), error)


def joined(parts: list[Distance]) -> Distance:
    """The distance of several parts or arrays together."""
    largest = [part.largest_ulp for part in parts]
    return Distance(
        sum(part.elements for part in parts),
        sum(part.differing for part in parts),
        sum(part.nan for part in parts),
        None if None in largest else max((ulp for ulp in largest if ulp is not None), default=0),
        tuple(dict.fromkeys(name for part in parts for name in part.types)),
        None if any(part.error is None for part in parts) else _together(parts),
    )


def _together(parts: list[Distance]) -> Deviation:
    return reduce(add, (part.error for part in parts if part.error is not None), Deviation())
