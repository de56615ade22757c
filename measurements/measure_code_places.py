"""Emulated 4-bit instructions at other places of the instruction memory: the same machine code, in warps that leave a
barrier together, some instructions further on.

    python measure_code_places.py build  # after `measure_loops.py build` of group mma
    python measure_code_places.py run    # results/code_places.csv; needs cupy

Columns: `program` of group mma, `place` (instructions of 16 bytes by which loop and routine lie further on), `warps`,
and cycles of an iteration from two loop counts, best of `LAUNCHES` launches each.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import sass
from clock_template import template
from machine_code_patch import Word, command, control, machine_code
from measure_loops_behind_barrier import BEGIN, LAST, LIVE, Room, into_branch, measured, waits, write

NAMES = (
    "mma_mma_m8n8k32_s32_s4_s4_c1_none",
    "mma_mma_m8n8k32_s32_s4_s4_c2_none",
    "mma_mma_m16n8k32_s32_u4_u4_c4_none",
    "mma_spo_m16n8k64_s32_s4_u4_c2_none",
    "mma_spo_m16n8k64_s32_s4_u4_c4_none",
    "mma_spo_m16n8k128_s32_u4_u4_c2_none",
)
SLOTS, PLACES, COUNTS = 240, 8, (24, 88)
WARPS = (1, 8, 12, 16, 32)
Function = list[sass.Instruction]


def parts(lines: list[sass.Instruction | str]) -> tuple[Function, Function, list[int]]:
    """The loop of a kernel, the routine that it calls, and the addresses to which that returns."""
    code = [x for x in lines if isinstance(x, sass.Instruction)]
    main = sass.loops(lines)[0]
    over = max(i for i, x in enumerate(code) if x.opcode == "EXIT") + 1
    end = next(i for i, x in enumerate(code) if i >= over and x.opcode.startswith("RET"))
    calls = [i for i, x in enumerate(code) if x.opcode.startswith("CALL") and any(x is y for y in main)]
    return main, code[over : end + 1], [16 * (i + 1) for i in calls]


def moved(room: Room, first: int, lines: list[sass.Instruction | str], place: int) -> bytes:
    """A loop and its routine `place` instructions further on. `first`: the number of the template's instruction that
    the code begins with."""
    main, routine, returns = parts(lines)
    count = next(x for x in main if re.match(r"(VIADD|IADD3) (R\d+), \2, 0x1", x.text))
    register = int(re.findall(r"R(\d+)", count.text)[0])
    limit = int(re.findall(r"R(\d+)", next(x.text for x in main if x.opcode.startswith("ISETP")))[1])
    nop, wait = (0x7918, control(0, 1)), (0x7918, control(0, 15, yields=True))  # until the barrier holds the warp
    words: list[Word] = [room.number(limit, 0), room.number(register, 0), wait, wait, wait, *[nop] * place]
    words.append(room.now(BEGIN))
    begin, routine_at = len(words), len(words) + len(main) + 4
    for x in main:
        words.append(_main(room, x, len(words), begin, first, routine_at, returns, main))
    words = room.ended(words)
    words += [nop] * (routine_at - len(words))
    for x in routine:
        lower, upper = x.lower, waits(x)
        if x.opcode.startswith("RET"):
            lower, upper = _offset(lower & 0xFF00FFFF, upper, -4 * (first + len(words) + 1))
        words.append((lower, upper))
    assert len(words) <= room.slots, f"{len(words)} instructions, room for {room.slots}"
    return machine_code(words)


def _main(
    room: Room,
    x: sass.Instruction,
    at: int,
    begin: int,
    first: int,
    routine_at: int,
    returns: list[int],
    main: Function,
) -> Word:
    """An instruction of the loop at its new place."""
    name, lower, upper = x.opcode.split(".")[0], x.lower, waits(x)
    if name == "CALL":
        return _offset(0x7944, upper, 4 * (routine_at - at - 1))
    if name == "ISETP":
        return lower, into_branch(upper)
    if name == "BRA":
        return room.back(x, begin - at - 1)
    if name in ("MOV", "IMAD") and lower >> 32 in returns:  # where the routine returns to
        calls = [i for i, y in enumerate(main) if y.opcode.startswith("CALL")]
        return lower & 0xFFFFFFFF | 16 * (first + begin + calls[returns.index(lower >> 32)] + 1) << 32, upper
    return lower, upper


def _offset(lower: int, upper: int, offset: int) -> Word:
    """A call or a return over so many bytes, in units of four."""
    low = lower | (offset & 0xFF) << 16 | (offset >> 8) << 34 & (1 << 64) - 1
    return low, upper & ~0x3FFFF | offset >> 38 & 0x3FFFF


def build(folder: Path, ptxas: str, nvdisasm: str) -> None:
    source, cubin = folder / "code_places.ptx", folder / "code_places.cubin"
    source.write_text(template(4, LIVE, SLOTS))
    subprocess.run([ptxas, "-arch=sm_90a", "-o", str(cubin), str(source)], check=True)
    room = Room(cubin, nvdisasm)
    lines = [x for x in sass.listings(cubin, nvdisasm)["template"] if isinstance(x, sass.Instruction)]
    first = next(i for i, x in enumerate(lines) if x.opcode.startswith("BAR")) + 2
    known, loops = sass.listings(folder / "mma.cubin", nvdisasm), {}
    for name in NAMES:
        main, routine, _ = parts(known[name])
        assert max(int(n) for x in main + routine for n in re.findall(r"\bR(\d+)", x.text)) <= LAST
        for place in range(PLACES):
            loops[f"{name} {place}"] = moved(room, first, known[name], place).hex()
    cubin.write_bytes(room.raw)
    (folder / "code_places.json").write_text(json.dumps({"offset": room.offset, "loops": loops}))
    print(len(loops), "loops")


def run(folder: Path, results: Path, date: str) -> None:
    import measure_loops

    device, data = measure_loops.Device(), json.loads((folder / "code_places.json").read_text())
    found = measured(device, folder / "code_places.cubin", data, data["loops"], WARPS, COUNTS)
    rows = [[*name.split(), warps, cycles] for name, warps, cycles, _ in found]
    columns = ["program", "place", "warps", "cycles_per_iteration"]
    write(results / "code_places.csv", f"{device.name}, {date}", COUNTS, columns, rows)


if __name__ == "__main__":
    command(__doc__, build, run, ("ptxas", "nvdisasm"))
