"""The time that one `tcgen05` instruction takes, by a published model whose numbers come from the config.

For tcgen05.mma on one SM, with M_sm = M / cta_group rows and the stored columns of A (half of K for .sp):

    tensor   = share * M_sm * N * K / rate                 (the rate of the kind, dense or sparse; K as named)
    operands = (A_sm, if in shared memory, + B / cta_group) / operand_bytes
    interval = max(tensor, operands, the shape's minimum)
    latency  = base(cta_group, M, kind) + A_sm / operand_bytes, if in shared memory, + tensor

each rounded up to a cycle. Published: derived from the dense measurements of SemiAnalysisAI/microbench-blackwell
@9a068d8 on a B200 (`tcsim validate --config b200` prints the errors). Sparse: assumed, nobody has published a
measurement; metadata are taken to cost no time.
"""

from __future__ import annotations

from dataclasses import dataclass

from simulator.chip.config import Config
from simulator.chip.tcgen05 import Shape, Tcgen05
from simulator.errors import ConfigError
from simulator.execute.dynamic_info import CopyFacts, Fact, MmaFacts, MoveFacts, ShiftFacts


@dataclass(frozen=True, slots=True)
class Cost:
    """Cycles of one instruction on the SM (or on each SM of a pair).

    Attributes:
        tensor: cycles of products.
        operands: cycles for which shared memory is read.
        interval: cycles until the unit takes the next instruction.
        latency: cycles from the start until the result counts as complete: for a commit (mma, cp, shift), a register
            (ld) or a wait (st).
    """

    tensor: int
    operands: int
    interval: int
    latency: int

    @property
    def bound(self) -> str:
        """What limits the interval: "tensor", "operands" (from shared memory) or "minimum" (of the shape)."""
        if self.interval > max(self.tensor, self.operands):
            return "minimum"
        return "operands" if self.operands > self.tensor else "tensor"


def cost(config: Config, fact: Fact) -> Cost | None:
    """The cost of a fact; None for one that takes no time of a unit.

    Raises:
        ConfigError: the config has no tcgen05, or not this kind or shape.
    """
    tables = _tables(config)
    match fact:
        case MmaFacts():
            return mma_cost(config, fact)
        case CopyFacts():
            operands = _up(fact.shared_bytes, tables.queue.operand_bytes)
            interval = max(operands, _up(fact.tmem_bytes, tables.copy.bytes), 1)
            return Cost(0, operands, interval, interval + tables.copy.latency)
        case ShiftFacts():
            interval = max(_up(fact.tmem_bytes, tables.copy.bytes), 1)
            return Cost(0, 0, interval, interval + tables.copy.latency)
        case MoveFacts():
            interval = max(_up(4 * fact.cells, tables.tmem.bytes), 1)
            latency = tables.tmem.store_latency if fact.store else tables.tmem.load_latency
            return Cost(0, 0, interval, interval - 1 + latency)
    return None


def mma_cost(config: Config, mma: MmaFacts) -> Cost:
    """The cost of one tcgen05.mma.

    Raises:
        ConfigError: the config has no tcgen05, or not this kind or shape.
    """
    tables, shape = _shape(config, mma)
    kind = tables.kind(mma.kind)
    rated = tables.sparse_rate(mma.kind) if mma.sparse else kind
    if kind is None or rated is None:
        key, rates = ("sparse", tables.sparse) if kind else ("kind", tables.kinds)
        legal = ", ".join(name for table in rates for name in table.kinds)
        raise ConfigError(config.path, f"tcgen05.{key}", f"no table for .kind::{mma.kind} on {config.name}", legal)
    width = tables.queue.operand_bytes
    rows, stored = mma.m // mma.cta_group, mma.k_stored
    tensor = _up(shape.share * rows * mma.n * mma.k, rated.rate)
    a_bits = 0 if mma.a_in_tmem else rows * stored * mma.a_bits
    operands = _up(a_bits * mma.cta_group + mma.n * mma.k * mma.b_bits, 8 * width * mma.cta_group)
    latency = shape.latency + kind.latency[mma.cta_group - 1] + _up(a_bits, 8 * width) + tensor
    return Cost(tensor, operands, max(tensor, operands, shape.interval), max(latency, 1))


def mma_sources(config: Config, mma: MmaFacts) -> list[str]:
    """The names of the config's tables (keys of `Config.sources`) that the time of an MMA comes from."""
    tables, shape = _shape(config, mma)
    kind, sparse = tables.kind(mma.kind), tables.sparse_rate(mma.kind) if mma.sparse else None
    names = ["tcgen05", f"tcgen05 shape {shape.name}"]
    names += [f"tcgen05 kind {kind.name}"] if kind else []
    return names + ([f"tcgen05 sparse {sparse.name}"] if sparse else [])


def sources(config: Config, fact: Fact) -> list[str]:
    """The names of the config's tables that the time of any fact comes from."""
    match fact:
        case MmaFacts():
            return mma_sources(config, fact)
        case CopyFacts() | ShiftFacts():
            return ["tcgen05", "tcgen05.copy"]
        case MoveFacts():
            return ["tcgen05.tmem"]
    return []


def _tables(config: Config) -> Tcgen05:
    """`[tcgen05]` of a config; ConfigError if it has none."""
    if config.tcgen05 is None:
        reason = f"{config.name} has no times for tcgen05 and mbarrier"
        raise ConfigError(config.path, "tcgen05", reason, "a config with [tcgen05], such as b200")
    return config.tcgen05


def _shape(config: Config, mma: MmaFacts) -> tuple[Tcgen05, Shape]:
    """The tables of a config and the shape of an MMA in them; errors as `mma_cost`."""
    tables = _tables(config)
    shape = tables.shape(mma.cta_group, mma.m, mma.ws)
    if shape is None:
        what = f"cta_group = {mma.cta_group}, ws = {str(mma.ws).lower()}, rows with {mma.m}"
        reason = f"no table for M = {mma.m} of tcgen05.mma{'.ws' if mma.ws else ''}"
        raise ConfigError(config.path, "tcgen05.shape", reason, what)
    return tables, shape


def _up(amount: int, rate: int) -> int:
    """Cycles that an amount takes at a rate of so much a cycle, rounded up."""
    return -(-amount // rate)
