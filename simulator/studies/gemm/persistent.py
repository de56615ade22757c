"""What a persistent GEMM kernel takes on a whole chip: the engine runs a CTA, or a pair, with its share of L2.

A CTA or a pair computes one tile after another. So the kernel lasts as long as the first tile and, for each after it,
what a tile adds. Tiles are taken in blocks that are as near to squares as may be, as CUTLASS's swizzled rasters do,
which L2 likes best. CTAs come in clusters, in which a row of A serves all that have it, and a column of B likewise
(.multicast::cluster): L2 reads them once, the path of each SM brings them all. SMs that are left over when the chip is
divided into clusters are idle. `tcgen05` and `wgmma` say what a tile is, and how a CTA runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

from simulator.chip.config import Config
from simulator.errors import ConfigError
from simulator.simulation.energy import Spent
from simulator.studies.gemm.tcgen05.tile import Tcgen05Tile
from simulator.studies.gemm.tile import touched_in_blocks
from simulator.studies.gemm.wgmma.tile import WgmmaTile
from simulator.timing.result import Timing

PersistentTile = Tcgen05Tile | WgmmaTile


def check_room(tile: PersistentTile, chip: Config) -> None:
    """ConfigError for a chip with too little shared memory for a CTA, or too few SMs for a cluster."""
    if tile.shared_bytes > chip.sm.shared_bytes:
        reason = f"{tile} needs {tile.shared_bytes:,} bytes of shared memory"
        raise ConfigError(chip.path, "sm.shared_bytes", reason, f"at most {chip.sm.shared_bytes:,}: fewer stages")
    if tile.cluster > chip.chip.sms:
        reason = f"a cluster of {tile.cluster} CTAs on {chip.chip.sms} SMs"
        raise ConfigError(chip.path, "chip.sms", reason, "a smaller cluster")


@dataclass(frozen=True)
class PersistentKernel(ABC):
    """A persistent kernel on a chip.

    Attributes:
        tile: what a CTA, or a pair, computes at a time.
        m, n, k: the problem, whole tiles.
        chip: where it runs.
    """

    tile: PersistentTile
    m: int
    n: int
    k: int
    chip: Config

    # What a kind of kernel says

    @property
    @abstractmethod
    def tensor_cycles(self) -> float:
        """Cycles for which an iteration of a tile keeps the tensor cores of an SM busy."""

    @property
    @abstractmethod
    def runs(self) -> tuple[int, int]:
        """Two numbers of iterations, of which the larger outlasts the stores of the tile before."""

    @abstractmethod
    def run(self, iterations: int, rounds: int) -> Timing:
        """A CTA, or a pair, that computes `rounds` tiles of so many iterations; each run is made once."""

    @abstractmethod
    def busy(self) -> dict[str, float]:
        """The parts of `cycles` for which units of an SM are busy."""

    @property
    @abstractmethod
    def tables(self) -> tuple[str, ...]:
        """The tables of the config that the time rests on, beside those of every kernel."""

    @property
    @abstractmethod
    def granted(self) -> tuple[str, ...]:
        """What is taken for granted, in words."""

    def energy(self, activity: float) -> Spent | None:
        """What the kernel costs but for rest, with operands from zeros, 0, to random numbers, 1; None where nobody
        knows what its products take."""
        return None

    # What follows

    @property
    def tiles(self) -> int:
        """Tiles of the problem, filled up to whole clusters."""
        down, across = (self.m // self.tile.bm, self.n // self.tile.bn)
        return -(-down // self.tile.tiles_m) * -(-across // self.tile.tiles_n) * self.tile.tiles_m * self.tile.tiles_n

    @property
    def slots(self) -> int:
        """Tiles that the chip computes at a time."""
        return self.chip.chip.sms // self.tile.cluster * self.tile.tiles_m * self.tile.tiles_n

    @property
    def rounds(self) -> int:
        """Tiles that follow each other on an SM, at most."""
        return -(-self.tiles // self.slots)

    @property
    def sms(self) -> int:
        """SMs that are busy in the first round."""
        return min(self.tiles, self.slots) * self.tile.group

    @property
    def iterations(self) -> int:
        """Iterations of a tile."""
        return self.k // self.tile.bk

    @property
    def multicast(self) -> float:
        """Bytes that L2 reads for each byte that reaches an SM."""
        tile = self.tile
        read = (tile.bytes_a + tile.bytes_extra) / tile.tiles_n + tile.bytes_b / tile.tiles_m
        return read / (tile.bytes_a + tile.bytes_b + tile.bytes_extra)

    @property
    def least(self) -> float:
        """Cycles for which the tensor cores of an SM are busy."""
        return self.rounds * self.iterations * self.tensor_cycles

    @property
    def read_bytes(self) -> int:
        """Bytes that all SMs get from L2 in a cycle, which reads once what reaches several of them."""
        assert self.chip.l2 is not None
        return round(self.chip.l2.read_bytes / self.multicast)

    @property
    def l2_cycles(self) -> float:
        """Cycles for which L2 is busy with reads of all tiles."""
        assert self.chip.l2 is not None
        return self.chip.l2.read_cycles(self.copied_bytes * self.multicast)

    @property
    def stored_bytes(self) -> int:
        """Bytes of D."""
        return self.tile.bytes_d * self.m * self.n

    @property
    def copied_bytes(self) -> int:
        """Bytes that reach the SMs from L2."""
        tile = self.tile
        return self.tiles * tile.group * self.iterations * (tile.bytes_a + tile.bytes_b + tile.bytes_extra)

    @property
    def device_bytes(self) -> int:
        """Bytes that device memory brings and takes: operands once if they fit into L2, else what each round touches;
        results once."""
        assert self.chip.l2 is not None
        tile, down, across = self.tile, self.m // self.tile.bm, self.n // self.tile.bn
        of_row = self.iterations * (tile.bytes_a * tile.group + tile.bytes_e)
        of_column = self.iterations * tile.bytes_b * tile.group
        operands = down * of_row + across * of_column
        if operands > self.chip.l2.capacity:
            operands = max(touched_in_blocks(down, across, self.slots, of_row, of_column), operands)
        return operands + self.stored_bytes

    @cached_property
    def first(self) -> int:
        """Cycles of the first tile, until it is stored."""
        return round(self._extrapolated(1))

    @cached_property
    def following(self) -> int:
        """Cycles that each tile adds after the first; 0 if there is none."""
        return round(self._extrapolated(2)) - self.first if self.rounds > 1 else 0

    @property
    def cycles(self) -> int:
        """Cycles of all tiles of an SM."""
        return self.first + (self.rounds - 1) * self.following

    @property
    def kernel_cycles(self) -> int:
        """Cycles of the whole kernel: at least those that device memory needs."""
        assert self.chip.hbm is not None
        return max(self.cycles + self.chip.hbm.latency, -(-self.device_bytes // self.chip.hbm.bytes))

    @cached_property
    def iteration(self) -> float:
        """Cycles of an iteration once the pipeline is full."""
        few, many = self.runs
        return (self.run(many, 1).cycles - self.run(few, 1).cycles) / (many - few)

    def _extrapolated(self, rounds: int) -> float:
        """Cycles of some tiles one after another, from a run over fewer iterations if there are many."""
        many = min(self.runs[1], self.iterations)
        return self.run(many, rounds).cycles + rounds * self.iteration * (self.iterations - many)
