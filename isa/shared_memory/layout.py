"""Where the elements of an operand of `wgmma` or `tcgen05.mma` lie in shared memory. The functions compute addresses,
read and write matrices, and check descriptors.

A descriptor (`isa.shared_memory.descriptor`) moves units of 16 bytes. `unit_addresses` is the one mapping; elements,
reads, writes, the bytes that are touched, tiles and the sources of `tcgen05.cp` (`isa.shared_memory.tile`) are views of
it. `rows` are rows of A (M) or columns of B (N), `columns` are K as stored: K / 2 of a sparse A, all K of B. Nothing
here has state: memory is an array that the caller owns.

Evidence: canonical layouts and swizzles, published (PTX ISA 9.0, 9.7.16.3 and 9.7.16.4.1; CUTLASS, make_umma_desc);
sparse A like a dense M x K/2 matrix and B as the full matrix, published (CUTLASS, sparse_smem_desc); 128 bytes for each
k of the mode with 32-byte atoms, published by CUTLASS alone; base offsets and chunks at an absolute address, inferred;
no wrap at the end of the window, assumed. Of `wgmma` all but the window is measured
(`isa.shared_memory.matrix_descriptor`).
"""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from isa.descriptors.instruction import InstructionDescriptor
from isa.errors import IsaError
from isa.mapping import Integers
from isa.shared_memory.descriptor import PTX_SMEM, PTX_STRIDES, SharedMemoryDescriptor
from isa.shared_memory.matrix_descriptor import MatrixDescriptor, Swizzle
from isa.shared_memory.packing import UNIT, Bytes, operand_element, packing
from isa.targets import Target
from isa.types import Bits, ElementType

WINDOW = 1 << 18  # bytes that a descriptor can address
K, MN = "K", "MN"
LINE = 128  # bytes of a line of the 128B swizzle, and of a core matrix

# What the layout refuses, by name (`IsaError.text`), and who says so.
REFUSED: dict[str, str] = {
    "smem-major": f"{PTX_STRIDES}; CUTLASS, make_umma_desc: no K-major layout with 32-byte atoms",
    "smem-row-crosses-swizzle": f"{PTX_STRIDES}: the leading offset is not used in a K-major swizzle "
    "(inferred: so nothing says where the rest is)",
    "smem-absolute-leading": f"{PTX_STRIDES}.2.1",
    "smem-window": f"{PTX_SMEM}: addresses have 18 bits (assumed: no wrap)",
    "smem-memory": "PTX ISA 9.0, 5.1.7 (shared state space)",
    "smem-unaligned": f"{PTX_SMEM}: table 41 and the 16-byte alignment below it",
    "smem-overlap": "a matrix in which two elements share bytes cannot be written",
    "smem-size": "CUTLASS, make_umma_desc: whole core matrices and atoms",
    "smem-bits": "a pattern has bits that memory does not hold",
}


class Operand(NamedTuple):
    """The matrix that one CTA's descriptor names for one instruction: stored rows and columns, type and major-ness ("K"
    or "MN")."""

    rows: int
    columns: int
    element: ElementType
    major: str


def refuse(name: str, reason: str, legal: str) -> NoReturn:
    """Raises IsaError with one of the names in `REFUSED`."""
    raise IsaError(name, -1, reason, legal, section=REFUSED[name], rule="smem-descriptor")


