"""Descriptors of tcgen05: round trips, an independent layout of the bits, and every illegal combination refused by its
own message."""

from __future__ import annotations

import ctypes
import doctest
import subprocess
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import isa.descriptors.instruction
import isa.descriptors.zero_column_mask
import isa.shared_memory.descriptor
from isa import IsaError
from isa.descriptors.bitfields import Descriptor, Field, Severity
from isa.descriptors.fields import FAMILIES
from isa.descriptors.instruction import KINDS, InstructionDescriptor, legal_m, legal_n
from isa.descriptors.page import markdown
from isa.descriptors.zero_column_mask import TABLE as MASK_TABLE
from isa.descriptors.zero_column_mask import ZeroColumnMask
from isa.shared_memory.descriptor import SWIZZLES, SharedMemoryDescriptor
from isa.shared_memory.descriptor import TABLE as SMEM_TABLE
from tests.support.cases import examples, over
from tests.support.paths import ROOT

TABLES: dict[str, tuple[tuple[Field, ...], int]] = {
    **{kind: (table, 32) for kind, table in FAMILIES.items()}, "smem": (SMEM_TABLE, 64), "mask": (MASK_TABLE, 64),
}  # fmt: skip
D = {"i8": "s32"}
TYPE = {
    "f16": "f16",
    "tf32": "tf32",
    "f8f6f4": "e4m3",
    "i8": "s8",
    "mxf8f6f4": "e4m3",
    "mxf4": "e2m1",
    "mxf4nvf4": "e2m1",
}
FORMS = [
    (kind, cta, sparse, ws) for kind in KINDS for cta in (1, 2) for sparse in (False, True) for ws in (False, True)
    if legal_m(kind, cta_group=cta, sparse=sparse, ws=ws)
]  # fmt: skip


def read(name: str, word: int) -> Descriptor:
    if name == "smem":
        return SharedMemoryDescriptor.decode(word)
    return ZeroColumnMask.decode(word) if name == "mask" else InstructionDescriptor.decode(word, name)


def legal(kind: str, **changes: Any) -> InstructionDescriptor:
    """A legal sparse descriptor for cta_group::1, with changes."""
    values: dict[str, Any] = {"m": 128, "n": 128, "a_type": TYPE[kind], "b_type": TYPE[kind], "sparse": True}
    if kind == "i8":
        values["d_type"] = "s32"
    return InstructionDescriptor(kind, **{**values, **changes})


# Bits


@over("name", TABLES)
def test_tables_cover_the_word_once(name: str) -> None:
    table, width = TABLES[name]
    at = 0
    for item in table:
        assert item.low == at
        at += item.width
    assert at == width
    names = [item.name for item in table if item.name != "reserved"]
    assert len(names) == len(set(names))


@over("name", TABLES)
def test_every_value_of_every_field_round_trips(name: str) -> None:
    table, width = TABLES[name]
    codes = 0
    for item in table:
        for code in (*range(0, 1 << item.width, examples(1, 9) if item.width > 8 else 1), (1 << item.width) - 1):
            word = code << item.low
            descriptor = read(name, word)
            assert descriptor.encode() == int(descriptor) == word
            if item.name == "reserved":
                assert descriptor.reserved == word
            else:
                assert item.code(getattr(descriptor, item.name), descriptor.variant) == code
                assert descriptor.reserved == 0
            codes += 1
    assert codes >= width


@over("name", TABLES)
@given(data=st.data())
def test_every_word_round_trips(name: str, data: st.DataObject) -> None:
    word = data.draw(st.integers(0, (1 << TABLES[name][1]) - 1))
    descriptor = read(name, word)
    assert descriptor.encode() == word
    assert read(name, descriptor.encode()) == descriptor
    lines = str(descriptor).splitlines()
    assert lines[0].startswith(f"{descriptor.TITLE} 0x")
    assert f"{word:x}" in lines[0]
    assert len(lines) == 1 + len(TABLES[name][0])
    set_fields = [item.bits for item in TABLES[name][0] if item.name == "reserved" and word & item.mask]
    assert [found.bits for found in descriptor.reserved_findings()] == set_fields


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_decode_of_encode(kind: str, data: st.DataObject) -> None:
    """From meanings to bits and back, through the constructor's keywords."""
    values: dict[str, Any] = {}
    for item in FAMILIES[kind]:
        if item.name != "reserved":
            codes = list(item.named(kind)) or list(range(1 << item.width))
            values[item.name] = item.value(data.draw(st.sampled_from(codes)), kind)
    descriptor = InstructionDescriptor(kind, **values)
    assert InstructionDescriptor.decode(descriptor.encode(), kind) == descriptor
    assert {name: getattr(descriptor, name) for name in values} == values
    assert eval(repr(descriptor)) == descriptor


class Structure(ctypes.LittleEndianStructure):
    """The order and the widths of the fields as CUTLASS's unions have them: a second statement of every bit range."""

    _pack_ = 1


def second(name: str, unit: Any, **widths: int) -> type[Structure]:
    return type(name, (Structure,), {"_fields_": [(field, unit, width) for field, width in widths.items()]})


PLAIN = second(
    "Plain",
    ctypes.c_uint32,
    selector=2,
    sparse=1,
    saturate=1,
    d_type=2,
    u6=1,
    a_type=3,
    b_type=3,
    negate_a=1,
    negate_b=1,
    transpose_a=1,
    transpose_b=1,
    n=6,
    u23=1,
    m=5,
    u29=1,
    max_shift=2,
)
SCALED = second(
    "Scaled",
    ctypes.c_uint32,
    u0=2,
    sparse=1,
    u3=1,
    b_scale_id=2,
    u6=1,
    a_type=3,
    b_type=3,
    negate_a=1,
    negate_b=1,
    transpose_a=1,
    transpose_b=1,
    n=6,
    scale_type=1,
    u24=3,
    m=2,
    a_scale_id=2,
    k96=1,
)
SMEM = second(
    "Smem",
    ctypes.c_uint64,
    start_address=14,
    u14=2,
    leading_offset=14,
    u30=2,
    stride_offset=14,
    version=3,
    base_offset=3,
    leading_absolute=1,
    u53=8,
    swizzle=3,
)
MASK = second(
    "Mask",
    ctypes.c_uint64,
    start_count_0=8,
    start_count_1=8,
    start_count_2=8,
    start_count_3=8,
    first_span_0=1,
    first_span_1=1,
    first_span_2=1,
    first_span_3=1,
    u36=3,
    non_zero_mask=1,
    skip_span=8,
    use_span=8,
    column_shift=6,
    u62=2,
)


