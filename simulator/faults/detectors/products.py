"""Checksums of a product that a program stores, as a detector of faults (`--detect abft=...`).

A product has a place in what is stored, and an expectation: the value of an expression in float64; or, without one,
what the same run stores if its matrix instructions add exactly. Such results are rounded, as D is, and would hide the
rounding of D from a checksum that a real checker predicts without it. So what rounding takes away is drawn anew, evenly
up to half a unit in the last place (assumed).

Tolerances are twice the largest differences of fault-free runs on other operands: those of the program, whose words
that are not zero change places within each array. Other such runs count the false alarms. Operands in disorder lack
what those of a program have in common, such as signs, by which errors add up; hence the factor (assumed: the digits
layers need up to 1.6).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits, ElementType
from simulator.applications.stored import ROW_BYTES, Stored
from simulator.arithmetic.convert import to_float64
from simulator.errors import ConfigError
from simulator.faults import outcomes
from simulator.faults.detectors.checksums import Checksums, FalseAlarms, Mask, Predicted, Reals
from simulator.faults.detectors.elements import Changed, Elements
from simulator.faults.detectors.named_product import NamedProduct
from simulator.faults.outcomes import SDC, Results, Whole, flag, numbers
from simulator.program.capture_record import misfit

CALIBRATION, FRESH = 8, 16  # other runs: of which the tolerances are, and on which false alarms are counted
MARGIN = 2.0  # times the largest difference that the tolerance is
Integers = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]


class Maker(Protocol):
    """What makes the product without faults, from the program's operands or from others."""

    def place(self, named: NamedProduct) -> Place:
        """Where a product lies in what is stored; ConfigError for one that does not."""

    def drawable(self, names: set[str] | None) -> tuple[str, ...]:
        """The arrays of operands, of these or of all, whose elements may change places."""

    def inputs(self, drawn: tuple[str, ...], seed: int) -> dict[str, Any]:
        """The operands by name, of which the drawn arrays are those of a seed."""

    def stored(self, drawn: tuple[str, ...], seed: int, *, exact: bool) -> Arrays:
        """What is stored, from operands as above: by the chip's arithmetic, or by exact sums."""


class Place(NamedTuple):
    """Where a product lies in what is stored.

    Attributes:
        element: the type of its elements.
        places: int64 [row, column]: which element each is, of the stored bytes in rows of `ROW_BYTES`.
    """

    element: ElementType
    places: Integers

    def patterns(self, stored: Stored, matrix: Bits) -> Bits:
        """The product in what is stored, as `Stored.matrix` has it, uint32 [row, column]."""
        return np.asarray(self.elements(stored, matrix).reshape(-1)[self.places])

    def elements(self, stored: Stored, matrix: Bits) -> Bits:
        """Lines [..., line, element] of a width as elements of the product's width, uint32 [..., line, element]."""
        data = np.ascontiguousarray(matrix.astype(f"<u{stored.width}")).view(np.uint8)
        return data.view(f"<u{self.element.bits // 8}").astype(np.uint32)


def shuffled(array: NDArray[Any], seed: int, number: int) -> NDArray[Any]:
    """An array whose words of 32 bits, or larger elements, have changed places where they are not zero; an array of
    bytes may hold elements of 16 bits. `number` tells arrays of a run apart."""
    found = np.array(array, order="C")
    size = max(found.itemsize, 4)
    flat = found.reshape(-1).view(f"u{size}") if found.nbytes % size == 0 and size <= 8 else found.reshape(-1)
    there = np.flatnonzero(flat)
    flat[there] = np.random.default_rng([seed, number]).permutation(flat[there])
    return found


