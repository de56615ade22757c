"""The benchmarks compare things that give the same result, and run."""

from __future__ import annotations

import numpy as np
import pytest

import isa
from simulator.execute.mma import execute_mma
from simulator.layout import form_layout
from simulator.views.drawing.registers import matrix_panels
from simulator.views.drawing.svg import figure
from tests.benchmarks import __main__ as benchmarks
from tests.benchmarks.bare_simpy import Loop
from tests.benchmarks.pictures import with_matplotlib
from tests.benchmarks.plain import plain_mma_sp


def test_plain_python_gives_the_same_bits() -> None:
    form, (a, b, c, e) = benchmarks.operands(8)
    ours = execute_mma(form, a, b, c, e, 0, target=isa.parse_target("sm_90a"))
    assert np.array_equal(plain_mma_sp(form, a, b, c, e), ours)


def test_the_benchmarks_print_a_ratio_each(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(benchmarks, "ROUNDS", 1)
    monkeypatch.setattr(benchmarks, "pairs", lambda: [benchmarks.Pair("same", lambda: None, 1, lambda: None, 1)])
    benchmarks.main()
    assert "same" in capsys.readouterr().out


def test_the_timed_loop_is_one_loop() -> None:
    """As many instructions as the bare model has, and no shorter for being skipped."""
    timed = Loop()
    assert timed(skip=True).cycles == timed(skip=False).cycles


def test_both_pictures_have_every_cell() -> None:
    operand = form_layout("mma.m8n8k16.s32.s8.s8.s32").operands["d"]
    ours, other = figure("", [matrix_panels(operand, "pastel")]).svg, with_matplotlib(operand)
    assert ours.count("data-operand=") == operand.table["row"].size
    assert other.count("clip-path") >= operand.table["row"].size
