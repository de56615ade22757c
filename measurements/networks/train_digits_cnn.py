"""Trains the convolutional network that ships as `digits_cnn`, prunes two of its layers 2:4, and writes its weights.

    python -m measurements.networks.train_digits_cnn

8 x 8 pixels -> conv1 (3 x 3, 16 channels) -> conv2 (3 x 3, 32 channels, 2:4) -> 2 x 2 maximum -> fc1 (64, 2:4) -> fc2
(10 digits), ReLU between them. A convolution is a linear layer over neighbourhoods, whose inputs are in the order
(row, column, channel).
"""

from __future__ import annotations

from measurements.networks.gradients import Array, Value, max_pooled, relu, reshaped, unfolded
from measurements.networks.training import Parameters, build, layer

SHAPES = {
    "conv1.weight": (16, 9), "conv1.bias": (16,), "conv2.weight": (32, 144), "conv2.bias": (32,),
    "fc1.weight": (64, 512), "fc1.bias": (64,), "fc2.weight": (10, 64), "fc2.bias": (10,),
}  # fmt: skip


def forward(p: Parameters, images: Array) -> Value:
    """Scores [image, digit] of images [image, 64]."""
    x = relu(layer(p, "conv1", unfolded(Value(images.reshape(-1, 8, 8, 1)), 3)))
    x = max_pooled(relu(layer(p, "conv2", unfolded(x, 3))))
    return layer(p, "fc2", relu(layer(p, "fc1", reshaped(x, (len(images), 512)))))


if __name__ == "__main__":
    build("digits_cnn", forward, SHAPES, ("conv2", "fc1"), epochs=30)
