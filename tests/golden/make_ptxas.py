"""Cut the recorded verdicts of ptxas on `mma.sp` texts down to what the tests carry.

    python tests/golden/make_ptxas.py FILE

FILE is the full table of ptxas 13.0: columns ptx, targets, accepted, category, group; one row for a text and the targets that gave one verdict.
Kept are all texts accepted for a target up to sm_90a, and of the refused ones as many from every group and category as there is room for.
"""

from __future__ import annotations

import csv
import gzip
import io
import random
import sys
from collections import defaultdict
from pathlib import Path

TARGET = Path(__file__).parent / "ptxas_mma_sp.csv.gz"
KNOWN = ("sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_90a")
REFUSED = 6000


def sample(source: Path) -> list[tuple[str, str, str]]:
    """(ptx, targets up to sm_90a, accepted), in the order of the file."""
    with source.open(newline="") as file:
        rows = [(number, row) for number, row in enumerate(csv.DictReader(file)) if set(row["targets"].split()) & set(KNOWN)]
    chosen = {number for number, row in rows if row["accepted"] == "1"}
    piles: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, row in rows:
        if row["accepted"] != "1":
            piles[row["group"], row["category"]].append(number)
    generator = random.Random(0)
    for pile in piles.values():
        generator.shuffle(pile)
    refused: set[int] = set()
    depth = 0
    while len(refused) < REFUSED and depth < max(map(len, piles.values())):
        refused |= {pile[depth] for pile in piles.values() if depth < len(pile)}
        depth += 1
    chosen |= refused
    return [(row["ptx"], " ".join(t for t in row["targets"].split() if t in KNOWN), row["accepted"]) for number, row in rows if number in chosen]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: make_ptxas.py FILE")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("ptx", "targets", "accepted"))
    writer.writerows(sample(Path(sys.argv[1])))
    TARGET.write_bytes(gzip.compress(text.getvalue().encode(), 9, mtime=0))
    print(f"{TARGET}: {text.getvalue().count(chr(10)) - 1} texts, {TARGET.stat().st_size} bytes")
