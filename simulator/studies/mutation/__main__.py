"""`python -m simulator.studies.mutation CAPTURE.json ...`: see `simulator.studies.mutation`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from isa.errors import Error
from simulator.program.capture import read_capture
from simulator.studies.mutation import Row, Study, Subject, again, keep, mutants, study
from simulator.studies.mutation.judge import SECONDS


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m simulator.studies.mutation",
        description="Makes mutants of right kernels, one mistake each, and tells what `tcsim check` finds of them.",
    )
    parser.add_argument("captures", nargs="+", type=Path, metavar="CAPTURE.json", help="of right kernels")
    parser.add_argument("--count", type=int, default=200, metavar="N", help="how many mutants, over all kernels")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the choice")
    parser.add_argument("--only", action="append", default=[], metavar="OPERATOR", help="this operator; repeatable")
    parser.add_argument("--format", choices=("table", "csv", "json", "markdown"), default="table")
    parser.add_argument("--workers", type=int, default=2, metavar="N", help="processes")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="S", help="of the processor that a check may take"
    )
    parser.add_argument("--list", action="store_true", help="print all mutants, equivalent ones included")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="write mutants as captures, for `tcsim check`")
    parser.add_argument(
        "--number", type=int, action="append", default=[], metavar="N", help="judge this mutant (with --keep: write it)"
    )
    parser.add_argument("--output", type=Path, metavar="FILE", help="write there; else to standard output")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0, or 2 for what cannot be used."""
    options = _options().parse_args(arguments)
    try:
        text = _listed(options) if options.list else _of_numbers(options) if options.number else _studied(options)
    except (Error, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.output:
        options.output.write_text(text)
    else:
        print(text, end="")
    return 0


def _listed(options: argparse.Namespace) -> str:
    lines = []
    for path in options.captures:
        subject = Subject(read_capture(path))
        for number, mutant in mutants(subject, options.only):
            lines.append(f"{subject.name} {number} {mutant.operator}: line {mutant.lines[0]}: {mutant.what}\n")
    return "".join(lines)


def _of_numbers(options: argparse.Namespace) -> str:
    if len(options.captures) != 1:
        raise ValueError("--number needs one capture, whose mutants are numbered")
    if options.keep is not None:
        return "".join(f"{path}\n" for path in keep(options.captures[0], options.keep, options.number))
    return _shown(again(options.captures[0], options.number, options.seconds), options.format)


def _studied(options: argparse.Namespace) -> str:
    done = study(
        options.captures,
        options.count,
        options.seed,
        workers=options.workers,
        seconds=options.seconds,
        only=options.only,
        tell=_told(),
    )
    if options.keep is not None:
        for path in options.captures:
            keep(path, options.keep, [row.number for row in done.rows if row.kernel == path.stem])
    return _shown(done, options.format)


def _shown(done: Study, how: str) -> str:
    if how in ("csv", "json"):
        return done.table().csv() if how == "csv" else done.table().json()
    tables = [done.summary(by) for by in ("kernel", "operator")]
    left_out = f"{sum(done.equivalent.values())} more were tried and left out: nothing shows that they are wrong\n"
    shown = [each.markdown() if how == "markdown" else each.text() for each in tables]
    return "\n".join([*shown, left_out])


def _told() -> Callable[[Row], None] | None:
    def tell(row: Row) -> None:
        fix = "right fix" if row.fixed else "no right fix"
        print(f"{row.kernel} {row.number} {row.operator}, line {row.line}: {row.verdict}, {fix}", file=sys.stderr)

    return tell if sys.stderr.isatty() else None


if __name__ == "__main__":
    sys.exit(main())
