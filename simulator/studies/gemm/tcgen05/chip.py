"""What a tcgen05 GEMM takes on a whole chip: the engine runs a CTA, or a pair, with its share of L2; the rest follows.

Kernels are persistent: a CTA or a pair computes one tile after another, and stores each while it multiplies the next,
if Tensor Memory holds both. So the kernel lasts as long as the first tile and, for each after it, what a tile adds.
Tiles are taken in blocks that are as near to squares as may be, as CUTLASS's swizzled rasters do, which L2 likes best.
CTAs come in clusters, in which a row of A serves all that have it, and a column of B likewise (.multicast::cluster): L2
reads them once, the path of each SM brings them all. SMs that are left over when the chip is divided into clusters are
idle.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from simulator.chip.config import Config
from simulator.errors import ConfigError
from simulator.simulation.session import Session
from simulator.studies.gemm.remembered import remembered
from simulator.studies.gemm.tcgen05.tile import Tcgen05Tile
from simulator.studies.gemm.tcgen05.trace import tcgen05_trace
from simulator.studies.gemm.tile import touched_in_blocks
from simulator.timing.result import Timing

_MANY = 24  # iterations that are run, at least: from half of them on each further one takes the same time


def check_tcgen05(tile: Tcgen05Tile, chip: Config) -> None:
    """Errors for a chip that cannot run the tile's kernel.

    Raises:
        IsaError: no such instruction.
        ConfigError: no times for it, or too small an SM.
    """
    if chip.tcgen05 is None:
        reason = f"{chip.name} has no tcgen05.mma"
        raise ConfigError(chip.path, "tcgen05", reason, "a config with [tcgen05], such as b200")
    tile.check_target(chip.target)
    rates = chip.tcgen05.sparse_rate(tile.kind) if tile.sparse else chip.tcgen05.kind(tile.kind)
    if rates is None:
        reason = f"{chip.name} has no rate for '{tile.opcode}'"
        raise ConfigError(chip.path, "tcgen05.sparse" if tile.sparse else "tcgen05.kind", reason, "a table for it")
    if tile.shared_bytes > chip.sm.shared_bytes:
        reason = f"{tile} needs {tile.shared_bytes:,} bytes of shared memory"
        raise ConfigError(chip.path, "sm.shared_bytes", reason, f"at most {chip.sm.shared_bytes:,}: fewer stages")
    if tile.cluster > chip.chip.sms:
        reason = f"a cluster of {tile.cluster} CTAs on {chip.chip.sms} SMs"
        raise ConfigError(chip.path, "chip.sms", reason, "a smaller cluster")


@remembered(keep=16_384)
def tcgen05_run(tile: Tcgen05Tile, iterations: int, rounds: int, chip: Config, read_bytes: int, sms: int) -> Timing:
    """Runs a CTA, or a pair, that computes `rounds` tiles of so many iterations one after another, beside so many SMs
    that all together get `read_bytes` from L2 in a cycle."""
    assert chip.l2 is not None
    text = tcgen05_trace(tile, iterations * tile.bk, rounds=rounds, target=chip.target)
    share = replace(chip, l2=replace(chip.l2, read_bytes=read_bytes))
    return Session(text, share, arithmetic="none").time(sms=sms)


@dataclass(frozen=True)
class Kernel:
    """A persistent kernel on a chip.

    Attributes:
        tile: what a CTA, or a pair, computes at a time.
        m, n, k: the problem, whole tiles.
        chip: where it runs.
    """

    tile: Tcgen05Tile
    m: int
    n: int
    k: int
    chip: Config

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
        """Cycles for which the tensor cores of an SM are busy, at their rate."""
        assert self.chip.tcgen05 is not None
        tile = self.tile
        return self.rounds * self.iterations * tile.rows_a * tile.bn * tile.bk / self._rate

    @property
    def _rate(self) -> float:
        """Multiply-adds of a CTA in a cycle."""
        assert self.chip.tcgen05 is not None
        tables = self.chip.tcgen05
        rated = tables.sparse_rate(self.tile.kind) if self.tile.sparse else tables.kind(self.tile.kind)
        assert rated is not None
        return rated.rate

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
        return operands + tile.bytes_d * self.m * self.n

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

    @cached_property
    def iteration(self) -> float:
        """Cycles of an iteration once the pipeline is full."""
        few, many = self._runs
        return (self._run(many, 1).cycles - self._run(few, 1).cycles) / (many - few)

    def busy(self) -> dict[str, float]:
        """The parts of the time for which units of an SM are busy."""
        few, many = self._runs
        less, more = self._run(few, 1), self._run(many, 1)
        per = {
            "tensor": more.tcgen05_busy[0][1] - less.tcgen05_busy[0][1],
            "tcgen05 queue": more.tcgen05_busy[0][0] - less.tcgen05_busy[0][0],
            "shared memory": more.shared_busy - less.shared_busy,
            "path to L2": more.memory_busy - less.memory_busy,
        }
        whole = self.rounds * self.iterations / (many - few) / self.cycles
        return {name: cycles * whole for name, cycles in per.items()}

    @property
    def _read_bytes(self) -> int:
        """Bytes that all SMs get from L2 in a cycle, which reads once what reaches several of them."""
        assert self.chip.l2 is not None
        return round(self.chip.l2.read_bytes / self.multicast)

    @cached_property
    def _runs(self) -> tuple[int, int]:
        """Two numbers of iterations, of which the larger outlasts the stores of the tile before."""
        assert self.chip.l2 is not None
        tile = self.tile
        stores = tile.rows_a * tile.bn * tile.bytes_d * self.sms / self.chip.l2.write_bytes
        many = max(_MANY, round(1.2 * stores * self._rate / (tile.rows_a * tile.bn * tile.bk)))
        many = min(many, max(self.iterations, _MANY // 2))  # no more than a small problem asks for
        return many // 2, many

    def _extrapolated(self, rounds: int) -> float:
        """Cycles of some tiles one after another, from a run over fewer iterations if there are many."""
        many = min(self._runs[1], self.iterations)
        return self._run(many, rounds).cycles + rounds * self.iteration * (self.iterations - many)

    def _run(self, iterations: int, rounds: int) -> Timing:
        """A run of the engine; each is made once."""
        return tcgen05_run(self.tile, iterations, rounds, self.chip, self._read_bytes, self.sms)
