"""What is read off a table of a sweep: its Pareto front, a grid of two keys, and how much each key matters.

>>> import pandas as pd
>>> frame = pd.DataFrame({"k": [1, 2, 3], "time_us": [3.0, 2.0, 4.0], "power_w": [1.0, 2.0, 3.0], "error": [""] * 3})
>>> pareto(frame, ("time_us", "power_w"))["k"].tolist()
[2, 1]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.errors import ViewError, did_you_mean
from simulator.studies.sweep.evaluate import COLUMNS

if TYPE_CHECKING:
    from pandas import DataFrame

MORE_IS_BETTER = ("tflops", "tflops_per_watt", "speedup")
"""Columns of which more is better; of all others less is."""


def better(column: str) -> tuple[str, bool]:
    """A column's name and whether more of it is better; `max:` or `min:` before the name says it."""
    way, colon, name = column.partition(":")
    if colon and way in ("min", "max"):
        return name, way == "max"
    return column, column in MORE_IS_BETTER


def answered(frame: DataFrame) -> DataFrame:
    """The rows with an answer; ViewError if there is none."""
    found = frame[frame["error"].isna() | (frame["error"] == "")] if "error" in frame else frame
    if not len(found):
        raise ViewError("no point of the sweep has an answer", "a table with rows without an error")
    return found


def numbers(frame: DataFrame, column: str) -> Any:
    """A column as numbers, [row]; ViewError for one that is not there, or that holds none."""
    check_column(frame, column)
    try:
        found = frame[column].astype("float64").to_numpy()
    except (TypeError, ValueError):
        found = np.array([np.nan])
    if np.isnan(found).any():
        legal = ", ".join(
            name for name in frame.columns if frame[name].dtype.kind in "if" and frame[name].notna().all()
        )
        raise ViewError(f"column '{column}' does not hold a number in each row", legal)
    return found


def check_column(frame: DataFrame, column: str) -> None:
    """ViewError, with the nearest name, for a column that the table does not have."""
    if column not in frame.columns:
        names = list(map(str, frame.columns))
        raise ViewError(f"no column '{column}'{did_you_mean(column, names)}", ", ".join(names))


def keys_of(frame: DataFrame) -> list[str]:
    """The columns of the question that have more than one value."""
    return [name for name in frame.columns if name not in COLUMNS and frame[name].astype(str).nunique() > 1]


def pareto(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The points than which no other is better in one column and as good in the other, by the first column.

    Args:
        columns: two names, each with `min:` or `max:` before it where `better` does not know.

    Raises:
        ViewError: no such column, no numbers, no answer.
    """
    rows = answered(frame)
    (first, more_first), (second, more_second) = (better(column) for column in columns)
    x = numbers(rows, first) * (-1 if more_first else 1)
    y = numbers(rows, second) * (-1 if more_second else 1)
    order = np.lexsort((y, x))
    best = np.minimum.accumulate(np.concatenate([[np.inf], y[order][:-1]]))
    kept = order[y[order] < best]
    front: DataFrame = rows.iloc[kept]
    return front


def heatmap(frame: DataFrame, x: str, y: str, value: str) -> DataFrame:
    """A table with the values of `y` down and of `x` across: of points that share a cell, the best one's value.

    Raises:
        ViewError: no such column, no numbers, no answer.
    """
    rows = answered(frame)
    for column in (x, y):
        check_column(rows, column)
    name, more = better(value)
    held = rows.assign(**{name: numbers(rows, name)})
    grid: DataFrame = held.pivot_table(index=y, columns=x, values=name, aggfunc="max" if more else "min", sort=True)
    return grid


def tornado(frame: DataFrame, value: str, baseline: Mapping[str, Any] | None = None) -> DataFrame:
    """How far `value` moves from a baseline when one key moves alone: key, low, high (values of the column), at_low,
    at_high (values of the key there), baseline; the key that matters most first.

    Args:
        baseline: values of keys; of the others the first row's.

    Raises:
        ViewError: no such column or value, no answer, or no key that moves alone from the baseline.
    """
    rows = answered(frame)
    name, _ = better(value)
    held = rows.assign(**{name: numbers(rows, name)})
    keys = keys_of(held)
    texts = {key: held[key].astype(str) for key in keys}
    start = {key: texts[key].iloc[0] for key in keys}
    for key, given in (baseline or {}).items():
        check_column(held, key)
        if str(given) not in set(held[key].astype(str)):
            legal = ", ".join(dict.fromkeys(held[key].astype(str)))
            raise ViewError(f"no point has {key} = {given}", legal)
        if key in start:
            start[key] = str(given)
    same = {key: (texts[key] == start[key]).to_numpy() for key in keys}
    everywhere = np.ones(len(held), bool)
    at = np.logical_and.reduce([everywhere, *same.values()])
    if not at.any():
        raise ViewError("no point is the baseline", "values that one row has together, such as those of the first")
    base = float(held[name].to_numpy()[at][0])
    found = []
    for key in keys:
        alone = np.logical_and.reduce([everywhere, *(same[other] for other in keys if other != key)])
        mine = held[alone]
        if len(mine) > 1:
            low, high = mine[name].to_numpy().argmin(), mine[name].to_numpy().argmax()
            found.append(
                (
                    key,
                    *(float(mine[name].iloc[i]) for i in (low, high)),
                    *(mine[key].iloc[i] for i in (low, high)),
                    base,
                )
            )
    if not found:
        raise ViewError("no key moves alone from the baseline", "a sweep whose axes are crossed")
    found.sort(key=lambda one: one[1] - one[2])
    import pandas as pd

    return pd.DataFrame(found, columns=["key", "low", "high", "at_low", "at_high", "baseline"])
