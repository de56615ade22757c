"""The exact results of whole traces beside the chip's: accumulators that go from one matrix instruction to the next are
carried exactly, and rounded once where something else reads them. Against Python fractions."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import isa
import simulator
from isa.types import B1, F64, SCALE_TYPES, ElementType
from simulator.arithmetic import sum_row, ulp_distance
from simulator.simulation.distance import Distance
from simulator.state.carried import CarryingTensorMemory
from tests.golden import reference
from tests.simulator.arithmetic.test_exact import draw
from tests.simulator.execute.test_tcgen05 import WIDE, Scene, any_bits, scene
from tests.support import tcgen05_reference as ref
from tests.support.cases import examples, exhaustive, over
from tests.support.small_traces import program, save
from tests.support.tcgen05_reference import Case

Tcsim = Callable[..., tuple[int, str, str]]
Array = NDArray[Any]
FORMS = list(isa.mma_forms().values())
TARGETS = ("sm_90a", "sm_120a", "sm_100a", "sm_80", "sm_75", "sm_70")
PTX_LATER = "9.1"  # than what traces are judged by
SETS, ROUNDS = 4, 16  # operands of four instructions, 16 times over: a chain of 64
F16 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
CHAIN = f"{F16} {{%r0, %r1, %r2, %r3}}, {{%r4, %r5, %r6, %r7}}, {{%r8, %r9}}, {{%r0, %r1, %r2, %r3}};"


def target_of(form: isa.MmaForm) -> str:
    """A target that has the form and whose arithmetic is known."""
    for name in TARGETS:
        target = isa.parse_target(name)
        if form.supports(target):
            if form.a_type.is_float:
                sum_row(form, target)
            return name
    raise AssertionError(form)


# Operands


def numbers(rng: np.random.Generator, element: ElementType, shape: tuple[int, ...], kind: str) -> Array:
    """Patterns: finite numbers of any size, or near one; any integers."""
    if element is B1:
        return rng.integers(0, 2, shape, dtype=np.uint32)
    if element is F64:
        scale = 2.0 ** rng.integers(-900, 900 if kind == "finite" else -899, shape) if kind == "finite" else 1.0
        return np.asarray(rng.standard_normal(shape) * scale).view(np.uint64)
    return draw(rng, kind if element.is_float else "bits", element, shape)


def negated(patterns: Array, element: ElementType) -> Array:
    """The same numbers with the other sign; integers as they are."""
    return patterns ^ patterns.dtype.type(1 << element.sign_bit) if element.is_float else patterns


@lru_cache(maxsize=1 << 16)
def value(pattern: int, element: ElementType, unit: int) -> int:
    """What a pattern stands for, in units of 2 to the minus `unit`."""
    if not element.is_float:
        signed = element.name.startswith("s") and pattern >> (element.bits - 1)
        return (pattern - (1 << element.bits) if signed else pattern) << unit
    kind, sign, magnitude, _ = reference.read(pattern, element)
    assert kind == "number"
    whole = magnitude.fraction() * 2**unit
    assert whole.denominator == 1
    return -int(whole) if sign else int(whole)


def values(patterns: Array, element: ElementType, unit: int) -> Array:
    """Python's integers, of the same shape."""
    return np.vectorize(lambda pattern: value(int(pattern), element, unit), otypes=[object])(patterns)


def rounded(total: Fraction, element: ElementType, saturate: bool) -> int:
    """Rounded once to nearest even; integers wrap or saturate once."""
    if not element.is_float:
        whole = int(total)
        return (min(max(whole, -(2**31)), 2**31 - 1) if saturate else whole) & 0xFFFFFFFF
    return reference.write(total, element, nearest=True) | (1 << (element.bits - 1) if total < 0 else 0)


