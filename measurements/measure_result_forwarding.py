"""When integer and float instructions can read what another one has written, and what a matrix instruction whose C is
RZ leaves to others: more sequences as those of `measure_register_banks.py`.

    python measure_result_forwarding.py build  # after `measure_loops.py build` of all
    python measure_result_forwarding.py run    # result_forwarding.csv.gz; needs cupy

`tcsim validate --group registers` has every 24th of them behind those of `measure_register_banks.py`. All took the same
cycles in each of three launches. `full f32@c255`: C is RZ. Every integer or float instruction but a comparison writes
register 80 and the remainder by 8 of its place in the sequence."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import measure_short_sequences as pieces  # type: ignore[import-not-found]
from machine_code_patch import command
from measure_register_banks import (  # type: ignore[import-not-found]
    BESIDE,
    FIRST,
    KINDS,
    LONGEST,
    PROBES,
    REGISTERS,
    RESULTS,
    SINGLE,
    THREE,
    TURN,
    ZERO,
    Room,
    asked,
    measured,
    named,
    random_events,
    write,
)
from measure_short_sequences import FORMS as MATRIX
from measure_short_sequences import Piece

FIRST_PIPE = ("lop3", "iadd3", "compare")
LATENCY = 4  # cycles until the next can read a result, one more if it is in another pipe


def adding_to_nothing() -> Iterator[Piece]:
    """Matrix instructions whose C is RZ: what is behind, between and before them, alone and among others that add; and
    random sequences."""
    for matrix, (form, every) in MATRIX.items():
        zero = f"{matrix}@c{ZERO}"
        for variant in (zero, *[f"{zero},b9"] * (form.nb == 1), *[f"{zero},e3"] * form.sparse):
            for distance, banks in product(range(1, 11), (*SINGLE, *PROBES, (1, 1, None), (0, 1, 0))):
                yield asked(((0, variant), (distance, named("ffma", banks))))
        for distance, (kind, banks), behind in product(range(1, every + 1), BESIDE, (zero, matrix)):
            stream = [(i * every + int(distance == every), behind) for i in (1, 2)]
            yield asked(((0, zero), (distance, named(kind, banks)), *stream))
        for distance, first, second in product(range(1, min(every - 1, 4)), BESIDE[2:8], BESIDE[2:8]):
            two = (distance, named(*first)), (distance + 1, named(*second, 1))
            yield asked(((0, zero), *two, (every, zero), (2 * every, matrix)))
        for one, next_one in ((zero, zero), (zero, matrix), (matrix, zero)):
            for gap, distance, banks in product((0, 1), range(1, 10), (*SINGLE[:2], *PROBES[:3])):
                yield asked(((0, one), (every + gap, next_one), (every + gap + distance, named("ffma", banks))))
        for banks, distance in product(PROBES, (1, 2, 3)):
            yield asked(((0, named("ffma", banks)), (distance, zero), (distance + every, zero)))
    source = random.Random(13)
    for _ in range(2000):
        pool = [FIRST + source.randrange(REGISTERS) for _ in range(source.choice((3, 5, 8, 16)))]
        events = random_events(source, pool, 0, source.choices(list(MATRIX), k=source.choice((1, 1, 2, 3))))
        yield asked((at, name + f"@c{ZERO}" * (name in MATRIX and source.random() < 0.6)) for at, name in events)


def dependent() -> Iterator[Piece]:
    """An instruction that reads what another one writes, from the first cycle on in which the compiler lets it; and a
    matrix instruction before, between and behind them."""
    sources, targets = ("iadd3", "imad", "fadd", "ffma"), ("lop3", "imad", "ffma", "compare")
    for source, target, place, matrix in product(sources, targets, range(2), MATRIX):
        least = soonest(source, target)
        for gap, at in product(range(least, least + 5), (*range(-3, 0), *range(1, 10))):
            if at in (0, gap):
                continue
            order = sorted([(0, "source"), (gap, "target"), (at, matrix)])
            written = RESULTS + [name for _, name in order].index("source")
            if (written + place) % 2:
                order = [(order[0][0] - 4, "ffma 255 255 255"), *order]
                written += 1
            names = {
                "source": " ".join((source, *["60", "61", "62"][: 2 + (source in THREE)])),
                "target": " ".join((target, str(written), *["255"] * (1 + (target in THREE)))),
            }
            yield asked((x, names.get(name, name)) for x, name in order)
    for source, target, place, gap in product(sources, targets, range(3), range(4, 9)):
        if gap < soonest(source, target) or (place == 2 and target == "compare"):
            continue
        for ahead, behind in product(range(1, 4), range(1, 3)):
            registers = ["255"] * (2 + (target in THREE))
            registers[place] = str(RESULTS)
            before, last = named("ffma", (0, 0, 0), 1), named("ffma", (0, 0, 0), 2)
            if ahead >= gap:
                continue
            events = [(0, f"{source} 60 61" + " 62" * (source in THREE)), (gap - ahead, before)]
            yield asked([*events, (gap, " ".join((target, *registers))), (gap + behind, last)])


def two_results() -> Iterator[Piece]:
    """An instruction that reads what two others write, in the same bank and in two; and random sequences in which
    instructions read what others have written."""
    nothing = "ffma 255 255 255"
    kinds = product(("iadd3", "imad", "ffma"), repeat=3)
    for (one, two, target), apart, gap, fillers in product(kinds, range(1, 5), range(4, 8), (0, 1)):
        if gap < soonest(two, target) or gap + apart < soonest(one, target):
            continue
        first, second = (" ".join((kind, "60", "61", "62")) for kind in (one, two))
        if fillers:  # so that both are in the same bank
            events = [(0, first), (apart, nothing), (apart + 1, second)]
        else:
            events = [(0, first), (apart, second)]
        for slots in ((0, 1), (0, 2), (1, 2), (1, 0), (2, 0), (2, 1)):
            names = ["255"] * 3
            names[slots[0]], names[slots[1]] = str(RESULTS), str(RESULTS + 1 + fillers)
            yield asked([*events, (events[-1][0] + gap, " ".join((target, *names)))])
    source = random.Random(19)
    for number in range(6000):
        yield asked(_dependent_at_random(source, source.choices(list(MATRIX), k=2) if number % 2 else []))


def soonest(source: str, target: str) -> int:
    """The cycles until an instruction can read what another one writes."""
    return LATENCY + ((source in FIRST_PIPE) != (target in FIRST_PIPE))


def _dependent_at_random(source: random.Random, matrix: list[str]) -> Iterator[tuple[int, str]]:
    at = free = 0
    written: dict[int, tuple[str, int]] = {}  # by register: by which kind, and when
    for number in range(source.randint(4, 12)):
        if matrix and source.random() < 0.25:
            name = source.choice(matrix)
            at = max(at, free)
            free = at + MATRIX[name][1]
        else:
            kind = source.choice(list(KINDS))
            known = [register for register, (by, when) in written.items() if at - when >= soonest(by, kind)]
            operands = [
                str(source.choice(known) if known and source.random() < 0.6 else FIRST + source.randrange(REGISTERS))
                for _ in range(2 + (kind in THREE))
            ]
            name = " ".join((kind, *operands))
            written[RESULTS + number % TURN] = kind, at
        yield at, name
        at += source.choice((1, 1, 1, 2, 2, 3))


def everything() -> Iterator[Piece]:
    """All sequences."""
    for make in (adding_to_nothing, dependent, two_results):
        yield from make()


def build(folder: Path, ptxas: str, nvdisasm: str) -> None:
    pieces.template_cubin(folder, ptxas)
    pieces.assemble(Room(folder, nvdisasm), everything(), LONGEST, folder / "dependent")


def run(folder: Path, results: Path, date: str) -> None:
    name, cycles = measured(folder / "dependent")
    assert all(len(found) == 1 for found in cycles.values()), "a sequence took other cycles in another launch"
    found = [(piece, *cycles[n]) for n, piece in enumerate(everything())]
    write(results / "result_forwarding.csv.gz", found, f"{name}, {date}")


if __name__ == "__main__":
    command(__doc__, build, run, ("ptxas", "nvdisasm"))
