"""Registers and Tensor Memory whose results of matrix instructions keep their exact values.

A matrix result lies in its cells (a register's lane, a cell of Tensor Memory) as a rounded number and, beside it, as
the exact sum that was rounded. The next matrix instruction that takes the cell as its accumulator goes on from the
exact sum; whatever else reads it gets the rounded number, and whatever else writes it discards the sum. Cells are
rounded when somebody reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.tensor_memory.address import COLUMNS, TMEM_LANES
from isa.types import Bits, ElementType
from simulator.arithmetic.superaccumulator import Digits, Rows, Superaccumulators, digits_of
from simulator.state.registers import WARP_SIZE, Lanes, RegisterFile, Sort, Warps
from simulator.state.tensor_memory import Places, TensorMemory

Mask = NDArray[np.bool_]


class Result(NamedTuple):
    """What a cell holds: elements of a type, and for integers whether they saturate."""

    type: ElementType
    saturate: bool = False


class Sums:
    """The exact sums beside the cells of a memory.

    Attributes:
        parts: elements that a cell has room for.
        results: what cells have held so far; 1 + the index here is a cell's `kind`.
        kind: uint8 [cell]: what it holds; 0: no matrix result.
        pending: bool [cell]: whether the cell's sum is still to be rounded.
    """

    def __init__(self, cells: int, parts: int) -> None:
        self.parts = parts
        self.results: list[Result] = []
        self.kind = np.zeros(cells, np.uint8)
        self.pending = np.zeros(cells, np.bool_)
        self._by_digits: dict[Digits, Superaccumulators] = {}

    def of(self, element: ElementType) -> Superaccumulators:
        """The superaccumulators for results of a type; element `part` of a cell has row cell * parts + part."""
        digits = digits_of(element)
        if digits not in self._by_digits:
            self._by_digits[digits] = Superaccumulators(digits, len(self.kind) * self.parts)
        return self._by_digits[digits]

    def held(self, cells: Rows, element: ElementType) -> Mask:
        """Which of these cells hold results of a type."""
        table = np.array([False, *(result.type == element for result in self.results)])
        return table[self.kind[cells]]

    def keep(self, cells: Rows, result: Result) -> None:
        """Notes that the sums of these cells are their contents now."""
        if result not in self.results:
            self.results.append(result)
        self.kind[cells] = 1 + self.results.index(result)
        self.pending[cells] = True

    def discard(self, cells: Rows) -> None:
        """Notes that something else is in these cells now."""
        self.kind[cells] = 0
        self.pending[cells] = False

    def round(self, cells: Rows) -> Iterator[tuple[Result, Rows, Bits]]:
        """Rounds the sums of cells [cell] that are pending: their type, some of the cells, and the words to write into
        them."""
        kinds = self.kind[cells]
        for kind in np.unique(kinds):
            some, result = cells[kinds == kind], self.results[kind - 1]
            parts = self.parts if result.type.bits == 16 else 1
            rows = some[:, None] * self.parts + np.arange(parts)
            rounded = self.of(result.type).rounded(rows.ravel(), result.type, saturate=result.saturate)
            words = rounded.reshape(rows.shape)
            self.pending[some] = False
            yield result, some, words[:, 0] | words[:, 1] << np.uint32(16) if parts == 2 else words[:, 0]

    def type_of(self, kind: int) -> ElementType | None:
        """The type of a cell's elements, by the cell's kind; None without a matrix result."""
        return self.results[kind - 1].type if kind else None


class CarryingRegisters(RegisterFile):
    """Registers that keep the exact values of matrix results.

    Attributes:
        sums: of the cells (warp * registers + number) * 32 + lane; of 16-bit elements there are two in a cell.
    """

    def __init__(self, warps: int, registers: int, wide: int = 0, predicates: int = 0, halves: int = 0) -> None:
        super().__init__(warps, registers, wide, predicates, halves)
        self.sums = Sums(self.written.size * WARP_SIZE, 2)
        shape = (*self.written.shape, WARP_SIZE)
        self.kind, self._pending = self.sums.kind.reshape(shape), self.sums.pending.reshape(shape)

    def read(self, warps: Warps, registers: Sequence[int], sort: Sort = Sort.WORD) -> NDArray[Any]:
        """As of every register file; results of matrix instructions are rounded."""
        places = warps[:, None], np.asarray(registers, np.intp) + self._first[sort]
        pending = self._pending[places]
        if pending.any():
            self._round(self.cells(*places)[pending])
        return super().read(warps, registers, sort)

    def write(
        self,
        warps: Warps,
        registers: Sequence[int],
        values: NDArray[Any],
        lanes: Lanes | None = None,
        sort: Sort = Sort.WORD,
    ) -> None:
        """As of every register file; the exact values of what is overwritten are discarded."""
        places = warps[:, None], np.asarray(registers, np.intp) + self._first[sort]
        if lanes is not None:
            pending = self._pending[places]
            if pending.any():
                self._round(self.cells(*places)[pending])
        super().write(warps, registers, values, lanes, sort)
        cells = self.cells(*places)
        self.sums.discard(cells if lanes is None else cells[np.broadcast_to(lanes[:, None, :], cells.shape)])

    def keep(self, warps: Warps, numbers: NDArray[np.intp], result: Result) -> None:
        """Notes that the sums of whole registers (of these numbers) are their contents now."""
        places = warps[:, None], numbers
        self.sums.keep(self.cells(*places), result)
        self.written[places] = True

    def cells(self, warps: NDArray[np.intp], numbers: NDArray[np.intp]) -> Rows:
        """The cells [..., lane] of registers, by arrays that broadcast."""
        return self.cell(np.asarray(warps)[..., None], np.asarray(numbers)[..., None], np.arange(WARP_SIZE))

    def cell(self, warps: NDArray[np.intp], numbers: NDArray[np.intp], lanes: Rows) -> Rows:
        """The cells of lanes of registers, by arrays that broadcast."""
        cells: Rows = (warps * self.numbering.total + numbers) * WARP_SIZE + lanes
        return cells

    def settle(self) -> None:
        """Rounds everything that is not rounded yet."""
        self._round(np.flatnonzero(self.sums.pending))

    def _round(self, cells: Rows) -> None:
        for result, some, words in self.sums.round(cells):
            sort = Sort.WIDE if result.type.bits == 64 else Sort.WORD
            register, lane = np.divmod(some, WARP_SIZE)
            warp, number = np.divmod(register, self.numbering.total)
            self.banks[sort][warp, number - self._first[sort], lane] = words


class CarryingTensorMemory(TensorMemory):
    """Tensor Memory that keeps the exact values of matrix results.

    Attributes:
        sums: of the cells lane * 512 + column.
    """

    def __init__(self) -> None:
        super().__init__()
        self.sums = Sums(TMEM_LANES * COLUMNS, 1)

    def read(self, lanes: Places, columns: Places, where: str = "") -> Bits:
        """As of every Tensor Memory; results of matrix instructions are rounded."""
        self.check(lanes, columns, where)
        cells = self.cells(lanes, columns)
        self._round(cells[self.sums.pending[cells]])
        return super().read(lanes, columns, where)

    def write(self, lanes: Places, columns: Places, values: Bits, where: str = "") -> None:
        """As of every Tensor Memory; the exact values of what is overwritten are discarded."""
        super().write(lanes, columns, values, where)
        self.sums.discard(self.cells(lanes, columns))

    def keep(self, lanes: Places, columns: Places, result: Result) -> None:
        """Notes that the sums of these cells are their contents now."""
        self.sums.keep(self.cells(lanes, columns), result)
        self.written[lanes, columns] = True

    @staticmethod
    def cells(lanes: Places, columns: Places) -> Rows:
        """The cells at these places (arrays that broadcast)."""
        return np.asarray(lanes * COLUMNS + columns, np.int64)

    def settle(self) -> None:
        """Rounds everything that is not rounded yet."""
        self._round(np.flatnonzero(self.sums.pending))

    def _round(self, cells: Rows) -> None:
        for _, some, words in self.sums.round(np.unique(cells)):
            self.words.ravel()[some] = words
