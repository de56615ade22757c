"""What other instructions cost matrix instructions that keep the tensor pipe busy, by the cycle in which their warp can
issue them: the loop of a cubin is rewritten, as `patched.py` does.

    python patched.py build [--build DIR]                          the cubin and the encodings (no GPU needed)
    python slots.py [--build DIR] [--results DIR] [--date D]       results/slots.csv (needs cupy; 5 seconds)

A loop has 24 matrix instructions of one form, on 2 or more warps of each sub-core. Behind every `every`th stands an
instruction of `kind` that its warp may issue `stall` cycles later, without the yield hint or with it (`hint`); kind
`none` is the loop without. `cycles` is an iteration's, best of 3 launches for each loop count.
"""

from __future__ import annotations

import argparse
import csv
import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mixed
import programs as p
from patched import Bench, control, encode, interval

HERE = Path(__file__).resolve().parent
COUNTS, WARPS, LENGTH = (16, 144), (8, 16, 32), 24
FORMS = (*(mixed.SPARSE[i] for i in (0, 5, 6, 9)), *(mixed.DENSE[i] for i in (0, 1, 5)))
Words = list[tuple[int, int]]


def matrix(form: p.Form, stall: int, place: int, data: dict[str, Any]) -> tuple[int, int]:
    """A matrix instruction on one of ten accumulators; a long wait holds with the hint alone."""
    low, high = encode((form, stall, 12 + 4 * (place % 10), 4, 8), data)
    return low, control(high, stall, yields=stall >= 12)


def other(kind: str, hint: bool, data: dict[str, Any]) -> tuple[int, int]:
    """A NOP, or an addition of the uniform datapath to a register of its own."""
    low, high = data["nop" if kind == "NOP" else "add"]
    return low if kind == "NOP" else low & ~(0xFFFF << 16) | 20 << 16 | 20 << 24, control(high, 1, yields=hint)


def experiments(data: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Words]]:
    """Labels and body of each loop."""
    for form in FORMS:
        name, own = mixed.short(form), interval(form)
        yield {"form": name, "kind": "none"}, [matrix(form, own, i, data) for i in range(LENGTH)]
        for kind in ("NOP", "UIADD3"):
            for hint in (0, 1):
                for every in (1, 4):
                    for stall in range(1, 16):
                        words: Words = []
                        for i in range(LENGTH):
                            words.append(matrix(form, own if i % every else stall, i, data))
                            words += [] if i % every else [other(kind, bool(hint), data)]
                        yield {"form": name, "kind": kind, "hint": hint, "every": every, "stall": stall}, words


def run(folder: Path, results: Path, date: str) -> None:
    bench = Bench(folder)
    add, compare = bench.data["add"], bench.data["compare"]
    counter = [(add[0], control(add[1], 5)), (compare[0], control(compare[1], 1))]
    with (results / "slots.csv").open("w", newline="") as file:
        file.write(f"# {bench.name}, {date}; one CTA on one SM; best of 3 launches for each loop count\n")
        columns = ("form", "kind", "hint", "every", "stall", "warps", "cycles")
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        for labels, body in experiments(bench.data):
            for warps, cycles in bench.cycles([*counter, *body], WARPS, COUNTS):
                writer.writerow({**labels, "warps": warps, "cycles": cycles})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=HERE / "build")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    options = parser.parse_args()
    run(options.build, options.results, options.date)


if __name__ == "__main__":
    main()
