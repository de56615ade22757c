"""Reads a trace as a stream of statements; every error names file, line and column.

The format, version 1, is described in docs/traces.md. Instructions are PTX, decoded by `isa.decode`; equal texts are decoded once.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import NoReturn

from isa import Instruction, IsaError, Target, decode, parse_target
from isa.forms import MmaForm
from isa.instruction import Address, Register, Vector, register_names
from isa.plain_forms import SPECIAL_REGISTERS, PlainForm
from simulator.errors import TraceError
from simulator.execute.barrier import barrier_of
from simulator.trace.program import Block, Load, Node, Repeat, Step, Store, Trace, register_number

VERSION = 1
MAX_REGISTERS = 255  # PTX ISA 9.0, 11.4.2 (.maxnreg); CUDA programming guide, table of compute capabilities: registers of a thread
MAX_WARPS = 32  # 1,024 threads of a CTA, likewise
MAX_SHARED = 232448  # 227 KB, the most that a CTA of any target has (sm_90, sm_100), likewise
MAX_REPEAT = 10**12
MAX_DEPTH = 64
_MAX_STATEMENT = 1 << 16

_COMMENT = re.compile(r'//.*|"[^"\n]*"?')
_QUOTED = r'"([^"\n]+)"'
_LOAD = re.compile(rf"\.load\s+(?:%r(\d+)|shared\s*\[\s*(\w+)\s*\])\s*,\s*{_QUOTED}\s*,\s*{_QUOTED}\s*;?$")
_STORE = re.compile(rf"\.store\s+{_QUOTED}\s*,\s*(?:%r(\d+)|shared\s*\[\s*(\w+)\s*\])\s*,\s*(\w+)\s*;?$")
_WARPS = re.compile(r"\.warp\s+([\d\s,-]+?)\s*\{$")
_REPEAT = re.compile(r"\.repeat\s+(\w+)\s*\{$")
_HEADER = (".trace", ".target", ".warps", ".shared")
_DIRECTIVES = (*_HEADER, ".load", ".warp", ".repeat", ".store")


@dataclass(frozen=True, slots=True)
class Statement:
    """A piece of the file with its place: a directive, an instruction, or `}`."""

    text: str
    line: int
    column: int


def read_trace(path: str | Path) -> Trace:
    """Reads a trace file, plain or gzip.

    Raises:
        TraceError: unreadable, malformed or illegal; says where and what would be right.
    """
    path = Path(path)
    builder = _Builder(path)
    for statement in _statements(path):
        builder.add(statement)
    return builder.finish()


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines with their numbers; decoding and decompression errors become TraceErrors."""
    number = 0
    try:
        with path.open("rb") as raw:
            compressed = raw.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if compressed else path.open("rb") as stream:
            for number, line in enumerate(stream, 1):
                yield number, line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise TraceError(str(path), number, error.start + 1, f"byte {error.object[error.start]:#04x} is not UTF-8 text", "UTF-8") from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(
            str(path), number, 0, f"the gzip stream is damaged or cut short after line {number} ({error})", "a whole gzip file"
        ) from None
    except OSError as error:
        raise TraceError(str(path), 0, 0, f"cannot be read: {error.strerror or error}", "a readable file") from None


def _statements(path: Path) -> Iterator[Statement]:
    """Cuts the file into statements without holding more than one."""
    text, start = "", (0, 0)
    for number, raw in _lines(path):
        line = _COMMENT.sub(lambda m: m[0] if m[0].startswith('"') else "", raw).rstrip("\n\r")
        at = 0
        while at < len(line):
            if not text:
                at += len(line[at:]) - len(line[at:].lstrip())
                if at >= len(line):
                    break
                start = (number, at + 1)
            end, whole = _end_of(text, line, at)
            text += line[at:end]
            at = end
            if len(text) > _MAX_STATEMENT:
                raise TraceError(str(path), *start, f"a statement of more than {_MAX_STATEMENT} characters", "';' after each instruction")
            if whole:
                yield Statement(text.strip(), *start)
                text = ""
        if text and _directive(text) in _HEADER:
            yield Statement(text.strip(), *start)
            text = ""
        elif text:
            text += "\n"
    if text:
        raise TraceError(str(path), *start, f"the file ends inside the statement {text.strip()[:40]!r}", "';' at its end")


def _directive(text: str) -> str:
    match = re.match(r"\.?\w*", text)
    return match[0] if match else ""


