"""What a selection finds in a program: which registers which instructions read and write, and when each warp executes
them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from isa.ptx.instruction import Address, Guard, Instruction, Operand, Predicate, TensorPlace, register_names
from simulator.faults.aim.selection import KEYS, Selection, begins, source_holds

Times = NDArray[np.int64]
_MOST_NAMES = 40  # that an error lists
_GUARD = ("guard", "predicate", "source")  # the roles of a guard
_SELECTOR = "f"  # the name in PTX of the operand of mma.sp that is the sparsity selector


class Static(NamedTuple):
    """An instruction of a program's text.

    Attributes:
        instruction: what it is; None for a branch or an exit, of which the guard is all that it reads.
        line, source: the lines of the text and of the source.
        branch: the opcode of a branch or an exit.
        guard: its predicate.
    """

    instruction: Instruction | None
    line: int
    source: tuple[str, int] | None = None
    branch: str = ""
    guard: Guard | None = None

    @property
    def opcode(self) -> str:
        """The opcode."""
        return self.branch if self.instruction is None else self.instruction.form.opcode

    @property
    def group(self) -> str:
        """The group of instructions that it belongs to, by which populations are counted: of matrix instructions their
        first names, of the others the unit and class that time them."""
        if self.instruction is None:
            return "branch"
        form = self.instruction.form
        return f"{form.name}{'.sp' * form.is_sparse}" if form.is_matrix else str(form.time.value).replace(" ", "-")

    @property
    def operands(self) -> Iterator[tuple[set[str], Operand, bool]]:
        """Each operand with its roles, and whether its registers are written."""
        if self.instruction is not None:
            yield from operands(self.instruction)
        elif self.guard is not None:
            yield set(_GUARD), Predicate(self.guard.predicate), False

    @property
    def guarded(self) -> bool:
        """Whether a predicate may keep it from writing."""
        return self.instruction is not None and self.instruction.guard is not None


class Program(Protocol):
    """What a selection asks of a target that runs."""

    @property
    def numbers(self) -> Sequence[int]:
        """The warps."""

    @property
    def warps_of_a_cta(self) -> int:
        """How many warps a CTA has."""

    def executed(self, warp: int) -> NDArray[np.int64]:
        """Of each dynamic instruction of a warp the number of its item, int64 [n]."""

    def statics(self, warp: int) -> dict[int, Static]:
        """The instructions of a warp's program by number of item."""

    def register_words(self, names: Iterable[str], site: str = "registers") -> tuple[int, ...]:
        """The words of a site of registers that these registers are."""

    def names_of(self, register: str) -> tuple[str, ...]:
        """What the text calls a register."""


class Block(NamedTuple):
    """Faults of one warp at some words and times.

    Attributes:
        warp: the warp.
        times: before which dynamic instructions they strike, int64 [n].
        words: which words of the site; None for all of them.
        lanes: which lanes of these words; None for all of them.
        weights: what each time stands for, float64 [n]; None for 1.
    """

    warp: int
    times: Times
    words: tuple[int, ...] | None = None
    weights: NDArray[np.float64] | None = None
    lanes: tuple[int, ...] | None = None

    @property
    def weights_or_ones(self) -> NDArray[np.float64]:
        """What each time stands for, float64 [n]."""
        return np.ones(len(self.times)) if self.weights is None else self.weights


def roles_of(name: str, operand: Operand, output: bool) -> set[str]:
    """The roles by which a selection can name an operand: its name in PTX, and what it is."""
    roles = {name}
    if name == _SELECTOR:
        roles.add("selector")
    if name.startswith("scale"):
        roles.add("scale")
    if "desc" in name:
        roles.add("descriptor")
    addressed = isinstance(operand, Address | TensorPlace)
    if addressed:
        roles.add("address")
    return roles | {"destination" if output and not addressed else "source"}


def operands(instruction: Instruction) -> Iterator[tuple[set[str], Operand, bool]]:
    """Each operand of an instruction with its roles, and whether its registers are written."""
    for role, operand in zip(instruction.form.roles, instruction.operands, strict=False):
        output = role.output and not isinstance(operand, Address | TensorPlace)
        yield roles_of(role.name, operand, output), operand, output
        if role.added:
            yield {role.name, "source"}, operand, False
    if instruction.guard is not None:
        yield set(_GUARD), Predicate(instruction.guard.predicate), False


def chosen(selection: Selection, static: Static) -> bool:
    """Whether an instruction is selected, whatever its operands."""
    opcode, group = static.opcode, static.group
    return (
        selection.matches("op", lambda part: begins(opcode, part) or group == part)
        and bool(selection.numbers("line", static.line))
        and selection.matches("source", lambda value: source_holds(static.source, value))
    )


