"""Registers and shared memory of many CTAs in lock step.

A register of all warps is one array [warp, lane], a column. Columns are never changed in place: a write makes a new
array (or takes the one that it is given), so a copy from one register to another costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.state.registers import WARP_SIZE, Lanes, Numbering, RegisterFile, Sort, Warps
from simulator.state.shared import LINE_BYTES, AddressError, Addresses, SharedMemory
from simulator.state.typed_views import gather, scatter
from simulator.state.windows import RANK_BIT

_WITHIN = (1 << RANK_BIT) - 1  # bits of an address within the shared memory of a CTA


class Columns(RegisterFile):
    """The registers of all warps of a batch of CTAs, zero until written.

    Attributes:
        everyone: intp [warp]: all warps; an instruction of all of them is given this very array, and copies nothing.
        columns: by `Sort`, the registers, each [warp, lane].
    """

    def __init__(self, warps: int, numbering: Numbering) -> None:
        super().__init__(0, *numbering)
        self.rows = warps
        self.everyone: Warps = np.arange(warps, dtype=np.intp)
        zeros = [np.zeros((warps, WARP_SIZE), sort.dtype) for sort in Sort]
        self.columns: tuple[list[NDArray[Any]], ...] = tuple(
            [zero] * count for zero, count in zip(zeros, numbering, strict=True)
        )

    def read(self, warps: Warps, registers: Sequence[int], sort: Sort = Sort.WORD) -> NDArray[Any]:
        """[warp, register, lane] of the given warps and registers, of the sort's type; not to be written to."""
        columns = self.columns[sort]
        whole = warps is self.everyone
        if len(registers) == 1:
            column = columns[registers[0]]
            return (column if whole else column[warps])[:, None]
        chosen = [columns[number] if whole else columns[number][warps] for number in registers]
        return np.stack(chosen, axis=1)

    def write(
        self,
        warps: Warps,
        registers: Sequence[int],
        values: NDArray[Any],
        lanes: Lanes | None = None,
        sort: Sort = Sort.WORD,
    ) -> None:
        """Writes [warp, register, lane] of the sort's type; only in `lanes`, bool [warp, lane], where they are
        given."""
        columns = self.columns[sort]
        whole = warps is self.everyone
        if values.dtype != sort.dtype:
            values = values.astype(sort.dtype)
        for index, number in enumerate(registers):
            value = values[:, index]
            if whole:
                columns[number] = value if lanes is None else np.where(lanes, value, columns[number])
                continue
            old = columns[number]
            new = old.copy()
            new[warps] = value if lanes is None else np.where(lanes, value, old[warps])
            columns[number] = new


