"""`tcsim validate`."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from simulator.cli import BAD, DONE, NO, say

if TYPE_CHECKING:
    from simulator.validate import Row, Summary

DESCRIPTION = """\
Runs every measured stream of a chip through the timing model and prints the errors: all together, by form, by chains, by warps, and the worst rows.

Exit code 1 if the mean error is above --limit (default 3 percent).
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("--config", default="h100_sxm", help="the GPU (default h100_sxm)")
    parser.add_argument("--limit", type=float, default=3.0, help="largest mean error in percent (default 3)")
    parser.add_argument("--worst", type=int, default=10, help="how many of the worst rows to print (default 10)")
    parser.add_argument("--format", choices=("table", "csv", "json"), default="table", help="csv: every row; json: the summary and every row")


def execute(options: argparse.Namespace) -> int:
    from simulator.errors import ConfigError
    from simulator.timing.config import load_config
    from simulator.validate import groups, uniform

    try:
        rows = uniform(load_config(options.config))
    except ConfigError as error:
        say(error)
        return BAD
    summaries = groups(rows)
    if options.format == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(("opcode", "chains", "warps", "measured", "simulated", "error_percent"))
        writer.writerows((r.opcode, r.chains, r.warps, r.measured, round(r.simulated, 4), round(100 * r.error, 3)) for r in rows)
    elif options.format == "json":
        print(json.dumps({"summary": [asdict(s) for s in summaries], "rows": [asdict(r) | {"error": r.error} for r in rows]}, indent=1))
    else:
        sys.stdout.write(_table(options.config, summaries, rows, options.worst))
    if 100 * summaries[0].mean > options.limit:
        say(f"mean error {summaries[0].mean:.2%} is above the limit of {options.limit:g} %")
        return NO
    return DONE


def _table(config: str, summaries: list[Summary], rows: list[Row], worst: int) -> str:
    lines = [f"uniform streams on {config}: cycles per instruction and warp, simulated against measured", ""]
    lines.append(f"{'group':<80} {'rows':>5} {'mean':>7} {'median':>7} {'95th':>7} {'worst':>7}")
    lines += [f"{s.group:<80} {s.rows:>5} {s.mean:>7.2%} {s.median:>7.2%} {s.p95:>7.2%} {s.worst:>7.2%}" for s in summaries]
    lines += ["", f"worst {worst} rows", f"{'form':<80} {'chains':>6} {'warps':>5} {'measured':>9} {'simulated':>9} {'error':>7}"]
    for row in sorted(rows, key=lambda r: -abs(r.error))[:worst]:
        lines.append(f"{row.opcode:<80} {row.chains:>6} {row.warps:>5} {row.measured:>9.3f} {row.simulated:>9.3f} {row.error:>7.2%}")
    return "\n".join(lines) + "\n"
