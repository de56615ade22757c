"""Watches the registers of `wgmma`: who touches them while a product is under way, and products that no fence orders
behind what was done to their registers. PTX ISA 9.0, 9.7.15.7 (wgmma.fence, commit_group, wait_group).

Registers are followed by warp. Values are there at issue in the simulator; on a chip they are not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from isa.forms.record import Time
from isa.ptx.instruction import Immediate, Instruction, register_names
from simulator.program.kernel import Operation
from simulator.state.registers import Warps

Counts = NDArray[np.int64]
Note = Callable[[str, Operation, int, str], None]
"""Tells what was met: rule, item, the first warp, the register and the line of its product."""


class Accumulators:
    """The registers of the products of each warp of a batch.

    A warp's groups are numbered from 0. Of each register it is known in which group the last product that writes or
    reads it is, and how many fences the warp had executed when another instruction touched it last.
    """

    def __init__(self, rows: int, note: Note) -> None:
        self._note = note
        self._committed = np.zeros(rows, np.int64)  # groups
        self._complete = np.zeros(rows, np.int64)
        self._fences = np.zeros(rows, np.int64)
        self._written = self._table(rows)  # the group that writes a register
        self._read = self._table(rows)  # the group that reads it
        self._touched = self._table(rows)  # fences before the last touch
        self._lines: dict[str, int] = {}  # of the last product that names a register
        self._seen = False

    @staticmethod
    def _table(rows: int) -> defaultdict[str, Counts]:
        return defaultdict(lambda: np.full(rows, -1, np.int64))

    def executed(self, item: Operation, rows: Warps) -> None:
        """Called when warps execute an instruction."""
        time, name = item.instruction.form.time, item.instruction.form.name
        self._seen = self._seen or time.table == "wgmma"
        if not self._seen:  # what is touched before the first fence is in order behind it
            return
        if time is Time.WGMMA:
            self._product(item, item.instruction, rows)
        elif name == "wgmma.fence":
            self._fences[rows] += 1
        elif name == "wgmma.commit_group":
            self._committed[rows] += 1
        elif name == "wgmma.wait_group":
            left = item.instruction["groups"]
            assert isinstance(left, Immediate)
            self._complete[rows] = np.maximum(self._complete[rows], self._committed[rows] - left.value)
        else:
            self._other(item, rows)

    def _product(self, item: Operation, instruction: Instruction, rows: Warps) -> None:
        d, a = register_names(instruction["d"]), register_names(instruction["a"])
        a = a if len(a) > 1 else []  # one register is a descriptor
        self._pending(item, a, rows, self._written)
        for name in (*d, *a):
            late = (self._touched[name][rows] == self._fences[rows]) | (self._fences[rows] == 0)
            if late.any():
                self._note("wgmma-unfenced", item, int(rows[late.argmax()]), name)
                break
        for names, table in ((d, self._written), (a, self._read)):
            for name in names:
                table[name][rows] = self._committed[rows]
                self._lines[name] = item.line

    def _other(self, item: Operation, rows: Warps) -> None:
        """An instruction that is not of `wgmma` reads no register that a product writes, and writes none that one reads
        or writes."""
        reads, writes = item.instruction.reads, item.writes
        self._pending(item, (*reads, *writes), rows, self._written)
        self._pending(item, writes, rows, self._read)
        for name in (*reads, *writes):
            self._touched[name][rows] = self._fences[rows]

    def _pending(self, item: Operation, names: Iterable[str], rows: Warps, table: dict[str, Counts]) -> None:
        for name in names:
            if name in table:
                early = (table[name][rows] >= 0) & (table[name][rows] >= self._complete[rows])
                if early.any():
                    self._note("wgmma-pending", item, int(rows[early.argmax()]), f"{name} of line {self._lines[name]}")
                    return
