"""Metadata codes, pruning, compression: against PTX's lists, the H100's measured multiplexer, and cuSPARSELt."""

from __future__ import annotations

from itertools import combinations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import isa
from isa.fragments.metadata import spliced
from isa.undefined import RULES, first_metadata_finding, metadata_findings
from tests.support.cases import examples, over
from tests.support.forms import by_metadata
from tests.support.paths import TESTS

SPARSE = [form for form in isa.mma_forms().values() if form.sparse]
PATTERNS = (isa.TWO_OF_FOUR, isa.FOUR_OF_EIGHT, isa.ONE_OF_TWO)
ELEMENTS = {"2:4": ("f16", "bf16", "e4m3", "e5m2", "s8", "u8"), "4:8 in pairs": ("s4", "u4"), "1:2": ("tf32",)}
DIFFERENT = {1, 2, 3, 4, 6, 7, 8, 9, 0xB, 0xC, 0xD, 0xE}
ASCENDING = {4, 8, 9, 0xC, 0xD, 0xE}
STRIP = TESTS / "golden" / "sparselt.npz"
VIEWS = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "s8": np.int8,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
}


def element_of(sparsity: isa.Sparsity) -> isa.ElementType:
    return isa.element_type(ELEMENTS[sparsity.name][0])


# Codes


@over("form", SPARSE, ids=lambda form: form.opcode, distinct=by_metadata)
def test_legal_codes(form: isa.MmaForm) -> None:
    """PTX ISA 9.7.14.6.1: which of the 16 codes are defined."""
    if form.a_type.bits == 32:
        wanted = {0b0100, 0b1110}
    elif form.ordered or form.a_type.name in ("e4m3", "e5m2"):
        wanted = ASCENDING
    else:
        wanted = DIFFERENT
    every = np.arange(16, dtype=np.uint32)
    assert set(form.metadata.codes) == wanted
    assert set(every[form.metadata.legal(every)]) == wanted
    broken = metadata_findings(form, every)
    assert set(broken) <= set(RULES)
    assert (np.sum(list(broken.values()), axis=0) == [code not in wanted for code in range(16)]).all(), (
        "each undefined code breaks exactly one rule"
    )


@over("form", SPARSE, ids=lambda form: form.opcode, distinct=by_metadata)
def test_first_finding(form: isa.MmaForm) -> None:
    """The message names the case, row, chunk, code and bits of the first bad code."""
    codes = np.full((3, *form.metadata.shape), 0b0100, np.uint32)
    assert first_metadata_finding(form, codes, 0) is None
    codes[1, 9, 2] = codes[2, 0, 0] = 0b1010
    found = first_metadata_finding(form, codes, 0)
    assert found is not None
    lane, code = form.metadata.mapping.positions(row=9, chunk=2, selector=0)
    assert found.rule == ("invalid-metadata-tf32" if form.a_type.bits == 32 else "invalid-metadata")
    for word in ("case 1", "row 9", "chunk 2", "0b1010", f"lane {lane}", f"bits {4 * code}..{4 * code + 3}"):
        assert word in found.where


@over("code", range(16))
def test_multiplexer(code: int) -> None:
    """As measured: element 0 takes index code & 3, element 1 index code >> 2, whatever they are; pairs in 4:8."""
    low, high = code & 3, code >> 2
    codes = np.array([[4, code]], np.uint32)
    assert isa.stored_columns(codes, isa.TWO_OF_FOUR).tolist() == [[0, 1, 4 + low, 4 + high]]
    wanted = [0, 1, 2, 3, 8 + 2 * low, 9 + 2 * low, 8 + 2 * high, 9 + 2 * high]
    assert isa.stored_columns(codes, isa.FOUR_OF_EIGHT).tolist() == [wanted]
    assert not spliced(codes, isa.TWO_OF_FOUR).any()
    assert not spliced(codes, isa.FOUR_OF_EIGHT).any()


def test_multiplexer_of_halves() -> None:
    """1:2: the two whole elements are halves 0, 1 and halves 2, 3; every other code splices."""
    whole = {0b0100: 0, 0b1110: 1}
    for code in range(16):
        halves = [code & 3, code >> 2]
        splices = bool(spliced(np.array([code]), isa.ONE_OF_TWO)[0])
        assert splices == (halves not in ([0, 1], [2, 3])) == (code not in whole)
        if not splices:
            assert isa.stored_columns(np.array([code, code]), isa.ONE_OF_TWO).tolist() == [whole[code], 2 + whole[code]]


