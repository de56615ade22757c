"""`tcsim run TRACE`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simulator.cli import BAD, DONE, NO, say

DESCRIPTION = """\
Runs a trace on one SM: the values bit for bit as the chip computes them, and the cycles that it takes.

TRACE is a file, or the name of one that comes with tcsim (digits/f16, digits/bf16, digits/tf32, digits/s8, digits/e4m3).
--config is the name of a config that comes with tcsim (h100_sxm, a100, b200, b300, jetson_thor), a TOML file, or none for values alone.
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("trace", metavar="TRACE")
    parser.add_argument("--config", default="h100_sxm", help="the GPU (default h100_sxm)")
    parser.add_argument("--format", choices=("table", "json", "csv"), default="table")
    parser.add_argument("--output", metavar="FILE.npz", help="write the arrays of the trace's .store statements")
    parser.add_argument(
        "--arithmetic", choices=("chip", "exact", "none"), default="chip", help="chip: its own bits; exact: rounded once; none: time alone"
    )
    parser.add_argument(
        "--undefined",
        choices=("hardware", "raise"),
        default="hardware",
        help="what to do about undefined behaviour (default: as measured on hardware)",
    )
    parser.add_argument(
        "--compare", type=_count, metavar="N", help="compare the first N matrix instructions with the exact result (default 20000; 0: none)"
    )
    parser.add_argument("--no-skip", action="store_true", help="simulate every repetition of a loop (the same cycles, slower)")


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not a number of instructions; legal: 0 or more")
    return int(text)


def execute(options: argparse.Namespace) -> int:
    from isa import UndefinedBehavior
    from simulator.errors import ConfigError, DeadlockError, TraceError
    from simulator.runner import run
    from simulator.trace.functional import COMPARED

    if options.output and not Path(options.output).resolve().parent.is_dir():
        say(f"{options.output}: cannot be written, there is no such folder; legal: a file in a folder that exists")
        return BAD
    compare = COMPARED if options.compare is None else options.compare
    try:
        report = run(
            options.trace, options.config, arithmetic=options.arithmetic, undefined=options.undefined, compare=compare, skip=not options.no_skip
        )
        if options.output:
            _write(options.output, report.arrays)
    except UndefinedBehavior as error:
        say(f"undefined behaviour: {error}")
        return NO
    except (ConfigError, DeadlockError, TraceError) as error:
        say(error)
        return BAD
    except OSError as error:
        say(f"{options.output}: cannot be written ({error.strerror or error}); legal: a file in a folder that exists")
        return BAD
    sys.stdout.write({"table": report.table, "json": lambda: report.json() + "\n", "csv": report.csv}[options.format]())
    return DONE


def _write(path: str, arrays: Mapping[str, Any]) -> None:
    import numpy as np

    from simulator.files import complete

    with complete(path) as stream:
        np.savez_compressed(stream, **arrays)
