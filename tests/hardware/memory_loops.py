"""Writes configs/measurements/h100_shared_memory.json: the measured loops that use shared memory, in the order of their machine code, for `tcsim validate`.

    python memory_loops.py [--build DIR] [--results DIR] [--nvdisasm PROGRAM] [--output FILE]

Needs results/loops.json (loops.py), results/memory.csv and the cubin of the group "memory" (measure.py). A line of a body that repeats is written once,
with its number.
"""

from __future__ import annotations

import argparse
import json
import re
from itertools import groupby
from pathlib import Path
from typing import Any

import loops
import memory_programs
import programs as p
import sass

HERE = Path(__file__).resolve().parent
TARGET = HERE.parent.parent / "configs" / "measurements" / "h100_shared_memory.json"


XOR = re.compile(r"lop3\.b32 (%r\d+), (%r\d+), (%r\d+), %r\d+, 0x3c;")  # lop3 is no instruction of a trace


def folded(lines: list[str]) -> list[list[Any]]:
    return [[len(list(same)), XOR.sub(r"xor.b32 \1, \2, \3;", line)] for line, same in groupby(lines)]


def part(warps: list[int | None], lines: list[str], repeats: int, registers: dict[str, dict[str, int]]) -> dict[str, Any]:
    return {"warps": warps, "body": folded(lines), "repeats": repeats, "registers": {r: [v["base"], v["step"]] for r, v in registers.items()}}


def recorded(results: Path) -> list[dict[str, Any]]:
    """The loops of loops.json that load from or store to shared memory."""
    found = []
    rows = {group: loops.rows(results, group) for group in ("shared", "gemm")}
    for entry in json.loads((results / "loops.json").read_text())["programs"]:
        if entry["group"] not in rows:
            continue
        parts = entry.get("issue_order") or [x | {"registers": entry["registers"]} for x in entry["parts"]]
        if not any("shared" in line for x in parts for line in x["block"]):
            continue
        counts = next([int(r["iterations_low"]), int(r["iterations_high"])] for r in rows[entry["group"]] if r["program"] == entry["name"])
        found.append(
            {"name": entry["name"], "group": entry["group"], "kind": entry["labels"].get("kind", "gemm"), "sub_cores": [0, 1, 2, 3], "counts": counts,
             "parts": [part(x["warps"], x["block"], x["repeats"], x["registers"]) for x in parts], "image": entry["shared"],
             "cycles": {warps: cycles for warps, cycles in entry["cycles_per_iteration"].items()}}
        )  # fmt: skip
    return found


def measured(results: Path, build: Path, nvdisasm: str) -> list[dict[str, Any]]:
    """The loops of memory_programs.py."""
    listings = sass.listings(build / "memory.cubin", nvdisasm)
    rows = loops.rows(results, "memory")
    found = []
    for program in {x.name: x for x in memory_programs.memory_programs()}.values():
        order = loops.issue_order(program, sass.loops(listings[program.name]))
        some = [r for r in rows if r["program"] == program.name]
        if order is None:
            print(program.name, "is left out: its machine code is not all known to sass.py")
            continue
        found.append(
            {"name": program.name, "group": "memory", "kind": program.labels["kind"], "sub_cores": list(program.sub_cores),
             "counts": [int(some[0]["iterations_low"]), int(some[0]["iterations_high"])], "image": program.image,
             "parts": [part(x["warps"], x["block"], x["repeats"], x["registers"]) for x in order],
             "cycles": {r["warps"]: float(r["cycles_per_iteration"]) for r in some}}
        )  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=HERE / "build")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--nvdisasm", default="nvdisasm")
    parser.add_argument("--output", type=Path, default=TARGET)
    options = parser.parse_args()
    found = recorded(options.results) + measured(options.results, options.build, options.nvdisasm)
    with (options.results / "memory.csv").open() as file:
        source = file.readline().removeprefix("#").strip()
    images = {name: {"fill": x["fill"], "words": x["words"]} for name in sorted({x["image"] for x in found}) for x in [loops.image(name)]}
    head = json.dumps({"source": source, "shared_bytes": p.SHARED_BYTES, "images": images})[:-1]
    body = ",\n".join(json.dumps(x) for x in found)
    options.output.write_text(f'{head}, "loops": [\n{body}\n]}}\n')
    print(len(found), "loops,", sum(len(x["cycles"]) for x in found), "rows")


if __name__ == "__main__":
    main()