def smem_operand(idesc: InstructionDescriptor, operand: str, *, cta_group: int = 1) -> Operand:
    """The matrix that an instruction reads in each CTA through the descriptor of "a" or "b".

    Sparse A has K / 2 columns (published). With cta_group 2 each CTA holds M / 2 rows of A and N / 2 columns of B
    (published: CUTLASS, the 2SM traits). A column shift of `.ws` is not included. Raises IsaError if the descriptor's
    type code has no meaning."""
    if operand not in ("a", "b"):
        raise IsaError(operand, 0, f"unknown operand '{operand}'", "a, b")
    name = idesc.a_type if operand == "a" else idesc.b_type
    if isinstance(name, int):
        raise IsaError(
            str(name), -1, f"code {name} is no type of .kind::{idesc.kind}", "a code of the kind", rule="idesc"
        )
    size, columns, transposed = idesc.n, idesc.k, idesc.transpose_b
    if operand == "a":
        size, columns, transposed = idesc.m, idesc.k_stored, idesc.transpose_a
    return Operand(size // cta_group, columns, operand_element(name, idesc.kind), MN if transposed else K)


def check_operand(
    descriptor: SharedMemoryDescriptor,
    idesc: InstructionDescriptor,
    operand: str,
    *,
    cta_group: int = 1,
    target: str | Target = "sm_100a",
    memory_bytes: int = WINDOW,
    pattern_start: int | None = None,
) -> None:
    """Raises IsaError if the descriptor cannot name this operand of this instruction: its own rules first
    (`SharedMemoryDescriptor.check`), then the layout.

    Args:
        memory_bytes: shared memory of the CTA.
        pattern_start: the byte at which the swizzle's pattern starts, if known.
    """
    spec = smem_operand(idesc, operand, cta_group=cta_group)
    how: dict[str, Any] = {
        "kind": idesc.kind,
        "operand": operand,
        "transposed": spec.major == MN,
        "sparse": idesc.sparse,
    }
    descriptor.check(target=target, pattern_start=pattern_start, **how)
    lines, units = _extent(spec.major, spec.rows, spec.columns, spec.element)
    _within(unit_addresses(descriptor, major=spec.major, lines=lines, units=units), memory_bytes)


def unit_addresses(descriptor: MatrixDescriptor, *, major: str, lines: int, units: int) -> Integers:
    """The byte addresses int64 [lines, units] of a matrix's 16-byte units; everything else in this module is derived
    from them.

    Args:
        descriptor: the matrix.
        major: "K": a line is a row and units run along K. "MN": a line is one k and units run along M or N.
        lines, units: how many of each are read.

    IsaError ("smem-major", "smem-row-crosses-swizzle", "smem-absolute-leading", "smem-window") where no layout is
    documented.
    """
    mode = _checked_mode(descriptor, major, lines, units)
    line, unit = np.arange(lines, dtype=np.int64)[:, None], np.arange(units, dtype=np.int64)
    if major == K and descriptor.two_chunks:
        linear = descriptor.unit_offset(line, 0, transposed=False) + _in_two_chunks(descriptor, unit)
    else:
        linear = descriptor.start_address + descriptor.unit_offset(line, unit, transposed=major == MN)
    addresses = _swizzled(mode, linear, descriptor.base_offset << 7)
    _within(addresses, WINDOW)
    return addresses


def operand_bits(
    descriptor: MatrixDescriptor, *, major: str, rows: int, columns: int, element: str | ElementType
) -> Integers:
    """The addresses in bits, int64 [row, k], of each element's lowest bit; elements of 6 bits may extend into the next
    byte."""
    how = packing(element)
    lines, units = _extent(major, rows, columns, element)
    index = np.arange(columns if major == K else rows, dtype=np.int64)
    addresses = (
        unit_addresses(descriptor, major=major, lines=lines, units=units)[:, index // how.per_unit] * 8
        + index % how.per_unit * how.bits
    )
    return addresses if major == K else addresses.T


def read_operand(
    memory: Bytes,
    descriptor: MatrixDescriptor,
    *,
    major: str,
    rows: int,
    columns: int,
    element: str | ElementType,
) -> Bits:
    """The patterns uint32 [row, k] that the tensor core sees.

    Args:
        memory: uint8 [bytes], from shared address 0.
        descriptor, major, rows, columns: the matrix; K as stored.
        element: a type of `isa.types`; "e2m1" by name is the one in bytes (pattern in bits 5-2), e2m3 and e3m2 come in
            bits 5-0.

    Raises IsaError as `unit_addresses`, and "smem-memory" past the end of `memory`.
    """
    index, lines = _gathered(memory, descriptor, major, rows, columns, element)
    return _ordered(packing(element).unpack(lines[index]), major, rows, columns)


def write_operand(
    memory: Bytes, patterns: Bits, descriptor: MatrixDescriptor, *, major: str, element: str | ElementType
) -> None:
    """Writes patterns uint32 [row, k] where `read_operand` finds them; padding and everything else keep their bytes.

    Raises IsaError as `read_operand`, "smem-overlap" if two elements share bytes, "smem-bits" if a pattern has bits
    that the type does not store."""
    how = packing(element)
    patterns = np.asarray(patterns, np.uint32)
    if patterns.ndim != 2:
        raise IsaError(str(patterns.shape), -1, "patterns are not a matrix", "[row, k]")
    if patterns.size and int(np.bitwise_or.reduce(patterns, axis=None)) & ~how.mask:
        refuse("smem-bits", f"a pattern of {element} has bits outside 0x{how.mask:x}", f"bits of 0x{how.mask:x}")
    rows, columns = patterns.shape
    if not memory.flags.c_contiguous:
        raise IsaError(
            str(memory.strides), -1, "memory that is written must be contiguous", "an array with unit stride"
        )
    index, lines = _gathered(memory, descriptor, major, rows, columns, element)
    if np.unique(index).size != index.size:
        refuse("smem-overlap", "two units of the matrix lie at one address", "strides that keep them apart")
    block, values = lines[index], patterns if major == K else patterns.T
    if values.shape[1] < index.shape[1] * how.per_unit:
        whole = how.unpack(block)
        whole[:, : values.shape[1]] = values
        values = whole
    how.pack_into(block, values)
    lines[index] = block


def touched(
    descriptor: MatrixDescriptor,
    *,
    major: str,
    rows: int,
    columns: int,
    element: str | ElementType,
    padding: bool = True,
) -> Integers:
    """The bytes of an operand as int64 [interval, 2] of (first, one past the last): ascending intervals that do not
    touch each other.

    With `padding`, whole units: what the tensor core may read (assumed). Without, the bytes that hold elements: what
    `write_operand` changes, but for a last unit that elements fill in part, which counts whole.
    """
    lines, units = _extent(major, rows, columns, element)
    size = UNIT if padding else packing(element).data_bytes
    return intervals(unit_addresses(descriptor, major=major, lines=lines, units=units), size)


def intervals(addresses: Integers, size: int = UNIT) -> Integers:
    """The union of [address, address + size) as int64 [interval, 2]."""
    first = np.unique(addresses)
    breaks = np.flatnonzero(np.diff(first) > size)
    edges = np.concatenate([[-1], breaks, [first.size - 1]])
    if not first.size:
        return np.zeros((0, 2), np.int64)
    return np.stack([first[edges[:-1] + 1], first[edges[1:]] + size], axis=1)


def _checked_mode(descriptor: MatrixDescriptor, major: str, lines: int, units: int) -> Swizzle:
    """The swizzle mode, after checking that the layout of these lines and units is documented."""
    mode = descriptor.mode
    if major not in (K, MN):
        raise IsaError(str(major), 0, f"unknown major-ness '{major}'", "K, MN")
    if lines < 1 or units < 1:
        raise IsaError(f"{lines} x {units}", -1, "no matrix: lines and 16-byte units", "at least 1")
    if descriptor.CROSSES_ROWS:
        return mode
    if descriptor.two_chunks and (major != K or descriptor.swizzle != "128B" or descriptor.base_offset):
        combination = f"{major}-major, swizzle {descriptor.swizzle}, base offset {descriptor.base_offset}"
        refuse(
            "smem-absolute-leading",
            f"an absolute leading address, {combination}",
            "K-major, 128B swizzle, base offset 0",
        )
    if major == K and mode.base == 5:
        refuse(
            "smem-major",
            "no K-major layout is documented for swizzle 128B, 32B atoms",
            "128B, 64B, 32B, none; or MN-major",
        )
    width, inside = UNIT * mode.units, descriptor.start_address % (UNIT * mode.units)
    if mode.units > 1 and inside + units * UNIT > width and not descriptor.two_chunks and (major == K or inside):
        # 64 bytes of sparse B do not fit a 32B swizzle (JAX refuses it; PTX does not say): the case of which one hears
        # most
        sparse_b = ", as 64 bytes of a sparse K-major B" * (major == K and mode.units == 2 and units == 4)
        refuse(
            "smem-row-crosses-swizzle",
            f"{units * UNIT} bytes from byte {inside} of a {width}-byte row of swizzle {descriptor.swizzle}{sparse_b}",
            f"a row that ends by byte {width}" + "; a wider swizzle, or none" * (major == K),
        )
    return mode


def _in_two_chunks(descriptor: MatrixDescriptor, unit: Integers) -> Integers:
    """Addresses of row 0's units in absolute mode: up to the end of the start's 128-byte line, then from the leading
    address on.

    Published (PTX ISA 9.0, 9.7.16.3.1.2): 48 bytes of K in two chunks, each inside an aligned line of 128 bytes, the
    second where the leading address points. That the first ends with its line is inferred from CUTLASS's sm103
    mainloop, whose second address is the next buffer's beginning.
    """
    first = (LINE - descriptor.start_address % LINE) // UNIT
    rest = max(unit.size - first, 0) * UNIT
    if descriptor.leading_offset % LINE + rest > LINE:
        refuse(
            "smem-absolute-leading",
            f"a second chunk of {rest} bytes at {descriptor.leading_offset} leaves its 128-byte line",
            "both inside one line",
        )
    return np.where(
        unit < first, descriptor.start_address + unit * UNIT, descriptor.leading_offset + (unit - first) * UNIT
    )


def _swizzled(mode: Swizzle, addresses: Integers, phase: int) -> Integers:
    """The XOR of the swizzle, a function of the address (published); that a base offset moves its start is inferred."""
    apply: Any = mode.apply  # its arithmetic holds for arrays
    swizzled: Integers = apply(addresses, phase)
    return swizzled


def _extent(major: str, rows: int, columns: int, element: str | ElementType) -> tuple[int, int]:
    """Lines and units of a matrix."""
    how = packing(element)
    return (rows, how.units(columns)) if major == K else (columns, how.units(rows))


def _within(addresses: Integers, size: int) -> None:
    """Raises IsaError if a unit ends past `size`."""
    if (last := int(addresses.max()) + UNIT) > size:
        name = "smem-window" if size == WINDOW else "smem-memory"
        refuse(name, f"the matrix reaches byte {last - 1}", f"0 to {size - 1}")


def _gathered(
    memory: Bytes, descriptor: MatrixDescriptor, major: str, rows: int, columns: int, element: str | ElementType
) -> tuple[Integers, NDArray[np.uint8]]:  # fmt: skip
    """The indices [line, unit] into memory cut into units, and the memory so cut (a view where it is contiguous)."""
    if memory.dtype != np.uint8 or memory.ndim != 1:
        raise IsaError(
            f"{memory.dtype} [{memory.ndim} dimensions]", -1, "memory is not an array of bytes", "uint8 [bytes]"
        )
    lines, units = _extent(major, rows, columns, element)
    addresses = unit_addresses(descriptor, major=major, lines=lines, units=units)
    _within(addresses, min(memory.size, WINDOW))
    return addresses >> 4, memory[: memory.size // UNIT * UNIT].reshape(-1, UNIT)


def _ordered(values: Bits, major: str, rows: int, columns: int) -> Bits:
    """Turns patterns [line, element] into [row, k], and drops elements of a last unit that lie outside the matrix."""
    return values[:, :columns] if major == K else values[:, :rows].T
