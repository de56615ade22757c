"""The registers that a machine instruction reads and writes, by number: 0 to 254 are those of the threads, then come
those of the warp (UR), predicates (P) and predicates of the warp (UP).

How many registers an operand stands for follows from the opcode; read from the machine code of ptxas 13.0 (sm_80,
sm_90a), November 2026.
"""

from __future__ import annotations

import re

from simulator.program.sass.listing import Instruction

UNIFORM, PREDICATE, UNIFORM_PREDICATE = 256, 320, 328
COUNT = 336
_FIRST = {"R": 0, "UR": UNIFORM, "P": PREDICATE, "UP": UNIFORM_PREDICATE}
_NAME = re.compile(r"(?<![\w.])(UR|UP|R|P)(\d+)\b(\.64)?")
_PREDICATES = re.compile(r"U?P(T|\d+)")
_NOTHING_WRITTEN = frozenset(
    [
        "ST",
        "STG",
        "STS",
        "STL",
        "RED",
        "REDG",
        "REDS",
        "LDGSTS",
        "BAR",
        "BRA",
        "BRX",
        "JMP",
        "EXIT",
        "RET",
        "CALL",
        "BSSY",
        "BSYNC",
        "BREAK",
        "NOP",
        "WARPSYNC",
        "MEMBAR",
        "DEPBAR",
        "LDGDEPBAR",
        "ERRBAR",
        "CCTL",
        "CCTLL",
        "NANOSLEEP",
        "YIELD",
        "KILL",
        "UTMALDG",
        "UTMASTG",
        "FENCE",
        "ARRIVES",
        "SYNCS",
    ]
)
_ACCESSES = frozenset(
    ["LD", "LDG", "LDS", "LDL", "LDC", "ULDC", "ST", "STG", "STS", "STL", "ATOM", "ATOMG", "ATOMS", "RED", "REDG"]
)
_DOUBLES = frozenset(["DADD", "DMUL", "DFMA", "DSETP", "DMNMX"])
_MATRICES = {  # registers of D, A, B, C; per shape of an instruction whose elements of D have 32 bits
    "1688": (4, 2, 1, 4), "16816": (4, 4, 2, 4), "16832": (4, 4, 2, 4), "16864": (4, 4, 2, 4), "1684": (4, 2, 1, 4),
    "8816": (2, 1, 1, 2), "884": (2, 1, 1, 2), "16128": (4, 2, 1, 4), "16256": (4, 4, 2, 4),
}  # fmt: skip


def registers(instruction: Instruction) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(registers that it reads, registers that it writes), without duplicates."""
    operands = instruction.operands
    written = _written(instruction)
    sizes = _sizes(instruction, len(operands))
    writes = [n for operand, size in zip(operands[:written], sizes, strict=False) for n in _numbers(operand, size)]
    reads = [
        n for operand, size in zip(operands[written:], sizes[written:], strict=True) for n in _numbers(operand, size)
    ]
    reads += _numbers(instruction.guard.lstrip("@!"), 1)
    if instruction.guard:
        reads += writes  # threads whose predicate is false keep what was there
    return tuple(dict.fromkeys(reads)), tuple(dict.fromkeys(writes))


def _written(instruction: Instruction) -> int:
    """How many of the first operands are results."""
    operands, name = instruction.operands, instruction.name
    if name in _NOTHING_WRITTEN or not operands:
        return 0
    if name in ("VOTE", "VOTEU"):
        return 2 if operands[0].lstrip("U")[0] in "R" and len(operands) > 2 else 1
    count = 1
    if _PREDICATES.fullmatch(operands[0]):  # a comparison, or a result behind a predicate
        compares = name.lstrip("U") in ("ISETP", "FSETP", "DSETP", "HSETP2", "PLOP3", "PSETP", "LDC", "FCHK")
        return 2 if compares or not _PREDICATES.fullmatch(operands[1]) else 1
    for operand in operands[1:3]:  # carries
        if not _PREDICATES.fullmatch(operand) or name in ("SEL", "USEL", "FSEL", "FMNMX", "VIMNMX", "IMNMX"):
            break
        if name not in ("IADD3", "UIADD3", "LEA", "ULEA", "IMAD", "SHFL"):
            break
        count += 1
    return count if count < len(operands) else 1


def _sizes(instruction: Instruction, count: int) -> list[int]:
    """How many registers each operand stands for, memory's addresses apart."""
    name, parts = instruction.name, instruction.opcode.split(".")
    sizes = [1] * count
    if name in ("HMMA", "IMMA", "QMMA", "BMMA"):
        sparse = "SP" in parts
        shape = next((part for part in parts[1:] if part in _MATRICES), "16816")
        d, a, b, c = _MATRICES[shape]
        if sparse:
            b *= 2
        half = (d // 2, c // 2) if parts[-1] == "F16" else (d, c)
        return ([half[0], a, b, half[1]] + [1] * count)[:count]
    if name == "DMMA":
        return ([4, 2, 1, 4] + [1] * count)[:count]
    if name == "LDSM":
        sizes[0] = int(parts[-1]) if parts[-1].isdecimal() else 1
        return sizes
    words = 4 if "128" in parts else 2 if "64" in parts else 1
    if name in _ACCESSES:
        return [words if "[" not in operand else 1 for operand in instruction.operands]
    if name == "CS2R":
        sizes[0] = 1 if "32" in parts else 2
    elif "WIDE" in parts:
        sizes[0] = 2
        sizes[-1] = 1 if _PREDICATES.search(instruction.operands[-1].lstrip("!")) else 2
    elif name in _DOUBLES:
        sizes = [2] * count
    elif name in ("F2F", "I2F", "F2I", "MUFU") and parts[1:2] == ["F64"]:
        sizes[0] = 2
    return sizes


def _numbers(operand: str, size: int) -> list[int]:
    found: list[int] = []
    for sort, number, double in _NAME.findall(operand):
        width = 2 if double else size if "[" not in operand and sort in ("R", "UR") else 1
        found += range(_FIRST[sort] + int(number), _FIRST[sort] + int(number) + width)
        if "desc[" in operand and sort == "UR" and not double:
            found.append(_FIRST[sort] + int(number) + 1)
    return found
