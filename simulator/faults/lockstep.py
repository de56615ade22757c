"""Many faulty runs of a trace at once, beside one without faults: each as the warps that its fault can have touched,
all of them in lock step.

The run without faults takes every warp. A copy takes the warp of its register fault (or all warps, for a fault in
shared memory), from the strike on, and of shared memory the bytes that differ. It is given up, to be run alone, as soon
as an address, a guard or an elected lane differs, or another warp reads what it wrote wrongly; and it is finished when
nothing differs any more. So nothing here need know of errors, races or hangs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from isa.forms.mma import MmaForm, is_mma
from isa.forms.record import Form, Time, Unit
from isa.ptx.instruction import Immediate, Instruction
from isa.types import Bits
from simulator.execute.cta_state import CtaState, Executor, Outcome
from simulator.execute.dispatch import executor, guarded_lanes
from simulator.execute.operands import addresses, reader
from simulator.faults.detectors import ordered
from simulator.faults.injection import FaultInjection
from simulator.faults.program import Program
from simulator.program.data import Array
from simulator.program.lowering import Operation
from simulator.program.program import Program as Trace
from simulator.simulation.group import Group, grouped
from simulator.simulation.observer import Observer
from simulator.state import RegisterFile, SharedMemory
from simulator.state.registers import Warps
from simulator.state.shared import Addresses

ROWS = 256  # warps of copies that run together
EVERY = 24  # dynamic instructions between two looks for copies that are as they should be again
Mask = NDArray[np.bool_]


def can_batch(program: Program) -> bool:
    """Whether a trace is one of warps in lock step: one CTA, no asynchronous instruction, no race."""
    forms = [op.instruction.form for code in program.codes for op in code.operations]
    plain = all(is_mma(form) or _is_plain(form) for form in forms)
    if not plain or program.trace.ctas > 1 or program.golden.executed.undefined["shared-memory-race"]:
        return False
    return len(grouped(program.codes)) == len(program.codes)


def _is_plain(form: Form) -> bool:
    """Whether rows of copies may execute it side by side: it stays in registers or in the CTA's shared memory."""
    if form.unit is Unit.ALU:
        return form.name not in ("mapa", "shfl")
    return form.unit is Unit.BARRIER or form.time is Time.CLUSTER_BARRIER or form.time.table == "shared"


class Copies(CtaState):
    """A CTA whose further rows of registers are warps of copies."""

    row_warp: Warps

    def special(self, name: str, warps: Warps) -> Bits:
        return super().special(name, self.row_warp[warps])

    def synchronise(self, warps: Warps) -> None:
        """Accesses have no history here."""


