"""The verb `tcsim design`, which evaluates sparse cores that nobody sells."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from simulator.cli import say
from simulator.cli.answer import answer
from simulator.tables import FORMATS, Table, render

if TYPE_CHECKING:
    from simulator.studies.designs import Needs, Report

DESCRIPTION = """\
What a hypothetical sparse core gains over its dense twin, beside what its authors published, and what limits it. Of a
chip with one matrix instruction more: what each part of an SM would have to give for it.

DESIGN is one of configs/designs (without a name they are listed), or a TOML file: docs/designs.md says how to write
one. --patterns lists the sparsity patterns that there are names for.
"""
EPILOG = """\
examples:
  tcsim design                                 the designs that come with tcsim, and their largest errors
  tcsim design vegeta                          speed-ups by pattern
  tcsim design dstc --plot dstc.png            ours and the published ones as bars
  tcsim design h100_1of4                       what a 1:4 tensor core needs on an H100
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim design` to its parser."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("design", metavar="DESIGN", nargs="?", help="name or TOML file")
    parser.add_argument("--patterns", action="store_true", help="list sparsity patterns instead")
    parser.add_argument("--plot", metavar="FILE", help="draw it: .png, .svg or .pdf (needs matplotlib)")
    parser.add_argument("--format", choices=FORMATS, default="table")


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim design` with parsed options; returns the exit code."""
    return answer(lambda: _design(options), [options.plot])


def _design(options: argparse.Namespace) -> str:
    if options.patterns:
        return _rendered(_patterns(), options.format)
    if options.design is None:
        return _rendered(_designs(), options.format)
    from simulator.studies.designs import evaluate, load_design, needs

    if options.plot:
        from simulator.views.plots import check_plot

        check_plot(options.plot)
    design = load_design(options.design)
    found: Report | Needs = needs(design) if design.is_chip else evaluate(design)
    if options.plot:
        from simulator.studies.designs.plot import write_plot

        write_plot(found, options.plot)
    records = found.records()
    for line in _notes(found):
        say(line)
    if options.format != "table":
        return _rendered(Table.of(records), options.format)
    hidden = ("design", "source", "cycles", "dense_cycles")
    columns = [name for name in records[0] if name not in hidden]
    return f"{design.title}\n\n{_rendered(Table.of(records, columns), options.format)}"


def _rendered(table: Table, format: str) -> str:
    """A table in a format; numbers to four digits where a person reads them."""
    return render(table.shown() if format in ("table", "markdown") else table, format)


def _notes(found: Report | Needs) -> list[str]:
    """What a reader has to know of the numbers."""
    design = found.design
    said = [design.core_source, design.layer_source]
    lines = [f"assumed: {text.removeprefix('assumed: ')}" for text in said if text.startswith("assumed")]
    if design.fitted != "nothing":
        lines.append(f"fitted: {design.fitted}")
    return [*lines, f"not modelled: {design.lacks}"]


def _designs() -> Table:
    from simulator.studies.designs import design_names, evaluate, load_design

    rows: list[dict[str, object]] = []
    for name in design_names():
        design = load_design(name)
        worst = None if design.is_chip else evaluate(design).worst
        published = sum(case.published is not None for case in design.cases)
        error = None if worst is None else 100 * worst
        rows.append(
            {"design": name, "published_cases": published, "largest_error_percent": error, "title": design.title}
        )
    return Table.of(rows)


def _patterns() -> Table:
    from isa.patterns import PATTERNS, Sparsity, Unstructured

    return Table.of(
        {
            "pattern": name,
            "density": pattern.density,
            "encoding": "bitmap" if isinstance(pattern, Unstructured) else "indices",
            "index_bits": pattern.index_bits if isinstance(pattern, Sparsity) else None,
            "metadata_bits_per_element": pattern.metadata_bits(256, 256) / 65536,
            "source": pattern.source,
        }
        for name, pattern in PATTERNS.items()
    )
