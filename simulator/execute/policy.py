"""The choices of when asynchronous operations complete, as users write them."""

from __future__ import annotations

from dataclasses import dataclass

from isa.errors import IsaError

LEGAL = "issue, earliest, latest, or seed:N, such as seed:7"
MOST_SEED = 2**63 - 1


@dataclass(frozen=True)
class Policy:
    """When asynchronous operations complete.

    Attributes:
        name: "issue", "earliest" (at issue, but what no fence orders before is not seen), "latest" (when somebody waits
            for it), or "seed" (each at a moment of its own between the two).
        seed: of the moments.
    """

    name: str = "issue"
    seed: int = 0

    def __str__(self) -> str:
        return f"seed:{self.seed}" if self.name == "seed" else self.name


def parse_policy(text: object) -> Policy:
    """Reads "issue", "earliest", "latest" or "seed:N"; IsaError for anything else."""
    name, _, number = text.partition(":") if isinstance(text, str) else ("", "", "")
    if name in ("issue", "earliest", "latest") and text == name:
        return Policy(name)
    if name == "seed" and number.isascii() and number.isdecimal() and len(number) < 20 and int(number) <= MOST_SEED:
        return Policy("seed", int(number))
    raise IsaError(str(text), -1, f"completion={text!r} is not known", LEGAL)
