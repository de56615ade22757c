"""Cuts a trace into statements, one after the other, without holding more than one in memory.

A trace is a plain file, a gzip file or a text.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from simulator.errors import TraceError
from simulator.inputs import GZIP, InputError, input_path

HEADER = (".trace", ".target", ".warps", ".shared", ".global")  # directives that end with their line
BLOCKS = (".cta", ".warp", ".repeat")  # directives that end with '{'
_MAX_STATEMENT = 1 << 16
_LONGEST = 16  # characters that tell a directive
MOST_LINE = 1 << 24  # characters of a line
MOST_UNPACKED = 1 << 30  # bytes of a trace that gzip packed: a few of them may stand for any number
_SPACE = re.compile(r"\s*")
_COMMENT = re.compile(r'//.*|"[^"\n]*"?')


@dataclass(frozen=True, slots=True)
class Statement:
    """A piece of the file with its place: a directive, an instruction, or `}`."""

    text: str
    line: int
    column: int


def lines_of(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a text with their numbers, from 1."""
    return enumerate(text.split("\n"), 1)


def lines_of_file(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers, from 1; decoding and decompression errors become TraceErrors."""
    number = 0
    try:
        input_path(path, "a trace")
        with path.open("rb") as raw:
            compressed = raw.read(2) == GZIP
        left = MOST_UNPACKED if compressed else 0
        with gzip.open(path, "rb") if compressed else path.open("rb") as stream:
            for number, line in enumerate(iter(lambda: stream.readline(MOST_LINE + 1), b""), 1):
                left -= len(line)
                if compressed and left < 0:
                    reason = f"a gzip file of more than {MOST_UNPACKED:,} bytes"
                    raise TraceError(str(path), number, 1, reason, "a file that is not packed, or a smaller one")
                if len(line) > MOST_LINE:
                    reason = f"a line of more than {MOST_LINE:,} bytes"
                    raise TraceError(str(path), number, 1, reason, "a new line after each instruction")
                yield number, line.decode("utf-8")
    except InputError as error:
        raise TraceError(str(path), 0, 0, error.reason, error.legal) from None
    except UnicodeDecodeError as error:
        raise TraceError(
            str(path), number, error.start + 1, f"byte {error.object[error.start]:#04x} is not UTF-8 text", "UTF-8"
        ) from None
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(
            str(path),
            number,
            0,
            f"the gzip stream is damaged or cut short after line {number} ({error})",
            "a whole gzip file",
        ) from None
    except OSError as error:
        raise TraceError(str(path), 0, 0, f"cannot be read: {error.strerror or error}", "a readable file") from None


def statements(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[Statement]:
    """The statements of numbered lines; TraceError, which names `path`, for one that is cut short."""
    text, start = "", (0, 0)
    for number, raw in lines:
        line = _COMMENT.sub(lambda m: m[0] if m[0].startswith('"') else "", raw).rstrip("\n\r")
        column = 0
        while column < len(line):
            if not text:
                column = _SPACE.match(line, column).end()  # type: ignore[union-attr] # matches always
                if column >= len(line):
                    break
                start = (number, column + 1)
            end, whole = _end_of(text, line, column)
            text += line[column:end]
            column = end
            if len(text) > _MAX_STATEMENT:
                raise TraceError(
                    str(path),
                    *start,
                    f"a statement of more than {_MAX_STATEMENT} characters",
                    "';' after each instruction",
                )
            if whole:
                yield Statement(text.strip(), *start)
                text = ""
        if text and directive(text) in HEADER:
            yield Statement(text.strip(), *start)
            text = ""
        elif text:
            text += "\n"
    if text:
        raise TraceError(
            str(path), *start, f"the file ends inside the statement {text.strip()[:40]!r}", "';' at its end"
        )


def directive(text: str) -> str:
    """The name that a statement begins with, e.g. ".warp"."""
    match = re.match(r"\.?\w*", text)
    return match[0] if match else ""


def _end_of(text: str, line: str, start: int) -> tuple[int, bool]:
    """How far the statement that `text` began reaches in this line, from `start` on, and whether it ends there."""
    begun = text[:_LONGEST] + line[start : start + _LONGEST]
    if begun.startswith("}"):
        return start + 1, True
    mark = "{" if directive(begun) in BLOCKS else ";"
    end = line.find(mark, start)
    return (end + 1, True) if end >= 0 else (len(line), False)
