"""Results as Parquet, with their head as metadata. Needs pyarrow (the extra `parquet`), which is loaded here alone."""

from __future__ import annotations

from pathlib import Path

from simulator.errors import ViewError
from simulator.faults.run import COLUMNS, HEAD

_BLOCK = 1 << 24  # bytes of CSV that are read together


def check_parquet() -> None:
    """ViewError without pyarrow."""
    try:
        import pyarrow.parquet as _  # noqa: F401
    except ImportError:
        raise ViewError(
            "Parquet needs pyarrow, which is not installed", "pip install 'tcsim[parquet]', or CSV alone"
        ) from None


def to_parquet(results: Path, path: Path) -> None:
    """Converts a file of results in blocks; complete, or not there."""
    import pyarrow as pa
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet

    from simulator.files import complete

    head = {}
    with results.open(encoding="utf-8") as stream:
        for line in stream:
            if not line.startswith("#"):
                break
            name, _, value = line[2:].rstrip("\n").partition(": ")
            head[name if value else HEAD] = value
    skip = arrow_csv.ReadOptions(skip_rows=len(head), block_size=_BLOCK)
    hexadecimal = dict.fromkeys(("seed", "mask", "value", "mask2"), pa.string())
    text = dict.fromkeys(("model", "site", "outcome", "reason", "detectors"), pa.string())
    real = dict.fromkeys(("max_abs", "max_rel"), pa.float64())
    types = {name: pa.int64() for name in COLUMNS.split(",")} | hexadecimal | text | real
    with (
        arrow_csv.open_csv(
            results, read_options=skip, convert_options=arrow_csv.ConvertOptions(column_types=types)
        ) as reader,
        complete(path) as out,
    ):
        schema = reader.schema.with_metadata({f"tcsim {name}": value for name, value in head.items()})
        with parquet.ParquetWriter(out, schema, compression="zstd") as writer:
            for batch in reader:
                writer.write_table(pa.Table.from_batches([batch]).replace_schema_metadata(schema.metadata))
