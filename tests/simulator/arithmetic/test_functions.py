"""The approximate functions of f32, on arguments of all sizes, against an H200."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.arithmetic import functions
from tests.support.paths import GOLDEN

CASES = GOLDEN / "functions_h200.npz"
ONE = {
    "rcp": functions.reciprocal,
    "rsqrt": functions.reciprocal_root,
    "sqrt": functions.root,
    "ex2": functions.power_of_two,
}


def _numbers(words: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return words.view(np.float32).astype(np.float64)


@pytest.mark.parametrize("name", [*ONE, "div.full", "div.approx"])
def test_the_bits_of_the_chip(name: str) -> None:
    """8,192 random patterns and numbers of ordinary size; the same for the divisor. Each result is the chip's."""
    with np.load(CASES) as cases:
        x, y, wanted = cases["x"], cases["y"], cases[name]
    given = ONE[name](_numbers(x)) if name in ONE else functions.quotient(_numbers(x), _numbers(y), name == "div.full")
    assert len(x) == 8192
    assert np.array_equal(given, wanted)


def test_special_values() -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0])
    nan = 0x7FFFFFFF
    assert functions.reciprocal(x).tolist() == [0x7F800000, 0xFF800000, 0, 0x80000000, nan, 0xBF800000]
    assert functions.root(x).tolist() == [0, 0x80000000, 0x7F800000, nan, nan, nan]
    assert functions.reciprocal_root(x).tolist() == [0x7F800000, 0xFF800000, 0, nan, nan, nan]
    assert functions.power_of_two(x).tolist() == [0x3F800000, 0x3F800000, 0x7F800000, 0, nan, 0x3F000000]
