"""Launches of a host program: each runs on device memory as it is, and leaves poison where it goes wrong."""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isa.errors import Error
from simulator.chip.config import Config
from simulator.host.checking import ProgramCheck
from simulator.host.errors import Status, status_of, stays
from simulator.host.kernels import Modules
from simulator.host.memory import Arena
from simulator.program.capture_record import BufferSpec, Capture
from simulator.program.capture_writer import write_capture
from simulator.program.kernel import Kernel
from simulator.simulation.launch.errors import LaunchError
from simulator.simulation.launch.launching import Options, run_launch
from simulator.simulation.launch.run import BUDGET

if TYPE_CHECKING:
    from simulator.simulation.launch.report import LaunchReport
    from simulator.state.device_memory import DeviceMemory

Dim = tuple[int, int, int]
_SHOWN = 100  # characters of a kernel's name


@dataclass(frozen=True)
class Request:
    """A launch, as the program asks for it; a cluster of zeros: none was named."""

    module: int
    name: str
    grid: Dim
    block: Dim
    cluster: Dim
    shared: int
    parameters: bytes
    cooperative: bool = False


@dataclass(frozen=True)
class Launched:
    """A launch that has ended.

    Attributes:
        kernel: its name.
        grid, block, cluster: as it was asked for.
        status: what the program is told.
        message: what went wrong; "" if nothing.
        seconds: that it took to simulate.
        warp_instructions: that were executed.
        device_us: time on the chip in microseconds; None without --time.
        capture: the file that keeps it, or None.
        printed: what the kernel has printed.
        missing: waits and fences that are missing, in words.
    """

    kernel: str
    grid: Dim
    block: Dim
    cluster: Dim
    status: Status
    message: str
    seconds: float
    warp_instructions: int = 0
    device_us: float | None = None
    capture: Path | None = None
    printed: str = ""
    missing: tuple[str, ...] = ()

    def __str__(self) -> str:
        sizes = f"<<<{_shown(self.grid)}, {_shown(self.block)}>>>"
        cluster = f" clusters of {_shown(self.cluster)}" if any(self.cluster) else ""
        chip = "" if self.device_us is None else f", {self.device_us:.2f} us on the chip"
        end = f"{self.warp_instructions:,} warp instructions{chip}" if not self.status else self.status.name.lower()
        return f"{short(self.kernel)} {sizes}{cluster}: {end}, simulated in {self.seconds:.2f} s"


def short(name: str) -> str:
    """A kernel's name as a message has it: templates can make thousands of characters of it."""
    return name if len(name) <= _SHOWN else f"{name[:_SHOWN]}..."


def _shown(sizes: Dim) -> str:
    return "x".join(map(str, sizes))


