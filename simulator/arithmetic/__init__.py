"""Arithmetic of tensor cores on arrays of patterns: decoding, the chip's fused sum, the exact sum, integers, distances.

Nothing here knows about registers, lanes or metadata; `simulator.execute` brings the operands.
"""

from simulator.arithmetic.exact import exact_sum
from simulator.arithmetic.formats import Decoded, canonical_nan, decode, encode, encode_integer, infinity, integers, ulp_distance
from simulator.arithmetic.fused import fused_step, fused_sum
from simulator.arithmetic.integer import integer_sum
from simulator.arithmetic.rows import SUM_ROWS, SumRow, sum_row

__all__ = [
    "SUM_ROWS",
    "Decoded",
    "SumRow",
    "canonical_nan",
    "decode",
    "encode",
    "encode_integer",
    "exact_sum",
    "fused_step",
    "fused_sum",
    "infinity",
    "integer_sum",
    "integers",
    "sum_row",
    "ulp_distance",
]
