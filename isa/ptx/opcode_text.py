"""Splits the text of an opcode into its name and its qualifiers, and collects errors that point at the qualifier that
is wrong."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NoReturn

from isa.errors import IsaError


class OpcodeText:
    """An opcode split at its dots.

    Attributes:
        name: the parts that come first, as the tables know them; "" if they know no such name.
        qualifiers: the others, as written.
        places: where in `text` each of them begins; `start` is where the opcode begins.
        problems: what was found wrong so far.
    """

    def __init__(self, opcode: str, start: int, text: str, names: Collection[str]) -> None:
        self.opcode, self.start, self.text = opcode, start, text
        parts = opcode.split(".")
        starts = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
        self.name = next((start for start in starts if start in names), "")
        first = self.name.count(".") + 1
        self.problems: list[IsaError] = []
        self.qualifiers = parts[first:]
        self.places = [start + sum(len(part) + 1 for part in parts[:i]) for i in range(first, len(parts))]

    def place(self, qualifier: str | None) -> int:
        """The position of the last occurrence of a qualifier; the start of the opcode if it does not occur."""
        places = [place for place, q in zip(self.places, self.qualifiers, strict=True) if q == qualifier]
        return places[-1] if places else self.start

    def note(
        self, qualifier: str | None, reason: str, legal: str | Iterable[str] = "", place: int | None = None
    ) -> None:
        """Notes that something is wrong at a qualifier (None: at the start of the opcode), or at a position of the
        text."""
        where = self.place(qualifier) if place is None else place
        self.problems.append(IsaError(self.text, where, reason, legal if isinstance(legal, str) else ", ".join(legal)))

    def settle(self) -> None:
        """Raises IsaError with everything that was noted, if anything was."""
        if self.problems:
            raise IsaError.together(self.problems)

    def fail(self, qualifier: str | None, reason: str, legal: str | Iterable[str] = "") -> NoReturn:
        """Raises IsaError with this problem and everything that was noted before."""
        self.note(qualifier, reason, legal)
        raise IsaError.together(self.problems)
