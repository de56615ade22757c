"""What ptxas made of each program: the timed loop of every kernel in a cubin as SASS, with its control codes, and back
as PTX in issue order.

Needs `nvdisasm` (CUDA toolkit). Control codes (128-bit encoding of sm_70 and later, bits 105-121): S stall cycles
before the next instruction of the warp, Y yield hint, W / R the scoreboard that is freed when the result is written /
the operands are read, B the scoreboards waited for.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LABEL = re.compile(r"(\.L_x_\d+):")
FUNCTION = re.compile(r"\.text\.(\w+):")
INSTRUCTION = re.compile(r"\s+/\*[0-9a-f]{4,6}\*/\s+(.*?)\s*;?\s+/\* (0x[0-9a-f]{16}) \*/")
UPPER_HALF = re.compile(r"\s+/\* (0x[0-9a-f]{16}) \*/")
BRANCH = re.compile(r"BRA(?:\.\w+)* .*?`\((\.L_x_\d+)\)")


@dataclass(frozen=True)
class Instruction:
    text: str
    upper: int = 0
    """The upper 64 bits of the encoding."""
    lower: int = 0

    @property
    def opcode(self) -> str:
        """Without predicate and operands: "@!P0 BRA `(.L_x_1)" -> "BRA"."""
        return re.sub(r"^@!?U?P\w+ ", "", self.text).split()[0]

    @property
    def stall(self) -> int:
        return self.upper >> 41 & 15

    @property
    def yields(self) -> bool:
        """Whether it has the yield hint."""
        return not self.upper >> 45 & 1

    @property
    def cycles(self) -> int:
        """Cycles until the warp may issue the next instruction: with the yield hint at least two."""
        return max(self.stall, 2 if self.yields else 1)

    @property
    def awaited(self) -> tuple[int, ...]:
        """Scoreboards that it waits for."""
        return tuple(i for i in range(6) if self.upper >> 52 >> i & 1)

    @property
    def written(self) -> int | None:
        """The scoreboard that is freed when its result is there."""
        board = self.upper >> 46 & 7
        return None if board == 7 else board

    @property
    def freed(self) -> int | None:
        """The scoreboard that is freed when its registers have been read."""
        board = self.upper >> 49 & 7
        return None if board == 7 else board

    @property
    def control(self) -> str:
        write, read = self.upper >> 46 & 7, self.upper >> 49 & 7
        scoreboards = "".join(str(i) if i in self.awaited else "-" for i in range(6))
        yields = "Y" if self.yields else "-"
        return (
            f"B{scoreboards}:R{'-' if read == 7 else read}:W{'-' if write == 7 else write}:{yields}:S{self.stall:02d}"
        )

    def __str__(self) -> str:
        return f"{self.control} {self.text}"


def listings(cubin: Path, nvdisasm: str = "nvdisasm") -> dict[str, list[Instruction | str]]:
    """Instructions, and labels as strings, of every function in the cubin; empty where nvdisasm is missing."""
    if shutil.which(nvdisasm) is None:
        return {}
    text = subprocess.run([nvdisasm, "-c", "-hex", str(cubin)], capture_output=True, text=True, check=True).stdout
    functions: dict[str, list[Instruction | str]] = {}
    lines: list[Instruction | str] = []
    pending = ("", 0)
    for line in text.splitlines():
        if found := FUNCTION.match(line):
            lines = functions.setdefault(found.group(1), [])
        elif found := LABEL.match(line):
            lines.append(found.group(1))
        elif found := INSTRUCTION.match(line):
            pending = found.group(1), int(found.group(2), 16)
        elif pending[0] and (found := UPPER_HALF.match(line)):
            lines.append(Instruction(pending[0], int(found.group(1), 16), pending[1]))
            pending = ("", 0)
    return functions


def loops(lines: list[Instruction | str]) -> list[list[Instruction]]:
    """Every loop, from a label to the backward branch to it; left out: the fill of shared memory (has LDG), out-of-line
    paths for split warps."""
    place = {line: i for i, line in enumerate(lines) if isinstance(line, str)}
    found = []
    for i, line in enumerate(lines):
        branch = BRANCH.search(line.text) if isinstance(line, Instruction) else None
        if branch and place.get(branch.group(1), i) < i:
            body = [x for x in lines[place[branch.group(1)] : i + 1] if isinstance(x, Instruction)]
            names = {x.opcode.split(".")[0] for x in body}
            if len(body) > 1 and not names & {"LDG", "ENDCOLLECTIVE", "EXIT"}:
                found.append(body)
    return found


def opcode_counts(body: list[Instruction]) -> dict[str, int]:
    return dict(Counter(x.opcode for x in body))


# ------------------------------------------------------------------------------------------------------ SASS -> trace
# text

SKIPPED = {"NOP", "WARPSYNC", "ISETP", "UISETP", "PLOP3", "BRA", "UIADD3", "VIADD", "LDC"}
"""Loop counter, its end reloaded, branch and padding: what a trace's `.repeat` stands for."""

