"""Arrays as users have them: of numpy, of ml_dtypes and of PyTorch, and what these call the types.

Neither of the two packages is needed: an array of theirs brings what it takes to read it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isa.arguments import unmasked

_NAMES = {
    "float16": "f16",
    "half": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "int8": "s8",
    "int32": "s32",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
    "float4_e2m1fn": "e2m1",
}
_PATTERNS = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn")  # types that numpy itself does not have


@dataclass(frozen=True, eq=False)
class Given:
    """An array of numpy, and what it holds.

    Attributes:
        array: any array; unsigned patterns where `own` is named.
        own: name of the type of the patterns, where the array's type says it; else "".
    """

    array: NDArray[Any]
    own: str = ""

    def reshape(self, *shape: int) -> Given:
        """The same in another shape."""
        return Given(self.array.reshape(*shape), self.own)


def type_name(type: Any) -> str:
    """The name that is used here for an element type: that of a name, a numpy type, or one of ml_dtypes or PyTorch.

    >>> type_name("bfloat16"), type_name(np.float16), type_name("e4m3")
    ('bf16', 'f16', 'e4m3')
    """
    if isinstance(type, str):
        name = type
    else:
        found = getattr(type, "name", None) or getattr(type, "__name__", None)
        name = found if isinstance(found, str) else str(type)
    name = name.removeprefix("torch.")
    return _NAMES.get(name, name)


def taken(matrix: ArrayLike | Given) -> Given:
    """An array as numpy has it; of ml_dtypes and PyTorch as patterns where numpy has no such numbers."""
    if isinstance(matrix, Given):
        return matrix
    module = type(matrix).__module__.partition(".")[0]
    if module == "torch" and hasattr(matrix, "detach"):
        return _tensor(matrix, sys.modules[module])
    array = unmasked(matrix, "the matrix")
    if array.dtype.type.__module__.partition(".")[0] != "ml_dtypes":
        return Given(array)
    name = array.dtype.name
    if name not in _PATTERNS:
        return Given(array.astype(np.float64))
    words = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
    return Given(words & 15 if name == "float4_e2m1fn" else words, _NAMES[name])


def _tensor(tensor: Any, torch: Any) -> Given:
    """A tensor on the host, without its history."""
    found = tensor.detach().cpu().contiguous()
    name = str(found.dtype).removeprefix("torch.")
    if name not in _PATTERNS:
        return Given(np.asarray(found.numpy()))
    bits = 16 if name == "bfloat16" else 8
    words = np.asarray(found.view(torch.int16 if bits == 16 else torch.uint8).numpy())
    return Given(words.view(f"u{bits // 8}"), _NAMES[name])
