"""The time of a launch: one SM, the one with most CTAs, executes what its warps did, in the order in which a compiler
would have written it.

CTAs go to SMs in turn, one more on each as long as there is room; what is left follows when others end, wherever they
end, so that some SMs get more of the last CTAs than others. SMs do the same at the same time and share L2.
docs/kernels.md says what was measured and how far it is off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from simulator.chip.config import Config, config_label
from simulator.compiler.kernel.machine import machine_code
from simulator.compiler.kernel.replay import Clusters, Code, Marks, Replay, Resident
from simulator.compiler.kernel.walk import GivenCode
from simulator.compiler.timed_code import StallReason, TimedCode
from simulator.errors import ConfigError, DeadlockError
from simulator.execute.dynamic_info import CLUSTER, ArriveFacts, Barrier
from simulator.machine.cluster import Places
from simulator.machine.observer import TimingObserver
from simulator.program.kernel import Kernel, Operation
from simulator.program.sass import Function
from simulator.simulation.assumed import assumed_tables, tables_of
from simulator.simulation.demand import Work
from simulator.simulation.launch.batches import TRY_CANCEL, Setup, takes_over
from simulator.simulation.launch.chains import links, marks, may_wait
from simulator.simulation.launch.placement import TURNS, Placement
from simulator.simulation.launch.recording import Recording, work_of_recordings
from simulator.simulation.listing import listing_of_launch
from simulator.simulation.observer import TimeView
from simulator.timing.result import Timing
from simulator.timing.run import simulate


@dataclass(frozen=True)
class LaunchTiming:
    """The time of a launch.

    Attributes:
        config: the chip's name.
        config_path: the file of a config that does not come with tcsim; empty for one that does.
        config_overrides: what was set over the config's values, "key=value; key=value"; empty if nothing was.
        cycles: in which the SM with most CTAs is busy.
        time_us: the same at the clock of the config.
        placement: which CTAs that SM executed.
        active_warps: warps that are on it at a time.
        machine_instructions: of all warps of the launch, as ptxas is taken to write them.
        stalls: cycles of the SM's warps by cause.
        throughput: multiply-adds a cycle and SM, pruned products included, over the whole launch.
        tensor_busy: the share of cycles in which the SM's tensor cores multiply (`Timing.tensor_share`).
        units_busy: for the units of wgmma and tcgen05, by name, the share of cycles in which the SM's takes no other
            instruction; none that was never taken.
        work: the least work of that SM, for a roofline.
        order: whose order instructions are in: "machine code of FILE", or "schedule of the PTX".
        lost: the share of warps that took the schedule of the PTX although machine code is given.
        assumed: tables of the config that the time rests on, although nobody measured or published them.
    """

    config: str
    config_path: str
    config_overrides: str
    cycles: int
    time_us: float
    placement: Placement
    active_warps: int
    machine_instructions: int
    stalls: Mapping[str, int]
    throughput: float
    tensor_busy: float
    work: Work
    order: str = "schedule of the PTX"
    lost: float = 0.0
    units_busy: Mapping[str, float] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()

    @property
    def config_label(self) -> str:
        """The config as texts name it: with its path, if it is not one of tcsim's own, and with what was set."""
        return config_label(self.config, self.config_path, self.config_overrides)

    def as_dict(self) -> dict[str, Any]:
        """The timing for JSON."""
        placement = self.placement
        return {
            "config": self.config_label,
            "cycles": self.cycles,
            "time_us": self.time_us,
            "throughput_fma_per_clk_sm": self.throughput,
            "tensor_busy": self.tensor_busy,
            "units_busy": dict(self.units_busy),
            "ctas_per_sm": placement.resident,
            "limited_by": placement.limit,
            "clusters_at_once": placement.clusters if placement.size > 1 else 0,
            "registers": placement.registers,
            "active_warps": self.active_warps,
            "machine_instructions": self.machine_instructions,
            "order": self.order,
            "warps_without_machine_code": self.lost,
            "stalls": dict(self.stalls),
            "assumed": list(self.assumed),
        }


