"""Which of four sub-cores goes first at shared memory, and when it matters who does.

    python measure_load_order.py build  # the cubin and its codes; no GPU
    python measure_load_order.py run    # results/load_order.json.gz; needs cupy

One warp of each sub-core runs the same code, begun in the same cycle, on one, two or all four of them. Before that each
has loaded once, far apart from the others, in one of all orders: so it is known whose last access is how old. All runs
three times behind barriers, the last time counts. Of the launches of a code and order all gave the same clocks.

A code is made of loads (`b32`, `v2`, `v4`, `x1` to `x4`; each lane's address is 16 bytes behind that of the one before,
so that the first two have conflicts and take four wavefronts, as `v4`), `mma`, chains of dependent integer instructions
(`fma5`, `alu5`: so many), `wait` (for all loads so far) and `clock`.

The table has of each code its machine code, [name, wait, hint, operands, boards]: of loads the place of `operands` is
taken by the registers for their values and address; of others they are `pipe_and_slots` of sass.py and the register
that is written; `boards` as in sass.py. Then `clocks`, by the
order of the warps, oldest first: those of each warp from the first clock on. `launches`: how many launches differ.
"""

from __future__ import annotations

import gzip
import itertools
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import programs as p
import sass
from machine_code_patch import command, control

LOADS = {
    "b32": ("ld.volatile.shared.b32", 1),
    "v2": ("ld.volatile.shared.v2.b32", 2),
    "v4": ("ld.volatile.shared.v4.b32", 4),
    **{f"x{n}": (f"ldmatrix.sync.aligned.m8n8.x{n}.shared.b16", n) for n in (1, 2, 4)},
}
NAMES = {
    "LDS": "b32",
    "LDS.64": "v2",
    "LDS.128": "v4",
    "LDSM.16.M88": "x1",
    "LDSM.16.M88.2": "x2",
    "LDSM.16.M88.4": "x4",
}
CHAINS = {"fma": "mad.lo.u32 %at, %one, %at, %zero;", "alu": "shf.l.clamp.b32 %at, %at, %at, %zero;"}
EVENT, NOP = 0x100007801, 0x7918  # lower halves of `pmevent 0` and of a NOP
BYTES, STEP, ROUNDS, APART, BEHIND = 4096, 512, 3, 6, 20  # of a warp, of a load; NOPs of a wait, and behind a barrier
ORDERS = [(0,), *itertools.permutations(range(2)), *itertools.permutations(range(4))]
LAUNCHES = 2


def codes() -> Iterator[str]:
    """All codes that are measured."""
    for one in LOADS:
        yield from (f"{f'{one} ' * count}wait clock" for count in (1, 2, 3, 4))
        yield f"{one} {one} wait clock {one} wait clock {one} wait clock"
        yield f"{one} {one} wait clock {one} {one} wait clock {one} {one} wait clock"
        yield f"{one} mma {one} wait clock {one} mma {one} wait clock"
        for pipe in CHAINS:
            yield from (f"{one} {one} {pipe}{count} wait clock {one} {one} wait clock" for count in range(3, 9))
    for one, other in itertools.permutations(LOADS, 2):
        yield f"{one} {other} wait clock"
        yield f"{one} {one} {other} wait clock"
    yield from (f"{loads} wait clock" for loads in ("v2 x4 v4 x1", "x1 v4 x1 v4", "v4 x4 v4", "v2 x2 v2 v2 x2 x2"))


def kernel(name: str, code: str) -> str:
    """The PTX of a code."""
    lines, loads, waited, clocks = [], 0, 0, 0
    for token in code.split():
        if token in LOADS:
            opcode, count = LOADS[token]
            values = ", ".join(f"%v{4 * loads + i}" for i in range(count))
            lines.append(f"{opcode} {values if token == 'b32' else f'{{{values}}}'}, [%at+{STEP * loads}];")
            loads += 1
        elif token == "wait":
            lines += [f"add.u32 %at, %at, %v{4 * load};" for load in range(waited, loads)]
            waited = loads
        elif token == "clock":
            clocks += 1
            lines.append(f"mov.u64 %t{clocks}, %clock64;")
        elif token == "mma":
            lines.append(p.Form(16, 8, 16, "f32", "f16", "f16").text(0, 4, 8, 0, 0))
        else:
            lines += [CHAINS[token[:3]]] * int(token[3:])
    stores = " ".join(f"st.global.u64 [%out+{8 * i}], %t{i};" for i in range(clocks + 1))
    body = "\n    ".join(lines)
    return f"""
.visible .entry {name}(.param .u64 p_in, .param .u64 p_out) {{
    .shared .align 1024 .b8 memory[{4 * BYTES}];
    .reg .b32 %r<10>, %v<{4 * loads}>, %at, %warp, %lane, %round, %i, %delay, %one, %zero;
    .reg .b64 %t<{clocks + 1}>, %in, %out, %offset; .reg .pred %again;
    ld.param.u64 %in, [p_in]; ld.param.u64 %out, [p_out];
    mov.u32 %i, %tid.x; shr.u32 %warp, %i, 5; and.b32 %lane, %i, 31;
    mov.u32 %at, memory; mad.lo.u32 %at, %lane, 16, %at; mad.lo.u32 %at, %warp, {BYTES}, %at; mov.u32 %zero, 0;
    {" ".join(f"st.shared.u32 [%at+{STEP * load + 4 * i}], %zero;" for load in range(loads) for i in range(4))}
    {" ".join(f"ld.global.u32 %r{i}, [%in+{64 + 4 * i}];" for i in range(10))}
    ld.global.u32 %zero, [%in+64]; add.u32 %one, %zero, 1;
    mul.wide.u32 %offset, %warp, 4; add.u64 %in, %in, %offset; ld.global.u32 %delay, [%in];
    mul.wide.u32 %offset, %warp, 256; add.u64 %out, %out, %offset; mov.u32 %round, 0;
AGAIN:
    bar.sync 0; mov.u32 %i, 0;
WAIT:
    .pragma "nounroll";
    {"pmevent 0; " * APART}
    add.u32 %i, %i, 1; setp.lt.u32 %again, %i, %delay; @%again bra.uni WAIT;
    ld.volatile.shared.b32 %i, [%at]; add.u32 %at, %at, %i;
    bar.sync 0; {"pmevent 0; " * BEHIND}
    mov.u64 %t0, %clock64;
    {body}
    add.u32 %round, %round, 1; setp.lt.u32 %again, %round, {ROUNDS}; @%again bra.uni AGAIN;
    st.shared.u32 [%at], %r0;
    setp.ne.u32 %again, %lane, 0; @%again ret;
    {stores}
    ret;
}}
"""


