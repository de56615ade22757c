"""Makes random examples of `tcgen05.mma`: memories filled from a seed, with the descriptors and addresses to use.

Columns of Tensor Memory: D from 0, A from 256, metadata from 264 (two), scale factors of A from 272 and of B from 288.
A (where it is not in Tensor Memory) and B lie in shared memory without a swizzle, K-major, at 0 and 32768. All other
cells and bytes hold other data: random bits, or in the columns of the metadata codes that are defined.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from isa import decode
from isa.descriptors.instruction import InstructionDescriptor
from isa.errors import IsaError
from isa.forms.tcgen05 import Tcgen05MmaForm, is_tcgen05_mma
from isa.shared_memory.descriptor import SharedMemoryDescriptor
from isa.shared_memory.layout import Operand, operand_bits, read_operand, smem_operand, write_operand
from isa.shared_memory.packing import operand_element
from isa.tensor_memory.address import TmemAddress
from isa.tensor_memory.datapath import DatapathLayout, datapath
from isa.tensor_memory.metadata import TmemMetadata, tmem_metadata
from isa.tensor_memory.scales import TmemScales, tmem_scales
from isa.types import ELEMENT_TYPES, Bits, ElementType
from simulator.arithmetic.random_operands import random_patterns, random_scales, random_sparse
from simulator.execute.tcgen05.fetch import Accumulators, Cta, accumulators
from simulator.execute.tcgen05.plan import Call
from simulator.state.tensor_memory import TensorMemory

COLUMN: Mapping[str, int] = MappingProxyType({"d": 0, "a": 256, "e": 264, "scale_a": 272, "scale_b": 288})
AT: Mapping[str, int] = MappingProxyType({"a": 0, "b": 32768})
SHARED_BYTES = 65536
_TYPES = {
    "f16": "f16", "tf32": "tf32", "f8f6f4": "e4m3", "i8": "s8", "mxf8f6f4": "e4m3", "mxf4": "e2m1", "mxf4nvf4": "e2m1",
}  # fmt: skip
_UNIT = 16  # bytes of a row of a core matrix, which has 8 rows


def form_of(opcode: str, a_in_tmem: bool, target: str) -> Tcgen05MmaForm:
    """The form of an opcode with A in Tensor or shared memory; IsaError if it is not a tcgen05.mma."""
    if not opcode.startswith("tcgen05.mma"):
        raise IsaError(opcode, 0, f"'{opcode}' is no tcgen05.mma", "tcgen05.mma, .sp, .ws")
    sparse, scaled = ".sp" in opcode, ".block_scale" in opcode
    a, metadata, scales = "[%r1]" if a_in_tmem else "%rd1", ["[%r3]"] * sparse, ["[%r5]", "[%r6]"] * scaled
    operands = ["[%r0]", a, "%rd2", *metadata, "%r4", *scales, "%p1"]
    form = decode(f"{opcode} {', '.join(operands)};", target).form
    assert is_tcgen05_mma(form)
    return form


@dataclass(frozen=True)
class Shape:
    """All of an example but its operands' values.

    Attributes:
        form: the form, which says where A is.
        idesc: the instruction descriptor.
        base_lane: the first lane of D, A and the metadata.
    """

    form: Tcgen05MmaForm
    idesc: InstructionDescriptor
    base_lane: int

    def __post_init__(self) -> None:
        self.datapath.checked(self.base_lane)

    @property
    def rows(self) -> int:
        """How many rows D has in one CTA."""
        return self.idesc.m // self.form.cta_group

    @property
    def result(self) -> ElementType:
        """The type of D."""
        if self.form.kind in ("f16", "f8f6f4"):
            return ELEMENT_TYPES[str(self.idesc.d_type)]
        return ELEMENT_TYPES["s32" if self.form.kind == "i8" else "f32"]

    @property
    def datapath(self) -> DatapathLayout:
        """Which lanes hold which rows."""
        return datapath(self.idesc.m, self.form.cta_group, self.form.sparse, self.form.ws)

    @property
    def metadata(self) -> TmemMetadata:
        """Where the metadata lie in Tensor Memory."""
        return tmem_metadata(self.form.kind, self.idesc.m, self.form.cta_group, self.form.ws)

    def scales(self, operand: str) -> TmemScales:
        """Where the scale factors of "a" or "b" lie in Tensor Memory."""
        form, idesc = self.form, self.idesc
        how: dict[str, Any] = {"cta_group": form.cta_group, "sparse": form.sparse}
        return tmem_scales(form.kind, operand, m=idesc.m, n=idesc.n, vector=_vector(form), **how)

    def element(self, operand: str) -> ElementType:
        """The type of an element of "a" or "b" in Tensor Memory and in matrices."""
        return operand_element(str(self.idesc.a_type if operand == "a" else self.idesc.b_type), self.form.kind)

    @property
    def accumulators(self) -> Accumulators:
        """Where D is in each CTA."""
        return accumulators(TmemAddress(self.base_lane, COLUMN["d"]), self.idesc, self.datapath, self.result)

    def smem(self, operand: str) -> Operand:
        """The part of A or B that lies in the shared memory of a CTA."""
        return smem_operand(self.idesc, operand, cta_group=self.form.cta_group)

    def descriptor(self, operand: str) -> SharedMemoryDescriptor:
        """The shared memory descriptor: core matrices of 8 rows x 16 bytes, those along K one after another."""
        spec = self.smem(operand)
        units = -(-spec.columns * _stored_bits(spec.element) // (8 * _UNIT))
        group = 8 * _UNIT
        return SharedMemoryDescriptor(start_address=AT[operand], leading_offset=group, stride_offset=group * units)

    def shared_bits(self, operand: str) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        """The address, in bits, of every element of a CTA's part, int64 [row, k]."""
        return operand_bits(self.descriptor(operand), **self.smem(operand)._asdict())

    @property
    def call(self) -> Call:
        """The instruction with its operands."""
        form, lane = self.form, self.base_lane << 16
        a = lane | COLUMN["a"] if form.a_in_tmem else self.descriptor("a").encode()
        meta = lane | COLUMN["e"] if form.sparse else 0
        scales = (COLUMN["scale_a"], COLUMN["scale_b"]) if form.block_scale else (0, 0)
        return Call(form, lane | COLUMN["d"], a, self.descriptor("b").encode(), self.idesc.encode(), meta, *scales)


