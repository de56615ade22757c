"""The mutation study: mutants of right kernels, what the check makes of each, and the tables of it."""

from __future__ import annotations

import json
import multiprocessing
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from simulator.studies.mutation.choice import check_operators, mutants
from simulator.studies.mutation.evaluate import Known, Row, evaluated, first, known, plan
from simulator.studies.mutation.judge import LATER, MISSED, RIGHT, SECONDS, SLOW, UNPLACED, WRONG
from simulator.studies.mutation.mutant import OPERATORS, Mutant
from simulator.tables import Table

SPARE = 2  # lists of mutants that are planned for each that is wanted: of some all are equivalent


@dataclass(frozen=True)
class Study:
    """The result of a study.

    Attributes:
        rows: a mutant each, by kernel and number.
        equivalent: by kernel, how many mutants were tried and left out because nothing shows that they are wrong.
    """

    rows: tuple[Row, ...]
    equivalent: dict[str, int]

    def summary(self, by: str) -> Table:
        """How many mutants, and what became of them, by "kernel" or "operator"; the last row is all of them."""
        columns = (
            by,
            "mutants",
            "right line",
            "right fix",
            "wrong blame",
            "right line later",
            "no line",
            "missed",
            "s",
        )
        groups: dict[str, list[Row]] = defaultdict(list)
        for row in self.rows:
            groups[getattr(row, by)].append(row)
        order = list(OPERATORS)
        names = sorted(groups, key=order.index) if by == "operator" else list(groups)
        lines = [_line(name, groups[name]) for name in names]
        return Table(columns, [*lines, _line("all", self.rows)])

    def table(self) -> Table:
        """A row for each mutant."""
        return Table.of([asdict(row) for row in self.rows], tuple(Row.__dataclass_fields__))


def _line(name: str, rows: Sequence[Row]) -> list[object]:
    count = Counter(row.verdict for row in rows)
    seconds = sum(row.seconds for row in rows) / len(rows) if rows else 0.0
    fixed = sum(row.fixed for row in rows)
    missed = count[MISSED] + count[SLOW]
    return [
        name, len(rows), count[RIGHT], fixed, count[WRONG], count[LATER], count[UNPLACED], missed, round(seconds, 1)
    ]  # fmt: skip


def study(
    captures: Sequence[str | Path],
    count: int = 200,
    seed: int = 1,
    *,
    workers: int = 2,
    seconds: float = SECONDS,
    only: Sequence[str] = (),
    tell: Callable[[Row], None] | None = None,
) -> Study:
    """Makes mutants of right kernels and judges the check on each.

    Args:
        captures: of the right kernels.
        count: how many mutants, spread over the kernels; fewer where a kernel has no more.
        seed: of the choice.
        workers: processes.
        seconds: of the processor that a check may take.
        only: the operators; none: all.
        tell: gets each row as it is known.

    Returns:
        The same for the same seed, seconds aside.

    Raises:
        CaptureError, IsaError: a capture or module that cannot be read, an operator that there is not.
        ValueError: a kernel that is not right.
    """
    check_operators(only)
    paths, names = [str(path) for path in captures], tuple(only)
    rows: list[Row] = []
    equivalent: dict[str, int] = {}
    with ProcessPoolExecutor(max(workers, 1), mp_context=multiprocessing.get_context("fork")) as pool:
        shares = [count // len(paths) + (place < count % len(paths)) for place in range(len(paths))]
        plans = [pool.submit(plan, path, SPARE * share, seed, names) for path, share in zip(paths, shares, strict=True)]
        for path, share, planned in zip(paths, shares, plans, strict=True):
            jobs = [pool.submit(first, path, batch, seconds) for batch in planned.result()]
            own, skipped = _gathered(jobs, share, tell)
            rows += sorted(own, key=lambda row: row.number)
            equivalent[Path(path).stem] = skipped
    return Study(tuple(rows), equivalent)


def _gathered(
    jobs: Sequence[Future[tuple[Row | None, int]]], share: int, tell: Callable[[Row], None] | None
) -> tuple[list[Row], int]:
    """The first rows, as many as are wanted, and how many mutants before them were equivalent."""
    rows: list[Row] = []
    skipped = 0
    for job in jobs:
        if len(rows) == share:
            job.cancel()
            continue
        row, equivalent = job.result()
        skipped += equivalent
        if row is not None:
            rows.append(row)
            if tell is not None:
                tell(row)
    return rows, skipped


def again(capture: str | Path, numbers: Iterable[int], seconds: float = SECONDS) -> Study:
    """Judges the check on some mutants of a kernel, by their numbers.

    Raises:
        CaptureError, IsaError, ValueError: as `keep`.
    """
    kernel = known(str(capture))
    every, rows, equivalent = dict(mutants(kernel.subject)), [], 0
    for number in numbers:
        row = evaluated(kernel, number, _numbered(kernel, every, number), seconds)
        equivalent += row is None
        rows += [row] if row is not None else []
    return Study(tuple(rows), {kernel.subject.name: equivalent})


def _numbered(kernel: Known, every: dict[int, Mutant], number: int) -> Mutant:
    if number not in every:
        raise ValueError(f"{kernel.subject.name} has no mutant {number}; legal: 0 to {len(every) - 1}")
    return every[number]


def keep(capture: str | Path, folder: str | Path, numbers: Iterable[int]) -> list[Path]:
    """Writes mutants of a kernel as captures, NAME.mutantN.json, for `tcsim check`.

    Raises:
        CaptureError, IsaError, ValueError: as `study`; ValueError: a number that no mutant has.
    """
    kernel, written = known(str(capture)), []
    every, place = dict(mutants(kernel.subject)), Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        edits = _numbered(kernel, every, number).edits
        stem = f"{kernel.subject.name}.mutant{number}"
        content = json.loads(Path(capture).read_text())
        content |= {"name": stem, "ptx": f"{stem}.ptx"}
        (place / f"{stem}.ptx").write_text(kernel.subject.text.edited(edits))
        (place / f"{stem}.json").write_text(json.dumps(content, indent=1) + "\n")
        if content.get("data"):
            shutil.copy(Path(capture).parent / content["data"], place / content["data"])
        written.append(place / f"{stem}.json")
    return written
