"""The record of validation errors: a file with each group's rows, mean and worst error, separately for the short and
the full form. A new validation is compared with it to see what has become worse.

The engine gives the same cycles everywhere, so a figure may be above the recorded one by rounding only.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simulator.errors import ConfigError
from simulator.files import complete
from simulator.inputs import InputError, read_text
from simulator.resources import folder
from simulator.studies.validation.summary import Result

DIGITS = 5
_LEGAL = "a file that `tcsim validate --record` wrote"
Recorded = dict[str, dict[str, dict[str, dict[str, float]]]]  # form, config, group, figure


def shipped() -> Path:
    """The path of the record that comes with tcsim."""
    return folder("configs") / "measurements" / "errors.json"


def read_record(path: Path) -> Recorded:
    """Reads a record; ConfigError if the file is not there, or is no record."""
    try:
        content: Any = json.loads(read_text(path, _LEGAL, replaced=True))
    except InputError as error:
        raise ConfigError(str(path), "", error.reason, _LEGAL) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(str(path), "", f"is no JSON ({error})", _LEGAL) from None
    for form, configs in _items(path, "", content):
        for config, groups in _items(path, form, configs):
            for group, figures in _items(path, f"{form}.{config}", groups):
                _check_figures(path, f"{form}.{config}.{group}", figures)
    return dict(content)


def _items(path: Path, key: str, table: Any) -> list[tuple[str, Any]]:
    """The entries of a table of the record; ConfigError if it is none."""
    if not isinstance(table, dict):
        raise ConfigError(str(path), key, f"{table!r}"[:60], _LEGAL)
    return list(table.items())


def _check_figures(path: Path, key: str, figures: Any) -> None:
    """ConfigError if the figures of a group are not those of a record."""
    good = isinstance(figures, dict) and figures.keys() == {"rows", "mean", "worst"}
    if not good or any(not isinstance(value, int | float) or isinstance(value, bool) for value in figures.values()):
        raise ConfigError(str(path), key, f"{figures!r}"[:60], _LEGAL)


def write_record(path: Path, results: Sequence[Result], form: str, *, replace: bool = False) -> None:
    """Writes the figures of these groups into a record, which is made if it is not there. With `replace` they take the
    place of all others of this form.

    Raises:
        ConfigError: the file is no record.
        OSError: it cannot be written.
    """
    record = read_record(path) if path.exists() else {}
    if replace:
        record[form] = {}
    for result in results:
        figures = {
            "rows": result.all.rows,
            "mean": round(result.all.mean, DIGITS),
            "worst": round(result.all.worst, DIGITS),
        }
        record.setdefault(form, {}).setdefault(result.config, {})[result.group.name] = figures
    with complete(path) as stream:
        stream.write((json.dumps(record, indent=1, sort_keys=True) + "\n").encode())


def worse(record: Recorded, results: Sequence[Result], form: str) -> list[str]:
    """One line for each figure that has become worse: a larger mean or worst error, fewer rows, or a group that was not
    recorded."""
    lines = []
    for result in results:
        where, figures = (
            f"{result.group.name} on {result.config}",
            record.get(form, {}).get(result.config, {}).get(result.group.name),
        )
        if figures is None:
            lines.append(f"{where}: no {form} record; legal: record it with --record")
            continue
        if result.all.rows < figures["rows"]:
            lines.append(f"{where}: {result.all.rows} rows, {figures['rows']} recorded")
        for name, value in (("mean", result.all.mean), ("worst", result.all.worst)):
            if value > figures[name] + 10**-DIGITS:
                lines.append(
                    f"{where}: {name} error {_shown(result, value)} has grown, "
                    f"recorded is {_shown(result, figures[name])}"
                )
    return lines


def _shown(result: Result, error: float) -> str:
    return f"{error:.4f}" if result.group.absolute else f"{error:.3%}"


def missing(record: Recorded, results: Sequence[Result], form: str) -> list[str]:
    """One line for each recorded group of those configs that was not run."""
    run = {(result.config, result.group.name) for result in results}
    recorded = [(config, group) for config, groups in record.get(form, {}).items() for group in groups]
    return [
        f"{group} on {config}: recorded, but there is no such group"
        for config, group in recorded
        if (config, group) not in run
    ]
