"""The tables of a config for memory: shared memory, the way of an SM to L2, L2, device memory, mbarriers and launches.

Units of an SM count in cycles of `[chip] clock_mhz`. Device memory and L2 have clocks of their own: their bandwidth in
GB/s does not change when the SMs run faster. So a file says GB/s and ns, and the timing model, which knows cycles of
the SMs alone, gets them converted at the configured clock:

>>> bytes_a_cycle(2946.3, 1830), bytes_a_cycle(2946.3, 3660), cycles_of(221.3, 1830)
(1610, 805, 405)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from simulator.chip.tables import LONGEST, Cycles, Delay, Slots
from simulator.state.global_memory import LINE_BYTES
from simulator.toml_tables import Between

MOST_BYTES = 1_048_576
BytesPerCycle = Annotated[int, Between(1, MOST_BYTES, "bytes a cycle")]
GigabytesPerSecond = Annotated[float, Between(0, 1e9, "GB/s", exclusive=True)]
Nanoseconds = Annotated[float, Between(0, 1e6, "ns", exclusive=True)]
MOST_PORT = 63  # cycles: what a sub-core reads lies within 64 cycles of its issue, and a chip takes 2 to 6


class WrongClockError(Exception):
    """A bandwidth or latency that gives no legal number of bytes or cycles at the clock of the SMs."""

    def __init__(self, key: str, reason: str, legal: str) -> None:
        super().__init__(key, reason, legal)
        self.key, self.reason, self.legal = key, reason, legal


def bytes_a_cycle(gbs: float, clock_mhz: float, key: str = "gbs") -> int:
    """Bytes in one cycle of the SMs for a bandwidth in GB/s.

    Raises:
        WrongClockError: less than one byte, or more than `MOST_BYTES`.
    """
    size = round(gbs * 1e3 / clock_mhz)
    if 1 <= size <= MOST_BYTES:
        return size
    least, most = clock_mhz / 1e3, MOST_BYTES * clock_mhz / 1e3
    reason = f"{gbs:,g} GB/s are {size:,} bytes in a cycle of {clock_mhz:,g} MHz"
    raise WrongClockError(key, reason, f"{least:,.9g} to {most:,.9g} GB/s at this clock (chip.clock_mhz)")


def cycles_of(ns: float, clock_mhz: float, key: str = "latency_ns") -> int:
    """Cycles of the SMs for a time in ns, at least one.

    Raises:
        WrongClockError: more than `LONGEST` cycles.
    """
    cycles = max(round(ns * clock_mhz / 1e3), 1)
    if cycles <= LONGEST:
        return cycles
    reason = f"{ns:,g} ns are {cycles:,} cycles of {clock_mhz:,g} MHz"
    raise WrongClockError(key, reason, f"up to {LONGEST * 1e3 / clock_mhz:,.9g} ns at this clock (chip.clock_mhz)")


@dataclass(frozen=True)
class Shared:
    """`[shared]`: shared memory, one server of the whole SM, behind a port of each sub-core.

    Attributes:
        cycles: cycles that the server takes for each wavefront (128 bytes), or for `wavefronts` of them.
        wavefront_interval: cycles from a wavefront of a warp to its next, of the same access or of another.
        port_cycles: cycles for each register (addresses, values to store) that a sub-core sends.
        warp_interval: cycles between two accesses that a warp issues.
        queue: accesses of a sub-core that may have issued and not come to the port.
        queue_latency: cycles after an access comes to the port until another may issue in its place.
        waiting: accesses behind the ports that may wait for their first wavefront, of all sub-cores.
        reach: of these only the first so many may begin (one fewer right behind a begin), and all stores.
        senders: sub-cores that can send the values of a store at a time, each for `port_cycles` a value.
        latency: cycles from the last wavefront until an instruction that needs the loaded value can issue.
        register_latency: cycles that each further register of a vector `ld.shared` adds.
        store_latency: cycles that a store's first wavefront comes later than its values.
        operand_latency: cycles, after the port, until a register that an access reads may be overwritten.
        overlap_latency: cycles that an integer result needs more to a load into the register of its own address.
        wavefronts: wavefronts that the server can give in `cycles`: 3 in 2 cycles for one and a half times as many.
        loads: registers of loads that have begun for which the SM has room, for each wavefront that it serves in a
            cycle; those of a vector load count as one.
        freed: cycles behind that in which a register leaves the SM's pipe until its place is free.
        passes: accesses that may begin before a load that finds no room.
    """

    cycles: Cycles
    wavefront_interval: Delay
    port_cycles: Annotated[int, Between(0, MOST_PORT, "cycles")]
    warp_interval: Delay
    queue: Slots
    latency: Cycles
    register_latency: Delay
    store_latency: Delay
    operand_latency: Delay
    overlap_latency: Delay
    wavefronts: Annotated[int, Between(1, 64)] = 1
    queue_latency: Delay = 6
    waiting: Slots = 16
    reach: Slots = 16
    senders: Slots = 2
    loads: Annotated[int, Between(8, 64, "registers")] = 10
    freed: Annotated[int, Between(0, 32, "cycles")] = 4
    passes: Annotated[int, Between(0, 4096, "accesses")] = 2


@dataclass(frozen=True)
class Memory:
    """`[memory]`: the way of one SM to L2.

    Attributes:
        latency: cycles from a load that finds its line in L2 until an instruction that needs the value can issue.
        copy_latency: the same from a cp.async until its bytes are at shared memory.
        line_cycles: cycles of the SM's path for each cache line that an instruction touches.
        cached_cycles: cycles of the path for each cp.async.ca, at least.
        port_cycles: cycles until the sub-core sends the next access to any memory.
        pipe_cycles: cycles that an access takes of the pipe to shared memory before it goes out.
        write_cycles: cycles of that pipe for each wavefront that a copy writes to shared memory when it arrives.
        store_bytes: bytes in a cycle that the SM stores.
        bulk_latency: cycles from a cp.async.bulk until its first bytes are at shared memory.
        bulk_bytes: bytes in a cycle that bulk copies bring.
        bulk_cycles: cycles until the thread that issued a cp.async.bulk issues again.
        tensor_latency: the same as bulk_latency for a copy by a tensor map: for the first behind an
            mbarrier.arrive.expect_tx, which goes out behind that, and for others; None: not known.
        tensor_cycles: the same as bulk_cycles: for the first copy by a tensor map, and for others of any sort (None:
            all take bulk_cycles).
        bulk_store_bytes: bytes in a cycle that copies from shared memory store; None: not known.
        bulk_store_latency: cycles from the last of them until cp.async.bulk.wait_group.read lets its warp go on, and
            until wait_group does; None: not known.
        l1_latency: cycles from a load that finds its line in L1 until an instruction that needs the value can issue.
        far_latency: cycles that a line takes longer the first time, if its home is the far half of L2.
    """

    latency: Cycles
    copy_latency: Cycles
    line_cycles: Cycles
    cached_cycles: Delay
    port_cycles: Annotated[int, Between(0, MOST_PORT, "cycles")]
    pipe_cycles: Delay
    write_cycles: Delay
    store_bytes: BytesPerCycle
    bulk_latency: Cycles
    bulk_bytes: BytesPerCycle
    bulk_cycles: Cycles
    tensor_latency: tuple[Cycles, Cycles] | None = None
    tensor_cycles: tuple[Cycles, Cycles] | None = None
    bulk_store_bytes: BytesPerCycle | None = None
    bulk_store_latency: tuple[Cycles, Cycles] | None = None
    l1_latency: Delay = 0
    far_latency: Delay = 0

    def held(self, first: bool, tensor: bool) -> int:
        """Cycles until the thread that issued a bulk copy to shared memory issues again.

        Args:
            first: whether it is the first behind an mbarrier.arrive.expect_tx.
            tensor: whether a tensor map says which bytes.
        """
        if self.tensor_cycles is None or (first and not tensor):
            return self.bulk_cycles
        return self.tensor_cycles[not first]

    def lacks(self, *keys: str) -> str:
        """The first of these keys that is not known; "" for none."""
        return next((key for key in keys if getattr(self, key) is None), "")


@dataclass(frozen=True)
class Mbarrier:
    """`[tcgen05.mbarrier]`, and `[mbarrier]` of chips without `[tcgen05]`: mbarriers.

    Attributes:
        latency: cycles from mbarrier.arrive until a warp that waits for the phase can issue.
        test_latency: cycles from a try_wait, or test_wait, that finds the phase complete until its predicate is there.
    """

    latency: Cycles
    test_latency: Cycles = 1


@dataclass(frozen=True)
class L2Table:
    """`[l2]`: the L2 cache of the chip, which has a clock of its own.

    Attributes:
        read_gbs: GB/s that all SMs together read from it.
        write_gbs: GB/s that they write to it.
        capacity: its size in bytes.
        request_bytes: bytes of that bandwidth that a request takes beside what it reads: one for each line of 128 bytes
            that an access touches.
        bulk_request_bytes: the same of a bulk copy, where that differs.
        shared_reads: times `read_gbs` that bulk copies read of lines that many SMs ask for.
        burst_bytes: bytes of that bandwidth that an SM may take beyond its share at once, since the others do not ask
            in the same cycles; its share has room for them again when it has asked for less.
        write_burst_bytes: bytes that an SM may write at once beyond its share where SMs are out of step.
        copies: copies of a line that it holds, one in each of its partitions.
    """

    read_gbs: GigabytesPerSecond
    write_gbs: GigabytesPerSecond
    capacity: Annotated[int, Between(1, 1 << 40, "bytes")]
    request_bytes: Annotated[int, Between(0, 1024, "bytes")] = 0
    bulk_request_bytes: Annotated[int, Between(0, 1024, "bytes")] | None = None
    shared_reads: Annotated[float, Between(1, 64, "times")] = 1.0
    burst_bytes: Annotated[int, Between(0, 1_048_576, "bytes")] = 0
    write_burst_bytes: Annotated[int, Between(0, 1_048_576, "bytes")] = 0
    copies: Annotated[int, Between(1, 16)] = 1

    def at(self, clock_mhz: float) -> L2:
        """L2 in cycles of SMs at this clock."""
        read = bytes_a_cycle(self.read_gbs, clock_mhz, "read_gbs")
        write = bytes_a_cycle(self.write_gbs, clock_mhz, "write_gbs")
        return L2(**vars(self), read_bytes=read, write_bytes=write)


@dataclass(frozen=True)
class L2(L2Table):
    """`[l2]`, as SMs at the configured clock see it.

    Attributes:
        read_bytes, write_bytes: bytes in a cycle of the SMs that all of them together read from it and write to it.
    """

    read_bytes: int = 0
    write_bytes: int = 0

    @property
    def shared_read_bytes(self) -> int:
        """Bytes in a cycle that bulk copies of all SMs read of lines that many of them ask for."""
        return round(self.shared_reads * self.read_bytes)

    def read_cycles(self, size: float, lines: float | None = None) -> float:
        """Cycles in which it can serve reads of `size` bytes in `lines` lines (None: whole ones), of all SMs."""
        requests = size / LINE_BYTES if lines is None else lines
        return (size + requests * self.request_bytes) / self.read_bytes


@dataclass(frozen=True)
class HbmTable:
    """`[hbm]`: device memory, which has a clock of its own.

    Attributes:
        latency_ns: nanoseconds beyond the latency of L2.
        gbs: GB/s of the whole chip.
    """

    latency_ns: Nanoseconds
    gbs: GigabytesPerSecond

    def at(self, clock_mhz: float) -> Hbm:
        """Device memory in cycles of SMs at this clock."""
        return Hbm(
            **vars(self), latency=cycles_of(self.latency_ns, clock_mhz), bytes=bytes_a_cycle(self.gbs, clock_mhz)
        )


@dataclass(frozen=True)
class Hbm(HbmTable):
    """`[hbm]`, as SMs at the configured clock see it.

    Attributes:
        latency: cycles of the SMs beyond those of L2.
        bytes: bytes in a cycle of the SMs, of the whole chip.
    """

    latency: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Launch:
    """`[launch]`: what the begin of kernels and CTAs costs.

    Attributes:
        overhead_ns: nanoseconds that a single launch from the host takes beyond the time from the kernel's first CTA's
            begin to the last one's end.
        gap_ns: nanoseconds from the last CTA's end to the first one's begin of the next kernel of a stream that the
            host has filled: what each launch costs where libraries are timed, over many launches.
        cta_cycles: cycles from the last instruction of a CTA to the first of the CTA that takes its place on the SM.
        start_cycles: cycles in which the SM is busy with a kernel that does nothing.
        fetch_cycles: cycles until a line of 128 bytes of machine code is there that has not been executed before.
        spread: by which part of its time the last SM ends later than SMs do on average: they are not equally fast.
    """

    overhead_ns: Annotated[int, Between(1, 1_000_000_000, "ns")]
    gap_ns: Annotated[int, Between(0, 1_000_000_000, "ns")] = 0
    cta_cycles: Delay = 0  # configs of 0.1.0 had none
    start_cycles: Delay = 0
    fetch_cycles: Delay = 0
    spread: Annotated[float, Between(0, 1)] = 0.0
