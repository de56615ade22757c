"""What a sweep asks: axes that are crossed, axes that go together, and subjects; from a TOML file or a dictionary.

    config = ["h100_sxm", "a100"]            # at the top, or in [axes]: each list is an axis, all are crossed
    [axes]
    "tensor.sparse_full_k.interval" = [4, 8]
    sparse = [true, false]
    [[zip]]                                  # lists of one length, which go together
    "sm.warps" = [48, 64]
    "sm.registers" = [49152, 65536]
    [[subject]]                              # what runs: GEMMs, layers, traces; without any, the axes say it
    layers = "llama3_8b"
    [relative]                               # a column `speedup` over the same point with these values
    sparse = false

Points are numbered: subject by subject; of each, axes of the config first, later axes faster. Point i is computed from
i, so a sweep of a million points takes no more memory than one of ten.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

from simulator.errors import ConfigError
from simulator.resources import folder
from simulator.studies.sweep.keys import (
    BEST,
    CONFIG,
    DEFAULTS,
    GEMM,
    KINDS,
    TRACE,
    check_value,
    is_override,
    kinds_of,
    unknown,
    values_of,
)
from simulator.studies.sweep.shapes import SIZES, read_layers
from simulator.toml_tables import read_toml

RESERVED = ("title", "axes", "constants", "zip", "subject", "relative", "limit")
_SUBJECT = ("layers", "shapes")
_CAP = 100_000_000
DEFAULT_CONFIG = "h100_sxm"


@dataclass(frozen=True)
class Axis:
    """Keys that take their values together: value i of the axis is `values[i]`, one for each key."""

    keys: tuple[str, ...]
    values: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Subject:
    """What runs at the points of some crossed axes, the slowest first."""

    kind: str
    axes: tuple[Axis, ...]

    @cached_property
    def count(self) -> int:
        """The number of points."""
        return prod(len(axis.values) for axis in self.axes)

    def point(self, number: int) -> dict[str, Any]:
        """The values of a point by their keys."""
        found: dict[str, Any] = {}
        for axis in reversed(self.axes):
            number, place = divmod(number, len(axis.values))
            found = dict(zip(axis.keys, axis.values[place], strict=True)) | found
        return found

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys in the order of the axes."""
        return tuple(key for axis in self.axes for key in axis.keys)


