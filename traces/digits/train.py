"""Train the digits network, prune its hidden layer and write `weights.npz` and `images.npz`.

    python traces/digits/train.py [--out FOLDER]

The network: 64 pixels -> 128 -> 128 -> 10 digits, ReLU between the layers, biases everywhere, plain numpy in float64.
scikit-learn is needed here and only here: it ships the images and splits them. The 128 x 128 hidden layer is the job of
the traces:

1. train the dense network (Adam, cosine learning rate, a little weight decay);
2. round the first layer to float16, so that its products with the integer pixels add up exactly in float64, in any
order, on any machine; 3. prune the hidden layer by magnitude, 2:4 (of every 4 neighbouring inputs of a row keep the two
largest) and, for tf32, 1:2 (of every pair keep
   one); on a tie the lower index stays;
4. train on with the mask held (only the hidden and the last layer move).

Every network is rounded to float16 at the end (the 1:2 hidden layer to tf32): what the files hold is what the
accuracies are of.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

SEED = 20
TEST_IMAGES = 384
HIDDEN = 128
BATCH = 32
EPOCHS_DENSE = 100
EPOCHS_PRUNED = 60
RATE_DENSE = 2e-3
RATE_PRUNED = 1e-3
DECAY = 2e-3

Matrix = NDArray[np.float64]


@dataclass
class Network:
    """Three layers; `w` is [outputs, inputs], `b` is [outputs]."""

    w: list[Matrix]
    b: list[Matrix]

    def copy(self) -> Network:
        return Network([w.copy() for w in self.w], [b.copy() for b in self.b])

    def forward(self, x: Matrix) -> list[Matrix]:
        """Inputs [images, 64] -> the input of every layer and, last, the scores [images, 10]."""
        values = [x]
        for layer in range(3):
            z = values[-1] @ self.w[layer].T + self.b[layer]
            values.append(z if layer == 2 else np.maximum(z, 0.0))
        return values

    def accuracy(self, x: Matrix, labels: NDArray[np.int64]) -> float:
        return float(np.mean(self.forward(x)[-1].argmax(axis=1) == labels))


def gradients(net: Network, x: Matrix, labels: NDArray[np.int64]) -> tuple[list[Matrix], list[Matrix]]:
    """Of the mean cross entropy of a batch: (by the weights, by the biases)."""
    values = net.forward(x)
    shifted = np.exp(values[-1] - values[-1].max(axis=1, keepdims=True))
    delta = shifted / shifted.sum(axis=1, keepdims=True)
    delta[np.arange(len(labels)), labels] -= 1.0
    delta /= len(labels)
    by_w: list[Matrix] = [np.empty(0)] * 3
    by_b: list[Matrix] = [np.empty(0)] * 3
    for layer in (2, 1, 0):
        by_w[layer] = delta.T @ values[layer]
        by_b[layer] = delta.sum(axis=0)
        delta = (delta @ net.w[layer]) * (values[layer] > 0.0)
    return by_w, by_b


def train(
    net: Network,
    x: Matrix,
    labels: NDArray[np.int64],
    *,
    seed: int,
    epochs: int,
    rate: float,
    first: int,
    mask: Matrix | None = None,
) -> None:
    """Adam in place. Layers before `first` stay as they are; the hidden layer keeps its `mask` (masked updates)."""
    rng = np.random.default_rng(seed)
    parameters = [net.w[i] for i in range(first, 3)] + [net.b[i] for i in range(first, 3)]
    mean = [np.zeros_like(p) for p in parameters]
    square = [np.zeros_like(p) for p in parameters]
    batches = -(-len(x) // BATCH)
    step, steps = 0, epochs * batches
    for _ in range(epochs):
        for chosen in np.array_split(rng.permutation(len(x)), batches):
            by_w, by_b = gradients(net, x[chosen], labels[chosen])
            if mask is not None:
                by_w[1] *= mask
            step += 1
            now = rate * 0.5 * (1.0 + np.cos(np.pi * step / steps))
            for i, g in enumerate(by_w[first:] + by_b[first:]):
                mean[i] += 0.1 * (g - mean[i])
                square[i] += 0.001 * (g * g - square[i])
                change = mean[i] / (1 - 0.9**step) / (np.sqrt(square[i] / (1 - 0.999**step)) + 1e-8)
                parameters[i] -= now * (change + DECAY * parameters[i])
            if mask is not None:
                net.w[1] *= mask


def magnitude_mask(w: Matrix, chunk: int, keep: int) -> Matrix:
    """1.0 where a weight stays: in each `chunk` neighbours of a row the `keep` largest magnitudes, the lower index on a
    tie."""
    parts = np.abs(w).reshape(w.shape[0], -1, chunk)
    order = np.argsort(-parts, axis=-1, kind="stable")[..., :keep]
    mask = np.zeros_like(parts)
    np.put_along_axis(mask, order, 1.0, axis=-1)
    return mask.reshape(w.shape)


def round_tf32(values: Matrix) -> NDArray[np.float32]:
    """To 10 fraction bits, nearest, ties away from zero, as `cvt.rna.tf32.f32` does."""
    bits = values.astype(np.float32).view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def round_f16(values: Matrix) -> Matrix:
    return values.astype(np.float16).astype(np.float64)


def initial(rng: np.random.Generator) -> Network:
    sizes = (64, HIDDEN, HIDDEN, 10)
    w = [rng.standard_normal((n, m)) * np.sqrt(2.0 / m) for m, n in pairwise(sizes)]
    w[0] /= 16.0  # pixels go up to 16
    return Network(w, [np.zeros(n) for n in sizes[1:]])


def pruned(dense: Network, x: Matrix, labels: NDArray[np.int64], chunk: int, keep: int) -> tuple[Network, Matrix]:
    """The network with a pruned hidden layer, trained on under its mask; not rounded yet."""
    net = dense.copy()
    mask = magnitude_mask(net.w[1], chunk, keep)
    net.w[1] *= mask
    train(net, x, labels, seed=SEED + chunk, epochs=EPOCHS_PRUNED, rate=RATE_PRUNED, first=1, mask=mask)
    return net, mask


def build() -> tuple[dict[str, NDArray[np.generic]], dict[str, NDArray[np.generic]]]:
    """Everything: (arrays of weights.npz, arrays of images.npz). Pixels stay integers 0..16; the network takes them as
    they are."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    digits = load_digits()
    x, x_test, y, y_test = train_test_split(
        digits.data, digits.target, test_size=TEST_IMAGES, random_state=SEED, stratify=digits.target
    )
    net = initial(np.random.default_rng(SEED))
    train(net, x, y, seed=SEED + 1, epochs=EPOCHS_DENSE, rate=RATE_DENSE, first=0)
    net.w[0] = round_f16(net.w[0])
    net.b[0] = round_f16(net.b[0])

    weights: dict[str, NDArray[np.generic]] = {
        "w1": net.w[0].astype(np.float16),
        "b1": net.b[0].astype(np.float16),
        "activation_max": np.float32(
            net.forward(x)[1].max()
        ),  # over the training images: what the 8-bit scales are set by
    }
    networks = {"dense": net}
    for name, chunk, keep in (("2of4", 4, 2), ("1of2", 2, 1)):
        networks[name], mask = pruned(net, x, y, chunk, keep)
        weights[f"mask_{name}"] = mask.astype(np.bool_)
    for name, each in networks.items():
        hidden = round_tf32(each.w[1]).astype(np.float64) if name == "1of2" else round_f16(each.w[1])
        stored = Network([each.w[0], hidden, round_f16(each.w[2])], [round_f16(b) for b in each.b])
        weights[f"w2_{name}"] = hidden.astype(np.float32 if name == "1of2" else np.float16)
        weights[f"w3_{name}"] = stored.w[2].astype(np.float16)
        weights[f"b2_{name}"], weights[f"b3_{name}"] = (b.astype(np.float16) for b in stored.b[1:])
        print(f"{name:5s} accuracy: training {stored.accuracy(x, y):.4f}, test {stored.accuracy(x_test, y_test):.4f}")
    images: dict[str, NDArray[np.generic]] = {"images": x_test.astype(np.uint8), "labels": y_test.astype(np.uint8)}
    return weights, images


def main() -> None:
    parser = argparse.ArgumentParser(description="train, prune and write weights.npz and images.npz")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent, help="folder to write to (default: beside this file)"
    )
    out: Path = parser.parse_args().out
    weights, images = build()
    np.savez_compressed(out / "weights.npz", **weights)
    np.savez_compressed(out / "images.npz", **images)


if __name__ == "__main__":
    main()
