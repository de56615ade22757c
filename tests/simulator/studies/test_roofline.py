"""Rooflines: numbers by hand, the engine never above its roof, and pictures that say what they show."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import simulator
from simulator.chip.config import load_config
from simulator.errors import ViewError
from simulator.simulation.demand import Traffic, Work
from simulator.simulation.report import Report
from simulator.studies.roofline import Point, roofline
from simulator.studies.roofline.plot import draw, write_plot
from tests.simulator.timing import test_engine as engine
from tests.support.cases import examples, exhaustive, over
from tests.support.paths import GOLDEN, ROOT

Tcsim = Callable[..., tuple[int, str, str]]
SHIPPED = sorted(f"digits/{path.stem}" for path in (ROOT / "traces" / "digits").glob("*.trace"))
FULL, SMALL = 16 * 8 * 32, 16 * 8 * 8  # multiply-adds of engine.s and engine.d, as named


def config_of(trace: str) -> str:
    return "b200" if "tcgen05" in trace else "h100_sxm"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


@pytest.fixture(scope="module")
def shipped() -> dict[str, Report]:
    return {trace: simulator.run(trace, config_of(trace), arithmetic="none") for trace in SHIPPED}


def run(folder: Path, body: str, warps: int = 4) -> Report:
    return simulator.run(
        engine.write(folder, f"{engine.HEAD}.warps {warps}\n.shared 16384\n.warp 0-{warps - 1} {{\n{body}\n}}\n"),
        arithmetic="none",
    )


def test_by_hand(folder: Path) -> None:
    """Each warp: a load of 512 bytes, three sparse instructions of full K and two dense ones of small K."""
    load = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r0, %r1, %r2, %r3}, [%r9];"
    report = run(folder, load + engine.s(20) + engine.s(24) + engine.s(28) + engine.d(32) + engine.d(36))
    (named,) = roofline([report]).points
    (performed,) = roofline([report], "performed").points
    assert named.fma == 4 * (3 * FULL + 2 * SMALL)
    assert performed.fma == 4 * (3 * FULL // 2 + 2 * SMALL)
    assert named.bytes == performed.bytes == 4 * 512
    assert named.intensity == named.fma / 2048
    busy = 3 * engine.SLOW.interval + 2 * engine.FAST.interval  # of each sub-core
    assert named.tensor_limit == named.fma / busy
    assert performed.tensor_limit == performed.fma / busy
    assert named.memory_limit == named.fma / 2048 * 128
    assert named.achieved == named.fma / report.cycles
    assert named.share == pytest.approx(busy / report.cycles)
    assert named.bound == "tensor"
    assert roofline([run(folder, load * 60 + engine.s(20))]).points[0].bound == "shared memory"


def test_a_launch_by_hand() -> None:
    """One CTA: its loads of fragments and its stores are all that shared memory moves, but for copies that arrive."""
    report = simulator.launch(GOLDEN / "launches" / "f16_one_cta.json", "h100_sxm")
    shared, path = roofline([report]).points
    assert (shared.memory, path.memory) == ("shared memory", "path from L2")
    assert shared.fma == path.fma == report.fma
    loads = sum(count for opcode, count in report.instructions.items() if opcode.startswith("ldmatrix"))
    assert shared.bytes == 512 * loads
    assert shared.achieved == report.fma / (report.cycles or 0)
    copies = sum(count for opcode, count in report.instructions.items() if opcode.startswith("cp.async.cg"))
    assert path.bytes >= 512 * copies
    assert shared.tensor_limit == 2048
    with pytest.raises(ViewError, match="without a config"):
        roofline([simulator.launch(GOLDEN / "launches" / "barriers.json")])


def test_peaks_of_the_h100(folder: Path) -> None:
    """Sparse instructions of full K: 4 sub-cores, 16 x 8 x 32 each 8 cycles; a long loop with chains enough comes
    close."""
    report = run(folder, f".repeat 200 {{ {''.join(engine.s(20 + 4 * i) for i in range(8))} }}", 12)
    (point,) = roofline([report]).points
    assert point.tensor_limit == 4 * FULL / 8 == 2048
    assert (point.intensity, point.memory_limit, point.bound) == (math.inf, math.inf, "tensor")
    assert 0.95 < point.share <= 1


@exhaustive
def test_tcgen05_operands_count(shipped: dict[str, Report]) -> None:
    """f16, M = 128, N = 192, K = 32, sparse: 8 of them read 64 bytes of a row of A and B's rows, beside the loads and
    the copied metadata."""
    (point,) = roofline([shipped["digits/f16_tcgen05"]]).points
    report = shipped["digits/f16_tcgen05"]
    count = 128 * 128 * 384 // (128 * 192 * 32)
    operands = count * (128 * 32 + 192 * 64)
    assert point.fma == 128 * 128 * 384
    assert point.bytes - report.memory.bytes - operands == 128 * 16  # metadata: 16 bytes a row
    assert point.tensor_limit == 8192


def test_a_pair_shares_the_work(shipped: dict[str, Report]) -> None:
    """M = 256: each SM reads its 128 rows of A, half of the rows of B, and its metadata, and does half of the
    products."""
    (point,) = roofline([shipped["digits/f16_tcgen05_pair"]]).points
    accessed = shipped["digits/f16_tcgen05_pair"].memory.bytes // 2
    assert point.fma == 128 * 128 * 384
    assert point.bytes == accessed + 8 * (128 * 32 + 96 * 64) + 128 * 16
    assert point.tensor_limit == 8192


@over("trace", SHIPPED)
def test_shipped_traces_stay_below_their_roofs(shipped: dict[str, Report], trace: str) -> None:
    report = shipped[trace]
    for count, achieved in (
        ("named", report.throughput.fma_per_clk_sm),
        ("performed", report.throughput.performed_fma_per_clk_sm),
    ):
        for point in roofline([report], count).points:
            assert point.achieved == pytest.approx(achieved)
            assert 0 < point.share <= 1
            assert point.limit == min(point.tensor_limit, point.memory_limit)


@exhaustive
@given(engine.programs(20), st.sampled_from([1, 4]))
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
def test_no_program_is_above_its_roof(folder: Path, text: str, sub_cores: int) -> None:
    config = replace(engine.H100, sm=replace(engine.H100.sm, sub_cores=sub_cores))
    path = engine.write(folder, text.replace(".warps", ".shared 65536\n.warps", 1))
    try:
        report = simulator.run(path, config, arithmetic="none")
    except simulator.TraceError:  # an address outside of shared memory
        return
    if report.matrix_instructions:
        assert all(point.share <= 1 + 1e-9 for point in roofline([report]).points)
        assert report.work.tensor_cycles == pytest.approx(
            sum(report.utilisation[f"sub-core {core} tensor"] for core in range(sub_cores)) * report.cycles / sub_cores
        )


def several(reports: list[Report]) -> list[Report]:
    """The same, with two more memories."""
    more = []
    for report in reports:
        bytes_moved = report.work.memories["shared memory"].bytes
        memories = {
            **report.work.memories,
            "L2": Traffic(bytes_moved // 3, 38.0),
            "HBM": Traffic(bytes_moved // 11, 13.5),
            "unused": Traffic(0, 1.0),
        }
        more.append(replace(report, work=replace(report.work, memories=memories)))
    return more


def test_several_memories(shipped: dict[str, Report]) -> None:
    found = roofline(several([shipped["digits/f16"], shipped["digits/f16_tcgen05"]]))
    assert [(point.trace, point.memory) for point in found.points] == [
        (trace, memory) for trace in ("digits/f16", "digits/f16_tcgen05") for memory in ("shared memory", "L2", "HBM")
    ]
    figure = draw(found)
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert "shared memory, 128 bytes/clk" in texts
    assert "L2, 38 bytes/clk" in texts
    assert "HBM, 13.5 bytes/clk" in texts
    assert "tensor cores, 2,048 FMA/clk (h100_sxm)" in texts
    assert "tensor cores, 8,192 FMA/clk (b200)" in texts
    assert len(figure.legends[0].get_texts()) == len(found.points)


def test_what_is_drawn(shipped: dict[str, Report], folder: Path) -> None:
    """Each marker stands where the point is, below its roof; a run that moves nothing is open, at the right; nothing
    leaves the picture."""
    idle = run(folder, f".repeat 20 {{ {engine.s(20)} }}")
    found = roofline([*(shipped[trace] for trace in ("digits/s8", "digits/e4m3")), idle])
    figure = draw(found)
    (axes,) = figure.axes
    markers = [line for line in axes.lines if line.get_marker() not in ("None", "")]
    assert len(markers) == 3
    for line, point in zip(markers, found.points, strict=True):
        x, y = line.get_xdata()[0], line.get_ydata()[0]  # type: ignore[index]
        assert y == point.achieved
        assert axes.get_xlim()[0] < x < axes.get_xlim()[1]  # type: ignore[operator]
        assert axes.get_ylim()[0] < y < point.limit < axes.get_ylim()[1]  # type: ignore[operator]
        if point.intensity < math.inf:
            assert x == point.intensity
        else:
            assert line.get_markerfacecolor() == "white"
    assert "nothing moved in shared memory" in figure.legends[0].get_texts()[2].get_text()
    assert "FMA/clk/SM" in axes.get_ylabel()


def test_words_do_not_overlap(shipped: dict[str, Report]) -> None:
    figure = draw(roofline(several(list(shipped.values()))))
    figure.canvas.draw()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert not [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b) and abs(a.y0 - b.y0) < 1]
    for box in (*boxes, figure.legends[0].get_window_extent()):
        assert figure.bbox.x0 <= box.x0
        assert box.x1 <= figure.bbox.x1


@pytest.mark.parametrize("suffix", ["svg", *(pytest.param(x, marks=exhaustive) for x in ("png", "pdf"))])
def test_equal_numbers_give_equal_files(shipped: dict[str, Report], tmp_path: Path, suffix: str) -> None:
    found = roofline([shipped["digits/f16"]])
    for name in "ab":
        write_plot(found, tmp_path / f"{name}.{suffix}")
    first, second = ((tmp_path / f"{name}.{suffix}").read_bytes() for name in "ab")
    assert first == second
    assert len(first) > 2000


def test_what_cannot_be_drawn(folder: Path) -> None:
    with pytest.raises(ViewError, match="no matrix instructions"):
        roofline([run(folder, "mov.u32 %r0, 1;")])
    with pytest.raises(ViewError, match="without a config"):
        roofline([simulator.run("digits/f16", config=None, arithmetic="none")])
    with pytest.raises(ViewError, match="no run"):
        roofline([])
    with pytest.raises(ViewError, match="named, performed"):
        roofline([simulator.run("digits/f16", arithmetic="none")], "logical")
    assert simulator.run("digits/f16", config=None, arithmetic="none").work == Work()


def test_command_line(tcsim: Tcsim, tmp_path: Path) -> None:
    """Traces on configs of their own, several configs, three formats, a picture."""
    picture = tmp_path / "roof.png"
    arguments = (
        "roofline",
        "digits/s8",
        "digits/f16_tcgen05@b200",
        "--config",
        "h100_sxm,a100",
        "--count",
        "performed",
    )
    code, out, err = tcsim(*arguments, "--format", "json", "--output", picture)
    assert (code, err) == (0, "")
    document = json.loads(out)
    runs = [(point["trace"], point["config"]) for point in document["points"]]
    assert runs == [("digits/s8", "h100_sxm"), ("digits/s8", "a100"), ("digits/f16_tcgen05", "b200")]
    assert picture.read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader(io.StringIO(tcsim(*arguments, "--format", "csv")[1])))
    assert [float(row["share"]) for row in rows] == [point["share"] for point in document["points"]]
    table = tcsim(*arguments)[1].splitlines()
    assert len(table) == 3 + len(rows)
    assert table[0].startswith("multiply-adds (FMA) that are performed")
    assert set(document["points"][0]) >= set(Point.__dataclass_fields__)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("TRACE",)),
        (("nothing.trace",), ("nothing.trace",)),
        (("digits/f16@h100",), ("h100", "h100_sxm")),
        (("digits/f16", "--config", "none"), ("without a config",)),
        (("digits/f16", "--output", "/nowhere/at/all/x.png"), ("/nowhere/at/all/x.png", "cannot be written")),
        (("digits/f16", "--output", "x.jpeg"), ("x.jpeg", ".svg")),
        (("digits/f16", "--count", "logical"), ("logical", "performed")),
    ],
)
def test_bad_use(
    tcsim: Tcsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = tcsim("roofline", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert all(word in err for word in words)
    assert not list(tmp_path.iterdir())


def test_config_limits() -> None:
    """Half the bandwidth of shared memory halves its limit."""
    config = load_config("h100_sxm")
    slow = replace(config, shared=replace(config.shared, cycles=2 * config.shared.cycles))
    fast, half = (roofline([simulator.run("digits/f16", c, arithmetic="none")]).points[0] for c in (config, slow))
    assert half.memory_limit == fast.memory_limit / 2
    assert half.share <= 1
