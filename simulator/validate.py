"""How far the timing model is from measured streams: the same programs, the same counting.

A uniform stream repeats one matrix instruction in `chains` independent accumulators; each of `warps` warps runs it. Measured and simulated
alike, cycles per instruction are the difference of two runs with different loop counts, so that start and end cancel.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isa import Instruction, MmaForm, mma_form
from isa.instruction import Immediate, Operand, Register, Vector
from simulator.errors import ConfigError
from simulator.resources import folder
from simulator.timing.config import Config
from simulator.timing.engine import simulate
from simulator.timing.model import compile_code
from simulator.trace.linear import linearise
from simulator.trace.program import Block, Repeat, Step
from simulator.validate_tcgen05 import PUBLISHED

BODY = 120  # instructions in the measured loop's body
COUNTS = (9, 25)  # measured loop counts
MEASURED = {"h100_sxm": "h100_uniform.csv"}


@dataclass(frozen=True)
class Row:
    """One measured stream: cycles per instruction and warp."""

    opcode: str
    chains: int
    warps: int
    measured: float
    simulated: float

    @property
    def error(self) -> float:
        """Relative error of the simulation, signed."""
        return self.simulated / self.measured - 1


def uniform(config: Config) -> list[Row]:
    """Every measured uniform stream of the config's chip, simulated.

    Raises:
        ConfigError: nothing was measured on this chip, or the config lacks a form.
    """
    if config.name not in MEASURED:
        raise ConfigError(config.path, "name", f"no measured streams of {config.name} come with tcsim", ", ".join((*MEASURED, *PUBLISHED)))
    simulated: dict[tuple[str, int, int], float] = {}  # forms of one tensor class take the same time
    rows = []
    for opcode, chains, warps, measured in _measured(folder("configs") / "measurements" / MEASURED[config.name]):
        form = mma_form(opcode)
        found = config.tensor_class(form)
        if found is None:
            raise ConfigError(config.path, "tensor", f"no [[tensor]] class matches '{opcode}'", "a class for every measured form")
        key = (found.name, chains, warps)
        if key not in simulated:
            simulated[key] = _cycles(config, form, chains, warps)
        rows.append(Row(opcode, chains, warps, measured, simulated[key]))
    return rows


def _measured(path: Path) -> Iterable[tuple[str, int, int, float]]:
    with path.open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            yield row["ptx"], int(row["chains"]), int(row["warps"]), float(row["cycles_per_instruction_per_warp"])


def stream(form: MmaForm, chains: int) -> tuple[Step, ...]:
    """The body of a uniform stream."""
    return tuple(Step(_instruction(form, number % chains), 1) for number in range(BODY))


def _instruction(form: MmaForm, chain: int) -> Instruction:
    """The form on fixed A, B and metadata registers and the accumulators of this chain."""
    operands: list[Operand] = []
    first = {"a": 0, "b": 8, "c": 20 + 4 * chain, "d": 20 + 4 * chain, "e": 16}
    for role in form.roles:
        if role.name == "f":
            operands.append(Immediate(0))
        elif role.name == "e":
            operands.append(Register(f"%r{first['e']}"))
        else:
            operands.append(Vector(tuple(Register(f"%r{first[role.name] + i}") for i in range(role.count))))
    return Instruction(form, tuple(operands))


def _cycles(config: Config, form: MmaForm, chains: int, warps: int) -> float:
    body = stream(form, chains)
    registers = 20 + 4 * chains
    took = []
    for count in COUNTS:
        block = Block(tuple(range(warps)), (Repeat(count, body, 1),), 1)
        timed = compile_code(linearise(block), config, {})
        took.append(simulate(config, [timed], warps, registers).cycles)
    return (took[1] - took[0]) / ((COUNTS[1] - COUNTS[0]) * BODY)


@dataclass(frozen=True)
class Summary:
    """Errors of a group of rows, as fractions of the measured cycles."""

    group: str
    rows: int
    mean: float
    median: float
    p95: float
    worst: float


def summarise(group: str, rows: list[Row]) -> Summary:
    errors = np.abs([row.error for row in rows])
    return Summary(group, len(rows), float(errors.mean()), float(np.median(errors)), float(np.percentile(errors, 95)), float(errors.max()))


def groups(rows: list[Row]) -> list[Summary]:
    """All rows together, then by form, by chains and by warps."""
    found = [summarise("all", rows)]
    for name in ("opcode", "chains", "warps"):
        for value in dict.fromkeys(getattr(row, name) for row in rows):
            found.append(summarise(f"{name} {value}", [row for row in rows if getattr(row, name) == value]))
    return found
