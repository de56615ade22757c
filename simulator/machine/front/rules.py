"""The numbers of a chip that the front of an SM works with, from its config, as typed fields."""

from __future__ import annotations

from typing import Any

import cython

from simulator.chip.tables import POLICIES
from simulator.machine.front.program import numbers


@cython.final
@cython.cclass
class Rules:
    """Numbers of the config with these names (docs/configs.md), and what follows from them.

    Attributes:
        extra: by units of consumer and producer, cycles beyond the producer's latency.
        produced_by, pipe_taken: by unit, the stall reason for an operand that it makes, and for the unit when taken.
        margin: cycles for which a result can matter after it is there.
        lag: cycles after which nothing changes any more what an access sends.
        policy: the number of the issue policy in `POLICIES`.
    """

    extra: cython.longlong[::1]
    produced_by: cython.longlong[::1]
    pipe_taken: cython.longlong[::1]
    margin = cython.declare(cython.longlong, visibility="readonly")
    lag: cython.longlong
    sub_cores: cython.int
    tensor_pipes: cython.int
    metadata_cycles: cython.longlong
    policy: cython.int
    width: cython.longlong
    greedy: cython.longlong
    most_counted: cython.longlong
    counted_behind: cython.longlong
    loop_minimum: cython.longlong
    loop_cycles: cython.longlong
    stages: cython.int
    written: cython.longlong
    stored: cython.longlong
    gap: cython.longlong
    port_delay: cython.longlong
    cycles: cython.longlong
    wavefronts: cython.longlong
    wavefront_interval: cython.longlong
    port_cycles: cython.longlong
    warp_interval: cython.longlong
    queue: cython.longlong
    queue_latency: cython.longlong
    waiting: cython.int
    reach: cython.int
    senders: cython.int
    latency: cython.longlong
    store_latency: cython.longlong
    operand_latency: cython.longlong
    loads: cython.longlong
    freed: cython.longlong
    passes: cython.longlong
    barrier_arrival: cython.longlong
    barrier_stall: cython.longlong

    def __init__(self, config: Any, extra: Any, produced_by: Any, pipe_taken: Any) -> None:
        shared, issue, registers = config.shared, config.issue, config.registers
        self.extra = numbers([cycles for row in extra for cycles in row])
        self.produced_by, self.pipe_taken = numbers(produced_by), numbers(pipe_taken)
        longest = max([max(row) for row in extra])
        self.margin = longest + max(shared.overlap_latency, config.alu.change_latency)
        self.sub_cores, self.tensor_pipes = config.sm.sub_cores, config.sm.tensor_pipes
        self.metadata_cycles = config.sm.metadata_cycles
        self.policy, self.width, self.greedy = POLICIES.index(issue.policy), issue.width, issue.greedy
        self.most_counted, self.counted_behind = issue.most_counted, issue.counted_behind
        self.loop_minimum, self.loop_cycles = config.loop.minimum, config.loop.cycles
        self.stages, self.written = registers.stages, max(registers.written, 1)
        self.stored = max(registers.stored - config.alu.latency, 0)
        self.gap, self.port_delay = config.pipe.gap, config.pipe.port_delay
        self.lag = max(self.stages, self.port_delay) + 1
        self.cycles, self.wavefronts, self.wavefront_interval = (
            shared.cycles,
            shared.wavefronts,
            shared.wavefront_interval,
        )
        self.warp_interval = shared.warp_interval
        self.port_cycles, self.queue, self.queue_latency = shared.port_cycles, shared.queue, shared.queue_latency
        self.waiting, self.reach, self.senders = shared.waiting, shared.reach, min(shared.senders, self.sub_cores)
        self.latency, self.store_latency, self.operand_latency = (
            shared.latency,
            shared.store_latency,
            shared.operand_latency,
        )
        self.loads, self.freed, self.passes = shared.loads, shared.freed, shared.passes
        self.barrier_arrival, self.barrier_stall = config.barrier.arrival, config.barrier.stall
