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
from simulator.execute.dynamic_info import Fact, cycle

Executions = Sequence[Fact] | Periodic[Fact]
"""What one warp's executions of an operation do: all of them in order, or those that repeat."""

_FREE = (
    known.Idle, known.CommitGroupFacts, known.WaitGroupFacts, known.CopyArriveFacts,
    known.FetchFacts, known.BulkFacts, known.BulkStoreFacts, known.BulkGroupFacts,
    known.CommitProductsFacts, known.WaitProductsFacts, known.PeerFacts, known.FenceFacts,
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
        line: the line of the trace, for errors; 0 for none.
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
    """What a fact costs; None for one whose time is that of `[memory]` or `[mbarrier]`."""
    if isinstance(fact, _FREE) or (config.mbarrier is not None and not isinstance(fact, _OF_UNITS)):
        return None
    try:
        return product_cost(config, fact) if isinstance(fact, known.ProductFacts) else cost(config, fact)
    except ConfigError as error:
        where = f"line {line} of the trace: " if line else ""
        raise ConfigError(error.path, error.key, where + error.reason, error.legal) from None
