"""Executes instructions on bits: counts, fields, reversals, permutations of bytes, funnel shifts. PTX ISA 9.0, 9.7.1
and 9.7.8. Operands are arrays [warp, 1, lane] of unsigned integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from isa.forms.record import Form
from simulator.execute.registry import Array, computes, executes


def width_of(values: Array) -> int:
    """The width of an array's elements in bits."""
    return values.dtype.itemsize * 8


def signed(values: Array) -> Array:
    """The same bits as signed integers."""
    return values.view(f"i{values.dtype.itemsize}")


@executes("popc")
def count_ones(a: Array) -> Array:
    """popc: the number of ones. PTX ISA 9.0, 9.7.1.14."""
    values = np.ascontiguousarray(a).view(np.uint8)
    ones = np.unpackbits(values[..., None], axis=-1).sum(axis=-1, dtype=np.uint32)
    total: Array = ones.reshape(*a.shape, -1).sum(axis=-1, dtype=np.uint32)
    return total


def highest(values: Array) -> Array:
    """The place of the highest one, int64; -1 for zero."""
    wide = values.astype(np.uint64)
    place = np.full(values.shape, -1, np.int64)
    for step in (32, 16, 8, 4, 2, 1):
        above = wide >> np.uint64(step) != 0
        place = np.where(above, place + step, place)
        wide = np.where(above, wide >> np.uint64(step), wide)
    return np.where(wide != 0, place + 1, -1)


@executes("clz")
def leading_zeros(a: Array) -> Array:
    """clz: the number of zeros above the highest one. PTX ISA 9.0, 9.7.1.15."""
    return (width_of(a) - 1 - highest(a)).astype(np.uint32)


@computes("bfind")
def find_bit(form: Form) -> Callable[[Array], Array]:
    """bfind: the place of the highest bit that is not the sign, or (shiftamt) how far it is from the top; 0xffffffff if
    there is none. PTX ISA 9.0, 9.7.1.16."""

    def find(a: Array) -> Array:
        if form.signed:
            a = np.where(signed(a) < 0, ~a, a)
        place = highest(a)
        if "shiftamt" in form.qualifiers:
            place = np.where(place < 0, -1, width_of(a) - 1 - place)
        return place.astype(np.uint32)

    return find


@executes("fns")
def find_nth(a: Array, b: Array, c: Array) -> Array:
    """fns: the place of the nth one from bit b on, upwards for c > 0, downwards for c < 0; for c = 0 bit b itself if it
    is one; else 0xffffffff. PTX ISA 9.0, 9.7.1.17. PTX leaves open what is beyond; measured on an H200, November 2026:
    for b > 31 nothing is found, and for c = -2^31 the result is 0."""
    places = np.arange(32)
    ones = a[..., None] >> places.astype(np.uint32) & 1 != 0
    base, offset = b.astype(np.int64)[..., None], signed(c).astype(np.int64)[..., None]
    up = np.where(places >= base, ones, False)
    down = np.where((places <= base) & (base < 32), ones, False)
    rank_up = np.cumsum(up, axis=-1)
    rank_down = np.cumsum(down[..., ::-1], axis=-1)[..., ::-1]
    wanted = np.where(
        offset > 0,
        up & (rank_up == offset),
        np.where(offset < 0, down & (rank_down == -offset), ones & (places == base)),
    )
    found = np.where(wanted.any(axis=-1), wanted.argmax(axis=-1), -1).astype(np.uint32)
    return np.where(c == np.uint32(1 << 31), np.uint32(0), found)


@executes("brev")
def reverse_bits(a: Array) -> Array:
    """brev: the bits in reverse order. PTX ISA 9.0, 9.7.1.18."""
    swapped = np.ascontiguousarray(a).byteswap().view(np.uint8)
    table = np.packbits(np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1), axis=1, bitorder="little")[:, 0]
    reversed_bits: Array = table[swapped].view(a.dtype)
    return reversed_bits


@computes("bfe")
def extract_field(form: Form) -> Callable[[Array, Array, Array], Array]:
    """bfe: c bits of a from bit b on; of signed types the field is extended by its highest bit, or by the sign of a
    where it reaches beyond. Of b and c the low 8 bits count (PTX ISA 9.0, 9.7.1.19); with 64 bits, which ptxas writes
    a sequence for, all of them (measured on an H200, November 2026)."""
    counted = np.uint32(255 if form.width == 32 else 0xFFFFFFFF)

    def extract(a: Array, b: Array, c: Array) -> Array:
        bits = width_of(a)
        first, length = (b & counted).astype(np.int64), (c & counted).astype(np.int64)
        top = np.minimum(first + length - 1, bits - 1)
        shifted = np.where(first < bits, a >> np.minimum(first, bits - 1).astype(a.dtype), 0).astype(a.dtype)
        kept = np.where(length >= bits, ~a.dtype.type(0), _low(length, a.dtype))
        field = shifted & kept
        if not form.signed:
            return np.where(length == 0, 0, field).astype(a.dtype)
        sign = a >> top.clip(0).astype(a.dtype) & 1 != 0
        reach = np.minimum(length, np.maximum(bits - first, 0))
        above = ~_low(reach, a.dtype)
        return np.where(length == 0, 0, np.where(sign, field | above, field & ~above)).astype(a.dtype)

    return extract


def _low(count: Array, kind: np.dtype[Any]) -> Array:
    """`count` ones from bit 0 on."""
    bits = kind.itemsize * 8
    ones = (kind.type(1) << np.minimum(count, bits - 1).astype(kind)) - kind.type(1)
    low: Array = np.where(count >= bits, ~kind.type(0), ones).astype(kind)
    return low


