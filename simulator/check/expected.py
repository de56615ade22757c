"""Which elements of a launch's outputs are wrong: the one comparison with what was expected."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from simulator.program.capture import Capture
from simulator.state.device_memory import DeviceMemory

Arrays = Mapping[str, NDArray[np.generic]]


def wrong_elements(
    arrays: Arrays, expected: Arrays, rtol: float = 0.0, atol: float = 0.0
) -> dict[str, NDArray[np.bool_]]:
    """By name of the buffer, bool [shape]: the elements that are wrong, of the buffers that are expected.

    An element is right if its bits are those that are expected; with tolerances, if |x - y| <= atol + rtol |y|, where
    y is expected and finite, or if both are the same infinity or NaN.
    """
    return {name: wrong(arrays[name], each, rtol, atol) for name, each in expected.items()}


def wrong(
    array: NDArray[np.generic], expected: NDArray[np.generic], rtol: float = 0.0, atol: float = 0.0
) -> NDArray[np.bool_]:
    """bool, of the shape of `array` (whose last axes are those of `expected`): the elements that are wrong; see
    `wrong_elements`."""
    mine, theirs = _patterns(array), _patterns(expected)
    differ: NDArray[np.bool_] = np.not_equal(mine, theirs)
    if mine.ndim > array.ndim:
        differ = np.logical_or.reduce(differ, axis=-1)
    if (rtol == 0 and atol == 0) or not differ.any():
        return differ
    kind = np.complex128 if np.iscomplexobj(expected) else np.float64
    with np.errstate(all="ignore"):
        x, y = array.astype(kind), expected.astype(kind)
        near = (np.abs(x - y) <= atol + rtol * np.abs(y)) & np.isfinite(y)
        near |= (x == y) | (np.isnan(x) & np.isnan(y))
    found: NDArray[np.bool_] = differ & ~near
    return found


def output_arrays(capture: Capture, memory: DeviceMemory) -> dict[str, NDArray[np.generic]]:
    """The buffers that have expected values, as they lie in memory, as arrays."""
    return {name: capture.buffers[name].array(memory[name].data) for name in capture.after}


def _patterns(array: NDArray[np.generic]) -> NDArray[np.generic]:
    """The bit patterns of an array; of elements of more than 8 bytes with a last axis of their words."""
    array = np.ascontiguousarray(array)
    if array.itemsize > 8:
        return array.view(np.uint64).reshape(*array.shape, -1)
    return array.view(f"u{array.itemsize}").reshape(array.shape)
