"""`tcgen05.mma(.ws)(.sp)` executed: every kind, layout and operand place against `tests.tcgen05_reference`, which shares nothing with it.

A scene is one instruction with operands in shared and Tensor Memory, all else filled with random bits; after it all 128 x 512 cells of every CTA
are compared. `exact` against float64 without rounding and against fractions; `chip` against `simulator.arithmetic.product` on the matrices and
against MMA-Sim's recorded sums (tests/golden/mmasim.npz), sparse ones on the stored elements.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import isa
from isa.errors import IsaError, UndefinedBehavior
from isa.tcgen05_forms import Tcgen05MmaForm
from isa.types import PACKED_E2M1
from simulator.arithmetic import product
from simulator.execute.tcgen05.fetch import Cta
from simulator.execute.tcgen05.multiply import Call, multiply
from simulator.state.tensor_memory import TensorMemory
from tests import tcgen05_reference as ref
from tests.golden import compare_mmasim
from tests.golden.mmasim_cases import Instruction
from tests.tcgen05_reference import NARROW, Case, Operands, Words, some_n

SHARED = 96 << 10
KINDS = tuple(ref.DENSE_K)
AT_A, AT_B = 1024, 20 << 10  # of A and B in shared memory
COMBINATIONS = [
    (kind, group, sparse, ws, m)
    for kind, group, sparse, ws in itertools.product(KINDS, (1, 2), (False, True), (False, True))
    for m in ref.legal_m(kind, group, sparse, ws)
]


@cache
def form(ptx: str) -> Tcgen05MmaForm:
    found = isa.decode(ptx, "sm_100a").form
    assert isinstance(found, Tcgen05MmaForm)
    return found


@dataclass
class Scene:
    """An instruction ready to run.

    Attributes:
        given: the matrices.
        columns: of Tensor Memory: "d", "a", "sp_meta", "scale_a", "scale_b".
        before: the cells of each CTA.
    """

    case: Case
    given: Operands
    ctas: list[Cta]
    call: Call
    columns: dict[str, int]
    before: list[Words]

    def run(self, arithmetic: str = "exact", **how: Any) -> None:
        multiply(self.call, self.ctas, target=how.pop("target", "sm_100a"), arithmetic=arithmetic, **how)

    def reset(self) -> None:
        for cta, words in zip(self.ctas, self.before, strict=True):
            cta.tmem.words[:] = words

    def expected(self, d: Words) -> list[Words]:
        """All cells of each CTA after the instruction has given D [m, n]."""
        after = [words.copy() for words in self.before]
        for rank, words in enumerate(after):
            rows = slice(rank * self.case.rows, (rank + 1) * self.case.rows)
            ref.put_d(words, self.case, d[rows], self.columns["d"], ref.written_lanes(self.case.lanes, rank))
        return after

    def check(self, d: Words) -> None:
        for rank, (cta, wanted) in enumerate(zip(self.ctas, self.expected(d), strict=True)):
            wrong = np.argwhere(cta.tmem.words != wanted)
            assert not len(wrong), f"CTA {rank}: {len(wrong)} cells, first {wrong[0]}: {cta.tmem.words[*wrong[0]]:#x}, not {wanted[*wrong[0]]:#x}"

    def untouched(self) -> None:
        assert all((cta.tmem.words == words).all() for cta, words in zip(self.ctas, self.before, strict=True))


def scene(case: Case, given: Operands | None = None, seed: int | None = None) -> Scene:
    """Operands at random places, in cells and bytes that are random elsewhere."""
    rng = np.random.default_rng(zlib.crc32(str(case).encode()) if seed is None else seed)
    given = ref.operands(case, rng) if given is None else given
    d, a, meta, scale_a, scale_b = (first + step * int(rng.integers(0, 8)) for first, step in ((0, 12), (360, 1), (380, 2), (400, 1), (420, 1)))
    columns = {"d": d, "a": a, "sp_meta": meta, "scale_a": scale_a, "scale_b": scale_b}
    places = [ref.place(case.majors[0], case.swizzles[0], AT_A, case.rows, case.stored, case.a)]
    places.append(ref.place(case.majors[1], case.swizzles[1], AT_B, case.n // case.group + case.shift, case.k, case.b))
    ctas = []
    for rank in range(case.group):
        cta = Cta(TensorMemory(), rng.integers(0, 256, SHARED, dtype=np.uint8))
        cta.tmem.allocate(512)
        cta.tmem.words[:] = rng.integers(0, 1 << 32, (128, 512), dtype=np.uint32)
        fill(case, given, cta, rank, columns, places)
        ctas.append(cta)
    lane = case.base << 16
    call = Call(
        form(case.ptx), lane | d, lane | a if case.tmem else places[0].word, places[1].word, case.idesc, lane | meta if case.sparse else 0,
        scale_a, scale_b, case.enable, case.lanes, case.scale_d, case.zero_mask,
    )  # fmt: skip
    return Scene(case, given, ctas, call, columns, [cta.tmem.words.copy() for cta in ctas])


def fill(case: Case, given: Operands, cta: Cta, rank: int, columns: dict[str, int], places: list[ref.Place]) -> None:
    """What one CTA holds of the matrices."""
    words = cta.tmem.words
    rows = slice(rank * case.rows, (rank + 1) * case.rows)
    ns = slice(rank * (case.n // case.group), (rank + 1) * (case.n // case.group) + case.shift)
    if case.tmem:
        ref.put_a(words, case, given.a[rows], columns["a"])
    else:
        ref.store(cta.shared, places[0], given.a[rows], case.a)
    ref.store(cta.shared, places[1], given.b[ns], case.b)
    if given.codes is not None:
        ref.put_codes(words, case, given.codes[rows], columns["sp_meta"])
    if given.scale_a is not None and given.scale_b is not None:
        ref.put_scales(words, case, given.scale_a[rows], columns["scale_a"], "a")
        ref.put_scales(words, case, given.scale_b, columns["scale_b"], "b")
    lane, column = ref.d_cells(case, columns["d"])
    keep = np.uint32(0xFFFF0000) if case.d == "f16" else np.uint32(0)  # what is above a 16-bit element has no effect
    words[lane, column] = words[lane, column] & keep | given.c[rows]


def chip(case: Case, given: Operands, arithmetic: str = "chip") -> Words:
    """D [m, n] of `simulator.arithmetic.product` on the matrices themselves."""
    has = ref.effective(case, given)
    a_type, b_type = (PACKED_E2M1 if name == "packed" else name for name in (case.a, case.b))
    scales: dict[str, Any] = {}
    if has.scale_a is not None and has.scale_b is not None:
        scales = {"scale_a": has.scale_a[None], "scale_b": np.ascontiguousarray(has.scale_b.T)[None], "scale_type": case.scale}
    found = product(
        has.a[None], np.ascontiguousarray(has.b.T)[None], has.c[None], family="tcgen05", target="sm_100a", a_type=a_type, b_type=b_type,
        d_type=case.d, codes=None if has.codes is None else has.codes[None], saturate=case.saturate, arithmetic=arithmetic, **scales,
    )  # fmt: skip
    return found[0].astype(np.uint32)


def run_both(case: Case) -> None:
    """The exact sum and the chip's, all cells."""
    it = scene(case)
    it.run("exact")
    it.check(ref.exact(case, it.given))
    it.reset()
    it.run("chip")
    it.check(chip(case, it.given))


