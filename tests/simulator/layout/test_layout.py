"""Who holds what: operands, queries, provenance and formulas, against the executor and against brute force."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import isa
import simulator
from isa import IsaError, MmaForm
from isa.types import unpack
from simulator.layout import Choice, FormLayout, Operand, form_layout, random_words, read_metadata, select
from simulator.layout.check import check_formulas, evaluate
from simulator.layout.provenance import Term, explain
from simulator.layout.queries import what, where
from tests.support.cases import over
from tests.support.layouts import all_layouts

Tcsim = Callable[..., tuple[int, str, str]]
F16 = "mma.sp.m16n8k32.f32.f16.f16.f32"
TF32 = "mma.sp.m16n8k16.f32.tf32.tf32.f32"
S4 = "mma.sp.m16n8k128.s32.s4.s4.s32"
SCALED = "mma.sp::ordered_metadata.m16n8k128.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3"
TMEM = "tcgen05.mma.sp.cta_group::1.kind::f16"
_PLACE = re.compile(r"T(\d+) ([a-z_]+?)(\d*)(?:\[(\d+):(\d+)\])?")
ONES = {
    "f16": 0x3C00,
    "bf16": 0x3F80,
    "tf32": 0x3F800000,
    "e4m3": 0x38,
    "e5m2": 0x3C,
    "s8": 1,
    "u8": 1,
    "s4": 1,
    "u4": 1,
}
TYPES = [
    ("mma.sp.m16n8k16.f32.f16.f16.f32", 2.0),
    (F16, 1.0),
    ("mma.sp.m16n8k16.f32.bf16.bf16.f32", 1.0),
    (TF32, 1.0),
    ("mma.sp.m16n8k8.f32.tf32.tf32.f32", 1.0),
    ("mma.sp.m16n8k64.f32.e4m3.e5m2.f32", 1.0),
    ("mma.sp.m16n8k64.s32.s8.u8.s32", 1),
    ("mma.sp.m16n8k32.s32.u8.u8.s32", 1),
    (S4, 1),
    ("mma.sp.m16n8k64.s32.u4.u4.s32", 1),
    ("mma.m16n8k16.f32.f16.f16.f32", 1.0),
    ("mma.m16n8k8.f32.tf32.tf32.f32", 1.0),
    ("mma.m16n8k32.s32.s8.s8.s32", 1),
    ("mma.m16n8k64.s32.u4.u4.s32", 1),
]  # fmt: skip


def _put(registers: dict[str, np.ndarray], place: str, pattern: int) -> None:
    """Sets the bits that a printed place names: the text is all that is read."""
    found = _PLACE.fullmatch(place)
    assert found, place
    lane, name, register, high, low = found.groups()
    array = registers[name][0]
    word = (int(register or 0), int(lane)) if array.ndim == 2 else int(lane)
    array[word] |= np.uint32(pattern << int(low or 0))
    assert pattern >> (int(high or 31) - int(low or 0) + 1) == 0


def _registers(form: MmaForm) -> dict[str, np.ndarray]:
    found = {name: np.zeros((1, getattr(form, name).registers, 32), np.uint32) for name in "abc"}
    return found | {"e": np.zeros((1, 32), np.uint32)}


def _run(form: MmaForm, registers: dict[str, np.ndarray]) -> np.ndarray:
    target = "sm_89" if form.a_type.name.startswith("e") else "sm_80"
    operands = registers["a"], registers["b"], registers["c"]
    if form.sparse:
        return form.d.gather(simulator.mma_sp(form.opcode, *operands, registers["e"], target=target))[0]
    return form.d.gather(simulator.mma(form.opcode, *operands, target=target))[0]


@over("opcode", [opcode for opcode, _ in TYPES])
def test_every_product_that_explain_names_is_the_one_that_is_computed(opcode: str) -> None:
    """Ones in just the two places that a term names make D[row][column] one, and nothing else of its column; a one in
    no other place of A does."""
    found = form_layout(opcode)
    form = found.form
    assert isinstance(form, MmaForm)
    words = random_words(found, 5) if form.sparse else None
    selection = select(found, words) if words is not None else None
    rng = np.random.default_rng(3)
    for row, column in zip(rng.integers(0, found.m, 4).tolist(), rng.integers(0, found.n, 4).tolist(), strict=True):
        provenance = explain(found, row, column, selection)
        assert len(provenance.terms) == found.k_stored
        for term in provenance.terms[:: max(1, found.k_stored // 8)]:
            registers = _registers(form)
            if words is not None:
                registers["e"][0] = words
            _put(registers, term.a, ONES[form.a_type.name])
            (place,) = term.b
            _put(registers, place, ONES[form.b_type.name])
            d = _run(form, registers)
            expected = np.zeros((found.m, found.n), d.dtype)
            expected[row, column] = {"f32": 0x3F800000, "f16": 0x3C00, "s32": 1}[form.d_type.name]
            assert (d == expected).all(), (term, np.argwhere(d != expected))


@pytest.mark.parametrize("opcode", [F16, TF32, S4, "mma.sp.m16n8k64.s32.s8.s8.s32"])
def test_index_bits_of_a_term_move_it_to_another_row_of_b(opcode: str) -> None:
    """The bits that `explain` says choose an element do: writing another defined code there moves just the terms of
    that chunk."""
    found = form_layout(opcode)
    selection = read_metadata(found, "random:1")
    before = explain(found, 6, 2, selection).terms
    term = before[found.k_stored // 2]
    lane, name, _, high, low = _PLACE.fullmatch(term.code).groups()  # type: ignore[union-attr]
    assert name == "e"
    for code in found.codes:
        words = selection.words.copy()
        words[int(lane)] = words[int(lane)] & ~np.uint32(15 << int(low)) | np.uint32(code << int(low))
        after = explain(found, 6, 2, select(found, words)).terms
        for one, other in zip(before, after, strict=True):
            assert one.rows == other.rows or one.chunk == term.chunk
        pattern = (
            isa.stored_columns(np.array([code], np.uint32), selection.sparsity) + term.chunk * selection.sparsity.chunk
        )
        assert [row for t in after if t.chunk == term.chunk for row in t.rows] == pattern.tolist()
    assert int(high) - int(low) == 3


def _index_value(term: Term, words: np.ndarray) -> int:
    lane, _, _, high, low = _PLACE.fullmatch(term.index).groups()  # type: ignore[union-attr]
    return int(words[int(lane)]) >> int(low) & (1 << (int(high) - int(low) + 1)) - 1


def test_the_named_index_bits_hold_the_index() -> None:
    for opcode, unit in ((F16, 1), (S4, 2)):
        found = form_layout(opcode)
        selection = read_metadata(found, "random:2")
        for term in explain(found, 9, 1, selection).terms:
            chunk = 4 * unit * term.chunk
            assert term.rows == (chunk + unit * _index_value(term, selection.words) + term.stored % unit,)


EVERY = {
    (operand.mapping, operand.used, operand.name, operand.bits): (found, operand)
    for found in all_layouts()
    for operand in found.operands.values()
}
assert len(EVERY) > 300


@over(
    ("found", "operand"), EVERY.values(), ids=lambda value: getattr(value, "opcode", getattr(value, "name", ""))[-60:]
)
def test_places_and_elements_are_inverse(found: FormLayout, operand: Operand) -> None:
    """Every element is found where it is said to be, and every word holds what is said to be in it, bit by bit."""
    table = operand.table
    assert int(table["high"].max()) < operand.word_bits
    keys = np.stack([table["lane"], table["word"], table["low"]])
    assert np.unique(keys, axis=1).shape == keys.shape, "two elements in one place"
    for i in np.random.default_rng(0).integers(0, keys.shape[1], 6).tolist():
        coordinates = tuple(int(table[name][i]) for name in ("row", "column", "copy")[: len(operand.axes)])
        (place,) = operand.places(*coordinates)
        assert operand.elements(*place) == [coordinates]
        assert coordinates in operand.elements(place.lane, place.word)
        assert str(place.lane) in operand.name_of(place)


def test_formulas_are_the_mapping() -> None:
    checked = check_formulas()
    assert checked.wrong == ()
    assert checked.forms > 600
    assert checked.operands > 10_000
    assert checked.cells > 50_000_000


def test_a_wrong_formula_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check can fail: AMD's calculator printed `k % 4` where `k / 2 % 4` is true."""
    right = Operand.formulas

    def wrong(self: Operand, **numbers: int) -> dict[str, str]:
        return {name: text.replace("row / 2 % 4", "row % 4") for name, text in right(self, **numbers).items()}

    monkeypatch.setattr(Operand, "formulas", wrong)
    found = check_formulas().wrong
    assert found
    assert all("lane = " in line for line in found)


