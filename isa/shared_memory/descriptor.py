"""The shared-memory descriptor of `tcgen05.mma` and `tcgen05.cp`: where a matrix lies, how it is swizzled, and what is
wrong with a word. What it shares with that of Hopper is in `isa.shared_memory.matrix_descriptor`.

Sources: PTX ISA 9.0, 9.7.16.4.1 (tables 40 and 41), 9.7.16.3 (strides, absolute addresses, canonical layouts); CUTLASS
include/cute/arch/mma_sm100_desc.hpp and atom/mma_traits_sm100.hpp, which build the same words. Sparse A uses the
layouts on its packed M x K/2 matrix, 32 bytes a row and instruction; sparse B has 64 bytes a column.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from isa.descriptors.bitfields import Field, Finding, Severity, reserved
from isa.descriptors.fields import table_markdown
from isa.descriptors.instruction import KINDS, PTX_TRANSPOSE
from isa.errors import IsaError
from isa.shared_memory.matrix_descriptor import BASE, START, STRIDE, MatrixDescriptor, Swizzle, leading, swizzle_names
from isa.targets import Target, parse_target

PTX_SMEM = "PTX ISA 9.0, 9.7.16.4.1"
PTX_STRIDES = "PTX ISA 9.0, 9.7.16.3.1"
VERSION = 1


SWIZZLES: Mapping[str, Swizzle] = {
    "none": Swizzle(0, 1, 16, 0, 4, 3, 8),
    "128B, 32B atoms": Swizzle(1, 8, 1024, 2, 5, 2, 4),
    "128B": Swizzle(2, 8, 1024, 3, 4, 3, 8),
    "64B": Swizzle(4, 4, 512, 2, 4, 3, 8),
    "32B": Swizzle(6, 2, 256, 1, 4, 3, 8),
}
TABLE = (
    START,
    reserved(14, 2, "not in table 40", severity=Severity.WARNING),
    leading(" (or absolute address of the second chunk)"),
    reserved(30, 2, "not in table 40", severity=Severity.WARNING),
    STRIDE,
    Field("version", 46, 3, "must be 0b001"),
    BASE,
    Field(
        "leading_absolute",
        52,
        1,
        "how the leading dimension is given; absolute on sm_103a, K-major, 128B swizzle, base offset 0 only",
        flag=True,
        words={0: "byte offset", 1: "absolute byte address"},
    ),
    reserved(53, 8, "fixed"),
    Field(
        "swizzle",
        61,
        3,
        "swizzle mode; 3, 5 and 7 are invalid",
        names=swizzle_names(SWIZZLES),
    ),
)


@dataclass(frozen=True)
class SharedMemoryDescriptor(MatrixDescriptor):
    """The 64-bit descriptor of a matrix in shared memory; addresses and offsets in bytes, multiples of 16 below 2^18.

    >>> hex(SharedMemoryDescriptor(stride_offset=1024, leading_offset=16, swizzle="128B").encode())
    '0x4000404000010000'
    """

    TITLE: ClassVar[str] = "shared-memory descriptor"
    TABLE: ClassVar[tuple[Field, ...]] = TABLE
    SWIZZLES: ClassVar[Mapping[str, Swizzle]] = SWIZZLES
    SOURCE: ClassVar[str] = PTX_SMEM
    RULE: ClassVar[str] = "smem-descriptor"

    version: int = field(default=VERSION, kw_only=True)
    leading_absolute: bool = field(default=False, kw_only=True)

    @property
    def two_chunks(self) -> bool:
        """As in `MatrixDescriptor`."""
        return self.leading_absolute

    def check_place(self, byte: int, transposed: bool) -> None:
        """As in `MatrixDescriptor`. The 128 bytes of each k in the 128B mode with 32-byte atoms come from CUTLASS alone
        (one source); that a base offset moves the start of the pattern by 128 bytes each is measured on Hopper."""
        mode = self.mode
        if self.leading_absolute:
            raise IsaError(
                str(self.leading_offset),
                -1,
                "the layout of absolute leading addresses is not modelled",
                "leading_absolute = 0",
                rule="smem-descriptor",
            )
        if not transposed and self.swizzle == "128B, 32B atoms":
            raise IsaError(
                "128B, 32B atoms",
                -1,
                "no K-major layout is documented for this swizzle",
                "128B, 64B, 32B, none",
                rule="smem-descriptor",
            )
        if not transposed and mode.units > 1 and byte >= 16 * mode.units:
            raise IsaError(
                str(byte),
                -1,
                f"a K-major row has {16 * mode.units} bytes with this swizzle",
                f"0 to {16 * mode.units - 1}",
                rule="smem-descriptor",
            )

    def validate(
        self,
        *,
        target: str | Target = "sm_100a",
        kind: str | None = None,
        operand: str = "a",
        transposed: bool = False,
        sparse: bool = False,
        pattern_start: int | None = None,
    ) -> list[Finding]:
        """Everything that is wrong with the descriptor; empty if nothing is.

        Args:
            target: what the instruction is compiled for.
            kind: its kind; None for `tcgen05.cp` or where it does not matter.
            operand: "a" or "b".
            transposed: the operand's transpose bit in the instruction descriptor.
            sparse: whether the instruction says `.sp`.
            pattern_start: the byte at which the swizzle's repeating pattern starts, if known.
        """
        if kind not in (None, *KINDS):
            raise IsaError(str(kind), 0, f"unknown kind '{kind}'", ", ".join(KINDS))
        if operand not in ("a", "b"):
            raise IsaError(operand, 0, f"unknown operand '{operand}'", "a, b")
        findings = self.reserved_findings()
        if self.version != VERSION:
            findings.append(self.finding("version", Severity.ILLEGAL, f"bits 46-48 are {self.version:#05b}", "0b001"))
        if isinstance(self.swizzle, int):
            findings.append(
                self.finding("swizzle", Severity.ILLEGAL, f"swizzle code {self.swizzle} is invalid", "0, 1, 2, 4 or 6")
            )
        else:
            findings += self._base(pattern_start)
        findings += self._absolute(parse_target(target), transposed)
        findings += self._majors(kind, operand, transposed, sparse)
        return findings

    def check(self, **how: Any) -> None:
        """Raises IsaError with everything that `validate(**how)` finds illegal or undefined."""
        self.refuse(self.validate(**how))

    def _base(self, pattern_start: int | None) -> list[Finding]:
        pattern = self.mode.pattern
        if self.swizzle == "none":
            return (
                [self.finding("base_offset", Severity.WARNING, "a base offset without swizzle", "0")]
                if self.base_offset
                else []
            )
        if pattern_start is None:
            rule = f"a base offset: right only where the pattern does not start at a multiple of {pattern} bytes"
            return (
                [self.finding("base_offset", Severity.WARNING, rule, f"0 if it starts at a multiple of {pattern}")]
                if self.base_offset
                else []
            )
        if pattern_start % 128:
            rule = f"the pattern starts at {pattern_start}, which no base offset can say (inferred)"
            return [self.finding("base_offset", Severity.UNDEFINED, rule, "a start that is a multiple of 128")]
        right = 0 if pattern_start % pattern == 0 else pattern_start >> 7 & 7
        if self.base_offset != right:
            rule = f"base offset {self.base_offset} where the {self.swizzle} pattern starts at {pattern_start}"
            return [self.finding("base_offset", Severity.ILLEGAL, rule, str(right), f"{PTX_SMEM}, table 41")]
        return []

    def _absolute(self, chip: Target, transposed: bool) -> list[Finding]:
        if not self.leading_absolute:
            return []
        source = f"{PTX_STRIDES}.2.1"
        broken = {
            f"{chip} has no absolute leading address": (str(chip) != "sm_103a", "0, or sm_103a"),
            f"an absolute leading address with swizzle {self.swizzle}": (self.swizzle != "128B", "swizzle 2 (128B)"),
            "an absolute leading address with a transposed matrix": (transposed, "K-major"),
            f"an absolute leading address with base offset {self.base_offset}": (
                self.base_offset != 0,
                "base offset 0",
            ),
        }
        return [
            self.finding("leading_absolute", Severity.ILLEGAL, rule, right, source)
            for rule, (is_broken, right) in broken.items()
            if is_broken
        ]

    def _majors(self, kind: str | None, operand: str, transposed: bool, sparse: bool) -> list[Finding]:
        name, atoms = operand.upper(), self.swizzle == "128B, 32B atoms"

        def finding(severity: Severity, rule: str, right: str, source: str) -> list[Finding]:
            return [self.finding("swizzle", severity, rule, right, source)]

        if transposed and kind in ("mxf4", "mxf4nvf4"):
            return finding(Severity.ILLEGAL, f"{name} transposed with .kind::{kind}", "K-major", PTX_TRANSPOSE)
        if transposed and kind == "tf32" and not atoms:
            rule = f"{name} transposed with .kind::tf32 in swizzle {self.swizzle}"
            return finding(Severity.ILLEGAL, rule, "swizzle 1 (128B, 32B atoms)", f"{PTX_TRANSPOSE}; 9.7.16.4.2")
        if transposed and kind not in (None, "tf32") and atoms:
            rule = f"{name} transposed with .kind::{kind} in 128B swizzle with 32B atoms"
            return finding(Severity.ILLEGAL, rule, "swizzle 0, 2, 4 or 6", f"{PTX_TRANSPOSE}; 9.7.16.4.2")
        if not transposed and atoms and kind is not None:
            rule = f"K-major {name} in 128B swizzle with 32B atoms: no such layout (not in PTX)"
            return finding(Severity.UNDEFINED, rule, "swizzle 0, 2, 4 or 6", "CUTLASS, make_umma_desc (one source)")
        if sparse and operand == "b" and not transposed and self.swizzle == "32B":
            rule = (
                "sparse K-major B needs 64 contiguous bytes of K, a 32B swizzle row has 32 (not in PTX; "
                "JAX refuses it, inferred)"
            )
            return finding(Severity.UNDEFINED, rule, "swizzle 0, 2 or 4", "JAX (one source)")
        return []


def smem_markdown() -> str:
    """The part of docs/descriptors.md on this descriptor."""
    modes = "\n".join(
        f"| {mode.code} | {name} | {mode.pattern if mode.bits else '-'} | "
        f"Swizzle<{mode.bits},{mode.base},{mode.distance}> "
        f"| `{_k_major(name, mode)}` | `{_mn_major(mode)}` |"
        for name, mode in SWIZZLES.items()
    )
    return f"""## Shared-memory descriptor

