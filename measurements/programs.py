"""Timing programs for one SM of an NVIDIA GPU, as data, and the PTX generated from them.

A `Program` is one timed loop: the statements of its body in trace syntax (`%rN` registers, 32 lanes), what the
registers and shared memory hold before it, and how many instructions of interest one iteration has. `ptx_module` wraps
a list of them into kernels `NAME(in, shared, sink, start, stop, iterations)` of one CTA that time ONE run of the loop;
`measure_loops.py` launches each with two iteration counts and subtracts.

ptxas optimises PTX, so every body is written so that nothing in it can be folded, merged, hoisted or dropped: operands
are loaded at run time, results are live after the loop, independent loads go to registers of their own, and operands of
emulated instructions change in every copy (`fresh`). `sass.py` lists what really became of each body.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint32]

WARPS = (1, 2, 4, 5, 8, 12, 16, 32)
"""Warps of the CTA; warp w runs on sub-core w mod 4."""

SHARED_BYTES = 16384
TABLE_REGISTERS = 160
"""Rows of the table of initial register values that every kernel reads."""

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "e4m3": 8, "e5m2": 8}
LANES = np.arange(32, dtype=np.uint32)

ZERO, ONE_E = 0, 0x44444444
DATA = 0x2C2C2C2C
"""Small positive numbers in f16, bf16 and the 8-bit formats, non-zero in all."""


# ---------------------------------------------------------------------------------------------------------------- forms


@dataclass(frozen=True)
class Form:
    """One shape and type combination of `mma` or `mma.sp`; register counts follow from the sizes."""

    m: int
    n: int
    k: int
    d: str
    a: str
    b: str
    sparse: bool = False
    satfinite: bool = False
    ordered: bool = True

    @property
    def opcode(self) -> str:
        sparse = (".sp::ordered_metadata" if self.ordered else ".sp") if self.sparse else ""
        saturate = ".satfinite" if self.satfinite else ""
        shape, types = f"m{self.m}n{self.n}k{self.k}", f"{self.d}.{self.a}.{self.b}.{self.d}"
        return f"mma{sparse}.sync.aligned.{shape}.row.col{saturate}.{types}"

    @property
    def na(self) -> int:
        return self.m * self.k // (2 if self.sparse else 1) * BITS[self.a] // 1024

    @property
    def nb(self) -> int:
        return self.k * self.n * BITS[self.b] // 1024

    @property
    def nd(self) -> int:
        return self.m * self.n * (16 if self.d == "f16" else 32) // 1024

    @property
    def name(self) -> str:
        kind = ("spo" if self.ordered else "sp") if self.sparse else "mma"
        return f"{kind}_m{self.m}n{self.n}k{self.k}_{self.d}_{self.a}_{self.b}" + ("_sat" if self.satfinite else "")

    @property
    def emulated(self) -> bool:
        """Whether sm_90 has no such instruction and ptxas writes a sequence or a call for it."""
        return BITS[self.a] == 4 or self.a in ("e4m3", "e5m2")

    def text(self, d: int, a: int, b: int, c: int, e: int) -> str:
        operands = [group(d, self.nd), group(a, self.na), group(b, self.nb), group(c, self.nd)]
        return f"{self.opcode} {', '.join(operands)}" + (f", %r{e}, 0x0;" if self.sparse else ";")


def group(first: int, count: int) -> str:
    """A register list in braces, also for a single register."""
    return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"


EMULATED = (
    *(Form(16, 8, 64, "f32", a, b, sparse=True) for a, b in (("e4m3", "e4m3"), ("e5m2", "e5m2"), ("e4m3", "e5m2"))),
    Form(16, 8, 64, "f32", "e4m3", "e4m3", sparse=True, ordered=False),
    *(
        Form(16, 8, k, "s32", a, b, sparse=True)
        for k in (64, 128)
        for a, b in (("s4", "s4"), ("u4", "u4"), ("s4", "u4"))
    ),
    *(Form(16, 8, k, "s32", "s4", "s4", sparse=True, satfinite=True) for k in (64, 128)),
    Form(16, 8, 128, "s32", "s4", "s4", sparse=True, ordered=False),
    *(Form(16, 8, k, d, "e4m3", "e4m3") for k in (16, 32) for d in ("f16", "f32")),
    Form(16, 8, 32, "f32", "e5m2", "e5m2"),
    *(Form(m, 8, k, "s32", a, a) for m, k in ((8, 32), (16, 32), (16, 64)) for a in ("s4", "u4")),
)

SPARSE_FULL = Form(16, 8, 32, "f32", "f16", "f16", sparse=True)
SPARSE_SMALL = Form(16, 8, 16, "f32", "f16", "f16", sparse=True)
DENSE_FULL = Form(16, 8, 16, "f32", "f16", "f16")
DENSE_SMALL = Form(16, 8, 8, "f32", "f16", "f16")
NATIVE = (
    Form(8, 8, 16, "s32", "s8", "s8"),
    Form(8, 8, 16, "s32", "u8", "u8"),
    DENSE_SMALL,
    DENSE_FULL,
    SPARSE_SMALL,
    SPARSE_FULL,
    Form(16, 8, 32, "f16", "f16", "f16", sparse=True),
    Form(16, 8, 64, "s32", "s8", "s8", sparse=True),
)


# ------------------------------------------------------------------------------------------------------------- programs


@dataclass(frozen=True)
class Part:
    """The loop body that warps `first`..`last` (last None: to the end of the CTA) run."""

    body: tuple[str, ...]
    first: int = 0
    last: int | None = None


@dataclass(frozen=True)
class Program:
    """One timed loop.

    `count` instructions of interest an iteration; `initial`: register number -> value of each lane (uint32 [32]), zero
    if absent; `addresses`: registers among them that hold addresses relative to the start of shared memory; `image`:
    what shared memory holds (`IMAGES`); `live`: registers read after the loop; `labels`: what distinguishes the program
    in its group, one CSV column each; `sub_cores`: warps of others (w mod 4) leave the loop out.
    """

    name: str
    group: str
    instruction: str
    count: int
    parts: tuple[Part, ...]
    live: tuple[int, ...]
    initial: dict[int, Words] = field(default_factory=dict)
    addresses: frozenset[int] = frozenset()
    image: str = "data"
    labels: dict[str, int | str] = field(default_factory=dict)
    warps: tuple[int, ...] = WARPS
    counter: str = "vector"
    sub_cores: tuple[int, ...] = (0, 1, 2, 3)

    @property
    def registers(self) -> int:
        """How many %r registers to declare."""
        text = " ".join(line for part in self.parts for line in part.body)
        return 1 + max((int(n) for n in re.findall(r"%r(\d+)", text)), default=0)


def lanes(value: int) -> Words:
    return np.full(32, value, dtype=np.uint32)


# ------------------------------------------------------------------------------------------------ what shared memory
# holds


def _self_words(pitch: int, base: int) -> Words:
    """Every word at lane * pitch bytes (and the words after it, up to the pitch or 16 bytes) points at lane * pitch."""
    image = np.zeros(SHARED_BYTES // 4, dtype=np.uint32)
    for lane in range(32):
        for word in range(min(pitch, 16) // 4):
            image[lane * pitch // 4 + word] = base + lane * pitch
    return image


def _rows(pitch: int, base: int, transposed: bool) -> Words:
    """Rows of 16 bytes for ldmatrix, row r of 32 at r * pitch: what lane l gets from each of the four matrices is the
    address of row l."""
    image = np.zeros(SHARED_BYTES // 4, dtype=np.uint32)
    halves = image.view(np.uint16)
    for matrix in range(4):
        for lane in range(32):
            g, t = divmod(lane, 4)
            row, column = (2 * t, g) if transposed else (g, 2 * t)  # of the low half; an address needs no high half
            halves[(8 * matrix + row) * pitch // 2 + column] = base + lane * pitch
    return image


def image(name: str, base: int) -> Words:
    """The words of shared memory; `base` is where the array starts, which every address in it includes."""
    if name in ("zeros", "data"):
        return np.full(SHARED_BYTES // 4, DATA if name == "data" else 0, dtype=np.uint32)
    kind, pitch = name.split(":")
    return _self_words(int(pitch), base) if kind == "self" else _rows(int(pitch), base, transposed=kind == "rows_trans")


# --------------------------------------------------------------------------------------------------------- the
# generators


def _form_initial(form: Form, a: Iterable[int], b: Iterable[int], e: int) -> dict[int, Words]:
    value = {**dict.fromkeys(a, lanes(DATA)), **dict.fromkeys(b, lanes(DATA))}
    return {**value, e: lanes(ONE_E)}


def mma_stream(form: Form, chains: int, fresh: str) -> Program:
    """`chains` independent accumulators in turn. fresh: which operands change before every copy by adding a zero: none,
    b, all."""
    a, b, e, zero, d0 = 0, 8, 16, 17, 20
    copies = max(chains, 4) if form.emulated else 96 // chains * chains
    changing = [*range(a, a + form.na), *([e] if form.sparse else [])] if fresh == "all" else []
    changing += [*range(b, b + form.nb)] if fresh in ("b", "all") else []
    body = []
    for i in range(copies):
        body += [f"add.s32 %r{r}, %r{r}, %r{zero};" for r in changing]
        d = d0 + form.nd * (i % chains)
        body.append(form.text(d, a, b, d, e))
    return Program(
        f"mma_{form.name}_c{chains}_{fresh}",
        "mma",
        form.opcode,
        copies,
        (Part(tuple(body)),),
        tuple(range(d0, d0 + form.nd * chains)),
        _form_initial(form, range(a, a + form.na), range(b, b + form.nb), e),
        labels={
            "chains": chains,
            "fresh": fresh,
            "adds_per_instruction": len(changing),
            "emulated": int(form.emulated),
        },
    )


def mma_programs() -> Iterator[Program]:
    for form in EMULATED:
        # A call (4-bit) cannot be merged or hoisted; an inline sequence (8-bit float) can, so its operands must change.
        kinds = ("none",) if BITS[form.a] == 4 else ("b", "all")
        for fresh in kinds:
            for chains in (1, 2, 4):
                yield mma_stream(form, chains, fresh)
    for form in NATIVE:
        for chains in (1, 2, 3, 4, 6, 8):
            yield mma_stream(form, chains, "none")
    for chains in (1, 4):
        yield mma_stream(SPARSE_FULL, chains, "all")


def operand_programs() -> Iterator[Program]:
    """A result used as each operand of the next mma, directly and through one addition."""
    a, b, e, zero, c, d0, d1 = 0, 8, 16, 17, 20, 24, 28
    for form in (SPARSE_FULL, SPARSE_SMALL, DENSE_FULL, DENSE_SMALL, Form(16, 8, 64, "s32", "s8", "s8", sparse=True)):
        initial = _form_initial(form, range(a, a + form.na), range(b, b + form.nb), e)
        for operand in ("a", "b", "c", "e") if form.sparse else ("a", "b", "c"):
            body = []
            for i in range(48):
                d, previous = (d0, d1) if i % 2 else (d1, d0)
                place = {"a": a, "b": b, "c": c, "e": e} | {operand: previous}
                body.append(form.text(d, place["a"], place["b"], place["c"], place["e"]))
            yield Program(
                f"operand_{form.name}_{operand}",
                "operand",
                form.opcode,
                48,
                (Part(tuple(body)),),
                tuple(range(d0, d1 + 4)),
                initial,
                labels={"chain": f"mma -> mma operand {operand}"},
                warps=(1, 4),
            )
    form = SPARSE_FULL
    initial = _form_initial(form, range(a, a + form.na), range(b, b + form.nb), e)
    for operand, target in (("a", a), ("b", b), ("c", c), ("e", e)):
        pair = [form.text(d0, a, b, c, e), f"add.s32 %r{target}, %r{d0}, %r{zero};"]
        yield Program(
            f"operand_alu_{operand}",
            "operand",
            form.opcode,
            32,
            (Part(tuple(pair * 32)),),
            (d0, d0 + 1, d0 + 2, d0 + 3, target),
            initial,
            labels={"chain": f"mma -> add -> mma operand {operand}"},
            warps=(1, 4),
        )
    # A = 0, so D = C: C holds addresses (tiny f32 numbers, which the tensor core keeps), D is one, and what is loaded
    # there is A or e.
    loads = {
        "ld.shared.b32 -> mma operand a": _load("ld.shared.b32", a, f"%r{d0}"),
        "ld.shared.b32 -> mma operand b": _load("ld.shared.b32", b, f"%r{d0}"),
        "ld.shared.b32 -> mma operand e": _load("ld.shared.b32", e, f"%r{d0}"),
        "ld.shared.v4 -> mma operand a": _load("ld.shared.v4.b32", a, f"%r{d0}"),
        **{
            f"ldmatrix.x{x} -> mma operand a": _load(f"ldmatrix.sync.aligned.m8n8.x{x}.shared.b16", a, f"%r{d0}")
            for x in (1, 2, 4)
        },
        "ldmatrix.x4 -> mma operand b": _load("ldmatrix.sync.aligned.m8n8.x4.shared.b16", b, f"%r{d0}"),
    }
    for i, (chain, load) in enumerate(loads.items()):
        addresses = LANES * np.uint32(4 if "shared.b32" in load else 16)  # no bank conflicts
        pair = [load, form.text(d0, a, b, c, e)]
        yield Program(
            f"operand_load{i}",
            "operand",
            load.split()[0].replace(".volatile", ""),
            16,
            (Part(tuple(pair * 16)),),
            tuple(range(d0, d0 + 4)),
            {e: lanes(ONE_E), c: addresses, d0: addresses},
            frozenset({c, d0}),
            "zeros",
            {"chain": chain + " -> address"},
            (1, 4, 8),
        )


def alu_programs() -> Iterator[Program]:
    """Chains of one integer or f32 operation each. Runtime operands %r40.. keep ptxas from folding; some PTX pairs
    become one IADD3."""
    # label: the statements that advance chain register {d} by one SASS instruction; {p}, {q} rotate over runtime
    # operands
    rows = {
        "IADD3 (two add.s32)": ("add.s32 %r{d}, %r{d}, %r{p};", "add.s32 %r{d}, %r{d}, %r{q};"),
        "IMAD (mad.lo.s32)": ("mad.lo.s32 %r{d}, %r{d}, %r{p}, %r{q};",),
        "SHF (shl.b32)": ("shl.b32 %r{d}, %r{d}, %r{p};",),
        "LOP3 (lop3.b32)": ("lop3.b32 %r{d}, %r{d}, %r{p}, %r{q}, 0x6a;",),
        "FADD (add.f32)": ("add.f32 %r{d}, %r{d}, %r{p};",),
        "FFMA (fma.rn.f32)": ("fma.rn.f32 %r{d}, %r{d}, %r{p}, %r{q};",),
    }
    for label, statements in rows.items():
        for chains in (1, 2, 4, 8):
            places = [
                {"d": d, "p": 40 + 2 * i % 8, "q": 41 + 2 * i % 8} for i in range(96 // chains) for d in range(chains)
            ]
            body = [text.format(**place) for place in places for text in statements]
            yield Program(
                f"alu_{label.split()[0].lower()}_c{chains}",
                "alu",
                label,
                96,
                (Part(tuple(body)),),
                tuple(range(chains)),
                {r: lanes(3 + r) for r in range(40, 48)},
                labels={"chains": chains},
            )
    for chains in (1, 4):
        body = [
            f"add.s32 %r{2 * d + i % 2}, %r{2 * d + i % 2}, %r{2 * d + 1 - i % 2};"
            for i in range(96 // chains)
            for d in range(chains)
        ]
        yield Program(
            f"alu_fibonacci_c{chains}",
            "alu",
            "IADD3 or IMAD.IADD (add.s32)",
            len(body),
            (Part(tuple(body)),),
            tuple(range(2 * chains)),
            {r: lanes(r + 1) for r in range(2 * chains)},
            labels={"chains": chains},
        )
        pair = ["setp.lt.s32 %p{d}, %r{d}, %r40;", "selp.b32 %r{d}, %r{x}, %r{y}, %p{d};"]
        body = [
            s.format(d=d, x=41 + i % 2, y=43 + i % 2) for i in range(48 // chains) for s in pair for d in range(chains)
        ]
        yield Program(
            f"alu_setp_selp_c{chains}",
            "alu",
            "ISETP + SEL (setp.lt.s32, selp.b32)",
            48,
            (Part(tuple(body)),),
            tuple(range(chains)),
            {r: lanes(r) for r in range(40, 46)},
            labels={"chains": chains},
        )
    for registers in (16, 32):
        body = [
            "mov.b32 %r99, %r0;",
            *(f"mov.b32 %r{r}, %r{r + 1};" for r in range(registers - 1)),
            f"mov.b32 %r{registers - 1}, %r99;",
        ]
        yield Program(
            f"alu_mov_rotate{registers}",
            "alu",
            "MOV or IMAD.MOV (mov.b32)",
            registers + 1,
            (Part(tuple(body)),),
            tuple(range(registers)),
            {r: lanes(r) for r in range(registers)},
            labels={"chains": registers},
        )


LOADS = {"ld.shared.b32": 1, "ld.shared.v2.b32": 2, "ld.shared.v4.b32": 4}
MATRICES = {f"ldmatrix.sync.aligned.m8n8.x{x}{t}.shared.b16": x for t in ("", ".trans") for x in (1, 2, 4)}


def _load(opcode: str, first: int, address: str) -> str:
    width = (LOADS | MATRICES)[opcode]
    text = opcode.replace(
        "ld.shared", "ld.volatile.shared"
    )  # plain loads would be hoisted out of the loop; the SASS is LDS either way
    return f"{text} {f'%r{first}' if opcode == 'ld.shared.b32' else group(first, width)}, [{address}];"


def _chase(opcode: str, pitch: int) -> Program:
    """Every load's address is the word that the load before it returned: no arithmetic in the chain."""
    kind = "self" if opcode in LOADS else "rows_trans" if ".trans" in opcode else "rows"
    short = opcode.replace(".sync.aligned.m8n8", "").replace(".shared", "").replace(".", "_")
    body = (_load(opcode, 0, "%r0"),) * 64
    return Program(
        f"shared_chase_{short}_p{pitch}",
        "shared",
        opcode,
        64,
        (Part(body),),
        tuple(range((LOADS | MATRICES)[opcode])),
        {0: LANES * np.uint32(pitch)},
        frozenset({0}),
        f"{kind}:{pitch}",
        {"kind": "chase", "pitch_bytes": pitch, "per_iteration": 64},
        (1, 2, 4, 5, 8, 16, 32),
    )


