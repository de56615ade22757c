"""Random operands: patterns of an element type drawn from a distribution, and scale factors near one."""

from __future__ import annotations

import numpy as np

from isa.fragments.metadata import Sparsity
from isa.fragments.sparsity import compress, prune
from isa.types import Bits, ElementType
from simulator.arithmetic.convert import from_float64, largest, to_float64
from simulator.arithmetic.formats import integers

DISTRIBUTIONS = {
    "normal": "normal, mean 0, standard deviation `scale`",
    "uniform": "uniform between -scale and scale",
    "positive": "uniform between 0 and scale",
    "lognormal": "scale times e to a standard normal number: positive, and far apart",
    "bits": "every finite pattern of the type alike",
}
_ONE = {"ue8m0": 127, "ue4m3": 0x38}  # the pattern of 1 in the types of scale factors


def draw(
    rng: np.random.Generator, shape: tuple[int, ...], element: ElementType, distribution: str, scale: float
) -> Bits:
    """Draws patterns from one of `DISTRIBUTIONS`. Numbers are rounded to nearest even; those that are too large become
    the largest finite number."""
    if distribution == "bits":
        field = rng.integers(0, (largest(element) >> element.padding) + 1, shape, dtype=np.uint32) << np.uint32(
            element.padding
        )
        return field | rng.integers(0, 2, shape, dtype=np.uint32) << np.uint32(element.sign_bit)
    if distribution == "normal":
        numbers = rng.standard_normal(shape)
    elif distribution == "lognormal":
        numbers = np.exp(rng.standard_normal(shape))
    else:
        numbers = rng.random(shape)
        if distribution == "uniform":
            numbers = 2 * numbers - 1
    return from_float64(numbers * scale, element, satfinite=True)


def random_patterns(rng: np.random.Generator, shape: tuple[int, ...], element: ElementType) -> Bits:
    """Draws patterns of any type. Floats are normally distributed; integers take every pattern with equal probability,
    those of 32 bits the values -1000 to 999."""
    if element.is_float:
        return draw(rng, shape, element, "normal", 1.0)
    if element.bits == 32:
        return rng.integers(-1000, 1000, shape).astype(np.int32).view(np.uint32)
    return rng.integers(0, 1 << element.bits, shape, dtype=np.uint32)


def random_sparse(
    rng: np.random.Generator, shape: tuple[int, int], element: ElementType, sparsity: Sparsity
) -> tuple[Bits, Bits]:
    """Draws a matrix and prunes it by magnitude; returns the stored elements and the metadata codes [row, chunk]."""
    a = random_patterns(rng, shape, element)
    numbers = to_float64(a, element) if element.is_float else integers(a, element)
    return compress(a, sparsity, element, prune(numbers, sparsity))


def random_scales(rng: np.random.Generator, shape: tuple[int, ...], element: str) -> Bits:
    """Draws scale factors near one, whose patterns are within 3 of it."""
    return (_ONE[element] + rng.integers(-3, 4, shape)).astype(np.uint32)
