"""Executes fences, and the barriers of a CTA and of a cluster.

Instructions are executed in the order in which warps are walked, one at a time, so a fence does nothing but tell the
listeners, and who decides when asynchronous operations complete.
"""

from __future__ import annotations

from isa.forms.record import Form
from isa.ptx.instruction import Instruction
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.dynamic_info import CLUSTER, ArriveFacts, Idle, WaitFacts
from simulator.execute.pending import PendingWait
from simulator.execute.registry import prepares
from simulator.state.registers import Warps


@prepares("fence")
def fence(instruction: Instruction, form: Form) -> Executor:
    """Fences: listeners are told; instructions are executed in order anyway."""
    orders = form.name == "fence"

    def run(machine: CtaState, warps: Warps) -> Outcome:
        if orders and machine.order is not None:
            machine.order.fenced(warps, machine.threads(warps))
        machine.note(instruction, warps)
        return Outcome(facts=(Idle(),) * len(warps))

    return run


@prepares("fence.proxy")
def proxy_fence(instruction: Instruction, form: Form) -> Executor:
    """As `fence`; one of the asynchronous proxy hands over what was stored to shared memory before it."""
    tell = fence(instruction, form)
    spaces = [q for q in form.qualifiers if q.startswith(("global", "shared"))]
    if form.qualifiers[:1] != ("async",) or spaces == ["global"]:
        return tell

    def run(machine: CtaState, warps: Warps) -> Outcome:
        if machine.completion is not None:
            for warp in warps[machine.threads(warps).any(axis=1)].tolist():
                machine.completion.shared.hand_over(warp)
        return tell(machine, warps)

    return run


@prepares("bar", "barrier", "barrier.cta")
def cta_barrier(instruction: Instruction, form: Form) -> Executor:
    """bar.sync: changes no register; the interpreter makes the warps wait. PTX ISA 9.0, 9.7.13.1."""
    return lambda _machine, _warps: NOTHING


@prepares("barrier.cluster")
def cluster_barrier(instruction: Instruction, form: Form) -> Executor:
    """barrier.cluster.arrive and .wait. PTX ISA 9.0, 9.7.13.3."""
    arrives, orders = "arrive" in form.qualifiers, "relaxed" not in form.qualifiers

    def arrive_at_cluster(machine: CtaState, warps: Warps) -> Outcome:
        for warp in map(int, warps):
            machine.cluster.arrive((machine.rank, warp), machine.release(warp) if orders else [])
        machine.note(instruction, warps)
        return Outcome(facts=(ArriveFacts(CLUSTER, 1),) * len(warps))

    def wait_for_cluster(machine: CtaState, warps: Warps) -> Outcome:
        barrier, actors = machine.cluster, [(machine.rank, int(warp)) for warp in warps]
        facts = tuple(WaitFacts(CLUSTER, barrier.wait(actor) % 2) for actor in actors)

        def finish() -> None:
            for rank, warp in actors:
                machine.ctas[rank].acquire(warp, barrier.released)
            machine.note(instruction, warps)

        if all(barrier.complete(actor) for actor in actors):
            finish()
            return Outcome(facts=facts)
        block = PendingWait(
            lambda: all(barrier.complete(actor) for actor in actors),
            finish,
            lambda: f"barrier.cluster: {barrier.lacks()}",
        )
        return Outcome(block=block, facts=facts)

    return arrive_at_cluster if arrives else wait_for_cluster
