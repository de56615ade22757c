"""What a subject of a campaign is: something to inject faults into."""

from __future__ import annotations

from typing import Any, Protocol

from simulator.faults.outcomes import Results
from simulator.faults.space import Site
from simulator.faults.table import Faults
from simulator.layout import FormLayout


class Subject(Protocol):
    """One instruction, or a trace.

    Attributes:
        layout: of the instruction; of a trace, of its matrix instruction.
        sites: where faults can be, by name.
        cases: sets of operands; of a trace: warps.
        digest: of the inputs.
    """

    @property
    def layout(self) -> FormLayout: ...

    @property
    def sites(self) -> dict[str, Site]: ...

    @property
    def cases(self) -> int: ...

    @property
    def digest(self) -> str: ...

    def run(self, faults: Faults) -> Results:
        """The outcome of each fault, in the order given."""

    def replay(self, fault: Any) -> dict[str, Any]:
        """One fault in words: what it changes, which lanes and elements that concerns, and the result before and
        after."""
