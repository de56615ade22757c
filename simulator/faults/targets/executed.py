"""What one execution of a faulty `tcgen05.mma` resulted in, before it is judged."""

from __future__ import annotations

from dataclasses import dataclass

from isa.tensor_memory.datapath import Violation
from isa.types import Bits


@dataclass(frozen=True)
class Executed:
    """What one execution resulted in.

    Attributes:
        d: uint32 [row, n], read from where D should be; None where nothing was computed.
        broken: the alignment rules that the addresses break.
        illegal: whether a code that was read is not defined, or the instruction descriptor is not legal.
        unordered: whether the indices of a code that was read do not ascend.
        reason, said: why the execution ended early, and the text of the error.
    """

    d: Bits | None
    broken: tuple[Violation, ...] = ()
    illegal: bool = False
    unordered: bool = False
    reason: str = ""
    said: str = ""
