"""Detectors that a run is asked for, beside those that every run has: `tcsim faults run LIST --detect range,duplicate`.

nonfinite   the result holds NaN or infinity
range=X     a number of the result is beyond X; without X beyond the largest of other fault-free products (of single
            instructions), whose fresh ones count the false alarms
duplicate   a second execution gives another result. Of an instruction: on another unit, from the same registers and
            memory, so that it sees what strikes the unit or D, and nothing of operands. Of a trace or launch: on
            another SM, from the same buffers, so that it sees all but faults that lie in these
checksum=K  the sum modulo 2^K of each metadata register over its lanes (of Tensor Memory: of each column), as it was
            loaded; of traces and launches: as every instruction reads it. Without K the exclusive or
abft        of traces and launches: row and column checksums of a product that is stored, which
            `simulator.faults.detectors.named_product` says how to name; tolerance=X in place of one that is measured
parity,     of traces and launches: a bit, or a (39, 32) Hsiao code, beside each word of registers and memory, checked
secded      where the word is read
an expression of `d`, the result [fault, row, column], such as `abs(d) > 1e4`, or FILE.py:FUNCTION of it: bool [fault],
            or bool of the shape of `d`, any of which counts

A detector sees the result as it is stored, never what it should be.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import ConfigError, did_you_mean
from simulator.faults.detectors.named_product import read_product
from simulator.inputs import InputError, read_text
from simulator.numpy_expression import ExpectationError, evaluate
from simulator.user_functions import called, function_of

NAMES = ("nonfinite", "range", "duplicate", "checksum", "parity", "secded", "abft")
_TOLERANCE = "tolerance"  # no detector: what `abft` has
OF_RESULTS = ("nonfinite", "range", "own")  # that look at the result
_LEGAL = f"{', '.join(NAMES)} (range=1e4 for a bound), an expression of d such as abs(d) > 1e4, or FILE.py:FUNCTION"
_FUNCTION = "a function of d [fault, row, column] that gives bool [fault], or bool of its shape"
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Asked:
    """Which detectors a run has beside its own.

    Attributes:
        names: those of `NAMES`, and "own".
        bound: of `range`; NaN for the target's own.
        modulo: of `checksum`: how many bits the sum has; 0 for the exclusive or.
        product: which product `abft` checks, in words; "" for the one that is known.
        tolerances: of its rows and columns; empty for measured ones.
        text: the expression, or FILE.py:FUNCTION.
        source: the text of the file with the function; "" for none.
    """

    names: tuple[str, ...] = ()
    bound: float = float("nan")
    modulo: int = 0
    product: str = ""
    tolerances: tuple[float, ...] = ()
    text: str = ""
    source: str = ""

    def about(self) -> dict[str, str]:
        """What the head of a file of results says about it."""
        if not self.names:
            return {}
        digest = f" {hashlib.sha256(self.source.encode()).hexdigest()[:16]}" if self.source else ""
        words = {name: name for name in self.names} | {"own": f"{self.text}{digest}"}
        words |= {} if np.isnan(self.bound) else {"range": f"range={self.bound:g}"}
        words |= {"checksum": f"checksum={self.modulo}"} if self.modulo else {}
        words |= {"abft": f"abft={self.product}"} if self.product else {}
        about = {"detect": ",".join(words[name] for name in self.names)}
        found = ", ".join(f"{each:g}" for each in self.tolerances)
        return about | ({"abft_tolerances": f"{found} of rows and columns"} if found else {})

    def as_text(self) -> str:
        """Itself as JSON, for another process."""
        return json.dumps(asdict(self))

    def bounded(self, largest: float | None) -> Asked:
        """Itself with a target's own bound of `range`, where it has none. ConfigError if the target has none either."""
        if "range" not in self.names or not np.isnan(self.bound):
            return self
        if largest is None:
            raise ConfigError("--detect", "range", "has no bound, and a trace or launch none of its own", "range=1e4")
        return replace(self, bound=largest)

    def sees(self, d: NDArray[Any]) -> dict[str, Mask]:
        """What the detectors of results say, bool [fault] by name; `d` are values [fault, row, column]."""
        found: dict[str, Mask] = {}
        with np.errstate(invalid="ignore"):
            if "nonfinite" in self.names:
                found["nonfinite"] = np.asarray((~np.isfinite(d)).any(axis=(1, 2)))
            if "range" in self.names:
                found["range"] = np.asarray((np.abs(d) > self.bound).any(axis=(1, 2)))
            if "own" in self.names:
                found["own"] = self._own(d)
        return found

    def _own(self, d: NDArray[Any]) -> Mask:
        if self.source:
            name = self.text.rpartition(":")[2]
            found = called(function_of(self.source, self._path, name, _FUNCTION), self._path, _FUNCTION, d)
        else:
            try:
                found = evaluate(self.text, {"d": d})
            except ExpectationError as error:
                raise ConfigError("--detect", "", error.reason, _LEGAL) from None
        array = np.asarray(found)
        if array.dtype != np.bool_ or array.shape not in (d.shape, d.shape[:1]):
            reason = f"'{self.text}' gives {array.dtype} {list(array.shape)} for d {list(d.shape)}"
            raise ConfigError("--detect", "", reason, _FUNCTION)
        return np.asarray(array.reshape(len(d), -1).any(axis=1))

    @property
    def metadata_bits(self) -> int | None:
        """How many bits a checksum of metadata has, 0 for the exclusive or; None for no checksum."""
        return self.modulo if "checksum" in self.names else None

    @property
    def _path(self) -> str:
        return self.text.rpartition(":")[0]

    @contextmanager
    def detecting(self) -> Iterator[None]:
        """Lets these detectors look at the faults that are injected while the block runs."""
        before = _asked.set(self)
        try:
            yield
        finally:
            _asked.reset(before)


