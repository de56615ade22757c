"""Estimates what a GEMM costs on a whole chip: the engine runs the CTAs of one SM with their share of L2, one after the
other in each of its places.

The chip spreads CTAs evenly over its SMs, each of which has places for as many as registers, shared memory and warps
allow; when a CTA ends, the next takes its place after a while. The first CTAs of an SM begin together and meet in their
prologues and epilogues; those that follow have fallen out of step, so that one stores while its neighbours multiply. So
the kernel lasts as long as the first CTAs in step and, for each CTA after them, its share of the cycles that a CTA
takes out of step. All SMs are taken to be as fast as each other, and L2 serves each with a share of its bytes in a
cycle. Device memory must bring what is touched first while the kernel runs; its latency is paid once, and by copies of
what L2 has lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from isa.arguments import described
from isa.errors import IsaError
from simulator.chip.config import Config, load_config
from simulator.errors import ConfigError
from simulator.floating_point import guarded
from simulator.simulation.energy import RANDOM, Spent
from simulator.studies.gemm.energy import figures, limited, notes, spent
from simulator.studies.gemm.held import delay, dram_bytes, occupancy
from simulator.studies.gemm.kinds import AnyTile, check_persistent, persistent
from simulator.studies.gemm.persistent import PersistentKernel
from simulator.studies.gemm.runs import at_length, begun, run
from simulator.studies.gemm.shares import bound_of
from simulator.studies.gemm.shares import shares as shares_of
from simulator.studies.gemm.tile import Tile, check_sizes
from simulator.tables import Table
from simulator.timing.result import Timing

if TYPE_CHECKING:
    from pandas import DataFrame


MOST_ACTIVITY = 10  # of operands: random ones have 1, and no pattern of bits is known to have twice as much


@dataclass(frozen=True)
class Estimate:
    """What a GEMM takes.

    Attributes:
        tile, config, m, n, k: the question.
        ctas: how many CTAs the whole problem has.
        resident: how many CTAs one SM holds at a time.
        waves: how many CTAs follow each other in a place of an SM, at most.
        wave_cycles: cycles of an SM's first CTAs, which run in step.
        next_cycles: cycles from the begin of a later CTA to the begin of the next in its place; 0 if there is none.
        iteration_cycles: cycles of the main loop of an SM's first CTAs, per CTA and iteration.
        cycles: cycles of the kernel, from the begin of the first CTA to the end of the last one.
        time_us: time at the config's clock in microseconds, as libraries are timed: one of many launches in a stream,
            with the gap between them.
        once_us: the same of a single launch from the host.
        tflops: 2 * M * N * K (pruned products counted) in that time.
        shares: for each limit, the part of `cycles` that it would take alone.
        bound: the limit with the largest share.
        assumed: tables of the config that nobody measured or published, and what else is taken for granted.
        config_path: the file of a config that does not come with tcsim; empty for one that does.
        config_overrides: what was set over the config's values, "key=value; key=value"; empty if nothing was.
        energy: what the kernel costs on the whole chip, by what takes it; None for a config without [energy].
        energy_j: the same in joules; power_w: on average over `time_us`.
        tflops_per_watt, edp_js: tera-operations (as `tflops`) a second and watt, and joules times seconds.
        limited_clock_mhz, limited_time_us, limited_tflops: about the clock to which the power limit lowers the config's
            where `power_w` is above it, and time and speed at that clock; None where it is not.
    """

    tile: AnyTile
    config: str
    m: int
    n: int
    k: int
    ctas: int
    resident: int
    waves: int
    wave_cycles: int
    next_cycles: int
    iteration_cycles: float
    cycles: int
    time_us: float
    once_us: float
    tflops: float
    shares: dict[str, float]
    bound: str
    assumed: tuple[str, ...] = ()
    config_path: str = ""
    config_overrides: str = ""
    energy: Spent | None = None
    energy_j: float | None = None
    power_w: float | None = None
    tflops_per_watt: float | None = None
    edp_js: float | None = None
    limited_clock_mhz: float | None = None
    limited_time_us: float | None = None
    limited_tflops: float | None = None

    def to_frame(self) -> DataFrame:
        """The question and the answer in one row of a pandas DataFrame, so that estimates concatenate into a study."""
        tile = {f"tile_{name}": value for name, value in asdict(self.tile).items()}
        own = {
            f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("tile", "shares", "assumed", "energy")
        }
        own |= (
            {f"energy_{name.replace(' ', '_')}_nj": nj for name, nj in self.energy.parts.items()} if self.energy else {}
        )
        shares = {f"{name.replace(' ', '_')}_share": share for name, share in self.shares.items()}
        return Table.of([tile | own | shares]).frame()


class _Run(NamedTuple):
    """What the engine says of a kernel; names as in `Estimate`."""

    ctas: int
    resident: int
    waves: int
    wave_cycles: int
    next_cycles: int
    iteration_cycles: float
    cycles: int


Progress = Callable[[int, int, str], None]
"""Is told how many of how many steps are done, and what they are."""


def check_chip(tile: AnyTile, config: str | Path | Config) -> Config:
    """The chip for a tile.

    Raises:
        IsaError: a chip without the tile's matrix instruction; the decoder's reason.
        ConfigError: a chip without the tables, or whose SM is too small.
    """
    if not isinstance(tile, AnyTile):
        raise IsaError("", -1, f"{described(tile)} in place of a tile", 'tile_for("128x128x64", "f16", sparse=True)')
    chip = load_config(config)
    legal = "a config with [memory], [l2] and [hbm], such as h100_sxm, a100 or rtx4090"
    if chip.memory is None or chip.l2 is None or chip.hbm is None:
        raise ConfigError(chip.path, "memory", f"{chip.name} has no times for global memory", legal)
    if not isinstance(tile, Tile):
        check_persistent(tile, chip)
        return chip
    tile.check_target(chip.target)
    if chip.tensor_class(tile.form) is None and (chip.sequences is None or chip.sequences.find(tile.form) is None):
        reason = f"{chip.name} has no time for '{tile.form.opcode}'"
        raise ConfigError(chip.path, "tensor", reason, "a [[tensor]] class for it")
    occupancy(tile, chip)
    return chip


@guarded
def estimate(
    tile: AnyTile,
    m: int,
    n: int,
    k: int,
    config: str | Path | Config = "h100_sxm",
    *,
    activity: float = RANDOM,
    progress: Progress | None = None,
) -> Estimate:
    """The cost of D[m][n] = A[m][k] * B[n][k]^T, computed in tiles. Matrices that are no whole number of tiles are
    filled up.

    Args:
        activity: of the operands, for the energy: 0 for zeros, 1 for random numbers
            (`simulator.simulation.energy_values.activity` tells it of others).
        progress: is told before each run of an SM, of which `mma` and `mma.sp` take three, how many are done.

    Raises:
        IsaError: a size below 1, or a chip without the tile's matrix instruction.
        ConfigError: as `check_chip`.
    """
    check_sizes(m=m, n=n, k=k)
    if not 0 <= activity <= MOST_ACTIVITY:
        raise IsaError(str(activity), -1, f"activity = {activity}", f"a number from 0 to {MOST_ACTIVITY}")
    chip, asked = check_chip(tile, config), (m, n, k)
    m, n, k = filled(tile, m, n, k)
    if not isinstance(tile, Tile):
        return _persistent(persistent(tile, m, n, k, chip), asked)
    told, sms = progress or (lambda *_: None), chip.chip.sms
    ctas, on_sm, resident, together, later, first, following, cycles, dram = _whole(tile, m, n, k, chip, told)
    waves = -(-on_sm // resident)
    shares = shares_of(tile, (m, n, k), chip, (together, on_sm), first, cycles)
    shares["device memory"] = dram / cycles
    shares["waves"] = 1 - ctas / (waves * resident * sms)
    seconds = in_stream(cycles, chip)
    told(2, 3, "runs of an SM")
    iteration = _iteration(tile, k, chip, together, min(sms, ctas), later, first.cycles)
    energy = spent(tile, (m, n, k), chip, activity, seconds, dram_bytes(tile, m, n, k, chip))
    run = _Run(ctas, resident, waves, first.cycles, following, iteration, cycles)
    return _answer(tile, chip, asked, (m, n, k), run, shares, energy)


def kernel_cycles(tile: AnyTile, m: int, n: int, k: int, chip: Config) -> int:
    """`cycles` of `estimate`, without the runs that only its other figures take."""
    if not isinstance(tile, Tile):
        return persistent(tile, *filled(tile, m, n, k), chip).kernel_cycles
    return _whole(tile, *filled(tile, m, n, k), chip, lambda *_: None).cycles


def stacked(tile: AnyTile, m: int, parts: int) -> int:
    """Rows of a product whose tiles are those of `parts` products of m rows: batches, or slices of K."""
    return m if parts == 1 else -(-m // tile.bm) * tile.bm * parts


def filled(tile: AnyTile, m: int, n: int, k: int) -> tuple[int, int, int]:
    """The sizes in whole tiles."""
    return -(-m // tile.bm) * tile.bm, -(-n // tile.bn) * tile.bn, -(-k // tile.bk) * tile.bk


class _Whole(NamedTuple):
    """CTAs of the kernel, and of the fullest SM; how many an SM holds, and has at first; how much later copies come
    (`delay`); the run of the first CTAs, the cycles of a later one, those of the kernel, and those for which device
    memory is busy."""

    ctas: int
    on_sm: int
    resident: int
    together: int
    later: int
    first: Timing
    following: int
    cycles: int
    dram: int


def _whole(tile: Tile, m: int, n: int, k: int, chip: Config, told: Progress) -> _Whole:
    """The whole kernel."""
    assert chip.hbm is not None
    ctas, sms, resident = (m // tile.bm) * (n // tile.bn), chip.chip.sms, occupancy(tile, chip)
    on_sm = -(-ctas // sms)  # CTAs of the fullest SM
    together, later = min(resident, on_sm), delay(tile, m, n, k, chip)
    told(0, 3, "runs of an SM")

    def resident_ctas(k: int) -> Timing:
        return run(tile, k, chip, together, min(sms, ctas), later)

    def after(k: int, cycles: int) -> int:
        told(1, 3, "runs of an SM")
        return _following(tile, k, chip, resident, later, cycles) if on_sm > resident else 0

    first, following = at_length(tile, k, resident_ctas, after)
    cycles = first.cycles + following * (on_sm - together) // resident
    if chip.launch is not None and ctas > 1:
        cycles += round(chip.launch.spread * cycles)
    dram = dram_cycles(tile, m, n, k, chip)
    cycles = max(cycles + chip.hbm.latency, dram)
    return _Whole(ctas, on_sm, resident, together, later, first, following, cycles, dram)


def _persistent(kernel: PersistentKernel, asked: tuple[int, int, int]) -> Estimate:
    """The estimate of a persistent kernel."""
    tile, chip, sizes = kernel.tile, kernel.chip, (kernel.m, kernel.n, kernel.k)
    assert chip.hbm is not None
    assert chip.l2 is not None
    dram, cycles = -(-kernel.device_bytes // chip.hbm.bytes), kernel.kernel_cycles
    shares = {name: busy * kernel.cycles / cycles for name, busy in kernel.busy().items()}
    stage = tile.bytes_a + tile.bytes_b + tile.bytes_extra
    read = kernel.tiles * tile.group * kernel.iterations * stage * kernel.multicast
    shares |= {
        "L2 reads": kernel.l2_cycles(read) / cycles,
        "stores": tile.bytes_d * kernel.m * kernel.n / chip.l2.write_bytes / cycles,
        "device memory": dram / cycles,
        "waves": 1 - prod(sizes[:2]) / tile.bm / tile.bn * tile.group / (kernel.rounds * chip.chip.sms),
    }
    ctas = kernel.tiles * tile.group
    run = _Run(ctas, 1, kernel.rounds, kernel.first, kernel.following, kernel.iteration, cycles)
    return _answer(tile, chip, asked, sizes, run, shares, None)


def _answer(
    tile: AnyTile,
    chip: Config,
    asked: tuple[int, int, int],
    filled: tuple[int, int, int],
    run: _Run,
    shares: dict[str, float],
    energy: Spent | None,
) -> Estimate:
    """The estimate with what follows from its cycles.

    Args:
        filled: m, n, k in whole tiles.
    """
    seconds, operations = in_stream(run.cycles, chip), 2 * prod(asked)
    told = figures(energy, seconds, operations)
    return Estimate(
        tile,
        chip.name,
        *asked,
        run.ctas,
        run.resident,
        run.waves,
        run.wave_cycles,
        run.next_cycles,
        run.iteration_cycles,
        run.cycles,
        seconds * 1e6,
        launched_once(run.cycles, chip) * 1e6,
        operations / seconds / 1e12,
        shares,
        bound_of(shares),
        (*notes(energy, chip), *_assumed(tile, asked, filled, chip)),
        chip.own_path,
        chip.overridden,
        energy,
        *told,
        *limited(chip, told.power_w, run.cycles, operations),
    )


def in_stream(cycles: int, chip: Config) -> float:
    """Seconds of a kernel of so many cycles in a stream of launches, from its begin to the next one's."""
    return cycles / (chip.chip.clock_mhz * 1e6) + (chip.launch.gap_ns if chip.launch is not None else 0) * 1e-9