@pytest.mark.parametrize(("name", "layout"), [("f16", PLAIN), ("tf32", PLAIN), ("f8f6f4", PLAIN), ("i8", PLAIN),
("mxf8f6f4", SCALED),
                                              ("mxf4", SCALED), ("smem", SMEM), ("mask", MASK)])  # fmt: skip
@given(data=st.data())
def test_fields_lie_where_cutlass_has_them(name: str, layout: type[Structure], data: st.DataObject) -> None:
    table, width = TABLES[name]
    word = data.draw(st.integers(0, (1 << width) - 1)) & ~(1 << 12 if name == "mxf4" else 0)
    theirs = layout.from_buffer_copy(word.to_bytes(width // 8, "little"))
    for item in table:
        if item.name not in ("reserved", "sparsity_version"):
            assert (word & item.mask) >> item.low == getattr(theirs, item.name), item.name


KNOWN = [
    # CUTLASS make_instr_desc: f16 x f16 -> f32, 128 x 256, dense and sparse, selector 1 (sparse_id2_)
    (legal("f16", n=256, sparse=False), 0x08400010),
    (legal("f16", n=256), 0x08400014),
    (legal("f16", n=256, selector=1), 0x08400015),
    (legal("f16", n=256, a_type="bf16", b_type="bf16", sparse=False), 0x08400490),
    (legal("tf32", n=64, m=64, transpose_a=True), 0x04108914),
    (legal("i8", n=32, saturate=True), 0x080804AC),
    (legal("f8f6f4", a_type="e5m2", b_type="e2m1", d_type="f16"), 0x08201484),
    (
        InstructionDescriptor(
            "f16", m=256, n=16, a_type="f16", b_type="f16", d_type="f16", negate_b=True, transpose_b=True
        ),
        0x10054000,
    ),
    (legal("f16", m=32, n=64, max_shift=32), 0xC2100014),
    # CUTLASS make_instr_desc_block_scaled (M >> 4 in bits 24-28); the ids are the two top bits of the scale addresses
    (legal("mxf8f6f4", n=256), 0x08C00004),
    (legal("mxf8f6f4", n=256, a_scale_id=3, b_scale_id=1, b_type="e2m3"), 0x68C00C14),
    (legal("mxf4", n=256), 0x08C00484),
    (legal("mxf4nvf4", m=256, n=256, scale_type="ue4m3"), 0x10400484),
    (legal("mxf4", n=256, sparse=False, k96=True, a_scale_id=2, b_scale_id=2), 0xC8C004A0),
    # CUTLASS make_umma_desc: version 1, LBO 1 unit for swizzled K-major; JAX's TCGEN05_SMEM_DESCRIPTOR_BIT is 1 << 46
    (SharedMemoryDescriptor(), 1 << 46),
    (SharedMemoryDescriptor(leading_offset=16, stride_offset=1024, swizzle="128B"), 0x4000404000010000),
    (SharedMemoryDescriptor(start_address=0x3FFF0, stride_offset=512, swizzle="64B"), 0x8000402000003FFF),
    (SharedMemoryDescriptor(stride_offset=256, swizzle="32B", base_offset=7), 0xC00E401000000000),
    (SharedMemoryDescriptor(leading_offset=4096, swizzle="128B, 32B atoms", leading_absolute=True), 0x2010400001000000),
    # tcgen05.cp of a sparsity metadata tile: no swizzle, SBO 128
    (SharedMemoryDescriptor(start_address=0x400, stride_offset=128), 0x0000400800000040),
    (ZeroColumnMask(), 0),
    (ZeroColumnMask(non_zero_mask=True, skip_span=2, use_span=3), 0x0003028000000000),
    (
        ZeroColumnMask(
            start_count_1=1,
            start_count_2=2,
            start_count_3=1,
            first_span_0=True,
            first_span_1=True,
            non_zero_mask=True,
            skip_span=2,
            use_span=3,
            column_shift=2,
        ),
        0x0203028301020100,
    ),
]


@over(
    ("descriptor", "word"), KNOWN, ids=lambda value: hex(value) if isinstance(value, int) else value.variant or "wide"
)
def test_known_words(descriptor: Descriptor, word: int) -> None:
    assert descriptor.encode() == word


def test_scaled_m_is_where_cutlass_writes_it() -> None:
    """CUTLASS writes M >> 4 into bits 24-28, PTX has M >> 7 in bits 27-28: the same bits."""
    for m in (128, 256):
        assert legal("mxf4", m=m).encode() & 0x1F << 24 == m >> 4 << 24


# Construction


@over(
    ("make", "message"),
    [
        (lambda: legal("f16", n=12), "n = 12 is not a multiple of 8"),
        (lambda: legal("f16", m=100), "m = 100 is not a multiple of 16"),
        (lambda: legal("mxf4", m=64), "m = 64 is not a multiple of 128"),
        (lambda: legal("f16", n=512), "n = 512 does not fit bits 17-22"),
        (lambda: legal("f16", selector=4), "selector = 4 does not fit bits 0-1"),
        (lambda: legal("f16", selector=-1), "selector = -1 does not fit"),
        (lambda: legal("f16", max_shift=4), "max_shift cannot be 4; legal: 0, 8, 16, 32"),
        (lambda: legal("f16", a_type="e4m3"), "a_type cannot be 'e4m3'; legal: f16, bf16"),
        (lambda: legal("f16", m="128"), "m cannot be '128'"),
        (lambda: legal("f16", m=1.5), "m cannot be 1.5"),
        (lambda: legal("f16", a_scale_id=1), "has no field 'a_scale_id'"),
        (lambda: legal("mxf4", selector=1), "has no field 'selector'"),
        (lambda: legal("mxf8f6f4", d_type="f16"), "has no field 'd_type'"),
        (lambda: legal("f16", reserved=1 << 2), "reserved bits outside"),
        (lambda: InstructionDescriptor("f15", m=128, n=8, a_type=0, b_type=0), "unknown kind 'f15'; legal: f16, tf32"),
        (lambda: InstructionDescriptor.decode(0, "mxf9"), "unknown kind 'mxf9'"),
        (lambda: InstructionDescriptor.decode(1 << 32, "f16"), "not a word of 32 bits"),
        (lambda: InstructionDescriptor.decode("7", "f16"), "not a word of 32 bits"),  # type: ignore[arg-type]
        (lambda: SharedMemoryDescriptor(start_address=8), "start_address = 8 is not a multiple of 16"),
        (lambda: SharedMemoryDescriptor(leading_offset=24), "leading_offset = 24 is not a multiple of 16"),
        (lambda: SharedMemoryDescriptor(stride_offset=1), "stride_offset = 1 is not a multiple of 16"),
        (lambda: SharedMemoryDescriptor(start_address=1 << 18), "does not fit bits 0-13; legal: 0 to 262128"),
        (lambda: SharedMemoryDescriptor(swizzle="16B"), "swizzle cannot be '16B'"),
        (lambda: SharedMemoryDescriptor.decode(-1), "not a word of 64 bits"),
        (lambda: ZeroColumnMask(use_span=256), "use_span = 256 does not fit bits 48-55"),
        (lambda: ZeroColumnMask(column_shift=64), "column_shift = 64 does not fit"),
        (lambda: legal("f16").validate(cta_group=3), "unknown cta_group 3"),
        (lambda: legal("mxf8f6f4").validate(scale_vec="4X"), "has no vector size '4X'; legal: none, 1X, block32"),
        (lambda: legal("f16").validate(scale_vec="1X"), "has no vector size '1X'"),
        (lambda: legal("f16").validate(target="sm_9"), "unknown target"),
        (lambda: legal("f16").validate(kind="f32"), "unknown kind 'f32'"),
        (lambda: SharedMemoryDescriptor().validate(kind="f32"), "unknown kind 'f32'"),
        (lambda: SharedMemoryDescriptor().validate(operand="d"), "unknown operand 'd'"),
        (lambda: ZeroColumnMask().validate(m=256), "M = 256 has no zero-column mask"),
        (lambda: ZeroColumnMask().mask(10, m=32), "N = 10 does not divide into 4 sub-masks"),
    ],
)
def test_bad_values(make: Any, message: str) -> None:
    with pytest.raises(IsaError) as caught:
        make()
    assert message in str(caught.value)


def test_numbers_and_names_are_the_same_value() -> None:
    assert legal("f16", a_type=1) == legal("f16", a_type="bf16")
    assert legal("f16", m=np.int64(64)) == legal("f16", m=64)
    assert legal("f16", a_type=6).a_type == 6
    assert legal("f16", sparse=1).sparse is True


# Legality of the instruction descriptor

SPARSE = {"sparse": True}
CATALOGUE: list[tuple[str, InstructionDescriptor, dict[str, Any], str, str, str]] = [
    # name, descriptor, instruction, field, severity, words of the rule
    ("selector-f8f6f4", legal("f8f6f4", selector=1), SPARSE, "selector", "illegal", "must be 0, not 1"),
    ("selector-i8", legal("i8", selector=3), SPARSE, "selector", "illegal", "of .kind::i8 must be 0, not 3"),
    ("selector-2-f16", legal("f16", selector=2), SPARSE, "selector", "undefined", "selector 2 has no known meaning"),
    ("selector-3-tf32", legal("tf32", selector=3), SPARSE, "selector", "undefined", "selector 3 has no known meaning"),
    ("selector-dense", legal("f16", selector=1, sparse=False), {}, "selector", "warning", "without sparsity"),
    (
        "selector-mxf8f6f4",
        legal("mxf8f6f4", reserved=1),
        SPARSE,
        "reserved",
        "warning",
        "no sparsity selector in the mx kinds",
    ),
    ("selector-mxf4", legal("mxf4", reserved=2), SPARSE, "reserved", "warning", "no sparsity selector in the mx kinds"),
    (
        "sparse-bit-missing",
        legal("f16", sparse=False),
        SPARSE,
        "sparse",
        "illegal",
        "sparsity bit is 0 in an instruction with .sp",
    ),
    (
        "sparse-bit-extra",
        legal("f16"),
        {"sparse": False},
        "sparse",
        "illegal",
        "sparsity bit is 1 in an instruction without .sp",
    ),
    ("m-32", legal("f16", m=32), SPARSE, "m", "illegal", "M = 32 with .kind::f16, cta_group::1, .sp"),
    ("m-192", legal("f16", m=192), SPARSE, "m", "illegal", "M = 192"),
    ("m-64-cta-2", legal("f16", m=64), {"cta_group": 2}, "m", "illegal", "M = 64 with .kind::f16, cta_group::2"),
    ("m-256-cta-1", legal("f16", m=256), SPARSE, "m", "illegal", "M = 256"),
    ("m-256-ws", legal("f16", m=256), {"ws": True}, "m", "illegal", "M = 256 with .kind::f16, cta_group::1, .sp, .ws"),
    (
        "m-128-mx-sparse-cta-2",
        legal("mxf4"),
        {"cta_group": 2},
        "m",
        "illegal",
        "M = 128 with .kind::mxf4, cta_group::2, .sp",
    ),
    (
        "m-mx-ws",
        legal("mxf8f6f4"),
        {"ws": True},
        "m",
        "illegal",
        "M = 128 with .kind::mxf8f6f4, cta_group::1, .sp, .ws",
    ),
    ("m-ws-cta-2", legal("f16"), {"ws": True, "cta_group": 2}, "m", "illegal", "cta_group::2, .sp, .ws"),
    ("n-0", legal("f16", n=0), SPARSE, "n", "illegal", "N = 0 with"),
    ("n-264", legal("f16", n=264), SPARSE, "n", "illegal", "N = 264 with"),
    ("n-8-cta-2", legal("f16", n=8), {"cta_group": 2}, "n", "illegal", "N = 8 with .kind::f16, cta_group::2"),
    ("n-40-i8", legal("i8", n=40), SPARSE, "n", "illegal", "N = 40 with .kind::i8"),
    ("n-48-i8-cta-2", legal("i8", n=48), {"cta_group": 2}, "n", "illegal", "N = 48 with .kind::i8, cta_group::2"),
    (
        "n-256-ws-sparse",
        legal("f16", n=256),
        {"ws": True},
        "n",
        "illegal",
        "N = 256 with .kind::f16, cta_group::1, .sp, .ws",
    ),
    ("n-32-ws", legal("f16", n=32), {"ws": True}, "n", "illegal", "N = 32"),
    ("n-8-f8f6f4", legal("f8f6f4", n=24), SPARSE, "n", "warning", "CUTLASS wants a multiple of 16"),
    ("n-48-f8f6f4-cta-2", legal("f8f6f4", n=48), {"cta_group": 2}, "n", "warning", "CUTLASS wants a multiple of 32"),
    ("n-24-f16", legal("f16", n=24), SPARSE, "n", "warning", "JAX wants a multiple of 16"),
    ("n-24-i8", legal("i8", n=24, sparse=False), {}, "n", "warning", "CUTLASS takes 8 or multiples of 16"),
    (
        "n-8-transposed",
        legal("f8f6f4", n=8, transpose_b=True),
        SPARSE,
        "n",
        "illegal",
        "N = 8 with 8-bit B transposed and cta_group::1",
    ),
    (
        "n-24-transposed-i8",
        legal("i8", n=24, transpose_b=True),
        SPARSE,
        "n",
        "illegal",
        "N = 24 with 8-bit B transposed",
    ),
    (
        "n-16-transposed-cta-2",
        legal("mxf8f6f4", m=256, n=16, transpose_b=True),
        {"cta_group": 2},
        "n",
        "illegal",
        "transposed and cta_group::2",
    ),
    ("a-type", legal("f16", a_type=2), SPARSE, "a_type", "illegal", "code 2 is no type of .kind::f16"),
    ("b-type", legal("f8f6f4", b_type=2), SPARSE, "b_type", "illegal", "code 2 is no type of .kind::f8f6f4"),
    ("b-type-mxf4", legal("mxf4", b_type=0), SPARSE, "b_type", "illegal", "code 0 is no type of .kind::mxf4"),
    ("f16-word-in-tf32", legal("f16"), {"kind": "tf32"}, "a_type", "illegal", "code 0 is no type of .kind::tf32"),
    ("types-differ", legal("f16", a_type="bf16"), SPARSE, "b_type", "warning", "different types"),
    ("d-type-3", legal("f16", d_type=3), SPARSE, "d_type", "illegal", "D of .kind::f16 cannot be 3"),
    ("d-s32", legal("f8f6f4", d_type="s32"), SPARSE, "d_type", "illegal", "cannot be s32"),
    ("d-f16-tf32", legal("tf32", d_type="f16"), SPARSE, "d_type", "illegal", "D of .kind::tf32 cannot be f16"),
    ("d-f32-i8", legal("i8", d_type="f32"), SPARSE, "d_type", "illegal", "D of .kind::i8 cannot be f32"),
    (
        "d-f16-bf16",
        legal("f16", a_type="bf16", b_type="bf16", d_type="f16"),
        SPARSE,
        "d_type",
        "illegal",
        "needs A and B in f16",
    ),
    ("reserved-6", legal("f16", reserved=1 << 6), SPARSE, "reserved", "illegal", "reserved: 0x1"),
    ("reserved-23", legal("f16", reserved=1 << 23), SPARSE, "reserved", "illegal", "reserved: 0x1"),
    ("reserved-29", legal("f16", reserved=1 << 29), SPARSE, "reserved", "illegal", "selects K, sm_107 only"),
    ("reserved-26", legal("mxf4", reserved=1 << 26), SPARSE, "reserved", "illegal", "bit 26: PTX ISA 9.4, sm_107 only"),
    ("reserved-3", legal("mxf8f6f4", reserved=1 << 3), SPARSE, "reserved", "illegal", "reserved: 0x1"),
    ("reserved-31", legal("mxf8f6f4", reserved=1 << 31), SPARSE, "reserved", "illegal", "reserved: 0x1"),
    ("saturate", legal("f16", saturate=True), SPARSE, "saturate", "illegal", "cannot saturate"),
    ("negate-a-i8", legal("i8", negate_a=True), SPARSE, "negate_a", "illegal", ".kind::i8 cannot negate"),
    ("negate-b-i8", legal("i8", negate_b=True), SPARSE, "negate_b", "illegal", ".kind::i8 cannot negate"),
    (
        "transpose-a-mxf4",
        legal("mxf4", transpose_a=True),
        SPARSE,
        "transpose_a",
        "illegal",
        ".kind::mxf4 cannot transpose",
    ),
    (
        "transpose-b-mxf4nvf4",
        legal("mxf4nvf4", transpose_b=True),
        SPARSE,
        "transpose_b",
        "illegal",
        ".kind::mxf4nvf4 cannot transpose",
    ),
    (
        "transpose-fp6",
        legal("f8f6f4", a_type="e3m2", transpose_a=True),
        SPARSE,
        "transpose_a",
        "warning",
        "e3m2 transposed",
    ),
    (
        "transpose-a-tmem",
        legal("f16", transpose_a=True),
        {"a_in_tmem": True},
        "transpose_a",
        "illegal",
        "A in Tensor Memory cannot be transposed",
    ),
    ("ashift-m-64", legal("f16", m=64), {"ashift": True}, "m", "illegal", "M = 64 with .ashift"),
    ("max-shift", legal("f16", max_shift=8), SPARSE, "max_shift", "undefined", "a maximum shift without .ws"),
    ("version-1", legal("mxf4", sparsity_version=1), SPARSE, "sparsity_version", "undefined", "exists on sm_107 only"),
    (
        "version-1-dense",
        legal("mxf4", sparsity_version=1, sparse=False),
        {},
        "sparsity_version",
        "illegal",
        "without sparsity: reserved",
    ),
    ("k96-sparse", legal("mxf4", k96=True), {"target": "sm_103a"}, "k96", "illegal", "K = 96 is dense only"),
    (
        "k96-target",
        legal("mxf4", k96=True, sparse=False),
        {"target": "sm_100a"},
        "k96",
        "illegal",
        "sm_100a has no K = 96",
    ),
    ("target-i8", legal("i8"), {"target": "sm_103a"}, "kind", "illegal", "sm_103a has no .kind::i8"),
    (
        "target-family-mxf4",
        legal("mxf4"),
        {"target": "sm_100f"},
        "kind",
        "illegal",
        "sm_100f has no .kind::mxf4, sparse",
    ),
    ("target-90", legal("f16"), {"target": "sm_90a"}, "kind", "illegal", "sm_90a has no .kind::f16"),
    ("a-id-1-mxf4", legal("mxf4", a_scale_id=1), SPARSE, "a_scale_id", "illegal", "id 1 with 2 factors a row"),
    (
        "b-id-3-mxf4nvf4",
        legal("mxf4nvf4", b_scale_id=3),
        {"scale_vec": "block32"},
        "b_scale_id",
        "illegal",
        "id 3 with 2 factors a row",
    ),
    (
        "a-id-2-4x",
        legal("mxf4nvf4", a_scale_id=2),
        {"scale_vec": "4X"},
        "a_scale_id",
        "illegal",
        "id 2 with 4 factors a row",
    ),
    (
        "b-id-1-block16",
        legal("mxf4nvf4", b_scale_id=1),
        {"scale_vec": "block16"},
        "b_scale_id",
        "illegal",
        "id 1 with 4 factors a row",
    ),
    (
        "ue4m3-mxf8f6f4",
        legal("mxf8f6f4", scale_type="ue4m3"),
        SPARSE,
        "scale_type",
        "undefined",
        "ue4m3 scales with .kind::mxf8f6f4",
    ),
    (
        "ue4m3-mxf4",
        legal("mxf4", scale_type="ue4m3"),
        SPARSE,
        "scale_type",
        "undefined",
        "ue4m3 scales with .kind::mxf4",
    ),
    (
        "ue4m3-block32",
        legal("mxf4nvf4", scale_type="ue4m3"),
        {"scale_vec": "block32"},
        "scale_type",
        "undefined",
        ".kind::mxf4nvf4 block32",
    ),
    (
        "ue4m3-2x",
        legal("mxf4nvf4", scale_type="ue4m3"),
        {"scale_vec": "2X"},
        "scale_type",
        "undefined",
        ".kind::mxf4nvf4 2X",
    ),
]


@over(("name", "descriptor", "how", "field", "severity", "rule"), CATALOGUE, ids=[row[0] for row in CATALOGUE])
def test_catalogue(
    name: str, descriptor: InstructionDescriptor, how: dict[str, Any], field: str, severity: str, rule: str
) -> None:
    """Each row breaks one rule, which is found once and with what would be right, and `check` refuses unless it is a
    warning."""
    found = [item for item in descriptor.validate(**how) if item.field == field and rule in item.rule]
    assert len(found) == 1, [str(item) for item in descriptor.validate(**how)]
    assert found[0].severity is Severity(severity)
    assert found[0].right
    assert found[0].source
    if field != "kind":
        again = InstructionDescriptor.decode(descriptor.encode(), how.get("kind", descriptor.kind))
        assert found[0].bits in {item.bits for item in again.table if item.name == field}
    if severity == "warning":
        descriptor.check(**how)
    else:
        with pytest.raises(IsaError) as caught:
            descriptor.check(**how)
        assert rule in str(caught.value)
        assert found[0].right in caught.value.legal


@over(("kind", "cta", "sparse", "ws"), FORMS)
def test_legal_forms_have_no_finding(kind: str, cta: int, sparse: bool, ws: bool) -> None:
    """Every M and N of the table, all other fields at their plainest: no error; and nothing beside them is legal."""
    form: dict[str, Any] = {"cta_group": cta, "sparse": sparse, "ws": ws}
    ms, ns = legal_m(kind, **form), legal_n(kind, **form)
    for m in range(0, 512, 128 if kind.startswith("mx") else 16):
        for n in (*range(0, 273, 8), 320, 504) if m in (*ms, 0) else (64,):
            descriptor = legal(kind, m=m, n=n, sparse=sparse)
            bad = [found.field for found in descriptor.validate(**form) if found.severity is not Severity.WARNING]
            assert bad == ["m"] * (m not in ms) + ["n"] * (n not in ns)


def test_plain_descriptors_have_no_warning_either() -> None:
    for kind, cta, sparse, ws in FORMS:
        form: dict[str, Any] = {"cta_group": cta, "sparse": sparse, "ws": ws}
        for m in legal_m(kind, **form):
            assert legal(kind, m=m, sparse=sparse, max_shift=16 * ws).validate(**form) == []
    assert legal("f8f6f4", a_type="e2m1", b_type="e5m2", d_type="f16", transpose_b=True).validate() == []
    assert legal("i8", a_type="u8", b_type="s8", saturate=True, transpose_a=True).validate() == []
    assert legal("tf32", n=64, selector=1, negate_a=True, transpose_a=True).validate() == []
    assert legal("f16", n=32, sparse=False, a_type="bf16", b_type="bf16").validate(ashift=True, a_in_tmem=True) == []
    assert legal("mxf4nvf4", scale_type="ue4m3").validate(scale_vec="4X") == []
    assert legal("mxf4nvf4", a_scale_id=2, b_scale_id=2).validate(scale_vec="block32", target="sm_110a") == []
    assert legal("mxf8f6f4", a_scale_id=3, b_scale_id=1).validate(target="sm_103f") == []


def test_everything_is_found_at_once() -> None:
    found = InstructionDescriptor.decode(0xFFFFFFFF, "i8").validate(target="sm_103a", sparse=False)
    assert {item.field for item in found} == {
        "reserved",
        "kind",
        "sparse",
        "selector",
        "a_type",
        "b_type",
        "d_type",
        "negate_a",
        "negate_b",
        "m",
        "n",
        "max_shift",
    }
    assert sum(item.field == "reserved" for item in found) == 3
    assert len({str(item) for item in found}) == len(found)
    with pytest.raises(IsaError) as caught:
        InstructionDescriptor.decode(0xFFFFFFFF, "i8").check(target="sm_103a", sparse=False)
    assert all(item.rule in str(caught.value) for item in found if item.severity is not Severity.WARNING)


@pytest.mark.parametrize("kind", KINDS)
@given(word=st.integers(0, 2**32 - 1), cta=st.sampled_from([1, 2]), sparse=st.booleans(), ws=st.booleans(),
       target=st.sampled_from(["sm_100a", "sm_103a", "sm_110a", "sm_100f", "sm_90a"]))  # fmt: skip
@example(word=0xFFFFFFFF, cta=1, sparse=True, ws=False, target="sm_100a")
def test_any_word_can_be_judged(kind: str, word: int, cta: int, sparse: bool, ws: bool, target: str) -> None:
    for found in InstructionDescriptor.decode(word, kind).validate(cta_group=cta, sparse=sparse, ws=ws, target=target):
        assert found.rule in str(found)


def test_k() -> None:
    """Reference table of shapes: sparse K is twice dense K."""
    assert [legal(kind).k for kind in KINDS] == [32, 16, 64, 64, 64, 128, 128]
    assert [legal(kind, sparse=False).k for kind in KINDS] == [16, 8, 32, 32, 32, 64, 64]
    wide = legal("mxf4", sparse=False, k96=True)
    assert wide.k == 96
    wide.check(target="sm_103a")


def test_words_say_what_fields_mean() -> None:
    text = str(legal("mxf4nvf4", scale_type="ue4m3", reserved=1 << 6))
    for line in (
        "bits 2     sparse            sparse",
        "bits 23    scale_type        ue4m3",
        "bits 6     reserved          0x1, must be 0",
        "bits 31    k96               64 dense, 128 sparse",
        "bits 17-22 n                 128",
    ):
        assert line in text
    taken_as_0 = str(legal("mxf4nvf4", scale_type="ue4m3", reserved=1))
    assert "bits 0-1   reserved          0x1, should be 0 (else a warning)" in taken_as_0


# Shared-memory descriptor

K128 = SharedMemoryDescriptor(stride_offset=1024, leading_offset=16, swizzle="128B")
ATOMS = SharedMemoryDescriptor(stride_offset=512, leading_offset=1024, swizzle="128B, 32B atoms")
ABSOLUTE = SharedMemoryDescriptor(stride_offset=1024, leading_offset=4096, swizzle="128B", leading_absolute=True)


def smem(**values: Any) -> SharedMemoryDescriptor:
    return SharedMemoryDescriptor(**{"stride_offset": 1024, "leading_offset": 16, "swizzle": "128B", **values})


SMEM_CATALOGUE: list[tuple[str, SharedMemoryDescriptor, dict[str, Any], str, str, str]] = [
    ("version-0", smem(version=0), {}, "version", "illegal", "bits 46-48 are 0b000"),
    ("version-3", smem(version=3), {}, "version", "illegal", "bits 46-48 are 0b011"),
    ("fixed", smem(reserved=1 << 53), {}, "reserved", "illegal", "fixed: 0x1"),
    ("fixed-top", smem(reserved=1 << 60), {}, "reserved", "illegal", "fixed: 0x80"),
    ("bit-14", smem(reserved=1 << 14), {}, "reserved", "warning", "not in table 40"),
    ("bit-31", smem(reserved=1 << 31), {}, "reserved", "warning", "not in table 40"),
    *(
        (f"swizzle-{code}", smem(swizzle=code), {}, "swizzle", "illegal", f"swizzle code {code} is invalid")
        for code in (3, 5, 7)
    ),
    (
        "base-missing",
        smem(),
        {"pattern_start": 1152},
        "base_offset",
        "illegal",
        "base offset 0 where the 128B pattern starts at 1152",
    ),
    (
        "base-extra",
        smem(base_offset=2),
        {"pattern_start": 2048},
        "base_offset",
        "illegal",
        "base offset 2 where the 128B pattern starts at 2048",
    ),
    ("base-64", smem(swizzle="64B"), {"pattern_start": 256}, "base_offset", "illegal", "64B pattern starts at 256"),
    ("base-32", smem(swizzle="32B"), {"pattern_start": 128}, "base_offset", "illegal", "32B pattern starts at 128"),
    ("base-cannot", smem(), {"pattern_start": 64}, "base_offset", "undefined", "which no base offset can say"),
    ("base-unknown", smem(base_offset=1), {}, "base_offset", "warning", "does not start at a multiple of 1024"),
    ("base-none", smem(swizzle="none", base_offset=1), {}, "base_offset", "warning", "a base offset without swizzle"),
    (
        "absolute-target",
        ABSOLUTE,
        {"target": "sm_100a"},
        "leading_absolute",
        "illegal",
        "sm_100a has no absolute leading address",
    ),
    (
        "absolute-swizzle",
        smem(swizzle="64B", leading_absolute=True),
        {"target": "sm_103a"},
        "leading_absolute",
        "illegal",
        "with swizzle 64B",
    ),
    (
        "absolute-mn",
        ABSOLUTE,
        {"target": "sm_103a", "transposed": True},
        "leading_absolute",
        "illegal",
        "with a transposed matrix",
    ),
    (
        "absolute-base",
        smem(leading_absolute=True, base_offset=1),
        {"target": "sm_103a", "pattern_start": 128},
        "leading_absolute",
        "illegal",
        "with base offset 1",
    ),
    *(
        (
            f"tf32-{name}",
            smem(swizzle=name),
            {"kind": "tf32", "transposed": True},
            "swizzle",
            "illegal",
            f".kind::tf32 in swizzle {name}",
        )
        for name in SWIZZLES
        if name != "128B, 32B atoms"
    ),
    *(
        (
            f"atoms-{kind}",
            ATOMS,
            {"kind": kind, "transposed": True},
            "swizzle",
            "illegal",
            f".kind::{kind} in 128B swizzle with 32B atoms",
        )
        for kind in ("f16", "f8f6f4", "i8", "mxf8f6f4")
    ),
    *(
        (
            f"transpose-{kind}",
            smem(),
            {"kind": kind, "transposed": True, "operand": operand},
            "swizzle",
            "illegal",
            f"transposed with .kind::{kind}",
        )
        for kind, operand in (("mxf4", "a"), ("mxf4nvf4", "b"))
    ),
    ("atoms-k-major", ATOMS, {"kind": "tf32"}, "swizzle", "undefined", "K-major A in 128B swizzle with 32B atoms"),
    (
        "sparse-b-32",
        smem(swizzle="32B"),
        {"kind": "f16", "operand": "b", "sparse": True},
        "swizzle",
        "undefined",
        "64 contiguous bytes of K",
    ),
]


@over(
    ("name", "descriptor", "how", "field", "severity", "rule"), SMEM_CATALOGUE, ids=[row[0] for row in SMEM_CATALOGUE]
)
def test_smem_catalogue(
    name: str, descriptor: SharedMemoryDescriptor, how: dict[str, Any], field: str, severity: str, rule: str
) -> None:
    found = descriptor.validate(**how)
    assert [(item.field, item.severity.value) for item in found] == [(field, severity)]
    assert rule in found[0].rule
    if severity == "warning":
        descriptor.check(**how)
    else:
        with pytest.raises(IsaError) as caught:
            descriptor.check(**how)
        assert rule in str(caught.value)


def test_smem_legal() -> None:
    for kind in KINDS:
        for name in SWIZZLES:
            for transposed in (False, True):
                atoms = name == "128B, 32B atoms"
                fits = kind not in ("mxf4", "mxf4nvf4") and atoms == (kind == "tf32") if transposed else not atoms
                assert (smem(swizzle=name).validate(kind=kind, transposed=transposed) == []) == fits, (
                    kind,
                    name,
                    transposed,
                )
    ABSOLUTE.check(target="sm_103a", kind="mxf4")
    smem(base_offset=3).check(pattern_start=1024 + 3 * 128)
    smem(swizzle="64B").check(pattern_start=512)
    assert smem(swizzle="32B").validate(kind="f16", operand="a", sparse=True) == []


def chunk(address: int, name: str) -> int:
    """The address after the swizzle, from its description in words: 16- or 32-byte chunks of a row permuted by the
    number of the 128-byte line."""
    line, inside = divmod(address % 1024, 128)
    atom, mask = {"none": (16, 0), "32B": (16, 1), "64B": (16, 3), "128B": (16, 7), "128B, 32B atoms": (32, 3)}[name]
    return address // 128 * 128 + ((inside // atom) ^ (line & mask)) * atom + inside % atom


@pytest.mark.parametrize("name", SWIZZLES)
def test_canonical_layouts(name: str) -> None:
    """Against CuTe's shapes and strides, written out; one descriptor never puts two bytes in one place."""
    units = SWIZZLES[name].units
    if name != "128B, 32B atoms":
        layout = SharedMemoryDescriptor(
            start_address=2048, stride_offset=128 * units, leading_offset=4096 if units == 1 else 16, swizzle=name
        )
        seen = set()
        for row in range(64):
            for byte in range(32 if units == 1 else 16 * units):
                t, part = divmod(byte, 16)
                linear = row % 8 * 16 * units + row // 8 * 128 * units + part + t * (4096 if units == 1 else 16)
                seen.add(got := layout.byte_address(row, byte))
                assert got == chunk(2048 + linear, name)
        assert len(seen) == 64 * (32 if units == 1 else 16 * units)
    rows = SWIZZLES[name].k_rows
    layout = SharedMemoryDescriptor(stride_offset=rows * 16 * units, leading_offset=8192, swizzle=name)
    seen = set()
    for k in range(16):
        for byte in range(32 * units):
            part, m = byte % (16 * units), byte // (16 * units)
            along_mn, along_k = (rows * 16 * units, 8192) if units == 1 else (8192, rows * 16 * units)
            linear = part + m * along_mn + k % rows * 16 * units + k // rows * along_k
            seen.add(got := layout.byte_address(k, byte, transposed=True))
            assert got == chunk(linear, name)
    assert len(seen) == 16 * 32 * units


def test_start_addresses_advance_inside_the_pattern() -> None:
    """A K step of sparse A adds 32 bytes to the start address, and finds the bytes that the whole row has there."""
    whole = smem(start_address=4096)
    for step in range(4):
        moved = smem(start_address=4096 + 32 * step)
        assert all(
            moved.byte_address(row, byte) == whole.byte_address(row, 32 * step + byte)
            for row in range(32)
            for byte in range(32)
        )


def test_base_offset_moves_the_pattern() -> None:
    """A tile that is moved by three 128-byte lines, with base offset 3, is the aligned tile moved."""
    moved = smem(start_address=4096 + 3 * 128, base_offset=3)
    assert [moved.byte_address(row) - 384 for row in range(8)] == [
        smem(start_address=4096).byte_address(row) for row in range(8)
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ATOMS.byte_address(0), "no K-major layout"),
        (lambda: K128.byte_address(0, 128), "a K-major row has 128 bytes"),
        (lambda: K128.byte_address(0, 3, element_bytes=2), "no place in the matrix"),
        (lambda: K128.byte_address(-1), "no place in the matrix"),
        (lambda: ABSOLUTE.byte_address(0), "not modelled"),
        (lambda: smem(swizzle=3).byte_address(0), "swizzle code 3 is invalid"),
    ],
)
def test_places_that_are_none(make: Any, message: str) -> None:
    with pytest.raises(IsaError, match=message):
        make()