def _independent(opcode: str, pitch: int, loads: int, step: int) -> Program:
    """`loads` loads into registers of their own, all from one address register with different immediate offsets."""
    width = (LOADS | MATRICES)[opcode]
    short = opcode.replace(".sync.aligned.m8n8", "").replace(".shared", "").replace(".", "_")
    body = tuple(_load(opcode, width * i, f"%r100+{step * (i % 8)}" if i % 8 else "%r100") for i in range(loads))
    if opcode in MATRICES:  # equal loads would be merged
        body = tuple(_load(opcode, width * i, f"%r100+{16 * i}") for i in range(loads))
    return Program(
        f"shared_indep_{short}_p{pitch}_n{loads}",
        "shared",
        opcode,
        loads,
        (Part(body),),
        tuple(range(loads * width)),
        {100: LANES * np.uint32(pitch)},
        frozenset({100}),
        labels={"kind": "independent", "pitch_bytes": pitch, "per_iteration": loads},
        warps=(1, 2, 4, 5, 8, 12, 16, 32),
    )


def shared_programs() -> Iterator[Program]:
    for opcode, width in LOADS.items():
        yield _chase(opcode, 4 * width)
        for loads in (4, 8, 16, 32):
            if loads * width <= 96:
                yield _independent(opcode, 4 * width, loads, 512)
    for opcode, width in MATRICES.items():
        yield _chase(opcode, 16)
        for loads in (4, 8, 16, 32):
            if loads * width <= 96:
                yield _independent(opcode, 16, loads, 512)
    for ways in (2, 4, 8, 16, 32):  # lane i reads word i * ways: `ways` lanes in each bank that is used
        yield _chase("ld.shared.b32", 4 * ways)
        yield _independent("ld.shared.b32", 4 * ways, 16, 128)
    yield _independent("ld.shared.b32", 0, 16, 128)  # one word for all lanes
    for pitch in (16, 32, 64, 128):
        yield _independent("ld.shared.v2.b32", pitch, 16, 128)
    for pitch in (32, 64, 128):
        yield _independent("ld.shared.v4.b32", pitch, 16, 128)
    for x in (1, 4):
        for pitch in (32, 48, 64, 80, 128, 144, 256):  # of 8 rows: 2-way, free, 4-way, free, 8-way, free, 8-way
            opcode = f"ldmatrix.sync.aligned.m8n8.x{x}.shared.b16"
            if pitch in (32, 64, 128, 144):
                yield _chase(opcode, pitch)
            yield _independent(opcode, pitch, 16, 0)
    for opcode, width in (("st.shared.b32", 1), ("st.shared.v2.b32", 2), ("st.shared.v4.b32", 4)):
        short = opcode.replace(".shared", "").replace(".", "_")
        value = "%r0" if width == 1 else group(0, width)
        for pitch in (4 * width, 128) if width == 1 else (4 * width,):
            body = tuple(f"{opcode} [%r100+{512 * (i % 16)}], {value};" for i in range(64))
            yield Program(
                f"shared_store_{short}_p{pitch}",
                "shared",
                opcode,
                64,
                (Part(body),),
                (),
                {100: LANES * np.uint32(pitch)},
                frozenset({100}),
                labels={"kind": "store", "pitch_bytes": pitch, "per_iteration": 64},
            )
        load = _load(
            opcode.replace("st", "ld"), 0, "%r101"
        )  # another register with the same address: no forwarding by the compiler
        body = (f"{opcode} [%r100], {value};", load) * 32
        yield Program(
            f"shared_store_load_{short}",
            "shared",
            f"{opcode} -> ld",
            32,
            (Part(body),),
            tuple(range(width)),
            {100: LANES * np.uint32(4 * width), 101: LANES * np.uint32(4 * width)},
            frozenset({100, 101}),
            labels={"kind": "store_load", "pitch_bytes": 4 * width, "per_iteration": 32},
            warps=(1, 2, 4, 8, 16, 32),
        )
    # The same chase with one integer instruction between a load and the next address.
    between = {
        "add": "add.s32 %r0, %r0, %r40;",
        "xor": "lop3.b32 %r0, %r0, %r40, %r40, 0x3c;",
        "mad": "mad.lo.s32 %r0, %r0, %r41, %r40;",
    }
    for name, operation in between.items():
        body = (_load("ld.shared.b32", 0, "%r0"), operation) * 32
        yield Program(
            f"shared_chase_alu_{name}",
            "shared",
            f"ld.shared.b32 -> {name}",
            32,
            (Part(body),),
            (0,),
            {0: LANES * np.uint32(4), 40: lanes(0), 41: lanes(1)},
            frozenset({0}),
            "self:4",
            {"kind": f"chase_alu_{name}", "pitch_bytes": 4, "per_iteration": 32},
            (1, 4, 8),
        )