64 bits. {PTX_SMEM}, table 40. Addresses and offsets are multiples of 16 below 2^18.

{table_markdown(TABLE)}

Canonical layouts, in elements (T = elements in 16 bytes), CuTe notation; LBO is `leading_offset`, SBO
`stride_offset`. The swizzle is a function of the address, so that a start address may be advanced inside the pattern:
32 bytes of A and, with sparse A, 64 bytes of B for each K step. Sparse A is the packed M x K/2 matrix.

| code | swizzle | aligned to | on byte addresses | K-major | MN-major |
| --- | --- | --- | --- | --- | --- |
{modes}

Rules: transposed tf32 takes swizzle 1 only, every other kind any but 1, mxf4 and mxf4nvf4 nothing. Not in PTX, one
source each: swizzle 1 has no K-major layout (CUTLASS); sparse K-major B does not fit the 32-byte row of swizzle 6
(JAX). `byte_address` computes the byte that holds an element."""


def _k_major(name: str, mode: Swizzle) -> str:
    if name == "128B, 32B atoms":
        return "none"
    return "((8,m),(T,2k)):((1T,SBO),(1,LBO))" if mode.units == 1 else f"((8,m),(T,2k)):(({mode.units}T,SBO),(1,T))"


def _mn_major(mode: Swizzle) -> str:
    if mode.units == 1:
        return "((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))"
    return f"((T,{mode.units},m),({mode.k_rows},k)):((1,T,LBO),({mode.units}T,SBO))"
