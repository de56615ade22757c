"""The functions that execute a code where only its time is asked for."""

from __future__ import annotations

from isa.forms.mma import is_mma
from simulator.execute.cta_state import Executor
from simulator.execute.dispatch import executor
from simulator.execute.traffic import by_addresses
from simulator.simulation.relevance import Relevance, Use


def light_executors(relevance: Relevance) -> dict[int, Executor | None]:
    """By index of each operation of a code what executes it; None: it need not be executed."""
    return {use.operation.index: _light(use, relevance) for use in relevance.uses if use is not None}


def _light(use: Use, relevance: Relevance) -> Executor | None:
    instruction = use.operation.instruction
    if use.operation.barrier is not None:
        return executor(instruction)  # which the interpreter lets arrive
    form, traffic = instruction.form, use.traffic
    stops = is_mma(form) and form.sparse and instruction.selector not in range(form.metadata.selectors)
    if not (use.effect or use.needed or stops):
        return None
    if traffic is None or use.needed or traffic.size or "filled" in instruction.by_role:
        return executor(instruction)
    moves = any(site.writes and (relevance.shared if site.shared else relevance.outside) for site in traffic.sites)
    return executor(instruction) if moves else by_addresses(instruction, traffic)