def stride_of(size: int) -> int:
    """Bytes from one CTA's shared memory of `size` bytes to the next: whole lines, so that banks stay what they are."""
    return -(-size // LINE_BYTES) * LINE_BYTES


class LaunchShared(SharedMemory):
    """The shared memories of a batch of CTAs, of `size` bytes each.

    Attributes:
        data: uint8 [CTA * stride], flat.
        stride: bytes from one CTA's memory to the next.
        lenient: whether accesses outside of it, and misaligned ones, read zeros and write nothing, for who looks for
            all of them (`simulator.check.memory_model`).
        cluster: CTAs of a cluster, which stand side by side. Of more than one, addresses have the rank of the CTA from
            `RANK_BIT` on, and may name another CTA than the warp's own.
        ended: gives bool [CTA]: those of which no thread is left, or none that does more than exit.
    """

    def __init__(self, size: int, ctas: int, warps_each: int, cluster: int = 1) -> None:
        self.size, self.warps_each, self.cluster = size, warps_each, cluster
        self.ended: Callable[[], NDArray[np.bool_]] = lambda: np.zeros(ctas, np.bool_)
        self.stride = stride_of(size)
        self.data: NDArray[np.uint8] = np.zeros(self.stride * ctas, np.uint8)
        self.lenient = False

    def base(self, warps: Warps) -> Addresses:
        """int64 [warp, 1]: where the memory of each warp's CTA begins in `data`."""
        return (warps // self.warps_each * self.stride).astype(np.int64)[:, None]

    def places(self, addresses: Addresses, warps: Warps) -> Addresses:
        """Addresses int64 [warp, ...] as places in `data`."""
        shape = (-1, *[1] * (addresses.ndim - 1))
        if self.cluster == 1:
            return addresses + self.base(warps).reshape(shape)
        first = warps // self.warps_each // self.cluster * self.cluster
        cta = first.reshape(shape) + (addresses >> RANK_BIT)
        found: Addresses = (addresses & _WITHIN) + cta * self.stride
        return found

    def read(self, addresses: Addresses, width: int, warps: Warps) -> tuple[NDArray[np.uint8], int]:
        """Bytes uint8 [warp, access, width] at `addresses` [warp, access] of each warp's CTA; and 0, as races are found
        by `simulator.check.memory_model`."""
        if self.lenient and not (good := self.inside(addresses, width)).all():
            data = gather(self.data, self.places(np.where(good, addresses, 0), warps), width)
            return np.where(good[..., None], data, np.uint8(0)), 0
        self._check(addresses, width, warps)
        return gather(self.data, self.places(addresses, warps), width), 0

    def write(self, addresses: Addresses, values: NDArray[np.uint8], warps: Warps) -> int:
        """Writes uint8 [warp, access, width]; returns 0, as `read`."""
        width = values.shape[-1]
        if self.lenient and not (good := self.inside(addresses, width)).all():
            scatter(self.data, self.places(np.where(good, addresses, 0), warps)[good], values[good])
            return 0
        self._check(addresses, width, warps)
        scatter(self.data, self.places(addresses, warps), values)
        return 0

    def check(self, addresses: Addresses, width: int, warps: Warps) -> None:
        """Raises AddressError for accesses outside of the memory of a CTA of the cluster, and for misaligned ones."""
        self._check(addresses, width, warps)

    def inside(self, addresses: Addresses, width: int) -> NDArray[np.bool_]:
        """bool [...]: which accesses lie in the memory of a CTA of the cluster, at a multiple of their width."""
        offset, rank = addresses & _WITHIN, addresses >> RANK_BIT
        found: NDArray[np.bool_] = (addresses >= 0) & (offset + width <= self.size) & (offset % width == 0)
        return found & (rank < self.cluster)

    def synchronise(self, warps: Warps) -> None:
        """Nothing: `simulator.check.memory_model` follows the order of threads."""

    def release(self, warp: int) -> list[NDArray[np.int32]]:
        """Nothing, as `synchronise`."""
        return []

    def acquire(self, warp: int, released: Sequence[NDArray[np.int32]]) -> None:
        """Nothing, as `synchronise`."""

    def _check(self, addresses: Addresses, width: int, warps: Warps | None = None) -> None:
        if not addresses.size:
            return
        if self.cluster > 1 and warps is not None:
            self.check_ranks(addresses, warps)
            addresses = addresses & _WITHIN
        if int(addresses.min()) < 0 or int(addresses.max()) + width > self.size:
            bad = int(addresses[(addresses < 0) | (addresses + width > self.size)].ravel()[0])
            raise AddressError(
                f"access to {width} bytes at shared[{bad}], outside of the {self.size} bytes of shared memory",
                f"0 to {self.size - width}; static variables and the dynamic shared memory of the launch",
                rule="shared-memory-bounds",
            )
        if width > 1 and int(np.bitwise_or.reduce(addresses, axis=None)) & (width - 1):
            bad = int(addresses[addresses % width != 0].ravel()[0])
            reason = f"misaligned access to {width} bytes at shared[{bad}]"
            raise AddressError(reason, f"a multiple of {width}", rule="misaligned-address")

    def check_ranks(self, addresses: Addresses, warps: Warps) -> None:
        """Raises AddressError for addresses in a CTA that the cluster does not have, or that has ended."""
        ranks = addresses >> RANK_BIT
        low, high = int(ranks.min()), int(ranks.max())
        if low < 0 or high >= self.cluster:
            wrong = low if low < 0 else high
            reason = f"an address in shared memory of CTA {wrong} of a cluster of {self.cluster}"
            raise AddressError(reason, f"ranks 0 to {self.cluster - 1}", rule="shared-memory-bounds")
        shape, own = (-1, *[1] * (ranks.ndim - 1)), warps // self.warps_each
        if (ranks == (own % self.cluster).reshape(shape)).all():
            return
        gone = self.ended()[(own // self.cluster * self.cluster).reshape(shape) + ranks]
        if gone.any():
            reason = f"an access to shared memory of CTA {int(ranks[gone][0])} of the cluster, which has exited"
            legal = "barrier.cluster before a CTA exits whose shared memory others use"
            raise AddressError(reason, legal, rule="peer-exited")
