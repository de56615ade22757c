"""How many registers a chip gives each thread of a launch."""

from __future__ import annotations

from simulator.faults.targets.target import refuse
from simulator.program.sass import read_machine_code
from simulator.simulation.launch.placement import UNIT

MOST = 255  # of a thread; CUDA programming guide, compute capabilities 5.0 and later


def allocated(registers: int, machine_code: str, entry: str) -> int:
    """The registers of a thread, in the units in which they are given out; 0 where nothing says them.

    Args:
        registers: as ptxas prints them; 0: not said.
        machine_code: a file of machine code that says them; "": none.
        entry: the kernel.

    Raises:
        ConfigError: both are given, or no such number of registers.
        MachineCodeError: a file that cannot be read, or has no such kernel.
    """
    if not 0 <= registers <= MOST:
        raise refuse("subject.registers", f"{registers} registers of a thread", f"1 to {MOST}")
    if registers and machine_code:
        raise refuse("subject.registers", "is given beside machine_code, which says them", "one of them")
    count = read_machine_code(machine_code, entry).registers if machine_code else registers
    return -(-count // UNIT) * UNIT
