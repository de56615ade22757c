"""The order in which the compiler writes the instructions of sequences and the arithmetic between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from isa.forms.record import Time, Unit
from simulator.chip.config import Config
from simulator.compiler.forwarding import extra
from simulator.compiler.timed_code import TimedOperation


def in_order(run: Sequence[TimedOperation], config: Config, window: int) -> list[TimedOperation]:
    """The operations in the compiler's order.

    The compiler takes, again and again, the operation among the next `window` that can issue first, and the earlier of
    two that can issue at once. An addition or a move goes to the integer pipe that is free. Shuffles keep their order.
    A sequence begins when the first matrix instruction of an earlier sequence has its operands; `Part.overlap` says how
    many sequences overlap.

    Args:
        run: operations without anything between them that the compiler does not move.
        config: the chip.
        window: how far the compiler looks ahead.
    """
    before = _before(run)
    left, cycles = list(range(len(run))), [0] * len(run)
    free: dict[Unit, int] = {}
    ordered: list[TimedOperation] = []
    now, waiting = -1, set(left)
    while left:
        best, soonest, pipe = -1, 0, Unit.ALU
        for i in left[:window]:
            if any(j in waiting for j, _ in before[i]):
                continue
            op = run[i]
            unit = Unit.FMA if _is_either(op) and free.get(Unit.FMA, 0) <= free.get(Unit.ALU, 0) else op.unit
            start = max(now + 1, free.get(unit, 0))
            for j, kind in before[i]:
                start = max(start, cycles[j] + _distance(run[j], op, unit, kind, config))
            if best < 0 or start < soonest:
                best, soonest, pipe = i, start, unit
        now = cycles[best] = soonest
        op = run[best]
        free[pipe] = now + (op.interval if op.unit is not Unit.SHARED else config.shared.warp_interval)
        ordered.append(op if pipe is op.unit else replace(op, unit=pipe))
        left.remove(best)
        waiting.discard(best)
    return ordered


def _is_either(op: TimedOperation) -> bool:
    """Whether the compiler may use either integer pipe for an instruction."""
    return op.arithmetic is not None and op.arithmetic.time is Time.EITHER


def _distance(first: TimedOperation, second: TimedOperation, unit: Unit, kind: str, config: Config) -> int:
    """Cycles from one instruction to another that depends on it.

    Args:
        first, second: the two instructions.
        unit: the unit of the second.
        kind: "read" if the second reads a result of the first, "write" if both write a register, "over" if the second
            writes a register that the first reads.
        config: the chip.
    """
    if kind == "read":
        return first.latency + extra(config.alu, first.unit, unit)
    return first.latency - second.latency + 1 if kind == "write" else 1


def _before(run: Sequence[TimedOperation]) -> list[list[tuple[int, str]]]:
    """For each operation, the index of each one that it must follow, and the kind of the dependency (`_distance`)."""
    writer: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    begun: dict[int, int] = {}  # the number of each sequence, by its place
    products: dict[int, int] = {}  # its first matrix instruction
    shuffle = -1
    earlier: list[list[tuple[int, str]]] = []
    for i, op in enumerate(run):
        links = [(writer[r], "read") for r in op.reads if r in writer]
        for register in op.writes:
            links += [(j, "over") for j in readers.get(register, ())]
            if register in writer:
                links.append((writer[register], "write"))
        if op.part is not None and op.part.overlap:
            if op.place not in begun:
                begun[op.place] = len(begun)
            turn = begun[op.place] - op.part.overlap
            if turn in products:
                links.append((products[turn], "over"))
            if op.unit is Unit.TENSOR:
                products.setdefault(begun[op.place], i)
        if op.unit is Unit.SHARED:
            links += [(shuffle, "over")] if shuffle >= 0 else []
            shuffle = i
        for register in op.reads:
            readers.setdefault(register, []).append(i)
        for register in op.writes:
            writer[register], readers[register] = i, []
        earlier.append(links)
    return earlier
