"""Compares what a faulty run of a program stored with what it should have stored: as a matrix of elements, and as the
digits that the neural network predicts if the program is one of its layers.

Rows and columns of a result are the stored arrays in the order of their names, 128 bytes a row (for registers: 32
lanes), as elements of D's type; as 32-bit words where the program's matrix instructions have different types of D.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.types import ELEMENT_TYPES, Bits, ElementType
from simulator.applications.digits import BadInputError, Classifier, plan_that_stores
from simulator.program.data import Array

ROW_BYTES = 128


class Stored:
    """The arrays that a program stores without faults, ready for comparison.

    Args:
        golden: the arrays.
        types: names of the types of D of its matrix instructions, or of what its buffers hold.
        application: whether to look at the neural network, where there is one.
    """

    def __init__(self, golden: dict[str, Array], types: Collection[str], application: bool) -> None:
        self.golden = golden
        self.element: ElementType | None = ELEMENT_TYPES.get(next(iter(types))) if len(types) == 1 else None
        self.width = 4 if self.element is None else self.element.bits // 8
        self.golden_matrix = self.matrix(self.golden)
        self.application = application

    def matrix(self, arrays: dict[str, Array]) -> Bits:
        """Stored arrays as elements, uint32 [row, column]."""
        parts = [np.ascontiguousarray(arrays[name]).view(np.uint8).ravel() for name in sorted(arrays)]
        data = np.concatenate([np.pad(part, (0, -len(part) % ROW_BYTES)) for part in parts])
        return data.view(f"<u{self.width}").astype(np.uint32).reshape(-1, ROW_BYTES // self.width)

    def place(self, row: int, column: int) -> str:
        """Where an element of `matrix` is, in words such as `d[3, 0, 17]`; if the array's element is larger, also which
        of its bytes."""
        offset = row * ROW_BYTES + column * self.width
        for name in sorted(self.golden):
            array = self.golden[name]
            size = -(-array.nbytes // ROW_BYTES) * ROW_BYTES
            if offset < size:
                index, part = np.unravel_index(offset // array.itemsize, array.shape), offset % array.itemsize
                return f"{name}[{', '.join(map(str, map(int, index)))}]" + (f" byte {part}" if part else "")
            offset -= size
        raise AssertionError(f"row {row} is behind the last")

    # The network that the program is a layer of

    @cached_property
    def classifier(self) -> Classifier | None:
        """The classifier of the digits network, if the program is a layer of it."""
        plan = plan_that_stores(self.golden) if self.application else None
        if plan is None:
            return None
        try:
            classifier = Classifier(plan)
            classifier.digits(self.golden)
        except (BadInputError, OSError):
            return None
        return classifier

    @cached_property
    def digits(self) -> NDArray[np.intp]:
        """The digits that the network predicts without faults, [images]."""
        return self.predicted(self.golden)

    def predicted(self, arrays: dict[str, Array]) -> NDArray[np.intp]:
        """The digits predicted from what a run stored, [images]; a NaN counts as infinity, as classify.py reads it."""
        assert self.classifier is not None, "a layer of the network"
        with np.errstate(over="ignore", invalid="ignore"):
            return self.classifier.digits(arrays)

    def changed_classes(self, arrays: dict[str, Array]) -> int:
        """How many images are read as another digit than without faults."""
        return self.classified(arrays)[0]

    def classified(self, arrays: dict[str, Array]) -> tuple[int, int]:
        """How many images are read as another digit than without faults, and how many are read as the digit that they
        show; -1 for both without a network."""
        if self.classifier is None:
            return -1, -1
        found = self.predicted(arrays)
        return int((found != self.digits).sum()), int((found == self.classifier.labels).sum())

    def accuracy(self, arrays: dict[str, Array]) -> float:
        """The share of images that the network recognises from what a run stored."""
        assert self.classifier is not None, "a layer of the network"
        return float((self.predicted(arrays) == self.classifier.labels).mean())


def differing(matrices: Any, golden: Bits) -> NDArray[np.intp]:
    """The numbers of the rows that differ from the golden matrix in any of the results."""
    return np.flatnonzero((matrices != golden).any(axis=(0, 2)))
