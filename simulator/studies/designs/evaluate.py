"""Evaluates a design: its speed-ups over the dense design, beside those that its authors published."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.errors import DesignError
from simulator.studies.designs.cost import Cost, bitmap_cost, stream_cost, tiles_cost
from simulator.studies.designs.record import (
    DENSE,
    Bitmap,
    Case,
    Design,
    Layer,
    Stream,
    Tiles,
    load_design,
    pattern_of,
)
from simulator.tables import Table

if TYPE_CHECKING:
    from pandas import DataFrame


@dataclass(frozen=True)
class Evaluation:
    """A case of a design.

    Attributes:
        case: the question.
        speedup: over the dense design: the geometric mean over the layers.
        cycles, dense_cycles: of all layers.
        bound: what limits most layers.
        imbalance: largest of the slowest tile's work over the mean.
    """

    case: Case
    speedup: float
    cycles: float
    dense_cycles: float
    bound: str
    imbalance: float

    @property
    def error(self) -> float | None:
        """Ours over the published speed-up, less 1; None where nothing is published."""
        return self.speedup / self.case.published - 1 if self.case.published else None


@dataclass(frozen=True)
class Report:
    """What a design does.

    Attributes:
        design: the question.
        evaluations: a case each.
    """

    design: Design
    evaluations: tuple[Evaluation, ...]

    @property
    def worst(self) -> float | None:
        """The largest error, in either direction; None where nothing is published."""
        errors = [abs(e.error) for e in self.evaluations if e.error is not None]
        return max(errors) if errors else None

    def records(self) -> list[dict[str, object]]:
        """A row for each case."""
        return [
            {
                "design": self.design.name,
                "pattern": e.case.pattern,
                "b": e.case.b,
                "b_compressed": e.case.compresses_b,
                "layers": ", ".join(e.case.layers) or "all",
                "speedup": e.speedup,
                "published": e.case.published,
                "error_percent": None if e.error is None else 100 * e.error,
                "cycles": e.cycles,
                "dense_cycles": e.dense_cycles,
                "bound": e.bound,
                "imbalance": e.imbalance,
                "source": e.case.source,
            }
            for e in self.evaluations
        ]

    def to_frame(self) -> DataFrame:
        """A row for each case."""
        return Table.of(self.records()).frame()


def evaluate(design: str | Path | Design) -> Report:
    """The speed-ups of a design of `configs/designs`, or of a file.

    Raises:
        ConfigError: no such design, or a wrong file.
        DesignError: a core that cannot do what a case asks of it.
    """
    design = design if isinstance(design, Design) else load_design(design)
    if design.is_chip:
        raise DesignError(f"{design.name} is a chip with one instruction more", "simulator.studies.designs.needs")
    return Report(design, tuple(_evaluated(design, case) for case in design.cases))


def cost(design: Design, case: Case, layer: Layer) -> Cost:
    """What a layer takes on the design's core."""
    core, a, b = design.core, pattern_of(case.pattern), pattern_of(case.b)
    if isinstance(core, Tiles):
        return tiles_cost(core, layer, a, sparse=True)
    if isinstance(core, Bitmap):
        return bitmap_cost(core, layer, a, b)
    assert isinstance(core, Stream)
    return stream_cost(core, layer, a, b, compresses_b=case.compresses_b)


def dense_cost(design: Design, layer: Layer) -> Cost:
    """What a layer takes on the dense design that the speed-ups are over."""
    if isinstance(design.core, Tiles):
        return tiles_cost(design.core, layer, None, sparse=False)
    return cost(design, Case(DENSE, ""), layer)


def _evaluated(design: Design, case: Case) -> Evaluation:
    layers = [layer for layer in design.layers if not case.layers or layer.name in case.layers]
    ours, dense = [cost(design, case, layer) for layer in layers], [dense_cost(design, layer) for layer in layers]
    ratios = [after.cycles / before.cycles for before, after in zip(ours, dense, strict=True)]
    bounds = [one.bound for one in ours]
    return Evaluation(
        case,
        exp(sum(log(ratio) for ratio in ratios) / len(ratios)),
        sum(one.cycles for one in ours),
        sum(one.cycles for one in dense),
        max(set(bounds), key=lambda bound: (bounds.count(bound), bound)),
        max(one.imbalance for one in ours),
    )