def barrier_programs() -> Iterator[Program]:
    every = (1, 2, 4, 5, 8, 12, 16, 24, 32)
    for n in (1, 2, 8):
        yield Program(
            f"barrier_n{n}",
            "barrier",
            "bar.sync",
            n,
            (Part(("bar.sync 0;",) * n),),
            (),
            labels={"kind": "alone", "chain": 0},
            warps=every,
        )
    for n in (16, 48):
        chain = tuple(f"mad.lo.s32 %r0, %r0, %r{40 + i % 2}, %r{42 + i % 2};" for i in range(n))
        initial = {r: lanes(3) for r in range(40, 44)}
        yield Program(
            f"barrier_late_n{n}",
            "barrier",
            "bar.sync",
            1,
            (Part((*chain, "bar.sync 0;"), 0, 0), Part(("bar.sync 0;",), 1)),
            (0,),
            initial,
            labels={"kind": "warp 0 comes late, after a chain of mad.lo.s32", "chain": n},
            warps=every,
        )
        yield Program(
            f"barrier_chain_n{n}", "barrier", "bar.sync", 1, (Part((*chain, "bar.sync 0;")),), (0,), initial,
            labels={"kind": "all warps, after a chain of mad.lo.s32", "chain": n}, warps=every,
        )  # fmt: skip
        yield Program(
            f"barrier_none_n{n}",
            "barrier",
            "no barrier",
            1,
            (Part(chain),),
            (0,),
            initial,
            labels={"kind": "the chain of mad.lo.s32 alone", "chain": n},
            warps=every,
        )
    # Relay: warp 0 works while the others wait, then the others work while warp 0 waits. Work is a chase through shared
    # memory that ends in a store to where the last load pointed, because ptxas moves arithmetic across a barrier but
    # never memory accesses.
    for n, turns in ((4, 2), (8, 2), (4, 4), (8, 4)):
        work = (*(_load("ld.shared.b32", 0, "%r0"),) * n, "st.volatile.shared.b32 [%r0], %r0;")
        yield Program(
            f"barrier_relay_n{n}_t{turns}",
            "barrier",
            "bar.sync",
            2 * turns,
            (
                Part((*work, "bar.sync 0;", "bar.sync 0;") * turns, 0, 0),
                Part(("bar.sync 0;", *work, "bar.sync 0;") * turns, 1),
            ),
            (0,),
            {0: LANES * np.uint32(4)},
            frozenset({0}),
            "self:4",
            {
                "kind": f"relay of {turns} turns, a turn is a chase of loads by warp 0 and then by the others",
                "chain": n,
            },
            (2, 4, 5, 8, 16, 32),
        )
    form, initial = SPARSE_FULL, _form_initial(SPARSE_FULL, range(4), range(8, 12), 16)
    for n in (1, 4):
        mmas = tuple(form.text(20 + 4 * i, 0, 8, 20 + 4 * i, 16) for i in range(n))
        yield Program(
            f"barrier_mma_n{n}",
            "barrier",
            "bar.sync",
            4,
            (Part((*mmas, "bar.sync 0;") * 4),),
            tuple(range(20, 20 + 4 * n)),
            initial,
            labels={"kind": f"after {n} mma.sp, each on its own accumulator", "chain": n},
            warps=(1, 4, 8, 16),
        )
    body = ("st.shared.b32 [%r100], %r0;", "bar.sync 0;", _load("ld.shared.b32", 0, "%r101")) * 8
    yield Program(
        "barrier_store_load",
        "barrier",
        "st.shared, bar.sync, ld.shared",
        8,
        (Part(body),),
        (0,),
        {100: LANES * np.uint32(4), 101: LANES * np.uint32(4)},
        frozenset({100, 101}),
        labels={"kind": "st -> bar -> ld -> st", "chain": 0},
        warps=every,
    )


