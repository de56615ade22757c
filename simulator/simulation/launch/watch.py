"""Watches a run of a kernel for what it may not rely on: registers that nothing has written, races, bank conflicts.

A `Watch` is given to `Run`; it costs time, so only checks have one. Registers must have numbers of their own
(`link(..., allocate=False)`), or one variable would hide another.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from isa.forms.record import Form, Time
from isa.ptx.instruction import register_names
from simulator.execute.cta_state import Outcome
from simulator.execute.events import Listener
from simulator.execute.launch_state import LaunchState
from simulator.program.kernel import Operation
from simulator.simulation.launch.accumulators import Accumulators
from simulator.state.registers import WARP_SIZE, Lanes, Warps, register_place
from simulator.state.shared import BANK_BYTES, LINE_BYTES

_ANSWER = "clusterlaunchcontrol.query_cancel"


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


@dataclass
class Watch(Listener):
    """What a run of one batch met.

    Attributes:
        met: by (rule, place of the item).
        wavefronts, least: by place, cycles that shared memory was busy, and how many it would be without conflicts.
    """

    state: LaunchState
    met: dict[tuple[str, int], Met] = field(default_factory=dict)
    wavefronts: Counter[int] = field(default_factory=Counter)
    least: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._written: dict[str, Lanes] = {}
        self._accumulators = Accumulators(self.state.batch.rows, self._note_register)
        self._none = np.zeros((self.state.batch.rows, WARP_SIZE), np.bool_)
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
        instruction = item.instruction
        self._accumulators.executed(item, rows)
        for role, operand in zip(instruction.form.roles, instruction.operands, strict=False):
            if role.output and not _is_address(role.shape.value):
                continue
            for name in register_names(operand):
                self._read(item, name, role.name, rows, lanes)

    def _read(self, item: Operation, name: str, role: str, rows: Warps, lanes: Lanes) -> None:
        if register_place(name) is None:
            return
        missing = lanes & ~self._written.get(name, self._none)[rows]
        if missing.any():
            row = int(missing.any(axis=1).argmax())
            lane = int(missing[row].argmax())
            self.note("read-before-write", item.index, int(missing.sum()), int(rows[row]), lane, f"{role} {name}")

    def after(self, item: Operation, rows: Warps, lanes: Lanes, outcome: Outcome) -> None:
        """Called after threads executed an instruction: what it wrote, and what it cost."""
        if item.instruction.form.opcode.startswith(_ANSWER):  # behind a guard; who was refused does not look at it
            lanes = np.ones_like(lanes)
        for name in item.writes:
            written = self._written.setdefault(name, self._none.copy())
            written[rows] |= lanes
        if outcome.wavefronts is not None and item.instruction.form.time.table == "shared":
            self.wavefronts[item.index] += int(outcome.wavefronts.sum())
            self.least[item.index] += least_wavefronts(item.instruction.form, lanes)


def _is_address(shape: str) -> bool:
    return "address" in shape


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
