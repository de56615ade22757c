"""Gantt charts: every issue, stall and busy time of the recorder is a bar, in its place; the page needs nothing but
itself."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import simulator
from isa.forms.record import Unit
from simulator.compiler.timed_code import StallReason
from simulator.errors import ViewError
from simulator.views.timeline import Timeline, gantt
from simulator.views.timeline.gantt_style import CAUSES, KINDS, PALETTES, palette
from tests.simulator.timing import test_engine as engine
from tests.simulator.views.test_timelines import recorded
from tests.support.cases import examples, exhaustive, over
from tests.support.paths import ROOT
from tests.support.timeline_formats import check_chrome

Tcsim = Callable[..., tuple[int, str, str]]
SVG = "{http://www.w3.org/2000/svg}"
CASES = [
    ("digits/f16", "h100_sxm", (0, 400)),
    ("digits/f16", "h100_sxm", (1500, 1800)),
    ("digits/e4m3", "h100_sxm", (1000, 1300)),
    ("digits/s8", "a100", (100, 101)),
    ("digits/f16_tcgen05", "b200", (0, 4000)),
    ("digits/f16_tcgen05_pair", "b200", (300, 1700)),
    ("gemm/f16_64x64x64", "h100_sxm", (250, 900)),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


def ran(trace: str | Path, config: Any, window: tuple[int, int]) -> Timeline:
    timeline = Timeline(*window)
    simulator.run(trace, config, arithmetic="none", timeline=timeline)
    return timeline


def bars(svg: str) -> list[dict[str, Any]]:
    """Every bar: its data, its row, where it is; what is wrong with the picture alone fails here."""
    root = ElementTree.fromstring(svg)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert root.attrib["viewBox"] == f"0 0 {root.attrib['width']} {root.attrib['height']}"
    patterns = [pattern.attrib["id"] for pattern in root.iter(f"{SVG}pattern")]
    assert sorted(patterns) == sorted(set(re.findall(r"url\(#([^)]*)\)", svg)))
    found: list[dict[str, Any]] = []
    tops: list[tuple[float, float]] = []
    for group in root.iter(f"{SVG}g"):
        if "data-row" not in group.attrib:
            continue
        row = []
        for element in group:
            if element.tag == f"{SVG}rect":
                data = {
                    name.removeprefix("data-"): value
                    for name, value in element.attrib.items()
                    if name.startswith("data-")
                }
                place = {name: float(element.attrib[name]) for name in ("x", "y", "width", "height")}
                numbers = {name: int(data[name]) for name in ("begin", "end", "warp", "line", "issue") if name in data}
                title = element.findtext(f"{SVG}title")
                assert title
                where = {
                    "row": group.attrib["data-row"],
                    "sm": int(group.attrib["data-sm"]),
                    "title": title,
                    "fill": element.attrib["fill"],
                }
                row.append({**data, **numbers, **place, **where})  # type: ignore[misc]
            elif row:  # a text on the bar before it
                assert row[-1]["x"] < float(element.attrib["x"])
                text = element.text or ""
                assert float(element.attrib["x"]) + len(text) * 8 * 0.5 < row[-1]["x"] + row[-1]["width"]
        for bar in row:
            assert bar["width"] > 0
            assert 0 <= bar["x"] <= bar["x"] + bar["width"] <= width
            assert 0 <= bar["y"] <= bar["y"] + bar["height"] <= height
        for before, after in pairwise(sorted(row, key=lambda bar: bar["begin"])):
            assert before["end"] <= after["begin"]
            assert before["x"] + before["width"] <= after["x"] + 0.02
        if row:
            tops.append((min(bar["y"] for bar in row), max(bar["y"] + bar["height"] for bar in row)))
        found += row
    assert all(before[1] <= after[0] for before, after in pairwise(tops))
    return found


def check(timeline: Timeline, svg: str) -> list[dict[str, Any]]:
    """Bar by bar against what the recorder was told; nothing of the writer or of its rows is used."""
    found, recorder = bars(svg), timeline.recorder
    first, last = timeline.first, min(timeline.last, timeline.timing.cycles)
    line = {id(issue): timeline.about(issue).line for issue in recorder.issues}
    shown = [issue for issue in recorder.issues if first <= issue.cycle < last]
    kinds = {number: timeline.about(issue).text.startswith("mma") for number, issue in enumerate(recorder.issues)}
    issued = Counter((bar["warp"], bar["line"], bar["begin"], bar["end"]) for bar in found if bar["what"] == "issue")
    assert issued == Counter((issue.warp, line[id(issue)], issue.cycle, issue.cycle + 1) for issue in shown)
    flights = Counter(
        (bar["warp"], bar["line"], bar["begin"], bar["end"]) for bar in found if bar["what"] == "instruction"
    )
    assert flights == Counter((issue.warp, line[id(issue)], issue.cycle, issue.done) for issue in shown)
    for bar in found:
        if "issue" in bar and bar["what"] != "stall":
            issue = recorder.issues[bar["issue"]]
            assert (bar["warp"], bar["line"]) == (issue.warp, line[id(issue)])
            assert bar["kind"] == ("tensor" if kinds[bar["issue"]] else issue.unit.name.lower())
            assert bar["what"] == "unit" or bar["begin"] == issue.cycle
    stalls = Counter()  # type: ignore[var-annotated]
    for warp, stall in [
        *((issue.warp, stall) for issue in recorder.issues for stall in issue.stalls),
        *((warp, stall) for warp, steps in recorder.steps.items() for stall in steps),
        *recorder.tails.items(),
    ]:
        begin, end = max(stall.begin, first), min(stall.end, timeline.last)
        if begin < min(end, last):
            stalls[warp, stall.cause.name.lower(), begin, end] += 1
    drawn = Counter(
        (bar["warp"], bar["kind"], bar["begin"], bar["end"])
        for bar in found
        if bar["what"] == "stall" and bar["kind"] != "finished"
    )
    assert drawn == stalls
    for warp, waits in timeline.timing.waits.items() if not timeline.cut and not timeline.first else ():
        finished = [bar["end"] - bar["begin"] for bar in found if (bar["kind"], bar.get("warp")) == ("finished", warp)]
        assert sum(finished) == waits[StallReason.FINISHED]
    check_units(timeline, found)
    for bar in found:  # in its place
        scale = max(840 / (last - first), 1)
        wanted = [146 + (min(max(bar[end], first), last) - first) * scale for end in ("begin", "end")]
        cut = bar["begin"] < first, bar["end"] > last
        assert bar["x"] == pytest.approx(wanted[0] - 4 * cut[0], abs=0.011)
        assert bar["x"] + bar["width"] == pytest.approx(wanted[1] + 4 * cut[1], abs=0.021)
    return found


def check_units(timeline: Timeline, found: list[dict[str, Any]]) -> None:
    """Each unit is drawn as taken in exactly the cycles in which it was."""
    taken: dict[tuple[int, str], set[int]] = {}
    words = {
        "tensor": "tensor pipe",
        "alu": "integer pipe",
        "shared": "port to shared memory",
        "tmem": "path to Tensor Memory",
        "tcgen05": "tcgen05 issue",
    }
    for busy in timeline.recorder.taken:
        row = (
            busy.name
            if busy.core is None
            else f"sub-core {busy.core % timeline.config.sm.sub_cores} {words.get(busy.name, busy.name)}"
        )
        if busy.begin < timeline.timing.cycles:
            taken.setdefault((busy.sm, row), set()).update(range(busy.begin, busy.end))
    drawn: dict[tuple[int, str], set[int]] = {}
    for bar in found:
        if bar["what"] == "unit":
            drawn.setdefault((bar["sm"], bar["row"]), set()).update(range(bar["begin"], bar["end"]))
            busy = next(
                b
                for b in timeline.recorder.taken
                if b.begin <= bar["begin"] and bar["end"] <= b.end and b.issue.warp == bar["warp"]
            )
            assert busy.issue is not None
    assert drawn == taken


@over(("trace", "config", "window"), CASES, distinct=lambda trace, config, window: config)
def test_shipped_traces(trace: str, config: str, window: tuple[int, int]) -> None:
    timeline = ran(trace, config, window)
    colour = check(timeline, timeline.gantt())
    plain = check(timeline, timeline.gantt("bw"))
    assert [{**bar, "fill": ""} for bar in plain] == [{**bar, "fill": ""} for bar in colour]
    assert {bar["sm"] for bar in colour} == set(range(len(timeline.ctas)))


SPARSE = (
    "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 "
    "{%r0, %r1, %r2, %r3}, {%r0, %r1, %r2, %r3}, {%r0, %r1, %r2, %r3}, {%r0, %r1, %r2, %r3}, %r0, 0;"
)


@exhaustive
@given(engine.programs(6), engine.VARIANTS, st.integers(0, 2**32 - 1), st.integers(0, 300), st.integers(1, 300))
@example(  # two instructions of the upkeep in one cycle
    f"{engine.HEAD}.warps 1\n.warp 0-0 {{ .repeat 2 {{ {SPARSE} bar.sync 0; }} }}\n",
    engine.Variant("greedy-round-robin", replace(engine.H100.loop, cycles=0, minimum=0, drain=False), 1, 1, 2),
    0,
    0,
    1,
)
@settings(engine.QUIET, max_examples=examples(30))
def test_random_programs(folder: Path, text: str, variant: engine.Variant, seed: int, first: int, length: int) -> None:
    timeline = Timeline(first, first + length)
    if recorded(folder, text, variant, seed, False, timeline, True) is None or timeline.timing.cycles <= first:
        return
    check(timeline, timeline.gantt())


def test_barriers_and_mbarriers_are_on_top() -> None:
    found = bars(ran("digits/f16_tcgen05", "b200", (0, 1927)).gantt())
    phases = [bar for bar in found if bar["what"] in ("barrier", "mbarrier")]
    assert {bar["what"] for bar in phases} == {"barrier", "mbarrier"}
    assert max(bar["y"] for bar in phases) < min(bar["y"] for bar in found if bar["what"] in ("issue", "stall"))
    assert not any("warp" in bar or "line" in bar for bar in phases)


# Colours


@pytest.mark.parametrize("name", PALETTES)
def test_every_unit_and_cause_has_a_fill_of_its_own(name: str) -> None:
    style = palette(name)
    assert set(style.kinds) == set(KINDS) == {unit.name.lower() for unit in Unit}
    assert set(style.causes) == set(CAUSES) == {wait.name.lower() for wait in StallReason} - {"issued"}
    for fills in (style.kinds, style.causes):
        for one, other in combinations(fills.values(), 2):
            assert one.hatch != other.hatch or different(one.colour, other.colour, name == "bw"), (one, other)
    assert style.kind("new") == style.kind("newer")
    assert style.cause("new").ink == "#000000"


EYES = {  # Machado, Oliveira, Fernandes 2009, severity 1.0; linear RGB
    "all": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "no blue": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) / [
    [0.9505],
    [1],
    [1.089],
]


def seen(colour: str, eyes: list[list[float]]) -> np.ndarray:
    """A colour in CIELAB, as those eyes see it."""
    srgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    xyz = XYZ @ np.clip(np.array(eyes) @ linear, 0, 1)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def different(one: str, other: str, plain: bool) -> bool:
    """Far apart in CIELAB (2.3 can just be told), for all eyes."""
    return all(np.linalg.norm(seen(one, eyes) - seen(other, eyes)) > (10 if plain else 15) for eyes in EYES.values())  # type: ignore[arg-type]


def test_black_and_white_has_no_colour() -> None:
    text = ran("digits/f16", "h100_sxm", (0, 400)).gantt("bw")
    assert all(found[:2] == found[2:4] == found[4:] for found in re.findall(r"#([0-9a-f]{6})", text))


# The page


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.headings: list[str] = []
        self.links: list[str] = []
        self.tag = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tag = tag
        self.links += [str(value) for name, value in attrs if name in ("href", "src", "xlink:href", "action")]

    def handle_data(self, data: str) -> None:
        if data.strip() and self.tag in ("script", "h1"):
            (self.scripts if self.tag == "script" else self.headings).append(data)


@pytest.mark.parametrize(("trace", "config", "window"), [CASES[0], CASES[5]])
def test_the_page(trace: str, config: str, window: tuple[int, int]) -> None:
    timeline = ran(trace, config, window)
    text = gantt.page(timeline)
    page = Page(text)
    assert page.links == []
    assert set(re.findall(r"https?://[^\"'\s]*", text)) == {"http://www.w3.org/2000/svg"}
    assert page.headings == [
        f"{trace} on {config}: cycles {window[0]:,} to before {window[1]:,} of {timeline.timing.cycles:,}"
    ]
    assert "{{" not in text
    found = check(timeline, text[text.index("<svg") : text.index("</svg>") + 6])
    details = json.loads(page.scripts[0])
    issues = timeline.recorder.issues
    assert details.keys() == {str(bar["issue"]) for bar in found if bar["what"] == "instruction"}
    numbers = {id(issue): number for number, issue in enumerate(issues)}
    for number, known in details.items():
        issue = issues[int(number)]
        assert (known["warp"], known["issued"], known["result"]) == (issue.warp, issue.cycle, issue.done)
        assert known["ptx"] == timeline.about(issue).text
        assert known.get("producer") == (numbers.get(id(issue.producer)) if issue.producer is not None else None)
    assert any("producer" in known for known in details.values())


def test_text_that_html_would_read(folder: Path) -> None:
    """A name with signs of HTML in it stays a name."""
    path = folder / "a&b<c>.trace"
    path.write_text((ROOT / "docs" / "gantt.trace").read_text())
    text = gantt.page(ran(path, "h100_sxm", (0, 400)))
    assert "a&amp;b&lt;c&gt;.trace" in text
    assert "<c>" not in text
    bars(text[text.index("<svg") : text.index("</svg>") + 6])


# Windows, files, the command line


def test_windows(folder: Path) -> None:
    loop = f"{engine.HEAD}.warps 1\n.shared 1024\n.warp 0 {{ .repeat 9000 {{ mov.u32 %r0, 1; }} }}\n"
    path = engine.write(folder, loop)
    assert ran(path, engine.H100, (100, 4100)).gantt()
    with pytest.raises(ViewError, match=r"4,001 cycles are too many .* legal: at most 4,000, such as cycles 100:500"):
        ran(path, engine.H100, (100, 4101)).gantt()
    small = ran(ROOT / "docs" / "gantt.trace", "h100_sxm", (0, 20_000))  # what counts is what there is to draw
    assert check(small, small.gantt())
    with pytest.raises(ViewError, match="no cycle to draw: the run ends at cycle"):
        ran(ROOT / "docs" / "gantt.trace", "h100_sxm", (1000, 2000)).gantt()
    with pytest.raises(ViewError, match="colour or bw"):
        small.gantt("red")
    with pytest.raises(ViewError, match=r"\.svg or a name that ends in \.html"):
        small.write_gantt(folder / "x.png")


def test_a_notebook_shows_it() -> None:
    text = ran(ROOT / "docs" / "gantt.trace", "h100_sxm", (0, 400)).gantt()
    assert isinstance(text, str)
    assert text._repr_svg_() == text


def test_equal_runs_give_equal_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        timeline = ran("digits/tf32", "h100_sxm", (50, 250))
        for suffix in ("svg", "html"):
            timeline.write_gantt(tmp_path / f"{name}.{suffix}")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_the_picture_in_the_docs(tcsim: Tcsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    command = "tcsim run docs/gantt.trace --gantt docs/gantt.svg"
    assert command in (ROOT / "docs" / "timelines.md").read_text()
    code, _, err = tcsim("run", "docs/gantt.trace", "--gantt", tmp_path / "gantt.svg")
    assert (code, err) == (0, "")
    assert (tmp_path / "gantt.svg").read_text() == (ROOT / "docs" / "gantt.svg").read_text()


def test_one_run_one_window(tcsim: Tcsim, tmp_path: Path) -> None:
    """All files of a run show the same cycles: with a chart among them 0:400, unless told otherwise."""
    files = tmp_path / "x.json", tmp_path / "x.log", tmp_path / "x.svg"
    arguments = (
        "run",
        "digits/f16",
        "--arithmetic",
        "none",
        "--timeline",
        files[0],
        "--kanata",
        files[1],
        "--gantt",
        files[2],
    )
    for more, first, last in (((), 0, 400), (("--timeline-cycles", "200:300", "--gantt-palette", "bw"), 200, 300)):
        code, _, err = tcsim(*arguments, *more)
        assert code == 0
        assert f"cycles {first} to before {last} of 8,676" in err
        document = json.loads(files[0].read_text())
        assert document["otherData"]["cycles shown"] == f"{first} to {last}"
        slices = check_chrome(document)
        found = bars(files[2].read_text())
        assert Counter((bar["row"], bar["what"], bar["begin"], bar["end"]) for bar in found) == Counter(
            (thread, entry["cat"], entry["begin"], entry["end"])
            for (_, thread), entries in slices.items()
            for entry in entries
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.json", "x.log", "x.svg"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--gantt", "/nowhere/at/all/x.svg"), ("/nowhere/at/all/x.svg", "cannot be written")),
        (("--gantt", "x.png"), ("x.png", ".svg", ".html")),
        (("--gantt", "x.svg", "--gantt-palette", "red"), ("red", "colour", "bw")),
        (("--gantt-palette", "bw"), ("--gantt-palette without a chart", "--gantt FILE.svg")),
        (
            ("--gantt", "x.svg", "--timeline", "x.json", "--output", "x.npz", "--timeline-cycles", "0:4001"),
            ("4,001 cycles", "at most 4,000"),
        ),
        (("--gantt", "x.svg", "--kanata", "x.log", "--timeline-cycles", "9000:9001"), ("no cycle to draw", "8,676")),
        (("--gantt", "x.svg", "--config", "none"), ("without a config",)),
    ],
)
def test_bad_use(
    tcsim: Tcsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = tcsim("run", "digits/f16", "--compare", "0", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert all(word in err for word in words)
    assert not list(tmp_path.iterdir())


def test_recording_changes_no_cycle() -> None:
    timeline = Timeline(*gantt.WINDOW)
    report = simulator.run("digits/f16", arithmetic="none", timeline=timeline)
    assert replace(report, arrays={}, skipped_cycles=0) == replace(
        simulator.run("digits/f16", arithmetic="none"), arrays={}, skipped_cycles=0
    )
