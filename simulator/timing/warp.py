"""A warp in the timing engine: how far it is in its program, and until when each thing makes it wait."""

from __future__ import annotations

from isa.forms.record import Unit
from simulator.timing.counters import REASONS
from simulator.timing.model import Job, StallReason, TimedCode, TimedOperation


class Warp:
    """How far a warp is in its program, and what it waits for. Times are cycles of the run.

    Attributes:
        id: its number over all CTAs; `place` is its number among the warps that have a program.
        base: the index in `Counters.stalls` at which its cycles are counted.
        pc: the place of its next operation in its code.
        counts: for each loop, how many runs are done.
        runs: by place, executions of operations whose time varies.
        turns: by place, executions of operations with several jobs, modulo their number.
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
        "runs",
        "sent",
        "starts",
        "turns",
    )

    def __init__(self, number: int, code: TimedCode, registers: int, place: int, cta: int, core: int) -> None:
        self.id, self.code, self.place, self.cta, self.core = number, code, place, cta, core
        self.base = place * REASONS
        self.pc = 0
        self.counts = [0] * len(code.ends)
        self.runs: dict[int, int] = {}
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
        if len(jobs) == 1:
            return jobs[0]
        turn = self.turns.get(self.pc, 0)
        self.turns[self.pc] = (turn + 1) % len(jobs)
        return jobs[turn]

    def wavefronts(self, operation: TimedOperation) -> int:
        """How many wavefronts this execution of an access to shared memory takes."""
        assert operation.costs is not None
        assert operation.column is not None
        run = 0
        if len(operation.costs) > 1:
            run = self.runs.get(self.pc, 0)
            self.runs[self.pc] = run + 1
        return operation.costs[run][operation.column[self.id]]


def warps_of(codes: list[TimedCode], cta_warps: int, registers: int, sub_cores: int) -> list[Warp]:
    """The warps that have a program, by number."""
    programs = {warp: code for code in codes for warp in code.warps if code.items}
    warps = []
    for place, (number, code) in enumerate(sorted(programs.items())):
        cta, local = divmod(number, max(cta_warps, 1))
        warps.append(Warp(number, code, registers, place, cta, cta * sub_cores + local % sub_cores))
    return warps
