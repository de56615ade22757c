"""Networks as lists of steps in numpy: linear layers, and functions between them.

Every value has a name and an axis of images in front. A convolution is a linear layer over neighbourhoods (`unfold` of
`functions`). What lies behind a layer can be computed alone, from other outputs of that layer: this is how a fault in
one layer reaches the classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import ViewError, did_you_mean

Array = NDArray[Any]
Values = dict[str, Array]


@dataclass(frozen=True, eq=False)
class Linear:
    """A layer `source @ weight.T + bias`.

    Attributes:
        name: the layer's name.
        source, result: the names of the values that it reads, [image, ..., input], and writes, [image, ..., output].
        weight: float32 [output, input].
        bias: float32 [output].
    """

    name: str
    source: str
    result: str
    weight: NDArray[np.float32]
    bias: NDArray[np.float32]

    @property
    def sources(self) -> tuple[str, ...]:
        """The value that it reads."""
        return (self.source,)

    def compute(self, x: Array) -> Array:
        """The layer in float32."""
        return np.asarray(x @ self.weight.T + self.bias, np.float32)


@dataclass(frozen=True, eq=False)
class Apply:
    """A function of values that a network has computed: `result = function(*sources)`, image by image."""

    function: Callable[..., Array]
    sources: tuple[str, ...]
    result: str

    def compute(self, *values: Array) -> Array:
        """The function's result."""
        return self.function(*values)


Step = Linear | Apply


@dataclass(frozen=True, eq=False)
class Network:
    """A network that classifies: the value "x" goes in, the last step writes scores [image, class].

    Attributes:
        name: its name.
        steps: what is computed, in order.
        largest: for each linear layer by name the largest absolute number that it read on the training images: what the
            scales of 8-bit types are set by. Layers that are not there are calibrated on the images of a study.
    """

    name: str
    steps: Sequence[Step]
    largest: Mapping[str, float]

    @cached_property
    def layers(self) -> dict[str, int]:
        """The index of the step of each linear layer, by its name."""
        return {step.name: i for i, step in enumerate(self.steps) if isinstance(step, Linear)}

    def layer(self, name: str) -> Linear:
        """A linear layer; ViewError for a name that no layer has."""
        if name not in self.layers:
            legal = ", ".join(self.layers)
            raise ViewError(f"network {self.name} has no layer '{name}'{did_you_mean(name, self.layers)}", legal)
        step = self.steps[self.layers[name]]
        assert isinstance(step, Linear), "as `layers` says"
        return step

    def values(self, images: Array) -> Values:
        """Every value of the network for images [image, ...], float32."""
        found: Values = {"x": np.asarray(images, np.float32)}
        for step in self.steps:
            found[step.result] = step.compute(*(found[name] for name in step.sources))
        return found

    def scores(self, images: Array) -> Array:
        """Scores [image, class]."""
        return self.values(images)[self.steps[-1].result]

    def needed(self, layer: str) -> tuple[str, ...]:
        """The values that the steps behind a layer read, and that none of them writes; the layer's own is not one."""
        written, read = {self.layer(layer).result}, []
        for step in self.steps[self.layers[layer] + 1 :]:
            read += [name for name in step.sources if name not in written and name not in read]
            written.add(step.result)
        return tuple(read)

    def after(self, layer: str, outputs: Array, beside: Mapping[str, Array]) -> Array:
        """Scores [image, class], from outputs of a layer [image, ..., output] and the values that `needed` names."""
        step = self.layer(layer)
        found = {**beside, step.result: outputs}
        last = step.result
        with np.errstate(all="ignore"):  # faults make infinities and NaN
            for later in self.steps[self.layers[layer] + 1 :]:
                found[later.result] = later.compute(*(found[name] for name in later.sources))
                last = later.result
        return found[last]
