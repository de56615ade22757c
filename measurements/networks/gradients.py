"""Reverse-mode derivatives of numpy arrays: what it takes to train the small networks of this folder, and no more.

A `Value` holds an array and remembers how it was computed; `backward` fills in the derivative of a loss with respect to
everything that it was computed from. All arrays are float32 or float64, as the parameters are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
GELU = 0.044715, float(np.sqrt(2 / np.pi))  # of the approximation by tanh


class Value:
    """An array, and the way back to what it was computed from.

    Attributes:
        data: the array.
        grad: the derivative of the loss, of the same shape, after `backward`.
    """

    def __init__(
        self, data: Array, parents: Sequence[Value] = (), back: Callable[[Array], Sequence[Array]] | None = None
    ):
        self.data, self.parents, self.back = data, tuple(parents), back
        self.grad: Array = np.zeros_like(data)

    def backward(self) -> None:
        """Derivatives of this value, which is a number, for all that it was computed from."""
        order: list[Value] = []
        seen: set[int] = set()

        def visit(value: Value) -> None:
            if id(value) not in seen:
                seen.add(id(value))
                for parent in value.parents:
                    visit(parent)
                order.append(value)

        visit(self)
        for value in order:
            value.grad = np.zeros_like(value.data)
        self.grad = np.ones_like(self.data)
        for value in reversed(order):
            if value.back is not None:
                for parent, grad in zip(value.parents, value.back(value.grad), strict=True):
                    parent.grad = parent.grad + grad


def _summed(grad: Array, shape: tuple[int, ...]) -> Array:
    """The derivative of an array that was broadcast."""
    grad = grad.sum(axis=tuple(range(grad.ndim - len(shape))))
    wide = tuple(i for i, size in enumerate(shape) if size == 1 and grad.shape[i] != 1)
    return grad.sum(axis=wide, keepdims=True) if wide else grad


def add(a: Value, b: Value) -> Value:
    return Value(a.data + b.data, (a, b), lambda g: (_summed(g, a.data.shape), _summed(g, b.data.shape)))


def matmul(a: Value, b: Value) -> Value:
    """a @ b of stacks of the same shape."""

    def back(g: Array) -> Sequence[Array]:
        return _summed(g @ b.data.swapaxes(-1, -2), a.data.shape), _summed(a.data.swapaxes(-1, -2) @ g, b.data.shape)

    return Value(a.data @ b.data, (a, b), back)


def linear(x: Value, weight: Value, bias: Value) -> Value:
    """x [..., inputs] with a weight [outputs, inputs] -> [..., outputs]."""

    def back(g: Array) -> Sequence[Array]:
        flat, given = g.reshape(-1, g.shape[-1]), x.data.reshape(-1, x.data.shape[-1])
        return g @ weight.data, flat.T @ given, flat.sum(axis=0)

    return Value(x.data @ weight.data.T + bias.data, (x, weight, bias), back)


def scaled(a: Value, factor: float) -> Value:
    return Value(a.data * factor, (a,), lambda g: (g * factor,))


def reshaped(a: Value, shape: tuple[int, ...], axes: tuple[int, ...] | None = None) -> Value:
    """`a` in another shape, then with its axes in another order."""
    lying = a.data.reshape(shape)
    axes = axes or tuple(range(len(shape)))
    return Value(lying.transpose(axes), (a,), lambda g: (g.transpose(np.argsort(axes)).reshape(a.data.shape),))


def part(a: Value, index: Any) -> Value:
    """a[index], where the index picks no element twice."""

    def back(g: Array) -> Sequence[Array]:
        whole = np.zeros_like(a.data)
        whole[index] = g
        return (whole,)

    return Value(a.data[index], (a,), back)


def relu(a: Value) -> Value:
    return Value(np.maximum(a.data, 0), (a,), lambda g: (g * (a.data > 0),))


def gelu(a: Value) -> Value:
    """GELU in its approximation by tanh."""
    cubic, root = GELU
    inner = root * (a.data + cubic * a.data**3)
    bent = np.tanh(inner)

    def back(g: Array) -> Sequence[Array]:
        slope = 0.5 * (1 + bent) + 0.5 * a.data * (1 - bent**2) * root * (1 + 3 * cubic * a.data**2)
        return (g * slope,)

    return Value(0.5 * a.data * (1 + bent), (a,), back)


def softmax(a: Value) -> Value:
    """Over the last axis."""
    power = np.exp(a.data - a.data.max(axis=-1, keepdims=True))
    share = power / power.sum(axis=-1, keepdims=True)
    return Value(share, (a,), lambda g: (share * (g - (g * share).sum(axis=-1, keepdims=True)),))


def layer_norm(a: Value, gain: Value, bias: Value, epsilon: float = 1e-5) -> Value:
    """Over the last axis."""
    centred = a.data - a.data.mean(axis=-1, keepdims=True)
    spread = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + epsilon)
    normal = centred * spread

    def back(g: Array) -> Sequence[Array]:
        inner = g * gain.data
        means = inner.mean(axis=-1, keepdims=True), (inner * normal).mean(axis=-1, keepdims=True)
        every = tuple(range(g.ndim - 1))
        return spread * (inner - means[0] - normal * means[1]), (g * normal).sum(axis=every), g.sum(axis=every)

    return Value(normal * gain.data + bias.data, (a, gain, bias), back)


def mean(a: Value, axis: int) -> Value:
    size = a.data.shape[axis]
    return Value(a.data.mean(axis=axis), (a,), lambda g: (np.repeat(np.expand_dims(g / size, axis), size, axis),))


def unfolded(a: Value, kernel: int) -> Value:
    """Neighbourhoods [image, y, x, kernel * kernel * channel] of pictures [image, y, x, channel], zeros around them."""
    _, high, wide, channels = a.data.shape
    around = kernel // 2
    padded = np.pad(a.data, ((0, 0), (around, around), (around, around), (0, 0)))
    shifts = [(dy, dx) for dy in range(kernel) for dx in range(kernel)]
    patches = np.concatenate([padded[:, dy : dy + high, dx : dx + wide] for dy, dx in shifts], axis=-1)

    def back(g: Array) -> Sequence[Array]:
        whole = np.zeros_like(padded)
        for i, (dy, dx) in enumerate(shifts):
            whole[:, dy : dy + high, dx : dx + wide] += g[..., i * channels : (i + 1) * channels]
        return (whole[:, around : around + high, around : around + wide],)

    return Value(patches, (a,), back)


def max_pooled(a: Value) -> Value:
    """The largest of each 2 x 2 of pictures [image, y, x, channel]."""
    images, high, wide, channels = a.data.shape
    tiles = a.data.reshape(images, high // 2, 2, wide // 2, 2, channels)
    most = tiles.max(axis=(2, 4), keepdims=True)
    hit = tiles == most
    share = hit / hit.sum(axis=(2, 4), keepdims=True)
    return Value(
        most[:, :, 0, :, 0], (a,), lambda g: ((share * g[:, :, None, :, None]).reshape(a.data.shape).astype(g.dtype),)
    )


def cross_entropy(scores: Value, labels: NDArray[np.integer]) -> Value:
    """The mean loss of scores [image, class]."""
    power = np.exp(scores.data - scores.data.max(axis=1, keepdims=True))
    share = power / power.sum(axis=1, keepdims=True)
    rows = np.arange(len(labels))

    def back(g: Array) -> Sequence[Array]:
        slope = share.copy()
        slope[rows, labels] -= 1
        return (slope * (g / len(labels)),)

    return Value(-np.log(share[rows, labels] + 1e-30).mean(), (scores,), back)
