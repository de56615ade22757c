"""Files of results, one row for each injected fault: CSV with a head of comments, which this module reads into pandas
and converts to Parquet. Files that an earlier version wrote have fewer columns; what they lack gets defaults.

`pandas.read_csv(path, comment="#")` reads the rows as they are written; `read_results(path)` also turns masks and seeds
into numbers, and keeps the head as `frame.attrs`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simulator.errors import MissingDependency, TraceError
from simulator.faults import outcomes, table
from simulator.faults.table import HEXADECIMAL, FaultList, Kind, read_head
from simulator.progress import Progress, unseen

_FIELDS = dict((*table.FIELDS, *table.MORE, *outcomes.FIELDS))
_DEFAULTS: Mapping[str, Any] = {
    **{
        name: table.NAMED[name][int(value)] if name in table.NAMED else np.dtype(_FIELDS[name]).type(value)
        for name, value in table.DEFAULTS.items()
    },
    "bits": 0, "pattern": outcomes.PATTERNS[0], "judged": outcomes.JUDGED[0], "accuracy": -1,
    "corrections": "", "left_ulp": 0, "left_abs": 0.0,
}  # fmt: skip
"""Columns that a file of results need not have, and what stands for them."""
RESULTS = Kind("# tcsim fault results 1", tuple(_FIELDS), "file of results", "tcsim faults run", tuple(_DEFAULTS))
_TEXT = ("model", "site", "along", "outcome", "reason", "detectors", "pattern", "judged", "corrections")
_BLOCK = 1 << 16  # rows that are read together


def read_results(path: str | Path) -> Any:
    """All rows of a file of results as a pandas DataFrame, with the columns of `RESULTS`. TraceError for a file that is
    of another kind, cut short or damaged."""
    import pandas as pd

    results = read_head(path, RESULTS)
    frame = pd.concat(blocks(results), ignore_index=True)
    frame.attrs = dict(results.about)
    return frame


def blocks(found: FaultList, columns: Sequence[str] = RESULTS.columns) -> Iterator[Any]:
    """The rows of a file of results in blocks, each a DataFrame with these columns; the head of the file has been read
    already. Columns that the file does not have hold what stands for them."""
    import pandas as pd

    there = [name for name in found.columns if name in columns]
    hexadecimal = [name for name in HEXADECIMAL if name in there]
    numbers = {name: np.dtype(kind) for name, kind in _FIELDS.items() if name not in _TEXT}
    types: dict[str, Any] = {name: numbers.get(name, str) for name in there if name not in hexadecimal}
    how: dict[str, Any] = {
        "skiprows": len(found.about) + 1, "dtype": types, "converters": dict.fromkeys(hexadecimal, _hexadecimal),
        "keep_default_na": False, "chunksize": _BLOCK, "index_col": False, "usecols": there,
    }  # fmt: skip
    absent = {name: _DEFAULTS[name] for name in columns if name not in there}
    try:
        with pd.read_csv(found.path, **how) as reader:
            for frame in reader:
                yield frame.astype({name: numbers[name] for name in hexadecimal}).assign(**absent)[list(columns)]
    except (ValueError, OverflowError) as error:
        reason = f"is no file of results ({error})".replace("\n", " ")
        raise TraceError(str(found.path), 0, 0, reason, "results that 'tcsim faults run' wrote") from None


def _hexadecimal(text: str) -> int:
    return int(text, 16)


def check_parquet() -> None:
    """MissingDependency if pyarrow is not installed."""
    try:
        import pyarrow.parquet as _  # noqa: F401
    except ImportError:
        raise MissingDependency("pyarrow", "Parquet", "parquet") from None


def to_parquet(results: Path, path: Path, progress: Progress = unseen) -> None:
    """Converts a file of results to Parquet, in blocks. The file is complete, or not there; its metadata is the
    head."""
    import pyarrow as pa
    from pyarrow import parquet

    from simulator.files import complete

    head, writer, done = read_head(results, RESULTS), None, 0
    about = {f"tcsim {name}": value for name, value in ({RESULTS.head: ""} | head.about).items()}
    with complete(path) as out:
        for frame in blocks(head):
            batch = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(about)
            writer = writer or parquet.ParquetWriter(out, batch.schema, compression="zstd")
            writer.write_table(batch)
            done += len(frame)
            progress(done, head.rows, "rows of Parquet")
        if writer is not None:
            writer.close()
