"""A program as data: which arrays to load, what each warp runs, which arrays to store.

A trace file, the text of one, and Python code that builds blocks all make the same `Program`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from isa import Target
from simulator.program.blocks import Block, Step, walk
from simulator.program.lowering import Code, Operation, linearise
from simulator.state.registers import Numbering, Sort

TEXT = Path("<text>")  # the path of a program that was given as a text


@dataclass(frozen=True, slots=True)
class Load:
    """`.load PLACE, "file", "key";`: exactly one of `register`, `shared`, `tmem` and `memory` is set.

    Attributes:
        register: number of the first register, of the given `sort`.
        shared: offset in shared memory, bytes.
        tmem: column of Tensor Memory.
        cta: the CTA whose state is loaded; None for every CTA.
        memory: address in global memory.
    """

    file: str
    key: str
    register: int | None
    shared: int | None
    line: int
    tmem: int | None = None
    sort: Sort = Sort.WORD
    cta: int | None = None
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Store:
    """`.store "name", PLACE, COUNT;`: `count` registers, bytes of shared or global memory, or columns of Tensor Memory;
    the rest as in `Load`."""

    name: str
    register: int | None
    shared: int | None
    count: int
    line: int
    tmem: int | None = None
    sort: Sort = Sort.WORD
    cta: int | None = None
    memory: int | None = None


@dataclass(frozen=True)
class Program:
    """A whole program.

    Attributes:
        path: the file it came from; of a text "<text>", whose data files are then looked for in the working directory.
        target: the target that its instructions are written for.
        warps: warps of the CTA; warp w runs on sub-core w mod (number of sub-cores).
        shared_bytes: shared memory of the CTA.
        blocks: the code of the warps; no warp is in two of them.
        registers: 32-bit registers of a warp.
        others: how many registers of the other sorts a warp has: 64-bit, predicates, 16-bit.
        ctas: 1, or 2 for a pair.
        global_bytes: global memory, from address 0 on.
        name: what the user called it: a path, the name of a trace that comes with tcsim, or "<text>".
    """

    path: Path
    target: Target
    warps: int
    shared_bytes: int
    loads: tuple[Load, ...]
    blocks: tuple[Block, ...]
    stores: tuple[Store, ...]
    registers: int = field(default=0)
    others: tuple[int, int, int] = (0, 0, 0)
    ctas: int = 1
    global_bytes: int = 0
    name: str = ""

    @property
    def folder(self) -> Path:
        """The folder of its data files: that of the trace file; of a text, the working directory."""
        return self.path.parent

    @property
    def numbering(self) -> Numbering:
        """How the registers of all sorts are numbered."""
        return Numbering(self.registers, *self.others)

    def steps(self) -> Iterator[Step]:
        """Every static instruction once, in the order of the file."""
        for block in self.blocks:
            yield from walk(block.body)

    @cached_property
    def codes(self) -> list[Code]:
        """The flat code of each block."""
        return [linearise(block, self.numbering) for block in self.blocks]

    @property
    def operations(self) -> Iterator[tuple[Operation, int]]:
        """Every static instruction, with how often all of its warps together execute it."""
        return ((op, op.executions * len(code.warps)) for code in self.codes for op in code.operations)
