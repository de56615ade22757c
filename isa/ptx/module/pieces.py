"""Cuts the text of a PTX module into pieces: directives, declarations, instructions, labels, braces of scopes.

PTX ISA 9.0, section 4 (syntax). A piece ends at `;`, at the brace of a scope or of a function's body, behind the `:` of
a label, or (directives without `;`) at the end of the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from isa.errors import IsaError

_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_SPACE = re.compile(r"\s+")
_LABEL = re.compile(r"([\w$.%]+)\s*:(?!:)")
_LINE = re.compile(r"\.(?:version|target|address_size|file|loc)\b[^\n]*")
_FUNCTION = re.compile(r"(?:\.(?:visible|extern|weak|common)\s+)*\.(?:entry|func)\b[^;{]*")
_SECTION = re.compile(r"\.section\b[^{]*\{[^}]*\}")
_DWARF = re.compile(r"@@DWARF[^\n]*")
_STATEMENT = re.compile(r'(?:[^;"]|"(?:\\.|[^"\\\n])*")*')


class Piece(NamedTuple):
    """A piece of the text.

    Attributes:
        kind: "directive", "function", "label", "open", "close" or "statement".
        text: without comments and the `;` at its end; of a label the name.
        line: of its first character, from 1.
    """

    kind: str
    text: str
    line: int


def without_comments(text: str) -> str:
    """The text with comments blanked; line breaks stay."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        return found if found.startswith('"') else re.sub(r"[^\n]", " ", found)

    return _COMMENT.sub(blank, text)


def pieces(text: str) -> Iterator[Piece]:
    """The pieces of a module's text, in order.

    Raises:
        IsaError: a comment or a statement that does not end, with the line.
    """
    text = without_comments(text.replace("\r", ""))
    if (comment := text.find("/*")) >= 0:
        raise malformed(text.count("\n", 0, comment) + 1, "a comment that does not end", "*/")
    place, line, counted, end = 0, 1, 0, len(text)
    while True:
        if space := _SPACE.match(text, place):
            place = space.end()
        if place >= end:
            return
        line, counted = line + text.count("\n", counted, place), place
        kind, shown, after = _next(text, place)
        if kind == "statement":
            if text[after : after + 1] != ";":
                raise malformed(line, f"'{_short(shown)}' does not end", "';' at the end of a statement")
            after += 1
            if not shown.strip():
                place = after
                continue
        if kind:
            yield Piece(kind, shown.strip(), line)
        place = after


def _next(text: str, place: int) -> tuple[str, str, int]:
    """The kind, text and end of the piece that begins here; no kind for what is passed over."""
    first = text[place]
    if first == "{":
        return "open", "{", place + 1
    if first == "}":
        return "close", "}", place + 1
    if first == ".":
        for kind, pattern in (("directive", _LINE), ("function", _FUNCTION), ("", _SECTION)):
            if match := pattern.match(text, place):
                return kind, match[0], match.end()
    elif match := _LABEL.match(text, place):
        return "label", match[1], match.end()
    elif match := _DWARF.match(text, place):
        return "", match[0], match.end()
    match = _STATEMENT.match(text, place)
    assert match is not None
    return "statement", match[0], match.end()


def malformed(line: int, reason: str, legal: str = "") -> IsaError:
    """The error of a module's text, with the line; quoted text in one line."""
    return IsaError("", -1, f"line {line}: {' '.join(reason.split())}", legal, rule="malformed-module")


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 60 else text[:57] + "..."
