"""The code of a program as a tree: instructions, loops around them, and blocks that say which warps run them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from isa import Instruction


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


def walk(body: tuple[Node, ...]) -> Iterator[Step]:
    """The steps of a body, loops entered once."""
    for node in body:
        if isinstance(node, Step):
            yield node
        else:
            yield from walk(node.body)
