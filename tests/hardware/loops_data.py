"""Writes configs/measurements/h100_programs.json: measured loops of unlike matrix instructions, as the machine code
issues them.

    python loops_data.py --given timing_programs.json [--build DIR] [--results DIR] [--nvdisasm PROGRAM]

Sets: `given` (forty loops of nvcc, from the file), `random` (group `random`: what the order of warps was chosen by),
`held out` (group `held`, measured afterwards) and `fresh` (group `fresh`, measured when yield hints had been added to
the rules). A program is its body, as [form, d, a, b, c, e] or [null, d, source] for a move between registers,
cycles of an iteration by number of warps, and, but for the given ones, `code`: for each instruction its wait, and its
hints (`sass.hints`).
"""

from __future__ import annotations

import argparse
import csv
import json
import re
from pathlib import Path
from typing import Any

import sass

HERE = Path(__file__).resolve().parent
Found = tuple[list[str], dict[str, float], list[list[int]]]  # a body, its cycles, its code
TARGET = HERE.parent.parent / "configs" / "measurements" / "h100_programs.json"
SOURCE = (
    "measured: given, H100 80GB, November 2026; random, H100 80GB HBM3, 2026-11-21; held out, H200 (the same SM), "
    "2026-11-21; fresh, H100 80GB HBM3, 2026-11-24; "
    "cycles of an iteration from two loop counts, one CTA on one SM"
)


def compact(lines: list[str], forms: list[str]) -> list[list[Any]]:
    """Trace text as rows of numbers; `forms` grows by the opcodes that are new."""
    rows: list[list[Any]] = []
    for line in lines:
        opcode, operands = line.split(" ", 1)
        if opcode == "mov.b32":
            rows.append([None, *(int(n) for n in re.findall(r"%r(\d+)", operands))])
            continue
        if opcode not in forms:
            forms.append(opcode)
        first = [int(n) for n in re.findall(r"\{%r(\d+)", operands)]
        metadata = re.search(r"\}, %r(\d+), 0x0;", operands)
        rows.append([forms.index(opcode), *first, *([int(metadata.group(1))] if metadata else [])])
    return rows


def body(instructions: list[sass.Instruction]) -> list[str]:
    found = sass.trace_text(instructions)
    if found is None:
        raise SystemExit(f"an instruction that is not known: {[x.text for x in instructions]}")
    return found[0]


def code(instructions: list[sass.Instruction]) -> list[list[int]]:
    """The wait of each statement, and its hints; the last one's wait ends with the branch."""
    *stalls, branch = sass.stalls(instructions)
    stalls[-1] += branch
    return [[stall, *hints] for stall, hints in zip(stalls, sass.hints(instructions), strict=True)]


def measured(group: str, build: Path, results: Path, nvdisasm: str) -> dict[str, Found]:
    """Body, cycles and code of every program of a group."""
    loops = {name: sass.loops(lines)[0] for name, lines in sass.listings(build / f"{group}.cubin", nvdisasm).items()}
    cycles: dict[str, dict[str, float]] = {}
    with (results / f"{group}.csv").open() as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            cycles.setdefault(row["program"], {})[row["warps"]] = float(row["cycles_per_iteration"])
    return {name: (body(loops[name]), cycles[name], code(loops[name])) for name in cycles}


def given(path: Path) -> dict[str, Found]:
    programs = json.loads(path.read_text())
    bodies = {p["name"]: body([sass.Instruction(text) for text in p["loop"]]) for p in programs}
    return {p["name"]: (bodies[p["name"]], p["cycles_per_iteration"], []) for p in programs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--given", type=Path, required=True)
    parser.add_argument("--build", type=Path, default=HERE / "build")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--nvdisasm", default="nvdisasm")
    options = parser.parse_args()
    sets = {
        "given": given(options.given),
        **{
            label: measured(group, options.build, options.results, options.nvdisasm)
            for label, group in (("random", "random"), ("held out", "held"), ("fresh", "fresh"))
        },
    }
    forms: list[str] = []
    programs = [
        {"name": name, "set": label, "body": compact(lines, forms), "cycles": cycles} | ({"code": rows} if rows else {})
        for label, found in sets.items()
        for name, (lines, cycles, rows) in found.items()
    ]
    text = ",\n".join(json.dumps(program, separators=(",", ":")) for program in programs)
    TARGET.write_text(f'{{"source":{json.dumps(SOURCE)},\n"forms":{json.dumps(forms)},\n"programs":[\n{text}\n]}}\n')
    print(len(programs), "programs,", TARGET.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
