"""Turns a trace into a CUDA kernel, so that a GPU can run what the simulator runs.

`ptx_module(load(path))` is a PTX module of one kernel for one CTA:

    trace(initial, image, counts, registers, shared, clocks, base)

    initial    uint32 [warps, registers, 32]  registers before the first instruction
    image      uint32 [words]                 shared memory likewise
    counts     uint32 [repeats + 1]           how often each `.repeat` runs, in the order of the file; the last word is
    0 registers  uint32 [warps, stored, 32]     out: the registers that `.store` names (`stored_registers`)
    shared     uint32 [words]                 out: shared memory
    clocks     uint64 [warps, 2]              out: first and last cycle of each warp
    base       uint32 [2]                     out: where shared memory starts; a word that keeps a load alive

The instructions of the trace stand in the kernel as they are, in the same order, on the same `%rN`. Only this is
changed:

* Addresses count from 0 in a trace, but shared memory of a kernel starts at SHARED_BASE on sm_90 (NVIDIA keeps 1 KB for
itself). With `timed`
  it is added to the constant offset of every address, which costs nothing, and the kernel returns the true place for
  `run_traces.py` to check. Otherwise an `add` before every access does it: ptxas drops an `ldmatrix` whose address it
  can compute and which no array contains.
* A special register outside of `mov`, a constant where ptxas takes none, or a sink of a single load goes through a
register of its own.

A trace's registers and shared memory are 0 before they are written; here the prologue says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

import numpy as np
from numpy.typing import NDArray

from isa import Instruction
from isa.forms.mma import MmaForm
from isa.forms.record import SPECIAL_REGISTERS, Role, Shape
from isa.ptx.instruction import Address, Immediate, Operand, Register, Scalar, Sink, Vector
from simulator.program.blocks import Node, Repeat
from simulator.program.data import load_all
from simulator.program.program import Program

SHARED_BASE = 1024
LANES = 32

Words = NDArray[np.uint32]


def stored_registers(trace: Program) -> list[int]:
    """Numbers of the registers that any `.store` names, ascending."""
    return sorted(
        {store.register + i for store in trace.stores if store.register is not None for i in range(store.count)}
    )


def repeats(trace: Program) -> list[Repeat]:
    """Every `.repeat`, in the order of the file: the order of `counts`."""

    def inside(body: tuple[Node, ...]) -> Iterator[Repeat]:
        for node in body:
            if isinstance(node, Repeat):
                yield node
                yield from inside(node.body)

    return [repeat for block in trace.blocks for repeat in inside(block.body)]


def shared_words(trace: Program) -> int:
    """Words of shared memory that the kernel asks for: one at least."""
    return max(-(-trace.shared_bytes // 4), 1)


def initial_state(trace: Program) -> tuple[Words, Words]:
    """`initial` and `image`: what every `.load` brings, zero elsewhere."""
    from simulator.execute.cta_state import CtaState
    from simulator.state import RegisterFile, SharedMemory

    machine = CtaState(
        RegisterFile(trace.warps, trace.registers),
        SharedMemory(trace.shared_bytes, trace.warps),
        trace.warps,
        trace.target,
    )
    load_all(trace, machine)
    image = np.zeros(4 * shared_words(trace), np.uint8)
    image[: trace.shared_bytes] = machine.shared.data
    return np.array(machine.registers.values, np.uint32), image.view("<u4").astype(np.uint32)


def ptx_module(trace: Program, target: str = "sm_90a", *, timed: bool = False) -> str:
    """The PTX of the trace's kernel; `timed`: with nothing added to the instructions of the trace."""
    writer = _Writer(timed)
    body = "\n".join(_dispatch(trace, writer))
    number = len(repeats(trace))
    loaded = _loaded_registers(trace)
    prologue = [
        f"ld.global.b32 %r{r}, [%in+{4 * LANES * r}];" if r in loaded else f"mov.b32 %r{r}, 0;"
        for r in range(trace.registers)
    ]
    prologue += [f"ld.global.b32 %count{i}, [%counts+{4 * i}];" for i in range(number)]
    stored = [f"st.global.b32 [%out+{4 * LANES * i}], %r{r};" for i, r in enumerate(stored_registers(trace))]
    declared = "".join(
        f" .reg .b32 %{name}<{size}>;"
        for name, size in (("count", number), ("left", number), ("extra", writer.extras))
        if size
    )
    words, per_warp = shared_words(trace), 4 * LANES * trace.registers
    return f""".version 9.0
.target {target}
.address_size 64
.extern .shared .align 1024 .b8 memory[];
.visible .entry trace(.param .u64 p_initial, .param .u64 p_image, .param .u64 p_counts, .param .u64 p_registers,
.param .u64 p_shared,
    .param .u64 p_clocks, .param .u64 p_base)
{{
    .reg .b32 %r<256>;{declared}
    .reg .b32 %thread, %lane, %warp, %threads, %i, %word, %place, %probe, %never, %mask, %memory;
    .reg .pred %hit, %first, %again, %mine;
    .reg .b64 %in, %image, %counts, %out, %shared, %clocks, %base, %t0, %t1, %offset;
    ld.param.u64 %in, [p_initial]; ld.param.u64 %image, [p_image]; ld.param.u64 %counts, [p_counts];
    ld.param.u64 %out, [p_registers];
    ld.param.u64 %shared, [p_shared]; ld.param.u64 %clocks, [p_clocks]; ld.param.u64 %base, [p_base];
    mov.u32 %thread, %tid.x; mov.u32 %threads, %ntid.x; and.b32 %lane, %thread, 31; shr.u32 %warp, %thread, 5;
    mul.wide.u32 %offset, %lane, 4; add.u64 %in, %in, %offset; add.u64 %out, %out, %offset;
    mul.wide.u32 %offset, %warp, {per_warp}; add.u64 %in, %in, %offset;
    mul.wide.u32 %offset, %warp, {4 * LANES * max(len(stored), 1)}; add.u64 %out, %out, %offset;
    mul.wide.u32 %offset, %warp, 16; add.u64 %clocks, %clocks, %offset;
    mov.u32 %i, %thread;
FILL:
    .pragma "nounroll";
    setp.ge.u32 %hit, %i, {words}; @%hit bra FILLED;
    mul.wide.u32 %offset, %i, 4; add.u64 %offset, %image, %offset; ld.global.b32 %word, [%offset];
    shl.b32 %place, %i, 2; st.shared.b32 [%place+{SHARED_BASE}], %word;
    add.u32 %i, %i, %threads; bra FILL;
FILLED:
    {_lines(prologue)}
    ld.global.b32 %never, [%counts+{4 * number}];
    shl.b32 %mask, 1, %warp;
    mov.u32 %memory, memory;
    // A clock read right after a barrier may execute before it: this one waits for a load that follows the barrier.
    bar.sync 0;
    ld.volatile.shared.b32 %probe, [{_place(0)}];
    setp.eq.u32 %hit, %probe, %never;
    @%hit st.global.b32 [%base+4], %probe;
    mov.u64 %t0, %clock64;
{body}
DONE:
    mov.u64 %t1, %clock64;
    bar.sync 0;
    setp.eq.u32 %first, %lane, 0;
    @%first st.global.u64 [%clocks], %t0;
    @%first st.global.u64 [%clocks+8], %t1;
    {_lines(stored)}
    mov.u32 %i, %thread;
SAVE:
    .pragma "nounroll";
    setp.ge.u32 %hit, %i, {words}; @%hit bra SAVED;
    shl.b32 %place, %i, 2; ld.shared.b32 %word, [%place+{SHARED_BASE}];
    mul.wide.u32 %offset, %i, 4; add.u64 %offset, %shared, %offset; st.global.b32 [%offset], %word;
    add.u32 %i, %i, %threads; bra SAVE;
SAVED:
    setp.eq.u32 %first, %thread, 0;
    @%first st.global.u32 [%base], %memory;
    ret;
}}
"""