def launched_once(cycles: int, chip: Config) -> float:
    """Seconds of a kernel of so many cycles that the host launches alone."""
    return cycles / (chip.chip.clock_mhz * 1e6) + (chip.launch.overhead_ns if chip.launch is not None else 0) * 1e-9


def _assumed(tile: AnyTile, asked: tuple[int, ...], filled: tuple[int, int, int], chip: Config) -> tuple[str, ...]:
    """The assumed tables of the config that the kernel's time rests on, and what is taken for granted, in words."""
    if isinstance(tile, Tile):
        tensor = chip.tensor_class(tile.form)
        own: tuple[str, ...] = ("sequences" if tensor is None else f"tensor {tensor.name}",)
        granted = (*tile.form.notes(chip.target), *tile.notes)
    else:
        kernel = persistent(tile, *filled, chip)
        own, granted = kernel.tables, kernel.granted
    tables = (*own, "alu", "barrier", "issue", "loop", "shared", "memory", "l2", "hbm", "launch", *chip.changed)
    words = [f"[{name}] {chip.sources[name]}" for name in dict.fromkeys(tables) if name in chip.sources]
    words = [word for word in words if word.split("] ")[1].startswith("assumed")]
    words += granted
    if chip.launch is None:
        words.append("the launch takes no time: the config has no [launch]")
    if asked != filled:
        words.append(f"the matrices are filled up to whole tiles: {' x '.join(map(str, filled))}")
    return tuple(words)


