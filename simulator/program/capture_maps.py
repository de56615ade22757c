"""The tensor maps of a captured launch: what each says, and where its 128 bytes lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from isa.descriptors.tensor_map import TensorMap
from isa.descriptors.tensor_map_driver import of_driver
from isa.descriptors.tensor_map_fields import BYTES
from isa.errors import IsaError

Fail = Callable[[str, str, str], NoReturn]  # the key, what is wrong, what would be right


@dataclass(frozen=True)
class CapturedMap:
    """A tensor map of a launch.

    Attributes:
        tensor: what it says.
        param: index of the kernel's parameter that holds it; None where a buffer does.
        buffer: name of the buffer that holds it; "" where a parameter does.
        offset: of its first byte there.
    """

    tensor: TensorMap
    param: int | None
    buffer: str
    offset: int


def read_map(key: str, entry: Any, sizes: Mapping[str | int, int], fail: Fail) -> CapturedMap:
    """Reads an entry of `tensor_maps`.

    Args:
        key: of the entry, for errors.
        entry: as the file has it.
        sizes: bytes of each buffer by name, and of each parameter that is a structure by index.
        fail: raises the error of the file.
    """
    if not isinstance(entry, dict):
        fail(key, str(entry)[:60], '{"param": 0, "data_type": 6, "rank": 2, ...}')
    numbers = {name: _number(f"{key}.{name}", entry.get(name, default), fail) for name, default in _NUMBERS.items()}
    rank, place = numbers["rank"], entry.get("buffer", "")
    holder: str | int = place or _number(f"{key}.param", entry.get("param", 0), fail)
    if holder not in sizes:
        fail(f"{key}.{'buffer' if place else 'param'}", f"no bytes {holder!r}", ", ".join(map(str, sizes)) or "bytes")
    if not 0 <= numbers["offset"] <= sizes[holder] - BYTES:
        fail(f"{key}.offset", str(numbers["offset"]), f"0 to {sizes[holder] - BYTES}")
    try:
        values = of_driver(numbers)
    except IsaError as error:
        fail(f"{key}.{error.operand}", error.text, error.legal)
    counts = {"size": rank, "stride_bytes": rank - 1, "element_stride": rank}
    if entry.get("im2col") or "pixels" in entry:
        counts |= {"lower": rank - 2, "upper": rank - 2}
        values |= {name: _number(f"{key}.{name}", entry.get(name), fail) for name in ("channels", "pixels")}
    else:
        counts["box"] = rank
    values |= {name: _numbers(f"{key}.{name}", entry.get(name), count, fail) for name, count in counts.items()}
    try:
        tensor = TensorMap(**values, address=numbers["address"])
    except IsaError as error:
        fail(f"{key}.{error.operand}", error.reason, error.legal)
    return CapturedMap(tensor, None if place else int(holder), place, numbers["offset"])


_NUMBERS = {
    "data_type": None, "rank": None, "address": None, "offset": 0, "interleave": 0, "swizzle": 0, "l2_promotion": 0,
    "fill": 0,
}  # fmt: skip


def _number(key: str, value: Any, fail: Fail) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        fail(key, "is missing" if value is None else str(value)[:60], "a whole number")
    return value


def _numbers(key: str, value: Any, count: int, fail: Fail) -> list[int]:
    if not isinstance(value, list) or len(value) != count:
        fail(key, "is missing" if value is None else str(value)[:60], f"a list of {count} numbers")
    return [_number(f"{key}[{index}]", each, fail) for index, each in enumerate(value)]


def write_where_zero(data: Any, captured: CapturedMap) -> None:
    """Encodes a map into the bytes that are to hold it, where these are zeros; uint8 [byte], changed in place."""
    own = data[captured.offset : captured.offset + BYTES]
    if not own.any():
        own[:] = memoryview(captured.tensor.encode())