class Chain:
    """64 instructions of one form, one accumulator. Of four sets of operands the second is near nothing of the others:
    its products are as large as they can be, and the fourth's cancel them."""

    def __init__(self, form: isa.MmaForm, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.form, self.unit = form, 1100 if form.a_type is F64 else 160  # below every number's last bit
        self.sets: list[dict[str, Array]] = []
        for i in range(SETS):
            wide = "finite" if i % 2 else "near one"
            given = {
                name: numbers(rng, element, getattr(form, name).shape, wide)
                for name, element in (("a", form.a_type), ("b", form.b_type))
            }
            if form.sparse:
                given["e"] = rng.choice(np.array(form.metadata.codes, np.uint32), form.metadata.shape)
            if form.row.scale:
                top = {"ue8m0": (90, 160), "ue4m3": (0, 127)}[form.scale_a.type.name]
                given |= {n: rng.integers(*top, getattr(form, n).shape, np.uint32) for n in ("scale_a", "scale_b")}
            if i == 3:
                given = {**self.sets[1], "a": negated(self.sets[1]["a"], form.a_type)}
            self.sets.append(given)
        self.c = numbers(rng, form.c_type, form.c.shape, "near one")
        if not form.c_type.is_float:
            self.c = (self.c >> np.uint32(20)) + np.uint32(2**31 - 4096)  # near the end of the range

    def text(self) -> tuple[str, dict[str, Array]]:
        """The trace, and its data."""
        form, wide = self.form, self.form.d_type is F64
        prefix, names = "%rd" if wide else "%r", {}
        arrays, loads, lines = {"c": form.c.scatter(self.c)}, [f'.load {prefix}0, "data.npz", "c";'], []
        free, single = 8, 200

        def vector(first: int, count: int) -> str:
            return "{" + ", ".join(f"{prefix}{first + i}" for i in range(count)) + "}"

        d = vector(0, form.d.registers)
        for i, given in enumerate(self.sets):
            for name in "ab":
                fragment = getattr(form, name)
                arrays[f"{name}{i}"] = fragment.scatter(given[name])
                loads.append(f'.load {prefix}{free}, "data.npz", "{name}{i}";')
                names[name] = vector(free, fragment.registers)
                free += fragment.registers
            for name in given.keys() - {"a", "b"}:
                arrays[f"{name}{i}"] = self.words(name, given[name])
                loads.append(f'.load %r{single}, "data.npz", "{name}{i}";')
                names[name] = f"%r{single}"
                single += 1
            rest = f", {names['e']}, 0x0" if form.sparse else ""
            rest += f", {names['scale_a']}, {{0, 0}}, {names['scale_b']}, {{0, 0}}" if form.row.scale else ""
            lines.append(f"{form.opcode} {d}, {names['a']}, {names['b']}, {d}{rest};")
        head = f".trace 1\n.target {target_of(form)}\n"
        body = f".repeat {ROUNDS} {{ {' '.join(lines)} }}"
        end = f'.store "d", {prefix}0, {form.d.registers};'
        return program(head, body, top="\n".join(loads), end=end), arrays

    def words(self, name: str, patterns: Array) -> Array:
        """The register of the metadata or of scale factors."""
        if name == "e":
            return self.form.metadata.scatter(patterns, 0)[None]
        scales = self.form.scale_a if name == "scale_a" else self.form.scale_b
        return scales.scatter(patterns, 0, 0)[None]

    def products(self, given: dict[str, Array]) -> Array:
        """The sum of an instruction's products, [row, column] of D, in units of 2 to the minus 4 `unit`."""
        form, unit = self.form, self.unit
        a, b = given["a"], given["b"]
        if form.sparse:
            a = isa.expand(a[None], given["e"][None], form.metadata.sparsity)[0]
        left, right = values(a, form.a_type, unit), values(b, form.b_type, unit)
        if form.row.operation == "xor.popc":
            ones = left.sum(axis=1)[:, None] + right.sum(axis=0)[None] << unit
            return ones - 2 * (left @ right) << 2 * unit
        if form.row.scale:
            x, y = (values(given[n], SCALE_TYPES[form.scale_a.type.name], unit) for n in ("scale_a", "scale_b"))
            left = left * np.repeat(x, form.k // x.shape[1], axis=1)
            right = right * np.repeat(y, form.k // y.shape[1], axis=1).T
        else:
            right = right << 2 * unit
        if form.blocks == 1:
            return left @ right
        m, n = form.m, form.n
        parts = [left[m * i : m * i + m] @ right[:, n * i : n * i + n] for i in range(form.blocks)]
        return np.concatenate(parts)

    def wanted(self) -> Array:
        """D, registers."""
        form, unit = self.form, self.unit
        every = np.sum([self.products(given) for given in self.sets], axis=0)
        total = (values(self.c, form.c_type, unit) << 3 * unit) + ROUNDS * every
        fractions = [Fraction(x, 1 << 4 * unit) for x in total.ravel()]
        patterns = np.array([rounded(x, form.d_type, form.saturate) for x in fractions], np.uint64).reshape(total.shape)
        return form.d.scatter(patterns.astype(self.c.dtype))


def by_types(form: isa.MmaForm) -> Hashable:
    """Forms alike in all that their sums depend on, but for their size, the type of B and signs of integers."""
    a = form.a_type.name if form.a_type.is_float else form.a_type.bits
    return (a, form.d_type.name, form.sparse, form.blocks, form.saturate, form.row.operation, form.row.scale)


CHAINED = [form for form in FORMS if form.c_type == form.d_type and form.since_ptx != PTX_LATER]


@over(
    "form", CHAINED, ids=lambda form: form.opcode, distinct=lambda form: (form.a_type.bits, form.d_type, form.row.scale)
)
def test_a_chain_of_64_is_rounded_once(tmp_path: Path, form: isa.MmaForm) -> None:
    """Every row of `mma` and `mma.sp`, every element."""
    chain = Chain(form)
    text, arrays = chain.text()
    report = simulator.run(save(tmp_path, text, **arrays), None, exact=True, compare=0)
    assert report.exact["d"][0].tolist() == chain.wanted().tolist()
    differing = form.d.gather(report.arrays["d"][0]) != form.d.gather(report.exact["d"][0])
    distance = report.distances["d"]
    assert (distance.elements, distance.differing) == (differing.size, int(differing.sum()))
    assert distance.types == (form.d_type.name,)
    if form.a_type.is_float and form.a_type.bits > 8:  # large products that cancel cost the chip everything
        assert distance.largest_ulp is not None
        assert distance.largest_ulp > 1000


# Who reads and who writes an accumulator


def four(rng: np.random.Generator) -> tuple[dict[str, Array], list[Array]]:
    """Operands of m16n8k16 in four sets, registers of A and B; and the fractions of C and of each set's products."""
    form = isa.mma_form(F16)
    chain = Chain(form, int(rng.integers(1 << 30)))
    for given in chain.sets:
        for name in "ab":
            given[name] = numbers(rng, form.a_type, given[name].shape, "near one")
    arrays = {"c": form.c.scatter(chain.c)}
    for i, given in enumerate(chain.sets):
        arrays[f"x{i}"] = np.concatenate([form.a.scatter(given["a"]), form.b.scatter(given["b"])])
    parts = [values(chain.c, form.c_type, chain.unit) << 3 * chain.unit, *map(chain.products, chain.sets)]
    return arrays, [np.vectorize(lambda x: Fraction(x, 1 << 4 * chain.unit), otypes=[object])(part) for part in parts]


def to_f32(total: Array) -> Array:
    """Fractions, rounded once: patterns."""
    f32 = isa.element_type("f32")
    return np.array([rounded(x, f32, False) for x in total.ravel()], np.uint32).reshape(total.shape)


def of_f32(patterns: Array) -> Array:
    """Fractions of f32 patterns."""
    f32 = isa.element_type("f32")
    return np.vectorize(lambda x: Fraction(value(int(x), f32, 160), 1 << 160), otypes=[object])(patterns)


def mma(i: int, d: int = 0, c: int = 0) -> str:
    """An instruction on operand set i, with D and C from these registers on."""
    first = 16 + 6 * i
    parts = [list(range(start, start + count)) for start, count in ((d, 4), (first, 4), (first + 4, 2), (c, 4))]
    return f"{F16} {', '.join('{' + ', '.join(f'%r{j}' for j in part) + '}' for part in parts)};"


def run_four(tmp_path: Path, arrays: dict[str, Array], *lines: str, **how: Any) -> simulator.Report:
    """The report of these lines, with C in %r0 to %r3 and the operand sets from %r16 on; %r0 to %r15 are stored."""
    top = '.load %r0, "data.npz", "c";\n' + "\n".join(f'.load %r{16 + 6 * i}, "data.npz", "x{i}";' for i in range(4))
    text = program(".trace 1\n.target sm_90a\n", "\n".join(lines), 1, 1024, top, '.store "d", %r0, 16;')
    return simulator.run(save(tmp_path, text, **arrays), None, **how)


def registers(report: simulator.Report, first: int) -> Array:
    """Four registers of the exact result as D [row, column]."""
    return isa.mma_form(F16).d.gather(np.ascontiguousarray(report.exact["d"][0, first : first + 4]))


def test_four_instructions_that_are_rounded_four_times_give_another_result(tmp_path: Path) -> None:
    """What exact sums of single instructions give is not the exact result."""
    arrays, parts = four(np.random.default_rng(1))
    report = run_four(tmp_path, arrays, *(mma(i) for i in range(4)))
    assert (registers(report, 0) == to_f32(np.sum(parts, axis=0))).all()
    form = isa.mma_form(F16)
    d = arrays["c"][None]
    for i in range(4):
        d = simulator.mma(F16, arrays[f"x{i}"][None, :4], arrays[f"x{i}"][None, 4:], d, "sm_90a", arithmetic="exact")
    assert (form.d.gather(d[0]) != registers(report, 0)).any()
    alone = run_four(tmp_path, arrays, *(mma(i) for i in range(4)), arithmetic="exact")
    assert (alone.arrays["d"] == report.exact["d"]).all()
    assert alone.exact["d"] is alone.arrays["d"]
    assert not alone.distances


def test_a_reader_gets_the_rounded_number_and_the_accumulator_goes_on_exactly(tmp_path: Path) -> None:
    """What a move or an addition made of it goes on from the rounded number."""
    arrays, (c, *p) = four(np.random.default_rng(2))
    moves = [f"mov.b32 %r{4 + j}, %r{j};" for j in range(4)]
    report = run_four(tmp_path, arrays, mma(0), mma(1), *moves, mma(2), mma(2, 8, 4))
    once = c + p[0] + p[1]
    assert (registers(report, 0) == to_f32(once + p[2])).all()
    assert (registers(report, 4) == to_f32(once)).all()
    moved = to_f32(of_f32(to_f32(once)) + p[2])
    assert (registers(report, 8) == moved).all()
    assert (moved != registers(report, 0)).any()


def test_shared_memory_gets_the_rounded_number(tmp_path: Path) -> None:
    arrays, (c, *p) = four(np.random.default_rng(3))
    lines = ["mov.u32 %r15, %laneid;", "shl.b32 %r15, %r15, 4;"]
    there = [f"st.shared.b32 [%r15+{4 * j}], %r{j};" for j in range(4)]
    back = [f"ld.shared.b32 %r{4 + j}, [%r15+{4 * j}];" for j in range(4)]
    report = run_four(tmp_path, arrays, *lines, mma(0), *there, *back, mma(1, 4, 4), mma(1))
    assert (registers(report, 4) == to_f32(of_f32(to_f32(c + p[0])) + p[1])).all()
    assert (registers(report, 0) == to_f32(c + p[0] + p[1])).all()


def test_what_is_overwritten_is_not_carried(tmp_path: Path) -> None:
    """Not even by the same bits, and lane by lane."""
    arrays, (c, *p) = four(np.random.default_rng(4))
    lines = [*(f"mov.b32 %r{8 + j}, %r{j};" for j in range(4)), "mov.u32 %r15, %laneid;", "setp.lt.u32 %p0, %r15, 16;"]
    same = [f"@%p0 mov.b32 %r{j}, %r{j};" for j in range(4)]
    zero = [f"mov.b32 %r{8 + j}, 0;" for j in range(4)]
    report = run_four(tmp_path, arrays, *lines, mma(0), *same, mma(1), mma(0, 8, 8), *zero, mma(1, 8, 8))
    carried, over = to_f32(c + p[0] + p[1]), to_f32(of_f32(to_f32(c + p[0])) + p[1])
    lane, _, _ = isa.mma_form(F16).d.mapping.grid
    assert (registers(report, 0) == np.where(lane < 16, over, carried)).all()
    assert (carried != over)[lane < 16].any()
    assert (registers(report, 8) == to_f32(p[1])).all()


def test_an_accumulator_may_go_to_other_registers(tmp_path: Path) -> None:
    """D and C need not be the same registers, nor overlap whole."""
    arrays, (c, *p) = four(np.random.default_rng(5))
    report = run_four(tmp_path, arrays, mma(0, 4, 0), mma(1, 5, 4), mma(2, 9, 4))
    first, second = to_f32(c + p[0]), to_f32(c + p[0] + p[1])
    assert (registers(report, 5) == second).all()
    mixed = isa.mma_form(F16).d.scatter(first)[0], *isa.mma_form(F16).d.scatter(second)[:3]
    assert report.exact["d"][0, 4].tolist() == mixed[0].tolist()
    # C of the last one: register 4 of the first sum, then three registers of the second.
    form = isa.mma_form(F16)
    _, register, _ = form.d.mapping.grid
    lane_of = np.where(register == 0, (c + p[0]), 0)
    shifted = np.zeros((4, 32), object)
    lane, index, _ = form.d.mapping.grid
    shifted[index, lane] = c + p[0] + p[1]
    taken = np.where(register == 0, lane_of, shifted[np.maximum(index - 1, 0), lane])
    assert (registers(report, 9) == to_f32(taken + p[2])).all()


def test_carries_are_brought_up_before_a_limb_overflows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After every third instruction in place of every 16,384th: the same sums, of both signs."""
    arrays, (c, *p) = four(np.random.default_rng(7))
    monkeypatch.setattr("simulator.arithmetic.superaccumulator._UNTIL_CARRY", 3)
    report = run_four(tmp_path, arrays, ".repeat 5 {", mma(0), mma(1), "}")
    assert (registers(report, 0) == to_f32(c + 5 * (p[0] + p[1]))).all()


def test_types_and_instructions_may_change_on_the_way(tmp_path: Path) -> None:
    """bf16 after f16, sparse after dense, into the same accumulator of f32; constants as C start a new one."""
    arrays, (c, *p) = four(np.random.default_rng(10))
    bf16 = F16.replace("f32.f16.f16.f32", "f32.bf16.bf16.f32")
    d, a, b = "{%r0, %r1, %r2, %r3}", "{%r16, %r17, %r18, %r19}", "{%r20, %r21}"
    zeros = "{0f00000000, 0f00000000, 0f00000000, 0f00000000}"
    fresh = f"{F16} {{%r4, %r5, %r6, %r7}}, {a}, {b}, {zeros};"
    report = run_four(tmp_path, arrays, mma(1), f"{bf16} {d}, {a}, {b}, {d};", mma(2), fresh, mma(1, 4, 4))
    form = isa.mma_form(bf16)
    left, right = (
        values(fragment.gather(arrays["x0"][part]), form.a_type, 160)
        for fragment, part in ((form.a, slice(4)), (form.b, slice(4, 6)))
    )
    product = np.vectorize(lambda x: Fraction(x, 1 << 320), otypes=[object])(left @ right)
    assert (registers(report, 0) == to_f32(c + p[1] + product + p[2])).all()
    assert (registers(report, 4) == to_f32(p[0] + p[1])).all()


def test_operands_that_are_results_are_rounded(tmp_path: Path) -> None:
    """As A and B, and as C of another type, a result is the number that it was rounded to."""
    arrays, (c, *p) = four(np.random.default_rng(6))
    other = F16.replace("f32.f16.f16.f32", "f16.f16.f16.f16")
    as_a = "%r0, %r1, %r2, %r3}, {%r20, %r21}, {%r4, %r5, %r6, %r7};"
    line = f"{F16} {{%r8, %r9, %r10, %r11}}, {{{as_a}"
    as_c = f"{other} {{%r12, %r13}}, {{%r16, %r17, %r18, %r19}}, {{%r20, %r21}}, {{%r0, %r1}};"
    report = run_four(tmp_path, arrays, mma(0), line, as_c)
    d = isa.mma_form(F16).d.scatter(to_f32(c + p[0]))[None]
    zero = np.zeros((1, 4, 32), np.uint32)
    b = arrays["x0"][None, 4:]
    assert (report.exact["d"][0, 8:12] == simulator.mma(F16, d, b, zero, "sm_90a", arithmetic="exact")[0]).all()
    wanted = simulator.mma(other, arrays["x0"][None, :4], b, d[:, :2], "sm_90a", arithmetic="exact")
    assert (report.exact["d"][0, 12:14] == wanted[0]).all()


# The report


def test_not_a_number_is_reported_and_not_counted_as_right(tmp_path: Path) -> None:
    """Sums that pass the largest number are none of the exact machine's: it goes on, the chip is at infinity."""
    form = isa.mma_form(F16)
    c = np.full(form.c.shape, 0x7F7FFFFF, np.uint32)  # the largest number
    c[0, 0] = 0x7FC00000
    a, b = np.full(form.a.shape, 0x7800, np.uint32), np.full(form.b.shape, 0x7800, np.uint32)  # 2^15
    a[1] ^= 0x8000
    arrays = {"c": form.c.scatter(c)}
    for i in range(4):
        sign = np.uint32(0x8000 * (i % 2))
        arrays[f"x{i}"] = np.concatenate([form.a.scatter(a ^ sign), form.b.scatter(b)])
    report = run_four(tmp_path, arrays, ".repeat 2 {", *(mma(i) for i in range(4)), "}")
    wanted = c.copy()
    wanted[0, 0] = 0x7FFFFFFF
    assert (registers(report, 0) == wanted).all()
    assert report.distances["d"].nan == 1
    assert "1 NaN" in report.table()
    assert str(Distance(8, 0, 3, 0, ("f32",))) == "the same in 5 of 8 elements, 3 NaN"


def test_distances_and_the_switch(tmp_path: Path, tcsim: Tcsim) -> None:
    """One run has the chip's bits, the exact ones and both distances; without the exact ones it is as it was."""
    arrays, _ = four(np.random.default_rng(8))
    report = run_four(tmp_path, arrays, *(mma(i) for i in range(4)))
    f32 = isa.element_type("f32")
    x, y = (part["d"][0, :4] for part in (report.arrays, report.exact))
    distance = report.distances["d"]
    assert (distance.differing, distance.largest_ulp) == ((x != y).sum(), ulp_distance(x, y, f32).max())
    assert distance.differing > 0
    assert report.exact.keys() == report.arrays.keys()
    row = report.to_frame().iloc[0]
    assert (row.exact_differing, row.exact_largest_ulp) == (distance.differing, distance.largest_ulp)
    off = simulator.run(tmp_path / "x.trace", None, exact=False)
    assert (off.exact, off.distances, off.distance) == ({}, {}, None)
    assert (off.arrays["d"] == report.arrays["d"]).all()
    path = str(tmp_path / "x.trace")
    code, out, _ = tcsim("run", path, "--format", "json", "--exact-output", str(tmp_path / "exact.npz"))
    printed = json.loads(out)
    assert code == 0
    assert printed["exact"]["d"]["differing"] == printed["exact_differing"] == distance.differing
    assert printed["largest_ulp"] == report.largest_ulp
    assert (np.load(tmp_path / "exact.npz")["d"] == report.exact["d"]).all()
    assert "elements differ" not in tcsim("run", path, "--no-exact")[1]
    code, _, err = tcsim("run", path, "--arithmetic", "none", "--exact-output", str(tmp_path / "none.npz"))
    assert (code, (tmp_path / "none.npz").exists()) == (2, False)
    assert "no exact results" in err


def test_a_large_trace_says_how_to_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrays, _ = four(np.random.default_rng(9))
    monkeypatch.setattr("simulator.simulation.exact.MOST_MULTIPLY_ADDS", 4 * isa.mma_form(F16).fma)
    assert not run_four(tmp_path, arrays, ".repeat 4 {", mma(0), "}").exact_left_out
    report = run_four(tmp_path, arrays, ".repeat 5 {", mma(0), "}")
    assert not report.exact
    assert "left out: 10,240 multiply-adds, more than 8,192; exact=True (--exact) computes it" in report.table()
    assert run_four(tmp_path, arrays, ".repeat 5 {", mma(0), "}", exact=True).exact


# Tensor Memory


def carrying(it: Scene) -> None:
    """Gives the CTAs a Tensor Memory that keeps exact values."""
    for cta in it.ctas:
        tmem = CarryingTensorMemory()
        tmem.allocate(512)
        tmem.words[:] = cta.tmem.words
        cta.tmem = tmem


CASES = [
    *WIDE,
    Case(kind="f16", m=128, n=16, d="f16", scale_d=1, enable=True),
    Case(kind="f16", m=64, n=16, scale_d=2, lanes=(0xF0F0F0F0, 0, 0xFFFF, 1)),
    Case(kind="f16", m=64, n=64, ws=True, enable=False),
    Case(kind="i8", m=128, n=16, a="s8", b="u8", d="s32"),
    Case(kind="i8", m=64, n=64, a="u8", b="u8", d="s32", saturate=True, sparse=True, ws=True),
]


@exhaustive
@over("case", CASES, ids=str, distinct=lambda case: (case.kind, case.d, case.saturate))
def test_a_chain_in_tensor_memory(case: Case) -> None:
    """Every kind, dense and sparse, of one CTA and of a pair: every cell, with numbers of any size."""
    it = scene(case, any_bits(case, np.random.default_rng(7), finite=True))
    carrying(it)
    length = examples(64, 20)
    for _ in range(length):
        it.run("exact")
    for cta in it.ctas:
        assert isinstance(cta.tmem, CarryingTensorMemory)
        cta.tmem.settle()
    it.check(ref.exact_chain(case, it.given, length))


def test_exact_results_do_not_depend_on_the_instruction() -> None:
    """One layer with mma.sp on a Hopper, with tcgen05.mma.sp on a Blackwell."""
    layers = []
    for name in ("f16", "f16_tcgen05"):
        report = simulator.run(f"digits/{name}", None, compare=0)
        words = [array.ravel().view(np.uint32) for array in report.exact.values()]
        layers.append(np.sort(np.concatenate(words)))
        assert report.distance is not None
        assert report.distance.differing > layers[0].size / 2
    assert (layers[0] == layers[1]).all()
