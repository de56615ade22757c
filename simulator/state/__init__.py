"""What a CTA holds: registers of its warps and shared memory; and global memory."""

from simulator.state.registers import RegisterFile
from simulator.state.shared import AddressError, SharedMemory

__all__ = ["AddressError", "RegisterFile", "SharedMemory"]
