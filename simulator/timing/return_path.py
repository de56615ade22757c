"""The way of loaded registers from shared memory back to the sub-cores of an SM.

Behind its wavefront a register goes through a pipe of the SM, which one register leaves in a cycle (as many as the SM
serves wavefronts), in the order of their wavefronts; those of a vector load all stand behind its last one. Then it
waits in a queue of its sub-core. In a cycle one register is written for the whole SM, of the sub-cores that have one in
turn by number. A sub-core is passed over if its register file takes nothing in the bank of its first register
(`simulator.timing.operands`).

There is room for `[shared] loads` registers of loads that have begun, for each wavefront that the SM serves in a cycle.
An ldmatrix takes a place for each of its registers, any other load one; it is free again `freed` cycles behind the one
in which the register leaves the pipe, of a vector the last. A load that finds no room does not begin, and no more than
`passes` accesses behind it do before it.

What is written in a cycle is decided behind it, when all sub-cores have come so far, and before anybody can use it; on
chips without `[registers]`, where nothing keeps a register from being written, as soon as its place is free. Until then
the values of a load count as never ready.

Measured: H200, the same SM as an H100's, 2026-11-27, `tests/hardware/oldest.py`: 178 codes of loads on one, two and
four sub-cores, in all orders of their last accesses, every clock. Where wavefronts take a part of a cycle, times are
counted in such parts ("slots").

The compiled engine has the same rules (`simulator/timing/compiled/engine.c`, functions of the same names).
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable

from simulator.chip.memory import Shared
from simulator.compiler.timed_code import TimedOperation
from simulator.timing.core_records import SmRecord
from simulator.timing.cores import SubCore
from simulator.timing.operands import BANKS, BOTH
from simulator.timing.records import HELD, NEVER, RegisterRecord, link

ON_WAY = 256  # registers on their way in an SM that serves a wavefront in a cycle, at most
Written = Callable[[RegisterRecord, int], None]


class ReturnPath:
    """That of each SM of a run.

    Args:
        lag: cycles after which it is decided what begins.
        written: is told of the last register of each load, and in which cycle its values are there.

    Attributes:
        ahead: cycles from the one in which a register leaves the pipe, at the earliest, until its value is there.
        stage: how many of these are behind the one in which it is written.
        wait: cycles behind that in which a register leaves the pipe until it must be known when it is written.
        registers: those of each SM, `most` of them at most, in the order in which they leave the pipe; `count` of them
            are on their way.
        left: for each SM, the last slot in which a register has left the pipe that is written.
        decided: the slot up to which is known what is written.
        served: the sub-core, counted in its SM, whose register was written last.
    """

    def __init__(self, rule: Shared, record: SmRecord, cores: list[SubCore], lag: int, written: Written) -> None:
        self.rule, self.lag, self.cores, self.written = rule, lag, cores, written
        self.width = record.returns = -(-rule.wavefronts // rule.cycles)
        self.ahead = self.stage = rule.latency - 1
        self.wait = lag + rule.freed
        if cores[0].depth:
            self.stage, self.wait = max(cores[0].result_stage, 1), max(self.ahead, self.wait)
        self.each = len(cores) // record.sms
        self.most = record.on_way_most = ON_WAY * self.width
        self.registers = (RegisterRecord * (self.most * record.sms))()
        record.on_way_array = ctypes.addressof(self.registers)
        self.count, self.left, self.decided = (array("q", [0] * record.sms) for _ in range(3))
        self.served = array("q", [self.each - 1] * record.sms)
        self.loads = record.loads = rule.loads * self.width
        record.freed, record.passes = rule.freed, rule.passes
        record.ahead, record.written, record.wait = self.ahead, self.stage, self.wait
        link(record, on_way_count=self.count, left=self.left, decided=self.decided, last_written=self.served)
        for core in cores:
            core.writes_held = array("q", [0] * HELD)
            link(core, writes_held=core.writes_held)

    def on_way(self, sm: int) -> list[RegisterRecord]:
        """The registers of an SM that are on their way, in the order in which they leave the pipe."""
        return self.registers[self.most * sm : self.most * sm + self.count[sm]]

    # Loads that begin

    def fits_from(self, sm: int, operation: TimedOperation, cycle: int) -> int:
        """The first cycle, from this one on, in which there is room for the registers of an access."""
        count = len(operation.writes)
        places = min(count, 1) if operation.together else count
        if not places:
            return cycle
        if self.count[sm] + count > self.most:
            return cycle + 1
        left = self.loads - places
        for register in reversed(self.on_way(sm)):
            free = register.slot // self.width + self.rule.freed
            if free <= cycle:
                break
            left -= register.place
            if left < 0:
                return free
        return cycle

    def add(self, sm: int, load: RegisterRecord, operation: TimedOperation, first: int, last: int) -> None:
        """Lets the registers of a load come that has its first and last wavefront in these cycles.

        Args:
            load: what all of them have in common.
        """
        count, together = len(operation.writes), operation.together
        step = 0 if together else (last - first) // max(count - 1, 1)
        at, end = self.most * sm, self.most * sm + self.count[sm]
        found = end  # where the first of them stands
        for number, written in enumerate(operation.writes):
            load.soonest = (last + 1 - (count - 1 - number) * step) * self.width
            load.bank, load.final = 1 << written % BANKS, number == count - 1
            load.place = not together or load.final
            while at < end and self.registers[at].soonest <= load.soonest:
                at += 1
            for behind in range(end, at, -1):
                self.registers[behind] = self.registers[behind - 1]
            self.registers[at] = load
            found, end = min(found, at), end + 1
        self.count[sm] += count
        left = max(self.left[sm], self.registers[found - 1].slot if found > self.most * sm else 0)
        for register in self.registers[found:end]:
            left = register.slot = max(register.soonest, left + 1)

    # What is written

    def hold(self, core: SubCore, cycle: int, banks: int) -> None:
        """Notes that nothing can be written to these banks of a sub-core in a cycle."""
        if self.count[core.number // self.each]:
            before = core.writes_held[cycle % HELD]
            core.writes_held[cycle % HELD] = (before if before >> BANKS == cycle else cycle << BANKS) | banks & BOTH

    def held(self, core: SubCore, slot: int) -> int:
        """The banks to which nothing can be written of what has this slot."""
        cycle = slot // self.width + self.ahead - self.stage
        word = core.writes_held[cycle % HELD]
        return word & BOTH if word >> BANKS == cycle else 0

    def due(self, sm: int) -> int:
        """The cycle in which it must be known what has been written."""
        if not self.count[sm]:
            return NEVER
        return max(self.registers[self.most * sm].slot, self.decided[sm]) // self.width + self.wait

    def write(self, sm: int, now: int) -> None:
        """Decides what is written up to now, of registers whose places are free, if all sub-cores have come so far and
        what begins is decided up to `lag` cycles before."""
        until = min(now - self.ahead + self.stage, now - self.lag - self.rule.freed + 1) * self.width
        slot = self.decided[sm]
        while slot < until and self.count[sm]:
            place = self.next_written(sm, slot)
            if place >= 0:
                self.take_out(sm, place, slot)
            slot = max(slot + 1, self.registers[self.most * sm].slot if self.count[sm] else 0)
        self.decided[sm] = max(self.decided[sm], until)

    def next_written(self, sm: int, slot: int) -> int:
        """The place of the register that is written in a slot; -1 for none."""
        found, turn, seen = -1, self.each, set[int]()
        for place, register in enumerate(self.on_way(sm)):
            if register.slot > slot:
                break
            if register.core not in seen:
                seen.add(register.core)
                its = (register.core - self.served[sm] - 1) % self.each
                if its < turn and not register.bank & self.held(self.cores[register.core], slot):
                    found, turn = place, its
        return found

    def take_out(self, sm: int, place: int, slot: int) -> None:
        """Lets a register be written in a slot."""
        place += self.most * sm
        register = RegisterRecord.from_buffer_copy(self.registers[place])
        self.served[sm] = register.core % self.each
        self.left[sm] = max(self.left[sm], register.slot)
        self.count[sm] -= 1
        for behind in range(place, self.most * sm + self.count[sm]):
            self.registers[behind] = self.registers[behind + 1]
        if register.final:
            self.written(register, slot // self.width + self.ahead)

    def state(self, sm: int, now: int) -> list[int]:
        """All that decides what comes next, in cycles and slots relative to `now`."""
        state = [max(self.left[sm] - (now - self.lag) * self.width, 0), self.served[sm], self.count[sm]]
        for register in self.on_way(sm):
            state += (register.core, register.warp, register.pc, register.bank, register.place, register.final)
            state.append(register.ready - NEVER - self.cores[register.core].accesses_made)
            state += (register.soonest - now * self.width, register.slot - now * self.width)
        return state
