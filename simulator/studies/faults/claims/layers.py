"""The layers that published claims are tried on: of the three networks that come with tcsim."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from simulator.studies.faults.networks import NumpySubject, digit_images, network
from simulator.studies.faults.networks.injection import Campaign, campaign

LAYERS = (
    ("digits_mlp", "fc2"),
    ("digits_cnn", "conv2"),
    ("digits_cnn", "fc1"),
    ("digits_transformer", "block0.qkv"),
    ("digits_transformer", "block1.ff2"),
)
"""digits_mlp fc2 is the layer of the traces of traces/digits."""


def campaigns(types: Sequence[str], images: int = 0, target: str = "sm_90a") -> Iterator[tuple[str, Campaign]]:
    """A campaign for each layer and type, with "network layer" for tables. Errors as in `injection.campaign`."""
    given = digit_images(images)
    for name, layer in LAYERS:
        subject = NumpySubject(network(name), given.images, given.labels)
        for type in types:
            yield f"{name} {layer}", campaign(subject, layer, type=type, target=target)
