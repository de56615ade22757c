"""The state of a CTA while a program runs on it, and what an executor reports about one instruction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from isa.errors import IsaError
from isa.forms.record import SPECIAL_REGISTERS, Form
from isa.ptx.instruction import Instruction
from isa.targets import Target
from isa.types import Bits
from isa.undefined import undefined_behavior
from simulator.arithmetic.deviation import Apart
from simulator.execute.barrier import ClusterBarrier
from simulator.execute.completion import Completion
from simulator.execute.dynamic_info import Fact
from simulator.execute.events import Event, Listener, Region, mask_of
from simulator.execute.holder import Holder
from simulator.execute.memory_order import MemoryOrder
from simulator.execute.mma import Arithmetic
from simulator.execute.pending import PendingWait
from simulator.state import RegisterFile, SharedMemory
from simulator.state.carried import CarryingRegisters, CarryingTensorMemory
from simulator.state.global_memory import Copies, GlobalMemory
from simulator.state.mbarrier import Clocks, Mbarrier, Mbarriers, OrderedMemory, joined
from simulator.state.registers import LANE, WARP_SIZE, Lanes, Warps
from simulator.state.shared import AddressError
from simulator.state.tensor_memory import TensorMemory

ARITHMETIC = (*get_args(Arithmetic), "none")
CLUSTER_REGISTERS = ("%cluster_ctarank", "%cluster_nctarank")
SPECIAL = (*SPECIAL_REGISTERS, *CLUSTER_REGISTERS)  # special registers that a trace may read
CLUSTER_WINDOW = (
    1 << 25
)  # a .shared::cluster address is this, the CTA's rank in bit 24, and the offset in its shared memory; below: one's own
_RANK_BIT = 24


@dataclass
class CtaState:
    """A CTA on an SM: its registers, its memories, and how instructions are to be executed.

    Attributes:
        registers, shared: the registers of all of its warps, and its shared memory.
        warps: warps of the CTA.
        slots: warps that the SM has room for, which is what %nwarpid gives (64 on an H100, measured).
        target: the chip whose arithmetic is used.
        arithmetic: "chip" (bit for bit what the chip gives), "exact" (the correctly rounded sum) or "none" (D is left
            as it is: time alone).
        undefined: "hardware" or "raise", DESIGN section 5.
        compare: how many more matrix instructions to compare with the exact result.
        met: how often each undefined case has occurred so far, by name.
        apart: how far D of the instructions that were compared is from the exact results of the same operands.
        compared: matrix instructions that were compared.
        multiplied: multiply-adds of tcgen05.mma so far, pruned products included.
        rank, peer: which CTA of a pair this is, 0 or 1, and the other one; None for a CTA alone.
        cluster: the barrier of the pair, one object for both.
        line: the line of the trace whose instruction is executed.
        active: bool [warp, lane], the threads that execute it; None for all of the warps that an executor is given.
        listeners: the listeners that are told what happens, see `listen`.
        wants_accesses: whether one of them wants to know which memory is accessed.
        memory: global memory, one for all CTAs.
        timed: whether executors say how long an access keeps shared memory busy.
        names_sectors: whether they also say which sectors of global memory it touches.
        carries: whether accumulators go from one matrix instruction to the next exactly, which `CarryingRegisters` and
            the arithmetic "exact" are for.
        checked: whether races in shared memory, and bytes there that a copy is about to write, are looked for.
        batched: whether it is that of many CTAs, whose events name the warps of their regions, and no ordinary accesses
            to shared memory (`simulator.state.watched` tells of those).
        completion: when asynchronous operations complete; None: at issue, and nobody asks whether they are waited for.
        order: who follows which thread accesses which bytes, and what orders threads; None: nobody.
    """

    registers: RegisterFile
    shared: SharedMemory
    warps: int
    target: Target
    arithmetic: str = "chip"
    undefined: str = "hardware"
    compare: int = 0
    slots: int = 64
    met: Counter[str] = field(default_factory=Counter)
    apart: Apart = field(default_factory=Apart)
    compared: int = 0
    multiplied: int = 0
    rank: int = 0
    peer: CtaState | None = None
    cluster: ClusterBarrier = field(default_factory=ClusterBarrier)
    line: int = 0
    active: Lanes | None = None
    listeners: tuple[Listener, ...] = ()
    wants_accesses: bool = False
    memory: GlobalMemory = field(default_factory=GlobalMemory)
    timed: bool = True
    names_sectors: bool = False
    carries: bool = False
    checked: bool = True
    completion: Completion | None = None
    order: MemoryOrder | None = None
    batched: ClassVar[bool] = False

    @cached_property
    def tmem(self) -> TensorMemory:
        """Tensor Memory of the CTA."""
        return CarryingTensorMemory() if self.carries else TensorMemory()

    @cached_property
    def carry(self) -> Lanes:
        """bool [warp, lane]: the carry flag of each thread."""
        return np.zeros((self.registers.rows, WARP_SIZE), np.bool_)

    def settle(self) -> None:
        """Rounds what is carried exactly, so that memories can be looked at without asking for cells."""
        for memory in (self.registers, vars(self).get("tmem")):
            if isinstance(memory, CarryingRegisters | CarryingTensorMemory):
                memory.settle()

    @cached_property
    def mbarriers(self) -> Mbarriers:
        """The mbarriers in its shared memory."""
        return Mbarriers(self.shared.data)

    @property
    def number(self) -> int:
        """As in `Holder`: the rank."""
        return self.rank

    @property
    def shared_name(self) -> str:
        """As in `Holder`."""
        return f" of CTA {self.rank}" if len(self.ctas) > 1 else ""

    @property
    def shared_bytes(self) -> NDArray[np.uint8]:
        """As in `Holder`."""
        return self.shared.data

    @property
    def blocks(self) -> bool:
        """Whether `mbarrier.try_wait` waits until the phase is complete: a trace has no branch that could try again. In
        kernels it tells whether it is, as `test_wait` does."""
        return True

    @cached_property
    def copies(self) -> Copies:
        """The groups of cp.async of its warps."""
        return Copies(np.zeros(self.shared.data.size, np.int32))

    @property
    def ctas(self) -> tuple[CtaState, ...]:
        """The CTAs that can reach each other, by rank."""
        if self.peer is None:
            return (self,)
        return (self, self.peer) if self.rank == 0 else (self.peer, self)

    @property
    def cluster_size(self) -> int:
        """How many CTAs the cluster has."""
        return len(self.ctas)

    def note_compared(self, found: Apart, instructions: int) -> None:
        """Counts instructions whose D was compared with the exact results of their operands."""
        self.apart += found
        self.compare -= instructions
        self.compared += instructions

    def note_undefined(self, name: str, count: int, where: str, rule: str = "") -> None:
        """Tells the listeners of an undefined case, and counts it or raises UndefinedBehavior, as the policy says."""
        for listener in self.listeners:
            listener.undefined(self.rank, self.line, name, count, where, rule=rule or name)
        if self.undefined == "raise":
            raise undefined_behavior(name, where)
        self.met[name] += count

    @property
    def reads_inactive(self) -> bool:
        """Whether a shuffle from a thread that does not take part gives something, as on a chip; in traces, and where
        mistakes are looked for, it is an error."""
        return False

    def threads(self, warps: Warps) -> Lanes:
        """bool [warp, lane]: which threads of these warps execute the instruction."""
        return np.ones((len(warps), WARP_SIZE), np.bool_) if self.active is None else self.active

    def actors(self, warps: Warps) -> Warps:
        """The warps by their numbers among those of all CTAs, as `shared` knows them."""
        return warps + self.rank * self.warps if self.rank else warps

    def places(self, warps: Warps, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Offsets [warp, ...] in the shared memory of each warp's CTA as places in `shared.data`: those of one CTA."""
        return offsets

    def check_whole(self, instruction: Instruction) -> None:
        """Checks that all threads of each warp take part in an instruction about groups of copies, which are counted by
        warp here; IsaError otherwise."""
        if self.active is not None:
            reason = f"'{instruction.form.opcode}' in some of the threads of a warp: groups are counted by warp"
            raise IsaError(str(instruction), 0, reason, "all threads of a warp, or none")

    # Order between threads

    def synchronise(self, warps: Warps) -> None:
        """Notes that these warps have passed a barrier together."""
        for cta in self.ctas:
            cta.shared.synchronise(self.actors(warps))

    def release(self, warp: int) -> list[Clocks]:
        """The clocks of what a warp has done so far, for others to `acquire`."""
        actor = warp + self.rank * self.warps
        return [cta.shared.release(actor) for cta in self.ctas if isinstance(cta.shared, OrderedMemory)]

    def acquire(self, warp: int, released: list[Clocks]) -> None:
        """Lets a warp see what others released."""
        actor = warp + self.rank * self.warps
        for cta, clocks in zip(self.ctas, released, strict=bool(released)):
            assert isinstance(cta.shared, OrderedMemory)
            cta.shared.acquire(actor, clocks)

    def located(self, address: int) -> tuple[CtaState, int]:
        """The CTA that a .shared::cluster address names, and the offset in its shared memory; AddressError if there is
        no such CTA.

        Addresses below CLUSTER_WINDOW are one's own: the window of .shared::cta lies within that of .shared::cluster
        (PTX ISA 9.0, 5.1.7).
        """
        if address < CLUSTER_WINDOW:
            return self, address
        rank, offset = divmod(address - CLUSTER_WINDOW, 1 << _RANK_BIT)
        if rank >= len(self.ctas):
            what = (
                "is in no CTA's shared memory" if rank > 1 else f"is in shared memory of CTA {rank}, and there is none"
            )
            raise AddressError(
                f"address {address:#x} {what}",
                "an offset in shared memory, or what mapa.shared::cluster gives",
                rule="shared-memory-bounds",
            )
        return self.ctas[rank], offset

    def own_window(self, warps: Warps) -> NDArray[np.int64]:
        """int64 [warp, 1]: where the shared memory of each warp's CTA begins in its cluster's; in traces it is 0."""
        return np.zeros((len(warps), 1), np.int64)

    def check_own(self, form: Form, where: NDArray[np.int64], warps: Warps) -> None:
        """Nothing: in traces an address in another CTA is out of bounds."""

    def holder(self, address: int, warp: int) -> tuple[Holder, int]:
        """The CTA in whose shared memory an mbarrier lies that a warp names by this address, and its offset there;
        AddressError as `located`."""
        return self.located(address)

    def resident(self, warp: int) -> Holder:
        """The CTA of a warp."""
        return self

    def pair(self, warp: int) -> tuple[Holder, ...]:
        """The two CTAs of a pair, the even rank first: that of a warp, and the one whose rank differs in the last bit;
        the warp's alone where there is none. PTX ISA 9.0, 9.7.16.5.2 (peer CTA)."""
        return self.ctas

    def warp_in_cta(self, warp: int) -> int:
        """The number of a warp within its CTA."""
        return warp

    def shared_offset(self, address: int) -> int:
        """An address in shared memory as `shared` takes it, without the window of generic addresses."""
        return address

    def multicast(self, address: int, warp: int, mask: int) -> list[int]:
        """The addresses of the same place in the CTAs of a warp's cluster that a 16-bit mask names by their rank;
        AddressError for CTAs that it does not have, and for none."""
        offset, size = self.holder(address, warp)[1], self.cluster_size
        if mask >> size or not mask:
            reason = f"multicast to the CTAs {mask:#x} of a cluster of {size}"
            raise AddressError(reason, f"0x1 to {(1 << size) - 1:#x}")
        return [self._address_in(rank, offset) for rank in range(size) if mask >> rank & 1]

    def _address_in(self, rank: int, offset: int) -> int:
        """The address of a place in the shared memory of a CTA of the cluster."""
        if rank == self.rank:
            return offset
        return int(self.mapped(np.array([offset], np.uint32), np.array([rank], np.uint32))[0])

    def uses(self, address: int, warp: int, lanes: NDArray[np.int64], *, changes: bool, looks: bool = False) -> None:
        """Notes that threads of a warp use an mbarrier. Nothing: checks of traces are told by `note`.

        Args:
            changes: whether it begins the life of the object.
            looks: whether it does nothing but look.
        """

    def mapped(self, addresses: Bits, ranks: Bits) -> Bits:
        """.shared::cluster addresses of the places in CTAs `ranks` that have these offsets, uint32; an address in
        another CTA gives its offset."""
        return np.uint32(CLUSTER_WINDOW) | ranks << np.uint32(_RANK_BIT) | addresses & np.uint32((1 << _RANK_BIT) - 1)

    def arrive(
        self, address: int, warp: int, count: int = 1, *, expect: int = 0, drop: bool = False, complete: bool = True
    ) -> int:
        """Lets a warp arrive at the mbarrier at this address, in any CTA, which releases everything it did before.
        Returns the mbarrier's state before that.

        Raises:
            AddressError: as `Mbarriers.arrive` and `located`.
        """
        cta, offset = self.holder(address, warp)
        barrier = cta.mbarriers.at(offset)
        barrier.released = joined(barrier.released, self.release(warp))
        return cta.mbarriers.arrive(offset, count, expect=expect, drop=drop, complete=complete)

    def signal(self, address: int, warp: int, lanes: Iterable[int], *, orders: bool = True) -> None:
        """Tells who follows the memory order that threads of a warp arrive now at the mbarrier at this address."""
        if self.order is not None:
            cta, offset = self.holder(address, warp)
            self.order.signals((cta.number, offset), cta.mbarriers.at(offset).phase, warp, lanes, orders=orders)

    def sees(self, warp: int, barrier: Mbarrier, phase: int) -> None:
        """Lets a warp that has waited for a phase of an mbarrier see what was released for it, and the bytes of copies
        that arrived in it."""
        self.acquire(warp, barrier.completed)
        if barrier.carried:
            self.copies.land([places for number, places in barrier.carried if number <= phase])
            barrier.carried = [(number, places) for number, places in barrier.carried if number > phase]

    # Who listens

    def listen(self, *listeners: Listener) -> None:
        """Lets these listeners, too, be told from now on what happens."""
        self.listeners += listeners
        self.wants_accesses = any(listener.wants_accesses for listener in self.listeners)

    def note(
        self,
        instruction: Instruction,
        warps: Warps,
        reads: tuple[Region, ...] = (),
        writes: tuple[Region, ...] = (),
        lanes: Lanes | None = None,
    ) -> None:
        """Tells the listeners that these warps executed an instruction that accesses memory or orders accesses.

        Args:
            lanes: bool [warp, lane]: their threads; None: those that are `active`.
        """
        if self.wants_accesses:
            lanes = self.threads(warps) if lanes is None else lanes
            threads = tuple((int(warp), mask_of(own)) for warp, own in zip(warps, lanes, strict=True))
            self.tell(Event(instruction.form.opcode, instruction, self.rank, threads, self.line, reads, writes))

    def tell(self, event: Event) -> None:
        """Tells the listeners of an event."""
        for listener in self.listeners:
            if listener.wants_accesses:
                listener.accessed(event)

    def special(self, name: str, warps: Warps) -> Bits:
        """uint32 [warp, lane] of a special register. PTX ISA 9.0, section 10; threads along x."""
        warp = warps.astype(np.uint32)[:, None]
        values: dict[str, Bits | int] = {
            "%laneid": LANE,
            "%warpid": warp,
            "%nwarpid": self.slots,
            "%tid.x": warp * np.uint32(WARP_SIZE) + LANE,
            "%ntid.x": self.warps * WARP_SIZE,
            "%cluster_ctarank": self.rank,
            "%cluster_nctarank": len(self.ctas),
        }
        return np.broadcast_to(np.asarray(values[name], np.uint32), (len(warps), WARP_SIZE))


class Outcome(NamedTuple):
    """What executing one instruction for some warps gave, besides the change of their state.

    Attributes:
        wavefronts: [warp] cycles that it keeps shared memory busy; None for an instruction that does not use it.
        lanes: [warp] threads that took part in an access to shared memory; None: all of them.
        block: what the warps wait for before the instruction is done; None: nothing.
        facts: for each warp what the time of the instruction depends on (`simulator.execute.dynamic_info`), None where
            one fact does not say it all; no facts at all where the opcode says enough.
    """

    wavefronts: NDArray[np.int64] | None = None
    lanes: NDArray[np.int64] | None = None
    block: PendingWait | None = None
    facts: tuple[Fact | None, ...] = ()


NOTHING = Outcome()
Executor = Callable[[CtaState, Warps], Outcome]