@over(
    "text",
    [
        "",
        "row +",
        "row ** 2",
        "__import__('os')",
        "row.real",
        "row[0]",
        "other",
        "row if row else 1",
        "1.5 * row",
        "-row",
        "row << 3",
    ],
)
def test_only_formulas_are_evaluated(text: str) -> None:
    with pytest.raises(IsaError, match="no formula"):
        evaluate(text, row=3)


def test_formulas_with_numbers_give_the_value_they_end_with() -> None:
    for opcode, name, row, column in (
        (F16, "b", 13, 6),
        (F16, "e", 11, 5),
        (SCALED, "scale_a", 9, 3),
        (SCALED, "scale_b", 7, 2),
    ):
        for line in where(form_layout(opcode), name, row, column).formulas:
            *_, filled, value = line.split(" = ")
            assert filled.isidentifier() or int(evaluate(filled)) == int(value)


# Where and what


def test_where_in_words() -> None:
    text = where(form_layout(F16), "a", 5, 12).text(formulas=True)
    assert "T23 a0[15:0]    stored column 6, if the code is 0b0100, 0b1000 or 0b1100" in text
    assert "pruned    if the code is 0b0110, 0b0111, 0b1001, 0b1011, 0b1101 or 0b1110" in text
    assert "T20 e[15:12]    code of row 5, chunk 3 (columns 12 to 15), selector 0" in text
    assert "lane = column / 2 % 4 + 4 * (row % 8) = 6 / 2 % 4 + 4 * (5 % 8) = 23" in text
    assert "measured: NVIDIA H100 80GB" in text


