"""Block scales of a kernel by `mma` with `.block_scale`: where the factors of a stage lie, how they are copied, and
which registers each matrix instruction takes.

A word has the factors of a row of A, or of a column of B, for as many instructions along K as fit. A stage has, word by
word, those of A in the order [warp along M][row of an m16 tile][m16 tile] and behind them all of B's, in the order
[word][warp along N][column of an n8 tile][n8 tile]: a lane loads what it needs of all its tiles together. Thread-ids
are 0 (`isa.fragments.scales`); lanes that an instruction does not ask load what their neighbours have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import gcd

from simulator.studies.gemm.tile import Tile

_WORD = 4  # bytes
POINTER = 5  # the 64-bit register that points to the next stage's factors


class Scales:
    """Writes what a CTA does with its factors."""

    def __init__(self, tile: Tile, base: int, take: Callable[[str, int], int]) -> None:
        """Args: `base`: where the CTA's shared memory begins; `take` gives out registers by name and number."""
        self.tile, self.take = tile, take
        self.shared = base + tile.bm * tile.row_a + tile.bn * tile.row_b + tile.bytes_e
        self.sets = [take(f"scales {turn}", tile.tiles_m + tile.tiles_n) for turn in (0, 1)]

    def addresses(self, thread: int, lane: int, warp: int, begin: int) -> Iterator[str]:
        """Where a thread copies to and from, and where a lane loads its words of A and of B."""
        t, x, z = self.tile, self.take("x", 1), self.take("z", 1)
        to, a, b = self.take("to s", 1), self.take("at sa", 1), self.take("at sb", 1)
        yield "    // factors: the bytes in their order; lane -> its words of all m16 (n8) tiles"
        yield f"    mul.lo.u32 %r{to}, %r{thread}, {t.chunk_s}; cvt.u64.u32 %rd{POINTER}, %r{to};"
        yield f"    add.u64 %rd{POINTER}, %rd{POINTER}, {begin}; add.u32 %r{to}, %r{to}, {self.shared};"
        yield f"    shr.u32 %r{x}, %r{lane}, 2; and.b32 %r{a}, %r{lane}, 1; shl.b32 %r{a}, %r{a}, 3;"
        yield f"    add.u32 %r{a}, %r{a}, %r{x}; and.b32 %r{z}, %r{warp}, {t.warps_m - 1}; shl.b32 %r{z}, %r{z}, 4;"
        yield f"    add.u32 %r{a}, %r{a}, %r{z}; mul.lo.u32 %r{a}, %r{a}, {_WORD * t.tiles_m};"
        yield f"    add.u32 %r{a}, %r{a}, {self.shared}; shr.u32 %r{z}, %r{warp}, {t.warps_m.bit_length() - 1};"
        yield f"    shl.b32 %r{z}, %r{z}, 3; add.u32 %r{b}, %r{x}, %r{z}; mul.lo.u32 %r{b}, %r{b}, {_WORD * t.tiles_n};"
        yield f"    add.u32 %r{b}, %r{b}, {self.shared + t.scale_words * _WORD * t.bm};"

    def copy(self, slot: int, ahead: int) -> Iterator[str]:
        """Copies the factors of the stage that lies `ahead` iterations after the pointer."""
        t = self.tile
        kind = "cg" if t.chunk_s == 16 else "ca"
        for place in range(t.size_s // t.chunk_s):
            to = slot * t.stage_bytes + place * t.threads * t.chunk_s
            source = ahead * t.bytes_s + place * t.threads * t.chunk_s
            at = f"[%r{self.take('to s', 1)}+{to}], [%rd{POINTER}+{source}]"
            yield f"    cp.async.{kind}.shared.global {at}, {t.chunk_s};"

    def load(self, slot: int, step: int) -> Iterator[str]:
        """Loads the words that begin with a step of the stage in a slot."""
        t = self.tile
        word, within = divmod(step * t.factors, _WORD)
        if within:
            return
        first = self._set(slot, word)
        for name, count, rows in (("at sa", t.tiles_m, t.bm), ("at sb", t.tiles_n, t.bn)):
            wide = gcd(count, 4)
            for i in range(0, count, wide):
                registers = ", ".join(f"%r{first + i + j}" for j in range(wide))
                to = f"{{{registers}}}" if wide > 1 else registers
                at = slot * t.stage_bytes + _WORD * (word * rows + i)
                vector = f".v{wide}" if wide > 1 else ""
                yield f"    ld.shared{vector}.b32 {to}, [%r{self.take(name, 1)}+{at}];"
            first += count

    def operands(self, slot: int, step: int, m: int, n: int) -> str:
        """The last operands of an instruction: factors of its m16 tile of A and its n8 tile of B."""
        word, byte = divmod(step * self.tile.factors, _WORD)
        first = self._set(slot, word)
        return f"%r{first + m}, {{{byte}, 0}}, %r{first + self.tile.tiles_m + n}, {{{byte}, 0}}"

    def _set(self, slot: int, word: int) -> int:
        """The first register of a word: two sets in turn, since loads run ahead of products."""
        return self.sets[(slot * self.tile.scale_words + word) % 2]