def _lines(statements: list[str]) -> str:
    return "\n    ".join(statements)


def _place(offset: int) -> str:
    """An address without a base register: ptxas takes no plain number for shared memory."""
    return f"memory+{offset}"


def _loaded_registers(trace: Program) -> set[int]:
    """Registers that some `.load` may write."""
    first = [load.register for load in trace.loads if load.register is not None]
    values, _ = initial_state(trace) if first else (np.zeros((1, 0, LANES), np.uint32), None)
    return set(range(min(first, default=0), values.shape[1]))


@dataclass
class _Writer:
    """Writes instructions as PTX that ptxas takes.

    Attributes:
        timed: see `ptx_module`.
        repeats: numbers for the loops, in the order of the file.
        extras: registers used besides those of the trace.
    """

    timed: bool
    repeats: Iterator[int] = field(default_factory=count)
    extras: int = 0

    def nodes(self, body: tuple[Node, ...]) -> Iterator[str]:
        for node in body:
            if isinstance(node, Repeat):
                yield from self.loop(node)
            else:
                yield from self.instruction(node.instruction)

    def loop(self, node: Repeat) -> Iterator[str]:
        """A counted loop; its count is loaded, so that ptxas neither unrolls it nor knows when it ends."""
        if node.count >= 1 << 32:
            raise ValueError(f".repeat {node.count}: a kernel's loops count to 2^32 - 1")
        number = next(self.repeats)
        yield f"mov.b32 %left{number}, %count{number};"
        yield f"LOOP{number}:"
        yield '.pragma "nounroll";'
        yield from self.nodes(node.body)
        yield f"sub.u32 %left{number}, %left{number}, 1;"
        yield f"setp.ne.u32 %again, %left{number}, 0;"
        yield f"@%again bra.uni LOOP{number};"

    def instruction(self, instruction: Instruction) -> Iterator[str]:
        before: list[str] = []
        pairs = zip(instruction.form.roles, instruction.operands, strict=False)
        operands = ", ".join(self.operand(instruction, role, operand, before) for role, operand in pairs)
        yield from before
        yield f"{_opcode(instruction)} {operands};"

    def operand(self, instruction: Instruction, role: Role, operand: Operand, before: list[str]) -> str:
        form = instruction.form
        if isinstance(operand, Address):
            return self.address(operand, before)
        named = getattr(form, "name", "")
        braces = role.shape is Shape.VECTOR and (isinstance(form, MmaForm) or named == "ldmatrix")
        if isinstance(operand, Vector):
            return (
                "{" + ", ".join(self.scalar(instruction, part, before, vector=True) for part in operand.elements) + "}"
            )
        text = self.scalar(instruction, operand, before, vector=braces)
        return "{" + text + "}" if braces else text

    def address(self, operand: Address, before: list[str]) -> str:
        if operand.base is None:
            return f"[{_place(operand.offset)}]"
        if self.timed:
            return f"[{operand.base}+{operand.offset + SHARED_BASE}]"
        register = f"%extra{self.new()}"
        before.append(f"add.u32 {register}, {operand.base}, %memory;")
        return f"[{register}+{operand.offset}]"

    def scalar(self, instruction: Instruction, part: Scalar, before: list[str], *, vector: bool) -> str:
        form = instruction.form
        if isinstance(part, Immediate):
            if not isinstance(form, MmaForm) or not vector:
                value = (part.value + (1 << 31)) % (1 << 32) - (1 << 31)  # as the simulator reads it: modulo 2^32
                return str(part.value if form.time.table == "barrier" or isinstance(form, MmaForm) else value)
            return self.extra(f"{part.value & 0xFFFFFFFF:#x}", before)
        if isinstance(part, Sink):
            return "_" if vector else f"%extra{self.new()}"
        if part.name in SPECIAL_REGISTERS and form.name != "mov":
            return self.extra(part.name, before)
        return part.name

    def extra(self, source: str, before: list[str]) -> str:
        register = f"%extra{self.new()}"
        before.append(f"mov.b32 {register}, {source};")
        return register

    def new(self) -> int:
        self.extras += 1
        return self.extras - 1


def _opcode(instruction: Instruction) -> str:
    """The opcode; a `mov.f32` of a constant or special register moves bits."""
    form = instruction.form
    if form.opcode == "mov.f32":
        source = instruction["a"]
        if isinstance(source, Immediate) or (isinstance(source, Register) and source.name in SPECIAL_REGISTERS):
            return "mov.b32"
    return form.opcode


def _dispatch(trace: Program, writer: _Writer) -> Iterator[str]:
    """Every warp to its block, and from there to DONE."""
    programs = ["\n".join("    " + line for line in writer.nodes(block.body)) for block in trace.blocks]
    if len(programs) == 1 and len(trace.blocks[0].warps) == trace.warps:
        yield programs[0]
        return
    for number, block in enumerate(trace.blocks):
        yield (
            f"    and.b32 %i, %mask, {sum(1 << warp for warp in block.warps):#x}; setp.ne.u32 %mine, %i, 0; "
            f"@%mine bra.uni BLOCK{number};"
        )
    yield "    bra.uni DONE;"
    for number, program in enumerate(programs):
        yield f"BLOCK{number}:\n{program}\n    bra.uni DONE;"
