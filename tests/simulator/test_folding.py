"""Narrow terminals: no line is too wide, and nothing of a text is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulator.folding import fold, lines_within, wrapped
from simulator.tables import aligned
from tests.support.cases import over
from tests.support.paths import GOLDEN

Tcsim = Callable[..., tuple[int, str, str]]
MMA = "mma.sp.m16n8k32.f32.f16.f16.f32"
WORDS = st.text(st.sampled_from("abc .,:|=/ "), max_size=70)
CELL = st.text(st.sampled_from("ab.,7"), max_size=40)


def letters(text: str) -> Counter[str]:
    return Counter(text.replace(" ", "").replace("\n", ""))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # on a machine that others keep busy
@given(WORDS, st.integers(20, 40))
def test_words_are_wrapped_and_kept(text: str, width: int) -> None:
    for lines in (wrapped(text, width), fold(text, width).split("\n")):
        assert all(len(line) <= max(width, len(line) if not line.strip() else 0) for line in lines)
        assert letters("".join(lines)) == letters(text)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(CELL, min_size=3, max_size=3), min_size=1, max_size=4), st.text("<>", min_size=3, max_size=3))
def test_tables_are_folded_and_kept(rows: list[list[str]], align: str) -> None:
    with lines_within(30):
        lines = aligned(rows, align, indent="  ")
    assert all(len(line) <= 30 for line in lines)
    for row in rows:
        assert letters("".join(row)) <= letters("".join(lines))


def test_where_columns_go() -> None:
    numbers = [["warp", "issued", "shared memory"], ["0", "123456", "1,234,567,890"]]
    with lines_within(24):
        assert aligned(numbers, ">") == [
            "warp  issued", "   0  123456", "", "warp  shared memory", "   0  1,234,567,890",
        ]  # fmt: skip
        assert aligned([["mma.sp.m16n8k16.f32.f16", "d4 a2", "2:4", "sm_80"]]) == [
            "mma.sp.m16n8k16.f32.f16", "    d4 a2  2:4  sm_80",
        ]  # fmt: skip
        assert aligned([["cycles", "as many as there are of them"]]) == [
            "cycles  as many as there", "        are of them",
        ]  # fmt: skip
    assert aligned(numbers, ">")[0] == "warp  issued  shared memory"


@over(
    "line",
    [
        "run digits/s8 --arithmetic none",
        "stalls digits/s8 --worst 5",
        "forms --type tf32",
        "forms --family tcgen05 --sparse",
        "roofline digits/s8",
        "config",
        "config h100_sxm operands sm",
        "gemm --path mma --type f16 --tile 64x64x64 --m 64 --n 64 --k 128",
        "faults cost --tile 64x64x64 --type f16",
        "faults forms --target sm_75",
        "accuracy --type f16 --k 16 --count 4 --targets sm_90",
        "validate --config rtx5070ti --group peak",
        "lessons",
        f"layout {MMA}",
        f"where {MMA} --operand a --row 5 --col 12",
        f"explain {MMA} --d 1,2",
        f"launch {GOLDEN}/launches/direct_one_warp.json --config h100_sxm",
        "faults --help",
        "run --help",
        "--help",
    ],
    ids=str,
    distinct=lambda line: line if line.startswith(("stalls", "forms --type", "layout", "run --help")) else "other",
)
def test_sixty_columns(tcsim: Tcsim, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    code, wide, _ = tcsim(*line.split())
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.delenv("LINES", raising=False)
    again, narrow, err = tcsim(*line.split())
    assert (again, max(map(len, narrow.splitlines()), default=0) <= 60) == (code, True), narrow + err
    if "--help" not in line:  # which argparse fits to the line itself
        assert letters(wide) <= letters(narrow)


def test_what_programs_read_is_never_folded(tcsim: Tcsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["run digits/s8 --arithmetic none --format json", "capture --header", "forms --type tf32 --format csv"]
    wide = [tcsim(*line.split()) for line in lines]
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.delenv("LINES", raising=False)
    assert [tcsim(*line.split()) for line in lines] == wide
    assert tcsim("config", "h100_sxm", "sm", "--output", tmp_path / "sm.txt")[0] == 0
    assert max(map(len, (tmp_path / "sm.txt").read_text().splitlines())) > 60