def _end_of(text: str, line: str, at: int) -> tuple[int, bool]:
    """Where the statement that `text` began goes on to in this line, and whether it ends there."""
    begun = text + line[at:]
    if begun.startswith("}"):
        return at + 1, True
    mark = "{" if _directive(begun) in (".warp", ".repeat") else ";"
    found = line.find(mark, at)
    return (found + 1, True) if found >= 0 else (len(line), False)


@dataclass
class _Open:
    """A block that has not been closed."""

    statement: Statement
    warps: tuple[int, ...] = ()
    count: int = 0
    body: list[Node] = field(default_factory=list)


class _Builder:
    """Turns statements into a Trace."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header: dict[str, str] = {}
        self.target: Target | None = None
        self.warps = 0
        self.shared = 0
        self.loads: list[Load] = []
        self.stores: list[Store] = []
        self.blocks: list[Block] = []
        self.open: list[_Open] = []
        self.registers = 0
        self.owners: dict[int, int] = {}

    def fail(self, statement: Statement, reason: str, legal: str = "", offset: int = 0) -> NoReturn:
        """TraceError at `offset` characters into the statement, which may span lines."""
        before = statement.text[:offset]
        line = statement.line + before.count("\n")
        column = statement.column + offset if "\n" not in before else offset - before.rfind("\n")
        raise TraceError(str(self.path), line, column, reason.replace("\n", " "), legal)

    def add(self, statement: Statement) -> None:
        text = statement.text
        if "trace" not in self.header and _directive(text) != ".trace":
            self.fail(statement, "a trace begins with its version", f".trace {VERSION}")
        if text.startswith("}"):
            self.close(statement)
        elif text.startswith("."):
            self.directive(statement)
        elif not self.open:
            self.fail(statement, "an instruction outside of a .warp block", ".warp 0-7 { ... } around instructions")
        else:
            self.open[-1].body.append(Step(self.instruction(statement), statement.line))

    def directive(self, statement: Statement) -> None:
        name = _directive(statement.text)
        if name in (".warp", ".repeat"):
            getattr(self, name[1:] + "_block")(statement)
        elif self.open:
            self.fail(statement, f"{name} inside a .warp block", "instructions, .repeat or '}'")
        elif name in _HEADER:
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
        if self.blocks or self.loads:
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
        else:
            self.shared = self.number(statement, value, place, 0, MAX_SHARED, "the size of shared memory in bytes")

    def number(self, statement: Statement, text: str, place: int, low: int, high: int, what: str) -> int:
        try:
            value = int(text, 0) if text.isascii() else low - 1
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            self.fail(statement, f"{what} is '{text}'", f"{low} to {high}", place)
        return value

    def place(self, statement: Statement, register: str | None, shared: str | None) -> tuple[int | None, int | None]:
        if register is not None:
            first = self.number(statement, register.lstrip("0") or "0", statement.text.find("%r"), 0, MAX_REGISTERS - 1, "the register number")
            return first, None
        assert shared is not None
        return None, self.number(statement, shared, statement.text.find("["), 0, MAX_SHARED - 1, "the offset in shared memory")

    def load(self, statement: Statement) -> None:
        match = _LOAD.match(statement.text)
        if match is None:
            self.fail(statement, "malformed .load", '.load %r0, "file.npz", "key"; or .load shared[0], "file.npz", "key";')
        register, shared = self.place(statement, match[1], match[2])
        self.loads.append(Load(match[3], match[4], register, shared, statement.line))

    def store(self, statement: Statement) -> None:
        match = _STORE.match(statement.text)
        if match is None:
            self.fail(statement, "malformed .store", '.store "name", %r0, COUNT; or .store "name", shared[0], BYTES;')
        register, shared = self.place(statement, match[2], match[3])
        most = MAX_REGISTERS - register if register is not None else self.shared - (shared or 0)
        count = self.number(
            statement, match[4], match.start(4), 1, most, "the number of registers" if register is not None else "the number of bytes"
        )
        if any(match[1] == other.name for other in self.stores):
            self.fail(statement, f"two .store statements named '{match[1]}'", "a name of its own for each")
        if register is not None:
            self.registers = max(self.registers, register + count)
        self.stores.append(Store(match[1], register, shared, count, statement.line))

    def warp_block(self, statement: Statement) -> None:
        if self.open:
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
        warps = self.warp_list(statement, match)
        self.open.append(_Open(statement, warps=warps))

    def warp_list(self, statement: Statement, match: re.Match[str]) -> tuple[int, ...]:
        warps: list[int] = []
        for part in match[1].split(","):
            ends = [piece.strip() for piece in part.split("-")]
            numbers = [self.number(statement, end, match.start(1), 0, self.warps - 1, "a warp number") for end in ends]
            if len(numbers) > 2 or numbers[0] > numbers[-1]:
                self.fail(statement, f"'{part.strip()}' is not a range of warps", "FIRST-LAST", match.start(1))
            warps += range(numbers[0], numbers[-1] + 1)
        for warp in warps:
            if warp in self.owners or warps.count(warp) > 1:
                where = f" (line {self.owners[warp]})" if warp in self.owners else ""
                self.fail(statement, f"warp {warp} has a program already{where}", "one .warp block for each warp", match.start(1))
        self.owners |= dict.fromkeys(warps, statement.line)
        return tuple(warps)

    def repeat_block(self, statement: Statement) -> None:
        if not self.open:
            self.fail(statement, ".repeat outside of a .warp block", ".warp 0-7 { .repeat 64 { ... } }")
        if len(self.open) > MAX_DEPTH:
            self.fail(statement, f"blocks nested more than {MAX_DEPTH} deep")
        match = _REPEAT.match(statement.text)
        if match is None:
            self.fail(statement, "malformed .repeat", ".repeat 64 {")
        count = self.number(statement, match[1], match.start(1), 1, MAX_REPEAT, "the number of repetitions")
        self.open.append(_Open(statement, count=count))

    def close(self, statement: Statement) -> None:
        if not self.open:
            self.fail(statement, "'}' closes nothing", "one '}' for each '{'")
        block = self.open.pop()
        body = tuple(block.body)
        if not body and block.count:
            self.fail(statement, f"the .repeat of line {block.statement.line} has no instructions", "at least one instruction in its body")
        if self.open:
            self.open[-1].body.append(Repeat(block.count, body, block.statement.line))
        else:
            self.blocks.append(Block(block.warps, body, block.statement.line))

    def instruction(self, statement: Statement) -> Instruction:
        try:
            instruction = _decoded(statement.text, self.target)
            barrier_of(instruction)
        except IsaError as error:
            self.fail(statement, error.reason, error.legal, max(error.position, 0))
        if not isinstance(instruction.form, MmaForm | PlainForm):
            self.fail(
                statement,
                f"'{instruction.form.opcode}' is decoded, but traces cannot run it",
                "mma, mma.sp, ldmatrix, ld/st.shared, integer arithmetic, barriers",
            )
        if instruction.guard is not None:
            self.fail(statement, "predicates are not part of traces", "the instruction without its guard, as often as it is executed")
        for operand in instruction.operands:
            self.check_registers(statement, operand)
        return instruction

    def check_registers(self, statement: Statement, operand: Register | Vector | Address | object) -> None:
        if not isinstance(operand, Register | Vector | Address):
            return
        for name in register_names(operand):
            if name in SPECIAL_REGISTERS:
                continue
            number = register_number(name)
            if number is None or number >= MAX_REGISTERS:
                self.fail(
                    statement,
                    f"'{name}' is not a register of a trace",
                    f"%r0 to %r{MAX_REGISTERS - 1}, or {', '.join(SPECIAL_REGISTERS)} to read",
                    _place_of(name, statement.text),
                )
            self.registers = max(self.registers, number + 1)

    def finish(self) -> Trace:
        if self.open:
            block = self.open[-1].statement
            kind = _directive(block.text)
            raise TraceError(
                str(self.path), block.line, block.column, f"the file ends inside {kind}: its '}}' is missing", "'}' at the end of the block"
            )
        if "trace" not in self.header:
            raise TraceError(str(self.path), 1, 1, "the file is empty", f".trace {VERSION} as its first statement")
        if not self.blocks:
            raise TraceError(str(self.path), 0, 0, "the trace has no .warp block", ".warp 0-7 { instructions }")
        assert self.target is not None
        return Trace(self.path, self.target, self.warps, self.shared, tuple(self.loads), tuple(self.blocks), tuple(self.stores), self.registers)


def _place_of(name: str, text: str) -> int:
    """Where a register stands in an instruction's text, not where a longer name or the opcode begins alike."""
    match = re.search(rf"(?<![\w$%.]){re.escape(name)}(?![\w$])", text[text.find(" ") :])
    return match.start() + max(text.find(" "), 0) if match else 0


@lru_cache(maxsize=65536)
def _decoded(text: str, target: Target | None) -> Instruction:
    return decode(text, target)
