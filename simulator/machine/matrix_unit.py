"""The matrix unit of an SM, which executes `wgmma` behind issue: a process that takes instructions from its queue.

An instruction is queued when all four warps of its warpgroup have issued it; those of different warpgroups wait in one
queue. It starts when the unit is free, and the unit takes the next one after its interval. `wgmma.wait_group` lets a
warp go on when the instructions of its groups are complete. Measured on an H200 (measurements/hopper): intervals and
latencies, and that one to four warpgroups share one unit. Assumed: operands that it reads from shared memory do not
delay accesses of warps.
"""

from __future__ import annotations

from collections import deque
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


@dataclass(slots=True)
class Product:
    """An instruction of a warpgroup.

    Attributes:
        missing: warps that have not issued it.
        job: what it does and costs.
        issue: for an observer.
        done: when it is complete; -1 while it has not started.
    """

    missing: int
    job: Job
    issue: Any
    done: int = -1


@dataclass(slots=True)
class Issued:
    """What a warp has issued, as numbers of the products of its warpgroup.

    Attributes:
        count: products that it has issued.
        groups: of each group that it has committed and not waited for, the oldest first, the number behind its last
            product.
        awaits: behind which number it waits; 0: it does not.
    """

    count: int = 0
    groups: deque[int] = field(default_factory=deque)
    awaits: int = 0


class MatrixUnit:
    """The unit of one SM, and its queue, a SimPy store.

    Attributes:
        free: when the unit takes the next instruction.
        busy, products: cycles for which it has taken no other instruction, and those in which it multiplies.
        warps: by number, what a warp has issued, and the warps that wait.
        groups: by number of the warpgroup, the products that some warp may still ask for, and how many came before.
    """

    def __init__(self, sm: SmOfUnits) -> None:
        self.sm, self.env = sm, sm.env
        self.queue = simpy.Store(sm.env)
        self.free = self.busy = self.products = 0
        self.warps: dict[int, Issued] = {}
        self.waiting: dict[int, Warp] = {}
        self.groups: dict[int, tuple[deque[Product], int]] = {}
        self.env.process(self.run())

    def launch(self, warp: Warp, job: Job, issue: Any, now: int) -> None:
        """Issues an instruction of a warp: a product, a commit or a wait."""
        issued = self.warps.setdefault(warp.id, Issued())
        match job.fact:
            case CommitProductsFacts():
                issued.groups.append(issued.count)
            case WaitProductsFacts(groups=groups):
                last = 0
                while len(issued.groups) > groups:
                    last = issued.groups.popleft()
                issued.awaits = last
                self.waiting[warp.id] = warp
                self.look(warp.id, now)
            case _:
                self.multiply(warp, issued, job, issue)

    def multiply(self, warp: Warp, issued: Issued, job: Job, issue: Any) -> None:
        """Counts a warp for a product, which is queued with the last of its warpgroup."""
        products, before = self.groups.setdefault(warp.id // WARPS, (deque(), 0))
        number = issued.count - before
        issued.count += 1
        if number == len(products):
            products.append(Product(WARPS, job, issue))
        product = products[number]
        product.missing -= 1
        if not product.missing:
            self.queue.put((warp.id // WARPS, product))

    def run(self) -> Generator[simpy.Event, Any, None]:
        """Starts one product after the other."""
        while True:
            group, product = yield self.queue.get()
            if self.free > self.env.now:
                yield self.env.timeout(self.free - self.env.now)
            now, cost, observer = int(self.env.now), product.job.cost, self.sm.observer
            self.free, product.done = now + cost.interval, now + cost.latency
            self.busy += cost.interval
            self.products += cost.tensor
            self.sm.machine.lasts(product.done)
            if observer is not None:
                observer.start(product.issue, now, now)
                observer.serve("wgmma", self.sm.cta, now, now + cost.interval)
                observer.complete(product.done)
            for number in range(WARPS * group, WARPS * group + WARPS):
                self.look(number, now)

    def look(self, number: int, now: int) -> None:
        """Lets a warp that waits go on when what it waits for is complete, if that cycle is known."""
        warp, issued = self.waiting.get(number), self.warps.get(number)
        if warp is None or issued is None:
            return
        products, before = self.groups.get(number // WARPS, (deque[Product](), 0))
        if issued.awaits > before:
            done = products[issued.awaits - before - 1].done
            if done < 0:
                warp.blocked = StallReason.DEPENDENCY
                return
        else:
            done = 0
        del self.waiting[number]
        if warp.blocked:
            call_at(self.env, max(done, now), partial(self.release, warp))
            self.sm.machine.limit(max(done, now))
        elif done > now:
            warp.wait_until(done, StallReason.DEPENDENCY)
        self.forget(number // WARPS)

    def release(self, warp: Warp, event: simpy.Event) -> None:
        """Lets a warp go on whose products are complete."""
        self.sm.release(warp, int(self.env.now), StallReason.DEPENDENCY)

    def forget(self, group: int) -> None:
        """Drops products that are behind all warps of a warpgroup."""
        if group not in self.groups:
            return
        products, before = self.groups[group]
        own = [self.warps.get(number, Issued()) for number in range(WARPS * group, WARPS * group + WARPS)]
        needed = min(min([issued.count, *list(issued.groups)[:1]]) - 1 for issued in own)
        if any(issued.awaits > before for issued in own):
            needed = min(needed, *(issued.awaits - 1 for issued in own if issued.awaits > before))
        while before < needed:
            products.popleft()
            before += 1
        self.groups[group] = products, before

    def state(self, now: int) -> tuple[object, ...]:
        """Returns all that decides what the unit does next, in cycles relative to `now`."""
        groups = tuple(
            (
                group,
                tuple((p.missing, p.job.fact, max(p.done - now, 0) if p.done >= 0 else -1) for p in products),
                tuple(
                    (issued.count - before, tuple(place - before for place in issued.groups), issued.awaits - before)
                    for number in range(WARPS * group, WARPS * group + WARPS)
                    if (issued := self.warps.get(number)) is not None
                ),
            )
            for group, (products, before) in self.groups.items()
        )
        return max(self.free - now, 0), groups
