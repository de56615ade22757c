"""Runs a list of faults: block by block, in this process, in several, or on a Dask cluster, with results in a CSV that
is the same byte for byte.

Each block of the list becomes a part in a folder beside the results; a run that was killed goes on where it stopped.
When all parts are there they are joined, and the folder goes. No more than a few blocks are in memory, however long the
list is.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import islice
from pathlib import Path
from typing import Any

from simulator.errors import ConfigError, TraceError
from simulator.faults import outcomes, table
from simulator.faults.outcomes import Results
from simulator.faults.results import RESULTS
from simulator.faults.subjects import make
from simulator.faults.table import BLOCK, FaultList, Faults, write_head
from simulator.faults.target import FaultTarget
from simulator.files import complete
from simulator.version import __version__

Progress = Callable[[int, int], None]
_subjects: dict[str, FaultTarget] = {}


def subject_of(found: FaultList, policy: str = "") -> FaultTarget:
    """The subject that a list names, under its policy or another one.

    Raises:
        TraceError: the head of the list lacks it, or its operands are not those that the list was made for.
    """
    try:
        subject = make(str(found.path), json.loads(found.about["subject"]), policy or found.about["policy"])
        digest = found.about["operands"]
    except ConfigError:
        raise
    except (KeyError, ValueError, TypeError) as error:
        raise TraceError(
            str(found.path), 0, 0, f"its head has no subject ({error})", "a list that 'tcsim faults list' wrote"
        ) from None
    if subject.digest != digest:
        reason = f"operands have the digest {subject.digest}, the list was made for {digest}"
        raise TraceError(
            str(found.path),
            0,
            0,
            reason,
            f"the version that made it ({found.about.get('tcsim', '?')}); this is {__version__}",
        )
    return subject


def run_list(
    found: FaultList,
    output: Path,
    *,
    policy: str = "",
    workers: int = 1,
    cluster: str = "",
    progress: Progress | None = None,
) -> None:
    """Injects every fault of a list and writes the results.

    Args:
        found: the list.
        output: CSV; complete, or not there.
        policy: in place of the list's.
        workers: processes.
        cluster: address of a Dask scheduler, or "local"; "" for none.
        progress: called with the faults that are done and all.

    Raises:
        TraceError: a list that cannot be read, or that is about something else.
        OSError: a file that cannot be written.
    """
    subject = subject_of(found, policy)
    head = _head(found, subject)
    parts = output.with_name(f"{output.name}.parts")
    _open(parts, found, head)
    blocks = range(-(-found.rows // BLOCK))
    missing = [number for number in blocks if not (parts / _part(number)).is_file()]
    if progress is not None:
        progress((len(blocks) - len(missing)) * BLOCK, found.rows)
    pieces = ((number * BLOCK, min((number + 1) * BLOCK, found.rows)) for number in missing)
    tasks = ((first // BLOCK, rows) for first, rows in table.read_pieces(found, pieces))
    key = json.dumps([found.about["subject"], subject.policy])
    done = len(blocks) - len(missing)
    try:
        for number, text in _worked(key, tasks, workers, cluster, len(missing)):
            with complete(parts / _part(number)) as stream:
                stream.write(text)
            done += 1
            if progress is not None:
                progress(min(done * BLOCK, found.rows), found.rows)
    except TraceError:  # a list that is none: there is nothing to go on with
        shutil.rmtree(parts)
        raise
    with complete(output) as stream:
        stream.write(head.encode())
        for number in blocks:
            with (parts / _part(number)).open("rb") as part:
                shutil.copyfileobj(part, stream)
    shutil.rmtree(parts)


def joined(faults: Faults, results: Results) -> str:
    """Rows of results: the fault, then its outcome."""
    return "".join(
        f"{fault},{result.split(',', 1)[1]}\n"
        for fault, result in zip(table.texts(faults), outcomes.texts(results), strict=True)
    )


def _head(found: FaultList, subject: FaultTarget) -> str:
    about = {
        **found.about,
        "tcsim": __version__,
        "policy": subject.policy,
        "list": found.path.name,
        "list_sha256": _digest(found.path),
    }
    return write_head(about, RESULTS)


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:16]


def _part(number: int) -> str:
    return f"{number:06}.csv"


def _open(parts: Path, found: FaultList, head: str) -> None:
    """A folder for the parts of this very run; TraceError if there is one of another."""
    note = parts / "run"
    if parts.is_dir():
        if note.is_file() and note.read_text() == head:
            return
        raise TraceError(
            str(parts),
            0,
            0,
            f"holds parts of another run than that of {found.path.name}",
            "that list and policy again, or remove the folder",
        )
    fresh = parts.with_name(f".{parts.name}.{os.getpid()}")
    fresh.mkdir()
    (fresh / "run").write_text(head)
    fresh.rename(parts)


# Workers


def work(key: str, faults: Faults) -> bytes:
    """One block; the subject is made once in each process."""
    if key not in _subjects:
        values, policy = json.loads(key)
        _subjects[key] = make("a list", json.loads(values), policy)
    return joined(faults, _subjects[key].run(faults)).encode()


def _worked(
    key: str, tasks: Iterator[tuple[int, Faults]], workers: int, cluster: str, count: int
) -> Iterator[tuple[int, bytes]]:
    """The text of each block, in any order."""
    if cluster:
        yield from _on_cluster(key, tasks, cluster)
    elif workers <= 1 or count <= 1:
        for number, faults in tasks:
            yield number, work(key, faults)
    else:
        with ProcessPoolExecutor(min(workers, count), initializer=_one_thread) as pool:
            yield from _bounded(lambda faults: pool.submit(work, key, faults), tasks, 2 * workers)


def _one_thread() -> None:
    """Processes share the cores: none of them starts threads of its own."""
    os.environ["TCSIM_THREADS"] = "1"


def _bounded(
    submit: Callable[[Faults], Future[bytes]], tasks: Iterator[tuple[int, Faults]], ahead: int
) -> Iterator[tuple[int, bytes]]:
    """Results as they come, with no more than `ahead` blocks on their way."""
    running: dict[Future[bytes], int] = {}
    while True:
        for number, faults in islice(tasks, ahead - len(running)):
            running[submit(faults)] = number
        if not running:
            return
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            yield running.pop(future), future.result()


def _on_cluster(key: str, tasks: Iterator[tuple[int, Faults]], cluster: str) -> Iterator[tuple[int, bytes]]:
    """The same on a Dask cluster; TraceError without dask."""
    try:
        from distributed import Client
    except ImportError:
        raise TraceError(
            cluster, 0, 0, "a cluster needs dask, which is not installed", "pip install 'tcsim[cluster]', or --workers"
        ) from None
    make: Any = Client
    client = make(processes=False, dashboard_address=None) if cluster == "local" else make(cluster)
    with client:
        running: dict[Any, int] = {}
        ahead = 2 * max(1, sum(client.ncores().values()))
        while True:
            for number, faults in islice(tasks, ahead - len(running)):
                running[client.submit(work, key, faults, pure=False)] = number
            if not running:
                return
            done = (
                next(future for future in running if future.done())
                if any(f.done() for f in running)
                else next(iter(running))
            )
            yield running.pop(done), done.result()