@over("opcode", [F16, TF32, S4, "mma.sp::ordered_metadata.m16n8k64.f32.e4m3.e4m3.f32", TMEM])
@over("metadata", ["random:7", "0xE4D80B5F"])
def test_where_with_metadata_agrees_with_expand(opcode: str, metadata: str) -> None:
    """For every logical element: held in the register half where a matrix of its own numbers turns up, or pruned, as
    brute force says."""
    found = form_layout(opcode)
    selection = read_metadata(found, metadata)
    rng = np.random.default_rng(1)
    for row, column in zip(
        rng.integers(0, found.rows, 60).tolist(), rng.integers(0, found.k, 60).tolist(), strict=True
    ):
        answer = where(found, "a", row, column, selection)
        held = [fact.data["stored_column"] for fact in answer.facts if fact.kind == "held by"]
        chunk = column // selection.sparsity.chunk
        if selection.joined[row, chunk]:
            assert not held
            assert any("joined" in fact.text for fact in answer.facts)
            continue
        assert held == [i for i, k in enumerate(selection.columns[row].tolist()) if k == column]
        assert bool(held) != any(fact.kind == "pruned" for fact in answer.facts)
        for fact in answer.facts:
            if fact.kind == "held by":
                inverse = what(
                    found, "a", fact.data["lane"], fact.data["word"], (fact.data["high"], fact.data["low"]), selection
                )
                assert any(
                    f.data.get("column") == column and f.data.get("row") == row
                    for f in inverse.facts
                    if f.kind == "element"
                )


@over("code", range(16))
def test_without_metadata_the_codes_decide(code: int) -> None:
    """What is said of each defined code is what `stored_columns` gives for it."""
    for opcode in (F16, S4, TF32):
        found = form_layout(opcode)
        sparsity = found.sparsity
        assert sparsity is not None
        for inside in range(sparsity.chunk):
            facts = where(found, "a", 3, sparsity.chunk + inside).facts
            told = [fact.data.get("stored_column") for fact in facts if code in fact.data.get("codes", ())]
            if code not in found.codes:
                assert not told
                continue
            columns = isa.stored_columns(np.array([code], np.uint32), sparsity).tolist()
            assert told == ([sparsity.stored + columns.index(inside)] if inside in columns else [None])


