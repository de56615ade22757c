"""A program with its data on a chip, ready to run any number of times from the same initial state.

    >>> from simulator.simulation.session import Session
    >>> session = Session("digits/f16", "h100_sxm")
    >>> session.run().arrays["d"].shape == session.run().arrays["d"].shape
    True

The dynamic instruction of a warp is the number of operations that it has executed before: barriers and what is behind a
false guard count, ends of loops do not. Warps are numbered over all CTAs: warp w of CTA c is c * (warps of a CTA) + w.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from isa.targets import Target, parse_target
from simulator.chip.config import Config, load_config
from simulator.compiler.timed_code import TimedCode
from simulator.errors import ConfigError
from simulator.execute.barrier import ClusterBarrier
from simulator.execute.cta_state import CtaState
from simulator.floating_point import guarded
from simulator.machine.observer import TimingObserver
from simulator.program.data import Change, load_all
from simulator.program.lowering import Code, Operation, in_order
from simulator.program.program import Program
from simulator.program.reader import load
from simulator.progress import Progress
from simulator.simulation.interpreter import Executed, interpret
from simulator.simulation.observer import Observer
from simulator.simulation.timed import check_config, compiled, timed_codes
from simulator.state import RegisterFile, SharedMemory
from simulator.state.carried import CarryingRegisters
from simulator.state.global_memory import GlobalMemory
from simulator.state.mbarrier import OrderedMemory
from simulator.timing.recorder import Recorder
from simulator.timing.result import Timing
from simulator.timing.run import simulate

NO_CONFIG = "none"  # the name of no config
_SLOTS = 64  # warps that an SM has room for, where no config says it
_FOREVER = 1 << 62


class Session:
    """A program on a chip.

    Args:
        source: what `simulator.program.load` takes: a path, a name, a text or a program.
        config: name, path or value of a config, for its chip and its time; None or "none": values alone, as the chip of
            the program's own target gives them.
        target: the chip whose arithmetic is used, in place of the config's.
        arithmetic: "chip", "exact" or "none".
        undefined: "hardware" or "raise".
        compare: how many matrix instructions of a run to compare with the exact result.
        timed: whether runs note how long accesses keep shared memory busy, which `time` needs.

    Raises:
        TraceError, ConfigError, IsaError: a program, a config or a target that cannot be used, or that do not go
            together.
    """

    @guarded
    def __init__(
        self,
        source: str | Path | Program,
        config: str | Path | Config | None = None,
        *,
        target: str | None = None,
        arithmetic: str = "chip",
        undefined: str = "hardware",
        compare: int = 0,
        timed: bool = True,
    ) -> None:
        self.config: Config | None = None
        if config is not None and config != NO_CONFIG:
            self.config = load_config(config)
        self.program = load(source)
        self.target: Target = (
            parse_target(target) if target else self.config.target if self.config else self.program.target
        )
        self.arithmetic, self.undefined, self.compare, self.timed = arithmetic, undefined, compare, timed
        self.slots = self.config.sm.warps if self.config else _SLOTS

    # State

    def fresh(self, *, carries: bool = False, change: Change | None = None) -> list[CtaState]:
        """New CTAs, which know each other, filled by the program's `.load`s; TraceError for data that cannot be
        loaded. With `carries` their matrix results are exact, and go from instruction to instruction unrounded;
        `change` gives other arrays to load, as in `load_all`."""
        machines = self._empty(carries=carries)
        load_all(self.program, *machines, change=change)
        return machines

    @cached_property
    def initial(self) -> list[CtaState]:
        """The CTAs before a run; not to be run, and not to be changed after the first run."""
        return self.fresh()

    def copies(self) -> list[CtaState]:
        """Copies of the initial state, to run or to change."""
        copied = self._empty()
        for machine, loaded in zip(copied, self.initial, strict=True):
            machine.registers.copy_from(loaded.registers)
            machine.shared.data[:] = loaded.shared.data
            if "tmem" in vars(loaded):
                machine.tmem.words[:], machine.tmem.written[:] = loaded.tmem.words, loaded.tmem.written
        copied[0].memory.data[:] = self.initial[0].memory.data
        return copied

    def _empty(self, *, carries: bool = False) -> list[CtaState]:
        program, machines = self.program, list[CtaState]()
        cluster = ClusterBarrier((code.cta, warp) for code in program.codes if code.items for warp in code.warps)
        ordered = program.ctas > 1 or any(op.instruction.form.asynchronous for op, _ in program.operations)
        outside = GlobalMemory(program.global_bytes)
        for rank in range(program.ctas):
            machine = CtaState(
                (CarryingRegisters if carries else RegisterFile)(program.warps, *program.numbering),
                (OrderedMemory if ordered else SharedMemory)(program.shared_bytes, program.warps * program.ctas),
                program.warps,
                self.target,
                slots=self.slots,
                rank=rank,
                cluster=cluster,
                memory=outside,
                carries=carries,
            )
            machine.arithmetic = "exact" if carries else self.arithmetic
            machine.undefined = self.undefined
            machine.compare, machine.timed = self.compare, self.timed and machine.arithmetic == self.arithmetic
            machines.append(machine)
        if len(machines) == 2:
            machines[0].peer, machines[1].peer = machines[1], machines[0]
        return machines

    # Values

    @guarded
    def run(
        self, *observers: Observer, machines: list[CtaState] | None = None, progress: Progress | None = None
    ) -> Executed:
        """One run from the initial state, or from that of `machines`; errors as `simulator.simulation.interpreter`'s
        `interpret`."""
        machines = self.copies() if machines is None else machines
        return interpret(self.program, machines, observers, progress=progress)

    # What runs

    @property
    def warps(self) -> int:
        """Warps of all CTAs."""
        return self.program.warps * self.program.ctas

    def code_of(self, warp: int) -> Code | None:
        """The code of a warp."""
        cta, local = divmod(warp, self.program.warps)
        return next((code for code in self.program.codes if code.cta == cta and local in code.warps), None)

    @cached_property
    def sequences(self) -> dict[int, NDArray[np.int32]]:
        """By warp, the places of its dynamic instructions in its code."""
        sequences: dict[int, NDArray[np.int32]] = {}
        for code in self.program.codes:
            sequence = np.array([operation.index for operation in in_order(code)], np.int32)
            sequences |= {code.cta * self.program.warps + warp: sequence for warp in code.warps}
        return sequences

    def operation(self, warp: int, index: int) -> Operation | None:
        """A dynamic instruction; None behind the last."""
        sequence, code = self.sequences.get(warp), self.code_of(warp)
        if sequence is None or code is None or not 0 <= index < len(sequence):
            return None
        return cast(Operation, code.items[sequence[index]])

    # Time

    @property
    def chip(self) -> Config:
        """The config; ConfigError without one."""
        if self.config is None:
            raise ConfigError(NO_CONFIG, "", "values without a chip take no time", "a config, such as h100_sxm")
        return self.config

    @guarded
    def check(self) -> None:
        """TraceError or ConfigError for what the config's chip cannot run or time, before anything is computed."""
        check_config(self.program, self.chip)
        self._compiled  # noqa: B018 - finds what has no time

    @cached_property
    def _compiled(self) -> list[TimedCode]:
        return compiled(self.program, self.chip)

    @guarded
    def time(
        self,
        executed: Executed | None = None,
        *,
        skip: bool = True,
        sms: int = 1,
        observer: TimingObserver | None = None,
        flat: bool = True,
        progress: Progress | None = None,
    ) -> Timing:
        """The cycles of a run.

        Args:
            executed: the run for its values; None: one that computes no matrix results.
            skip: whether repetitions of a loop may be skipped; the cycles are the same.
            sms: SMs of the chip that do the same at the same time and share L2.
            observer: is told what happens when.
            flat: whether a run that computes no results may skip what happens again; the cycles are the same.
            progress: is told now and then how much is timed.

        Raises:
            ConfigError: something that takes a time that the config does not tell.
            DeadlockError: warps that wait for what never comes.
        """
        executed = executed or self.without_results(flat)
        codes = timed_codes(self.program, self._compiled, executed, self.chip)
        return simulate(
            self.chip,
            codes,
            self.program.warps,
            skip=skip,
            ctas=self.program.ctas,
            sms=sms,
            observer=observer,
            progress=progress,
        )

    def without_results(self, flat: bool = True) -> Executed:
        """A run that computes no matrix results: what `time` needs."""
        machines = self.copies()
        for machine in machines:
            machine.arithmetic, machine.compare, machine.timed = "none", 0, True
        return interpret(self.program, machines, flat=flat, lean=flat and self.undefined == "hardware")

    @cached_property
    def issue_cycles(self) -> dict[int, NDArray[np.int64]]:
        """By warp, the cycle in which each of its dynamic instructions issues; errors as `time`."""
        self.check()
        recorder = Recorder((0, _FOREVER))
        self.time(skip=False, observer=recorder)
        cycles: dict[int, list[int]] = {warp: [] for warp in self.sequences}
        for issue in recorder.issues:
            cycles[issue.warp].append(issue.cycle)
        assert all(len(cycles[warp]) == len(self.sequences[warp]) for warp in cycles), (
            "one issue for each dynamic instruction"
        )
        return {warp: np.array(issued, np.int64) for warp, issued in cycles.items()}

    def instruction_at(self, warp: int, cycle: NDArray[np.integer]) -> NDArray[np.int64]:
        """The first dynamic instruction that a warp issues in these cycles or later; their number where it issues none
        any more."""
        return np.searchsorted(self.issue_cycles[warp], cycle, side="left").astype(np.int64)
