"""Runs the points of a sweep: in this process, in several, or on a Dask cluster; what was finished stays finished.

Points go in blocks, in order; small ones where there are few points, so that an interruption loses no more than what is
in flight. The table is the same, byte for byte, whatever does the work, and however often it was interrupted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.arithmetic.threads import thread_count
from simulator.errors import ConfigError
from simulator.floating_point import guarded
from simulator.parallel import worked
from simulator.parts import Parts
from simulator.studies.sweep.check import check, fingerprint
from simulator.studies.sweep.evaluate import columns, row
from simulator.studies.sweep.spec import Sweep, read_spec
from simulator.studies.sweep.table import check_output, frame_of, lines_of, read_table, write
from simulator.version import __version__

if TYPE_CHECKING:
    from pandas import DataFrame

_BLOCKS = 4_096  # at most
Spec = Mapping[str, Any] | str | Path | Sweep


@dataclass(frozen=True)
class Progress:
    """How far a sweep is.

    Attributes:
        done, count: points.
        spent, left: seconds; `left` is an estimate from the points of this run.
    """

    done: int
    count: int
    spent: float
    left: float


@dataclass(frozen=True)
class Summary:
    """What a sweep came to.

    Attributes:
        points, errors: how many, and how many of them have no answer.
        resumed: points that an earlier run had finished.
        spoilt: parts that an earlier run left incomplete, and that were done again.
        seconds: of this run.
    """

    points: int
    errors: int
    resumed: int
    spoilt: int
    seconds: float


def sweep_of(spec: Spec, limit: int | None = None, overrides: Mapping[str, Any] | None = None) -> Sweep:
    """The sweep, checked: errors as `read_spec` and `simulator.studies.sweep.check`."""
    found = spec if isinstance(spec, Sweep) else read_spec(spec, limit=limit, overrides=overrides)
    check(found)
    return found


@guarded
def run(
    spec: Spec,
    *,
    output: str | Path | None = None,
    workers: int | None = None,
    dask: str = "",
    limit: int | None = None,
    restart: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> DataFrame:
    """Runs a sweep and returns its table, one row a point, with units in the names of the columns.

    Args:
        spec: a dictionary, the path of a TOML file, or the name of a sweep that comes with tcsim.
        output: also writes the table, .csv or .parquet; an interrupted run continues from what lies beside it.
        workers: processes; None: one for each core that this process may use.
        dask: the address of a Dask scheduler, or "local"; in place of processes.
        limit: the most points.
        restart: whether to begin anew where an interrupted run could continue.
        progress: is told how far it is.

    Raises:
        ConfigError, IsaError, TraceError: a question that cannot be asked; nothing has run.
        ClusterError: a cluster that cannot be reached, or that loses the work.
        ConfigError: another process is writing the output.
        OSError: the output cannot be written; what was finished is kept.
    """
    sweep = sweep_of(spec, limit)
    if output is not None:
        execute(sweep, output, workers=workers, dask=dask, restart=restart, progress=progress)
        return read_table(sweep, Path(output))
    done = dict(_worked(sweep, list(range(len(blocks(sweep)))), workers, dask, progress, 0))
    return frame_of(sweep, b"".join(done[number] for number in sorted(done)))


@guarded
def execute(
    spec: Spec,
    output: str | Path,
    *,
    workers: int | None = None,
    dask: str = "",
    limit: int | None = None,
    restart: bool = False,
    progress: Callable[[Progress], None] | None = None,
) -> Summary:
    """As `run`, but the table stays in its file: memory does not grow with the number of points."""
    began = time.monotonic()
    check_output(output)
    sweep = sweep_of(spec, limit)
    cut = blocks(sweep)
    note = json.dumps({"tcsim": __version__, "sweep": fingerprint(sweep), "points": sweep.count, "blocks": len(cut)})
    parts = Parts(Path(output), note + "\n", len(cut))
    with parts.held():
        if restart:
            parts.remove()
        if parts.foreign:
            reason = "holds points of another sweep, or of other configs or another version of tcsim"
            raise ConfigError(str(parts.folder), "", reason, "--restart, or another output, or remove the folder")
        spoilt = parts.open()
        missing = parts.missing
        resumed = sweep.count - sum(len(cut[number]) for number in missing)
        for number, lines in _worked(sweep, missing, workers, dask, progress, resumed):
            parts.keep(number, lines)
        counter = _Errors(sweep)
        write(sweep, counter.counted(parts.lines()), Path(output))
        parts.remove()
    return Summary(sweep.count, counter.errors, resumed, spoilt, time.monotonic() - began)


class _Errors:
    """Counts the rows that pass whose last cell, `error`, is not empty."""

    def __init__(self, sweep: Sweep) -> None:
        assert columns(sweep)[-1] == "error"
        self.errors = 0

    def counted(self, parts: Iterator[bytes]) -> Iterator[bytes]:
        """The parts as they are."""
        for lines in parts:
            self.errors += sum(1 for line in lines.splitlines() if not line.endswith(b","))
            yield lines


def blocks(sweep: Sweep) -> list[range]:
    """The points of each block."""
    size = -(-sweep.count // _BLOCKS)
    return [range(first, min(first + size, sweep.count)) for first in range(0, sweep.count, size)]


def block(text: str, points: range) -> bytes:
    """The lines of the points of a block; `text` is what `Sweep.dumps` wrote."""
    sweep = _loaded(text)
    return lines_of(columns(sweep), (row(sweep, number) for number in points))


@lru_cache(maxsize=4)
def _loaded(text: str) -> Sweep:
    return Sweep.loads(text)


def _worked(
    sweep: Sweep,
    numbers: list[int],
    workers: int | None,
    dask: str,
    progress: Callable[[Progress], None] | None,
    resumed: int,
) -> Iterator[tuple[int, bytes]]:
    """The lines of the blocks as they are done."""
    cut, began, done = blocks(sweep), time.monotonic(), resumed
    mine = sum(len(cut[number]) for number in numbers)

    def tell() -> None:
        if progress is not None:
            spent, fresh = time.monotonic() - began, done - resumed
            progress(Progress(done, sweep.count, spent, spent / fresh * (mine - fresh) if fresh else float("inf")))

    tell()
    tasks = ((number, cut[number]) for number in numbers)
    count = thread_count() if workers is None else workers
    for number, lines in worked(block, sweep.dumps(), tasks, count, dask, len(numbers), tell):
        done += len(cut[number])
        tell()
        yield number, lines
