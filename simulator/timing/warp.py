"""A warp in the timing engine: its place in its program, and what it waits for."""

from __future__ import annotations

from isa.forms.record import Unit
from simulator.timing.counters import REASONS
from simulator.timing.model import Job, StallReason, TimedCode, TimedOperation


class Warp:
    """A warp's place in its program and what it waits for. Times are cycles of the run.

    Attributes:
        id: its number over all CTAs; `place` among the warps that have a program.
        base: where its cycles are counted in `Counters.stalls`.
        pc: the place of its next operation in its code.
        counts: runs of each loop that are done.
        runs: by place, executions of operations whose time varies.
        turns: by place, executions of operations with several jobs, modulo their number.
        ready: when each register can be read.
        producers: the unit that wrote each register last.
        pinned: when each register, read by an access to memory, can be overwritten.
        sent: when all of them have been read.
        access: when its next access to shared memory can issue.
        starts: when the current run of each loop could begin.
        last: the cycle of its last issue.
        issue_not_before: no issue before, because of a barrier, a loop's end or what is compiled; and why.
        operands_not_before: compiled, too: no issue before, because of operands.
        operands_ready: when the operands of the next operation are ready, and what the last of them comes from.
        blocked: what it waits for until somebody releases it: BARRIER, MBARRIER or GLOBAL.
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
        """The warp issues nothing before this cycle."""
        self.issue_not_before, self.issue_not_before_reason = max(self.issue_not_before, cycle), reason

    def job(self, operation: TimedOperation) -> Job | None:
        """What this execution of an asynchronous operation does; None: nothing."""
        jobs = operation.jobs.get(self.id) if operation.jobs else None
        if not jobs:
            return None
        if len(jobs) == 1:
            return jobs[0]
        turn = self.turns.get(self.pc, 0)
        self.turns[self.pc] = (turn + 1) % len(jobs)
        return jobs[turn]

    def wavefronts(self, operation: TimedOperation) -> int:
        """Wavefronts of this execution of an access to shared memory."""
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
