"""The table of a sweep: rows as lines of CSV, lines as DataFrames, and the whole as CSV or Parquet, part by part."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.errors import MissingDependency, ViewError
from simulator.files import complete, reading
from simulator.studies.sweep.evaluate import COLUMNS, columns
from simulator.studies.sweep.spec import Sweep

if TYPE_CHECKING:
    from pandas import DataFrame

SUFFIXES = (".csv", ".parquet")
_TYPES = {"whole": "Int64", "number": "float64", "text": "str", "truth": "boolean"}
_ROWS = 65_536  # of a row group of Parquet


def check_output(path: str | Path) -> None:
    """ViewError for a name that says no format; MissingDependency for Parquet without pyarrow."""
    if Path(path).suffix.lower() not in SUFFIXES:
        raise ViewError(f"{path}: the name of a table says its format", ", ".join(f"a name in {s}" for s in SUFFIXES))
    if Path(path).suffix.lower() == ".parquet":
        try:
            import pyarrow as _  # noqa: F401
        except ImportError:
            raise MissingDependency("pyarrow", "a Parquet file", "parquet") from None


def kinds(sweep: Sweep) -> dict[str, str]:
    """The columns of a sweep's table with their types: "whole", "number", "truth" or "text"."""
    found = dict.fromkeys(columns(sweep), "")
    seen: dict[str, set[type]] = {}
    for subject in sweep.subjects:
        for axis in subject.axes:
            for place, key in enumerate(axis.keys):
                seen.setdefault(key, set()).update(type(v[place]) for v in axis.values if v[place] is not None)
    for key in found:
        types = seen.get(key, set())
        if key not in seen:
            found[key] = COLUMNS[key]
        elif types == {bool}:
            found[key] = "truth"
        else:
            found[key] = "whole" if types == {int} else "number" if types <= {int, float} else "text"
    return found


def line_of(names: Sequence[str], row: Mapping[str, Any]) -> list[Any]:
    """The cells of a row: numbers as Python writes them, so that they are read back as they were."""
    return [row.get(name, "") for name in names]


def lines_of(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> bytes:
    """Rows as lines of CSV."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(_one_line(line_of(names, row)) for row in rows)
    return out.getvalue().encode()


def _one_line(cells: list[Any]) -> list[Any]:
    """Cells without breaks of lines, so that a row is a line."""
    return [" ".join(cell.split()) if isinstance(cell, str) and "\n" in cell else cell for cell in cells]


def head_of(names: Sequence[str]) -> bytes:
    """The first line of the CSV file."""
    return lines_of(names, [{name: name for name in names}])


def frame_of(sweep: Sweep, lines: bytes) -> DataFrame:
    """Lines of CSV as a DataFrame: whole numbers as Int64, so that a cell without an answer is `<NA>`."""
    import pandas as pd

    types = kinds(sweep)
    frame: DataFrame = pd.read_csv(
        io.BytesIO(head_of(tuple(types)) + lines),
        dtype={name: _TYPES[kind] for name, kind in types.items()},
        keep_default_na=False,
        na_values={name: [""] for name, kind in types.items() if kind != "text"},
        **_exactly(),
    )
    return frame.astype({name: object for name, kind in types.items() if kind == "text"})


def write(sweep: Sweep, parts: Iterator[bytes], output: Path) -> None:
    """Writes the table from the lines of its parts; at no time more than some of them are in memory.

    Raises:
        OSError: the file cannot be written; it is then as it was before.
    """
    with complete(output) as stream:
        if output.suffix.lower() == ".parquet":
            _write_parquet(sweep, parts, stream)
            return
        stream.write(head_of(columns(sweep)))
        for lines in parts:
            stream.write(lines)


def _write_parquet(sweep: Sweep, parts: Iterator[bytes], stream: Any) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrow: dict[str, Any] = {"whole": pa.int64(), "number": pa.float64(), "text": pa.string(), "truth": pa.bool_()}
    schema = pa.schema([(name, arrow[kind]) for name, kind in kinds(sweep).items()])
    with pq.ParquetWriter(stream, schema) as writer:
        for lines in _grouped(parts):
            table = pa.Table.from_pandas(frame_of(sweep, lines), schema, preserve_index=False)
            writer.write_table(table.replace_schema_metadata(None))


def _grouped(parts: Iterator[bytes]) -> Iterator[bytes]:
    """The lines of parts, as many together as make a row group; at least one group."""
    held: list[bytes] = []
    count = 0
    first = True
    for lines in parts:
        held.append(lines)
        count += lines.count(b"\n")
        if count >= _ROWS:
            yield b"".join(held)
            held, count, first = [], 0, False
    if held or first:
        yield b"".join(held)


def _exactly() -> dict[str, Any]:
    """What has pandas read numbers as they were written: from 3.1 on it does so by itself."""
    import pandas as pd

    return {} if tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1) else {"float_precision": "round_trip"}


def read_table(sweep: Sweep, output: Path) -> DataFrame:
    """The table of a sweep from its file, with the types that its columns have."""
    if output.suffix.lower() == ".parquet":
        import pandas as pd

        types = kinds(sweep)
        frame = pd.read_parquet(output)
        return frame.astype({name: _TYPES[kind] if kind != "text" else object for name, kind in types.items()})
    return frame_of(sweep, output.read_bytes().partition(b"\n")[2])


def read(path: str | Path) -> DataFrame:
    """A table that a sweep wrote.

    Raises:
        ViewError: a file that is no such table.
    """
    import pandas as pd

    legal = "a table that `tcsim sweep` wrote"
    reading(path)
    try:
        if Path(path).suffix.lower() == ".parquet":
            check_output(path)
            found = pd.read_parquet(path)
        else:
            found = pd.read_csv(path, keep_default_na=False, na_values=[""], **_exactly())
    except OSError as error:
        raise ViewError(f"{path}: cannot be read ({error.strerror or error})", legal) from None
    except ValueError as error:
        raise ViewError(f"{path}: no table ({error})", legal) from None
    if found.empty:
        raise ViewError(f"{path}: a table without rows", legal)
    return found
