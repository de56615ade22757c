"""Predicts tcgen05.mma.sp, of which no measurements are published: sparse against dense instructions, and a whole dot
product."""

from __future__ import annotations

from dataclasses import dataclass, replace

from simulator.chip.config import Config
from simulator.compiler.tcgen05 import mma_cost, mma_sources
from simulator.execute.dynamic_info import CopyFacts, MmaFacts
from simulator.studies.validation.tcgen05 import BITS, cycles, steady, stream


@dataclass(frozen=True)
class Prediction:
    """A pair of dense MMAs, and the sparse MMA that does as much: the engine's intervals, both for the K of the sparse
    one.

    Attributes:
        mma: the sparse instruction.
        dense, sparse: the intervals in cycles.
        bound: what limits the sparse interval, see `tcgen05.Cost`.
        status: the status of the config's table of the sparse rate: "assumed".
    """

    mma: MmaFacts
    dense: float
    sparse: float
    bound: str
    status: str

    @property
    def speedup(self) -> float:
        """The dense interval divided by the sparse one."""
        return self.dense / self.sparse


def predictions(config: Config, kind: str = "f16") -> list[Prediction]:
    """Sparse against dense for the usual shapes of a kind, as the engine predicts it."""
    rows = []
    for in_tmem in (False, True):
        for group, m in ((1, 128), (2, 256)):
            for n in (64, 128, 192, 256):
                bits, k = BITS[kind], 512 // BITS[kind]  # 32 stored bytes of a row of A
                mma = MmaFacts(kind, m, n, k, group, False, True, in_tmem, bits, bits)
                rows.append(_predicted(config, mma))
    return rows


def _predicted(config: Config, mma: MmaFacts) -> Prediction:
    dense = replace(mma, sparse=False, k=mma.k // 2)
    return Prediction(
        mma,
        2 * steady(config, dense),
        steady(config, mma),
        mma_cost(config, mma).bound,
        config.status(decisive(config, mma)[0]),
    )


def decisive(config: Config, mma: MmaFacts) -> list[str]:
    """The config's tables that decide an interval: those of the kind, and for .sp that of the sparse rate."""
    return [
        table
        for table in mma_sources(config, mma)
        if table.startswith("tcgen05 sparse" if mma.sparse else "tcgen05 kind")
    ]


@dataclass(frozen=True)
class Headline:
    """A whole dot product of length K for one tile with its operands in place: what a user looks at first.

    Attributes:
        title: dense or sparse, and where A is.
        mmas: how many instructions.
        cycles: from the first issue until the waiting thread goes on.
        fma_per_clk_sm: multiply-adds per cycle and SM, with K as named.
        bound: see `tcgen05.Cost`; followed by " + cp" where copies of metadata take turns with the MMAs.
        status: the status of the config's table of the rate.
    """

    title: str
    mmas: int
    cycles: int
    fma_per_clk_sm: float
    speedup: float
    bound: str
    status: str


def headline(config: Config, *, m: int = 256, n: int = 256, k: int = 4096) -> list[Headline]:
    """f16, cta_group::2: dense against sparse, A in shared and in Tensor Memory, and sparse with its metadata copied by
    tcgen05.cp.

    A tcgen05.cp of 128 x 128 bits brings the metadata of 128 columns of A, for four MMAs.
    """
    lines: list[Headline] = []
    copy = CopyFacts(2048, 2048, 2)
    for in_tmem in (False, True):
        dense = MmaFacts("f16", m, n, 16, 2, False, False, in_tmem, 16, 16)
        sparse = replace(dense, sparse=True, k=32)
        before = cycles(config, dense, k // dense.k)
        where = "A in Tensor Memory" if in_tmem else "A in shared memory"
        for title, mma, metadata in (
            ("dense", dense, None),
            ("sparse", sparse, None),
            ("sparse, metadata copied", sparse, copy),
        ):
            count = k // mma.k
            took = stream(config, mma, count, copy=metadata, every=4).cycles - 1
            status = config.status(decisive(config, mma)[0])
            bound = mma_cost(config, mma).bound + (" + cp" if metadata else "")
            lines.append(
                Headline(f"{title}, {where}", count, took, m // 2 * n * k / took, before / took, bound, status)
            )
    return lines
