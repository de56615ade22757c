"""How instructions read their registers: three stages behind issue, two banks of the register file, one register a bank
and cycle.

Behind issue an instruction goes through the stages of `[registers]`, a cycle each, and its operands must have been read
when it leaves the last. Registers of even number are in one bank, those of odd number in the other; a bank gives one
register in a cycle, to the oldest instruction that asks for one. An operand that has been read stays in the place of
its slot (the first, second or third operand of the instruction) and bank until its instruction leaves, so that the next
instruction with an operand there reads it later. What has not read all in the last stage stops all stages, and nothing
issues on the sub-core until it has; the waits of all its warps last as much longer (`tests/hardware/unlike.py`). An
operand with the compiler's `.reuse` flag is not read again by the next instruction that has the same register of the
same warp in the same slot. What integer and float instructions keep is lost when another warp issues an instruction
with the yield hint, also a NOP; what a matrix instruction keeps, to an operand in that slot of such an instruction.

A result of an integer or float instruction can be read from the register file `stored` cycles behind the last stage of
that instruction. One in its last stage is given it sooner: when one would be there that issued as soon as the compiler
lets it. But if it reads a result from the file in the very cycle in which that comes there, it takes others of that
bank from the file, too.

A matrix instruction reads its registers in cycles of its own (`even` and `odd` of its class), from its second stage on
and before all others. It does not wait for them in a stage. The metadata of a sparse one is read in its first stage,
behind all others; if it is not got there, then in the next cycle and before all others. One whose C is RZ does not read
in the cycles of C. It begins a cycle later, too, if an access to shared memory reads in that cycle
(`simulator.timing.banked_port`). While it waits, nothing issues, and what is ahead of it in the stages goes on. An
instruction that writes a register is late in the cycles `late` of the class: it is given nothing in them, and what
comes to the register file in one of them it reads in the next. A register that comes back from shared memory waits a
cycle if an instruction that writes one of its bank leaves the last stage in its own.

Measured: H100 80GB, 2026-11-26, and H200, the same SM, 2026-11-27, `tests/hardware/banks.py` and `pieces.py`.

The compiled engine has the same rules (`simulator/timing/compiled/engine.c`, functions of the same names).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Protocol

from isa.forms.record import Unit
from simulator.compiler.timed_code import AGAIN, KEPT, TimedOperation
from simulator.timing.core_records import CoreRecord
from simulator.timing.records import NO_MORE, link
from simulator.timing.returns import Returns
from simulator.timing.warp import Warp

WAITING = 2  # stages that stand still with a matrix instruction that waits in the second
STAGE = 11  # numbers of a stage: see CoreRecord
WRITER = 2  # of these, the banks that its instruction writes
FROM, GIVEN = 3, 6  # of these, by slot: since when an operand can be read, and since when in the last stage
PROGRAM, MEMBER = 9, 10  # the operation; its warp
READER = 6  # numbers of a matrix instruction that reads: cycles since its first stage, even, odd, late, metadata, and
# `closed_by`
FIRST_TWO, THIRD = 0b110, 0b1000  # cycles in which a matrix instruction reads
LATEST = 16  # cycles, at most, for which a matrix instruction that has issued holds others up
READERS = 24  # matrix instructions that can read at a time
SLOTS = 3  # operands of an instruction
READ_BITS = 3  # for the number of an operand's registers
PLACE_BITS = 16 + READ_BITS  # below a warp's place, in what a matrix instruction has kept
BANKS = 2  # of the register file
BOTH, UNKNOWN = (1 << BANKS) - 1, 1 << BANKS  # banks
OF_BANK = tuple(sum(1 << BANKS * slot + bank for slot in range(SLOTS)) for bank in range(BANKS))
_FIXED = (Unit.TENSOR, Unit.ALU, Unit.FMA)  # pipes whose cycles the compiler counts


def written(operation: TimedOperation) -> int:
    """Which banks an integer or float instruction writes, as bits; `UNKNOWN` if it is not said which register."""
    banks = {1 << register % BANKS for register in operation.writes} or {UNKNOWN}
    return sum(banks) if operation.writer else 0


class Accesses(Protocol):
    """The port that reads the registers of accesses: `simulator.timing.banked_port.BankedPort`."""

    def next_read(self) -> int: ...
    def read(self, cycle: int) -> int: ...
    def hold(self, cycle: int) -> None: ...
    def hold_writes(self, cycle: int, banks: int) -> None: ...


class Reads(CoreRecord):
    """The stages of a sub-core in which instructions read their registers: see `CoreRecord`.

    Attributes:
        mine: its warps.
        free: by `Unit`, the cycle from which each pipe can take its next instruction.
        stages, readers, kept: the arrays of its record.
        changes: cycles beyond the producer's latency, by units of consumer and producer.
        returns: those of its SM, which are late where the stages stand still.
        fetch_latency: cycles from the fetch of a jump's target until that can issue.
        port: reads the registers of accesses to shared memory.
    """

    mine: list[Warp]
    free: array[int]
    port: Accesses
    changes: Sequence[Sequence[int]]
    returns: Returns
    fetch_latency: int

    def begin_reads(self, stages: int) -> None:
        """Sets up so many stages; none: registers are there when an instruction issues."""
        self.depth = stages
        self.stages = array("q", bytes(8 * STAGE * max(stages, 1)))
        self.readers = array("q", bytes(8 * READER * READERS))
        self.kept = array("q", [-1]) * (BANKS * SLOTS + 2)
        link(self, stages=self.stages, readers=self.readers, kept=self.kept)

    def read(self, warp: Warp, operation: TimedOperation) -> None:
        """Lets an instruction that issues in cycle `read_cycle` enter the first stage."""
        if operation.unit is Unit.TENSOR:
            if not (operation.even or operation.odd):
                return
            there = self.held(warp, operation)
            self.reading = min(self.reading, READERS - 1)
            at = READER * self.reading
            even, odd, closed = operation.even & ~there, operation.odd & ~there, self.closed_by(operation, there)
            self.readers[at : at + READER] = array("q", (-1, even, odd, operation.late, operation.metadata, closed))
            self.reading += 1
            return
        for place, number in enumerate(operation.operands):
            self.enter(warp, number, *self.readable_from(warp, operation, place), operation.yields)
        self.stages[WRITER] |= written(operation)
        self.stages[PROGRAM], self.stages[MEMBER] = 1 + warp.pc, self.mine.index(warp)

    def readable_from(self, warp: Warp, operation: TimedOperation, place: int) -> tuple[int, int]:
        """From when on an integer or float instruction can read an operand that another one has written: from the
        register file, and in its last stage."""
        source = operation.sources[place] if place < len(operation.sources) else -1
        if source < 0 or (producer := warp.producers[source]) not in (Unit.ALU, Unit.FMA):
            return 0, 0
        late = operation.forwarding_penalty if producer == Unit.ALU else 0
        given = warp.readable[source] + self.changes[operation.unit][producer] + late
        return max(warp.readable[source] + self.stored, given), given

    def held(self, warp: Warp, operation: TimedOperation) -> int:
        """The cycles in which a matrix instruction would read what it finds kept from the last one."""
        there = 0
        for at, (operand, cycles) in enumerate(
            zip(operation.operands, (operation.a, operation.b), strict=False), SLOTS * BANKS
        ):
            count = (operation.even & cycles).bit_count() + (operation.odd & cycles).bit_count()
            register = (warp.place << 16 | operand >> 5) << READ_BITS | count  # kept for one that reads as many
            there |= cycles * (self.kept[at] == register)
            self.kept[at] = register if operand & KEPT else -1
        return there

    def closed_by(self, operation: TimedOperation, there: int) -> int:
        """The cycles in which a matrix instruction lets accesses read nothing: the first two, those of C, those of B
        unless it is kept (`there`), and the third if it reads C in the fifth, where the port would go on to the next
        register."""
        reads = (operation.even | operation.odd) & ~(there & operation.b)
        return reads | FIRST_TWO | reads >> self.port_step & THIRD

    def enter(self, warp: Warp, operand: int, readable: int, given: int, hinted: bool) -> None:
        """Puts an instruction with this operand (`TimedOperation.operands`) into the first stage; it can be read from
        a cycle on, and in the last stage from another; `hinted`: whether it has the yield hint."""
        stages, kept = self.stages, self.kept
        slot, register = operand & 7, warp.place << 16 | operand >> 5
        stages[FROM + (slot >> 1)], stages[GIVEN + (slot >> 1)] = readable, given
        stages[1] |= 1 << slot
        if not operand & AGAIN and kept[slot] != register:
            stages[0] |= 1 << slot
        kept[slot] = register if operand & KEPT else -1
        matrix = SLOTS * BANKS + (slot >> 1)
        if hinted and matrix < len(kept) and kept[matrix] >> PLACE_BITS != warp.place:
            kept[matrix] = -1

    def let_go(self, place: int) -> None:
        """Forgets what integer and float instructions of other warps than the one at this place have kept."""
        for slot in range(SLOTS * BANKS):
            if self.kept[slot] >> 16 != place:
                self.kept[slot] = -1

    def catch_up(self, now: int) -> None:
        """Lets the stages go on to the beginning of cycle `now`; where they stand still, so do the warps' waits."""
        while self.read_cycle < now:
            if not self.frozen and self.idle() and (until := min(now, self.port.next_read())) > self.read_cycle:
                self.pass_time(until - self.read_cycle)
                self.read_cycle = until
                continue
            cycle = self.read_cycle
            self.frozen = self.give(self.port.read(cycle))
            self.read_cycle += 1
            if self.frozen:
                if self.frozen < 0:
                    self.port.hold(cycle)
                else:
                    self.go_ahead(cycle)
                self.stand_still(self.read_cycle)
                self.returns.stand_still(self)
            else:
                self.move(cycle, 1)
                for at in range(0, READER * self.reading, READER):
                    self.readers[at] += self.readers[at] < 0

    def go_ahead(self, cycle: int) -> None:
        """Moves on what is ahead of a matrix instruction that waits in this cycle."""
        stages = self.stages[STAGE * WAITING :]
        if stages:
            self.leave(STAGE * (self.depth - 1), cycle)
            self.stages[STAGE * WAITING :] = array("q", bytes(8 * STAGE)) + stages[:-STAGE]

    def closed(self, begun: int) -> int:
        """Bit k, if the port may read nothing in the kth cycle from now, for a matrix instruction that has been reading
        for `begun` cycles, or will now (`closed_by`)."""
        mask = 0
        for at in range(0, READER * self.reading, READER):
            since, *_, metadata, closed = self.readers[at : at + READER]
            if since >= begun and not metadata:
                mask |= closed >> (since + 1)
        return mask

    def metadata_waits(self) -> bool:
        """Whether a matrix instruction has not got its metadata in its first stage."""
        return any(self.readers[at] >= 0 and self.readers[at + 4] for at in range(0, READER * self.reading, READER))

    def idle(self) -> bool:
        """Whether nothing asks for a register but matrix instructions that read theirs, and nothing can be late."""
        stages, late = self.stages, False
        for at in range(0, READER * self.reading, READER):
            if self.readers[at + 4]:
                return False
            late = late or bool(self.readers[at + 3])
        return not any(stages[at] or (late and stages[at + WRITER]) for at in range(0, STAGE * self.depth, STAGE))

    def leave(self, at: int, cycle: int) -> None:
        """Notes from when on the results can be read of the instruction at this place of `stages`, which leaves behind
        this cycle."""
        if self.stages[at + PROGRAM]:
            warp = self.mine[self.stages[at + MEMBER]]
            operation = warp.operation_at(self.stages[at + PROGRAM] - 1)
            for register in operation.writes:
                warp.readable[register] = cycle + operation.latency

    def move(self, cycle: int, cycles: int) -> None:
        """Moves instructions on by so many stages from this cycle on."""
        for stage in range(max(self.depth - cycles, 0), self.depth):
            self.leave(STAGE * stage, cycle + self.depth - 1 - stage)
        stages, kept = self.stages, STAGE * max(self.depth - cycles, 0)
        stages[:] = array("q", bytes(8 * (len(stages) - kept))) + stages[:kept]

    def pass_time(self, cycles: int) -> None:
        """Lets cycles pass in which nothing reads but matrix instructions."""
        late = 0  # bit k, if a matrix instruction lets no result be written in the kth cycle from now
        for at in range(0, READER * self.reading, READER):
            late |= self.readers[at + 3] >> (self.readers[at] + 1)
        for ahead in range(min(cycles, LATEST if late else self.depth)):
            leaves = self.stages[STAGE * (self.depth - 1 - ahead) + WRITER] if ahead < self.depth else 0
            if banks := BOTH if late >> ahead & 1 else leaves:
                self.port.hold_writes(self.read_cycle + ahead, banks)
        self.move(self.read_cycle, cycles)
        for at in range(0, READER * self.reading, READER):
            self.readers[at] += cycles
        self.retire()

    def give(self, accessed: int) -> int:
        """Gives registers in cycle `read_cycle`, in which accesses read from the banks `accessed`. Returns whether the
        stages stand still in the next: 0 if not, -1 if they do; 1 if a matrix instruction waits that has not begun to
        read, and what is ahead of it goes on."""
        readers, taken, held, late = self.readers, accessed, 0, False
        for at in range(0, READER * self.reading, READER):
            if readers[at] < 0:
                continue
            if readers[at + 4]:
                held = 1
                if not taken & readers[at + 4]:
                    taken |= readers[at + 4]
                    readers[at + 4] = 0
                continue
            if accessed and not readers[at]:
                held = 1
                self.returns.put_off(self, self.read_cycle)
                continue
            readers[at] += 1
            since = readers[at]
            taken |= (readers[at + 1] >> since & 1) | (readers[at + 2] >> since & 1) << 1
            late = late or bool(readers[at + 3] >> since & 1)
        last = STAGE * (self.depth - 1)
        if late:
            self.port.hold_writes(self.read_cycle, BOTH)
            if self.stages[last + WRITER]:
                self.miss(last)
        for bank in range(BANKS):
            if not taken >> bank & 1:
                taken |= self.serve(bank) << bank
        writes = self.stages[last + WRITER]
        stands = bool(self.stages[last] or (late and writes))
        for at in range(0, READER * self.reading, READER):
            if readers[at] < 0 and not (stands or taken & readers[at + 4]):
                readers[at + 4] = 0
        self.retire()
        if stands:
            return -1
        if writes:
            self.port.hold_writes(self.read_cycle, writes)
        return held

    def miss(self, last: int) -> None:
        """Lets the instruction in the last stage, which is late in this cycle, have what comes to the register file in
        it only in the next, and be given nothing that is to come there."""
        for slot in range(SLOTS):
            filed, given, soonest = last + FROM + slot, last + GIVEN + slot, self.read_cycle + 1
            if self.stages[filed] >= self.read_cycle:
                self.stages[filed] = max(self.stages[filed], soonest)
                self.stages[given] = max(self.stages[given], soonest)

    def serve(self, bank: int) -> bool:
        """Gives a register of a bank to the oldest instruction in the stages that can take one."""
        stages, older, last = self.stages, 0, STAGE * (self.depth - 1)
        for at in range(last, -1, -STAGE):
            able = stages[at] & ~older & OF_BANK[bank]
            filed = self.there(able, at + FROM)
            able = filed or (self.there(able, at + GIVEN) if at == last else 0)
            if able:
                stages[at] &= ~(able & -able)
                if at == last:
                    self.pass_by((able & -able).bit_length() - 1)
                return True
            older |= stages[at + 1]
        return False

    def there(self, able: int, since: int) -> int:
        """Those of the operands `able` that can be read by now; their cycles stand in the stages from `since` on."""
        for slot in range(SLOTS if able else 0):
            if self.stages[since + slot] > self.read_cycle:
                able &= ~(3 << BANKS * slot)
        return able

    def pass_by(self, operand: int) -> None:
        """Lets an instruction in the last stage be given no more results in the bank of this operand, if it has read
        one that has just come to the register file."""
        last, (read, bank) = STAGE * (self.depth - 1), divmod(operand, BANKS)
        if self.stages[last + FROM + read] == self.read_cycle:
            for slot in range(SLOTS):
                if self.stages[last] >> (BANKS * slot + bank) & 1:
                    self.stages[last + GIVEN + slot] = self.stages[last + FROM + slot]

    def retire(self) -> None:
        """Forgets matrix instructions that have nothing left to read."""
        readers, kept = self.readers, 0
        for at in range(0, READER * self.reading, READER):
            if readers[at] < 0 or (readers[at + 1] | readers[at + 2] | readers[at + 3]) >> min(readers[at], 63) > 1:
                readers[kept : kept + READER] = readers[at : at + READER]
                kept += READER
        self.reading = kept // READER

    def stand_still(self, cycle: int) -> None:
        """Lets nothing issue in this cycle. The waits of all warps, and those for the pipes, last a cycle longer."""
        for warp in self.mine:
            warp.stand_still(cycle, self.fetch_latency)
        for unit in _FIXED:
            late = self.result_until if unit is Unit.TENSOR else 0  # until when the last result can hold one up
            self.free[unit] += self.free[unit] + late >= cycle
        self.half_free += self.half_free >= cycle
        self.turned += self.turned < cycle

    def reads_state(self, now: int) -> list[int]:
        """All that decides how the stages go on, at the beginning of a cycle."""
        if not self.depth:
            return []
        stages = [
            max(number - now, 0) if FROM <= at % STAGE < PROGRAM else number for at, number in enumerate(self.stages)
        ]
        return [self.frozen, *stages, *self.kept, *self.readers[: READER * self.reading], NO_MORE]
