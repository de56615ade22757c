"""Pictures laid out for slides, papers and posters, and as files: every element is still there, text can be read, and
nothing lies over anything else; palettes for every colour vision."""

from __future__ import annotations

import functools
import io
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from isa import IsaError
from isa.metadata_formats import metadata_format
from isa.metadata_formats.formats import TYPES, format_names
from simulator.layout import Choice, FormLayout, form_layout, read_metadata
from simulator.views.drawing import PALETTES, Picture, datapath_figure, draw
from simulator.views.drawing.metadata_formats import draw_format
from simulator.views.drawing.sizes import SIZES, Size, laid_out
from simulator.views.drawing.svg import Cell, Panel
from simulator.views.drawing.vision import VISIONS, ciede2000, distances, seen, smallest
from tests.simulator.views.test_drawing import F16, _cells
from tests.support.cases import over
from tests.support.layouts import all_layouts
from tests.support.picture_text import faults

Tcsim = Callable[..., tuple[int, str, str]]
LAYOUT_F = "tcgen05.mma.sp.cta_group::1.kind::f16"
_SVG = "{http://www.w3.org/2000/svg}"


def _legible(drawn: Callable[[], Picture]) -> Picture | None:
    """The picture, or None where the error says that it cannot be read at that size, and what could be."""
    try:
        return drawn()
    except IsaError as error:
        if "smaller than" not in str(error) or "larger --size" not in str(error):
            raise
        return None


def _scale(picture: Picture) -> float:
    """Points of a pixel."""
    root = ET.fromstring(picture.svg)
    return float(root.get("width", "").removesuffix("pt")) / float(root.get("viewBox", "").split()[2])


def _check_size(picture: Picture, size: Size) -> None:
    """The paper, the smallest text, and that all text and cells are on the paper."""
    root = ET.fromstring(picture.svg)
    wide, tall = picture.points
    assert wide == pytest.approx(size.width)
    assert tall == pytest.approx(size.height) if size.fixed else tall <= size.height + 0.01
    scale = _scale(picture)
    assert min(float(text) for text in re.findall(r'font-size="([\d.]+)"', picture.svg)) * scale >= size.least - 0.01

    def walk(element: ET.Element, x: float, y: float, letters: float) -> Iterator[tuple[float, float, float]]:
        moved = re.match(r"translate\(([\d.]+) ([\d.]+)\)", element.get("transform", ""))
        if moved:
            x, y = x + float(moved[1]), y + float(moved[2])
        letters = float(element.get("font-size", letters))
        if element.tag == f"{_SVG}text":
            width = len(element.text or "") * letters * 0.602
            start = {"start": 0.0, "end": -width}.get(element.get("text-anchor", ""), -width / 2)
            yield (
                x + float(element.get("x", 0)) + start,
                x + float(element.get("x", 0)) + start + width,
                y + float(element.get("y", 0)),
            )
        if element.tag == f"{_SVG}rect" and element.get("x"):
            left, top = x + float(element.get("x", 0)), y + float(element.get("y", 0))
            yield left, left + float(element.get("width", 0)), top + float(element.get("height", 0))
        for child in element:
            if child.tag != f"{_SVG}defs":
                yield from walk(child, x, y, letters)

    for left, right, bottom in walk(root, 0, 0, 9):
        assert left >= 0
        assert right * scale <= wide + 0.5
        assert bottom * scale <= tall + 0.5


def _laid_out() -> Iterator[tuple[FormLayout, str, str]]:
    """Every operand and whole form of different shapes, each in one of the sizes in turn: what is laid out depends on
    the shapes."""
    seen: set[Any] = set()
    for found in all_layouts():
        shapes = {name: (operand.shape, operand.bits, operand.words) for name, operand in found.operands.items()}
        for name in ("all", *found.operands) if found.choice.n in (0, 64) else ():
            key = tuple(shapes.items()) if name == "all" else (name, shapes[name])
            if key not in seen:
                yield found, name, tuple(SIZES)[len(seen) % len(SIZES)]
                seen.add(key)


@over(
    "case",
    [(form_layout(F16), "all", "slide"), (form_layout(LAYOUT_F, Choice(m=64)), "all", "slide"), *_laid_out()],
    ids=lambda case: f"{case[0].opcode}-{case[0].choice.m}-{case[1]}-{case[2]}",
    distinct=lambda case: (case[0].opcode.split(".")[0], case[1] == "all", case[2]),
)
def test_every_size_shows_what_the_natural_size_shows(case: tuple[FormLayout, str, str]) -> None:
    found, name, size = case
    picture = _legible(lambda: draw(found, name, size=size))
    if picture is None:
        return
    _check_size(picture, SIZES[size])
    natural = draw(found, name)
    assert _cells(picture.svg) == _cells(natural.svg)
    assert faults(picture.svg) == faults(natural.svg) == []


