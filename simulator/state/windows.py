"""Where the memories of a launch lie among generic addresses of 64 bits, and where buffers go that ask for no address.

The chip has windows for shared and local memory in the generic address space, too (PTX ISA 9.0, 5.1 and 9.7.9.20);
where they lie is not specified, and no program may depend on it. Their low 32 bits are zero here, so that a generic
address cut to 32 bits is the address within the space.
"""

from __future__ import annotations

SHARED = 1 << 60  # + the offset in the shared memory of the thread's own CTA
LOCAL = 1 << 61  # + the offset in the thread's own local memory
PARAM = (1 << 60) + (1 << 59)  # + the offset in the kernel's parameters
WINDOW_BYTES = 1 << 32
RANK_BIT = 24  # of an address in shared memory: from here on the rank of its CTA in the cluster; measured on an H200
MODULE_BASE = 1 << 56  # .global and .const variables of a module
CODE_BASE = 1 << 57  # functions of a module, 16 bytes each: what a pointer to one is
FREE_BASE = 1 << 45  # buffers whose capture does not say where they lay
BUFFER_ALIGNMENT = 256  # what cudaMalloc gives at least: CUDA programming guide, "Device Memory Accesses"
GUARD_BYTES = 1 << 16  # between two buffers that are placed here, so that one's end is not the other's beginning
