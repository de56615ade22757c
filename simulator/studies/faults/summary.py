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
from simulator.faults.outcomes import DETECTORS, OUTCOMES, PATTERNS
from simulator.faults.results import RESULTS, blocks
from simulator.faults.table import read_head
from simulator.faults.targets.subjects import title
from simulator.statistics.designs import Estimate, clustered_strata, stratified
from simulator.studies.faults.tallies import CAUGHT, MENDED, Tallier, Tally, codes
from simulator.studies.faults.tallies import COLUMNS as TALLIED

_KEPT = 32  # blocks whose counts are kept before they are added up
_LARGEST = ("elements", "max_ulp", "max_rel", "bits")
_LEFT = ("left_ulp", "left_abs")
_READ = (
    *TALLIED, "group", "lane", "mask", "elements", "rows", "max_ulp", "max_rel", "nonfinite",
    "class_changed", "bits", "pattern", "accuracy", *_LEFT,
)  # fmt: skip


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
            change a class), `right` (how many images the network reads rightly, of all faults together);
            `pattern_NAME` (corruptions whose wrong elements lie so) and `bits` (the most wrong bits); `exact_DETECTOR`,
            `near_DETECTOR`, `wrong_DETECTOR` (what corrections of harmful faults come to), `spoilt_DETECTOR` (wrong
            ones of masked faults), `left_ulp` and `left_abs` (the largest distance that a `near` one leaves).
        tallies: the sums that shares are estimated from, one for each group that is counted.
        heat: for each lane and bit, how many faults there were and how many are not masked: [lane, bit, 2].
    """

    name: str
    population: int
    numbers: dict[str, int]
    tallies: tuple[Tally, ...]
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

    @property
    def sets(self) -> int:
        """How many sets of operands faults struck; 0 for several groups together."""
        return self.tallies[0].sets if len(self.tallies) == 1 else 0

    def estimate(self, outcome: str, confidence: float = 0.95, *, by_case: bool = False) -> Estimate:
        """The share of an outcome (or `critical`, `harmful`) in the population; several groups count by their
        populations.

        Args:
            by_case: of operands in general, of which each set is a cluster, where a group has several.
        """
        if len(self.tallies) > 1:
            populations = [tally.population for tally in self.tallies]
            if by_case and all(tally.sets > 1 for tally in self.tallies):
                clusters = [tally.clusters(outcome) for tally in self.tallies]
                return clustered_strata(clusters, populations, self.faults, confidence)
            return stratified([tally.sums(outcome) for tally in self.tallies], populations, confidence)
        (tally,) = self.tallies
        return tally.by_case(outcome, confidence) if by_case and tally.sets > 1 else tally.estimate(outcome, confidence)

    def share(self, outcome: str, confidence: float = 0.95) -> tuple[float, float, float]:
        """The share of an outcome, and the lower and upper end of its confidence interval; both ends are the share
        itself where every fault was injected."""
        found = self.estimate(outcome, confidence)
        return found.share, found.low, found.high

    @property
    def uniform(self) -> bool:
        """Whether all faults of each group have the same weight."""
        return all(tally.sums("masked").uniform for tally in self.tallies)

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
        together: whether `total` has estimates of shares: all groups have populations, which weights add up to.
    """

    about: dict[str, str]
    groups: list[Counts]
    total: Counts
    left_out: int = 0
    together: bool = True

    def records(self, confidence: float = 0.95) -> list[dict[str, Any]]:
        """One dictionary for each group."""
        rows = []
        for counts in self.groups:
            row: dict[str, Any] = {"group": counts.name, "faults": counts.faults, "population": counts.population}
            row |= {name: counts[name] for name in OUTCOMES}
            for outcome in ("masked", "sdc"):
                row |= dict(
                    zip(
                        (f"{outcome}_{end}" for end in ("share", "low", "high")),
                        counts.share(outcome, confidence),
                        strict=True,
                    )
                )
            row |= {"max_elements": counts["elements"], "max_ulp": counts["max_ulp"]}
            row |= {name: counts[name] for name in ("nonfinite", "one_row", "classified")}
            row["class_changed"] = counts["reclassified"]
            row["images_right"] = counts["right"] / counts["classified"] if counts["right"] else None
            row |= {"max_bits": counts["bits"], "critical": counts["critical"], "weighted": not counts.uniform}
            row |= {name: counts[f"pattern_{name}"] for name in PATTERNS[1:]}
            ends = ("harmful_share", "harmful_low", "harmful_high")
            row |= dict(zip(ends, counts.share("harmful", confidence), strict=True))
            row["operand_sets"] = counts.sets
            if counts.sets > 1:
                for outcome in ("masked", "sdc"):
                    found = counts.estimate(outcome, confidence, by_case=True)
                    row |= {f"{outcome}_sets_low": found.low, f"{outcome}_sets_high": found.high}
                    row[f"{outcome}_design_effect"] = found.design_effect if 0 < found.share < 1 else None
            for name in DETECTORS:
                seen, alarms = counts.tallies[0].coverage(name), counts.tallies[0].alarms(name)
                row[f"{name}_coverage"] = seen.share if seen else None
                row[f"{name}_false_alarms"] = alarms.share if alarms else None
            for name in MENDED:
                found_ = counts.tallies[0].corrected(name)
                row[name] = found_.share if found_ else None
            row |= {name: counts[name] for name in _LEFT}
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

    file = read_head(path, RESULTS)
    about, tallier, parts = file.about, Tallier(), []
    if not file.rows:
        raise _damaged(path, "has no faults")
    try:
        for frame in blocks(file, _READ):
            tallier.add(frame, frame["group"].to_numpy())
            parts.append(_numbers(frame))
            if len(parts) >= _KEPT:
                parts = [_joined(parts)]
        groups = json.loads(about["groups"])
        title(json.loads(about["subject"]))
        _ = [about[name] for name in ("campaign", "seed", "policy", "rule", "operands", "list_sha256", "tcsim")]
        table, heat = _joined(parts)
        tallies = tallier.tallies({number: group["population"] for number, group in enumerate(groups)})
        there = [number for number in range(len(groups)) if number in table.index]
        counts = [
            _counts(groups[number], table.loc[[number]], _of_group(heat, number), (tallies[number],))
            for number in there
        ]  # fmt: skip
        filtered = sum(group["faults"] for group in groups) - file.rows
        population = sum(group["population"] for group in groups)
        endless = not all(group["population"] for group in groups)
        every = {"name": "all", "population": 0 if endless else population}
        total = _counts(every, table, heat, tuple(tallies.values()))
    except TraceError:
        raise
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise _damaged(path, f"is no file of results ({error})") from None
    if len(there) != len(table) or not there:
        raise _damaged(path, f"has faults of {len(table)} groups, but its head names {len(groups)}")
    together = not endless and all(
        counted.uniform or _drawn(groups[number]) for number, counted in zip(there, counts, strict=True)
    )
    return Summary(about, counts, total, max(filtered, 0), together)


