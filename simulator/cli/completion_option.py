"""The option --completion: when the asynchronous operations of a launch complete."""

from __future__ import annotations

import argparse

HELP = (
    "when asynchronous operations complete: issue (default), earliest, latest, or seed:N; where it is not at issue, "
    "missing waits and fences are named"
)


def add_completion(parser: argparse.ArgumentParser) -> None:
    """Adds --completion to a parser."""
    parser.add_argument("--completion", type=_completion, default="issue", metavar="WHEN", help=HELP)


def _completion(text: str) -> str:
    if text != "issue":  # what reads it takes long to import
        from isa.errors import IsaError
        from simulator.execute.policy import LEGAL, parse_policy

        try:
            parse_policy(text)
        except IsaError:
            raise argparse.ArgumentTypeError(f"'{text}'; legal: {LEGAL}") from None
    return text
