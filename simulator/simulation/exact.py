"""The exact results of a program beside the chip's: a second machine runs it, whose accumulators are rounded once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from simulator.errors import Error
from simulator.progress import Progress
from simulator.simulation.demand import multiply_adds
from simulator.simulation.distance import Distance, distances
from simulator.simulation.interpreter import Executed
from simulator.simulation.session import Session

MOST_MULTIPLY_ADDS = 1 << 26
"""Of the matrix instructions of a run whose exact results are computed without being asked for."""


@dataclass(frozen=True)
class ExactResults:
    """The exact results of a run.

    Attributes:
        arrays: by name, what the program stores.
        distances: by name, how far the chip's array is from that.
        left_out: why there are none; empty if there are.
    """

    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    distances: dict[str, Distance] = field(default_factory=dict)
    left_out: str = ""


def exact_results(
    session: Session, executed: Executed, wanted: bool | None, progress: Progress | None = None
) -> ExactResults:
    """Runs the program of a session on a machine with exact sums, from the same initial state.

    Args:
        session: of the run.
        executed: the run, on the chip's machine.
        wanted: whether to do it; None: if it does not take long.
        progress: is told now and then how much has been executed.
    """
    if session.arithmetic == "exact":
        return ExactResults(executed.arrays)
    if session.arithmetic == "none" or wanted is False:
        return ExactResults(left_out="not computed")
    fma = multiply_adds(session.program, executed).fma
    if not session.program.stores:
        return ExactResults(left_out="not computed: the trace stores nothing")
    if wanted is None and fma > MOST_MULTIPLY_ADDS:
        more = f"{fma:,} multiply-adds, more than {MOST_MULTIPLY_ADDS:,}"
        return ExactResults(left_out=f"left out: {more}; exact=True (--exact) computes it")
    try:
        exact = session.run(machines=session.fresh(carries=True), progress=progress)
    except Error as error:  # the exact values may lead elsewhere, where they decide on addresses or waits
        return ExactResults(left_out=f"not computed: with exact values the run stops: {error}")
    return ExactResults(exact.arrays, distances(session.program, executed, exact))
