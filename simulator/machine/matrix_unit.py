"""The matrix unit of an SM, which executes `wgmma` behind issue: a process that takes instructions from its queue.

An instruction is queued when all four warps of its warpgroup have issued it; those of different warpgroups wait in one
queue. It starts when the unit is free, and the unit takes the next one after its interval. A warp that has issued an
instruction goes on when the queue is no longer full. `wgmma.wait_group` lets a warp go on when the instructions of its
groups are complete. Measured on an H200 (measurements/hopper): intervals and latencies, how many may wait, and that one
to four warpgroups share one unit. Copies that land delay its operands (measured). Assumed: operands do not
delay accesses of warps.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Generator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import simpy

from isa.fragments.warpgroup import WARPS
from simulator.compiler.tcgen05 import Cost
from simulator.compiler.timed_code import Job, StallReason
from simulator.execute.dynamic_info import CommitProductsFacts, WaitProductsFacts
from simulator.machine.clock import call_at
from simulator.machine.interface import SmOfUnits, Warp


@dataclass(eq=False, slots=True)
class Product:
    """An instruction of a warpgroup.

    Attributes:
        job: what it does and costs.
        issue: for an observer.
        missing: warps that have not issued it.
        done: when it is complete; -1 while it has not started.
        waiting: the warps that wait for it.
        behind: the warps that go on when it has started, since the queue has room again.
    """

    job: Job
    issue: Any
    missing: int = WARPS
    done: int = -1
    waiting: list[Warp] = field(default_factory=list)
    behind: list[Warp] = field(default_factory=list)


@dataclass(slots=True)
class Issued:
    """What a warp has issued.

    Attributes:
        last: its last product.
        groups: of each group that it has committed and not waited for, the last product; the oldest first.
        behind: products that others of its warpgroup have issued before it.
    """

    last: Product | None = None
    groups: deque[Product | None] = field(default_factory=deque)
    behind: deque[Product] = field(default_factory=deque)


class MatrixUnit:
    """The unit of one SM, and its queue, a SimPy store.

    Args:
        length: instructions that may wait.
        copied_lines: lines of 128 bytes that copies write to shared memory for each cycle that operands wait for them.

    Attributes:
        head: the instruction that waits for the unit, taken out of the store.
        free: when the unit takes the next instruction.
        copied, rest: wavefronts of copies up to the last instruction, and those that have delayed none yet.
        busy, products: cycles for which it has taken no other instruction, and those in which it multiplies.
        warps: by number, what a warp has issued.
    """

    def __init__(self, sm: SmOfUnits, length: int, copied_lines: int) -> None:
        self.sm, self.env, self.length = sm, sm.env, length
        self.copied_lines, self.copied, self.rest = copied_lines, 0, 0
        self.queue = simpy.Store(sm.env)
        self.head: Product | None = None
        self.free = self.busy = self.products = 0
        self.warps: defaultdict[int, Issued] = defaultdict(Issued)
        self.env.process(self.run())

    def launch(self, warp: Warp, job: Job, issue: Any, now: int) -> None:
        """Issues an instruction of a warp: a product, a commit or a wait."""
        issued = self.warps[warp.id]
        match job.fact:
            case CommitProductsFacts():
                issued.groups.append(issued.last)
            case WaitProductsFacts(groups=groups):
                last = None
                while len(issued.groups) > groups:
                    last = issued.groups.popleft()
                if last is not None:
                    self.wait(warp, last, now)
            case _:
                self.multiply(warp, issued, job, issue)

    def multiply(self, warp: Warp, issued: Issued, job: Job, issue: Any) -> None:
        """Counts a warp for a product, which is queued with the last of its warpgroup."""
        if issued.behind:
            product = issued.behind.popleft()
        else:
            product, first = Product(job, issue), warp.id // WARPS * WARPS
            for number in range(first, first + WARPS):
                if number != warp.id:
                    self.warps[number].behind.append(product)
        issued.last = product
        product.missing -= 1
        if not product.missing:
            self.queue.put(product)
        queued = self.queued
        if len(queued) >= self.length:
            warp.blocked = StallReason.TENSOR
            queued[-self.length].behind.append(warp)

    @property
    def queued(self) -> list[Product]:
        """The instructions that have not started, in order."""
        return [*([self.head] if self.head is not None else []), *self.queue.items]

    def wait(self, warp: Warp, product: Product, now: int) -> None:
        """Lets a warp go on when a product is complete."""
        if product.done < 0:
            warp.blocked = StallReason.DEPENDENCY
            product.waiting.append(warp)
        elif product.done > now:
            warp.wait_until(product.done, StallReason.DEPENDENCY)

    def run(self) -> Generator[simpy.Event, Any, None]:
        """Starts one product after the other."""
        while True:
            self.head = product = yield self.queue.get()
            if self.free > self.env.now:
                yield self.env.timeout(self.free - self.env.now)
            self.head = None
            now, cost, observer = int(self.env.now), product.job.cost, self.sm.observer
            assert cost is not None
            late = self.delayed(cost)
            self.free, product.done = now + cost.interval + late, now + cost.latency + late
            self.busy += cost.interval + late
            self.products += cost.tensor
            self.sm.machine.lasts(product.done)
            if observer is not None:
                observer.start(product.issue, now, now)
                observer.serve("wgmma", self.sm.cta, now, self.free)
                observer.complete(product.done)
            for warp in product.behind:
                self.sm.release(warp, now, StallReason.TENSOR)
            for warp in product.waiting:
                call_at(self.env, product.done, partial(self.release, warp))
                self.sm.machine.limit(product.done)

    def delayed(self, cost: Cost) -> int:
        """Cycles for which the operands of an instruction wait for what copies have written since the last one, beyond
        those in which it multiplies."""
        copied, self.copied = self.sm.copied - self.copied + self.rest, self.sm.copied
        late, self.rest = divmod(copied, self.copied_lines)
        return max(cost.operands + late - cost.interval, 0)

    def release(self, warp: Warp, event: simpy.Event) -> None:
        """Lets a warp go on whose products are complete."""
        self.sm.release(warp, int(self.env.now), StallReason.DEPENDENCY)

    def state(self, now: int) -> tuple[object, ...]:
        """Returns all that decides what the unit does next, in cycles relative to `now`."""

        def of(product: Product | None) -> tuple[object, ...]:
            if product is None:
                return ()
            waiting, behind = (tuple(warp.id for warp in warps) for warps in (product.waiting, product.behind))
            done = max(product.done - now, 0) if product.done >= 0 else -1
            return product.missing, product.job.fact, done, waiting, behind

        warps = tuple(
            (number, of(issued.last), tuple(map(of, issued.groups)), tuple(map(of, issued.behind)))
            for number, issued in sorted(self.warps.items())
        )
        return max(self.free - now, 0), self.sm.copied - self.copied + self.rest, tuple(map(of, self.queued)), warps
