"""Detectors of faults, such as parity bits and checksums: for each fault they say whether the detector would have seen
it, whatever the policy did about the fault.

legality   a check of the codes that are read: one is not defined for the form
ordered    a stricter check: the indices of every code that is read must ascend (1:2: one of the two legal codes)
parity     one parity bit a metadata word, checked when the word is read
secded     seven check bits a metadata word (Hsiao 1970): one flipped bit is corrected, two are seen; counts if it sees
           or rightly corrects
abft       row and column checksums of D as it is stored (Huang and Abraham 1984) against those predicted from A, B and
           C: a difference above the largest of other, fault-free products. Its false alarms are measured on fresh ones
alignment  addresses that break a rule of the data path layout, and `race`, shared-memory races: runs say these
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from isa.fragments.metadata import Sparsity
from isa.types import Bits

METADATA_RULES = ("invalid-metadata", "unordered-metadata", "invalid-metadata-tf32", "undefined-metadata")
"""The cases of `isa.undefined.RULES` that `legality` sees, wherever they are met. A policy that stops at them names one
as the rule that was broken."""
Mask = NDArray[np.bool_]


def code_checks(codes: Bits, legal: Mask, sparsity: Sparsity) -> tuple[Mask, Mask]:
    """Checks codes [case, row, chunk], given whether each is defined. Returns two answers for each case: whether any
    code is not defined, and whether the indices of any code do not ascend."""
    table = np.ones(16, np.bool_)
    table[list(sparsity.ordered)] = False
    return np.asarray((~legal).any(axis=(1, 2))), np.asarray(table[codes].any(axis=(1, 2)))
