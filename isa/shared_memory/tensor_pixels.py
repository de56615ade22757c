"""The pixels that an im2col copy moves, in their order in shared memory. PTX ISA 9.0, 5.5.4 and 5.5.5."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from isa.descriptors.tensor_map import TensorMap

WIDE_PIXELS, QUARTER = 128, 32  # of im2col::w::128, and after how many of them a halo follows


def base_pixels(tensor: TensorMap, start: Sequence[int], offsets: Sequence[int]) -> NDArray[np.int64]:
    """Coordinates of the pixels of an im2col copy but that of the channels, int64 [dimension, pixel].

    Base pixels from the start on, W first, each dimension from its lower corner to its upper one, then the next image:
    the digits of a number whose lowest digit is W. Where slices interleave, the slice is that of the start. Measured on
    an H200.
    """
    first = tensor.first_pixel_dimension
    spatial = tensor.rank - 2
    pixels = np.repeat(np.array(start[first:], np.int64)[:, None], tensor.pixels, axis=1)
    lower, upper = np.array(tensor.lower, np.int64), np.array(tensor.upper, np.int64)
    last = np.array(tensor.size[first : first + spatial], np.int64) - 1 + upper
    steps = tensor.element_stride
    pixel, image = np.array(start[first : first + spatial], np.int64), int(start[-1])
    for number in range(tensor.pixels):
        pixels[:spatial, number], pixels[-1, number] = pixel, image
        for axis in range(spatial):
            pixel[axis] += steps[first + axis]
            if pixel[axis] <= last[axis]:
                break
            pixel[axis] = lower[axis]
        else:
            image += steps[-1]
    if len(offsets):
        pixels[:spatial] += np.array(offsets, np.int64)[:, None]
    return pixels


def wide_pixels(
    tensor: TensorMap, start: Sequence[int], halo: int, offset: int, *, quarters: bool
) -> NDArray[np.int64]:
    """Coordinates of the pixels of a wide im2col copy but that of the channels, int64 [dimension, pixel].

    They go along W, from the lower to the upper corner, then to the next image; H and D stay (5.5.5). The offset moves
    the corners and the start (5.5.5.4). The halo's pixels are the next of the walk and lie behind the others;
    with `quarters` (im2col::w::128) there are 128 pixels, and each 32 of them have their halo behind them (5.5.5.3).

    Assumed, as the text shows it in pictures alone: that the halo goes on with the walk, and that pixels go on
    behind a halo as if there were none.
    """
    count, each = (WIDE_PIXELS, QUARTER) if quarters else (tensor.pixels, tensor.pixels)
    order = np.concatenate([np.arange(first, first + each + halo) for first in range(0, count, each)])
    low, end = tensor.lower[0] + offset, tensor.size[1] + tensor.upper[0] + offset
    step, begin = tensor.element_stride[1], start[1] + offset
    in_first = -(-(end - begin) // step)  # pixels before the first image is left
    in_each = -(-(end - low) // step)
    later = order - in_first
    pixels = np.repeat(np.array(start[1:], np.int64)[:, None], len(order), axis=1)
    pixels[0] = np.where(later < 0, begin + order * step, low + later % in_each * step)
    pixels[-1] += np.where(later < 0, 0, 1 + later // in_each) * tensor.element_stride[-1]
    return pixels
