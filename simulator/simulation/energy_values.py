"""How active the operands of matrix instructions are: 0 for zeros, 1 for independent normal numbers.

Measured on an H100 (measurements/energy), seven instructions with 14 to 25 contents each agree on what costs: a
tensor core takes the elements of an operand one after the other, and pays for the bits in which A, or B, changes from
one to the next, for the bits of the partial products of the significands that change, and for products that are not
zero. That instructions repeat or change their operands matters little (6 %). The weights of the four are in the
config's `[energy]`.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits, ElementType, element_type
from simulator.arithmetic.convert import from_float64
from simulator.chip.config import Config
from simulator.errors import ConfigError

Features = tuple[float, float, float, float]
_REFERENCE = 8192  # normal numbers


def activity(config: Config, type: str | ElementType, a: Bits, b: Bits) -> float:
    """The activity of two operands.

    Args:
        config: a config with `[energy]`.
        type: of the elements: "f16", "bf16", "tf32", "s8", ...
        a, b: bits of the elements of A (of a sparse A those that are stored) and of B, any shape.

    Returns:
        Between 0 and about 1.2: random bits change more than normal numbers do.

    Raises:
        ConfigError: a config without `[energy]`.
    """
    if config.energy is None:
        raise ConfigError(config.path, "energy", f"{config.name} has no energies", "a config with [energy]")
    kind = element_type(type)
    own, random = _features(kind, a, b), _random(kind)
    parts = [one / other for one, other in zip(own, random, strict=True)]
    return float(np.dot(config.energy.weights, parts))


@lru_cache(maxsize=32)
def _random(kind: ElementType) -> Features:
    """What normal numbers have; integers a quarter of the largest as standard deviation, as they were measured."""
    rng = np.random.default_rng(0)
    scale = 1.0 if kind.is_float else (2 ** (kind.bits - 1) - 1) / 4
    a, b = (from_float64(rng.standard_normal(_REFERENCE) * scale, kind, satfinite=True) for _ in "ab")
    return _features(kind, a, b)


def _features(kind: ElementType, a: Bits, b: Bits) -> Features:
    """Bits in which two elements of A differ, the same of B, bits in which two partial products differ, and the part
    of products that are not zero."""
    a, b = (np.asarray(x).reshape(-1).astype(np.uint32) >> np.uint32(kind.padding) for x in (a, b))
    set_a, set_b = _set(a, kind.bits - kind.padding), _set(b, kind.bits - kind.padding)
    partial = np.outer(_significand(kind, a, set_a), _significand(kind, b, set_b))
    magnitude = np.uint32((1 << (kind.bits - kind.padding - 1)) - 1)
    full = [np.mean((x & magnitude if kind.is_float else x) != 0) for x in (a, b)]
    return _changing(set_a), _changing(set_b), _changing(partial), float(full[0] * full[1])


def _set(elements: Bits, bits: int) -> NDArray[np.float64]:
    """For each bit, the part of the elements that have it."""
    shifts = np.arange(bits, dtype=np.uint32)
    return np.asarray(((elements[:, None] >> shifts) & np.uint32(1)).mean(0), np.float64)


def _changing(part: NDArray[np.float64]) -> float:
    """Bits that differ between two independent patterns whose bits are set in these parts of them."""
    return float((2 * part * (1 - part)).sum())


def _significand(kind: ElementType, elements: Bits, part: NDArray[np.float64]) -> NDArray[np.float64]:
    """For each bit of the significand, the leading one last, the part of the elements that have it."""
    if not kind.is_float:
        return part
    fraction = kind.fraction
    leading = np.mean((elements & np.uint32((1 << (len(part) - 1)) - 1)) != 0)
    return np.append(part[:fraction], leading)
