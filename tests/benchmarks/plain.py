"""The sum of one `mma.sp` on sm_90 in plain Python integers: what the vectorised code is compared with, in speed and in
bits."""

from __future__ import annotations

import numpy as np

from isa import MmaForm, stored_columns
from isa.types import Bits

FRACTION, FLOOR = 25, -133


def plain_mma_sp(form: MmaForm, a: Bits, b: Bits, c: Bits, e: Bits) -> Bits:
    """D of f16 operands with finite values and f32 accumulators, case by case, element by element."""
    cases = []
    for case in range(len(a)):
        stored, dense, start = (
            form.a.gather(a[case]).tolist(),
            form.b.gather(b[case]).tolist(),
            form.c.gather(c[case]).tolist(),
        )
        columns = stored_columns(form.metadata.gather(e[case], 0), form.metadata.sparsity).tolist()
        rows, width = form.d.shape
        d = [
            [_element(stored[m], columns[m], [row[n] for row in dense], start[m][n]) for n in range(width)]
            for m in range(rows)
        ]
        cases.append(form.d.scatter(np.array(d, np.uint32)))
    return np.stack(cases)


def _element(row: list[int], columns: list[int], b: list[int], c: int) -> int:
    terms = []
    for pattern, column in zip(row, columns, strict=True):
        s, m, x = _f16(pattern)
        t, n, y = _f16(b[column])
        if m * n:
            terms.append(((-1) ** (s ^ t) * m * n, x + y, 20))
    sign, exponent, fraction = c >> 31, c >> 23 & 255, c & 0x7FFFFF
    if exponent or fraction:
        terms.append(((-1) ** sign * (fraction | (0x800000 if exponent else 0)), max(exponent, 1) - 127, 23))
    top = max([x for _, x, _ in terms] + [FLOOR])
    total = sum((1 if m > 0 else -1) * _shift(abs(m), x - f - top + FRACTION) for m, x, f in terms)
    return _f32(total, top - FRACTION)


def _f16(pattern: int) -> tuple[int, int, int]:
    """Sign, significand with 10 fraction bits, exponent."""
    exponent = pattern >> 10 & 31
    return pattern >> 15, pattern & 1023 | (1024 if exponent else 0), max(exponent, 1) - 15


def _shift(magnitude: int, by: int) -> int:
    return magnitude << by if by >= 0 else magnitude >> -by


def _f32(total: int, place: int) -> int:
    """total * 2^place as an f32 pattern, toward zero."""
    if not total:
        return 0
    magnitude, sign = abs(total), (total < 0) << 31
    top = max(magnitude.bit_length() - 1 + place, -126)
    if top > 127:
        return sign | 0x7F800000
    significand = _shift(magnitude, place - top + 23)
    biased = top + 127 if significand >> 23 else 0
    return sign | biased << 23 | significand & 0x7FFFFF if significand else 0
