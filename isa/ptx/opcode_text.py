"""An opcode as it is written: its name, its qualifiers and the place of each, and errors that point there."""

from __future__ import annotations

from collections.abc import Iterable
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

    def __init__(self, opcode: str, start: int, text: str, names: Iterable[str]) -> None:
        self.opcode, self.start, self.text = opcode, start, text
        parts = opcode.split(".")
        known = [name for name in names if parts[: name.count(".") + 1] == name.split(".")]
        self.name = max(known, key=len, default="")
        first = self.name.count(".") + 1
        self.problems: list[IsaError] = []
        self.qualifiers = parts[first:]
        self.places = [start + sum(len(part) + 1 for part in parts[:i]) for i in range(first, len(parts))]

    def place(self, qualifier: str | None) -> int:
        """Where a qualifier stands for the last time; the start of the opcode if it does not."""
        places = [place for place, q in zip(self.places, self.qualifiers, strict=True) if q == qualifier]
        return places[-1] if places else self.start

    def note(
        self, qualifier: str | None, reason: str, legal: str | Iterable[str] = "", place: int | None = None
    ) -> None:
        """Something is wrong at that qualifier (None: at the start), or at a place of the text."""
        where = self.place(qualifier) if place is None else place
        self.problems.append(IsaError(self.text, where, reason, legal if isinstance(legal, str) else ", ".join(legal)))

    def settle(self) -> None:
        """IsaError with everything that was noted, if anything was."""
        if self.problems:
            raise IsaError.together(self.problems)

    def fail(self, qualifier: str | None, reason: str, legal: str | Iterable[str] = "") -> NoReturn:
        """IsaError with this and what was noted before."""
        self.note(qualifier, reason, legal)
        raise IsaError.together(self.problems)
