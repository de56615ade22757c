"""Executes `clusterlaunchcontrol`, by which a cluster takes over the work of one that has not started, and
`tensormap.cp_fenceproxy`.

That the answer to a request is there at issue, and which cluster is cancelled (the next in the order of the grid), are
inferred; so are the 16 opaque bytes of the answer: the place of the cluster's first CTA in the grid, x, y and z, and 1;
zeros where no cluster is left. No chip was asked. Which clusters have started is for
`simulator.simulation.launch.batches` to say.
"""

from __future__ import annotations

import numpy as np

from isa.forms.launch_control import RESPONSE_BYTES
from isa.forms.record import Form
from isa.ptx.instruction import Instruction
from simulator.execute.cta_state import NOTHING, CtaState, Executor, Outcome
from simulator.execute.dynamic_info import Fact
from simulator.execute.memory import raced
from simulator.execute.operands import addresses, reader, writer
from simulator.execute.registry import prepares
from simulator.execute.single_thread import arrived, by_warp, in_window, threads_of
from simulator.execute.spaces import launched
from simulator.state.registers import Warps
from simulator.state.shared import AddressError

_AXIS = "get_first_ctaid::"


@prepares("clusterlaunchcontrol.try_cancel")
def request(instruction: Instruction, form: Form) -> Executor:
    """clusterlaunchcontrol.try_cancel: the answer completes on an mbarrier, with .multicast::cluster::all in every CTA
    of the cluster. PTX ISA 9.0, 9.7.13.17."""
    readers = [addresses(instruction["address"]), addresses(instruction["mbarrier"])]

    def run(machine: CtaState, warps: Warps) -> Outcome:
        state = launched(machine, form)
        facts: dict[int, Fact] = {}
        for thread in threads_of(machine, warps, form.name, readers):
            places = [thread.values]
            if "multicast::cluster::all" in form.qualifiers:
                every = (1 << state.cluster_size) - 1
                many = [state.multicast(in_window(each), thread.row, every) for each in thread.values]
                places = list(zip(*many, strict=True))
            answered = state.unstarted.cancel().view(np.uint8)[None, None]
            for where, barrier in places:
                if where % RESPONSE_BYTES:
                    raise AddressError(f"{form.name} at {where:#x}", f"a multiple of {RESPONSE_BYTES}")
                unit, actor = np.array([[in_window(where)]], np.int64), np.array([thread.row], np.intp)
                raced(machine, state.shared.write(unit, answered, machine.actors(actor)))
                if state.order is not None:
                    state.order.defined(unit, answered.size, actor)
                facts[thread.row] = arrived(state, thread.row, barrier, RESPONSE_BYTES)
        machine.note(instruction, warps)
        return Outcome(facts=by_warp(warps, facts))

    return run


@prepares("clusterlaunchcontrol.query_cancel")
def answer(instruction: Instruction, form: Form) -> Executor:
    """clusterlaunchcontrol.query_cancel: whether a cluster was cancelled, or where its first CTA is in the grid. PTX
    ISA 9.0, 9.7.13.18."""
    read, tells = reader(instruction["response"], 64), "is_canceled" in form.qualifiers  # 128 bits are two of 64
    write = writer(instruction["d"], 1 if tells else 32)
    axes = ["xyz".index(q[-1]) for q in form.qualifiers if q.startswith(_AXIS)] or [0, 1, 2, 3]

    def run(machine: CtaState, warps: Warps) -> Outcome:
        words = np.ascontiguousarray(np.swapaxes(read(machine, warps), 1, 2)).view(np.uint32)  # [warp, lane, word]
        granted = words[..., 3:] != 0
        if not tells and not granted[..., 0][machine.threads(warps)].all():
            raise AddressError(f"{form.name} of the first CTA of a request that was refused", "@%p0 behind is_canceled")
        write(machine, warps, np.swapaxes(granted if tells else words[..., axes], 1, 2))
        return NOTHING

    return run
