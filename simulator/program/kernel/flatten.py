"""Writes a kernel and the functions that it calls as one list of statements: every call becomes a copy of what is
called, with registers, labels and local memory of its own."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cached_property

from isa.errors import IsaError
from isa.ptx.module import Function, Module, Parameter, Statement
from simulator.program.kernel.symbols import Layout, Symbol
from simulator.program.kernel.wmma import written
from simulator.state.registers import Numbering

_REGISTER = re.compile(r"%(rd|rs|rq|r|p)(\d+)\b")
_CALL = re.compile(
    r"(?:\((?P<results>[^()]*)\)\s*,\s*)?(?P<name>[\w$%]+)\s*(?:,\s*\((?P<arguments>[^()]*)\))?\s*(?:,\s*(?P<prototype>[\w$@]+))?"
)
_NAME = re.compile(r"[A-Za-z_$][\w$]*")
_GUARD = re.compile(r"@(!?)(\S+)\s+")
SORTS = ("r", "rd", "p", "rs")
_NUMBERED_WITH = {"rq": "rd"}  # a register of 128 bits is two of 64
_SORT_OF_BYTES = {8: 1, 4: 0, 2: 3, 1: 3, 0: 2}
MOST_STATEMENTS = 1 << 20
SYSTEM = ("vprintf", "__assertfail")  # functions that modules call and do not have


@dataclass(frozen=True)
class Flat:
    """A statement in its place.

    Attributes:
        guard: "" or "@%p0" or "@!%p0".
        opcode, operands: of an instruction; of a label both are empty.
        label: the unique name of a label, or of the label that a branch goes to.
        statement: what it comes from.
        symbols: the names that its operands may use.
    """

    guard: str
    opcode: str
    operands: str
    label: str
    statement: Statement
    symbols: dict[str, Symbol]
    tables: dict[str, tuple[str, ...]]


class Flattener:
    """Collects the statements of a kernel.

    Attributes:
        flat: what has been collected.
        counts: registers used so far, in the order of `Numbering`.
        names: canonical register -> the name in the text.
        types: canonical register -> the type that it is declared with.
    """

    def __init__(self, module: Module, layout: Layout) -> None:
        self.module, self.layout = module, layout
        self.flat: list[Flat] = []
        self.counts = [0, 0, 0, 0]
        self.names: dict[str, str] = {}
        self.types: dict[str, str] = {}
        self.globals = layout.functions() | layout.of_module()
        self._calls = 0

    def kernel(self, function: Function) -> None:
        """The kernel itself."""
        parameters = {each.name: Symbol("param", each.offset) for each in function.parameters}
        self._inline(function, parameters, (), "")

    @property
    def numbering(self) -> Numbering:
        """The registers of the whole."""
        return Numbering(*self.counts)

    def _inline(self, function: Function, parameters: dict[str, Symbol], path: tuple[str, ...], prefix: str) -> None:
        base = tuple(self.counts)
        for sort, count in enumerate(function.registers):
            self.counts[sort] += count
        for canonical, original in function.names.items():
            self.names[_shifted(canonical, base)] = original
        self.types |= {_shifted(canonical, base): kind for canonical, kind in function.types.items()}
        symbols = dict(self.globals)
        for variable in function.variables:
            kept = variable.space in ("shared", "global", "const")
            place = self.layout.static(function.name, variable) if kept else self.layout.automatic(variable)
            symbols[variable.name] = place
        symbols.update(parameters)
        tables = {f"{prefix}{name}": tuple(f"{prefix}{each}" for each in to) for name, to in function.tables.items()}
        for statement in function.statements:
            if statement.label:
                self._add(Flat("", "", "", prefix + statement.label, statement, symbols, tables))
                continue
            guard, opcode, operands = _parts(_shifted(statement.text, base))
            head = opcode.split(".", 1)[0]
            if head == "call":
                self._call(Flat(guard, opcode, operands, "", statement, symbols, tables), function, path, prefix)
            elif head == "wmma":
                self._matrices(Flat(guard, opcode, operands, "", statement, symbols, tables))
            elif head == "bra":
                self._add(Flat(guard, opcode, "", prefix + operands, statement, symbols, tables))
            elif head == "brx":
                register, _, table = operands.partition(",")
                self._add(Flat(guard, opcode, register.strip(), prefix + table.strip(), statement, symbols, tables))
            elif head == "ret" and prefix:
                self._add(Flat(guard, "bra", "", prefix + "end of the call", statement, symbols, tables))
            else:
                self._add(Flat(guard, opcode, operands, "", statement, symbols, tables))

    def _matrices(self, flat: Flat) -> None:
        """A `wmma`: the instructions that it stands for; as it is, if they are not known."""
        try:
            lines = list(written(flat.opcode, flat.operands, self._fresh))
        except IsaError as error:
            self._add(replace(flat, opcode=f"refused {error.reason}", operands=error.legal))
            return
        for opcode, operands in lines:
            self._add(replace(flat, opcode=opcode, operands=operands))

    def _fresh(self, sort: str) -> str:
        """A register that nothing else uses."""
        number = SORTS.index(sort)
        name = f"%{sort}{self.counts[number]}"
        self.counts[number] += 1
        self.names[name] = "a register of wmma or of a call"
        return name

    def _add(self, flat: Flat) -> None:
        self.flat.append(flat)
        if len(self.flat) > MOST_STATEMENTS:
            raise _wrong(flat.statement, f"a kernel of more than {MOST_STATEMENTS} statements", "fewer calls")

    def _call(self, call: Flat, caller: Function, path: tuple[str, ...], prefix: str) -> None:
        """A call: of a function of the module, of one of the system, or through a register."""
        match = _CALL.fullmatch(call.operands.strip())
        callee = self.module.functions.get(match["name"]) if match else None
        if match is not None and match["name"].startswith("%"):
            self._indirect(call, match, caller, path, prefix)
        elif callee is not None and callee.error is not None:
            raise callee.error
        elif match is not None and callee is not None and callee.statements:
            self._direct(call, match, callee, caller, path, prefix)
        elif match is not None and callee is not None and callee.name in SYSTEM:
            self._system(call, match, callee)
        else:
            name = match["name"] if match else call.operands
            self._add(replace(call, opcode=f"call of '{name}', whose body the module does not have"))

    def _system(self, call: Flat, match: re.Match[str], callee: Function) -> None:
        """A call of the system: where its arguments and its result lie, as numbers in the operands."""
        given = zip(_names(match["arguments"]), callee.parameters, strict=False)
        results = [call.symbols[name].address for name in _names(match["results"])]
        places = [f"{call.symbols[name].address}:{formal.bytes}" for name, formal in given]
        self._add(
            replace(call, opcode=f"system {callee.name}", operands=" ".join(places), label="".join(map(str, results)))
        )

    def _indirect(self, call: Flat, match: re.Match[str], caller: Function, path: tuple[str, ...], prefix: str) -> None:
        """A call through a register: a copy of every function whose address is taken and that takes as many arguments,
        behind a comparison of the register with that address."""
        self._calls += 1
        place = f"{prefix}pointer#{self._calls}:"
        if call.guard:
            self._add(replace(call, guard=_opposite(call.guard), opcode="bra", operands="", label=f"{place}end"))
        plain = replace(call, guard="")
        shape = len(_names(match["arguments"])), len(_names(match["results"]))
        for name in self._taken:
            callee = self.module.functions[name]
            if (len(callee.parameters), len(callee.results)) != shape:
                continue
            predicate, other = self._fresh("p"), f"{place}not {name}"
            compared = f"{predicate}, {match['name']}, {self.globals[name].address}"
            self._add(replace(plain, opcode="setp.ne.u64", operands=compared))
            self._add(replace(plain, guard=f"@{predicate}", opcode="bra", operands="", label=other))
            if name in (*path, caller.name):
                self._add(replace(plain, opcode=f"call through a register of '{name}', which calls itself"))
            else:
                self._direct(plain, match, callee, caller, path, prefix)
            self._add(replace(plain, opcode="bra", operands="", label=f"{place}end"))
            self._add(replace(plain, opcode="", operands="", label=other))
        self._add(replace(plain, opcode="call through a register that holds no address of a function like this"))
        self._add(replace(plain, opcode="", operands="", label=f"{place}end"))

    @cached_property
    def _taken(self) -> list[str]:
        """The functions whose addresses are taken: by initialisers of variables, or by instructions."""
        functions = self.module.functions.values()
        variables = [*self.module.variables, *(each for function in functions for each in function.variables)]
        named = {name for variable in variables for name, *_ in variable.addresses.values()}
        for function in functions:
            for statement in function.statements:
                if statement.text.startswith("mov.") or " mov." in statement.text:
                    named.update(_NAME.findall(statement.text))
        return [name for name, symbol in self.globals.items() if symbol.space == "code" and name in named]

    def _direct(
        self, call: Flat, match: re.Match[str], callee: Function, caller: Function, path: tuple[str, ...], prefix: str
    ) -> None:
        """A call of a function of the module: its statements, its parameters being the caller's variables."""
        if callee.name in (*path, caller.name):
            legal = "functions that do not call themselves, not even through others"
            raise _wrong(call.statement, f"recursion: '{callee.name}' calls itself", legal, "recursion")
        self._calls += 1
        inner = f"{prefix}{callee.name}#{self._calls}:"
        after, skipped = inner + "end of the call", inner + "behind the call"
        if call.guard:
            self._add(Flat(_opposite(call.guard), "bra", "", skipped, call.statement, call.symbols, call.tables))
        parameters, base = {}, tuple(self.counts)
        for formal, given in (
            *zip(callee.parameters, _names(match["arguments"]), strict=False),
            *zip(callee.results, _names(match["results"]), strict=False),
        ):
            if formal.register:
                continue
            if given not in call.symbols:
                raise _wrong(call.statement, f"'{given}' is no variable of the parameter space", "a .param variable")
            parameters[formal.name] = call.symbols[given]
        registers = _registers_of_parameters(callee, base)
        self._moves(call, callee.parameters, _names(match["arguments"]), registers, into=True)
        self._inline(callee, parameters, (*path, caller.name), inner)
        self._add(Flat("", "", "", after, call.statement, call.symbols, call.tables))
        self._moves(call, callee.results, _names(match["results"]), registers, into=False)
        if call.guard:
            self._add(Flat("", "", "", skipped, call.statement, call.symbols, call.tables))

    def _moves(
        self, call: Flat, formals: tuple[Parameter, ...], given: list[str], registers: dict[str, str], *, into: bool
    ) -> None:
        """Copies between the registers of caller and callee, where parameters are registers (old conventions)."""
        for formal, value in zip(formals, given, strict=False):
            if not formal.register:
                continue
            own = registers[formal.name]
            kind = "pred" if own.startswith("%p") else f"b{8 * max(formal.bytes, 2)}"
            operands = f"{own}, {value}" if into else f"{value}, {own}"
            self._add(Flat("", f"mov.{kind}", operands, "", call.statement, call.symbols, call.tables))


