"""Loops of unlike matrix instructions: what a change of shape or type costs, where integer instructions get in the way,
and random programs.

Groups `pairs` (two or three forms in turn, every instruction on an accumulator of its own), `inserts` (integer
instructions between those of one form), `gaps` and `beside` (chains of three forms, and warps that run different
forms), `random`, `held`, `fresh`, `later`, `unseen`, `blind`, `sealed`, `closed`, `apart` and `abreast` (loops of the
kind of the forty that configs/measurements/h100_programs.json.xz begins with, other seeds).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations

from programs import DATA, ONE_E, Form, Part, Program, lanes

SPARSE = tuple(
    Form(16, 8, k * size, d, a, a, sparse=True)
    for size in (1, 2)
    for a, d, k in (("f16", "f16", 16), ("f16", "f32", 16), ("bf16", "f32", 16), ("tf32", "f32", 8), ("s8", "s32", 32))
)
DENSE = tuple(
    Form(16, 8, k * size, d, a, a)
    for size in (1, 2)
    for a, d, k in (("f16", "f16", 8), ("f16", "f32", 8), ("bf16", "f32", 8), ("tf32", "f32", 4), ("s8", "s32", 16))
)
ALL = (*SPARSE, *DENSE)
BUSY = (1, 4, 5, 8, 12, 16, 32)
A, B, E, D = 0, 8, 16, 20


def _initial() -> dict[int, object]:
    return {r: lanes(DATA) for r in (*range(A, A + 8), *range(B, B + 8))} | {E: lanes(ONE_E)}


def _program(
    name: str,
    group: str,
    instruction: str,
    body: list[str],
    tiles: int,
    count: int,
    warps: tuple[int, ...],
    **labels: int | str,
) -> Program:
    live = tuple(range(D, D + 4 * tiles))
    return Program(
        name,
        group,
        instruction,
        count,
        (Part(tuple(body)),),
        live,
        _initial(),
        labels=labels,
        warps=warps,
        counter="compiled",
    )  # type: ignore[arg-type]


def short(form: Form) -> str:
    return f"{'sp' if form.sparse else ''}k{form.k}_{form.d}_{form.a}"


def chain(form: Form, count: int, name: str) -> Program:
    """`count` of one form on 12 accumulators in turn, under a name of its own."""
    body = [form.text(D + 4 * (i % 12), A, B, D + 4 * (i % 12), E) for i in range(count)]
    return _program(name, "patched", form.opcode, body, 12, count, (1,))


def in_turn(forms: tuple[Form, ...], pattern: str, copies: int, warps: tuple[int, ...]) -> Program:
    """The forms in the order of the pattern ("001"), on 12 accumulators in turn."""
    chosen = [forms[int(c)] for c in pattern] * copies
    body = [form.text(D + 4 * (i % 12), A, B, D + 4 * (i % 12), E) for i, form in enumerate(chosen)]
    name = "_".join(map(short, forms))
    return _program(
        f"pairs_{name}_p{pattern}",
        "pairs",
        " ".join(f.opcode for f in forms),
        body,
        12,
        len(body),
        warps,
        forms=name,
        pattern=pattern,
    )


def pairs() -> Iterator[Program]:
    for first, second in combinations(ALL, 2):
        yield in_turn((first, second), "01", 24, (1, 8, 16, 32))
        yield in_turn((first, second), "0011", 12, (1, 16))
        yield in_turn((first, second), "000111", 8, (1, 16))
    for form in ALL:
        yield in_turn((form,), "0", 48, (1, 8, 16, 32))
    for forms in combinations((SPARSE[1], SPARSE[6], DENSE[1], DENSE[6], SPARSE[4], SPARSE[9], DENSE[4], DENSE[9]), 3):
        yield in_turn(forms, "012", 16, (1, 16))


INSERTS = {
    "iadd3": ("add.s32 %r{d}, %r{d}, %r{p};", "add.s32 %r{d}, %r{d}, %r{q};"),
    "lop3": ("lop3.b32 %r{d}, %r{d}, %r{p}, %r{q}, 0x6a;",),
    "imad": ("mad.lo.s32 %r{d}, %r{d}, %r{p}, %r{q};",),
    "mov": ("mov.b32 %r{d}, %r{p};",),
    "ffma": ("fma.rn.f32 %r{d}, %r{d}, %r{p}, %r{q};",),
}


def inserts() -> Iterator[Program]:
    """`run` integer instructions after every `every` matrix instructions."""
    for form in (SPARSE[0], SPARSE[1], SPARSE[5], SPARSE[6], DENSE[1], DENSE[6], SPARSE[4], DENSE[4]):
        for name, statements in INSERTS.items():
            for every, run in ((1, 1), (2, 1), (4, 1), (1, 2), (4, 4)):
                body: list[str] = []
                for i in range(48):
                    body.append(form.text(D + 4 * (i % 12), A, B, D + 4 * (i % 12), E))
                    if i % every == every - 1:
                        for j in range(run):
                            body += [s.format(d=100 + (i + j) % 8, p=110 + i % 4, q=114 + i % 4) for s in statements]
                label = f"inserts_{short(form)}_{name}_e{every}_r{run}"
                program = _program(
                    label, "inserts", form.opcode, body, 12, 48, (1, 4, 8, 16), insert=name, every=every, run=run
                )
                initial = program.initial | {r: lanes(r) for r in range(100, 118)}
                yield Program(**{**program.__dict__, "initial": initial, "live": (*program.live, *range(100, 108))})


def random_program(group: str, number: int, seed: int, forms: tuple[Form, ...]) -> Program:
    """A straight-line body of one to three forms on a few accumulator tiles (shared by the forms) and two places for A
    and B each."""
    source = random.Random(seed)
    length, tiles = source.choice([8, 12, 16, 24, 32]), source.choice([1, 2, 3, 4, 6, 8])
    kinds = source.sample(forms, source.choice([1, 2, 3]))
    body = []
    for _ in range(length):
        form, tile = source.choice(kinds), source.randrange(tiles)
        a, b = A + 4 * source.randrange(2), B + 4 * source.randrange(2)
        body.append(form.text(D + 4 * tile, a, b, D + 4 * tile, E))
    label = "any" if len(forms) > len(SPARSE) else "sparse"
    warps = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32)
    return _program(
        f"{group}_{number}", group, f"{label} forms", body, tiles, length, warps, seed=seed, accumulators=tiles
    )


RANDOM = {  # group: the first seed, and how many; each first measured when the ones before had been looked at
    "random": (70_000, 240),
    "held": (90_000, 80),  # when the rules were settled
    "fresh": (110_000, 120),  # when yield hints had been added to the rules
    "later": (130_000, 120),  # when the order of warps had been measured and modelled; looked at for issue slots
    "unseen": (150_000, 120),  # when issue slots had been modelled, too
    "blind": (170_000, 120),  # when the port to shared memory had been; looked at for where the counter stands
    "sealed": (190_000, 120),  # when that had been modelled, too; seen when reads of registers were
    "closed": (210_000, 120),  # when these had been modelled, too; looked at for kept operands and waits of all warps
    "apart": (230_000, 120),  # when these had been modelled; nothing was changed for them
    "abreast": (250_000, 120),  # the same, in warps that leave a barrier together (measure_loops_behind_barrier.py)
}


def random_programs() -> Iterator[Program]:
    for group, (seed, number) in RANDOM.items():
        for i in range(number):
            yield random_program(group, i, seed + i, ALL if i % 2 else SPARSE)


CLASSES = tuple(form for form in ALL if form.a in ("f16", "s8"))


def gaps() -> Iterator[Program]:
    """Three instructions that wait for the third of the last round (its result is their A): the distances between them,
    and its latency."""
    for first in CLASSES:
        for second in CLASSES:
            for third in CLASSES:
                body = []
                for _ in range(8):
                    body += [
                        first.text(D, D + 8, B, D, E),
                        second.text(D + 4, D + 8, B, D + 4, E),
                        third.text(D + 8, D + 8, B, D + 8, E),
                    ]
                name = "_".join(map(short, (first, second, third)))
                yield _program(f"gaps_{name}", "gaps", third.opcode, body, 3, 8, (1,), forms=name)


def beside() -> Iterator[Program]:
    """Half of the warps run one form and half another."""
    for first in CLASSES:
        for second in CLASSES:
            parts = tuple(
                tuple(form.text(D + 4 * (i % 12), A, B, D + 4 * (i % 12), E) for i in range(48))
                for form in (first, second)
            )
            name = f"{short(first)}_{short(second)}"
            for half in (4, 8, 16):
                yield Program(
                    f"beside_{name}_w{half}",
                    "beside",
                    f"{first.opcode} {second.opcode}",
                    48,
                    (Part(parts[0], 0, half - 1), Part(parts[1], half)),
                    tuple(range(D, D + 48)),
                    _initial(),
                    labels={"forms": name},
                    warps=(2 * half,),
                    counter="compiled",
                )


def mixed_programs() -> Iterator[Program]:
    yield from pairs()
    yield from inserts()
    yield from random_programs()
    yield from gaps()
    yield from beside()
