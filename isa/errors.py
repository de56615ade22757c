"""The errors of the instruction set: what is wrong, where, and what would be right."""

from __future__ import annotations

from collections.abc import Sequence


class IsaError(ValueError):
    """Text that is not a legal instruction, or values that no operand of it can hold.

    Attributes:
        text: the text (or name) that is wrong.
        position: index of the first wrong character in `text`, or -1 where no place can be named.
        reason: what is wrong and the rule that says so.
        legal: what would be right, possibly empty.
        more: what else is wrong with the same text.
        section: where the rule is stated, possibly empty.
    """

    def __init__(
        self, text: str, position: int, reason: str, legal: str = "", more: tuple[IsaError, ...] = (), section: str = ""
    ) -> None:
        super().__init__(text, position, reason, legal, more, section)
        self.text, self.position, self.reason, self.legal, self.more, self.section = (
            text,
            position,
            reason,
            legal,
            more,
            section,
        )

    @classmethod
    def together(cls, errors: Sequence[IsaError]) -> IsaError:
        """One error for several, in the order of their places."""
        first, *rest = sorted(errors, key=lambda error: error.position)
        return cls(first.text, first.position, first.reason, first.legal, (*first.more, *rest), first.section)

    def stated_in(self, section: str) -> IsaError:
        """The same error with the section that states the rule, unless it names one already."""
        if self.section or not section:
            return self
        return IsaError(self.text, self.position, self.reason, self.legal, self.more, section)

    def __str__(self) -> str:
        message = "; and ".join([self._one(), *(other._one() for other in self._all()[1:])])
        return f"{message} [{self.section}]" if self.section else message

    def _all(self) -> list[IsaError]:
        return [self, *(inner for other in self.more for inner in other._all())]

    def _one(self) -> str:
        message = f"{self.reason}; legal: {self.legal}" if self.legal else self.reason
        if self.position < 0:
            return f"{message} (in {_excerpt(self.text, 0)!r})" if self.text else message
        return f"column {self.position + 1}: {message} (at {_excerpt(self.text, self.position)!r})"


class UndefinedBehavior(Exception):  # noqa: N818 - the name of the contract
    """A case that PTX leaves undefined, met while executing.

    Attributes:
        name: the case, one of the keys of `isa.undefined.RULES`.
        where: what was looked at (instruction, case, row, chunk, lane).
        rule: the rule that was broken.
        section: the PTX section that states it, or the measurement that does.
    """

    def __init__(self, name: str, where: str, rule: str, section: str) -> None:
        super().__init__(name, where, rule, section)
        self.name, self.where, self.rule, self.section = name, where, rule, section

    def __str__(self) -> str:
        return f"{self.name}: {self.where}: {self.rule} ({self.section})"


def _excerpt(text: str, position: int, width: int = 40) -> str:
    """The piece of `text` from `position` on, short enough for one line."""
    piece = text[position : position + width].replace("\n", " ")
    return piece + "..." if position + width < len(text) else piece
