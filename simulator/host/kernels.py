"""The modules of a host program, and their kernels, each linked when it is first asked for."""

from __future__ import annotations

from math import prod

import numpy as np

from isa.ptx.module import Module, parse_module
from simulator.chip.config import Config
from simulator.host.fatbin import select
from simulator.program.kernel import Image, Kernel, link
from simulator.program.kernel.symbols import Layout
from simulator.simulation.launch.errors import LaunchError
from simulator.simulation.launch.launching import Options, prepare
from simulator.simulation.launch.placement import estimated_registers, placed_on_sm
from simulator.state.device_memory import DeviceMemory

THREADS = 1024  # of a CTA, at most


class Modules:
    """Modules by the numbers that the program gave them."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.texts: dict[int, str] = {}
        self._binaries: dict[int, bytes] = {}
        self._parsed: dict[int, Module] = {}
        self._kernels: dict[tuple[int, str], Kernel] = {}

    def add(self, number: int, binary: bytes) -> None:
        """Keeps a fat binary."""
        self._binaries[number] = binary

    def parsed(self, number: int) -> Module:
        """The PTX of a module that the device runs.

        Raises:
            HostError: there is none.
            IsaError: PTX that cannot be read.
        """
        if number not in self._parsed:
            self.texts[number] = select(self._binaries[number], self.config.target)
            self._parsed[number] = parse_module(self.texts[number])
        return self._parsed[number]

    def kernel(self, number: int, name: str) -> Kernel:
        """A kernel; errors as `parsed`, and IsaError for one that cannot be linked."""
        key = number, name
        if key not in self._kernels:
            self._kernels[key] = link(self.parsed(number), name)
        return self._kernels[key]

    def images(self, number: int) -> tuple[Image, ...]:
        """The variables of a module in global and constant memory, with what they begin with."""
        layout = Layout(self.parsed(number))
        symbols = layout.functions() | layout.of_module()
        return layout.finished(symbols)

    def most_threads(self, kernel: Kernel) -> int:
        """Threads of a CTA that a kernel allows."""
        given = kernel.directives.get("reqntid") or kernel.directives.get("maxntid")
        return min(prod(given), THREADS) if given else THREADS

    def registers(self, kernel: Kernel) -> int:
        """Registers of a thread, estimated."""
        return estimated_registers(kernel, -(-self.most_threads(kernel) // 32))

    def resident(self, kernel: Kernel, threads: int, dynamic_shared: int) -> int:
        """CTAs of a kernel that an SM holds at a time; 0 where one does not fit."""
        cluster = tuple(kernel.directives.get("reqnctapercluster") or (1, 1, 1))
        grid = (*cluster, 1, 1)[:3]
        options = Options(config=self.config, dynamic_shared=dynamic_shared)
        params = np.zeros(kernel.parameter_bytes, np.uint8)
        try:
            setup = prepare(kernel, (grid[0], grid[1], grid[2]), (threads, 1, 1), DeviceMemory(), params, options)
            return placed_on_sm(setup, self.config).resident
        except LaunchError:
            return 0
