"""The table of patterns, and matrices that they store."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import isa
from isa.fragments.metadata import CODE_BITS
from isa.fragments.registers import WARP_SIZE
from isa.patterns import PATTERNS, Sparsity, parse_pattern
from isa.sparsity.forms import pattern_form
from isa.sparsity.storage import compress, expand, mask, rows_of
from isa.types import element_type
from tests.support.cases import examples

F16 = element_type("f16")
NAMES = (
    "1:2",
    "2:4",
    "4:8 in pairs",
    "1:4",
    "3:4",
    "4:8",
    "2:8",
    "5:16",
    "4:2:8",
    "3:1:6",
    "4:8/2:4",
    "2:3/1:2",
    "u0.3",
)


def test_rows_of_mma_sp_are_what_ptx_lists() -> None:
    """The codes of PTX ISA 9.7.14.6.1, written out."""
    assert isa.TWO_OF_FOUR.ordered == (0b0100, 0b1000, 0b1001, 0b1100, 0b1101, 0b1110)
    assert len(isa.TWO_OF_FOUR.unordered) == 12
    assert isa.FOUR_OF_EIGHT.ordered == isa.TWO_OF_FOUR.ordered
    assert isa.ONE_OF_TWO.ordered == isa.ONE_OF_TWO.unordered == (0b0100, 0b1110)
    assert {isa.sparsity_of(element_type(name)) for name in ("f16", "s8", "tf32", "s4")} <= set(PATTERNS.values())
    assert {p.code_bits for p in (isa.TWO_OF_FOUR, isa.FOUR_OF_EIGHT, isa.ONE_OF_TWO)} == {CODE_BITS}


@given(st.sampled_from(NAMES), st.integers(1, 9), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.5]))
@settings(max_examples=examples(120), deadline=None)
def test_compress_and_expand_are_inverse(name: str, rows: int, seed: int, zeros: float) -> None:
    """Of pruned matrices, whatever zeros they have; a pruned matrix is pruned already."""
    generator = np.random.default_rng(seed)
    values = generator.integers(-8, 8, (rows, 96)) * (generator.random((rows, 96)) >= zeros)
    pattern = parse_pattern(name)
    kept = mask(values, pattern)
    pruned = np.where(kept, values, 0).astype(np.float16).view(np.uint16).astype(np.uint32)
    stored = compress(pruned, pattern, F16)
    np.testing.assert_array_equal(expand(stored), pruned)
    assert kept.mean() == pytest.approx(pattern.density, abs=0.01)
    held, columns = rows_of(stored)
    again = np.zeros((rows, 97), np.uint32)
    for row in range(rows):
        again[row, columns[row]] |= held[row]
    np.testing.assert_array_equal(again[:, :96], pruned)


def test_mask_keeps_the_largest() -> None:
    """Against a choice by hand, ties to the first."""
    row = np.array([[1, -5, 2, 2, 9, 9, 0, 1, 3, 3, 3, 3, 0, 0, 0, 7]])
    assert np.flatnonzero(mask(row, "1:4")).tolist() == [1, 4, 8, 15]
    assert np.flatnonzero(mask(row, "2:8")).tolist() == [4, 5, 8, 15]
    assert np.flatnonzero(mask(row, "1:2/2:4")).tolist() == [4, 5, 12, 15]
    assert np.flatnonzero(mask(row, "u0.25")).tolist() == [1, 4, 5, 15]
    two = np.array([[9, 0, 1, 1, 0, 0, 0, 2], [0, 3, 4, 0, 0, 0, 0, 0]])
    assert np.argwhere(mask(two, "2:1:8")).tolist() == [[0, 0], [1, 2]]  # columns 0 and 2 have the largest sums


@pytest.mark.parametrize(
    "opcode",
    [
        "mma.sp[1:4].m16n8k64.f32.f16.f16.f32",
        "mma.sp[1:4].m16n8k32.f32.f16.f16.f32",
        "mma.sp[1:8].m16n8k128.f32.bf16.bf16.f32",
        "mma.sp[4:8].m16n8k32.f32.f16.f16.f32",
        "mma.sp[1:4].m16n8k128.s32.s8.s8.s32",
        "mma.sp[4:8 in pairs].m16n8k32.f32.f16.f16.f32",
    ],
)
def test_hypothetical_fragments_hold_everything_once(opcode: str) -> None:
    """Registers of a warp -> matrices -> registers, every place of every operand used once."""
    form = pattern_form(opcode)
    assert form.a.shape == (16, form.k_stored)
    for fragment in (form.a, form.b, form.c):
        words = np.random.default_rng(0).integers(0, 1 << 32, (fragment.registers, WARP_SIZE), dtype=np.uint32)
        np.testing.assert_array_equal(fragment.scatter(fragment.gather(words)), words)
    metadata = form.metadata
    places = np.stack([np.stack(metadata.places(s)) for s in range(metadata.selectors)]).reshape(
        -1, 2, 16 * metadata.shape[1]
    )
    flat = np.moveaxis(places, 1, -1).reshape(-1, 2)
    assert len(np.unique(flat, axis=0)) == len(flat) == 32 * (32 // metadata.bits)
    codes = np.random.default_rng(1).integers(0, 1 << metadata.sparsity.code_bits, metadata.shape, dtype=np.uint32)
    np.testing.assert_array_equal(metadata.gather(metadata.scatter(codes, 0), 0), codes)


def test_derived_fragments_of_2_to_4_are_those_of_mma_sp() -> None:
    """The rule that lays out hypothetical instructions gives the measured ones where there are any."""
    for shape, types in (
        ("m16n8k32", "f32.f16.f16.f32"),
        ("m16n8k64", "s32.s8.s8.s32"),
    ):
        real = isa.mma_form(f"mma.sp.sync.aligned.{shape}.row.col.{types}")
        ours = pattern_form(f"mma.sp[2:4].{shape}.{types}")
        assert (ours.a, ours.b, ours.c, ours.metadata) == (real.a, real.b, real.c, real.metadata)


@pytest.mark.parametrize(
    "text", ["4:2", "0:4", "1:4:3", "16:64", "u0", "u1.5", "2:4/", "2:4/u0.5", "1;4", "0:2:8", "3p:8"]
)
def test_impossible_patterns_are_refused(text: str) -> None:
    with pytest.raises(isa.IsaError):
        parse_pattern(text)


@pytest.mark.parametrize(
    "rest",
    [
        "1:4].m16n8k16.f32.f16.f16.f32",
        "64:2:8].m16n8k64.f32.f16.f16.f32",
        "1:4].m16n8k64.f32.f16.f9.f32",
        "2:8].m16n8k128.s32.s8.s8.s32",
    ],
)
def test_impossible_instructions_are_refused(rest: str) -> None:
    """K that fills no row, a pattern without fragments, no such type, more metadata than a register holds."""
    with pytest.raises(isa.IsaError):
        pattern_form(f"mma.sp[{rest}")


def test_crowded_matrices_are_refused() -> None:
    full = np.ones((4, 96), np.uint32)
    for name in NAMES[:-1]:
        with pytest.raises(isa.IsaError, match="keep"):
            compress(full, name, F16)


def test_metadata_bits() -> None:
    """Counted by hand for 16 x 32 elements."""
    expected = {"2:4": 512, "1:4": 256, "4:8": 768, "u0.05": 512, "16:2:8": 4 * 4 * 3 + 256, "4:8/2:4": 16 * 12 + 256}
    assert {name: parse_pattern(name).metadata_bits(16, 32) for name in expected} == expected


def test_a_pattern_of_wide_codes() -> None:
    """8 of 16: 32 bits of code, 12,870 choices, the largest kept all the same."""
    pattern = parse_pattern("8:16")
    assert isinstance(pattern, Sparsity)
    assert pattern.code_bits == 32
    values = np.arange(32).reshape(1, 32) % 16
    assert np.flatnonzero(mask(values, pattern)).tolist() == [*range(8, 16), *range(24, 32)]
