"""Products and the sums that take them become fused multiply-adds, as ptxas makes them unless it is told --fmad=false.

PTX leaves this open: "mul/add and mul/sub sequences with no rounding modifiers may be optimized to use
fused-multiply-add instructions" (PTX ISA 9.0, 9.7.3.5). What ptxas 13.0 does was read off the machine code of random
programs, and measured (H200, November 2026: tests/golden/contraction_h200.npz):

* A product and a sum or difference of the same type and `.ftz`, both without a rounding, the product without `.sat`, in
  the same basic block. Copies and negations between them do not matter; only what reads a `neg.ftz` does not count as a
  reader of the product, and a product that a `neg.ftz` reads has no other reader, or is not taken.
* First, in the order of the sums, each takes the first of its operands that is a product which nothing else reads.
* Then each that has taken none takes the first product of which every reader is a sum: one that takes it, or that has
  taken nothing so far. So a product can be taken several times.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import NamedTuple

from isa import decode
from isa.forms.record import Form
from isa.ptx.instruction import Operand, Register
from simulator.program.kernel.flow import Block, blocks_of
from simulator.program.kernel.items import Branch, Item, Operation, Switch

_TYPES = "f16x2|bf16x2|f16|bf16|f32|f64"
_PRODUCT = re.compile(rf"mul(\.ftz)?\.({_TYPES})")
_SUM = re.compile(rf"(add|sub)(\.ftz)?(\.sat)?\.({_TYPES})")
_COPY = re.compile(rf"(?:mov\.[bfsu]\d+|neg(?:\.ftz)?\.(?:{_TYPES}))")


def contracted(items: Sequence[Item], target: str, ptx: str) -> list[Item]:
    """The items of a kernel with fused multiply-adds; places are numbered anew.

    Args:
        target, ptx: of the module, for the instructions that come in.
    """
    if not any(isinstance(item, Operation) and _SUM.fullmatch(item.instruction.form.opcode) for item in items):
        return list(items)
    new: dict[int, list[Item]] = {}
    for places, last in straight_lines(items):
        line = _Line(items, places, last)
        for taken in line.fused():
            new |= line.rewritten(taken, target, ptx)
    return _numbered([new.get(place, [item]) for place, item in enumerate(items)]) if new else list(items)


def straight_lines(items: Sequence[Item]) -> Iterator[tuple[list[int], bool]]:
    """Places that are executed one after the other, blocks without another way in or out joined; and whether threads
    end behind them."""
    blocks = blocks_of(items)
    before: dict[int, list[int]] = defaultdict(list)
    for number, block in enumerate(blocks):
        for following in block.successors:
            before[following].append(number)
    joined = [
        len(block.successors) == 1 and before[block.successors[0]] == [number] and block.successors[0] > number
        for number, block in enumerate(blocks)
    ]
    inner = {blocks[number].successors[0] for number, joins in enumerate(joined) if joins}
    for number in range(len(blocks)):
        if number not in inner:
            chain = [number]
            while joined[chain[-1]]:
                chain.append(blocks[chain[-1]].successors[0])
            places = [place for block in chain for place in _places(blocks[block])]
            yield places, not blocks[chain[-1]].successors


def _places(block: Block) -> range:
    return range(block.first, block.last + 1)


@dataclass
class _Value:
    """What an item of a line writes.

    Attributes:
        place: of the item.
        readers: places that read it, and which of their operands.
        outside: whether something beyond the line, or a guard, may read it, or may have written it.
    """

    place: int
    readers: list[tuple[int, int]] = field(default_factory=list)
    outside: bool = False


@dataclass(frozen=True)
class _Use:
    """A sum that reads a product.

    Attributes:
        place: of the sum.
        operand: which of its sources, 0 or 1.
        negative: whether it takes the product with the other sign.
        through: places of the copies and negations between.
    """

    place: int
    operand: int
    negative: bool
    through: tuple[int, ...]


class _Uses(NamedTuple):
    """The sums that may take a product.

    Attributes:
        sums: those that read it.
        whole: whether nothing else needs the product, or what stands between.
    """

    sums: tuple[_Use, ...] = ()
    whole: bool = True


class _Line:
    """Items that are executed one after the other, and which of them reads what."""

    def __init__(self, items: Sequence[Item], places: Sequence[int], last: bool) -> None:
        self.items, self.places = items, places
        self.values: dict[int, _Value] = {}
        current: dict[str, int] = {}  # by register, the place that wrote it last
        needed: set[str] = set()  # registers that may be read beyond the line
        if not last:
            mine = set(places)
            needed.update(name for item in items if item.index not in mine for name in _reads(item))
        for place in places:
            item = items[place]
            if not last:
                needed.update(name for name in _reads(item) if name not in current)
            self._read(item, current)
            for name in item.writes if isinstance(item, Operation) else ():
                self._write(place, name, current, guarded=item.guard is not None)
        for name in needed.intersection(current):
            self.values[current[name]].outside = True

    def _read(self, item: Item, current: dict[str, int]) -> None:
        operands = _sources(item) if isinstance(item, Operation) and _followed(item) else ()
        seen = set[str]()
        for number, operand in enumerate(operands):
            if isinstance(operand, Register) and operand.name in current:
                seen.add(operand.name)
                self.values[current[operand.name]].readers.append((item.index, number))
        for name in _reads(item):
            if name in current and name not in seen:
                self.values[current[name]].outside = True

    def _write(self, place: int, name: str, current: dict[str, int], *, guarded: bool) -> None:
        if guarded and name in current:
            self.values[current[name]].outside = True
        value = self.values.setdefault(place, _Value(place))
        value.outside |= guarded
        current[name] = place

    def fused(self) -> Iterator[list[tuple[int, _Use]]]:
        """(product, use) of each sum that takes one, together with the others that take the same product."""
        products = [place for place in self.places if self._is(place, _PRODUCT) and place in self.values]
        uses = {place: self._uses(place).sums for place in products}
        producers: dict[tuple[int, int], tuple[int, _Use]] = {
            (use.place, use.operand): (place, use) for place, found in uses.items() for use in found
        }
        taken: dict[int, tuple[int, _Use]] = {}
        for alone in (True, False):
            for place in self.places:
                for operand in (0, 1) if place not in taken and self._is(place, _SUM) else ():
                    product, use = producers.get((place, operand), (None, None))
                    if product is None or use is None or (alone and not self._alone(product)):
                        continue
                    if self._alone(product) or all(taken.get(u.place, (product,))[0] == product for u in uses[product]):
                        taken[place] = product, use
                        break
        together: dict[int, list[tuple[int, _Use]]] = defaultdict(list)
        for product, use in taken.values():
            together[product].append((product, use))
        yield from together.values()

    def _alone(self, product: int) -> bool:
        """Whether a product has one reader in the end, or `neg.ftz` as its only one."""
        return self._flushes(product) or len(self._uses(product).sums) == 1

    def _flushes(self, product: int) -> bool:
        """Whether `neg.ftz` is the only reader of a product."""
        value = self.values[product]
        return not value.outside and [self._opcode(reader)[:7] for reader, _ in value.readers] == ["neg.ftz"]

    def _uses(self, place: int) -> _Uses:
        """The sums that read a product; none if anything else does, or one of them twice."""
        flushes = self._flushes(place)
        uses: list[_Use] = []
        whole = True
        waiting: list[tuple[int, bool, tuple[int, ...]]] = [(place, False, ())]
        while waiting:
            value, negative, through = waiting.pop()
            if self.values[value].outside:
                if not flushes:
                    return _Uses()
                whole = False
            for reader, operand in self.values[value].readers:
                if self._is(reader, _COPY) and (flushes or not self._opcode(reader).startswith("neg.ftz")):
                    turned = negative != self._opcode(reader).startswith("neg")
                    waiting.append((reader, turned, (*through, reader)))
                elif self._is(reader, _SUM) and self._fits(place, reader):
                    minus = operand == 1 and self._opcode(reader).startswith("sub")
                    uses.append(_Use(reader, operand, negative != minus, through))
                elif flushes:
                    whole = False
                else:
                    return _Uses()
        places = [use.place for use in uses]
        return _Uses(tuple(uses), whole) if len(set(places)) == len(places) else _Uses()

    def _fits(self, product: int, total: int) -> bool:
        """Whether both have the same type and `.ftz`."""
        one, other = _PRODUCT.fullmatch(self._opcode(product)), _SUM.fullmatch(self._opcode(total))
        return one is not None and other is not None and one.groups() == (other[2], other[4])

    def _is(self, place: int, pattern: re.Pattern[str]) -> bool:
        return pattern.fullmatch(self._opcode(place)) is not None

    def _opcode(self, place: int) -> str:
        item = self.items[place]
        return item.instruction.form.opcode if isinstance(item, Operation) else ""

    def rewritten(self, taken: list[tuple[int, _Use]], target: str, ptx: str) -> dict[int, list[Item]]:
        """By place, what takes the place of a product, of what stands between, and of the sums that take it; nothing
        if a source of the product is no longer there where a sum needs it."""
        product = taken[0][0]
        uses = self._uses(product)
        whole = uses.whole and len(taken) == len(uses.sums)
        writer = self._operation(product)
        new: dict[int, list[Item]] = {}
        for _, use in taken:
            if not self._unchanged(writer, use.place):
                return {}
            spare = writer.instruction.operands[0] if whole else None
            made = _multiply_add(writer, self._operation(use.place), use, spare, target, ptx)
            if made is None:
                return {}
            new[use.place] = list(made)
        if whole:
            new |= {place: [] for place in (product, *(place for _, use in taken for place in use.through))}
        return new

    def _operation(self, place: int) -> Operation:
        item = self.items[place]
        assert isinstance(item, Operation)
        return item

    def _unchanged(self, product: Operation, until: int) -> bool:
        """Whether the sources of a product are still what they were where a sum stands."""
        between = self.places[self.places.index(product.index) + 1 : self.places.index(until)]
        written = {name for p in between if isinstance(item := self.items[p], Operation) for name in item.writes}
        return not written.intersection(product.reads)


def _multiply_add(
    product: Operation, total: Operation, use: _Use, spare: Operand | None, target: str, ptx: str
) -> Iterator[Operation] | None:
    """The instructions in place of a sum: fma, and a negation before it where a sign changes; None if there is no
    register for what is negated.

    Args:
        spare: the register of the product, where nothing needs it any more.
    """
    match = _SUM.fullmatch(total.instruction.form.opcode)
    assert match is not None
    sign, ftz, saturate, kind = match.groups()
    destination = total.instruction.operands[0]
    a, b = _sources(product)
    c = _sources(total)[1 - use.operand]
    negated = a if use.negative else c
    minus = use.negative or (use.operand == 0 and sign == "sub")
    before: list[Operation] = []
    if minus:
        others = [b, c] if use.negative else [a, b]
        room = spare if spare is not None else destination
        if room in others:
            return None
        form = _form(f"neg.{kind}", target, ptx, 1)
        before.append(_with(total, form, (room, negated)))
        a, c = (room, c) if use.negative else (a, room)
    form = _form(f"fma.rn{ftz or ''}{saturate or ''}.{kind}", target, ptx, 3)
    return iter([*before, _with(total, form, (destination, a, b, c))])


def _with(item: Operation, form: Form, operands: tuple[Operand, ...]) -> Operation:
    instruction = replace(item.instruction, form=form, operands=operands)
    return replace(item, instruction=instruction)


@cache
def _form(opcode: str, target: str, ptx: str, sources: int) -> Form:
    name = {"f64": "%fd", "f16": "%h", "bf16": "%h", "f16x2": "%r", "bf16x2": "%r"}.get(opcode.rpartition(".")[2], "%f")
    operands = ", ".join(f"{name}{number}" for number in range(sources + 1))
    return decode(f"{opcode} {operands};", target, ptx).form


def _sources(item: Operation) -> tuple[Operand, ...]:
    return item.instruction.operands[1:]


def _followed(item: Operation) -> bool:
    """Whether products are followed through it: a sum, which may stand behind a guard, and what has none."""
    opcode = item.instruction.form.opcode
    if _SUM.fullmatch(opcode):
        return True
    return item.guard is None and bool(_PRODUCT.fullmatch(opcode) or _COPY.fullmatch(opcode))


def _reads(item: Item) -> tuple[str, ...]:
    if isinstance(item, Operation):
        return item.reads
    guard = (item.guard.predicate.name,) if item.guard else ()
    return (*guard, item.register.name) if isinstance(item, Switch) else guard


def _numbered(parts: Sequence[Sequence[Item]]) -> list[Item]:
    """The items of all parts, with places that follow one another; branches to a part lead to its first item, or to
    what follows it."""
    starts = [0]
    for part in parts:
        starts.append(starts[-1] + len(part))
    moved: Callable[[int], int] = starts.__getitem__
    items: list[Item] = []
    for item in (each for part in parts for each in part):
        index = len(items)
        match item:
            case Branch():
                items.append(replace(item, index=index, target=moved(item.target)))
            case Switch():
                items.append(replace(item, index=index, targets=tuple(map(moved, item.targets))))
            case _:
                items.append(replace(item, index=index))
    return items