# Zero-column mask


def bits(text: str) -> list[bool]:
    """PTX's way of writing a mask, highest column first."""
    return [digit == "1" for digit in reversed(text.replace(" ", ""))]


def test_mask_example_1() -> None:
    descriptor = ZeroColumnMask(non_zero_mask=False, skip_span=4, use_span=3)
    for m in (32, 64, 128):
        assert not descriptor.mask(128, m=m).any()


def test_mask_example_2() -> None:
    mask = ZeroColumnMask(non_zero_mask=True, skip_span=2, use_span=3).mask(128, m=128)
    assert mask[:14].tolist() == bits("111 0000 111 0000")
    assert np.array_equal(mask[7:], mask[:-7])


def test_mask_example_3() -> None:
    mask = ZeroColumnMask(non_zero_mask=True, skip_span=2, use_span=3, first_span_0=True).mask(128, m=64)
    assert mask[:17].tolist() == bits("111 0000 111 0000 111")
    assert mask[64:82].tolist() == bits("0000 111 0000 111 0000")


def test_mask_example_4() -> None:
    descriptor = ZeroColumnMask.decode(0x0203028301020100)
    mask = descriptor.mask(128, m=32).reshape(4, 32)
    for part, text in enumerate(("0000 111 0000 111", "0000 111 0000 11", "111 0000 111 00", "111 0000 111 000")):
        assert mask[part, : len(bits(text))].tolist() == bits(text)
    columns = descriptor.columns(128)
    assert (columns[0], columns[-1], len(columns)) == (2, 129, 128)


