"""Runs some CTAs of a kernel, and tells the checks of this package what each warp executes, in that order."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.errors import Error
from isa.forms.record import Space, Time
from isa.forms.synchronisation import is_arrival, is_atomic, is_mbarrier_wait
from isa.ptx.instruction import Address, Immediate, Register
from simulator.execute.dispatch import guarded_lanes
from simulator.execute.operands import place_of
from simulator.program.capture import Capture
from simulator.program.kernel import Operation
from simulator.simulation.launch.interpreter import prepared
from simulator.simulation.launch.run import Run, Step
from simulator.simulation.launch.threads import Group
from simulator.state.registers import WARP_SIZE, Sort
from simulator.studies.mutation.asynchronous import READ_THROUGH_PROXY, USES_CELLS, WarpOrder
from simulator.studies.mutation.clocks import UNIT, CtaOrder, Pair
from simulator.studies.mutation.outcome import fill, setup_of

CTAS = 4  # that are traced, in whole clusters
_WITHIN_CTA = (1 << 24) - 1  # bits of an address within the shared memory of a CTA; PTX: clusters, from bit 24 on
_DESCRIPTOR = (1 << 14) - 1  # bits of a descriptor that hold the address
_ASYNCHRONOUS = ("wgmma.", "tcgen05.", "cp.async.bulk", "cp.reduce.async.bulk")


@dataclass(frozen=True)
class Trace:
    """What is out of order in a run, and the instructions that were executed.

    Attributes:
        pairs: what is missing, with the lines of both sides.
        executed: the lines that any warp came to.
    """

    pairs: frozenset[Pair]
    executed: frozenset[int]


def trace(capture: Capture, budget: int, seed: int = 0) -> Trace:
    """Runs the first CTAs of a launch; a run that fails is traced as far as it comes."""
    kernel, setup = setup_of(capture, budget)
    count = min(setup.geometry.ctas, max(CTAS, int(np.prod(setup.geometry.cluster))))
    state = setup.state(np.arange(count))
    fill(state, np.random.default_rng(seed))
    code = prepared(kernel)
    tracer = _Tracer(state, count, setup.shared_bytes, any(_asynchronous(item) for item in kernel.items))
    for index, item in enumerate(kernel.items):
        if isinstance(item, Operation):
            code.steps[index] = tracer.told(item, code.steps[index])
    with suppress(Error):
        Run(code, state, budget).run()
    return Trace(frozenset(tracer.found()), frozenset(tracer.lines))


def _asynchronous(item: object) -> bool:
    return isinstance(item, Operation) and item.instruction.form.opcode.startswith(_ASYNCHRONOUS)


class _Tracer:
    def __init__(self, state: Any, ctas: int, size: int, asynchronous: bool) -> None:
        self.state, self.warps, self.size = state, state.warps, size
        self.ctas = [CtaOrder(state.warps, size) for _ in range(ctas)] if size else []
        self.warp_orders: dict[int, WarpOrder] = defaultdict(WarpOrder)
        self.asynchronous = asynchronous
        self.lines: set[int] = set()

    def found(self) -> set[Pair]:
        pairs = set().union(*(cta.found for cta in self.ctas)) if self.ctas else set()
        return pairs.union(*(order.found for order in self.warp_orders.values()))

    def told(self, item: Operation, step: Step) -> Step:
        """A step that tells what its warps are about to do."""

        def run(run: Run, group: Group, place: int) -> int:
            self.lines.add(item.line)
            self._execute(item, group)
            return step(run, group, place)

        return run

    def _execute(self, item: Operation, group: Group) -> None:
        rows = group.rows
        lanes = np.ones((len(rows), WARP_SIZE), np.bool_) if group.lanes is None else group.lanes
        guard = item.instruction.guard
        if guard is not None:
            lanes = lanes & guarded_lanes(guard, self.state, rows)
        for row, active in zip(rows.tolist(), lanes, strict=True):
            if self.ctas:
                self.ctas[row // self.warps].begin(row % self.warps)
            if active.any():
                self._warp(item, row, active)

    def _warp(self, item: Operation, row: int, active: NDArray[np.bool_]) -> None:
        form = item.instruction.form
        if self.asynchronous:
            order = self.warp_orders[row]
            if form.time in (Time.BARRIER, Time.CLUSTER_BARRIER, Time.MBARRIER):
                order.meets(item)
            order.execute(item)
            if form.opcode.startswith(USES_CELLS):
                for other in self.warp_orders.values():
                    other.found |= other.suspects if other is not order else set()
        if self.ctas:
            self._through_proxy(item, row, active)
            self._ordered(item, row, active)

    def _through_proxy(self, item: Operation, row: int, active: NDArray[np.bool_]) -> None:
        """Tells of the first 16 bytes that an instruction reads through the asynchronous proxy from each place."""
        opcode, cta = item.instruction.form.opcode, self.ctas[row // self.warps]
        roles = next((roles for name, roles in READ_THROUGH_PROXY.items() if opcode.startswith(name)), ())
        for role in roles:
            operand = item.instruction.by_role.get(role)
            if isinstance(operand, Address) and ".shared" in opcode.partition(".global")[2]:
                begin = self._addresses(item, operand, row)[active][0]
            elif isinstance(operand, Register) and place_of(operand.name).sort is Sort.WIDE:
                begin = (self._read(operand, row)[active][0] & _DESCRIPTOR) << 4
            else:
                continue
            units = np.arange(begin // UNIT, begin // UNIT + 16 // UNIT)
            if units[-1] < cta.count:
                cta.read_through_proxy(item.line, units)

    def _ordered(self, item: Operation, row: int, active: NDArray[np.bool_]) -> None:
        form, cta, warp = item.instruction.form, self.ctas[row // self.warps], row % self.warps
        if form.time is Time.BARRIER:
            cta.arrive(warp, self._number(item, row, active), waits=not is_arrival(form))
            cta.meet(warp)
        elif form.time is Time.CLUSTER_BARRIER:
            cta.arrive(warp, -1, waits="wait" in form.opcode)
        elif form.time is Time.MBARRIER or form.time is Time.COPY_ARRIVAL:
            self._mbarrier(item, row, active)
        elif form.opcode.startswith("fence.proxy.async"):
            cta.fence(warp)
        elif form.opcode.startswith("cp.async.commit"):
            cta.commit(warp)
        elif form.opcode.startswith("cp.async.wait_all"):
            cta.wait_all(warp)
        elif form.opcode.startswith("cp.async.wait_group"):
            operand = item.instruction["groups"]
            cta.wait(warp, operand.value if isinstance(operand, Immediate) else 0)
        elif ("bulk" in form.opcode and "to" in item.instruction.by_role) or form.opcode.startswith("tcgen05.alloc"):
            cta.written_elsewhere()
        elif form.time is Time.COPY or (form.access is not None and form.access.space is Space.SHARED):
            self._access(item, row, active)
        if form.collective or form.time is Time.SHUFFLE or form.opcode.startswith("bar.warp"):
            cta.meet(warp)

    def _number(self, item: Operation, row: int, active: NDArray[np.bool_]) -> int:
        operand = item.instruction["a"]
        if isinstance(operand, Immediate):
            return operand.value
        assert isinstance(operand, Register)
        return int(self._read(operand, row)[active][0])

    def _read(self, register: Register, row: int) -> NDArray[np.int64]:
        """int64 [lane]: a register of a warp."""
        place = place_of(register.name)
        values = self.state.registers.read(np.array([row], np.intp), [place.number], place.sort)
        found: NDArray[np.int64] = values[0, 0].astype(np.int64)
        return found

    def _addresses(self, item: Operation, operand: Address, row: int) -> NDArray[np.int64]:
        base = self._read(operand.base, row) if operand.base is not None else np.zeros(WARP_SIZE, np.int64)
        return (base + operand.offset) & _WITHIN_CTA

    def _mbarrier(self, item: Operation, row: int, active: NDArray[np.bool_]) -> None:
        form, cta, warp = item.instruction.form, self.ctas[row // self.warps], row % self.warps
        operand = item.instruction.by_role.get("address")
        if not isinstance(operand, Address):
            return
        if form.time is Time.COPY_ARRIVAL:
            cta.wait_all(warp)
        for address in np.unique(self._addresses(item, operand, row)[active]).tolist():
            if is_mbarrier_wait(form):
                cta.look(warp, address)
            elif "arrive" in form.opcode:
                cta.release(warp, address)
            self._touch(cta, warp, item.line, address)

    def _touch(self, cta: CtaOrder, warp: int, line: int, address: int) -> None:
        units = np.arange(address // UNIT, address // UNIT + 4)
        if units[-1] < cta.count:
            cta.touched[units] = True

    def _access(self, item: Operation, row: int, active: NDArray[np.bool_]) -> None:
        form, cta, warp = item.instruction.form, self.ctas[row // self.warps], row % self.warps
        copy = form.time is Time.COPY
        access = form.access
        assert access is not None
        operand = item.instruction.by_role.get("to" if copy else "address")
        if not isinstance(operand, Address):
            return
        size = access.row_bytes or access.bytes
        copied = item.instruction.by_role.get("size")
        if copy and isinstance(copied, Immediate):
            size = copied.value
        if access.addresses < WARP_SIZE:
            active = active & (np.arange(WARP_SIZE) < access.addresses)
        addresses = self._addresses(item, operand, row)[active]
        where = addresses[:, None] // UNIT + np.arange(max(size // UNIT, 1))
        units = where.reshape(-1)
        if units.size == 0 or units.min() < 0 or units.max() >= cta.count:
            return
        if copy:
            cta.copy(warp, item.line, np.unique(units))
            return
        matrix = form.name.startswith(("ldmatrix", "stmatrix"))
        lane = np.full(active.sum(), -1) if matrix else np.flatnonzero(active)
        lanes = np.repeat(lane, where.shape[1]).astype(np.int32)
        atomic = is_atomic(form) or form.opcode.startswith("red.")
        writes = access.write or atomic
        cta.access(warp, item.line, units, lanes, writes=writes, atomic=atomic, both=atomic)
