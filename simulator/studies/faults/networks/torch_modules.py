"""Faults in a layer of a PyTorch module: `inject` for one fault while a block lasts, `TorchSubject` for campaigns.

A linear layer, or a convolution without groups, is computed by the chip's arithmetic in place of PyTorch's; all other
layers run as they are, on the device where they are. A convolution is the product of its weights, K in the order (row,
column, channel) as libraries of NHWC tensors have it, with the neighbourhood of every place.

PyTorch is imported when one of these is used, and arrays pass by DLPack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import MissingDependency, ViewError, did_you_mean
from simulator.faults.table import Faults
from simulator.studies.faults.networks.faults import checked, inverted
from simulator.studies.faults.networks.layer import SparseLayer, sparse_layer
from simulator.studies.faults.networks.sites import Running

Array = NDArray[Any]


def torch_package() -> Any:
    """PyTorch; MissingDependency where it is not installed."""
    try:
        import torch
    except ImportError:
        raise MissingDependency("torch", "a PyTorch module as a network", "torch") from None
    return torch


def to_array(tensor: Any) -> Array:
    """A tensor as float32 numbers."""
    return np.from_dlpack(tensor.detach().to("cpu", torch_package().float32).contiguous())


def to_tensor(array: Array, like: Any) -> Any:
    """Numbers as a tensor of the type and on the device of another."""
    return torch_package().from_dlpack(np.ascontiguousarray(array)).to(like.device, like.dtype)


def module_of(model: Any, layer: str) -> Any:
    """The layer of a name (as `model.named_modules()` has it); ViewError unless it is a linear layer or a convolution
    without groups, whose padding is zeros."""
    torch = torch_package()
    named = dict(model.named_modules())
    kinds = (torch.nn.Linear, torch.nn.Conv2d)
    if layer not in named:
        legal = ", ".join(name for name, module in named.items() if isinstance(module, kinds))
        raise ViewError(f"the module has no layer '{layer}'{did_you_mean(layer, named)}", legal)
    module = named[layer]
    if not isinstance(module, kinds):
        raise ViewError(f"layer '{layer}' is a {type(module).__name__}", "a Linear or Conv2d")
    if isinstance(module, torch.nn.Conv2d):
        plain = module.groups == 1 and module.padding_mode == "zeros" and not isinstance(module.padding, str)
        if not plain:
            raise ViewError(
                f"layer '{layer}': {module}", "a convolution of one group, zeros of a stated width around it"
            )
    return module


def weights_of(module: Any) -> tuple[Array, Array]:
    """Weights [output, input] and bias [output] of a layer."""
    weight = to_array(module.weight)
    if weight.ndim == 4:
        weight = weight.transpose(0, 2, 3, 1).reshape(len(weight), -1)
    return weight, np.zeros(len(weight), np.float32) if module.bias is None else to_array(module.bias)


def read_by(module: Any, x: Any) -> Array:
    """What the product of a layer reads of the layer's input: [image, place, input]."""
    if not hasattr(module, "kernel_size"):
        return to_array(x).reshape(len(x), -1, x.shape[-1])
    unfold = torch_package().nn.functional.unfold
    patches = to_array(unfold(x, module.kernel_size, module.dilation, module.padding, module.stride))
    images, _, places = patches.shape
    return patches.reshape(images, x.shape[1], -1, places).transpose(0, 3, 2, 1).reshape(images, places, -1)


def written_by(module: Any, outputs: Array, like: Any) -> Any:
    """Outputs [image, place, output] as the layer's output, shaped as another output of as many images."""
    if hasattr(module, "kernel_size"):
        outputs = outputs.transpose(0, 2, 1)
    return to_tensor(outputs.reshape(len(outputs), *like.shape[1:]), like)


