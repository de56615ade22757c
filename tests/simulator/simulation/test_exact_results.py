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
from simulator.simulation.exact import MOST_MULTIPLY_ADDS
from tests.golden import reference
from tests.simulator.arithmetic.test_exact import draw
from tests.support.cases import over
from tests.support.small_traces import program, save

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
    whole = magnitude * 2**unit
    assert kind == "number"
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
            given = {name: numbers(rng, getattr(form, f"{name}_type"), getattr(form, name).shape, wide) for name in "ab"}
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
            words = {"e": lambda e: form.metadata.scatter(e, 0)} if form.sparse else {}
            words |= {n: lambda s, n=n: getattr(form, n).scatter(s, 0, 0) for n in given if n.startswith("scale")}
            for name, scatter in words.items():
                arrays[f"{name}{i}"] = scatter(given[name])[None]
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
        total = (values(self.c, form.c_type, unit) << 3 * unit) + ROUNDS * sum(self.products(given) for given in self.sets)
        fractions = [Fraction(x, 1 << 4 * unit) for x in total.ravel()]
        patterns = np.array([rounded(x, form.d_type, form.saturate) for x in fractions], np.uint64).reshape(total.shape)
        return form.d.scatter(patterns.astype(self.c.dtype))


def by_types(form: isa.MmaForm) -> Hashable:
    """Forms alike in all that their sums depend on, but for their size."""
    names = form.a_type.name, form.b_type.name == form.a_type.name, form.d_type.name
    return (*names, form.sparse, form.blocks, form.saturate, form.row.operation, form.row.scale)


CHAINED = [form for form in FORMS if form.c_type == form.d_type and form.since_ptx != PTX_LATER]


@over("form", CHAINED, ids=lambda form: form.opcode, distinct=by_types)
def test_a_chain_of_64_is_rounded_once(tmp_path: Path, form: isa.MmaForm) -> None:
    """Every row of `mma` and `mma.sp`, every element."""
    chain = Chain(form)
    text, arrays = chain.text()
    report = simulator.run(save(tmp_path, text, **arrays), None, exact=True)
    assert report.exact["d"][0].tolist() == chain.wanted().tolist()
    differing = form.d.gather(report.arrays["d"][0]) != form.d.gather(report.exact["d"][0])
    distance = report.distances["d"]
    assert (distance.elements, distance.differing) == (differing.size, int(differing.sum()))
    assert distance.types == (form.d_type.name,)
    if form.a_type.is_float and form.a_type.bits > 8:  # large products that cancel cost the chip everything
        assert distance.largest_ulp is not None
        assert distance.largest_ulp > 1000
