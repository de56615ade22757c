"""What a linked kernel consists of: items in one flat list, in which a place is an index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from isa.ptx.instruction import Guard, Instruction, Register
from isa.ptx.module import Module, Parameter
from simulator.state.registers import Numbering, register_place

__all__ = [
    "Branch", "Exit", "Image", "Item", "Kernel", "Operation", "Parameter", "Switch", "SystemCall", "Trap", "Unsupported"
]  # fmt: skip

Source = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    """What every item has.

    Attributes:
        index: its place.
        guard: the predicate that guards it, if any.
        text: as it stands in the module.
        line: in the module's text, from 1.
        source: (file, line) of the source that it comes from, or None.
    """

    index: int
    guard: Guard | None
    text: str
    line: int
    source: Source | None

    @property
    def opcode(self) -> str:
        """The opcode as it stands in the module."""
        words = self.text.split()
        return words[1 if words[0].startswith("@") and len(words) > 1 else 0].rstrip(";")

    @property
    def where(self) -> str:
        """Where it stands, in words: "line 12 (kernel.cu:7)"."""
        return f"line {self.line}" + (f" ({self.source[0]}:{self.source[1]})" if self.source else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(_Placed):
    """An instruction that computes, accesses memory or synchronises; its guard is the instruction's own."""

    instruction: Instruction

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the registers that it reads, its guard's and address bases included."""
        guard = (self.instruction.guard.predicate.name,) if self.instruction.guard else ()
        return tuple(name for name in (*guard, *self.instruction.reads) if register_place(name) is not None)

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the registers whose values it needs: those that it reads, and those that its result is added to."""
        return (*self.reads, *(name for name in self.instruction.added if register_place(name) is not None))

    @property
    def writes(self) -> tuple[str, ...]:
        """Names of the registers that it writes."""
        return tuple(name for name in self.instruction.writes if register_place(name) is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch(_Placed):
    """bra: the threads that the guard lets through go on at `target`."""

    target: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch(_Placed):
    """brx.idx: threads go on at the target whose number their register says."""

    register: Register
    targets: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit(_Placed):
    """ret of the kernel, or exit: the thread is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trap(_Placed):
    """trap: the kernel stops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemCall(_Placed):
    """A call of a function that the chip's system has: `vprintf`, `__assertfail`.

    Attributes:
        name: the function.
        arguments: where its arguments lie in the thread's local memory: (offset, bytes).
        result: where its result goes; None if it has none.
    """

    name: str
    arguments: tuple[tuple[int, int], ...]
    result: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported(_Placed):
    """What cannot be executed; a kernel that never comes here runs all the same.

    Attributes:
        reason: why not.
        legal: what would be right; "" if that is not known.
    """

    reason: str
    legal: str = ""


Item = Operation | Branch | Switch | Exit | Trap | SystemCall | Unsupported


@dataclass(frozen=True)
class Image:
    """A variable of a module in global or constant memory, and the bytes that it begins with."""

    name: str
    address: int
    data: bytes
    constant: bool


@dataclass(frozen=True)
class Kernel:
    """A kernel with all that it calls.

    Attributes:
        name: of the entry.
        module: where it stands.
        parameters: with their offsets.
        parameter_bytes: size of the block of parameters.
        shared_bytes: static shared memory of a CTA in bytes.
        dynamic_offset: where `.extern .shared` arrays begin.
        local_bytes: local memory of a thread.
        numbering: registers of each sort.
        items: what runs, from place 0 on.
        rank: for each place, the order in which threads that have parted go on: the lowest first.
        images: variables of the module.
        live_words: the largest number of 32-bit registers that hold something at one place.
        names: by register, the names in the text of what it holds.
        directives: what the entry says of its launches and of its tuning: "reqntid", "reqnctapercluster", ... with
            their numbers.
        fmad: whether products and sums have become fused multiply-adds.
        shared_variables: static variables in shared memory, by their offsets: (offset, bytes, name).
    """

    name: str
    module: Module
    parameters: tuple[Parameter, ...]
    parameter_bytes: int
    shared_bytes: int
    dynamic_offset: int
    local_bytes: int
    numbering: Numbering
    items: tuple[Item, ...]
    rank: tuple[int, ...]
    images: tuple[Image, ...]
    live_words: int = 0
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    directives: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    fmad: bool = True
    shared_variables: tuple[tuple[int, int, str], ...] = ()

    @property
    def unsupported(self) -> tuple[Unsupported, ...]:
        """The items that cannot be executed."""
        return tuple(item for item in self.items if isinstance(item, Unsupported))
