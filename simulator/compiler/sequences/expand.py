"""Expands matrix instructions that a chip does not have into the machine instructions that ptxas writes for them.

Each such instruction becomes the machine instructions of its sequence (configs/sequences), which keep its place and its
line. The rules are those of ptxas:

* A value whose operands have not changed is computed once, and in front of the loop if the value is the same in all
  runs of the loop. Shuffles are done each time, and what they need stays in the loop.
* Instructions of a sequence, and the arithmetic around them, go in the order in which they can issue, as far as the
  compiler looks ahead. They do not pass loads, stores, barriers, calls or the ends of loops.
* A routine has its operands in registers of its own. Operands that are not there already are moved there. The result is
  moved from there, unless the next call adds to it.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass, field, replace
from typing import Any

from isa.forms.record import Unit
from simulator.chip.config import Config
from simulator.chip.sequences import Row, Sequence, Sequences, Value
from simulator.compiler.compile import machine_operation
from simulator.compiler.operation_parts import Emulated, Part
from simulator.compiler.register_banks import remove_c
from simulator.compiler.sequences.order import in_order
from simulator.compiler.sequences.registers import assign_registers
from simulator.compiler.timed_code import TimedCode, TimedLoop, TimedOperation, nesting

Item = TimedOperation | TimedLoop
Nested = list[Any]  # operations, and loops as such lists that end with their `TimedLoop`
_MOVABLE = (Unit.TENSOR, Unit.ALU, Unit.FMA)


def expand(code: TimedCode, config: Config) -> TimedCode:
    """The code with sequences in the place of instructions that the chip does not have."""
    if config.sequences is None or not any(isinstance(item, TimedOperation) and item.emulated for item in code.items):
        return code
    items = _Expansion(code, config, config.sequences).items()
    ends = {item.loop: item for item in items if isinstance(item, TimedLoop)}
    return replace(code, items=items, inside=nesting(items), ends=ends)


@dataclass
class _Level:
    """A loop's body, or the whole program.

    Attributes:
        out: operations, and complete inner loops as lists that end with their `TimedLoop`.
        held: what the routine called last has in its registers: the register that each operand came from, or that its
            result would go to.
    """

    out: Nested = field(default_factory=list)
    held: dict[tuple[int, Value], int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Value:
    """A value.

    Attributes:
        register: the register that holds it.
        number: its own number; values with the same number are equal.
        level: the depth of the loops in which it changes.
    """

    register: int
    number: int
    level: int


class _Expansion:
    """Walks through a code once and builds the code with sequences.

    Attributes:
        base: the first register that the program leaves free; values of sequences have numbers from here on.
        next: the first number that no value has yet.
        levels: the loops that are being walked through, the whole program first.
        numbers: how many values have been numbered.
        registers: the values in the program's registers.
        instances: how many sequences have been written between other instructions.
        shared: registers for results of matrix instructions, which several sequences use in turn.
    """

    def __init__(self, code: TimedCode, config: Config, rules: Sequences) -> None:
        self.code, self.config, self.rules = code, config, rules
        operations = [item for item in code.items if isinstance(item, TimedOperation)]
        self.base = self.next = 1 + max((r for op in operations for r in (*op.reads, *op.writes)), default=0)
        self.levels: list[_Level] = []
        self.numbers = 0
        self.registers: dict[int, _Value] = {}
        # results, by the numbers of the sequence, of its row and of the values that the row reads
        self.computed: dict[tuple[int, ...], tuple[_Value, ...]] = {}
        self.instances = 0
        self.shared: dict[tuple[int, int, int], int] = {}

    def items(self) -> list[Item]:
        """The items of the code with sequences."""
        body = self.walk(0, len(self.code.items), ())
        return assign_registers(_flat(body.out, []), self.base, self.code.inside)

    # Walking through the program

    def walk(self, first: int, last: int, inner: tuple[int, ...]) -> _Level:
        """Expands the items from `first` to before `last`; `inner` are the loops that are being walked through."""
        level = _Level()
        self.levels.append(level)
        if inner:
            self.forget(first, last)
            level.held = self.holds(first, last)
        place = first
        while place < last:
            end = self.loop_end(place, last, inner)
            if end is None:
                self.expand_operation(place, first, last, bool(inner))
                place += 1
                continue
            body = self.walk(place, end, (*inner, end))
            level.out.append([*body.out, self.code.items[end]])
            level.held = {}
            self.forget(place, end)
            place = end + 1
        self.levels.pop()
        level.out = self.ordered(level.out)
        return level

    def loop_end(self, place: int, last: int, inner: tuple[int, ...]) -> int | None:
        """The end of the outermost loop that starts at a place and is not being walked through yet; None for none."""
        for end in range(last - 1, place - 1, -1):
            item = self.code.items[end]
            if isinstance(item, TimedLoop) and item.start == place and end not in inner:
                return end
        return None

    def expand_operation(self, place: int, first: int, last: int, in_loop: bool) -> None:
        """Writes an operation, or its sequence; `first` and `last` bound the loop's body or the program."""
        item = self.code.items[place]
        assert isinstance(item, TimedOperation)
        if item.emulated is None:
            self.levels[-1].out.append(item)
            self.write(item.writes)
        elif item.emulated.sequence.called:
            self.call(item, place, first, last, in_loop)
        else:
            self.inline(item)

    def written(self, first: int, last: int) -> set[int]:
        """The registers that the items from `first` to before `last` write."""
        return {r for item in self.code.items[first:last] if isinstance(item, TimedOperation) for r in item.writes}

    def forget(self, first: int, last: int) -> None:
        """Gives all registers that a loop writes new values, since they differ in each of its runs."""
        for register in self.written(first, last):
            self.change(register)

    def write(self, registers: Items[int]) -> None:
        """Gives registers that an instruction writes new values; no routine has these in its own registers."""
        for register in registers:
            self.change(register)
            for key in [key for key, held in self.levels[-1].held.items() if held == register]:
                del self.levels[-1].held[key]

    def change(self, register: int) -> None:
        """Gives a register a new value, which changes at the depth of the loop that is being walked through."""
        self.numbers += 1
        self.registers[register] = _Value(register, self.numbers, len(self.levels) - 1)

    def known(self, register: int) -> _Value:
        """The value in a register of the program: the one from the start if nothing has written it since."""
        if register not in self.registers:
            self.numbers += 1
            self.registers[register] = _Value(register, self.numbers, 0)
        return self.registers[register]

    # Sequences between other instructions

    def inline(self, op: TimedOperation) -> None:
        """Writes the sequence of an instruction, but for values that are known already."""
        assert op.emulated is not None
        sequence, operands = op.emulated
        depth = len(self.levels) - 1
        self.instances += 1
        values: dict[Value, _Value] = {
            name: self.known(r) for name, r in operands.items() if not str(name).startswith("d")
        }
        for number, row in enumerate(sequence.rows):
            sources = [values[name] for name in row.reads if name in values]
            level = depth if row.around_shuffle else max((source.level for source in sources), default=0)
            result = any(isinstance(name, str) for name in row.writes)
            key = (sequence.number, number, *(source.number for source in sources))
            if result or row.after_shuffle or key not in self.computed:
                targets = self.targets(sequence, row, operands, level)
                self.computed[key] = targets
                reads = tuple(dict.fromkeys(source.register for source in sources))
                writes = tuple(target.register for target in targets)
                operation = self.timed(row, op, reads, writes, self.overlap(sequence))
                self.levels[depth if result else level].out.append(operation)
            values.update(zip(row.writes, self.computed[key], strict=True))
        self.write(op.writes)

    def targets(self, sequence: Sequence, row: Row, operands: dict[Value, int], level: int) -> tuple[_Value, ...]:
        """New values for what an instruction of a sequence writes."""
        targets = []
        for i, name in enumerate(row.writes):
            self.numbers += 1
            register = operands[name] if isinstance(name, str) else self.reused(sequence, row, i)
            targets.append(_Value(register, self.numbers, level))
        return tuple(targets)

    def overlap(self, sequence: Sequence) -> int:
        """How many sequences at a time have registers for operands and results of their matrix instructions."""
        form = sequence.tensor[0]
        return max(1, self.rules.temporaries // sum(role.count for role in form.roles if role.name in "abd"))

    def reused(self, sequence: Sequence, row: Row, i: int) -> int:
        """A register for the ith value of an instruction; results of matrix instructions take registers of an earlier
        sequence."""
        if row.form is None:
            return self.fresh()
        key = sequence.number, self.instances % self.overlap(sequence), i
        if key not in self.shared:
            self.shared[key] = self.fresh()
        return self.shared[key]

    def fresh(self) -> int:
        """A register that no value has had yet."""
        self.next += 1
        return self.next - 1

    def timed(
        self, row: Row, op: TimedOperation, reads: tuple[int, ...], writes: tuple[int, ...], overlap: int = 0
    ) -> TimedOperation:
        """A machine instruction of the sequence that stands for `op`, with its times."""
        operation = machine_operation(row, self.config, reads, writes, op.line, self.code.warps)
        if row.has_no_c:
            remove_c(operation)
        operation.place, operation.part = op.place, Part(True, False, overlap)
        return operation

    # Calls

    def call(self, op: TimedOperation, place: int, first: int, last: int, loops: bool) -> None:
        """Writes the call of a routine: moves of its operands, the call, the routine, and moves of its result."""
        assert op.emulated is not None
        sequence, operands = op.emulated
        level = self.levels[-1]
        where: dict[Value, int] = {}
        for name, register in operands.items():
            where[name] = register
            if not str(name).startswith("d") and level.held.get((sequence.number, name)) != register:
                where[name] = self.fresh()
                level.out.append(self.timed(Row("imad", (), ()), op, (register,), (where[name],)))
        level.out.append(self.timed(Row("alu", (), ()), op, (), (self.fresh(),)))
        following = self.following(place, first, last, loops)
        kept = following is not None and _goes_on(op.emulated, following)
        results = {name: where[name] for name in where if str(name).startswith("d")}
        if not kept:
            where.update({name: self.fresh() for name in results})
        for row in sequence.rows:
            where.update({name: self.fresh() for name in row.writes if not isinstance(name, str)})
            reads = tuple(dict.fromkeys(where[name] for name in row.reads if name in where))
            level.out.append(self.timed(row, op, reads, tuple(where[name] for name in row.writes)))
        for name, register in results.items() if not kept else ():
            level.out.append(self.timed(Row("imad", (), ()), op, (where[name],), (register,)))
        level.held.clear()
        self.write(op.writes)
        level.held.update(_held(op))

    def following(self, place: int, first: int, last: int, loops: bool) -> Emulated | None:
        """The next call after a place; at the end of a loop, the first call of its next run."""
        for i in (*range(place + 1, last), *(range(first, place + 1) if loops else ())):
            item = self.code.items[i]
            if isinstance(item, TimedLoop):
                return None
            if item.emulated is not None and item.emulated.sequence.called:
                return item.emulated  # type: ignore[no-any-return]
        return None

    def holds(self, first: int, last: int) -> dict[tuple[int, Value], int]:
        """The registers of the program that a routine has in its own registers at the end of a loop."""
        held: dict[tuple[int, Value], int] = {}
        for item in self.code.items[first:last]:
            if isinstance(item, TimedLoop):
                held = {}
                continue
            held = {key: register for key, register in held.items() if register not in item.writes}
            if item.emulated is not None and item.emulated.sequence.called:
                held = _held(item)
        return held

    # Order

    def ordered(self, out: Nested) -> Nested:
        """The instructions as the compiler would order them: those that can move, between those that cannot."""
        items: Nested = []
        run: list[TimedOperation] = []
        for item in (*out, None):
            if isinstance(item, TimedOperation) and _can_move(item):
                run.append(item)
                continue
            items += in_order(run, self.config, self.rules.window) if any(op.part for op in run) else run
            run = []
            if item is not None:
                items.append(item)
        return items


def _can_move(item: TimedOperation) -> bool:
    """Whether the compiler moves an instruction: of a sequence that it mixes with others, or arithmetic around it."""
    return item.unit in _MOVABLE if item.part is None else item.part.overlap > 0


def _flat(out: Nested, into: list[Item]) -> list[Item]:
    """Nested loops as one flat list, in which each loop has its start."""
    for item in out:
        if isinstance(item, list):
            start = len(into)
            _flat(item[:-1], into)
            into.append(replace(item[-1], start=start))
        else:
            into.append(item)
    return into


def _held(op: TimedOperation) -> dict[tuple[int, Value], int]:
    """What a routine holds after a call: the operands as given, and the result in the place of C."""
    assert op.emulated is not None
    sequence, operands = op.emulated
    held = {(sequence.number, name): r for name, r in operands.items() if str(name)[0] in "abe" and r not in op.writes}
    return held | {
        (sequence.number, "c" + str(name)[1:]): r for name, r in operands.items() if str(name).startswith("d")
    }


def _goes_on(one: Emulated, other: Emulated) -> bool:
    """Whether the next call adds to the result that this one leaves."""
    results = {str(name)[1:]: r for name, r in one.operands.items() if str(name).startswith("d")}
    added = {str(name)[1:]: r for name, r in other.operands.items() if str(name).startswith("c")}
    return one.sequence.number == other.sequence.number and results == added
