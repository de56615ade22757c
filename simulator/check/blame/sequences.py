"""Hypotheses about which instructions are executed: one too many, one missing, accumulators that are not cleared, a
step of a reduction over the lanes of a warp that is left out, a plain update where an atomic one is meant."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np

from isa.forms.record import Time
from isa.forms.synchronisation import sees_other_threads
from isa.ptx.instruction import Immediate, Instruction, Operand, Register, register_names
from simulator.check.blame.change import Action, Hypothesis, name_of, with_operand
from simulator.check.blame.names import Names, constant_of
from simulator.execute.cta_state import CtaState, Executor, Outcome
from simulator.execute.operands import place_of
from simulator.execute.registry import prepare
from simulator.program.kernel import Branch, Kernel, Operation
from simulator.state.registers import WARP_SIZE, Sort, Warps, register_place

_ORDERING = (Time.BARRIER, Time.CLUSTER_BARRIER, Time.MBARRIER, Time.FENCE, Time.COPY_GROUP, Time.WGMMA_SYNC,
             Time.TMEM_SYNC, Time.TCGEN05_FENCE, Time.COPY_ARRIVAL)  # fmt: skip
_COMBINE = ("add", "max", "min", "and", "or", "xor", "mul", "fma")
_STEPS = (16, 8, 4, 2, 1)
DISTURBED = {Sort.WORD: 0x00800417, Sort.WIDE: 0x417, Sort.HALF: 0x0417, Sort.PREDICATE: True}
NEAR = 12  # places between two steps of a reduction at most


def orders_others(item: Operation) -> bool:
    """Whether an instruction only orders what others do: such are not left out or executed twice here."""
    form = item.instruction.form
    return form.time in _ORDERING or sees_other_threads(form) or "alloc" in form.opcode


def left_out(item: Operation, written_once: Collection[str]) -> Hypothesis:
    """The instruction is one too many; hardly so if nothing else writes its registers (`written_once`)."""
    what = f"this '{item.instruction.form.opcode}' is one too many"
    weight = 0.02 if set(item.writes) & set(written_once) else 0.45
    return Hypothesis({item.index: ()}, ("left out",), what, "leave it out", None, weight)


def disturbed(item: Operation) -> Hypothesis:
    """What an instruction writes to registers is another value: shows which elements it feeds."""
    places = [place for name in dict.fromkeys(item.writes) if (place := register_place(name)) is not None]

    def make(execute: Executor) -> Executor:
        def run(machine: CtaState, warps: Warps) -> Outcome:
            outcome = execute(machine, warps)
            for place in places:
                values = machine.registers.read(warps, [place.number], place.sort)
                other = values ^ np.array(DISTURBED[place.sort], place.sort.dtype)
                machine.registers.write(warps, [place.number], other, machine.active, place.sort)
            return outcome

        return run

    return Hypothesis({item.index: (make,)}, ("disturbed",), "", "", None, 0.0)


def sequence_hypotheses(kernel: Kernel, item: Operation, names: Names) -> Iterator[Hypothesis]:
    """All about how often an instruction is executed, and what is missing beside it."""
    instruction = item.instruction
    if orders_others(item):
        return
    again = {*item.needs, *([""] if instruction.form.name in ("atom", "red") else [])}
    if again & {*item.writes, ""} or instruction.form.name == "red":
        what = f"this '{instruction.form.opcode}' is executed once where twice is meant"
        yield Hypothesis({item.index: (instruction, instruction)}, ("twice",), what, "execute it twice", None, 0.25)
    if instruction.form.is_matrix:
        yield from _cleared(kernel, item)
    if instruction.form.name in _OF_ONE:
        yield from _OF_ONE[instruction.form.name](kernel, item, names)


# Accumulators


def zeroed(registers: Sequence[str]) -> Action:
    """An action: registers become zero, and then the instruction."""
    places = [place_of(each) for each in registers]

    def make(execute: Executor) -> Executor:
        def run(machine: CtaState, warps: Warps) -> Outcome:
            for place in places:
                zeros = np.zeros((len(warps), 1, WARP_SIZE), place.sort.dtype)
                machine.registers.write(warps, [place.number], zeros, machine.active, place.sort)
            return execute(machine, warps)

        return run

    return make


def _cleared(kernel: Kernel, item: Operation) -> Iterator[Hypothesis]:
    """The accumulators of a matrix instruction are cleared before it, or before a loop around it."""
    operand = item.instruction.by_role.get("c") or item.instruction.by_role.get("d")
    if operand is None:
        return
    registers = [each for each in dict.fromkeys(register_names(operand)) if register_place(each) is not None]
    if not registers or "tcgen05" in item.instruction.form.name:
        return
    what = "the accumulator is not cleared before this instruction"
    yield Hypothesis(
        {item.index: (zeroed(registers),)}, ("cleared",), what, "begin with an accumulator of zeros", None, 0.6
    )
    for before in _entries(kernel, item.index):
        yield Hypothesis(
            {before: (zeroed(registers),)}, ("cleared", before), "the accumulator is not cleared before the loop",
            f"clear {', '.join(name_of(kernel, each) for each in registers)} before the loop", None, 0.6,
        )  # fmt: skip


def _entries(kernel: Kernel, place: int) -> list[int]:
    """For each loop around a place, the last instruction before its first one."""
    heads = {item.target for item in kernel.items if isinstance(item, Branch) and item.target <= place <= item.index}
    found = []
    for head in sorted(heads):
        before = head - 1
        while before >= 0 and not isinstance(kernel.items[before], Operation):
            before -= 1
        if before >= 0:
            found.append(before)
    return found


# Reductions over lanes


def _missing_steps(kernel: Kernel, item: Operation, names: Names) -> Iterator[Hypothesis]:
    """A step of a reduction that is left out: the shuffle and what combines its result, with another delta."""
    instruction = item.instruction
    delta = constant_of(instruction.by_role.get("b"), names)
    value = instruction.by_role.get("a")
    if delta is None or not isinstance(value, Register):
        return
    copied, source = _copied(kernel, item, value)
    found = _combined(kernel, item, {value.name, source.name})
    if found is None or not isinstance(result := found[-1].instruction.by_role.get("d"), Register):
        return
    *moves, combine = found
    present = _present(kernel, item, names, combine.instruction.form.opcode)
    between = tuple(each.instruction for each in moves)
    for step in _STEPS:
        if step in present:
            continue
        shuffle = with_operand(instruction, "b", Immediate(step))
        what = f"the step with delta {step} of this reduction is missing"
        fix = f"add a step with delta {step}"
        if step > delta:
            first = with_operand(shuffle, "a", source)
            actions = (first, *between, with_operand(combine.instruction, "d", source), *copied, instruction)
            shows, place = with_operand(shuffle, "a", value), item.index
        else:
            first = with_operand(shuffle, "a", result)
            again = _reading(combine.instruction, source.name, result.name)
            actions = (combine.instruction, first, *between, _reading(again, value.name, result.name))
            shows, place = first, combine.index
        where = "before it" if step > delta else f"behind line {combine.line}"
        yield Hypothesis({place: actions}, ("step", step), what, f"{fix}: {{}} {where}", shows, 0.85)


def _present(kernel: Kernel, shuffle: Operation, names: Names, opcode: str) -> set[int]:
    """The deltas of the shuffles that stand near, one after the other, and are combined by this opcode, or not at all:
    those of the reduction that a shuffle is a step of."""
    shuffles = [item for item in kernel.items if isinstance(item, Operation) and item.instruction.form.name == "shfl"]
    runs: list[list[Operation]] = []
    for item in shuffles:
        if runs and item.index - runs[-1][-1].index <= NEAR:
            runs[-1].append(item)
        else:
            runs.append([item])
    found: set[int] = set()
    for item in next(run for run in runs if shuffle in run):
        value, delta = item.instruction.by_role.get("a"), constant_of(item.instruction.by_role.get("b"), names)
        if not isinstance(value, Register) or delta is None:
            continue
        combined = _combined(kernel, item, {value.name, _copied(kernel, item, value)[1].name})
        if combined is None or combined[-1].instruction.form.opcode == opcode:
            found.add(delta)
    return found


def _copied(kernel: Kernel, shuffle: Operation, value: Register) -> tuple[tuple[Instruction, ...], Register]:
    """What a shuffled register is a copy of: the mov before the shuffle, and its source; or the register itself."""
    for each in _before(kernel, shuffle):
        if value.name in each.writes:
            source = each.instruction.by_role.get("a")
            if each.instruction.form.name == "mov" and isinstance(source, Register) and register_place(source.name):
                return (each.instruction,), source
            break
    return (), value


def _combined(kernel: Kernel, shuffle: Operation, values: set[str]) -> list[Operation] | None:
    """The instruction that combines what a shuffle gives with what went into it, the last; and the copies before it."""
    given, moves = set(shuffle.writes), list[Operation]()
    for item in kernel.items[shuffle.index + 1 : shuffle.index + 9]:
        if not isinstance(item, Operation):
            return None
        reads = set(item.reads)
        if reads & values and reads & given:
            return [*moves, item] if item.instruction.form.name in _COMBINE else None
        if reads & given and item.instruction.form.name == "mov":
            given |= set(item.writes)
            moves.append(item)
    return None


def _reading(instruction: Instruction, register: str, other: str) -> Instruction:
    """The instruction that reads another register in place of one."""
    roles = zip(instruction.form.roles, instruction.operands, strict=False)
    return replace(
        instruction,
        operands=tuple(
            Register(other) if not role.output and each == Register(register) else each for role, each in roles
        ),
    )


# Updates


def _atomic(kernel: Kernel, item: Operation, _: Names) -> Iterator[Hypothesis]:
    """Load, sum and store of one word as one atomic operation."""
    address, value = item.instruction.by_role.get("address"), item.instruction.by_role.get("a")
    if not isinstance(value, Register):
        return
    total = next((each for each in _before(kernel, item) if value.name in each.writes), None)
    if total is None or total.instruction.form.name != "add":
        return
    sources = [total.instruction["a"], total.instruction["b"]]
    loaded = next((each for each in _before(kernel, total) if each.instruction.form.name == "ld"
                   and each.instruction.by_role.get("address") == address
                   and each.instruction["d"] in sources), None)  # fmt: skip
    if loaded is None:
        return
    addend = sources[1 - sources.index(loaded.instruction["d"])]
    load = loaded.instruction

    def make(execute: Executor) -> Executor:
        return _one_by_one(load, with_operand(total.instruction, "a", load["d"]), addend, item.instruction)

    what = "threads update the same word without an atomic operation"
    yield Hypothesis({item.index: (make,)}, ("atomic",), what, "red or atom in place of load, add and store", None, 0.5)


_OF_ONE = {"shfl": _missing_steps, "st": _atomic}  # what may be missing beside one instruction alone, by its name


def _before(kernel: Kernel, item: Operation) -> Iterator[Operation]:
    """The instructions before one in the same line of control, the last first."""
    for place in range(item.index - 1, -1, -1):
        each = kernel.items[place]
        if not isinstance(each, Operation):
            return
        yield each


def _one_by_one(load: Instruction, total: Instruction, addend: Operand, store: Instruction) -> Executor:
    """Load, sum and store, thread after thread."""
    parts = [
        prepare(replace(load, guard=None)),
        prepare(with_operand(total, "b", addend)),
        prepare(replace(store, guard=None)),
    ]

    def run(machine: CtaState, warps: Warps) -> Outcome:
        before = machine.active
        lanes = machine.threads(warps)
        try:
            for row in range(len(warps)):
                for lane in np.flatnonzero(lanes[row]).tolist():
                    machine.active = np.zeros((1, WARP_SIZE), np.bool_)
                    machine.active[0, lane] = True
                    for part in parts:
                        part(machine, warps[row : row + 1])
        finally:
            machine.active = before
        return Outcome()

    return run
