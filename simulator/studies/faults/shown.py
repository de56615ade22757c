"""What pictures of fault campaigns show: bars, curves and grids of shares, and what detectors cost."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.errors import TraceError, ViewError, did_you_mean
from simulator.faults.outcomes import DETECTORS
from simulator.faults.results import RESULTS, blocks
from simulator.faults.table import SITES, read_head
from simulator.studies.faults.cost import DETECTORS as TIMED
from simulator.studies.faults.cost import costs
from simulator.studies.faults.summary import Counts, Summary, summarise
from simulator.studies.faults.tallies import COLUMNS, Tallier, Tally, codes
from simulator.studies.gemm.tile import Tile
from simulator.tables import read_rows

_CELLS = 64  # rows and columns of a heat map, at most
_TILE = Tile("f16", 64, 64, 64, 2, 2, 4)  # whose kernel the timing model runs for the cost of detectors


class Bar(NamedTuple):
    """What one bar shows: its label, the file that it is of, and its sums."""

    label: str
    file: str
    tally: Tally


def chosen(summary: Summary, group: str) -> list[Counts]:
    """The groups of a summary, or the one that was named; ViewError if it is not there."""
    chosen = [counts for counts in summary.groups if group in ("", counts.name)]
    if not chosen:
        names = [counts.name for counts in summary.groups]
        raise ViewError(f"no group '{group}'{did_you_mean(group, names)}", ", ".join(names))
    return chosen


def by_group(path: str | Path, group: str, file: str) -> list[Bar]:
    return [Bar(counts.name, file, counts.tallies[0]) for counts in chosen(summarise(path), group)]


def by_site(path: str | Path, group: str, file: str) -> list[Bar]:
    """The faults of each site; if a site has faults of several groups, of all of them as they were injected."""
    wanted, head = chosen(summarise(path), group), read_head(path, RESULTS)
    mask = np.isin(_group_names(head.about), [counts.name for counts in wanted])
    tallier = Tallier()
    for frame in blocks(head, (*COLUMNS, "group", "site")):
        mine = frame[mask[frame["group"].to_numpy()]]
        tallier.add(mine, codes(mine["site"], SITES))
    every = all(counts.exhaustive for counts in wanted)
    return [Bar(SITES[key], file, _known(tally, every)) for key, tally in tallier.tallies().items()]


def _group_names(about: dict[str, str]) -> list[str]:
    return [group["name"] for group in json.loads(about["groups"])]


def _known(tally: Tally, every: bool) -> Tally:
    """The tally of faults of which every one was injected, or of a sample."""
    return replace(tally, population=tally.count) if every else tally


def by_bit(path: str | Path, group: str, file: str) -> list[tuple[str, dict[int, Tally]]]:
    """For each group of faults in single bits, with the file's name if one is given, the tally of each bit."""
    wanted, head = (
        {counts.name: counts.exhaustive for counts in chosen(summarise(path), group)},
        read_head(path, RESULTS),
    )
    tallier = Tallier()
    for frame in blocks(head, (*COLUMNS, "group", "mask")):
        mask = frame["mask"].to_numpy(np.int64)
        mine = frame[(mask > 0) & (mask & (mask - 1) == 0)]
        tallier.add(mine, mine["group"].to_numpy(np.int64) * 32 + np.log2(mine["mask"].to_numpy()).astype(np.int64))
    found: dict[str, dict[int, Tally]] = {}
    names, suffix = _group_names(head.about), f" ({file})" if file else ""
    for key, tally in tallier.tallies().items():
        name = names[key // 32]
        if name in wanted:
            found.setdefault(name + suffix, {})[key % 32] = _known(tally, wanted[name])
    if not found:
        raise ViewError(f"{path}: no faults in single bits", "--by group, or a group of kind flip")
    return list(found.items())


class Grid(NamedTuple):
    """A heat map: its title, what its cells say, shares [row, column] (NaN where there is nothing), and the names of
    the axes with their ticks."""

    title: str
    says: str
    shares: NDArray[np.float64]
    rows: tuple[str, list[str]]
    columns: tuple[str, list[str]]


def lanes(counts: Counts) -> Grid:
    """The share of faults at each lane and bit that are not masked."""
    used = np.flatnonzero(counts.heat[:, :, 0].any(axis=1))
    if not len(used):
        raise ViewError(f"{counts.name}: its faults name no bit", "a group of faults in bits of words")
    heat = counts.heat[used][:, ::-1]
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = heat[:, :, 1] / heat[:, :, 0]
    rows = [str(lane) for lane in used.tolist()]
    return Grid(counts.name, "not masked", shares, ("lane", rows), ("bit", [str(bit) for bit in range(31, -1, -1)]))


def places(path: str | Path, group: str) -> Grid:
    """Of the corruptions, the share whose first wrong element lies at each row and column of D."""
    counts, head = chosen(summarise(path), group)[0], read_head(path, RESULTS)
    number, columns = _group_names(head.about).index(counts.name), ("group", "outcome", "first_row", "first_column")

    def places() -> Any:
        for frame in blocks(head, columns):
            mine = frame[(frame["group"] == number) & (frame["outcome"] == "sdc")]
            yield mine["first_row"].to_numpy(np.int64), mine["first_column"].to_numpy(np.int64)

    ends = [(int(row.max()), int(column.max())) for row, column in places() if len(row)]
    if not ends:
        raise ViewError(f"{counts.name}: no fault corrupts the result", "a group with silent corruptions")
    sizes = [1 + max(end) for end in zip(*ends, strict=True)]
    steps = [-(-size // _CELLS) for size in sizes]
    grid = np.zeros([-(-size // step) for size, step in zip(sizes, steps, strict=True)], np.int64)
    for row, column in places():
        np.add.at(grid, (row // steps[0], column // steps[1]), 1)
    axes = []
    for name, size, step in zip(("row of D", "column of D"), grid.shape, steps, strict=True):
        axes.append((name, [str(cell * step) for cell in range(size)]))
    return Grid(counts.name, "first wrong element", grid / grid.sum(), axes[0], axes[1])


def overheads(path: str) -> dict[str, float]:
    """The overhead in cycles of each detector, as a share."""
    if not path:
        timed = [name for name in TIMED if name in DETECTORS]
        found = {one.name: one.overhead for one in costs(_TILE, detectors=("none", *timed))[1:]}
        return found | {"parity": 0.0, "secded": 0.0}  # which hardware checks
    rows, found = read_rows(Path(path)), {}
    for line, row in enumerate(rows, 2):
        name, text = (row.get("detector") or "").strip(), (row.get("overhead") or "").strip()
        try:
            value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            value = math.nan
        if name not in DETECTORS or not math.isfinite(value):
            known = did_you_mean(name, DETECTORS)
            legal = f"columns detector ({', '.join(DETECTORS)}) and overhead (0.07 or 7%)"
            raise TraceError(path, line, 1, f"detector '{name}'{known}, overhead '{text}'", legal)
        found[name] = value
    if not found:
        raise TraceError(path, 0, 0, "no rows", "columns detector and overhead")
    return found
