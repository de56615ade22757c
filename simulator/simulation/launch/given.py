"""Machine code that is given with a launch: whether it is that of the chip whose time is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from isa.errors import IsaError
from isa.targets import parse_target
from simulator.chip.config import Config
from simulator.program.kernel import Kernel, Operation
from simulator.program.sass import Function, MachineCodeError, read_machine_code
from simulator.simulation.launch.batches import Setup, record
from simulator.simulation.launch.placement import Placement
from simulator.simulation.launch.recording import Recording

_FROM_PTX = ("wgmma", "tcgen05", "tmem")  # tables of instructions that are not followed in machine code


def machine_code_of(kernel: Kernel, config: Config | None, path: str | Path | None) -> Function | None:
    """The machine code of a kernel; None where none is given.

    Raises:
        MachineCodeError: a file that cannot be read, machine code of another chip than the config, no config, or a
            kernel whose matrix instructions work behind issue.
    """
    if path is None:
        return None
    if config is None:
        raise MachineCodeError("machine code without a config, whose time it would serve", "a config, such as h100_sxm")
    for item in kernel.items:
        if isinstance(item, Operation) and item.instruction.form.time.table in _FROM_PTX:
            reason = f"{path}: '{item.instruction.form.name}' (line {item.line}) is not followed in machine code"
            raise MachineCodeError(reason, "no machine code: the time is then that of the PTX")
    function = read_machine_code(path, kernel.name)
    try:
        runs = not function.target or parse_target(function.target).number == parse_target(config.target).number
    except IsaError:
        runs = False
    if not runs:
        reason = f"{path} is machine code of {function.target}, and {config.label} is {config.target}"
        raise MachineCodeError(reason, f"ptxas -arch={config.target}, or a config of {function.target}")
    return function


def longest(setup: Setup, config: Config, placement: Placement) -> tuple[Placement, Sequence[Recording]]:
    """Where each SM has one CTA at most: the CTA with the warp that does most, and its recording; else those of the
    placement. Of clusters, always these."""
    if setup.geometry.ctas > config.chip.sms or placement.size > 1:
        return placement, record(setup, placement.ctas)
    recordings = record(setup, np.arange(setup.geometry.ctas))
    chosen = max(recordings, key=lambda each: max(map(len, each.steps)))
    return replace(placement, slots=((chosen.cta,),)), [chosen]
