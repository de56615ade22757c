"""How far results of instructions move on when their operands move on by the same amount from turn to turn of a loop.

In turn n (0, 1, ...) a register of 32, 64, 16 or 1 bits holds (value + n * step) modulo 2^bits, each lane with its own
value and step. A rule gives the steps of D from those of the operands, and says for how many turns they hold: an
address that grows turns of its own accord, a comparison holds until one side overtakes the other. An instruction
without a rule, or one whose result moves otherwise, is not foretold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.forms.record import Form
from simulator.execute.registry import longest

Steps = NDArray[np.int64]
_LARGE = 1 << 62  # values and products of 64 bits from here on are not followed
_FEW = 16  # turns for which bits must stay, or a field of bits not overflow, to follow it that far
FOREVER = 1 << 62


class NotForetoldError(Exception):
    """What a loop does cannot be foretold from these turns.

    Attributes:
        factor: by how much longer a period could be foretold, as far as one knows; 0: that is not known.
    """

    def __init__(self, factor: int = 0) -> None:
        super().__init__(factor)
        self.factor = factor


class Term(NamedTuple):
    """An operand: its values in turn 0, unsigned, and its steps, both int64 or uint64 [warp, lane]."""

    values: NDArray[Any]
    steps: Steps
    bits: int

    @property
    def moves(self) -> bool:
        """Whether it changes from turn to turn."""
        return bool(self.steps.any())


class Foresight:
    """For how many turns what has been found out holds.

    Attributes:
        turns: in turns 0 to `turns` - 1.
    """

    def __init__(self) -> None:
        self.turns = FOREVER

    def within(self, values: NDArray[Any], steps: Steps, low: Any, high: Any) -> None:
        """Holds only as long as `low` <= values + n * steps <= `high`; NotForetoldError where that is not so in turn
        0."""
        values = self.signed(values)
        if ((values < low) | (values > high)).any():
            raise NotForetoldError
        if not steps.any():
            return
        room = np.where(steps > 0, high - values, values - low)
        moving = steps != 0
        self.turns = min(self.turns, int((room[moving] // np.abs(steps[moving])).min()) + 1)

    @staticmethod
    def signed(values: NDArray[Any]) -> NDArray[np.int64]:
        """Values as int64; NotForetoldError where they are too large."""
        if values.dtype == np.uint64 and bool((values >= np.uint64(_LARGE)).any()):
            raise NotForetoldError
        return values.astype(np.int64)

    def unsigned_range(self, term: Term) -> None:
        """Holds only as long as the operand, read as unsigned, does not wrap around."""
        self.within(term.values, term.steps, 0, _LARGE if term.bits == 64 else (1 << term.bits) - 1)

    def signed_range(self, term: Term) -> NDArray[np.int64]:
        """Holds only as long as the operand, read as signed, does not wrap around; its values in turn 0."""
        values = term.values.astype(np.uint64).view(np.int64)
        if term.bits < 64:
            values = centred(term.values, term.bits)
        half = min(1 << (term.bits - 1), _LARGE)
        self.within(values, term.steps, -half, half - 1)
        return values


def centred(values: NDArray[Any], bits: int) -> Steps:
    """Values modulo 2^bits as int64 from -2^(bits - 1) to 2^(bits - 1) - 1."""
    words = values.view(np.uint64) if values.dtype == np.int64 else values.astype(np.uint64)
    if bits == 64:
        return words.view(np.int64)
    half, mask = np.uint64(1 << (bits - 1)), np.uint64((1 << bits) - 1)
    return ((words + half) & mask).astype(np.int64) - int(half)


Terms = Mapping[str, Term]
Rule = Callable[[Foresight, Terms, int], Steps]


def steps_of(form: Form, foresight: Foresight, terms: Terms, bits: int) -> Steps:
    """The steps of D, of `bits` bits, of an instruction some of whose operands move.

    Raises:
        NotForetoldError: D does not move on evenly.
    """
    rule = longest(form, _RULES)
    if rule is None:
        raise NotForetoldError
    return rule(foresight, terms, bits)


def _add(_: Foresight, terms: Terms, bits: int) -> Steps:
    return centred(terms["a"].steps + terms["b"].steps, bits)


def _subtract(_: Foresight, terms: Terms, bits: int) -> Steps:
    return centred(terms["a"].steps - terms["b"].steps, bits)


def _multiply(_: Foresight, terms: Terms, bits: int) -> Steps:
    a, b = terms["a"], terms["b"]
    if (a.steps * (b.steps != 0)).any():
        raise NotForetoldError
    words = a.steps.view(np.uint64) * b.values.astype(np.uint64) + b.steps.view(np.uint64) * a.values.astype(np.uint64)
    return centred(words, bits)


def _multiply_add(foresight: Foresight, terms: Terms, bits: int) -> Steps:
    return centred(_multiply(foresight, terms, bits) + terms["c"].steps, bits)


def _wide(a: Term, b: Term, values: tuple[NDArray[np.int64], NDArray[np.int64]]) -> Steps:
    if (a.steps * (b.steps != 0)).any():
        raise NotForetoldError
    sizes = [np.abs(x.steps).astype(np.float64) * np.abs(y) for x, y in ((a, values[1]), (b, values[0]))]
    if any((size >= _LARGE).any() for size in sizes):
        raise NotForetoldError
    steps: Steps = a.steps * values[1] + b.steps * values[0]
    return steps


def _multiply_wide(foresight: Foresight, terms: Terms, _: int) -> Steps:
    a, b = terms["a"], terms["b"]
    foresight.unsigned_range(a)
    foresight.unsigned_range(b)
    return _wide(a, b, (a.values.astype(np.int64), b.values.astype(np.int64)))


def _multiply_wide_signed(foresight: Foresight, terms: Terms, _: int) -> Steps:
    a, b = terms["a"], terms["b"]
    return _wide(a, b, (foresight.signed_range(a), foresight.signed_range(b)))


def _shift_left(_: Foresight, terms: Terms, bits: int) -> Steps:
    a, b = terms["a"], terms["b"]
    if b.moves:
        raise NotForetoldError
    amounts = np.minimum(b.values.astype(np.uint64), np.uint64(63))
    return centred(np.where(b.values < bits, a.steps.view(np.uint64) << amounts, np.uint64(0)), bits)


def _shift_right(foresight: Foresight, terms: Terms, bits: int) -> Steps:
    """Moves on evenly where the step is a multiple of 2^amount; else it stays until the bits above change."""
    foresight.unsigned_range(terms["a"])
    return _shifted(foresight, terms, foresight.signed(terms["a"].values), bits)


def _shift_right_signed(foresight: Foresight, terms: Terms, bits: int) -> Steps:
    return _shifted(foresight, terms, foresight.signed_range(terms["a"]), bits)


def _shifted(foresight: Foresight, terms: Terms, values: NDArray[np.int64], bits: int) -> Steps:
    a, b = terms["a"], terms["b"]
    if b.moves:
        raise NotForetoldError
    amounts = np.minimum(b.values.astype(np.int64), min(bits, 62))
    unit = np.int64(1) << amounts
    even = a.steps % unit == 0
    low, before = values >> amounts << amounts, foresight.turns
    foresight.within(values, np.where(even, 0, a.steps), low, low + unit - 1)
    if foresight.turns < min(before, _FEW):
        steps_lowest = np.where(even, unit, a.steps & -a.steps)
        raise NotForetoldError(int((unit // steps_lowest).max()))
    steps: Steps = np.where(even, a.steps >> amounts, 0)
    return steps


def _constant_and_moving(terms: Terms) -> tuple[Term, NDArray[np.uint64], NDArray[np.uint64]]:
    """The operand of two that moves, the other's bits, and the lowest bit of each step (2^63 of none)."""
    a, b = terms["a"], terms["b"]
    if a.moves and b.moves:
        raise NotForetoldError
    moving, constant = (a, b) if a.moves else (b, a)
    steps = moving.steps.view(np.uint64)
    lowest = np.where(steps, steps & (~steps + np.uint64(1)), np.uint64(1 << 63))
    return moving, constant.values.astype(np.uint64), lowest


