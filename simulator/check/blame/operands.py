"""Hypotheses about the registers of instructions that move or multiply matrices: another order, those of another
instruction, other lanes, other metadata, rows of `ldmatrix`, `.trans`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from isa.ptx.instruction import Address, Operand, Register, Scalar, Vector
from simulator.check.blame.change import Hypothesis, name_of, replaced, with_opcode, with_operand
from simulator.check.blame.metadata import metadata_hypotheses
from simulator.check.blame.seen import of_lanes, seen_as
from simulator.program.kernel import Kernel, Operation
from simulator.state.registers import WARP_SIZE, register_place

ENABLES = {"enable": "enable-input-d", "scale_d": "scale-d"}  # whether a product is added to D
MOST_SWAPPED = 8  # registers of a vector of which any two may be swapped; of longer ones fewer
NEAREST = 6  # instructions of one opcode whose registers are tried


def operand_hypotheses(kernel: Kernel, item: Operation, alike: list[Operation]) -> Iterator[Hypothesis]:
    """All about one instruction.

    Args:
        alike: the other instructions with this opcode, the nearest first.
    """
    instruction = item.instruction
    pairs = list(zip(instruction.form.roles, instruction.operands, strict=False))
    for role, operand in pairs:
        if isinstance(operand, Vector) and len(operand.elements) > 1:
            yield from _orders(kernel, item, role.name, operand)
    yield from _exchanged(kernel, item)
    if instruction.form.is_matrix or instruction.form.name in ("st", "ldmatrix", "stmatrix"):
        for role, operand in pairs:
            yield from _of_others(kernel, item, role.name, operand, alike)
    if isinstance(instruction.by_role.get("e"), Register) and instruction.form.is_sparse:
        yield from metadata_hypotheses(kernel, item)
    if instruction.form.name in ("ldmatrix", "stmatrix"):
        yield from _matrices(kernel, item)


def _orders(kernel: Kernel, item: Operation, name: str, operand: Vector) -> Iterator[Hypothesis]:
    """Two registers of a vector swapped; all of them turned round."""
    elements, count = operand.elements, len(operand.elements)
    neighbours = [(index, index + 1) for index in range(count - 1)]
    pairs = (
        combinations(range(count), 2) if count <= MOST_SWAPPED else dict.fromkeys(_out_of_turn(elements) + neighbours)
    )
    weight = 0.9 if item.instruction.form.is_matrix else 0.7
    for first, second in pairs:
        if elements[first] == elements[second]:
            continue
        new = list(elements)
        new[first], new[second] = new[second], new[first]
        changed = with_operand(item.instruction, name, Vector(tuple(new)))
        what = f"registers {first} and {second} of operand {name} are swapped"
        fix = f"swap registers {first} and {second} of {name}"
        better = _disorder(elements) - _disorder(new)
        likely = weight + 0.05 if better > 0 else weight / 2 if better < 0 else weight
        yield Hypothesis({item.index: (changed,)}, ("swap", name, first, second), what, f"{fix}: {{}}", changed, likely)
    if count > 2:
        for step in (1, -1, count // 2):
            new = [elements[(index + step) % count] for index in range(count)]
            changed = with_operand(item.instruction, name, Vector(tuple(new)))
            what = f"the registers of operand {name} are turned round by {abs(step)}"
            yield replaced(item, changed, ("turn", name, step), what, weight / 2)


def _numbers(elements: Sequence[Scalar]) -> list[int]:
    """The numbers of the registers of a vector."""
    return [int(str(each).lstrip("%rdsp") or 0) for each in elements if isinstance(each, Register)]


def _out_of_turn(elements: Sequence[Scalar]) -> list[tuple[int, int]]:
    """The two registers of a vector that stand where the others make one expect the other; none if it is not so."""
    numbers = _numbers(elements)
    wrong = [place for place, (one, other) in enumerate(zip(numbers, sorted(numbers), strict=True)) if one != other]
    return [(wrong[0], wrong[1])] if len(wrong) == 2 and len(numbers) == len(elements) else []


def _disorder(elements: Sequence[Scalar]) -> int:
    """How many pairs of registers stand against the order of the others: compilers number a fragment in turn."""
    numbers = _numbers(elements)
    against = sum(one > other for one, other in combinations(numbers, 2))
    return min(against, len(numbers) * (len(numbers) - 1) // 2 - against)


def _exchanged(kernel: Kernel, item: Operation) -> Iterator[Hypothesis]:
    """A and B of a matrix instruction exchanged."""
    roles = item.instruction.by_role
    a, b = roles.get("a"), roles.get("b")
    if not item.instruction.form.is_matrix or a is None or b is None or a == b or type(a) is not type(b):
        return
    if isinstance(a, Vector) and isinstance(b, Vector) and len(a.elements) != len(b.elements):
        return
    changed = with_operand(with_operand(item.instruction, "a", b), "b", a)
    yield replaced(item, changed, ("exchange",), "A and B are exchanged", 0.6)


def _of_others(
    kernel: Kernel, item: Operation, name: str, operand: Operand, alike: list[Operation]
) -> Iterator[Hypothesis]:
    """An operand, or one register of it, of another instruction with this opcode."""
    seen: set[str] = {str(operand)}
    singles: set[tuple[int, str]] = set()
    for other in alike[:NEAREST]:
        theirs = other.instruction.by_role.get(name)
        if theirs is None or str(theirs) in seen or type(theirs) is not type(operand):
            continue
        seen.add(str(theirs))
        changed = with_operand(item.instruction, name, theirs)
        both = f" (as at line {other.line})"
        what = f"operand {name} has the registers of another instruction: {_named(kernel, theirs)} is meant{both}"
        if name in ENABLES:
            what = f"{ENABLES[name]} is wrong: {_named(kernel, theirs)} is meant{both}"
        weight = 0.75 if item.instruction.form.is_matrix else 0.5
        yield replaced(item, changed, ("of other", name, other.index - item.index), what, weight)
        if name == "d" and changed.by_role.get("c") == operand:
            added = with_operand(changed, "c", theirs)
            yield replaced(item, added, ("of other", "c and d", other.index - item.index), what, weight)
        if isinstance(operand, Vector) and isinstance(theirs, Vector) and len(seen) <= 3:
            singles |= {(index, str(each)) for index in range(len(operand.elements)) for each in theirs.elements}
    if isinstance(operand, Vector) and len(operand.elements) <= MOST_SWAPPED:
        yield from _singles(kernel, item, name, operand, singles)


def _singles(
    kernel: Kernel, item: Operation, name: str, operand: Vector, singles: set[tuple[int, str]]
) -> Iterator[Hypothesis]:
    """One register of a vector replaced by one that another instruction has there."""
    own = {str(each) for each in operand.elements}
    for index, register in sorted(singles):
        if register in own or not register.startswith("%"):
            continue
        elements = list(operand.elements)
        elements[index] = Register(register)
        changed = with_operand(item.instruction, name, Vector(tuple(elements)))
        what = f"register {index} of operand {name} is the wrong one: {name_of(kernel, register)} is meant"
        yield replaced(item, changed, ("register", name, index, register), what, 0.3)


def _named(kernel: Kernel, operand: Operand) -> str:
    if isinstance(operand, Vector):
        return "{" + ", ".join(name_of(kernel, str(each)) for each in operand.elements) + "}"
    return name_of(kernel, str(operand))


def _matrices(kernel: Kernel, item: Operation) -> Iterator[Hypothesis]:
    """ldmatrix and stmatrix: `.trans`, and the order of the rows' addresses among the lanes."""
    opcode = item.instruction.form.opcode
    has = ".trans" in opcode
    other = opcode.replace(".trans", "") if has else _with_trans(opcode)
    changed = with_opcode(item, kernel, other)
    if changed is not None:
        what = (
            ".trans is too much: the matrix is transposed" if has else "missing .trans: the matrix must be transposed"
        )
        yield replaced(item, changed, ("trans",), what, 0.95)
    address = item.instruction["address"]
    if not isinstance(address, Address) or address.base is None or register_place(address.base.name) is None:
        return
    lanes, name = np.arange(WARP_SIZE), name_of(kernel, address.base.name)
    for mask in (8, 16):
        turned = lanes ^ mask
        action = seen_as(address.base.name, of_lanes(turned))
        what = f"the row addresses of lanes that differ by {mask} are exchanged"
        fix = f"exchange the addresses {name} of lanes that differ by {mask}"
        yield Hypothesis({item.index: (action,)}, ("rows", mask), what, fix, None, 0.5)
    turned = (lanes & 7) | ((lanes & 8) << 1) | ((lanes & 16) >> 1)
    action = seen_as(address.base.name, of_lanes(turned))
    what = "the row addresses of lanes 8 to 15 and 16 to 23 are exchanged"
    yield Hypothesis({item.index: (action,)}, ("rows", "middle"), what, f"exchange {name} of these lanes", None, 0.5)


def _with_trans(opcode: str) -> str:
    """The opcode with `.trans`, which stands behind the number of matrices."""
    parts = opcode.split(".")
    for number in ("x1", "x2", "x4"):
        if number in parts:
            parts.insert(parts.index(number) + 1, "trans")
            break
    return ".".join(parts)
