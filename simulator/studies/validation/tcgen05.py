"""Validates the timing model against published measurements of tcgen05.mma: the same streams go through the engine and
are counted in the same way.

A stream is `depth` equal, independent MMAs of one thread, a commit, and a wait for its mbarrier. For a B200 there are
published: cycles of one MMA from issue until the waiting thread goes on; cycles of a stream divided by its depth (256
or more); and, at several depths, multiply-adds a cycle, from which the steady interval follows as the difference of two
depths, so that start and end cancel. For a B300 only the last of these is published. Rows of `kind::f8f6f4` that the
source calls F4 are not used: they are booked with twice the K that was issued.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from isa.forms.record import Unit
from simulator.chip.config import Config
from simulator.compiler.jobs import asynchronous
from simulator.compiler.tcgen05 import mma_sources
from simulator.compiler.timed_code import TimedCode, TimedLoop, TimedOperation, nesting
from simulator.execute.dynamic_info import CommitFacts, CopyFacts, Fact, InitFacts, MmaFacts, WaitFacts
from simulator.resources import folder
from simulator.studies.validation.group import Group, Row, assumed
from simulator.tables import read_rows
from simulator.timing.result import Timing
from simulator.timing.run import simulate

PUBLISHED = {"b200": "b200_tcgen05.csv", "b300": "b300_tcgen05.csv"}
UNROLLED = 16  # MMAs in the body of a stream's loop, so that the loop's end costs nothing
DEPTHS = (64, 256)  # the two depths whose difference gives the steady interval
BITS = {"f16": 16, "tf32": 32, "f8f6f4": 8, "i8": 8, "mxf8f6f4": 8, "mxf4": 4, "mxf4nvf4": 4}
_BARRIER = (0, 0)


def stream(
    config: Config, mma: MmaFacts, depth: int, *, copy: CopyFacts | None = None, every: int = UNROLLED
) -> Timing:
    """A stream of `depth` MMAs back to back, a commit and a wait. If a tcgen05.cp is given, one goes before each
    `every` of the MMAs. mbarrier.init takes the first cycle."""

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
        items.append(TimedLoop(1, times, 0, 0))
    items += [one(Unit.TCGEN05, CommitFacts((_BARRIER,), mma.cta_group)), one(Unit.SYNC, WaitFacts(_BARRIER, 0))]
    ends = {item.loop: item for item in items if isinstance(item, TimedLoop)}
    return simulate(config, [TimedCode((0,), items, nesting(items), ends)], 1)


def cycles(config: Config, mma: MmaFacts, depth: int) -> int:
    """Cycles of a stream, from the first issue until the waiting thread goes on."""
    return stream(config, mma, depth).cycles - 1


def steady(config: Config, mma: MmaFacts, depth: int = 256) -> float:
    """The interval of a long stream: the difference of two streams, so that start and end cancel."""
    return (cycles(config, mma, 2 * depth) - cycles(config, mma, depth)) / depth


def rows(metric: str, config: Config, short: bool) -> list[Row]:
    """Every published row of one metric for the config's chip, with its simulation. The short form is the same, as it
    takes only a second.

    Raises:
        ConfigError: the config lacks a kind or a shape.
    """
    rows: list[Row] = []
    rates: dict[MmaFacts, dict[int, float]] = {}
    for mma, of, depth, value in _published(folder("configs") / "measurements" / PUBLISHED[config.name]):
        if metric == "latency" == of:
            rows.append(_row(config, mma, 1, value, cycles(config, mma, 1)))
        elif metric in ("stream", "steady") and of == "interval":
            rows.append(
                _row(
                    config,
                    mma,
                    depth,
                    value,
                    cycles(config, mma, depth) / depth if metric == "stream" else steady(config, mma),
                )
            )
        elif metric == "difference" and of == "throughput":
            rates.setdefault(mma, {})[depth] = (
                mma.m // mma.cta_group * mma.n * mma.k * depth / value
            )  # cycles of the stream
    few, many = DEPTHS
    for mma, took in rates.items():
        simulated = (cycles(config, mma, many) - cycles(config, mma, few)) / (many - few)
        rows.append(_row(config, mma, many, (took[many] - took[few]) / (many - few), simulated))
    return rows


def _row(config: Config, mma: MmaFacts, depth: int, published: float, simulated: float) -> Row:
    where = f"{source(mma)} cta_group::{mma.cta_group} M {mma.m}"
    return Row(
        name_of(mma),
        (("kind", f"kind::{mma.kind}"), ("shape", where), ("N", mma.n), ("depth", depth)),
        published,
        simulated,
        assumed(config, (*mma_sources(config, mma), "tcgen05.mbarrier")),
    )


def _published(path: Path) -> Iterator[tuple[MmaFacts, str, int, float]]:
    for row in read_rows(path):
        kind, bits = row["kind"], BITS[row["kind"]]
        m, n, k, group, depth = (int(row[key]) for key in ("m", "n", "k", "cta_group", "depth"))
        mma = MmaFacts(kind, m, n, k, group, False, False, row["a"] == "TS", bits, bits)
        yield mma, row["metric"], depth, float(row["value"])


def source(mma: MmaFacts) -> str:
    """Where A and B come from: "SS" (both shared memory) or "TS" (A in Tensor Memory)."""
    return "TS" if mma.a_in_tmem else "SS"


def name_of(mma: MmaFacts) -> str:
    """A name such as "kind::f16 SS cta_group::1 m128n64k16"."""
    sparse, ws = "sp " if mma.sparse else "", "ws " if mma.ws else ""
    return f"{ws}{sparse}kind::{mma.kind} {source(mma)} cta_group::{mma.cta_group} m{mma.m}n{mma.n}k{mma.k}"


_SEMI = "SemiAnalysisAI/microbench-blackwell @9a068d8"
_F4 = "rows called F4 are left out: they issue kind::f8f6f4, whose K is 32, and are booked with 64"
_B200 = {
    "latency": (
        "dense tcgen05.mma: one MMA, from issue until the commit is seen, cycles",
        "umma_latency/lat_results_full.csv",
    ),
    "stream": (
        "dense tcgen05.mma: cycles of a stream of 256 to 1024 MMAs, commit and wait / MMAs",
        "umma_throughput/tput_results_max.csv",
    ),
    "steady": (
        "dense tcgen05.mma: the engine's steady state against the same published rows",
        "umma_throughput/tput_results_max.csv",
    ),
    "difference": ("dense tcgen05.mma: (cycles of 256 MMAs - cycles of 64) / 192", "umma_throughput"),
}
_SPLIT = ("kind", "shape", "N")


def _group(metric: str, title: str, source: str, note: str = "") -> Group:
    return Group(
        f"tcgen05-{metric}",
        title,
        f"published: {source}",
        partial(rows, metric),
        _SPLIT,
        absolute=metric == "latency",
        note=note,
        seconds=1,
    )


GROUPS = {
    "b200": tuple(_group(metric, title, f"{_SEMI}, {file}", _F4) for metric, (title, file) in _B200.items()),
    "b300": (
        _group(
            "difference", _B200["difference"][0], "Antoniomv7/gb300-microbench @1f27767, results/umma_throughput.csv"
        ),
    ),
}
