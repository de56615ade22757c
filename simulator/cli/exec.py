"""The verb `tcsim exec`, which runs a CUDA program against a simulated GPU."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from simulator.cli import NO, say
from simulator.cli.answer import UnreadableError, answer
from simulator.cli.completion_option import add_completion
from simulator.cli.config_option import add_config, choose_config
from simulator.cli.verbs import positive
from simulator.errors import without_controls
from simulator.files import complete

if TYPE_CHECKING:
    from simulator.host.running import Result

DESCRIPTION = """\
Runs a program that nvcc compiled, on a machine without a GPU: its kernels run on the simulated chip, its calls of the
CUDA runtime are answered here. A launch that cannot be run fails in the program with a CUDA error that stays, and its
buffers are filled with 0xDB.

Compile with: nvcc -cudart shared -gencode arch=compute_90a,code=compute_90a

Exit code: the program's own; with --check 1 if anything was found; 2 for a program that cannot be run, with a line that
says what would work.
"""
EPILOG = """\
examples:
  tcsim exec -- ./vector_add
  tcsim exec --config a100 --verbose -- ./spmm --m 256 --n 256
  tcsim exec --capture captures -- ./spmm && tcsim launch captures/launch0000.json
  tcsim exec --check -- ./spmm                       races and other mistakes of every launch, on stderr at the end
  tcsim exec --check --findings findings.json -- ./spmm
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim exec` to its parser."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("command", nargs="+", metavar="PROGRAM", help="the program and its arguments, behind --")
    add_config(parser)
    parser.add_argument("--sms", type=positive, metavar="N", help="SMs of the chip (--set chip.sms=N)")
    parser.add_argument("--capture", metavar="FOLDER", help="keep each launch as a capture, for 'tcsim launch'")
    parser.add_argument("--time", action="store_true", help="time each launch on the chip: what events then say")
    parser.add_argument(
        "--check", action="store_true", help="check each launch, as 'tcsim check' does, on its memory before it runs"
    )
    parser.add_argument("--findings", metavar="FILE.json", help="write what --check finds to a file, as JSON")
    add_completion(parser)
    parser.add_argument("--workers", type=positive, metavar="N", help="processes (default: one for each core)")
    parser.add_argument(
        "--budget", type=positive, metavar="N", help="warp instructions after which a launch is given up (default 2e10)"
    )
    parser.add_argument("--verbose", action="store_true", help="a line for each launch on stderr")


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim exec` with parsed options; returns the exit code."""
    return answer(lambda: _exec(options), [options.findings])


def _exec(options: argparse.Namespace) -> tuple[str, int]:
    if options.sms:
        options.overrides.append(f"chip.sms={options.sms}")
    choose_config(options)
    if options.findings and not options.check:
        raise UnreadableError("--findings without --check", "tcsim exec --check --findings FILE.json -- ./program")
    from simulator.host.running import run

    result = run(
        options.command,
        config=options.config,
        capture=options.capture,
        workers=options.workers or 0,
        timed=options.time,
        verbose=options.verbose,
        completion=options.completion,
        budget=options.budget,
        checked=options.check,
    )
    return "", _told(result, options.findings)


def _told(result: Result, file: str | None) -> int:
    """Tells what was found in the launches; the exit code."""
    if result.check is None:
        return result.code
    if file:
        with complete(file) as stream:
            stream.write(result.check.json().encode())
        say(result.check.verdict)
    elif sys.stderr is not None:
        sys.stderr.write(without_controls(result.check.table()))
    return result.code if result.check.clean else NO
