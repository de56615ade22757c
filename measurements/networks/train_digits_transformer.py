"""Trains the transformer that ships as `digits_transformer`, prunes its linear layers 2:4, and writes its weights.

    python -m measurements.networks.train_digits_transformer

An image is a sequence of its 8 rows of 8 pixels. Two blocks of width 64 (layer norm, 4 heads of attention, layer norm,
128 hidden units with GELU), then the mean over the sequence and 10 digits. The four linear layers of each block are
2:4.
"""

from __future__ import annotations

from measurements.networks.gradients import (
    Array,
    Value,
    add,
    gelu,
    layer_norm,
    matmul,
    mean,
    part,
    reshaped,
    scaled,
    softmax,
)
from measurements.networks.training import Parameters, build, layer

ROWS, WIDTH, HEADS, HIDDEN, BLOCKS = 8, 64, 4, 128, 2
SPARSE = tuple(f"block{i}.{name}" for i in range(BLOCKS) for name in ("qkv", "proj", "ff1", "ff2"))


def shapes() -> dict[str, tuple[int, ...]]:
    """The shape of every parameter."""
    found: dict[str, tuple[int, ...]] = {
        "embed.weight": (WIDTH, ROWS), "embed.bias": (WIDTH,), "position": (ROWS, WIDTH),
    }  # fmt: skip
    for i in range(BLOCKS):
        for name, outputs, inputs in (
            ("qkv", 3 * WIDTH, WIDTH), ("proj", WIDTH, WIDTH), ("ff1", HIDDEN, WIDTH), ("ff2", WIDTH, HIDDEN),
        ):  # fmt: skip
            found |= {f"block{i}.{name}.weight": (outputs, inputs), f"block{i}.{name}.bias": (outputs,)}
        for name in ("norm1", "norm2"):
            found |= {f"block{i}.{name}.gain": (WIDTH,), f"block{i}.{name}.bias": (WIDTH,)}
    return found | {"norm.gain": (WIDTH,), "norm.bias": (WIDTH,), "head.weight": (10, WIDTH), "head.bias": (10,)}


def forward(p: Parameters, images: Array) -> Value:
    """Scores [image, digit] of images [image, 64]."""

    def norm(name: str, x: Value) -> Value:
        return layer_norm(x, p[f"{name}.gain"], p[f"{name}.bias"])

    count = len(images)
    x = add(layer(p, "embed", Value(images.reshape(count, ROWS, 8))), p["position"])
    for i in range(BLOCKS):
        block = f"block{i}"
        qkv = layer(p, f"{block}.qkv", norm(f"{block}.norm1", x))
        q, k, v = (
            reshaped(
                part(qkv, (..., slice(j * WIDTH, (j + 1) * WIDTH))), (count, ROWS, HEADS, WIDTH // HEADS), (0, 2, 1, 3)
            )
            for j in range(3)
        )
        share = softmax(scaled(matmul(q, reshaped(k, k.data.shape, (0, 1, 3, 2))), (WIDTH // HEADS) ** -0.5))
        mixed = reshaped(matmul(share, v), v.data.shape, (0, 2, 1, 3))
        x = add(x, layer(p, f"{block}.proj", reshaped(mixed, (count, ROWS, WIDTH))))
        x = add(x, layer(p, f"{block}.ff2", gelu(layer(p, f"{block}.ff1", norm(f"{block}.norm2", x)))))
    return layer(p, "head", mean(norm("norm", x), 1))


if __name__ == "__main__":
    build("digits_transformer", forward, shapes(), SPARSE, epochs=60)