class Overlay(SharedMemory):
    """Shared memory of the run without faults, and what differs in each copy.

    Attributes:
        own, differs: uint8 and bool [copy, byte]: where a copy differs, what it has there.
        anyone: bool [byte]: whether a copy may differ.
        spread: bool [copy]: whether a warp that is not in a copy has read a byte that differs in it.
    """

    def __init__(self, data: NDArray[np.uint8], warps: int, row_warp: Warps, row_copy: Warps, copies: int) -> None:
        size = -(-len(data) // 4) * 4
        self.data = data.copy()
        self.warps, self.row_warp, self.row_copy = warps, row_warp, row_copy
        self.own = np.empty((copies, size), np.uint8)
        self.differs = np.zeros((copies, size), np.bool_)
        self.anyone = np.zeros(size, np.bool_)
        self.spread = np.zeros(copies, np.bool_)
        self.member = np.zeros((copies, warps), np.bool_)
        self.member[row_copy[warps:], row_warp[warps:]] = True

    def read(self, addresses: Addresses, width: int, warps: Warps) -> tuple[NDArray[np.uint8], int]:
        golden = warps < self.warps
        self._check(addresses[golden], width)
        places = addresses[..., None] + np.arange(width)
        if golden.any() and not golden.all():  # rows of copies have the addresses of their warps
            position = np.zeros(self.warps, np.intp)
            position[warps[golden]] = np.arange(int(golden.sum()))
            found = self.data[places[golden]][position[self.row_warp[warps]]]
        else:
            found = self.data[places]
        touched = self.anyone[places[golden]] if golden.any() else self.anyone[places]
        if touched.any():
            for row in np.flatnonzero(golden):
                seen = self.differs[:, places[row].ravel()].any(axis=1)
                self.spread |= seen & ~self.member[:, warps[row]]
            rows = np.flatnonzero(~golden)
            copy = self.row_copy[warps[rows]][:, None, None]
            found[rows] = np.where(self.differs[copy, places[rows]], self.own[copy, places[rows]], found[rows])
        return found, 0

    def write(self, addresses: Addresses, values: NDArray[np.uint8], warps: Warps) -> int:
        golden = warps < self.warps
        self._check(addresses[golden], values.shape[-1])
        places = addresses[..., None] + np.arange(values.shape[-1])
        right = places[golden]
        self.data[right] = values[golden]
        if self.anyone[right].any():
            self.differs[:, right[self.anyone[right]]] = False
        rows = np.flatnonzero(~golden)
        wrong = values[rows] != self.data[places[rows]]
        some = np.flatnonzero(wrong.any(axis=(1, 2)))
        if len(some):
            rows, wrong = rows[some], wrong[some]
            copy = np.broadcast_to(self.row_copy[warps[rows]][:, None, None], wrong.shape)
            self.own[copy, places[rows]], self.differs[copy, places[rows]] = values[rows], wrong
            self.anyone[places[rows][wrong]] = True
        return 0

    def strike(self, copy: int, strike: FaultInjection) -> None:
        """A fault in a word of one copy."""
        at = slice(4 * strike.word, 4 * strike.word + 4)
        right = self.data[at]
        now = np.where(self.differs[copy, at], self.own[copy, at], right)
        new = np.frombuffer(strike.applied(int.from_bytes(now.tobytes(), "little")).to_bytes(4, "little"), np.uint8)
        self.own[copy, at], self.differs[copy, at] = new, new != right
        self.anyone[at] |= new != right


class LockstepRuns(Observer):
    """Runs of one trace, one for each strike: an observer of the run without faults.

    Attributes:
        alone: bool [copy]: has to be run alone.
        same: bool [copy]: nothing differs at the end.
        illegal, unordered: bool [copy]: metadata that a matrix instruction read held such a code where it differed.
    """

    def __init__(self, program: Program, strikes: Sequence[FaultInjection]) -> None:
        self.program, self.strikes = program, strikes
        trace, count = program.trace, len(strikes)
        owners = [(copy, warp) for copy, strike in enumerate(strikes) for warp in _members(trace, program, strike)]
        self.row_copy = np.array([-1] * trace.warps + [copy for copy, _ in owners], np.intp)
        self.row_warp = np.array([*range(trace.warps), *(warp for _, warp in owners)], np.intp)
        self.rows_of = {copy: np.flatnonzero(self.row_copy == copy) for copy in range(count)}
        registers = RegisterFile(len(self.row_warp), *trace.numbering)
        loaded = program.state
        for bank, source in zip(registers.banks, loaded.registers.banks, strict=True):
            bank[: trace.warps] = source
        registers.written[: trace.warps] = loaded.registers.written
        self.shared = Overlay(loaded.shared.data, trace.warps, self.row_warp, self.row_copy, count)
        self.machine = Copies(
            registers, self.shared, trace.warps, program.target, arithmetic=program.arithmetic, slots=program.slots
        )
        self.machine.row_warp, self.machine.timed = self.row_warp, False
        self.alone, self.begun, self.done = (np.zeros(count, np.bool_) for _ in range(3))
        self.same, self.illegal, self.unordered = (np.zeros(count, np.bool_) for _ in range(3))
        self._starting: dict[tuple[int, int], list[int]] = {}
        for copy, strike in enumerate(strikes):
            self._starting.setdefault((strike.local, strike.first), []).append(copy)
        self._held: dict[int, list[int]] = {}  # by warp, copies whose fault is applied again
        self._chosen: dict[int, Warps] = {}
        self._held_shared: list[int] = []
        self.index: dict[int, int] = {}

    def run(self) -> None:
        """All of them to the end."""
        self.program.run(self, machines=[self.machine])

    # As an observer

    def before(self, machine: CtaState, group: Group, operation: Operation, index: int) -> Executor | None:
        for warp in group.warps.tolist():
            self.index[warp] = index
            for copy in self._starting.get((warp, index), ()):
                self._begin(copy)
            held = self._held.get(warp)
            if held:
                self._hold(warp, held, index)
        self._hold_shared()
        if index % EVERY == EVERY - 1:
            self._retire()
        rows = self._rows(group)
        if len(rows) > len(group.warps):
            rows = self._parted(operation, group, rows)
        if isinstance(operation.instruction.form, MmaForm) and operation.instruction.form.sparse:
            return self._sparse(operation, rows, index)
        run = executor(operation.instruction)
        return lambda _machine, _warps: run(machine, rows)

    def finished(self, machines: list[CtaState]) -> None:
        """Strikes that come behind the last instruction, what holds to the end, and who is as it should be."""
        for copy, strike in enumerate(self.strikes):
            behind = len(self.program.sequences[strike.warp])
            self.index[strike.local] = behind
            if strike.first == behind and not self.begun[copy]:
                self._begin(copy)
        for warp, held in self._held.items():
            self._hold(warp, held, self.index[warp])
        self._hold_shared()
        self.alone |= self.shared.spread
        self._retire(lasting=True)

    def arrays(self, copy: int) -> dict[str, Array]:
        """What `.store` names, of a copy; -1: of the run without faults."""
        machine, rows = self.machine, np.arange(self.program.trace.warps)
        if copy >= 0 and self.begun[copy]:
            rows[self.row_warp[self.rows_of[copy]]] = self.rows_of[copy]
        found: dict[str, Array] = {}
        for store in self.program.trace.stores:
            if store.register is not None:
                found[store.name] = machine.registers.banks[store.sort][
                    rows, store.register : store.register + store.count
                ]
            else:
                assert store.shared is not None, "global and Tensor Memory are not for batches"
                at = slice(store.shared, store.shared + store.count)
                data = self.shared.data[at]
                found[store.name] = (
                    np.where(self.shared.differs[copy, at], self.shared.own[copy, at], data) if copy >= 0 else data
                )
        return found

    # Copies come and go

    def _begin(self, copy: int) -> None:
        """The copy's warps are as they should be up to now; then the fault strikes."""
        strike, rows = self.strikes[copy], self.rows_of[copy]
        registers = self.machine.registers
        for bank in (*registers.banks, registers.written):
            bank[rows] = bank[self.row_warp[rows]]
        self.begun[copy] = True
        self._chosen.clear()
        if strike.site == "registers":
            value = registers.values[rows[0], strike.word, strike.lane]
            registers.values[rows[0], strike.word, strike.lane] = strike.applied(int(value))
            if strike.lasting:
                self._held.setdefault(strike.local, []).append(copy)
        elif strike.site == "shared":
            self.shared.strike(copy, strike)
            if strike.lasting:
                self._held_shared.append(copy)

    def _hold(self, warp: int, held: list[int], index: int) -> None:
        """Applies again what lasts, in the registers of a warp."""
        held[:] = [copy for copy in held if not self.done[copy] and index < self.strikes[copy].last]
        strikes = [self.strikes[copy] for copy in held]
        rows = np.array([self.rows_of[copy][0] for copy in held], np.intp)
        word, lane = (np.array([getattr(strike, name) for strike in strikes], np.intp) for name in ("word", "lane"))
        mask = np.array([strike.mask for strike in strikes], np.uint32)
        target = np.array([(strike.target or 0) & 0xFFFFFFFF for strike in strikes], np.uint32)
        values = self.machine.registers.values
        now = values[rows, word, lane]
        new = now & ~mask | target & mask
        values[rows, word, lane] = new
        for at in np.flatnonzero(now != new):
            strikes[at].changed = True

    def _hold_shared(self) -> None:
        kept = [
            copy
            for copy in self._held_shared
            if not self.done[copy] and self.index[self.strikes[copy].local] < self.strikes[copy].last
        ]
        for copy in kept:
            self.shared.strike(copy, self.strikes[copy])
        self._held_shared = kept

    def _retire(self, lasting: bool = False) -> None:
        """Ends copies in which nothing differs and nothing will."""
        self._leave(np.flatnonzero(self.shared.spread & ~self.done), alone=True)
        for copy in np.flatnonzero(self.begun & ~self.done).tolist():
            strike, rows = self.strikes[copy], self.rows_of[copy]
            if not lasting and self.index[strike.local] < strike.last:
                continue
            banks, warps = self.machine.registers.banks, self.row_warp[rows]
            if (
                all((bank[rows] == bank[warps]).all() for bank in banks if bank.shape[1])
                and not self.shared.differs[copy].any()
            ):
                self.same[copy] = self.done[copy] = True
                self._chosen.clear()
        if lasting:
            self.same |= ~self.begun

    def _leave(self, copies: NDArray[np.intp], *, alone: bool) -> None:
        if len(copies):
            self.done[copies] = True
            self.alone[copies] |= alone
            self.shared.differs[copies] = False
            self._chosen.clear()

    def _rows(self, group: Group) -> Warps:
        """Rows of a group: its warps, then those of copies that are under way."""
        key = id(group)
        if key not in self._chosen:
            live = np.isin(self.row_warp, group.warps) & (self.row_copy >= 0)
            live[self.row_copy >= 0] &= (self.begun & ~self.done)[self.row_copy[self.row_copy >= 0]]
            self._chosen[key] = np.concatenate([group.warps, np.flatnonzero(live)]).astype(np.intp)
        return self._chosen[key]

    def _parted(self, operation: Operation, group: Group, rows: Warps) -> Warps:
        """The rows that go on together: copies whose guard, address or elected lanes differ are left to be run
        alone."""
        machine, instruction = self.machine, operation.instruction
        own = np.searchsorted(group.warps, self.row_warp[rows])  # where the warp of each row is among the first rows
        differ = np.zeros(len(rows), np.bool_)
        if instruction.guard is not None:
            lanes = guarded_lanes(instruction.guard, machine, rows)
            differ |= (lanes != lanes[own]).any(axis=1)
        form = instruction.form
        if form.name in ("ld", "st", "ldmatrix"):
            where = addresses(instruction["address"])(machine, rows)
            differ |= (where != where[own]).any(axis=1)
        elif form.name == "elect":
            mask = reader(instruction["a"])(machine, rows)
            differ |= (mask != mask[own]).any(axis=(1, 2))
        elif isinstance(form, MmaForm) and form.row.scale:
            ids = np.concatenate(
                [reader(instruction[f"{name}_ids"])(machine, rows) for name in ("scale_a", "scale_b")], axis=1
            )
            differ |= (ids != ids[own]).any(axis=(1, 2))
        if not differ.any():
            return rows
        self._leave(np.unique(self.row_copy[rows[differ]]), alone=True)
        return self._rows(group)

    # Sparse instructions: what reads metadata is looked at

    def _sparse(self, operation: Operation, rows: Warps, index: int) -> Executor:
        form, instruction = operation.instruction.form, operation.instruction
        assert isinstance(form, MmaForm)
        selectors = np.full(len(rows), instruction.selector)
        golden = int((self.row_copy[rows] < 0).sum())
        for at in range(golden, len(rows)):
            strike = self.strikes[int(self.row_copy[rows[at]])]
            if strike.site == "selector" and strike.first <= index < strike.last:
                selectors[at] = strike.value
                strike.changed |= strike.value != instruction.selector
        self._look(form, operation, rows, selectors)

        def run(machine: CtaState, _warps: Warps) -> Outcome:
            outcome = Outcome()
            for value in np.unique(selectors).tolist():
                outcome = executor(instruction if value == instruction.selector else with_selector(instruction, value))(
                    machine, rows[selectors == value]
                )
            return outcome

        return run

    def _look(self, form: MmaForm, operation: Operation, rows: Warps, selectors: NDArray[np.int64]) -> None:
        """Detectors: codes that differ from those of the run without faults."""
        words = reader(operation.instruction["e"])(self.machine, rows)[:, 0]
        own = np.zeros(len(self.program.state.registers.values), np.intp)
        first = self.row_copy[rows] < 0
        own[self.row_warp[rows[first]]] = np.flatnonzero(first)
        differ = np.flatnonzero(
            (words != words[own[self.row_warp[rows]]]).any(axis=1) | (selectors != operation.instruction.selector)
        )
        for value in np.unique(selectors[differ]).tolist():
            some = differ[selectors[differ] == value]
            codes = form.metadata.gather(words[some], int(value))
            copies = self.row_copy[rows[some]]
            illegal, unordered = judged(codes, form)
            self.illegal[copies] |= illegal
            self.unordered[copies] |= unordered


def judged(codes: Bits, form: MmaForm) -> tuple[Mask, Mask]:
    """Of codes [case, row, chunk]: whether any is not defined, and whether any does not ascend."""
    return np.asarray((~form.metadata.legal(codes)).any(axis=(1, 2))), ordered(codes, form.metadata.sparsity)


def with_selector(instruction: Instruction, value: int) -> Instruction:
    """The matrix instruction with another sparsity selector."""
    operands = [
        Immediate(value) if role.name == "f" else operand
        for role, operand in zip(instruction.form.roles, instruction.operands, strict=False)
    ]
    return replace(instruction, operands=tuple(operands))


def _members(trace: Trace, program: Program, strike: FaultInjection) -> list[int]:
    """The warps of a copy: those that the fault can touch directly."""
    return [strike.local] if strike.site != "shared" else sorted(program.sequences)
