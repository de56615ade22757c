"""Hypotheses about the products of a kernel among one another: operands of two exchanged, one left out, one added
twice."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, product

from isa.ptx.instruction import Address, Guard, Immediate, Instruction, Operand, Register, Vector, register_names
from simulator.check.blame.change import Action, Hypothesis, name_of, replaced, with_operand
from simulator.check.blame.operands import ENABLES
from simulator.check.blame.pattern import shares
from simulator.check.blame.registers import is_guarded
from simulator.program.kernel import Kernel, Operation
from simulator.state.registers import Sort, register_place

FAR = 128  # places between a predicate and what it guards
NEAR = 8  # products further at most whose operands may be exchanged
MOST_ADDED = 40  # products that may be missing, of an opcode
CHOICES = 6  # of an operand of a missing product
UNREAD, LACKING, OTHER = 1.0, 0.8, 0.2  # how likely an operand of a missing product: nothing reads it, few do, others
_GIVEN = ("a", "b", "e", "sp_meta", "idesc")  # operands that may be those that nothing reads
_COPY = "tcgen05.cp"
_PURE = ("mov", "ld", "ldmatrix", "add", "sub", "mul", "mad", "shl", "shr", "and", "or", "xor", "lop3", "cvt", "cvta",
         "selp", "prmt", "shf", "bfe", "bfi", "setp", "min", "max", "not", "neg", "fma", "not")  # fmt: skip


def product_hypotheses(kernel: Kernel, work: Sequence[Operation]) -> Iterator[Hypothesis]:
    """All about the products among the instructions of which it is asked."""
    groups: dict[str, list[Operation]] = {}
    unread = unread_registers(kernel)
    for item in work:
        if item.instruction.form.is_matrix and item.instruction.by_role.get("a") is not None:
            groups.setdefault(item.instruction.form.opcode, []).append(item)
    yield from _unguarded(kernel, work, unread)
    for group in groups.values():
        for place, item in enumerate(group):
            for other in group[place + 1 : place + 1 + NEAR]:
                yield from _exchanged(kernel, item, other)
        yield from _doubled(group)
        if group[0].instruction.by_role.get("b") is not None and group[0].instruction.by_role.get("d") is not None:
            yield from _left_out(kernel, group, unread)
        yield from _unused(kernel, group, unread)


def _exchanged(kernel: Kernel, one: Operation, two: Operation) -> Iterator[Hypothesis]:
    """An operand of two products exchanged."""
    for name in ("a", "b", "e", "sp_meta", "d"):
        first, second = one.instruction.by_role.get(name), two.instruction.by_role.get(name)
        if first is None or second is None or first == second or type(first) is not type(second):
            continue
        changed = with_operand(one.instruction, name, second), with_operand(two.instruction, name, first)
        if name == "d" and one.instruction.by_role.get("c") == first and two.instruction.by_role.get("c") == second:
            changed = with_operand(changed[0], "c", second), with_operand(changed[1], "c", first)
        changes: dict[int, tuple[Action, ...]] = {one.index: (changed[0],), two.index: (changed[1],)}
        role = "metadata" if name in ("e", "sp_meta") else f"operand {name}"
        what = f"{role} of the products in lines {one.line} and {two.line} is exchanged"
        fix = f"exchange {name} of both: {{}}, and the other registers at line {two.line}"
        yield Hypothesis(
            changes, ("exchanged between", name, two.index - one.index), what, fix, changed[0], 0.7, told=True
        )


def _doubled(group: Sequence[Operation]) -> Iterator[Hypothesis]:
    """The same product twice, one right behind the other."""
    for one, two in pairwise(group):
        if one.instruction == two.instruction and (one.source is None or one.source == two.source):
            weight = 0.97 if two.index - one.index == 1 else 0.5
            what = "this product is added twice"
            where = f": line {one.line} has added it already" if one.line != two.line else ""
            fix = f"leave it out{where}"
            yield Hypothesis({two.index: ()}, ("doubled",), what, fix, None, weight)


# Operands that nothing reads


def _unused(kernel: Kernel, group: Sequence[Operation], unread: Sequence[str]) -> Iterator[Hypothesis]:
    """Registers are computed that nothing reads: they are meant as an operand."""
    alone = sum(bool(_runs(kernel, group[0].instruction.by_role.get(name), unread)) for name in _GIVEN) == 1
    for item in group:
        for name in _GIVEN:
            own = item.instruction.by_role.get(name)
            for operand in _runs(kernel, own, unread)[:CHOICES]:
                changed = with_operand(item.instruction, name, operand)
                role = "metadata" if name in ("e", "sp_meta") else f"operand {name}"
                registers = ", ".join(name_of(kernel, each) for each in register_names(operand))
                what = f"{role} has other registers than those that are meant: {registers}, which nothing reads"
                yield replaced(item, changed, ("unread", name, registers), what, 0.85 if alone else 0.65)


def _unguarded(kernel: Kernel, work: Sequence[Operation], unread: Sequence[str]) -> Iterator[Hypothesis]:
    """A predicate is computed that nothing reads: an access or a product nearby lacks it as its guard."""
    predicates = [each for each in unread if (place := register_place(each)) and place.sort is Sort.PREDICATE]
    writers = [item for item in work if set(item.writes) & set(predicates)]
    for item in work:
        if item.guard is not None or not (is_guarded(item) or item.instruction.form.is_matrix):
            continue
        near = [each for each in writers if 0 < item.index - each.index <= FAR]
        for register in dict.fromkeys(name for each in near for name in each.writes if name in predicates):
            for negated in (False, True):
                guard = Guard(Register(register), negated)
                name = f"@{'!' if negated else ''}{name_of(kernel, register)}"
                what = f"the guard {name}, which nothing reads, is missing"
                changed = replace(item.instruction, guard=guard)
                yield replaced(item, changed, ("unread guard", str(guard)), what, 0.75 if negated else 0.8)


# A product that is missing


def _left_out(kernel: Kernel, group: Sequence[Operation], unread: Sequence[str]) -> Iterator[Hypothesis]:
    """A product that is missing: its operands are those that nothing reads, or that other products read more seldom."""
    roles = group[-1].instruction.by_role
    names = [name for name in ("d", *_GIVEN, "f") if name in roles]
    there = {_key(item.instruction, names) for item in group}
    choices = [_choices(kernel, group, name, unread) for name in names]
    found = []
    for combination in product(*choices):
        given = dict(zip(names, (operand for operand, _ in combination), strict=True))
        key = tuple(map(str, given.values()))
        if key not in there and len({key[names.index(each)] for each in ("a", "b")}) == 2:
            weights = [weight for _, weight in combination if weight is not None]
            likelihood = math.prod(weights) ** (1 / max(len(weights), 1))
            found.append((likelihood * _together(kernel, group, given), given))
    found.sort(key=lambda entry: entry[0], reverse=True)
    for likelihood, given in found[:MOST_ADDED]:
        beside, before, template = _place(kernel, group, given)
        new = template.instruction
        for name, operand in given.items():
            new = with_operand(new, name, operand)
        if "d" in given and "c" in new.by_role:
            new = with_operand(new, "c", _accumulator(group, given["d"]))
        sums = next((each.line for each in group if each.instruction["d"] == new["d"] and each is not beside), 0)
        first = before and template is group[0]
        what = "a product is missing here"
        if sums:
            what += f": one more is added to the sums of line {sums}"
        fix = f"add {{}} {'before' if before else 'behind'} line {beside.line}"
        actions: tuple[Action, ...] = (new, beside.instruction) if before else (beside.instruction, new)
        weight = 0.45 + 0.45 * likelihood
        yield Hypothesis({beside.index: actions}, ("missing", key), what, fix, new, weight)
        enable = next((name for name in ENABLES if first and name in new.by_role), None)
        if enable is not None:  # the first product overwrites what was in D
            new = with_operand(new, enable, Immediate(0))
            changes = {beside.index: (new, beside.instruction)}
            yield Hypothesis(changes, ("missing first", key), what, fix, new, weight)


def _key(instruction: Instruction, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(instruction.by_role.get(name)) for name in names)


def _accumulator(group: Sequence[Operation], result: Operand) -> Operand:
    """What is added to where a product has this result: as in another product, or the result itself."""
    for item in group:
        if item.instruction["d"] == result:
            return item.instruction["c"]
    return result


def unread_registers(kernel: Kernel) -> list[str]:
    """Registers that are written and on which nothing that a kernel does depends, in the order of their names; without
    those that others of them are computed from."""
    operations = [item for item in kernel.items if isinstance(item, Operation)]
    live = {item.guard.predicate.name for item in kernel.items if item.guard is not None}
    pending = operations
    while pending:
        needed = [item for item in pending if not item.writes or live & set(item.writes) or _acts(item)]
        if not needed:
            break
        live |= {name for item in needed for name in item.reads}
        pending = [item for item in pending if item not in needed]
    between = {name for item in pending if item.instruction.form.name != "mov" for name in item.reads}
    written = dict.fromkeys(name for item in operations for name in item.writes)
    found = [name for name in written if name not in live | between and register_place(name) is not None]
    return sorted(found, key=lambda name: _number(kernel, name))


def _acts(item: Operation) -> bool:
    """Whether an instruction does more than write registers."""
    return item.instruction.form.is_matrix or item.instruction.form.name not in _PURE


def _number(kernel: Kernel, name: str) -> tuple[str, int]:
    text = name_of(kernel, name)
    letters = text.rstrip("0123456789")
    return letters, int(text[len(letters) :] or -1)


def _choices(
    kernel: Kernel, group: Sequence[Operation], name: str, unread: Sequence[str]
) -> list[tuple[Operand, float | None]]:
    """Operands of one role that a missing product may have, each with its likelihood; None if there is no choice."""
    own = [item.instruction.by_role[name] for item in group]
    lacking = shares([str(each) for each in own])
    found: dict[str, tuple[Operand, float | None]] = {}
    if name in _GIVEN:
        found = {str(operand): (operand, UNREAD) for operand in _runs(kernel, own[-1], unread)}
    if name == "sp_meta":
        found |= {str(operand): (operand, UNREAD) for operand in _copied(kernel, group)}
    alone = not found and len(lacking) == 1
    for each in own:
        likelihood = None if alone else LACKING if lacking[str(each)] else OTHER
        found.setdefault(str(each), (each, likelihood))
    return sorted(found.values(), key=lambda entry: entry[1] or 0.0, reverse=True)[:CHOICES]


def _copied(kernel: Kernel, group: Sequence[Operation]) -> list[Operand]:
    """Addresses in Tensor Memory that are copied to, and that no product has as an operand."""
    used = {str(operand) for item in group for operand in item.instruction.operands}
    copies = [item for item in kernel.items if isinstance(item, Operation) and item.instruction.form.name == _COPY]
    return [address for item in copies if str(address := item.instruction["taddr"]) not in used]


def _runs(kernel: Kernel, like: Operand | None, unread: Sequence[str]) -> list[Operand]:
    """Operands of unread registers, of the kind and size of another."""
    if isinstance(like, Address) and like.base is not None:
        bases = [each for each in _runs(kernel, like.base, unread) if isinstance(each, Register)]
        return [replace(like, base=each) for each in bases]
    if not isinstance(like, Register | Vector):
        return []
    size = len(like.elements) if isinstance(like, Vector) else 1
    names = [each for each in register_names(like) if register_place(each) is not None]
    if not names:
        return []
    place = register_place(names[0])
    letters = _number(kernel, names[0])[0]
    sort = place.sort if place is not None else None
    fitting = [each for each in unread if (own := register_place(each)) is not None and own.sort is sort]
    numbers = [(number, each) for each in fitting if (number := _number(kernel, each))[0] == letters]
    step, found = 0, list[Operand]()
    while step + size <= len(numbers):
        part = numbers[step : step + size]
        if part[-1][0][1] - part[0][0][1] == size - 1:
            registers = tuple(Register(each) for _, each in part)
            found.append(Vector(registers) if isinstance(like, Vector) else registers[0])
            step += size
        else:
            step += 1
    return found


def _together(kernel: Kernel, group: Sequence[Operation], given: Mapping[str, Operand]) -> float:
    """How well the operands of a product go together: A with its metadata as in others; none twice with one sum."""
    likelihood = 1.0
    for item in group:
        theirs = item.instruction.by_role
        same_a, same_b = theirs["a"] == given["a"], theirs["b"] == given["b"]
        if (same_a and theirs.get("e") != given.get("e")) or (same_a and same_b):
            likelihood *= 0.5
        if isinstance(given["d"], Vector) and theirs["d"] == given["d"] and (same_a or same_b):
            likelihood *= 0.5
    first, second = (_number(kernel, (*register_names(given[name]), "")[0]) for name in ("a", "b"))
    return likelihood if first <= second else 0.7 * likelihood


def _place(
    kernel: Kernel, group: Sequence[Operation], given: Mapping[str, Operand]
) -> tuple[Operation, bool, Operation]:
    """The instruction beside which a product is missing, whether it stands before that, and a product near there."""
    others = {str(operand) for item in group for operand in item.instruction.operands}
    own = [given[name] for name in _GIVEN if name in given and str(given[name]) not in others]
    needs = {each for operand in own for each in register_names(operand)}
    writers = [item for item in kernel.items if isinstance(item, Operation) and needs & set(item.writes)]
    last = max(writers, key=lambda item: item.index, default=None)
    if last is not None:
        behind = [item for item in group if item.index > last.index]
        return (behind[0], True, behind[0]) if behind else (last, False, group[-1])
    for name in ("a", "b"):
        other = [item for item in group if item.instruction["b"] == given["b"]] or group
        same = [item for item in group if item.instruction[name] == given[name]]
        if same:
            beside = min(same, key=lambda item: min(abs(item.index - each.index) for each in other))
            return beside, False, beside
    return group[-1], False, group[-1]


def scales_exchanged(item: Operation) -> Iterator[Hypothesis]:
    """The scale factors of A and B exchanged."""
    one, two = (item.instruction.by_role.get(name) for name in ("scale_a", "scale_b"))
    if isinstance(one, Address) and isinstance(two, Address) and one != two:
        changed = with_operand(with_operand(item.instruction, "scale_a", two), "scale_b", one)
        what = "the scale factors of A and B are exchanged"
        yield Hypothesis({item.index: (changed,)}, ("scales",), what, "write {}", changed, 0.8)