@dataclass
class Product:
    """A product of a target.

    Attributes:
        named: what names it.
        place, stored: where it lies in what is stored.
        maker: makes it without faults.
        tolerances: of rows and columns; empty for none yet.
    """

    named: NamedProduct
    place: Place
    stored: Stored
    maker: Maker
    tolerances: tuple[float, ...] = ()

    # Without faults

    @cached_property
    def golden(self) -> Bits:
        """The product without faults, uint32 [row, column]."""
        return self.place.patterns(self.stored, self.stored.golden_matrix)

    @cached_property
    def drawn(self) -> tuple[str, ...]:
        """The operands that other runs draw."""
        if self.named.is_file:
            return ()
        return self.maker.drawable(self.named.names() if self.named.what else None)

    def _should(self, drawn: tuple[str, ...], seed: int) -> Predicted:
        """What the sums should be."""
        if self.named.what:
            whole = self.named.should(self.maker.inputs(drawn, seed), self.place.places.shape)
        else:
            whole = self._unrounded(self._made(drawn, seed, exact=True), seed)
        with np.errstate(invalid="ignore"):
            return Predicted(whole.sum(axis=1)[None], whole.sum(axis=0)[None])

    def _made(self, drawn: tuple[str, ...], seed: int, *, exact: bool) -> Bits:
        return self.place.patterns(self.stored, self.stored.matrix(self.maker.stored(drawn, seed, exact=exact)))

    def _unrounded(self, patterns: Bits, seed: int) -> Reals:
        """Exact results as they may have been before they were rounded."""
        values = numbers(patterns, self.place.element)
        if not self.place.element.is_float:
            return values
        rng = np.random.default_rng([seed, 1 << 20])
        return values + rng.uniform(-0.5, 0.5, values.shape) * unit(patterns, self.place.element)

    def _others(self, first: int, runs: int) -> tuple[Reals, Predicted]:
        """Other products without faults [run, row, column], and what their sums should be."""
        seeds = range(1 + first, 1 + first + runs)
        made = [numbers(self._made(self.drawn, seed, exact=False), self.place.element) for seed in seeds]
        should = [self._should(self.drawn, seed) for seed in seeds]
        rows, columns = (np.concatenate(part) for part in zip(*should, strict=True))
        return np.stack(made), Predicted(rows, columns)

    def calibrated(self) -> Product:
        """Itself with the tolerances of other runs, where it has none; ConfigError if its operands cannot be drawn."""
        if self.tolerances:
            return self
        should = self.should  # where it is wrong, that is said first
        if not self.drawn:
            reason = "has no tolerance: a file, or an expression of none of the operands, says what it should be"
            raise ConfigError("--detect", "abft", reason, "tolerance=X, too")
        checks = Checksums(should, self._others(0, CALIBRATION))
        self.tolerances = MARGIN * checks.row_tolerance, MARGIN * checks.column_tolerance
        return self

    def false_alarms(self) -> FalseAlarms | None:
        """How often the checksums fail runs without a fault whose operands no tolerance is of; None where operands
        cannot be drawn."""
        if not self.drawn:
            return None
        d, should = self._others(CALIBRATION, FRESH)
        return FalseAlarms(int(self._checks.fails(d, should).sum()), FRESH)

    @cached_property
    def should(self) -> Predicted:
        """What the sums should be, from the operands before any fault."""
        return self._should((), 0)

    @property
    def _checks(self) -> Checksums:
        return Checksums.within(self.should, self.tolerances[0], self.tolerances[1])

    @cached_property
    def _elements(self) -> Elements:
        return Elements(self._checks, 0, self.golden, self.place.element)

    @cached_property
    def _inverse(self) -> Integers:
        """Of each stored element which one of the product it is, row after row; -1 for none."""
        count = len(self.stored.golden_matrix) * ROW_BYTES // (self.place.element.bits // 8)
        inverse = np.full(count, -1)
        inverse[self.place.places.reshape(-1)] = np.arange(self.place.places.size)
        return inverse

    # Faults

    def look(self, results: Results, got: Bits, right: Bits, whole: Whole) -> None:
        """Adds what the checksums say of corruptions.

        Args:
            results: with their outcomes.
            got, right: lines of what is stored, with the faults and without, uint32 [fault, line, element].
            whole: what the lines are lines of.
        """
        got, right = (self.place.elements(self.stored, each) for each in (got, right))
        corrupt = results["outcome"] == SDC
        fault, line, element = np.nonzero((got != right) & corrupt[:, None, None])
        lines = whole.lines[line] if whole.lines.ndim == 1 else whole.lines[fault, line]
        of = self._inverse[lines * got.shape[2] + element]
        inside = of >= 0
        row, column = np.divmod(of[inside], self.golden.shape[1])
        patterns = got[fault, line, element][inside]
        wrong = np.bincount(fault, minlength=len(results))
        seen = self._elements.correct(results, Changed(fault[inside], row, column, patterns), wrong, corrupt)
        results["detectors"][corrupt & seen] |= flag("abft")

    def look_at_right(self, results: Results, masked: Mask) -> None:
        """Adds what the checksums say of results that are right."""
        one = outcomes.empty(np.zeros(1, np.int64))
        none = np.zeros(0, np.int64)
        changed = Changed(none, none, none, np.zeros(0, np.uint32))
        if self._elements.correct(one, changed)[0]:
            results["detectors"][masked] |= flag("abft")
        results["corrections"][masked] |= one["corrections"][0]


def unit(patterns: Bits, element: ElementType) -> Reals:
    """A unit in the last place of floats: their distance from the next number away from zero; 0 of infinity and NaN."""
    values = to_float64(patterns, element)
    top = np.uint32(1) << np.uint32(element.sign_bit)
    further = to_float64((patterns & top) | ((patterns & ~top) + np.uint32(1 << element.padding)), element)
    with np.errstate(invalid="ignore"):
        apart = np.abs(further - values)
    return np.where(np.isfinite(apart), apart, 0.0)


def stored_place(
    named: NamedProduct, stored: Stored, element: ElementType | None, shape: tuple[int, int, int] | None = None
) -> Place:
    """The place of a product with a name; `shape` has rows, columns and leading dimension of its array, if these are
    known.

    Raises:
        ConfigError: there is no such array, it has no rows and columns of that size, or no type.
    """
    if named.name not in stored.golden:
        raise ConfigError("--detect", "abft", f"nothing is stored as '{named.name}'", ", ".join(sorted(stored.golden)))
    if element is None:
        raise ConfigError("--detect", "abft", f"the type of '{named.name}' is not known", "f16, f32 or s32")
    array, size = stored.golden[named.name], element.bits // 8
    lines = named.shape or shape
    if lines is None:
        legal = f"{named.name}:ROWS,COLUMNS,LD"
        raise ConfigError("--detect", "abft", f"'{named.name}' has no rows and columns", legal)
    rows, columns, leading = lines
    if wrong := misfit(rows, columns, leading, array.nbytes // size):
        raise ConfigError("--detect", "abft", f"'{named.name}': {wrong}", "rows and columns that are in it")
    index = _first(stored, named.name) // size + np.arange(rows)[:, None] * leading + np.arange(columns)
    return Place(element, index)


def _first(stored: Stored, name: str) -> int:
    """The first byte of an array in what is stored."""
    return sum(-(-stored.golden[each].nbytes // ROW_BYTES) * ROW_BYTES for each in sorted(stored.golden) if each < name)


def numbered(stored: Stored) -> Arrays:
    """The stored arrays with the number of each 32-bit word in what is stored in its place."""
    found = {}
    for name, array in stored.golden.items():
        first = _first(stored, name) // 4
        words = np.arange(first, first + array.nbytes // 4, dtype=np.uint32)
        found[name] = words.view(array.dtype).reshape(array.shape)
    return found