def _and(foresight: Foresight, terms: Terms, bits: int) -> Steps:
    """The bits below the lowest one of the step stay; a mask that ends below keeps nothing that moves, one that has all
    the bits above keeps all of it. A mask of the lowest bits alone keeps it until they overflow."""
    moving, mask, lowest = _constant_and_moving(terms)
    full = np.uint64((1 << bits) - 1)
    still = mask < lowest
    whole = (mask | (lowest - np.uint64(1))) == full
    low_bits = (mask & (mask + np.uint64(1))) == 0
    if not (still | whole | low_bits).all():
        raise NotForetoldError(_factor(mask, lowest, still | whole))
    values, field = foresight.signed(moving.values), mask.astype(np.int64)
    partly = ~(still | whole)
    before = foresight.turns
    base = np.where(partly, values & ~field, 0)
    top = np.where(partly, base + field, _LARGE)
    foresight.within(values, np.where(partly, moving.steps, 0), base, top)
    if foresight.turns < min(before, _FEW):
        raise NotForetoldError(_factor(mask, lowest, ~partly))
    steps: Steps = np.where(still, 0, moving.steps)
    return steps


def _factor(mask: NDArray[np.uint64], lowest: NDArray[np.uint64], fine: NDArray[np.bool_]) -> int:
    """How many times longer a period leaves the bits of the mask alone."""
    wanted = int(mask[~fine].max()).bit_length()
    have = int(lowest[~fine].min()).bit_length() - 1
    return 1 << max(wanted - have, 1)


