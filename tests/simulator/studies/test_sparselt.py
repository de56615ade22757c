"""Prune, compress and PyTorch's forms: against what the libraries did on real GPUs, brute force, and each other."""

from __future__ import annotations

import doctest
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import isa
import simulator
from simulator.studies import sparselt
from simulator.studies.sparselt.matrices import TYPES, as_patterns, magnitudes, to_values
from simulator.studies.sparselt.moves import convert
from simulator.studies.sparselt.summary import summarise
from simulator.studies.sparselt.tile import best_4x4, patterns_4x4
from tests.golden.compare_sparselt import SAMPLE, Checked, checks, main
from tests.support.cases import examples

DEPTH = {"f16": 16, "bf16": 16, "f32": 32, "s8": 8, "e4m3": 8, "e5m2": 8, "e2m1": 4}
MEASURED = ("f16", "bf16", "f32", "s8", "e4m3", "e5m2")


def random_patterns(type: str, shape: tuple[int, int], seed: int = 0, *, any_bits: bool = False) -> np.ndarray:
    """Normal numbers, or any bits at all (NaN, infinities, subnormal numbers, zeros of both signs)."""
    generator, bits = np.random.default_rng(seed), DEPTH[type]
    if any_bits:
        return generator.integers(0, 1 << bits, shape, dtype=np.uint64).astype(f"u{max(bits, 8) // 8}")
    return as_patterns(generator.standard_normal(shape) * (20 if type == "s8" else 1), type)[0]


@cache
def recorded() -> tuple[Checked, ...]:
    with np.load(SAMPLE) as data:
        return tuple(checks({key: data[key] for key in data.files}))


# What the libraries did


@pytest.mark.parametrize(
    "start", ["prune tile", "prune strip", "compress", "order, op, operand: ", "PyTorch tile", "PyTorch "]
)
def test_recorded_bytes(start: str) -> None:
    """cuSPARSELt 0.8 and PyTorch 2.11 on an H100 and H200: no byte differs."""
    found = [checked for checked in recorded() if checked.kind.startswith(start)]
    assert len(found) > 10
    wrong = Counter(checked.kind for checked in found if checked.differing)
    assert not wrong


def test_recordings_cover_every_type() -> None:
    kinds = {checked.kind for checked in recorded()}
    for type in MEASURED:
        assert {f"prune tile {type}", f"prune strip {type}", f"compress {type}"} <= kinds


