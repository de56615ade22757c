"""A captured kernel that mutants are made of: its instructions with their places in the text, and what feeds what."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from isa.forms.record import Form
from isa.ptx.instruction import Address, Immediate, Instruction, Register, Vector
from simulator.inputs import read_text
from simulator.program.capture import Capture
from simulator.program.kernel import Branch, Kernel, Operation, link
from simulator.simulation.launch.module import Module
from simulator.studies.mutation.text import ModuleText, Span, Statement

ARITHMETIC = {
    "add", "sub", "mul", "mad", "shl", "shr", "and", "or", "xor", "lop3", "bfe", "bfi", "cvt", "cvta", "mov", "prmt",
    "shf", "min", "max", "neg", "not", "rem", "div", "selp",
}  # fmt: skip
"""What indices and addresses are computed with, by the first word of the opcode."""


@dataclass(frozen=True)
class Site:
    """An instruction of the kernel, and where it stands in the text.

    Attributes:
        item: as it is linked; the first of several where a function is called more than once.
        statement: its text.
    """

    item: Operation
    statement: Statement

    @property
    def instruction(self) -> Instruction:
        """As it is decoded."""
        return self.item.instruction

    @property
    def form(self) -> Form:
        """Its form."""
        return self.item.instruction.form

    @property
    def line(self) -> int:
        """Of the text, from 1."""
        return self.item.line

    @property
    def name(self) -> str:
        """The first word of its opcode."""
        return self.form.opcode.split(".")[0]

    def operand(self, role: str) -> Span | None:
        """The text of the operand of a role; None where it was left out."""
        names = [each.name for each, _ in zip(self.form.roles, self.instruction.operands, strict=False)]
        spans = self.statement.operands
        return spans[names.index(role)] if role in names and len(names) == len(spans) else None

    def immediate(self, role: str) -> int | None:
        """The value of an operand that is a constant; None for another."""
        operand = self.instruction.by_role.get(role)
        return operand.value if isinstance(operand, Immediate) else None

    def addresses(self) -> Iterator[tuple[Span, Address]]:
        """The operands that are addresses, `[base + offset]`."""
        for span, operand in zip(self.statement.operands, self.instruction.operands, strict=False):
            if isinstance(operand, Address) and span.text.startswith("["):
                yield span, operand

    def registers(self, role: str) -> tuple[str, ...]:
        """The names, as linked, of the registers of an operand."""
        operand = self.instruction.by_role.get(role)
        elements = operand.elements if isinstance(operand, Vector) else (operand,)
        return tuple(each.name for each in elements if isinstance(each, Register))


class Subject:
    """A captured kernel.

    Attributes:
        capture: of the right kernel.
        kernel: linked, each register of the text with a register of its own.
        text: of its module.
    """

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        module = Module(capture.ptx)
        self.kernel: Kernel = link(module.parsed, module.find(capture.entry), allocate=False)
        self.text = ModuleText(read_text(capture.ptx, "a PTX module"))

    @property
    def name(self) -> str:
        """Of the capture."""
        return self.capture.path.stem

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        """The instructions whose text is found, in the order of the kernel, each once."""
        found: dict[int, Site] = {}
        for item in self.kernel.items:
            if isinstance(item, Operation):
                statement = self.text.statement(item.line, item.text)
                if statement is not None and statement.start not in found:
                    found[statement.start] = Site(item, statement)
        return tuple(found.values())

    @cached_property
    def branches(self) -> tuple[tuple[Branch, Statement], ...]:
        """The branches whose text is found."""
        found: dict[int, tuple[Branch, Statement]] = {}
        for item in self.kernel.items:
            if isinstance(item, Branch):
                statement = self.text.statement(item.line, item.text)
                if statement is not None:
                    found.setdefault(statement.start, (item, statement))
        return tuple(found.values())

    # What feeds what, by the names of registers, in any order of execution

    @cached_property
    def writers(self) -> dict[str, list[Operation]]:
        """By register, the instructions that write it."""
        return self._by_register("writes")

    @cached_property
    def readers(self) -> dict[str, list[Operation]]:
        """By register, the instructions that read it."""
        return self._by_register("needs")

    def _by_register(self, which: str) -> dict[str, list[Operation]]:
        found: dict[str, list[Operation]] = defaultdict(list)
        for item in self.kernel.items:
            if isinstance(item, Operation):
                for name in getattr(item, which):
                    found[name].append(item)
        return found

    def feeders(self, site: Site, names: Iterable[str]) -> set[int]:
        """Lines of the instructions that write some registers which this instruction alone reads: what is wrong in it
        can be repaired there as well."""
        lines = set()
        for name in names:
            for writer in self.writers.get(name, ()):
                own = {reader.line for written in writer.writes for reader in self.readers.get(written, ())}
                if own <= {site.line, writer.line}:
                    lines.add(writer.line)
        return lines

    def consumers(self, item: Operation) -> set[int]:
        """Lines of the instructions that read what one writes."""
        return {reader.line for name in item.writes for reader in self.readers.get(name, ())}

    def guarded_by(self, predicates: Iterable[str]) -> set[int]:
        """Lines of what some predicates guard or choose: branches, other instructions, selp, and predicates."""
        seen, work, lines = set(predicates), list(predicates), set()
        while work:
            name = work.pop()
            for item in self.kernel.items:
                if item.guard is not None and item.guard.predicate.name == name:
                    lines.add(item.line)
            for reader in self.readers.get(name, ()):
                lines.add(reader.line)
                for written in reader.writes:
                    if written.startswith("%p") and not written.startswith("%pd") and written not in seen:
                        seen.add(written)
                        work.append(written)
        return lines

    def reached(self, item: Operation) -> tuple[set[int], set[int]]:
        """What a result goes into through index arithmetic: lines of that arithmetic, and lines of the accesses to
        memory whose addresses (or sizes) it gives."""
        seen, work, arithmetic, accesses = {item.index}, [item], set(), set()
        while work:
            for name in work.pop().writes:
                for reader in self.readers.get(name, ()):
                    if reader.index in seen:
                        continue
                    seen.add(reader.index)
                    if reader.opcode.split(".")[0] in ARITHMETIC:
                        arithmetic.add(reader.line)
                        work.append(reader)
                    elif name in _address_registers(reader):
                        accesses.add(reader.line)
        return arithmetic, accesses

    def index_chain(self, names: Iterable[str]) -> set[int]:
        """Lines of the arithmetic that makes some registers, as far back as nothing else reads what it gives."""
        lines: set[int] = set()
        work = list(names)
        while work:
            name = work.pop()
            for writer in self.writers.get(name, ()):
                alone = len({reader.index for reader in self.readers.get(name, ())}) == 1
                if alone and writer.line not in lines and writer.opcode.split(".")[0] in ARITHMETIC:
                    lines.add(writer.line)
                    work += writer.reads
        return lines

    def straight(self, first: Site, second: Site) -> bool:
        """Whether no branch, label or end stands between two instructions, the first before the second."""
        low, high = first.item.index, second.item.index
        targets = {item.target for item in self.kernel.items if isinstance(item, Branch)}
        return all(
            isinstance(self.kernel.items[place], Operation) and (place == low or place not in targets)
            for place in range(low, high + 1)
        )


def _address_registers(item: Operation) -> set[str]:
    """The registers that an instruction takes addresses from, descriptors of matrices in shared memory included."""
    names = set()
    for role, operand in zip(item.instruction.form.roles, item.instruction.operands, strict=False):
        if isinstance(operand, Address) and operand.base is not None:
            names.add(operand.base.name)
        elif isinstance(operand, Register) and (role.name.endswith("desc") or item.instruction.form.is_matrix):
            names.add(operand.name)
    return names
