"""The zero-column mask descriptor of `tcgen05.mma.ws`: which columns of B count as zero, whatever shared memory holds.

The descriptor is expanded to N bits, a 1 for a column that counts as zero. Rows of the table and the algorithm: PTX ISA
9.0, 9.7.16.4.3 (table 45 and its four examples). Two inconsistencies of the sources, settled by the examples:

- Table 45 says that the skip span counts columns where B is used and the use span columns where zeros are used. In its
  examples it is the other way round, and CUTLASS (`MaskAndShiftB` in include/cute/arch/mma_sm100_desc.hpp) says so too:
  skip span 2 makes runs of three 1-bits, use span 3 runs of four 0-bits. The names are right, the descriptions are not.
- The comment on CUTLASS's `nzm_` says that 1 disables the mask. PTX says that 1 generates it, example 1 shows it, and
  CUTLASS's own `make_column_zero_mask` clears the bit when nothing is to be masked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from isa.descriptors.bitfields import Field, Finding, Severity, SingleTableDescriptor, reserved
from isa.descriptors.fields import table_markdown
from isa.errors import IsaError

PTX_MASK = "PTX ISA 9.0, 9.7.16.4.3"
SUB_MASKS = {128: 1, 64: 2, 32: 4}
_FIRST = {0: "B is used first", 1: "zeros come first"}
TABLE = (
    *(
        Field(f"start_count_{i}", 8 * i, 8, f"lowest bits of the pattern that sub-mask {i} leaves out")
        for i in range(4)
    ),
    *(
        Field(f"first_span_{i}", 32 + i, 1, f"first run of the pattern of sub-mask {i}", flag=True, words=_FIRST)
        for i in range(4)
    ),
    reserved(36, 3),
    Field(
        "non_zero_mask",
        39,
        1,
        "whether there is a mask at all",
        flag=True,
        words={0: "no column is zeroed", 1: "the mask is generated"},
    ),
    Field(
        "skip_span",
        40,
        8,
        "length of a run of zeroed columns, less 1 (table 45 describes the two spans the wrong way round)",
    ),
    Field("use_span", 48, 8, "length of a run of used columns, less 1"),
    Field("column_shift", 56, 6, "the first column of B; at most 16 for M = 32, 32 otherwise"),
    reserved(62, 2, "not in table 45", severity=Severity.WARNING),
)


@dataclass(frozen=True)
class ZeroColumnMask(SingleTableDescriptor):
    """The 64-bit descriptor; attributes are the fields of PTX's table 45, the spans as stored (one less than the run).

    >>> ZeroColumnMask(non_zero_mask=True, skip_span=2, use_span=3).mask(16, m=128).astype(int).tolist()
    [0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0, 0]
    """

    TITLE: ClassVar[str] = "zero-column mask descriptor"
    TABLE: ClassVar[tuple[Field, ...]] = TABLE
    WIDTH: ClassVar[int] = 64
    SOURCE: ClassVar[str] = PTX_MASK
    RULE: ClassVar[str] = "zero-column-mask"

    start_count_0: int = field(default=0, kw_only=True)
    start_count_1: int = field(default=0, kw_only=True)
    start_count_2: int = field(default=0, kw_only=True)
    start_count_3: int = field(default=0, kw_only=True)
    first_span_0: bool = field(default=False, kw_only=True)
    first_span_1: bool = field(default=False, kw_only=True)
    first_span_2: bool = field(default=False, kw_only=True)
    first_span_3: bool = field(default=False, kw_only=True)
    non_zero_mask: bool = field(default=False, kw_only=True)
    skip_span: int = field(default=0, kw_only=True)
    use_span: int = field(default=0, kw_only=True)
    column_shift: int = field(default=0, kw_only=True)

    @property
    def zeroed_run(self) -> int:
        """The number of columns in each run that counts as zero."""
        return self.skip_span + 1

    @property
    def used_run(self) -> int:
        """The number of columns in each run that is used."""
        return self.use_span + 1

    def mask(self, n: int, *, m: int) -> NDArray[np.bool_]:
        """Bool [n]: whether column c of the instruction's N counts as zero.

        Each sub-mask takes N / number of sub-masks bits of a periodic pattern: runs of used and zeroed columns in turn,
        the zeroed run first if its first span is set, without the first `start_count` bits. Raises IsaError if M has no
        sub-masks or N does not divide by their number.
        """
        parts = _sub_masks(m)
        if n < 0 or n % parts:
            raise IsaError(
                str(n),
                -1,
                f"N = {n} does not divide into {parts} sub-masks",
                f"a multiple of {parts}",
                rule="zero-column-mask",
            )
        if not self.non_zero_mask:
            return np.zeros(n, dtype=np.bool_)
        place = np.arange(n // parts) % (self.zeroed_run + self.used_run)
        masks = []
        for part in range(parts):
            start, zeroed_first = getattr(self, f"start_count_{part}"), getattr(self, f"first_span_{part}")
            phase = (place + start) % (self.zeroed_run + self.used_run)
            masks.append(phase < self.zeroed_run if zeroed_first else phase >= self.used_run)
        return np.concatenate(masks)

    def columns(self, n: int) -> NDArray[np.int64]:
        """int64 [n]: the column of B in shared memory that each column of the instruction's N reads. PTX ISA 9.0,
        9.7.16.4.3, example 4.

        That the mask belongs to the columns before the shift, not after it, is inferred: PTX does not say.
        """
        return np.arange(n, dtype=np.int64) + self.column_shift

    def validate(self, *, m: int, n: int | None = None, max_shift: int | None = None) -> list[Finding]:
        """Everything that is wrong with the descriptor.

        Args:
            m: M of the instruction; raises IsaError if it is not 32, 64 or 128.
            n: N of the instruction, if known.
            max_shift: what the instruction descriptor gives as maximum shift (0, 8, 16 or 32), if known.
        """
        parts, limit = _sub_masks(m), 16 if m == 32 else 32
        findings = self.reserved_findings()
        if self.column_shift > limit:
            findings.append(
                self.finding(
                    "column_shift", Severity.ILLEGAL, f"a shift of {self.column_shift} with M = {m}", f"0 to {limit}"
                )
            )
        if max_shift is not None and self.column_shift > max_shift:
            rule = (
                f"a shift of {self.column_shift} beyond the instruction descriptor's maximum of {max_shift} (inferred)"
            )
            findings.append(
                self.finding(
                    "column_shift", Severity.UNDEFINED, rule, f"0 to {max_shift}", f"{PTX_MASK}; 9.7.16.4.2, bits 30-31"
                )
            )
        if n is not None and (n <= 0 or n % parts):
            rule = f"N = {n} does not divide into {parts} sub-masks"
            findings.append(self.finding("non_zero_mask", Severity.ILLEGAL, rule, f"N a multiple of {parts}"))
        return findings

    def check(self, **how: Any) -> None:
        """Raises IsaError with everything that `validate(**how)` reports as illegal or undefined."""
        self.refuse(self.validate(**how))


def _sub_masks(m: int) -> int:
    if m not in SUB_MASKS:
        raise IsaError(str(m), -1, f"M = {m} has no zero-column mask", "32, 64 or 128", rule="zero-column-mask")
    return SUB_MASKS[m]


def mask_markdown() -> str:
    """The part of docs/descriptors.md on this descriptor."""
    return f"""## Zero-column mask descriptor

64 bits, `.ws` only; an immediate 0 is the same as no descriptor. {PTX_MASK}, table 45.

{table_markdown(TABLE)}

The mask has N bits, a 1 for a column of B that counts as zero. M = 128 has one sub-mask of N bits, M = 64 two of N/2,
M = 32 four of N/4, over consecutive columns. A sub-mask is cut from a periodic pattern, lowest bit first: `use_span +
1` zeros and `skip_span + 1` ones in turn, the ones first if its `first_span` is set, without the first `start_count`
bits. The instruction reads columns `column_shift` to `column_shift + N - 1` of B (that the mask counts from the
shifted column is inferred).

Table 45 describes skip span as columns where B is used and use span as columns of zeros. Its own examples, and
CUTLASS, have it the other way round, as above.

```python
>>> from isa.descriptors.zero_column_mask import ZeroColumnMask
>>> ZeroColumnMask(non_zero_mask=True, skip_span=2, use_span=3).mask(16, m=128).astype(int).tolist()
[0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 0, 0]

```"""