def _stored_bits(element: ElementType) -> int:
    """Bits of an element in shared memory, padding included: 4- and 6-bit elements of f8f6f4 take 16 bytes for 16."""
    return 8 if element.bits < 8 and element.padding else element.bits


def _vector(form: Tcgen05MmaForm) -> str:
    return form.vector.removeprefix("scale_vec::")


def shape_of(
    form: Tcgen05MmaForm, m: int, n: int, base_lane: int, selector: int, element: str, d_type: str, target: str
) -> Shape:
    """The shape; IsaError with everything that is illegal about it."""
    kind, name = form.kind, element or _TYPES[form.kind]
    fields: dict[str, Any] = {"selector": selector} if selector else {}
    if d_type and kind in ("f16", "f8f6f4", "i8", "tf32"):
        fields["d_type"] = d_type
    elif kind == "i8":
        fields["d_type"] = "s32"
    if kind == "mxf4nvf4" and _vector(form) in ("4X", "block16"):
        fields["scale_type"] = "ue4m3"
    idesc = InstructionDescriptor(kind, m=m, n=n, a_type=name, b_type=name, sparse=form.sparse, **fields)
    idesc.check(target=target, **legality(form))
    return Shape(form, idesc, base_lane)


def legality(form: Tcgen05MmaForm) -> dict[str, Any]:
    """The properties of a form on which it depends which instruction descriptors are legal, beside the chip."""
    how = {"cta_group": form.cta_group, "sparse": form.sparse, "ws": form.ws}
    return how | {"scale_vec": _vector(form), "a_in_tmem": bool(form.a_in_tmem)}


# Filling memory


