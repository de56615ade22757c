"""What a GEMM's kernel costs on the whole chip: one CTA's instructions and bytes, for each CTA, what device memory
brings, and rest while it runs."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from simulator.chip.config import Config
from simulator.chip.energy import Energy
from simulator.simulation.energy import RANDOM, Counted, Spent, between, dynamic, limited_clock, with_rest
from simulator.simulation.session import Session
from simulator.studies.gemm.tile import Tile
from simulator.studies.gemm.trace import kernel_trace


@lru_cache(maxsize=64)
def _counted(tile: Tile, k: int, target: str) -> Counted:
    """The instructions and bytes of one CTA."""
    session = Session(kernel_trace(tile, k, target=target), None, target=target, arithmetic="none")
    return Counted.of(session.program, session.without_results())


def spent(
    tile: Tile, sizes: tuple[int, int, int], chip: Config, activity: float, seconds: float, moved: tuple[int, int]
) -> Spent | None:
    """The energy of a kernel; None for a config without `[energy]`.

    Args:
        sizes: m, n, k, whole numbers of tiles.
        activity: of the operands: 0 for zeros, 1 for random numbers.
        seconds: how long it runs.
        moved: bytes from device memory, and to it.
    """
    if chip.energy is None:
        return None
    m, n, k = sizes
    one = dynamic(chip, _counted(tile, k, str(chip.target)), activity)
    assert one is not None
    ctas = (m // tile.bm) * (n // tile.bn)
    parts = {name: nj * ctas for name, nj in one.parts.items()}
    parts["device memory"] = outside(chip.energy, moved, activity) * chip.energy.scale(chip.chip.clock_mhz)
    return with_rest(chip, Spent(parts, activity, one.notes), seconds, chip.chip.sms)


def outside(table: Energy, moved: tuple[int, int], activity: float) -> float:
    """Nanojoules of bytes from device memory, and to it, at the table's clock."""
    read, written = between(table.hbm_load_byte, activity), between(table.hbm_store_byte, activity)
    return (moved[0] * read + moved[1] * written) / 1e3


class Figures(NamedTuple):
    """The numbers of an estimate that follow from its energy, in the order of its fields."""

    energy_j: float | None = None
    power_w: float | None = None
    tflops_per_watt: float | None = None
    edp_js: float | None = None


def figures(energy: Spent | None, seconds: float, operations: int) -> Figures:
    """Joules, watts, tera-operations a second and watt, joules times seconds; None without energy."""
    if energy is None:
        return Figures()
    joules = energy.nj / 1e9
    return Figures(joules, joules / seconds, operations / joules / 1e12, joules * seconds)


def notes(energy: Spent | None, chip: Config) -> tuple[str, ...]:
    """What the energy takes for granted, in words."""
    if energy is None:
        return ()
    words = list(energy.notes)
    if chip.status("energy") == "assumed":
        words.append(f"[energy] {chip.sources['energy']}")
    if energy.activity == RANDOM:
        words.append("energy: random data assumed")
    return tuple(words)


LIMITED = ("limited_clock_mhz", "limited_time_us", "limited_tflops")
"""The fields of an estimate, and of all that is made of it, that `limited` gives."""


class Limited(NamedTuple):
    """A time where the power limit lowers the clock, in the order of the fields of an estimate; None where it does not:
    the clock, the time at it with the launch, and tera-operations a second."""

    clock_mhz: float | None = None
    time_us: float | None = None
    tflops: float | None = None


def limited(chip: Config, power_w: float | None, cycles: int, operations: int) -> Limited:
    """So many cycles at the clock that the power limit leaves."""
    clock = limited_clock(chip, power_w)
    if clock is None:
        return Limited()
    time = cycles / clock + (chip.launch.gap_ns if chip.launch is not None else 0) / 1e3
    return Limited(clock, time, operations / time / 1e6)
