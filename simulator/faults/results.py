"""Files of results: CSV with a head of comments, read into pandas, and as Parquet.

    >>> import pandas
    >>> from simulator.faults.results import read_results          # doctest: +SKIP
    >>> frame = read_results("results.csv")                        # doctest: +SKIP

`pandas.read_csv(path, comment="#")` reads the same rows; `read_results` also turns masks and seeds into numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simulator.errors import TraceError, ViewError
from simulator.faults import outcomes, table
from simulator.faults.table import HEXADECIMAL, Kind, read_head

RESULTS = Kind(
    "# tcsim fault results 1",
    (*table.COLUMNS, *(name for name, _ in outcomes.FIELDS[1:])),
    "file of results",
    "tcsim faults run",
)
TEXT = ("model", "site", "outcome", "reason", "detectors")
_TYPES = {name: f"{kind[0]}{8 * int(kind[1])}" for name, kind in (*table.FIELDS, *outcomes.FIELDS)}
_NUMPY = {"i": "int", "u": "uint", "f": "float"}
BLOCK = 1 << 16  # rows that are read together


def read_results(path: str | Path) -> Any:
    """All rows of a file of results as a pandas DataFrame: `id` to `class_changed`, masks and seeds as numbers;
    `frame.attrs` is the head. Errors as `blocks`."""
    import pandas as pd

    found = read_head(Path(path), RESULTS)
    frame = pd.concat(blocks(Path(path)), ignore_index=True)
    frame.attrs = dict(found.about)
    return frame


def blocks(path: Path, about: dict[str, str] | None = None) -> Iterator[Any]:
    """The same in blocks.

    Args:
        about: gets the head.

    Raises:
        TraceError: no file of results, or one that is cut short or damaged.
    """
    import pandas as pd

    found = read_head(path, RESULTS)
    if about is not None:
        about.update(found.about)
    types: dict[str, Any] = {
        name: str if name in TEXT else f"{_NUMPY[kind[0]]}{kind[1:]}"
        for name, kind in _TYPES.items()
        if name not in HEXADECIMAL
    }
    how: dict[str, Any] = {
        "skiprows": len(found.about) + 1, "dtype": types, "converters": dict.fromkeys(HEXADECIMAL, _hexadecimal),
        "keep_default_na": False, "chunksize": BLOCK, "index_col": False,
    }  # fmt: skip
    try:
        with pd.read_csv(path, **how) as reader:
            for frame in reader:
                yield frame.astype({name: f"{_NUMPY[_TYPES[name][0]]}{_TYPES[name][1:]}" for name in HEXADECIMAL})
    except (ValueError, OverflowError) as error:
        legal = "results that 'tcsim faults run' wrote"
        raise TraceError(str(path), 0, 0, f"is no file of results ({error})".replace("\n", " "), legal) from None


def _hexadecimal(text: str) -> int:
    return int(text, 16)


def check_parquet() -> None:
    """ViewError without pyarrow."""
    try:
        import pyarrow.parquet as _  # noqa: F401
    except ImportError:
        raise ViewError(
            "Parquet needs pyarrow, which is not installed", "pip install 'tcsim[parquet]', or CSV alone"
        ) from None


def to_parquet(results: Path, path: Path) -> None:
    """Converts a file of results in blocks; complete, or not there. The head becomes metadata."""
    import pyarrow as pa
    from pyarrow import parquet

    from simulator.files import complete

    writer = None
    about: dict[str, str] = {}
    with complete(path) as out:
        for frame in blocks(results, about):
            batch = pa.Table.from_pandas(frame, preserve_index=False)
            batch = batch.replace_schema_metadata(
                {f"tcsim {name}": value for name, value in ({RESULTS.head: ""} | about).items()}
            )
            writer = writer or parquet.ParquetWriter(out, batch.schema, compression="zstd")
            writer.write_table(batch)
        if writer is not None:
            writer.close()
