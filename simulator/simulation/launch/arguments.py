"""The parameters of a kernel as bytes, from what a caller gives: arrays, numbers, or the bytes of a structure."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.program.kernel import Kernel, Parameter
from simulator.simulation.launch.errors import LaunchError

_INTEGERS = {"u": False, "b": False, "s": True}
_FLOATS = {"f32": "<f", "f64": "<d", "f16": "<e"}


def parameter_bytes(kernel: Kernel, values: Sequence[int | float | bytes]) -> NDArray[np.uint8]:
    """The block of parameters of a kernel: uint8 [byte].

    Args:
        values: one for each parameter, in order: a number (addresses are integers), or the bytes of a structure.

    Raises:
        LaunchError: too few or too many values, one that does not fit.
    """
    if len(values) != len(kernel.parameters):
        wanted = ", ".join(f"{each.name} (.{each.type})" for each in kernel.parameters) or "none"
        reason = f"{len(values)} arguments for the {len(kernel.parameters)} parameters of '{kernel.name}'"
        raise LaunchError(reason, wanted, rule="launch-arguments")
    block = np.zeros(kernel.parameter_bytes, np.uint8)
    for parameter, value in zip(kernel.parameters, values, strict=True):
        data = _packed(parameter, value)
        block[parameter.offset : parameter.offset + len(data)] = np.frombuffer(data, np.uint8)
    return block


def _packed(parameter: Parameter, value: int | float | bytes) -> bytes:
    if isinstance(value, bytes | bytearray):
        if len(value) != parameter.bytes:
            reason = f"{len(value)} bytes for parameter '{parameter.name}' of {parameter.bytes} bytes"
            raise LaunchError(reason, f"{parameter.bytes} bytes", rule="launch-arguments")
        return bytes(value)
    kind = parameter.type
    if kind in _FLOATS:
        return struct.pack(_FLOATS[kind], float(value))
    if kind[0] in _INTEGERS and kind[1:].isdigit() and isinstance(value, int):
        bits = int(kind[1:])
        if parameter.bytes == bits // 8 and -(1 << bits - 1) <= int(value) < 1 << bits:
            return (int(value) & (1 << bits) - 1).to_bytes(bits // 8, "little")
    if kind[0] == "b" and isinstance(value, float) and parameter.bytes == 4:  # Triton declares floats as .b32
        return struct.pack("<f", value)
    reason = f"{value!r} does not fit parameter '{parameter.name}' (.{kind}, {parameter.bytes} bytes)"
    raise LaunchError(reason, f"a number of type {kind}, or {parameter.bytes} bytes", rule="launch-arguments")


def plain(value: Any) -> Any:
    """A numpy scalar as a Python number; a structure (numpy record, 0-d) as its bytes; others as they are."""
    if isinstance(value, np.void):
        return value.tobytes()
    return value.item() if isinstance(value, np.generic) else value
