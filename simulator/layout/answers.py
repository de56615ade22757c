"""What a question about an element or a place is answered with: facts in words and in fields."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from simulator.layout.form import FormLayout
from simulator.layout.operand import Operand


@dataclass(frozen=True)
class Fact:
    """One line of an answer.

    Attributes:
        kind: "held by", "pruned", "metadata", "element", "nothing" or "note".
        text: in words.
        data: the same in fields.
    """

    kind: str
    text: str
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """The answer to a question about an element or a place.

    Attributes:
        subject: what was asked about: `A[5][12]`, `T9 a1[31:16]`.
        form: of which form.
        facts: the answer.
        formulas: lines such as `lane = column / 2 % 4 + 4 * (row % 8) = 6 / 2 % 4 + 4 * (5 % 8) = 23`.
        section: who says where the operand lies, and how it is known.
    """

    subject: str
    form: str
    facts: tuple[Fact, ...]
    formulas: tuple[str, ...]
    section: str

    def text(self, *, formulas: bool = False) -> str:
        """The answer as lines."""
        lines = [f"{self.subject} of {self.form}"]
        kind = ""
        for fact in self.facts:
            lines.append(f"  {fact.kind if fact.kind != kind else '':<9} {fact.text}".rstrip())
            kind = fact.kind
        lines.append(f"  {'source':<9} {self.section}")
        if formulas:
            lines += ["", *(f"  {line}" for line in self.formulas)]
        return "\n".join(lines) + "\n"

    def json(self) -> dict[str, Any]:
        """The answer as an object of plain values."""
        facts = [{"kind": fact.kind, "text": fact.text, **fact.data} for fact in self.facts]
        return {
            "subject": self.subject,
            "form": self.form,
            "facts": facts,
            "formulas": list(self.formulas),
            "source": self.section,
        }


def second_half(layout: FormLayout, operand: Operand, row: int) -> int | None:
    """The first row that the second CTA of a pair holds, if this row of A, its scale factors, D or metadata is one of
    its; else None.

    Raises:
        IsaError: the operand of a pair has no such row, in either CTA.
    """
    rows = operand.shape[0]
    if not (operand.tmem and operand.name in ("a", "d", "e", "scale_a") and layout.choice.m == 2 * rows):
        return None
    return rows if operand.checked_row(row, 2 * rows) >= rows else None


def second_words(row: int, first: int) -> str:
    """Says that a row lies in the second CTA of a pair, whose rows begin with `first`."""
    own = row - first
    return f"row {row} lies in the second CTA's Tensor Memory (odd rank), as its row {own}, which is named below"


def in_second(answer: Answer, row: int, first: int) -> Answer:
    """The answer about a row of the second CTA: what is so of its row `row - first`, and that it is in that CTA."""
    note = Fact("note", second_words(row, first), {"cta_rank": 1, "row_of_cta": row - first})
    subject = answer.subject.replace(f"[{row - first}]", f"[{row}]", 1)
    return replace(answer, subject=subject, facts=(note, *answer.facts))
