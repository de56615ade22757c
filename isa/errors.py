"""The errors of the project: what is wrong, where, and what would be right.

`Error` is the root of everything that the project raises on purpose; `simulator.Error` is the same class. The policies
that say what to do about undefined behaviour stand here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

# What to do about undefined behaviour: compute what hardware was measured to compute, or raise `UndefinedBehavior`.
Policy = Literal["hardware", "raise"]
POLICIES: tuple[str, ...] = get_args(Policy)
# Fault campaigns compare two more, which mend undefined metadata codes: `simulator.faults.targets.policies`.
FAULT_POLICIES = (*POLICIES, "zero", "saturate")


class Error(Exception):
    """The root of all errors that the project raises on purpose: `except simulator.Error` catches every one of them.

    Every error carries these attributes; what does not apply to it keeps the empty value.

    Attributes:
        rule: name of the rule that is broken, a key of `isa.undefined.RULES` or of `simulator.check.rules.CHECK_RULES`;
            "" where none of them states it.
        reason: what is wrong.
        legal: what would be right.
        position: index of the first wrong character in the text that is wrong, -1 where no place can be named.
        operand: name of the operand or field that is wrong.
    """

    rule: str = ""
    reason: str = ""
    legal: str = ""
    position: int = -1
    operand: str = ""

    def __reduce__(self) -> tuple[Callable[..., Error], tuple[Any, ...], dict[str, Any]]:
        """How an error is copied and sent to another process: with all its attributes, whatever arguments the function
        takes that made it."""
        return _made_again, (type(self), self.args), dict(vars(self))


def _made_again(kind: type[Error], arguments: tuple[Any, ...]) -> Error:
    """An error without its attributes, which whoever reads it sets."""
    error: Error = kind.__new__(kind, *arguments)
    error.args = arguments
    return error


class IsaError(Error, ValueError):
    """Text that is not a legal instruction, or values that no operand of it can hold.

    Attributes:
        text: the text (or name) that is wrong.
        more: what else is wrong with the same text.
        section: where the rule is stated, possibly empty.
    """

    def __init__(
        self,
        text: str,
        position: int,
        reason: str,
        legal: str = "",
        more: tuple[IsaError, ...] = (),
        section: str = "",
        rule: str = "",
        operand: str = "",
    ) -> None:
        super().__init__(text, position, reason, legal, more, section, rule, operand)
        self.text, self.position, self.reason, self.legal = text, position, reason, legal
        self.more, self.section, self.rule, self.operand = more, section, rule, operand

    @classmethod
    def together(cls, errors: Sequence[IsaError]) -> IsaError:
        """Joins several errors into one, ordered by their positions in the text; it has the rule of the first."""
        first, *rest = sorted(errors, key=lambda error: error.position)
        more = (*first.more, *rest)
        return cls(
            first.text, first.position, first.reason, first.legal, more, first.section, first.rule, first.operand
        )

    def stated_in(self, section: str) -> IsaError:
        """The same error with the section that states the rule, unless it names one already."""
        if self.section or not section:
            return self
        return IsaError(self.text, self.position, self.reason, self.legal, self.more, section, self.rule, self.operand)

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


class NoOperandError(IsaError, AttributeError):
    """An operand that a form does not have, so that `hasattr(form, "scale_a")` says so."""


class UndefinedBehavior(Error):  # noqa: N818 - the name of the contract
    """A case that PTX leaves undefined, which came up during execution.

    Attributes:
        rule: the case, one of the keys of `isa.undefined.RULES`.
        where: what was looked at (instruction, case, row, chunk, lane).
        reason: the rule in words.
        section: the PTX section that states it, or the measurement that does.
    """

    def __init__(self, rule: str, where: str, reason: str, section: str) -> None:
        super().__init__(rule, where, reason, section)
        self.rule, self.where, self.reason, self.section = rule, where, reason, section

    def __str__(self) -> str:
        return f"{self.rule}: {self.where}: {self.reason} ({self.section})"


def _excerpt(text: str, position: int, width: int = 40) -> str:
    """The piece of `text` from `position` on, short enough for one line."""
    piece = text[position : position + width].replace("\n", " ")
    return piece + "..." if position + width < len(text) else piece


class OperandRefused(Exception):  # noqa: N818 - becomes an IsaError where the place in the text is known
    """Operands that do not go together: which operand is wrong, why, and what would be right."""

    def __init__(self, operand: str, reason: str, legal: str) -> None:
        super().__init__(operand, reason, legal)
        self.operand, self.reason, self.legal = operand, reason, legal
