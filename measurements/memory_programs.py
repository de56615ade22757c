"""Timing programs for shared memory: ports of the sub-cores, queues, operands that are overwritten, mixtures, and
tensor cores beside it.

Address registers: %r100 of ldmatrix, %r101 of ld.shared, %r102 of st.shared. Values from %r0 on; matrix operands from
%r104, accumulators from %r116.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from programs import (
    DATA,
    DENSE_FULL,
    LANES,
    LOADS,
    MATRICES,
    ONE_E,
    SPARSE_FULL,
    SPARSE_SMALL,
    Form,
    Part,
    Program,
    Words,
    _load,
    group,
    lanes,
)

STORES = {"st.shared.b32": 1, "st.shared.v2.b32": 2, "st.shared.v4.b32": 4}
WIDTHS = LOADS | MATRICES | STORES
MATRIX, LOAD, STORE = 100, 101, 102
X1, X2, X4 = (f"ldmatrix.sync.aligned.m8n8.x{x}.shared.b16" for x in (1, 2, 4))
L1, L2, L4 = LOADS
S1, S2, S4 = STORES
A, B, E, ACCUMULATORS, ZERO, CHAIN = 104, 108, 112, 116, 150, 151
FULL, CORE, NEIGHBOURS, ACROSS = (0, 1, 2, 3), (0,), (0, 1), (0, 2)
DEEP = (4, 8, 12, 16, 24, 32)
EVERY = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 24, 28, 32)
SHORT = {X1: "x1", X2: "x2", X4: "x4", L1: "l1", L2: "l2", L4: "l4", S1: "s1", S2: "s2", S4: "s4"}


def natural(opcode: str) -> int:
    """Bytes between the addresses of neighbouring lanes (rows) that give no bank conflicts."""
    return 16 if opcode in MATRICES else 4 * WIDTHS[opcode]


def address(opcode: str) -> int:
    return MATRIX if opcode in MATRICES else LOAD if opcode in LOADS else STORE


def access(opcode: str, first: int, offset: int) -> str:
    place = f"%r{address(opcode)}" + (f"+{offset}" if offset else "")
    if opcode in STORES:
        value = f"%r{first}" if opcode == S1 else group(first, WIDTHS[opcode])
        return f"{opcode} [{place}], {value};"
    return _load(opcode, first, place)


def pitches(found: dict[str, int]) -> dict[int, Words]:
    """Start values of the address registers; accesses that share one take the widest pitch."""
    return {
        place: LANES * np.uint32(max(pitch for opcode, pitch in found.items() if address(opcode) == place))
        for place in map(address, found)
    }


def program(
    name: str,
    kind: str,
    opcodes: Sequence[str],
    body: Sequence[str],
    live: Sequence[int],
    warps: tuple[int, ...],
    *,
    cores: tuple[int, ...] = FULL,
    pitch: int = 0,
    count: int = 0,
    initial: dict[int, Words] | None = None,
    image: str = "data",
    mma: int = 0,
) -> Program:
    found = {opcode: pitch or natural(opcode) for opcode in opcodes}
    labels: dict[str, int | str] = {
        "kind": kind,
        "sub_cores": "".join(map(str, cores)),
        "pitch_bytes": pitch,
        "accesses": count,
        "mma": mma,
    }
    text = " ".join(opcode.replace(".sync.aligned.m8n8", "") for opcode in opcodes)
    start = pitches(found)
    return Program(
        f"memory_{kind}_{name}_{'c' + ''.join(map(str, cores)) if cores != FULL else 'all'}",
        "memory",
        text,
        max(count, 1),
        (Part(tuple(body)),),
        tuple(live),
        start | (initial or {}),
        frozenset(start),
        image,
        labels,
        warps,
        sub_cores=cores,
    )


def independent(opcodes: Sequence[str], times: int) -> tuple[list[str], list[int]]:
    """The accesses in turn, `times` of each, loads into registers of their own; and these registers."""
    body, first = [], 0
    for i in range(times):
        for place, opcode in enumerate(opcodes):
            offset = 16 * (i * len(opcodes) + place) if opcode in MATRICES else 512 * (i % 8)
            if opcode in STORES:
                body.append(access(opcode, 60, offset))
            else:
                body.append(access(opcode, first, offset))
                first += WIDTHS[opcode]
    return body, list(range(first))


def ports() -> Iterator[Program]:
    """One kind of access, on one, two and four sub-cores."""
    conflicts = ((L1, 8), (L1, 32), (X4, 128), (X1, 128), (S1, 8), (S1, 32), (S4, 32), (L4, 32))
    for opcode, pitch in (*((opcode, 0) for opcode in SHORT), *conflicts):
        times = {X4: 8, L4: 8}.get(opcode, 16)
        body, live = independent((opcode,), times)
        for cores in (CORE, NEIGHBOURS, ACROSS, FULL):
            if not pitch or cores in (CORE, FULL):
                yield program(
                    f"{SHORT[opcode]}_p{pitch}",
                    "port",
                    (opcode,),
                    body,
                    live,
                    DEEP,
                    cores=cores,
                    pitch=pitch,
                    count=times,
                )


def queues() -> Iterator[Program]:
    """Some accesses, then a chain of integer instructions longer than they take: how many does the sub-core take before
    the warp must wait?"""
    chain = [f"mad.lo.s32 %r{CHAIN}, %r{CHAIN}, %r{ZERO}, %r{CHAIN + 1};"] * 200
    for opcode, pitch in ((L1, 128), (L1, 0), (X4, 128), (X4, 0), (S1, 128), (S4, 0), (L4, 0)):
        for times in (1, 2, 3, 4, 5, 6, 8, 10, 12):
            body, live = independent((opcode,), times)
            yield program(
                f"{SHORT[opcode]}_p{pitch}_n{times}",
                "queue",
                (opcode,),
                [*body, *chain],
                [*live, CHAIN],
                (1, 4, 8, 16, 32) if pitch else (1, 8, 16),
                pitch=pitch,
                count=times,
                initial={ZERO: lanes(1)},
            )


def overwritten() -> Iterator[Program]:
    """The address, or the stored value, changes right after each access."""
    for opcode, pitch in (*((opcode, 0) for opcode in SHORT), (L1, 32), (X4, 128), (S1, 32)):
        times = 8
        body = []
        for i, line in enumerate(independent((opcode,), times)[0]):
            body += [line, f"add.s32 %r{address(opcode)}, %r{address(opcode)}, %r{ZERO + i % 2};"]
        live = independent((opcode,), times)[1]
        yield program(
            f"{SHORT[opcode]}_p{pitch}", "address", (opcode,), body, live, (1, 4, 8, 16, 32), pitch=pitch, count=times
        )
        if opcode in STORES:
            width = WIDTHS[opcode]
            body = []
            for i in range(times):
                body += [
                    access(opcode, 60, 512 * i),
                    f"add.s32 %r{60 + width - 1}, %r{60 + width - 1}, %r{ZERO + i % 2};",
                ]
            yield program(
                f"{SHORT[opcode]}_p{pitch}",
                "value",
                (opcode,),
                body,
                (60 + width - 1,),
                (1, 4, 8, 16, 32),
                pitch=pitch,
                count=times,
            )


def chases() -> Iterator[Program]:
    """Every load needs the value of the one before, directly or through an addition."""
    for opcode in (*LOADS, X1, X2, X4):
        place, pitch = address(opcode), natural(opcode)
        image = f"{'self' if opcode in LOADS else 'rows'}:{pitch}"
        live = range(place, place + WIDTHS[opcode])
        for cores in (FULL, CORE):
            yield program(
                SHORT[opcode],
                "chase",
                (opcode,),
                [_load(opcode, place, f"%r{place}")] * 32,
                live,
                EVERY if cores == FULL else DEEP,
                cores=cores,
                count=32,
                image=image,
            )
        body = [
            line
            for i in range(32)
            for line in (_load(opcode, place, f"%r{place}"), f"add.s32 %r{place}, %r{place}, %r{ZERO + i % 2};")
        ]
        yield program(SHORT[opcode], "chase_add", (opcode,), body, live, EVERY, count=32, image=image)


MIXTURES = (
    (X4, L1),
    (X4, X2),
    (X4, X1),
    (X4, L4),
    (X2, L1),
    (L1, S1),
    (L4, S4),
    (X4, S1),
    (X4, S4),
    (L1, S4),
    (X4, X4, L1),
    (X4, X4, X2, L1),
    (L2, L1),
)


def mixtures() -> Iterator[Program]:
    for opcodes in MIXTURES:
        times = 16 // len(opcodes) // (2 if opcodes.count(X4) + opcodes.count(L4) > 1 else 1)
        body, live = independent(opcodes, max(times, 2))
        name = "_".join(SHORT[opcode] for opcode in opcodes)
        for cores in (FULL, CORE):
            yield program(
                name,
                "mixed",
                opcodes,
                body,
                live,
                EVERY if cores == FULL else DEEP,
                cores=cores,
                count=max(times, 2) * len(opcodes),
            )


def operands(form: Form) -> dict[int, Words]:
    registers = (*range(A, A + form.na), *range(B, B + form.nb))
    return dict.fromkeys(registers, lanes(DATA)) | {E: lanes(ONE_E)}


def beside() -> Iterator[Program]:
    """Accesses among matrix instructions that do not need them."""
    for opcodes in ((X4,), (X2,), (L1,), (L4,), (S1,), (S4,), (X4, L1)):
        for loads, mmas in ((4, 4), (4, 8), (4, 16), (8, 8), (8, 4), (2, 16)):
            body, live = independent(opcodes, loads // len(opcodes))
            matrix = [SPARSE_FULL.text(d, A, B, d, E) for d in (ACCUMULATORS + 4 * (i % 8) for i in range(mmas))]
            name = f"{'_'.join(SHORT[opcode] for opcode in opcodes)}_n{loads}_m{mmas}"
            accumulators = range(ACCUMULATORS, ACCUMULATORS + 4 * min(mmas, 8))
            yield program(
                name,
                "beside",
                opcodes,
                spread(body, matrix),
                [*live, *accumulators],
                (1, 2, 4, 8, 12, 16),
                count=loads,
                mma=mmas,
                initial=operands(SPARSE_FULL),
            )


def spread(few: Sequence[str], many: Sequence[str]) -> list[str]:
    """Both sequences, each in its order, evenly mixed."""
    places = sorted(
        [(i / len(few), 0, line) for i, line in enumerate(few)]
        + [(i / len(many), 1, line) for i, line in enumerate(many)]
    )
    return [line for _, _, line in places]


def chance(seed: int) -> Program:
    """A random body: loads whose values matrix instructions use, loads and stores that nothing uses, changing
    addresses."""
    r = random.Random(seed)
    form = r.choice((SPARSE_FULL, SPARSE_FULL, SPARSE_SMALL, DENSE_FULL))
    kinds = r.sample((X1, X2, X4, L1, L2, L4), r.choice((1, 2, 2, 3))) + r.sample((S1, S2, S4), r.choice((0, 0, 1)))
    tiles, length = r.choice((2, 4, 6, 8)), r.choice((10, 16, 24, 32))
    body, opcodes, mmas = [], [], 0
    slots = (A, B, A + 30, B + 30) if form.na <= 4 else (A,)
    for i in range(length):
        what = r.random()
        if what < 0.45:
            opcode = r.choice(kinds)
            first = 60 if opcode in STORES else r.choice((A, B)) if r.random() < 0.5 else 4 * r.randrange(10)
            body.append(access(opcode, first, 16 * i if opcode in MATRICES else 128 * i))
            opcodes.append(opcode)
        elif what < 0.5:
            place = address(r.choice(opcodes or kinds))
            body.append(f"add.s32 %r{place}, %r{place}, %r{ZERO + i % 2};")
        else:
            d = ACCUMULATORS + 4 * r.randrange(tiles)
            body.append(form.text(d, slots[0], slots[1], d, E))
            mmas += 1
    live = [*range(40), *range(A, A + 8), *range(ACCUMULATORS, ACCUMULATORS + 4 * tiles)]
    return program(
        f"{seed}",
        "random",
        list(dict.fromkeys([*opcodes, *kinds])),
        body,
        live,
        (1, 2, 4, 5, 8, 12, 16),
        count=len(opcodes),
        mma=mmas,
        initial=operands(form) | dict.fromkeys(range(40), lanes(DATA)),
    )


def memory_programs() -> Iterator[Program]:
    for generator in (ports, queues, overwritten, chases, mixtures, beside):
        yield from generator()
    yield from (chance(seed) for seed in range(40))
    yield from fresh("memory_fresh", range(1000, 1060))
    yield from fresh("memory_held", range(2000, 2060))
    yield from fresh("memory_last", range(3000, 3060))
    yield from fresh("memory_later", range(4000, 4060))
    yield from fresh("memory_unseen", range(5000, 5060))
    yield from fresh("memory_blind", range(6000, 6060))
    yield from fresh("memory_sealed", range(7000, 7060))


def fresh(group: str, seeds: range) -> Iterator[Program]:
    """More random bodies, each group measured when rules had been added: `memory_fresh` after yield hints,
    `memory_held` after the sharing of the port, `memory_last` after warps began apart, as they are measured to,
    `memory_later` after the order of warps, `memory_unseen` after issue slots, `memory_blind` after the port,
    `memory_sealed` after the banks of accesses. Nothing was changed for the last."""
    for seed in seeds:
        yield replace(chance(seed), group=group)
