"""The register collector of a sub-core: how instructions read their registers.

Behind issue an instruction goes through the read stages of `[registers]`, a cycle each, and its operands must have been
read when it leaves the last. Registers of even number are in one bank, those of odd number in the other; a bank gives
one register in a cycle, to the oldest instruction that asks for one. An operand that has been read stays in the place
of its slot (first, second or third operand) and bank until its instruction leaves, so that the next instruction with an
operand there reads it later. What has not read all in the last stage stops all stages, and nothing issues on the
sub-core until it has; the waits of all its warps last as much longer.

An operand with the compiler's `.reuse` flag is not read again by the next instruction that has the same register of the
same warp in the same slot. What integer and float instructions keep is lost when another warp issues an instruction
with the yield hint; what a matrix instruction keeps, to an operand in that slot of such an instruction.

A result of an integer or float instruction is in the register file `stored` cycles behind its last read stage. An
instruction in its last stage is given it sooner (forwarding): when one would be that issued as soon as the compiler
lets it. If it reads a result from the file in the very cycle in which that comes there, it takes others of that bank
from the file, too.

Matrix instructions (`matrix_reads`) read before all others. An instruction that writes a register is late in the cycles
`late` of a matrix instruction's class: it is forwarded nothing in them, and operands that arrive then become readable
in the next cycle.

Measured: H100 80GB and H200, 80,000 sequences of machine code (docs/timing.md, Registers).
"""

from __future__ import annotations

import cython

from simulator.machine.front.access import Clocked
from simulator.machine.front.matrix_reads import FIRST_TWO, THIRD, MatrixRead, MatrixReads
from simulator.machine.front.port import Port
from simulator.machine.front.program import AGAIN, ALU, FMA, KEPT, ONE, TENSOR, UNITS, Instruction, Words, numbers
from simulator.machine.front.rules import Rules
from simulator.machine.front.stages import ReadStages, Stage
from simulator.machine.front.warp import Warp

OF_EVEN = cython.declare(cython.longlong, 0b010101)  # operands of the even bank, by bit 2 * slot + bank
BOTH = cython.declare(cython.longlong, 3)  # banks
# Cycles, at most, for which a matrix instruction that has issued holds others up.
LATEST = cython.declare(cython.longlong, 16)


