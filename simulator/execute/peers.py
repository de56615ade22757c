"""Accesses to shared memory of other CTAs of a cluster: what their time depends on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from isa.forms.record import Form
from isa.ptx.instruction import Instruction
from simulator.execute.cta_state import CtaState, Executor, Outcome
from simulator.execute.dynamic_info import Barrier, BulkFacts, Fact, Idle, PeerFacts
from simulator.execute.launch_state import LaunchState
from simulator.execute.operands import addresses
from simulator.state.registers import Warps
from simulator.state.windows import RANK_BIT


def with_peers(act: Executor, instruction: Instruction, form: Form, *, store: bool) -> Executor:
    """An access to shared memory that also says how much of it, for each warp, lies in other CTAs.

    Args:
        act: the access, which tells the wavefronts that it would take at its own CTA.
        store: whether it stores.
    """
    if "shared::cluster" not in form.qualifiers:
        return act
    read, size = addresses(instruction["address"]), form.width // 8 * form.elements

    def run(machine: CtaState, warps: Warps) -> Outcome:
        if not machine.timed or not isinstance(machine, LaunchState) or not machine.clustered:
            return act(machine, warps)
        far = (read(machine, warps) >> RANK_BIT != machine.own_window(warps) >> RANK_BIT) & machine.threads(warps)
        outcome = act(machine, warps)
        counts = far.sum(axis=1).tolist()
        if not any(counts):
            return outcome
        return outcome._replace(facts=tuple(PeerFacts(store, count * size) if count else Idle() for count in counts))

    return run


def counted(facts: Sequence[Fact]) -> Fact:
    """What a st.async of a warp does, of the facts of the bytes that count on mbarriers."""
    counts: Counter[Barrier] = Counter()
    for fact in facts:
        if isinstance(fact, BulkFacts):
            counts[fact.barrier] += fact.bytes
    return PeerFacts(True, counts.total(), tuple(counts.items()))
