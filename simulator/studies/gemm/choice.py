"""Which tile a chip's kernel has: `mma` and `mma.sp` where a chip has nothing better, `tcgen05.mma` where it does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from isa import IsaError
from simulator.chip.config import Config, load_config
from simulator.studies.gemm.tcgen05.tile import KIND_OF, Tcgen05Tile, parse_tcgen05_tile
from simulator.studies.gemm.tile import Tile, parse_tile

MMA_TILES = ("128x128", "64x64", "64x128", "128x64", "128x256", "256x128", "256x64", "64x256")
TCGEN05_TILES = ("256x256", "256x128", "256x192", "256x64", "128x256", "128x128", "128x192", "128x64")
"""Tiles that a search tries, each with 128 bytes of K (of a sparse A by tcgen05: 128 bytes as it is stored). The first
is the default; the place of a tile is its config id."""

STAGES = 4  # of the kernels by mma, at most; those by tcgen05 have as many as fit
_CLUSTERS = ((4, 2), (2, 2), (2, 1), (1, 1))
_IDLE = 0.05  # part of the SMs that a cluster may leave idle


def tiles_of(config: str | Path | Config | None) -> tuple[str, ...]:
    """The tiles that a search tries on a chip; without one, those of `mma`."""
    return MMA_TILES if config is None or load_config(config).tcgen05 is None else TCGEN05_TILES


def default_cluster(config: Config, group: int) -> tuple[int, int]:
    """CTAs of a cluster along M and N: the most, up to eight, that leave few SMs of the chip idle."""
    sms = config.chip.sms
    fitting = [(m, n) for m, n in _CLUSTERS if m >= group and sms % (m * n) <= _IDLE * sms]
    return fitting[0] if fitting else (group, 1)


def tile_for(
    text: str,
    type: str,
    *,
    sparse: bool,
    accumulator: str = "",
    warps: tuple[int, int] | None = None,
    stages: int | None = None,
    config: str | Path | Config | None = None,
    kind: str = "",
    cluster: tuple[int, int] | None = None,
) -> Tile | Tcgen05Tile:
    """The tile for a product of a type, as the library names it (f32: tf32).

    Args:
        text: such as "128x128"; "" is the chip's default.
        stages: tiles in shared memory; if not given as many as fit: up to 4, with tcgen05 up to 6.
        config: the chip; without one, the tile is of `mma`.
        warps: of `mma` alone.
        kind: of the instruction, where the type has several; those with block scales only if asked for.
        cluster: of tcgen05 alone: CTAs of a cluster along M and N.

    Raises:
        IsaError: no such tile, or an option that the chip's kernels have not.
    """
    name = "tf32" if type == "f32" else type
    chip = None if config is None else load_config(config)
    how: dict[str, Any] = {"stages": stages, "sparse": sparse, "accumulator": accumulator}
    if chip is None or chip.tcgen05 is None or not (kind or _multiplies(chip, name)):
        if cluster:
            reason = "a cluster for a kernel of mma: only those of tcgen05.mma have one"
            raise IsaError(str(cluster), -1, reason, "no cluster, or a config with [tcgen05], such as b200")
        return _mma_tile(text or MMA_TILES[0], name, chip, how | {"warps": warps, "kind": kind})
    if warps is not None:
        reason = "warps along M and N for a kernel of tcgen05.mma, whose eight warps have roles of their own"
        raise IsaError("x".join(map(str, warps)), -1, reason, "no warps, or a config without [tcgen05]")
    room = chip.sm.shared_bytes
    tile = parse_tcgen05_tile(
        text or TCGEN05_TILES[0], name, kind=kind, shared_bytes=room, cluster=cluster or (0, 0), **how
    )
    if cluster is not None:
        return tile
    along_m, along_n = default_cluster(chip, tile.group)
    return replace(tile, cluster_m=along_m, cluster_n=along_n)


def _mma_tile(text: str, type: str, chip: Config | None, how: dict[str, Any]) -> Tile:
    """A tile by mma; with as many stages as the chip has room for, if none are given."""
    if how["stages"] is not None:
        return parse_tile(text, type, **how)
    tiles = [parse_tile(text, type, **how | {"stages": stages}) for stages in range(STAGES, 1, -1)]
    room = tiles[0].shared_bytes if chip is None else chip.sm.shared_bytes
    return next((tile for tile in tiles if tile.shared_bytes <= room), tiles[0])


def _multiplies(chip: Config, type: str) -> bool:
    """Whether the chip's tcgen05.mma has the type: a B300 has none of integers, and multiplies them by `mma`."""
    if type not in KIND_OF:
        return True  # let the tile say what there is
    try:
        parse_tcgen05_tile("128x128", type, sparse=False, stages=2).check_target(chip.target)
    except IsaError:
        return False
    return True