@dataclass(frozen=True)
class Sweep:
    """The points of a sweep.

    Attributes:
        subjects: whose points follow each other.
        relative: values of the point that `speedup` compares with; empty: there is no such column.
    """

    title: str
    subjects: tuple[Subject, ...]
    relative: dict[str, Any]

    @cached_property
    def count(self) -> int:
        """The number of points."""
        return sum(subject.count for subject in self.subjects)

    def point(self, number: int) -> tuple[str, dict[str, Any]]:
        """The kind of a point's subject, and its values."""
        for subject in self.subjects:
            if number < subject.count:
                return subject.kind, subject.point(number)
            number -= subject.count
        raise IndexError(number)

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The columns of the question: `config`, keys of configs, then those of subjects, each in order of
        appearance."""
        every = dict.fromkeys(key for subject in self.subjects for key in subject.keys)
        rank = {key: 0 if key == CONFIG else 1 if is_override(key) else 2 for key in every}
        return tuple(sorted(every, key=lambda key: rank[key]))

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of the subjects."""
        return frozenset(subject.kind for subject in self.subjects)

    @property
    def searches(self) -> bool:
        """Whether some points ask for the best kernel."""
        return any(
            BEST in (values[axis.keys.index("tile")] for values in axis.values)
            for subject in self.subjects
            for axis in subject.axes
            if "tile" in axis.keys
        )

    def dumps(self) -> str:
        """The sweep as a text that `loads` reads: it needs no other file but the configs and traces that it names."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def loads(cls, text: str) -> Sweep:
        """A sweep from the text that `dumps` wrote."""
        held = json.loads(text)
        subjects = tuple(
            Subject(
                subject["kind"],
                tuple(Axis(tuple(axis["keys"]), tuple(map(tuple, axis["values"]))) for axis in subject["axes"]),
            )
            for subject in held["subjects"]
        )
        return cls(held["title"], subjects, held["relative"])


def read_spec(
    spec: Mapping[str, Any] | str | Path, *, limit: int | None = None, overrides: Mapping[str, Any] | None = None
) -> Sweep:
    """A sweep from a dictionary, from the path of a TOML file, or from the name of one that comes with tcsim.

    Args:
        limit: the most points that it may have, in place of its own `limit`.
        overrides: keys of configs that all its points set besides.

    Raises:
        ConfigError: a file that cannot be read, keys that do not exist (it names the nearest), values that are out of
            bounds, too many points. Keys and values of configs are checked by `simulator.studies.sweep.check`.
    """
    if isinstance(spec, Mapping):
        place, held = "sweep", dict(spec)
    else:
        tables = read_toml(spec, folder("configs") / "sweeps", "sweep", "docs/sweep.md")
        place, held = tables.path, dict(tables.values)
    title = held.get("title", "")
    cap = limit or held.get("limit", _CAP)
    if not isinstance(title, str):
        raise ConfigError(place, "title", f"{title!r}", "a text")
    if isinstance(cap, bool) or not isinstance(cap, int) or not 1 <= cap <= _CAP:
        raise ConfigError(place, "limit", f"{cap!r}", f"1 to {_CAP:,} points")
    axes = _axes(place, held | {"constants": {**held.get("constants", {}), **(overrides or {})}})
    sweep = Sweep(title, tuple(_subjects(place, held, axes)), _relative(place, held))
    _check_relative(place, sweep)
    if sweep.count > cap:
        raise ConfigError(place, "", f"{sweep.count:,} points", f"at most {cap:,}: fewer values, or a larger limit")
    return sweep


def _axes(place: str, held: Mapping[str, Any]) -> list[Axis]:
    """The axes that all subjects have: those at the top, of [constants], of [axes] and of [[zip]]."""
    axes: list[Axis] = []
    for name in ("", "constants", "axes"):
        table = held.get(name, {}) if name else {key: held[key] for key in held if key not in RESERVED}
        if not isinstance(table, Mapping):
            raise ConfigError(place, name, "not a table", "keys with lists of values")
        for key, given in _flat(table):
            _known(place, key)
            axes.append(Axis((key,), tuple((value,) for value in values_of(place, key, given))))
    zipped = held.get("zip", [])
    if not isinstance(zipped, list) or not all(isinstance(table, Mapping) for table in zipped):
        raise ConfigError(place, "zip", "not an array of tables", "[[zip]] with lists of one length")
    axes += [_zipped(place, table) for table in zipped]
    keys = [key for axis in axes for key in axis.keys]
    for key in keys:
        if keys.count(key) > 1:
            raise ConfigError(place, key, "stands in two axes", "each key once")
    return axes


def _zipped(place: str, table: Mapping[str, Any]) -> Axis:
    """An axis of lists that go together."""
    lists = {}
    for key, given in _flat(table):
        _known(place, key)
        if not isinstance(given, list | tuple) or not given:
            raise ConfigError(place, f"zip.{key}", f"{given!r}", "a list")
        lists[key] = [check_value(place, key, value) for value in given]
    lengths = {key: len(values) for key, values in lists.items()}
    if len(set(lengths.values())) != 1:
        said = ", ".join(f"{key} {length}" for key, length in lengths.items()) or "no list"
        raise ConfigError(place, "zip", f"lists of different lengths: {said}", "lists of one length")
    return Axis(tuple(lists), tuple(zip(*lists.values(), strict=True)))


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """The entries of a table by dotted keys; a table with `from` is a range."""
    for key, value in table.items():
        if isinstance(value, Mapping) and "from" not in value:
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def _known(place: str, key: str) -> None:
    if key != CONFIG and not is_override(key) and not kinds_of(key):
        unknown(place, key, [CONFIG, *(name for kind in KINDS.values() for name in kind), *RESERVED])


def _subjects(place: str, held: Mapping[str, Any], axes: list[Axis]) -> Iterator[Subject]:
    """The subjects with their axes: each has those that all have and its kind knows, and its own."""
    tables = held.get("subject", [{}])
    if not isinstance(tables, list) or not tables or not all(isinstance(table, Mapping) for table in tables):
        raise ConfigError(place, "subject", "not an array of tables", "[[subject]] with a trace, or m, n and k")
    used: set[str] = set()
    for number, table in enumerate(tables):
        where = f"{place}: subject[{number}]" if "subject" in held else place
        subject = _subject(where, table, axes)
        used |= set(subject.keys)
        yield subject
    for axis in axes:
        for key in axis.keys:
            if key not in used:
                raise ConfigError(place, key, "no subject has this key", "a subject that has it")


def _subject(place: str, table: Mapping[str, Any], axes: list[Axis]) -> Subject:
    kind = TRACE if "trace" in table or (any("trace" in axis.keys for axis in axes) and not table) else GEMM
    own: list[Axis] = []
    legal = [CONFIG, *KINDS[kind], *(_SUBJECT if kind == GEMM else ())]
    for key, given in _flat(table):
        if key not in legal and not is_override(key):
            unknown(place, key, legal)
        if key == "layers":
            own += [Axis(*_layers(place, name)) for name in _one(place, key, given)]
        elif key == "shapes":
            own.append(Axis(SIZES, _shapes(place, given)))
        else:
            own.append(Axis((key,), tuple((value,) for value in values_of(place, key, given))))
    mine = {key for axis in own for key in axis.keys}
    both = [axis for axis in axes if all(key == CONFIG or is_override(key) or key in KINDS[kind] for key in axis.keys)]
    for axis in both:
        for key in axis.keys:
            if key in mine:
                raise ConfigError(place, key, "stands in the subject and in an axis of all", "one of them")
    given_keys = mine | {key for axis in both for key in axis.keys}
    defaults = {CONFIG: DEFAULT_CONFIG, **DEFAULTS[kind]}
    fixed = [Axis((key,), ((value,),)) for key, value in defaults.items() if key not in given_keys]
    missing = [key for key in (SIZES if kind == GEMM else ("trace",)) if key not in given_keys]
    if missing:
        raise ConfigError(place, missing[0], "missing", "a trace, or m, n and k, or shapes, or layers")
    return Subject(kind, tuple(sorted([*both, *fixed, *own], key=_speed)))


def _speed(axis: Axis) -> int:
    """How early an axis stands: those of configs before those of subjects, so that a config is loaded once."""
    return min(0 if key == CONFIG else 1 if is_override(key) else 2 for key in axis.keys)


def _one(place: str, key: str, given: Any) -> list[str]:
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, list) or len(names) != 1 or not isinstance(names[0], str):
        raise ConfigError(place, key, f"{given!r}", "the name or path of one list; a [[subject]] for each")
    return names


def _layers(place: str, name: str) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
    columns, rows = read_layers(name)
    for column in columns:
        if column in (CONFIG, "trace") or is_override(column):
            raise ConfigError(place, "layers", f"{name} has a column '{column}'", "m, n, k and names of layers")
    return columns, rows


def _shapes(place: str, given: Any) -> tuple[tuple[Any, ...], ...]:
    """[m, n, k] lists."""
    if not isinstance(given, list | tuple) or not given or not all(_is_shape(shape) for shape in given):
        raise ConfigError(place, "shapes", "not a list of shapes", "[[m, n, k], ...]")
    return tuple(
        tuple(check_value(place, key, size) for key, size in zip(SIZES, shape, strict=True)) for shape in given
    )


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, list | tuple) and len(shape) == len(SIZES)


def _relative(place: str, held: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the points that others are compared with."""
    table = held.get("relative", {})
    if not isinstance(table, Mapping):
        raise ConfigError(place, "relative", "not a table", "keys with the values to compare with")
    found = dict(_flat(table))
    for key, value in found.items():
        _known(place, key)
        check_value(place, key, value)
    return found


def _check_relative(place: str, sweep: Sweep) -> None:
    for key in sweep.relative:
        if key not in sweep.keys and not is_override(key) and key != CONFIG and not set(kinds_of(key)) & sweep.kinds:
            raise ConfigError(place, f"relative.{key}", "no subject has this key", ", ".join(sweep.keys))
