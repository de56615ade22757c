"""Tools that rewrite machine code in a cubin: the fields of an instruction, branches, and the command line of a
measurement in two steps.

`build` writes a template, a kernel whose loop has room for other instructions, and how each native matrix instruction
is encoded: mma_template.cubin and mma_template.json in the build folder.
"""

from __future__ import annotations

import argparse
import datetime
import json
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import mixed
import programs as p
import sass

HERE = Path(__file__).resolve().parent
MARK = (1 << 21) - 1 << 41  # control bits of the upper half: stall, yield, scoreboards, reuse
ALWAYS = 7  # the predicate that is true
Word = tuple[int, int]  # the lower and the upper half of an instruction


def build(folder: Path, ptxas: str, nvdisasm: str) -> None:
    """The template is a loop of 96 instructions; a kernel for each form gives its encoding."""
    folder.mkdir(parents=True, exist_ok=True)
    kernels = [(mixed.SPARSE[6], 96, "template"), *((form, 12, f"form_{mixed.short(form)}") for form in mixed.ALL)]
    source, cubin = folder / "mma_template.ptx", folder / "mma_template.cubin"
    source.write_text(p.ptx_module([mixed.chain(form, count, name) for form, count, name in kernels]))
    subprocess.run([ptxas, "-arch=sm_90a", "-o", str(cubin), str(source)], check=True)
    found = sass.listings(cubin, nvdisasm)
    if not found:
        raise SystemExit(f"{nvdisasm} is not there; legal: --nvdisasm with the path of the CUDA toolkit's")
    loop = next(body for body in sass.loops(found["template"]) if sum("MMA" in x.text for x in body) == 96)
    instructions = {name: [x for x in lines if isinstance(x, sass.Instruction)] for name, lines in found.items()}
    raw = machine_code(map(halves, loop))
    data = {
        "offset": cubin.read_bytes().index(raw),
        "slots": len(loop),
        "add": next(halves(x) for x in loop if x.text.startswith("UIADD3")),
        "compare": next(halves(x) for x in loop if x.text.startswith("ISETP")),
        "branch": halves(loop[-1]),
        "nop": next(halves(x) for x in instructions["template"] if x.text == "NOP"),
        "forms": {
            name[5:]: next(halves(x) for x in body if "MMA" in x.text)
            for name, body in instructions.items()
            if name.startswith("form_")
        },
    }
    (folder / "mma_template.json").write_text(json.dumps(data))


def halves(x: sass.Instruction) -> Word:
    return x.lower, x.upper


def control(high: int, stall: int, yields: bool = False) -> int:
    return high & ~MARK | stall << 41 | (not yields) << 45 | 63 << 46


def guarded(low: int, predicate: int = ALWAYS) -> int:
    """The lower half of an instruction that a predicate guards."""
    return low & ~(15 << 12) | predicate << 12


def branch(word: Word, over: int) -> Word:
    """A branch over so many instructions; less than none: back to one before it."""
    offset = 4 * over
    low = word[0] & ~(0xFF << 16) & (1 << 34) - 1 | (offset & 0xFF) << 16 | (offset >> 8) << 34 & (1 << 64) - 1
    return low, control(word[1], 5, yields=True) & ~0x3FFFF | (offset >> 38) & 0x3FFFF


def branch_back(word: Word, count: int) -> Word:
    """The branch at the end of a loop of `count` instructions before it, to the first of them."""
    return branch(word, -count - 1)


def machine_code(words: Iterable[Word]) -> bytes:
    """The bytes of instructions, from their halves."""
    return b"".join(low.to_bytes(8, "little") + high.to_bytes(8, "little") for low, high in words)


def replaced(cubin: bytes, raw: bytes, data: dict[str, Any]) -> bytes:
    """The cubin with these bytes where its code is rewritten."""
    return cubin[: data["offset"]] + raw + cubin[data["offset"] + len(raw) :]


def command(
    description: str | None, build: Callable[..., None], run: Callable[[Path, Path, str], None], tools: tuple[str, ...]
) -> None:
    """The command line of a measurement in two steps: `build` takes the folder and the programs that `tools` names,
    `run` the folder, that of the results and the date."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("build", "run"))
    parser.add_argument("--build", type=Path, default=HERE / "build")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    for tool in tools:
        parser.add_argument(f"--{tool}", default=tool)
    parser.add_argument("--date", default=datetime.date.today().isoformat())
    options = parser.parse_args()
    if options.step == "build":
        build(options.build, *(getattr(options, tool) for tool in tools))
    else:
        run(options.build, options.results, options.date)
