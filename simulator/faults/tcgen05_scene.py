"""One `tcgen05.mma` with operands: Tensor Memory and shared memory filled from a seed, and the words that its
descriptors and addresses are.

Columns of Tensor Memory: D from 0, A from 256, metadata from 264 (two), scale factors of A from 272 and of B from 288.
A (where it is not in Tensor Memory) and B lie in shared memory without a swizzle, K-major, at 0 and 32768. All other
cells and bytes hold other data: random bits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from isa import decode, prune
from isa.descriptors.instruction import InstructionDescriptor
from isa.errors import IsaError
from isa.forms.tcgen05 import Tcgen05MmaForm
from isa.fragments.metadata import Sparsity
from isa.fragments.sparsity import compress
from isa.shared_memory.descriptor import SharedMemoryDescriptor
from isa.shared_memory.layout import operand_bits, smem_operand, write_operand
from isa.shared_memory.packing import operand_element
from isa.tensor_memory.address import TmemAddress
from isa.tensor_memory.datapath import datapath
from isa.tensor_memory.metadata import TmemMetadata, tmem_metadata
from isa.tensor_memory.scales import TmemScales, tmem_scales
from isa.types import Bits, ElementType
from simulator.arithmetic.convert import to_float64
from simulator.arithmetic.formats import integers
from simulator.execute.tcgen05.fetch import Accumulators, Cta, accumulators
from simulator.execute.tcgen05.multiply import Call
from simulator.state.tensor_memory import TensorMemory
from simulator.studies.accuracy.operands import draw

COLUMN: Mapping[str, int] = MappingProxyType({"d": 0, "a": 256, "e": 264, "scale_a": 272, "scale_b": 288})
AT: Mapping[str, int] = MappingProxyType({"a": 0, "b": 32768})
SHARED_BYTES = 65536
_TYPES = {
    "f16": "f16",
    "tf32": "tf32",
    "f8f6f4": "e4m3",
    "i8": "s8",
    "mxf8f6f4": "e4m3",
    "mxf4": "e2m1",
    "mxf4nvf4": "e2m1",
}
_UNIT = 16  # bytes of a row of a core matrix, which has 8 rows


def form_of(opcode: str, a_in_tmem: bool, target: str) -> Tcgen05MmaForm:
    """The form, with A where it is; IsaError if it is no tcgen05.mma."""
    if not opcode.startswith("tcgen05.mma"):
        raise IsaError(opcode, 0, f"'{opcode}' is no tcgen05.mma", "tcgen05.mma, .sp, .ws")
    sparse, scaled = ".sp" in opcode, ".block_scale" in opcode
    operands = [
        "[%r0]",
        "[%r1]" if a_in_tmem else "%rd1",
        "%rd2",
        *["[%r3]"] * sparse,
        "%r4",
        *["[%r5]", "[%r6]"] * scaled,
        "%p1",
    ]
    form = decode(f"{opcode} {', '.join(operands)};", target).form
    assert isinstance(form, Tcgen05MmaForm)
    return form


@dataclass(frozen=True)
class Shape:
    """What is the same for all sets of operands.

    Attributes:
        form: with A where it is.
        idesc: of the instruction.
        base_lane: of D, A and the metadata.
    """

    form: Tcgen05MmaForm
    idesc: InstructionDescriptor
    base_lane: int

    def __post_init__(self) -> None:
        datapath(self.idesc.m, self.form.cta_group, self.form.sparse, self.form.ws).checked(self.base_lane)

    @property
    def rows(self) -> int:
        """Of D in one CTA."""
        return self.idesc.m // self.form.cta_group

    @property
    def metadata(self) -> TmemMetadata:
        return tmem_metadata(self.form.kind, self.idesc.m, self.form.cta_group, self.form.ws)

    @property
    def sparsity(self) -> Sparsity:
        return self.metadata.sparsity

    def scales(self, operand: str) -> TmemScales:
        """Of "a" or "b"."""
        vector = self.form.vector.removeprefix("scale_vec::")
        return tmem_scales(
            self.form.kind,
            operand,
            m=self.idesc.m,
            n=self.idesc.n,
            vector=vector,
            cta_group=self.form.cta_group,
            sparse=self.form.sparse,
        )

    def element(self, operand: str) -> ElementType:
        """As it lies in Tensor Memory, and as matrices have it."""
        return operand_element(str(self.idesc.a_type if operand == "a" else self.idesc.b_type), self.form.kind)

    def accumulators(self, element: ElementType) -> Accumulators:
        """Where D is in each CTA."""
        layout = datapath(self.idesc.m, self.form.cta_group, self.form.sparse, self.form.ws)
        return accumulators(TmemAddress(self.base_lane, COLUMN["d"]), self.idesc, layout, element)

    def descriptor(self, operand: str) -> SharedMemoryDescriptor:
        """Core matrices of 8 rows x 16 bytes, those along K one after another."""
        spec = smem_operand(self.idesc, operand, cta_group=self.form.cta_group)
        units = -(-spec.columns * _stored_bits(spec.element) // (8 * _UNIT))
        return SharedMemoryDescriptor(
            start_address=AT[operand], leading_offset=8 * _UNIT, stride_offset=8 * _UNIT * units
        )

    def shared_bits(self, operand: str) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        """Addresses in bits of every element of a CTA's part, [row, k]."""
        spec = smem_operand(self.idesc, operand, cta_group=self.form.cta_group)
        return operand_bits(
            self.descriptor(operand), major=spec.major, rows=spec.rows, columns=spec.columns, element=spec.element
        )

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


