"""The simulator's errors. Each says what is wrong, where, and what would be right.

All of them derive from `Error`, which is defined in `isa.errors`, because `isa` imports nothing of the simulator.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from isa.errors import Error, IsaError, UndefinedBehavior

__all__ = [
    "ConfigError",
    "DeadlockError",
    "Error",
    "IsaError",
    "MissingDependency",
    "ReasonedError",
    "TraceError",
    "UndefinedBehavior",
    "ViewError",
    "check_option",
    "did_you_mean",
]


def placed(place: str, reason: str, legal: str) -> str:
    """The line of an error: where, what, and what would be right; without what is empty."""
    return one_line((f"{place}: " if place else "") + reason + (f"; legal: {legal}" if legal else ""))


_SHOWN = 400  # letters of a word that a line repeats


def one_line(text: str) -> str:
    """A text in one line of words that can be read: what would end the line, or do something to a terminal, is written
    as escapes (names of files and arrays may hold any character), and words of thousands of letters are cut."""
    if not text.isprintable():
        text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    if len(text) > _SHOWN:
        text = " ".join(word if len(word) <= _SHOWN else f"{word[:_SHOWN]}..." for word in text.split(" "))
    return text


_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
"""What does something to a terminal, or to the order of letters on it, and is no end of a line or tab."""


def without_controls(text: str) -> str:
    """A text of several lines that does nothing to a terminal: control characters are written as escapes (names in
    configs, campaigns and kernels may hold any)."""
    return _CONTROLS.sub(lambda match: repr(match[0])[1:-1], text)


class TraceError(Error, ValueError):
    """A trace, or the data that it names, cannot be read.

    Attributes:
        path: the file.
        line, column: the place in it, counted from 1; 0 where the error concerns the whole file.
        rule, reason, legal, position, operand: as in `Error`; the position is that in its line, counted from 0.
    """

    def __init__(
        self, path: str, line: int, column: int, reason: str, legal: str = "", rule: str = "", operand: str = ""
    ) -> None:
        super().__init__(path, line, column, reason, legal, rule, operand)
        self.path, self.line, self.column, self.reason, self.legal = path, line, column, reason, legal
        self.rule, self.operand, self.position = rule, operand, column - 1

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.path, self.line, self.column) if part)
        return placed(place, self.reason, self.legal)


class KeyedError(Error, ValueError):
    """A file with keys is wrong.

    Attributes:
        path: the file, or the name that was asked for.
        key: the entry, as a dotted path; empty where the error concerns the whole file.
        reason, legal: as in `Error`.
    """

    def __init__(self, path: str, key: str, reason: str, legal: str = "") -> None:
        super().__init__(path, key, reason, legal)
        self.path, self.key, self.reason, self.legal = path, key, reason, legal

    def __str__(self) -> str:
        place = f"{self.path}: {self.key}" if self.key else self.path
        return placed(place, self.reason, self.legal)


class ConfigError(KeyedError):
    """A configuration is wrong: a file that cannot be read, or values that mean nothing.

    Attributes:
        path: the file, or the name that was asked for.
        key: the entry, as a dotted path; empty where the error concerns the whole file.
        reason, legal: as in `Error`.
    """


class DeadlockError(Error, RuntimeError):
    """The simulation cannot go on: nothing is left to happen, but warps are unfinished.

    Attributes:
        waiting: one line for each group of warps: which warps wait, where, and for what.
        reason: these lines as one.
    """

    rule = "deadlock"

    def __init__(self, waiting: tuple[str, ...]) -> None:
        super().__init__(waiting)
        self.waiting, self.reason = waiting, "; ".join(waiting)

    def __str__(self) -> str:
        return f"deadlock: {self.reason}"


def did_you_mean(asked: str, known: Iterable[str], before: str = "") -> str:
    """What an error adds about a name that does not exist: ", did you mean 'NEAREST'?", or nothing if none is near.

    Args:
        known: the names that exist.
        before: what stands in front of the name that is meant.
    """
    near = get_close_matches(asked, list(known), 1)
    return f", did you mean '{before}{near[0]}'?" if near else ""


def check_option(name: str, given: str | None, legal: tuple[str | None, ...]) -> None:
    """Raises IsaError if an option has a value that it cannot have."""
    if given not in legal:
        raise IsaError(str(given), -1, f"{name}={given!r} is not known", ", ".join(map(repr, legal)))


class ReasonedError(Error):
    """An error that is about no place: what is wrong, and what would be right if that can be said."""

    def __init__(self, reason: str, legal: str = "") -> None:
        super().__init__(reason, legal)
        self.reason, self.legal = reason, legal

    def __str__(self) -> str:
        return placed("", self.reason, self.legal)


class ViewError(ReasonedError, ValueError):
    """A view of a run, such as a timeline, stalls or a roofline, is not possible. Attributes as in `Error`."""


class DesignError(ReasonedError, ValueError):
    """A hypothetical core cannot do what was asked of it. Attributes as in `Error`."""


class MissingDependency(Error, ImportError):  # noqa: N818 - what is missing, not what went wrong in it
    """A package that is needed only for this is not installed.

    Attributes:
        package: the name of the package.
        extra: the extra of tcsim that installs it.
    """

    def __init__(self, package: str, purpose: str, extra: str) -> None:
        super().__init__(package, purpose, extra)
        self.package, self.extra = package, extra
        self.reason, self.legal = f"{purpose} needs {package}, which is not installed", f"pip install 'tcsim[{extra}]'"

    def __str__(self) -> str:
        return f"{self.reason}; legal: {self.legal}"
