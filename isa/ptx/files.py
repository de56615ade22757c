"""Reads a PTX file as a compiler writes it, and says of every instruction of the families that `isa` knows whether it
is legal.

Instructions of other families (and other forms of loads, moves and arithmetic) are passed over and counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from isa.errors import IsaError
from isa.forms.record import PTX
from isa.forms.table import FIRST_NAMES
from isa.ptx.decoder import decode
from isa.ptx.instruction import Instruction
from isa.ptx.opcodes import read_opcode
from isa.targets import Target, parse_target

JUDGED = (
    "mma",
    "ldmatrix",
    "tcgen05",
)  # families of which every form is known: one that is not in the table is an error
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|\"[^\"\n]*\"", re.DOTALL)
_LINE_DIRECTIVES = (".version", ".target", ".address_size", ".loc", ".file")
_LABEL = re.compile(r"[A-Za-z$%_][\w$]*:(?!:)\s*")
_START = re.compile(r"(?:@!?\s*[%\w$]+\s+)?([A-Za-z]\w*)((?:\.[\w:]+)*)")


@dataclass(frozen=True)
class Statement:
    """One instruction of a file.

    Attributes:
        line: where it begins, counted from 1.
        text: as written, comments taken out.
        instruction: what it says; None if it is wrong or was passed over.
        error: what is wrong; None if it is legal or was passed over.
        notes: what a user should know of a legal one.
    """

    line: int
    text: str
    instruction: Instruction | None = None
    error: IsaError | None = None
    notes: tuple[str, ...] = ()

    @property
    def passed_over(self) -> bool:
        """Whether the instruction belongs to no family that `isa` knows and was skipped."""
        return self.instruction is None and self.error is None


def read_ptx(text: str, target: str | Target | None = None) -> Iterator[Statement]:
    """Every instruction of a PTX file, judged for `target`, or for the file's own `.target`, and for the file's
    `.version`.

    Raises:
        IsaError: the file's `.target` is not known.
    """
    chip = parse_target(target) if target is not None else None
    version = PTX
    for line, statement in _statements(text):
        if statement.startswith(".version"):
            version = statement.split()[1] if re.fullmatch(r"\.version\s+\d+\.\d+", statement) else version
        elif statement.startswith(".target") and chip is None:
            chip = parse_target(re.split(r"[\s,]+", statement)[1])
        elif not statement.startswith("."):
            yield _judge(line, statement, chip, version)


def notes(instruction: Instruction, target: Target | None = None) -> tuple[str, ...]:
    """What a user of a legal instruction should know, on this target or on any."""
    of_form = instruction.form.notes(target)
    undefined = tuple(f"ptxas takes this, but it is undefined: {name}" for name in instruction.undefined)
    return (*of_form, *instruction.remarks, *undefined)


def _judge(line: int, text: str, target: Target | None, version: str) -> Statement:
    match = _START.match(text)
    name = match[1] if match else ""
    if match is None or (name not in FIRST_NAMES and name not in JUDGED):
        return Statement(line, text)
    if name not in JUDGED:
        try:
            read_opcode(match[1] + match[2], target, ptx=version)
        except IsaError:
            return Statement(line, text)
    try:
        instruction = decode(text, target, version)
    except IsaError as error:
        return Statement(line, text, error=error) if name in JUDGED else Statement(line, text)
    return Statement(line, text, instruction, notes=notes(instruction, target))


def _statements(text: str) -> Iterable[tuple[int, str]]:
    """Yields directives and instructions with their line numbers. Comments, labels and the braces of scopes are left
    out."""
    bare = _COMMENT.sub(lambda m: m[0] if m[0].startswith('"') else re.sub(r"[^\n]", " ", m[0]), text)
    position, line = 0, 1
    while position < len(bare):
        if bare[position] in " \t\r\n{}":
            line += bare[position] == "\n"
            position += 1
            continue
        label = _LABEL.match(bare, position)
        if label is not None and not bare.startswith(".", position):
            line += bare.count("\n", position, label.end())
            position = label.end()
            continue
        end = _end(bare, position)
        statement = bare[position:end].strip()
        yield line, re.sub(r"\s+", " ", statement)
        line += bare.count("\n", position, end)
        position = end


def _end(text: str, start: int) -> int:
    """The position where the statement that begins at `start` ends."""
    if text.startswith(_LINE_DIRECTIVES, start):
        newline = text.find("\n", start)
        return len(text) if newline < 0 else newline
    semicolon = text.find(";", start)
    semicolon = len(text) if semicolon < 0 else semicolon + 1
    if text[start] == ".":
        brace, equals = text.find("{", start, semicolon), text.find("=", start, semicolon)
        if brace >= 0 and equals < 0:
            return brace
    return semicolon