def loop_programs() -> Iterator[Program]:
    a, b, e, d0 = 0, 8, 16, 20
    for form in (SPARSE_FULL, SPARSE_SMALL):
        initial = _form_initial(form, range(a, a + form.na), range(b, b + form.nb), e)
        for counter in ("uniform", "vector"):
            for k in (1, 2, 3, 4, 6, 8, 16):
                for kind, chains in (("independent", k), ("dependent", 1), ("two chains", 2), ("four chains", 4)):
                    if (
                        chains > k
                        or (kind != "independent" and chains == k)
                        or (counter == "vector" and chains in (2, 4) and chains != k)
                    ):
                        continue
                    body = tuple(form.text(d, a, b, d, e) for d in (d0 + 4 * (i % chains) for i in range(k)))
                    yield Program(
                        f"loop_{form.name}_{counter}_k{k}_c{chains}",
                        "loop",
                        form.opcode,
                        k,
                        (Part(body),),
                        tuple(range(d0, d0 + 4 * chains)),
                        initial,
                        labels={"counter": counter, "mma_per_iteration": k, "chains": chains},
                        warps=(1, 2, 4, 8, 12, 16),
                        counter=counter,
                    )
    for counter in ("uniform", "vector"):
        for k in (1, 2, 4, 8, 16):
            body = tuple("lop3.b32 %r{0}, %r{0}, %r40, %r41, 0x6a;".format(i % 8) for i in range(k))
            yield Program(
                f"loop_alu_{counter}_k{k}",
                "loop",
                "lop3.b32",
                k,
                (Part(body),),
                tuple(range(min(k, 8))),
                {40: lanes(5), 41: lanes(9)},
                labels={"counter": counter, "mma_per_iteration": k, "chains": min(k, 8)},
                warps=(1, 4, 8, 12, 16),
                counter=counter,
            )


