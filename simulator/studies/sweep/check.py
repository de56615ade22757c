"""Finds before anything runs what cannot be: keys that a config does not have, values out of bounds, tiles that no
instruction computes, traces that are not there.

Each value of an axis is tried on each config alone, not with all values of the others: what only a combination breaks
is an error of its points.
"""

from __future__ import annotations

import hashlib
from itertools import product
from pathlib import Path
from typing import Any

from isa.errors import IsaError
from simulator.program.reader import load
from simulator.studies.gemm.choice import chosen_path, tile_for, tiles_of
from simulator.studies.sweep.evaluate import configured
from simulator.studies.sweep.keys import BEST, CONFIG, GEMM, TRACE, is_override
from simulator.studies.sweep.spec import Axis, Subject, Sweep

_ALL = 64  # values of an axis that are all tried; of longer ones the ends
_TILES = 2_048  # combinations that make a tile
_MAKES = ("tile", "type", "sparse", "accumulator", "warps", "stages", "kind", "path", CONFIG)


def check(sweep: Sweep) -> None:
    """Raises ConfigError, IsaError or TraceError for what is wrong with all points that have some value."""
    relative = {key: value for key, value in sweep.relative.items() if is_override(key)}
    for subject in dict.fromkeys(sweep.subjects):
        names = [name for axis in subject.axes for name in _column(axis, CONFIG)]
        for name in dict.fromkeys(names):
            configured(str(name), ())
            for axis in subject.axes:
                _check_overrides(str(name), axis)
            if relative:
                configured(str(name), tuple(relative.items()))
        if subject.kind == GEMM:
            _check_tiles(subject)
        else:
            for axis in subject.axes:
                for trace in _column(axis, TRACE):
                    load(str(trace))
    if CONFIG in sweep.relative:
        configured(str(sweep.relative[CONFIG]), ())


def _column(axis: Axis, key: str) -> list[Any]:
    """The values of a key of an axis."""
    return [values[axis.keys.index(key)] for values in axis.values] if key in axis.keys else []


def _check_overrides(name: str, axis: Axis) -> None:
    """Tries the values of an axis on a config: all, or the ends of a long one, where the bounds are."""
    places = [place for place, key in enumerate(axis.keys) if is_override(key)]
    if not places:
        return
    rows = list(axis.values)
    if len(rows) > _ALL:
        columns = [sorted(range(len(rows)), key=[_order(row[place]) for row in rows].__getitem__) for place in places]
        rows = [axis.values[number] for order in columns for number in (0, order[0], order[-1])]
    for row in {repr(row): row for row in rows}.values():
        configured(name, tuple((axis.keys[place], _plain(row[place])) for place in places))


def _order(value: Any) -> tuple[bool, Any]:
    number = isinstance(value, int | float)
    return number, value if number else str(value)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _check_tiles(subject: Subject) -> None:
    """IsaError if no combination of what makes a tile is one: that of the first."""
    lists = [dict.fromkeys(value for axis in subject.axes for value in _column(axis, key)) or {None: None}
             for key in _MAKES]  # fmt: skip
    first: IsaError | None = None
    for number, (tile, type, sparse, accumulator, warps, stages, kind, path, name) in enumerate(product(*lists)):
        if number >= _TILES:
            return
        pair = tuple(map(int, warps.split("x"))) if warps else None
        chip = configured(str(name), ())
        how: dict[str, Any] = {
            "accumulator": str(accumulator or ""),
            "warps": (pair[0], pair[1]) if pair else None,
            "kind": str(kind or ""),
            "path": str(path or ""),
        }
        for text in tiles_of(chip, chosen_path(chip, str(type), **how)) if tile == BEST else (tile,):
            try:
                stage = int(stages) if stages else None
                tile_for(str(text), str(type), sparse=bool(sparse), stages=stage, config=chip, **how)
                return
            except IsaError as error:
                first = first or error
    assert first is not None
    raise first


def fingerprint(sweep: Sweep) -> str:
    """A digest of all that the results depend on beside the version: the points, the values of the configs, and the
    texts of the traces."""
    digest = hashlib.sha256(sweep.dumps().encode())
    names = {name for subject in sweep.subjects for axis in subject.axes for name in _column(axis, CONFIG)}
    for name in sorted(map(str, names | {sweep.relative.get(CONFIG, "h100_sxm")})):
        digest.update(repr(configured(name, ())).encode())
    traces = {name for subject in sweep.subjects for axis in subject.axes for name in _column(axis, TRACE)}
    for name in sorted(map(str, traces)):
        program = load(name)
        digest.update(Path(program.path).read_bytes() if program.path else name.encode())
    return digest.hexdigest()
