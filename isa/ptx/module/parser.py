"""`parse_module`: the text of a PTX module -> `Module`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from isa.errors import IsaError
from isa.ptx.module.declarations import parameters_of, read_declaration, variables_of
from isa.ptx.module.module import Function, Module, Parameter, Source, Statement, Variable
from isa.ptx.module.pieces import Piece, malformed, pieces
from isa.ptx.module.scopes import SORTS, Names, Scope, resolved_label

_GUARD = re.compile(r"@\s*(!?)\s*([\w$%]+)\s*")
_OPCODE = re.compile(r"([A-Za-z_][\w:.]*)\s*(.*)", re.DOTALL)
_HEADER = re.compile(
    r"(?:\.(?:visible|extern|weak|common)\s+)*\.(?P<kind>entry|func)\s*(?P<attributes>(?:\.attribute\s*\([^)]*\)\s*)*)"
    r"(?:\((?P<results>[^()]*)\)\s*)?(?P<name>[A-Za-z_$%][\w$]*)\s*(?:\((?P<parameters>[^()]*)\))?(?P<rest>.*)",
    re.DOTALL,
)
_TUNING = re.compile(r'\s*\.(\w+)((?:\s*(?:0[xX][\da-fA-F]+|\d+)[uU]?\b\s*,?)*|\s*"[^"]*")')
_NUMBER = re.compile(r"0[xX][\da-fA-F]+|\d+")
_TUNINGS = (
    "maxntid", "reqntid", "maxnreg", "minnctapersm", "maxnctapersm", "noreturn", "reqnctapercluster",
    "explicitcluster", "maxclusterrank", "blocksareclusters", "abi_preserve", "abi_preserve_control", "unified",
    "pragma",
)  # fmt: skip
_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)")
_FILE = re.compile(r'\.file\s+(\d+)\s+"((?:\\.|[^"\\])*)"')
_TARGETS = re.compile(r"\.branchtargets\s+(.*)", re.DOTALL)
BRANCHES = ("bra", "brx", "call")
MOST_CHARACTERS = 1 << 26


def parse_module(text: str) -> Module:
    """Reads a PTX module.

    Args:
        text: as nvcc -ptx, Triton or CUTLASS print it.

    Returns:
        The module. What is wrong within a function is that function's `error`, and refuses nothing but it.

    Raises:
        IsaError: text that is no PTX module, or of which nobody knows to which function it belongs: the line, what is
            wrong, and what would be right.
    """
    if len(text) > MOST_CHARACTERS:
        raise malformed(1, f"a module of {len(text)} characters", f"at most {MOST_CHARACTERS}")
    return _Parser(text).module()


class _Parser:
    """Walks over the pieces of a module once."""

    def __init__(self, text: str) -> None:
        self.pieces: Iterator[Piece] = pieces(text)
        self.version = self.target = ""
        self.files: dict[int, str] = {}
        self.functions: dict[str, Function] = {}
        self.variables: list[Variable] = []

    def module(self) -> Module:
        while (piece := next(self.pieces, None)) is not None:  # a function may have put a piece back
            match piece.kind:
                case "directive":
                    self._directive(piece)
                case "function":
                    self._function(piece)
                case "statement":
                    self._declaration(piece)
                case _:
                    raise malformed(piece.line, f"'{piece.text}' outside of a function", "declarations and functions")
        if not self.version:
            raise malformed(1, "a module begins with its version", ".version 9.0")
        if not self.target:
            raise malformed(1, "a module names its target", ".target sm_90a")
        functions = {name: self._with_files(function) for name, function in self.functions.items()}
        return Module(self.version, self.target, functions, tuple(self.variables))

    def _with_files(self, function: Function) -> Function:
        """A function whose statements name their source files, which modules list at their end."""
        statements = tuple(
            replace(each, source=(self.files.get(int(each.source[0]), f"file {each.source[0]}"), each.source[1]))
            if each.source
            else each
            for each in function.statements
        )
        return replace(function, statements=statements)

    def _directive(self, piece: Piece) -> None:
        words = piece.text.replace(",", " ").split()
        match words[0]:
            case ".version":
                if len(words) < 2 or not re.fullmatch(r"\d+\.\d+", words[1]):
                    raise malformed(piece.line, f"'{piece.text}'", ".version 9.0")
                self.version = words[1]
            case ".target":
                if len(words) < 2 or not words[1].startswith("sm_"):
                    raise malformed(piece.line, f"'{piece.text}'", ".target sm_90a")
                self.target = words[1]
            case ".address_size":
                if words[1:] != ["64"]:
                    raise malformed(piece.line, f"'{piece.text}'", ".address_size 64")
            case ".file":
                if match := _FILE.match(piece.text):
                    self.files[int(match[1])] = match[2]

    def _declaration(self, piece: Piece) -> None:
        """A variable of the module, or what may be passed over there."""
        if piece.text.startswith((".pragma", ".alias")):
            return
        declared = read_declaration(piece.text, piece.line)
        if declared is None or declared.space in ("reg", "param", "local"):
            raise malformed(piece.line, f"'{piece.text[:60]}' outside of a function", "declarations and functions")
        self.variables += variables_of(declared)

    # Functions

    def _function(self, piece: Piece) -> None:
        match = _HEADER.fullmatch(piece.text)
        if match is None:
            raise malformed(piece.line, f"'{piece.text[:60]}' is no function", ".visible .entry name(.param .u64 a)")
        name, entry = match["name"], match["kind"] == "entry"
        parameters: tuple[Parameter, ...] = ()
        results: tuple[Parameter, ...] = ()
        directives: dict[str, tuple[int, ...]] = {}
        names, error = Names(), None
        body = _Body(names)
        try:
            parameters = parameters_of(match["parameters"] or "", piece.line)
            results = parameters_of(match["results"] or "", piece.line)
            directives = _tuning(match["rest"], piece.line)
            for parameter in (*parameters, *results):
                body.parameter(parameter, piece.line)
        except IsaError as wrong:
            error = wrong
        following = next(self.pieces, None)
        if following is not None and following.kind == "open":
            error = self._body(body, name, piece.line, error)
        elif following is not None and not (following.kind == "statement" and not following.text):
            # a declaration: the piece behind its ';' belongs to the module
            if name not in self.functions:
                none = (0, 0, 0, 0)
                self.functions[name] = Function(
                    name, entry, parameters, results, (), (), none, {}, {}, directives, piece.line, error
                )
            self._again(following)
            return
        registers = tuple(names.counts[sort] for sort in SORTS)
        assert len(registers) == 4
        self.functions[name] = Function(
            name,
            entry,
            parameters,
            results,
            tuple(body.finished()) if error is None else (),
            tuple(body.variables) if error is None else (),
            registers,
            names.original,
            body.tables,
            directives,
            piece.line,
            error,
            names.types,
        )

    def _again(self, piece: Piece) -> None:
        """Puts a piece back in front of the others."""
        rest = self.pieces

        def chained() -> Iterator[Piece]:
            yield piece
            yield from rest

        self.pieces = chained()

    def _body(self, body: _Body, name: str, line: int, error: IsaError | None) -> IsaError | None:
        """Reads a body to its end. Returns what is wrong in it, or before it: behind that, its end alone is looked
        for."""
        for piece in self.pieces:
            match piece.kind:
                case "open":
                    body.names.open()
                case "close":
                    if body.names.close():
                        return error
                case "label" | "directive" | "statement":
                    try:
                        if error is None:
                            body.take(piece)
                    except IsaError as wrong:
                        error = wrong
                    if not _whole(piece.text):  # where the function ends cannot be known
                        raise error or malformed(piece.line, f"'{piece.text[:60]}'", "';' before '}'")
                case _:
                    raise malformed(piece.line, f"a function within '{name}'", "'}' before the next function")
        raise malformed(line, f"the body of '{name}' does not end", "'}'")


def _whole(text: str) -> bool:
    """Whether a piece has as many braces that close as open, and none of them before its own."""
    depth = 0
    for sign in re.sub(r'"[^"]*"', "", text):
        depth += (sign == "{") - (sign == "}")
        if depth < 0:
            return False
    return depth == 0


def _tuning(text: str, line: int) -> dict[str, tuple[int, ...]]:
    """The directives between the parameters of a function and its body, with their numbers."""
    found, place = {}, 0
    while text[place:].strip():
        match = _TUNING.match(text, place)
        if match is None or match[1] not in _TUNINGS:
            shown = " ".join(text[place:].split())[:40]
            raise malformed(
                line, f"'{shown}' is no directive of a function", ", ".join(f".{each}" for each in _TUNINGS)
            )
        found[match[1]] = tuple(int(number, 0) for number in _NUMBER.findall(match[2]))
        place = match.end()
    return found


class _Body:
    """The statements of a function, as they come."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.statements: list[tuple[Statement, Scope]] = []
        self.variables: list[Variable] = []
        self.tables: dict[str, tuple[str, ...]] = {}
        self._tables: list[tuple[str, list[str], Scope]] = []
        self.source: Source | None = None

    def parameter(self, parameter: Parameter, line: int) -> None:
        """Makes a parameter of the function known: a register, or a name in the parameter space."""
        if parameter.register:
            declared = read_declaration(f".reg .{parameter.type} {parameter.name}", line)
            assert declared is not None
            self.names.declare(declared)
        else:
            self.names.variable(parameter.name)

    def take(self, piece: Piece) -> None:
        """Reads a piece of the body; IsaError for one that cannot be read."""
        match piece.kind:
            case "label":
                self.label(piece)
            case "directive":
                self.directive(piece)
            case _:
                self.statement(piece)

    def label(self, piece: Piece) -> None:
        name = piece.text
        if name in self.names.scope.labels:
            raise malformed(piece.line, f"label '{name}' stands here for the second time", "one name a label")
        self.statements.append((Statement("", self.names.label(name), piece.line, self.source), self.names.scope))

    def directive(self, piece: Piece) -> None:
        """.loc: where the next instructions come from; other directives say nothing about them."""
        if match := _LOC.match(piece.text):
            self.source = (match[1], int(match[2])) if int(match[2]) else None

    def statement(self, piece: Piece) -> None:
        text = piece.text
        if text.startswith("."):
            self._declaration(piece)
            return
        self.names.line = piece.line
        guard, place = "", 0
        if match := _GUARD.match(text):
            guard, place = f"@{match[1]}{self.names.renamed(match[2])} ", match.end()
        match = _OPCODE.fullmatch(text, place)
        if match is None:
            raise malformed(piece.line, f"'{text[:60]}' is no instruction", "an opcode and its operands")
        operands = " ".join(self.names.renamed(match[2]).split())
        whole = f"{guard}{match[1]} {operands}".rstrip()
        self.statements.append(
            (Statement(whole, "", piece.line, self.source, " ".join(text.split())), self.names.scope)
        )

    def _declaration(self, piece: Piece) -> None:
        text = piece.text
        if text.startswith((".pragma", ".callprototype", ".calltargets", ".maxntid", ".attribute")):
            return
        if match := _TARGETS.match(text):
            last = self.statements.pop() if self.statements and self.statements[-1][0].label else None
            if last is None:
                raise malformed(piece.line, ".branchtargets without a label", "label: .branchtargets a, b;")
            self._tables.append((last[0].label, [name.strip() for name in match[1].split(",")], self.names.scope))
            return
        declared = read_declaration(text, piece.line)
        if declared is None:
            raise malformed(
                piece.line, f"directive '{text.split()[0]}' is not known here", ".reg, .shared, .param, ..."
            )
        if declared.space == "reg":
            self.names.declare(declared)
            return
        for variable in variables_of(declared):
            self.variables.append(replace(variable, name=self.names.variable(variable.name)))

    def finished(self) -> Iterator[Statement]:
        """The statements with unique labels."""
        for label, targets, scope in self._tables:
            self.tables[label] = tuple(resolved_label(name, scope) or name for name in targets)
        for statement, scope in self.statements:
            yield _with_labels(statement, scope)


def _with_labels(statement: Statement, scope: Scope) -> Statement:
    """A branch with the unique names of the labels that it names."""
    head = statement.text.partition(" ")
    opcode = head[0] if not head[0].startswith("@") else head[2].partition(" ")[0]
    if opcode.split(".", 1)[0] not in BRANCHES:
        return statement
    before, _, operands = statement.text.partition(opcode)
    words = re.sub(r"[\w$%]+", lambda match: resolved_label(match[0], scope) or match[0], operands)
    return replace(statement, text=f"{before}{opcode}{words}")
