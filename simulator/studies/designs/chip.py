"""What a chip would need for a sparse instruction that it does not have.

For a tile of a GEMM the study counts what an iteration asks of each part of an SM: intervals of the tensor pipes, bytes
of shared memory (fragments of A, B and metadata that warps load, and what cp.async writes), bytes from L2. The busiest
part sets the pace; what the instruction needs is what every part would have to give for it to run at the dense
instruction's pace per stored product.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from isa.forms.mma import MmaForm
from isa.ptx.opcodes import mma_form
from isa.sparsity.forms import is_hypothetical, pattern_form
from simulator.chip.config import Config, load_config
from simulator.chip.tables import TensorClass
from simulator.errors import ConfigError, DesignError
from simulator.studies.designs.record import Chip, Design, load_design
from simulator.tables import Table

if TYPE_CHECKING:
    from pandas import DataFrame

_WAVEFRONT = 128  # bytes that shared memory moves in one go: 32 banks of 4 bytes
TILES = ((128, 128, 2, 2), (128, 256, 2, 4), (256, 128, 4, 2))
"""Rows and columns of D, and warps along them, of the tiles that the study looks at."""


@dataclass(frozen=True)
class Need:
    """What a matrix instruction asks of an SM, for 64 logical columns of K of a tile.

    Attributes:
        instruction: its opcode.
        pattern: "dense", or the sparsity of A.
        tile: rows and columns of D of a CTA.
        interval: cycles between two instructions of a sub-core.
        tensor_cycles, shared_cycles, l2_cycles: for which each part is busy.
        ideal_cycles: of the tensor pipes, if a stored product took as long as a dense one.
        registers: that one instruction reads.
        shared_bytes, l2_bytes, metadata_bits: moved.
    """

    instruction: str
    pattern: str
    tile: str
    interval: int
    tensor_cycles: float
    shared_cycles: float
    l2_cycles: float
    ideal_cycles: float
    registers: int
    shared_bytes: float
    l2_bytes: float
    metadata_bits: float

    @property
    def cycles(self) -> float:
        """For which the busiest part is busy."""
        return max(self.tensor_cycles, self.shared_cycles, self.l2_cycles)

    @property
    def bound(self) -> str:
        """The busiest part."""
        parts = {"tensor": self.tensor_cycles, "shared memory": self.shared_cycles, "L2": self.l2_cycles}
        return max(parts, key=lambda name: parts[name])


@dataclass(frozen=True)
class Needs:
    """The needs of the dense instruction, of 2:4 and of the hypothetical one, tile by tile; see `needs`."""

    design: Design
    config: Config
    needs: tuple[Need, ...]

    def records(self) -> list[dict[str, object]]:
        """A row for each instruction and tile; speed-ups are over the dense instruction with the same tile."""
        dense = {need.tile: need for need in self.needs if need.pattern == "dense"}
        return [
            {
                "tile": need.tile,
                "pattern": need.pattern,
                "interval_cycles": need.interval,
                "registers": need.registers,
                "speedup": dense[need.tile].cycles / need.cycles,
                "bound": need.bound,
                "tensor_speedup": dense[need.tile].tensor_cycles / need.tensor_cycles,
                "full_speedup": dense[need.tile].tensor_cycles / need.ideal_cycles,
                "tensor_needed": need.tensor_cycles / need.ideal_cycles,
                "shared_needed": need.shared_cycles / need.ideal_cycles,
                "l2_needed": need.l2_cycles / need.ideal_cycles,
                "metadata_bits_per_cycle": need.metadata_bits / need.ideal_cycles,
            }
            for need in self.needs
        ]

    def to_frame(self) -> DataFrame:
        """A row for each instruction and tile."""
        return Table.of(self.records()).frame()


def design_config(design: str | Path | Design) -> Config:
    """The design's chip with a [[tensor]] class for its instruction: whatever takes a config takes it.

    Raises:
        ConfigError: a wrong design or config, or one without a time for the instruction that it is like.
        DesignError: a design that is no chip.
    """
    design, core = _chip(design)
    config = load_config(core.config)
    form = pattern_form(core.instruction)
    base = config.tensor_class(mma_form(core.like))
    if base is None:
        raise ConfigError(
            design.path, "chip.like", f"{config.name} has no time for '{core.like}'", "another instruction"
        )
    own = replace(
        base, name=f"{form.hypothetical}, {base.name}", pattern=form.hypothetical,
        row_bytes=form.k_stored * form.a_type.bits // 8, inputs=(form.a_type.name,), accumulators=(form.d_type.name,),
    )  # fmt: skip
    interval = core.interval or _interval(own, config, design)
    latency = core.latency or base.latency + max(interval - base.interval, 0)
    return _with_class(config, replace(own, interval=interval, latency=latency), design)


def _interval(tensor: TensorClass, config: Config, design: Design) -> int:
    """Cycles between two instructions: what their operands need to pass the ports of the register file, and what their
    products need."""
    if config.operands is None or not tensor.multiply:
        reason = f"{config.name} does not say how registers reach its tensor pipes"
        raise ConfigError(design.path, "chip.interval", reason, "an interval, or a config with [operands]")
    return max(tensor.multiply, config.operands.cycles(tensor.words, config.operands.measured))


def _with_class(config: Config, own: TensorClass, design: Design) -> Config:
    sources = {**config.sources, f"tensor {own.name}": design.core_source}
    return replace(config, name=design.name, title=design.title, tensor=(own, *config.tensor), sources=sources)


def needs(design: str | Path | Design, tiles: tuple[tuple[int, int, int, int], ...] = TILES) -> Needs:
    """What the design's instruction needs, beside the dense one and the one it is like.

    Raises:
        ConfigError, DesignError: see `design_config`.
    """
    design, core = _chip(design)
    config = design_config(design)
    if config.l2 is None:
        raise ConfigError(config.path, "l2", f"{config.name} has no bandwidth of L2", "a config with [l2]")
    forms = [pattern_form(o) if is_hypothetical(o) else mma_form(o) for o in (core.dense, core.like, core.instruction)]
    return Needs(design, config, tuple(need(form, tile, config, forms[0]) for tile in tiles for form in forms))


def need(form: MmaForm, tile: tuple[int, int, int, int], config: Config, dense: MmaForm) -> Need:
    """What 64 columns of K of a tile ask of an SM of this chip; `dense` is the instruction that sets the pace."""
    rows, columns, warps_m, warps_n = tile
    assert config.l2 is not None
    times, plain = config.tensor_class(form), config.tensor_class(dense)
    if times is None or plain is None:
        raise DesignError(f"{config.name} has no time for '{form.opcode}'", "an instruction with a [[tensor]] class")
    width, k = form.a_type.bits / 8, 64
    stored = k * form.k_stored / form.k
    instructions = rows / form.m * columns / form.n * k / form.k
    metadata = form.metadata.sparsity.metadata_bits(rows, k) if form.sparse else 0
    a, b = rows * stored * width, columns * k * width
    moved = a + b + metadata / 8
    shared = moved + warps_n * (a + metadata / 8) + warps_m * b
    return Need(
        form.opcode,
        form.metadata.sparsity.name if form.sparse else "dense",
        f"{rows}x{columns}",
        times.interval,
        instructions / config.sm.sub_cores * times.interval,
        shared / _WAVEFRONT * config.shared.cycles,
        config.l2.read_cycles(moved * config.chip.sms),
        instructions / config.sm.sub_cores * plain.interval * form.k_stored / dense.k,
        times.words,
        shared,
        moved,
        metadata,
    )


def _chip(design: str | Path | Design) -> tuple[Design, Chip]:
    design = design if isinstance(design, Design) else load_design(design)
    if not isinstance(design.core, Chip):
        raise DesignError(f"{design.name} is no chip with one instruction more", 'a design with core = "chip"')
    return design, design.core
