"""The way of loaded registers from shared memory back to the sub-cores: an SM returns as many a cycle as it serves
wavefronts, each in the first cycle that is free behind the wavefront that it comes with. So what single loads bring
waits for the registers of vector loads, which all come behind the last wavefront.

Measured: H200, 2026-11-26, `tests/hardware/pieces.py`: values behind `ld.shared.v4` of the same warp.

The compiled engine has the same rules (`simulator/timing/compiled/engine.c`, functions of the same names).
"""

from __future__ import annotations

from array import array

from simulator.timing.banked_port import FAR, claim, trailing_ones
from simulator.timing.core_records import SmRecord
from simulator.timing.records import link
from simulator.timing.tables import Shared


class ReturnPath:
    """That of each SM of a run.

    Attributes:
        width: registers that are returned in a cycle; each takes a place in it.
        returned, returning: for each SM, the first place that a register can still take, and bit k, if that is taken k
            places later.
    """

    def __init__(self, rule: Shared, record: SmRecord) -> None:
        self.width = record.returns = -(-rule.wavefronts // rule.cycles)
        self.returned, self.returning = (array("q", [0] * record.sms) for _ in range(2))
        link(record, returned=self.returned, returning=self.returning)

    def give_back(self, sm: int, soonest: int, last: int, count: int, step: int) -> int:
        """Returns the registers of a load to its sub-core, each in the first cycle that is free; as many a cycle as
        wavefronts.

        Args:
            soonest: the first cycle in which an access that begins now or later can return one.
            last: when the last of them is there to be returned; each is there `step` cycles after the one before.

        Returns:
            the cycle in which the last one is.
        """
        soonest, last, step = soonest * self.width, last * self.width, step * self.width
        begin, taken = max(self.returned[sm], soonest), self.returning[sm]
        taken >>= min(begin - self.returned[sm], FAR)
        ahead = -1
        for number in range(count):
            ahead, taken = claim(taken, max(last - (count - 1 - number) * step - begin, ahead + 1))
        free = trailing_ones(taken)
        self.returned[sm], self.returning[sm] = begin + free, taken >> free
        return (begin + ahead) // self.width

    def state(self, sm: int, cycle: int) -> tuple[int, int]:
        """All that decides what is returned from a cycle on, relative to it."""
        ahead = self.returned[sm] - cycle * self.width
        return max(ahead, 0), self.returning[sm] >> min(max(-ahead, 0), FAR)
