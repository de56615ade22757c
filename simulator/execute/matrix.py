"""Executes `mma` and `mma.sp` on the registers of a CTA's warps; the arithmetic is in `simulator.execute.mma`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from isa.forms.mma import MmaForm, is_mma
from isa.forms.record import Form
from isa.ptx.instruction import Instruction
from isa.types import Bits
from simulator.arithmetic.deviation import apart
from simulator.execute.carried import CarriedMma, places_of
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.mma import Scales, execute_mma, first_undefined, undefined_cases
from simulator.execute.operands import reader, writer
from simulator.execute.registry import prepares
from simulator.state.registers import WARP_SIZE, Warps

Places = NDArray[np.int64] | slice


@prepares("mma")
def multiply_matrices(instruction: Instruction, form: Form) -> Executor:
    """mma and mma.sp: D = A * B + C of each warp; undefined metadata is noted."""
    assert is_mma(form)
    width = form.role("d").width
    a, b, c = (reader(instruction[name], width) for name in "abc")
    write = writer(instruction["d"], width)
    e = reader(instruction["e"]) if form.sparse else None
    selector = instruction.selector if form.sparse else 0
    scales = scale_reader(instruction, form) if form.row.scale else None
    places = places_of(form.c, instruction["c"]), places_of(form.d, instruction["d"])
    carried = None if places[1] is None else CarriedMma(form, places[0], places[1], c)

    def run(machine: CtaState, warps: Warps) -> Outcome:
        metadata = e(machine, warps)[:, 0] if e else None
        if metadata is not None:
            _note_undefined(machine, form, metadata, selector)
        if machine.arithmetic == "none":
            write(machine, warps, c(machine, warps))
            return NOTHING
        groups = scales(machine, warps) if scales else [(slice(None), None)]
        if machine.carries and carried is not None:
            left, right = a(machine, warps), b(machine, warps)
            rows = carried.start(machine, warps)
            for some, factors in groups:
                codes = None if metadata is None else metadata[some]
                carried.add(machine, (left[some], right[some], codes), selector, factors, rows[some])
            carried.finish(machine, warps)
            return NOTHING
        operands = a(machine, warps), b(machine, warps), c(machine, warps)
        d = np.empty((len(warps), form.d.registers, WARP_SIZE), operands[2].dtype)
        for some, factors in groups:
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
    """D of some warps; while there is something left to compare, how far it is from the exact result."""
    d = execute_mma(form, *operands, selector, target=machine.target, arithmetic=machine.arithmetic, scales=scales)
    if machine.compare > 0 and machine.arithmetic == "chip":
        exact = d
        if form.d_type.is_float:  # sums of integers are exact
            exact = execute_mma(form, *operands, selector, target=machine.target, arithmetic="exact", scales=scales)
        machine.note_compared(apart(form.d.gather(d), form.d.gather(exact), form.d_type), len(d))
    return d


def scale_reader(instruction: Instruction, form: MmaForm) -> Callable[[CtaState, Warps], list[tuple[Places, Scales]]]:
    """A function that reads block scales: it gives groups of warps with the same ids, and the factors of each group.

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
        groups: list[tuple[Places, Scales]] = []
        for combination in np.unique(kept, axis=0):
            some = np.flatnonzero((kept == combination).all(axis=1))
            a_byte, a_thread, b_byte, b_thread = (int(value) for value in combination)
            groups.append((some, Scales(factors[0][some], factors[1][some], (a_byte, a_thread), (b_byte, b_thread))))
        return groups

    return read


def _note_undefined(machine: CtaState, form: MmaForm, metadata: Bits, selector: int) -> None:
    """Counts undefined metadata, or raises where the policy says so. A bad selector always raises: the chip stops the
    kernel."""
    met = undefined_cases(form, metadata, selector)
    if "selector-out-of-range" in met or (met and machine.undefined == "raise"):
        raise first_undefined(form, metadata, selector)
    for name, count in met.items():
        machine.note_undefined(name, count, "")
