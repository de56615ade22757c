"""Faults of the units that compute D of one `tcgen05.mma`: against sums in pure Python, against other operands in
memory that give the same, and against the instruction executed as a whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
import pytest

from simulator.arithmetic import Operands, Sum
from simulator.arithmetic.disturbance import PARTS, disturbed
from simulator.arithmetic.random_operands import draw
from simulator.execute.tcgen05.example import COLUMN, put_a, stored_a
from simulator.execute.tcgen05.multiply import matrices
from simulator.faults import Group
from simulator.faults.outcomes import REASONS, SDC
from simulator.faults.population import drawn, population
from simulator.faults.table import MODELS, SITES, Faults
from simulator.faults.targets.tcgen05 import Tcgen05Target
from simulator.faults.unit.sites import UNIT_SITES
from tests.simulator.faults.test_tcgen05_together import SHAPES
from tests.simulator.faults.test_unit import change_of, in_python, neutral, struck_columns

MXF4 = {"opcode": "tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X", "m": 128, "n": 16}
KINDS: dict[str, dict[str, Any]] = {**SHAPES, "mxf4": MXF4}
QUICK = ("f16", "ws in two parts", "i8", "tf32", "mxf4nvf4", "mxf8 pair", "6-bit elements")
EVERY = [pytest.param(name, marks=() if name in QUICK else pytest.mark.exhaustive) for name in KINDS]
SPARSE = [each for each in EVERY if ".sp" in KINDS[str(each.values[0])]["opcode"]]


@cache
def target_of(name: str) -> Tcgen05Target:
    """The second of two cases has A of any finite bits, zeros among them."""
    it = Tcgen05Target(**KINDS[name], cases=2)
    element, rng = it.shape.element("a"), np.random.default_rng(3)
    if element.is_float:
        for cta in it.memory[1]:
            stored = stored_a(it.shape, cta)
            bits = draw(rng, stored.shape, element, "bits", 1.0)
            put_a(it.shape, cta, np.where(rng.random(stored.shape) < 0.1, np.uint32(0), bits).astype(np.uint32))
    return it


@dataclass
class Whole:
    """The operands of the even CTA of each case, the parts of N one beside the other."""

    target: Tcgen05Target

    @property
    def sum(self) -> Sum:
        return self.target.sum

    @cached_property
    def matrices(self) -> Operands:
        found = [matrices(self.target.shape.call, ctas, self.target.target)[0][1] for ctas in self.target.memory]
        names = ("a", "b", "c", "codes", "scale_a", "scale_b")
        axis = {"b": 1, "c": 1, "scale_b": 0}

        def joined(name: str, one: Operands) -> Any:
            parts = getattr(one, name)
            return None if parts is None else np.concatenate(parts, axis[name]) if name in axis else parts[0]

        every = [[joined(name, one) for one in found] for name in names]
        stacked: list[Any] = [None if each[0] is None else np.stack(each) for each in every]
        return Operands(*stacked)


def some_faults(it: Tcgen05Target, site: str, count: int, kinds: tuple[str, ...] = ()) -> Faults:
    rng, parts = np.random.default_rng(SITES.index(site)), []
    for kind in kinds or ("flip", "stuck0", "stuck1"):
        one = population(Group("g", site, kind), it.sites[site], it.layout, it.cases)
        parts.append(one.make(rng.integers(one.size, size=count)))
    rows = drawn(np.concatenate(parts), 1)
    rows["lane2"] = np.where(rng.random(len(rows)) < 0.4, rng.integers(len(it.sum.steps), size=len(rows)), -1)
    rows["id"] = np.arange(len(rows))
    return rows


def agree(name: str, count: int) -> None:
    it = target_of(name)
    assert {"multiplier", "term", "adder", "output"} <= it.sites.keys()
    whole: Any = Whole(it)
    for site in ("multiplier", "term", "adder", "output"):
        rows = some_faults(it, site, count)
        found = it.struck(rows)
        right = np.array([in_python(whole, row) for row in rows], np.uint32)
        assert found.patterns.tolist() == right.tolist(), (site, rows[found.patterns != right])
        assert (right != it.golden[rows["case"], found.row, found.column]).any(), site


@pytest.mark.parametrize("name", EVERY)
def test_products_terms_sums_and_results_as_in_python(name: str) -> None:
    agree(name, 12)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", KINDS)
def test_many_more_as_in_python(name: str) -> None:
    agree(name, 200)


@pytest.mark.parametrize("name", EVERY)
def test_a_disturbance_that_changes_nothing_gives_every_element_of_d(name: str) -> None:
    """Position row * N + column, in all parts of N; the odd CTA of a pair has units of its own."""
    it = target_of(name)
    rows = some_faults(it, "output", it.sum.m * it.sum.n, ("stuck0",))
    rows["lane"], rows["word"], rows["mask"], rows["case"] = np.arange(len(rows)), 0, 0, 1
    found = it.struck(rows)
    assert not found.changed.any()
    golden = it.golden[1, : it.sum.m].ravel()
    assert found.patterns.tolist() == golden.tolist()
    assert it.sites["output"].live.shape == (2, it.golden[0].size // it.form.cta_group)
    one = it._of_case(0).operands
    what = neutral(one.how, PARTS.index("adder"), it.shape.datapath.parts)
    patterns, changed = disturbed(one.how, one.ctas[0], what)
    columns = what.column + what.case * one.how.n
    assert (patterns == it.golden[0, what.row, columns]).all()
    assert not changed.any()


# Against other operands in memory


def elements_with(it: Tcgen05Target, rows: Faults, change: Any) -> list[int]:
    """The struck elements of D of the instruction executed from memory that `change(cta, row of D, fault)` changed."""
    found = []
    for fault in rows:
        row, column = divmod(int(fault["lane"]), it.n)
        ctas = it.memory[int(fault["case"])]
        kept = ctas[0].tmem.words.copy(), ctas[0].shared.copy()
        change(ctas[0], row, fault)
        done = it.execution.run(ctas, it.shape.call)
        ctas[0].tmem.words[:], ctas[0].shared[:] = kept
        assert done.d is not None, done.said
        found.append(int(done.d[row, column]))
    return found


@pytest.mark.parametrize("name", EVERY)
def test_a_product_stuck_at_zero_or_of_the_other_sign_is_an_element_of_a(name: str) -> None:
    it = target_of(name)
    rows = some_faults(it, "multiplier", 8, ("stuck0", "flip"))
    negative = rows["model"] == MODELS.index("flip")
    element = it.shape.element("a")
    if not element.is_float:
        rows, negative = rows[~negative], negative[~negative]
    rows["mask"] = np.where(negative, 1 << 31, (1 << 22) - 1 if element.is_float else (1 << 16) - 1)

    def other(cta: Any, row: int, fault: Any) -> None:
        stored = stored_a(it.shape, cta)
        of_row = min(row + 1, len(stored) - 1) if it.form.ashift else row
        columns = struck_columns(it.sum, fault)
        turned = stored[of_row, columns] ^ np.uint32(1 << element.sign_bit)
        stored[of_row, columns] = turned if fault["model"] == MODELS.index("flip") else 0
        put_a(it.shape, cta, stored)

    assert it.struck(rows).patterns.tolist() == elements_with(it, rows, other)


@pytest.mark.parametrize("name", SPARSE)
def test_select_lines_are_codes_in_tensor_memory(name: str) -> None:
    it = target_of(name)
    rows = some_faults(it, "mux", 12, ("flip", "stuck0"))
    metadata, shape, how = it.shape.metadata, it.shape, it.sum
    assert how.sparsity is not None
    stored = how.sparsity.stored

    def other(cta: Any, row: int, fault: Any) -> None:
        cells = cta.tmem.words[:, COLUMN["e"] : COLUMN["e"] + 2]
        codes = metadata.gather(cells, shape.idesc.selector, shape.base_lane)
        for step, columns in enumerate(how.steps):
            if int(fault["lane2"]) in (-1, step):
                chunk = columns[stored * int(fault["word"])] // stored
                codes[row, chunk] = change_of(fault, False)(int(codes[row, chunk])) & 15
        cta.tmem.words[:, COLUMN["e"] : COLUMN["e"] + 2] = metadata.scatter(
            codes, shape.idesc.selector, shape.base_lane, cells
        )

    found = it.struck(rows)
    assert found.patterns.tolist() == elements_with(it, rows, other)
    assert (found.patterns != it.golden[rows["case"], found.row, found.column]).any()


@pytest.mark.parametrize("others", ["valid", "random"])
def test_a_wrong_selector_reaches_one_cta_of_a_pair(others: str) -> None:
    """The other CTA computes what it should, and its codes that nobody reads are nobody's business."""
    how = {**SHAPES["sparse pair"], "others": others}
    it, other = Tcgen05Target(**how), Tcgen05Target(**how, selector=1)
    rows = some_faults(it, "selector_input", 1)
    before = [cta.tmem.words.copy() for cta in it.memory[0]]
    d = it.executed(rows[0]).d
    assert d is not None
    right = other.execution.run(it.memory[0], replace(it.shape.call, idesc=other.shape.call.idesc)).d
    assert right is not None
    assert (d[:128] == right[:128]).all()
    assert (d[128:] == it.golden[0, 128:]).all()
    assert (right[128:] != d[128:]).any()
    assert all((cta.tmem.words == words).all() for cta, words in zip(it.memory[0], before, strict=True))
    assert it.run(rows)["outcome"].tolist() == [SDC, 0, SDC]
    assert "selector_input" not in target_of("i8").sites


