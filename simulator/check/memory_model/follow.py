"""Begins to follow the memory order of a launch: how fine its memories are followed, and who follows a batch."""

from __future__ import annotations

import numpy as np

from isa.ptx.instruction import Immediate, Instruction
from simulator.check.memory_model.memories import Memories
from simulator.check.memory_model.order import Follower
from simulator.check.memory_model.semantics import table
from simulator.execute.launch_state import LaunchState
from simulator.execute.spaces import space_of
from simulator.program.kernel import Kernel, Operation
from simulator.simulation.launch.batches import Setup
from simulator.state.columns import LaunchShared
from simulator.state.device_memory import DeviceMemory

_COARSEST = 4  # of pieces: 16 bytes
_MBARRIER = 8  # bytes


def memories_of(setup: Setup) -> Memories:
    """What follows the memories of a launch, before its first instruction."""
    kernel = setup.kernel
    cluster = int(np.prod(setup.geometry.cluster))
    shift, shared, local = (_shift(kernel, space) for space in ("global", "shared", "local"))
    return Memories(
        setup.geometry.warps, cluster, semantics=table(kernel), shift=shift, shared_shift=shared, local_shift=local
    )


def follow(state: LaunchState, memories: Memories) -> Follower:
    """Follows a batch from now on. Accesses that go astray are noted, and read zeros or write nothing."""
    state.order = follower = Follower(state, memories)
    assert isinstance(state.shared, LaunchShared)
    assert isinstance(state.memory, DeviceMemory)
    state.shared.lenient = state.memory.lenient = True
    return follower


def _shift(kernel: Kernel, space: str) -> int:
    """The logarithm of the bytes of the smallest access of a kernel to a space."""
    sizes = [_bytes(item.instruction, space) for item in kernel.items if isinstance(item, Operation)]
    return min(_COARSEST, *(size.bit_length() - 1 for size in sizes if size), _COARSEST)


def _bytes(instruction: Instruction, space: str) -> int:
    """The bytes of the smallest piece that an instruction accesses of a space; 0: it does not, or of at least 16."""
    form = instruction.form
    first = form.opcode.split(".")[0]
    if first == "mbarrier" or form.opcode.startswith("tcgen05.alloc"):
        return (_MBARRIER if first == "mbarrier" else 4) if space == "shared" else 0
    if first in ("atom", "red", "multimem"):
        return max(form.width // 8, 1) if space_of(form) in ("", space) else 0
    if first in ("ld", "ldu", "st"):
        whole = form.width // 8 * (1 if first == "st" else form.elements)
        return whole if space_of(form) in ("", space) else 0
    size = instruction.by_role.get("size")
    if form.name.startswith("cp.async.c") and isinstance(size, Immediate):
        return size.value
    return 0
