"""Expands matrix instructions that a chip does not have into the machine instructions that ptxas writes for them.

Each becomes the machine instructions of its sequence (configs/sequences), all with the place and the line of the
instruction that they stand for. As ptxas does:

* A value whose operands have not changed is computed once, in front of the loop if it is the same in all its runs; but
  what shuffles need stays in the loop, and shuffles are done each time.
* Instructions of a sequence, and the arithmetic around them, go in the order in which they can issue, as far as the
  compiler looks ahead. They do not pass loads, stores, barriers, calls or the ends of loops.
* A routine has its operands in registers of its own: those that are not there already are moved, and so is the result,
  unless the next call goes on with it.
"""

from __future__ import annotations

from collections.abc import Sequence as Items
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Any

from isa.forms.record import Unit
from simulator.chip.config import Config
from simulator.chip.sequences import Row, Sequence, Sequences, Value
from simulator.compiler.matrix import matrix
from simulator.compiler.register_banks import odd_banks, operands, remove_c
from simulator.compiler.sequence_order import in_order
from simulator.compiler.timed_code import Periodic, TimedCode, TimedLoop, TimedOperation, nesting

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
class _Known:
    """A value: the register that holds it, its number, and the depth of loops at which it changes."""

    register: int
    number: int
    level: int


class _Expansion:
    """Walks through a code once and builds the code with sequences."""

    def __init__(self, code: TimedCode, config: Config, rules: Sequences) -> None:
        self.code, self.config, self.rules = code, config, rules
        operations = [item for item in code.items if isinstance(item, TimedOperation)]
        self.base = self.next = 1 + max((r for op in operations for r in (*op.reads, *op.writes)), default=0)
        self.levels: list[_Level] = []
        self.numbers = 0
        self.registers: dict[int, _Known] = {}  # what the program's registers hold
        # results by sequence, row and the numbers of the values read
        self.computed: dict[tuple[int, ...], tuple[_Known, ...]] = {}
        self.instances = 0
        self.shared: dict[tuple[int, int, int], int] = {}
        self.one_wavefront = dict.fromkeys(code.warps, Periodic((1,)))

    def items(self) -> list[Item]:
        return self.finished(_flat(self.walk(0, len(self.code.items), ()).out, []))

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
            loops = [
                e
                for e in range(place, last)
                if isinstance(t := self.code.items[e], TimedLoop) and t.start == place and e not in inner
            ]
            if loops:
                end = loops[-1]
                loop = self.code.items[end]
                body = self.walk(place, end, (*inner, end))
                level.out.append([*body.out, loop])
                level.held = {}
                self.forget(place, end)
                place = end + 1
                continue
            item = self.code.items[place]
            assert isinstance(item, TimedOperation)
            if item.emulated is None:
                level.out.append(item)
                self.write(item.writes)
            elif item.emulated[0].called:
                self.call(item, place, first, last, bool(inner))
            else:
                self.inline(item)
            place += 1
        self.levels.pop()
        level.out = self.ordered(level.out)
        return level

    def written(self, first: int, last: int) -> set[int]:
        return {r for item in self.code.items[first:last] if isinstance(item, TimedOperation) for r in item.writes}

    def forget(self, first: int, last: int) -> None:
        """Gives all registers that a loop writes new values, since they differ in each of its runs."""
        for register in self.written(first, last):
            self.change(register)

    def write(self, registers: Items[int]) -> None:
        for register in registers:
            self.change(register)
            for key in [key for key, held in self.levels[-1].held.items() if held == register]:
                del self.levels[-1].held[key]

    def change(self, register: int) -> None:
        self.numbers += 1
        self.registers[register] = _Known(register, self.numbers, len(self.levels) - 1)

    def known(self, register: int) -> _Known:
        """The value in a register of the program; that from the start, if nothing has written it."""
        if register not in self.registers:
            self.numbers += 1
            self.registers[register] = _Known(register, self.numbers, 0)
        return self.registers[register]

    # Sequences between other instructions

    def inline(self, op: TimedOperation) -> None:
        assert op.emulated is not None
        sequence, operands = op.emulated
        depth = len(self.levels) - 1
        self.instances += 1
        values: dict[Value, _Known] = {
            name: self.known(r) for name, r in operands.items() if not str(name).startswith("d")
        }
        for number, row in enumerate(sequence.rows):
            sources = [values[name] for name in row.reads if name in values]
            level = depth if row.around_shuffle else max((source.level for source in sources), default=0)
            result = any(isinstance(name, str) for name in row.writes)
            key = (sequence.number, number, *(source.number for source in sources))
            if result or row.after_shuffle or key not in self.computed:
                targets = []
                for i, name in enumerate(row.writes):
                    self.numbers += 1
                    register = operands[name] if isinstance(name, str) else self.reused(sequence, row, i)
                    targets.append(_Known(register, self.numbers, level))
                self.computed[key] = tuple(targets)
                reads, writes = tuple(dict.fromkeys(s.register for s in sources)), tuple(t.register for t in targets)
                self.levels[depth if result else level].out.append(
                    self.timed(row, op, reads, writes, self.overlap(sequence))
                )
            values.update(zip(row.writes, self.computed[key], strict=True))
        self.write(op.writes)

    def overlap(self, sequence: Sequence) -> int:
        """How many sequences at a time have registers for operands and results of their matrix instructions."""
        form = sequence.tensor[0]
        return max(1, self.rules.temporaries // sum(role.count for role in form.roles if role.name in "abd"))

    def reused(self, sequence: Sequence, row: Row, i: int) -> int:
        """A register for a value: results of matrix instructions take those of an earlier sequence."""
        if row.form is None:
            return self.fresh()
        key = sequence.number, self.instances % self.overlap(sequence), i
        if key not in self.shared:
            self.shared[key] = self.fresh()
        return self.shared[key]

    def fresh(self) -> int:
        self.next += 1
        return self.next - 1

    def timed(
        self, row: Row, op: TimedOperation, reads: tuple[int, ...], writes: tuple[int, ...], movable: int = 0
    ) -> TimedOperation:
        """A machine instruction of a sequence with its times."""
        operation = self.times(row, op.line, reads, writes)
        operation.place, operation.part, operation.movable = op.place, True, movable
        return operation

    def times(self, row: Row, line: int, reads: tuple[int, ...], writes: tuple[int, ...]) -> TimedOperation:
        operation = machine_operation(row, self.config, self.rules, reads, writes, line, self.one_wavefront)
        if row.has_no_c:
            remove_c(operation)
        return operation

    # Calls

    def call(self, op: TimedOperation, place: int, first: int, last: int, loops: bool) -> None:
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

    def following(self, place: int, first: int, last: int, loops: bool) -> tuple[Sequence, dict[Value, int]] | None:
        """The next call after a place; at the end of a loop, the first call of its next run."""
        for i in (*range(place + 1, last), *(range(first, place + 1) if loops else ())):
            item = self.code.items[i]
            if isinstance(item, TimedLoop):
                return None
            emulated: tuple[Sequence, dict[Value, int]] | None = item.emulated
            if emulated is not None and emulated[0].called:
                return emulated
        return None

    def holds(self, first: int, last: int) -> dict[tuple[int, Value], int]:
        """The registers of the program that a routine has in its own registers at the end of a loop."""
        held: dict[tuple[int, Value], int] = {}
        for item in self.code.items[first:last]:
            if isinstance(item, TimedLoop):
                held = {}
                continue
            held = {key: register for key, register in held.items() if register not in item.writes}
            if item.emulated is not None and item.emulated[0].called:
                held = _held(item)
        return held

    # Order

    def ordered(self, out: Nested) -> Nested:
        """The instructions as the compiler would order them: those that can move, between those that cannot."""
        items: Nested = []
        run: list[TimedOperation] = []
        for item in (*out, None):
            if isinstance(item, TimedOperation) and (item.movable or (item.unit in _MOVABLE and not item.part)):
                run.append(item)
                continue
            items += in_order(run, self.config, self.rules.window) if any(op.movable for op in run) else run
            run = []
            if item is not None:
                items.append(item)
        return items

    def finished(self, items: list[Item]) -> list[Item]:
        """The items with values put into registers, which are free again after their last use; the first operation of
        each instruction is marked to count as its issue."""
        inside = nesting(items)
        ends = {item.loop: i for i, item in enumerate(items) if isinstance(item, TimedLoop)}
        makers: dict[int, int] = {}
        uses: dict[int, int] = {}
        for i, item in enumerate(items):
            if isinstance(item, TimedOperation):
                for register in (*item.writes, *item.reads):
                    around = [loop for loop in inside[i] if loop not in inside[makers.setdefault(register, i)]]
                    uses[register] = max(uses.get(register, 0), ends[around[0]] if around else i)
        names: dict[int, int] = {}
        free: list[int] = []
        leaving: dict[int, list[int]] = {}
        met: set[int] = set()
        used = self.base
        kept: list[Item] = []
        for i, item in enumerate(items):
            if isinstance(item, TimedOperation):
                for register in (r for r in item.writes if r >= self.base and r not in names):
                    if not free:
                        free, used = [used], used + 1
                    names[register] = heappop(free)
                    leaving.setdefault(uses[register], []).append(names[register])
                home = len(inside[i]) == len(self.code.inside[item.place])
                first = item.part and home and item.place not in met
                met |= {item.place} if first else set()
                reads, writes, sources = (
                    tuple(names.get(r, r) for r in registers) for registers in (item.reads, item.writes, item.sources)
                )
                kept.append(
                    item.changed(
                        reads=reads,
                        writes=writes,
                        sources=sources,
                        part=item.part and not first,
                        early=item.part and not home,
                    )
                )
            else:
                kept.append(item)
            for name in leaving.pop(i, ()):
                heappush(free, name)
        return kept


def machine_operation(
    row: Row,
    config: Config,
    rules: Sequences,
    reads: tuple[int, ...],
    writes: tuple[int, ...],
    line: int,
    one_wavefront: dict[int, Periodic[int]],
) -> TimedOperation:
    """A machine instruction with its times; `one_wavefront` is what a shuffle costs each warp."""
    alu = config.alu
    if row.form is not None:
        return matrix(row.form, config, reads, writes, line)
    if row.kind == "shuffle":
        shared = config.shared
        sent = TimedOperation(Unit.SHARED, 1, shared.warp_interval, reads, writes, line, costs=one_wavefront)
        sent.sent, sent.slow = max(len(reads[:2]), 1) if config.reading_stages else 2, True
        sent.banks = odd_banks(reads[:2])
        ahead = 0 if config.reading_stages else shared.port_cycles
        sent.latency = max(rules.shuffle - ahead - shared.store_latency, 1)  # behind its wavefront
        return sent
    if row.kind in ("call", "return"):
        cycles = rules.returns if row.kind == "return" and rules.returns else rules.call
        returning = row.kind == "return" and rules.return_interval > 0
        return TimedOperation(Unit.CONTROL, cycles, 1, reads, writes, line, blocking=True, returning=returning)
    unit = Unit.ALU if row.kind == "alu" else Unit.FMA
    halves = row.kind == "float" and config.registers is not None and config.registers.halves
    interval = rules.float_interval if row.kind == "float" and not halves else alu.interval
    timed = TimedOperation(unit, alu.latency, interval, reads, writes, line)
    timed.operands, timed.sources = operands(reads, config), reads[:3]
    timed.halves, timed.writer = halves, bool(writes)
    return timed


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


def _goes_on(one: tuple[Sequence, dict[Value, int]], other: tuple[Sequence, dict[Value, int]]) -> bool:
    """Whether the next call adds to the result that this one leaves."""
    results = {str(name)[1:]: r for name, r in one[1].items() if str(name).startswith("d")}
    added = {str(name)[1:]: r for name, r in other[1].items() if str(name).startswith("c")}
    return one[0].number == other[0].number and results == added
