"""The state of a batch of CTAs of a launch, which execute in lock step: a row of registers for each of their warps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.errors import IsaError
from isa.forms.record import Form
from isa.ptx.instruction import Instruction
from isa.targets import Target
from isa.types import Bits
from simulator.execute.completion import completion_of
from simulator.execute.cta_state import CtaState
from simulator.execute.events import Region
from simulator.execute.geometry import Batch, Unstarted, split
from simulator.execute.launch_events import events, told
from simulator.execute.policy import Policy
from simulator.state.columns import Columns, LaunchShared
from simulator.state.device_memory import DeviceMemory
from simulator.state.local_memory import LocalMemory
from simulator.state.mbarrier import Clocks, Mbarriers
from simulator.state.registers import WARP_SIZE, Lanes, Numbering, Warps
from simulator.state.shared import AddressError
from simulator.state.tensor_memory import Allocation, TensorMemory
from simulator.state.watched import WatchedShared
from simulator.state.windows import RANK_BIT, SHARED, WINDOW_BYTES


@dataclass
class Resident:
    """One CTA of a batch, as `Holder`.

    Attributes:
        number: which CTA of the grid it is, x first.
    """

    mbarriers: Mbarriers
    number: int
    shared_name: str

    @property
    def shared_bytes(self) -> NDArray[np.uint8]:
        """As in `Holder`."""
        return self.mbarriers.data

    @cached_property
    def tmem(self) -> TensorMemory:
        """As in `Holder`: all 512 columns, whichever other CTAs its SM has."""
        return TensorMemory()


# Shared memory that the system keeps, as ptxas 13.0 writes it into modules of sm_100 and later (symbols
# .nv.reservedSmem.begin, .cap, .offset0): 1 KB of each CTA. Nothing of the simulator lies there: its own variables
# begin at offset 0. PTX ISA 9.0, 10.33 (%reserved_smem_offset); ptxas shows no value of %reserved_smem_offset_1.
_RESERVED_SHARED = {
    "%reserved_smem_offset_begin": 0, "%reserved_smem_offset_end": 1024, "%reserved_smem_offset_cap": 1024,
    "%reserved_smem_offset_0": 64,
}  # fmt: skip


@dataclass
class LaunchState(CtaState):
    """The state of a batch of CTAs.

    Attributes:
        batch: which CTAs these are.
        local: the local memory of the threads.
        params: uint8 [byte]: the kernel's parameters.
        dynamic_shared: bytes of shared memory that the launch asked for.
        sms: SMs of the chip.
        workspace: address of what the CTAs of a cooperative launch meet at; 0 in other launches.
        clock: what %clock gives: executed items so far, as time is told apart from values.
        unstarted: the CTAs of the launch that have not started.
        arrivals: how often a thread has done something with an mbarrier besides looking at it.
    """

    batch: Batch = field(kw_only=True)
    local: LocalMemory = field(kw_only=True)
    params: NDArray[np.uint8] = field(kw_only=True)
    dynamic_shared: int = field(kw_only=True, default=0)
    sms: int = field(kw_only=True, default=1)
    workspace: int = field(kw_only=True, default=0)
    clock: int = field(kw_only=True, default=0)
    unstarted: Unstarted = field(kw_only=True)
    arrivals: int = field(kw_only=True, default=0)
    batched: ClassVar[bool] = True

    # mbarriers

    @cached_property
    def holders(self) -> list[Resident]:
        """Each CTA of the batch."""
        shared, found = self.shared, []
        assert isinstance(shared, LaunchShared)
        for place, number in enumerate(self.batch.ctas.tolist()):
            begin = place * shared.stride
            x, y, z = self.batch.cta_of(place * self.warps)
            own = Mbarriers(shared.data[begin : begin + shared.size])
            found.append(Resident(own, number, f" of CTA ({x}, {y}, {z})"))
        return found

    def holder(self, address: int, warp: int) -> tuple[Resident, int]:
        """As in `CtaState`: the CTA of the warp's cluster that the address names, also a generic one."""
        offset = self.shared_offset(address)
        own = warp // self.warps
        if not self.clustered:
            return self.holders[own], offset
        shared = self.shared
        assert isinstance(shared, LaunchShared)
        shared.check_ranks(np.array([[offset]]), np.array([warp], np.intp))
        first = own // shared.cluster * shared.cluster
        return self.holders[first + (offset >> RANK_BIT)], offset & ((1 << RANK_BIT) - 1)

    # Who listens

    def note(
        self,
        instruction: Instruction,
        warps: Warps,
        reads: tuple[Region, ...] = (),
        writes: tuple[Region, ...] = (),
        lanes: Lanes | None = None,
    ) -> None:
        """As in `CtaState`, of those that `launch_events.told` names."""
        if self.wants_accesses and told(instruction.form):
            lanes = self.threads(warps) if lanes is None else lanes
            numbers = [int(holder.number) for holder in self.holders]
            for event in events(instruction, warps.tolist(), lanes, reads, writes, numbers, self.warps):
                self.tell(event._replace(line=self.line))

    # Clusters

    @cached_property
    def clustered(self) -> bool:
        """Whether clusters have more than one CTA: addresses in shared memory have the rank of their CTA then."""
        return self.cluster_size > 1

    def own_window(self, warps: Warps) -> NDArray[np.int64]:
        """As in `CtaState`: the rank of each warp's CTA, from `RANK_BIT` on. Measured on an H200: the address of a
        variable has it."""
        if not self.clustered:
            return np.zeros((len(warps), 1), np.int64)
        ranks = self._constants["%cluster_ctarank"][warps].astype(np.int64)
        return ranks << RANK_BIT

    def check_own(self, form: Form, where: NDArray[np.int64], warps: Warps) -> None:
        """Raises AddressError for addresses in another CTA that a form without .shared::cluster accesses, which ends in
        an illegal instruction. Measured on an H200."""
        if not self.clustered or "shared::cluster" in form.qualifiers:
            return
        far = (where >> RANK_BIT != self.own_window(warps) >> RANK_BIT) & self.threads(warps)
        if far.any():
            reason = (
                f"'{form.opcode}' at {int(where[far][0]):#x}, in shared memory of CTA {int(where[far][0]) >> RANK_BIT}"
            )
            raise AddressError(f"{reason} of the cluster", ".shared::cluster", rule="shared-memory-bounds")

    @property
    def cluster_size(self) -> int:
        """As in `CtaState`."""
        return int(np.prod(self.batch.geometry.cluster))

    def mapped(self, addresses: Bits, ranks: Bits) -> Bits:
        """As in `CtaState`, of offsets (uint32) or generic addresses (uint64)."""
        kind = addresses.dtype.type
        cleared = addresses & ~kind(0xFF << RANK_BIT)
        found: Bits = cleared | ranks.astype(kind) << kind(RANK_BIT) if self.clustered else addresses
        return found

    def shared_offset(self, address: int) -> int:
        """As in `CtaState`."""
        return address - SHARED if SHARED <= address < SHARED + WINDOW_BYTES else address

    def _address_in(self, rank: int, offset: int) -> int:
        """As in `CtaState`."""
        return offset | rank << RANK_BIT

    # Tensor Memory

    def resident(self, warp: int) -> Resident:
        """As in `CtaState`."""
        return self.holders[warp // self.warps]

    def pair(self, warp: int) -> tuple[Resident, ...]:
        """As in `CtaState`."""
        own, size = warp // self.warps, self.cluster_size
        rank, first = own % size, own - own % size
        if rank | 1 >= size:
            return (self.holders[own],)
        return self.holders[first + (rank & ~1)], self.holders[first + (rank | 1)]

    def warp_in_cta(self, warp: int) -> int:
        """As in `CtaState`."""
        return warp % self.warps

    def leaked(self) -> list[tuple[Resident, Allocation]]:
        """The allocations of Tensor Memory that CTAs have not given back."""
        with_cells = [cta for cta in vars(self).get("holders", ()) if "tmem" in vars(cta)]
        return [(cta, allocation) for cta in with_cells for allocation in cta.tmem.allocations]

    def uses(self, address: int, warp: int, lanes: NDArray[np.int64], *, changes: bool, looks: bool = False) -> None:
        """As in `CtaState`: a use of an mbarrier races with the instruction that begins its life."""
        self.arrivals += not looks
        if self.order is not None:
            holder, offset = self.holder(address, warp)
            self.order.uses_mbarrier((holder.number, offset), warp, lanes.tolist(), begins=changes)

    def release(self, warp: int) -> list[Clocks]:
        """As in `CtaState`."""
        assert isinstance(self.shared, LaunchShared)
        return self.shared.release(warp)

    def acquire(self, warp: int, released: list[Clocks]) -> None:
        """As in `CtaState`."""
        assert isinstance(self.shared, LaunchShared)
        self.shared.acquire(warp, released)

    @property
    def blocks(self) -> bool:
        """As in `CtaState`: a kernel tries again in a loop."""
        return False

    @property
    def reads_inactive(self) -> bool:
        """As in `CtaState`: kernels shuffle with `__activemask()` at ragged ends, and drop what they get there."""
        return self.order is None

    def places(self, warps: Warps, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Offsets [row, ...] in the shared memory of each row's CTA as places in `shared.data`, which holds those of
        all CTAs."""
        assert isinstance(self.shared, LaunchShared)
        return self.shared.places(offsets, warps)

    def check_whole(self, instruction: Instruction) -> None:
        """Nothing: threads of a kernel may part, and a group counts for the warp of its threads."""

    def special(self, name: str, warps: Warps) -> Bits:
        """uint32 (uint64 for registers of 64 bits) [warp, lane] of a special register. PTX ISA 9.0, section 10."""
        value = self._special(name)
        if value.ndim < 2:
            return np.broadcast_to(value, (len(warps), WARP_SIZE))
        whole = len(value) == 1 or warps is getattr(self.registers, "everyone", None)
        return np.broadcast_to(value if whole else value[warps], (len(warps), WARP_SIZE))

    def _special(self, name: str) -> Bits:
        """The value for every row: [row, lane], [row, 1] or [1]."""
        known = self._constants.get(name)
        if known is not None:
            return known
        if name in ("%clock", "%globaltimer_lo"):
            return np.array([self.clock & 0xFFFFFFFF], np.uint32)
        if name in ("%clock_hi", "%globaltimer_hi"):
            return np.array([self.clock >> 32], np.uint32)
        if name not in ("%clock64", "%globaltimer"):
            raise IsaError(
                name, -1, f"the special register {name} is not executed", f"{', '.join(self._constants)}, clocks"
            )
        return np.array([self.clock], np.uint64)

    @cached_property
    def _constants(self) -> dict[str, Bits]:
        """The special registers that never change during the launch."""
        geometry, rows = self.batch.geometry, self.batch.rows
        cta = np.repeat(self.batch.ctas, geometry.warps)[:, None]
        warp = (np.arange(rows, dtype=np.int64) % geometry.warps)[:, None]
        lane = np.arange(WARP_SIZE, dtype=np.int64)[None]
        bit = np.uint64(1) << lane.astype(np.uint64)
        scalar = {
            "%nwarpid": self.slots, "%nsmid": self.sms, "%gridid": 1, "%total_smem_size": self._shared_bytes,
            "%aggr_smem_size": self._shared_bytes, "%dynamic_smem_size": self.dynamic_shared,
            "%is_explicit_cluster": int(geometry.explicit),
            **_RESERVED_SHARED,
        }  # fmt: skip
        table: dict[str, Bits] = {name: np.array([value], np.uint32) for name, value in scalar.items()}
        table["%gridid"] = np.array([1], np.uint64)
        table |= {
            "%laneid": lane.astype(np.uint32),
            "%warpid": warp.astype(np.uint32),
            "%smid": (cta % self.sms).astype(np.uint32),
            "%lanemask_eq": bit.astype(np.uint32),
            "%lanemask_lt": (bit - np.uint64(1)).astype(np.uint32),
            "%lanemask_le": (2 * bit - np.uint64(1)).astype(np.uint32),
            "%lanemask_gt": ~(2 * bit - np.uint64(1)).astype(np.uint32),
            "%lanemask_ge": ~(bit - np.uint64(1)).astype(np.uint32),
        }
        given = {
            1: self.workspace >> 32,
            2: self.workspace & 0xFFFFFFFF,
        }  # driver_abi.h of cooperative groups, CUDA 13.0
        table |= {f"%envreg{number}": np.array([given.get(number, 0)], np.uint32) for number in range(32)}
        thread, place = split(self.batch.thread, geometry.block), split(cta, geometry.grid)
        inside = [place[axis] % geometry.cluster[axis] for axis in range(3)]
        for axis, letter in enumerate("xyz"):
            size = geometry.cluster[axis]
            table |= {
                f"%tid.{letter}": thread[axis],
                f"%ctaid.{letter}": place[axis],
                f"%ntid.{letter}": np.array([geometry.block[axis]], np.uint32),
                f"%nctaid.{letter}": np.array([geometry.grid[axis]], np.uint32),
                f"%clusterid.{letter}": place[axis] // np.uint32(size),
                f"%nclusterid.{letter}": np.array([geometry.grid[axis] // size], np.uint32),
                f"%cluster_ctaid.{letter}": inside[axis],
                f"%cluster_nctaid.{letter}": np.array([size], np.uint32),
            }
        x, y, _ = geometry.cluster
        table["%cluster_ctarank"] = (inside[0] + x * (inside[1] + y * inside[2])).astype(np.uint32)
        table["%cluster_nctarank"] = np.array([int(np.prod(geometry.cluster))], np.uint32)
        return table

    @property
    def _shared_bytes(self) -> int:
        return self.shared.size if isinstance(self.shared, LaunchShared) else self.shared.data.size


class Asynchronous(NamedTuple):
    """When the asynchronous operations of a kernel complete.

    Attributes:
        policy: says when.
        lines: by place, the line of the PTX.
        accumulators: numbers of the registers that the kernel's products read.
    """

    policy: Policy
    lines: Sequence[int]
    accumulators: Sequence[int]


def launch_state(
    batch: Batch,
    numbering: Numbering,
    memory: DeviceMemory,
    params: NDArray[np.uint8],
    target: Target,
    *,
    shared_bytes: int = 0,
    local_bytes: int = 0,
    dynamic_shared: int = 0,
    timed: bool = False,
    arithmetic: str = "chip",
    undefined: str = "hardware",
    slots: int = 64,
    sms: int = 1,
    workspace: int = 0,
    asynchronous: Asynchronous | None = None,
    unstarted: Unstarted | None = None,
) -> LaunchState:
    """The state of a batch before its first instruction: registers and memories of zeros.

    Args:
        shared_bytes: of a CTA, static and dynamic.
        timed: whether executors say what an access costs.
        asynchronous: when asynchronous operations complete, whose waits and fences are looked for then.
        unstarted: the CTAs that have not started; None: there are none.
    """
    geometry = batch.geometry
    kind = LaunchShared if asynchronous is None else WatchedShared
    state = LaunchState(
        Columns(batch.rows, numbering),
        kind(shared_bytes, len(batch.ctas), geometry.warps, int(np.prod(geometry.cluster))),
        geometry.warps,
        target,
        arithmetic=arithmetic,
        undefined=undefined,
        slots=slots,
        memory=memory,
        timed=timed,
        checked=False,
        batch=batch,
        local=LocalMemory(local_bytes, batch.rows),
        params=params,
        dynamic_shared=dynamic_shared,
        sms=sms,
        workspace=workspace,
        unstarted=unstarted or Unstarted(geometry, batch.ctas[:0]),
    )
    if asynchronous is not None:
        state.completion = completion_of(state, int(batch.ctas[0]), *asynchronous)
    return state
