"""Where the bytes of output buffers stand in what a launch has stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.applications.stored import ROW_BYTES
from simulator.faults.targets.launches.memory import AddressMap
from simulator.faults.targets.launches.together import Found


class OutputPlace(NamedTuple):
    """An output buffer: where it begins in the array of all buffers, where in what is stored, and its bytes."""

    first: int
    begin: int
    size: int


def output_places(golden: Mapping[str, NDArray[Any]], places: AddressMap) -> list[OutputPlace]:
    """Of each output buffer, in the order in which they are stored, its place."""
    found, begin = [], 0
    for name in sorted(golden):
        size = golden[name].nbytes
        found.append(OutputPlace(int(places.first[places.names.index(name)]), begin, size))
        begin += -(-size // ROW_BYTES) * ROW_BYTES
    return found


def stored_bytes(found: Found, places: Sequence[OutputPlace]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """The bytes of what is stored that differ: where, and what they are."""
    where, values = [], []
    for first, begin, size in places:
        inside = (found.places >= first) & (found.places < first + size)
        where.append(found.places[inside] - first + begin)
        values.append(found.values[inside])
    return np.concatenate(where), np.concatenate(values)