@contextmanager
def inject(
    model: Any, layer: str, fault: Faults | None = None, *, type: str = "f16", largest_input: float = 0.0,
    target: str = "sm_90a", storage: str = "cusparselt", pruned: bool = True,
) -> Iterator[SparseLayer]:  # fmt: skip
    """While the block lasts, a layer of a module is computed as the chip does, with a fault.

    Args:
        model: a `torch.nn.Module`.
        layer: the layer's name, as in `model.named_modules()`.
        fault: one row of a list of faults, as `faults.one_fault` or `Campaign.draw` make it; None: no fault. `word` of
            activations and of D counts through the images of a call, K or outputs fastest; a call that has no such
            word is not struck.
        type, target, storage, pruned: as in `layer.sparse_layer`.
        largest_input: the largest absolute activation, which sets the scale of 8-bit types; 0: that of each call.

    Yields:
        The layer in storage.

    Raises:
        ViewError, IsaError: no such layer, weights that are not 2:4, a fault that the layer cannot have.
    """
    module = module_of(model, layer)
    weight, bias = weights_of(module)
    how: dict[str, Any] = {"type": type, "target": target, "storage": storage, "pruned": pruned}
    stored = sparse_layer(layer, weight, bias, largest_input=largest_input or 1.0, **how)
    site = None if fault is None else checked(stored, fault)

    def computed(_: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        x = read_by(module, inputs[0])
        now = stored if largest_input else stored.rescaled(float(np.abs(x).max()))
        b = now.operand(x)
        running = Running(now, b, now.product(b))
        d = running.d
        word = np.zeros(0, np.int64) if fault is None else fault["word"].reshape(-1).astype(np.int64)
        if fault is not None and site is not None and word[0] < site.words(running):
            invert = inverted(running, site, fault.reshape(-1))
            if not site.legal(running, word, invert).all():
                raise ViewError(f"the fault stops the chip: {layer}, {site.name}, word {word[0]}", "another selector")
            for changes in site.effect(running, word, invert):
                d[changes.row, changes.column] = changes.word
        return written_by(module, now.outputs(d).T.reshape(*x.shape[:2], now.rows), output)

    with _hooked(module, computed):
        yield stored


@contextmanager
def _hooked(module: Any, hook: Callable[..., Any]) -> Iterator[None]:
    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


class TorchSubject:
    """A PyTorch module that classifies, as a subject of campaigns.

    Args:
        model: a `torch.nn.Module` in evaluation mode, whose output is scores [image, class].
        images: its input, a tensor with an axis of images in front.
        labels: their classes, [image].
        name: for tables.

    Raises:
        ViewError: a module in training mode, whose output is not the same twice.
    """

    def __init__(self, model: Any, images: Any, labels: Any, name: str = "") -> None:
        if model.training:
            raise ViewError("the module is in training mode", "model.eval()")
        self.model, self.images = model, images
        self.labels = np.asarray(labels.tolist() if hasattr(labels, "tolist") else labels, np.int64)
        self.name = name or type(model).__name__
        self._inputs: dict[str, Array] = {}

    def weights(self, layer: str) -> tuple[Array, Array]:
        """As in `Subject`."""
        return weights_of(module_of(self.model, layer))

    def inputs(self, layer: str) -> Array:
        """As in `Subject`."""
        if layer not in self._inputs:
            module, read = module_of(self.model, layer), []

            def listen(_: Any, inputs: tuple[Any, ...], __: Any) -> None:
                read.append(read_by(module, inputs[0]))

            with torch_package().no_grad(), _hooked(module, listen):
                self.model(self.images)
            if len(read) != 1 or len(read[0]) != len(self.labels):
                reason = f"layer '{layer}' ran {len(read)} times for {len(self.labels)} images"
                raise ViewError(reason, "a layer that runs once, with the axis of images in front")
            self._inputs[layer] = read[0]
        return self._inputs[layer]

    def largest(self, layer: str) -> float:
        """As in `Subject`: the largest of these images."""
        return float(np.abs(self.inputs(layer)).max())

    def scores(self, layer: str, images: NDArray[np.int64], outputs: Array) -> Array:
        """As in `Subject`."""
        torch, module = torch_package(), module_of(self.model, layer)
        index = torch.tensor(images.tolist(), device=self.images.device)
        with torch.no_grad(), _hooked(module, lambda _, __, output: written_by(module, outputs, output)):
            return to_array(self.model(self.images[index]))
