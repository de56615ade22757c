"""Compare the decoder with the recorded verdicts of ptxas 13.0: on texts of mma and mma.sp, and of all other families
that are executed.

    python -m tests.golden.compare_ptxas            # mma: each text on which they disagree and a sum
    python -m tests.golden.compare_ptxas --threads  # the others: texts tried and disagreements of each family
    python -m tests.golden.compare_ptxas --wgmma    # the same of wgmma
    python -m tests.golden.compare_ptxas --hopper   # of copies, clusters, mbarriers and what else Hopper brought

Exit status 1 if there is a disagreement.
"""

from __future__ import annotations

import csv
import gzip
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import isa
from isa.forms.record import PTX

VERDICTS = Path(__file__).with_name("ptxas_mma_sp.csv.gz")
THREADS = Path(__file__).with_name("ptxas_threads.csv.gz")
WGMMA = Path(__file__).with_name("ptxas_wgmma.csv.gz")
HOPPER = Path(__file__).with_name("ptxas_hopper.csv.gz")


class Judged(NamedTuple):
    """How many texts ptxas took and refused, and (target, text) of those on which the decoder says otherwise."""

    taken: int
    refused: int
    disagreements: list[tuple[str, str]]


def verdicts() -> list[dict[str, str]]:
    """The recorded rows: a text, the targets that it was tried on, and whether they took it."""
    with gzip.open(VERDICTS, "rt", newline="") as file:
        return list(csv.DictReader(file))


def thread_verdicts() -> list[dict[str, str]]:
    """The recorded rows of the other families: a text, one target, the PTX version, whether ptxas takes it,
    and why that counts for nothing ("random", "crash", "no code"; "" where it counts)."""
    with gzip.open(THREADS, "rt", newline="") as file:
        return list(csv.DictReader(file))


def wgmma_verdicts() -> list[dict[str, str]]:
    """The recorded rows of wgmma, as those of `thread_verdicts`."""
    with gzip.open(WGMMA, "rt", newline="") as file:
        return list(csv.DictReader(file))


def hopper_verdicts() -> list[dict[str, str]]:
    """The recorded rows of Hopper's other instructions, as those of `thread_verdicts`."""
    with gzip.open(HOPPER, "rt", newline="") as file:
        return list(csv.DictReader(file))


def family(text: str) -> str:
    """The family of a text: the first part of its opcode."""
    return re.sub(r"^@\S+ ", "", text).split(" ", 1)[0].split(".", 1)[0].rstrip(";")


class Tried(NamedTuple):
    """Texts of a family: how many there are, and those that are taken or refused against ptxas."""

    texts: int
    lax: list[str]
    strict: list[str]


def judged_threads(rows: Iterable[dict[str, str]], named: Callable[[str], str] = family) -> dict[str, Tried]:
    """Rows of the other families against the decoder, without those whose verdict counts for nothing."""
    found: dict[str, Tried] = {}
    for row in rows:
        if row["reason"]:
            continue
        name = named(row["ptx"])
        before = found.get(name, Tried(0, [], []))
        found[name] = before._replace(texts=before.texts + 1)
        taken = takes(row["ptx"], row["target"], row["version"])
        if taken != (row["accepted"] == "1"):
            (before.lax if taken else before.strict).append(f"{row['target']}, PTX {row['version']}: {row['ptx']}")
    return found


_TYPED = re.compile(r"%([a-z]+\d*(?:x2)?)_\d+")


def takes(text: str, target: str, ptx: str = PTX) -> bool:
    """Whether the decoder takes a text; a register `%u32_7` is one that is declared with .u32."""
    try:
        isa.decode(text, target, ptx, {found[0]: found[1] for found in _TYPED.finditer(text)} or None)
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


def print_threads(rows: list[dict[str, str]], named: Callable[[str], str] = family) -> int:
    """Prints texts tried and disagreements of each family; returns the exit status."""
    found = judged_threads(rows, named)
    print(f"{'family':32}{'texts':>8}{'taken, which ptxas refuses':>30}{'refused, which ptxas takes':>30}")
    for name, tried in sorted(found.items()):
        print(f"{name:32}{tried.texts:8,}{len(tried.lax):30,}{len(tried.strict):30,}")
        for text in (*tried.lax, *tried.strict) if "--texts" in sys.argv else ():
            print(f"  {text}")
    texts = sum(tried.texts for tried in found.values())
    lax, strict = (sum(len(tried[place]) for tried in found.values()) for place in (1, 2))
    print(f"{texts:,} texts of {len(found)} families: {lax + strict:,} disagreements")
    for reason, count in Counter(row["reason"] for row in rows if row["reason"]).items():
        print(f"{count:,} more whose verdicts count for nothing: {reason}")
    return int(bool(lax or strict))


def main() -> int:
    if "--threads" in sys.argv:
        return print_threads(thread_verdicts())
    if "--wgmma" in sys.argv:
        return print_threads(wgmma_verdicts())
    if "--hopper" in sys.argv:
        return print_threads(hopper_verdicts())
    taken, refused, disagreements = judged(verdicts())
    for target, text in disagreements:
        print(f"  {target}: {text}")
    print(f"{taken + refused:,} verdicts, {taken:,} of them of legal texts: {len(disagreements):,} disagreements")
    return int(bool(disagreements))


if __name__ == "__main__":
    sys.exit(main())
