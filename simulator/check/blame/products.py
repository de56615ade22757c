"""Hypotheses about the products of a kernel among one another: operands of two exchanged, one left out, one added
twice."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product

from isa.ptx.instruction import Address, Immediate, Instruction, Operand, Register, Vector, register_names
from simulator.check.blame.change import Action, Hypothesis, name_of, with_operand
from simulator.check.blame.pattern import Pattern, shares
from simulator.program.kernel import Kernel, Operation
from simulator.state.registers import register_place

NEAR = 8  # products further at most whose operands may be exchanged
MOST_ADDED = 40  # products that may be missing, of an opcode
CHOICES = 6  # of an operand of a missing product
UNREAD, LACKING, OTHER = 1.0, 0.8, 0.2  # how likely an operand of a missing product: nothing reads it, few do, others
_SUMS = ("d", "c")


def product_hypotheses(kernel: Kernel, work: Sequence[Operation], pattern: Pattern) -> Iterator[Hypothesis]:
    """All about the products among the instructions of which it is asked."""
    groups: dict[str, list[Operation]] = {}
    for item in work:
        if item.instruction.form.is_matrix and item.instruction.by_role.get("a") is not None:
            groups.setdefault(item.instruction.form.opcode, []).append(item)
    for group in groups.values():
        for place, item in enumerate(group):
            for other in group[place + 1 : place + 1 + NEAR]:
                yield from _exchanged(kernel, item, other)
        yield from _doubled(group)
        yield from _left_out(kernel, group)


def _exchanged(kernel: Kernel, one: Operation, two: Operation) -> Iterator[Hypothesis]:
    """An operand of two products exchanged."""
    for name in ("a", "b", "e", "d"):
        first, second = one.instruction.by_role.get(name), two.instruction.by_role.get(name)
        if first is None or second is None or first == second or type(first) is not type(second):
            continue
        changed = with_operand(one.instruction, name, second), with_operand(two.instruction, name, first)
        if name == "d" and one.instruction.by_role.get("c") == first and two.instruction.by_role.get("c") == second:
            changed = with_operand(changed[0], "c", second), with_operand(changed[1], "c", first)
        changes: dict[int, tuple[Action, ...]] = {one.index: (changed[0],), two.index: (changed[1],)}
        role = "metadata" if name == "e" else f"operand {name}"
        what = f"{role} of the products in lines {one.line} and {two.line} is exchanged"
        fix = f"exchange {name} of both: {{}}, and the other registers at line {two.line}"
        yield Hypothesis(changes, ("exchanged between", name, two.index - one.index), what, fix, changed[0], 0.4)


def _doubled(group: Sequence[Operation]) -> Iterator[Hypothesis]:
    """The same product twice, one right behind the other."""
    for one, two in zip(group, group[1:], strict=False):
        if one.instruction == two.instruction and (one.source is None or one.source == two.source):
            weight = 0.97 if one.line == two.line or two.index - one.index == 1 else 0.5
            what = "this product is added twice"
            fix = f"leave one of the products in lines {one.line} and {two.line} out"
            yield Hypothesis({two.index: ()}, ("doubled",), what, fix, None, weight)


# A product that is missing


def _left_out(kernel: Kernel, group: Sequence[Operation]) -> Iterator[Hypothesis]:
    """A product that is missing: its operands are those that nothing reads, or that other products read more seldom."""
    if len(group) < 2:
        template = group[0].instruction
        if all(isinstance(template.by_role.get(name), Address | None) for name in _SUMS):
            return
    template = group[-1].instruction
    names = [role.name for role in template.form.roles if role.name in template.by_role and role.name != "c"]
    unread = _unread(kernel)
    there = {_key(item.instruction, names) for item in group}
    choices = [_choices(kernel, group, name, unread) for name in names]
    found = []
    for combination in product(*choices):
        new = template
        for name, (operand, _) in zip(names, combination, strict=True):
            new = with_operand(new, name, operand)
            if name == "d" and "c" in template.by_role:
                new = with_operand(new, "c", _accumulator(group, operand))
        if _key(new, names) not in there:
            likelihood = math.prod(weight for _, (_, weight) in zip(names, combination, strict=True))
            found.append((likelihood * _together(group, new), new))
    found.sort(key=lambda entry: entry[0], reverse=True)
    most = found[0][0] if found else 1.0
    for likelihood, new in found[:MOST_ADDED]:
        beside, before = _place(kernel, group, new)
        sums = next((each.line for each in group if _sums(each.instruction) == _sums(new) and each is not beside), 0)
        what = "a product is missing here"
        if sums:
            what += f": one more is added to the sums of line {sums}"
        fix = f"add {{}} {'before' if before else 'behind'} line {beside.line}"
        actions: tuple[Action, ...] = (new, beside.instruction) if before else (beside.instruction, new)
        weight = 0.45 + 0.4 * likelihood / most
        yield Hypothesis({beside.index: actions}, ("missing", str(new)), what, fix, new, weight)


def _key(instruction: Instruction, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(instruction.by_role.get(name)) for name in names)


def _sums(instruction: Instruction) -> str:
    return str(instruction.by_role.get("d"))


def _accumulator(group: Sequence[Operation], result: Operand) -> Operand:
    """What is added to where a product has this result: as in another product, or the result itself."""
    for item in group:
        if item.instruction["d"] == result:
            return item.instruction["c"]
    return result


def _unread(kernel: Kernel) -> list[str]:
    """Registers that are written and that nothing reads, in the order of their names in the module."""
    operations = [item for item in kernel.items if isinstance(item, Operation)]
    read = {name for item in operations for name in item.reads if name not in item.writes}
    guards = {item.guard.predicate.name for item in kernel.items if item.guard is not None}
    written = dict.fromkeys(name for item in operations for name in item.writes)
    found = [name for name in written if name not in read and name not in guards and register_place(name) is not None]
    return sorted(found, key=lambda name: _number(kernel, name))


def _number(kernel: Kernel, name: str) -> tuple[str, int]:
    text = name_of(kernel, name)
    letters = text.rstrip("0123456789")
    return letters, int(text[len(letters) :] or -1)


def _choices(
    kernel: Kernel, group: Sequence[Operation], name: str, unread: Sequence[str]
) -> list[tuple[Operand, float]]:
    """Operands of one role that a missing product may have, each with its likelihood."""
    own = [item.instruction.by_role[name] for item in group if name in item.instruction.by_role]
    lacking = shares([str(each) for each in own])
    found: dict[str, tuple[Operand, float]] = {}
    if name in ("a", "b", "e", "idesc"):
        for operand in _runs(kernel, own[-1], unread):
            found[str(operand)] = (operand, UNREAD)
    for each in own:
        lacks = lacking[str(each)]
        found.setdefault(str(each), (each, LACKING if lacks else OTHER if len(lacking) > 1 else 1.0))
    ordered = sorted(found.values(), key=lambda entry: entry[1], reverse=True)
    return ordered[:CHOICES]


def _runs(kernel: Kernel, like: Operand, unread: Sequence[str]) -> Iterator[Operand]:
    """Operands of unread registers, of the kind and size of another."""
    size = len(like.elements) if isinstance(like, Vector) else 1
    names = [each for each in register_names(like) if register_place(each) is not None]
    if isinstance(like, Immediate | Address) or not names:
        return
    place = register_place(names[0])
    letters = _number(kernel, names[0])[0]
    numbers = [(number, each) for each in unread if (number := _number(kernel, each))[0] == letters
               and (own := register_place(each)) is not None and place is not None and own.sort is place.sort]  # fmt: skip
    step = 0
    while step + size <= len(numbers):
        part = numbers[step : step + size]
        if part[-1][0][1] - part[0][0][1] == size - 1:
            registers = tuple(Register(each) for _, each in part)
            yield Vector(registers) if isinstance(like, Vector) else registers[0]
            step += size
        else:
            step += 1


def _together(group: Sequence[Operation], new: Instruction) -> float:
    """How well the operands of a product go together: A with its metadata as in others; none twice with one sum."""
    roles, likelihood = new.by_role, 1.0
    for item in group:
        theirs = item.instruction.by_role
        if theirs["a"] == roles["a"] and theirs.get("e") != roles.get("e"):
            likelihood *= 0.5
        if theirs["a"] == roles["a"] and theirs["b"] == roles["b"]:
            likelihood *= 0.4
        if isinstance(roles.get("d"), Vector) and theirs.get("d") == roles.get("d"):
            likelihood *= 0.5 if roles["a"] == theirs["a"] or roles["b"] == theirs["b"] else 1.0
    return likelihood


def _place(kernel: Kernel, group: Sequence[Operation], new: Instruction) -> tuple[Operation, bool]:
    """The product beside which one is missing, and whether it stands before that."""
    roles = new.by_role
    same = [item for item in group if item.instruction["a"] == roles["a"]]
    same = same or [item for item in group if item.instruction["b"] == roles["b"]]
    if same:
        other = [item for item in group if item.instruction["b"] == roles["b"]] or same
        return min(same, key=lambda item: min(abs(item.index - each.index) for each in other)), False
    needs = {each for name in ("a", "b", "e") if name in roles for each in register_names(roles[name])}
    last = max((item.index for item in kernel.items if isinstance(item, Operation) and needs & set(item.writes)),
               default=-1)  # fmt: skip
    behind = [item for item in group if item.index > last]
    return (behind[0], True) if behind else (group[-1], False)


def scales_exchanged(item: Operation) -> Iterator[Hypothesis]:
    """The scale factors of A and B exchanged."""
    one, two = (item.instruction.by_role.get(name) for name in ("scale_a", "scale_b"))
    if isinstance(one, Address) and isinstance(two, Address) and one != two:
        changed = with_operand(with_operand(item.instruction, "scale_a", two), "scale_b", one)
        what = "the scale factors of A and B are exchanged"
        yield Hypothesis({item.index: (changed,)}, ("scales",), what, "write {}", replace(changed), 0.8)