def row(x: sass.Instruction) -> list[Any]:
    """An instruction as the table has it."""
    boards = [*(-1 if board is None else board for board in (x.freed, x.written)), *x.awaited]
    if x.opcode.startswith("LDS"):
        name = NAMES[x.opcode]
        first, address = (int(n) for n in re.findall(r"R(\d+)", x.text)[:2])
        return [name, x.cycles, int(x.yields), [*range(first, first + LOADS[name][1]), address], boards]
    operands = sass.pipe_and_slots(x)
    operands += [int(n) for n in re.findall(r"R(\d+)", x.text)[:1] if operands]
    name = "clock" if "SR_CLOCK" in x.text else "instruction" if operands else "nothing"
    return [name, x.cycles, int(x.yields), operands, boards]


def build(folder: Path, ptxas: str, nvdisasm: str) -> None:
    names = {f"code{number}": code for number, code in enumerate(codes())}
    source, cubin = folder / "load_order.ptx", folder / "load_order.cubin"
    source.write_text(p.HEADER + "".join(kernel(*each) for each in names.items()))
    subprocess.run([ptxas, "-arch=sm_90a", "-o", str(cubin), str(source)], check=True)
    listings, table = sass.listings(cubin, nvdisasm), []
    if not listings:
        raise SystemExit(f"{nvdisasm} is not there; legal: --nvdisasm with the path of the CUDA toolkit's")
    for name, lines in listings.items():
        every = [x for x in lines if isinstance(x, sass.Instruction)]
        clocks = [place for place, x in enumerate(every) if "SR_CLOCK" in x.text]
        rows = [row(x) for x in every[clocks[0] : clocks[-1] + 1]]
        table.append({"name": name, "code": names[name], "rows": rows})
    raw = cubin.read_bytes()
    words = np.frombuffer(raw[: len(raw) // 16 * 16], np.uint64).reshape(-1, 2).copy()
    words[words[:, 0] == EVENT] = NOP, control(0, 15, yields=True)
    cubin.write_bytes(words.tobytes() + raw[words.nbytes :])
    (folder / "load_order.json").write_text(json.dumps(table))
    print(len(table), "codes")


def run(folder: Path, results: Path, date: str) -> None:
    import measure_loops

    device = measure_loops.Device()
    cupy = device.cupy
    module, table = (
        cupy.RawModule(path=str(folder / "load_order.cubin")),
        json.loads((folder / "load_order.json").read_text()),
    )
    target = cupy.zeros(1 << 10, dtype=cupy.uint64)
    for entry in table:
        kernel, count = module.get_function(entry.pop("name")), entry["code"].count("clock") + 1
        entry["clocks"] = {}
        for order in ORDERS:
            source = np.zeros(256, np.uint32)
            source[list(order)] = 1 + 2 * np.arange(len(order))
            given, found = cupy.asarray(source), []
            for _ in range(LAUNCHES):
                kernel((1,), (32 * len(order),), (given, target))
                clocks = cupy.asnumpy(target)[: 32 * len(order)].reshape(-1, 32)[:, :count].astype(np.int64)
                assert len({*clocks[:, 0]}) == 1, "warps have not begun together"
                found.append((clocks - clocks[:, :1])[:, 1:].tolist())
            entry["clocks"]["".join(map(str, order))] = found[0]
            entry["launches"] = entry.get("launches", 0) + sum(each != found[0] for each in found)
    lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in table)
    text = f'{{"source": "{device.name}, {date}; one CTA on one SM", "codes": [\n{lines}\n]}}\n'
    with gzip.GzipFile(results / "load_order.json.gz", "wb", mtime=0) as file:
        file.write(text.encode())
    print(len(table), "codes;", sum(entry["launches"] for entry in table), "launches differ from the first")


if __name__ == "__main__":
    command(__doc__, build, run, ("ptxas", "nvdisasm"))
