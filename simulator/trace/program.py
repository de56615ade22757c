"""A trace in memory: what to load, what each warp runs, what to store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from isa import Instruction, Target


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
    """`.warp first-last { body }`: the program of these warps."""

    warps: tuple[int, ...]
    body: tuple[Node, ...]
    line: int


@dataclass(frozen=True, slots=True)
class Load:
    """`.load PLACE, "file", "key";`: exactly one of `register` (number of the first) and `shared` (byte offset) is set."""

    file: str
    key: str
    register: int | None
    shared: int | None
    line: int


@dataclass(frozen=True, slots=True)
class Store:
    """`.store "name", PLACE, COUNT;`: registers (`count` of them) or bytes of shared memory."""

    name: str
    register: int | None
    shared: int | None
    count: int
    line: int


@dataclass(frozen=True)
class Trace:
    """A whole trace.

    Attributes:
        path: the file it came from.
        target: what its instructions were written for.
        warps: warps of the CTA; warp w runs on sub-core w mod (number of sub-cores).
        shared_bytes: shared memory of the CTA.
        blocks: programs, no warp in two of them.
    """

    path: Path
    target: Target
    warps: int
    shared_bytes: int
    loads: tuple[Load, ...]
    blocks: tuple[Block, ...]
    stores: tuple[Store, ...]
    registers: int = field(default=0)

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


def register_number(name: str) -> int | None:
    """12 for "%r12"; None for a name that is not a trace register."""
    digits = name[2:]
    if name.startswith("%r") and digits.isascii() and digits.isdecimal() and (len(digits) == 1 or digits[0] != "0"):
        return int(digits)
    return None
