"""Checksums of metadata that a launch reads, as `simulator.faults.detectors.metadata_sums` has them: of each time that
a warp executes an `mma.sp`, against the same time of the launch without faults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.execute.cta_state import Outcome
from simulator.faults.detectors.metadata_sums import Integers, Mask, word_sums
from simulator.faults.targets.launches.strikes import Codes
from simulator.simulation.launch.batches import Setup, batches, rows_of
from simulator.simulation.launch.run import Code, Run
from simulator.state.registers import Lanes, Warps

_NEVER = -1  # in place of the sum of an instruction that is not executed


@dataclass(frozen=True)
class LaunchSums:
    """The sums of a launch without faults.

    Attributes:
        bits: of the sums, as in `word_sums`.
        sums: by place, int64 [warp, n]: that of each time that a warp executes the instruction there.
        counts: by place, int64 [warp, n]: how many instructions it has executed then, this one among them.
    """

    bits: int
    sums: dict[int, Integers]
    counts: dict[int, Integers]

    def watch(self, warps: NDArray[np.integer[Any]], codes: dict[int, Codes], counts: Integers | None = None) -> Watch:
        """What compares the sums of a batch.

        Args:
            warps: of each row the warp.
            codes: by place, what gives the metadata.
            counts: int64 [row]: how many instructions each has executed; None for none.
        """
        done = {
            place: np.zeros(len(warps), np.int64) if counts is None else (
                ((when[warps] <= counts[:, None]) & (when[warps] > 0)).sum(axis=1)
            )
            for place, when in self.counts.items()
        }  # fmt: skip
        return Watch(self, warps, codes, done)


@dataclass(frozen=True)
class Watch:
    """Compares the sums of the rows of a batch; `done` has by place how often each row has executed it."""

    should: LaunchSums
    warps: NDArray[np.integer[Any]]
    codes: dict[int, Codes]
    done: dict[int, Integers]

    def differ(self, place: int, state: Any, rows: Warps) -> Mask:
        """Whether the sums of rows, which have just executed an instruction that reads metadata, are others than
        without a fault; not where they are there more often than without one: bool [row]."""
        if place not in self.done:
            return np.zeros(len(rows), np.bool_)
        number, table = self.done[place][rows], self.should.sums[place]
        self.done[place][rows] += 1
        sums = word_sums(self.codes[place].words(state, rows)[:, 0], self.should.bits)
        right = table[self.warps[rows], np.minimum(number, table.shape[1] - 1)]
        return np.asarray((number < table.shape[1]) & (right != _NEVER) & (right != sums))


def launch_sums(setup: Setup, code: Code, codes: dict[int, Codes], bits: int) -> LaunchSums:
    """The sums of a launch without faults, which is made for them."""
    found: dict[int, dict[int, list[tuple[int, int]]]] = {}
    most = 0
    for ctas in batches(setup):
        state = setup.state(ctas)
        warps = rows_of(ctas, state.warps)
        counts, most = np.zeros(len(warps), np.int64), max(most, int(warps.max()) + 1)

        def note(
            place: int, rows: Warps, lanes: Lanes | None, outcome: Outcome, warps: Any = warps, counts: Any = counts,
            state: Any = state,
        ) -> None:  # fmt: skip
            counts[rows] += 1
            if place in codes:
                sums = word_sums(codes[place].words(state, rows)[:, 0], bits)
                by_warp = found.setdefault(place, {})
                for warp, *each in zip(warps[rows].tolist(), sums.tolist(), counts[rows].tolist(), strict=True):
                    by_warp.setdefault(warp, []).append((each[0], each[1]))

        Run(code, state, note=note).run()
    tables = {place: _table(by_warp, most) for place, by_warp in found.items()}
    return LaunchSums(
        bits, {place: table[..., 0] for place, table in tables.items()},
        {place: table[..., 1] for place, table in tables.items()},
    )  # fmt: skip


def _table(by_warp: dict[int, list[tuple[int, int]]], warps: int) -> Integers:
    table = np.full((warps, max(map(len, by_warp.values())), 2), _NEVER, np.int64)
    for warp, each in by_warp.items():
        table[warp, : len(each)] = each
    return table
