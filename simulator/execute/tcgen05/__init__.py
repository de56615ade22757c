"""Executes the tcgen05 family: the matrix instructions of Blackwell and all that moves data for them.

Asynchronous instructions do their work at once, in the order in which warps are walked, unless
`simulator.execute.completion` says when; `tcsim check` tells whether a program may rely on that order. Allocation,
waits, commits and fences are in `order`. PTX ISA 9.0, 9.7.16.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from isa.forms.record import Form
from isa.forms.tcgen05 import is_tcgen05_mma
from isa.ptx.instruction import Immediate, Instruction, Operand
from isa.tensor_memory.copies import copy
from isa.tensor_memory.moves import Move, move
from simulator.execute.cta_state import CtaState, Executor, Outcome
from simulator.execute.dynamic_info import CopyFacts, Fact, Idle, MoveFacts, ShiftFacts
from simulator.execute.holder import Holder
from simulator.execute.operands import addresses, predicate, reader, writer
from simulator.execute.registry import prepares
from simulator.execute.tcgen05 import later, order, regions
from simulator.execute.tcgen05.fetch import Cta
from simulator.execute.tcgen05.moves import copy_in, load, reduction, shift, store
from simulator.execute.tcgen05.multiply import multiply
from simulator.execute.tcgen05.plan import Call, facts_of
from simulator.execute.tcgen05.threads import Values, ctas, first, note, single, together, within_cta
from simulator.state.registers import Warps

__all__ = ["order"]


def _as_cta(holder: Holder) -> Cta:
    return Cta(holder.tmem, holder.shared_bytes, holder.tmem.collectors)


# tcgen05.mma


@prepares("tcgen05.mma", "tcgen05.mma.ws")
def _mma(instruction: Instruction, form: Form) -> Executor:
    assert is_tcgen05_mma(form)
    given = instruction.by_role
    words: dict[str, Values] = {}
    for name in ("d", "sp_meta", "scale_a", "scale_b"):
        if name in given:
            words[name] = addresses(given[name])
    words["a"] = addresses(given["a"]) if form.a_in_tmem else first(reader(given["a"], 64))
    words |= {
        name: first(reader(given[name], bits))
        for name, bits in (("b", 64), ("idesc", 32), ("zero_mask", 64))
        if name in given
    }
    enable = predicate(given["enable"])
    lanes = reader(given["lanes"]) if "lanes" in given else None
    scale_d = _constant(given["scale_d"]) if "scale_d" in given else 0

    def run(machine: CtaState, warps: Warps) -> Outcome:
        facts: list[Fact] = [Idle()] * len(warps)
        values = {name: read(machine, warps) for name, read in words.items()}
        enabled, masks = enable(machine, warps), lanes(machine, warps) if lanes else None
        for row, warp, lane in single(machine, warps, form):
            group = ctas(machine, warp, form)
            mask = () if masks is None else tuple(int(word) for word in masks[row, :, lane])
            call = Call(
                form,
                **{name: int(value[row, lane]) for name, value in values.items()},
                enable=bool(enabled[row, lane]),
                lanes=mask,
                scale_d=scale_d,
            )
            if machine.wants_accesses or machine.completion is not None:
                touched = regions.of_mma(call, group)
                note(machine, instruction, warps, row, *touched)
            if machine.completion is not None:
                later.happen(machine, form, warp, lane, touched, partial(_multiply, machine, call, group))
            else:
                _multiply(machine, call, group)
            facts[row] = done = facts_of(call)
            machine.multiplied += done.fma
        return Outcome(facts=tuple(facts))

    return run


def _multiply(machine: CtaState, call: Call, group: tuple[Holder, ...]) -> None:
    """Computes D; as long as instructions are left to compare, also how far it is from the exact result."""
    if machine.arithmetic == "none":
        return
    compare = machine.compare > 0 and machine.arithmetic == "chip"
    ctas = [_as_cta(cta) for cta in group]
    found = multiply(
        call, ctas, target=machine.target, arithmetic=machine.arithmetic, compare=compare, meet=machine.note_undefined
    )
    if compare:
        machine.note_compared(found, 1)


def _constant(operand: Operand) -> int:
    assert isinstance(operand, Immediate)
    return operand.value


# Moves


def _move(instruction: Instruction, form: Form) -> Move:
    """Which cells a tcgen05.ld or st moves to or from which registers."""
    split = _constant(instruction["half_split"]) if form.shape == "16x32bx2" else None
    return move(form.shape, form.repeats, form.packed, split)


@prepares("tcgen05.ld", "tcgen05.ld.red")
def _load(instruction: Instruction, form: Form) -> Executor:
    how, read_addresses, write = _move(instruction, form), addresses(instruction["taddr"]), writer(instruction["d"])
    reduces = "redval" in instruction.by_role
    write_reduced = writer(instruction["redval"]) if reduces else None
    reduced = reduction(form.qualifiers) if reduces else None

    def fill(machine: CtaState, warps: Warps, address: int) -> None:
        """Fills the registers of one warp."""
        warp = int(warps[0])
        values = load(_as_cta(machine.resident(warp)), machine.warp_in_cta(warp), address, how)
        write(machine, warps, values[None])
        if write_reduced is not None and reduced is not None:
            write_reduced(machine, warps, reduced(values)[None, None])

    def run(machine: CtaState, warps: Warps) -> Outcome:
        late = later.completion_of(machine) is not None
        values = np.empty((len(warps), how.registers, 32), np.uint32)
        for row, warp, (given,) in together(machine, warps, form, read_addresses(machine, warps)):
            cta, address = machine.resident(warp), within_cta(machine, warp, given)
            values[row] = load(_as_cta(cta), machine.warp_in_cta(warp), address, how)
            if machine.wants_accesses or late:
                touched = regions.Touched(regions.of_move(cta, address, how), ())
                note(machine, instruction, warps, row, *touched)
            if late:
                act = partial(fill, machine, warps[row : row + 1], address)
                later.move(machine, form, warp, touched, act, instruction.writes)
        if late:
            return Outcome()
        write(machine, warps, values)
        if write_reduced is not None and reduced is not None:
            write_reduced(machine, warps, np.stack([reduced(each) for each in values])[:, None])
        return Outcome(facts=(MoveFacts(False, how.cells[0].size),) * len(warps))

    return run


@prepares("tcgen05.st")
def _store(instruction: Instruction, form: Form) -> Executor:
    how, read_addresses, read = _move(instruction, form), addresses(instruction["taddr"]), reader(instruction["a"])

    def run(machine: CtaState, warps: Warps) -> Outcome:
        values = read(machine, warps)
        for row, warp, (given,) in together(machine, warps, form, read_addresses(machine, warps)):
            cta, address = machine.resident(warp), within_cta(machine, warp, given)
            late = later.completion_of(machine) is not None
            act = partial(store, _as_cta(cta), machine.warp_in_cta(warp), address, how, values[row])
            if machine.wants_accesses or late:
                touched = regions.Touched((), regions.of_move(cta, address, how))
                note(machine, instruction, warps, row, *touched)
            if late:
                later.move(machine, form, warp, touched, act)
            else:
                act()
        return Outcome(facts=(MoveFacts(True, how.cells[0].size),) * len(warps))

    return run


@prepares("tcgen05.cp")
def _copy(instruction: Instruction, form: Form) -> Executor:
    how, read_addresses, descriptor = (
        copy(form.shape, form.multicast),
        addresses(instruction["taddr"]),
        first(reader(instruction["s_desc"], 64)),
    )
    rows, width = how.source
    done = CopyFacts(rows * width, rows * width * how.copies, form.cta_group)

    def run(machine: CtaState, warps: Warps) -> Outcome:
        facts: list[Fact] = [Idle()] * len(warps)
        where, words = read_addresses(machine, warps), descriptor(machine, warps)
        for row, warp, lane in single(machine, warps, form):
            group = ctas(machine, warp, form)
            address, word = int(where[row, lane]), int(words[row, lane])
            act = partial(copy_in, [_as_cta(cta) for cta in group], address, word, how, form.decompression)
            if machine.wants_accesses or machine.completion is not None:
                touched = regions.of_copy(group, address, word, how)
                note(machine, instruction, warps, row, *touched)
            if machine.completion is not None:
                later.happen(machine, form, warp, lane, touched, act)
            else:
                act()
            facts[row] = done
        return Outcome(facts=tuple(facts))

    return run


@prepares("tcgen05.shift")
def _shift(instruction: Instruction, form: Form) -> Executor:
    read_addresses = addresses(instruction["taddr"])

    def run(machine: CtaState, warps: Warps) -> Outcome:
        facts: list[Fact] = [Idle()] * len(warps)
        where = read_addresses(machine, warps)
        for row, warp, lane in single(machine, warps, form):
            group = ctas(machine, warp, form)
            act = partial(shift, [_as_cta(cta) for cta in group], int(where[row, lane]))
            if machine.wants_accesses or machine.completion is not None:
                touched = regions.of_shift(group, int(where[row, lane]))
                note(machine, instruction, warps, row, *touched)
            if machine.completion is not None:
                later.happen(machine, form, warp, lane, touched, act)
            else:
                act()
            facts[row] = ShiftFacts(31 * 32, form.cta_group)
        return Outcome(facts=tuple(facts))

    return run
