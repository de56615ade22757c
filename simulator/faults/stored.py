"""What a faulty run of a trace stored, beside what it should have: how much differs, and what that does to the network
that it is part of.

Rows and columns of a result: the stored arrays in the order of their names, 128 bytes a row (of registers: 32 lanes),
as elements of D's type. Where the trace's matrix instructions have different types of D, as 32-bit words; then
`elements` counts bits, and `max_ulp` is -1.
"""

from __future__ import annotations

import importlib.util
import sys
from functools import cached_property, lru_cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.types import ELEMENT_TYPES, Bits, ElementType
from simulator.errors import ConfigError
from simulator.faults import outcomes
from simulator.faults.outcomes import MASKED, SDC, Results, reason
from simulator.faults.program import Program
from simulator.program.data import Array
from simulator.resources import folder

ROW_BYTES = 128


class Stored:
    """The stored arrays of a trace.

    Args:
        application: whether to look at the network, where there is one.
    """

    def __init__(self, program: Program, application: bool) -> None:
        self.program, self.application = program, application

    @property
    def golden(self) -> dict[str, Array]:
        return self.program.golden.executed.arrays

    @cached_property
    def element(self) -> ElementType | None:
        """D's type, if all matrix instructions have the same; None otherwise."""
        types = self.program.golden.d_types
        return ELEMENT_TYPES.get(next(iter(types))) if len(types) == 1 else None

    def matrix(self, arrays: dict[str, Array]) -> Bits:
        """Stored arrays as elements, uint32 [row, column]."""
        width = 4 if self.element is None else self.element.bits // 8
        parts = [np.ascontiguousarray(arrays[name]).view(np.uint8).ravel() for name in sorted(arrays)]
        data = np.concatenate([np.pad(part, (0, -len(part) % ROW_BYTES)) for part in parts])
        return data.view(f"<u{width}").astype(np.uint32).reshape(-1, ROW_BYTES // width)

    @cached_property
    def golden_matrix(self) -> Bits:
        return self.matrix(self.golden)

    def place(self, row: int, column: int) -> str:
        """Where an element of `matrix` is, in words: `d[3, 0, 17]`, and which bytes of the element there, if it is
        larger."""
        width = 4 if self.element is None else self.element.bits // 8
        at = row * ROW_BYTES + column * width
        for name in sorted(self.golden):
            array = self.golden[name]
            size = -(-array.nbytes // ROW_BYTES) * ROW_BYTES
            if at < size:
                index = np.unravel_index(at // array.itemsize, array.shape)
                return f"{name}[{', '.join(map(str, map(int, index)))}]" + (
                    f" byte {at % array.itemsize}" if at % array.itemsize else ""
                )
            at -= size
        raise AssertionError(f"row {row} is behind the last")

    def compare(self, results: Results, at: NDArray[np.intp], arrays: list[dict[str, Array]]) -> None:
        """Fills in rows `at` of the results with what the stored arrays of these runs say."""
        got = np.stack([self.matrix(found) for found in arrays])
        rows = np.flatnonzero((got != self.golden_matrix).any(axis=(0, 2)))  # most rows are right in all
        some = results[at]
        kept = some["reason"]
        some["outcome"], some["reason"] = MASKED, reason("equal")
        if len(rows):
            golden = np.broadcast_to(self.golden_matrix[rows], (len(at), len(rows), got.shape[2]))
            outcomes.compare(some, got[:, rows], golden, self.element or ELEMENT_TYPES["s32"])
            changed = some["outcome"] == SDC
            some["first_row"] = np.where(changed, rows[np.where(changed, some["first_row"], 0)], -1)
            if self.element is None:
                some["elements"] = np.bitwise_count(got[:, rows] ^ golden).sum(axis=(1, 2))
                some["max_ulp"] = np.where(changed, -1, 0)
                some["max_abs"] = some["max_rel"] = some["nonfinite"] = 0
        wrong = some["outcome"] == SDC
        some["reason"] = np.where(wrong, 0, kept)
        if self.classifier is not None:
            some["class_changed"] = [
                int((self.predicted(arrays[i]) != self.digits).sum()) if wrong[i] else 0 for i in range(len(at))
            ]
        results[at] = some

    # The network that the trace is part of

    @cached_property
    def classifier(self) -> Any:
        """The `Classifier` of traces/digits/classify.py, if the trace is one of its; None otherwise."""
        names = {store.name for store in self.program.trace.stores}
        if not self.application or not any(name.startswith("d_") for name in names):
            return None
        module = _classify()
        known = [name for name, plan in module.EVERY.items() if plan.d_key in names]
        try:
            found = module.Classifier(known[0]) if len(known) == 1 else None
            if found is not None:
                found.digits(self.golden)
        except (module.BadInputError, OSError):
            return None
        return found

    @cached_property
    def digits(self) -> NDArray[np.intp]:
        """The digits that the network predicts without faults, [images]; ConfigError if the trace is no layer of
        one."""
        if self.classifier is None:
            raise ConfigError(
                "campaign",
                "subject.path",
                f"{self.program.name} is no layer of the digits network",
                "a trace of traces/digits",
            )
        found: NDArray[np.intp] = self.classifier.digits(self.golden)
        return found

    def predicted(self, arrays: dict[str, Array]) -> NDArray[np.intp]:
        """The digits predicted from what a run stored, [images]; a NaN counts as infinity, as classify.py reads it."""
        with np.errstate(over="ignore", invalid="ignore"):
            found: NDArray[np.intp] = self.classifier.digits(arrays)
        return found

    def accuracy(self, arrays: dict[str, Array] | None = None) -> float:
        """The share of images that the network recognises; without faults, or from what a run stored. Errors as
        `digits`."""
        digits = self.digits if arrays is None else self.predicted(arrays)
        return float((digits == self.classifier.labels).mean())


@lru_cache(maxsize=1)
def _classify() -> ModuleType:
    """traces/digits/classify.py, which is a program beside the traces and in no package."""
    where = folder("traces") / "digits"
    spec = importlib.util.spec_from_file_location("tcsim_digits_classify", where / "classify.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(where))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(where))
    return module
