"""The words that name a product whose checksums are checked: `--detect 'abft=D:100,50,64=A @ B'`.

    abft                        the layer of a trace of traces/digits
    abft=D                      the array D that is stored, which has rows and columns
    abft=D:100,50,64            100 rows of 50 columns, each of 64 elements, from the beginning of D
    abft=D:100,50,64=A @ B      what it should be: an expression of the inputs, or a file d.npy or x.npz:d

The parts are those of `tcsim launch --arg` and `tcsim check --expect`. In an expression floats are float64 and integers
int64, so that nothing is rounded before the sums are made.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import ConfigError
from simulator.inputs import ArrayFile, InputError
from simulator.numpy_expression import ExpectationError, evaluate

LEGAL = "abft=NAME:ROWS,COLUMNS,LD=WHAT, such as 'abft=D:100,50,64=A @ B'; NAME alone for an array of two dimensions"
_TEXT = re.compile(r"([A-Za-z_]\w*)(?::(\d{1,9}),(\d{1,9}),(\d{1,9}))?(?:\s*=(?!=)(.+))?", re.DOTALL)
_MEMBER = re.compile(r"(?P<file>.+\.npz):(?P<member>.+)", re.DOTALL)
Reals = NDArray[np.float64]


@dataclass(frozen=True)
class NamedProduct:
    """A product among what a program stores.

    Attributes:
        name: of the stored array; "" for the one that is known.
        shape: rows, columns and leading dimension in elements; None for those of the array.
        what: what it should be, in words; "" for what exact sums give.
    """

    name: str = ""
    shape: tuple[int, int, int] | None = None
    what: str = ""

    @property
    def is_file(self) -> bool:
        """Whether a file says what the product should be."""
        return self.what.endswith(".npy") or _MEMBER.fullmatch(self.what) is not None

    def names(self) -> set[str]:
        """The names in the expression."""
        return set() if self.is_file else {n.id for n in ast.walk(ast.parse(self.what)) if isinstance(n, ast.Name)}

    def should(self, inputs: Mapping[str, Any], shape: tuple[int, ...]) -> Reals:
        """What the product should be, float64 [row, column]; ConfigError for a file or an expression that has no
        such matrix."""
        try:
            found = self._read() if self.is_file else evaluate(self.what, {k: _wide(v) for k, v in inputs.items()})
            array = np.asarray(found, np.float64)
        except (ExpectationError, InputError) as error:
            reason = f"'{self.what}' {error.reason}" if isinstance(error, InputError) else error.reason
            raise ConfigError("--detect", "abft", reason, error.legal) from None
        except (TypeError, ValueError):
            raise ConfigError("--detect", "abft", f"'{self.what}' is no array of numbers", LEGAL) from None
        if array.shape != shape:
            given, wanted = (" x ".join(map(str, each)) or "a number" for each in (array.shape, shape))
            raise ConfigError("--detect", "abft", f"'{self.what}' is {given}", f"{wanted}, as {self.name or 'D'}")
        return array

    def _read(self) -> NDArray[Any]:
        member = _MEMBER.fullmatch(self.what)
        if member is not None:
            return ArrayFile(member["file"], "a file written by numpy.savez").read(member["member"])
        return ArrayFile(self.what, "a file written by numpy.save").read()


def _wide(value: Any) -> Any:
    """A number or an array in the widest type of its sort."""
    if not isinstance(value, np.ndarray) or value.dtype == np.uint64:
        return value
    return value.astype({"f": np.float64, "i": np.int64, "u": np.int64}.get(value.dtype.kind, value.dtype))


def read_product(text: str) -> NamedProduct:
    """The product that a text names, behind `abft=`, or "" for the known one; ConfigError for one that names none."""
    if not text.strip():
        return NamedProduct()
    named = _TEXT.fullmatch(text.strip())
    if named is None:
        raise ConfigError("--detect", "abft", f"'{text.strip()}' names no product", LEGAL)
    shape = (int(named[2]), int(named[3]), int(named[4])) if named[2] else None
    if shape is not None and not (shape[0] and shape[1]):
        raise ConfigError("--detect", "abft", f"'{text.strip()}' has no element", LEGAL)
    what = (named[5] or "").strip()
    product = NamedProduct(named[1], shape, what)
    if what and not product.is_file:
        try:
            ast.parse(what, mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ConfigError("--detect", "abft", f"'{what}' is no expression", LEGAL) from None
    return product