def fill(shape: Shape, seed: int, case: int, *, valid: bool = False) -> list[Cta]:
    """The CTAs of one set of operands, ready to execute; they come from the seed and the number of the case alone.

    Args:
        valid: the columns of the metadata hold codes that are defined also where another selector, or another base
            lane, would read them.
    """
    rng = np.random.default_rng([seed, case])
    form, idesc = shape.form, shape.idesc
    size, codes = (idesc.m, idesc.k), None
    if form.sparse:
        a, codes = random_sparse(rng, size, shape.element("a"), shape.metadata.sparsity)
    else:
        a = random_patterns(rng, size, shape.element("a"))
    b = random_patterns(rng, (idesc.n, idesc.k), shape.element("b"))
    c = random_patterns(rng, (idesc.m, idesc.n), shape.result)
    ctas = []
    for rank in range(form.cta_group):
        cta = Cta(TensorMemory(), rng.integers(0, 256, SHARED_BYTES, dtype=np.uint8))
        cta.tmem.allocate(512)
        words = cta.tmem.words
        words[:] = rng.integers(0, 1 << 32, words.shape, dtype=np.uint32)
        cta.tmem.written[:] = True
        rows, each = slice(rank * shape.rows, (rank + 1) * shape.rows), idesc.n // form.cta_group
        put_a(shape, cta, a[rows])
        _put_shared(shape, cta, "b", b[rank * each : (rank + 1) * each])
        if codes is not None:
            columns = slice(COLUMN["e"], COLUMN["e"] + 2)
            if valid:
                words[:, columns] = _defined(shape, np.random.default_rng([seed, case, 1 + rank]), words[:, columns])
            words[:, columns] = shape.metadata.scatter(codes[rows], idesc.selector, shape.base_lane, words[:, columns])
        if form.block_scale:
            _put_scales(shape, cta, rank)
        cells = shape.accumulators
        parts = c[rows].reshape(shape.rows, cells.lane.shape[0], -1).transpose(1, 0, 2)
        words[cells.lane, cells.column] = parts
        ctas.append(cta)
    return ctas


def _defined(shape: Shape, rng: np.random.Generator, cells: Bits) -> Bits:
    """Columns of metadata whose codes are defined and ascend, as a compressor writes them, with every selector and
    every base lane."""
    metadata = shape.metadata
    codes = np.array(metadata.sparsity.ordered, np.uint32)
    for selector in metadata.selectors:
        for lane in metadata.layout.base_lanes:
            cells = metadata.scatter(rng.choice(codes, metadata.shape), selector, lane, cells)
    return cells


def put_a(shape: Shape, cta: Cta, stored: Bits) -> None:
    """A [row, k] where the instruction reads it: in shared memory, or into all of its copies in Tensor Memory."""
    if not shape.form.a_in_tmem:
        _put_shared(shape, cta, "a", stored)
        return
    lane, column, low = _cells_of_a(shape)
    values = np.broadcast_to(stored[..., None], lane.shape) << low
    words = np.zeros_like(cta.tmem.words)
    np.bitwise_or.at(words, (lane, column), values.astype(np.uint32))
    cta.tmem.words[lane, column] = words[lane, column]


def stored_a(shape: Shape, cta: Cta) -> Bits:
    """A as it lies there, uint32 [row, k]."""
    if not shape.form.a_in_tmem:
        return read_operand(cta.shared, shape.descriptor("a"), **shape.smem("a")._asdict())
    lane, column, low = (grid[..., 0] for grid in _cells_of_a(shape))
    return np.asarray(cta.tmem.words[lane, column] >> low & np.uint32((1 << shape.element("a").bits) - 1))


def _cells_of_a(shape: Shape) -> tuple[Any, Any, Any]:
    """Lane, column and lowest bit of every copy of every stored element of A, [row, k, copy]."""
    bits = shape.element("a").bits
    lane, column, place = shape.datapath.a(bits, shape.base_lane).grid
    return lane, column + COLUMN["a"], (place * bits).astype(np.uint32)


def _put_shared(shape: Shape, cta: Cta, operand: str, patterns: Bits) -> None:
    """A or B of a CTA [row or column, k] into shared memory."""
    spec = shape.smem(operand)
    write_operand(cta.shared, patterns, shape.descriptor(operand), major=spec.major, element=spec.element)


def _put_scales(shape: Shape, cta: Cta, rank: int) -> None:
    """Factors near one; those of B are the same in both CTAs of a pair."""
    for operand, id in (("a", shape.idesc.a_scale_id), ("b", shape.idesc.b_scale_id)):
        scales = shape.scales(operand)
        rng = np.random.default_rng([rank if operand == "a" else 0, ord(operand)])
        patterns = random_scales(rng, scales.shape, str(shape.idesc.scale_type))
        columns = slice(COLUMN[f"scale_{operand}"], COLUMN[f"scale_{operand}"] + scales.columns)
        cta.tmem.words[:, columns] = scales.scatter(patterns, id, cta.tmem.words[:, columns])
