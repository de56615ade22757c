"""Which mistake explains that a launch stops: hypotheses are tried until it ends, and gives what is expected."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from simulator.check.blame.change import Hypothesis
from simulator.check.blame.explain import hypotheses
from simulator.check.blame.search import SECONDS
from simulator.check.blame.timer import Timer
from simulator.check.blame.trial_launch import Stop, search_of
from simulator.program.capture import Capture
from simulator.program.kernel import Branch, Kernel, Operation
from simulator.simulation.launch.batches import Setup
from simulator.simulation.launch.launching import Options

ELSEWHERE = 0.6  # weight of a mistake that the place at which a launch stops does not depend on, as a share
HERE = 1.2  # weight of a mistake at the place itself, as a share
LEFT_OUT = 0.4  # weight of an instruction that is one too many, as a share


def explain_stop(
    capture: Capture,
    setup: Setup,
    options: Options,
    stop: Stop,
    rtol: float = 0.0,
    atol: float = 0.0,
    seconds: float = SECONDS,
) -> list[Hypothesis]:
    """The hypotheses with which a launch that stops ends and gives what is expected, the likeliest first.

    Args:
        setup: the launch after it has stopped; its kernel is linked with `allocate=False`.
    """
    search = search_of(capture, setup, options, rtol, atol, Timer(), seconds, stop)
    if search is None:
        return []
    kernel = setup.kernel
    near = decides(kernel, stop.places)
    _, weighted = hypotheses(kernel, search.executed)
    search.try_all(_likely(each, stop.places, near) for each in weighted)
    return search.answers()


def _likely(each: Hypothesis, places: Set[int], near: Set[int]) -> Hypothesis:
    """A hypothesis with the weight that it has where a launch stops: what is left out does not stop it, whatever is
    wrong with it.

    Args:
        places: of the items at which it stops.
        near: the places of what decides about them.
    """
    share = 1.0 if near & each.changes.keys() else ELSEWHERE
    share *= HERE if places & each.changes.keys() else 1.0
    share *= LEFT_OUT if () in each.changes.values() else 1.0
    return replace(each, weight=share * each.weight)


def decides(kernel: Kernel, places: Set[int]) -> Set[int]:
    """The places of what decides about some items: whether threads come to them, how often, and with what values."""
    wanted = {name for place in places if isinstance(each := kernel.items[place], Operation) for name in each.reads}
    found = set(places)
    for each in kernel.items:
        if isinstance(each, Branch) and each.guard is not None:
            first, last = sorted((each.index, each.target))
            if any(first <= place <= last for place in places):
                wanted.add(each.guard.predicate.name)
    pending = places
    while pending:
        pending = {
            each.index
            for each in kernel.items
            if isinstance(each, Operation) and each.index not in found and wanted & set(each.writes)
        }
        found |= pending
        wanted = {name for each in pending if isinstance(item := kernel.items[each], Operation) for name in item.needs}
    return found
