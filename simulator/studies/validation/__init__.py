"""Validation: compares every measured or published number of a chip with what the simulator's timing engine predicts.

Each module of groups has one line in `MODULES`. Its `GROUPS` holds the groups of each config, by the config's name.
"""

from __future__ import annotations

import gc
import logging
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module

from isa.arguments import integer
from simulator.chip.config import Config, config_names, load_config
from simulator.errors import ConfigError, did_you_mean
from simulator.floating_point import guarded
from simulator.parallel import MOST_WORKERS, worked
from simulator.studies.validation.group import Group, Groups, Row
from simulator.studies.validation.summary import Result

MODULES = (
    "uniform",  # measured streams of one matrix instruction
    "programs",  # measured loops of unlike matrix instructions
    "shared_memory",  # measured loops of loads and stores, published chains of ldmatrix
    "pieces",  # measured sequences of a few instructions
    "registers",  # the same, on registers of two banks
    "turns",  # measured sequences of accesses of several warps
    "emulated",  # measured streams of instructions that the chip does not have
    "machine_code",  # the same, and integers among matrix instructions, as the compiler wrote them
    "gemm",  # measured main loops of GEMMs, copies, whole problems
    "energy",  # measured joules of GEMM kernels
    "mma",  # published latencies, rounds and rates of mma and mma.sp
    "peaks",  # published peak rates
    "tcgen05",  # published streams of tcgen05.mma
    "published_gemms",  # published times of whole GEMMs
    "datasheets",  # TFLOPS of whole chips
)
# Objects, and times, between two looks for garbage: runs are small and soon over, and what stays is much.
OFTEN = 3_000, 10, 100
SHORTEST = 2.0  # seconds of work for which a second process is worth its start


@dataclass(frozen=True)
class Progress:
    """How far a validation is.

    Attributes:
        done, count: groups that have run, and all groups.
        spent, left: seconds since the start, and about how many it still takes.
    """

    done: int
    count: int
    spent: float
    left: float


def groups(name: str) -> tuple[Group, ...]:
    """The groups of the config of this name, in the order of `MODULES`."""
    collected: list[Group] = []
    for module in MODULES:
        table: Groups = import_module(f"simulator.studies.validation.{module}").GROUPS
        collected += table.get(name, ())
    return tuple(collected)


def validate(
    config: str | Config | None = None,
    names: Sequence[str] = (),
    short: bool = False,
    *,
    workers: int = 1,
    progress: Callable[[Progress], None] | None = None,
) -> Iterator[Result]:
    """Runs groups through the engine. The results come in the order of configs and `MODULES`, and are the same for any
    number of processes.

    Args:
        config: a config, its name or its path; None for all that come with tcsim and have rows.
        names: the names of the groups; all groups if there are none.
        short: whether a part of the rows is enough, which stands for all of them.
        workers: how many processes; work of a second or two is done in this one.
        progress: is told how far it is, after each group, and every second while other processes work.

    Raises:
        ConfigError: no such config, no rows for it, no such group, or a config that lacks an instruction that was
            measured.
    """
    integer(workers, 1, MOST_WORKERS, "workers")
    if config is None:
        chosen = [load_config(name) for name in config_names()]
    else:
        chosen = [load_config(config)]
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
            raise ConfigError("--group", name, f"no such group{did_you_mean(name, legal)}", ", ".join(legal))
    chosen_pairs = [(one, group) for one, group in pairs if not names or group.name in names]
    for (one, group), rows in zip(chosen_pairs, _in_order(chosen_pairs, short, workers, progress), strict=True):
        yield Result(one.name, one.title, group, rows, one.own_path, one.overridden)


def _in_order(
    pairs: Sequence[tuple[Config, Group]], short: bool, workers: int, progress: Callable[[Progress], None] | None
) -> Iterator[tuple[Row, ...]]:
    """The rows of each group, in the order of `pairs`, whichever is done first."""
    total = sum(group.seconds for _, group in pairs)
    if total < SHORTEST:
        workers = 1
    start, spent, expected, done = time.monotonic(), 0.0, 0.0, dict[int, tuple[Row, ...]]()

    def tell() -> None:
        if progress is not None:
            slower = spent / expected if expected else 1.0
            so_far = time.monotonic() - start
            left = total * slower / max(min(workers, len(pairs)), 1) - so_far
            progress(Progress(len(done), len(pairs), so_far, max(left, 1.0) if len(done) < len(pairs) else 0.0))

    tell()
    order = sorted(range(len(pairs)), key=lambda n: -pairs[n][1].seconds if workers > 1 else n)
    tasks = ((n, (pairs[n][0], pairs[n][1].name, short)) for n in order)
    following = 0
    for number, found in worked(_run, "", tasks, workers, "", len(pairs), tell):
        done[number], took = pickle.loads(found)
        spent, expected = spent + took, expected + pairs[number][1].seconds
        tell()
        while following in done:
            yield done[following]
            following += 1


@guarded
def _run(_: str, task: tuple[Config, str, bool]) -> bytes:
    """The rows of a group, pickled, with the seconds that they took."""
    config, name, short = task
    (group,) = (group for group in groups(config.name) if group.name == name)
    log, start = logging.getLogger("tcsim"), time.monotonic()
    level, often = log.level, gc.get_threshold()
    gc.set_threshold(*OFTEN)
    log.setLevel(logging.ERROR)  # how long a single run takes is not what one wants to know here
    try:
        return pickle.dumps((tuple(group.rows(config, short)), time.monotonic() - start))
    finally:
        log.setLevel(level)
        gc.set_threshold(*often)
