"""The errors of a launch: what is wrong, in which CTA, warp and lane, at which line of the PTX and of the source."""

from __future__ import annotations

from isa.errors import Error


class LaunchError(Error, RuntimeError):
    """A launch cannot be made, or cannot go on.

    Attributes:
        line: of the PTX text, from 1; 0 where no line is to blame.
        source: "file:line" of the source that `.loc` names; "" if it names none.
        thread: which threads met it, in words; "" if that is unknown.
        also: further lines of the PTX that have to do with it.
        rule, reason, legal: as in `Error`.
    """

    def __init__(
        self,
        reason: str,
        legal: str = "",
        line: int = 0,
        source: str = "",
        thread: str = "",
        rule: str = "",
        also: tuple[int, ...] = (),
    ) -> None:
        super().__init__(reason, legal, line, source, thread, rule)
        self.reason, self.legal, self.line, self.source, self.thread, self.rule = (
            reason,
            legal,
            line,
            source,
            thread,
            rule,
        )
        self.also = also

    def __str__(self) -> str:
        place = f"line {self.line}" if self.line else ""
        place = f"{place} ({self.source})" if self.source else place
        whole = ": ".join(part for part in (place, self.thread, self.reason) if part)
        return f"{whole}; legal: {self.legal}" if self.legal else whole
