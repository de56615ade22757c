"""One launch of the whole grid with one fault: the reference that many copies together are compared with, and the way
of all faults that the copies cannot follow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.execute.cta_state import Outcome
from simulator.faults.detectors.codes import METADATA_RULES
from simulator.faults.targets.injection import FaultInjection
from simulator.faults.targets.launches.l1 import of_launch
from simulator.faults.targets.launches.strikes import Codes, Strikes, strike_word
from simulator.faults.targets.launches.watched_sums import LaunchSums
from simulator.faults.unit.instruction import UnitFault
from simulator.faults.unit.kernel import on_struck_unit, rows_on_sub_core
from simulator.faults.unit.sites import UNIT_SITES
from simulator.simulation.launch.batches import Setup, batches, rows_of
from simulator.simulation.launch.errors import LaunchError
from simulator.simulation.launch.run import Code, Run
from simulator.state.device_memory import DeviceMemory
from simulator.state.registers import Lanes, Warps

LONGER = 4  # times as many instructions as without a fault after which a launch counts as one that does not end
SPARE = 100_000  # warp instructions more
_REASONS = {"deadlock": "deadlock", "aligned-threads": "deadlock", "instruction-budget": "endless",
            "endless-wait": "endless", "misaligned-address": "misaligned-address",
            **dict.fromkeys(METADATA_RULES, "invalid-code")}  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """A launch that was made.

    Attributes:
        arrays: what its output buffers held at the end; empty if it stopped.
        reason: why it stopped, one of `outcomes.REASONS`; "" if it ended.
        said: the same in words.
        refused: whether a check in front of the core stopped it.
        counts: how many dynamic instructions each warp executed.
        undefined: how often each undefined case occurred.
        unordered: whether the indices of a code that was read do not ascend.
        summed: whether a checksum of metadata was another, where that is asked for.
        steps, turns: of the batch that had most: items that it executed one after the other, and how often threads
            took turns.
    """

    arrays: dict[str, NDArray[Any]]
    reason: str = ""
    said: str = ""
    refused: bool = False
    counts: NDArray[np.int64] | None = None
    undefined: Counter[str] = field(default_factory=Counter)
    unordered: bool = False
    summed: bool = False
    steps: int = 0
    turns: int = 0

    @property
    def illegal(self) -> bool:
        """Whether a code was read that is not defined."""
        return self.refused or any(self.undefined[name] for name in METADATA_RULES)


def why(rule: str) -> str:
    """The reason, one of `outcomes.REASONS`, for which a launch stops that breaks a rule."""
    return _REASONS.get(rule, "illegal")


def launched(
    setup: Setup,
    code: Code,
    codes: dict[int, Codes],
    injection: FaultInjection | None,
    budget: int,
    word: Callable[[DeviceMemory, int], tuple[NDArray[np.uint32], int]],
    outputs: Callable[[DeviceMemory], dict[str, NDArray[Any]]],
    sums: LaunchSums | None = None,
) -> Ended:
    """Runs a launch, with a fault or without.

    Args:
        setup: the launch before its first instruction, whose buffers are written.
        codes: as `strikes.codes_read` gives them.
        budget: warp instructions after which it is given up.
        word: gives a word of the buffers, uint32 [1], to be written to, and its address.
        outputs: gives copies of the output buffers.
        sums: what checksums of metadata should be; None for no checksums.
    """
    buffers: list[NDArray[np.uint32]] = []
    starts: list[int] = []
    if injection is not None and injection.site in ("global", "l1"):
        found = [word(setup.memory, place.word) for place in injection.places]
        buffers, starts = [array for array, _ in found], [address for _, address in found]
        if injection.site == "global" and int(injection.row["at"]) < 0:
            for number, buffer in enumerate(buffers):
                strike_word(buffer, 0, injection, number)
            injection = None
    counts: list[NDArray[np.int64]] = []
    met, unordered, summed, steps, turns = Counter[str](), False, False, 0, 0
    try:
        for ctas in batches(setup):
            state = setup.state(ctas)
            mine = injection if injection is not None and injection.cta in ctas else None
            row = int(np.flatnonzero(ctas == mine.cta)[0]) * state.warps + mine.local if mine is not None else -1
            watch = None if sums is None else sums.watch(rows_of(ctas, state.warps), codes)
            cached, ran = None, code
            if mine is not None and mine.site == "l1":
                cached = of_launch(state.warps, row // state.warps, starts, buffers)
                ran = cached.code(code)
            strikes = Strikes(state, codes, mine, row, buffers, watch, cached)
            unit = None if mine is None else unit_fault(mine, strikes, ctas, state.warps)
            run = Run(ran if unit is None else on_struck_unit(code, unit), state, budget, strikes)
            try:
                run.run()
            finally:
                if mine is not None and unit is not None:
                    mine.changed |= unit.changed
                met.update(state.met)
                unordered, summed = unordered | strikes.unordered, summed | strikes.summed
            budget, steps, turns = run.budget, max(steps, state.clock), max(turns, run.threads.turns)
            counts.append(strikes.counts)
    except LaunchError as error:
        refused = error.rule in METADATA_RULES
        return Ended({}, why(error.rule), str(error), refused, undefined=met, unordered=unordered, summed=summed)
    return Ended(
        outputs(setup.memory), counts=np.concatenate(counts), undefined=met, unordered=unordered, summed=summed,
        steps=steps, turns=turns,
    )  # fmt: skip


def unit_fault(
    injection: FaultInjection, strikes: Strikes, ctas: NDArray[np.integer[Any]], warps: int
) -> UnitFault | None:
    """A fault of the tensor core of a sub-core, in a batch of CTAs of so many warps; None for another fault. One that
    strikes once concerns one instruction of its warp, others all warps of the sub-core."""
    if injection.site not in UNIT_SITES:
        return None

    def lasts() -> bool:
        return injection.there(int(strikes.counts[strikes.row]))

    of_sub_core = rows_on_sub_core(ctas, warps, injection.cta, injection.local, lasts)

    def strikes_alone(rows: Warps) -> NDArray[np.bool_]:
        return np.asarray((rows == strikes.row) & lasts())

    return UnitFault(injection.row, of_sub_core if injection.lasting else strikes_alone)


def sequences(setup: Setup, code: Code) -> list[NDArray[np.int64]]:
    """By warp, the numbers of the items that it executes without faults, unconditional branches left out."""
    places: dict[int, list[int]] = {}
    for ctas in batches(setup):
        state = setup.state(ctas)
        warps = rows_of(ctas, state.warps)

        def note(place: int, rows: Warps, lanes: Lanes | None, outcome: Outcome, warps: Any = warps) -> None:
            for warp in warps[rows].tolist():
                places.setdefault(warp, []).append(place)

        Run(code, state, note=note).run()
    return [np.array(places.get(warp, []), np.int64) for warp in range(max(places, default=-1) + 1)]
