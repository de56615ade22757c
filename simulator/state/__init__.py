"""The state that instructions change: registers, shared memory, mbarriers and Tensor Memory of a CTA, and global
memory."""

from simulator.state.registers import RegisterFile
from simulator.state.shared import AddressError, SharedMemory

__all__ = ["AddressError", "RegisterFile", "SharedMemory"]
