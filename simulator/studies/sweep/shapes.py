"""Lists of layers: CSV files with the columns m, n and k and any others, which the sweep's table repeats.

D[m][n] = A[m][k] * B[n][k]^T: A holds the weights (m outputs, k inputs; it is what is pruned), B the activations (n
pixels or tokens). Lists that come with tcsim are named without a path: `resnet50`, `bert_large`, `llama3_8b`.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from simulator.errors import ConfigError, did_you_mean
from simulator.inputs import InputError
from simulator.resources import folder
from simulator.studies.sweep.keys import GEMM, KINDS, check_value
from simulator.tables import read_rows

SIZES = ("m", "n", "k")


def shipped() -> list[str]:
    """The names of the lists that come with tcsim."""
    return sorted(path.stem for path in (folder("configs") / "workloads").glob("*.csv"))


def read_layers(name: str) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
    """The columns and rows of a list; columns of numbers hold numbers.

    Raises:
        ConfigError: no such file, one without the columns m, n, k, or with sizes that are none.
    """
    path = folder("configs") / "workloads" / f"{name}.csv"
    if "/" in name or not path.is_file():
        path = Path(name)
    try:
        rows = read_rows(path)
    except (InputError, csv.Error) as error:
        legal = f"{', '.join(shipped())}, or the path of a CSV file with the columns m, n, k"
        why = error.reason if isinstance(error, InputError) else error
        reason = f"no such list of layers{did_you_mean(name, shipped())} ({why})"
        raise ConfigError(name, "layers", reason, legal) from None
    columns = tuple(rows[0]) if rows else ()
    missing = [size for size in SIZES if size not in columns]
    if missing:
        raise ConfigError(str(path), "", f"no column {', '.join(missing)}" if rows else "no rows", "columns m, n, k")
    for number, row in enumerate(rows):
        if None in row or None in row.values():
            reason = f"row {number + 1} has another number of cells than the first line"
            raise ConfigError(str(path), "", reason, f"{len(columns)} cells")
    read = {column: _numbers([row[column] for row in rows]) for column in columns}
    for column in columns:
        if column in KINDS[GEMM]:
            for number, value in enumerate(read[column]):
                given = _truth(value) if KINDS[GEMM][column] is bool else value
                read[column][number] = check_value(f"{path}: row {number + 1}", column, given)
    return columns, tuple(zip(*(read[column] for column in columns), strict=True))


def _truth(value: Any) -> Any:
    """A cell that says true or false as such."""
    return {"true": True, "false": False, "1": True, "0": False}.get(str(value).lower(), value)


def _numbers(cells: list[str]) -> list[Any]:
    """The cells of a column as whole numbers, as numbers, or as they are; of numbers an empty one is None."""
    for kind in (int, float):
        try:
            return [kind(cell) if cell else None for cell in cells]
        except ValueError:
            continue
    return list(cells)
