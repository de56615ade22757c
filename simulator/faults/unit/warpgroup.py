"""The tensor cores of warpgroups, one of which has a fault: each warp of a `wgmma` computes its own 16 rows of D on the
tensor core of its own sub-core."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from isa.forms.wgmma import WgmmaForm
from isa.fragments.warpgroup import ROWS, WARPS
from isa.types import Bits
from simulator.arithmetic import Operands, Sum
from simulator.arithmetic.anatomy import sums_on_unit
from simulator.arithmetic.disturbance import disturbed
from simulator.execute.wgmma import TensorCores
from simulator.faults.unit.rows import SELECTOR_INPUT, disturbance, selectors
from simulator.state.registers import Warps


class Fault(Protocol):
    """What is known of the fault."""

    row: Any
    changed: bool

    def strikes(self, warps: Warps, /) -> NDArray[np.bool_]:
        """Which warps are on the struck sub-core."""


class StruckCores(TensorCores):
    """Tensor cores of which one has a fault."""

    def __init__(self, fault: Fault) -> None:
        self._fault, self._rows = fault, np.array([fault.row])

    def codes(self, form: WgmmaForm, warps: Warps, words: Bits, selector: int) -> Bits:
        codes = super().codes(form, warps, words, selector)
        if int(self._fault.row["site"]) != SELECTOR_INPUT or form.metadata.selectors < 2:
            return codes
        (value,) = selectors(self._rows, selector, form.metadata.selectors).tolist()
        struck = self._fault.strikes(warps).reshape(-1, WARPS)
        self._fault.changed |= bool(struck.any()) and value != selector
        wrong = super().codes(form, warps, words, value)
        return np.where(np.repeat(struck, ROWS, axis=1)[..., None], wrong, codes)

    def add(self, warps: Warps, how: Sum, operands: Operands) -> Bits:
        d = super().add(warps, how, operands)
        group, quarter = np.nonzero(self._fault.strikes(warps).reshape(-1, WARPS))
        position = int(self._fault.row["lane"])
        outside = int(self._fault.row["site"]) == SELECTOR_INPUT or position >= ROWS * how.n
        if outside or not len(group) or not sums_on_unit(how):
            return d
        what = disturbance(np.repeat(self._rows, len(group)), how, group)
        what.row[:] += ROWS * quarter
        patterns, changed = disturbed(how, operands, what)
        d = d.copy()
        d[group, what.row, what.column] = patterns
        self._fault.changed |= bool(changed.any())
        return d
