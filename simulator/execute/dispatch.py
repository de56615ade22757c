"""Turns a decoded instruction into a function that executes it for some warps of a machine at once.

One short unit for each family of instructions; all lanes of all given warps together, never one by one. Here are the
matrix instructions and the guards; the rest is in `memory`, `alu`, `sync` and `tcgen05`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib import import_module

import numpy as np
from numpy.typing import NDArray

from isa import IsaError
from isa.forms.mma import MmaForm
from isa.forms.plain import PlainForm
from isa.forms.record import Form
from isa.forms.tcgen05 import FamilyForm
from isa.ptx.instruction import Guard, Instruction
from isa.types import Bits
from simulator.arithmetic import ulp_distance
from simulator.execute.alu import ALU_NAMES, alu
from simulator.execute.barrier import is_cluster_barrier
from simulator.execute.copies import copy, load_global, store_global
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.dynamic_info import Fact, Idle
from simulator.execute.memory import load, load_matrices, store
from simulator.execute.mma import Scales, execute_mma, first_undefined, undefined_cases
from simulator.execute.operands import place_of, reader, writer
from simulator.execute.sync import SYNCHRONISATION, cluster_barrier
from simulator.state.registers import WARP_SIZE, Lanes, Sort, Warps

Places = NDArray[np.int64] | slice


@lru_cache(maxsize=65536)
def executor(instruction: Instruction) -> Executor:
    """The function that executes this instruction.

    Raises:
        IsaError: nobody knows yet how to execute it.
    """
    built = _built(instruction)
    return built if instruction.guard is None else _guarded(instruction, built)


def _built(instruction: Instruction) -> Executor:
    form = instruction.form
    if isinstance(form, MmaForm):
        return _matrix(instruction, form)
    if isinstance(form, FamilyForm):
        known = SYNCHRONISATION.get(form.name)
        return known(instruction, form) if known is not None else _tcgen05(instruction, form)
    assert isinstance(form, PlainForm)
    return _PLAIN[form.name](instruction, form)


def _tcgen05(instruction: Instruction, form: FamilyForm) -> Executor:
    """Tensor Memory and its instructions are loaded by the first of them."""
    module = "simulator.execute.tcgen05"
    try:
        build: Callable[[Instruction, FamilyForm], Executor] = import_module(module).executor
    except (ModuleNotFoundError, AttributeError) as error:
        if isinstance(error, ModuleNotFoundError) and error.name != module:
            raise
        raise IsaError(
            str(instruction), 0, f"'{form.opcode}' is decoded, but not executed yet", ", ".join(SYNCHRONISATION)
        ) from None
    return build(instruction, form)


# Guards: @%p0


def is_collective(form: Form) -> bool:
    """Whether all threads of a warp execute it together or not at all."""
    return form.collective


def guarded_lanes(guard: Guard, machine: CtaState, warps: Warps) -> Lanes:
    """bool [warp, lane]: which threads a guard lets execute its instruction."""
    lanes: Lanes = machine.registers.read(warps, [place_of(guard.predicate.name).number], Sort.PREDICATE)[:, 0]
    return ~lanes if guard.negated else lanes


def _guarded(instruction: Instruction, run: Executor) -> Executor:
    """Executes it for the threads whose predicate says so."""
    guard, collective = instruction.guard, is_collective(instruction.form)
    assert guard is not None
    off = Idle() if instruction.form.dynamic else None

    def guarded(machine: CtaState, warps: Warps) -> Outcome:
        lanes = guarded_lanes(guard, machine, warps)
        some, every = np.logical_or.reduce(lanes, axis=1), np.logical_and.reduce(lanes, axis=1)
        if not some.any():
            idle = np.zeros(len(warps), np.int64)
            return (
                Outcome(idle, idle)
                if instruction.form.time.table == "shared"
                else Outcome(facts=(off,) * len(warps))
                if off
                else NOTHING
            )
        if collective and (some != every).any():
            at = int((some != every).argmax())
            reason = f"'{instruction.form.opcode}' in {int(lanes[at].sum())} of the {WARP_SIZE} threads of warp {int(warps[at])}"
            raise IsaError(str(instruction), 0, reason, "all threads of a warp, or none", rule="aligned-threads")
        chosen = np.flatnonzero(some)
        machine.active = None if every[chosen].all() else lanes[chosen]
        try:
            outcome = run(machine, warps[chosen])
        finally:
            machine.active = None
        return _spread(outcome, chosen, lanes)

    return guarded


def _spread(outcome: Outcome, chosen: NDArray[np.intp], lanes: Lanes) -> Outcome:
    """The outcome of some warps as one of all of them."""
    if outcome.wavefronts is not None:
        busy = np.zeros(len(lanes), np.int64)
        busy[chosen] = outcome.wavefronts
        return outcome._replace(wavefronts=busy, lanes=lanes.sum(axis=1))
    if outcome.facts and len(chosen) < len(lanes):
        facts: list[Fact | None] = [Idle()] * len(lanes)
        for place, fact in zip(chosen, outcome.facts, strict=True):
            facts[place] = fact
        return outcome._replace(facts=tuple(facts))
    return outcome


# Matrix instructions


def _matrix(instruction: Instruction, form: MmaForm) -> Executor:
    width = form.roles[0].width
    a, b, c = (reader(instruction[name], width) for name in "abc")
    write = writer(instruction["d"], width)
    e = reader(instruction["e"]) if form.sparse else None
    selector = instruction.selector if form.sparse else 0
    scales = _scale_reader(instruction, form) if form.row.scale else None

    def run(machine: CtaState, warps: Warps) -> Outcome:
        metadata = e(machine, warps)[:, 0] if e else None
        if metadata is not None:
            _meet_undefined(machine, form, metadata, selector)
        if machine.arithmetic == "none":
            write(machine, warps, c(machine, warps))
            return NOTHING
        operands = a(machine, warps), b(machine, warps), c(machine, warps)
        d = np.empty_like(operands[2])
        for some, factors in scales(machine, warps) if scales else [(slice(None), None)]:
            left, right, addend = (operand[some] for operand in operands)
            d[some] = _compute(
                machine, form, (left, right, addend, None if metadata is None else metadata[some]), selector, factors
            )
        write(machine, warps, d)
        return NOTHING

    return run


def _compute(
    machine: CtaState,
    form: MmaForm,
    operands: tuple[Bits, Bits, Bits, Bits | None],
    selector: int,
    scales: Scales | None,
) -> Bits:
    """D of some warps; while there is something left to compare, how far it is from the exact result (f64 is not
    compared)."""
    d = execute_mma(form, *operands, selector, target=machine.target, arithmetic=machine.arithmetic, scales=scales)
    if machine.compare > 0 and machine.arithmetic == "chip" and form.d_type.bits < 64:
        exact = execute_mma(form, *operands, selector, target=machine.target, arithmetic="exact", scales=scales)
        distance = int(ulp_distance(form.d.gather(d), form.d.gather(exact), form.d_type).max())
        machine.largest_ulp = max(machine.largest_ulp, distance)
        machine.compare -= len(d)
        machine.compared += len(d)
    return d


def _scale_reader(instruction: Instruction, form: MmaForm) -> Callable[[CtaState, Warps], list[tuple[Places, Scales]]]:
    """Reads block scales: groups of warps with the same ids, and their factors.

    Ids in registers must be the same in all lanes; those of lane 0 are taken, and only as many bits of them as legal
    ids have (code of ptxas 13.0).
    """
    names = ("scale_a", "scale_b")
    registers = [reader(instruction[name]) for name in names]
    ids = [reader(instruction[f"{name}_ids"]) for name in names]
    operands = [form.scale_a, form.scale_b]
    masks = np.array(
        [mask for operand in operands for mask in (max(operand.byte_ids), max(operand.thread_ids))], np.uint32
    )

    def read(machine: CtaState, warps: Warps) -> list[tuple[Places, Scales]]:
        factors = [reader(machine, warps)[:, 0] for reader in registers]
        given = np.concatenate([reader(machine, warps) for reader in ids], axis=1)
        uneven = int((given != given[..., :1]).any(axis=(1, 2)).sum())
        if uneven:
            machine.note_undefined("uneven-scale-ids", uneven, form.opcode)
        kept = given[..., 0] & masks
        found: list[tuple[Places, Scales]] = []
        for combination in np.unique(kept, axis=0):
            some = np.flatnonzero((kept == combination).all(axis=1))
            a_byte, a_thread, b_byte, b_thread = (int(value) for value in combination)
            found.append((some, Scales(factors[0][some], factors[1][some], (a_byte, a_thread), (b_byte, b_thread))))
        return found

    return read


def _meet_undefined(machine: CtaState, form: MmaForm, metadata: Bits, selector: int) -> None:
    """Counts undefined metadata, or raises where the policy says so. A bad selector always raises: the chip stops the
    kernel."""
    met = undefined_cases(form, metadata, selector)
    if "selector-out-of-range" in met or (met and machine.undefined == "raise"):
        raise first_undefined(form, metadata, selector)
    for name, count in met.items():
        machine.note_undefined(name, count, "")


# Everything else


def _no_execution(_instruction: Instruction, _form: PlainForm) -> Executor:
    """Barriers change no register; whoever walks the program waits for them."""
    return lambda _machine, _warps: NOTHING


_PLAIN: dict[str, Callable[[Instruction, PlainForm], Executor]] = {
    **dict.fromkeys(ALU_NAMES, alu),
    "ldmatrix": load_matrices,
    "ld": lambda instruction, form: (load_global if form.time.table == "memory" else load)(instruction, form),
    "st": lambda instruction, form: (store_global if form.time.table == "memory" else store)(instruction, form),
    "cp": copy,
    "bar": _no_execution,
    "barrier": lambda instruction, form: (cluster_barrier if is_cluster_barrier(form) else _no_execution)(
        instruction, form
    ),
}