def check_timed(kernel: Kernel, config: Config) -> None:
    """Raises ConfigError if a kernel has instructions that have no time in launches."""
    if takes_over(kernel):
        reason = f"'{TRY_CANCEL}' is executed, but has no time yet: which CTA takes over what depends on it"
        raise ConfigError(config.path, "chip", reason, "a launch without a config, which gives the values")


def time_of(
    setup: Setup, config: Config, recordings: Sequence[Recording], placement: Placement, fma: int, *,
    timeline: TimeView | None = None, cold: bool = False, function: Function | None = None,
) -> LaunchTiming:  # fmt: skip
    """The time of a launch from what the CTAs of `placement` did.

    Args:
        setup: its kernel's registers have numbers of their own (`link` with allocate=False).
        fma: multiply-adds of the whole launch.
        timeline: gets what happens when.
        cold: whether all data begin in device memory, and not in L2.
        function: its machine code; None: the PTX in an order that imitates ptxas.

    Raises:
        ConfigError: a config that has no times for an instruction.
        MachineCodeError: machine code of another PTX.
    """
    code = machine_code(setup.kernel) if function is None else GivenCode(setup.kernel, function)
    warps, size = setup.geometry.warps, placement.size
    sms = min(placement.clusters * size, setup.geometry.ctas)
    by_cta = {recording.cta: recording for recording in recordings}
    chain = links(recordings, setup.kernel) if may_wait(setup, config) else []
    known: dict[str, Any] = {"size": size, "places": placement.places, "marks": {}, "apart": size}
    timed = _Timed(code, config, by_cta, warps, sms, cold, **known)
    slots = placement.slots
    if chain:
        found = marks(chain, list(by_cta), warps)
        timed, slots = replace(timed, marks=found, apart=len(by_cta), places=1), tuple((cta,) for cta in by_cta)
    codes = timed.codes(slots)
    try:
        timing = timed.timing(slots, codes, timeline.recorder if timeline is not None else None)
    except DeadlockError:  # an order of instructions with which CTAs would wait for each other
        if not chain or timeline is not None:
            raise
        chain, slots = [], placement.slots
        timed = _Timed(code, config, by_cta, warps, sms, cold, **known)
        timing = timed.timing(slots, timed.codes(slots))
    if timeline is not None:
        mine = warps * len(slots) // timed.apart
        timeline.close(listing_of_launch(setup.kernel, codes, slots, mine, apart=timed.apart), config, timing)
    start = config.launch.start_cycles if config.launch is not None else 0
    cycles = timing.cycles + start
    if placement.left:
        shorter = tuple(slot[: TURNS - 1] for slot in placement.slots)
        cycles += placement.left * (timing.cycles - timed.timing(shorter, timed.codes(shorter)).cycles)
    issued = machine_instructions(code, by_cta.values())
    stalls = np.array(list(timing.waits.values())).sum(axis=0) if timing.waits else np.zeros(len(StallReason), np.int64)
    whole = max(timing.cycles, 1)
    taken = {name: sum(busy for busy, _ in unit) / len(unit) / whole for name, unit in timing.units.items()}
    return LaunchTiming(
        config=config.name,
        config_path=config.own_path,
        config_overrides=config.overridden,
        cycles=cycles,
        time_us=cycles / config.chip.clock_mhz,
        placement=placement,
        active_warps=warps * placement.places,
        machine_instructions=round(issued * setup.geometry.ctas / max(len(by_cta), 1)),
        stalls={reason.name.lower(): int(stalls[reason]) for reason in StallReason if stalls[reason]},
        throughput=fma / cycles / config.chip.sms,
        tensor_busy=timing.tensor_share,
        units_busy=taken,
        assumed=tuple(_assumed(config, setup.kernel, recordings, cold)),
        work=work_of_recordings(config, setup.kernel, [by_cta[cta] for cta in placement.ctas]).times(placement.whole),
        order=f"machine code of {function.path}" if function is not None else "schedule of the PTX",
        lost=lost_share(code, by_cta.values()),
    )


def timing_of_cluster(code: Code, config: Config, recordings: Sequence[Recording], warps: int, sms: int) -> Timing:
    """The run of the CTAs of one cluster, of so many warps each, beside so many SMs that do the same and share L2."""
    by_cta = {recording.cta: recording for recording in recordings}
    size = len(by_cta)
    timed = _Timed(code, config, by_cta, warps, sms, False, size, 1, {}, size)
    slots = [(cta,) for cta in by_cta]
    return timed.timing(slots, timed.codes(slots))


