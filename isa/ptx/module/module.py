"""What a PTX module holds, as its text says: nothing is decoded or placed yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from isa.errors import IsaError

Image = bytes  # what a variable begins with; the name `bytes` is that of a size here
Source = tuple[str, int]  # file and line that a .loc directive names


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function, or a variable in the parameter space of a call.

    Attributes:
        name: its name.
        type: "u64", "f32", "b8", ...
        bytes: its size; of an array or a structure, all of it.
        alignment: in bytes.
        register: whether it is declared as a register (old conventions of calls).
        offset: in the block of the function's parameters.
    """

    name: str
    type: str
    bytes: int
    alignment: int
    register: bool = False
    offset: int = 0


@dataclass(frozen=True)
class Variable:
    """A variable in memory.

    Attributes:
        name: unique within its function (or the module).
        space: "shared", "global", "const", "local" or "param".
        bytes: its size; 0 for an array whose size the launch decides.
        alignment: in bytes.
        image: the bytes that it begins with; b"" for zeros.
        addresses: offset in the image -> (name of a variable, addend, whether as a generic address) that is put there.
        external: whether it is declared `.extern`.
        line: where it is declared.
    """

    name: str
    space: str
    bytes: int
    alignment: int
    image: Image = b""
    addresses: Mapping[int, tuple[str, int, bool]] = field(default_factory=dict)
    external: bool = False
    line: int = 0


@dataclass(frozen=True, slots=True)
class Statement:
    """An instruction, or a label, of a function.

    Attributes:
        text: of an instruction: as written, with registers renamed to %r, %rd, %p and %rs and a number, and the
            variables and labels of scopes to unique names; of a label: "".
        label: the name of a label; "" for an instruction.
        line: in the module's text, from 1.
        source: the line of the source file that it comes from; None if nothing says so.
        written: of an instruction: as it stands in the module.
    """

    text: str
    label: str
    line: int
    source: Source | None
    written: str = ""


@dataclass(frozen=True)
class Function:
    """A kernel or a device function.

    Attributes:
        name: its (mangled) name.
        entry: whether it is a kernel.
        parameters, results: in order; the offsets are those of the block of parameters.
        statements: its body; empty for a declaration.
        variables: those that it declares, in any scope.
        registers: how many registers of 32, 64, 1 and 16 bits it declares.
        names: by canonical register name, the name in the text.
        types: by canonical register name, the type that it is declared with, such as "f32".
        tables: label tables of `.branchtargets`.
        directives: "maxntid", "reqntid", "maxnreg", ... with their numbers.
        line: where it begins.
        error: why it cannot be read; None if it can. Then it has no statements; the others of its module are whole.
    """

    name: str
    entry: bool
    parameters: tuple[Parameter, ...]
    results: tuple[Parameter, ...]
    statements: tuple[Statement, ...]
    variables: tuple[Variable, ...]
    registers: tuple[int, int, int, int]
    names: Mapping[str, str]
    tables: Mapping[str, tuple[str, ...]]
    directives: Mapping[str, tuple[int, ...]]
    line: int
    error: IsaError | None = None
    types: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Module:
    """A PTX module.

    Attributes:
        version: PTX version, e.g. "9.0".
        target: e.g. "sm_90a".
        functions: by name, in the order of the text.
        variables: those of the module.
    """

    version: str
    target: str
    functions: Mapping[str, Function]
    variables: tuple[Variable, ...]
