"""What the bytes of a launch are called: by the variable of the kernel, or the buffer, that they belong to."""

from __future__ import annotations

from simulator.program.kernel import Kernel
from simulator.state.device_memory import DeviceMemory


def in_shared(kernel: Kernel, offset: int, size: int) -> str:
    """Bytes of a CTA's shared memory in words: "bytes 4 to 7 of 'tile' in shared memory"."""
    for begin, length, name in kernel.shared_variables:
        if begin <= offset < begin + length:
            return f"{_range(offset - begin, size)} of '{name}' in shared memory"
    if offset >= kernel.dynamic_offset:
        return f"{_range(offset - kernel.dynamic_offset, size)} of dynamic shared memory"
    return f"{_range(offset, size)} of shared memory"


def in_global(memory: DeviceMemory, address: int, size: int) -> str:
    """Bytes of global memory in words: "bytes 4 to 7 of buffer 'x'"."""
    for buffer in memory.buffers:
        if buffer.address <= address < buffer.end:
            return f"{_range(address - buffer.address, size)} of buffer '{buffer.name}'"
    return f"{size} bytes at {address:#x}"


def _range(offset: int, size: int) -> str:
    return f"byte {offset}" if size == 1 else f"bytes {offset} to {offset + size - 1}"