class Launcher:
    """Runs launches.

    Args:
        config: the chip.
        timed: whether each launch is timed on it.
        capture: a folder that keeps every launch; None: none is kept.
        workers, budget, completion: as `Options`.
        check: checks every launch before it runs; None: nobody does.
    """

    def __init__(
        self, config: Config, modules: Modules, arena: Arena, *, timed: bool, capture: Path | None, workers: int,
        budget: int | None = None, completion: str = "issue", check: ProgramCheck | None = None,
    ) -> None:  # fmt: skip
        self.config, self.modules, self.arena = config, modules, arena
        self.timed, self.folder, self.workers = timed, capture, workers
        self.budget, self.completion, self.check = budget or BUDGET, completion, check
        self.done: list[Launched] = []

    def run(self, request: Request) -> Launched:
        """Runs one; never raises what is wrong with the launch."""
        began = time.perf_counter()
        report: LaunchReport | None = None
        status, message, capture = Status.SUCCESS, "", None
        before: dict[str, NDArray[np.uint8]] = {}
        try:
            kernel = self.modules.kernel(request.module, request.name)
            for image in kernel.images:
                self.arena.variable(request.module, image)
            memory = self.arena.memory(request.module)
            if self.folder is not None or self.check is not None:
                before = _contents(memory, request.parameters)
            if self.check is not None:
                self.check.add(len(self.done), self._captured(request, before, memory))
            report = self._run(kernel, memory, request)
        except Error as error:
            status, message = status_of(error), str(error)
        except Exception as error:  # a mistake of ours: the program gets an error, and the user one line
            status, message = Status.UNKNOWN, _mistake(error)
        if self.folder is not None and before:
            capture = self._keep(request, before, memory, failed=bool(status))
        if stays(status):
            self.arena.poison()
        seconds = time.perf_counter() - began
        launched = Launched(
            request.name, request.grid, request.block, request.cluster, status, message, seconds, capture=capture
        )
        if report is not None:
            chip = report.timing.time_us if report.timing is not None else None
            launched = replace(
                launched,
                warp_instructions=report.warp_instructions,
                device_us=chip,
                printed=report.printed,
                missing=tuple(map(str, report.completion.missing)) if report.completion is not None else (),
            )
        self.done.append(launched)
        return self.done[-1]

    def _run(self, kernel: Kernel, memory: DeviceMemory, request: Request) -> LaunchReport:
        cluster = request.cluster if any(request.cluster) else None
        if request.cooperative:
            self._check_room(kernel, request)
        config = self.config if self.timed else None
        how = Options(
            config=config, dynamic_shared=request.shared, cluster=cluster, target=str(self.config.target),
            sms=self.config.chip.sms, workers=self.workers, budget=self.budget, cooperative=request.cooperative,
            completion=self.completion, compared=False,
        )  # fmt: skip
        params = np.frombuffer(request.parameters, np.uint8).copy()
        return run_launch(kernel, request.grid, request.block, memory, params, how)

    def _check_room(self, kernel: Kernel, request: Request) -> None:
        """Raises LaunchError for a cooperative launch of more CTAs than the chip holds at a time."""
        most = self.modules.resident(kernel, prod(request.block), request.shared) * self.config.chip.sms
        if prod(request.grid) > most:
            reason = f"a cooperative launch of {prod(request.grid)} CTAs, of which the chip holds {most} at a time"
            raise LaunchError(reason, "cudaOccupancyMaxActiveBlocksPerMultiprocessor", rule="cooperative-launch")

    def _keep(
        self, request: Request, before: dict[str, NDArray[np.uint8]], memory: DeviceMemory, *, failed: bool
    ) -> Path:
        """Writes the launch as a capture; returns its file."""
        assert self.folder is not None
        after = {name: memory[name].data for name in before if not failed}
        after = {name: data for name, data in after.items() if not np.array_equal(before[name], data)}
        return write_capture(replace(self._captured(request, before, memory), after=after), self.folder)

    def _captured(self, request: Request, before: dict[str, NDArray[np.uint8]], memory: DeviceMemory) -> Capture:
        """The launch as a capture, of its buffers as they were before it."""
        kernel = self.modules.kernel(request.module, request.name)
        params = [("bytes", request.parameters[each.offset : each.offset + each.bytes]) for each in kernel.parameters]
        specs = {
            name: BufferSpec(name, data.size, "uint8", data.shape, memory[name].address)
            for name, data in before.items()
        }
        return Capture(
            path=Path(f"launch{len(self.done):04}"),
            ptx=self.modules.texts[request.module],
            entry=request.name,
            target=str(self.config.target),
            grid=request.grid,
            block=request.block,
            cluster=request.cluster if any(request.cluster) else None,
            dynamic_shared=request.shared,
            params=tuple(params),
            buffers=specs,
            before=before,
            after={},
            cooperative=request.cooperative,
        )


def _mistake(error: Exception) -> str:
    """A line on an exception that nobody has foreseen: what it says, and where it was raised."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    said = " ".join(str(error).split())[:200]
    place = f"{Path(last.filename).name}:{last.lineno}"
    return f"the simulator failed: {type(error).__name__}: {said} ({place}); legal: report it"


def _contents(memory: DeviceMemory, parameters: bytes) -> dict[str, NDArray[np.uint8]]:
    """Copies of the buffers by name. Of the two addresses of a variable the program's is left out unless a parameter
    names it."""
    words = {int.from_bytes(parameters[at : at + 8], "little") for at in range(0, len(parameters) - 7, 8)}
    found = {}
    for buffer in memory.buffers:
        if "@module" in buffer.name and not any(buffer.address <= word < buffer.end for word in words):
            continue
        found[buffer.name] = buffer.data.copy()
    return found
