"""The neural network that reads handwritten digits. The traces of traces/digits compute its hidden layer; this module
goes on from what such a trace stored to the digits that the network predicts.

It undoes layout and scales, and applies ReLU and the last layer. The pair of CTAs of f16_tcgen05_pair runs the layers
of two networks; their scores are added.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.applications import digits_tcgen05 as tcgen05_plan
from simulator.applications.digits_plan import HERE, LANES, PLANS, WARPS, Floats, Plan, layer_results, values
from simulator.applications.digits_tcgen05 import TMEM_PLANS, TmemPlan

EVERY: dict[str, Plan | TmemPlan] = {**PLANS, **TMEM_PLANS}
Wanted = dict[str, tuple[type[np.unsignedinteger[Any]], tuple[int, ...]]]


class BadInputError(ValueError):
    """The outputs are not those of one of the digits traces."""


def stored_arrays(outputs: Mapping[str, NDArray[Any]], plan: Plan | TmemPlan) -> list[NDArray[Any]]:
    """The arrays that the trace stores, after checking that they are there with the right type and shape."""
    expected: Wanted
    if isinstance(plan, TmemPlan):
        expected = {plan.d_key: (np.uint32, plan.stored_shape)}
    else:
        expected = {plan.d_key: (np.uint8, (plan.d_bytes,))}
        if plan.head:
            expected[plan.head_key] = (np.uint32, (WARPS, plan.head_registers, LANES))
    arrays = []
    for key, (dtype, shape) in expected.items():
        if key not in outputs:
            raise BadInputError(f"there is no array '{key}'; {plan.name}.trace stores {' and '.join(expected)}")
        array = np.asarray(outputs[key])
        if array.dtype != dtype or array.shape != shape:
            raise BadInputError(
                f"'{key}' is {array.dtype} {list(array.shape)}, expected {np.dtype(dtype)} {list(shape)}"
            )
        arrays.append(np.ascontiguousarray(array))
    return arrays


def simulated_layers(
    plan: Plan | TmemPlan, arrays: list[NDArray[Any]], data: Mapping[str, NDArray[Any]]
) -> list[Floats]:
    """The layer that a trace computed (both layers for a pair), from what it stored and its data file: float32 [128,
    images]."""
    scale = data["w_scale"][:, None] * data["x_scale"]
    if isinstance(plan, TmemPlan):
        return [layer * scale for layer in tcgen05_plan.layer_values(plan, tcgen05_plan.results(plan, arrays[0]))]
    return [values(layer_results(plan, arrays[0], arrays[-1]), plan.form.d_type) * scale]


def scores(layer: Floats, w3: NDArray[Any], b3: NDArray[Any]) -> Floats:
    """ReLU and the last layer: from [128, images] to scores [images, 10]."""
    return np.maximum(layer, 0).T @ w3.astype(np.float32).T + b3.astype(np.float32)


def last_layer(network: str, layer: Floats, weights: Mapping[str, NDArray[Any]]) -> Floats:
    """The scores [images, 10] of a network. The network that is pruned 4:8 has the last layer of the dense one."""
    end = "dense" if network == "4of8" else network
    return scores(layer, weights[f"w3_{end}"], weights[f"b3_{end}"])


class Classifier:
    """Predicts digits from the outputs of one trace. What stays the same between runs is read once, for use with many
    outputs as in a fault campaign.

    Attributes:
        plan: the plan of the trace.
        labels: the digits that the images show, [images].
    """

    def __init__(self, type: str, folder: Path = HERE) -> None:
        """Reads the weights and labels; `type`, `folder` and errors as in `finish`."""
        if type not in EVERY:
            raise BadInputError(f"unknown type '{type}'; known are {', '.join(EVERY)}")
        self.plan = EVERY[type]
        self.data, self.weights, images = (_contents(folder / f"{name}.npz") for name in (type, "weights", "images"))
        self.images, self.labels = (
            images["images"][: self.plan.images].astype(np.float32),
            images["labels"][: self.plan.images],
        )

    def digits(self, outputs: Mapping[str, NDArray[Any]]) -> NDArray[np.intp]:
        """The predicted digit of each image; BadInputError for an array that is missing or has the wrong type or
        shape."""
        layers = simulated_layers(self.plan, stored_arrays(outputs, self.plan), self.data)
        return self.of_layers(layers)

    def of_layers(self, layers: list[Floats]) -> NDArray[np.intp]:
        """The predicted digit of each image from the layer of each network."""
        networks = self.plan.networks if isinstance(self.plan, TmemPlan) else (self.plan.network,)
        each = [last_layer(network, layer, self.weights) for network, layer in zip(networks, layers, strict=True)]
        digits: NDArray[np.intp] = np.sum(each, axis=0).argmax(axis=1)
        return digits


def _contents(path: Path) -> dict[str, NDArray[Any]]:
    with np.load(path) as file:
        return dict(file)


def plan_that_stores(names: Collection[str]) -> str | None:
    """The name of the one trace that stores arrays of these names; None if no trace does, or several do."""
    matching = [name for name, plan in EVERY.items() if plan.d_key in names]
    return matching[0] if len(matching) == 1 else None
