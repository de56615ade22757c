"""What operations do that work on after issue, or that wait: tcgen05, Tensor Memory, mbarriers, groups of copies.

A run of the program for its values tells what each execution does (a fact). The config tells what that costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from isa.forms.record import Unit
from simulator.chip.config import Config
from simulator.compiler.tcgen05 import Cost, cost
from simulator.compiler.timed_code import Job, Periodic, TimedOperation
from simulator.compiler.wgmma import product_cost
from simulator.errors import ConfigError
from simulator.execute import dynamic_info as known
from simulator.execute.dynamic_info import Fact

Executions = Sequence[Fact] | Periodic[Fact]
"""What one warp's executions of an operation do: all of them in order, or those that repeat."""

_FREE = (
    known.Idle, known.CommitGroupFacts, known.WaitGroupFacts, known.CopyArriveFacts,
    known.FetchFacts, known.BulkFacts, known.BulkStoreFacts, known.BulkGroupFacts,
    known.CommitProductsFacts, known.WaitProductsFacts, known.AllocateFacts, known.FreeFacts,
    known.PeerFacts, known.FenceFacts,
)  # fmt: skip # facts that take no time of a unit behind issue or of an mbarrier
_OF_UNITS = (
    known.MmaFacts, known.CopyFacts, known.ShiftFacts, known.CommitFacts, known.MoveFacts, known.ProductFacts,
)  # fmt: skip


def asynchronous(
    unit: Unit,
    facts: Mapping[int, Executions],
    config: Config,
    *,
    reads: tuple[int, ...] = (),
    writes: tuple[int, ...] = (),
    line: int = 0,
) -> TimedOperation:
    """An operation of the units TCGEN05, TMEM, SYNC, GLOBAL or SHARED, from what the executions of each warp do.

    Raises:
        ConfigError: the config has no times for them.
    """
    jobs, latency = jobs_of(facts, config, line)
    return TimedOperation(unit, latency, 0, reads, writes, line, jobs=jobs)


def jobs_of(facts: Mapping[int, Executions], config: Config, line: int) -> tuple[dict[int, Periodic[Job]], int]:
    """For each warp what its executions do and cost, and the shortest latency of any; errors as `asynchronous`.

    Args:
        facts: for each warp, what its executions do.
        config: the chip.
        line: the line of the trace or the PTX, for errors; 0 for none.
    """
    jobs: dict[int, Periodic[Job]] = {}
    costs: dict[Fact, Cost | None] = {}
    for warp, executions in facts.items():
        if not isinstance(executions, Periodic) and not executions:
            continue
        repeating = executions if isinstance(executions, Periodic) else Periodic(cycle(executions))
        for fact in repeating.entries:
            if fact not in costs:
                costs[fact] = price(fact, config, line)
        jobs[warp] = Periodic([Job(fact, costs[fact]) for fact in repeating.entries], repeating.prefix)
    latency = min((price.latency for price in costs.values() if price is not None), default=1)
    return jobs, latency


def price(fact: Fact, config: Config, line: int) -> Cost | None:
    """What a fact costs; None for one whose time is that of `[memory]` or `[mbarrier]`.

    Raises:
        ConfigError: the config has no time for it.
    """
    _check_memory(fact, config, line)
    if isinstance(fact, _FREE) or (config.mbarrier is not None and not isinstance(fact, _OF_UNITS)):
        return None
    try:
        return product_cost(config, fact) if isinstance(fact, known.ProductFacts) else cost(config, fact)
    except ConfigError as error:
        raise ConfigError(error.path, error.key, _where(line) + error.reason, error.legal) from None


def _check_memory(fact: Fact, config: Config, line: int) -> None:
    """Raises ConfigError for a copy whose time `[memory]` may leave out and does."""
    match fact:
        case known.BulkFacts(tensor=True):
            what, keys = "copies by tensor maps", ("tensor_latency", "tensor_cycles")
        case known.BulkStoreFacts() | known.BulkGroupFacts():
            what, keys = "bulk copies from shared memory", ("bulk_store_bytes", "bulk_store_latency")
        case _:
            return
    lacking = config.memory.lacks(*keys) if config.memory is not None else ""
    if lacking:
        reason = f"{_where(line)}{config.name} has no times for {what}"
        legal = f"{' and '.join(keys)} in [memory], as h100_sxm has"
        raise ConfigError(config.path, f"memory.{lacking}", reason, legal)


def _where(line: int) -> str:
    return f"line {line}: " if line else ""


def cycle(facts: Sequence[Fact]) -> tuple[Fact, ...]:
    """The shortest tuple c with facts[r] == c[r % len(c)] for every r; `facts` must not be empty."""
    assert facts
    # Prefix function of Knuth, Morris and Pratt: the longest proper border of the sequence gives its shortest period.
    border = [0] * len(facts)
    for place in range(1, len(facts)):
        length = border[place - 1]
        while length and facts[place] != facts[length]:
            length = border[length - 1]
        border[place] = length + (facts[place] == facts[length])
    return tuple(facts[: len(facts) - border[-1]])
