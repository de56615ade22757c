"""Fault models of one's own: an expression such as `bits ^ (1 << bit)`, or a Python function.

What an expression may name, and what a function may take as arguments (all, or some of them), each an int64 array with
an entry for each fault:

    bits     the element as it is, a number of `width` bits
    bit      which bit of it is struck
    width    how many bits it has
    random   a random number below 2^width, from the fault's seed

The result is the element as it becomes; of it the lowest `width` bits count, so that `~bits` and `bits + 1` are models.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits
from simulator.errors import ConfigError
from simulator.faults.spread import lowest
from simulator.numpy_expression import ExpectationError, evaluate
from simulator.user_functions import called, function_of

NAMES = ("bits", "bit", "width", "random")
_LEGAL = "a function of int64 arrays that gives whole numbers: def model(bits, bit, width, random)"


@dataclass(frozen=True)
class OwnModel:
    """A fault model of one's own.

    Attributes:
        text: the expression, or "FILE.py:FUNCTION".
        path: what errors name: the campaign file, or the list.
        digest: of the file that has the function, from the list; "" for none.
    """

    text: str
    path: str = "campaign"
    digest: str = ""

    @property
    def file(self) -> Path | None:
        """The file that has the function; None for an expression."""
        name, colon, function = self.text.rpartition(":")
        if not colon or not name.endswith(".py") or not function.isidentifier():
            return None
        near = Path(self.path).parent / name
        return near if near.is_file() else Path(name)

    def plain(self) -> dict[str, str]:
        """The model as plain values, for the head of a list."""
        file = self.file
        return {"model": self.text} | ({} if file is None else {"model_sha256": _digest(self._text(file))})

    def check(self) -> None:
        """ConfigError if the function cannot be loaded, or is not the one that a list was made for."""
        _ = self.function

    def of(self, words: Bits, masks: Bits, bit: Any, seeds: Any) -> Bits:
        """What becomes of words uint32 [fault] under masks, each of which is one run of bits."""
        low = lowest(masks).astype(np.int64)
        width = np.bitwise_count(masks).astype(np.int64)
        bits = (words.astype(np.int64) & masks.astype(np.int64)) >> low
        random = (seeds >> np.uint64(32)).astype(np.int64) & ((np.int64(1) << width) - 1)
        values = dict(zip(NAMES, (bits, np.asarray(bit, np.int64), width, random), strict=True))
        found = self._whole(self._computed(values), len(bits))
        return ((found & ((np.int64(1) << width) - 1)) << low).astype(np.uint32)

    def _computed(self, values: dict[str, NDArray[np.int64]]) -> Any:
        function = self.function
        if function is None:
            try:
                return evaluate(self.text, values)
            except ExpectationError as error:
                raise self._wrong(
                    error.reason, f"an expression of {', '.join(NAMES)}, such as bits ^ (1 << bit)"
                ) from None
        try:
            arguments = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):  # of a builtin
            raise self._wrong("does not say which arguments it takes", _LEGAL) from None
        for one in arguments:
            if one.name not in values or one.kind not in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
                reason = f"'{one.name}' is no argument of a model that is given by name"
                raise self._wrong(reason, f"arguments among {', '.join(NAMES)}")
        return called(
            function, str(self.file or self.path), _LEGAL, **{one.name: values[one.name] for one in arguments}
        )

    def _whole(self, found: Any, count: int) -> NDArray[np.int64]:
        """What a model gave as int64 [fault]; one number stands for each. ConfigError for anything else."""
        legal = "whole numbers: the bits of the element, for each fault or one for all"
        try:
            array = np.asarray(found)
        except (TypeError, ValueError):  # lists of unlike lengths
            raise self._wrong("gives no array", legal) from None
        if array.dtype.kind not in "iub":
            raise self._wrong(f"gives {array.dtype}", legal)
        if array.shape not in ((), (count,)):
            raise self._wrong(f"gives {list(array.shape)} numbers for {count} faults", legal)
        return np.broadcast_to(array.astype(np.int64), (count,))

    @cached_property
    def function(self) -> Callable[..., Any] | None:
        """The function of the file; None for an expression. ConfigError if it cannot be loaded, or is not the one that
        a list was made for."""
        file = self.file
        if file is None:
            return None
        text, name = self._text(file), self.text.rpartition(":")[2]
        if self.digest and _digest(text) != self.digest:
            raise self._wrong(f"{file} has changed since the list was made", "the same file, or a new list")
        return function_of(text, str(file), name, _LEGAL)

    def _text(self, file: Path) -> str:
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise self._wrong(f"{file} cannot be read ({error})", "a Python file beside the campaign") from None

    def _wrong(self, reason: str, legal: str) -> ConfigError:
        return ConfigError(self.path, "model", reason if self.text in reason else f"'{self.text}': {reason}", legal)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
