"""Tensor Memory: its size, its addresses, and which lanes a warp may touch.

Each CTA has 128 lanes of 512 columns of 32 bits. An address is one 32-bit word: the lane in bits 31-16, the column in
bits 15-0.

Sources: PTX ISA 9.0, 9.7.16.1 (Tensor Memory, addressing) and 9.7.16.8 (access restrictions): published.
"""

from __future__ import annotations

from dataclasses import dataclass

from isa.errors import IsaError

TMEM_LANES = 128
COLUMNS = 512
CELL_BITS = 32
QUARTER = 32  # lanes that one warp of four reaches
SECTION = "PTX ISA 9.0, 9.7.16.1 (Tensor Memory)"
ACCESS = "PTX ISA 9.0, 9.7.16.8 (access restrictions)"


@dataclass(frozen=True, order=True)
class TmemAddress:
    """One cell of Tensor Memory; raises IsaError for a lane or a column that does not exist.

    >>> hex(TmemAddress(16, 40).word), TmemAddress.from_word(0x100028)
    ('0x100028', TmemAddress(lane=16, column=40))
    """

    lane: int
    column: int

    def __post_init__(self) -> None:
        for what, value, size in (("lane", self.lane, TMEM_LANES), ("column", self.column, COLUMNS)):
            if not 0 <= value < size:
                raise IsaError(
                    str(value),
                    -1,
                    f"{what} {value} is outside Tensor Memory",
                    f"0 to {size - 1}",
                    section=SECTION,
                    rule="tmem-bounds",
                )

    @classmethod
    def from_word(cls, word: int) -> TmemAddress:
        """The cell that a 32-bit address names; raises IsaError if there is none, or if the word has more bits."""
        if not 0 <= word < 1 << 32:
            raise IsaError(
                hex(word),
                -1,
                f"{hex(word)} is no 32-bit address of Tensor Memory",
                "0x0 to 0xffffffff",
                section=SECTION,
            )
        return cls(word >> 16, word & 0xFFFF)

    @classmethod
    def of_scales(cls, word: int) -> TmemAddress:
        """The cell that the address of scale factors names, without its bits 31-30: CUTLASS keeps the id of the factors
        there, copies it to the instruction descriptor, and passes the address as it is (mma_sm100_desc.hpp,
        make_runtime_instr_desc_block_scaled; examples 84a and 84b). That the id in the descriptor counts is in PTX ISA
        9.0, 9.7.16.10.7; that the chip drops these bits is inferred from these programs."""
        return cls.from_word(word & 0x3FFFFFFF)

    @property
    def word(self) -> int:
        """The address as instructions take it."""
        return self.lane << 16 | self.column

    def moved(self, lanes: int = 0, columns: int = 0) -> TmemAddress:
        """The cell this many lanes and columns further on; raises IsaError if it lies outside."""
        return TmemAddress(self.lane + lanes, self.column + columns)

    def __str__(self) -> str:
        return f"lane {self.lane}, column {self.column}"


def warp_lanes(warp: int) -> range:
    """The lanes that `tcgen05.ld` and `st` of this warp reach: 32 of them, the quarter warp mod 4. PTX ISA 9.0,
    9.7.16.8: published."""
    start = QUARTER * (warp % (TMEM_LANES // QUARTER))
    return range(start, start + QUARTER)
