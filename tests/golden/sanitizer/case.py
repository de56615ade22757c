"""A kernel of the corpus that judges the sanitizer: how it is launched, on what, what it must give, and the copies of
it that have one mistake each.

A mistake changes lines of the source that a comment marks: `// @store` at the end of a line gives it the name "store".
The right source is never told from the wrong one by its line numbers.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
SOURCES = HERE / "src"
CAPTURES = HERE / "captures"
TRUTH = HERE / "truth.json"

Array = NDArray[Any]
Edit = str | Sequence[str]
_TAG = re.compile(r"@(\w+)")


@dataclass(frozen=True)
class Launch:
    """The arguments of a launch and what it must give.

    Attributes:
        params: for each parameter the name of a buffer, or (type, number).
        before: by name, what the buffers hold; outputs that are not named begin with zeros.
        after: by name, what the outputs hold afterwards. numpy made it, no simulator.
    """

    params: Sequence[str | tuple[str, int | float]]
    before: Mapping[str, Array]
    after: Mapping[str, Array]


@dataclass(frozen=True)
class Bug:
    """A copy of a right kernel with one mistake.

    Attributes:
        name: of the capture.
        kernel: the right one.
        kind: what sort of mistake.
        edits: by the name of a line, its new code, or [old, new] for a part of it.
        accept: the names of further lines that a finding may rightly blame: both sides of a race, the place where a
            barrier is missing.
        says: what is wrong.
        needs_reference: whether nothing but the expected result shows it.
        report: the public report that it reproduces, a name of reports.toml; "" for none.
    """

    name: str
    kernel: str
    kind: str
    edits: Mapping[str, Edit]
    accept: Sequence[str]
    says: str
    needs_reference: bool = False
    report: str = ""


@dataclass(frozen=True)
class Case:
    """A right kernel: src/NAME.cu, whose entry has the same name.

    Attributes:
        says: what it shows, that a careless tool may accuse.
        data: makes arguments and expected outputs from a generator of random numbers.
    """

    name: str
    says: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    data: Callable[[np.random.Generator], Launch]
    arch: str = "sm_80"
    dynamic_shared: int = 0
    cluster: tuple[int, ...] | None = None
    cooperative: bool = False

    @property
    def bugs(self) -> tuple[Bug, ...]:
        """The copies with a mistake."""
        return tuple(bug for bug in bugs() if bug.kernel == self.name)

    @property
    def source(self) -> str:
        """The text of the right kernel."""
        return (SOURCES / f"{self.name}.cu").read_text()


@functools.cache
def reports() -> dict[str, dict[str, str]]:
    """The address and the title of each public report, by its name."""
    return tomllib.loads((HERE / "reports.toml").read_text())


@functools.cache
def bugs() -> tuple[Bug, ...]:
    """All mistakes, as bugs.toml has them."""
    entries = tomllib.loads((HERE / "bugs.toml").read_text())
    return tuple(Bug(name, **entry) for name, entry in entries.items())


def tagged(source: str) -> dict[str, list[int]]:
    """By name, the numbers of the lines that have it."""
    lines: dict[str, list[int]] = {}
    for number, line in enumerate(source.splitlines(), 1):
        for tag in _TAG.findall(line.rpartition("//")[2]) if "//" in line else ():
            lines.setdefault(tag, []).append(number)
    return lines


def mutated(source: str, edits: Mapping[str, Edit]) -> str:
    """The source with the edits of a bug; ValueError where a line or a part of it is not there."""
    lines, places = source.splitlines(), tagged(source)
    for tag, edit in edits.items():
        if tag not in places:
            raise ValueError(f"no line is marked @{tag}")
        for number in places[tag]:
            code, _, comment = lines[number - 1].rpartition("//")
            if not isinstance(edit, str):
                if edit[0] not in code:
                    raise ValueError(f"@{tag}: {edit[0]!r} is not in {code!r}")
                code = code.replace(edit[0], edit[1])
            else:
                code = edit
            lines[number - 1] = f"{code}//{comment}"
    return "\n".join(lines) + "\n"


def lines_of(source: str, tags: Sequence[str]) -> list[int]:
    """The numbers of the lines with these names; ValueError for a name that no line has."""
    places = tagged(source)
    missing = [tag for tag in tags if tag not in places]
    if missing:
        raise ValueError(f"no line is marked @{', @'.join(missing)}")
    return sorted({number for tag in tags for number in places[tag]})