NOTHING = Asked()
_asked: ContextVar[Asked] = ContextVar("asked", default=NOTHING)


def asked() -> Asked:
    """The detectors that the run is asked for."""
    return _asked.get()


def from_text(text: str) -> Asked:
    """What `Asked.as_text` gave."""
    found = json.loads(text)
    return Asked(**found | {name: tuple(found[name]) for name in ("names", "tolerances")})


def read_asked(texts: list[str]) -> Asked:
    """The detectors that words of `--detect` name: names with commas between them, or one of one's own.

    Raises:
        ConfigError: a name that is none, an expression or a file that cannot be used.
    """
    names: dict[str, None] = {}
    bound, text, source, modulo = float("nan"), "", "", 0
    product, tolerances = "", tuple[float, ...]()
    for given in texts:
        if given.strip().startswith("abft="):
            if product or "abft" in names:
                raise ConfigError("--detect", "abft", f"'{given.strip()}' beside another product", "one product")
            product = given.strip().removeprefix("abft=").strip()
            read_product(product)
            names["abft"] = None
            continue
        parts = [part.strip() for part in given.split(",")]
        if not all(part.partition("=")[0] in (*NAMES, _TOLERANCE) for part in parts) or "==" in given:
            if text:
                raise ConfigError("--detect", "", f"'{given}' beside '{text}'", "one detector of your own")
            text, source = given.strip(), _source(given.strip())
            names["own"] = None
            continue
        for part in parts:
            name, equals, value = part.partition("=")
            if name == _TOLERANCE:
                tolerances = 2 * (_bound(name, value),)
                continue
            names[name] = None
            if equals and name == "checksum":
                modulo = _modulo(value)
            elif equals:
                bound = _bound(name, value)
    if tolerances and "abft" not in names:
        raise ConfigError("--detect", _TOLERANCE, "is of abft, which is not there", "abft=NAME:ROWS,COLUMNS,LD, too")
    found = Asked(tuple(names), bound, modulo, product, tolerances, text, source)
    if "own" in names:
        found._own(np.zeros((2, 1, 1)))
    return found


def _modulo(value: str) -> int:
    if not (value.isdecimal() and len(value) < 3 and 1 <= int(value) <= 32):
        raise ConfigError("--detect", "checksum", f"'checksum={value}'", "checksum=K with K from 1 to 32, or checksum")
    return int(value)


def _bound(name: str, value: str) -> float:
    try:
        bound = float(value)
    except ValueError:
        bound = float("nan")
    if name not in ("range", _TOLERANCE) or not bound >= 0:
        legal = f"{_TOLERANCE if name == _TOLERANCE else 'range'}=X with a number X of at least 0"
        raise ConfigError("--detect", name, f"'{name}={value}'", legal)
    return bound


def _source(text: str) -> str:
    """The text of the file that FILE.py:FUNCTION names; "" for an expression."""
    path, colon, name = text.rpartition(":")
    if colon and path.endswith(".py") and name.isidentifier():
        try:
            return read_text(path, "a Python file with a detector") or "\n"
        except InputError as error:
            raise ConfigError("--detect", text, error.reason, error.legal) from None
    if text.isidentifier() and text != "d":
        raise ConfigError("--detect", text, f"is no detector{did_you_mean(text, NAMES)}", _LEGAL)
    return ""
