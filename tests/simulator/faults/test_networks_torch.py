"""Faults in layers of PyTorch modules: skipped where PyTorch is not installed."""

from __future__ import annotations

import doctest
import re
from typing import Any

import numpy as np
import pytest

from simulator.errors import ViewError
from simulator.studies.faults.networks import NETWORKS, NumpySubject, campaign, digit_images, network
from simulator.studies.faults.networks.faults import one_fault
from simulator.studies.faults.networks.torch_modules import TorchSubject, inject, to_array
from simulator.studies.faults.networks.torch_networks import torch_network
from tests.support.paths import ROOT

torch = pytest.importorskip("torch")
IMAGES = digit_images(32)


@pytest.mark.parametrize("name", NETWORKS)
def test_modules_are_the_networks_in_numpy(name: str) -> None:
    """The same scores, and of every fault the same elements and classes."""
    model, x = torch_network(name), torch.from_dlpack(IMAGES.images)
    with torch.no_grad():
        assert np.abs(to_array(model(x)) - network(name).scores(IMAGES.images)).max() < 1e-4
    layer = NETWORKS[name].sparse[0]
    one = campaign(NumpySubject(network(name), *IMAGES), layer)
    other = campaign(TorchSubject(model, x, IMAGES.labels), layer)
    for site in ("values", "metadata", "activations", "selector", "d"):
        faults = one.draw(site, 20, seed=1).faults
        results, again = one.run(site, faults), other.run(site, faults)
        for field in ("outcome", "classes", "correct"):
            assert (results[field] == again[field]).all(), (site, field)
        if site != "selector":  # which may stop the chip
            with torch.no_grad(), inject(model, layer, faults[3:4]):
                classes = to_array(model(x)).argmax(axis=1)
            assert (classes != one.classes).sum() == results["classes"][3]


def test_the_hook_goes_with_its_block() -> None:
    model, x = torch_network("digits_mlp"), torch.from_dlpack(IMAGES.images)
    with torch.no_grad():
        before = to_array(model(x))
        with inject(model, "fc2", one_fault("values", 5, bit=14)):
            assert np.abs(to_array(model(x)) - before).max() > 1
        with pytest.raises(RuntimeError), inject(model, "fc2", one_fault("values", 5, bit=14)):
            model(torch.zeros(1, 3))  # which is no image
        assert (to_array(model(x)) == before).all()
        with inject(model, "fc2", type="bf16") as layer:
            assert layer.kind.name == "bf16"
            assert 1e-6 < np.abs(to_array(model(x)) - before).max() < 0.5


def test_convolutions_of_any_shape_are_pytorchs_own() -> None:
    generator = np.random.default_rng(0)
    model = torch.nn.Sequential()
    model.add_module("conv", torch.nn.Conv2d(4, 16, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2)))
    x = torch.from_dlpack(generator.standard_normal((3, 4, 9, 8)).astype(np.float32))
    weight = model.conv.weight.detach().permute(0, 2, 3, 1).reshape(16, -1, 4)
    weight = (weight * torch.tensor([1.0, 0.0, 1.0, 0.0])).reshape(16, 3, 2, 4).permute(0, 3, 1, 2)
    with torch.no_grad():
        model.conv.weight.copy_(weight)
        expected = model(x)
        with inject(model, "conv", type="f16"):
            assert (model(x) - expected).abs().max() < 1e-2
            assert model(x).shape == expected.shape


def test_what_is_refused() -> None:
    model: Any = torch_network("digits_mlp")
    with pytest.raises(ViewError, match="did you mean 'fc1'"), inject(model, "fc11"):
        pass
    with pytest.raises(ViewError, match="ReLU"), inject(model, "relu1"):
        pass
    with pytest.raises(ViewError, match="0 to 8,191"), inject(model, "fc2", one_fault("values", 8192)):
        pass
    with pytest.raises(ViewError, match="eval"):
        TorchSubject(model.train(), torch.zeros(1, 64), [0])


def test_the_example_of_the_page_runs() -> None:
    (block,) = re.findall(r"```py\n(.*?)```", (ROOT / "docs" / "faults_networks.md").read_text(), re.DOTALL)
    parsed = doctest.DocTestParser().get_doctest(block, {}, "faults_networks", "faults_networks.md", 0)
    assert parsed.examples
    assert doctest.DocTestRunner(verbose=False).run(parsed).failed == 0
