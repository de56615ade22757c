"""A warp in the timing engine: how far it is in its program, and until when each thing makes it wait."""

from __future__ import annotations

from isa.forms.record import Unit
from simulator.timing.counters import REASONS
from simulator.timing.model import Entry, Job, Periodic, StallReason, TimedCode, TimedOperation


class Warp:
    """How far a warp is in its program, and what it waits for. Times are cycles of the run.

    Attributes:
        id: its number over all CTAs; `place` is its number among the warps that have a program.
        base: the index in `Counters.stalls` at which its cycles are counted.
        pc: the place of its next operation in its code.
        counts: for each loop, how many runs are done.
        turns: by place, the position of the next execution among the operation's `costs` or `jobs`.
        ready: for each register, when it can be read.
        producers: for each register, the unit that wrote it last.
        pinned: for each register that an access to memory reads, when it can be overwritten.
        sent: when all pinned registers have been read.
        access: when its next access to shared memory can issue.
        starts: for each loop, when the current run could begin.
        last: the cycle of its last issue.
        issue_not_before: it issues nothing before this cycle, because of a barrier, the end of a loop or a wait that
        the
            compiler wrote; `issue_not_before_reason` says which.
        operands_not_before: the same because of a compiled wait for operands.
        operands_ready: when the operands of the next operation are ready, and what the last of them comes from.
        blocked: what it waits for until it is released: BARRIER, MBARRIER or GLOBAL.
        complete: when all that it has queued at the tcgen05 unit is complete; what is not started does not count yet.
        moves: when all its tcgen05.ld, and all its tcgen05.st, are complete.
        arrived: whether it is at the barrier of the cluster, in its current phase.
    """

    __slots__ = (
        "access",
        "arrived",
        "base",
        "blocked",
        "code",
        "complete",
        "core",
        "counts",
        "cta",
        "done",
        "id",
        "issue_not_before",
        "issue_not_before_reason",
        "last",
        "moves",
        "operands_not_before",
        "operands_ready",
        "operands_reason",
        "operation",
        "pc",
        "pinned",
        "place",
        "producers",
        "ready",
        "sent",
        "starts",
        "turns",
    )

    def __init__(self, number: int, code: TimedCode, registers: int, place: int, cta: int, core: int) -> None:
        self.id, self.code, self.place, self.cta, self.core = number, code, place, cta, core
        self.base = place * REASONS
        self.pc = 0
        self.counts = [0] * len(code.ends)
        self.turns: dict[int, int] = {}
        self.ready = [0] * registers
        self.producers = [Unit.TENSOR] * registers
        self.pinned = [0] * registers
        self.sent = 0
        self.access = 0
        self.starts = [0] * len(code.ends)
        self.last = -1
        self.issue_not_before, self.issue_not_before_reason = 0, StallReason.ISSUE
        self.operands_not_before = 0
        self.operands_ready, self.operands_reason = 0, StallReason.DEPENDENCY
        self.blocked: StallReason | None = None
        self.done = False
        self.operation: TimedOperation | None = None
        self.complete = 0
        self.moves = [0, 0]
        self.arrived = False

    def wait_until(self, cycle: int, reason: StallReason) -> None:
        """Lets the warp issue nothing before this cycle, and notes why."""
        self.issue_not_before, self.issue_not_before_reason = max(self.issue_not_before, cycle), reason

    def job(self, operation: TimedOperation) -> Job | None:
        """What this execution of an asynchronous operation does; None if it does nothing."""
        jobs = operation.jobs.get(self.id) if operation.jobs else None
        if not jobs:
            return None
        return self.next(jobs)

    def wavefronts(self, operation: TimedOperation) -> int:
        """How many wavefronts this execution of an access to shared memory takes."""
        assert operation.costs is not None
        return self.next(operation.costs[self.id])

    def next(self, executions: Periodic[Entry]) -> Entry:
        """The entry of this execution of the operation at hand."""
        if len(executions.entries) == 1:
            return executions.entries[0]
        position = self.turns.get(self.pc, 0)
        self.turns[self.pc] = executions.after(position)
        return executions.entries[position]


def warps_of(codes: list[TimedCode], cta_warps: int, registers: int, sub_cores: int) -> list[Warp]:
    """The warps that have a program, by number."""
    programs = {warp: code for code in codes for warp in code.warps if code.items}
    warps = []
    for place, (number, code) in enumerate(sorted(programs.items())):
        cta, local = divmod(number, max(cta_warps, 1))
        warps.append(Warp(number, code, registers, place, cta, cta * sub_cores + local % sub_cores))
    return warps