KINDS = {
    "alu": (
        "LOP3",
        "SHF",
        "IADD3",
        "SEL",
        "PRMT",
        "ISETP",
        "PLOP3",
        "F2FP",
        "LEA",
        "VIADD",
        "MOV",
        "SGXT",
        "BMSK",
        "VIMNMX",
        "I2IP",
    ),
    "imad": ("IMAD", "HADD2"),
    "float": ("FADD", "HFMA2", "FFMA", "FMUL"),
    "shuffle": ("SHFL",),
    "call": ("CALL",),
    "return": ("RET",),
}
"""The families of instructions, by how they are timed."""
MATRICES = ("HMMA", "IMMA")
SHAPES = {
    "1684": (16, 8, 4),
    "1688": (16, 8, 8),
    "16816": (16, 8, 16),
    "16832": (16, 8, 32),
    "16864": (16, 8, 64),
    "8816": (8, 8, 16),
}


def _registers(operand: str, count: int) -> str:
    found = re.match(r"R(\d+)", operand)
    first = int(found.group(1)) if found else -1
    if first < 0:
        raise ValueError(operand)
    return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"


def _one(operand: str) -> str:
    return _registers(operand, 1)[1:-1]


def _mma(name: str, operands: list[str]) -> str:
    parts = name.split(".")
    sparse = parts[1] == "SP"
    m, n, k = SHAPES[parts[2 if sparse else 1]]
    types = parts[3 if sparse else 2 :]
    if parts[0] == "IMMA":
        a = b = types[0].lower()
        d, bits = "s32", 8
    else:
        d, bits = types[0].lower(), 16
        a = b = types[1].lower() if len(types) > 1 else "f16"
        bits = 32 if a == "tf32" else 16
    nd, na, nb = (
        m * n * (16 if d == "f16" else 32) // 1024,
        m * k // (2 if sparse else 1) * bits // 1024,
        n * k * bits // 1024,
    )
    opcode = f"mma{'.sp::ordered_metadata' if sparse else ''}.sync.aligned.m{m}n{n}k{k}.row.col.{d}.{a}.{b}.{d}"
    text = [
        _registers(operands[0], nd),
        _registers(operands[1], na),
        _registers(operands[2], nb),
        _registers(operands[3], nd),
    ]
    return f"{opcode} {', '.join(text)}" + (f", {_one(operands[4])}, {operands[5]};" if sparse else ";")


def _address(operand: str) -> str:
    found = re.fullmatch(r"\[R(\d+)(?:\+(-?0x[0-9a-f]+))?\]", operand)
    if not found:
        raise ValueError(operand)
    return f"[%r{found.group(1)}+{int(found.group(2), 16)}]" if found.group(2) else f"[%r{found.group(1)}]"


