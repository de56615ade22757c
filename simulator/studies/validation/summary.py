"""Summarises the errors of a group of validation rows in a few numbers: mean, median, percentile and worst."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simulator.chip.config import config_label
from simulator.studies.validation.group import Group, Row
from simulator.tables import Table

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Summary:
    """Sizes of errors, as fractions of the measured numbers, or in the unit of an absolute group.

    Attributes:
        part: "all", or what these rows have in common: "warps 8".
        bias: the mean of the signed errors.
    """

    part: str
    rows: int
    mean: float
    median: float
    p95: float
    worst: float
    bias: float


@dataclass(frozen=True)
class Result:
    """A group that was run on a config.

    Attributes:
        config, title: the name and title of the config.
        config_path: the file of a config that does not come with tcsim; empty for one that does.
        config_overrides: what was set over the config's values, "key=value; key=value"; empty if nothing was.
    """

    config: str
    title: str
    group: Group
    rows: tuple[Row, ...]
    config_path: str = ""
    config_overrides: str = ""

    @property
    def config_label(self) -> str:
        """The config as texts name it: with its path, if it is not one of tcsim's own, and with what was set."""
        return config_label(self.config, self.config_path, self.config_overrides)

    @cached_property
    def all(self) -> Summary:
        """The summary of all rows together."""
        if not self.rows:
            raise ValueError(f"{self.group.name} on {self.config}: no rows")
        return _summary("all", np.array([self.group.error(row) for row in self.rows]))

    @cached_property
    def parts(self) -> tuple[Summary, ...]:
        """The summaries of parts of the rows, split by each key of the group's split that has several values. Numbers
        ascend, other values stand in the order in which they come. A value that says by itself what it is has no key in
        front: "kind::f16", "held out"."""
        frame, summaries = self.to_frame(), []
        for name in self.group.split:
            numbers = frame[name].dtype.kind == "i"
            errors = frame.groupby(name, sort=numbers)["error"]
            if errors.ngroups > 1:
                summaries += [_summary(f"{name} {part}" if numbers else str(part), e.to_numpy()) for part, e in errors]
        return tuple(summaries)

    @property
    def assumed(self) -> dict[str, int]:
        """For each assumed table of the config that rows rest on, how many of the rows."""
        return dict(Counter(table for row in self.rows for table in row.assumed))

    def to_frame(self) -> DataFrame:
        """The rows as a pandas DataFrame: config, group, label, a column for each key (chains, warps, ...), measured,
        simulated, and the signed error: relative, or in the group's unit where `absolute` is true."""
        records = [
            {"config": self.config_label, "group": self.group.name, "label": row.label, **dict(row.keys)}
            | {"measured": row.measured, "simulated": row.simulated, "error": self.group.error(row)}
            | {"absolute": self.group.absolute}
            for row in self.rows
        ]
        return Table.of(records).frame()

    def worst(self, count: int) -> list[Row]:
        """The rows with the largest errors, largest first."""
        return sorted(self.rows, key=lambda row: -abs(self.group.error(row)))[:count]


def _summary(part: str, signed: NDArray[np.float64]) -> Summary:
    """The numbers of the signed errors of some rows."""
    errors = np.abs(signed)
    numbers = (errors.mean(), np.median(errors), np.percentile(errors, 95), errors.max(), signed.mean())
    return Summary(part, len(signed), *map(float, numbers))
