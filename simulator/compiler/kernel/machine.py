"""Machine instructions of a kernel, as ptxas would write them: items of the PTX become none, one or several.

PTX is not what runs. ptxas gives parameters, copies and extensions of registers no instruction. It absorbs a product
into the sum that needs it, and writes several instructions for one of 64 bits or for a quotient. `machine_code`
imitates this with the table of `simulator.compiler.kernel.rules`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from isa.forms.record import Time
from isa.ptx.instruction import Register
from simulator.compiler.kernel.regions import Executed, Micro, Region, Segment, chains
from simulator.compiler.kernel.rules import RULES, Rule
from simulator.execute.registry import longest
from simulator.program.kernel import Branch, Item, Kernel, Operation, Switch
from simulator.program.kernel.flow import blocks_of
from simulator.state.registers import register_place

PROMOTED = 32  # bytes of local memory that ptxas keeps in registers, choosing among them by comparisons
_BARRIERS = Time.BARRIER, Time.CLUSTER_BARRIER
_WAYS = (Time.LOAD, Time.LOAD_MATRIX, Time.STORE, Time.LOAD_GLOBAL, Time.STORE_GLOBAL, Time.COPY, Time.COPY_GROUP,
         Time.COPY_ARRIVAL, Time.MBARRIER)  # fmt: skip


@dataclass(frozen=True)
class MachineCode:
    """A kernel as machine instructions.

    Attributes:
        regions: the regions, in the order of places.
        region_of: for each basic block, the number of its region.
        block_of: for each place of the PTX, the number of its basic block.
        registers: how many registers are numbered.
        computes: for each place, whether its item is an instruction, and no branch.
    """

    regions: tuple[Region, ...]
    region_of: tuple[int, ...]
    block_of: tuple[int, ...]
    registers: int
    computes: tuple[bool, ...]

    @property
    def count(self) -> int:
        """How many machine instructions the kernel has."""
        return sum(len(region.micros) for region in self.regions)

    def way(self, steps: Sequence[Executed]) -> Iterator[Segment]:
        """The regions that a warp ran through."""
        wanted = [index for index, step in enumerate(steps) if self.computes[step.place]]
        for region, executions, taken in segments([steps[index].place for index in wanted], self):
            yield Segment(region, {place: wanted[index] for place, index in executions.items()}, taken)


def segments(places: Sequence[int], code: MachineCode) -> Iterator[Segment]:
    """The regions that a warp ran through, from the places of the items that it executed."""
    regions = [code.region_of[code.block_of[place]] for place in places]
    if not places:
        return
    begins = [0]
    begins += [
        index + 1
        for index, (one, other) in enumerate(pairwise(places))
        if regions[index] != regions[index + 1] or other <= one
    ]
    for begin, end in zip(begins, [*begins[1:], len(places)], strict=True):
        region = regions[begin]
        behind = code.region_of[min(code.regions[region].blocks[-1] + 1, len(code.region_of) - 1)]
        taken = end < len(places) and regions[end] != behind
        yield Segment(region, {places[index]: index for index in range(begin, end)}, taken)


def machine_code(kernel: Kernel) -> MachineCode:
    """The machine instructions of a kernel whose registers have numbers of their own
    (`simulator.program.kernel.link` with allocate=False)."""
    return _Writer(kernel).code()


class _Writer:
    """Writes the machine instructions of a kernel.

    Attributes:
        promoted: words of local memory that are kept in registers.
        kept: the registers that stand for local memory.
        defined, used: for each register, the places that write it and that read it.
        parent: for each register that shares a machine register with another one, that one.
        numbers: for each machine register, its number.
        names: for each register that is another name for others, these.
        taken: for each place whose instruction another one absorbs, the place of that one.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.items = kernel.items
        self.promoted = kernel.local_bytes // 4 if kernel.local_bytes <= PROMOTED else 0
        self.kept: tuple[int, ...] = ()
        self.blocks = blocks_of(kernel.items)
        self.rules = [self._rule(item) for item in kernel.items]
        self.defined: dict[str, list[int]] = defaultdict(list)
        self.used: dict[str, list[int]] = defaultdict(list)
        for item in kernel.items:
            if isinstance(item, Operation):
                for name in item.writes:
                    self.defined[name].append(item.index)
                for name in item.reads:
                    self.used[name].append(item.index)
            elif isinstance(item, Branch) and item.guard:
                self.used[item.guard.predicate.name].append(item.index)
            elif isinstance(item, Switch):
                self.used[item.register.name].append(item.index)
        self.parent: dict[str, str] = {}
        self.numbers: dict[str, int] = {}
        self.names: dict[str, tuple[str, ...]] = {}
        self.taken: dict[int, int] = {}
        self.block_of = [0] * len(kernel.items)
        for number, block in enumerate(self.blocks):
            for place in range(block.first, block.last + 1):
                self.block_of[place] = number

    @staticmethod
    def _rule(item: Item) -> Rule:
        if not isinstance(item, Operation):
            return Rule()
        return longest(item.instruction.form, RULES) or Rule()

    def code(self) -> MachineCode:
        """The whole kernel."""
        for item in self.items:
            if isinstance(item, Operation) and self.rules[item.index].free:
                self._rename(item)
        for item in self.items:
            if isinstance(item, Operation):
                self._take_in(item)
        micros = [self._micros(self.items[block.first : block.last + 1]) for block in self.blocks]
        regions = [Region(tuple(chain), tuple(self._joined(chain, micros))) for chain in chains(self.blocks, micros)]
        region_of = {block: number for number, region in enumerate(regions) for block in region.blocks}
        places = tuple(region_of[number] for number in range(len(self.blocks)))
        computes = tuple(isinstance(item, Operation) for item in self.items)
        return MachineCode(tuple(regions), places, tuple(self.block_of), len(self.numbers) + 1, computes)

    def _joined(self, chain: Sequence[int], micros: Sequence[Sequence[Micro]]) -> Iterator[Micro]:
        """The instructions of a region. Its inner branches become predicates of the instructions that they would have
        skipped."""
        guard: tuple[int, ...] = ()
        for block, following in zip(chain, (*chain[1:], -1), strict=True):
            last = self.items[self.blocks[block].last]
            ends = following < 0 or not isinstance(last, Branch)
            for micro in micros[block]:
                if ends or micro.item is not last:
                    yield replace(micro, reads=(*micro.reads, *guard), behind=True) if guard else micro
            if isinstance(last, Branch) and last.guard is not None:
                guard = self._registers((last.guard.predicate.name,))
            elif len(self.blocks[block].successors) == 1 and following == self.blocks[block].successors[0]:
                guard = ()

    def _rename(self, item: Operation) -> None:
        """Makes the results of a copy other names for its sources. Registers that several instructions write, as the
        variables of a loop are, share one machine register with what is copied to them."""
        sources = [name for name in item.reads if register_place(name) is not None]
        if item.guard is not None or any(
            isinstance(op, Register) and _special(op.name) for op in item.instruction.operands
        ):
            return
        for name in item.writes:
            if len(self.defined[name]) == 1 and all(len(self.defined[source]) <= 1 for source in sources):
                self.names[name] = tuple(sources)
            elif len(sources) == 1 and len(self.used[sources[0]]) == 1 and self.defined[sources[0]]:
                self.parent[self._root(sources[0])] = self._root(name)
            else:
                self.rules[item.index] = Rule()  # a constant for a variable
                continue
        if all(name not in self.names and not sources for name in item.writes):
            self.rules[item.index] = Rule()

    def _take_in(self, item: Operation) -> None:
        """Lets the only instruction that needs a result absorb the one that computes it, if it has not absorbed
        another."""
        rule = self.rules[item.index]
        if not rule.into or len(item.writes) != 1 or item.index in self.taken.values() or item.guard is not None:
            return
        (name,) = item.writes
        users = self.used[name]
        if len(users) != 1 or len(self.defined[name]) != 1 or self.block_of[users[0]] != self.block_of[item.index]:
            return
        user = self.items[users[0]]
        if isinstance(user, Operation) and user.opcode.startswith(rule.into) and user.index not in self.taken.values():
            self.taken[item.index] = user.index

    def _micros(self, items: Sequence[Item]) -> list[Micro]:
        """The machine instructions of a basic block."""
        micros: list[Micro] = []
        given: dict[int, tuple[int, ...]] = {}
        for item in items:
            rule = self.rules[item.index]
            if isinstance(item, Operation):
                reads = (*self._registers(item.reads), *given.pop(item.index, ()))
                writes = self._registers(item.writes)
                if item.index in self.taken:
                    given[self.taken[item.index]] = reads
                    continue
                if rule.free and not _reads_special(item):
                    continue
                if self.promoted and "local" in item.instruction.form.qualifiers:
                    micros += self._chosen(item, reads, writes)
                    continue
                micros += _written(item, rule, reads, writes, takes=item.index in self.taken.values())
            elif not (isinstance(item, Branch) and item.target == item.index + 1):
                guard = (item.guard.predicate.name,) if item.guard else ()
                more = (item.register.name,) if isinstance(item, Switch) else ()
                micros.append(Micro(item, Time.INTEGER, self._registers((*guard, *more)), ()))
        return micros

    def _chosen(self, item: Operation, reads: tuple[int, ...], writes: tuple[int, ...]) -> Iterator[Micro]:
        """An access to a small array in local memory, which ptxas keeps in registers. A load compares its index with
        that of each element and moves the register of that element; a store takes no instruction."""
        if not writes:
            self.kept = tuple(dict.fromkeys((*self.kept, *reads)))
            return
        test = self.numbers.setdefault(f"{item.index} is the index", len(self.numbers))
        for _ in range(self.promoted):
            yield Micro(item, Time.INTEGER, reads, (test,), tests=True)
        for _ in range(self.promoted):
            yield Micro(item, Time.EITHER, (test, *self.kept), writes)

    def _registers(self, names: Sequence[str]) -> tuple[int, ...]:
        """The numbers of registers; nothing for parameters and constants."""
        found: dict[int, None] = {}
        for name in names:
            if name in self.names:
                found.update(dict.fromkeys(self._registers(self.names[name])))
            elif register_place(name) is not None:
                root = self._root(name)
                found[self.numbers.setdefault(root, len(self.numbers))] = None
        return tuple(found)

    def _root(self, name: str) -> str:
        """The register that stands for all that share a machine register with this one."""
        while name in self.parent and self.parent[name] != name:
            name = self.parent[name]
        return name


