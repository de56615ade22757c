"""wgmma: verdicts of ptxas, printing, and where its operands live, by PTX's own formulas."""

from __future__ import annotations

import random

import numpy as np
import pytest

import isa
from isa import IsaError
from isa.forms.wgmma import WGMMA_ROWS, WgmmaForm, is_wgmma
from isa.ptx.opcodes import find_form, mma_form
from isa.shared_memory.hopper import WgmmaDescriptor, of_hopper, unit_addresses_of
from isa.shared_memory.tile import Tile
from tests.golden.compare_ptxas import judged_threads, wgmma_verdicts
from tests.golden.make_ptxas_wgmma import legal_text
from tests.support.cases import exhaustive

SPARSE = "wgmma.mma_async.sp.sync.aligned.m64n8k32.f32.f16.f16 {%f0, %f1, %f2, %f3}"


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=exhaustive)])
def test_verdicts_of_ptxas(step: int) -> None:
    """5,272 texts, 1,974 of them legal: the decoder takes those that ptxas 13.0 takes, and no others."""
    (tried,) = judged_threads(wgmma_verdicts()[::step]).values()
    assert tried.texts > 5000 // step
    assert (tried.lax, tried.strict) == ([], [])


def test_what_is_printed_is_the_same_instruction() -> None:
    generator = random.Random(1)
    for _ in range(300):
        instruction = isa.decode(legal_text(generator), "sm_90a")
        assert isa.decode(str(instruction), "sm_90a") == instruction
        assert str(isa.decode(str(instruction))) == str(instruction)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{SPARSE}, %rd1, %rd2, %r1, 2, %p1, 1, 1, 0, 0;", "sparsity selector 2 is out of range"),
        (f"{SPARSE}, %rd1, %rd2, %r1, 0, %p1, 1, 1, 0;", "A in shared memory takes two constants for transposed"),
        (f"{SPARSE}, {{%r1, %r2, %r3, %r4}}, %rd2, %r1, 0, %p1, 1, 1, 0, 0;", "A in registers takes one constant"),
        (f"{SPARSE}, %rd1, %rd2, %r1, 0, %p1, 0, 1, 0, 0;", "operand scale_a is 0"),
        (f"{SPARSE}, %rd1, %rd2, %r1, 0, 2, 1, 1, 0, 0;", "operand scale_d 2 is out of range"),
        ("wgmma.mma_async.sync.aligned.m64n40k32.s32.s8.s8 {%r0}, %rd1, %rd2, %p1;", "m64n40k32"),
        ("wgmma.fence.aligned;", "lacks .sync"),
    ],
)
def test_what_is_wrong_is_named(text: str, words: str) -> None:
    with pytest.raises(IsaError, match=words.replace(".", r"\.")):
        isa.decode(text, "sm_90a")


def test_sm_90a_alone_has_it() -> None:
    text = f"{SPARSE}, %rd1, %rd2, %r1, 0, %p1, 1, 1, 0, 0;"
    for target in ("sm_90", "sm_100a", "sm_80"):
        with pytest.raises(IsaError, match="it needs sm_90a"):
            isa.decode(text, target)
    with pytest.raises(IsaError, match=r"is not in PTX 8\.0: it needs 8\.2"):
        isa.decode(text, "sm_90a", "8.0")


def _forms() -> list[WgmmaForm]:
    """Every form, one spelling of each."""
    forms = (form for row in WGMMA_ROWS for form in row.forms() if "aligned" in form.qualifiers)
    return [form for form in forms if is_wgmma(form)]


def test_fragments_are_those_of_ptx() -> None:
    """PTX ISA 9.0, 9.7.15.5.1.1, figures of D and A: thread t of the warpgroup holds rows 16 * (t / 32) + t % 32 / 4,
    and 8 more; D's column and A's k by element."""
    thread = np.arange(128)[:, None]
    seen = set()
    for form in _forms():
        for name in "da":
            fragment = getattr(form, name)
            if fragment.mapping in seen:
                continue
            seen.add(fragment.mapping)
            per = fragment.type.per_register
            i = np.arange(fragment.registers * per)[None]
            row, column = fragment.mapping.coordinates(lane=thread, register=i // per, element=i % per)
            base = 16 * (thread // 32) + thread % 32 // 4
            if name == "d":
                assert (row == base + 8 * (i // 2 % 2)).all()
                assert (column == 8 * (i // 4) + thread % 4 * 2 + i % 2).all()
            else:
                assert (row == base + 8 * (i // per % 2)).all()
                assert (column == 4 * per * (i // (2 * per)) + thread % 4 * per + i % per).all()
    assert len(seen) == 64 + 4  # 32 N by two widths of D; A of 1, 8, 16 and 32 bits


def test_metadata_lie_in_each_warp_as_those_of_mma_sp() -> None:
    """PTX ISA 9.0, 9.7.15.6.2: each warp holds the codes of its own 16 rows."""
    generator = np.random.default_rng(0)
    words = generator.integers(0, 1 << 32, (3, 128), dtype=np.uint32)
    for types, k in (("f32.f16.f16", 32), ("f32.tf32.tf32", 16), ("s32.u8.s8", 64)):
        form = find_form(f"wgmma.mma_async.sp.sync.m64n8k{k}.{types}")
        other = mma_form(f"mma.sp.sync.aligned.m16n8k{k}.row.col.{types}.{types[:3]}")
        assert is_wgmma(form)
        for selector in range(form.metadata.selectors):
            codes = form.metadata.gather(words, selector)
            for warp in range(4):
                own = other.metadata.gather(words[:, 32 * warp : 32 * warp + 32], selector)
                assert (codes[:, 16 * warp : 16 * warp + 16] == own).all()
            assert (form.metadata.gather(form.metadata.scatter(codes, selector), selector) == codes).all()


def test_descriptor_fields_and_addresses() -> None:
    """The fields stand where PTX puts them, and a tile read by a descriptor of Hopper is that of Blackwell."""
    made = WgmmaDescriptor(
        start_address=0x1230, leading_offset=0x450, stride_offset=0x670, base_offset=5, swizzle="64B"
    )
    assert made.encode() == 0x123 | 0x45 << 16 | 0x67 << 32 | 5 << 49 | 2 << 62
    assert WgmmaDescriptor.decode(made.encode()) == made
    for swizzle in ("none", "32B", "64B", "128B"):
        for major in ("K", "MN"):
            tile = Tile(128, 64, "f16", swizzle=swizzle, major=major, start=2048)
            lines, units = (128, 2) if major == "K" else (16, 16)
            word = of_hopper(tile.descriptor).encode()
            bits = tile.bits()[:, :16] if major == "K" else tile.bits()[:, :16].T
            assert (unit_addresses_of(word, major, lines, units) == bits[:, ::8] // 8).all()
    with pytest.raises(IsaError, match="swizzle cannot be"):
        of_hopper(Tile(64, 64, "tf32", swizzle="128B, 32B atoms", major="MN").descriptor)


def test_a_row_wider_than_its_swizzle_goes_on_at_the_leading_offset() -> None:
    """Measured: 64 bytes of sparse K-major B in the 32-byte swizzle."""
    made = WgmmaDescriptor(start_address=0, leading_offset=4096, stride_offset=256, swizzle="32B")
    addresses = unit_addresses_of(made.encode(), "K", 16, 4)
    assert addresses[0].tolist() == [0, 16, 4096, 4112]
    assert addresses[4].tolist() == [144, 128, 4240, 4224]  # the second 128 bytes have their halves exchanged
    assert addresses[8].tolist() == [256, 272, 4352, 4368]
