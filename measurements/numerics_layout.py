"""Where every element lies: registers of the lanes <-> matrices, as uint32 [case, word, lane] and int64 [case, row,
column] of patterns.

Written apart from `isa.fragments.registers`, from the tables measured on an H100 (November 2026) and PTX ISA 9.0,
9.7.14.5; without m8n8k4 of f16.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from measurements.numerics_forms import BITS, Form
from measurements.numerics_inputs import k_of

Registers = NDArray[np.uint32]
Integers = NDArray[np.int64]
LANES = 32
LANE = np.arange(LANES)
G, T = LANE // 4, LANE % 4


def elements(words: Registers, element: str) -> Integers:
    """[..., word, lane] -> [..., word, lane, j], lowest bits first; f64: [..., register, lane, 1], the bits as
    int64."""
    bits = BITS[element]
    if bits == 64:
        joined = words[..., 0::2, :].astype(np.uint64) | words[..., 1::2, :].astype(np.uint64) << np.uint64(32)
        return joined.view(np.int64)[..., None]
    shifts = np.arange(32 // bits) * bits
    return (words.astype(np.int64)[..., None] >> shifts) & ((1 << bits) - 1)


def matrix_a(form: Form, words: Registers) -> Integers:
    """Stored A of m16 and m8 shapes: [case, word, lane] -> [case, row, stored column]."""
    m, _, k = form.shape
    found = elements(words, form.a)
    a = np.zeros((len(words), m, k // 2 if form.sparse else k), np.int64)
    step = 2 if BITS[form.a] == 64 else 1
    for register in range(found.shape[1]):
        for j in range(found.shape[3]):
            column = np.array([k_of(form, "a", register * step, lane, j) for lane in range(LANES)])
            a[:, G + (8 * (register & 1) if m == 16 else 0), column] = found[:, register, :, j]
    return a


def matrix_b(form: Form, words: Registers) -> Integers:
    """[case, word, lane] -> [case, k, n]."""
    _, n, k = form.shape
    found = elements(words, form.b)
    b = np.zeros((len(words), k, n), np.int64)
    per = found.shape[3]
    for register in range(found.shape[1]):
        for j in range(per):
            b[:, per * T + j + 4 * per * register, G] = found[:, register, :, j]
    return b


def _places_c(form: Form, element: str) -> list[tuple[int, int, Integers, Integers]]:
    """(register, j, rows, columns) of all lanes' elements of C or D."""
    m, n, _ = form.shape
    if BITS[element] == 16:
        return [(r, j, G + 8 * r, 2 * T + j) for r in range(m // 8) for j in range(2)]
    return [(i, 0, G + 8 * (i >> 1), 2 * T + (i & 1)) for i in range(m * n // 32)]


def matrix_c(form: Form, words: Registers) -> Integers:
    found = elements(words, form.c)
    c = np.zeros((len(words), form.shape[0], form.shape[1]), np.int64)
    for register, j, rows, columns in _places_c(form, form.c):
        c[:, rows, columns] = found[:, register, :, j]
    return c


def words_d(form: Form, d: Integers) -> Registers:
    """[case, row, n] -> [case, word, lane]."""
    words = np.zeros((len(d), form.words[3], LANES), np.uint32)
    for register, j, rows, columns in _places_c(form, form.d):
        value = d[:, rows, columns].view(np.uint64)
        if BITS[form.d] == 64:
            words[:, 2 * register] = value & np.uint64(0xFFFFFFFF)
            words[:, 2 * register + 1] = value >> np.uint64(32)
        else:
            words[:, register] |= (value << np.uint64(16 * j)).astype(np.uint32)
    return words


def metadata_codes(form: Form, e: Registers, selector: int = 0) -> Integers:
    """Metadata registers [case, lane] -> 4-bit codes [case, row, chunk]. Which lane holds what: measured on an H100,
    November 2026."""
    k, bits = form.shape[2], BITS[form.a]
    chunks = k // {32: 2, 16: 4, 8: 4, 4: 8}[bits]
    row, chunk = np.arange(16)[:, None], np.arange(chunks)[None, :]
    g, h = row % 8, row // 8
    if bits >= 16:
        lane, nibble = (
            (4 * g + selector + 0 * chunk, 4 * h + chunk)
            if chunks == 4
            else (4 * g + 2 * selector + chunk // 4, 4 * h + chunk % 4)
        )
    else:
        lane, nibble = (
            (4 * g + 2 * selector + h + 0 * chunk, chunk) if chunks == 8 else (4 * g + 2 * (chunk // 8) + h, chunk % 8)
        )
    lane, nibble = np.broadcast_arrays(lane, nibble)
    return e.astype(np.int64)[:, lane] >> 4 * nibble & 15


def partners(form: Form, b: Integers, e: Registers, selector: int = 0) -> Integers:
    """B [case, k, n] -> the elements that stored A meets [case, row, n, stored column], for codes that the ordered
    spelling defines."""
    codes, bits = metadata_codes(form, e, selector), BITS[form.a]
    stored = np.arange(form.shape[2] // 2)
    if bits == 32:
        columns = 2 * stored + (codes == 0b1110)
    elif bits == 4:
        code = codes[..., stored >> 2]
        columns = 8 * (stored >> 2) + 2 * np.where(stored & 2, code >> 2, code & 3) + (stored & 1)
    else:
        code = codes[..., stored >> 1]
        columns = 4 * (stored >> 1) + np.where(stored & 1, code >> 2, code & 3)
    cases = np.arange(len(b))[:, None, None, None]
    return b[cases, columns[:, :, None, :], np.arange(b.shape[2])[None, None, :, None]]
