"""Products through compressed operands."""

from __future__ import annotations

import numpy as np
import pytest

from isa.sparsity.storage import compress, mask
from isa.types import element_type
from simulator.arithmetic.compressed import multiply
from simulator.arithmetic.exact_gemm import exact_gemm
from simulator.arithmetic.product import product

F16 = element_type("f16")


def _operands(pattern: str, rows: int = 24, k: int = 96, n: int = 5) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(7)
    a = generator.standard_normal((rows, k)).astype(np.float16)
    return np.where(mask(a, pattern), a, np.float16(0)), generator.standard_normal((k, n)).astype(np.float16)


def _words(array: np.ndarray) -> np.ndarray:
    return array.view(f"u{array.itemsize}").astype(np.uint32)


@pytest.mark.parametrize("pattern", ["2:4", "1:4", "4:8", "2:8", "8:2:8", "4:8/2:4", "u0.1"])
def test_exact_product_is_the_dense_one(pattern: str) -> None:
    """Through the compressed operand, against the exact dense product of the pruned matrix (another algorithm)."""
    a, b = _operands(pattern)
    d = multiply(compress(_words(a), pattern, F16), _words(b), target="sm_90a", type="f16", arithmetic="exact")
    np.testing.assert_array_equal(d, _words(exact_gemm(a, b)))
    chip = multiply(compress(_words(a), pattern, F16), _words(b), target="sm_90a", type="f16").view(np.float32)
    np.testing.assert_allclose(chip, exact_gemm(a, b), rtol=1e-3, atol=1e-4)


def test_chip_product_of_2_to_4_is_that_of_mma_sp() -> None:
    """The gathered sum adds in the order of the H100's sparse instruction, bit for bit."""
    a, b = _operands("2:4", rows=16, k=96, n=8)
    stored = compress(_words(a), "2:4", F16)
    ours = multiply(stored, _words(b), target="sm_90a", type="f16")
    d = np.zeros((1, 16, 8), np.uint32)
    for start in range(0, 96, 32):
        assert stored.codes is not None
        d = product(
            stored.values[None, :, start // 2 : start // 2 + 16], _words(b)[None, start : start + 32], d, family="mma",
            target="sm_90a", a_type="f16", b_type="f16", d_type="f32",
            codes=stored.codes[None, :, start // 4 : start // 4 + 8],
        )  # fmt: skip
    np.testing.assert_array_equal(ours, d[0])
