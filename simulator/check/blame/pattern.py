"""The pattern that instructions with one opcode follow, as those of an unrolled loop do: registers, offsets and
constants that go on in equal steps or come back; and which hypotheses restore it where one instruction breaks it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from isa.ptx.instruction import Address, Immediate, Instruction, Operand, Predicate, Register, Vector
from simulator.check.blame.change import Hypothesis, name_of
from simulator.check.blame.mixing import Skip
from simulator.program.kernel import Kernel, Operation

LAGS = 8  # instructions back and forth that are compared
NEAR = 64  # places between two copies of an unrolled loop at most
FEWEST = 2  # places at which a rule can be looked at, from which on it counts
ELEMENTS = 8  # of a vector that are looked at
USUAL = 0.85  # weight of a mistake that is usual by itself
GAIN, LOSS, MOST_WEIGHT = 0.5, 0.7, 0.98  # how much a pattern that is restored or broken changes a weight
Slot = tuple[object, ...]
Value = tuple[str, int]
"""Of an operand: what it is (the letters of a register's name, a constant), and its number."""
_NUMBERS = ("bytes", "constant")  # what numbers of other instructions than products are looked at
_NAME = re.compile(r"(.*?)(\d+)$")


class Pattern:
    """What the neighbours of each instruction make one expect of its operands."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self._expected: dict[int, dict[Slot, dict[Value, float]]] = {}
        self._groups: dict[str, list[Operation]] = defaultdict(list)
        for item in kernel.items:
            if isinstance(item, Operation):
                self._groups[item.instruction.form.opcode].append(item)
        self._done: set[str] = set()

    def alike(self, item: Operation) -> Sequence[Operation]:
        """The instructions with the same opcode, in order."""
        return self._groups[item.instruction.form.opcode]

    def restores(self, each: Hypothesis) -> float:
        """How much better the operands of the changed instructions fit to their neighbours with a hypothesis than
        without it, -1 to 1; 0 for what does not change operands."""
        gains: list[float] = []
        for place, actions in each.changes.items():
            item = self.kernel.items[place]
            if isinstance(actions, Skip) or len(actions) != 1:
                return 0.0
            if not isinstance(item, Operation) or not self.expected(item):
                return 0.0
            if not isinstance(actions[0], Instruction):
                return 0.0
            gains += self._gains(item, actions[0])
        return sum(gains) / len(gains) if gains else 0.0

    def weighted(self, each: Hypothesis) -> Hypothesis:
        """The hypothesis, likelier if it restores a pattern, less likely if it breaks one; a usual mistake is as likely
        as before: all copies of an unrolled loop may have it."""
        gain = self.restores(each)
        if not gain or (gain < 0 and each.weight >= USUAL):
            return each
        weight = each.weight + GAIN * gain if gain > 0 else each.weight * (1 + LOSS * gain)
        return replace(each, weight=min(weight, max(MOST_WEIGHT, each.weight)))

    def _gains(self, item: Operation, new: Instruction) -> list[float]:
        own = item.instruction
        if len(own.operands) != len(new.operands) or own.form.roles != new.form.roles:
            return []
        gains = []
        expected = self.expected(item)
        for role, one, other in zip(own.form.roles, own.operands, new.operands, strict=False):
            if one == other:
                continue
            before, after = (dict(_slots(self.kernel, role.name, each)) for each in (one, other))
            for slot, value in after.items():
                if before.get(slot) != value and slot in expected:
                    had = expected[slot].get(before[slot], 0.0) if slot in before else 0.0
                    gains.append(expected[slot].get(value, 0.0) - had)
        return gains

    def expected(self, item: Operation) -> Mapping[Slot, Mapping[Value, float]]:
        """By operand, the values that neighbours make one expect, each with its likelihood, 0 to 1."""
        opcode = item.instruction.form.opcode
        if opcode not in self._done:
            self._done.add(opcode)
            for run in _runs(self._groups[opcode]):
                self._learn(run)
        return self._expected.get(item.index, {})

    def _learn(self, group: Sequence[Operation]) -> None:
        if len(group) <= FEWEST:
            return
        columns: dict[Slot, list[tuple[int, Value]]] = defaultdict(list)
        for item in group:
            roles, registers = item.instruction.form.roles, _in_turn(item)
            for role, operand in zip(roles, item.instruction.operands, strict=False):
                for slot, value in _slots(self.kernel, role.name, operand):
                    if not registers and value[0] not in _NUMBERS:
                        continue
                    columns[slot].append((item.index, value))
                    if slot[-1] == "offset" and isinstance(operand, Address):
                        columns[*slot, str(operand.base)].append((item.index, value))
        for slot, column in columns.items():
            own = slot[:2]
            for place, found in zip((place for place, _ in column), likely([each for _, each in column]), strict=True):
                known = self._expected.setdefault(place, {}).setdefault(own, {})
                for value, likelihood in found.items():
                    known[value] = max(known.get(value, 0.0), likelihood)


def _runs(group: Sequence[Operation]) -> list[list[Operation]]:
    """Instructions that stand near to one another, as copies of an unrolled loop do."""
    runs: list[list[Operation]] = []
    for item in group:
        near = runs and (_in_turn(item) or item.index - runs[-1][-1].index <= NEAR)
        if near:
            runs[-1].append(item)
        else:
            runs.append([item])
    return runs


def _in_turn(item: Operation) -> bool:
    """Whether registers of such instructions go on in turn where a loop is unrolled."""
    return item.instruction.form.is_matrix or item.instruction.form.name in ("ldmatrix", "stmatrix")


def likely(values: Sequence[Value]) -> list[dict[Value, float]]:
    """For each of some values in order, what the others make one expect there, each with its likelihood: the share of
    the other places at which the same rule holds.

    The rules: the value so many places back or forth; the same step as between two others; the middle of two.
    """
    found: list[dict[Value, float]] = [{} for _ in values]
    count = len(values)
    for lag in range(1, min(LAGS, count - 1) + 1):
        for told in (_same(values, -lag), _same(values, lag), _stepped(values, -lag), _stepped(values, lag),
                     _middle(values, lag)):  # fmt: skip
            hits = [told[place] == values[place] for place in range(count) if told[place] is not None]
            right, known = sum(hits), len(hits)
            for place, value in enumerate(told):
                if value is None:
                    continue
                others = known - 1
                if others < FEWEST - 1:
                    continue
                share = (right - (value == values[place])) / (others + 0.5)
                share *= share
                if share > found[place].get(value, 0.0):
                    found[place][value] = share
    return found


def _same(values: Sequence[Value], lag: int) -> list[Value | None]:
    count = len(values)
    return [values[place + lag] if 0 <= place + lag < count else None for place in range(count)]


def _stepped(values: Sequence[Value], lag: int) -> list[Value | None]:
    count, told = len(values), list[Value | None]()
    for place in range(count):
        if not 0 <= place + 2 * lag < count:
            told.append(None)
            continue
        (kind, near), (other, far) = values[place + lag], values[place + 2 * lag]
        told.append((kind, 2 * near - far) if kind == other else None)
    return told


def _middle(values: Sequence[Value], lag: int) -> list[Value | None]:
    count, told = len(values), list[Value | None]()
    for place in range(count):
        if place < lag or place + lag >= count:
            told.append(None)
            continue
        (kind, one), (other, two) = values[place - lag], values[place + lag]
        told.append((kind, (one + two) // 2) if kind == other and (one + two) % 2 == 0 else None)
    return told


def _slots(kernel: Kernel, name: str, operand: Operand) -> list[tuple[Slot, Value]]:
    """The numbers of an operand, each with its place in the instruction."""
    if isinstance(operand, Vector):
        return [((name, index), _value(kernel, each)) for index, each in enumerate(operand.elements[:ELEMENTS])]
    if isinstance(operand, Address):
        slots: list[tuple[Slot, Value]] = [((name, "offset"), ("bytes", operand.offset))]
        return slots if operand.base is None else [*slots, ((name, "base"), _value(kernel, operand.base))]
    return [((name, "value"), _value(kernel, operand))]


def _value(kernel: Kernel, operand: object) -> Value:
    if isinstance(operand, Immediate):
        return "constant", operand.value
    if isinstance(operand, Predicate):
        kind, number = _value(kernel, operand.register)
        return f"{'!' if operand.negated else ''}{kind}", number
    name = name_of(kernel, operand.name) if isinstance(operand, Register) else str(operand)
    match = _NAME.match(name)
    return (match[1], int(match[2])) if match else (name, 0)


def shares(texts: Sequence[str]) -> dict[str, float]:
    """How much each of some operands lacks of being used as often as the others, 0 to 1."""
    counts = Counter(texts)
    usual = max(counts.values(), default=0)
    return {text: (usual - count) / usual for text, count in counts.items()}
