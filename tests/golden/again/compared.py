"""Compares what the simulator says of faults with what was computed again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from simulator.faults import corrections
from simulator.faults.outcomes import DETECTORS, OUTCOMES, REASONS
from tests.golden.again.drawn import Lot
from tests.golden.again.judged import MEASURES

ALWAYS = ("legality", "ordered", "parity", "secded", "abft", "alignment", "race")
"""The detectors that look at every fault, asked for or not."""
CORRECTED = ("corrections", "left_ulp", "left_abs")


class Found(NamedTuple):
    """How many faults of a target differ, and in what.

    Attributes:
        name: the target.
        faults: how many were compared.
        outcomes, numbers, detectors: how many have another outcome or reason, other numbers, other detectors or
            corrections.
        seconds: processor time of the simulator, and of the recomputation.
        first: the first difference in words; "" for none.
    """

    name: str
    faults: int
    outcomes: int
    numbers: int
    detectors: int
    seconds: tuple[float, float]
    first: str

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not (self.outcomes or self.numbers or self.detectors)


def compared(name: str, lot: Lot, again: Callable[[Any], Mapping[str, Any]]) -> Found:
    """Runs a lot by the simulator and by `again`, and compares."""
    begun = time.process_time()
    theirs = lot.campaign.subject.run(lot.faults)
    between = time.process_time()
    ours = again(lot.rows)
    seconds = between - begun, time.process_time() - between
    outcome, reason = (np.array(names, object)[theirs[field]] for names, field in ((OUTCOMES, "outcome"),
                                                                                   (REASONS, "reason")))  # fmt: skip
    wrong = {"outcome": outcome != ours["outcome"], "reason": reason != ours["reason"]}
    for field in (*MEASURES, "class_changed"):
        if field in ours:
            mine = np.asarray(ours[field])
            same = (
                np.isclose(theirs[field], mine, rtol=1e-12, atol=0) if mine.dtype.kind == "f" else theirs[field] == mine
            )
            wrong[field] = ~same
    if "corrections" in ours:
        said_ = np.array([corrections.text(number) for number in theirs["corrections"].tolist()], object)
        wrong["corrections"] = said_ != ours["corrections"]
        wrong["left_ulp"] = theirs["left_ulp"] != ours["left_ulp"]
        wrong["left_abs"] = ~np.isclose(theirs["left_abs"], ours["left_abs"], rtol=1e-12, atol=0)
    for field in ALWAYS:
        wrong[field] = (theirs["detectors"] >> DETECTORS.index(field) & 1 == 1) != ours.get(field, False)
    sums = [np.any([wrong[name] for name in names if name in wrong], axis=0)
            for names in (("outcome", "reason"), (*MEASURES, "class_changed"), (*ALWAYS, *CORRECTED))]  # fmt: skip
    bad = np.flatnonzero(np.any(sums, axis=0))
    first = ""
    if len(bad):
        row = bad[0]
        fields = [field for field, differs in wrong.items() if differs[row]]
        values = {"outcome": outcome, "reason": reason}
        said = [
            f"{field}: {values[field][row] if field in values else theirs[field][row] if field in MEASURES else ''}"
            f" / {ours.get(field, [None] * len(outcome))[row]}"
            for field in fields
        ]
        first = f"fault {lot.rows['id'][row]}: {'; '.join(said)} (simulator / again)"
    return Found(name, len(outcome), *(int(each.sum()) for each in sums), seconds, first)