def _gemm_loads(a_tiles: int, b_tiles: int, metadata: bool, regs: dict[str, int], offset: int) -> list[str]:
    """One k-step's loads: an ldmatrix.x4 for every A tile (16 x 32 at 2:4, stored 16 x 16) and B tile (32 x 8), a word
    of metadata per A tile."""
    lines = []
    for i in range(a_tiles):
        lines.append(_load("ldmatrix.sync.aligned.m8n8.x4.shared.b16", regs["a"] + 4 * i, f"%r140+{offset + 512 * i}"))
    if metadata:
        lines += [_load("ld.shared.b32", regs["e"] + i, f"%r141+{offset + 128 * i}") for i in range(a_tiles)]
    for j in range(b_tiles):
        lines.append(
            _load("ldmatrix.sync.aligned.m8n8.x4.shared.b16", regs["b"] + 4 * j, f"%r140+{offset + 2048 + 512 * j}")
        )
    return lines


def _gemm_mmas(a_tiles: int, b_tiles: int, repeat: int, regs: dict[str, int]) -> list[str]:
    lines = []
    for copy in range(repeat):
        for i in range(a_tiles):
            for j in range(b_tiles):
                d = regs["d"] + 4 * ((copy * a_tiles + i) * b_tiles + j)
                lines.append(SPARSE_FULL.text(d, regs["a"] + 4 * i, regs["b"] + 4 * j, d, regs["e"] + i))
    return lines


