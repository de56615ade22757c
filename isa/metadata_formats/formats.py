"""The table of metadata formats: how cuSPARSELt, CUTLASS, PyTorch, Sparse-Marlin and PTX itself store sparsity
metadata. Each row gives the order of the codes in an atom, and the source that states it.

    position digits, lowest first       atom        16- and 32-bit types
    r8 c4 c1 c2 r1 r2 r4 r16 r32        64 x 8      cuSPARSELt 0.8 on sm_90
    c1 c2 r8 c4 r16 r1 r2 r4            32 x 8      CUTLASS sm80, PyTorch; cuSPARSELt's 32-bit second copy
    c1 c2 r8 c8 c16 r1 r2 r4 c4 r16 r32 64 x 32     CUTLASS sm90 (with r64: sm100)
    c1 c2 r4 c4 r1 r8 r16 r32 r2        64 x 8      Sparse-Marlin

`rN` and `cN` are the digits of row and chunk that are worth N. PTX's register of m16n8k32 is c1 c2 r8 c4 ..: all but
cuSPARSELt's first format keep the 4 codes of a lane and row together.
"""

from __future__ import annotations

from functools import lru_cache

from isa.errors import IsaError
from isa.fragments.metadata import CODES_PER_REGISTER, metadata_operand, sparsity_of
from isa.metadata_formats.record import MetadataFormat
from isa.tensor_memory.address import TMEM_LANES
from isa.tensor_memory.metadata import PAIR, TILE_COLUMNS, tmem_metadata
from isa.types import PACKED_E2M1, ElementType, element_type

TYPES = ("f16", "bf16", "tf32", "f32", "s8", "u8", "e4m3", "e5m2", "s4", "u4", "e2m1")
"""Element types of sparse operands; f32 is taken as tf32, and e2m1 is the packed one (two a byte, 4:8 in pairs)."""

_SM80 = "CUTLASS tools/util/host_reorder.h (reorder_meta) and layout::ColumnMajorInterleaved<2>"
_SM90 = "CUTLASS gemm/collective/builders/sm90_sparse_config.inl (TensorEAtom)"
_SM100 = "CUTLASS gemm/collective/builders/sm1xx_sparse_config.inl (TensorEAtom)"
_SPARSELT = "cuSPARSELt 0.8 on an NVIDIA H100 and H200, November 2026"
_COMPRESSOR = "; 0b0000 for a chunk of zeros: CUTLASS transform/kernel/sm90_sparse_gemm_compressor.hpp"
_ZERO = (0b0000,)  # what that compressor starts from, for Hopper and Blackwell, and leaves in chunks of zeros, padding
_MARLIN = "Sparse-Marlin marlin/_semi_structured_conversions.py, vLLM format_24 (group of 64 rows)"
_CAPTURED = "; E of a captured launch on an H200 expands A to the matrix whose product is D"
_INSTRUCTION_K = {16: (16, 32), 32: (8, 16), 8: (32, 64), 4: (64, 128)}
_SM90_K = {16: (32, 64, 128), 32: (16, 32, 64), 8: (64, 128, 256)}


def format_names(type: str | ElementType | None = None) -> tuple[str, ...]:
    """Names of the formats that serve an element type, or of all."""
    types = TYPES if type is None else (metadata_type(type).name,)
    return tuple(dict.fromkeys(name for each in types for name in _names(metadata_type(each))))


def metadata_type(name: str | ElementType) -> ElementType:
    """The element type of that name, as metadata sees it: f32 is tf32, e2m1 the packed one; raises IsaError for any
    other."""
    given = name.name if isinstance(name, ElementType) else name
    if given not in TYPES:
        raise IsaError(str(given), -1, f"no sparse operand has type '{given}'", ", ".join(TYPES))
    return PACKED_E2M1 if given == "e2m1" else element_type("tf32" if given == "f32" else given)


def metadata_format(name: str, type: str | ElementType) -> MetadataFormat:
    """The format of that name for an element type.

    >>> metadata_format("cusparselt", "f16").tile
    (64, 8)

    Raises:
        IsaError: no such type, no such format, or one that does not serve the type.
    """
    return _format(name, metadata_type(type))


def _names(element: ElementType) -> list[str]:
    bits = element.bits
    registers = [f"registers.m16n8k{k}" for k in _INSTRUCTION_K[bits]]
    if element == PACKED_E2M1:
        return ["codes", "rows", registers[-1], "cutlass.sm100", "tmem", "smem"]
    names = ["codes", "rows", *registers, "cutlass.sm80"]
    if bits == 4:
        return names
    names += ["torch", "cusparselt", *(["cusparselt.sm80"] if bits > 8 else [])]
    names += [*(f"cutlass.sm90.k{k}" for k in _SM90_K[bits]), "cutlass.sm100"]
    return [*names, *(["marlin"] if bits == 16 else []), "tmem", "smem"]


