"""What the training scripts of this folder share: the data, Adam, magnitude pruning 2:4, and the file that is written.

scikit-learn is needed here and only here: it ships the images. Training and test images are those of
traces/digits/train.py, whose test images ship with tcsim (traces/digits/images.npz).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from measurements.networks.gradients import Array, Value, cross_entropy, linear

SEED = 20  # as traces/digits/train.py splits the images
TEST_IMAGES = 384
BATCH = 32
OUT = Path(__file__).resolve().parents[2] / "simulator" / "data" / "networks"

Parameters = dict[str, Value]
OBSERVED: dict[str, float] = {}  # the largest absolute number that each linear layer has read
Forward = Callable[[Parameters, Array], Value]
Masks = dict[str, NDArray[np.bool_]]


def split() -> tuple[Array, NDArray[np.int64], Array, NDArray[np.int64]]:
    """Training images and labels, test images and labels: pixels 0 to 1, float32 [image, 64]."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    x, x_test, y, y_test = train_test_split(
        digits.data, digits.target, test_size=TEST_IMAGES, random_state=SEED, stratify=digits.target
    )
    return (x / 16).astype(np.float32), y, (x_test / 16).astype(np.float32), y_test


def layer(parameters: Parameters, name: str, x: Value) -> Value:
    """A linear layer by its name; what it reads is observed."""
    OBSERVED[name] = max(OBSERVED.get(name, 0.0), float(np.abs(x.data).max()))
    return linear(x, parameters[f"{name}.weight"], parameters[f"{name}.bias"])


def initial(shapes: dict[str, tuple[int, ...]], seed: int) -> Parameters:
    """Weights of the size that keeps variances; gains of 1, everything else 0."""
    random = np.random.default_rng(seed)
    found = {}
    for name, shape in shapes.items():
        if len(shape) > 1:
            data = random.standard_normal(shape) * np.sqrt(1.6 / shape[-1])
        else:
            data = np.ones(shape) if name.endswith("gain") else np.zeros(shape)
        found[name] = Value(data.astype(np.float32))
    return found


def train(
    forward: Forward, parameters: Parameters, x: Array, y: NDArray[np.int64], *, epochs: int, rate: float, seed: int,
    masks: Masks | None = None, decay: float = 2e-3,
) -> None:  # fmt: skip
    """Adam with a rate that falls as a cosine, and weight decay; weights outside of their masks stay 0."""
    random, masks = np.random.default_rng(seed), masks or {}
    first = {name: np.zeros_like(value.data) for name, value in parameters.items()}
    second = {name: np.zeros_like(value.data) for name, value in parameters.items()}
    steps, step = epochs * (len(x) // BATCH), 0
    for _ in range(epochs):
        order = random.permutation(len(x))[: len(x) // BATCH * BATCH].reshape(-1, BATCH)
        for batch in order:
            step += 1
            now = rate * 0.5 * (1 + np.cos(np.pi * step / steps))
            cross_entropy(forward(parameters, shifted(x[batch], random)), y[batch]).backward()
            for name, value in parameters.items():
                first[name] = 0.9 * first[name] + 0.1 * value.grad
                second[name] = 0.99 * second[name] + 0.01 * value.grad**2
                slope = first[name] / (1 - 0.9**step) / (np.sqrt(second[name] / (1 - 0.99**step)) + 1e-8)
                value.data = (value.data - now * (slope + decay * value.data * (value.data.ndim > 1))).astype(
                    np.float32
                )
                if name in masks:
                    value.data = value.data * masks[name]


def shifted(x: Array, random: np.random.Generator) -> Array:
    """The images with a little noise, so that there is more to learn from than 1,413 images."""
    return x + (0.08 * random.standard_normal(x.shape)).astype(np.float32)


def masks_2of4(parameters: Parameters, names: tuple[str, ...]) -> Masks:
    """Which weights stay: of every four neighbours along the inputs the two largest; on a tie the lower index."""
    found = {}
    for name in names:
        weight = np.abs(parameters[f"{name}.weight"].data)
        order = np.argsort(-weight.reshape(len(weight), -1, 4), axis=-1, kind="stable")[..., :2]
        mask = np.zeros((len(weight), weight.shape[1] // 4, 4), np.bool_)
        np.put_along_axis(mask, order, True, axis=-1)
        found[f"{name}.weight"] = mask.reshape(weight.shape)
    return found


def accuracy(forward: Forward, parameters: Parameters, x: Array, y: NDArray[np.int64]) -> float:
    return float((forward(parameters, x).data.argmax(axis=1) == y).mean())


def build(
    name: str, forward: Forward, shapes: dict[str, tuple[int, ...]], sparse: tuple[str, ...], epochs: int
) -> None:
    """Trains, prunes, trains on under the masks, rounds to f16 and writes; prints the accuracies of what is written."""
    x, y, x_test, y_test = split()
    parameters = initial(shapes, SEED)
    train(forward, parameters, x, y, epochs=epochs, rate=2e-3, seed=SEED + 1)
    print(f"{name} dense: training {accuracy(forward, parameters, x, y):.4f}, test "
          f"{accuracy(forward, parameters, x_test, y_test):.4f}", flush=True)  # fmt: skip
    masks = masks_2of4(parameters, sparse)
    for key, mask in masks.items():
        parameters[key].data = parameters[key].data * mask
    train(forward, parameters, x, y, epochs=epochs // 2, rate=1e-3, seed=SEED + 2, masks=masks)
    for value in parameters.values():
        value.data = value.data.astype(np.float16).astype(np.float32)
    OBSERVED.clear()
    print(f"{name} 2:4: training {accuracy(forward, parameters, x, y):.4f}", end=", ")
    largest: dict[str, Any] = {f"largest.{key}": np.float32(value) for key, value in OBSERVED.items()}
    print(f"test {accuracy(forward, parameters, x_test, y_test):.4f}", flush=True)
    OUT.mkdir(parents=True, exist_ok=True)
    weights: dict[str, Any] = {key: value.data.astype(np.float16) for key, value in parameters.items()}
    np.savez_compressed(OUT / f"{name}.npz", **weights, **largest)
