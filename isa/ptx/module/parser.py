"""`parse_module`: the text of a PTX module -> `Module`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

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
_TUNING = re.compile(r"\.(\w+)((?:\s*\d+\s*,?)*)")
_TUNINGS = (
    "maxntid", "reqntid", "maxnreg", "minnctapersm", "maxnctapersm", "noreturn", "reqnctapercluster",
    "explicitcluster", "maxclusterrank", "blocksareclusters", "abi_preserve", "abi_preserve_control", "unified",
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

    Raises:
        IsaError: text that is no PTX module: the line, what is wrong, and what would be right.
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
        name = match["name"]
        parameters = parameters_of(match["parameters"] or "", piece.line)
        results = parameters_of(match["results"] or "", piece.line)
        directives = {
            key: tuple(int(n) for n in re.findall(r"\d+", numbers))
            for key, numbers in _TUNING.findall(match["rest"])
            if key in _TUNINGS
        }
        following = next(self.pieces, None)
        names = Names()
        body = _Body(names)
        for parameter in (*parameters, *results):
            body.parameter(parameter, piece.line)
        if following is not None and following.kind == "open":
            self._body(body, name, piece.line)
        elif following is not None and not (following.kind == "statement" and not following.text):
            # a declaration: the piece behind its ';' belongs to the module
            self._declared(name, match["kind"] == "entry", parameters, results, directives, piece.line)
            self._again(following)
            return
        registers = tuple(names.counts[sort] for sort in SORTS)
        assert len(registers) == 4
        self.functions[name] = Function(
            name,
            match["kind"] == "entry",
            parameters,
            results,
            tuple(body.finished()),
            tuple(body.variables),
            registers,
            names.original,
            body.tables,
            directives,
            piece.line,
        )

    def _declared(
        self,
        name: str,
        entry: bool,
        parameters: tuple[Parameter, ...],
        results: tuple[Parameter, ...],
        directives: dict[str, tuple[int, ...]],
        line: int,
    ) -> None:
        if name not in self.functions:
            none = (0, 0, 0, 0)
            self.functions[name] = Function(name, entry, parameters, results, (), (), none, {}, {}, directives, line)

    def _again(self, piece: Piece) -> None:
        """Puts a piece back in front of the others."""
        rest = self.pieces

        def chained() -> Iterator[Piece]:
            yield piece
            yield from rest

        self.pieces = chained()

    def _body(self, body: _Body, name: str, line: int) -> None:
        for piece in self.pieces:
            match piece.kind:
                case "open":
                    body.names.open()
                case "close":
                    if body.names.close():
                        return
                case "label":
                    body.label(piece)
                case "directive":
                    body.directive(piece)
                case "statement":
                    body.statement(piece)
                case _:
                    raise malformed(piece.line, f"a function within '{name}'", "'}' before the next function")
        raise malformed(line, f"the body of '{name}' does not end", "'}'")


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
