"""Which bytes of a tensor a copy brings where in shared memory: text, CSV, JSON, and the cells of the picture.

>>> from isa.descriptors.tensor_map import TensorMap
>>> tensor = TensorMap("f16", size=(256, 256), stride_bytes=(512,), box=(64, 8), swizzle=128)
>>> BoxLayout(tensor, (0, 0)).line(1)[0].coordinates  # row 1: its second 16 bytes come first
(8, 1)
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from isa.descriptors.tensor_map import TensorMap
from isa.descriptors.tensor_map_fields import BYTES, TYPE_OF_NAME, TensorType
from isa.errors import IsaError
from isa.shared_memory.tensor_box import ROWS, RULE, UNIT, WIDE, Box, box, broken_rules, extent
from simulator.state.shared import LINE_BYTES
from simulator.tables import Table

SOURCE = "measured on an NVIDIA H200, November 2026 (measurements/tensor_maps); PTX ISA 9.0, 5.5"
INFERRED = "inferred from the text of PTX ISA 9.0, 5.5, and CUDA 13.0: only Blackwell has it"
MAP = "type=f16,size=256x256,stride=512,box=64x64,swizzle=128"
_LISTS = {
    "size": "size", "stride": "stride_bytes", "box": "box", "step": "element_stride", "lower": "lower",
    "upper": "upper",
}  # fmt: skip
_NUMBERS = {
    "swizzle": "swizzle", "interleave": "interleave", "promotion": "l2_promotion", "channels": "channels",
    "pixels": "pixels", "address": "address", "atom": "atom", "flip": "flip",
}  # fmt: skip
_WORDS = ("type", "fill")


def read_map(text: str) -> TensorMap:
    """The tensor map that a text describes: fields such as "type=f16,size=256x256,stride=512,box=64x64,swizzle=128", or
    the 128 bytes in hexadecimal.

    Raises:
        IsaError: a field that there is not, a number that cannot be read, or a map that the driver refuses.
    """
    if re.fullmatch(r"(?:0x)?[0-9a-fA-F]{64,}", text):
        digits = text.removeprefix("0x")
        if len(digits) != 2 * BYTES:
            raise IsaError(text[:32], -1, f"{len(digits)} hexadecimal digits", f"{2 * BYTES}", rule="tensor-map")
        return TensorMap.decode(bytes.fromhex(digits), checked=False)
    values: dict[str, Any] = {}
    legal = ", ".join((*_WORDS, *_LISTS, *_NUMBERS))
    for part in text.split(","):
        name, equals, value = part.strip().partition("=")
        if not equals or name not in (*_WORDS, *_LISTS, *_NUMBERS):
            raise IsaError(part, -1, f"'{part.strip()}' is no field of a tensor map", f"{legal}, as in {MAP}")
        values[_LISTS.get(name) or _NUMBERS.get(name) or name] = _value(name, value)
    for name in ("type", "size"):
        if name not in values:
            raise IsaError(text, -1, f"the tensor map has no {name}", MAP, rule="tensor-map")
    if "box" not in values and "pixels" not in values:
        raise IsaError(text, -1, "the tensor map has no box", f"{MAP}, or channels and pixels", rule="tensor-map")
    if values["type"] in TYPE_OF_NAME and len(values["size"]) > 1 and "stride_bytes" not in values:
        values["stride_bytes"] = _packed(values["size"], TYPE_OF_NAME[values["type"]], values.get("interleave", 0))
    return TensorMap(**values)


def _value(name: str, text: str) -> Any:
    if name in _WORDS:
        return text
    numbers = text.split("x") if name in _LISTS else [text]
    try:
        read = [int(number, 0) for number in numbers]
    except ValueError:
        raise IsaError(text, -1, f"{name}={text} is no number", f"{name}=64", rule="tensor-map") from None
    return read if name in _LISTS else read[0]


def _packed(size: Sequence[int], element: TensorType, interleave: int) -> list[int]:
    """Strides of a tensor whose rows follow one another at multiples of 16 bytes, or of those that the type needs."""
    unit = interleave or (2 * UNIT if element.padded else UNIT)
    strides, reach = [], size[0] * interleave or -(-size[0] * element.bytes // element.group)
    for extent_of in size[1:]:
        strides.append(-(-reach // unit) * unit)
        reach = strides[-1] * extent_of
    return strides


class Unit(NamedTuple):
    """16 bytes of shared memory.

    Attributes:
        address: of the first byte.
        coordinates: of the first element, dimension 0 first.
        memory: where that lies in global memory.
        inside: how many of its elements are in the tensor.
    """

    address: int
    coordinates: tuple[int, ...]
    memory: int
    inside: int


@dataclass(frozen=True)
class BoxLayout:
    """The box that one copy moves.

    Attributes:
        tensor: the map.
        start: its coordinates, dimension 0 first.
        offsets: of an im2col load; of a wide one halo and offset.
        shared: address of the box in shared memory; with a swizzle a multiple of 128.
        mode: of the copy, as in `isa.shared_memory.tensor_box.box`.

    Raises:
        IsaError: coordinates that the chip refuses, or as many as the tensor does not have.
    """

    tensor: TensorMap
    start: tuple[int, ...]
    offsets: tuple[int, ...] = ()
    shared: int = 0
    mode: str = ""

    def __post_init__(self) -> None:
        count = 5 if self.mode in ROWS else self.tensor.rank
        reason, legal = "", ""
        if len(self.start) != count:
            reason = f"{len(self.start)} coordinates of a tensor of {self.tensor.rank} dimensions"
            legal = f"{count}" if self.mode not in ROWS else "5: the column and four rows"
        elif self.mode in (ROWS if self.tensor.im2col else WIDE):
            reason = f"a copy with .{self.mode} of a map that is {'im2col' if self.tensor.im2col else 'tiled'}"
            legal = ", ".join(WIDE if self.tensor.im2col else ROWS)
        elif self.mode in WIDE and len(self.offsets) != 2:
            reason, legal = f"{len(self.offsets)} offsets of a copy with .{self.mode}", "2: wHalo,wOffset"
        if reason:
            raise IsaError(str(self.start), -1, reason, legal, rule=RULE)
        for broken in broken_rules(self.tensor, self.start, writes=self.mode == ROWS[1], mode=self.mode):
            raise IsaError(str(self.start), -1, f"{broken}: an illegal instruction", "other coordinates", rule=RULE)
        if self.shared % 128:
            raise IsaError(str(self.shared), -1, f"a box at byte {self.shared}", "a multiple of 128", rule=RULE)

    @cached_property
    def box(self) -> Box:
        """Every element."""
        return box(self.tensor, self.start, self.offsets, self.shared, mode=self.mode)

    @property
    def counted(self) -> int:
        """Bytes that the copy counts on its mbarrier."""
        return len(self.box.shared) * self.box.bytes

    @cached_property
    def units(self) -> dict[int, Unit]:
        """The 16-byte units by their address; of their pieces the first in shared memory says which they are."""
        order = np.argsort(self.box.shared, kind="stable")
        starts, first, count = np.unique(self.box.shared[order] // UNIT, return_index=True, return_counts=True)
        inside = np.add.reduceat(self.box.inside[order].astype(np.int64), first)
        elements = inside * self._elements // count
        chosen = order[first]
        rows = zip(
            (starts * UNIT).tolist(), self.box.index[:, chosen].T.tolist(), self.box.memory[chosen].tolist(),
            elements.tolist(), strict=True,
        )  # fmt: skip
        return {address: Unit(address, tuple(place), memory, number) for address, place, memory, number in rows}

    @property
    def _elements(self) -> int:
        """Elements in 16 bytes of shared memory."""
        element = self.tensor.element
        return UNIT // element.shared_bytes * element.group

    @property
    def lines(self) -> range:
        """The numbers of the lines of 128 bytes, counted from the box."""
        last = int(self.box.shared.max()) + self.box.bytes - 1
        return range((last - self.shared) // LINE_BYTES + 1)

    def line(self, number: int) -> list[Unit | None]:
        """The units of a line; None for bytes that the copy leaves as they are."""
        first = self.shared + number * LINE_BYTES
        return [self.units.get(first + UNIT * place) for place in range(LINE_BYTES // UNIT)]

    @property
    def title(self) -> str:
        """What it is."""
        swizzle = f"swizzle {self.tensor.swizzle_name}" if self.tensor.swizzle else "no swizzle"
        slices = f", slices of {self.tensor.interleave} bytes" if self.tensor.interleave else ""
        at, mode = ", ".join(map(str, self.start)), f" (.{self.mode})" if self.mode else ""
        return f"box of {self.tensor.type} at ({at}){mode}, {swizzle}{slices}, {self.counted} bytes"

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know besides."""
        counted, last = self.counted, int(self.box.shared.max()) + self.box.bytes
        reach = extent(self.tensor) if not self.mode else last - self.shared
        gap = f"; {reach - counted} bytes between them stay as they are" if reach > counted else ""
        outside = int((~self.box.inside).sum()) * self._elements * self.box.bytes // UNIT
        if self.tensor.element.padded:
            outside = outside * UNIT // self.tensor.element.bytes
        return (
            "cells: coordinates of the first element of 16 bytes, dimension 0 first",
            f"the mbarrier counts {counted} bytes; the box reaches over {reach} bytes of shared memory{gap}",
            f"{outside} elements lie outside of the tensor and are {'NaN' if self.tensor.fill == 'nan' else 'zeros'}",
            f"source: {INFERRED if self.mode or self.tensor.beyond_hopper else SOURCE}",
        )

    def table(self) -> Table:
        """A row for each 16 bytes."""
        axes = tuple(f"c{axis}" for axis in range(self.tensor.rank))
        rows = [
            (unit.address, *unit.coordinates, unit.memory, unit.inside) for _, unit in sorted(self.units.items())
        ]  # fmt: skip
        return Table(("shared_byte", *axes, "global_byte", "elements_inside"), rows)

    def text(self, *, markdown: bool = False) -> str:
        """Lines of 128 bytes."""
        heads = ["byte", *(f"+{UNIT * place}" for place in range(LINE_BYTES // UNIT))]
        rows = [[f"0x{self.shared + LINE_BYTES * n:04x}", *map(name_of, self.line(n))] for n in self.lines]
        table = Table(tuple(heads), rows)
        shown = table.markdown() if markdown else table.text()
        return "\n".join((self.title, "", shown.rstrip("\n"), "", *self.notes)) + "\n"

    def json(self) -> str:
        """The map, the box and its units."""
        content = {"map": str(self.tensor).splitlines(), "start": self.start, "shared": self.shared}
        return json.dumps({**content, "notes": self.notes, "units": self.table().records()}, indent=1) + "\n"


def name_of(unit: Unit | None) -> str:
    """What a cell says: coordinates, in brackets where the tensor does not reach; "-" for bytes that stay."""
    if unit is None:
        return "-"
    text = ",".join(map(str, unit.coordinates))
    return text if unit.inside else f"[{text}]"


def explained(tensor: TensorMap) -> str:
    """A map in words, with its 128 bytes."""
    data = np.frombuffer(tensor.encode(), np.uint8)
    rows = [
        f"  {start:3d}  " + " ".join(f"{byte:02x}" for byte in data[start : start + 16]) for start in range(0, 80, 16)
    ]
    reach = (
        f"a copy counts {tensor.box_bytes} bytes on its mbarrier, and reaches over {extent(tensor)} of shared memory"
    )
    return (
        "\n".join(
            (
                str(tensor),
                reach,
                "bytes (those from 80 on are 0)",
                *rows,
                f"source: {INFERRED if tensor.beyond_hopper else SOURCE}",
            )
        )
        + "\n"
    )
