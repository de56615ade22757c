"""How verbs answer: what errors mean (one line on stderr, and an exit code), and where the text goes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from simulator.cli import BAD, DONE, NO, say


def answer(work: Callable[[], str], written: Sequence[str] = ()) -> int:
    """Does the work of a verb that runs traces, and prints what it returns.

    Args:
        work: writes files, if any, and returns what is for stdout.
        written: the files.

    Returns:
        An exit code: DONE, NO for undefined behaviour, BAD for what cannot be read, run, shown or written.
    """
    from isa.errors import Error, UndefinedBehavior

    try:
        text = work()
    except UndefinedBehavior as error:
        say(f"undefined behaviour: {error}")
        return NO
    except Error as error:
        say(error)
        return BAD
    except OSError as error:
        if not written:
            raise
        say(
            f"{' or '.join(written)}: cannot be written ({error.strerror or error}); legal: a file in a folder that exists"
        )
        return BAD
    sys.stdout.write(text)
    return DONE


def written(text: str, path: str | None) -> int:
    """Writes a text to a file, complete or not at all, or to stdout where there is no path; an exit code."""
    from simulator.files import complete

    if path is None:
        sys.stdout.write(text)
        return DONE
    try:
        with complete(path) as stream:
            stream.write(text.encode())
    except OSError as error:
        say(f"{path}: cannot be written ({error.strerror or error}); legal: a file in a folder that exists")
        return BAD
    return DONE