def test_what_in_words() -> None:
    found = form_layout(F16)
    text = what(found, "a", 9, 1, (31, 16)).text(formulas=True)
    assert "T9 a1[31:16]    stored A[10][3]" in text
    assert "A[10][4], if the code is 0b0001, 0b0010 or 0b0011" in text
    assert "row = lane / 4 + 8 * (register % 2) = 9 / 4 + 8 * (1 % 2) = 10" in text
    nothing = what(found, "e", 10).text()
    assert (
        "not read with selector 0; with selector 1 the codes of row 2, chunks 0 to 3 and row 10, chunks 0 to 3"
        in nothing
    )
    assert (
        "element   T10 e[3:0]      code of row 2, chunk 0: A[2][0] to A[2][3]"
        in what(form_layout(F16, Choice(selector=1)), "e", 10).text()
    )
    both = what(found, "e", 8, 0, (5, 2)).facts
    assert [fact.data["chunk"] for fact in both] == [0, 1]


def test_queries_of_tensor_memory_and_scales() -> None:
    found = form_layout(TMEM, Choice(m=64, base_lane=16))
    assert "L50 e.col0[3:0]" in where(found, "e", 18, 0).text()
    assert "not read with selector 0; with selector 1" in what(found, "e", 50, 1).text()
    assert "no element of the operand is held there" in what(found, "d", 3, 0).text()
    copies = where(form_layout("tcgen05.mma.ws.sp.cta_group::1.kind::f16", Choice(m=32)), "a", 3, 4).facts
    assert [fact.data["lane"] for fact in copies if fact.kind == "held by" and fact.data["stored_column"] == 2] == [
        3,
        35,
        67,
        99,
    ]
    scaled = form_layout(SCALED, Choice(scale_a=(0, 1), scale_b=(0, 3)))
    assert "T27 scale_b[15:8]" in where(scaled, "scale_b", 6, 1).text()
    assert "scale_a" in explain(scaled, 0, 0).text()
    assert what(scaled, "scale_a", 0).facts[0].kind == "nothing"


def test_explain_in_words() -> None:
    found = form_layout(F16)
    text = explain(found, 3, 5, read_metadata(found, "random")).text()
    assert "T14 d1 = T14 c1 + 16 products" in text
    assert re.search(
        r"0 +T12 a0\[15:0\] +\* +B\[1\]\[5\] +T20 b0\[31:16\] +T12 e\[1:0\] in code 0, T12 e\[3:0\] = 0b1001", text
    )
    joined = explain(form_layout(TF32), 3, 5, read_metadata(form_layout(TF32), "0xEE4E0B44")).text()
    assert "low half of B[5] : high half of B[5]" in joined
    bits = explain(form_layout("mma.m16n8k256.s32.b1.b1.s32.and.popc"), 0, 0)
    assert "the ones of 256 bits joined by and.popc" in bits.text()
    assert "shared memory" in explain(form_layout(TMEM), 0, 0).text()
    stacked = explain(form_layout("mma.m8n8k4.f32.f16.f16.f32"), 17, 3)
    assert stacked.b_column == 16 + 3
    with pytest.raises(IsaError, match="multiplies nothing"):
        explain(form_layout("ldmatrix.m8n8.x4.shared.b16"), 0, 0)


def test_joined_halves_are_those_that_the_executor_joins() -> None:
    """An undefined 1:2 code: B's halves that `explain` names, put in alone, are the ones that count."""
    found = form_layout(TF32)
    form = found.form
    assert isinstance(form, MmaForm)
    for code in set(range(16)) - {0b0100, 0b1110}:
        words = np.full(32, int(f"{code:x}" * 8, 16), np.uint32)
        term = explain(found, 0, 0, select(found, words)).terms[0]
        high = re.match(r"(high|low) half of B\[(\d+)\]", term.joined)
        assert high
        registers = _registers(form)
        registers["e"][0] = words
        _put(registers, term.a, ONES["tf32"])
        _put(registers, term.b[0], 0x3F80 << (16 if high[1] == "high" else 0))
        d = _run(form, registers)[0, 0]
        assert d & 0x7FFF0000 == 0x3F800000, (code, term, hex(d))


# Metadata from texts


