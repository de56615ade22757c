"""Compares two files of results: shares of outcomes by group, with a test and effect sizes.

Two runs of the same list (under two policies, for example) are compared fault by fault: McNemar's test for each
outcome, and Stuart and Maxwell's for all. Other files are compared as independent samples: chi-square, or an exact or
permutation test where counts are small. Tests and intervals take the faults as a sample of more of their kind, also
where every one was injected. With weights all counts are scaled to the effective size (Rao and Scott, JASA 76, 1981).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import TraceError
from simulator.faults.outcomes import JUDGED, OUTCOMES
from simulator.faults.results import RESULTS, blocks
from simulator.faults.table import FaultList, read_head
from simulator.statistics.comparisons import (
    Effect,
    Test,
    chi_square,
    effect,
    holm,
    homogeneity,
    independent,
    mcnemar,
    paired_effect,
)
from simulator.statistics.designs import Sums
from simulator.statistics.distributions import chi_square_tail
from simulator.statistics.shares import quantile, score_interval
from simulator.studies.faults.tallies import codes
from simulator.tables import Table

_CRITICAL = JUDGED[-1]
_CLASSES = 2 * len(OUTCOMES)  # an outcome, and whether it is critical
ALL = "all outcomes"
Reals = NDArray[np.float64]


@dataclass(frozen=True)
class Line:
    """One comparison: of an outcome in a group, or of all outcomes in it.

    Attributes:
        group, outcome: what is compared; `ALL` for all outcomes.
        faults: how many faults of the group each file has.
        first, second: the share in each file, with its interval; of all outcomes none.
        effect: how large the difference is; of all outcomes none.
        test: whether it may be chance.
        holm: the test's p among all tests of outcomes in the comparison, by Holm; of all outcomes p itself.
    """

    group: str
    outcome: str
    faults: tuple[int, int]
    first: tuple[float, float, float] | None
    second: tuple[float, float, float] | None
    effect: Effect | None
    test: Test
    holm: float


@dataclass(frozen=True)
class Comparison:
    """A comparison of two files of results.

    Attributes:
        names: the files.
        about: their heads.
        paired: whether they are runs of the same list.
        confidence: of the intervals.
        lines: one for each group and outcome that occurs.
    """

    names: tuple[str, str]
    about: tuple[dict[str, str], dict[str, str]]
    paired: bool
    confidence: float
    lines: list[Line]

    def table(self) -> Table:
        """The lines as a table of numbers."""
        records = []
        for line in self.lines:
            record: dict[str, Any] = {"group": line.group, "outcome": line.outcome}
            record |= {"faults_a": line.faults[0], "faults_b": line.faults[1]}
            for name, share in (("a", line.first), ("b", line.second)):
                record |= dict(zip((f"share_{name}", f"low_{name}", f"high_{name}"), share or (None,) * 3, strict=True))
            record |= line.effect._asdict() if line.effect else dict.fromkeys(Effect._fields)
            nothing = line.test.statistic != line.test.statistic
            record |= {"test": line.test.name, "statistic": None if nothing else line.test.statistic}
            records.append(record | {"p": line.test.p, "p_holm": line.holm})
        return Table.of(records)


def compare(first: str | Path, second: str | Path, confidence: float = 0.95) -> Comparison:
    """Compares two files of results.

    Raises:
        TraceError: a file that is none of results, or the two have no group in common.
        ViewError: a confidence that is none.
    """
    z = quantile(confidence)
    files = read_head(first, RESULTS), read_head(second, RESULTS)
    about = files[0].about, files[1].about
    paired = about[0].get("list_sha256", "") == about[1].get("list_sha256", "-")
    try:
        names = [[str(group["name"]) for group in json.loads(head["groups"])] for head in about]
    except KeyError as error:
        raise TraceError(str(first), 0, 0, f"its head has no {error.args[0]}", "a file that 'run' wrote") from None
    for file in files:
        if not file.rows:
            raise TraceError(str(file.path), 0, 0, "has no faults", "results of at least one fault")
    shared = [name for name in dict.fromkeys(names[0]) if name in names[1]]
    if not shared:
        legal = f"results with a group of {', '.join(names[0])}"
        raise TraceError(str(second), 0, 0, f"no group of {Path(first).name}", legal)
    lines: list[Line] = []
    if paired:
        for name, table in zip(names[0], _pairs(*files, len(names[0])), strict=True):
            lines += _paired_lines(name, table, confidence)
    else:
        counted = [_counts(file, len(mine)) for file, mine in zip(files, names, strict=True)]
        for name in shared:
            tables = [count[mine.index(name)] for count, mine in zip(counted, names, strict=True)]
            lines += _lines(name, tables[0], tables[1], z, confidence)
    single = [number for number, line in enumerate(lines) if line.outcome != ALL]
    adjusted = holm([lines[number].test.p for number in single])
    for number, p in zip(single, adjusted, strict=True):
        lines[number] = Line(**(vars(lines[number]) | {"holm": p}))
    return Comparison((str(first), str(second)), about, paired, confidence, lines)


def _classes(frame: Any, path: Path) -> NDArray[np.int64]:
    """What became of each fault: its outcome, and whether it is critical, as one number. TraceError for words that are
    none."""
    try:
        outcome, judged = codes(frame["outcome"], OUTCOMES), codes(frame["judged"], JUDGED)
    except ValueError as error:
        raise TraceError(str(path), 0, 0, f"is no file of results ({error})", "a file that 'run' wrote") from None
    return np.asarray(outcome.astype(np.int64) * 2 + (judged == len(JUDGED) - 1), np.int64)


def _group(frame: Any, groups: int, path: Path) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = frame["group"].to_numpy(np.int64)
    if len(numbers) and numbers.max() >= groups:
        raise TraceError(str(path), 0, 0, f"has faults of group {numbers.max()}", f"a group below {groups}")
    return numbers


def _powers(numbers: NDArray[np.int64], weights: Reals, size: int) -> Reals:
    """For each number the count, the sum of the weights, and that of their squares: [number, 3]."""
    sums = [np.bincount(numbers, w, size) for w in (np.ones(len(weights)), weights, weights * weights)]
    return np.stack(sums, axis=1)


def _counts(file: FaultList, groups: int) -> Reals:
    """The sums of each group and class: [group, class, 3]."""
    total = np.zeros((groups * _CLASSES, 3))
    for frame in blocks(file, ("group", "outcome", "judged", "weight")):
        numbers = _group(frame, groups, file.path) * _CLASSES + _classes(frame, file.path)
        total += _powers(numbers, frame["weight"].to_numpy(), len(total))
    return total.reshape(groups, _CLASSES, 3)


def _pairs(first: FaultList, second: FaultList, groups: int) -> Reals:
    """The sums of the faults that both files have, by group and class in each: [group, class, class, 3]."""
    ids, classes, start = np.zeros(first.rows, np.int64), np.zeros(first.rows, np.uint8), 0
    for frame in blocks(first, ("id", "group", "outcome", "judged")):
        part = slice(start, start + len(frame))
        _group(frame, groups, first.path)
        ids[part], classes[part] = frame["id"].to_numpy(), _classes(frame, first.path)
        start = part.stop
    if (ids[1:] < ids[:-1]).any():
        order = np.argsort(ids)
        ids, classes = ids[order], classes[order]
    total = np.zeros((groups * _CLASSES * _CLASSES, 3))
    for frame in blocks(second, ("id", "group", "outcome", "judged", "weight")):
        place = np.minimum(np.searchsorted(ids, frame["id"].to_numpy()), len(ids) - 1)
        both = ids[place] == frame["id"].to_numpy()
        pair = classes[place].astype(np.int64) * _CLASSES + _classes(frame, second.path)
        numbers = _group(frame, groups, second.path) * _CLASSES**2 + pair
        total += _powers(numbers[both], frame["weight"].to_numpy()[both], len(total))
    return total.reshape(groups, _CLASSES, _CLASSES, 3)


def _seen(outcome: str) -> NDArray[np.bool_]:
    """The classes in which an outcome is seen: bool [class]."""
    number = np.arange(_CLASSES)
    return np.asarray(number % 2 == 1 if outcome == _CRITICAL else number // 2 == OUTCOMES.index(outcome))


def _outcomes(present: NDArray[np.bool_]) -> list[str]:
    """The outcomes that occur in classes."""
    return [name for name in (*OUTCOMES, _CRITICAL) if (_seen(name) & present).any()]


def _by_outcome(table: Reals) -> Reals:
    """Sums by outcome, critical or not."""
    return np.asarray(table.reshape(len(OUTCOMES), 2, *table.shape[1:]).sum(axis=1))


def _lines(name: str, a: Reals, b: Reals, z: float, confidence: float) -> list[Line]:
    """The comparisons of a group, of two independent samples [class, 3]."""
    faults = int(a[:, 0].sum()), int(b[:, 0].sum())
    if not min(faults):
        return []
    plain = all(_uniform(table.sum(axis=0)) for table in (a, b))
    lines = []
    for outcome in _outcomes((a + b)[:, 0] > 0):
        sums = [_sums(table, _seen(outcome)) for table in (a, b)]
        shares, sizes = [each.share for each in sums], [each.size() for each in sums]
        if plain:
            hits = [int(table[_seen(outcome), 0].sum()) for table in (a, b)]
            test = independent([hits[0], faults[0] - hits[0]], [hits[1], faults[1] - hits[1]])
        else:
            test = chi_square(np.array([[p * n, (1 - p) * n] for p, n in zip(shares, sizes, strict=True)]))
        found = effect(shares[0], sizes[0], shares[1], sizes[1], confidence)
        ends = [(p, *score_interval(p, n, z)) for p, n in zip(shares, sizes, strict=True)]
        lines.append(Line(name, outcome, faults, ends[0], ends[1], found, test, test.p))
    counts = [_by_outcome(table) for table in (a, b)]
    if plain:
        test = independent(*(count[:, 0].astype(np.int64).tolist() for count in counts))
    else:
        test = chi_square(np.stack([_effective(count) for count in counts]))
    return [*lines, Line(name, ALL, faults, None, None, None, test, test.p)]


def _sums(table: Reals, hit: NDArray[np.bool_]) -> Sums:
    weight, weight2 = table[:, 1:].sum(axis=0).tolist()
    return Sums(int(table[:, 0].sum()), weight, weight2, *table[hit, 1:].sum(axis=0).tolist())


def _uniform(sums: Reals) -> bool:
    count, weight, weight2 = sums.tolist()
    return Sums(int(count), weight, weight2, 0, 0).uniform


def _effective(table: Reals) -> Reals:
    """Sums [class, 3] as counts of the size that their weights leave (Kish)."""
    _, weight, weight2 = table.reshape(-1, 3).sum(axis=0)
    return np.asarray(table[..., 1] * weight / weight2)


def _paired_lines(name: str, table: Reals, confidence: float) -> list[Line]:
    """The comparisons of a group, of two runs of the same faults [class, class, 3]."""
    faults = int(table[..., 0].sum())
    if not faults:
        return []
    plain = _uniform(table.reshape(-1, 3).sum(axis=0))
    count, z = (table[..., 0] if plain else _effective(table)), quantile(confidence)
    lines = []
    for outcome in _outcomes((count.sum(axis=0) + count.sum(axis=1)) > 0):
        mine = _seen(outcome)
        cells = [float(count[np.ix_(one, two)].sum()) for one in (mine, ~mine) for two in (mine, ~mine)]
        both, only_a, only_b, neither = cells
        if plain:
            test = mcnemar(round(only_a), round(only_b))
        else:
            apart = table[np.ix_(mine, ~mine)].sum(axis=(0, 1)), table[np.ix_(~mine, mine)].sum(axis=(0, 1))
            spread = apart[0][2] + apart[1][2]
            statistic = float((apart[0][1] - apart[1][1]) ** 2 / spread) if spread else 0.0
            test = Test("mcnemar" if spread else "", statistic, chi_square_tail(statistic, 1))
        found = paired_effect(both, only_a, only_b, neither, confidence)
        size = sum(cells)
        shares = (both + only_a) / size, (both + only_b) / size
        ends = [(share, *score_interval(share, size, z)) for share in shares]
        lines.append(Line(name, outcome, (faults, faults), ends[0], ends[1], found, test, test.p))
    squared = _by_outcome(np.moveaxis(_by_outcome(count), 0, 1)).T
    test = homogeneity(squared)
    return [*lines, Line(name, ALL, (faults, faults), None, None, None, test, test.p)]


def as_text(found: Comparison, format: str) -> str:
    """A comparison as a table for people, or as CSV, JSON or Markdown."""
    if format == "csv":
        return found.table().csv()
    if format == "json":
        files = [
            {"file": name, "about": about} for name, about in zip(found.names, found.about, strict=True)
        ]  # fmt: skip
        head = {"files": files, "paired": found.paired, "confidence": found.confidence}
        return json.dumps(head | {"comparisons": found.table().records()}, indent=1) + "\n"
    columns = ("faults of", "outcome", "A", "B", "B - A", "odds ratio", "h", "test", "p", "p (Holm)")
    shown = Table(columns, [_cells(line) for line in found.lines])
    body = shown.markdown("<<>") if format == "markdown" else shown.text("<<>")
    return "\n".join([*_notes(found), "", body])


def _notes(found: Comparison) -> list[str]:
    notes = []
    for letter, name, about in zip("AB", found.names, found.about, strict=True):
        judged = next((f", {key} {about[key]}" for key in ("tolerate", "judge") if key in about), "")
        words = f"{about.get('campaign', '?')}, policy {about.get('policy', '?')}, {about['faults']} faults{judged}"
        notes.append(f"{letter}: {name}: {words}")
    how = "the same list, compared fault by fault" if found.paired else "two lists, compared as independent samples"
    return [*notes, f"{how}; intervals at {found.confidence:.4g}"]


def _cells(line: Line) -> list[str]:
    p = [_p(line.test.p), _p(line.holm) if line.effect else ""]
    if line.effect is None or line.first is None or line.second is None:
        return [line.group, line.outcome, "", "", "", "", "", line.test.name or "-", *p]
    e = line.effect
    difference = f"{e.difference:+.2%} ({e.low:+.2%} to {e.high:+.2%})"
    odds = f"{e.odds_ratio:.3g} ({e.odds_low:.3g} to {e.odds_high:.3g})" if line.test.name else "-"
    shares = [f"{share[0]:.2%}" for share in (line.first, line.second)]
    return [line.group, line.outcome, *shares, difference, odds, f"{e.h:+.3f}", line.test.name or "-", *p]


def _p(p: float) -> str:
    return f"{p:.4f}" if p >= 1e-4 else f"{p:.1e}" if p > 0 else "< 1e-300"
