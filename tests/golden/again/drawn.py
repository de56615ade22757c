"""Campaigns that the recomputation draws from, and the lists that the public way makes of them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simulator.faults import table
from simulator.faults.campaign import Campaign, read_campaign
from tests.golden.again.rows import Rows, read_rows

PATTERNS = """pattern,probability,row,column,mask
pair,0.25,0,0,0x4
pair,0.25,0,1,0x4
block,0.5,0,0,0x1
block,0.5,1,0,0x3
block,0.5,-1,2,0x2
line,0.25,0,0,0x1
line,0.25,0,1,0x1
line,0.25,0,2,0x1
"""
Keys = dict[str, Any]


class Lot(NamedTuple):
    """Faults that were drawn.

    Attributes:
        campaign: the campaign as the simulator read it, with the target.
        faults: its rows as the simulator has them.
        rows: the same, read from their text.
        models: by number of group its expression.
        patterns: by number the wrong elements of a pattern: row, column, bits.
    """

    campaign: Campaign
    faults: Any
    rows: Rows
    models: Mapping[int, str]
    patterns: Sequence[Sequence[tuple[int, int, int]]]


def drawn(subject: Keys, groups: Sequence[Keys], count: int, seed: int = 1, **head: Any) -> Lot:
    """Draws about `count` faults of these groups, evenly; of a group that has fewer it takes all."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "patterns.csv").write_text(PATTERNS)
        path = Path(folder, "campaign.toml")
        path.write_text(_toml(subject, [group | {"count": 1} for group in groups], seed, head))
        sizes = [size for _, size in read_campaign(path).counts()]
        shares = _shares(sizes, count, [group.get("kind") in ("word", "random", "pattern") for group in groups])
        chosen = [(group, share) for group, share in zip(groups, shares, strict=True) if share]
        path.write_text(_toml(subject, [group | {"count": share} for group, share in chosen], seed, head))
        campaign = read_campaign(path)
    faults = np.concatenate(list(campaign.faults()))
    columns = (*table.columns_of(faults), table.CHECK)
    found = read_rows(table.texts(faults, columns), columns)
    models = {number: group["model"] for number, (group, _) in enumerate(chosen) if "model" in group}
    with_patterns = sum("patterns" in group for group, _ in chosen)
    return Lot(campaign, faults, found, models, list(_offsets()) * with_patterns)


def _shares(sizes: Sequence[int], count: int, endless: Sequence[bool]) -> list[int]:
    """How many faults to take of each group."""
    left, shares = count, [0] * len(sizes)
    order = sorted(range(len(sizes)), key=lambda number: (endless[number], sizes[number]))
    for done, number in enumerate(order):
        even = -(-left // (len(sizes) - done))
        shares[number] = max(0, even if endless[number] else min(even, sizes[number]))
        left -= shares[number]
    return shares


def _offsets() -> Iterator[list[tuple[int, int, int]]]:
    """The patterns of the file above, in its order."""
    found: dict[str, list[tuple[int, int, int]]] = {}
    for line in PATTERNS.splitlines()[1:]:
        name, _, row, column, mask = line.split(",")
        found.setdefault(name, []).append((int(row), int(column), int(mask, 16)))
    yield from found.values()


def _toml(subject: Keys, groups: Sequence[Keys], seed: int, head: Keys) -> str:
    tables = [("[campaign]", {"seed": seed} | head), ("[subject]", subject)]
    tables += [("[[faults]]", {"name": f"group {number}"} | group) for number, group in enumerate(groups)]
    return "\n".join(
        "\n".join([title, *(f"{key} = {json.dumps(value)}" for key, value in keys.items())]) for title, keys in tables
    )
