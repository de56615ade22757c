"""Codes beside each word of registers and memories of a launch, where a run is asked for them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from simulator.faults.detectors.afterwards import WORD_CODES, look_at_words
from simulator.faults.detectors.asked import asked
from simulator.faults.outcomes import Results
from simulator.faults.targets.injection import FaultInjection
from simulator.faults.targets.launches.golden import Golden
from simulator.faults.targets.register_sites import REGISTER_SITES, number_of


def check_words(results: Results, struck: Iterable[tuple[int, FaultInjection]], golden: Golden | None) -> None:
    """Adds what the codes say of faults that strike a running launch, which are given with their numbers. A word is
    checked where it is read; of registers it is known whether they are, of memories it is taken for granted."""
    if not set(WORD_CODES) & set(asked().names):
        return
    numbers: list[int] = []
    inverts: list[list[int]] = []
    for number, injection in struck:
        if golden is None or _is_read(injection, golden):
            numbers.append(number)
            inverts.append(list(injection.struck.values()) or [injection.mask * (injection.model == "flip")])
    index: NDArray[np.int64] = np.array(numbers, np.int64)
    look_at_words(results, index, inverts)


def _is_read(injection: FaultInjection, golden: Golden) -> bool:
    """Whether the launch without faults reads a word that a fault changes."""
    if injection.site not in REGISTER_SITES or not injection.simple:
        return True
    number = number_of(golden.kernel.numbering, injection.site, injection.word)
    return bool(golden.uses.read(injection.warp, number, injection.lane, injection.first, injection.last))
