"""Compare the decoder with the recorded verdicts of ptxas 13.0 on texts of mma and mma.sp.

    python -m tests.golden.compare_ptxas

Prints each text on which they disagree and a sum; exit status 1 if there is one.
"""

from __future__ import annotations

import csv
import gzip
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import isa

VERDICTS = Path(__file__).with_name("ptxas_mma_sp.csv.gz")


class Judged(NamedTuple):
    """How many texts ptxas took and refused, and (target, text) of those on which the decoder says otherwise."""

    taken: int
    refused: int
    disagreements: list[tuple[str, str]]


def verdicts() -> list[dict[str, str]]:
    """The recorded rows: a text, the targets that it was tried on, and whether they took it."""
    with gzip.open(VERDICTS, "rt", newline="") as file:
        return list(csv.DictReader(file))


def takes(text: str, target: str) -> bool:
    """Whether the decoder takes a text."""
    try:
        isa.decode(text, target)
    except isa.IsaError:
        return False
    return True


def judged(rows: Iterable[dict[str, str]]) -> Judged:
    """Rows against the decoder."""
    counts, disagreements = {"0": 0, "1": 0}, []
    for row in rows:
        for target in row["targets"].split():
            counts[row["accepted"]] += 1
            if takes(row["ptx"], target) != (row["accepted"] == "1"):
                disagreements.append((target, row["ptx"]))
    return Judged(counts["1"], counts["0"], disagreements)


def main() -> int:
    taken, refused, disagreements = judged(verdicts())
    for target, text in disagreements:
        print(f"  {target}: {text}")
    print(f"{taken + refused:,} verdicts, {taken:,} of them of legal texts: {len(disagreements):,} disagreements")
    return int(bool(disagreements))


if __name__ == "__main__":
    sys.exit(main())