def gemm_programs() -> Iterator[Program]:
    advance = ["add.s32 %r140, %r140, %r142;", "add.s32 %r141, %r141, %r142;"]
    steps = {
        # name: A tiles, B tiles, accumulators per pair of tiles, metadata from shared memory, barrier in the loop,
        # software pipelined
        "2a1b4": (2, 1, 2, False, False, False),
        "2a2b4": (2, 2, 1, False, False, False),
        "2a2b4_e": (2, 2, 1, True, False, False),
        "2a2b4_e_bar": (2, 2, 1, True, True, False),
        "2a2b4_e_pipe": (2, 2, 1, True, False, True),
        "1a1b1": (1, 1, 1, False, False, False),
        "1a1b1_e": (1, 1, 1, True, False, False),
        "2a4b8_e": (2, 4, 1, True, False, False),
        "4a4b16_e": (4, 4, 1, True, False, False),
    }
    for name, (a_tiles, b_tiles, repeat, metadata, barrier, pipelined) in steps.items():
        first = {"a": 0, "b": 16, "e": 32, "d": 60}
        second = {"a": 36, "b": 44, "e": 52, "d": 60}
        mmas = a_tiles * b_tiles * repeat
        if pipelined:
            # Registers of step s are loaded while step s - 1 computes: the loop holds two steps, one for each set of
            # registers.
            body = [
                *_gemm_loads(a_tiles, b_tiles, metadata, second, 4096),
                *_gemm_mmas(a_tiles, b_tiles, repeat, first),
                *advance,
                *_gemm_loads(a_tiles, b_tiles, metadata, first, 0),
                *_gemm_mmas(a_tiles, b_tiles, repeat, second),
            ]
            mmas *= 2
        else:
            body = [
                *_gemm_loads(a_tiles, b_tiles, metadata, first, 0),
                *_gemm_mmas(a_tiles, b_tiles, repeat, first),
                *advance,
            ]
        if not metadata:
            body = [line for line in body if "%r141" not in line]
        if barrier:
            body.append("bar.sync 0;")
        initial = dict.fromkeys((*range(32), *range(36, 52)), lanes(DATA)) | dict.fromkeys(
            (32, 33, 34, 35, 52, 53), lanes(ONE_E)
        )
        yield Program(
            f"gemm_{name}",
            "gemm",
            SPARSE_FULL.opcode,
            mmas,
            (Part(tuple(body)),),
            tuple(range(60, 60 + 4 * a_tiles * b_tiles * repeat)),
            initial | {140: LANES * np.uint32(16), 141: 8192 + LANES * np.uint32(4)},
            frozenset({140, 141}),
            labels={
                "a_tiles": a_tiles,
                "b_tiles": b_tiles,
                "metadata": int(metadata),
                "barrier": int(barrier),
                "pipelined": int(pipelined),
            },
            warps=(1, 2, 4, 5, 8, 12, 16),
        )
    # Half of the warps compute and the others load: do the two units disturb each other?
    matrix = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"
    compute = tuple(SPARSE_FULL.text(d, 0, 16, d, 32) for d in (60 + 4 * (i % 4) for i in range(48)))
    load = tuple(_load(matrix, 80 + 4 * (i % 12), f"%r140+{16 * i}") for i in range(12))
    initial = dict.fromkeys((*range(4), *range(16, 20)), lanes(DATA)) | {32: lanes(ONE_E), 140: LANES * np.uint32(16)}
    for name, parts in (
        ("both", (Part(compute, 0, 3), Part(load, 4))),
        ("compute", (Part(compute),)),
        ("load", (Part(load),)),
    ):
        yield Program(
            f"gemm_split_{name}",
            "gemm",
            SPARSE_FULL.opcode,
            48,
            parts,
            (*range(60, 76), *range(80, 128)),
            initial,
            frozenset({140}),
            labels={"a_tiles": 0, "b_tiles": 0, "metadata": 0, "barrier": 0, "pipelined": 0},
            warps=(8,) if name == "both" else (4,),
        )


