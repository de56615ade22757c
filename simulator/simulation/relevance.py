"""What of a program's values decides its time: the operations and registers from which addresses, guards and what
asynchronous instructions are told are computed. The others need not be executed where only time is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from isa.forms.mma import is_mma
from isa.ptx.instruction import Address, Instruction, Operand, Predicate, Register, TensorPlace, Vector
from simulator.execute.cta_state import Executor
from simulator.execute.dispatch import executor
from simulator.execute.registry import of_operands_alone
from simulator.execute.traffic import Traffic, by_addresses, traffic_of
from simulator.program.lowering import Code, LoopEnd, Operation
from simulator.state.registers import Numbering

_METADATA = ("e", "scale_a_ids", "scale_b_ids")  # operands of matrix instructions that can be undefined


@dataclass(frozen=True, slots=True)
class Use:
    """What an operation has to do with the time.

    Attributes:
        operation: the operation.
        reads, writes: registers, as bits of a number: those whose values decide something, and all that it writes.
        needed: whether its result decides something later.
        effect: whether it does something else that counts.
        traffic: the memory that it accesses, where addresses say all about it.
    """

    operation: Operation
    reads: int
    writes: int
    needed: bool
    effect: bool
    traffic: Traffic | None


@dataclass
class Relevance:
    """What decides the time of a code.

    Attributes:
        live: for each place of the code (and the one behind it) the registers, as bits of a number, whose values there
            decide something from then on.
        uses: for each place, the operation's part; None for the end of a loop.
        shared, outside: whether what shared memory, or global memory, holds decides something.
    """

    live: list[int]
    uses: list[Use | None] = field(default_factory=list)
    shared: bool = False
    outside: bool = False

    def registers(self, place: int) -> tuple[int, ...]:
        """The numbers of the registers that are live at a place, ascending."""
        bits, numbers = self.live[place], []
        while bits:
            lowest = bits & -bits
            numbers.append(lowest.bit_length() - 1)
            bits ^= lowest
        return tuple(numbers)


def relevance(codes: Sequence[Code], numbering: Numbering, *, undefined: bool, memory: bool = False) -> list[Relevance]:
    """What decides the time of each of a program's codes, which share memory; with `undefined`, also what decides which
    undefined cases are met; with `memory`, all that memory holds is taken to decide something."""
    shared = outside = memory
    while True:
        analyses = [_Analysis(code, numbering, undefined, shared, outside).result() for code in codes]
        found = any(each.shared for each in analyses), any(each.outside for each in analyses)
        if found == (shared, outside):
            return analyses
        shared, outside = found[0] or shared, found[1] or outside


class _Analysis:
    """Works backwards through a code until nothing changes any more: loops lead back."""

    def __init__(self, code: Code, numbering: Numbering, undefined: bool, shared: bool, outside: bool) -> None:
        self.code, self.numbering, self.undefined = code, numbering, undefined
        self.shared, self.outside = shared, outside
        self.memory = Relevance([0] * (len(code.items) + 1), shared=shared, outside=outside)
        self.static = [None if isinstance(item, LoopEnd) else self.own(item) for item in code.items]

    def own(self, op: Operation) -> tuple[int, int, int, int, Traffic | None, bool]:
        """Of an operation: the registers that it reads in any case, those that its result depends on, those that it
        writes and that guard it, its traffic, and whether it has an effect."""
        instruction, form = op.instruction, op.instruction.form
        writes, every = _bits(op.writes), _bits(op.reads)
        guard = self.named(instruction, ()) if instruction.guard else 0
        traffic = traffic_of(instruction)
        if of_operands_alone(form):
            return 0, every, writes, guard, None, False
        if is_mma(form):
            fixed = self.named(instruction, _METADATA) if self.undefined else 0
            return fixed, every, writes, guard, None, self.undefined
        if traffic is None:
            return every, every, writes, guard, None, True
        if traffic.size:
            return every, every, writes, guard, traffic, True
        fixed = self.named(instruction, (*(site.role for site in traffic.sites), "filled"))
        for site in traffic.sites:
            if site.writes and (self.shared if site.shared else self.outside):
                fixed |= self.named(instruction, traffic.data)
        return fixed, fixed, writes, guard, traffic, True

    def named(self, instruction: Instruction, roles: Iterable[str]) -> int:
        """The registers of these operands and of the guard, as bits."""
        operands = [instruction.by_role[role] for role in roles if role in instruction.by_role]
        names = [name for operand in operands for name in _names(operand)]
        if instruction.guard is not None:
            names.append(instruction.guard.predicate.name)
        return _bits(self.numbering.numbers(names))

    def result(self) -> Relevance:
        """The analysis, once nothing changes any more."""
        live, items = self.memory.live, self.code.items
        changed = True
        while changed:
            changed = False
            for place in range(len(items) - 1, -1, -1):
                before = self.before(place)
                changed |= before != live[place]
                live[place] = before
        for place, item in enumerate(items):
            self.memory.uses.append(None if isinstance(item, LoopEnd) else self.use(place, item))
        return self.memory

    def before(self, place: int) -> int:
        """The registers that are live before an item, from those behind it."""
        live, item, static = self.memory.live, self.code.items[place], self.static[place]
        if static is None:
            assert isinstance(item, LoopEnd)
            return live[item.start] | live[place + 1]
        fixed, sources, writes, guard, _, effect = static
        needed = bool(writes & live[place + 1])
        after = live[place + 1] if guard else live[place + 1] & ~writes
        return after | (sources | guard if needed else 0) | fixed | (guard if effect else 0)

    def use(self, place: int, item: Operation) -> Use:
        static = self.static[place]
        assert static is not None
        fixed, sources, writes, guard, traffic, effect = static
        needed = bool(writes & self.memory.live[place + 1])
        if needed and traffic is not None:
            for site in traffic.sites:
                self.memory.shared |= site.shared
                self.memory.outside |= not site.shared
        if self.shared and traffic is not None and any(site.writes and site.shared for site in traffic.sites):
            self.memory.outside |= any(not site.writes for site in traffic.sites)  # a copy brings what it reads
        reads = fixed | (sources | guard if needed else 0) | (guard if effect else 0)
        return Use(item, reads, writes, needed, effect, traffic)


def _bits(numbers: Iterable[int]) -> int:
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits


def _names(operand: Operand) -> tuple[str, ...]:
    """The registers that an operand names."""
    match operand:
        case Register():
            return (operand.name,)
        case Address():
            return () if operand.base is None else (operand.base.name,)
        case TensorPlace():
            return (*_names(operand.map), *_names(operand.coordinates))
        case Predicate():
            return (operand.register.name,)
        case Vector():
            return tuple(element.name for element in operand.elements if isinstance(element, Register))
    return ()


# Execution for time alone


def light_executors(relevance: Relevance) -> dict[int, Executor | None]:
    """By index of each operation of a code what executes it; None: it need not be executed."""
    return {use.operation.index: _light(use, relevance) for use in relevance.uses if use is not None}


def _light(use: Use, relevance: Relevance) -> Executor | None:
    instruction = use.operation.instruction
    if use.operation.barrier is not None:
        return executor(instruction)  # which the interpreter lets arrive
    traffic = use.traffic
    if not (use.effect or use.needed):
        return None
    if traffic is None or use.needed or traffic.size or "filled" in instruction.by_role:
        return executor(instruction)
    moves = any(site.writes and (relevance.shared if site.shared else relevance.outside) for site in traffic.sites)
    return executor(instruction) if moves else by_addresses(instruction, traffic)
