"""Faults in one `tcgen05.mma`: against products of matrices changed by hand, at places typed from the documents;
alignment; every bit of idesc."""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest

from isa.descriptors.instruction import InstructionDescriptor
from isa.errors import IsaError
from simulator.arithmetic import product
from simulator.errors import ConfigError
from simulator.execute.tcgen05.example import COLUMN
from simulator.execute.tcgen05.multiply import multiply
from simulator.faults import outcomes
from simulator.faults.group import Group
from simulator.faults.population import every_fault, population
from simulator.faults.table import MODELS, SITES, Faults, empty
from simulator.faults.targets.policies import saturated
from simulator.faults.targets.tcgen05 import Tcgen05Target
from simulator.views.faults.replay import replay
from tests.support.cases import over

SPARSE = "tcgen05.mma.sp.cta_group::{}.kind::f16"
PLACES = [("D", 1, 128, 0), ("F", 1, 64, 0), ("F", 1, 64, 16), ("C", 2, 128, 0), ("C", 2, 128, 16), ("A", 2, 256, 0)]
each_place = over(("name", "group", "m", "base"), PLACES, ids=str)


@cache
def subject(group: int = 1, m: int = 128, base: int = 0, n: int = 32, **how: Any) -> Tcgen05Target:
    return Tcgen05Target(how.pop("opcode", SPARSE.format(group)), m, n, base, **how)


def fault(site: str, model: str = "flip", **given: Any) -> Faults:
    found = empty(1)
    for name, value in {"site": SITES.index(site), "model": MODELS.index(model), "mask": 1, **given}.items():
        found[name] = value
    return found


def one(it: Tcgen05Target, site: str, model: str = "flip", **given: Any) -> Any:
    return it.run(fault(site, model, **given))[0]


def d_of(it: Tcgen05Target, site: str, model: str = "flip", **given: Any) -> Any:
    return it.executed(fault(site, model, **given)[0]).d


def names(result: Any) -> tuple[str, str]:
    return outcomes.OUTCOMES[result["outcome"]], outcomes.REASONS[result["reason"]]


def seen(result: Any) -> set[str]:
    return {name for i, name in enumerate(outcomes.DETECTORS) if result["detectors"] >> i & 1}


