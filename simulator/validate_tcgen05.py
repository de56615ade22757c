"""How far the timing model is from published measurements of tcgen05.mma: the same streams through the engine, counted the same way.

A stream is `depth` equal, independent MMAs of one thread, a commit, and a wait for its mbarrier. Published are, for a B200: cycles of one MMA
from issue until the waiting thread goes on; cycles of a stream divided by its depth (256 or more); and, at several depths, multiply-adds a
cycle, from which the steady interval follows as the difference of two depths, so that start and end cancel. For a B300 the last alone. Rows of
`kind::f8f6f4` that the source calls F4 are not among them: they are booked with twice the K that was issued.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from simulator.errors import ConfigError
from simulator.execute.facts import CommitFacts, CopyFacts, Fact, InitFacts, MmaFacts, WaitFacts
from simulator.resources import folder
from simulator.timing.config import Config
from simulator.timing.engine import Timing, simulate
from simulator.timing.model import TimedCode, TimedLoop, TimedOperation, Unit, asynchronous, nesting
from simulator.timing.tcgen05 import mma_cost, mma_sources

PUBLISHED = {"b200": "b200_tcgen05.csv", "b300": "b300_tcgen05.csv"}
UNROLLED = 16  # MMAs in the body of a stream's loop, so that the loop's end costs nothing
DEPTHS = (64, 256)  # the two depths whose difference gives the steady interval
BITS = {"f16": 16, "tf32": 32, "f8f6f4": 8, "i8": 8, "mxf8f6f4": 8, "mxf4": 4, "mxf4nvf4": 4}
METRICS = {
    "latency": "latency: one MMA, from issue until the commit is seen, cycles",
    "stream": "interval: cycles of a stream of 256 to 1024 MMAs, commit and wait / MMAs",
    "steady": "interval: engine's steady state against the same published rows",
    "difference": "interval: (cycles of 256 MMAs - cycles of 64) / 192",
}
_BARRIER = (0, 0)


@dataclass(frozen=True)
class Tcgen05Row:
    """One published figure in cycles, and what the engine says."""

    metric: str
    mma: MmaFacts
    depth: int
    published: float
    simulated: float

    @property
    def error(self) -> float:
        """Signed: in cycles for a latency, a fraction of the published value for an interval."""
        return self.simulated - self.published if self.metric == "latency" else self.simulated / self.published - 1


@dataclass(frozen=True)
class Tcgen05Summary:
    """Errors of a group of rows: cycles for latencies, fractions for intervals."""

    metric: str
    group: str
    rows: int
    mean: float
    median: float
    worst: float


def stream(config: Config, mma: MmaFacts, depth: int, *, copy: CopyFacts | None = None, every: int = UNROLLED) -> Timing:
    """`depth` MMAs back to back, a commit, a wait; before each `every` of them a tcgen05.cp, if one is given. mbarrier.init takes the first cycle."""

    def one(unit: Unit, fact: Fact) -> TimedOperation:
        return asynchronous(unit, {0: (fact,)}, config)

    body: list[TimedOperation] = []
    for number in range(min(UNROLLED, depth)):
        if copy is not None and number % every == 0:
            body.append(one(Unit.TCGEN05, copy))
        body.append(one(Unit.TCGEN05, mma))
    times, rest = divmod(depth, UNROLLED)
    if rest and times:
        raise ValueError(f"a stream of {depth} MMAs; legal: up to {UNROLLED}, or a multiple of it")
    items: list[TimedOperation | TimedLoop] = [one(Unit.SYNC, InitFacts(_BARRIER, 1)), *body]
    if times:
        items.append(TimedLoop(1, times, 0, 0, True))
    items += [one(Unit.TCGEN05, CommitFacts((_BARRIER,), mma.cta_group)), one(Unit.SYNC, WaitFacts(_BARRIER, 0))]
    ends = {item.loop: item for item in items if isinstance(item, TimedLoop)}
    return simulate(config, [TimedCode((0,), items, nesting(items), ends)], 1, 1)


def cycles(config: Config, mma: MmaFacts, depth: int) -> int:
    """Cycles of a stream, from the first issue until the waiting thread goes on."""
    return stream(config, mma, depth).cycles - 1


def steady(config: Config, mma: MmaFacts, depth: int = 256) -> float:
    """The interval of a long stream: difference of two, so that start and end cancel."""
    return (cycles(config, mma, 2 * depth) - cycles(config, mma, depth)) / depth


def published_rows(config: Config) -> list[Tcgen05Row]:
    """Every published row of the config's chip, simulated.

    Raises:
        ConfigError: nothing is published for this chip, or the config lacks a kind or a shape.
    """
    if config.name not in PUBLISHED:
        raise ConfigError(config.path, "name", f"no published rows of tcgen05 on {config.name} come with tcsim", ", ".join(PUBLISHED))
    rows: list[Tcgen05Row] = []
    rates: dict[MmaFacts, dict[int, float]] = {}
    for mma, metric, depth, value in _published(folder("configs") / "measurements" / PUBLISHED[config.name]):
        if metric == "latency":
            rows.append(Tcgen05Row(metric, mma, 1, value, cycles(config, mma, 1)))
        elif metric == "interval":
            rows.append(Tcgen05Row("stream", mma, depth, value, cycles(config, mma, depth) / depth))
            rows.append(Tcgen05Row("steady", mma, depth, value, steady(config, mma)))
        else:
            rates.setdefault(mma, {})[depth] = mma.m // mma.cta_group * mma.n * mma.k * depth / value  # cycles of the stream
    few, many = DEPTHS
    for mma, took in rates.items():
        simulated = (cycles(config, mma, many) - cycles(config, mma, few)) / (many - few)
        rows.append(Tcgen05Row("difference", mma, many, (took[many] - took[few]) / (many - few), simulated))
    return rows


def _published(path: Path) -> Iterator[tuple[MmaFacts, str, int, float]]:
    with path.open(newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            kind, bits = row["kind"], BITS[row["kind"]]
            m, n, k, group, depth = (int(row[key]) for key in ("m", "n", "k", "cta_group", "depth"))
            yield MmaFacts(kind, m, n, k, group, False, False, row["a"] == "TS", bits, bits), row["metric"], depth, float(row["value"])


def source(mma: MmaFacts) -> str:
    """Where A and B come from: "SS" (both shared memory) or "TS" (A in Tensor Memory)."""
    return "TS" if mma.a_in_tmem else "SS"


def name_of(mma: MmaFacts) -> str:
    """E.g. "kind::f16 SS cta_group::1 m128n64k16"."""
    sparse, ws = "sp " if mma.sparse else "", "ws " if mma.ws else ""
    return f"{ws}{sparse}kind::{mma.kind} {source(mma)} cta_group::{mma.cta_group} m{mma.m}n{mma.n}k{mma.k}"


def summaries(rows: list[Tcgen05Row]) -> list[Tcgen05Summary]:
    """For each metric all rows together, then by kind, by shape, by N."""
    found = []
    for metric in METRICS:
        some = [row for row in rows if row.metric == metric]
        named = [("all", row) for row in some]
        named += [(f"kind::{row.mma.kind}", row) for row in some]
        named += [(f"{source(row.mma)} cta_group::{row.mma.cta_group} M {row.mma.m}", row) for row in some]
        named += [(f"N {row.mma.n}", row) for row in some]
        for group in dict.fromkeys(name for name, _ in named):
            errors = np.abs([row.error for name, row in named if name == group])
            found.append(Tcgen05Summary(metric, group, len(errors), float(errors.mean()), float(np.median(errors)), float(errors.max())))
    return found


@dataclass(frozen=True)
class Prediction:
    """A dense MMA pair and the sparse MMA that does as much: intervals of the engine, both for the K of the sparse one.

    Attributes:
        mma: the sparse instruction.
        dense, sparse: cycles.
        bound: what the sparse interval comes from, see `tcgen05.Cost`.
        status: status of the config's table of the sparse rate: "assumed".
    """

    mma: MmaFacts
    dense: float
    sparse: float
    bound: str
    status: str

    @property
    def speedup(self) -> float:
        return self.dense / self.sparse


def predictions(config: Config, kind: str = "f16") -> list[Prediction]:
    """Sparse against dense for the usual shapes of a kind, through the engine."""
    found = []
    for in_tmem in (False, True):
        for group, m in ((1, 128), (2, 256)):
            for n in (64, 128, 192, 256):
                bits, k = BITS[kind], 512 // BITS[kind]  # 32 stored bytes of a row of A
                mma = MmaFacts(kind, m, n, k, group, False, True, in_tmem, bits, bits)
                found.append(_predicted(config, mma))
    return found


def _predicted(config: Config, mma: MmaFacts) -> Prediction:
    dense = replace(mma, sparse=False, k=mma.k // 2)
    return Prediction(mma, 2 * steady(config, dense), steady(config, mma), mma_cost(config, mma).bound, config.status(decisive(config, mma)[0]))


def decisive(config: Config, mma: MmaFacts) -> list[str]:
    """The tables behind an interval: the kind's or, for .sp, the sparse rate's."""
    return [table for table in mma_sources(config, mma) if table.startswith("tcgen05 sparse" if mma.sparse else "tcgen05 kind")]


@dataclass(frozen=True)
class Headline:
    """A whole dot product of length K for one tile, operands in place: what a user looks at first.

    Attributes:
        title: dense or sparse, where A is.
        mmas: instructions.
        cycles: from the first issue until the waiting thread goes on.
        fma_per_clk_sm: with K as named.
        bound: see `tcgen05.Cost`; " + cp" where copies of metadata take turns with the MMAs.
        status: of the config's table of the rate.
    """

    title: str
    mmas: int
    cycles: int
    fma_per_clk_sm: float
    speedup: float
    bound: str
    status: str


def headline(config: Config, *, m: int = 256, n: int = 256, k: int = 4096) -> list[Headline]:
    """f16, cta_group::2: dense against sparse, A in shared and in Tensor Memory, and sparse with its metadata copied by tcgen05.cp.

    A tcgen05.cp of 128 x 128 bits brings the metadata of 128 columns of A, for four MMAs.
    """
    found: list[Headline] = []
    copy = CopyFacts(2048, 2048, 2)
    for in_tmem in (False, True):
        dense = MmaFacts("f16", m, n, 16, 2, False, False, in_tmem, 16, 16)
        sparse = replace(dense, sparse=True, k=32)
        before = cycles(config, dense, k // dense.k)
        where = "A in Tensor Memory" if in_tmem else "A in shared memory"
        for title, mma, metadata in (("dense", dense, None), ("sparse", sparse, None), ("sparse, metadata copied", sparse, copy)):
            count = k // mma.k
            took = stream(config, mma, count, copy=metadata, every=4).cycles - 1
            status = config.status(decisive(config, mma)[0])
            bound = mma_cost(config, mma).bound + (" + cp" if metadata else "")
            found.append(Headline(f"{title}, {where}", count, took, m // 2 * n * k / took, before / took, bound, status))
    return found
