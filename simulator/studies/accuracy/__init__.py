"""Shows what tensor-core arithmetic does to one's numbers: the errors of chips' sums, and of plain f32, measured
against the exact result.

>>> from simulator.studies.accuracy import accuracy
>>> result = accuracy("e4m3", k=4096, targets="sm_90, sm_90:wgmma", distribution="positive", count=1000)
>>> [(line.name, line.errors.bias.value < 0) for line in result.lines[:2]]
[('sm_90 mma', True), ('sm_90 wgmma', True)]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isa.arguments import integer, unmasked
from isa.errors import IsaError
from isa.types import Bits
from simulator.arithmetic import SumRule
from simulator.arithmetic.convert import to_float64
from simulator.arithmetic.random_operands import DISTRIBUTIONS
from simulator.floating_point import guarded
from simulator.studies.accuracy.chips import INPUTS, RESULTS, Chip, Problem, chips, make_problem
from simulator.studies.accuracy.errors import Errors, Mean, Worst, summarise, worst_of
from simulator.studies.accuracy.operands import MOST, MOST_K, Drawn, Given, Indices, Reals, given
from simulator.studies.accuracy.result import Accuracy, Line
from simulator.studies.accuracy.sums import chip_sum, exact_sum, f32_sums, magnitudes

__all__ = ["DISTRIBUTIONS", "INPUTS", "RESULTS", "Accuracy", "Errors", "Line", "Mean", "Worst", "accuracy"]

COUNT, COUNT_GIVEN, K = 10_000, 100_000, 4096  # unless told otherwise

REFERENCES = (
    ("f32 FMA chain", "fused multiply-adds of f32 one after the other, to nearest even"),
    ("f32 pairwise", "f32 products added in pairs, to nearest even"),
)

Arithmetic = tuple[SumRule, int]


@guarded
def accuracy(
    type: str,
    k: int | None = None,
    *,
    b_type: str | None = None,
    targets: str | Sequence[str] | None = None,
    result: str = "f32",
    sparse: bool = False,
    distribution: str = "normal",
    scale: float = 1.0,
    count: int | None = None,
    seed: int = 0,
    a: ArrayLike | None = None,
    b: ArrayLike | None = None,
) -> Accuracy:
    """Compares the sums of chips with the correctly rounded exact result.

    A dot product longer than an instruction's K is a chain of instructions, each of which adds to the accumulator that
    the one before rounded, as the main loop of a matrix product does.

    Args:
        type: of the elements of A, and of B unless `b_type` says otherwise; one of `INPUTS`.
        k: products in each dot product (4096); of given operands it is theirs.
        targets: e.g. "sm_89, sm_90:wgmma, sm_100:tcgen05" or a sequence of such; without a family it is `mma`. None:
            all that have the types.
        result: accumulator type, "f32" or "f16".
        sparse: A is pruned by magnitude (2:4; tf32 1:2), and the `.sp` instructions multiply it.
        distribution, scale, seed: of drawn operands, see `DISTRIBUTIONS`.
        count: results (10,000); of given operands at most so many (100,000).
        a, b: operands [M, K] and [K, N]: floats are rounded to the type to nearest even, unsigned integers are its
            patterns.

    Raises:
        IsaError: unknown type, target, family or distribution; a chip that lacks the instruction; operands that do not
            fit.
    """
    problem = make_problem(type, b_type, result, sparse)
    specs = [spec for spec in targets.split(",") if spec.strip()] if isinstance(targets, str) else targets
    compared = chips(problem, specs)
    _check_numbers(k, scale, count, seed)
    if a is None and b is None:
        if distribution not in DISTRIBUTIONS:
            raise IsaError(str(distribution), -1, f"unknown distribution '{distribution}'", ", ".join(DISTRIBUTIONS))
        source: Drawn | Given = Drawn(problem, k or K, count or COUNT, distribution, scale, seed)
    elif a is None or b is None:
        raise IsaError("", -1, f"operand {'A' if a is None else 'B'} is missing", "both operands, or none to draw them")
    else:
        source = given(unmasked(a, "a"), unmasked(b, "b"), problem, count or COUNT_GIVEN, seed)
        if k is not None and k != source.k:
            raise IsaError("", -1, f"k = {k}, but the operands have K = {source.k}", "no k beside operands")
    about: dict[str, Any] = {"operands": "given"}
    if isinstance(source, Drawn):
        about = {"operands": "drawn", "distribution": distribution, "scale": scale, "seed": seed}
    return Accuracy(
        str(problem), problem, source.k, source.count, about, source.notes, tuple(_lines(source, problem, compared))
    )


MOST_SEED = 2**63 - 1


def _check_numbers(k: int | None, scale: float, count: int | None, seed: int) -> None:
    if k is not None:
        integer(k, 1, MOST_K, "k =")
    if count is not None:
        integer(count, 1, MOST, "count =")
    if isinstance(scale, bool) or not isinstance(scale, int | float) or not (math.isfinite(scale) and scale > 0):
        raise IsaError(str(scale), -1, f"scale = {scale}", "a positive number")
    integer(seed, 0, MOST_SEED, "seed =")


def _lines(source: Drawn | Given, problem: Problem, compared: list[Chip]) -> list[Line]:
    """One line for each chip and each reference; chips that add alike are computed only once."""
    results, exact, sizes, rows, columns = _compute(source, problem, compared)
    pair = cache(source.pair)  # different sums often have the same worst case
    errors: dict[Arithmetic | str, tuple[Errors, Worst | None, int]] = {}
    numbers: dict[bytes, int] = {}
    for key, patterns in results.items():
        index, ulp = worst_of(patterns, exact, problem.result)
        row, column = int(rows[index]), int(columns[index])
        worst = None
        if ulp:
            a, b = pair(row, column)
            d, r = int(patterns[index]), int(exact[index])
            value = to_float64(np.array([d, r], np.uint32), problem.result).tolist()
            worst = Worst(
                source.place(row, column), d, r, value[0], value[1], ulp, tuple(a.tolist()), tuple(b.tolist())
            )
        number = numbers.setdefault(sha256(patterns.tobytes()).digest(), len(numbers) + 1)
        errors[key] = summarise(patterns, exact, problem.result, sizes, rows, columns), worst, number
    lines = [
        Line(x.name, x.targets, x.family, x.shape, x.k, x.rule.name, x.evidence, x.source, *errors[x.rule, x.k])
        for x in compared
    ]
    last = ", rounded to f16 at the end" if problem.result.bits == 16 else ""
    return lines + [Line(name, (), "", "", 1, "", "computed", what + last, *errors[name]) for name, what in REFERENCES]


def _compute(
    source: Drawn | Given, problem: Problem, compared: list[Chip]
) -> tuple[dict[Arithmetic | str, Bits], Bits, Reals, Indices, Indices]:
    """The result patterns by each arithmetic, the exact patterns, the sums of |a||b|, and the numbers of rows and
    columns: each [result]."""
    ways: dict[Arithmetic | str, list[Bits]] = {(chip.rule, chip.k): [] for chip in compared} | {
        name: [] for name, _ in REFERENCES
    }
    representative = {(chip.rule, chip.k): chip for chip in compared}
    exact, sizes, rows, columns = [], [], [], []
    left = source.count
    for batch in source.batches():
        shape = (*batch.rows.shape, batch.columns.shape[1])
        kept = np.flatnonzero(np.broadcast_to(batch.columns[:, None, :] >= 0, shape))[:left]
        left -= len(kept)

        def keep(values: NDArray[Any], kept: Indices = kept) -> NDArray[Any]:
            return values.reshape(-1)[kept]

        for key, chip in representative.items():
            ways[key].append(keep(chip_sum(chip, batch, problem)))
        for (name, _), patterns in zip(REFERENCES, f32_sums(batch, problem), strict=True):
            ways[name].append(keep(patterns))
        exact.append(keep(exact_sum(batch, problem)))
        sizes.append(keep(magnitudes(batch, problem)))
        rows.append(keep(np.broadcast_to(batch.rows[:, :, None], shape)))
        columns.append(keep(np.broadcast_to(batch.columns[:, None, :], shape)))
    joined = {key: np.concatenate(parts) for key, parts in ways.items()}
    return joined, np.concatenate(exact), np.concatenate(sizes), np.concatenate(rows), np.concatenate(columns)
