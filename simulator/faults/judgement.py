"""What makes a corruption critical: a threshold of one's own (an expression over the columns of results), or a function
of the output (a Python file). Files of results say in their head which it was.

    tcsim faults run LIST --output RESULTS --tolerate 'max_rel <= 1e-2 and nonfinite == 0'
    tcsim faults run LIST --output RESULTS --judge judge.py

where `judge.py` defines

    def critical(got, golden):  # values [fault, row, column]: float64; integers int64; untyped words uint32
        return (np.abs(got - golden) > 1).any(axis=(1, 2))  # bool [fault]

A fault that corrupts the result silently is judged, no other: `tolerable`, or `critical`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import ConfigError
from simulator.faults import outcomes
from simulator.faults.outcomes import CRITICAL, DTYPE, NAMED, SDC, TOLERABLE, Function, Mask, Results, judged_by
from simulator.inputs import InputError, read_text
from simulator.numpy_expression import ExpectationError, evaluate
from simulator.user_functions import called, function_of

_OF_CORRECTIONS = ("corrections", "left_ulp", "left_abs")  # which are known after the judgement
_COLUMNS = tuple(name for name in DTYPE.names or () if name not in ("id", "detectors", *NAMED, *_OF_CORRECTIONS))
_NUMBERS = f"a comparison of {', '.join(_COLUMNS)}, or pattern == 'row' (one of {', '.join(outcomes.PATTERNS)})"
_FUNCTION = "def critical(got, golden): a bool for each fault, of two arrays of values [fault, row, column]"


@dataclass(frozen=True)
class Judgement:
    """How it is decided which corruptions are critical; nothing is decided without a threshold or a function.

    Attributes:
        tolerate: the expression that holds for corruptions which are tolerable; "" for none.
        source: the text of the file with the function `critical`; "" for none.
        path: the file's name, for errors and for the head of results.
    """

    tolerate: str = ""
    source: str = ""
    path: str = ""

    def __post_init__(self) -> None:
        if self.tolerate and self.source:
            raise ConfigError("judgement", "", "a threshold and a function", "--tolerate, or --judge")
        if self.tolerate:
            tolerable(self.tolerate, outcomes.empty(np.arange(2)))
        if self.source:
            _critical(self.source, self.path)

    def about(self) -> dict[str, str]:
        """What the head of a file of results says about it."""
        if self.source:
            return {"judge": f"{self.path} {hashlib.sha256(self.source.encode()).hexdigest()[:16]}"}
        return {"tolerate": self.tolerate} if self.tolerate else {}

    def as_text(self) -> str:
        """Itself as JSON, for another process."""
        return json.dumps(asdict(self))

    @contextmanager
    def judging(self) -> Iterator[None]:
        """Lets the function judge the results of faults that are injected while the block runs."""
        with judged_by(_checked(self.source, self.path) if self.source else None):
            yield

    def judge(self, results: Results) -> None:
        """Judges results by the threshold."""
        if self.tolerate:
            fine = tolerable(self.tolerate, results)
            results["judged"] = np.where(results["outcome"] == SDC, np.where(fine, TOLERABLE, CRITICAL), 0)


def read_judgement(tolerate: str = "", judge: str = "") -> Judgement:
    """The judgement that an expression, or a file with a function, describes.

    Raises:
        ConfigError: both are given, a file that cannot be read or has no such function, an expression that is none.
    """
    if tolerate.strip() and judge:
        raise ConfigError(judge, "", "a threshold and a function", "--tolerate, or --judge")
    if not judge:
        return Judgement(tolerate.strip())
    try:
        return Judgement(source=read_text(judge, "a Python file", 1 << 20) or "\n", path=Path(judge).name)
    except InputError as error:
        raise ConfigError(judge, "", error.reason, error.legal) from None


def tolerable(expression: str, results: Results) -> Mask:
    """For which rows of results an expression over their columns holds. `pattern` is compared with words.

    Raises:
        ConfigError: it is no expression, names what is no column, or gives no bool for each row.
    """
    columns: dict[str, Any] = {name: results[name] for name in _COLUMNS}
    columns["pattern"] = np.array(outcomes.PATTERNS)[results["pattern"]]
    try:
        found = np.asarray(evaluate(expression, columns))
    except ExpectationError as error:
        raise ConfigError("--tolerate", "", error.reason, _NUMBERS) from None
    if found.dtype != np.bool_ or found.shape != results.shape:
        shape = f"{found.dtype} {list(found.shape)}"
        raise ConfigError("--tolerate", "", f"'{expression}' is {shape}, no bool for each fault", _NUMBERS)
    return found


def _critical(source: str, path: str) -> Function:
    """The function that a file defines; ConfigError if the file cannot be run, or has none."""
    return function_of(source, path, "critical", _FUNCTION)


def _checked(source: str, path: str) -> Function:
    """The function of a file, with errors for what it must not do."""
    function = _critical(source, path)

    def checked(got: NDArray[Any], golden: NDArray[Any]) -> Mask:
        found: Mask = called(lambda *values: np.asarray(function(*values)), path, _FUNCTION, got, golden)
        if found.dtype != np.bool_ or found.shape != (len(got),):
            reason = f"returns {found.dtype} {list(found.shape)} for {len(got)} faults"
            raise ConfigError(path, "critical", reason, _FUNCTION)
        return found

    return checked