def test_sparsity_of() -> None:
    wanted = {"1:2": ("tf32", "f32"), "2:4": ("f16", "bf16", "e4m3", "e5m2", "s8", "u8"), "4:8 in pairs": ("s4", "u4")}
    for name, types in wanted.items():
        assert {isa.sparsity_of(isa.element_type(each)).name for each in types} == {name}


# Prune, compress, expand


@st.composite
def matrices(draw: st.DrawFn) -> tuple[isa.Sparsity, isa.ElementType, NDArray[np.uint32]]:
    """A pattern, an element type that it goes with, and a matrix with many zeros of both signs."""
    sparsity = draw(st.sampled_from(PATTERNS))
    element = isa.element_type(draw(st.sampled_from(ELEMENTS[sparsity.name])))
    shape = (
        *draw(st.sampled_from([(), (1,), (2,)])),
        draw(st.integers(1, 3)),
        sparsity.chunk * draw(st.integers(1, 4)),
    )
    sign = 1 << (element.bits - 1)
    pattern = st.one_of(st.just(0), st.just(sign), st.integers(0, element.mask))
    count = int(np.prod(shape))
    values = draw(st.lists(pattern, min_size=count, max_size=count))
    return sparsity, element, np.array(values, np.uint32).reshape(shape)


@given(matrices())
@settings(max_examples=examples(150), deadline=None)
def test_round_trip(case: tuple[isa.Sparsity, isa.ElementType, NDArray[np.uint32]]) -> None:
    """Pruned, compressed and expanded, a matrix has what was kept where it was, and zeros elsewhere; codes are legal
    and ascending."""
    sparsity, element, matrix = case
    mask = isa.prune(matrix.astype(np.int64) & (element.mask >> 1), sparsity)
    chunks = mask.reshape(*mask.shape[:-1], -1, sparsity.chunk)
    assert (chunks.sum(axis=-1) == sparsity.stored).all()
    stored, codes = isa.compress(matrix, sparsity, element, mask)
    assert stored.shape == (*matrix.shape[:-1], matrix.shape[-1] * sparsity.stored // sparsity.chunk)
    assert codes.shape == (*matrix.shape[:-1], matrix.shape[-1] // sparsity.chunk)
    assert np.isin(codes, sparsity.ordered).all()
    np.testing.assert_array_equal(isa.expand(stored, codes, sparsity), np.where(mask, matrix, 0))


@given(matrices())
@settings(max_examples=examples(150), deadline=None)
def test_round_trip_of_what_is_sparse(case: tuple[isa.Sparsity, isa.ElementType, NDArray[np.uint32]]) -> None:
    """Without a mask, a matrix that is sparse already comes back but for the sign of its zeros."""
    sparsity, element, matrix = case
    sparse = np.where(isa.prune(matrix.astype(np.int64) & (element.mask >> 1), sparsity), matrix, 0).astype(np.uint32)
    stored, codes = isa.compress(sparse, sparsity, element)
    np.testing.assert_array_equal(
        isa.expand(stored, codes, sparsity), np.where(isa.is_zero(sparse, element), 0, sparse)
    )


@given(st.sampled_from(PATTERNS), st.integers(1, 5), st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=examples(100), deadline=None)
def test_expand_places(sparsity: isa.Sparsity, chunks: int, seed: int, ordered: bool) -> None:
    """`expand` puts each stored element in the column that `stored_columns` names, for every legal code."""
    rng = np.random.default_rng(seed)
    codes = rng.choice(sparsity.ordered if ordered else sparsity.unordered, (3, chunks)).astype(np.uint32)
    stored = rng.integers(1, 2**32, (3, chunks * sparsity.stored), np.uint32)
    matrix, columns = isa.expand(stored, codes, sparsity), isa.stored_columns(codes, sparsity)
    for row in range(3):
        wanted = dict(zip(columns[row].tolist(), stored[row].tolist(), strict=True))
        assert matrix[row].tolist() == [wanted.get(column, 0) for column in range(chunks * sparsity.chunk)]


def test_fillers_of_two_of_four() -> None:
    """CUTLASS's codes for chunks with fewer than two non-zeros, and every full pair."""
    f16 = isa.element_type("f16")
    wanted = {
        (): 0xE,
        (0,): 0xC,
        (1,): 0xD,
        (2,): 0xE,
        (3,): 0xE,
        (0, 1): 0x4,
        (0, 2): 0x8,
        (1, 2): 0x9,
        (0, 3): 0xC,
        (1, 3): 0xD,
        (2, 3): 0xE,
    }
    for kept, code in wanted.items():
        row = np.zeros((1, 4), np.uint32)
        row[0, list(kept)] = [0x3C00 + i for i in kept]
        stored, codes = isa.compress(row, isa.TWO_OF_FOUR, f16)
        assert codes.tolist() == [[code]]
        pair = (code & 3, code >> 2)
        assert stored.tolist() == [[int(row[0, i]) for i in pair]]


def test_fillers_of_pairs_and_singles() -> None:
    s4, tf32 = isa.element_type("s4"), isa.element_type("tf32")
    for kept, code in {(): 0xE, (0,): 0xC, (1,): 0xD, (2,): 0xE, (3,): 0xE, (0, 1): 0x4, (1, 2): 0x9}.items():
        row = np.zeros((1, 8), np.uint32)
        row[0, [2 * pair + 1 for pair in kept]] = 7
        stored, codes = isa.compress(row, isa.FOUR_OF_EIGHT, s4)
        assert codes.tolist() == [[code]]
        assert stored.tolist() == [[0, 7 * ((code & 3) in kept), 0, 7 * ((code >> 2) in kept)]]
    for values, code, stored_wanted in (
        ([0, 0], 0xE, 0),
        ([5 << 13, 0], 0x4, 5 << 13),
        ([0, 6 << 13], 0xE, 6 << 13),
        ([0x1FFF, 0], 0xE, 0),
    ):
        stored, codes = isa.compress(np.array([values], np.uint32), isa.ONE_OF_TWO, tf32)
        assert (codes.tolist(), stored.tolist()) == ([[code]], [[stored_wanted]])


@pytest.mark.parametrize(
    ("sparsity", "column", "words"),
    [
        (isa.TWO_OF_FOUR, 9, ("row 2", "columns 8 to 11", "2:4", "at most 2", "prune")),
        (isa.FOUR_OF_EIGHT, 17, ("row 2", "columns 16 to 23", "4:8", "at most 2 pairs", "prune")),
        (isa.ONE_OF_TWO, 7, ("row 2", "columns 6 to 7", "1:2", "at most 1", "prune")),
    ],
)
def test_overfull_chunk(sparsity: isa.Sparsity, column: int, words: tuple[str, ...]) -> None:
    """The error names row and columns; a second bad chunk further on is not named."""
    element = element_of(sparsity)
    matrix = np.zeros((4, 6 * sparsity.chunk), np.uint32)
    chunk = column // sparsity.chunk
    for row, place in ((2, chunk), (2, 5), (3, 0)):
        matrix[row, place * sparsity.chunk : (place + 1) * sparsity.chunk] = element.mask >> 1
    for shaped in (matrix, matrix[None]):
        with pytest.raises(isa.IsaError) as caught:
            isa.compress(shaped, sparsity, element)
        assert all(word in str(caught.value) for word in words), str(caught.value)


def test_overfull_single_row() -> None:
    with pytest.raises(isa.IsaError, match="row 0, columns 4 to 7"):
        isa.compress(np.array([0, 0, 0, 1, 1, 1, 0, 1], np.uint32), isa.TWO_OF_FOUR, isa.element_type("s8"))


@pytest.mark.parametrize("sparsity", PATTERNS, ids=lambda s: s.name)
def test_ragged_rows(sparsity: isa.Sparsity) -> None:
    columns = sparsity.chunk * 2 + 1
    for call in (lambda m: isa.prune(m, sparsity), lambda m: isa.compress(m, sparsity, element_of(sparsity))):
        with pytest.raises(isa.IsaError, match=f"multiple of {sparsity.chunk}"):
            call(np.zeros((2, columns), np.uint32))


@pytest.mark.parametrize("sparsity", PATTERNS, ids=lambda s: s.name)
def test_expand_rejects_undefined_codes(sparsity: isa.Sparsity) -> None:
    for bad in set(range(16)) - set(sparsity.unordered):
        codes = np.array([[0b0100, 0b1110], [0b1110, bad]], np.uint32)
        with pytest.raises(isa.IsaError, match="row 1, chunk 1") as caught:
            isa.expand(np.ones((2, 2 * sparsity.stored), np.uint32), codes, sparsity)
        assert f"{bad:#06b}" in str(caught.value)


def test_zero_patterns() -> None:
    """-0 is zero for floats, the lowest bits of tf32 do not count, and for integers the sign bit is a value."""
    cases = {
        "f16": (0x8000, 0x0001),
        "bf16": (0x8000, 0x0080),
        "tf32": (0x80001FFF, 0x2000),
        "e4m3": (0x80, 0x01),
        "e5m2": (0x80, 0x81),
    }
    for name, (zero, other) in cases.items():
        assert isa.is_zero(np.array([0, zero, other], np.uint32), isa.element_type(name)).tolist() == [
            True,
            True,
            False,
        ]
    for name, sign in (("s8", 0x80), ("u8", 0x80), ("s4", 8), ("u4", 8)):
        assert isa.is_zero(np.array([0, sign], np.uint32), isa.element_type(name)).tolist() == [True, False]


# cuSPARSELt


def test_prune_by_hand() -> None:
    assert isa.prune([1, -3, 2, 0, 5, 5, 5, 5], isa.TWO_OF_FOUR).astype(int).tolist() == [0, 1, 1, 0, 1, 1, 0, 0]
    assert isa.prune([2, -2, 3, -4, 0, 0], isa.ONE_OF_TWO).astype(int).tolist() == [0, 1, 0, 1, 0, 1]
    assert isa.prune([1, 1, 0, 3, -4, 0, 2, 0], isa.FOUR_OF_EIGHT).astype(int).tolist() == [0, 0, 1, 1, 1, 1, 0, 0]
    assert isa.prune([1, 1, 1, 1, 1, 1, 1, 1], isa.FOUR_OF_EIGHT).astype(int).tolist() == [1, 1, 1, 1, 0, 0, 0, 0]


def library_rule(values: NDArray[np.float32]) -> NDArray[np.bool_]:
    """What cuSPARSELt's strip pruning was seen to keep in a chunk of 2 or 4.

    Of the pairs in lexicographic order the first whose sum of magnitudes, in f32, is larger than all sums before it. A
    sum that is NaN is never larger, and nothing is larger than it where it comes first. Of 2 the first is kept only if
    it is larger.
    """
    size = np.abs(values)
    if len(size) == 2:
        first = bool(size[0] > size[1])
        return np.array([first, not first])
    best, most = (0, 1), size[0] + size[1]
    for pair in combinations(range(4), 2):
        if size[pair[0]] + size[pair[1]] > most:
            best, most = pair, size[pair[0]] + size[pair[1]]
    return np.isin(np.arange(4), best)


def strip(name: str, kind: str) -> tuple[NDArray[np.unsignedinteger], NDArray[np.float32], NDArray[np.unsignedinteger]]:
    """Input patterns, their magnitudes as the library sees them, output patterns; all [chunk, column]."""
    with np.load(STRIP) as data:
        before, after = data[f"prune|{name}|{kind}|in"], data[f"prune|{name}|{kind}|strip|out"]
    with np.errstate(invalid="ignore"):
        values = before.view(VIEWS[name]).astype(np.float32)
    if name == "e5m2":  # an infinity counts as a finite number larger than all others
        values = np.where(np.isinf(values), np.float32(65536), values)
    width = 2 if name == "f32" else 4
    return before.reshape(-1, width), values.reshape(-1, width), after.reshape(-1, width)


EVERY_STRIP = over(("name", "kind"), [(name, kind) for name in VIEWS for kind in ("normal", "ties", "specials")])


@EVERY_STRIP
def test_library_rule(name: str, kind: str) -> None:
    """The rule above is the whole story, NaN, infinities and -0 included: kept elements keep their bits, the others
    become +0."""
    before, values, after = strip(name, kind)
    with np.errstate(invalid="ignore"):
        kept = np.stack([library_rule(chunk) for chunk in values])
    np.testing.assert_array_equal(after, np.where(kept, before, 0))


@EVERY_STRIP
def test_prune_against_library(name: str, kind: str) -> None:
    """`isa.prune` keeps what the library keeps, NaN and infinities included."""
    before, _, after = strip(name, kind)
    values = before.view(VIEWS[name]).astype(np.float64)
    kept = isa.prune(values, isa.ONE_OF_TWO if name == "f32" else isa.TWO_OF_FOUR, isa.ELEMENT_TYPES[name])
    np.testing.assert_array_equal(after, np.where(kept, before, 0))
