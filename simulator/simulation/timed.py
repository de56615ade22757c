"""What a program takes on a chip: its codes with their times, compiled once, and what a run has found out about
them."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar, cast

from simulator.chip.config import Config
from simulator.compiler.compile import bind, compile_code
from simulator.compiler.timed_code import Periodic, TimedCode
from simulator.errors import ConfigError, TraceError
from simulator.execute.dynamic_info import Fact
from simulator.program.lowering import Code
from simulator.program.program import Program
from simulator.program.reader import load
from simulator.program.shipped import trace_names
from simulator.simulation.executions import Executions
from simulator.simulation.group import Group
from simulator.simulation.interpreter import Executed
from simulator.state.registers import WARP_SIZE

_VALUES_ALONE = "config none: values without time"
Row = TypeVar("Row")


def check_config(program: Program, config: Config) -> None:
    """Errors for what the config's chip cannot run or time.

    Raises:
        TraceError: a CTA that does not fit on the SM, an instruction that the chip does not have.
        ConfigError: an instruction whose time the engine cannot tell.
    """
    _check_room(program, config)
    _check_forms(program, config)
    _check_times(program, config)


def compiled(program: Program, config: Config) -> list[TimedCode]:
    """The codes of a program with the times that do not depend on what it computes; ConfigError for an instruction
    that the config has no time for."""
    return [compile_code(_everywhere(code, program), config) for code in program.codes]


def timed_codes(program: Program, codes: list[TimedCode], executed: Executed, config: Config) -> list[TimedCode]:
    """The compiled codes, with what a run has found out: wavefronts of shared memory, and what asynchronous
    instructions did."""
    for code, timed in zip(program.codes, codes, strict=True):
        bind(timed, config, costs_of(code, executed), _facts(code, program, executed, config))
    return codes


def _check_room(program: Program, config: Config) -> None:
    """TraceError where the CTA does not fit on the config's SM."""
    for what, needs, has in _needs(program, config):
        if needs > has:
            others = _fitting(program, config)
            raise TraceError(
                str(program.path),
                0,
                0,
                f"the trace needs {needs:,} {what}, but {config.label} gives a CTA {has:,}",
                f"at most {has:,}" + (f", such as {', '.join(others)}" if others else ""),
            )


def _needs(program: Program, config: Config) -> tuple[tuple[str, int, int], ...]:
    """What a CTA needs of the SM and what there is: its name, the need, the most."""
    return (
        ("warps", program.warps, config.sm.warps),
        ("bytes of shared memory", program.shared_bytes, config.sm.shared_bytes),
        ("registers", program.warps * program.numbering.words_each * WARP_SIZE, config.sm.registers),
    )


def _fitting(program: Program, config: Config) -> list[str]:
    """Names of the traces beside a trace that comes with tcsim which the config's chip can run."""
    names, folder = trace_names(), program.name.rpartition("/")[0]
    if program.name not in names:
        return []
    return [name for name in names if name.rpartition("/")[0] == folder and _runs(load(name), config)]


def _runs(program: Program, config: Config) -> bool:
    """Whether the chip has the room and the instructions that a program needs."""
    return all(needs <= has for _, needs, has in _needs(program, config)) and all(
        op.instruction.form.supports(config.target) for op, _ in program.operations
    )


def _check_forms(program: Program, config: Config) -> None:
    """TraceError for the first instruction that the config's chip does not have."""
    for op, _ in program.operations:
        form = op.instruction.form
        if not form.supports(config.target):
            reason = f"'{form.opcode}' is not available on {config.target}, the chip of config {config.label}"
            raise TraceError(str(program.path), op.line, 0, reason, f"a config of {form.targets}")


def _check_times(program: Program, config: Config) -> None:
    """ConfigError for the first thing whose time the engine cannot tell."""
    for op, _ in program.operations:
        form, guard = op.instruction.form, op.instruction.guard
        what = ""
        if form.behind_issue:
            what = f"'{form.opcode}'" if "arrive_drop" in form.name else ""
        elif guard is not None and form.time.table not in ("alu", "shared", "memory"):
            what = f"'{form.opcode}' behind {guard}"
        if what:
            raise ConfigError(
                config.path,
                form.time.table,
                f"line {op.line} of {program.path.name}: there is no time for {what}",
                _VALUES_ALONE,
            )


def _everywhere(code: Code, program: Program) -> Code:
    """The code with its warps numbered over all CTAs, as the timing engine numbers them."""
    return replace(code, warps=tuple(code.cta * program.warps + warp for warp in code.warps))


def _facts(code: Code, program: Program, executed: Executed, config: Config) -> dict[int, dict[int, Periodic[Fact]]]:
    """For each operation of a code that has some: the facts of each warp's executions; ConfigError where one fact does
    not say it all."""
    by_index: dict[int, dict[int, Periodic[Fact]]] = {}
    for group in executed.groups:
        for index, executions in group.facts.items() if group.code is code else ():
            if any(fact is None for row in executions.rows for fact in row):
                item = code.items[index]
                reason = (
                    f"line {item.line} of {program.path.name}: there is no time "
                    "for threads of one warp that name different mbarriers"
                )
                raise ConfigError(config.path, "mbarrier", reason, f"one mbarrier for each warp, or {_VALUES_ALONE}")
            known = cast(Executions[tuple[Fact, ...]], executions)
            by_index.setdefault(index, {}).update(_by_warp(group, known, program.warps))
    return by_index


def costs_of(code: Code, executed: Executed) -> dict[int, dict[int, Periodic[int]]]:
    """For each shared-memory operation of a code the wavefronts of each of its warps, numbered over all CTAs."""
    by_index: dict[int, dict[int, Periodic[int]]] = {}
    for group in executed.groups:
        for index, executions in group.wavefronts.items() if group.code is code else ():
            by_index.setdefault(index, {}).update(_by_warp(group, executions, executed.machine.warps))
    return by_index


def _by_warp(group: Group, executions: Executions[tuple[Row, ...]], warps: int) -> dict[int, Periodic[Row]]:
    """The executions of an operation of each warp of a group, by its number over all CTAs of so many warps."""
    rows, prefix = executions.periodic()
    first = group.code.cta * warps
    return {
        first + int(warp): Periodic((entries[0],)) if len(set(entries)) == 1 else Periodic(entries, prefix)
        for warp, entries in zip(group.warps, zip(*rows, strict=True), strict=True)
    }
