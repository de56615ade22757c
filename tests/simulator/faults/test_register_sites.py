"""Predicates and 16-bit registers as sites: every fault of a small launch against numpy, and selections of them."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import pytest

from simulator.errors import ConfigError
from simulator.faults.campaign import read_campaign
from simulator.faults.outcomes import MASKED, SDC
from simulator.faults.table import MODELS, SITES, Faults
from simulator.faults.targets.launch import LaunchTarget
from simulator.faults.targets.program import ProgramTarget
from tests.simulator.faults import small_launch
from tests.simulator.faults.test_launch_target import row


def _rows(path: Path | str, **keys: object) -> Faults:
    return np.concatenate(list(read_campaign(path, keys).faults()))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_launch.written(tmp_path_factory.mktemp("small"))


@pytest.mark.parametrize("kind", ["flip", "stuck0", "stuck1"])
def test_each_bit_at_each_time_is_as_numpy_has_it(path: Path, kind: str) -> None:
    """A register that is struck between its definition and its use holds another value for the use; a fault that holds
    from then on does from any time before; every other fault is masked."""
    together = LaunchTarget(path)
    assert together.copies is not None
    x = together.capture.before["A"].view(np.uint32)
    right = small_launch.values(x)
    assert (together.stored.golden["D"] == small_launch.result(right)).all()
    texts = [together.kernel.items[item].text for item in together.executed(0).tolist()]
    faults = np.concatenate([
        _rows(path, site=site, kind=kind, at="any", where="lanes=0..7") for site in ("registers16", "predicates")
    ])  # fmt: skip
    results = together.run(faults)
    expected = np.zeros(len(faults), np.int64)
    for number, fault in enumerate(faults):
        site, word, lane = SITES[fault["site"]], int(fault["word"]), int(fault["lane"])
        which = 0 if site == "registers16" else word
        name = "%rs1" if which == 0 else f"%p{which}"
        made, used = (at for at, text in enumerate(texts) if name in text)
        if not (made < fault["at"] <= used or (kind != "flip" and fault["at"] <= used)):
            continue
        changed = copy.deepcopy(right)
        now, bit = changed[which][32 * int(fault["case"]) + lane :][:1], changed[which].dtype.type(fault["mask"])
        now[:] = {"flip": now ^ bit, "stuck0": now & ~bit, "stuck1": now | bit}[kind]
        expected[number] = int((small_launch.result(changed) != small_launch.result(right)).sum())
    assert results["elements"].tolist() == expected.tolist()
    assert (results["outcome"] == np.where(expected > 0, SDC, MASKED)).all()
    some = np.random.default_rng(1).choice(len(faults), 60, replace=False)
    assert (results[some] == LaunchTarget(path, together=False).run(faults[some])).all()


def test_where_names_them(path: Path) -> None:
    """`where` finds the site by what it selects: guards of instructions and of branches, and what setp writes."""
    texts = [item.text for item in LaunchTarget(path).kernel.items]
    guards = sum(text.startswith("@") for text in texts)
    one = 2 * 32  # warps, lanes
    for where, count, site in (
        ("role=predicate", guards * one, "predicates"),
        ("op=setp role=destination", sum("setp" in text for text in texts) * one, "predicates"),
        ("register=%p2", 2 * one, "predicates"),
        ("op=bra", one, "predicates"),
        ("register=%rs1 role=destination", 16 * one, "registers16"),
        ("op=setp", 2 * 32 * one, "registers"),  # the register that each compares
    ):
        rows = _rows(path, where=where)
        assert (len(rows), {SITES[number] for number in rows["site"]}) == (count, {site}), where


def test_bits_are_those_that_there_are(path: Path) -> None:
    target = LaunchTarget(path)
    assert [len(target.sites[site].bits("all")) for site in ("registers16", "predicates")] == [2 * 512, 3 * 32]
    assert len(_rows(path, site="predicates", where="dead")) == 2 * 32, "%p0, which nothing reads"
    assert len(_rows(path, site="registers16", kind="zero", type="f16")) == 2 * 32
    with pytest.raises(ConfigError, match="mask 2 of site predicates; legal: bits of 0x1"):
        target.run(row("predicates", 1, 2, at=3))
    with pytest.raises(ConfigError, match="model word of site predicates"):
        _ = read_campaign(path, {"site": "predicates", "kind": "word", "count": 3}).populations


def test_intervals_of_predicates_are_those_between_uses(path: Path) -> None:
    target = LaunchTarget(path)
    rows = _rows(path, site="predicates", at="intervals", where="words=2 lanes=9 warps=1")
    texts = [target.kernel.items[item].text for item in target.executed(1).tolist()]
    made, used = (at for at, text in enumerate(texts) if "%p2" in text)
    assert rows["at"].tolist() == [made, used, len(texts)]
    assert rows["weight"].tolist() == [made, used - made, len(texts) - used]
    assert (target.run(rows)["outcome"] == [MASKED, SDC, MASKED]).all()


def test_predicates_of_a_trace() -> None:
    """The predicate that lets lane 0 of warp 0 set up the barriers: without it nobody does, and the trace stops."""
    target = ProgramTarget("digits/f16_tcgen05_m64")
    operations = [(i, target.session.operation(0, i)) for i in range(target.instructions(0))]
    made, used = (
        next(i for i, one in operations if one is not None and one.instruction.form.opcode.startswith(name))
        for name in ("setp", "mbarrier.init")
    )
    rows = np.concatenate([row("predicates", 0, 1, at=at) for at in (made, made + 1, used)])
    assert (rows["model"] == MODELS.index("flip")).all()
    assert [bool(each) for each in target.run(rows)["outcome"] != MASKED] == [False, True, True]
