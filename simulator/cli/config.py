"""The verb `tcsim config`, which lists configs, their values, and what may be set."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.cli.answer import UnreadableError, answer
from simulator.cli.config_option import add_set

if TYPE_CHECKING:
    from simulator.chip.entries import Entry

DESCRIPTION = """\
Lists the values of a config: key, value, legal values, what each means, and where its table's numbers come from.
Without NAME, the configs that come with tcsim.

NAME is one of them or a TOML file. KEY is a table (shared), rows of one (tensor.sparse_full_k: all whose names begin
so), or a value (chip.sms, tensor.*.interval). --set changes values, as for every other verb; --format toml writes the
whole config with all that it inherits and all that is set.
"""
EPILOG = """\
examples:
  tcsim config
  tcsim config h100_sxm shared sm
  tcsim config h100_sxm tensor.sparse_full_k --set tensor.sparse_full_k.interval=4
  tcsim config h100_sxm --set name=wide --set shared.latency=30 --format toml --output wide.toml
"""
FORMATS = ("table", "csv", "json", "toml")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the options of `tcsim config` to its parser."""
    parser.description, parser.epilog = DESCRIPTION, EPILOG
    parser.add_argument("name", metavar="NAME", nargs="?", help="a config that comes with tcsim, or a TOML file")
    parser.add_argument("keys", metavar="KEY", nargs="*", help="show these alone")
    add_set(parser)
    parser.add_argument("--format", choices=FORMATS, default="table")
    parser.add_argument("--output", metavar="FILE", help="write to a file")


def execute(options: argparse.Namespace) -> int:
    """Runs `tcsim config` with parsed options; returns the exit code."""
    return answer(lambda: _config(options), output=options.output)


def _config(options: argparse.Namespace) -> str:
    from simulator.chip.config import load_config
    from simulator.chip.entries import as_toml, entries, select

    if options.name is None:
        if options.overrides or options.format == "toml":
            raise UnreadableError("no config to set or to write", "tcsim config NAME")
        return _configs(options.format)
    if options.format == "toml":
        if options.keys:
            raise UnreadableError(f"--format toml of {options.keys[0]} alone", "--format toml of the whole config")
        return as_toml(options.name, options.overrides)
    config = load_config(options.name, options.overrides)
    found = select(entries(options.name, options.overrides), options.keys, config.label)
    if options.format == "table":
        bases = f", based on {', '.join(config.bases)}" if config.bases else ""
        return f"{config.label}: {config.title}, {config.target}{bases}\n\n{_text(found)}"
    return _rendered([_record(entry) for entry in found], options.format)


def _configs(form: str) -> str:
    """The configs that come with tcsim."""
    from simulator.chip.config import config_names, load_config

    configs = [load_config(name) for name in config_names()]
    records = [
        {
            "config": config.name,
            "target": str(config.target),
            "sms": config.chip.sms,
            "clock_mhz": config.chip.clock_mhz,
            "base": Path(config.bases[0]).stem if config.bases else "",
            "title": config.title,
        }
        for config in configs
    ]
    return _rendered(records, form)


def _rendered(records: list[dict[str, Any]], form: str) -> str:
    from simulator.tables import Table, render

    return render(Table.of(records), form)


def _record(entry: Entry) -> dict[str, Any]:
    value = list(entry.value) if isinstance(entry.value, tuple) else entry.value
    named = {"key": entry.key, "value": value, "legal": entry.legal, "meaning": entry.meaning}
    return named | {"status": entry.status, "source": entry.source}


def _text(found: list[Entry]) -> str:
    """For a person: each table with its source, and a line for each value."""
    from simulator.chip.layers import toml_value
    from simulator.tables import aligned

    lines: list[str] = []
    for table in dict.fromkeys(entry.table for entry in found):
        mine = [entry for entry in found if entry.table == table]
        rows = [
            (
                entry.key.rpartition(".")[2],
                "-" if entry.value is None else toml_value(entry.value),
                f"{entry.meaning.rstrip('.')} [{entry.legal}]",
            )
            for entry in mine
        ]
        lines += [f"[{table}] {mine[0].source}", *aligned(rows, "<><", indent="  "), ""]
    return "\n".join(lines)