def _special(name: str) -> bool:
    return name.startswith("%") and register_place(name) is None


def _reads_special(item: Operation) -> bool:
    return any(isinstance(operand, Register) and _special(operand.name) for operand in item.instruction.operands)


def _written(
    item: Operation, rule: Rule, reads: tuple[int, ...], writes: tuple[int, ...], *, takes: bool
) -> list[Micro]:
    """The machine instructions of an item. Several of them depend on one another: the first reads the operands."""
    form = item.instruction.form
    if form.is_matrix or form.time in (*_WAYS, *_BARRIERS) or form.behind_issue:
        return [Micro(item, form.time, reads, writes, own=True)]
    slow = rule.slow or form.time is Time.SHUFFLE or _reads_special(item)
    count = rule.taking if takes else max(rule.instructions, 1)
    time = form.time if form.time.table == "alu" else Time.INTEGER
    tests = any(name.startswith("%p") for name in item.writes)
    if count == 1:
        return [Micro(item, time, reads, writes, slow=slow, tests=tests)]
    if count == 2:  # two halves, or two steps: both read, both write
        return [Micro(item, time, reads, writes, slow=slow, tests=tests), Micro(item, time, reads, writes, tests=tests)]
    return [
        Micro(item, time, (*reads, *writes) if number else reads, writes, slow=slow and not number)
        for number in range(count)
    ]