# Every kind, shape and place


TYPES = {
    "f16": [("f16", "f16", "f32"), ("bf16", "bf16", "f32"), ("f16", "f16", "f16")],
    "tf32": [("tf32", "tf32", "f32")],
    "f8f6f4": [
        ("e4m3", "e4m3", "f32"), ("e5m2", "e4m3", "f16"), ("e2m3", "e3m2", "f32"), ("e2m1", "e5m2", "f32"), ("e4m3", "e2m1", "f16"),
        ("e3m2", "e2m3", "f16"), ("e2m1", "e2m1", "f32"),
    ],
    "i8": [("s8", "s8", "s32"), ("u8", "s8", "s32"), ("s8", "u8", "s32"), ("u8", "u8", "s32")],
    "mxf8f6f4": [("e4m3", "e5m2", "f32"), ("e2m3", "e4m3", "f32"), ("e2m1", "e3m2", "f32"), ("e5m2", "e2m1", "f32"), ("e3m2", "e2m3", "f32")],
    "mxf4": [("packed", "packed", "f32")],
    "mxf4nvf4": [("packed", "packed", "f32")],
}  # fmt: skip
_ONE = [(vector, "ue8m0", ids) for vector, ids in (("", (0, 3)), ("1X", (2, 1)), ("block32", (3, 0)), ("1X", (1, 2)))]
_TWO = [(vector, "ue8m0", ids) for vector, ids in (("2X", (0, 2)), ("block32", (2, 0)), ("2X", (2, 2)))]
_FOUR = [(vector, scale, (0, 0)) for vector in ("4X", "block16") for scale in ("ue4m3", "ue8m0")]
VECTORS = {"mxf8f6f4": _ONE, "mxf4": [*_TWO, ("", "ue8m0", (2, 0))], "mxf4nvf4": [v for pair in zip(_FOUR, [*_TWO, _TWO[0]], strict=True) for v in pair]}