# ------------------------------------------------------------------------------------------------------------------ PTX

HEADER = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def _loop(part: Part, index: int, counter: str) -> str:
    """The counted loop around one body.

    Counter "vector" (VIADD, ISETP, BRA): start and end are loaded values. "uniform" (UIADD3, ISETP, BRA): they are
    constants to ptxas, which keeps the counter in a uniform register; it may then also reload the end from the
    parameters in every iteration (LDC). "compiled" (UIADD3, ISETP, BRA): a test before the loop, as nvcc writes it.
    `.uni` matters: without it ptxas puts a WARPSYNC into every iteration of a loop that holds `.sync` instructions.
    """
    start = "%zero_loaded" if counter == "vector" else "0"
    end = "%n_loaded" if counter == "vector" else "%n"
    test = f"setp.lt.s32 %again, %n, 1; @%again bra.uni SKIP{index};" if counter == "compiled" else ""
    body = "\n    ".join(part.body)
    return f"""
    mov.u32 %it, {start};
    {test}
LOOP{index}:
    .pragma "nounroll";
    {body}
    add.u32 %it, %it, 1;
    setp.lt.{"s32" if test else "u32"} %again, %it, {end};
    @%again bra.uni LOOP{index};
{f"SKIP{index}:" if test else ""}"""


@dataclass(frozen=True)
class Around:
    """What a kernel has more, in PTX: parameters, registers, and code in the place of the barrier before the first
    clock and behind the loop."""

    parameters: str = ""
    registers: str = ""
    before: str = "bar.sync 0;"
    behind: str = ""


