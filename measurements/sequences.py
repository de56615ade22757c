"""What ptxas writes for matrix instructions that a chip does not have, as data: configs/sequences/TARGET.json.

    python -m measurements.sequences [--target sm_90a] [--ptxas PTXAS] [--nvdisasm NVDISASM]

Every such form is assembled in a kernel in which all its operands are loaded, and live afterwards. The instructions
between the loads and the stores of the result, as the machine code issues them, become rows [kind, writes, reads]:
values are numbered as they are made, operands have their names (a0, b0, c0, e, d0). Moves between registers that the
surroundings ask for are left out; what is called is followed.

Kinds: "alu" (LOP3, SHF, IADD3, SEL, PRMT, ISETP, PLOP3, F2FP, ...), "imad" (multiply-add and what is written as one,
HADD2), "float" (FADD), "shuffle", "call", "return", and the PTX opcode of a matrix instruction that the chip has.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from isa import MmaForm, mma_forms, parse_target
from measurements import sass

ROOT = Path(__file__).resolve().parents[1]
STRIDE = 128  # bytes between the operands of a lane
STORED = 8192  # where the result goes
NO_RESULT = (
    "BSSY",
    "BSYNC",
    "WARPSYNC",
    "NOP",
    "BRA",
    "EXIT",
    "STG",
    "ST",
    "BAR",
    "CALL",
    "RET",
    "ENDCOLLECTIVE",
    "UMOV",
    "ULDC",
    "R2UR",
)
REGISTER = re.compile(r"(?<![\w.])(U?R\d+|U?P\d)(?!\w)")
Row = list[Any]


def emulated(target: str) -> list[MmaForm]:
    """Forms of `mma` and `mma.sp` for which ptxas writes a sequence on this target: 4-bit integers and 8-bit floats."""
    chip = parse_target(target)
    forms = [
        f
        for f in mma_forms().values()
        if f.supports(chip) and {f.a_type.name, f.b_type.name} <= {"s4", "u4", "e4m3", "e5m2"}
    ]
    return [f for f in forms if not any(role.name.startswith("scale") for role in f.roles)]


def kernel(name: str, form: MmaForm) -> str:
    """PTX that loads the operands, executes the form once, stores the result, and the operands again."""
    lines, groups, loaded = [], {}, 0
    for role in form.roles:
        if role.name == "f":
            continue
        names = [f"%{role.name}{i}" for i in range(role.count)]
        groups[role.name] = names
        if role.name != "d":
            lines += [f"ld.global.b32 {r}, [%in+{STRIDE * (loaded + i)}];" for i, r in enumerate(names)]
            loaded += len(names)
    single = {"e": groups.get("e", [""])[0], "f": "0x0"}
    texts = [single[r.name] if r.name in single else "{" + ", ".join(groups[r.name]) + "}" for r in form.roles]
    lines.append(f"{form.opcode} {', '.join(texts)};")
    lines += [f"st.global.b32 [%in+{STORED + STRIDE * i}], {r};" for i, r in enumerate(groups["d"])]
    live = [r for key, names in groups.items() if key != "d" for r in names]
    lines += [f"st.global.b32 [%in+{2 * STORED + STRIDE * i}], {r};" for i, r in enumerate(live)]
    registers = ", ".join(r for names in groups.values() for r in names)
    return (
        f".visible .entry {name}(.param .u64 p) {{\n.reg .b32 {registers}, %lane;\n.reg .b64 %in, %off;\n"
        "ld.param.u64 %in, [p];\ncvta.to.global.u64 %in, %in;\nmov.u32 %lane, %tid.x;\nmul.wide.u32 %off, %lane, "
        "4;\nadd.u64 %in, %in, %off;\n" + "\n".join(lines) + "\nret;\n}\n"
    )


def operands(form: MmaForm) -> tuple[list[str], list[str]]:
    """Names of what is loaded, in order, and of the result."""
    loaded = [
        f"{r.name}{i}" if r.name != "e" else "e" for r in form.roles if r.name not in "df" for i in range(r.count)
    ]
    return loaded, [f"d{i}" for r in form.roles if r.name == "d" for i in range(r.count)]


def straight(lines: list[sass.Instruction | str]) -> list[sass.Instruction]:
    """The instructions in the order in which they run: up to EXIT, what is called in its place."""
    found = [x for x in lines if isinstance(x, sass.Instruction)]
    leave = next(i for i, x in enumerate(found) if x.opcode == "EXIT")
    back = next((i for i, x in enumerate(found) if x.opcode.startswith("RET")), leave)
    body = found[leave + 1 : back + 1]
    place = next((i for i, x in enumerate(found[:leave]) if x.opcode.startswith("CALL")), None)
    return found[:leave] if place is None else [*found[: place + 1], *body, *found[place + 1 : leave]]


class Flow:
    """Who makes which value."""

    def __init__(self, form: MmaForm) -> None:
        self.loaded, self.results = operands(form)
        self.value: dict[str, str | int] = {}
        self.rows: list[Row] = []
        self.stored: dict[str, str | int] = {}
        self.count = 0
        self.called = False

    def add(self, x: sass.Instruction) -> None:
        family, text = x.opcode.split(".")[0], x.text
        guard = re.match(r"@!?(U?P\w+) ", text)
        operands = [o.strip() for o in text.split(x.opcode, 1)[1].split(",")]
        if family in ("LDG", "STG"):
            self.memory(family, operands)
        elif family in ("IMAD", "MOV") and (family == "MOV" or ".MOV" in x.opcode) and not guard and not self.called:
            source = REGISTER.search(operands[-1].removesuffix(".reuse"))
            self.value[operands[0]] = self.value.get(source.group(1), "") if source else ""
        elif family in ("CALL", "RET"):
            self.called = family == "CALL"
            self.rows.append([family.lower().replace("ret", "return"), [], []])
        elif kind := self.kind(x):
            self.operate(kind, x, operands, guard.group(1) if guard else None)
        elif family not in NO_RESULT and operands[0]:
            for name in REGISTER.findall(operands[0]):
                self.value[name] = ""  # a constant of the thread

    @staticmethod
    def kind(x: sass.Instruction) -> str:
        family = x.opcode.split(".")[0]
        if family in ("HMMA", "IMMA"):
            return native(x)
        return next((kind for kind, names in sass.KINDS.items() if family in names), "")

    def memory(self, family: str, operands: list[str]) -> None:
        address, data = (operands[1], operands[0]) if family == "LDG" else (operands[0], operands[1])
        found = re.search(r"\+(0x[0-9a-f]+)\]", address)
        offset = int(found.group(1), 16) if found else 0
        if family == "LDG":
            self.value[data] = self.loaded[offset // STRIDE]
        elif STORED <= offset < 2 * STORED:
            self.stored[self.results[(offset - STORED) // STRIDE]] = self.value[data]

    def operate(self, kind: str, x: sass.Instruction, operands: list[str], guard: str | None) -> None:
        family = x.opcode.split(".")[0]
        written = [operands[0]]
        if family == "SHFL":
            written = [operands[0], operands[1]]
        elif family in ("ISETP", "PLOP3"):
            written = operands[:2]
        elif family in ("HMMA", "IMMA"):
            written = spread(operands[0], words(x)[0])
        targets = [
            r for text in written for r in REGISTER.findall(text.removesuffix(".reuse")) if r not in ("PT", "RZ")
        ]
        rest = operands[1 if family in ("HMMA", "IMMA") else len(written) :]
        sources = [r for text in rest for r in REGISTER.findall(text.replace(".reuse", ""))]
        if family in ("HMMA", "IMMA"):
            sources = [r for text, n in zip(rest, words(x)[1:], strict=False) for r in spread(text, n)]
        if guard:
            sources += [guard, *targets]
        reads = list(dict.fromkeys(v for r in sources if (v := self.value.get(r, "")) != ""))
        numbers = []
        for target in targets:
            self.value[target] = self.count
            numbers.append(self.count)
            self.count += 1
        self.rows.append([kind, numbers, reads])


def words(x: sass.Instruction) -> tuple[int, int, int, int, int]:
    """Registers of d, a, b, c and metadata of a matrix instruction of the chip."""
    form = mma_forms()[native(x)]
    count = {role.name: role.count for role in form.roles}
    return count["d"], count["a"], count["b"], count["c"], count.get("e", 0)


def native(x: sass.Instruction) -> str:
    """The PTX opcode of a matrix instruction of the chip."""
    parts = x.opcode.split(".")
    sparse = parts[1] == "SP"
    m, n, k = sass.SHAPES[parts[2 if sparse else 1]]
    types = [t.lower() for t in parts[3 if sparse else 2 :]]
    a, b, d = (types[0], types[1], "s32") if parts[0] == "IMMA" else ("f16", "f16", types[0])
    kind = ".sp::ordered_metadata" if sparse else ""
    return f"mma{kind}.sync.aligned.m{m}n{n}k{k}.row.col.{d}.{a}.{b}.{d}"


def spread(operand: str, count: int) -> list[str]:
    found = re.match(r"R(\d+)", operand)
    return [f"R{int(found.group(1)) + i}" for i in range(count)] if found else []


def sequence(form: MmaForm, lines: list[sass.Instruction | str]) -> list[Row]:
    """The rows that the result needs (of what is called, all), values numbered in order."""
    flow = Flow(form)
    for x in straight(lines):
        flow.add(x)
    called = [i for i, row in enumerate(flow.rows) if row[0] in ("call", "return")]
    wanted = set(flow.stored.values())
    kept = []
    for i in range(len(flow.rows) - 1, -1, -1):
        row = flow.rows[i]
        inside = bool(called) and called[0] <= i <= called[-1]
        if inside or wanted & set(row[1]):
            wanted |= set(row[2])
            kept.append(row)
    return named(kept[::-1], {value: name for name, value in flow.stored.items()})


def named(rows: Iterable[Row], results: dict[str | int, str]) -> list[Row]:
    names: dict[str | int, str | int] = dict(results)
    found = []
    count = 0
    for kind, writes, reads in rows:
        for value in writes:
            if value not in names:
                names[value] = count
                count += 1
        found.append([kind, [names[v] for v in writes], [names.get(v, v) for v in reads]])
    return found


def build(target: str, ptxas: str, nvdisasm: str) -> dict[str, Any]:
    forms = emulated(target)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "sequences.ptx"
        source.write_text(
            f".version 9.0\n.target {target}\n.address_size 64\n"
            + "".join(kernel(f"k{i}", f) for i, f in enumerate(forms))
        )
        subprocess.run(
            [ptxas, f"-arch={target}", "-o", str(source.with_suffix(".cubin")), str(source)],
            check=True,
            capture_output=True,
        )
        listings = sass.listings(source.with_suffix(".cubin"), nvdisasm)
    version = re.search(
        r"V([\d.]+)", subprocess.run([ptxas, "--version"], capture_output=True, text=True, check=True).stdout
    )
    opcodes: dict[str, int] = {}
    sequences: list[list[Row]] = []
    for i, form in enumerate(forms):
        rows = sequence(form, listings[f"k{i}"])
        if rows not in sequences:
            sequences.append(rows)
        opcodes[form.opcode] = sequences.index(rows)
    source_text = f"machine code of ptxas {version.group(1) if version else '?'} for {target}"
    return {"source": source_text, "target": target, "opcodes": opcodes, "sequences": sequences}


def written(data: dict[str, Any]) -> str:
    """JSON with a line for each sequence."""
    head = json.dumps({key: data[key] for key in ("source", "target")})[1:-1]
    opcodes = ",\n".join(f"  {json.dumps(key)}: {value}" for key, value in data["opcodes"].items())
    rows = ",\n".join("  " + json.dumps(rows, separators=(",", ":")) for rows in data["sequences"])
    return "{" + head + ',\n"opcodes": {\n' + opcodes + '\n},\n"sequences": [\n' + rows + "\n]}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--ptxas", default="ptxas")
    parser.add_argument("--nvdisasm", default="nvdisasm")
    options = parser.parse_args()
    folder = ROOT / "configs" / "sequences"
    folder.mkdir(exist_ok=True)
    (folder / f"{options.target.rstrip('a')}.json").write_text(
        written(build(options.target, options.ptxas, options.nvdisasm))
    )


if __name__ == "__main__":
    main()
