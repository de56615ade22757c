"""Which fault of 2:4 storage costs most accuracy: one row of a table for each layer, type and site."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.fragments.metadata import CODE_BITS
from isa.types import Bits
from simulator.faults.outcomes import DUE, MASKED, OUTCOMES, SDC
from simulator.faults.table import Faults
from simulator.statistics import wilson
from simulator.studies.faults.networks.faults import masks, site_of
from simulator.studies.faults.networks.injection import Campaign, campaign
from simulator.studies.faults.networks.subject import Subject
from simulator.tables import Table

Results = NDArray[Any]
Meter = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Asked:
    """What a study injects.

    Attributes:
        layers, types, sites: what the rows of its table are.
        faults: how many faults of each; None for all that there are.
        seed: of the draws.
        model, bits: the fault model, and how many neighbouring bits it concerns.
        target, storage, pruned: as in `layer.sparse_layer`.
    """

    layers: Sequence[str]
    types: Sequence[str] = ("f16", "bf16", "s8", "e4m3")
    sites: Sequence[str] = ("values", "metadata", "activations", "selector", "accumulator", "d")
    faults: int | None = 200
    seed: int = 0
    model: str = "flip"
    bits: int = 1
    target: str = "sm_90a"
    storage: str = "cusparselt"
    pruned: bool = True


@dataclass(frozen=True, eq=False)
class Group:
    """Faults of one site of a layer, and what became of them.

    Attributes:
        layer, type, site: where.
        population: how many faults there are.
        faults: those that were injected, rows of `simulator.faults.table`.
        results: rows of `injection.FIELDS`.
        images: how many images the network is judged on.
        recognised: how many of them it recognises without a fault.
        masks: the masks that a word of the site can be struck with.
        bit: the lowest bit that these faults concern; -1 for any.
    """

    layer: str
    type: str
    site: str
    population: int
    faults: Faults
    results: Results
    images: int
    recognised: int
    masks: Bits
    bit: int = -1

    @property
    def loss(self) -> NDArray[np.float64]:
        """The accuracy that each fault costs, as a share of the images; 0 for faults that stop the chip."""
        return (self.recognised - self.results["correct"].astype(np.int64)) / self.images

    @property
    def critical(self) -> NDArray[np.bool_]:
        """Which faults change the class of at least one image."""
        return np.asarray(self.results["classes"] > 0)

    def share(self, of: NDArray[np.bool_]) -> tuple[float, float, float]:
        """The share of faults, and the ends of its interval at 95 % (Wilson); of all faults that there are, exact."""
        hits, count = int(of.sum()), len(of)
        return (hits / count, *((hits / count,) * 2 if count == self.population else wilson(hits, count)))

    def lowest(self, struck: NDArray[Any]) -> NDArray[np.int64]:
        """The lowest bit that masks strike: of a word, of metadata of a code."""
        wide = struck.astype(np.int64)
        bits = np.bitwise_count((wide & -wide) - 1).astype(np.int64)
        return np.asarray(bits % CODE_BITS if self.site == "metadata" else bits)

    def by_bit(self) -> list[Group]:
        """The group in parts of faults that concern the same lowest bit, ascending."""
        parts, bits, every = [], self.lowest(self.faults["mask"]), self.lowest(self.masks)
        for bit in np.unique(bits):
            mine = bits == bit
            size = self.population // len(every) * int((every == bit).sum())
            parts.append(
                replace(self, population=size, faults=self.faults[mine], results=self.results[mine], bit=int(bit))
            )
        return parts

    def record(self) -> dict[str, Any]:
        """The row of the table: shares as numbers, losses in percentage points."""
        outcome, loss = self.results["outcome"], 100 * self.loss
        shares = {name: float((outcome == i).mean()) for i, name in enumerate(OUTCOMES) if i in (MASKED, SDC, DUE)}
        critical, low, high = self.share(self.critical)
        where: dict[str, Any] = {"layer": self.layer, "type": self.type, "site": self.site}
        return where | ({"bit": self.bit} if self.bit >= 0 else {}) | {
            "faults": len(self.faults), "population": self.population, **shares,
            "scores_changed": float((self.results["scores"] > 0).mean()),
            "critical": critical, "critical_low": low, "critical_high": high,
            "classes_changed_mean": float(self.results["classes"].mean()), "accuracy": self.recognised / self.images,
            "loss_mean_points": float(loss.mean()) + 0.0, "loss_largest_points": float(loss.max()) + 0.0,
        }  # fmt: skip


def study(subject: Subject, asked: Asked, progress: Meter | None = None) -> Iterator[Group]:
    """Injects, and yields each group when it is done. Errors as in `injection.campaign` and `Campaign.draw`."""
    layers = [(layer, type) for layer in asked.layers for type in asked.types]
    count, done = len(layers) * len(asked.sites), 0
    for layer, type in layers:
        of = campaign(
            subject, layer, type=type, target=asked.target, storage=asked.storage, pruned=asked.pruned
        )  # fmt: skip
        for site in asked.sites:
            yield group(of, site, asked)
            done += 1
            if progress is not None:
                progress(done, count, "groups of faults")


def group(of: Campaign, site: str, asked: Asked) -> Group:
    """The faults of one site of a campaign, injected."""
    drawn = of.draw(site, asked.faults, asked.seed, asked.model, asked.bits)
    results = of.run(site, drawn.faults)
    recognised = int((of.classes == of.subject.labels).sum())
    kind = of.layer.kind.name
    images, every = len(of.subject.labels), masks(site_of(site), of.running, asked.model, asked.bits)
    return Group(of.layer.name, kind, site, drawn.population, drawn.faults, results, images, recognised, every)


def table(groups: Sequence[Group]) -> Table:
    """The table with all numbers as they are."""
    return Table.of(group.record() for group in groups)


def text(name: str, groups: Sequence[Group], asked: Asked) -> str:
    """The table for a person: what is injected, a row for each group, and which costs most."""
    rows = [_shown(group.record()) for group in groups]
    head = f"{name} on {groups[0].images} images, {asked.target}, {_what(asked)}; layers stored for {asked.storage}"
    most = max(groups, key=lambda group: float(group.loss.mean()))
    bit = f", bit {most.bit}" if most.bit >= 0 else ""
    mean = float(most.loss.mean())
    last = f"most accuracy, on the mean: {most.layer}, {most.type}, {most.site}{bit}: {100 * mean:.2f} points"
    return "\n".join([head, "", Table.of(rows).text("<<<>"), last, ""])


def _what(asked: Asked) -> str:
    bits = (
        "whole words replaced"
        if asked.model == "word"
        else f"{asked.model} of {asked.bits} bit{'s' * (asked.bits > 1)}"
    )
    return f"{bits}, seed {asked.seed}"


def _shown(record: dict[str, Any]) -> dict[str, Any]:
    """A row in percent."""
    exact = record["faults"] == record["population"]
    interval = "" if exact else f" ({100 * record['critical_low']:.1f} to {100 * record['critical_high']:.1f})"
    return {
        **{name: record[name] for name in ("layer", "type", "site", "bit") if name in record},
        "faults": f"{record['faults']:,}", "of": f"{record['population']:,}",
        **{name: f"{100 * record[name]:.1f} %" for name in ("masked", "sdc", "due")},
        "scores": f"{100 * record['scores_changed']:.1f} %",
        "class changed": f"{100 * record['critical']:.1f} %{interval}", "accuracy": f"{100 * record['accuracy']:.2f} %",
        "mean loss": f"{record['loss_mean_points']:z.2f}", "largest loss": f"{record['loss_largest_points']:z.2f}",
    }  # fmt: skip


FAULT_COLUMNS = (
    "layer", "type", "site", "id", "model", "word", "mask", "value", "seed", "outcome", "elements", "nonfinite",
    "images", "max_abs", "scores", "classes", "correct",
)  # fmt: skip


def fault_rows(groups: Sequence[Group]) -> Table:
    """A row for each fault: what is needed to inject it again, and what became of it."""
    from simulator.faults.table import MODELS

    rows: list[tuple[Any, ...]] = []
    for one in groups:
        listed = [one.faults[name].tolist() for name in ("id", "model", "word", "mask", "value", "seed")]
        became = [one.results[name].tolist() for name in FAULT_COLUMNS[9:]]
        for id, model, word, mask, value, seed, outcome, *rest in zip(*listed, *became, strict=True):
            place = (one.layer, one.type, one.site, id, MODELS[model], word, hex(mask), hex(value), hex(seed))
            rows.append((*place, OUTCOMES[outcome], *rest))
    return Table(FAULT_COLUMNS, rows)
