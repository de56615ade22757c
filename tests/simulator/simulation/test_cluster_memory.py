"""CTAs of a cluster that use one another's shared memory: what `tests/ptx/clusters.cu` computes, what goes wrong."""

from __future__ import annotations

import numpy as np
import pytest

import simulator
from isa.descriptors.tensor_map import TensorMap
from simulator.simulation.launch.errors import LaunchError
from tests.support.paths import ROOT

MODULE = simulator.Module(ROOT / "tests" / "ptx" / "clusters.ptx")


def test_loads_and_atomics_of_all_ctas_agree() -> None:
    given = np.random.default_rng(1).integers(-1000, 1000, (12, 64), dtype=np.int32)
    out = np.zeros_like(given)
    MODULE.get_function("sums")(12, 64, (given, out))
    assert (out == np.repeat(given.reshape(3, 4, 64).sum(axis=1), 4, axis=0)).all()


def test_a_cluster_along_y_is_together() -> None:
    given = np.random.default_rng(2).integers(-1000, 1000, (24, 64), dtype=np.int32)
    out = np.zeros_like(given)
    text = (
        (ROOT / "tests" / "ptx" / "clusters.ptx")
        .read_text()
        .replace(".reqnctapercluster 4, 1, 1", ".reqnctapercluster 1, 4, 1")
    )
    text = text.replace("%ctaid.x", "%ctaid.y", 1)
    simulator.Module(text).get_function("sums")((1, 24), 64, (given, out))
    assert (out == np.repeat(given.reshape(6, 4, 64).sum(axis=1), 4, axis=0)).all()


def test_a_token_goes_round_by_remote_mbarriers() -> None:
    out = np.zeros(16, np.int32)
    MODULE.get_function("ring")(16, 32, (out, np.int32(3)))
    first = [36 * 3, *(36 * 2 + np.cumsum(range(1, 8))).tolist()]
    assert out.tolist() == first * 2


def test_addresses_have_the_rank_of_their_cta() -> None:
    out = np.zeros((2, 2, 4), np.int32)
    MODULE.get_function("places")(2, 32, (out,))
    assert out[..., 0].tolist() == [[0, 1], [0, 1]]
    assert out[..., 1].tolist() == [[1, 0], [0, 1]]
    assert (out[..., 2] == 1).all()
    assert out[..., 3].tolist() == [[0, 0], [1, 1]]


@pytest.mark.parametrize(
    ("which", "reason"),
    [
        (0, "in shared memory of CTA 1 of the cluster"),
        (1, "an access to shared memory of CTA 1 of the cluster, which has exited"),
        (2, "deadlock: barrier.cluster lacks the arrival of 32 threads of the cluster"),
    ],
)
def test_what_goes_wrong_is_named(which: int, reason: str) -> None:
    with pytest.raises(LaunchError, match=reason):
        MODULE.get_function("wrong")(2, 32, (np.zeros(1, np.int32), np.int32(which)))


def test_each_cta_brings_half_of_a_box_to_both() -> None:
    data = np.arange(32 * 32, dtype=np.int32).reshape(32, 32)
    out = np.zeros((4, 16, 32), np.int32)
    tensor = TensorMap("s32", size=(32, 32), stride_bytes=(128,), box=(32, 8))
    MODULE.get_function("multicast")(4, 32, ((tensor, data), out))
    assert (out[:2] == data[:16]).all()
    assert (out[2:] == data[16:]).all()
