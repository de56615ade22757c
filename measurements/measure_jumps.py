"""Jumps, by where they stand and where they lead, in one to four warps of a sub-core: the clock behind them.

    python measure_jumps.py build  # the cubin and its codes; no GPU
    python measure_jumps.py run    # results/jumps.json.gz; needs cupy

Each warp runs a stream of segments three times: straight code of NOPs and reads of the clock with waits and hints of
our own, at addresses of our own, each with a jump to the next. Kept are the clocks of the last round.

A code in the results: `streams`, of each warp of a sub-core (in turn), a list of segments, each [address in
instructions, "N1 C1 N15h B5 ..."]: N a NOP, C a clock, B a branch, P one with a predicate that is true, L a call and R
a return, S and M a LOP3 and an IMAD of three registers of even number, T and U of odd, with the cycles of their wait,
and h for the yield hint; `warps` of a sub-core; `cores`, how many sub-cores
run it (0: all, each a stream of its own); `clocks`: of each warp of the first sub-core, or of each sub-core.
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import sass
from clock_template import Coded, template
from machine_code_patch import Word, command, control, guarded, halves, machine_code, replaced

CLOCKS, SLOTS, FIRST, ROUNDS = 100, 900, 28, 6
READ, SEVERAL = 30, 24  # the registers that S, M, T and U read in turn: the first, and how many of even number
INTEGERS = """.visible .entry integers(.param .u64 out) {
.reg .b32 %r<6>; .reg .b64 %q; ld.param.u64 %q, [out];
ld.global.b32 %r1, [%q]; ld.global.b32 %r2, [%q+4]; ld.global.b32 %r3, [%q+8];
lop3.b32 %r4, %r1, %r2, %r3, 0x6a; mad.lo.u32 %r5, %r1, %r2, %r3;
st.global.b32 [%q], %r4; st.global.b32 [%q+4], %r5; ret; }
"""

Item = tuple[str, int, bool]  # kind, cycles until the next, yield hint
CALL, RETURN = (0x7944, 0x000FEA0003C00000), (0x0C007950, 0x000FEC0003C3FFFF)
N1, C1, C2, PAUSE = ("N", 1, False), ("C", 1, False), ("C", 2, False), ("N", 15, True)
JUMP, RET = ("B", 5, False), ("R", 6, False)
RETURNS_LATER = 28  # cycles by which a target comes later behind a return than behind a branch
DISPATCH = 18  # cycles by which a stream begins behind the one before


class Segment(NamedTuple):
    """Straight code that ends with a jump to the next segment, and its place modulo `every`."""

    place: int
    items: tuple[Item, ...]
    every: int = 32


class Code(NamedTuple):
    """The stream of each warp of a sub-core, in turn; by how many warps it is run, on how many sub-cores (0: on all,
    each with a stream of its own). `shuffled`: whether segments lie in another order than they run, and which."""

    kind: str
    streams: tuple[tuple[Segment, ...], ...]
    warps: tuple[int, ...]
    cores: int = 4
    shuffled: int = 0


def codes() -> Iterator[Code]:
    """All that is measured."""
    yield from capacity()
    yield from places()
    yield from chains()
    yield from mixtures()
    yield from kinds()
    source = random.Random(6)
    for number in range(800):
        yield close(source, number)
    source = random.Random(7)
    for number in range(300):
        for jump in (RET, RET, ("L", 5, False)):
            yield apart(source, jump, number % 3)
    source = random.Random(8)
    for number in range(600):
        yield crowded(source, number)
    source = random.Random(9)
    for number in range(600):
        yield facing(source, number)
    source = random.Random(10)
    for number in range(600):
        yield beside(source, number)
    source = random.Random(11)
    for names in ("SM", "TU", "NN"):
        for count in (1, 2, 3, 4, 6):
            for delay in range(-16, 20):
                yield from (reads(source, names, count, delay) for _ in range(2))
    source = random.Random(12)
    for number in range(300):
        yield ties(source, number)


def cut(source: random.Random, cycles: int, between: tuple[int, int], most: int) -> tuple[list[int], int]:
    """Waits of random lengths, and what is left of the cycles: at most so many."""
    waits = list[int]()
    while cycles > most:
        waits.append(source.randint(*between))
        cycles -= waits[-1]
    return waits, cycles


def facing(source: random.Random, number: int) -> Code:
    """Two warps of a sub-core, with a clock before each jump, at its target, or behind instructions from there on; in
    each third code the second warp crosses a line while the first jumps."""
    jumps = ("B", "B", "L", "R")
    streams = []
    for warp in (0, 1):
        segments, before = list[Segment](), 0
        for i in range(8):
            gap = source.randint(-10, 10) * warp
            place, run, each = source.randrange(8), 0, 1
            behind = source.choice((0, 0, 0, 1, 8 - place, 9 - place, 16 - place)) if i else 0
            rest = (90 if i else 120 - 40 * warp) + gap - before - behind - 4 - 30
            before = gap
            if warp and number % 3 == 2:
                run, each = source.randint(4, 9), source.choice((1, 2, 3))
                rest -= run * each + 2
                before += run * each + 2 + 5
            parts = waits(source, rest, 2)
            kind = source.choice(jumps)
            items = (*[N1] * behind, C2, PAUSE, PAUSE, *parts)
            if run:
                items += (C2, *[("N", each, False)] * run)
            items += (C2, (kind, 6 if kind == "R" else 5, False))
            segments.append(Segment(place, items, 8))
        segments.append(Segment(source.randrange(8), (C2,), 8))
        streams.append(tuple(segments))
    return Code("facing", tuple(streams), (2,), 1)


def ties(source: random.Random, number: int) -> Code:
    """Two warps of a sub-core, of which one returns and the other branches or calls, and both come to their targets
    within a few cycles: a clock before each jump, and at its target or behind instructions from there on."""
    streams, returning = [], number % 2
    for warp in (0, 1):
        segments, before = list[Segment](), 0
        for i in range(8):
            gap = source.choice((-5, -4, -3, -2, -1, 0, 0, 0, 0, 1, 2, 3, 4, 5)) * warp
            place = source.choice((0, 1, 3, 5, 6, 7, 7))
            behind = source.choice((0, 0, 0, 1, 8 - place, 9 - place, 16 - place)) if i else 0
            rest = (90 if i else 120 - 40 * warp) + gap - before - behind - 4 - 30
            rest -= RETURNS_LATER * (warp == returning)
            before = gap
            items = (*[N1] * behind, C2, PAUSE, PAUSE, *waits(source, rest, 2))
            items += (C2, RET if warp == returning else (source.choice("BL"), 5, False))
            segments.append(Segment(place, items, 8))
        segments.append(Segment(source.randrange(8), (C2,), 8))
        streams.append(tuple(segments))
    return Code("ties", tuple(streams), (2,), 1)


def beside(source: random.Random, number: int) -> Code:
    """Two warps of a sub-core: one jumps every hundred cycles, with a clock at the target or a few NOPs behind it; of
    the other a few NOPs issue in the cycles around that target, and it jumps far from it."""
    jumps, others = list[Segment](), list[Segment]()
    late = [0, 40] if number % 2 == 0 else [40, 0]  # by how much each begins later
    for i in range(8):
        behind, wait = (source.choice((0, 0, 1, 2, 3, 4)) if i else 0), source.choice((2, 2, 2, 3, 4, 6))
        rest = (100 - behind if i else 170 - late[0]) - 2 - 30 - wait - 10
        kind = source.choice("BBL")
        items = (*[N1] * behind, C2, PAUSE, PAUSE, *waits(source, rest), ("C", wait, False))
        jumps.append(Segment(source.randrange(8), (*items, (kind, 5, False)), 8))
        first = source.choice((-12, -9, -9))
        at = sorted(source.sample(range(first, 3), source.choice((1, 2, 2, 3, 3, 4, 6))))
        rest = (55 if i else 170 - late[1]) + at[0] - 17
        run = [("N", after - before, False) for before, after in pairwise(at)] + waits(source, 33 - at[-1])
        items = (C2, PAUSE, *waits(source, rest), *run, C2, JUMP)
        others.append(Segment(source.randrange(8), items, 8))
    streams = [(*own, Segment(source.randrange(8), (C2,), 8)) for own in (jumps, others)]
    return Code("beside", tuple(streams if number % 2 == 0 else streams[::-1]), (2,), 1)


def reads(source: random.Random, names: str, count: int, delay: int) -> Code:
    """A warp that returns, and one of the same sub-core that issues so many instructions, of these kinds in turn, some
    cycles behind or before it."""
    one = (C2, PAUSE, PAUSE, *waits(source, 86 + 2 * DISPATCH), C2, RET)
    run = [(names[i % 2], 1 if i < count - 1 else 11, False) for i in range(count)]
    two = (C2, PAUSE, PAUSE, *waits(source, 88 + delay), *run, ("N", 11, False), ("N", 11, False), C2)
    returns = (Segment(source.randrange(4), one, 8), Segment(0, (C2,), 8))
    return Code("reads", (returns, (Segment(source.randrange(4), two, 8),)), (2,), 1)


def waits(source: random.Random, cycles: int, least: int = 1) -> list[Item]:
    """NOPs that take so many cycles together, the last two at least so many each."""
    parts, rest = cut(source, cycles, (7, 11), 17)
    parts += [max(rest // 2, least), max(rest - rest // 2, least)]
    return [("N", part, False) for part in parts]


def crowded(source: random.Random, number: int) -> Code:
    """One or two warps of each sub-core that return within a few cycles, with a clock before each return and behind."""
    count, most = (4, 4, 8)[number % 3], (3, 6, 12, 24)[number // 3 % 4]
    streams = []
    for warp in range(count):
        segments, before = list[Segment](), 0
        for i in range(8 if count == 4 else 5):
            gap = source.randint(0, most)
            rest = (70 if i else 70 + DISPATCH * (count - 1 - warp)) + gap - before
            before = gap
            parts, rest = cut(source, rest, (7, 11), 17)
            parts += [rest // 2, rest - rest // 2]
            items = (C2, PAUSE, PAUSE, *(("N", part, False) for part in parts), C2, RET)
            segments.append(Segment(source.randrange(4), items, 8))
        segments.append(Segment(0, (C2,), 8))
        streams.append(tuple(segments))
    return Code("crowded", tuple(streams), (count // 4,), 0)


def apart(source: random.Random, jump: Item, few: int) -> Code:
    """A warp of each sub-core, whose jumps come a few cycles apart."""
    streams = []
    for _warp in range(4):
        segments, before = list[Segment](), 0
        for _i in range(9):
            gap = source.randint(0, (4, 12, 30)[few])
            rest = 70 + gap - before
            before = gap
            parts, rest = cut(source, rest, (3, 9), 11)
            parts.append(max(rest, 2))
            items = (C2, PAUSE, PAUSE, *(("N", part, False) for part in parts), jump)
            segments.append(Segment(source.randrange(4), items, 8))
        segments.append(Segment(0, (C2,), 8))
        streams.append(tuple(segments))
    return Code("apart " + jump[0], tuple(streams), (1,), 0)


def close(source: random.Random, number: int) -> Code:
    """Two warps whose jumps come a few cycles apart: clocks at the target, or a line or two behind it."""
    cores = 1 if number % 2 else 4
    lag = 19 if cores == 4 else 40
    streams = []
    for warp in (0, 1):
        segments, before = list[Segment](), 0
        for i in range(6):
            gap = source.randint(-9, 9) * warp
            place = source.randrange(8)
            behind = source.choice((0, 0, 0, 1, 8 - place, 9 - place, 16 - place)) if i else 0
            rest = (50 if i else 80 - lag * warp) + gap - before - behind - 2 - 15
            before = gap
            parts, rest = cut(source, rest, (3, 9), 11)
            parts.append(max(rest, 2))
            source.shuffle(parts)
            items = (*[N1] * behind, C2, PAUSE, *(("N", part, False) for part in parts), JUMP)
            segments.append(Segment(place, items, 8))
        segments.append(Segment(source.randrange(8), (C2,), 8))
        streams.append(tuple(segments))
    return Code("close", tuple(streams), (2,), cores)


def capacity() -> Iterator[Code]:
    """A line each with a clock and a jump to the next, in another order than they lie."""
    for stride in (8, 16, 32):
        for lines in (8, 16, 20, 24, 26, 28, 30, 32, 34, 36, 40, 44, 48, 56, 64, 72):
            if lines * stride > 1160:
                continue
            for order in (0, 1, 2):
                segments = [Segment(0, (C1, ("N", 15, True), JUMP), stride) for _ in range(lines)]
                yield Code(f"capacity {stride}", (tuple(segments),), (1,), 4 - 3 * (order == 1), order)


def places() -> Iterator[Code]:
    for late in (False, True):
        for p in range(8):
            for t in range(8):
                for number in range(3):
                    source = random.Random(100 * p + 10 * t + number)
                    segments = [
                        probe(source.randrange(8), p, late),
                        probe(t, source.randrange(8), late),
                        probe(source.randrange(8), 0, late),
                    ]
                    yield Code("places", (tuple(segments),), (1,), 4, 0 if number < 2 else source.randint(1, 100))


def chains() -> Iterator[Code]:
    """Nothing but jumps, with few instructions between."""
    for length in (0, 1, 2, 3, 4, 5, 6, 7, 8, 10):
        for place in range(8):
            for clock in (0, 1):
                items = [N1] * length
                if clock:
                    items = [C1, *items]
                parts = [Segment(place, (*items, JUMP), 8) for _ in range(14)]
                whole = (Segment(0, (*(PAUSE,) * 3, C2, JUMP)), *parts, Segment(0, (C2,)))
                yield Code("chains", (whole,), (1, 2), 4)
                yield Code("chains", (whole,), (2,), 1)


def mixtures() -> Iterator[Code]:
    """Random code."""
    source = random.Random(4)
    for number in range(1500):
        same, most = number % 3 == 0, source.choice((3, 6, 12, 24))
        waits = source.choice(((1,), (1, 1, 1, 2), (1, 2, 3, 4, 5), (1, 1, 2, 4), (2, 3), (3, 4, 5, 6)))
        hints = source.choice((0.0, 0.0, 0.1, 0.3))
        count = 1 if same else 2
        streams = tuple(mixture(source, most, waits, hints, 140 // count) for _ in range(count))
        if same:
            yield Code("mixtures", streams, (1,), 1 if number % 5 == 0 else 4, number % 2)


def kinds() -> Iterator[Code]:
    source = random.Random(2)
    for late in (False, True):
        for jump in (
            ("B", 5, False),
            ("P", 5, False),
            ("B", 1, False),
            ("B", 11, False),
            ("B", 5, True),
            ("L", 5, False),
            ("R", 5, False),
            ("R", 6, False),
        ):
            for t in range(8):
                segments = [
                    probe(source.randrange(8), source.randrange(8), late, jump),
                    probe(t, source.randrange(8), late, jump),
                    probe(source.randrange(8), 0, late),
                ]
                yield Code("kinds", (tuple(segments),), (1,))
        for runup in (0, 1, 2, 3, 4, 5):
            for t in range(8):
                segments = []
                for p in (t, source.randrange(8), source.randrange(8)):
                    items = (
                        *((N1, C1) if late else (C1, N1)) * 8,
                        *(PAUSE,) * 2,
                        C2,
                        *(PAUSE,) * 2,
                        *(N1,) * runup,
                        JUMP,
                    )
                    segments.append(Segment(p, items, 8))
                yield Code("runup", (tuple(segments),), (1,))
        for pause in (2, 3, 4, 6, 8):
            for t in range(8):
                segments = [
                    Segment(
                        p,
                        (
                            ("N", pause, False),
                            *((N1, C1) if late else (C1, N1)) * 8,
                            PAUSE,
                            PAUSE,
                            C2,
                            *(N1,) * 6,
                            JUMP,
                        ),
                        8,
                    )
                    for p in (t, source.randrange(8), source.randrange(8))
                ]
                yield Code("pause", (tuple(segments),), (1,))


def probe(place: int, jump_at: int, late: bool, jump: Item = JUMP, runup: int = 6, length: int = 18) -> Segment:
    """Clocks behind the target, a pause, a clock and NOPs up to the jump at `jump_at` modulo 8."""
    tail = ((N1, C1) if late else (C1, N1)) * (length // 2)
    items = (*tail, PAUSE, PAUSE, C2)
    more = runup + (jump_at - place - len(items) - runup) % 8
    return Segment(place, (*items, *(N1,) * more, jump), 8)


def mixture(source: random.Random, most: int, waits: tuple[int, ...], hints: float, room: int) -> tuple[Segment, ...]:
    """Segments of random code in `room` instructions, gaps included."""
    segments, clocks, total = [Segment(0, (*(PAUSE,) * 3, JUMP))], 0, 0
    while clocks < 60 and total < room:
        items = list[Item]()
        for _ in range(source.randint(1, most)):
            wait, kind = (
                source.choice(waits),
                "C" if source.random() < 0.4 and (not items or items[-1][0] != "C") else "N",
            )
            items.append((kind, wait, source.random() < hints))
        clocks, total = clocks + sum(kind == "C" for kind, *_ in items), total + len(items) + 5
        segments.append(Segment(source.randrange(8), (*items, JUMP), 8))
    return (*segments, Segment(0, (PAUSE, C2), 8))


class Room(Coded):
    """Where the code goes, and the instructions that it needs.

    Attributes:
        first: the number of the template's instruction that the code begins with.
    """

    def __init__(self, folder: Path, nvdisasm: str) -> None:
        super().__init__(folder / "jumps.cubin", nvdisasm, FIRST)
        lines = sass.listings(folder / "jumps.cubin", nvdisasm)["integers"]
        self.integers = {
            kind: next(halves(x) for x in lines if isinstance(x, sass.Instruction) and x.text.startswith(opcode))
            for kinds, opcode in (("ST", "LOP3.LUT R"), ("MU", "IMAD R"))
            for kind in kinds
        }
        self.first = next(i for i, x in enumerate(self.lines) if x.opcode.startswith("BAR")) + 2

    def instruction(self, item: Item, clocks: Iterator[Any], forward: int, at: int) -> Word:
        """A jump leads over `forward` instructions behind it."""
        kind, wait, hint = item
        if kind == "C":
            _, register, read = next(clocks)
            low, high = halves(read)
            return guarded(low & ~(0xFF << 16) | register << 16), control(high, wait, hint)
        if kind == "N":
            return self.nop[0], control(self.nop[1], wait, hint)
        if kind in "BP":
            low, high = self.over(forward, always=kind == "B")
            return low, control(high, wait, hint)
        if kind in self.integers:
            low, high = self.integers[kind]
            first, second, third = (
                READ + (kind in "TU") + 2 * ((3 * (self.first + at) + i) % SEVERAL) for i in range(3)
            )
            low = low & ~(0xFFFFFF << 16 | 0xFF << 32) | (20 if kind in "ST" else 22) << 16 | first << 24 | second << 32
            return low, control(high & ~0xFF | third, wait, hint)
        if kind == "L":
            return _offset(CALL, 4 * forward, wait, hint)
        return _offset(RETURN, -4 * (self.first + at + 1), wait, hint)

    def placed(self, code: Code) -> list[list[tuple[int, Segment]]]:
        """Of each stream its segments with their addresses in the code."""
        at, found = 24, []
        for number, stream in enumerate(code.streams):
            order = list(range(len(stream)))
            if code.shuffled:
                random.Random(100 * code.shuffled + number).shuffle(order)
            places = dict[int, int]()
            for i in order:
                segment = stream[i]
                at += (segment.place - self.first - at) % segment.every
                places[i] = at
                at += len(segment.items) + (i == len(stream) - 1 or segment.items[-1][0] == "R")
                at += segment.items[-1][0] not in "BPLR"
            found.append([(places[i], segment) for i, segment in enumerate(stream)])
        return found

    def code(self, code: Code) -> tuple[bytes, list[Any]]:
        """The code of all warps: four of a CTA, one of each sub-core, begin with the same stream; and its text."""
        placed = self.placed(code)
        end = max(at + len(segment.items) + 2 for stream in placed for at, segment in stream)
        words: dict[int, Word] = {}
        for number, text in enumerate(self.dispatch(code, [stream[0][0] for stream in placed], end)):
            words[number] = text
        for stream in placed:
            clocks = iter(self.clocks)
            targets = [at for at, _ in stream[1:]] + [end]
            for (at, segment), target in zip(stream, targets, strict=True):
                items = list(segment.items)
                if items[-1][0] not in "BPLR":
                    items.append(JUMP)
                for place, item in enumerate(items, at):
                    if item[0] == "R":  # the address to return to, in the place of a pause before
                        pause = self.instruction(PAUSE, clocks, 0, 0)
                        back = next(i for i in range(place - 1, 0, -1) if words[i] == pause)
                        words[back] = self.add(12, 255, 16 * (self.first + target), 15, True)
                        words[back - 1] = self.add(13, 255, 0, 15, True)
                    words[place] = self.instruction(item, clocks, target - place - 1, place)
        ends = [
            (self.thread[0], control(self.thread[1], 15, True)),
            *[(self.nop[0], control(self.nop[1], 15, True))] * 4,
        ]
        for word in ends:
            words[end] = word
            end += 1
        words[end] = self.over(self.slots - end - 1, always=True)
        assert end < self.slots, f"{end} instructions, room for {self.slots}"
        nop = self.nop[0], control(self.nop[1], 1)
        texts = [
            [[self.first + at, " ".join(f"{k}{w}{'h' * h}" for k, w, h in segment.items)] for at, segment in stream]
            for stream in placed
        ]
        return machine_code(words.get(i, nop) for i in range(end + 1)), texts

    def dispatch(self, code: Code, starts: list[int], end: int) -> list[Word]:
        """Comparisons of the number of the thread, and branches to the streams."""
        words = list[Word]()

        def to(target: int, below: int) -> None:
            words.append(self.compare(0, below, 13, True))
            words.append(self.over(target - len(words) - 1))

        count = max(*code.warps, len(starts))
        for warp in range(count):
            if code.cores == 0:
                to(starts[warp], 32 * (warp + 1))
                continue
            if code.cores == 1:
                to(starts[warp % len(starts)], 128 * warp + 32)
                to(end, 128 * (warp + 1))
            else:
                to(starts[warp % len(starts)], 128 * (warp + 1))
        words.append(self.over(end - len(words) - 1, always=True))
        assert len(words) <= 24
        return words


def _offset(word: Word, offset: int, wait: int, hint: bool) -> Word:
    """A call or a return over so many bytes, in units of four."""
    low = word[0] | (offset & 0xFF) << 16 | (offset >> 8) << 34 & (1 << 64) - 1
    return low, control(word[1] & ~0x3FFFF | offset >> 38 & 0x3FFFF, wait, hint)


def build(folder: Path, ptxas: str, nvdisasm: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    source, cubin = folder / "jumps.ptx", folder / "jumps.cubin"
    source.write_text(template(CLOCKS, range(12, 24), SLOTS, ROUNDS) + INTEGERS)
    subprocess.run([ptxas, "-arch=sm_90a", "-o", str(cubin), str(source)], check=True)
    room, found = Room(folder, nvdisasm), []
    print(len(room.clocks), "clocks", room.slots, "slots, first", room.first)
    for code in codes():
        raw, texts = room.code(code)
        found.append({"kind": code.kind, "raw": raw.hex(), "streams": texts, "warps": code.warps, "cores": code.cores})
    cubin.write_bytes(room.raw)
    data = {"offset": room.offset, "stored": [place for place, *_ in room.clocks], "codes": found}
    (folder / "jumps.json.gz").write_bytes(gzip.compress(json.dumps(data).encode(), mtime=0))
    print(len(found), "codes")


def run(folder: Path, results: Path, date: str) -> None:
    import measure_loops

    device = measure_loops.Device()
    cupy = device.cupy
    data = json.loads(gzip.decompress((folder / "jumps.json.gz").read_bytes()))
    cubin = (folder / "jumps.cubin").read_bytes()
    source, target = cupy.zeros(1 << 18, dtype=cupy.uint32), cupy.zeros(1 << 15, dtype=cupy.uint32)
    rows = []
    for code in data["codes"]:
        module = cupy.cuda.function.Module()
        module.load(replaced(cubin, bytes.fromhex(code["raw"]), data))
        for warps in code["warps"]:
            for _ in range(2):  # the first launch fetches the code
                module.get_function("template")((1,), (128 * warps,), (target, source))
            clocks = (
                cupy.asnumpy(target)[: 1024 * warps]
                .reshape(-1, 256)[:: 4 if code["cores"] else 1, data["stored"]]
                .astype(int)
            )
            own = []
            for warp, found in enumerate(clocks.tolist()):
                stream = code["streams"][warp % len(code["streams"])]
                own.append(found[: sum(text.count("C") for _, text in stream)])
            first = min(min(found) for found in own)
            own = [[clock - first for clock in found] for found in own]
            rows.append(
                {
                    "kind": code["kind"],
                    "streams": code["streams"],
                    "warps": warps,
                    "cores": code["cores"],
                    "clocks": own,
                }
            )
    head = json.dumps({"gpu": device.name, "date": date})[:-1]
    text = head + ', "codes": [\n' + ",\n".join(json.dumps(x, separators=(",", ":")) for x in rows) + "\n]}\n"
    (results / "jumps.json.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    print(len(rows), "rows")


if __name__ == "__main__":
    command(__doc__, build, run, ("ptxas", "nvdisasm"))
