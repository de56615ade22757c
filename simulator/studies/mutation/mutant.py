"""What a mutant is: one change of a right kernel, the lines that may be blamed for it, and what its repair says."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from simulator.studies.mutation.subject import Subject
from simulator.studies.mutation.text import Edit

VALUE, ORDER, BOUNDS = "value", "order", "bounds"
Fix = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Mutant:
    """One change of a right kernel.

    Attributes:
        operator: what kind of change, by its name in `OPERATORS`.
        what: the change in words.
        edits: of the text.
        lines: the lines that are changed.
        repairs: further lines at which a change makes the kernel right again.
        fix: what words a right repair has: one of these groups of regular expressions, all of it, in any order.
        right: the instructions of the right kernel that are changed; who writes one of them down has the repair, too.
    """

    operator: str
    what: str
    edits: tuple[Edit, ...]
    lines: tuple[int, ...]
    repairs: frozenset[int] = frozenset()
    fix: Fix = ()
    right: tuple[str, ...] = ()

    def fixed_by(self, words: str) -> bool:
        """Whether a finding's words name the right repair."""
        plain = _plain(words)
        if any(_plain(text) in plain for text in self.right):
            return True
        return any(all(re.search(each, words, re.IGNORECASE) for each in group) for group in self.fix)


def _plain(text: str) -> str:
    return re.sub(r"\s", "", text)


class Operator(NamedTuple):
    """A kind of change.

    Attributes:
        name: as tables have it.
        family: "value" (another result), "order" (another order of threads or asynchronous work), "bounds".
        make: all its mutants of a kernel.
    """

    name: str
    family: str
    make: Callable[[Subject], Iterator[Mutant]]


@dataclass
class _Registry:
    operators: dict[str, Operator] = field(default_factory=dict)


_REGISTRY = _Registry()
OPERATORS = _REGISTRY.operators
"""All operators by their names, in the order of their modules."""

Made = Callable[[Subject], Iterable[Mutant]]


def operator(name: str, family: str) -> Callable[[Made], Made]:
    """Registers a function as an operator."""

    def register(make: Made) -> Made:
        OPERATORS[name] = Operator(name, family, lambda subject: iter(make(subject)))
        return make

    return register


def word(text: str) -> str:
    """A regular expression for a name or number that stands alone."""
    return rf"(?<![\w%]){re.escape(text)}(?!\w)"
