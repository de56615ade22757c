"""Executes the tcgen05 family: the matrix instructions of Blackwell and all that moves data for them.

Asynchronous instructions do their work at once, in the order in which warps are walked; `tcsim check` tells whether
a program may rely on that order. PTX ISA 9.0, 9.7.16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.errors import IsaError
from isa.forms.record import Form
from isa.forms.tcgen05 import is_tcgen05_mma
from isa.ptx.instruction import Immediate, Instruction, Operand
from isa.tensor_memory.copies import copy
from isa.tensor_memory.moves import Move, move
from isa.undefined import undefined_behavior
from simulator.execute.cta_state import CtaState, Executor, Outcome
from simulator.execute.dynamic_info import CommitFacts, CopyFacts, Fact, Idle, MoveFacts, MoveWaitFacts, ShiftFacts
from simulator.execute.events import Region
from simulator.execute.holder import Holder
from simulator.execute.operands import addresses, predicate, reader, writer
from simulator.execute.pending import PendingWait
from simulator.execute.registry import prepares
from simulator.execute.tcgen05 import regions
from simulator.execute.tcgen05.fetch import Cta
from simulator.execute.tcgen05.moves import copy_in, load, reduction, shift, store
from simulator.execute.tcgen05.multiply import multiply
from simulator.execute.tcgen05.plan import Call, facts_of
from simulator.state.registers import Warps
from simulator.state.tensor_memory import Allocation

Values = Callable[[CtaState, Warps], NDArray[Any]]


class _Thread(NamedTuple):
    """The one thread of a warp that executes an instruction of a single thread."""

    row: int
    warp: int
    lane: int


def _single(machine: CtaState, warps: Warps, form: Form) -> Iterator[_Thread]:
    """The one active thread of each warp; IsaError if several threads of a warp execute the instruction."""
    for row, active in enumerate(machine.threads(warps)):
        lanes = np.flatnonzero(active)
        if len(lanes) > 1:
            raise IsaError(
                form.opcode,
                -1,
                f"'{form.name}' by {len(lanes)} threads of warp {machine.warp_in_cta(int(warps[row]))}",
                "one thread: @%p0 after elect.sync",
                rule="aligned-threads",
            )
        if len(lanes):
            yield _Thread(row, int(warps[row]), int(lanes[0]))


def _together(
    machine: CtaState, warps: Warps, form: Form, *values: NDArray[Any]
) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Row, warp and values of each warp, for .sync.aligned: all threads, and the same in all of them."""
    for row, active in enumerate(machine.threads(warps)):
        if not active.all():
            warp = machine.warp_in_cta(int(warps[row]))
            reason = f"'{form.name}' by {int(active.sum())} of the 32 threads of warp {warp}"
            raise IsaError(form.opcode, -1, reason, "all threads of a warp (.sync.aligned)", rule="aligned-threads")
        for value in values:
            if (value[row] != value[row, :1]).any():
                warp = machine.warp_in_cta(int(warps[row]))
                raise undefined_behavior("uneven-operand", f"{form.opcode}, warp {warp}")
        yield row, int(warps[row]), tuple(int(value[row, 0]) for value in values)


def _note(
    machine: CtaState,
    instruction: Instruction,
    warps: Warps,
    row: int,
    reads: tuple[Region, ...] = (),
    writes: tuple[Region, ...] = (),
) -> None:
    """Tells the listeners what the warp at this place of `warps` has done."""
    machine.note(instruction, warps[row : row + 1], reads, writes, machine.threads(warps)[row : row + 1])


