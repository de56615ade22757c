"""How one warp of an H100 reads registers, cycle by cycle and in the plainest way: what the engine, which skips cycles
and keeps numbers in bits, is compared with. Sequences are named as in `simulator/studies/validation/registers.py`.

An instruction goes through stages, a cycle each, and is in the last until all its operands have been read; as long as
that takes, no stage moves and nothing issues. A bank gives a register a cycle: to the cycles of matrix instructions,
then to the oldest instruction that asks and finds the place of its slot and bank empty. What another one has written is
in the register file some cycles behind the stages; an instruction in the last one is given it before. Accesses to
shared memory leave the stages for a port that reads every second cycle, in cycles that matrix instructions leave free
which have begun, and before those that have not.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from isa import mma_form
from simulator.chip.config import Config
from simulator.studies.validation import pieces, registers
from simulator.studies.validation.pieces import FORMS as MATRIX

ALU, HEAVY, LIGHT, TENSOR = "alu", "heavy", "light", "tensor"  # pipes: of FMA two halves
PIPES = {
    **dict.fromkeys(("lop3", "iadd3", "compare"), (ALU,)),
    **dict.fromkeys(("imad", "add"), (HEAVY,)),
    **dict.fromkeys(("ffma", "fadd"), (LIGHT, HEAVY)),
}
ZERO = 255
RESULTS = registers.RESULTS


@dataclass
class Reader:
    """An instruction in a stage.

    Attributes:
        missing: slots and banks of the operands that it has not read.
        places: slots and banks of all its operands.
        writes: whether it writes a register.
        result: the register that others may read it from; alu: whether they find it in the pipe of integers.
        filed, given: of operands that others have written, when they are in the register file, and when an instruction
            in the last stage is given them.
    """

    missing: list[tuple[int, int]] = field(default_factory=list)
    places: set[tuple[int, int]] = field(default_factory=set)
    writes: bool = False
    result: int = ZERO
    alu: bool = False
    filed: dict[tuple[int, int], int] = field(default_factory=dict)
    given: dict[tuple[int, int], int] = field(default_factory=dict)


@dataclass
class Matrix:
    """A matrix instruction that reads.

    Attributes:
        banks: for each bank the cycles in which it reads a register of that bank.
        late: cycles in which an instruction that writes a register may not leave the last stage.
        metadata: the bank of metadata that it has not read.
        entered: whether the stages have moved since it issued.
        cycle: cycles since then in which it did not wait for metadata.
    """

    banks: tuple[set[int], set[int]]
    late: set[int]
    metadata: int | None
    entered: bool = False
    cycle: int = 0


@dataclass
class Access:
    """An access to shared memory with registers to read.

    Attributes:
        banks: of its registers, in order.
        slow: whether the port takes a cycle more to begin: a store.
        moved: cycles in which it has moved in the stages; arrived: when it came to the port, counted as `Chip.time`.
        begins: when the port reads its first register, at the soonest.
    """

    banks: list[int]
    slow: bool
    moved: int = 0
    arrived: int | None = None
    begins: int | None = None


class Chip:
    """A sub-core with one warp.

    Attributes:
        now, lost: cycles in which the stages moved, and in which they stood still.
        free: for each pipe when it takes the next instruction, counted as `now` is.
        result: when the last result of the tensor pipe is out, behind the cycle in which it is free.
        accesses: those that have registers to read; port: when it can read the next, and `read`: when it read the last;
            postponed: the bank that it reads in the next cycle.
        left: by register when the instruction that wrote it left the stages, and whether it is one of the pipe of
            integers; issued: how many instructions have issued.
        kept: registers that need not be read again, by slot and bank; of matrix instructions the first of A and B, and
            how many, by "a" and "b".
    """

    def __init__(self, config: Config) -> None:
        assert config.registers is not None
        self.config, self.registers, self.depth = config, config.registers, config.registers.stages
        self.now = self.lost = self.result = 0
        self.free = dict.fromkeys((ALU, HEAVY, LIGHT, TENSOR), 0)
        self.stages: list[Reader | None] = [None] * self.depth
        self.matrices: list[Matrix] = []
        self.kept: dict[object, object] = {}
        self.left: dict[int, tuple[int, bool]] = {}
        self.issued = 0
        self.known = pieces.operations(config)
        self.accesses: list[Access] = []
        self.port, self.read = 0, -9
        self.postponed: int | None = None

    @property
    def time(self) -> int:
        """Cycles so far."""
        return self.now + self.lost

    def able(self, name: str) -> bool:
        """Whether a pipe takes the instruction now."""
        kind = name.partition("@")[0]
        if kind in pieces.ACCESSES:
            return True
        if kind in MATRIX:
            tensor = self.config.tensor_class(mma_form(MATRIX[kind]))
            assert tensor is not None
            return self.free[TENSOR] + max(self.result - tensor.result_from, 0) <= self.now
        return min(self.free[pipe] for pipe in PIPES[kind.split()[0]]) <= self.now

    def issue(self, name: str) -> None:
        """Lets it issue now."""
        self.issued += 1
        kind, _, marks = name.partition("@")
        if kind in pieces.ACCESSES:
            sends = self.known[kind].access
            assert sends is not None
            self.accesses.append(Access([sends.banks >> place & 1 for place in range(sends.sent)], sends.slow))
            self.stages[0] = Reader()
            return
        if kind in MATRIX:
            self.stages[0] = Reader()
            self._matrix(kind, marks.split(","))
            return
        kind, *operands = name.split()
        pipe = next(pipe for pipe in PIPES[kind] if self.free[pipe] <= self.now)
        self.free[pipe] = self.now + self.config.alu.interval
        slots = (0, 2) if kind == "fadd" else (0, 1, 2)
        self.stages[0] = reader = Reader(writes=kind != "compare", alu=PIPES[kind] == (ALU,))
        if kind not in ("compare", "add"):
            reader.result = RESULTS[(self.issued - 1) % len(RESULTS)]
        before = set[int]()
        for slot, text in zip(slots, operands, strict=False):
            register, place = int(text.rstrip("r")), (slot, int(text.rstrip("r")) % 2)
            if register == ZERO:
                continue
            reader.places.add(place)
            if self.kept.get(place) != register and register not in before:
                reader.missing.append(place)
            self._keep(place, register, text.endswith("r"))
            before.add(register)
            if register in self.left:
                left, alu = self.left[register]
                reader.filed[place] = left + self.registers.stored
                reader.given[place] = left + self.config.alu.latency + (alu is not reader.alu)

    def _keep(self, place: object, registers: object, reuse: bool) -> None:
        self.kept.pop(place, None)
        if reuse:
            self.kept[place] = registers

    def _matrix(self, kind: str, marks: list[str]) -> None:
        form = mma_form(MATRIX[kind])
        tensor = self.config.tensor_class(form)
        assert tensor is not None
        counts = {role.name: role.count for role in form.roles}
        named = {"a": 4, "b": 8, "e": 2}
        named |= {mark[0]: int(mark[1:]) for mark in marks if mark and mark[0] != "r"}
        even, odd = set(tensor.even), set(tensor.odd)
        for name, cycles in (("a", set(tensor.a)), ("b", set(tensor.b))):
            if named[name] % 2:  # one register, which is in the other bank
                moved = cycles & (even - odd)
                even, odd = even - moved, odd | moved
        for name, cycles in (("a", set(tensor.a)), ("b", set(tensor.b))):
            operand = named[name], counts[name]
            if self.kept.get(name) == operand:
                even, odd = even - cycles, odd - cycles
            self._keep(name, operand, f"r{name}" in marks)
        if named.get("c") == ZERO:
            read = {*tensor.a, *tensor.b}
            even, odd = even & read, odd & read
        late = {cycle + self.depth - 1 for cycle in tensor.late}
        self.matrices.append(Matrix((even, odd), late, named["e"] % 2 if tensor.sparse else None))
        self.free[TENSOR], self.result = self.now + tensor.interval, tensor.result_until

    def cycle(self) -> None:
        """A cycle: what issues in it has issued."""
        taken = accessed = self._access()
        waits = late = False
        for matrix in self.matrices:
            if not matrix.entered:
                continue
            if matrix.metadata is not None:
                waits = True
                if matrix.metadata not in taken:
                    taken = taken | {matrix.metadata}
                    matrix.metadata = None
                continue
            if accessed and not matrix.cycle:
                waits = True
                continue
            matrix.cycle += 1
            taken = taken | {bank for bank in (0, 1) if matrix.cycle in matrix.banks[bank]}
            late = late or matrix.cycle in matrix.late
        last = self.stages[-1]
        if late and last and last.writes:  # it is given nothing, and what comes to the register file now it reads next
            for place in [place for place, cycle in last.filed.items() if cycle >= self.time]:
                last.filed[place] = max(last.filed[place], self.time + 1)
                last.given[place] = max(last.given[place], self.time + 1)
        for bank in {0, 1} - taken:
            if self._give(bank):
                taken = taken | {bank}
        stands_still = bool(last and (last.missing or (late and last.writes)))
        for matrix in self.matrices:
            if not (matrix.entered or stands_still or matrix.metadata in taken):
                matrix.metadata = None
        self._move(waits, stands_still)

    def _move(self, waits: bool, stands_still: bool) -> None:
        """Moves the stages: not if the last one waits; only those ahead of it, if a matrix instruction waits."""
        time, last = self.time, self.stages[-1]
        if last is not None and not stands_still:
            self.left[last.result] = time, last.alu
        for access in () if stands_still else self.accesses:
            access.moved += 1
            access.arrived = time + 1 if access.moved == self.depth else access.arrived
        if stands_still or waits:
            self.lost += 1
            if not stands_still:
                self.stages = [*self.stages[:2], *[None] * (self.depth > 2), *self.stages[2:-1]]
            return
        self.now += 1
        self.stages = [None, *self.stages[:-1]]
        for matrix in self.matrices:
            matrix.entered = True

    def _access(self) -> set[int]:
        """Lets the port read; returns the bank."""
        taken = set() if self.postponed is None else {self.postponed}
        self.postponed, time = None, self.time
        if not self.accesses or (access := self.accesses[0]).arrived is None:
            return taken
        if access.begins is None:
            if not access.slow or access.arrived <= self.read:
                access.begins = max(time, self.port)
            elif time >= self.port:
                access.begins = time + 1
        begun = [matrix for matrix in self.matrices if matrix.cycle]
        ahead = {cycle - matrix.cycle for matrix in begun for bank in matrix.banks for cycle in bank}
        if access.begins is None or time < max(access.begins, self.port) or ahead & {1, 3}:
            return taken
        bank = access.banks.pop(0)
        self.port, self.read = time + 2, time
        self.accesses = self.accesses[not access.banks :]
        if any(matrix.entered and matrix.metadata is not None for matrix in self.matrices):
            self.postponed = bank
            return taken
        return taken | {bank}

    def _give(self, bank: int) -> bool:
        """Gives one register of a bank, if an instruction can take it."""
        occupied, last, time = set[tuple[int, int]](), self.stages[-1], self.time
        for reader in reversed(self.stages):
            if reader is None:
                continue
            asked = [place for place in reader.missing if place[1] == bank and place not in occupied]
            able = [place for place in asked if reader.filed.get(place, -1) <= time]
            if reader is last and not able:
                able = [place for place in asked if reader.given.get(place, -1) <= time]
            if able:
                reader.missing.remove(able[0])
                if reader is last and reader.filed.get(able[0]) == time:  # just come: what else is to be given is not
                    reader.given |= {place: reader.filed[place] for place in asked if place in reader.filed}
                return True
            occupied |= reader.places
        return False


def late(config: Config, events: tuple[tuple[str, int], ...], far: int) -> int:
    """By how many cycles an instruction issues late that stands `far` cycles behind all."""
    chip, due = Chip(config), 0
    for name, gap in events:
        while chip.now < due or not chip.able(name):
            chip.cycle()
        chip.issue(name)
        due = chip.now + (gap or far)
    while chip.now < due:
        chip.cycle()
    return chip.time - far - sum(gap for _, gap in events)
