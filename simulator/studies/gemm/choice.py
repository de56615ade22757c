"""Which tile a chip's kernel has: `mma` and `mma.sp` where a chip has nothing better, `tcgen05.mma` where it does."""

from __future__ import annotations

from pathlib import Path

from isa import IsaError
from simulator.studies.gemm.tcgen05.tile import KIND_OF, Tcgen05Tile, parse_tcgen05_tile
from simulator.studies.gemm.tile import Tile, parse_tile
from simulator.timing.config import Config, load_config

MMA_TILES = ("128x128", "64x64", "64x128", "128x64", "128x256", "256x128", "256x64", "64x256")
TCGEN05_TILES = ("256x256", "256x128", "256x192", "256x64", "128x256", "128x128", "128x192", "128x64")
"""Tiles that a search tries, each with 128 bytes of K (of a sparse A by tcgen05: 128 bytes as it is stored). The first
is the default; the place of a tile is its config id."""

STAGES = 4  # of the kernels by mma, at most; those by tcgen05 have as many as fit
_CLUSTERS = ((4, 2), (2, 2), (2, 1), (1, 1))
_IDLE = 0.05  # part of the SMs that a cluster may leave idle


def tiles_of(config: str | Path | Config | None) -> tuple[str, ...]:
    """The tiles that a search tries on a chip; without one, those of `mma`."""
    return TCGEN05_TILES if _has_tcgen05(config) else MMA_TILES


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
        kind, cluster: of tcgen05 alone: the kind of the instruction, CTAs of a cluster along M and N.

    Raises:
        IsaError: no such tile, or an option that the chip's kernels have not.
    """
    name = "tf32" if type == "f32" else type
    if not _has_tcgen05(config) or not (kind or _multiplies(config, name)):
        text = text or MMA_TILES[0]
        for option, value in (("kind", kind), ("cluster", cluster)):
            if value:
                reason = f"a {option} for a kernel of mma: only those of tcgen05.mma have one"
                raise IsaError(str(value), -1, reason, f"no {option}, or a config with [tcgen05], such as b200")
        how = {"sparse": sparse, "accumulator": accumulator, "warps": warps}
        if stages is not None:
            return parse_tile(text, name, stages=stages, **how)  # type: ignore[arg-type]
        tiles = [parse_tile(text, name, stages=number, **how) for number in range(STAGES, 1, -1)]  # type: ignore[arg-type]
        room = _chip(config).sm.shared_bytes if config is not None else tiles[0].shared_bytes
        return next((tile for tile in tiles if tile.shared_bytes <= room), tiles[0])
    if warps is not None:
        reason = "warps along M and N for a kernel of tcgen05.mma, whose eight warps have roles of their own"
        raise IsaError("x".join(map(str, warps)), -1, reason, "no warps, or a config without [tcgen05]")
    chip = _chip(config)
    tile = parse_tcgen05_tile(
        text or TCGEN05_TILES[0],
        name,
        stages=stages,
        sparse=sparse,
        kind=kind,
        accumulator=accumulator,
        shared_bytes=chip.sm.shared_bytes,
        cluster=cluster or (0, 0),
    )
    if cluster is not None:
        return tile
    return parse_tcgen05_tile(
        f"{tile.bm}x{tile.bn}x{tile.bk}",
        name,
        stages=tile.stages,
        sparse=sparse,
        kind=kind,
        accumulator=accumulator,
        cluster=default_cluster(chip, tile.group),
    )


def _multiplies(config: str | Path | Config | None, type: str) -> bool:
    """Whether the chip's tcgen05.mma has the type: a B300 has none of integers, and multiplies them by `mma`."""
    if type not in KIND_OF:
        return True  # let the tile say what there is
    chip = _chip(config)
    try:
        parse_tcgen05_tile("128x128", type, sparse=False, stages=2).check_target(chip.target)
    except IsaError:
        return False
    return True


def _has_tcgen05(config: str | Path | Config | None) -> bool:
    if config is None:
        return False
    return _chip(config).tcgen05 is not None


def _chip(config: str | Path | Config | None) -> Config:
    return config if isinstance(config, Config) else load_config(config or "")
