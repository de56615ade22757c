"""Faults in lines of L1 and L2 of a launch: against what numpy says of it, and together against one by one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from simulator.errors import ConfigError
from simulator.faults.campaign import read_campaign
from simulator.faults.outcomes import MASKED, REASONS, SDC
from simulator.faults.table import MODELS, SITES, Faults
from simulator.faults.targets.launch import LaunchTarget
from simulator.program.capture import write_capture
from tests.simulator.faults.test_launch_target import CAPTURE, row
from tests.support.cases import exhaustive

THREADS = 32
PTX = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 A, .param .u64 D) {
.reg .b32 %r<16>; .reg .f32 %f<5>; .reg .b64 %rd<9>;
.shared .align 16 .b8 s[1024];
ld.param.u64 %rd1, [A];
ld.param.u64 %rd2, [D];
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %tid.x;
mad.lo.u32 %r3, %r1, 32, %r2;
mul.wide.u32 %rd5, %r2, 4;
add.u64 %rd3, %rd1, %rd5;
mad.wide.u32 %rd4, %r3, 20, %rd2;
mov.f32 %f0, 0f00000000;
mov.u32 %r15, 0;
mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r15, %r15}, {%r15}, {%f0, %f0, %f0, %f0};
ld.global.cg.u32 %r4, [%rd3];
ld.global.u32 %r5, [%rd3];
ld.global.cg.u32 %r6, [%rd3];
ld.global.nc.u32 %r7, [%rd3];
shl.b32 %r8, %r2, 4;
add.u64 %rd6, %rd1, 64;
cp.async.ca.shared.global [%r8], [%rd3], 4;
cp.async.cg.shared.global [%r8+512], [%rd6], 16;
cp.async.wait_all;
ld.shared.u32 %r9, [%r8];
st.global.u32 [%rd4], %r5;
st.global.u32 [%rd4+4], %r6;
st.global.u32 [%rd4+8], %r7;
st.global.u32 [%rd4+12], %r9;
ld.global.u32 %r10, [%rd4];
st.global.u16 [%rd4], %r4;
ld.global.u32 %r11, [%rd4];
st.global.u32 [%rd4+4], %r10;
st.global.u32 [%rd4+16], %r11;
ret;
}
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two CTAs of 32 threads; each thread reads a word of A in five ways, and stores and reloads its part of D."""
    path = tmp_path_factory.mktemp("caches") / "k.json"
    x = np.random.default_rng(5).integers(0, 1 << 32, THREADS).astype(np.uint32).view(np.int32)
    buffers = {"A": x, "D": np.zeros(2 * THREADS * 5, np.int32)}
    params = [{"buffer": name} for name in buffers]
    write_capture(path, PTX, "k", (2,), (THREADS,), params, buffers, {"D": buffers["D"]}, target="sm_80")
    return path


def _rows(path: Path | str, **keys: object) -> Faults:
    return np.concatenate(list(read_campaign(path, {"at": "intervals", **keys}).faults()))


def _places(target: LaunchTarget) -> dict[str, int]:
    """The numbers of the dynamic instructions, by how they begin; of several the first."""
    found: dict[str, int] = {}
    for at, item in enumerate(target.executed(0).tolist()):
        text = target.kernel.items[item].text
        found.setdefault(text.rstrip(";"), at)
    return found


def _read_of_a(x: int, at: int, bit: int, when: dict[str, int], *, l1: bool) -> list[int]:
    """What a thread stores of its word of A (the first, the cached and the two other loads, in their places in D),
    struck before dynamic instruction `at`."""
    loads = [("ld.global.u32 %r5, [%rd3]", True), ("ld.global.cg.u32 %r6, [%rd3]", False),
             ("ld.global.nc.u32 %r7, [%rd3]", True), ("cp.async.ca.shared.global [%r8], [%rd3], 4", True)]  # fmt: skip
    return [x ^ (1 << bit) * (at <= when[text] and (cached or not l1)) for text, cached in loads]


