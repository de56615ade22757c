"""Runs blocks of work in this process, in several processes, or on a Dask cluster. The results are the same, byte for
byte, whatever does the work; only a few blocks are in memory at a time.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import contextmanager
from itertools import islice
from typing import Any

from isa.arguments import integer
from simulator.errors import MissingDependency, ReasonedError

Work = Callable[[str, Any], bytes]
ALONE = sys.platform in ("emscripten", "wasi")
"""Whether this is WebAssembly, which has neither threads nor other processes."""
MOST_WORKERS = 4096  # more processes than any computer has cores for
CONNECT = "10s"  # for which a scheduler may take to answer
_PR_SET_PDEATHSIG = 1  # of prctl, linux/prctl.h


def cores() -> int:
    """The cores that this process may use."""
    if ALONE:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class ClusterError(ReasonedError, RuntimeError):
    """What should do the work cannot be reached, or has gone. Attributes as in `Error`."""


def worked(
    work: Work,
    key: str,
    tasks: Iterator[tuple[int, Any]],
    workers: int,
    cluster: str,
    count: int,
    tick: Callable[[], None] | None = None,
) -> Generator[tuple[int, bytes], None, None]:
    """The results of `work(key, block)` for each numbered block, in any order.

    Args:
        work: the function that does a block.
        key: what it needs to know beside the block.
        tasks: the blocks with their numbers.
        workers: how many processes.
        cluster: the address of a Dask scheduler, or "local"; "" for none.
        count: how many blocks there are.
        tick: is called every second while other processes work.
    """
    integer(workers, 0, MOST_WORKERS, "workers")
    if cluster:
        yield from _on_cluster(work, key, tasks, cluster)
    elif workers <= 1 or count <= 1 or ALONE:
        for number, block in tasks:
            yield number, work(key, block)
    else:
        from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor

        with ProcessPoolExecutor(min(workers, count), mp_context=_start_method(), initializer=begin_worker) as pool:
            try:
                yield from _bounded(lambda block: _submitted(pool, work, key, block), tasks, 2 * workers, tick)
            except BrokenProcessPool:
                reason = "a process that did the work was ended from outside, perhaps for want of memory"
                raise ClusterError(reason, "the same command again, with fewer --workers") from None
            except BaseException:
                _end(pool)
                raise


def _start_method() -> Any:
    """Forked processes where the system has them, also where that is not Python's own choice (3.14): they know what
    this process has set, and a script needs no guard around its first call."""
    import multiprocessing

    return multiprocessing.get_context("fork" if "fork" in multiprocessing.get_all_start_methods() else None)


def _end(pool: Any) -> None:
    """Ends a pool whose processes are at work; there is no other way to end a block than to end its process. One that
    ends in the middle of sending a result leaves a message without an end, for which the pool would wait for ever, as
    this process could still write the rest: so it no longer can. A block that is too long for the pipe, and half sent,
    would wait for a reader for ever, as this process could still read it: so it no longer can that either."""
    writer = getattr(pool._result_queue, "_writer", None)
    if writer is not None:
        writer.close()
    for process in list((pool._processes or {}).values()):
        process.terminate()
    reader = getattr(pool._call_queue, "_reader", None)
    if reader is not None:
        reader.close()
    pool.shutdown(cancel_futures=True)


def _submitted(pool: Executor, work: Work, key: str, block: Any) -> Future[bytes]:
    """Gives a block to the processes, the first of which start then."""
    with undisturbed():
        return pool.submit(_told, work, key, block)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ctrl-C is heard behind the block, in which processes start: not between a start and the line that remembers the
    process, and not in what Python does at a fork, where its exception would be dropped.

    The signal is noted and not blocked: while the main thread blocks it, the system gives it to another thread (numpy
    has some), and a main thread that has gone on to wait for a process is not woken by that.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGINT) is None:
        yield  # Python hears signals in the main thread alone, and cannot restore what others have installed
        return
    heard: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: heard.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if heard:
        signal.raise_signal(signal.SIGINT)


def end_with_parent() -> None:
    """Lets a process that was started to do work end when the process that started it does, however that ends: nobody
    would read the results. Nor does it keep the pipe open that the other one prints to.

    Linux kills it at once. Elsewhere, and where Linux cannot, a thread waits at the end of a pipe that the parent
    holds.
    """
    import multiprocessing

    parent = multiprocessing.parent_process()
    if parent is None:
        return
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(nowhere, stream)
    os.close(nowhere)
    if not _killed_with_parent():
        threading.Thread(target=_outlive, args=(parent,), daemon=True).start()
    elif os.getppid() != parent.pid:  # which ended before this process had asked to end with it
        os._exit(1)


def _killed_with_parent() -> bool:
    """Asks Linux to kill this process when its parent ends; returns whether it will."""
    if sys.platform != "linux":
        return False
    try:
        import ctypes

        return bool(ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0)
    except (ImportError, OSError, AttributeError):
        return False


def _outlive(parent: Any) -> None:
    """Waits for the end of the parent, and ends this process."""
    parent.join()
    os._exit(1)


def begin_worker() -> None:
    """Keeps a process from starting threads of its own, since the processes share the cores, from hearing Ctrl-C, at
    which the process that started it ends it, and from outliving that one. What it already has stays, so no search for
    garbage looks at it."""
    end_with_parent()
    gc.freeze()
    os.environ["TCSIM_THREADS"] = "1"
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class RemoteError(Exception):
    """An exception of another process that cannot be sent from there: what it said, with its class."""


class RemoteTraceback(Exception):  # noqa: N818 - stands behind an exception of another process, as its cause
    """Where in another process an exception happened, in words."""


def sendable(error: BaseException) -> tuple[BaseException, str]:
    """An exception as it can be sent to another process, and its traceback in words; one that cannot be rebuilt there,
    as a RemoteError."""
    told = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RemoteError(f"{type(error).__name__}: {error}"), told
    return error, told


def _told(work: Work, key: str, block: Any) -> bytes:
    """Does a block in another process, whose exceptions must be such as can be sent."""
    try:
        return work(key, block)
    except Exception as error:
        sent = sendable(error)[0]
        if sent is error:
            raise
        raise sent from error


def _bounded(
    submit: Callable[[Any], Future[bytes]],
    tasks: Iterator[tuple[int, Any]],
    ahead: int,
    tick: Callable[[], None] | None = None,
) -> Iterator[tuple[int, bytes]]:
    """The results as they come, with no more than `ahead` blocks in progress."""
    running: dict[Future[bytes], int] = {}
    while True:
        for number, block in islice(tasks, ahead - len(running)):
            running[submit(block)] = number
        if not running:
            return
        done = wait(running, timeout=None if tick is None else 1, return_when=FIRST_COMPLETED).done
        if tick is not None and not done:
            tick()
        for future in done:
            yield running.pop(future), future.result()


def _on_cluster(work: Work, key: str, tasks: Iterator[tuple[int, Any]], cluster: str) -> Iterator[tuple[int, bytes]]:
    """The results from a Dask cluster. A block whose worker dies is done by another.

    Raises:
        MissingDependency: no dask.
        ClusterError: nobody answers at the address, or a block took down several workers.
    """
    try:
        from distributed import CancelledError, Client, KilledWorker, wait
    except ImportError:
        raise MissingDependency("dask", "a cluster", "cluster") from None
    make: Any = Client
    await_any: Any = wait
    address = "tcp://scheduler:8786, where `dask scheduler` runs, or local"
    try:
        if cluster == "local":
            client = make(processes=False, dashboard_address=None)
        else:
            client = make(cluster, timeout=CONNECT)
    except (OSError, ValueError, ImportError) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise ClusterError(f"no Dask scheduler answers at {cluster} ({why})", address) from None
    with client:
        running: dict[Any, int] = {}
        while True:
            ahead = 2 * max(1, sum(client.ncores().values()))
            for number, block in islice(tasks, max(ahead - len(running), 0)):
                running[client.submit(work, key, block, pure=False)] = number
            if not running:
                return
            try:
                for future in await_any(list(running), return_when="FIRST_COMPLETED").done:
                    yield running.pop(future), future.result()
            except KilledWorker as error:
                reason = f"a block was lost, and with it the workers that did it ({error})"
                raise ClusterError(reason, "workers with more memory; finished blocks are kept") from None
            except (CancelledError, OSError) as error:
                reason = f"the Dask scheduler at {cluster} went away ({type(error).__name__})"
                raise ClusterError(reason, "the same command again continues") from None
