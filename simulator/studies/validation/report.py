"""Shows the results of validation as text: for a person, for the documentation, and for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from simulator.studies.validation.group import Group, Row
from simulator.studies.validation.summary import Result, Summary
from simulator.tables import Table, aligned

if TYPE_CHECKING:
    from pandas import DataFrame

_HEAD = ("rows", "mean", "median", "95th", "worst")


def shown(group: Group, error: float) -> str:
    """An error in the way of its group: per cent, or a number in the group's unit."""
    return f"{error:.2f}" if group.absolute else f"{error:.2%}"


def _numbers(group: Group, summary: Summary) -> tuple[str, ...]:
    return (
        str(summary.rows),
        *(shown(group, value) for value in (summary.mean, summary.median, summary.p95, summary.worst)),
    )


def table(results: Sequence[Result], worst: int) -> str:
    """The results for a terminal: all groups, then each group by its parts, with its worst rows."""
    rows = [(f"{result.config_label} {result.group.name}", *_numbers(result.group, result.all)) for result in results]
    width = max(len(result.config_label) for result in results) + max(len(result.group.name) for result in results) + 2
    lines = _listed([("config and group", *_HEAD), *rows], width)
    for result in results:
        lines += ["", "", *_section(result, worst)]
    return "\n".join(lines) + "\n"


def _section(result: Result, worst: int) -> list[str]:
    """The lines about one group: its parts and its worst rows."""
    group = result.group
    lines = [f"{group.name} on {result.config_label}: {group.title}", f"  {group.source}"]
    if group.note:
        lines.append(f"  {group.note}")
    if result.assumed:
        lines.append(f"  {resting(result)}")
    parts = [(part.part, *_numbers(group, part)) for part in (result.all, *result.parts)]
    lines += ["", *_listed([("", *_HEAD), *parts], max(len(part[0]) for part in parts) + 2, "  ")]
    rows = _worst(result, worst)
    if rows:
        width = max(len(row[0]) for row in rows) + 2
        lines += ["", *_listed([("worst rows", "measured", "simulated", "error"), *rows], width, "  ")]
    return lines


def resting(result: Result) -> str:
    """Which assumed entries of the config the simulated numbers rest on, and how many rows each."""
    tables: dict[int, list[str]] = {}
    for table, rows in result.assumed.items():
        tables.setdefault(rows, []).append(f"[{table}]")
    parts = [
        f"{', '.join(names)} ({'all rows' if rows == len(result.rows) else f'{rows} of {len(result.rows)} rows'})"
        for rows, names in tables.items()
    ]
    return f"simulated with entries of the config that are assumed: {'; '.join(parts)}"


def _worst(result: Result, count: int) -> list[tuple[str, ...]]:
    """The worst rows in words: what was run, measured, simulated, error."""
    group = result.group
    return [
        (described(row), f"{row.measured:.3f}", f"{row.simulated:.3f}", shown(group, group.error(row)))
        for row in result.worst(count)
    ]


def _listed(rows: Sequence[Sequence[str]], width: int, indent: str = "") -> list[str]:
    """A text of this width, followed by numbers."""
    return aligned(rows, "<>", widths=(width, 9), gap=" ", indent=indent)


def described(row: Row) -> str:
    """A row's label, and those of its keys that the label does not say."""
    return ", ".join(
        [
            row.label,
            *(
                f"{name} {value}"
                for name, value in row.keys
                if isinstance(value, int) and f"{name} {value}" not in row.label
            ),
        ]
    )


def markdown(results: Sequence[Result], worst: int) -> str:
    """The results for docs/validation.md: a table of all groups, then a section for each config."""
    rows = [(result.config_label, result.group.name, *_numbers(result.group, result.all)) for result in results]
    parts = [Table(("config", "group", *_HEAD), rows).markdown("<<>")]
    for name in dict.fromkeys(result.config_label for result in results):
        mine = [result for result in results if result.config_label == name]
        parts += [f"\n## {name}: {mine[0].title}\n", *(_markdown_section(result, worst) for result in mine)]
    return "".join(parts)


def _markdown_section(result: Result, worst: int) -> str:
    group = result.group
    note = f" Note: {group.note}." if group.note else ""
    if result.assumed:
        note += f" S{resting(result)[1:]}."
    rows = [(part.part, *_numbers(group, part)) for part in (result.all, *result.parts)]
    text = f"\n### {group.name}\n\n{group.title}. Source: {group.source}.{note}\n\n"
    text += Table(("part", *_HEAD), rows).markdown("<>")
    bad = [(f"`{what}`", *numbers) for what, *numbers in _worst(result, worst)]
    if bad:
        text += "\n" + Table(("worst rows", "measured", "simulated", "error"), bad).markdown("<>")
    return text


def to_frame(results: Sequence[Result]) -> DataFrame:
    """Every row of every group as one pandas DataFrame (see `Result.to_frame`)."""
    import pandas as pd

    return pd.concat([result.to_frame() for result in results], ignore_index=True)


def summary_frame(results: Sequence[Result]) -> DataFrame:
    """Config, group, part, rows, and the mean, median, 95th percentile, worst and signed mean of the errors."""
    records = [
        {"config": result.config_label, "group": result.group.name, "absolute": result.group.absolute} | asdict(part)
        for result in results
        for part in (result.all, *result.parts)
    ]
    return Table.of(records).frame()


def as_json(results: Sequence[Result]) -> str:
    """The groups as JSON, each with its summaries and every row."""
    groups = []
    for result in results:
        group = result.group
        rows = [
            {
                "label": row.label,
                **dict(row.keys),
                "measured": row.measured,
                "simulated": row.simulated,
                "error": group.error(row),
                "assumed": list(row.assumed),
            }
            for row in result.rows
        ]
        groups.append(
            {
                "config": result.config,
                "config_path": result.config_path,
                "config_overrides": result.config_overrides,
                "group": group.name,
                "title": group.title,
                "source": group.source,
                "note": group.note,
                "absolute": group.absolute,
                "summary": [asdict(part) for part in (result.all, *result.parts)],
                "rows": rows,
            }
        )
    return json.dumps({"groups": groups}, indent=1) + "\n"


def as_csv(results: Sequence[Result]) -> str:
    """Every row as CSV; keys are "name=value" in one column."""
    rows = []
    for result in results:
        for row in result.rows:
            keys = " ".join(f"{name}={value}".replace(" ", "_") for name, value in row.keys)
            numbers = (row.measured, row.simulated, result.group.error(row))
            rows.append((result.config_label, result.group.name, row.label, keys, *numbers, "; ".join(row.assumed)))
    return Table(("config", "group", "label", "keys", "measured", "simulated", "error", "assumed"), rows).csv()
