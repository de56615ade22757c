"""Why a launch stops, or leaves its memory: the mistake without which it ends and gives what is expected."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from simulator.check.blame.stops import explain_stop
from simulator.check.blame.trial_launch import Stop
from simulator.check.launch_finding import LaunchFinding
from simulator.check.wrong_result import Told, told_of
from simulator.execute.geometry import Geometry
from simulator.program.capture import Capture
from simulator.program.kernel import Kernel
from simulator.simulation.launch.batches import Setup
from simulator.simulation.launch.errors import LaunchError
from simulator.simulation.launch.launching import Options

STRAYS = ("out-of-bounds", "shared-memory-bounds", "misaligned-address")  # what is watched on, and stops elsewhere
UNWRITTEN = "read-before-write"
ITEMS_EACH, FEWEST, MOST = 30, 6_000, 20_000  # items that a launch may take until it has ended: by its length, limits
END = "the launch ends and every element is right"
_CTA = re.compile(r"CTA \((\d+), (\d+), (\d+)\)")


def with_cause(
    capture: Capture,
    setup: Setup,
    options: Options,
    findings: Sequence[LaunchFinding],
    error: LaunchError | None,
    rtol: float,
    atol: float,
) -> LaunchFinding | None:
    """The finding of what stops a launch, or of an access outside of memory or to bytes that nothing has written, with
    the mistake that it comes from; None if there is no such finding, or no mistake is found.

    Args:
        setup: the launch after it has stopped, its kernel linked with `allocate=False`.
        findings: of the launch.
        error: that has stopped it.
    """
    kernel = setup.kernel
    own = [each for each in findings if error is not None and (each.rule, each.line) == (error.rule, error.line)]
    strays = [each for each in findings if each.serious and each.rule in STRAYS]
    strays += [each for each in findings if each.serious and each.rule == UNWRITTEN and "bytes" in each.what]
    about = [*own[:1], *strays]
    if not about:
        return None
    items = min(max(ITEMS_EACH * len(kernel.items), FEWEST), MOST)
    stop = Stop(_places(kernel, about), _ctas(about, setup.geometry), items)
    answers = explain_stop(capture, setup, options, stop, rtol, atol)
    if not answers:
        return None
    told = told_of(kernel, answers, END)
    lines = {item.line for item in told.items}
    chosen = next((each for each in about if each.line in lines), about[0])
    return _with(chosen, told)


def _places(kernel: Kernel, about: Sequence[LaunchFinding]) -> frozenset[int]:
    """The places that some findings are about."""
    lines = {each.line for each in about}
    return frozenset(item.index for item in kernel.items if item.line in lines)


def _ctas(about: Sequence[LaunchFinding], geometry: Geometry) -> NDArray[np.int64] | None:
    """The CTA that the first of some findings names; None if it names none."""
    found = _CTA.search(about[0].thread)
    if found is None:
        return None
    x, y, z = map(int, found.groups())
    return np.array([x + geometry.grid[0] * (y + geometry.grid[1] * z)], np.int64)


def _with(finding: LaunchFinding, told: Told) -> LaunchFinding:
    """A finding with its cause."""
    line = told.items[0].line
    where = "" if line == finding.line else f"at line {line}: "
    mistake = f"the mistake at line {line}" if where else "this mistake"
    fix = f"{where}{told.repair}" + (f"; {finding.fix}" if finding.fix.startswith("legal") else "")
    also = tuple(each for each in dict.fromkeys((line, *told.also)) if each != finding.line)
    return replace(finding, what=f"{finding.what}. Without {mistake} {END}", fix=fix, also=also)