# Results


def test_results_are_those_of_the_whole_d() -> None:
    """Computed element by element, and from whole matrices."""
    for name in ("f16", "sparse pair", "ws in two parts"):
        it = target_of(name)
        rows = np.concatenate([some_faults(it, site, 20) for site in UNIT_SITES])
        rows["id"] = np.arange(len(rows))
        alone = replace(it, together=False)
        vars(alone)["memory"] = it.memory
        fast, right = it.run(rows), alone.run(rows)
        assert fast.tolist() == right.tolist()
        assert set(fast["elements"][fast["outcome"] == SDC]) >= {1}
        assert {REASONS[why] for why in set(fast["reason"])} >= {"", "same"}


def test_exact_sums_of_floats_have_no_unit() -> None:
    assert not {*UNIT_SITES} & Tcgen05Target(**SHAPES["f16"], arithmetic="exact").sites.keys()
    assert "multiplier" in Tcgen05Target(**SHAPES["i8"], arithmetic="exact").sites


def test_millions_of_bits_are_not_held_in_memory() -> None:
    it = Tcgen05Target("tcgen05.mma.cta_group::1.kind::f8f6f4", n=256)
    site = it.sites["multiplier"]
    bits = site.bits("live")
    assert len(bits) == 32 * 128 * 256 * 14
    some = np.random.default_rng(0).integers(len(bits), size=1000)
    small = replace(site, live=site.live[:, :64], alike=False).bits("live")
    word, lane, bit = bits[some].T
    assert (site.live[word, lane] >> bit.astype(np.uint32) & 1).all()
    first = np.arange(64 * 14)
    assert (bits[first] == small[first]).all()
    assert bits[np.array([len(bits) - 1])].tolist() == [[31, 128 * 256 - 1, 31]]
