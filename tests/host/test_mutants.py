"""What the mutation score rests on: products that are computed apart from the simulator."""

from __future__ import annotations

import numpy as np
import pytest

from isa.fragments.metadata import FOUR_OF_EIGHT, TWO_OF_FOUR, Sparsity
from isa.types import ELEMENT_TYPES, SCALE_TYPES
from simulator.arithmetic import Operands, Sum, add
from simulator.arithmetic.convert import from_float64, to_float64
from tests.host.mutants.state import products


@pytest.mark.parametrize(
    ("element", "sparsity", "scale", "factors"),
    [("f16", TWO_OF_FOUR, "", 0), ("e4m3", TWO_OF_FOUR, "ue8m0", 1), ("e2m1", FOUR_OF_EIGHT, "ue4m3", 4)],
)
def test_products_are_the_exact_sums(element: str, sparsity: Sparsity, scale: str, factors: int) -> None:
    """For every code, defined or not: the plain multiplexer that an H100 was measured to be."""
    draw, m, n, k = np.random.default_rng(1), 16, 8, 128
    kind, f32 = ELEMENT_TYPES[element], ELEMENT_TYPES["f32"]
    scales = SCALE_TYPES[scale] if scale else None
    how = Sum(m, n, k, kind, kind, f32, f32, None, sparsity, scale_type=scales, factors=factors)
    a, b = (from_float64(draw.integers(-3, 4, shape).astype(float), kind) for shape in ((1, m, k // 2), (1, k, n)))
    c = from_float64(draw.integers(-9, 9, (1, m, n)).astype(float), f32)
    codes = draw.integers(0, 16, (1, m, k // sparsity.chunk)).astype(np.uint32)
    given = Operands(a, b, c, codes)
    if scales is not None:
        pair = (from_float64(2.0 ** draw.integers(0, 3, (1, size, factors)), scales) for size in (m, n))
        given = Operands(a, b, c, codes, *pair)
    assert np.array_equal(products(how, given), to_float64(add(how, given), f32))
