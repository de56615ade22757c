"""Every format in which software keeps sparsity metadata, each one mapping, and the way from any to any other.

>>> from isa.metadata_formats import convert, metadata_format
>>> import numpy as np
>>> codes = np.full((32, 16), 0b1110, np.uint32)
>>> words = convert(codes, "codes", "cutlass.sm80", type="f16")
>>> words.dtype.name, words.shape
('uint16', (128,))
>>> convert(words, "cutlass.sm80", "registers.m16n8k32", type="f16", rows=32, chunks=16).shape
(2, 1, 32)
>>> metadata_format("cutlass.sm80", "f16").formulas()["word"]
'row / 8 % 2 + 2 * (chunk / 4) + 4 * (row / 16) + 8 * (row % 8)'

docs/formats.md shows each of them.
"""

from isa.metadata_formats.formats import format_names, metadata_format, metadata_type
from isa.metadata_formats.move import convert
from isa.metadata_formats.record import EMPTY, MetadataFormat

__all__ = ["EMPTY", "MetadataFormat", "convert", "format_names", "metadata_format", "metadata_type"]
