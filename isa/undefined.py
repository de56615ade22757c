"""The cases that PTX leaves undefined: the name of each, the rule that is broken, and the source that states the rule.

`RULES` lists every case that the project detects. This module detects those that concern the metadata of `mma.sp`; the
others are detected by the modules that hold the state on which they depend. What an H100 does with undefined metadata
has been measured, and `simulator.execute` computes it.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from isa.errors import UndefinedBehavior
from isa.fragments.metadata import CODE_BITS, Metadata
from isa.patterns import FOUR_OF_EIGHT, ONE_OF_TWO, TWO_OF_FOUR
from isa.types import Bits


class Rule(NamedTuple):
    """The rule that is broken in one case of undefined behaviour, and the PTX section or the measurement that states
    the rule."""

    rule: str
    section: str


_ALLOCATION = "PTX ISA 9.0, 9.7.16.7 (Tensor Memory allocation)"
_WARPGROUP = "PTX ISA 9.0, 9.7.15.7 (wgmma.fence, commit_group, wait_group)"
_COMPLETION = "PTX ISA 9.0, 9.7.9.25 (completion of asynchronous copies), 9.7.15.7 (wgmma.wait_group)"
_STORAGE = "PTX ISA 9.0, 9.7.14.6.1"
_MEMORY = "PTX ISA 9.0, 8 (memory consistency model)"

RULES: dict[str, Rule] = {
    "invalid-metadata": Rule(
        "the two indices of a metadata code must differ: 0b0000, 0b0101, 0b1010 and 0b1111 are invalid", _STORAGE
    ),
    "unordered-metadata": Rule(
        "the indices of a metadata code must ascend with ::ordered_metadata, and for 8-bit floats in either spelling: "
        "0b0100, 0b1000, 0b1001, 0b1100, 0b1101, 0b1110",
        _STORAGE,
    ),
    "invalid-metadata-tf32": Rule("a 1:2 metadata code must be 0b0100 (first element) or 0b1110 (second)", _STORAGE),
    "selector-out-of-range": Rule("the sparsity selector must name lanes that the shape uses", _STORAGE),
    "uneven-scale-ids": Rule(
        "byte-id and thread-id of block scales must be the same in all lanes of a warp", "PTX ISA 9.0, 9.7.14.3"
    ),
    "shuffle-from-inactive-thread": Rule(
        "a thread that a shuffle reads from must execute it and be in its membermask", "PTX ISA 9.0, 9.7.9.6"
    ),
    "warp-mask": Rule(
        "a thread that executes an instruction with a membermask must be in that mask",
        "PTX ISA 9.0, 9.7.13.2 (bar.warp.sync), 9.7.13.9 to 9.7.13.14 (vote, match, redux, elect), 9.7.9.6 (shfl)",
    ),
    "read-before-write": Rule(
        "a register is read before anything was written to it", "PTX ISA 9.0, 5.1.1 (register state space)"
    ),
    "shared-memory-race": Rule(
        "two warps access the same bytes of shared memory, one of them writing, with nothing that orders them", _MEMORY
    ),
    "shared-memory-bounds": Rule(
        "an access lies outside the shared memory of the CTA", "PTX ISA 9.0, 5.1.7 (shared state space)"
    ),
    "misaligned-address": Rule(
        "an address must be a multiple of the size of the access", "PTX ISA 9.0, 6.4.1 (addresses as operands)"
    ),
    "tmem-allocation-size": Rule("an allocation of Tensor Memory takes 32, 64, 128, 256 or 512 columns", _ALLOCATION),
    "tmem-growing-allocation": Rule("an allocation must not be larger than those of the CTA before it", _ALLOCATION),
    "tmem-alloc-after-relinquish": Rule("no allocation after tcgen05.relinquish_alloc_permit", _ALLOCATION),
    "tmem-dealloc-mismatch": Rule(
        "tcgen05.dealloc must name an allocation: its address and its number of columns", _ALLOCATION
    ),
    "tmem-leak": Rule("every allocation must be given back before the kernel ends", _ALLOCATION),
    "tmem-not-allocated": Rule("Tensor Memory is used that was not allocated", _ALLOCATION),
    "tmem-use-after-free": Rule("Tensor Memory is used after its deallocation", _ALLOCATION),
    "tmem-bounds": Rule(
        "Tensor Memory has lanes 0 to 127 and columns 0 to 511", "PTX ISA 9.0, 9.7.16.1 (Tensor Memory addressing)"
    ),
    "tmem-pair-lane": Rule(
        "tcgen05.ld and st of a CTA of a pair name lanes 0 to 127, those of its own Tensor Memory",
        "PTX ISA 9.0, 9.7.16.1 (Tensor Memory addressing), 9.7.16.8 (access restrictions)",
    ),
    "uneven-operand": Rule(
        "an address or a number of a .sync.aligned instruction must be the same in the whole warp, of wgmma in the "
        "whole warpgroup",
        "PTX ISA 9.0, 9.7.15.5.1.2, 9.7.16",
    ),
    "tmem-copies-differ": Rule(
        "copies of A, of metadata or of scale factors in Tensor Memory must be the same",
        "PTX ISA 9.0, 9.7.16.10 (inferred)",
    ),
    "undefined-metadata": Rule(
        "a metadata code is not one of those that PTX lists for the kind", "PTX ISA 9.0, 9.7.16.10.8"
    ),
    "collector-use-without-fill": Rule(
        "a collector buffer is used that no earlier instruction filled with this operand", "PTX ISA 9.0, 9.7.16.10"
    ),
    "wgmma-pending": Rule(
        "registers of a wgmma.mma_async are touched before wgmma.wait_group has waited for its group", _WARPGROUP
    ),
    "wgmma-unfenced": Rule(
        "registers that other instructions touched go into wgmma.mma_async without wgmma.fence between", _WARPGROUP
    ),
    "async-pending": Rule(
        "bytes, cells or registers are touched that an asynchronous operation still writes or reads, before somebody "
        "has waited for it",
        _COMPLETION,
    ),
    "async-unexpected": Rule(
        "bytes are read whose asynchronous copy the phase of its mbarrier did not wait for", _COMPLETION
    ),
    "async-unfenced": Rule(
        "the asynchronous proxy reads bytes of shared memory that ordinary stores wrote, with no fence.proxy.async",
        "PTX ISA 9.0, 8.6 (proxies), 9.7.13.4 (fence.proxy.async)",
    ),
    "mbarrier-reinitialised": Rule(
        "mbarrier.init on a valid mbarrier, without mbarrier.inval before", "PTX ISA 9.0, 9.7.13.15.9 (mbarrier.init)"
    ),
    "mbarrier-parity": Rule(
        "the parity that mbarrier.test_wait.parity or try_wait.parity waits for is 0 or 1",
        "PTX ISA 9.0, 9.7.13.15.16 (mbarrier.test_wait)",
    ),
    "barrier-mismatch": Rule(
        "all warps of a barrier must agree on its number of threads", "PTX ISA 9.0, 9.7.13.1 (barrier)"
    ),
}


class SparseForm(Protocol):
    """What this module needs to know of a sparse form (`isa.forms.mma.MmaForm`)."""

    @property
    def opcode(self) -> str:
        """The canonical opcode."""

    @property
    def metadata(self) -> Metadata:
        """The metadata operand."""


def undefined_behavior(name: str, where: str) -> UndefinedBehavior:
    """Makes the exception for a case of `RULES` that came up at `where`."""
    rule = RULES[name]
    return UndefinedBehavior(name, where, rule.rule, rule.section)


def metadata_findings(form: SparseForm, codes: Bits) -> dict[str, NDArray[np.bool_]]:
    """Which metadata codes a sparse form leaves undefined.

    Args:
        form: a sparse form.
        codes: uint32 [..., row, chunk], as `form.metadata.gather` returns them.

    Returns:
        For each rule that can apply to the form, whether the code breaks it, same shape as `codes`.
    """
    codes = np.asarray(codes)
    if form.metadata.sparsity not in (TWO_OF_FOUR, FOUR_OF_EIGHT, ONE_OF_TWO):  # a pattern that no chip has
        return {"undefined-metadata": ~form.metadata.legal(codes)}
    return {name: table[codes] for name, table in _tables(form).items()}


def first_metadata_finding(form: SparseForm, codes: Bits, selector: int) -> UndefinedBehavior | None:
    """The exception for the first undefined code of `codes` [case, row, chunk], in order of case, row and chunk; None
    if all are defined."""
    findings = metadata_findings(form, codes)
    broken = np.logical_or.reduce(list(findings.values()))
    if not broken.any():
        return None
    case, row, chunk = (int(i) for i in np.argwhere(broken)[0])
    name = next(name for name, broken_codes in findings.items() if broken_codes[case, row, chunk])
    lane, position = (int(p) for p in form.metadata.mapping.positions(row=row, chunk=chunk, selector=selector))
    low = CODE_BITS * position
    place = f"lane {lane}, bits {low}..{low + CODE_BITS - 1} of the metadata register"
    return undefined_behavior(
        name,
        f"{form.opcode}, case {case}, row {row}, chunk {chunk}: code 0b{int(codes[case, row, chunk]):04b} in {place}",
    )


def _tables(form: SparseForm) -> dict[str, NDArray[np.bool_]]:
    """For each rule, which of the 16 codes break it. Together they are exactly the codes that `form.metadata` does not
    list as defined."""
    code = np.arange(16)
    low, high = code & 3, code >> 2
    legal = np.isin(code, form.metadata.codes)
    if form.metadata.sparsity.splices:
        return {"invalid-metadata-tf32": ~legal}
    return {"invalid-metadata": low == high, "unordered-metadata": ~legal & (low > high)}
