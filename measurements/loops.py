"""Writes results/loops.json: every measured loop as trace text, with what it starts from, its SASS and its cycles, for
a simulator to replay.

    python loops.py [--build DIR] [--results DIR] [--nvdisasm PROGRAM]

The SASS comes from the cubins in the build folder (`measure_loops.py build`); without nvdisasm the file has none.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import programs as p
import sass
from all_programs import all_programs

HERE = Path(__file__).resolve().parent
WITH_LISTING = ("loop", "gemm", "barrier", "operand")


def rows(results: Path, group: str) -> list[dict[str, str]]:
    with (results / f"{group}.csv").open() as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def repeated(body: list[str]) -> dict[str, Any]:
    """The shortest block that, repeated, is the body."""
    size = (
        next(n for n in range(1, len(body) + 1) if len(body) % n == 0 and body[:n] * (len(body) // n) == body)
        if body
        else 0
    )
    return {"block": body[:size], "repeats": len(body) // size if size else 0}


def linear(value: p.Words) -> dict[str, int]:
    """A register's 32 lanes as base + lane * step; all that the programs start from are of this form."""
    base, step = int(value[0]), int(value[1]) - int(value[0])
    assert (value == base + step * p.LANES).all()
    return {"base": base, "step": step}


def image(name: str) -> dict[str, Any]:
    """Shared memory: the words that differ from `fill`."""
    words = p.image(name, 0)
    fill = int(words[-1])
    return {
        "bytes": p.SHARED_BYTES,
        "fill": fill,
        "words": {int(i): int(words[i]) for i in np.flatnonzero(words != fill)},
    }


def issue_order(program: p.Program, parts: list[list[sass.Instruction]]) -> list[dict[str, Any]] | None:
    """The parts in the order of the machine code; address registers start like the program's own for the same kind of
    access."""
    translated = [sass.trace_text(body) for body in parts]
    known = [t for t in translated if t is not None]
    if len(known) != len(translated):
        return None
    matrix, plain, store = {"gemm": (140, 141, 141), "memory": (100, 101, 102)}.get(
        program.group.split("_")[0], (100, 100, 100)
    )
    result = []
    for part, (lines, addresses) in zip(program.parts, known, strict=True):
        start = {"LDSM": matrix, "LDS": plain, "STS": store}
        at = {r: start[kind] for kind, used in addresses.items() for r in used if start[kind] in program.initial}
        registers = {f"%r{r}": linear(program.initial[n]) for r, n in at.items()}
        result.append({"warps": [part.first, part.last], **repeated(lines), "registers": registers})
    return result


def entry(program: p.Program, measured: list[dict[str, str]], listing: list[sass.Instruction | str]) -> dict[str, Any]:
    # ptxas may lay the loops of two parts out in either order: the part that starts at warp 0 has the longer or equal
    # loop.
    bodies = sorted(sass.loops(listing), key=len, reverse=True) if len(program.parts) > 1 else sass.loops(listing)
    used = {int(r) for part in program.parts for line in part.body for r in re.findall(r"%r(\d+)", line)}
    record: dict[str, Any] = {
        "name": program.name,
        "group": program.group,
        "labels": program.labels,
        "instruction": program.instruction,
        "instructions_per_iteration": program.count,
        "parts": [
            {"warps": [x.first, x.last], **repeated([line.replace(".volatile", "") for line in x.body])}
            for x in program.parts
        ],
        "registers": {f"%r{r}": linear(v) for r, v in sorted(program.initial.items()) if r in used},
        "shared": program.image,
        "cycles_per_iteration": {r["warps"]: float(r["cycles_per_iteration"]) for r in measured},
    }
    if len(bodies) == len(program.parts):
        record["sass_opcodes"] = [sass.opcode_counts(b) for b in bodies]
        if program.group in WITH_LISTING:
            record["sass"] = [
                [str(x) for x in b] if len(b) <= 64 else [str(x) for x in b[:8]] + ["..."] for b in bodies
            ]
        if program.group in ("gemm", "loop") and (order := issue_order(program, bodies)) is not None:
            record["issue_order"] = order
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=HERE / "build")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--nvdisasm", default="nvdisasm")
    options = parser.parse_args()
    everything = [x for x in all_programs() if not x.group.startswith("memory")]  # memory_loops.py writes those
    groups = sorted({x.group for x in everything})
    measured = {g: rows(options.results, g) for g in groups}
    listings: dict[str, list[sass.Instruction | str]] = {}
    for g in groups:
        listings |= (
            sass.listings(options.build / f"{g}.cubin", options.nvdisasm)
            if (options.build / f"{g}.cubin").exists()
            else {}
        )
    programs = [
        entry(x, [r for r in measured[x.group] if r["program"] == x.name], listings.get(x.name, [])) for x in everything
    ]
    device = json.loads((options.results / "device.json").read_text())
    content = {
        "device": device,
        "shared_images": {name: image(name) for name in sorted({x.image for x in everything})},
        "programs": programs,
    }
    lines = ",\n".join(json.dumps(x) for x in programs)
    head = json.dumps({k: v for k, v in content.items() if k != "programs"})[:-1]
    (options.results / "loops.json").write_text(f'{head}, "programs": [\n{lines}\n]}}\n')
    with_sass, ordered = (sum(key in x for x in programs) for key in ("sass_opcodes", "issue_order"))
    print(f"{len(programs)} programs, {with_sass} with SASS, {ordered} in issue order")


if __name__ == "__main__":
    main()
