"""Which faults of a program nothing can see, known without a run: the run without faults reads nothing of what they
change."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from isa.tensor_memory.address import COLUMNS
from simulator.faults.table import SITES
from simulator.faults.targets.injection import Injections, steady
from simulator.faults.targets.register_sites import REGISTER_SITES
from simulator.faults.unit.sites import UNIT_SITES
from simulator.simulation.liveness import Golden, Uses

Mask = NDArray[np.bool_]


class Watched(Protocol):
    """What is known of a program and its run without faults."""

    @property
    def golden(self) -> Golden:
        """The run without faults."""

    @property
    def registers(self) -> Mapping[int, Uses]:
        """By warp, when its registers are read and written."""

    @property
    def numbers(self) -> Sequence[int]:
        """The warps."""

    def first_register(self, site: str) -> int:
        """The number of the register that is word 0 of a site."""

    def instructions(self, warp: int) -> int:
        """How many dynamic instructions a warp executes."""

    def selects(self, warp: int, index: int) -> bool:
        """Whether a dynamic instruction has a sparsity selector."""

    def multiplies(self, warp: int, index: int) -> bool:
        """Whether a dynamic instruction is one of a unit that faults can strike."""


def all_unread(program: Watched, injections: Injections) -> Mask:
    """Whether the run without faults reads nothing of what each fault changes, where registers, words and cells count
    as wholes: bool [fault]. Of faults with several places or times it is only known where they strike too late."""
    blind = np.zeros(len(injections.site), np.bool_)
    for warp in np.unique(injections.warp).tolist():
        for number in np.unique(injections.site[injections.warp == warp]).tolist():
            mine = np.flatnonzero((injections.warp == warp) & (injections.site == number))
            blind[mine] = _unread(program, warp, SITES[number], injections.some(mine))
    return blind


def _unread(program: Watched, warp: int, site: str, faults: Injections) -> Mask:
    """The same for faults of one site that one warp's instructions time."""
    count, first, last = program.instructions(warp), faults.first, faults.last
    late = first > count
    return np.asarray(late | steady(faults.faults) & ~_read(program, warp, site, faults, first, last, count))


def _read(
    program: Watched, warp: int, site: str, faults: Injections, first: NDArray[np.int64], last: NDArray[np.int64],
    count: int,
) -> Mask:  # fmt: skip
    """Whether something reads what each fault changes between its first and its last dynamic instruction."""
    if site in REGISTER_SITES:
        number = faults.word + program.first_register(site)
        return program.registers[warp].read(number, first, last)
    if site == "selector":
        there = np.cumsum([0, *(program.selects(warp, index) for index in range(count))])
        return np.asarray(there[np.minimum(first, count)] != there[np.minimum(last, count)])
    if site in UNIT_SITES:
        struck = np.array([program.multiplies(warp, index) for index in first.tolist()], np.bool_)
        return np.asarray((last > first + 1) | struck)
    starts = program.golden.starts[warp]
    begin = starts[np.minimum(first, count)]
    end = np.where(last < len(starts), starts[np.minimum(last, count)], last)
    end = np.where(last > first + 1, np.maximum(end, begin + 1), begin + 1)
    word = faults.word if site == "shared" else faults.lane * COLUMNS + faults.word
    return program.golden.uses[site][int(faults.cta[0])].read(word, begin, end)
