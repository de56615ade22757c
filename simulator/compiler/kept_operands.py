"""Which operands A and B the compiler keeps for the next matrix instruction: the `.reuse` flags of machine code."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, pairwise

from isa.forms.record import Unit
from simulator.compiler.timed_code import TimedLoop, TimedOperation


def mark_kept_operands(items: Sequence[TimedOperation | TimedLoop]) -> None:
    """Sets or clears `Operand.kept` of every operand of every matrix instruction."""
    for place, item in enumerate(items):
        if isinstance(item, TimedOperation) and item.unit is Unit.TENSOR:
            item.operands = tuple(
                operand._replace(kept=_is_kept(items, place, slot)) for slot, operand in enumerate(item.operands)
            )


def _is_kept(items: Sequence[TimedOperation | TimedLoop], place: int, slot: int) -> bool:
    """Whether the compiler keeps A (slot 0) or B (slot 1) of the matrix instruction at this place.

    The compiler keeps the operand if the next matrix instruction of the same kind (integers, or floats) reads the same
    registers in the same slot. Between the two there may be only other matrix instructions and comparisons of a loop's
    counter, all without the yield hint. ptxas 13.0 sets the same flags in 1,154 of 1,160 loops, and differs by one flag
    in each of the other six (tests/simulator/compiler/test_kept_operands.py).
    """
    item = items[place]
    assert isinstance(item, TimedOperation)
    assert item.matrix is not None
    if not item.matrix.keeps[slot]:
        return False
    for before, other in pairwise(islice(items, place, None)):
        if not (isinstance(before, TimedOperation) and isinstance(other, TimedOperation) and _leaves_operands(before)):
            return False
        if other.matrix is None or not other.operands:
            return False
        if other.matrix.integer == item.matrix.integer and other.matrix.keeps[slot]:
            same = other.operands[slot].register == item.operands[slot].register
            return same and other.matrix.keeps[slot] == item.matrix.keeps[slot]
    return False


def _leaves_operands(item: TimedOperation) -> bool:
    """Whether kept operands survive an instruction and the loop overhead that issues behind it: nothing of it has the
    yield hint, and the overhead is comparisons alone."""
    return not item.yields and all(each.compares and not each.yields for each in item.overhead)
