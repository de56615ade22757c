"""What stores wait for at the ports of their sub-cores: an SM takes the values of a few of them at a time (`senders` of
`[shared]`), each for as long as the port of its sub-core takes for its values.

Measured: H200, 2026-11-26, `tests/hardware/iterations.py`: stores of two and four registers of one to eight sub-cores'
warps, again and again.

The compiled engine has the same rules (`simulator/timing/compiled/engine.c`, functions of the same names).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence

from simulator.chip.memory import Shared
from simulator.timing.core_records import SmRecord
from simulator.timing.cores import SubCore
from simulator.timing.port import Ring
from simulator.timing.records import SendingRecord, link


class Senders:
    """Those of each SM of a run.

    Args:
        ports: of the sub-cores.
        put_off: is told which store of which sub-core comes by how many cycles later.

    Attributes:
        until: for each SM, `count` cycles from which on another store can be sent: no more than it has sub-cores.
    """

    def __init__(
        self,
        rule: Shared,
        record: SmRecord,
        ports: Sequence[Ring],
        put_off: Callable[[SubCore, SendingRecord, int], None],
    ) -> None:
        self.rule, self.ports, self.put_off = rule, ports, put_off
        self.count = record.senders = min(rule.senders, len(ports) // record.sms)
        self.until = array("q", [0] * self.count * record.sms)
        link(record, senders=self.until)

    def stored(self, core: SubCore) -> int:
        """How many values the access has that the sub-core sends, if it is a store."""
        sent = self.ports[core.number].access(core.accesses_taken)
        operation = core.mine[sent.warp].operation_at(sent.pc)
        return 0 if operation.writes else operation.sent - 1

    def comes(self, sm: int, core: SubCore) -> int:
        """When the SM can take the access that the sub-core sends: a store not while others send their values."""
        soonest = self.ports[core.number].access(core.accesses_taken).soonest
        return max(soonest, self.until[self.first(sm)]) if self.stored(core) else soonest

    def first(self, sm: int) -> int:
        """The index of the sender of an SM that is free first."""
        return min(range(self.count * sm, self.count * (sm + 1)), key=self.until.__getitem__)

    def send(self, sm: int, core: SubCore, cycle: int) -> None:
        """Notes that the SM takes the access that the sub-core sends in this cycle."""
        if values := self.stored(core):
            self.until[self.first(sm)] = cycle + values * self.rule.port_cycles

    def wait(self, sm: int, cores: Sequence[SubCore], cycle: int) -> None:
        """Puts off the stores that cannot be sent in this cycle, as others are."""
        for core in cores:
            if core.accesses_taken < core.accesses_made:
                sent = self.ports[core.number].access(core.accesses_taken)
                late = self.comes(sm, core) - sent.soonest
                if sent.soonest <= cycle and late > 0:
                    self.put_off(core, sent, late)

    def state(self, sm: int, cycle: int) -> list[int]:
        """All that decides what is sent from a cycle on, relative to it."""
        return sorted(max(until - cycle, 0) for until in self.until[self.count * sm : self.count * (sm + 1)])
