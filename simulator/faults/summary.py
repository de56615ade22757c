"""What a campaign found, by group: outcomes with intervals, detectors with coverage and false alarms."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import TraceError
from simulator.faults.outcomes import DETECTORS, OUTCOMES
from simulator.faults.run import COLUMNS, HEAD
from simulator.faults.statistics import wilson
from simulator.faults.subjects import title

_BLOCK = 1 << 16


@dataclass
class Counts:
    """Of one group, or of all.

    Attributes:
        name: of the group.
        population: faults that there are, equal to `faults` where every one was injected; 0 where there is no end of
            them.
        faults: injected.
        outcomes: by name.
        reasons: by name.
        seen: by detector: of faults that corrupt (or stop the chip), those that it saw; and of masked ones: false
            alarms.
        elements, ulp, relative: largest of any fault.
        nonfinite: faults that make NaN or infinity.
        one_row: corruptions that stay in one row of D.
        classified, reclassified: faults whose result an application classified, and those that change a class.
    """

    name: str
    population: int = 0
    faults: int = 0
    outcomes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    reasons: dict[str, int] = field(default_factory=dict)
    seen: dict[str, list[int]] = field(default_factory=lambda: {name: [0, 0] for name in DETECTORS})
    elements: int = 0
    ulp: int = 0
    relative: float = 0.0
    nonfinite: int = 0
    one_row: int = 0
    classified: int = 0
    reclassified: int = 0
    heat: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 32, 2), np.int64))

    @property
    def exhaustive(self) -> bool:
        return self.faults == self.population

    def share(self, outcome: str, confidence: float = 0.95) -> tuple[float, float, float]:
        """The share of an outcome, and its interval: none where every fault was injected."""
        hits = self.outcomes[outcome]
        share = hits / self.faults
        return (share, share, share) if self.exhaustive else (share, *wilson(hits, self.faults, confidence))

    @property
    def harmful(self) -> int:
        """Faults that are not masked."""
        return self.faults - self.outcomes["masked"]


@dataclass(frozen=True)
class Summary:
    """A file of results.

    Attributes:
        about: its head.
        groups: by number; `total` all together.
    """

    about: dict[str, str]
    groups: list[Counts]
    total: Counts

    def records(self) -> list[dict[str, Any]]:
        """One row a group."""
        rows = []
        for counts in self.groups:
            row: dict[str, Any] = {
                "group": counts.name,
                "faults": counts.faults,
                "population": counts.population,
                **counts.outcomes,
            }
            for outcome in ("masked", "sdc"):
                row[f"{outcome}_share"], row[f"{outcome}_low"], row[f"{outcome}_high"] = counts.share(outcome)
            row |= {
                "max_elements": counts.elements,
                "max_ulp": counts.ulp,
                "nonfinite": counts.nonfinite,
                "one_row": counts.one_row,
            }
            row |= {"classified": counts.classified, "class_changed": counts.reclassified}
            for name in DETECTORS:
                caught, alarms = counts.seen[name]
                row[f"{name}_coverage"] = caught / counts.harmful if counts.harmful else None
                row[f"{name}_false_alarms"] = alarms / counts.outcomes["masked"] if counts.outcomes["masked"] else None
            rows.append(row)
        return rows


def summarise(path: str | Path) -> Summary:
    """Reads a file of results in blocks.

    Raises:
        TraceError: it is none, or is cut short.
    """
    path = Path(path)
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            about = _head(path, stream)
            groups = json.loads(about["groups"])
            title(json.loads(about["subject"]))
            _ = [about[name] for name in ("campaign", "seed", "policy", "rule", "operands", "list_sha256", "tcsim")]
            stated = int(about["faults"])
            found = [Counts(group["name"], group["population"]) for group in groups]
            names = COLUMNS.split(",")
            rows = csv.reader(stream)
            while block := list(islice(rows, _BLOCK)):
                _add(found, dict(zip(names, zip(*block, strict=True), strict=True)))
    except TraceError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(
            str(path), 0, 0, f"cannot be read ({error})", "results that 'tcsim faults run' wrote"
        ) from None
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise TraceError(
            str(path), 0, 0, f"is no file of results ({error})", "results that 'tcsim faults run' wrote"
        ) from None
    total = _together(found)
    if total.faults != stated:
        raise TraceError(
            str(path), 0, 0, f"{total.faults} rows, but its head says {about['faults']}: cut short?", "the whole file"
        )
    return Summary(about, found, total)


def _head(path: Path, stream: io.TextIOBase | Any) -> dict[str, str]:
    if stream.readline().rstrip() != HEAD:
        raise TraceError(
            str(path),
            1,
            1,
            "no results of faults",
            f"a file that begins with '{HEAD}', as 'tcsim faults run' writes it",
        )
    about = {}
    for line in _comments(stream):
        name, _, value = line[2:].rstrip("\n").partition(": ")
        about[name] = value
    return about


def _comments(stream: Any) -> Iterator[str]:
    for line in stream:
        if not line.startswith("# "):
            if line.rstrip() != COLUMNS:
                raise ValueError("other columns")
            return
        yield line


def _add(groups: list[Counts], block: dict[str, tuple[str, ...]]) -> None:
    """Counts a block of rows."""
    group = np.array(block["group"], np.int64)
    outcome, why, seen = (np.array(block[name]) for name in ("outcome", "reason", "detectors"))
    numbers = {
        name: np.array(block[name], np.float64) for name in ("elements", "max_ulp", "max_rel", "nonfinite", "rows")
    }
    classes = np.array(block["class_changed"], np.int64)
    lane = np.array(block["lane"], np.int64)
    mask = np.array([int(text, 16) for text in block["mask"]], np.int64)
    for number, counts in enumerate(groups):
        mine = group == number
        if not mine.any():
            continue
        counts.faults += int(mine.sum())
        for name, count in zip(*np.unique(outcome[mine], return_counts=True), strict=True):
            counts.outcomes[str(name)] += int(count)
        for name, count in zip(*np.unique(why[mine], return_counts=True), strict=True):
            counts.reasons[str(name)] = counts.reasons.get(str(name), 0) + int(count)
        masked = outcome[mine] == "masked"
        counts.classified += int((classes[mine] >= 0).sum())
        counts.reclassified += int((classes[mine] > 0).sum())
        texts, at = np.unique(seen[mine], return_inverse=True)
        for name in DETECTORS:
            has = np.array([name in text.split("+") for text in texts.tolist()])[at]
            counts.seen[name][0] += int((has & ~masked).sum())
            counts.seen[name][1] += int((has & masked).sum())
        corrupt = mine & (outcome == "sdc")
        if corrupt.any():
            counts.elements = max(counts.elements, int(numbers["elements"][corrupt].max()))
            counts.ulp = max(counts.ulp, int(numbers["max_ulp"][corrupt].max()))
            counts.relative = max(counts.relative, float(numbers["max_rel"][corrupt].max()))
            counts.nonfinite += int((numbers["nonfinite"][corrupt] > 0).sum())
            counts.one_row += int((numbers["rows"][corrupt] == 1).sum())
        _heat(counts, lane[mine], mask[mine], ~masked)


def _heat(counts: Counts, lane: NDArray[np.int64], mask: NDArray[np.int64], harmful: NDArray[np.bool_]) -> None:
    """Faults of each lane and bit, and those that are harmful: [lane, bit, 2]."""
    lanes = max(len(counts.heat), int(lane.max()) + 1)
    grown = np.zeros((lanes, 32, 2), np.int64)
    grown[: len(counts.heat)] = counts.heat
    at, bit = np.nonzero(mask[:, None] >> np.arange(32) & 1)
    np.add.at(grown[..., 0], (lane[at], bit), 1)
    np.add.at(grown[..., 1], (lane[at], bit), harmful[at].astype(np.int64))
    counts.heat = grown


def _together(groups: list[Counts]) -> Counts:
    total, endless = Counts("all"), False
    for counts in groups:
        endless = endless or not counts.population
        total.population += counts.population
        total.faults += counts.faults
        for name in OUTCOMES:
            total.outcomes[name] += counts.outcomes[name]
        for name, count in counts.reasons.items():
            total.reasons[name] = total.reasons.get(name, 0) + count
        for name in DETECTORS:
            total.seen[name][0] += counts.seen[name][0]
            total.seen[name][1] += counts.seen[name][1]
        total.elements, total.ulp = max(total.elements, counts.elements), max(total.ulp, counts.ulp)
        total.relative = max(total.relative, counts.relative)
        total.nonfinite, total.one_row = total.nonfinite + counts.nonfinite, total.one_row + counts.one_row
        total.classified, total.reclassified = (
            total.classified + counts.classified,
            total.reclassified + counts.reclassified,
        )
    total.population *= not endless
    return total
