"""What the project knows of an instruction: one `Form` for each legal spelling of an opcode.

The tables of `isa.forms` make these records; decoder, printer, legality, executor, timing, faults and documentation
read them. A caller asks a record for what it needs to know (`form.is_matrix`, `form.collective`, `form.access`,
`form.time`); it never asks which table the record came from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from functools import cached_property, lru_cache

from isa.forms.access import Access as Access  # noqa: PLC0414 - other modules take it from here
from isa.forms.access import Space as Space  # noqa: PLC0414
from isa.fragments.registers import Fragment
from isa.targets import Availability, Target

PTX = "9.0"  # the PTX version that texts are judged by unless told otherwise: that of ptxas 13.0
SPECIAL_REGISTERS = ("%laneid", "%warpid", "%nwarpid", "%tid.x", "%ntid.x")


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
    GLOBAL = 7  # groups of cp.async: an issue slot, and perhaps a wait; the accesses themselves take the port SHARED
    FMA = 8  # the second integer pipe of a sub-core: multiply-add, float additions; in sequences alone
    CONTROL = 9  # calls and returns in sequences


class Time(Enum):
    """How long an instruction takes: the class of instructions that one entry of a config times together.

    Attributes:
        unit, table: the unit of an SM that executes it; the table of a config that holds its times.
        assumed: what is assumed of its time, although no measurement says so; "" for nothing.
    """

    unit: Unit
    table: str
    assumed: str

    def __new__(cls, text: str, unit: Unit, table: str, assumed: str = "") -> Time:
        member = object.__new__(cls)
        member._value_, member.unit, member.table, member.assumed = text, unit, table, assumed
        return member

    TENSOR = "tensor", Unit.TENSOR, "tensor"  # mma: a [[tensor]] class for each sort
    INTEGER = "integer", Unit.ALU, "alu"
    MULTIPLY = "multiply", Unit.ALU, "alu"  # the integer pipe that multiplies
    EITHER = "either", Unit.ALU, "alu"  # additions and moves, which ptxas puts into either integer pipe
    FLOAT = "float", Unit.ALU, "alu", "floating-point arithmetic takes the time of integer arithmetic"
    SHUFFLE = "shuffle", Unit.ALU, "alu", "shuffles take the time of integer arithmetic"
    LOAD = "load", Unit.SHARED, "shared"
    LOAD_MATRIX = "load matrix", Unit.SHARED, "shared"
    STORE = "store", Unit.SHARED, "shared"
    LOAD_GLOBAL = "load global", Unit.SHARED, "memory"
    STORE_GLOBAL = "store global", Unit.SHARED, "memory"
    COPY = "copy", Unit.SHARED, "memory"  # cp.async and its bulk form
    COPY_GROUP = "copy group", Unit.GLOBAL, "memory"  # cp.async.commit_group, wait_group, wait_all
    COPY_ARRIVAL = "copy arrival", Unit.GLOBAL, "memory"  # cp.async.mbarrier.arrive
    BARRIER = "barrier", Unit.BARRIER, "barrier"
    CLUSTER_BARRIER = "cluster barrier", Unit.SYNC, "barrier"
    TCGEN05 = "tcgen05", Unit.TCGEN05, "tcgen05"  # queued in the order of issue
    TCGEN05_FENCE = "tcgen05 fence", Unit.SYNC, "tcgen05"
    TMEM = "tensor memory", Unit.TMEM, "tmem"  # tcgen05.ld, st
    TMEM_SYNC = "tensor memory wait", Unit.SYNC, "tmem"  # tcgen05.wait, alloc, dealloc
    MBARRIER = "mbarrier", Unit.SYNC, "mbarrier"
    FENCE = "fence", Unit.SYNC, "fence"
    WGMMA = "wgmma", Unit.SYNC, "wgmma"  # wgmma.mma_async, for a unit that works behind issue
    WGMMA_SYNC = "wgmma wait", Unit.SYNC, "wgmma"  # wgmma.fence, commit_group, wait_group


class Shape(Enum):
    """The ways in which an operand can be written."""

    VECTOR = "vector"  # {%r0, %r1}
    SCALAR = "scalar"  # %r0 or {%r0}
    REGISTER = "register"  # %r0
    IMMEDIATE = "immediate"  # a constant expression
    VALUE = "value"  # register or constant
    ADDRESS = "address"  # [%r0 + 16]
    TENSOR = "tensor map and coordinates"  # [%rd0, {%r0, %r1}]
    MATRIX = "descriptor or address"  # %rd0, a constant, or [%r0 + 16]
    PREDICATE = "predicate"  # %p0, !%p0 or a constant
    PAIR = "register and predicate"  # %r0|%p0 or _|%p0
    REGISTER_OR_PAIR = "register, perhaps with a predicate"  # %r0 or %r0|%p0


@dataclass(frozen=True)
class Role:
    """One operand of a form.

    Attributes:
        name: operand letter as in PTX.
        shape: how it is written.
        count: registers in it.
        output, optional: whether the instruction writes it; whether it may be left out.
        added: whether an output is what is added to: it is read, too, unless an operand scale_d is 0.
        limit, lax: an immediate is 0 .. limit - 1 (0: any); so many of the last of these are undefined all the same.
        newer: pairs of an immediate, from which on fewer targets have the instruction, and those targets.
        constants: constants that may stand for a register: "integer", "bits" (0f3F800000), "double"
            (0d3FF0000000000000), "float" (1.0, any other), "decimal" (1.0 as f64), "low word" (of the f64 of 1.0).
        special: whether special registers may be read; in an address %laneid, but not %tid.x.
        multiple, positive: a constant must be a multiple of this; whether it must be greater than 0.
        choices: for each element of a vector (for a constant alone: first) the constants that are legal.
        spare, width: further registers of a vector that ptxas takes, and drops; bits of its registers.
        widths: widths that registers are held to; empty: to `width`, and not at all where that is 32.
        type: data type of its registers where `widths` is given, e.g. "f32"; "" for an integer or an address.
        packs: whether a vector of two registers of 32 bits may stand for one of 64.
        sink: whether `_` may ("may") or must ("must") stand here, or for some registers of a vector ("part").
        variables, predicates: whether an address may name a variable; whether a predicate may stand for a value.
        first, dropped, bare: whether ptxas keeps the first register of a vector; drops it; takes no brackets.
        wide_from: number of the target from which on an address takes no register of 16 bits; 0: all do.
        braced: the role of the operand where it is written as a vector; None: the same.
        vector_type: the one type, besides b32, that all registers of a vector may have; "" for any.
    """

    name: str
    shape: Shape
    count: int = 1
    output: bool = False
    optional: bool = False
    added: bool = False
    limit: int = 0
    lax: int = 0
    newer: tuple[tuple[int, Availability], ...] = ()
    constants: tuple[str, ...] = ()
    special: bool = False
    multiple: int = 1
    positive: bool = False
    choices: tuple[tuple[int, ...], ...] = ()
    spare: int = 0
    width: int = 32
    widths: tuple[int, ...] = ()
    type: str = ""
    packs: bool = False
    sink: str = ""
    variables: bool = False
    predicates: bool = False
    first: bool = False
    dropped: bool = False
    bare: bool = False
    wide_from: int = 0
    braced: Role | None = None
    vector_type: str = ""


@dataclass(frozen=True, kw_only=True)
class Form:
    """One instruction form.

    Attributes:
        opcode: the canonical spelling, all qualifiers included, no operands.
        name: the parts of the opcode that come first and keep their order, e.g. "ld" or "tcgen05.ld".
        qualifiers: the others, in canonical order.
        roles: operands in PTX order.
        since_ptx, targets: first PTX version; which targets have it.
        section: PTX section that defines it.
        time: its timing class, which names the unit that executes it, too.
        access: the memory that it accesses and how much of it; None for an instruction between registers.
        fragment: where the elements of a matrix that it loads go among the registers of a warp.
        narrowed: operand -> targets that have the form with it, where they are fewer.
        later: targets that got the form later than others, and since which PTX version.
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
    later: tuple[tuple[Availability, str], ...] = ()

    def __hash__(self) -> int:
        return hash(self.opcode)

    @property
    def unit(self) -> Unit:
        """The unit of an SM that executes it."""
        return self.time.unit

    @property
    def since_target(self) -> int:
        """The lowest sm number that has the form."""
        return self.targets.lowest

    def since_on(self, target: Target | None) -> str:
        """The first PTX version that has it on a target; None: on any."""
        return next((since for limit, since in self.later if target is not None and target in limit), self.since_ptx)

    def supports(self, target: Target) -> bool:
        """Whether the target has the form."""
        return target in self.targets

    def role(self, name: str) -> Role:
        """The role of that name; KeyError if the form has none."""
        for role in self.roles:
            if role.name == name:
                return role
        raise KeyError(name)

    def written(self, operands: Mapping[str, bool]) -> Form:
        """The form with just the given operands (name -> whether it is written in brackets or braces), for instructions
        that some operands change. Raises OperandRefused if the operands do not go together."""
        return self.with_operands(tuple(operands)) if self.asynchronous or self.narrowed or self.gap else self

    @cached_property
    def gap(self) -> bool:
        """Whether an operand may be left out before one that may not, and only their number says so."""
        optional = [role.optional for role in self.roles]
        return optional != sorted(optional) and not self.asynchronous

    def with_operands(self, names: tuple[str, ...]) -> Form:
        """The form with just these operands, on the targets that take them."""
        return _with_operands(self, names)

    def notes(self, target: Target | None = None) -> tuple[str, ...]:
        """What a user of this form should know, on this target or on any."""
        return ()

    def native(self, target: Target) -> bool:
        """Whether the target has the instruction; otherwise ptxas writes a sequence for it."""
        return True

    # What callers ask of any instruction; `MatrixForm` says more

    @property
    def is_matrix(self) -> bool:
        """Whether it multiplies matrices: `mma`, `wgmma.mma_async` or `tcgen05.mma`."""
        return False

    @property
    def is_sparse(self) -> bool:
        """Whether it multiplies a compressed matrix, which metadata describes."""
        return False

    @property
    def fma(self) -> int:
        """The number of multiply-adds that the instruction's name says, pruned products included. It is 0 where the
        operands decide it (tcgen05.mma) and for instructions that multiply no matrices."""
        return 0

    @property
    def performed_fma(self) -> int:
        """The number of multiply-adds that are performed: half of `fma` in a sparse form."""
        return 0

    @cached_property
    def collective(self) -> bool:
        """Whether all threads of a warp execute it together. What names its threads by a mask is not collective."""
        named = self.time is Time.SHUFFLE or any(role.name == "membermask" for role in self.roles)
        return ("sync" in self.qualifiers and not named) or self.time.table == "barrier"

    @property
    def warps(self) -> int:
        """How many consecutive warps execute a collective instruction together: 1, or the 4 of a warpgroup."""
        return 1

    @property
    def asynchronous(self) -> bool:
        """Whether it belongs to `tcgen05`, `mbarrier` or `fence`, which work beside the warp or order such work."""
        return self.time.table in ("tcgen05", "tmem", "mbarrier", "fence")

    @property
    def behind_issue(self) -> bool:
        """Whether something besides the front of an SM executes it, or lets a warp wait for that: what is
        `asynchronous`, and `wgmma`."""
        return self.asynchronous or self.time.table == "wgmma"

    @cached_property
    def dynamic(self) -> bool:
        """Whether its cost, or what it waits for, is known only when it is executed (`simulator.execute.dynamic_info`):
        asynchronous instructions, and those that access global memory."""
        return self.behind_issue or self.time.table == "memory" or self.time is Time.CLUSTER_BARRIER

    @cached_property
    def parts_warps(self) -> bool:
        """Whether some warps may have to wait in this instruction while others go on."""
        waits = "_wait" in self.name  # mbarrier.test_wait, try_wait
        return waits or self.time.table in ("tcgen05", "tmem") or self.time is Time.CLUSTER_BARRIER

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
        """The number of elements that a load or store moves for each lane."""
        return next((int(q[1:]) for q in self.qualifiers if q in ("v2", "v4", "v8")), 1)

    @property
    def cta_group(self) -> int:
        """1 or 2; 0 where the instruction names no group."""
        return next((int(q[-1]) for q in self.qualifiers if q.startswith("cta_group::")), 0)

    @property
    def shape(self) -> str:
        """Shape of tcgen05.ld, st or cp, e.g. "16x256b"; "" for others."""
        return next((q for q in self.qualifiers if q[0].isdigit() and "x" in q), "")

    @property
    def repeats(self) -> int:
        """N of `.xN`: how often tcgen05.ld or st repeats its shape along the columns; 0 for others."""
        return next((int(q[1:]) for q in self.qualifiers if q[0] == "x" and q[1:].isdigit()), 0)

    @property
    def registers(self) -> int:
        """Registers that a load or store moves for each lane; 0 for what accesses no memory."""
        return self.access.bytes // 4 if self.access else 0

    @property
    def packed(self) -> bool:
        """Whether two 16-bit columns share a register: `.pack::16b` or `.unpack::16b`."""
        return "pack::16b" in self.qualifiers or "unpack::16b" in self.qualifiers

    @property
    def multicast(self) -> str:
        """Where tcgen05.cp copies its rows again: "warpx2::02_13", "warpx2::01_23", "warpx4", or ""."""
        return next((q for q in self.qualifiers if q.startswith("warpx")), "")

    @property
    def decompression(self) -> str:
        """What tcgen05.cp makes bytes of: "b6x16_p32", "b4x16_p64", or ""."""
        return next((q for q in self.qualifiers if q in ("b6x16_p32", "b4x16_p64")), "")

    @property
    def space(self) -> str:
        """State space of the address, such as "shared::cta" or "global"; "" for generic or none."""
        return next((q for q in self.qualifiers if q.startswith("shared") or q == "global"), "")

    @property
    def scope(self) -> str:
        """Scope of a memory order, "cta", "cluster", "gpu", "sys", or ""."""
        return next((q for q in self.qualifiers if q in ("cta", "cluster", "gpu", "sys")), "")


@dataclass(frozen=True, kw_only=True)
class MatrixForm(Form):
    """A form that multiplies matrices. `sparse`: whether A is compressed and described by metadata (`.sp`)."""

    sparse: bool

    __hash__ = Form.__hash__

    @property
    def is_matrix(self) -> bool:
        """Always true: the instruction multiplies matrices."""
        return True

    @property
    def is_sparse(self) -> bool:
        """As `sparse`."""
        return self.sparse


@lru_cache(maxsize=4096)
def _with_operands(form: Form, names: tuple[str, ...]) -> Form:
    roles = tuple(replace(role, optional=False) for role in form.roles if role.name in names)
    targets = form.targets
    for name, limit in form.narrowed:
        if name in names:
            targets = targets.both(limit)
    return form if (roles, targets) == (form.roles, form.targets) else replace(form, roles=roles, targets=targets)


def version(text: str) -> tuple[int, ...]:
    """`"8.10"` -> (8, 10), to compare PTX versions."""
    return tuple(int(part) for part in text.split("."))
