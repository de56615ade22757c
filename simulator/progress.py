"""How far long work is: what it calls, and when."""

from __future__ import annotations

import time
from collections.abc import Callable

Progress = Callable[[int, int, str], None]
"""What long work calls: how much is done, how much there is, and of what."""


def unseen(done: int, count: int, what: str) -> None:
    """The `Progress` that nobody looks at."""


class Pace:
    """Tells a `Progress` a few times a second how far some work is, and nothing in its first second.

    Args:
        what: the name of what is counted.
        count: how much there is of it.
    """

    QUIET, EVERY = 1.0, 0.2  # seconds until the first word, and from word to word

    def __init__(self, progress: Progress, what: str, count: int) -> None:
        self.progress, self.what, self.count = progress, what, count
        self._next = time.monotonic() + self.QUIET

    @property
    def due(self) -> bool:
        """Whether it is time for a word."""
        return time.monotonic() >= self._next

    def tell(self, done: int) -> None:
        """Tells how much is done."""
        self._next = time.monotonic() + self.EVERY
        self.progress(min(done, self.count), self.count, self.what)