@cython.final
@cython.cclass
class Collector:
    """The read stages of a sub-core.

    Attributes:
        kept: by slot and bank, warp and register of an operand that the next instruction need not read again, and
            behind these of A and B of a matrix instruction; -1 for none.
        frozen: whether the stages stand still in this cycle: -1 all of them, 1 but for what is ahead of a matrix
            instruction that waits.
    """

    rules: Rules
    core: Clocked
    port: Port
    matrix: MatrixReads
    stages: ReadStages
    kept: cython.longlong[::1]
    frozen: cython.int

    def __init__(self, rules: Rules, core: Clocked, port: Port, matrix: MatrixReads) -> None:
        self.rules, self.core, self.port, self.matrix = rules, core, port, matrix
        self.stages = ReadStages(rules.stages)
        self.kept = numbers([-1] * 8)
        self.frozen = 0

    # What enters

    @cython.cfunc
    def enter(self, warp: Warp, instruction: Instruction) -> cython.void:
        """Lets an instruction that issues in the present cycle enter the first stage."""
        if instruction.unit == TENSOR:
            if instruction.even | instruction.odd:
                self.enter_matrix(warp, instruction)
            return
        k: cython.int
        for k in range(instruction.operand_count):
            filed: cython.longlong = 0
            given: cython.longlong = 0
            source: cython.longlong = instruction.sources[k]
            if source >= 0:
                producer: cython.longlong = warp.producers[source]
                if producer in (ALU, FMA):
                    given = warp.readable[source] + self.rules.extra[instruction.unit * UNITS + producer]
                    if producer == ALU:
                        given += instruction.forwarding_penalty
                    filed = max(warp.readable[source] + self.rules.stored, given)
            self.enter_operand(warp, instruction.operands[k], filed, given, instruction.yields)
        first: Stage = self.stages.newest
        first.writes |= instruction.writer
        first.warp, first.instruction = warp, instruction
        self.stages.empty = False

    @cython.cfunc
    def enter_matrix(self, warp: Warp, instruction: Instruction) -> cython.void:
        """Lets a matrix instruction read, but for what it finds kept from the last one. Accesses read nothing in its
        first two cycles, those of C, those of B unless it is kept, and the third if it reads C in the fifth."""
        there: cython.longlong = 0
        k: cython.int
        for k in range(min(instruction.operand_count, 2)):
            cycles: cython.longlong = instruction.a if k == 0 else instruction.b
            operand: cython.longlong = instruction.operands[k]
            registers: cython.longlong = ones(instruction.even & cycles) + ones(instruction.odd & cycles)
            kept: cython.longlong = (warp.place << 16 | operand >> 5) << 3 | registers  # for one that reads as many
            if self.kept[6 + k] == kept:
                there |= cycles
            self.kept[6 + k] = kept if operand & KEPT else -1
        reads: cython.longlong = (instruction.even | instruction.odd) & ~(there & instruction.b)
        closed: cython.longlong = reads | FIRST_TWO | reads >> self.rules.port_cycles & THIRD
        self.matrix.begin(
            instruction.even & ~there, instruction.odd & ~there, instruction.late, instruction.metadata, closed
        )

    @cython.cfunc
    def enter_operand(
        self, warp: Warp, operand: cython.longlong, filed: cython.longlong, given: cython.longlong, hinted: cython.bint
    ) -> cython.void:
        """Adds this operand (`operand_word`) to the first stage; it can be read from the cycle `filed` on,
        and in the last stage from `given`; `hinted`: whether its instruction has the yield hint."""
        first: Stage = self.stages.newest
        bit: cython.longlong = operand & 7
        slot: cython.longlong = bit >> 1
        register: cython.longlong = warp.place << 16 | operand >> 5
        first.filed[slot], first.given[slot] = filed, given
        first.operands |= ONE << bit
        if not operand & AGAIN and self.kept[bit] != register:
            first.unread |= ONE << bit
        self.kept[bit] = register if operand & KEPT else -1
        if hinted and slot < 2 and self.kept[6 + slot] >> 19 != warp.place:
            self.kept[6 + slot] = -1
        self.stages.empty = False

    @cython.cfunc
    def let_go(self, warp: Warp) -> cython.void:
        """Forgets what integer and float instructions of other warps have kept."""
        k: cython.int
        for k in range(6):
            if self.kept[k] >> 16 != warp.place:
                self.kept[k] = -1

    # Cycle by cycle

    @cython.cfunc
    def catch_up(self, now: cython.longlong) -> cython.longlong:
        """Lets the stages go on to the beginning of cycle `now`, up to the first cycle in which they stand still;
        returns the cycle that they have come to, negative if nothing issues in it."""
        port: Port = self.port
        matrix: MatrixReads = self.matrix
        stages: ReadStages = self.stages
        while port.read_cycle < now:
            cycle: cython.longlong = port.read_cycle
            if not self.frozen and ((stages.empty and matrix.first is None) or self.idle()):
                until: cython.longlong = min(now, port.next_read())
                if until > cycle:
                    self.pass_time(until - cycle)
                    port.read_cycle = until
                    continue
            self.frozen = self.give(cycle, port.read_bank(cycle))
            port.read_cycle = cycle + 1
            if self.frozen:
                if self.frozen < 0:
                    port.hold(cycle)
                else:
                    stages.go_ahead(cycle)
                return -port.read_cycle
            if not stages.empty:
                stages.move(cycle, 1)
            matrix.move()
        return port.read_cycle

    @cython.cfunc
    def idle(self) -> cython.bint:
        """Whether nothing asks for a register but matrix instructions that read theirs, and nothing can be late."""
        late: cython.bint = False
        read: MatrixRead = self.matrix.first
        while read is not None:
            if read.metadata:
                return False
            late |= read.late != 0
            read = read.following
        return self.stages.empty or not self.stages.asks(late)

    @cython.cfunc
    def pass_time(self, cycles: cython.longlong) -> cython.void:
        """Lets cycles pass in which nothing reads but matrix instructions."""
        late: cython.longlong = 0  # bit k, if no result is written in the kth cycle from now
        matrix: MatrixReads = self.matrix
        k: cython.longlong
        read: MatrixRead = matrix.first
        stage: Stage = self.stages.oldest
        while read is not None:
            late |= read.late >> min(read.since + 1, 63)
            read = read.following
        if late or not self.stages.empty:
            for k in range(min(cycles, LATEST if late else self.stages.count)):
                writes: cython.longlong = 0
                if late & 1:
                    writes = BOTH
                elif k < self.stages.count:
                    writes = stage.writes
                if writes:
                    self.port.block_writes(self.port.read_cycle + k, writes)
                stage, late = stage.behind, late >> 1
                if not late and self.stages.empty:
                    break
        if not self.stages.empty:
            self.stages.move(self.port.read_cycle, cycles)
        if matrix.first is not None:
            matrix.pass_time(cycles)

    @cython.cfunc
    def give(self, cycle: cython.longlong, accessed: cython.longlong) -> cython.int:
        """Gives registers in this cycle, in which accesses read from the banks `accessed`. Returns whether the stages
        stand still in the next: 0 if not, -1 if they do; 1 if a matrix instruction waits that has not begun to read."""
        matrix: MatrixReads = self.matrix
        taken: cython.longlong = accessed
        held: cython.int = 0
        late: cython.bint = False
        over: cython.bint = False
        read: MatrixRead = matrix.first
        while read is not None:
            if read.since < 0:
                pass
            elif read.metadata:
                held = 1
                if not taken & read.metadata:
                    taken |= read.metadata
                    read.metadata = 0
            elif accessed and not read.since:
                held = 1
            else:
                read.since += 1
                taken |= (read.even >> read.since & 1) | (read.odd >> read.since & 1) << 1
                late |= read.late >> read.since & 1
            if read.is_over():
                over = True
            read = read.following
        last: Stage = self.stages.oldest
        if late:
            self.port.block_writes(cycle, BOTH)
            if last.writes:
                last.hold_up(cycle)
        if not self.stages.empty:
            if not taken & 1 and self.serve(0, cycle):
                taken |= 1
            if not taken & 2 and self.serve(1, cycle):
                taken |= 2
        stands: cython.bint = last.unread != 0 or (late and last.writes != 0)
        if not stands:
            read = matrix.first
            while read is not None:
                if read.since < 0 and not taken & read.metadata:
                    read.metadata = 0
                read = read.following
        if over:
            matrix.retire()
        if stands:
            return -1
        if last.writes:
            self.port.block_writes(cycle, last.writes)
        return held

    @cython.cfunc
    def serve(self, bank: cython.int, cycle: cython.longlong) -> cython.bint:
        """Gives a register of a bank to the oldest instruction in the stages that can take one."""
        older: cython.longlong = 0
        slot: cython.int
        stage: Stage = self.stages.oldest
        last: cython.bint = True
        for _ in range(self.rules.stages):
            able: cython.longlong = stage.unread & ~older & (OF_EVEN << bank)
            if able:
                for slot in range(3):  # from the register file
                    if able >> (2 * slot + bank) & 1 and stage.filed[slot] <= cycle:
                        stage.unread &= ~(ONE << (2 * slot + bank))
                        if last and stage.filed[slot] == cycle:
                            stage.take_others_from_file(bank)
                        return True
                if last:
                    for slot in range(3):  # forwarded
                        if able >> (2 * slot + bank) & 1 and stage.given[slot] <= cycle:
                            stage.unread &= ~(ONE << (2 * slot + bank))
                            if stage.filed[slot] == cycle:
                                stage.take_others_from_file(bank)
                            return True
            older |= stage.operands
            stage, last = stage.behind, False
        return False

    @cython.cfunc
    def state(self, words: Words, now: cython.longlong) -> cython.void:
        """All that decides how the stages go on, at the beginning of a cycle."""
        words.add(self.frozen)
        self.stages.state(words, now)
        k: cython.int
        for k in range(8):
            words.add(self.kept[k])
        self.matrix.state(words)


@cython.cfunc
@cython.inline
def ones(mask: cython.longlong) -> cython.longlong:
    """How many bits are set."""
    count: cython.longlong = 0
    while mask:
        mask &= mask - 1
        count += 1
    return count
