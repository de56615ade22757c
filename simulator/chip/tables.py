"""The tables of a config: the meaning of each number, and its legal values. `simulator.chip.config` reads them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

from isa import MmaForm
from isa.forms.mma import mma_forms
from isa.patterns import PATTERNS
from isa.types import MATRIX_TYPES
from simulator.toml_tables import Between, Choice

POLICIES = ("oldest", "greedy-oldest", "greedy-round-robin", "round-robin", "least-issued")
LONGEST = 100_000  # cycles: more than anything within an SM takes
MOST_LOOP = 1000  # cycles: the end of a loop takes some tens of a chip's, and each is an instruction of its schedule
Cycles = Annotated[int, Between(1, LONGEST, "cycles")]
Delay = Annotated[int, Between(0, LONGEST, "cycles")]
Slots = Annotated[int, Between(1, 4096, "entries")]


@dataclass(frozen=True)
class Chip:
    """`[chip]`: how many SMs, and how fast.

    Attributes:
        sms: SMs of the chip.
        clock_mhz: the clock at which times and TFLOPS are given.
    """

    sms: Annotated[int, Between(1, 1024)]
    clock_mhz: Annotated[float, Between(0, 10_000, "MHz", exclusive=True)]


@dataclass(frozen=True)
class Sm:
    """`[sm]`: an SM, and what CTAs can have of it.

    Attributes:
        sub_cores: sub-cores, each with an issue slot and pipes of its own.
        warps: warp slots.
        registers: of the register file, for all warps together.
        shared_bytes: shared memory that one CTA can have.
        tensor_pipes: tensor pipes of a sub-core; the one that is free first takes the next matrix instruction.
        metadata_cycles: cycles for which a sparse matrix instruction takes the sub-core's path of metadata, which all
            its tensor pipes share; 0: never in the way.
        ctas: CTAs that an SM holds at a time.
    """

    sub_cores: Annotated[int, Between(1, 16)]
    warps: Annotated[int, Between(1, 128)]
    registers: Annotated[int, Between(1, 1_048_576, "32-bit registers")]
    shared_bytes: Annotated[int, Between(1, 4_194_304, "bytes")]
    tensor_pipes: Annotated[int, Between(1, 16)] = 1
    metadata_cycles: Delay = 0
    ctas: Annotated[int, Between(1, 64)] = 32


@dataclass(frozen=True)
class Issue:
    """`[issue]`: the issue slot of a sub-core.

    Attributes:
        policy: which of the ready warps goes first.
        width: instructions in a cycle, each of another warp.
        greedy: policies `greedy-round-robin` and `least-issued`: for how many cycles after its last instruction a warp
            goes first.
        most_counted: policy `least-issued`: up to which number a warp's instructions are counted; when one more would
            be, the counts of all warps of the sub-core are halved.
        counted_behind: the same: so many cycles behind its issue an instruction is in the count.
    """

    policy: Annotated[str, Choice(POLICIES)]
    width: Annotated[int, Between(1, 16, "instructions")] = 1
    greedy: Annotated[int, Between(1, 1000, "cycles")] = 1000
    most_counted: Annotated[int, Between(1, 1_000_000, "instructions")] = 15
    counted_behind: Annotated[int, Between(1, 64, "cycles")] = 5


@dataclass(frozen=True)
class Operands:
    """`[operands]`: how the registers of matrix instructions reach a tensor pipe. Without the table, ports are never
    what `interval` of `[[tensor]]` comes from, and cannot be changed.

    An instruction reads A, B and C, and metadata if it is sparse: so many registers of 32 lanes, some in a cycle, in
    whole steps. Its interval is the longer of this and of `multiply`; what a class's `interval` has beyond that stays.

    Attributes:
        registers: registers of 32 lanes that all read ports together deliver to a tensor pipe in a cycle.
        measured: the same of the chip that the intervals of `[[tensor]]` are of.
        step: cycles of which reading takes a whole number.
        shared: whether all tensor pipes of a sub-core share these ports, or each has as many of its own.
    """

    registers: Annotated[int, Between(1, 64, "registers a cycle")]
    measured: Annotated[int, Between(1, 64, "registers a cycle")]
    step: Cycles
    shared: bool = False

    def cycles(self, words: int, registers: int) -> int:
        """Cycles in which so many registers are read."""
        return -(-words // (registers * self.step)) * self.step


@dataclass(frozen=True)
class Registers:
    """`[registers]`: how instructions read their registers (`simulator.machine.front.collector`).

    Attributes:
        stages: cycles behind issue in which an instruction reads its registers.
        halves: whether the pipe FMA has two halves: floats take one that is free, integer multiplications the first.
        written: cycles from the last register that a load or a shuffle writes until who needs it can issue.
        stored: cycles from an instruction's last stage until the register file has its result.
    """

    stages: Annotated[int, Between(1, 16, "stages")]
    halves: bool = False
    written: Annotated[int, Between(0, 32, "cycles")] = 0
    stored: Delay = 0


@dataclass(frozen=True)
class Loop:
    """`[loop]`: what the end of a `.repeat` body costs a warp.

    Attributes:
        cycles: cycles before the warp issues again, beyond the one of every instruction.
        minimum: cycles of an iteration, at least (counter, compare, branch).
        drain: whether compiled code lets the results of matrix and integer instructions arrive before it branches.
    """

    cycles: Annotated[int, Between(0, MOST_LOOP, "cycles")]
    minimum: Annotated[int, Between(0, MOST_LOOP, "cycles")]
    drain: bool


@dataclass(frozen=True)
class Schedule:
    """`[schedule]`: what ptxas writes into the instructions. Without the table, waits of any length and no counter.

    Attributes:
        stall: the longest wait that one instruction can ask for; a NOP asks for the rest.
        nop: cycles that a NOP takes at least, and no more than `stall`.
        compare: cycles from the addition of a loop's counter, which follows the first instruction, to the comparison;
            0: no such instructions.
        path: cycles that the compiler sees from the addition to the end of the loop. The addition goes before an
            instruction if no more than that depends on it.
        latency: an instruction on which exactly `path` cycles depend goes before the addition if its own latency is
            longer than this.
        compared_path: `path` of the comparison.
        yields: the shortest wait for which the compiler lets the scheduler turn to another warp (the yield hint of an
            instruction), and the longest time without one until an integer instruction has it that waits two cycles;
            0: no such hints.
        integer_yields: the shortest wait with the hint of integer and float instructions, the counter of a loop among
            them. A NOP and a branch always have the hint.
    """

    stall: Cycles
    nop: Cycles
    compare: Delay
    path: Delay = 0
    latency: Delay = 0
    compared_path: Delay = 0
    yields: Delay = 0
    integer_yields: Delay = 0


@dataclass(frozen=True)
class Pipe:
    """`[pipe]`: what matrix instructions and accesses to shared memory cost each other. Without the table, nothing.

    Attributes:
        port_delay: cycles by which a matrix instruction wants the port to shared memory sooner than an access that
            issues in the same cycle.
        gap: registers of a store from which on a matrix instruction that comes between them leaves a gap in the
            wavefronts of the SM, which has turned to this store; 0: none does.
    """

    port_delay: Delay = 0
    gap: Delay = 0


NO_SCHEDULE, NO_PIPE = Schedule(10**9, 1, 0), Pipe()  # of a config without these tables


@dataclass(frozen=True)
class Alu:
    """`[alu]`: the integer pipe of a sub-core.

    Attributes:
        latency: cycles from issue until an integer instruction that needs the result can issue.
        tensor_latency, address_latency: the same for a matrix instruction, and for the address of a load or store.
        change_latency: cycles more where the result comes from the other of the two integer pipes (the one that
            multiplies, and the rest).
        interval: cycles between two issues on one sub-core.
        predicate_latency: cycles from a comparison until an instruction or a branch behind its predicate can issue.
    """

    latency: Cycles
    tensor_latency: Cycles
    address_latency: Cycles
    change_latency: Delay
    interval: Cycles
    predicate_latency: Delay = 0


@dataclass(frozen=True)
class Barrier:
    """`[barrier]`: the barrier unit of an SM.

    Attributes:
        arrival: cycles between two warps whose arrival the unit takes.
        latency: cycles from the last arrival until the warps can issue.
        stall: cycles that ptxas lets a warp wait behind a barrier's issue; what it lets it wait beyond them (for
            results, for the branch of a loop) comes on top when the barrier releases it.
    """

    arrival: Delay
    latency: Cycles
    stall: Cycles = 1


def kind_of(form: MmaForm) -> str:
    """How `TensorClass.kinds` names a form's kind: "", "f8f6f4", "mxf4.block_scale"."""
    return form.row.kind + (".block_scale" if form.row.scale else "")


