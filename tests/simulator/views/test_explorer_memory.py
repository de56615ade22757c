"""The explorer's panel of Tensor Memory: what it says of cells at each change, against the map that it is made from."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.views.explorer import memory, page
from simulator.views.explorer.memory import EXAMPLE, roles, run_record, run_records
from simulator.views.tensor_memory import Interval, MemoryMap, memory_map
from simulator.views.tensor_memory.lives import ALLOCATION, ROLES
from tests.support.explorer_browser import ORDERED, in_each_browser, the_page
from tests.support.paths import ROOT

PAIR, HALVES = "digits/f16_tcgen05_pair", "digits/f16_tcgen05_m64"


def held_at(found: MemoryMap, cta: int, moment: int, lane: int, column: int) -> Interval | None:
    """What a cell holds: of several intervals the one of the last role, and of allocations only if nothing else."""
    here = [each for each in found.at(moment) if each.cta == cta and lane in each.lanes and column in each.columns]
    return max(here, key=lambda each: -1 if each.role == ALLOCATION else ROLES.index(each.role), default=None)


def words_of(held: Interval | None, lane: int, column: int) -> str:
    """What the page says of a cell."""
    where = f"lane {lane}, column {column}, address {lane << 16 | column:#010x}: "
    if held is None:
        return f"{where}not allocated"
    first, last = (f"{moment.opcode}, line {moment.line}" for moment in (held.first, held.last))
    if held.role == ALLOCATION:
        return f"{where}allocated by {first}, holds nothing"
    return f"{where}{held.role}, written first by {first}; last touched by {last}"


@in_each_browser
def test_cells_at_each_change(browse: Callable[..., Any], browser: str) -> None:
    """Opened by its button, moved by slider and buttons, pointed at, walked through by keys, and closed again."""
    rng = np.random.default_rng(5)
    cells = [
        [0, 0],
        [127, 511],
        [16, 0],
        [15, 387],
        [16, 387],
        [40, 394],
        *rng.integers(0, (128, 512), (20, 2)).tolist(),
    ]
    ask = [(EXAMPLE, 0, cells), (PAIR, 1, cells), (HALVES, 0, cells)]
    given = {"runs": [run_record(name) for name in (PAIR, HALVES)], "ask": ask}
    found = browse("memory", given, size=(1280, 720), browser=browser)
    assert found["closed"]
    assert found["opened"] == [False, f"#form={ORDERED}&memory={EXAMPLE.replace('/', '%2F')}"]
    maps = {name: memory_map(name) for name, _, _ in ask}
    assert [[name, cta, moment] for name, cta, moment, *_ in found["shown"]] == [
        [name, cta, moment] for name, cta, _ in ask for moment in maps[name].changes
    ]
    roles_seen = set()
    for name, cta, moment, words, rows, boxes, text in found["shown"]:
        expected = [(held_at(maps[name], cta, moment, *cell), *cell) for cell in cells]
        assert words == [words_of(*each) for each in expected], (name, moment)
        roles_seen |= {each.role for each, _, _ in expected if each}
        now = [each for each in maps[name].at(moment) if each.cta == cta and each.role != ALLOCATION]
        assert sorted(row[0] for row in rows) == sorted(each.role for each in now)
        assert {row[2] for row in rows} == {each.lanes_in_words for each in now}
        assert boxes == sum(each.lanes_in_words.count(",") + 1 for each in now)
        at = maps[name].moments[moment]
        assert f"moment {moment} of {len(maps[name].moments) - 1}: after {at.opcode or 'the start'}" in text
    assert {"D", "metadata", "copied bytes", ALLOCATION} <= roles_seen
    assert [place for place, _, _ in found["walked"]] == ["0.384", "0.385", "32.385", "32.447", "32.447", "32.384"]
    assert all(focused for _, focused, _ in found["walked"])
    assert found["walked"][-1][2].startswith("lane 32, column 384, address 0x00200180: metadata, written first by")
    assert ["scale factors of B", "18.75%", "9.375%"] in found["zoomed"]  # columns 396 to 401 of 384 to 447
    assert "moment=29&place=32.384&zoom=6" in found["link"]
    assert "metadata 384 to 385" in found["bars"]
    assert found["wide"] <= 0
    assert found["after"] == [True, 0, f"#form={ORDERED}"]


def test_long_runs_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run_record(EXAMPLE)
    monkeypatch.setattr(memory, "MOST", 3)
    cut = run_record.__wrapped__(EXAMPLE)
    assert (len(cut["intervals"]), cut["left_out"]) == (3, len(whole["intervals"]) - 3)
    places = [place for each in cut["intervals"] for place in each[5:]]
    assert max([*places, *cut["changes"]]) < len(cut["moments"])


def test_the_page_has_the_programs_that_are_asked_for(
    tmp_path: Path, tcsim: Callable[..., tuple[int, str, str]]
) -> None:
    """Lines with their text; an example by default."""
    data = json.loads(re.search(r'id="data">(.*?)</script>', the_page(), re.DOTALL)[1])  # type: ignore[index]
    assert [each["name"] for each in data["runs"]] == [EXAMPLE]
    assert data["roles"] == roles()
    source = (ROOT / "traces" / f"{EXAMPLE}.trace").read_text().splitlines()
    for number, text in data["runs"][0]["lines"].items():
        assert " ".join(source[int(number) - 1].split()).startswith(text)
    file = tmp_path / "x.html"
    assert tcsim("explore", "--memory", PAIR, "--memory", HALVES, "--output", str(file))[0] == 0
    assert f'"name":"{PAIR}","ctas":[0,1]' in file.read_text(encoding="utf-8")
    assert f'"name":"{HALVES}"' in file.read_text(encoding="utf-8")
    same = [str(ROOT / "traces" / f"{HALVES}.trace"), f"{ROOT / 'traces'}/./{HALVES}.trace"]
    assert [each["name"] for each in run_records([*same, PAIR])][2] == PAIR
    assert len({each["name"] for each in run_records(same)}) == 2
    code, out, err = tcsim("explore", "--memory", "digits/f16", "--output", str(file))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "digits/f16 has nothing in Tensor Memory" in err
    assert '"runs":[{"name":"digits/f16_tcgen05_m64"' in page(programs=[HALVES])
