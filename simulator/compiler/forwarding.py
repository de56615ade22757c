"""How long the result of one instruction takes to another: the latency of its unit, and what the way to another unit
adds."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from isa.forms.record import Unit
from simulator.chip.tables import Alu
from simulator.compiler.timed_code import TimedOperation

INTEGER_PIPES = (Unit.ALU, Unit.FMA)


def extra(alu: Alu, producer: Unit, consumer: Unit) -> int:
    """Cycles beyond the producer's latency until an instruction of another unit can use its result."""
    if producer not in INTEGER_PIPES or consumer is producer:
        return 0
    if consumer in INTEGER_PIPES:
        return alu.change_latency
    if consumer in (Unit.TENSOR, Unit.CONTROL):
        return alu.tensor_latency - alu.latency
    return 0 if consumer is Unit.BARRIER else alu.address_latency - alu.latency


@lru_cache(maxsize=64)
def extras(alu: Alu) -> tuple[tuple[int, ...], ...]:
    """`extra` of all units, by consumer and producer."""
    return tuple(tuple(extra(alu, producer, consumer) for producer in Unit) for consumer in Unit)


def usable_from(alu: Alu, ready: Mapping[int, tuple[int, Unit]], register: int, consumer: TimedOperation) -> int:
    """The cycle from which an instruction can use a register; 0 if no instruction is known to have written it.

    Args:
        alu: the latencies of the integer pipes.
        ready: for each register that was written, the cycle in which its own unit can use it, and that unit.
        register: the number of the register.
        consumer: the instruction that reads it.
    """
    cycle, producer = ready.get(register, (0, Unit.ALU))
    if not cycle:
        return 0
    penalty = consumer.forwarding_penalty if producer is Unit.ALU else 0
    return cycle + extra(alu, producer, consumer.unit) + penalty