def test_metadata_from_words_files_and_seeds(tmp_path: Path) -> None:
    found = form_layout(F16)
    words = random_words(found, 3)
    assert (read_metadata(found, "random:3").words == words).all()
    assert read_metadata(found, "random").legal.all()
    assert (read_metadata(found, "0xEE44EE44").words == 0xEE44EE44).all()
    text = ",".join(f"{word:08x}" for word in words.tolist())
    assert (read_metadata(found, text).words == words).all()
    np.save(tmp_path / "e.npy", words)
    np.savez(tmp_path / "e.npz", x=np.zeros(3), e=words)
    (tmp_path / "e.txt").write_text("\n".join(hex(word) for word in words.tolist()))
    for name in ("e.npy", "e.npz", "e.txt"):
        assert (read_metadata(found, str(tmp_path / name)).words == words).all()
    tmem = form_layout(TMEM)
    assert random_words(tmem).shape == (128, 2)
    assert read_metadata(tmem, "random:9").legal.all()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("randm", "neither metadata nor a file"),
        ("random:x", "neither metadata nor a file"),
        ("random:", "neither"),
        ("0x123456789", "neither"),
        ("1,2", "1 word for all, or 32"),
        ("", "is a directory"),
        ("/no/such/file", "neither"),
    ],
)  # fmt: skip
def test_metadata_that_is_none(text: str, words: str) -> None:
    with pytest.raises(IsaError, match=re.escape(words)):
        read_metadata(form_layout(F16), text)


def test_metadata_files_that_are_none(tmp_path: Path, tcsim: Tcsim) -> None:
    found = form_layout(F16)
    np.save(tmp_path / "short.npy", np.zeros(3, np.uint32))
    np.save(tmp_path / "floats.npy", np.zeros(32))
    np.save(tmp_path / "objects.npy", np.array([{}], object))
    (tmp_path / "cut.npz").write_bytes(b"PK\x03\x04")
    (tmp_path / "cut.npy").write_bytes(b"\x93NUMPY\x01\x00v\x00")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "words.txt").write_text("0x1 zzz")
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00")
    for path in sorted(tmp_path.iterdir()):
        with pytest.raises(IsaError, match=path.name):
            read_metadata(found, str(path))
        code, out, err = tcsim("where", F16, "--operand", "a", "--row", 0, "--col", 0, "--metadata", path)
        assert (code, out) == (2, "")
        assert path.name in err
        assert err.count("\n") == 1
    with pytest.raises(IsaError, match="has no metadata"):
        read_metadata(form_layout("mma.m16n8k16.f32.f16.f16.f32"), "random")
    with pytest.raises(IsaError, match="shape"):
        select(found, np.zeros((2, 32), np.uint32))


# Forms and choices


@over(
    ("opcode", "choice", "words"),
    [
        (F16, Choice(selector=2), "selector 2"), (F16, Choice(m=64), "no m to choose"),
        (F16, Choice(scale_a=(1, 0)), "no scale a to choose"),
        ("mma.m16n8k16.f32.f16.f16.f32", Choice(selector=1), "no selector"), (TMEM, Choice(m=100), "M = 100"),
        (TMEM, Choice(n=7), "N = 7"),
        (TMEM, Choice(base_lane=16), "base lane 16 in layout D"),
        (TMEM, Choice(selector=2), "selector 2"),
        (TMEM, Choice(half_split=4), "half split"),
        (SCALED, Choice(scale_a=(1, 0)), "byte-id 1"),
        ("mov.b32", Choice(), "no matrix operand"),
        ("tcgen05.mma.cta_group::1.kind::f16", Choice(selector=1), "no selector"),
        ("tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale", Choice(scale_b=(0, 1)), "no thread-id"),
        ("ldmatrix.m8n8.x4.shared.b16", Choice(n=8), "no n"),
        ("tcgen05.ld.32x32b.x4.b32", Choice(half_split=4), "no immHalfSplitoff"),
    ],
)  # fmt: skip
def test_choices_that_a_form_has_not(opcode: str, choice: Choice, words: str) -> None:
    with pytest.raises(IsaError, match=re.escape(words)):
        form_layout(opcode, choice)


def test_operands_that_are_not_there() -> None:
    with pytest.raises(IsaError, match="shared memory, where its descriptor says"):
        form_layout(TMEM).operand("b")
    with pytest.raises(IsaError, match="no source says"):
        form_layout("tcgen05.mma.cta_group::2.kind::mxf8f6f4.block_scale", Choice(m=128, n=16)).operand("scale_b")
    with pytest.raises(IsaError, match="no row 16"):
        where(form_layout(F16), "a", 16, 0)
    with pytest.raises(IsaError, match="no column 32"):
        where(form_layout(F16), "a", 0, 32)
    with pytest.raises(IsaError, match="no register 4"):
        what(form_layout(F16), "a", 0, 4)
    with pytest.raises(IsaError, match="no lane 32"):
        what(form_layout(F16), "a", 32, 0)
    with pytest.raises(IsaError, match="no bits 32:0"):
        what(form_layout(F16), "a", 0, 0, (32, 0))


