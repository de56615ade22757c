"""Which kernel of a GEMM is the fastest on a chip: its tile, its stages, and with them how many CTAs an SM holds.

A search over all of them would simulate some forty kernels. What each asks of the units of an SM is counted at once:
the unit that is busy for longest gives the least time that the kernel can take, and with the latencies of a main loop
about the time that it does take. A kernel of each of the most promising tiles is simulated, those CTAs alone that begin
together. Of tiles within some percent of the fastest later CTAs follow, and kernels with more stages, and with fewer,
for as long as that helps.

An SM holds as many CTAs as fit. Fewer never were faster for the same tile and stages; more stages leave room for fewer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, inf
from pathlib import Path
from typing import Any

from isa import IsaError
from simulator.chip.config import Config, load_config
from simulator.errors import ConfigError
from simulator.floating_point import guarded
from simulator.state.shared import LINE_BYTES
from simulator.studies.gemm.choice import chosen_path, tile_for, tiles_of
from simulator.studies.gemm.estimate import check_chip, dram_cycles, filled, kernel_cycles, stacked
from simulator.studies.gemm.held import delay, occupancy
from simulator.studies.gemm.kinds import AnyTile, persistent, stages_of
from simulator.studies.gemm.runs import at_length, run
from simulator.studies.gemm.tile import STAGES, Tile

_TILES = 4  # of which a kernel is simulated
_NEAR, _CLOSE = 1.06, 1.03  # a run of the first CTAs tells tiles apart by no less, and kernels of a tile
_ALONE = 250  # cycles of an iteration that a CTA alone on an SM waits, about; it only orders what is simulated
_SETTLED = 3  # stages that most kernels have enough of


@dataclass(frozen=True)
class Candidate:
    """A kernel that a search looks at.

    Attributes:
        tile: what a CTA computes, with its stages.
        resident: how many CTAs an SM holds.
        least: cycles for which some unit is busy: no kernel takes fewer.
        expected: cycles that it takes, about.
    """

    tile: AnyTile
    resident: int
    least: float
    expected: float


@dataclass(frozen=True)
class Fastest:
    """The fastest kernel that a search found.

    Attributes:
        tile: what a CTA computes, with its stages.
        name: of the tile, as options and sweeps name it.
        resident: how many CTAs an SM holds.
        cycles: of the kernel, as of `estimate`.
        candidates: how many kernels there are on the chip.
        simulated: how many of them were simulated.
    """

    tile: AnyTile
    name: str
    resident: int
    cycles: int
    candidates: int
    simulated: int

    def __str__(self) -> str:
        kernel = f"tile {self.name}, {self.tile.stages} stages, {self.resident} {_ctas(self.resident)} per SM"
        return f"best of {self.candidates} kernels ({self.simulated} simulated): {kernel}"


@guarded
def fastest(
    type: str,
    m: int,
    n: int,
    k: int,
    config: str | Path | Config = "h100_sxm",
    *,
    sparse: bool = True,
    parts: int = 1,
    stages: int | None = None,
    **how: Any,
) -> Fastest:
    """The fastest of the kernels of `tiles_of(config)`, with all numbers of stages that fit.

    Args:
        parts: products of this size that run together: batches times slices of K.
        stages: if given, no others are tried.
        how: accumulator, warps, kind, cluster, path, schedule, output, as of `tile_for`.

    Raises:
        IsaError: a type that no kernel multiplies, or no tile that fits.
        ConfigError: a config without times for global memory.
    """
    chip = load_config(config)
    named: dict[AnyTile, str] = {}
    last: IsaError | ConfigError | None = None
    for text in tiles_of(chip, chosen_path(chip, type, **how)):
        try:
            named |= dict.fromkeys(_deeper(text, type, chip, stages, {"sparse": sparse, **how}), text)
        except (IsaError, ConfigError) as error:
            last = error
    if not named:
        assert last is not None
        raise last
    ranked = sorted((candidate(tile, stacked(tile, m, parts), n, k, chip) for tile in named), key=_rank)

    search = _Search(chip, m, n, k, parts)
    by_tile = {text: [one for one in ranked if named[one.tile] == text] for text in named.values()}
    promising = sorted((of[0] for of in by_tile.values()), key=_rank)[:_TILES]
    for one in promising:
        if one.least < search.least:
            search.first(one)
    for one in sorted(search.firsts, key=search.first):
        if search.first(one) <= _NEAR * search.least:
            search.climb(one, by_tile[named[one.tile]])
    best, cycles = min(search.wholes.items(), key=lambda found: found[1])
    return Fastest(best.tile, named[best.tile], best.resident, cycles, len(ranked), len(search.firsts))


class _Search:
    """What is known of the kernels of a product: each is simulated once."""

    def __init__(self, chip: Config, m: int, n: int, k: int, parts: int) -> None:
        self.chip, self.m, self.n, self.k, self.parts = chip, m, n, k, parts
        self.firsts: dict[Candidate, int] = {}
        self.wholes: dict[Candidate, int] = {}

    @property
    def least(self) -> float:
        """Cycles of the fastest kernel up to now."""
        return min((*self.firsts.values(), *self.wholes.values()), default=inf)

    def first(self, one: Candidate) -> int:
        """About the cycles of a kernel, from its first CTAs."""
        if one not in self.firsts:
            self.firsts[one] = first_cycles(one.tile, stacked(one.tile, self.m, self.parts), self.n, self.k, self.chip)
        return self.firsts[one]

    def whole(self, one: Candidate) -> int:
        """The cycles of a kernel."""
        if one not in self.wholes:
            self.wholes[one] = kernel_cycles(one.tile, stacked(one.tile, self.m, self.parts), self.n, self.k, self.chip)
        return self.wholes[one]

    def climb(self, one: Candidate, kernels: list[Candidate]) -> None:
        """Goes from a kernel to those of its tile with more stages, and with fewer, for as long as that is faster."""
        by_stages = {each.tile.stages: each for each in kernels}
        for step in (1, -1):
            here, there = one, by_stages.get(one.tile.stages + step)
            self.whole(here)
            while there is not None and there.least < self.least and self._faster(there, here):
                here, there = there, by_stages.get(there.tile.stages + step)

    def _faster(self, there: Candidate, here: Candidate) -> bool:
        return self.first(there) <= _CLOSE * self.first(here) and self.whole(there) < self.whole(here)


def first_cycles(tile: AnyTile, m: int, n: int, k: int, chip: Config) -> int:
    """About `kernel_cycles`, from the run of the first CTAs of an SM alone: as if those that follow took as long."""
    assert chip.hbm is not None
    m, n, k = filled(tile, m, n, k)
    if not isinstance(tile, Tile):
        kernel = persistent(tile, m, n, k, chip)
        following = round((kernel.rounds - 1) * kernel.iterations * kernel.iteration)
        return max(kernel.first + following + chip.hbm.latency, ceil(kernel.device_bytes / chip.hbm.bytes))
    ctas, sms = (m // tile.bm) * (n // tile.bn), chip.chip.sms
    on_sm = -(-ctas // sms)
    together, later = min(occupancy(tile, chip), on_sm), delay(tile, m, n, k, chip)
    first, _ = at_length(tile, k, lambda k: run(tile, k, chip, together, min(sms, ctas), later), lambda *_: 0)
    return max(first.cycles * on_sm // together + chip.hbm.latency, dram_cycles(tile, m, n, k, chip))


def _deeper(text: str, type: str, chip: Config, stages: int | None, how: dict[str, Any]) -> list[AnyTile]:
    """The kernels of a tile that fit on the chip, with each number of stages; persistent ones with the most alone,
    which keep the tensor cores of an SM, that has one CTA, supplied best."""
    first = tile_for(text, type, stages=stages, config=chip, **how)
    if stages is not None:
        check_chip(first, chip)
        return [first]
    several = isinstance(first, Tile)
    fitting: list[AnyTile] = []
    last: IsaError | ConfigError | None = None
    for count in STAGES if isinstance(first, Tile) else reversed(stages_of(first)):
        try:
            tile = replace(first, stages=count)
            check_chip(tile, chip)
        except (IsaError, ConfigError) as error:
            last = last or error
            continue
        fitting.append(tile)
        if not several:
            break
    if not fitting:
        assert last is not None
        raise last
    return fitting


def _rank(one: Candidate) -> tuple[float, int]:
    """Of kernels that should take as long, those first whose stages are neither few nor many."""
    return one.expected, abs(one.tile.stages - _SETTLED)


def candidate(tile: AnyTile, m: int, n: int, k: int, chip: Config) -> Candidate:
    """A kernel with the least time that it can take, and about the one that it takes."""
    m, n, k = filled(tile, m, n, k)
    if not isinstance(tile, Tile):
        kernel = persistent(tile, m, n, k, chip)
        least = max(kernel.least, kernel.device_bytes / chip.hbm.bytes if chip.hbm is not None else 0)
        return Candidate(tile, 1, least, least)
    ctas, resident = (m // tile.bm) * (n // tile.bn), occupancy(tile, chip)
    on_sm, sms = -(-ctas // chip.chip.sms), min(ctas, chip.chip.sms)
    together, iterations = min(resident, on_sm), k // tile.bk
    device = dram_cycles(tile, m, n, k, chip)
    least = max(on_sm * iterations * _busy(tile, chip), device)
    return Candidate(
        tile, resident, least, max(on_sm / together * expected(tile, iterations, chip, together, sms), device)
    )


def expected(tile: Tile, iterations: int, chip: Config, together: int, sms: int, later: int = 0) -> float:
    """About the cycles of so many CTAs that begin together on each of `sms` SMs, whose copies come `later`."""
    assert chip.l2 is not None
    assert chip.memory is not None
    busy, latency = _busy(tile, chip), chip.memory.copy_latency + later
    l2 = chip.l2.read_cycles(tile.stage_bytes * sms, tile.stage_lines * sms)
    alone = max(busy + _ALONE, (latency + busy) / (tile.stages - 1), l2 + _ALONE)  # an iteration, no other CTA there
    pace = max(together * max(busy, l2), alone)
    stored = tile.bm * tile.bn * tile.bytes_d * sms / chip.l2.write_bytes * (1 if together == 1 else 0.5)
    return iterations * pace + 1.5 * latency + together * stored


def _busy(tile: Tile, chip: Config) -> float:
    """Cycles for which the busiest of an SM's own units is taken by an iteration of a CTA: tensor pipes, the path of
    metadata and the ports that they share, or shared memory, that warps read and copies write."""
    metadata, ports = chip.path_cycles(tile.form)
    tensor = max(chip.tensor_cycles(tile.form) / chip.sm.tensor_pipes, metadata, ports)
    scales = 4 * tile.scale_words
    a, b = tile.bm * (tile.row_a + scales) + tile.bytes_e, tile.bn * (tile.row_b + scales)
    moved = tile.warps_n * a + tile.warps_m * b
    wavefronts = LINE_BYTES * chip.shared.wavefronts / chip.shared.cycles
    return max(tile.instructions / chip.sm.sub_cores * tensor, moved / wavefronts)


def _ctas(count: int) -> str:
    return "CTA" if count == 1 else "CTAs"