def test_the_tallest_pictures_are_slides_and_what_cannot_be_read_is_refused_with_what_can() -> None:
    found = form_layout(F16)
    selection = read_metadata(found, "random")
    assert _cells(draw(found, selection=selection, size="slide").svg) == _cells(draw(found).svg)
    layout_f = form_layout(LAYOUT_F, Choice(m=64))
    assert _cells(draw(layout_f, size="slide").svg) == _cells(draw(layout_f).svg)
    with pytest.raises(IsaError, match=r"too large for --size column .*; legal: --rows 0:8") as error:
        draw(found, "a", selection=selection, size="column")
    rows = re.search(r"--rows (\d+):(\d+)", str(error.value))
    assert rows is not None
    part = found.operands["a"].narrowed(range(int(rows[1]), int(rows[2])))
    narrow = FormLayout(**{**vars(found), "operands": {**found.operands, "a": part}})
    cells = _cells(draw(narrow, "a", selection=selection, size="column").svg)
    assert {key[1][0] for key in cells} == set(range(8))


def test_pieces_do_not_lie_over_each_other() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        panels = [
            Panel("", [[Cell("#ffffff")] * int(wide)] * int(tall), width=10, height=10)
            for wide, tall in rng.integers(1, 40, (12, 2))
        ]
        picture = laid_out("t", panels, SIZES["columns"])
        assert picture is not None
        boxes = []
        for x, y, group in re.findall(r'class="panel" transform="translate\(([\d.]+) ([\d.]+)\)">(.*?)</g>\n</g>',
                                      picture.svg, re.DOTALL):  # fmt: skip
            rects = np.array(re.findall(r'<rect x="([\d.]+)" y="([\d.]+)"', group), float)
            boxes.append(
                (float(x), float(y), float(x) + rects[:, 0].max() + 10, float(y) + 18 + rects[:, 1].max() + 10)
            )
        assert len(boxes) >= 12
        for i, (left, top, right, bottom) in enumerate(boxes):
            for other in boxes[:i]:
                assert right <= other[0] or other[2] <= left or bottom <= other[1] or other[3] <= top


def test_data_path_layouts_fit_a_slide() -> None:
    picture = datapath_figure("safe", size="slide")
    assert faults(picture.svg) == faults(datapath_figure("safe").svg) == []
    _check_size(picture, SIZES["slide"])
    assert picture.svg.count("data-rows=") == datapath_figure("safe").svg.count("data-rows=")


