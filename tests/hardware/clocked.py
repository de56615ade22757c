"""Room for code of our own in the cubin of a template, with reads of the clock into registers that the template stores.

A template is a kernel in PTX: what it needs before; `AGAIN: bar.sync 0;` and a read of the clock, which says when the
code begins; instructions that the code takes the place of, with a guarded read of the clock for each register of it; an
addition, a comparison and a branch, with which all that runs twice, so that the second time the code is there; and
stores of all clocks. The last two clocks are the one of the beginning and, in that register, the counter of the rounds.
"""

from __future__ import annotations

import re
from pathlib import Path

import sass
from patched import halves, machine_code


class Clocked:
    """Where the code of `template` goes in a cubin.

    Attributes:
        lines: the template's machine code.
        raw: the cubin, in which nothing of the template is kept in registers that the code uses.
        offset, slots: where the code begins, and how many instructions it can have.
        clocks: of each read of the clock where it is stored, its register, and the instruction.
        begin: where the clock of the beginning is stored.
        rounds: the register of the counter.
    """

    def __init__(self, cubin: Path, nvdisasm: str, first: int, end: int = 256) -> None:
        """Clocks are those in registers from `first` to before `end`; the code uses others."""
        self.lines = [x for x in sass.listings(cubin, nvdisasm)["template"] if isinstance(x, sass.Instruction)]
        self.raw = bytearray(cubin.read_bytes())
        begin = self._next(self._next(0, "BAR"), r"CS2R.*SR_CLOCKLO$")
        over = self._next(begin, r"(VIADD|IADD3) R")
        inside = self.lines[begin + 1 : over]
        self.offset, self.slots = self.raw.index(machine_code(map(halves, inside))), len(inside)
        stored = {
            int(found[2]): int(found[1] or "0", 16) // 4
            for x in self.lines
            if (found := re.match(r"STG.*\.64(?:\+(0x[0-9a-f]+))?\], R(\d+)", x.text))
        }
        read = [(int(n), x) for x in inside for n in re.findall(r"CS2R\.32 R(\d+), SR_CLOCKLO", x.text)]
        clocks = sorted(((stored[n], n, x) for n, x in read if first <= n < end and n in stored), key=lambda c: c[0])
        *self.clocks, (_, self.rounds, _), (self.begin, clock, _) = clocks
        for place, mask, bits in (
            (begin, 0xFF << 16, clock << 16),
            (over, 0xFFFF << 16, (self.rounds | self.rounds << 8) << 16),
            (self._next(over, "ISETP"), 0xFF << 24, self.rounds << 24),
        ):
            x, at = self.lines[place], self.offset + (place - begin - 1) * 16
            self.raw[at : at + 16] = machine_code([(x.lower & ~mask | bits, x.upper)])

    def _next(self, place: int, pattern: str) -> int:
        """The place of the next instruction of this kind."""
        return next(i for i, x in enumerate(self.lines) if i > place and re.match(pattern, x.text))

    def word(self, pattern: str) -> sass.Instruction:
        """The first instruction of the template of this kind."""
        return next(x for x in self.lines if re.match(pattern, x.text))