def shape_of(
    form: Tcgen05MmaForm, m: int, n: int, base_lane: int, selector: int, element: str, d_type: str, target: str
) -> Shape:
    """The shape; IsaError with everything that is illegal about it."""
    kind = form.kind
    name = element or _TYPES[kind]
    fields = {"selector": selector} if selector else {}
    if d_type and kind in ("f16", "f8f6f4", "i8", "tf32"):
        fields["d_type"] = d_type  # type: ignore[assignment]
    elif kind == "i8":
        fields["d_type"] = "s32"  # type: ignore[assignment]
    if kind == "mxf4nvf4" and form.vector.removeprefix("scale_vec::") in ("4X", "block16"):
        fields["scale_type"] = "ue4m3"  # type: ignore[assignment]
    idesc = InstructionDescriptor(kind, m=m, n=n, a_type=name, b_type=name, sparse=form.sparse, **fields)  # type: ignore[arg-type]
    vector = form.vector.removeprefix("scale_vec::")
    idesc.check(
        cta_group=form.cta_group,
        sparse=form.sparse,
        ws=form.ws,
        target=target,
        scale_vec=vector,
        a_in_tmem=bool(form.a_in_tmem),
    )
    return Shape(form, idesc, base_lane)


def fill(shape: Shape, seed: int, case: int, d_type: ElementType) -> list[Cta]:
    """The CTAs of one set of operands, ready to execute; they come from the seed and the number of the case alone."""
    rng = np.random.default_rng([seed, case])
    form, idesc = shape.form, shape.idesc
    a_type, b_type = shape.element("a"), shape.element("b")
    a = _patterns(rng, (idesc.m, idesc.k), a_type)
    codes: Bits | None = None
    if form.sparse:
        numbers = to_float64(a, a_type) if a_type.is_float else integers(a, a_type)
        a, codes = compress(a, shape.sparsity, a_type, prune(numbers, shape.sparsity))
    b = _patterns(rng, (idesc.n, idesc.k), b_type)
    c = _patterns(rng, (idesc.m, idesc.n), d_type)
    ctas = []
    for rank in range(form.cta_group):
        cta = Cta(TensorMemory(), rng.integers(0, 256, SHARED_BYTES, dtype=np.uint8))
        cta.tmem.allocate(512)
        words = cta.tmem.words
        words[:] = rng.integers(0, 1 << 32, words.shape, dtype=np.uint32)
        cta.tmem.written[:] = True
        rows = slice(rank * shape.rows, (rank + 1) * shape.rows)
        columns = slice(rank * (idesc.n // form.cta_group), (rank + 1) * (idesc.n // form.cta_group))
        _put_a(shape, cta, a[rows])
        put_shared(shape, cta, "b", b[columns])
        if codes is not None:
            at = slice(COLUMN["e"], COLUMN["e"] + 2)
            words[:, at] = shape.metadata.scatter(codes[rows], idesc.selector, shape.base_lane, words[:, at])
        if form.block_scale:
            _put_scales(shape, cta, rank)
        found = shape.accumulators(d_type)
        parts = c[rows].reshape(shape.rows, found.lane.shape[0], -1).transpose(1, 0, 2)
        words[found.lane, found.column] = parts
        ctas.append(cta)
    return ctas


def _put_a(shape: Shape, cta: Cta, stored: Bits) -> None:
    if not shape.form.a_in_tmem:
        put_shared(shape, cta, "a", stored)
        return
    put_tmem_a(shape, cta, stored)


def put_tmem_a(shape: Shape, cta: Cta, stored: Bits) -> None:
    """A [row, k] into all of its copies in Tensor Memory."""
    layout = datapath(shape.idesc.m, shape.form.cta_group, shape.form.sparse, shape.form.ws)
    bits = shape.element("a").bits
    lane, column, place = layout.a(bits, shape.base_lane).grid
    values = np.broadcast_to(stored[..., None], lane.shape) << (place * bits).astype(np.uint32)
    words = np.zeros_like(cta.tmem.words)
    np.bitwise_or.at(words, (lane, column + COLUMN["a"]), values.astype(np.uint32))
    cta.tmem.words[lane, column + COLUMN["a"]] = words[lane, column + COLUMN["a"]]


def put_shared(shape: Shape, cta: Cta, operand: str, patterns: Bits) -> None:
    """A or B of a CTA [row or column, k] into shared memory."""
    spec = smem_operand(shape.idesc, operand, cta_group=shape.form.cta_group)
    write_operand(cta.shared, patterns, shape.descriptor(operand), major=spec.major, element=spec.element)


def _put_scales(shape: Shape, cta: Cta, rank: int) -> None:
    """Factors near one; those of B are the same in both CTAs of a pair."""
    middle = 127 if shape.idesc.scale_type == "ue8m0" else 0x38
    for operand in "ab":
        scales = shape.scales(operand)
        rng = np.random.default_rng([rank if operand == "a" else 0, ord(operand)])
        patterns = (middle + rng.integers(-3, 4, scales.shape)).astype(np.uint32)
        at = slice(COLUMN[f"scale_{operand}"], COLUMN[f"scale_{operand}"] + scales.columns)
        id = shape.idesc.a_scale_id if operand == "a" else shape.idesc.b_scale_id
        cta.tmem.words[:, at] = scales.scatter(patterns, id, cta.tmem.words[:, at])


def _patterns(rng: np.random.Generator, shape: tuple[int, int], element: ElementType) -> Bits:
    if element.bits == 32 and not element.is_float:
        return rng.integers(-1000, 1000, shape).astype(np.int32).view(np.uint32)
    if not element.is_float:
        return rng.integers(0, 1 << element.bits, shape, dtype=np.uint32)
    return draw(rng, shape, element, "normal", 1.0)
