"""What the engine needs to know of each operation, compiled once from the code and the config."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from isa.forms.mma import MmaForm
from isa.forms.plain import PlainForm
from isa.forms.tcgen05 import FamilyForm, Tcgen05MmaForm
from isa.ptx.instruction import Register, Vector
from simulator.errors import ConfigError
from simulator.execute import dynamic_info as known
from simulator.execute.dynamic_info import Fact, Idle, cycle
from simulator.program.lowering import Code, LoopEnd, Operation
from simulator.state.registers import Numbering
from simulator.timing import sequences_config
from simulator.timing.config import Config
from simulator.timing.tables import kind_of
from simulator.timing.tcgen05 import Cost, cost


class Unit(IntEnum):
    """Units of an SM. Each sub-core has a tensor pipe, an integer pipe, a port to shared memory and a path to its lanes
    of Tensor Memory."""

    TENSOR = 0
    ALU = 1
    SHARED = 2
    BARRIER = 3
    TCGEN05 = 4  # the queue of the SM: tcgen05.mma, cp, shift, commit
    TMEM = 5  # tcgen05.ld, st
    SYNC = 6  # mbarriers, waits, fences: an issue slot, and perhaps a wait
    GLOBAL = 7  # groups of cp.async: an issue slot, and perhaps a wait; accesses to global memory go through the port to shared memory
    FMA = 8  # the second integer pipe of a sub-core: multiply-add, float additions; in sequences alone
    CONTROL = 9  # calls and returns in sequences


class StallReason(IntEnum):
    """Where a warp's cycles go. Those of a warp sum to the cycles of the run.

    Attributes:
        description: what the warp does, or waits for.
    """

    description: str

    ISSUED = 0, "an instruction issued"
    DEPENDENCY = 1, "operand of an unfinished matrix or integer instruction"
    TENSOR = 2, "tensor pipe of the sub-core taken"
    SHARED = 3, "operand on its way from shared memory, or the port to it taken"
    BARRIER = 4, "at a barrier"
    ISSUE = 5, "ready, but another warp of the sub-core issued"
    ALU = 6, "integer pipe taken"
    BRANCH = 7, "end of a loop"
    FINISHED = 8, "program over"
    TCGEN05 = 9, "queue of the tcgen05 unit full"
    TMEM = 10, "tcgen05.ld or st not complete, or the path to Tensor Memory taken"
    MBARRIER = 11, "phase of an mbarrier not complete"
    GLOBAL = 12, "group of copies not complete, or operand on its way from global memory"
    SEQUENCE = 13, "a further machine instruction of the sequence that stands for an instruction issued"

    def __new__(cls, value: int, description: str) -> Self:
        reason = int.__new__(cls, value)
        reason._value_, reason.description = value, description
        return reason


class Job(NamedTuple):
    """One execution of an asynchronous or waiting operation, and what it costs (None: no unit's time)."""

    fact: Fact
    cost: Cost | None


@dataclass(slots=True)
class TimedOperation:
    """One operation with its times.

    Attributes:
        latency: cycles until a dependent instruction can issue (shared memory: from the last wavefront).
        interval: cycles for which the unit takes no other instruction (shared memory: no other of the same warp).
        blocking: whether the warp issues nothing else for `latency` cycles.
        sent: registers that an access to shared memory sends: its addresses, and the values of a store.
        late: cycles that integer results come later to this operation than to others of its unit: from another pipe, or
            to the address of a load that writes the same register.
        name: of the instruction.
        costs: wavefronts of each execution and warp, [execution][warp]; one row where they never change. None but for
            shared memory.
        column: for each warp its place in a row of `costs`.
        sparse: whether it is a sparse matrix instruction.
        result_from, result_until, ports: of its `TensorClass`.
        least: cycles until the warp can issue anything else, whatever that is: `stall` of its `TensorClass`.
        stall: cycles after issue in which the warp issues nothing, itself included, as compiled; the first `held` of
            them for operands of the next instruction, the rest for `cause`.
        compare: cycles from issue to the comparison of the loop's counter, if that comes before the next operation;
            else 0.
        jobs: for each warp the cycle of what its executions do (units TCGEN05, TMEM and SYNC); none for a warp that
            takes an issue slot alone.
        place: the index of its instruction in the code.
        emulated: of an instruction that the chip does not have: what stands for it, and the registers of its operands
            (`sequences.expand`).
        part: whether its instruction has issued already: it is a further one of a sequence.
        early: whether it is such a one that stands in front of the loop in which its instruction is.
        movable: how many such sequences the compiler lets overlap, if it is one of a sequence that it mixes with its
            surroundings; else 0.
        either: whether the compiler may use either integer pipe for it.
    """

    unit: Unit
    latency: int
    interval: int
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    line: int
    blocking: bool = False
    sent: int = 1
    late: int = 0
    name: str = ""
    barrier: tuple[int, int | None] | None = None
    costs: list[list[int]] | None = None
    column: dict[int, int] | None = None
    jobs: dict[int, tuple[Job, ...]] | None = None
    sparse: bool = False
    result_from: int = 0
    result_until: int = 0
    ports: int = 0
    least: int = 1
    stall: int = 1
    held: int = 1
    cause: StallReason = StallReason.ISSUED
    compare: int = 0
    place: int = 0
    emulated: tuple[sequences_config.Sequence, dict[int | str, int]] | None = None
    part: bool = False
    early: bool = False
    movable: int = 0
    either: bool = False

    @property
    def constant(self) -> bool:
        """Whether every execution takes the same time."""
        return self.costs is None or len(self.costs) == 1


@dataclass(slots=True)
class TimedLoop:
    """The end of a loop: back to `start` until `count` runs are done.

    Attributes:
        constant: whether every operation in the body takes the same time in every execution.
        unread: registers that the body loads from shared memory and that it overwrites before it reads them.
    """

    start: int
    count: int
    depth: int
    loop: int
    constant: bool
    unread: tuple[int, ...] = ()


@dataclass(slots=True)
class TimedCode:
    """The program of some warps.

    Attributes:
        inside: for each item, the numbers of the loops around it, outermost first.
        ends: the end of each loop, by its number.
        places: how many items the code had before sequences took the place of some.
    """

    warps: tuple[int, ...]
    items: list[TimedOperation | TimedLoop]
    inside: list[tuple[int, ...]]
    ends: dict[int, TimedLoop]
    places: int = 0

    def __post_init__(self) -> None:
        if not self.places:
            self.places = len(self.items)
            for place, item in enumerate(self.items):
                if isinstance(item, TimedOperation):
                    item.place = place


Facts = Mapping[int, Mapping[int, Sequence[Fact]]]


Costs = Mapping[int, tuple[Sequence[int], NDArray[np.int64]]]


def compile_code(code: Code, config: Config, costs: Costs | None = None, facts: Facts | None = None) -> TimedCode:
    """Looks up the time of every operation; `costs` and `facts` as `bind`, where they are known already.

    Raises:
        ConfigError: an instruction that the config has no time for.
    """
    items: list[TimedOperation | TimedLoop] = []
    for item in code.items:
        if isinstance(item, LoopEnd):
            items.append(TimedLoop(item.start, item.count, item.depth, item.loop, True, unread(items[item.start :])))
        else:
            items.append(_timed(item, config))
    _pipes(items, config)
    ends = {item.loop: item for item in items if isinstance(item, TimedLoop)}
    timed = TimedCode(code.warps, items, nesting(items), ends)
    if costs or facts:
        bind(timed, config, costs or {}, facts or {})
    return timed


def bind(code: TimedCode, config: Config, costs: Costs, facts: Facts) -> None:
    """Fills in what only a run can tell, in place of what was there.

    Args:
        costs: for the index of each operation that uses shared memory: the warps, and wavefronts [execution, warp].
        facts: for the index of each operation of tcgen05, mbarrier, fence and barrier.cluster, and each warp that runs
            it: the facts of its executions, as they came or as a `facts.cycle`. A warp without facts takes an issue
            slot alone.

    Raises:
        ConfigError: the config has no times for them.
        ValueError: a fact that is none of its operation's unit.
    """
    for place, item in enumerate(code.items):
        if isinstance(item, TimedLoop):
            item.constant = all(part.constant for part in code.items[item.start : place])
        elif item.jobs is not None:
            item.jobs, latency = _jobs(item.unit, facts.get(place, {}), config, item.line)
            if item.unit in _TIMED_BY_JOBS:
                item.latency = latency
        elif item.costs is not None:
            warps, table = costs.get(place, ((), _ONE_WAVEFRONT))
            rows = table[:1] if (table == table[:1]).all() else table
            item.costs, item.column = rows.tolist(), {warp: column for column, warp in enumerate(warps)}


def unread(body: Sequence[TimedOperation | TimedLoop]) -> tuple[int, ...]:
    """Registers that are loaded from shared memory in one run of the body and overwritten in the next, and not read
    between."""
    loaded: dict[int, bool] = {}  # by the last that touched it, a load from shared memory
    first: dict[int, bool] = {}  # whether the first that touched it wrote it
    for item in body:
        if isinstance(item, TimedOperation):
            for register in item.reads:
                loaded[register] = False
                first.setdefault(register, False)
            for register in item.writes:
                loaded[register] = item.unit is Unit.SHARED
                first.setdefault(register, True)
    return tuple(register for register, last in loaded.items() if last and first[register])


def nesting(items: list[TimedOperation | TimedLoop]) -> list[tuple[int, ...]]:
    inside: list[list[int]] = [[] for _ in items]
    loops = [(place, item) for place, item in enumerate(items) if isinstance(item, TimedLoop)]
    for end, loop in sorted(loops, key=lambda pair: pair[1].depth):
        for place in range(loop.start, end + 1):
            inside[place].append(loop.loop)
    return [tuple(chain) for chain in inside]


def _timed(op: Operation, config: Config) -> TimedOperation:
    form = op.instruction.form
    if isinstance(form, FamilyForm):
        _check_family(op, form, config)
        unit = Unit.TCGEN05 if form.name in QUEUED else Unit.TMEM if form.name in MOVES else Unit.SYNC
        return asynchronous(unit, {}, config, reads=op.reads, writes=op.writes, line=op.line)
    if isinstance(form, MmaForm):
        found = config.tensor_class(form)
        sequence = config.sequences.find(form) if config.sequences is not None and found is None else None
        if sequence is not None:
            return TimedOperation(Unit.TENSOR, 1, 1, op.reads, op.writes, op.line, emulated=(sequence, _operands(op)))
        if found is None:
            raise ConfigError(
                config.path,
                "tensor",
                f"line {op.line} of the trace: no [[tensor]] class matches '{form.opcode}'",
                _described(form),
            )
        return matrix(form, config, op.reads, op.writes, op.line)
    assert isinstance(form, PlainForm)
    if form.unit == "barrier" and op.barrier is None:  # of the cluster
        return asynchronous(Unit.SYNC, {}, config, reads=op.reads, writes=op.writes, line=op.line)
    if form.unit in ("global", "copies"):
        return _global(op, form, config)
    if op.barrier is not None:
        return TimedOperation(Unit.BARRIER, config.barrier.latency, 1, op.reads, op.writes, op.line, barrier=op.barrier)
    if form.unit == "alu":
        either = form.name in _EITHER
        return TimedOperation(
            Unit.ALU,
            config.alu.latency,
            config.alu.interval,
            op.reads,
            op.writes,
            op.line,
            name=form.name,
            either=either,
        )
    words = max(form.width * form.vector // 32, 1)
    latency = config.shared.latency + (config.shared.register_latency * (words - 1) if form.name == "ld" else 0)
    sent = 1 if op.writes else 1 + words
    late = 0 if set(op.reads).isdisjoint(op.writes) else config.shared.overlap_latency
    return TimedOperation(
        Unit.SHARED,
        latency,
        config.shared.warp_interval,
        op.reads,
        op.writes,
        op.line,
        sent=sent,
        late=late,
        costs=_ONE_WAVEFRONT.tolist(),
        column={},
    )


_MULTIPLIES = ("mad", "mul")  # integer instructions of the pipe that multiplies
_EITHER = ("add", "sub", "mov")  # and of either pipe; all others are of the other one


def _pipes(items: Sequence[TimedOperation | TimedLoop], config: Config) -> None:
    """Says which integer instructions wait for the other pipe: ptxas lets additions alternate between the two."""
    pipes: dict[
        int, bool
    ] = {}  # by the register that an integer instruction wrote last, whether it was in the pipe that multiplies
    for _ in range(2):  # the second time with what the end of a loop leaves
        for item in items:
            if not isinstance(item, TimedOperation):
                continue
            if item.unit is Unit.ALU:
                before = [pipes[register] for register in item.reads if register in pipes]
                ours = item.name in _MULTIPLIES or (item.name in _EITHER and bool(before) and not before[-1])
                item.late = config.alu.change_latency if any(pipe is not ours for pipe in before) else 0
                pipes.update(dict.fromkeys(item.writes, ours))
            else:
                for register in item.writes:
                    pipes.pop(register, None)


def matrix(form: MmaForm, config: Config, reads: tuple[int, ...], writes: tuple[int, ...], line: int) -> TimedOperation:
    """A matrix instruction of the chip, for which the config has a class."""
    found = config.tensor_class(form)
    assert found is not None
    operation = TimedOperation(
        Unit.TENSOR, found.latency, found.interval, reads, writes, line, found.blocking, sparse=found.sparse
    )
    operation.result_from, operation.result_until, operation.ports, operation.least = (
        found.result_from,
        found.result_until,
        found.ports,
        found.stall,
    )
    return operation


def asynchronous(
    unit: Unit,
    facts: Mapping[int, Sequence[Fact]],
    config: Config,
    *,
    reads: tuple[int, ...] = (),
    writes: tuple[int, ...] = (),
    line: int = 0,
) -> TimedOperation:
    """An operation of the units TCGEN05, TMEM or SYNC, by the facts of each warp's executions.

    Raises:
        ConfigError: the config has no times for them.
        ValueError: a fact that is none of this unit's.
    """
    jobs, latency = _jobs(unit, facts, config, line)
    return TimedOperation(unit, latency, 0, reads, writes, line, jobs=jobs)


def _jobs(
    unit: Unit, facts: Mapping[int, Sequence[Fact]], config: Config, line: int
) -> tuple[dict[int, tuple[Job, ...]], int]:
    """What the executions of each warp do, and the shortest time until a result; errors as `asynchronous`."""
    jobs: dict[int, tuple[Job, ...]] = {}
    costs: dict[Fact, Cost | None] = {}
    for warp, executions in facts.items():
        for fact in set(executions) - costs.keys():
            if isinstance(fact, _KNOWN) and not isinstance(fact, FACTS[unit]):
                raise ValueError(
                    f"line {line}: {type(fact).__name__} is no fact of an instruction of the unit {unit.name}"
                )
            try:
                free = isinstance(fact, _WITHOUT_COST) or (
                    isinstance(fact, FACTS[Unit.SYNC]) and config.mbarrier is not None
                )
                costs[fact] = None if free else cost(config, fact)
            except ConfigError as error:
                where = f"line {line} of the trace: " if line else ""
                raise ConfigError(error.path, error.key, where + error.reason, error.legal) from None
        if executions:
            jobs[warp] = tuple(Job(fact, costs[fact]) for fact in cycle(executions))
    latency = min((found.latency for found in costs.values() if found is not None), default=1)
    return jobs, latency


def _operands(op: Operation) -> dict[int | str, int]:
    """The number of the register of each operand: a0, b1, c2, d3, e."""
    found: dict[int | str, int] = {}
    for role, operand in zip(op.instruction.form.roles, op.instruction.operands, strict=False):
        elements = operand.elements if isinstance(operand, Vector) else (operand,)
        for i, element in enumerate(elements):
            for number in Numbering().numbers((str(element),)) if isinstance(element, Register) else ():
                found["e" if role.name == "e" else f"{role.name}{i}"] = number
    return found


QUEUED = ("tcgen05.mma", "tcgen05.cp", "tcgen05.shift", "tcgen05.commit")
MOVES = ("tcgen05.ld", "tcgen05.st", "tcgen05.ld.red")
FACTS: dict[Unit, tuple[type, ...]] = {
    Unit.TCGEN05: (known.MmaFacts, known.CopyFacts, known.ShiftFacts, known.CommitFacts),
    Unit.TMEM: (known.MoveFacts,),
    Unit.SYNC: (known.MoveWaitFacts, known.InitFacts, known.ArriveFacts, known.ExpectFacts, known.WaitFacts),
    Unit.GLOBAL: (known.CommitGroupFacts, known.WaitGroupFacts),
    Unit.SHARED: (known.FetchFacts, known.BulkFacts),
}
_WITHOUT_COST = (Idle, *FACTS[Unit.GLOBAL], *FACTS[Unit.SHARED])
_TIMED_BY_JOBS = (Unit.TCGEN05, Unit.TMEM, Unit.SYNC)  # whose latency is that of what they do
_ONE_WAVEFRONT = np.ones((1, 0), np.int64)
_KNOWN = tuple(kind for kinds in FACTS.values() for kind in kinds)


def _global(op: Operation, form: PlainForm, config: Config) -> TimedOperation:
    """An access to global memory, or what commits and waits for copies."""
    if config.memory is None:
        reason = f"line {op.line} of the trace: {config.name} has no times for '{form.opcode}'"
        raise ConfigError(config.path, "memory", reason, "a config with [memory], such as h100_sxm")
    unit = Unit.GLOBAL if form.unit == "copies" else Unit.SHARED
    made = asynchronous(unit, {}, config, reads=op.reads, writes=op.writes, line=op.line)
    made.latency = config.memory.latency if form.name == "ld" else 1
    return made


def _check_family(op: Operation, form: FamilyForm, config: Config) -> None:
    """ConfigError where the config cannot time the instruction, whatever its operands are."""
    if form.name.startswith("fence"):
        return
    if config.tcgen05 is None and (form.unit != "mbarrier" or config.mbarrier is None):
        reason = f"line {op.line} of the trace: {config.name} has no times for '{form.opcode}'"
        raise ConfigError(config.path, "tcgen05", reason, "a config with [tcgen05], such as b200")
    if config.tcgen05 is not None and isinstance(form, Tcgen05MmaForm) and config.tcgen05.kind(form.kind) is None:
        legal = ", ".join(name for kind in config.tcgen05.kinds for name in kind.kinds)
        raise ConfigError(
            config.path, "tcgen05.kind", f"line {op.line} of the trace: no table for '{form.opcode}'", legal
        )


def _described(form: MmaForm) -> str:
    """What a class for this form would say."""
    kind = f'kinds with "{kind_of(form)}", ' if kind_of(form) else ""
    shape = f"{kind}sparse = {str(form.sparse).lower()}, rows = {form.m}, row_bytes = {form.k_stored * form.a_type.bits // 8}"
    return f"{shape}, inputs with {form.a_type} and {form.b_type}, accumulators with {form.d_type}"
