"""Exact binary numbers, digits * 2**place: what floating-point numbers, their products and their sums are. They take
the place of `fractions.Fraction` where a test adds many: no greatest common divisor is ever looked for."""

from __future__ import annotations

from fractions import Fraction


class Dyadic:
    """digits * 2**place, both Python integers."""

    __slots__ = ("digits", "place")

    def __init__(self, digits: int, place: int = 0) -> None:
        self.digits, self.place = digits, place

    @classmethod
    def of(cls, x: float) -> Dyadic:
        """A finite float."""
        digits, denominator = x.as_integer_ratio()
        return cls(digits, 1 - denominator.bit_length())

    @property
    def numerator(self) -> int:
        """Over `denominator`, possibly not in lowest terms."""
        return self.digits << max(self.place, 0)

    @property
    def denominator(self) -> int:
        return 1 << max(-self.place, 0)

    def fraction(self) -> Fraction:
        """The same number in lowest terms."""
        return Fraction(self.numerator, self.denominator)

    def __repr__(self) -> str:
        return f"{self.digits} * 2**{self.place}"

    def __bool__(self) -> bool:
        return self.digits != 0

    def __neg__(self) -> Dyadic:
        return Dyadic(-self.digits, self.place)

    def __abs__(self) -> Dyadic:
        return Dyadic(abs(self.digits), self.place)

    def __add__(self, other: Dyadic) -> Dyadic:
        lift = self.place - other.place
        if lift >= 0:
            return Dyadic((self.digits << lift) + other.digits, other.place)
        return Dyadic(self.digits + (other.digits << -lift), self.place)

    def __sub__(self, other: Dyadic) -> Dyadic:
        return self + -other

    def __mul__(self, other: Dyadic) -> Dyadic:
        return Dyadic(self.digits * other.digits, self.place + other.place)

    def whole(self, place: int) -> int:
        """How often 2**place goes into the magnitude, cut."""
        lift = self.place - place
        return abs(self.digits) << lift if lift >= 0 else abs(self.digits) >> -lift
