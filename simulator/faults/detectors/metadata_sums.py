"""Checksums of metadata as it is read: for each sparse matrix instruction that a program executes, the sum of each
register of metadata over its lanes, or of each of its columns of Tensor Memory, against that of the run without faults.

The sum is the exclusive or, or the sum modulo a power of two. A checker keeps it beside the metadata from where these
are written, so that it sees what changes between there and the instruction, and nothing of selectors.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from isa import IsaError, UndefinedBehavior
from isa.forms.mma import is_mma
from isa.forms.tcgen05 import is_tcgen05_mma
from isa.tensor_memory.address import COLUMNS, TmemAddress
from isa.tensor_memory.metadata import PAIR
from isa.types import Bits
from simulator.execute.cta_state import CtaState, Executor
from simulator.execute.operands import addresses, reader
from simulator.program.lowering import Operation
from simulator.simulation.group import Group
from simulator.simulation.observer import Observer
from simulator.simulation.session import Session
from simulator.state.registers import Warps

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]


def word_sums(words: Bits, bits: int) -> Integers:
    """The sums of words uint32 [..., lane], int64 [...]: modulo 2^bits, or of 0 bits the exclusive or."""
    if not bits:
        return np.asarray(np.bitwise_xor.reduce(words, axis=-1), np.int64)
    found: Integers = words.astype(np.int64).sum(axis=-1) & ((1 << bits) - 1)
    return found


def sums_read(operation: Operation, machine: CtaState, warps: Warps, bits: int) -> list[tuple[int, ...]]:
    """For each of these warps the sums of what an instruction is about to read as metadata; none where it has no
    metadata, or names none."""
    instruction = operation.instruction
    form = instruction.form
    if is_mma(form) and form.sparse:
        return [(each,) for each in word_sums(reader(instruction["e"])(machine, warps)[:, 0], bits).tolist()]
    if not (is_tcgen05_mma(form) and form.sparse):
        return []
    ctas = machine.ctas if form.cta_group == 2 else (machine,)
    found: list[tuple[int, ...]] = []
    for word in addresses(instruction["sp_meta"])(machine, warps)[:, 0].tolist():
        try:
            first = TmemAddress.from_word(int(word)).column
        except (IsaError, UndefinedBehavior):
            first = COLUMNS
        cells = [cta.tmem.words[:, first : first + PAIR].T for cta in ctas] if first + PAIR <= COLUMNS else []
        found.append(tuple(each for part in cells for each in word_sums(part, bits).tolist()))
    return found


class TraceSums(Observer):
    """The sums of a trace without faults: watches a run, and knows then what the sums should be.

    Attributes:
        bits: of the sums, as in `word_sums`.
    """

    def __init__(self, session: Session, bits: int) -> None:
        self.bits = bits
        self._sums: dict[tuple[int, int, int], tuple[int, ...]] = {}
        session.run(self)

    def before(self, machine: CtaState, group: Group, operation: Operation, index: int) -> Executor | None:
        """Notes the sums of an instruction."""
        sums = sums_read(operation, machine, group.warps, self.bits)
        for warp, each in zip(group.warps.tolist() if sums else (), sums, strict=True):
            self._sums[machine.rank, warp, index] = each
        return None

    def differ(self, machine: CtaState, group: Group, operation: Operation, index: int) -> bool:
        """Whether a sum of an instruction that a group is about to execute is another in a run with a fault."""
        sums = sums_read(operation, machine, group.warps, self.bits)
        warps = group.warps.tolist() if sums else ()
        return any(self._sums[machine.rank, warp, index] != each for warp, each in zip(warps, sums, strict=True))
