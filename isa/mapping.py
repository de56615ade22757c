"""Defines `Mapping`, which says where the elements of an operand live. It translates between places in the register
file (lane, register, element) and coordinates in a matrix (row, column), in both directions.

Every fragment layout of PTX is a permutation of binary digits: the lane, the register and the element index are cut
into digits, and each digit becomes a digit of the row or of the column. `Mapping` is the list of those digits. Both
directions, the formulas that we print, the tables and the tests read this one list; nothing else in the project knows
where an element lives.
"""

from __future__ import annotations

from collections.abc import Mapping as AbstractMapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


class Digit(NamedTuple):
    """One digit of a mapping: `place // step % size` counts `stride` on `axis`, and `axis // stride % size` counts
    `step` in `place`."""

    place: str
    step: int
    size: int
    axis: str
    stride: int


class Fixed(NamedTuple):
    """A digit whose coordinate has been chosen: `place // step % size` is always `value`."""

    place: str
    step: int
    size: int
    value: int


@dataclass(frozen=True)
class Mapping:
    """A bijection between places (lane, register, element, ...) and coordinates (row, column, ...).

    Attributes:
        places: name and size of each place, in the order in which functions take and return them.
        axes: name and size of each coordinate, likewise.
        digits: the digits; their sizes multiply to the number of places (that it holds) and of coordinates.
        fixed: digits of places that are the same for all coordinates; empty but for what `at` returns. Places with
            other digits are not held.
    """

    places: tuple[tuple[str, int], ...]
    axes: tuple[tuple[str, int], ...]
    digits: tuple[Digit, ...]
    fixed: tuple[Fixed, ...] = ()

    def at(self, **chosen: int) -> Mapping:
        """The mapping of the other coordinates, when these coordinates have the given values (within their sizes)."""
        axes = dict(self.axes)
        assert all(0 <= value < axes[axis] for axis, value in chosen.items())
        fixed = tuple(
            Fixed(d.place, d.step, d.size, chosen[d.axis] // d.stride % d.size) for d in self.digits if d.axis in chosen
        )
        rest = tuple((axis, size) for axis, size in self.axes if axis not in chosen)
        return replace(
            self, axes=rest, digits=tuple(d for d in self.digits if d.axis not in chosen), fixed=self.fixed + fixed
        )

    def holds(self, **places: int | Integers) -> NDArray[np.bool_]:
        """Whether the given places hold an element. All places do, except those that disagree with a fixed digit."""
        matches = [_digit(places[f.place], f.step, f.size) == f.value for f in self.fixed]
        return reduce(
            np.logical_and, matches, np.ones(np.broadcast_shapes(*(np.shape(p) for p in places.values())), np.bool_)
        )

    def coordinates(self, **places: int | Integers) -> tuple[Integers, ...]:
        """The coordinates, in the order of `axes`, of the given places (integers or arrays that broadcast)."""
        return tuple(
            _weighted([(_digit(places[d.place], d.step, d.size), d.stride) for d in self.digits if d.axis == axis])
            for axis, _ in self.axes
        )

    def positions(self, **coordinates: int | Integers) -> tuple[Integers, ...]:
        """The places, in the order of `places`, of the given coordinates (integers or arrays that broadcast)."""
        return tuple(
            _weighted(
                [(_digit(coordinates[d.axis], d.stride, d.size), d.step) for d in self.digits if d.place == place]
            )
            + self._start(place)
            for place, _ in self.places
        )

    def _start(self, place: str) -> int:
        """What the fixed digits add to a place."""
        return sum(f.step * f.value for f in self.fixed if f.place == place)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the coordinates."""
        return tuple(size for _, size in self.axes)

    @property
    def place_shape(self) -> tuple[int, ...]:
        """Sizes of the places."""
        return tuple(size for _, size in self.places)

    @cached_property
    def grid(self) -> tuple[Integers, ...]:
        """For each place an array of the shape of the matrix: where each element lives."""
        index = np.indices(self.shape)
        positions = self.positions(**{axis: index[i] for i, (axis, _) in enumerate(self.axes)})
        return tuple(np.broadcast_to(f, self.shape) for f in positions)

    @cached_property
    def inverse_grid(self) -> tuple[Integers, ...]:
        """For each coordinate an array of the shape of the places: the coordinate of the element that each place holds
        (meaningless where `holds` is false)."""
        index = np.indices(self.place_shape)
        coordinates = self.coordinates(**{place: index[i] for i, (place, _) in enumerate(self.places)})
        return tuple(np.broadcast_to(f, self.place_shape) for f in coordinates)

    def formulas(self, **numbers: int) -> dict[str, str]:
        """One line of integer arithmetic for each coordinate and each place, e.g. `{"row": "lane / 4 + 8 * (register %
        2)", ...}`.

        Args:
            numbers: values that are written in place of the names: `formulas(lane=9, register=1)["row"]` is "9 / 4 + 8
                * (1 % 2)".

        `/` divides integers.
        """
        lines = {}
        for axis, _ in self.axes:
            terms = [(d.place, d.step, d.size, d.stride) for d in self.digits if d.axis == axis]
            lines[axis] = _formula(terms, dict(self.places), 0, numbers)
        for place, _ in self.places:
            terms = [(d.axis, d.stride, d.size, d.step) for d in self.digits if d.place == place]
            lines[place] = _formula(terms, dict(self.axes), self._start(place), numbers)
        return lines


def _digit(value: int | Integers, step: int, size: int) -> Integers:
    return np.asarray(value) // step % size


def _weighted(terms: list[tuple[Integers, int]]) -> Integers:
    return reduce(np.add, (digit * weight for digit, weight in terms), np.asarray(0))


def _joined(terms: list[tuple[str, int, int, int]]) -> list[tuple[str, int, int, int]]:
    """Joins neighbouring digits of one name into one digit where they keep their distance: `row % 16 + 16 * (row / 16)`
    is `row`."""
    joined: list[tuple[str, int, int, int]] = []
    for name, step, size, weight in sorted(terms):
        last = joined[-1] if joined else ("", 0, 0, 0)
        if last[0] == name and last[1] * last[2] == step and last[3] * last[2] == weight:
            joined[-1] = (name, last[1], last[2] * size, last[3])
        else:
            joined.append((name, step, size, weight))
    return joined


def _formula(
    terms: list[tuple[str, int, int, int]],
    sizes: AbstractMapping[str, int],
    start: int,
    numbers: AbstractMapping[str, int],
) -> str:
    """The formula of `start` plus the sum of `weight * (name / step % size)`, without the operations that change
    nothing."""
    parts = []
    for name, step, size, weight in sorted(_joined(terms), key=lambda term: term[3]):
        shown = str(numbers.get(name, name))
        digit = shown if step == 1 else f"{shown} / {step}"
        if step * size < sizes[name]:
            digit += f" % {size}"
        if weight > 1:
            digit = f"{weight} * {digit}" if digit == shown else f"{weight} * ({digit})"
        parts.append(digit)
    if start:
        parts.append(str(start))
    return " + ".join(parts) or "0"
