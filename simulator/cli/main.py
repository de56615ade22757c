"""Where the command line begins: runs a verb, and says in one line what ends it early.

What this module imports is little, so that an interruption while everything else is loaded is told in one line, too;
one while Python itself starts, its first 0.03 s, ends with Python's words.
"""

from __future__ import annotations

import os
import signal
import sys

from simulator.cli import BAD, BUG, DONE, drop, say

INTERRUPTED = 130  # the exit code after Ctrl-C, as shells have it
TRACEBACK = "TCSIM_TRACEBACK"
"""In the environment: the traceback of a bug is shown."""
_WORDS = 300  # letters of an error that are told
_heard: list[int] = []  # signals of Ctrl-C


def command() -> int:
    """What a process of the command line runs: `main`, with Ctrl-C as one line from here to the end of Python."""

    def hear(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once, without a word
        _heard.append(number)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, and stays so
        signal.signal(signal.SIGINT, hear)
    try:
        return main()
    finally:
        if signal.getsignal(signal.SIGINT) is hear:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def main(arguments: list[str] | tuple[str, ...] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    try:
        if sys.stdout is None:
            say("standard output is closed, so there is nowhere to write to; legal: an open one, such as > /dev/null")
            return BAD
        if sys.stdout.errors == "strict":  # names of files may hold what the terminal's encoding has not
            sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr] # a TextIOWrapper, whose errors are strict
        from simulator.cli.verbs import run_verb

        try:
            return run_verb(list(sys.argv[1:] if arguments is None else arguments))
        finally:  # after --help and --version, too, which end by SystemExit
            sys.stdout.flush()
    except BrokenPipeError:  # the reader of our output has gone: not an error
        drop(sys.stdout)
        return DONE
    except KeyboardInterrupt:
        return _interrupted()
    except OSError as error:  # what files are concerned, `answer` tells
        drop(sys.stdout)
        say(f"standard output cannot be written: {error.strerror or error}")
        return BAD
    except MemoryError as error:
        say(f"there is not enough memory for this ({error or 'none was left'}); legal: less at a time, or more memory")
        return BAD
    except Exception as error:
        if _heard:
            return _interrupted()  # an extension that was being loaded has made another error of it
        return _bug(error)


def _bug(error: Exception) -> int:
    """Says that tcsim itself is wrong, where, and how to report it; returns the exit code."""
    import re
    import traceback

    told = str(error.__cause__)  # in another process, whose traceback came with it
    frames = told if "Traceback" in told else "".join(traceback.format_tb(error.__traceback__))
    mine = re.findall(r'File ".*?((?:simulator|isa)[/\\][^"]*)", line (\d+)', frames)
    place = f" in {mine[-1][0]}, line {mine[-1][1]}" if mine else ""
    if os.environ.get(TRACEBACK):
        traceback.print_exception(error)
        how = "with the command, its files and the lines above"
    else:
        how = f"with the command, its files and what {TRACEBACK}=1 in the environment shows"
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    say(f"internal error{place}: {what[:_WORDS]}; this is a bug of tcsim: please open an issue {how}")
    return BUG


def _interrupted() -> int:
    """Says so; returns the exit code."""
    say("interrupted")
    return INTERRUPTED
