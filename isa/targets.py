"""Compilation targets such as sm_90a: the number of the architecture, and the suffix that decides which instructions
are available.

`sm_90a` has what `sm_90` has and the architecture's own features; `sm_120f` what the family 120 shares. PTX ISA 9.0,
11.1.2 (.target).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from isa.arguments import text_of
from isa.errors import IsaError

KNOWN = (70, 72, 75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121)
_LONGEST = 32  # characters of an unknown target that an error shows
_SUFFIXED = (90, 100, 103, 110, 120, 121)


class Target(NamedTuple):
    """One target: `number` (90), `suffix` ("", "a" or "f")."""

    number: int
    suffix: str

    def __str__(self) -> str:
        return f"sm_{self.number}{self.suffix}"


def parse_target(text: str | Target) -> Target:
    """`"sm_90a"` -> Target(90, "a"); raises IsaError for a name that no assembler knows."""
    if isinstance(text, Target):
        return text
    match = re.fullmatch(r"sm_(\d{1,4})([af]?)", text_of(text, "a target", "sm_90a"))
    if match is None or int(match[1]) not in KNOWN:
        text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
        raise IsaError(
            text, 0, f"unknown target '{text}'", ", ".join(f"sm_{n}" for n in KNOWN) + ", with 'a' or 'f' from sm_90 on"
        )
    target = Target(int(match[1]), match[2])
    if target.suffix and (target.number not in _SUFFIXED or (target.suffix == "f" and target.number == 90)):
        raise IsaError(
            text,
            0,
            f"unknown target '{text}': sm_{target.number} has no '{target.suffix}' variant",
            f"sm_{target.number}",
        )
    return target


@dataclass(frozen=True)
class Availability:
    """The targets on which an instruction or a form is available.

    Attributes:
        text: "80+" (sm_80 and everything later, suffixes included), or names without "sm_", e.g. "120a 121a 120f 121f".
    """

    text: str

    def __contains__(self, target: Target) -> bool:
        if self.text.endswith("+"):
            return target.number >= self.lowest
        return f"{target.number}{target.suffix}" in self.text.split()

    @property
    def lowest(self) -> int:
        """The lowest sm number on which it is available."""
        return min(int(number) for number in re.findall(r"\d+", self.text))

    @property
    def first(self) -> str:
        """The name of the lowest target that has it, with its suffix where it needs one: `sm_80`, `sm_100a`."""
        return f"sm_{self.lowest}" + min((name.lstrip("0123456789+") for name in self.text.split()
                                          if name.startswith(str(self.lowest))), default="")  # fmt: skip

    def both(self, other: Availability) -> Availability:
        """The targets that are in both."""
        if self.text.endswith("+") or other.text.endswith("+"):
            return max(self, other, key=lambda availability: availability.lowest)
        return Availability(" ".join(name for name in self.text.split() if name in other.text.split()))

    def __str__(self) -> str:
        if self.text.endswith("+"):
            return f"sm_{self.lowest} or higher"
        return ", ".join(f"sm_{name}" for name in self.text.split())
