"""Converts sparsity metadata from any of the formats to any other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from isa.errors import IsaError
from isa.metadata_formats.formats import metadata_format
from isa.metadata_formats.record import EMPTY, MetadataFormat, Words
from isa.types import Bits, ElementType


def convert(
    stored: NDArray[np.integer],
    source: str,
    target: str,
    *,
    type: str | ElementType,
    rows: int | None = None,
    chunks: int | None = None,
    check: bool = True,
) -> Words:
    """Converts metadata that is stored in one format into another format.

    Args:
        stored: the array of the source format.
        source, target: names of formats, see `format_names`.
        type: of the sparse operand's elements.
        rows, chunks: of the matrix of codes; needed where the array's shape does not tell them.
        check: whether codes that mean nothing are refused.

    Raises:
        IsaError: an unknown format or type, a shape that a format does not take, or a code that is not defined.
    """
    origin = metadata_format(source, type)
    codes = origin.load(stored, rows, chunks)
    codes = settled(codes, origin)
    if check:
        check_codes(codes, origin)
    return metadata_format(target, type).store(codes)


def settled(codes: Bits, format: MetadataFormat, occupied: NDArray[np.bool_] | None = None) -> Bits:
    """Codes as `EMPTY` where software left another for a chunk without an element in this format.

    Args:
        codes: of a whole matrix [row, chunk].
        occupied: which chunks store something else than zeros; their codes stay as they are. Without it, the software
            is trusted.
    """
    if not format.empty:
        return codes
    empty = np.isin(codes, format.empty)
    if occupied is not None:
        empty &= ~occupied
    return np.where(empty, np.uint32(EMPTY), codes).astype(codes.dtype)


def empty_notes(codes: Bits, format: MetadataFormat) -> list[str]:
    """What to tell the reader of codes that `settled` takes for chunks without an element."""
    return [
        f"{count:,} of {codes.size:,} codes are {code:#06b}, which is not defined and stands for a chunk of zeros in "
        f"{format.name}: read as zeros, written as {EMPTY:#06b}"
        for code in format.empty
        if (count := int((codes == code).sum()))
    ]


def check_codes(codes: Bits, format: MetadataFormat) -> None:
    """Raises IsaError that names the first code that the pattern does not define, in either spelling of `mma.sp`."""
    wrong = ~np.isin(codes, format.sparsity.unordered)
    if wrong.any():
        row, chunk = map(int, np.argwhere(wrong)[0])
        legal = ", ".join(f"{code:#06b}" for code in format.sparsity.unordered)
        count = int(wrong.sum())
        reason = f"{count} metadata code{'s are' if count > 1 else ' is'} not defined for {format.sparsity.name}"
        raise IsaError("", -1, f"{reason}; row {row}, chunk {chunk}: {int(codes[row, chunk]):#06b}", legal)
