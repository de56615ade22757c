"""One mutant: shown to be wrong, checked, and judged."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from simulator.files import complete
from simulator.program.capture import read_capture
from simulator.studies.mutation.choice import chosen, mutants
from simulator.studies.mutation.judge import SECONDS, Verdict, checked, judged, key
from simulator.studies.mutation.mutant import OPERATORS, Mutant
from simulator.studies.mutation.proof import Proof, Right, behaviour, changed, completed, proven
from simulator.studies.mutation.subject import Subject


@dataclass(frozen=True)
class Row:
    """A mutant and what the check makes of it.

    Attributes:
        kernel: the capture.
        number: of the mutant in its kernel's list; the same in every run.
        operator, what: the change.
        line: the first line that is changed.
        before, after: that line.
        accepted: the lines that may be blamed.
        proof: why it is wrong.
        verdict: as `Verdict.line`.
        fixed: whether the right repair is named.
        seconds: of the processor that the check took.
        findings: what it says.
    """

    kernel: str
    number: int
    operator: str
    what: str
    line: int
    before: str
    after: str
    accepted: str
    proof: str
    verdict: str
    fixed: bool
    seconds: float
    findings: str


@dataclass(frozen=True)
class Known:
    """A right kernel.

    Attributes:
        subject: what mutants are made of.
        right: how it behaves.
        findings: what the check says of it.
    """

    subject: Subject
    right: Right
    findings: frozenset[tuple[str, int]]


@lru_cache(maxsize=16)
def known(path: str) -> Known:
    """A right kernel, run and checked once in each process.

    Raises:
        CaptureError, IsaError: a capture or module that cannot be read.
        ValueError: a kernel that is not right.
    """
    subject = Subject(read_capture(path))
    right = behaviour(subject.capture)
    found, _ = checked(completed(subject.capture, right), right.budget, 10 * SECONDS)
    return Known(subject, right, frozenset(map(key, found)))


def plan(path: str, count: int, seed: int, only: tuple[str, ...]) -> list[list[int]]:
    """The numbers of the mutants that are tried, for each that is wanted."""
    kernel = known(path)
    batches = chosen(kernel.subject, count, seed, kernel.right.traced.executed, only)
    return [[number for number, _ in batch] for batch in batches]


@lru_cache(maxsize=16)
def _every(path: str) -> dict[int, Mutant]:
    return dict(mutants(known(path).subject))


def first(path: str, numbers: list[int], seconds: float) -> tuple[Row | None, int]:
    """The row of the first of some mutants that is not equivalent (None if all are), and how many before it are."""
    kernel, every = known(path), _every(path)
    for equivalent, number in enumerate(numbers):
        row = evaluated(kernel, number, every[number], seconds)
        if row is not None:
            return row, equivalent
    return None, len(numbers)


def evaluated(kernel: Known, number: int, mutant: Mutant, seconds: float = SECONDS) -> Row | None:
    """What the check makes of a mutant; None if nothing shows that it is wrong."""
    subject = kernel.subject
    with tempfile.TemporaryDirectory(prefix="mutant") as folder:
        ptx = Path(folder) / f"{subject.name}.ptx"
        text = subject.text.edited(mutant.edits)
        with complete(ptx) as stream:
            stream.write(text.encode())
        capture = changed(subject.capture, ptx, kernel.right)
        proof = proven(OPERATORS[mutant.operator].family, capture, kernel.right)
        if proof is None:
            return None
        accepted = frozenset(mutant.lines) | mutant.repairs | proof.lines
        verdict = judged(mutant, accepted, capture, kernel.right.budget, set(kernel.findings), seconds)
    return _row(subject, number, mutant, text, proof, accepted, verdict)


def _row(
    subject: Subject, number: int, mutant: Mutant, text: str, proof: Proof, accepted: frozenset[int], verdict: Verdict
) -> Row:
    line = mutant.lines[0]
    after = text.split("\n")[line - 1].strip()
    return Row(
        subject.name, number, mutant.operator, mutant.what, line, subject.text.line(line).strip(), after,
        " ".join(map(str, sorted(accepted))), proof.how, verdict.line, verdict.fixed, round(verdict.seconds, 2),
        "\n".join(verdict.findings),
    )  # fmt: skip
