"""`simulator.verify`: whether two kernels do the same in one launch, in results and in what they may not rely on.

It is meant for compilers and for whoever changes a kernel by hand: A is the kernel that is trusted, B the other one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.check.expected import wrong_elements
from simulator.check.launch_finding import LaunchCheck, LaunchFinding
from simulator.check.launches import check_launch
from simulator.check.reference import from_other
from simulator.floating_point import guarded
from simulator.numpy_expression import ExpectationError
from simulator.program.capture import Capture, read_capture
from simulator.program.capture_writer import words
from simulator.simulation.launch.call_arguments import Declared, Sizes
from simulator.simulation.launch.captured import launch
from simulator.simulation.launch.errors import LaunchError
from simulator.simulation.launch.module import Function, Module
from simulator.simulation.launch.report import Difference

_PLACES = ("shared", "Tensor Memory", "register", "mbarrier", "barrier", "metadata")
RESULT = "wrong-result"  # the rule that is about B's results, not about what it does


@dataclass(frozen=True)
class FoundInOne:
    """A kind of finding that one of the kernels has and the other has not.

    Attributes:
        kernel: "A" or "B": which has it.
        rule: its name.
        what: the kind of access and what it is about, in words; "" if there is nothing to say.
        first: one of these findings.
    """

    kernel: str
    rule: str
    what: str
    first: LaunchFinding

    def __str__(self) -> str:
        place = f" at line {self.first.line}" if self.first.line else ""
        about = f" ({self.what})" if self.what else ""
        return f"in {self.kernel} alone: {self.rule}{about}{place}: {self.first.what}"


@dataclass(frozen=True)
class Verification:
    """How two kernels compare in one launch.

    Attributes:
        names: of the kernels A and B.
        differences: where B's results are not A's.
        findings: findings that only one of them has.
        checks: of A, and of B; B's has what explains a difference of results, if something does.
        stopped: why A or B did not run to its end, by "A" and "B"; no results are compared then.
    """

    names: tuple[str, str]
    differences: tuple[Difference, ...]
    findings: tuple[FoundInOne, ...]
    checks: tuple[LaunchCheck, LaunchCheck]
    stopped: dict[str, str]

    @property
    def equal(self) -> bool:
        """Whether both do the same: they end, with equal results, and with the same kinds of findings."""
        return not (self.differences or self.findings or self.stopped)

    @property
    def verdict(self) -> str:
        """The answer in one line."""
        if self.equal:
            shared = sum(each.serious for each in self.checks[0].findings)
            also = f", and the same {shared} finding{'s' if shared > 1 else ''}" if shared else ""
            return f"equal: {' and '.join(self.names)} give the same results{also}"
        parts = [f"results differ in {len(self.differences)} buffers"] if len(self.differences) > 1 else []
        parts += ["results differ"] if len(self.differences) == 1 else []
        parts += ["findings differ"] if self.findings else []
        parts += [f"{' and '.join(self.stopped)} did not end"] if self.stopped else []
        return f"not equal: {', '.join(parts)}"

    def table(self) -> str:
        """What differs, as text."""
        lines = [f"{kernel} stopped: {reason}" for kernel, reason in self.stopped.items()]
        lines += [f"results: {each}" for each in self.differences]
        for each in self.checks[1].findings:
            if each.rule == RESULT and each.line and self.differences:
                source = f" ({each.source})" if each.source else ""
                lines += [f"  from  line {each.line}{source} of {self.names[1]}: {each.what}"]
                lines += [f"  fix   {each.fix}"] if each.fix else []
        lines += [f"findings: {each}" for each in self.findings]
        return "\n".join([*lines, self.verdict, ""])

    def json(self) -> str:
        """One object."""
        whole = {
            "a": self.names[0],
            "b": self.names[1],
            "equal": self.equal,
            "differences": [asdict(each) for each in self.differences],
            "findings": [asdict(each) for each in self.findings],
            "stopped": self.stopped,
            "checks": [json.loads(each.json()) for each in self.checks],
        }
        return json.dumps(whole, indent=1, default=str) + "\n"


@guarded
def verify(
    a: str | Path | Module | Function | Capture,
    b: str | Path | Module | Function,
    grid: Sizes | None = None,
    block: Sizes | None = None,
    args: Sequence[Any] = (),
    *,
    entry: str | None = None,
    shared_mem: int = 0,
    cluster: Sizes | None = None,
    names: Sequence[str] = (),
    outputs: Sequence[str] | None = None,
    declared: Declared | None = None,
    rtol: float = 0.0,
    atol: float = 0.0,
) -> Verification:
    """Runs two kernels on the same launch and compares them. The arrays stay as they are.

    Args:
        a: the kernel that is trusted: a PTX file, its text, a module or a kernel of one; or a captured launch (an
            object, or the path of its JSON file), which says how it is launched.
        b: the other kernel: of a PTX file or text that of the same name, or else the only one.
        grid, block, args, shared_mem, cluster, names, outputs, declared: the launch, as of `Function.capture`; of a
            captured launch none of them.
        entry: name of both kernels, or a part of it; None: the only ones.
        rtol, atol: how far results of floating point may be apart, as of `numpy.allclose`; 0: bit for bit.

    Raises:
        LaunchError: a launch that does not fit the kernels.
        IsaError, CaptureError: what cannot be read.
        ExpectationError: tolerances that there are not.
    """
    if isinstance(a, str | Path) and str(a).endswith(".json"):
        a = read_capture(a)
    if isinstance(a, Capture):
        if grid is not None or block is not None or args:
            raise LaunchError(
                "a captured launch, and how to launch it", "a captured launch alone", rule="launch-arguments"
            )
        first = a
    else:
        if grid is None or block is None:
            raise LaunchError("no grid or no block", "verify(a, b, grid, block, args)", rule="launch-arguments")
        first = _function(a, entry).capture(
            grid, block, args, shared_mem=shared_mem, cluster=cluster, names=names, outputs=outputs, declared=declared
        )
    return verify_captures(first, _other(first, b, entry), rtol=rtol, atol=atol)


def _function(source: str | Path | Module | Function, entry: str | None) -> Function:
    if isinstance(source, Function):
        return source
    return (source if isinstance(source, Module) else Module(source)).get_function(entry)


def _other(first: Capture, b: str | Path | Module | Function, entry: str | None) -> Capture:
    """The launch of B."""
    if isinstance(b, Function):
        capture = from_other(first, b.module.source, b.name)
        return replace(capture, fmad=b.kernel.fmad)
    if isinstance(b, Module):
        return replace(from_other(first, b.source, entry), fmad=b.fmad)
    return from_other(first, b, entry)


@guarded
def verify_captures(a: Capture, b: Capture, *, rtol: float = 0.0, atol: float = 0.0) -> Verification:
    """Compares two launches that differ in their kernels alone; arguments and errors as of `verify`."""
    if not (0 <= rtol < np.inf and 0 <= atol < np.inf):
        raise ExpectationError(f"tolerances of {rtol} and {atol}", "numbers from 0 on")
    results: dict[str, dict[str, NDArray[Any]]] = {}
    stopped: dict[str, str] = {}
    for which, capture in (("A", a), ("B", b)):
        try:
            arrays = launch(replace(capture, after={})).arrays
            results[which] = {name: arrays[name] for name in a.outputs}
        except LaunchError as error:
            if error.rule in ("launch-arguments", "launch-geometry", "launch-cluster"):
                raise LaunchError(f"{which}: {error.reason}", error.legal, rule=error.rule) from None
            stopped[which] = str(error)
    differences = () if stopped else compared(results["A"], results["B"], rtol, atol)
    wanted = results["A"] if differences else {}
    checks = (
        check_launch(replace(a, after={})),
        check_launch(replace(b, after=wanted), rtol=rtol, atol=atol),
    )
    names = _names(a, b)
    found = _in_one_alone(checks, tuple(a.buffers))
    return Verification(names, differences, found, checks, stopped)


def _names(a: Capture, b: Capture) -> tuple[str, str]:
    """What to call the kernels: their files, or A and B."""
    first, second = (each.ptx.name if isinstance(each.ptx, Path) else "" for each in (a, b))
    if first and second and first != second:
        return first, second
    return (str(a.ptx), str(b.ptx)) if first and second and a.ptx != b.ptx else ("A", "B")


def compared(
    a: dict[str, NDArray[Any]], b: dict[str, NDArray[Any]], rtol: float = 0.0, atol: float = 0.0
) -> tuple[Difference, ...]:
    """Where the arrays of B are not those of A: the first place of each; see `wrong_elements`."""
    found = []
    for name, wrong in wrong_elements(b, a, rtol, atol).items():
        if wrong.any():
            mine, theirs = b[name], a[name]
            place = tuple(int(i) for i in np.argwhere(wrong)[0])
            unlike = words(mine[wrong]).view(np.uint8) != words(theirs[wrong]).view(np.uint8)
            found.append(
                Difference(name, int(wrong.sum()), int(unlike.sum()), place, mine[place].item(), theirs[place].item())
            )
    return tuple(found)


# Findings


def kind_of(finding: LaunchFinding, buffers: Sequence[str]) -> tuple[str, str]:
    """What makes findings of two kernels the same: the rule, and the kind of access and what it is about. Lines,
    registers, offsets and the names of variables differ from compiler to compiler."""
    told = f"{finding.what} {finding.other.where if finding.other else ''}"
    place = next((name for name in buffers if re.search(rf"'{re.escape(name)}'|\b{re.escape(name)}\[", told)), "")
    place = place or next((word for word in _PLACES if word in told), "")
    told_words = {*re.findall(r"\w+", finding.what), finding.other.access if finding.other else ""}
    accesses = " and ".join(each for each in ("reads", "writes", "updates") if each in told_words)
    return finding.rule, " ".join(filter(None, (accesses, place)))


def _in_one_alone(checks: tuple[LaunchCheck, LaunchCheck], buffers: Sequence[str]) -> tuple[FoundInOne, ...]:
    """The kinds of findings that one check has and the other does not. How often one occurs does not count: that is
    how often a compiler has unrolled the code."""
    kinds = [
        {kind_of(each, buffers): each for each in reversed(check.findings) if each.serious and each.rule != RESULT}
        for check in checks
    ]
    found = []
    for kernel, own, other in (("A", kinds[0], kinds[1]), ("B", kinds[1], kinds[0])):
        found += [FoundInOne(kernel, *kind, first) for kind, first in own.items() if kind not in other]
    return tuple(found)
