"""Whole sparse matrices from any form to any other: dense, cuSPARSELt's buffer, PyTorch's pair, values beside metadata.

    dense               [row, K], patterns of the type
    cusparselt.buffer   uint8, what `compress` returns
    torch.matrix        values [row, K / 2] and meta, PyTorch's CUTLASS form
    torch.cslt          uint8 [row, bytes], what `torch._cslt_compress` returns
    pair:FORMAT         values [row, K / 2] and meta in a format of `isa.metadata_formats`
    FORMAT              metadata alone

Forms of two arrays are named "values" and "meta", those of one "data".
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from isa.errors import IsaError
from isa.metadata_formats import convert as convert_metadata
from isa.metadata_formats import format_names, metadata_format
from isa.metadata_formats.move import check_codes, empty_notes, settled
from simulator.errors import did_you_mean
from simulator.studies.sparselt.compression import compress, compressed_size, decompress, join, split
from simulator.studies.sparselt.matrices import Patterns, as_patterns, sparsity
from simulator.studies.sparselt.pruning import is_zero
from simulator.studies.sparselt.rounding import patterns_told
from simulator.studies.sparselt.torch_form import from_torch, to_cslt, to_torch

Arrays = Mapping[str, NDArray[np.generic]]
FORMS = ("dense", "cusparselt.buffer", "torch.matrix", "torch.cslt")
PAIR = "pair:"


def convert(
    arrays: Arrays,
    source: str,
    target: str,
    type: str,
    *,
    rows: int | None = None,
    columns: int | None = None,
    told: list[str] | None = None,
) -> dict[str, NDArray[np.generic]]:
    """A sparse matrix, or its metadata, in another form.

    Args:
        arrays: of the source form, by name.
        source, target: names of forms, see above.
        type: of the elements.
        rows, columns: of the logical matrix; needed where the arrays' shapes do not tell them.
        told: gets what there is to say of how the arrays were read.

    Raises:
        IsaError: unknown forms, arrays of another shape or type, undefined metadata, or values that metadata alone
            does not have.
    """
    for name in (source, target):
        _checked(name, type)
    chunks = None if columns is None else columns // sparsity(type).chunk
    if not _has_values(source):
        if _has_values(target):
            raise IsaError(source, -1, f"'{source}' is metadata alone: it has no values for '{target}'", "a format")
        data = np.asarray(_one(arrays, "data"))
        _integers(data, source)
        if told is not None:
            given = metadata_format(source, type).load(data, rows, chunks)
            told += empty_notes(given, metadata_format(source, type))
        return {"data": convert_metadata(data, source, target, type=type, rows=rows, chunks=chunks)}
    return _stored(_dense(arrays, source, type, rows, columns, told), target, type)


def _has_values(name: str) -> bool:
    return name in FORMS or name.startswith(PAIR)


def _checked(name: str, type: str) -> None:
    if name not in FORMS:
        known = format_names(type)
        if name.removeprefix(PAIR) not in known:
            legal = ", ".join((*FORMS, *known))
            near = did_you_mean(name, (*FORMS, *known))
            raise IsaError(name, -1, f"there is no form '{name}' of {type}{near}", f"{legal}; pair:FORMAT")


def _one(arrays: Arrays, name: str) -> NDArray[np.generic]:
    if name in arrays:
        return arrays[name]
    if len(arrays) == 1 and name == "data":
        return next(iter(arrays.values()))
    raise IsaError("", -1, f"no array '{name}' among {', '.join(arrays) or 'nothing'}", "values and meta, or one array")


def _integers(array: NDArray[np.generic], name: str) -> None:
    if array.dtype.kind not in "iu":
        raise IsaError("", -1, f"{name}: an array of type {array.dtype}", "integers")


def _dense(
    arrays: Arrays, source: str, type: str, rows: int | None, columns: int | None, told: list[str] | None
) -> Patterns:
    if source == "dense":
        return patterns_told(_one(arrays, "data"), type)
    if source == "torch.matrix":
        return from_torch(_one(arrays, "values"), _one(arrays, "meta"), type)
    if source.startswith(PAIR):
        stored, _ = as_patterns(_one(arrays, "values"), type)
        layout = metadata_format(source.removeprefix(PAIR), type)
        meta = np.asarray(_one(arrays, "meta"))
        _integers(meta, source)
        codes = layout.load(meta, len(stored), stored.shape[1] // sparsity(type).stored)
        if told is not None:
            told += empty_notes(codes, layout)
        per = sparsity(type).stored
        occupied = np.asarray(~is_zero(stored, type).reshape(len(stored), -1, per).all(axis=-1))
        codes = settled(codes, layout, occupied)
        check_codes(codes, layout)
        return join(stored, codes, type)
    data = np.asarray(_one(arrays, "data"))
    if rows is None or columns is None:
        raise IsaError("", -1, f"{source}: a buffer does not tell the shape of its matrix", "rows and columns with it")
    size = compressed_size(rows, columns, type)
    buffer = np.ascontiguousarray(data).reshape(-1).view(np.uint8)[: max(size, 1)]
    return decompress(buffer, type, rows, columns)


def _stored(dense: Patterns, target: str, type: str) -> dict[str, NDArray[np.generic]]:
    if target == "dense":
        return {"data": dense}
    if target == "cusparselt.buffer":
        return {"data": compress(dense, type)}
    if target == "torch.cslt":
        return {"data": to_cslt(dense, type)}
    if target == "torch.matrix":
        values, meta = to_torch(dense, type)
        return {"values": values, "meta": meta}
    if dense.shape[1] % sparsity(type).chunk:
        legal = f"columns in a multiple of {sparsity(type).chunk}"
        raise IsaError("", -1, f"a matrix of {dense.shape[0]} x {dense.shape[1]} {type}", legal)
    stored, codes = split(dense, type)
    words = metadata_format(target.removeprefix(PAIR), type).store(codes)
    return {"values": stored, "meta": words} if target.startswith(PAIR) else {"data": words}
