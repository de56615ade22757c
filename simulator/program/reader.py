"""Reads a trace, from a file or a text, into a `Program`; every error names file, line and column.

The format, version 1, is described in docs/traces.md. Instructions are PTX, decoded by `isa.decode`; equal texts are
decoded once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from isa import IsaError, parse_target
from isa.tensor_memory.address import COLUMNS
from simulator.errors import TraceError
from simulator.program.blocks import Block, Node, Repeat, Step
from simulator.program.instructions import MAX_REGISTERS, InstructionReader
from simulator.program.program import TEXT, Load, Program, Store
from simulator.program.shipped import find_trace
from simulator.program.statements import BLOCKS, HEADER, Statement, directive, lines_of, lines_of_file, statements
from simulator.state.registers import Sort

VERSION = 1
MAX_WARPS = 32  # 1,024 threads of a CTA, likewise
MAX_SHARED = 232448  # 227 KB, the most that a CTA of any target has (sm_90, sm_100), likewise
MAX_GLOBAL = 1 << 30  # bytes; a limit of tcsim
MAX_CTAS = 2  # a CTA pair; PTX ISA 9.0, 9.7.16.5
MAX_REPEAT = 10**12
MOST_NAME = 200
_PATH = re.compile(r"^[/\\]|(^|[/\\])\.\.([/\\]|$)|^\w:[/\\]")  # what leaves the folder that an archive is unpacked in
MAX_DEPTH = 64

_QUOTED = r'"[^"\n]+"'
_PLACE = (
    r"(?:cta(?P<cta>\w+)\.)?(?:%(?P<sort>rd|rs|r|p)(?P<register>\d+)"
    r"|(?P<memory>shared|tmem|global)\s*\[\s*(?P<offset>\w+)\s*\])"
)
_LOAD = re.compile(rf"\.load\s+{_PLACE}\s*,\s*(?P<file>{_QUOTED})\s*,\s*(?P<key>{_QUOTED})\s*;?$")
_STORE = re.compile(rf"\.store\s+(?P<name>{_QUOTED})\s*,\s*{_PLACE}\s*,\s*(?P<count>\w+)\s*;?$")
_CTAS = re.compile(r"\.cta\s+([\d\s,-]+?)\s*\{$")
_WARPS = re.compile(r"\.warp\s+([\d\s,-]+?)\s*\{$")
_REPEAT = re.compile(r"\.repeat\s+(\w+)\s*\{$")
_DIRECTIVES = (*HEADER, ".load", *BLOCKS, ".store")


def load(source: str | Path | Program) -> Program:
    """The program that a tool was given.

    Args:
        source: path of a trace file, plain or gzip; the name of a trace that comes with tcsim, e.g. "digits/f16"; the
            text of a trace, which is a `str` with a line break in it, or one that begins with ".trace"; or a program,
            which is returned as it is. Errors of a text name "<text>" as its path, and its data files are looked for
            in the working directory.

    Raises:
        TraceError: unreadable, malformed or illegal; says where and what would be right.
    """
    if isinstance(source, Program):
        return source
    if isinstance(source, str) and ("\n" in source or source.lstrip().startswith(".trace ")):
        return _read(TEXT, str(TEXT), lines_of(source))
    path = find_trace(source)
    if path.suffix == ".json":
        raise TraceError(str(path), 1, 1, "this is a captured launch, not a trace", "tcsim launch, check or stalls")
    return _read(path, str(source), lines_of_file(path))


def _read(path: Path, name: str, lines: Iterator[tuple[int, str]]) -> Program:
    builder = _Builder(path, name)
    for statement in statements(path, lines):
        builder.add(statement)
    return builder.finish()


@dataclass
class _Open:
    """A block that has not been closed."""

    statement: Statement
    ctas: tuple[int, ...] = ()
    warps: tuple[int, ...] = ()
    count: int = 0
    body: list[Node] = field(default_factory=list)


class _Where(NamedTuple):
    """A place that .load or .store names: exactly one of the first four is set."""

    register: int | None = None
    shared: int | None = None
    tmem: int | None = None
    memory: int | None = None
    sort: Sort = Sort.WORD
    cta: int | None = None


class _Builder(InstructionReader):
    """Turns statements into a program."""

    def __init__(self, path: Path, name: str) -> None:
        super().__init__(path)
        self.name = name
        self.header: dict[str, str] = {}
        self.warps = 0
        self.shared = 0
        self.memory = 0
        self.loads: list[Load] = []
        self.stores: dict[str, Store] = {}  # by name
        self.blocks: list[Block] = []
        self.open: list[_Open] = []
        self.owners: dict[tuple[int, int], int] = {}
        self.named: dict[int, Statement] = {}  # CTAs that .load and .store name

    def add(self, statement: Statement) -> None:
        """Takes the next statement; TraceError if it is illegal there."""
        text = statement.text
        if "trace" not in self.header and directive(text) != ".trace":
            module = directive(text) == ".version"
            what = "this is a PTX module, not a trace" if module else "a trace begins with its version"
            self.fail(statement, what, "tcsim launch, which runs kernels" if module else f".trace {VERSION}")
        if text.startswith("}"):
            self.close(statement)
        elif text.startswith("."):
            self.directive(statement)
        elif not self.in_program:
            self.fail(statement, "an instruction outside of a .warp block", ".warp 0-7 { ... } around instructions")
        else:
            self.open[-1].body.append(Step(self.instruction(statement), statement.line))

    @property
    def in_program(self) -> bool:
        """Whether a .warp block is open, and not only a .cta block."""
        return bool(self.open) and not self.open[-1].ctas

    def directive(self, statement: Statement) -> None:
        name = directive(statement.text)
        if name in BLOCKS:
            getattr(self, name[1:] + "_block")(statement)
        elif self.in_program:
            self.fail(statement, f"{name} inside a .warp block", "instructions, .repeat or '}'")
        elif self.open:
            self.fail(statement, f"{name} inside a .cta block", ".warp or '}'")
        elif name in HEADER:
            self.header_line(statement, name)
        elif name == ".load":
            self.load(statement)
        elif name == ".store":
            self.store(statement)
        else:
            self.fail(statement, f"unknown directive '{name}'", ", ".join(_DIRECTIVES))

    def header_line(self, statement: Statement, name: str) -> None:
        value = statement.text[len(name) :].strip().removesuffix(";").strip()
        if name[1:] in self.header:
            self.fail(statement, f"{name} is given twice", f"one {name}")
        if self.blocks or self.loads or self.open:
            self.fail(statement, f"{name} after .load or .warp", f"{name} at the top, before them")
        self.header[name[1:]] = value
        place = statement.text.find(value, len(name)) if value else len(name)
        if name == ".trace":
            if value != str(VERSION):
                self.fail(statement, f"trace version '{value}' is not known", str(VERSION), place)
        elif name == ".target":
            try:
                self.target = parse_target(value)
            except IsaError as error:
                self.fail(statement, error.reason, error.legal, place)
        elif name == ".warps":
            self.warps = self.number(statement, value, place, 1, MAX_WARPS, "the number of warps")
        elif name == ".global":
            self.memory = self.number(statement, value, place, 0, MAX_GLOBAL, "the size of global memory in bytes")
        else:
            self.shared = self.number(statement, value, place, 0, MAX_SHARED, "the size of shared memory in bytes")

    def number(self, statement: Statement, text: str, place: int, low: int, high: int, what: str) -> int:
        """The number that a text is; TraceError unless it is one from `low` to `high`."""
        try:
            value = int(text, 0) if text.isascii() else low - 1
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            self.fail(statement, f"{what} is '{text}'", f"{low} to {high}", place)
        return value

    def place(self, statement: Statement, match: re.Match[str]) -> _Where:
        """The place that a .load or .store names."""
        cta = None
        if match["cta"] is not None:
            cta = self.number(statement, match["cta"], match.start("cta"), 0, MAX_CTAS - 1, "the number of a CTA")
            self.named.setdefault(cta, statement)
        if match["register"] is not None:
            sort = next(sort for sort in Sort if sort.prefix == f"%{match['sort']}")
            digits = match["register"].lstrip("0") or "0"
            first = self.number(statement, digits, match.start("sort") - 1, 0, MAX_REGISTERS - 1, "the register number")
            return _Where(register=first, sort=sort, cta=cta)
        where = match.start("offset") - 1
        if match["memory"] == "tmem":
            return _Where(
                tmem=self.number(statement, match["offset"], where, 0, COLUMNS - 1, "the column of Tensor Memory"),
                cta=cta,
            )
        if match["memory"] == "global":
            if cta is not None:
                self.fail(statement, "global memory of one CTA", "global[0], which all CTAs share", match.start("cta"))
            return _Where(
                memory=self.number(statement, match["offset"], where, 0, MAX_GLOBAL - 1, "the address in global memory")
            )
        return _Where(
            shared=self.number(statement, match["offset"], where, 0, MAX_SHARED - 1, "the offset in shared memory"),
            cta=cta,
        )

    def load(self, statement: Statement) -> None:
        match = _LOAD.match(statement.text)
        if match is None:
            legal = (
                '.load %r0, "file.npz", "key"; or .load shared[0], ...; or .load global[0], ...; or .load tmem[0], ...'
            )
            self.fail(statement, "malformed .load", f"{legal}; cta1. before a place for one CTA")
        where = self.place(statement, match)
        load = Load(
            match["file"][1:-1],
            match["key"][1:-1],
            where.register,
            where.shared,
            statement.line,
            where.tmem,
            where.sort,
            where.cta,
            where.memory,
        )
        self.loads.append(load)

    def store(self, statement: Statement) -> None:
        match = _STORE.match(statement.text)
        if match is None:
            legal = (
                '.store "name", %r0, COUNT; or .store "name", shared[0], BYTES; or global[0], BYTES; '
                "or tmem[0], COLUMNS;"
            )
            self.fail(statement, "malformed .store", legal)
        where = self.place(statement, match)
        if where.register is not None:
            most, what = MAX_REGISTERS - where.register, "the number of registers"
        elif where.tmem is not None:
            most, what = COLUMNS - where.tmem, "the number of columns"
        elif where.memory is not None:
            most, what = self.memory - where.memory, "the number of bytes"
        else:
            most, what = self.shared - (where.shared or 0), "the number of bytes"
        count = self.number(statement, match["count"], match.start("count"), 1, most, what)
        name = match["name"][1:-1]
        if _PATH.search(name) or not name.isprintable() or len(name) > MOST_NAME:
            legal = f"a name of at most {MOST_NAME} characters that is no path: without .., and no / in front"
            self.fail(statement, f".store {name[:40]!r}", legal)
        if name in self.stores:
            self.fail(statement, f"two .store statements named '{name}'", "a name of its own for each")
        if where.register is not None:
            self.counts[where.sort] = max(self.counts[where.sort], where.register + count)
        self.stores[name] = Store(
            name, where.register, where.shared, count, statement.line, where.tmem, where.sort, where.cta, where.memory
        )

    def cta_block(self, statement: Statement) -> None:
        if self.open:
            self.fail(statement, f".cta inside a {'.warp' if self.in_program else '.cta'} block", "'}' first")
        match = _CTAS.match(statement.text)
        if match is None:
            self.fail(statement, "malformed .cta", ".cta 0-1 { or .cta 1 {")
        ctas = self.ranges(statement, match, MAX_CTAS, "CTA")
        for cta in ctas:
            if ctas.count(cta) > 1:
                self.fail(statement, f"CTA {cta} is named twice", "each CTA once", match.start(1))
        self.open.append(_Open(statement, ctas=ctas))

    def warp_block(self, statement: Statement) -> None:
        if self.in_program:
            self.fail(statement, ".warp inside a .warp block", "'}' first")
        if not self.warps or self.target is None:
            self.fail(
                statement,
                f"{'.warps' if not self.warps else '.target'} is missing before the first .warp block",
                ".target sm_90a and .warps N at the top",
            )
        match = _WARPS.match(statement.text)
        if match is None:
            self.fail(statement, "malformed .warp", ".warp 0-7 { or .warp 0,2,4 {")
        self.open.append(_Open(statement, warps=self.warp_list(statement, match)))

    def ranges(self, statement: Statement, match: re.Match[str], count: int, what: str) -> tuple[int, ...]:
        """The numbers of "0-3,6", each below `count`."""
        numbers_named: list[int] = []
        for part in match[1].split(","):
            ends = [piece.strip() for piece in part.split("-")]
            numbers = [self.number(statement, end, match.start(1), 0, count - 1, f"a {what} number") for end in ends]
            if len(numbers) > 2 or numbers[0] > numbers[-1]:
                self.fail(statement, f"'{part.strip()}' is not a range of {what}s", "FIRST-LAST", match.start(1))
            numbers_named += range(numbers[0], numbers[-1] + 1)
        return tuple(numbers_named)

    def warp_list(self, statement: Statement, match: re.Match[str]) -> tuple[int, ...]:
        """The warps that a .warp block names, none of which has a program yet."""
        warps = self.ranges(statement, match, self.warps, "warp")
        ctas = self.open[-1].ctas if self.open else (0,)
        for cta, warp in ((cta, warp) for cta in ctas for warp in warps):
            if (cta, warp) in self.owners or warps.count(warp) > 1:
                where = f" (line {self.owners[cta, warp]})" if (cta, warp) in self.owners else ""
                which = f"warp {warp} of CTA {cta}" if cta or len(ctas) > 1 else f"warp {warp}"
                self.fail(
                    statement, f"{which} has a program already{where}", "one .warp block for each warp", match.start(1)
                )
        self.owners |= {(cta, warp): statement.line for cta in ctas for warp in warps}
        return warps

    def repeat_block(self, statement: Statement) -> None:
        if not self.in_program:
            self.fail(statement, ".repeat outside of a .warp block", ".warp 0-7 { .repeat 64 { ... } }")
        if len(self.open) > MAX_DEPTH:
            self.fail(statement, f"blocks nested more than {MAX_DEPTH} deep")
        match = _REPEAT.match(statement.text)
        if match is None:
            self.fail(statement, "malformed .repeat", ".repeat 64 {")
        count = self.number(statement, match[1], match.start(1), 1, MAX_REPEAT, "the number of repetitions")
        turns = math.prod(block.count for block in self.open if block.count) * count
        if turns > MAX_REPEAT:
            reason = f"with the loops around it, this body would run {turns:.1e} times"
            self.fail(statement, reason, f"at most {MAX_REPEAT:,} times in all", match.start(1))
        self.open.append(_Open(statement, count=count))

    def close(self, statement: Statement) -> None:
        """Closes the innermost open block."""
        if not self.open:
            self.fail(statement, "'}' closes nothing", "one '}' for each '{'")
        block = self.open.pop()
        body = tuple(block.body)
        if not body and block.count:
            self.fail(
                statement,
                f"the .repeat of line {block.statement.line} has no instructions",
                "at least one instruction in its body",
            )
        if self.in_program:
            self.open[-1].body.append(Repeat(block.count, body, block.statement.line))
        elif not block.ctas:
            for cta in self.open[-1].ctas if self.open else (0,):
                self.blocks.append(Block(block.warps, body, block.statement.line, cta))

    def finish(self) -> Program:
        """The program, after the last statement; TraceError if something is missing."""
        if self.open:
            block = self.open[-1].statement
            kind = directive(block.text)
            raise TraceError(
                str(self.path),
                block.line,
                block.column,
                f"the file ends inside {kind}: its '}}' is missing",
                "'}' at the end of the block",
            )
        if "trace" not in self.header:
            raise TraceError(str(self.path), 1, 1, "the file is empty", f".trace {VERSION} as its first statement")
        if not self.blocks:
            raise TraceError(str(self.path), 0, 0, "the trace has no .warp block", ".warp 0-7 { instructions }")
        assert self.target is not None
        ctas = 1 + max(block.cta for block in self.blocks)
        for cta, statement in self.named.items():
            if cta >= ctas:
                self.fail(statement, f"CTA {cta} has no program", f".cta 0-{cta} {{ ... }} around .warp blocks")
        words, *others = self.counts
        return Program(
            self.path,
            self.target,
            self.warps,
            self.shared,
            tuple(self.loads),
            tuple(self.blocks),
            tuple(self.stores.values()),
            words,
            (others[0], others[1], others[2]),
            ctas,
            self.memory,
            self.name,
        )
