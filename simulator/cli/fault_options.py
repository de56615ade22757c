"""Options of `tcsim faults list` that stand for keys of a [[faults]] table."""

from __future__ import annotations

import argparse
from typing import Any

from simulator.cli.verbs import positive


def add_group(parser: argparse.ArgumentParser) -> None:
    """Adds the options; each goes before the key of every group of a campaign."""
    group = parser.add_argument_group(
        "keys of the groups",
        "They go before those of the campaign file; of an opcode, a trace or a capture they are all that there is.",
    )
    group.add_argument(
        "--where", metavar="SELECTION", help="what is struck: 'op=mma.sp role=e lanes=0..1' (docs/faults_aim.md)"
    )
    group.add_argument("--site", help="the site, where --where does not name an operand")
    group.add_argument("--kind", help="the kind of fault (default flip)")
    group.add_argument(
        "--model", metavar="MODEL", help="a model of one's own: 'bits ^ (1 << bit)', or FILE.py:FUNCTION"
    )
    group.add_argument("--faults", type=positive, metavar="N", help="how many to draw (default all)")
    group.add_argument(
        "--importance", metavar="EXPRESSION", help="draw in proportion to it: weight, or 'where(bit > 22, 10, 1)'"
    )
    group.add_argument("--strata", metavar="EXPRESSION", help="draw of each of its values its part: bit, or lane // 4")
    group.add_argument("--at", metavar="TIME", help="a dynamic instruction, any, or intervals")
    group.add_argument("--target", help="the chip, such as sm_90a")
    group.add_argument("--seed", type=int, help="the campaign's seed")


def keys_of(options: argparse.Namespace) -> dict[str, Any]:
    """The keys that the options stand for."""
    names = ("where", "site", "kind", "model", "at", "target", "importance", "strata")
    keys = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    if options.faults is not None:
        keys["count"] = options.faults
    if "model" in keys:
        keys.setdefault("kind", "own")
    if keys.get("at", "").removeprefix("-").isdecimal():
        keys["at"] = int(keys["at"])
    return keys
