"""Runs batches of trials beside one another, in forked processes."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from simulator.check.blame.arena import Arena, Changes, Results
from simulator.parallel import ALONE, begin_worker, cores, undisturbed

MOST = 4  # processes
PATIENCE = 3.0  # times as long as the first batch took, and so many seconds, for which others are waited for


def processes() -> int:
    """How many batches may run at a time."""
    if ALONE or "fork" not in multiprocessing.get_all_start_methods():
        return 1
    return min(cores(), MOST)


def run_beside(arena: Arena, batches: Sequence[Sequence[Changes]]) -> list[Results]:
    """The results of each batch; all but the first run in processes of their own."""
    if len(batches) == 1:
        return [arena.run(batches[0])]
    context = multiprocessing.get_context("fork")
    running = []
    try:
        with undisturbed():
            for batch in batches[1:]:
                receiver, sender = context.Pipe(duplex=False)
                process = context.Process(target=_work, args=(arena, batch, sender.send), daemon=True)
                process.start()
                sender.close()
                running.append((process, receiver, batch))
        began = time.monotonic()
        found = [arena.run(batches[0])]
        patience = PATIENCE * (time.monotonic() - began) + PATIENCE
        for process, receiver, batch in running:
            results = None
            with suppress(EOFError):  # it was ended from outside
                results = receiver.recv() if receiver.poll(patience) else None
            found.append(arena.run(batch) if results is None else results)
            if results is not None:
                process.join()
        return found
    finally:
        for process, receiver, _ in running:
            process.terminate()
            receiver.close()


def _work(arena: Arena, batch: Sequence[Changes], send: Callable[[Results], None]) -> None:
    """Runs in a forked process: sends what a batch gave."""
    begin_worker()
    results = arena.run(batch)
    with suppress(OSError):  # who waits for it may have gone
        send(results)
