"""Places the variables of a module and of its functions: offsets in shared, local and parameter memory, addresses."""

from __future__ import annotations

from dataclasses import dataclass, field

from isa.errors import IsaError
from isa.ptx.module import Module, Variable
from simulator.program.kernel.items import Image
from simulator.state.windows import CODE_BASE, MODULE_BASE

CONSTANT_ALIGNMENT = 256


@dataclass(frozen=True)
class Symbol:
    """A name that stands for an address.

    Attributes:
        space: "shared", "global", "const", "local" or "param"; "code" of a function.
        address: within the space; of global and constant memory the generic address.
    """

    space: str
    address: int


@dataclass
class Layout:
    """Where variables lie; grows as functions are inlined.

    Attributes:
        shared: bytes of static shared memory so far.
        local: bytes of local memory of a thread so far.
        shared_variables: static variables in shared memory: (offset, bytes, name).
        extern: the names of shared arrays whose size the launch decides, and the largest alignment of these.
    """

    module: Module
    shared: int = 0
    local: int = 0
    extern: list[str] = field(default_factory=list)
    extern_alignment: int = 16
    shared_variables: list[tuple[int, int, str]] = field(default_factory=list)
    images: list[Image] = field(default_factory=list)
    _next: int = MODULE_BASE
    _static: dict[tuple[str, str], Symbol] = field(default_factory=dict)
    _pending: list[tuple[Variable, Symbol]] = field(default_factory=list)

    def of_module(self) -> dict[str, Symbol]:
        """The variables of the module."""
        return {variable.name: self.static("", variable) for variable in self.module.variables}

    def functions(self) -> dict[str, Symbol]:
        """The functions of the module that can be called, kernels left out."""
        callable_ones = [name for name, each in self.module.functions.items() if each.statements and not each.entry]
        return {name: Symbol("code", CODE_BASE + 16 * (number + 1)) for number, name in enumerate(callable_ones)}

    def static(self, function: str, variable: Variable) -> Symbol:
        """A variable that exists once, however often its function is called."""
        key = function, variable.name
        if key in self._static:
            return self._static[key]
        if variable.space == "shared":
            if variable.bytes == 0 or variable.external:
                self.extern.append(variable.name)
                self.extern_alignment = max(self.extern_alignment, variable.alignment)
                symbol = Symbol("extern", 0)
            else:
                self.shared = _aligned(self.shared, variable.alignment)
                symbol = Symbol("shared", self.shared)
                self.shared_variables.append((self.shared, variable.bytes, variable.name))
                self.shared += variable.bytes
        else:
            self._next = _aligned(self._next, max(variable.alignment, CONSTANT_ALIGNMENT))
            symbol = Symbol(variable.space, self._next)
            self._next += max(variable.bytes, 1) + CONSTANT_ALIGNMENT
            self._pending.append((variable, symbol))
        self._static[key] = symbol
        return symbol

    def automatic(self, variable: Variable) -> Symbol:
        """A variable of a thread, each time its function is called: local memory. nvcc 13.0 accesses 16 bytes of
        parameters and results of calls at once, whatever alignment they ask for."""
        self.local = _aligned(self.local, 16 if variable.space == "param" else variable.alignment)
        symbol = Symbol("local", self.local)
        self.local += variable.bytes
        return symbol

    def finished(self, symbols: dict[str, Symbol]) -> tuple[Image, ...]:
        """The images of the module's variables, with the addresses that their initialisers name."""
        return tuple(self._image(variable, symbol, symbols) for variable, symbol in self._pending)

    def _image(self, variable: Variable, symbol: Symbol, symbols: dict[str, Symbol]) -> Image:
        data = bytearray(variable.bytes)
        data[: len(variable.image)] = variable.image
        for offset, (name, addend, _) in variable.addresses.items():
            if name not in symbols:
                reason = (
                    f"line {variable.line}: the initialiser of '{variable.name}' names '{name}', which is no variable"
                )
                raise IsaError("", -1, reason, "a variable or a function of the module", rule="malformed-module")
            size = min(8, variable.bytes - offset)
            data[offset : offset + size] = (symbols[name].address + addend).to_bytes(8, "little")[:size]
        return Image(variable.name, symbol.address, bytes(data), variable.space == "const")

    @property
    def dynamic_offset(self) -> int:
        """Where shared arrays begin whose size the launch decides."""
        return _aligned(self.shared, self.extern_alignment) if self.extern else self.shared


def _aligned(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment
