"""The text of pictures, read back from the SVG: no line leaves its panel or the page, none lies over another, and words
over cells say what those cells say. And `--rows`: what is not shown is not drawn as what holds nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from isa import IsaError
from simulator.layout import Choice, FormLayout, Operand, form_layout
from simulator.views.drawing import draw
from simulator.views.drawing.svg import Panel
from tests.support.cases import over
from tests.support.picture_text import faults

Tcsim = Callable[..., tuple[int, str, str]]
KINDS = ("f16", "tf32", "i8", "f8f6f4", "mxf8f6f4.block_scale", "mxf4.block_scale")
TMEM = "tcgen05.mma.sp.cta_group::1.kind::f16"
_HATCHED = re.compile(r'<rect[^>]* y="([\d.]+)"[^>]* height="([\d.]+)" fill="url\(#tcsim-hatch\)"')


def _slides() -> Iterator[tuple[str, Choice, str]]:
    """Every operand of each kind in every data path layout."""
    for sparse in (".sp", ""):
        for kind in KINDS:
            for opcode, choices in (
                (f"tcgen05.mma{sparse}.cta_group::1.kind::{kind}", (Choice(m=128), Choice(m=64, base_lane=16))),
                (f"tcgen05.mma.ws{sparse}.cta_group::1.kind::{kind}", (Choice(m=32), Choice(m=64))),
                (f"tcgen05.mma{sparse}.cta_group::2.kind::{kind}", (Choice(m=256), Choice(m=128))),
            ):
                for choice in choices:
                    try:
                        operands = form_layout(opcode, choice).operands
                    except IsaError:  # this kind has no such form
                        continue
                    for name in operands:
                        yield opcode, choice, name


@over(
    "case",
    list(_slides()),
    ids=lambda case: f"{case[0]}-{case[1].m}-{case[2]}",
    distinct=lambda case: case[2] if case[2] != "d" else case[1].m,
)
def test_words_over_tensor_memory_stand_over_what_they_name(case: tuple[str, Choice, str]) -> None:
    opcode, choice, name = case
    assert faults(draw(form_layout(opcode, choice), name, size="slide").svg) == []


def test_the_check_sees_each_kind_of_wrong_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutants of right pictures: each is seen, and as what it is."""
    found = form_layout(TMEM, Choice(m=128))
    right = draw(found, "a", size="slide").svg
    assert faults(right) == []
    band = "rows 16 to 31, k 0 to 15"
    more = '<text x="9" y="20" font-size="9" text-anchor="start">surplus</text></svg>'
    mutants = {
        "leaves its panel upwards": _elsewhere(right, band, y="-38"),
        "leaves its panel sideways": _elsewhere(right, band, x="1"),
        "leaves the page": _elsewhere(right, band, x="9000"),
        "words over the blocks": _elsewhere(right, band, y="9"),
        "stands over other cells": right.replace(band, "rows 16 to 32, k 0 to 15"),
        "lies over": right.replace("</svg>", more),
        "is in the cells": _elsewhere(right, "L32", x="120"),
    }
    for words, svg in mutants.items():
        assert svg != right, words
        assert any(words in fault for fault in faults(svg)), words
    cut = Panel.cut

    def keeping_all(panel: Panel, rows: range, columns: range) -> Panel:
        moved = [replace(mark, y=mark.y - rows.start * panel.height) for mark in panel.marks]
        return replace(cut(panel, rows, columns), marks=moved)

    monkeypatch.setattr(Panel, "cut", keeping_all)
    monkeypatch.setattr(Panel, "marks_fit", True)
    assert any("upwards" in fault for fault in faults(draw(found, "a", size="slide").svg))


def _elsewhere(svg: str, words: str, **places: str) -> str:
    """The picture with the first line that says this at another x or y."""
    (line,) = re.findall(rf"<text [^>]*>{re.escape(words)}<", svg)[:1]
    moved = line
    for name, value in places.items():
        moved = re.sub(rf'\b{name}="[^"]*"', f'{name}="{value}"', moved, count=1)
    return svg.replace(line, moved, 1)


def _narrow(opcode: str, choice: Choice, name: str, rows: range) -> tuple[FormLayout, Operand]:
    found = form_layout(opcode, choice)
    part = found.operands[name].narrowed(rows)
    return replace(found, operands=found.operands | {name: part}), part


@over(
    "case",
    [
        (TMEM, Choice(m=64), "d", range(40)),
        (TMEM, Choice(m=64), "e", range(4, 40)),
        (TMEM, Choice(m=128), "d", range(5, 6)),
        ("tcgen05.mma.ws.sp.cta_group::1.kind::tf32", Choice(m=32), "a", range(8)),
        ("mma.sp.m16n8k32.f32.f16.f16.f32", Choice(), "e", range(8)),
        ("mma.sp.m16n8k32.f32.f16.f16.f32", Choice(), "d", range(3, 5)),
    ],
    ids=lambda case: f"{case[0]}-{case[2]}",
)
def test_rows_that_are_not_shown_are_not_hatched(case: tuple[str, Choice, str, range]) -> None:
    """Hatched are the lanes that hold nothing of the whole operand, and no others, at each size and in both views."""
    opcode, choice, name, rows = case
    narrow, part = _narrow(opcode, choice, name, rows)
    whole = form_layout(opcode, choice)
    for size in ("natural", "slide"):
        shown, all_of_it = (draw(layout, name, size=size, view="lanes").svg for layout in (narrow, whole))
        assert faults(shown) == []
        used = set(part.whole["lane"].tolist())
        idle = len(set(range(part.lanes)) - used)
        assert bool(idle) == bool(_HATCHED.search(shown)) == bool(_HATCHED.search(all_of_it)), size
        for label in re.findall(r'"end">[LT](\d+)(?: to [LT](\d+))?<', shown):
            first, last = int(label[0]), int(label[1] or label[0])
            if last > first:
                assert not used & set(range(first, last + 1)), "a hatched line is of lanes that hold nothing"
        assert f"Shown: rows {rows.start} to {rows.stop - 1}" in shown or f"Shown: row {rows.start}" in shown
    assert "Shown:" not in draw(whole, name).svg