def places_of_a(kind: str, layout: str) -> list[dict[str, Any]]:
    """Where A may be: Tensor Memory, in both halves where there are halves; shared memory, every layout."""
    bases = (0, 16) if layout in ref.HALVES else (0,)
    found: list[dict[str, Any]] = [{"tmem": True, "base": base} for base in bases]
    found += [{"majors": major, "swizzles": swizzle} for major, swizzle in (("K", 2), ("K", 0), ("K", 4), ("K", 6))]
    if kind == "tf32":
        found.append({"majors": "M", "swizzles": 1})
    elif kind not in ("mxf4", "mxf4nvf4"):
        found += [{"majors": "M", "swizzles": swizzle} for swizzle in (2, 0, 4, 6)]
    return [{"base": bases[i % len(bases)], **how} for i, how in enumerate(found)]


def places_of_b(kind: str, sparse: bool) -> list[tuple[str, int]]:
    """Layouts of B; 64 bytes of K do not fit the rows of the 32-byte swizzle."""
    found = [("K", 2), ("K", 0), ("K", 4)]
    if not sparse:
        found.append(("K", 6))
    if kind == "tf32":
        found.append(("M", 1))
    elif kind not in ("mxf4", "mxf4nvf4"):
        found += [("M", 2), ("M", 0), ("M", 4), ("M", 6)]
    return found


