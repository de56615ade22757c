"""Packs the recorded verdicts of ptxas on `mma.sp` texts for the tests.

    python tests/golden/make_ptxas.py FILE

FILE is the full table of ptxas 13.0: columns ptx, targets, accepted, category, group; one row for a text and the
targets that gave one verdict. All rows are kept, without category and group.
"""

from __future__ import annotations

import csv
import gzip
import io
import sys
from pathlib import Path

TARGET = Path(__file__).parent / "ptxas_mma_sp.csv.gz"

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: make_ptxas.py FILE")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("ptx", "targets", "accepted"))
    with Path(sys.argv[1]).open(newline="") as file:
        writer.writerows((row["ptx"], row["targets"], row["accepted"]) for row in csv.DictReader(file))
    TARGET.write_bytes(gzip.compress(text.getvalue().encode(), 9, mtime=0))
    print(f"{TARGET}: {text.getvalue().count(chr(10)) - 1} texts, {TARGET.stat().st_size} bytes")
