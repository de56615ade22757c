"""Machine code (SASS) as nvdisasm prints it: functions, instructions, and the registers that these read and write."""

from simulator.program.sass.listing import Function, Instruction, MachineCodeError, read_machine_code

__all__ = ["Function", "Instruction", "MachineCodeError", "read_machine_code"]
