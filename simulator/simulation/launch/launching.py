"""Runs a kernel that is linked, on buffers that are placed: values, then time where a config is given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.arguments import flag, integer
from isa.errors import POLICIES
from isa.targets import parse_target
from simulator.chip.config import Config, load_config
from simulator.compiler.kernel.machine import machine_code
from simulator.errors import check_option
from simulator.execute.geometry import Dim
from simulator.execute.policy import parse_policy
from simulator.parallel import MOST_WORKERS, cores
from simulator.program.kernel import Kernel, link
from simulator.simulation.launch.batches import Executed, Setup, execute, record, shared_copy, shared_storage
from simulator.simulation.launch.chains import may_wait
from simulator.simulation.launch.completion import CompletionResult, changed, is_asynchronous
from simulator.simulation.launch.errors import LaunchError
from simulator.simulation.launch.given import longest, machine_code_of
from simulator.simulation.launch.place import SHARED_BYTES, checked, dim
from simulator.simulation.launch.placement import placed_on_sm
from simulator.simulation.launch.recording import Recording
from simulator.simulation.launch.report import LaunchReport, counted
from simulator.simulation.launch.run import BUDGET
from simulator.simulation.launch.timing import check_timed, time_of, timing_of_cluster
from simulator.simulation.observer import TimeView, check_unused
from simulator.state.device_memory import DeviceMemory
from simulator.timing.result import Timing

ARITHMETIC = ("chip", "exact", "none")
MOST_SMS = 1 << 16
MOST_BUDGET = 2**63 - 1
WORKSPACE, WORKSPACE_BYTES = "grid workspace", 16  # two counters: driver_abi.h of cooperative groups, CUDA 13.0
MOST_REGISTERS = 255  # of a thread: PTX ISA, and all chips of 7.0 and later


@dataclass(frozen=True)
class Options:
    """How a launch runs.

    Attributes:
        config: name or path of a config, a loaded one, or None for values alone.
        dynamic_shared: dynamic shared memory of a CTA in bytes.
        cooperative: whether the CTAs of the grid meet (`grid.sync()`), so that all of them run at a time.
        cluster: CTAs of a cluster, up to three numbers, x first; None: as the kernel's directives say, or else one.
        target: the chip whose arithmetic is used; None: the config's, or else the module's own.
        arithmetic: "chip", "exact", or "none" for time alone: only the CTAs that are timed are executed, results of
            matrix instructions are left out, and no buffer is written.
        undefined: "hardware" or "raise".
        budget: warp instructions after which the launch is given up.
        workers: processes; 0: as many as there are cores.
        cold: whether, for the time, all data begin in device memory and not in L2.
        registers: of a thread, as ptxas -v prints; None: estimated.
        timeline: gets what happens when on the SM with most CTAs, and where its time goes (`simulator.Timeline`); of
            one launch alone.
        sms: SMs of the chip where no config is given; 0: unknown. It decides which CTAs have started when a kernel asks
            to take over the work of others, and %nsmid.
        machine_code: path of what `nvdisasm -c -gp` prints of the kernel, or of a cubin; None: the PTX alone.
        completion: when asynchronous operations complete: "issue", "earliest", "latest" or "seed:N".
        compared: whether the result of another completion than that at issue is compared with it, in a second run.
    """

    config: str | Path | Config | None = None
    dynamic_shared: int = 0
    cooperative: bool = False
    cluster: int | Sequence[int] | None = None
    target: str | None = None
    arithmetic: str = "chip"
    undefined: str = "hardware"
    budget: int = BUDGET
    workers: int = 0
    cold: bool = False
    registers: int | None = None
    timeline: TimeView | None = None
    machine_code: str | Path | None = None
    completion: str = "issue"
    compared: bool = True
    sms: int = 0

    def __post_init__(self) -> None:
        """Raises IsaError for what no option can be: a caller from Python may pass anything."""
        check_option("arithmetic", self.arithmetic, ARITHMETIC)
        check_option("undefined", self.undefined, POLICIES)
        integer(self.budget, 1, MOST_BUDGET, "budget")
        integer(self.sms, 0, MOST_SMS, "SMs")
        integer(self.workers, 0, MOST_WORKERS, "workers")
        integer(self.dynamic_shared, -MOST_BUDGET, MOST_BUDGET, "bytes of dynamic shared memory")
        flag(self.cold, "cold")
        flag(self.compared, "compared")
        parse_policy(self.completion)
        flag(self.cooperative, "cooperative")
        if self.registers is not None:
            integer(self.registers, 1, MOST_REGISTERS, "registers")


def run_launch(
    kernel: Kernel, grid: Dim, block: Dim, memory: DeviceMemory, params: NDArray[np.uint8], options: Options
) -> LaunchReport:
    """Runs a launch; the buffers of `memory` hold its results.

    Raises:
        LaunchError: a geometry that no chip takes, or what goes wrong in the kernel.
        ConfigError: a config that cannot be used.
        ViewError: a timeline that has been used, or of a launch without a config.
    """
    config, timed_alone = _config(options), options.arithmetic == "none"
    if config is not None:
        check_timed(kernel, config)
    elif timed_alone:
        raise LaunchError("arithmetic 'none' without a config", "a config: its time is all that is asked for")
    check_unused(options.timeline, config is not None)
    setup = prepare(kernel, grid, block, memory, params, options)
    workers = options.workers or cores()
    numbered = setup
    if config is not None:
        numbered = replace(setup, kernel=link(kernel.module, kernel.name, allocate=False, fmad=kernel.fmad))
    function = machine_code_of(kernel, config, options.machine_code)
    registers = options.registers or (function.registers if function is not None else None)
    placement = placed_on_sm(numbered, config, registers) if config is not None else None
    recordings: Sequence[Recording] = []
    if config is not None and placement is not None and function is not None:
        placement, recordings = longest(setup, config, placement)
    elif placement is not None and config is not None:
        every = may_wait(setup, config)
        recordings = record(setup, np.arange(setup.geometry.ctas) if every else placement.ctas)
    executed, result = (_estimated(setup, recordings), None) if timed_alone else _executed(setup, workers, options)
    opcodes, tensor, fma = counted(kernel, executed)
    timing = None
    if config is not None and placement is not None:
        how: dict[str, Any] = {"timeline": options.timeline, "cold": options.cold, "function": function}
        timing = time_of(numbered, config, recordings, placement, fma, **how)
    return LaunchReport(
        kernel=kernel.name,
        grid=setup.geometry.grid,
        block=block,
        cluster=setup.geometry.cluster,
        arrays={},
        warp_instructions=int(executed.counts.sum()),
        instructions=opcodes,
        tensor_instructions=tensor,
        fma=fma,
        undefined=executed.undefined,
        target=str(setup.target),
        executions=executed.counts,
        timing=timing,
        printed=executed.printed,
        completion=result,
    )


def _executed(setup: Setup, workers: int, options: Options) -> tuple[Executed, CompletionResult | None]:
    """Runs the CTAs; besides, what another completion than that at issue has found."""
    policy = parse_policy(options.completion)
    if policy.name == "issue":
        return execute(setup, workers), None
    kernel = setup.kernel
    if not is_asynchronous(kernel):
        return execute(setup, workers), CompletionResult(str(policy), (), () if options.compared else None)
    numbered = link(kernel.module, kernel.name, allocate=False, fmad=kernel.fmad)
    at_issue = replace(setup, memory=shared_copy(setup.memory))
    if options.compared:
        execute(at_issue, workers)
    executed = execute(replace(setup, kernel=numbered, completion=policy), workers)
    differences = changed(setup.memory, at_issue.memory) if options.compared else None
    return executed, CompletionResult(str(policy), executed.found.missing(numbered), differences)


def _estimated(setup: Setup, recordings: Sequence[Recording]) -> Executed:
    """About what all CTAs execute, if each of them does what those that were recorded do."""
    counts = np.zeros(len(setup.kernel.items), np.int64)
    for steps in chain.from_iterable(recording.steps for recording in recordings):
        np.add.at(counts, [step.place for step in steps], 1)
    return Executed(counts * setup.geometry.ctas // max(len(recordings), 1))


def time_one_cluster(
    kernel: Kernel, block: Dim, memory: DeviceMemory, params: NDArray[np.uint8], options: Options, sms: int
) -> Timing:
    """The run of the CTAs of one cluster (of a kernel without clusters one), each alone on an SM of the config, beside
    so many SMs that do the same and share L2.

    Raises:
        LaunchError, ConfigError: as of `run_launch`.
    """
    config = _config(options)
    assert config is not None
    check_timed(kernel, config)
    cluster = dim(options.cluster or 1, "cluster")
    setup = prepare(kernel, cluster, block, memory, params, options)
    recordings = record(setup, np.arange(setup.geometry.ctas))
    numbered = link(kernel.module, kernel.name, allocate=False, fmad=kernel.fmad)
    return timing_of_cluster(machine_code(numbered), config, recordings, setup.geometry.warps, sms)


def _config(options: Options) -> Config | None:
    return load_config(options.config) if options.config is not None and options.config != "none" else None


def prepare(
    kernel: Kernel, grid: Dim, block: Dim, memory: DeviceMemory, params: NDArray[np.uint8], options: Options
) -> Setup:
    """A launch that is ready to run: its geometry is checked, and the module's variables are placed."""
    config = _config(options)
    most_shared = config.sm.shared_bytes if config is not None else SHARED_BYTES
    target = parse_target(str(options.target or (config.target if config is not None else kernel.module.target)))
    cluster = None if options.cluster is None else dim(options.cluster, "cluster")
    geometry = checked(kernel, grid, block, cluster, target, options.dynamic_shared, most_shared)
    for image in kernel.images:
        held = next((each for each in memory.buffers if each.address == image.address), None)
        if held is not None and held.size == len(image.data):  # it keeps what earlier launches have left in it
            held.constant = image.constant
            continue
        buffer = memory.place(
            image.name, len(image.data), image.address, storage=shared_storage(len(image.data)), constant=image.constant
        )
        buffer.data[:] = np.frombuffer(image.data, np.uint8)
    workspace = memory.place(WORKSPACE, WORKSPACE_BYTES).address if options.cooperative else 0
    return Setup(
        kernel,
        geometry,
        memory,
        params,
        options.dynamic_shared,
        target,
        arithmetic=options.arithmetic,
        undefined=options.undefined,
        budget=options.budget,
        sms=config.chip.sms if config is not None else options.sms,
        workspace=workspace,
    )
