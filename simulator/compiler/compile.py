"""Turns the flat code of a program into timed code: looks up the time of every operation in the config.

`compile_code` looks up all that follows from the code and the config alone. `bind` adds what only a run of the program
for its values can tell: the wavefronts of accesses to shared memory, and what asynchronous instructions did.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from isa.forms.mma import is_mma
from isa.forms.record import Form, Time, Unit
from isa.forms.tcgen05 import is_tcgen05_mma
from simulator.chip.config import Config
from simulator.chip.sequences import Row
from simulator.compiler.jobs import Executions, asynchronous, jobs_of
from simulator.compiler.matrix import matrix, matrix_of_program
from simulator.compiler.operation_parts import Access, Arithmetic
from simulator.compiler.register_banks import access_banks, odd_banks, operands
from simulator.compiler.timed_code import Periodic, TimedCode, TimedLoop, TimedOperation, nesting, unread
from simulator.errors import ConfigError
from simulator.program.lowering import Code, LoopEnd, Operation

Facts = Mapping[int, Mapping[int, Executions]]
Costs = Mapping[int, Mapping[int, Periodic[int]]]


def compile_code(code: Code, config: Config, costs: Costs | None = None, facts: Facts | None = None) -> TimedCode:
    """Looks up the time of every operation.

    Args:
        code: flat code of some warps.
        config: the chip.
        costs, facts: as for `bind`, where they are known already.

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
        code: the code, which is changed.
        config: the chip.
        costs: for the index of each operation that uses shared memory, and each warp that runs it: the wavefronts of
            its executions.
        facts: for the index of each operation of tcgen05, mbarrier, fence, barrier.cluster and global memory, and each
            warp that runs it: the facts of its executions, all of them or those that repeat. A warp without facts takes
            nothing but an issue slot.

    Raises:
        ConfigError: the config has no times for them.
    """
    for place, item in enumerate(code.items):
        if isinstance(item, TimedLoop):
            continue
        if item.jobs is not None:
            item.jobs, latency = jobs_of(facts.get(place, {}), config, item.line)
            if item.unit in (Unit.TCGEN05, Unit.TMEM, Unit.SYNC):  # which have the latency of what they do
                item.latency = latency
        elif item.costs is not None:
            item.costs = dict(costs.get(place, {}))


def timed_operation(op: Operation, config: Config) -> TimedOperation:
    """One operation with its times.

    Raises:
        ConfigError: the config has no time for it.
    """
    form, time = op.instruction.form, op.instruction.form.time
    if form.behind_issue or time is Time.CLUSTER_BARRIER:
        _check_asynchronous(op, form, config)
        return asynchronous(form.unit, {}, config, reads=op.reads, writes=op.writes, line=op.line)
    if is_mma(form):
        return matrix_of_program(op, form, config)
    if time.table == "memory":
        return _global(op, form, config)
    if time is Time.BARRIER:
        return TimedOperation(Unit.BARRIER, config.barrier.latency, 1, op.reads, op.writes, op.line, barrier=op.barrier)
    if time.table == "alu":
        return _integer(op, form, config)
    return _shared(op, form, config)


def _integer(op: Operation, form: Form, config: Config) -> TimedOperation:
    """The times of an integer or float instruction."""
    return TimedOperation(
        Unit.ALU,
        config.alu.latency,
        config.alu.interval,
        op.reads,
        op.writes,
        op.line,
        operands=operands(op.reads, config),
        arithmetic=Arithmetic(form.time, writes=not form.opcode.startswith("setp")),
    )


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
        access=Access(1 if op.writes else 1 + words, access_banks(op.reads), not op.writes, together),
        forwarding_penalty=0 if set(op.reads).isdisjoint(op.writes) else config.shared.overlap_latency,
        costs={},
    )


def _global(op: Operation, form: Form, config: Config) -> TimedOperation:
    """The times of an access to global memory, or of an instruction that commits or waits for copies."""
    if config.memory is None:
        raise _no_times(op, config, "memory", "h100_sxm")
    timed = asynchronous(form.unit, {}, config, reads=op.reads, writes=op.writes, line=op.line)
    timed.latency = config.memory.latency if form.time is Time.LOAD_GLOBAL else 1
    return timed


def _no_times(op: Operation, config: Config, table: str, other: str) -> ConfigError:
    """An error about an instruction that needs a table which another config has."""
    reason = f"line {op.line}: {config.name} has no times for '{op.instruction.form.opcode}'"
    return ConfigError(config.path, table, reason, f"a config with [{table}], such as {other}")


def _check_asynchronous(op: Operation, form: Form, config: Config) -> None:
    """Raises ConfigError where the config cannot time the instruction, whatever its operands are."""
    if form.time in (Time.FENCE, Time.CLUSTER_BARRIER):
        return
    if form.time.table == "wgmma":
        if config.wgmma is None:
            raise _no_times(op, config, "wgmma", "h100_sxm")
        return
    if config.tcgen05 is None and (form.time is not Time.MBARRIER or config.mbarrier is None):
        raise _no_times(op, config, "tcgen05", "b200")
    if config.tcgen05 is not None and is_tcgen05_mma(form) and config.tcgen05.kind(form.kind) is None:
        legal = ", ".join(name for kind in config.tcgen05.kinds for name in kind.kinds)
        reason = f"line {op.line}: no table for '{form.opcode}'"
        raise ConfigError(config.path, "tcgen05.kind", reason, legal)


def machine_operation(
    row: Row, config: Config, reads: tuple[int, ...], writes: tuple[int, ...], line: int, warps: Iterable[int]
) -> TimedOperation:
    """A machine instruction of a sequence (`[sequences]`) with its times.

    Args:
        row: the instruction.
        config: the chip.
        reads, writes: numbers of its registers.
        line: the line of the trace that it comes from.
        warps: the warps that run it; a shuffle costs each of them one wavefront.
    """
    rules, alu, shared = config.sequences, config.alu, config.shared
    assert rules is not None
    if row.form is not None:
        return matrix(row.form, config, reads, writes, line)
    if row.kind in ("call", "return"):
        cycles = rules.returns if row.kind == "return" and rules.returns else rules.call
        return TimedOperation(Unit.CONTROL, cycles, 1, reads, writes, line, blocking=True)
    if row.kind == "shuffle":  # which takes the way of an access to shared memory
        behind_port = 0 if config.reading_stages else shared.port_cycles
        latency = max(rules.shuffle - behind_port - shared.store_latency, 1)  # from its wavefront
        sent = max(len(reads[:2]), 1) if config.reading_stages else 2
        return TimedOperation(
            Unit.SHARED,
            latency,
            shared.warp_interval,
            reads,
            writes,
            line,
            costs=dict.fromkeys(warps, Periodic((1,))),
            access=Access(sent, odd_banks(reads[:2]), slow=True),
        )
    halves = row.kind == "float" and config.registers.halves
    interval = rules.float_interval if row.kind == "float" and not halves else alu.interval
    return TimedOperation(
        Unit.ALU if row.kind == "alu" else Unit.FMA,
        alu.latency,
        interval,
        reads,
        writes,
        line,
        operands=operands(reads, config),
        arithmetic=Arithmetic(halves=halves, writes=bool(writes)),
    )


def mark_pipes(items: Sequence[TimedOperation | TimedLoop], config: Config) -> None:
    """Gives integer instructions the penalty for an operand from the other integer pipe.

    One pipe multiplies and takes floats, the other has the rest. ptxas lets additions, which both can do, alternate
    between them.
    """
    multiplies: dict[int, bool] = {}  # for each register that an integer instruction wrote last: in the first pipe?
    for _ in range(2):  # the second time with what the end of a loop leaves
        for item in items:
            if not isinstance(item, TimedOperation):
                continue
            if item.arithmetic is not None:
                time = item.arithmetic.time
                before = [multiplies[register] for register in item.reads if register in multiplies]
                alternates = time is Time.EITHER and bool(before) and not before[-1]
                multiplier = time in (Time.MULTIPLY, Time.FLOAT) or alternates
                crosses = any(pipe is not multiplier for pipe in before)
                item.forwarding_penalty = config.alu.change_latency if crosses else 0
                multiplies.update(dict.fromkeys(item.writes, multiplier))
            else:
                for register in item.writes:
                    multiplies.pop(register, None)
