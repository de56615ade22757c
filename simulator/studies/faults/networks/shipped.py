"""The networks that come with tcsim, and the images on which they are judged.

    digits_mlp           64 -> 128 -> 128 -> 10; the hidden layer is that of traces/digits, 2:4
    digits_cnn           3 x 3 convolutions of 16 and 32 channels, 2 x 2 maximum, 512 -> 64 -> 10; conv2 and fc1 are 2:4
    digits_transformer   a sequence of 8 rows of pixels, 2 blocks of width 64, 4 heads; their linear layers are 2:4

Images: 384 test images of scikit-learn's digits, 8 x 8 pixels (traces/digits/images.npz). Weights: f16, made by
traces/digits/train.py and measurements/networks/train_*.py.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.errors import ViewError, did_you_mean
from simulator.resources import folder
from simulator.studies.faults.networks import functions
from simulator.studies.faults.networks.description import Apply, Linear, Network, Step

Singles = NDArray[np.float32]
HEADS, BLOCKS = 4, 2  # of the transformer


class Data(NamedTuple):
    """Images [image, 64] with pixels 0 to 1, and the digits that they show, [image]."""

    images: Singles
    labels: NDArray[np.int64]


class Shipped(NamedTuple):
    """A network that comes with tcsim: how it is made, and which of its layers are 2:4."""

    make: Callable[[], Network]
    sparse: tuple[str, ...]


def network(name: str) -> Network:
    """A network that comes with tcsim; ViewError for a name that none has."""
    if name not in NETWORKS:
        raise ViewError(f"no network '{name}'{did_you_mean(name, NETWORKS)}", ", ".join(NETWORKS))
    return _made(name)


@cache
def _made(name: str) -> Network:
    return NETWORKS[name].make()


def digit_images(images: int = 0) -> Data:
    """The first images of the test set; all 384 for 0. ViewError for more than there are."""
    with np.load(folder("traces") / "digits" / "images.npz") as file:
        pixels, labels = file["images"], file["labels"]
    if not 0 <= images <= len(labels):
        raise ViewError(f"{images} images", f"1 to {len(labels)}, or 0 for all")
    count = images or len(labels)
    return Data((pixels[:count] / 16).astype(np.float32), labels[:count].astype(np.int64))


def parameters(name: str) -> dict[str, Singles]:
    """The parameters of a network of simulator/data/networks, float32 by name."""
    with np.load(folder("networks") / f"{name}.npz") as file:
        return {key: file[key].astype(np.float32) for key in file.files}


def _largest(p: dict[str, Any]) -> dict[str, float]:
    """The largest inputs on the training images, which the file keeps beside the weights."""
    return {key.removeprefix("largest."): float(value) for key, value in p.items() if key.startswith("largest.")}


def _linear(p: dict[str, Singles], name: str, source: str, result: str) -> Linear:
    return Linear(name, source, result, p[f"{name}.weight"], p[f"{name}.bias"])


def _mlp() -> Network:
    with np.load(folder("traces") / "digits" / "weights.npz") as file:
        p = {key: file[key].astype(np.float32) for key in file.files}
    first, second, third = ((p[f"w{i}"], p[f"b{i}"]) for i in ("1", "2_2of4", "3_2of4"))
    steps: list[Step] = [
        Linear("fc1", "x", "h1", first[0] * np.float32(16), first[1]),  # the network takes pixels 0 to 16
        Apply(functions.relu, ("h1",), "a1"),
        Linear("fc2", "a1", "h2", *second),
        Apply(functions.relu, ("h2",), "a2"),
        Linear("fc3", "a2", "scores", *third),
    ]
    return Network("digits_mlp", steps, {"fc2": float(p["activation_max"])})


def _cnn() -> Network:
    p = parameters("digits_cnn")
    steps: list[Step] = [
        Apply(functions.reshaper(8, 8, 1), ("x",), "pixels"),
        Apply(functions.unfold(3), ("pixels",), "near1"),
        _linear(p, "conv1", "near1", "h1"),
        Apply(functions.relu, ("h1",), "a1"),
        Apply(functions.unfold(3), ("a1",), "near2"),
        _linear(p, "conv2", "near2", "h2"),
        Apply(functions.relu, ("h2",), "a2"),
        Apply(functions.max_pool, ("a2",), "pooled"),
        Apply(functions.flatten, ("pooled",), "flat"),
        _linear(p, "fc1", "flat", "h3"),
        Apply(functions.relu, ("h3",), "a3"),
        _linear(p, "fc2", "a3", "scores"),
    ]
    return Network("digits_cnn", steps, _largest(p))


def _transformer() -> Network:
    p = parameters("digits_transformer")

    def norm(name: str, source: str, result: str) -> Apply:
        return Apply(functions.layer_norm(p[f"{name}.gain"], p[f"{name}.bias"]), (source,), result)

    steps: list[Step] = [
        Apply(functions.reshaper(8, 8), ("x",), "rows"),
        _linear(p, "embed", "rows", "embedded"),
        Apply(functions.shifter(p["position"]), ("embedded",), "x0"),
    ]
    for i in range(BLOCKS):
        b, x = f"block{i}", f"x{i}"
        steps += [
            norm(f"{b}.norm1", x, f"{b}.n1"),
            _linear(p, f"{b}.qkv", f"{b}.n1", f"{b}.qkv"),
            Apply(functions.attention(HEADS), (f"{b}.qkv",), f"{b}.mixed"),
            _linear(p, f"{b}.proj", f"{b}.mixed", f"{b}.projected"),
            Apply(functions.add, (x, f"{b}.projected"), f"{b}.middle"),
            norm(f"{b}.norm2", f"{b}.middle", f"{b}.n2"),
            _linear(p, f"{b}.ff1", f"{b}.n2", f"{b}.hidden"),
            Apply(functions.gelu, (f"{b}.hidden",), f"{b}.bent"),
            _linear(p, f"{b}.ff2", f"{b}.bent", f"{b}.out"),
            Apply(functions.add, (f"{b}.middle", f"{b}.out"), f"x{i + 1}"),
        ]
    steps += [
        norm("norm", f"x{BLOCKS}", "normal"),
        Apply(functions.mean, ("normal",), "pooled"),
        _linear(p, "head", "pooled", "scores"),
    ]
    return Network("digits_transformer", steps, _largest(p))


NETWORKS = {
    "digits_mlp": Shipped(_mlp, ("fc2",)),
    "digits_cnn": Shipped(_cnn, ("conv2", "fc1")),
    "digits_transformer": Shipped(
        _transformer, tuple(f"block{i}.{name}" for i in range(BLOCKS) for name in ("qkv", "proj", "ff1", "ff2"))
    ),
}
