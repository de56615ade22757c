"""The verb `tcsim faults`, which makes lists of faults, injects them, and reports, compares and draws what they did."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isa.errors import FAULT_POLICIES
from simulator.cli import faults_claims, faults_networks, faults_results, say
from simulator.cli.answer import Meter, answer, format_of, is_terminal, written
from simulator.cli.config_option import add_config, choose_config
from simulator.cli.fault_options import add_group, keys_of
from simulator.cli.verbs import positive
from simulator.errors import without_controls
from simulator.resources import folder

if TYPE_CHECKING:
    from simulator.faults.run import Ran

_REPORTS = {".html": "html", ".md": "markdown", ".json": "json", ".txt": "table", "": "table"}
DESCRIPTION = """\
Injects faults into sparse tensor-core instructions, traces and captured launches, and says what becomes of each:
masked, silent data corruption (and how large), detected, a crash, a hang.

A campaign file (TOML, docs/faults.md) says what is injected where. `list` writes every fault as a row of CSV, `run`
injects them, `report` sums the results up, `replay` shows one fault in words. Every row says all that it takes to
inject it again; the same seed gives the same bytes, whatever the number of workers. A run that was killed goes on where
it stopped when the same command is given again.

Of a captured launch, registers are PTX's virtual ones, not those that ptxas gives a chip.
"""
EPILOG = """\
examples:
  tcsim faults list metadata --output list.csv
  tcsim faults list kernel.json --where 'op=mma.sp role=e' --faults 1000 --output list.csv
  tcsim faults run list.csv --output results.csv --workers 2
  tcsim faults report results.csv
  tcsim faults report results.csv --output report.html
  tcsim faults run list.csv --output results.csv --tolerate 'max_rel <= 1e-2 and nonfinite == 0'
  tcsim faults run list.csv --output results.csv --until-margin 0.01
  tcsim faults compare plain.csv checked.csv
  tcsim faults plot results.csv --output outcomes.pdf
  tcsim faults replay list.csv --id 137
  tcsim faults forms                             every single metadata bit of every mma.sp form
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim faults` to its parser."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listed = actions.add_parser("list", help="write the faults of a campaign")
    names = ", ".join(sorted(path.stem for path in folder("campaigns").glob("*.toml")))
    listed.add_argument(
        "campaign",
        metavar="CAMPAIGN",
        help=f"a TOML file, an opcode, a trace, a capture, or one that comes with tcsim: {names}",
    )
    listed.add_argument("--output", metavar="LIST.csv", help="write there instead of to stdout")
    listed.add_argument(
        "--count", action="store_true", help="only say how many faults each group has, and what could be struck"
    )
    add_group(listed)
    run = actions.add_parser("run", help="inject the faults of a list")
    run.add_argument("list", metavar="LIST.csv", help="what `list` wrote")
    run.add_argument(
        "--output",
        metavar="RESULTS.csv",
        required=True,
        help="a row for each fault; until all are there, parts beside it",
    )
    run.add_argument(
        "--policy",
        choices=FAULT_POLICIES,
        help="about undefined codes (default: the list's)",
    )
    run.add_argument("--workers", type=positive, default=1, help="processes (default 1)")
    run.add_argument(
        "--dask", metavar="ADDRESS", default="", help="a Dask scheduler, or 'local' (needs the extra 'cluster')"
    )
    run.add_argument("--parquet", metavar="FILE.parquet", help="write the results as Parquet, too (needs pyarrow)")
    faults_results.add_run(run)
    replayed = actions.add_parser("replay", help="show one fault of a list in words")
    replayed.add_argument("list", metavar="LIST.csv", help="what `list` wrote")
    replayed.add_argument("--id", type=int, required=True, help="number of the fault")
    replayed.add_argument("--policy", choices=FAULT_POLICIES, help="about undefined codes (default: the list's)")
    replayed.add_argument("--format", choices=("table", "json"), default="table")
    report = actions.add_parser("report", help="outcomes, detectors, heat maps of results")
    report.add_argument("results", metavar="RESULTS.csv", help="what `run` wrote")
    report.add_argument(
        "--format",
        choices=("table", "markdown", "json", "html"),
        help="default: table, or what the name of --output says",
    )
    report.add_argument("--output", metavar="FILE", help="write there instead of to stdout")
    faults_results.add_report(report)
    faults_results.add_actions(actions)
    forms = actions.add_parser("forms", help="every single bit of the metadata of every mma.sp form")
    forms.add_argument(
        "--target",
        default="sm_90a",
        help="only forms of this target (default sm_90a; 'any': each form on a target that has it)",
    )
    forms.add_argument("--cases", type=positive, default=4, help="sets of operands (default 4)")
    forms.add_argument("--seed", type=int, default=0)
    forms.add_argument("--policy", choices=FAULT_POLICIES, default="hardware")
    forms.add_argument("--format", choices=("table", "markdown", "csv"), default="table")
    cost = actions.add_parser(
        "cost", help="cycles of the detectors that take instructions, in the kernel of a GEMM tile"
    )
    cost.add_argument("--tile", default="64x64x64", metavar="MxNxK", help="default 64x64x64")
    cost.add_argument("--type", default="f16", choices=("f16", "bf16", "s8"))
    cost.add_argument("--warps", default="2x2", metavar="MxN", help="default 2x2")
    cost.add_argument("--stages", type=positive, default=4)
    add_config(cost)
    faults_networks.configure(actions)
    faults_claims.configure(actions)


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim faults` with parsed options; returns the exit code."""
    work: dict[str, Callable[[argparse.Namespace], str]] = {
        "list": _list, "run": _run, "replay": _replay, "report": _report, "forms": _forms, "cost": _cost,
        "network": faults_networks.execute, "claim": faults_claims.execute,
        "compare": faults_results.compare, "plot": faults_results.plot,
    }  # fmt: skip
    written = [getattr(options, name, None) for name in ("output", "parquet", "rows")]
    return answer(lambda: work[options.action](options), written)


def _list(options: argparse.Namespace) -> str:
    from simulator.faults.campaign import read_campaign
    from simulator.faults.table import texts, write_head
    from simulator.files import complete

    campaign = read_campaign(options.campaign, keys_of(options), options.seed)
    if options.count:
        from simulator.views.faults.counted import counted

        return counted(campaign)
    head, blocks = write_head(campaign.about(), columns=campaign.columns), campaign.faults()
    first = next(blocks)  # before anything is written: what is wrong with the campaign shows here
    parts = chain([head], ("\n".join([*texts(rows, campaign.columns), ""]) for rows in chain([first], blocks)))
    if options.output is None:
        sys.stdout.writelines(map(without_controls, parts) if is_terminal(sys.stdout) else parts)
        return ""
    with complete(options.output) as stream:
        stream.writelines(part.encode() for part in parts)
    return ""


def _run(options: argparse.Namespace) -> str:
    from simulator.faults.detectors.asked import read_asked
    from simulator.faults.judgement import read_judgement
    from simulator.faults.results import check_parquet, to_parquet
    from simulator.faults.run import run_list
    from simulator.faults.table import read_head

    if options.parquet:
        check_parquet()
    how: dict[str, Any] = {"policy": options.policy or "", "workers": options.workers, "cluster": options.dask}
    how |= {
        "judgement": read_judgement(options.tolerate or "", options.judge),
        "until": faults_results.until_of(options),
    }
    how["detect"] = read_asked(options.detect)
    start = time.monotonic()
    with Meter() as show:
        show.note(f"reading {options.list}")
        faults = read_head(Path(options.list))
        ran = run_list(faults, Path(options.output), progress=show, **how)
        if options.parquet:
            to_parquet(Path(options.output), Path(options.parquet), show)
    of = f" of {faults.rows:,}" if how["until"] is not None else ""
    say(f"{ran.injected:,}{of} faults in {time.monotonic() - start:.1f} s{_again(ran)}{_peak()}")
    return ""


def _again(ran: Ran) -> str:
    """What an earlier run had left, in words."""
    kept = f", {ran.resumed:,} of them from an earlier run" if ran.resumed else ""
    parts = "part of it was damaged, and was" if ran.spoilt == 1 else "parts of it were damaged, and were"
    return kept + (f"; {ran.spoilt:,} {parts} done again" if ran.spoilt else "")


def _peak() -> str:
    """The most memory that this process, or one that it started, has held, in words; nothing where that is unknown."""
    try:
        import resource
    except ImportError:  # Windows
        return ""
    most = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return f"; {most >> (20 if sys.platform == 'darwin' else 10)} MB in the largest process"


def _replay(options: argparse.Namespace) -> str:
    from simulator.faults.run import subject_of
    from simulator.faults.table import read_head
    from simulator.views.faults.replay import fault_of, replay, text

    faults = read_head(Path(options.list))
    shown = replay(subject_of(faults, options.policy or ""), fault_of(faults, options.id))
    return json.dumps(shown, indent=1) + "\n" if options.format == "json" else text(shown)


def _report(options: argparse.Namespace) -> str:
    from simulator.studies.faults import report
    from simulator.studies.faults.summary import summarise

    format = format_of(options.output, options.format, _REPORTS)
    summary = summarise(options.results)
    makers = {"table": report.as_text, "markdown": report.as_markdown, "json": report.as_json, "html": report.as_html}
    asked = report.Asked(options.confidence, options.by_case, options.fit_per_bit)
    return written(makers[format](summary, asked).encode(), options.output)


def _forms(options: argparse.Namespace) -> str:
    from simulator.studies.faults.forms import as_csv, as_markdown, as_text, every_form

    with Meter() as show:
        rows = every_form(options.target, options.cases, options.seed, options.policy, show)
    return {"table": as_text, "markdown": as_markdown, "csv": as_csv}[options.format](rows)


def _cost(options: argparse.Namespace) -> str:
    from isa import IsaError
    from simulator.studies.faults.cost import as_text, costs
    from simulator.studies.gemm.tile import Tile

    sizes = options.tile.split("x"), options.warps.split("x")
    if [len(part) for part in sizes] != [3, 2] or not all(size.isdecimal() for part in sizes for size in part):
        raise IsaError(
            f"{options.tile}, {options.warps}", -1, "no tile", "--tile MxNxK --warps MxN, such as 64x64x64 and 2x2"
        )
    (m, n, k), (warps_m, warps_n) = (map(int, part) for part in sizes)
    tile = Tile(options.type, m, n, k, warps_m, warps_n, options.stages)
    choose_config(options)
    return as_text(costs(tile, options.config), tile, options.config)
