"""Makes the report of a run from what it computed and what it took."""

from __future__ import annotations

from collections import Counter
from functools import reduce

from isa.forms.mma import is_mma
from isa.forms.record import Unit
from simulator.arithmetic.deviation import Apart
from simulator.arithmetic.rows import INFERRED, sum_row
from simulator.chip.config import Config
from simulator.compiler.timed_code import StallReason
from simulator.execute.dynamic_info import MmaFacts
from simulator.execute.tcgen05.plan import row_of
from simulator.program.lowering import Operation
from simulator.program.program import Program
from simulator.simulation.assumed import assumed_tables, tables_of
from simulator.simulation.demand import Work, multiply_adds, work_of
from simulator.simulation.energy import Counted, Spent, dynamic, limited_clock, over_limit, with_rest
from simulator.simulation.exact import ExactResults
from simulator.simulation.interpreter import Executed
from simulator.simulation.report import Memory, Report, Throughput
from simulator.state.registers import WARP_SIZE
from simulator.state.shared import LINE_BYTES
from simulator.timing.result import Timing

_NO_CONFIG = "none"


def report_of(
    program: Program, config: Config | None, executed: Executed, timing: Timing, exact: ExactResults
) -> Report:
    """The report of a run; without a config the timing is that of nothing."""
    memory = _memory(executed)
    machine = executed.machine
    compared = sum(cta.compared for cta in executed.machines)
    apart = reduce(Apart.__add__, (cta.apart for cta in executed.machines))
    counts: Counter[str] = Counter()
    for op, times in program.operations:
        counts[op.instruction.form.opcode] += times
    fma, performed, matrix = multiply_adds(program, executed)
    throughput, seconds = Throughput(0.0, 0.0, 0.0, 0.0), 0.0
    if config is not None:
        cycles = max(timing.cycles, 1) * program.ctas  # of all SMs together
        seconds = timing.cycles / (config.chip.clock_mhz * 1e6)
        tflops = 2 * fma / (cycles / (config.chip.clock_mhz * 1e6)) / 1e12
        throughput = Throughput(fma / cycles, performed / cycles, tflops, tflops * config.chip.sms)
    spent = None if config is None else _energy(config, program, executed, memory.conflicts, seconds)
    instructions = [(op.instruction, times) for op, times in program.operations]
    chips = 1.0 if config is None else config.chip.sms / program.ctas
    power = spent.nj / 1e9 / seconds * chips if spent is not None and seconds else None
    clock = None if config is None else limited_clock(config, power)
    return Report(
        trace=program.name or str(program.path),
        config=_NO_CONFIG if config is None else config.name,
        config_path="" if config is None else config.own_path,
        config_overrides="" if config is None else config.overridden,
        target=str(machine.target),
        warps=program.warps,
        cycles=timing.cycles,
        time_us=seconds * 1e6,
        instructions=dict(counts.most_common()),
        throughput=throughput,
        memory=memory,
        utilisation={} if config is None else _utilisation(timing, program.ctas, config),
        waits={warp: {wait.name.lower(): row[wait] for wait in StallReason} for warp, row in timing.waits.items()},
        undefined=dict(executed.undefined.most_common()),
        arithmetic=machine.arithmetic,
        largest_ulp=apart.largest_ulp if compared else None,
        instruction_error=apart.error if compared else None,
        compared=compared,
        matrix_instructions=matrix,
        assumed=[*_assumed(config, program, executed), *([] if spent is None else spent.notes)],
        warnings=[
            *executed.warnings,
            *_over(config, power),
            *(["values alone: without a config there are no cycles"] if config is None else _slow(program, config)),
        ],
        skipped_cycles=timing.skipped,
        skipped_turns=executed.skipped,
        arrays=executed.arrays,
        exact=exact.arrays,
        distances=exact.distances,
        exact_left_out=exact.left_out,
        energy=spent,
        ctas=program.ctas,
        chips=chips,
        limited_clock_mhz=clock,
        work=Work() if config is None else work_of(config, instructions, executed.work, memory.bytes, program.ctas),
    )


def _energy(config: Config, program: Program, executed: Executed, conflicts: int, seconds: float) -> Spent | None:
    """What the run cost; None for a config without [energy]."""
    spent = dynamic(config, Counted.of(program, executed, conflicts))
    return None if spent is None else with_rest(config, spent, seconds, program.ctas)


