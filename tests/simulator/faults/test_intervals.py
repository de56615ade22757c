"""Intervals between accesses: the weighted faults of each are those of every moment, one by one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from simulator.errors import ConfigError
from simulator.faults.campaign import read_campaign
from simulator.faults.outcomes import MASKED, SDC
from simulator.faults.table import SITES, Faults, empty
from simulator.faults.targets.launch import LaunchTarget
from simulator.faults.targets.program import ProgramTarget
from tests.simulator.faults import small_launch
from tests.support.cases import exhaustive
from tests.support.paths import GOLDEN

Tcsim = Callable[..., tuple[int, str, str]]
MOMENTS = 24  # of a trace that are looked at


def _rows(path: Path | str, **keys: object) -> Faults:
    return np.concatenate(list(read_campaign(path, {"at": "intervals", **keys}).faults()))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_launch.written(tmp_path_factory.mktemp("small"))


def test_buffers_of_a_launch_are_as_numpy_has_them(path: Path) -> None:
    """A is read once, and its faults change what numpy says; D stands until it is stored, and then to the end."""
    target = LaunchTarget(path)
    texts = [target.kernel.items[item].text for item in target.executed(0).tolist()]
    load, store = (next(i for i, text in enumerate(texts) if name in text) for name in ("ld.global", "st.global"))
    both = target.executed(1).tolist() == target.executed(0).tolist()
    x = target.capture.before["A"].view(np.uint32)
    right = small_launch.result(small_launch.values(x))
    rows = _rows(path, site="global")
    harmful = target.run(rows)["outcome"] == SDC
    assert both
    for word in range(128):
        for bit in (0, 3, 17):
            mine = (rows["word"] == word) & (rows["mask"] == 1 << bit)
            end = load if word < 64 else store
            assert rows["weight"][mine].tolist() == ([end, len(texts) - end] if word < 64 or x[word - 64] % 2 == 0
                                                     else [len(texts)])  # fmt: skip
            if word < 64:
                now = x.copy()
                now[word] ^= 1 << bit
                seen = [bool((small_launch.result(small_launch.values(now)) != right).any()), False]
            else:
                seen = [False, True] if x[word - 64] % 2 == 0 else [True]
            assert harmful[mine].tolist() == seen, (word, bit)
    some = np.random.default_rng(1).choice(len(rows), 40, replace=False)
    assert (target.run(rows[some]) == LaunchTarget(path, together=False).run(rows[some])).all()


def test_shared_memory_of_a_launch_is_vulnerable_from_store_to_load(path: Path) -> None:
    target = LaunchTarget(path)
    texts = [target.kernel.items[item].text for item in target.executed(1).tolist()]
    store, load = (next(i for i, text in enumerate(texts) if name in text) for name in ("st.shared", "ld.shared"))
    odd = target.capture.before["A"].view(np.uint32) % 2 == 1
    rows = _rows(path, site="shared", where="bits=5")
    harmful = target.run(rows)["outcome"] == SDC
    share = (rows["weight"] * harmful).sum() / rows["weight"].sum()
    assert len(rows) == 2 * 32 * 3
    assert share == pytest.approx((~odd).mean() * (load - store) / len(texts))
    some = np.random.default_rng(1).choice(len(rows), 40, replace=False)
    assert (target.run(rows[some]) == LaunchTarget(path, together=False).run(rows[some])).all()


def test_one_by_one_launches_keep_no_accesses(tmp_path: Path) -> None:
    path = small_launch.written(tmp_path, small_launch.PTX.replace("st.global", "red.global.add"))
    with pytest.raises(ConfigError, match="intervals of site global in a launch whose accesses are not all kept"):
        _rows(path, site="global")


@pytest.mark.parametrize(("name", "site", "words", "lanes"), [
    ("digits/f16", "shared", (0, 40, 2000), (0,)),
    pytest.param("digits/f16_tcgen05_m64", "shared", (0, 512, 1300), (0,), marks=exhaustive),
    ("digits/f16_tcgen05_m64", "tmem", (0, 70), (0, 17)),
])  # fmt: skip
def test_words_of_traces_against_every_moment(
    name: str, site: str, words: tuple[int, ...], lanes: tuple[int, ...]
) -> None:
    """A fault before each operation that any warp executes, in place of one for each interval."""
    target = ProgramTarget(name)
    where = f"all words={','.join(map(str, words))} lanes={','.join(map(str, lanes))} bits=3"
    rows = _rows(name, site=site, where=where)
    starts = target.golden.starts
    moments = {int(starts[warp][index]): (warp, index) for warp in target.numbers for index in range(len(starts[warp]))}
    order = sorted(moments)[1:]
    position = {start: number for number, start in enumerate(order, 1)}
    some = order[:: max(len(order) // MOMENTS, 1)]
    every = empty(len(some) * len(words) * len(lanes))
    every["id"], every["site"], every["mask"] = np.arange(len(every)), SITES.index(site), 8
    each = [
        (warp, at, word, lane) for word in words for lane in lanes for warp, at in (moments[start] for start in some)
    ]
    for column, values in zip(("case", "at", "word", "lane"), zip(*each, strict=True), strict=True):
        every[column] = values
    wanted, found = target.run(every), target.run(rows)
    for word in words:
        for lane in lanes:
            mine = np.flatnonzero((rows["word"] == word) & (rows["lane"] == lane))
            mine = mine[np.argsort([starts[int(row["case"])][row["at"]] for row in rows[mine]])]
            ends = np.cumsum(rows["weight"][mine])
            assert ends[-1] == len(order)
            there = np.flatnonzero((every["word"] == word) & (every["lane"] == lane))
            interval = np.searchsorted(ends, [position[start] for start in some])
            expected = found["outcome"][mine][interval]
            assert (wanted["outcome"][there] == expected).all()
            assert (wanted["elements"][there] == found["elements"][mine][interval]).all()
    assert {MASKED} < set(wanted["outcome"].tolist())


@pytest.mark.parametrize(("given", "registers"), [
    ('machine_code = "direct_one_warp.sass.gz"', 40),  # R35 is the last that is named; two more, in units of 8
    ("registers = 43", 48),
])  # fmt: skip
def test_weights_of_a_physical_register_file(tmp_path: Path, given: str, registers: int) -> None:
    """What does harm weighs what it does in PTX's registers; the rest fills up the registers that the chip has."""
    names = [f"direct_one_warp.{kind}" for kind in ("json", "ptx", "npz", "sass.gz")]
    for name in names:
        (tmp_path / name).write_bytes((GOLDEN / "launches" / name).read_bytes())
    campaign = tmp_path / "c.toml"
    subject = '[subject]\nlaunch = "direct_one_warp.json"\n'
    keys = {"site": "registers", "at": "intervals", "where": "lanes=3 bits=2,21"}
    lists = []
    for more in ("", f"{given}\n"):
        campaign.write_text(subject + more)
        read = read_campaign(campaign, keys)
        lists.append(np.concatenate(list(read.faults())))
    virtual, physical = lists
    target = LaunchTarget(tmp_path / names[0])
    harmful = target.run(virtual)["outcome"] != MASKED
    for column in ("case", "word", "lane", "mask", "at"):
        assert (virtual[column] == physical[column]).all()
    assert harmful.mean() > 0.3
    assert (virtual["weight"][harmful] == physical["weight"][harmful]).all()
    assert physical["weight"].sum() == pytest.approx(2 * registers * target.instructions(0))
    (group,) = json.loads(str(read.about()["groups"]))
    assert (group["registers"], group["bits"]) == (registers, registers * 32 * 32)


def test_registers_of_a_thread_that_are_none(tcsim: Tcsim, tmp_path: Path) -> None:
    path, campaign = small_launch.written(tmp_path), tmp_path / "c.toml"
    few = f'[subject]\nlaunch = "{GOLDEN / "launches" / "direct_one_warp.json"}"\nregisters = 8\n'
    campaign.write_text(few)
    with pytest.raises(ConfigError, match=r"8 registers of a thread, where the PTX needs 3\d\.\d values on average"):
        _rows(campaign, site="registers")
    for given, said in (
        ("registers = 1", ""),
        ("registers = 256", "registers: 256; legal: an integer from 1 to 255"),
        ('machine_code = "none.sass"', "none.sass is not there"),
        ('registers = 8\nmachine_code = "small.ptx"', "beside machine_code"),
    ):
        campaign.write_text(f'[subject]\nlaunch = "{path}"\n{given}\n')
        code, out, err = tcsim("faults", "list", campaign, "--site", "registers", "--at", "intervals", "--count")
        assert (code, said in err, err.count("\n")) == (2 if said else 0, True, bool(said)), err
        assert said or "weights stand for 8 registers" in out