def _opposite(guard: str) -> str:
    return guard.replace("!", "") if "!" in guard else guard.replace("@", "@!")


def _registers_of_parameters(function: Function, base: tuple[int, ...]) -> dict[str, str]:
    """The registers of a function's register parameters and results: its first ones, in the order of declaration."""
    counts = list(base)
    registers = {}
    for formal in (*function.parameters, *function.results):
        if formal.register:
            sort = _SORT_OF_BYTES[formal.bytes]
            registers[formal.name] = f"%{SORTS[sort]}{counts[sort]}"
            counts[sort] += 1
    return registers


def _names(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


def _shifted(text: str, base: tuple[int, ...]) -> str:
    """The text with the numbers of its registers raised by those that are in use."""
    if not any(base):
        return text
    return _REGISTER.sub(
        lambda match: f"%{match[1]}{int(match[2]) + base[SORTS.index(_NUMBERED_WITH.get(match[1], match[1]))]}", text
    )


def _parts(text: str) -> tuple[str, str, str]:
    """Guard, opcode and operands of an instruction."""
    guard = ""
    if match := _GUARD.match(text):
        guard, text = f"@{match[1]}{match[2]}", text[match.end() :]
    opcode, _, operands = text.partition(" ")
    return guard, opcode, operands


def _wrong(statement: Statement, reason: str, legal: str, rule: str = "malformed-module") -> IsaError:
    return IsaError("", -1, f"line {statement.line}: {reason}", legal, rule=rule)
