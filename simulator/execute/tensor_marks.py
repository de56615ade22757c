"""Tensor Memory of a launch whose asynchronous operations complete late: which cells an operation still writes or
reads, and which registers loads still fill."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from isa.tensor_memory.address import COLUMNS, TMEM_LANES
from simulator.execute.asynchronous import LOAD, STORE, TENSOR, Pending, TensorCells
from simulator.state.registers import Warps

_MOVES = (LOAD, STORE)


class Owner(Protocol):
    """Who lets operations complete."""

    def complete(self, op: Pending) -> None:
        """Lets an operation be complete now."""

    def touched(self, numbers: NDArray[np.int32], what: str, units: str = ...) -> None:
        """Names an operation that nobody has waited for; see `simulator.state.watched.Watcher`."""


class TensorMarks:
    """The pending operations of a batch by what they touch."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        # by CTA, then by whether they write and whose they are: of a warp's loads and stores, or (-1) of all others
        self._marks: dict[int, dict[tuple[bool, int], NDArray[np.int32]]] = {}
        self._filling: dict[str, list[Pending]] = {}  # by register
        self._open: dict[int, Pending] = {}  # those nobody has waited for, by number

    def begin(self, op: Pending, registers: Iterable[str]) -> None:
        """Takes note of an operation, and of the registers that it fills. What still uses its cells comes before it by
        itself, or nobody has waited for that."""
        for each in op.cells:
            for (writes, _), of_owner in self._marks.get(each.cta, {}).items():
                if not (writes or each.writes):
                    continue
                marks = of_owner[each.cells]
                for number in np.unique(marks[marks > 0]).tolist():
                    other = self._open[number]
                    if ordered(other, op):
                        op.after.append(other)
                    else:
                        self._name(other, int((marks == number).sum()), writes=writes)
        for each in op.cells:
            self._of(op, each)[each.cells] = op.number
            self._open[op.number] = op
        for name in registers:
            self._filling.setdefault(name, []).append(op)

    def earlier(self, op: Pending, pending: Mapping[str, Sequence[Pending]]) -> list[Pending]:
        """What comes before an operation by itself: of a product, a copy or a shift all that its thread has issued
        before it, too."""
        if op.kind != TENSOR:
            return op.after
        own = [each for each in pending.get(TENSOR, ()) if each.number < op.number and _thread(each) == _thread(op)]
        return [*op.after, *own]

    def unmark(self, op: Pending) -> None:
        """Forgets an operation that somebody has waited for."""
        for each in op.cells:
            marks = self._of(op, each)
            marks[each.cells[marks[each.cells] == op.number]] = 0
        self._open.pop(op.number, None)

    def use(self, reads: Iterable[str], writes: Iterable[str], rows: Warps, place: int) -> None:
        """Called before warps use registers at a place: a load that fills one is complete when it is read (PTX ISA 9.0,
        9.7.16.6.4.5), and may come later than what is written there."""
        if not self._filling:
            return
        for op in self._fillers(reads, rows):
            self._owner.complete(op)
        for op in self._fillers(writes, rows):
            if op.place != place:
                self._owner.touched(np.array([op.number], np.int32), "fills", "register")

    def free(self, cta: int) -> None:
        """Called before a CTA gives back columns: names what is under way in its Tensor Memory, and completes it."""
        for op in list(self._open.values()):
            mine = [each for each in op.cells if each.cta == cta]
            if mine:
                self._name(op, sum(each.cells.size for each in mine), writes=any(each.writes for each in mine))
                self._owner.complete(op)

    def _name(self, op: Pending, count: int, *, writes: bool) -> None:
        numbers = np.full(count, op.number, np.int32)
        self._owner.touched(numbers, "writes" if writes else "reads", "cells of Tensor Memory")

    def _of(self, op: Pending, touched: TensorCells) -> NDArray[np.int32]:
        owner = int(op.rows[0, 0]) if op.kind in _MOVES else -1
        marks, key = self._marks.setdefault(touched.cta, {}), (touched.writes, owner)
        if key not in marks:
            marks[key] = np.zeros(TMEM_LANES * COLUMNS, np.int32)
        return marks[key]

    def _fillers(self, registers: Iterable[str], rows: Warps) -> list[Pending]:
        """The loads nobody has waited for that fill one of these registers of warps, in order."""
        found: dict[int, Pending] = {}
        for name in registers:
            ops = self._filling.get(name)
            if ops is not None:
                ops[:] = [op for op in ops if not op.waited.all()]
                found |= {op.number: op for op in ops if op.rows[0, 0] in rows}
                if not ops:
                    del self._filling[name]
        return [found[number] for number in sorted(found)]


def _thread(op: Pending) -> tuple[int, int]:
    return int(op.rows[0, 0]), int(op.lanes[0])


def ordered(first: Pending, second: Pending) -> bool:
    """Whether two operations on the same cells happen in the order of their issue: products, copies and shifts, as
    pipelined pairs of PTX ISA 9.0, 9.7.16.6.2 (`simulator.check` looks closer), and the loads and stores of a warp (PTX
    9.4)."""
    if first.kind == second.kind == TENSOR:
        return True
    return first.kind in _MOVES and second.kind in _MOVES and bool(first.rows[0, 0] == second.rows[0, 0])