# Tables and the command line


@pytest.mark.parametrize(
    "opcode",
    [F16, S4, SCALED, "mma.m8n8k4.f32.f16.f16.f32", "mma.m8n8k4.f64.f64.f64.f64", "ldmatrix.m8n8.x2.trans.shared.b16"],
)
def test_csv_is_the_mapping(tcsim: Tcsim, opcode: str) -> None:
    code, out, _ = tcsim("layout", opcode, "--format", "csv")
    assert code == 0
    operands = form_layout(opcode).operands
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == sum(operand.table["row"].size for operand in operands.values())
    for row in rows[:: max(1, len(rows) // 500)]:
        operand = operands[row["operand"]]
        (place,) = operand.places(int(row["row"]), int(row["column"]))
        assert place == tuple(int(row[name]) for name in ("lane", "register", "low_bit", "high_bit"))


def test_tables_of_tensor_memory(tcsim: Tcsim) -> None:
    code, out, _ = tcsim(
        "layout",
        "tcgen05.mma.ws.sp.cta_group::1.kind::f16",
        "--m",
        32,
        "--operand",
        "e",
        "--format",
        "csv",
        "--metadata",
        "random",
    )
    rows = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert {row["copy"] for row in rows} == set("0123")
    assert len(rows) == 32 * 8 * 4
    assert all(re.fullmatch(r"0b[01]{4}", row["code_or_logical_column"]) for row in rows)
    code, out, _ = tcsim("layout", "tcgen05.mma.ws.sp.cta_group::1.kind::f16", "--m", 32, "--operand", "e")
    assert "and 3 copies, lanes +32, +64, +96" in out
    code, out, _ = tcsim("layout", "tcgen05.ld.16x64b.x2.b32", "--format", "json")
    assert set(json.loads(out)[0]["cells"][0]) == {
        "operand",
        "to_lane",
        "to_column",
        "half",
        "thread",
        "register",
        "low_bit",
        "high_bit",
    }
    code, out, _ = tcsim("layout", "datapath", "--format", "json")
    assert [row["layout"] for row in json.loads(out)] == list("ABCCDEFFG")
    assert tcsim("layout", "datapath", "--format", "markdown")[1].count("|") > 100
    assert tcsim("layout", "datapath", "--format", "csv")[1].startswith("layout,M,")


def test_tables_with_metadata(tcsim: Tcsim) -> None:
    code, out, err = tcsim("layout", F16, "--operand", "a", "--metadata", "0xEE44EE44")
    assert (code, err) == (0, "")
    assert re.search(r"^ +0 +T0 a0\[15:0\] k0 +T0 a0\[31:16\] k1", out, re.MULTILINE)
    assert "(0,0)=0" in tcsim("layout", F16, "--operand", "a", "--metadata", "0xEE44EE44", "--view", "lanes")[1]
    code, out, err = tcsim("layout", F16, "--operand", "e", "--metadata", "0xEE44EE40")
    assert "0b0000" in out
    assert "16 metadata codes are not defined" not in out
    assert "metadata codes are not defined; row 0, chunk 0: 0b0000 (invalid-metadata" in err
    json_cells = json.loads(tcsim("layout", F16, "--operand", "a", "--metadata", "random", "--format", "json")[1])[0][
        "cells"
    ]
    assert {"logical_column", "row", "column"} <= set(json_cells[0])


def test_the_check_is_a_command(tcsim: Tcsim) -> None:
    code, out, _ = tcsim("layout", "--check")
    assert code == 0
    assert "0 differ from the mapping" in out


def test_queries_as_json(tcsim: Tcsim) -> None:
    asked = [
        ("where", F16, "--operand", "A", "--row", 5, "--col", 12),
        ("what", F16, "--lane", 9, "--register", "a1", "--bits", "31:16"),
        ("explain", F16, "--d", "3,5"),
    ]
    for arguments in asked:
        code, out, _ = tcsim(*arguments, "--format", "json")
        assert code == 0
        assert json.loads(out)["form"].startswith("mma.sp.sync.aligned.m16n8k32")
        assert tcsim(*arguments)[0] == 0


@over(
    ("arguments", "code", "words"),
    [
        (("layout",), 2, "FORM is missing"),
        (("layout", F16, "--palette", "rainbow", "--format", "svg"), 2, "pastel, distinct, safe, bw"),
        (("layout", F16, "--output", "/nowhere/x.svg"), 2, "a folder that exists"),
        (("layout", F16, "--operand", "q"), 1, "a, b, c, d, e"),
        (("layout", F16, "--lane", "40", "--format", "svg"), 1, "no lane 40"),
        (("layout", F16, "--scale-a", "x"), 2, "BYTE-ID"),
        (("layout", F16, "--selector", "-1"), 2, "-1"), (("where", F16, "--operand", "a"), 2, "--row"),
        (("where", F16, "--operand", "a", "--row", "-5", "--col", "0"), 1, "no row -5"),
        (("what", F16, "--lane", "9", "--register", "z1"), 2, "such as a1"),
        (("what", F16, "--lane", "9", "--register", "a1", "--bits", "16-31"), 2, "31:16"),
        (("what", F16, "--lane", "9", "--register", "a1", "--bits", "3:9"), 1, "no bits 3:9"),
        (("explain", F16, "--d", "3"), 2, "ROW,COL"),
        (("explain", F16, "--d", "99,0"), 1, "no row 99"),
        (("explain", "mma.sp.m16n8k33.f32.f16.f16.f32", "--d", "0,0"), 1, "m16n8k33"),
    ],
)  # fmt: skip
def test_bad_use_is_one_clear_line(tcsim: Tcsim, arguments: tuple[str, ...], code: int, words: str) -> None:
    got, out, err = tcsim(*arguments)
    assert (got, out) == (code, "")
    assert words in err
    assert err.count("\n") == 1
    assert "Traceback" not in err


def test_unpacked_codes_are_those_that_the_form_gathers() -> None:
    """Selection against the form's own gather and against bits taken apart here."""
    found = form_layout(F16, Choice(selector=1))
    selection = read_metadata(found, "random:4")
    fields = unpack(selection.words[:, None], 4)
    for row, chunk in ((0, 0), (5, 3), (11, 6)):
        (place,) = found.operands["e"].places(row, chunk)
        assert selection.codes[row, chunk] == fields[place.lane, place.low // 4]


def test_a_whole_row_is_every_element_of_it(tcsim: Tcsim) -> None:
    code, out, _ = tcsim("where", F16, "--operand", "e", "--row", "5", "--metadata", "0x44444444", "--format", "json")
    facts = json.loads(out)["facts"]
    found = form_layout(F16).operands["e"]
    assert code == 0
    assert [fact["column"] for fact in facts] == list(range(8))
    assert all(fact["code"] == 0b0100 for fact in facts)
    for fact in facts:
        place = found.places(5, fact["column"])[0]
        assert (fact["lane"], fact["low"], fact["high"]) == (place.lane, place.low, place.high)
    stored = tcsim("where", F16, "--operand", "a", "--row", "5", "--metadata", "0x44444444")[1]
    assert "stored column 3, column 5" in stored
    assert tcsim("where", F16, "--operand", "e", "--row", "16")[0] == 1


def test_long_places_are_set_apart_from_what_follows(tcsim: Tcsim) -> None:
    out = tcsim("where", "tcgen05.mma.sp.cta_group::1.kind::f16", "--operand", "a", "--row", "0", "--col", "3")[1]
    assert "L0 a.col0[31:16] stored column 1" in out


def test_m_64_of_the_mx_kinds_is_the_figure_that_ptx_prints_and_no_instruction(tcsim: Tcsim) -> None:
    mx = form_layout("tcgen05.mma.sp.cta_group::1.kind::mxf4.block_scale.scale_vec::2X", Choice(m=64, base_lane=16))
    same = form_layout("tcgen05.mma.sp.cta_group::1.kind::i8", Choice(m=64, base_lane=16))
    assert mx.operands.keys() == {"e"}
    assert mx.operands["e"].mapping == same.operands["e"].mapping
    svg = tcsim("layout", mx.opcode, "--m", "64", "--format", "svg")[1]
    assert "no instruction has M = 64 with .kind::mxf4" in svg
    with pytest.raises(IsaError, match="M = 32"):
        form_layout(mx.opcode, Choice(m=32))
