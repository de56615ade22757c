"""The command line: `tcsim VERB`. Each verb is a module of this package, which is loaded only when it is used. Results
go to stdout, messages to stderr; exit code 0 means done, 1 that the answer is no, 2 bad use or unreadable input."""

from __future__ import annotations

import sys

DONE, NO, BAD = 0, 1, 2


def say(message: object) -> None:
    """Writes one line for a person to stderr, if that is open."""
    if sys.stderr is not None:
        from simulator.errors import one_line

        print(f"tcsim: {one_line(str(message))}", file=sys.stderr)
