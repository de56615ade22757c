"""What the project knows of an instruction: one `Form` for each legal spelling of an opcode.

The tables of `isa.forms` make these records; decoder, printer, legality, executor, timing, faults and documentation read
them. A caller asks a record for what it needs to know (`form.is_matrix`, `form.collective`, `form.access`,
`form.time`); it never asks which table the record came from.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import cached_property

from isa.fragments.registers import Fragment
from isa.targets import Availability, Target

PTX = "9.0"  # the PTX version that texts are judged by unless told otherwise: that of ptxas 13.0


class Unit(IntEnum):
    """Units of an SM. Each sub-core has a tensor pipe, an integer pipe, a port to shared memory and a path to its lanes
    of Tensor Memory."""

    TENSOR = 0
    ALU = 1
    SHARED = 2
    BARRIER = 3
    TCGEN05 = 4  # the queue of the SM: tcgen05.mma, cp, shift, commit
    TMEM = 5  # tcgen05.ld, st
    SYNC = 6  # mbarriers, waits, fences: an issue slot, and perhaps a wait
    GLOBAL = 7  # groups of cp.async: an issue slot, and perhaps a wait; accesses to global memory go through the port to shared memory
    FMA = 8  # the second integer pipe of a sub-core: multiply-add, float additions; in sequences alone
    CONTROL = 9  # calls and returns in sequences


class Time(Enum):
    """How long an instruction takes: the class of instructions that one entry of a config times together.

    Attributes:
        unit: the unit of an SM that executes it.
        table: the table of a config that holds its times.
    """

    unit: Unit
    table: str

    def __new__(cls, text: str, unit: Unit, table: str) -> Time:
        member = object.__new__(cls)
        member._value_, member.unit, member.table = text, unit, table
        return member

    TENSOR = "tensor", Unit.TENSOR, "tensor"  # mma: a [[tensor]] class for each sort
    INTEGER = "integer", Unit.ALU, "alu"
    MULTIPLY = "multiply", Unit.ALU, "alu"  # the integer pipe that multiplies
    EITHER = "either", Unit.ALU, "alu"  # additions and moves, which ptxas puts into either integer pipe
    LOAD = "load", Unit.SHARED, "shared"
    LOAD_MATRIX = "load matrix", Unit.SHARED, "shared"
    STORE = "store", Unit.SHARED, "shared"
    LOAD_GLOBAL = "load global", Unit.SHARED, "memory"
    STORE_GLOBAL = "store global", Unit.SHARED, "memory"
    COPY = "copy", Unit.SHARED, "memory"  # cp.async and its bulk form
    COPY_GROUP = "copy group", Unit.GLOBAL, "memory"  # cp.async.commit_group, wait_group, wait_all
    BARRIER = "barrier", Unit.BARRIER, "barrier"
    CLUSTER_BARRIER = "cluster barrier", Unit.SYNC, "barrier"
    TCGEN05 = "tcgen05", Unit.TCGEN05, "tcgen05"  # queued in the order of issue
    TCGEN05_FENCE = "tcgen05 fence", Unit.SYNC, "tcgen05"
    TMEM = "tensor memory", Unit.TMEM, "tmem"  # tcgen05.ld, st
    TMEM_SYNC = "tensor memory wait", Unit.SYNC, "tmem"  # tcgen05.wait, alloc, dealloc
    MBARRIER = "mbarrier", Unit.SYNC, "mbarrier"
    FENCE = "fence", Unit.SYNC, "fence"


class Space(Enum):
    """Memories that an instruction accesses."""

    SHARED = "shared"
    GLOBAL = "global"
    TENSOR = "tensor memory"


@dataclass(frozen=True)
class Access:
    """What an instruction does to memory.

    Attributes:
        space: which memory; of a copy to shared memory the one that it reads.
        bytes: bytes that each lane gets or gives; 0 where an operand says it.
        write: whether it writes there.
        row_bytes: bytes that lie at each address; as many as `bytes` but for ldmatrix, which reads rows of 16.
        addresses: how many lanes give an address.
    """

    space: Space
    bytes: int
    write: bool = False
    row_bytes: int = 0
    addresses: int = 32


class Shape(Enum):
    """How an operand is written."""

    VECTOR = "vector"  # {%r0, %r1}
    SCALAR = "scalar"  # %r0 or {%r0}
    REGISTER = "register"  # %r0
    IMMEDIATE = "immediate"  # a constant expression
    VALUE = "value"  # register or constant
    ADDRESS = "address"  # [%r0 + 16]
    MATRIX = "descriptor or address"  # %rd0, a constant, or [%r0 + 16]
    PREDICATE = "predicate"  # %p0, !%p0 or a constant
    PAIR = "register and predicate"  # %r0|%p0


@dataclass(frozen=True)
class Role:
    """One operand of a form.

    Attributes:
        name: operand letter as in PTX.
        shape: how it is written.
        count: registers in it.
        output: whether the instruction writes it.
        optional: whether it may be left out.
        limit: values of an immediate that are taken: 0 .. limit - 1 (0: any).
        lax: how many of the last of them are undefined all the same.
        constants: constants that may stand for a register: "integer", "bits" (0f3F800000), "double"
            (0d3FF0000000000000), "float" (1.0).
        special: whether special registers may be read.
        multiple: a constant must be a multiple of this.
        spare: further registers of a vector that ptxas takes, and drops.
        choices: for each element of a vector (for a constant alone: first) the constants that are legal.
        width: bits of its registers.
        packs: whether a vector of two registers of 32 bits may stand for one of 64.
    """

    name: str
    shape: Shape
    count: int = 1
    output: bool = False
    optional: bool = False
    limit: int = 0
    lax: int = 0
    constants: tuple[str, ...] = ()
    special: bool = False
    multiple: int = 1
    choices: tuple[tuple[int, ...], ...] = ()
    spare: int = 0
    width: int = 32
    packs: bool = False


@dataclass(frozen=True, kw_only=True)
class Form:
    """One instruction form.

    Attributes:
        opcode: the canonical spelling, all qualifiers included, no operands.
        name: the parts of the opcode that come first and keep their order, e.g. "ld" or "tcgen05.ld".
        qualifiers: the others, in canonical order.
        roles: operands in PTX order.
        since_ptx: first PTX version.
        targets: which targets have it.
        section: PTX section that defines it.
        time: its timing class, which also names the unit that executes it.
        access: the memory that it accesses and how much of it; None for an instruction between registers.
        fragment: where the elements of a matrix that it loads go among the registers of a warp (ldmatrix).
        narrowed: operand -> targets that have the form with it, where they are fewer.
    """

    opcode: str
    name: str
    qualifiers: tuple[str, ...]
    roles: tuple[Role, ...]
    since_ptx: str
    targets: Availability
    section: str
    time: Time
    access: Access | None = None
    fragment: Fragment | None = None
    narrowed: tuple[tuple[str, Availability], ...] = ()

    def __hash__(self) -> int:
        return hash(self.opcode)

    @property
    def unit(self) -> Unit:
        """The unit of an SM that executes it."""
        return self.time.unit

    @property
    def since_target(self) -> int:
        """The lowest sm number that has it."""
        return self.targets.lowest

    def supports(self, target: Target) -> bool:
        return target in self.targets

    def role(self, name: str) -> Role:
        """The role of that name; KeyError if the form has none."""
        for role in self.roles:
            if role.name == name:
                return role
        raise KeyError(name)

    def notes(self, target: Target | None = None) -> tuple[str, ...]:
        """What a user of this form should know, on this target or on any."""
        return ()

    def native(self, target: Target) -> bool:
        """Whether the target has the instruction; otherwise ptxas writes a sequence for it."""
        return True

    # What callers ask of any instruction; the matrix forms say more

    @property
    def is_matrix(self) -> bool:
        """Whether it multiplies matrices: `mma` (unit TENSOR) or `tcgen05.mma` (unit TCGEN05)."""
        return False

    @property
    def is_sparse(self) -> bool:
        """Whether it multiplies a compressed matrix, which metadata describes."""
        return False

    @property
    def fma(self) -> int:
        """Multiply-adds of the instruction as named, pruned products included; 0 where the operands say it
        (tcgen05.mma) and for what multiplies no matrices."""
        return 0

    @property
    def performed_fma(self) -> int:
        """Multiply-adds that are performed: half of `fma` in a sparse form."""
        return 0

    @cached_property
    def collective(self) -> bool:
        """Whether all threads of a warp execute it together or not at all."""
        return "sync" in self.qualifiers or self.time.table == "barrier"

    @property
    def asynchronous(self) -> bool:
        """Whether it belongs to `tcgen05`, `mbarrier` or `fence`: works beside the warp, or orders such work."""
        return self.time.table in ("tcgen05", "tmem", "mbarrier", "fence")

    @cached_property
    def dynamic(self) -> bool:
        """Whether each execution says what it costs or waits for (`simulator.execute.dynamic_info`): asynchronous
        instructions, and those that access global memory."""
        return self.asynchronous or self.time.table == "memory" or self.time is Time.CLUSTER_BARRIER

    @cached_property
    def parts_warps(self) -> bool:
        """Whether some warps may wait in it for what others need not wait for."""
        return (
            self.time.table in ("tcgen05", "tmem") or self.time is Time.CLUSTER_BARRIER or "_wait" in self.name
        )  # the last: mbarrier.test_wait, try_wait

    # What the qualifiers say

    @property
    def type_name(self) -> str:
        """The data type, always the last qualifier; copies have none."""
        return self.qualifiers[-1]

    @property
    def signed(self) -> bool:
        """Whether the data type is a signed integer."""
        return self.qualifiers[-1].startswith("s")

    @property
    def width(self) -> int:
        """Bits of one element of the data type."""
        return int(self.type_name[1:])

    @property
    def elements(self) -> int:
        """Elements that a load or store moves for each lane."""
        return next((int(q[1:]) for q in self.qualifiers if q in ("v2", "v4")), 1)

    @property
    def cta_group(self) -> int:
        """1 or 2; 0 where the instruction names no group."""
        return next((int(q[-1]) for q in self.qualifiers if q.startswith("cta_group::")), 0)

    @property
    def space(self) -> str:
        """State space of the address, "shared", "shared::cta", "shared::cluster", "global", or "" (generic or none)."""
        return next((q for q in self.qualifiers if q.startswith("shared") or q == "global"), "")

    @property
    def scope(self) -> str:
        """Scope of a memory order, "cta", "cluster", "gpu", "sys", or ""."""
        return next((q for q in self.qualifiers if q in ("cta", "cluster", "gpu", "sys")), "")


def version(text: str) -> tuple[int, ...]:
    """`"8.10"` -> (8, 10), to compare PTX versions."""
    return tuple(int(part) for part in text.split("."))
