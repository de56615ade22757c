"""What validation found, as text: for a person, for the documentation, for programs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict

from simulator.studies.validation.group import Group, Row
from simulator.studies.validation.summary import Result, Summary

_HEAD = ("rows", "mean", "median", "95th", "worst")


def shown(group: Group, error: float) -> str:
    """An error as its group gives it: per cent, or a number in the group's unit."""
    return f"{error:.2f}" if group.absolute else f"{error:.2%}"


def _numbers(group: Group, found: Summary) -> tuple[str, ...]:
    return (str(found.rows), *(shown(group, value) for value in (found.mean, found.median, found.p95, found.worst)))


def table(results: Sequence[Result], worst: int) -> str:
    """For a terminal: all groups, then each by its parts, with its worst rows."""
    width = max(len(result.config) for result in results) + max(len(result.group.name) for result in results) + 2
    lines = [f"{'config and group':<{width}}" + _right(_HEAD)]
    lines += [
        f"{f'{result.config} {result.group.name}':<{width}}" + _right(_numbers(result.group, result.all))
        for result in results
    ]
    for result in results:
        lines += ["", "", *_section(result, worst)]
    return "\n".join(lines) + "\n"


def _section(result: Result, worst: int) -> list[str]:
    group = result.group
    lines = [f"{group.name} on {result.config}: {group.title}", f"  {group.source}"]
    if group.note:
        lines.append(f"  {group.note}")
    parts = (result.all, *result.parts)
    width = max(len(found.part) for found in parts) + 2
    lines += ["", f"  {'':<{width}}" + _right(_HEAD)]
    lines += [f"  {found.part:<{width}}" + _right(_numbers(group, found)) for found in parts]
    rows = result.worst(worst)
    if rows:
        width = max(len(described(row)) for row in rows) + 2
        lines += ["", f"  {'worst rows':<{width}}" + _right(("measured", "simulated", "error"))]
        for row in rows:
            numbers = (f"{row.measured:.3f}", f"{row.simulated:.3f}", shown(group, group.error(row)))
            lines.append(f"  {described(row):<{width}}" + _right(numbers))
    return lines


def _right(texts: Sequence[str]) -> str:
    return "".join(f"{text:>10}" for text in texts)


def described(row: Row) -> str:
    """A row's label and those of its keys that the label does not say."""
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
    """For docs/validation.md: a table of all groups, then a section for each config."""
    lines = [
        "| config | group | rows | mean | median | 95th | worst |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for result in results:
        lines.append(f"| {_cells(result.config, result.group.name, *_numbers(result.group, result.all))} |")
    for name in dict.fromkeys(result.config for result in results):
        mine = [result for result in results if result.config == name]
        lines += ["", f"## {name}: {mine[0].title}"]
        for result in mine:
            lines += _markdown_section(result, worst)
    return "\n".join(lines) + "\n"


def _markdown_section(result: Result, worst: int) -> list[str]:
    group = result.group
    note = f" Note: {group.note}." if group.note else ""
    lines = ["", f"### {group.name}", "", f"{group.title}. Source: {group.source}.{note}", ""]
    lines += ["| part | rows | mean | median | 95th | worst |", "| --- | ---: | ---: | ---: | ---: | ---: |"]
    lines += [f"| {_cells(found.part, *_numbers(group, found))} |" for found in (result.all, *result.parts)]
    rows = result.worst(worst)
    if rows:
        lines += ["", "| worst rows | measured | simulated | error |", "| --- | ---: | ---: | ---: |"]
        for row in rows:
            numbers = (f"{row.measured:.3f}", f"{row.simulated:.3f}", shown(group, group.error(row)))
            lines.append(f"| {_cells(f'`{described(row)}`', *numbers)} |")
    return lines


def _cells(*texts: str) -> str:
    return " | ".join(texts)


def as_json(results: Sequence[Result]) -> str:
    """The groups, each with its summaries and every row."""
    found = []
    for result in results:
        group = result.group
        rows = [
            {
                "label": row.label,
                **dict(row.keys),
                "measured": row.measured,
                "simulated": row.simulated,
                "error": group.error(row),
            }
            for row in result.rows
        ]
        found.append(
            {
                "config": result.config,
                "group": group.name,
                "title": group.title,
                "source": group.source,
                "note": group.note,
                "absolute": group.absolute,
                "summary": [asdict(part) for part in (result.all, *result.parts)],
                "rows": rows,
            }
        )
    return json.dumps({"groups": found}, indent=1) + "\n"


def as_csv(results: Sequence[Result]) -> str:
    """Every row; keys as "name=value" in one column."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("config", "group", "label", "keys", "measured", "simulated", "error"))
    for result in results:
        for row in result.rows:
            keys = " ".join(f"{name}={value}".replace(" ", "_") for name, value in row.keys)
            numbers = (row.measured, round(row.simulated, 4), round(result.group.error(row), 5))
            writer.writerow((result.config, result.group.name, row.label, keys, *numbers))
    return out.getvalue()
