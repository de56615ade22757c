"""Where the results of a launch are not those that were expected, and the mistake that they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.check.blame.change import Hypothesis
from simulator.check.blame.explain import Explanation, explain
from simulator.check.expected import output_arrays, wrong_elements
from simulator.check.launch_finding import LaunchFinding
from simulator.check.rules import launch_rule
from simulator.program.capture import Capture
from simulator.program.kernel import Kernel, Operation
from simulator.simulation.launch.batches import Setup
from simulator.simulation.launch.blame import source_of
from simulator.simulation.launch.launching import Options

MOST_NAMED = 4  # lines of one fix that are listed
MOST_INSTRUCTIONS = 3_000_000  # warp instructions of a launch whose result is explained


def wrong_result(
    capture: Capture, setup: Setup, options: Options, ran: int, rtol: float = 0.0, atol: float = 0.0
) -> list[LaunchFinding]:
    """Where results differ from what the capture says, with the mistake if one is found, or else with the instructions
    that feed what is wrong.

    Args:
        setup: the launch after it has run, its kernel linked with `allocate=False`.
        ran: warp instructions of the launch; a long one is not run again.
        rtol, atol: how far elements may be from what is expected; 0: bit for bit.
    """
    arrays = output_arrays(capture, setup.memory)
    wrong = wrong_elements(arrays, capture.after, rtol, atol)
    count = sum(int(each.sum()) for each in wrong.values())
    if not count:
        return []
    differs = _differs(arrays, capture.after, wrong)
    found = Explanation((), None, (), {})
    if ran <= MOST_INSTRUCTIONS:
        found = explain(capture, setup, options, rtol, atol)
    return [_finding(setup.kernel, found, differs, count)]


@dataclass(frozen=True)
class Told:
    """Hypotheses that explain something, in words.

    Attributes:
        items: that the likeliest one changes.
        mistake: what is wrong, and what is so without it.
        fix: what to change.
        repair: the mistake and what to change.
        also: further lines that are changed.
    """

    items: Sequence[Operation]
    mistake: str
    fix: str
    repair: str
    also: tuple[int, ...]


def told_of(kernel: Kernel, answers: Sequence[Hypothesis], end: str) -> Told:
    """Hypotheses in words, those at other lines as alternatives.

    Args:
        answers: the likeliest first.
        end: what is so without the mistake.
    """
    best, *rivals = answers
    lines = _lines(kernel, best)
    others = [each for each in rivals if not set(_lines(kernel, each)) & set(lines)]
    also = tuple(dict.fromkeys(line for each in (best, *others) for line in _lines(kernel, each)))[1:]
    what = f"{_capital(best.mistake)}: without this mistake {end}"
    fix = best.fix_of(kernel) + ("" if best.told else _elsewhere(_items(kernel, best), lines))
    repair = f"{best.mistake}: {fix}"
    for each in others:
        where = f"; or, at line {_lines(kernel, each)[0]}: "
        what += where + each.mistake
        fix += where + each.fix_of(kernel)
        repair += f"{where}{each.mistake}: {each.fix_of(kernel)}"
    return Told(_items(kernel, best), what, fix, repair, also)


def _finding(kernel: Kernel, found: Explanation, differs: str, count: int) -> LaunchFinding:
    if found.answers:
        told = told_of(kernel, found.answers, "every element is right")
        return _result(told.items, f"{differs}. {told.mistake}", told.fix, count, told.also)
    if found.partial is not None:
        best, left = found.partial.hypothesis, found.partial.left
        lines = _lines(kernel, best)
        what = f"{differs}. Explained in part: {best.mistake} ({left} elements stay wrong without this mistake)"
        return _result(_items(kernel, best), what, best.fix_of(kernel), count, tuple(lines[1:]))
    if found.slice:
        lines = [item.line for item in found.slice]
        where = f"line{'s' * (len(lines) > 1)} {_listed(lines)}"
        what = f"{differs}. No single change mends it; what is wrong comes through {where}"
        return _result(found.slice, what, launch_rule("wrong-result").fix, count, tuple(lines[1:]))
    return _result((), f"{differs}. No single instruction explains it", "what is found besides", count, ())


def _result(items: Sequence[Operation], what: str, fix: str, count: int, also: tuple[int, ...]) -> LaunchFinding:
    first = items[0] if items else None
    line, source, text = (first.line, source_of(first), first.text) if first else (0, "", "")
    return LaunchFinding("wrong-result", line, source, text, "", what, fix, count, also=also)


def _items(kernel: Kernel, hypothesis: Hypothesis) -> list[Operation]:
    items = [kernel.items[place] for place in sorted(hypothesis.changes)]
    return [item for item in items if isinstance(item, Operation)]


def _lines(kernel: Kernel, hypothesis: Hypothesis) -> list[int]:
    return list(dict.fromkeys(item.line for item in _items(kernel, hypothesis)))


def _elsewhere(items: Sequence[Operation], lines: Sequence[int]) -> str:
    """Where else a fix is needed, in words."""
    others = lines[1:]
    if not others:
        return ""
    if len(others) < MOST_NAMED:
        return f" (and so at line{'s' * (len(others) > 1)} {_listed(others)})"
    same = len({item.source for item in items}) == 1 and items[0].source is not None
    return f" (and so at {len(others)} others{' from the same line of the source' if same else ''})"


def _listed(lines: Sequence[int]) -> str:
    return ", ".join(map(str, lines))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _differs(
    arrays: Mapping[str, NDArray[np.generic]],
    expected: Mapping[str, NDArray[np.generic]],
    wrong: Mapping[str, NDArray[np.bool_]],
) -> str:
    """What differs, in words: each buffer, how many elements, and the first of them."""
    parts = []
    for name, each in wrong.items():
        if each.any():
            place = tuple(int(index) for index in np.argwhere(each)[0])
            where = ", ".join(map(str, place))
            got, meant = arrays[name][place].item(), expected[name][place].item()
            parts.append(
                f"buffer '{name}': {int(each.sum())} of {each.size} elements are wrong; the first is [{where}]: {got}, "
                f"expected {meant}"
            )
    return "; ".join(parts)