def lane_of(layout: str, row: int, base: int) -> int:
    """PTX ISA 9.0, 9.7.16.10.5: rows of one CTA."""
    return base + 32 * (row // 16) + row % 16 if layout in "CF" else row


def code_place(layout: str, row: int, chunk: int, base: int) -> tuple[int, int]:
    """Lane and lowest bit of a code of kind f16."""
    first = lane_of(layout, row // 16 * 16, base)
    return first + row % 8 + 8 * (chunk // 4), 16 * (row // 8 % 2) + 4 * (chunk % 4)


def matrices(it: Tcgen05Target) -> dict[str, Any]:
    """What the instruction multiplies, read by hand from the cells: stored A [m, 16], codes [m, 8], C [m, n]; B from
    shared memory, [n, 32]."""
    layout, base, rows = it.layout.layout, it.base_lane, it.m // it.form.cta_group
    a, codes, c, b = [], [], [], []
    for cta in it.memory[0]:
        words = cta.tmem.words
        for row in range(rows):
            lane = lane_of(layout, row, base)
            cells = words[lane, COLUMN["a"] : COLUMN["a"] + 8]
            a.append(np.stack([cells & 0xFFFF, cells >> 16], axis=1).ravel())
            c.append(words[lane, : it.n])
            places = [code_place(layout, row, chunk, base) for chunk in range(8)]
            codes.append([words[lane, COLUMN["e"] + it.selector] >> low & 15 for lane, low in places])
        for column in range(
            it.n // it.form.cta_group
        ):  # core matrices of 8 columns x 16 bytes, those along K one after another
            at = [32768 + column // 8 * 512 + unit * 128 + column % 8 * 16 for unit in range(4)]
            b.append(np.concatenate([cta.shared[start : start + 16].view("<u2") for start in at]))
    return {name: np.array(found, np.uint32) for name, found in (("a", a), ("codes", codes), ("c", c), ("b", b))}


def multiplied(it: Tcgen05Target, has: dict[str, Any]) -> Any:
    found = product(
        has["a"][None],
        np.ascontiguousarray(has["b"].T)[None],
        has["c"][None],
        family="tcgen05",
        target=it.target,
        a_type="f16",
        b_type="f16",
        d_type="f32",
        codes=has["codes"][None],
    )
    return found[0].astype(np.uint32)


# Operands


@each_place
def test_without_faults_it_is_the_product(name: str, group: int, m: int, base: int) -> None:
    it = subject(group, m, base)
    assert it.layout.layout == name
    assert (it.golden[0] == multiplied(it, matrices(it))).all()
    assert names(one(it, "a", "set", mask=0)) == ("masked", "same")


@each_place
def test_a_flip_of_metadata_is_another_code(name: str, group: int, m: int, base: int) -> None:
    it = subject(group, m, base)
    for row, chunk, bit in ((0, 0, 0), (9, 5, 3), (37, 2, 1), (63, 7, 2)):
        lane, low = code_place(name, row, chunk, base)
        has = matrices(it)
        has["codes"][row, chunk] ^= 1 << bit
        right = multiplied(it, has)
        how: dict[str, Any] = {"word": 0, "lane": lane, "mask": 1 << low + bit}
        assert (d_of(it, "e", **how) == right).all()
        result = one(it, "e", **how)
        assert names(result) == ("sdc", "")
        assert (result["rows"], result["first_row"]) == (1, row)
        code = int(has["codes"][row, chunk])
        legal = code & 3 < code >> 2
        assert ("ordered" in seen(result)) == (not legal)
        assert {"parity", "secded"} <= seen(result)


@each_place
def test_a_flip_of_a_is_another_element(name: str, group: int, m: int, base: int) -> None:
    it = subject(group, m, base)
    row, k, bit = 45, 11, 12
    has = matrices(it)
    has["a"][row, k] ^= 1 << bit
    how: dict[str, Any] = {"word": k // 2, "lane": lane_of(name, row, base), "mask": 1 << 16 * (k % 2) + bit}
    assert (d_of(it, "a", **how) == multiplied(it, has)).all()
    assert one(it, "a", **how)["rows"] == 1


@each_place
def test_a_flip_of_d_and_of_b(name: str, group: int, m: int, base: int) -> None:
    it = subject(group, m, base)
    has = matrices(it)
    has["c"][33, 5] ^= 1 << 30
    assert (d_of(it, "d", word=5, lane=lane_of(name, 33, base), mask=1 << 30) == multiplied(it, has)).all()
    column, k = 10, 21
    has = matrices(it)
    has["b"][column, k] ^= 1 << 14
    address = 32768 + column // 8 * 512 + k // 8 * 128 + column % 8 * 16 + 2 * (k % 8)
    how: dict[str, Any] = {"word": address // 4, "mask": 1 << 16 * (address // 2 % 2) + 14}
    assert (d_of(it, "shared", **how) == multiplied(it, has)).all()
    result = one(it, "shared", **how)
    assert (result["columns"], result["first_column"]) == (1, column)


@pytest.mark.parametrize("base", [0, 16])
def test_the_other_half_and_the_other_column_are_dead(base: int) -> None:
    it = subject(1, 64, base)
    other = [lane for lane in range(128) if lane % 32 // 16 != base // 16]
    for site in "ade":
        assert not it.sites[site].live[:, other].any()
        assert names(one(it, site, lane=other[20])) == ("masked", "unread")
    assert it.sites["e"].live[0].astype(bool).sum() == 64
    assert names(one(it, "e", word=1, lane=base)) == ("masked", "unread")
    assert not (d_of(it, "e", word=1, lane=base) != it.golden[0]).any()


def test_a_swap_and_a_crossed_wire() -> None:
    it = subject()
    has = matrices(it)
    has["codes"][3, [0, 1]] = has["codes"][3, [1, 0]]
    assert (d_of(it, "e", "swap", lane=3, mask=0xF, lane2=3, word2=0, mask2=0xF0) == multiplied(it, has)).all()
    has = matrices(it)
    has["a"][7, :2] = has["a"][90, :2]
    assert (d_of(it, "a", "lane", lane=7, lane2=90) == multiplied(it, has)).all()


# Selectors and descriptors


@each_place
def test_the_other_selector_reads_the_other_column(name: str, group: int, m: int, base: int) -> None:
    it = subject(group, m, base)
    has = matrices(it)
    rows = m // group
    for rank, cta in enumerate(it.memory[0]):
        for row in range(rows):
            for chunk in range(8):
                lane, low = code_place(name, row, chunk, base)
                has["codes"][rank * rows + row, chunk] = cta.tmem.words[lane, COLUMN["e"] + 1] >> low & 15
    assert (d_of(it, "selector", "selector", value=1) == multiplied(it, has)).all()
    assert not {"legality", "ordered"} & seen(one(it, "selector", "selector", value=1)), "it is another valid matrix"
    assert names(one(it, "selector", "selector", value=2)) == ("due", "illegal")
    assert names(one(it, "selector", "selector", value=0)) == ("masked", "same")


OTHERS = ("tcgen05.mma.cta_group::1.kind::f8f6f4", "tcgen05.mma.sp.cta_group::1.kind::mxf8f6f4.block_scale")


@pytest.mark.parametrize("opcode", [SPARSE.format(1), *OTHERS])
def test_every_bit_of_the_instruction_descriptor(opcode: str) -> None:
    it = subject(opcode=opcode)
    right = it.shape.call.idesc
    outcomes_met = set()
    for bit in range(32):
        word, result = right ^ 1 << bit, one(it, "idesc", mask=1 << bit)
        idesc = InstructionDescriptor.decode(word, it.form.kind)
        bad = [
            f
            for f in idesc.validate(sparse=it.form.sparse, a_in_tmem=True, target=it.target)
            if f.severity.name != "WARNING"
        ]
        outcomes_met.add(names(result)[0])
        if bad:
            assert names(result) == ("due", "illegal")
            assert "legality" in seen(result)
        else:
            assert names(result)[0] in ("sdc", "masked", "due")
    assert outcomes_met >= {"sdc", "due"}
    careful = subject(opcode=opcode, policy="raise")
    assert names(one(careful, "idesc", mask=1 << 2)) == ("detected", "illegal")


def test_negation_and_addresses_in_descriptors() -> None:
    it = subject()
    has = matrices(it)
    has["a"] ^= np.uint32(0x8000)
    assert (d_of(it, "idesc", mask=1 << 13) == multiplied(it, has)).all()
    moved = d_of(it, "b_desc", mask=1)  # 16 bytes on
    has = matrices(it)
    shared = it.memory[0][0].shared
    for column in range(it.n):
        at = [32768 + 16 + column // 8 * 512 + unit * 128 + column % 8 * 16 for unit in range(4)]
        has["b"][column] = np.concatenate([shared[start : start + 16].view("<u2") for start in at])
    assert (moved == multiplied(it, has)).all()
    assert names(one(it, "b_desc", word=1, mask=1 << 14)) == ("due", "illegal")  # the version
    in_shared = subject(a_in_tmem=False)
    assert "a_desc" in in_shared.sites
    assert names(one(in_shared, "a_desc", mask=1))[0] == "sdc"


# Alignment


@each_place
@over("site", ["base_d", "base_a", "base_e"])
def test_a_wrong_lane_faults(name: str, group: int, m: int, base: int, site: str) -> None:
    it = subject(group, m, base)
    for lane in (base ^ 16, (base + 1) % 128, 127):
        result = one(it, site, "align", value=lane)
        assert names(result) == ("due", "misaligned-address")
        assert seen(result) == {"alignment"}
    assert names(one(it, site, "align", value=base)) == ("masked", "same")
    assert names(one(it, site, "align", value=128)) == ("due", "illegal")
    odd = one(it, "base_e", mask=1)
    assert (names(odd), seen(odd)) == (("due", "misaligned-address"), {"alignment"})


@pytest.mark.parametrize(("name", "group", "m", "base"), PLACES[1:5], ids=str)
def test_where_it_is_followed_the_other_half_is_read(name: str, group: int, m: int, base: int) -> None:
    it = subject(group, m, base, misaligned="follow")
    rows, other = m // group, base ^ 16
    has = matrices(it)
    for rank, cta in enumerate(it.memory[0]):
        for row in range(rows):
            for chunk in range(8):
                lane, low = code_place(name, row, chunk, other)
                has["codes"][rank * rows + row, chunk] = cta.tmem.words[lane, COLUMN["e"]] >> low & 15
    assert (d_of(it, "base_e", "align", value=other) == multiplied(it, has)).all()
    result = one(it, "base_e", "align", value=other)
    assert names(result) == ("sdc", "")
    assert "alignment" in seen(result)
    assert (
        d_of(it, "base_d", "align", value=other) == matrices(it)["c"]
    ).all()  # D is elsewhere: these cells keep what they held
    has = matrices(it)
    for rank, cta in enumerate(it.memory[0]):
        for row in range(rows):
            cells = cta.tmem.words[lane_of(name, row, other), COLUMN["a"] : COLUMN["a"] + 8]
            has["a"][rank * rows + row] = np.stack([cells & 0xFFFF, cells >> 16], axis=1).ravel()
    assert (d_of(it, "base_a", "align", value=other) == multiplied(it, has)).all()


def test_all_three_in_the_other_half_are_no_violation() -> None:
    low, high = subject(1, 64, 0), subject(1, 64, 16)
    call = low.shape.call
    assert (
        high.shape.call.d - call.d == high.shape.call.a - call.a == high.shape.call.sp_meta - call.sp_meta == 16 << 16
    )


# Policies, states, populations


def test_policies() -> None:
    row, chunk = 12, 3
    plain = subject()
    has = matrices(plain)
    lane, low = code_place("D", row, chunk, 0)
    for value in range(16):
        code = int(has["codes"][row, chunk]) if value == 15 else value
        how: dict[str, Any] = {"lane": lane, "mask": 15 << low, "value": code << low}
        legal = code in plain.shape.metadata.codes
        changed = code != has["codes"][row, chunk]
        for policy in ("hardware", "raise", "zero", "saturate"):
            it = subject(policy=policy)
            wrong = matrices(plain)
            wrong["codes"][row, chunk] = (
                code if legal or policy in ("hardware", "raise") else saturated(it.shape.metadata.sparsity)[code]
            )
            if policy == "zero" and not legal:
                wrong["a"][row, 2 * chunk : 2 * chunk + 2] = 0
            assert (d_of(it, "e", "set", **how) == multiplied(plain, wrong)).all()
            if policy == "raise" and not legal and changed:
                assert names(one(it, "e", "set", **how)) == ("detected", "invalid-code")
    assert (plain.golden[0] == multiplied(plain, has)).all()


def test_zero_with_a_in_shared_memory() -> None:
    hardware, zero = (subject(a_in_tmem=False, policy=policy) for policy in ("hardware", "zero"))
    how: dict[str, Any] = {"lane": 4, "mask": 15, "value": 0b1111}
    d = d_of(zero, "e", "set", **how)
    assert (d[4] != hardware.golden[0][4]).any()
    assert (np.delete(d, 4, axis=0) == np.delete(hardware.golden[0], 4, axis=0)).all()
    assert (zero.executed(fault("a_desc", "set", mask=0)[0]).d == hardware.golden[0]).all()  # memory is as before


def test_memory_is_afterwards_as_it_was() -> None:
    it = Tcgen05Target(SPARSE.format(1), 64, 32, cases=2, misaligned="follow", policy="zero")
    before = it.digest
    rng = np.random.default_rng(0)
    rows = []
    for site, known in it.sites.items():
        for _ in range(6):
            model = (
                "selector"
                if site == "selector"
                else str(rng.choice(["flip", "word", "stuck1"] + ["align"] * site.startswith("base")))
            )
            word, lane = (int(rng.integers(size)) for size in known.live.shape)
            value = int(rng.integers({"align": 128, "selector": 4}.get(model, 1 << 32)))
            given = {
                "word": word,
                "lane": lane,
                "mask": 1 << int(rng.integers(32)),
                "value": value,
                "case": int(rng.integers(2)),
            }
            rows.append(fault(site, model, **given))
    faults = np.concatenate(rows)
    faults["id"] = np.arange(len(faults))
    first = it.run(faults)
    again = pickle.loads(pickle.dumps(it))
    assert first.tolist() == it.run(faults).tolist() == again.run(faults[::-1])[::-1].tolist()
    del vars(again)["golden"]
    assert before == it.digest == again.digest
    direct = it.memory[1]
    multiply(it.shape.call, direct, target=it.target)
    assert (it.execution.read(direct) == it.golden[1]).all()


def test_populations() -> None:
    it = subject(1, 64, 16)
    sizes = {"live": 1, "dead": 126, "all": 127}
    for where, size in sizes.items():
        found = population(Group("g", "base_e", "align", where=where), it.sites["base_e"], it.layout, 1)
        assert found.size == size
        assert 16 not in found.make(np.arange(size))["value"]
    assert population(Group("g", "base_e", "align", where="live"), it.sites["base_e"], it.layout, 1).make(np.arange(1))[
        "value"
    ] == [0]
    with pytest.raises(ConfigError, match="base_d"):
        population(Group("g", "e", "align"), it.sites["e"], it.layout, 1)
    assert population(Group("g", "idesc", "flip"), it.sites["idesc"], it.layout, 1).size == 32
    assert population(Group("g", "b_desc", "flip"), it.sites["b_desc"], it.layout, 1).size == 64
    assert population(Group("g", "e", "flip"), it.sites["e"], it.layout, 1).size == 64 * 8 * 4
    assert population(Group("g", "selector", "selector"), it.sites["selector"], it.layout, 1).size == 3
    undefined = sum(code not in it.layout.codes for code in range(16))
    assert (
        population(Group("g", "e", "code", codes="undefined"), it.sites["e"], it.layout, 1).size == 64 * 8 * undefined
    )


@pytest.mark.parametrize(
    ("site", "model", "given", "problem"),
    [
        ("c", "flip", {}, "site c"),
        ("a_desc", "flip", {}, "site a_desc"),
        ("e", "flip", {"word": 2}, "word 2"),
        ("e", "align", {}, "model align"),
        ("idesc", "selector", {}, "model selector"),
        ("idesc", "lane", {}, "model lane"),
        ("e", "flip", {"case": 1}, "case 1"),
    ],
)
def test_faults_that_there_cannot_be(site: str, model: str, given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        one(subject(), site, model, **given)


def test_instructions_that_there_cannot_be() -> None:
    with pytest.raises(IsaError, match="M = 96"):
        assert Tcgen05Target(SPARSE.format(1), 96).golden is None
    with pytest.raises(IsaError, match="base lane 16"):
        assert Tcgen05Target(SPARSE.format(1), 128, base_lane=16).golden is None
    with pytest.raises(ConfigError, match="misaligned"):
        Tcgen05Target(SPARSE.format(1), misaligned="ignored")


def test_a_fault_in_words() -> None:
    it = subject(1, 64, 16)
    lane, low = code_place("F", 20, 3, 16)
    found = replay(it, fault("e", lane=lane, mask=1 << low))
    assert found["held"] == ["code of row 20 chunk 3"]
    assert found["changes"][0][0] == f"Tensor Memory, lane {lane}, column 264"
    assert {row for row, *_ in found["elements"]} == {20}
    assert replay(it, fault("idesc", mask=1))["held"] == ["selector: 0 -> 1"]
    assert replay(it, fault("base_e", "align", value=0))["held"] == ["lane 16, column 264 -> lane 0, column 264"]
    assert "half-mismatch" in replay(it, fault("base_e", "align", value=0))["error"]
    assert replay(it, fault("shared", word=32768 // 4, mask=1 << 16))["held"] == ["B[1][0]"]
    assert replay(it, fault("b_desc", mask=1))["held"] == ["start_address: 32768 -> 32784"]


def test_metadata_of_the_other_selector_are_valid() -> None:
    subject = Tcgen05Target("tcgen05.mma.sp.cta_group::1.kind::f16", m=64, n=8, cases=2)
    (group,) = (Group("", "selector", "selector"),)
    results = subject.run(every_fault(group, subject.sites["selector"], subject.layout, subject.cases, 0))
    corrupt = results["outcome"] == outcomes.SDC
    assert corrupt.sum() == 2
    assert not (results["detectors"][corrupt] & outcomes.flag("legality")).any()
