"""Faults of the tensor core unit in `wgmma` of captured launches that an H100 ran: against sums in pure Python, and
against operands of other warps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from isa.fragments.metadata import ONE_OF_TWO
from simulator.arithmetic import Operands, Sum, add
from simulator.arithmetic.convert import to_float64
from simulator.execute import wgmma
from simulator.faults.campaign import read_campaign
from simulator.faults.outcomes import SDC
from simulator.faults.table import empty
from simulator.faults.targets.launch import LaunchTarget
from simulator.faults.unit import warpgroup
from simulator.faults.unit.instruction import UnitFault
from simulator.faults.unit.kernel import on_struck_unit
from simulator.simulation.launch.batches import batches
from simulator.simulation.launch.run import Run
from simulator.state.registers import Warps
from tests.simulator.faults.test_unit import in_python
from tests.simulator.faults.test_unit_programs import fault
from tests.support.paths import GOLDEN

Tcsim = Callable[..., tuple[int, str, str]]
LAUNCHES = GOLDEN / "launches"
CTA, QUARTER = 7, 2
DEFINED = (0b0100, 0b1110)  # codes of 1:2


def struck(target: LaunchTarget, row: Any, ctas_struck: Any, lasting: bool = True) -> None:
    """Runs the launch with a fault on one sub-core of the struck CTAs."""
    setup = target.setup()
    for ctas in batches(setup):
        state = setup.state(ctas)

        def strikes(rows: Warps, ctas: Any = ctas, warps: int = state.warps) -> Any:
            return np.isin(ctas[rows // warps], ctas_struck) & (rows % warps % 4 == QUARTER) & lasting

        Run(on_struck_unit(target._code, UnitFault(row, strikes)), state).run()


@pytest.mark.parametrize(
    ("name", "ctas"),
    [
        ("wgmma_f16", range(0, 90, 2)),
        ("wgmma_fp8", range(0, 90, 3)),
        ("wgmma_tf32", range(0, 90, 3)),
        ("wgmma_int", range(0, 90, 3)),
    ],
)
def test_d_of_one_quarter_is_wrong_as_in_python(monkeypatch: pytest.MonkeyPatch, name: str, ctas: range) -> None:
    """Every `wgmma` of the launch: the struck element is what pure Python finds, and all others are right."""
    target, kinds = LaunchTarget(LAUNCHES / f"{name}.json"), Counter[tuple[Any, ...]]()
    position = 5 * 16 + 6  # a row and a column of the warp's own 16 rows
    row, found = empty(1)[0], warpgroup.StruckCores.add

    def looked(self: Any, warps: Warps, how: Sum, operands: Operands) -> Any:
        d, right = found(self, warps, how, operands), add(how, operands)
        hit = self._fault.strikes(warps).reshape(-1, 4)
        assert not hit[:, [0, 1, 3]].any()
        inside, column = divmod(position, how.n)
        for group in np.flatnonzero(hit[:, QUARTER]).tolist():
            place = group, 16 * QUARTER + inside, column
            if _plain(operands, how, place):
                whole = SimpleNamespace(sum=how, matrices=operands)
                one = fault("multiplier", "flip", case=group, lane=place[1] * how.n + column, **_bits(row))[0]
                one["site"], one["model"] = row["site"], row["model"]
                assert int(d[place]) == in_python(whole, one), how
                kinds[how.a_type, how.d_type, how.sparsity] += int(d[place]) != int(right[place])
            right[place] = d[place]
        assert (d == right).all()
        return d

    monkeypatch.setattr(warpgroup.StruckCores, "add", looked)
    for site, model, word, mask in (
        ("multiplier", "flip", 3, 1 << 6),
        ("term", "stuck1", 2, 0xFF << 8),
        ("adder", "stuck0", 0, 0xFFFF << 4),
        ("output", "flip", 0, 1 << 9),
    ):
        row = fault(site, model, word=word, mask=mask)[0]
        row["lane"] = position
        struck(target, row, ctas)
    assert min(kinds.values()) > 0
    assert len(kinds) >= 2


def _bits(row: Any) -> dict[str, int]:
    return {name: int(row[name]) for name in ("word", "mask", "value", "lane2")}


def _plain(operands: Operands, how: Sum, place: tuple[int, int, int]) -> bool:
    """Whether the numbers that an element of D is computed from are finite, and codes join no halves of two elements,
    as the reference needs it."""
    group, row, column = place
    codes = operands.codes
    if how.sparsity == ONE_OF_TWO and codes is not None and not np.isin(codes[group, row], DEFINED).all():
        return False
    numbers = (
        (operands.a[group, row], how.a_type), (operands.b[group, :, column], how.b_type),
        (operands.c[group, row, column], how.c_type),
    )  # fmt: skip
    return how.rule is None or all(np.isfinite(to_float64(np.atleast_1d(one), kind)).all() for one, kind in numbers)


def test_what_strikes_once_is_one_warp_of_the_warpgroup() -> None:
    target = LaunchTarget(LAUNCHES / "wgmma_f16.json")
    (at,) = {index for index in range(target.instructions(4 * CTA)) if target.multiplies(4 * CTA, index)}
    rows = np.concatenate(
        [
            fault("output", "flip", case=4 * CTA + quarter, at=at, mask=1 << 10, lane=16 * quarter)
            for quarter in range(4)
        ]
    )
    rows["id"] = np.arange(4)
    results = target.run(rows)
    assert (results["outcome"] == SDC).all()
    assert results["elements"].tolist() == [1] * 4 or (results["bits"] == 1).all()
    assert len(set(zip(results["first_row"].tolist(), results["first_column"].tolist(), strict=True))) == 4


def test_the_input_of_a_selector_reaches_one_quarter(monkeypatch: pytest.MonkeyPatch) -> None:
    """The codes of its 16 rows are those of the other selector."""
    target, seen = LaunchTarget(LAUNCHES / "wgmma_f16.json"), []
    found = warpgroup.StruckCores.codes

    def looked(self: Any, form: Any, warps: Warps, words: Any, selector: int) -> Any:
        codes = found(self, form, warps, words, selector)
        right, wrong = (wgmma.TensorCores().codes(form, warps, words, one) for one in (selector, 1 - selector))
        rows = slice(16 * QUARTER, 16 * QUARTER + 16)
        for group in np.flatnonzero(self._fault.strikes(warps).reshape(-1, 4)[:, QUARTER]).tolist():
            assert (codes[group, rows] == wrong[group, rows]).all()
            seen.append((codes[group, rows] != right[group, rows]).any())
            right[group, rows] = wrong[group, rows]
        assert (codes == right).all()
        return codes

    monkeypatch.setattr(warpgroup.StruckCores, "codes", looked)
    struck(target, fault("selector_input", "flip", mask=1)[0], range(90))
    assert any(seen)


def test_lists_of_wgmma_launches_run_and_replay(tmp_path: Any, tcsim: Tcsim) -> None:
    listed, results = tmp_path / "list.csv", tmp_path / "results.csv"
    keys = {"site": "multiplier", "kind": "stuck1", "where": "op=wgmma ctas=7 bits=13", "count": 6}
    campaign = read_campaign(LAUNCHES / "wgmma_f16.json", keys)
    rows = np.concatenate(list(campaign.faults()))
    assert set(rows["case"].tolist()) <= set(range(28, 32))
    assert campaign.subject.sites["multiplier"].live.shape[1] == 16 * 16
    path = tmp_path / "c.toml"
    text = "".join(f"{name} = {value!r}\n" for name, value in keys.items())
    path.write_text(f"[subject]\nlaunch = '{LAUNCHES / 'wgmma_f16.json'}'\n[[faults]]\n{text}")
    assert tcsim("faults", "list", path, "--output", listed) == (0, "", "")
    assert tcsim("faults", "run", listed, "--output", results)[0] == 0
    assert "multiplier" in tcsim("faults", "report", results)[1]
    assert "multiplier" in tcsim("faults", "replay", listed, "--id", "0")[1]