@executes("bfi.b32")
def insert_bits(a: Array, b: Array, position: Array, length: Array) -> Array:
    """bfi: the low `length` bits of a put into b from bit `position` on; what lies above bit 31 is dropped. Of position
    and length the low 8 bits count. PTX ISA 9.0, 9.7.1.20."""
    low = (position & 0xFF).astype(np.uint64)
    high = np.minimum(low + (length & 0xFF), 32)
    field = np.where(low < high, (np.uint64(1) << high) - (np.uint64(1) << np.minimum(low, 32)), 0)
    shifted = a.astype(np.uint64) << np.minimum(low, 32)
    return (b & ~field | shifted & field).astype(np.uint32)


@executes("bfi.b64")
def insert_field(a: Array, b: Array, position: Array, length: Array) -> Array:
    """bfi of 64 bits: the low bits of a put into b. PTX ISA 9.0, 9.7.1.20. Of position and length all bits count, as in
    the sequence that ptxas writes for it (measured on an H200, November 2026)."""
    first, count = position.astype(np.int64), length.astype(np.int64)
    reach = np.minimum(count, np.maximum(64 - first, 0))
    at = np.minimum(first, 63).astype(np.uint64)
    field = np.where(first < 64, _low(reach, a.dtype) << at, np.uint64(0))
    return b & ~field | (a << at) & field


@computes("szext")
def extend(form: Form) -> Callable[[Array, Array], Array]:
    """szext: the low b bits of a, extended by zeros or by their sign; b beyond 31 is cut to 5 bits (wrap) or means the
    whole (clamp). PTX ISA 9.0, 9.7.1.21."""
    wrap, is_signed = "wrap" in form.qualifiers, form.signed

    def run(a: Array, b: Array) -> Array:
        count = (b & 31).astype(np.int64) if wrap else np.minimum(b, 32).astype(np.int64)
        low = _low(count, a.dtype)
        sign = np.where(count > 0, a >> np.maximum(count - 1, 0).astype(a.dtype) & 1, 0) != 0
        return np.where(sign, a | ~low, a & low) if is_signed else a & low

    return run


@computes("bmsk")
def mask_of(form: Form) -> Callable[[Array, Array], Array]:
    """bmsk: b ones from bit a on; numbers beyond 31 are cut to 5 bits (wrap) or mean 32 (clamp). PTX ISA 9.0,
    9.7.1.22."""
    wrap = "wrap" in form.qualifiers

    def run(a: Array, b: Array) -> Array:
        first, count = ((x & 31) if wrap else np.minimum(x, 32) for x in (a, b))
        ones = _low(count.astype(np.int64), np.dtype(np.uint64))
        return (ones << first.astype(np.uint64)).astype(np.uint32)

    return run


@computes("shf")
def funnel_shift(form: Form) -> Callable[[Array, Array, Array], Array]:
    """shf: a (low) and b (high) as 64 bits, shifted; the high half (l) or the low half (r). PTX ISA 9.0, 9.7.8.9."""
    left, wrap = "l" in form.qualifiers, "wrap" in form.qualifiers

    def run(a: Array, b: Array, c: Array) -> Array:
        amount = ((c & 31) if wrap else np.minimum(c, 32)).astype(np.uint64)
        whole = b.astype(np.uint64) << np.uint64(32) | a
        shifted = (whole << amount) >> np.uint64(32) if left else whole >> amount
        return (shifted & np.uint64(0xFFFFFFFF)).astype(np.uint32)

    return run


def _permuted(a: Array, b: Array, selectors: Array, signs: Array | None = None) -> Array:
    """Bytes of b:a by selectors [..., 4]; where `signs` is true, copies of the byte's highest bit."""
    whole = b.astype(np.uint64) << np.uint64(32) | a
    chosen = (whole[..., None] >> (8 * selectors).astype(np.uint64) & np.uint64(255)).astype(np.uint32)
    if signs is not None:
        chosen = np.where(signs, np.where(chosen & 128, 255, 0), chosen).astype(np.uint32)
    result = np.zeros(a.shape, np.uint32)
    for place in range(4):
        result |= chosen[..., place] << np.uint32(8 * place)
    return result


@executes("prmt")
def permute(a: Array, b: Array, c: Array) -> Array:
    """prmt: each byte of d is one of the eight of b:a, or copies of its sign, as a nibble of c says. PTX ISA 9.0,
    9.7.9.7."""
    nibbles = c[..., None] >> (4 * np.arange(4, dtype=np.uint32))
    return _permuted(a, b, (nibbles & 7).astype(np.int64), nibbles & 8 != 0)


_MODES: dict[str, list[list[int]]] = {
    "f4e": [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]],
    "b4e": [[0, 7, 6, 5], [1, 0, 7, 6], [2, 1, 0, 7], [3, 2, 1, 0]],
    "rc8": [[0, 0, 0, 0], [1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3]],
    "ecl": [[0, 1, 2, 3], [1, 1, 2, 3], [2, 2, 2, 3], [3, 3, 3, 3]],
    "ecr": [[0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 2, 2], [0, 1, 2, 3]],
    "rc16": [[0, 1, 0, 1], [2, 3, 2, 3], [0, 1, 0, 1], [2, 3, 2, 3]],
}
"""For each mode and selector the bytes, that of the low end first. PTX ISA 9.0, 9.7.9.7."""


@computes(*(f"prmt.b32.{mode}" for mode in _MODES))
def permute_by_mode(form: Form) -> Callable[[Array, Array, Array], Array]:
    """prmt with a mode: the bytes of `_MODES` for the low two bits of c."""
    table = np.array(_MODES[form.qualifiers[-1]])
    return lambda a, b, c: _permuted(a, b, table[c & 3])
