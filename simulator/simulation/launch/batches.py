"""Runs the CTAs of a launch, batch by batch, in this process or in several."""

from __future__ import annotations

import mmap
import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from isa.errors import Error
from isa.forms.synchronisation import is_mbarrier_wait, sees_other_threads
from isa.targets import Target
from simulator.execute.geometry import Batch, Geometry, Unstarted
from simulator.execute.launch_state import Asynchronous, LaunchState, launch_state
from simulator.execute.policy import Policy
from simulator.parallel import ALONE, RemoteTraceback, begin_worker, sendable, undisturbed
from simulator.program.kernel import Kernel, Operation, SystemCall
from simulator.simulation.launch.completion import Found, accumulators, watched
from simulator.simulation.launch.errors import LaunchError
from simulator.simulation.launch.interpreter import prepared
from simulator.simulation.launch.recording import Recorder, Recording
from simulator.simulation.launch.run import BUDGET, Code, Run
from simulator.state.device_memory import DeviceMemory
from simulator.state.typed_views import padded

ROWS = 512  # warps that run in lock step: a register of all of them, 64 KB, still fits a core's cache
TRY_CANCEL = "clusterlaunchcontrol.try_cancel"
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
        completion: when asynchronous operations complete, whose waits and fences are looked for then (the kernel must
            be linked with `allocate=False`); None: at issue, and nobody looks.
        sms: SMs of the chip; 0: no chip is named.
        workspace: address of what the CTAs of a cooperative launch meet at; 0 in other launches.
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
    sms: int = 0
    workspace: int = 0
    completion: Policy | None = None

    @cached_property
    def _asynchronous(self) -> Asynchronous | None:
        if self.completion is None:
            return None
        return Asynchronous(self.completion, [item.line for item in self.kernel.items], accumulators(self.kernel))

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a CTA, static and dynamic, in bytes."""
        if self.dynamic_shared == 0:
            return self.kernel.shared_bytes
        return self.kernel.dynamic_offset + self.dynamic_shared

    def state(
        self,
        ctas: NDArray[np.int64],
        *,
        timed: bool = False,
        unstarted: Unstarted | None = None,
    ) -> LaunchState:
        """The state of these CTAs before their first instruction; `unstarted`: those that have not started."""
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
            timed=timed,
            arithmetic=self.arithmetic,
            undefined=self.undefined,
            sms=max(self.sms, 1),
            workspace=self.workspace,
            asynchronous=self._asynchronous,
            unstarted=unstarted,
        )


@dataclass
class Executed:
    """What running a launch gave, besides the bytes in memory.

    Attributes:
        counts: by place, how often a warp executed the item.
        undefined: how often each undefined case occurred, by name.
        multiplied: multiply-adds of instructions whose operands say how many they are.
        recordings: of the CTAs that were to be recorded, in their order.
        printed: what the kernel has printed (`printf`).
        found: waits and fences that are missing.
    """

    counts: NDArray[np.int64]
    undefined: Counter[str] = field(default_factory=Counter)
    recordings: list[Recording] = field(default_factory=list)
    printed: str = ""
    found: Found = field(default_factory=Found)
    multiplied: int = 0

    def add(self, other: Executed) -> None:
        """Adds what another batch gave."""
        self.counts += other.counts
        self.undefined.update(other.undefined)
        self.recordings += other.recordings
        self.printed += other.printed
        self.found.add(other.found.met)
        self.multiplied += other.multiplied


def shared_storage(size: int) -> NDArray[np.uint8]:
    """Storage of a buffer, zeros, that processes which are forked later share: uint8 [padded to 16]."""
    length = padded(size)
    if length == 0:
        return np.zeros(0, np.uint8)
    return np.frombuffer(mmap.mmap(-1, length), np.uint8)


def shared_copy(memory: DeviceMemory) -> DeviceMemory:
    """The same buffers with the same bytes, which processes that are forked later share."""
    other = DeviceMemory()
    for buffer in memory.buffers:
        storage = shared_storage(buffer.size)
        storage[:] = buffer.storage
        other.place(buffer.name, buffer.size, buffer.address, storage=storage, constant=buffer.constant)
    return other


def rows_of(ctas: NDArray[np.integer], warps: int) -> NDArray[np.int64]:
    """The warps that are the rows of a batch of CTAs, of so many warps each: int64 [row]."""
    return np.asarray((ctas[:, None] * warps + np.arange(warps)).ravel(), np.int64)


def batches(setup: Setup, ctas: NDArray[np.int64] | None = None) -> list[NDArray[np.int64]]:
    """CTAs of a launch (None: all) in the portions that run in lock step: int64 [CTA] each, whole clusters together,
    and all CTAs of a cooperative launch.

    Raises:
        LaunchError: a cooperative launch of more CTAs than run at a time.
    """
    geometry = setup.geometry
    ctas = np.arange(geometry.ctas) if ctas is None else ctas
    each = int(np.prod(geometry.cluster))
    if each > 1:
        ctas = geometry.whole_clusters(ctas)
    row_bytes = 128 * max(setup.kernel.numbering.words_each, 1)
    most = REGISTER_BYTES // row_bytes
    if setup.workspace:
        if len(ctas) * geometry.warps > most:
            reason = f"a cooperative launch of {len(ctas)} CTAs, of which {most // geometry.warps} run at a time"
            raise LaunchError(reason, "fewer CTAs", rule="cooperative-launch")
        return [ctas]
    rows = max(min(ROWS, most), 1)
    size = max(rows // geometry.warps // each * each, each)
    if takes_over(setup.kernel):
        size = min(size, _resident(setup))
    return [ctas[first : first + size] for first in range(0, len(ctas), size)]


def _resident(setup: Setup) -> int:
    """CTAs that run at a time, whole clusters, where a kernel may take over the work of others: one on each SM of the
    chip, and half of the launch where no chip is named (assumed)."""
    each = int(np.prod(setup.geometry.cluster))
    return max((setup.sms or -(-setup.geometry.ctas // 2)) // each, 1) * each


def starting(setup: Setup, portions: list[NDArray[np.int64]]) -> Iterator[tuple[NDArray[np.int64], Unstarted]]:
    """The portions as they start, each with the CTAs that have not started: these may be fewer when the next portion
    starts, if running CTAs take their work over."""
    waiting = Unstarted(setup.geometry, np.concatenate(portions) if portions else np.zeros(0, np.int64))
    for portion in portions:
        ctas = waiting.start(len(portion))
        if not len(ctas):
            return
        yield ctas, waiting


def record(setup: Setup, ctas: NDArray[np.int64]) -> list[Recording]:
    """What the warps of some CTAs do, int64 [CTA]. They run on a copy of memory: what a launch computes does not depend
    on whether its time is asked for."""
    copied = replace(setup, memory=setup.memory.copied(), completion=None)
    portions = batches(setup) if waits_for_clusters(setup.kernel) else batches(setup, ctas)
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
    for ctas, unstarted in starting(setup, portions):
        wanted = None if recorded is None else np.isin(ctas, recorded)
        timed = wanted is not None and bool(wanted.any())
        state = setup.state(ctas, timed=timed, unstarted=unstarted)
        state.names_sectors = timed
        recorder = Recorder(np.repeat(wanted, state.warps), stamp) if wanted is not None and timed else None
        watch = watched(state) if setup.completion is not None else None
        run = Run(code, state, budget, recorder, watch)
        run.run()
        recordings = recorder.recordings(ctas, state.warps, code.kernel) if recorder is not None else []
        stamp = recorder.stamp if recorder is not None else stamp
        found = Found(watch.met) if watch is not None else Found()
        counts, met = np.array(run.counts, np.int64), Counter(run.state.met)
        total.add(Executed(counts, met, recordings, run.printed, found, state.multiplied))
        budget = run.budget
    return total


def may_part(kernel: Kernel) -> bool:
    """Whether the CTAs of a kernel may run in several processes: none waits for another, and no order of theirs
    matters."""
    if ALONE or "fork" not in multiprocessing.get_all_start_methods():
        return False
    if any(isinstance(item, SystemCall) for item in kernel.items):
        return False
    return not names_in(kernel) & {"atom", "red", "cp.reduce.async.bulk", TRY_CANCEL}


def names_in(kernel: Kernel) -> set[str]:
    """The names of the instructions of a kernel."""
    return {item.instruction.form.name for item in kernel.items if isinstance(item, Operation)}


def takes_over(kernel: Kernel) -> bool:
    """Whether the CTAs of a kernel may take over the work of others that have not started."""
    return TRY_CANCEL in names_in(kernel)


def waits_for_others(kernel: Kernel) -> bool:
    """Whether the CTAs of a kernel may wait for one another: it looks at what other threads write."""
    return any(isinstance(item, Operation) and sees_other_threads(item.instruction.form) for item in kernel.items)


def waits_for_clusters(kernel: Kernel) -> bool:
    """Whether the CTAs of a kernel may wait for those of other clusters, or take over their work. An mbarrier is in
    shared memory, where those of the same cluster alone arrive."""
    forms = {item.instruction.form for item in kernel.items if isinstance(item, Operation)}
    return takes_over(kernel) or any(sees_other_threads(form) and not is_mbarrier_wait(form) for form in forms)


@dataclass(frozen=True)
class _Portion:
    """What became of a portion of the CTAs in another process.

    Attributes:
        number: of the portion.
        used: warp instructions that it took.
        gave: what it gave; None if it failed.
        error, told: the exception that ended it, and its traceback in words.
    """

    number: int
    used: int
    gave: Executed | None = None
    error: BaseException | None = None
    told: str = ""


def _in_processes(setup: Setup, code: Code, portions: list[NDArray[np.int64]], workers: int) -> Executed:
    """Forked processes that write to the same buffers; each takes every `workers`-th portion. What is raised is what
    one process would raise: the error of the first portion that fails."""
    context = multiprocessing.get_context("fork")
    failed = shared_storage(16).view(np.int64)  # the first portion that has failed; no later one is begun
    failed[0] = len(portions)
    running = []
    done: list[_Portion] = []
    try:
        with undisturbed():
            for first in range(workers):
                receiver, sender = context.Pipe(duplex=False)
                given = (setup, code, portions, range(first, len(portions), workers), failed, sender.send)
                process = context.Process(target=_work, args=given, daemon=True)
                process.start()
                sender.close()
                running.append((process, receiver))
        for process, receiver in running:
            try:
                done += receiver.recv()
            except EOFError:
                process.join()
                reason = f"a process that ran a part of the CTAs was ended from outside (exit code {process.exitcode})"
                raise LaunchError(reason, "the same command again, with fewer --workers") from None
            process.join()
    finally:
        for process, receiver in running:
            process.terminate()
            receiver.close()
    return _together(setup, code, portions, sorted(done, key=lambda portion: portion.number))


def _together(setup: Setup, code: Code, portions: list[NDArray[np.int64]], done: list[_Portion]) -> Executed:
    """What the portions gave, or the error that one process would have met: of the budget, all of them take."""
    total, left = Executed(np.zeros(len(setup.kernel.items), np.int64)), setup.budget
    for portion in done:
        stopped = isinstance(portion.error, LaunchError) and portion.error.rule == "instruction-budget"
        if left < setup.budget and (stopped or portion.used + 2 * ROWS > left):
            # it had more than one process would have left: where it would have stopped is found on a copy
            copied = replace(setup, memory=setup.memory.copied(), budget=max(left, 1))
            _in_turn(copied, code, portions[portion.number : portion.number + 1])
        left -= portion.used
        if portion.error is not None:
            raise portion.error from (None if isinstance(portion.error, Error) else RemoteTraceback(portion.told))
        if portion.gave is not None:
            total.add(portion.gave)
    return total


def _work(
    setup: Setup,
    code: Code,
    portions: list[NDArray[np.int64]],
    mine: range,
    failed: NDArray[np.int64],
    send: Callable[[list[_Portion]], None],
) -> None:
    """Runs in a forked process: sends what its portions came to."""
    begin_worker()
    done: list[_Portion] = []
    for number in mine:
        if number > failed[0]:
            break
        try:
            gave = _in_turn(setup, code, portions[number : number + 1])
        except Exception as error:
            failed[0] = min(failed[0], number)
            done.append(_Portion(number, 0, None, *sendable(error)))
            break
        done.append(_Portion(number, int(gave.counts.sum()), gave))
    with suppress(OSError):  # who waits for it may have gone
        send(done)
