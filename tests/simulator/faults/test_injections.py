"""Faults of several places, at several times, and of models of one's own: against words that are patched or computed by
hand, and alike one by one and together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isa.types import Bits
from simulator.errors import ConfigError
from simulator.faults.campaign import read_campaign
from simulator.faults.table import MODELS
from simulator.faults.targets.launch import LaunchTarget
from simulator.faults.targets.program import ProgramTarget
from simulator.program.capture import read_capture
from simulator.program.kernel import Operation
from tests.simulator.faults.test_launch_target import CAPTURE
from tests.simulator.faults.test_program_target import write
from tests.support.cases import exhaustive

LANES = np.arange(32, dtype=np.uint32)
SUM = """
.trace 1
.target sm_90a
.warps 1
.shared 128
.load %r0, "x.npz", "a";
.load %r4, "x.npz", "b";
.load %r12, "x.npz", "e";
.load shared[0], "x.npz", "words";
.warp 0 {
    mov.u32 %r20, %laneid;
    shl.b32 %r21, %r20, 2;
    ld.shared.u32 %r22, [%r21];
    add.u32 %r23, %r22, %r20;
    add.u32 %r23, %r23, %r20;
    add.u32 %r23, %r23, %r20;
    add.u32 %r23, %r23, %r20;
    MMA {%r16, %r17, %r18, %r19}, {%r0, %r1, %r2, %r3}, {%r4, %r5, %r6, %r7}, {%r16, %r17, %r18, %r19}, %r12, SELECTOR;
}
.store "sum", %r23, 1;
"""
LD, ADD, MMA = 2, 3, 7  # dynamic instructions


def _words() -> Bits:
    return np.arange(100, 132, dtype=np.uint32) * 37


def _struck(folder: Path, **keys: Any) -> tuple[Any, Bits]:
    """The faults of a group of the trace, and `sum` [fault, lane] of each; the rows are the same in both ways."""

    def change(arrays: dict[str, Any]) -> None:
        arrays.update({name: arrays[name][:1] for name in ("a", "b", "e")}, words=_words())

    path = write(folder / "sum", change, SUM)
    campaign = read_campaign(path, keys)
    rows = np.concatenate(list(campaign.faults()))
    target = campaign.subject
    assert isinstance(target, ProgramTarget)
    alone = ProgramTarget(path, together=False)
    alone.take(target.own, target.patterns)
    found = target.run(rows)
    assert (found == alone.run(rows)).all()
    sums = np.stack([target.alone(row)[0].arrays["sum"].reshape(-1).view(np.uint32) for row in rows])
    right = _words() + 4 * LANES
    assert found["elements"].tolist() == (sums != right).sum(axis=1).tolist()
    return rows, sums


def test_a_burst_over_lanes(tmp_path: Path) -> None:
    """Bit 9 of the loaded word in three lanes, before the sum reads it."""
    rows, sums = _struck(tmp_path, site="registers", at=ADD, along="lanes", span=3, where="words=22 bits=9")
    assert rows["lane"].tolist() == list(range(30)), "the last three lanes that all exist begin at 29"
    for row, found in zip(rows, sums, strict=True):
        hit = (row["lane"] <= LANES) & (row["lane"] + 3 > LANES)
        assert (found == (_words() ^ np.where(hit, 1 << 9, 0)) + 4 * LANES).all()


@pytest.mark.parametrize(("period", "duty"), [(2, 1), (3, 1), (3, 2), (9, 1)])
def test_an_intermittent_stuck_bit(tmp_path: Path, period: int, duty: int) -> None:
    """Bit 3 of the sum is stuck at 1 before some of the additions, the matrix instruction and the store."""
    keys = {"kind": "stuck1", "at": ADD + 1, "period": period, "duty": duty, "where": "words=23 bits=3"}
    rows, sums = _struck(tmp_path, site="registers", **keys)
    assert len(rows) == 32
    for row, found in zip(rows, sums, strict=True):
        lane, value = int(row["lane"]), int(_words()[row["lane"]] + row["lane"])
        for since in range(5):  # before three additions, the matrix instruction and what is stored
            if since % period < duty:
                value |= 8
            value += lane * (since < 3)
        expected = _words() + 4 * LANES
        expected[lane] = value
        assert (found == expected).all(), lane


@pytest.mark.parametrize(("hold", "lasts"), [("instruction", 1), ("warp", 5), ("", 1)])
def test_a_flip_that_is_held(tmp_path: Path, hold: str, lasts: int) -> None:
    """The struck bit keeps its value, whatever is written, for one instruction or to the end."""
    keys = {"site": "registers", "at": ADD + 1, "where": "words=23 bits=2 lanes=3..6"}
    rows, sums = _struck(tmp_path, **keys, **({"hold": hold} if hold else {}))
    for row, found in zip(rows, sums, strict=True):
        lane, value = int(row["lane"]), int(_words()[row["lane"]] + row["lane"])
        kept = ~value & 4
        for since in range(5):
            value = value & ~4 | kept if since < lasts else value
            value += lane * (since < 3)
        assert found[lane] == value
        assert ((found != _words() + 4 * LANES) <= (lane == LANES)).all()


def test_a_lost_write_in_a_trace(tmp_path: Path) -> None:
    """Of each addition of the sum: the register keeps what was there, so that one lane number is missing; of the first
    it keeps zero."""
    rows, sums = _struck(tmp_path, kind="lost", where="register=%r23 role=destination")
    assert sorted(set(rows["at"].tolist())) == [ADD + 1, ADD + 2, ADD + 3, ADD + 4]
    for row, found in zip(rows, sums, strict=True):
        expected, lane = _words() + 4 * LANES, int(row["lane"])
        expected[lane] = 3 * lane if row["at"] == ADD + 1 else expected[lane] - lane
        assert (found == expected).all()


def test_a_doubled_write_in_a_trace(tmp_path: Path) -> None:
    """The loaded word, of register 22, lands in 20 too, which is added four times; 23 is written behind it, and the sum
    reads no other."""
    rows, sums = _struck(tmp_path, kind="doubled", where="register=%r22 role=destination")
    assert set(rows["at"].tolist()) == {LD + 1}
    assert sorted(rows["word2"][rows["lane"] == 5].tolist()) == [6, 18, 20, 23]
    for row, found in zip(rows, sums, strict=True):
        expected, lane = _words() + 4 * LANES, int(row["lane"])
        if row["word2"] == 20:
            expected[lane] = 5 * _words()[lane]
        assert (found == expected).all()


@pytest.mark.parametrize("kind", ["lost", "doubled"])
def test_kinds_of_writes_need_a_destination(tmp_path: Path, kind: str) -> None:
    words = f"kind {kind} of registers that the selected instructions read; legal: role=destination"
    with pytest.raises(ConfigError, match=words):
        _struck(tmp_path, kind=kind, where="register=%r23 role=source")


def test_a_model_of_shared_memory(tmp_path: Path) -> None:
    """Each half of a word of shared memory becomes three times the half, right before the load, and not behind it."""
    keys = {"site": "shared", "model": "bits * 3 + bit", "type": "u8", "where": "words=5,9"}
    rows, sums = _struck(tmp_path, at=LD, **keys)
    assert len(rows) == 2 * 32
    for row, found in zip(rows, sums, strict=True):
        words, low = _words(), int(row["mask"]).bit_length() - 8
        word = int(words[row["word"]])
        new = ((word >> low & 255) * 3 + int(row["value"])) & 255
        words[row["word"]] = word & ~(255 << low) | new << low
        assert (found == words + 4 * LANES).all()
    _, sums = _struck(tmp_path, at=ADD, **keys)
    assert (sums == _words() + 4 * LANES).all()


def test_a_pattern_of_halves_of_registers(tmp_path: Path) -> None:
    """A bit of a half word, and another of the same half two lanes on; what lies beyond the last lane is left out."""
    file = tmp_path / "p.csv"
    file.write_text("pattern,probability,row,column,mask\npair,1,0,0,0x10\npair,1,0,2,0x2\n")
    keys = {"type": "f16", "patterns": str(file), "count": 64}
    rows, sums = _struck(tmp_path, site="registers", at=ADD, where="words=22", **keys)
    assert set(rows["mask"].tolist()) == {0xFFFF, 0xFFFF0000}
    for row, found in zip(rows, sums, strict=True):
        low, words = 16 * (int(row["mask"]) >> 31), _words()
        words[row["lane"]] ^= 0x10 << low
        words[row["lane"] + 2 : row["lane"] + 3] ^= 0x2 << low
        assert (found == words + 4 * LANES).all()


# Launches


def _launched(**keys: Any) -> tuple[LaunchTarget, Any]:
    """The faults of a group of a launch; their results are the same in both ways."""
    campaign = read_campaign(CAPTURE, keys)
    rows = np.concatenate(list(campaign.faults()))
    target = campaign.subject
    assert isinstance(target, LaunchTarget)
    alone = LaunchTarget(CAPTURE, together=False)
    alone.take(target.own, target.patterns)
    assert (target.run(rows) == alone.run(rows)).all()
    return target, rows


def test_a_lost_write_in_a_launch() -> None:
    """Behind an mma.sp a word of D is what the instruction before left there: the same as setting it by hand."""
    target, rows = _launched(kind="lost", where="op=mma.sp role=destination ctas=1", count=6)
    changed = 0
    for row in rows:
        warp, at = int(row["case"]), int(row["at"])
        item = target.item(warp, at - 1)
        assert isinstance(item, Operation)
        assert item.instruction.form.is_sparse
        assert int(row["word"]) in target.kernel.numbering.numbers(item.instruction.writes)
        by_hand = row.copy()
        by_hand["model"], by_hand["mask"], by_hand["at"] = 0, 1, at - 1
        before = target.alone(by_hand)[1].was
        by_hand["at"] = at
        by_hand["mask"] = before ^ target.alone(by_hand)[1].was
        changed += int(by_hand["mask"] != 0)
        lost, flipped = target.alone(row)[0].arrays["D"], target.alone(by_hand)[0].arrays["D"]
        assert (lost.view(np.uint32) == flipped.view(np.uint32)).all()
    assert changed > 1, "the others leave the word as it was"


def test_a_doubled_write_in_a_launch() -> None:
    """Behind an mma.sp a second register gets the word of D: the same as setting it by hand."""
    target, rows = _launched(kind="doubled", where="op=mma.sp role=destination ctas=1", count=8)
    outcomes = set()
    for row in rows:
        written = row.copy()
        written["model"], written["mask"] = 0, 1
        value = target.alone(written)[1].was
        by_hand = row.copy()
        by_hand["model"], by_hand["word"], by_hand["value"] = MODELS.index("set"), row["word2"], value
        one, other = target.alone(row)[0], target.alone(by_hand)[0]
        assert one.reason == other.reason
        outcomes.add(one.reason or bool((one.arrays["D"] != target.stored.golden["D"]).any()))
        for name, array in one.arrays.items():
            assert (array.view(np.uint32) == other.arrays[name].view(np.uint32)).all()
    assert len(outcomes) > 1


@exhaustive
@pytest.mark.parametrize("second", [0x80, 0])
def test_a_pattern_on_words_of_a_launch(tmp_path: Path, second: int) -> None:
    """Bits of two neighbouring words of a buffer, or of one, against a launch of a capture with the patched words."""
    import simulator

    file = tmp_path / "p.csv"
    file.write_text("pattern,probability,row,column,mask\npair,1,0,0,0x400\n" + "pair,1,1,0,0x80\n" * (second > 0))
    target, rows = _launched(site="global", where="buffer=A", patterns=str(file), count=4)
    first, count = target.buffers["A"]
    for row in rows:
        place = int(row["word"]) - first
        assert 0 <= place < count
        capture = read_capture(CAPTURE)
        words: Any = capture.before["A"].reshape(-1).view(np.uint32)
        words[place] ^= 0x400
        words[place + 1 : place + 2] ^= second
        expected = simulator.launch(capture, workers=1).arrays["D"]
        assert (target.alone(row)[0].arrays["D"].view(np.uint32) == expected.view(np.uint32)).all()
