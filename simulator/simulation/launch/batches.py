"""Runs the CTAs of a launch, batch by batch, in this process or in several."""

from __future__ import annotations

import mmap
import multiprocessing
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.forms.synchronisation import sees_other_threads
from isa.targets import Target
from simulator.execute.launch_state import Batch, Geometry, LaunchState, launch_state
from simulator.parallel import ALONE, end_with_parent
from simulator.program.kernel import Kernel, Operation, SystemCall
from simulator.simulation.launch.errors import LaunchError
from simulator.simulation.launch.interpreter import prepared
from simulator.simulation.launch.recording import Recorder, Recording
from simulator.simulation.launch.run import BUDGET, Code, Run
from simulator.state.device_memory import DeviceMemory
from simulator.state.typed_views import padded

ROWS = 512  # warps that run in lock step: a register of all of them, 64 KB, still fits a core's cache
REGISTER_BYTES = 1 << 29  # the most that the registers of a batch may take


@dataclass(frozen=True)
class Setup:
    """A launch that is ready to run.

    Attributes:
        kernel: what runs, linked.
        geometry: CTAs and threads.
        memory: the buffers of global memory.
        params: uint8 [byte]: the kernel's parameters.
        dynamic_shared: bytes of shared memory besides static variables.
        target: the chip whose arithmetic is used.
        arithmetic: "chip" or "exact".
        undefined: the policy for undefined cases, "hardware" or "raise".
        budget: warp instructions after which the launch is given up.
    """

    kernel: Kernel
    geometry: Geometry
    memory: DeviceMemory
    params: NDArray[np.uint8]
    dynamic_shared: int
    target: Target
    arithmetic: str = "chip"
    undefined: str = "hardware"
    budget: int = BUDGET
    sms: int = 1

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a CTA, static and dynamic, in bytes."""
        if self.dynamic_shared == 0:
            return self.kernel.shared_bytes
        return self.kernel.dynamic_offset + self.dynamic_shared

    def state(self, ctas: NDArray[np.int64], *, checked: bool = False, timed: bool = False) -> LaunchState:
        """The state of these CTAs before their first instruction."""
        kernel = self.kernel
        return launch_state(
            Batch(self.geometry, ctas),
            kernel.numbering,
            self.memory,
            self.params,
            self.target,
            shared_bytes=self.shared_bytes,
            local_bytes=kernel.local_bytes,
            dynamic_shared=self.dynamic_shared,
            checked=checked,
            timed=timed,
            arithmetic=self.arithmetic,
            undefined=self.undefined,
            sms=self.sms,
        )


@dataclass
class Executed:
    """What running a launch gave, besides the bytes in memory.

    Attributes:
        counts: by place, how often a warp executed the item.
        undefined: how often each undefined case occurred, by name.
        recordings: of the CTAs that were to be recorded, in their order.
        printed: what the kernel has printed (`printf`).
    """

    counts: NDArray[np.int64]
    undefined: Counter[str] = field(default_factory=Counter)
    recordings: list[Recording] = field(default_factory=list)
    printed: str = ""

    def add(self, other: Executed) -> None:
        """Adds what another batch gave."""
        self.counts += other.counts
        self.undefined.update(other.undefined)
        self.recordings += other.recordings
        self.printed += other.printed


def shared_storage(size: int) -> NDArray[np.uint8]:
    """Storage of a buffer, zeros, that processes which are forked later share: uint8 [padded to 16]."""
    length = padded(size)
    if length == 0:
        return np.zeros(0, np.uint8)
    return np.frombuffer(mmap.mmap(-1, length), np.uint8)


def batches(setup: Setup, ctas: NDArray[np.int64] | None = None) -> list[NDArray[np.int64]]:
    """CTAs of a launch (None: all) in the portions that run in lock step: int64 [CTA] each, whole clusters
    together."""
    geometry = setup.geometry
    ctas = np.arange(geometry.ctas) if ctas is None else ctas
    each = int(np.prod(geometry.cluster))
    row_bytes = 128 * max(setup.kernel.numbering.words_each, 1)
    rows = max(min(ROWS, REGISTER_BYTES // row_bytes), 1)
    size = max(rows // geometry.warps // each * each, each)
    return [ctas[first : first + size] for first in range(0, len(ctas), size)]


def record(setup: Setup, ctas: NDArray[np.int64]) -> list[Recording]:
    """What the warps of some CTAs do, int64 [CTA]. They run on a copy of memory: what a launch computes does not depend
    on whether its time is asked for."""
    copied = replace(setup, memory=setup.memory.copied())
    portions = batches(setup) if waits_for_others(setup.kernel) else batches(setup, ctas)
    return _in_turn(copied, prepared(setup.kernel), portions, ctas).recordings


def execute(setup: Setup, workers: int = 1) -> Executed:
    """Runs all CTAs of a launch.

    Args:
        workers: processes. More than one only where processes can be forked, and where the kernel has no atomic
            operations on global memory, whose order would not be that of one process.

    Raises:
        LaunchError: as `Run.run`.
    """
    code = prepared(setup.kernel)
    portions = batches(setup)
    if workers > 1 and len(portions) > 1 and may_part(setup.kernel):
        return _in_processes(setup, code, portions, min(workers, len(portions)))
    return _in_turn(setup, code, portions)


def _in_turn(
    setup: Setup, code: Code, portions: list[NDArray[np.int64]], recorded: NDArray[np.int64] | None = None
) -> Executed:
    """Runs portion after portion; `recorded` says of which CTAs what they do is noted."""
    total = Executed(np.zeros(len(setup.kernel.items), np.int64))
    budget, stamp = setup.budget, 0
    for ctas in portions:
        wanted = None if recorded is None else np.isin(ctas, recorded)
        timed = wanted is not None and bool(wanted.any())
        state = setup.state(ctas, timed=timed)
        state.names_sectors = timed
        recorder = Recorder(np.repeat(wanted, state.warps), stamp) if wanted is not None and timed else None
        run = Run(code, state, budget, recorder)
        run.run()
        recordings = recorder.recordings(ctas, state.warps, code.kernel) if recorder is not None else []
        stamp = recorder.stamp if recorder is not None else stamp
        total.add(Executed(np.array(run.counts, np.int64), Counter(run.state.met), recordings, run.printed))
        budget = run.budget
    return total


def may_part(kernel: Kernel) -> bool:
    """Whether the CTAs of a kernel may run in several processes: none waits for another, and no order of theirs
    matters."""
    if ALONE or "fork" not in multiprocessing.get_all_start_methods():
        return False
    if any(isinstance(item, SystemCall) for item in kernel.items):
        return False
    names = {item.instruction.form.name for item in kernel.items if isinstance(item, Operation)}
    return not names & {"atom", "red", "cp.reduce.async.bulk"}


def waits_for_others(kernel: Kernel) -> bool:
    """Whether the CTAs of a kernel may wait for one another: it looks at what other threads write."""
    return any(isinstance(item, Operation) and sees_other_threads(item.instruction.form) for item in kernel.items)


def _in_processes(setup: Setup, code: Code, portions: list[NDArray[np.int64]], workers: int) -> Executed:
    """Forked processes that write to the same buffers; each takes every `workers`-th portion."""
    context = multiprocessing.get_context("fork")
    running = []
    for number in range(workers):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_portion, args=(setup, code, portions[number::workers], sender.send))
        process.start()
        sender.close()
        running.append((process, receiver))
    results: list[Any] = []
    for process, receiver in running:
        try:
            results.append(receiver.recv())
        except EOFError:
            results.append(LaunchError(f"a process that ran a part of the CTAs ended (exit code {process.exitcode})"))
        process.join()
    total = Executed(np.zeros(len(setup.kernel.items), np.int64))
    for result in results:
        if isinstance(result, BaseException):
            raise result
        total.add(result)
    return total


def _portion(setup: Setup, code: Code, portions: list[NDArray[np.int64]], send: Callable[[Any], None]) -> None:
    """Runs in a forked process: sends what its portions gave, or the error."""
    end_with_parent()
    os.environ["TCSIM_THREADS"] = "1"
    try:
        send(_in_turn(setup, code, portions))
    except LaunchError as error:
        send(error)
