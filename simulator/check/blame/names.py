"""What the registers of a kernel hold: parameters, special registers, constants; and which were written last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from isa.ptx.instruction import Address, Immediate, Operand, OwnOffset, Register
from simulator.program.kernel import Kernel, Operation
from simulator.state.registers import Sort, register_place

KNOWN = 64  # registers of a sort that have been written before and that may be meant


@dataclass(frozen=True)
class Names:
    """What the registers of a kernel hold.

    Attributes:
        parameters: by register, the parameter that it is loaded from: (offset, value in words).
        specials: by register, the special register that it is a copy of.
        recent: by place, registers of each sort that have been written shortly before, the last first.
        constants: by register that one instruction alone writes, the constant that it holds.
    """

    parameters: Mapping[str, tuple[int, str]]
    specials: Mapping[str, str]
    constants: Mapping[str, Immediate]
    recent: Sequence[Mapping[Sort, tuple[str, ...]]]


def names_of(kernel: Kernel, known: int = KNOWN) -> Names:
    """What the registers of a kernel hold.

    Args:
        known: registers of a sort that have been written before and that may be meant.
    """
    parameters: dict[str, tuple[int, str]] = {}
    specials: dict[str, str] = {}
    constants: dict[str, Immediate] = {}
    writers = Counter(name for item in kernel.items if isinstance(item, Operation) for name in item.writes)
    recent: list[Mapping[Sort, tuple[str, ...]]] = []
    last: dict[Sort, tuple[str, ...]] = {}
    for item in kernel.items:
        recent.append(last)
        if not isinstance(item, Operation):
            continue
        instruction = item.instruction
        form, source = instruction.form, instruction.by_role.get("a")
        address, to = instruction.by_role.get("address"), instruction.by_role.get("d")
        if form.name == "ld" and "param" in form.qualifiers and isinstance(address, Address) and address.base is None:
            if isinstance(to, Register):
                parameters[to.name] = address.offset, f"parameter {parameter_number(kernel, address.offset)}"
        elif form.name == "mov" and isinstance(to, Register) and isinstance(source, Immediate):
            if writers[to.name] == 1 and not isinstance(source, OwnOffset):
                constants[to.name] = source
        elif form.name in ("mov", "cvta") and isinstance(to, Register) and isinstance(source, Register):
            if source.name in parameters:
                parameters[to.name] = parameters[source.name]
            elif register_place(source.name) is None:
                specials[to.name] = source.name
        for name in item.writes:
            place = register_place(name)
            if place is not None:
                kept = tuple(each for each in last.get(place.sort, ()) if each != name)
                last = {**last, place.sort: (name, *kept[: known - 1])}
    return Names(parameters, specials, constants, recent)


def constant_of(operand: Operand | None, names: Names) -> int | None:
    """The value of an operand that is a constant, or a register that always holds one; None for others."""
    if isinstance(operand, Register):
        operand = names.constants.get(operand.name)
    return operand.value if isinstance(operand, Immediate) else None


def parameter_number(kernel: Kernel, offset: int) -> int:
    """The number of the parameter at an offset."""
    return next((number for number, each in enumerate(kernel.parameters) if each.offset == offset), offset)
