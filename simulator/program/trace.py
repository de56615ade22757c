"""A trace in memory: what to load, what each warp runs, what to store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from isa import Instruction, Target
from simulator.state.registers import Numbering, Sort


@dataclass(frozen=True, slots=True)
class Step:
    """One instruction of a program and the line where it begins."""

    instruction: Instruction
    line: int


@dataclass(frozen=True, slots=True)
class Repeat:
    """`.repeat count { body }`."""

    count: int
    body: tuple[Node, ...]
    line: int


Node = Step | Repeat


@dataclass(frozen=True, slots=True)
class Block:
    """`.warp first-last { body }`: the program of these warps of a CTA."""

    warps: tuple[int, ...]
    body: tuple[Node, ...]
    line: int
    cta: int = 0


@dataclass(frozen=True, slots=True)
class Load:
    """`.load PLACE, "file", "key";`: exactly one of `register`, `shared`, `tmem` and `memory` is set.

    Attributes:
        register: number of the first register, of the given `sort`.
        shared: offset in shared memory, bytes.
        tmem: column of Tensor Memory.
        cta: whose state; None for that of every CTA.
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
class Trace:
    """A whole trace.

    Attributes:
        path: the file it came from.
        target: what its instructions were written for.
        warps: warps of the CTA; warp w runs on sub-core w mod (number of sub-cores).
        shared_bytes: shared memory of the CTA.
        blocks: programs, no warp in two of them.
        registers: 32-bit registers of a warp.
        others: how many registers of the other sorts a warp has: 64-bit, predicates, 16-bit.
        ctas: 1, or 2 for a pair.
        global_bytes: global memory, from address 0 on.
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

    @property
    def numbering(self) -> Numbering:
        """Numbers of all registers."""
        return Numbering(self.registers, *self.others)

    def steps(self) -> Iterator[Step]:
        """Every static instruction once, in the order of the file."""
        for block in self.blocks:
            yield from walk(block.body)


def walk(body: tuple[Node, ...]) -> Iterator[Step]:
    """The steps of a body, loops entered once."""
    for node in body:
        if isinstance(node, Step):
            yield node
        else:
            yield from walk(node.body)
