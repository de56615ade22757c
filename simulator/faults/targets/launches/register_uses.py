"""When a launch without faults reads and writes the registers of its warps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simulator.faults.targets.launches.strikes import needed_by
from simulator.program.kernel import Branch, Exit, Kernel, Operation
from simulator.simulation.launch.meetings import mask_of


class RegisterUses:
    """When each 32-bit word of the registers of a warp is read, and when it is surely overwritten.

    Args:
        kernel: what runs.
        sequences: as `Golden.sequences`.
    """

    def __init__(self, kernel: Kernel, sequences: Sequence[tuple[NDArray[np.intp], NDArray[np.uint32]]]) -> None:
        self.kernel, self.sequences = kernel, sequences
        self._tables: dict[int, tuple[NDArray[np.bool_], NDArray[np.bool_]]] = {}
        self._meets = np.array([isinstance(i, Operation) and _meets(i) for i in kernel.items], np.bool_)
        self.always = set[int]()  # registers that count as read at every time
        parted = np.zeros(len(kernel.items), np.bool_)
        for places, lanes in sequences:
            parted[places[self._meets[places] & (lanes != 0xFFFFFFFF)]] = True
        for item in kernel.items:
            if not isinstance(item, Operation | Branch | Exit):  # which count as no dynamic instructions
                self.always |= set(kernel.numbering.numbers(needed_by(item)))
            if isinstance(item, Operation) and parted[item.index]:
                self.always |= set(kernel.numbering.numbers(item.needs))

    @cached_property
    def _touching(self) -> dict[int, tuple[list[int], list[int]]]:
        """By register, the places of the items that read it, and of those that overwrite it in all threads that execute
        them."""
        found: dict[int, tuple[list[int], list[int]]] = {}
        numbers = self.kernel.numbering.numbers
        for item in self.kernel.items:
            written = item.writes if isinstance(item, Operation) and item.instruction.guard is None else ()
            for side, names in enumerate((needed_by(item), written)):
                for number in numbers(names):
                    found.setdefault(number, ([], []))[side].append(item.index)
        return found

    @cached_property
    def _guarded(self) -> dict[int, list[int]]:
        """By register, the places of the items with guards that write it."""
        found: dict[int, list[int]] = {}
        for item in self.kernel.items:
            if isinstance(item, Operation) and item.instruction.guard is not None:
                for number in self.kernel.numbering.numbers(item.writes):
                    found.setdefault(number, []).append(item.index)
        return found

    def _table(self, number: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which items read a register, and which overwrite it: bool [place]."""
        if number not in self._tables:
            tables = np.zeros((2, len(self.kernel.items)), np.bool_)
            for side, places in enumerate(self._touching.get(number, ((), ()))):
                tables[side, list(places)] = True
            self._tables[number] = tables[0], tables[1]
        return self._tables[number]

    def read(self, warp: int, number: int, lane: int, first: int, last: int) -> bool:
        """Whether anything may see a change of a register in a lane that is made before dynamic instruction `first` of
        the warp, and again before each one below `last`."""
        if number in self.always:
            return True
        reads, writes = self._table(number)
        places, lanes = self.sequences[warp]
        here = lanes >> np.uint32(lane) & np.uint32(1) != 0
        read = reads[places] & (here | self._meets[places])
        if read[first:last].any():
            return True
        final = max(first, min(last, len(places)) - 1)
        seen, lost = np.flatnonzero(read[final:]), np.flatnonzero((writes[places] & here)[final:])
        return bool(len(seen)) and (not len(lost) or int(seen[0]) <= int(lost[0]))

    def touched(self, warp: int, number: int, first: int) -> int:
        """The first dynamic instruction of a warp from `first` on that may read or write a register; the number of all
        if there is none."""
        places = self.sequences[warp][0]
        reads, writes = self._touching.get(number, ([], []))
        table = np.zeros(len(self.kernel.items), np.bool_)
        table[[*reads, *writes, *self._guarded.get(number, [])]] = True
        found = np.flatnonzero(table[places[first:]])
        if number in self.always:
            return first
        return first + int(found[0]) if len(found) else len(places)


def _meets(item: Operation) -> bool:
    """Whether threads of a warp execute an instruction together, so that each may see what others hold."""
    return item.instruction.form.collective or mask_of(item) is not None