def _assumed(config: Config, kernel: Kernel, recordings: Sequence[Recording], cold: bool) -> list[str]:
    """The assumed tables of the config that the time of these CTAs rests on."""
    steps = [step for recording in recordings for steps in recording.steps for step in steps]
    executed = [kernel.items[place] for place in {step.place for step in steps}]
    forms = {item.instruction.form for item in executed if isinstance(item, Operation)}
    facts = {step.fact for step in steps if step.fact is not None}
    tables = tables_of(config, forms, facts) | {"issue", "launch", *config.changed}
    if "memory" in tables:
        tables |= {"l2", "hbm"} if cold else {"l2"}
    return assumed_tables(config, tables & config.sources.keys())


@dataclass(frozen=True)
class _Timed:
    """Times what some CTAs of a launch did on an SM.

    Attributes:
        recordings: of the CTAs, by number.
        warps: of a CTA.
        sms: how many are busy at the same time.
        cold: whether all data begin in device memory.
        size: CTAs of a cluster.
        places: CTAs that each SM holds at a time.
        marks: what happens between CTAs that are timed together, as of `Replay`.
        apart: how many SMs are timed together: with a CTA each, or those of a cluster.
    """

    machine: Code
    config: Config
    recordings: Mapping[int, Recording]
    warps: int
    sms: int
    cold: bool
    size: int
    places: int
    marks: Mapping[tuple[int, int], Marks]
    apart: int

    @cached_property
    def _replay(self) -> Replay:
        return Replay(self.machine, self.config, self.warps, self.marks, Clusters(self.size, self.places))

    def codes(self, slots: Sequence[Sequence[int]]) -> list[TimedCode]:
        """What the warps of the SM execute, where these CTAs have its places one after the other."""
        return self._replay.codes(
            Resident(slot, slot * self.warps + warp, [self.recordings[cta].steps[warp] for cta in ctas])
            for slot, ctas in enumerate(slots)
            for warp in range(self.warps)
        )

    def timing(
        self, slots: Sequence[Sequence[int]], codes: list[TimedCode], observer: TimingObserver | None = None
    ) -> Timing:
        """How long these codes of the CTAs in `slots` take."""
        warps = sum(len(code.warps) for code in codes) // self.apart
        how: dict[str, Any] = {"skip": False, "sms": self.sms, "observer": observer, "cold": self.cold}
        how["ctas"], how["places"] = self.apart, self._homes(slots)
        return simulate(self.config, codes, warps, **how)

    def _homes(self, slots: Sequence[Sequence[int]]) -> Places:
        """Where the CTAs of clusters are, and how many arrive at their barriers."""
        each = len(slots) // self.apart
        homes = {cta: slot // each for slot, ctas in enumerate(slots) for cta in ctas}
        arrivals: Counter[Barrier] = Counter()
        for steps in (steps for cta in homes for steps in self.recordings[cta].steps):
            facts = (step.fact for step in steps if isinstance(step.fact, ArriveFacts))
            arrivals.update(fact.barrier for fact in facts if fact.barrier[0] == CLUSTER[0])
        if self.size > 1:
            clusters = Clusters(self.size, self.places)
            for slot, ctas in enumerate(slots):
                arrivals.update({clusters.end(slot, turn): self.warps for turn in range(1, len(ctas))})
        return Places(homes, arrivals, self.size)


def machine_instructions(code: Code, recordings: Iterable[Recording]) -> int:
    """Machine instructions that the warps of these CTAs issued."""
    sizes = [len(region.micros) for region in code.regions]
    return sum(
        sizes[segment.region] for recording in recordings for steps in recording.steps for segment in code.way(steps)
    )


def lost_share(code: Code, recordings: Iterable[Recording]) -> float:
    """The share of warps whose way through given machine code was not found."""
    if not isinstance(code, GivenCode):
        return 0.0
    lost = [code.lost(steps) for recording in recordings for steps in recording.steps]
    return sum(lost) / max(len(lost), 1)