@lru_cache(maxsize=256)
def _format(name: str, element: ElementType) -> MetadataFormat:
    if name not in _names(element):
        if name in format_names():
            reason = f"format '{name}' does not serve {element.name}"
        else:
            reason = f"there is no metadata format '{name}'"
        raise IsaError(name, -1, reason, ", ".join(_names(element)))
    family, _, variant = name.partition(".")
    make = {
        "codes": _plain,
        "rows": _plain,
        "registers": _registers,
        "torch": _cutlass_sm80,
        "cusparselt": _cusparselt,
        "marlin": _marlin,
        "tmem": _tensor_memory,
        "smem": _tensor_memory,
    }.get(family)
    if make is None:
        make = {"sm80": _cutlass_sm80, "sm90": _cutlass_sm90, "sm100": _cutlass_sm100}[variant.partition(".")[0]]
    return make(name, element)


def _plain(name: str, element: ElementType) -> MetadataFormat:
    sparsity = sparsity_of(element)
    if name == "codes":
        return MetadataFormat(
            name, "a byte a code, row by row", element, sparsity, "", "chunks", 8, 1,
            "this project", "by PTX", matrix=True,
        )  # fmt: skip
    return MetadataFormat(
        name, "rows of codes, two a byte", element, sparsity, "c1", "chunks", 8, 2,
        "PTX ISA 9.0, 9.7.14.6.1; CUTLASS before reorder_meta", "by PTX", matrix=True,
    )  # fmt: skip


def _registers(name: str, element: ElementType) -> MetadataFormat:
    """The metadata registers of a warp for m16n8kK: the instructions along K that share a register, one for each
    sparsity selector, follow each other."""
    k = int(name.rpartition("k")[2])
    operand = metadata_operand(16, k, element, True)
    _, chunks = operand.shape
    digits = {}
    for digit in operand.mapping.digits:
        start = digit.step * (CODES_PER_REGISTER if digit.place == "lane" else 1)
        letter = "r" if digit.axis == "row" else "c"
        stride = digit.stride * (chunks if digit.axis == "selector" else 1)
        for bit in range(digit.size.bit_length() - 1):
            digits[start << bit] = f"{letter}{stride << bit}"
    atom = " ".join(digits[start] for start in sorted(digits))
    title = f"metadata registers of a warp, m16n8k{k}"
    if operand.selectors > 1:
        title += f", selectors 0 to {operand.selectors - 1}"
    return MetadataFormat(
        name, title, element, operand.sparsity, atom, "chunks", 32, CODES_PER_REGISTER,
        "PTX ISA 9.0, 9.7.14.6.2.*; measured on an H100", "measured", inner=(("lane", 32),),
    )  # fmt: skip


def _cutlass_sm80(name: str, element: ElementType) -> MetadataFormat:
    wide = element.bits >= 16
    atom = "c1 c2 r8 c4 r16 r1 r2 r4" if wide else "c1 c2 c4 r8 c8 r1 r2 r4"
    torch = name == "torch"
    title = "PyTorch's CUTLASS form, reordered meta" if torch else "CUTLASS sm80, E as ldmatrix reads it"
    source = "PyTorch torch/sparse/_semi_structured_conversions.py; " * torch + _SM80
    measured = torch or element.name in ("f16", "bf16", "s8", "tf32")  # the bytes that PyTorch writes
    if element.name == "f16" and not torch:
        source += _CAPTURED
    bits = 16 if wide else 32
    return MetadataFormat(
        name, title, element, sparsity_of(element), atom, "rows", bits, bits // 4,
        source, "measured" if measured else "published", matrix=torch,
    )  # fmt: skip


def _cutlass_sm90(name: str, element: ElementType) -> MetadataFormat:
    sparsity = sparsity_of(element)
    chunks = int(name.rpartition("k")[2]) // sparsity.chunk
    if element.bits == 8:
        atom = _powers("c", chunks) + _powers("r", 64)
    else:
        blocks = [f"c{1 << bit}" for bit in range(3, chunks.bit_length() - 1)]
        atom = ["c1", "c2", "r8", *blocks, "r1", "r2", "r4", "c4", "r16", "r32"]
    captured = name == "cutlass.sm90.k128" and element.name == "f16"
    return MetadataFormat(
        name, f"CUTLASS sm90, atom of 64 rows by {chunks * sparsity.chunk} columns", element, sparsity, " ".join(atom),
        "rows", 8, 2, _SM90 + _CAPTURED * captured + _COMPRESSOR, "measured" if captured else "published", padded=True,
        empty=_ZERO,
    )  # fmt: skip


