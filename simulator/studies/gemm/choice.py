"""Which kernel a product has on a chip: by `tcgen05.mma` where a chip has it, by `wgmma` on Hopper, else by `mma`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from isa import IsaError
from simulator.chip.config import Config, load_config
from simulator.studies.gemm.kinds import AnyTile
from simulator.studies.gemm.tcgen05.tile import KIND_OF, Tcgen05Tile, parse_tcgen05_tile
from simulator.studies.gemm.tile import Tile, parse_tile
from simulator.studies.gemm.wgmma.tile import OUTPUTS, parse_wgmma_tile

PATHS = ("mma", "wgmma", "tcgen05")
"""The matrix instructions that kernels are written for."""

MMA_TILES = ("128x128", "64x64", "64x128", "128x64", "128x256", "256x128", "256x64", "64x256")
WGMMA_TILES = ("128x128", "128x256", "256x128", "128x64", "128x192", "64x128", "64x256", "256x64")
TCGEN05_TILES = ("256x256", "256x128", "256x192", "256x64", "128x256", "128x128", "128x192", "128x64")
"""Tiles that a search tries, each with 128 bytes of K (by wgmma and tcgen05: 128 bytes of A as it is stored). The first
is the default; the place of a tile is its config id. By wgmma those of 64 rows are ping-pong, others cooperative."""

STAGES = 4  # of the kernels by mma, at most; the others have as many as fit
_CLUSTERS = ((4, 2), (2, 2), (2, 1), (1, 1))
_IDLE = 0.05  # part of the SMs that a cluster may leave idle


def path_of(config: str | Path | Config | None) -> str:
    """The path that libraries take on a chip: one of `PATHS`; without a chip "mma"."""
    chip = None if config is None else load_config(config)
    if chip is None:
        return "mma"
    return "tcgen05" if chip.tcgen05 is not None else "wgmma" if chip.wgmma is not None else "mma"


def tiles_of(config: str | Path | Config | None, path: str = "") -> tuple[str, ...]:
    """The tiles that a search tries on a chip; without one, those of `mma`."""
    return {"mma": MMA_TILES, "wgmma": WGMMA_TILES, "tcgen05": TCGEN05_TILES}[_path(path) or path_of(config)]


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
    path: str = "",
    schedule: str = "",
    output: str = "",
) -> AnyTile:
    """The tile for a product of a type, as the library names it (f32: tf32).

    Args:
        text: such as "128x128"; "" is the chip's default.
        stages: tiles in shared memory; if not given as many as fit: up to 4, with tcgen05 up to 6, with wgmma 12.
        config: the chip; without one, the tile is of `mma`.
        warps: of `mma` alone.
        kind: of the instruction, where the type has several; those with block scales only if asked for.
        cluster: of tcgen05 and wgmma: CTAs of a cluster along M and N.
        path: one of `PATHS`; "": as libraries do on the chip, and `mma` for what its newer instruction does not have
            (types, accumulators of f16, `warps`).
        schedule, output: of wgmma: "cooperative" or "pingpong"; the type of D.

    Raises:
        IsaError: no such tile, or an option that the path's kernels have not.
    """
    name = "tf32" if type == "f32" else type
    chip = None if config is None else load_config(config)
    how: dict[str, Any] = {"stages": stages, "sparse": sparse, "accumulator": accumulator}
    chosen = chosen_path(chip, name, path=path, kind=kind, accumulator=accumulator, warps=warps)
    own: dict[str, Any] = {"schedule": schedule, "output": output}
    if chosen != "wgmma" and (given := next((key for key, value in own.items() if value), "")):
        raise IsaError(
            own[given], -1, f"{given} for a kernel of {chosen}", 'only those of wgmma have one: path "wgmma"'
        )
    if chosen == "mma":
        if cluster:
            reason = "a cluster for a kernel of mma: only those of wgmma and tcgen05.mma have one"
            raise IsaError(str(cluster), -1, reason, "no cluster, or a config with [tcgen05], such as b200")
        return _mma_tile(text or MMA_TILES[0], name, chip, how | {"warps": warps, "kind": kind})
    if warps is not None:
        reason = f"warps along M and N for a kernel of {chosen}, whose warps have roles of their own"
        raise IsaError("x".join(map(str, warps)), -1, reason, 'no warps, or path "mma"')
    if chip is not None:
        how["shared_bytes"] = chip.sm.shared_bytes
    if chosen == "wgmma":
        if kind:
            raise IsaError(kind, -1, "a kind for a kernel of wgmma, which has none", "no kind")
        try:
            return parse_wgmma_tile(text or WGMMA_TILES[0], name, cluster=cluster or (1, 1), **own, **how)
        except IsaError as error:
            raise _or_mma(error, text, name, chip, how) if not path else error from None
    tile = parse_tcgen05_tile(text or TCGEN05_TILES[0], name, kind=kind, cluster=cluster or (0, 0), **how)
    if cluster is not None or chip is None:
        return tile
    along_m, along_n = default_cluster(chip, tile.group)
    return replace(tile, cluster_m=along_m, cluster_n=along_n)


def _path(path: str) -> str:
    """The path, if it is one; IsaError otherwise."""
    if path and path not in PATHS:
        raise IsaError(path, -1, f"no kernels of '{path}'", ", ".join(PATHS))
    return path


def chosen_path(
    config: str | Path | Config | None,
    type: str,
    *,
    path: str = "",
    kind: str = "",
    accumulator: str = "",
    warps: tuple[int, int] | None = None,
    **others: Any,
) -> str:
    """The path of the kernel that `tile_for` chooses, of which it takes the same arguments."""
    if path:
        return _path(path)
    chip, name = None if config is None else load_config(config), "tf32" if type == "f32" else type
    own = path_of(chip)
    if own == "tcgen05":
        assert chip is not None
        return own if kind or _multiplies(chip, name) else "mma"
    if own == "wgmma" and (name not in OUTPUTS or kind or warps or accumulator == "f16"):
        return "mma"
    return own


def _or_mma(error: IsaError, text: str, type: str, chip: Config | None, how: dict[str, Any]) -> IsaError:
    """The error of a tile that wgmma does not have; it names the path that does."""
    given = {key: how[key] for key in ("stages", "sparse", "accumulator")}
    try:
        _mma_tile(text or MMA_TILES[0], type, chip, given)
    except IsaError:
        return error
    legal = f'{error.legal}; or path "mma", which has this tile'
    return IsaError(error.text, error.position, error.reason, legal)


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
        tile: Tcgen05Tile = parse_tcgen05_tile("128x128", type, sparse=False, stages=2)
        tile.check_target(chip.target)
    except IsaError:
        return False
    return True
