"""Reads the instructions of a trace: PTX text, decoded by `isa.decode` and checked for what a trace allows.

Equal texts are decoded once.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import NoReturn

from isa import Instruction, IsaError, Target, decode
from isa.forms.record import Form, Role
from isa.ptx.instruction import Address, Operand, Pair, Register, Vector, register_names
from simulator.errors import TraceError
from simulator.execute.barrier import barrier_of
from simulator.execute.cta_state import CLUSTER_REGISTERS, SPECIAL
from simulator.program.statements import Statement
from simulator.state.registers import SORT_OF_BITS, Sort, register_place

MAX_REGISTERS = 255  # of a thread; PTX ISA 9.0, 11.4.2 (.maxnreg); CUDA programming guide, compute capabilities


def only_in_launches(form: Form) -> bool:
    """Whether launches execute a form and traces do not: what a warpgroup works on."""
    return form.time.table == "wgmma"


class InstructionReader:
    """Decodes the instructions of a program, and keeps what the program must know of all of them.

    Attributes:
        target: the target that they are written for; None until it is known.
        counts: by sort, how many registers they use.
        group: the first cta_group that an instruction names, and its line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.target: Target | None = None
        self.counts = [0] * len(Sort)
        self.group: tuple[str, int] | None = None

    def fail(self, statement: Statement, reason: str, legal: str = "", offset: int = 0) -> NoReturn:
        """Raises a TraceError at `offset` characters into the statement, which may span lines."""
        before = statement.text[:offset]
        line = statement.line + before.count("\n")
        column = statement.column + offset if "\n" not in before else offset - before.rfind("\n")
        raise TraceError(str(self.path), line, column, reason.replace("\n", " "), legal)

    def instruction(self, statement: Statement) -> Instruction:
        """Decodes and checks the instruction of a statement; TraceError with its place if it is not legal."""
        try:
            instruction = _decoded(statement.text, self.target)
            barrier_of(instruction)
            if only_in_launches(instruction.form):
                reason = f"'{instruction.form.opcode}' is executed in launches of kernels, but not in traces"
                raise IsaError(statement.text, -1, reason, "a kernel: tcsim launch")
        except IsaError as error:
            self.fail(statement, error.reason, error.legal, max(error.position, 0))
        guard = instruction.guard
        if guard is not None:
            self.check_register(statement, guard.predicate.name, (1,), "a guard")
        for role, operand in zip(instruction.form.roles, instruction.operands, strict=False):
            self.check_registers(statement, instruction, role, operand)
        self.check_group(statement, instruction.form)
        return instruction

    def check_group(self, statement: Statement, form: Form) -> None:
        """Checks that all instructions name the same cta_group, as those of a kernel must: PTX ISA 9.0, 9.7.16.5, and
        ptxas 13.0."""
        if form.cta_group:
            group = f".cta_group::{form.cta_group}"
            self.group = self.group or (group, statement.line)
            if group != self.group[0]:
                place = max(statement.text.find(group), 0)
                self.fail(
                    statement,
                    f"{group} beside {self.group[0]} of line {self.group[1]}",
                    "one cta_group in the whole trace",
                    place,
                )

    def check_registers(self, statement: Statement, instruction: Instruction, role: Role, operand: Operand) -> None:
        """Checks that the registers of an operand exist in a trace and are as wide as its role asks."""
        widths = role.widths or (role.width,)
        if isinstance(operand, Address):
            widths = (32, 64)
        if isinstance(operand, Vector) and role.packs:
            widths = (32,)
        if isinstance(operand, Pair):
            first, second = operand.elements
            for part, bits in ((first, 32), (second, 1)):
                if isinstance(part, Register):
                    self.check_register(
                        statement, part.name, (bits,), f"operand {role.name} of {instruction.form.opcode}"
                    )
            return
        for name in register_names(operand):
            if name not in SPECIAL or (name in CLUSTER_REGISTERS and not role.special):
                self.check_register(statement, name, widths, f"operand {role.name} of {instruction.form.opcode}")

    def check_register(self, statement: Statement, name: str, widths: tuple[int, ...], what: str) -> None:
        """Checks that a register exists in a trace and has one of these widths, and counts it."""
        place = register_place(name)
        sorts = [SORT_OF_BITS[bits] for bits in widths if bits in SORT_OF_BITS]  # a trace has none of 128 bits
        if place is None or place.number >= MAX_REGISTERS:
            legal = " or ".join(f"{sort.prefix}0 to {sort.prefix}{MAX_REGISTERS - 1}" for sort in sorts)
            legal += f", or {', '.join(SPECIAL)} to read" if Sort.WORD in sorts else ""
            self.fail(statement, f"'{name}' is not a register of a trace", legal, _place_of(name, statement.text))
        if place.sort not in sorts:
            legal = " or ".join(f"{sort.bits} ({sort.prefix}0)" for sort in sorts)
            self.fail(
                statement,
                f"{what} is {name}, a register of {place.sort.bits} bits",
                legal,
                _place_of(name, statement.text),
            )
        self.counts[place.sort] = max(self.counts[place.sort], place.number + 1)


def _place_of(name: str, text: str) -> int:
    """The position of a register in an instruction's text; longer names that begin with the same letters do not
    count."""
    start = 0 if text.startswith("@") else max(text.find(" "), 0)
    match = re.search(rf"(?<![\w$%.]){re.escape(name)}(?![\w$])", text[start:])
    return match.start() + start if match else 0


@lru_cache(maxsize=65536)
def _decoded(text: str, target: Target | None) -> Instruction:
    return decode(text, target)
