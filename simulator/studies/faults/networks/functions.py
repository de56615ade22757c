"""What networks compute between their linear layers, on float32 arrays with an axis of images in front."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
EPSILON = 1e-5  # of layer norm
GELU_CUBIC, GELU_ROOT = np.float32(0.044715), np.float32(np.sqrt(2 / np.pi))  # of the approximation by tanh


def relu(x: Array) -> Array:
    """The positive part; NaN stays."""
    return np.asarray(np.maximum(x, np.float32(0)))


def gelu(x: Array) -> Array:
    """GELU in its approximation by tanh."""
    return np.asarray(np.float32(0.5) * x * (1 + np.tanh(GELU_ROOT * (x + GELU_CUBIC * x * x * x))))


def add(x: Array, y: Array) -> Array:
    """The sum of two values."""
    return x + y


def mean(x: Array) -> Array:
    """The mean over a sequence: [image, place, feature] -> [image, feature]."""
    return np.asarray(x.mean(axis=1))


def flatten(x: Array) -> Array:
    """All of an image in one row."""
    return x.reshape(len(x), -1)


def reshaper(*shape: int) -> Callable[[Array], Array]:
    """A function that gives each image another shape."""
    return lambda x: x.reshape(len(x), *shape)


def shifter(offset: Array) -> Callable[[Array], Array]:
    """A function that adds the same array to each image: positions."""
    return lambda x: x + offset


def layer_norm(gain: Array, bias: Array) -> Callable[[Array], Array]:
    """A layer norm over the last axis."""

    def normal(x: Array) -> Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + np.float32(EPSILON))
        return np.asarray(centred / spread * gain + bias)

    return normal


def unfold(kernel: int) -> Callable[[Array], Array]:
    """A function from pictures [image, y, x, channel] to the neighbourhood of every place, zeros around the picture:
    [image, y, x, input], inputs in the order (row, column, channel)."""

    def patches(x: Array) -> Array:
        _, high, wide, _ = x.shape
        around = kernel // 2
        padded = np.pad(x, ((0, 0), (around, around), (around, around), (0, 0)))
        shifts = [(dy, dx) for dy in range(kernel) for dx in range(kernel)]
        return np.concatenate([padded[:, dy : dy + high, dx : dx + wide] for dy, dx in shifts], axis=-1)

    return patches


def max_pool(x: Array) -> Array:
    """The largest of each 2 x 2 of pictures [image, y, x, channel]."""
    images, high, wide, channels = x.shape
    return np.asarray(x.reshape(images, high // 2, 2, wide // 2, 2, channels).max(axis=(2, 4)))


def attention(heads: int) -> Callable[[Array], Array]:
    """Attention of several heads: [image, place, 3 * width] (queries, keys, values) -> [image, place, width]."""

    def mixed(qkv: Array) -> Array:
        images, places, triple = qkv.shape
        width = triple // 3
        split = qkv.reshape(images, places, 3, heads, width // heads).transpose(2, 0, 3, 1, 4)
        weights = split[0] @ split[1].swapaxes(-1, -2) * np.float32((width // heads) ** -0.5)
        power = np.exp(weights - weights.max(axis=-1, keepdims=True))
        shares = power / power.sum(axis=-1, keepdims=True)
        return np.asarray((shares @ split[2]).transpose(0, 2, 1, 3).reshape(images, places, width))

    return mixed
