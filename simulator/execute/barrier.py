"""The named barriers of a CTA and the barrier of a cluster: which warps have arrived, and when all are there.

The interpreter and the timing engine both use them. PTX ISA 9.0, 9.7.13.1 (bar, barrier): a barrier waits for a number
of threads, by default all of the CTA; then it is reset. Of the barrier of a cluster, 9.7.13.3 (barrier.cluster),
arrival and wait are two instructions.
"""

from __future__ import annotations

from collections.abc import Iterable

from isa import Instruction, IsaError
from isa.forms.record import Form, Time
from isa.forms.synchronisation import is_arrival, is_reduction
from isa.ptx.instruction import Immediate
from simulator.state.mbarrier import Clocks, joined
from simulator.state.registers import WARP_SIZE
from simulator.state.shared import AddressError


def is_cluster_barrier(form: Form) -> bool:
    """Whether this is a form of barrier.cluster."""
    return form.time is Time.CLUSTER_BARRIER


def barrier_of(instruction: Instruction) -> tuple[int, int | None] | None:
    """(number, how many warps it waits for or None for all) of a barrier instruction of a CTA; None for any other.

    Raises:
        IsaError: operands that are not constants, or a number of threads that is not a multiple of 32.
    """
    if instruction.form.time is not Time.BARRIER:
        return None
    if is_arrival(instruction.form) or is_reduction(instruction.form):
        reason = f"'{instruction.form.opcode}' is executed in launches of kernels, but not in traces"
        raise IsaError(str(instruction), -1, reason, "bar.sync or barrier.sync")
    number, *rest = instruction.operands
    if not isinstance(number, Immediate) or not all(isinstance(operand, Immediate) for operand in rest):
        raise IsaError(
            str(instruction), -1, "the operands of a barrier must be constants in a trace", "e.g. bar.sync 0;"
        )
    if not rest:
        return number.value, None
    assert isinstance(rest[0], Immediate)
    threads = rest[0].value
    if threads <= 0 or threads % WARP_SIZE:
        raise IsaError(str(instruction), -1, f"a barrier of {threads} threads", f"a multiple of {WARP_SIZE}")
    return number.value, threads // WARP_SIZE


class Barriers:
    """The named barriers of one CTA.

    Attributes:
        warps: warps of the CTA.
        arrived: by number of the barrier, the warps that wait there; ~warp for one that has arrived and gone on.
        wanted: by number of the barrier, how many warps it waits for.
        mismatches: arrivals that name another number of threads than those before them.
    """

    def __init__(self, warps: int) -> None:
        self.warps = warps
        self.arrived: dict[int, list[int]] = {}
        self.wanted: dict[int, int] = {}
        self.mismatches = 0  # arrivals that name another number of threads than those before them

    def arrive(self, number: int, wanted: int | None, warps: Iterable[int], waits: bool = True) -> list[list[int]]:
        """Lets warps arrive in this order; returns the groups of warps that are released, in order. Those that do not
        wait (`waits`) are counted alone."""
        waiting, count = self.arrived.setdefault(number, []), wanted or self.warps
        released = []
        for warp in warps:
            if waiting and self.wanted[number] != count:
                self.mismatches += 1
            self.wanted[number] = count
            waiting.append(warp if waits else ~warp)
            if len(waiting) >= count:
                released.append([each for each in waiting if each >= 0])
                waiting.clear()
        return released

    def state(self) -> tuple[object, ...]:
        """Which warps wait at which barrier, in their order, for how many."""
        return tuple((n, tuple(warps), self.wanted[n]) for n, warps in sorted(self.arrived.items()) if warps)

    def describe(self) -> list[str]:
        """Which warps wait at which barrier, as lines of a deadlock's message."""
        return [
            f"warps {', '.join(map(str, waiting))} wait at barrier {number}"
            for number, warps in sorted(self.arrived.items())
            if (waiting := sorted(warp for warp in warps if warp >= 0))
        ]


Actor = tuple[int, int]  # CTA, warp


class ClusterBarrier:
    """The barrier of the CTAs of a cluster: it waits for every thread that has not exited.

    Attributes:
        arrived: for each warp that runs a program, how often it has arrived.
        released: the clocks of what the warps that arrived had done, see `CtaState.release`.
    """

    def __init__(self, actors: Iterable[Actor] = ()) -> None:
        self.arrived = dict.fromkeys(actors, 0)
        self.waited = dict(self.arrived)
        self.released: list[Clocks] = []

    def arrive(self, actor: Actor, clocks: list[Clocks]) -> None:
        """Lets a warp arrive with its clocks; AddressError if it has not waited since its last arrival."""
        if self.arrived.setdefault(actor, 0) > self.waited.setdefault(actor, 0):
            raise AddressError(
                f"warp {actor[1]} of CTA {actor[0]} arrives twice at the barrier of the cluster",
                "barrier.cluster.wait between",
                rule="barrier-use",
            )
        self.arrived[actor] += 1
        self.released = joined(self.released, clocks)

    def wait(self, actor: Actor) -> int:
        """Lets a warp begin to wait; returns how often it has waited before. AddressError if it has not arrived."""
        if self.arrived.get(actor, 0) == self.waited.get(actor, 0):
            raise AddressError(
                f"warp {actor[1]} of CTA {actor[0]} waits at the barrier of the cluster without arriving",
                "barrier.cluster.arrive before",
                rule="barrier-use",
            )
        self.waited[actor] += 1
        return self.waited[actor] - 1

    def leave(self, actor: Actor) -> None:
        """Notes that a warp's program is over: nobody waits for it any more."""
        self.arrived.pop(actor, None)

    def complete(self, actor: Actor) -> bool:
        """Whether every warp has arrived as often as this warp has waited."""
        return all(count >= self.waited[actor] for count in self.arrived.values())

    def lacks(self) -> str:
        """The warps that have not arrived, in words."""
        most = max(self.waited.values(), default=0)
        late = [f"warp {warp} of CTA {cta}" for (cta, warp), count in self.arrived.items() if count < most]
        return f"{', '.join(late)} {'has' if len(late) == 1 else 'have'} not arrived"
