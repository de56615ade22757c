"""Checks what callers pass: texts, names and arrays of bit patterns. What is wrong is an `IsaError` that says what was
given and what would be right; nothing is cut to fit."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isa.errors import IsaError


def text_of(value: object, what: str, example: str) -> str:
    """The value, which must be a text.

    Args:
        what: what the value stands for, as in "an opcode".
        example: a right value.

    Raises:
        IsaError: it is no text.
    """
    if isinstance(value, str):
        return value
    raise IsaError("", -1, f"{described(value)} in place of {what}", f"a text, such as {example!r}")


def bit_patterns(values: ArrayLike, bits: int, what: str) -> NDArray[np.unsignedinteger[Any]]:
    """The values as unsigned integers: uint64 for patterns of 64 bits, uint32 for all others.

    Args:
        bits: width of a pattern; no bit above it may be set.
        what: what the values are, as in "operand a".

    Raises:
        IsaError: numbers that are no integers, or that take more bits.
    """
    array = unmasked(values, what)
    word = np.uint64 if bits > 32 else np.uint32
    most = (1 << bits) - 1
    if array.dtype.kind not in "ui" and array.size:
        reason = f"{what} of type {array.dtype}, where bit patterns are wanted"
        raise IsaError("", -1, reason, f"unsigned integers of at most {bits} bits, such as array.view('u{bits // 8}')")
    limit = np.iinfo(array.dtype).max if array.dtype.kind == "u" else -1
    if array.size and not 0 <= limit <= most:
        wrong = (array < 0) | (array > most) if array.dtype.kind == "i" else array > most
        if wrong.any():
            place = tuple(int(index) for index in np.argwhere(wrong)[0])
            value = int(array[place])
            where = f" at {place}" if place else ""
            raise IsaError("", -1, f"{what}: {value:#x}{where} is no pattern of {bits} bits", f"0 to {most:#x}")
    return array.astype(word, copy=False)


def integer(value: object, first: int, last: int, what: str) -> int:
    """The value as a number from `first` to `last`; IsaError, in which `what` names it, for anything else."""
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError  # True is no number of anything
        number = operator.index(value)  # type: ignore[arg-type] # anything: what is no number raises
    except TypeError:
        raise IsaError("", -1, f"{what} {value!r:.40}, {described(value)}", f"{first:,} to {last:,}") from None
    if not first <= number <= last:
        raise IsaError("", -1, f"{what} {number:,}", f"{first:,} to {last:,}")
    return number


def flag(value: object, what: str) -> bool:
    """The value, which must be True or False; IsaError, in which `what` names it, for anything else."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise IsaError("", -1, f"{what} {value!r:.40}, {described(value)}", "True or False")


def unmasked(values: ArrayLike, what: str) -> NDArray[Any]:
    """The values as an array; IsaError for a numpy.ma array of which elements are masked, since what stands below a
    mask is no value."""
    if isinstance(values, np.ma.MaskedArray):
        if np.ma.is_masked(values):
            reason = f"{what}: {int(np.sum(np.ma.getmaskarray(values))):,} elements are masked"
            raise IsaError("", -1, reason, "values for all of them, such as array.filled(0)")
        return np.asarray(values.data)
    return np.asarray(values)


def described(value: object) -> str:
    """A value of a wrong type in words, as in "a value of type int"."""
    return "None" if value is None else f"a value of type {type(value).__name__}"
