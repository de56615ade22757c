"""Which threads of a warp execute a tcgen05 instruction, on which CTAs, and what listeners are told of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.errors import IsaError
from isa.forms.record import Form
from isa.ptx.instruction import Instruction
from isa.tensor_memory.address import TMEM_LANES
from simulator.execute.cta_state import CtaState
from simulator.execute.events import Region
from simulator.execute.holder import Holder
from simulator.state.registers import Warps

Values = Callable[[CtaState, Warps], NDArray[Any]]


class Thread(NamedTuple):
    """The one thread of a warp that executes an instruction of a single thread."""

    row: int
    warp: int
    lane: int


def single(machine: CtaState, warps: Warps, form: Form) -> Iterator[Thread]:
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
            yield Thread(row, int(warps[row]), int(lanes[0]))


def together(
    machine: CtaState, warps: Warps, form: Form, *values: NDArray[Any]
) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Row, warp and values of each warp, for .sync.aligned: all threads, and the same in all of them. Where the values
    differ, which PTX leaves undefined, those of the first thread are taken (assumed)."""
    for row, active in enumerate(machine.threads(warps)):
        if not active.all():
            warp = machine.warp_in_cta(int(warps[row]))
            reason = f"'{form.name}' by {int(active.sum())} of the 32 threads of warp {warp}"
            raise IsaError(form.opcode, -1, reason, "all threads of a warp (.sync.aligned)", rule="aligned-threads")
        for value in values:
            if (value[row] != value[row, :1]).any():
                warp = machine.warp_in_cta(int(warps[row]))
                machine.note_undefined("uneven-operand", 1, f"{form.opcode}, warp {warp}")
        yield row, int(warps[row]), tuple(int(value[row, 0]) for value in values)


def note(
    machine: CtaState,
    instruction: Instruction,
    warps: Warps,
    row: int,
    reads: tuple[Region, ...] = (),
    writes: tuple[Region, ...] = (),
) -> None:
    """Tells the listeners what the warp at this place of `warps` has done."""
    machine.note(instruction, warps[row : row + 1], reads, writes, machine.threads(warps)[row : row + 1])


def ctas(machine: CtaState, warp: int, form: Form) -> tuple[Holder, ...]:
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


def first(read: Values) -> Values:
    """A function that reads the only register of a scalar operand: [warp, lane]."""
    return lambda machine, warps: read(machine, warps)[:, 0]


def within_cta(machine: CtaState, warp: int, address: int) -> int:
    """The address of a tcgen05.ld or st as the chip takes it: the second CTA of a pair may count lanes on from those of
    the first, 128 to 255, and means its own.

    PTX ISA 9.0, 9.7.16.1 has lanes 0 to 127 alone, so each case is noted as undefined. That a B200 drops bit 7 of the
    lane is published: the kernels matmul_v5 to v7 of github.com/gau-nernst/learn-cuda (02e_matmul_sm100) load all of D
    in this way, and their author compares the products with PyTorch's. Elsewhere such a lane is an error.
    """
    pair, lane = machine.pair(warp), address >> 16
    if len(pair) < 2 or machine.resident(warp).number != pair[1].number or not TMEM_LANES <= lane < 2 * TMEM_LANES:
        return address
    machine.note_undefined("tmem-pair-lane", 1, f"lane {lane} in the second CTA of a pair")
    return address - (TMEM_LANES << 16)
