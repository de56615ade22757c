"""Prepares the code of a program for the timing engine: looks up the time of every operation in the config.

`compile_code` looks up all that follows from the code and the config alone; `bind` adds what only a run for values can
tell: the wavefronts of accesses to shared memory, and what asynchronous instructions did.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from isa.forms.mma import MmaForm, is_mma
from isa.forms.record import Form, Time, Unit
from isa.forms.tcgen05 import is_tcgen05_mma
from isa.ptx.instruction import Register, Vector
from simulator.chip.config import Config
from simulator.chip.tables import kind_of
from simulator.compiler.tcgen05 import Cost, cost
from simulator.compiler.timed_code import Job, Periodic, TimedCode, TimedLoop, TimedOperation, nesting, operand, unread
from simulator.errors import ConfigError
from simulator.execute import dynamic_info as known
from simulator.execute.dynamic_info import Fact, Idle, cycle
from simulator.program.lowering import Code, LoopEnd, Operation
from simulator.state.registers import Numbering

Executions = Sequence[Fact] | Periodic[Fact]  # of one warp: all that it does, or what repeats of it
Facts = Mapping[int, Mapping[int, Executions]]
Costs = Mapping[int, Mapping[int, Periodic[int]]]


def compile_code(code: Code, config: Config, costs: Costs | None = None, facts: Facts | None = None) -> TimedCode:
    """Looks up the time of every operation; `costs` and `facts` as for `bind`, where they are known already.

    Raises:
        ConfigError: an instruction that the config has no time for.
    """
    items: list[TimedOperation | TimedLoop] = []
    for item in code.items:
        if isinstance(item, LoopEnd):
            items.append(TimedLoop(item.start, item.count, item.depth, item.loop, unread(items[item.start :])))
        else:
            items.append(timed_operation(item, config))
    mark_pipes(items, config)
    ends = {item.loop: item for item in items if isinstance(item, TimedLoop)}
    timed = TimedCode(code.warps, items, nesting(items), ends)
    if costs or facts:
        bind(timed, config, costs or {}, facts or {})
    return timed


def bind(code: TimedCode, config: Config, costs: Costs, facts: Facts) -> None:
    """Fills in what only a run can tell, in place of what an earlier run told.

    Args:
        costs: for the index of each operation that uses shared memory, and each warp that runs it: the wavefronts of
            its executions.
        facts: for the index of each operation of tcgen05, mbarrier, fence, barrier.cluster and global memory, and each
            warp that runs it: the facts of its executions, all of them or those that repeat. A warp without facts takes
            nothing but an issue slot.

    Raises:
        ConfigError: the config has no times for them.
        ValueError: a fact that does not belong to the unit of its operation.
    """
    for place, item in enumerate(code.items):
        if isinstance(item, TimedLoop):
            continue
        if item.jobs is not None:
            item.jobs, latency = _jobs(item.unit, facts.get(place, {}), config, item.line)
            if item.unit in _TIMED_BY_JOBS:
                item.latency = latency
        elif item.costs is not None:
            item.costs = dict(costs.get(place, {}))


def timed_operation(op: Operation, config: Config) -> TimedOperation:
    form, time = op.instruction.form, op.instruction.form.time
    if form.asynchronous or time is Time.CLUSTER_BARRIER:
        _check_asynchronous(op, form, config)
        return asynchronous(form.unit, {}, config, reads=op.reads, writes=op.writes, line=op.line)
    if is_mma(form):
        return _matrix(op, form, config)
    if time.table == "memory":
        return _global(op, form, config)
    if time is Time.BARRIER:
        return TimedOperation(Unit.BARRIER, config.barrier.latency, 1, op.reads, op.writes, op.line, barrier=op.barrier)
    if time.table == "alu":
        alu, either = config.alu, time is Time.EITHER
        return TimedOperation(
            Unit.ALU,
            alu.latency,
            alu.interval,
            op.reads,
            op.writes,
            op.line,
            time=time,
            either=either,
            operands=operands(op.reads, config),
            sources=op.reads[:3],
            writer=not form.opcode.startswith("setp"),
        )
    return _shared(op, form, config)


def _shared(op: Operation, form: Form, config: Config) -> TimedOperation:
    """The times of an access to shared memory."""
    assert form.access is not None
    words = max(form.access.bytes // 4, 1)
    latency, together = config.shared.latency, form.time is Time.LOAD
    if together:
        latency += config.shared.register_latency * (words - 1)
    return TimedOperation(
        Unit.SHARED,
        latency,
        config.shared.warp_interval,
        op.reads,
        op.writes,
        op.line,
        sent=1 if op.writes else 1 + words,
        banks=banks(op.reads),
        slow=not op.writes,
        together=together,
        forwarding_penalty=0 if set(op.reads).isdisjoint(op.writes) else config.shared.overlap_latency,
        costs={},
    )


def banks(registers: tuple[int, ...]) -> int:
    """`TimedOperation.banks` of an access that reads this address and stores these values. Several values are in banks
    in turn, as in machine code, where the first of them is even. A load from a constant address reads none."""
    if not registers:
        return 0
    address, *values = registers
    return odd_banks((*(values if len(values) == 1 else range(len(values))), address))


def odd_banks(registers: Iterable[int]) -> int:
    """Bit j, if the jth of these registers is in the bank of odd ones."""
    return _bits(place for place, register in enumerate(registers) if register % 2)


def mark_pipes(items: Sequence[TimedOperation | TimedLoop], config: Config) -> None:
    """Marks the integer instructions that wait for the other integer pipe: ptxas lets additions alternate between
    both."""
    multiplies: dict[int, bool] = {}  # by the register that an integer instruction wrote last, whether in that pipe
    for _ in range(2):  # the second time with what the end of a loop leaves
        for item in items:
            if not isinstance(item, TimedOperation):
                continue
            if item.unit is Unit.ALU:
                before = [multiplies[register] for register in item.reads if register in multiplies]
                alternates = item.either and bool(before) and not before[-1]
                ours = item.time in (Time.MULTIPLY, Time.FLOAT) or alternates
                crosses = any(pipe is not ours for pipe in before)
                item.forwarding_penalty = config.alu.change_latency if crosses else 0
                multiplies.update(dict.fromkeys(item.writes, ours))
            else:
                for register in item.writes:
                    multiplies.pop(register, None)


def _matrix(op: Operation, form: MmaForm, config: Config) -> TimedOperation:
    """The times of an mma: one that the chip has, or one for which ptxas writes a sequence of instructions."""
    if config.tensor_class(form) is not None:
        operation = matrix(form, config, op.reads, op.writes, op.line)
        if operation.even:
            registers = _operands(op)
            operation.operands = tuple(operand(slot, registers[name]) for slot, name in enumerate(("a0", "b0")))
            in_banks(operation, registers["a0"], registers["b0"], registers.get("e", 0))
        return operation
    sequence = config.sequences.find(form) if config.sequences is not None else None
    if sequence is None:
        reason = f"line {op.line} of the trace: no [[tensor]] class matches '{form.opcode}'"
        raise ConfigError(config.path, "tensor", reason, _described(form))
    return TimedOperation(Unit.TENSOR, 1, 1, op.reads, op.writes, op.line, emulated=(sequence, _operands(op)))


def matrix(form: MmaForm, config: Config, reads: tuple[int, ...], writes: tuple[int, ...], line: int) -> TimedOperation:
    """The times of a matrix instruction that the chip has, from its class in the config."""
    tensor = config.tensor_class(form)
    assert tensor is not None
    operation = TimedOperation(
        Unit.TENSOR, tensor.latency, config.interval(tensor), reads, writes, line, tensor.blocking, sparse=tensor.sparse
    )
    operation.integer, operation.large = not form.d_type.is_float, tensor.large
    operation.reading = config.reading(tensor)
    operation.result_from, operation.result_until = tensor.result_from, tensor.result_until
    operation.ports, operation.spare, operation.port = tensor.ports, tensor.spare, tensor.port
    if config.reading_stages and config.reads_in_banks(tensor):
        operation.a, operation.b = _bits(tensor.a), _bits(tensor.b)
        operation.even, operation.odd = _bits(tensor.even), _bits(tensor.odd)
        operation.late = _bits(cycle + config.reading_stages - 1 for cycle in tensor.late)
        operation.metadata = int(tensor.sparse and bool(tensor.even))
        operation.keeps = _keeps(form)
    faster = min(operation.interval - tensor.interval, 0)
    operation.shortest_stall = max(tensor.stall + faster, 1)  # as ptxas would write it
    return operation


def _keeps(form: MmaForm) -> tuple[int, int]:
    """How many registers A and B have; 0 for a B that ptxas never keeps for the next instruction: that of a sparse form
    with f32 accumulators, or of four registers."""
    count = {role.name: role.count for role in form.roles}
    kept = not form.sparse or (count["b"] <= 2 and str(form.d_type) != "f32")
    return count["a"], count["b"] * kept


def in_banks(operation: TimedOperation, a: int, b: int, metadata: int = 0) -> None:
    """Lets a matrix instruction read A and B, where they are one register each, and its metadata from the banks of
    these registers."""
    alone = operation.even & ~operation.odd
    for cycles, register in ((operation.a, a), (operation.b, b)):
        moved = cycles & alone if register % 2 else 0
        operation.even, operation.odd = operation.even & ~moved, operation.odd | moved
    operation.metadata <<= metadata % 2


def add_to_nothing(operation: TimedOperation) -> None:
    """Lets a matrix instruction read no C, which is RZ in its machine code."""
    read = operation.a | operation.b
    operation.even, operation.odd = operation.even & read, operation.odd & read


def _bits(numbers: Iterable[int]) -> int:
    """A number with these bits."""
    return sum(1 << number for number in numbers)


def operands(registers: Sequence[int], config: Config) -> tuple[int, ...]:
    """The operands of an integer or float instruction of a trace: of two banks in turn, as ptxas would give them
    registers; which bank is the first depends on the first register."""
    if not config.reading_stages:
        return ()
    first = registers[0] if registers else 0
    return tuple(operand(slot, 2 * register + (first + slot) % 2) for slot, register in enumerate(registers[:3]))


def asynchronous(
    unit: Unit,
    facts: Mapping[int, Executions],
    config: Config,
    *,
    reads: tuple[int, ...] = (),
    writes: tuple[int, ...] = (),
    line: int = 0,
) -> TimedOperation:
    """The times of an operation of the units TCGEN05, TMEM or SYNC, from the facts of each warp's executions.

    Raises:
        ConfigError: the config has no times for them.
        ValueError: a fact that does not belong to this unit.
    """
    jobs, latency = _jobs(unit, facts, config, line)
    return TimedOperation(unit, latency, 0, reads, writes, line, jobs=jobs)


def _jobs(
    unit: Unit, facts: Mapping[int, Executions], config: Config, line: int
) -> tuple[dict[int, Periodic[Job]], int]:
    """For each warp what its executions do and cost, and the shortest time until any result; errors as
    `asynchronous`."""
    jobs: dict[int, Periodic[Job]] = {}
    costs: dict[Fact, Cost | None] = {}
    for warp, executions in facts.items():
        if not isinstance(executions, Periodic) and not executions:
            continue
        repeating = executions if isinstance(executions, Periodic) else Periodic(cycle(executions))
        for fact in set(repeating.entries) - costs.keys():
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
        jobs[warp] = Periodic([Job(fact, costs[fact]) for fact in repeating.entries], repeating.prefix)
    latency = min((price.latency for price in costs.values() if price is not None), default=1)
    return jobs, latency


def _operands(op: Operation) -> dict[int | str, int]:
    """The register number of each operand word by its name in sequences: a0, b1, c2, d3, e."""
    registers: dict[int | str, int] = {}
    for role, given in zip(op.instruction.form.roles, op.instruction.operands, strict=False):
        elements = given.elements if isinstance(given, Vector) else (given,)
        for i, element in enumerate(elements):
            for number in Numbering().numbers((str(element),)) if isinstance(element, Register) else ():
                registers["e" if role.name == "e" else f"{role.name}{i}"] = number
    return registers


FACTS: dict[Unit, tuple[type, ...]] = {
    Unit.TCGEN05: (known.MmaFacts, known.CopyFacts, known.ShiftFacts, known.CommitFacts),
    Unit.TMEM: (known.MoveFacts,),
    Unit.SYNC: (
        known.MoveWaitFacts,
        known.InitFacts,
        known.ArriveFacts,
        known.ExpectFacts,
        known.WaitFacts,
        known.PostFacts,
    ),
    Unit.GLOBAL: (known.CommitGroupFacts, known.WaitGroupFacts, known.CopyArriveFacts),
    Unit.SHARED: (known.FetchFacts, known.BulkFacts),
}
_WITHOUT_COST = (Idle, *FACTS[Unit.GLOBAL], *FACTS[Unit.SHARED])
_TIMED_BY_JOBS = (Unit.TCGEN05, Unit.TMEM, Unit.SYNC)  # whose latency is that of what they do
_KNOWN = tuple(kind for kinds in FACTS.values() for kind in kinds)


def _global(op: Operation, form: Form, config: Config) -> TimedOperation:
    """The times of an access to global memory, or of an instruction that commits or waits for copies."""
    if config.memory is None:
        reason = f"line {op.line} of the trace: {config.name} has no times for '{form.opcode}'"
        raise ConfigError(config.path, "memory", reason, "a config with [memory], such as h100_sxm")
    timed = asynchronous(form.unit, {}, config, reads=op.reads, writes=op.writes, line=op.line)
    timed.latency = config.memory.latency if form.time is Time.LOAD_GLOBAL else 1
    return timed


def _check_asynchronous(op: Operation, form: Form, config: Config) -> None:
    """ConfigError where the config cannot time the instruction, whatever its operands are."""
    if form.time in (Time.FENCE, Time.CLUSTER_BARRIER):
        return
    if config.tcgen05 is None and (form.time is not Time.MBARRIER or config.mbarrier is None):
        reason = f"line {op.line} of the trace: {config.name} has no times for '{form.opcode}'"
        raise ConfigError(config.path, "tcgen05", reason, "a config with [tcgen05], such as b200")
    if config.tcgen05 is not None and is_tcgen05_mma(form) and config.tcgen05.kind(form.kind) is None:
        legal = ", ".join(name for kind in config.tcgen05.kinds for name in kind.kinds)
        reason = f"line {op.line} of the trace: no table for '{form.opcode}'"
        raise ConfigError(config.path, "tcgen05.kind", reason, legal)


def _described(form: MmaForm) -> str:
    """The lines that a class for this form would have in a config, for an error."""
    kind = f'kinds with "{kind_of(form)}", ' if kind_of(form) else ""
    shape = (
        f"{kind}sparse = {str(form.sparse).lower()}, rows = {form.m}, "
        f"row_bytes = {form.k_stored * form.a_type.bits // 8}"
    )
    return f"{shape}, inputs with {form.a_type} and {form.b_type}, accumulators with {form.d_type}"
