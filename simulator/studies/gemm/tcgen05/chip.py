"""What a tcgen05 GEMM takes on a whole chip: how a CTA, or a pair, runs (`simulator.studies.gemm.persistent` has the
rest). A tile is stored while the next is multiplied, if Tensor Memory holds both."""

from __future__ import annotations

from dataclasses import dataclass, replace

from simulator.chip.config import Config
from simulator.errors import ConfigError
from simulator.simulation.session import Session
from simulator.studies.gemm.persistent import PersistentKernel, check_room
from simulator.studies.gemm.remembered import remembered
from simulator.studies.gemm.tcgen05.tile import Tcgen05Tile
from simulator.studies.gemm.tcgen05.trace import tcgen05_trace
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
    check_room(tile, chip)


@remembered(keep=16_384)
def tcgen05_run(tile: Tcgen05Tile, iterations: int, rounds: int, chip: Config, read_bytes: int, sms: int) -> Timing:
    """Runs a CTA, or a pair, that computes `rounds` tiles of so many iterations one after another, beside so many SMs
    that all together get `read_bytes` from L2 in a cycle."""
    assert chip.l2 is not None
    text = tcgen05_trace(tile, iterations * tile.bk, rounds=rounds, target=chip.target)
    share = replace(chip, l2=replace(chip.l2, read_bytes=read_bytes))
    return Session(text, share, arithmetic="none").time(sms=sms)


@dataclass(frozen=True)
class Tcgen05Kernel(PersistentKernel):
    """A persistent kernel by tcgen05.mma."""

    tile: Tcgen05Tile

    @property
    def tensor_cycles(self) -> float:
        """As in `PersistentKernel`."""
        tile = self.tile
        return tile.rows_a * tile.bn * tile.bk / self._rate

    @property
    def _rate(self) -> float:
        """Multiply-adds of a CTA in a cycle."""
        assert self.chip.tcgen05 is not None
        tables = self.chip.tcgen05
        rated = tables.sparse_rate(self.tile.kind) if self.tile.sparse else tables.kind(self.tile.kind)
        assert rated is not None
        return rated.rate

    @property
    def runs(self) -> tuple[int, int]:
        """As in `PersistentKernel`."""
        assert self.chip.l2 is not None
        tile = self.tile
        stores = tile.rows_a * tile.bn * tile.bytes_d * self.sms / self.chip.l2.write_bytes
        many = max(_MANY, round(1.2 * stores / self.tensor_cycles))
        many = min(many, max(self.iterations, _MANY // 2))  # no more than a small problem asks for
        return many // 2, many

    def run(self, iterations: int, rounds: int) -> Timing:
        """As in `PersistentKernel`."""
        return tcgen05_run(self.tile, iterations, rounds, self.chip, self.read_bytes, self.sms)

    def busy(self) -> dict[str, float]:
        """As in `PersistentKernel`."""
        few, many = self.runs
        less, more = self.run(few, 1), self.run(many, 1)
        per = {
            "tensor": more.tcgen05_busy[0][1] - less.tcgen05_busy[0][1],
            "tcgen05 queue": more.tcgen05_busy[0][0] - less.tcgen05_busy[0][0],
            "shared memory": more.shared_busy - less.shared_busy,
            "path to L2": more.memory_busy - less.memory_busy,
        }
        whole = self.rounds * self.iterations / (many - few) / self.cycles
        return {name: cycles * whole for name, cycles in per.items()}

    @property
    def tables(self) -> tuple[str, ...]:
        """As in `PersistentKernel`."""
        assert self.chip.tcgen05 is not None
        tile, own = self.tile, self.chip.tcgen05
        sparse = own.sparse_rate(tile.kind) if tile.sparse else None
        rows = (("kind", own.kind(tile.kind)), ("sparse", sparse), ("shape", own.shape(tile.group, tile.bm, ws=False)))
        named = tuple(f"tcgen05 {table} {row.name}" for table, row in rows if row is not None)
        return (*named, "tcgen05", "tcgen05.copy", "tcgen05.tmem", "tcgen05.mbarrier")

    @property
    def granted(self) -> tuple[str, ...]:
        """As in `PersistentKernel`."""
        return ("bulk copies and stores of an SM do not wait for each other; clusters read from L2 once",)
