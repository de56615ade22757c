"""The matrix unit of an SM, which executes `wgmma` behind issue: a process that takes instructions from its queue.

An instruction is queued when all four warps of its warpgroup have issued it; those of different warpgroups wait in one
queue. It starts when the unit is free, and the unit takes the next one after its interval. `wgmma.wait_group` lets a
warp go on when the instructions of its groups are complete. Measured on an H200 (measurements/hopper): intervals and
latencies, and that one to four warpgroups share one unit. Assumed: operands that it reads from shared memory do not
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
    """

    job: Job
    issue: Any
    missing: int = WARPS
    done: int = -1
    waiting: list[Warp] = field(default_factory=list)


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

    Attributes:
        free: when the unit takes the next instruction.
        busy, products: cycles for which it has taken no other instruction, and those in which it multiplies.
        warps: by number, what a warp has issued.
    """

    def __init__(self, sm: SmOfUnits) -> None:
        self.sm, self.env = sm, sm.env
        self.queue = simpy.Store(sm.env)
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
            product: Product = yield self.queue.get()
            if self.free > self.env.now:
                yield self.env.timeout(self.free - self.env.now)
            now, cost, observer = int(self.env.now), product.job.cost, self.sm.observer
            assert cost is not None
            self.free, product.done = now + cost.interval, now + cost.latency
            self.busy += cost.interval
            self.products += cost.tensor
            self.sm.machine.lasts(product.done)
            if observer is not None:
                observer.start(product.issue, now, now)
                observer.serve("wgmma", self.sm.cta, now, now + cost.interval)
                observer.complete(product.done)
            for warp in product.waiting:
                call_at(self.env, product.done, partial(self.release, warp))
                self.sm.machine.limit(product.done)

    def release(self, warp: Warp, event: simpy.Event) -> None:
        """Lets a warp go on whose products are complete."""
        self.sm.release(warp, int(self.env.now), StallReason.DEPENDENCY)

    def state(self, now: int) -> tuple[object, ...]:
        """Returns all that decides what the unit does next, in cycles relative to `now`."""

        def of(product: Product | None) -> tuple[object, ...]:
            if product is None:
                return ()
            waiting = tuple(warp.id for warp in product.waiting)
            done = max(product.done - now, 0) if product.done >= 0 else -1
            return product.missing, product.job.fact, done, waiting

        warps = tuple(
            (number, of(issued.last), tuple(map(of, issued.groups)), tuple(map(of, issued.behind)))
            for number, issued in sorted(self.warps.items())
        )
        return max(self.free - now, 0), tuple(map(of, self.queue.items)), warps