def struck(
    selection: Selection, static: Static, program: Program, site: str = "registers"
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The words of a site of registers that are selected in one instruction: those that it reads, and those that it
    writes."""
    read: dict[int, None] = {}
    written: dict[int, None] = {}
    for roles, operand, output in static.operands:
        if selection.matches("role", roles.__contains__):
            names = [
                name
                for name in register_names(operand)
                if selection.matches("register", program.names_of(name).__contains__)
            ]
            (written if output else read).update(dict.fromkeys(program.register_words(names, site)))
    return tuple(read), tuple(written)


def blocks(
    selection: Selection,
    program: Program,
    site: str,
    warps: Sequence[int],
    clocks: dict[int, Times],
    *,
    only_written: bool = False,
) -> Iterator[Block]:
    """Where faults in registers strike: before an instruction that reads the selected registers, behind one that writes
    them.

    Args:
        site: of registers.
        warps: the warps that may be struck.
        clocks: by warp, the time of each of its dynamic instructions where `time` does not count these.
        only_written: leaves out what is read.
    """
    found: dict[tuple[int, int], tuple[tuple[int, ...], tuple[int, ...]]] = {}
    for warp in selected_warps(selection, program, warps):
        order, statics = program.executed(warp), program.statics(warp)
        in_time = selection.numbers("time", clocks.get(warp, np.arange(len(order))))
        for item in np.unique(order).tolist():
            static = statics.get(item)
            if static is None or not chosen(selection, static):
                continue
            key = id(static.instruction), item
            if key not in found:
                found[key] = struck(selection, static, program, site)
            times = np.flatnonzero((order == item) & in_time)
            for words, later in zip(found[key], (0, 1), strict=True):
                if words and len(times) and later >= only_written:
                    yield Block(warp, times + later, words)


def has(selection: Selection, program: Program, site: str) -> bool:
    """Whether some instruction has registers of a site that are selected, whoever executes it."""
    statics = {static for warp in program.numbers for static in program.statics(warp).values()}
    return any(chosen(selection, static) and any(struck(selection, static, program, site)) for static in statics)


def selected_warps(selection: Selection, program: Program, warps: Iterable[int]) -> list[int]:
    """Those of the warps that are selected, by their own numbers and by their CTAs'."""
    numbers = np.array(list(warps), np.int64)
    mine = selection.numbers("warps", numbers) & selection.numbers("ctas", numbers // program.warps_of_a_cta)
    return [int(warp) for warp in numbers[mine]]


def selects_nothing(selection: Selection, program: Program, site: str, warps: Sequence[int]) -> tuple[str, str]:
    """Why a selection finds no register of a site to strike, and what there is: the first term that nothing has."""
    statics = {static for warp in warps for static in program.statics(warp).values()}
    names: dict[str, Callable[[Static], Iterable[str]]] = {
        "op": lambda static: [static.group],
        "role": lambda static: [role for roles, _, _ in static.operands for role in roles],
        "register": lambda static: [
            name
            for _, operand, _ in static.operands
            for register in register_names(operand)
            for name in program.names_of(register)
        ],
    }
    for term in selection.terms:
        alone = Selection("", (term,))
        one = any(chosen(alone, static) and any(struck(alone, static, program, site)) for static in statics)
        if not one:
            of = names.get(term.key)
            known = sorted({name for static in statics for name in of(static)} if of else ())
            legal = ", ".join(known[:_MOST_NAMES]) + ", ..." * (len(known) > _MOST_NAMES)
            return f"{term.key} selects nothing that the program has", legal or f"{term.key}: {KEYS[term.key]}"
    return "its terms select nothing together", "fewer terms"


def covered(subject: Program, warps: Sequence[int], site: str = "registers") -> dict[str, tuple[int, int, int]]:
    """By group of instructions: how many dynamic instructions the warps execute, and how many words of registers of a
    lane faults can strike before them (read) and behind them (written), at a site of registers."""
    everything, found = Selection("", ()), dict[str, list[int]]()
    kept: dict[tuple[int, int], tuple[int, int]] = {}
    for warp in warps:
        order, statics = subject.executed(warp), subject.statics(warp)
        items, counts = np.unique(order, return_counts=True)
        for item, count in zip(items.tolist(), counts.tolist(), strict=True):
            static = statics.get(item)
            if static is None:
                continue
            key = id(static.instruction), item
            if key not in kept:
                read, written = struck(everything, static, subject, site)
                kept[key] = len(read), len(written)
            total = found.setdefault(static.group, [0, 0, 0])
            for place, value in enumerate((1, *kept[key])):
                total[place] += count * value
    return {name: (total[0], total[1], total[2]) for name, total in sorted(found.items())}
