"""What reductions of tensors make of the elements in memory and those of a copy, for each type of a tensor."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from isa.forms.tensor_copies import REDUCTIONS
from simulator.execute.atomics import update_of

Bytes = NDArray[np.uint8]


def turns(memory: NDArray[np.int64]) -> list[NDArray[np.intp]]:
    """Groups of the pieces at these addresses, one after the other, of which none has two at one address: where
    dimensions of a tensor overlap, a reduction reads and writes an element more than once."""
    order = np.argsort(memory, kind="stable")
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = np.diff(memory[order]) != 0
    if fresh.all():
        return [np.arange(len(order))]
    places = np.arange(len(order))
    turn = places - np.maximum.accumulate(np.where(fresh, places, 0))
    return [order[turn == number] for number in range(int(turn.max()) + 1)]


_WORDS = ("add", "min", "max", "and", "or", "xor")
REDUCED: dict[str, tuple[str, ...]] = {
    "u8": (), "u16": (), "u32": REDUCTIONS, "s32": _WORDS, "u64": _WORDS, "s64": ("min", "max"),
    **dict.fromkeys(("f16", "bf16"), ("add", "min", "max")),
    **dict.fromkeys(("f32", "f32.ftz", "tf32", "tf32.ftz", "f64"), ("add",)),
}  # fmt: skip
"""The reductions of each type of tensor; measured on an H200: all others are illegal instructions."""


def reduced(kind: str, operation: str, old: Bytes, new: Bytes) -> Bytes:
    """What a reduction writes, uint8 [element, byte]. Measured on an H200: types with .ftz flush subnormal operands and
    results; a minimum or maximum of a number and NaN is the number."""
    update, element = update_of(
        kind.split(".", maxsplit=1)[0].replace("tf32", "f32"), operation, flushes=kind.endswith("ftz")
    )
    a, b = (np.ascontiguousarray(data).view(element)[:, 0] for data in (old, new))
    with np.errstate(all="ignore"):
        found = np.ascontiguousarray(update(a, b).astype(element, copy=False))
    data: Bytes = found[:, None].view(np.uint8)
    return data