def _or(_: Foresight, terms: Terms, bits: int) -> Steps:
    moving, mask, lowest = _constant_and_moving(terms)
    fine = mask < lowest
    if not fine.all():
        raise NotForetoldError(_factor(mask, lowest, fine))
    return moving.steps


def _not(_: Foresight, terms: Terms, bits: int) -> Steps:
    return -terms["a"].steps


def _move(_: Foresight, terms: Terms, bits: int) -> Steps:
    return terms["a"].steps


def _widen(foresight: Foresight, terms: Terms, bits: int) -> Steps:
    foresight.unsigned_range(terms["a"])
    return terms["a"].steps


def _widen_signed(foresight: Foresight, terms: Terms, bits: int) -> Steps:
    foresight.signed_range(terms["a"])
    return terms["a"].steps


def _narrow(foresight: Foresight, terms: Terms, bits: int) -> Steps:
    if terms["a"].bits < bits:
        foresight.unsigned_range(terms["a"])
    return centred(terms["a"].steps, bits)


def _compare(signed: bool, order: str) -> Rule:
    """A comparison keeps its result as long as the difference of both sides keeps its sign."""

    def rule(foresight: Foresight, terms: Terms, _: int) -> Steps:
        a, b = terms["a"], terms["b"]
        if signed:
            left, right = foresight.signed_range(a), foresight.signed_range(b)
        else:
            foresight.unsigned_range(a)
            foresight.unsigned_range(b)
            left, right = foresight.signed(a.values), foresight.signed(b.values)
        if max(np.abs(left).max(), np.abs(right).max()) >= _LARGE // 2:
            raise NotForetoldError
        difference, steps = left - right, a.steps - b.steps
        moving = steps != 0
        if order in ("eq", "ne"):
            if (moving & (difference == 0)).any():
                raise NotForetoldError
            below, above = difference < 0, difference > 0
        elif order in ("lt", "ge", "lo", "hs"):
            below, above = difference < 0, difference >= 0
        else:
            below, above = difference <= 0, difference > 0
        edge = {"lt": (-1, 0), "ge": (-1, 0), "lo": (-1, 0), "hs": (-1, 0), "eq": (-1, 1), "ne": (-1, 1)}.get(
            order, (0, 1)
        )
        low = np.where(above, edge[1], -_LARGE)
        high = np.where(below, edge[0], _LARGE)
        foresight.within(difference, steps, low, high)
        return np.zeros_like(steps)

    return rule


def _select(_: Foresight, terms: Terms, bits: int) -> Steps:
    steps: Steps = np.where(terms["c"].values != 0, terms["a"].steps, terms["b"].steps)
    return steps


_RULES: dict[str, Rule] = {
    "mov": _move,
    "add": _add,
    "sub": _subtract,
    "mul.lo": _multiply,
    "mul.wide.u32": _multiply_wide,
    "mul.wide.s32": _multiply_wide_signed,
    "mad.lo": _multiply_add,
    "shl": _shift_left,
    "shr": _shift_right,
    "shr.s32": _shift_right_signed,
    "shr.s64": _shift_right_signed,
    "and": _and,
    "or": _or,
    "xor": _or,
    "not": _not,
    "cvt.u64": _widen,
    "cvt.s64.s32": _widen_signed,
    "cvt.u32": _narrow,
    "cvt.u16": _narrow,
    "selp": _select,
    **{
        f"setp.{order}{kind}": _compare(bool(kind), order)
        for order in ("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs")
        for kind in ("", ".s32", ".s64")
    },
}
