"""What units outside ask of the front of an SM."""

from __future__ import annotations

from typing import Any

import cython

from simulator.machine.front.front import Front
from simulator.machine.front.sub_core import SubCore
from simulator.machine.front.warp import Warp
from simulator.machine.front.wavefronts import TAKEN


def fill_queue(front: Front, full: Any) -> None:
    """Notes whether the queue of the tcgen05 unit is full."""
    front.unit_queue.full = full


def make_room_in_queue(front: Front, now: cython.longlong) -> None:
    """Lets the warps go on that have found the queue of the tcgen05 unit full, which has room from now on."""
    if front.unit_queue.full:
        front.unit_queue.full, front.unit_queue.room_since = False, now
        front.wake_all(now)


def block_shared(front: Front, now: cython.longlong, cycles: cython.longlong) -> int:
    """Takes cycles of shared memory in one piece, behind all accesses that have issued; returns the first."""
    return front.shared.block(now, cycles)


def send_outside(
    front: Front, core: SubCore, warp: Warp, now: cython.longlong, port: cython.longlong, pipe: cython.longlong
) -> int:
    """Sends an access to global memory through its sub-core's port, for so many cycles, and the pipe to shared memory;
    returns the cycle in which it leaves that."""
    sent: cython.longlong = core.port.take(now, port)
    if front.observer is not None:
        number: cython.longlong = front.cta * front.rules.sub_cores + core.number
        front.observer.serve("shared", front.cta, sent, core.port.free_from, number)
    warp.access = now + front.rules.warp_interval
    warp.sent = core.port.free_from + front.rules.operand_latency
    k: cython.int
    for k in range(warp.next.read_count):
        warp.pinned[warp.next.reads[k]] = warp.sent
    last: cython.longlong = max(sent, warp.turn if warp.between else warp.outside_turn)
    if pipe:
        last = front.shared.wavefronts.place(last, pipe, now, True, TAKEN)
    warp.outside_turn = last + front.rules.wavefront_interval
    front.shared.busy += pipe * front.rules.cycles
    return last


def set_ages(front: Front, order: Any) -> None:
    """Lets the sub-cores have come to shared memory in this order, the first the longest ago."""
    age: cython.longlong = -len(order)
    for number in order:
        core: SubCore = front.cores[number]
        core.port.taken_at = core.port.granted_at = age
        age += 1
