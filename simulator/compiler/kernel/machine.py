"""Machine instructions of a kernel, as ptxas would write them: which items of the PTX become none, one or several.

PTX is not what runs. ptxas gives parameters, copies and extensions of registers no instruction, takes a product into
the sum that needs it, and writes several instructions for one of 64 bits or for a quotient. `machine_code` imitates it
with a table. Counts are those of the machine code of ptxas 13.0 for sm_90a (read with nvdisasm, November 2026).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from isa.forms.mma import MmaForm
from isa.forms.record import Time
from isa.ptx.instruction import Register
from simulator.compiler.kernel.executed import Executed, Segment
from simulator.execute.registry import longest
from simulator.program.kernel import Branch, Item, Kernel, Operation, Switch
from simulator.program.kernel.flow import Block, blocks_of
from simulator.state.registers import register_place


class Rule(NamedTuple):
    """What becomes of a PTX instruction.

    Attributes:
        instructions: how many machine instructions it becomes.
        slow: whether its result comes from a unit beside the pipes, such as that of the special functions.
        free: whether it is another name for its sources, and becomes no instruction at all.
        into: opcodes of the instructions that take it in, if nothing else needs its result.
        taking: machine instructions of this one when it takes another in.
    """

    instructions: int = 1
    slow: bool = False
    free: bool = False
    into: tuple[str, ...] = ()
    taking: int = 1


_SUMS, _WIDE_SUMS = ("add.s32", "add.u32", "sub.s32", "sub.u32"), ("add.s64", "add.u64")
_FLOATS = ("f16", "f16x2", "bf16", "bf16x2", "f32", "f64")
_LOGIC = ("and.b32", "or.b32", "xor.b32")
_TWO, _SLOW, _FREE = Rule(2), Rule(slow=True), Rule(0, free=True)
RULES: Mapping[str, Rule] = {
    "add": Rule(), "add.s32": Rule(into=_SUMS), "add.u32": Rule(into=_SUMS), "add.s64": Rule(2), "add.u64": Rule(2),
    "sub.s64": _TWO, "sub.u64": _TWO, "neg.s64": _TWO,
    "mul.lo.s32": Rule(into=_SUMS), "mul.lo.u32": Rule(into=_SUMS), "mul.wide": Rule(into=_WIDE_SUMS),
    "mul.lo.s64": Rule(4), "mul.lo.u64": Rule(4), "mul.hi.s64": Rule(8), "mul.hi.u64": Rule(8),
    "mad.lo.s64": Rule(4), "mad.lo.u64": Rule(4), "mul.hi": Rule(),
    "shl.b32": Rule(into=(*_SUMS, "or.b32")), "shl.b64": Rule(2, into=_WIDE_SUMS), "shr.u64": _TWO, "shr.s64": _TWO,
    **{name: Rule(into=_LOGIC) for name in _LOGIC},
    "and.b64": _TWO, "or.b64": _TWO, "xor.b64": _TWO, "not.b64": _TWO, "selp.b64": _TWO,
    **{f"setp.{order}.{sign}64": _TWO for order in ("eq", "ne", "lt", "le", "gt", "ge") for sign in "bsu"},
    "min.s64": Rule(4), "min.u64": Rule(4), "max.s64": Rule(4), "max.u64": Rule(4), "abs.s64": Rule(4),
    "div.u32": Rule(17), "div.s32": Rule(22), "rem.u32": Rule(17), "rem.s32": Rule(22), "div.u16": Rule(10),
    "div.s16": Rule(12), "rem.u16": Rule(10), "rem.s16": Rule(12), "div.u64": Rule(75), "div.s64": Rule(85),
    "rem.u64": Rule(75), "rem.s64": Rule(85), "bfe": _TWO, "bfi": _TWO, "sad": _TWO, "bfind": _SLOW,
    "clz": Rule(2, slow=True), "popc": _SLOW, "brev": _SLOW, "fns": Rule(40),
    "mov": _FREE, "cvta": _FREE, "ld.param": _FREE, "cvt.u64.u32": _FREE, "cvt.u32.u64": _FREE, "cvt.u16.u32": _FREE,
    "cvt.u32.u16": _FREE, "cvt.u64.u16": _FREE, "cvt.s64.s32": Rule(into=_WIDE_SUMS), "cvt.u16.u64": _FREE,
    "cvt.rn.f32.s32": _SLOW, "cvt.rn.f32.u32": _SLOW, "cvt.rzi.s32.f32": _SLOW, "cvt.rzi.u32.f32": _SLOW,
    "cvt.f32.f16": Rule(), "cvt": Rule(),
    **{f"neg.{kind}": Rule(into=("fma", "add", "sub", "mul")) for kind in _FLOATS},
    "rcp.approx": _SLOW, "rsqrt.approx": _SLOW, "sqrt.approx": Rule(2, slow=True), "ex2.approx": Rule(2, slow=True),
    "lg2.approx": Rule(2, slow=True), "sin.approx": Rule(2, slow=True), "cos.approx": Rule(2, slow=True),
    "tanh.approx": _SLOW, "div.approx": Rule(2, slow=True), "div.full": Rule(4, slow=True),
    "div.rn": Rule(10, slow=True), "rcp.rn": Rule(8, slow=True), "sqrt.rn": Rule(9, slow=True),
}  # fmt: skip
PROMOTED = 32  # bytes of local memory that ptxas keeps in registers, choosing among them by comparisons
PREDICATED = 7  # machine instructions that ptxas puts behind a predicate rather than behind a branch
_WHOLE = (Time.BARRIER, Time.CLUSTER_BARRIER, Time.FENCE, Time.SHUFFLE, Time.TENSOR)  # for all threads of a warp
_WAYS = (Time.LOAD, Time.LOAD_MATRIX, Time.STORE, Time.LOAD_GLOBAL, Time.STORE_GLOBAL, Time.COPY, Time.COPY_GROUP,
         Time.COPY_ARRIVAL, Time.MBARRIER)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Micro:
    """A machine instruction.

    Attributes:
        item: that it comes from.
        time: its class.
        reads, writes: its registers, by number.
        own: whether it is the one that accesses memory, multiplies or waits, for which the item stands; the others
            take an integer pipe.
        slow: as in `Rule`.
        tests: whether it writes a predicate.
        behind: whether it stands behind a predicate that has taken the place of a branch.
        number: its index in machine code that is given; None where the PTX stands for it.
        matrix: the matrix instruction that it is, where the item is another that the chip does not have.
        words: of an access to local memory that the PTX does not have: registers of a thread.
    """

    item: Item
    time: Time
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    own: bool = False
    slow: bool = False
    tests: bool = False
    behind: bool = False
    number: int | None = None
    matrix: MmaForm | None = None
    words: int = 0

    @property
    def key(self) -> int:
        """What its execution is looked up by: its own index, or the place of its item."""
        return self.item.index if self.number is None else self.number


@dataclass(frozen=True)
class Region:
    """Blocks that ptxas makes one of: a block, short ones that it puts behind a predicate instead of a branch, and what
    follows them.

    Attributes:
        blocks: their numbers, in the order of places.
        micros: the machine instructions, in the order of the PTX; the branch at its end is the last.
        first: the index of the first in machine code that is given, in whose order they are; else -1.
    """

    blocks: tuple[int, ...]
    micros: tuple[Micro, ...]
    first: int = -1


@dataclass(frozen=True)
class MachineCode:
    """A kernel as machine instructions.

    Attributes:
        regions: in the order of places.
        region_of: by number of a basic block, the number of its region.
        block_of: by place, the number of its basic block.
        registers: how many registers are numbered.
        computes: by place, whether it is an instruction, and no branch.
    """

    regions: tuple[Region, ...]
    region_of: tuple[int, ...]
    block_of: tuple[int, ...]
    registers: int
    computes: tuple[bool, ...]

    @property
    def count(self) -> int:
        """Machine instructions of the whole."""
        return sum(len(region.micros) for region in self.regions)

    def way(self, steps: Sequence[Executed]) -> Iterator[Segment]:
        """The regions that a warp ran through."""
        wanted = [index for index, step in enumerate(steps) if self.computes[step.place]]
        for region, executions, taken in segments([steps[index].place for index in wanted], self):
            yield Segment(region, {place: wanted[index] for place, index in executions.items()}, taken)


def segments(places: Sequence[int], code: MachineCode) -> Iterator[Segment]:
    """The regions that a warp ran through, from the places of the items that it executed."""
    regions = [code.region_of[code.block_of[place]] for place in places]
    begins = [0] if places else []
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
    def __init__(self, kernel: Kernel) -> None:
        self.items = kernel.items
        self.promoted = kernel.local_bytes // 4 if kernel.local_bytes <= PROMOTED else 0  # words
        self.kept: tuple[int, ...] = ()  # registers that stand for local memory
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
        self.names: dict[str, tuple[str, ...]] = {}  # what a register is another name for
        self.taken: dict[int, int] = {}  # by place, the place of the instruction that takes it in
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
        """The instructions of a region: its inner branches become predicates of what they would have passed over."""
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
        """Lets the only user of a result take the instruction in, if it has not taken another."""
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
        """An access to a small array in local memory, which is in registers: a load compares its index with each place
        and moves that register; a store renames."""
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
        while name in self.parent and self.parent[name] != name:
            name = self.parent[name]
        return name


def chains(blocks: Sequence[Block], micros: Sequence[Sequence[Micro]]) -> Iterator[list[int]]:
    """The numbers of the blocks that ptxas makes one of, chain by chain."""
    before: list[set[int]] = [set() for _ in blocks]
    for number, block in enumerate(blocks):
        for to in block.successors:
            before[to].add(number)

    def short(number: int, head: int) -> bool:
        alone = before[number] == {head} and len(blocks[number].successors) == 1
        return alone and len(micros[number]) <= PREDICATED and not any(m.time in _WHOLE for m in micros[number])

    done: set[int] = set()
    for first in range(len(blocks)):
        if first in done:
            continue
        chain = [first]
        while added := _further(chain[-1], blocks, before, short):
            if done.intersection(added) or first in added:
                break
            chain += added
        done.update(chain)
        yield chain


def _further(
    head: int, blocks: Sequence[Block], before: Sequence[set[int]], short: Callable[[int, int], bool]
) -> list[int]:
    """The blocks that join a region behind `head`: those behind a predicate, and the one where all meet."""
    after = blocks[head].successors
    if len(after) == 1:
        return [after[0]] if after[0] == head + 1 and before[after[0]] == {head} else []
    if len(after) != 2:
        return []
    one, other = after
    if short(one, head) and blocks[one].successors == (other,) and before[other] == {head, one}:
        return [one, other]
    if short(one, head) and short(other, head) and blocks[one].successors == blocks[other].successors:
        (meeting,) = blocks[one].successors
        if before[meeting] == {one, other}:
            return [one, other, meeting]
    return []


def _special(name: str) -> bool:
    return name.startswith("%") and register_place(name) is None


def _reads_special(item: Operation) -> bool:
    return any(isinstance(operand, Register) and _special(operand.name) for operand in item.instruction.operands)


def _written(
    item: Operation, rule: Rule, reads: tuple[int, ...], writes: tuple[int, ...], *, takes: bool
) -> list[Micro]:
    """The machine instructions of an item: a chain, whose first reads and whose last writes."""
    form = item.instruction.form
    if form.is_matrix or form.time in _WAYS or form.time is Time.BARRIER or form.asynchronous:
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
