"""Room for code of our own in the cubin of a template, with reads of the clock into registers that the template stores.

A template is a kernel in PTX: what it needs before; `AGAIN: bar.sync 0;` and a read of the clock, which says when the
code begins; instructions that the code takes the place of, with a guarded read of the clock for each register of it; an
addition, a comparison and a branch, with which all that runs twice, so that the second time the code is there; and
stores of all clocks. The last two clocks are the one of the beginning and, in that register, the counter of the rounds.
"""

from __future__ import annotations

import re
from pathlib import Path

import programs as p
import sass
from machine_code_patch import Word, branch, control, guarded, halves, machine_code


def template(clocks: int, live: range, slots: int, rounds: int = 2) -> str:
    """A template in PTX: the code takes the place of so many matrix instructions, whose results are in the registers
    `live`, and of the reads of so many clocks; each warp stores its own, 1,024 bytes apart; all runs `rounds` times.
    """
    lines = [
        ".visible .entry template(.param .u64 out, .param .u64 src) {",
        f".reg .b32 %r<{live.stop}>, %c<{clocks}>, %t<4>; .reg .b64 %q<4>; .reg .pred %p<3>;",
        "ld.param.u64 %q1, [src]; mov.u32 %t0, %tid.x; mul.wide.u32 %q2, %t0, 4; add.u64 %q1, %q1, %q2;",
        *(f"ld.global.b32 %r{i}, [%q1+{4096 * (i % 8) + 4 * i}];" for i in range(live.stop)),
        *timed_part(clocks, live, slots, rounds),
        "shr.u32 %t3, %t0, 5; mul.wide.u32 %q2, %t3, 1024; add.u64 %q3, %q3, %q2;",
        *(f"st.global.b32 [%q3+{4 * i}], %c{i};" for i in range(clocks)),
        "add.u64 %q3, %q3, 65536;",
        *(f"st.global.b32 [%q3+{4 * i}], %r{i};" for i in live),
        "DONE: ret; }",
    ]
    return p.HEADER + "\n".join(lines) + "\n"


def timed_part(clocks: int, live: range, slots: int, rounds: int = 2) -> list[str]:
    """The part of `template` that runs again and again, up to where one lane of each warp stores the clocks."""
    form = p.Form(16, 8, 32, "f32", "f16", "f16", sparse=True)
    results = [live[4 * (i % (len(live) // 4))] for i in range(slots)]
    return [
        "setp.ne.u32 %p1, %r16, 12345; mov.b32 %t1, 0;",
        *(f"mov.b32 %c{i}, 0;" for i in range(clocks)),
        f"AGAIN: bar.sync 0; mov.u32 %c{clocks - 1}, %clock;",
        *(form.text(d, 0, 8, d, 16) for d in results),
        *(f"@%p1 mov.u32 %c{i}, %clock;" for i in range(clocks - 1)),
        f"add.u32 %t1, %t1, 1; setp.lt.u32 %p2, %t1, {rounds}; @%p2 bra.uni AGAIN;",
        "bar.sync 0; ld.param.u64 %q3, [out]; and.b32 %t2, %t0, 31; setp.ne.u32 %p2, %t2, 0; @%p2 bra DONE;",
    ]


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


class Coded(Clocked):
    """Room for code with additions, comparisons and branches of our own.

    Attributes:
        nop, thread: a NOP, and what reads the number of the thread into R0.
        test, jump, sum: a comparison, a branch with its predicate, and an addition.
    """

    def __init__(self, cubin: Path, nvdisasm: str, first: int) -> None:
        super().__init__(cubin, nvdisasm, first)
        self.nop, self.thread = halves(self.word("NOP$")), halves(self.word(r"S2R R0, SR_TID\.X$"))
        self.test, self.jump = halves(self.word(r"ISETP\.LT\.U32\.AND P1, PT, R\d+, 0x")), halves(self.word("@P1 BRA"))
        self.sum = halves(self.word(r"VIADD R\d+, R\d+, 0x1$"))

    def add(self, to: int, register: int, number: int, wait: int, hint: bool | None = None) -> Word:
        """An addition; by default with the yield hint where ptxas would write it."""
        low = self.sum[0] & 0xFFFF | to << 16 | register << 24 | number << 32
        return low, control(self.sum[1], wait, wait > 11 if hint is None else hint)

    def compare(self, register: int, number: int, wait: int, hint: bool | None = None) -> Word:
        """A comparison with a number, likewise."""
        low = self.test[0] & 0xFFFFFF | register << 24 | number << 32
        return low, control(self.test[1], wait, wait > 11 if hint is None else hint)

    def over(self, forward: int, *, always: bool = False) -> Word:
        """A branch over so many instructions; with the predicate of the comparisons unless `always`."""
        low, high = branch(self.jump, forward)
        return (guarded(low) if always else low), high