def kept(x: Instruction) -> bool:
    """Whether it is a statement of the trace text."""
    operands = [o.strip() for o in x.text.split(x.opcode, 1)[1].split(",")]
    counter = x.opcode == "IADD3" and operands[0] == operands[1] and operands[2:] == ["0x1", "RZ"]
    return not counter and x.opcode.split(".")[0] not in SKIPPED


def boards(body: list[Instruction]) -> list[list[int]]:
    """For each statement of the trace text the scoreboard that tells when its registers have been read and the one that
    tells when its values are there, or -1, and the scoreboards that it waits for, itself or by instructions before it
    that are no statements; as the last those that the end of the loop waits for, behind twice -1."""
    found: list[list[int]] = []
    carried: set[int] = set()
    for x in body:
        carried |= {*x.awaited}
        if kept(x):
            own = (-1 if board is None else board for board in (x.freed, x.written))
            found.append([*own, *sorted(carried)])
            carried = set()
    return [*found, [-1, -1, *sorted(carried)]]


def stalls(body: list[Instruction]) -> list[int]:
    """For each statement of the trace text the cycles from its issue until the warp may issue the next, as the machine
    code has them; one entry more for the branch.

    Instructions that are no statements (the loop's counter, NOPs) count for the statement before them; those in front
    of the first, for the last.
    """
    found: list[int] = []
    ahead = 0
    for x in body[:-1]:
        if kept(x):
            found.append(x.stall)
        elif found:
            found[-1] += x.cycles
        else:
            ahead += x.cycles
    return [*found[:-1], found[-1] + ahead, body[-1].stall]


def hints(body: list[Instruction]) -> list[list[int]]:
    """For each statement of the trace text 1 if it has the yield hint (else 0), and for each instruction behind it that
    is no statement twice the cycles between the two, and 1 if that one has the hint."""
    yields = [x.yields for x in body if kept(x)]
    return [[int(hint), *(code for code, _ in behind)] for hint, behind in zip(yields, _behind(body), strict=True)]


def counter(body: list[Instruction]) -> list[list[list[Any]]]:
    """For each statement of the trace text those of its `hints` that belong to integer instructions, which are the
    addition and the comparison of the loop's counter: the hint, and `pipe_and_slots`. Those of the uniform datapath are
    none."""
    return [
        [[code, *pipe_and_slots(x)] for code, x in behind if x.opcode.split(".")[0] in ("VIADD", "IADD3", "ISETP")]
        for behind in _behind(body)
    ]


def pipe_and_slots(x: Instruction) -> list[Any]:
    """The pipe of a matrix or integer instruction ("tensor"; "alu", or "compare" if it writes but a predicate; "fma"),
    and the registers that it reads (`slots`); nothing for any other."""
    family = x.opcode.split(".")[0]
    pipes = dict.fromkeys(MATRICES, "tensor") | {"ISETP": "compare"} | dict.fromkeys(("IMAD", "VIADD"), "fma")
    pipe = pipes.get(family, "alu" if family in KINDS["alu"] else "")
    return [pipe, slots(x)] if pipe else []


NO_C = [3, 255, 0]
"""What `slots` says of a matrix instruction that adds to nothing."""


def slots(x: Instruction) -> list[list[int]]:
    """The registers that a matrix, integer or float instruction reads: slot, number, and 1 if the next need not read it
    again. Of a matrix instruction the first of A and of B, and that of metadata; then `NO_C`, if C is RZ."""
    family = x.opcode.split(".")[0]
    operands = [o.strip() for o in x.text.split(x.opcode, 1)[1].split(",")]
    if family in MATRICES:
        found = [operands[place] for place in (1, 2, *((4,) if ".SP" in x.opcode else ()))]
        first = [[slot, int(text[1:].split(".")[0]), int(".reuse" in text)] for slot, text in enumerate(found)]
        return [*first, *([NO_C] if operands[3] == "RZ" else [])]
    if not any(family in KINDS[kind] for kind in ("alu", "imad", "float")):
        return []
    operands = operands[2 if family in ("ISETP", "PLOP3") else 1 :]
    if family == "HFMA2" and len(operands) == 4:  # two immediates are one operand
        del operands[1]
    places = {"FADD": (0, 2), "HADD2": (0, 2), "F2FP": (1, 2), "MOV": (1,)}.get(family, (0, 1, 2, 3))
    read = [
        (slot, re.match(r"[-~|!]*R(\d+)", text), ".reuse" in text) for slot, text in zip(places, operands, strict=False)
    ]
    return [[slot, int(found[1]), int(reuse)] for slot, found, reuse in read if found]


