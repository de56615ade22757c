"""`check_launch`: runs a captured launch and reports what it may not rely on, with the lines of PTX and of the source.

What compute-sanitizer finds on a GPU (accesses outside of buffers, races, bytes that nothing has written, threads that
a barrier waits for in vain), and what it does not: metadata that PTX leaves undefined, registers that nothing has
written, bank conflicts, and which instructions a wrong result comes from.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simulator.check.launch_finding import LaunchCheck, LaunchFinding
from simulator.check.stopped_launch import with_cause
from simulator.check.watching import Shapes, error_finding, watched
from simulator.check.wrong_result import wrong_result
from simulator.execute.policy import Policy
from simulator.floating_point import guarded
from simulator.parallel import cores
from simulator.program.capture import Capture, read_capture
from simulator.program.kernel import Kernel, link
from simulator.simulation.launch.arguments import parameter_bytes
from simulator.simulation.launch.batches import Setup, execute, may_part
from simulator.simulation.launch.captured import place
from simulator.simulation.launch.errors import LaunchError
from simulator.simulation.launch.launching import Options, prepare
from simulator.simulation.launch.module import Module

CTAS = 64  # CTAs that are watched at least, spread over the grid, unless told otherwise


@guarded
def check_launch(
    capture: str | Path | Capture,
    ctas: int = CTAS,
    budget: int = 200_000_000,
    *,
    rtol: float = 0.0,
    atol: float = 0.0,
) -> LaunchCheck:
    """Checks a captured launch: watches CTAs, and compares the results of all.

    Args:
        capture: path of its JSON file, or one that has been read.
        ctas: how many CTAs to watch at least, spread over the grid; more, up to all, in a launch that is short.
        budget: warp instructions after which it is given up.
        rtol, atol: how far results may be from those of the capture, as of `numpy.allclose`; 0: bit for bit.

    Raises:
        CaptureError, IsaError: a capture or module that cannot be read.
    """
    if not isinstance(capture, Capture):
        capture = read_capture(capture)
    module = Module(capture.ptx)
    kernel = link(module.parsed, module.find(capture.entry), allocate=False, fmad=capture.fmad)
    placed = place(capture)
    options = Options(
        dynamic_shared=capture.dynamic_shared,
        cluster=capture.cluster,
        budget=budget,
        target=capture.target,
        cooperative=capture.cooperative,
    )
    params = parameter_bytes(kernel, placed.values)
    fresh = partial(_fresh, capture, kernel, options, params)
    setup = fresh()
    result = watched(setup, ctas, fresh, _shapes(capture), _unwritten(capture))
    findings, compared = result.findings, not result.stopped and bool(capture.after)
    if compared and result.ctas == setup.geometry.ctas and may_part(kernel):  # as they would run by themselves
        findings += wrong_result(capture, setup, options, result.ran, rtol=rtol, atol=atol)
    elif compared:
        again = replace(fresh(), completion=None)
        try:
            ran = int(execute(again, cores()).counts.sum())
            findings += wrong_result(capture, again, options, ran, rtol=rtol, atol=atol)
        except LaunchError as error:  # of a CTA that was not watched
            findings, compared = [error_finding(error, kernel), *findings], False
    findings = sorted(findings, key=lambda finding: (not finding.serious, finding.line))
    if capture.after and not any(each.rule == "wrong-result" for each in findings):
        findings = _with_cause(findings, with_cause(capture, setup, options, findings, result.error, rtol, atol))
    counts = (result.ctas, setup.geometry.ctas)
    return LaunchCheck(capture.path.stem, kernel.name, counts, tuple(findings), compared)


def _with_cause(findings: list[LaunchFinding], explained: LaunchFinding | None) -> list[LaunchFinding]:
    """The findings, the one first of which the cause is known: what else is found may come from it."""
    if explained is None:
        return findings
    about = explained.rule, explained.line
    return [explained, *(each for each in findings if (each.rule, each.line) != about)]


def _fresh(capture: Capture, kernel: Kernel, options: Options, params: NDArray[np.uint8]) -> Setup:
    """The launch before its first instruction; asynchronous operations complete at issue and are followed."""
    setup = prepare(kernel, capture.grid, capture.block, place(capture).memory, params, options)
    return replace(setup, completion=Policy())


def _shapes(capture: Capture) -> Shapes:
    """The declared shapes of buffers: rows, columns, elements from row to row, and bytes of an element."""
    return {
        spec.name: (*spec.declared, np.dtype(spec.type).itemsize)
        for spec in capture.buffers.values()
        if spec.declared is not None
    }


def _unwritten(capture: Capture) -> set[str]:
    """The buffers that hold nothing before the launch, where the capture has data at all."""
    if not capture.before:
        return set()
    return {spec.name for spec in capture.buffers.values() if not spec.zero and spec.name not in capture.before}
