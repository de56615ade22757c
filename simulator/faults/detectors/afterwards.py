"""Detectors that are asked for (`asked`), where they need no look at the corrupt result: what they say of results that
are right all the same, of a second execution, and of checksums and codes beside stored words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits, ElementType
from simulator.arithmetic.check_bits import parity
from simulator.errors import ConfigError
from simulator.faults.detectors.asked import OF_RESULTS, Asked, asked
from simulator.faults.detectors.corrected import by_words
from simulator.faults.models import Edits
from simulator.faults.outcomes import MASKED, SDC, Results, flag, flags, values
from simulator.faults.table import SITES, Faults

Mask = NDArray[np.bool_]
_E = SITES.index("e")
WORD_CODES = ("parity", "secded")


class Target(Protocol):
    """What the detectors ask of a target."""

    when: bool

    def right(self, case: int) -> tuple[Bits, ElementType | None]:
        """The result of a case without faults, [row, column], and the type of its elements."""

    def apart(self, faults: Faults) -> Mask:
        """Whether a second execution is free of each fault."""

    def edits(self, faults: Faults) -> Edits:
        """What faults change."""

    def look_at_right(self, results: Results, masked: Mask) -> None:
        """Adds to results what checksums that the run is asked for say where the result is right."""


def look(target: Target, faults: Faults, results: Results, detectors: Asked) -> None:
    """Adds what detectors say of results that are there already."""
    _of_right_results(target, faults, results, detectors)
    target.look_at_right(results, results["outcome"] == MASKED)
    if "duplicate" in detectors.names:
        differs = results["outcome"] == SDC
        differs[differs] = target.apart(faults[differs])
        results["detectors"][differs] |= flag("duplicate")
    if "checksum" in detectors.names and not target.when:
        mine = np.flatnonzero(faults["site"] == _E)
        if len(mine):
            wrong = _checksums(target.edits(faults[mine]), detectors.modulo)
            results["detectors"][mine[wrong]] |= flag("checksum")


def _of_right_results(target: Target, faults: Faults, results: Results, detectors: Asked) -> None:
    """What detectors of results say where the result is right: false alarms."""
    if not set(OF_RESULTS) & set(detectors.names):
        return
    masked = results["outcome"] == MASKED
    for case in np.unique(faults["case"][masked]).tolist():
        patterns, element = target.right(case)
        seen = detectors.sees(values(patterns, element)[None])
        results["detectors"][masked & (faults["case"] == case)] |= flags(**seen)[0]


def _checksums(changes: Edits, bits: int) -> Mask:
    """Whether the sum of a register over its lanes is another, modulo 2^bits, or of 0 bits the exclusive or: bool
    [fault]."""
    found = np.zeros(changes.faults, np.bool_)
    order = np.lexsort((changes.word, changes.fault))
    fault, word = changes.fault[order], changes.word[order]
    if len(order):
        first = np.flatnonzero((np.diff(fault, prepend=-1) != 0) | (np.diff(word, prepend=-1) != 0))
        before, after = changes.before[order], (changes.before ^ changes.invert)[order]
        if bits:
            apart = np.add.reduceat(after.astype(np.int64) - before, first) & ((1 << bits) - 1)
        else:
            apart = np.bitwise_xor.reduceat(before ^ after, first).astype(np.int64)
        found[fault[first[apart != 0]]] = True
    return found


def look_at_words(results: Results, index: Any, inverts: Sequence[Sequence[int]] | Bits) -> None:
    """Adds to some of the results, by their numbers, what codes beside stored words that are read say and correct,
    where they are asked for.

    Args:
        inverts: of each of these faults the bits that changed, in each of its words; uint32 [fault] for one word each.
    """
    names = [name for name in asked().names if name in WORD_CODES]
    if not names or not len(inverts):
        return
    most = 1 if isinstance(inverts, np.ndarray) else max(1, *map(len, inverts))
    stored = np.zeros((len(inverts), most), np.uint32)
    for number, one in enumerate(inverts):
        stored[number, : np.size(one)] = one
    handled, corrections = by_words(stored)
    seen = {"parity": parity(stored), "secded": handled}
    results["detectors"][index] |= flags(**{name: seen[name] for name in names})
    if "secded" in names:
        results["corrections"][index] |= corrections


def check_asked(detectors: Asked, runs: bool) -> None:
    """ConfigError for detectors that a target does not have; `runs` says whether it is a trace or a launch."""
    if not runs and "abft" in detectors.names:
        reason = "looks at every fault of an instruction without being asked for"
        raise ConfigError("--detect", "abft", reason, "no --detect abft, or a trace or launch")
