"""Block scales: which byte of which lane's register holds the scale factor of each slice of a row of A or of a column
of B.

A block-scaled form multiplies (A * scale_A) by (B * scale_B). Each row of A, and each column of B, has v factors (1, 2
or 4 for `.scale_vec::1X`, `2X`, `4X`); factor j belongs to the j-th of v equal slices of logical K. The factors of an
operand lie in one 32-bit register, and two numbers say where in it: the byte-id is the lowest byte, the thread-id
chooses lanes of each four.

    scale A, row g + 8 * h    lane 4 * g + 2 * thread-id + h    byte byte-id + j
    scale B, column g         lane 4 * g + thread-id            byte byte-id + j

Sources: PTX ISA 9.0, 9.7.14.3 (block scaling) for the lanes and the legal ids, which ptxas 13.0 enforces too; which
lane of a pair holds which row: published (CuTe's SFALayout and SFBLayout); that bytes go with increasing K: inferred
from CuTe's order of values (confidence medium to high).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from isa.arguments import bit_patterns
from isa.errors import IsaError
from isa.fragments.registers import WARP_SIZE
from isa.mapping import Digit, Mapping
from isa.types import SCALE_TYPES, Bits, ElementType, pack

SECTION = "PTX ISA 9.0, 9.7.14.3 (block scaling)"
BYTES = 4  # of a register; a factor has one


@dataclass(frozen=True)
class ScaleOperand:
    """The scale factors of A or of B of one block-scaled form.

    Attributes:
        name: "scale_a" or "scale_b".
        type: how a factor is read, ue8m0 or ue4m3.
        k: logical K of the form.
        every: the mapping for all ids at once, places (lane, byte) <-> coordinates (row or column, factor, slot,
            thread_id), where slot is byte_id / factors.
    """

    name: str
    type: ElementType
    k: int
    every: Mapping

    @property
    def shape(self) -> tuple[int, int]:
        """Rows of A (or columns of B), and factors of each."""
        vectors, factors, _, _ = self.every.shape
        return vectors, factors

    @property
    def factors(self) -> int:
        """Factors of a row or column: v of `.scale_vec::vX`."""
        return self.shape[1]

    @property
    def k_per_factor(self) -> int:
        """Logical columns of A (rows of B) that a factor scales: K / v, the j-th slice with factor j."""
        return self.k // self.factors

    @property
    def byte_ids(self) -> tuple[int, ...]:
        """The legal byte-ids."""
        return tuple(range(0, BYTES, self.factors))

    @property
    def thread_ids(self) -> tuple[int, ...]:
        """The legal thread-ids."""
        return tuple(range(self.every.shape[3]))

    def mapping(self, byte_id: int, thread_id: int) -> Mapping:
        """Places (lane, byte) <-> coordinates (row or column, factor); raises IsaError for an illegal id."""
        for what, given, legal in (("byte-id", byte_id, self.byte_ids), ("thread-id", thread_id, self.thread_ids)):
            if given not in legal:
                values = ", ".join(map(str, legal))
                raise IsaError(
                    str(given),
                    -1,
                    f"{what} {given} of {self.name} with {self.factors} factors",
                    values,
                    section=SECTION,
                )
        return self._mappings[int(byte_id), int(thread_id)]

    @cached_property
    def _mappings(self) -> dict[tuple[int, int], Mapping]:
        return {
            (b, t): self.every.at(slot=b // self.factors, thread_id=t) for b in self.byte_ids for t in self.thread_ids
        }

    def gather(self, registers: Bits, byte_id: int, thread_id: int) -> Bits:
        """Registers uint32 [..., lane] -> patterns uint32 [..., row or column, factor]; raises IsaError for an illegal
        id or another type or shape."""
        registers = self._checked(registers, (WARP_SIZE,), "registers")
        lane, byte = self.mapping(byte_id, thread_id).grid
        return (registers[..., lane] >> (self.type.bits * byte).astype(np.uint32)) & np.uint32(self.type.mask)

    def scatter(self, patterns: Bits, byte_id: int, thread_id: int) -> Bits:
        """Patterns uint32 [..., row or column, factor] -> registers uint32 [..., lane], 0 in all other bytes; errors as
        for `gather`."""
        patterns = self._checked(patterns, self.shape, "patterns")
        bit_patterns(patterns, self.type.bits, f"operand {self.name}")
        lane, byte = self.mapping(byte_id, thread_id).grid
        fields = np.zeros((*patterns.shape[:-2], WARP_SIZE, BYTES), np.uint32)
        fields[..., lane, byte] = patterns
        return pack(fields, self.type.bits)[..., 0]

    def _checked(self, array: Bits, tail: tuple[int, ...], what: str) -> Bits:
        array = np.asarray(array)
        if array.dtype != np.uint32 or array.shape[-len(tail) :] != tail:
            legal = f"uint32 [..., {', '.join(map(str, tail))}]"
            raise IsaError("", -1, f"operand {self.name}: {what} of type {array.dtype} and shape {array.shape}", legal)
        return array


@cache
def scale_operand(name: str, vectors: int, k: int, scale: str) -> ScaleOperand:
    """The scales of one side. PTX ISA 9.0, 9.7.14.3.

    Args:
        name: "scale_a" or "scale_b".
        vectors: rows of A (16) or columns of B (8).
        k: logical K.
        scale: factors and their type as in the table of forms, e.g. "2X ue8m0".
    """
    vector, _, type_name = scale.partition(" ")
    factors, axis, halves = int(vector.removesuffix("X")), "row" if name == "scale_a" else "column", vectors // 8
    digits = (
        Digit("lane", 4, 8, axis, 1),
        Digit("lane", 1, halves, axis, 8),
        Digit("lane", halves, 4 // halves, "thread_id", 1),
        Digit("byte", 1, factors, "factor", 1),
        Digit("byte", factors, BYTES // factors, "slot", 1),
    )
    axes = ((axis, vectors), ("factor", factors), ("slot", BYTES // factors), ("thread_id", 4 // halves))
    return ScaleOperand(
        name,
        SCALE_TYPES[type_name],
        k,
        Mapping((("lane", WARP_SIZE), ("byte", BYTES)), axes, tuple(d for d in digits if d.size > 1)),
    )
