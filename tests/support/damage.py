"""Damaged bytes, for tests of what reads them."""

from __future__ import annotations

import random

_WITHIN = b'0123456789abcxf-,.\n#{}[]"= '


def damaged(data: bytes, rng: random.Random) -> bytes:
    """A few bytes changed, lost or added, or the end lost."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at, kind = rng.randrange(max(1, len(found))), rng.randrange(5)
        if kind == 0:
            found[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            found[at : at + 1] = bytes([rng.choice(_WITHIN)])
        elif kind == 2:
            del found[at : at + rng.randrange(1, 20)]
        elif kind == 3:
            found[at:at] = bytes([rng.choice(_WITHIN)]) * rng.randrange(1, 4)
        else:
            del found[at:]
    return bytes(found)
