"""Watches a run of a kernel for what it may not rely on: registers of products that are used too early, bank conflicts,
and, by those it hands instructions on to, values that nothing has written.

A `Watch` is given to `Run`; it costs time, so only checks have one. Registers must have numbers of their own
(`link(..., allocate=False)`), or one variable would hide another.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from isa.forms.record import Form, Time
from simulator.execute.cta_state import Outcome
from simulator.execute.events import Listener
from simulator.execute.launch_state import LaunchState
from simulator.program.kernel import Item, Operation
from simulator.simulation.launch.accumulators import Accumulators
from simulator.state.registers import WARP_SIZE, Lanes, Warps
from simulator.state.shared import BANK_BYTES, LINE_BYTES


@dataclass
class Met:
    """Something that was met at one place.

    Attributes:
        count: how often (threads, or bytes).
        row, lane: the first warp and lane that met it.
        what: more about it, in words.
    """

    count: int
    row: int
    lane: int
    what: str = ""


class Values(Protocol):
    """Who follows values that nothing has written (`simulator.check.memory_model.taint`)."""

    def before(self, item: Operation, rows: Warps, lanes: Lanes) -> None:
        """Called before threads execute an instruction."""

    def after(self, item: Operation, rows: Warps, lanes: Lanes) -> None:
        """Called after threads executed an instruction."""

    def decides(self, item: Item, rows: Warps, lanes: Lanes) -> None:
        """Called before threads branch, or exit, by a predicate."""


@dataclass
class Watch(Listener):
    """What a run of one batch met.

    Attributes:
        met: by (rule, place of the item).
        wavefronts, least: by place, cycles that shared memory was busy, and how many it would be without conflicts.
        values: who follows values that nothing has written; None: nobody.
    """

    state: LaunchState
    values: Values | None = None
    met: dict[tuple[str, int], Met] = field(default_factory=dict)
    wavefronts: Counter[int] = field(default_factory=Counter)
    least: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._accumulators = Accumulators(self.state.batch.rows, self._note_register)
        self.state.listen(self)

    def undefined(self, cta: int, line: int, name: str, count: int, where: str, *, rule: str) -> None:
        """As `Listener.undefined`; the line is the place of the item."""
        self.note(rule, line, count, -1, -1, where)

    def note(self, rule: str, place: int, count: int, row: int, lane: int, what: str) -> None:
        """Counts something."""
        known = self.met.get((rule, place))
        if known is None:
            self.met[rule, place] = Met(count, row, lane, what)
        else:
            known.count += count

    def _note_register(self, rule: str, item: Operation, row: int, name: str) -> None:
        self.note(rule, item.index, 1, row, 0, name)

    def before(self, item: Operation, rows: Warps, lanes: Lanes) -> None:
        """Called before threads execute an instruction (those that its guard lets through): looks at what it reads."""
        self._accumulators.executed(item, rows)
        if self.values is not None:
            self.values.before(item, rows, lanes)

    def decides(self, item: Item, rows: Warps, lanes: Lanes) -> None:
        """Called before threads branch, or exit, by a predicate."""
        if self.values is not None:
            self.values.decides(item, rows, lanes)

    def after(self, item: Operation, rows: Warps, lanes: Lanes, outcome: Outcome) -> None:
        """Called after threads executed an instruction: what it wrote, and what it cost."""
        if self.values is not None:
            self.values.after(item, rows, lanes)
        if outcome.wavefronts is not None and item.instruction.form.time.table == "shared":
            self.wavefronts[item.index] += int(outcome.wavefronts.sum())
            self.least[item.index] += least_wavefronts(item.instruction.form, lanes)


def least_wavefronts(form: Form, lanes: NDArray[np.bool_]) -> int:
    """Cycles that shared memory is busy with an access of these threads, bool [warp, lane], if no two of them want
    different words of one bank."""
    access = form.access
    assert access is not None
    if access.row_bytes == 16 and form.time is not Time.LOAD and form.fragment is not None:
        return int(lanes.any(axis=1).sum()) * max(access.addresses * 16 // LINE_BYTES, 1)
    group = LINE_BYTES // max(access.bytes, BANK_BYTES)
    parts = lanes.reshape(len(lanes), -1, min(group, WARP_SIZE)) if group <= WARP_SIZE else lanes[:, None]
    return int(parts.any(axis=2).sum())
