"""Writes configs/measurements/h100_machine_code.json.xz: measured loops as the machine code that ptxas wrote for them,
and h100_emulated.csv: the same streams of emulated instructions without it, for `tcsim validate`.

    python -m measurements.machine_code [--build DIR] [--nvdisasm NVDISASM]

Needs the cubins of `measure_loops.py build --groups mma inserts operation`, the CSV files of these groups, and
results/known_starts.json.gz for the group `started`: the loops of mma behind a known start, with `ahead`, how many
instructions stand in front of the loop. An instruction
is [kind, stall, writes, reads, hints, operands, boards, behind]: the kinds of `sequences.py` (for a matrix instruction
of the chip, its number in `forms`), the cycles for which its warp then issues nothing, registers as numbers (predicates
from 256 on). What is called stands in its place; NOPs
and instructions of the uniform datapath have left nothing but their waits and hints, and the branch, which ends every
loop, its hint. Hints are 1 if the instruction has the yield hint (else 0), and for each of those behind it twice the
cycles between the two, and 1 if that one has the hint. Operands are those of `sass.slots`.
`boards`: the scoreboard that tells when its registers have been read and the one that tells when its values are there,
or -1, and those that it waits for, itself or by instructions before it that are left out; nothing if there are none.
`behind` is by how many instructions of the kernel each lies behind the one before, the first behind its beginning.
`begins` are, by number of warps, the cycles by which each warp comes later than the first to the second iteration
(`ends_of_first` of measure_loops.py), or, behind a known start, than the first to the first instruction.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import lzma
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from measurements import sass
from measurements.sequences import REGISTER, native, spread, words

HERE = Path(__file__).resolve().parent
MEASUREMENTS = HERE.parent / "configs" / "measurements"
TARGET, STREAMS = MEASUREMENTS / "h100_machine_code.json.xz", MEASUREMENTS / "h100_emulated.csv"
COLUMNS = ("program", "instruction", "chains", "fresh", "warps", "instructions", "cycles_per_iteration")
SUB_CORES = 4
GROUPS = ("mma", "inserts", "operation")
PREDICATES = 256  # the number of P0
Row = list[Any]


def kind_of(x: sass.Instruction) -> str:
    """The kind of an instruction; "" for one that takes nothing but its wait."""
    family = x.opcode.split(".")[0]
    if family in ("HMMA", "IMMA"):
        return native(x)
    if family == "VIADD":
        return "imad"  # it never waits for the pipe of the others
    if family == "S2R":
        return "shuffle"  # the same path
    return next((kind for kind, names in sass.KINDS.items() if family in names), "")


def number(register: str) -> int:
    return PREDICATES + int(register[1:]) if register.startswith("P") else int(register[1:])


def registers(x: sass.Instruction, kind: str) -> tuple[list[int], list[int]]:
    """The registers that an instruction writes and reads."""
    guard = re.match(r"@!?(P\d) ", x.text)
    operands = [o.strip().replace(".reuse", "") for o in x.text.split(x.opcode, 1)[1].split(",")]
    if kind.startswith("mma"):
        parts = [spread(text, n) for text, n in zip(operands, words(x), strict=False)]
        written, read = parts[0], [r for part in parts[1:] for r in part]
    else:
        split = 2 if x.opcode.split(".")[0] in ("SHFL", "ISETP", "PLOP3") else 1
        written = [r for text in operands[:split] for r in REGISTER.findall(text)]
        read = [r for text in operands[split:] for r in REGISTER.findall(text)]
        if x.opcode.startswith("IMAD.WIDE"):
            written += [f"R{int(written[0][1:]) + 1}"]
    if guard:
        read += [guard.group(1), *written]
    ours = [[number(r) for r in dict.fromkeys(rs) if not r.startswith("U")] for rs in (written, read)]
    return ours[0], ours[1]


def body(lines: list[sass.Instruction | str]) -> list[tuple[sass.Instruction, int]] | None:
    """The loop of a kernel with what it calls in its place, and their addresses; None where there is more than one
    loop."""
    found = sass.loops(lines)
    if len(found) != 1:
        return None
    last = max(i for i, x in enumerate(lines) if isinstance(x, sass.Instruction) and x.opcode == "EXIT")
    addresses = {id(x): i for i, x in enumerate(x for x in lines if isinstance(x, sass.Instruction))}
    routine: list[sass.Instruction] = []
    for x in lines[last + 1 :]:
        if isinstance(x, sass.Instruction):
            routine.append(x)
            if x.opcode.startswith("RET"):
                break
    code: list[sass.Instruction] = []
    for x in found[0]:
        code += [x, *routine] if x.opcode.startswith("CALL") else [x]
    return [(x, addresses[id(x)]) for x in code]


def rows(code: list[tuple[sass.Instruction, int]]) -> list[Row]:
    """The rows of a loop; what its end waits for, its first instruction does."""
    made: list[Row] = []
    awaited: set[int] = set()  # by instructions that are left out
    for _ in range(2):
        made, early, before = [], 0, 0
        for x, address in code:
            awaited |= {*x.awaited}
            kind = kind_of(x)
            if made and not kind:
                made[-1][4].append(2 * made[-1][1] + x.yields)
            if x.opcode == "BRA":
                continue
            if not kind:
                if made:
                    made[-1][1] += x.cycles
                else:
                    early += x.cycles
                continue
            written, read = registers(x, kind)
            own = [-1 if board is None else board for board in (x.freed, x.written)]
            boards = [*own, *sorted(awaited)] if awaited or own != [-1, -1] else []
            made.append([kind, x.stall, written, read, [int(x.yields)], sass.slots(x), boards, address - before])
            before, awaited = address, set()
        made[-1][1] += early
    return made


def started(forms: dict[str, int]) -> Iterator[dict[str, Any]]:
    """The loops behind a known start. Of `forms`, each has its number, or gets one."""
    data = json.loads(gzip.decompress((HERE / "results" / "known_starts.json.gz").read_bytes()))
    for loop in data["loops"]:
        numbers = [forms.setdefault(opcode, len(forms)) for opcode in loop["forms"]]
        body = [[numbers[row[0]] if isinstance(row[0], int) else row[0], *row[1:]] for row in loop["code"]]
        for one, other in reversed([*pairwise(body)]):
            other[-1] -= one[-1]
        cycles = {warps: each[0] for warps, each in loop["cycles"].items()}
        begins = {warps: each[1] for warps, each in loop["cycles"].items()}
        made = {"name": loop["name"], "group": "started", "cycles": cycles, "begins": begins, "body": body}
        yield made | {"ahead": loop["loop"]}


def streams() -> str:
    """The rows of emulated instructions, without the columns that say how they were measured."""
    head, *lines = (HERE / "results" / "mma.csv").read_text().splitlines()
    text = [f"# from measurements/results/mma.csv: {head.removeprefix('# ')}", ",".join(COLUMNS)]
    text += [",".join(row[name] for name in COLUMNS) for row in csv.DictReader(lines) if row["emulated"] == "1"]
    return "\n".join(text) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=HERE / "build")
    parser.add_argument("--nvdisasm", default="nvdisasm")
    options = parser.parse_args()
    forms: dict[str, int] = {}
    loops = []
    for group in GROUPS:
        measured: dict[str, dict[str, float]] = defaultdict(dict)
        begins: dict[str, dict[str, list[int]]] = defaultdict(dict)
        with (HERE / "results" / f"{group}.csv").open() as file:
            for line in csv.DictReader(line for line in file if not line.startswith("#")):
                if line.get("emulated", "1") == "1":
                    measured[line["program"]][line["warps"]] = float(line["cycles_per_iteration"])
                    if int(line["warps"]) > SUB_CORES:
                        begins[line["program"]][line["warps"]] = [int(n) for n in line["ends_of_first"].split()]
        listings = sass.listings(options.build / f"{group}.cubin", options.nvdisasm)
        for name, cycles in measured.items():
            code = body(listings[name])
            if code is None:
                print(name, "is left out: more than one loop")
                continue
            found = rows(code)
            for row in found:
                if row[0].startswith("mma"):
                    row[0] = forms.setdefault(row[0], len(forms))
            loops.append({"name": name, "group": group, "cycles": cycles, "begins": begins[name], "body": found})
    loops += started(forms)
    head = json.dumps({"source": "machine code of ptxas 13.0.88 for sm_90a", "forms": list(forms)})[:-1]
    text = head + ', "loops": [\n' + ",\n".join(json.dumps(x, separators=(",", ":")) for x in loops) + "\n]}\n"
    STREAMS.write_text(streams())
    TARGET.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    print(len(loops), "loops,", sum(len(x["cycles"]) for x in loops), "rows")


if __name__ == "__main__":
    main()
