"""`simulator.run`: a trace, a config, a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import numpy as np
from numpy.typing import NDArray

from isa.forms.mma import MmaForm
from isa.forms.record import Unit
from simulator.arithmetic.rows import INFERRED, sum_row
from simulator.errors import ConfigError, TraceError, ViewError
from simulator.execute.cta_state import ARITHMETIC
from simulator.execute.dynamic_info import Fact, MmaFacts
from simulator.execute.mma import Policy
from simulator.program.lowering import Code, Operation, linearise
from simulator.program.reader import read_trace
from simulator.program.trace import Trace
from simulator.resources import folder
from simulator.simulation.demand import work_of
from simulator.simulation.interpreter import COMPARED, Executed, execute
from simulator.simulation.report import Memory, Report, Throughput, Work
from simulator.state.registers import WARP_SIZE
from simulator.state.shared import LINE_BYTES
from simulator.timing.config import Config, load_config
from simulator.timing.engine import simulate
from simulator.timing.model import StallReason, TimedCode, compile_code
from simulator.timing.result import Timing
from simulator.timing.tcgen05 import sources

if TYPE_CHECKING:
    from simulator.views.timeline import Timeline

POLICIES = get_args(Policy)
NO_CONFIG = "none"  # the name of no config
Costs = Mapping[int, tuple[Sequence[int], NDArray[np.int64]]]


def run(
    trace: str | Path,
    config: str | Path | Config | None = "h100_sxm",
    *,
    arithmetic: str = "chip",
    undefined: str = "hardware",
    compare: int = COMPARED,
    skip: bool = True,
    timeline: Timeline | None = None,
) -> Report:
    """Runs a trace on one SM of a chip.

    Args:
        trace: path of a trace file, or the name of one that comes with tcsim, e.g. "digits/f16".
        config: name of a config that comes with tcsim, path of a TOML file, or a loaded config; None or "none": values
            alone, as the chips of the trace's own target give them, in no time.
        arithmetic: "chip" (the bits that the chip gives), "exact" (the exact sum, rounded once) or "none" (time alone).
        undefined: "hardware" (what a chip was measured to do, counted in the report) or "raise".
        compare: how many matrix instructions to compare with the exact result.
        skip: whether the timing engine may skip repetitions of a loop; the cycles are the same.
        timeline: gets what happens when, and where the time goes (`simulator.Timeline`); of one run alone.

    Raises:
        TraceError, ConfigError: a trace, its data or a config that cannot be used.
        UndefinedBehavior: under the policy "raise", and for what stops a chip.
        DeadlockError: a barrier that not all warps reach.
        ViewError: a timeline that has been used, or of a run without a config.
    """
    if arithmetic not in ARITHMETIC:
        raise ValueError(f"arithmetic '{arithmetic}' is not known; legal: {', '.join(ARITHMETIC)}")
    if undefined not in POLICIES:
        raise ValueError(f"policy '{undefined}' for undefined behaviour is not known; legal: {', '.join(POLICIES)}")
    if timeline is not None and (timeline.used or config is None or config == NO_CONFIG):
        what = (
            "the timeline is that of another run"
            if timeline.used
            else "a run without a config takes no time that a timeline could show"
        )
        raise ViewError(what, "a new Timeline for each run" if timeline.used else "a config, such as h100_sxm")
    if config is None or config == NO_CONFIG:
        return _values(trace, arithmetic, undefined, compare)
    chip = config if isinstance(config, Config) else load_config(config)
    program = read_trace(find_trace(trace))
    _check_room(program, chip)
    codes = [linearise(block, program.numbering) for block in program.blocks]
    _check_forms(program, codes, chip)
    _check_times(program, codes, chip)
    for code in codes:
        compile_code(code, chip, {})  # finds what the chip cannot run before anything is computed
    executed = execute(
        program, codes, chip.target, arithmetic=arithmetic, undefined=undefined, compare=compare, slots=chip.sm.warps
    )
    costs = [_costs(code, executed) for code in codes]
    facts = [_facts(code, program, executed, chip) for code in codes]
    timed = [
        compile_code(_everywhere(code, program), chip, cost, fact)
        for code, cost, fact in zip(codes, costs, facts, strict=True)
    ]
    recorder = None if timeline is None else timeline.recorder
    timing = simulate(
        chip, timed, program.warps, program.numbering.total, skip=skip, ctas=program.ctas, recorder=recorder
    )
    if timeline is not None:
        timeline.close(str(trace), program, chip, codes, timing)
    return _report(str(trace), program, chip, codes, executed, timing, _memory(codes, costs, executed))


def timed_codes(program: Trace, config: Config) -> list[TimedCode]:
    """The programs of a trace as the engine runs them, for time alone: matrix results are not computed."""
    codes = [linearise(block, program.numbering) for block in program.blocks]
    executed = execute(program, codes, config.target, arithmetic="none", compare=0, slots=config.sm.warps)
    return [
        compile_code(
            _everywhere(code, program), config, _costs(code, executed), _facts(code, program, executed, config)
        )
        for code in codes
    ]


def _values(trace: str | Path, arithmetic: str, undefined: str, compare: int) -> Report:
    """A run without a config."""
    program = read_trace(find_trace(trace))
    codes = [linearise(block, program.numbering) for block in program.blocks]
    executed = execute(program, codes, program.target, arithmetic=arithmetic, undefined=undefined, compare=compare)
    costs = [_costs(code, executed) for code in codes]
    timing = Timing(0, {}, [], [], 0, 0)
    return _report(str(trace), program, None, codes, executed, timing, _memory(codes, costs, executed))


def find_trace(name: str | Path) -> Path:
    """The path itself if such a file exists, else the trace of that name that comes with tcsim."""
    path = Path(name)
    shipped = folder("traces") / f"{name}.trace"
    try:
        return shipped if not path.is_file() and shipped.is_file() else path
    except (OSError, ValueError) as error:
        raise TraceError(
            str(name)[:100],
            0,
            0,
            f"cannot be the name of a file ({error})",
            "the path of a trace, or the name of one that comes along",
        ) from None


def _check_room(trace: Trace, config: Config) -> None:
    """TraceError where the CTA does not fit on the config's SM."""
    for what, needs, has in (
        ("warps", trace.warps, config.sm.warps),
        ("bytes of shared memory", trace.shared_bytes, config.sm.shared_bytes),
        ("registers", trace.warps * trace.numbering.words_each * WARP_SIZE, config.sm.registers),
    ):
        if needs > has:
            raise TraceError(
                str(trace.path),
                0,
                0,
                f"the trace needs {needs:,} {what}, but {config.name} gives a CTA {has:,}",
                f"at most {has:,}",
            )


