"""Matrix instructions in an order and with stall counts of our own: the loop of a cubin is rewritten, instruction by
instruction.

    python measure_mma_distances.py build  # the cubin, and the encodings of all native forms (no GPU needed)
    python measure_mma_distances.py run    # results/mma_distances.csv

ptxas orders instructions and writes their waits; what the hardware does by itself is seen only with waits of one cycle.
The loop is: addition, comparison, the sequence in question, NOPs, branch. Results are wrong, since no wait protects
them; times are what is asked for. `cycles` is an iteration's; kind `nothing` is the loop with NOPs alone.

Kinds: `run` (n of one form, waits of s cycles), `pair` and `triple` (one after the other, then nothing for 45 cycles:
distances), `alternate` and `stream` (back to back), `compare` (a comparison a cycles after every instruction),
`registers` (random register numbers).
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import mixed
import programs as p
from machine_code_patch import Word, branch_back, build, command, control, machine_code, replaced

COUNTS = (8, 72)
PAD = (("NOP", 15),) * 3
Item = tuple[Any, ...]  # ("NOP", stall) or (form, stall, d, a, b)


def encode(item: Item, data: dict[str, Any]) -> Word:
    if item[0] in ("NOP", "compare"):
        low, high = data[item[0].lower()]
        return low, control(high, item[1])
    form, stall, d, a, b = item
    low, high = data["forms"][mixed.short(form)]
    low = low & ~(0xFFFFFF << 16) | d << 16 | a << 24 | b << 32
    if form.sparse:
        low = low & ~(0xFF << 40) | 2 << 40
    return low, control(high & ~0xFF | d, stall)


def rewritten(cubin: bytes, words: list[Word], data: dict[str, Any]) -> bytes:
    """The cubin with this loop, to which the branch is added."""
    words = [*words, branch_back(data["branch"], len(words))]
    assert len(words) <= data["slots"]
    return replaced(cubin, machine_code(words), data)


def loop(sequence: list[Item], data: dict[str, Any]) -> list[Word]:
    """The words of a loop: its counter, and the sequence."""
    words = [(data["add"][0], control(data["add"][1], 12)), (data["compare"][0], control(data["compare"][1], 13))]
    return words + [encode(item, data) for item in sequence]


class Bench:
    """The GPU, and the cubin whose loop is rewritten.

    Attributes:
        data: what `build` has found in the cubin.
        name: of the GPU.
    """

    def __init__(self, folder: Path) -> None:
        import measure_loops

        self.device = measure_loops.Device()
        self.name, cupy = self.device.name, self.device.cupy
        self.data, self.cubin = (
            json.loads((folder / "mma_template.json").read_text()),
            (folder / "mma_template.cubin").read_bytes(),
        )
        program = mixed.chain(mixed.SPARSE[6], 96, "template")
        self.inputs = cupy.asarray(p.register_table(program, 1024)), cupy.asarray(p.image("data", 0))

    def cycles(self, words: list[Word], numbers: Iterable[int], counts: tuple[int, int]) -> Iterator[tuple[int, float]]:
        """For each number of warps the cycles of an iteration, best of 3 launches for each of the two loop counts."""
        module = self.device.cupy.cuda.function.Module()
        module.load(rewritten(self.cubin, words, self.data))
        kernel = module.get_function("template")
        for warps in numbers:
            few, many = (min(self.device.cycles(kernel, *self.inputs, warps, n) for _ in range(3)) for n in counts)
            yield warps, round((many - few) / (counts[1] - counts[0]), 2)


def interval(form: p.Form) -> int:
    return 4 + 2 * form.sparse + 2 * (form in mixed.SPARSE[5:] or form in mixed.DENSE[5:])


def one(form: p.Form, stall: int, place: int) -> Item:
    return form, stall, 12 + 4 * (place % 10), 4, 8


def experiments() -> Iterator[tuple[dict[str, Any], tuple[int, ...], list[Item]]]:
    """Labels, numbers of warps, sequence."""
    forms = mixed.CLASSES
    yield {"kind": "nothing"}, (1,), list(PAD)
    for form in forms:
        name = mixed.short(form)
        for n in (1, 2, 3, 4, 5, 6, 8, 12, 16, 24):
            for stall in (1, interval(form)):
                yield (
                    {"kind": "run", "first": name, "n": n, "stall": stall},
                    (1,),
                    [*(one(form, stall, i) for i in range(n)), *PAD],
                )
        for stall in (1, interval(form)):
            yield (
                {"kind": "stream", "first": name, "n": 60, "stall": stall},
                (1, 4, 8, 16, 32),
                [one(form, stall, i) for i in range(60)],
            )
        for after in range(1, interval(form)):
            body = [x for i in range(16) for x in (one(form, after, i), ("compare", interval(form) - after))]
            yield {"kind": "compare", "first": name, "n": 16, "stall": after}, (1, 8), [*body, *PAD]
        for second in forms:
            other = mixed.short(second)
            yield (
                {"kind": "pair", "first": name, "second": other, "stall": 1},
                (1,),
                [one(form, 1, 0), one(second, 1, 1), *PAD],
            )
            body = [one((form, second)[i % 2], 1, i) for i in range(40)]
            yield {"kind": "alternate", "first": name, "second": other, "n": 40, "stall": 1}, (1, 8, 16), body
            for third in forms:
                labels = {"kind": "triple", "first": name, "second": other, "third": mixed.short(third), "stall": 1}
                yield labels, (1,), [one(form, 1, 0), one(second, 1, 1), one(third, 1, 2), *PAD]
    source = random.Random(1)
    for form in forms:
        for sample in range(12):
            body = [(form, 1, *(4 * source.randrange(1, 15) for _ in range(3))) for _ in range(12)]
            yield {"kind": "registers", "first": mixed.short(form), "n": sample, "stall": 1}, (1,), [*body, *PAD]


def run(folder: Path, results: Path, date: str) -> None:
    bench = Bench(folder)
    columns = ("kind", "first", "second", "third", "n", "stall", "warps", "cycles")
    with (results / "mma_distances.csv").open("w", newline="") as file:
        what = "cycles of an iteration, best of 3 launches for each loop count"
        file.write(f"# {bench.name}, {date}; one CTA on one SM; {what}\n")
        writer = csv.DictWriter(file, columns, restval="", lineterminator="\n")
        writer.writeheader()
        for labels, numbers, sequence in experiments():
            for warps, cycles in bench.cycles(loop(sequence, bench.data), numbers, COUNTS):
                writer.writerow({**labels, "warps": warps, "cycles": cycles})


if __name__ == "__main__":
    command(__doc__, build, run, ("ptxas", "nvdisasm"))
