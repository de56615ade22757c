"""Summarises the results of a fault campaign, group by group: how often each outcome occurred, with confidence
intervals, and how often each detector saw a harmful fault or raised a false alarm."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import TraceError
from simulator.faults.outcomes import DETECTORS, OUTCOMES
from simulator.faults.results import RESULTS, blocks
from simulator.faults.table import read_head
from simulator.faults.targets.subjects import title
from simulator.statistics import wilson

_LARGEST = ("elements", "max_ulp", "max_rel")


@dataclass(frozen=True)
class Counts:
    """The counts of one group of faults, or of all groups together.

    Attributes:
        name: the name of the group.
        population: how many faults there are; equal to `faults` where every one was injected, 0 where there is no end
            of them.
        numbers: by name: `faults` (injected), and each outcome; `seen_DETECTOR` and `alarm_DETECTOR` (faults that it
            saw: of those that corrupt or stop the chip, and of masked ones); of corruptions `elements`, `max_ulp`,
            `max_rel` (the largest), `nonfinite` (those that make NaN or infinity), `one_row` (those that stay in one
            row of D); `classified` (faults whose result an application classified) and `reclassified` (those that
            change a class).
        heat: for each lane and bit, how many faults there were and how many are not masked: [lane, bit, 2].
    """

    name: str
    population: int
    numbers: dict[str, int]
    heat: NDArray[np.int64] = field(repr=False)

    def __getitem__(self, name: str) -> int:
        return self.numbers[name]

    @property
    def faults(self) -> int:
        """How many faults were injected."""
        return self.numbers["faults"]

    @property
    def exhaustive(self) -> bool:
        """Whether every fault that there is was injected."""
        return self.faults == self.population

    def share(self, outcome: str, confidence: float = 0.95) -> tuple[float, float, float]:
        """The share of an outcome, and the lower and upper end of its confidence interval; both ends are the share
        itself where every fault was injected."""
        share = self[outcome] / self.faults
        return (share, share, share) if self.exhaustive else (share, *wilson(self[outcome], self.faults, confidence))

    @property
    def harmful(self) -> int:
        """How many faults are not masked."""
        return self.faults - self["masked"]


@dataclass(frozen=True)
class Summary:
    """The summary of a file of results.

    Attributes:
        about: the head of the file.
        groups: the counts of each group of which there are faults; `total` counts all together.
        left_out: how many faults of the campaign the list does not have: rows were taken out of it.
    """

    about: dict[str, str]
    groups: list[Counts]
    total: Counts
    left_out: int = 0

    def records(self) -> list[dict[str, Any]]:
        """One dictionary for each group."""
        rows = []
        for counts in self.groups:
            row: dict[str, Any] = {"group": counts.name, "faults": counts.faults, "population": counts.population}
            row |= {name: counts[name] for name in OUTCOMES}
            for outcome in ("masked", "sdc"):
                row |= dict(
                    zip((f"{outcome}_{end}" for end in ("share", "low", "high")), counts.share(outcome), strict=True)
                )
            row |= {"max_elements": counts["elements"], "max_ulp": counts["max_ulp"]}
            row |= {name: counts[name] for name in ("nonfinite", "one_row", "classified")}
            row["class_changed"] = counts["reclassified"]
            for name in DETECTORS:
                row[f"{name}_coverage"] = counts[f"seen_{name}"] / counts.harmful if counts.harmful else None
                row[f"{name}_false_alarms"] = counts[f"alarm_{name}"] / counts["masked"] if counts["masked"] else None
            rows.append(row)
        return rows

    def to_frame(self) -> Any:
        """The records as a pandas DataFrame, one row for each group."""
        import pandas as pd

        return pd.DataFrame(self.records()).set_index("group")


def summarise(path: str | Path) -> Summary:
    """Reads a file of results in blocks and summarises it.

    Raises:
        TraceError: the file is not one of results, or is cut short.
    """
    import pandas as pd

    file = read_head(Path(path), RESULTS)
    about = file.about
    try:
        parts = [_numbers(frame) for frame in blocks(file)]
        groups = json.loads(about["groups"])
        title(json.loads(about["subject"]))
        _ = [about[name] for name in ("campaign", "seed", "policy", "rule", "operands", "list_sha256", "tcsim")]
        how = {name: "max" if name in _LARGEST else "sum" for name in parts[0][0].columns}
        table = pd.concat([numbers for numbers, _ in parts]).groupby(level=0).agg(how)
        heat = pd.concat([heat for _, heat in parts]).groupby(level=[0, 1, 2]).sum()
        there = [number for number in range(len(groups)) if number in table.index]
        counts = [_counts(groups[number], table.loc[[number]].agg(how), _of_group(heat, number)) for number in there]
        filtered = sum(group["faults"] for group in groups) - file.rows
        population = sum(group["population"] for group in groups)
        endless = not all(group["population"] for group in groups)
        every = {"name": "all", "population": 0 if endless else population}
        total = _counts(every, table.agg(how), heat)
    except TraceError:
        raise
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise _damaged(path, f"is no file of results ({error})") from None
    if len(there) != len(table) or not there:
        raise _damaged(path, f"has faults of {len(table)} groups, but its head names {len(groups)}")
    return Summary(about, counts, total, max(filtered, 0))


def _of_group(heat: Any, number: int) -> Any:
    """The rows of `heat` of one group; none of a group whose faults name no bit."""
    return heat[heat.index.get_level_values(0) == number]


def _damaged(path: str | Path, reason: str) -> TraceError:
    """The error for a file of results that cannot be read."""
    return TraceError(str(path), 0, 0, reason.replace("\n", " "), "results that 'tcsim faults run' wrote")


def _numbers(frame: Any) -> tuple[Any, Any]:
    """Counts a block of results: `Counts.numbers` by group, and `Counts.heat` by group, lane and bit."""
    import pandas as pd

    if not frame["outcome"].isin(OUTCOMES).all():
        raise ValueError("an outcome that is none")
    corrupt, masked, group = frame["outcome"] == "sdc", frame["outcome"] == "masked", frame["group"]
    counted = {"faults": np.ones(len(frame), np.int64)} | {name: frame["outcome"] == name for name in OUTCOMES}
    texts = frame["detectors"].str.split("+").map(frozenset)
    for name in DETECTORS:
        seen = texts.map(lambda names, name=name: name in names)
        counted |= {f"seen_{name}": seen & ~masked, f"alarm_{name}": seen & masked}
    counted |= {name: frame[name].where(corrupt, 0) for name in _LARGEST}
    counted |= {"nonfinite": corrupt & (frame["nonfinite"] > 0), "one_row": corrupt & (frame["rows"] == 1)}
    counted |= {"classified": frame["class_changed"] >= 0, "reclassified": frame["class_changed"] > 0}
    table = pd.DataFrame(counted)
    how = {name: "max" if name in _LARGEST else "sum" for name in counted}
    row, bit = np.nonzero(frame["mask"].to_numpy(np.int64)[:, None] >> np.arange(32) & 1)
    places = {"group": group.to_numpy()[row], "lane": frame["lane"].to_numpy()[row], "bit": bit}
    heat = pd.DataFrame({**places, "faults": 1, "harmful": (~masked).to_numpy()[row]})
    return table.groupby(group).agg(how), heat.groupby(["group", "lane", "bit"]).sum()


def _counts(group: dict[str, Any], numbers: Any, heat: Any) -> Counts:
    """The counts of a group from its row of the table of all groups, with its name and its heat."""
    grid = np.zeros((1, 32, 2), np.int64)
    if len(heat):
        lanes, bits = (heat.index.get_level_values(level).to_numpy() for level in ("lane", "bit"))
        grid = np.zeros((int(lanes.max()) + 1, 32, 2), np.int64)
        np.add.at(grid, (lanes, bits), heat[["faults", "harmful"]].to_numpy(np.int64))
    values = {name: value if name == "max_rel" else int(value) for name, value in numbers.to_dict().items()}
    return Counts(group["name"], int(group["population"]), values, grid)
