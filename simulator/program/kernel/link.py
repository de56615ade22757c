"""`link`: a module and the name of an entry -> `Kernel`."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from isa import decode
from isa.errors import IsaError
from isa.forms.record import PTX
from isa.ptx.checks import is_special
from isa.ptx.instruction import (
    Address,
    Guard,
    Immediate,
    Instruction,
    Operand,
    OwnAddress,
    OwnOffset,
    Register,
    TensorPlace,
)
from isa.ptx.module import Module
from isa.ptx.module.scopes import UNDECLARED
from simulator.program.kernel.allocation import allocated
from simulator.program.kernel.contraction import contracted
from simulator.program.kernel.flatten import Flat, Flattener
from simulator.program.kernel.flow import blocks_of, ranks
from simulator.program.kernel.halves import in_halves
from simulator.program.kernel.items import Branch, Exit, Item, Kernel, Operation, Switch, SystemCall, Trap, Unsupported
from simulator.program.kernel.symbols import Layout, Symbol
from simulator.state.registers import Sort, register_place

_WORD = re.compile(r"(?<![\w$.%@])[A-Za-z_$][\w$@]*")
_SUM = re.compile(r"(?<![\w$.@])(\d+)\s*\+\s*(\d+)")
_SEPARATOR = re.compile(r",(?![^{}\[\]]*[}\]])")
_SHARED = ("shared", "extern")  # spaces of symbols that lie in shared memory
_GUARD = re.compile(r"@(!?)(\S+)")


def link(module: Module, entry: str, *, allocate: bool = True, fmad: bool = True) -> Kernel:
    """Links a kernel: calls become copies of what they call, labels become places and variables addresses.

    Args:
        entry: the whole name of the kernel.
        allocate: whether registers share numbers where their values do not live at the same time. Without, each
            register of the text keeps a number of its own.
        fmad: whether products and sums become fused multiply-adds, as ptxas makes them (`contraction`).

    Raises:
        IsaError: no such entry, one that cannot be read or that calls such a function, labels or names that nothing
            declares, recursion.
    """
    function = module.functions.get(entry)
    if function is not None and function.error is not None:
        raise function.error
    if function is None or not function.entry or not function.statements:
        entries = [name for name, each in module.functions.items() if each.entry]
        raise IsaError(
            entry, -1, f"the module has no kernel '{entry}'", ", ".join(entries) or "a module with an .entry"
        )
    layout = Layout(module)
    flattener = Flattener(module, layout)
    flattener.kernel(function)
    linker = _Linker(module, flattener, layout)
    items = contracted(linker.items(), module.target, linker.ptx) if fmad else linker.items()
    names = {register: (name,) for register, name in flattener.names.items()}
    last = function.parameters[-1] if function.parameters else None
    kernel = Kernel(
        name=entry,
        module=module,
        parameters=function.parameters,
        parameter_bytes=last.offset + last.bytes if last else 0,
        shared_bytes=layout.shared,
        dynamic_offset=layout.dynamic_offset,
        local_bytes=layout.local,
        numbering=flattener.numbering,
        items=tuple(items),
        rank=ranks(items, blocks_of(items)),
        images=layout.finished(flattener.globals),
        names=names,
        fmad=fmad,
        directives=function.directives,
        shared_variables=tuple(sorted(layout.shared_variables)),
    )
    return allocated(kernel, rewrite=allocate)


class _Linker:
    """Turns flat statements into items."""

    def __init__(self, module: Module, flattener: Flattener, layout: Layout) -> None:
        self.module, self.flat, self.layout, self.types = module, flattener.flat, layout, flattener.types
        self.ptx = module.version if _version(module.version) <= _version(PTX) else PTX
        self.places: dict[str, int] = {}
        place = 0
        for flat in self.flat:
            if flat.opcode:
                place += 1
            else:
                self.places[flat.label] = place

    def items(self) -> list[Item]:
        items: list[Item] = []
        for flat in self.flat:
            if flat.opcode:
                items.append(self._item(flat, len(items)))
        line = self.flat[-1].statement.line if self.flat else 0
        items.append(Exit(index=len(items), guard=None, text="ret;", line=line, source=None))
        return items

    def _item(self, flat: Flat, index: int) -> Item:
        guard = _guard(flat.guard)
        if guard is not None:
            _check_guard(guard, flat)
        text = (flat.statement.written or "ret").rstrip(";") + ";"
        place: dict[str, Any] = {"index": index, "guard": guard, "text": text, "line": flat.statement.line,
                 "source": flat.statement.source}  # fmt: skip
        match flat.opcode.split(".", 1)[0]:
            case "bra":
                return Branch(target=self._target(flat.label, flat), **place)
            case "brx":
                labels = flat.tables.get(flat.label)
                if labels is None:
                    raise _wrong(flat, f"'{flat.label}' is no table of labels", "a label of .branchtargets")
                targets = tuple(self._target(label, flat) for label in labels)
                _check_declared(flat.operands, flat)
                return Switch(register=Register(flat.operands), targets=targets, **place)
            case "ret" | "exit":
                return Exit(**place)
            case "trap":
                return Trap(**place)
            case head if head.startswith("system "):
                sizes = (tuple(map(int, each.split(":"))) for each in flat.operands.split())
                arguments = tuple((offset, size) for offset, size in sizes)
                result = int(flat.label) if flat.label else None
                return SystemCall(name=flat.opcode.removeprefix("system "), arguments=arguments, result=result, **place)
            case head if head.startswith("refused "):
                return Unsupported(reason=flat.opcode.removeprefix("refused "), legal=flat.operands, **place)
            case head if head.startswith("call "):
                return Unsupported(reason=f"a {flat.opcode}", **place)
        try:
            instruction = self._decoded(flat)
        except IsaError as error:
            return Unsupported(reason=error.reason, legal=error.legal, **place)
        for name in (*instruction.reads, *instruction.writes):
            _check_declared(name, flat)
        return Operation(instruction=instruction, **place)

    def _target(self, label: str, flat: Flat) -> int:
        if label not in self.places:
            raise _wrong(flat, f"no label '{label.rpartition(':')[2]}'", "a label of the function")
        return self.places[label]

    def _decoded(self, flat: Flat) -> Instruction:
        """The instruction, with addresses in place of the names of variables."""
        operands, used = self._named(flat)
        opcode = _local(flat.opcode, used)
        guard = f"{flat.guard} " if flat.guard else ""
        instruction = decode(f"{guard}{opcode} {operands};", self.module.target, self.ptx, self.types)
        instruction = in_halves(instruction)
        if not used:
            return instruction
        placed = [self._placed(each, flat) for each in instruction.operands]
        texts = [*_SEPARATOR.split(flat.operands), *[""] * len(placed)]
        return replace(instruction, operands=tuple(_own(*each, flat) for each in zip(placed, texts, strict=False)))

    def _named(self, flat: Flat) -> tuple[str, list[Symbol]]:
        """The operands with numbers for the names of variables outside of brackets; and the variables that occur."""
        used: list[Symbol] = []

        def number(match: re.Match[str]) -> str:
            symbol = flat.symbols.get(match[0])
            if symbol is None:
                return match[0]
            used.append(symbol)
            bracketed = flat.operands.count("[", 0, match.start()) > flat.operands.count("]", 0, match.start())
            return match[0].replace("@", "$at$") if bracketed else str(self._address(symbol))

        operands = _WORD.sub(number, flat.operands)
        if used:
            operands = _SUM.sub(lambda match: str(int(match[1]) + int(match[2])), operands)
        return operands, used

    def _address(self, symbol: Symbol) -> int:
        if symbol.space == "extern":
            return self.layout.dynamic_offset
        return symbol.address

    def _placed(self, operand: Operand, flat: Flat) -> Operand:
        if isinstance(operand, Address) and operand.base is not None:
            symbol = flat.symbols.get(operand.base.name.replace("$at$", "@"))
            if symbol is None:
                return operand
            kind = OwnAddress if symbol.space in _SHARED else Address
            return kind(None, self._address(symbol) + operand.offset)
        if isinstance(operand, TensorPlace):
            tensor = self._placed(operand.map, flat)
            assert isinstance(tensor, Address)
            return TensorPlace(tensor, operand.coordinates)
        if isinstance(operand, Register) and operand.name in flat.symbols:
            return Immediate(self._address(flat.symbols[operand.name]))
        return operand


def _own(operand: Operand, text: str, flat: Flat) -> Operand:
    """A number that stands for the address of a variable in shared memory, told from other numbers."""
    if not isinstance(operand, Immediate):
        return operand
    symbols = [flat.symbols[word] for word in _WORD.findall(text) if word in flat.symbols]
    shared = any(symbol.space in _SHARED for symbol in symbols)
    return OwnOffset(operand.value, operand.style) if shared else operand


def _check_declared(name: str, flat: Flat) -> None:
    """Raises IsaError for a name that is neither a register that something declares nor a special one."""
    if register_place(name) is None and not is_special(name):
        raise _wrong(flat, f"nothing declares '{name.removesuffix(UNDECLARED)}'", "a name that is declared")


def _check_guard(guard: Guard, flat: Flat) -> None:
    """Raises IsaError for a guard that is no predicate."""
    name = guard.predicate.name
    _check_declared(name, flat)
    place = register_place(name)
    if place is None or place.sort is not Sort.PREDICATE:
        raise _wrong(flat, f"the guard '{name}' is no predicate", "a register of type .pred")


def _local(opcode: str, used: list[Symbol]) -> str:
    """Accesses to parameters of calls are accesses to local memory."""
    if any(symbol.space == "local" for symbol in used) and ".param" in opcode:
        return re.sub(r"\.param(?:::func|::entry)?", ".local", opcode, count=1)
    return re.sub(r"\.param::entry", ".param", opcode)


def _guard(text: str) -> Guard | None:
    match = _GUARD.fullmatch(text)
    return Guard(Register(match[2]), bool(match[1])) if match else None


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def _wrong(flat: Flat, reason: str, legal: str) -> IsaError:
    return IsaError("", -1, f"line {flat.statement.line}: {reason}", legal, rule="malformed-module")
