"""What a study of faults needs of a network: what a layer reads, and the classes for other outputs of that layer."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from simulator.studies.faults.networks.description import Network

Array = NDArray[Any]


class Subject(Protocol):
    """A network with the images on which it is judged."""

    name: str
    labels: NDArray[np.int64]

    def weights(self, layer: str) -> tuple[Array, Array]:
        """Weights [output, input] and bias [output] of a layer."""

    def inputs(self, layer: str) -> Array:
        """What the layer reads on all images: [image, place, input]."""

    def largest(self, layer: str) -> float:
        """The largest absolute input that the scale of 8-bit types is set by."""

    def scores(self, layer: str, images: NDArray[np.int64], outputs: Array) -> Array:
        """Scores [case, class] for outputs [case, place, output] of the layer, each with the image of that number."""


class NumpySubject:
    """A network of `description.Network` as a subject.

    Args:
        network: the network.
        images: its images, [image, ...].
        labels: their classes, [image].
    """

    def __init__(self, network: Network, images: Array, labels: NDArray[np.int64]) -> None:
        self.network, self.name, self.labels = network, network.name, labels
        self.values = network.values(images)
        self._shapes = {step.name: self.values[step.result].shape for step in network.steps if hasattr(step, "name")}

    def weights(self, layer: str) -> tuple[Array, Array]:
        """As in `Subject`."""
        step = self.network.layer(layer)
        return step.weight, step.bias

    def inputs(self, layer: str) -> Array:
        """As in `Subject`."""
        x = self.values[self.network.layer(layer).source]
        return x.reshape(len(x), -1, x.shape[-1])

    def largest(self, layer: str) -> float:
        """As in `Subject`; without numbers of training images, the largest of these images."""
        return self.network.largest.get(layer) or float(np.abs(self.inputs(layer)).max())

    def scores(self, layer: str, images: NDArray[np.int64], outputs: Array) -> Array:
        """As in `Subject`."""
        beside = {name: self.values[name][images] for name in self.network.needed(layer)}
        return self.network.after(layer, outputs.reshape(len(outputs), *self._shapes[layer][1:]), beside)
