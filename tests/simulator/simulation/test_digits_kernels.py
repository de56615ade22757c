"""The digits layer as CUDA kernels of three generations: the same digits, and the bits of the traces."""

from __future__ import annotations

import numpy as np

import simulator
from simulator.applications import digits_tcgen05
from simulator.applications.digits import stored_arrays
from simulator.applications.digits_kernels import GENERATIONS, run
from simulator.applications.digits_plan import PLANS, layer_results
from simulator.applications.digits_tcgen05 import TMEM_PLANS
from tests.support.cases import over


def words(d: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(d).view(np.uint32)


@over("name", GENERATIONS)
def test_each_generation_reads_the_same_digits_and_meets_nothing_undefined(name: str) -> None:
    layer = run(name)
    assert layer.correct == 376  # of 384, as the traces: traces/digits/README.md
    assert (layer.digits == run("ampere").digits).all()
    assert not layer.report.undefined


def test_ampere_and_blackwell_have_the_bits_of_their_traces() -> None:
    """The traces have other instructions around the same products: the order along K is all that they share."""
    plan, tmem = PLANS["f16"], TMEM_PLANS["f16_tcgen05"]
    arrays = stored_arrays(simulator.run("digits/f16", config=None).arrays, plan)
    assert (words(run("ampere").d) == layer_results(plan, arrays[0], arrays[-1])).all()
    stored = simulator.run("digits/f16_tcgen05", config=None).arrays[tmem.d_key]
    assert (words(run("blackwell").d) == digits_tcgen05.results(tmem, stored)[0]).all()


@over("name", ["hopper", "blackwell"])
def test_copies_and_products_that_complete_late_change_nothing(name: str) -> None:
    layer = run(name, completion="latest")
    assert (words(layer.d) == words(run(name).d)).all()
