"""What the front of an SM has counted, and the state that decides what it does next."""

from __future__ import annotations

from typing import Any

import cython

from simulator.machine.front.front import Front
from simulator.machine.front.pipes import Pipe
from simulator.machine.front.program import ALU, TENSOR, TMEM, UNITS, Words
from simulator.machine.front.sub_core import SubCore
from simulator.machine.front.warp import Warp
from simulator.machine.front.warp_state import add_warp


def state(front: Front, now: cython.longlong) -> bytes:
    """All that decides what a front does next, relative to now, but for the counts of loops."""
    core: SubCore
    front.clock.now = max(front.clock.now, now)
    for core in front.cores:
        core.settle(now)
    front.shared.serve(now)
    front.shared.write(now)
    words: Words = front.words
    words.clear()
    front.shared.state(words, now)
    for core in front.cores:
        core.state(words, now)
    warp: Warp
    for warp in front.warps:
        core = front.cores[warp.core]
        add_warp(warp, words, now, core.port.made)
    return words.bytes()


def issued(front: Front) -> list[int]:
    """Instructions that each sub-core has issued."""
    core: SubCore
    counted: list[int] = []
    for core in front.cores:
        counted.append(core.issued)
    return counted


def busy_pipes(front: Front) -> list[tuple[int, int, int]]:
    """For each sub-core, cycles for which its tensor pipe, its integer pipe and its path to Tensor Memory have been
    taken."""
    core: SubCore
    counted: list[tuple[int, int, int]] = []
    for core in front.cores:
        counted.append((core.pipe(TENSOR).busy, core.pipe(ALU).busy, core.pipe(TMEM).busy))
    return counted


def busy_shared(front: Front) -> int:
    """Cycles for which shared memory has been taken."""
    return -(-front.shared.busy // front.shared.wavefronts.slots)


def counters(front: Front) -> list[int]:
    """All counts: by sub-core instructions and busy cycles of pipes, then slots of shared memory."""
    core: SubCore
    counted: list[int] = []
    k: cython.int
    for core in front.cores:
        counted.append(core.issued)
        for k in range(UNITS):
            counted.append(core.pipe(k).busy)
    return [*counted, front.shared.busy]


def count(front: Front, more: Any) -> None:
    """Adds to these counts, in the same order."""
    at: cython.longlong = 0
    k: cython.int
    pipe: Pipe
    core: SubCore
    for core in front.cores:
        core.issued += more[at]
        for k in range(UNITS):
            pipe = core.pipe(k)
            pipe.busy += more[at + 1 + k]
        at += 1 + UNITS
    front.shared.busy += more[at]
