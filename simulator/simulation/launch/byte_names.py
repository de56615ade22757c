"""What the bytes of a launch are called: by the variable of the kernel, or the buffer, that they belong to."""

from __future__ import annotations

import re

from simulator.program.kernel import Kernel
from simulator.state.device_memory import DeviceMemory
from simulator.state.typed_views import padded

_LOCAL = re.compile(r"(?:E|N)(\d+)([A-Za-z_]\w*?)(?:E?$|_\d+$|E_\d+$)")  # the last name of a C++ symbol


def plain_name(symbol: str) -> str:
    """A variable as the source calls it, of its C++ symbol: "tile" of "_ZZ4gemmE4tile"; other names as they are."""
    found = _LOCAL.search(symbol)
    if symbol.startswith("_Z") and found and len(found[2]) >= int(found[1]):
        return found[2][: int(found[1])]
    return symbol


def in_shared(kernel: Kernel, offset: int, size: int) -> str:
    """Bytes of a CTA's shared memory in words: "bytes 4 to 7 of 'tile' in shared memory"."""
    for begin, length, name in kernel.shared_variables:
        if begin <= offset < begin + length:
            return f"{_range(offset - begin, size)} of '{plain_name(name)}' in shared memory"
    if offset >= kernel.dynamic_offset:
        return f"{_range(offset - kernel.dynamic_offset, size)} of dynamic shared memory"
    return f"{_range(offset, size)} of shared memory"


def in_local(kernel: Kernel, address: int, size: int) -> str:
    """Bytes of local memory, by their place in that of all threads."""
    return f"{_range(address % padded(kernel.local_bytes), size)} of the thread's local memory"


def in_global(memory: DeviceMemory, address: int, size: int) -> str:
    """Bytes of global memory in words: "bytes 4 to 7 of buffer 'x'"."""
    for buffer in memory.buffers:
        if buffer.address <= address < buffer.end:
            return f"{_range(address - buffer.address, size)} of buffer '{buffer.name}'"
    return f"{size} bytes at {address:#x}"


def mbarrier(kernel: Kernel, offset: int) -> str:
    """An mbarrier in words: "the mbarrier at shared[1032] ('full' + 8)"."""
    for begin, length, name in kernel.shared_variables:
        if begin <= offset < begin + length:
            inside = f"'{plain_name(name)}'" + f" + {offset - begin}" * (offset > begin)
            return f"the mbarrier at shared[{offset}] ({inside})"
    return f"the mbarrier at shared[{offset}]"


def _range(offset: int, size: int) -> str:
    return f"byte {offset}" if size == 1 else f"bytes {offset} to {offset + size - 1}"
