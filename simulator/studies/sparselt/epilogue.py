"""What cuSPARSELt does with the accumulators before it writes D: alpha, beta, C, bias, activation, conversion.

Measured with cuSPARSELt 0.8 on an NVIDIA H100 in November 2026; every step below gives every recorded result bit for
bit. fma rounds once.

* f16, bf16, f32 and s8 inputs: fma(alpha, acc, beta * C) + bias; without C, fma(alpha, acc, bias). All in f32.
* e4m3 and e5m2 inputs: fma(beta, C, fma(alpha, acc, bias)); without bias, fma(beta, C, alpha * acc). All in f32.
* compute 16F: all in f16, alpha and beta too: fma(beta, C, alpha * acc) + bias; without C, fma(alpha, acc, bias).
* ReLU: x > threshold ? min(x, upper bound) : x * 0, so that a negative x gives -0, and x equal to the threshold 0.
  Compute 16F: +0 instead of x * 0, and the comparison is always made: without ReLU its threshold is minus infinity,
  which makes minus infinity +0.
* GELU: h = x / 2; u = 0.797885 * (x + 0.044715 * x^3); fma(h, tanh.approx(u), h) * scaling, in f32.
* D: to nearest even; f16 and bf16 overflow to infinity; 8-bit floats and integers saturate, NaN becomes 0 in integers.

C is not read where beta is 0. A number for beta beside a vector for alpha counts as 0.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from isa.types import ELEMENT_TYPES, Bits
from simulator.arithmetic.convert import from_float64
from simulator.arithmetic.exact_gemm.rounding import to_odd, two_sum
from simulator.arithmetic.formats import canonical_nan
from simulator.arithmetic.threads import spread
from simulator.studies.sparselt.tanh import tanh_approx

Singles = NDArray[np.float32]
Reals = NDArray[np.float64]

ACTIVATIONS = (None, "relu", "gelu")
_GELU_FACTOR, _GELU_CUBE = 0.797885, 0.044715  # of the kernels: sqrt(2 / pi) = 0.7978846 gives other results
_ZERO = np.zeros(1, np.float32)
_WORK = 64  # products that an element of the epilogue is worth, for the choice of threads


@dataclass(frozen=True)
class Epilogue:
    """What happens to the accumulators.

    Attributes:
        alpha, beta: numbers, or vectors [m] (float32 values).
        c: [..., m, n], values; None where it is not read.
        bias: [..., m, 1], values; None without.
        activation: None, "relu" or "gelu".
        upper, threshold: of ReLU.
        scaling: of GELU.
        d_scale: multiplies the result before it is converted.
        half: all in f16 (compute 16F).
        narrow: the order of steps that 8-bit float inputs have.
    """

    alpha: Singles
    beta: Singles
    c: Singles | None = None
    bias: Singles | None = None
    activation: str | None = None
    upper: float = float("inf")
    threshold: float = 0.0
    scaling: float = 1.0
    half: bool = False
    narrow: bool = False
    d_scale: float = 1.0

    @property
    def idle(self) -> bool:
        """Whether D is the accumulators, converted."""
        return (
            self.alpha.size == 1
            and self.alpha.item() == 1
            and self.c is None
            and self.bias is None
            and not self.activation
            and self.d_scale == 1
        )

    def rows(self, part: slice) -> Epilogue:
        """Of some rows of D."""
        c, bias = (None if x is None else x[..., part, :] for x in (self.c, self.bias))
        alpha, beta = (x[part] if x.size > 1 else x for x in (self.alpha, self.beta))
        return replace(self, alpha=alpha, beta=beta, c=c, bias=bias)


def finish(accumulators: Singles, epilogue: Epilogue, d_type: str) -> Bits:
    """D, patterns [..., m, n], as the library writes it.

    Args:
        accumulators: [..., m, n], values of f32 (of f16 for compute 16F), s32 sums already rounded to f32.
    """
    d = np.empty(accumulators.shape, np.uint32)

    def part(rows: slice) -> None:
        d[..., rows, :] = to_type(_chip(accumulators[..., rows, :], epilogue.rows(rows)), d_type)

    m = accumulators.shape[-2]
    spread(m, accumulators.size // max(m, 1) * _WORK, part)
    return d


def finish_exactly(sums: Reals, epilogue: Epilogue, d_type: str) -> Bits:
    """The same in float64, with the true hyperbolic tangent, rounded once to D: patterns [..., m, n].

    Args:
        sums: [..., m, n], the exact sums (rounded to float64).
    """
    d = np.empty(sums.shape, np.uint32)

    def part(rows: slice) -> None:
        d[..., rows, :] = to_type(_exact(sums[..., rows, :], epilogue.rows(rows)), d_type)

    m = sums.shape[-2]
    spread(m, sums.size // max(m, 1) * _WORK, part)
    return d


def finish_numbers(sums: Reals, epilogue: Epilogue) -> Reals:
    """The same, not rounded to D."""
    return _exact(sums, epilogue)


def _column(x: Singles) -> Singles:
    """A number as it is, a vector [m] as [m, 1]."""
    return x.reshape(-1, 1) if x.size > 1 else x.reshape(())


def _chip(acc: Singles, e: Epilogue) -> Singles:
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        if e.half:
            return _clamped_half(_linear_half(acc, e), e)
        x = _linear(acc, e)
        if e.activation == "relu":
            x = np.where(x > np.float32(e.threshold), np.minimum(x, np.float32(e.upper)), x * np.float32(0))
        elif e.activation == "gelu":
            x = gelu(x) * np.float32(e.scaling)
        return x if e.d_scale == 1 else x * np.float32(e.d_scale)


def _linear(acc: Singles, e: Epilogue) -> Singles:
    alpha, beta = _column(e.alpha), _column(e.beta)
    if e.c is None:
        return _fma(alpha, acc, _ZERO if e.bias is None else e.bias)
    if e.narrow:
        return _fma(beta, e.c, alpha * acc if e.bias is None else _fma(alpha, acc, e.bias))
    sum_ = _fma(alpha, acc, beta * e.c)
    return sum_ if e.bias is None else sum_ + e.bias


def _linear_half(acc: Singles, e: Epilogue) -> Singles:
    alpha, beta = _to_half(_column(e.alpha)), _to_half(_column(e.beta))
    if e.c is None:
        return _to_half(_fma_odd(alpha, acc, _ZERO if e.bias is None else e.bias))
    sum_ = _to_half(_fma_odd(beta, e.c, _to_half(alpha.astype(np.float64) * acc)))
    return sum_ if e.bias is None else _to_half(sum_.astype(np.float64) + e.bias)


def _clamped_half(x: Singles, e: Epilogue) -> Singles:
    relu = e.activation == "relu"
    threshold, upper = (e.threshold, e.upper) if relu else (-np.inf, np.inf)
    low, high = _to_half(np.array(threshold)), _to_half(np.array(upper))
    return np.where(x <= low, np.float32(0), np.where(x > high, high, x))


def _fma_odd(a: Singles, b: Singles, c: Singles) -> Reals:
    """a * b + c in float64, its last bit set where it is not exact, so that one more rounding is the only one."""
    total, rest = two_sum(a.astype(np.float64) * b, np.asarray(c, np.float64))
    return np.where(
        np.isfinite(total) & np.isfinite(rest), to_odd(total, np.where(np.isfinite(rest), rest, 0.0)), total
    )


def _fma(a: Singles, b: Singles, c: Singles) -> Singles:
    return _fma_odd(a, b, c).astype(np.float32)


def _to_half(x: Reals | Singles) -> Singles:
    """Rounded to f16, kept as float32."""
    return np.asarray(x).astype(np.float16).astype(np.float32)


def gelu(x: Singles) -> Singles:
    """The library's GELU of float32 numbers, before the scaling."""
    half = np.float32(0.5) * x
    argument = np.float32(_GELU_FACTOR) * (x + np.float32(_GELU_CUBE) * x * x * x)
    return _fma(half, tanh_approx(argument), half)


