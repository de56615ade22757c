"""The arithmetic of tensor cores on arrays of bit patterns: decoding patterns, adding products as a chip does or
exactly, and measuring how far two results are apart.

Nothing here knows about registers or lanes; `simulator.execute` brings the operands.
"""

from simulator.arithmetic.batch import add, add_f64
from simulator.arithmetic.compiled import kernel_name
from simulator.arithmetic.exact import exact_sum
from simulator.arithmetic.formats import (
    Decoded,
    canonical_nan,
    decode,
    encode,
    encode_integer,
    infinity,
    integers,
    ulp_distance,
)
from simulator.arithmetic.product import product
from simulator.arithmetic.rows import SUM_ROWS, SumRow, SumRule, find_row, sum_row
from simulator.arithmetic.sums import Operands, Sum

__all__ = [
    "SUM_ROWS",
    "Decoded",
    "Operands",
    "Sum",
    "SumRow",
    "SumRule",
    "add",
    "add_f64",
    "canonical_nan",
    "decode",
    "encode",
    "encode_integer",
    "exact_sum",
    "find_row",
    "infinity",
    "integers",
    "kernel_name",
    "product",
    "sum_row",
    "ulp_distance",
]
