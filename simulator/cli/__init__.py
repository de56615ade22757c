"""The command line: `tcsim VERB`. Each verb is a module of this package, which is loaded only when it is used. Results
go to stdout, messages to stderr; exit code 0 means done, 1 that the answer is no, 2 bad use or unreadable input, 3 a
bug of tcsim."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # that of typing, without loading it
if TYPE_CHECKING:
    from typing import TextIO

DONE, NO, BAD, BUG = 0, 1, 2, 3


def say(message: object) -> None:
    """Writes one line for a person to stderr, if that is open and can be written."""
    if sys.stderr is not None:
        from simulator.errors import one_line

        try:
            print(f"tcsim: {one_line(str(message))}", file=sys.stderr, flush=True)
        except OSError:  # nobody can be told; the exit code says it all the same
            drop(sys.stderr)


def drop(stream: TextIO) -> None:
    """Keeps the interpreter from writing at its exit what could not be written to a standard stream."""
    from contextlib import suppress

    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