def _check_forms(trace: Trace, codes: list[Code], config: Config) -> None:
    """TraceError for the first instruction that the config's chip does not have."""
    for op, _ in _operations(codes):
        form = op.instruction.form
        if not form.supports(config.target):
            reason = f"'{form.opcode}' is not available on {config.target}, the chip of config {config.name}"
            raise TraceError(str(trace.path), op.line, 0, reason, f"a config of {form.targets}")


def _check_times(trace: Trace, codes: list[Code], config: Config) -> None:
    """ConfigError for the first thing whose time the engine cannot tell."""
    legal = f"config {NO_CONFIG}: values without time"
    for op, _ in _operations(codes):
        form, guard = op.instruction.form, op.instruction.guard
        what = ""
        if form.asynchronous:
            what = f"'{form.opcode}'" if "arrive_drop" in form.name else ""
        elif guard is not None and form.time.table not in ("alu", "shared", "memory"):
            what = f"'{form.opcode}' behind {guard}"
        if what:
            raise ConfigError(
                config.path, form.time.table, f"line {op.line} of {trace.path.name}: there is no time for {what}", legal
            )


def _everywhere(code: Code, trace: Trace) -> Code:
    """The code with its warps numbered over all CTAs, as the timing engine numbers them."""
    return replace(code, warps=tuple(code.cta * trace.warps + warp for warp in code.warps))


