"""Executes `clusterlaunchcontrol`: a running cluster takes over the work of one that has not started.

PTX ISA 9.0, 9.7.13.17. That the answer is there at issue, and which cluster is cancelled (the next in the order of the
grid), are inferred; so are the 16 opaque bytes of the answer: the place of the cluster's first CTA in the grid, x, y
and z, and 1; zeros where no cluster is left. No chip was asked. Which clusters have started is for
`simulator.simulation.launch.batches` to say.
"""

from __future__ import annotations

import numpy as np

from isa.forms.record import Form
from isa.ptx.instruction import Instruction
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.dynamic_info import Fact, Idle
from simulator.execute.geometry import ANSWER_BYTES
from simulator.execute.memory import raced
from simulator.execute.operands import addresses, reader, writer
from simulator.execute.registry import prepares
from simulator.execute.spaces import launched
from simulator.execute.tensor_copies import arrived, in_window, threads_of
from simulator.state.registers import Warps

_AXIS = "get_first_ctaid::"
MULTICAST = "multicast::cluster::all"


@prepares("clusterlaunchcontrol.try_cancel")
def try_cancel(instruction: Instruction, form: Form) -> Executor:
    """clusterlaunchcontrol.try_cancel: the answer goes to the thread's own CTA, or to the same place in all CTAs of its
    cluster, and its bytes complete on an mbarrier there."""
    readers = [addresses(instruction[name]) for name in ("address", "mbarrier")]
    everyone = MULTICAST in form.qualifiers

    def run(machine: CtaState, warps: Warps) -> Outcome:
        state, facts = launched(machine, form), dict[int, Fact]()
        for thread in threads_of(machine, warps, form.name, readers):
            targets = [thread.values]
            if everyone:
                every = (1 << state.cluster_size) - 1
                many = [state.multicast(address, thread.row, every) for address in thread.values]
                targets = list(zip(*many, strict=True))
            answer = state.unstarted.cancel().view(np.uint8)[None, None]
            for address, barrier in targets:
                place, actor = np.array([[in_window(address)]], np.int64), machine.actors(np.array([thread.row]))
                raced(machine, state.shared.write(place, answer, actor))
                facts[thread.row] = arrived(machine, thread.row, barrier, ANSWER_BYTES)
        machine.note(instruction, warps)
        return Outcome(facts=tuple(facts.get(int(warp), Idle()) for warp in warps))

    return run


@prepares("clusterlaunchcontrol.query_cancel")
def query_cancel(instruction: Instruction, form: Form) -> Executor:
    """clusterlaunchcontrol.query_cancel: whether a cluster was cancelled, or where its first CTA is in the grid. PTX
    ISA 9.0, 9.7.13.18. What it gives where none was cancelled is undefined, and 0 here."""
    read = reader(instruction["response"], 64)  # a register of 128 bits is two of 64
    tells = "is_canceled" in form.qualifiers
    write = writer(instruction["d"], 1 if tells else 32)
    axes = ["xyz".index(q[-1]) for q in form.qualifiers if q.startswith(_AXIS)] or [0, 1, 2, 3]

    def run(machine: CtaState, warps: Warps) -> Outcome:
        answer = np.ascontiguousarray(np.swapaxes(read(machine, warps), 1, 2)).view(np.uint32)  # [warp, lane, word]
        values = answer[..., 3:] != 0 if tells else answer[..., axes]
        write(machine, warps, np.swapaxes(values, 1, 2))
        return NOTHING

    return run