PLAIN = Around()


def ptx_kernel(program: Program, around: Around = PLAIN) -> str:
    """One kernel: read registers and shared memory, time one run of the loop, keep the results alive, store the two
    clock values."""
    used = sorted(
        {*program.initial, *program.live}
        | {r for r in range(program.registers) if re.search(rf"%r{r}\b", _text(program))}
    )
    loads = "\n    ".join(f"ld.global.b32 %r{r}, [%in+{128 * r}];" for r in used)
    if len(program.parts) == 1:
        loop = _loop(program.parts[0], 0, program.counter)
        if len(program.sub_cores) < 4:
            mask = sum(1 << core for core in program.sub_cores)
            choose = (
                f"and.b32 %core, %warp, 3; shr.b32 %core, {mask}, %core; and.b32 %core, %core, 1; "
                f"setp.eq.u32 %other, %core, 0;"
            )
            loop = f"""
    {choose}
    @%other bra.uni DONE;
    {loop}
DONE:"""
    else:
        first, second = program.parts
        loop = f"""
    setp.gt.u32 %other, %warp, {first.last};
    @%other bra.uni OTHER;
    {_loop(first, 0, program.counter)}
    bra.uni DONE;
OTHER:
    {_loop(second, 1, program.counter)}
DONE:"""
    keep = "\n    ".join(f"xor.b32 %acc, %acc, %r{r};" for r in program.live)
    return f"""
.visible .entry {program.name}(.param .u64 p_in, .param .u64 p_shared, .param .u64 p_sink, .param .u64 p_start,
.param .u64 p_stop, .param .u32 p_n{around.parameters})
{{
    .shared .align 1024 .b8 memory[{SHARED_BYTES}];
    .reg .b32 %r<{TABLE_REGISTERS}>; .reg .b32 %it, %n, %thread, %lane, %warp, %threads, %i, %word, %base, %acc,
    %where, %core;
    .reg .b32 %zero_loaded, %n_loaded;
    .reg .b64 %in, %shared, %sink, %start, %stop, %t0, %t1, %offset; .reg .pred %p<16>;
    .reg .pred %again, %other, %hit, %first;
    {around.registers}
    ld.param.u64 %in, [p_in]; ld.param.u64 %shared, [p_shared]; ld.param.u64 %sink, [p_sink];
    ld.param.u64 %start, [p_start]; ld.param.u64 %stop, [p_stop]; ld.param.u32 %n, [p_n];
    mov.u32 %thread, %tid.x; mov.u32 %threads, %ntid.x; and.b32 %lane, %thread, 31; shr.u32 %warp, %thread, 5;
    mul.wide.u32 %offset, %lane, 4; add.u64 %in, %in, %offset;
    mov.u32 %base, memory;
    mov.u32 %i, %thread;
FILL:
    mul.wide.u32 %offset, %i, 4; add.u64 %offset, %shared, %offset; ld.global.b32 %word, [%offset];
    shl.b32 %where, %i, 2; add.u32 %where, %where, %base; st.shared.b32 [%where], %word;
    add.u32 %i, %i, %threads; setp.lt.u32 %hit, %i, {SHARED_BYTES // 4}; @%hit bra FILL;
    {loads}
    ld.global.b32 %zero_loaded, [%in+{128 * TABLE_REGISTERS}];
    add.u32 %n_loaded, %n, %zero_loaded;
    {around.before}
    mov.u64 %t0, %clock64;
    {loop}
    {around.behind}
    mov.u32 %acc, 0;
    {keep}
    setp.eq.u32 %hit, %acc, 0x12345679;
    @%hit st.volatile.global.b32 [%sink], %acc;
    mov.u64 %t1, %clock64;
    setp.eq.u32 %first, %lane, 0;
    mul.wide.u32 %offset, %warp, 8; add.u64 %start, %start, %offset; add.u64 %stop, %stop, %offset;
    @%first st.global.u64 [%start], %t0;
    @%first st.global.u64 [%stop], %t1;
    setp.eq.u32 %first, %thread, 0;
    @%first st.global.u32 [%sink+4], %base;
    ret;
}}"""


def _text(program: Program) -> str:
    return " ".join(line for part in program.parts for line in part.body)


def ptx_module(programs: Sequence[Program], around: Around = PLAIN) -> str:
    return HEADER + "\n".join(ptx_kernel(program, around) for program in programs) + "\n"


def register_table(program: Program, base: int) -> Words:
    """Initial register values, uint32 [TABLE_REGISTERS + 1, 32], addresses made absolute; the last row is the zero of
    vector counters."""
    table = np.zeros((TABLE_REGISTERS + 1, 32), dtype=np.uint32)
    for register, value in program.initial.items():
        table[register] = value + np.uint32(base if register in program.addresses else 0)
    return table


def iterations(program: Program) -> tuple[int, int]:
    """The two loop counts whose difference is timed."""
    low = 8
    per_iteration = max(len(part.body) for part in program.parts) * (
        40 if "_s4" in program.name or "_u4" in program.name else 1
    )
    return low, low + max(64, math.ceil(6144 / max(per_iteration, 1)))
