"""Selections: what `where` finds in instructions, traces and launches, counted in another way."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.errors import ConfigError
from simulator.faults.aim.selection import source_holds
from simulator.faults.campaign import Campaign, read_campaign
from simulator.faults.table import Faults
from simulator.faults.targets.launch import LaunchTarget
from simulator.faults.targets.program import ProgramTarget
from tests.support.cases import exhaustive
from tests.support.paths import GOLDEN

Tcsim = Callable[..., tuple[int, str, str]]
BUG0 = GOLDEN / "planted" / "bug0.json"
OPCODE = "mma.sp::ordered_metadata.m16n8k32.f32.f16.f16.f32"


def _rows(campaign: Campaign) -> Faults:
    return np.concatenate(list(campaign.faults()))


def test_metadata_registers_of_mma_sp_in_a_kernel() -> None:
    """The registers are those that the PTX has at the place of e; each execution of each warp counts."""
    campaign = read_campaign(BUG0, {"where": "op=mma.sp role=e lanes=0..1"})
    target = campaign.subject
    assert isinstance(target, LaunchTarget)
    texts = {item.index: item.text for item in target.kernel.items if item.text.startswith("mma.sp")}
    register = {index: re.findall(r"%r\d+", text)[-1] for index, text in texts.items()}
    executions = sum(int((target.executed(warp) == index).sum()) for warp in target.numbers for index in texts)
    rows = _rows(campaign)
    assert len(rows) == executions * 2 * 32 > 0
    assert set(rows["lane"].tolist()) == {0, 1}
    for row in rows[:: len(rows) // 50]:
        item = int(target.executed(int(row["case"]))[int(row["at"])])
        assert register[item] in target.names_of(f"%r{int(row['word'])}")


def test_destinations_are_struck_behind_the_instruction() -> None:
    campaign = read_campaign("digits/f16", {"where": "op=mma.sp role=destination warps=1 time=0..200 bits=31"})
    target = campaign.subject
    assert isinstance(target, ProgramTarget)
    rows, written = _rows(campaign), 0
    for index in range(201):
        operation = target.session.operation(1, index)
        assert operation is not None
        written += 32 * len(operation.writes) * operation.instruction.form.is_sparse
    assert len(rows) == written > 0
    for row in rows[::40]:
        operation = target.session.operation(1, int(row["at"]) - 1)
        assert operation is not None
        assert operation.instruction.form.is_sparse
        assert int(row["word"]) in operation.writes


@exhaustive
def test_terms_narrow_one_another() -> None:
    def count(where: str) -> int:
        return len(_rows(read_campaign(BUG0, {"where": where, "site": "registers"})))

    every = count("op=mma.sp lanes=0 bits=0")
    roles = [count(f"op=mma.sp role={role} lanes=0 bits=0") for role in ("a", "b", "c", "d", "e")]
    assert every == sum(roles) == 384 * (4 + 4 + 4 + 4 + 1)
    assert count("op=mma.sp role=a,b lanes=0 bits=0") == roles[0] + roles[1]
    assert count("op=mma.sp role!=a,b,c,d lanes=0 bits=0") == roles[4]
    assert count("op=mma.sp ctas=0 role=e") == count("op=mma.sp role=e warps=0..3")
    lines = sorted({s.line for s in LaunchTarget(BUG0).statics(0).values() if s.opcode.startswith("mma.sp")})
    (name,) = LaunchTarget(BUG0).names_of("%r657")
    assert count(f"register={name} op=mma.sp lanes=0 bits=0") > 0
    assert count(f"line={lines[0]} role=e lanes=0") + count(f"op=mma.sp line!={lines[0]} role=e lanes=0") == count(
        "op=mma.sp role=e lanes=0"
    )


def test_the_role_is_the_site_of_an_instruction() -> None:
    rows = _rows(read_campaign(OPCODE, {"where": "op=mma.sp role=e lanes=0..3", "count": 8}))
    assert len(rows) == 8
    assert (rows["lane"] < 4).all()
    dead = _rows(read_campaign(OPCODE, {"where": "dead role=e lanes=2..3"}))
    assert len(dead) == 2 * 32, "lanes 2 and 3 hold nothing that selector 0 reads"


def test_source_lines() -> None:
    capture = GOLDEN / "launches" / "triton_matmul_mma.json"
    target = LaunchTarget(capture)
    sources = {static.source for static in target.statics(0).values() if static.source is not None}
    file, line = sorted(sources)[0]
    rows = _rows(read_campaign(capture, {"where": f"source={Path(file).name}:{line} lanes=0 bits=0"}))
    assert len(rows) > 0


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("op=mmma", "op selects nothing that the program has; legal: barrier, branch, copy"),
        ("op=mma.sp role=zz", "role selects nothing that the program has; legal: a, address"),
        ("lanes=x role=e", "lanes is 'x'; legal: lanes: numbers such as 3, 0..1 or 0,4..7"),
        ("lane=3", "'lane=3' is no term, did you mean 'lanes'?"),
        ("op=", "op without a value"),
        ("lanes=3..1", "lanes is '3..1'"),
    ],
)
def test_selections_that_are_none(tcsim: Tcsim, where: str, words: str) -> None:
    code, out, said = tcsim("faults", "list", BUG0, "--where", where, "--faults", "5")
    assert (code, out, said.count("\n")) == (2, "", 1)
    assert words in said


_SELECTED = [
    ({"where": "op=ld", "site": "global"}, "where has op, which site global does not"),
    ({"where": "buffer=A", "site": "registers"}, "where has buffer, which site registers does not"),
    ({"where": "buffer=zz", "site": "global"}, "where names no buffer of the launch; legal: A, E, B, bias, D"),
    ({"where": "op=mma.sp", "site": "registers", "at": "intervals"}, "beside op, which selects times"),
    ({"where": "time=0..9", "site": "registers", "at": "intervals"}, "beside time, which selects times"),
    ({"site": "registers", "at": "intervals", "kind": "stuck1", "period": 3, "duty": 1}, "'intervals' with a period"),
    ({"site": "registers", "at": 4, "until": 2}, "until = 2, before at = 4"),
    ({"site": "registers", "at": 4, "until": -7}, "until: -7"),
    ({"site": "registers", "at": 4, "period": 3, "duty": 1}, "a period of a fault that strikes once"),
    ({"site": "global", "kind": "stuck1", "period": 3, "duty": 1}, "a period of a fault that strikes once"),
    ({"site": "registers", "at": 4, "along": "rows", "span": 2}, "along rows of site registers, which is no operand"),
    ({"site": "registers", "at": 4, "low": 1.0}, "low: beside kind flip; legal: kind random"),
]


@exhaustive
@pytest.mark.parametrize(("keys", "words"), _SELECTED)
def test_keys_that_mean_nothing_together(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _ = read_campaign(BUG0, keys).populations
    assert words in str(caught.value)


def test_buffers_by_name() -> None:
    """Two buffers have all their words, and no others."""
    target = LaunchTarget(BUG0)
    rows = _rows(read_campaign(BUG0, {"where": "all buffer=E,bias bits=7", "site": "global"}))
    words = [range(first, first + count) for first, count in map(target.buffers.__getitem__, ("E", "bias"))]
    assert sorted(rows["word"].tolist()) == sorted(word for part in words for word in part)


def test_lines_of_a_source_that_are_none() -> None:
    assert not source_holds(("a.cu", 1), "a.cu:1..2..3")
    assert not source_holds(("a.cu", 1), "a.cu:..3")
    assert source_holds(("src/a.cu", 2), "a.cu:1..2")


def test_lines_mean_nothing_for_one_instruction() -> None:
    with pytest.raises(ConfigError, match="line of a single instruction"):
        read_campaign(OPCODE, {"where": "role=e line=3"})
    with pytest.raises(ConfigError, match="role=scale is none"):
        read_campaign(OPCODE, {"where": "role=scale"})


def test_count_says_what_could_be_struck(tcsim: Tcsim) -> None:
    code, out, _ = tcsim("faults", "list", BUG0, "--where", "op=mma.sp role=e", "--count")
    assert code == 0
    assert re.search(r"^mma\.sp +384 ", out, re.MULTILINE)
    assert "not covered" in out
