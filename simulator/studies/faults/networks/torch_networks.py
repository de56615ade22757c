"""The networks that come with tcsim as PyTorch modules, layer by layer under the same names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from simulator.studies.faults.networks.description import Network
from simulator.studies.faults.networks.functions import EPSILON
from simulator.studies.faults.networks.shipped import BLOCKS, HEADS, network, parameters
from simulator.studies.faults.networks.torch_modules import torch_package


def torch_network(name: str) -> Any:
    """A network of `shipped.NETWORKS` as a `torch.nn.Module` in evaluation mode: images float32 [image, 64] -> scores.

    Raises:
        ViewError: no such network.
        MissingDependency: PyTorch is not installed.
    """
    described = network(name)
    torch = torch_package()
    model = _MAKERS[name](torch)
    with torch.no_grad():
        for layer in described.layers:
            _fill(torch, model.get_submodule(layer), described, layer)
        _fill_others(torch, model, name)
    return model.eval()


def _fill(torch: Any, module: Any, described: Network, name: str) -> None:
    """The weights of a layer; those of a convolution have their inputs in another order."""
    layer = described.layer(name)
    weight = layer.weight
    if module.weight.ndim == 4:
        high, wide = module.kernel_size
        weight = weight.reshape(len(weight), high, wide, -1).transpose(0, 3, 1, 2)
    for given, to in ((weight, module.weight), (layer.bias, module.bias)):
        to.copy_(torch.from_dlpack(np.ascontiguousarray(given)))


def _fill_others(torch: Any, model: Any, name: str) -> None:
    """Parameters of what is no linear layer: norms and positions."""
    for key, to in model.named_parameters():
        given = key.replace("norm1.weight", "norm1.gain").replace("norm2.weight", "norm2.gain")
        given = given.replace("norm.weight", "norm.gain")
        if "norm" in key or key == "position":
            to.copy_(torch.from_dlpack(np.ascontiguousarray(parameters(name)[given])))


def _mlp(torch: Any) -> Any:
    nn = torch.nn
    steps = [("fc1", nn.Linear(64, 128)), ("relu1", nn.ReLU()), ("fc2", nn.Linear(128, 128)), ("relu2", nn.ReLU())]
    model = nn.Sequential()
    for name, module in [*steps, ("fc3", nn.Linear(128, 10))]:
        model.add_module(name, module)
    return model


def _cnn(torch: Any) -> Any:
    nn = torch.nn

    class DigitsCnn(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
            self.fc1, self.fc2 = nn.Linear(512, 64), nn.Linear(64, 10)

        def forward(self, x: Any) -> Any:
            x = torch.relu(self.conv2(torch.relu(self.conv1(x.reshape(-1, 1, 8, 8)))))
            x = nn.functional.max_pool2d(x, 2).permute(0, 2, 3, 1).flatten(1)
            return self.fc2(torch.relu(self.fc1(x)))

    return DigitsCnn()


def _transformer(torch: Any) -> Any:
    nn, width, hidden = torch.nn, 64, 128

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width, EPSILON), nn.LayerNorm(width, EPSILON)
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.ff1, self.ff2 = nn.Linear(width, hidden), nn.Linear(hidden, width)

        def forward(self, x: Any) -> Any:
            images, places, _ = x.shape
            q, k, v = self.qkv(self.norm1(x)).reshape(images, places, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            share = torch.softmax(q @ k.transpose(-1, -2) * (width // HEADS) ** -0.5, -1)
            x = x + self.proj((share @ v).transpose(1, 2).reshape(images, places, width))
            return x + self.ff2(nn.functional.gelu(self.ff1(self.norm2(x)), approximate="tanh"))

    class DigitsTransformer(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.head = nn.Linear(8, width), nn.Linear(width, 10)
            self.position, self.norm = nn.Parameter(torch.zeros(8, width)), nn.LayerNorm(width, EPSILON)
            for i in range(BLOCKS):
                self.add_module(f"block{i}", Block())

        def forward(self, x: Any) -> Any:
            x = self.embed(x.reshape(-1, 8, 8)) + self.position
            for i in range(BLOCKS):
                x = self.get_submodule(f"block{i}")(x)
            return self.head(self.norm(x).mean(1))

    return DigitsTransformer()


_MAKERS: dict[str, Callable[[Any], Any]] = {
    "digits_mlp": _mlp, "digits_cnn": _cnn, "digits_transformer": _transformer,
}  # fmt: skip
