"""What a program takes on a chip: its codes with their times, compiled once, and what a run has found out about
them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from simulator.errors import ConfigError, TraceError
from simulator.execute.dynamic_info import Fact
from simulator.program.lowering import Code
from simulator.program.program import Program
from simulator.simulation.interpreter import Executed
from simulator.state.registers import WARP_SIZE
from simulator.timing.compile import bind, compile_code
from simulator.timing.config import Config
from simulator.timing.model import TimedCode, by_warp

_VALUES_ALONE = "config none: values without time"
Costs = Mapping[int, tuple[Sequence[int], NDArray[np.int64]]]


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
        costs = {index: by_warp(*table) for index, table in costs_of(code, executed).items()}
        bind(timed, config, costs, _facts(code, program, executed, config))
    return codes


def _check_room(program: Program, config: Config) -> None:
    """TraceError where the CTA does not fit on the config's SM."""
    for what, needs, has in (
        ("warps", program.warps, config.sm.warps),
        ("bytes of shared memory", program.shared_bytes, config.sm.shared_bytes),
        ("registers", program.warps * program.numbering.words_each * WARP_SIZE, config.sm.registers),
    ):
        if needs > has:
            raise TraceError(
                str(program.path),
                0,
                0,
                f"the trace needs {needs:,} {what}, but {config.name} gives a CTA {has:,}",
                f"at most {has:,}",
            )


def _check_forms(program: Program, config: Config) -> None:
    """TraceError for the first instruction that the config's chip does not have."""
    for op, _ in program.operations:
        form = op.instruction.form
        if not form.supports(config.target):
            reason = f"'{form.opcode}' is not available on {config.target}, the chip of config {config.name}"
            raise TraceError(str(program.path), op.line, 0, reason, f"a config of {form.targets}")


def _check_times(program: Program, config: Config) -> None:
    """ConfigError for the first thing whose time the engine cannot tell."""
    for op, _ in program.operations:
        form, guard = op.instruction.form, op.instruction.guard
        what = ""
        if form.asynchronous:
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


def _facts(code: Code, program: Program, executed: Executed, config: Config) -> dict[int, dict[int, list[Fact]]]:
    """For each operation of a code that has some: the facts of each warp's executions; ConfigError where one fact does
    not say it all."""
    by_index: dict[int, dict[int, list[Fact]]] = {}
    for group in executed.groups:
        for index, rows in group.facts.items() if group.code is code else ():
            for warp, facts in rows.items():
                single = [fact for fact in facts if fact is not None]
                if len(single) < len(facts):
                    item = code.items[index]
                    reason = (
                        f"line {item.line} of {program.path.name}: there is no time "
                        "for threads of one warp that name different mbarriers"
                    )
                    raise ConfigError(
                        config.path,
                        "mbarrier",
                        reason,
                        f"one mbarrier for each warp, or {_VALUES_ALONE}",
                    )
                by_index.setdefault(index, {})[code.cta * program.warps + warp] = single
    return by_index


def costs_of(code: Code, executed: Executed) -> Costs:
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
