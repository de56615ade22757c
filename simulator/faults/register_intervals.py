"""Intervals between the uses of the registers of a warp, and what they weigh in the registers that a chip has.

PTX's registers are virtual: a kernel has more of them than ptxas gives a thread, and most hold nothing most of the
time. Where it is known how many registers a thread has, intervals that a read may end keep their lengths as weights (a
value that is still needed takes one register: assumed; ptxas computes some values anew, keeps some in registers of the
warp or in none at all, and has values of its own). All other intervals share what is left of registers times time, in
which a fault does nothing. So the weighted share of an outcome is an architectural vulnerability factor of the physical
register file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.ptx.instruction import register_names
from simulator.errors import ConfigError
from simulator.faults.aim.executed import Block
from simulator.faults.group import Group
from simulator.faults.targets.running import RunningTarget

_WORD_BITS = 32


class _Word(NamedTuple):
    """The intervals of a register: where each ends, its length, and whether a read may see what it holds there."""

    word: int
    ends: NDArray[np.int64]
    lengths: NDArray[np.int64]
    needed: NDArray[np.bool_]


def of_registers(
    subject: RunningTarget, group: Group, warp: int, clock: NDArray[np.int64], registers: int
) -> Iterator[Block]:
    """The intervals of the registers of a warp, one register after the other.

    Args:
        clock: int64 [n + 1]: the time of each dynamic instruction of the warp, and of its end.
        registers: how many registers a thread has; 0: each weighs what it is long.

    Raises:
        ConfigError: fewer registers than values that are needed at a time, on average.
    """
    words = list(_words(subject, group, warp, clock))
    scale = 1.0
    if registers:
        read = set(np.flatnonzero(subject.sites[group.site].live.any(axis=1)).tolist())
        listed = [word for word in words if word.word in read or group.which == "all"]
        needed, rest = (sum(int(one.lengths[one.needed == side].sum()) for one in listed) for side in (True, False))
        room = registers * int(clock[-1]) * _WORD_BITS / subject.sites[group.site].size
        if needed > room:
            held = needed / max(int(clock[-1]), 1)
            reason = f"{registers} registers of a thread, where the PTX needs {held:.1f} values on average"
            raise ConfigError("campaign", "subject.registers", reason, "the number that ptxas -v prints")
        scale = (room - needed) / rest if rest else 1.0
    for word in words:
        there = word.lengths > 0
        weights = np.where(word.needed, 1.0, scale) * word.lengths.astype(np.float64)
        yield Block(warp, word.ends[there], (word.word,), weights[there])


def _words(subject: RunningTarget, group: Group, warp: int, clock: NDArray[np.int64]) -> Iterator[_Word]:
    """The intervals of each register; those that take no time have no length."""
    order, statics = subject.executed(warp), subject.statics(warp)
    whole = subject.whole(warp)
    size, _ = subject.sites[group.site].live.shape
    uses: list[list[NDArray[np.int64]]] = [[] for _ in range(size)]
    reads: list[list[NDArray[np.int64]]] = [[] for _ in range(size)]
    overwrites: list[list[NDArray[np.int64]]] = [[] for _ in range(size)]  # of all threads
    for item in np.unique(order).tolist():
        if item not in statics:
            continue
        times = np.flatnonzero(order == item)
        for _, operand, output in statics[item].operands:
            for word in subject.register_words(register_names(operand), group.site):
                uses[word].append(times)
                if not output:
                    reads[word].append(times)
                elif not statics[item].guarded:
                    overwrites[word].append(times[whole[times]])
    for word in range(size):
        yield _word(word, uses[word], reads[word], overwrites[word], clock)


def _word(
    word: int,
    uses: list[NDArray[np.int64]],
    reads: list[NDArray[np.int64]],
    overwrites: list[NDArray[np.int64]],
    clock: NDArray[np.int64],
) -> _Word:
    """The intervals of a register, by when it is used in any way, read, and overwritten in all threads."""
    last = len(clock) - 1
    places = np.unique(np.concatenate([*uses, np.array([last])]))
    read = np.isin(places, np.concatenate([*reads, np.zeros(0, np.int64)]))
    decided = read | np.isin(places, np.concatenate([*overwrites, np.array([last])]))
    next_decided = np.flatnonzero(decided)[np.searchsorted(np.flatnonzero(decided), np.arange(len(places)))]
    return _Word(word, places, np.diff(clock[places], prepend=0), read[next_decided])
