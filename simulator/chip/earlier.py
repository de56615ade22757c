"""Config files of earlier versions: keys that nothing reads any more, and a table that they did not have."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

REMOVED: Mapping[str, tuple[str, ...]] = {
    "fetch": (),
    "pipe": ("sparse_after_dense", "integer", "three_registers", "access", "turnaround"),
    "sequences": ("fetch", "return_interval", "return_request", "return_again", "return_reads"),
    "tensor": ("ports", "spare"),
}
"""By table, the keys that versions up to 0.2.0 read; of a table without keys, the whole table."""
NO_EFFECT = "has no effect any more (versions up to 0.2.0 read it)"

_LOG = logging.getLogger("tcsim")


def is_removed(key: str) -> bool:
    """Whether a dotted key addresses something that earlier versions read."""
    table, *rest = key.split(".")
    keys = REMOVED.get(table)
    return keys is not None and (not keys or (bool(rest) and rest[-1] in keys))


def without_removed(path: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of a file without keys that have no effect any more; a warning names them, once for each file."""
    found = list(_removed(values))
    if found:
        _warn(path, tuple(dict.fromkeys(found)))
    kept: dict[str, Any] = {}
    for table, entries in values.items():
        keys = REMOVED.get(table)
        if keys is None:
            kept[table] = entries
        elif keys:
            kept[table] = [_kept(row, keys) for row in entries] if isinstance(entries, list) else _kept(entries, keys)
    return kept


def with_registers(values: Mapping[str, Any], measured: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of a config that does not say how instructions read registers, with those of a measured chip."""
    return {**values, "registers": {**measured["registers"], "source": "assumed: as measured on the H100"}}


def _removed(values: Mapping[str, Any]) -> Iterator[str]:
    for table, keys in REMOVED.items():
        entries = values.get(table)
        if entries is not None and not keys:
            yield table
        for row in entries if isinstance(entries, list) else [entries]:
            yield from (f"{table}.{key}" for key in keys if isinstance(row, Mapping) and key in row)


def _kept(row: Any, keys: tuple[str, ...]) -> Any:
    return {key: value for key, value in row.items() if key not in keys} if isinstance(row, Mapping) else row


@lru_cache(maxsize=64)
def _warn(path: str, keys: tuple[str, ...]) -> None:
    _LOG.warning("%s: %s: %s", path, ", ".join(keys), NO_EFFECT)
