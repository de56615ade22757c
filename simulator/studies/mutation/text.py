"""Finds instructions in the text of a PTX module, and edits them so that every other line keeps its number."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from isa.ptx.module.pieces import without_comments

_HEAD = re.compile(r"(@!?\s*[\w$%]+\s+)?([A-Za-z]\w*(?:\.[\w:]+)*)")
_SPACE = re.compile(r"\s+")
_OPENING, _CLOSING = "{[(", "}])"


class Span(NamedTuple):
    """A part of a module's text: where it begins and ends, and what stands there."""

    start: int
    end: int
    text: str


class Edit(NamedTuple):
    """What stands in place of the text from `start` to `end`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Statement:
    """An instruction as it stands in the text.

    Attributes:
        start, end: of its text, without the `;`.
        text: as it stands there, comments blanked.
        line: of its first character, from 1.
    """

    start: int
    end: int
    text: str
    line: int

    @cached_property
    def guard(self) -> Span | None:
        """`@%p1 ` with the space behind it; None if nothing guards it."""
        match = _HEAD.match(self.text)
        return self._span(match.start(1), match.end(1)) if match and match[1] else None

    @cached_property
    def opcode(self) -> Span:
        """The opcode."""
        match = _HEAD.match(self.text)
        assert match is not None
        return self._span(match.start(2), match.end(2))

    @cached_property
    def operands(self) -> tuple[Span, ...]:
        """The operands, cut at the commas that no bracket encloses."""
        begin = self.opcode.end - self.start
        return tuple(self._trimmed(first, last) for first, last in _cuts(self.text, begin, len(self.text)))

    def elements(self, operand: Span) -> tuple[Span, ...]:
        """The elements of a vector `{%r0, %r1}`; nothing for another operand."""
        if not operand.text.startswith("{"):
            return ()
        first, last = operand.start - self.start + 1, operand.end - self.start - 1
        return tuple(self._trimmed(*cut) for cut in _cuts(self.text, first, last))

    def dropped(self) -> Edit:
        """An edit that takes the instruction away, `;` included; line breaks stay."""
        return Edit(self.start, self.end + 1, re.sub(r"[^\n]", "", self.text))

    def _span(self, first: int, last: int) -> Span:
        return Span(self.start + first, self.start + last, self.text[first:last])

    def _trimmed(self, first: int, last: int) -> Span:
        while first < last and self.text[first].isspace():
            first += 1
        while last > first and self.text[last - 1].isspace():
            last -= 1
        return self._span(first, last)


def _cuts(text: str, first: int, last: int) -> list[tuple[int, int]]:
    """The parts of a text between commas outside of brackets; none if there is nothing but space."""
    cuts, depth, begin = [], 0, first
    for place in range(first, last):
        if text[place] in _OPENING:
            depth += 1
        elif text[place] in _CLOSING:
            depth -= 1
        elif text[place] == "," and depth == 0:
            cuts.append((begin, place))
            begin = place + 1
    if cuts or text[begin:last].strip():
        cuts.append((begin, last))
    return cuts


class ModuleText:
    """The text of a module, in which instructions are looked up by their line."""

    def __init__(self, text: str) -> None:
        self.text = text.replace("\r", "")
        self._blanked = without_comments(self.text)
        self._lines = [0]
        for place, character in enumerate(self.text):
            if character == "\n":
                self._lines.append(place + 1)

    def line_of(self, place: int) -> int:
        """The number of the line of a place in the text, from 1."""
        low, high = 0, len(self._lines)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._lines[middle] <= place else (low, middle)
        return low + 1

    def line(self, number: int) -> str:
        """A line without the line break."""
        end = self._lines[number] - 1 if number < len(self._lines) else len(self.text)
        return self.text[self._lines[number - 1] : end]

    def statement(self, line: int, text: str) -> Statement | None:
        """The instruction with this text, white space aside, that begins in a line; None if there is not just one."""
        wanted = _SPACE.sub("", text).rstrip(";")
        begin = self._lines[line - 1]
        after = self._lines[line] if line < len(self._lines) else len(self._blanked)
        found = []
        while begin < after:
            end = self._blanked.find(";", begin)
            if end < 0:
                break
            start = self._begin(begin, end, wanted)
            if start is not None and self.line_of(start) == line:
                found.append(Statement(start, end, self._blanked[start:end], line))
            begin = end + 1
        return found[0] if len(found) == 1 else None

    def _begin(self, begin: int, end: int, wanted: str) -> int | None:
        """Where the wanted text begins that ends at `end`; labels, braces and directives may stand before it."""
        left, place = len(wanted), end
        while left and place > begin:
            place -= 1
            if self._blanked[place].isspace():
                continue
            left -= 1
            if self._blanked[place] != wanted[left]:
                return None
        if left:
            return None
        before = self._blanked[begin:place].rstrip()
        return place if not before or before[-1] in "{}:" or "\n" in self._blanked[begin:place] else None

    def edited(self, edits: Iterable[Edit]) -> str:
        """The text with some edits, which do not overlap and keep the number of lines."""
        text = self.text
        for edit in sorted(edits, reverse=True):
            assert edit.text.count("\n") == text.count("\n", edit.start, edit.end)
            text = text[: edit.start] + edit.text + text[edit.end :]
        return text


def replaced(span: Span, text: str) -> Edit:
    """Another text in place of a part."""
    return Edit(span.start, span.end, text)


def behind(statement: Statement, text: str) -> Edit:
    """More instructions behind one, in the same line."""
    return Edit(statement.end + 1, statement.end + 1, f" {text}")
