"""Pictures: what their attributes say is the mapping, cell by cell, for every form; palettes can be read; the same
picture is the same text."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import isa
from isa import IsaError, MmaForm
from isa.forms.table import plain_forms
from isa.forms.tcgen05 import Tcgen05MmaForm
from isa.forms.wgmma import WgmmaForm
from isa.mapping import Digit, Mapping
from isa.tensor_memory.datapath import LAYOUTS, datapath
from isa.tensor_memory.metadata import tmem_metadata
from isa.tensor_memory.scales import tmem_scales
from simulator.layout import Choice, FormLayout, Operand, form_layout, read_metadata, select
from simulator.views.drawing import PALETTES, Picture, datapath_figure, draw
from simulator.views.drawing.page import html
from simulator.views.drawing.svg import HATCH, Cell, Panel, figure, flow
from simulator.views.drawing.tmem import wide_panel
from tests.support.cases import PROGRAMS, over
from tests.support.forms import by_layout
from tests.support.layouts import all_layouts

Tcsim = Callable[..., tuple[int, str, str]]
F16 = "mma.sp.m16n8k32.f32.f16.f16.f32"
TMEM = "tcgen05.mma.sp.cta_group::1.kind::f16"
_CELL = re.compile(
    r' data-operand="(\w+)" data-row="(\d+)" data-column="(\d+)"(?: data-copy="(\d+)")? data-lane="(\d+)" '
    r'data-reg="(\d+)" data-bits="(\d+):(\d+)"'
)
Cells = dict[tuple[str, tuple[int, ...]], tuple[int, int, int, int]]


def _cells(svg: str) -> Cells:
    """(operand, (row, column, copy)) -> (lane, register, high, low), from the attributes alone; no element is drawn
    twice."""
    found: Cells = {}
    for name, row, column, copy, *place in _CELL.findall(svg):
        key = name, (int(row), int(column), int(copy or 0))
        assert key not in found, key
        found[key] = tuple(map(int, place))  # type: ignore[assignment]
    return found


def _expected(mapping: Mapping, name: str, bits: int, parts: tuple[str, ...], used: int = 0) -> Cells:
    """The same straight from a mapping of `isa`: `parts` are the names of lane, word and part ("" where there is
    none)."""
    shape = (used or mapping.shape[0], *mapping.shape[1:])
    index = np.indices(shape).reshape(len(shape), -1)
    axes = [axis for axis, _ in mapping.axes]
    places = dict(
        zip(
            (place for place, _ in mapping.places),
            mapping.positions(**dict(zip(axes, index, strict=True))),
            strict=True,
        )
    )
    lane, word, part = (places[p] if p else np.zeros(index.shape[1], int) for p in parts)
    low = part * bits + np.zeros(index.shape[1], int)
    coordinates = np.vstack([index, np.zeros((3 - len(shape), index.shape[1]), int)]).T.tolist()
    values = np.stack(np.broadcast_arrays(lane, word, low + bits - 1, low)).T.tolist()
    return {(name, tuple(c)): tuple(v) for c, v in zip(coordinates, values, strict=True)}  # type: ignore[misc]


def _of_mma(form: MmaForm | WgmmaForm, choice: Choice, names: str = "abcd") -> dict[str, Cells]:
    register = ("lane", "register", "element")
    found = {
        name: _expected(getattr(form, name).mapping, name, getattr(form, name).type.bits, register) for name in names
    }
    if form.sparse:
        lane, code = (grid[..., choice.selector] for grid in form.metadata.mapping.grid)
        index = [(*i, 0) for i in np.ndindex(lane.shape)]
        found["e"] = {("e", i): (int(lane[i[:2]]), 0, 4 * int(code[i[:2]]) + 3, 4 * int(code[i[:2]])) for i in index}
    if isinstance(form, MmaForm) and form.row.scale:
        for name, ids in (("scale_a", choice.scale_a), ("scale_b", choice.scale_b)):
            found[name] = _expected(getattr(form, name).mapping(*ids), name, 8, ("lane", "", "byte"))
    return found


def _of_tcgen05(form: Tcgen05MmaForm, found: FormLayout) -> dict[str, Cells]:
    choice, group = found.choice, form.cta_group
    layout = datapath(choice.m, group, form.sparse, form.ws)
    bits = {"f16": 16, "tf32": 32, "mxf4": 4, "mxf4nvf4": 4}.get(form.kind, 8)
    cells = {"d": _expected(layout.d(choice.n, choice.base_lane), "d", 32, ("lane", "column", ""))}
    cells["a"] = _expected(layout.a(bits, choice.base_lane), "a", bits, ("lane", "column", "element"))
    if form.sparse:
        mapping = tmem_metadata(form.kind, choice.m, group, form.ws).mapping(choice.selector, choice.base_lane)
        cells["e"] = _expected(mapping, "e", 4, ("lane", "column", "code"))
    for name, ids in (("scale_a", choice.scale_a), ("scale_b", choice.scale_b)):
        if name in found.operands:
            scales = tmem_scales(
                form.kind, name[-1], m=choice.m, n=choice.n, vector=form.vector, cta_group=group, sparse=form.sparse
            )
            cells[name] = _expected(scales.mapping(ids[0]), name, 8, ("lane", "column", "byte"), scales.vectors)
    return cells


def _checked(found: FormLayout, expected: dict[str, Cells]) -> int:
    """Compares the picture of each operand, and of all of them together, with what is expected."""
    assert expected.keys() == found.operands.keys()
    for name, cells in expected.items():
        assert _cells(draw(found, name).svg) == cells, (found.opcode, name)
    together = _cells(draw(found).svg)
    for key, place in together.items():
        assert expected[key[0]][key] == place, (found.opcode, key)
    drawn = {name for name, _ in together}
    assert drawn >= expected.keys() - {"c"}, "C stands with D where both are alike"
    return sum(map(len, expected.values()))


@over("form", isa.mma_forms().values(), ids=lambda form: form.opcode, distinct=by_layout)
def test_pictures_of_every_mma_form_are_the_mapping(form: MmaForm) -> None:
    found = form_layout(form.opcode)
    assert _checked(found, _of_mma(form, found.choice)) > 0


def _choices() -> Iterator[FormLayout]:
    """Every other form and choice, one for each different set of mappings."""
    seen = set()
    for found in all_layouts():
        default = isinstance(found.form, MmaForm) and found.choice == Choice()
        key = tuple((name, operand.mapping, operand.used) for name, operand in found.operands.items())
        if not default and key not in seen and found.choice.n in ((0, 64, 128) if PROGRAMS >= 1000 else (0, 64)):
            seen.add(key)
            yield found


@over(
    "found",
    _choices(),
    ids=lambda found: f"{found.opcode}-{found.choice.m}-{found.choice.n}",
    distinct=lambda found: (found.opcode.split(".")[:2][-1], tuple(found.operands), found.choice.m),
)
def test_pictures_of_every_other_form_and_choice_are_the_mapping(found: FormLayout) -> None:
    if isinstance(found.form, MmaForm):
        _checked(found, _of_mma(found.form, found.choice))
    elif isinstance(found.form, WgmmaForm):
        _checked(found, _of_mma(found.form, found.choice, "ad"))
    elif isinstance(found.form, Tcgen05MmaForm):
        _checked(found, _of_tcgen05(found.form, found))
    else:
        (operand, *others) = found.operands.values()
        register = (
            ("register", "element")
            if operand.word == "register" and operand.part == "element"
            else (operand.word, operand.part)
        )
        cells = _expected(operand.mapping, "d", operand.bits, (operand.lane, *register))
        assert _cells(draw(found, "d", view="lanes").svg) == cells
        for other in others:
            assert _cells(draw(found, other.name).svg) == _expected(other.mapping, other.name, 32, ("lane", "", ""))


@pytest.mark.parametrize(
    "opcode",
    [F16, "mma.m8n8k4.f16.f16.f16.f16", "tcgen05.mma.sp.cta_group::1.kind::tf32", "ldmatrix.m8n8.x1.trans.shared.b16"],
)
@pytest.mark.parametrize("view", ["matrix", "lanes"])
def test_both_views_and_the_page_say_the_same(opcode: str, view: str) -> None:
    found = form_layout(opcode)
    for name, operand in found.operands.items():
        picture = draw(found, name, view=view)
        cells = _cells(picture.svg)
        if view == "lanes" or len(operand.axes) < 3 or operand.shape[2] == 1:
            assert len(cells) == operand.table["row"].size
        assert cells.items() <= _cells(draw(found, name, view="lanes").svg).items()
        assert _cells(html(picture, "pastel")) == cells


def test_every_ldmatrix_is_drawn() -> None:
    opcodes = [name for name, form in plain_forms().items() if form.name == "ldmatrix"]
    assert len(opcodes) == 2 * 3 * 3  # .trans or not, three counts, three spellings of the state space
    assert all(
        len(_cells(draw(form_layout(opcode), "d").svg)) == form_layout(opcode).operands["d"].table["row"].size
        for opcode in opcodes
    )


# With metadata


def _attributes(svg: str, panel: str) -> list[dict[str, str]]:
    """Attributes of the cells of a panel."""
    root = ET.fromstring(svg)
    group = next(g for g in root.iter("{http://www.w3.org/2000/svg}g") if g.get("data-panel") == panel)
    return [
        dict(element.attrib)
        for element in group.iter()
        if element is not group and any(key.startswith("data-") for key in element.attrib)
    ]


@pytest.mark.parametrize("opcode", [F16, "mma.sp.m16n8k64.s32.s4.s4.s32", "mma.sp.m16n8k8.f32.tf32.tf32.f32", TMEM])
@pytest.mark.parametrize("metadata", ["random:5", "0xE4D80B5F"])
def test_logical_and_stored_a(opcode: str, metadata: str) -> None:
    found = form_layout(opcode)
    selection = read_metadata(found, metadata)
    svg = draw(found, selection=selection).svg
    ET.fromstring(svg)
    cells = re.findall(r'data-logical="(\d+),(\d+)" data-stored="([\d,]*)"', svg)
    assert len(cells) == found.rows * found.k
    for row, column, stored in cells:
        assert stored == ",".join(map(str, selection.stored[int(row)][int(column)]))
    shown = re.findall(r'data-element="(\d+),(\d+)"[^>]*><rect[^>]*/><text[^>]*>([^<]+)<', svg)
    assert len(shown) == found.rows * found.k_stored
    for row, column, text in shown:
        joined = selection.joined[int(row), int(column) // selection.sparsity.stored]
        assert text == ("?" if joined else str(selection.columns[int(row), int(column)]))


def test_pruned_cells_are_hatched() -> None:
    found = form_layout(F16)
    selection = read_metadata(found, "0x44444444")
    cells = _attributes(draw(found, selection=selection).svg, "logical")
    hatched = {cell["data-logical"] for cell in cells if cell.get("fill") == f"url(#{HATCH})"}
    assert hatched == {f"{row},{column}" for row in range(16) for column in range(32) if column % 4 > 1}


@pytest.mark.parametrize("lane", [0, 1, 29])
def test_the_ruler_shows_the_bits_of_one_register(lane: int) -> None:
    found = form_layout(F16)
    selection = read_metadata(found, "random:3")
    svg = draw(found, selection=selection, lane=lane).svg
    bits = [cell for cell in _attributes(svg, "ruler") if "data-bit" in cell]
    assert [int(cell["data-bit"]) for cell in bits] == list(range(31, -1, -1))
    for cell in bits:
        row, chunk = int(cell["data-row"]), int(cell["data-chunk"])
        assert found.operands["e"].elements(lane, 0, int(cell["data-bit"]), int(cell["data-bit"])) == [(row, chunk)]
    assert f"0x{int(selection.words[lane]):08x}" in svg
    other = draw(found, lane=2).svg
    assert 'data-panel="ruler"' not in other, "lane 2 holds nothing for selector 0"


def test_selectors_show_the_lanes_that_are_read() -> None:
    for opcode in (F16, "mma.sp.m16n8k16.f32.f16.f16.f32", "tcgen05.mma.sp.cta_group::1.kind::tf32"):
        found = form_layout(opcode)
        marked = [cell for cell in _attributes(draw(found).svg, "selectors") if "data-selector" in cell]
        for selector in found.selectors:
            operand = form_layout(opcode, Choice(selector=selector)).operands["e"]
            places = {int(cell["data-place"]) for cell in marked if int(cell["data-selector"]) == selector}
            assert places == set(operand.table["word" if operand.tmem else "lane"].tolist())


def test_datapath_figure_is_the_mapping() -> None:
    svg = datapath_figure("safe", 128).svg
    for layout in LAYOUTS.values():
        for base in layout.base_lanes:
            lane, _ = layout.d(128, base).grid
            row, n = np.indices(lane.shape)
            blocks = {
                int(cell["data-first"]): cell
                for cell in _attributes(svg, f"layout-{layout.name}-{base}")
                if "data-first" in cell
            }
            assert sorted(blocks) == list(range(0, 128, 16))
            for first, cell in blocks.items():
                held = lane // 16 == first // 16
                assert held.any() == ("data-rows" in cell)
                if held.any():
                    assert cell["data-rows"] == f"{row[held].min()}:{row[held].max()}"  # type: ignore[index]
                    assert cell["data-n"] == f"{n[held].min()}:{n[held].max()}"  # type: ignore[index]
                    assert np.unique(row[held]).size == row[held].max() - row[held].min() + 1  # type: ignore[index]
    headings = [text for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg) if ": M = " in text]
    assert len(set(headings)) == len(headings) == sum(len(layout.base_lanes) for layout in LAYOUTS.values())


def test_undefined_codes_stand_out() -> None:
    found = form_layout(F16)
    words = np.full(32, 0x44444444, np.uint32)
    words[4] = 0x44444440
    svg = draw(found, "e", selection=select(found, words)).svg
    bold = re.findall(r'data-operand="e" data-row="(\d+)" data-column="(\d+)"[^>]*><rect[^>]*stroke-width="1.6"', svg)
    assert bold == [("1", "0")]
    assert "invalid-metadata" in svg
    assert "measured to select" in svg


# Looks


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("palette", PALETTES)
def test_black_text_can_be_read_on_every_colour(palette: str) -> None:
    assert len(PALETTES[palette]) in (8, 32)
    assert len(set(PALETTES[palette])) == len(PALETTES[palette])
    assert min((_luminance(colour) + 0.05) / 0.05 for colour in PALETTES[palette]) > 7, "WCAG AAA"
    if palette == "bw":
        assert all(colour[1:3] == colour[3:5] == colour[5:] for colour in PALETTES[palette])
    svg = draw(form_layout(F16), palette=palette).svg
    assert sum(colour in svg for colour in PALETTES[palette]) == len(PALETTES[palette])


@pytest.mark.parametrize(
    "opcode",
    [
        F16,
        "mma.sp.m16n8k128.s32.s4.s4.s32",
        "mma.m16n8k256.s32.b1.b1.s32.and.popc",
        "tcgen05.mma.ws.sp.cta_group::1.kind::i8",
    ],
)
def test_pictures_are_well_formed_fit_a_page_and_repeat(opcode: str) -> None:
    found = form_layout(opcode)
    selection = read_metadata(found, "random") if found.sparsity else None
    picture = draw(found, selection=selection)
    root = ET.fromstring(picture.svg)
    assert float(root.get("width", "inf")) < 1200, "legible at the width of a page"
    assert picture.svg == draw(form_layout(opcode), selection=selection).svg
    assert picture._repr_svg_() == picture.svg
    assert "http" not in picture.svg.replace("http://www.w3.org/2000/svg", "")
    sizes = {float(size) for size in re.findall(r'font-size="([\d.]+)"', picture.svg)}
    assert min(sizes) >= 8


def test_no_text_is_wider_than_its_cell() -> None:
    for opcode in (
        F16,
        "mma.sp.m16n8k128.s32.s4.s4.s32",
        "tcgen05.mma.sp.cta_group::1.kind::f16",
        "mma.m8n8k4.f64.f64.f64.f64",
    ):
        found = form_layout(opcode)
        svg = draw(found, selection=read_metadata(found, "random:2") if found.sparsity else None).svg
        for width, texts in re.findall(
            r'<rect x="[\d.]+" y="[\d.]+" width="([\d.]+)"[^>]*/>((?:<text[^>]*>[^<]*</text>)+)', svg
        ):
            for text in re.findall(">([^<]+)</text>", texts):
                assert len(text) * 9 * 0.602 <= float(width) + 1.5, (opcode, text, width)


def test_the_page_stands_alone(tmp_path: Path, tcsim: Tcsim) -> None:
    code, out, err = tcsim("layout", F16, "--metadata", "random", "--output", tmp_path / "a.html", "--palette", "safe")
    assert (code, out, err) == (0, "", "")
    page = (tmp_path / "a.html").read_text()
    assert page.startswith("<!doctype html>")
    assert not re.search(r"(src|href)\s*=|url\((?!#)|https?://(?!www\.w3\.org/2000/svg)", page)
    assert "lane = column / 2 % 4 + 4 * (row % 8)" in page
    assert "<option selected>safe</option>" in page
    code, out, _ = tcsim("layout", F16, "--operand", "e", "--format", "svg", "--palette", "bw")
    assert code == 0
    ET.fromstring(out)
    assert tcsim("layout", "datapath", "--output", tmp_path / "d.svg")[0] == 0
    ET.parse(tmp_path / "d.svg")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "d.svg"]


def test_a_picture_of_all_of_tensor_memory() -> None:
    """128 lanes x 512 columns, one cell each."""
    digits = (Digit("lane", 1, 128, "row", 1), Digit("column", 1, 512, "n", 1))
    mapping = Mapping((("lane", 128), ("column", 512)), (("row", 128), ("n", 512)), digits)
    operand = Operand("all of it", "d", "Tensor Memory", 32, mapping, "", "", tmem=True)
    picture = figure("Tensor Memory", [[wide_panel(operand, "distinct")]])
    assert len(_cells(picture.svg)) == 128 * 512


def test_save_is_complete_or_nothing(tmp_path: Path) -> None:
    picture = Picture("x", "<svg/>")
    picture.save(tmp_path / "x.svg")
    assert (tmp_path / "x.svg").read_text() == "<svg/>"
    with pytest.raises(OSError, match="nowhere"):
        picture.save(tmp_path / "nowhere" / "x.svg")


def test_flow_fills_rows_up_to_the_width() -> None:
    panels = [Panel("p", [[Cell()]], width=width) for width in (300, 300, 300, 900, 10)]
    assert [len(row) for row in flow(panels, 700)] == [2, 1, 1, 1]


def test_views_and_palettes_that_are_not_there() -> None:
    found = form_layout(F16)
    wrong = (
        ({"palette": "x"}, "pastel, distinct"),
        ({"view": "x"}, "matrix, lanes"),
        ({"operand": "x"}, "a, b, c, d, e"),
        ({"lane": 32}, "no lane"),
    )
    for how, words in wrong:
        with pytest.raises(IsaError, match=words):
            draw(found, **how)
