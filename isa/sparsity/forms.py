"""Matrix instructions that no chip has: `mma.sp` with another pattern.

    mma.sp[1:4].m16n8k64.f32.f16.f16.f32

is written as an `mma.sp` with the pattern in brackets. Its fragments are derived from those of the dense instruction
that has as many stored columns: A as that one's A (here m16n8k16), B and D as `mma` has them for this K, metadata by
the rule of `mma.sp` for codes of this width (`isa.fragments.metadata.metadata_operand`). That NVIDIA would build it so
is an assumption; that nothing is held twice or left out is not.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

from isa.errors import IsaError
from isa.forms.mma import MmaForm
from isa.forms.mma_rows import MmaRow
from isa.forms.record import Role, Shape, Time
from isa.fragments.metadata import Metadata, metadata_operand
from isa.fragments.registers import Fragment, a_fragment, accumulator_fragment, b_fragment
from isa.patterns import Sparsity, parse_pattern
from isa.targets import Availability
from isa.types import MATRIX_TYPES

_OPCODE = re.compile(
    r"mma\.sp(?P<ordered>::ordered_metadata)?\[(?P<pattern>[^\]]+)\](?:\.sync\.aligned)?\.m(?P<m>16)n(?P<n>8)k(?P<k>\d+)"
    r"(?:\.row\.col)?\.(?P<d>\w+)\.(?P<a>\w+)\.(?P<b>\w+)\.(?P<c>\w+)"
)
SPELLING = "mma.sp[PATTERN].m16n8kK.D.A.B.C, such as mma.sp[1:4].m16n8k64.f32.f16.f16.f32"
SECTION = "derived from PTX ISA 9.0, 9.7.14.5 and 9.7.14.6.2; no chip has it"
_ROW_BYTES = (16, 32)  # of a row of A as it is stored, as of the instructions that there are


@dataclass(frozen=True, kw_only=True)
class PatternForm(MmaForm):
    """A hypothetical `mma.sp`: D = A * B + C, A with any pattern N:M.

    Attributes:
        pattern: of A.
    """

    pattern: Sparsity

    __hash__ = MmaForm.__hash__

    @property
    def hypothetical(self) -> str:
        """The name of the pattern."""
        return self.pattern.name

    @property
    def k_stored(self) -> int:
        """The number of columns of A that the registers hold."""
        return self.pattern.columns(self.k)

    @cached_property
    def a(self) -> Fragment:
        """Where the stored elements of A live."""
        return a_fragment(self.m, self.k_stored, self.a_type)

    @cached_property
    def metadata(self) -> Metadata:
        """The metadata operand."""
        return metadata_operand(self.m, self.k, self.a_type, self.ordered, self.pattern)


def is_hypothetical(opcode: str) -> bool:
    """Whether an opcode is written as a hypothetical `mma.sp`."""
    return opcode.strip().startswith(("mma.sp[", "mma.sp::ordered_metadata["))


@lru_cache(maxsize=64)
def pattern_form(opcode: str) -> PatternForm:
    """The form of a hypothetical opcode.

    Raises:
        IsaError: not such an opcode, a pattern or types that it cannot have, or a K that fills no fragment.
    """
    match = _OPCODE.fullmatch(opcode.strip())
    if match is None:
        raise IsaError(opcode, 0, f"'{opcode}' is no hypothetical mma.sp", SPELLING)
    pattern = parse_pattern(match["pattern"])
    if not isinstance(pattern, Sparsity):
        reason = f"a fragment of {pattern.name}: its rows do not all store the same columns or numbers of elements"
        raise IsaError(opcode, 7, reason, "a pattern N:M; other patterns have no fragment of a warp")
    types = {name: MATRIX_TYPES.get(match[name]) for name in "dabc"}
    unknown = [match[name] for name, element in types.items() if element is None]
    if unknown:
        raise IsaError(opcode, 0, f"no element type '{unknown[0]}'", ", ".join(MATRIX_TYPES))
    m, n, k = (int(match[name]) for name in "mnk")
    d, a, b, c = (MATRIX_TYPES[match[name]] for name in "dabc")
    fits = a.bits == b.bits and a.bits <= 32 and d.bits in (16, 32) and c is d
    if not fits:
        raise IsaError(opcode, 0, "types of different widths", "A and B of the same width up to 32 bits, C as D")
    sizes = [size * 8 // a.bits * pattern.chunk // pattern.stored for size in _ROW_BYTES]
    if k not in sizes or k % pattern.chunk:
        reason = f"K = {k} with {pattern.name} of {a.name}: rows of A do not fill 16 or 32 bytes"
        raise IsaError(opcode, 0, reason, " or ".join(f"k{size}" for size in sizes))
    row = MmaRow((m, n, k), f"{d.name} {c.name}", f"{a.name} {b.name}", True)
    ordered = bool(match["ordered"])
    registers = {
        "d": accumulator_fragment("d", m, n, d), "a": a_fragment(m, pattern.columns(k), a), "b": b_fragment(k, n, b),
        "c": accumulator_fragment("c", m, n, c),
    }  # fmt: skip
    metadata = metadata_operand(m, k, a, ordered, pattern)
    roles = [Role(name, Shape.VECTOR, part.registers, output=name == "d") for name, part in registers.items()]
    roles += [Role("e", Shape.SCALAR), Role("f", Shape.IMMEDIATE, limit=metadata.selectors, constants=("integer",))]
    spelled = "mma.sp" + "::ordered_metadata" * ordered + f"[{match['pattern']}]"
    qualifiers = ("sync", "aligned", f"m{m}n{n}k{k}", "row", "col", d.name, a.name, b.name, c.name)
    return PatternForm(
        opcode=".".join((spelled, *qualifiers)), name="mma", qualifiers=qualifiers, roles=tuple(roles),
        since_ptx="99.0", targets=Availability("999"), section=SECTION, time=Time.TENSOR,
        m=m, n=n, k=k, d_type=d, a_type=a, b_type=b, c_type=c, sparse=True, ordered=ordered, saturate=False, row=row,
        pattern=pattern,
    )  # fmt: skip