def _following(tile: Tile, k: int, chip: Config, places: int, later: int, first: int) -> int:
    """Cycles from the begin of a CTA to the begin of the next in its place, where SMs are out of step and the CTAs of
    an SM as well: each place begins by an equal part of a CTA, which takes about `first`, later than the one before."""
    assert chip.l2 is not None
    turn = max(chip.loop.minimum, chip.alu.latency)  # of an empty loop, whose sum waits for itself
    apart, taken = chip.l2.write_burst_bytes > 0, first
    if places > 1:
        stagger = first // places // turn
        one, two = (run(tile, k, chip, places, chip.chip.sms, later, n, stagger, apart).cycles for n in (1, 2))
        taken = two - one
    elif apart:
        taken = run(tile, k, chip, 1, chip.chip.sms, later, apart=True).cycles
    return taken + (chip.launch.cta_cycles if chip.launch is not None else 0)


def _iteration(tile: Tile, k: int, chip: Config, ctas: int, sms: int, later: int, cycles: int) -> float:
    """Cycles of an iteration of the main loop, for each CTA: how much longer a run takes for its further iterations.

    Args:
        cycles: those of the run of `ctas` CTAs over the whole of K.
    """
    few, many = begun(tile) * tile.bk, k
    if many < 2 * few:
        many = 3 * few
        cycles = run(tile, many, chip, ctas, sms, later).cycles
    return (cycles - run(tile, few, chip, ctas, sms, later).cycles) / ((many - few) // tile.bk) / ctas


def dram_cycles(tile: Tile, m: int, n: int, k: int, chip: Config) -> int:
    """The cycles for which device memory is busy."""
    assert chip.hbm is not None
    return -(-sum(dram_bytes(tile, m, n, k, chip)) // chip.hbm.bytes)
