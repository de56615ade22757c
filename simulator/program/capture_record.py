"""A captured launch as an object: how a kernel was launched, on which buffers, and what it left in them.

`simulator.program.capture` reads one from files, `simulator.program.capture_writer` writes one; a call of a kernel
becomes one without files (`kernel.capture(...)`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import KeyedError
from simulator.inputs import read_text
from simulator.program.capture_maps import CapturedMap

Dim = tuple[int, int, int]
SCALARS = ("s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64", "f16", "f32", "f64")
KINDS = ("buffer", "bytes", *SCALARS)
MOST_BYTES = 1 << 36
TYPES = (
    "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64",
    "complex64", "complex128", "bool",
)  # fmt: skip


class CaptureError(KeyedError):
    """A captured launch cannot be read.

    Attributes:
        path: the file.
        key: the entry that is wrong, as a dotted path; "" for the whole file.
        reason, legal: as in `Error`.
    """


def misfit(rows: int, columns: int, leading: int, elements: int) -> str:
    """Why rows of so many columns, at a leading dimension, are not in a buffer of so many elements; "" if they are."""
    if columns > leading:
        return f"{columns} columns at a leading dimension of {leading}"
    last = (rows - 1) * leading + columns
    return f"{rows} rows of {columns} at {leading} take {last} elements, of {elements}" if last > elements else ""


@dataclass(frozen=True)
class BufferSpec:
    """A buffer of a captured launch.

    Attributes:
        name, bytes: its name and size.
        type, shape: of the array that it holds.
        address: where it must lie; None for anywhere.
        zero: whether it begins with zeros.
        output: whether the kernel may have written it.
        declared: rows, columns and leading dimension in elements, where only the first columns of each row are data:
            what lies between them and the leading dimension, and behind the last row, is padding that no kernel
            should need. None: all of it is data.
    """

    name: str
    bytes: int
    type: str
    shape: tuple[int, ...]
    address: int | None = None
    zero: bool = False
    output: bool = False
    declared: tuple[int, int, int] | None = None

    def array(self, held: NDArray[np.uint8]) -> NDArray[Any]:
        """The bytes of the buffer, uint8 [byte], as the array that it holds."""
        return held.view(self.type).reshape(self.shape)

    def data(self, array: NDArray[Any]) -> NDArray[Any]:
        """The part of the buffer's array that is data, as a view: all of it, or the declared rows and columns."""
        if self.declared is None:
            return array
        rows, columns, leading = self.declared
        flat = array.reshape(-1)
        step = flat.itemsize
        return np.lib.stride_tricks.as_strided(flat, (rows, columns), (leading * step, step))


@dataclass(frozen=True)
class Capture:
    """A captured launch.

    Attributes:
        path: of the JSON file; of a launch that was never written, a name alone.
        ptx: path of the PTX; or its text, where it stands in no file.
        entry: the kernel's name.
        target: what it was compiled for.
        grid, block: CTAs, threads of a CTA.
        cluster: CTAs of a cluster; None where the file does not say, or says one, which is what recorders write where
            the launch has no such attribute.
        dynamic_shared: dynamic shared memory of a CTA in bytes.
        params: for each parameter (kind, value): ("buffer", name), ("bytes", bytes), or a type and a number.
        buffers: by name.
        before, after: by name, the arrays of the buffers; `after` of the outputs alone. Empty if the capture has no
            data.
        tensor_maps: what they say, and where they lie.
        counters: what the chip counted; empty if nothing.
        cooperative: whether the CTAs of the grid meet.
        fmad: whether a product and a sum become a fused multiply-add, as `simulator.Module`.
        names: what the arguments are called, one for each parameter; empty if nobody says.
    """

    path: Path
    ptx: Path | str
    entry: str
    target: str
    grid: Dim
    block: Dim
    cluster: Dim | None
    dynamic_shared: int
    params: tuple[tuple[str, Any], ...]
    buffers: Mapping[str, BufferSpec]
    before: Mapping[str, NDArray[Any]]
    after: Mapping[str, NDArray[Any]]
    tensor_maps: Sequence[CapturedMap] = ()
    counters: Mapping[str, float] = field(default_factory=dict)
    cooperative: bool = False
    fmad: bool = True
    names: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The PTX."""
        return self.ptx if isinstance(self.ptx, str) else read_text(self.ptx, "a PTX file")

    @property
    def has_data(self) -> bool:
        """Whether it says what the buffers held."""
        return bool(self.before or self.after)

    @property
    def outputs(self) -> dict[str, BufferSpec]:
        """The buffers that the kernel may have written."""
        return {name: spec for name, spec in self.buffers.items() if spec.output or name in self.after}
