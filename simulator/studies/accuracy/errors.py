"""Statistics of the errors of results, measured against the correctly rounded exact results."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits, ElementType
from simulator.arithmetic.convert import to_float64
from simulator.arithmetic.deviation import deviation

PERCENTILES = (50.0, 95.0, 99.0, 99.9)

Reals = NDArray[np.float64]
Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Mean:
    """A mean, and its standard error (None where there are too few samples to say)."""

    value: float
    error: float | None


@dataclass(frozen=True)
class Worst:
    """The result with the largest error in ulp.

    Attributes:
        place: the numbers of row and column, and of the matrix if there are several.
        result, exact: the patterns of the result and of the exact result.
        result_value, exact_value: the numbers that these patterns stand for.
        ulp: the error, signed as in `Errors`.
        a, b: the patterns of the row of A and the column of B [K].
    """

    place: dict[str, int]
    result: int
    exact: int
    result_value: float
    exact_value: float
    ulp: float
    a: tuple[int, ...]
    b: tuple[int, ...]


@dataclass(frozen=True)
class Errors:
    """What a way of adding does to many results.

    An error is (result - exact) / ulp(exact), where the exact result is rounded correctly and its ulp is the distance
    between numbers of the type in its binade. Its sign is turned by that of the exact result: negative errors are
    toward zero.

    Attributes:
        count: results.
        nan: results whose exact one is NaN, so that nothing is right or wrong.
        right: share of the others that equal the exact one (zeros alike); None if there are no others.
        toward_zero: share of the measured that are nearer to zero than the exact one, or beyond it; without bias half
            of those that are not right.
        measured: results with an error; left out are those where either is infinite or NaN, and those of an exact zero
            that are not zero.
        special: results where either is infinite or NaN; `special_wrong` those of them that differ.
        zero_wrong: results that are not zero although the exact one is.
        mean, largest: of the error's magnitude, in ulp.
        percentiles: of the same, by their percentage ("99.9"): the smallest that so many errors do not exceed.
        bias: mean of the signed error, in ulp.
        relative_bias: mean of the signed error relative to |exact|.
        backward_mean, backward_largest: of |result - exact| / sum |a||b|.
        backward_bias: mean of the signed error relative to sum |a||b|; unlike the other two, no few results that cancel
            decide it.
        relative_error, sqnr_db, largest_error: of all results together, in which one near zero that is many ulp off
            weighs little; see `simulator.arithmetic.deviation.Deviation`.
        histogram: how many magnitudes are 0, up to 1, above 1 up to 2, above 2 up to 4, ... ulp; as long as it needs to
            be.
    """

    count: int
    nan: int
    right: float | None
    toward_zero: float | None
    measured: int
    special: int
    special_wrong: int
    zero_wrong: int
    mean: float | None
    largest: float | None
    percentiles: dict[str, float]
    bias: Mean | None
    relative_bias: Mean | None
    backward_mean: float | None
    backward_largest: float | None
    backward_bias: Mean | None
    relative_error: float | None
    sqnr_db: float | None
    largest_error: float | None
    histogram: tuple[int, ...]

    def to_dict(self) -> dict[str, Any]:
        """The statistics as plain values, ready for JSON."""
        return asdict(self) | {"histogram": list(self.histogram)}


def edges(bins: int) -> list[int]:
    """The upper bounds of a histogram's bins in ulp, each included in its bin: 0, 1, 2, 4, 8, ..."""
    return [0, *(1 << i for i in range(bins - 1))][:bins]


def ulp_errors(result: Bits, exact: Bits, element: ElementType) -> tuple[Reals, Mask]:
    """The signed errors of patterns in ulp [n], and where they are defined."""
    d, r = to_float64(result, element), to_float64(exact, element)
    with np.errstate(invalid="ignore", over="ignore"):
        difference = (d - r) * np.where(np.signbit(r), -1.0, 1.0)
        defined = np.isfinite(d) & np.isfinite(r) & ((r != 0) | (d == 0))
        exponent = np.frexp(np.where(np.isfinite(r), r, 0.0))[1] - 1
        exponent = np.where(r == 0, 1 - element.bias, np.maximum(exponent, 1 - element.bias))
        errors = np.ldexp(difference, element.fraction - exponent)
    return np.where(defined, errors, 0.0), defined


