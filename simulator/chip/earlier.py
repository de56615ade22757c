"""Config files of earlier versions: keys that nothing reads any more, a table that they did not have, and keys in
cycles for what files now say in GB/s and ns.

Files, and `--set`, may say bandwidths in bytes a cycle and latencies in cycles of the clock in the file, under the keys
of `EARLIER`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from simulator.chip.memory import BytesPerCycle
from simulator.chip.tables import Cycles
from simulator.toml_tables import Tables, WrongValueError, convert, legal_values

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


@dataclass(frozen=True)
class Earlier:
    """A key of an earlier version.

    Attributes:
        key: the present key in the same table.
        hint: the legal values of the earlier key.
        rate: whether the earlier key has bytes a cycle; else it has cycles.
    """

    key: str
    hint: Any
    rate: bool

    def today(self, value: float, clock_mhz: float) -> float:
        """The value of the present key, for SMs at this clock."""
        return value * clock_mhz / 1e3 if self.rate else value * 1e3 / clock_mhz


EARLIER = {
    ("l2", "read_bytes"): Earlier("read_gbs", BytesPerCycle, rate=True),
    ("l2", "write_bytes"): Earlier("write_gbs", BytesPerCycle, rate=True),
    ("hbm", "bytes"): Earlier("gbs", BytesPerCycle, rate=True),
    ("hbm", "latency"): Earlier("latency_ns", Cycles, rate=False),
}


def todays_key(key: str) -> str:
    """The present dotted key for one of an earlier version; other keys as they are."""
    table, _, name = key.partition(".")
    earlier = EARLIER.get((table, name))
    return f"{table}.{earlier.key}" if earlier is not None else key


def clock_of(values: Mapping[str, Any]) -> float | None:
    """The clock of the SMs in a file's tables, in MHz; None if it is missing or not legal."""
    chip = values.get("chip")
    clock = chip.get("clock_mhz") if isinstance(chip, Mapping) else None
    is_clock = isinstance(clock, int | float) and not isinstance(clock, bool) and 0 < clock <= 10_000
    return float(clock) if is_clock and clock is not None else None


def with_todays_keys(layer: Tables, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values with present keys in place of those of earlier versions.

    Args:
        layer: the file; an earlier key beside the present key for the same thing is an error.
        values: its values, put over those of its base.

    Raises:
        ConfigError: both keys in the file, or an illegal value.
    """
    renewed = dict(values)
    clock = clock_of(values)
    for (name, before), earlier in EARLIER.items():
        table, own = renewed.get(name), layer.values.get(name)
        if not isinstance(table, Mapping) or before not in table or clock is None:
            continue
        place = f"{name}.{before}"
        if isinstance(own, Mapping) and before in own and earlier.key in own:
            layer.fail(place, f"beside {name}.{earlier.key}, which says the same", "one of them")
        value = checked(layer, place, earlier, table[before])
        rest = {key: other for key, other in table.items() if key not in (before, earlier.key)}
        renewed[name] = {earlier.key: earlier.today(value, clock)} | rest
    return renewed


def checked(tables: Tables, place: str, earlier: Earlier, value: Any) -> int:
    """The value of an earlier key; ConfigError for one that it cannot have."""
    try:
        number: int = convert(value, earlier.hint)
    except WrongValueError:
        tables.fail(place, f"{value!r}", legal_values(earlier.hint))
    return number