@over(
    "case",
    [(name, type) for type in TYPES for name in format_names(type)],
    ids="-".join,
    distinct=lambda case: case[0],
)
def test_every_metadata_format_is_drawn_as_its_positions(case: tuple[str, str]) -> None:
    layout = metadata_format(*case)
    positions = layout.positions(*layout.step)
    per = layout.codes_per_word
    for size in ("natural", "slide"):
        picture = _legible(functools.partial(draw_format, layout, size=size))
        if picture is None:
            assert size != "natural"
            continue
        pattern = r'data-word="(\d+)" data-bits="(\d+):(\d+)" data-row="(\d+)" data-column="(\d+)"'
        assert faults(picture.svg) == []
        cells = re.findall(pattern, picture.svg)
        assert len(cells) == positions.size == len(set(cells))
        for word, _, low, row, chunk in (map(int, cell) for cell in cells):
            assert word * per + (low // 4 if per > 1 else 0) == positions[row, chunk]


# Files


def test_png_and_pdf(tmp_path: Path) -> None:
    pypdf = pytest.importorskip("pypdf")
    pytest.importorskip("typst")
    picture = draw(form_layout(F16), "e", size="slide")
    for suffix in (".svg", ".png", ".pdf"):
        picture.save(tmp_path / f"e{suffix}")
    assert (tmp_path / "e.pdf").read_bytes() == picture.rendered(".pdf"), "the same picture is the same file"
    with Image.open(tmp_path / "e.png") as image:
        assert image.size == (1920, 1080)
        drawn = np.asarray(image.convert("RGB")).astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
    assert {0xAFAFFF, 0xAFFFAF} <= set(np.unique(drawn).tolist())
    page = pypdf.PdfReader(io.BytesIO((tmp_path / "e.pdf").read_bytes())).pages[0]
    assert [float(side) for side in page.mediabox[2:]] == pytest.approx([960, 540], abs=0.01)
    assert {"T29[15:12]", "T28[31:28]", "row\\chunk"} <= set(page.extract_text().split()), "text is text"
    natural = draw(form_layout(F16), "e")
    with Image.open(io.BytesIO(natural.rendered(".png"))) as image:
        width, height = (float(side) for side in ET.fromstring(natural.svg).get("viewBox", "").split()[2:])
        assert image.size == pytest.approx((2 * width, 2 * height), abs=1)


def test_without_typst_png_is_one_clear_line_and_no_file(
    tmp_path: Path, tcsim: Tcsim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "typst", None)
    code, out, err = tcsim("layout", F16, "--operand", "e", "--output", tmp_path / "e.png")
    assert (code, out) == (2, "")
    assert err == (
        "tcsim: a picture as PNG needs typst, which is not installed; legal: pip install 'tcsim[pictures]'\n"
    )
    assert not list(tmp_path.iterdir())


def test_the_lanes_of_ptx_figures_are_explained_where_a_selector_chooses(tcsim: Tcsim) -> None:
    for opcode, chooses in ((F16, True), ("mma.sp.m16n8k64.s32.s8.s8.s32", False)):
        assert ("T_i" in tcsim("layout", opcode, "--operand", "e")[1]) == chooses
        assert ("T_i" in draw(form_layout(opcode), "e").svg) == chooses


def test_names_and_options_that_say_nothing_are_refused(tmp_path: Path, tcsim: Tcsim) -> None:
    wrong = [
        (("--output", tmp_path / "a.bmp"), "no format for '.bmp'; legal: a name that ends in .svg, .png"),
        (("--output", tmp_path / "a.bmp", "--format", "svg"), "no format for '.bmp'"),
        (("--output", tmp_path / "a.png", "--format", "table"), "one format"),
        (("--format", "png"), "--output NAME.png"),
        (("--palette", "rainbow"), "no palette 'rainbow'"),
        (("--palette", "safe"), "--palette says nothing of a table"),
        (("--size", "slide", "--format", "csv"), "--size says nothing of a csv"),
        (("--size", "a7", "--format", "svg"), "no size 'a7'"),
        (("--swizzle", "64B"), "tcsim layout shared"),
        (("--rows", "0:8"), "--operand NAME"),
        (("--operand", "e", "--rows", "8:8"), "FIRST:END"),
    ]
    for options, words in wrong:
        code, out, err = tcsim("layout", F16, *options)
        assert (code, out) == (2, ""), options
        assert words in err
        assert err.count("\n") == 1
    assert tcsim("layout", F16, "--operand", "a", "--rows", "0:99")[0] == 1
    assert not list(tmp_path.iterdir())


def test_rows_of_an_operand_in_tables_and_pictures(tcsim: Tcsim) -> None:
    code, out, _ = tcsim("layout", F16, "--operand", "e", "--rows", "5", "--format", "csv")
    lines = [line.split(",") for line in out.splitlines()[1:]]
    assert code == 0
    assert [(line[1], line[2]) for line in lines] == [("5", str(chunk)) for chunk in range(8)]
    svg = tcsim("layout", F16, "--operand", "b", "--rows", "4:6", "--columns", "0:2", "--format", "svg")[1]
    found = form_layout(F16).operands["b"]
    assert {key[1][:2]: place[0] for key, place in _cells(svg).items()} == {
        (row, column): found.places(row, column)[0].lane for row in (4, 5) for column in (0, 1)
    }


# Palettes


# Pairs of CIELAB colours and their distance: Sharma, Wu and Dalal 2005, table 1 (pairs 1, 7, 10, 13, 14, 17, 20, 25)
_SHARMA = (
    (50.0, 2.6772, -79.7751, 50.0, 0.0, -82.7485, 2.0425),
    (50.0, 0.0, 0.0, 50.0, -1.0, 2.0, 2.3669),
    (50.0, 2.49, -0.001, 50.0, -2.49, 0.0009, 7.1792),
    (50.0, 2.49, -0.001, 50.0, -2.49, 0.0011, 7.2195),
    (50.0, 2.5, 0.0, 50.0, 0.0, -2.5, 4.3065),
    (50.0, 2.5, 0.0, 73.0, 25.0, -18.0, 27.1492),
    (60.2574, -34.0099, 36.2677, 60.4626, -34.1751, 39.4387, 1.2644),
    (2.0776, 0.0795, -1.1350, 0.9033, -0.0636, -0.5514, 0.9082),
)


def test_distances_are_those_of_the_papers() -> None:
    pairs = np.array(_SHARMA)
    assert ciede2000(pairs[:, :3], pairs[:, 3:6]) == pytest.approx(pairs[:, 6], abs=1e-4)
    assert seen(["#ffffff", "#808080"]) == pytest.approx(np.array([[100, 0, 0], [53.585, 0, 0]]), abs=0.02)
    for matrix in VISIONS.values():
        assert np.sum(matrix, axis=1) == pytest.approx(1, abs=1e-5), "greys stay what they are"
    red_green = {vision: distances(["#ff0000", "#6b6b00"], vision)[0] for vision in VISIONS}
    assert red_green["normal"] > 40, "red and olive"
    assert red_green["protanopia"] < 15, "which a protanope takes for one colour"


# The smallest distance of two colours that each palette must keep: normal, protanopia, deuteranopia, tritanopia
_FLOORS = {
    "pastel": (7.2, 2.4, 4.9, 2.2),
    "distinct": (2.3, 0.5, 0.5, 1.8),
    "safe": (14.0, 14.0, 14.0, 14.0),
    "bw": (3.0, 3.0, 3.0, 3.0),
}


def test_safe_is_the_safest_palette_and_none_gets_worse(tcsim: Tcsim) -> None:
    assert _FLOORS.keys() == PALETTES.keys()
    for name, floors in _FLOORS.items():
        for floor, (vision, distance) in zip(floors, smallest(name).items(), strict=True):
            assert distance >= floor, (name, vision)
            assert distance <= smallest("safe")[vision]
    code, out, _ = tcsim("layout", "--palettes")
    assert code == 0
    assert out.splitlines()[0].split() == ["palette", "colours", *VISIONS]
    assert "CIEDE2000" in out
