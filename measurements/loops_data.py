"""Writes configs/measurements/h100_programs.json.xz: measured loops of unlike matrix instructions, as the machine code
issues them.

    python loops_data.py  # --given timing_programs.json

Sets: `given` (forty loops of nvcc, from the file), and those of the groups `random`, `held` (`held out`), `fresh`,
`later`, `unseen`, `blind`, `sealed`, `closed`, `apart` and `abreast`, each first measured when rules had been fixed
that the ones before had been looked at for (`mixed.py`); those of `abreast` as measure_loops_behind_barrier.py measures
them. A program is its body, as [form, d, a, b, c, e] or [null, d, source] for a move between registers, cycles of an
iteration by number of warps, and, but for the given ones, `begins`: by number of warps where they share sub-cores, the
cycle in which each begins (`ends_of_first` of measure_loops.py, or 0), and `code`: for each instruction its wait, and
its hints (`sass.hints`)."""

from __future__ import annotations

import argparse
import csv
import json
import lzma
import re
from pathlib import Path
from typing import Any

import sass

HERE = Path(__file__).resolve().parent
Found = tuple[list[str], dict[str, float], dict[str, Any]]  # a body, its cycles, and what else is known of it
SUB_CORES = 4
SETS = {"random": "random", "held out": "held"} | {
    group: group for group in ("fresh", "later", "unseen", "blind", "sealed", "closed", "apart", "abreast")
}
TARGET = HERE.parent / "configs" / "measurements" / "h100_programs.json.xz"
SOURCE = (
    "measured: given, H100 80GB, November 2026; the others, H100 80GB HBM3, 2026-11-25 and (closed, apart, abreast) "
    "2026-11-26; cycles of an iteration from two loop counts, one CTA on one SM"
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
    """The wait of each statement, and its hints; the last one's wait ends with the branch, and what stands in front of
    the first statement comes behind that."""
    *stalls, branch = sass.stalls(instructions)
    stalls[-1] += branch
    first = next(place for place, x in enumerate(instructions) if sass.kept(x))
    hints = sass.hints([*instructions[first:], *instructions[:first]])
    return [[stall, *hint] for stall, hint in zip(stalls, hints, strict=True)]


def measured(group: str, build: Path, results: Path, nvdisasm: str) -> dict[str, Found]:
    """Every program of a group."""
    loops = {name: sass.loops(lines)[0] for name, lines in sass.listings(build / f"{group}.cubin", nvdisasm).items()}
    cycles: dict[str, dict[str, float]] = {}
    begins: dict[str, dict[str, list[int]]] = {}
    with (results / f"{group}.csv").open() as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            if row["program"] not in loops:  # abreast.csv has those of other groups, too
                continue
            cycles.setdefault(row["program"], {})[row["warps"]] = float(row["cycles_per_iteration"])
            if int(row["warps"]) > SUB_CORES:
                ends = row.get("ends_of_first", " ".join("0" * int(row["warps"])))
                begins.setdefault(row["program"], {})[row["warps"]] = list(map(int, ends.split()))
    return {
        name: (body(loops[name]), cycles[name], {"begins": begins[name], "code": code(loops[name])}) for name in cycles
    }


def given(path: Path) -> dict[str, Found]:
    programs = json.loads(path.read_text())
    bodies = {p["name"]: body([sass.Instruction(text) for text in p["loop"]]) for p in programs}
    return {p["name"]: (bodies[p["name"]], p["cycles_per_iteration"], {}) for p in programs}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--given", type=Path, required=True)
    parser.add_argument("--build", type=Path, default=HERE / "build")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--nvdisasm", default="nvdisasm")
    options = parser.parse_args()
    sets = {
        "given": given(options.given),
        **{label: measured(group, options.build, options.results, options.nvdisasm) for label, group in SETS.items()},
    }
    forms: list[str] = []
    programs = [
        {"name": name, "set": label, "body": compact(lines, forms), "cycles": cycles} | known
        for label, found in sets.items()
        for name, (lines, cycles, known) in found.items()
    ]
    text = ",\n".join(json.dumps(program, separators=(",", ":")) for program in programs)
    text = f'{{"source":{json.dumps(SOURCE)},\n"forms":{json.dumps(forms)},\n"programs":[\n{text}\n]}}\n'
    TARGET.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    print(len(programs), "programs,", TARGET.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
