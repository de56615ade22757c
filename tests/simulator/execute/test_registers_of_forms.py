"""Registers of every declared type in every operand of every instruction of a thread: the decoder takes those that
ptxas 13.0 takes (`tests.golden.make_ptxas_registers`), and those of unlike widths give the same result."""

from __future__ import annotations

import csv
import gzip
import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np

import isa
import simulator
from isa.ptx.instruction import Declared
from tests.golden.make_ptxas_registers import DECLARATIONS, TABLE, TYPES, VERSION, written
from tests.support.cases import exhaustive, step

DECLARED = {f"%{kind}_{number}": kind for kind in TYPES for number in range(256)}
WIDE = "b128"  # registers that are not executed: modules that use one are refused as a whole
_RANDOM = re.compile(r"\.v8\.|\.v4\.[bsuf]64")  # loads of 256 bits by an address in 16 bits: ptxas answers by chance


class Operand(NamedTuple):
    """An instruction with `@` in the place of registers, its target, and the types that ptxas takes there."""

    text: str
    target: str
    types: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.text.split(".", 1)[0]

    @property
    def kinds(self) -> list[str]:
        """The types in the opcode."""
        return re.findall(r"(?<=\.)(?:[bsuf]\d+(?:x2)?|bf16(?:x2)?)(?=[. ])", self.text.split(",")[0])


@lru_cache(maxsize=1)
def operands() -> list[Operand]:
    """The rows of the table whose verdicts hold."""
    with gzip.open(TABLE, "rt", newline="") as file:
        rows = [Operand(row["ptx"], row["target"], tuple(row["types"].split())) for row in csv.DictReader(file)]
    by_chance = [row for row in rows if _RANDOM.search(row.text) and ("[%rs" in row.text or "[@" in row.text)]
    # texts that are legal beside a call alone, and bulk copies, which are not read in full
    return [row for row in rows if row.types and row not in by_chance and not row.text.startswith("cp.async.bulk")]


def takes(row: Operand, kind: str) -> bool:
    try:
        isa.decode(written(row.text, kind), row.target, VERSION, DECLARED)
    except isa.IsaError:
        return False
    return True


def slips(row: Operand) -> set[str]:
    """Types that ptxas takes by mistake: f16x2 for a predicate, and predicates for 32 bits of no type."""
    return ({"f16x2"} if "pred" in row.types else set()) | ({"pred"} if "b32" in row.types else set())


@exhaustive
def test_types_of_registers_as_ptxas_has_them() -> None:
    """51,635 verdicts, in both directions; by default those of each fourth row."""
    wrong = [
        f"{row.text} with {kind}"
        for row in operands()[:: step(4)]
        for kind in TYPES
        if kind != WIDE and kind not in slips(row) and takes(row, kind) != (kind in row.types)
    ]
    assert not wrong


