"""Sums over rows of results, by group or by any other key, block by block: estimates and plots rest on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.faults.corrections import CORRECTORS, HOW
from simulator.faults.outcomes import DETECTORS, JUDGED, OUTCOMES
from simulator.statistics.designs import Clusters, Estimate, Sums, bootstrapped, clustered, estimated

Reals = NDArray[np.float64]
HARMFUL = "harmful"  # not masked
SEEN = (*OUTCOMES, JUDGED[-1], HARMFUL)  # what a fault can be seen to do
CAUGHT = tuple(f"{what}_{name}" for name in DETECTORS for what in ("seen", "alarm"))
"""What detectors saw: of harmful faults, and of masked ones."""
MENDED = tuple(f"{how}_{name}" for name in CORRECTORS for how in (*HOW[1:], "spoilt"))
"""What detectors correct: of harmful faults exactly, nearly, wrongly; of masked ones wrongly."""
_NAMES = (*SEEN, *CAUGHT, *MENDED)
COLUMNS = ("case", "outcome", "judged", "weight", "detectors", "corrections")  # of results, that tallies need


@dataclass(frozen=True)
class Tally:
    """Sums over some faults.

    Attributes:
        count: how many faults.
        population: how many there are to draw from; 0 for no end of them, or if that is unknown.
        hits: for each of `SEEN`, `CAUGHT` and `MENDED` how many faults do it, the sum of their weights, and that of the
            squares: [name, 3].
        weights: the same of all faults: [3].
        numbers: the numbers of the sets of operands, ascending: [case].
        cases: by set of operands, the sum of the weights, then for each of `SEEN` that of the faults that do it: [case,
            1 + seen].
    """

    count: int
    population: int
    weights: Reals
    hits: Reals
    numbers: NDArray[np.integer]
    cases: Reals

    def sums(self, seen: str, among: str = "") -> Sums:
        """The sums for a share, of all faults or of those that do something else, such as `harmful` ones."""
        count, weight, weight2 = (self.hits[_NAMES.index(among)] if among else self.weights).tolist()
        _, hit, hit2 = self.hits[_NAMES.index(seen)].tolist()
        return Sums(round(count), weight, weight2, hit, hit2)

    def estimate(self, seen: str, confidence: float = 0.95) -> Estimate:
        """The share of the population that does this."""
        return estimated(self.sums(seen), self.population, confidence)

    def caught(self, name: str) -> int:
        """How many faults a detector saw or corrected, one of `CAUGHT` or `MENDED`."""
        return round(float(self.hits[_NAMES.index(name), 0]))

    def coverage(self, detector: str, confidence: float = 0.95) -> Estimate | None:
        """The share that a detector sees of the faults that are not masked; None if all are."""
        return self._among(f"seen_{detector}", HARMFUL, confidence)

    def alarms(self, detector: str, confidence: float = 0.95) -> Estimate | None:
        """The share that a detector sees of the masked faults; None if there are none."""
        return self._among(f"alarm_{detector}", OUTCOMES[0], confidence)

    def corrected(self, name: str, confidence: float = 0.95) -> Estimate | None:
        """The share of one of `MENDED` of the faults that are not masked, or that are for `spoilt_` ones; None without
        any."""
        return self._among(name, OUTCOMES[0] if name.startswith("spoilt") else HARMFUL, confidence)

    def _among(self, seen: str, those: str, confidence: float) -> Estimate | None:
        """A share of the faults that do something else, all of which are known if all faults were injected."""
        sums = self.sums(seen, those)
        every = sums.count if self.count == self.population else 0
        return estimated(sums, every, confidence) if sums.count else None

    @property
    def sets(self) -> int:
        """How many sets of operands the faults struck."""
        return len(self.cases)

    def by_case(self, seen: str, confidence: float = 0.95, *, bootstrap: bool = False) -> Estimate:
        """The share among operands in general, of which the sets are a sample: each is a cluster. ViewError if there is
        only one set."""
        how, found = bootstrapped if bootstrap else clustered, self.clusters(seen)
        return how(found.weights, found.hits, self.count, confidence)

    def clusters(self, seen: str) -> Clusters:
        """The sums for a share by set of operands."""
        return Clusters(self.numbers, self.cases[:, 0], self.cases[:, 1 + SEEN.index(seen)])


class Tallier:
    """Adds up blocks of results by a key."""

    def __init__(self) -> None:
        self._parts: list[Any] = []

    def add(self, frame: Any, keys: Sequence[int] | NDArray[np.integer]) -> None:
        """Adds a block, a DataFrame with `COLUMNS`, with the key of each row. ValueError for words that are none."""
        import pandas as pd

        w = frame["weight"].to_numpy()
        outcome, judged = codes(frame["outcome"], OUTCOMES), codes(frame["judged"], JUDGED)
        if not (np.isfinite(w) & (w >= 0)).all():
            raise ValueError("a weight that is no number from 0")
        masked = outcome == 0
        did = [outcome == number for number in range(len(OUTCOMES))]
        did += [judged == len(JUDGED) - 1, ~masked]
        which, names = pd.factorize(frame["detectors"])
        for name in DETECTORS:
            seen = np.array([name in text.split("+") for text in names], np.bool_)[which]
            did += [seen & ~masked, seen & masked]
        which, names = pd.factorize(frame["corrections"])
        for name in CORRECTORS:
            how = np.array([dict(_pairs(text)).get(name, "") for text in names], object)[which]
            did += [(how == each) & ~masked for each in HOW[1:]]
            did.append((how == HOW[-1]) & masked)
        columns = {"key": np.asarray(keys), "case": frame["case"].to_numpy(), "n": 1, "w": w, "v": w * w}
        for number, mask in enumerate(did):
            if mask.any():
                columns |= {f"n{number}": mask, f"w{number}": np.where(mask, w, 0.0)}
                columns[f"v{number}"] = np.where(mask, w * w, 0.0)
        self._parts.append(pd.DataFrame(columns).groupby(["key", "case"]).sum())
        if len(self._parts) >= 32:
            self._parts = [self._together()]

    def tallies(self, populations: dict[int, int] | None = None) -> dict[int, Tally]:
        """The tally of each key, ascending; with the populations of keys that have one."""
        if not self._parts:
            return {}
        found = populations or {}
        by_key = self._together().groupby(level=0)
        return {int(key): _tally(rows, found.get(int(key), 0)) for key, rows in by_key}

    def _together(self) -> Any:
        """The sums of all blocks; what none of the faults of a block did counts nothing."""
        import pandas as pd

        return pd.concat(self._parts).fillna(0).groupby(level=[0, 1]).sum()


def _tally(rows: Any, population: int) -> Tally:
    """The tally of the rows of a key. ValueError if its faults weigh nothing."""

    def column(letter: str, number: int | str) -> Reals:
        name = f"{letter}{number}"
        return rows[name].to_numpy(np.float64) if name in rows else np.zeros(len(rows))

    hits = np.array([[column(letter, number).sum() for letter in "nwv"] for number in range(len(_NAMES))])
    weights = np.array([column(letter, "").sum() for letter in "nwv"])
    if weights[1] <= 0:
        raise ValueError("faults whose weights are all 0")
    cases = np.stack([column("w", number) for number in ("", *range(len(SEEN)))], axis=1)
    return Tally(
        round(float(weights[0])), population, weights, hits, rows.index.get_level_values("case").to_numpy(), cases
    )


def _pairs(text: str) -> list[tuple[str, str]]:
    """The detectors that a text of the column `corrections` names, each with what its correction comes to. ValueError
    for a text that is none."""
    found = [(name, how) for name, _, how in (part.partition(":") for part in text.split("+") if part)]
    if not all(name in CORRECTORS and how in HOW[1:] for name, how in found):
        raise ValueError(f"corrections '{text}'")
    return found


def codes(column: Any, words: Sequence[str]) -> NDArray[np.integer]:
    """The numbers of words of a column; ValueError for one that is none."""
    import pandas as pd

    which, found = pd.factorize(column)
    known = {word: number for number, word in enumerate(words)}
    for word in found:
        if word not in known:
            raise ValueError(f"{column.name} '{word}'")
    return np.array([known[word] for word in found], np.uint8)[which]
