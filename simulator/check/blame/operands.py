"""Hypotheses about the registers of instructions that move or multiply matrices: another order, those of another
instruction, other lanes, other metadata, rows of `ldmatrix`, `.trans`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.ptx.instruction import Address, Immediate, Instruction, Operand, Register, Scalar, Vector
from simulator.check.blame.change import Action, Hypothesis, name_of, with_opcode, with_operand
from simulator.execute.cta_state import CtaState, Executor, Outcome
from simulator.execute.operands import place_of
from simulator.program.kernel import Kernel, Operation
from simulator.state.registers import WARP_SIZE, Warps, register_place

MOST_SWAPPED = 8  # registers of a vector of which any two may be swapped; of longer ones neighbours
NEAREST = 6  # instructions of one opcode whose registers are tried
LANE_STEPS = (4, -4, 1, -1, 8, -8, 16, 2, -2)  # 4: lanes that hold metadata of one row of mma.sp
Array = NDArray[Any]
_HALVES = 0xFFFF


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
        yield from _metadata(kernel, item)
    if instruction.form.name in ("ldmatrix", "stmatrix"):
        yield from _matrices(kernel, item)


def _one(
    kernel: Kernel, item: Operation, new: Instruction, key: tuple[Any, ...], mistake: str, weight: float
) -> Hypothesis:
    return Hypothesis({item.index: (new,)}, key, mistake, "write {}", new, weight)


def _orders(kernel: Kernel, item: Operation, name: str, operand: Vector) -> Iterator[Hypothesis]:
    """Two registers of a vector swapped; all of them turned round."""
    elements, count = operand.elements, len(operand.elements)
    pairs = combinations(range(count), 2) if count <= MOST_SWAPPED else ((i, i + 1) for i in range(count - 1))
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
            yield _one(kernel, item, changed, ("turn", name, step), what, weight / 2)


def _disorder(elements: Sequence[Scalar]) -> int:
    """How many pairs of registers stand against the order of the others: compilers number those of a fragment in turn."""
    numbers = [int(str(each).lstrip("%rdsp") or 0) for each in elements if isinstance(each, Register)]
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
    yield _one(kernel, item, changed, ("exchange",), "A and B are exchanged", 0.6)


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
        weight = 0.75 if item.instruction.form.is_matrix else 0.5
        yield _one(kernel, item, changed, ("of other", name, other.index - item.index), what, weight)
        if name == "d" and changed.by_role.get("c") == operand:
            added = with_operand(changed, "c", theirs)
            yield _one(kernel, item, added, ("of other", "c and d", other.index - item.index), what, weight)
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
        yield _one(kernel, item, changed, ("register", name, index, register), what, 0.3)


def _named(kernel: Kernel, operand: Operand) -> str:
    if isinstance(operand, Vector):
        return "{" + ", ".join(name_of(kernel, str(each)) for each in operand.elements) + "}"
    return name_of(kernel, str(operand))


# Values of registers that only this instruction sees changed


def seen_as(register: str, change: Callable[[CtaState, Warps, Array], Array]) -> Action:
    """An action: the instruction, for which a register has another value, [warp, lane]."""
    place = place_of(register)

    def make(execute: Executor) -> Executor:
        def run(machine: CtaState, warps: Warps) -> Outcome:
            before = machine.registers.read(warps, [place.number], place.sort)
            changed = change(machine, warps, before[:, 0])[:, None]
            machine.registers.write(warps, [place.number], changed, None, place.sort)
            try:
                return execute(machine, warps)
            finally:
                machine.registers.write(warps, [place.number], before, None, place.sort)

        return run

    return make


def _metadata(kernel: Kernel, item: Operation) -> Iterator[Hypothesis]:
    """Metadata of other lanes; the codes of a word in another order."""
    operand = item.instruction["e"]
    assert isinstance(operand, Register)
    name = name_of(kernel, operand.name)

    def one(key: object, change: Callable[[Array], Array], what: str, fix: str, weight: float) -> Hypothesis:
        action = seen_as(operand.name, lambda machine, warps, values: change(values))
        return Hypothesis({item.index: (action,)}, ("metadata", key), what, fix, None, weight)

    lanes = np.arange(WARP_SIZE)
    for step in LANE_STEPS:
        which = f"{abs(step)} lane{'s' * (abs(step) > 1)} {'further' if step > 0 else 'back'}"
        what = "metadata is that of another row" if abs(step) % 4 == 0 else "metadata is that of another lane"
        if abs(step) == 4:
            fix = f"take the metadata of the {'next' if step > 0 else 'previous'} row into {name} ({which})"
        else:
            fix = f"take the metadata from {which} into {name}"
        turned = (lanes + step) % WARP_SIZE
        yield one(step, lambda values, turned=turned: values[:, turned], what, fix, 0.85 if abs(step) == 4 else 0.5)
    for mask in (1, 2, 16):
        turned = lanes ^ mask
        what = f"metadata is that of lane (own xor {mask})"
        fix = f"exchange the metadata of lanes that differ by {mask}"
        yield one(("xor", mask), lambda values, turned=turned: values[:, turned], what, fix, 0.5)
    word = np.uint32
    yield one("halves", lambda v: (v << word(16)) | (v >> word(16)), "the halves of the metadata word are swapped",
              f"exchange the 16-bit halves of {name}", 0.6)  # fmt: skip
    yield one("bytes", lambda v: v.byteswap(), "the bytes of the metadata word are in reverse order",
              f"reverse the bytes of {name}", 0.4)  # fmt: skip
    yield one("neighbours", lambda v: ((v & word(0x00FF00FF)) << word(8)) | ((v >> word(8)) & word(0x00FF00FF)),
              "neighbouring bytes of the metadata word are swapped", f"exchange neighbouring bytes of {name}", 0.4)  # fmt: skip
    yield one("codes", lambda v: ((v & word(0x33333333)) << word(2)) | ((v >> word(2)) & word(0x33333333)),
              "the two indices of each metadata code are in the wrong order",
              f"write the lower index into the lower bits of each code of {name}", 0.6)  # fmt: skip
    for bits in (2, 4, 8, 16):
        yield one(("left", bits), lambda v, bits=bits: v << word(bits), f"the metadata word is {bits} bits too low",
                  f"shift {name} left by {bits}", 0.3)  # fmt: skip
        yield one(("right", bits), lambda v, bits=bits: v >> word(bits), f"the metadata word is {bits} bits too high",
                  f"shift {name} right by {bits}", 0.3)  # fmt: skip


def _matrices(kernel: Kernel, item: Operation) -> Iterator[Hypothesis]:
    """ldmatrix and stmatrix: `.trans`, and the order of the rows' addresses among the lanes."""
    opcode = item.instruction.form.opcode
    has = ".trans" in opcode
    other = opcode.replace(".trans", "") if has else _with_trans(opcode)
    changed = with_opcode(item, kernel, other)
    if changed is not None:
        what = ".trans is too much: the matrix is transposed" if has else "missing .trans: the matrix must be transposed"
        yield _one(kernel, item, changed, ("trans",), what, 0.95)
    address = item.instruction["address"]
    if not isinstance(address, Address) or address.base is None or register_place(address.base.name) is None:
        return
    lanes, name = np.arange(WARP_SIZE), name_of(kernel, address.base.name)
    for mask in (8, 16):
        turned = lanes ^ mask
        action = seen_as(address.base.name, lambda machine, warps, values, turned=turned: values[:, turned])
        what = f"the row addresses of lanes that differ by {mask} are exchanged"
        fix = f"exchange the addresses {name} of lanes that differ by {mask}"
        yield Hypothesis({item.index: (action,)}, ("rows", mask), what, fix, None, 0.6)
    turned = (lanes & 7) | ((lanes & 8) << 1) | ((lanes & 16) >> 1)
    action = seen_as(address.base.name, lambda machine, warps, values: values[:, turned])
    what = "the row addresses of lanes 8 to 15 and 16 to 23 are exchanged"
    yield Hypothesis({item.index: (action,)}, ("rows", "middle"), what, f"exchange {name} of these lanes", None, 0.7)


def _with_trans(opcode: str) -> str:
    """The opcode with `.trans`, which stands behind the number of matrices."""
    parts = opcode.split(".")
    for number in ("x1", "x2", "x4"):
        if number in parts:
            parts.insert(parts.index(number) + 1, "trans")
            break
    return ".".join(parts)


def immediate(operand: Operand | None) -> int | None:
    """The value of a constant; None for anything else."""
    return operand.value if isinstance(operand, Immediate) else None
