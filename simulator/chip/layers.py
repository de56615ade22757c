"""Configs made of others: a file names a `base` and says what differs from it.

    base = "h100_sxm"                  # a config that comes with tcsim, or a path relative to this file

    [shared]
    latency = 30                       # the other keys of [shared] are the base's

    [[tensor]]
    name = "sparse, full k, f32"       # rows of an array of tables are the same by their name
    interval = 4

    [[tensor]]
    name = "m8n8k16"
    remove = true                      # the row of the base is left out; `remove = ["late"]`: these keys of the row

Rows that the base does not have come before all rows of the base, or before the row that they name: `before =
"m8n8k16"`. A table whose values change without a new `source` counts as assumed; its source then says which values were
changed, and where the others come from.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simulator.chip.earlier import with_registers, with_todays_keys, without_removed
from simulator.errors import ConfigError, did_you_mean
from simulator.resources import folder
from simulator.toml_tables import Tables, read_toml, slug

GUIDE = "docs/configs.md"
WHAT_IF = "assumed: what if "  # how the source of a changed table begins
MEASURED = "h100_sxm"  # the config whose registers files of earlier versions take, which say nothing of them
DEEPEST = 16  # files that name one another as their base


def read_layers(name: str | Path, shipped: Path) -> tuple[Tables, tuple[str, ...]]:
    """The tables of a config with those of its bases, and the paths of the bases, the nearest first.

    Raises:
        ConfigError: a file that cannot be read, bases that lead back to themselves, or rows that no base has.
    """
    layers = [_read(name, shipped)]
    while "base" in layers[-1].values:
        layers.append(_base(layers, shipped))
    values = with_todays_keys(layers[-1], layers[-1].values)
    for layer in reversed(layers[:-1]):
        own = {key: value for key, value in layer.values.items() if key != "base"}
        stem, title = Path(layer.path).stem, str(values.get("title", "")).split(", changed in ")[0]
        own = {"name": stem, "title": f"{title}, changed in {Path(layer.path).name}"} | own
        values = with_todays_keys(layer, _Merge(layer).table("", values, own))
    if "registers" not in values:
        values = with_registers(values, _read(MEASURED, shipped).values)
    return Tables(layers[0].path, values, named=len(layers) > 1), tuple(layer.path for layer in layers[1:])


def _read(name: str | Path, shipped: Path) -> Tables:
    """Reads one file, without keys that have no effect any more."""
    found = read_toml(name, shipped, "config", GUIDE)
    return Tables(found.path, without_removed(found.path, found.values))


def _base(layers: list[Tables], shipped: Path) -> Tables:
    """The file that the last layer names as its base."""
    last = layers[-1]
    name = last.values["base"]
    if not isinstance(name, str) or not name:
        last.fail("base", f"{name!r}", "a config that comes with tcsim, or the path of a TOML file, from this file on")
    if "/" in name or not (shipped / f"{name}.toml").is_file():
        path = Path(last.path).parent / name
        name = str(path) if path.is_file() or "/" in name or name.endswith(".toml") else name
    try:
        found = _read(name, shipped)
    except ConfigError as error:
        if error.key or error.path != name:
            raise
        last.fail("base", f"{name}: {error.reason}", error.legal)
    seen = [os.path.realpath(layer.path) for layer in layers]
    if os.path.realpath(found.path) in seen:
        chain = " -> ".join([*(layer.path for layer in layers), found.path])
        last.fail("base", f"configs that are their own base: {chain}", "a base that does not lead back here")
    if len(layers) >= DEEPEST:
        last.fail("base", f"more than {DEEPEST} files, each the base of the one before", f"at most {DEEPEST}")
    return found


class _Merge:
    """Puts the values of a file over those of its base."""

    def __init__(self, layer: Tables) -> None:
        self.layer, self.file = layer, Path(layer.path).name

    def table(self, where: str, base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
        """A table of the base with the file's own entries."""
        merged, changed = dict(base), list[str]()
        removed = own.get("remove", [])
        for key in removed if isinstance(removed, list) else [removed]:
            if key not in base or key in ("name", "source"):
                self.layer.fail(_join(where, "remove"), f"{key!r}", f"true, or a list of {', '.join(base)}")
            merged.pop(key)
            changed.append(f"no {key}")
        for key, value in own.items():
            place = _join(where, key)
            before: Any = base.get(key)
            if key == "remove":
                continue
            if isinstance(value, Mapping) and value.get("remove") is True:
                self.gone(place, value, before is not None)
                merged.pop(key)
            elif isinstance(value, Mapping) and isinstance(before, Mapping):
                merged[key] = self.table(place, before, value)
            elif is_rows(value) and is_rows(before):
                merged[key] = self.rows(place, before, value)
            else:
                if (key not in base or value != before) and not isinstance(value, Mapping | list):
                    changed.append(f"{key} = {toml_value(value)}")
                elif isinstance(value, list) and value != before:
                    changed.append(f"{key} = {toml_value(value)}" if not is_rows(value) else key)
                merged[key] = value
        if changed and where and "source" not in own and "source" in base:
            merged["source"] = changed_source(changed, self.file, str(base["source"]))
        return merged

    def rows(self, where: str, base: list[Any], own: list[Any]) -> list[Any]:
        """An array of tables: new rows, then the rows of the base, changed where the file has a row with their name. A
        new row can name the row that it comes before."""
        known = {row.get("name"): row for row in base}
        changes: dict[str, Mapping[str, Any]] = {}
        for number, row in enumerate(own):
            name, place = row.get("name"), f"{where}[{number}]"
            if not isinstance(name, str):
                self.layer.fail(f"{place}.name", "missing" if name is None else f"{name!r}", "the row's name")
            if name in changes:
                self.layer.fail(f"{place}.name", f"two tables of {where} named '{name}'", "a name of its own for each")
            if row.get("remove") is True:
                self.gone(f"{place}.remove", row, name in known)
            if name not in known and "source" not in row:
                rows = [str(other) for other in known]
                legal = f"{'; '.join(rows)}; or a new row with all its keys and a source"
                self.layer.fail(f"{place}.name", f"the base has no row '{name}'{did_you_mean(name, rows)}", legal)
            changes[name] = row
        new = [(number, dict(row)) for number, row in enumerate(own) if row["name"] not in known]
        kept = [row for row in base if changes.get(row.get("name"), {}).get("remove") is not True]
        merged = [
            self.table(f"{where}.{slug(row['name'])}", row, changes[row["name"]]) if row.get("name") in changes else row
            for row in kept
        ]
        first = 0  # of the rows that follow one another in front
        for number, row in new:
            position, names = first, [other.get("name") for other in merged]
            if (before := row.pop("before", None)) is None:
                first += 1
            elif before in names:
                position = names.index(before)
            else:
                self.layer.fail(f"{where}[{number}].before", f"no row '{before}'", "; ".join(map(str, names)))
            merged.insert(position, row)
        return merged

    def gone(self, place: str, value: Mapping[str, Any], known: bool) -> None:
        """Checks a table that is to be left out."""
        if not known:
            self.layer.fail(place, "the base has no such table to remove", "a table of the base")
        others = [key for key in value if key not in ("name", "remove")]
        if others:
            self.layer.fail(place, f"remove = true beside {', '.join(others)}", "remove = true alone")


def changed_source(changed: list[str], who: str, before: str) -> str:
    """The source of a table of which someone has changed some values."""
    return f"{WHAT_IF}{', '.join(changed)} ({who}); otherwise {before}"


def toml_value(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        text = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text) + '"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_value(item) for item in value)}]"
    return repr(value) if not hasattr(value, "item") else repr(value.item())


def is_rows(value: Any) -> bool:
    """Whether a value of a file is an array of tables."""
    return isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def with_own_energies(name: str) -> Tables | None:
    """The tables of a config that comes with tcsim; None if it has no `[energy]`, or one that refers to another
    config's."""
    tables = read_layers(name, folder("configs"))[0]
    return tables if "like" not in tables.values.get("energy", {"like": ""}) else None
