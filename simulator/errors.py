"""Errors of the simulator: what is wrong, where, and what would be right."""

from __future__ import annotations

from isa.errors import IsaError


class TraceError(ValueError):
    """A trace, or the data that it names, that cannot be read.

    Attributes:
        path: the file.
        line, column: place in it, counted from 1; 0 where it concerns the whole file.
        reason: what is wrong.
        legal: what would be right, possibly empty.
    """

    def __init__(self, path: str, line: int, column: int, reason: str, legal: str = "") -> None:
        super().__init__(path, line, column, reason, legal)
        self.path, self.line, self.column, self.reason, self.legal = path, line, column, reason, legal

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.path, self.line, self.column) if part)
        return f"{place}: {self.reason}; legal: {self.legal}" if self.legal else f"{place}: {self.reason}"


class ConfigError(ValueError):
    """A configuration that describes no machine.

    Attributes:
        path: the file, or the name that was asked for.
        key: the entry, as a dotted path; empty where it concerns the whole file.
        reason: what is wrong.
        legal: what would be right, possibly empty.
    """

    def __init__(self, path: str, key: str, reason: str, legal: str = "") -> None:
        super().__init__(path, key, reason, legal)
        self.path, self.key, self.reason, self.legal = path, key, reason, legal

    def __str__(self) -> str:
        place = f"{self.path}: {self.key}" if self.key else self.path
        return f"{place}: {self.reason}; legal: {self.legal}" if self.legal else f"{place}: {self.reason}"


class DeadlockError(RuntimeError):
    """Nothing is left to happen, but warps are unfinished.

    Attributes:
        waiting: one line for each group of warps: who waits where for what.
    """

    def __init__(self, waiting: tuple[str, ...]) -> None:
        super().__init__(waiting)
        self.waiting = waiting

    def __str__(self) -> str:
        return "deadlock: " + "; ".join(self.waiting)


def check_option(name: str, given: str, legal: tuple[str, ...]) -> None:
    """IsaError if an option has a value that it cannot have."""
    if given not in legal:
        raise IsaError(str(given), -1, f"{name}={given!r} is not known", ", ".join(map(repr, legal)))


class ViewError(ValueError):
    """A view of a run that cannot be had: a timeline, stalls, a roofline.

    Attributes:
        reason: what is wrong.
        legal: what would be right.
    """

    def __init__(self, reason: str, legal: str) -> None:
        super().__init__(reason, legal)
        self.reason, self.legal = reason, legal

    def __str__(self) -> str:
        return f"{self.reason}; legal: {self.legal}"
