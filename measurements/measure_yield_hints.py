"""What the yield hint of machine code does: the loops of groups `random` and `pairs` as compiled, with the hint in no
instruction, and with the hint in all of them.

    python measure_yield_hints.py build  # NAME_none.cubin and NAME_all.cubin beside the cubins of `measure_loops.py
                                         # build --groups random pairs` (no GPU needed)
    python measure_yield_hints.py run    # needs the GPU and cupy; results/yield_hints.csv

The hint changes no result and no wait: it says whether the scheduler of the sub-core should turn to another warp behind
the instruction. So what differs between the three is the order in which warps issue.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import measure_loops
import programs as p
import sass
from machine_code_patch import command

YIELD = 1 << 45  # of the upper half; the hint is there where the bit is not
GROUPS = ("random", "pairs")
VARIANTS = ("compiled", "none", "all")
WARPS = (1, 8, 12, 16, 32)


def programs(group: str) -> list[p.Program]:
    """The loops that are measured: all random ones, and each pair of forms in turn."""
    chosen = measure_loops.wanted([group])
    return chosen if group == "random" else [x for x in chosen if x.name.endswith("_p01")]


def rewritten(cubin: bytes, loops: dict[str, list[sass.Instruction]], variant: str) -> bytes:
    """The cubin with the hint in all instructions of the loops, or in none; a loop whose code is there twice stays."""
    for body in loops.values():
        old = b"".join(x.lower.to_bytes(8, "little") + x.upper.to_bytes(8, "little") for x in body)
        if cubin.count(old) != 1:
            continue
        upper = [x.upper | YIELD if variant == "none" else x.upper & ~YIELD for x in body]
        new = b"".join(
            x.lower.to_bytes(8, "little") + u.to_bytes(8, "little") for x, u in zip(body, upper, strict=True)
        )
        cubin = cubin.replace(old, new)
    return cubin


def build(folder: Path, nvdisasm: str) -> None:
    for group in GROUPS:
        path = folder / f"{group}.cubin"
        names = {x.name for x in programs(group)}
        loops = {name: sass.loops(lines)[0] for name, lines in sass.listings(path, nvdisasm).items() if name in names}
        for variant in VARIANTS[1:]:
            (folder / f"{group}_{variant}.cubin").write_bytes(rewritten(path.read_bytes(), loops, variant))


def run(folder: Path, results: Path, date: str, launches: int = 5) -> None:
    device = measure_loops.Device()
    cupy = device.cupy
    rows: list[dict[str, Any]] = []
    image = cupy.zeros(p.SHARED_BYTES // 4, dtype=cupy.uint32)
    for group in GROUPS:
        for variant in VARIANTS:
            end = "" if variant == "compiled" else f"_{variant}"
            module = cupy.RawModule(path=str(folder / f"{group}{end}.cubin"))
            for program in programs(group):
                kernel = module.get_function(program.name)
                table = cupy.asarray(p.register_table(program, 0))
                for warps in WARPS:
                    low, high = (
                        [device.cycles(kernel, table, image, warps, n) for _ in range(launches)] for n in (32, 96)
                    )
                    cycles = round((min(high) - min(low)) / 64, 3)
                    rows.append({"program": program.name, "variant": variant, "warps": warps, "cycles": cycles})
    results.mkdir(parents=True, exist_ok=True)
    with (results / "yield_hints.csv").open("w", newline="") as file:
        file.write(
            f"# {device.name}, {date}; cycles of an iteration, best of {launches} launches for each loop count\n"
        )
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    command(__doc__, build, run, ("nvdisasm",))
