"""What operations do that work on after issue, or that wait: tcgen05, Tensor Memory, mbarriers, groups of copies.

A run of the program for its values tells what each execution does (a fact). The config tells what that costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from isa.forms.record import Unit
from simulator.chip.config import Config
from simulator.compiler.tcgen05 import Cost, cost
from simulator.compiler.timed_code import Job, Periodic, TimedOperation
from simulator.errors import ConfigError
from simulator.execute import dynamic_info as known
from simulator.execute.dynamic_info import Fact, Idle, cycle

Executions = Sequence[Fact] | Periodic[Fact]
"""What one warp's executions of an operation do: all of them in order, or those that repeat."""

FACTS: dict[Unit, tuple[type, ...]] = {
    Unit.TCGEN05: (known.MmaFacts, known.CopyFacts, known.ShiftFacts, known.CommitFacts),
    Unit.TMEM: (known.MoveFacts,),
    Unit.SYNC: (
        known.MoveWaitFacts,
        known.InitFacts,
        known.ArriveFacts,
        known.ExpectFacts,
        known.WaitFacts,
        known.PostFacts,
    ),
    Unit.GLOBAL: (known.CommitGroupFacts, known.WaitGroupFacts, known.CopyArriveFacts),
    Unit.SHARED: (known.FetchFacts, known.BulkFacts),
}
TIMED_BY_JOBS = (Unit.TCGEN05, Unit.TMEM, Unit.SYNC)
"""Units whose operations have the latency of what they do."""
_WITHOUT_COST = (Idle, *FACTS[Unit.GLOBAL], *FACTS[Unit.SHARED])
_KNOWN = tuple(kind for kinds in FACTS.values() for kind in kinds)


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
        ValueError: a fact that does not belong to this unit.
    """
    jobs, latency = jobs_of(unit, facts, config, line)
    return TimedOperation(unit, latency, 0, reads, writes, line, jobs=jobs)


def jobs_of(
    unit: Unit, facts: Mapping[int, Executions], config: Config, line: int
) -> tuple[dict[int, Periodic[Job]], int]:
    """For each warp what its executions do and cost, and the shortest latency of any; errors as `asynchronous`.

    Args:
        unit: the unit of the operation.
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
        _price(set(repeating.entries), unit, config, line, costs)
        jobs[warp] = Periodic([Job(fact, costs[fact]) for fact in repeating.entries], repeating.prefix)
    latency = min((price.latency for price in costs.values() if price is not None), default=1)
    return jobs, latency


def _price(facts: Iterable[Fact], unit: Unit, config: Config, line: int, costs: dict[Fact, Cost | None]) -> None:
    """Adds the costs of facts to those that are known already."""
    for fact in facts:
        if fact in costs:
            continue
        if isinstance(fact, _KNOWN) and not isinstance(fact, FACTS[unit]):
            raise ValueError(f"line {line}: {type(fact).__name__} is no fact of an instruction of the unit {unit.name}")
        try:
            costs[fact] = None if _is_free(fact, config) else cost(config, fact)
        except ConfigError as error:
            where = f"line {line} of the trace: " if line else ""
            raise ConfigError(error.path, error.key, where + error.reason, error.legal) from None


def _is_free(fact: Fact, config: Config) -> bool:
    """Whether a fact takes no time of a tcgen05 unit, or its time is that of `[mbarrier]`."""
    return isinstance(fact, _WITHOUT_COST) or (isinstance(fact, FACTS[Unit.SYNC]) and config.mbarrier is not None)
