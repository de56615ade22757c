"""How every verb of the command line answers: what errors mean (one line on stderr, and an exit code), and where the
text goes."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from isa.errors import Error, IsaError, UndefinedBehavior
from simulator.cli import BAD, DONE, NO, say
from simulator.errors import ReasonedError, without_controls
from simulator.folding import fold, line_width, lines_within

if TYPE_CHECKING:
    from simulator.program import Program

FOLDER = "a file in a folder that exists"
_ROOM, _RIGHTS = "room on its disk, or a file on another", "a file in a folder that may be written"
_REMEDIES = {
    errno.ENOSPC: _ROOM,
    errno.EDQUOT: _ROOM,
    errno.EFBIG: "a smaller file, or a disk that takes files of this size",
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.EROFS: _RIGHTS,
    errno.EISDIR: "the name of a file",
    errno.ENAMETOOLONG: "a shorter name",
    errno.EIO: "a disk that can be written",
}


class UnreadableError(ReasonedError):
    """Something that a verb was given cannot be read; the exit code is 2 whatever the verb does."""


def answer(
    work: Callable[[], str | tuple[str, int]],
    written: Sequence[str | None] = (),
    *,
    illegal: int = BAD,
    output: str | None = None,
    data: bool = False,
) -> int:
    """Does the work of a verb, and prints what it returns.

    Args:
        work: writes files, if any, and returns the text for stdout, with an exit code if that is not DONE.
        written: the files that it writes; their folders must exist before the work begins, and none of them can be one
            that it reads.
        illegal: the exit code for an IsaError: NO where the verb was asked whether something is legal.
        output: a file for the text, in place of stdout.
        data: the text is for a program, not for a person: its lines stay as they are on any terminal.

    Returns:
        An exit code: DONE; NO for undefined behaviour; BAD for what cannot be read, run, shown or written. What is no
        `Error` gets out: `simulator.cli.main` tells it as a bug of tcsim.
    """
    files = [path for path in (*written, output) if path]
    try:
        check_folders(files)
        with lines_within(0 if output or data else line_width()):
            result = _guarded(work, files)
        text, code = result if isinstance(result, tuple) else (result, DONE)
        if output and code == DONE:
            from simulator.files import complete

            with complete(output) as stream:
                stream.write(text.encode())
            return DONE
    except UndefinedBehavior as error:
        say(f"undefined behaviour: {error}")
        return NO
    except Error as error:
        say(error)
        return illegal if isinstance(error, IsaError) else BAD
    except OSError as error:
        if not files:
            raise
        say(f"{' or '.join(files)}: cannot be written ({error.strerror or error}); legal: {remedy(error)}")
        return BAD
    if not data or is_terminal(sys.stdout):
        text = without_controls(text)
    sys.stdout.write(fold(text, line_width()) if line_width() and not data else text)
    return code


def remedy(error: OSError) -> str:
    """What would be right where a file cannot be written."""
    return _REMEDIES.get(error.errno or 0, FOLDER)


def _guarded(work: Callable[[], str | tuple[str, int]], files: Sequence[str]) -> str | tuple[str, int]:
    """What the work returns; it cannot read what it will write."""
    if not files:
        return work()
    from simulator.files import outputs

    with outputs(files):
        return work()


def format_of(path: str | None, given: str | None, suffixes: Mapping[str, str]) -> str:
    """The format of a text that goes to a file: the one that was asked for, or what the file's name says.

    Args:
        path: the file; None for stdout.
        given: the format that was asked for; None if none was.
        suffixes: for each way in which a name may end, such as ".svg", its format; "" is that of names without a suffix
            and of stdout.

    Raises:
        UnreadableError: a name that says another format than these, and no format was asked for.
    """
    suffix = Path(path or "").suffix.lower()
    if given is None and suffix not in suffixes:
        legal = ", ".join(end for end in suffixes if end)
        raise UnreadableError(f"{path}: there is no format for '{suffix}'", f"a name that ends in {legal}, or --format")
    return given or suffixes[suffix]


def written(content: bytes, output: str | None) -> str:
    """The content as text where it goes to stdout; nothing where it was written to a file."""
    if output is None:
        return content.decode()
    from simulator.files import complete

    with complete(output) as stream:
        stream.write(content)
    return ""


def check_folders(files: Sequence[str]) -> None:
    """UnreadableError if the folder of a file that is to be written does not exist."""
    for path in files:
        if not Path(path).resolve().parent.is_dir():
            raise UnreadableError(f"{path}: cannot be written, there is no such folder", FOLDER)


def terminal_columns(stream: TextIO) -> int:
    """How many letters a line of a terminal has: what COLUMNS says, else what the terminal does; 80 if none does."""
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and 0 < len(told) < 6 and int(told):
        return int(told)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError, AttributeError):
        return 80


def is_terminal(stream: TextIO | None) -> bool:
    """Whether what is written to a stream is seen by a person at once."""
    return stream is not None and stream.isatty()


def text_width() -> int:
    """How wide a text on stdout may be: as the terminal, or as COLUMNS says; 0, any width, for a file or a pipe.

    COLUMNS counts for a pipe, too, but not beside LINES: readline sets both for what an interactive Python starts.
    """
    asked = "COLUMNS" in os.environ and "LINES" not in os.environ
    return terminal_columns(sys.stdout) if asked or is_terminal(sys.stdout) else 0


def duration(seconds: float) -> str:
    """A time in the unit that people would say it in: "40 s", "12 minutes", "3 days"."""
    for unit, words in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:,.0f} {words}"
    return f"{seconds:.0f} s"


_RATE = 50_000  # instructions of a group of warps a second, at least, on a core of 2024
_LONG = 10  # seconds that a run may take without a word about it


def say_how_long(program: Program, faster: str) -> None:
    """Says so if the values of a program take long: they are computed instruction by instruction.

    Args:
        faster: what takes less time.
    """
    count = sum(operation.executions for code in program.codes for operation in code.operations)
    if count > _LONG * _RATE:
        words = f"about {count:,} instructions to execute for their values, up to {duration(count / _RATE)}"
        say(f"{words}; {faster}")


_BAR = 30  # characters of the bar


def draw_bar(share: float, words: str) -> None:
    """Draws on stderr how far something is, over what was drawn before; the line goes with a share of 1."""
    bar = min(_BAR, terminal_columns(sys.stderr) // 3)
    full = int(bar * share)
    shown = f"tcsim: [{'#' * full}{'.' * (bar - full)}] {without_controls(words)}"
    text = shown[: terminal_columns(sys.stderr) - 1] if share < 1 else ""
    print(f"\r{text}\x1b[K", end="", file=sys.stderr, flush=True)


class Meter:
    """Shows on a terminal how far the steps of some work are, and the time that is left; when its block ends, the line
    goes. `meter(done, count, what)` is what the work calls."""

    _EVERY = 0.1  # seconds from picture to picture

    def __init__(self) -> None:
        self.what, self.began, self.first, self.drawn = "", 0.0, 0, 0.0
        self.shows = sys.stderr is not None and sys.stderr.isatty()

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *_: object) -> None:
        if self.drawn:
            draw_bar(1.0, "")

    def note(self, words: str) -> None:
        """Shows what is being done, where nothing can be counted."""
        if self.shows:
            self.drawn = time.monotonic()
            draw_bar(0.0, words)

    def __call__(self, done: int, count: int, what: str) -> None:
        """Shows how much of what is done."""
        now = time.monotonic()
        if what != self.what or done < self.first:
            self.what, self.began, self.first = what, now, done
        elif now - self.drawn < self._EVERY:
            return
        if self.shows and done < count:
            fresh = done - self.first
            left = f", about {duration((now - self.began) / fresh * (count - done))} left" if fresh else ""
            self.drawn = now
            draw_bar(done / count, f"{done:,} of {count:,} {what}{left}")


def pairs(texts: Sequence[str], option: str, legal: str = "KEY=VALUE") -> dict[str, str]:
    """What an option `KEY=VALUE` that may be repeated says; the last of several for one key counts.

    Raises:
        UnreadableError: a text without a key or without an equals sign.
    """
    found = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not sign or not key.strip():
            raise UnreadableError(f"{option} {text}", legal)
        found[key.strip()] = value.strip()
    return found
