"""`tcgen05.mma(.ws)(.sp)` executed: every kind, layout and operand place against `tests.support.tcgen05_reference`,
which shares nothing with it.

A scene is one instruction with operands in shared and Tensor Memory, all else filled with random bits; after it all 128
x 512 cells of every CTA are compared. `exact` against float64 without rounding and against fractions; `chip` against
`simulator.arithmetic.product` on the matrices and against MMA-Sim's recorded sums (tests/golden/mmasim.npz), sparse
ones on the stored elements.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import isa
from isa.errors import IsaError, UndefinedBehavior
from isa.forms.tcgen05 import Tcgen05MmaForm
from isa.types import PACKED_E2M1
from simulator.arithmetic import product
from simulator.execute.tcgen05.fetch import Cta
from simulator.execute.tcgen05.multiply import Meet, multiply
from simulator.execute.tcgen05.plan import Call
from simulator.state.tensor_memory import TensorMemory
from tests.golden import compare_mmasim
from tests.golden.mmasim_cases import Instruction
from tests.support import tcgen05_reference as ref
from tests.support.cases import PROGRAMS, alike, case_of, exhaustive, over
from tests.support.tcgen05_reference import Case, Operands, Words, some_n

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
            assert not len(wrong), (
                f"CTA {rank}: {len(wrong)} cells, first {wrong[0]}: {cta.tmem.words[*wrong[0]]:#x}, not "
                f"{wanted[*wrong[0]]:#x}"
            )
            known = np.zeros((self.case.rows, self.case.n), np.uint32)
            changed = np.ones((128, 512), np.uint32)
            ref.put_d(changed, self.case, known, self.columns["d"], ref.written_lanes(self.case.lanes, rank))
            assert (cta.tmem.written == (changed == 0)).all(), f"CTA {rank}: cells marked as written"

    def untouched(self) -> None:
        assert all((cta.tmem.words == words).all() for cta, words in zip(self.ctas, self.before, strict=True))


def scene(case: Case, given: Operands | None = None, seed: int | None = None) -> Scene:
    """Operands at random places, in cells and bytes that are random elsewhere."""
    rng = np.random.default_rng(zlib.crc32(str(case).encode()) if seed is None else seed)
    given = ref.operands(case, rng) if given is None else given
    d, a, meta, scale_a, scale_b = (
        first + step * int(rng.integers(0, 8)) for first, step in ((0, 12), (360, 1), (380, 2), (400, 1), (420, 1))
    )
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
        form(case.ptx),
        lane | d,
        lane | a if case.tmem else places[0].word,
        places[1].word,
        case.idesc,
        lane | meta if case.sparse else 0,
        scale_a,
        scale_b,
        case.enable,
        case.lanes,
        case.scale_d,
        case.zero_mask,
    )
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
        scales = {
            "scale_a": has.scale_a[None],
            "scale_b": np.ascontiguousarray(has.scale_b.T)[None],
            "scale_type": case.scale,
        }
    found = product(
        has.a[None],
        np.ascontiguousarray(has.b.T)[None],
        has.c[None],
        family="tcgen05",
        target="sm_100a",
        a_type=a_type,
        b_type=b_type,
        d_type=case.d,
        codes=None if has.codes is None else has.codes[None],
        saturate=case.saturate,
        arithmetic=arithmetic,
        **scales,
    )
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
        ("e4m3", "e4m3", "f32"),
        ("e5m2", "e4m3", "f16"),
        ("e2m3", "e3m2", "f32"),
        ("e2m1", "e5m2", "f32"),
        ("e4m3", "e2m1", "f16"),
        ("e3m2", "e2m3", "f16"),
        ("e2m1", "e2m1", "f32"),
    ],
    "i8": [("s8", "s8", "s32"), ("u8", "s8", "s32"), ("s8", "u8", "s32"), ("u8", "u8", "s32")],
    "mxf8f6f4": [
        ("e4m3", "e5m2", "f32"),
        ("e2m3", "e4m3", "f32"),
        ("e2m1", "e3m2", "f32"),
        ("e5m2", "e2m1", "f32"),
        ("e3m2", "e2m3", "f32"),
    ],
    "mxf4": [("packed", "packed", "f32")],
    "mxf4nvf4": [("packed", "packed", "f32")],
}
_ONE = [(vector, "ue8m0", ids) for vector, ids in (("", (0, 3)), ("1X", (2, 1)), ("block32", (3, 0)), ("1X", (1, 2)))]
_TWO = [(vector, "ue8m0", ids) for vector, ids in (("2X", (0, 2)), ("block32", (2, 0)), ("2X", (2, 2)))]
_FOUR = [(vector, scale, (0, 0)) for vector in ("4X", "block16") for scale in ("ue4m3", "ue8m0")]
VECTORS = {
    "mxf8f6f4": _ONE,
    "mxf4": [*_TWO, ("", "ue8m0", (2, 0))],
    "mxf4nvf4": [v for pair in zip(_FOUR, [*_TWO, _TWO[0]], strict=True) for v in pair],
}


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


def made(
    combination: tuple[str, int, bool, bool, int],
    n: int,
    types: tuple[str, str, str],
    a: dict[str, Any],
    b: tuple[str, int],
    i: int,
) -> Case:
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
    return Case(
        kind=kind,
        m=m,
        n=n,
        a=types[0],
        b=types[1],
        d=types[2],
        group=group,
        sparse=sparse,
        ws=ws,
        majors=majors,
        swizzles=swizzles,
        **how,
    )


def spread(combination: tuple[str, int, bool, bool, int]) -> Iterator[Case]:
    """All N, places and types of a combination, not each with each; the smallest N more often."""
    kind, group, sparse, ws, m = combination
    ns, a, b = (
        some_n(kind, group, sparse, ws),
        places_of_a(kind, ref.layout_of(m, group, sparse, ws)),
        places_of_b(kind, sparse),
    )
    types = TYPES[kind]
    start = zlib.crc32(repr(combination).encode()) % 60
    for i in range(max(len(ns), len(a), len(b), len(types))):
        place_b = b[(start + i) % len(b)]
        n = ns[i] if i < len(ns) else max(ns[0], 16 * group if place_b[0] == "M" else 0)
        yield made(combination, n, types[(start + i) % len(types)], a[i % len(a)], place_b, start + i)


def everything(combination: tuple[str, int, bool, bool, int]) -> Iterator[Case]:
    """N with places of A and types (all of them for the smallest and the largest N, a third of the others), and each
    place of A with each of B."""
    kind, group, sparse, ws, m = combination
    ns, a, b = (
        some_n(kind, group, sparse, ws),
        places_of_a(kind, ref.layout_of(m, group, sparse, ws)),
        places_of_b(kind, sparse),
    )
    for i, (n, types, place_a) in enumerate(itertools.product(ns, TYPES[kind], a)):
        if i % 3 and n not in (ns[0], ns[-1]):
            continue
        yield made(combination, n, types, place_a, b[(i + i // 7) % len(b)], i + i // 7)
    for i, (place_a, place_b) in enumerate(itertools.product(a, b)):
        yield made(combination, ns[2 % len(ns)], TYPES[kind][i % len(TYPES[kind])], place_a, place_b, i + i // 7)


def name_of(combination: tuple[str, int, bool, bool, int]) -> str:
    kind, group, sparse, ws, m = combination
    return f"{kind}-cta{group}" + "-sp" * sparse + "-ws" * ws + f"-m{m}"


@over(
    ("combination", "number"),
    itertools.product(COMBINATIONS, range(2)),
    ids=lambda value: name_of(value) if isinstance(value, tuple) else value,
    distinct=lambda combination, number: combination,
)
def test_spread(combination: tuple[str, int, bool, bool, int], number: int) -> None:
    """Two cases of every combination."""
    for case in itertools.islice(spread(combination), number, number + 1):
        run_both(case)


@exhaustive
@pytest.mark.parametrize("part", range(8))
def test_everything(part: int) -> None:
    """Eight loops, so that several processes have something to do: each twelfth case, or all with
    TCSIM_PROGRAMS=1000."""
    for combination in COMBINATIONS[part::8]:
        for case in (*spread(combination), *everything(combination))[:: 1 if PROGRAMS >= 1000 else 12]:
            with case_of(name_of(combination), case):
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
            setattr(
                given,
                name,
                np.where(np.isfinite(ref.values(patterns, case.scale)), patterns, np.uint32(1)) if finite else patterns,
            )
    return given


WIDE = [
    Case(kind="f16", m=64, n=16, sparse=True, base=16),
    Case(kind="f16", m=128, n=64, d="f16", sparse=True, ws=True, tmem=True),
    Case(kind="f16", m=64, n=64, a="bf16", b="bf16", ws=True),
    Case(kind="f16", m=128, n=32, a="bf16", b="bf16", group=2, sparse=True),
    Case(kind="tf32", m=32, n=64, a="tf32", b="tf32", sparse=True, ws=True),
    Case(kind="tf32", m=128, n=32, a="tf32", b="tf32", group=2, tmem=True),
    Case(kind="f8f6f4", m=64, n=24, a="e5m2", b="e4m3", d="f16"),
    Case(kind="f8f6f4", m=128, n=32, a="e4m3", b="e3m2", sparse=True, tmem=True),
    Case(kind="f8f6f4", m=128, n=16, a="e2m1", b="e5m2", sparse=True, majors="MK"),
    Case(kind="mxf8f6f4", m=128, n=32, a="e5m2", b="e4m3", sparse=True, ids=(1, 2)),
    Case(kind="mxf8f6f4", m=128, n=64, a="e2m3", b="e2m1", group=2),
    Case(kind="mxf4", m=128, n=8, a="packed", b="packed", sparse=True, ids=(2, 0)),
    Case(kind="mxf4nvf4", m=256, n=32, a="packed", b="packed", group=2, sparse=True, vector="block16", scale="ue4m3"),
    Case(kind="mxf4nvf4", m=128, n=128, a="packed", b="packed", group=2, vector="4X", tmem=True),
]


@over("case", WIDE, ids=str)
def test_any_finite_operands_against_fractions(case: Case) -> None:
    rng = np.random.default_rng(7)
    it = scene(case, any_bits(case, rng, finite=True))
    it.run("exact")
    lane, column = ref.d_cells(case, it.columns["d"])
    for row, n in zip(rng.integers(0, case.m, 24).tolist(), rng.integers(0, case.n, 24).tolist(), strict=True):
        cell = lane[row % case.rows, n], column[row % case.rows, n]
        assert it.ctas[row // case.rows].tmem.words[cell] == ref.exact_fractions(case, it.given, row, n), (row, n)


@over("case", WIDE, ids=str)
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
    other.ctas[0].tmem.words[:, columns] ^= padding & np.random.default_rng(9).integers(
        0, 1 << 32, (128, 8), dtype=np.uint32
    )
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
    """Dot products as one instruction, the i-th at row i, column i; of a sparse one, B meets NaN or whatever in columns
    that A does not pick."""
    rng = np.random.default_rng(zlib.crc32(f"{instruction} {sparse}".encode()))
    kind, packed = instruction.kind, instruction.packed
    a, b = ("packed" if packed else element.name for element in (instruction.a_type, instruction.b_type))
    vector = f"block{instruction.block}" if instruction.block else ""
    scale = instruction.scale_type.name if instruction.scale_type else "ue8m0"
    n = 128 if len(cases) > 32 else 32
    case = Case(
        kind=kind,
        m=128,
        n=n,
        a=a,
        b=b,
        d=instruction.d_type.name,
        sparse=sparse,
        tmem=sparse,
        vector=vector,
        scale=scale,
    )
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


@over("sparse", [False, True], ids=["dense", "sparse"], distinct=alike)
@over("instruction", RECORDED, ids=str)
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
    Case(kind="f16", m=64, n=8, sparse=True, base=16, selector=1),
    Case(kind="tf32", m=128, n=8, a="tf32", b="tf32", sparse=True),
    Case(kind="f8f6f4", m=128, n=16, a="e4m3", b="e2m1", sparse=True, tmem=True),
    Case(kind="i8", m=64, n=8, a="s8", b="u8", d="s32", sparse=True),
    Case(kind="mxf8f6f4", m=128, n=8, a="e5m2", b="e4m3", sparse=True),
    Case(kind="mxf4", m=128, n=8, a="packed", b="packed", sparse=True),
    Case(kind="mxf4nvf4", m=128, n=8, a="packed", b="packed", sparse=True, vector="4X", scale="ue4m3"),
]
LEGAL = [(case, code) for case in SPARSE_KINDS for code in (ref.TF32_CODES if case.kind == "tf32" else ref.SEVEN)]
ILLEGAL = [
    (case, code)
    for case in SPARSE_KINDS
    for code in set(range(16)) - set(ref.TF32_CODES if case.kind == "tf32" else ref.SEVEN)
]
Met = list[tuple[str, int, str]]


def meeting(met: Met) -> Meet:
    def meet(name: str, count: int, where: str, _rule: str = "", /) -> None:
        met.append((name, count, where))

    return meet


@over(("case", "code"), LEGAL, ids=[f"{case.kind}-{code:04b}" for case, code in LEGAL])
def test_every_legal_code(case: Case, code: int) -> None:
    given = ref.operands(case, np.random.default_rng(code))
    assert given.codes is not None
    given.codes[:] = code
    it = scene(case, given)
    it.run("exact")
    it.check(ref.exact(case, given))


def stored_per_chunk(case: Case) -> int:
    return case.stored // case.chunks


@over(("case", "code"), ILLEGAL, ids=[f"{case.kind}-{code:04b}" for case, code in ILLEGAL])
def test_every_undefined_code(case: Case, code: int) -> None:
    """Met with name, number and place, whatever is stored; nothing is written where it is refused."""
    given = ref.operands(case, np.random.default_rng(code))
    assert given.codes is not None
    per = stored_per_chunk(case)
    one = {"tf32": 0x3F800000, "f16": 0x3C00, "i8": 1, "f8f6f4": 0x38, "mxf8f6f4": 0x3C}.get(case.kind, 2)
    zero = 0 if case.kind == "i8" else {"tf32": 1 << 31, "f16": 1 << 15, "mxf4": 8, "mxf4nvf4": 8}.get(case.kind, 128)
    for row, chunk, last in ((37, 5, one), (38, 0, one), (50, 6, zero)):
        given.codes[row, chunk] = code
        given.a[row, per * chunk : per * (chunk + 1)] = [0] * (per - 1) + [last]
    it = scene(case, given)
    with pytest.raises(UndefinedBehavior) as refused:
        it.run()
    assert refused.value.rule == "undefined-metadata"
    assert f"row 37, chunk 5: code 0b{code:04b}" in refused.value.where
    it.untouched()
    met: Met = []
    it.run(meet=meeting(met))
    (found,) = met
    assert found[:2] == ("undefined-metadata", 3)
    assert it.call.form.opcode in found[2]
    assert f"row 37, chunk 5: code 0b{code:04b}" in found[2]
    if case.kind != "tf32":
        it.check(multiplexed(case, given))


def multiplexed(case: Case, given: Operands) -> Words:
    """The exact result if codes steer each stored element by itself, whatever they are (measured for mma.sp on an H100,
    assumed here)."""
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
        return (
            (full.astype(np.int64) @ b.astype(np.int64).T + given.c.astype(np.int32)).astype(np.int32).view(np.uint32)
        )
    return ref.rounded(full @ b.T + ref.values(given.c, case.d), case.d)


@over("case", SPARSE_KINDS, ids=str)
@over("code", [0b0000, 0b0101, 0b1010, 0b1111])
def test_a_chunk_of_zeros_with_equal_indices(case: Case, code: int) -> None:
    """As CUTLASS writes for empty chunks and padding: undefined, and without effect."""
    given = ref.operands(case, np.random.default_rng(code))
    assert given.codes is not None
    where = np.random.default_rng(1).random(given.codes.shape) < 0.3
    given.a[np.repeat(where, stored_per_chunk(case), axis=1)] = 0
    wanted = ref.exact(case, given)
    given.codes[where] = code
    it = scene(case, given)
    met: Met = []
    it.run(meet=meeting(met))
    assert [found[:2] for found in met] == [("undefined-metadata", int(where.sum()))]
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
    """A bit of one copy changed: the case, the operand, lane and column from its base, the bit, and what is said of
    it."""

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
    Spoilt(
        Case(kind="f8f6f4", m=32, n=64, a="e4m3", b="e4m3", sparse=True, ws=True), "sp_meta", 32 + 5, 1, "metadata of"
    ),
    Spoilt(
        Case(kind="f8f6f4", m=32, n=128, a="e4m3", b="e4m3", sparse=True, ws=True), "sp_meta", 96 + 5, 0, "metadata of"
    ),
    Spoilt(
        Case(kind="mxf4", m=128, n=48, a="packed", b="packed", sparse=True), "scale_a", 32 + 7, 3, "scale factors of A"
    ),
    Spoilt(
        Case(kind="mxf4", m=128, n=48, a="packed", b="packed", ids=(2, 2)), "scale_b", 96 + 15, 1, "scale factors of B"
    ),
    Spoilt(Case(kind="mxf8f6f4", m=256, n=256, a="e4m3", b="e4m3", group=2), "scale_b", 64, 7, "scale factors of B"),
    Spoilt(
        Case(kind="mxf8f6f4", m=128, n=128, a="e4m3", b="e4m3", group=2), "scale_b", 96 + 1, 1, "scale factors of B"
    ),
]


@over("spoilt", SPOILT, ids=[f"{s.case}-{s.operand}" for s in SPOILT])
def test_copies_that_differ(spoilt: Spoilt) -> None:
    it = scene(spoilt.case)
    bit = {"a": 0, "sp_meta": 4, "scale_a": 0, "scale_b": 8 * spoilt.case.ids[1]}[spoilt.operand]
    last = it.ctas[-1].tmem.words
    place = spoilt.lane, it.columns[spoilt.operand] + spoilt.column
    last[place] ^= np.uint32(1 << bit)
    if spoilt.operand == "sp_meta":  # by another legal code
        last[place] = last[place] & ~np.uint32(15 << bit) | np.uint32(
            (0b0100 if last[place] >> bit & 15 != 0b0100 else 0b1110) << bit
        )
    it.before[-1] = last.copy()
    met: Met = []
    it.run(meet=meeting(met))
    assert [(name, count) for name, count, _ in met] == [("tmem-copies-differ", 1)]
    assert met[0][2].startswith(spoilt.says)
    assert it.call.form.opcode in met[0][2]
    it.reset()
    with pytest.raises(UndefinedBehavior) as refused:
        it.run()
    assert refused.value.rule == "tmem-copies-differ"
    if len(it.ctas) == 1:
        it.untouched()


@pytest.mark.parametrize(
    "spoilt",
    [s for s in SPOILT if s.operand in ("a", "sp_meta")],
    ids=[str(s.case) for s in SPOILT if s.operand in ("a", "sp_meta")],
)
def test_each_part_of_the_data_path_reads_its_own_copy(spoilt: Spoilt) -> None:
    """What is done where copies differ, once that is met (assumed): the columns of one part alone change."""
    case = spoilt.case
    it = scene(case)
    part, row = divmod(spoilt.lane, case.rows)
    last = it.ctas[-1].tmem.words
    other = replace(it.given, a=it.given.a.copy(), codes=None if it.given.codes is None else it.given.codes.copy())
    place = spoilt.lane, it.columns[spoilt.operand] + spoilt.column
    if spoilt.operand == "a":
        last[place] ^= np.uint32(1)
        other.a[-case.rows + row, spoilt.column * 32 // ref.FORMATS[case.a][0]] ^= np.uint32(1)
    else:  # bits 0 to 3 of a cell: chunk 0 of its row, or with f16 of row r or, 8 lanes higher, chunk 4 of it
        assert other.codes is not None
        f16 = case.kind == "f16"
        r, chunk = (row // 16 * 16 + row % 8, row // 8 % 2 * 4) if f16 else (row, 8 * spoilt.column)
        code = 0b0100 if other.codes[r, chunk] != 0b0100 else 0b1110
        other.codes[r, chunk] = code
        last[place] = last[place] & ~np.uint32(15) | np.uint32(code)
    it.before[-1] = last.copy()
    met: Met = []
    it.run(meet=meeting(met))
    assert [name for name, *_ in met] == ["tmem-copies-differ"]
    wanted, width = ref.exact(case, it.given), case.n // ref.PARTS[case.layout]
    changed = ref.exact(case, other)
    wanted[:, part * width : (part + 1) * width] = changed[:, part * width : (part + 1) * width]
    it.check(wanted)


def test_factors_beyond_n_and_other_bytes_may_differ() -> None:
    """N = 40 reads 8 of the 32 lanes of its second column, and one byte of each; scenes hold random bits elsewhere."""
    case = Case(kind="mxf8f6f4", m=128, n=40, a="e4m3", b="e4m3", ids=(1, 3))
    it = scene(case)
    words, column = it.ctas[0].tmem.words, it.columns["scale_b"]
    assert len({int(words[32 * q + 8, column + 1] >> 24) for q in range(4)}) > 1
    assert len({int(words[32 * q, column] & 0xFFFFFF) for q in range(4)}) > 1
    it.run()
    it.check(ref.exact(case, it.given))


# What is refused


PLAIN = Case(kind="f16", m=128, n=64, sparse=True, tmem=True)
HALF = Case(kind="f16", m=64, n=16, sparse=True, tmem=True, base=16)
PAIRED = Case(kind="f16", m=128, n=32, group=2, sparse=True, tmem=True)
DENSE = Case(kind="f16", m=128, n=64)
SPLIT = Case(kind="f16", m=64, n=64, sparse=True, ws=True)
F8 = Case(kind="f8f6f4", m=128, n=16, a="e4m3", b="e4m3", sparse=True)
I8 = Case(kind="i8", m=128, n=16, a="s8", b="s8", d="s32", sparse=True)
TF32 = Case(kind="tf32", m=128, n=16, a="tf32", b="tf32", majors="MK", swizzles=(1, 2))
MX8 = Case(kind="mxf8f6f4", m=128, n=16, a="e4m3", b="e4m3", sparse=True)
MX4 = Case(kind="mxf4", m=128, n=16, a="packed", b="packed", sparse=True)
NV2 = Case(kind="mxf4nvf4", m=128, n=16, a="packed", b="packed", sparse=True, vector="2X")
NV4 = Case(kind="mxf4nvf4", m=128, n=16, a="packed", b="packed", sparse=True, vector="4X")
LANE = 1 << 16


@dataclass(frozen=True)
class Wrong:
    """A call spoilt: bits of operands flipped (name -> bits) or operands set anew, and what the refusal says."""

    name: str
    case: Case
    says: str
    flip: dict[str, int] | None = None
    put: dict[str, Any] | None = None
    target: str = "sm_100a"


def bits_of(m: int = 0, n: int = 0, wrong_m: int = 0, wrong_n: int = 0, step: int = 4, at: int = 24) -> dict[str, int]:
    """What to flip in an instruction descriptor to have other shapes."""
    return {"idesc": (m >> step ^ wrong_m >> step) << at | (n >> 3 ^ wrong_n >> 3) << 17}


WRONG = [
    # addresses
    Wrong(
        "metadata in the other half",
        HALF,
        "half-mismatch: sp_meta: lane 0, but d is at lane 16",
        flip={"sp_meta": 16 * LANE},
    ),
    Wrong("a in the other half", HALF, "half-mismatch: a: lane 0, but d is at lane 16", flip={"a": 16 * LANE}),
    Wrong(
        "d in the other half",
        HALF,
        "half-mismatch: a: lane 16, but d is at lane 0.*half-mismatch: sp_meta",
        flip={"d": 16 * LANE},
    ),
    Wrong(
        "metadata in the other half of a pair",
        PAIRED,
        "half-mismatch: sp_meta: lane 16, but d is at lane 0",
        flip={"sp_meta": 16 * LANE},
    ),
    Wrong("a in the other half of a pair", PAIRED, "half-mismatch: a: lane 16", flip={"a": 16 * LANE}),
    Wrong("lane 8", HALF, "base-lane: d: lane 24 in layout F; legal: 0 or 16", flip={"d": 8 * LANE}),
    Wrong("lane 32", HALF, "base-lane: sp_meta: lane 48 in layout F; legal: 0 or 16", flip={"sp_meta": 32 * LANE}),
    Wrong("lane 16 in layout D", PLAIN, "base-lane: d: lane 16 in layout D; legal: 0", flip={"d": 16 * LANE}),
    Wrong("a at lane 16 in layout D", PLAIN, "base-lane: a: lane 16 in layout D; legal: 0", flip={"a": 16 * LANE}),
    Wrong(
        "metadata at lane 16 in layout E",
        SPLIT,
        "base-lane: sp_meta: lane 16 in layout E; legal: 0",
        flip={"sp_meta": 16 * LANE},
    ),
    Wrong("lane 128", PLAIN, "lane 128 is outside Tensor Memory", flip={"d": 128 * LANE}),
    Wrong("column 512", PLAIN, "column .* is outside Tensor Memory", put={"a": 512}),
    Wrong(
        "odd column of metadata, f16",
        PLAIN,
        "odd-metadata-column: sp_meta: column .* is not the first of a pair",
        flip={"sp_meta": 1},
    ),
    Wrong("odd column of metadata, f8f6f4", F8, "odd-metadata-column", flip={"sp_meta": 1}),
    # sparsity
    Wrong(
        "dense descriptor with .sp", PLAIN, r"the sparsity bit is 0 in an instruction with \.sp", flip={"idesc": 1 << 2}
    ),
    Wrong(
        "sparse descriptor without .sp",
        DENSE,
        r"the sparsity bit is 1 in an instruction without \.sp",
        flip={"idesc": 1 << 2},
    ),
    Wrong(
        "dense descriptor with .sp, mx",
        MX8,
        r"the sparsity bit is 0 in an instruction with \.sp",
        flip={"idesc": 1 << 2},
    ),
    Wrong("selector of f8f6f4", F8, r"the sparsity selector of \.kind::f8f6f4 must be 0, not 1", flip={"idesc": 1}),
    Wrong("selector of i8", I8, r"the sparsity selector of \.kind::i8 must be 0, not 2", flip={"idesc": 2}),
    Wrong("selector 2", PLAIN, "sparsity selector 2 has no known meaning", flip={"idesc": 2}),
    Wrong("selector 3", PLAIN, "sparsity selector 3 has no known meaning", flip={"idesc": 3}),
    Wrong("sparsity version 1", MX4, "sparsity version 1", flip={"idesc": 1 << 12}),
    # shapes
    Wrong("M = 32 without .ws", PLAIN, "M = 32 with", flip=bits_of(m=128, wrong_m=32)),
    Wrong("M = 256 in one CTA", PLAIN, "M = 256 with", flip=bits_of(m=128, wrong_m=256)),
    Wrong("M = 192", PLAIN, "M = 192 with", flip=bits_of(m=128, wrong_m=192)),
    Wrong("M = 64 in a pair", PAIRED, "M = 64 with", flip=bits_of(m=128, wrong_m=64)),
    Wrong("M = 0", PLAIN, "M = 0 with", flip=bits_of(m=128, wrong_m=0)),
    Wrong("M = 256 of an mx kind in one CTA", MX8, "M = 256 with", flip=bits_of(m=128, wrong_m=256, step=7, at=27)),
    Wrong("N = 0", PLAIN, "N = 0 with", flip=bits_of(n=64, wrong_n=0)),
    Wrong("N = 264", PLAIN, "N = 264 with", flip=bits_of(n=64, wrong_n=264)),
    Wrong("N = 24 in a pair", PAIRED, "N = 24 with", flip=bits_of(n=32, wrong_n=24)),
    Wrong("N = 40 with i8", I8, "N = 40 with", flip=bits_of(n=16, wrong_n=40)),
    Wrong("N = 256 with .ws.sp", SPLIT, "N = 256 with", flip=bits_of(n=64, wrong_n=256)),
    Wrong("N = 32 with .ws", SPLIT, "N = 32 with", flip=bits_of(n=64, wrong_n=32)),
    Wrong(
        "N = 24 with transposed e4m3",
        replace(F8, majors="KM"),
        "N = 24 with 8-bit B transposed",
        flip=bits_of(n=16, wrong_n=24),
    ),
    Wrong("M = 64 with .ashift", replace(PLAIN, ashift=True), r"M = 64 with \.ashift", flip=bits_of(m=128, wrong_m=64)),
    # types and modifiers
    Wrong("type 2 with f16", PLAIN, r"code 2 is no type of \.kind::f16", flip={"idesc": 2 << 7}),
    Wrong("type 2 with f8f6f4", F8, r"code 2 is no type of \.kind::f8f6f4", flip={"idesc": 2 << 10}),
    Wrong(
        "D in f16 of bf16", replace(DENSE, a="bf16", b="bf16"), "D in f16 needs A and B in f16", flip={"idesc": 1 << 4}
    ),
    Wrong("D in s32 of f16", DENSE, r"D of \.kind::f16 cannot be s32", flip={"idesc": 3 << 4}),
    Wrong("D type 3", DENSE, r"D of \.kind::f16 cannot be 3", flip={"idesc": 2 << 4}),
    Wrong("saturate with floats", DENSE, r"\.kind::f16 cannot saturate", flip={"idesc": 1 << 3}),
    Wrong("negate with i8", I8, r"\.kind::i8 cannot negate", flip={"idesc": 1 << 13}),
    Wrong("transpose with mxf4", MX4, r"\.kind::mxf4 cannot transpose", flip={"idesc": 1 << 16}),
    Wrong("transposed A in Tensor Memory", PLAIN, "A in Tensor Memory cannot be transposed", flip={"idesc": 1 << 15}),
    Wrong("a maximum shift without .ws", DENSE, r"a maximum shift without \.ws", flip={"idesc": 1 << 30}),
    Wrong("reserved bit 6", DENSE, "reserved", flip={"idesc": 1 << 6}),
    Wrong("reserved bit 23", DENSE, "reserved", flip={"idesc": 1 << 23}),
    Wrong("bit 29 below sm_107", DENSE, "reserved", flip={"idesc": 1 << 29}),
    Wrong("bit 26 of an mx kind below sm_107", MX8, "reserved", flip={"idesc": 1 << 26}),
    Wrong("i8 on sm_103a", I8, r"sm_103a has no \.kind::i8", target="sm_103a"),
    # block scales
    Wrong("id 1 with two factors", NV2, "scale factor id 1 with 2 factors", flip={"idesc": 1 << 29}),
    Wrong("id 3 with two factors of B", MX4, "scale factor id 3 with 2 factors", flip={"idesc": 3 << 4}),
    Wrong("id 2 with four factors", NV4, "scale factor id 2 with 4 factors", flip={"idesc": 2 << 4}),
    Wrong("ue4m3 with mxf8f6f4", MX8, r"ue4m3 scales with \.kind::mxf8f6f4", flip={"idesc": 1 << 23}),
    Wrong("ue4m3 with mxf4", MX4, r"ue4m3 scales with \.kind::mxf4", flip={"idesc": 1 << 23}),
    Wrong("ue4m3 with two factors", NV2, r"ue4m3 scales with \.kind::mxf4nvf4 2X", flip={"idesc": 1 << 23}),
    Wrong("K = 96, sparse", NV2, "K = 96 is dense only", flip={"idesc": 1 << 31}, target="sm_103a"),
    Wrong("K = 96 on sm_100a", replace(NV2, sparse=False), "sm_100a has no K = 96", flip={"idesc": 1 << 31}),
    Wrong("K = 96", replace(NV2, sparse=False), "K = 96 is not executed", flip={"idesc": 1 << 31}, target="sm_103a"),
    # shared memory descriptors
    Wrong("version 0", DENSE, "bits 46-48 are 0b000", flip={"a": 1 << 46}),
    Wrong("version 3 of B", DENSE, "bits 46-48 are 0b011", flip={"b": 1 << 47}),
    Wrong("bits 53-60", DENSE, "reserved", flip={"b": 1 << 55}),
    Wrong("swizzle 3", DENSE, "swizzle code 3 is invalid", flip={"a": 1 << 61}),
    Wrong("swizzle 7", DENSE, "swizzle code 7 is invalid", flip={"b": 5 << 61}),
    Wrong(
        "absolute leading addresses on sm_100a", DENSE, "sm_100a has no absolute leading address", flip={"b": 1 << 52}
    ),
    Wrong("tf32 transposed in 128B", TF32, r"A transposed with \.kind::tf32 in swizzle 128B", flip={"a": 3 << 61}),
    Wrong(
        "f16 transposed in 32-byte atoms",
        replace(DENSE, majors="MK"),
        r"A transposed with \.kind::f16 in 128B swizzle",
        flip={"a": 3 << 61},
    ),
    Wrong("K-major in 32-byte atoms", DENSE, "K-major B in 128B swizzle with 32B atoms", flip={"b": 3 << 61}),
    Wrong("sparse B in the 32B swizzle", PLAIN, "sparse K-major B needs 64 contiguous bytes", flip={"b": 4 << 61}),
    Wrong("a row that crosses its swizzle", DENSE, "of a 128-byte row of swizzle 128B", flip={"b": 7}),
    Wrong(
        "past the end of shared memory",
        DENSE,
        "the matrix reaches byte",
        put={"b": ref.Place("K", 2, SHARED - 1024, 16, 1024).word},
    ),
    # zero-column masks
    Wrong(
        "a shift above 32",
        replace(SPLIT, zero_mask=8 << 56, max_shift=32),
        "a shift of 40 with M = 64",
        flip={"zero_mask": 32 << 56},
    ),
    Wrong(
        "a shift above 16 with M = 32",
        replace(SPLIT, m=32, zero_mask=16 << 56, max_shift=32),
        "a shift of 17",
        flip={"zero_mask": 1 << 56},
    ),
    Wrong(
        "a shift above its maximum",
        replace(SPLIT, zero_mask=8 << 56, max_shift=8),
        "a shift of 9 beyond",
        flip={"zero_mask": 1 << 56},
    ),
    Wrong(
        "a shift without a maximum",
        replace(SPLIT, zero_mask=8 << 56, max_shift=8),
        "a shift of 8 beyond",
        flip={"idesc": 1 << 30},
    ),
    Wrong("reserved bits of the mask", replace(SPLIT, zero_mask=1 << 39), "reserved", flip={"zero_mask": 1 << 36}),
]


def spoil(it: Scene, flip: dict[str, int] | None, put: dict[str, Any] | None) -> None:
    it.call = replace(
        it.call, **{name: getattr(it.call, name) ^ bits for name, bits in (flip or {}).items()}, **(put or {})
    )


def nothing_happened(it: Scene) -> None:
    it.untouched()
    assert not any(cta.tmem.written.any() or cta.filled for cta in it.ctas)


@over("wrong", WRONG, ids=[w.name for w in WRONG])
def test_wrong_calls_are_refused(wrong: Wrong) -> None:
    it = scene(wrong.case)
    if wrong.target == "sm_100a":
        it.run()  # as it is, it is right
        it = scene(wrong.case)
    spoil(it, wrong.flip, wrong.put)
    with pytest.raises(IsaError, match=wrong.says) as refused:
        it.run(target=wrong.target)
    assert refused.value.legal
    nothing_happened(it)


def test_a_selector_of_an_mx_kind_is_taken_as_0() -> None:
    """PTX ISA 9.0, 9.7.16.10.8.4."""
    plain, selecting = scene(MX8), scene(MX8)
    spoil(selecting, {"idesc": 1}, None)
    plain.run()
    selecting.run()
    words = [[cta.tmem.words for cta in it.ctas] for it in (plain, selecting)]
    assert all((one == other).all() for one, other in zip(*words, strict=True))


def test_unknown_arithmetic_is_refused() -> None:
    it = scene(PLAIN)
    with pytest.raises(IsaError, match="exakt"):
        it.run("exakt")
    nothing_happened(it)


def in_order(patterns: Words, name: str) -> np.ndarray:
    """Numbers of a format by their place in order, a step for each."""
    sign = 15 if name == "f16" else 31
    size = (patterns & np.uint32((1 << sign) - 1)).astype(np.int64)
    return np.where(patterns >> np.uint32(sign), -size, size)


@pytest.mark.parametrize("case", [PLAIN, PAIRED, SPLIT, replace(F8, d="f16"), I8, replace(NV4, scale="ue4m3")], ids=str)
def test_distance_from_the_exact_result(case: Case) -> None:
    it = scene(case)
    assert multiply(it.call, it.ctas, target="sm_100a").largest_ulp == -1
    right, given = ref.exact(case, it.given), chip(case, it.given)
    distance = int(np.abs(in_order(given, case.d) - in_order(right, case.d)).max())
    assert (distance > 0) == (case.d == "f32")
    for arithmetic, wanted in (("chip", distance), ("exact", 0)):
        it.reset()
        found = multiply(it.call, it.ctas, target="sm_100a", arithmetic=arithmetic, compare=True)
        assert (found.largest_ulp, found.error.noise > 0) == (wanted, wanted > 0)
        it.check(right if arithmetic == "exact" else given)


@pytest.mark.parametrize(
    ("case", "given"), [(PLAIN, 2), (PLAIN, 0), (PAIRED, 1)], ids=["one for a pair", "none", "a pair for one"]
)
def test_wrong_number_of_ctas(case: Case, given: int) -> None:
    it = scene(case)
    with pytest.raises(
        IsaError, match=rf"cta_group::{case.group} with CTAs: {given}; legal: a pair of CTAs for cta_group::2"
    ):
        multiply(it.call, [*it.ctas, *it.ctas][:given], target="sm_100a")
    nothing_happened(it)


SCALED = replace(NV4, n=256)


@pytest.mark.parametrize(
    ("case", "operand", "where"),
    [(PLAIN, "d", "D: "), (PLAIN, "a", "A: "), (F8, "sp_meta", "metadata: "),
     (SCALED, "scale_a", "scale factors of a: "), (SCALED, "scale_b", "scale factors of b: ")],
    ids=["d", "a", "sp_meta", "scale_a", "scale_b"],
)  # fmt: skip
def test_tensor_memory_that_is_not_allocated(case: Case, operand: str, where: str) -> None:
    """The last column that an operand needs was never allocated, has been given back, or is past the last of all."""
    width = {"d": case.n, "a": 8, "sp_meta": 2, "scale_a": 4, "scale_b": 8}[operand]
    for name, end in (("tmem-not-allocated", 448), ("tmem-use-after-free", 448), ("tmem-bounds", 512)):
        it = scene(case)
        tmem = it.ctas[0].tmem = TensorMemory()
        for size in (256, 128, 64) if name == "tmem-not-allocated" else (256, 128, 64, 64):
            tmem.allocate(size)
        if name == "tmem-use-after-free":
            tmem.deallocate(448, 64)
        tmem.words[:] = it.before[0]
        first = end - width + 1
        if operand == "sp_meta":  # pairs begin at even columns, so that none reaches past the end
            if name == "tmem-bounds":
                continue
            first = end
        spoil(it, None, {operand: first})
        with pytest.raises(UndefinedBehavior) as refused:
            it.run(meet=lambda *_: None)
        assert refused.value.rule == name
        assert refused.value.where.startswith(where)
        nothing_happened(it)


def test_nothing_is_written_where_the_odd_cta_fails() -> None:
    """A refusal is for the instruction, not for a CTA of it."""
    it = scene(PAIRED)
    odd = it.ctas[1].tmem
    odd.deallocate(0, 512)
    with pytest.raises(UndefinedBehavior, match="tmem-use-after-free"):
        it.run()
    nothing_happened(it)
    it = scene(PAIRED)
    it.ctas[1].tmem.words[:, it.columns["sp_meta"]] = 0
    it.before[1] = it.ctas[1].tmem.words.copy()
    with pytest.raises(UndefinedBehavior, match="undefined-metadata"):
        it.run()
    nothing_happened(it)


@pytest.mark.parametrize("m", [64, 32])
def test_an_undefined_code_counts_once_however_many_copies_there_are(m: int) -> None:
    case = Case(kind="f16", m=m, n=64, sparse=True, ws=True)
    given = ref.operands(case, np.random.default_rng(0))
    assert given.codes is not None
    given.codes[9, 3] = 0b0001
    met: Met = []
    scene(case, given).run(meet=meeting(met))
    assert [(name, count) for name, count, _ in met] == [("undefined-metadata", 1)]


FOREIGN: list[tuple[Case, dict[str, Any], str]] = [
    (replace(DENSE, lanes=(0,) * 4), {"lanes": (0,) * 8}, "a lane mask of 8 words; legal: 4 words"),
    (replace(DENSE, lanes=(0,) * 4), {"lanes": (0,) * 3}, "a lane mask of 3 words; legal: 4 words"),
    (replace(PAIRED, lanes=(0,) * 8), {"lanes": (0,) * 4}, "a lane mask of 4 words; legal: 8 words"),
    (DENSE, {"lanes": (0,) * 4}, "a lane mask of 4 words; legal: none"),
    (SPLIT, {"lanes": (1,) * 4}, "a lane mask of 4 words; legal: none"),
    (MX8, {"lanes": (1,) * 4}, "a lane mask of 4 words; legal: none"),
    (replace(DENSE, scale_d=1), {"scale_d": 16}, "scale-input-d of 16; legal: 0 to 15"),
    (replace(DENSE, scale_d=1), {"scale_d": -1}, "scale-input-d of -1; legal: 0 to 15"),
    (F8, {"scale_d": 1}, "scale-input-d of 1; legal: none"),
    (SPLIT, {"scale_d": 1}, "scale-input-d of 1; legal: none"),
    (DENSE, {"zero_mask": 1 << 39}, "a zero-column mask 0x8000000000; legal: none"),
    (MX8, {"scale_a": 5 * LANE + 400}, "scale_a at lane 5; legal: lane 0"),
    (MX8, {"scale_b": 64 * LANE + 400}, "scale_b at lane 64; legal: lane 0"),
]


@over(("case", "put", "says"), FOREIGN, ids=[f"{case.kind}-{says}" for case, _, says in FOREIGN])
def test_operands_that_the_form_has_not(case: Case, put: dict[str, Any], says: str) -> None:
    it = scene(case)
    spoil(it, None, put)
    with pytest.raises(IsaError, match=says):
        it.run()
    nothing_happened(it)


# Collectors


def collectors(case: Case, operations: list[str], *, spoilt: dict[int, dict[str, Any]] | None = None) -> list[Met]:
    """What one CTA (or pair) meets when the same instruction is executed with these collector qualifiers; results are
    the right ones throughout."""
    it = scene(case)
    wanted, found = None, []
    for i, operation in enumerate(operations):
        it.reset()
        other = replace(case, collector=operation)
        it.call = replace(it.call, form=form(other.ptx))
        old = it.call
        spoil(it, None, (spoilt or {}).get(i))
        met: Met = []
        it.run(meet=meeting(met))
        if it.call == old:
            wanted = ref.exact(case, it.given) if wanted is None else wanted
            it.check(wanted)
        it.call = old
        found.append(met)
    return found


@pytest.mark.parametrize("case", [DENSE, PLAIN, HALF, PAIRED, MX8, I8], ids=str)
def test_collector_of_a(case: Case) -> None:
    fill, use, last, discard = (f"a::{name}" for name in ("fill", "use", "lastuse", "discard"))
    right = collectors(case, [fill, use, use, last, fill, last, fill, discard, fill, "", discard, fill, fill, use])
    assert right == [[]] * 14
    found = collectors(case, [use, fill, last, use, fill, discard, use, fill, "", last])
    names = [[name for name, _, _ in met] for met in found]
    bad = ["collector-use-without-fill"] * case.group
    # 0: never filled; 3: used for the last time before; 6: discarded; 9: nothing written means discard
    assert names == [bad, [], [], bad, [], [], bad, [], [], bad]
    assert all("a::" in where and case.kind in where and count == 1 for met in found for _, count, where in met)


def test_collector_holds_the_operand_that_filled_it() -> None:
    other = ref.Place("K", 2, 8 << 10, 0x30, 1024).word
    found = collectors(DENSE, ["a::fill", "a::use"], spoilt={1: {"a": other}})
    assert [len(met) for met in found] == [0, 1]
    found = collectors(
        DENSE, ["a::fill", "a::use"], spoilt={1: {"b": ref.Place("K", 2, 24 << 10, 0x30, 1024).word}}
    )  # another B: what it is for
    assert found == [[], []]


@pytest.mark.parametrize("case", [SPLIT, replace(SPLIT, m=32, tmem=True), replace(SPLIT, m=128, sparse=False)], ids=str)
def test_collectors_of_b(case: Case) -> None:
    assert (
        collectors(
            case,
            [
                "b0::fill",
                "b1::fill",
                "b3::fill",
                "b1::use",
                "b0::lastuse",
                "b3::use",
                "b1::lastuse",
                "b3::discard",
                "b2::fill",
            ],
        )
        == [[]] * 9
    )
    found = collectors(case, ["b0::fill", "b1::use", "b0::use", "", "b0::use", "b2::fill", "", "b2::use"])
    assert [len(met) for met in found] == [0, 1, 0, 0, 1, 0, 0, 0]  # without a qualifier it is b0::discard
    assert "collector b1::use" in found[1][0][2]


def test_a_refused_instruction_leaves_the_collector_as_it_was() -> None:
    it = scene(PLAIN)
    fill = it.call = replace(it.call, form=form(replace(PLAIN, collector="a::fill").ptx))
    it.run()
    held = dict(it.ctas[0].filled)
    assert held
    for operation, spoilt in (("a::discard", {"d": 500}), ("a::lastuse", {"d": 500}), ("a::fill", {"a": 508})):
        it.call = replace(fill, form=form(replace(PLAIN, collector=operation).ptx), **spoilt)  # type: ignore[arg-type]
        with pytest.raises(UndefinedBehavior, match="tmem-bounds"):
            it.run()
        assert it.ctas[0].filled == held


def test_collector_without_fill_is_refused_by_default() -> None:
    it = scene(replace(PLAIN, collector="a::lastuse"))
    with pytest.raises(UndefinedBehavior, match="collector-use-without-fill"):
        it.run()
    nothing_happened(it)


# Masks, scales and shifts


@pytest.mark.parametrize(
    "case",
    [
        Case(kind="f16", m=128, n=24), Case(kind="i8", m=64, n=16, a="u8", b="s8", d="s32", sparse=True, base=16), HALF,
        Case(kind="f8f6f4", m=128, n=16, a="e2m1", b="e2m3", d="f16", sparse=True, tmem=True),
        Case(kind="tf32", m=256, n=16, a="tf32", b="tf32", group=2),
        Case(kind="f16", m=128, n=32, a="bf16", b="bf16", group=2), Case(kind="f16", m=128, n=16, group=2,
        sparse=True), replace(PAIRED, base=16),
    ],
    ids=str,
)  # fmt: skip
def test_lane_masks(case: Case) -> None:
    rng = np.random.default_rng(4)
    masks = [tuple(rng.integers(0, 1 << 32, 4 * case.group).tolist()) for _ in range(2)]
    masks += [
        (0xFFFFFFFF,) * (4 * case.group),
        (0,) * (4 * case.group),
        (1, 0, 0, 1 << 31) * case.group,
        (*[0xFFFFFFFF] * 4, *[0] * 4)[: 4 * case.group],
    ]
    wanted = None
    for lanes in masks:
        it = scene(replace(case, lanes=lanes), seed=5)
        wanted = ref.exact(case, it.given) if wanted is None else wanted
        it.run()
        it.check(wanted)
    assert (
        it.case.group == 1 or (it.ctas[1].tmem.words != it.before[1]).any()
    )  # the last mask is for the even CTA alone
    assert (it.ctas[0].tmem.words == it.before[0]).all()


@over("scale_d", range(16))
def test_every_scale_of_d(scale_d: int) -> None:
    for case in (
        Case(kind="f16", m=64, n=8, d="f16", sparse=True),
        Case(kind="tf32", m=128, n=16, a="tf32", b="tf32", group=2),
    ):
        it = scene(replace(case, scale_d=scale_d))
        it.run("chip")
        it.check(chip(it.case, it.given))
        it.reset()
        it.run("exact")
        it.check(chip(it.case, it.given, "exact"))


@pytest.mark.parametrize("d", ["f16", "f32"])
def test_a_scaled_d_that_becomes_subnormal_is_rounded_to_nearest_even(d: str) -> None:
    """Assumed: no source says what happens there. A is zero, so that D is what is left of it."""
    case = Case(kind="f16", m=64, n=64, d=d, scale_d=3)
    given = any_bits(case, np.random.default_rng(6), finite=True)
    given.a[:] = 0
    exponent, fraction = ref.FORMATS[d][1:3]
    given.c[:, ::2] &= np.uint32(1 << exponent + fraction | (4 << fraction) - 1)  # near the smallest numbers
    it = scene(case, given)
    it.run("exact")
    wanted = [ref.nearest(ref.Fraction(x) / 8, d) for x in ref.values(given.c, d).ravel().tolist()]  # type: ignore[attr-defined]
    # a zero has no sign left, a negative number that vanishes is an exact zero by then
    it.check(np.array([0 if w == 1 << exponent + fraction else w for w in wanted], np.uint32).reshape(given.c.shape))


def test_enable_input_d_false_ignores_d() -> None:
    """NaN in D included, and a scale of it."""
    for case in (replace(PLAIN, enable=False), replace(DENSE, enable=False, scale_d=3), replace(SPLIT, enable=False)):
        given = ref.operands(case, np.random.default_rng(2))
        given.c[:] = 0x7FC00000
        it = scene(case, given)
        for arithmetic in ("exact", "chip"):
            it.run(arithmetic)
            it.check(ref.exact(case, given) if arithmetic == "exact" else chip(case, given))
            it.reset()


def mask_word(starts: tuple[int, ...], firsts: int, skip: int, use: int, shift: int = 0) -> int:
    return sum(s << 8 * i for i, s in enumerate(starts)) | firsts << 32 | 1 << 39 | skip << 40 | use << 48 | shift << 56


MASKS = [
    mask_word((0, 0, 0, 0), 0, 2, 3), mask_word((2, 1, 5, 0), 0b0101, 2, 3), mask_word((0, 7, 255, 3), 0b1111, 0, 0, 8),
    mask_word((9, 0, 1, 200), 0b0010, 255, 6, 16), mask_word((1, 2, 3, 4), 0b1000, 15, 255, 5), 13 << 56,
]  # fmt: skip


@over("mask", MASKS, ids=hex)
@over("m", [32, 64, 128], distinct=alike)
def test_zero_column_masks_and_shifts(m: int, mask: int) -> None:
    shift = {0: 0, 5: 8, 8: 8, 13: 16, 16: 16}[mask >> 56]
    for case in (
        Case(kind="f16", m=m, n=64, sparse=True, ws=True, majors="KM", negate=(False, True)),
        Case(kind="i8", m=m, n=256, a="s8", b="u8", d="s32", ws=True),
        Case(kind="f8f6f4", m=m, n=128, a="e4m3", b="e2m1", sparse=True, ws=True, tmem=True, swizzles=(0, 0)),
    ):  # fmt: skip
        run_both(replace(case, zero_mask=mask, max_shift=shift))


def test_the_largest_shifts() -> None:
    run_both(replace(SPLIT, zero_mask=32 << 56, max_shift=32))
    run_both(replace(SPLIT, m=32, zero_mask=mask_word((0, 1, 2, 3), 0, 7, 7, 16), max_shift=16))


def test_a_masked_column_is_zero_whatever_is_in_memory() -> None:
    case = replace(SPLIT, zero_mask=mask_word((0, 0, 0, 0), 0b0001, 31, 255), negate=(False, True))
    given = ref.operands(case, np.random.default_rng(3))
    given.b[:32] = 0x7E00  # NaN, in all columns that are zeroed
    it = scene(case, given)
    it.run("chip")
    it.check(chip(case, given))
    zero = ref.values(given.c[:, 0], "f32") == 0
    assert (it.ctas[0].tmem.words[:64, it.columns["d"]] == np.where(zero, 0, given.c[:, 0])).all()


@over(("kind", "a"), [("f16", "bf16"), ("tf32", "tf32"), ("f8f6f4", "e3m2"), ("i8", "s8")])
@over("sparse", [False, True], ids=["dense", "sparse"])
@over("group", [1, 2])
def test_ashift(kind: str, a: str, sparse: bool, group: int) -> None:
    """Row r takes row r + 1 of A, the last of a CTA its own (direction and extent: assumed); metadata stay."""
    d = "s32" if kind == "i8" else "f32"
    for collector in ("", "a::lastuse", "a::discard"):
        case = Case(
            kind=kind,
            m=128 * group,
            n=32,
            a=a,
            b=a,
            d=d,
            group=group,
            sparse=sparse,
            tmem=True,
            ashift=True,
            collector=collector,
        )
        it = scene(case)
        if collector == "a::lastuse":
            it.call = replace(it.call, form=form(replace(case, ashift=False, collector="a::fill").ptx))
            it.run()
            it.reset()
            it.call = replace(it.call, form=form(case.ptx))
        it.run()
        it.check(ref.exact(case, it.given))


# Several instructions along K


STEPS = 4
LOOPS = [
    Case(kind="f16", m=128, n=64, sparse=True),
    Case(kind="f16", m=64, n=64, sparse=True, base=16, tmem=True),
    Case(kind="f16", m=256, n=64, group=2, sparse=True),
    Case(kind="f16", m=128, n=64),
    Case(kind="f16", m=128, n=64, group=2, tmem=True),
    Case(kind="tf32", m=128, n=32, a="tf32", b="tf32", sparse=True),
    Case(kind="i8", m=128, n=64, a="s8", b="s8", d="s32", group=2, sparse=True),
    Case(kind="f8f6f4", m=64, n=64, a="e4m3", b="e5m2", sparse=True, ws=True),
    Case(kind="mxf4nvf4", m=128, n=64, a="packed", b="packed", sparse=True, vector="4X", scale="ue4m3"),
    Case(kind="mxf8f6f4", m=256, n=64, a="e4m3", b="e4m3", group=2, sparse=True),
]


@over("case", LOOPS, ids=str)
@over("arithmetic", ["chip", "exact"], distinct=alike)
def test_a_loop_along_k(case: Case, arithmetic: str) -> None:
    """Four instructions over one tile of shared memory in 128B swizzle, its descriptors advanced by bytes, as CUTLASS
    does.

    A row of A takes 32 bytes an instruction, one row of the swizzle for all; a column of a sparse B takes 64, two
    atoms. Metadata: one pair of columns for two instructions with f16 and tf32, told by the selector. Small whole
    numbers: no sum is rounded, so that the loop must give the product of the whole matrices.
    """
    rng = np.random.default_rng(zlib.crc32(str(case).encode()))
    parts = [small(case, rng) for _ in range(STEPS)]
    it = scene(case, parts[0])
    row_bytes = {part: 64 if case.sparse and part else 32 for part in (0, 1)}
    starts, meta, scaled = (AT_A, AT_B), 440, 456
    for rank, cta in enumerate(it.ctas):
        mine = (
            slice(rank * case.rows, (rank + 1) * case.rows),
            slice(rank * (case.n // case.group), (rank + 1) * (case.n // case.group)),
        )
        for operand, name in enumerate((case.a, case.b)):
            whole = np.concatenate([(p.a, p.b)[operand][mine[operand]] for p in parts], axis=1)
            columns = 128 * whole.shape[1] // (row_bytes[operand] * STEPS)  # elements in a row of the swizzle
            for atom in range(whole.shape[1] // columns):
                at = ref.Place("K", 2, starts[operand] + atom * whole.shape[0] * 128, 16, 1024)
                ref.store(cta.shared, at, whole[:, atom * columns : (atom + 1) * columns], name)
        for step, part in enumerate(parts):
            if case.tmem:
                ref.put_a(cta.tmem.words, case, part.a[mine[0]], 400 + 8 * step)
            if part.codes is not None:
                column, selector = place_of_codes(case, step, meta)
                ref.put_codes(cta.tmem.words, case, part.codes[mine[0]], column, selector)
            if part.scale_a is not None and part.scale_b is not None:
                ref.put_scales(cta.tmem.words, case, part.scale_a[mine[0]], scaled + 8 * step, "a")
                ref.put_scales(cta.tmem.words, case, part.scale_b, scaled + 8 * step + 4, "b")
    it.before = [cta.tmem.words.copy() for cta in it.ctas]
    for step in range(STEPS):
        column, selector = place_of_codes(case, step, meta)
        b = step * row_bytes[1]
        b = AT_B + b // 128 * (case.n // case.group) * 128 + b % 128
        it.call = replace(
            it.call,
            a=case.base << 16 | 400 + 8 * step if case.tmem else ref.Place("K", 2, AT_A + 32 * step, 16, 1024).word,
            b=ref.Place("K", 2, b, 16, 1024).word,
            idesc=replace(case, selector=selector).idesc,
            sp_meta=case.base << 16 | column,
            scale_a=scaled + 8 * step,
            scale_b=scaled + 8 * step + 4,
        )
        it.run(arithmetic)
    it.check(whole_product(case, parts))


def place_of_codes(case: Case, step: int, first: int) -> tuple[int, int]:
    """Column and selector of the metadata of a step."""
    return (
        (first + 2 * (step // 2), step % 2) if case.kind in ("f16", "tf32") and case.sparse else (first + 2 * step, 0)
    )


def small(case: Case, rng: np.random.Generator) -> Operands:
    """Whole numbers from -4 to 4, and factors 1, 2 and 4."""
    given = ref.operands(case, rng)
    for name, what in (("a", case.a), ("b", case.b), ("c", case.d)):
        whole = rng.integers(-4, 5, getattr(given, name).shape)
        setattr(given, name, whole_numbers(whole, what))
    if given.scale_a is not None and given.scale_b is not None:
        one, doubled = (0x38, 8) if case.scale == "ue4m3" else (127, 1)
        for name in ("scale_a", "scale_b"):
            setattr(given, name, (one + doubled * rng.integers(0, 3, getattr(given, name).shape)).astype(np.uint32))
    return given


def whole_numbers(whole: np.ndarray, name: str) -> Words:
    """Patterns of small whole numbers, found among all patterns of a type."""
    if name in ("s8", "s32"):
        return (whole & (255 if name == "s8" else 0xFFFFFFFF)).astype(np.uint32)
    if ref.FORMATS[name][0] == 32:
        return whole.astype(np.float32).view(np.uint32)
    return np.vectorize(small_numbers(name).__getitem__, otypes=[np.uint32])(whole)


@cache
def small_numbers(name: str) -> dict[float, int]:
    """The patterns of the numbers up to 4 of a type of at most 16 bits."""
    every = np.arange(1 << ref.FORMATS[name][0], dtype=np.uint32)
    return {
        value: pattern
        for pattern, value in zip(every.tolist(), ref.values(every, name).tolist(), strict=True)
        if abs(value) <= 4
    }


def whole_product(case: Case, parts: list[Operands]) -> Words:
    """C and the products of all parts, in float64."""
    total = ref.values(parts[0].c, case.d)
    for part in parts:
        a, b = ref.values(part.a, case.a), ref.values(part.b, case.b)
        a = a if part.codes is None else ref.expand(a, part.codes, case.kind)
        if part.scale_a is not None and part.scale_b is not None:
            each = case.k // case.factors
            a = a * np.repeat(ref.values(part.scale_a, case.scale), each, axis=1)
            b = b * np.repeat(ref.values(part.scale_b, case.scale), each, axis=1)
        total = total + a @ b.T
    assert (np.abs(total) < 1 << 24).all()
    assert (total == np.rint(total)).all()
    return total.astype(np.int64).astype(np.int32).view(np.uint32) if case.d == "s32" else ref.rounded(total, case.d)
