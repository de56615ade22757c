"""Faults in a layer of a network whose weights are 2:4: from a bit of storage to the classes.

>>> from simulator.studies.faults.networks import NumpySubject, campaign, network, digit_images
>>> images, labels = digit_images(64)
>>> one = campaign(NumpySubject(network("digits_cnn"), images, labels), "fc1", type="f16")
>>> drawn = one.draw("metadata", 100, seed=1)
>>> results = one.run("metadata", drawn.faults)
>>> drawn.population, len(results), results.dtype.names[:3]
(32768, 100, ('id', 'outcome', 'elements'))

A module of PyTorch takes the place of the network: `torch_modules.TorchSubject`, and `torch_modules.inject` for one
fault. docs/faults_networks.md has the whole story.
"""

from simulator.studies.faults.networks.description import Apply, Linear, Network
from simulator.studies.faults.networks.injection import Campaign, campaign, results_frame
from simulator.studies.faults.networks.layer import SparseLayer, sparse_layer
from simulator.studies.faults.networks.losses import Asked, Group, study
from simulator.studies.faults.networks.shipped import NETWORKS, digit_images, network
from simulator.studies.faults.networks.subject import NumpySubject, Subject

__all__ = [
    "NETWORKS",
    "Apply",
    "Asked",
    "Campaign",
    "Group",
    "Linear",
    "Network",
    "NumpySubject",
    "SparseLayer",
    "Subject",
    "campaign",
    "digit_images",
    "network",
    "results_frame",
    "sparse_layer",
    "study",
]