def test_a_kernel_is_judged_by_its_declarations() -> None:
    """What ptxas 13.0 says of each: it refuses f32 registers in integer sums, whatever they are called."""
    head = ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k() {\n"
    for declarations, text, legal in (
        (".reg .f32 %f<4>;", "add.s32 %f1, %f2, %f3;", False),
        (".reg .f32 %r<4>;", "add.s32 %r1, %r2, %r3;", False),
        (".reg .f32 a, b;", "add.f32 a, a, b;", True),
        (".reg .s32 a, b;", "add.f32 a, a, b;", False),
        (".reg .b32 %f<4>;", "add.s32 %f1, %f2, %f3;", True),
        (".reg .u32 a; .reg .b32 b;", "add.s32 a, a, b;", True),
        (".reg .f64 a; .reg .b64 b;", "add.u64 b, b, a;", False),
        (".reg .f16 a; .reg .b16 b;", "add.f16 b, b, a;", True),
        (".reg .u16 a; .reg .b16 b;", "add.f16 b, b, a;", False),
        (".reg .f32 a; .reg .b32 b;", "mov.b32 b, a; shl.b32 a, a, 2;", True),
        (".reg .f32 a; .reg .b32 b;", "mov.u32 b, a;", False),
    ):
        kernel = simulator.Module(f"{head}{declarations}\n{text}\nret;\n}}\n").get_function("k")
        try:
            kernel(1, 1, ())
            taken = True
        except simulator.Error:
            taken = False
        assert taken is legal, (declarations, text)


# Results


PLACE = 64  # in shared memory: an address that 8 bits hold
_BRACKETS = re.compile(r"\[[^\]]*\]")
_BITS = {"f16x2": 32, "bf16x2": 32, "bf16": 16}
EXECUTED = ("ld", "st", "cvt", "ldmatrix", "stmatrix", "atom", "red", "cp")
SPACES = re.compile(r"\.shared(?:::\w+)?\b")


def width(kind: str) -> int:
    return Declared(kind).width


def compared() -> list[Operand]:
    """One of each sort of operand that takes registers of unlike widths and that a launch executes: of accesses, those
    to shared memory, whose addresses fit in every register."""
    found: dict[object, Operand] = {}
    for row in operands():
        unlike = {width(kind) for kind in row.types if kind not in {*slips(row), WIDE}}
        access = "[" in row.text
        if len(unlike) < 2 or row.name not in EXECUTED or (access and not SPACES.search(row.text)):
            continue
        if row.name == "cp" and ("global [@" not in row.text or "mbarrier" in row.text):
            continue
        if "shared::cluster" in row.text or row.target not in ("sm_80", "sm_90a", "sm_100a"):
            continue
        before, _, behind = row.text.partition("@")
        sort = (row.text.split(".", 1)[0], tuple(row.kinds), "[" in before[-1:], before.count(","), behind.count("@"))
        found.setdefault(sort, row)
    return list(found.values())


def instructions(row: Operand, kind: str, number: int) -> str:
    """PTX that executes an instruction with a register of a type, and stores what it left: in the register, or in
    another destination, and in shared memory."""
    text, bits = written(row.text, kind), width(kind)
    address = bool(re.search(r"\[@", row.text))
    text = re.sub(r"\[%(?!\w*_)\w+(?:\+\d+)?\]", "[glo]" if row.name == "cp" and ".global" in text else "[place]", text)
    if row.name == "cp":
        text = f"cp.async{text[8:]}".replace("[glo], [glo]", "[place], [glo]")
    value = PLACE if address else 0x7FFF3C013C213C25 & (1 << bits) - 1
    one = f"cvt.u8.u32 %{kind}_0, {value};" if bits == 8 else f"mov.b{bits} %{kind}_0, {value};"
    others = "".join(re.sub("_0,", f"_{n},", one) for n in range(1, row.text.count("@")))
    d = re.search(r"^\S+ \{?(%\w+)", text)
    shown = ""
    if d is not None:
        sort = DECLARED.get(
            d[1], {"%rs": "b16", "%r": "b32", "%rd": "b64", "%b": "b8"}.get(d[1].rstrip("0123456789"), "")
        )
        copies = {
            8: "cvt.u64.u8 %rd250, {0};", 16: "mov.b16 %rs250, {0}; cvt.u64.u16 %rd250, %rs250;",
            32: "mov.b32 %r250, {0}; cvt.u64.u32 %rd250, %r250;", 64: "mov.b64 %rd250, {0};",
        }  # fmt: skip
        shown = copies[width(sort)].format(d[1])
    return (
        f"mov.u64 %rd250, 0; mov.u64 %rd251, 0x8070605040302010; st.shared.v2.u64 [place], {{%rd251, %rd250}};"
        f"{one}{others}{text}{shown}"
        + ("cp.async.wait_all;" if row.name == "cp" else "")
        + f"ld.shared.v2.u64 {{%rd252, %rd253}}, [place];"
        f"st.global.u64 [%rd254+{24 * number}], %rd250; st.global.v2.u64 [%rd255+{16 * number}], {{%rd252, %rd253}};\n"
    )


def extended(row: Operand, low: int, bits: int) -> int:
    """A result of the type that an instruction writes, in a register of so many bits, as 64 bits."""
    kind = "u32" if row.text.startswith("cvt.pack") else row.kinds[0]
    own = _BITS.get(kind) or int(kind[1:])
    low &= (1 << own) - 1
    negative = kind[0] == "s" and low >> own - 1 and bits > own
    return (low | -1 << own) & (1 << bits) - 1 if negative else low


@exhaustive
def test_registers_of_unlike_widths_give_the_same_result() -> None:
    rows = compared()
    cases = [(row, kind) for row in rows for kind in row.types if kind not in {*slips(row), WIDE}]
    text = "".join(instructions(row, kind, number) for number, (row, kind) in enumerate(cases))
    head = (
        ".version 9.0\n.target sm_100a\n.address_size 64\n.global .align 16 .b8 glo[64];\n"
        ".visible .entry k(.param .u64 R, .param .u64 M) {\n.shared .align 128 .b8 first[64];\n"
        ".shared .align 16 .b8 place[1024];\n.reg .b8 %b<256>; .reg .b16 %rs<256>; .reg .b32 %r<256>;\n"
        ".reg .b64 %rd<256>; .reg .pred %p<256>;\n"
    )
    module = head + DECLARATIONS.replace(".reg .b128 %b128_<256>;\n", "")
    module += f"ld.param.u64 %rd254, [R]; ld.param.u64 %rd255, [M];\n{text}ret;\n}}\n"
    registers, memory = np.zeros((len(cases), 3), np.uint64), np.zeros((len(cases), 2), np.uint64)
    simulator.Module(module).get_function("k")(1, 32, (registers, memory))
    first: dict[Operand, int] = {}
    wrong = []
    for number, (row, kind) in enumerate(cases):
        usual = first.setdefault(row, number)
        low = int(registers[usual, 0])
        own = re.search(r"^\S+ \{?@", row.text) is not None
        expected = extended(row, low, width(kind)) if own else low
        if int(registers[number, 0]) != expected or (memory[number] != memory[usual]).any():
            wrong.append(f"{row.text} with {kind}: {int(registers[number, 0]):#x}, not {expected:#x}")
    assert not wrong
    assert len(rows) > 50
