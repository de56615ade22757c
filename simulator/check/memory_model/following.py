"""What who follows a batch offers to those that note what its threads hand on, and where they go astray."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from simulator.check.memory_model.clocks import Clocks, Released
from simulator.check.memory_model.handed import Handed, Levels, Thread
from simulator.check.memory_model.ledger import Ledger
from simulator.check.memory_model.semantics import Scope, Semantics
from simulator.execute.launch_state import LaunchState


@dataclass
class Notes:
    """What threads of a batch have fenced, and what they have seen and not acquired.

    Attributes:
        fenced: by thread, what its strong writes hand on, by scope.
        seen: by thread, what its strong reads have seen, and their scope.
        looked: by thread, what relaxed waits for mbarriers have seen.
        barriers, seen_at: by barrier, what those who have arrived there had fenced, and seen.
    """

    fenced: dict[Thread, Levels] = field(default_factory=dict)
    seen: dict[Thread, list[tuple[Handed, Scope]]] = field(default_factory=dict)
    looked: dict[Thread, list[Released]] = field(default_factory=dict)
    barriers: dict[object, Levels] = field(default_factory=dict)
    seen_at: dict[object, list[tuple[Handed, Scope]]] = field(default_factory=dict)


class Following(Protocol):
    """Who follows a batch.

    Attributes:
        state: of the batch.
        clocks: of its threads.
        notes: what they have fenced and seen.
        first_row: of the batch among all warps that are followed.
    """

    state: LaunchState
    clocks: Clocks
    notes: Notes
    first_row: int

    @property
    def ledger(self) -> Ledger:
        """The threads that are followed."""

    @property
    def semantics(self) -> Semantics:
        """What the present instruction means for the order of threads."""
