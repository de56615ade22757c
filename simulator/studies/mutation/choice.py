"""All mutants of a kernel, and the order in which a study tries them."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from isa.errors import IsaError
from simulator.studies.mutation import fragments, indices, order
from simulator.studies.mutation.mutant import OPERATORS, Mutant
from simulator.studies.mutation.subject import Subject
from simulator.studies.mutation.text import Statement

MODULES = (fragments, indices, order)  # importing them registers the operators
TRIES = 6  # mutants that may turn out equivalent for each one that counts
Numbered = tuple[int, Mutant]


def check_operators(names: Sequence[str]) -> None:
    """Raises IsaError for a name that no operator has."""
    for name in names:
        if name not in OPERATORS:
            raise IsaError(name, -1, f"no operator '{name}'", ", ".join(OPERATORS))


def mutants(subject: Subject, only: Sequence[str] = ()) -> list[Numbered]:
    """All mutants of a kernel, equivalent ones included, each with its number.

    Args:
        only: the operators; none: all.

    Raises:
        IsaError: an operator that there is not.
    """
    check_operators(only)
    every = [mutant for operator in OPERATORS.values() for mutant in operator.make(subject)]
    texts = [site.statement for site in subject.sites] + [statement for _, statement in subject.branches]
    return [
        (number, replace(mutant, right=_changed(texts, mutant)))
        for number, mutant in enumerate(every)
        if not only or mutant.operator in only
    ]


def _changed(statements: Sequence[Statement], mutant: Mutant) -> tuple[str, ...]:
    """The instructions of the right kernel that a mutant has otherwise, or not at all."""
    return tuple(
        each.text
        for each in statements
        if any(edit.start < edit.end and each.start <= edit.start <= each.end for edit in mutant.edits)
    )


def chosen(
    subject: Subject, count: int, seed: int, runs: frozenset[int], only: Sequence[str] = ()
) -> Iterator[list[Numbered]]:
    """The order in which mutants are tried: one list for each that is wanted, of which the first counts that is not
    equivalent. Operators take turns, so that each has as many as it can.

    Args:
        count: how many lists.
        runs: the lines of instructions that run.
        only: the operators; none: all.
    """
    generator = random.Random(f"{seed}|{subject.name}")
    groups: dict[str, list[Numbered]] = defaultdict(list)
    silent = {site.line for site in subject.sites} - runs
    for number, mutant in mutants(subject, only):
        if not set(mutant.lines) & silent:
            groups[mutant.operator].append((number, mutant))
    for group in groups.values():
        generator.shuffle(group)
    names = sorted(groups)
    generator.shuffle(names)
    left = count
    while left and any(groups.values()):
        for name in names:
            batch, groups[name] = groups[name][:TRIES], groups[name][TRIES:]
            if batch and left:
                left -= 1
                yield batch
