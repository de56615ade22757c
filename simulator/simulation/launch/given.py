"""Machine code that is given with a launch: whether it is that of the chip whose time is asked for."""

from __future__ import annotations

from pathlib import Path

from isa.errors import IsaError
from isa.targets import parse_target
from simulator.program.kernel import Kernel
from simulator.program.sass import Function, MachineCodeError, read_machine_code
from simulator.timing.config import Config


def machine_code_of(kernel: Kernel, config: Config | None, path: str | Path | None) -> Function | None:
    """The machine code of a kernel; None where none is given.

    Raises:
        MachineCodeError: a file that cannot be read, machine code of another chip than the config, or no config.
    """
    if path is None:
        return None
    if config is None:
        raise MachineCodeError("machine code without a config, whose time it would serve", "a config, such as h100_sxm")
    function = read_machine_code(path, kernel.name)
    try:
        runs = not function.target or parse_target(function.target).number == parse_target(config.target).number
    except IsaError:
        runs = False
    if not runs:
        reason = f"{path} is machine code of {function.target}, and {config.label} is {config.target}"
        raise MachineCodeError(reason, f"ptxas -arch={config.target}, or a config of {function.target}")
    return function
