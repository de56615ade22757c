"""How much time a search has taken."""

from __future__ import annotations

import time

WALL = 0.7  # how much a second on the clock counts: others may have the cores


class Timer:
    """Counts seconds from when it is made: of the processor, or a share of those on the clock if these are more."""

    def __init__(self) -> None:
        self._processor, self._clock = time.process_time(), time.monotonic()

    @property
    def spent(self) -> float:
        """Seconds so far."""
        return max(time.process_time() - self._processor, WALL * (time.monotonic() - self._clock))