@pytest.mark.parametrize("site", ["l1", "l2"])
def test_words_that_are_read(path: Path, site: str) -> None:
    """In L2 all CTAs see a fault of A, whatever the load; in L1 those loads of one CTA that go through it."""
    target = LaunchTarget(path)
    when, first = _places(target), target.buffers["A"][0]
    fill = when["ld.global.u32 %r5, [%rd3]" if site == "l1" else "ld.global.cg.u32 %r4, [%rd3]"]
    rows = _rows(path, site=site, where="buffer=A bits=3,17")
    words = target.capture.before["A"].view(np.uint32)
    assert sorted(set(rows["word"].tolist())) == list(range(first, first + THREADS))
    assert set(rows["case"].tolist()) == ({0, 1} if site == "l1" else {0})
    assert rows["at"].min() == fill + 1, "right behind the fill"
    results = target.run(rows)
    elements = []
    for fault in rows:
        bit, x, at = int(fault["mask"]).bit_length() - 1, int(words[fault["word"] - first]), int(fault["at"])
        right, got = (_read_of_a(x, since, bit, when, l1=site == "l1") for since in (len(when), at))
        wrong = sum(a != b for a, b in zip(_stored(right, x), _stored(got, x), strict=True))
        elements.append(wrong * (2 if site == "l2" else 1))
    assert results["elements"].tolist() == elements
    assert set(results["outcome"].tolist()) == {MASKED, SDC}
    assert (results == LaunchTarget(path, together=False).run(rows)).all()
    weights = rows["weight"][(rows["word"] == first) & (rows["mask"] == 8) & (rows["case"] == 0)]
    assert weights.sum() == len(target.executed(0)) - fill


def _stored(loads: list[int], first: int) -> list[int]:
    """What D has of a thread: the cached load with the low half of the first one, the cached load, .nc, cp.async, and
    the first of these again, read back."""
    cached, _, copied_nc, copied = loads
    mixed = cached & ~0xFFFF | first & 0xFFFF
    return [mixed, cached, copied_nc, copied, mixed]


def test_stores_end_faults_in_l1(path: Path) -> None:
    """A word of D in L1 is struck behind its first load: the store of its low half ends the fault there, the load
    behind it sees the one in the high half; memory never does."""
    target = LaunchTarget(path)
    when, first = _places(target), target.buffers["D"][0]
    behind = when["ld.global.u32 %r10, [%rd4]"] + 1
    word = first + 5 * 7  # thread 7's first
    for bit, seen in ((3, 0), (20, 1)):
        fault = row("l1", word, 1 << bit, warp=0, at=behind)
        for together in (True, False):
            (result,) = LaunchTarget(path, together=together).run(fault)
            assert result["elements"] == seen
        golden = target.stored.golden["D"].copy()
        golden[5 * 7 + 4] ^= 1 << bit
        ended, _ = target.alone(fault[0])
        assert (ended.arrays["D"] == (golden if seen else target.stored.golden["D"])).all()
    (other,) = target.run(row("l1", word, 1 << 20, warp=1, at=behind))
    assert REASONS[other["reason"]] == "unread", "L1 of the other CTA does not have it"


def test_stores_in_l2_are_what_the_host_reads(path: Path) -> None:
    target = LaunchTarget(path)
    last = len(target.executed(0))
    word = target.buffers["D"][0] + 5 * 7 + 2
    (late,) = target.run(row("l2", word, 1 << 9, at=last))
    assert (late["outcome"], late["elements"]) == (SDC, 1)
    (early,) = target.run(row("l2", word, 1 << 9, at=3))
    assert REASONS[early["reason"]] == "unread", "it is not there yet"


@pytest.mark.parametrize("each", [4, pytest.param(40, marks=exhaustive)])
def test_caches_together_and_one_by_one(each: int) -> None:
    generator = np.random.default_rng(4)
    together, alone = LaunchTarget(CAPTURE), LaunchTarget(CAPTURE, together=False)
    parts = []
    for site, kind in (("l1", "flip"), ("l2", "flip"), ("l1", "zero")):
        campaign = read_campaign(CAPTURE, {"site": site, "kind": kind, "at": "intervals", "count": 1500})
        every = np.concatenate(list(campaign.faults()))
        parts.append(generator.choice(every, each, replace=False))
    rows = np.concatenate(parts)
    rows["id"] = np.arange(len(rows))
    found = together.run(rows)
    assert (found == alone.run(rows)).all()
    assert SDC in found["outcome"]
    assert {SITES[number] for number in rows["site"]} == {"l1", "l2"}
    assert {MODELS[number] for number in rows["model"]} == {"flip", "set"}


def test_caches_have_intervals_alone(path: Path) -> None:
    with pytest.raises(ConfigError, match="site l2 with at = any; legal: at = 'intervals'"):
        _rows(path, site="l2", at="any")


def test_bits_of_a_cache_are_those_that_are_there(path: Path) -> None:
    """On average over time: 32 words of A, from the fill on; of the L1 of each of two CTAs."""
    target = LaunchTarget(path)
    when, count = _places(target), len(target.executed(0))
    campaign = read_campaign(path, {"site": "l1", "at": "intervals", "where": "buffer=A"})
    (group,) = json.loads(str(campaign.about()["groups"]))
    d = (
        2 * 20 * THREADS * (count - when["ld.global.u32 %r10, [%rd4]"]) // 4
    )  # all sectors of D, by the load of one word
    a = 2 * THREADS * (count - when["ld.global.u32 %r5, [%rd3]"])
    assert group["bits"] == round(32 * (a + d) / count)