def _over(config: Config | None, power_w: float | None) -> list[str]:
    """A warning about more power than the chip may take, where its energies are not assumed."""
    if config is None or power_w is None or config.status("energy") == "assumed":
        return []
    text = over_limit(config, power_w)
    return [text] if text else []


def _slow(program: Program, config: Config) -> list[str]:
    """What a program uses although the chip has something faster that does the same."""
    forms = dict.fromkeys(op.instruction.form for op, _ in program.operations)
    return [
        f"'{form.opcode}': {note}"
        for form in forms
        if is_mma(form) and form.sorts_metadata(config.target)
        for note in form.notes(config.target)
    ]


def _utilisation(timing: Timing, ctas: int, config: Config) -> dict[str, float]:
    cycles = max(timing.cycles, 1)
    shares = {}
    for core, (issued, busy) in enumerate(zip(timing.issued, timing.busy, strict=True)):
        shares[f"sub-core {core} issue"] = issued / (cycles * config.issue.width)
        shares[f"sub-core {core} tensor"] = busy[Unit.TENSOR] / (cycles * config.sm.tensor_pipes)
        shares[f"sub-core {core} alu"] = busy[Unit.ALU] / cycles
    for core, taken in enumerate(timing.tmem_busy) if any(timing.tmem_busy) else ():
        shares[f"sub-core {core} tensor memory"] = taken / cycles
    for sm, (taken, products) in enumerate(timing.tcgen05_busy) if any(unit for unit, _ in timing.tcgen05_busy) else ():
        name = f"SM {sm} tcgen05" if ctas > 1 else "tcgen05"
        shares[name], shares[f"{name} products"] = taken / cycles, products / cycles
    shares["shared memory"] = timing.shared_busy / cycles
    return shares | ({"path to L2": timing.memory_busy / cycles} if timing.memory_busy else {})


def _memory(executed: Executed) -> Memory:
    accesses = moved = wavefronts = needed = 0
    for group in executed.groups:
        for index, executions in group.wavefronts.items():
            op = group.code.items[index]
            assert isinstance(op, Operation)
            assert op.instruction.form.access is not None
            each, warps = op.instruction.form.access.bytes, len(group.warps)
            lanes = {(WARP_SIZE,) * warps: executions.count}
            if index in group.lanes:  # a guard left threads out
                lanes = group.lanes[index].totals()
            for row, times in lanes.items():
                sizes = [threads * each for threads in row if threads]
                accesses, moved = accesses + times * len(sizes), moved + times * sum(sizes)
                needed += times * sum(-(-size // LINE_BYTES) for size in sizes)
            wavefronts += sum(times * sum(row) for row, times in executions.totals().items())
    return Memory(accesses, moved, wavefronts, max(wavefronts - needed, 0))


def _assumed(config: Config | None, program: Program, executed: Executed) -> list[str]:
    """The assumed config tables and the inferred arithmetic that this run used."""
    machine = executed.machine
    forms = [op.instruction.form for op, _ in program.operations]
    tables = {"issue"} | tables_of(config, forms, executed.work)
    inferred = {}
    for form in forms:
        table = form.time.table
        if is_mma(form):
            if form.a_type.is_float and machine.arithmetic == "chip":
                row = sum_row(form, machine.target)
                if row.evidence == INFERRED:
                    inferred[f"[arithmetic] {row.evidence}: {row.source}"] = True
        elif not form.asynchronous:
            if config is not None and form.time.assumed:
                inferred[f"[{table}] assumed: {form.time.assumed}"] = True
            if config is not None and table == "alu" and any(role.width == 64 for role in form.roles):
                inferred["[alu] assumed: integer arithmetic of 64 bits takes the time of 32 bits"] = True
        elif table == "mbarrier" and config is not None and "_tx." in form.opcode:
            inferred["[mbarrier] assumed: transaction counts take no time of their own"] = True
    if machine.arithmetic == "chip" and (
        kinds := {(fact.kind, fact.sparse) for fact in executed.work if isinstance(fact, MmaFacts)}
    ):
        for kind, sparse in sorted(kinds):
            found_row = row_of(kind, sparse, machine.target)
            if found_row is not None and found_row.evidence == INFERRED:
                inferred[f"[arithmetic] {found_row.evidence}: {found_row.source}"] = True
    if config is None:
        return list(inferred)
    if config.energy is not None:
        tables.add("energy")
    tables.update(config.changed)
    if any(code.loops for code in program.codes):
        tables.add("loop")
    return assumed_tables(config, tables) + list(inferred)
