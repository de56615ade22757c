"""Finish the classification from the stored output of a simulated hidden layer.

    python traces/digits/classify.py OUT.npz [--type f16]

Undoes layout and scales, applies ReLU and the last layer, and prints the accuracy beside that of the dense network and
of numpy (float32) on the same pruned, rounded operands. `finish(outputs, type)` does the same from Python. Needs numpy
and tcsim. Exit code 2: the input is not usable.

The pair of CTAs of f16_tcgen05_pair runs the layers of two networks; their scores are added.
"""

from __future__ import annotations

import argparse
import sys
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

sys.path.append(str(Path(__file__).resolve().parents[2]))  # a checkout that is not installed

from simulator.applications import digits_tcgen05 as tcgen05_plan
from simulator.applications.digits import (
    EVERY,
    BadInputError,
    Classifier,
    last_layer,
    scores,
    simulated_layers,
    stored_arrays,
)
from simulator.applications.digits_plan import HERE, SIZE, Floats, Plan, dense_weights, swizzle, values
from simulator.applications.digits_tcgen05 import TmemPlan


class Layer(NamedTuple):
    """The outputs of the hidden layer of one network, as simulated and by numpy on the same operands, float32 [128,
    images]."""

    network: str
    simulated: Floats
    numpy: Floats


def layers_of(plan: Plan | TmemPlan, arrays: list[NDArray[Any]], data: Mapping[str, NDArray[Any]]) -> list[Layer]:
    """The same beside numpy's."""
    scale = data["w_scale"][:, None] * data["x_scale"]
    simulated = simulated_layers(plan, arrays, data)
    if isinstance(plan, TmemPlan):
        x, bias = tcgen05_plan.inputs(plan, data), tcgen05_plan.biases(plan, data)
        by_numpy = [
            (tcgen05_plan.dense_weights(plan, data, cta) @ x.T + bias[cta][:, None]) * scale
            for cta in range(plan.group)
        ]
        return [Layer(*each) for each in zip(plan.networks, simulated, by_numpy, strict=True)]
    w = values(dense_weights(plan, data["w"], data["e"]), plan.element)
    x = values(swizzle(data["x"]).astype(np.uint32), plan.element)
    return [Layer(plan.network, simulated[0], (w @ x.T + data["bias"].astype(np.float32)[:, None]) * scale)]


def finish(outputs: Mapping[str, NDArray[Any]], type: str, folder: Path = HERE) -> dict[str, Any]:
    """Classify.

    Args:
        outputs: what the trace stores, by name (`d_f16`: uint8 [bytes], `head_f16`: uint32 [8, registers, 32]).
        type: name of the trace, a key of `EVERY`: "f16", "bf16", "tf32", "s8", "e4m3", "f16_tcgen05" ...
        folder: where the data files lie.

    Returns:
        images, correct, accuracy (simulated), accuracy_numpy (same operands, float32), accuracy_dense (unpruned
        network, float32; all three on the same images), different (images whose predicted digit is not numpy's),
        largest_difference (of the layer's outputs, in its own units), layer (float32 [128, images], of a pair [256,
        images]), digits (predicted, [images]), networks (accuracy of each network alone, by name).

    Raises:
        BadInputError: unknown type, an array is missing or has the wrong type or shape.
    """
    known = Classifier(type, folder)
    plan, weights, images, labels = known.plan, known.weights, known.images, known.labels
    layers = layers_of(plan, stored_arrays(outputs, plan), known.data)
    simulated = [last_layer(each.network, each.simulated, weights) for each in layers]
    digits, digits_numpy = (
        known.of_layers([each.simulated for each in layers]),
        known.of_layers([each.numpy for each in layers]),
    )
    first = np.maximum(images @ weights["w1"].astype(np.float32).T + weights["b1"].astype(np.float32), 0)
    second = weights["w2_dense"].astype(np.float32) @ first.T + weights["b2_dense"].astype(np.float32)[:, None]
    digits_dense = scores(second, weights["w3_dense"], weights["b3_dense"]).argmax(axis=1)
    return {
        "type": type,
        "images": plan.images,
        "correct": int(np.sum(digits == labels)),
        "accuracy": float(np.mean(digits == labels)),
        "accuracy_numpy": float(np.mean(digits_numpy == labels)),
        "accuracy_dense": float(np.mean(digits_dense == labels)),
        "different": int(np.sum(digits != digits_numpy)),
        "largest_difference": max(float(np.abs(each.simulated - each.numpy).max()) for each in layers),
        "layer": np.concatenate([each.simulated for each in layers]),
        "digits": digits,
        "networks": {
            each.network: float(np.mean(s.argmax(axis=1) == labels)) for each, s in zip(layers, simulated, strict=True)
        },
    }


def read(path: Path, type: str | None) -> tuple[dict[str, NDArray[Any]], str]:
    """The arrays of the file and the type: the given one, or the only one whose arrays are there."""
    try:
        if not zipfile.is_zipfile(path) and path.stat():
            raise BadInputError("it is not an .npz file")
        with np.load(path) as file:
            outputs = dict(file)
    except FileNotFoundError:
        raise BadInputError("there is no such file") from None
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, BadInputError):
            raise
        raise BadInputError(
            f"it cannot be read ({str(error).splitlines()[0] if str(error) else 'it ends too early'})"
        ) from None
    if type is not None:
        return outputs, type
    found = [plan.name for plan in EVERY.values() if plan.d_key in outputs]
    if len(found) != 1:
        keys = ", ".join(plan.d_key for plan in EVERY.values())
        raise BadInputError(
            f"it holds {'outputs of several traces: say which with --type' if found else f'none of {keys}'}"
        )
    return outputs, found[0]


def report(result: Mapping[str, Any]) -> str:
    """What the program prints."""
    different, networks = result["different"], result["networks"]
    each = (
        [f"  accuracy, {name} alone           {accuracy:.4f}" for name, accuracy in networks.items()]
        if len(networks) > 1
        else []
    )
    return "\n".join(
        [
            f"{result['type']}: {result['images']} test images, layer {SIZE} x {SIZE} pruned"
            + ", two networks" * bool(each),
            f"  accuracy, simulated           {result['accuracy']:.4f}  ({result['correct']} right)",
            *each,
            f"  accuracy, numpy, same layer   {result['accuracy_numpy']:.4f}",
            f"  accuracy, dense network       {result['accuracy_dense']:.4f}",
            f"  predictions other than numpy's  {different}",
            f"  largest difference of the layer's outputs  {result['largest_difference']:.3g}",
        ]
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="finish the classification from the stored output of a digits trace")
    parser.add_argument(
        "outputs", type=Path, metavar="OUT.npz", help="what `tcsim run traces/digits/TYPE.trace --output OUT.npz` wrote"
    )
    parser.add_argument("--type", choices=EVERY, help="which trace it was (default: told by the names of the arrays)")
    given = parser.parse_args(arguments)
    try:
        outputs, type = read(given.outputs, given.type)
        result = finish(outputs, type)
    except BadInputError as error:
        print(f"classify.py: {given.outputs}: {error}", file=sys.stderr)
        return 2
    print(report(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