@lru_cache(maxsize=1)
def known_kinds() -> tuple[str, ...]:
    """Every kind of mma."""
    return tuple(dict.fromkeys(kind_of(form) for form in mma_forms().values()))


Reading = tuple[Annotated[int, Between(0, 40, "cycles behind issue")], ...]
ElementTypes = tuple[Annotated[str, Choice(MATRIX_TYPES, "element types")], ...]


@dataclass(frozen=True)
class TensorClass:
    """`[[tensor]]`: matrix instructions that take the same time.

    Attributes:
        name: reports and keys use it.
        sparse: `mma.sp` or `mma`.
        rows: M of the shape.
        row_bytes: bytes of a row of A as stored: 16 for the smaller K of a type, 32 for the larger.
        inputs: types of A and B.
        accumulators: types of C and D.
        latency: cycles from issue until a dependent instruction can issue.
        interval: cycles between two issues on one sub-core.
        blocking: whether the chip has no such instruction and runs a sequence for it, so that the warp does nothing
            else for `latency` cycles.
        stall: cycles until the warp itself can issue anything else, whatever that is: the stall count that ptxas
            writes.
        ordered: with `::ordered_metadata` or without; None: both.
        kinds: `.kind::` and, behind it, `.block_scale`, both without their dots and "kind::"; "" for forms without a
            kind.
        result_from, result_until: when its result comes out, on a scale of the pipe: a result may not come before the
            last one's end, so that an instruction waits for the last one's `result_until` less its own `result_from`,
            where that is positive.
        even, odd: in which cycles behind issue it reads a register of that bank; an operand of one register is an even
            one. Where that was not measured, it meets no other instruction at its registers.
        a, b: of these, those in which it reads A and B, unless the instruction before has left them.
        late: how many cycles behind issue an instruction that writes a register is late.
        port: cycles for which it takes the port to shared memory, through which some of its registers come; 0: it does
            not.
        multiply: cycles of `interval` for which it needs the multipliers; 0: all of them, whatever `[operands]` says.
        pattern: the sparsity of a hypothetical instruction (`isa.sparsity`), such as "1:4"; "" for those of PTX.
    """

    name: str
    sparse: bool
    rows: Annotated[int, Between(1, 64)]
    row_bytes: Annotated[int, Between(1, 256, "bytes")]
    inputs: ElementTypes
    accumulators: ElementTypes
    latency: Cycles
    interval: Cycles
    blocking: bool = False
    stall: Cycles = 1
    ordered: bool | None = None
    kinds: tuple[Annotated[str, Choice(known_kinds())], ...] = ("",)
    result_from: Delay = 0
    result_until: Delay = 0
    a: Reading = ()
    b: Reading = ()
    even: Reading = ()
    odd: Reading = ()
    late: Reading = ()
    port: Delay = 0
    multiply: Delay = 0
    pattern: Annotated[str, Choice(("", *PATTERNS))] = ""

    @property
    def large(self) -> bool:
        """Whether it has the larger K of its types."""
        return self.row_bytes > 16

    @property
    def words(self) -> int:
        """Registers of 32 lanes that it reads: A as stored, B (N = 8), C of four bytes an element, and metadata."""
        factor = round(1 / PATTERNS[self.pattern].density) if self.pattern else 2 if self.sparse else 1
        return (self.rows * self.row_bytes + 8 * self.row_bytes * factor + 32 * self.rows) // 128 + self.sparse

    def matches(self, form: MmaForm) -> bool:
        """Whether a form belongs to this class."""
        return (
            self.sparse == form.sparse
            and self.pattern == form.hypothetical
            and self.ordered in (None, form.ordered)
            and kind_of(form) in self.kinds
            and self.rows == form.m
            and self.row_bytes == form.k_stored * form.a_type.bits // 8
            and form.a_type.name in self.inputs
            and form.b_type.name in self.inputs
            and form.d_type.name in self.accumulators
        )