def test_the_program_that_compares(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out.endswith("\n0 differing bytes\n")
    assert main(["nowhere"]) == 2


# Tile


def test_there_are_90_patterns() -> None:
    patterns = patterns_4x4()
    assert patterns.shape == (90, 4, 4)
    assert len({pattern.tobytes() for pattern in patterns}) == 90


@pytest.mark.parametrize("integers", [False, True])
def test_the_tile_is_the_best_of_all_patterns(integers: bool) -> None:
    """10,000 random tiles: no pattern has a larger sum than the chosen one."""
    generator = np.random.default_rng(7)
    weights = (
        generator.integers(0, 4, (10_000, 4, 4)) if integers else np.abs(generator.standard_normal((10_000, 4, 4)))
    )
    exact = (np.round(weights * 1024) / 1024).astype(np.float32)  # as are all sums
    kept = best_4x4(exact)
    assert (kept.sum(axis=1) == 2).all()
    assert (kept.sum(axis=2) == 2).all()
    best = np.einsum("prc,trc->tp", patterns_4x4().astype(np.float64), exact.astype(np.float64)).max(axis=1)
    assert (np.where(kept, exact, 0).sum(axis=(1, 2), dtype=np.float64) == best).all()


def test_the_first_of_equal_tiles() -> None:
    """All equal: rows 0 and 2 keep columns 0 and 1, rows 1 and 3 columns 2 and 3; f32 the other diagonal."""
    assert sparselt.prune_mask(np.full((4, 4), 0x3C00, np.uint16), "f16").astype(int).tolist() == [
        [1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1],
    ]  # fmt: skip
    assert sparselt.prune_mask(np.ones((2, 2), np.float32), "f32").tolist() == [[False, True], [True, False]]


def test_special_values() -> None:
    """-128 weighs -128; e5m2's infinity weighs 57344 (measured)."""
    assert magnitudes(np.array([[0x80, 0x7F, 0xFF]], np.uint8), "s8").tolist() == [[-128, 127, 1]]
    assert magnitudes(np.array([[0x7C, 0xFC, 0x7B]], np.uint8), "e5m2").tolist() == [[57344, 57344, 57344]]
    strip = np.array([[0x80, 1, 0, 0]], np.uint8)
    assert sparselt.prune(strip, "s8", "strip").tolist() == [[0, 1, 0, 0]]


# Directions and structure


@settings(max_examples=examples(60), deadline=None)
@given(
    st.sampled_from(TYPES), st.sampled_from(("tile", "strip")), st.sampled_from(("row", "col")),
    st.sampled_from("nt"), st.sampled_from("ab"), st.integers(0, 999), st.booleans(),
)  # fmt: skip
def test_pruned_matrices_pass_the_check(
    type: str, algorithm: str, order: str, op: str, operand: str, seed: int, any_bits: bool
) -> None:
    how = {"order": order, "op": op, "operand": operand}
    matrix = random_patterns(type, (64, 64), seed, any_bits=any_bits)
    pruned = sparselt.prune(matrix, type, algorithm, **how)
    assert pruned.dtype == matrix.dtype
    assert sparselt.prune_check(pruned, type, **how)
    assert ((pruned == matrix) | (pruned == 0)).all()
    assert sparselt.prune_mask(matrix, type, algorithm, **how).sum() == matrix.size // 2
    if algorithm == "tile" and type != "e2m1":
        turned = {"order": order, "op": "t" if op == "n" else "n", "operand": operand}
        assert sparselt.prune_check(pruned, type, **turned)  # a tile is sparse along both ways


def test_a_dense_matrix_does_not_pass() -> None:
    dense = random_patterns("f16", (32, 32))
    assert not sparselt.prune_check(dense, "f16")
    along = sparselt.prune(dense, "f16", "strip", op="t")
    assert sparselt.prune_check(along, "f16", op="t")
    assert not sparselt.prune_check(along, "f16")


def test_pairs_of_e2m1() -> None:
    """Two neighbours along K are kept or lost together."""
    matrix = random_patterns("e2m1", (16, 32), 3)
    kept = sparselt.prune_mask(matrix, "e2m1", "tile")
    pairs = kept.reshape(16, 16, 2)
    assert (pairs[..., 0] == pairs[..., 1]).all()
    assert (kept.reshape(4, 4, 4, 8).sum(axis=(1, 3)) == 16).all()
    strips = sparselt.prune_mask(matrix, "e2m1", "strip").reshape(16, 4, 4, 2)
    assert (strips.all(axis=-1).sum(axis=-1) == 2).all()


# Compression and PyTorch


@settings(max_examples=examples(60), deadline=None)
@given(
    st.sampled_from(MEASURED), st.sampled_from(("row", "col")), st.sampled_from("nt"), st.sampled_from("ab"),
    st.integers(1, 4), st.integers(1, 4), st.integers(0, 999),
)  # fmt: skip
def test_compression_loses_nothing(
    type: str, order: str, op: str, operand: str, high: int, wide: int, seed: int
) -> None:
    how = {"order": order, "op": op, "operand": operand}
    matrix = random_patterns(type, (32 * high, 32 * wide), seed)
    if DEPTH[type] == 8 and (order == "row") != ((op == "n") == (operand == "a")):
        with pytest.raises(isa.IsaError, match="K not contiguous"):
            sparselt.compress(matrix, type, **how)
        return
    pruned = sparselt.prune(matrix, type, "strip", **how)
    buffer = sparselt.compress(pruned, type, **how)
    rows, columns = pruned.shape
    assert buffer.size == sparselt.compressed_size(rows, columns, type)
    assert (sparselt.decompress(buffer, type, rows, columns, **how) == pruned).all()


@pytest.mark.parametrize("type", ["f16", "bf16", "s8", "f32"])
def test_torch_and_cuda_forms_hold_the_same_matrix(type: str) -> None:
    pruned = sparselt.prune(random_patterns(type, (64, 128), 5), type, "strip")
    values, meta = sparselt.to_torch(pruned, type)
    assert meta.dtype == (np.int32 if type == "s8" else np.int16)
    assert (sparselt.from_torch(values, meta, type) == pruned).all()
    wide = sparselt.to_cslt(pruned, type)
    found = convert({"data": wide}, "torch.cslt", "dense", type, rows=64, columns=128)
    assert (found["data"] == pruned).all()


FORMS = (
    "dense",
    "cusparselt.buffer",
    "torch.matrix",
    "torch.cslt",
    "pair:codes",
    "pair:cutlass.sm90.k128",
    "pair:tmem",
)


@settings(max_examples=examples(40), deadline=None)
@given(st.sampled_from(FORMS), st.sampled_from(FORMS), st.sampled_from(("f16", "bf16")), st.integers(0, 99))
def test_any_form_to_any_other(source: str, target: str, type: str, seed: int) -> None:
    dense = sparselt.prune(random_patterns(type, (128, 128), seed), type, "tile")
    size: dict[str, Any] = {"rows": 128, "columns": 128}
    there = convert(convert({"data": dense}, "dense", source, type), source, target, type, **size)
    assert (convert(there, target, "dense", type, **size)["data"] == dense).all()


def test_metadata_alone() -> None:
    dense = sparselt.prune(random_patterns("f16", (64, 64)), "f16", "strip")
    codes = convert({"data": dense}, "dense", "codes", "f16")["data"]
    assert codes.shape == (64, 16)
    words = convert({"data": codes}, "codes", "cutlass.sm80", "f16")["data"]
    back = convert({"data": words}, "cutlass.sm80", "codes", "f16", rows=64, columns=64)["data"]
    assert (back == codes).all()
    with pytest.raises(isa.IsaError, match="metadata alone"):
        convert({"data": codes}, "codes", "dense", "f16")


# Arrays


def test_what_a_matrix_may_be() -> None:
    half = np.arange(16, dtype=np.float16).reshape(4, 4)
    assert as_patterns(half, "f16")[1] == 0
    assert (as_patterns(half.view(np.int16), "f16")[0] == half.view(np.uint16)).all()
    patterns, rounded = as_patterns(np.array([[1.0, 1.00001, np.nan, 0.0]]), "bf16")
    assert (patterns.dtype, rounded) == (np.uint16, 1)
    assert as_patterns(np.array([[6.0, 0.5, -1.5, 0.0]]), "e2m1")[0].tolist() == [[7, 1, 11, 0]]
    assert to_values(np.array([[7, 11]], np.uint8), "e2m1").tolist() == [[6.0, -1.5]]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: sparselt.prune(x, "f64"), "no sparse matrix has type 'f64'"),
        (lambda x: sparselt.prune(x, "s8"), "uint8 patterns"),
        (lambda x: sparselt.prune(x[:3], "f16"), "tiles of 4 x 4"),
        (lambda x: sparselt.prune(x[:, :6], "f16", "strip"), "cannot be cut into chunks"),
        (lambda x: sparselt.prune(x, "f16", "best"), "no pruning algorithm 'best'"),
        (lambda x: sparselt.prune(x, "f16", order="rows"), "order 'rows'; legal: row or col"),
        (lambda x: sparselt.prune(x[0], "f16"), r"\[row, column\]"),
        (lambda x: sparselt.prune(x, "f32", "causal1122"), "uint32 patterns"),
        (lambda x: sparselt.prune(x.astype(np.uint8), "s8", "causal1122"), "PyTorch prunes no tiles of s8"),
        (lambda x: sparselt.compress(x, "f16"), "row 0, columns 0 to 3"),
        (lambda x: sparselt.compress(x[:24, :24], "f16"), "multiples of 16"),
        (lambda x: sparselt.to_torch(x, "f16"), "keep more than 2:4 stores"),
        (lambda x: sparselt.to_torch(x[:16] * 0, "f16"), "rows in a multiple of 32"),
        (lambda x: sparselt.to_torch(x, "e4m3"), "PyTorch has no semi-structured form of e4m3"),
        (lambda x: sparselt.from_torch(x, np.zeros((64, 8), np.int16), "f16"), "not defined for 2:4"),
        (lambda x: sparselt.from_torch(x, np.zeros((64, 7), np.int16), "f16"), "uint16 .64, 8."),
        (lambda x: sparselt.decompress(np.zeros(9, np.uint8), "f16", 64, 64), "4608 uint8"),
        (lambda x: sparselt.torch_tile(x[:, :32], "f16"), "multiples of 64"),
        (lambda x: sparselt.compress(np.full((64, 64), 16, np.uint8), "e2m1"), "a pattern of 16 in e2m1"),
        (lambda x: sparselt.compress(np.zeros((64, 64), np.uint8), "e2m1"), "was never seen"),
    ],
)
def test_what_is_refused(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(isa.IsaError, match=message):
        call(np.full((64, 64), 0x3C00, np.uint16))


def test_undefined_metadata_in_a_buffer() -> None:
    pruned = sparselt.prune(random_patterns("f16", (64, 64)), "f16")
    buffer = sparselt.compress(pruned, "f16")
    buffer[-1] = 0
    with pytest.raises(isa.IsaError, match="2 metadata codes are not defined"):
        sparselt.decompress(buffer, "f16", 64, 64)


def test_summary() -> None:
    matrix = np.array([[4, -3, 2, 1], [0, 0, 0, 5]], np.float32)
    pruned = sparselt.prune(matrix.astype(np.float16), "f16", "strip").view(np.float16)
    found = summarise(matrix.astype(np.float16), pruned, "f16")
    assert (found.elements_kept, found.zeros_least, found.zeros_most) == (3, 2, 3)
    assert found.kept_l1 == pytest.approx(12 / 15)
    assert found.patterns == {"1100": 1, "0001": 1}
    assert found.to_frame()["strips"].tolist() == [1, 1]
    assert "L1 80.0000%" in found.table()


def test_it_is_reached_lazily() -> None:
    assert simulator.sparselt is sparselt
    result = doctest.testmod(sparselt)
    assert result.attempted > 0
    assert result.failed == 0
