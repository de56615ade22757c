"""What detectors would have corrected, against a decoder that corrects words, and products that are made again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.arithmetic.check_bits import decoded, secded
from simulator.faults import corrections
from simulator.faults.campaign import read_campaign
from simulator.faults.detectors.checksums import Checksums, Predicted
from simulator.faults.detectors.elements import Changed, Elements
from simulator.faults.outcomes import MASKED, SDC, numbers
from simulator.faults.results import read_results
from simulator.faults.targets.mma import MmaTarget
from simulator.faults.targets.tcgen05.target import Tcgen05Target
from simulator.studies.faults.report import as_text, correction_table
from simulator.studies.faults.summary import summarise

Tcsim = Callable[..., tuple[int, str, str]]
F16 = "mma.sp::ordered_metadata.m16n8k32.f32.f16.f16.f32"
_COLUMNS = sorted(sum(1 << bit for bit in three) for three in combinations(range(7), 3))[:32]


def _decode(word: int, check: int) -> tuple[int, bool]:
    """A plain decoder: the word after correction, and whether it gives up."""
    syndrome = check
    for bit in range(32):
        syndrome ^= _COLUMNS[bit] * (word >> bit & 1)
    if not syndrome or syndrome.bit_count() == 1:
        return word, False
    return (word ^ 1 << _COLUMNS.index(syndrome), False) if syndrome in _COLUMNS else (word, True)


def test_words_are_decoded_as_a_decoder_does() -> None:
    """Two words of a fault with up to four wrong bits each: what the decoder gives back decides."""
    rng = np.random.default_rng(3)
    found: Counter[str] = Counter()
    for _ in range(1500):
        words = rng.integers(0, 1 << 32, 2).tolist()
        flips = [sum(1 << bit for bit in rng.permutation(32)[: rng.integers(0, 5)].tolist()) for _ in words]
        checks = [0, 0]
        for place, word in enumerate(words):
            for bit in range(32):
                checks[place] ^= _COLUMNS[bit] * (word >> bit & 1)
        after = [_decode(word ^ flip, check) for word, flip, check in zip(words, flips, checks, strict=True)]
        stops, right = any(stop for _, stop in after), [word for word, _ in after] == words
        silent = [flip for flip, (word, stop) in zip(flips, after, strict=True) if flip and not stop]
        left = any(word != was for (word, stop), was in zip(after, words, strict=True) if not stop)
        of = decoded(np.array([flips], np.uint32))
        assert bool(of.corrected[0]) == (any(flips) and not stops and right)
        assert bool(of.noticed[0]) == (stops and not left)
        if of.miscorrected[0]:
            assert (stops, right) == (False, False)
        elif silent and not stops and not right:  # nothing was seen in any word
            assert not any(_syndrome(flip) for flip in flips)
        assert secded(np.array([flips], np.uint32))[0] == (of.corrected[0] | of.noticed[0])
        found.update(name for name in of._fields if getattr(of, name)[0])
    assert min(found[name] for name in ("noticed", "corrected", "miscorrected")) > 20


def _syndrome(flip: int) -> int:
    found = 0
    for bit in range(32):
        found ^= _COLUMNS[bit] * (flip >> bit & 1)
    return found


def _ran(subject: Any, **group: Any) -> tuple[Any, Any, Any]:
    campaign = read_campaign(subject, group)
    faults = np.concatenate(list(campaign.faults()))
    return campaign.subject, faults, campaign.subject.run(faults)


def test_one_wrong_element_is_corrected_and_its_distance_is_told() -> None:
    """D flips: the mended element, made here from A, B and C in float64, is as far from the right one as is said."""
    target, _, results = _ran(F16, site="d", kind="flip", count=400)
    assert isinstance(target, MmaTarget)
    how = corrections.of("abft", results["corrections"])
    assert set(how.tolist()) == {corrections.NONE, corrections.EXACT, corrections.NEAR}
    d = target.golden_matrix[0].view(np.float32).astype(np.float64)
    rows, columns = target.predicted.rows[0], target.predicted.columns[0]
    for result in results[how > 0]:
        row, column = int(result["first_row"]), int(result["first_column"])
        if target.checksums.row_tolerance <= target.checksums.column_tolerance:
            mended = np.float32(rows[row] - np.delete(d[row], column).sum())
        else:
            mended = np.float32(columns[column] - np.delete(d[:, column], row).sum())
        right = np.float32(d[row, column])
        assert result["left_abs"] == abs(float(mended) - float(right))
        steps = abs(int(mended.view(np.int32)) - int(right.view(np.int32)))
        assert result["left_ulp"] == steps
        assert (corrections.of("abft", result["corrections"]) == corrections.EXACT) == (steps == 0)


def test_nan_is_corrected_and_several_elements_are_not() -> None:
    _, _, results = _ran(F16, site="d", kind="constant", constant="0x7fc00000", count=64)
    assert (corrections.of("abft", results["corrections"]) > 0).all()
    assert (results["left_abs"] < 1e-4).all()
    _, _, results = _ran(F16, site="d", kind="zero", along="columns", span=2, count=64)
    assert (corrections.of("abft", results["corrections"]) != corrections.EXACT).all()
    _, _, results = _ran("mma.sp.m16n8k64.s32.s8.s8.s32", site="d", kind="word", count=64)
    assert (corrections.of("abft", results["corrections"]) == corrections.EXACT)[results["outcome"] == SDC].all()


def test_an_alarm_without_a_fault_spoils_a_right_element() -> None:
    """Where one row and one column of a right D fail, the correction makes it wrong, and the result says so."""
    d = np.array([[[1.0, 2.0], [3.0, 4.0]]])
    should = Predicted(np.array([[3.5, 7.0]]), np.array([[4.0, 6.25]]))
    checks = Checksums(should, (d, Predicted(d.sum(axis=2) + 0.1, d.sum(axis=1))))
    _, at = checks.look(d, np.zeros(1, np.int64))
    assert (at.row.tolist(), at.column.tolist()) == ([0], [1])
    assert at.value[0] == pytest.approx(2.25 if not checks.by_rows else 2.5)
    target = MmaTarget(F16, cases=40, seed=5)
    faults = np.concatenate(list(read_campaign(F16, {"site": "e", "where": "dead", "count": 400}).faults()))
    faults["case"] = np.arange(len(faults)) % 40
    results = target.run(faults)
    assert (results["outcome"] == MASKED).all()
    alarms = corrections.of("abft", results["corrections"])
    assert set(alarms.tolist()) <= {corrections.NONE, corrections.WRONG, corrections.EXACT}


@pytest.mark.parametrize("opcode", ["kind::f16", "kind::i8"])
def test_elements_say_what_whole_products_say(opcode: str) -> None:
    """Random changes of few and many elements, with NaN and infinity: as sums of whole matrices."""
    target = Tcgen05Target(f"tcgen05.mma.sp.cta_group::1.{opcode}", m=64, n=16)
    golden, rng, count = target.golden[0], np.random.default_rng(1), 300
    whole = np.repeat(golden[None], count, axis=0)
    for fault in range(count):
        places = rng.integers(0, golden.size, rng.choice([1, 1, 2, 20]))
        words = rng.choice([0x7F800000, 0x7FC00000, 0xFF7FFFFF, *golden.ravel()[:9].tolist()], len(places))
        whole[fault].ravel()[places] ^= np.uint32(1) << rng.integers(0, 32, len(places), dtype=np.uint32)
        if fault % 3 == 0:
            whole[fault].ravel()[places] = words
    at_fault, row, column = np.nonzero(whole != golden)
    elements = Elements(target.checksums, 0, golden, target.result)
    seen, at = elements.look(count, Changed(at_fault, row, column, whole[at_fault, row, column]))
    real = numbers(whole, target.result)
    case = np.zeros(count, np.int64)
    assert (seen == target.checksums.sees(real, case)).all()
    _, wanted = target.checksums.look(real, case)
    assert len(wanted.fault) > 50
    for mine, theirs in zip(at[:3], wanted[:3], strict=True):
        assert mine.tolist() == theirs.tolist()
    assert np.allclose(at.value, wanted.value, rtol=1e-12, atol=0)


def test_the_report_says_what_is_corrected(tcsim: Tcsim, tmp_path: Path) -> None:
    """Shares of harmful faults, counted again from the rows; three wrong bits of a word fool the code."""
    (tmp_path / "c.toml").write_text(
        f'[subject]\nopcode = "{F16}"\n'
        '[[faults]]\nsite = "e"\nkind = "flips"\nbits = 3\ncount = 80\n'
        '[[faults]]\nsite = "d"\nkind = "flip"\ncount = 90\n'
    )
    listed, results = tmp_path / "l.csv", tmp_path / "r.csv"
    assert tcsim("faults", "list", tmp_path / "c.toml", "--output", listed)[0] == 0
    assert tcsim("faults", "run", listed, "--output", results)[0] == 0
    frame, summary = read_results(results), summarise(results)
    words = frame[frame["group"] == 0]["corrections"]
    fooled = (words == "secded:wrong").mean()
    assert 0.3 < fooled < 0.9
    one = frame[frame["group"] == 1]
    exact, near = ((one["corrections"] == f"abft:{how}").mean() for how in ("exact", "near"))
    left = f"{one['left_ulp'].max():,} ulp, {one['left_abs'].max():.3g}"
    table = correction_table(summary)
    assert table[1][1:] == ["secded", "0.0%", "0.0%", "-", f"{fooled:.1%}", "-"]
    assert table[2][1:] == ["abft", f"{exact + near:.1%}", f"{exact:.1%}", left, "0.0%", "-"]
    assert "what detectors would have corrected" in as_text(summary)
    spoilt = results.read_text().replace("abft:near", "abft:nearly", 1)
    results.write_text(spoilt)
    code, _, said = tcsim("faults", "report", results)
    assert (code, said.count("\n")) == (2, 1)
    assert "abft:nearly" in said
