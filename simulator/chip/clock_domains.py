"""Converts bandwidths and latencies of units with clocks of their own into cycles of the SMs.

Units of an SM count in cycles of `[chip] clock_mhz`. Device memory and L2 have clocks of their own: their bandwidth in
GB/s does not change when the SMs run faster. So a file says GB/s and ns, and the timing model, which knows cycles of
the SMs alone, gets them converted at the configured clock:

>>> bytes_a_cycle(2946.3, 1830), bytes_a_cycle(2946.3, 3660), cycles_of(221.3, 1830)
(1610, 805, 405)

Files of earlier versions, and `--set`, may say the same in bytes a cycle and in cycles, under the keys of `EARLIER`.
These are cycles of the clock in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from simulator.chip.tables import LONGEST, Cycles
from simulator.toml_tables import Between, Tables, WrongValueError, convert, legal_values

MOST_BYTES = 1_048_576
BytesPerCycle = Annotated[int, Between(1, MOST_BYTES, "bytes a cycle")]
GigabytesPerSecond = Annotated[float, Between(0, 1e9, "GB/s", exclusive=True)]
Nanoseconds = Annotated[float, Between(0, 1e6, "ns", exclusive=True)]


class WrongClockError(Exception):
    """A bandwidth or latency that gives no legal number of bytes or cycles at the clock of the SMs."""

    def __init__(self, key: str, reason: str, legal: str) -> None:
        super().__init__(key, reason, legal)
        self.key, self.reason, self.legal = key, reason, legal


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


def bytes_a_cycle(gbs: float, clock_mhz: float, key: str = "gbs") -> int:
    """Bytes in one cycle of the SMs for a bandwidth in GB/s.

    Raises:
        WrongClockError: less than one byte, or more than `MOST_BYTES`.
    """
    size = round(gbs * 1e3 / clock_mhz)
    if 1 <= size <= MOST_BYTES:
        return size
    least, most = clock_mhz / 1e3, MOST_BYTES * clock_mhz / 1e3
    reason = f"{gbs:,g} GB/s are {size:,} bytes in a cycle of {clock_mhz:,g} MHz"
    raise WrongClockError(key, reason, f"{least:,.9g} to {most:,.9g} GB/s at this clock (chip.clock_mhz)")


def cycles_of(ns: float, clock_mhz: float, key: str = "latency_ns") -> int:
    """Cycles of the SMs for a time in ns, at least one.

    Raises:
        WrongClockError: more than `LONGEST` cycles.
    """
    cycles = max(round(ns * clock_mhz / 1e3), 1)
    if cycles <= LONGEST:
        return cycles
    reason = f"{ns:,g} ns are {cycles:,} cycles of {clock_mhz:,g} MHz"
    raise WrongClockError(key, reason, f"up to {LONGEST * 1e3 / clock_mhz:,.9g} ns at this clock (chip.clock_mhz)")


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
