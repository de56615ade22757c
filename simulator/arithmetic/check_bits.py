"""Models of error detection: whether parity or a SECDED code (single error corrected, double error detected) over
32-bit words notices the bits that a fault has changed."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from isa.types import Bits

Mask = NDArray[np.bool_]


def parity(changed: Bits) -> Mask:
    """Whether an odd number of bits has changed in any word of [case, word]."""
    return np.asarray((np.bitwise_count(changed) % 2 == 1).any(axis=1))


@lru_cache(maxsize=1)
def hsiao() -> Bits:
    """The columns of a Hsiao code (39, 32): 32 different words of 7 bits, three of which are set."""
    columns = [value for value in range(128) if value.bit_count() == 3]
    return np.array(columns[:32], np.uint32)


@lru_cache(maxsize=1)
def _by_byte() -> Bits:
    """The syndrome of each value of each byte of a word: [byte, value]."""
    bits = np.arange(256)[:, None] >> np.arange(8) & 1
    return np.stack(
        [
            np.bitwise_xor.reduce(np.where(bits == 1, hsiao()[low : low + 8], np.uint32(0)), axis=1)
            for low in range(0, 32, 8)
        ]
    )


def syndromes(changed: Bits) -> Bits:
    """The syndrome of each changed word [...]: the exclusive or of the code's columns at the bits that changed."""
    table = _by_byte()
    columns: Bits = np.bitwise_xor.reduce(
        [table[byte][changed >> np.uint32(8 * byte) & np.uint32(255)] for byte in range(4)]
    )
    return columns


class Decoded(NamedTuple):
    """What a SECDED decoder does about the words of each case, bool [case].

    Attributes:
        noticed: it sees in some word what it cannot correct, and in no other one takes something wrong for right.
        corrected: it corrects every word that changed, and rightly.
        miscorrected: it believes that it corrected all that it saw, and some word is left wrong, or made worse.
    """

    noticed: Mask
    corrected: Mask
    miscorrected: Mask

    @property
    def handled(self) -> Mask:
        """In every word the change is noticed or corrected, and no word is left wrong unnoticed or made worse."""
        return self.noticed | self.corrected


def decoded(changed: Bits) -> Decoded:
    """What a SECDED code makes of changes uint32 [case, word]. A word that is seen to be beyond correction stops the
    read, so that nothing counts as corrected; a change that gives no syndrome is left as it is."""
    syndrome = syndromes(changed)
    weight = np.bitwise_count(changed)
    single = np.zeros(128, np.bool_)
    single[[*hsiao(), *(1 << bit for bit in range(7))]] = True
    corrects = single[syndrome]  # as one flipped bit, of data or of the check bits
    wrong = (weight > 0) & ((syndrome == 0) | (corrects & (weight > 1)))
    double = (weight > 0) & (syndrome != 0) & ~corrects
    some, stops, any_wrong = (np.asarray(mask.any(axis=1)) for mask in (weight > 0, double, wrong))
    acts = np.asarray((corrects & (weight > 0)).any(axis=1)) & ~stops
    return Decoded(stops & ~any_wrong, some & ~stops & ~any_wrong, acts & any_wrong)


def secded(changed: Bits) -> Mask:
    """Whether a SECDED code handles the faults of [case, word], see `Decoded.handled`."""
    return decoded(changed).handled
