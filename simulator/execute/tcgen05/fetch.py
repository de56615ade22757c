"""Reads the operands of one tcgen05.mma as matrices from the shared memory and the Tensor Memory of a CTA.

A matrix has one copy for each part into which the data path layout cuts N (layouts B, E, G: 2, 2, 4; else 1), because
each part of the data path reads A, metadata and accumulators from lanes of its own. The mappings of elements to memory
are those of `isa`, which says where one is inferred and not published.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from isa.descriptors.instruction import InstructionDescriptor
from isa.shared_memory.descriptor import SharedMemoryDescriptor
from isa.shared_memory.layout import check_operand, read_operand, smem_operand
from isa.shared_memory.packing import operand_element
from isa.tensor_memory.address import TMEM_LANES, TmemAddress
from isa.tensor_memory.datapath import A_COLUMNS, DatapathLayout
from isa.tensor_memory.metadata import PAIR, TmemMetadata
from isa.tensor_memory.scales import Gathered, TmemScales
from isa.types import Bits, ElementType
from simulator.state.tensor_memory import TensorMemory

Bytes = NDArray[np.uint8]
_EVERY_LANE = np.arange(TMEM_LANES)


@dataclass
class Cta:
    """The memories of one of the CTAs that an instruction works on.

    Attributes:
        tmem: its Tensor Memory.
        shared: its shared memory, uint8.
        filled: what the collector buffers hold, by buffer: the operand that filled it.
    """

    tmem: TensorMemory
    shared: Bytes
    filled: dict[str, tuple[int, ...]] = field(default_factory=dict)


@lru_cache(maxsize=1024)
def instruction_descriptor(word: int, kind: str) -> InstructionDescriptor:
    """The decoded instruction descriptor of an instruction of this kind; cached, since loops decode the same word again
    and again."""
    return InstructionDescriptor.decode(word, kind)


def window(cta: Cta, first: int, columns: int, where: str) -> Bits:
    """Cells uint32 [128 lanes, columns] from a column on; UndefinedBehavior where they are not allocated."""
    return cta.tmem.read(_EVERY_LANE[:, None], np.arange(first, first + columns)[None], where)


def smem_matrix(
    cta: Cta, word: int, idesc: InstructionDescriptor, operand: str, cta_group: int, target: str, extra: int = 0
) -> Bits:
    """A or B of a CTA from shared memory: patterns uint32 [row of A or column of B, k].

    Args:
        word: the shared memory descriptor.
        operand: "a" or "b".
        extra: further columns of B, for a column shift.

    Raises:
        IsaError: a descriptor that cannot name this operand, or one that leaves shared memory.
    """
    descriptor = SharedMemoryDescriptor.decode(word)
    check_operand(descriptor, idesc, operand, cta_group=cta_group, target=target, memory_bytes=len(cta.shared))
    spec = smem_operand(idesc, operand, cta_group=cta_group)
    return read_operand(
        cta.shared, descriptor, major=spec.major, rows=spec.rows + extra, columns=spec.columns, element=spec.element
    )


def tmem_a(cta: Cta, address: TmemAddress, idesc: InstructionDescriptor, layout: DatapathLayout) -> Bits:
    """A of a CTA from Tensor Memory: patterns uint32 [copy, row, k]."""
    element = operand_element(str(idesc.a_type), idesc.kind)
    words = window(cta, address.column, A_COLUMNS, "A: ")
    lane, column, place = layout.a(element.bits, address.lane).grid
    patterns = (words[lane, column] >> (place * element.bits).astype(np.uint32)) & np.uint32(element.mask)
    return np.moveaxis(patterns, -1, 0)


def codes(cta: Cta, address: TmemAddress, idesc: InstructionDescriptor, metadata: TmemMetadata) -> Bits:
    """The metadata of a CTA: codes uint32 [copy, row, chunk]."""
    words = window(
        cta, address.column, PAIR if metadata.columns == PAIR else metadata.columns + idesc.selector, "metadata: "
    )
    words = np.pad(words, ((0, 0), (0, PAIR - words.shape[1])))
    return np.stack([metadata.gather(words, idesc.selector, address.lane, copy) for copy in range(metadata.copies)])


def factors(cta: Cta, address: TmemAddress, scales: TmemScales, id: int) -> Gathered:
    """Scale factors of a CTA: patterns uint32 [row or column, factor], and where their copies differ."""
    return scales.gather(window(cta, address.column, scales.columns, f"scale factors of {scales.operand}: "), id)


@dataclass(frozen=True)
class Accumulators:
    """The cells of D in one CTA, part by part.

    Attributes:
        lane, column: of every element, int64 [part, row, n of the part]; columns count from 0.
        element: type of D; 16-bit elements are in the low half of a cell.
    """

    lane: NDArray[np.int64]
    column: NDArray[np.int64]
    element: ElementType

    def read(self, cta: Cta) -> Bits:
        """Patterns uint32 [part, row, n of the part]."""
        return cta.tmem.read(self.lane, self.column, "D: ") & np.uint32(self.element.mask)

    def write(self, cta: Cta, patterns: Bits, lanes: NDArray[np.bool_]) -> None:
        """Writes all elements but those of masked lanes (bool [128]: written). The high half of a 16-bit cell becomes
        zero (assumed)."""
        cta.tmem.check(self.lane, self.column, "D: ")
        kept = lanes[self.lane]
        cta.tmem.write(self.lane[kept], self.column[kept], patterns[kept], "D: ")


def accumulators(
    address: TmemAddress, idesc: InstructionDescriptor, layout: DatapathLayout, element: ElementType
) -> Accumulators:
    """The cells in which D of each CTA lies."""
    lane, column = layout.d(idesc.n, address.lane).grid
    shape = (layout.rows, layout.parts, idesc.n // layout.parts)
    by_part = [np.moveaxis(grid.reshape(shape), 1, 0) for grid in (lane, column + address.column)]
    return Accumulators(by_part[0], by_part[1], element)