def _exact(sums: Reals, e: Epilogue) -> Reals:
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        x: Reals = _column(e.alpha).astype(np.float64) * sums
        x = x if e.c is None else x + _column(e.beta).astype(np.float64) * e.c
        x = x if e.bias is None else x + e.bias
        if e.activation == "relu":
            x = np.where(x > e.threshold, np.minimum(x, e.upper), np.where(np.isnan(x), x, 0.0))
        elif e.activation == "gelu":
            argument = np.sqrt(2 / np.pi) * (x + _GELU_CUBE * x**3)
            x = 0.5 * x * (1 + np.tanh(argument)) * np.float64(np.float32(e.scaling))
        return x * np.float64(e.d_scale)


def to_type(x: Singles | Reals, name: str) -> Bits:
    """Numbers to patterns of D, uint32, rounded once."""
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        if name in ("f16", "f32"):
            kind, word = (np.float16, np.uint16) if name == "f16" else (np.float32, np.uint32)
            found = x.astype(kind)
            patterns = found.view(word).astype(np.uint32)
            return np.where(np.isnan(found), np.uint32(canonical_nan(ELEMENT_TYPES[name])), patterns)
        if name in ("s8", "s32"):
            bits = ELEMENT_TYPES[name].bits
            whole = np.clip(
                np.rint(np.nan_to_num(x.astype(np.float64), nan=0.0)), -(2.0 ** (bits - 1)), 2.0 ** (bits - 1) - 1
            )
            return (whole.astype(np.int64) & ELEMENT_TYPES[name].mask).astype(np.uint32)
        found = from_float64(x.astype(np.float64), name, satfinite=ELEMENT_TYPES[name].bits == 8)
        return found >> np.uint32(2) if name == "e2m1" else found
