"""What other instructions cost matrix instructions that keep the tensor pipe busy, by the cycle in which their warp can
issue them: the loop of a cubin is rewritten, as `measure_mma_distances.py` does.

    python measure_mma_distances.py build  # the cubin and the encodings (no GPU needed)
    python measure_issue_slots.py          # results/issue_slots.csv (needs cupy; 5 seconds)

A loop has 24 matrix instructions of one form, on 2 or more warps of each sub-core. Behind every `every`th stands an
instruction of `kind` that its warp may issue `stall` cycles later, without the yield hint or with it (`hint`); kind
`none` is the loop without. Where `before` is given, an addition of the uniform datapath stands between the two, a cycle
behind the matrix instruction, without the yield hint (0) or with it (1). `cycles` is an iteration's, best of 3 launches
for each loop count.
"""

from __future__ import annotations

import argparse
import csv
import datetime
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import mixed
import programs as p
from machine_code_patch import control
from measure_mma_distances import Bench, encode, interval

HERE = Path(__file__).resolve().parent
COUNTS, WARPS, LENGTH = (16, 144), (8, 16, 32), 24
FORMS = (*(mixed.SPARSE[i] for i in (0, 5, 6, 9)), *(mixed.DENSE[i] for i in (0, 1, 5)))
Words = list[tuple[int, int]]


def matrix(form: p.Form, stall: int, place: int, data: dict[str, Any]) -> tuple[int, int]:
    """A matrix instruction on one of ten accumulators; a long wait holds with the hint alone."""
    low, high = encode((form, stall, 12 + 4 * (place % 10), 4, 8), data)
    return low, control(high, stall, yields=stall >= 12)


def other(kind: str, hint: bool, data: dict[str, Any], stall: int = 1) -> tuple[int, int]:
    """A NOP, an addition of the uniform datapath to a register of its own, or the comparison of the loop's counter once
    more."""
    low, high = data[{"NOP": "nop", "UIADD3": "add", "ISETP": "compare"}[kind]]
    low = low & ~(0xFFFF << 16) | 20 << 16 | 20 << 24 if kind == "UIADD3" else low
    return low, control(high, stall, yields=hint)


def experiments(data: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Words]]:
    """Labels and body of each loop."""
    for form in FORMS:
        name, own = mixed.short(form), interval(form)
        yield {"form": name, "kind": "none"}, [matrix(form, own, i, data) for i in range(LENGTH)]
        for kind, hint, every in (*product(("NOP", "UIADD3"), (0, 1), (1, 4)), ("ISETP", 0, 4), ("ISETP", 1, 4)):
            for stall in range(1, 16):
                labels = {"form": name, "kind": kind, "hint": hint, "every": every, "stall": stall}
                yield labels, among(form, stall, [other(kind, bool(hint), data)], every, data)
        for kind, before, stall in product(("NOP", "ISETP"), (0, 1), range(2, 16)):
            pair = [other("UIADD3", bool(before), data, stall - 1), other(kind, False, data)]
            labels = {"form": name, "kind": kind, "hint": 0, "every": 4, "stall": stall, "before": before}
            yield labels, among(form, 1, pair, 4, data)


def among(form: p.Form, stall: int, others: Words, every: int, data: dict[str, Any]) -> Words:
    """Matrix instructions with these others `stall` cycles behind every `every`th."""
    words: Words = []
    for i in range(LENGTH):
        words.append(matrix(form, interval(form) if i % every else stall, i, data))
        words += [] if i % every else others
    return words


def run(folder: Path, results: Path, date: str) -> None:
    bench = Bench(folder)
    add, compare = bench.data["add"], bench.data["compare"]
    counter = [(add[0], control(add[1], 5)), (compare[0], control(compare[1], 1))]
    with (results / "issue_slots.csv").open("w", newline="") as file:
        file.write(f"# {bench.name}, {date}; one CTA on one SM; best of 3 launches for each loop count\n")
        columns = ("form", "kind", "hint", "every", "stall", "before", "warps", "cycles")
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