def _facts(code: Code, trace: Trace, executed: Executed, config: Config) -> dict[int, dict[int, list[Fact]]]:
    """For each operation of a code that has some: the facts of each warp's executions; ConfigError where one fact does
    not say it all."""
    found: dict[int, dict[int, list[Fact]]] = {}
    for group in executed.groups:
        for index, rows in group.facts.items() if group.code is code else ():
            for warp, facts in rows.items():
                known = [fact for fact in facts if fact is not None]
                if len(known) < len(facts):
                    item = code.items[index]
                    reason = f"line {item.line} of {trace.path.name}: there is no time for threads of one warp that name different mbarriers"
                    raise ConfigError(
                        config.path,
                        "mbarrier",
                        reason,
                        f"one mbarrier for each warp, or config {NO_CONFIG}: values without time",
                    )
                found.setdefault(index, {})[code.cta * trace.warps + warp] = known
    return found


def _costs(code: Code, executed: Executed) -> Costs:
    """For each shared-memory operation of a code its warps (numbered over all CTAs) and their wavefronts, groups put
    together."""
    groups = [group for group in executed.groups if group.code is code]
    first = code.cta * executed.machine.warps
    warps = [first + int(warp) for group in groups for warp in group.warps]
    indices = {index for group in groups for index in group.wavefronts}
    return {
        index: (warps, np.concatenate([np.stack(group.wavefronts[index]) for group in groups], axis=1))
        for index in indices
    }


