"""The Tensor Memory of a CTA: 128 lanes x 512 columns of 32 bits, and which columns are allocated.

Allocation follows PTX ISA 9.0, 9.7.16.7 (published). Which free columns an allocation gets is not stated; here the
lowest that fit, at a multiple of their number (assumed). What breaks a rule raises `UndefinedBehavior` under either
policy: nothing is known of what a chip does.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from isa.forms.tcgen05_rows import COLUMNS as ALLOCATIONS
from isa.tensor_memory.address import COLUMNS, TMEM_LANES
from isa.types import Bits
from isa.undefined import undefined_behavior

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Allocation:
    """Allocated columns of Tensor Memory, from `base` on, with all their lanes."""

    base: int
    columns: int


class TensorMemory:
    """The cells of a CTA's Tensor Memory, zero until written, and the allocations in it.

    Attributes:
        words: uint32 [lane, column].
        written: bool [lane, column]: whether anything wrote it since its column was last given back.
        allocations: what is allocated now, in order of allocation.
        relinquished: whether the permit to allocate was given up.
        collectors: what the collector buffers of the tensor core hold, by buffer: the operand that filled it.
    """

    def __init__(self) -> None:
        self.words: Bits = np.zeros((TMEM_LANES, COLUMNS), np.uint32)
        self.written = np.zeros((TMEM_LANES, COLUMNS), np.bool_)
        self.allocations: list[Allocation] = []
        self.relinquished = False
        self.collectors: dict[str, tuple[int, ...]] = {}
        self._owned = np.zeros(COLUMNS, np.bool_)
        self._ever = np.zeros(COLUMNS, np.bool_)
        self._smallest_so_far = COLUMNS

    def state(self) -> tuple[object, ...]:
        """All that decides what its users meet from now on."""
        arrays = (self.words, self.written, self._owned, self._ever)
        held = tuple(self.allocations), self.relinquished, tuple(sorted(self.collectors.items())), self._smallest_so_far
        return *held, blake2b(b"".join(array.tobytes() for array in arrays)).digest()

    def allocate(self, columns: int, where: str = "") -> int | None:
        """Allocates `columns` columns and returns the first of them, or None if there is no room now: the instruction
        then waits until another one deallocates."""
        if columns not in ALLOCATIONS:
            raise undefined_behavior("tmem-allocation-size", f"{where}{columns} columns")
        if self.relinquished:
            raise undefined_behavior("tmem-alloc-after-relinquish", f"{where}{columns} columns")
        if columns > self._smallest_so_far:
            raise undefined_behavior(
                "tmem-growing-allocation", f"{where}{columns} columns after an allocation of {self._smallest_so_far}"
            )
        free = ~self._owned.reshape(-1, columns).any(axis=1)
        if not free.any():
            return None
        base = int(free.argmax()) * columns
        self._owned[base : base + columns] = self._ever[base : base + columns] = True
        self.allocations.append(Allocation(base, columns))
        self._smallest_so_far = columns
        return base

    def deallocate(self, base: int, columns: int, where: str = "") -> None:
        """Frees an allocation, which must be named whole."""
        given = Allocation(base, columns)
        if given not in self.allocations:
            allocated = ", ".join(f"{a.columns} columns at {a.base}" for a in self.allocations) or "nothing"
            raise undefined_behavior(
                "tmem-dealloc-mismatch", f"{where}{columns} columns at {base}, while {allocated} is allocated"
            )
        self.allocations.remove(given)
        self._owned[base : base + columns] = False
        self.written[:, base : base + columns] = False

    def relinquish(self) -> None:
        """Gives up the permit to allocate; no allocation may follow."""
        self.relinquished = True

    def read(self, lanes: Places, columns: Places, where: str = "") -> Bits:
        """The uint32 words at the given places (arrays that broadcast)."""
        self.check(lanes, columns, where)
        return self.words[lanes, columns]

    def write(self, lanes: Places, columns: Places, values: Bits, where: str = "") -> None:
        """Writes uint32 words at the given places, which must all be different."""
        self.check(lanes, columns, where)
        self.words[lanes, columns] = values
        self.written[lanes, columns] = True

    def check(self, lanes: Places, columns: Places, where: str = "") -> None:
        """Raises UndefinedBehavior unless every place is in Tensor Memory and its column is allocated."""
        lanes, columns = np.asarray(lanes), np.asarray(columns)
        if not lanes.size or not columns.size:
            return
        if lanes.min() < 0 or lanes.max() >= TMEM_LANES or columns.min() < 0 or columns.max() >= COLUMNS:
            place = f"lanes {lanes.min()} to {lanes.max()}, columns {columns.min()} to {columns.max()}"
            raise undefined_behavior("tmem-bounds", f"{where}{place}")
        missing = ~self._owned[columns]
        if missing.any():
            column = int(np.broadcast_to(columns, missing.shape)[missing].min())
            name = "tmem-use-after-free" if self._ever[column] else "tmem-not-allocated"
            raise undefined_behavior(name, f"{where}column {column}")
