"""Registers for the values of sequences. A register is free again after the last use of its value."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from simulator.compiler.timed_code import TimedLoop, TimedOperation, nesting

Item = TimedOperation | TimedLoop


def assign_registers(items: list[Item], base: int, inside: Sequence[tuple[int, ...]]) -> list[Item]:
    """The items with registers for their values, and with the first operation of each instruction marked as its issue.

    Args:
        items: operations and ends of loops; registers from `base` on are values, each written under a number of its
            own.
        base: the first register that the program itself leaves free.
        inside: for each item of the code before its expansion, the loops around it.
    """
    return _Assignment(items, base, inside).items_with_registers()


class _Assignment:
    def __init__(self, items: list[Item], base: int, inside: Sequence[tuple[int, ...]]) -> None:
        self.items, self.base = items, base
        self.inside_before, self.inside = inside, nesting(items)
        self.last_use = self._last_uses()
        self.names: dict[int, int] = {}  # by value, the register that it has
        self.free: list[int] = []
        self.unused = base  # the first register that has never been used
        self.issued: set[int] = set()  # places of instructions whose first operation has come

    def _last_uses(self) -> dict[int, int]:
        """For each register, the place of the last item that needs it.

        A value from in front of a loop is needed until the end of the loop if any instruction in it reads the value:
        the next run reads it again.
        """
        ends = {item.loop: place for place, item in enumerate(self.items) if isinstance(item, TimedLoop)}
        first_use: dict[int, int] = {}
        last_use: dict[int, int] = {}
        for place, item in enumerate(self.items):
            if not isinstance(item, TimedOperation):
                continue
            for register in (*item.writes, *item.reads):
                first = first_use.setdefault(register, place)
                entered = [loop for loop in self.inside[place] if loop not in self.inside[first]]
                needed = ends[entered[0]] if entered else place
                last_use[register] = max(last_use.get(register, 0), needed)
        return last_use

    def items_with_registers(self) -> list[Item]:
        named: list[Item] = []
        leaving: dict[int, list[int]] = {}  # by place, the registers that are free behind it
        for place, item in enumerate(self.items):
            if isinstance(item, TimedOperation):
                for value in item.writes:
                    if value >= self.base and value not in self.names:
                        self.names[value] = self._take_register()
                        leaving.setdefault(self.last_use[value], []).append(self.names[value])
                named.append(self._named(item, place))
            else:
                named.append(item)
            for register in leaving.pop(place, ()):
                heappush(self.free, register)
        return named

    def _take_register(self) -> int:
        """The lowest register that is free."""
        if self.free:
            return heappop(self.free)
        self.unused += 1
        return self.unused - 1

    def _named(self, item: TimedOperation, place: int) -> TimedOperation:
        """An operation with its registers; the first one of an instruction, in its own loop, counts as the issue."""
        at_home = len(self.inside[place]) == len(self.inside_before[item.place])
        name = self.names.get
        changed = item.changed(
            reads=tuple(name(register, register) for register in item.reads),
            writes=tuple(name(register, register) for register in item.writes),
            operands=tuple(one._replace(source=name(one.source, one.source)) for one in item.operands),
        )
        if item.part is not None:
            is_issue = at_home and item.place not in self.issued
            if is_issue:
                self.issued.add(item.place)
            changed.part = item.part._replace(further=not is_issue, early=not at_home)
        return changed