def worst_of(result: Bits, exact: Bits, element: ElementType) -> tuple[int, float]:
    """The index and signed error in ulp of the first result with the largest error; an error of 0 if there is none."""
    ulp, _ = ulp_errors(result, exact, element)
    index = int(np.argmax(np.abs(ulp)))
    return index, float(ulp[index])


def summarise(result: Bits, exact: Bits, element: ElementType, sizes: Reals, rows: Indices, columns: Indices) -> Errors:
    """Statistics of patterns [n] against the exact ones.

    Args:
        result, exact: the patterns.
        element: their type.
        sizes: the sum of |a||b| of each result.
        rows, columns: the numbers of the row of A and the column of B of each result; results that share one are not
            independent.
    """
    ulp, defined = ulp_errors(result, exact, element)
    d, r = to_float64(result, element), to_float64(exact, element)
    same = (d == r) | (np.isnan(d) & np.isnan(r))
    finite = np.isfinite(d) & np.isfinite(r)
    error, size = ulp[defined], np.abs(ulp[defined])
    nonzero = defined & (r != 0)
    relative = (d[nonzero] - r[nonzero]) / r[nonzero]
    backward_of = finite & (sizes > 0) & np.isfinite(sizes)
    backward = (d[backward_of] - r[backward_of]) * np.where(np.signbit(r[backward_of]), -1.0, 1.0) / sizes[backward_of]
    bounds, together = np.abs(backward), deviation(d, r)
    ranked = np.quantile(size, np.array(PERCENTILES) / 100, method="inverted_cdf") if len(size) else np.empty(0)
    return Errors(
        count=len(ulp),
        nan=int(np.count_nonzero(np.isnan(r))),
        right=float(np.mean(same[~np.isnan(r)])) if not np.isnan(r).all() else None,
        toward_zero=float(np.mean(error < 0)) if len(size) else None,
        measured=len(size),
        special=int(np.count_nonzero(~finite)),
        special_wrong=int(np.count_nonzero(~finite & ~same)),
        zero_wrong=int(np.count_nonzero(finite & (r == 0) & (d != 0))),
        mean=float(size.mean()) if len(size) else None,
        largest=float(size.max()) if len(size) else None,
        percentiles={f"{p:g}": float(value) for p, value in zip(PERCENTILES, ranked, strict=bool(len(size)))},
        bias=mean_of(error, rows[defined], columns[defined]),
        relative_bias=mean_of(relative, rows[nonzero], columns[nonzero]),
        backward_mean=float(bounds.mean()) if len(bounds) else None,
        backward_largest=float(bounds.max()) if len(bounds) else None,
        backward_bias=mean_of(backward, rows[backward_of], columns[backward_of]),
        relative_error=together.relative,
        sqnr_db=together.sqnr_db,
        largest_error=together.largest if together.elements else None,
        histogram=_histogram(size),
    )


def _histogram(size: Reals) -> tuple[int, ...]:
    """Counts of magnitudes [n] by bin; see `Errors.histogram`."""
    if not len(size):
        return ()
    fraction, exponent = np.frexp(size)  # 2^(exponent - 1) <= size < 2^exponent
    up = np.where(fraction == 0.5, exponent - 1, exponent)  # the power of two that is not below it
    return tuple(np.bincount(np.where(size == 0, 0, np.maximum(up, 0) + 1).astype(np.intp, copy=False)).tolist())


def mean_of(values: Reals, rows: Indices, columns: Indices) -> Mean | None:
    """The mean of values [n] and its standard error where values of one row, or of one column, are correlated.

    The variance of the mean is that of sums over rows plus that of sums over columns less that of single values, which
    both contain (Cameron, Gelbach and Miller 2011), and not less than that of single values alone.
    """
    count = len(values)
    if not count:
        return None
    mean = float(values.mean())
    rest = values - mean
    if count < 2:
        return Mean(mean, None)
    alone = _clustered(rest, np.arange(count))
    both = _clustered(rest, rows) + _clustered(rest, columns) - alone
    return Mean(mean, float(np.sqrt(max(both, alone))) / count)


def _clustered(rest: Reals, cluster: Indices) -> float:
    """The variance of the sum of `rest`, whose mean is 0, if only values of different clusters are independent; 0 if
    there is one cluster."""
    groups, member = np.unique(cluster, return_inverse=True)
    sums = np.bincount(member, rest)
    return float(sums @ sums) * len(groups) / (len(groups) - 1) if len(groups) > 1 else 0.0
