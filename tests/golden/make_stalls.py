"""Records how far ptxas keeps matrix instructions apart: what its own tables say of intervals and latencies.

    python tests/golden/make_stalls.py [NVDISASM]

Each form and target gets a loop of four independent instructions. Recorded are the cycles between two of them, and from
the last until the branch is done; both are sums of the stall counts that ptxas writes. Forms for which ptxas writes a
sequence are left out. Needs ptxas and nvdisasm (CUDA toolkit).
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

from isa import MmaForm, mma_forms, parse_target
from isa.forms.record import PTX, version
from measurements.sass import Instruction, listings

FILE = Path(__file__).parent / "ptxas_stalls.csv"
TARGETS = ("sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_120a")
CHAINS = 4


def chosen(target: str) -> list[MmaForm]:
    """One form for each shape, kind and type: A and B alike, no .satfinite, D and C in 32-bit registers."""
    sm = parse_target(target)
    forms = [
        form
        for form in mma_forms().values()
        if form.supports(sm) and form.native(sm) and form.blocks == 1 and version(form.since_ptx) <= version(PTX)
    ]
    return [
        form for form in forms if form.a_type == form.b_type and not form.saturate and form.a_type.register_bits == 32
    ]


def kernel(name: str, form: MmaForm) -> str:
    """PTX of the loop, on operands from memory."""
    inputs: dict[str, list[str]] = {}
    loads, lines = [], []  # type: ignore[var-annotated]
    for role in form.roles:
        if role.name in ("a", "b", "e", "scale_a", "scale_b"):
            inputs[role.name] = [f"%x{len(loads) + i}" for i in range(role.count)]
            loads += inputs[role.name]
    counts = {role.name: role.count for role in form.roles}
    for chain in range(CHAINS):
        texts = []
        for role in form.roles:
            if role.name in ("c", "d"):
                texts.append("{" + ", ".join(f"%d{chain * counts['d'] + i}" for i in range(role.count)) + "}")
            elif role.name in ("a", "b"):
                texts.append("{" + ", ".join(inputs[role.name]) + "}")
            else:
                texts.append(inputs[role.name][0] if role.name in inputs else "0" if role.name == "f" else "{0, 0}")
        lines.append(f"    {form.opcode} {', '.join(texts)};")
    accumulators = [f"%d{i}" for i in range(CHAINS * counts["d"])]
    return "\n".join(
        [
            f".visible .entry {name}(.param .u64 p, .param .u32 n) {{",
            (
                f"    .reg .b32 %x<{len(loads)}>; .reg .b32 %d<{len(accumulators)}>; .reg .b32 %i, %n; .reg .b64 %p; "
                f".reg .pred %q;"
            ),
            "    ld.param.u64 %p, [p]; ld.param.u32 %n, [n]; cvta.to.global.u64 %p, %p; mov.b32 %i, 0;",
            *(f"    ld.global.b32 {register}, [%p + {4 * number}];" for number, register in enumerate(loads)),
            *(f"    mov.b32 {register}, 0;" for register in accumulators),
            "LOOP:",
            '    .pragma "nounroll";',
            *lines,
            "    add.s32 %i, %i, 1; setp.lt.s32 %q, %i, %n;",
            "    @%q bra LOOP;",
            *(
                f"    st.global.b32 [%p + {4096 + 4 * number}], {register};"
                for number, register in enumerate(accumulators)
            ),
            "    ret;",
            "}",
        ]
    )


def distances(code: list[Instruction | str]) -> tuple[int, int] | None:
    """Cycles between two of the instructions, and from the last to the end of the branch; None if they are not the four
    that were written."""
    instructions = [line for line in code if isinstance(line, Instruction)]
    places = [place for place, line in enumerate(instructions) if "MMA" in line.opcode]
    if len(places) != CHAINS:
        return None
    between = {sum(line.stall for line in instructions[a:b]) for a, b in pairwise(places)}
    branch = next(
        place for place, line in enumerate(instructions) if place > places[-1] and line.opcode.startswith("BRA")
    )
    return min(between), sum(line.stall for line in instructions[places[-1] : branch + 1])


def record(target: str, nvdisasm: str) -> list[tuple[str, str, int, int]]:
    forms = chosen(target)
    text = "\n".join(
        [
            ".version 9.0",
            f".target {target}",
            ".address_size 64",
            *(kernel(f"k{i}", form) for i, form in enumerate(forms)),
        ]
    )
    with tempfile.TemporaryDirectory() as folder:
        ptx, cubin = Path(folder) / "k.ptx", Path(folder) / "k.cubin"
        ptx.write_text(text)
        subprocess.run(["ptxas", f"-arch={target}", "-o", str(cubin), str(ptx)], check=True, capture_output=True)
        code = listings(cubin, nvdisasm)
    found = [(form.opcode, distances(code[f"k{i}"])) for i, form in enumerate(forms)]
    return [(target, opcode, *both) for opcode, both in found if both is not None]


if __name__ == "__main__":
    rows = [row for target in TARGETS for row in record(target, sys.argv[1] if len(sys.argv) > 1 else "nvdisasm")]
    with FILE.open("w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(("target", "ptx", "distance", "to_branch"))
        writer.writerows(rows)
    print(f"{FILE}: {len(rows)} rows")
