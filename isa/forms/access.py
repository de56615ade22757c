"""What an instruction does to memory: which memory, how many bytes, and how many lanes give an address."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Space(Enum):
    """The memories that an instruction can access."""

    SHARED = "shared"
    GLOBAL = "global"
    TENSOR = "tensor memory"


@dataclass(frozen=True)
class Access:
    """What an instruction does to memory.

    Attributes:
        space: which memory; of a copy to shared memory the one that it reads.
        bytes: bytes that each lane gets or gives; 0 where an operand says it.
        write: whether it writes there.
        row_bytes: bytes that lie at each address; as many as `bytes` unless lanes read rows for one another.
        addresses: how many lanes give an address.
    """

    space: Space
    bytes: int
    write: bool = False
    row_bytes: int = 0
    addresses: int = 32
