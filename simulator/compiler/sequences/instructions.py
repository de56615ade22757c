"""The times of the machine instructions in a sequence."""

from __future__ import annotations

from collections.abc import Sequence

from isa.forms.record import Unit
from simulator.chip.config import Config
from simulator.chip.sequences import Row, Sequences
from simulator.compiler.matrix import matrix
from simulator.compiler.operation_parts import Access, Arithmetic
from simulator.compiler.register_banks import odd_banks, operands
from simulator.compiler.timed_code import Periodic, TimedOperation

Registers = tuple[int, ...]


def machine_operation(
    row: Row,
    config: Config,
    rules: Sequences,
    reads: Registers,
    writes: Registers,
    line: int,
    one_wavefront: dict[int, Periodic[int]],
) -> TimedOperation:
    """A machine instruction with its times.

    Args:
        row: the instruction.
        config: the chip.
        rules: its `[sequences]`.
        reads, writes: numbers of its registers.
        line: the line of the trace that it comes from.
        one_wavefront: for each warp, what a shuffle costs: one wavefront.
    """
    if row.form is not None:
        return matrix(row.form, config, reads, writes, line)
    if row.kind == "shuffle":
        return _shuffle(config, rules, reads, writes, line, one_wavefront)
    if row.kind in ("call", "return"):
        return _jump(row, rules, reads, writes, line)
    return _arithmetic(row, config, rules, reads, writes, line)


def one_wavefront(warps: Sequence[int]) -> dict[int, Periodic[int]]:
    """What a shuffle costs each warp."""
    return dict.fromkeys(warps, Periodic((1,)))


def _shuffle(
    config: Config,
    rules: Sequences,
    reads: Registers,
    writes: Registers,
    line: int,
    costs: dict[int, Periodic[int]],
) -> TimedOperation:
    """A shuffle, which takes the way of an access to shared memory."""
    shared = config.shared
    behind_port = 0 if config.reading_stages else shared.port_cycles
    return TimedOperation(
        Unit.SHARED,
        max(rules.shuffle - behind_port - shared.store_latency, 1),  # from its wavefront
        shared.warp_interval,
        reads,
        writes,
        line,
        costs=costs,
        access=Access(max(len(reads[:2]), 1) if config.reading_stages else 2, odd_banks(reads[:2]), slow=True),
    )


def _jump(row: Row, rules: Sequences, reads: Registers, writes: Registers, line: int) -> TimedOperation:
    """A call of a routine, or a return from it."""
    cycles = rules.returns if row.kind == "return" and rules.returns else rules.call
    return TimedOperation(Unit.CONTROL, cycles, 1, reads, writes, line, blocking=True)


def _arithmetic(
    row: Row, config: Config, rules: Sequences, reads: Registers, writes: Registers, line: int
) -> TimedOperation:
    """An integer or float instruction."""
    alu = config.alu
    is_float = row.kind == "float"
    halves = is_float and config.registers.halves
    return TimedOperation(
        Unit.ALU if row.kind == "alu" else Unit.FMA,
        alu.latency,
        rules.float_interval if is_float and not halves else alu.interval,
        reads,
        writes,
        line,
        operands=operands(reads, config),
        arithmetic=Arithmetic(halves=halves, writes=bool(writes)),
    )
