"""Writes configs/measurements/h100_shared_memory.json.xz: the measured loops that use shared memory, as the machine
code has them, for `tcsim validate`.

    python memory_loops.py  #

Needs the CSV files of the groups shared, gemm and memory, and their cubins (`measure_loops.py build --groups shared
gemm memory`)."""

from __future__ import annotations

import argparse
import json
import lzma
import re
from itertools import groupby
from pathlib import Path
from typing import Any

import loops
import programs as p
import sass
from all_programs import all_programs

HERE = Path(__file__).resolve().parent
TARGET = HERE.parent / "configs" / "measurements" / "h100_shared_memory.json.xz"
SEEN = ("memory_fresh", "memory_held", "memory_last", "memory_later", "memory_unseen", "memory_blind")
BLIND = "memory_sealed"  # measured when all rules were fixed
GROUPS = ("shared", "gemm", "memory", *SEEN, BLIND)
MOVE = re.compile(r"(?:add\.s32|mov\.b32) %r(\d+), (.*);")
KINDS = {"LDSM": r"ldmatrix", "LDS": r"ld\.", "STS": r"st\."}


def addresses(program: p.Program) -> dict[str, p.Words]:
    """What the address registers of each kind of access hold at the start, relative to the start of shared memory."""
    found = {}  # type: ignore[var-annotated]
    for kind, opcode in KINDS.items():
        for line in (line for part in program.parts for line in part.body):
            if match := re.match(rf"{opcode}.*\[%r(\d+)", line):
                found.setdefault(kind, program.initial[int(match.group(1))])
    return found


def first_holder(lines: list[str], register: int) -> int:
    """The register that holds, at the start of the loop, the address that `register` has when an access first uses it:
    ptxas moves addresses from register to register, by additions of a step and by copies."""
    moving = {int(match[1]) for line in lines if (match := MOVE.match(line))}
    use = next(i for i, line in enumerate(lines) if re.search(rf"\[%r{register}\b", line))
    for line in reversed(lines[:use]):
        if (match := MOVE.match(line)) and int(match[1]) == register:
            sources = [int(source) for source in re.findall(r"%r(\d+)", match[2])]
            register = next((source for source in sources if source in moving), register)
    return register


def part(warps: p.Part, body: list[sass.Instruction], starts: dict[str, p.Words]) -> dict[str, Any] | None:
    """The loop of some warps: its statements, the address registers, the stalls, the yield hints, the loop's counter,
    the scoreboards, and the pipe and the registers of each statement.

    None where the machine code has an instruction that sass.py does not know.
    """
    translated = sass.trace_text(body)
    if translated is None:
        return None
    lines, used = translated
    folded = [[len(list(same)), line] for line, same in groupby(lines)]
    registers = {
        f"%r{holder}": list(loops.linear(starts[kind]).values())
        for kind, found in used.items()
        for register in found
        for holder in (register, first_holder(lines, register))
    }
    return {
        "warps": [warps.first, warps.last],
        "body": folded,
        "registers": registers,
        "stalls": sass.stalls(body),
        "hints": sass.hints(body),
        "counter": sass.counter(body),
        "operands": [sass.pipe_and_slots(x) for x in body if sass.kept(x)],
        "boards": sass.boards(body),
    }


def entry(
    program: p.Program, rows: list[dict[str, str]], listing: list[sass.Instruction | str]
) -> dict[str, Any] | None:
    # ptxas may lay the loops of two parts out in either order: the part that starts at warp 0 has the longer or equal
    # loop.
    bodies = sorted(sass.loops(listing), key=len, reverse=True) if len(program.parts) > 1 else sass.loops(listing)
    parts = [part(warps, body, addresses(program)) for warps, body in zip(program.parts, bodies, strict=True)]
    if None in parts:
        print(program.name, "is left out: its machine code is not all known to sass.py")
        return None
    return {
        "name": program.name,
        "group": program.group,
        "kind": "held out" if program.group == BLIND else program.labels.get("kind", "gemm"),
        "sub_cores": program.sub_cores,
        "counts": [int(rows[0]["iterations_low"]), int(rows[0]["iterations_high"])],
        "image": program.image,
        "parts": parts,
        "cycles": {row["warps"]: float(row["cycles_per_iteration"]) for row in rows},
        "begins": {row["warps"]: list(map(int, row["ends_of_first"].split())) for row in rows},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=HERE / "build")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--nvdisasm", default="nvdisasm")
    parser.add_argument("--output", type=Path, default=TARGET)
    options = parser.parse_args()
    measured = {group: loops.rows(options.results, group) for group in GROUPS}
    listings: dict[str, list[sass.Instruction | str]] = {}
    for group in GROUPS:
        listings |= sass.listings(options.build / f"{group}.cubin", options.nvdisasm)
    programs = [
        x
        for x in all_programs()
        if x.group in GROUPS and any("shared" in line for part in x.parts for line in part.body)
    ]
    entries = [entry(x, [r for r in measured[x.group] if r["program"] == x.name], listings[x.name]) for x in programs]
    found = [x for x in entries if x is not None]
    images = {
        name: {"fill": x["fill"], "words": x["words"]}
        for name in sorted({x["image"] for x in found})
        for x in [loops.image(name)]
    }
    head = json.dumps({"shared_bytes": p.SHARED_BYTES, "images": images})[:-1]
    body = ",\n".join(json.dumps(x) for x in found)
    text = f'{head}, "loops": [\n{body}\n]}}\n'
    options.output.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    print(len(found), "loops,", sum(len(x["cycles"]) for x in found), "rows")


if __name__ == "__main__":
    main()
