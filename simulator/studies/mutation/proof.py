"""Shows that a mutant is wrong, without the check that is judged, and which lines its wrong behaviour has.

A mutant counts if one of these is so and the right kernel has none of it:

* it fails, does not end, or gives other bits, where registers and shared memory begin with junk;
* a mutant of the order of things: it fails or gives other bits when asynchronous work completes as late as it may;
* a mutant of the order of things: `trace` finds accesses that nothing orders, or a wait or fence that PTX demands.

All others are equivalent as far as this can tell (registers that hold equal data, a barrier behind another) and are
left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from isa.errors import Error
from simulator.program.capture import Capture
from simulator.studies.mutation.mutant import ORDER
from simulator.studies.mutation.outcome import LONGER, Outcome, with_completion, with_junk
from simulator.studies.mutation.trace import Trace, trace

SEED = 1
_SHORT = 10_000  # warp instructions that any mutant may take besides


@dataclass(frozen=True)
class Right:
    """How the right kernel behaves.

    Attributes:
        outcome: its outputs.
        latest: the same with asynchronous work that completes as late as it may.
        traced: what its instructions are, and what `trace` says of them.
        budget: warp instructions that a mutant of it may take.
    """

    outcome: Outcome
    latest: Outcome
    traced: Trace
    budget: int


@dataclass(frozen=True)
class Proof:
    """Why a mutant is wrong.

    Attributes:
        how: in words.
        lines: of what goes wrong: both sides of what is out of order, where it stops.
    """

    how: str
    lines: frozenset[int]


def behaviour(capture: Capture) -> Right:
    """Runs the right kernel.

    Raises:
        ValueError: a kernel that fails, or whose result is not the captured one, or depends on junk.
    """
    first, second = with_junk(capture, SEED), with_junk(capture, SEED + 1)
    given = Outcome(dict(capture.after)) if capture.after else first
    if first.error or not first.same(second) or not first.same(given):
        reason = first.error or "its result is not the captured one, or depends on what nothing has written"
        raise ValueError(f"{capture.path.name} is no right kernel: {reason}")
    budget = LONGER * first.ran + _SHORT
    return Right(first, with_completion(capture, "latest", budget), trace(capture, budget), budget)


def completed(capture: Capture, right: Right) -> Capture:
    """The capture with the outputs that the right kernel gives, where it has none."""
    return replace(capture, after=capture.after or right.outcome.arrays)


def changed(capture: Capture, ptx: Path, right: Right) -> Capture:
    """The capture with a mutant's module, and with the outputs that the right kernel gives."""
    return replace(completed(capture, right), path=ptx.with_suffix(".json"), ptx=ptx)


def proven(family: str, capture: Capture, right: Right) -> Proof | None:
    """Why a mutant is wrong; None where nothing shows it.

    Args:
        family: of the mutant's operator.
        capture: with the mutant's module.
    """
    try:
        outcome = with_junk(capture, SEED, right.budget)
    except Error as error:  # a module that is no longer PTX
        outcome = Outcome({}, f"not PTX: {error}")
    if outcome.error.startswith("not PTX"):
        return None
    how = f"fails: {outcome.error}" if outcome.error else "gives other bits" if not outcome.same(right.outcome) else ""
    if family == ORDER and not how:
        late = with_completion(capture, "latest", right.budget)
        if not late.same(right.latest) and not right.latest.error:
            how = f"with late completion it fails: {late.error}" if late.error else "late completion gives other bits"
    traced = trace(capture, right.budget, SEED)
    pairs = traced.pairs - right.traced.pairs
    if family == ORDER and not how and pairs:
        how = "; ".join(f"{what} (lines {first} and {second})" for what, first, second in sorted(pairs)[:3])
    if not how:
        return None
    lines = {line for _, *both in pairs for line in both if line} | ({outcome.line} if outcome.line else set())
    return Proof(how, frozenset(lines))
