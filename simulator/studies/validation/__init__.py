"""Validation: compares every measured or published number of a chip with what the simulator's timing engine predicts.

Each module of groups has one line in `MODULES`. Its `GROUPS` holds the groups of each config, by the config's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module

from simulator.errors import ConfigError
from simulator.studies.validation.group import Group, Groups
from simulator.studies.validation.summary import Result
from simulator.timing.config import Config, config_names, load_config

MODULES = (
    "uniform",  # measured streams of one matrix instruction
    "programs",  # measured loops of unlike matrix instructions
    "shared_memory",  # measured loops of loads and stores, published chains of ldmatrix
    "emulated",  # measured streams of instructions that the chip does not have
    "gemm",  # measured main loops of GEMMs, copies, whole problems
    "mma",  # published latencies, rounds and rates of mma and mma.sp
    "peaks",  # published peak rates
    "tcgen05",  # published streams of tcgen05.mma
)


def groups(name: str) -> tuple[Group, ...]:
    """The groups of the config of this name, in the order of `MODULES`."""
    collected: list[Group] = []
    for module in MODULES:
        table: Groups = import_module(f"simulator.studies.validation.{module}").GROUPS
        collected += table.get(name, ())
    return tuple(collected)


def validate(config: str | Config | None = None, names: Sequence[str] = (), short: bool = False) -> Iterator[Result]:
    """Runs groups through the engine.

    Args:
        config: a config, its name or its path; None for all that come with tcsim and have rows.
        names: the names of the groups; all groups if there are none.
        short: whether a part of the rows is enough, which stands for all of them.

    Raises:
        ConfigError: no such config, no rows for it, no such group, or a config that lacks an instruction that was
            measured.
    """
    if config is None:
        chosen = [load_config(name) for name in config_names()]
    else:
        chosen = [config if isinstance(config, Config) else load_config(config)]
        if not groups(chosen[0].name):
            measured_configs = ", ".join(name for name in config_names() if groups(name))
            raise ConfigError(
                chosen[0].path,
                "name",
                f"no measured or published rows of {chosen[0].name} come with tcsim",
                measured_configs,
            )
    pairs = [(one, group) for one in chosen for group in groups(one.name)]
    legal = dict.fromkeys(group.name for _, group in pairs)
    for name in names:
        if name not in legal:
            raise ConfigError("--group", name, "no such group", ", ".join(legal))
    for one, group in pairs:
        if not names or group.name in names:
            yield Result(one.name, one.title, group, tuple(group.rows(one, short)), one.own_path)
