"""The action `tcsim faults claim`: a published claim about faults, tried on the networks that come with tcsim."""

from __future__ import annotations

import argparse
from typing import Any

from simulator.cli.faults_networks import TYPES
from simulator.cli.verbs import positive
from simulator.errors import ViewError

NAMES = ("ft-sparse", "anatomy", "single-bit")
MOST = 100_000  # faults of a set in a layer
LEAST_IMAGES = 256  # whole tiles of 64 columns on both sides, where a layer has one column an image


def configure(actions: Any) -> None:
    """Adds the action to those of `tcsim faults`."""
    parser = actions.add_parser("claim", help="a published claim about faults, tried here")
    parser.add_argument("claim", metavar="CLAIM", choices=NAMES, help=", ".join(NAMES))
    parser.add_argument("--type", action="append", choices=TYPES, help="of the layers; may be repeated")
    parser.add_argument("--faults", type=positive, help="of each set in each layer")
    parser.add_argument("--seed", type=int, default=0, help="of the draws (default 0)")
    parser.add_argument("--images", type=positive, default=0, help="how many of the test images (default: all 384)")
    parser.add_argument("--format", choices=("table", "csv", "json", "markdown"), default="table")


def execute(options: argparse.Namespace) -> str:
    """The text of `tcsim faults claim`."""
    from simulator.studies.faults.claims.report import CLAIMS, text
    from simulator.tables import render

    claim = CLAIMS[options.claim]
    types, faults = options.type or claim.types, options.faults or claim.faults
    if faults > MOST:
        raise ViewError(f"{faults:,} faults of each set", f"at most {MOST:,}")
    if not 0 <= options.seed < 1 << 63:
        raise ViewError(f"seed {options.seed}", f"0 to {(1 << 63) - 1}")
    if 0 < options.images < LEAST_IMAGES:
        raise ViewError(f"{options.images} images", f"at least {LEAST_IMAGES}: half of them set tolerances")
    outcome = claim.tried(types, faults, options.seed, options.images)
    if options.format == "table":
        return text(claim, outcome, types, faults, options.seed)
    return render(outcome.table, options.format)