@given(word=st.integers(0, 2**64 - 1), m=st.sampled_from([32, 64, 128]), n=st.sampled_from([64, 128, 256]))
def test_mask_against_the_words_of_ptx(word: int, m: int, n: int) -> None:
    """Runs laid out one by one, the start count cut off, N bits kept."""
    descriptor, parts = ZeroColumnMask.decode(word), 128 // m
    expected: list[bool] = []
    for part in range(parts):
        runs, value = [], bool(word >> (32 + part) & 1)  # type: ignore[var-annotated]
        while len(runs) < 256 + n:
            runs += [value] * (((word >> 40 & 255) if value else (word >> 48 & 255)) + 1)
            value = not value
        start = word >> 8 * part & 255
        expected += runs[start : start + n // parts] if word >> 39 & 1 else [False] * (n // parts)
    assert descriptor.mask(n, m=m).tolist() == expected
    assert (descriptor.zeroed_run, descriptor.used_run) == ((word >> 40 & 255) + 1, (word >> 48 & 255) + 1)


@pytest.mark.parametrize(
    ("descriptor", "how", "severity", "rule"),
    [
        (ZeroColumnMask(column_shift=17), {"m": 32}, "illegal", "a shift of 17 with M = 32"),
        (ZeroColumnMask(column_shift=33), {"m": 64}, "illegal", "a shift of 33 with M = 64"),
        (ZeroColumnMask(column_shift=33), {"m": 128}, "illegal", "a shift of 33 with M = 128"),
        (
            ZeroColumnMask(column_shift=9),
            {"m": 128, "max_shift": 8},
            "undefined",
            "beyond the instruction descriptor's maximum of 8",
        ),
        (ZeroColumnMask(reserved=1 << 36), {"m": 128}, "illegal", "reserved: 0x1"),
        (ZeroColumnMask(reserved=1 << 63), {"m": 128}, "warning", "not in table 45: 0x2"),
        (ZeroColumnMask(), {"m": 32, "n": 6}, "illegal", "N = 6 does not divide into 4 sub-masks"),
    ],
)
def test_mask_catalogue(descriptor: ZeroColumnMask, how: dict[str, Any], severity: str, rule: str) -> None:
    found = descriptor.validate(**how)
    assert [item.severity.value for item in found] == [severity]
    assert rule in found[0].rule
    if severity != "warning":
        with pytest.raises(IsaError) as caught:
            descriptor.check(**how)
        assert rule in str(caught.value)


def test_mask_legal() -> None:
    ZeroColumnMask(column_shift=16).check(m=32, n=64, max_shift=16)
    ZeroColumnMask(column_shift=32, non_zero_mask=True).check(m=128, n=128, max_shift=32)
    assert ZeroColumnMask(column_shift=16).validate(m=32) == []


# The page, and what an import costs


@pytest.mark.parametrize(
    "module",
    [isa.descriptors.instruction, isa.shared_memory.descriptor, isa.descriptors.zero_column_mask],
    ids=lambda module: module.__name__,
)
def test_docstring_examples(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


def test_the_package_does_not_load_them() -> None:
    code = (
        "import sys, isa; sys.exit(any('descriptor' in name or 'zero_column' in name for name in sys.modules "
        "if name.startswith('isa')))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_the_page_is_generated() -> None:
    assert (ROOT / "docs" / "descriptors.md").read_text() == markdown()


def test_the_command_prints_the_page() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "isa.descriptors.page"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    assert done.stdout == markdown()
    for table, _ in TABLES.values():
        for item in table:
            assert f"| {item.bits} | `{item.name}` | {item.meaning} |" in done.stdout
