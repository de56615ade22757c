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
    from simulator.timing.config import Config
    from simulator.validate import Row, Summary
    from simulator.validate_tcgen05 import Headline, Prediction, Tcgen05Row, Tcgen05Summary

DESCRIPTION = """\
Runs every measured stream of a chip through the timing model and prints the errors: all together, by form, by chains, by warps, and the worst rows.

For a chip with tcgen05 (b200, b300): every published row of tcgen05.mma (latency of one, interval of many), by kind, shape and N; then what the model
predicts for tcgen05.mma.sp, of which nothing is published.

Exit code 1 if a mean error is above its limit: --limit for cycles per instruction, --latency-limit for a latency of tcgen05.
"""
LIMITS = {"uniform": 3.0, "tcgen05": 2.5}  # percent


def configure(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    parser.add_argument("--config", default="h100_sxm", help="the GPU (default h100_sxm)")
    parser.add_argument("--limit", type=float, help="largest mean error in percent (default 3; 2.5 for tcgen05)")
    parser.add_argument("--latency-limit", type=float, default=3.0, help="largest mean error of a latency of tcgen05 in cycles (default 3)")
    parser.add_argument("--worst", type=int, default=10, help="how many of the worst rows to print (default 10)")
    parser.add_argument("--headline", action="store_true", help="tcgen05 alone: dense against sparse for f16, cta_group::2, 256 x 256, K = 4096")
    parser.add_argument("--format", choices=("table", "csv", "json"), default="table", help="csv: every row; json: the summary and every row")


def execute(options: argparse.Namespace) -> int:
    from simulator.errors import ConfigError
    from simulator.timing.config import load_config
    from simulator.validate_tcgen05 import PUBLISHED

    try:
        config = load_config(options.config)
        if options.headline:
            return _headline(options, config)
        return _tcgen05(options, config) if config.name in PUBLISHED else _uniform(options, config)
    except ConfigError as error:
        say(error)
        return BAD


def _judge(what: str, mean: float, limit: float, shown: str, shown_limit: str) -> int:
    if mean > limit:
        say(f"mean error{what} {shown} is above the limit of {shown_limit}")
        return NO
    return DONE


# Streams of mma.sync and mma.sp


def _uniform(options: argparse.Namespace, config: Config) -> int:
    from simulator.validate import groups, uniform

    rows = uniform(config)
    summaries = groups(rows)
    if options.format == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(("opcode", "chains", "warps", "measured", "simulated", "error_percent"))
        writer.writerows((r.opcode, r.chains, r.warps, r.measured, round(r.simulated, 4), round(100 * r.error, 3)) for r in rows)
    elif options.format == "json":
        print(json.dumps({"summary": [asdict(s) for s in summaries], "rows": [asdict(r) | {"error": r.error} for r in rows]}, indent=1))
    else:
        sys.stdout.write(_table(options.config, summaries, rows, options.worst))
    limit = LIMITS["uniform"] if options.limit is None else options.limit
    return _judge("", 100 * summaries[0].mean, limit, f"{summaries[0].mean:.2%}", f"{limit:g} %")


def _table(config: str, summaries: list[Summary], rows: list[Row], worst: int) -> str:
    lines = [f"uniform streams on {config}: cycles per instruction and warp, simulated against measured", ""]
    lines.append(f"{'group':<80} {'rows':>5} {'mean':>7} {'median':>7} {'95th':>7} {'worst':>7}")
    lines += [f"{s.group:<80} {s.rows:>5} {s.mean:>7.2%} {s.median:>7.2%} {s.p95:>7.2%} {s.worst:>7.2%}" for s in summaries]
    lines += ["", f"worst {worst} rows", f"{'form':<80} {'chains':>6} {'warps':>5} {'measured':>9} {'simulated':>9} {'error':>7}"]
    for row in sorted(rows, key=lambda r: -abs(r.error))[:worst]:
        lines.append(f"{row.opcode:<80} {row.chains:>6} {row.warps:>5} {row.measured:>9.3f} {row.simulated:>9.3f} {row.error:>7.2%}")
    return "\n".join(lines) + "\n"


# tcgen05


def _tcgen05(options: argparse.Namespace, config: Config) -> int:
    from simulator.validate_tcgen05 import METRICS, headline, name_of, predictions, published_rows, summaries

    rows = published_rows(config)
    found, sparse, lines = summaries(rows), predictions(config), headline(config)
    if options.format == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(("metric", "mma", "depth", "published", "simulated", "error"))
        writer.writerows((r.metric, name_of(r.mma), r.depth, r.published, round(r.simulated, 4), round(r.error, 5)) for r in rows)
    elif options.format == "json":
        report = {
            "summary": [asdict(s) for s in found],
            "rows": [asdict(r) | {"error": r.error} for r in rows],
            "predictions": [asdict(p) | {"speedup": p.speedup} for p in sparse],
            "headline": [asdict(line) for line in lines],
        }
        print(json.dumps(report, indent=1))
    else:
        sys.stdout.write(_tcgen05_table(config, found, rows, options.worst) + _sparse_table(sparse) + _headline_table(config, lines))
    limit = LIMITS["tcgen05"] if options.limit is None else options.limit
    codes = []
    for s in (s for s in found if s.group == "all"):
        what = f" ({METRICS[s.metric].split(',')[0]})"
        if s.metric == "latency":
            codes.append(_judge(what, s.mean, options.latency_limit, f"{s.mean:.2f} cycles", f"{options.latency_limit:g} cycles"))
        else:
            codes.append(_judge(what, 100 * s.mean, limit, f"{s.mean:.2%}", f"{limit:g} %"))
    return max(codes)


def _error(metric: str, error: float) -> str:
    return f"{error:.2f}" if metric == "latency" else f"{error:.2%}"


def _tcgen05_table(config: Config, found: list[Tcgen05Summary], rows: list[Tcgen05Row], worst: int) -> str:
    from simulator.validate_tcgen05 import METRICS, name_of

    lines = [f"dense tcgen05.mma on {config.name}: simulated against published rows"]
    for metric in dict.fromkeys(s.metric for s in found):
        lines += ["", METRICS[metric], f"{'group':<40} {'rows':>5} {'mean':>8} {'median':>8} {'worst':>8}"]
        some = [s for s in found if s.metric == metric]
        lines += [f"{s.group:<40} {s.rows:>5} {_error(metric, s.mean):>8} {_error(metric, s.median):>8} {_error(metric, s.worst):>8}" for s in some]
        worst_rows = sorted((r for r in rows if r.metric == metric), key=lambda r: -abs(r.error))[:worst]
        if worst_rows:
            lines += ["", f"{'worst rows':<62} {'depth':>5} {'published':>10} {'simulated':>10} {'error':>8}"]
        for row in worst_rows:
            shown = f"{row.published:>10.2f} {row.simulated:>10.2f} {_error(metric, row.error):>8}"
            lines.append(f"{name_of(row.mma):<62} {row.depth:>5} {shown}")
    return "\n".join(lines) + "\n"


def _sparse_table(sparse: list[Prediction]) -> str:
    from simulator.validate_tcgen05 import name_of

    lines = ["", "tcgen05.mma.sp: nothing is published; steady interval of one sparse MMA and of the two dense MMAs that it replaces, cycles"]
    lines.append(f"{'sparse MMA':<62} {'dense':>7} {'sparse':>7} {'speed-up':>8}  {'bound by':<10} status")
    for p in sparse:
        lines.append(f"{name_of(p.mma):<62} {p.dense:>7.1f} {p.sparse:>7.1f} {p.speedup:>8.2f}  {p.bound:<10} {p.status}")
    return "\n".join(lines) + "\n"


def _headline(options: argparse.Namespace, config: Config) -> int:
    from simulator.validate_tcgen05 import headline

    lines = headline(config)
    if options.format == "csv":
        writer = csv.DictWriter(sys.stdout, list(asdict(lines[0])), lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(line) for line in lines)
    elif options.format == "json":
        print(json.dumps([asdict(line) for line in lines], indent=1))
    else:
        sys.stdout.write(_headline_table(config, lines).lstrip("\n"))
    return DONE


def _headline_table(config: Config, lines: list[Headline]) -> str:
    text = ["", f"f16, cta_group::2, M = N = 256, K = 4096 on {config.name}, operands in place: from the first issue until the commit is seen"]
    text.append(f"{'':<45} {'MMAs':>5} {'cycles':>7} {'FMA/clk/SM':>10} {'speed-up':>8}  {'bound by':<10} status")
    for h in lines:
        text.append(f"{h.title:<45} {h.mmas:>5} {h.cycles:>7} {h.fma_per_clk_sm:>10.0f} {h.speedup:>8.2f}  {h.bound:<10} {h.status}")
    return "\n".join(text) + "\n"
