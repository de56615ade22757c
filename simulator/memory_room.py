"""How much memory this process may still take: asked before it is taken, so that what is too large ends in one line,
and not when the system ends the process."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from simulator.errors import ReasonedError

_MEMINFO = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


class RoomError(ReasonedError):
    """What is asked for needs more memory than there is. Attributes as in `Error`."""


def available() -> int | None:
    """Bytes that this process may still take: what the system has available, within the limits of the process and of
    its control group; None where none of them can be read."""
    found: list[int] = []
    with suppress(OSError, ValueError, StopIteration):
        line = next(line for line in _MEMINFO.read_text().splitlines() if line.startswith("MemAvailable:"))
        found.append(int(line.split()[1]) * 1024)
    with suppress(OSError, ValueError):  # "max" is no number
        limit, used = ((_GROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
        found.append(max(int(limit) - int(used), 0))
    with suppress(ImportError, OSError, ValueError):
        import resource

        limit_as, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit_as != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            found.append(max(limit_as - pages * resource.getpagesize(), 0))
    return min(found, default=None)


def check_room(size: int, what: str, times: int = 1) -> None:
    """Whether there is memory for something.

    Args:
        size: bytes of it.
        what: it in words, as in "the buffers".
        times: how often its size is needed at the same time.

    Raises:
        RoomError: there is less.
    """
    room = available()
    if room is not None and size * times > room:
        needs = f"{shown(size * times)} of memory" + (f" ({times} times {shown(size)})" if times > 1 else "")
        raise RoomError(f"{what} would take {needs}, of which {shown(room)} is available", "less, or a larger computer")


def shown(size: int) -> str:
    """A number of bytes in the largest unit of which it has one."""
    unit = min(max(size.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    return f"{size:,} bytes" if unit == 0 else f"{size / (1 << 10 * unit):,.1f} {_UNITS[unit]}"