def _drawn(group: dict[str, Any]) -> bool:
    """Whether the weights of a group's faults come from how they were drawn alone."""
    return bool(group.get("importance") or group.get("strata")) and "at" not in group


def _joined(parts: list[tuple[Any, Any]]) -> tuple[Any, Any]:
    """The counts and the heat of several blocks together."""
    import pandas as pd

    table = pd.concat([numbers for numbers, _ in parts])
    heat = pd.concat([heat for _, heat in parts]).groupby(level=[0, 1, 2]).sum()
    return table.groupby(level=0).agg({name: _how(name) for name in table.columns}), heat


def _how(name: str) -> str:
    """How a count of several blocks, or groups, comes about."""
    return "max" if name in (*_LARGEST, *_LEFT) else "sum"


def _of_group(heat: Any, number: int) -> Any:
    """The rows of `heat` of one group; none of a group whose faults name no bit."""
    return heat[heat.index.get_level_values(0) == number]


def _damaged(path: str | Path, reason: str) -> TraceError:
    """The error for a file of results that cannot be read."""
    return TraceError(str(path), 0, 0, reason.replace("\n", " "), "results that 'tcsim faults run' wrote")


def _numbers(frame: Any) -> tuple[Any, Any]:
    """Counts a block of results: `Counts.numbers` by group, and `Counts.heat` by group, lane and bit."""
    import pandas as pd

    outcome, group = codes(frame["outcome"], OUTCOMES), frame["group"].to_numpy()
    corrupt, masked = outcome == OUTCOMES.index("sdc"), outcome == OUTCOMES.index("masked")
    counted: dict[str, Any] = {"faults": np.ones(len(frame), np.int64)}
    counted |= {name: outcome == number for number, name in enumerate(OUTCOMES)}
    counted["critical"] = (frame["judged"] == "critical").to_numpy()
    pattern = codes(frame["pattern"], PATTERNS)
    counted |= {f"pattern_{name}": pattern == number for number, name in enumerate(PATTERNS) if number}
    counted |= {name: np.where(corrupt, frame[name].to_numpy(), 0) for name in _LARGEST}
    counted |= {"nonfinite": corrupt & (frame["nonfinite"].to_numpy() > 0)}
    counted |= {"one_row": corrupt & (frame["rows"].to_numpy() == 1)}
    counted |= {name: frame[name].to_numpy() for name in _LEFT}
    changed = frame["class_changed"].to_numpy()
    counted |= {"classified": changed >= 0, "reclassified": changed > 0}
    counted["right"] = np.maximum(frame["accuracy"].to_numpy(np.int64), 0)
    row, bit = np.nonzero(frame["mask"].to_numpy(np.int64)[:, None] >> np.arange(32) & 1)
    places = {"group": group[row], "lane": frame["lane"].to_numpy()[row], "bit": bit}
    heat = pd.DataFrame({**places, "faults": 1, "harmful": ~masked[row]})
    table = pd.DataFrame(counted).groupby(group).agg({name: _how(name) for name in counted})
    return table, heat.groupby(["group", "lane", "bit"]).sum()


def _counts(group: dict[str, Any], table: Any, heat: Any, tallies: tuple[Tally, ...]) -> Counts:
    """The counts of a group, or of several, from their rows of the table of all groups, with their name and heat."""
    grid = np.zeros((1, 32, 2), np.int64)
    if len(heat):
        lanes, bits = (heat.index.get_level_values(level).to_numpy() for level in ("lane", "bit"))
        grid = np.zeros((int(lanes.max()) + 1, 32, 2), np.int64)
        np.add.at(grid, (lanes, bits), heat[["faults", "harmful"]].to_numpy(np.int64))
    numbers = table.agg({name: _how(name) for name in table.columns}).to_dict()
    values = {name: value if name in ("max_rel", "left_abs") else int(value) for name, value in numbers.items()}
    values |= {name: sum(tally.caught(name) for tally in tallies) for name in (*CAUGHT, *MENDED)}
    return Counts(group["name"], int(group["population"]), values, tallies, grid)