def _behind(body: list[Instruction]) -> list[list[tuple[int, Instruction]]]:
    """For each statement of the trace text the instructions behind it that are no statements: twice the cycles between
    the two, and 1 if it has the yield hint."""
    found: list[list[tuple[int, Instruction]]] = []
    since = 0
    for x in body:
        if kept(x):
            found.append([])
            since = 0
        elif found:
            found[-1].append((2 * since + x.yields, x))
        since += x.cycles
    return found


def trace_text(body: list[Instruction]) -> tuple[list[str], dict[str, list[int]]] | None:
    """A loop body as PTX statements in issue order, on SASS register numbers; and which registers are addresses of
    which instruction.

    None where the body has an instruction that this small translator does not know (constants in registers, 3-input
    additions, ...).
    """
    lines: list[str] = []
    addresses: dict[str, list[int]] = {}
    for x in body:
        name = x.opcode
        family = name.split(".")[0]
        operands = [o.strip().removesuffix(".reuse") for o in x.text.split(name, 1)[1].split(",")]
        vector = {"": "", "64": ".v2", "128": ".v4"}[
            name.split(".")[-1] if name.split(".")[-1] in ("64", "128") else ""
        ]
        width = {"": 1, ".v2": 2, ".v4": 4}[vector]
        try:
            if not kept(x):
                continue
            if family in ("HMMA", "IMMA"):
                lines.append(_mma(name, [re.sub(r"\.(reuse|ROW|COL)", "", o) for o in operands]))
            elif family == "LDSM":
                count = int(name.split(".")[-1]) if name.split(".")[-1] in ("2", "4") else 1
                transposed = ".trans" if "MT88" in name else ""
                lines.append(
                    f"ldmatrix.sync.aligned.m8n8.x{count}{transposed}.shared.b16 "
                    f"{_registers(operands[0], count)}, {_address(operands[1])};"
                )
            elif family == "LDS":
                target = _registers(operands[0], width) if vector else _one(operands[0])
                lines.append(f"ld.shared{vector}.b32 {target}, {_address(operands[1])};")
            elif family == "STS":
                source = _registers(operands[1], width) if vector else _one(operands[1])
                lines.append(f"st.shared{vector}.b32 {_address(operands[0])}, {source};")
            elif family == "BAR":
                lines.append("bar.sync 0;")
            elif name == "IMAD.IADD" and operands[2] == "0x1":
                lines.append(f"add.s32 {_one(operands[0])}, {_one(operands[1])}, {_one(operands[3])};")
            elif name == "IADD3" and operands[3] == "RZ":
                lines.append(f"add.s32 {_one(operands[0])}, {_one(operands[1])}, {_one(operands[2])};")
            elif name == "IMAD":
                lines.append(f"mad.lo.s32 {', '.join(map(_one, operands[:4]))};")
            elif name == "MOV" or (name == "IMAD.MOV.U32" and operands[1:3] == ["RZ", "RZ"]):
                lines.append(f"mov.b32 {_one(operands[0])}, {_one(operands[-1])};")
            else:
                return None
        except (ValueError, KeyError):
            return None
        if family in ("LDSM", "LDS", "STS"):
            register = int(re.search(r"\[%r(\d+)", lines[-1]).group(1))  # type: ignore[union-attr]
            addresses.setdefault(family, [])
            if register not in addresses[family]:
                addresses[family].append(register)
    return lines, addresses