def _cutlass_sm100(name: str, element: ElementType) -> MetadataFormat:
    if element.bits <= 8:
        atom = " ".join(_powers("c", 32) + _powers("r", 128))
    else:
        atom = "c1 c2 r8 c8 c16 r1 r2 r4 c4 r16 r32 r64"
    sparsity = sparsity_of(element)
    return MetadataFormat(
        name, f"CUTLASS sm100, atom of 128 rows by {32 * sparsity.chunk} columns", element, sparsity, atom,
        "rows", 8, 2, _SM100 + _COMPRESSOR, "published", padded=True, empty=_ZERO,
    )  # fmt: skip


def _cusparselt(name: str, element: ElementType) -> MetadataFormat:
    sparsity = sparsity_of(element)
    if name == "cusparselt.sm80":
        return MetadataFormat(
            name, "cuSPARSELt's groups of 128 rows by 16 chunks, for mma.sp", element, sparsity,
            "c1 c2 r8 c4 r16 r1 r2 r4", "rows", 16, 4,
            "PyTorch sparse/cuda/SparseSemiStructuredTile.cu (MetadataCuSparseLt); second copy of 32-bit buffers of "
            + _SPARSELT, "measured", padded=True, group_rows=128,
        )  # fmt: skip
    atom = "c1 r8 c8 c2 c4 r1 r2 r4 r16 r32" if element.bits == 8 else "r8 c4 c1 c2 r1 r2 r4 r16 r32"
    return MetadataFormat(
        name, "metadata of cuSPARSELt's compressed buffer on sm_90", element, sparsity, atom, "chunks", 8, 2,
        _SPARSELT, "measured", padded=True,
    )  # fmt: skip


def _marlin(name: str, element: ElementType) -> MetadataFormat:
    return MetadataFormat(
        name, "Sparse-Marlin 2:4 (rows are the output channels)", element, sparsity_of(element),
        "c1 c2 r4 c4 r1 r8 r16 r32 r2", "rows", 16, 4, _MARLIN, "published",
    )  # fmt: skip


def _tensor_memory(name: str, element: ElementType) -> MetadataFormat:
    """Four columns of Tensor Memory (M = 128, one CTA), or the bytes in shared memory that `tcgen05.cp.128x128b` puts
    there: the metadata of 2 or 4 instructions along K."""
    kind = _KINDS[element.name]
    metadata = tmem_metadata(kind, 128)
    start = {"code": 1, "column": CODES_PER_REGISTER, "lane": CODES_PER_REGISTER * TILE_COLUMNS}
    digits = {}
    for digit in metadata.mapping(0).digits:
        letter = "r" if digit.axis == "row" else "c"
        for bit in range(digit.size.bit_length() - 1):
            digits[start[digit.place] * digit.step << bit] = f"{letter}{digit.stride << bit}"
    column = start["column"]
    if len(metadata.selectors) > 1:
        digits[column] = "c8"
    digits[column * PAIR] = "c16"
    atom = " ".join(digits[position] for position in sorted(digits))
    inner, bits = ((("lane", TMEM_LANES), ("column", TILE_COLUMNS)), 32)
    title = f"Tensor Memory, .kind::{kind}, M = 128"
    if name == "smem":
        inner, bits = (("lane", TMEM_LANES), ("byte", 4 * TILE_COLUMNS)), 8
        title = f"shared memory for tcgen05.cp.128x128b, .kind::{kind}, M = 128"
    return MetadataFormat(
        name, title, element, metadata.sparsity, atom, "chunks", bits, bits // 4,
        "PTX ISA 9.0, 9.7.16.10.8; CUTLASS tmem_e_frg, JAX", "published", inner=inner,
    )  # fmt: skip


def _powers(letter: str, size: int) -> list[str]:
    return [f"{letter}{1 << bit}" for bit in range(size.bit_length() - 1)]


_KINDS = {
    "f16": "f16",
    "bf16": "f16",
    "tf32": "tf32",
    "s8": "i8",
    "u8": "i8",
    "e4m3": "f8f6f4",
    "e5m2": "f8f6f4",
    "e2m1": "mxf4",
}