def _report(
    name: str,
    trace: Trace,
    config: Config | None,
    codes: list[Code],
    executed: Executed,
    timing: Timing,
    memory: Memory,
) -> Report:
    machine = executed.machine
    compared = sum(cta.compared for cta in executed.machines)
    counts: Counter[str] = Counter()
    fma = performed = matrix = 0
    for op, times in _operations(codes):
        form = op.instruction.form
        counts[form.opcode] += times
        if isinstance(form, MmaForm):
            fma, performed, matrix = fma + form.fma * times, performed + form.performed_fma * times, matrix + times
    for mma, times in executed.work.items():
        if isinstance(mma, MmaFacts):
            named = mma.m * mma.n * mma.k * times
            fma, performed, matrix = fma + named, performed + (named // 2 if mma.sparse else named), matrix + times
    throughput, seconds = Throughput(0.0, 0.0, 0.0, 0.0), 0.0
    if config is not None:
        cycles = max(timing.cycles, 1) * trace.ctas  # of all SMs together
        seconds = timing.cycles / (config.chip.clock_mhz * 1e6)
        tflops = 2 * fma / (cycles / (config.chip.clock_mhz * 1e6)) / 1e12
        throughput = Throughput(fma / cycles, performed / cycles, tflops, tflops * config.chip.sms)
    return Report(
        trace=name,
        config=NO_CONFIG if config is None else config.name,
        target=str(machine.target),
        warps=trace.warps,
        cycles=timing.cycles,
        time_us=seconds * 1e6,
        instructions=dict(counts.most_common()),
        throughput=throughput,
        memory=memory,
        utilisation={} if config is None else _utilisation(timing, trace.ctas),
        waits={warp: {wait.name.lower(): row[wait] for wait in StallReason} for warp, row in timing.waits.items()},
        undefined=dict(executed.undefined.most_common()),
        arithmetic=machine.arithmetic,
        largest_ulp=max(cta.largest_ulp for cta in executed.machines) if compared else None,
        compared=compared,
        matrix_instructions=matrix,
        assumed=_assumed(config, codes, executed),
        warnings=[
            *executed.warnings,
            *(["values alone: without a config there are no cycles"] if config is None else []),
        ],
        skipped_cycles=timing.skipped,
        arrays=executed.arrays,
        work=Work() if config is None else work_of(config, _operations(codes), executed.work, memory.bytes, trace.ctas),
    )


def _operations(codes: list[Code]) -> list[tuple[Operation, int]]:
    """Every operation with how often it is executed by all of its warps together."""
    return [(op, op.executions * len(code.warps)) for code in codes for op in code.operations]


def _utilisation(timing: Timing, ctas: int) -> dict[str, float]:
    cycles = max(timing.cycles, 1)
    shares = {}
    for core, (issued, busy) in enumerate(zip(timing.issued, timing.busy, strict=True)):
        shares[f"sub-core {core} issue"] = issued / cycles
        shares[f"sub-core {core} tensor"] = busy[Unit.TENSOR] / cycles
        shares[f"sub-core {core} alu"] = busy[Unit.ALU] / cycles
    for core, taken in enumerate(timing.tmem_busy) if any(timing.tmem_busy) else ():
        shares[f"sub-core {core} tensor memory"] = taken / cycles
    for sm, (taken, products) in enumerate(timing.tcgen05_busy) if any(unit for unit, _ in timing.tcgen05_busy) else ():
        name = f"SM {sm} tcgen05" if ctas > 1 else "tcgen05"
        shares[name], shares[f"{name} products"] = taken / cycles, products / cycles
    shares["shared memory"] = timing.shared_busy / cycles
    return shares | ({"path to L2": timing.memory_busy / cycles} if timing.memory_busy else {})


def _memory(codes: list[Code], costs: list[Costs], executed: Executed) -> Memory:
    accesses = moved = wavefronts = needed = 0
    for code, cost in zip(codes, costs, strict=True):
        for index, (warps, table) in cost.items():
            op = code.items[index]
            assert isinstance(op, Operation)
            form = op.instruction.form
            assert form.access is not None
            each = form.access.bytes
            lanes = [group.lanes[index] for group in executed.groups if group.code is code and index in group.lanes]
            if lanes:  # a guard left threads out
                bytes_moved = np.concatenate([np.stack(rows).ravel() for rows in lanes]) * each
                accesses, moved, needed = (
                    accesses + int((bytes_moved > 0).sum()),
                    moved + int(bytes_moved.sum()),
                    needed + _lines(bytes_moved),
                )
            else:
                times = table.shape[0] * len(warps)
                accesses, moved, needed = (
                    accesses + times,
                    moved + times * each * WARP_SIZE,
                    needed + times * -(-each * WARP_SIZE // LINE_BYTES),
                )
            wavefronts += int(table.sum())
    return Memory(accesses, moved, wavefronts, max(wavefronts - needed, 0))


def _lines(sizes: NDArray[np.int64]) -> int:
    """Wavefronts that accesses of these sizes need at least."""
    return int((-(-sizes // LINE_BYTES)).sum())


def _assumed(config: Config | None, codes: list[Code], executed: Executed) -> list[str]:
    """The assumed config tables and the inferred arithmetic that this run used."""
    machine = executed.machine
    tables = {"issue"}
    inferred = {}
    for op, _ in _operations(codes):
        form = op.instruction.form
        if isinstance(form, MmaForm):
            found = config.tensor_class(form) if config is not None else None
            tables |= {f"tensor {found.name}"} if found else {"sequences"}
            if form.a_type.is_float and machine.arithmetic == "chip":
                row = sum_row(form, machine.target)
                if row.evidence == INFERRED:
                    inferred[f"[arithmetic] {row.evidence}: {row.source}"] = True
        elif not form.asynchronous:
            tables |= {form.time.table}
            if config is not None and form.time.table == "alu" and any(role.width == 64 for role in form.roles):
                inferred["[alu] assumed: integer arithmetic of 64 bits takes the time of 32 bits"] = True
        elif form.time.table == "mbarrier":
            tables |= {"mbarrier" if config is not None and config.mbarrier is not None else "tcgen05.mbarrier"}
            if config is not None and "_tx." in form.opcode:
                inferred["[mbarrier] assumed: transaction counts take no time of their own"] = True
    if machine.arithmetic == "chip" and (
        kinds := {(fact.kind, fact.sparse) for fact in executed.work if isinstance(fact, MmaFacts)}
    ):
        from simulator.execute.tcgen05.multiply import row_of

        for kind, sparse in sorted(kinds):
            found_row = row_of(kind, sparse, machine.target)
            if found_row is not None and found_row.evidence == INFERRED:
                inferred[f"[arithmetic] {found_row.evidence}: {found_row.source}"] = True
    if config is None:
        return list(inferred)
    tables.update(table for fact in executed.work for table in sources(config, fact))
    if any(code.loops for code in codes):
        tables.add("loop")
    try:
        return [
            f"[{table}] {config.sources[table]}" for table in sorted(tables) if config.status(table) == "assumed"
        ] + list(inferred)
    except KeyError as error:
        raise ConfigError(config.path, str(error), "no source", "a source for each table") from None
