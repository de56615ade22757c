"""The unit of validation: groups of rows, each row a measured or published number beside what the engine predicts.

A group is everything from one source that is compared in one way. Its module holds the function that runs the rows
through the engine, and `GROUPS`, the groups of each config that it has rows for; the package's `__init__.py` lists the
modules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from simulator.chip.config import Config
from simulator.resources import folder
from simulator.tables import read_rows

Key = tuple[str, str | int]


@dataclass(frozen=True)
class Row:
    """One number of silicon beside the engine's.

    Attributes:
        label: what was run, in the words of its source.
        keys: what distinguishes the row from its neighbours, as (name, value): ("chains", 2), ("warps", 8).
        measured, simulated: the two numbers, in the unit of the group.
        assumed: the tables of the config that the simulated number rests on and that nobody measured or published.
    """

    label: str
    keys: tuple[Key, ...]
    measured: float
    simulated: float
    assumed: tuple[str, ...] = ()

    @property
    def error(self) -> float:
        """The relative error of the simulation, signed."""
        return self.simulated / self.measured - 1


@dataclass(frozen=True)
class Group:
    """Rows of one source that are compared in one way.

    Attributes:
        name: one word for options and records, such as "uniform".
        title: what is compared, and the unit.
        source: where the numbers are from: GPU and date, or paper and table.
        rows: the function that runs them; its second argument asks for the short form, a part of the rows that stands
            for all.
        split: names of the keys by which the printed table splits the group.
        absolute: whether errors are in the group's unit, and not relative to the measured number.
        note: what was left out, and why.
        seconds: about how long the full form takes on one core. Where several work, the longest group goes first, and
            the time left is told by it.
    """

    name: str
    title: str
    source: str
    rows: Callable[[Config, bool], list[Row]]
    split: tuple[str, ...] = ()
    absolute: bool = False
    note: str = ""
    seconds: float = 0.1

    def error(self, row: Row) -> float:
        """The signed error of a row, in the way of this group."""
        return row.simulated - row.measured if self.absolute else row.error


def assumed(config: Config, tables: Iterable[str]) -> tuple[str, ...]:
    """Those of these tables of a config that are assumed, for `Row.assumed`."""
    return tuple(table for table in dict.fromkeys((*tables, *config.changed)) if config.status(table) == "assumed")


Figure = tuple[str, float, str]  # what was run, the number, its source


@cache
def published(file: str, label: str, value: str) -> Mapping[str, tuple[Figure, ...]]:
    """The figures of each config in a file of configs/measurements that has these columns, `config` and `source`."""
    by_config: dict[str, list[Figure]] = {}
    for row in read_rows(folder("configs") / "measurements" / file):
        by_config.setdefault(row["config"], []).append((row[label], float(row[value]), row["source"]))
    return {config: tuple(figures) for config, figures in by_config.items()}


def sources(figures: Iterable[Figure]) -> str:
    """The sources of some figures, each once."""
    return "; ".join(dict.fromkeys(source for *_, source in figures))


Groups = Mapping[str, tuple[Group, ...]]