def _ctas(machine: CtaState, warp: int, form: Form) -> tuple[Holder, ...]:
    """The CTAs that an instruction of a warp works on."""
    if form.cta_group < 2:
        return (machine.resident(warp),)
    pair = machine.pair(warp)
    if len(pair) < 2:
        raise IsaError(
            form.opcode,
            -1,
            "cta_group::2 in a CTA without a peer",
            "a pair: .cta 0 { ... } and .cta 1 { ... }, or clusters of an even number of CTAs",
        )
    return pair


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
    words["a"] = addresses(given["a"]) if form.a_in_tmem else _first(reader(given["a"], 64))
    words |= {
        name: _first(reader(given[name], bits))
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
        for row, warp, lane in _single(machine, warps, form):
            group = _ctas(machine, warp, form)
            mask = () if masks is None else tuple(int(word) for word in masks[row, :, lane])
            call = Call(
                form,
                **{name: int(value[row, lane]) for name, value in values.items()},
                enable=bool(enabled[row, lane]),
                lanes=mask,
                scale_d=scale_d,
            )
            if machine.wants_accesses:
                _note(machine, instruction, warps, row, *regions.of_mma(call, group))
            if machine.arithmetic != "none":
                _multiply(machine, call, group)
            facts[row] = facts_of(call)
        return Outcome(facts=tuple(facts))

    return run


def _multiply(machine: CtaState, call: Call, group: tuple[Holder, ...]) -> None:
    """Computes D; as long as instructions are left to compare, also how far it is from the exact result."""
    compare = machine.compare > 0 and machine.arithmetic == "chip"
    ctas = [_as_cta(cta) for cta in group]
    found = multiply(
        call, ctas, target=machine.target, arithmetic=machine.arithmetic, compare=compare, meet=machine.note_undefined
    )
    if compare:
        machine.note_compared(found, 1)


def _first(read: Values) -> Values:
    """A function that reads the only register of a scalar operand: [warp, lane]."""
    return lambda machine, warps: read(machine, warps)[:, 0]


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

    def run(machine: CtaState, warps: Warps) -> Outcome:
        values = np.empty((len(warps), how.registers, 32), np.uint32)
        for row, warp, (address,) in _together(machine, warps, form, read_addresses(machine, warps)):
            cta = machine.resident(warp)
            values[row] = load(_as_cta(cta), machine.warp_in_cta(warp), address, how)
            if machine.wants_accesses:
                _note(machine, instruction, warps, row, reads=regions.of_move(cta, address, how))
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
        for row, warp, (address,) in _together(machine, warps, form, read_addresses(machine, warps)):
            cta = machine.resident(warp)
            store(_as_cta(cta), machine.warp_in_cta(warp), address, how, values[row])
            if machine.wants_accesses:
                _note(machine, instruction, warps, row, writes=regions.of_move(cta, address, how))
        return Outcome(facts=(MoveFacts(True, how.cells[0].size),) * len(warps))

    return run


@prepares("tcgen05.wait::ld", "tcgen05.wait::st")
def _wait(instruction: Instruction, form: Form) -> Executor:
    stores = form.name.endswith("::st")

    def run(machine: CtaState, warps: Warps) -> Outcome:
        rows = list(_together(machine, warps, form))
        machine.note(instruction, warps)
        return Outcome(facts=(MoveWaitFacts(stores),) * len(rows))

    return run


@prepares("tcgen05.cp")
def _copy(instruction: Instruction, form: Form) -> Executor:
    how, read_addresses, descriptor = (
        copy(form.shape, form.multicast),
        addresses(instruction["taddr"]),
        _first(reader(instruction["s_desc"], 64)),
    )
    rows, width = how.source
    done = CopyFacts(rows * width, rows * width * how.copies, form.cta_group)

    def run(machine: CtaState, warps: Warps) -> Outcome:
        facts: list[Fact] = [Idle()] * len(warps)
        where, words = read_addresses(machine, warps), descriptor(machine, warps)
        for row, warp, lane in _single(machine, warps, form):
            group = _ctas(machine, warp, form)
            address, word = int(where[row, lane]), int(words[row, lane])
            if machine.wants_accesses:
                _note(machine, instruction, warps, row, *regions.of_copy(group, address, word, how))
            copy_in([_as_cta(cta) for cta in group], address, word, how, form.decompression)
            facts[row] = done
        return Outcome(facts=tuple(facts))

    return run


@prepares("tcgen05.shift")
def _shift(instruction: Instruction, form: Form) -> Executor:
    read_addresses = addresses(instruction["taddr"])

    def run(machine: CtaState, warps: Warps) -> Outcome:
        facts: list[Fact] = [Idle()] * len(warps)
        where = read_addresses(machine, warps)
        for row, warp, lane in _single(machine, warps, form):
            group = _ctas(machine, warp, form)
            shift([_as_cta(cta) for cta in group], int(where[row, lane]))
            if machine.wants_accesses:
                _note(machine, instruction, warps, row, *regions.of_shift(group, int(where[row, lane])))
            facts[row] = ShiftFacts(31 * 32, form.cta_group)
        return Outcome(facts=tuple(facts))

    return run


# Allocation


@prepares("tcgen05.alloc")
def _allocate(instruction: Instruction, form: Form) -> Executor:
    read_addresses, columns = addresses(instruction["dst"]), _first(reader(instruction["columns"]))

    def run(machine: CtaState, warps: Warps) -> Outcome:
        where, counts = read_addresses(machine, warps), columns(machine, warps)
        machine.note(instruction, warps)
        waiting = [(warp, *values) for _, warp, values in _together(machine, warps, form, where, counts)]
        line = machine.line

        def ready() -> bool:
            for request in list(waiting):
                warp, address, count = request
                base = machine.resident(warp).tmem.allocate(count, f"warp {machine.warp_in_cta(warp)}: ")
                if base is None:
                    continue
                for listener in machine.listeners:
                    listener.columns_allocated(machine.resident(warp).number, line, Allocation(base, count))
                cells = np.frombuffer(np.uint32(base).tobytes(), np.uint8)
                place = np.array([[machine.shared_offset(address)]])
                machine.shared.write(place, cells[None, None], machine.actors(np.array([warp])))
                waiting.remove(request)
            return not waiting

        def describe() -> str:
            return f"{waiting[0][2]} columns of Tensor Memory, all of which are allocated"

        facts = (Idle(),) * len(warps)
        if ready():
            return Outcome(facts=facts)
        still = lambda: [warp for warp, _, _ in waiting]  # noqa: E731
        return Outcome(block=PendingWait(ready, lambda: None, describe, still), facts=facts)

    return run


@prepares("tcgen05.dealloc")
def _deallocate(instruction: Instruction, form: Form) -> Executor:
    read_addresses, columns = _first(reader(instruction["taddr"])), _first(reader(instruction["columns"]))

    def run(machine: CtaState, warps: Warps) -> Outcome:
        for _, warp, (base, count) in _together(
            machine, warps, form, read_addresses(machine, warps), columns(machine, warps)
        ):
            cta = machine.resident(warp)
            cta.tmem.deallocate(base, count, f"warp {machine.warp_in_cta(warp)}: ")
            for listener in machine.listeners:
                listener.columns_freed(cta.number, machine.line, Allocation(base, count))
        machine.note(instruction, warps)
        return Outcome(facts=(Idle(),) * len(warps))

    return run


@prepares("tcgen05.relinquish_alloc_permit")
def _relinquish(instruction: Instruction, form: Form) -> Executor:
    def run(machine: CtaState, warps: Warps) -> Outcome:
        for _, warp, _ in _together(machine, warps, form):
            machine.resident(warp).tmem.relinquish()
        machine.note(instruction, warps)
        return Outcome(facts=(Idle(),) * len(warps))

    return run


# Order


@prepares("tcgen05.commit")
def _commit(instruction: Instruction, form: Form) -> Executor:
    read_addresses = addresses(instruction["mbar"])
    mask = _first(reader(instruction["cta_mask"], 16)) if "multicast::cluster" in form.qualifiers else None

    def run(machine: CtaState, warps: Warps) -> Outcome:
        facts: list[Fact] = [Idle()] * len(warps)
        where, masks = read_addresses(machine, warps), mask(machine, warps) if mask else None
        for row, warp, lane in _single(machine, warps, form):
            address = int(where[row, lane])
            targets = [address] if masks is None else machine.multicast(address, warp, int(masks[row, lane]))
            places = [machine.holder(target, warp) for target in targets]
            for target in targets:
                machine.uses(target, warp, changes=False)
                machine.arrive(target, warp)
            _note(machine, instruction, warps, row, writes=regions.of_barriers(places))
            facts[row] = CommitFacts(tuple((cta.number, offset) for cta, offset in places), form.cta_group)
        return Outcome(facts=tuple(facts))

    return run


@prepares("tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync")
def _fence(instruction: Instruction, form: Form) -> Executor:
    def run(machine: CtaState, warps: Warps) -> Outcome:
        machine.note(instruction, warps)
        return Outcome(facts=(Idle(),) * len(warps))

    return run
