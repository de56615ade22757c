"""Spreads large batches over the cores of the computer. Threads are enough, because numpy and the compiled kernel
release the interpreter."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from isa.errors import IsaError
from simulator.parallel import ALONE, cores

_WORTH = 1 << 20  # products of a share below which a thread costs more than it brings (about a millisecond of work)


def thread_count() -> int:
    """Threads to use: `TCSIM_THREADS` from the environment, or the cores that this process may use; one where there are
    no threads. Raises IsaError if it is no positive number."""
    if ALONE:
        return 1
    setting = os.environ.get("TCSIM_THREADS", "")
    if not setting:
        return cores()
    if not setting.isdecimal() or int(setting) < 1:
        raise IsaError(setting, -1, f"TCSIM_THREADS={setting!r} is no number of threads", "a positive number")
    return int(setting)


def spread(cases: int, products: int, function: Callable[[slice], None]) -> None:
    """Calls `function` with slices that cover all cases, on several threads if there is work enough.

    Args:
        cases: how many there are.
        products: of one case.
        function: does the cases of a slice; the slices are disjoint.
    """
    shares = min(thread_count(), cases * products // _WORTH) if cases * products >= 2 * _WORTH else 1
    if shares < 2:
        function(slice(0, cases))
        return
    bounds = [cases * i // shares for i in range(shares + 1)]
    with ThreadPoolExecutor(shares) as pool:
        list(pool.map(function, (slice(bounds[i], bounds[i + 1]) for i in range(shares))))