def made(combination: tuple[str, int, bool, bool, int], n: int, types: tuple[str, str, str], a: dict[str, Any], b: tuple[str, int], i: int) -> Case:
    """One case; the rest by turns."""
    kind, group, sparse, ws, m = combination
    how = dict(a)
    majors = how.pop("majors", "K") + b[0]
    swizzles = how.pop("swizzles", 0), b[1]
    if majors[1] == "M" and (n // group % 16 or n % (16 * group)):  # 8-bit B transposed: N in steps of 16 for each CTA
        majors, swizzles = majors[0] + "K", (swizzles[0], 2)
    if kind.startswith("mx"):
        vector, scale, ids = VECTORS[kind][i % len(VECTORS[kind])]
        how.update(vector=vector, scale=scale, ids=ids)
        if ref.layout_of(m, group, sparse, ws) == "B" and n % 64:
            n = max(64, n // 64 * 64)  # where the factors of B lie is known for halves of whole quarters alone
    if sparse and kind in ("f16", "tf32"):
        how["selector"] = i // 2 % 2
    if kind == "i8":
        how["saturate"] = i % 3 == 0
    else:
        how["negate"] = bool(i & 1), bool(i & 2)
    if kind in ("f16", "tf32") and not ws and i % 4 == 1:
        how["scale_d"] = i % 7 + 1
    how["enable"] = i % 5 != 4
    return Case(kind=kind, m=m, n=n, a=types[0], b=types[1], d=types[2], group=group, sparse=sparse, ws=ws, majors=majors, swizzles=swizzles, **how)


def spread(combination: tuple[str, int, bool, bool, int]) -> Iterator[Case]:
    """All N, places and types of a combination, not each with each."""
    kind, group, sparse, ws, m = combination
    ns, a, b = some_n(kind, group, sparse, ws), places_of_a(kind, ref.layout_of(m, group, sparse, ws)), places_of_b(kind, sparse)
    types = TYPES[kind]
    start = zlib.crc32(repr(combination).encode()) % 60
    for i in range(max(len(ns), len(a), len(b), len(types))):
        yield made(combination, ns[i % len(ns)], types[(start + i) % len(types)], a[i % len(a)], b[(start + i) % len(b)], start + i)


def everything(combination: tuple[str, int, bool, bool, int]) -> Iterator[Case]:
    """Each N with each place and type."""
    kind, group, sparse, ws, m = combination
    a, b = places_of_a(kind, ref.layout_of(m, group, sparse, ws)), places_of_b(kind, sparse)
    for i, (n, types, place_a, place_b) in enumerate(itertools.product(some_n(kind, group, sparse, ws), TYPES[kind], a, b)):
        yield made(combination, n, types, place_a, place_b, i + i // 7)


def name_of(combination: tuple[str, int, bool, bool, int]) -> str:
    kind, group, sparse, ws, m = combination
    return f"{kind}-cta{group}" + "-sp" * sparse + "-ws" * ws + f"-m{m}"


@pytest.mark.parametrize("combination", COMBINATIONS, ids=name_of)
def test_spread(combination: tuple[str, int, bool, bool, int]) -> None:
    for case in spread(combination):
        run_both(case)


@pytest.mark.long
@pytest.mark.parametrize("combination", COMBINATIONS, ids=name_of)
def test_everything(combination: tuple[str, int, bool, bool, int]) -> None:
    for case in everything(combination):
        run_both(case)


# Numbers of any size


def any_bits(case: Case, rng: np.random.Generator, finite: bool) -> Operands:
    """Operands with random bits, NaN and infinities among them unless all are to be finite."""
    given = ref.operands(case, rng)
    for name, what in (("a", case.a), ("b", case.b), ("c", case.d)):
        bits, exponent, fraction, unused, *_ = ref.FORMATS.get(what, (32, 0, 0, 0, 0, 0))
        inside = (1 << 1 + exponent + fraction) - 1 << unused if exponent and bits == 8 else (1 << bits) - 1
        patterns = rng.integers(0, 1 << 32, getattr(given, name).shape, dtype=np.uint32) & np.uint32(inside)
        if finite and exponent:
            patterns = np.where(np.isfinite(ref.values(patterns, what)), patterns, np.uint32(0))
        setattr(given, name, patterns)
    for name in ("scale_a", "scale_b"):
        if (old := getattr(given, name)) is not None:
            patterns = rng.integers(0, 256, old.shape, dtype=np.uint32)
            setattr(given, name, np.where(np.isfinite(ref.values(patterns, case.scale)), patterns, np.uint32(1)) if finite else patterns)
    return given


WIDE = [
    Case(kind="f16", m=64, n=16, sparse=True, base=16), Case(kind="f16", m=128, n=64, d="f16", sparse=True, ws=True, tmem=True),
    Case(kind="f16", m=64, n=64, a="bf16", b="bf16", ws=True), Case(kind="f16", m=128, n=32, a="bf16", b="bf16", group=2, sparse=True),
    Case(kind="tf32", m=32, n=64, a="tf32", b="tf32", sparse=True, ws=True), Case(kind="tf32", m=128, n=32, a="tf32", b="tf32", group=2, tmem=True),
    Case(kind="f8f6f4", m=64, n=24, a="e5m2", b="e4m3", d="f16"), Case(kind="f8f6f4", m=128, n=32, a="e4m3", b="e3m2", sparse=True, tmem=True),
    Case(kind="f8f6f4", m=128, n=16, a="e2m1", b="e5m2", sparse=True, majors="MK"),
    Case(kind="mxf8f6f4", m=128, n=32, a="e5m2", b="e4m3", sparse=True, ids=(1, 2)), Case(kind="mxf8f6f4", m=128, n=64, a="e2m3", b="e2m1", group=2),
    Case(kind="mxf4", m=128, n=8, a="packed", b="packed", sparse=True, ids=(2, 0)),
    Case(kind="mxf4nvf4", m=256, n=32, a="packed", b="packed", group=2, sparse=True, vector="block16", scale="ue4m3"),
    Case(kind="mxf4nvf4", m=128, n=128, a="packed", b="packed", group=2, vector="4X", tmem=True),
]  # fmt: skip


@pytest.mark.parametrize("case", WIDE, ids=str)
def test_any_finite_operands_against_fractions(case: Case) -> None:
    rng = np.random.default_rng(7)
    it = scene(case, any_bits(case, rng, finite=True))
    it.run("exact")
    lane, column = ref.d_cells(case, it.columns["d"])
    for row, n in zip(rng.integers(0, case.m, 24).tolist(), rng.integers(0, case.n, 24).tolist(), strict=True):
        cell = lane[row % case.rows, n], column[row % case.rows, n]
        assert it.ctas[row // case.rows].tmem.words[cell] == ref.exact_fractions(case, it.given, row, n), (row, n)


@pytest.mark.parametrize("case", WIDE, ids=str)
def test_any_operands_against_the_sum_on_matrices(case: Case) -> None:
    it = scene(case, any_bits(case, np.random.default_rng(8), finite=False))
    for arithmetic in ("chip", "exact"):
        it.run(arithmetic)
        it.check(chip(case, it.given, arithmetic))
        it.reset()


@pytest.mark.parametrize("name", ["e2m1", "e2m3", "e3m2"])
def test_padding_of_a_byte_in_tensor_memory_has_no_effect(name: str) -> None:
    case = Case(kind="f8f6f4", m=128, n=16, a=name, b="e4m3", sparse=True, tmem=True)
    plain = scene(case)
    plain.run("chip")
    other = scene(case)
    padding = np.uint32({"e2m1": 0b11000011, "e2m3": 0b11000000, "e3m2": 0b11000000}[name] * 0x01010101)
    columns = slice(other.columns["a"], other.columns["a"] + 8)
    other.ctas[0].tmem.words[:, columns] ^= padding & np.random.default_rng(9).integers(0, 1 << 32, (128, 8), dtype=np.uint32)
    other.run("chip")
    d = slice(other.columns["d"], other.columns["d"] + case.n)
    assert (other.ctas[0].tmem.words[:, d] == plain.ctas[0].tmem.words[:, d]).all()


@pytest.mark.parametrize("target", ["sm_103a", "sm_110a", "sm_100f"])
def test_other_targets(target: str) -> None:
    for case in (Case(kind="f16", m=64, n=16, sparse=True), Case(kind="mxf8f6f4", m=128, n=16, a="e4m3", b="e4m3")):
        it = scene(case)
        it.run("chip", target=target)
        it.check(chip(case, it.given))


# MMA-Sim's sums


RECORDED = {i: cases for i, cases in compare_mmasim.recorded() if i.family == "tcgen05"}


def diagonal(instruction: Instruction, cases: np.ndarray, sparse: bool) -> tuple[Case, Operands]:
    """Dot products as one instruction, the i-th at row i, column i; of a sparse one, B meets NaN or whatever in columns that A does not pick."""
    rng = np.random.default_rng(zlib.crc32(f"{instruction} {sparse}".encode()))
    kind, packed = instruction.kind, instruction.packed
    a, b = ("packed" if packed else element.name for element in (instruction.a_type, instruction.b_type))
    vector = f"block{instruction.block}" if instruction.block else ""
    scale = instruction.scale_type.name if instruction.scale_type else "ue8m0"
    case = Case(kind=kind, m=128, n=128, a=a, b=b, d=instruction.d_type.name, sparse=sparse, tmem=sparse, vector=vector, scale=scale)
    given, count = any_bits(case, rng, finite=False), len(cases)
    given.a[:count] = cases["a"][:, 0]
    given.c[np.arange(count), np.arange(count)] = cases["c"][:, 0, 0]
    if given.codes is None:
        given.b[:count] = cases["b"][:, :, 0]
    else:
        numbered = np.broadcast_to(np.arange(1, case.stored + 1), (128, case.stored))
        meets = ref.expand(numbered, given.codes, kind)[:count]  # for each row of B which stored element of A, from 1
        chosen = np.take_along_axis(cases["b"][:, :, 0], np.maximum(meets - 1, 0), axis=1)
        given.b[:count] = np.where(meets > 0, chosen, given.b[:count])
    if given.scale_a is not None and given.scale_b is not None:
        given.scale_a[:count], given.scale_b[:count] = cases["scale_a"][:, 0], cases["scale_b"][:, :, 0]
    return case, given


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("instruction", RECORDED, ids=str)
def test_every_recorded_sum_of_mmasim(instruction: Instruction, sparse: bool) -> None:
    """Dense sums as they are; of sparse ones the stored elements are a dense sum (that a chip adds so is inferred)."""
    everything = RECORDED[instruction]
    for first in range(0, len(everything), 128):
        cases = everything[first : first + 128]
        it = scene(*diagonal(instruction, cases, sparse))
        it.run("chip")
        i = np.arange(len(cases))
        found = it.ctas[0].tmem.words[i, it.columns["d"] + i]
        assert (found == cases["d"][:, 0, 0]).all(), np.flatnonzero(found != cases["d"][:, 0, 0])


def test_recorded_sums_are_of_every_kind() -> None:
    assert {i.kind for i in RECORDED} == set(KINDS) - {"i8"}
    assert sum(i.kind == "f16" for i in RECORDED) == 3
    assert sum(map(len, RECORDED.values())) > 9_000


# Metadata


SPARSE_KINDS = [
    Case(kind="f16", m=64, n=8, sparse=True, base=16, selector=1), Case(kind="tf32", m=128, n=8, a="tf32", b="tf32", sparse=True),
    Case(kind="f8f6f4", m=128, n=16, a="e4m3", b="e2m1", sparse=True, tmem=True), Case(kind="i8", m=64, n=8, a="s8", b="u8", d="s32", sparse=True),
    Case(kind="mxf8f6f4", m=128, n=8, a="e5m2", b="e4m3", sparse=True), Case(kind="mxf4", m=128, n=8, a="packed", b="packed", sparse=True),
    Case(kind="mxf4nvf4", m=128, n=8, a="packed", b="packed", sparse=True, vector="4X", scale="ue4m3"),
]  # fmt: skip
LEGAL = [(case, code) for case in SPARSE_KINDS for code in (ref.TF32_CODES if case.kind == "tf32" else ref.SEVEN)]
ILLEGAL = [(case, code) for case in SPARSE_KINDS for code in set(range(16)) - set(ref.TF32_CODES if case.kind == "tf32" else ref.SEVEN)]
Met = list[tuple[str, int, str]]


def meeting(met: Met) -> Callable[[str, int, str], None]:
    return lambda name, count, where: met.append((name, count, where))


@pytest.mark.parametrize(("case", "code"), LEGAL, ids=[f"{case.kind}-{code:04b}" for case, code in LEGAL])
def test_every_legal_code(case: Case, code: int) -> None:
    given = ref.operands(case, np.random.default_rng(code))
    assert given.codes is not None
    given.codes[:] = code
    it = scene(case, given)
    it.run("exact")
    it.check(ref.exact(case, given))


def stored_per_chunk(case: Case) -> int:
    return case.stored // case.chunks


@pytest.mark.parametrize(("case", "code"), ILLEGAL, ids=[f"{case.kind}-{code:04b}" for case, code in ILLEGAL])
def test_every_undefined_code(case: Case, code: int) -> None:
    """Met with name, number and place; harmless with two equal indices over zeros alone; nothing is written where it is refused."""
    given = ref.operands(case, np.random.default_rng(code))
    assert given.codes is not None
    per = stored_per_chunk(case)
    one = {"tf32": 0x3F800000, "f16": 0x3C00, "i8": 1, "f8f6f4": 0x38, "mxf8f6f4": 0x3C}.get(case.kind, 2)
    zero = 0 if case.kind == "i8" else {"tf32": 1 << 31, "f16": 1 << 15, "mxf4": 8, "mxf4nvf4": 8}.get(case.kind, 128)
    for row, chunk, last in ((37, 5, one), (38, 0, one), (50, 6, zero)):
        given.codes[row, chunk] = code
        given.a[row, per * chunk : per * (chunk + 1)] = [0] * (per - 1) + [last]
    equal = code & 3 == code >> 2
    it = scene(case, given)
    with pytest.raises(UndefinedBehavior) as refused:
        it.run()
    assert refused.value.name == "undefined-metadata"
    assert f"row 37, chunk 5: code 0b{code:04b}" in refused.value.where
    it.untouched()
    met: Met = []
    it.run(meet=meeting(met))
    (found,) = met
    assert found[:2] == ("undefined-metadata", 2 if equal else 3)
    assert it.call.form.opcode in found[2]
    assert f"row 37, chunk 5: code 0b{code:04b}" in found[2]
    if case.kind != "tf32":
        it.check(multiplexed(case, given))


def multiplexed(case: Case, given: Operands) -> Words:
    """The exact result if codes steer each stored element by itself, whatever they are (measured for mma.sp on an H100, assumed here)."""
    assert given.codes is not None
    unit = 2 if case.kind.startswith("mxf4") else 1
    full = np.zeros((case.m, case.k))
    a, b = ref.values(given.a, case.a), ref.values(given.b, case.b)
    for stored in range(case.stored):
        chunk, inside = divmod(stored, stored_per_chunk(case))
        index = given.codes[:, chunk] >> np.uint32(2 * (inside // unit)) & 3
        full[np.arange(case.m), chunk * stored_per_chunk(case) * 2 + unit * index + inside % unit] += a[:, stored]
    if given.scale_a is not None and given.scale_b is not None:
        each = case.k // case.factors
        full *= np.repeat(ref.values(given.scale_a, case.scale), each, axis=1)
        b = b * np.repeat(ref.values(given.scale_b, case.scale), each, axis=1)
    if case.d == "s32":
        return (full.astype(np.int64) @ b.astype(np.int64).T + given.c.astype(np.int32)).astype(np.int32).view(np.uint32)
    return ref.rounded(full @ b.T + ref.values(given.c, case.d), case.d)


@pytest.mark.parametrize("case", SPARSE_KINDS, ids=str)
@pytest.mark.parametrize("code", [0b0000, 0b0101, 0b1010, 0b1111])
def test_a_chunk_of_zeros_may_have_equal_indices(case: Case, code: int) -> None:
    """As CUTLASS writes for empty chunks and padding."""
    given = ref.operands(case, np.random.default_rng(code))
    assert given.codes is not None
    where = np.random.default_rng(1).random(given.codes.shape) < 0.3
    given.a[np.repeat(where, stored_per_chunk(case), axis=1)] = 0
    wanted = ref.exact(case, given)
    given.codes[where] = code
    it = scene(case, given)
    it.run()
    it.check(wanted)


@pytest.mark.parametrize("kind", ["f16", "tf32"])
def test_selectors_take_the_columns_of_one_pair(kind: str) -> None:
    case = Case(kind=kind, m=128, n=16, a=kind, b=kind, sparse=True)
    it, other = scene(case), scene(replace(case, selector=1))
    assert other.given.codes is not None
    ref.put_codes(it.ctas[0].tmem.words, case, other.given.codes, it.columns["sp_meta"], selector=1)
    it.before[0] = it.ctas[0].tmem.words.copy()
    it.run()
    it.check(ref.exact(case, it.given))
    it.reset()
    it.call = replace(it.call, idesc=it.call.idesc | 1)
    it.run()
    it.check(ref.exact(case, replace(it.given, codes=other.given.codes)))


# Copies


@dataclass(frozen=True)
class Spoilt:
    """A bit of one copy changed: the case, the operand, lane and column from its base, the bit, and what is said of it."""

    case: Case
    operand: str
    lane: int
    column: int
    says: str


SPOILT = [
    Spoilt(Case(kind="f16", m=128, n=32, group=2, tmem=True), "a", 64 + 17, 3, "A of"),
    Spoilt(Case(kind="f16", m=64, n=64, ws=True, tmem=True), "a", 127, 7, "A of"),
    Spoilt(Case(kind="i8", m=32, n=64, a="s8", b="s8", d="s32", ws=True, tmem=True), "a", 96, 0, "A of"),
    Spoilt(Case(kind="f16", m=64, n=64, sparse=True, ws=True), "sp_meta", 64 + 63, 0, "metadata of"),
    Spoilt(Case(kind="f8f6f4", m=32, n=64, a="e4m3", b="e4m3", sparse=True, ws=True), "sp_meta", 32 + 5, 1, "metadata of"),
    Spoilt(Case(kind="f8f6f4", m=32, n=128, a="e4m3", b="e4m3", sparse=True, ws=True), "sp_meta", 96 + 5, 0, "metadata of"),
    Spoilt(Case(kind="mxf4", m=128, n=48, a="packed", b="packed", sparse=True), "scale_a", 32 + 7, 3, "scale factors of A"),
    Spoilt(Case(kind="mxf4", m=128, n=48, a="packed", b="packed", ids=(2, 2)), "scale_b", 96 + 15, 1, "scale factors of B"),
    Spoilt(Case(kind="mxf8f6f4", m=256, n=256, a="e4m3", b="e4m3", group=2), "scale_b", 64, 7, "scale factors of B"),
    Spoilt(Case(kind="mxf8f6f4", m=128, n=128, a="e4m3", b="e4m3", group=2), "scale_b", 96 + 1, 1, "scale factors of B"),
]


@pytest.mark.parametrize("spoilt", SPOILT, ids=[f"{s.case}-{s.operand}" for s in SPOILT])
def test_copies_that_differ(spoilt: Spoilt) -> None:
    it = scene(spoilt.case)
    bit = {"a": 0, "sp_meta": 4, "scale_a": 0, "scale_b": 8 * spoilt.case.ids[1]}[spoilt.operand]
    last = it.ctas[-1].tmem.words
    place = spoilt.lane, it.columns[spoilt.operand] + spoilt.column
    last[place] ^= np.uint32(1 << bit)
    if spoilt.operand == "sp_meta":  # by another legal code
        last[place] = last[place] & ~np.uint32(15 << bit) | np.uint32((0b0100 if last[place] >> bit & 15 != 0b0100 else 0b1110) << bit)
    it.before[-1] = last.copy()
    met: Met = []
    it.run(meet=meeting(met))
    assert [(name, count) for name, count, _ in met] == [("tmem-copies-differ", 1)]
    assert met[0][2].startswith(spoilt.says)
    assert it.call.form.opcode in met[0][2]
    it.reset()
    with pytest.raises(UndefinedBehavior) as refused:
        it.run()
    assert refused.value.name == "tmem-copies-differ"
    if len(it.ctas) == 1:
        it.untouched()


def test_factors_beyond_n_and_other_bytes_may_differ() -> None:
    """N = 40 reads 8 of the 32 lanes of its second column, and one byte of each; scenes hold random bits elsewhere."""
    case = Case(kind="mxf8f6f4", m=128, n=40, a="e4m3", b="e4m3", ids=(1, 3))
    it = scene(case)
    words, column = it.ctas[0].tmem.words, it.columns["scale_b"]
    assert len({int(words[32 * q + 8, column + 1] >> 24) for q in range(4)}) > 1
    assert len({int(words[32 * q, column] & 0xFFFFFF) for q in range(4)}) > 1
    it.run()
    it.check(ref.exact(case, it.given))
