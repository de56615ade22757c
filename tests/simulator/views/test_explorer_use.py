"""The explorer's page in use, in each browser: keyboard, what is in sight at four sizes, steps, comparison, quiz,
pictures, and axe-core's rules of accessibility."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.layout import Choice, select
from simulator.views.explorer.memory import EXAMPLE
from tests.support.cases import over
from tests.support.explorer_browser import (
    AXE,
    DENSE,
    LOADS,
    ORDERED,
    S4,
    SCALED,
    STACKED,
    TF32,
    TMEM,
    in_each_browser,
    layout_of,
    needs_axe,
    needs_chromium,
    run_page,
)

SIZES = ((1280, 720), (800, 600), (390, 844), (1920, 1080))


@in_each_browser
def test_keyboard(browse: Callable[..., Any], browser: str) -> None:
    """Every matrix, the bits and the lanes are one tab stop each; arrows, Home, End and Enter do the rest; the focus
    stays through a flipped bit; a label says what stands in each cell and where the cell is."""
    found = browse("keyboard", size=(1280, 720), browser=browser)
    assert found["opened"] <= 32
    assert list(found["walks"]) == ["logical", "a", "b", "e", "d", "c"]
    for name, walk in found["walks"].items():
        assert (walk["stops"], walk["from"], walk["moved"]) == (1, "0", ["1", "1"])
        assert walk["at"] == f"{name}.1.0"
        assert walk["same"]
        assert "lane = " in walk["info"]
    assert (found["bit"], found["kept"]) == ("14", "14")
    assert [word for word in found["flipped"] if word] == [1 << 14]
    assert found["undone"]
    assert found["redone"]
    assert (found["lane"], found["lanes"], found["bits"]) == ("lane.1", 1, 2)
    operands = layout_of(ORDERED, Choice()).operands
    names = {"logical": "A", "a": "A stored", "e": "metadata"}
    for name, row, column, label, lane, register, bits, text in found["labels"]:
        what, across = names.get(name, name.upper()), "chunk" if name == "e" else "column"
        operand = operands["a" if name == "logical" else name]
        where = f", lane {lane}" + f" register {register}" * (operand.mapping.place_shape[1] > 1 and name != "e")
        assert label.startswith(f"{' '.join(text.split())}: {what} row {row} {across} {column}{where}"), label
        if operand.bits < 32:
            assert f" bits {bits}" in label
        if name != "logical":
            place = operand.places(row, column)[0]
            assert (lane, register, bits) == (place.lane, place.word, f"{place.high}:{place.low}")


@in_each_browser
def test_all_in_sight(browse: Callable[..., Any], browser: str) -> None:
    """At 1280 x 720 the matrices, the explanation and the bits; at every size the explanation of the last cell of
    each matrix, without scrolling sideways."""
    for size in SIZES:
        found = browse("sight", size=size, browser=browser)
        if size[0] >= 1280:
            assert all(whole for _, whole in found["whole"]), (size, found["whole"])
        assert all(found["seen"].values()), (size, found["seen"])
        assert found["wider"] <= 0
        assert found["smallest"] >= 10
        assert found["faded"] == 0


PROJECTED = ((1366, 768), (1600, 900), (1920, 1080), (2560, 1440))


@needs_chromium
@over(
    "case",
    [(size, opcode) for size in PROJECTED for opcode in (ORDERED, DENSE, LOADS, TF32, S4, STACKED, SCALED, TMEM)],
    ids=lambda case: f"{case[0][0]}-{case[1]}",
    distinct=lambda case: (case[0], case[1] == ORDERED) if case[1] in (ORDERED, DENSE) else case[0][0] < 1600,
)
def test_no_text_leaves_its_cell_or_lies_over_other_text(case: tuple[tuple[int, int], str]) -> None:
    """At the sizes of notebooks and projectors, with nothing chosen and with an element of A chosen."""
    size, opcode = case
    first = '[data-panel="a"] td[data-operand]'
    found = run_page("text", [(opcode, None), *[(opcode, first)] * (opcode == ORDERED)], size=size)
    assert found["found"] == []
    assert found["count"] > 200


@in_each_browser
def test_steps_and_pictures(browse: Callable[..., Any], browser: str) -> None:
    """From the element to D: each step lights what the mapping says; the whole view is a picture."""
    found = browse("steps", f"#form={ORDERED}&at=a.5.6", size=(1280, 720), browser=browser)
    layout = layout_of(ORDERED, Choice())
    grid = layout.operands["a"].grid
    place = layout.operands["a"].places(5, 6)[0]
    (chunk,) = layout.operands["e"].places(5, 3)
    lane = grid["lane"] == place.lane
    assert [title for title, _, _ in found["steps"]] == ["element", "lane", "register", "bits", "code", "row of B", "D"]
    lit = {
        title: {name: {tuple(at) for at in cells} for name, cells in panels.items()}
        for title, _, panels in found["steps"]
    }
    said = {title: text for title, text, _ in found["steps"]}
    assert lit["lane"]["a"] == set(map(tuple, np.argwhere(lane).tolist()))
    assert lit["register"]["a"] == set(map(tuple, np.argwhere(lane & (grid["word"] == place.word)).tolist()))
    assert lit["bits"]["a"] == {(5, 6)}
    assert lit["code"]["e"] == {(5, 3)}
    assert f"T{chunk.lane} e[{chunk.high}:{chunk.low}]" in said["code"]
    assert f"T{place.lane} a{place.word}[{place.high}:{place.low}]" in said["bits"]
    ((_, k),) = lit["element"]["logical"]
    assert lit["row of B"]["b"] == {(k, n) for n in range(8)}
    assert lit["D"]["d"] == {(5, n) for n in range(8)}
    assert "step=6" in found["shared"]
    assert (found["after"], found["playing"], found["paused"]) == (-1, [True, 0], True)
    assert found["cells"] == 16 * (16 + 16) + 32 * 8 + 3 * 16 * 8  # logical (kept alone), stored, B, metadata, D, C
    assert found["wrong"] == 0
    assert found["png"] == ["image/png", True, True]
    dashed, underlined, cards = found["marks"]  # of two codes with bits flipped, beside other forms
    assert dashed == [[row, n] for row in (5, 13) for n in range(8)]
    assert underlined == ["1111", "0001"]
    assert [card.split()[0] for card in cards] == ["mma.sp", "wgmma.sp", "tcgen05.mma.sp"]
    assert found["theme"] == ["dark", "rgb(22, 24, 28)", True]


@needs_chromium
def test_comparison(browse: Callable[..., Any]) -> None:
    """One element in mma.sp, wgmma.sp and tcgen05.mma.sp; of wgmma by the formulas of PTX ISA 9.0, 9.7.15.5."""
    chosen = [(ORDERED, 5, 6), (TMEM, 53, 6), (TF32, 13, 3)]
    found = browse("compare", chosen)
    assert len(found["found"]) == 9
    for opcode, row, s, other, facts, cell in found["found"]:
        assert facts["element"].startswith(f"A[{row}]")
        assert cell[:2] == [row, s]
        if other.startswith("wgmma"):
            warp, lane = divmod(cell[2], 32)
            assert facts["lane"] == f"warp {warp}, lane {lane} (thread {cell[2]} of the warpgroup)"
            assert warp == row // 16
        elif opcode == ORDERED and other.startswith("tcgen05"):
            place = layout_of(TMEM, Choice(m=128, n=64)).operands["a"].places(row, s)[0]
            assert facts["column"] == f"a.col{place.word}"
            assert (cell[2], facts["bits"]) == (place.lane, f"{place.high}:{place.low}")
    assert len({facts["row of B"] for opcode, *_, facts, _ in found["found"] if opcode == ORDERED}) == 1
    assert found["at"] == "a.2.3"
    assert found["chosen"] == [[2, 3]] * 3
    for opcode, stored, sums in found["operands"]:
        width = 32 // {"f16": 16, "bf16": 16, "tf32": 32}.get(opcode.split(".")[-2], 8)  # elements of a register
        for row, s, lane, word, low in stored:
            assert lane == 32 * (row // 16) + 4 * (row % 8) + s // width % 4, opcode
            assert word == row // 8 % 2 + 2 * (s // (4 * width))
            assert low == s % width * 32 // width
        for row, n, lane, word in sums:
            assert (lane, word) == (32 * (row // 16) + 4 * (row % 8) + n // 2, n % 2 + 2 * (row // 8 % 2))


@needs_chromium
def test_quiz(browse: Callable[..., Any]) -> None:
    """Answers of many questions, against the layouts and the selection; and one right and one wrong on the page."""
    forms = [ORDERED, TF32, S4, DENSE, SCALED, TMEM]
    found = browse("quiz", [(opcode, seed) for seed in range(12) for opcode in forms])
    kinds = set()
    for opcode, text, answer, answers, words in found["asked"]:
        kinds.add((opcode, text.split("[")[0].rstrip("0123456789 ")[:16]))
        layout = layout_of(opcode, Choice())
        assert answer in answers
        assert len(set(answers)) == len(answers) >= 2
        numbers = [int(number) for number in re.findall(r"\d+", text)]
        if text.startswith("Where is D"):
            assert answer == layout.operands["d"].name_of(layout.operands["d"].places(*numbers)[0])
        elif text.startswith("Which bits of the metadata"):
            assert layout.sparsity is not None
            place = layout.operands["e"].places(numbers[0], numbers[1] // layout.sparsity.chunk)[0]
            assert answer == layout.operands["e"].name_of(place)
        elif text.startswith("The code of row"):
            shape = (128, 2) if layout.layout else (32,)
            columns = select(layout, np.array(words, np.uint32).reshape(shape)).columns
            assert answer == f"row {columns[numbers[0], numbers[-1]]}"
        else:
            stored = (numbers[1], numbers[0]) if "stored column" in text else (numbers[0], numbers[1])
            operand = layout.operands["a"]
            whole = operand.name_of(operand.places(*stored)[0])
            assert answer in whole.split(" "), (text, answer, whole)
    assert len(kinds) >= 20
    assert found["blank"] == "rgba(0, 0, 0, 0)"
    (right, chosen, asking), (wrong, *_) = found["steps"]
    assert "Right." in right
    assert "1 of 1 right" in right
    assert "1 of 2 right" in wrong
    assert "No: it is" in wrong
    assert chosen
    assert not asking
    assert found["ended"]


@needs_chromium
def test_tour(browse: Callable[..., Any]) -> None:
    """What the stops say and light up is what the layout has; each can be read whole, on a phone too."""
    found = browse("tour", f"#form={DENSE}", size=(390, 844))
    assert found["hidden"]
    assert found["after"] == [True, f"#form={ORDERED}"]
    stops = found["stops"]
    assert len(stops) == 9
    assert all(stop["seen"] for stop in stops)
    layout = layout_of(ORDERED, Choice())
    a, e = layout.operands["a"], layout.operands["e"]
    (place,), (chunk,) = a.places(5, 6), e.places(5, 3)
    words, lit = [stop["words"] for stop in stops], [stop["lit"] for stop in stops]
    ((_, k),) = lit[1]["logical"]
    assert f"is A[5][{k}]" in words[1]
    assert f"T{place.lane} holds that element" in words[2]
    assert {tuple(at) for at in lit[2]["a"]} == set(map(tuple, np.argwhere(a.grid["lane"] == place.lane).tolist()))
    assert a.name_of(place) in words[3]
    assert e.name_of(chunk) in words[4]
    assert lit[4]["e"] == [[5, 3]]
    assert "16 products, not 32" in words[5]
    assert len(lit[5]["b"]) == 16
    assert f"{stops[6]['changed']} elements of D change" in words[6]
    assert [stop["changed"] for stop in stops] == [0] * 6 + [16, 0, 0]
    assert [stop["cards"] for stop in stops] == [0] * 7 + [3, 0]
    assert "tour=8" in found["linked"]


@pytest.mark.exhaustive
@needs_axe
@needs_chromium
def test_accessibility(browse: Callable[..., Any]) -> None:
    """No violation of axe-core's rules, at each size, light or dark, with what the page can show spread over them."""
    assert AXE is not None
    states = ["#at=e.5.3&e=default,20:DC1818FE", "#at=a.5.6&step=4&compare=on", f"#form={TMEM}&at=a.5.6", "#quiz=5"]
    rules = Path(AXE).read_text(encoding="utf-8")
    for size, state, theme in zip(SIZES, states, ("light", "dark", "light", "dark"), strict=True):
        assert browse("axe", [f"{state}&theme={theme}"], size=size, more=rules) == []
    for theme, zoom in (("light", ""), ("dark", "6")):
        state = f"#memory={EXAMPLE}&moment=29&place=40.400&zoom={zoom}&theme={theme}"
        assert browse("axe", [state], size=SIZES[0], more=rules) == []
